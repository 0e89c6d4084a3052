"""Interactions whose law is known exactly: each answer has its mass under D and what it adds to the privacy loss.

Their plans are the product's trees; the laws share no code with it. `open_games` plays them against a scope.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple, Protocol

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from dpledger.accounting.composition import (
    Chain,
    Composition,
    DiscreteLaplaceLaw,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    PmfPair,
    RandomizedResponseLaw,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing.outcomes import steps
from dpledger.decimals import ZERO, read
from dpledger.ledger.rules.scope_state import Form
from price_oracles import failing, lopsided, response
from sparse_vector_oracle import Law, Noise

UNITS = Decimal("0.125")
UNIT = float(UNITS)
REVEALED = math.inf
Told = Hashable
"""What an interaction published so far, as far as the future and the charge depend on it."""


class Answer(NamedTuple):
    """One answer: its mass under D, what it adds to the privacy loss, and what was told with it."""

    mass: float
    loss: float
    told: Told


class Talk(Protocol):
    """An interaction whose law is known exactly. `start`: before the first answer."""

    @property
    def plan(self) -> Composition: ...
    @property
    def form(self) -> Form: ...
    @property
    def tail_delta(self) -> Decimal: ...
    @property
    def start(self) -> Told: ...
    def __hash__(self) -> int: ...

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        """The answers to each query that may be asked now."""
        ...

    def ran(self, told: Told) -> Composition:
        """The parts with what is known of the run, were it closed now."""
        ...

    def answers(self, told: Told) -> int:
        """How many answers were handed out, or steps granted."""
        ...


# ---- the interactions -----------------------------------------------------------------------------------------------


Outcomes = tuple[tuple[float, float], ...]
"""Each outcome of one release: its mass under D, and the loss."""


@dataclass(frozen=True)
class Draw:
    """One release: its leaf, and what may come of it."""

    law: Composition
    outcomes: Outcomes


def respond(units: int) -> Draw:
    """A randomised response."""
    return Draw(RandomizedResponseLaw(UNITS * units), _lost(response(units, UNIT)))


def rare_loss(mass: float = 0.03, large: int = 12) -> Draw:
    """Losses of +large units, rarely, and else of +1 and -1: masses for which those under D' sum to 1 too."""
    up, down = math.exp(-UNIT), math.exp(UNIT)
    rest, under = 1 - mass, 1 - mass * math.exp(-large * UNIT)
    often = (rest * down - under) / (down - up)
    return pmf(((mass, large * UNIT), (often, UNIT), (rest - often, -UNIT)))


def rarely(mass: float, loss: float) -> Draw:
    """This loss with this probability, else a little less than none."""
    return pmf(_rarely(mass, loss))


def jump(up: float, down: float) -> Draw:
    """Losses +up and -down: the smaller `down`, the rarer the other."""
    high, low = math.exp(-up), math.exp(down)
    mass = (low - 1) / (low - high)
    return pmf(((mass, up), (1 - mass, -down)))


def pmf(outcomes: Outcomes) -> Draw:
    """A release that is declared outcome by outcome, to 15 digits."""
    left = [read(round(mass, 15)) for mass, _ in outcomes[:-1]]
    right = [read(round(mass * math.exp(-loss), 15)) for mass, loss in outcomes[:-1]]
    return Draw(PmfPair((*left, 1 - sum(left)), (*right, 1 - sum(right))), outcomes)


def _lost(outcomes: tuple[tuple[float, int], ...]) -> Outcomes:
    return tuple((mass, REVEALED if units > 10**6 else units * UNIT) for mass, units in outcomes)


def _answers(outcomes: tuple[tuple[float, int], ...], told: Iterable[Told]) -> tuple[Answer, ...]:
    """Answers whose losses are in whole units, and what each of them tells."""
    return tuple(Answer(mass, loss, after) for (mass, loss), after in zip(_lost(outcomes), told, strict=False))


