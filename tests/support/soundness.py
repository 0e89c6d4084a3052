"""Random questions to the accountant whose answers are known: one stream of them for each kind of composition.

A question is a composition, a delta and an epsilon. It is answered soundly if the exact profile is at least delta at
the lower end of epsilon, at most delta at its upper end, and between the bounds of delta at epsilon.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

import ball_profiles as exactly
from ball_contours import Gaussian, Laplace, Law, Line, OnLine, Patience, SampledGaussian, Unresolved, saddle
from ball_profiles import Ball, Pair, Profile, ball
from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.engine.dispatch import delta_interval, epsilon_interval
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.accounting.lowering import PldList
from dpledger.accounting.profile import compose

Interval: TypeAlias = tuple[float, float]
Side: TypeAlias = Literal["add", "remove"]
Random: TypeAlias = np.random.Generator
SIDES: tuple[Side, ...] = ("add", "remove")


@dataclass(frozen=True)
class Question:
    """`of` says in words what is composed; None for a query that is not asked."""

    of: str
    exact: Profile
    delta: str
    epsilon: float
    ask_epsilon: Callable[[str], Interval] | None
    ask_delta: Callable[[float], Interval] | None


@dataclass
class Tally:
    """`wrong`: answers on the wrong side, in words. `narrow`: epsilons known to 1e-3, relative or absolute."""

    questions: int = 0
    narrow: int = 0
    epsilons: int = 0
    wrong: list[str] = field(default_factory=list)

    def put(self, question: Question) -> None:
        """Asks it, and writes down what is wrong."""
        self.questions += 1
        if question.ask_epsilon is not None:
            lower, upper = question.ask_epsilon(question.delta)
            self.epsilons += 1
            self.narrow += upper - lower <= 1e-3 * max(1.0, lower) or lower == upper
            if not holds_epsilon(lower, upper, question.exact, ball(question.delta)):
                self.wrong.append(f"{question.of}: epsilon({question.delta}) in [{lower!r}, {upper!r}]")
        if question.ask_delta is not None:
            lower, upper = question.ask_delta(question.epsilon)
            truth = question.exact(ball(question.epsilon))
            if not lower <= upper or truth < ball(lower) or truth > ball(upper):
                self.wrong.append(f"{question.of}: delta({question.epsilon!r}) in [{lower!r}, {upper!r}]")


FARTHEST = 1e7
"""An epsilon beyond every finite loss here: what is left of delta there is the mass at infinity."""


def holds_epsilon(lower: float, upper: float, exact: Profile, delta: Ball) -> bool:
    """Whether the least epsilon >= 0 with exact(epsilon) <= delta can lie in [lower, upper]."""
    if not lower <= upper:
        return False
    if lower > 0 and exact(ball(min(lower, FARTHEST))) < delta:
        return False
    return upper == math.inf or not exact(ball(upper)) > delta


def composed(of: Composition, exact: Profile, delta: str, epsilon: float, side: Side | None = None) -> Question:
    """A question to `compose`."""
    profile = compose(of, direction=side)

    def ask_epsilon(at: str) -> Interval:
        found = profile.epsilon(at)
        return found.lower, found.upper

    def ask_delta(at: float) -> Interval:
        found = profile.delta(Decimal(at))
        return found.lower, found.upper

    return Question(f"{of}, {side or 'both'}", exact, delta, epsilon, ask_epsilon, ask_delta)


# ---- random parameters ----------------------------------------------------------------------------------------------


def decimal(rng: Random, low: float, high: float) -> str:
    """Between the two, evenly in the logarithm, four digits."""
    return f"{math.exp(rng.uniform(math.log(low), math.log(high))):.4g}"


def count(rng: Random, most: float) -> int:
    return int(math.exp(rng.uniform(0, math.log(most + 1))))


def small(rng: Random, most: float = 16.0) -> str:
    """A delta, down to 10^-most; one in ten far below."""
    return f"{10 ** -(rng.uniform(0.3, most) if rng.random() < 0.9 else rng.uniform(most, 3 * most)):.4g}"


def some_side(rng: Random) -> Side | None:
    return (None, "add", "remove")[int(rng.integers(3))]


# ---- closed forms ---------------------------------------------------------------------------------------------------


def gaussians(rng: Random) -> Iterator[Question]:
    """Up to 10^9 of them, delta down to e^-700: one of mu sqrt(T) (Dong, Roth and Su 2022)."""
    while True:
        sigma, times = decimal(rng, 0.2, 1000), count(rng, 1e9)
        mu = ball(times).sqrt() / ball(sigma)
        deep = rng.random() < 0.2
        delta = f"{Decimal(-rng.uniform(1, 700 if deep else 80)).exp():.4g}"
        epsilon = abs(float(mu) ** 2 / 2 + float(mu) * rng.normal() * 3)
        yield composed(Repeated(GaussianLaw(sigma), times=times), exactly.gaussian(mu), delta, epsilon)


def sampled_once(rng: Random) -> Iterator[Question]:
    while True:
        rate, sigma, side = decimal(rng, 1e-5, 0.95), decimal(rng, 0.35, 8), some_side(rng)
        exact = exactly.larger(
            [exactly.sampled_gaussian(ball(rate), ball(sigma), s) for s in SIDES if side in (None, s)]
        )
        tree = PoissonSampled(GaussianLaw(sigma), rate=rate)
        yield composed(tree, exact, small(rng), float(rng.exponential(float(decimal(rng, 1e-3, 2)))), side)


def vanishing(rng: Random) -> Iterator[Question]:
    """Where delta is below the normal floats, and each rounding is absolute."""
    while True:
        rate, sigma = decimal(rng, 1e-5, 0.95), decimal(rng, 0.35, 8)
        side = SIDES[int(rng.integers(2))]
        exact = exactly.sampled_gaussian(ball(rate), ball(sigma), side)
        tree: Composition = PoissonSampled(GaussianLaw(sigma), rate=rate)
        if rng.random() < 0.3:
            exact, tree = exactly.gaussian(1 / ball(sigma)), GaussianLaw(sigma)
        low, high = 0.0, 40 * 38.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if exact(ball(middle)) > ball("1e-318") else (low, middle)
        yield composed(tree, exact, small(rng), low * float(rng.uniform(0.99, 1.01)), side)


def laplaces(rng: Random) -> Iterator[Question]:
    """With responses and failures."""
    while True:
        e0, times = decimal(rng, 0.02, 2), count(rng, 24)
        exact: Profile = exactly.laplace(ball(e0), times)
        parts: list[Composition] = [Repeated(LaplaceLaw(e0), times=times)]
        if rng.random() < 0.4:
            r0, responses = decimal(rng, 0.02, 2), count(rng, 5)
            exact = exactly.with_responses(exact, ball(r0), responses)
            parts.append(Repeated(PureDP(r0), times=responses))
        if rng.random() < 0.3:
            delta0 = decimal(rng, 1e-12, 1e-3)
            exact = exactly.with_failures(exact, ball(delta0), 1)
            parts.append(ApproxDP(0, delta0))
        reach = float(e0) * times
        yield composed(Sequence(tuple(parts)), exact, small(rng), reach * rng.uniform(0, 1.1) ** 2)


def responses(rng: Random) -> Iterator[Question]:
    """Of one kind, up to three thousand, some with failures."""
    while True:
        e0, times = decimal(rng, 0.003, 3), count(rng, 3000)
        exact: Profile = exactly.Responses(ball(e0), times)
        leaf: Composition = PureDP(e0)
        if rng.random() < 0.4:
            delta0 = decimal(rng, 1e-14, 1e-4)
            exact, leaf = exactly.with_failures(exact, ball(delta0), times), ApproxDP(e0, delta0)
        spread = float(e0) * math.sqrt(times)
        yield composed(Repeated(leaf, times=times), exact, small(rng), spread * abs(rng.normal()) * 3)


def gaussian_with_responses(rng: Random) -> Iterator[Question]:
    """Gaussian x RR^T x (0, delta0)^T."""
    while True:
        sigma, r0, times = decimal(rng, 0.3, 20), decimal(rng, 0.01, 1), count(rng, 10)
        mu = 1 / ball(sigma)
        exact = exactly.with_responses(exactly.gaussian(mu), ball(r0), times)
        delta0 = decimal(rng, 1e-12, 1e-6)
        exact = exactly.with_failures(exact, ball(delta0), times)
        tree = Sequence((GaussianLaw(sigma), Repeated(ApproxDP(r0, delta0), times=times)))
        yield composed(tree, exact, small(rng, 9), float(mu) * rng.uniform(0, 4) + float(r0) * rng.uniform(0, times))


def bounded_range_with_responses(rng: Random) -> Iterator[Question]:
    """The envelope's law itself, which no one mechanism attains: asked of the losses."""
    while True:
        eta, r0, times = decimal(rng, 0.05, 3), decimal(rng, 0.02, 1), count(rng, 30)
        exact = exactly.with_responses(exactly.bounded_range(ball(eta)), ball(r0), times)
        parts = ((BoundedRangeLoss(float(eta)), 1), (approximate_pair(float(r0), 0.0).loss(), times))
        what = PldList(parts, (), Fraction(0))

        def ask_epsilon(at: str, what: PldList = what) -> Interval:
            found = epsilon_interval(what, Decimal(at))
            return found.lower, found.upper

        def ask_delta(at: float, what: PldList = what) -> Interval:
            found = delta_interval(what, at)
            return found.lower, found.upper

        epsilon = float(eta) * rng.uniform(0, 1) + float(r0) * rng.uniform(0, times)
        yield Question(f"bounded range {eta}, RR {r0} x {times}", exact, small(rng), epsilon, ask_epsilon, ask_delta)


