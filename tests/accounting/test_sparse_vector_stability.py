"""Sparse vectors that release values, monotone queries and shares of epsilon: against exact laws of transcripts."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.families.sparse_vector import certify, delta_by_cause, ex_post_epsilon, stability_delta
from dpledger.accounting.families.sparse_vector.accuracy import difference_tail
from dpledger.accounting.families.sparse_vector.losses import composition_delta
from dpledger.accounting.families.sparse_vector.scales import MODES, SparseVectorMode, sparse_vector_law
from dpledger.accounting.families.sparse_vector.stable_scales import required_distance, stable_law
from dpledger.accounting.pricing.costs import cost
from dpledger.errors import ClaimTooSmall, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain
from ledger_mechanisms import Stream
from sparse_vector_oracle import Law, Noise, hockey_stick

ONE, MILLIONTH = Decimal(1), Decimal("0.000001")
BETA = Decimal("0.05")


def exact(law: SparseVectorLaw, threshold: float, *, discrete: bool = True) -> Law:
    """How a run of the law is noised."""
    scales = (Noise(float(law.threshold_scale), discrete), Noise(float(law.query_scale), discrete))
    return Law(*scales, threshold, law.cutoff, refreshed=law.mode != "single_threshold")


def outcome_of(pattern: str, cutoff: int) -> SparseVectorOutcome:
    *closed, last = pattern.split("0")
    return SparseVectorOutcome(tuple(len(epoch) + 1 for epoch in closed), len(last), len(closed) == cutoff)


# ---- released values ------------------------------------------------------------------------------------------------

RELEASING: dict[str, SparseVectorLaw] = {
    "basic": SparseVectorLaw("basic", 2, 2, "0.2", 2, 4, stable_at=9),
    "single_threshold": SparseVectorLaw("single_threshold", 2, 2, "0.2", 1, 4, stable_at=9),
    "target_charging": SparseVectorLaw("target_charging", 2, 2, "0.3", 0, 3, calls=8, stable_at=6),
    "kov": SparseVectorLaw("kov", 2, 2, "0.3", "1.8", "3.6", stable_at=8),
}


@pytest.mark.parametrize("mode", RELEASING)
def test_a_stream_of_critical_queries_reaches_the_delta_of_stability(mode: str) -> None:
    """All of them at distance 0: every value that is released is one that only one neighbour has."""
    law = RELEASING[mode]
    assert law.stable_at is not None
    run = exact(law, law.stable_at)
    reached = 1 - run.probability([0.0] * law.cutoff, "0" * law.cutoff)
    told = float(stability_delta(law))
    assert reached <= told + 1e-12
    if mode == "single_threshold":
        assert told < 1.1 * reached
    else:
        assert told == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("mode", RELEASING)
def test_no_transcript_with_values_shows_more_than_epsilon_and_delta(mode: str) -> None:
    """Three queries, each critical (0 on both sides) or moving by one near the threshold; outputs are patterns with the
    values that passed, so that a pattern in which a critical one passed exists on one side alone."""
    law = RELEASING[mode]
    certify(law)
    assert law.stable_at is not None
    run, w = exact(law, law.stable_at), float(law.stable_at)
    worst = 0.0
    for critical in itertools.product((False, True), repeat=3):
        for moves in itertools.product((-1, 1), repeat=3):
            left = [0.0 if c else w for c in critical]
            right = [0.0 if c else w + move for c, move in zip(critical, moves, strict=True)]
            there, back = run.distribution(left), run.distribution(right)
            shown = {
                text: 0.0 if any(c and t == "1" for c, t in zip(critical, text, strict=False)) else back[text]
                for text in there
            }
            worst = max(worst, hockey_stick(there, shown, float(law.epsilon)))
    assert worst <= float(law.delta)
    assert worst >= float(stability_delta(law)) * 0.5, "nothing would be found"


@pytest.mark.parametrize("mode", RELEASING)
def test_a_threshold_that_is_too_low_for_its_delta_is_found(mode: str) -> None:
    law = RELEASING[mode]
    assert law.stable_at is not None
    with pytest.raises(ClaimTooSmall, match="claims delta"):
        certify(replace(law, stable_at=law.stable_at - 4))


def test_values_cannot_be_released_at_no_delta() -> None:
    with pytest.raises(ClaimTooSmall):
        certify(SparseVectorLaw("basic", 2, 1, 0, 4, 8, stable_at=2**53 - 1))
    with pytest.raises(ClaimTooSmall):
        cost(SparseVectorLaw("basic", 2, 1, 0, 4, 8, stable_at=50), Relation.ADD_REMOVE)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 60), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_the_delta_of_stability_is_from_above_and_close(at: int, b1: int, b2: int, cutoff: int) -> None:
    law = SparseVectorLaw("basic", cutoff, 1, "0.5", Decimal(b1) / 2, Decimal(b2) / 2, stable_at=at)
    one = exact(law, at).probability([0.0], "1")
    all_of_them = -math.expm1(cutoff * math.log1p(-one))
    assert all_of_them * (1 - 1e-10) <= float(stability_delta(law)) <= all_of_them * (1 + 1e-8) + 1e-58


def test_the_adaptive_stream_that_looks_for_a_low_threshold_gains_nothing_in_an_epoch() -> None:
    """Four queries near the threshold that pass say that the threshold is low; the critical one after them is then
    likelier to pass than a fresh one, but asked only then: the chance of both is below p."""
    law = RELEASING["basic"]
    assert law.stable_at is not None
    run, w = exact(law, law.stable_at), float(law.stable_at)
    one = run.probability([0.0], "1")
    asked = run.probability([w] * 4, "1111")
    both = run.probability([w] * 4 + [0.0], "11111")
    assert both / asked > 2 * one, "the threshold that is alive is no fresh one"
    assert both < one


# ---- the plan -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "cutoff", "published"),
    [
        ("target_charging", 20, 1054),
        ("target_charging", 50, 1519),
        ("target_charging", 100, 2056),
        ("single_threshold", 20, 1164),
        ("single_threshold", 50, 2885),
        ("single_threshold", 100, 5796),
        ("kov", 20, 2139),
        ("kov", 50, 3743),
        ("kov", 100, 5582),
    ],
)
def test_the_published_distances(mode: SparseVectorMode, cutoff: int, published: int) -> None:
    law = stable_law(ONE, MILLIONTH, cutoff, mode, max_queries=1000)
    assert float(required_distance(law, 1000, BETA)) == pytest.approx(published, abs=1)


@pytest.mark.parametrize(("cutoff", "share"), [(1, 0.34), (5, 0.13), (10, 0.09), (20, 0.06), (50, 0.04)])
def test_the_share_of_the_threshold_is_the_best_one(cutoff: int, share: float) -> None:
    law = stable_law(ONE, MILLIONTH, cutoff, "single_threshold", max_queries=1000)
    assert 1 / float(law.threshold_scale) == pytest.approx(share, abs=0.006)
    best = required_distance(law, 1000, BETA)
    for other in ("0.02", "0.1", "0.281", "0.5"):
        asked = stable_law(ONE, MILLIONTH, cutoff, "single_threshold", max_queries=1000, share=Decimal(other))
        assert required_distance(asked, 1000, BETA) >= best - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cutoff", [1, 7, 60])
def test_every_plan_is_certified_and_no_threshold_below_it_is(mode: SparseVectorMode, cutoff: int) -> None:
    law = stable_law(ONE, MILLIONTH, cutoff, mode)
    certify(law)
    assert law.stable_at is not None
    with pytest.raises(ClaimTooSmall):
        certify(replace(law, stable_at=law.stable_at - 1))
    causes = {failure.cause: failure.delta for failure in delta_by_cause(law)}
    assert sum(map(Fraction, causes.values())) == Fraction(law.delta) == Fraction(MILLIONTH)
    assert causes["stability"] >= stability_delta(law)
    assert causes.get("composition", 0) == composition_delta(law)


def test_auto_takes_the_mode_with_the_least_distance() -> None:
    for cutoff in (1, 10, 17, 40):
        found = stable_law(ONE, MILLIONTH, cutoff, "auto", max_queries=1000)
        laws = [stable_law(ONE, MILLIONTH, cutoff, mode, max_queries=1000) for mode in MODES]
        assert found == min(laws, key=lambda law: required_distance(law, 1000, BETA))
    assert stable_law(ONE, MILLIONTH, 16, "auto", max_queries=1000).mode == "single_threshold"
    assert stable_law(ONE, MILLIONTH, 17, "auto", max_queries=1000).mode == "target_charging"


def test_no_more_charges_are_planned_than_questions() -> None:
    assert stable_law(ONE, MILLIONTH, 50, "basic", max_queries=3).cutoff == 3


@pytest.mark.parametrize(
    ("change", "field"),
    [({"delta": Decimal(0)}, "delta"), ({"delta_split": Decimal(1)}, "delta_split"), ({"share": Decimal(1)}, "share")],
)
def test_bad_plans_are_refused_by_name(change: dict[str, Decimal], field: str) -> None:
    asked: dict[str, Decimal] = {"delta": MILLIONTH, **change}
    delta = asked.pop("delta")
    with pytest.raises(ParameterError, match=f"^{field}"):
        stable_law(ONE, delta, 3, "single_threshold", **asked)


@pytest.mark.parametrize("mode", [*MODES, "auto"])
@pytest.mark.parametrize(("epsilon", "delta"), [(8, "0.1"), (20, "0.4"), (50, "1e-6"), (50, "0.4")])
def test_the_least_threshold_of_all_is_one(mode: SparseVectorMode, epsilon: int, delta: str) -> None:
    """At a large epsilon and delta, one step is more than enough: it is taken, and certified."""
    law = stable_law(Decimal(epsilon), Decimal(delta), 1, mode, max_queries=10)
    certify(law)
    assert law.stable_at is not None
    if law.stable_at > 1:
        with pytest.raises(ClaimTooSmall):
            certify(replace(law, stable_at=law.stable_at - 1))


def test_a_threshold_of_one_that_is_needed_is_taken() -> None:
    """P(noise on a query exceeds that on the threshold by 1) is above the delta, by 2 it is not."""
    law = stable_law(Decimal(8), Decimal("0.1"), 1, "single_threshold", max_queries=10)
    assert law.stable_at == 1
    at = [difference_tail(Decimal(s), law.threshold_scale, law.query_scale, noise="discrete_laplace") for s in (1, 2)]
    assert at[1] <= law.delta < at[0]


# ---- monotone queries -----------------------------------------------------------------------------------------------

MONOTONE: dict[str, SparseVectorLaw] = {
    "basic": SparseVectorLaw("basic", 2, 4, 0, 1, 1, monotone=True),
    "single_threshold": SparseVectorLaw("single_threshold", 2, 3, 0, 1, 1, monotone=True),
}


@pytest.mark.parametrize("mode", MONOTONE)
@pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])
@pytest.mark.parametrize("rises", [True, False])
def test_no_pattern_of_monotone_queries_reveals_more_than_its_loss(mode: str, discrete: bool, rises: bool) -> None:
    law = MONOTONE[mode]
    run = exact(law, 1, discrete=discrete)
    values = (6.0, -1.0, 5.0, 0.0)
    left, tightest = run.distribution(values), 0.0
    steps = (0.0, 1.0) if rises else (0.0, -1.0)
    for moves in itertools.product(steps, repeat=4):
        right = run.distribution([value + move for value, move in zip(values, moves, strict=True)])
        for pattern, mass in left.items():
            loss = abs(math.log(mass / right[pattern]))
            bound = float(ex_post_epsilon(law, outcome_of(pattern, law.cutoff)))
            assert loss <= min(bound, float(law.epsilon)) + 1e-9
            tightest = max(tightest, loss / bound)
    assert tightest > 0.6


@pytest.mark.parametrize("mode", MONOTONE)
def test_queries_that_are_not_monotone_are_found(mode: str) -> None:
    """Many that pass and move one way, then one that fails and moves the other way."""
    law = MONOTONE[mode]
    run = exact(law, 0, discrete=False)
    left = run.probability([4.0] * 8 + [-4.0], "1" * 8 + "0")
    assert left > 0
    worst = 0.0
    for passed, failed in itertools.product((0.0, 2.0, 4.0), (0.0, -2.0, -4.0)):
        p = run.probability([passed] * 8 + [failed], "1" * 8 + "0")
        q = run.probability([passed - 1] * 8 + [failed + 1], "1" * 8 + "0")
        worst = max(worst, abs(math.log(p / q)))
    bound = float(ex_post_epsilon(law, SparseVectorOutcome((9,), 0, False)))
    assert worst > bound, "the claim of the twin does not hold"
    assert worst <= float(ex_post_epsilon(replace(law, monotone=None, epsilon=9), SparseVectorOutcome((9,), 0, False)))


def test_scales_are_half_as_large_where_queries_are_monotone() -> None:
    for mode in ("basic", "zcdp", "kov", "dr14"):
        plain, better = (sparse_vector_law(ONE, MILLIONTH, 40, mode, monotone=one) for one in (False, True))
        certify(better)
        assert better.threshold_scale == plain.threshold_scale
        assert 2 * better.query_scale == plain.query_scale
    single = sparse_vector_law(ONE, Decimal(0), 40, "single_threshold", monotone=True)
    certify(single)
    with pytest.raises(ClaimTooSmall):
        certify(replace(single, monotone=None))
    charging = sparse_vector_law(ONE, MILLIONTH, 40, "target_charging", monotone=True)
    assert charging == sparse_vector_law(ONE, MILLIONTH, 40, "target_charging")
    with pytest.raises(ParameterError, match=r"SparseVectorLaw\.monotone"):
        certify(replace(charging, monotone=True))


# ---- shares ---------------------------------------------------------------------------------------------------------


def test_the_split_of_above_threshold() -> None:
    law = sparse_vector_law(Decimal("0.5"), Decimal(0), 1, "single_threshold", share=Decimal("0.5"))
    assert [law.threshold_scale, law.query_scale] == [4, 8]


@pytest.mark.parametrize("share", ["0.281", "0.34", "0.5", "0.001"])
def test_shares_are_kept_and_rounded_to_the_safe_side(share: str) -> None:
    law = sparse_vector_law(Decimal("0.7"), Decimal(0), 3, "single_threshold", share=Decimal(share))
    certify(law)
    assert Fraction(law.threshold_scale) >= 1 / (Fraction(share) * Fraction("0.7"))
    assert Fraction(law.query_scale) >= 6 / ((1 - Fraction(share)) * Fraction("0.7"))


def test_without_a_share_the_best_is_taken() -> None:
    asked = sparse_vector_law(ONE, Decimal(0), 1, "single_threshold", share=Decimal("0.281"))
    assert sparse_vector_law(ONE, Decimal(0), 1, "single_threshold") == asked


@pytest.mark.parametrize("share", ["0", "1", "1.5", "-0.1"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    with pytest.raises(ParameterError, match=r"^share"):
        sparse_vector_law(ONE, Decimal(0), 1, "single_threshold", share=Decimal(share))


def test_a_share_where_nothing_is_divided_is_refused() -> None:
    with pytest.raises(ParameterError, match="nothing in mode kov"):
        sparse_vector_law(ONE, MILLIONTH, 3, "kov", share=Decimal("0.5"))


# ---- in documents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [RELEASING["basic"], MONOTONE["single_threshold"]], ids=lambda law: law.mode)
def test_what_is_not_so_is_left_out_of_the_record(law: SparseVectorLaw) -> None:
    """So that each law has one text."""
    written = plain(law)
    assert parse_tree(written) == law
    assert ("stable_at" in written, "monotone" in written) == (law.stable_at is not None, bool(law.monotone))
    for member, value in (("monotone", False), ("stable_at", 0), ("stable_at", "9"), ("stable_at", 2.0)):
        with pytest.raises(ParameterError, match=member):
            parse_tree({**written, member: value})


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_a_ledger_keeps_both_causes_and_refunds_the_pattern_but_no_delta() -> None:
    law = stable_law(ONE, MILLIONTH, 3, "kov", max_queries=100)
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "0.00001"))
    tests = Stream(claimed=dpl.ApproxDP(1, MILLIONTH), made_of=law, kind="told", causes=delta_by_cause(law))
    with scope.open(tests, None) as run:
        assert [run.ask(answer) for answer in (True, True, False, True)] == [True, True, False, True]
    book.verify()
    (admission,) = scope.account().admissions
    assert {failure.cause for failure in admission.failures if failure.kind == "privacy"} == {
        "composition",
        "stability",
    }
    assert admission.rule == "ex_post"
    assert admission.charged["pure"] == ex_post_epsilon(law, SparseVectorOutcome((3,), 1, False)) < 1
    assert admission.charged["delta"] == admission.reserved["delta"] == MILLIONTH


def test_a_ledger_refuses_a_threshold_that_is_too_low() -> None:
    law = stable_law(ONE, MILLIONTH, 3, "basic", max_queries=100)
    assert law.stable_at is not None
    low = replace(law, stable_at=law.stable_at - 1)
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "0.00001"))
    with pytest.raises(ClaimTooSmall):
        scope.open(Stream(claimed=dpl.ApproxDP(1, MILLIONTH), made_of=low, kind="told"), None)
