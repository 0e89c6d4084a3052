"""An audit that is recorded does not contradict itself, its scopes or its charge: refused when it is written."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.guarantees import GDP, ApproxDP, Guarantee, PrivacyCurve, PureDP
from dpledger.audit import audit_outputs
from dpledger.audit.evidence.binomial import lower_limit, upper_limit
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Audited, Heartbeat, Intended, Reserved
from dpledger.ledger.entries.members import MechanismNote, Power, RefutedPoint
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.notes import note_of
from dpledger.ledger.rules.scope_state import next_steps
from dpledger.ledger.rules.transitions import fold, step
from dpledger.ledger.scope import Scope
from dpledger.relations import Relation
from ledger_mechanisms import laplace

AUDIT = Audited(
    mechanism=MechanismNote("laplace", {"epsilon": "1"}, "dpledger"),
    claim=PureDP(1),
    relation=Relation.ADD_REMOVE,
    verdict="not_refuted",
    epsilon_lower="0.9",
    delta="0",
    confidence="0.95",
    trials_left=1000,
    trials_right=1000,
    event="above 3",
    method="threshold",
)

TOGETHER: dict[str, Any] = {"together": True, "e_value": "20"}
BLIND = "every run gave the same output"
INTENDED = Intended(
    mechanism=AUDIT.mechanism, claim=PureDP(1), relation=Relation.ADD_REMOVE, trials=1000, confidence="0.95"
)


def a_scope() -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(3))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"verdict": "violation"}, "verdict"),
        ({"epsilon_lower": "1.1"}, "verdict"),
        ({"refuted": RefutedPoint("1", "0.1", "1.1")}, "verdict"),
        ({"verdict": "violation", "refuted": RefutedPoint("0.3", "0.2", "0.3")}, "above the epsilon that fell"),
        ({"verdict": "violation", "refuted": RefutedPoint("1", "1", "1.4")}, "delta"),
        ({"verdict": "violation", "epsilon_lower": "5.9"}, "can show"),  # ln(1 / (1 - 0.05^(1/1000))) is 5.81
        ({"verdict": "violation", "refuted": RefutedPoint("1", "0.2", "5.9")}, "can show"),
        ({"trials_left": 0, "trials_right": 0}, "can show"),
        ({"delta": "1"}, "delta"),
        ({"claim": ApproxDP(1, "0.1"), "delta": "0.01", "verdict": "violation"}, "verdict"),  # claims nothing there
        ({"claim": PrivacyCurve(("0", "0.5"), ("0.1", "0.01")), "delta": "0.05"}, "verdict"),  # allows 0.5 there
        ({"claim": GDP("0.1"), "delta": "0.00001"}, "verdict"),  # allows about 0.45 there
        ({"relation": Relation.REPLACE_ONE}, "relation of scope s"),
        ({"charge": "ab" * 16}, "no charge"),
        ({"method": "wealth", "epsilon_lower": "1"}, "verdict"),  # on the claim is refuted by a bet
        ({"verdict": "violation", "epsilon_lower": "1.1", "e_value": "19.9"}, "e_value"),
        ({"verdict": "violation"} | TOGETHER | {"e_value": "19.9"}, "e_value"),
        ({"verdict": "violation", "together": True}, "an e-value"),
        ({"verdict": "violation", "epsilon_lower": "1.1"} | TOGETHER, "no single point that fell"),
        ({"verdict": "violation", "refuted": RefutedPoint("1", "0.1", "1.1")} | TOGETHER, "no single point"),
        (TOGETHER, "verdict"),
        ({"blind": BLIND}, "epsilon_lower"),
        ({"blind": BLIND, "epsilon_lower": "1.1", "verdict": "violation"}, "not_refuted of an audit that was blind"),
        ({"blind": BLIND, "epsilon_lower": "0", "verdict": "violation"} | TOGETHER, "not_refuted of an audit that was"),
        ({"blind": BLIND, "epsilon_lower": "0", "power": Power("2", "0.9")}, "power"),
        ({"blind": BLIND, "epsilon_lower": "0", "e_value": "1"}, "e_value"),
        ({"verdict": "violation", "refuted": RefutedPoint("0.99", "0.1", "1.5")}, "what the claim allows at delta 0.1"),
        (
            {"claim": ApproxDP(2, "0.1"), "verdict": "violation", "refuted": RefutedPoint("2", "0.05", "2.1")},
            "what the claim allows at delta 0.05",
        ),
        (
            {"claim": PrivacyCurve(("0", "0.5"), ("0.1", "0.01")), "epsilon_lower": "0", "verdict": "violation"}
            | {"refuted": RefutedPoint("0.4", "0.05", "0.6")},
            "what the claim allows at delta 0.05",
        ),
        ({"method": "wealth", "verdict": "violation", "epsilon_lower": "1.1"}, "e_value"),
        ({"method": "by_hand", "verdict": "violation", "epsilon_lower": "50"}, "e_value"),
        ({"trials_left": 2, "trials_right": 2, "epsilon_lower": "0", "e_value": "16.1"}, "so many runs"),
        (
            {"verdict": "violation", "trials_left": 2, "trials_right": 2, "epsilon_lower": "0"} | TOGETHER,
            "so many runs",
        ),
        ({"trials_left": 2, "trials_right": 2, "epsilon_lower": "0", "power": Power("9", "0.9")}, "power"),
        ({"trials_left": 0, "trials_right": 0, "epsilon_lower": "0", "power": Power("9", "0.9")}, "power"),
        ({"intended": 1}, "no audit that is intended"),
    ],
)
def test_an_audit_that_contradicts_something_is_not_written(changes: dict[str, Any], told: str) -> None:
    scope = a_scope()
    with pytest.raises(ParameterError, match=told):
        scope.record(replace(AUDIT, **changes))
    scope.record(AUDIT)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon_lower": "1"},  # on the claim is not above it
        {"verdict": "violation", "epsilon_lower": "1.1"},
        {"verdict": "violation", "epsilon_lower": "0.2", "refuted": RefutedPoint("1", "0.1", "1.1")},
        {"claim": GDP(2), "verdict": "violation", "refuted": RefutedPoint("0.1", "0.2", "0.3")},  # a curve of parts
        {"verdict": "violation", "epsilon_lower": "5.8"},
        {"method": "by_hand", "verdict": "violation", "epsilon_lower": "50", "e_value": "20"},  # its author's word
        {"method": "by_hand", "verdict": "violation", "epsilon_lower": "50", "trials_left": 0, "trials_right": 0},
        {"trials_left": 2, "trials_right": 2, "epsilon_lower": "0", "e_value": "16"},
        {"trials_left": 3, "trials_right": 2, "epsilon_lower": "0", "power": Power("9", "0.9")},
        {"epsilon_lower": "0", "trials_left": 0, "trials_right": 0},
        {"e_value": "19.9"},
        {"e_value": "20.1"},  # every smaller epsilon must fall first
        {"method": "wealth", "verdict": "violation", "epsilon_lower": "1", "e_value": "20"},
        {"verdict": "violation", "epsilon_lower": "1.1", "e_value": "20"},
        {"verdict": "violation", "confidence": "0.97", "epsilon_lower": "1.1", "e_value": "33.333333333333"},
        {"verdict": "violation"} | TOGETHER,
        {"blind": BLIND, "epsilon_lower": "0"},
        {"apart": "no neighbours", "schedule": "blocks_1", "arms": 12, "code": "ab" * 32, "pair": "cd" * 32},
    ],
)
def test_an_audit_that_follows_from_its_numbers_is_written_and_verifies(changes: dict[str, Any]) -> None:
    scope = a_scope()
    entry = scope.record(replace(AUDIT, **changes))
    assert entry in scope._ledger.verify().entries


def test_an_audit_is_about_a_charge_of_its_scopes() -> None:
    scope = a_scope()
    scope.release(laplace(), 1)
    book = scope._ledger
    assert isinstance(book, Ledger)
    other = book.scope("other", unit="patient", relation="add_remove", budget=PureDP(3))
    charge = next(entry.body.charge for entry in scope._ledger.entries() if isinstance(entry.body, Reserved))
    scope.record(replace(AUDIT, charge=charge))
    with pytest.raises(ParameterError, match="scopes that the charge is charged to: s"):
        other.record(replace(AUDIT, charge=charge))
    scope._ledger.verify()


@pytest.mark.parametrize("claim", [PureDP("0.1"), ApproxDP("0.1", "0.00001"), GDP("0.05"), PureDP(9)])
def test_what_an_audit_finds_can_be_recorded_and_verifies(claim: Guarantee) -> None:
    """The auditor's own results keep the rule, whatever point of the claim fell."""
    generator = np.random.default_rng(7)
    left, right = (generator.normal(mean, 1.0, 4_000) for mean in (0.0, 2.0))
    result = audit_outputs(left, right, claim)
    assert result.verdict == ("not_refuted" if claim == PureDP(9) else "violation")
    body = result.body()
    assert (body.refuted is None) == (result.verdict == "not_refuted")
    scope = a_scope()
    scope.record(body)
    scope._ledger.verify()


