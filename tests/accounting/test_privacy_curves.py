"""Mechanisms known by their privacy curve: sound against the laws it was taken from, exact for a promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import UNIT, Rounding
from dpledger.accounting.composition import (
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.documents import parse_document, parse_tree
from dpledger.accounting.guarantees import ApproxDP, PrivacyCurve, PureDP
from dpledger.accounting.laws.curve import _pair, curve_bracket
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain
from engine_oracles import gaussian_delta, holds_epsilon, laplace_delta, mp, sampled_gaussian_delta
from seed_batches import over_seeds
from worst_functions import worst_functions

Profile = Callable[[Any], Any]


def decimal(number: Any, rounding: str, digits: int = 25) -> Decimal:
    return Context(prec=digits, rounding=rounding).create_decimal(mp.nstr(number, 50, min_fixed=0, max_fixed=0))


def curve_of(profile: Profile, epsilons: list[float], *, known: bool = True, digits: int = 25) -> PrivacyCurve:
    """The curve of a profile, each delta rounded up, and down."""
    exact = [max(profile(mp.mpf(epsilon)), mp.mpf(0)) for epsilon in epsilons]
    least = tuple(decimal(delta, ROUND_FLOOR, digits) for delta in exact) if known else ()
    return PrivacyCurve(
        tuple(Decimal(repr(epsilon)) for epsilon in epsilons),
        tuple(min(Decimal(1), decimal(delta, ROUND_CEILING, digits)) for delta in exact),
        least,
    )


def profile_of(pair: FinitePair, ratio: Any) -> Any:
    """sup_S P(S) - ratio Q(S), from the masses as they are."""
    terms = (mp.mpf(p) - ratio * mp.mpf(q) for p, q in zip(pair.left, pair.right, strict=True))
    return mp.mpf(pair.only_left) + mp.fsum(term for term in terms if term > 0)


def sampled(rate: float, sigma: float) -> tuple[Profile, Profile]:
    def at(direction: Any) -> Profile:
        return lambda epsilon: sampled_gaussian_delta(mp.mpf(rate), mp.mpf(sigma), epsilon, direction)

    return at("remove"), at("add")


# ---- the pairs ------------------------------------------------------------------------------------------------------


@over_seeds(40, 600)
def test_the_pairs_hold_the_profile_between_them(seed: int) -> None:
    """At any ratio, between the points, beyond them, and below 1."""
    rng = np.random.default_rng(seed)
    mu = math.exp(rng.uniform(-2, 1.2))
    profile: Profile = (
        (lambda e: gaussian_delta(mp.mpf(mu), e)) if seed % 2 else (lambda e: laplace_delta(mp.mpf(mu), e))
    )
    reach = mu * mu / 2 + 7 * mu if seed % 2 else mu
    epsilons = np.unique(rng.uniform(0, reach, int(rng.integers(1, 30)))).tolist()
    if rng.random() < 0.5:
        epsilons = [0.0, *epsilons]
    leaf = curve_of(profile, epsilons, digits=int(rng.integers(2, 20)))
    bracket = curve_bracket(leaf.epsilons, leaf.deltas, leaf.reached)
    for epsilon in [*rng.uniform(-reach, 1.5 * reach, 12).tolist(), *epsilons[:3]]:
        ratio = mp.exp(mp.mpf(epsilon))
        exact = profile(mp.mpf(epsilon))
        for pair, side in ((bracket.above, 1), (bracket.below, -1)):
            stated = 4 * mp.mpf(pair.mass_error) + max(pair.loss_errors)
            assert side * (profile_of(pair, ratio) - exact) >= -stated * (1 + ratio) * mp.mpf("1e-3") - stated * exact


@over_seeds(30, 300)
def test_a_promise_is_kept_by_the_pair_itself(seed: int) -> None:
    """The largest profile below any points is convex, falls, and is reached: delta of the pair is at most each point's,
    and equal where the points are convex."""
    rng = np.random.default_rng(seed)
    epsilons = np.cumsum(rng.exponential(0.4, 6)).tolist()
    deltas = rng.uniform(0, 0.6, 6)
    if seed % 3:  # else in any order: what holds for a smaller epsilon holds for a larger one
        deltas = np.sort(deltas)[::-1]
    deltas = deltas.tolist()
    leaf = PrivacyCurve(tuple(map(repr, epsilons)), tuple(map(repr, deltas)))
    bracket = curve_bracket(leaf.epsilons, leaf.deltas)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        ratio = mp.exp(mp.mpf(epsilon))
        assert profile_of(bracket.above, ratio) <= mp.mpf(delta) * (1 + mp.mpf("1e-12")) + mp.mpf("1e-15")
        assert profile_of(bracket.below, ratio) <= profile_of(bracket.above, ratio)
    for epsilon in rng.uniform(-4, 5, 8).tolist():
        at = mp.exp(mp.mpf(epsilon))
        above, below = profile_of(bracket.above, at), profile_of(bracket.below, at)
        assert below <= above <= below * (1 + mp.mpf("1e-11")) + mp.mpf("1e-14")
    for pair in (bracket.above, bracket.below):
        assert math.fsum([*pair.left, pair.only_left]) == pytest.approx(1, abs=1e-9)


@over_seeds(30, 400)
def test_whatever_the_points_the_bounds_are_in_order(seed: int) -> None:
    """Points of any size, in any order of delta, known from below or not: an interval, or no certificate."""
    rng = np.random.default_rng(seed)
    size, scale = int(rng.integers(1, 8)), 10 ** rng.uniform(-10, 2.7)
    epsilons = np.sort(rng.uniform(0, scale, size))
    epsilons[0] *= seed % 2
    deltas = 10 ** -rng.uniform(0, rng.choice([1, 5, 30]), size)
    deltas[rng.integers(size)] = rng.choice([0.0, 1.0, 0.5])
    written = tuple(f"{delta:.40f}" for delta in deltas)
    least = np.minimum.accumulate([float(delta) for delta in written]) * rng.choice([0, 0.5], size)
    reached = tuple(f"{delta:.40f}" for delta in least) if seed % 3 else ()
    try:
        profile = compose(Repeated(PrivacyCurve(tuple(map(repr, epsilons.tolist())), written, reached), times=3))
    except CannotCertify:
        return
    for delta in ("0", "1e-9", "0.01", "0.5", "1"):
        at = profile.epsilon(delta)
        assert 0 <= at.lower <= at.upper
    for epsilon in (0.0, 0.1 * scale, 2 * scale):
        of = profile.delta(epsilon)
        assert 0 <= of.lower <= of.upper <= 1


def test_one_point_is_what_the_worst_mechanism_of_it_has() -> None:
    for epsilon, delta in (("1", "1e-6"), ("0.1", "0"), ("3", "0.01")):
        for times, at in ((1, "0.02"), (3, "0.05"), (20, "0.3")):
            curve = compose(Repeated(PrivacyCurve((epsilon,), (delta,)), times=times)).epsilon(at)
            known = compose(Repeated(ApproxDP(epsilon, delta), times=times)).epsilon(at)
            assert curve.lower == pytest.approx(known.lower, rel=1e-8)
            assert curve.upper == pytest.approx(known.upper, rel=1e-8)
    assert compose(PrivacyCurve(("2",), ("0",))).epsilon(0).upper == pytest.approx(2, rel=1e-12)
    assert compose(PrivacyCurve(("2",), ("1e-3",))).epsilon("1e-4").upper == math.inf
    assert compose(PrivacyCurve(("2",), ("1e-3",))).epsilon("1e-3").upper <= 2 * (1 + 1e-12)


# ---- laws as black boxes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "times"), [(0.5, 1), (0.5, 4), (1.0, 2), (0.1, 30), (2.0, 3)])
def test_a_gaussian_as_a_black_box(mu: float, times: int) -> None:
    reach = mu * mu / 2 + 9 * mu
    leaf = curve_of(lambda e: gaussian_delta(mp.mpf(mu), e), np.linspace(0, reach, 400).tolist())
    whole = mp.mpf(mu) * mp.sqrt(times)
    for delta in ("1e-2", "1e-5", "1e-8"):
        at = compose(Repeated(leaf, times=times)).epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, lambda e: gaussian_delta(whole, e), mp.mpf(delta))
        assert at.upper - at.lower <= 5e-3 * at.upper


def test_more_points_narrow_and_fewer_widen() -> None:
    widths = []
    for points in (10, 40, 160):
        leaf = curve_of(lambda e: gaussian_delta(mp.mpf(1), e), np.linspace(0, 9, points).tolist())
        at = compose(Repeated(leaf, times=3)).epsilon("1e-6")
        assert holds_epsilon(at.lower, at.upper, lambda e: gaussian_delta(mp.sqrt(3), e), mp.mpf("1e-6"))
        widths.append(at.upper - at.lower)
    assert widths[0] > 4 * widths[1] > 16 * widths[2] > 0


def test_a_laplace_and_a_sampled_gaussian_as_black_boxes() -> None:
    epsilons = np.linspace(0, 1, 60).tolist()
    leaf = curve_of(lambda e: laplace_delta(mp.mpf(1), e), epsilons)
    for times in (1, 2, 5):
        found, known = (compose(Repeated(law, times=times)).epsilon("1e-4") for law in (leaf, LaplaceLaw(1)))
        assert found.lower <= known.upper
        assert known.lower <= found.upper
        assert found.upper - found.lower <= 2e-3 * found.upper
    remove, add = sampled(0.1, 1.0)
    points = np.linspace(0, 4, 120).tolist()
    above = curve_of(lambda e: max(remove(e), add(e)), points, known=False)
    below = curve_of(lambda e: min(remove(e), add(e)), points)
    leaf = PrivacyCurve(above.epsilons, above.deltas, below.reached)
    for times in (1, 4):
        known = compose(Repeated(PoissonSampled(GaussianLaw(1), rate="0.1"), times=times)).epsilon("1e-6")
        found = compose(Repeated(leaf, times=times)).epsilon("1e-6")
        assert found.lower <= known.upper
        assert known.lower <= found.upper


def test_what_is_not_reached_is_not_claimed() -> None:
    """Lower values that say nothing give a lower bound that says nothing; the upper bound stays."""
    leaf = PrivacyCurve(("0", "1"), ("0.3", "0.1"), ("0", "0"))
    at = compose(Repeated(leaf, times=3)).epsilon("0.4")
    assert at.lower == 0
    assert at.upper == compose(Repeated(PrivacyCurve(("0", "1"), ("0.3", "0.1")), times=3)).epsilon("0.4").upper


def test_beside_others_and_in_secret_batches() -> None:
    leaf = curve_of(lambda e: gaussian_delta(mp.mpf(1), e), np.linspace(0, 9, 200).tolist())
    pairs = (
        (Sequence((leaf, LaplaceLaw("0.5"))), Sequence((GaussianLaw(1), LaplaceLaw("0.5"))), Relation.ADD_REMOVE),
        (PoissonSampled(leaf, rate="0.1"), PoissonSampled(GaussianLaw(1), rate="0.1"), Relation.ADD_REMOVE),
        (RandomAllocation(leaf, steps=5), RandomAllocation(GaussianLaw(1), steps=5), Relation.ADD_REMOVE),
        (
            SampledWithoutReplacement(leaf, population=50, batch=5),
            SampledWithoutReplacement(GaussianLaw(2), population=50, batch=5),
            Relation.REPLACE_ONE,
        ),
    )
    for one, other, relation in pairs:
        found, known = (compose(tree, relation=relation).epsilon("1e-5") for tree in (one, other))
        assert found.lower <= known.upper
        assert known.lower <= found.upper
        assert found.upper - found.lower <= 2e-2 * found.upper


# ---- its place in the language --------------------------------------------------------------------------------------


def test_it_is_read_written_and_priced() -> None:
    leaf = PrivacyCurve(("0.5", "2"), ("1e-3", "1e-7"))
    assert parse_tree(plain(leaf)) == leaf
    document = parse_document({"relation": "add_remove", "entries": [{"count": 2, "mechanism": plain(leaf)}]})
    assert document.tree() == Sequence((Repeated(leaf, times=2),))
    price = cost(Sequence((leaf, PureDP(1))), Relation.ADD_REMOVE)
    assert price.pure == Decimal(3)
    assert price.delta == Decimal("1e-7")
    with pytest.raises(CannotCertify):
        compose(Shuffled(leaf, users=10), relation=Relation.REPLACE_ONE)
    with pytest.raises(CannotCertify):
        compose(PrivacyCurve(("601",), ("0",)))
    with pytest.raises(CannotCertify):
        compose(PrivacyCurve(("1", "1.0000000000001"), ("0.1", "0.1")))


@pytest.mark.parametrize(
    ("epsilons", "deltas", "reached", "field"),
    [
        ((), (), (), "epsilons"),
        (("1", "1"), ("0.1", "0.1"), (), "epsilons"),
        (("2", "1"), ("0.1", "0.1"), (), "epsilons"),
        (("-1",), ("0.1",), (), "epsilons"),
        (("nan",), ("0.1",), (), "epsilons"),
        (("inf",), ("0.1",), (), "epsilons"),
        (("1",), ("1.5",), (), "deltas"),
        (("1",), ("-0.1",), (), "deltas"),
        (("1", "2"), ("0.1",), (), "deltas"),
        (("1",), ("0.1",), ("0.2",), "reached"),
        (("1", "2"), ("0.1", "0.3"), ("0.05", "0.2"), "reached"),
        (("1", "2"), ("0.1", "0.05"), ("0.05",), "reached"),
    ],
)
def test_what_is_no_curve_is_refused(epsilons: Any, deltas: Any, reached: Any, field: str) -> None:
    with pytest.raises(ParameterError, match=field):
        PrivacyCurve(epsilons, deltas, reached)


@pytest.mark.parametrize("worst", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize("side", ["above", "below"])
def test_the_losses_of_a_polygon_are_logarithms_within_their_errors(side: Rounding, worst: int) -> None:
    """Of its ratios, each within a few roundings, from next to 1 to far out."""
    ratios, heights = np.append(1.0, 1 + np.geomspace(1e-3, 1e200, 39)), np.linspace(1, 0, 40) ** 2
    with worst_functions(worst):
        pair = _pair(ratios, heights, side)
    for ratio, loss, error in zip(ratios[1:], pair.losses[:39], pair.loss_errors[:39], strict=True):
        assert abs(mp.mpf(loss) - mp.log(mp.mpf(float(ratio)))) <= error <= 16 * UNIT * (1 + loss)
