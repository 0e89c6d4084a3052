"""How the property tests run: the same examples each time, so that a failure is one of the change under test.

`DPLEDGER_HYPOTHESIS=explore` draws new ones, as `make test-slow` does. No profile has a deadline: machines differ.
A test that leaves mpmath with other digits than it found fails itself, and not the oracles of those after it.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import mpmath
import pytest
from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: its threads wait by spinning
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("DPLEDGER_HYPOTHESIS", "repeatable"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    before = mpmath.mp.dps
    yield
    left, mpmath.mp.dps = mpmath.mp.dps, before
    assert left == before, f"{item.nodeid} leaves mpmath at {left} digits: mpmath.workdps is for that"
