"""Accuracy first: what one row can move, what a run publishes and is charged, and that it is as good as it promises."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from dpledger.accounting.composition import Chain, LaplaceLaw, Sequence, SparseVectorLaw
from dpledger.accounting.ex_post.boundaries import LinearBoundary
from dpledger.accounting.guarantees import ZCDP, AccuracyFailure, ApproxDP, PureDP
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.refinement import AccuracyFirst
from dpledger.mechanisms.refinement.checks.runs import FallingTests, SingleTests
from dpledger.mechanisms.refinement.erm import Family, Norm, Problem, Radius, problem
from dpledger.mechanisms.refinement.examples import ONE, Shape, bounded
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

ROWS, SIZE = 40, 3
SEED = 20261122
X: npt.NDArray[np.float64] = np.linspace(-0.4, 0.3, ROWS * SIZE).reshape(ROWS, SIZE)
Y: npt.NDArray[np.float64] = np.linspace(-1, 1, ROWS)


def each(field: str, *values: object) -> list[dict[str, object]]:
    return [{field: value} for value in values]


BAD: tuple[dict[str, object], ...] = (
    *each("target_excess_risk", 0, -1, "nan", "inf", None, "1e-9"),
    *each("family", "lasso", 3, None),
    *each("rows", 1, 2.5, True, 2**27),
    *each("dimension", 0, 1001, "3"),
    *each("regularisation", 0, "1e-7", 2),
    *each("beta", 0, 1, "nan"),
    *each("feature_bound", 0, -1),
    *each("radius", "loose", 1),
    *each("levels", 1, 10**6),
    *each("keep", 0, 1000),
    {"levels": 50_000, "least_epsilon": "0.0001", "most_epsilon": "0.000100000001"},
    *each("most_epsilon", "1e17"),
    *each("least_epsilon", 0, 10**9, "1e-30"),
    {"noise": "gaussian", "least_mu": "1e-30"},
    {"noise": "gaussian", "most_mu": 10**9, "keep": 20, "boundary": LinearBoundary(tuning=20, delta="1e-6")},
    {"noise": "gaussian", "least_mu": "1e-16", "most_mu": "1.00000003e-16"},
)


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    family: ClassVar[Family]
    good_data = (X, Y)
    bad_data = (
        (np.full((ROWS, SIZE), np.nan), Y),
        (X * 1e300, np.full(ROWS, -np.inf)),
        ([[None, "x", float("inf")]] * ROWS, ["yes"] * ROWS),
        (np.zeros((ROWS, SIZE)), np.zeros(ROWS)),
        ([[1] * (SIZE + 1), 3, None, *X[3:].tolist()], [[1], *Y[1:].tolist()]),
    )
    bad_containers = (None, 3, X, (X, Y[:-1]), (X[:, :-1], Y), (X, Y, Y), (X, X), ([[1]] * 2 + [[1, 2]], Y))
    bad_parameters = BAD

    def make(self, **changes: Any) -> AccuracyFirst:
        own = {
            "target_excess_risk": "0.4",
            "family": self.family,
            "rows": ROWS,
            "dimension": SIZE,
            "regularisation": "0.3",
            "levels": 20,
        }
        return AccuracyFirst(**{**own, **changes})


class TestRidge(_Conformance):
    family = "ridge"


class TestLogistic(_Conformance):
    family = "logistic"
    bad_parameters = (*BAD, {"label_bound": 2})


# ---- what is read ---------------------------------------------------------------------------------------------------

ENTRIES = st.one_of(st.floats(allow_nan=True), st.integers(-3, 3), st.sampled_from(["x", "0.5", None, True]))


@given(
    st.lists(st.lists(ENTRIES, min_size=2, max_size=2), min_size=3, max_size=3),
    st.lists(ENTRIES, min_size=3, max_size=3),
)
def test_whatever_a_row_holds_it_lies_in_the_ball_exactly_and_is_read_alone(
    rows: list[list[object]], labels: list[object]
) -> None:
    shape = Shape(rows=3, dimension=2, feature_bound=Decimal("1.5"), label_bound=Decimal(2), target=None)
    features, signs = bounded((rows, labels), shape, signs=False)
    assert np.abs(features).sum(axis=1).max() <= ONE
    assert np.abs(signs).max() <= ONE
    others, _ = bounded(([rows[0], [0, 0], ["?", None]], labels), shape, signs=False)
    assert (others[0] == features[0]).all()


def test_lists_of_rows_and_numbers_beyond_every_float_are_read() -> None:
    shape = Shape(rows=2, dimension=2, feature_bound=Decimal("0.01"), label_bound=Decimal("0.01"), target=None)
    rows = [np.array([1e308, 0.0]), np.array([-np.inf, 1.0])]
    features, labels = bounded((rows, [1e308, None]), shape, signs=False)
    assert (features / ONE).tolist() == [[1.0, 0.0], [-0.5, 0.5]]
    assert (labels / ONE).tolist() == [1.0, 0.0]


def test_a_row_of_another_length_counts_as_nothing_and_tells_nothing() -> None:
    """Found: it was refused, which is to say whether one person's row has it."""
    shape = Shape(rows=3, dimension=2, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    features, labels = bounded(([[0.5, 0.25], [0.5], 7], [1, [1], "x"]), shape, signs=False)
    assert (features / ONE).tolist() == [[0.5, 0.25], [0, 0], [0, 0]]
    assert (labels / ONE).tolist() == [1, 0, 0]


@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_whatever_the_caller_lets_numpy_raise_no_row_does(family: Family) -> None:
    """Found: a row far below the bound did, under `np.errstate(under="raise")`."""
    x, y = some_data()
    x[0] = 5e-324
    mechanism = a_mechanism(family=family, feature_bound=3)
    plain = mechanism.release((x, y), entropy=seeded(1))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mechanism.release((x, y), entropy=seeded(1)) == plain


def test_a_table_is_read_by_its_target() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "y": Y, "b": X[:, 1], "c": X[:, 2]})
    common: dict[str, Any] = {"target_excess_risk": "0.4", "family": "ridge", "rows": ROWS, "dimension": SIZE}
    table = AccuracyFirst(**common, regularisation="0.3", target="y")
    pair = AccuracyFirst(**common, regularisation="0.3")
    first, second = (one.release(data, entropy=seeded(1)) for one, data in ((table, frame), (pair, (X, Y))))
    assert first.value == second.value
    with pytest.raises(ParameterError, match="target"):
        table.inspect(frame.drop(columns="y"))


