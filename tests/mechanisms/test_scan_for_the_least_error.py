"""The least error of a class by a scan of guesses: its law by quadrature, exact losses, plans, what an early stop gives
back."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.errors import ContractViolation, InfeasiblePlan, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass, matrix_of
from dpledger.mechanisms.learning.theory.users.estimator_sizes import guesses_for
from dpledger.mechanisms.learning.users.least_error import MinimumErrorEstimator
from dpledger.mechanisms.learning.users.mistakes import mistakes_of
from dpledger.mechanisms.learning.users.reading import users_of
from dpledger.mechanisms.threshold.above_threshold import AboveThreshold
from dpledger.relations import Relation, Unit, one_way
from exact_tests import SIGNIFICANCE, events_p_value
from sparse_vector_oracle import Law, Noise
from user_conformance import PAIR, ForPairs, sample_of
from users_oracle import scan_law, scanned, worst_of_users

pytestmark = pytest.mark.sliced


def scan(**changes: Any) -> Any:
    given = {"concept_class": ThresholdClass(4), "resolution": "0.1", "epsilon": "0.5", "search": "scan"}
    return MinimumErrorEstimator(**{**given, **changes})


class TestScan(ForPairs):
    bad_parameters: ClassVar = (
        {"search": "guess"},
        {"search": True},
        {"resolution": "0.0002"},
        {"epsilon": 0},
        {"epsilon": "1e-60"},
        {"concept_class": ParityClass(3)},
        {"concept_class": PointClass(8), "below_half": True},
    )

    def make(self, **changes: Any) -> Any:
        return scan(**changes)


def test_it_is_the_sparse_vector_of_above_threshold() -> None:
    """n nu - k + noise against a noisy 0: the first to reach it is the first to be enough."""
    twin = AboveThreshold(epsilon=3, threshold=0, sensitivity=1, max_queries=9)
    mine = scan(epsilon=3).under(Relation.REPLACE_ONE, PAIR)
    assert mine.parts() == twin.parts()
    assert mine.claim() == twin.claim() == PureDP(3)
    told, theirs = mine.parameters(), twin.under(Relation.REPLACE_ONE, Unit("patient")).parameters()
    for name in ("threshold_scale", "query_scale", "sensitivity"):
        assert Decimal(told[name]) == Decimal(str(theirs[name]))
    assert told["tests"] == mine.rounds == 9


# ---- the law --------------------------------------------------------------------------------------------------------

FOUR = (((0, 0), (1, 0)), ((2, 1), (2, 1)), ((0, 0), (0, 1)), ((1, 1), (1, 1)))


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE], ids=lambda one: one.value)
@pytest.mark.parametrize("below_half", [False, True], ids=["whole", "half"])
def test_a_scan_follows_its_law(relation: Relation, below_half: bool) -> None:
    top = 0.5 if below_half else 1.0
    placed = scan(concept_class=ThresholdClass(3), resolution="0.125", epsilon=3, below_half=below_half).under(
        relation, PAIR
    )
    fractions = [nu for _, nu in scanned(2, 0.125, top)]
    moved = max(max(nu, 1 - nu) for nu in fractions) if one_way(relation) else 1.0
    assert float(placed.parameters()["sensitivity"]) == pytest.approx(moved)
    concepts = matrix_of(ThresholdClass(3))
    law = scan_law(concepts, 2, 0.125, moved * 2 / 3, moved * 4 / 3, top)(FOUR)
    assert sum(law.values()) == pytest.approx(1)
    found = [placed.release(sample_of(FOUR, 2), entropy=seeded(2, i)).value for i in range(2000)]
    transcripts = ["".join("0" if test.passed else "1" for test in one.tests) for one in found]
    assert set(transcripts) <= set(law)
    counts = {text: transcripts.count(text) for text in law}

    def p_value(chances: Any) -> float:
        places = range(len(law))
        return events_p_value(
            dict(zip(places, counts.values(), strict=True)), 2000, dict(zip(places, chances, strict=True))
        )

    assert p_value(law.values()) > SIGNIFICANCE
    too_small = scan_law(concepts, 2, 0.125, moved * 2 / 3, moved * 2 / 3, top)(FOUR)
    assert p_value(too_small.values()) < SIGNIFICANCE
    for one in found[:50]:
        assert [test.guess for test in one.tests] == [i * Decimal("0.125") for i in range(len(one.tests))]
        assert [(test.level, float(test.threshold)) for test in one.tests] == scanned(2, 0.125, top)[: len(one.tests)]


@given(
    parts=st.integers(2, 300),
    top=st.sampled_from(["1", "0.5"]),
    data=st.data(),
)
def test_its_guesses_are_those_that_data_must_tell(parts: int, top: str, data: st.DataObject) -> None:
    """Those below what the least error is at most for which an error of one resolution more is below 1."""
    resolution = data.draw(st.decimals("0.001", "0.499", places=6)) if parts % 2 else Decimal(1) / Decimal(parts)
    many = guesses_for(resolution, Decimal(top))
    a, most = Fraction(resolution), Fraction(top)
    assert many >= 1
    assert (many - 1) * a < most
    assert many * a < 1
    assert many * a >= most or (many + 1) * a >= 1


ZERO, BOTH = FiniteClass(np.zeros((1, 1), dtype=bool)), ThresholdClass(1)


@pytest.mark.parametrize("concepts", [ZERO, BOTH], ids=["one constant", "both constants"])
@pytest.mark.parametrize("ones", [0, 3, 7, 10, 12, 25])
@pytest.mark.parametrize("resolution", ["0.05", "0.07", "0.3", "0.45"])
def test_without_noise_the_interval_holds_the_least_error(resolution: str, ones: int, concepts: Any) -> None:
    """Forty users, each with so many ones among 25 labels."""
    top, least = (Decimal(1), ones / 25) if concepts is ZERO else (Decimal("0.5"), min(ones, 25 - ones) / 25)
    placed = scan(concept_class=concepts, resolution=resolution, epsilon=10**6, below_half=concepts is BOTH).under(
        Relation.REPLACE_ONE, Unit("user", max_contributions=25)
    )
    labels = np.tile(np.arange(25) < ones, (40, 1))
    found = placed.release(UserSample(np.zeros((40, 25)), labels), entropy=seeded(1)).value
    assert found.high - found.low <= 2 * Decimal(resolution)
    assert found.high <= top
    assert not any(test.passed for test in found.tests[:-1])
    assert float(found.low) - 1e-9 <= least <= float(found.high) + 1e-9


# ---- privacy --------------------------------------------------------------------------------------------------------

TWO = matrix_of(ThresholdClass(2))


@pytest.mark.parametrize("relation", list(Relation), ids=lambda one: one.value)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(relation: Relation, size: int) -> None:
    placed = scan(concept_class=ThresholdClass(2), resolution="0.25", epsilon=1).under(relation, PAIR)
    moved = float(placed.parameters()["sensitivity"])
    exact = worst_of_users(scan_law(TWO, 2, 0.25, 2 * moved, 4 * moved), 2, 2, size, relation.value)
    assert 0.2 < exact <= 1


def test_nor_do_many_guesses() -> None:
    assert 0.7 < worst_of_users(scan_law(TWO, 2, 0.125, 2, 4), 2, 2, 3, "replace_one") <= 1


@pytest.mark.parametrize(
    ("twin", "size", "loss"),
    [((2, 2), 3, 1.2636), ((4, 2), 3, 1.1246), ((0, 4), 2, 1.7054), ((1, 2), 2, 1.1889)],
    ids=["half the noise of a test", "scales exchanged", "no noise on the threshold", "half of all noise"],
)
def test_less_noise_tells_more(twin: tuple[float, float], size: int, loss: float) -> None:
    """A user's mistakes may go up by one concept and down by another, so that tests do not move in one direction."""
    assert worst_of_users(scan_law(TWO, 2, 0.125, *twin), 2, 2, size, "replace_one") == pytest.approx(loss, abs=1e-4)


