"""The words of a refusal: what each account was asked, what it holds, and what somebody may do next."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting import filters
from dpledger.accounting.guarantees import ApproxDP
from dpledger.decimals import INFINITY, ZERO, add, round_down, round_up, text
from dpledger.errors import BudgetRefused
from dpledger.ledger.rules.scope_state import ScopeState

__all__ = ["exclusive", "with_a_way", "words"]

TOLD_DIGITS = 9  # of an account: a price that is told from a scale of noise is exact to twelve
FEW_DIGITS = 3  # of a number that people are told


def words(scope: ScopeState, mechanism: str, wanted: Mapping[str, str], *, elsewhere: bool) -> str:
    """What is said where `scope` does not admit what asks `wanted` of its accounts. `elsewhere`: of a run that may
    happen all the same."""
    spent, left = (told(scope.filter, scope.sums) for told in (filters.spent, filters.left))
    decides = filters.deciding(scope.filter)
    accounts = "; ".join(
        f"{name}: holds a charge that has no price in this account"
        if spent[name] == "inf"
        else f"{name}: asked {_up(wanted[name])}, spent {_up(spent[name])}, left {_down(left[name])}"
        for name in wanted
    )
    told = "".join(f" ({name} is not a limit)" for name in wanted if name not in decides)
    unpriced = [name for name in decides if wanted.get(name) == "inf"]
    never = f"; no theorem prices it in {' and '.join(unpriced)}: {_another(scope)}" if unpriced else ""
    uncovered = "; if it runs elsewhere all the same, no promise of this scope covers it" if elsewhere else ""
    return (
        f"scope {scope.scope!r} refuses {mechanism}, and nothing was spent. By account: {accounts}{told}. Ask for "
        "less (`scope.quote` and `scope.afford` say what fits), or open a new scope (for the same people, both add "
        f"up){never}{_where_delta_fits(scope, wanted)}{uncovered}"
    )


def _another(scope: ScopeState) -> str:
    """Which budget may have a price for what this one has none."""
    if filters.names(scope.filter) == ("pure",):
        return "a budget with a delta, like ApproxDP(1, '1e-6'), may price it"
    return "another kind of budget may price it"


def _up(number: str) -> str:
    """A number as people are told it, no smaller than it is."""
    return number if number == "inf" else text(round_up(Decimal(number), digits=TOLD_DIGITS))


def _down(number: str) -> str:
    return text(round_down(Decimal(number), digits=TOLD_DIGITS))


def with_a_way(refused: BudgetRefused, tail_delta: Decimal | None) -> BudgetRefused:
    """The refusal, with the tail_delta that the same request is admitted with, if there is one."""
    if tail_delta is None:
        return refused
    return BudgetRefused(
        f"{refused}; the same request fits now with tail_delta={text(tail_delta)}",
        scope=refused.scope,
        asked=refused.asked,
        spent=refused.spent,
        left=refused.left,
        tail_delta=tail_delta,
    )


def _where_delta_fits(scope: ScopeState, wanted: Mapping[str, str]) -> str:
    """What is said where nothing but the delta of a claim does not fit, since the scope keeps some of its own back."""
    filter_, sums = scope.filter, scope.sums
    for_claims = filters.delta_for_claims(filter_)
    asked = {account: Decimal(number) for account, number in wanted.items()}
    if not for_claims or asked["delta"].is_infinite() or not filters.fits(filter_, sums, {**asked, "delta": ZERO}):
        return ""
    budget = filters.budget_guarantee(filter_)
    assert isinstance(budget, ApproxDP), "a budget of which a part is kept back has a delta"
    all_of_it = add(asked["delta"], Decimal(filters.spent(filter_, sums)["delta"]))
    enough = round_up(Fraction(all_of_it) * Fraction(budget.delta) / Fraction(for_claims), digits=FEW_DIGITS)
    if not enough < 1:
        return ""
    pure = add(asked.get("pure", INFINITY), Decimal(filters.spent(filter_, sums).get("pure", "inf")))
    fits_whole = pure <= budget.epsilon and all_of_it <= budget.delta
    told = (
        f"; claims may use only {text(for_claims)} of the scope's delta {text(budget.delta)}, the rest is for "
        f"composing: a new scope with delta {text(enough)} has room"
    )
    if fits_whole:
        told += f", or with BasicFilter(epsilon={text(budget.epsilon)}, delta_sum={text(budget.delta)})"
    if fits_whole and scope.instead is not None:  # the gate fixes no filter for what may be over
        told += "; if you charge it before it runs, with `charging`, it fits here as the first charge"
    return told


def exclusive(scope: str) -> str:
    """Why nothing may begin in a scope while an interaction that overlaps no other is open there."""
    return (
        f"an exclusive interaction is open in scope {scope!r}: close it first. If its process died, resume or settle "
        "it if it is a run with granted steps; any other interaction stays open for ever, so use another scope"
    )
