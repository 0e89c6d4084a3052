"""Ex-post claims: a realised loss that is too small falls in its own stratum, all strata are tested together at one
level, and who keeps the claim is left alone."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dpledger.audit.evidence.joint import bet_on, settle
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from audit_oracles import at_most_so_often
from dpledger.accounting.composition import LaplaceLaw
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.audit.events import InStratum
from dpledger.audit.outcomes import Raised
from dpledger.audit.strata import MOST_STRATA, ExPostClaim, Stated, Stratum, strata_of
from dpledger.audit.zoo.answers.coins import RevealingDraws
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from strata_oracle import ByFirst, PublishedCoin, largest_mean

Rng = np.random.Generator
SIGNIFICANCE = 1e-9  # of each simulation here
COIN = PublishedCoin((0.9, 0.1), (0.25, 1.0))
TRUE, SMALL = ByFirst((0.25, 1.0)), ByFirst((0.25, 0.5))


def audited(mechanism: PublishedCoin, loss: ByFirst, **changes: Any) -> AuditResult:
    own: dict[str, Any] = {"trials": 20_000, "batched": True, "seed": 3, "progress": False}
    return audit_mechanism(mechanism, True, False, ExPostClaim(loss), **{**own, **changes})


# ---- what is found --------------------------------------------------------------------------------------------------


def test_a_realised_loss_that_is_too_small_falls_in_its_stratum() -> None:
    result = audited(COIN, SMALL)
    assert result.verdict == "violation"
    assert result.stratum == Stratum(Decimal("0.5"))
    assert result.claim == PureDP("0.5")
    assert Decimal("0.5") < result.epsilon_lower <= 1
    assert [found.refuted for found in result.by_stratum] == [False, True]
    assert "claimed loss 0.5" in result.event.words


def test_pooling_hides_it() -> None:
    """Every event of all outcomes together keeps 0.5: the dear branch is taken once in ten runs, and an auditor that
    looks at answers alone finds nothing. Nor does one that looks at whole outcomes find a broken cap."""
    p, q = COIN.law(True), COIN.law(False)
    pooled = math.log((p[1] + p[3]) / (q[1] + q[3]))
    assert pooled < 0.5 < math.log(p[3] / q[3])
    rng = np.random.default_rng(5)
    left, right = COIN(True, 20_000, rng), COIN(False, 20_000, rng)
    assert audit_outputs(left[:, 1], right[:, 1], PureDP("0.5")).verdict == "not_refuted"
    assert audit_outputs(left, right, PureDP(1)).verdict == "not_refuted"
    assert audit_outputs(left.tolist(), right.tolist(), ExPostClaim(lambda row: SMALL.losses[int(row[0])])).verdict == (
        "violation"
    )


def test_who_keeps_the_claim_is_left_alone_and_bounded_from_close_below() -> None:
    result = audited(COIN, TRUE, trials=300_000)
    assert result.verdict == "not_refuted"
    cheap, dear = result.by_stratum
    assert 0.23 < cheap.epsilon_lower <= 0.25
    assert 0.93 < dear.epsilon_lower <= 1
    assert cheap.left + dear.left == result.trials_left - result.selected_on[0]


def test_a_claim_with_a_delta_is_tested_at_it() -> None:
    """One run in a hundred publishes the bit: a bound of the others that holds with delta 0.01."""
    leaky = PublishedCoin((0.99, 0.01), (1.0, 40.0))
    loss = ByFirst((1.0, 1.0))
    wrong = audit_mechanism(leaky, True, False, ExPostClaim(loss, "0.001"), trials=50_000, batched=True, seed=1)
    right = audit_mechanism(leaky, True, False, ExPostClaim(loss, "0.01"), trials=50_000, batched=True, seed=1)
    assert (wrong.verdict, right.verdict) == ("violation", "not_refuted")
    assert wrong.claim == ApproxDP(1, "0.001")
    assert wrong.delta == Decimal("0.001")


def test_what_is_claimed_to_be_infinite_and_what_raises_is_in_no_stratum() -> None:
    result = audited(COIN, ByFirst((0.25, math.inf)))
    assert (result.verdict, len(result.by_stratum)) == ("not_refuted", 1)
    stated = Stated(ExPostClaim(lambda value: value), Relation.ADD_REMOVE)
    losses = stated.losses([0.5, Raised("ValueError"), Decimal("0.1"), 601, 5e-324])
    assert losses.tolist() == [0.5, math.inf, 0.1, math.inf, 1e-60]


def raising(data: float, rng: Rng) -> float:
    """Raises on one side alone, now and then."""
    if data and rng.random() < 0.3:
        raise ValueError
    return 0.0 if rng.random() < 0.5 else 1.0


def test_a_run_that_raises_is_held_to_the_cap() -> None:
    unknown = audit_mechanism(raising, 0.0, 1.0, ExPostClaim(lambda _: 3), trials=2_000, seed=1)
    capped = audit_mechanism(raising, 0.0, 1.0, ExPostClaim(lambda _: 3, cap=4), trials=2_000, seed=1)
    assert unknown.verdict == "not_refuted"
    assert capped.verdict == "violation"
    assert capped.claim == PureDP(4)
    of_a_mechanism = Stated(ExPostClaim(), Relation.ADD_REMOVE, parts=LaplaceLaw(2))
    assert of_a_mechanism.losses([Raised("ValueError")]).tolist() == [2.0]


MANY = np.linspace(0.5, 1.5, 200)


def of_many(bit: bool, size: int, rng: Rng) -> npt.NDArray[Any]:
    """A published uniform epsilon, of 200 values, and its randomised response."""
    epsilon = rng.choice(MANY, size)
    return np.stack([epsilon, (rng.random(size) < 1 / (1 + np.exp(-epsilon))) == bit], axis=1)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "not_refuted"), (0.5, "violation")])
def test_many_claimed_losses_are_read_in_ranges_each_at_its_largest(factor: float, verdict: str) -> None:
    claim = ExPostClaim(lambda rows: rows[:, 0] * factor)
    result = audit_mechanism(of_many, True, False, claim, trials=40_000, batched=True, seed=1)
    assert result.verdict == verdict
    assert len(result.by_stratum) == MOST_STRATA
    assert "and at most" in result.event.words
    assert result.epsilon_lower <= 1.5


# ---- all strata together --------------------------------------------------------------------------------------------

TEN = PublishedCoin((0.1,) * 10, (1.0,) * 10)
SPREAD = ByFirst(tuple(0.6 + place / 1000 for place in range(10)))


def test_evidence_of_many_strata_adds_up() -> None:
    """Ten strata that each claim about 0.6 of a true loss of 1: with so few runs no look of its own falls, their bet
    does; then no single stratum can be named, and none goes into an entry."""
    result = audited(TEN, SPREAD, trials=1_500)
    assert result.strata is not None
    assert result.strata.joint.refuted
    assert result.verdict == "violation"
    assert not any(found.refuted for found in result.by_stratum)
    assert "by its strata together" in str(result)
    with pytest.raises(CannotCertify, match="no single one"):
        result.body()
    assert audited(TEN, ByFirst(tuple(1 + place / 1000 for place in range(10))), trials=1_500).verdict == "not_refuted"


COUNTS = st.lists(st.integers(0, 400), min_size=9, max_size=9).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    left=COUNTS,
    right=COUNTS,
    losses=st.tuples(st.floats(0, 6), st.one_of(st.floats(0, 6), st.just(math.inf))),
    delta=st.sampled_from([0.0, 1e-5, 0.01, 0.3]),
)
def test_no_pair_that_keeps_the_claim_wins_from_a_bet(
    left: list[int], right: list[int], losses: tuple[float, float], delta: float
) -> None:
    """The largest mean of the weights, by a linear programme: at most the cost. So with A + B <= cost the product of
    means A^n B^m is at most what the e-value is divided by, for any n and m."""
    epsilons = np.array([*np.repeat(losses, 4), math.inf])
    for arm in bet_on(np.array(left), np.array(right), epsilons, delta).arms:
        assert largest_mean(np.exp(arm.left), np.exp(arm.right), epsilons, delta) <= arm.cost * (1 + 1e-7)


def test_the_programme_sees_a_bet_that_is_too_bold() -> None:
    """One weight a hundredth above the region; and the place where a bet begins, taken as g where l and m differ."""
    epsilons = np.array([1.0, 1.0, math.inf])
    fair = bet_on(np.array([400, 10, 5]), np.array([20, 60, 5]), epsilons, 0.0).arms[0]
    a, b = np.exp(fair.left), np.exp(fair.right)
    assert largest_mean(a, b, epsilons, 0.0) <= fair.cost * (1 + 1e-9)
    assert largest_mean(a * [1.01, 1, 1], b, epsilons, 0.0) > fair.cost * 1.001
    low, high, g, p = 0.66, 0.34, math.e, 0.76  # p/q above g, below g l/m
    line = (low + high / g) * p
    early = np.array([line, low]), np.array([g * (low + high / g - line), high])
    assert largest_mean(*early, np.array([1.0, 0.0]), 0.0) > 1.001


def test_a_bet_of_unequal_numbers_is_divided_by_its_own_mean() -> None:
    """Two runs on the left for each on the right. Divided by (cost/2)^(n + m), as one would for pairs, the product of a
    correct mechanism has a mean far above 1."""
    bold = bet_on(np.array([400, 0, 0]), np.array([0, 200, 0]), np.array([0.0, 0.0, math.inf]), 0.0).arms[0]
    a, b = np.exp(bold.left), np.exp(bold.right)
    worst = max(
        20 * math.log(p * a[0] + (1 - p) * a[1]) + 10 * math.log(p * b[0] + (1 - p) * b[1])
        for p in np.linspace(0, 1, 101)
    )
    fair = 20 * math.log(20 / 30 * bold.cost) + 10 * math.log(10 / 30 * bold.cost)
    assert worst <= fair + 1e-9
    assert worst > 30 * math.log(bold.cost / 2) + 1


def test_what_a_bet_came_to_is_the_mean_of_the_products_of_its_weights() -> None:
    epsilons = np.array([0.5, 0.5, 1.0, 1.0, math.inf])
    bet = bet_on(np.array([300, 20, 50, 3, 7]), np.array([20, 300, 3, 50, 7]), epsilons, 0.01)
    left, right = np.array([30, 5, 7, 0, 2]), np.array([3, 28, 1, 8, 4])
    joint = settle(bet, left, right, Fraction(1, 20))
    mine = [
        float((np.exp(arm.left) ** left).prod() * (np.exp(arm.right) ** right).prod()) / (arm.cost / 2) ** 88
        for arm in bet.arms
    ]
    assert joint.log_wealth == pytest.approx(math.log(np.mean(mine)), abs=1e-6)
    assert joint.refuted == (np.mean(mine) > 20)
    assert joint.p_value == pytest.approx(1 / np.mean(mine))


@pytest.mark.parametrize("mechanism", [COIN, TEN], ids=["two strata", "ten strata"])
def test_correct_mechanisms_are_refuted_no_more_often_than_promised(mechanism: PublishedCoin) -> None:
    """On the boundary of the claim, with few runs; all looks and the bet share one error budget."""
    audits = 60
    results = [
        audited(mechanism, ByFirst(mechanism.epsilons), trials=400, confidence="0.8", seed=seed)
        for seed in range(audits)
    ]
    alarms = sum(result.verdict == "violation" for result in results)
    above = sum(any(one.epsilon_lower > one.claimed for one in result.by_stratum) for result in results)
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE
    assert at_most_so_often(above, audits, 0.2) > SIGNIFICANCE


DRAWS = RevealingDraws(4, Decimal("0.3"), Decimal("0.1"))
EXACTLY = ExPostClaim(ByFirst((0.3, 0.6, 0.9, 1.2)), delta="0.1")


@pytest.mark.slow
@pytest.mark.parametrize("trials", [300, 3_000])
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [(COIN, ExPostClaim(TRUE)), (TEN, ExPostClaim(ByFirst(TEN.epsilons))), (DRAWS, EXACTLY)],
    ids=["two strata", "ten strata", "a delta"],
)
def test_many_audits_on_the_boundary(mechanism: Any, claim: ExPostClaim, trials: int) -> None:
    """The bet alone as well, held to its own share."""
    audits = 400
    results = [
        audit_mechanism(mechanism, True, False, claim, trials=trials, confidence="0.8", batched=True, seed=seed)
        for seed in range(audits)
    ]
    alarms = sum(result.verdict == "violation" for result in results)
    bets = sum(result.strata is not None and result.strata.joint.refuted for result in results)
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE
    assert at_most_so_often(bets, audits, 0.2 / 3) > SIGNIFICANCE


def test_shares_of_looks_and_bet_add_up_to_the_error_budget() -> None:
    result = audited(TEN, SPREAD)
    assert result.strata is not None
    assert sum(look.planned.share for look in result.looks) + result.strata.joint.share == Fraction(1, 20)


def test_the_same_seed_gives_the_same_result_with_any_number_of_jobs() -> None:
    one, two = (audited(COIN, SMALL, trials=150_000, jobs=jobs) for jobs in (1, 2))
    assert (one.looks, one.strata) == (two.looks, two.strata)


# ---- what a result says ---------------------------------------------------------------------------------------------


def test_the_entry_claims_what_the_stratum_claimed_and_its_event_names_it() -> None:
    result = audited(COIN, SMALL)
    body = result.body()
    assert body.claim == PureDP("0.5")
    assert body.event.startswith("claimed loss 0.5 and output")
    assert body.refuted is not None
    assert (body.verdict, body.refuted.epsilon) == ("violation", Decimal("0.5"))
    book = dpl.Ledger.in_memory()
    book.scope("rows", unit="record", relation="add_remove", budget=PureDP(1)).record(body)
    book.verify()
    assert "claimed loss 0.5" in dpl.report(book).markdown()


def test_words_json_and_picture_name_every_stratum(tmp_path: Path) -> None:
    result = audited(COIN, SMALL)
    text = str(result)
    assert text.startswith("violation: the ex-post claim, in the stratum of claimed loss 0.5: pure_dp(epsilon=0.5)")
    assert "claimed loss 0.25: epsilon at least" in text
    assert "all strata together: refuted" in text
    document = json.loads(result.to_json())["ex_post"]
    assert [row["claimed"] for row in document["strata"]] == ["0.25", "0.5"]
    assert [row["refuted"] for row in document["strata"]] == [False, True]
    assert document["together"]["refuted"] is True
    figure = result.plot(tmp_path / "strata.svg")
    assert (tmp_path / "strata.svg").read_text().startswith("<?xml")
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [row.splitlines()[0] for row in rows] == ["claimed loss 0.25", "claimed loss 0.5"]
    kept = str(audited(COIN, TRUE))
    assert kept.startswith("not refuted: the ex-post claim, in any of 2 strata (this is no proof of privacy)")


def test_an_event_of_a_stratum_reads_the_claimed_loss_of_an_output() -> None:
    event = audited(COIN, SMALL).event
    assert isinstance(event, InStratum)
    inside = [output for output in ((0, 0), (0, 1), (1, 0), (1, 1)) if event.contains(output, width=2)]
    assert len(inside) == 1
    assert inside[0][0] == 1


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [lambda _: math.nan, lambda _: -1, lambda _: "much", lambda _: None, lambda _: [1], lambda _: 1 / 0],
    ids=["nan", "negative", "word", "None", "list", "raises"],
)
def test_what_is_no_loss_is_refused_and_named(loss: Any) -> None:
    with pytest.raises(ParameterError) as refusal:
        audit_outputs([0.0] * 200, [1.0] * 200, ExPostClaim(loss))
    assert refusal.value.field == "claim"


def test_claims_that_cannot_be_tested_are_refused() -> None:
    with pytest.raises(ParameterError, match="loss"):
        ExPostClaim("0.5")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="delta"):
        ExPostClaim(delta=1)
    with pytest.raises(ParameterError, match="runs that give a Release"):
        audit_outputs([0.0] * 200, [1.0] * 200, ExPostClaim())
    with pytest.raises(CannotCertify, match="bounds the loss of no outcome"):
        audit_outputs([0.0] * 200, [1.0] * 200, ExPostClaim(lambda _: math.inf))
    with pytest.raises(ParameterError, match="its own delta"):
        audited(COIN, TRUE, delta="1e-5")
    with pytest.raises(ParameterError, match="losses of a batch"):
        audit_mechanism(COIN, True, False, ExPostClaim(lambda rows: rows), trials=200, batched=True)


@given(st.lists(st.floats(0, 600), min_size=1, max_size=80))
def test_every_claimed_loss_is_in_exactly_one_stratum_that_claims_no_less(losses: list[float]) -> None:
    read = Stated(ExPostClaim(lambda value: value), Relation.ADD_REMOVE).losses(losses)
    strata = strata_of([read])
    inside = np.array([stratum.holds(read) for stratum in strata])
    assert (inside.sum(axis=0) == 1).all()
    for loss, place in zip(losses, inside.argmax(axis=0), strict=True):
        assert strata[place].epsilon >= Decimal(repr(loss))
