"""A session says how many answers it handed out, and whether it hands out any more."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import dpledger as dpl
from dpledger.errors import ContractViolation, Halted
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.stability.answers import SideBySide
from ledger_mechanisms import stream, training


def scope_of(budget: Any) -> Scope:
    return Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)


def test_of_a_stream_that_its_mechanism_halts() -> None:
    vector = dpl.SparseVector(epsilon=20, cutoff=2, threshold=10, sensitivity=1)
    with scope_of(dpl.PureDP(30)).open(vector, [1] * 30) as session:
        assert (session.asked, session.halted) == (0, False)
        session.ask(lambda rows: 0)
        assert (session.asked, session.halted) == (1, False)
        session.ask_many([lambda rows: 0] * 5)
        assert (session.asked, session.halted) == (2, True)
        with pytest.raises(Halted):
            session.ask(lambda rows: 0)
    assert (session.asked, session.halted) == (2, True)


def test_of_steps_that_were_all_run() -> None:
    with scope_of(dpl.ZCDP(1, "1e-6")).open(training(steps=3), None) as session:
        for count in range(3):
            assert (session.asked, session.halted) == (count, False)
            session.ask(None)
    assert (session.asked, session.halted) == (3, True)


def test_of_one_that_is_closed_or_broken_before() -> None:
    session = scope_of(dpl.PureDP(3)).open(stream(), None)
    session.ask(True)
    session.close()
    assert (session.asked, session.halted) == (1, True)
    session = scope_of(dpl.PureDP(3)).open(stream(), None)
    session.ask(True)
    with contextlib.suppress(ContractViolation):
        session.ask(lambda: 1 / 0)
    assert (session.asked, session.halted) == (1, True)


def test_of_gaussian_tests() -> None:
    tests = dpl.stability.StableQueries(epsilon=1, delta="1e-6", mode="gaussian", max_queries=4)
    with scope_of(dpl.ZCDP(1, "1e-4")).open(tests, None) as session:
        session.ask_many(SideBySide(["a"] * 3, [10**6] * 3))
        assert (session.asked, session.halted) == (3, False)
        session.ask_many(SideBySide(["a"] * 3, [10**6] * 3))
        assert (session.asked, session.halted) == (4, True)
