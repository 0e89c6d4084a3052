"""On-average stability: closed cases, simulated runs, the estimator, and the twins that are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.errors import CannotCertify, ContractViolation, ParameterError
from dpledger.mechanisms.stability.on_average import (
    FirstMoment,
    MeanSquare,
    PublicPool,
    estimate_stability,
    mean_learner,
    radius,
)
from dpledger.mechanisms.stability.plans.sgd_stability import (
    Constant,
    Listed,
    Smooth,
    convex_first_moment,
    convex_mean_square,
    convex_sampled_mean_square,
    nonconvex_first_moment,
    strongly_convex_first_moment,
    strongly_convex_mean_square,
    strongly_convex_sampled_mean_square,
)

Floats = npt.NDArray[np.float64]
POINT = np.zeros(1)
LOSS = Smooth(lipschitz=1, smoothness=1)  # (theta - z)^2/2 on [0, 1]


def uniform(rng: np.random.Generator, n: int) -> Floats:
    return rng.random(n)


def constant(value: float) -> Callable[[Any], Floats]:
    return lambda grid: np.full(len(grid), value)


def mean(records: Floats, coins: int) -> Callable[[Any], Floats]:
    return constant(float(records.mean()))


def descent(step: float) -> Callable[[Floats, int], Callable[[Any], Floats]]:
    """One pass of gradient descent on (theta - z)^2/2, from 1/2."""

    def learner(records: Floats, coins: int) -> Callable[[Any], Floats]:
        theta = 0.5
        for z in records.tolist():
            theta -= step * (theta - z)
        return constant(theta)

    return learner


# ---- closed cases ---------------------------------------------------------------------------------------------------


def test_the_mean_learner_attains_steeles_inequality() -> None:
    found = mean_learner(50, variance=Fraction(1, 16))
    assert found.variance == pytest.approx(Decimal(1) / 16 / 50, rel=Decimal("1e-10"))
    uniform_ = mean_learner(50, variance="0.083333333333333333")
    assert float(uniform_.mu_squared) == pytest.approx(6.6667e-5, rel=1e-5)
    assert float(uniform_.variance) == pytest.approx(1.66667e-3, rel=1e-5)
    assert float(uniform_.radius) == pytest.approx(math.sqrt(2 * 50 * 2 / 12) / 50)


def test_a_first_moment_has_no_radius() -> None:
    """One-pass descent with step 0.1: the first moment falls like 1/n, the standard deviation not at all."""
    n, runs = 3200, 4000
    moment = (1 - 0.9**n) / 3 / n  # (1/n) sum of 0.1 0.9^(n-t) E|z - z'|
    spread = math.sqrt(0.1 / (2 - 0.1) / 12)
    false = math.sqrt(32 * n) * moment
    assert spread == pytest.approx(0.0662, abs=1e-4)
    assert false == pytest.approx(0.0333, abs=1e-3)
    rng = np.random.default_rng(7)
    theta = np.full(runs, 0.5)
    for _ in range(200):  # 0.9^200: what came before is forgotten
        theta -= 0.1 * (theta - rng.random(runs))
    strays = (np.abs(theta - 0.5) > false).mean()
    assert 0.5 < strays < 0.7  # not 1/4
    assert not hasattr(FirstMoment(samples=n, mean_move=Decimal(1)), "radius")
    honest = FirstMoment(samples=n, mean_move=Decimal(str(moment))).of_scores()
    assert (np.abs(theta - 0.5) > float(honest.radius)).mean() <= 0.25
    exact = 0.01 * (1 - 0.81**n) / (1 - 0.81) / 6 / n  # mu^2: 0.1^2 0.81^(n-t) E (z - z')^2
    assert n * exact / 2 == pytest.approx(spread**2)


# ---- the estimator --------------------------------------------------------------------------------------------------


def test_the_estimator_finds_the_mean_learners_stability() -> None:
    found = estimate_stability(mean, uniform, 50, POINT, repetitions=2000, seed=3)
    exact = float(mean_learner(50, variance="0.083333333333333333").mu_squared)
    assert found.mean_square[0] == pytest.approx(exact, rel=0.15)
    assert found.upper[0] >= exact
    assert found.first_moment[0] == pytest.approx(1 / 3 / 50, rel=0.1)
    assert found.limit.samples == 50
    assert found.words().startswith("At 50 records mu^2 is about ")


def test_the_upper_limit_holds_as_often_as_it_says() -> None:
    """A move is 1 with chance 2 p (1 - p), so that the truth is known; few repetitions, where it is hardest."""

    def first(records: Floats, coins: int) -> Callable[[Any], Floats]:
        return constant(float(records[0] < 0.1))

    truth = 2 * 0.1 * 0.9 / 2  # two records: the first of them is changed half of the time
    for beta in ("0.5", "0.05"):
        runs = [
            estimate_stability(first, uniform, 2, POINT, repetitions=60, seed=seed, beta=beta).upper[0]
            for seed in range(150)
        ]
        assert sum(upper < truth for upper in runs) <= float(beta) * 150
    assert np.mean([upper >= 1 for upper in runs]) < 0.5, "and says something"


def test_a_declared_bound_of_one_move_brings_the_limit_to_the_truth() -> None:
    """1/n of a mean: a limit of 1.2 times mu^2, where that without a bound is hundreds of times as large."""
    exact = float(mean_learner(50, variance="0.083333333333333333").mu_squared)
    run: dict[str, Any] = {"repetitions": 2000, "seed": 3}
    plain, declared = (estimate_stability(mean, uniform, 50, POINT, **run, most_move=most) for most in (1, "0.02"))
    assert plain.upper[0] > 50 * exact
    assert exact <= declared.upper[0] <= 1.5 * exact
    assert plain.mean_square == declared.mean_square
    assert (plain.most_move, declared.most_move) == (Decimal(1), Decimal("0.02"))
    assert "if no move is above the declared 0.02" in declared.words()
    assert "declared" not in plain.words()
    assert estimate_stability(mean, uniform, 50, POINT, repetitions=2, seed=3, most_move="0.02").upper[0] == (
        pytest.approx(0.02**2)
    ), "no square is above that of the bound"


def test_a_limit_under_a_declared_bound_holds_as_often_as_it_says() -> None:
    def first(records: Floats, coins: int) -> Callable[[Any], Floats]:
        return constant(0.25 * float(records[0] < 0.1))

    truth = 2 * 0.1 * 0.9 / 2 / 16
    for beta in ("0.5", "0.05"):
        asked: dict[str, Any] = {"repetitions": 60, "beta": beta, "most_move": "0.25"}
        runs = [estimate_stability(first, uniform, 2, POINT, seed=seed, **asked).upper[0] for seed in range(150)]
        assert sum(upper < truth for upper in runs) <= float(beta) * 150


def test_a_move_above_the_declared_bound_is_told() -> None:
    with pytest.raises(ContractViolation, match=r"further than most_move = 0\.001"):
        estimate_stability(mean, uniform, 50, POINT, repetitions=20, seed=3, most_move="0.001")
    for wrong in (0, -1, "1.1", "nan", "inf"):
        with pytest.raises(ParameterError, match="most_move"):
            estimate_stability(mean, uniform, 50, POINT, repetitions=20, seed=3, most_move=wrong)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 2**32))
def test_limits_are_maurer_and_pontils(repetitions: int, points: int, seed: int) -> None:
    seen: list[Floats] = []

    def spread(records: Floats, coins: int) -> Callable[[Any], Floats]:
        scores = np.random.default_rng([coins, int(records[0] * 1e9)]).random(points)
        seen.append(scores)
        return lambda grid: scores

    found = estimate_stability(spread, uniform, 2, np.zeros(points), repetitions=repetitions, seed=seed, beta="0.1")
    squares = (np.array(seen[::2]) - np.array(seen[1::2])) ** 2
    for point in range(points):
        column = [Fraction(float(one)) for one in squares[:, point]]
        average = sum(column, Fraction(0)) / repetitions
        variance = sum(((one - average) ** 2 for one in column), Fraction(0)) / (repetitions - 1)
        log = math.log(2 * points / 0.1)
        upper = float(average) + math.sqrt(2 * float(variance) * log / repetitions) + 7 * log / (3 * (repetitions - 1))
        assert found.upper[point] == pytest.approx(min(1.0, upper), rel=1e-6)
        assert found.upper[point] >= min(1.0, upper)


def test_both_runs_have_the_same_coins() -> None:
    """STBL-B1: a learner whose coins differ between the runs seems as unstable at any n, and exceeds its own bound."""

    def noisy(records: Floats, coins: int) -> Callable[[Any], Floats]:
        offset = float(np.random.default_rng(coins).random())
        return constant((float(records.mean()) + offset) / 2)

    fresh = iter(range(10**9))

    def careless(records: Floats, coins: int) -> Callable[[Any], Floats]:
        return noisy(records, next(fresh))

    shared, apart = (
        [estimate_stability(learner, uniform, n, POINT, repetitions=400, seed=5).mean_square[0] for n in (20, 80)]
        for learner in (noisy, careless)
    )
    assert shared[1] < shared[0] / 8
    assert apart[1] > apart[0] / 2
    bound = float(mean_learner(20, variance="0.25").mu_squared) / 4
    assert shared[0] < bound < apart[0]


def test_nothing_is_estimated_on_data_that_are_given() -> None:
    """STBL-B3: records come from a sampler alone. A pool is named as one, and its size is told."""
    pool = PublicPool(np.linspace(0, 1, 30))
    found = estimate_stability(mean, pool, 20, POINT, repetitions=10, seed=1)
    assert found.pool == 30
    assert "pool of 30 public records" in found.words()
    assert repr(pool) == "PublicPool(30 records)"
    with pytest.raises(ParameterError, match="n: expected fewer than the 30 records"):
        estimate_stability(mean, pool, 30, POINT, repetitions=10, seed=1)
    with pytest.raises(ParameterError, match="sampler"):
        estimate_stability(mean, np.zeros(100), 20, POINT, repetitions=10, seed=1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="records"):
        PublicPool([1, 2])  # type: ignore[arg-type]


def test_one_seed_gives_one_estimate() -> None:
    twice = [estimate_stability(mean, uniform, 5, POINT, repetitions=9, seed=11).upper for _ in range(2)]
    assert twice[0] == twice[1]


@pytest.mark.parametrize(
    ("learner", "sampler"),
    [
        (lambda records, coins: constant(1.5), uniform),
        (lambda records, coins: constant(math.nan), uniform),
        (lambda records, coins: lambda grid: np.zeros(3), uniform),
        (mean, lambda rng, n: rng.random(n - 1)),
    ],
    ids=["beyond 1", "no number", "three scores", "too few records"],
)
def test_code_that_breaks_its_contract_is_told(learner: Any, sampler: Any) -> None:
    with pytest.raises(ContractViolation):
        estimate_stability(learner, sampler, 5, POINT, repetitions=3, seed=0)


@pytest.mark.parametrize(
    ("field", "value"), [("n", 1), ("repetitions", 1), ("seed", -1), ("beta", 0), ("grid", np.zeros(0)), ("learner", 3)]
)
def test_bad_parameters_are_named(field: str, value: Any) -> None:
    asked: dict[str, Any] = {"learner": mean, "sampler": uniform, "n": 5, "grid": POINT, "repetitions": 3, "seed": 0}
    with pytest.raises(ParameterError, match=field):
        estimate_stability(**{**asked, field: value})


# ---- descent --------------------------------------------------------------------------------------------------------


def moved(step: Callable[[int], float], order: Callable[[np.random.Generator, int], Any], n: int, runs: int) -> Any:
    """Squares and sizes of the moves of descent on (theta - z)^2/2, one record drawn anew."""
    rng = np.random.default_rng(n)
    gaps = np.zeros(runs)
    for run in range(runs):
        records, other, place = rng.random(n), rng.random(), int(rng.integers(n))
        gap = 0.0
        for t, index in enumerate(order(rng, n).tolist(), start=1):
            eta = step(t)
            gap = (1 - eta) * gap + (eta * (other - records[place]) if index == place else 0.0)
        gaps[run] = gap
    return (gaps**2).mean(), np.abs(gaps).mean()


def in_turn(epochs: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: np.tile(np.arange(n), epochs)


def drawn(steps: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: rng.integers(n, size=steps)


@pytest.mark.parametrize("n", [10, 40])
def test_simulated_descent_stays_below_every_bound(n: int) -> None:
    """|z - z'| is at most 1 = L on [0, 1], where two gradients differ by no more: twice the bound is room."""
    square, size = moved(lambda t: 0.3, in_turn(2), n, 400)
    assert square <= convex_mean_square(LOSS, n, Constant("0.3", 2 * n)).mu_squared
    assert size <= convex_first_moment(LOSS, n, Constant("0.3", 2 * n)).mean_move
    assert size <= strongly_convex_first_moment(LOSS, n, 1, "0.3").mean_move
    square, size = moved(lambda t: 0.2, drawn(3 * n), n, 400)
    assert square <= convex_sampled_mean_square(LOSS, n, "0.2", 3 * n).mu_squared
    assert square <= strongly_convex_sampled_mean_square(LOSS, n, 1, "0.2").mu_squared
    square, _ = moved(lambda t: 1 / (t + 1), in_turn(3), n, 400)
    assert square <= strongly_convex_mean_square(LOSS, n, 1, 3).mu_squared


