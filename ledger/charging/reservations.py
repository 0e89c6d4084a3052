"""A charge that is held: the data are not read yet, and it can still be given back whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, NoReturn, Self, TypeAlias, TypeVar

from dpledger.errors import AlreadySpent, ScopeBusy, ScopeError, TakenOver
from dpledger.ledger.charging.charges import Attempt, Receipt
from dpledger.ledger.entries.entry import Entry
from dpledger.mechanisms.noise import unrecorded
from dpledger.mechanisms.protocol import Mechanism, inspect
from dpledger.process import Home

__all__ = ["Reservation"]

Data = TypeVar("Data")
Value = TypeVar("Value")
Run: TypeAlias = Callable[[Mechanism[Data, Value], Data, Attempt], Receipt[Value]]
"""How a scope runs what was started."""


class Reservation(Generic[Data, Value]):
    """A charge that is reserved and not yet started. Leaving the `with` block without a release aborts it."""

    def __init__(self, run: Run[Data, Value], mechanism: Mechanism[Data, Value], attempt: Attempt) -> None:
        self._run = run
        self._mechanism = mechanism
        self._attempt = attempt
        self._home = Home("a reservation")
        self._lock = threading.Lock()
        self._is_over = False

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation does not pickle: it is released once, in the process that made it")

    @unrecorded()
    def release(self, data: Data) -> Receipt[Value]:
        """Start the charge, run the mechanism on `data`, settle. Raises as `Scope.release` does; after a ScopeBusy, or
        a ScopeError in a scope that was closed, it is still reserved, and can be aborted."""
        inspect(self._mechanism, data)
        with self._attempt:
            self._take()
            try:
                self._attempt.start()
            except (ScopeBusy, ScopeError):
                with self._lock:
                    self._is_over = False
                raise
            return self._run(self._mechanism, data, self._attempt)

    def abort(self) -> Entry:
        """Give the whole charge back. Its key is used up."""
        with self._attempt:
            self._take()
            return self._attempt.abort()

    def _take(self) -> None:
        """What is reserved is released or aborted once, by one thread."""
        self._home.require()
        with self._lock:
            if self._is_over:
                raise AlreadySpent("the reservation is over: it was released or aborted")
            self._is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over and self._home.is_here:
            try:
                self.abort()
            except TakenOver:
                if error is None:  # else it was given back as it was interrupted, right before it was over
                    raise
