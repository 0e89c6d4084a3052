"""What worker processes do with a ledger. In a module of its own, so that it travels to processes that are no forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, DpledgerError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from ledger_mechanisms import laplace

INHERITED: list[Scope] = []
"""Scopes of the process that started the workers: there in a fork of it, and empty in a fresh process."""


def ledger_file(path: Path, epsilon: str = "10") -> Path:
    """A closed ledger file with a scope `s` of this budget."""
    with Ledger.create(path) as book:
        book.scope("s", unit="patient", relation="add_remove", budget=PureDP(epsilon))
    return path


def releases_from_the_file(path: Path, epsilon: str) -> int:
    """Open the ledger and release until it refuses; how often it did not."""
    with Ledger.open(path) as book:
        scope, released = book.scope("s"), 0
        while True:
            try:
                scope.release(laplace(epsilon), 0)
            except BudgetRefused:
                return released
            released += 1


def answer_of_what_was_inherited(number: int) -> str:
    """What the scope says that came along with the process."""
    try:
        INHERITED[0].release(laplace(), number)
    except DpledgerError as error:
        return type(error).__name__
    return "answered"


def fresh_process(code: str) -> subprocess.CompletedProcess[str]:
    """A Python process that runs `code`, and can import what tests can."""
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": folders},
    )


def releases_elsewhere(path: Path, epsilon: str) -> int:
    """As `releases_from_the_file`, in a fresh process, which opens the file and closes it again."""
    code = "import ledger_workers\nfrom pathlib import Path\n"
    run = fresh_process(f"{code}print(ledger_workers.releases_from_the_file(Path({str(path)!r}), {epsilon!r}))")
    assert run.returncode == 0, run.stderr
    return int(run.stdout)