def test_bounds_of_moves_are_attained_by_signs() -> None:
    """A linear loss theta z, z = +1 or -1, unbounded: the convex bounds are then attained, and not only kept."""
    n, eta, steps = 7, Fraction(1, 10), 21
    worst = (2 * eta * (steps // n)) ** 2  # the record is exchanged for its negative, and used three times
    found = convex_mean_square(LOSS, n, Constant("0.1", steps)).mu_squared
    assert float(found) == pytest.approx(float(worst), rel=1e-9)
    hits = [math.comb(steps, k) * Fraction(1, n) ** k * Fraction(n - 1, n) ** (steps - k) for k in range(steps + 1)]
    exact = sum((4 * eta**2 * k**2 * chance for k, chance in enumerate(hits)), Fraction(0))
    sampled = convex_sampled_mean_square(LOSS, n, "0.1", steps).mu_squared
    assert float(sampled) == pytest.approx(float(exact), rel=1e-9)


def test_a_fixed_order_is_as_stable_as_a_random_one() -> None:
    """The reduction: over i.i.d. records, the mean over places equals the mean over orders, first record changed."""
    n, runs, eta = 6, 4000, 0.5
    rng = np.random.default_rng(2)
    by_place = np.mean([(eta * (1 - eta) ** (n - 1 - place)) ** 2 / 6 for place in range(n)])
    orders = [int(np.flatnonzero(rng.permutation(n) == 0)[0]) for _ in range(runs)]
    by_order = np.mean([(eta * (1 - eta) ** (n - 1 - place)) ** 2 / 6 for place in orders])
    assert by_order == pytest.approx(by_place, rel=0.1)


@given(st.integers(2, 10**6), st.integers(1, 10**6), st.sampled_from(["0.1", "0.5", "1", "3"]))
@settings(deadline=None)
def test_the_nonconvex_bound_is_the_least_over_whole_starts(n: int, steps: int, first: str) -> None:
    loss = Smooth(lipschitz=1, smoothness=2, prediction="0.5")
    found = float(nonconvex_first_moment(loss, n, first, steps).mean_move)
    starts = np.unique(np.clip(np.round(np.geomspace(1, n, 3000)), 1, n))
    growth = np.maximum(steps / starts, 1.0) ** (2 * float(first))
    every = starts / n + np.where(steps > starts, 0.5 / (n - 1) * growth, 0.0)
    assert found <= min(1.0, every.min()) * (1 + 1e-9) or found == pytest.approx(every.min(), rel=1e-2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: convex_first_moment(LOSS, 10, Constant("2.1", 10)),
        lambda: convex_mean_square(LOSS, 10, Listed(("0.1",) * 9 + ("2.01",))),
        lambda: convex_sampled_mean_square(LOSS, 10, 3, 10),
        lambda: strongly_convex_first_moment(LOSS, 10, "0.5", "1.01"),
        lambda: strongly_convex_sampled_mean_square(LOSS, 10, "0.5", "1.01"),
    ],
    ids=["convex", "listed", "sampled", "strongly convex", "strongly convex, sampled"],
)
def test_steps_beyond_their_theorem_are_not_certified(call: Callable[[], object]) -> None:
    with pytest.raises(CannotCertify, match="no theorem covers them"):
        call()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: convex_mean_square(LOSS, 10, Constant("0.1", 15)), "steps"),
        (lambda: convex_first_moment(LOSS, 1, Constant("0.1", 15)), "n"),
        (lambda: strongly_convex_mean_square(LOSS, 10, 2, 1), "convexity"),
        (lambda: strongly_convex_mean_square(LOSS, 10, 1, 0), "epochs"),
        (lambda: strongly_convex_first_moment(LOSS, 10, 1, 0), "step"),
        (lambda: nonconvex_first_moment(LOSS, 10, 0, 5), "first"),
        (lambda: Constant(0, 3), "size"),
        (lambda: Listed(()), "sizes"),
        (lambda: Listed((1, 0)), "sizes"),
        (lambda: Smooth(lipschitz=0, smoothness=1), "lipschitz"),
        (lambda: mean_learner(1, variance=1), "samples"),
    ],
    ids=[
        "epochs",
        "one record",
        "too convex",
        "no epoch",
        "no step",
        "no first",
        "size 0",
        "none",
        "a 0",
        "flat",
        "one",
    ],
)
def test_bad_settings_are_named(call: Callable[[], object], field: str) -> None:
    with pytest.raises(ParameterError, match=field):
        call()


@given(st.integers(2, 10**9), st.decimals("1e-9", "1", places=9))
def test_moments_are_rounded_up(n: int, square: Decimal) -> None:
    found = MeanSquare(samples=n, mu_squared=square)
    assert Fraction(found.mu) ** 2 >= Fraction(square)
    assert Fraction(found.radius) ** 2 >= 2 * n * Fraction(square)
    assert Fraction(radius(found.mu, n, factor=32)) >= 4 * Fraction(found.radius) * (1 - Fraction(1, 10**10))
