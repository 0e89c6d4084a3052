"""The caller's own code that raises: nothing of what it says is kept, and a timer's exception is told as one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.errors import ContractViolation
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import seeded

WORDS = "the row of Jane Doe"


class TimeIsUp(Exception):
    """What a worker's time limit raises: not one of Python's own."""


def searches() -> list[Any]:
    common: dict[str, Any] = {"sensitivity": 1, "error_sensitivity": 1, "accepts": 20, "check_epsilon": 2}
    return [
        dpl.ex_post.NoiseReduction(least="0.01", most="1.28", levels=8, **common),
        dpl.ex_post.Doubling(first="0.01", rounds=8, **common),
    ]


def broken(_published: object) -> float:
    raise ValueError(WORDS)


@contextmanager
def limit(handler: Callable[..., Any]) -> Iterator[None]:
    """For the timer that `slow` starts: what comes before the caller's code may take long."""
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stop(_number: object, _frame: object) -> None:
    raise TimeIsUp("too long")


class Stopping:
    def __call__(self, _number: object, _frame: object) -> None:
        raise TimeIsUp("too long")

    def method(self, _number: object, _frame: object) -> None:
        raise TimeIsUp("too long")


def slow(_published: object) -> float:
    try:
        raise ValueError(WORDS)
    except ValueError:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(30)
    return 0.0


@pytest.mark.parametrize("search", searches())
def test_what_the_error_raised_is_nowhere_on_what_is_told(search: Any) -> None:
    """Found: `from None` hides it from a traceback and keeps it as `__context__`."""
    with pytest.raises(ContractViolation) as refusal:
        search.release(dpl.ex_post.Judged(0, broken), entropy=seeded(1))
    assert refusal.value.__context__ is None
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize("handler", [stop, Stopping(), Stopping().method, partial(stop)])
def test_a_timers_exception_is_told_as_one_once_the_charge_is_settled(search: Any, handler: Any) -> None:
    """Found: it was taken for a breach of the error's contract."""
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(20))
    with limit(handler), pytest.raises(TimeIsUp) as told:
        scope.release(search, dpl.ex_post.Judged(0, slow))
    kept: list[BaseException | None] = [told.value.__context__, told.value.__cause__]
    assert all(WORDS not in str(one) for one in kept)
    (admission,) = scope.account().admissions
    assert admission.charged["pure"] == search.claim().epsilon


def test_what_the_code_itself_raises_is_no_timers_whatever_its_type() -> None:
    def raises() -> None:
        raise TimeoutError(WORDS)

    with limit(stop):
        assert came_to(raises) is None


@pytest.mark.parametrize("handler", [stop, Stopping()])
def test_a_timers_exception_in_a_gradient_is_told_as_one_and_breaks_no_contract(handler: Any) -> None:
    """Found: it was taken for a breach, and a run that may be resumed was over."""
    plan = dpl.DPSGD(rate=1, steps=2, noise_multiplier=1, clip_norm=1, dimension=2, expected_batch_size=3)
    run = plan.open(np.ones((3, 2)), entropy=seeded(1))

    def gradients(batch: Any) -> Any:
        if len(batch):
            slow(batch)
        return batch

    with limit(handler), pytest.raises(TimeIsUp) as told:
        run.ask(gradients)
    assert told.value.__context__ is None
    ended = run.close()
    assert not ended.outside_guarantee
    assert ended.value.done == 1
