"""Audit a function of your own: it claims epsilon 0.5, and adds noise for epsilon 1.

Whoever checks code like this in a test suite wants it to fail; here the violation is what we expect to see.
"""

import numpy as np

import dpledger as dpl


def salaries(rows: list[float], size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` noisy sums of salaries, clipped to [0, 1] (in millions)."""
    return np.clip(rows, 0, 1).sum() + rng.laplace(scale=1.0, size=size)


result = dpl.audit_mechanism(
    salaries, [0.1, 0.4], [0.1, 0.4, 1.0], claim=dpl.PureDP("0.5"), trials=50_000, batched=True, seed=1
)
print(result)
assert result.verdict == "violation"