@dataclass(frozen=True)
class Plan:
    """Releases one after another, stopped when it suits: told is how many steps ran. With a `tail_delta` the whole is
    priced from its certified profile."""

    draws: tuple[Draw, ...]
    tail_delta: Decimal = ZERO
    form: Form = "training"
    start: int = 0

    @property
    def plan(self) -> Composition:
        laws = tuple(draw.law for draw in self.draws)
        return Repeated(laws[0], times=len(laws)) if len(set(laws)) == 1 else Sequence(laws)

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        assert isinstance(told, int)
        here = self.draws[told : told + 1]
        return tuple(tuple(Answer(mass, loss, told + 1) for mass, loss in draw.outcomes) for draw in here)

    def ran(self, told: Told) -> Composition:
        counted = steps(self.plan)
        assert counted is not None
        assert isinstance(told, int)
        return counted.recorded(told)

    def answers(self, told: Told) -> int:
        assert isinstance(told, int)
        return told


def responses(*units: int) -> Plan:
    return Plan(tuple(map(respond, units)))


@dataclass(frozen=True)
class Vector:
    """A sparse vector with one charged answer, in steps of the noise that it is really drawn with. A test is on a value
    that is `low` or `high` on D and the other way about on D'. Told: the tests of the open epoch, and whether it
    halted."""

    law: SparseVectorLaw
    values: tuple[tuple[float, float], ...] = ((-0.5, 0.5), (0.5, -0.5))
    most: int = 2
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: tuple[tuple[int, ...], bool] = ((), False)

    @property
    def plan(self) -> Composition:
        return self.law

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        asked, halted = _epoch(told)
        if halted or len(asked) == self.most:
            return ()
        return tuple(self._answers(asked, place) for place in range(len(self.values)))

    def _answers(self, asked: tuple[int, ...], place: int) -> tuple[Answer, ...]:
        before = self._masses(asked, "1" * len(asked))
        found = []
        for answer in "10":
            after = self._masses((*asked, place), "1" * len(asked) + answer)
            gain = math.log(after[0] / before[0]) - math.log(after[1] / before[1])
            found.append(Answer(after[0] / before[0], gain, ((*asked, place), answer == "0")))
        return tuple(found)

    def _masses(self, asked: tuple[int, ...], transcript: str) -> tuple[float, float]:
        """Of a transcript of these tests, under D and under D'."""
        return _masses(self.law, tuple(self.values[place] for place in asked), transcript)

    def ran(self, told: Told) -> Composition:
        asked, halted = _epoch(told)
        closed, still_open = ((len(asked),), 0) if halted else ((), len(asked))
        return replace_outcome(self.law, SparseVectorOutcome(closed, still_open, halted))

    def answers(self, told: Told) -> int:
        return len(_epoch(told)[0])


def _epoch(told: Told) -> tuple[tuple[int, ...], bool]:
    assert isinstance(told, tuple)
    asked, halted = told
    return asked, halted


@functools.cache
def _masses(law: SparseVectorLaw, values: tuple[tuple[float, float], ...], transcript: str) -> tuple[float, float]:
    noise = Noise(float(law.threshold_scale), discrete=False), Noise(float(law.query_scale), discrete=False)
    exact = Law(*noise, threshold=0.0, cutoff=1)
    here, there = ([one[side] for one in values] for side in (0, 1))
    return exact.probability(here, transcript), exact.probability(there, transcript)


def replace_outcome(law: SparseVectorLaw, outcome: SparseVectorOutcome) -> SparseVectorLaw:
    stated = {name: getattr(law, name) for name in law.__dataclass_fields__ if name != "outcome"}
    return SparseVectorLaw(**stated, outcome=outcome)


@dataclass(frozen=True)
class Attested:
    """A declared ex-post bound that its mechanism attains: a first answer of `first` units either way, and then one
    that pushes on to `cap`, or falls back by `back`. Told: how many answers, and the loss so far."""

    first: int
    cap: int
    back: int
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: tuple[int, int] = (0, 0)

    @property
    def plan(self) -> ExPostDP:
        return ExPostDP(UNITS * self.cap, "pure")

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        asked, lost = _counted(told)
        if asked == 2:
            return ()
        if not asked:
            first = (self.first, -self.first)
            return (_answers(response(self.first, UNIT), ((1, lost) for lost in first)),)
        up, down = self.cap - lost, min(self.back, self.cap + lost)
        return (_answers(lopsided(up, down, UNIT), ((2, lost + gain) for gain in (up, -down))),)

    def ran(self, told: Told) -> Composition:
        _, lost = _counted(told)
        return replace(self.plan, outcome=ExPostOutcome(UNITS * abs(lost)))

    def answers(self, told: Told) -> int:
        return _counted(told)[0]


