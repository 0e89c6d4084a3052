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
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Audited, Reserved
from dpledger.ledger.entries.members import MechanismNote, RefutedPoint
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.notes import note_of
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


def a_scope() -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(3))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"verdict": "violation"}, "verdict"),
        ({"epsilon_lower": "1.1"}, "verdict"),
        ({"refuted": RefutedPoint("0.1", "0.2", "0.3")}, "verdict"),
        ({"verdict": "violation", "refuted": RefutedPoint("0.3", "0.2", "0.3")}, "above the epsilon that fell"),
        ({"verdict": "violation", "refuted": RefutedPoint("0.3", "1", "0.4")}, "delta"),
        ({"verdict": "violation", "epsilon_lower": "5.9"}, "can show"),  # ln(1 / (1 - 0.05^(1/1000))) is 5.81
        ({"verdict": "violation", "refuted": RefutedPoint("0.3", "0.2", "5.9")}, "can show"),
        ({"trials_left": 0, "trials_right": 0}, "can show"),
        ({"delta": "1"}, "delta"),
        ({"claim": ApproxDP(1, "0.1"), "delta": "0.01", "verdict": "violation"}, "verdict"),  # claims nothing there
        ({"claim": PrivacyCurve(("0", "0.5"), ("0.1", "0.01")), "delta": "0.05"}, "verdict"),  # allows 0.5 there
        ({"claim": GDP("0.1"), "delta": "0.00001"}, "verdict"),  # allows about 0.45 there
        ({"relation": Relation.REPLACE_ONE}, "relation of scope s"),
        ({"charge": "ab" * 16}, "no charge"),
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
        {"verdict": "violation", "epsilon_lower": "0.2", "refuted": RefutedPoint("0.1", "0.2", "0.3")},
        {"verdict": "violation", "epsilon_lower": "5.8"},
        {"method": "by_hand", "verdict": "violation", "epsilon_lower": "50"},  # no counts: its author's word
        {"epsilon_lower": "0", "trials_left": 0, "trials_right": 0},
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
