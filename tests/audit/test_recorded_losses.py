"""Losses that the records of runs say, held to what the runs really lose."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.composition import Chain, LaplaceLaw
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit import audit_mechanism
from dpledger.audit.features.events import InStratum
from dpledger.audit.strata import ExPostClaim
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

Rng = np.random.Generator


def searched(values: list[float], rng: Rng) -> Release[Any]:
    """The first of some numbers above 0, by AboveThreshold."""
    run = dpl.AboveThreshold(epsilon=1, threshold=0, max_queries=len(values), sensitivity=1).open(
        values, entropy=seeded(int(rng.integers(2**53)))
    )
    asked = 0
    for place in range(len(values)):
        asked += 1
        if run.ask(itemgetter(place)).name == "ABOVE":
            break
    closed = run.close()
    return Release(value=asked, parts=closed.parts)


def test_the_losses_of_a_mechanism_of_dpledger_are_those_of_its_records() -> None:
    """Halted at t: min(1, t/4); never: 1/2."""
    left, right = [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]
    result = audit_mechanism(searched, left, right, ExPostClaim(), trials=3_000, seed=1)
    assert result.verdict == "not_refuted"
    assert {stratum.epsilon for stratum in result.evidence.strata} == {Decimal("0.25"), Decimal("0.5"), Decimal("0.75")}


def underbilled(data: float, rng: Rng) -> Release[float]:
    """The second of two levels, and the record of the first."""
    value = data + rng.laplace(0, 0.5)
    return Release(value=value, parts=Chain(LaplaceLaw(2), reached=LaplaceLaw(1)))


def billed(data: float, rng: Rng) -> Release[float]:
    value = data + rng.laplace(0, 0.5)
    return Release(value=value, parts=Chain(LaplaceLaw(2), reached=LaplaceLaw(2)))


def test_a_record_that_says_too_little_is_refuted() -> None:
    wrong, right = (
        audit_mechanism(run, 0.0, 1.0, ExPostClaim(), trials=3_000, seed=1) for run in (underbilled, billed)
    )
    assert (wrong.verdict, right.verdict) == ("violation", "not_refuted")
    assert wrong.claim == PureDP(1)
    assert isinstance(wrong.event, InStratum)
    assert any(wrong.event.contains(underbilled(0.0, np.random.default_rng(seed))) for seed in range(20))
    assert not wrong.event.contains(billed(0.0, np.random.default_rng(1))), "it claims another loss"


def test_a_mechanism_without_outcomes_has_one_stratum_its_cap() -> None:
    result = audit_mechanism(dpl.Laplace(sensitivity=1, epsilon=1), 0, 1, ExPostClaim(), trials=1_500, seed=1)
    assert [stratum.epsilon for stratum in result.evidence.strata] == [Decimal(1)]
    assert result.verdict == "not_refuted"
    by_hand = audit_mechanism(
        dpl.Laplace(sensitivity=1, epsilon=1), 0, 1, ExPostClaim(lambda _: "0.25"), trials=5_000, seed=1
    )
    assert by_hand.claim == PureDP("0.25")
    assert by_hand.verdict == "violation"


def refined(data: float, rng: Rng) -> Release[Any]:
    """A gradual release that is asked for a second level where the first is large."""
    run = dpl.ex_post.GradualRelease(epsilon=2, sensitivity=1).open(data, entropy=seeded(int(rng.integers(2**53))))
    if (answer := run.ask("0.5")) > 1:
        answer = run.ask(2)
    return Release(value=answer, parts=run.close().parts)


def refined_but_billed_first(data: float, rng: Rng) -> Release[Any]:
    """The same, and the record always names the first level."""
    found = refined(data, rng)
    return Release(value=found.value, parts=Chain(LaplaceLaw(2), reached=LaplaceLaw("0.5")))


def test_levels_are_held_to_what_their_chain_reached() -> None:
    right, wrong = (
        audit_mechanism(run, 0.0, 1.0, ExPostClaim(), trials=1_500, seed=1)
        for run in (refined, refined_but_billed_first)
    )
    assert {stratum.epsilon for stratum in right.evidence.strata} == {Decimal("0.5"), Decimal(2)}
    assert (right.verdict, wrong.verdict) == ("not_refuted", "violation")
    assert wrong.stratum is not None
    assert wrong.stratum.epsilon == Decimal("0.5")


def accurate(labels: list[float], rng: Rng) -> Release[Any]:
    search = dpl.ex_post.AccuracyFirst(
        "ridge", 10, 1, "0.25", "1.6", beta="0.5", levels=2, least_epsilon="0.05", most_epsilon="0.1"
    ).under(Relation.LABEL_FLIP, Unit("row"))
    found = search.release((np.ones((10, 1)), np.array(labels)), entropy=seeded(int(rng.integers(2**53))))
    return Release(value=(found.value.level, found.value.reached, *found.value.theta), parts=found.parts)


def test_accuracy_first_keeps_what_it_records() -> None:
    left, right = [1.0] * 10, [-1.0] + [1.0] * 9
    result = audit_mechanism(accurate, left, right, ExPostClaim(), relation="label_flip", trials=600, seed=1)
    assert result.verdict == "not_refuted"
    assert len(result.evidence.strata) >= 2


def failing(data: float, rng: Rng) -> Release[float]:
    return Release(value=data + rng.normal(), parts=ApproxDP(1, "0.01"))


def test_a_record_with_a_delta_needs_a_claim_with_one() -> None:
    with pytest.raises(ParameterError, match="at least the record's"):
        audit_mechanism(failing, 0.0, 0.1, ExPostClaim(), trials=200)
    claim = ExPostClaim(delta="0.01")
    assert audit_mechanism(failing, 0.0, 0.1, claim, trials=200, seed=1).claim == ApproxDP(1, "0.01")
