"""What the engine needs of a privacy loss: its transform on a vertical line, and proven errors.

A *loss* is L = log dP/dQ under P for a dominating pair (P, Q), with mass `infinite_mass` at +infinity. All methods
speak of L given that it is finite. K(z) = log E[e^{zL}]; *tilted at c* means reweighted by e^{cL} / e^{K(c)}. Decimals
that are no floats enter rounded to the nearest: every error bound covers a relative error `UNIT` in each parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray

__all__ = [
    "Cumulants",
    "Direction",
    "Loss",
    "Nodes",
    "Profiled",
    "Tilted",
    "decay_of_bounded",
    "excess",
    "prices",
    "spread_of",
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


class Loss(Protocol):
    """A privacy loss."""

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
        ...

    def log_moments(self, c: Array) -> Array:
        """Upper bounds of K at several c > 0."""
        ...

    def tilted(self, c: float) -> Tilted: ...

    def rdp_upper(self, orders: Array) -> Array:
        """Upper bounds of the Renyi divergences of these orders, infinite where the loss can be. Each is a function of
        the loss and its own order alone, bit for bit."""
        ...

    def profile(self) -> Profiled | None:
        """The profile of the loss, given that it is finite, by its tails; None where they are not known."""
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


def spread_of(phi: ComplexArray, error: Array) -> Nodes:
    """Nodes from computed values of phi and bounds of their absolute errors (docs/proofs/engine.md, section 6)."""
    modulus = np.maximum(elementary.modulus(phi), FLOOR)
    log_phi = elementary.log(modulus) + 1j * elementary.angle(phi)
    return Nodes(log_phi, elementary.log1p((error + FLOOR) / modulus) + 4 * UNIT * (np.abs(log_phi) + 2))


TINIEST = 1e-280
"""Below this a variance may be all rounding."""
FLOOR = 1e-300
"""|phi| below this is taken as this, and the difference counted as an error: no logarithm of zero."""
