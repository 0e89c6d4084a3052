"""Everything that an analyst can do with interactions of different kinds that are open at once in one scope.

What is charged, admitted and settled is the ledger's own: `settling` and the filters. The laws of the interactions are
exact (`open_interactions`). The best analyst opens, asks, closes and opens again as results come in; he is found by
value iteration over all states.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, Protocol

from dpledger.accounting import filters
from dpledger.accounting.filters import Filter
from dpledger.accounting.planning import ways as planning
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.rules import settling
from dpledger.ledger.rules.scope_state import is_exclusive
from dpledger.relations import Relation
from open_interactions import Talk, Told

ADD = Relation.ADD_REMOVE
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
    return tuple(planning.charge(level, talk.plan, talk.tail_delta).items())


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
