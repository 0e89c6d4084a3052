"""A list that grows: losses added one by one, with a certified epsilon after each.

The list is kept as sums at a fixed place (`place`), and the place is chosen anew only when the certificate grows wide.
The last root, and how fast it moved, are where the search for the next one starts; both ends are certified each time.
Every bound is that of `Contour`: docs/proofs/engine.md, sections 1 to 3 and 6, and "Running sums".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.bundle import bundled
from dpledger.accounting.engine.composed import MOST_DECAYS, Composed
from dpledger.accounting.engine.contour import Contour, Ladder
from dpledger.accounting.engine.place import DECAY, VARIANCE, Place, Rows
from dpledger.accounting.engine.running_lattice import RunningLattice
from dpledger.accounting.engine.solve import SHARP, WIDTH, Interval
from dpledger.accounting.engine.tilt import choose_line, ladder_around, saddle_for_delta
from dpledger.accounting.laws.closed_moments import added_moment
from dpledger.accounting.laws.law import Loss
from dpledger.errors import WorkLimit

__all__ = ["Running"]

PLACE_TOLERANCE = 1e-9
NARROW_PLACE = 1e-6  # relative width of epsilon up to which a place is kept in any case
WIDEST = 1.5 * WIDTH  # and beyond which it is not; between, up to twice the width that it began with
PATIENCE = 1.3  # where no place was narrow, one is tried again after so many times the runs
AHEAD = 1.2  # a place is chosen for so many times the losses that there are
ROOM = 0.74  # and with so much shorter steps than it needs now
MANY_NODES, PAST = 96, 3  # a place with so many nodes is left when the runs have grown so many times
MOST_NUMBERS = 1 << 23  # of one matrix of rows
DECAYED = -30.0  # log |phi| from which on the decay of more losses adds nothing
LATTICE_WIDTH = 4.9e-4  # relative width of epsilon that a lattice may leave
HARD = 1e-3  # where no method leaves less than this, it may leave
GROWN, FURTHER = 1.6, 2.0  # so many times what was left before, up to so many times the epsilon that was
LEAST_LOG_DELTA = -650.0  # log delta of a lattice: below, its masses underflow
_ROUNDS = 12
_SETTLED = 1e-5  # a step of Newton's method in log delta after which the next would be below its rounding
_ROOM = 1e-8  # relative: as far outward of where it just holds an end may be
_SHARE = 0.1  # the same, of the distance between the two


class Running:
    """The losses of one direction so far, given that all of them are finite, at one delta of that (`aim`)."""

    def __init__(self, log_down: float, log_up: float) -> None:
        self._log_down, self._log_up = log_down, log_up
        self._index: dict[Loss, int] = {}
        self._losses: list[Loss] = []
        self._counts: list[int] = []
        self._failing: dict[int, float] = {}  # the mass at infinity of the losses that have one
        self._runs = 0
        self._next_try = 1.0
        self._lattice: RunningLattice | None = None
        self._waiting: list[tuple[Loss, int]] = []  # to be put on it
        self._known = Interval(0.0, math.inf)  # what epsilon was found to be before it was begun
        self._next_lattice = 0.0
        self.place: Place | None = None
        self.places = 0
        self._settled = 0  # the runs there were when the place was chosen
        self._bounds: Rows | None = None
        self._wide: list[int] = []  # the numbers of the rows of bounds that are in closed form
        self._nodes: Rows | None = None  # of the first losses: those of the others are formed when they are needed
        self._ladder: Ladder | None = None
        self._late: list[float] = []  # upper bounds of K at the best point, of the losses that have no row of bounds
        self._best = 0  # the point of the best Chernoff bound, when it was last looked for
        self._decays = 0
        self._narrow = 0.0  # the place is asked for answers while this is above 0, and left for one wider than this
        self._past: list[tuple[int, float]] = []  # runs, and about where the upper certificate just held
        self._slope = math.nan  # of log delta there
        self._apart = 0.0  # of the two points where the certificates just hold

    def aim(self, log_down: float, log_up: float) -> None:
        """Ask for another delta, which moves as mass at infinity is added."""
        self._log_down, self._log_up = log_down, log_up

    @property
    def infinite_mass(self) -> float:
        """The probability that some loss is infinite."""
        if not self._failing:
            return 0.0
        return -scalars.expm1(math.fsum(self._counts[i] * scalars.log1p(-mass) for i, mass in self._failing.items()))

    def parts(self) -> tuple[tuple[Loss, int], ...]:
        """What was added."""
        return tuple(zip(self._losses, self._counts, strict=True))

    def begin(self, place: Place) -> None:
        """Take the rows at a place that was chosen before."""
        self._settle(place)

    def add(self, loss: Loss, count: int) -> None:
        """Add `count` runs."""
        i = self._index.get(loss)
        self._runs += count
        self._ladder = None
        if self._lattice is not None:
            self._waiting.append((loss, count))
        if i is None:
            self._index[loss] = len(self._losses)
            if loss.infinite_mass:
                self._failing[len(self._losses)] = loss.infinite_mass
            self._losses.append(loss)
            self._counts.append(count)
            return
        self._counts[i] += count
        for rows in (self._bounds, self._nodes):
            if rows is not None and i < len(rows):
                rows.add(i, count, self._counts[i])

    def is_at_most(self, floor: float) -> bool:
        """Whether the Chernoff bound, which costs little, or the largest loss shows that epsilon is at most `floor`."""
        if self.place is None:
            return False
        if self._is_soon_at_most(self.place, floor):
            return True
        try:
            bounds = self._bounds = self._caught_up(self._bounds, self._bound_rows)
            if bounds.largest <= floor:
                return True
            return self._is_shown_at_most(floor) or (self._sharpened() and self._is_shown_at_most(floor))
        except WorkLimit:
            return False

    def _is_soon_at_most(self, place: Place, floor: float) -> bool:
        """As `is_at_most`, by the best point alone, with bounds in closed form for losses that have no row."""
        if self._bounds is None:
            return False
        known, c = len(self._bounds), float(place.points[self._best])
        for loss in self._losses[known + len(self._late) :]:
            self._late.append(added_moment(loss, c))
        late = sum(count * moment for count, moment in zip(self._counts[known:], self._late, strict=True))
        late *= 1 + 2 * (len(self._late) + 1) * UNIT
        return place.chernoff(self._bounds, self._best, self._log_down, late) <= floor

    def _is_shown_at_most(self, floor: float) -> bool:
        assert self.place is not None
        ladder, _ = self._chernoff(self.place)
        self._best = ladder.best(self._log_down)
        return ladder.epsilon(self._log_down) <= floor

    def epsilon(self, floor: float = 0.0) -> Interval | None:
        """Bounds of epsilon; where it is not above `floor`, (0, floor) will do. None where no contour is narrow.

        Claim: lower <= epsilon <= upper. Source: `Contour.bounds`, evaluated at both ends.
        """
        if not self._losses:
            return Interval(0.0, 0.0)
        may_move = self._narrow > 0 or self._runs >= self._next_try
        if self._is_past():
            self._renew()
        found = self._answer(floor)
        if found is None and may_move:
            self._settle(self._chosen())
            if floor > 0 and self.is_at_most(floor):
                return Interval(0.0, floor)
            found = self._answer(floor)
            if found is None:
                self._narrow, self._next_try = 0.0, PATIENCE * self._runs
        if found is None:
            return self._on_lattice()
        self._lattice = None
        return found

    # ---- while no contour is narrow ---------------------------------------------------------------------------------

    def learn(self, known: Interval) -> None:
        """What epsilon was found to be, at some length, where `epsilon` gave none: to go on from there, on a lattice
        that tells it as well."""
        self._known, self._waiting = known, []
        if self._runs < self._next_lattice or self._log_down < LEAST_LOG_DELTA:
            return
        for lattice in RunningLattice.begun(self.parts(), *self._deltas()):
            self._lattice = lattice
            if self._on_lattice() is not None:
                return
        self._next_lattice = PATIENCE * self._runs

    def _on_lattice(self) -> Interval | None:
        """What the lattice says that was begun; None, and none from then on, where that is wide."""
        if self._lattice is None:
            return None
        try:
            for loss, count in self._waiting:
                self._lattice.add(loss, count)
            self._waiting = []
            found = self._lattice.epsilon(*self._deltas())
            if self._is_as_good(found):
                return found
        except WorkLimit:
            pass
        self._lattice = None
        return None

    def _is_as_good(self, found: Interval) -> bool:
        """Whether it is narrow; or, where nothing was, about as narrow as what was known of little less."""
        width, known = found.relative_width(), self._known.relative_width()
        hard = known > HARD and found.upper <= FURTHER * self._known.upper
        return width <= LATTICE_WIDTH or (hard and width <= GROWN * known)

    def _deltas(self) -> tuple[float, float]:
        """Rounded outward."""
        return scalars.exp(self._log_down) * (1 - 1e-13), scalars.exp(self._log_up) * (1 + 1e-13)

    # ---- the place and its rows -------------------------------------------------------------------------------------

    def _settle(self, place: Place | None) -> None:
        """Forget every row, and begin at a place."""
        self.place = place
        self.places += place is not None
        self._settled = self._runs
        self._bounds = self._nodes = self._ladder = None
        self._wide, self._late, self._decays = [], [], 0
        self._narrow = WIDEST if place else 0.0
        self._past, self._slope, self._apart = [], math.nan, 0.0

    def _is_past(self) -> bool:
        """Whether the place was for a time when losses were few, and has many nodes, or few of its rows were formed:
        now another may do with less."""
        self._settled = self._settled or self._runs  # of a place that was begun with
        if self.place is None or self._narrow == 0 or self._runs < PAST * self._settled:
            return False
        return self.place.count >= MANY_NODES or 2 * self._formed() < len(self._losses)

    def _formed(self) -> int:
        """How many losses have their rows at the nodes."""
        return 0 if self._nodes is None else len(self._nodes)

    def _renew(self) -> None:
        """Another place, if that has fewer nodes or little is lost of the old one."""
        chosen = self._chosen()
        if chosen and self.place and (chosen.count < self.place.count or 2 * self._formed() < len(self._losses)):
            self._settle(chosen)
        self._settled = self._runs

    def _chosen(self) -> Place | None:
        """A place for the losses of now and soon; None where that is too much work."""
        parts = tuple((loss, math.ceil(AHEAD * count)) for loss, count in self.parts())
        composed = bundled(Composed(parts))
        try:
            saddle = saddle_for_delta(composed, self._log_down, WIDTH)
            ladder = ladder_around(composed, saddle.c)
            line = choose_line(composed, saddle, ladder, tolerance=PLACE_TOLERANCE, width=WIDTH / 2)
        except WorkLimit:
            return None
        return Place.near(line.tilted.c, ROOM * line.step, math.ceil(line.count / ROOM), line.mu_squared)

    def _chernoff(self, place: Place) -> tuple[Ladder, Rows]:
        bounds = self._bounds = self._caught_up(self._bounds, self._bound_rows)
        ladder = self._ladder = self._ladder or place.ladder(bounds)
        return ladder, bounds

    def _contour(self, place: Place) -> Contour:
        if len(self._losses) * place.width > MOST_NUMBERS:
            raise WorkLimit(f"the rows of {len(self._losses)} losses are more than {MOST_NUMBERS} numbers")
        ladder, _ = self._chernoff(place)
        self._nodes = self._caught_up(self._nodes, self._node_rows)
        return place.contour(self._nodes, ladder)

    def _caught_up(self, rows: Rows | None, form: Callable[[list[Loss]], Array]) -> Rows:
        """The rows of all losses: those that are not there yet are formed."""
        known = 0 if rows is None else len(rows)
        if rows is None:
            return Rows(form(self._losses), self._counts)
        if known < len(self._losses):
            rows.append(form(self._losses[known:]), self._counts[known:])
        return rows

    def _bound_rows(self, losses: list[Loss]) -> Array:
        """The rows of bounds of the last losses, in closed form where that is known."""
        assert self.place is not None
        rows, wide = self.place.wide_rows(losses)
        self._late = []
        first = len(self._losses) - len(losses)
        self._wide.extend(first + i for i in wide)
        return rows

    def _sharpened(self) -> bool:
        """Whether there were bounds in closed form: they are now as narrow as can be."""
        if not self._wide or self.place is None or self._bounds is None:
            return False
        self._bounds.replace(self._wide, self.place.bound_rows([self._losses[i] for i in self._wide]))
        self._wide, self._ladder = [], None
        return True

    def _node_rows(self, losses: list[Loss]) -> Array:
        """The rows at the nodes of the last losses. Decay is told of those that decay most, while it is needed."""
        assert self.place is not None
        rows = self.place.node_rows(losses)
        counts = np.array(self._counts[-len(losses) :], dtype=np.float64)
        decayed = float(self._nodes.sums[DECAY]) if self._nodes else 0.0
        if decayed > DECAYED:
            chosen = np.argsort(-counts * rows[:, VARIANCE], kind="stable")[: MOST_DECAYS - self._decays].tolist()
            rows[chosen, DECAY] = self.place.decays([losses[i] for i in chosen])
            self._decays += len(chosen)
        return rows

    # ---- the answer -------------------------------------------------------------------------------------------------

    def _answer(self, floor: float) -> Interval | None:
        place = self.place
        if place is None or max(self._narrow, floor) <= 0:
            return None
        try:
            contour = self._contour(place)
        except WorkLimit:
            self._settle(None)
            return None
        if floor > 0 and contour.upper(floor) <= self._log_down:
            return Interval(0.0, floor)
        found = self._solved(contour) if self._narrow > 0 else None
        if (found is None or found.relative_width() > SHARP) and self._sharpened():
            return self._answer(floor)
        if found is None or found.relative_width() > self._narrow:
            return None
        if self._narrow == WIDEST:
            self._narrow = min(0.999 * WIDEST, max(NARROW_PLACE, 2 * found.relative_width()))
        return found

    def _solved(self, contour: Contour) -> Interval | None:
        """Both ends, from where they are expected after the last ones, or from a root of the uncertified sum."""
        expected = self._expected()
        found = self._ends(contour, expected, self._slope) if expected > 0 else None
        if found is not None:
            return found
        root, slope = self._newton(contour, expected)
        if math.isnan(root) and self._ladder is not None:
            root, slope = self._newton(contour, self._ladder.epsilon(self._log_down))
        if math.isnan(root):
            return None
        if root <= 0:
            return Interval(0.0, 0.0) if contour.upper(0.0) <= self._log_down else None
        return self._ends(contour, root, slope)

    def _expected(self) -> float:
        """Where the parabola through the last upper ends is now; NaN before there is one."""
        if len(self._past) < 3:
            return self._past[-1][1] if self._past else math.nan
        (first, early), (second, middle), (third, late) = self._past
        speed, before = (late - middle) / (third - second), (middle - early) / (second - first)
        ahead = self._runs - third
        return late + ahead * (speed + (speed - before) / (third - first) * (ahead + third - second))

    def _ends(self, contour: Contour, start: float, slope: float) -> Interval | None:
        """The interval between two points at which the certificates hold, searched from `start`."""
        room = max(_ROOM * start, _SHARE * self._apart)
        above = _end(lambda at: contour.upper(at) - self._log_down, start, room, slope)
        if above is None:
            return None
        upper, zero, self._slope = above
        below = _end(lambda at: self._log_up - contour.lower(at), zero - self._apart, -room, self._slope)
        if below is None:
            return None
        self._apart = max(0.0, zero - below[1])
        if not (self._past and self._past[-1][0] == self._runs):
            self._past = [*self._past[-2:], (self._runs, zero)]
        return Interval(max(0.0, below[0]), max(0.0, upper))

    def _newton(self, contour: Contour, start: float) -> tuple[float, float]:
        """A root from `start`, and the slope there; NaN where there is none."""
        at, slope = start, -contour.c
        for _ in range(_ROUNDS):
            value, slope = contour.estimate(at)
            if not (slope < 0 and abs(value) < math.inf):
                return math.nan, slope
            move = (self._log_down - value) / slope
            at += min(max(move, -contour.window / 4), contour.window / 4)
            if abs(move * slope) <= _SETTLED:
                break
        return at, slope


End: TypeAlias = tuple[float, float, float]
"""A point where a certificate holds, about where it just does, and the slope of the excess there."""


def _end(excess: Callable[[float], float], start: float, room: float, slope: float) -> End | None:
    """A point where `excess`, which changes by about `slope` < 0 a unit outward, is not positive, at most `room`
    outward (downward, where that is below 0) of its zero. None where it is infinite."""
    at, sign = start + room / 2, math.copysign(1.0, room)
    last = before = math.nan
    for _ in range(_ROUNDS):
        missing = excess(at)
        if not abs(missing) < math.inf:
            return None
        secant = sign * (missing - last) / (at - before) if at != before else math.nan
        slope = secant if 0.5 < secant / slope < 2 else slope
        zero = at - sign * missing / slope
        if missing <= 0 and abs(zero - at) <= abs(room):
            return at, zero, slope
        at, last, before = zero + room / 2, missing, at
    return None
