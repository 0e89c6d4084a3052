"""Random finite pairs, sampled and turned, against exact enumeration at 60 digits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import DiscreteGaussianLaw, DiscreteLaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.enumeration import enumerated, ratios
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Direction, ListedLosses
from dpledger.accounting.profile import compose
from engine_oracles import Pair, finite_delta, holds_epsilon, mp, randomised_response, real
from seed_batches import over_seeds

pytestmark = pytest.mark.sliced


def counted_at(outcomes: ListedLosses, epsilon: float) -> Interval:
    """d(epsilon), by a sum over outcomes."""
    return at_one(functools.partial(ratios, outcomes, log_scale=0.0), epsilon)


def sampled(pair: Pair, rate: Any, direction: Direction) -> Pair:
    mixed = [((1 - rate) * q + rate * p, q) for p, q in pair]
    return mixed if direction == "remove" else [(q, p) for p, q in mixed]


def random_loss(rng: np.random.Generator) -> tuple[FiniteLoss, Pair]:
    """A pair of random distributions on 2 to 4 outcomes, as floats and exactly."""
    size = int(rng.integers(2, 5))
    p, q = (rng.dirichlet(np.ones(size) * rng.uniform(0.3, 3)) + 1e-9 for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    whole_p, whole_q = mp.fsum(map(mp.mpf, p)), mp.fsum(map(mp.mpf, q))
    exact = [(mp.mpf(a) / whole_p, mp.mpf(b) / whole_q) for a, b in zip(p, q, strict=True)]
    losses = np.array([float(mp.log(a / b)) for a, b in exact])
    errors = np.abs(losses) * 2.0**-52 + 2.0**-60
    return FiniteLoss(losses, p, errors, 2.0**-50, 0.0), exact


@over_seeds(25, 90)
def test_random_pairs_by_counting_and_by_contour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [(*random_loss(rng), int(rng.integers(1, 5))) for _ in range(int(rng.integers(1, 4)))]
    parts = tuple((loss, count) for loss, _, count in drawn)
    pairs = [(pair, count) for _, pair, count in drawn]

    def exact(epsilon: Any) -> Any:
        return finite_delta(pairs, epsilon)

    outcomes = enumerated(parts)
    assert outcomes is not None
    for epsilon in rng.uniform(-1, 6, 4):
        found = counted_at(outcomes, float(epsilon))
        assert found.lower <= exact(mp.mpf(float(epsilon))) <= found.upper
        assert found.upper - found.lower <= 1e-11 * found.upper + 1e-15
    delta = 10 ** rng.uniform(-12, -1)
    at = finite_epsilon(Composed(parts), math.log(delta), math.log(delta))
    assert holds_epsilon(at.lower, at.upper, exact, mp.mpf(delta))


@pytest.mark.parametrize("direction", ["add", "remove"])
@over_seeds(8, 100)
def test_sampled_worst_cases(seed: int, direction: Direction) -> None:
    """(eps, delta)-DP on a secret batch: the mixture outcome by outcome, infinite mass scaled by the rate."""
    rng = np.random.default_rng(500 + seed)
    e0, delta0, rate = f"{rng.uniform(0.1, 4):.3g}", f"{10 ** rng.uniform(-9, -4):.3g}", f"{rng.uniform(0.01, 0.9):.3g}"
    count = int(rng.integers(1, 6))
    pair = sampled(randomised_response(real(e0), real(delta0)), real(rate), direction)
    profile = compose(Repeated(PoissonSampled(ApproxDP(e0, delta0), rate=rate), times=count), direction=direction)
    check(profile.epsilon, lambda e: finite_delta([(pair, count)], e))


@pytest.mark.parametrize(("scale", "sensitivity"), [("0.7", "1"), ("3", "2"), ("5", "7.9")])
def test_discrete_laplace(scale: str, sensitivity: str) -> None:
    """From the probability mass function itself; a fractional sensitivity of a whole statistic is its floor."""
    shift, b = int(float(sensitivity)), real(scale)
    reach = range(-math.ceil(130 * float(b)), math.ceil(130 * float(b)) + shift)
    norm = mp.tanh(1 / (2 * b))
    pair = [(norm * mp.exp(-abs(k) / b), norm * mp.exp(-abs(k - shift) / b)) for k in reach]
    check(compose(DiscreteLaplaceLaw(scale, sensitivity)).epsilon, lambda e: finite_delta([(pair, 1)], e))


@pytest.mark.parametrize(("sigma", "shift"), [("0.6", 1), ("2.5", 4)])
def test_discrete_gaussian(sigma: str, shift: int) -> None:
    s2 = real(sigma) ** 2
    reach = range(-math.ceil(14 * float(sigma)), math.ceil(14 * float(sigma)) + shift)
    norm = mp.fsum(mp.exp(-mp.mpf(k * k) / (2 * s2)) for k in range(-160, 161))
    pair = [
        (mp.exp(-mp.mpf(k * k) / (2 * s2)) / norm, mp.exp(-mp.mpf((k - shift) ** 2) / (2 * s2)) / norm) for k in reach
    ]
    check(compose(DiscreteGaussianLaw(sigma, shift)).epsilon, lambda e: finite_delta([(pair, 1)], e))
    three = compose(Repeated(DiscreteGaussianLaw(sigma, shift), times=2)).epsilon("1e-5")
    assert holds_epsilon(three.lower, three.upper, lambda e: twice(pair, e), real("1e-5"))


def twice(pair: Pair, epsilon: Any) -> Any:
    """delta of two runs of a pair: E over the first run of the second's profile, through sorted tails."""
    return finite_delta([([(p * p2, q * q2) for p, q in pair for p2, q2 in pair], 1)], epsilon)


