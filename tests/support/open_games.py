"""Everything that an analyst can do with interactions of different kinds that are open at once in one scope.

What is charged, admitted and settled is the ledger's own: `settling` and the filters. The laws of the interactions are
exact and share no code with it: each answer has its mass under D and its privacy loss. The best analyst opens, asks,
closes and opens again as results come in; he is found by value iteration over all states.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple, Protocol

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from dpledger.accounting import filters
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
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing.outcomes import steps
from dpledger.decimals import ZERO, read
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.rules import settling
from dpledger.ledger.rules.standing import Form, is_exclusive
from dpledger.relations import Relation
from price_oracles import failing, lopsided, response
from sparse_vector_oracle import Law, Noise

ADD = Relation.ADD_REMOVE
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


# ---- the scope ------------------------------------------------------------------------------------------------------


Kept = tuple[tuple[str, filters.Sum], ...]
Amounts = tuple[tuple[str, Decimal], ...]


class Open(NamedTuple):
    """An open interaction: which, what it told, what it holds of the sums."""

    which: int
    told: Told
    charged: Amounts


class State(NamedTuple):
    """The sums of the filter, open charges at their caps, and what is open."""

    sums: Kept
    open: tuple[Open, ...] = ()


Turn = tuple[tuple[float, float, State], ...]
"""What may come of one thing that the analyst does: mass, loss, and the state after it."""


@dataclass(frozen=True)
class Level:
    """A scope as pricing reads it."""

    filter: Filter
    relation: Relation = ADD


@dataclass(frozen=True)
class Scope:
    """The ledger's own rules as something to play against, with at most so many interactions open at once."""

    filter: Filter
    talks: tuple[Talk, ...]
    most: int = 2

    @property
    def start(self) -> State:
        return State(tuple(filters.opening(self.filter).items()))

    def turns(self, state: State) -> Iterator[Turn]:
        """Everything that the analyst can do next."""
        for which in range(len(self.talks)):
            opened = self.opened(state, which) if len(state.open) < self.most else None
            if opened is not None:
                yield ((1.0, 0.0, opened),)
        for place, one in enumerate(state.open):
            talk = self.talks[one.which]
            if talk.form == "release":
                yield from self.released(state, place)
                continue
            for answers in talk.queries(one.told):
                yield tuple((mass, loss, self.asked(state, place, told)) for mass, loss, told in answers if mass)
            after = self.closed(state, place) if talk.answers(one.told) else None
            if after is not None:  # what is closed before its first answer leaves everything as it was
                yield ((1.0, 0.0, after),)

    def released(self, state: State, place: int) -> Iterator[Turn]:
        """A release that is reserved answers once and is over, or is given back: here while something exclusive is
        open, as otherwise it need not have been reserved."""
        one = state.open[place]
        for answers in self.talks[one.which].queries(one.told) if self.may_start(state, place) else ():
            ends = (self._ended(state, place, one._replace(told=told)) for _, _, told in answers)
            yield tuple((mass, loss, end) for (mass, loss, _), end in zip(answers, ends, strict=True))
        rest = (*state.open[:place], *state.open[place + 1 :])
        if self.is_exclusive(rest):
            yield ((1.0, 0.0, _sorted(self.without(state.sums, one.charged), rest)),)

    def opened(self, state: State, which: int) -> State | None:
        charged = self.cap(which)
        if not self.may_overlap(state, which) or not self.admits(state, charged):
            return None
        return self._with(state.sums, charged, (*state.open, Open(which, self.talks[which].start, charged)))

    def asked(self, state: State, place: int, told: Told) -> State:
        one = state.open[place]._replace(told=told)
        return _sorted(state.sums, (*state.open[:place], one, *state.open[place + 1 :]))

    def closed(self, state: State, place: int) -> State | None:
        return self._ended(state, place, state.open[place])

    def _ended(self, state: State, place: int, one: Open) -> State:
        rest = (*state.open[:place], *state.open[place + 1 :])
        return self._with(self.without(state.sums, one.charged), self.settled(one), rest)

    # -- the rules --

    def cap(self, which: int) -> Amounts:
        return _cap(Level(self.filter), self.talks[which])

    def admits(self, state: State, charged: Amounts) -> bool:
        return _admits(self.filter, self.with_(state.sums, charged))

    def may_overlap(self, state: State, which: int) -> bool:
        """As the gate: an exclusive interaction opens beside no other, and nothing is reserved beside it."""
        asked = self.talks[which]
        if self.is_exclusive(state.open):
            return False
        others = any(self.talks[one.which].form != "release" for one in state.open)
        return not (others and is_exclusive(asked.form, asked.plan))

    def may_start(self, state: State, place: int) -> bool:
        """As the gate: what was reserved waits until nothing exclusive is open."""
        return not self.is_exclusive((*state.open[:place], *state.open[place + 1 :]))

    def is_exclusive(self, among: tuple[Open, ...]) -> bool:
        talks = (self.talks[one.which] for one in among)
        return any(is_exclusive(talk.form, talk.plan) for talk in talks)

    def settled(self, one: Open) -> Amounts:
        return _settled(Level(self.filter), self.talks[one.which], one.told, one.charged)

    # -- sums --

    def with_(self, sums: Kept, charged: Amounts) -> Kept:
        return _with(self.filter, sums, charged)

    def without(self, sums: Kept, charged: Amounts) -> Kept:
        return _without(self.filter, sums, charged)

    def _with(self, sums: Kept, charged: Amounts, still_open: tuple[Open, ...]) -> State:
        return _sorted(self.with_(sums, charged), still_open)


