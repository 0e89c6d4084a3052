"""What a store must do: keep leaves in order, and which key and charge were used, in transactions that are durable.

A store knows bytes, ids and statuses; it reads no entry. Everything that one call changes is in one transaction: all of
it is there afterwards, or none. A transaction sees the head that the store holds now, which another process may have
moved. An interrupt may fall anywhere: it leaves a whole transaction or none, and the store goes on. Of two transactions
of one thread, one in the middle of the other, one is refused with StoreFailure. In a forked child a store refuses,
before it takes a lock, and closes nothing. Every new store inherits the tests of
`store_conformance.StoreConformance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["ChargeRow", "Reader", "Refusal", "Status", "Store", "Transaction"]

Status = Literal["open", "committed", "aborted"]
Refusal: TypeAlias = tuple[str, str, str]
"""The scope, the key and the digest of a request that was refused: recorded once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeRow:
    """A charge and the key it uses up: (scope, key) is unique, and so is the charge. `ended`: the index of the entry
    that ended it."""

    charge: str
    scope: str
    key: str
    request: str
    status: Status
    ended: int | None = None


class Reader(Protocol):
    """The store at one moment. Not to be used after its context."""

    @property
    def size(self) -> int:
        """How many leaves there are."""
        ...

    def leaf(self, index: int) -> bytes:
        """The leaf at `index`; IndexError beyond the end."""
        ...

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The leaves from index `start` on, in order; before `stop`, if it is given."""
        ...

    def checkpoint(self) -> bytes | None:
        """The signed head; None before the first."""
        ...

    def charges(self) -> Iterator[ChargeRow]:
        """Every charge, in the order of their ids."""
        ...

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        """The charge that used `key` up in `scope`, if one did."""
        ...

    def refusals(self) -> Iterator[Refusal]:
        """Every refusal that is remembered, in order."""
        ...

    def value(self, charge: str) -> bytes | None:
        """The kept value of a committed release as it was put here, if it was kept."""
        ...


class Transaction(Reader, Protocol):
    """Reads and writes that happen together. Leaving the context without an error makes them durable; with one,
    nothing of it happened."""

    def append(self, leaf: bytes) -> int:
        """Add a leaf at the end; its index."""
        ...

    def put_checkpoint(self, checkpoint: bytes) -> None:
        """Replace the signed head."""
        ...

    def add_charge(self, row: ChargeRow) -> None:
        """Record a charge and its key. StoreBehind if either is there already."""
        ...

    def end_charge(self, charge: str, status: Status, index: int) -> None:
        """Record how a charge ended, and by which entry. StoreBehind unless it is there and open."""
        ...

    def put_value(self, charge: str, value: bytes) -> None:
        """Keep the value of a release, so that a repetition is answered. In no export."""
        ...

    def note_refusal(self, scope: str, key: str, request: str) -> bool:
        """Remember a refusal. False if the same was remembered before."""
        ...


class Store(Protocol):
    """A durable, append-only list of leaves with its signed head. For many threads; one handle a process."""

    def reading(self) -> AbstractContextManager[Reader]:
        """The store as it is now: what is appended meanwhile is not seen."""
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A transaction that excludes every other writer."""
        ...

    def close(self) -> None:
        """Give back what is held open. A second call does nothing."""
        ...
