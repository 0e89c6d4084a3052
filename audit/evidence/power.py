"""What an audit would have seen: alternatives that its number of runs refutes with probability 0.9.

The logarithm of an e-value that grows by D a pair has a variance of about 2 D a pair, so with L = log(1/alpha) + R nats
to gain, R the price of learning, n pairs refute with probability 0.9 where n D >= (0.91 + sqrt(0.82 + L))^2. Nothing
here depends on the event that an audit chose, and nothing is a bound: it is what is to be expected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.audit.evidence.edges import Claim, Regions, StrataClaim
from dpledger.audit.evidence.estimates import by_line
from dpledger.audit.evidence.projection import project
from dpledger.audit.outcomes.structure import Floats

__all__ = ["PRICE", "Detectable", "least_event", "least_stretch", "needed"]

PRICE = 4.0  # nats: what learning costs where outputs are numbers
STRETCHES = np.geomspace(0.05, 40.0, 60)  # of log ratios
EVENTS = np.geomspace(1e-7, 0.5, 80)  # probabilities
IMPOSSIBLE = 1e-12  # probability of an event on its other side


@dataclass(frozen=True, slots=True)
class Detectable:
    """Refuted with probability 0.9 at this number of runs: `stretched`, a mechanism with this true epsilon (at the
    delta of the point) whose outputs differ in the way that was estimated; `law`, one of the declared law with less
    noise; `event`, any fault that is an event of this probability on one side, if a score sees it. None: none would be."""

    law: float | None
    stretched: float | None
    event: float | None


def needed(alpha: float, price: float = PRICE) -> float:
    """Nats that a number of pairs must be expected to gain, to refute at `alpha` with probability 0.9."""
    return (0.91 + math.sqrt(0.82 + price - math.log(alpha))) ** 2


def least_stretch(
    claim: Claim, p: Floats, q: Floats, strata: np.ndarray | None, nats: float
) -> tuple[Floats, Floats] | None:
    """p and q with their log ratios stretched by the least factor at which a pair gains `nats`; None if none."""
    ps, qs = by_line(STRETCHES[:, None] * np.log(p / q), np.tile(p + q, (STRETCHES.size, 1)))
    tiled = None if strata is None else np.tile(strata, (STRETCHES.size, 1))
    grown = project(_repeated(claim, STRETCHES.size), ps, qs, runs=10_000, strata=tiled).growth
    enough = np.flatnonzero(grown >= nats)
    return (ps[enough[0]], qs[enough[0]]) if enough.size else None


def least_event(claim: Claim, nats: float) -> float | None:
    """The least probability at which an event on one side only gains `nats` a pair; None if none does."""
    p = np.stack([EVENTS, 1 - EVENTS], 1)
    q = np.tile([IMPOSSIBLE, 1 - IMPOSSIBLE], (EVENTS.size, 1))
    strata = np.full(p.shape, _loosest(claim)) if isinstance(claim, StrataClaim) else None
    grown = project(_repeated(claim, EVENTS.size), p, q, runs=10_000, strata=strata).growth
    enough = np.flatnonzero(grown >= nats)
    return float(EVENTS[enough[0]]) if enough.size else None


def _loosest(claim: StrataClaim) -> int:
    """The stratum of the largest finite epsilon."""
    finite = [place for place, epsilon in enumerate(claim.epsilons) if math.isfinite(epsilon)]
    return finite[-1] if finite else 0


def _repeated(claim: Claim, count: int) -> Regions:
    return Regions.of([claim])[np.zeros(count, dtype=np.int64)]
