"""A composition as the engine sees it: losses with counts, whose logarithms of transforms add."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.law import MOST_DECAYS, Cumulants, Loss, Tilted, sum_up

__all__ = ["MOST_TERMS", "Composed", "TiltedComposition", "bundled", "log_kappa"]

MOST_TERMS = 1 << 24  # of one transform: points times nodes
ALL_TERMS = 1 << 27  # of all of them together


@dataclass(frozen=True, eq=False)
class Composed:
    """Independent losses, each `count` times; at least one."""

    parts: tuple[tuple[Loss, int], ...]

    @property
    def runs(self) -> int:
        """How many losses there are, each as often as it is run."""
        return sum(count for _, count in self.parts)

    @functools.cached_property
    def log_finite(self) -> float:
        """log of the probability that every loss is finite."""
        if any(loss.infinite_mass >= 1 for loss, _ in self.parts):
            return -math.inf
        return math.fsum(count * scalars.log1p(-loss.infinite_mass) for loss, count in self.parts if loss.infinite_mass)

    @property
    def infinite_mass(self) -> float:
        return -scalars.expm1(self.log_finite)

    @functools.cached_property
    def largest(self) -> float:
        """The supremum of the finite loss, rounded up."""
        return sum_up([count * loss.largest for loss, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        """The supremum of the finite loss, rounded down."""
        return -sum_up([-count * loss.largest_down for loss, count in self.parts])

    def moments(self, c: float) -> Cumulants:
        """K, K', K'' of the sum, for a search: those of `tilted` have a bound of their error."""
        return _added([(loss.cumulants(c), count) for loss, count in self.parts])

    def log_moments(self, c: Array) -> Array:
        """Upper bounds of K at several c."""
        total, size = np.zeros_like(c), np.zeros_like(c)
        for loss, count in self.parts:
            term = count * loss.log_moments(c)
            total += term
            size += np.abs(term)
        bounds: Array = total + (len(self.parts) + 8) * UNIT * size
        return bounds

    def tilted(self, c: float) -> TiltedComposition:
        return TiltedComposition(c, tuple((loss.tilted(c), count) for loss, count in self.parts))


@functools.lru_cache(maxsize=16)
def bundled(composed: Composed) -> Composed:
    """The same composition, its losses of one kind as one where their kind has a way to (`Loss.bundled`)."""
    alike: dict[Hashable, list[tuple[Loss, int]]] = {}
    whole: list[tuple[Loss, int]] = []
    for loss, count in composed.parts:
        if loss.kin is None:
            whole.append((loss, count))
        else:
            alike.setdefault(loss.kin, []).append((loss, count))
    for some in alike.values():
        bundles = some[0][0].bundled(some)
        whole.extend(some if bundles is None else [(bundle, 1) for bundle in bundles])
    return composed if len(whole) == len(composed.parts) else Composed(tuple(whole))


@dataclass(frozen=True, eq=False)
class TiltedComposition:
    """The sum tilted at c."""

    c: float
    parts: tuple[tuple[Tilted, int], ...]

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return _added([(loss.cumulants, count) for loss, count in self.parts])

    @functools.cached_property
    def absolute_mean(self) -> float:
        return math.fsum(count * abs(loss.cumulants.mean) for loss, count in self.parts)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Upper bounds of log |phi(s)| of the sum, for every s from t to `horizon`."""
        chosen = self.parts
        if len(chosen) > MOST_DECAYS:
            chosen = tuple(sorted(chosen, key=lambda part: -part[1] * part[0].cumulants.variance)[:MOST_DECAYS])
        total = np.zeros_like(t)
        for loss, count in chosen:
            total += count * loss.log_decay(t, horizon)
        return total * (1 - 1e-12)

    def nodes(self, step: float, count: int) -> tuple[Array, Array, Array]:
        """Real and imaginary part of log Phi, and B: |Phi - computed| <= |computed| (e^B - 1) at each node."""
        real, imaginary, spread = np.zeros(count), np.zeros(count), np.zeros(count)
        slack = (len(self.parts) + 4) * UNIT
        for loss, times in self.parts:
            nodes = loss.nodes(step, count, min(MOST_TERMS, ALL_TERMS // len(self.parts)))
            real += times * nodes.log_phi.real
            imaginary += times * nodes.log_phi.imag
            spread += times * (nodes.spread + slack * np.abs(nodes.log_phi))
        return real, imaginary, spread


def _added(parts: list[tuple[Cumulants, int]]) -> Cumulants:
    rows = [
        (count * at.value, abs(count * at.value), count * at.error, count * at.mean, count * at.variance)
        for at, count in parts
    ]
    value, size, error, mean, variance = map(math.fsum, zip(*rows, strict=True))
    return Cumulants(value, error * (1 + 1e-9) + 8 * UNIT * size, mean, variance)


def log_kappa(c: float | Array) -> Array:
    """log of c^c / (1+c)^(1+c), the sharp constant of delta(eps) <= kappa e^{K(c) - c eps}; in a form that does not
    cancel. Source: Canonne-Kamath-Steinke 2020, Proposition 12; Balle et al. 2020, Theorem 21."""
    value: Array = -c * elementary.log1p(1 / np.asarray(c)) - elementary.log1p(c)
    return value
