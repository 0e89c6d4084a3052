"""A signal handler that asks the session which it interrupts: wherever it falls, no more is answered than was granted,
what was answered is counted, and who is refused ends nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.chains import finest
from dpledger.errors import StillAnswering
from dpledger.ledger.charging import sessions
from dpledger.ledger.charging.sessions import Session
from dpledger.ledger.entries.bodies import Committed, Progress
from dpledger.ledger.handle.writing import utc_now

STEPS = 12
TRAINING = dpl.DPSGD(rate="0.1", steps=STEPS, expected_batch_size=5, dimension=1, noise_multiplier=4, clip_norm=1)


@contextmanager
def handling(handler: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """What sends this process a signal that is handled so."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield lambda: signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


class Asking:
    """Asks a session as often as it is interrupted, and keeps what came of it."""

    def __init__(self, query: object) -> None:
        self.session: Session[Any, Any, Any] | None = None
        self.query, self.answers, self.refused = query, 0, 0

    def __call__(self) -> None:
        if self.session is None:
            return
        try:
            self.session.ask(self.query)
            self.answers += 1
        except StillAnswering:
            self.refused += 1


@pytest.mark.parametrize("key", [None, "run"])
def test_no_step_runs_that_was_not_granted(key: str | None) -> None:
    asking = Asking(lambda batch: np.zeros((len(batch), 1)))
    left = 1
    with handling(asking) as interrupt:

        def clock() -> str:
            nonlocal left
            if asking.session is not None and left:
                left -= 1
                interrupt()
            return utc_now()

        book = dpl.Ledger.in_memory(clock=clock)
        scope = book.scope("s", unit="record", relation="add_remove", budget=dpl.ZCDP(5))
        session = scope.open(TRAINING, np.zeros((50, 1)), tail_delta=0, key=key, resume=key is not None)
        asking.session = session
        asking()
        asking.session = None
        granted = [entry.body.upto for entry in book.entries() if isinstance(entry.body, Progress)]
    assert asking.refused == 1  # in the middle of the one grant
    assert asking.answers <= max(granted)
    assert session.asked == asking.answers
    body = session.close().entry.body
    assert isinstance(body, Committed)
    assert body.parts == replace(TRAINING.parts(), done=asking.answers)


def test_the_answers_of_two_that_cross_are_both_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a gradual release the finest level counts, whoever was told it."""
    asking = Asking("0.4")
    with handling(asking) as interrupt:

        def slow(levels: Any, level: Any) -> Any:
            found = finest(levels, level)
            interrupt()
            return found

        monkeypatch.setattr(sessions, "finest", slow)
        scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=dpl.PureDP(1))
        session = scope.open(dpl.ex_post.GradualRelease(epsilon=1, sensitivity=1), 5)
        asking.session = session
        session.ask("0.1")
        assert (asking.answers, asking.refused) == (0, 1)
        monkeypatch.undo()
    assert session.asked == 1


def test_who_is_refused_ends_nothing() -> None:
    asking = Asking(lambda rows: 0)
    scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=dpl.PureDP(10))
    sparse = dpl.SparseVector(epsilon=5, cutoff=3, threshold=10, sensitivity=1)
    with scope.open(sparse, [1] * 30) as session:
        asking.session = session
        conversation: Any = session._conversation
        with conversation._turn:  # as in the middle of an answer
            asking()
        assert asking.refused == 1
        session.ask(lambda rows: 0)
    body = session.receipt.entry.body
    assert session.asked == 1
    assert isinstance(body, Committed)
    assert not body.outside_guarantee
