"""What a mechanism asks of a scope, checked before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args

from dpledger.accounting import reach, rules
from dpledger.accounting.adding import read_at
from dpledger.accounting.composable import Composable, Words, own_words, tree_of
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, Guarantee, PrivacyFailure
from dpledger.accounting.planning.claiming import promise, require_guarantee
from dpledger.accounting.pricing import outcomes
from dpledger.decimals import Number, read
from dpledger.errors import ParameterError, RelationError
from dpledger.ledger.entries.members import LIBRARY, Attestation, MechanismNote
from dpledger.ledger.handle.log import Draw
from dpledger.ledger.rules import run_tokens
from dpledger.ledger.rules.capability import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.scope_state import Form, ScopeState
from dpledger.ledger.signed import envelope, wire
from dpledger.mechanisms.protocol import Described, GrantedSteps, Interactive, Mechanism, Resumes
from dpledger.relations import Relation, Unit
from dpledger.schema import listed, one_of, plain

__all__ = [
    "DECLARED",
    "ELSEWHERE",
    "AnyMechanism",
    "Elsewhere",
    "asked",
    "below_one",
    "declared",
    "kind_of",
    "placed",
    "quoted",
    "require_resumable",
    "seconds",
    "steps",
    "unfit",
]

AnyMechanism = TypeVar("AnyMechanism", bound=Described)

_TREES: tuple[type, ...] = get_args(get_args(Composition)[0])
_FAILURES: tuple[type, ...] = get_args(get_args(Failure)[0])
_DESCRIBED = ("kind", "relation", "unit", "under", "claim", "parts", "failures", "parameters")
DECLARED = "declared_run"
ELSEWHERE = "elsewhere"
LARGEST_PARTS = envelope.MAX_BYTES // 4 * 3  # bytes, of which base64 makes four of three
REMEMBERED = 64  # mechanisms, each in its relation and unit
_OURS = "dpledger."
_OF_FUNCTIONS = (
    "for a number that you computed, dpl.Laplace(sensitivity=..., epsilon=...) adds the noise; a function that adds "
    "noise by itself goes to `scope.guard`"
)
TOKEN_BYTES = 16  # 128 random bits: a charge, a key that was not given


def asked(
    scope: ScopeState, mechanism: AnyMechanism, key: str | None, tail_delta: Number | None, draw: Draw
) -> tuple[AnyMechanism, Request]:
    """The mechanism as it will run in `scope`, checked against its own claim, and what is asked. Nothing is spent."""
    ready: _Ready[AnyMechanism] = _ready(mechanism, scope.relation, scope.unit)
    request = Request(
        scope=scope.scope,
        key=draw(TOKEN_BYTES).hex() if key is None else wire.check_id(key, "key"),
        charge=draw(TOKEN_BYTES).hex(),
        mechanism=ready.note,
        relation=scope.relation,
        unit=scope.unit,
        claim=ready.claim,
        parts=ready.parts,
        failures=ready.failures,
        form=ready.form,
        steps=ready.steps,
        tail_delta=None if tail_delta is None else below_one(tail_delta),
        is_fresh=key is None,
    )
    return ready.mechanism, request


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready(Generic[AnyMechanism]):
    """A mechanism as it will run under a relation and a unit, and what it says of itself, checked."""

    mechanism: AnyMechanism
    note: MechanismNote
    claim: Guarantee
    parts: Composition
    failures: tuple[Failure, ...]
    form: Form
    steps: int | None


def _ready(mechanism: AnyMechanism, relation: Relation, unit: Unit) -> _Ready[AnyMechanism]:
    """Asked once of one of our own mechanisms that never changes; of what others wrote each time."""
    if not type(mechanism).__module__.startswith(_OURS):
        return _told(mechanism, relation, unit)
    found: _Ready[AnyMechanism] | None = _remembered(_Same(mechanism), relation, unit)
    return _told(mechanism, relation, unit) if found is None else found


class _Same:
    """This very object: others that equal it may say other things of themselves, as 1 equals True."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


@lru_cache(maxsize=REMEMBERED)
def _remembered(mechanism: _Same, relation: Relation, unit: Unit) -> _Ready[Any] | None:
    return _told(mechanism.it, relation, unit) if _never_changes(mechanism.it) else None


def _never_changes(value: object) -> bool:
    """Whether it is a scalar, or a frozen record or tuple of what never changes."""
    if value is None or isinstance(value, (str, bytes, int, float, Decimal, Enum)):
        return True
    if isinstance(value, tuple):
        return all(map(_never_changes, value))
    if not is_dataclass(value) or isinstance(value, type) or not value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return False
    return all(_never_changes(getattr(value, field.name)) for field in fields(value))


