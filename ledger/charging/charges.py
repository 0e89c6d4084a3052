"""One charge of this process, from its reservation to its end. Each call is one durable transaction.

Whatever goes wrong between start and commit counts at its cap, for ever. What the mechanism or the caller's code raised
never leaves: it may depend on one record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Composition
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import (
    ContractViolation,
    DpledgerError,
    EngineError,
    ForkedProcess,
    InputError,
    NotWitnessed,
    TakenOver,
    VerificationError,
)
from dpledger.ledger.entries.bodies import Aborted, Body, Progress
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import Step
from dpledger.ledger.handle.log import Handle
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.rules import course
from dpledger.ledger.rules.capability import Redeem
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.ledger.rules.scope_state import OpenCharge, State, next_steps
from dpledger.ledger.signed import values
from dpledger.mechanisms.callers import is_of_a_handler
from dpledger.mechanisms.protocol import Release
from dpledger.notebooks import summary
from dpledger.process import Home

__all__ = ["Attempt", "Receipt"]

Value = TypeVar("Value")

Keep = Literal["value", "digest", "none"]
NOT_RECORDED = "the outcome does not fit into an entry: charged at its cap"
FORKED = "the process was forked while this was open; what its copy answered is unknown: charged at its cap"
GIVEN_BACK = "the charge was given back whole, since no data were read; its key is used up"
AT_CAP = "the charge stands at its cap; its key is used up"
RESUMABLE = "the run stays open, as it was: resume it under its key, or settle it (`scope.settle`)"
TAKEN_OVER = (
    "another process started, resumed or settled this charge. This process is granted nothing more, and drew nothing"
)
LEFT_OPEN = "the charge could not be ended, and counts at its cap; its scope may stay busy"
NO_DIGEST = "no digest: the value is of a kind that has no plain bytes"


@dataclass(frozen=True, slots=True, repr=False)
class Receipt(Generic[Value]):
    """A released value, and the signed entry of its commit.

    `salt`: in a scope that keeps digests, what opens the digest in the entry: `values.digest(value, salt)`, where the
    mechanism says its values in numbers (`Keeps`) of what it says. Keep it secret, and keep it: it is stored nowhere
    else. `replayed`: the key had been used, and this is the value of that first run, on the data as they were then.
    `mechanism`: for a release, what ran, under the relation and the unit of the scope: its `interval` is that of this
    value. `reads`: what NaN, infinity and missing values count as, by the mechanism's parameters alone; whether there
    were any is not said. Two receipts of one run are equal. `value`: of the type and shape that the mechanism's
    docstring says; noisy counts may be negative. `has_value`: False for a run elsewhere, which hands out nothing here.

    >>> book = dpl.Ledger.in_memory()
    >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    >>> receipt = scope.release(dpl.Count(epsilon="0.1", of="rows"), ["a", "b", "c"], key="count")
    >>> type(receipt.value).__name__, receipt.entry.body.kind, receipt.replayed
    ('int', 'committed', False)
    >>> receipt.mechanism.interval("0.95")  # of a count of people who are a row each
    30
    """

    value: Value
    entry: Entry
    salt: bytes | None = None
    reads: tuple[str, ...] = field(default=(), compare=False)
    replayed: bool = field(default=False, compare=False)
    has_value: bool = field(default=True, compare=False)
    mechanism: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Without the value and the salt: what is written into a log stays there."""
        again = ", replayed" if self.replayed else ""
        told = ": read .value" if self.has_value else ""
        return f"<Receipt of entry {self.entry.index} in {self.entry.ledger}{again}{told}>"

    def _repr_html_(self) -> str:
        of_what = "value" if self.has_value else "receipt"
        rows = [
            ("entry", str(self.entry.index)),
            ("ledger", self.entry.ledger),
            *((("value", f"{type(self.value).__name__}: read .value"),) if self.has_value else ()),
            *(("reads", sentence) for sentence in self.reads),
            *(() if not self.replayed else (("replayed", f"the {of_what} of the first run under this key"),)),
        ]
        return summary("Receipt", rows)


