"""The budget gate: pure rules over a state. It touches no store, no clock and no data.

`priced(state, request)` computes what a request is charged, which may take a while; `decide(state, request, earlier,
prices)` adds and compares, and says whether it is admitted, is the repetition of one that was, or is refused with what
was asked, spent and left. `settle` ends a started charge. The last two return bodies; the ledger gives them their
place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting import certified, filters
from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, Guarantee, PrivacyFailure
from dpledger.accounting.planning import ways as asking
from dpledger.accounting.pricing import outcomes
from dpledger.decimals import ZERO, text, total
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    ChargeInProgress,
    DpledgerError,
    KeyReused,
    ParameterError,
    PolicyError,
    RelationError,
    ScopeBusy,
    ScopeError,
)
from dpledger.ledger.entries.bodies import Committed, Progress, Refused, Reserved, Started
from dpledger.ledger.entries.members import Attestation, Fixed, LevelCharge, MechanismNote, Priced
from dpledger.ledger.rules import refusals, settling
from dpledger.ledger.rules.capability import Redeem
from dpledger.ledger.rules.scope_state import Form, OpenCharge, ScopeState, State, is_exclusive, next_steps
from dpledger.ledger.signed import wire
from dpledger.relations import Relation, Unit
from dpledger.schema import plain

__all__ = [
    "Admitted",
    "Decision",
    "Earlier",
    "Outdated",
    "Prices",
    "RefusedRequest",
    "Replayed",
    "Request",
    "check",
    "check_failures",
    "decide",
    "levels_of",
    "priced",
    "request_digest",
    "require_not_before",
    "require_open",
    "require_room_for",
    "require_same",
    "settle",
    "start",
    "take_over",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a scope. `key`: what is to happen once, in the caller's words. `charge`: this attempt, 128
    random bits in hex. `redeem`: the digest of the redeem of the process that will read the data; with it the charge is
    started at once. `tail_delta`: the delta of a price from the profile, 0 for the price of the parts; None: the scope
    decides (`asking.chosen_tail_delta`). `attested`: of a run that happens elsewhere. `is_fresh`: the key was drawn for
    it, so that nobody used it before."""

    scope: str
    key: str
    charge: str
    mechanism: MechanismNote
    relation: Relation
    unit: Unit
    claim: Guarantee
    parts: Composition
    failures: tuple[Failure, ...]
    form: Form
    steps: int | None = None
    redeem: str | None = None
    tail_delta: Decimal | None = None
    attested: Attestation | None = None
    is_fresh: bool = False

    @property
    def may_be_over(self) -> bool:
        """Whether it is for a run elsewhere that may have begun before, as `Reserved.may_be_over`."""
        return self.attested is not None and self.redeem is not None


def request_digest(scope: str, asked: Request | Reserved, tail_delta: Decimal) -> str:
    """The SHA-256 of what is asked of `scope`, in the byte profile: without the ids of the attempt and the version of
    the library, so that whoever asks again after an upgrade asks for the same. Everything in it stands in the entry
    that reserves the charge, so that a verifier computes it again. `tail_delta`: 0 of a request priced from its
    parts."""
    digested = {
        "scope": scope,
        "mechanism": {"kind": asked.mechanism.kind, "parameters": plain(asked.mechanism.parameters)},
        "claim": plain(asked.claim),
        "parts": plain(asked.parts),
        "form": asked.form,
        **({"priced": {"tail_delta": text(tail_delta)}} if tail_delta else {}),
        **({} if asked.attested is None else {"attested": plain(asked.attested)}),
    }
    return hashlib.sha256(wire.dump(digested)).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What the store knows of a key that was used before in the scope. `ended`: the entry that ended it."""

    charge: str
    request: str
    status: Literal["open", "committed", "aborted"]
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """Every level of the path admits the request."""

    body: Reserved


@dataclass(frozen=True, slots=True)
class Replayed:
    """The key was used before, for the same request (its digest), and is settled by entry `ended`: the stored result
    answers."""

    charge: str
    ended: int
    request: str


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A level of the path does not admit the request; nothing changes but the record of the refusal."""

    body: Refused
    error: BudgetRefused


@dataclass(frozen=True, slots=True)
class Outdated:
    """The state has changed since the prices were computed, and the scope would choose another tail_delta."""


Decision: TypeAlias = Admitted | Replayed | RefusedRequest | Outdated


