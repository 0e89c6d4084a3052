"""Where a ledger lies: the path of a file, or the address of a database. What opens it there, and what signs."""

from __future__ import annotations

import os
import re
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

from dpledger.errors import ParameterError
from dpledger.ledger.signed.keyfiles import KeyFiles, signer_of
from dpledger.ledger.signed.keys import Passphrase, Signer
from dpledger.ledger.stores.protocol import Store
from dpledger.ledger.stores.sqlite import SQLiteStore

__all__ = ["Place", "PlacedStore", "is_address", "looked", "opened", "signer_at"]

Place: TypeAlias = str | os.PathLike[str]
"""The path of a ledger file, or a postgresql:// address as text."""

SCHEMES = ("postgresql://", "postgres://")
MEANT = re.compile(r"postgres(ql)?:", re.IGNORECASE)


@runtime_checkable
class PlacedStore(Store, Protocol):
    """A store that another process can open."""

    @property
    def name(self) -> str:
        """For messages: without what is secret."""
        ...

    @property
    def place(self) -> str:
        """Where it lies: a whole path, or an address, which may hold a password."""
        ...


def is_address(place: object) -> TypeGuard[str]:
    """Whether it names a database, and no file. ParameterError for what was meant as an address and is none: it would
    name a file."""
    if isinstance(place, str) and place.startswith(SCHEMES):
        return True
    if isinstance(place, (str, os.PathLike)) and MEANT.match(str(place)):
        expected = "an address as text, postgresql://host/database; for a file with such a name, its full path"
        raise ParameterError("ledger", "what begins as an address", expected)
    return False


def opened(place: Place) -> PlacedStore:
    """The store at `place`, to write to. The errors of `SQLiteStore.open` and `PostgresStore.open`."""
    if is_address(place):
        from dpledger.ledger.stores.postgres import PostgresStore

        return PostgresStore.open(place)
    return SQLiteStore.open(place)


def looked(place: Place) -> PlacedStore:
    """The store at `place`, to read only: of a file, the right to read it is enough."""
    return opened(place) if is_address(place) else SQLiteStore.look(place)


def signer_at(place: Place, key: Signer | Place | None, passphrase: Passphrase | None = None) -> Signer | None:
    """What signs in the ledger at `place`: `key`, or the key in that file; without one, that beside a ledger file, else
    DPLEDGER_KEY, else None."""
    return signer_of(key, passphrase) if is_address(place) else KeyFiles.beside(place).find(key, passphrase)
