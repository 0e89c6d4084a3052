"""What every store must do. A new store inherits `StoreConformance` and says how it is made."""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dpledger.errors import StoreBehind, StoreFailure
from dpledger.ledger.stores.protocol import (
    NOTHING,
    Addition,
    ChargeRow,
    Ending,
    Question,
    Store,
    TableRows,
    Tail,
    streamed,
)
from forking import DONE, ignores_fork_warnings, in_child
from interrupting import Lines
from ledger_workers import fresh_process

ROW = ChargeRow(charge="c1", scope="s", key="k", request="r", status="open")
KEY = Question(key=("s", "k"))
ALL = Question(everything=True)


def put(store: Store, *leaves: bytes, head: bytes = b"head", **rows: Any) -> None:
    """Append behind what is there; it is done."""
    size = store.tail(None).size
    assert store.append(Addition(size=size, leaves=leaves or (b"leaf",), head=head, rows=TableRows(**rows))) == "done"


def held(store: Store) -> list[bytes]:
    """All the leaves; asked for in both ways, they are the same."""
    tail = store.tail(0)
    assert tail.leaves == store.leaves(0, tail.size)
    assert len(tail.leaves) == tail.size
    return list(tail.leaves)


class StoreConformance(ABC):
    """The tests of the protocol `Store`."""

    @abstractmethod
    def make(self) -> Store:
        """An empty store."""

    @abstractmethod
    def code(self) -> str:
        """A line of Python that makes such a `store`, and names its module `home`."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        made = self.make()
        yield made
        made.close()

    def test_it_is_empty_at_first(self, store: Store) -> None:
        for start in (None, 0, 7):
            for asked in (NOTHING, KEY, ALL, Question(charge="c1")):
                assert store.tail(start, asked) == Tail(size=0, leaves=(), head=None)
        assert store.leaves(0, 9) == ()

    def test_a_process_that_never_closes_it_ends_without_a_word(self) -> None:
        """Also where the names of its modules are gone before it."""
        living = "json.kept = store; sys.kept = [json, *(m for name, m in sys.modules.items() if 'stores' in name)]"
        ended = fresh_process(f"import json, sys; {self.code()}; {living}")
        assert (ended.returncode, ended.stderr) == (0, "")

    def test_leaves_stay_in_order(self, store: Store) -> None:
        put(store, *(b"leaf %d" % number for number in range(3)))
        put(store, b"leaf 3", b"leaf 4")
        every = tuple(b"leaf %d" % number for number in range(5))
        assert store.tail(0) == Tail(size=5, leaves=every, head=b"head")
        for start in (1, 4, 5, 9):
            assert store.tail(start).leaves == every[start:]
            assert store.tail(start).size == 5
        assert store.tail(None).leaves == ()
        for start, stop in ((0, 5), (1, 3), (4, 5), (3, 9), (5, 9), (2, 2)):
            assert store.leaves(start, stop) == every[start:stop]
        assert list(streamed(store, 5)) == [*every]

    def test_an_append_is_of_one_size(self, store: Store) -> None:
        """Whoever was overtaken has written nothing, and what is said again is there once."""
        first = Addition(size=0, leaves=(b"a", b"b"), head=b"2", rows=TableRows(charges=[ROW]))
        assert store.append(first) == "done"
        for size in (0, 1, 3):
            late = Addition(
                size=size,
                leaves=(b"late",),
                head=b"late",
                rows=TableRows(
                    charges=[replace(ROW, charge="late", key="late")],
                    endings=[Ending("c1", "aborted", 9)],
                    refusals=[("s", "late")],
                    values=[("c1", b"late")],
                ),
            )
            assert store.append(late) == "failed"
        assert store.append(first) == "failed"
        assert store.tail(0, ALL) == Tail(size=2, leaves=(b"a", b"b"), head=b"2", charges=(ROW,))
        assert store.tail(None, Question(charge="c1")).value is None

    def test_an_append_may_say_which_head_it_follows(self, store: Store) -> None:
        """Under another one of the same size nothing is added."""
        put(store, head=b"first")
        late = Addition(size=1, leaves=(b"late",), head=b"late", after=b"another")
        assert store.append(late) == "failed"
        assert store.tail(0) == Tail(size=1, leaves=(b"leaf",), head=b"first")
        assert store.append(replace(late, after=b"first")) == "done"
        assert store.append(replace(late, after=b"first")) == "failed"
        assert held(store) == [b"leaf", b"late"]

    def test_everything_or_nothing(self, store: Store) -> None:
        """Of an append that is refused for its last row, nothing is there."""
        rows = TableRows(
            charges=[ROW],
            endings=[Ending("unknown", "committed", 1)],
            refusals=[("s", "r")],
            values=[("c1", b"value")],
        )
        with pytest.raises(StoreBehind):
            store.append(Addition(size=0, leaves=(b"leaf",), head=b"head", rows=rows))
        self.test_it_is_empty_at_first(store)
        put(store, b"leaf", charges=[ROW])
        assert held(store) == [b"leaf"]

    def test_the_head_is_replaced(self, store: Store) -> None:
        for head in (b"first", b"second"):
            put(store, head=head)
            assert store.tail(None).head == head

    def test_a_key_is_used_up_once_in_its_scope(self, store: Store) -> None:
        put(store, charges=[ROW])
        for again in (ROW, replace(ROW, charge="c2"), replace(ROW, key="k2")):
            with pytest.raises(StoreBehind):
                put(store, charges=[again])
        others = [replace(ROW, charge="c2", scope="other"), replace(ROW, charge="c3", key="other")]
        put(store, charges=others)
        assert store.tail(None, ALL).charges == (ROW, *others)
        twice = replace(ROW, charge="c4", key="twice")
        with pytest.raises(StoreBehind):
            put(store, charges=[twice, replace(twice, charge="c5")])

    def test_a_charge_ends_once(self, store: Store) -> None:
        put(store, charges=[ROW])
        put(store, endings=[Ending("c1", "committed", 7)])
        ended = replace(ROW, status="committed", ended=7)
        assert store.tail(None, KEY).charge_of("s", "k") == ended
        for charge in ("c1", "unknown"):
            with pytest.raises(StoreBehind):
                put(store, endings=[Ending(charge, "aborted", 8)])
        other = replace(ROW, charge="c2", key="k2")
        with pytest.raises(StoreBehind):
            put(store, charges=[other], endings=[Ending("c2", "aborted", 8), Ending("c2", "aborted", 9)])
        put(store, charges=[other], endings=[Ending("c2", "aborted", 8)])
        assert store.tail(None, ALL).charges == (ended, replace(other, status="aborted", ended=8))

    def test_what_is_asked_is_told(self, store: Store) -> None:
        other = replace(ROW, charge="c2", key="k2")
        refusals = [("s", "r2"), ("s", "r"), ("s2", "r")]
        put(store, charges=[other, ROW], refusals=refusals, values=[("c1", b"value")])
        told = store.tail(None, KEY)
        assert (told.charges, told.refusals, told.value) == ((ROW,), (), None)
        assert told.charge_of("s", "k2") is None
        for refusal in (*refusals, ("s2", "r2"), ("r", "s")):
            told = store.tail(None, Question(refusal=refusal))
            assert (told.charges, told.refusals) == ((), (refusal,) if refusal in refusals else ())
        told = store.tail(None, Question(charge="c1"))
        assert (told.charges, told.refusals, told.value) == ((ROW,), (), b"value")
        assert store.tail(None, Question(charge="c2")).value is None
        assert store.tail(None, Question(key=("s", "k"), charge="c1")).charges == (ROW,)
        told = store.tail(None, ALL)
        assert (told.charges, told.refusals) == ((ROW, other), tuple(sorted(refusals)))

    def test_a_charge_is_as_much_work_among_many_as_among_few(self, store: Store) -> None:
        """In lines of the project's own."""

        def charge(number: int) -> None:
            row = replace(ROW, charge=f"c{number}", key=f"k{number}")
            put(store, charges=[row], refusals=[("s", f"r{number}")])
            asked = Question(key=("s", row.key), refusal=("s", f"r{number}"))
            assert store.tail(None, asked).charges == (row,)
            put(store, endings=[Ending(row.charge, "committed", number)])

        def lines(number: int) -> int:
            counted = Lines(10**9, also=(inspect.getfile(type(store)),))
            counted.run(partial(charge, number))
            return counted.seen

        charge(0)
        few = lines(1)
        put(store, charges=[replace(ROW, charge=f"c{number}", key=f"k{number}") for number in range(2, 500)])
        assert lines(500) == few > 20

    def test_a_refusal_is_noted_once(self, store: Store) -> None:
        for _ in range(2):
            put(store, refusals=[("s", "r"), ("s", "r")])
        assert store.tail(None, ALL).refusals == (("s", "r"),)

    def test_bytes_come_back_as_they_were(self, store: Store) -> None:
        """As bytes: what else equals them, as the buffers of a database's driver do, cannot be read as they can."""
        every_byte = bytes(range(256))
        put(store, every_byte, head=every_byte, charges=[ROW], values=[("c1", every_byte)])
        tail = store.tail(0, Question(charge="c1"))
        for found in (*store.leaves(0, 1), *tail.leaves, tail.head, tail.value):
            assert (found, type(found)) == (every_byte, bytes)

    def test_ids_are_told_apart_and_sorted_by_their_bytes(self, store: Store) -> None:
        """Also where a database would sort, or compare, as people of some country do."""
        names = ["a", "B", "b", "A", "a-b", "ab", "a.b", "_", "a b", "Z", "z"]
        rows = [replace(ROW, charge=name, key=name) for name in names]
        put(store, charges=rows, refusals=[("s", name) for name in names])
        told = store.tail(None, ALL)
        assert [row.charge for row in told.charges] == sorted(names)
        assert [request for _, request in told.refusals] == sorted(names)
        for name in names:
            assert [row.key for row in store.tail(None, Question(key=("s", name))).charges] == [name]

    def test_of_writers_at_once_one_is_first(self, store: Store) -> None:
        """Each reads the size and appends it: of two that saw the same one, one has written nothing."""

        def write() -> None:
            done = 0
            while done < 25:
                size = store.tail(None).size
                done += store.append(Addition(size=size, leaves=(b"%d" % size,), head=b"head")) == "done"

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert held(store) == [b"%d" % number for number in range(100)]

    def test_what_is_saved_is_told_where_it_is_asked_for(self, store: Store) -> None:
        """The newest, of any size; an append without one leaves it, and one that fails leaves it too."""
        asked = Question(saved=True)
        assert store.tail(None, asked).saved is None
        for size, saved in enumerate((b"first", bytes(range(256)) * 9000, b"", b"last")):
            assert store.append(Addition(size=size, leaves=(b"leaf",), head=b"head", saved=saved)) == "done"
            assert store.tail(None, asked).saved == saved
        put(store)
        assert store.append(Addition(size=1, leaves=(b"late",), head=b"late", saved=b"late")) == "failed"
        assert store.tail(None, asked) == Tail(size=5, leaves=(), head=b"head", saved=b"last")
        assert store.tail(None) == Tail(size=5, leaves=(), head=b"head")

    def test_it_is_whole(self, store: Store) -> None:
        for _ in range(3):
            assert store.tail(None, Question(checked=True)) == store.tail(None)
            put(store, b"one", b"two")

    def test_it_closes_twice(self, store: Store) -> None:
        store.close()
        store.close()

    @ignores_fork_warnings
    def test_a_forked_child_neither_reads_nor_writes_nor_closes(self, store: Store) -> None:
        put(store)
        uses: list[Callable[[], object]] = [
            lambda: store.tail(0),
            lambda: store.leaves(0, 1),
            lambda: store.append(Addition(size=1, leaves=(b"of a child",), head=b"of a child")),
        ]
        for use in uses:
            assert in_child(use).startswith("ForkedProcess: ")
        assert in_child(store.close) == DONE
        put(store, b"another")
        assert held(store) == [b"leaf", b"another"]

    def test_an_interrupt_before_any_line_leaves_a_whole_append_or_none(self, store: Store) -> None:
        """Ctrl-C falls before each line of the store in turn; what is acknowledged afterwards is there."""
        acknowledged: list[bytes] = []

        def write(leaf: bytes) -> None:
            row = replace(ROW, charge=leaf.decode(), key=leaf.decode())
            put(store, leaf, head=leaf, charges=[row], values=[(row.charge, leaf)])
            acknowledged.append(leaf)

        target, told = 0, True
        while told:
            lines = Lines(target, also=(inspect.getfile(type(store)),))
            lines.run(partial(write, b"interrupted %d" % target))
            assert store.tail(None).head == next(reversed(held(store)), None)
            told, target = lines.has_raised, target + 1
            write(b"after %d" % target)
            leaves, tail = held(store), store.tail(None, ALL)
            assert tail.head == leaves[-1] == acknowledged[-1]
            assert [leaf for leaf in leaves if leaf in set(acknowledged)] == acknowledged
            assert [row.charge for row in tail.charges] == sorted(leaf.decode() for leaf in leaves)
        assert target > 20
        store.close()
        self.require_kept(leaves)

    def test_a_write_in_the_middle_of_a_write_loses_nothing_that_is_acknowledged(self, store: Store) -> None:
        """A signal handler writes before each line of a write of its thread in turn: one of the two is refused, or one
        came before the other."""
        acknowledged: list[bytes] = []

        def write(leaf: bytes) -> None:
            tail = store.tail(None)
            outcome = store.append(Addition(size=tail.size, leaves=(leaf,), head=leaf))
            assert outcome in ("done", "failed")
            if outcome == "done":
                acknowledged.append(leaf)

        def inner(target: int) -> None:
            with suppress(StoreFailure):
                write(b"inner %d" % target)

        target, told = 0, True
        while told:
            lines = Lines(target, also=(inspect.getfile(type(store)),), then=partial(inner, target))
            with suppress(StoreFailure):
                lines.run(partial(write, b"outer %d" % target))
            told, target = lines.has_raised, target + 1
            assert sorted(held(store)) == sorted(acknowledged)
            assert store.tail(None).head == held(store)[-1]
            write(b"later %d" % target)
            assert acknowledged[-1] == held(store)[-1] == b"later %d" % target
        assert any(leaf.startswith(b"inner") for leaf in acknowledged)

    def require_kept(self, leaves: list[bytes]) -> None:
        """Raises unless the store, now closed, holds `leaves` for whoever opens it: overridden where that can be."""
        assert leaves
