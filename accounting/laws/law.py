"""What the engine needs of a privacy loss: its transform on a vertical line, and proven errors.

A *loss* is L = log dP/dQ under P for a dominating pair (P, Q), with mass `infinite_mass` at +infinity. All methods
speak of L given that it is finite. K(z) = log E[e^{zL}]; *tilted at c* means reweighted by e^{cL} / e^{K(c)}. Decimals
that are no floats enter rounded to the nearest: every error bound covers a relative error `UNIT` in each parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray
from dpledger.accounting.laws.intervals import Interval

__all__ = [
    "FLOOR",
    "MOST_DECAYS",
    "ClosedForm",
    "Cumulants",
    "Deltas",
    "Direction",
    "Jumping",
    "ListedLosses",
    "Loss",
    "Nested",
    "Nodes",
    "Parts",
    "Profiled",
    "RareLosses",
    "Tilted",
    "decay_of_bounded",
    "excess",
    "prices",
    "sum_up",
]

Direction: TypeAlias = Literal["add", "remove"]
"""Of a neighbour pair: P has the unit (remove), or Q has it (add)."""


@dataclass(frozen=True, slots=True)
class Cumulants:
    """K(c), a bound `error` of |computed - exact| K(c) (infinite: none), and K'(c), K''(c), which need not be
    exact."""

    value: float
    error: float
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Nodes:
    """The tilted characteristic function phi(t) = E[e^{it(L - mean)}] at t = 0, step, 2 step, ...

    `log_phi`: a logarithm (any branch) of what was computed. `spread`: B with |phi| <= |computed| e^B and
    |phi - computed| <= |computed| (e^B - 1), node by node.
    """

    log_phi: ComplexArray
    spread: Array


class Tilted(Protocol):
    """A loss tilted at one c."""

    @property
    def cumulants(self) -> Cumulants: ...

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Upper bounds of log |phi(s)|, for every s from t to `horizon`."""
        ...

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """phi at `count` nodes. `step` has at most 30 significant bits: each multiple is exact. Raises WorkLimit
        where that is more than `work` terms."""
        ...


class Profiled(Protocol):
    """A privacy profile delta(e^l) of a loss, given that it is finite, bounded on both sides."""

    @property
    def smallest(self) -> float:
        """A lower bound of the loss: -inf where there is none."""
        ...

    @property
    def largest(self) -> float:
        """An upper bound of the finite loss."""
        ...

    def above(self, points: Array) -> Array:
        """Upper bounds of delta(e^l) at rising points l."""
        ...

    def lines(self, middles: Array) -> tuple[Array, Array]:
        """(A, B) for each point: the line A - B y, B >= 0, is at most delta(y) for every y >= 0 and near it at the
        point; A is near P(L > l), B near Q(L > l)."""
        ...


