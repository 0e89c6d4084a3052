"""Random tests by fixed seeds: one item takes a batch of them, and names the seed that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

SLICES = 5
"""`make test` runs one slice of the tests that are marked `sliced` (tests/conftest.py)."""

TOGETHER = 20  # seeds of one slow item


def over_seeds(quick: int, thorough: int) -> Callable[[Callable[..., None]], Any]:
    """Runs a test of a `seed` for `quick` seeds, a fifth of them in each slice, and up to `thorough` in the slow suite.

    Fixtures are those of the item: a test that needs a fresh one for each seed takes its seeds by `parametrize`.
    """
    first = [range(start, quick, SLICES) for start in range(min(SLICES, quick))]
    rest = [range(start, min(start + TOGETHER, thorough)) for start in range(quick, thorough, TOGETHER)]
    batches = [
        *(pytest.param(seeds, id=f"{seeds}", marks=pytest.mark.sliced) for seeds in first),
        *(pytest.param(seeds, id=f"{seeds}", marks=pytest.mark.slow) for seeds in rest),
    ]

    def batched(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def of_all(*instance: object, seeds: range, **fixtures: Any) -> None:
            for seed in seeds:
                try:
                    test(*instance, seed=seed, **fixtures)
                except Exception as failed:
                    failed.add_note(f"seed {seed}")
                    raise

        known = inspect.signature(test)
        names = [one.replace(name="seeds") if one.name == "seed" else one for one in known.parameters.values()]
        of_all.__signature__ = known.replace(parameters=names)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("seeds", batches)(of_all)

    return batched
