"""What a charge has to cover, before and after it ran: the rules of prices and refunds, for the gate and the verifier.

    `cap`      nothing comes back: the outcome changes no price, the run left its guarantee, or it is priced from its
               profile, whose price is that of the whole plan
    `ex_post`  a coordinate falls from the cap to the realised loss, where the filter's theorem allows it
    `steps`    a training plan priced by sum: steps that were never granted come back; of one priced from its profile
               everything, if none was

Nothing comes back on a mechanism's word: `recorded` drops what nobody saw, and `require_evidence` refuses an outcome
that cannot be, or that speaks of fewer answers than were handed out. Of a chain an interaction is charged at least the
finest level that it handed out (`with_levels`). A run that happened elsewhere gets back the steps that this ledger did
not grant, and nothing else (`require_granted`). Only a guarantee that is attested as a whole, and was reserved as such
(`ex_post`), states its loss as it states its cap.
A coordinate never rises, a delta never falls, and a charge stays in the currency it was reserved in
(docs/proofs/filters.md). The gate charges the price, with a margin where it is in floating point; a verifier accepts
what is not below its own price, without the margin ("Machines" there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal, TypeAlias

from dpledger import decimals
from dpledger.accounting import certified
from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import Account, Coordinates, Filter
from dpledger.accounting.planning.ways import Counting
from dpledger.accounting.pricing import costs, outcomes
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.rules.scope_state import Form
from dpledger.relations import Relation

__all__ = [
    "Rule",
    "check_form",
    "check_price",
    "check_refund",
    "numbers",
    "recorded",
    "require_evidence",
    "require_granted",
    "require_possible_outcomes",
    "settled",
    "with_levels",
]

Rule = Literal["cap", "ex_post", "steps"]
Settling: TypeAlias = Callable[[Filter, Coordinates, Composition, Relation], Coordinates]


def check_price(
    name: str, level: Counting, parts: Composition, charged: Coordinates, tail_delta: Decimal = decimals.ZERO
) -> None:
    """Raises VerificationError unless `charged` covers `parts` in every coordinate; one that is absent is infinite.

    Where an account counts in two currencies either will do: which is the cheaper may change as prices get better."""
    accounts = certified.currencies(level.filter, parts, level.relation, tail_delta)
    unknown = set(charged) - {coordinate for account in accounts for coordinate in account.names}
    if unknown or not all(_is_covered(charged, account) for account in accounts):
        raise VerificationError(f"scope {name}: charged less than its parts cost")


def _is_covered(charged: Coordinates, account: Account) -> bool:
    """Whether in one currency no coordinate of the account is charged less than needed. An amount where no price is
    known is less than infinite."""
    amounts = {name: charged[name] for name in account.names if name in charged}
    return any(
        all(name in needed and amount >= needed[name] for name, amount in amounts.items())
        for needed in account.currencies
    )


def recorded(parts: Composition, form: Form, granted: int) -> Composition:
    """The parts as the ledger records them. Of a training plan a granted step counts as run, whatever the mechanism
    says it started; anywhere else no step was granted, so that those count that an outcome beside them tells of, and
    without one all that were planned."""
    return outcomes.recorded(parts, granted if form == "training" else None)


def with_levels(parts: Composition, levels: tuple[ChainLaw, ...] | None) -> Composition:
    """The parts of an interaction that answered, no chain at less than the levels that it handed out; at its finest
    where nobody saw the levels. VerificationError for a level that the parts do not have."""
    try:
        return outcomes.with_levels(parts, levels)
    except ParameterError as error:
        raise VerificationError(str(error)) from None


def require_evidence(parts: Composition, form: Form, handed_out: int) -> None:
    """Raises VerificationError for an outcome that its leaf cannot have, or that tells of fewer answers than this
    ledger handed out. A release is one answer; the steps of a training run are granted, and no answers.

    The second is for the live ledger to see: entries do not count answers."""
    require_possible_outcomes(parts)
    told = outcomes.answers(parts)
    if form != "training" and told is not None and told < handed_out:
        raise VerificationError(f"an outcome of {told} answers, where {handed_out} were handed out")


def require_possible_outcomes(parts: Composition) -> None:
    """Raises VerificationError for an outcome that its leaf cannot have, wherever it stands."""
    try:
        outcomes.require_possible(parts)
    except ParameterError as error:
        raise VerificationError(str(error)) from None


def require_granted(plan: Composition, parts: Composition, granted: int) -> None:
    """Raises VerificationError unless `parts`, of a run that happened elsewhere, are as they were planned, or say that
    as many steps ran as this ledger granted, at least one. An outcome, or fewer steps, would be somebody's word."""
    counted = outcomes.steps(plan)
    if parts == plan or (counted is not None and granted and parts == counted.recorded(granted)):
        return
    raise VerificationError("a run that happened elsewhere says what came of it: only steps that were granted count")


