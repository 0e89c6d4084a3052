"""Numbers that promise utility: VC dimensions against enumeration, sample sizes against the specification's numbers and
against the probabilities that they bound; learners without privacy."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.errors import InfeasiblePlan, ParameterError, WorkLimit
from dpledger.mechanisms.learning.baselines import (
    occam_learner,
    parity_learner,
    point_learner,
    threshold_learner,
)
from dpledger.mechanisms.learning.compare import compare_private_nonprivate
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.recommended import recommend
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import (
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    matrix_of,
)
from dpledger.mechanisms.learning.theory.needed_units import ln_growth, natural_log, pairs_uc, smallest, uc_one
from dpledger.mechanisms.learning.theory.sizes import (
    occam,
    one_sided,
    plan_item_proper,
    private_agnostic,
    private_occam,
)
from dpledger.mechanisms.learning.theory.vc import vc_dim
from learning_oracle import exponential_law

pytestmark = pytest.mark.sliced

Matrix = npt.NDArray[np.bool_]

# ---- VC dimension ---------------------------------------------------------------------------------------------------


def by_enumeration(matrix: Matrix) -> int:
    """The size of the largest set that is shattered, of all sets."""
    points = range(matrix.shape[1])
    return max(
        k for k in range(matrix.shape[1] + 1) for s in itertools.combinations(points, k)
        if len({tuple(row[list(s)]) for row in matrix}) == 2**k
    )  # fmt: skip


@given(st.integers(1, 24), st.integers(1, 6), st.integers(0, 2**32))
def test_the_vc_dimension_is_that_of_all_sets_and_its_witness_is_shattered(
    concepts: int, points: int, seed: int
) -> None:
    matrix = np.random.default_rng(seed).integers(0, 2, (concepts, points)).astype(bool)
    found = vc_dim(matrix)
    assert found.dimension == by_enumeration(matrix) == len(found.witness)
    assert len(np.unique(matrix[:, list(found.witness)], axis=0)) == 2**found.dimension


@pytest.mark.parametrize(
    ("concepts", "dimension"),
    [
        (PointClass(1), 0),
        *((PointClass(n), 1) for n in (2, 4, 8)),
        *((ThresholdClass(n), 1) for n in (1, 2, 9)),
        *((ParityClass(d), d) for d in range(1, 6)),
    ],
    ids=str,
)
def test_structured_classes_have_the_dimension_of_their_matrix(
    concepts: PointClass | ThresholdClass | ParityClass, dimension: int
) -> None:
    assert vc_dim(matrix_of(concepts)).dimension == concepts.vc == dimension


def test_intervals_and_conjunctions() -> None:
    x = np.arange(7)
    intervals = np.array([(a <= x) & (x < b) for a in range(8) for b in range(a, 8)])
    assert vc_dim(intervals).dimension == 2
    bits = np.array(list(itertools.product((0, 1), repeat=3)))
    literals = [[np.ones(8, bool), bits[:, j] == 1, bits[:, j] == 0] for j in range(3)]
    conjunctions = [np.logical_and.reduce(one) for one in itertools.product(*literals)]
    assert vc_dim(np.array([*conjunctions, np.zeros(8, bool)])).dimension == 3


def test_growth_is_at_least_sauers_sum() -> None:
    for vc, n in itertools.product((0, 1, 4), (1, 3, 20, 500)):
        assert ln_growth(vc, n) >= natural_log(sum(math.comb(n, i) for i in range(min(vc, n) + 1)))


def test_a_random_class_is_searched_to_the_end() -> None:
    matrix = np.random.default_rng(1).integers(0, 2, (256, 24))
    assert vc_dim(matrix).dimension >= 5


def test_a_search_that_is_too_long_says_what_is_known() -> None:
    with pytest.raises(WorkLimit, match="from 6 to 8"):
        vc_dim(np.random.default_rng(1).integers(0, 2, (256, 24)), work_limit=3000)
    with pytest.raises(ParameterError, match="matrix"):
        vc_dim([[2]])


# ---- sample sizes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "alpha", "beta", "epsilon", "realizable", "sharp", "agnostic"),
    [
        (1024, ".1", ".05", 1, 248, 153, 1986),
        (1024, ".1", ".05", "0.1", 2031, 1039, 2648),
        (2**20, ".05", ".01", "0.5", 1661, 930, 14775),
    ],
)
def test_private_sizes_are_those_of_the_specification(
    size: int, alpha: str, beta: str, epsilon: str, realizable: int, sharp: int, agnostic: int
) -> None:
    learner = ExponentialPPACLearner(PointClass(size), epsilon=epsilon)
    sharply = ExponentialPPACLearner(PointClass(size), epsilon=epsilon, monotone=True)
    assert learner.plan(alpha, beta).needed == realizable
    assert sharply.plan(alpha, beta).needed == sharp
    assert private_agnostic(size, learner.exponent, alpha, beta).needed == agnostic
    assert learner.plan(alpha, beta, agnostic=True).needed <= agnostic


@pytest.mark.parametrize(
    ("bits", "alpha", "epsilon", "bound", "known", "other"),
    [
        (64, ".01", 1, "uniform deviation and choice", 259439, 947144),
        (32, ".05", "0.1", "agnostic exponential mechanism", 20142, 27404),
    ],
)
def test_the_agnostic_plan_is_the_least_bound_and_names_it(
    bits: int, alpha: str, epsilon: str, bound: str, known: int, other: int
) -> None:
    """Thresholds, at beta = 0.05: the numbers of the specification."""
    plan = ExponentialPPACLearner(ThresholdClass(2**bits), epsilon=epsilon).plan(alpha, "0.05", agnostic=True)
    assert (plan.bound, plan.needed, [needed for _, needed in plan.others]) == (bound, known, [other])
    assert bound in plan.words()
    assert f"{other:,}" in plan.words()


@pytest.mark.parametrize(("bits", "known"), [(20, 2969), (64, 6461), (256, 20472)])
def test_points_deviate_little_at_once(bits: int, known: int) -> None:
    plan = plan_item_proper(2**bits, "0.5", "0.1", "0.05", vc=1)
    alone = private_agnostic(2**bits, "0.5", "0.1", "0.05").needed
    assert plan.needed == known < alone
    assert bits != 20 or alone == 3372


@given(st.integers(1, 10**6), st.integers(1, 999), st.integers(1, 999), st.integers(1, 4000))
def test_parts_of_alpha_keep_their_promises(size: int, alpha: int, beta: int, exponent: int) -> None:
    a, b, rate = Decimal(alpha).scaleb(-3), Decimal(beta).scaleb(-3), Decimal(exponent).scaleb(-3)
    plan = plan_item_proper(size, rate, a, b)
    assert sum(Fraction(value) for _, value in plan.inside) <= Fraction(a)
    with mp.workdps(40):
        n, (a1, a2, a3) = plan.needed, (mp.mpf(str(value)) for _, value in plan.inside)
        third = mp.mpf(str(b)) / 3 * (1 + mp.mpf("1e-20"))
        assert size * mp.exp(-2 * n * a1**2) <= third
        assert mp.exp(-2 * n * a2**2) <= third
        assert size * mp.exp(-n * mp.mpf(str(rate)) * a3) <= third


def test_sizes_without_privacy() -> None:
    assert occam(1024, "0.1", "0.05").needed == math.ceil(math.log(1024 / 0.05) / -math.log(0.9))
    assert one_sided("0.1", "0.05").needed == 29


def test_privacy_costs_nothing_at_the_end_and_binds_before() -> None:
    assert private_occam(1024, 50, "0.1", "0.05").needed == occam(1024, "0.1", "0.05").needed
    assert private_occam(1024, "0.01", "0.1", "0.05").binding == "privacy"
    assert private_agnostic(1024, "0.2", "0.1", "0.05").binding == "sampling"
    tight = private_agnostic(1024, "0.01", "0.1", "0.05")
    assert tight.binding == "privacy"
    assert dict(tight.inside) == {"exponent of an error that is counted on": Decimal("0.01")}
    assert "privacy needs" in tight.words()


@given(st.integers(1, 10**6), st.integers(1, 999), st.integers(1, 999), st.integers(1, 4000))
def test_one_record_less_does_not_keep_the_bound(size: int, alpha: int, beta: int, exponent: int) -> None:
    a, b, rate = Decimal(alpha).scaleb(-3), Decimal(beta).scaleb(-3), Decimal(exponent).scaleb(-3)
    needed = private_occam(size, rate, a, b).needed
    with mp.workdps(40):
        kept = 1 - mp.mpf(str(a)) * -mp.expm1(-mp.mpf(str(rate)))
        assert size * kept**needed <= mp.mpf(str(b)) * (1 + mp.mpf("1e-20"))
        assert needed == 0 or size * kept ** (needed - 1) > mp.mpf(str(b)) * (1 - mp.mpf("1e-9"))


def test_deviations_and_pairs() -> None:
    logarithm = natural_log(1025)
    assert uc_one("0.05", "0.1", ln_card=logarithm) == math.ceil((math.log(1025) + math.log(10)) / (2 * 0.0025))
    many = natural_log(2**60)
    assert uc_one("0.05", "0.1", ln_card=many, vc=1, thresholds=True) == math.ceil(2 / 0.0025 * math.log(40))
    for vc, m in itertools.product((0, 1, 5), (1, 10)):
        n = uc_one("0.1", "0.05", vc=vc, m=m, mult=3)
        for size, holds in ((n, True), (n - 1, False)):
            left = math.log(12) + float(ln_growth(vc, 2 * size * m)) - size * 0.01 / 8
            assert (left <= math.log(0.05)) == holds
    rate = 2 * 0.25 * 0.01 / 1.25**2
    found = pairs_uc("0.25", "0.01", "0.05", ln_hypotheses=natural_log(100), ln_card=logarithm)
    assert found == math.ceil((math.log(100) + math.log(1025) + math.log(20)) / rate)
    assert pairs_uc(Fraction(1, 4), "0.01", "0.05", ln_hypotheses=natural_log(100), ln_card=logarithm, vc=1) <= found
    with pytest.raises(ParameterError, match="ln_card"):
        uc_one("0.1", "0.1")


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_smallest_that_is_enough(least: int, start: int) -> None:
    assert smallest(lambda n: n >= least, start) == max(least, start)


def test_what_is_never_enough_is_infeasible() -> None:
    with pytest.raises(InfeasiblePlan, match="more than"):
        smallest(lambda n: False, 1)


@pytest.mark.parametrize("bad", ["0", "1", "nan", "-0.1"])
def test_targets_are_inside_the_unit_interval(bad: str) -> None:
    for plan in (occam, lambda size, a, b: private_occam(size, 1, a, b)):
        with pytest.raises(ParameterError, match="alpha"):
            plan(10, bad, "0.1")
        with pytest.raises(ParameterError, match="beta"):
            plan(10, "0.1", bad)


@pytest.mark.parametrize(
    "concepts", [PointClass(1024), ThresholdClass(2**64), ParityClass(10), FiniteClass([[0, 1], [1, 1]])], ids=str
)
def test_the_table_of_what_privacy_costs(concepts: ConceptClass) -> None:
    for agnostic in (False, True):
        table = {row.learner: row for row in compare_private_nonprivate(concepts, "0.1", "0.05", 1, agnostic=agnostic)}
        learner = ExponentialPPACLearner(concepts, epsilon=1)
        assert table["exponential mechanism"].needed == learner.plan("0.1", "0.05", agnostic=agnostic).needed
        free, sharp = table["without privacy"].needed, table["exponential mechanism, monotone"].needed
        assert free <= sharp <= table["exponential mechanism"].needed
        beside = {row.learner: row for row in recommend("0.1", "0.05", 1, 1, concepts, realizable=not agnostic).rows}
        structured = [name for name in table if name in beside]
        assert [(table[name].needed, table[name].status) for name in structured] == [
            (beside[name].needed, beside[name].status) for name in structured
        ]
    with pytest.raises(ParameterError, match="epsilon"):
        compare_private_nonprivate(concepts, "0.1", "0.05", 0)


def test_the_table_has_the_learners_that_know_the_class() -> None:
    """The published sizes of hashed points and of repeated parities, and the orders that stand beside them."""

    def needed(concepts: ConceptClass, **more: Any) -> dict[str, int]:
        return {row.learner: row.needed for row in compare_private_nonprivate(concepts, "0.1", "0.05", 1, **more)}

    points = needed(PointClass(2**40), delta="1e-6")
    assert points["RealizableRepresentationLearner, hashed points"] == 359
    assert (points["proper, pure DP"], points["improper, pure DP"]) == (400, 10)
    assert points["proper, approximate DP"] == math.ceil(10 * math.log(1e6))
    assert "SurrogateAgnosticLearner, hashed points" in needed(PointClass(2**40), agnostic=True)
    assert needed(ParityClass(20))["RepeatedParity"] == 564
    assert "RepeatedParity" not in needed(ParityClass(20), agnostic=True)
    assert not any("hashed" in learner for learner in needed(PointClass(1000)) | needed(PointClass(4)))
    with pytest.raises(ParameterError, match="delta"):
        compare_private_nonprivate(PointClass(8), "0.1", "0.05", 1, delta=1)


# ---- learners without privacy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "concepts", [PointClass(6), ThresholdClass(6), ParityClass(3), FiniteClass(np.eye(6, dtype=int))], ids=str
)
@settings(max_examples=20)
@given(data=st.data())
def test_baselines_agree_with_a_sample_that_can_be_agreed_with(concepts: ConceptClass, data: st.DataObject) -> None:
    x = data.draw(st.lists(st.integers(0, concepts.points - 1), max_size=12))
    sample = LabeledSample(x, concepts.predict(data.draw(st.integers(0, concepts.size - 1)), x).tolist())
    learners = [occam_learner(concepts, sample)]
    match concepts:
        case PointClass():
            assert point_learner(concepts, sample).predict(x).tolist() == sample.y
        case ThresholdClass():
            learners.append(threshold_learner(concepts, sample))
        case ParityClass():
            parity = parity_learner(concepts, sample)
            assert parity is not None
            learners.append(parity)
        case FiniteClass():
            pass
    assert all(found.predict(x).tolist() == sample.y for found in learners)


def test_the_constant_zero_is_not_a_point() -> None:
    assert not point_learner(PointClass(3), LabeledSample([0], [0])).output_in_class


def test_many_bits_are_no_hindrance_and_a_contradiction_has_no_answer() -> None:
    found = parity_learner(ParityClass(100), LabeledSample(np.eye(100, dtype=int)[[0, 99]], [1, 1]))
    assert found is not None
    assert found.place == 1 + 2**99
    assert parity_learner(ParityClass(100), LabeledSample(np.eye(100, dtype=int)[[0, 0]], [0, 1])) is None


def test_errors_generalise_as_pure_privacy_has_it() -> None:
    """e^-eps E err_S <= E err_P <= e^eps E err_S, exactly, over all samples of five."""
    matrix, mass, target, n = matrix_of(ThresholdClass(3)), [0.2, 0.5, 0.3], 1, 5
    for epsilon, true, seen in ((0.2, 0.330240, 0.318138), (1, 0.194945, 0.153236), (3, 0.079666, 0.032187)):
        law, expected = exponential_law(matrix, epsilon / 2), np.zeros(2)
        for points in itertools.product(range(3), repeat=n):
            data = [(x, int(matrix[target, x])) for x in points]
            chance = math.prod(mass[x] for x in points)
            wrong = matrix != matrix[target]
            on_sample = wrong[:, list(points)].mean(axis=1)
            expected += chance * np.array([law(data) @ (wrong @ mass), law(data) @ on_sample])
        assert expected == pytest.approx([true, seen], abs=1e-6)
        assert math.exp(-epsilon) * expected[1] <= expected[0] <= math.exp(epsilon) * expected[1]
