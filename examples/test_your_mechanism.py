"""Audits in a test suite: copy this file into your tests and put your own code in the place of `noisy_mean`.

    pytest test_your_mechanism.py

Each test fails if its claim is refuted, and also if its runs could not have refuted twice the claim. The seeds are
fixed: a test that passes today passes tomorrow. `assert_not_refuted` is a fixture that comes with dpledger.
"""

from collections.abc import Callable

import numpy as np
import pytest

import dpledger as dpl

EPSILON = 1.0
PAIRS = [  # one row exchanged: the smallest data, and the most extreme rows
    ([0.0], [1.0]),
    ([0.0, 0.5], [0.0, 1.0]),
    ([float("nan"), 0.5], [0.5, 0.5]),
    ([-1e300, 0.5], [1e300, 0.5]),
]


def noisy_mean(rows: list[float], rng: np.random.Generator) -> dict[str, float]:
    """The mean of rows in [0, 1] (a bad row counts as 0), with Laplace noise; the number of rows is public."""
    clipped = np.clip(np.nan_to_num(rows, nan=0.0), 0.0, 1.0)
    return {"rows": len(rows), "mean": clipped.mean() + rng.laplace(scale=1 / (EPSILON * len(rows)))}


def forgetful_mean(rows: list[float], rng: np.random.Generator) -> dict[str, float]:
    """The same without clipping: one row can move the mean as far as it likes."""
    return {"rows": len(rows), "mean": np.mean(rows) + rng.laplace(scale=1 / (EPSILON * len(rows)))}


def test_the_mean_keeps_its_promise(assert_not_refuted: Callable[..., object]) -> None:
    """Fails where the audit refutes epsilon 1."""
    assert_not_refuted(noisy_mean, PAIRS, dpl.PureDP(EPSILON), relation="replace_one", trials=5_000)


def test_the_audit_finds_a_mean_that_forgets_to_clip() -> None:
    """The audit itself is tried: a mutant must be found."""
    with pytest.raises(dpl.errors.ClaimRefuted):
        dpl.assert_not_refuted(forgetful_mean, PAIRS, dpl.PureDP(EPSILON), relation="replace_one", trials=5_000)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
