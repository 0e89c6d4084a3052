"""Calls that are cut off: by Ctrl-C, or by a store that fails. No charge stays open that nobody owns."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.errors import ParameterError, StoreFailure
from dpledger.ledger.charging.charges import Attempt
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.stores.memory import MemoryStore
from interrupting import LEDGER, Lines
from ledger_mechanisms import laplace, stream, training
from losing import Losing

NAME = new_ledger_id("clinic")
STEP = 9  # lines between two interruptions


@pytest.fixture
def store() -> Losing:
    return Losing(MemoryStore())


@pytest.fixture
def scope(store: Losing) -> Scope:
    book = Ledger.begin(store, SigningKey.generate(NAME), SigningKey.generate(NAME).public)
    return book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(90, "1e-5"))


def test_a_commit_that_did_not_happen_charges_nothing(scope: Scope, store: Losing) -> None:
    """The twin: the store failed, and nothing is there."""
    store.fails = ["full"]
    with pytest.raises(StoreFailure, match="full"):
        scope.release(laplace("0.5"), 1, key="k")
    assert len(scope.releases()) == 0
    scope.release(laplace("0.5"), 1, key="k")
    assert [charge.key for charge in scope.releases()] == ["k"]


OPENS: dict[str, Callable[[Scope], Any]] = {
    "training": lambda scope: scope.open(training(), None),
    "stream": lambda scope: scope.open(stream("0.001"), None),
    "held": lambda scope: scope.reserve(laplace("0.001")),
    "release": lambda scope: scope.release(laplace("0.001"), 1),
}


RETURNS = tuple(str(Path(LEDGER, name)) for name in ("scope.py", "charges.py"))


@pytest.mark.parametrize("name", ["stream", "held"])
def test_nor_does_one_as_the_call_returns(scope: Scope, name: str) -> None:
    """Before each of the last lines: what was reserved and is handed out to nobody is ended. The first call of a scope
    runs lines that later ones do not."""
    OPENS[name](scope)
    counted = Lines(10**6, RETURNS)
    counted.run(lambda: OPENS[name](scope))
    left_open = len(scope._ledger.refresh().open)
    raised = 0
    for target in range(counted.seen - 30, counted.seen):
        lines = Lines(target, RETURNS)
        lines.run(lambda: OPENS[name](scope))
        raised += lines.has_raised
        left_open += not lines.has_raised  # a few lines fewer than the one that was counted: it was handed out
        assert len(scope._ledger.refresh().open) == left_open, f"before line {target}"
    assert raised > 15


@pytest.mark.parametrize("name", OPENS)
def test_an_interruption_leaves_no_charge_open_and_no_scope_busy(scope: Scope, name: str) -> None:
    target, told, interrupted = 0, True, 0
    while told:
        found: list[Any] = []
        lines = Lines(target)
        lines.run(lambda found=found: found.append(OPENS[name](scope)))  # type: ignore[misc]
        told, target = lines.has_raised, target + STEP
        interrupted += told
        if not found:
            assert not scope._ledger.refresh().open, f"after line {target - STEP}"
        elif name == "held":
            found[0].abort()
        elif name != "release":
            found[0].close()
        scope.release(laplace("0.0001"), 0)
    assert interrupted > 10
    assert not scope._ledger.verify().state.open


def test_a_reservation_that_is_interrupted_says_what_became_of_its_charge(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    pure = Ledger.scope(scope._ledger, "pure", unit="visit", relation="add_remove", budget=PureDP(1))  # type: ignore[arg-type]
    held = pure.reserve(laplace("0.5"))
    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "start", stopped)
        with pytest.raises(KeyboardInterrupt) as found:
            held.release(1)
    assert "given back whole" in found.value.__notes__[0]
    assert pure.spent().upper == 0

    held = pure.reserve(laplace("0.5"))
    with monkeypatch.context() as patched:
        patched.setattr(held, "_run", lambda *_: stopped(None))
        with pytest.raises(KeyboardInterrupt) as found:
            held.release(1)
    assert "stands at its cap" in found.value.__notes__[0]
    assert pure.spent().upper == Decimal("0.5")
    assert not scope._ledger.verify().state.open


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_keys_are_made_in_no_folder_that_others_may_enter(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / ".clinic.ledger.unfinished"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ParameterError, match="others may enter it"):
        Ledger.create(tmp_path / "clinic.ledger")
    assert os.listdir(tmp_path) == [folder.name]
    folder.chmod(0o700)
    Ledger.create(tmp_path / "clinic.ledger").close()


def test_a_budget_is_kept_by_what_was_interrupted(scope: Scope) -> None:
    """What is settled at its cap counts: no more is released than the budget holds."""
    book = scope._ledger
    small = Ledger.scope(book, "small", unit="visit", relation="add_remove", budget=PureDP(1))  # type: ignore[arg-type]
    values = 0
    for target in range(0, 400, 7):
        if small.left() < Decimal("0.25"):
            break
        found: list[object] = []
        Lines(target).run(lambda found=found: found.append(small.release(laplace("0.25"), 1)))  # type: ignore[misc]
        values += len(found)
    assert values <= 4
    assert small.spent().upper <= 1
