"""Oracles for prices, conversions and filters: definitions evaluated at 60 digits, and exact dynamic programmes.

Shares no code with the accounting room: Renyi divergences are sums or integrals of the densities, trade-off curves are
inverted through the error function, and a filter is attacked by every adaptive analyst of a small class at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import mpmath

mp = mpmath.MPContext()
mp.dps = 60

Real = Any  # an mpmath number


def real(value: object) -> Real:
    """A number at 60 digits, from its decimal text."""
    return mp.mpf(str(value))


# ---- Renyi divergences from their definition ------------------------------------------------------------------------


def renyi(left: list[Real], right: list[Real], order: Real) -> Real:
    """D_order(left || right) of two lists of probabilities."""
    return mp.log(mp.fsum(p**order * q ** (1 - order) for p, q in zip(left, right, strict=True))) / (order - 1)


def randomized_response(epsilon: Real) -> tuple[list[Real], list[Real]]:
    """The worst epsilon-DP pair."""
    truth = 1 / (1 + mp.exp(-epsilon))
    return [truth, 1 - truth], [1 - truth, truth]


def renyi_laplace(epsilon: Real, order: Real) -> Real:
    """Integrated from the densities of Lap(1) at 0 and at epsilon."""

    def integrand(x: Real) -> Real:
        return mp.exp(-order * abs(x) - (1 - order) * abs(x - epsilon)) / 2

    return mp.log(mp.quad(integrand, [-200, 0, epsilon, epsilon + 200])) / (order - 1)


def discrete_laplace(scale: Real, shift: int, reach: int = 400) -> tuple[list[Real], list[Real]]:
    """The two laws on -reach..reach+shift; what is beyond has mass e^(-reach/scale)."""
    q = mp.exp(-1 / scale)
    mass = (1 - q) / (1 + q)
    line = range(-reach, reach + shift + 1)
    return [mass * q ** abs(x) for x in line], [mass * q ** abs(x - shift) for x in line]


def gaussian_tail(x: Real) -> Real:
    """P(N(0,1) > x)."""
    return mp.erfc(x / mp.sqrt(2)) / 2


def gaussian_mu(false_positives: Real) -> Real:
    """The mu with Phi(-mu/2) = false_positives."""
    return 2 * mp.sqrt(2) * mp.erfinv(1 - 2 * false_positives)


def gdp_delta(mu: Real, epsilon: Real) -> Real:
    """Balle-Wang 2018, Theorem 8."""
    return gaussian_tail(epsilon / mu - mu / 2) - mp.exp(epsilon) * gaussian_tail(epsilon / mu + mu / 2)


def least(function: Callable[[Real], Real], low: float, high: float) -> Real:
    """The minimum over [low, high] of a function of one valley, by golden section on a logarithmic scale."""
    a, b, golden = mp.log(low), mp.log(high), (mp.sqrt(5) - 1) / 2
    for _ in range(90):
        c, d = b - golden * (b - a), a + golden * (b - a)
        if function(mp.exp(c)) < function(mp.exp(d)):
            b = d
        else:
            a = c
    return function(mp.exp((a + b) / 2))


# ---- pure steps -----------------------------------------------------------------------------------------------------


def composed_delta(epsilon: Real, step: Real, steps: int) -> Real:
    """The hockey-stick divergence of `steps` randomized responses, by counting outcomes."""
    scale = (1 + mp.exp(step)) ** steps
    terms = (
        mp.binomial(steps, wins) * (mp.exp(wins * step) - mp.exp(epsilon + (steps - wins) * step))
        for wins in range(steps + 1)
    )
    return mp.fsum(term for term in terms if term > 0) / scale


def binomial_below(cutoff: int, calls: int, probability: Real) -> Real:
    """P(Bin(calls, probability) < cutoff), term by term."""
    return mp.fsum(
        mp.binomial(calls, k) * probability**k * (1 - probability) ** (calls - k) for k in range(min(cutoff, calls + 1))
    )


def target_charging_delta(cutoff: int, step: float, epsilon: float, longest: int) -> float:
    """The exact delta of target charging against every adaptive adversary that plays vertices of the square of
    step-DP tests, by value iteration over (charges left, net loss in steps), with `longest` tests at most."""
    gain = math.exp(step)
    failing = 1 / (1 + gain)
    vertices = [(failing, failing * gain), (failing * gain, failing)]  # P(charged) under D and D'

    @functools.cache
    def value(left: int, loss: int, tests: int) -> float:
        stopped = max(0.0, 1 - math.exp(epsilon - loss * step))
        if left == 0 or tests == 0:
            return stopped
        best = stopped
        for charged, other in vertices:
            down = round(math.log(charged / other) / step)
            up = round(math.log((1 - charged) / (1 - other)) / step)
            played = charged * value(left - 1, loss + down, tests - 1) + (1 - charged) * value(
                left, loss + up, tests - 1
            )
            best = max(best, played)
        return best

    return value(cutoff, 0, longest)


# ---- adaptive analysts against a filter -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """What an analyst may run once more: each outcome with its probability under D and its privacy loss, in whole
    units."""

    name: str
    outcomes: tuple[tuple[float, int], ...]


def response(units: int, unit: float) -> tuple[tuple[float, int], ...]:
    """Randomized response: the likely outcome reveals +units, the other -units."""
    truth = 1 / (1 + math.exp(-units * unit))
    return ((truth, units), (1 - truth, -units))


def failing(units: int, delta: float, unit: float) -> tuple[tuple[float, int], ...]:
    """The worst (units, delta)-DP mechanism: with probability delta it reveals everything, else it is a response."""
    return ((delta, REVEALED), *((mass * (1 - delta), loss) for mass, loss in response(units, unit)))


def lopsided(high: int, low: int, unit: float) -> tuple[tuple[float, int], ...]:
    """Losses +high and -low: the masses under D for which the masses under D' also sum to 1."""
    up, down = math.exp(-high * unit), math.exp(low * unit)
    mass = (down - 1) / (down - up)
    return ((mass, high), (1 - mass, -low))