# ---- enumeration ----------------------------------------------------------------------------------------------------

MOST_OUTCOMES = 1500


def counted(rng: Random) -> Iterator[Question]:
    """Up to three distinct finite pairs, up to six times each, some of them sampled; delta down to 1e-48."""
    while True:
        drawn = [(*finite(rng), int(rng.integers(1, 7))) for _ in range(int(rng.integers(1, 4)))]
        if math.prod(math.comb(n + len(pair) - 1, n) for _, pair, n in drawn) > MOST_OUTCOMES:
            continue
        side = some_side(rng)
        exact = exactly.larger([counted_exactly(drawn, s) for s in SIDES if side in (None, s)])
        tree = Sequence(tuple(Repeated(leaf, times=n) for leaf, _, n in drawn))
        yield composed(tree, exact, small(rng), float(rng.exponential(float(rng.choice([0.1, 1, 4])))), side)


def counted_exactly(drawn: list[tuple[Composition, Pair, int]], side: Side) -> Profile:
    return exactly.Counted([(pair if side == "remove" else exactly.turned(pair), n) for _, pair, n in drawn])


def finite(rng: Random) -> tuple[Composition, Pair]:
    """A finite leaf and its pair, direction remove."""
    leaf: Composition
    match int(rng.integers(4)):
        case 0:
            e0 = decimal(rng, 0.01, 4)
            leaf, pair = PureDP(e0), exactly.approximate_pair(ball(e0), ball(0))
        case 1:
            e0, delta0 = decimal(rng, 0.01, 3), decimal(rng, 1e-12, 0.1)
            leaf, pair = ApproxDP(e0, delta0), exactly.approximate_pair(ball(e0), ball(delta0))
        case _:
            size = int(rng.integers(2, 5))
            left, right = masses(rng, size), masses(rng, size)
            leaf, pair = PmfPair(left, right), [(ball(p), ball(q)) for p, q in zip(left, right, strict=True)]
    if rng.random() < 0.3:
        rate = decimal(rng, 1e-3, 0.9)
        leaf, pair = PoissonSampled(leaf, rate=rate), exactly.sampled_pair(pair, ball(rate))
    return leaf, pair