def test_all_of_epsilon_may_be_told_and_more_by_one_noisy_threshold_for_two_scans() -> None:
    """Six guesses that look enough are passed over and the next, no better, is not; a neighbour moves those down and
    this one up. With the threshold of one scan kept for the next, and paid for once, half of epsilon comes on top."""

    def loss(scans: int) -> float:
        law = Law(Noise(2, discrete=False), Noise(4, discrete=False), threshold=0, cutoff=scans, refreshed=False)
        here, there = ([-20.0] * 6 + [-10.0], [-21.0] * 6 + [-9.0])
        tests = ("1" * 6 + "0") * scans
        return math.log(law.probability(here * scans, tests) / law.probability(there * scans, tests))

    assert loss(1) == pytest.approx(1, abs=1e-3)
    assert loss(1) <= 1 + 1e-9
    assert loss(2) == pytest.approx(1.5, abs=1e-3)


# ---- how many users -------------------------------------------------------------------------------------------------


def planned(resolution: str, m: int, size: int, epsilon: float, beta: float, noise: Callable[[int, float], Any]) -> int:
    """The least of the greater of both terms, from their formulas, for a class of so many concepts."""
    a, even = mpmath.mpf(resolution), m - m % 2
    q = (1 + a) / 2
    chances = [mpmath.binomial(even, k) * q**k * (1 - q) ** (even - k) for k in range(even + 1)]
    gap = mpmath.fsum(chances[even // 2 + 1 :]) - mpmath.fsum(chances[: even // 2])
    many = math.ceil(1 / Fraction(resolution)) - 1
    found = []
    for f in range(2, 10):
        s = gap * f / 20
        deviation = (mpmath.log(size + 1) + mpmath.log(2 * min(m, many) / mpmath.mpf(beta))) / (2 * s * s)
        room = gap / 2 - s - mpmath.mpf(2) ** -21
        found.append(max(mpmath.ceil(deviation), mpmath.ceil(noise(many, beta) / epsilon / room)))
    return int(min(found))


def scan_noise(many: int, beta: float) -> Any:
    b = mpmath.mpf(beta)
    return 2 * mpmath.log(4 / b) + 4 * mpmath.log(2 * many / b)


@pytest.mark.parametrize(("resolution", "m"), [("0.1", 100), ("0.03", 40), ("0.0078125", 400)])
@pytest.mark.parametrize("epsilon", ["1", "0.05"])
def test_as_many_users_as_its_formula_says(resolution: str, m: int, epsilon: str) -> None:
    concepts = FiniteClass(matrix_of(ThresholdClass(32)))
    estimator = scan(concept_class=concepts, resolution=resolution, epsilon=epsilon)
    plan = estimator.under(Relation.REPLACE_ONE, Unit("user", max_contributions=m)).plan("0.1")
    with mpmath.workdps(50):
        assert abs(plan.needed - planned(resolution, m, 33, float(epsilon), 0.1, scan_noise)) <= 1
    assert plan.status == "certified"
    assert "scan" in plan.words()
    assert plan.needed == max(needed for _, needed in plan.terms)
    if epsilon == "0.05":
        assert "decided by the noise of the tests" in plan.words()


@pytest.mark.parametrize("many", [1, 9, 127])
@pytest.mark.parametrize("beta", [0.5, 0.1, 0.01])
def test_what_the_noise_of_all_tests_is_below(many: int, beta: float) -> None:
    """A scan that must pass over all guesses but the last, each by what the plan leaves for noise, stops where it must,
    but for beta/2."""
    with mpmath.workdps(30):
        room = float(scan_noise(many, beta))
    law = Law(Noise(2, discrete=False), Noise(4, discrete=False), threshold=0, cutoff=1, refreshed=False)
    assert law.probability([room] * (many - 1) + [-room], "1" * (many - 1) + "0") >= 1 - beta / 2
    less = room / 4
    assert law.probability([less] * (many - 1) + [-less], "1" * (many - 1) + "0") < 1 - beta / 2


def sizes(halvings: int, epsilon: str = "0.01") -> tuple[int, int]:
    """Users for a resolution of 2^-halvings, by bisection and by scan, where noise decides."""
    resolution, unit = Decimal(1) / 2**halvings, Unit("user", max_contributions=100)
    bisection, by_scan = (
        scan(concept_class=ThresholdClass(1023), resolution=resolution, epsilon=epsilon, search=search)
        .under(Relation.REPLACE_ONE, unit)
        .plan("0.1")
        .needed
        for search in ("bisection", "scan")
    )
    return bisection, by_scan


def test_a_bisection_is_better_up_to_six_halvings_a_scan_from_nine_on() -> None:
    for halvings in (1, 2, 4, 6):
        bisection, by_scan = sizes(halvings)
        assert bisection < by_scan
    for halvings in (7, 8):
        bisection, by_scan = sizes(halvings)
        assert by_scan == pytest.approx(bisection, rel=0.15)
    for halvings in (9, 10, 11, 12):
        bisection, by_scan = sizes(halvings)
        assert by_scan < bisection


def test_where_sampling_decides_both_need_as_many() -> None:
    bisection, by_scan = sizes(8, epsilon="100")
    assert bisection == by_scan


def test_errors_that_the_grid_cannot_tell_apart_have_no_plan() -> None:
    with pytest.raises(InfeasiblePlan, match="tell errors apart"):
        MinimumErrorEstimator(PointClass(4), resolution="1e-7", epsilon=1).plan("0.1")
    with pytest.raises(ParameterError, match="resolution"):
        scan(resolution="1e-7")


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE], ids=lambda one: one.value)
def test_as_many_users_as_planned_are_enough(relation: Relation) -> None:
    """Promised: an interval without the least error in at most one run of ten. False alarms: one of 10,000."""
    placed = scan(concept_class=ThresholdClass(1023), resolution="0.05", epsilon=1).under(
        relation, Unit("user", max_contributions=100)
    )
    needed, rng, missed, runs = placed.plan("0.1").needed, np.random.default_rng(5), 0, 40
    for seed in range(runs):
        noise = 0.15 * (seed % 3)
        x = rng.integers(0, 1023, (needed, 100))
        y = (x < 400) ^ (rng.random(x.shape) < noise)
        found = placed.release(UserSample(x, y), entropy=seeded(9, seed)).value
        missed += not float(found.low) <= noise <= float(found.high)
    assert binom.sf(missed - 1, runs, 0.1) > 1e-4


