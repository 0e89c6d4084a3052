"""Every error that dpledger raises on purpose, as one tree, by whose fault it is.

    DpledgerError
      InputError       the caller's     ParameterError (UnknownWord), RelationError, ScopeError, InfeasiblePlan,
                                        WorkLimit
      PolicyError      the rules'       BudgetRefused, Halted, AlreadySpent, KeyReused, ChargeInProgress,
                                        ScopeBusy, StillAnswering, TakenOver, ContractViolation,
                                        ForkedProcess
      EvidenceError    the record's     VerificationError (NewerThanVerifier), StoreBehind, StoreFailure,
                                        NotWitnessed, ForeignLedger; of audits in tests ClaimRefuted, AuditTooWeak
      EngineError      ours             CannotCertify (UnboundedLoss, ClaimTooSmall, Contradiction), FloatsAltered

A message says what was expected, what came, and what to do next; the operands are attributes. No message holds data,
outputs or keys. What the caller gave is shown in one short line: a scalar as it is written, anything else by its type.
Five warnings: `ImplausiblePromise` of a promise that is valid but can hardly be meant; `UnrelatedScopes` of scopes that
may be about the same people; `StepsLost` of granted steps that the model of a resumed run lacks; `RollbackSeen` of an
older copy of a ledger; `UnrememberedHead` when a rollback would not be noticed. Every error pickles and copies with all
its attributes, so that it arrives whole from a worker process.

The command line exits 2 where something cannot be used (an `InputError`, an `EngineError`, a file that is no whole
ledger, a record that only a newer version can judge), 1 where the answer is no.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from numbers import Number
from typing import Any

__all__ = [
    "AlreadySpent",
    "ApprovalNeeded",
    "AuditTooWeak",
    "BudgetRefused",
    "CannotCertify",
    "ChargeInProgress",
    "ClaimRefuted",
    "ClaimTooSmall",
    "ContractViolation",
    "Contradiction",
    "DpledgerError",
    "EngineError",
    "EvidenceError",
    "FloatsAltered",
    "ForeignLedger",
    "ForkedProcess",
    "Halted",
    "ImplausiblePromise",
    "InfeasiblePlan",
    "InputError",
    "KeyReused",
    "NewerThanVerifier",
    "NotWitnessed",
    "ParameterError",
    "PolicyError",
    "RelationError",
    "RollbackSeen",
    "ScopeBusy",
    "ScopeError",
    "StepsLost",
    "StillAnswering",
    "StoreBehind",
    "StoreFailure",
    "TakenOver",
    "UnboundedLoss",
    "UnknownWord",
    "UnrelatedScopes",
    "UnrememberedHead",
    "VerificationError",
    "WorkLimit",
    "shortened",
    "shown",
]

LONGEST = 120  # characters of what was given, in a message
MOST_DIGITS = 20  # before or after the point, of a number that is written without an exponent
LONGEST_FIELD = 600  # it may begin with the path of a file


class DpledgerError(Exception):
    """The root: catch this to catch everything that dpledger raises on purpose.

    >>> try:
    ...     dpl.PureDP("minus one")
    ... except dpl.DpledgerError as error:
    ...     print(type(error).__name__)
    ParameterError
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """By its message and its attributes: the arguments of a constructor are not those of every other."""
        return _unraised, (type(self), self.args), self.__dict__


def _unraised(cls: type[DpledgerError], args: tuple[object, ...]) -> DpledgerError:
    """An error as it was before it was raised, its attributes still missing."""
    return cls.__new__(cls, *args)


class InputError(DpledgerError):
    """The caller gave something that cannot be used; nothing was spent."""