def masses(rng: Random, size: int) -> tuple[str, ...]:
    """Probabilities of six digits that add up to 1."""
    free = rng.dirichlet(np.full(size, rng.uniform(0.3, 3))) * (10**6 - size)
    whole = [int(x) + 1 for x in free[:-1]]
    return tuple(str(Decimal(n).scaleb(-6)) for n in (*whole, 10**6 - sum(whole)))


# ---- contours in ball arithmetic ------------------------------------------------------------------------------------

PER_LINE = 25  # compositions that share the transforms of their laws


def dp_sgd(rng: Random) -> Iterator[Question]:
    """16 to 10^6 runs of one Poisson-sampled Gaussian."""
    while True:
        law = SampledGaussian(decimal(rng, 1e-3, 0.5), decimal(rng, 0.5, 4), SIDES[int(rng.integers(2))])
        yield from on_one_line(rng, [(law, int(math.exp(rng.uniform(math.log(16), math.log(1e6)))))])


def few_runs(rng: Random) -> Iterator[Question]:
    """Some of them, half with so little noise that a lattice answers before a contour does."""
    while True:
        noise = decimal(rng, 0.6, 4) if rng.random() < 0.5 else decimal(rng, 0.3, 0.6)
        law = SampledGaussian(decimal(rng, 0.02, 0.7), noise, SIDES[int(rng.integers(2))])
        yield from on_one_line(rng, [(law, int(rng.integers(8, 50)))])


