"""The contract of a distance, on every dataset of a small world; and what a stable release shows of each pair of
neighbours, exactly, where the distance keeps it and where it does not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import pytest

from dpledger.accounting.certificates.stable_releases import release_probability
from dpledger.mechanisms.stability.stable_release import StableRelease
from dpledger.relations import Relation, Unit

Votes = tuple[int, int]
Distance = Callable[[Votes], float]
MOST = 14
WORLD = [(a, b) for a in range(MOST + 1) for b in range(MOST + 1)]
INNER = [votes for votes in WORLD if max(votes) <= 7]  # what lies beyond the world is farther than any value they need


def winner(votes: Votes) -> str:
    return "a" if votes[0] >= votes[1] else "b"


def neighbours(votes: Votes) -> Iterator[Votes]:
    """One vote added or removed."""
    for place, change in itertools.product((0, 1), (-1, 1)):
        moved = [*votes]
        moved[place] += change
        if 0 <= moved[place] <= MOST:
            yield (moved[0], moved[1])


def replaced(votes: Votes) -> Iterator[Votes]:
    """One vote exchanged for the other."""
    for change in (-1, 1):
        moved = (votes[0] + change, votes[1] - change)
        if min(moved) >= 0 and max(moved) <= MOST:
            yield moved


def graph_distances(step: Callable[[Votes], Iterator[Votes]]) -> dict[Votes, float]:
    """Steps to the nearest dataset that has a neighbour of another winner, breadth first."""
    found = {votes: 0.0 for votes in WORLD if any(winner(other) != winner(votes) for other in step(votes))}
    queue = list(found)
    for votes in queue:
        for other in step(votes):
            if other not in found:
                found[other] = found[votes] + 1
                queue.append(other)
    return {votes: found.get(votes, math.inf) for votes in WORLD}


def removals(votes: Votes) -> float:
    """Removals that another winner is away, less one; where `a` stands alone no removal makes another one win."""
    ours, theirs = votes
    if winner(votes) == "b":
        return theirs - ours - 1
    return ours - theirs if theirs else math.inf


def keeps(distance: Distance, step: Callable[[Votes], Iterator[Votes]]) -> bool:
    """The contract, on every pair."""
    for votes in INNER:
        for other in step(votes):
            here, there = distance(votes), distance(other)
            if not (here == there or abs(here - there) <= 1):
                return False
            if winner(votes) != winner(other) and (here or there):
                return False
    return True


RIGHT: dict[str, Distance] = {
    "graph": graph_distances(neighbours).__getitem__,
    "lead less one": lambda votes: max(0, abs(votes[0] - votes[1]) - 1),
    "half": lambda votes: max(0, abs(votes[0] - votes[1]) - 1) // 2,
    "nothing": lambda votes: 0,
}
WRONG: dict[str, Distance] = {
    "lead": lambda votes: abs(votes[0] - votes[1]),
    "twice": lambda votes: 2 * max(0, abs(votes[0] - votes[1]) - 1),
    "removals": removals,
    "share": lambda votes: abs(votes[0] - votes[1]) / max(1, sum(votes)),
}


def test_the_contract_tells_right_from_wrong() -> None:
    assert {name for name, distance in {**RIGHT, **WRONG}.items() if keeps(distance, neighbours)} == set(RIGHT)
    assert keeps(graph_distances(replaced).__getitem__, replaced)
    assert not keeps(RIGHT["lead less one"], replaced), "a distance of one relation is none of another"
    assert keeps(lambda votes: max(0, (abs(votes[0] - votes[1]) - 1) // 2), replaced)


def excess(mechanism: StableRelease, distance: Distance, step: Callable[[Votes], Iterator[Votes]]) -> float:
    """The largest delta, at the mechanism's epsilon, of all pairs: outcomes are the two winners and UNSTABLE."""
    grow, worst = math.exp(float(mechanism.claim().epsilon)), 0.0
    for votes in INNER:
        for other in step(votes):
            laws = []
            for data in (votes, other):
                chance = released(mechanism, distance(data))
                laws.append({winner(data): chance, "unstable": 1 - chance})
            worst = max(worst, sum(max(0.0, p - grow * laws[1].get(o, 0.0)) for o, p in laws[0].items()))
    return worst


def released(mechanism: StableRelease, distance: float) -> float:
    if math.isinf(distance):
        return 1.0
    if mechanism.mode == "optimal":
        chance: Fraction = release_probability(mechanism.epsilon, mechanism.delta, int(distance))
        return float(chance)
    told = mechanism.parameters()
    q, over = math.exp(-1 / float(str(told["scale"]))), int(str(told["threshold"])) - int(distance)
    return float(q ** (over + 1) / (1 + q) if over >= 0 else 1 - q**-over / (1 + q))


@pytest.mark.parametrize("mode", ["optimal", "tight"])
@pytest.mark.parametrize("name", RIGHT)
def test_no_pair_of_neighbours_shows_more_than_is_claimed(name: str, mode: str) -> None:
    mechanism = StableRelease(epsilon=1, delta="0.01", mode=mode)  # type: ignore[arg-type]
    found = excess(mechanism, RIGHT[name], neighbours)
    assert found <= float(mechanism.claim().delta) + 1e-12
    assert found >= float(mechanism.claim().delta) * (1 - 1e-9), "attained where the winner changes"


@pytest.mark.parametrize("name", ["lead", "twice", "removals"])
def test_a_distance_that_breaks_the_contract_shows_more(name: str) -> None:
    mechanism = StableRelease(epsilon=1, delta="0.01")
    assert excess(mechanism, WRONG[name], neighbours) > 0.02


@pytest.mark.parametrize("mode", ["optimal", "tight"])
def test_a_distance_of_add_remove_under_replace_one(mode: str) -> None:
    """Two steps: the claim of the group, which best probabilities nearly attain."""
    mechanism = StableRelease(epsilon=1, delta="0.01", mode=mode, distance_relation="add_remove")  # type: ignore[arg-type]
    ready = mechanism.under(Relation.REPLACE_ONE, Unit())
    found = excess(ready, RIGHT["lead less one"], replaced)
    assert found <= float(ready.claim().delta)
    assert found >= 0.99 * float(ready.claim().delta)
    assert found > 0.01, "one step's delta is not enough"
    assert float(Decimal(ready.claim().epsilon)) == 2
