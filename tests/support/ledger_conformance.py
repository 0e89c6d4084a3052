"""What a ledger must do in every store. A new store inherits `LedgerConformance`, and says how it is made and met."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, ForeignLedger, NewerThanVerifier, ParameterError, StoreBehind
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.entries.entry import entry_of, format_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.stores.protocol import Addition, Store
from forking import ignores_fork_warnings, in_child
from interrupting import Lines
from ledger_forger import forged_payloads
from ledger_mechanisms import laplace, stream
from losing import Losing

NAME = new_ledger_id("clinic")
KEY, RECOVERY = SigningKey.generate(NAME), SigningKey.generate(NAME)


STEP = 11  # lines between two interrupts: over the kinds of work and the stores they fall on different ones
SHORT_STEP = 3  # in the slow suite: more than 1,000 interrupts of each store
LINES = 700  # looked at: opening has more of them the more was released

Work: TypeAlias = "Callable[[LedgerConformance, Scope, list[Receipt[Any]]], object]"


def released(_: LedgerConformance, scope: Scope, receipts: list[Receipt[Any]]) -> None:
    receipts.append(scope.release(laplace("0.001"), 7))


def held_and_released(_: LedgerConformance, scope: Scope, receipts: list[Receipt[Any]]) -> None:
    with scope.reserve(laplace("0.001")) as held:
        receipts.append(held.release(7))


def reserved(_: LedgerConformance, scope: Scope, receipts: list[Receipt[Any]]) -> None:
    with scope.reserve(laplace("0.001")):
        pass


def asked(_: LedgerConformance, scope: Scope, receipts: list[Receipt[Any]]) -> None:
    with scope.open(stream("0.001"), None) as session:
        session.ask(0)
    receipts.append(session.receipt)


def reopened(store: LedgerConformance, scope: Scope, receipts: list[Receipt[Any]]) -> None:
    with store.resumed() as book:
        receipts.append(book.scope(scope.name).release(laplace("0.001"), 7))


def released_under(scope: Scope, key: str) -> None:
    scope.release(laplace("0.5"), 1, key=key)


def asked_under(scope: Scope, key: str) -> None:
    with scope.open(stream("0.5"), None, key=key) as session:
        session.ask(0)


def held_under(scope: Scope, key: str) -> None:
    with scope.reserve(laplace("0.5"), key=key) as held:
        held.release(1)


KEYED = [released_under, asked_under, held_under]
LOST = ["after", "before", "after, after", "before, after", "after and raises"]


class LedgerConformance(ABC):
    """The tests of `Ledger.begin` and `Ledger.resume`."""

    @abstractmethod
    def make(self) -> Store:
        """An empty store."""

    @abstractmethod
    def again(self) -> Store:
        """The store that was made, as another process would find it."""

    def begun(self) -> Ledger:
        """A ledger with one release in it."""
        book = Ledger.begin(self.make(), KEY, RECOVERY.public)
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP("0.25"))
        scope.release(laplace("0.1"), 7, key="first")
        return book

    def test_it_goes_on_where_it_was(self) -> None:
        before = self.begun()
        head, state = before.head, before.state
        before.close()
        with Ledger.resume(self.again(), KEY) as book:
            assert (book.id, book.head, book.state) == (NAME, head, state)
            scope = book.scope("s")
            again = scope.release(laplace("0.1"), 8, key="first")
            assert (again.value, again.replayed) == (7, True)
            scope.release(laplace("0.1"), 9)
            with pytest.raises(BudgetRefused):
                scope.release(laplace("0.1"), 9)
            assert len(book.verify(key=KEY.public).entries) == 7

    def test_a_run_elsewhere_is_charged_in_one_step_and_once(self) -> None:
        with self.begun() as book:
            said: dict[str, Any] = {
                "key": "elsewhere",
                "by": "The ward",
                "reason": "the same patients",
                "relation": "add_remove",
            }
            entry = book.scope("s").charge(PureDP("0.1"), **said).entry
            assert [one.body.kind for one in list(book.entries())[-2:]] == ["reserved", "committed"]
        with Ledger.resume(self.again(), KEY) as book:
            again = book.scope("s").charge(PureDP("0.1"), **said)
            assert (again.entry, again.replayed) == (entry, True)
            held = book.scope("s").charging(PureDP("0.05"), **{**said, "key": None}).__enter__()
            with pytest.raises(BudgetRefused):
                book.scope("s").release(laplace("0.1"), 9)
            held.nothing_ran()
            assert [*book.verify(key=KEY.public).attested] == [4, 6]

    def test_two_handles_follow_each_other(self) -> None:
        with self.begun() as one, Ledger.resume(self.again(), KEY) as other:
            other.declare("limits", "none", by="me")
            assert one.refresh().size == other.state.size

    def test_without_a_key_it_is_read_only(self) -> None:
        self.begun().close()
        with Ledger.resume(self.again(), None) as book:
            assert len(book.verify().entries) == 4
            with pytest.raises(ParameterError, match="key"):
                book.declare("limits", "none", by="me")

    def test_the_key_of_another_ledger_opens_nothing(self) -> None:
        self.begun().close()
        stranger = new_ledger_id("clinic")
        for signer in (SigningKey.generate(NAME), SigningKey.generate(stranger), RECOVERY):
            with pytest.raises(ForeignLedger, match="not the key of this ledger"):
                Ledger.resume(self.again(), signer)

    def test_an_empty_store_is_no_ledger(self) -> None:
        self.make().close()
        with pytest.raises(ForeignLedger, match="no signed head"):
            Ledger.resume(self.again(), KEY)

    def test_a_ledger_does_not_begin_twice(self) -> None:
        self.begun().close()
        with pytest.raises(ParameterError, match="an empty store"):
            Ledger.begin(self.again(), KEY, RECOVERY.public)

    @pytest.mark.parametrize("change", [{"format": "dpledger.ledger.v2"}, {"version": 2}, {"kind": "ledger_begun"}])
    def test_a_later_format_is_not_guessed_at(self, change: dict[str, str]) -> None:
        with Ledger.in_memory() as book:
            opened = format_entry(entry_of(next(iter(book.leaves()))))
        named = {"ledger": NAME, "public_key": KEY.public.text, "recovery_key": RECOVERY.public.text}
        leaves, head = forged_payloads([{**opened, **named, **change}], KEY)
        store = self.make()
        assert store.append(Addition(size=0, leaves=tuple(leaves), head=head)) == "done"
        store.close()
        with pytest.raises(NewerThanVerifier) as refusal:
            Ledger.resume(self.again(), KEY)
        assert refusal.value.index == 0

    def test_a_store_that_lost_an_entry_is_not_continued(self) -> None:
        with self.begun() as book:
            leaves, head = list(book.leaves()), book.head
        store = self.fresh()
        assert store.append(Addition(size=0, leaves=tuple(leaves[:-1]), head=head)) == "done"
        with pytest.raises(StoreBehind):
            Ledger.resume(store, KEY)

    @abstractmethod
    def fresh(self) -> Store:
        """A second empty store."""

    @ignores_fork_warnings
    def test_a_forked_child_resumes_nothing_of_its_parents(self) -> None:
        with self.begun():
            store = self.again()
            assert in_child(lambda: Ledger.resume(store, KEY)).startswith("ForkedProcess")
            with Ledger.resume(store, KEY) as book:
                assert book.state.size == 4

    @pytest.mark.parametrize("work", KEYED)
    def test_a_lost_reply_burns_neither_key_nor_cap(self, work: Callable[[Scope, str], object]) -> None:
        """Of the reservation, the start, the commit: whatever append it is of."""
        rules: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": PureDP(100)}
        losing, keys = Losing(self.make()), list[str]()
        with Ledger.begin(losing, KEY, RECOVERY.public) as book, Ledger.in_memory() as twin:
            scope, of_twin = book.scope("s", **rules), twin.scope("s", **rules)
            for fails in LOST:
                for losing.skips in range(3):
                    losing.fails = fails.split(", ")
                    keys.append(f"{fails.replace(', ', '-').replace(' ', '-')}/{losing.skips}")
                    work(scope, keys[-1])
                    work(of_twin, keys[-1])
                    losing.skips, losing.fails = 0, []  # a call may have fewer appends
            assert [charge.key for charge in scope.releases()] == keys
            assert book.verify(key=KEY.public).state.open == {}
            assert scope.spent() == of_twin.spent()

    @pytest.mark.parametrize("step", [STEP, pytest.param(SHORT_STEP, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("work", [released, held_and_released, reserved, asked, reopened])
    def test_an_interrupt_anywhere_loses_nothing_that_was_acknowledged(self, work: Work, step: int) -> None:
        """Ctrl-C falls before the lines of the ledger in turn. Whatever was handed out is in the record, within the
        budget, for this handle as for a fresh one, and what is released afterwards is committed."""
        book, handed_out = self.begun(), 0
        scope = book.scope("many", unit="patient", relation="add_remove", budget=PureDP(100))
        target, is_told = 0, True
        while is_told and target < LINES:
            receipts: list[Receipt[Any]] = []
            lines = Lines(target)
            lines.run(partial(work, self, scope, receipts))
            is_told, target = lines.has_raised, target + step
            receipts.append(scope.release(laplace("0.001"), 0))
            handed_out += len(receipts)
            known = list(book.leaves())
            for receipt in receipts:
                assert entry_of(known[receipt.entry.index]) == receipt.entry
            with self.resumed() as fresh:
                assert list(fresh.leaves()) == known
                assert (fresh.state, fresh.head) == (book.refresh(), book.head)
        assert target > 3 * step
        committed = [entry for entry in book.verify(key=KEY.public).entries if entry.body.kind == "committed"]
        assert len(committed) > handed_out  # one more was released by `begun`
        book.close()

    def resumed(self) -> Ledger:
        """The ledger, as another process would find it."""
        return Ledger.resume(self.again(), KEY)

    def test_a_store_that_is_refused_is_closed(self) -> None:
        self.begun().close()
        store = self.again()
        closed: list[bool] = []

        class Told:
            tail, append, leaves = store.tail, store.append, store.leaves

            def close(self) -> None:
                closed.append(True)
                store.close()

        with pytest.raises(ParameterError, match="an empty store"):
            Ledger.begin(Told(), KEY, RECOVERY.public)
        assert closed == [True]