def rare_jumps(rng: Random) -> Iterator[Question]:
    """Tiny rates: one large loss among many small ones rules the tail, and transforms die out slowly."""
    while True:
        law = SampledGaussian(decimal(rng, 1e-5, 2e-3), decimal(rng, 0.5, 2), "remove")
        times = float(decimal(rng, 3e-3, 0.3)) / float(law.rate)
        yield from on_one_line(rng, [(law, round(times * times) + 64)], Patience(nodes=2000, points=6000))


def mixed(rng: Random) -> Iterator[Question]:
    """Two or three distinct sampled Gaussians, with Gaussian and Laplace noise."""
    while True:
        side = SIDES[int(rng.integers(2))]
        times = math.exp(rng.uniform(math.log(30), math.log(1e5)))
        parts: list[tuple[Law, int]] = [
            (SampledGaussian(decimal(rng, 1e-3, 0.3), decimal(rng, 0.6, 4), side), 1 + int(times * rng.random()))
            for _ in range(int(rng.integers(2, 4)))
        ]
        if rng.random() < 0.5:
            parts.append((Gaussian(decimal(rng, 1, 50)), count(rng, 5)))
        if rng.random() < 0.5:
            parts.append((Laplace(decimal(rng, 0.01, 0.5)), count(rng, 5)))
        yield from on_one_line(rng, parts)


def many_distinct(rng: Random) -> Iterator[Question]:
    """Twelve to twenty sampled Gaussians, no two alike: composed as one bundle."""
    while True:
        side, times = SIDES[int(rng.integers(2))], math.exp(rng.uniform(math.log(10), math.log(1e4)))
        parts: list[tuple[Law, int]] = [
            (SampledGaussian(decimal(rng, 3e-3, 0.3), decimal(rng, 0.7, 4), side), 1 + int(times * rng.random()))
            for _ in range(int(rng.integers(12, 21)))
        ]
        yield from on_one_line(rng, parts)


def on_one_line(rng: Random, parts: list[tuple[Law, int]], limits: Patience | None = None) -> Iterator[Question]:
    """Questions about the laws with other counts, near the saddle of one line; none where the line is no good."""
    try:
        c = saddle(parts, -float(rng.uniform(3, 80)))
        line = Line(parts, c * float(rng.uniform(0.55, 1)), limits)
    except Unresolved:
        return
    for _ in range(PER_LINE):
        counts = [max(1, round(n * rng.uniform(0.7, 1.3))) for _, n in parts]
        try:
            profile = OnLine(line, counts)
            epsilon = line.saddle_epsilon(counts) * float(rng.uniform(0.97, 1.03))
            if epsilon <= 0:
                continue
            delta = f"{float(profile(ball(epsilon))):.3g}"
            profile(ball(epsilon * 1.02)), profile(ball(epsilon * 0.98))
        except Unresolved:
            continue
        yield composed(tree_of(line.laws, counts), guarded(profile, epsilon), delta, epsilon, side_of(line.laws))