def test_mixed_kinds_by_enumeration() -> None:
    tree = Sequence(
        (ApproxDP("0.3", "1e-7"), Repeated(ApproxDP("0.11"), times=3), DiscreteLaplaceLaw(scale=2, sensitivity=1))
    )
    lap = mp.tanh(mp.mpf(1) / 4)
    lap_pair = [(lap * mp.exp(-abs(mp.mpf(k)) / 2), lap * mp.exp(-abs(mp.mpf(k - 1)) / 2)) for k in range(-300, 302)]
    merged = merge(lap_pair)
    pairs = [
        (randomised_response(real("0.3"), real("1e-7")), 1),
        (randomised_response(real("0.11")), 3),
        (merged, 1),
    ]
    check(compose(tree).epsilon, lambda e: finite_delta(pairs, e))


def merge(pair: Pair) -> Pair:
    """Outcomes of one likelihood ratio as one."""
    table: dict[str, tuple[Any, Any]] = {}
    for p, q in pair:
        key = mp.nstr(p / q, 30)
        a, b = table.get(key, (mp.mpf(0), mp.mpf(0)))
        table[key] = (a + p, b + q)
    return list(table.values())


def check(epsilon: Callable[..., Any], exact: Callable[[Any], Any]) -> None:
    for delta in ("0.1", "1e-3", "1e-6", "1e-10", "1e-16"):
        at = epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, exact, real(delta)), (delta, at)


@over_seeds(20, 200)
def test_rare_values_are_not_listed_and_added(seed: int) -> None:
    """A value with a mass below `rare` may have any loss: above it counts whole, below not at all."""
    rng = np.random.default_rng(seed)
    loss, pair = random_loss(rng)
    runs, rare = int(rng.integers(1, 5)), float(np.sort(loss.masses)[0]) * 1.001
    outcomes = enumerated(((loss, runs),), rare=rare)
    whole = enumerated(((loss, runs),))
    assert outcomes is not None
    assert whole is not None
    assert outcomes.losses.size < whole.losses.size
    for epsilon in rng.uniform(-1, 4, 4):
        found, full = (
            counted_at(outcomes, float(epsilon)),
            counted_at(whole, float(epsilon)),
        )
        exact = finite_delta([(pair, runs)], mp.mpf(float(epsilon)))
        assert found.lower <= exact <= found.upper
        assert found.lower <= full.upper
        assert found.upper - full.upper <= runs * rare * (1 + 1e-9)
