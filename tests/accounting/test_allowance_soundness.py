"""Allowances against the best adaptive analyst, exactly: value iteration over everything that small mechanisms can do.

The product counts copies, prices the rest and settles; the oracle knows the true losses. Each twin that counts what is
not dominated, or forgets a part of what it promises, is broken by an attack that the product refuses.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import pytest
from scipy.stats import norm

from dpledger.accounting import filters
from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    GaussianLaw,
    Group,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
)
from dpledger.accounting.filters import AllowanceFilter, Coordinates
from dpledger.accounting.guarantees import GDP, ApproxDP, PureDP
from dpledger.accounting.planning.allotting import Allowance, allotted, require_certified
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.allowances import split
from dpledger.accounting.profile import compose
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from filter_games import FAILURE, UNIT, UNITS, Kept, cost, realised
from price_oracles import Move, best_attack, failing, lopsided, response

ADD = Relation.ADD_REMOVE
LAW = RandomizedResponseLaw(2 * UNITS)
DELTA = Decimal("0.05")


def rule(steps: int, epsilon_rest: Decimal, delta_rest: str = "0", *, law: Composition = LAW) -> AllowanceFilter:
    """An allowance of a law whose epsilon is just what the engine certifies at `DELTA`, and a rest."""
    upper = Decimal(compose((law, steps), relation=ADD).epsilon(DELTA).upper)
    found = AllowanceFilter(law, steps, f"{upper:.9f}", DELTA, epsilon_rest, delta_rest)
    more = AllowanceFilter(law, steps, found.epsilon_law + Decimal("1e-9"), DELTA, epsilon_rest, delta_rest)
    require_certified(more, ADD)
    return more


class State(NamedTuple):
    """The sums of the filter; of a run that is open how many steps it planned and how many it took."""

    sums: Kept
    planned: int = 0
    taken: int = 0


@dataclass(frozen=True)
class Scope:
    """The product's allowance as something to play against. Beside single mechanisms, a run of three copies may be
    opened, taken step by step with anything in between, and stopped: what was not granted comes back."""

    filter: AllowanceFilter

    def admit(self, state: State, move: Move) -> tuple[State, ...] | None:
        kind, *units = move.name.split()
        match kind:
            case "run":
                return None if state.planned else self._reserved(state, self._plan(3), planned=3)
            case "step":
                granted = state.taken < state.planned
                return (state._replace(taken=state.taken + 1),) * 2 if granted else None
            case "stop":
                return (self._stopped(state),) if state.taken else None
            case "copy":
                return self._reserved(state, self.charge(RandomizedResponseLaw(UNITS * int(units[0]))), outcomes=2)
            case _:
                return self._priced(state, kind, [int(size) for size in units])

    def charge(self, tree: Composition) -> Coordinates:
        return costs.charge(self.filter, tree, ADD)

    def _plan(self, times: int) -> Coordinates:
        return self.charge(Repeated(LAW, times=times))

    def _reserved(
        self, state: State, charged: Coordinates, *, outcomes: int = 1, planned: int | None = None
    ) -> tuple[State, ...] | None:
        sums = filters.with_charge(self.filter, dict(state.sums), charged)
        if not filters.admits(self.filter, sums):
            return None
        after = state._replace(sums=tuple(sums.items()))
        return (after if planned is None else after._replace(planned=planned, taken=0),) * outcomes

    def _stopped(self, state: State) -> State:
        reserved = self._plan(state.planned)
        ran = Repeated(LAW, times=state.planned, done=state.taken)
        sums = filters.without_charge(self.filter, dict(state.sums), reserved)
        settled = costs.settled(self.filter, reserved, ran, ADD)
        return State(tuple(filters.with_charge(self.filter, sums, settled).items()))

    def _priced(self, state: State, kind: str, sizes: list[int]) -> tuple[State, ...] | None:
        worst = UNITS * max(sizes)
        tree = ApproxDP(worst, FAILURE) if kind == "failing" else PureDP(worst)
        reserved = self.charge(tree)
        if self._reserved(state, reserved) is None:
            return None
        cap = cost(tree, self.filter)
        outcomes = [realised(cap, UNITS * size) for size in sizes] if kind == "refunded" else [cap] * 2
        if kind == "failing":
            outcomes.append(cap)
        settled = (filters.settle(self.filter, reserved, outcome) for outcome in outcomes)
        return tuple(
            state._replace(sums=tuple(filters.with_charge(self.filter, dict(state.sums), one).items()))
            for one in settled
        )

    def start(self) -> State:
        return State(tuple(filters.opening(self.filter).items()))


def moves(*names: str) -> tuple[Move, ...]:
    return tuple(Move(name, _outcomes(name)) for name in names)


def _outcomes(name: str) -> tuple[tuple[float, int], ...]:
    kind, *units = name.split()
    sizes = [int(size) for size in units]
    match kind:
        case "run" | "stop":
            return ((1.0, 0),)
        case "step":
            return response(2, UNIT)
        case "refunded":
            return lopsided(sizes[0], sizes[1], UNIT)
        case "failing":
            return failing(sizes[0], float(FAILURE), UNIT)
        case _:
            return response(sizes[0], UNIT)


RUNS = ("run", "step", "stop")


def attack(filter_: AllowanceFilter, names: tuple[str, ...], epsilon: Decimal) -> float:
    scope = Scope(filter_)
    return best_attack(scope, scope.start(), moves(*names), float(epsilon), UNIT)


# ---- what holds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("copy 2",), ("copy 2", *RUNS)], ids=" + ".join)
def test_with_an_empty_rest_no_delta_is_left_over(names: tuple[str, ...]) -> None:
    """Steps chosen one by one, in runs that are stopped and begun anew, reach just what one plan of them costs."""
    filter_ = rule(12, Decimal(0))
    reached = attack(filter_, names, filter_.epsilon)
    assert float(DELTA) * (1 - 1e-6) < reached <= float(DELTA)


@pytest.mark.parametrize(
    "names",
    [
        ("copy 2", "pure 2"),
        ("copy 2", "copy 1", "pure 1", "refunded 3 1"),
        (*RUNS, "copy 2", "refunded 1 3"),
        (*RUNS, "pure 1", "refunded 2 1"),
    ],
    ids=" + ".join,
)
def test_no_adaptive_analyst_gets_past_an_allowance_and_its_rest(names: tuple[str, ...]) -> None:
    filter_ = rule(8, 3 * UNITS)
    assert 0 < attack(filter_, names, filter_.epsilon) <= float(DELTA)


SQUARES = GDP("0.05")


@pytest.mark.parametrize("names", [("copy 2",), ("copy 1", "pure 4"), ("refunded 4 1", "copy 2")], ids=" + ".join)
def test_no_adaptive_analyst_gets_past_a_sum_of_squares(names: tuple[str, ...]) -> None:
    """What has a price in mu^2 counts as draws of a law of `gdp`, whatever it came to."""
    filter_ = rule(160, Decimal(0), law=SQUARES)
    assert 0.2 * float(DELTA) < attack(filter_, names, filter_.epsilon) <= float(DELTA)


def test_beside_a_sum_of_squares_failures_add_up_in_the_rest() -> None:
    filter_ = rule(400, 2 * UNITS, delta_rest="0.02", law=SQUARES)  # one failure fits
    reached = attack(filter_, ("copy 2", "failing 2"), filter_.epsilon)
    assert 0.02 < reached <= float(DELTA) + 0.02


class TwiceRho(Scope):
    """Counts twice rho for mu^2, as if everything were Gaussian noise."""

    def charge(self, tree: Composition) -> Coordinates:
        rho = costs.cost(tree, ADD).rho
        assert rho is not None
        return {**super().charge(tree), "copies": Decimal(math.ceil(2 * rho / Decimal("0.05") ** 2))}


def test_a_twin_that_takes_rho_for_half_of_mu_squared_is_broken() -> None:
    """One response of 0.5 tells more, near an epsilon of 0, than a Gaussian of the same rho."""
    filter_ = AllowanceFilter(SQUARES, 100, 0, "0.1975", "0.001")
    require_certified(filter_, ADD)
    for kind, broken in ((Scope, False), (TwiceRho, True)):
        scope = kind(filter_)
        reached = best_attack(scope, scope.start(), moves("copy 4"), float(filter_.epsilon), UNIT)
        assert (reached > 0.24) is broken
        assert broken or reached <= 0.1975


def test_failures_of_the_rest_add_up_to_at_most_their_share_of_delta() -> None:
    filter_ = rule(6, 4 * UNITS, delta_rest="0.05")  # two failures fit
    reached = attack(filter_, ("copy 2", "failing 1", "refunded 2 1"), filter_.epsilon)
    assert float(DELTA) < reached <= float(filter_.delta)


@pytest.mark.parametrize("names", [("copy 2", "refunded 3 1", "pure 1"), (*RUNS, "pure 2")], ids=" + ".join)
def test_a_reading_holds_wherever_the_analyst_stops(names: tuple[str, ...]) -> None:
    filter_ = rule(8, 3 * UNITS)
    scope = Scope(filter_)

    def read(state: State) -> float:
        return float(filters.reading(filter_, dict(state.sums), filter_.delta))

    assert best_attack(scope, scope.start(), moves(*names), read, UNIT) <= float(filter_.delta)


@pytest.mark.parametrize("delta", ["0.01", "0.02", "0.05", "0.07", "0.08", "0.1"])
def test_a_reading_below_the_delta_of_the_allowance_holds_too(delta: str) -> None:
    """That of the law is 0.05; two in a hundred fail of a move, and two of them are admitted."""
    filter_ = rule(6, 4 * UNITS, delta_rest="0.05")
    scope = Scope(filter_)

    def read(state: State) -> float:
        return float(filters.reading(filter_, dict(state.sums), Decimal(delta)))

    reached = best_attack(scope, scope.start(), moves("copy 2", "failing 1", "refunded 2 1"), read, UNIT)
    assert reached <= float(delta) + 1e-12
    assert (reached > 0) == (delta != "0.01")


def test_a_reading_of_an_allowance_is_finite_while_as_much_may_fail() -> None:
    filter_ = rule(6, 4 * UNITS, delta_rest="0.05")

    def read(copies: int, failed: str, delta: str) -> Decimal:
        sums = {"copies": (Decimal(copies), 0), "pure": (UNITS, 0), "delta": (Decimal(failed), 0)}
        return filters.reading(filter_, sums, Decimal(delta))

    assert read(0, "0.02", "0.02") == read(0, "0.04", "0.1") == UNITS
    assert read(2, "0.02", "0.07") == read(2, "0", "0.05") == filter_.epsilon_law + UNITS
    for copies, failed, delta in ((0, "0.02", "0.019"), (2, "0", "0.049"), (2, "0.02", "0.069"), (0, "0.02", "0.06")):
        assert read(copies, failed, delta).is_infinite()


@pytest.mark.parametrize("side", ["remove", "add"])
def test_leaves_on_samples_of_lower_rates_take_turns_with_the_law(side: str) -> None:
    law = PoissonSampled(RandomizedResponseLaw(1), rate="0.3")
    others = (
        PoissonSampled(RandomizedResponseLaw(1), rate="0.1"),
        PoissonSampled(RandomizedResponseLaw("0.6"), rate="0.25"),
    )
    assert all(split(law, other) == (1, None) for other in others)
    filter_ = allotted(Allowance(law, steps=7), ApproxDP(5, "0.02"), ADD)
    reached = best_of_pairs([pair(one, side) for one in (law, *others)], 7, float(filter_.epsilon_law))
    planned = best_of_pairs([pair(law, side)], 7, float(filter_.epsilon_law))
    assert reached == pytest.approx(planned, rel=1e-12)
    assert reached <= 0.02


# ---- what an allowance must not do -----------------------------------------------------------------------------------


def test_twin_a_a_stronger_leaf_as_one_copy() -> None:
    filter_, stronger = rule(6, Decimal(0)), RandomizedResponseLaw(3 * UNITS)
    assert split(LAW, stronger) == (0, stronger)

    class Twin(Scope):
        def charge(self, tree: Composition) -> Coordinates:
            return super().charge(LAW)

    twin = Twin(filter_)
    assert best_attack(twin, twin.start(), moves("copy 3"), float(filter_.epsilon), UNIT) > 2 * float(DELTA)
    assert attack(filter_, ("copy 3",), filter_.epsilon) == 0


def test_twin_b_the_rest_not_counted() -> None:
    """Whoever promises epsilon_law alone, or delta_law alone, promises too little."""
    epsilon, delta = rule(6, 6 * UNITS), rule(6, 4 * UNITS, delta_rest="0.08")
    assert attack(epsilon, ("copy 2", "pure 2"), epsilon.epsilon_law) > 1.5 * float(epsilon.delta)
    assert attack(delta, ("copy 2", "failing 1"), delta.epsilon) > 1.1 * float(delta.delta_law)


def test_twin_c_a_rate_above_the_law() -> None:
    law, above = (PoissonSampled(RandomizedResponseLaw(1), rate=rate) for rate in ("0.3", "0.4"))
    assert split(law, above) == (0, above)
    assert split(law, RandomizedResponseLaw(1)) == (0, RandomizedResponseLaw(1))
    filter_ = allotted(Allowance(law, steps=6), ApproxDP(5, "0.02"), ADD)
    assert best_of_pairs([pair(above, "remove")], 6, float(filter_.epsilon_law)) > 0.03


def test_twin_d_a_group_of_two_as_two_copies() -> None:
    """Two units at once move the mean twice as far: four copies, not two."""
    law, group = GaussianLaw(10), Group(GaussianLaw(10), k=2, relation=ADD)
    assert split(law, group) == (0, group)
    assert "pure" not in costs.charge(AllowanceFilter(law, 40, 9, "1e-3", 1), group, ADD)
    filter_ = allotted(Allowance(law, steps=40), ApproxDP(5, "1e-3"), ADD)
    groups = 20  # as two copies each
    assert gaussian_delta(math.sqrt(groups) * 2 / 10, float(filter_.epsilon_law)) > 5e-3
    assert gaussian_delta(math.sqrt(40) / 10, float(filter_.epsilon_law)) == pytest.approx(1e-3, rel=1e-6)


def test_twin_e_a_discrete_gaussian_of_greater_sigma() -> None:
    law, wider = DiscreteGaussianLaw("0.36", 1), DiscreteGaussianLaw("0.54", 1)
    assert split(law, wider) == (0, wider)
    epsilon = max((0.1 * k for k in range(1, 60)), key=lambda at: excess(0.54, at) - excess(0.36, at))
    assert excess(0.54, epsilon) - excess(0.36, epsilon) > 0.07


def test_reading_the_copies_used_so_far_is_unsound() -> None:
    """Their number is chosen as results come in: who stops where the path is lucky gets past what they would cost as a
    plan."""
    filter_ = rule(24, Decimal(0))
    scope = Scope(filter_)

    @functools.cache
    def planned(copies: int) -> float:
        return compose((LAW, copies), relation=ADD).epsilon(DELTA).upper if copies else 0.0

    def twin(state: State) -> float:
        return planned(int(dict(state.sums)["copies"][0]))

    assert best_attack(scope, scope.start(), moves("copy 2"), twin, UNIT) > 1.4 * float(DELTA)


def test_an_allowance_below_what_its_law_costs_is_refused() -> None:
    filter_ = rule(8, Decimal(0))
    short = AllowanceFilter(LAW, 9, filter_.epsilon_law, DELTA, 0)
    with pytest.raises(ParameterError, match=r"epsilon_law: expected at least .* 9 steps"):
        require_certified(short, ADD)


# ---- exact oracles ---------------------------------------------------------------------------------------------------


def pair(tree: Composition, side: str) -> tuple[tuple[float, float], ...]:
    """A sampled response: (mass, loss) of each outcome, with the unit against without it, or the other way round."""
    assert isinstance(tree, PoissonSampled)
    assert isinstance(tree.of, RandomizedResponseLaw)
    truth, rate = 1 / (1 + math.exp(-float(tree.of.epsilon))), float(tree.rate)
    without = (1 - truth, truth)
    mixed = tuple(rate * here + (1 - rate) * there for here, there in zip(without[::-1], without, strict=True))
    one, other = (mixed, without) if side == "remove" else (without, mixed)
    return tuple((p, math.log(p / q)) for p, q in zip(one, other, strict=True))


def best_of_pairs(pairs: list[tuple[tuple[float, float], ...]], steps: int, epsilon: float) -> float:
    """The delta of the best analyst who draws from any of the pairs, so often, as results come in."""

    @functools.cache
    def value(left: int, loss: float) -> float:
        best = max(0.0, -math.expm1(min(epsilon - loss, 1.0)))
        if left:
            for one in pairs:
                best = max(best, sum(mass * value(left - 1, round(loss + gain, 11)) for mass, gain in one))
        return best

    return value(steps, 0.0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Dong-Roth-Su 2022, Corollary 2.13."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def excess(sigma: float, epsilon: float) -> float:
    """The delta of one discrete Gaussian, shifted by 1, term by term."""

    def weight(k: int) -> float:
        return math.exp(-(k**2) / (2 * sigma**2))

    total = math.fsum(map(weight, range(-30, 31)))
    return math.fsum(max(0.0, weight(k) - math.exp(epsilon) * weight(k - 1)) for k in range(-30, 31)) / total