def guarded(profile: Profile, epsilon: float) -> Profile:
    """Far from its saddle a line says nothing; there the nearest point where it does bounds delta well enough."""
    near, far = ball(epsilon * 0.98), ball(epsilon * 1.02)

    def delta(at: Ball) -> Ball:
        if at < near:
            return profile(near).union(ball(1))
        return profile(far).union(ball(0)) if at > far else profile(at)

    return delta


def tree_of(laws: tuple[Law, ...], counts: list[int]) -> Composition:
    leaves: list[Composition] = []
    for law in laws:
        match law:
            case SampledGaussian(rate=rate, sigma=sigma):
                leaves.append(PoissonSampled(GaussianLaw(sigma), rate=rate))
            case Gaussian(sigma=sigma):
                leaves.append(GaussianLaw(sigma))
            case Laplace(epsilon=epsilon):
                leaves.append(LaplaceLaw(epsilon))
    return Sequence(tuple(Repeated(leaf, times=n) for leaf, n in zip(leaves, counts, strict=True)))


def side_of(laws: tuple[Law, ...]) -> Side | None:
    sides = {law.direction for law in laws if isinstance(law, SampledGaussian)}
    return "add" if sides == {"add"} else "remove"


# ---- one step after the other ---------------------------------------------------------------------------------------


def appended(rng: Random) -> Iterator[Question]:
    """Every prefix of a growing list of Gaussians and responses is a composition; the accountant answers for each."""
    while True:
        delta = f"{10 ** -rng.uniform(1, 14):.4g}"
        accountant = Accountant(delta)
        r0, responses = decimal(rng, 0.02, 0.5), 0
        squared = ball(0)
        for _ in itertools.repeat(None, 25):
            sigma, times = decimal(rng, 1, 60), count(rng, 50)
            if rng.random() < 0.3 and responses < 6 and squared > 0:
                found, responses = accountant.append(PureDP(r0)), responses + 1
            else:
                found, squared = accountant.append(GaussianLaw(sigma), times), squared + times / ball(sigma) ** 2
            exact = exactly.with_responses(exactly.gaussian(squared.sqrt()), ball(r0), responses)
            words = f"accountant: mu^2 {float(squared)!r}, RR {r0} x {responses}"
            yield Question(words, exact, delta, 0.0, answered(found.lower, found.upper), None)


def curves(rng: Random) -> Iterator[Question]:
    """Many deltas of one profile at once, down to where they vanish."""
    while True:
        sigma, r0, times = decimal(rng, 0.2, 40), decimal(rng, 0.01, 0.5), int(rng.integers(0, 6))
        mu = 1 / ball(sigma)
        exact = exactly.with_responses(exactly.gaussian(mu), ball(r0), times)
        parts: list[Composition] = [GaussianLaw(sigma), *([Repeated(PureDP(r0), times=times)] if times else [])]
        reach = float(mu) * float(mu) / 2 + float(mu) * rng.uniform(1, 30)
        epsilons = sorted(float(reach * x) for x in rng.random(25))
        found = compose(Sequence(tuple(parts))).deltas(epsilons)
        for epsilon, at in zip(epsilons, found, strict=True):
            words = f"curve: sigma {sigma}, RR {r0} x {times}"
            yield Question(words, exact, "1", epsilon, None, answered_delta(at.lower, at.upper))


def answered_delta(lower: float, upper: float) -> Callable[[float], Interval]:
    """Bounds of delta that were given already."""
    return lambda _: (lower, upper)


def answered(lower: float, upper: float) -> Callable[[str], Interval]:
    """An answer that was given already."""
    return lambda _: (lower, upper)
