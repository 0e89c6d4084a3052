"""The course of a charge that was admitted: it is started, another process takes it over, and it is settled. Pure rules
that say which body comes next; the ledger gives it its place."""

from __future__ import annotations

from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Composition
from dpledger.errors import PolicyError, ScopeBusy, ScopeError
from dpledger.ledger.entries.bodies import Committed, Progress, Started
from dpledger.ledger.rules import refusals, settling
from dpledger.ledger.rules.capability import Redeem
from dpledger.ledger.rules.scope_state import OpenCharge, State, next_steps

__all__ = ["settle", "start", "take_over"]


def start(state: State, charge: OpenCharge, redeem: Redeem) -> Started:
    """The body that starts a reserved charge. ScopeBusy where an exclusive interaction was opened since, ScopeError
    where a scope that is charged was closed."""
    for name in charge.path:
        if state.scopes[name].closed:
            raise ScopeError(
                f"scope {name!r} was closed before this charge was started, so it cannot start. The charge is held "
                "until you give it back"
            )
    if state.must_wait(charge):
        raise ScopeBusy(refusals.exclusive(charge.scope))
    return Started(path=next_steps(state, charge.path), charge=charge.charge, redeem=redeem.digest)


def take_over(state: State, charge: OpenCharge, redeem: Redeem) -> Progress | Started:
    """The body after which `redeem`, and no other any more, is granted the steps of an open training run, whose process
    may be dead. Nothing is granted by it. ScopeError for what is not granted its steps; of one that was held and never
    started as `start`."""
    if charge.form != "training":
        raise ScopeError(
            "another process can resume or settle only a run with granted steps. The answers of this one were not "
            "counted, so its charge stands"
        )
    if charge.redeem is None:
        return start(state, charge, redeem)
    return Progress(
        path=next_steps(state, charge.path),
        charge=charge.charge,
        redeem=redeem.digest,
        upto=charge.granted,
        replaces=charge.redeem,
    )


def settle(
    state: State,
    charge: OpenCharge,
    parts: Composition,
    *,
    redeem: Redeem,
    outside_guarantee: bool = False,
    handed_out: int = 0,
    levels: tuple[ChainLaw, ...] | None = None,
    warnings: tuple[str, ...] = (),
    digest: str | None = None,
) -> Committed:
    """The body that ends a started charge with the outcomes in `parts`, by the refund rule of each level. `handed_out`:
    how many answers the ledger itself counted. `levels`: of an interaction, the finest levels of chains among them.

    Raises PolicyError for a charge that was not started, or not by this redeem; VerificationError for an outcome
    against what was counted."""
    if charge.redeem is None:
        raise PolicyError("a charge that was not started cannot be settled: start it, or abort it")
    if not redeem.opens(charge.redeem):
        raise PolicyError("the charge was started by another process or attempt: only that one can settle it")
    seen = settling.with_levels(parts, levels) if charge.form == "interaction" and handed_out else parts
    final = settling.recorded(seen, charge.form, charge.granted)
    settling.require_evidence(final, charge.form, handed_out)
    if charge.attested:
        settling.require_granted(charge.parts, final, charge.granted)
    rule, settled = settling.settled(charge.levels, final, outside_guarantee, state.scopes, charge.tail_delta)
    return Committed(
        path=next_steps(state, charge.path),
        charge=charge.charge,
        redeem=charge.redeem,
        parts=final,
        levels=settled,
        rule=rule,
        warnings=warnings,
        outside_guarantee=outside_guarantee,
        digest=digest,
    )
