"""What a store that several processes open must do while they are killed, or its disk is full.

At every moment: what was handed out <= what is committed <= what is charged <= the budget, and the chain is whole. A
new store inherits `FaultConformance`, and says where a ledger lies and how its disk is full. Each test does what it
does a few times, and in the slow suite a thousand times and more.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, StoreFailure
from dpledger.ledger.entries.bodies import Committed, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.places import is_address
from forking import ignores_fork_warnings
from ledger_mechanisms import laplace

__all__ = [
    "FaultConformance",
    "Lying",
    "counts",
    "forked",
    "opened_scope",
    "read_all",
    "released_until_refused",
    "with_budget",
]

AMPLE = "1000000"
KILLS_OF_ONE_LEDGER, TRIALS_OF_ONE_LEDGER = 20, 40  # then a new one: what is verified stays short
MANY = 200  # releases, that no disk takes which is full
LONGEST_SECONDS = 0.03  # until a process is killed: some releases


class Lying(NamedTuple):
    """Where a ledger lies, and the path beside which its keys do."""

    place: str
    keys: Path

    def opened(self) -> Ledger:
        return Ledger.open(self.place, key=self.keys.with_name(self.keys.name + ".key"))


def with_budget(where: Lying, epsilon: str) -> Lying:
    """A ledger there, with a scope `s` of that budget in it."""
    keys = where.keys if is_address(where.place) else None
    with Ledger.create(where.place, keys=keys) as book:
        opened_scope(book, "s", epsilon)
    return where


def opened_scope(book: Ledger, name: str, epsilon: str) -> Scope:
    return book.scope(name, unit="patient", relation="add_remove", budget=PureDP(epsilon))


def counts(where: Lying) -> tuple[int, int]:
    """How many charges the verified ledger holds, and how many of them are committed."""
    with Ledger.look(where.place) as book:
        bodies = [entry.body for entry in book.verify().entries]
    return sum(isinstance(body, Reserved) for body in bodies), sum(isinstance(body, Committed) for body in bodies)


def released_until_refused(scope: Scope, pipe: int | None = None) -> int:
    """How many releases of epsilon 1 were handed out; each is a byte on the pipe."""
    released = 0
    while True:
        try:
            scope.release(laplace("1"), 0)
        except BudgetRefused:
            return released
        released += 1
        if pipe is not None:
            os.write(pipe, b".")


def forked(where: Lying, scope: str = "s", threads: int = 1) -> tuple[int, int]:
    """A forked process that opens the ledger and releases until it is refused; its id, and a pipe to which it writes a
    byte once it is ready and another for each value that was handed out."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _released_in_child(where, scope, threads, writing)
    os.close(writing)
    return pid, reading


def _released_in_child(where: Lying, name: str, threads: int, pipe: int) -> NoReturn:
    try:
        with where.opened() as book:
            scope = book.scope(name)
            os.write(pipe, b".")
            done: list[int] = []
            every = [
                threading.Thread(target=lambda: done.append(released_until_refused(scope, pipe)))
                for _ in range(threads)
            ]
            for thread in every:
                thread.start()
            for thread in every:
                thread.join()
        os._exit(0 if len(done) == threads else 1)
    finally:
        os._exit(1)


def read_all(descriptor: int) -> int:
    """How many bytes come out of a pipe until it is closed."""
    with os.fdopen(descriptor, "rb") as pipe:
        return len(pipe.read())


class FaultConformance(ABC):
    """The tests of a ledger in a store that other processes open."""

    @abstractmethod
    def lying(self) -> Lying:
        """Where no ledger is yet."""

    @abstractmethod
    def full(self, book: Ledger, room: int) -> AbstractContextManager[object]:
        """While it lasts, the disk has hardly room for what `book` writes: the less, the smaller `room` is."""

    @ignores_fork_warnings
    @pytest.mark.parametrize("kills", [6, pytest.param(1000, marks=pytest.mark.slow)])
    def test_killed_processes_released_no_more_than_was_charged(self, kills: int) -> None:
        """At random moments, of opening and of releasing; the next process goes on with what the killed one left."""
        moments, total = random.Random(kills), 0
        for number in range(kills):
            place = number % KILLS_OF_ONE_LEDGER
            if not place:
                where, released = with_budget(self.lying(), AMPLE), 0
            pid, pipe = forked(where)
            heard = 0
            if place % 5 != 4:  # else it may still be opening the ledger
                heard += len(os.read(pipe, 1))
            if not place:  # however slow the machine is, something is released
                released += len(os.read(pipe, 1))
            time.sleep(moments.uniform(0.0, LONGEST_SECONDS))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            released += max(0, heard + read_all(pipe) - 1)
            charged, committed = counts(where)
            assert released <= committed <= charged <= committed + place + 1
            total += not place and released
        assert total > 0

    @ignores_fork_warnings
    @pytest.mark.parametrize("trials", [4, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_processes_and_threads_at_once_grant_a_budget_exactly(self, trials: int) -> None:
        """Random budgets, processes and threads in each, beside a handle of the parent's own, which goes on."""
        choose = random.Random(trials)
        for number in range(trials):
            if not number % TRIALS_OF_ONE_LEDGER:
                where, charges = with_budget(self.lying(), AMPLE), 0
            budget, name = choose.randrange(1, 9), f"s{number}"
            with where.opened() as book:
                opened_scope(book, name, str(budget))
            children = [forked(where, name, choose.randrange(1, 3)) for _ in range(choose.randrange(1, 5))]
            with where.opened() as book:
                granted = released_until_refused(book.scope(name)) if choose.random() < 0.5 else 0
            released = [read_all(pipe) - 1 for _, pipe in children]
            assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children] == [0] * len(children)
            assert granted + sum(released) == budget
            charges += budget
            if number % TRIALS_OF_ONE_LEDGER in (0, TRIALS_OF_ONE_LEDGER - 1):
                assert counts(where) == (charges, charges)

    def test_a_full_disk_hands_out_nothing_that_is_not_charged(self) -> None:
        """Wherever in a release it is full: nothing of the append is there, and once there is room the ledger goes on,
        for this handle as for a fresh one."""
        where = with_budget(self.lying(), AMPLE)
        with where.opened() as book:
            scope, handed_out = book.scope("s"), 0
            for room in range(4):
                with self.full(book, room):
                    released = 0
                    with suppress(StoreFailure):
                        while released < MANY:
                            scope.release(laplace("1"), 0)
                            released += 1
                    assert released < MANY
                handed_out += released
                charged, committed = counts(where)
                assert handed_out == committed <= charged <= committed + room + 1
                scope.release(laplace("1"), 0)
                handed_out += 1
                with where.opened() as fresh:
                    assert (fresh.head, fresh.state) == (book.head, book.refresh())
            assert scope.spent().upper >= handed_out