def _told(mechanism: AnyMechanism, relation: Relation, unit: Unit) -> _Ready[AnyMechanism]:
    ready = mechanism.under(relation, unit)
    if not all(hasattr(ready, name) for name in _DESCRIBED):
        raise ParameterError("mechanism", f"under() that gives {kind_of(ready)}", "the mechanism under them")
    claim, parts, failures = require_guarantee(ready.claim()), ready.parts(), ready.failures()
    if not isinstance(parts, _TREES):
        raise ParameterError("mechanism", f"parts() that gives {kind_of(parts)}", "what runs, like LaplaceLaw(1)")
    _require_room(parts)
    if not isinstance(failures, tuple) or not all(isinstance(one, _FAILURES) for one in failures):
        raise ParameterError("mechanism", f"failures() that gives {kind_of(failures)}", "a tuple of failures, or ()")
    rules.check(claim, parts, relation)
    return _Ready(
        mechanism=ready,
        note=MechanismNote(ready.kind, ready.parameters(), LIBRARY),
        claim=claim,
        parts=parts,
        failures=failures,
        form=_form(ready),
        steps=steps(ready),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A run that happens outside of this library, in the words of whoever declares it. `relation`, `of`: under which
    its guarantee holds, and of what. `claim`: None for what the parts promise by themselves. `steps`: how many are to
    be granted; None of a run that is not granted its steps."""

    attested: Attestation
    relation: Relation | str | None
    of: reach.Of | None
    mechanism: MechanismNote
    claim: Guarantee | None
    key: str | None
    tail_delta: Number | None
    steps: int | None


def declared(scope: ScopeState, what: Composable, run: Elsewhere, draw: Draw) -> Request:
    """What is asked of `scope` for a run elsewhere: `what` as `compose` takes it, as far as it reaches one unit of the
    scope under its relation. Nothing is spent.

    How it runs is not seen, so that it counts as a stream of queries, whose overlaps are looked at, or as the steps
    that it is granted."""
    parts, relation, of = placed(scope, what, run.relation, run.of, each_step=run.steps is not None)
    _require_room(parts)
    delta = read_at(scope.budget)
    if run.claim is None:
        claim = promise(outcomes.planned(parts), scope.relation, delta)
    else:
        claim = require_guarantee(run.claim)
    rules.check(claim, parts, scope.relation)
    failure = claim.fails
    return Request(
        scope=scope.scope,
        key=draw(TOKEN_BYTES).hex() if run.key is None else wire.check_id(run.key, "key"),
        charge=draw(TOKEN_BYTES).hex(),
        mechanism=run.mechanism,
        relation=scope.relation,
        unit=scope.unit,
        claim=claim,
        parts=parts,
        failures=(PrivacyFailure(failure, "approximation"),) if failure else (),
        form="interaction" if run.steps is None else "training",
        steps=run.steps,
        tail_delta=None if run.tail_delta is None else below_one(run.tail_delta),
        attested=replace(run.attested, relation=relation, of=of),
        is_fresh=run.key is None,
    )


def placed(
    scope: ScopeState,
    what: Composable,
    relation: Relation | str | None,
    of: reach.Of | None,
    *,
    each_step: bool = False,
) -> tuple[Composition, Relation, reach.Of | None]:
    """The tree of `what` as far as it reaches one unit of the scope under its relation, and of whom it is said to hold.
    `each_step`: its steps are granted one by one."""
    if isinstance(what, Iterator):  # which is read once
        what = listed(what, field="parts")
    said, of = _said(scope, own_words(what), relation, of)
    tree, _, direction = tree_of(what, relation=said, unit=scope.unit)
    if direction is not None:
        raise ParameterError("parts", f"a document for {direction}", "parts for both directions: a budget is for both")
    return reach.reaching(tree, reach.steps_of(said, of, scope.unit, scope.relation), each_step=each_step), said, of


def _require_room(parts: Composition) -> None:
    """ParameterError, before they are priced, for parts that are longer than an entry can be."""
    length = len(wire.dump({"parts": plain(parts)}))
    if length > LARGEST_PARTS:
        expected = f"at most {LARGEST_PARTS:,} bytes, which one entry can hold: charge them as several runs"
        raise ParameterError("parts", f"{length:,} bytes", expected)


def _said(
    scope: ScopeState, own: Words, said: Relation | str | None, of_what: reach.Of | None
) -> tuple[Relation, reach.Of | None]:
    """Under which relation and of what a run holds, as it is said. Mechanisms hold of one unit of the scope, under its
    relation, and a document names its own; ParameterError for a tree of which nobody says it."""
    relation = None if said is None else Relation.read(said)
    of: Any = None if of_what is None else one_of(of_what, get_args(reach.Of), field="of")
    if own.relation not in (None, relation or own.relation):
        raise RelationError(f"the document is {own.relation.value}, not {relation.value if relation else None}")
    relation = relation or own.relation
    if own.mechanisms:
        alone = not own.silent and own.relation is None
        _require_placed(scope, relation, of, alone=alone)
        relation, of = (scope.relation, "unit") if alone else (relation, of)
    if relation is None:
        expected = (
            f"the relation under which it holds, like relation={scope.relation.value!r}, as in this scope "
            "('replace_one' if the library replaces one record)"
        )
        raise ParameterError("relation", "nothing", expected)
    return relation, of


def _require_placed(scope: ScopeState, relation: Relation | None, of: reach.Of | None, *, alone: bool) -> None:
    """Errors where a mechanism, `alone` or beside what others guarantee, is said to hold of something else than one
    unit of the scope under its relation."""
    if relation not in (None, scope.relation):
        raise RelationError(
            f"mechanisms run under the relation of the scope, {scope.relation.value}, not {relation.value}: charge "
            "the guarantees of others in a separate call"
        )
    if of == "row" and (alone or scope.unit.max_contributions > 1):
        expected = (
            f"'unit': a mechanism is for one {scope.unit.name}; charge the guarantees of others in a separate call"
        )
        raise ParameterError("of", of, expected)


def quoted(
    scope: ScopeState,
    what: object,
    relation: Relation | str | None,
    of: reach.Of | None,
    tail_delta: Number | None,
    draw: Draw,
) -> Request:
    """What would be asked of `scope`, under a fresh key: for a mechanism that it runs here, for all else that
    `compose` takes that it was run elsewhere."""
    if isinstance(what, (Mechanism, Interactive)) and not isinstance(what, type) and relation is None and of is None:
        return asked(scope, what, None, tail_delta, draw)[1]
    if isinstance(what, type) or what is None or isinstance(what, (str, bytes)):
        raise ParameterError(
            "what", kind_of(what), "a mechanism, like Count(epsilon=1, of='rows'), or parts, as `compose` takes"
        )
    run = Elsewhere(
        attested=Attestation("nobody", "a quote"),
        relation=relation,
        of=of,
        mechanism=MechanismNote(DECLARED, {}, ELSEWHERE),
        claim=None,
        key=None,
        tail_delta=tail_delta,
        steps=None,
    )
    request = declared(scope, what, run, draw)  # type: ignore[arg-type]
    return replace(request, redeem=Redeem(draw(REDEEM_BYTES)).digest)  # as one that is over


def seconds(wait: Number) -> float:
    """How long to wait for another attempt with the key."""
    return float(read(wait, field="wait", infinite=True))


def below_one(tail_delta: Number) -> Decimal:
    """The delta of a price from a profile."""
    number = read(tail_delta, field="tail_delta")
    if not number < 1:
        raise ParameterError("tail_delta", tail_delta, "a number in [0, 1)")
    return number


def require_resumable(resume: object, key: str | None, request: Request, mechanism: object = None) -> None:
    """ParameterError where a run is to be resumed that has no key of its own to be found by, is not granted its steps,
    or, of a `mechanism` that runs here, cannot begin after the first."""
    saved = run_tokens.read(resume)
    if resume is False:
        return
    if key is None:
        given = "a run without a key" if saved is None else "the token of a run, without its key"
        raise ParameterError("resume", given, "a run with a key (key=), by which it is found again")
    if request.steps is None:
        given = "resume" if saved is None else "the token of a run"
        raise ParameterError("resume", given, "False: only a run with granted steps (steps=) can resume")
    if mechanism is not None and not isinstance(mechanism, Resumes):
        raise ParameterError("resume", kind_of(mechanism), "a mechanism whose steps can begin after the first")


def kind_of(value: object) -> str:
    """What somebody gave in place of a mechanism, by its type alone."""
    return f"the class {value.__name__}, not an instance of it" if isinstance(value, type) else type(value).__name__


def unfit(value: object, runs: str, otherwise: str) -> ParameterError:
    """For what is no mechanism that `runs`: what it lacks of one, or else what would do."""
    lacks = [name for name in _DESCRIBED if not hasattr(value, name)]
    if callable(value) and not isinstance(value, type) and not hasattr(value, runs):
        return ParameterError("mechanism", kind_of(value), f"{otherwise}; {_OF_FUNCTIONS}")
    if isinstance(value, type) or not lacks or not hasattr(value, runs):
        return ParameterError("mechanism", kind_of(value), otherwise)
    return ParameterError("mechanism", kind_of(value), f"a mechanism; this object lacks {', '.join(lacks)}")


def steps(mechanism: Described) -> int | None:
    """How many steps are to be granted; None of what is not run step by step."""
    return mechanism.steps_to_grant() if isinstance(mechanism, GrantedSteps) else None


def _form(mechanism: Described) -> Form:
    if steps(mechanism) is not None:
        return "training"
    return "interaction" if isinstance(mechanism, Interactive) else "release"
