"""Plans of votes and of private classifiers: known numbers, a naive search, and what they promise, counted anew."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, reject, settings, strategies as st
from scipy import stats

from dpledger.accounting.families.sparse_vector import certify
from dpledger.accounting.leaves import SparseVectorLaw
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.stability.plans.classifier import (
    ClassifierPlan,
    Counting,
    Regime,
    binclas_plan,
    binclas_required_n,
)
from dpledger.mechanisms.stability.plans.counting import divided, quantile
from dpledger.mechanisms.stability.plans.promises import (
    Budget,
    distance_of,
    paper_distance,
    planned_tests,
)
from dpledger.mechanisms.stability.plans.sample_sizes import Realizable
from dpledger.mechanisms.stability.plans.subsample import chunks_for, subsample_plan
from dpledger.mechanisms.stability.stable_tests import StableMode, StableTests
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

ONE, DELTA, BETA = Decimal(1), Decimal("1e-6"), Decimal("0.05")
UNIT = Budget(ONE, DELTA)
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "beta": "0.05"}
THIRD = Fraction(1, 3)
MODES: tuple[StableMode, ...] = ("kov", "single_threshold", "target_charging", "basic", "paper", "auto")


def near(number: Decimal) -> Any:
    return pytest.approx(number, rel=Decimal("1e-11"))


# ---- distances ------------------------------------------------------------------------------------------------------


def test_the_papers_numbers() -> None:
    assert paper_distance(ONE, DELTA, 20, 1000, BETA) == near(Decimal("19353.4714900888"))
    assert chunks_for(96, THIRD) == 582


@pytest.mark.parametrize(("queries", "last"), [(100, 7), (1000, 39), (10000, 498)])
def test_a_cutoff_beats_gaussian_tests_up_to_the_known_crossing(queries: int, last: int) -> None:
    gaussian = distance_of(planned_tests(UNIT, 1, queries, "gaussian"), queries, BETA)
    for cutoff, better in ((last - 1, True), (last + 2, False)):
        assert (distance_of(planned_tests(UNIT, cutoff, queries, "auto"), queries, BETA) < gaussian) is better


def misses(tests: StableTests, distance: int, queries: int) -> float:
    """The least over whole splits of the chance that some threshold noise is above its part, or that some query noise
    takes more than the rest; of Gaussian noise that some query noise takes all."""
    law = tests.law
    if not isinstance(law, SparseVectorLaw):
        return queries * float(stats.norm.sf((distance - law.threshold - 1) / float(law.sigma)))
    narrow, broad, spare = float(law.threshold_scale), float(law.query_scale), distance - (law.stable_at or 0)
    draws = {"single_threshold": 1, "target_charging": 0}.get(law.mode, law.cutoff)

    def tail(scale: float, steps: int) -> float:  # P(noise >= steps)
        return math.exp(-steps / scale) / (1 + math.exp(-1 / scale)) if scale else 0.0

    return min(draws * tail(narrow, part + 1) + queries * tail(broad, spare - part) for part in range(max(spare, 1)))


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(MODES),
    st.sampled_from(["0.1", "1", "8"]),
    st.integers(1, 60),
    st.integers(1, 10**5),
    st.sampled_from(["0.3", "0.05", "1e-9"]),
)
def test_from_the_distance_on_discrete_noise_answers(
    mode: StableMode, epsilon: str, cutoff: int, queries: int, beta: str
) -> None:
    tests = planned_tests(Budget(Decimal(epsilon), DELTA), cutoff, queries, mode)
    assert isinstance(tests.law, SparseVectorLaw)
    certify(tests.law)
    distance = distance_of(tests, queries, Decimal(beta))
    assert misses(tests, distance, queries) <= float(beta) * (1 + 1e-9)
    if mode == "paper":
        published = paper_distance(Decimal(epsilon), DELTA, min(cutoff, queries), queries, Decimal(beta))
        assert distance >= published > distance - 4


# ---- chunks ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(MODES),
    st.integers(1, 50),
    st.integers(1, 10**5),
    st.sampled_from(["0.3", "0.05", "1e-6"]),
    st.sampled_from([THIRD, Fraction(2, 5), Fraction(3, 10)]),
)
def test_planned_chunks_keep_both_halves_of_beta(
    mode: StableMode, cutoff: int, queries: int, beta: str, dissent: Fraction
) -> None:
    part = THIRD if mode == "paper" else dissent
    plan = subsample_plan(
        epsilon=1, delta=DELTA, cutoff=cutoff, max_queries=queries, beta=beta, mode=mode, dissent=part
    )
    k, wrong = plan.chunks, math.floor(part * plan.chunks)
    assert queries * stats.binom.sf(wrong, k, 0.25) <= float(beta) / 2 * (1 + 1e-6)
    distance = (k - 2 * wrong + 1) // 2 - 1  # of the halved gap, at the most dissent
    assert misses(plan.tests, distance, queries) <= float(beta) / 2 * (1 + 1e-9)
    assert plan.chunks >= max(size for _, size in plan.terms)
    assert plan.needed == plan.chunks
    assert sum(failure.delta for failure in plan.failures) == DELTA


def test_a_plan_says_what_decided_it() -> None:
    plan = subsample_plan(**BUDGET, cutoff=20, max_queries=1000)
    assert (plan.binding, plan.status, plan.mode) == ("distance", "proved", "target_charging")
    assert [name for name, _ in plan.others()[:2]] == ["single_threshold", "gaussian"]
    assert plan.words().startswith(
        f"{plan.chunks} chunks, decided by the distance: distance needs {plan.chunks}, votes"
    )
    votes = subsample_plan(epsilon=300, delta="1e-6", beta="0.05", cutoff=1, max_queries=10**6)
    assert votes.binding == "votes"
    paper = subsample_plan(**BUDGET, cutoff=20, max_queries=1000, mode="paper")
    assert paper.status == "conservative"
    assert paper.chunks == pytest.approx(2 * 58161.1264531051, rel=0.01)


# ---- classifiers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "queries", "chunks", "size", "accuracy"),
    [(10**8, 100, 1914, 52246, "0.00131999818106"), (10**9, 1000, 2080, 480769, "1.57265731599e-4")],
)
def test_known_plans(n: int, queries: int, chunks: int, size: int, accuracy: str) -> None:
    """The numbers are known for continuous noise; whole steps take some chunks more."""
    found = Realizable(1).accuracy(n // chunks, divided(BETA, 3 * chunks))
    assert n // chunks == size
    assert found == near(Decimal(accuracy))
    assert quantile(queries, 3 * found, BETA / 3) == 2
    plan = binclas_plan(n, 1, max_queries=queries, **BUDGET, mode="kov")
    assert (plan.cutoff, plan.spoilt, plan.rate) == (3, 2, Decimal(2) / queries)
    assert chunks < plan.chunks < 1.005 * chunks


def test_four_times_the_queries_take_twice_the_records() -> None:
    found = [
        binclas_required_n("0.1", 1, max_queries=queries, **BUDGET, mode="kov").needed for queries in (100, 400, 1600)
    ]
    assert found == pytest.approx([2.78e7, 5.75e7, 1.14e8], rel=0.01)
    assert [high / low for low, high in pairwise(found)] == pytest.approx([2.0, 2.0], abs=0.1)


def naive(n: int, dimension: int, queries: int, epsilon: Decimal, mode: StableMode, counting: Counting) -> Any:
    """Cutoffs one by one, quantiles of another library, Sauer's sum in whole numbers."""
    share = 0.05 / 3
    for cutoff in range(1, queries + 1):
        distance = distance_of(planned_tests(Budget(epsilon, DELTA), cutoff, queries, mode), queries, BETA / 3)
        k = max(3, 6 * (distance + 1))
        size = n // k
        labellings = sum(math.comb(2 * size, i) for i in range(dimension + 1))
        accuracy = 1.0
        if size:
            bits = 1 + math.log2(labellings) + math.log2(k / share)
            accuracy = min(1.0, 2 / size * max(4.0, bits))
        if counting == "iid":
            spoilt = int(stats.binom.ppf(1 - share, queries, min(1.0, 3 * accuracy)))
        else:
            spoilt = max(0, 3 * int(stats.binom.isf(share / k, queries, accuracy)) - 1)
        if spoilt + 1 <= cutoff:
            return cutoff, k, spoilt
    return None


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(
    st.integers(10**5, 10**8),
    st.integers(1, 4),
    st.integers(1, 50),
    st.sampled_from(["0.5", "1", "4"]),
    st.sampled_from(["kov", "single_threshold", "target_charging"]),
    st.sampled_from(["iid", "each"]),
)
def test_going_from_count_to_count_finds_the_first_cutoff(
    n: int, dimension: int, queries: int, epsilon: str, mode: StableMode, counting: Counting
) -> None:
    known = naive(n, dimension, queries, Decimal(epsilon), mode, counting)
    asked: dict[str, Any] = {**BUDGET, "epsilon": epsilon, "mode": mode, "counting": counting}
    try:
        plan = binclas_plan(n, dimension, max_queries=queries, **asked)
    except InfeasiblePlan:
        assert known is None
    else:
        assert (plan.cutoff, plan.chunks, plan.spoilt) == known


