"""What a store must do: one read, one conditional append, leaves by their numbers, and an end.

A store knows bytes, ids and statuses; it reads no entry. A read tells everything of one moment. An append says which
size it follows: all of it is there afterwards, durably, or none, and none if the store has another size. So no lock is
held from one call to the next, and whoever was overtaken reads again. An append that is said again, since its reply was
lost, is there once: the size that it follows is passed by then.

An interrupt may fall anywhere: it leaves a whole append or none, and the store goes on. What a signal handler says in
the middle of an append of its own thread is refused with StoreFailure, or one of the two appends is `failed`. In a
forked child a store refuses, before it takes a lock, and closes nothing. Every new store inherits the tests of
`store_conformance.StoreConformance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

__all__ = [
    "GO_ON",
    "NOTHING",
    "Addition",
    "AppendOutcome",
    "ChargeRow",
    "Ending",
    "Question",
    "Refusal",
    "Status",
    "Store",
    "TableRows",
    "Tail",
    "streamed",
]

Status = Literal["open", "committed", "aborted"]
Refusal: TypeAlias = tuple[str, str]
"""The scope and the digest of a request that was refused: recorded once, whatever its keys were."""
AppendOutcome = Literal["done", "failed", "unknown"]
"""Of an append: it is there, durably; nothing of it is there, nor will be, as the store has another size or head; or it
may be there, or come to be, since the reply was lost: say it again."""

BATCH = 500  # leaves fetched at a time
GO_ON = (
    "What the missing entries charged would be spent again. Put the newest state back. If it is lost, "
    "`dpledger accept-rollback` writes that into the record, and ends the scopes"
)
"""What a StoreBehind says last, of a store that lost entries."""


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


@dataclass(frozen=True, slots=True)
class Ending:
    """How an open charge ended, and by which entry."""

    charge: str
    status: Status
    ended: int


@dataclass(slots=True)
class TableRows:
    """What comes into a store's tables with some leaves. A charge may begin and end in the same rows.

    `values`: kept values by charge, so that a repetition is answered; in no export. `refusals`: those that are there
    already change nothing."""

    charges: list[ChargeRow] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    values: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What one append adds to a store of `size` leaves: one leaf at least, the signed head that covers it, rows.

    `after`: the signed head that they follow; None: whichever is there. `saved`: what was folded from all leaves, these
    among them, so that who opens the ledger need not do it again; it takes the place of the one before. None: that one
    stays."""

    size: int
    leaves: tuple[bytes, ...]
    head: bytes
    rows: TableRows = field(default_factory=TableRows)
    after: bytes | None = None
    saved: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What else a read is to tell: of the (scope, key) that a charge may have used up; of a refusal; of a charge, with
    its kept value; what was `saved`; or every charge and refusal that there is.

    `checked`: the store first looks through all that it holds, which takes as long as reading it: ForeignLedger for
    damage that it can find by itself."""

    key: tuple[str, str] | None = None
    refusal: Refusal | None = None
    charge: str | None = None
    saved: bool = False
    everything: bool = False
    checked: bool = False


NOTHING = Question()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A store at one moment: its size, the leaves that were asked for, the signed head (None before the first), and
    what is known of what was asked: charges by their ids, refusals in order."""

    size: int
    leaves: tuple[bytes, ...]
    head: bytes | None
    charges: tuple[ChargeRow, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    value: bytes | None = None
    saved: bytes | None = None

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        """The charge that used `key` up in `scope`, if one did, and it was asked for."""
        return next((row for row in self.charges if (row.scope, row.key) == (scope, key)), None)


class Store(Protocol):
    """A durable, append-only list of leaves with its signed head. For many threads; one handle a process."""

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        """The store as it is now, with the leaves from index `start` on (None: with no leaf)."""
        ...

    def append(self, addition: Addition) -> AppendOutcome:
        """Add all of it behind the `size` leaves that are there, under the head that it follows, durably, or nothing.

        Where it raises nothing was added: StoreBehind for a charge or a key that is there already, and for an ending of
        a charge that is not open; StoreFailure where the store cannot be written."""
        ...

    def leaves(self, start: int, stop: int) -> tuple[bytes, ...]:
        """The leaves from index `start` on, before `stop`, as far as there are any."""
        ...

    def close(self) -> None:
        """Give back what is held open. A second call does nothing."""
        ...


def streamed(store: Store, stop: int) -> Iterator[bytes]:
    """The first `stop` leaves of a store, fetched as they are asked for; nothing stays open meanwhile."""
    for start in range(0, stop, BATCH):
        yield from store.leaves(start, min(stop, start + BATCH))
