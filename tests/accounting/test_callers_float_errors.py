"""What the caller's numpy is told to do about underflow changes no answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import quietly
from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

STEP = PoissonSampled(GaussianLaw(1), rate="0.01")
TREES: dict[str, Composition] = {
    "long training": Repeated(STEP, times=10**6),
    "training": Repeated(STEP, times=1000),
    "laplace": Repeated(LaplaceLaw("0.1"), times=1000),
    "ranges": Repeated(BoundedRange("0.1"), times=1000),
    "two ranges": Sequence((Repeated(BoundedRange("0.1"), times=3), Repeated(BoundedRange("0.2"), times=3))),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_underflow_that_raises_elsewhere_does_not_here(tree: Composition) -> None:
    deltas = [f"1e-{k}" for k in (2, 6, 12, 20, 60, 100, 200, 300)]

    def answers() -> list[object]:
        profile = compose(tree)
        once = [profile.epsilon(delta) for delta in ("1e-6", "1e-200")]
        return [
            *once,
            profile.epsilons(deltas),
            profile.deltas([0.1, 1, 10, 100]),
            profile.delta(2),
            profile.tradeoff(0.1),
        ]

    known = answers()
    with np.errstate(all="raise"):
        assert answers() == known


def test_calls_inside_of_one_another_and_side_by_side_give_the_caller_its_settings_back() -> None:
    """One `np.errstate` object that several calls share would keep the state of the last of them to begin."""
    met = threading.Barrier(2, timeout=30)

    @quietly
    def inner() -> str:
        return str(np.geterr()["under"])

    @quietly
    def outer() -> tuple[str, str]:
        met.wait()
        return inner(), str(np.geterr()["under"])

    def called(_: int) -> tuple[tuple[str, str], str]:
        with np.errstate(under="raise"):
            return outer(), str(np.geterr()["under"])

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(called, range(2))) == [(("ignore", "ignore"), "raise")] * 2
