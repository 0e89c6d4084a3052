"""Whatever an audit has seen, its wealth after the next runs is in the mean at most what it was: added up over all
outcomes of those runs, exactly. From that alone it follows that a claim which holds is rarely refuted."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dpledger.audit.evidence.edges import Claim, StrataClaim, pure_or_approx
from dpledger.audit.evidence.wealth import Engine
from dpledger.audit.features.coordinates import Along, Value
from dpledger.audit.features.score import Place, Score
from dpledger.audit.outcomes.structure import Outcomes
from edges_oracle import Drawn

pytestmark = pytest.mark.sliced

Masses = npt.NDArray[np.float64]
Values = npt.NDArray[np.int64]
ALPHA = Fraction(1, 10**60)  # nothing is refuted, after which there would be no bets
PLACE = Place("output")
NEXT = 3  # runs of a side, at most, whose outcomes are all gone through
SEEN = [8, 30, 130]  # pairs before them


def response(epsilon: float, told: float = 0.0) -> tuple[Masses, Masses]:
    """The masses of 0, 1, 2, 3 on both sides: a bit that is kept or flipped and, with probability `told`, published
    beside as 2 or 3. Both edges of its claim are attained."""
    keep = (1 - told) / (1 + math.exp(-epsilon))
    flip = 1 - told - keep
    return np.array([flip, keep, 0.0, told]), np.array([keep, flip, told, 0.0])


def event(epsilon: float) -> tuple[Masses, Masses]:
    """An event that is more likely on the left, so that one edge alone is attained."""
    return np.array([0.7, 0.3, 0.0, 0.0]), np.array([1 - 0.3 * math.exp(-epsilon), 0.3 * math.exp(-epsilon), 0.0, 0.0])


def coins(first: float, second: float) -> tuple[Masses, Masses]:
    """One of two responses, which of them is published."""
    sides = zip(response(first), response(second), strict=True)
    left, right = (np.concatenate([one[:2], other[:2]]) / 2 for one, other in sides)
    return left, right


@dataclass(frozen=True)
class Case:
    """What holds the claim exactly; `broken`: what came before, which makes the audit bet; `paired`: how the two runs
    of a pair depend on each other."""

    claim: Claim
    truth: tuple[Masses, Masses]
    broken: tuple[Masses, Masses]
    losses: tuple[float, ...] | None = None
    point: tuple[float, float] | None = None
    sizes: tuple[int, int] = (1, 1)
    paired: str = ""


TOLD = 0.05
CASES = {
    "response": Case(pure_or_approx(1, 0), response(1), response(1.5), point=(1.0, 0.0)),
    "with delta": Case(pure_or_approx(1, TOLD), response(1, TOLD), response(1.4, 2 * TOLD), point=(1.0, TOLD)),
    "only delta": Case(pure_or_approx(0, TOLD), response(0, TOLD), response(0.3, 3 * TOLD), point=(0.0, TOLD)),
    "strata": Case(
        StrataClaim((0.25, 1.0, math.inf), 0.0), coins(0.25, 1), coins(0.9, 1.3), losses=(0.25, 0.25, 1.0, 1.0)
    ),
    **{
        f"{sizes[0]} to {sizes[1]}": Case(pure_or_approx(1, 0), event(1), event(1.5), point=(1.0, 0.0), sizes=sizes)
        for sizes in ((1, 1), (3, 1), (1, 3))
    },
    **{
        how: Case(pure_or_approx(1, 0), response(1), response(1.5), point=(1.0, 0.0), paired=how)
        for how in ("independent", "rising together", "rising apart")
    },
}  # fmt: skip


def proposed(left: Outcomes, _: Outcomes) -> tuple[Score, ...]:
    """The value, and more and more lines of it."""
    return (Value(PLACE), *(Along((PLACE,), (float(n),)) for n in range(1, 1 + len(left) // 40)))


def outcomes(case: Case, values: Values) -> Outcomes:
    losses = None if case.losses is None else np.array(case.losses)[values]
    return Drawn(values.astype(float), losses).outcomes


def after(case: Case, seed: int, pairs: int) -> Engine:
    """An audit that has seen so many pairs of what breaks its claim."""
    rng = np.random.default_rng(seed)
    engine = Engine(
        case.claim, ALPHA, proposed, point=case.point, paired=bool(case.paired), sizes=case.sizes, window=100
    )
    while engine.pairs < pairs:
        plan = engine.plan()
        size = min(plan.runs[0] // case.sizes[0], pairs - engine.pairs)
        sides = (
            outcomes(case, rng.choice(masses.size, size * runs, p=masses))
            for masses, runs in zip(case.broken, case.sizes, strict=True)
        )
        engine.settle(*(plan.read(side) for side in sides))
    return engine


def futures(masses: Masses, runs: int) -> Iterator[tuple[Values, float]]:
    """What so many runs of a side may give, in any order, and how likely."""
    possible = np.flatnonzero(masses)
    for values in itertools.combinations_with_replacement(possible.tolist(), runs):
        counts = np.bincount(values, minlength=masses.size)
        ways = math.factorial(runs) // math.prod(math.factorial(count) for count in counts)
        yield np.array(values), ways * float(np.prod(masses**counts))


def joint(left: Masses, right: Masses, how: str) -> npt.NDArray[np.float64]:
    """The masses of pairs of runs that depend on each other in this way."""
    if how == "independent":
        return np.outer(left, right)
    if how == "rising apart":
        return joint(left, right[::-1], "rising together")[:, ::-1]
    masses = np.zeros((left.size, right.size))
    edges = np.unique(np.concatenate([[0.0], np.cumsum(left), np.cumsum(right)]).clip(0, 1).round(12))
    for low, high in itertools.pairwise(edges.tolist()):
        one, other = (int(np.searchsorted(np.cumsum(side), (low + high) / 2)) for side in (left, right))
        masses[one, other] += high - low
    return masses


def each_future(case: Case, truth: tuple[Masses, Masses]) -> Iterator[tuple[Values, Values, float]]:
    """Runs left, runs right, and how likely."""
    if case.paired:
        masses = joint(*truth, case.paired)
        for one, other in zip(*(at.tolist() for at in np.nonzero(masses)), strict=True):
            yield np.array([one]), np.array([other]), float(masses[one, other])
        return
    units = NEXT // max(case.sizes)
    left, right = (futures(masses, units * runs) for masses, runs in zip(truth, case.sizes, strict=True))
    for (one, first), (other, second) in itertools.product(list(left), list(right)):
        yield one, other, first * second


def means(case: Case, engine: Engine, truth: tuple[Masses, Masses]) -> tuple[float, float, Masses]:
    """The mean of the wealth after the next runs over what it was, the largest, and the means of the chain's."""
    plan, before = engine.plan(), engine._mixed()
    chain = np.zeros(0) if engine.chain is None else engine.chain.wealth.copy()
    mean, most, chained, mass = 0.0, 0.0, np.zeros(chain.shape), 0.0
    for left, right, likely in each_future(case, truth):
        one = copy.deepcopy(engine)
        one.settle(plan.read(outcomes(case, left)), plan.read(outcomes(case, right)))
        wealth = math.exp(one._mixed() - before)
        mean, most, mass = mean + likely * wealth, max(most, wealth), mass + likely
        if one.chain is not None:
            chained = chained + likely * np.exp(one.chain.wealth - chain)
    assert mass == pytest.approx(1)
    return mean, most, chained


@pytest.mark.parametrize("pairs", SEEN)
@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_the_wealth_never_rises_while_the_claim_holds(name: str, pairs: int) -> None:
    case = CASES[name]
    engine = after(case, 7, pairs)
    mean, most, chained = means(case, engine, case.truth)
    assert mean <= 1 + 1e-9
    assert most > 1.01, "it bets"
    if engine.chain is not None and case.point is not None:
        true = engine.chain.grid >= case.point[0]
        assert chained[:, true].max() <= 1 + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_it_rises_while_the_claim_is_broken(name: str) -> None:
    case = CASES[name]
    assert means(case, after(case, 7, 130), case.broken)[0] > 1.001