# ---- what one row moves ---------------------------------------------------------------------------------------------


def drawn(family: Family, n: int, p: int, seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Rows at corners and inside of the ball."""
    rng = np.random.default_rng(seed)
    corners = np.eye(p)[rng.integers(p, size=n)] * rng.choice([-1.0, 1.0], size=(n, 1))
    inside = rng.laplace(size=(n, p))
    inside /= np.abs(inside).sum(axis=1, keepdims=True)
    x = np.where(rng.random((n, 1)) < 0.5, corners, inside)
    return x, rng.choice([-1.0, 1.0], size=n) * (1.0 if family == "logistic" else rng.random(n))


def solved(risk: Problem, data: object) -> tuple[Any, Any]:
    rows = risk.rows if risk.counts_are_public else None
    shape = Shape(rows=rows, dimension=risk.dimension, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    examples: Any = risk.examples(*bounded(data, shape, signs=risk.signs))
    return examples, risk.minimum(examples)


Data = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def neighbour(relation: Relation, data: Data) -> Data:
    """The same data but for the first row, which is turned around, flipped, nulled, or not there."""
    x, y = (column.copy() for column in data)
    match relation:
        case Relation.REPLACE_ONE:
            x[0], y[0] = -x[-1], -y[0]
        case Relation.LABEL_FLIP:
            y[0] = -y[0]
        case Relation.ZERO_OUT:
            x[0], y[0] = 0.0, 0.0
        case Relation.ADD_REMOVE:
            return x[1:], y[1:]
    return x, y


@settings(max_examples=150)
@given(
    st.sampled_from(["ridge", "logistic"]),
    st.sampled_from(["tight", "reference"]),
    st.sampled_from(list(Relation)),
    st.booleans(),
    st.sampled_from(["l1", "l2"]),
    st.integers(2, 12),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(0, 10**6),
)
def test_one_row_moves_the_statistic_and_the_excess_by_no_more_than_is_said(
    family: Family,
    radius: Radius,
    relation: Relation,
    output: bool,
    norm: Norm,
    n: int,
    p: int,
    crowd: int,
    seed: int,
) -> None:
    """Under add_remove also where there are up to six times as many rows as the public number says."""
    risk = problem(
        family,
        rows=n,
        dimension=p,
        regularisation=Decimal("0.05"),
        radius=radius,
        relation=relation,
        norm=norm,
        perturbed="output" if output else None,
    )
    data = drawn(family, n if risk.counts_are_public else n * crowd, p, seed)
    pair = [solved(risk, one) for one in (data, neighbour(relation, data))]
    assert all(least.certified for _, least in pair)
    power = 30
    first, second = (risk.statistic(one, least, power) * 2.0**-power for one, least in pair)
    moved = np.linalg.norm(first - second, ord=1 if norm == "l1" else 2)
    assert moved <= float(risk.moved) + risk.entries * 2.0**-power
    assert np.sqrt((pair[0][1].theta ** 2).sum()) <= risk.reach
    theta = risk.projected(np.random.default_rng(seed).normal(size=p) * 100)
    rows = None if relation is Relation.ADD_REMOVE else n
    shape = Shape(rows=rows, dimension=p, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    found = [risk.solved(*bounded(one, shape, signs=risk.signs)) for one in (data, neighbour(relation, data))]
    assert all(one.certified for one in found)
    assert abs(found[0].excess(theta) - found[1].excess(theta)) <= float(risk.query_moved)


@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_the_excess_of_too_many_rows_is_over_the_best_in_the_ball(family: Family) -> None:
    """Twelve times as many rows as said pull the minimiser out of the ball. By a fine grid on the ball, and by a search
    along its edge, nothing there is better than what the excess is counted from."""
    risk = problem(
        family,
        rows=50,
        dimension=2,
        regularisation=Decimal("0.05"),
        radius="tight",
        relation=Relation.ADD_REMOVE,
    )
    x = np.tile([0.3, 0.15] if family == "ridge" else [0.6, 0.3], (600, 1))
    shape = Shape(rows=None, dimension=2, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    steps = bounded((x, np.ones(600)), shape, signs=risk.signs)
    examples: Any = risk.examples(*steps)
    outside = risk.minimum(examples).theta
    assert np.sqrt(outside @ outside) > risk.ball
    found = risk.solved(*steps)
    angles = np.linspace(0, 2 * math.pi, 4001)
    edge = [found.excess(risk.ball * np.array([math.cos(angle), math.sin(angle)])) for angle in angles]
    assert min(edge) + 2 * risk.off >= 0
    assert min(edge) <= 1e-5
    assert found.excess(outside) < -0.01


def test_a_best_in_the_ball_that_is_not_found_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = AccuracyFirst("ridge", 40, 2, "0.05", "0.4").under(Relation.ADD_REMOVE, Unit("patient"))
    data = np.tile([0.3, 0.15], (480, 1)), np.ones(480)
    assert not mechanism.release(data, entropy=seeded(1)).outside_guarantee
    monkeypatch.setattr("dpledger.mechanisms.refinement.erm.shared._HALVINGS", 0)
    release = mechanism.release(data, entropy=seeded(1))
    assert release.outside_guarantee
    assert release.value.theta == ()
    assert release.parts == mechanism.parts()


def test_far_too_many_rows_are_not_answered() -> None:
    mechanism = AccuracyFirst("ridge", 40, 2, "0.3", "0.4").under(Relation.ADD_REMOVE, Unit("patient"))
    assert mechanism.parameters()["assumes"] == "there are at most 640 rows"
    for count, outside in ((0, False), (40, False), (640, False), (641, True)):
        release = mechanism.release((np.zeros((count, 2)), np.zeros(count)), entropy=seeded(1))
        assert release.outside_guarantee is outside
    assert mechanism.release(([], []), entropy=seeded(1)).value.reached
    with pytest.raises(ParameterError, match="data"):
        AccuracyFirst("ridge", 40, 2, "0.3", "0.4").inspect(([], []))


def test_a_statistic_is_whole_steps_that_fit_or_refused() -> None:
    """Found: at 2^42 steps in 1 the sum of 2^22 rows went round, so that one row moved it by 4,194,303 and not by 4."""
    with pytest.raises(ParameterError, match="most_epsilon"):
        AccuracyFirst("ridge", 2**22, 1, "0.05", "0.05", most_epsilon=10**12)
    finer = AccuracyFirst("ridge", 2**10, 1, "0.5", "0.05", most_epsilon=10**12)
    risk, power = problem("ridge", rows=2**10, dimension=1, regularisation=Decimal("0.5"), radius="tight"), 42
    assert Fraction(str(finer.parameters()["grid"])) == Fraction(1, 2**power)
    whole = np.full((2**10, 1), ONE)
    found = risk.solved(whole, whole[:, 0]).statistic(power)
    assert found.tolist() == [2**52, 2**52]


def test_corners_of_the_ball_move_the_covariances_by_all_that_is_said() -> None:
    risk = problem("ridge", rows=2, dimension=2, regularisation=Decimal("0.1"), radius="tight")
    (one, least), (other, lesser) = (
        solved(risk, (np.array([row, [0, 0]]), np.array([1.0, 0.0]))) for row in ([1.0, 0.0], [0.0, 1.0])
    )
    moved = np.abs(risk.statistic(one, least, 30) - risk.statistic(other, lesser, 30)).sum() * 2.0**-30
    assert moved == 4 == float(risk.moved)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.ZERO_OUT])
@pytest.mark.parametrize(("norm", "most"), [("l1", 2.0), ("l2", math.sqrt(2))])
def test_a_row_that_comes_or_goes_moves_the_covariances_by_half_as_much(
    relation: Relation, norm: Norm, most: float
) -> None:
    risk = problem(
        "ridge",
        rows=2,
        dimension=2,
        regularisation=Decimal("0.1"),
        radius="tight",
        relation=relation,
        norm=norm,
    )
    data = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([-1.0, 0.0])
    first, second = (risk.statistic(*solved(risk, one), 30) * 2.0**-30 for one in (data, neighbour(relation, data)))
    moved = np.linalg.norm(first - second, ord=1 if norm == "l1" else 2)
    assert moved == pytest.approx(most)
    assert moved <= float(risk.moved) <= moved * (1 + 1e-8)


def test_a_row_that_goes_moves_the_excess_by_nearly_all_that_is_said() -> None:
    """One row whose loss is the largest there is at the hypothesis, and none at the minimiser."""
    n, weight = 20_000, 0.005
    risk = problem(
        "ridge",
        rows=n,
        dimension=2,
        regularisation=Decimal("0.005"),
        radius="tight",
        relation=Relation.ADD_REMOVE,
    )
    x = np.tile([weight**0.5, 0.0], (n, 1))
    y = np.ones(n)
    x[0], y[0] = [0.0, 1.0], -1.0
    theta = np.array([0.0, risk.ball])
    excess = []
    for one in ((x, y), (x[1:], y[1:])):
        data, least = solved(risk, one)
        excess.append(risk.risk(theta, data) - least.risk)
    assert 0.97 * float(risk.query_moved) < abs(excess[0] - excess[1]) <= float(risk.query_moved)


@pytest.mark.parametrize("radius", ["tight", "reference"])
def test_half_of_the_query_sensitivity_as_the_released_code_declares_it_is_refuted(radius: Radius) -> None:
    """The minimiser lies at an end of one axis, the hypothesis at an end of the other: a row moves between them."""
    n, weight = 20_000, 0.005
    risk = problem("ridge", rows=n, dimension=2, regularisation=Decimal("0.005"), radius=radius)
    excess = []
    for row in ([0.0, 1.0], [1.0, 0.0]):
        x = np.tile([weight**0.5, 0.0], (n, 1))
        y = np.ones(n)
        x[0], y[0] = row, -1.0
        data, least = solved(risk, (x, y))
        theta = np.array([0.0, risk.ball])
        excess.append(risk.risk(theta, data) - least.risk)
    moved = abs(excess[0] - excess[1])
    assert risk.largest_loss / n < moved <= float(risk.query_moved)
    if radius == "tight":
        assert moved >= 0.97 * float(risk.query_moved)


def test_the_solver_of_logistic_ends_at_its_tolerance_on_separable_rows() -> None:
    risk = problem("logistic", rows=50, dimension=2, regularisation=Decimal("1e-6"), radius="tight")
    x = np.where(np.arange(50) < 25, 1.0, -1.0)[:, None] * [1.0, 0.0]
    assert solved(risk, (x, x[:, 0]))[1].certified


# ---- what it is charged ---------------------------------------------------------------------------------------------


def found_in(book: Ledger, budget: Any, mechanism: AccuracyFirst, data: object) -> Any:
    scope = book.scope("flights", unit="flight", relation="replace_one", budget=budget)
    return scope, scope.release(mechanism, data)


def a_mechanism(**changes: Any) -> AccuracyFirst:
    own: dict[str, Any] = {
        "target_excess_risk": "0.05",
        "family": "logistic",
        "rows": 3000,
        "dimension": 2,
        "regularisation": "0.05",
        "levels": 30,
    }
    return AccuracyFirst(**{**own, **changes})


def some_data(n: int = 3000) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    x = np.random.default_rng(3).uniform(-0.5, 0.5, (n, 2))
    return x, np.sign(x @ [1.0, -0.5])


@pytest.mark.parametrize("budget", [PureDP(200), ApproxDP(200, "1e-6")], ids=["pure", "approx"])
def test_finer_levels_that_were_not_needed_come_back(budget: PureDP | ApproxDP) -> None:
    """E = min(eps_A, t / b2) + eps_t, of the cap eps_A + eps_T, b2 the scale of a query's noise."""
    mechanism = a_mechanism()
    book = Ledger.in_memory(entropy=seeded(1))  # of which some level passes its test
    scope, receipt = found_in(book, budget, mechanism, some_data())
    check, chain = receipt.entry.body.parts.of
    value = receipt.value
    assert value.reached
    assert chain == Chain(LaplaceLaw(mechanism.plan().most_epsilon), reached=LaplaceLaw(value.epsilon))
    assert check.outcome.closed_epochs == (value.level,)
    left = float(scope.account().left_by_account["pure"])
    assert check.threshold_scale * Decimal("0.4") > 1 / check.epsilon, "the threshold has less than 0.4 of epsilon"
    checked = min(float(check.epsilon), value.level / float(check.query_scale))
    assert 200 - left == pytest.approx(checked + float(value.epsilon), rel=1e-9)
    book.verify()


def test_a_zcdp_budget_keeps_the_cap() -> None:
    scope, receipt = found_in(Ledger.in_memory(), ZCDP(100), a_mechanism(), some_data())
    planned, finest = a_mechanism().plan(), float(a_mechanism().plan().most_epsilon)
    check = float(planned.check_epsilon)
    kept = check * math.tanh(check / 2) + finest - 1 + math.exp(-finest)
    assert float(receipt.value.epsilon) < finest
    assert 100 - float(scope.account().left_by_account["rho"]) == pytest.approx(kept, rel=1e-6)


def test_what_never_passed_publishes_the_finest_level() -> None:
    """No hypothesis is worth so little noise: with all of them kept coarse none passes."""
    coarse = a_mechanism(least_epsilon="1e-6", most_epsilon="2e-6", target_excess_risk="0.01")
    release = coarse.release(some_data(), entropy=seeded(SEED))
    assert isinstance(release.parts, Sequence)
    check, chain = release.parts.of
    assert isinstance(check, SparseVectorLaw)
    assert check.outcome is not None
    assert not release.value.reached
    assert (check.outcome.closed_epochs, check.outcome.open_epoch) == ((), 30)
    assert chain == Chain(LaplaceLaw("0.000002"), reached=LaplaceLaw("0.000002"))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_a_walk_ends_where_theory_promises_far_more_than_the_target(
    family: Family, noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: where the noise of the check let nothing pass, all levels up to 4 times the first theorem were paid for,
    whatever a sharper one says. What ends the walk is public: the tests see no data."""
    for tests in (SingleTests, FallingTests):
        monkeypatch.setattr(tests, "is_above", lambda run, value: False)
    name = "most_epsilon" if noise == "laplace" else "most_mu"
    enough = 4 * min(level for _, level in a_mechanism(family=family, noise=noise).plan().theory)
    for mechanism in (a_mechanism(family=family, noise=noise), a_mechanism(family=family, noise=noise, **{name: 500})):
        plan, found = mechanism.plan(), mechanism.release(some_data(), entropy=seeded(1)).value
        ended = float(found.mu or found.epsilon)
        assert not found.reached
        assert (found.level, ended) == (plan.levels, float(plan.most))
        assert enough * (1 - 1e-6) <= ended <= enough * (500 / 1e-4) ** (1 / 29)
        assert mechanism.under(Relation.REPLACE_ONE, Unit("flight")).keep == plan.levels
    assert plan.levels < 30 == a_mechanism(family=family, noise=noise, **{name: 500}, keep=30).plan().levels


def test_a_plan_is_cut_to_what_is_left() -> None:
    mechanism = a_mechanism()
    plan = mechanism.plan()
    cut = mechanism.within(plan.check_epsilon + plan.most_epsilon / 2)
    assert cut.plan().check_epsilon == plan.check_epsilon
    assert cut.plan().cap <= plan.check_epsilon + plan.most_epsilon / 2
    assert cut.keep is not None
    assert cut.keep < mechanism.levels
    assert cut.within(10**6) == cut.within(cut.plan().cap)
    with pytest.raises(InfeasiblePlan, match="left"):
        mechanism.within(plan.check_epsilon)
    assert "By theory alone" in plan.words()


def test_a_solver_that_gives_up_publishes_nothing_and_is_charged_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpledger.mechanisms.refinement.erm.logistic._NEWTON", 0)
    release = a_mechanism().release(some_data(), entropy=seeded(1))
    assert release.outside_guarantee
    assert release.parts == a_mechanism().parts()
    assert (release.value.theta, release.value.reached) == ((), False)


def test_many_rows_of_one_unit_are_refused() -> None:
    with pytest.raises(ParameterError, match="one row"):
        a_mechanism().under(Relation.REPLACE_ONE, Unit("airline", max_contributions=5))


# ---- what it promises -----------------------------------------------------------------------------------------------


def test_coefficients_are_in_the_callers_units() -> None:
    mechanism = AccuracyFirst("ridge", 3000, 2, "0.01", "0.05", feature_bound=20, label_bound=50, most_epsilon=10**5)
    x = np.random.default_rng(3).uniform(-10, 10, (3000, 2))
    value = mechanism.release((x, x @ [2.0, 1.0]), entropy=seeded(4)).value
    assert value.coefficients == pytest.approx(np.array(value.theta) * 2.5)


@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_what_passes_is_as_good_as_promised(family: Family) -> None:
    """Of 60 runs at beta = 0.1 more bad ones than a binomial has with chance 10^-7 would be a fault; and none is known
    to be worse than twice the target."""
    mechanism = a_mechanism(family=family)
    (failure,) = mechanism.failures()
    assert isinstance(failure, AccuracyFailure)
    assert failure.beta == Decimal("0.1")
    risk = problem(family, rows=3000, dimension=2, regularisation=Decimal("0.05"), radius="tight")
    x, y = some_data()
    data, least = solved(risk, (x, y))
    found = [mechanism.release((x, y), entropy=seeded(SEED + i)).value for i in range(60)]
    worse = [risk.risk(np.array(value.theta), data) - least.risk > 0.05 for value in found if value.reached]
    assert len(worse) >= 50
    assert sum(worse) <= stats.binom.isf(1e-7, 60, 0.1)


# ---- what a row can do to the noise ----------------------------------------------------------------------------------


class _Raising(list[Any]):
    """A row that raises its own text when it is walked."""

    def __iter__(self) -> Any:
        raise RuntimeError("the row of Jane Doe")


class _Elsewhere:
    """An entry that raises when it is asked what it is."""

    @property  # type: ignore[misc] # an object may say so
    def __class__(self) -> Any:
        raise RuntimeError("the row of Jane Doe")


def test_no_row_is_looked_at_before_the_charge_and_none_runs_its_own_code() -> None:
    """Found: a row whose iteration raises left with its text, and nothing was charged."""
    rows: list[Any] = [_Raising([0.5, 0.25]), _Elsewhere(), *([[0.1, 0.2]] * 2998)]
    mechanism = a_mechanism()
    mechanism.inspect((rows, [1] * 3000))
    mechanism.inspect((_Raising(rows), _Raising([1] * 3000)))
    shape = Shape(rows=3000, dimension=2, feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    features, _ = bounded((_Raising(rows), _Raising([1] * 3000)), shape, signs=True)
    assert (features[:2] / ONE).tolist() == [[0.5, 0.25], [0, 0]]
    with pytest.raises(ParameterError, match="shapes"):
        mechanism.inspect((rows[:-1], [1] * 3000))