REVEALED = 10**9  # units of loss that no epsilon pays for

State = TypeVar("State", bound=Hashable)


class Accountant(Protocol[State]):
    """The filter under attack: a state of sums, admission of a move, and what settling an outcome leaves."""

    def admit(self, state: State, move: Move) -> tuple[State, ...] | None:
        """The state after each outcome of `move`; None if it is refused."""


def best_attack(
    accountant: Accountant[State],
    start: State,
    moves: tuple[Move, ...],
    epsilon: float | Callable[[State], float],
    unit: float,
) -> float:
    """The delta that the best adaptive analyst reaches at `epsilon`, or at the reading `epsilon(state)` where he stops:
    exact, by value iteration over (state, loss)."""

    admit = functools.cache(accountant.admit)

    @functools.cache
    def value(state: State, loss: int) -> float:
        read = epsilon(state) if callable(epsilon) else epsilon
        best = max(0.0, 1 - math.exp(min(read - loss * unit, 1.0)))
        for move in moves:
            after = admit(state, move)
            if after is not None:
                pairs = zip(move.outcomes, after, strict=True)
                best = max(best, sum(mass * value(next_, loss + gain) for (mass, gain), next_ in pairs))
        return best

    return value(start, 0)


def best_moment(
    accountant: Accountant[State], start: State, moves: tuple[Move, ...], more: float, unit: float
) -> float:
    """log E_P[e^(more * loss)] / more of the best adaptive analyst, exactly: the Renyi divergence of order 1 + more
    that he reaches, by value iteration over states."""
    admit = functools.cache(accountant.admit)

    @functools.cache
    def value(state: State) -> float:
        best = 1.0
        for move in moves:
            after = admit(state, move)
            if after is not None:
                pairs = zip(move.outcomes, after, strict=True)
                best = max(best, sum(mass * math.exp(more * gain * unit) * value(at) for (mass, gain), at in pairs))
        return best

    return math.log(value(start)) / more