Parts: TypeAlias = "tuple[tuple[Loss, int], ...]"
"""Losses, each with how often it is run."""
Deltas: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Lower and upper bounds of delta at several epsilons >= 0."""


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """A profile in closed form. `epsilon`: bounds of the least epsilon >= 0, whose upper end holds for every delta of
    at least the first number, 0 < delta < 1, and whose lower end for every delta of at most the second. `one_by_one`:
    whether many `deltas` take as many times as long as one."""

    deltas: Deltas
    epsilon: Callable[[float, float], Interval]
    one_by_one: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ListedLosses:
    """Finite losses of a composition: `losses` with logarithms of their masses, given that the loss is finite.

    `mass_errors`: absolute errors of the logarithms. `loss_errors`: absolute. `log_beyond`: log of the mass of outcomes
    that are not listed, whose loss may be anything.
    """

    losses: Array
    log_masses: Array
    loss_errors: Array
    mass_errors: Array
    log_beyond: float = -math.inf


class RareLosses(Protocol):
    """How a loss is cut off far out; docs/proofs/engine.md, sections 10 and 11."""

    @property
    def chi_squared(self) -> float:
        """About the chi-square divergence of the pair: the variance of the loss, where that is small."""
        ...

    def mass_above(self, level: float) -> float:
        """About the mass that P has where the loss is above a level > 0."""
        ...

    def loss_beyond(self, mass: float) -> float:
        """About the loss beyond which P has this mass."""
        ...

    def log_density(self, losses: Array) -> Array:
        """log of the density of the loss under P."""
        ...

    def nested(self, levels: Array, tilt: float) -> Nested:
        """Cuts at these levels of the loss, rising, which fit tilts up to `tilt`. Raises WorkLimit where the layers
        between them cannot be told apart."""
        ...


class Nested(Protocol):
    """Cuts of one loss, each further out than the last."""

    @property
    def first(self) -> Loss:
        """The loss within the first cut."""
        ...

    @property
    def lost(self) -> float:
        """The mass that the last cut takes away, rounded up."""
        ...

    def layer(self, every: Sequence[tuple[Any, int]], place: int) -> Jumping:
        """The runs of all these losses, of one kind with this one, each of which may jump into the layer between cut
        number `place` and the next."""
        ...


class Loss(Protocol):
    """A privacy loss."""

    __slots__ = ()

    @property
    def infinite_mass(self) -> float: ...

    @property
    def largest(self) -> float:
        """The supremum of the finite loss, rounded up; infinite where there is none."""
        ...

    @property
    def largest_down(self) -> float:
        """The same, rounded down."""
        ...

    def cumulants(self, c: float) -> Cumulants:
        """For a search: `error` may be infinite. Those of `tilted` have a bound."""
        return self.tilted(c).cumulants

    def log_moments(self, c: Array) -> Array:
        """Upper bounds of K at several c > 0."""
        ...

    def tilted(self, c: float) -> Tilted: ...

    def rdp_upper(self, orders: Array) -> Array:
        """Upper bounds of the Renyi divergences of these orders, infinite where the loss can be. Each is to be a
        function of the loss and its own order alone, bit for bit: this one is where each of `log_moments` is.

        Claim: at least the Renyi divergences. Source: Mironov 2017, Definition 3."""
        if self.infinite_mass > 0:
            return np.full(orders.shape, math.inf)
        c = excess(orders)
        return prices(self.log_moments(c), c)

    # what else may be known of it: nothing, unless it says so

    def profile(self) -> Profiled | None:
        """The profile of the loss, given that it is finite, by its tails."""
        return None

    @property
    def closed(self) -> ClosedForm | None:
        """The profile of one run, given that it is finite, in closed form."""
        return None

    def joined(self, parts: Parts) -> Loss | None:
        """The sum of some losses, this one the first of them, as one loss of its kind."""
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None

    def counted(self, count: int, log_delta: float) -> ListedLosses | None:
        """The outcomes of so many runs, but for a mass that is small beside e^log_delta."""
        del count, log_delta
        return None

    @property
    def kin(self) -> Hashable | None:
        """What it has in common with the losses that it can be `bundled` with."""
        return None

    def bundled(self, parts: Sequence[tuple[Any, int]]) -> tuple[Loss, ...] | None:
        """The sum of its kin in fewer losses, each run once; None where they are too few."""
        del parts
        return None

    def enclosed(self, parts: Sequence[tuple[Any, int]], most: int) -> tuple[Parts, Parts] | None:
        """As many runs of at most so many losses of its kind that dominate its kin, and of such as these dominate; None
        where none are known."""
        del parts, most
        return None

    @property
    def decays_slowly(self) -> bool:
        """Whether its transform hardly decays, so that a few runs of it are work for a contour."""
        return False

    @property
    def smooths(self) -> bool:
        """Whether its transform decays fast, so that what runs beside it decays too."""
        return False

    @property
    def bend(self) -> float:
        """The tilt where one large loss begins to rule e^K, about; infinite where none does. A guess."""
        return math.inf

    @property
    def rare(self) -> RareLosses | None:
        """How it is cut, where few large losses may be told from many small ones."""
        return None


class Jumping(Loss, Protocol):
    """The sum of the losses of all runs, some of which jump into a layer: `most` at most."""

    @property
    def most(self) -> int: ...

    @property
    def runs(self) -> int: ...

    def jumping(self, fewest: int, most: int) -> Jumping:
        """The same runs, of which so many jump."""
        ...

    def log_moments_beyond(self, c: Array) -> Array:
        """Upper bounds of K at several c of the runs of which more than `most` jump."""
        ...

    def log_expected(self, c: Array) -> Array:
        """log of how many jumps are to be expected at several tilts c."""
        ...


def excess(orders: Array) -> Array:
    """Each order less 1, rounded up: the Renyi divergence rises with the order, so its price errs on the safe side."""
    above: Array = np.nextafter(orders - 1, math.inf)
    return above


def prices(log_moments: Array, c: Array) -> Array:
    """Upper bounds of K(c)/c at each c, from those of K(c).

    Claim: each is at least the Renyi divergence of every order up to 1 + c. Source: Mironov 2017, Proposition 9 (it
    rises with the order); docs/proofs/engine.md, section 5.
    """
    bounds: Array = np.nextafter(log_moments / c * (1 + 8 * UNIT), math.inf)
    return bounds


def decay_of_bounded(reach: float, variance: float, t: Array, horizon: float) -> Array:
    """Of a law on [-reach, reach] whose variance is at least `variance`: 0 where the horizon is beyond half a turn.

    Claim: at least log |phi(s)|, t <= s <= horizon. Source: docs/proofs/engine.md, section 3 (bounded losses).
    """
    if not (2 * reach * horizon <= math.pi * (1 - 1e-9) and variance > TINIEST):
        return np.zeros_like(t)
    fallen = variance / reach / reach * np.minimum(0.91 * scalars.square(np.minimum(t * reach, 1.0)), 0.1)
    bounds: Array = elementary.log1p(-np.minimum(fallen, 0.999)) / 2
    return bounds


TINIEST = 1e-280
"""Below this a variance may be all rounding."""
FLOOR = 1e-300
"""|phi| below this is taken as this, and the difference counted as an error: no logarithm of zero."""
MOST_DECAYS = 96
"""Losses whose decay is used; the others are bounded by 1."""


def sum_up(values: list[float]) -> float:
    """Claim: at least the exact sum of the products that `values` round, each within two roundings: one is of a count
    above 2^53."""
    if math.inf in values or -math.inf in values:
        return math.inf if math.inf in values else -math.inf
    return math.nextafter(math.fsum(values) + 3 * UNIT * math.fsum(map(abs, values)), math.inf)