class Attempt:
    """A charge that this process reserves, and the redeem that starts and settles it. As a context it is around all
    that reserves and runs it: what is interrupted there (Ctrl-C, a time limit) leaves no charge open.

    Nothing comes back if the process was forked since: a copy of the run may have gone on, where nobody counts. All of
    this raises TakenOver once another process has the charge.

    `stays`: what interrupts it leaves it open, for whoever resumes it. `taken`: the run that was taken over, if one
    was; `granted_before`: its steps that were granted by then."""

    def __init__(
        self,
        book: Handle,
        charge: str,
        redeem: Redeem,
        kind: str,
        *,
        stays: bool = False,
        taken: OpenCharge | None = None,
    ) -> None:
        self._book = book
        self._charge = charge
        self._redeem = redeem
        self._kind = kind
        self.stays = stays
        self.was_started = taken is not None
        self.granted_before = 0 if taken is None else taken.granted
        self._generation = 0 if taken is None else taken.generation
        self._home = Home("a charge")

    @property
    def kind(self) -> str:
        """Of the mechanism."""
        return self._kind

    def token(self, step: int) -> RunToken:
        """What to save beside a model that has `step` steps of the plan behind it."""
        return RunToken(run=self._charge, generation=self._generation, step=step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.left_by(error)

    def left_by(self, error: BaseException) -> None:
        """End the charge that an interruption left open, or that too few witnesses cosigned; whatever else this package
        raised, it raised with a charge that stands as it says. Where a charge is to stay open, who calls this does so
        by `except`: a context that is left runs code of its own, and an interrupt may fall into that."""
        is_ours = isinstance(error, DpledgerError) and not isinstance(error, NotWitnessed)
        if (is_ours and not is_of_a_handler(error)) or not self._home.is_here:
            return
        if self.stays:
            error.add_note(f"{self._kind}: {RESUMABLE}")
        else:
            self._end_interrupted(error)

    def _end_interrupted(self, error: BaseException) -> None:
        """Abort what was reserved, settle at its cap what was started; a note on the error says which."""
        told: list[str] = []

        def end(state: State, _: Writing) -> list[Body]:
            charge = state.open.get(self._charge)
            if charge is None:
                return []
            if charge.redeem is None:
                told.append(GIVEN_BACK)
                return [Aborted(path=self._path(state), charge=self._charge)]
            told.append(AT_CAP)
            return [course.settle(state, charge, charge.parts, redeem=self._redeem)]

        try:
            self._book.transact(end)
        except DpledgerError:
            told.append(LEFT_OPEN)
        for what in told[-1:]:
            error.add_note(f"{self._kind}: {what}")

    def start(self) -> None:
        """Declare that the data will be read now: from here on nothing comes back but by the settling rules. ScopeBusy,
        and nothing changes, while an exclusive interaction is open. A start that was interrupted once it was durable
        may be said again, and is recorded once."""

        def begin(state: State, _: Writing) -> list[Body]:
            charge = self._own(state)
            return [course.start(state, charge, self._redeem)] if charge.redeem is None else []

        self._book.transact(begin)
        self._book.cover()

    def abort(self) -> Entry:
        """Give the whole charge back; only before it is started."""
        return self._book.transact(lambda state, _: [Aborted(path=self._path(state), charge=self._charge)])[0]

    def grant(self, upto: int) -> None:
        """Grant a training run its steps up to `upto`, durably, before any of them runs. Said again, after it was
        interrupted once it was durable, it is recorded once."""

        def more(state: State, _: Writing) -> list[Body]:
            if self._own(state).granted >= upto:
                return []
            return [Progress(path=self._path(state), charge=self._charge, redeem=self._redeem.digest, upto=upto)]

        self._book.transact(more)
        self._book.cover()

    def commit(
        self,
        release: Release[Value],
        keep: Keep,
        *,
        handed_out: int,
        plain: object = None,
        levels: tuple[ChainLaw, ...] | None = None,
    ) -> Receipt[Value]:
        """Settle the charge with the outcome of `release`; the value is handed out once that is durable. `handed_out`:
        how many answers were counted, this value among them where it is the only one. `plain`: the value as it is kept
        or digested, where values are. `levels`: the finest levels of chains among them; None where nobody looked.

        ContractViolation, and the full charge, if the parts of the release are not those that were reserved, or tell
        of fewer answers."""
        salt = self._book.draw(values.SALT_BYTES) if keep == "digest" else None
        digest = None if salt is None else values.digest(plain, salt)
        warnings = release.warnings if salt is None or digest is not None else (*release.warnings, NO_DIGEST)
        stored = values.kept(plain) if keep == "value" and not release.outside_guarantee else None
        try:
            entry = self._settle(
                release.parts,
                handed_out=handed_out,
                levels=levels,
                outside_guarantee=release.outside_guarantee,
                warnings=warnings,
                digest=digest,
                stored=stored,
            )
        except VerificationError:
            self.commit_at_cap(outside_guarantee=True)
            raise ContractViolation(
                f"{self._kind} returned other parts than it announced, or an outcome that does not match its "
                "answers; the full charge stands, and the value is withheld"
            ) from None
        except (InputError, EngineError):
            entry = self._settle(
                None,
                outside_guarantee=release.outside_guarantee,
                warnings=(NOT_RECORDED,),
                digest=digest,
                stored=stored,
            )
        return Receipt(release.value, entry, None if digest is None else salt)

    def commit_at_cap(self, *, outside_guarantee: bool) -> Entry:
        """End a charge whose run did not return: all of it stands."""
        return self._settle(None, outside_guarantee=outside_guarantee)

    def give_up(self, error: BaseException) -> BaseException:
        """End the charge of a run that raised `error`, at its cap; what the caller is to see instead. What a handler of
        a signal raised, as a timer's does, is none of the run's and stays what it is, without what the run was about to
        raise. A forked child ends nothing."""
        is_stopped = isinstance(error, (KeyboardInterrupt, SystemExit)) or is_of_a_handler(error)
        if is_stopped:
            error.__context__ = None
        if not self._home.is_here:
            return error if is_stopped else self._home.refusal()
        if is_stopped and self.stays:
            error.add_note(f"{self._kind}: {RESUMABLE}")
            return error
        self.commit_at_cap(outside_guarantee=not is_stopped)
        if is_stopped:
            error.add_note(f"{self._kind}: {AT_CAP}")
        if is_stopped or isinstance(error, (ContractViolation, ForkedProcess)):
            return error
        return ContractViolation(
            f"{self._kind} raised an error while it read the data; the full charge stands. The error's message is "
            "withheld, since it may depend on one record: try it on public or made-up data to see it"
        )

    def _settle(
        self,
        parts: Composition | None,
        *,
        handed_out: int = 0,
        levels: tuple[ChainLaw, ...] | None = None,
        outside_guarantee: bool,
        warnings: tuple[str, ...] = (),
        digest: str | None = None,
        stored: bytes | None = None,
    ) -> Entry:
        """Commit, and keep the value, in one transaction. `parts`: None for those that were reserved."""

        def settle(state: State, writing: Writing) -> list[Body]:
            charge = self._own(state)
            if stored is not None:
                writing.keep_value(stored, self._origin(charge, state.size))
            outcome = charge.parts if parts is None else parts
            is_lost = planned(outcome) != outcome and self._home.has_forked
            return [
                course.settle(
                    state,
                    charge,
                    planned(outcome) if is_lost else outcome,
                    redeem=self._redeem,
                    handed_out=handed_out,
                    levels=levels,
                    outside_guarantee=outside_guarantee,
                    warnings=(*warnings, FORKED) if is_lost else warnings,
                    digest=digest,
                )
            ]

        return self._book.transact(settle)[0]

    def _origin(self, charge: OpenCharge, entry: int) -> values.ValueOrigin:
        return values.ValueOrigin(
            ledger=self._book.id,
            scope=charge.scope,
            key=charge.key,
            request=charge.request,
            charge=charge.charge,
            entry=entry,
        )

    def _own(self, state: State) -> OpenCharge:
        """The charge, still open and nobody else's. TakenOver for one that another process has."""
        charge = state.open.get(self._charge)
        if charge is None or (charge.redeem is not None and not self._redeem.opens(charge.redeem)):
            raise TakenOver(TAKEN_OVER)
        return charge

    def _path(self, state: State) -> tuple[Step, ...]:
        return next_steps(state, self._own(state).path)