@dataclass(frozen=True, slots=True)
class Prices:
    """What a request is charged at each level of its path, at the `tail_delta` that was asked for or chosen; or the
    `error` that says why it is not. `sixteenth`: what it was chosen from, None where it was not; `unfixed`: the levels
    whose first charge this would be: together all of a state that a price depends on. `fixed`: the filters that it
    would fix there, other than they were opened with. `digest`: of the request, so priced."""

    sixteenth: Decimal | None
    unfixed: tuple[str, ...]
    tail_delta: Decimal = ZERO
    levels: tuple[LevelCharge, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    digest: str = ""
    error: DpledgerError | None = None


def priced(state: State, request: Request) -> Prices:
    """What `request` is charged in this state, and in every other one in which the scope would choose alike. Asked
    before the ledger is locked: a price may take seconds, a decision with it takes none. Raises ScopeError for a scope
    that is not there."""
    scope = _scope_of(state, request)
    levels, tail_delta, sixteenth = levels_of(state, scope, request), request.tail_delta, None
    unfixed = _unfixed(state, scope)
    try:
        if tail_delta is None:
            if certified.has_profile_price(request.parts, scope.relation):
                sixteenth = asking.sixteenth(levels)
            tail_delta = asking.chosen_tail_delta(levels, request.parts)
        require_room_for(scope, tail_delta)
        charged, fixed = [], []
        for name, level in sorted(zip(_names(scope), levels, strict=True), key=lambda pair: pair[0]):
            ready = asking.fixed(level, request.parts, tail_delta)
            charged.append(LevelCharge(name, asking.charge(ready, request.parts, tail_delta)))
            if ready.filter != level.filter:
                fixed.append(Fixed(name, ready.filter))
        digest = request_digest(request.scope, request, tail_delta)
        return Prices(sixteenth, unfixed, tail_delta, tuple(charged), tuple(fixed), digest)
    except DpledgerError as error:
        return Prices(sixteenth, unfixed, error=error)


def decide(state: State, request: Request, earlier: Earlier | None, prices: Prices | None = None) -> Decision:
    """The decision on `request`; `earlier` is what the store knows of its key, `prices` what was `priced` before, maybe
    in an earlier state.

    Raises ScopeError or RelationError for a scope that is not there, is closed, or protects something else; KeyReused,
    AlreadySpent or ChargeInProgress for a key that was used; ScopeBusy where an exclusive interaction would overlap
    another; CannotCertify where no theorem prices the parts; ParameterError for parts that are no plan."""
    scope = _scope_of(state, request)
    if earlier is not None:
        return _again(state, scope, request, earlier)
    require_open(state, scope)
    check(scope, request)
    require_not_before(state, scope, request)
    _require_alone(state, scope, request)
    if prices is None:
        prices = priced(state, request)
    elif _is_outdated(prices, state, scope, request):
        return Outdated()
    if prices.error is not None:
        raise prices.error
    tail_delta, digest = prices.tail_delta, prices.digest
    named = {one.scope: one.filter for one in prices.fixed}
    for level in prices.levels:
        found = state.scopes[level.scope]
        asked = found.fixed(named[level.scope]) if level.scope in named else found
        refused = _refusal(state, request, digest, scope, asked, level)
        if refused is not None:
            return refused
    return Admitted(
        Reserved(
            path=next_steps(state, scope.path),
            key=request.key,
            charge=request.charge,
            request=digest,
            mechanism=request.mechanism,
            claim=request.claim,
            parts=request.parts,
            levels=prices.levels,
            form=request.form,
            failures=request.failures,
            steps=request.steps,
            redeem=request.redeem,
            priced=Priced(tail_delta) if tail_delta else None,
            attested=request.attested,
            fixed=prices.fixed,
        )
    )


def _unfixed(state: State, scope: ScopeState) -> tuple[str, ...]:
    """The scopes of its path to which nothing was charged, and whose filter the first charge may fix."""
    return tuple(name for name in scope.path if state.scopes[name].instead is not None)


def _is_outdated(prices: Prices, state: State, scope: ScopeState, request: Request) -> bool:
    if prices.unfixed != _unfixed(state, scope):
        return True
    return prices.sixteenth is not None and prices.sixteenth != asking.sixteenth(levels_of(state, scope, request))


def _scope_of(state: State, request: Request) -> ScopeState:
    scope = state.scopes.get(request.scope)
    if scope is None:
        raise ScopeError(
            f"no scope {request.scope!r} in this ledger: open it first, with its unit, relation and budget"
        )
    return scope


def check(scope: ScopeState, request: Request) -> None:
    """ParameterError or RelationError for a request that `scope` admits at no time, whatever was spent."""
    _require_plan(request)
    check_failures(request.claim, request.failures)
    if request.relation is not scope.relation or request.unit != scope.unit:
        raise RelationError(
            f"scope {scope.scope!r} protects one {scope.unit.name} under {scope.relation.value}; "
            f"the request is for one {request.unit.name} under {request.relation.value}"
        )
    if request.tail_delta is not None:
        require_room_for(scope, request.tail_delta)


def require_not_before(state: State, scope: ScopeState, request: Request) -> None:
    """ScopeError for a run elsewhere that may have begun before the filter of a scope was fixed: its output may have
    chosen the request that fixed it (docs/proofs/filters.md, "Constants fixed at the first charge")."""
    for name in scope.path:
        if request.may_be_over and state.scopes[name].is_fixed_late:
            raise ScopeError(
                f"scope {name!r} fixed its filter at its first charge, and this run may have begun earlier. Charge a "
                "run before it begins, with `charging`; charge one that is over to another scope of the same people"
            )


def levels_of(state: State, scope: ScopeState, request: Request | None = None) -> asking.Levels:
    """The scope as it is asked, then those above it. A `request` for a run that may have begun before fixes no other
    filter than a scope was opened with."""
    may_be_over = request is not None and request.may_be_over
    found = (state.scopes[name] for name in _names(scope))
    return tuple(
        asking.Level(level.filter, level.relation, level.sums, None if may_be_over else level.instead)
        for level in found
    )


def _names(scope: ScopeState) -> tuple[str, ...]:
    """The scope, then those above it, in id order."""
    return (scope.scope, *(name for name in scope.path if name != scope.scope))


def require_room_for(scope: ScopeState, tail_delta: Decimal) -> None:
    """ParameterError for a price from the profile in a scope whose own filter has no delta, or no pure or Renyi price,
    for it."""
    if tail_delta and filters.tail_budget(scope.filter) is None:
        raise ParameterError(
            "tail_delta",
            text(tail_delta),
            f"0: scope {scope.scope!r} has a {scope.filter.kind} filter, and only basic, either, and zcdp with a "
            "delta take others",
        )


def start(state: State, charge: OpenCharge, redeem: Redeem) -> Started:
    """The body that starts a reserved charge. ScopeBusy where an exclusive interaction was opened since, ScopeError
    where a scope that is charged was closed."""
    for name in charge.path:
        if state.scopes[name].closed:
            raise ScopeError(
                f"scope {name!r} was closed before this was started, so it cannot start. What it holds stays held "
                "until it is given back"
            )
    if state.must_wait(charge):
        raise ScopeBusy(_exclusive(charge.scope))
    return Started(path=next_steps(state, charge.path), charge=charge.charge, redeem=redeem.digest)


def take_over(state: State, charge: OpenCharge, redeem: Redeem) -> Progress | Started:
    """The body after which `redeem`, and no other any more, is granted the steps of an open training run, whose process
    may be dead. Nothing is granted by it. ScopeError for what is not granted its steps; of one that was held and never
    started as `start`."""
    if charge.form != "training":
        raise ScopeError(
            "another process can resume or settle only a run that is granted its steps. The answers of this one were "
            "not counted, so its charge stands"
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


def check_failures(claim: Guarantee, failures: tuple[Failure, ...]) -> None:
    """ParameterError unless the privacy failures of a claim, by cause, add up to its delta. Accuracy never counts."""
    causes = total(failure.delta for failure in failures if isinstance(failure, PrivacyFailure))
    delta = claim.fails
    if causes != delta:
        raise ParameterError("failures", text(causes), f"causes that add up to the claim's delta, {text(delta)}")


def require_open(state: State, scope: ScopeState) -> None:
    """ScopeError unless something may begin in the scope: neither it nor one above it is closed."""
    for name in scope.path:
        if state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is closed: open a new one")


def _require_plan(request: Request) -> None:
    """Parts come without outcomes; those of a training run are a `repeated` or a `sequence` of as many
    as it has steps."""
    if outcomes.planned(request.parts) != request.parts:
        raise ParameterError("parts", request.parts.kind, "parts without an outcome before they run")
    counted = outcomes.steps(request.parts)
    plan = None if counted is None else counted.planned
    if request.steps != (plan if request.form == "training" else None):
        raise ParameterError(
            "steps", request.steps, "as many as the parts of a training run have, a `repeated` or a `sequence`"
        )


def _require_alone(state: State, scope: ScopeState, request: Request) -> None:
    overlapped = state.overlaps(scope.path)
    if overlapped == "exclusive":
        raise ScopeBusy(_exclusive(scope.scope))
    if overlapped == "interactions" and is_exclusive(request.form, request.parts):
        raise ScopeBusy(f"{request.mechanism.kind} may overlap no other interaction: close those in {scope.scope!r}")


def _exclusive(scope: str) -> str:
    return (
        f"an exclusive interaction is open in scope {scope!r}: close it first. If its process died, resume or settle "
        "it where it is a run of granted steps; any other stays open for ever: use another scope"
    )


def _again(state: State, scope: ScopeState, request: Request, earlier: Earlier) -> Decision:
    require_same(state, scope, request, earlier)
    match earlier.status:
        case "committed":
            assert earlier.ended is not None, "a store records by which entry a charge ended"
            return Replayed(earlier.charge, earlier.ended, earlier.request)
        case "open":
            raise ChargeInProgress(
                f"key {request.key!r}: an attempt is under way ({_who_waits(request)}), or its process died; its "
                "charge stands either way. A run under a new key is paid for again"
            )
        case "aborted":
            raise AlreadySpent(f"key {request.key!r} was aborted in scope {request.scope!r}: use a new key")
        case _:
            assert_never(earlier.status)


def require_same(state: State, scope: ScopeState, request: Request, earlier: Earlier) -> None:
    """KeyReused unless `request` asks for what its key was used for."""
    if not any(earlier.request == digest for digest in _digests(state, scope, request)):
        where = "still open" if earlier.ended is None else f"entry {earlier.ended} ended it"
        raise KeyReused(
            f"key {request.key!r} was used in scope {request.scope!r} for another request ({where}; "
            "`scope.releases()` shows which): use a new key"
        )


def _who_waits(request: Request) -> str:
    """Whether asking again may wait for the attempt that is under way."""
    if request.attested is not None:
        takes_over = "; resume=True takes it over" if request.steps is not None else ""
        return f"`charge` waits for it with wait=, `charging` and `charges` do not{takes_over}"
    if request.form == "release":
        return "`release` waits for it with wait=, `reserve` does not"
    return "`open` does not wait for it" + ("; resume=True takes it over" if request.form == "training" else "")


def _digests(state: State, scope: ScopeState, request: Request) -> Iterator[str]:
    """What an earlier request that asks the same may have been recorded as: where the scope decides, with any
    tail_delta that it may have decided on then."""
    if request.tail_delta is not None:
        yield request_digest(request.scope, request, request.tail_delta)
        return
    yield request_digest(request.scope, request, ZERO)
    for level in levels_of(state, scope):
        for tail_delta in asking.ever_chosen(level):
            yield request_digest(request.scope, request, tail_delta)


def _refusal(
    state: State, request: Request, digest: str, own: ScopeState, scope: ScopeState, asked: LevelCharge
) -> RefusedRequest | None:
    """The refusal of one level, `scope` as it would be charged; None where it admits the request."""
    if filters.admits(scope.filter, filters.with_charge(scope.filter, scope.sums, asked.amounts)):
        return None
    wanted = filters.asked(scope.filter, scope.sums, asked.amounts)
    spent = filters.spent(scope.filter, scope.sums)
    left = filters.left(scope.filter, scope.sums)
    body = Refused(
        path=next_steps(state, own.path),
        key=request.key,
        request=digest,
        mechanism=request.mechanism,
        claim=request.claim,
        level=scope.scope,
        asked=settling.numbers(wanted),
        spent=settling.numbers(spent),
        left=settling.numbers(left),
        held=settling.numbers(filters.spent(scope.filter, scope.held)),
        attested=request.attested,
    )
    said = refusals.words(scope, request.mechanism.kind, wanted, elsewhere=request.attested is not None)
    return RefusedRequest(body, BudgetRefused(said, scope=scope.scope, asked=wanted, spent=spent, left=left))
