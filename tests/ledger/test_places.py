"""Where a ledger lies: what names a database, what names a file, and what is sent to a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpledger.errors import ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import places
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.places import PlacedStore, is_address
from dpledger.ledger.stores.postgres import PostgresStore
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.workers import ScopePlace


@pytest.mark.parametrize("place", ["postgresql://h/d", "postgres://h/d", "postgresql://?service=clinic"])
def test_an_address_is_one(place: str) -> None:
    assert is_address(place)


@pytest.mark.parametrize("place", ["clinic.ledger", "/a/postgresql:b", "postgresql.ledger", Path("a"), b"a", 3])
def test_a_file_is_none(place: object) -> None:
    assert not is_address(place)


@pytest.mark.parametrize("place", ["postgresql:clinic", "postgres:/h/d", "POSTGRESQL://h/d", Path("postgresql://h/d")])
@pytest.mark.parametrize("opened", [Ledger.create, Ledger.open_or_create, Ledger.open, Ledger.look])
def test_what_was_meant_as_an_address_makes_no_file(
    opened: Any, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="postgresql://host/database"):
        opened(place)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_a_worker_can_open_says_where_it_is(tmp_path: Path) -> None:
    file = SQLiteStore.create(tmp_path / "a.ledger")
    assert isinstance(file, PlacedStore)
    assert file.place == str((tmp_path / "a.ledger").resolve())
    file.close()
    again = places.looked(file.place)
    assert again.tail(None).size == 0
    again.close()
    assert not isinstance(MemoryStore(), PlacedStore)


def test_no_message_of_a_store_or_place_shows_a_password() -> None:
    address = "postgresql://ann:s3cret@127.0.0.1:1/clinic?connect_timeout=1"
    store = PostgresStore(address)
    assert isinstance(store, PlacedStore)
    place = ScopePlace(place=address, key=None, ledger="clinic/1", scope="s")
    with pytest.raises(Exception, match="cannot be reached") as told:
        place.reached()
    for words in (store.name, repr(store), repr(place), str(told.value)):
        assert "s3cret" not in words
