"""Conjunctions and thresholds learned by statistical queries: their exact losses, their sizes, and that they keep their
contracts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from dpledger.accounting.composition import Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.rules import cost
from dpledger.audit.learning.contracts import check_contract
from dpledger.audit.learning.populations import Population, hard_populations
from dpledger.errors import ContractViolation
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.queries import thresholds
from dpledger.mechanisms.learning.queries.conjunctions import Conjunction, PrivateConjunctionLearner
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.queries.thresholds import PrivateSQThresholdLearner, searched
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ThresholdClass
from dpledger.mechanisms.learning.theory.contracts import PPACContract
from dpledger.mechanisms.learning.theory.query_sizes import conjunction_size
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from learning_oracle import Example, worst_loss
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

NAN = float("nan")
RELATIONS = [Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.LABEL_FLIP]


def sample_of(data: Sequence[Example]) -> LabeledSample:
    return LabeledSample([x for x, _ in data], [y for _, y in data])


class Conforms(MechanismConformance):
    relations = tuple(Relation)
    good_data = LabeledSample([0, 1, 2, 3], [1, 1, 0, 0])
    bad_data = (
        LabeledSample([], []),
        LabeledSample([NAN, -(10**400), "x", None, 2**200, object(), [1]], [0, 1, NAN, "1", None, 3, []]),
        LabeledSample(np.array([NAN, np.inf, -np.inf]), np.array([NAN, 1, np.inf])),
        LabeledSample(pd.Series([1, None]), pd.Series(["a", "1"])),
    )
    bad_containers = (None, [1, 0], LabeledSample([1], [1, 0]), LabeledSample("x", [1]), LabeledSample([1], 1))


class TestConjunctions(Conforms):
    good_data = LabeledSample([0] * 25, [1] * 25)
    bad_parameters = (
        {"variables": 0},
        {"variables": 1.5},
        {"epsilon": 0},
        {"alpha": 1},
        {"beta": 0},
        {"epsilon": "1e-40", "beta": "0.1"},
    )

    def make(self, **changes: Any) -> Any:
        return PrivateConjunctionLearner(**{"variables": 3, "epsilon": "0.5", "beta": "0.9", **changes})


class TestThresholds(Conforms):
    bad_parameters = ({"points": 0}, {"points": 2**64 + 1}, {"epsilon": NAN}, {"alpha": "1e-10"}, {"beta": 1})

    def make(self, **changes: Any) -> Any:
        return PrivateSQThresholdLearner(**{"points": 2**64, "epsilon": "0.5", **changes})


# ---- laws, by enumeration -------------------------------------------------------------------------------------------


def noise_at_most(scale: float, most: int) -> float:
    """P(Z <= most) of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    return 1 - q ** (most + 1) / (1 + q) if most >= 0 else q ** (-most) / (1 + q)


def law_of_conjunctions(learner: PrivateConjunctionLearner, data: Sequence[Example]) -> np.ndarray[Any, Any]:
    """The probability of every set of literals, one record and one literal at a time."""
    d, chances = learner.variables, []
    for literal in range(2 * d):
        at, negated = literal % d, literal >= d
        count = sum(1 for x, y in data if y == 1 and (x >> at & 1) == int(negated))
        chances.append(noise_at_most(float(learner.noise.scale), learner.threshold - count))
    sets = itertools.product((0, 1), repeat=2 * d)
    return np.array([math.prod(p if kept else 1 - p for p, kept in zip(chances, one, strict=True)) for one in sets])


def law_of_thresholds(learner: PrivateSQThresholdLearner, data: Sequence[Example]) -> np.ndarray[Any, Any]:
    """The probability of every threshold, by all paths of the search."""
    found = np.zeros(learner.points + 1)
    p, q = learner.tolerance.numerator, learner.tolerance.denominator
    scale = float(learner.oracle.parts().of.scale)  # type: ignore[union-attr]

    def fails(hits: int) -> float:
        return noise_at_most(scale, -(q * hits - p * len(data)))

    def walk(low: int, high: int, chance: float) -> None:
        if low == high:
            found[low] += chance
            return
        at = (low + high) // 2
        not_above = fails(sum(1 for x, y in data if x >= at and y == 1))
        not_below = fails(sum(1 for x, y in data if x < at and y == 0))
        walk(at + 1, high, chance * (1 - not_above))
        walk(low, at, chance * not_above * (1 - not_below))
        found[at] += chance * not_above * not_below

    walk(0, learner.points, 1.0)
    return found


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("variables", [1, 2])
def test_no_neighbours_tell_conjunctions_apart_by_more_than_epsilon(relation: Relation, variables: int) -> None:
    learner = PrivateConjunctionLearner(variables, epsilon=2, beta="0.9").under(relation, Unit())
    for size in (1, 2, 3):
        loss = worst_loss(lambda data: law_of_conjunctions(learner, data), 2**variables, size, relation.value)
        assert 0.1 < loss <= 2 + 1e-9