def settled(
    reserved: tuple[LevelCharge, ...],
    parts: Composition,
    outside_guarantee: bool,
    levels: Mapping[str, Counting],
    tail_delta: Decimal = decimals.ZERO,
    *,
    left_of: Settling = costs.settled,
) -> tuple[Rule, tuple[LevelCharge, ...]]:
    """The rule that settles a charge, and what each level is charged in the end. `parts`: as recorded.

    With a `tail_delta` all of it stands, in each level: the stop may depend on outputs. A training run none of whose
    steps was granted ran nothing. `left_of`: `costs.least_settled` for a verifier, without the margin of the gate.

    Claim: each coordinate is at most the one reserved, and at least what the filter's theorem needs for the outcome."""
    if outside_guarantee or outcomes.planned(parts) == parts:
        return "cap", reserved
    if tail_delta:
        return _settled_whole(reserved, parts)
    final = []
    for charge in reserved:
        level = levels[charge.scope]
        left = left_of(level.filter, charge.amounts, parts, level.relation)
        final.append(LevelCharge(charge.scope, left))
    return _rule(parts, tuple(final) == reserved), tuple(final)


def _settled_whole(reserved: tuple[LevelCharge, ...], parts: Composition) -> tuple[Rule, tuple[LevelCharge, ...]]:
    counted = outcomes.steps(parts)
    if counted is None or counted.started != 0:
        return "cap", reserved
    nothing = tuple(LevelCharge(level.scope, dict.fromkeys(level.amounts, decimals.ZERO)) for level in reserved)
    return _rule(parts, nothing == reserved), nothing


def _rule(parts: Composition, nothing_back: bool) -> Rule:
    if nothing_back:
        return "cap"
    counted = outcomes.steps(parts)
    return "ex_post" if counted is None or counted.started is None else "steps"


def check_form(reserved: tuple[LevelCharge, ...], body: Committed) -> None:
    """Raises VerificationError unless `body` settles the levels that were reserved, in their coordinates, none above
    what was reserved. This needs no price; `check_refund` does."""
    if tuple(level.scope for level in body.levels) != tuple(level.scope for level in reserved):
        raise VerificationError("the levels are not those that were reserved")
    for before, after in zip(reserved, body.levels, strict=True):
        if set(after.amounts) != set(before.amounts):
            raise VerificationError(f"scope {after.scope}: settled in other coordinates than it was reserved in")
        for coordinate, amount in after.amounts.items():
            if amount > before.amounts[coordinate]:
                raise VerificationError(f"scope {after.scope}: {coordinate} settled above what was reserved")


def check_refund(
    reserved: tuple[LevelCharge, ...],
    body: Committed,
    levels: Mapping[str, Counting],
    tail_delta: Decimal = decimals.ZERO,
) -> None:
    """Raises VerificationError if what `body` leaves of a charge, whose form was checked, is less than settling leaves,
    or the rule that it names is not the one that was used."""
    rule, least = settled(reserved, body.parts, body.outside_guarantee, levels, tail_delta, left_of=costs.least_settled)
    for after, floor in zip(body.levels, least, strict=True):
        for coordinate, amount in after.amounts.items():
            if amount < floor.amounts[coordinate]:
                raise VerificationError(f"scope {after.scope}: {coordinate} refunded beyond the rule")
    nothing_back = body.levels == reserved
    if body.rule != _rule(body.parts, nothing_back) or (rule == "cap" and not nothing_back):
        raise VerificationError(f"settled by the rule {body.rule}, which gives other numbers")


def numbers(texts: Mapping[str, str]) -> dict[str, Decimal]:
    """Accounts as exact numbers, from their texts; `inf` where a charge has no price."""
    return {name: decimals.parse(value, field=name, infinite=True) for name, value in texts.items()}
