"""What an odometer shows that was opened with a scope: valid wherever one stops, and no guarantee."""

from __future__ import annotations

from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.reports import words
from dpledger.reports.model import Item, Items, Prose, Section

__all__ = ["odometer"]

NO_GUARANTEE = (
    "An odometer bounds the loss of everything so far at every moment at once, also at one that is chosen by what was "
    "published. It is a reading after the fact and no guarantee of differential privacy: it does not say what another "
    "run would have cost.",
)


def odometer(account: ScopeAccount, prefix: str) -> tuple[Section, ...]:
    """The section on the odometer, where the scope has one."""
    found = account.odometer()
    if found is None:
        return ()
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
    items = (
        Item(id=f"{prefix}/odometer_upper", label="Lost at most, at every moment", text=text, value=most),
        Item(id=f"{prefix}/odometer_sums", label="Counted so far", text=sums),
        Item(id=f"{prefix}/odometer_rule", label="Fixed when the scope opened", text=rule),
    )
    return (
        Section(
            id=f"{prefix}/odometer",
            heading="Odometer: a reading valid at every moment, no guarantee of differential privacy",
            blocks=(
                Prose(id=f"{prefix}/odometer_is_no_guarantee", lines=NO_GUARANTEE, tone="note"),
                Items(items=items),
            ),
        ),
    )
