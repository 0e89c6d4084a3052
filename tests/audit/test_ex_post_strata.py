"""Ex-post claims: a realised loss that is too small falls in its own stratum, all strata are tested together at one
level, and who keeps the claim is left alone."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from audit_oracles import at_most_so_often
from dpledger.accounting.composition import LaplaceLaw
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.audit.features.events import InStratum
from dpledger.audit.outcomes import Raised
from dpledger.audit.strata import MOST_STRATA, ExPostClaim, Stated, Stratum, strata_of
from dpledger.audit.zoo.answers.coins import RevealingDraws
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from strata_oracle import ByFirst, PublishedCoin

pytestmark = pytest.mark.sliced

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
    assert result.fell_as_a_whole
    assert [stratum.epsilon for stratum in result.evidence.strata] == [Decimal("0.25"), Decimal("0.5")]
    assert result.event is not None
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


def test_who_keeps_the_claim_is_left_alone() -> None:
    result = audited(COIN, TRUE, trials=300_000)
    assert result.verdict == "not_refuted"
    assert result.epsilon_lower == 0
    (cheap, dear) = result.evidence.in_strata
    assert cheap[0] + dear[0] == result.trials_left
    assert cheap[1] + dear[1] == result.trials_right


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
    assert (result.verdict, len(result.evidence.strata)) == ("not_refuted", 1)
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


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "not_refuted"), (0.5, "violation")])
def test_many_claimed_losses_are_read_in_ranges_each_at_its_largest(factor: float, verdict: str) -> None:
    claim = ExPostClaim(lambda rows: rows[:, 0] * factor)
    result = audit_mechanism(of_many, True, False, claim, trials=40_000, batched=True, seed=1)
    assert result.verdict == verdict
    assert len(result.evidence.strata) == MOST_STRATA
    assert result.event is not None
    assert "at most" in result.event.words


# ---- all strata together --------------------------------------------------------------------------------------------

TEN = PublishedCoin((0.1,) * 10, (1.0,) * 10)
SPREAD = ByFirst(tuple(0.6 + place / 1000 for place in range(10)))


def test_evidence_of_many_strata_adds_up() -> None:
    """Ten strata that each claim about 0.6 of a true loss of 1, and one that holds as many runs and is told apart as
    well: the test of all of them needs no more runs, and the entry says that they fell together."""
    result = audited(TEN, SPREAD, trials=3_000)
    assert result.verdict == "violation"
    assert result.fell_as_a_whole
    body = result.body()
    assert (body.together, body.refuted, body.claim) == (True, None, PureDP("0.609"))
    dpl.Ledger.in_memory().record(result)
    assert audited(TEN, ByFirst(tuple(1 + place / 1000 for place in range(10))), trials=3_000).verdict == "not_refuted"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [COIN, TEN], ids=["two strata", "ten strata"])
def test_correct_mechanisms_are_refuted_no_more_often_than_promised(mechanism: PublishedCoin) -> None:
    """On the boundary of the claim, with few runs; all looks and the bet share one error budget."""
    audits = 60
    results = [
        audited(mechanism, ByFirst(mechanism.epsilons), trials=400, confidence="0.8", seed=seed)
        for seed in range(audits)
    ]
    alarms = sum(result.verdict == "violation" for result in results)
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE


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
    audits = 400
    results = [
        audit_mechanism(mechanism, True, False, claim, trials=trials, confidence="0.8", batched=True, seed=seed)
        for seed in range(audits)
    ]
    alarms = sum(result.verdict == "violation" for result in results)
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE


def test_the_same_seed_gives_the_same_result_with_any_number_of_jobs() -> None:
    one, two = (audited(COIN, SMALL, trials=150_000, jobs=jobs) for jobs in (1, 2))
    assert one.evidence == two.evidence


# ---- what a result says ---------------------------------------------------------------------------------------------


def test_the_entry_says_that_the_strata_fell_and_its_event_names_one() -> None:
    body = audited(COIN, SMALL).body()
    assert body.claim == PureDP("0.5")
    assert body.event.startswith("claimed loss 0.5 and output")
    assert (body.verdict, body.together, body.refuted) == ("violation", True, None)
    book = dpl.Ledger.in_memory()
    book.scope("rows", unit="record", relation="add_remove", budget=PureDP(1)).record(body)
    book.verify()
    assert "claimed loss 0.5" in dpl.report(book).markdown()


def test_words_and_json_name_every_stratum(tmp_path: Path) -> None:
    result = audited(COIN, SMALL)
    text = str(result)
    assert text.startswith("violation: the ex-post claim is refuted")
    assert "claimed loss 0.25: " in text
    document = json.loads(result.to_json())
    assert [row["stratum"] for row in document["strata"]] == ["claimed loss 0.25", "claimed loss 0.5"]
    result.plot(tmp_path / "strata.svg")
    assert (tmp_path / "strata.svg").read_text().startswith("<?xml")
    assert str(audited(COIN, TRUE)).startswith("not refuted: the ex-post claim (this is no proof of privacy)")


def test_an_event_of_a_stratum_reads_the_claimed_loss_of_an_output() -> None:
    event = audited(COIN, SMALL).event
    assert isinstance(event, InStratum)
    inside = [output for output in ((0, 0), (0, 1), (1, 0), (1, 1)) if event.contains(output)]
    assert inside
    assert all(output[0] == 1 for output in inside)


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
