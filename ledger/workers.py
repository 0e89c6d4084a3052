"""How a worker process finds the scope of its parent: by the place of its ledger, which it opens there.

A handle does not pickle, since a copy of it would believe in locks and in a head that are another process's. Its place
does: whoever receives it opens the file, or the address, and charges the same ledger. It signs with the key in the file
that the handle was opened with, else with that beside the ledger file, else with DPLEDGER_KEY. An address travels as it
was given: where it holds a password, so does what is sent.

>>> from dpledger.accounting.guarantees import PureDP
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
>>> place_of(scope)
Traceback (most recent call last):
...
dpledger.errors.ScopeError: scope rows cannot be charged from another process: its ledger is in memory, or in a store \
of your own. Use Ledger.open_or_create, or run in this process alone (threads share the scope)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from dpledger.errors import DpledgerError, ScopeError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.places import PlacedStore, signer_at

__all__ = ["ScopePlace", "place_of"]

REMEMBERED = 8  # handles of a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlace:
    """Where a scope stands: the file or the address of its ledger, the file of its key where one was named, the
    ledger's id, its own name."""

    place: str = field(repr=False)  # may hold a password
    key: str | None
    ledger: str
    scope: str

    def reached(self) -> Scope:
        """The scope, in a ledger that this process opened. ScopeError where it is not that one, or there is no key to
        charge it with; the errors of `Ledger.open`; ForkedProcess in a fork of a process that had it open."""
        return _opened(self.place, self.key, self.ledger).scope(self.scope)


def place_of(scope: Scope) -> ScopePlace:
    """Where `scope` stands. ScopeError where no other process could charge it."""
    book = scope._ledger
    named = f"scope {scope.name} cannot be charged from another process"
    store = book._store
    if not isinstance(store, PlacedStore):
        raise ScopeError(
            f"{named}: its ledger is in memory, or in a store of your own. Use Ledger.open_or_create, or run in this "
            "process alone (threads share the scope)"
        )
    key = book._key_file
    try:
        signer = signer_at(store.place, key)
    except DpledgerError:
        signer = None
    if signer is None or signer.public != book.public_key:
        raise ScopeError(
            f"{named}: its signing key is neither in {key or f'a file beside {store.name}'} nor in DPLEDGER_KEY. Put "
            "it there, or run in this process alone (threads share the scope)"
        )
    return ScopePlace(place=store.place, key=key, ledger=book.id, scope=scope.name)


@lru_cache(maxsize=REMEMBERED)
def _opened(place: str, key: str | None, ledger: str) -> Ledger:
    book = Ledger.open(place, key=key)
    if book.id != ledger:
        book.close()
        raise ScopeError("the ledger there is not the one of the process that sent this")
    return book