@pytest.mark.parametrize("relation", RELATIONS)
def test_one_record_moves_the_counts_by_what_is_declared(relation: Relation) -> None:
    learner = PrivateConjunctionLearner(3, epsilon=1).under(relation, Unit("user", 5))
    examples = list(itertools.product(range(8), (0, 1)))
    moves = [
        int(np.abs(learner._counts(sample_of([one])) - learner._counts(sample_of([two] if two else []))).sum())
        for one in examples
        for two in (
            [None]
            if relation is Relation.ADD_REMOVE
            else [two for two in examples if relation is Relation.REPLACE_ONE or two[0] == one[0]]
        )
    ]
    assert max(moves) * 5 == learner.sensitivity


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("points", [1, 2, 3])
def test_no_neighbours_tell_thresholds_apart_by_more_than_epsilon(relation: Relation, points: int) -> None:
    learner = PrivateSQThresholdLearner(points, epsilon=2, alpha="0.4").under(relation, Unit())
    for size in (1, 2, 3):
        loss = worst_loss(lambda data: law_of_thresholds(learner, data), points, size, relation.value)
        assert 0.1 < loss <= 2 + 1e-9


def test_draws_follow_their_laws_and_not_those_of_twice_the_epsilon() -> None:
    data = [(0, 1), (1, 1), (2, 0), (3, 0), (0, 1), (2, 1)]
    for relation in RELATIONS[:2]:
        ands = PrivateConjunctionLearner(2, epsilon=4, beta="0.9").under(relation, Unit())
        drawn = ands.sample(sample_of(data), 2000, seeded(5)) @ [8, 4, 2, 1]
        tried: list[Any] = [(drawn, law_of_conjunctions, ands)]
        cuts = PrivateSQThresholdLearner(3, epsilon=8, alpha="0.4").under(relation, Unit())
        tried.append((cuts.sample(sample_of(data), 2000, seeded(6)), law_of_thresholds, cuts))
        for places, law, learner in tried:
            other = type(learner)(
                **{
                    name: getattr(learner, name)
                    for name in learner.__dataclass_fields__
                    if name not in ("epsilon", "kind")
                },
                epsilon=2 * learner.epsilon,
            )
            counts = dict(enumerate(np.bincount(places, minlength=len(law(learner, data))).tolist()))
            assert events_p_value(counts, 2000, dict(enumerate(law(learner, data).tolist()))) > SIGNIFICANCE
            assert events_p_value(counts, 2000, dict(enumerate(law(other, data).tolist()))) < SIGNIFICANCE


# ---- conjunctions ---------------------------------------------------------------------------------------------------


def test_conjunctions_predict() -> None:
    found = Conjunction(3, positive=(0,), negative=(2,))
    assert isinstance(found, Hypothesis)
    assert found.predict([[1, 0, 0], [1, 1, 1], [0, 0, 0], "x"]).tolist() == [1, 0, 0, 0]
    assert found.predict([1, 3, 7]).tolist() == [1, 1, 0]
    assert str(found) == "x0 and not x2"
    assert str(Conjunction(3, (), ())) == "1"
    assert Conjunction(2, (0, 1), (0, 1)).predict([0, 1, 2, 3]).tolist() == [0] * 4
    assert found.output_in_class


def test_without_a_positive_example_all_literals_are_kept() -> None:
    learner = PrivateConjunctionLearner(4, epsilon=1).under(Relation.ADD_REMOVE, Unit())
    for rows in (LabeledSample([], []), LabeledSample([3] * 50, [0] * 50)):
        found = learner.release(rows, entropy=seeded(1)).value
        assert (found.positive, found.negative) == ((0, 1, 2, 3), (0, 1, 2, 3))
        assert found.predict(range(16)).tolist() == [0] * 16


@pytest.mark.parametrize(
    ("variables", "sharp", "one_by_one", "closed_real"),
    [(5, 15_401, 534_769, 23_966), (10, 64_236, 2_360_883, 106_954), (20, 269_854, 10_330_760, 472_177)],
)
def test_sizes_of_conjunctions(variables: int, sharp: int, one_by_one: int, closed_real: int) -> None:
    """The table of the specification; its closed form is for a threshold that is no whole number."""
    plan = conjunction_size(variables, "0.1", "0.05", scale=2 * variables)
    others = dict(plan.others)
    assert (plan.needed, others["query by query"]) == (sharp, one_by_one)
    assert closed_real <= others["closed form"] <= closed_real * 1.004
    threshold = int(dict(plan.inside)["threshold"])
    assert threshold == math.ceil(2 * variables * math.log(4 * variables / 0.05))

    def failure(m: int) -> float:
        return float(2 * variables * binom.cdf(2 * threshold, m, 0.1 / (2 * variables)))

    assert failure(plan.needed) <= 0.025 * (1 + 1e-6)
    assert failure(plan.needed - 1) > 0.025 * (1 - 1e-6)


