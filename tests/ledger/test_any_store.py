"""A ledger begins and goes on in any store: in memory, in a file, in one of the caller's own."""

import ast
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


# ---- stores of the house ---------------------------------------------------------------------------------------------

STORES = Path(__file__).parents[2] / "ledger" / "stores"


def is_store(node: ast.ClassDef) -> bool:
    """Whether it has the methods of the protocol `Store`, and is not the protocol itself."""
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    return {"tail", "append", "leaves", "close"} <= methods and node.name != "Store"


def classes(file: Path) -> list[ast.ClassDef]:
    return [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("file", ["test_stores.py", "test_any_store.py"])
def test_every_store_of_the_house_has_its_conformance_class(file: str) -> None:
    """Of bytes and appends, and of a ledger in it (CONTRIBUTING.md, "Adding a store")."""
    stores = {node.name for module in STORES.glob("*.py") for node in classes(module) if is_store(node)}
    files = [Path(__file__).with_name(name) for name in (file, "test_postgres.py")]
    held = [node for one in files for node in classes(one) if "Conformance" in ast.unparse(node.bases[0])]
    named = {one.id for node in held for one in ast.walk(node) if isinstance(one, ast.Name)}
    assert {"MemoryStore", "SQLiteStore"} <= stores <= named