def broken(plan: ClassifierPlan, regime: Regime, dimension: int) -> list[str]:
    """What a plan promises and does not keep: each third of beta, counted anew."""
    share, k, size, best = 0.05 / 3, plan.chunks, plan.chosen // plan.chunks, float(plan.best_error)
    a, log_labellings = float(plan.accuracy), math.log(sum(math.comb(2 * size, i) for i in range(dimension + 1)))
    if regime == "realizable":
        log_failure, enough = math.log(2) + log_labellings - a * size / 2 * math.log(2), size >= 8 / a * (1 - 1e-11)
    else:
        log_failure, enough = math.log(4) + log_labellings - size * a * a / 32, True
    kept = {
        "chunks of one size": size == plan.chunk_size,
        "tests that speak": misses(plan.tests, math.ceil(k / 6) - 1, plan.max_queries) <= share * (1 + 1e-9),
        "chunks that learn": enough and log_failure <= math.log(share / k) + 1e-6,
        "votes that are spoilt": stats.binom.sf(plan.spoilt, plan.max_queries, 3 * (a + best)) <= share * (1 + 1e-7),
        "a cutoff above them": plan.cutoff is None or plan.spoilt + 1 <= plan.cutoff,
    }
    return [name for name, holds in kept.items() if not holds]


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(st.sampled_from(["realizable", "agnostic"]), st.integers(1, 5), st.integers(1, 500), st.integers(7, 14))
def test_what_a_plan_promises_holds_when_it_is_counted_anew(
    regime: Regime, dimension: int, queries: int, magnitude: int
) -> None:
    gamma = "0.01" if regime == "agnostic" else "0"
    try:
        plan = binclas_plan(10**magnitude, dimension, max_queries=queries, **BUDGET, regime=regime, gamma=gamma)
    except InfeasiblePlan:
        reject()
    assert broken(plan, regime, dimension) == []