@pytest.mark.parametrize(
    ("variables", "alpha", "beta", "known"),
    [(5, 0.1, 0.05, 15_288), (10, 0.1, 0.05, 64_017), (20, 0.1, 0.05, 269_001), (6, 0.2, 0.1, 9842)],
)
def test_whole_noise_needs_hardly_more_than_continuous_noise(
    variables: int, alpha: float, beta: float, known: int
) -> None:
    """The published sizes of continuous noise, whose threshold is no whole number; ours is the next one."""
    twice = math.floor(4 * variables * math.log(4 * variables / beta))
    sizes = np.arange(known - 1, known + 1)
    failure = 2 * variables * np.asarray(binom.cdf(twice, sizes, alpha / (2 * variables)))
    assert failure[1] <= beta / 2 < failure[0]
    ours = conjunction_size(variables, str(alpha), str(beta), scale=2 * variables).needed
    assert known <= ours <= 1.008 * known


def test_beyond_every_dataset_the_closed_form_is_the_plan() -> None:
    learner = PrivateConjunctionLearner(1000, epsilon="1e-9").under(Relation.REPLACE_ONE, Unit())
    plan = learner.plan()
    assert plan.needed == dict(plan.others)["closed form"] > 10**12
    assert learner.parameters()["needed"] == str(plan.needed)
    scope = Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=PureDP(1))
    assert scope.release(learner, LabeledSample([1], [1])).value.output_in_class


def conjunctions(variables: int) -> FiniteClass:
    """All of them, as rows over all points; and the constant 0."""
    bits = bits_of(range(2**variables), variables).bits.astype(bool)
    rows = [
        np.all([bits[:, at] == (sign == 1) for at, sign in enumerate(signs) if sign != 2] or [True], axis=0)
        & np.ones(len(bits), dtype=bool)
        for signs in itertools.product((0, 1, 2), repeat=variables)
    ]
    return FiniteClass(np.array([*rows, np.zeros(len(bits), dtype=bool)]))


def test_conjunctions_keep_their_contract() -> None:
    """Where one literal hides just below and just above what it may; uniformly; on one point."""
    learner = PrivateConjunctionLearner(6, epsilon=1, alpha="0.2", beta="0.1")
    contract = PPACContract(alpha="0.2", beta="0.1", epsilon=1)
    assert learner.under(Relation.REPLACE_ONE, Unit()).plan().needed == 9908
    populations = (
        Population("uniform", tuple((x, int(x & 1)) for x in range(64)), (1,) * 64),
        Population("hidden", ((63, 1), (62, 0), (61, 1), (59, 1), (0, 0)), (900, 100, 16, 17, 30)),
        Population("one", ((21, 1),), (1,)),
        Population("none", tuple((x, 0) for x in range(64)), (1,) * 64),
    )
    found = check_contract(
        learner,
        contract,
        9908,
        populations,
        concepts=conjunctions(6),
        trials=300,
        relation=Relation.REPLACE_ONE,
        error=Decimal("1e-4"),
    )
    assert found.verdict == "not_refuted"
    assert found.met


# ---- thresholds -----------------------------------------------------------------------------------------------------


