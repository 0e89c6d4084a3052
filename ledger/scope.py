"""A scope: one dataset, one unit of privacy, one relation, one budget; and the walk of every release through the gate.

    mechanism -> under -> check -> decide -> reserved (durable) -> run -> settle -> committed (durable) -> value

The value is handed out after its commit is durable. Whatever goes wrong in between counts at its cap, for ever.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeVar

from dpledger.accounting.profile import Bounds

from dpledger import __version__
from dpledger.accounting import rules
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import Number
from dpledger.errors import (
    AlreadySpent,
    ContractViolation,
    DpledgerError,
    Halted,
    InputError,
    ScopeError,
)
from dpledger.ledger import gate, readings, recomposition, values
from dpledger.ledger.bodies import Body, Committed, Declared, MechanismNote, Progress
from dpledger.ledger.entries import Entry
from dpledger.ledger.gate import Admitted, Earlier, RefusedRequest, Replayed, Request
from dpledger.ledger.state import ScopeState, State, next_steps
from dpledger.ledger.stores.protocol import Transaction
from dpledger.mechanisms.protocol import Conversation, Described, Interactive, Mechanism, Release, Steps
from dpledger.progress import track
from dpledger.relations import Relation, Unit

if TYPE_CHECKING:
    from dpledger.ledger.ledger import Ledger

__all__ = ["Receipt", "Scope", "Session"]

Data = TypeVar("Data")
Value = TypeVar("Value")
Query = TypeVar("Query")
Answer = TypeVar("Answer")

BLOCKS = 20  # a training run is granted its steps in about this many blocks


@dataclass(frozen=True, slots=True)
class Receipt(Generic[Value]):
    """A released value, and the signed entry of its commit."""

    value: Value
    entry: Entry


class Scope:
    """A scope of a ledger. Made by `Ledger.scope`."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self.name = name

    def __repr__(self) -> str:
        state = self._scope
        return f"<Scope {self.name}: one {state.unit.name}, {state.relation.value}, {state.budget}>"

    @property
    def _scope(self) -> ScopeState:
        return self._ledger.state.scopes[self.name]

    @property
    def relation(self) -> Relation:
        return self._scope.relation

    @property
    def unit(self) -> Unit:
        return self._scope.unit

    @property
    def budget(self) -> Guarantee:
        """What the scope promises, for ever."""
        return self._scope.budget

    # ---- reading ----------------------------------------------------------------------------------------------------

    def spent(self, delta: Number) -> Bounds:
        """What was spent so far, read at `delta`: see `ledger.readings`."""
        account = self.account()
        ran = (admission.parts for admission in account.admissions if admission.status != "aborted")
        return readings.spent(self._scope, ran, delta)

    def account(self) -> recomposition.ScopeAccount:
        """Every admission and refusal of the scope, with the account and price that carried it."""
        found = recomposition.accounts(self._ledger.entries(), self._ledger.state)
        return next(account for account in found if account.scope == self.name)

    def quote(self, mechanism: Described) -> gate.Decision:
        """What `release` or `open` would decide now. Records and spends nothing."""
        _, request = self._request(mechanism, secrets.token_hex(16), secrets.token_hex(16), None)
        return gate.decide(self._ledger.state, request, None)

    # ---- running ----------------------------------------------------------------------------------------------------

    def release(self, mechanism: Mechanism[Data, Value], data: Data, *, key: str | None = None) -> Receipt[Value]:
        """Run `mechanism` on `data`, once for ever under `key` (default: a fresh one).

        Raises BudgetRefused if the scope does not admit it (nothing is spent), ParameterError, RelationError or
        ClaimTooSmall for a mechanism or data that cannot be used (nothing is spent), KeyReused, AlreadySpent or
        ChargeInProgress for a key that was used, ContractViolation if the caller's own code breaks its contract
        (the full charge stands)."""
        ready, ticket = self._admit(mechanism, data, key)
        if isinstance(ticket, Replayed):
            return self._replay(ticket)
        try:
            release = ready.release(data, entropy=self._ledger.entropy)
        except BaseException as error:
            self._commit_at_cap(ticket)
            raise _as_violation(error, ready.kind) from None
        return Receipt(release.value, self._commit(ticket, release, release.value))

    def open(
        self, mechanism: Interactive[Data, Query, Answer, Value], data: Data, *, key: str | None = None
    ) -> Session[Query, Answer, Value]:
        """Open an interaction: use it as a context, `ask` inside. Its cap is charged now; its outcome settles it at
        close. Raises as `release` does."""
        ready, ticket = self._admit(mechanism, data, key)
        if isinstance(ticket, Replayed):
            raise AlreadySpent("the key was used for an interaction, whose answers are not kept: use a new key")
        try:
            conversation = ready.open(data, entropy=self._ledger.entropy)
        except BaseException as error:
            self._commit_at_cap(ticket)
            raise _as_violation(error, ready.kind) from None
        steps = ready.steps if isinstance(ready, Steps) else None
        return Session(self, ticket, conversation, steps)

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement about this scope that nothing here can measure, in the words of `by`."""
        return self._ledger.transact(
            lambda state, _: [Declared(item=item, text=text, by=by, path=next_steps(state, (self.name,)))]
        )[0]

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def _admit(self, mechanism: M, data: object, key: str | None) -> tuple[M, Ticket | Replayed]:
        """Check, price and reserve; durable when this returns. Before it, nothing is spent."""
        redeem = secrets.token_bytes(16)
        charge, name = secrets.token_hex(16), key if key is not None else secrets.token_hex(16)
        ready, request = self._request(mechanism, name, charge, hashlib.sha256(redeem).hexdigest())
        inspect = getattr(ready, "inspect", None)
        if inspect is not None:
            inspect(data)
        outcome: list[gate.Decision] = []

        def decide(state: State, transaction: Transaction) -> list[Body]:
            row = transaction.charge_of(self.name, name)
            earlier = None if row is None else Earlier(charge=row.charge, request=row.request, status=row.status)
            outcome.append(gate.decide(state, request, earlier))
            match outcome[0]:
                case Admitted(body=body) | RefusedRequest(body=body):
                    return [body]
                case Replayed():
                    return []

        self._ledger.transact(decide)
        match outcome[0]:
            case RefusedRequest(error=error):
                raise error
            case Replayed() as replayed:
                return ready, replayed
            case Admitted():
                return ready, Ticket(charge=charge, redeem=hashlib.sha256(redeem).hexdigest())

    def _request(self, mechanism: M, key: str, charge: str, redeem: str | None) -> tuple[M, Request]:
        scope = self._scope
        ready = mechanism.under(scope.relation, scope.unit)
        claim, parts = ready.claim(), ready.parts()
        rules.check(claim, parts, scope.relation)
        request = Request(
            scope=self.name,
            key=key,
            charge=charge,
            mechanism=MechanismNote(ready.kind, ready.parameters(), _library()),
            relation=scope.relation,
            unit=scope.unit,
            claim=claim,
            parts=parts,
            failures=ready.failures(),
            form=_form(ready),
            steps=ready.steps if isinstance(ready, Steps) else None,
            redeem=redeem,
        )
        return ready, request

    def _commit(self, ticket: Ticket, release: Release[object], value: object) -> Entry:
        keep = self._scope.keep
        stored = values.kept(value) if keep == "value" and not release.outside_guarantee else None
        digest = _salted_digest(value) if keep == "digest" else None

        def settle(state: State, transaction: Transaction) -> list[Body]:
            if stored is not None:
                transaction.put_value(ticket.charge, stored)
            return [
                gate.settle(
                    state,
                    state.open[ticket.charge],
                    release.parts,
                    outside_guarantee=release.outside_guarantee,
                    warnings=release.warnings,
                    digest=digest,
                )
            ]

        return self._ledger.transact(settle)[0]

    def _commit_at_cap(self, ticket: Ticket) -> Entry:
        """End a charge whose run did not return: all of it stands."""

        def settle(state: State, _: Transaction) -> list[Body]:
            charge = state.open[ticket.charge]
            return [gate.settle(state, charge, charge.parts, outside_guarantee=True)]

        return self._ledger.transact(settle)[0]

    def _grant(self, ticket: Ticket, upto: int) -> None:
        """Grant a training run its steps up to `upto`, durably, before any of them runs."""

        def progress(state: State, _: Transaction) -> list[Body]:
            path = tuple(level.scope for level in state.open[ticket.charge].levels)
            return [Progress(path=next_steps(state, path), charge=ticket.charge, redeem=ticket.redeem, upto=upto)]

        self._ledger.transact(progress)

    def _replay(self, replayed: Replayed) -> Receipt[Value]:
        stored = self._ledger.value(replayed.charge)
        if stored is None:
            raise AlreadySpent("the key was used, and its result was not kept: use a new key to release anew")
        entry = next(
            entry
            for entry in self._ledger.entries()
            if isinstance(entry.body, Committed) and entry.body.charge == replayed.charge
        )
        return Receipt(values.restored(stored), entry)  # type: ignore[arg-type]


M = TypeVar("M", bound=Described)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A started charge, and the redeem (as its SHA-256) that may settle it."""

    charge: str
    redeem: str