@settings(deadline=None, max_examples=8)
@given(st.integers(10**6, 10**9), st.integers(1, 100), st.sampled_from(["0.3", "1", "3"]))
def test_more_records_and_more_epsilon_spoil_no_more(n: int, queries: int, epsilon: str) -> None:
    def spoilt(records: int, budget: str) -> int:
        try:
            return binclas_plan(records, 1, max_queries=queries, **{**BUDGET, "epsilon": budget}, mode="kov").spoilt
        except InfeasiblePlan:
            return queries

    assert spoilt(2 * n, epsilon) <= spoilt(n, epsilon)
    assert spoilt(n, str(2 * Decimal(epsilon))) <= spoilt(n, epsilon)


@pytest.mark.parametrize("counting", ["iid", "each"])
def test_the_records_that_a_rate_takes_are_the_fewest(counting: Counting) -> None:
    asked: dict[str, Any] = {**BUDGET, "max_queries": 60, "mode": "kov", "counting": counting}
    plan = binclas_required_n("0.2", 1, **asked)
    assert plan.needed == plan.chosen
    assert plan.rate <= Decimal("0.2")
    assert binclas_plan(plan.needed, 1, **asked).spoilt == plan.spoilt
    assert binclas_plan(plan.needed - 1, 1, **asked).rate > Decimal("0.2")


def test_tests_without_a_cutoff_are_planned_alike() -> None:
    plan = binclas_plan(10**9, 1, max_queries=10**4, **BUDGET, mode="gaussian")
    assert plan.cutoff is None
    assert "gaussian without a cutoff" in plan.words()
    assert broken(plan, "realizable", 1) == []
    assert broken(replace(plan, spoilt=plan.spoilt - 1), "realizable", 1) == ["votes that are spoilt"]
    assert plan.others()[0][1] < plan.chunks, "a cutoff that is as small as the count does better"
    chunks = subsample_plan(epsilon=1, delta=DELTA, beta="0.05", cutoff=None, max_queries=10**4, mode="gaussian")
    assert "however few they are" in chunks.words()
    assert misses(chunks.tests, math.ceil(chunks.chunks / 6) - 1, 10**4) <= 0.025
    for wrong, mode in ((3, "gaussian"), (None, "kov")):
        with pytest.raises(ParameterError, match="cutoff"):
            subsample_plan(epsilon=1, delta=DELTA, beta="0.05", cutoff=wrong, max_queries=10**4, mode=mode)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_published_count_needs_far_more() -> None:
    asked: dict[str, Any] = {**BUDGET, "max_queries": 2000}
    published = binclas_required_n("0.2", 1, **asked, mode="paper", counting="paper")
    sharper = binclas_required_n("0.2", 1, **asked)
    assert published.needed > 20 * sharper.needed
    assert published.mode == "paper"


