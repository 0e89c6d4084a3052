"""A contour that grows: losses added one by one, with a certified epsilon after each.

Everything that a certificate needs of a list is additive over its losses: log Phi and its error bound at the nodes, K
and its error, the mean, the decay at the last node, the Chernoff bounds. So each distinct loss is one row of numbers
at a fixed place (tilt, step, nodes), the list is the counts times the rows, and an appended loss costs one product.
The place is chosen anew only when the certificate grows wide. Every bound is that of `Contour`: docs/proofs/engine.md,
sections 1 to 3 and 6; the sum of D products of floats adds at most (D + 2) roundings of its absolute terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.composed import Composed, log_kappa
from dpledger.accounting.engine.contour import Contour, Ladder
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.engine.solve import WIDTH, Interval
from dpledger.accounting.engine.tilt import choose_contour, ladder_around, saddle_for_delta
from dpledger.accounting.laws.law import Cumulants, Loss
from dpledger.errors import WorkLimit

__all__ = ["Running"]

TOLERANCE = 1e-9
NARROW = 1e-6  # relative width of epsilon up to which a place is kept in any case
WIDEST = 1.5 * WIDTH  # and beyond which it is not; between, up to twice the width that it began with
PATIENCE = 1.3  # where no place was narrow, one is tried again after so many times the runs
AHEAD = 1.5  # a place is chosen for so many times the losses that there are
ROOM = 0.74  # and with so much shorter steps than it needs now
MOST_TERMS = 1 << 24
_SCALARS = 8
_ROUNDS = 12


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """The tilt, the nodes and the points of the Chernoff bounds at which rows are taken."""

    c: float
    step: float
    count: int
    mu_squared: float
    points: Array
    log_kappas: Array

    def row(self, loss: Loss) -> Array:
        """Everything additive of one loss. Raises WorkLimit where its nodes are too many."""
        tilted = loss.tilted(self.c)
        nodes, at = tilted.nodes(self.step, self.count, MOST_TERMS), tilted.cumulants
        decay = float(tilted.log_decay(np.array([self.count * self.step]))[0])
        moments = loss.log_moments(self.points)
        phi = nodes.log_phi
        scalars = (at.value, abs(at.value), at.error, at.mean, abs(at.mean), at.variance, decay, loss.largest)
        return np.concatenate([phi.real, phi.imag, nodes.spread, np.abs(phi), moments, np.abs(moments), scalars])


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """The counts times the rows: a `TiltedSum` that knows the nodes and the decay of its own place only."""

    place: _Place
    sums: Array
    terms: int

    @property
    def c(self) -> float:
        return self.place.c

    @property
    def _scalars(self) -> list[float]:
        values: list[float] = self.sums[-_SCALARS:].tolist()
        return values

    @property
    def cumulants(self) -> Cumulants:
        value, size, error, mean, _, variance, _, _ = self._scalars
        return Cumulants(value, error * (1 + 1e-9) + (self.terms + 12) * UNIT * size, mean, variance)

    @property
    def absolute_mean(self) -> float:
        return self._scalars[4] * (self.terms + 8) / 4

    @property
    def largest(self) -> float:
        """The supremum of the loss, rounded up."""
        return self._scalars[7] * (1 + (self.terms + 4) * UNIT)

    def log_decay(self, t: Array) -> Array:
        return np.full(t.shape, self._scalars[6] * (1 - 1e-12))

    def nodes(self, step: float, count: int) -> tuple[Array, Array, Array]:
        assert (step, count) == (self.place.step, self.place.count), "rows hold the nodes of one place"
        real, imaginary, spread, sizes = (self.sums[k * count : (k + 1) * count] for k in range(4))
        return real, imaginary, spread + (self.terms + 4) * UNIT * sizes

    def ladder(self) -> Ladder:
        """Chernoff bounds at the points of the place."""
        start, size = 4 * self.place.count, self.place.points.size
        moments, sizes = self.sums[start : start + size], self.sums[start + size : start + 2 * size]
        above = moments + (self.terms + 8) * UNIT * sizes
        bounds = above + self.place.log_kappas * (1 - 4 * UNIT) + 4 * UNIT * np.abs(above)
        return Ladder(self.place.points, above, bounds)


class Running:
    """The losses of one direction so far, at one delta; all of them finite."""

    def __init__(self, log_down: float, log_up: float) -> None:
        self._log_down, self._log_up = log_down, log_up
        self._index: dict[Loss, int] = {}
        self._counts = np.zeros(16)
        self._rows = np.zeros((16, 0))
        self._place: _Place | None = None
        self._guess = 0.0
        self._next_try = 1.0
        self._narrow = NARROW
        self.places = 0

    def parts(self) -> tuple[tuple[Loss, int], ...]:
        """What was added."""
        return tuple((loss, int(self._counts[i])) for loss, i in self._index.items())

    def add(self, loss: Loss, count: int) -> None:
        """Add `count` runs."""
        i = self._index.get(loss)
        if i is None:
            i = self._index[loss] = len(self._index)
            self._make_room(i)
            if self._place is not None:
                self._fill(i, loss)
        self._counts[i] += count

    def _make_room(self, i: int) -> None:
        if i == self._counts.size:
            self._counts = np.concatenate([self._counts, np.zeros(i)])
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])

    def _fill(self, i: int, loss: Loss) -> None:
        assert self._place is not None
        try:
            self._rows[i] = self._place.row(loss)
        except WorkLimit:
            self._place = None

    def at_most(self) -> float:
        """An upper bound of epsilon that costs nothing: the Chernoff bound, or the largest loss."""
        if self._place is None:
            return math.inf
        whole = self._sum(self._place)
        return max(0.0, min(whole.ladder().epsilon(self._log_down), whole.largest))

    def epsilon(self, floor: float = 0.0) -> Interval | None:
        """Bounds of epsilon; where it is not above `floor`, (0, floor) will do. None where no contour is narrow.

        Claim: lower <= epsilon <= upper. Source: `Contour.bounds`, evaluated at both ends.
        """
        if not self._index:
            return Interval(0.0, 0.0)
        found = self._answer(floor, self._narrow)
        if found is not None:
            return found
        runs = float(np.sum(self._counts))
        if self._place is None and runs < self._next_try:
            return None
        self._move()
        found = self._answer(floor, WIDEST)
        if found is None:
            self._place, self._next_try = None, PATIENCE * runs
        else:
            self._narrow = min(WIDEST, max(NARROW, 2 * found.relative_width()))
        return found

    def _sum(self, place: _Place) -> _Sum:
        terms = len(self._index)
        return _Sum(place, self._counts[:terms] @ self._rows[:terms], terms)

    def _answer(self, floor: float, narrow: float) -> Interval | None:
        place = self._place
        if place is None:
            return None
        whole = self._sum(place)
        contour = Contour(whole, whole.ladder(), step=place.step, count=place.count, mu_squared=place.mu_squared)
        if floor > 0 and contour.bounds(floor).upper <= self._log_down:
            return Interval(0.0, floor)
        found = self._solved(contour)
        return found if found is not None and found.relative_width() <= narrow else None

    def _solved(self, contour: Contour) -> Interval | None:
        """A root of the uncertified sum, from the last one; then outward on both sides until the certificate holds."""
        epsilon, slope = self._guess, -contour.c
        for _ in range(_ROUNDS):
            value, slope = contour.estimate(epsilon)
            if math.isnan(value) or not slope < 0:
                return None
            move = min(max((self._log_down - value) / slope, -contour.window / 4), contour.window / 4)
            epsilon += move
            if abs(move) <= 1e-10 * abs(epsilon):
                break
        if not epsilon > 0:
            return Interval(0.0, 0.0) if contour.bounds(0.0).upper <= self._log_down else None
        self._guess = epsilon
        here = contour.bounds(epsilon)
        upper = self._outward(contour, epsilon, slope, here.upper - self._log_down, 1.0)
        lower = self._outward(contour, epsilon, slope, self._log_up - here.lower, -1.0)
        return None if upper is None or lower is None else Interval(max(0.0, lower), upper)

    def _outward(self, contour: Contour, root: float, slope: float, gap: float, sign: float) -> float | None:
        at, distance = root, 0.0
        for _ in range(_ROUNDS):
            if gap <= 0:
                return at
            if not gap < math.inf:
                return None
            distance = max(2 * distance, 1.001 * gap / -slope, abs(root) * 2.0**-52)
            at = root + sign * distance
            bounds = contour.bounds(at)
            gap = bounds.upper - self._log_down if sign > 0 else self._log_up - bounds.lower
        return None

    def _move(self) -> None:
        """Choose the place for the losses of now and soon, and take every row again; none where that is too much."""
        self._place = None
        composed = Composed(tuple((loss, math.ceil(AHEAD * count)) for loss, count in self.parts()))
        try:
            saddle = saddle_for_delta(composed, self._log_down, WIDTH)
            chosen = choose_contour(
                composed, saddle, ladder_around(composed, saddle), tolerance=TOLERANCE, width=WIDTH / 2
            )
            points = chosen.c * np.geomspace(1.02, 4.0, 16)
            step, count = _thirty_bits(ROOM * chosen.step), math.ceil(chosen.count / ROOM)
            place = _Place(chosen.c, step, count, chosen.mu_squared, points, log_kappa(points))
            rows = [place.row(loss) for loss in self._index]
        except WorkLimit:
            return
        self._rows = np.zeros((self._counts.size, rows[0].size))
        self._rows[: len(rows)] = rows
        self._place, self._guess = place, saddle.epsilon
        self.places += 1


def _thirty_bits(step: float) -> float:
    """`step` rounded down to 30 significant bits, as `Tilted.nodes` asks."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)