@dataclass(frozen=True)
class Declared:
    """A declared ex-post bound with one answer, whose loss is `up`, or rarely `-down`."""

    up: Decimal
    down: Decimal
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: Decimal | None = None

    @property
    def plan(self) -> ExPostDP:
        return ExPostDP(max(self.up, self.down), "pure")

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        found = jump(float(self.up), float(self.down)).outcomes
        told_ = (self.up, self.down)
        answers = (Answer(mass, loss, lost) for (mass, loss), lost in zip(found, told_, strict=True))
        return (tuple(answers),) if told is None else ()

    def ran(self, told: Told) -> Composition:
        return replace(self.plan, outcome=ExPostOutcome(told) if isinstance(told, Decimal) else None)

    def answers(self, told: Told) -> int:
        return int(told is not None)


def _counted(told: Told) -> tuple[int, int]:
    assert isinstance(told, tuple)
    asked, lost = told
    return asked, lost


@dataclass(frozen=True)
class Failing:
    """The worst interaction of (units, delta): with probability delta its first answer reveals everything."""

    units: int
    delta: Decimal
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: int = 0

    @property
    def plan(self) -> Composition:
        return ApproxDP(UNITS * self.units, self.delta)

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        return () if told else (_answers(failing(self.units, float(self.delta), UNIT), itertools.repeat(1)),)

    def ran(self, told: Told) -> Composition:
        return self.plan

    def answers(self, told: Told) -> int:
        assert isinstance(told, int)
        return told


@dataclass(frozen=True)
class Forked:
    """An interaction that is approximately `rho`-zCDP, with `delta`, whatever is asked of it alone. Its first answer is
    a coin of its own. After one side the analyst may ask for what reveals everything, rarely, or for a large loss, less
    rarely; after the other a larger one, as rarely. What is best left out of each depends on what is asked."""

    rho: Decimal
    delta: Decimal
    less_rare: float
    losses: tuple[float, float]
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: str = ""

    @property
    def plan(self) -> ZCDP:
        return ZCDP(self.rho, self.delta)

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        match told:
            case "":
                return ((Answer(0.5, 0.0, "left"), Answer(0.5, 0.0, "right")),)
            case "left":
                return tuple(self._second(one) for one in self.left)
            case "right":
                return (self._second(self.right),)
            case _:
                return ()

    @property
    def left(self) -> tuple[Outcomes, Outcomes]:
        reveals = 2 * float(self.delta)
        return ((reveals, REVEALED), (1 - reveals, math.log1p(-reveals))), _rarely(self.less_rare, self.losses[0])

    @property
    def right(self) -> Outcomes:
        return _rarely(2 * float(self.delta), self.losses[1])

    @staticmethod
    def _second(outcomes: Outcomes) -> tuple[Answer, ...]:
        return tuple(Answer(mass, loss, "over") for mass, loss in outcomes)

    def ran(self, told: Told) -> Composition:
        return self.plan

    def answers(self, told: Told) -> int:
        return ("", "left", "right", "over").index(str(told))


def _rarely(mass: float, loss: float) -> Outcomes:
    """This loss with this probability, else a little less than none."""
    return ((mass, loss), (1 - mass, math.log((1 - mass) / (1 - mass * math.exp(-loss)))))


@dataclass(frozen=True)
class Refined:
    """A chain of discrete Laplace noise on one count, of 1, 2, 4, ... units: a level loses its epsilon, one way or the
    other. The analyst sees of each level how far it is from the count, up to `far`. Told: the levels, as he saw
    them."""

    units: tuple[int, ...]
    far: int = 2
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: tuple[int, ...] = ()

    @property
    def plan(self) -> Chain:
        return Chain(self._level(len(self.units)))

    def _level(self, number: int) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(scale=1 / (UNITS * self.units[number - 1]), sensitivity=1)

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        assert isinstance(told, tuple)
        if len(told) == len(self.units):
            return ()
        before = self._mass(told)
        found = []
        for seen in range(-self.far, self.far + 2):
            here = (*told, seen)
            mass = self._mass(here) / before
            found.append(Answer(mass, self._loss(here) - self._loss(told), here))
        return (tuple(found),)

    def _loss(self, told: tuple[int, ...]) -> float:
        if not told:
            return 0.0
        lost = self.units[len(told) - 1] * UNIT
        return lost if told[-1] <= 0 else -lost

    def _mass(self, told: tuple[int, ...]) -> float:
        return levels(self.units[: len(told)], self.far)[told] if told else 1.0

    def ran(self, told: Told) -> Composition:
        assert isinstance(told, tuple)
        return replace(self.plan, reached=self._level(len(told)) if told else PureDP(0))

    def answers(self, told: Told) -> int:
        assert isinstance(told, tuple)
        return len(told)


