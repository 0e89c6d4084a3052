"""Groups of rows on Poisson samples, and the law that they read as, against an independent quadrature, enumerated
adversaries and dp_accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flint
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import dpledger as dpl
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.families.gaussian.mixture_loss import MixtureLoss
from dpledger.accounting.families.gaussian.mixtures import _exactly, _in_floats, in_samples
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.rules import cost
from dpledger.decimals import multiply, round_up
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from engine_oracles import flint_number, mp, real
from law_conformance import LawConformance, Transform
from leaf_conformance import hockey_stick, masses, normal_tail

pytestmark = pytest.mark.sliced

ADD, ZERO, REPLACE = Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
ORDERS = (Decimal(2), Decimal(16))
Real = Any


def sampled(noise: object, rate: object) -> dpl.PoissonSampled:
    return dpl.PoissonSampled(dpl.GaussianLaw(noise), rate=rate)  # type: ignore[arg-type]


def group(noise: object, rate: object, k: int, relation: Relation = ADD) -> dpl.Group:
    return dpl.Group(sampled(noise, rate), k=k, relation=relation)


# ---- the law, against mpmath ----------------------------------------------------------------------------------------


class Exact:
    """w_0 N(0, s^2) + sum w_j N(d_j, s^2) against N(0, s^2): tails by mpmath, moments by a fine sum in balls."""

    def __init__(self, sigma: object, shifts: tuple[Any, ...], weights: tuple[Fraction, ...]) -> None:
        self.sigma, self.rest = real(sigma), mp.mpf(1) - mp.fsum(map(rational, weights))
        self.places = [(real(d), rational(w)) for d, w in zip(shifts, weights, strict=True)]
        self.found: dict[Real, Real] = {}

    @staticmethod
    def of_group(noise: object, rate: str, k: int) -> Exact:
        q, every = Fraction(rate), range(1, k + 1)
        return Exact(noise, tuple(every), tuple(math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in every))

    def ratio(self, x: Real) -> Real:
        return self.rest + mp.fsum(w * mp.exp((d * x - d * d / 2) / self.sigma**2) for d, w in self.places)

    def moment(self, power: Real) -> Real:
        """E_{N(0, s^2)} ratio^power by the trapezoid rule, whose step is far finer than it need be."""
        if power not in self.found:
            self.found[power] = self._moment(mp.mpc(power))
        return self.found[power]

    def _moment(self, power: Real) -> Real:
        bits, flint.ctx.prec = flint.ctx.prec, 200
        try:
            s, largest = float(self.sigma), max(float(d) for d, _ in self.places)
            real_part, frequency = float(power.real), abs(float(power.imag))
            step = min(s, s * s / largest * 8 / (8 + frequency)) / 16
            low, high = sorted((0.0, real_part * largest))
            w, variance = flint_number.to_ball(power), flint_number.to_ball(self.sigma**2).real
            places = [(flint_number.to_ball(d).real, flint_number.to_ball(p).real) for d, p in self.places]
            rest, total = flint_number.to_ball(self.rest).real, flint.acb(0)
            for i in range(math.floor((low - 14 * s) / step), math.ceil((high + 14 * s) / step)):
                x = flint.arb(step) * i
                ratio = sum((p * ((d * x - d * d / 2) / variance).exp() for d, p in places), start=rest)
                total += (w * ratio.log() - x * x / (2 * variance)).exp()
            return flint_number(total * flint.arb(step) / (2 * flint.arb.pi() * variance).sqrt())
        finally:
            flint.ctx.prec = bits

    def delta(self, epsilon: Real, direction: str) -> Real:
        """The ratio rises with the outcome: one threshold."""
        target = mp.exp(epsilon if direction == "remove" else -epsilon)
        if target <= self.rest:
            return mp.mpf(0) if direction == "add" else 1 - mp.exp(epsilon)
        x, side = self._place(target), 1 if direction == "remove" else -1
        places = [(mp.mpf(0), self.rest), *self.places]
        mixed = mp.fsum(w * mp.erfc(side * (x - d) / self.sigma / mp.sqrt(2)) / 2 for d, w in places)
        without = mp.erfc(side * x / self.sigma / mp.sqrt(2)) / 2
        here, there = (mixed, without) if direction == "remove" else (without, mixed)
        return here - mp.exp(epsilon) * there

    def _place(self, target: Real) -> Real:
        low, high = mp.mpf(-1), mp.mpf(1)
        while self.ratio(low) > target:
            low *= 2
        while self.ratio(high) < target:
            high *= 2
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if self.ratio(middle) < target else (low, middle)
        return low


def rational(value: Fraction) -> Real:
    return mp.mpf(value.numerator) / value.denominator


class MixtureConformance(LawConformance):
    """A mixture in one direction, whose transform is integrated."""

    exact: Exact
    mixture: Mixture
    direction: Direction
    tilts = (0.3, 4.0, 9.5)

    @property
    def loss(self) -> MixtureLoss:  # type: ignore[override]
        return MixtureLoss(self.mixture, self.direction)

    @property
    def transform(self) -> Transform:  # type: ignore[override]
        return lambda z: self.exact.moment(z + 1 if self.direction == "remove" else -z)


def of_group(noise: str, rate: str, k: int) -> Mixture:
    return _in_floats(in_samples(1 / Fraction(noise) ** 2, Fraction(rate), k))


class TestThreeRowsRemoved(MixtureConformance):
    exact, mixture = Exact.of_group("2", "0.2", 3), of_group("2", "0.2", 3)
    direction: Direction = "remove"


class TestThreeRowsAdded(TestThreeRowsRemoved):
    direction = "add"


LISTED = dpl.planning.MixtureOfGaussiansLaw("1.3", ("0.5", "0.75", 2), ("0.25", "0.125", "0.625"))


class TestNothingAtZeroRemoved(MixtureConformance):
    exact = Exact("1.3", ("0.5", "0.75", "2"), (Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)))
    mixture = _in_floats(_exactly(LISTED))
    direction: Direction = "remove"


class TestNothingAtZeroAdded(TestNothingAtZeroRemoved):
    direction = "add"


SINGLE = [
    ("8", "0.01", 3),
    ("1", "0.005", 4),
    ("0.7", "0.3", 2),
    ("2", "1e-9", 8),
    ("5", "0.999", 5),
    ("0.4", "0.01", 6),
]


@pytest.mark.parametrize(("noise", "rate", "k"), SINGLE)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_step_is_the_closed_form(noise: str, rate: str, k: int, direction: Direction) -> None:
    profile, exact = dpl.compose(group(noise, rate, k), direction=direction), Exact.of_group(noise, rate, k)
    for epsilon in ("0", "0.001", "0.1", "0.7", "3", "12"):
        truth, bounds = exact.delta(real(epsilon), direction), profile.delta(epsilon)
        assert bounds.lower <= truth <= bounds.upper, epsilon
        assert bounds.upper - bounds.lower <= 1e-9 * bounds.upper + 1e-11
    for delta in ("1e-3", "1e-9", "1e-30"):
        bounds = profile.epsilon(delta)
        assert bounds.lower == 0 or exact.delta(real(bounds.lower), direction) >= real(delta) * (1 - mp.mpf("1e-12"))
        assert exact.delta(real(bounds.upper), direction) <= real(delta) * (1 + mp.mpf("1e-12"))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_steps_are_between_the_bounds(direction: Direction) -> None:
    """delta of two is the mean of that of the second, at what the first left: a sum over a fine grid."""
    exact, profile = Exact.of_group("1.5", "0.1", 2), dpl.compose((group("1.5", "0.1", 2), 2), direction=direction)
    bounds, truth, step = profile.delta("0.7"), mp.mpf(0), mp.mpf("0.1")
    with mp.workdps(15):
        for i in range(-120, 160):
            x = i * step
            ratio = exact.ratio(x)
            loss = mp.log(ratio) if direction == "remove" else -mp.log(ratio)
            mass = step * mp.npdf(x, 0, exact.sigma) * (ratio if direction == "remove" else 1)
            truth += mass * exact.delta(mp.mpf("0.7") - loss, direction)
    assert bounds.lower * (1 - 1e-9) <= truth <= bounds.upper * (1 + 1e-9)
    assert bounds.upper - bounds.lower <= 1e-4 * bounds.upper


# ---- many runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "rate", "k", "steps", "delta", "theirs"),
    [
        ("8", "0.01", 2, 200, "1e-6", "0.13348"),
        ("8", "0.01", 3, 200, "1e-6", "0.20598"),
        ("8", "0.01", 8, 200, "1e-6", "0.58847"),
        ("1", "0.005", 2, 1000, "1e-5", "1.85516"),
        ("1", "0.005", 4, 1000, "1e-5", "4.02858"),
    ],
)
def test_many_runs_are_what_others_find(noise: str, rate: str, k: int, steps: int, delta: str, theirs: str) -> None:
    bounds = dpl.compose((group(noise, rate, k), steps)).epsilon(delta)
    assert bounds.upper - bounds.lower <= 1e-7
    assert float(theirs) - 2e-5 <= bounds.lower <= bounds.upper <= float(theirs)


def test_others_bounds_from_above_and_from_below_hold_ours_between_them() -> None:
    shifts, weights = (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)
    law = dpl.planning.MixtureOfGaussiansLaw(4, shifts[1:], weights[1:])
    for pessimistic in (True, False):
        theirs = pld.from_mixture_gaussian_mechanism(
            4, shifts, weights, value_discretization_interval=5e-3, pessimistic_estimate=pessimistic
        )
        for runs in (1, 3, 20, 300):
            found = theirs.self_compose(runs).get_epsilon_for_delta(1e-5)
            ours = dpl.compose((law, runs)).epsilon("1e-5")
            assert ours.lower <= found + 1e-9 if pessimistic else found <= ours.upper + 1e-9


def test_a_group_of_one_is_the_tree() -> None:
    tree = sampled("1.1", "0.02")
    for relation in (ADD, ZERO):
        one = dpl.compose((dpl.Group(tree, k=1, relation=relation), 50), relation=relation)
        assert one.epsilon("1e-6") == dpl.compose((tree, 50), relation=relation).epsilon("1e-6")
        orders = (Decimal(2), Decimal(8))
        assert cost(dpl.Group(tree, k=1, relation=relation), relation, orders=orders) == cost(
            tree, relation, orders=orders
        )


def test_a_sample_of_one_place_is_the_sampled_gaussian() -> None:
    """Two laws, two programs: a mixture of one shift."""
    law = dpl.planning.MixtureOfGaussiansLaw("2.2", ("2",), ("0.03",))
    for runs in (1, 8, 400):
        one, other = (
            dpl.compose((law, runs)).epsilon("1e-6"),
            dpl.compose((sampled("1.1", "0.03"), runs)).epsilon("1e-6"),
        )
        assert max(one.lower, other.lower) <= min(one.upper, other.upper)
        assert abs(one.upper - other.upper) <= 1e-6 * one.upper


def test_a_sample_of_a_mixture_is_a_mixture() -> None:
    tree = dpl.PoissonSampled(dpl.planning.MixtureOfGaussiansLaw(2, (1, 2), ("0.5", "0.25")), rate="0.1")
    law = dpl.planning.MixtureOfGaussiansLaw(2, (1, 2), ("0.05", "0.025"))
    for runs in (1, 100):
        one, other = dpl.compose((tree, runs)).epsilon("1e-6"), dpl.compose((law, runs)).epsilon("1e-6")
        assert abs(one.upper - other.upper) <= 1e-9 * one.upper


def test_several_gaussians_on_one_batch_are_one() -> None:
    pair = dpl.PoissonSampled(dpl.Sequence((dpl.GaussianLaw(3), dpl.GaussianLaw(4))), rate="0.05")
    one = dpl.PoissonSampled(dpl.GaussianLaw("2.4"), rate="0.05")  # 1/9 + 1/16 = 1/2.4^2
    both = [dpl.compose((dpl.Group(tree, k=3, relation=ADD), 30)).epsilon("1e-6") for tree in (pair, one)]
    assert abs(both[0].upper - both[1].upper) <= 1e-9


def test_more_rows_lose_more_and_no_more_than_all_of_them_always() -> None:
    upper = [dpl.compose((group(2, "0.05", k), 20)).epsilon("1e-6").upper for k in (1, 2, 3, 5, 9)]
    assert upper == sorted(upper)
    whole = dpl.compose((dpl.Group(dpl.GaussianLaw(2), k=9, relation=ADD), 20)).epsilon("1e-6").upper
    assert upper[-1] < whole


# ---- adversaries ----------------------------------------------------------------------------------------------------


def enumerated(rows: list[tuple[float, ...]], rate: float, sigma: float) -> tuple[list[float], list[float]]:
    """Sums of secret samples of these rows, with noise in each coordinate, through the cells of a grid."""
    edges = [6 * sigma * (2 * i / 40 - 1) for i in range(41)]

    def cells(sums: tuple[float, ...]) -> list[float]:
        each = [masses(lambda t: normal_tail(t / sigma), edges, one) for one in sums]
        return [math.prod(cell) for cell in itertools.product(*each)]

    shown = [0.0] * 42 ** len(rows[0])
    for chosen in itertools.product((False, True), repeat=len(rows)):
        chance = math.prod(rate if inside else 1 - rate for inside in chosen)
        moved = tuple(
            math.fsum(row[i] for row, inside in zip(rows, chosen, strict=True) if inside) for i in range(len(rows[0]))
        )
        shown = [p + chance * q for p, q in zip(shown, cells(moved), strict=True)]
    return shown, cells((0.0,) * len(rows[0]))


ROWS: dict[str, list[tuple[float, ...]]] = {
    "the same": [(1.0,)] * 3,
    "opposed": [(1.0,), (-1.0,), (0.4,)],
    "across": [(1.0, 0.0), (0.0, 1.0), (0.6, 0.8)],
    "against one": [(-0.6, 0.8), (1.0, 0.0), (-1.0, 0.0)],
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_in_any_direction_show_at_most_the_mixture(name: str) -> None:
    pair = enumerated(ROWS[name], 0.3, 1.2)
    for direction in DIRECTIONS:
        profile = dpl.compose(group("1.2", "0.3", 3), direction=direction)
        here = pair if direction == "remove" else (pair[1], pair[0])
        for epsilon in (0.0, 0.2, 0.8, 1.5):
            shown, bounds = hockey_stick(here, epsilon), profile.delta(str(epsilon))
            assert shown <= bounds.upper + 1e-9
            assert name != "the same" or bounds.lower <= shown + 5e-3, "all in one direction attain it"


def test_an_adversary_who_looks_back_shows_at_most_two_steps() -> None:
    """Where the first answer is high the rows join, else they oppose each other, or fewer come."""
    first = enumerated([(1.0,)] * 2, 0.3, 1.2)
    half = len(first[0]) // 2
    seconds = [enumerated([(-1.0,), (1.0,)], 0.3, 1.2), enumerated([(1.0,)] * 2, 0.3, 1.2)]
    pair = tuple([p * q for i, p in enumerate(first[side]) for q in seconds[i >= half][side]] for side in (0, 1))
    profile = dpl.compose((group("1.2", "0.3", 2), 2))
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        for here in (pair, (pair[1], pair[0])):
            assert hockey_stick((here[0], here[1]), epsilon) <= profile.delta(str(epsilon)).upper + 1e-9


MUTANTS: dict[str, Callable[[], dpl.PoissonSampled]] = {
    "k rows as one row that comes k times as often": lambda: sampled("1.2", "0.9"),
    "k rows as one": lambda: sampled("1.2", "0.3"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_refuted_by_equal_rows(mutant: str) -> None:
    pair, profile = enumerated([(1.0,)] * 3, 0.3, 1.2), dpl.compose(MUTANTS[mutant]())
    assert any(
        hockey_stick(here, epsilon) > profile.delta(str(epsilon)).upper + 1e-3
        for here in (pair, (pair[1], pair[0]))
        for epsilon in (0.0, 0.2, 0.8, 1.5)
    )


# ---- prices ---------------------------------------------------------------------------------------------------------


def test_the_price_of_a_group_is_the_divergence_of_its_mixture() -> None:
    orders = (Decimal("1.5"), Decimal(2), Decimal(5))
    for of in (group(2, "0.1", 3), dpl.Group(dpl.PostProcessed(sampled(2, "0.1")), k=3, relation=ADD)):
        found = cost(of, ADD, orders=orders)
        exact = Exact.of_group("2", "0.1", 3)
        for order in orders:
            both = [mp.log(exact.moment(power).real) / (real(order) - 1) for power in (real(order), 1 - real(order))]
            price = found.rdp[order]
            assert price is not None
            assert max(both) <= real(price) <= max(both) * (1 + mp.mpf("1e-9"))
        assert (found.pure, found.rho, found.mu_squared) == (None, Decimal("1.125"), Decimal("2.25"))


def test_a_group_of_runs_costs_what_runs_of_the_group_cost() -> None:
    orders = ORDERS
    each = cost(group(2, "0.01", 4), ADD, orders=orders)
    assert cost(dpl.Repeated(group(2, "0.01", 4), times=100), ADD, orders=orders) == each.times(100)
    inside = dpl.Group(dpl.Repeated(sampled(2, "0.01"), times=100), k=4, relation=ADD)
    assert cost(inside, ADD, orders=orders).rdp == each.times(100).rdp
    several = dpl.Group(dpl.Sequence((sampled(2, "0.01"), sampled(3, "0.02"))), k=4, relation=ADD)
    parts = cost(group(2, "0.01", 4), ADD, orders=orders) + cost(group(3, "0.02", 4), ADD, orders=orders)
    assert cost(several, ADD, orders=orders).rdp == parts.rdp
    mixed = dpl.Group(dpl.Sequence((sampled(2, "0.01"), dpl.LaplaceLaw(1))), k=4, relation=ADD)
    whole = cost(mixed.of, ADD).rho
    assert whole is not None
    assert cost(mixed, ADD, orders=orders).rdp[Decimal(2)] == round_up(multiply(whole, 32)), "other noise beside it"


# ---- refused --------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dpl.Composition, Relation, str]] = {
    "a unit exchanged": (
        dpl.Group(group(2, "0.1", 3), k=2, relation=ADD),
        REPLACE,
        "no theorem gives this mixture_of_gaussians to a group of 2",
    ),
    "the law itself": (LISTED, REPLACE, "neither is 'with the unit'"),
    "other noise": (
        dpl.Group(dpl.PoissonSampled(dpl.LaplaceLaw(1), rate="0.1"), k=2, relation=ADD),
        ADD,
        "for Gaussian noise on Poisson samples only",
    ),
    "a batch of a fixed size": (
        dpl.Group(dpl.SampledWithoutReplacement(dpl.GaussianLaw(2), population=10, batch=2), k=2, relation=REPLACE),
        REPLACE,
        "for Gaussian noise on Poisson samples only",
    ),
    "a promise under zero_out": (
        dpl.Group(dpl.PoissonSampled(dpl.GDP(1), rate="0.1"), k=2, relation=ZERO),
        ZERO,
        "under zero_out is certified for Gaussian noise only, not for gdp",
    ),
    "many": (group(2, "0.1", 257), ADD, "up to 256 units, not for 257"),
    "dealt to steps": (dpl.RandomAllocation(LISTED, steps=3), ADD, "for Poisson samples only"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_theorem_covers_is_refused_by_name(name: str) -> None:
    tree, relation, words = REFUSED[name]
    with pytest.raises(CannotCertify, match=words):
        dpl.compose(tree, relation=relation)


@pytest.mark.parametrize(
    ("shifts", "weights"),
    [
        ((), ()),
        ((1, 1), ("0.1", "0.1")),
        ((2, 1), ("0.1", "0.1")),
        ((0, 1), ("0.1", "0.1")),
        ((1, 2), ("0.1",)),
        ((1, 2), ("0.1", 0)),
        ((1, 2), ("0.5", "0.500001")),
    ],
)
def test_a_mixture_that_is_none_is_refused(shifts: Any, weights: Any) -> None:
    with pytest.raises(ParameterError):
        dpl.planning.MixtureOfGaussiansLaw(1, shifts, weights)


def test_a_promise_of_gdp_is_grouped_as_its_gaussian() -> None:
    promised = dpl.Group(dpl.PoissonSampled(dpl.GDP("0.5"), rate="0.1"), k=3, relation=ADD)
    one, other = dpl.compose((promised, 9)).epsilon("1e-6"), dpl.compose((group(2, "0.1", 3), 9)).epsilon("1e-6")
    assert one == other
