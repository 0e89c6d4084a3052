"""How a worker process finds the scope of its parent: by the file of its ledger, which it opens there.

A handle does not pickle, since a copy of it would believe in locks and in a head that are another process's. Its place
does: whoever receives it opens the file, with the key beside it or in DPLEDGER_KEY, and charges the same ledger.

>>> from dpledger.accounting.guarantees import PureDP
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
>>> place_of(scope)
Traceback (most recent call last):
...
dpledger.errors.ScopeError: scope rows cannot be charged from another process: its ledger is in no file. Use \
Ledger.open_or_create, or run in this process alone (threads share the scope)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dpledger.errors import DpledgerError, ScopeError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keyfiles import KeyFiles
from dpledger.ledger.stores.sqlite import SQLiteStore

__all__ = ["ScopePlace", "place_of"]

REMEMBERED = 8  # handles of a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlace:
    """Where a scope stands: the file of its ledger, the ledger's id, its own name."""

    file: str
    ledger: str
    scope: str

    def reached(self) -> Scope:
        """The scope, in a ledger that this process opened. ScopeError where it is not that one, or there is no key to
        charge it with; the errors of `Ledger.open`; ForkedProcess in a fork of a process that had it open."""
        return _opened(self.file, self.ledger).scope(self.scope)


def place_of(scope: Scope) -> ScopePlace:
    """Where `scope` stands. ScopeError where no other process could charge it."""
    book = scope._ledger
    named = f"scope {scope.name} cannot be charged from another process"
    store = book._store
    if not isinstance(store, SQLiteStore):
        raise ScopeError(
            f"{named}: its ledger is in no file. Use Ledger.open_or_create, or run in this process alone (threads "
            "share the scope)"
        )
    try:
        signer = KeyFiles.beside(store.path).find(None)
    except DpledgerError:
        signer = None
    if signer is None or signer.public != book.public_key:
        raise ScopeError(
            f"{named}: its signing key is neither in {KeyFiles.beside(store.path).signing} nor in DPLEDGER_KEY. Put it "
            "there, or run in this process alone (threads share the scope)"
        )
    return ScopePlace(file=str(store.path.resolve()), ledger=book.id, scope=scope.name)


@lru_cache(maxsize=REMEMBERED)
def _opened(file: str, ledger: str) -> Ledger:
    book = Ledger.open(file)
    if book.id != ledger:
        book.close()
        raise ScopeError(f"the ledger at {file} is another one than that of the process that sent this")
    return book