REACH = 160


@functools.cache
def levels(units: tuple[int, ...], far: int) -> dict[tuple[int, ...], float]:
    """The mass of what is seen of the levels of a chain, where the count is 0: the last is drawn, and each one before
    it is the next with noise added, or the same (docs/proofs/filters.md, "Chains")."""
    size = 2 * REACH + 1
    places = np.arange(-REACH, REACH + 1)
    seen = np.clip(places, -far, far + 1)
    kinds = range(-far, far + 2)

    def q(number: int) -> float:
        return math.exp(-units[number] * UNIT)

    def noise(ratio: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        masses: np.ndarray[tuple[int], np.dtype[np.float64]] = ratio ** np.abs(places) * (1 - ratio) / (1 + ratio)
        return masses

    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(kinds, repeat=len(units)):
        masses = noise(q(len(units) - 1)) * (seen == path[-1])
        for number in reversed(range(len(units) - 1)):
            here, finer = q(number), q(number + 1)
            same = finer / here * ((1 - here) / (1 - finer)) ** 2
            spread = np.convolve(masses, noise(here))[REACH : REACH + size]
            masses = (same * masses + (1 - same) * spread) * (seen == path[number])
        found[path] = float(masses.sum())
    return found


@dataclass(frozen=True)
class Sharpened:
    """A chain of Gaussian noise on one count, of these mu, coarse to fine: of each level the analyst sees on which side
    of `cuts` it lies. Told: the sides."""

    mus: tuple[Decimal, ...]
    cuts: tuple[float, ...]
    form: Form = "interaction"
    tail_delta: Decimal = ZERO
    start: tuple[bool, ...] = ()

    @property
    def plan(self) -> Chain:
        return Chain(GaussianLaw(1 / self.mus[-1]))

    def queries(self, told: Told) -> tuple[tuple[Answer, ...], ...]:
        assert isinstance(told, tuple)
        if len(told) == len(self.mus):
            return ()
        return (tuple(self._answer(told, (*told, side)) for side in (False, True)),)

    def _answer(self, before: tuple[bool, ...], after: tuple[bool, ...]) -> Answer:
        here, there = (self._mass(after, at) / self._mass(before, at) for at in (1.0, 0.0))
        return Answer(here, math.log(here / there), after)

    def _mass(self, told: tuple[bool, ...], count: float) -> float:
        scales = tuple(1 / float(mu) for mu in self.mus[: len(told)])
        return sides(scales, self.cuts[: len(told)], told, count)

    def ran(self, told: Told) -> Composition:
        assert isinstance(told, tuple)
        reached = GaussianLaw(1 / self.mus[len(told) - 1]) if told else PureDP(0)
        return replace(self.plan, reached=reached)

    def answers(self, told: Told) -> int:
        assert isinstance(told, tuple)
        return len(told)


@functools.cache
def sides(scales: tuple[float, ...], cuts: tuple[float, ...], told: tuple[bool, ...], count: float) -> float:
    """P(each level above its cut, or not), of at most two levels: the coarse one is the fine one with noise added."""
    if not told:
        return 1.0
    if len(told) == 1:
        return float(norm.sf(cuts[0], count, scales[0]) if told[0] else norm.cdf(cuts[0], count, scales[0]))
    coarse, fine = scales
    more = math.sqrt(coarse**2 - fine**2)
    low, high = (cuts[1], count + 12 * fine) if told[1] else (count - 12 * fine, cuts[1])

    def density(x: float) -> float:
        rest = norm.sf(cuts[0], x, more) if told[0] else norm.cdf(cuts[0], x, more)
        return float(norm.pdf(x, count, fine) * rest)

    return float(quad(density, low, high, epsabs=1e-13, epsrel=1e-12)[0])