def test_too_few_users_miss_it() -> None:
    """The check above can fail: with a tenth of the users and of epsilon it does."""
    placed = scan(concept_class=ThresholdClass(1023), resolution="0.05", epsilon="0.1").under(
        Relation.REPLACE_ONE, Unit("user", max_contributions=100)
    )
    rng, missed = np.random.default_rng(5), 0
    for seed in range(40):
        x = rng.integers(0, 1023, (100, 100))
        found = placed.release(UserSample(x, (x < 400) ^ (rng.random(x.shape) < 0.3)), entropy=seeded(9, seed)).value
        missed += not float(found.low) <= 0.3 <= float(found.high)
    assert binom.sf(missed - 1, 40, 0.1) < 1e-4


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def clean(users: int) -> UserSample:
    x = np.random.default_rng(1).integers(0, 2**40, (users, 2))
    return UserSample(x, x < 2**39)


def test_what_an_early_stop_did_not_cost_is_given_back() -> None:
    """Nobody errs, so that the guess 0 is enough: one test, a quarter of epsilon."""
    book = Ledger.in_memory()
    unit = Unit("user", max_contributions=2)
    scope = book.scope("users", unit=unit, relation="add_remove", budget=PureDP(40))
    receipt = scope.release(scan(concept_class=ThresholdClass(2**40), epsilon=20), clean(300))
    assert [test.passed for test in receipt.value.tests] == [True]
    assert (receipt.value.low, receipt.value.high) == (0, Decimal("0.1"))
    assert scope.account().left_by_account["pure"] == "35"
    book.verify()


