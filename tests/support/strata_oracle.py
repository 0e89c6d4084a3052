"""What an ex-post claim allows, by a linear programme that shares no code with the auditor; and published coins:
mechanisms whose loss differs from outcome to outcome, so that anybody can compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def largest_mean(a: Floats, b: Floats, epsilons: Floats, delta: float) -> float:
    """The largest E_P a + E_Q b over all pairs that keep the ex-post claim: the integrals of (P - e^E Q)_+ and of
    (Q - e^E P)_+ are at most delta. An infinite epsilon claims nothing."""
    size = len(a)
    zero, one = np.zeros((size, size)), np.eye(size)
    rows, bounds = [], []
    claimed = np.isfinite(epsilons)
    growth = np.diag(np.exp(epsilons[claimed]))
    own = one[claimed]
    there = growth @ own
    blank = zero[claimed]
    rows += [np.hstack([own, -there, -own, blank]), np.hstack([-there, own, blank, -own])]
    bounds += [np.zeros(claimed.sum()), np.zeros(claimed.sum())]
    spare = np.zeros((2, 4 * size))
    spare[0, 2 * size : 3 * size] = 1
    spare[1, 3 * size :] = 1
    masses = np.zeros((2, 4 * size))
    masses[0, :size] = 1
    masses[1, size : 2 * size] = 1
    found = linprog(
        -np.concatenate([a, b, np.zeros(2 * size)]),
        A_ub=np.vstack([*rows, spare]),
        b_ub=np.concatenate([*bounds, [delta, delta]]),
        A_eq=masses,
        b_eq=np.ones(2),
        bounds=[(0, None)] * (4 * size),
    )
    assert found.success, found.message
    return -float(found.fun or 0.0)


@dataclass(frozen=True)
class PublishedCoin:
    """A coin that is published takes one of several randomised responses of a bit: the outcome is (which, answer), and
    its loss the epsilon of that response."""

    weights: tuple[float, ...]
    epsilons: tuple[float, ...]

    def __call__(self, bit: bool, size: int, rng: Rng) -> npt.NDArray[Any]:
        which = rng.choice(len(self.weights), size, p=self.weights)
        kept = rng.random(size) < 1 / (1 + np.exp(-np.array(self.epsilons)))[which]
        return np.stack([which, kept == bit], axis=1)

    def law(self, bit: bool) -> Floats:
        """The probabilities of (which, wrong) and (which, right), in order."""
        kept = 1 / (1 + np.exp(-np.array(self.epsilons)))
        ones = kept if bit else 1 - kept
        chances: Floats = np.array(self.weights)[:, None] * np.stack([1 - ones, ones], axis=1)
        return chances.ravel()


@dataclass(frozen=True)
class ByFirst:
    """A claimed loss that is read off the first number of an output."""

    losses: tuple[float, ...]

    def __call__(self, outputs: npt.NDArray[Any]) -> Floats:
        found: Floats = np.array(self.losses)[np.asarray(outputs)[..., 0].astype(int)]
        return found