@functools.cache
def _admits(filter_: Filter, sums: Kept) -> bool:
    return filters.admits(filter_, dict(sums))


@functools.cache
def _with(filter_: Filter, sums: Kept, charged: Amounts) -> Kept:
    return tuple(filters.with_charge(filter_, dict(sums), dict(charged)).items())


@functools.cache
def _without(filter_: Filter, sums: Kept, charged: Amounts) -> Kept:
    return tuple(filters.without_charge(filter_, dict(sums), dict(charged)).items())


def _sorted(sums: Kept, still_open: tuple[Open, ...]) -> State:
    """Which of two open ones came first makes no difference."""
    return State(sums, still_open if len(still_open) < 2 else tuple(sorted(still_open, key=repr)))


@functools.cache
def _cap(level: Level, talk: Talk) -> Amounts:
    return tuple(settling.price(level, talk.plan, talk.tail_delta).items())


@functools.cache
def _settled(level: Level, talk: Talk, told: Told, charged: Amounts) -> Amounts:
    counted = talk.answers(told)
    granted, handed_out = (counted, 0) if talk.form == "training" else (0, counted)
    ran = settling.recorded(talk.ran(told), talk.form, granted)
    settling.require_evidence(ran, talk.form, handed_out)
    reserved = (LevelCharge("s", dict(charged)),)
    _, (left,) = settling.settled(reserved, ran, False, {"s": level}, talk.tail_delta)
    return tuple(left.amounts.items())


# ---- value iteration ------------------------------------------------------------------------------------------------


class Playable(Protocol):
    """A scope or a twin of one."""

    @property
    def start(self) -> State: ...
    def turns(self, state: State) -> Iterator[Turn]: ...


@dataclass(frozen=True, repr=False)
class Game:
    """All states that can be reached, the turns from each by number."""

    states: tuple[State, ...]
    turns: tuple[tuple[tuple[tuple[float, float, int], ...], ...], ...]

    def delta(self, epsilon: float | Callable[[State], float]) -> float:
        """The delta that the best analyst reaches at `epsilon`, or at the reading `epsilon(state)` where he stops."""
        reads = [epsilon(state) if callable(epsilon) else epsilon for state in self.states]
        known: dict[tuple[int, float], float] = {}

        def value(at: int, loss: float) -> float:
            key = (at, round(loss, 9))
            found = known.get(key)
            if found is None:
                found = max(0.0, -math.expm1(min(reads[at] - loss, 1.0)))
                for turn in self.turns[at]:
                    found = max(found, sum(mass * value(after, loss + gain) for mass, gain, after in turn))
                known[key] = found
            return found

        return value(0, 0.0)

    def moment(self, order: float) -> float:
        """The Renyi divergence of this order that the best analyst reaches."""
        more = order - 1
        known: dict[int, float] = {}

        def value(at: int) -> float:
            if at not in known:
                best = 1.0
                for turn in self.turns[at]:
                    best = max(best, sum(mass * math.exp(more * gain) * value(after) for mass, gain, after in turn))
                known[at] = best
            return known[at]

        return math.log(value(0)) / more

    def most_open(self) -> int:
        """The most interactions of different kinds that are open at once."""
        return max(len({one.which for one in state.open}) for state in self.states)


def game(scope: Playable) -> Game:
    """Every state of the scope, and what leads from one to another."""
    number, states, turns = {scope.start: 0}, [scope.start], []
    for state in states:  # which grows as it is read
        found = []
        for turn in scope.turns(state):
            for _, _, after in turn:
                if after not in number:
                    number[after] = len(states)
                    states.append(after)
            found.append(tuple((mass, gain, number[after]) for mass, gain, after in turn))
        turns.append(tuple(found))
    return Game(tuple(states), tuple(turns))
