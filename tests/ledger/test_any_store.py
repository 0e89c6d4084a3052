"""A ledger begins and goes on in any store: in memory, in a file, in one of the caller's own."""

from pathlib import Path

import pytest

from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Store
from dpledger.ledger.stores.sqlite import SQLiteStore
from ledger_conformance import LedgerConformance

pytestmark = pytest.mark.sliced


class TestInMemory(LedgerConformance):
    def make(self) -> Store:
        self.store = self.fresh()
        return self.store

    def again(self) -> Store:
        return self.store

    def fresh(self) -> MemoryStore:
        return MemoryStore()


class TestInAFile(LedgerConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self) -> Store:
        return SQLiteStore.create(self.folder / "store.ledger")

    def again(self) -> Store:
        return SQLiteStore.open(self.folder / "store.ledger")

    def fresh(self) -> Store:
        return SQLiteStore.create(self.folder / "other.ledger")