@pytest.mark.parametrize("runs", [1, 10, 1000])
def test_the_most_that_runs_can_show_is_what_exact_limits_give_for_a_perfect_event(runs: int) -> None:
    """Against the auditor's own limits, at their most extreme counts: what they give passes, a little more does not."""
    doubt = 0.05
    rarest, likeliest = upper_limit(0, runs, doubt), lower_limit(runs, runs, doubt)
    assert likeliest <= 1
    most = -np.log(rarest)
    audit = replace(AUDIT, trials_left=runs, trials_right=runs, claim=PureDP(0), verdict="violation")
    note_of(replace(audit, epsilon_lower=Decimal(float(most) * (1 - 1e-6)).quantize(Decimal("1e-12"))))
    with pytest.raises(ParameterError, match="can show"):
        note_of(replace(audit, epsilon_lower=Decimal(float(most) * (1 + 1e-6)).quantize(Decimal("1e-12"))))


def test_a_result_is_recorded_as_it_was_returned_and_nothing_else_is() -> None:
    """An entry has a body as well, which is no way to say it again."""
    generator = np.random.default_rng(7)
    left, right = (generator.normal(mean, 1.0, 4_000) for mean in (0.0, 2.0))
    result = audit_outputs(left, right, claim=PureDP(1))
    scope = a_scope()
    entry = scope.record(result)
    assert isinstance(entry.body, Audited)
    assert replace(entry.body, path=()) == result.body()
    for wrong in (entry, type(result), Audited, "laplace", None):
        with pytest.raises(ParameterError, match="what an audit or `report` returned"):
            scope.record(wrong)  # type: ignore[arg-type]
    scope._ledger.verify()