def test_a_plan_that_cannot_be_says_what_could() -> None:
    with pytest.raises(
        InfeasiblePlan, match=r"1000000 records keep no cutoff up to 100: \d+ would do, .*gaussian"
    ) as told:
        binclas_plan(10**6, 1, max_queries=100, **BUDGET, mode="kov")
    enough = int(str(told.value).split(": ")[1].split()[0])
    assert binclas_plan(enough, 1, max_queries=100, **BUDGET, mode="kov").chunks > 0
    with pytest.raises(InfeasiblePlan, match=r"best error 0\.34 the vote may be spoilt"):
        binclas_plan(10**15, 1, max_queries=100, **BUDGET, regime="agnostic", gamma="0.34")
    with pytest.raises(InfeasiblePlan, match="take a larger one"):
        binclas_required_n("0.1", 1, max_queries=100, **BUDGET, counting="paper")


def test_a_learner_of_the_callers_own() -> None:
    own = binclas_plan(10**6, 0, max_queries=1000, **BUDGET, learner=lambda accuracy, failure: math.ceil(1 / accuracy))
    assert own.accuracy >= Decimal(1) / own.chunk_size
    assert own.words().count(".") >= 4
    assert own.status == "conservative"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"n": 0}, "n"),
        ({"n": 1.5}, "n"),
        ({"vc": 0}, "dimension"),
        ({"max_queries": 0}, "max_queries"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": "0.5"}, "delta"),
        ({"delta": 0}, "delta"),
        ({"beta": 1}, "beta"),
        ({"gamma": "0.1"}, "gamma"),
        ({"gamma": 1, "regime": "agnostic"}, "gamma"),
        ({"regime": "both"}, "regime"),
        ({"mode": "softly"}, "mode"),
        ({"counting": "all"}, "counting"),
        ({"dissent": "0.5"}, "dissent"),
        ({"learner": 3}, "learner"),
    ],
)
def test_bad_parameters_are_named(words: dict[str, Any], field: str) -> None:
    asked: dict[str, Any] = {"n": 10**8, "vc": 1, "max_queries": 100, **BUDGET, **words}
    with pytest.raises(ParameterError, match=field):
        binclas_plan(**asked)


def test_a_large_epsilon_takes_the_least_threshold_and_the_least_cutoff() -> None:
    asked: dict[str, Any] = {"max_queries": 100, "epsilon": 100, "delta": "1e-4", "beta": "0.2"}
    plan = binclas_plan(10**6, 1, **asked, mode="single_threshold")
    assert plan.cutoff == plan.spoilt + 1
    alone = subsample_plan(epsilon=100, delta="1e-4", beta="0.2", cutoff=1, max_queries=100, mode="single_threshold")
    assert alone.tests.threshold == 1


@pytest.mark.parametrize("mode", ["auto", "gaussian"])
def test_the_mechanism_that_a_plan_asks_for_runs_its_tests(mode: StableMode) -> None:
    plan = binclas_plan(10**8, 1, max_queries=300, **BUDGET, mode=mode)
    mechanism = PrivateClassifier(
        epsilon=1, delta="1e-6", chunks=plan.chunks, cutoff=plan.cutoff, max_queries=300, mode=plan.mode
    ).under(Relation.REPLACE_ONE, Unit("record"))
    assert mechanism.parts() == plan.tests.parts()
    assert mechanism.failures() == plan.failures


def test_no_plan_asks_for_more_chunks_than_an_ensemble_has() -> None:
    with pytest.raises(InfeasiblePlan, match="an ensemble has at most 1048576: take a larger epsilon"):
        subsample_plan(epsilon="0.001", delta=DELTA, beta="0.05", cutoff=5, max_queries=100)
    with pytest.raises(InfeasiblePlan, match="take a larger one"):
        binclas_plan(10**12, 1, max_queries=100, epsilon="0.0001", delta="1e-6", beta="0.05")
    many = subsample_plan(epsilon="0.02", delta=DELTA, beta="0.05", cutoff=5, max_queries=100)
    assert all(chunks <= 2**20 for _, chunks in many.others())
