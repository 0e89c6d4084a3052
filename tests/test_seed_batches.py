"""Seeds in batches: each is run once, in one slice or in the slow suite, and the one that failed is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seed_batches import SLICES, over_seeds


def batches(test: Callable[..., None]) -> list[Any]:
    [mark] = test.pytestmark  # type: ignore[attr-defined]
    return list(mark.args[1])


def seeds_marked(test: Callable[..., None], mark: str) -> list[int]:
    return [seed for one in batches(test) if mark in [each.name for each in one.marks] for seed in one.values[0]]


@pytest.mark.parametrize(("quick", "thorough"), [(0, 0), (1, 1), (4, 40), (5, 5), (12, 150), (300, 4000)])
def test_each_seed_is_in_one_batch(quick: int, thorough: int) -> None:
    @over_seeds(quick, thorough)
    def test(seed: int) -> None: ...

    assert sorted(seeds_marked(test, "sliced")) == list(range(quick))
    assert sorted(seeds_marked(test, "slow")) == list(range(quick, thorough))
    assert sum("sliced" in [mark.name for mark in one.marks] for one in batches(test)) == min(quick, SLICES)


def test_a_batch_runs_its_seeds_and_names_the_one_that_failed() -> None:
    ran: list[int] = []

    @over_seeds(10, 10)
    def test(seed: int, limit: int) -> None:
        ran.append(seed)
        assert seed < limit

    test(seeds=range(3, 10, 3), limit=10)
    assert ran == [3, 6, 9]
    with pytest.raises(AssertionError) as failed:
        test(seeds=range(3, 10, 3), limit=5)
    assert failed.value.__notes__ == ["seed 6"]
    assert ran == [3, 6, 9, 3, 6]
