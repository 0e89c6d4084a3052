"""An open interaction: answers go out under the cap that its start made durable; its outcome settles it at close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

import numpy.typing as npt

from dpledger.accounting.chains import ChainLaw, finest
from dpledger.errors import (
    ContractViolation,
    DpledgerError,
    ForkedProcess,
    Halted,
    InputError,
    ParameterError,
    ScopeError,
    StillAnswering,
    TakenOver,
)
from dpledger.ledger.charging.charges import Attempt, Receipt
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.mechanisms.noise import unrecorded
from dpledger.mechanisms.protocol import AnswersMany, Conversation, Halts, Refines, Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home
from dpledger.progress import track

__all__ = ["Session", "block_of"]

Query = TypeVar("Query")
Answer = TypeVar("Answer")
Answers = TypeVar("Answers")
Value = TypeVar("Value")

BLOCKS = 20  # a run by steps is granted them in about this many blocks, or as many at once as are asked at once
RESUMABLE_BLOCKS = 100  # of one that may be resumed: what a crash loses is at most one of them


def block_of(planned: int, *, stays: bool) -> int:
    """How many steps of a plan are granted at a time."""
    return max(1, -(-planned // (RESUMABLE_BLOCKS if stays else BLOCKS)))


def _one(_answer: object) -> int:
    """How many answers one answer is."""
    return 1


class Session(Generic[Query, Answer, Value]):
    """An open interaction. Leaving the `with` block closes it and commits what was asked, also by an exception; only a
    run that may be resumed then stays open.

    It may be shared by threads, which then take turns. In a forked child it answers nothing and settles nothing. It
    belongs to the parent, where it then settles at its cap, since nobody could see what a copy of it did.

    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(30))
    >>> with scope.open(dpl.SparseVector(epsilon=20, cutoff=1, threshold=10, sensitivity=1), [1] * 30) as session:
    ...     answer = session.ask(lambda rows: 0)
    ...     session.asked, session.halted
    (1, True)
    >>> session.receipt.value.asked
    1
    """

    def __init__(
        self,
        attempt: Attempt,
        conversation: Conversation[Query, Answer, Value],
        steps: int | None,
        refines: Refines | None = None,
        reads: tuple[str, ...] = (),
    ) -> None:
        self._attempt = attempt
        self._conversation = conversation
        self._steps = steps
        self._refines = refines
        self._reads = reads
        self._asked = attempt.granted_before
        self._handed_out = 0
        self._levels: tuple[ChainLaw, ...] | None = None if refines is None else ()
        self._granted = attempt.granted_before
        self._home = Home("an open interaction")
        self._lock = threading.RLock()
        self._counting = Turn("an interaction")  # while steps are granted and answers counted, never in a query
        self._ended: BaseException | None = None
        self._receipt: Receipt[Value] | None = None

    def __repr__(self) -> str:
        left_open = isinstance(self._ended, TakenOver) or self._attempt.stays
        ended = "over" if left_open else "ended at its full charge"
        broken = "open" if self._ended is None else ended
        stands = broken if self._receipt is None else "closed"
        return f"<Session of {self._attempt.kind}: {stands}, {self._handed_out} answers>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an open interaction does not pickle: its copy would use the same granted steps again")

    @unrecorded()
    def ask(self, query: Query) -> Answer:
        """The next answer. Raises Halted once the interaction is over, PolicyError while the noise is being recorded or
        replayed (nothing is asked), ContractViolation if the query breaks its contract (the interaction is closed and
        its full charge stands)."""
        return self._handed_out_of((query,), lambda: self._conversation.ask(query), _one)

    @unrecorded()
    def ask_many(self, queries: Sequence[Query] | npt.NDArray[Any]) -> Sequence[Answer]:
        """The answers to many queries that do not depend on one another's answers, as if asked one by one; they end
        early if the interaction halts, or once as many queries as planned were asked. Raises as `ask`; ScopeError where
        the interaction answers one query at a time."""
        many = self._conversation
        if not isinstance(many, AnswersMany):
            raise ScopeError("this interaction answers one query at a time: use `ask`")
        if self._steps is not None:
            try:
                len(queries)
            except TypeError:
                expected = "queries with a length, so that as many steps can be granted"
                raise ParameterError("queries", type(queries).__name__, expected) from None
        return self._handed_out_of(queries, lambda: many.ask_many(queries), len)

    def _handed_out_of(
        self,
        queries: Sequence[Query] | npt.NDArray[Any],
        ask: Callable[[], Answers],
        count: Callable[[Answers], int],
    ) -> Answers:
        """What the conversation answers, counted; under one lock, with one look at the process on each side."""
        self._home.require()
        with self._lock:
            with self._counting:
                self._require_unbroken()
                if self._receipt is not None:
                    raise Halted("the interaction is closed: open a new one")
                taken = 0 if self._steps is None else self._granted_of(len(queries), self._steps)
                self._asked += taken  # before they run: a query may ask on its own
            try:
                levels = self._levels_of(queries)
                answers = ask()
                given = count(answers)
                self._home.require()  # the query may have forked
                if self._steps is not None and given > taken:
                    raise ContractViolation(
                        "the mechanism gave more answers than steps were granted: the full charge stands"
                    )
            except (Halted, InputError, ForkedProcess, StillAnswering):
                self._asked -= taken
                raise
            except BaseException as error:
                failure: BaseException = error
            else:
                with self._counting:
                    if self._receipt is not None:
                        closed = "the query closed the interaction, which settled without this answer; it is withheld"
                        raise Halted(closed)
                    self._handed_out += given
                    self._note(levels[:given])
                    return answers
            raise self._fail(failure)

    def _levels_of(self, queries: Sequence[Query] | npt.NDArray[Any]) -> tuple[ChainLaw | None, ...]:
        """The level that the answer to each query publishes, asked before any of them is answered."""
        refines = self._refines
        return () if refines is None else tuple(refines.level_of(query) for query in queries)

    def _note(self, handed_out: tuple[ChainLaw | None, ...]) -> None:
        for level in handed_out:
            if self._levels is not None and level is not None:
                self._levels = finest(self._levels, level)

    def steps(self) -> Iterator[int]:
        """Of a training run: the numbers of the steps that are left, with a progress bar on a terminal; none once all
        have run or the run is closed. Halted if it ended at its full charge, which is not its end."""
        if self._steps is None:
            raise ScopeError("only a training run has a number of steps")
        left = self._left(self._steps)
        return track(left, "training", total=self._steps - self._asked)

    def _left(self, planned: int) -> Iterator[int]:
        for number in range(self._asked, planned + 1):
            self._home.require()
            self._require_unbroken()
            if self._receipt is not None or planned in (number, self._asked):
                return
            yield number

    @unrecorded()
    def close(self) -> Receipt[Value]:
        """End the interaction and settle its charge; the receipt of its commit. A second call returns the same.

        After a broken contract there is no receipt: Halted."""
        self._home.require()
        with self._lock:
            if self._receipt is not None:
                return self._receipt
            self._require_unbroken()
            try:
                release = self._conversation.close()
                if not isinstance(release, Release):
                    raise TypeError("close() returned no Release")
            except BaseException as error:
                failure: BaseException = error
            else:
                return self._commit(release)
            raise self._fail(failure)

    def _commit(self, release: Release[Value]) -> Receipt[Value]:
        """Settle; what is interrupted here is settled at its cap, and over."""
        try:
            with self._attempt:
                receipt = self._attempt.commit(release, keep="none", handed_out=self._handed_out, levels=self._levels)
                self._receipt = replace(receipt, reads=self._reads)
                return self._receipt
        except DpledgerError:
            raise
        except BaseException as error:
            self._ended = error
            raise

    @property
    def asked(self) -> int:
        """How many answers were handed out."""
        return self._handed_out

    def token(self) -> RunToken:
        """Of a training run under a key: what to save beside the model now, so that `resume=` knows where it stands
        (`ledger.rules.run_tokens`). ScopeError for an interaction that is not granted its steps."""
        if self._steps is None:
            raise ScopeError("only a training run has a token: the answers of this interaction are not resumed")
        return self._attempt.token(self._asked)

    @property
    def halted(self) -> bool:
        """Whether nothing more is answered: all planned steps have run, the mechanism halted by its own rule, or the
        interaction is closed, or ended at its full charge."""
        is_over = self._receipt is not None or self._ended is not None or self._asked == self._steps
        return is_over or (isinstance(self._conversation, Halts) and self._conversation.halted)

    @property
    def receipt(self) -> Receipt[Value]:
        """The receipt of the commit, once closed. After a broken contract there is none: Halted."""
        if self._receipt is None:
            self._require_unbroken()
            raise ScopeError("the interaction is open: it has a receipt once you close it")
        return self._receipt

    def _require_unbroken(self) -> None:
        if isinstance(self._ended, TakenOver):
            raise TakenOver(*self._ended.args)
        if self._ended is None:
            return
        if self._attempt.stays and not isinstance(self._ended, ContractViolation):
            raise Halted("the run was interrupted, and stays open: resume it under its key")
        raise Halted(
            "the interaction ended at its full charge: it broke its contract or was interrupted; open a new one"
        )

    def _fail(self, error: BaseException) -> BaseException:
        """End at the cap; what the caller is to see."""
        self._ended = error
        return self._attempt.give_up(error)

    def _granted_of(self, count: int, planned: int) -> int:
        """How many of so many more steps may run: granted, in blocks, if they were not yet."""
        if count and self._asked >= planned:
            raise Halted(f"all {planned} planned steps have run")
        taken = min(count, planned - self._asked)
        if self._asked + taken > self._granted:
            block = block_of(planned, stays=self._attempt.stays)
            upto = min(planned, max(self._asked + taken, self._granted + block))
            try:
                self._attempt.grant(upto)
            except TakenOver as error:
                self._ended = error
                raise
            self._granted = upto
        return taken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stays = self._attempt.stays and error is not None
        if self._ended is None and self._home.is_here and not stays:
            self.close()