class Session(Generic[Query, Answer, Value]):
    """An open interaction. Leaving the `with` block closes it and commits what was asked, also by an exception."""

    def __init__(
        self, scope: Scope, ticket: Ticket, conversation: Conversation[Query, Answer, Value], steps: int | None
    ) -> None:
        self._scope = scope
        self._ticket = ticket
        self._conversation = conversation
        self._steps = steps
        self._asked = 0
        self._granted = 0
        self._receipt: Receipt[Value] | None = None

    def ask(self, query: Query) -> Answer:
        """The next answer. Raises Halted once the interaction is over, ContractViolation if the query breaks its
        contract (the interaction is closed and its full charge stands)."""
        if self._receipt is not None:
            raise Halted("the interaction is closed: open a new one")
        self._grant_next()
        try:
            answer = self._conversation.ask(query)
        except (Halted, InputError):
            raise
        except BaseException as error:
            self.close()
            raise _as_violation(error, "the interaction") from None
        self._asked += 1
        return answer

    def steps(self) -> Iterator[int]:
        """Of a training run: 0, 1, ... up to its planned number of steps, with a progress bar on a terminal."""
        if self._steps is None:
            raise ScopeError("only a training run has a number of steps")
        return track(range(self._steps), "training", total=self._steps)

    def close(self) -> Receipt[Value]:
        """End the interaction and settle its charge; the receipt of its commit. A second call returns the same."""
        if self._receipt is None:
            release = self._conversation.close()
            self._receipt = Receipt(release.value, self._scope._commit(self._ticket, release, None))
        return self._receipt

    @property
    def receipt(self) -> Receipt[Value]:
        """The receipt of the commit, once closed."""
        if self._receipt is None:
            raise ScopeError("the interaction is open: its receipt comes with close")
        return self._receipt

    def _grant_next(self) -> None:
        if self._steps is None or self._asked < self._granted:
            return
        if self._granted >= self._steps:
            raise Halted(f"all {self._steps} planned steps have run")
        block = max(1, -(-self._steps // BLOCKS))
        self._granted = min(self._steps, self._granted + block)
        self._scope._grant(self._ticket, self._granted)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _form(mechanism: Described) -> Literal["release", "interaction", "training"]:
    if isinstance(mechanism, Steps):
        return "training"
    return "interaction" if isinstance(mechanism, Interactive) else "release"


def _as_violation(error: BaseException, what: str) -> BaseException:
    """What the caller sees of an exception that came up while data was read: nothing that could hold data."""
    if isinstance(error, (DpledgerError, KeyboardInterrupt, SystemExit)):
        return error
    return ContractViolation(f"{what} raised {type(error).__name__} while it ran; the full charge stands")


def _salted_digest(value: object) -> str | None:
    """A digest of a value that says nothing about it without the salt, which is drawn and thrown away unless kept."""
    stored = values.kept(value)
    return None if stored is None else hashlib.sha256(secrets.token_bytes(32) + stored).hexdigest()


def _library() -> str:
    return f"dpledger {__version__}"
