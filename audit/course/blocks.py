"""The course of an audit: block after block of runs, with bets fixed before each, until it is sure or out of runs.

Nothing of a run is kept but counts and a window of outcomes, so memory does not grow with the runs.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np

from dpledger import decimals
from dpledger.audit.evidence.births import WINDOW
from dpledger.audit.evidence.edges import Claim, StrataClaim
from dpledger.audit.evidence.reading import NextBlock, Reading
from dpledger.audit.evidence.wealth import BudgetShare, Engine
from dpledger.audit.evidence.witness import Witness, witness_of
from dpledger.audit.features.bank import bank, count_of_places
from dpledger.audit.features.blind import STILL, are_still, blindness
from dpledger.audit.features.boosted import learned
from dpledger.audit.features.inputs import Inputs
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes import UNREAD, Floats, Outcomes, joined
from dpledger.audit.sampling.dependence import SHARE, dependence
from dpledger.audit.strata import Stated, Stratum, strata_of
from dpledger.audit.tested.claims import AuditTarget
from dpledger.ledger.entries.members import Power

__all__ = ["Course", "Evidence", "Limits", "Read", "RunSource", "Seen", "width_of"]

POWER = Decimal("0.9")
SEEN = 256  # runs of a side whose order is tested before a claim is said to be refuted, if there may be as many
ORDERED = 65_536  # runs of a side whose order is tested
MOST_KEPT = 2**24  # numbers of either of them: 128 MiB
FLOATS = Fraction(1, 20)  # of the error budget, for what only the bits of floats give away
BITS_READ = 100_000  # pairs of runs whose bits are read
BETS = 1 - SHARE  # of the error budget; the rest is for runs that depend on each other
FEW_NUMBERS = 4  # of an output that needs no learned score
PATIENCE = 4_096  # pairs after which one is learned of fewer numbers, too


class RunSource(Protocol):
    """Where runs come from: the outcomes of `pairs` units of runs from unit `first` on, or of the first of them, as
    `read` sees them."""

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """Consecutive runs of one side: what each engine reads of them, the first of them in order, and why not all of
    some was read."""

    readings: tuple[Reading, ...]
    ordered: tuple[Outcomes, ...]
    unread: frozenset[str] = frozenset()

    def __add__(self, other: Seen) -> Seen:
        readings = tuple(one + more for one, more in zip(self.readings, other.readings, strict=True))
        return Seen(readings, self.ordered + other.ordered, self.unread | other.unread)


@dataclass(frozen=True, slots=True)
class Read:
    """What is read of consecutive runs of one side (a class, so that it travels to other processes): a plan of each
    engine, and whether their order is kept."""

    plans: tuple[NextBlock, ...]
    is_ordered: bool

    def __call__(self, outcomes: Outcomes) -> Seen:
        with np.errstate(all="ignore"):  # what numpy is told to raise is for the caller's own code
            return self._seen(outcomes)

    def _seen(self, outcomes: Outcomes) -> Seen:
        ordered = (outcomes,) if self.is_ordered else ()
        return Seen(tuple(plan.read(outcomes) for plan in self.plans), ordered, outcomes.unread)


@dataclass(frozen=True, slots=True)
class _Bank:
    """The scores of outcomes that an engine bets on: of real numbers, of the bits of floats, or of both."""

    data: Inputs
    reads: Literal["numbers", "bits", "both"]

    def __call__(self, left: Outcomes, right: Outcomes) -> tuple[Score, ...]:
        found = bank(left, right, self.data, bits=self.reads != "numbers")
        return tuple(score for score in found if score.of_bits) if self.reads == "bits" else found


def _learned(left: Outcomes, right: Outcomes) -> Score | None:
    """A learned score, where there are several numbers to learn from, or there were many runs to find another one."""
    numbers = count_of_places(left, right)
    kinds = len(left.labels) + len(right.labels)
    if numbers > FEW_NUMBERS or (numbers + kinds > 1 and len(left) >= PATIENCE // 2):
        return learned(left, right)
    return None


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
    the wealth of the bets, which begins at what they may use of the error budget; `path`: runs, that wealth, and the
    largest so far, after each block; `budget`: where alpha went. `blind`: why nothing could be seen, or nothing that
    was seen counts. `power`: what so many runs would have refuted with probability 0.9, whatever event was chosen;
    `rare_event`: any fault that is an event of this probability on one side only would have been refuted as often, if a
    score sees it. `float_leak`: what the last bits of floats give away, where a float is taken for a number.
    `in_strata`: how many runs left and right fell into each stratum of an ex-post claim. `mu_lower`: of the steps of a
    training, the largest mu up to which no curve of a Gaussian step with that mu is kept, at the same confidence; None
    where that was not tested, or none fell."""

    alpha: Fraction
    trials: tuple[int, int]
    fell_after: int | None
    epsilon_lower: Decimal
    log_wealth: float
    path: tuple[tuple[int, float, float], ...]
    budget: tuple[BudgetShare, ...]
    witness: Witness | None
    power: Power | None
    rare_event: float | None
    blind: str | None
    float_leak: Witness | None
    strata: tuple[Stratum, ...] = ()
    in_strata: tuple[tuple[int, int], ...] = ()
    mu_lower: Decimal | None = None

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
        aim: AuditTarget | Stated,
        alpha: Fraction,
        *,
        data: tuple[object, object] | None = None,
        losses: tuple[Floats, ...] = (),
        paired: bool = False,
        sizes: tuple[int, int] = (1, 1),
        bits: bool = False,
    ) -> None:
        self.alpha, self.sizes, self._paired = alpha, sizes, paired
        self._stated = aim if isinstance(aim, Stated) else None
        self._claimed = aim.point.epsilon if isinstance(aim, AuditTarget) else decimals.ZERO
        self.strata = strata_of(losses) if isinstance(aim, Stated) else ()
        point = (float(aim.point.epsilon), float(aim.point.delta)) if isinstance(aim, AuditTarget) else None
        claim = _claim(aim, self.strata)
        shared: dict[str, Any] = {"paired": paired, "sizes": sizes}
        bets = BETS if bits else BETS - FLOATS
        self._begins_at = math.log(bets)
        inputs = Inputs() if data is None else Inputs.of(*data)
        propose = _Bank(inputs, "both" if bits else "numbers")
        self.engine = Engine(claim, alpha * bets, propose, point=point, learn=_learned, **shared)
        self._of_floats = None if bits else Engine(claim, alpha * FLOATS, _Bank(inputs, "bits"), **shared)
        self._room = ORDERED
        self._ordered: tuple[list[Outcomes], list[Outcomes]] = ([], [])
        self._path: list[tuple[int, float, float]] = []
        self._unread: set[str] = set()

    @property
    def unread(self) -> tuple[str, ...]:
        """What was not read of outputs, in words."""
        return tuple(words for why, words in UNREAD.items() if why in self._unread)

    @property
    def still(self) -> str | None:
        """That nothing varied within either side, although the claim fell, in words."""
        if self.engine.refuted is None:
            return None
        return STILL if are_still(*(joined(side) for side in self._ordered)) else None

    @property
    def pairs(self) -> int:
        """Units of runs so far."""
        return self.engine.pairs

    def run(self, source: RunSource, limits: Limits) -> None:
        """Go on until a limit is reached."""
        started, begun = time.monotonic(), self.pairs
        while (pairs := self._next(limits, time.monotonic() - started, self.pairs - begun)) > 0:
            engines = self._engines()
            with np.errstate(all="ignore"):
                read = Read(tuple(one.plan() for one in engines), self.pairs < self._room)
            left, right = source(self.pairs, pairs, read)
            with np.errstate(all="ignore"):
                self._settle(engines, left, right)
        if self.engine.refuted is not None:
            self._run_for_order(source, limits)

    def _run_for_order(self, source: RunSource, limits: Limits) -> None:
        """Where the claim fell after a few runs, draw more, on which nothing is bet: a mechanism that repeats its
        answers has shown one of them by then, and it takes more to see that."""
        known = sum(len(piece) for piece in self._ordered[0]) // self.sizes[0]
        more = min(SEEN, limits.trials, self._room) - known
        if more > 0:
            for kept, seen in zip(self._ordered, source(known, more, Read((), True)), strict=True):
                kept.extend(seen.ordered)

    def order(self, left: Outcomes, right: Outcomes) -> None:
        """Runs whose order is tested, of which the bets may have taken a few alone: those that somebody collected."""
        for kept, side in zip(self._ordered, (left, right), strict=True):
            kept[:] = [side.where(slice(0, self._room))]

    def _settle(self, engines: tuple[Engine, ...], left: Seen, right: Seen) -> None:
        """Add a block."""
        for kept, seen in zip(self._ordered, (left, right), strict=True):
            kept.extend(seen.ordered)
            self._unread |= seen.unread
        if not self.pairs:
            self._fit(width_of(*left.ordered, *right.ordered))
        for engine, ours, theirs in zip(engines, left.readings, right.readings, strict=True):
            engine.settle(ours, theirs)
        now, largest = self.engine.log_wealth, self.engine.best_log_wealth
        self._path.append((self.pairs, self._begins_at + now, self._begins_at + largest))

    def _fit(self, width: int) -> None:
        """Keep fewer outcomes where they are wide."""
        self._room = min(ORDERED, MOST_KEPT // width)
        for engine in self._engines():
            engine.births.window = min(WINDOW, max(64, MOST_KEPT // width))

    def _engines(self) -> tuple[Engine, ...]:
        """Those that the next block is read for."""
        bits = self._of_floats
        return (self.engine,) if bits is None or bits.refuted or bits.pairs >= BITS_READ else (self.engine, bits)

    def _next(self, limits: Limits, seconds: float, pairs: int) -> int:
        """Units of runs of the next block, 0 where there is none."""
        if limits.stop_at_violation and self.engine.refuted is not None:
            return 0
        wanted = min(self.engine.next_pairs, limits.trials - self.pairs)
        if limits.seconds is None or not pairs:
            return wanted
        affordable = (limits.seconds - seconds) / (seconds / pairs) if seconds else math.inf
        return min(wanted, int(min(max(affordable, 0), wanted)))

    def evidence(self, starts: tuple[list[int], list[int]] = ([], [])) -> Evidence:
        """What the runs so far say. `starts`: of each side the runs with which a worker began."""
        with np.errstate(all="ignore"):
            return self._evidence(starts)

    def _blind(self, starts: tuple[list[int], list[int]]) -> str | None:
        """Why what was found does not count; or, where nothing was, why nothing could have been."""
        left, right = (joined(side) for side in self._ordered)
        dependent = dependence(left, right, self.alpha * SHARE, starts=starts, paired=self._paired)
        return dependent or (blindness(left, right) if self.engine.refuted is None else None)

    def _evidence(self, starts: tuple[list[int], list[int]]) -> Evidence:
        engine = self.engine
        found = engine.power()
        lower = engine.epsilon_lower
        return Evidence(
            alpha=self.alpha,
            trials=(self.pairs * self.sizes[0], self.pairs * self.sizes[1]),
            fell_after=engine.refuted,
            epsilon_lower=decimals.ZERO if lower is None else decimals.round_down(lower),
            log_wealth=self._begins_at + engine.best_log_wealth,
            path=tuple(self._path),
            budget=self._budget(),
            witness=witness_of(engine, self._stated, self.strata),
            power=self._power(found.stretched),
            rare_event=found.event,
            blind=self._blind(starts),
            float_leak=self._float_leak(),
            strata=self.strata,
            in_strata=self._in_strata(),
        )

    def _in_strata(self) -> tuple[tuple[int, int], ...]:
        track = self.engine.longest
        if track is None or not self.strata:
            return ()
        left, right = track.counts.reshape(2, track.strata, -1).sum(2).tolist()
        return tuple(zip(left, right, strict=True))[: len(self.strata)]

    def _power(self, seen: float | None) -> Power | None:
        """What is seen of a curve at its delta is no less than what the claim allows there."""
        if seen is None:
            return None
        return Power(epsilon=max(decimals.round_up(seen), self._claimed), probability=POWER)

    def _budget(self) -> tuple[BudgetShare, ...]:
        """Where all of alpha went."""
        told = [*self.engine.budget, BudgetShare("runs that depend on each other", self.alpha * SHARE)]
        if self._of_floats is not None:
            told.append(BudgetShare("the bits of floats", self.alpha * FLOATS))
        return tuple(told)

    def _float_leak(self) -> Witness | None:
        """What the bits of floats give away, if they refute the claim."""
        if self._of_floats is None or self._of_floats.refuted is None:
            return None
        return witness_of(self._of_floats, self._stated, self.strata)


def width_of(*seen: Outcomes) -> int:
    """How many numbers an output holds, at most: also those in texts and beside values, but no lengths."""
    cells = [sum(one.cells(path) for path in one.numbers if path[:4] != "len(") for one in seen]
    widths = [-(-count // max(1, len(one))) for count, one in zip(cells, seen, strict=True)]
    return max(1, *widths)


def _claim(aim: AuditTarget | Stated, strata: tuple[Stratum, ...]) -> Claim:
    """What is tested, as the engine reads it: rounded so that more pairs of laws keep it."""
    if isinstance(aim, Stated):
        tops = tuple(decimals.float_up(stratum.epsilon) for stratum in strata)
        return StrataClaim((*tops, math.inf), decimals.float_up(aim.delta))
    return aim.edges
