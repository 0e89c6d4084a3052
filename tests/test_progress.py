"""Progress bars: drawn on a terminal, by the process that began them, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.progress import Progress

from dpledger.progress import bar, track
from forking import DONE, ignores_fork_warnings, in_child


@ignores_fork_warnings
def test_a_bar_is_neither_drawn_nor_ended_by_a_forked_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its display's lock may be held by the thread that redraws, which a child does not have."""
    drawn = tmp_path / "drawn"
    for name in ("advance", "stop"):

        def noted(*_: object, name: str = name) -> None:
            with drawn.open("a") as file:
                file.write(f"{name} {os.getpid()}\n")

        monkeypatch.setattr(Progress, name, noted)
    monkeypatch.setattr(Progress, "start", lambda _: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    numbers = track(range(3), "counting")
    next(numbers)

    def go_on() -> None:
        next(numbers)
        numbers.close()  # type: ignore[attr-defined]

    assert in_child(go_on) == DONE
    assert list(numbers) == [1, 2]
    assert drawn.read_text().splitlines() == [f"{name} {os.getpid()}" for name in ["advance"] * 3 + ["stop"]]


def test_the_time_left_is_told_where_a_step_takes_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made = [0.0], []

    class Clocked(Progress):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, get_time=lambda: now[0], **named)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr("rich.progress.Progress", Clocked)
    monkeypatch.setattr(Progress, "start", lambda _: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar("auditing", 10) as advance:
        for _ in range(3):
            now[0] += 120
            advance(1)
        assert made[0].tasks[0].time_remaining == 7 * 120


def test_a_bar_leaves_the_generator_of_random_as_it_was() -> None:
    """In a process of its own: rich draws from it as it is imported."""
    script = (
        "import random, sys\nfrom dpledger.progress import track\nsys.stderr.isatty = lambda: True\n"
        "assert 'rich' not in sys.modules\nrandom.seed(1)\nbefore = random.getstate()\n"
        "assert list(track([1, 2], 'counting')) == [1, 2]\nassert 'rich' in sys.modules\n"
        "assert random.getstate() == before"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
