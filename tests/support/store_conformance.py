"""What every store must do. A new store inherits `StoreConformance` and says how it is made."""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from dpledger.errors import StoreBehind, StoreFailure
from dpledger.ledger.stores.protocol import ChargeRow, Store
from forking import DONE, ignores_fork_warnings, in_child
from interrupting import Lines
from work_counter import lines_run

ROW = ChargeRow(charge="c1", scope="s", key="k", request="r", status="open")


class Interrupted(Exception):
    """What a test interrupts a transaction with."""


class StoreConformance(ABC):
    """The tests of the protocol `Store`."""

    @abstractmethod
    def make(self) -> Store:
        """An empty store."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        made = self.make()
        yield made
        made.close()

    def test_it_is_empty_at_first(self, store: Store) -> None:
        with store.reading() as reader:
            assert reader.size == 0
            assert list(reader.leaves()) == []
            assert reader.checkpoint() is None
            assert list(reader.charges()) == []
            assert reader.charge_of("s", "k") is None
            assert list(reader.refusals()) == []
            assert reader.value("c1") is None
            with pytest.raises(IndexError):
                reader.leaf(0)

    def test_leaves_stay_in_order(self, store: Store) -> None:
        with store.transaction() as work:
            assert [work.append(b"leaf %d" % number) for number in range(5)] == [0, 1, 2, 3, 4]
            assert work.size == 5
        with store.reading() as reader:
            assert list(reader.leaves()) == [b"leaf 0", b"leaf 1", b"leaf 2", b"leaf 3", b"leaf 4"]
            assert list(reader.leaves(1, 3)) == [b"leaf 1", b"leaf 2"]
            assert list(reader.leaves(4)) == [b"leaf 4"]
            assert list(reader.leaves(5)) == []
            assert list(reader.leaves(3, 9)) == [b"leaf 3", b"leaf 4"]
            assert reader.leaf(2) == b"leaf 2"
            for index in (-1, 5):
                with pytest.raises(IndexError):
                    reader.leaf(index)

    def test_a_transaction_sees_what_it_wrote(self, store: Store) -> None:
        with store.transaction() as work:
            work.append(b"leaf")
            work.put_checkpoint(b"head")
            work.add_charge(ROW)
            work.put_value("c1", b"value")
            assert list(work.leaves()) == [b"leaf"]
            assert work.leaf(0) == b"leaf"
            assert work.checkpoint() == b"head"
            assert work.charge_of("s", "k") == ROW
            assert list(work.charges()) == [ROW]
            assert work.value("c1") == b"value"

    def test_everything_or_nothing(self, store: Store) -> None:
        def interrupted() -> None:
            with store.transaction() as work:
                work.append(b"leaf")
                work.put_checkpoint(b"head")
                work.add_charge(ROW)
                work.put_value("c1", b"value")
                work.note_refusal("s", "k", "r")
                raise Interrupted

        with pytest.raises(Interrupted):
            interrupted()
        self.test_it_is_empty_at_first(store)
        with store.transaction() as work:
            assert work.note_refusal("s", "k", "r")

    def test_the_head_is_replaced(self, store: Store) -> None:
        for head in (b"first", b"second"):
            with store.transaction() as work:
                work.put_checkpoint(head)
        with store.reading() as reader:
            assert reader.checkpoint() == b"second"

    def test_a_key_is_used_up_once_in_its_scope(self, store: Store) -> None:
        with store.transaction() as work:
            work.add_charge(ROW)
        for again in (ROW, replace(ROW, charge="c2"), replace(ROW, key="k2")):
            with pytest.raises(StoreBehind), store.transaction() as work:
                work.add_charge(again)
        with store.transaction() as work:
            work.add_charge(replace(ROW, charge="c2", scope="other"))
            work.add_charge(replace(ROW, charge="c3", key="other"))
        with store.reading() as reader:
            assert [row.charge for row in reader.charges()] == ["c1", "c2", "c3"]

    def test_a_charge_ends_once(self, store: Store) -> None:
        with store.transaction() as work:
            work.add_charge(ROW)
        with store.transaction() as work:
            work.end_charge("c1", "committed", 7)
        with store.reading() as reader:
            assert reader.charge_of("s", "k") == replace(ROW, status="committed", ended=7)
        for charge in ("c1", "unknown"):
            with pytest.raises(StoreBehind), store.transaction() as work:
                work.end_charge(charge, "aborted", 8)

    def test_a_charge_is_as_much_work_among_many_as_among_few(self, store: Store) -> None:
        """Opening a ledger puts every charge that there was into one transaction."""

        def charge(number: int) -> None:
            work.add_charge(replace(ROW, charge=f"c{number}", key=f"k{number}"))
            assert work.charge_of("s", f"k{number}") is not None
            work.end_charge(f"c{number}", "committed", number)

        with store.transaction() as work:
            few = lines_run(lambda: charge(0))
            for number in range(1, 500):
                charge(number)
            assert lines_run(lambda: charge(500)) == few

    def test_a_refusal_is_noted_once(self, store: Store) -> None:
        with store.transaction() as work:
            assert work.note_refusal("s", "k", "r")
            assert not work.note_refusal("s", "k", "r")
        with store.transaction() as work:
            assert not work.note_refusal("s", "k", "r")
            assert work.note_refusal("s", "k", "r2")
            assert work.note_refusal("s", "k2", "r")
            assert work.note_refusal("s2", "k", "r")
            assert list(work.refusals()) == [("s", "k", "r"), ("s", "k", "r2"), ("s", "k2", "r"), ("s2", "k", "r")]
        with store.reading() as reader:
            assert len(list(reader.refusals())) == 4

    def test_bytes_come_back_as_they_were(self, store: Store) -> None:
        """As bytes: what else equals them, as the buffers of a database's driver do, cannot be read as they can."""
        every_byte = bytes(range(256))
        with store.transaction() as work:
            work.append(every_byte)
            work.put_checkpoint(every_byte)
            work.put_value("c1", every_byte)
        with store.reading() as reader:
            for found in (reader.leaf(0), *reader.leaves(), reader.checkpoint(), reader.value("c1")):
                assert (found, type(found)) == (every_byte, bytes)

    def test_writers_exclude_each_other(self, store: Store) -> None:
        """Each reads the size and appends it: with two writers inside at once, a number would occur twice."""

        def write() -> None:
            for _ in range(25):
                with store.transaction() as work:
                    work.append(b"%d" % work.size)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.reading() as reader:
            assert list(reader.leaves()) == [b"%d" % number for number in range(100)]

    def test_it_closes_twice(self, store: Store) -> None:
        store.close()
        store.close()

    @ignores_fork_warnings
    def test_a_forked_child_neither_reads_nor_writes_nor_closes(self, store: Store) -> None:
        with store.transaction() as work:
            work.append(b"leaf")
        for use in (store.reading, store.transaction):
            assert in_child(use().__enter__).startswith("ForkedProcess: ")
        assert in_child(store.close) == DONE
        with store.transaction() as work:
            assert in_child(lambda: store.reading().__enter__()).startswith("ForkedProcess: ")
            assert work.append(b"another") == 1
        begun = store.transaction()
        begun.__enter__()
        assert in_child(lambda: begun.__exit__(None, None, None)).startswith("ForkedProcess: ")
        assert in_child(lambda: begun.__exit__(Interrupted, Interrupted(), None)) == DONE  # the error goes on
        begun.__exit__(None, None, None)
        with store.reading() as reader:
            assert list(reader.leaves()) == [b"leaf", b"another"]

    def test_an_interrupt_before_any_line_leaves_a_whole_transaction_or_none(self, store: Store) -> None:
        """Ctrl-C falls before each line of the store in turn; what is acknowledged afterwards is there."""
        acknowledged: list[bytes] = []

        def write(leaf: bytes) -> None:
            with store.transaction() as work:
                work.append(leaf)
                work.put_checkpoint(leaf)
                with store.reading():
                    pass
            acknowledged.append(leaf)

        target, told = 0, True
        while told:
            lines = Lines(target, also=(inspect.getfile(type(store)),))
            lines.run(partial(write, b"interrupted %d" % target))
            with store.reading() as reader:
                assert reader.checkpoint() == next(reversed(list(reader.leaves())), None)
            told, target = lines.has_raised, target + 1
            write(b"after %d" % target)
            with store.reading() as reader:
                leaves = list(reader.leaves())
                assert reader.checkpoint() == leaves[-1] == acknowledged[-1]
                assert [leaf for leaf in leaves if leaf in set(acknowledged)] == acknowledged
        assert target > 20
        store.close()
        self.require_kept(leaves)

    def test_a_write_in_the_middle_of_a_write_loses_nothing_that_is_acknowledged(self, store: Store) -> None:
        """A signal handler that releases while its thread writes: one of the two is refused."""
        acknowledged: list[bytes] = []

        def write(leaf: bytes, inside: Callable[[], None]) -> None:
            with store.transaction() as work:
                work.append(leaf)
                work.put_checkpoint(leaf)
                inside()
            acknowledged.append(leaf)

        with pytest.raises(StoreFailure, match="in the middle of another"):
            write(b"outer", lambda: write(b"inner", lambda: None))
        with store.reading() as reader:
            assert list(reader.leaves()) == acknowledged
        write(b"later", lambda: None)
        with store.reading() as reader:
            assert list(reader.leaves()) == acknowledged
            assert reader.checkpoint() == b"later"

    def require_kept(self, leaves: list[bytes]) -> None:
        """Raises unless the store, now closed, holds `leaves` for whoever opens it: overridden where that can be."""
        assert leaves