class ParameterError(InputError, ValueError):
    """A parameter out of range, of the wrong type or shape, unknown, or not a number.

    `field` names the parameter, `value` is what was given, as text: a text is taken as words that describe it,
    everything else is `shown`. The message is one line, whatever was given.

    >>> try:
    ...     dpl.PureDP(-1)
    ... except dpl.ParameterError as error:
    ...     print(error)
    PureDP.epsilon: expected a number that is not negative, got -1
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value if isinstance(value, str) else shown(value)
        self.expected = expected
        name, wanted = _line(field, LONGEST_FIELD), _line(expected, len(expected))
        super().__init__(f"{name}: expected {wanted}, got {_line(self.value).strip() or 'nothing'}")


class UnknownWord(ParameterError):
    """A word that is not on its closed list: a kind, a relation, a rule that this version does not know."""


class RelationError(InputError):
    """Two neighbouring relations or units of privacy were mixed; they are never converted silently."""


class ScopeError(InputError):
    """A scope that does not exist, exists already, or does not hold what was asked of it."""


class InfeasiblePlan(InputError):
    """No parameters meet the target; the message says what would be needed."""


class WorkLimit(InputError):
    """The request needs more work than the stated limit."""


class ImplausiblePromise(UserWarning):
    """A warning: a budget or a target that is valid, and that hardly anybody means."""


class UnrelatedScopes(UserWarning):
    """A warning: scopes of one ledger may be about the same people, and nothing says whether they are."""


class StepsLost(UserWarning):
    """A warning: a run is resumed whose model lacks steps that were granted. They are charged, and never run again."""


class UnrememberedHead(UserWarning):
    """A warning: the newest entry of a ledger could not be remembered outside of it; a rollback would not be seen."""


class RollbackSeen(UserWarning):
    """A warning, of a ledger opened for reading: this user's programs have seen entries of it that are not in it."""


class PolicyError(DpledgerError):
    """The rules of the ledger say no."""


class BudgetRefused(PolicyError):
    """The filter of a scope does not admit the request; nothing was spent.

    `asked`, `spent`, `left` are the filter's accounts by name, as decimal strings. `tail_delta`: a value with which the
    same request, a plan, would be admitted now; None if there is none.

    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(1))
    >>> try:
    ...     scope.release(dpl.Count(epsilon=2, of="rows"), [1, 2, 3])
    ... except dpl.BudgetRefused as refused:
    ...     print(refused.asked["pure"], refused.left["pure"])
    2 1
    """

    def __init__(
        self,
        message: str,
        *,
        scope: str,
        asked: dict[str, str],
        spent: dict[str, str],
        left: dict[str, str],
        tail_delta: Decimal | None = None,
    ) -> None:
        super().__init__(message)
        self.scope = scope
        self.asked = asked
        self.spent = spent
        self.left = left
        self.tail_delta = tail_delta


class Halted(PolicyError):
    """The interaction is over: it halted by its own rule or was closed. Nothing was drawn or charged."""


class AlreadySpent(PolicyError):
    """The key of the request was used before: its result was released then, and is not kept here."""


class KeyReused(PolicyError):
    """The key of the request was used before for another request."""


class ChargeInProgress(PolicyError):
    """Another attempt with the same key is under way."""


class ApprovalNeeded(PolicyError):
    """The ledger has an owner, whose signature this needs. `request`: what the owner signs, a JSON text.

    Write it to a file, have the owner run `dpledger approve FILE`, and pass what that prints as `approval`."""

    def __init__(self, request: bytes, *, what: str) -> None:
        super().__init__(
            f"{what} needs the approval of the ledger's owner: write `error.request` to a file, have the owner run "
            "`dpledger approve FILE`, and pass the line that it prints as `approval`"
        )
        self.request = request
        self.what = what


class ScopeBusy(PolicyError):
    """An exclusive interaction is open in the scope, or one was asked for while others are open."""


class StillAnswering(PolicyError):
    """It was asked in the middle of an answer, as a signal handler may: nothing was drawn. Ask again afterwards."""


class TakenOver(PolicyError):
    """Another process resumed or settled the run: this process is granted no more steps of it, and draws nothing."""


class ContractViolation(PolicyError):
    """The caller's own code (query, learner, gradients) broke its declared contract; the full charge stands."""


class ForkedProcess(PolicyError):
    """An object that holds a secret, a charge or a granted step was used in a fork of the process that made it. It does
    nothing there. Start workers with spawn, forkserver or as fresh processes, and open the ledger there."""


class EvidenceError(DpledgerError):
    """The record does not hold up."""


class VerificationError(EvidenceError):
    """Signed bytes do not verify. `index` is the entry at fault (None: the file itself), `reason` says why.

    >>> book, stranger = dpl.Ledger.in_memory(), dpl.Ledger.in_memory()
    >>> try:
    ...     book.verify(key=stranger.public_key)
    ... except dpl.errors.VerificationError as error:
    ...     print(type(error).__name__)
    VerificationError
    """

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        super().__init__(reason if index is None else f"entry {index}: {reason}")
        self.index = index
        self.reason = reason

    def at(self, index: int) -> VerificationError:
        """The same error, told of the entry at `index`."""
        return type(self)(self.reason, index=index)


