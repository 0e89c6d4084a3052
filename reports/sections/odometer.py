"""What an odometer shows that was opened with a scope: valid wherever one stops, and no guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.reports import words
from dpledger.reports.model import Item, Items, Prose, Section
from dpledger.reports.sections.several import items_of

__all__ = ["odometers"]

NO_GUARANTEE = (
    "An odometer bounds the loss of everything so far, at every moment at once. You may choose the moment by what was "
    "published. It is a reading after the fact, and no guarantee of differential privacy: it does not say what another "
    "run would have cost.",
)


def odometers(accounts: Sequence[ScopeAccount]) -> tuple[Section, ...]:
    """The section on the odometers, where some scope has one."""
    items = items_of(accounts, _items)
    if not items:
        return ()
    return (
        Section(
            id="odometer",
            heading="Odometer: a reading valid at every moment, no guarantee of differential privacy",
            about="The most that was lost, whenever you look.",
            blocks=(
                Prose(id="odometer/is_no_guarantee", lines=NO_GUARANTEE, tone="note"),
                Items(items=items),
            ),
        ),
    )


def _items(account: ScopeAccount) -> tuple[Item, ...]:
    found = account.odometer()
    if found is None:
        return ()
    prefix = f"scope:{account.scope}"
    constants, most = found.odometer, found.epsilon_upper
    delta = words.at_most(found.delta)
    text = f"no bound at δ = {delta}" if most.is_infinite() else f"ε ≤ {words.at_most(most)}, δ = {delta}"
    rule = (
        f"the {constants.boundary} boundary, tuned at {words.at_most(constants.tuning)}, with δ = "
        f"{words.at_most(constants.delta_boundary)}; a sum of deltas of at most {words.at_most(constants.delta_sum)}"
    )
    sums = (
        f"{words.at_most(found.pure)} in pure epsilons, {words.at_most(found.rho)} in zCDP (ρ), "
        f"{words.at_most(found.delta_charged)} in deltas"
    )
    return (
        Item(id=f"{prefix}/odometer_upper", label="Lost at most, at every moment", text=text, value=most),
        Item(id=f"{prefix}/odometer_sums", label="Counted so far", text=sums),
        Item(id=f"{prefix}/odometer_rule", label="Fixed when the scope opened", text=rule),
    )