def test_a_release_tells_of_its_tests_and_no_more() -> None:
    placed = scan(epsilon=2).under(Relation.REPLACE_ONE, PAIR)
    for seed in range(20):
        release = placed.release(sample_of(FOUR, 2), entropy=seeded(seed))
        tests = release.value.tests
        stopped = tests[-1].passed
        outcome = SparseVectorOutcome(
            closed_epochs=(len(tests),) if stopped else (), open_epoch=0 if stopped else len(tests), halted=stopped
        )
        assert isinstance(release.parts, SparseVectorLaw)
        assert release.parts.outcome == outcome
        bound = min(2.0, len(tests) / 2) if stopped else min(1.0, len(tests) / 2)
        assert float(cost(release.parts, Relation.REPLACE_ONE).pure or 0) == pytest.approx(bound)


def test_a_scan_that_breaks_midway_is_charged_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = scan(epsilon=20, concept_class=ThresholdClass(2**40))
    kind = type(mistakes_of(ThresholdClass(4), users_of(clean(3), 2**40)))

    def broken(self: Any, level: int) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(kind, "beyond", broken)
    scope = Ledger.in_memory().scope(
        "users", unit=Unit("user", max_contributions=2), relation="replace_one", budget=PureDP(40)
    )
    with pytest.raises(ContractViolation):
        scope.release(estimator, clean(30))
    assert scope.account().left_by_account["pure"] == "20"