class NewerThanVerifier(VerificationError):
    """The record holds what a later version of the format allows: this program can neither accept nor refute it.

    Everything before `index` was checked; nothing from there on was. Upgrade, then verify again."""

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        told = reason.removesuffix(UPGRADE) + UPGRADE
        super().__init__(told, index=index)


UPGRADE = ": newer than this verifier; upgrade dpledger and verify again"


class StoreBehind(EvidenceError):
    """The store lost entries that this handle, or another of this user (`ledger.remembered`), has seen, or that its own
    signed head covers; it must not be continued.

    A file that was put back to an older state on another machine is not seen: keep a checkpoint elsewhere and verify
    against it (`since`)."""


class StoreFailure(EvidenceError):
    """The store could not read or write: the disk is full, the file read-only, another writer holds it. Entries that
    were not acknowledged may or may not be there: the next call finds out."""


class NotWitnessed(EvidenceError):
    """Too few witnesses of the ledger cosigned its head in time, so no data were read. The message says what each of
    them said; a note says what became of the charge. Until they answer, nothing more is charged by this handle."""


class ForeignLedger(EvidenceError):
    """The file is not a dpledger ledger, or is one of another id, key or format."""


class ClaimRefuted(EvidenceError, AssertionError):
    """`assert_not_refuted` found that a claim is false. `found`: the audit's result as JSON, with its event in full.

    >>> try:
    ...     dpl.assert_not_refuted(lambda data, rng: data, [(0, 1)], dpl.PureDP(1), trials=1000)
    ... except dpl.errors.ClaimRefuted as error:
    ...     print(type(error).__name__)
    ClaimRefuted
    """

    def __init__(self, message: str, *, found: str) -> None:
        super().__init__(message)
        self.found = found


class AuditTooWeak(EvidenceError, AssertionError):
    """`assert_not_refuted` refuted nothing, and could not have: a test that can find nothing does not pass. `found`:
    the audit's result as JSON.

    >>> try:
    ...     dpl.assert_not_refuted(lambda data, rng: None, [(0, 1)], dpl.PureDP(1), trials=1000)
    ... except dpl.errors.AuditTooWeak as error:
    ...     print(type(error).__name__)
    AuditTooWeak
    """

    def __init__(self, message: str, *, found: str) -> None:
        super().__init__(message)
        self.found = found


class EngineError(DpledgerError):
    """The engine cannot do what was asked."""


class FloatsAltered(EngineError):
    """Floats of this thread are not those of IEEE 754, on which every bound rests: what is near zero is taken for zero,
    or results are not rounded to nearest. Nothing was computed; the message says what to do."""


class CannotCertify(EngineError):
    """No bound can be certified with the theorems at hand; a guess is never returned."""


class UnboundedLoss(CannotCertify):
    """The privacy loss has no finite bound under the parameters given."""


class Contradiction(CannotCertify):
    """The statements cannot all be true: some put the loss above the most that the others allow."""


class ClaimTooSmall(CannotCertify):
    """The parts of a mechanism do not compose to at most its claim."""


def shortened(text: str, limit: int = LONGEST) -> str:
    """`text`, cut to `limit` characters for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown(value: object) -> str:
    """What was given, for a message: a scalar as it is written (so is a tuple of scalars, which is how parameters with
    several numbers are kept); of anything else the type, since it may hold data. One line, at most 120 characters."""
    if type(value) is tuple and value and all(map(_is_scalar, value)):
        inside = ", ".join(map(_written, value[:LONGEST]))
        return shortened(f"({inside})" if len(value) > 1 else f"({inside},)")
    if isinstance(value, type):
        return shortened(f"the class {_line(value.__name__)}")
    return _written(value) if _is_scalar(value) else _line(type(value).__name__)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, Number, Enum))


def _written(value: object) -> str:
    try:
        if isinstance(value, Decimal):
            is_short = value.is_finite() and abs(value.adjusted()) < MOST_DIGITS
            return _line(format(value, "f" if is_short else ""))
        return _line(repr(value[: LONGEST + 1] if isinstance(value, str) else value))
    except Exception:  # a number too long to be written, or the object's own code
        return _line(type(value).__name__)


def _line(text: str, limit: int = LONGEST) -> str:
    """`text` in one line, nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened(text, limit))
