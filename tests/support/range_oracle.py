"""What bounded ranges come to together, by summation and by convolution. Shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from engine_oracles import mp

__all__ = ["enveloped_epsilon", "worst_epsilon"]


def paired_delta(eta: float, position: Any, runs: int, epsilon: Any) -> Any:
    """delta of `runs` pairs of two losses, exactly."""
    eta = mp.mpf(eta)
    high = position * eta
    likely = mp.expm1(high - eta) / mp.expm1(-eta)
    total = mp.mpf(0)
    for k in range(runs + 1):
        loss = (runs - k) * high + k * (high - eta)
        if loss > epsilon:
            total += mp.binomial(runs, k) * likely ** (runs - k) * (1 - likely) ** k * -mp.expm1(epsilon - loss)
    return total


def worst_epsilon(eta: float, runs: int, delta: float, positions: Iterable[int] = range(1, 40)) -> float:
    """The largest epsilon at delta of any position, in fortieths of eta: by bisection at each."""
    worst = 0.0
    for step in positions:
        low, high = 0.0, runs * eta
        for _ in range(40):
            middle = (low + high) / 2
            above = paired_delta(eta, mp.mpf(step) / 40, runs, mp.mpf(middle)) > delta
            low, high = (middle, high) if above else (low, middle)
        worst = max(worst, low)
    return worst


def enveloped_epsilon(eta: float, runs: int, delta: float, cells: int = 400) -> float:
    """epsilon at delta of the envelope of a range composed with itself, by a discrete convolution on a lattice of
    eta/cells. Its delta is (1 - e^((epsilon - eta)/2))^2 / (1 - e^-eta) (Dong-Durfee-Rogers 2020, Lemma 4.2); below 0
    it follows by symmetry."""
    step, half = eta / cells, np.arange(cells + 1)
    above = np.expm1((half * step - eta) / 2) ** 2 / -np.expm1(-eta)
    losses = np.arange(-cells, cells + 1) * step
    below = -np.expm1(losses[:cells]) + np.exp(losses[:cells]) * above[:0:-1]
    slopes = np.diff(np.concatenate([below, above])) / np.diff(np.exp(losses))
    masses = np.diff(np.concatenate([[-1.0], slopes, [0.0]])) * np.exp(losses)
    many = 2 * cells * runs + 1
    size = 1 << many.bit_length()
    composed = np.fft.irfft(np.fft.rfft(masses, size) ** runs, size)[:many]
    total = np.arange(-cells * runs, cells * runs + 1) * step

    def excess(epsilon: float) -> float:
        far = total > epsilon
        return float(np.sum(composed[far] * -np.expm1(epsilon - total[far]))) - delta

    return float(brentq(excess, 0, runs * eta))
