"""The course of an audit: block after block of runs, with bets fixed before each, until it is sure or out of runs.

Nothing of a run is kept but counts and a window of outcomes, so memory does not grow with the runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Protocol

from dpledger import decimals
from dpledger.audit.claims import Target
from dpledger.audit.evidence.edges import Claim, Edges, StrataClaim
from dpledger.audit.evidence.reading import Plan, Reading
from dpledger.audit.evidence.wealth import Engine, Share
from dpledger.audit.evidence.witness import Witness, witness_of
from dpledger.audit.features.bank import bank
from dpledger.audit.features.blind import blindness
from dpledger.audit.features.boosted import learned
from dpledger.audit.outcomes import Floats, Outcomes, joined
from dpledger.audit.sampling.dependence import SHARE, dependence
from dpledger.audit.strata import Stated, Stratum, strata_of
from dpledger.ledger.entries.members import Power

__all__ = ["Course", "Evidence", "Limits", "Source"]

POWER = Decimal("0.9")
ORDERED = 65_536  # runs of a side whose order is tested
WINDOW = 4_096  # runs of a side that are kept whole
MOST_KEPT = 2**24  # numbers of either of them: 128 MiB
BETS = 1 - SHARE  # of the error budget; the rest is for runs that depend on each other


class Source(Protocol):
    """Where runs come from: the outcomes of `pairs` units of runs from unit `first` on, as `read` sees them."""

    def __call__(self, first: int, pairs: int, read: Callable[[Outcomes], Seen]) -> tuple[Seen, Seen]: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """Consecutive runs of one side: what the engine reads of them, and the first of them in order."""

    reading: Reading
    ordered: tuple[Outcomes, ...]

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.reading + other.reading, self.ordered + other.ordered)


@dataclass(frozen=True, slots=True)
class _Read:
    """What is read of a chunk (a class, so that it travels to other processes)."""

    plan: Plan
    is_ordered: bool

    def __call__(self, outcomes: Outcomes) -> Seen:
        return Seen(self.plan.read(outcomes), (outcomes,) if self.is_ordered else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When an audit ends: after `trials` units of runs, `seconds` (None: no matter), or as soon as the claim falls."""

    trials: int
    seconds: float | None = None
    stop_at_violation: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the runs say. `trials`: of each side. `fell_after`: the pair of runs at which the claim fell, None where it
    did not. `epsilon_lower`: at the delta of the target; 0 of an ex-post claim. `log_wealth`: the largest logarithm of
    the wealth; `budget`: where alpha went. `blind`: why nothing could be seen, or nothing that was seen counts."""

    alpha: Fraction
    trials: tuple[int, int]
    fell_after: int | None
    epsilon_lower: Decimal
    log_wealth: float
    path: tuple[tuple[int, float], ...]
    budget: tuple[Share, ...]
    witness: Witness | None
    power: Power | None
    blind: str | None
    strata: tuple[Stratum, ...] = ()

    @property
    def is_refuted(self) -> bool:
        """Whether the claim fell, on runs that count."""
        return self.fell_after is not None and self.blind is None

    @property
    def e_value(self) -> float:
        """The largest wealth, at least 1."""
        return math.exp(min(max(self.log_wealth, 0.0), 700.0))

    @property
    def p_value(self) -> float:
        """Claim: if the claim is kept, this is at most x with probability at most x. Source: Ville's inequality."""
        return 1 / self.e_value


class Course:
    """One audit, while it runs. `aim`: what is tested; `data`: both datasets, for the question whether an output shows
    them; `losses`: claimed losses that were seen on runs which count for nothing, of an ex-post claim."""

    def __init__(
        self,
        aim: Target | Stated,
        alpha: Fraction,
        *,
        data: tuple[object, object] | None = None,
        losses: tuple[Floats, ...] = (),
        paired: bool = False,
        sizes: tuple[int, int] = (1, 1),
        width: int = 1,
    ) -> None:
        self.alpha, self.sizes = alpha, sizes
        self._stated = aim if isinstance(aim, Stated) else None
        self.strata = strata_of(losses) if isinstance(aim, Stated) else ()
        point = (float(aim.point.epsilon), float(aim.point.delta)) if isinstance(aim, Target) else None
        self.engine = Engine(
            _claim(aim, self.strata),
            alpha * BETS,
            partial(bank, data=data),
            point=point,
            paired=paired,
            sizes=sizes,
            learn=learned,
            window=min(WINDOW, max(64, MOST_KEPT // width)),
        )
        self._room = min(ORDERED, MOST_KEPT // width)
        self._ordered: tuple[list[Outcomes], list[Outcomes]] = ([], [])
        self._path: list[tuple[int, float]] = []

    @property
    def pairs(self) -> int:
        """Units of runs so far."""
        return self.engine.pairs

    def run(self, source: Source, limits: Limits) -> None:
        """Go on until a limit is reached."""
        started, begun = time.monotonic(), self.pairs
        while (pairs := self._next(limits, time.monotonic() - started, self.pairs - begun)) > 0:
            is_ordered = self.pairs < self._room
            left, right = source(self.pairs, pairs, _Read(self.engine.plan(), is_ordered))
            for kept, seen in zip(self._ordered, (left, right), strict=True):
                kept.extend(seen.ordered)
            self.engine.settle(left.reading, right.reading)
            self._path.append((self.pairs, self.engine.log_wealth))
            if limits.stop_at_violation and self.engine.refuted is not None:
                return

    def _next(self, limits: Limits, seconds: float, pairs: int) -> int:
        """Units of runs of the next block, 0 where there is none."""
        wanted = min(self.engine.next_pairs, limits.trials - self.pairs)
        if limits.seconds is None or not pairs:
            return wanted
        affordable = (limits.seconds - seconds) / (seconds / pairs) if seconds else math.inf
        return min(wanted, int(min(max(affordable, 0), wanted)))

    def evidence(self, starts: tuple[list[int], list[int]] = ([], [])) -> Evidence:
        """What the runs so far say. `starts`: of each side the runs with which a worker began."""
        engine = self.engine
        left, right = (joined(side) for side in self._ordered)
        blind = dependence(left, right, self.alpha * SHARE, starts=starts) or blindness(left, right)
        needed = engine.power(POWER) if hasattr(engine, 'power') else None
        lower = engine.epsilon_lower
        return Evidence(
            alpha=self.alpha,
            trials=(self.pairs * self.sizes[0], self.pairs * self.sizes[1]),
            fell_after=engine.refuted,
            epsilon_lower=decimals.ZERO if lower is None else decimals.round_down(lower),
            log_wealth=engine.best_log_wealth,
            path=tuple(self._path),
            budget=(*engine.budget, Share("runs that depend on each other", self.alpha * SHARE)),
            witness=witness_of(engine, self._stated, self.strata),
            power=None if needed is None else Power(epsilon=decimals.round_up(needed), probability=POWER),
            blind=blind,
            strata=self.strata,
        )


def _claim(aim: Target | Stated, strata: tuple[Stratum, ...]) -> Claim:
    """What is tested, as the engine reads it: rounded so that more pairs of laws keep it."""
    if isinstance(aim, Stated):
        tops = tuple(decimals.float_up(stratum.epsilon) for stratum in strata)
        return StrataClaim((*tops, math.inf), decimals.float_up(aim.delta))
    points = (aim.point, *aim.knots)
    return Edges.of_points([(decimals.float_up(point.epsilon), decimals.float_up(point.delta)) for point in points])
