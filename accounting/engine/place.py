"""A fixed line for a list that grows: one row of numbers for each loss, of which the list is the sum.

Everything that a certificate needs of a list is additive over its losses: log Phi and its error bound at the nodes, K
and its error, the mean, the decay at the last node, the Chernoff bounds. At a fixed *place* (tilt, step, nodes) each
loss is one row, the list is the counts times the rows, and an appended loss costs one product. Rows of many sampled
losses are formed side by side (`bundle`). docs/proofs/engine.md, sections 1 to 3 and 6, and "Running sums".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.bundle import Bundle, BundledGaussians, bundles_of
from dpledger.accounting.engine.composed import MOST_TERMS, log_kappa
from dpledger.accounting.engine.contour import Contour, Ladder, horizon_of
from dpledger.accounting.laws.closed_moments import RemovedMoments
from dpledger.accounting.laws.law import Cumulants, Loss, Nodes
from dpledger.accounting.laws.sampled_row import sampled_row
from dpledger.accounting.laws.subsampled import SampledGaussianLoss

__all__ = ["DECAY", "VARIANCE", "Place", "Rows", "Sum"]

_POINTS = elementary.geometric(
    0.25, 4.0, 12
)  # of the Chernoff bounds, in units of the tilt: the best falls as losses grow
_SCALARS = 7
VARIANCE, DECAY = -2, -1
"""Where a row at the nodes holds these."""
_UPDATES = 64  # beside one for each row, after which a sum is formed anew


@dataclass(frozen=True, eq=False)
class Place:
    """The tilt, the nodes and the smoothing of a line. Any of them gives valid bounds."""

    c: float
    step: float
    count: int
    mu_squared: float

    @classmethod
    def near(cls, c: float, step: float, count: int, mu_squared: float) -> Place:
        """The place with `step` rounded down to 30 significant bits, as `Tilted.nodes` asks."""
        mantissa, exponent = math.frexp(step)
        return cls(c, math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30), count, mu_squared)

    @property
    def width(self) -> int:
        """The numbers of a row at the nodes."""
        return 4 * self.count + _SCALARS

    @functools.cached_property
    def points(self) -> Array:
        """Where the Chernoff bounds are taken."""
        return self.c * _POINTS

    @functools.cached_property
    def _log_kappas(self) -> Array:
        return log_kappa(self.points) * (1 - 4 * UNIT)

    @functools.cached_property
    def _closed(self) -> RemovedMoments:
        return RemovedMoments(self.points)

    def bound_rows(self, losses: Sequence[Loss]) -> Array:
        """Upper bounds of K at the points, their moduli, and the largest loss: a row for each loss."""
        points = self.points
        moments = np.empty((len(losses), points.size))
        bundles, others = bundles_of(losses)
        for bundle, numbers in bundles:
            moments[numbers] = bundle.moment_rows(points)
        for i in others:
            moments[i] = losses[i].log_moments(points)
        return _bound_rows(moments, losses)

    def wide_rows(self, losses: Sequence[Loss]) -> tuple[Array, list[int]]:
        """`bound_rows`, with bounds in closed form where that is known, and the numbers of the rows that have these:
        they are wider."""
        closed = [i for i, loss in enumerate(losses) if _is_plain(loss) and loss.direction == "remove"]
        if not closed:
            return self.bound_rows(losses), closed
        moments = np.full((len(losses), _POINTS.size), math.inf)
        moments[closed] = self._closed.rows([loss for loss in losses if _is_plain(loss) and loss.direction == "remove"])
        rows, known = _bound_rows(moments, losses), (moments[:, -1] < math.inf).tolist()
        left = [i for i in range(len(losses)) if not known[i]]
        if left:
            rows[left] = self.bound_rows([losses[i] for i in left])
        return rows, [i for i in closed if known[i]]

    def node_rows(self, losses: Sequence[Loss]) -> Array:
        """log phi, its spread and its modulus at the nodes, then K, |K|, its error, the mean, its modulus, the variance
        and (0, yet) the decay: a row for each loss. Raises WorkLimit where their nodes are too many."""
        rows = np.zeros((len(losses), self.width))
        bundles, others = bundles_of(losses)
        for bundle, numbers in bundles:
            rows[numbers, :-1] = self._bundle_rows(bundle)
        for i in others:
            at, nodes = self._at_nodes(losses[i])
            phi = nodes.log_phi
            scalars = (at.value, abs(at.value), at.error, at.mean, abs(at.mean), at.variance)
            rows[i, :-1] = np.concatenate([phi.real, phi.imag, nodes.spread, elementary.modulus(phi), scalars])
        return rows

    def _at_nodes(self, loss: Loss) -> tuple[Cumulants, Nodes]:
        if _is_plain(loss):
            return sampled_row(loss, self.c, self.step, self.count, MOST_TERMS)
        tilted = loss.tilted(self.c)
        return tilted.cumulants, tilted.nodes(self.step, self.count, MOST_TERMS)

    def _bundle_rows(self, bundle: Bundle) -> Array:
        end = self.step * (self.count - 1)
        tilted = bundle.tilted_up_to(self.c, end) if isinstance(bundle, BundledGaussians) else bundle.tilted(self.c)
        at = tilted.base
        real, imaginary, spread = tilted.node_rows(self.step, self.count, MOST_TERMS >> 2)
        scalars = (at.value, np.abs(at.value), at.error, at.mean, np.abs(at.mean), at.variance)
        return np.concatenate(
            [real, imaginary, spread, elementary.hypot(real, imaginary), np.stack(scalars, axis=1)], axis=1
        )

    def decays(self, losses: Sequence[Loss]) -> Array:
        """log |phi| of each loss from the last node to the horizon, bounded from above."""
        end, found = np.array([self.count * self.step]), np.empty(len(losses), dtype=np.float64)
        bundles, others = bundles_of(losses)
        for bundle, numbers in bundles:
            found[numbers] = bundle.tilted(self.c).decay_rows(end)[:, 0]
        for i in others:
            found[i] = losses[i].tilted(self.c).log_decay(end, self.horizon)[0]
        return found

    @property
    def horizon(self) -> float:
        """Up to where decay is asked for."""
        return horizon_of(self.mu_squared, self.count * self.step)

    def ladder(self, bounds: Rows) -> Ladder:
        """Chernoff bounds of the list at the points."""
        size = _POINTS.size
        moments, sizes = bounds.sums[:size], bounds.sums[size : 2 * size]
        above = moments + (bounds.terms + 8) * UNIT * sizes
        return Ladder(self.points, above, above + self._log_kappas + 4 * UNIT * np.abs(above))

    def chernoff(self, bounds: Rows, i: int, log_delta: float, late: float) -> float:
        """An upper bound of epsilon from point number i: that of `ladder(bounds).epsilon`, for one point; `late`: an
        upper bound of K there of what is not in `bounds`.

        Claim: delta(result) <= e^log_delta. Source: Canonne-Kamath-Steinke 2020, Proposition 12."""
        size = _POINTS.size
        moment, modulus = float(bounds.sums[i]) + late, float(bounds.sums[size + i]) + late
        bound = moment + float(self._log_kappas[i])
        slack = UNIT * ((bounds.terms + 16) * modulus + 16 * (abs(bound) + abs(log_delta)))
        return (bound - log_delta + slack) / float(self.points[i])

    def contour(self, nodes: Rows, ladder: Ladder) -> Contour:
        """The contour of the list here."""
        return Contour(Sum.of(self, nodes), ladder, step=self.step, count=self.count, mu_squared=self.mu_squared)


def _is_plain(loss: Loss) -> TypeGuard[SampledGaussianLoss]:
    return isinstance(loss, SampledGaussianLoss) and loss.cut is None


def _bound_rows(moments: Array, losses: Sequence[Loss]) -> Array:
    largest = np.array([[loss.largest] for loss in losses])
    return np.concatenate([moments, np.abs(moments), largest], axis=1)


class Rows:
    """Rows with counts, and their sum: each row times its count. What is added is kept until the sum is asked for.

    `terms`: each entry of `sums` is off by at most this many roundings of the sum of its terms' moduli."""

    __slots__ = ("_added", "_counts", "_rows", "_size", "_sums", "_terms")

    _sums: Array
    _terms: int

    def __init__(self, rows: Array, counts: Sequence[int]) -> None:
        self._rows, self._counts, self._size = rows, np.array(counts, dtype=np.float64), len(rows)
        self._added: dict[int, int] = {}
        self._sum_up()

    @property
    def sums(self) -> Array:
        """The sum of all rows, each times its count."""
        if self._added:
            self._catch_up()
        return self._sums

    @property
    def terms(self) -> int:
        if self._added:
            self._catch_up()
        return self._terms

    @property
    def largest(self) -> float:
        """The last of the sums, of terms that are not negative, rounded up."""
        return float(self.sums[-1]) * (1 + (self.terms + 4) * UNIT)

    def __len__(self) -> int:
        return self._size

    def append(self, rows: Array, counts: Sequence[int]) -> None:
        """More rows."""
        end = self._size + len(rows)
        if end > self._counts.size:
            room = np.zeros(end)
            self._counts = np.concatenate([self._counts, room])
            self._rows = np.concatenate([self._rows, np.zeros((end, self._rows.shape[1]))])
        self._rows[self._size : end], self._counts[self._size : end] = rows, counts
        self._size = end
        self._sums = self._sums + elementary.product(np.asarray(counts, dtype=np.float64), rows)
        self._terms += len(rows) + 1

    def replace(self, numbers: Sequence[int], rows: Array) -> None:
        """Other rows under these numbers."""
        self._rows[numbers] = rows
        self._sum_up()

    def add(self, i: int, count: int, total: int) -> None:
        """`count` more of row i, of which there are `total` then."""
        self._counts[i] = total
        self._added[i] = self._added.get(i, 0) + count

    def _catch_up(self) -> None:
        if self._terms + len(self._added) > 2 * self._size + _UPDATES:
            self._sum_up()
            return
        for i, count in self._added.items():
            self._sums = self._sums + float(count) * self._rows[i]
        self._terms += len(self._added)
        self._added.clear()

    def _sum_up(self) -> None:
        self._sums = elementary.product(self._counts[: self._size], self._rows[: self._size])
        self._terms = self._size + 2
        self._added.clear()


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The counts times the rows: a `TiltedSum` that knows the nodes and the decay of its own place only."""

    place: Place
    sums: Array
    terms: int
    cumulants: Cumulants
    absolute_mean: float

    @classmethod
    def of(cls, place: Place, nodes: Rows) -> Sum:
        """The sum of rows at the nodes of a place."""
        sums, terms = nodes.sums, nodes.terms
        value, size, error, mean, mean_size, variance, _ = sums[-_SCALARS:].tolist()
        rounded = error * (1 + 1e-9) + (terms + 12) * UNIT * size
        return cls(place, sums, terms, Cumulants(value, rounded, mean, variance), mean_size * (terms + 8) / 4)

    @property
    def c(self) -> float:
        return self.place.c

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        known = horizon <= self.place.horizon
        return np.full(t.shape, float(self.sums[-1]) * (1 - 1e-12) if known else 0.0)

    def nodes(self, step: float, count: int) -> tuple[Array, Array, Array]:
        assert (step, count) == (self.place.step, self.place.count), "rows hold the nodes of one place"
        real, imaginary, spread, sizes = self.sums[: 4 * count].reshape(4, count)
        return real, imaginary, spread + (self.terms + 4) * UNIT * sizes