def test_the_search_needs_two_queries_a_halving() -> None:
    for points in (1, 2, 3, 7, 8, 100, 1000):
        for place in {0, 1, points // 2, points - 1, points}:
            asked: list[int] = []
            rows = np.arange(points)

            def above(psi: Any, rows: Any = rows, place: int = place, asked: Any = asked) -> bool:
                asked.append(1)
                return bool(psi(rows, (rows < place).astype(int)).any())

            assert searched(points, above) == place
            assert len(asked) <= 2 * math.ceil(math.log2(points + 1))


def test_the_learner_of_the_specification() -> None:
    learner = PrivateSQThresholdLearner(4096, epsilon=1).under(Relation.REPLACE_ONE, Unit())
    assert (learner.queries, learner.tolerance) == (26, Fraction(1, 20))
    assert learner.plan().needed == 7226  # 7225 with continuous noise
    assert "an error of at most 0.1, but with probability 0.05, where a threshold fits" in learner.plan().words()
    assert PrivateSQThresholdLearner(4096, epsilon=1).under(Relation.ADD_REMOVE, Unit()).plan().needed == 6864
    rng, failed, most = np.random.default_rng(1), 0, 0
    for _ in range(600):
        cut = int(rng.integers(4097))
        x = rng.integers(4096, size=7226)
        sample = LabeledSample(x, (x < cut).astype(np.uint8))
        run = learner.oracle.open(sample, entropy=seeded(int(rng.integers(2**40))))
        place = searched(4096, lambda psi: int(run.ask(lambda x, y: psi(x, y) * 20 - 1)) > 0)  # noqa: B023
        failed += abs(place - cut) > 409.6
        most = max(most, run.asked)
    assert failed == 0
    assert most <= 21


@pytest.mark.slow
def test_thresholds_keep_their_contract() -> None:
    learner = PrivateSQThresholdLearner(8, epsilon=4, alpha="0.2", beta="0.1")
    needed = learner.under(Relation.ADD_REMOVE, Unit()).plan().needed
    found = check_contract(
        learner,
        PPACContract(alpha="0.2", beta="0.1", epsilon=4),
        needed,
        hard_populations(ThresholdClass(8), "0.2")[::9],
        concepts=ThresholdClass(8),
        trials=120,
        error=Decimal("1e-4"),
    )
    assert found.verdict == "not_refuted"
    assert found.met


def test_the_answer_does_not_depend_on_the_number_of_records_but_through_counts() -> None:
    """Null records count nowhere, under every relation."""
    rows = LabeledSample([3.0] * 40 + [4.0] * 40 + [NAN] * 500, [1] * 40 + [0] * 40 + [1] * 500)
    alone = LabeledSample([3.0] * 40 + [4.0] * 40, [1] * 40 + [0] * 40)
    for relation in Relation:
        learner = PrivateSQThresholdLearner(9, epsilon=1).under(relation, Unit())
        assert learner.sample(rows, 20, seeded(3)).tolist() == learner.sample(alone, 20, seeded(3)).tolist()


def test_finer_than_a_billionth_a_tolerance_is_taken_smaller() -> None:
    learner = PrivateSQThresholdLearner(9, epsilon=1, alpha="0.333333333333")
    assert learner.tolerance <= Fraction(learner.alpha) / 2 < learner.tolerance + Fraction(1, 10**9)


# ---- in a ledger ----------------------------------------------------------------------------------------------------

ROWS = LabeledSample(list(range(64)) * 40, ([1] * 20 + [0] * 44) * 40)


def test_a_learner_pays_for_all_its_queries_and_a_search_on_the_oracle_for_those_it_asked() -> None:
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="replace_one", budget=PureDP(10))
    learner = PrivateSQThresholdLearner(64, epsilon=2)
    assert scope.release(learner, ROWS).value.output_in_class
    assert scope.spent(0).upper == pytest.approx(2)
    oracle = StatisticalQueryOracle(epsilon=2, queries=14, mode="uniform", values="whole", n=2560, chains=2)
    with scope.open(oracle, LabeledSample(np.array(ROWS.x), np.array(ROWS.y))) as session:
        place = searched(64, lambda psi: session.ask(psi) > 0.05)
    parts = session.receipt.entry.body.parts  # type: ignore[union-attr]
    assert isinstance(parts, Repeated)
    assert parts.done is not None
    assert parts.done < 14
    assert abs(place - 20) <= 4
    assert scope.spent(0).upper == pytest.approx(2 + parts.done / 7)
    book.verify()


def test_a_learner_that_raises_midway_leaves_its_full_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    def halfway(points: int, above: Any) -> int:
        above(lambda x, y: y == 1)
        raise RuntimeError("in the middle")

    monkeypatch.setattr(thresholds, "searched", halfway)
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=PureDP(3))
    with pytest.raises(ContractViolation, match="full charge"):
        scope.release(PrivateSQThresholdLearner(64, epsilon=1), ROWS)
    assert scope.spent(0).upper == pytest.approx(1)


@pytest.mark.parametrize("relation", Relation)
def test_the_parts_cost_no_more_than_the_claim(relation: Relation) -> None:
    for unit in (Unit(), Unit("user", 7)):
        for epsilon in ("0.1", "1", "0.333333333333"):
            cuts = PrivateSQThresholdLearner(1000, epsilon=epsilon).under(relation, unit)
            ands = PrivateConjunctionLearner(9, epsilon=epsilon).under(relation, unit)
            for learner in (cuts, ands):
                pure = cost(learner.parts(), relation).pure
                assert pure is not None
                assert Decimal(epsilon) * Decimal("0.9999999999") <= pure <= Decimal(epsilon)
