"""What an audit would have seen: alternatives that its number of runs refutes with probability 0.9.

The logarithm of an e-value that grows by D a pair has a variance of about 2 D a pair, so with L = log(1/alpha) + R nats
to gain, R the price of learning, n pairs refute with probability 0.9 where n D >= (0.91 + sqrt(0.82 + L))^2. Nothing
here depends on the event that an audit chose, and nothing is a bound: it is what is to be expected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from dpledger.audit.evidence.bets import plausible
from dpledger.audit.evidence.edges import Claim, Regions, StrataClaim
from dpledger.audit.evidence.estimates import by_line
from dpledger.audit.evidence.projection import project
from dpledger.audit.outcomes.structure import Floats

__all__ = [
    "PRICE",
    "Detectable",
    "MassEstimate",
    "as_gaussian",
    "least_epsilon",
    "least_event",
    "least_stretch",
    "needed",
]

PRICE = 4.0  # nats: what learning costs where outputs are numbers
STRETCHES = (0.05, 40.0)  # of log ratios
EVENTS = (1e-9, 0.5)  # probabilities
ROUNDS, STEPS = 3, 16  # of a search
MOST_EPSILON = 200.0  # that is told of a Gaussian
IMPOSSIBLE = 1e-12  # probability of an event on its other side


@dataclass(frozen=True, slots=True)
class Detectable:
    """Refuted with probability 0.9 at this number of runs: `stretched`, a mechanism with this true epsilon (at the
    delta of the point) whose outputs differ in the way that was estimated; `event`, any fault that is an event of this
    probability on one side, if a score sees it. None: none is."""

    stretched: float | None
    event: float | None


@dataclass(frozen=True, slots=True, eq=False)
class MassEstimate:
    """An estimate of the masses of cells on both sides, with the stratum of each, if claims are made of strata;
    `is_whole`: it tells every cell apart."""

    p: Floats
    q: Floats
    strata: np.ndarray | None
    is_whole: bool


def needed(alpha: float, price: float = PRICE) -> float:
    """Nats that a number of pairs must be expected to gain, to refute at `alpha` with probability 0.9."""
    return (0.91 + math.sqrt(0.82 + price - math.log(alpha))) ** 2


def least_epsilon(
    claim: Claim, found: Sequence[MassEstimate], delta: float, nats: float, *, runs: int, has_tail: bool
) -> float | None:
    """The true epsilon of estimates that are stretched until they are refuted: at delta 0 the least. Elsewhere the
    largest, of those that tell every cell apart: a few cells show no tail, so they would tell an epsilon of less than
    any mechanism has that looks like that. A delta below one run is what no cell shows: where there is no tail, it is
    as at delta 0; else a claimed curve says how a tail goes on, a claim of one point nothing. Source:
    docs/proofs/audit.md 6."""
    seen = delta * runs >= 1
    if not delta or not (seen or has_tail):
        return min((plausible(*pair, delta) for pair in _alternatives(claim, found, nats)), default=None)
    if not seen and not claim.is_curve:
        return None
    whole = _alternatives(claim, [one for one in found if one.is_whole], nats)
    told = (plausible(*pair, delta) if seen else as_gaussian(*pair, delta) for pair in whole)
    return max(told, default=None)


def _alternatives(claim: Claim, found: Sequence[MassEstimate], nats: float) -> Iterator[tuple[Floats, Floats]]:
    """Estimates, stretched until they are refuted; those that never are are left out."""
    for one in found:
        stretched = least_stretch(claim, one.p, one.q, one.strata, nats)
        if stretched is not None:
            yield stretched


def least_stretch(
    claim: Claim, p: Floats, q: Floats, strata: np.ndarray | None, nats: float
) -> tuple[Floats, Floats] | None:
    """p and q with their log ratios stretched by the least factor at which a pair gains `nats`; None if none."""

    def stretched(factors: Floats) -> tuple[Floats, Floats]:
        return by_line(factors[:, None] * np.log(p / q), np.tile(p + q, (factors.size, 1)))

    def grown(factors: Floats) -> Floats:
        tiled = None if strata is None else np.tile(strata, (factors.size, 1))
        return _growth(claim, *stretched(factors), tiled, nats)

    factor = _least(STRETCHES, grown, nats)
    if factor is None:
        return None
    (left,), (right,) = stretched(np.array([factor]))
    return left, right


def as_gaussian(p: Floats, q: Floats, delta: float) -> float:
    """The epsilon at `delta` of a Gaussian shift that tells the sides apart as well as p and q do: what a claimed curve
    has in the tail where no cell shows it."""
    mu = 2 * float(ndtri((1 + min(float(np.abs(p - q).sum()) / 2, 1 - 1e-12)) / 2))
    low, high = 0.0, MOST_EPSILON
    for _ in range(40):
        middle = (low + high) / 2
        held = mu <= 0 or ndtr(mu / 2 - middle / mu) - math.exp(middle + log_ndtr(-mu / 2 - middle / mu)) <= delta
        low, high = (low, middle) if held else (middle, high)
    return high


def least_event(claim: Claim, nats: float) -> float | None:
    """The least probability at which an event on one side only gains `nats` a pair; None if none does."""

    def grown(chances: Floats) -> Floats:
        p = np.stack([chances, 1 - chances], 1)
        q = np.tile([IMPOSSIBLE, 1 - IMPOSSIBLE], (chances.size, 1))
        strata = np.full(p.shape, _loosest(claim)) if isinstance(claim, StrataClaim) else None
        return _growth(claim, p, q, strata, nats)

    return _least(EVENTS, grown, nats)


def _least(within: tuple[float, float], grown: Callable[[Floats], Floats], nats: float) -> float | None:
    """About the least number between two at which a growth that rises reaches `nats`; None if none does."""
    low, high = within
    for _ in range(ROUNDS):
        tried = np.geomspace(low, high, STEPS)
        enough = np.flatnonzero(grown(tried) >= nats)
        if not enough.size:
            return None
        low, high = float(tried[max(enough[0] - 1, 0)]), float(tried[enough[0]])
    return high


def _growth(claim: Claim, p: Floats, q: Floats, strata: np.ndarray | None, nats: float) -> Floats:
    regions = Regions.of([claim])[np.zeros(len(p), dtype=np.int64)]
    return project(regions, p, q, runs=math.ceil(10 / nats), strata=strata).growth


def _loosest(claim: StrataClaim) -> int:
    """The stratum of the largest finite epsilon."""
    finite = [place for place, epsilon in enumerate(claim.epsilons) if math.isfinite(epsilon)]
    return finite[-1] if finite else 0