# ---- what was intended ----------------------------------------------------------------------------------------------


def test_an_audit_that_was_intended_names_the_entry_that_said_so_and_ends_it() -> None:
    scope = a_scope()
    said = scope.intend(INTENDED)
    assert list(scope._ledger.state.intended) == [str(said.index)]
    found = scope.record(AUDIT, intended=said.index)
    assert isinstance(found.body, Audited)
    assert found.body.intended == said.index
    assert not scope._ledger.state.intended
    with pytest.raises(ParameterError, match="intended and not finished"):
        scope.record(AUDIT, intended=said.index)
    scope._ledger.verify()


@pytest.mark.parametrize(
    ("said", "found", "told"),
    [
        ({}, {"seed": 3}, "seed"),
        ({"seed": 3}, {}, "seed"),
        ({"schedule": "blocks_1"}, {}, "schedule"),
        ({}, {"confidence": "0.9"}, "confidence"),
        ({}, {"claim": PureDP("1.5")}, "claim"),
        ({"trials": 999}, {}, "trials"),
        ({}, {"mechanism": MechanismNote("laplace", {"epsilon": "2"}, "dpledger")}, "parameters"),
        ({}, {"mechanism": MechanismNote("gaussian", {"epsilon": "1"}, "dpledger")}, "mechanism"),
        ({"code": "ab" * 32}, {"code": "cd" * 32}, "code"),
        ({"code": "ab" * 32}, {}, "code"),
        ({"pair": "ab" * 32}, {"pair": "cd" * 32}, "pair"),
        ({"pair": "ab" * 32}, {}, "pair"),
    ],
)
def test_an_audit_of_other_numbers_is_not_the_one_that_was_intended(
    said: dict[str, Any], found: dict[str, Any], told: str
) -> None:
    scope = a_scope()
    entry = scope.intend(replace(INTENDED, **said))
    with pytest.raises(ParameterError, match=f"entry {entry.index} intended: {told} differs"):
        scope.record(replace(AUDIT, **found), intended=entry.index)


def test_an_audit_of_other_scopes_is_not_the_one_that_was_intended() -> None:
    scope = a_scope()
    entry = scope.intend(INTENDED)
    with pytest.raises(ParameterError, match="scopes differs"):
        scope._ledger.record(AUDIT, intended=entry.index)


def test_an_audit_that_stops_early_or_was_blind_or_is_of_realised_losses_is_the_one_that_was_intended() -> None:
    scope = a_scope()
    told: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {"trials_left": 900, "trials_right": 800}),
        ({}, {"blind": BLIND, "epsilon_lower": "0"}),
        ({"claim": None}, {"claim": PureDP(2)}),  # which stratum falls is not known before
        ({"code": "ab" * 32, "pair": "cd" * 32}, {"code": "ab" * 32, "pair": "cd" * 32}),
        ({}, {"code": "ab" * 32, "pair": "cd" * 32}),
    )
    for said, found in told:
        entry = scope.intend(replace(INTENDED, **said))
        recorded = scope.record(replace(AUDIT, **found), intended=entry.index)
        assert isinstance(recorded.body, Audited)
        assert recorded.body.intended == entry.index
    scope._ledger.verify()


def test_an_audit_that_was_intended_and_is_recorded_twice_or_differently_does_not_verify() -> None:
    """Whoever has the key and does not keep the rule."""
    scope = a_scope()
    said = scope.intend(INTENDED)
    found = scope.record(AUDIT, intended=said.index).body
    assert isinstance(found, Audited)
    state = fold(entry.body for entry in scope._ledger.entries())
    again = replace(found, path=next_steps(state, ("s",)))
    for wrong in (again, replace(again, intended=0), replace(again, intended=99)):
        with pytest.raises(VerificationError, match="intended and not finished"):
            step(state, wrong)
    step(state, replace(again, intended=None))


def test_only_an_audit_before_it_is_run_is_intended_and_only_its_result_ends_it() -> None:
    scope = a_scope()
    for wrong in (AUDIT, Heartbeat(), "laplace", None, Intended):
        with pytest.raises(ParameterError, match="audit"):
            scope.intend(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="relation of scope s"):
        scope.intend(replace(INTENDED, relation=Relation.REPLACE_ONE))
    with pytest.raises(ParameterError, match="not an audit"):
        scope.record(INTENDED, intended=0)
    assert len(scope._ledger) == 2
