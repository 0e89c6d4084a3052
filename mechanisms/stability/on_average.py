"""On-average stability: how much a prediction moves when one record of an i.i.d. sample is drawn anew.

D is n i.i.d. records, D^(i) the same with record i exchanged for an independent one, h the learner's prediction at x,
with the same coins in both runs. Two moments, which are kept apart:

    MeanSquare   mu^2 = sup over x of (1/n) sum over i of E (h_D(x) - h_D^(i)(x))^2    bounds the variance: n mu^2/2
    FirstMoment  g    = sup over x of (1/n) sum over i of E |h_D(x) - h_D^(i)(x)|      bounds no variance

Steele's inequality takes second moments; most published bounds for SGD are first moments (`plans/sgd_stability` has
both). A first moment read as a second is false: one-pass SGD with a constant step has g of order 1/n, and a standard
deviation that does not fall at all. The one conversion is mu^2 <= g, for scores in [0, 1].

`estimate_stability` draws everything that it looks at itself, from a sampler: public, synthetic or already privatised.

>>> mean_learner(50, variance="0.0833333333333").mu_squared
Decimal('0.0000666666666668')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.decimals import Number, read, round_up, text, whole
from dpledger.errors import ContractViolation, ParameterError

__all__ = [
    "FirstMoment",
    "MeanSquare",
    "PublicPool",
    "StabilityEstimate",
    "estimate_stability",
    "mean_learner",
    "radius",
]

Records: TypeAlias = npt.NDArray[Any]
Scores: TypeAlias = npt.NDArray[np.float64]
Predictor: TypeAlias = Callable[[Records], Scores]

MOST_SAMPLES = 10**18
MOST_REPETITIONS = 10**7
ROUNDING = 1e-9  # relative; above what sums of as many doubles lose
ROUNDING_OF_SCORES = 1e-12  # of the difference of two scores that are sums of some thousand doubles
ONE = Decimal(1)


def radius(mu: Decimal, samples: int, *, factor: int = 2) -> Decimal:
    """How far a score is from its mean at most, with probability at least 3/4: sqrt(factor n) mu, rounded up.

    Claim: for a MeanSquare mu at n samples with factor 2, without coins of the learner's own, or with coins for which
    the mean is taken. Source: docs/proofs/stability_utility.md, "Radius"; the published factor is 32."""
    with localcontext(outward.context()):
        return outward.above(Decimal(factor * samples).sqrt() * mu)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSquare:
    """mu^2 at `samples` samples, from above.

    >>> found = dpl.stability.MeanSquare(samples=50, mu_squared="0.0004")
    >>> found.mu_squared
    '0.0004'
    """

    samples: int
    mu_squared: Decimal

    @property
    def mu(self) -> Decimal:
        """The root, from above."""
        with localcontext(outward.context()):
            return outward.above(self.mu_squared.sqrt())

    @property
    def variance(self) -> Decimal:
        """Claim: a bound on the variance of the prediction. Source: Steele 1986, n mu^2/2."""
        with localcontext(outward.context()):
            return outward.above(self.mu_squared * self.samples / 2)

    @property
    def radius(self) -> Decimal:
        """How far the prediction strays, with probability 3/4."""
        return radius(self.mu, self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMoment:
    """g at `samples` samples, from above. It says nothing of the variance, and so has no radius.

    >>> found = dpl.stability.FirstMoment(samples=50, mean_move=Decimal("0.02"))
    >>> found.of_scores().mu
    Decimal('0.141421356238')
    """

    samples: int
    mean_move: Decimal

    def of_scores(self) -> MeanSquare:
        """What it says of scores in [0, 1], whose moves are at most 1: mu^2 <= g."""
        return MeanSquare(samples=self.samples, mu_squared=self.mean_move)


def mean_learner(samples: int, *, variance: Number) -> MeanSquare:
    """The learner that predicts the mean of its records: 2 s^2/n^2, with equality in the variance s^2/n.

    `samples`: 2 to 10^18; `variance`: s^2 of one record, not negative. ParameterError names what is out of range.

    >>> dpl.stability.mean_learner(50, variance="0.25").radius
    Decimal('0.141421356239')
    """
    n = whole(samples, field="samples", least=2, most=MOST_SAMPLES)
    spread = read(variance, field="variance")
    with localcontext(outward.context()):
        return MeanSquare(samples=n, mu_squared=outward.above(2 * spread / n**2))


# ---- the estimator --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PublicPool:
    """A sampler over finitely many public records, without replacement within a repetition: what is estimated is the
    stability on samples of this pool.

    >>> pool = dpl.stability.PublicPool(np.arange(100.0))
    >>> pool(np.random.default_rng(1), 3).shape
    (3,)
    """

    records: Records

    def __post_init__(self) -> None:
        if not isinstance(self.records, np.ndarray) or self.records.ndim < 1:
            raise ParameterError("records", type(self.records).__name__, "an array, one record a row")

    def __repr__(self) -> str:
        return f"PublicPool({len(self.records)} records)"

    def __call__(self, rng: np.random.Generator, n: int) -> Records:
        if n > len(self.records):
            raise ParameterError("n", n - 1, f"fewer than the {len(self.records)} records of the pool")
        drawn: Records = self.records[rng.choice(len(self.records), size=n, replace=False)]
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StabilityEstimate:
    """What `repetitions` pairs of runs showed, by point of the grid. `upper`: limits of mu^2 that hold at all points at
    once with probability at least 1 - beta, if no exchange of a record moves a score by more than `most_move`; `pool`:
    how many public records there were to draw from, None of a sampler without end.

    >>> def mean(records, coins):
    ...     return lambda grid: np.full(len(grid), records.mean())
    >>> public = dpl.stability.PublicPool(np.linspace(0, 1, 500))
    >>> found = dpl.stability.estimate_stability(mean, public, 50, np.zeros(1), repetitions=100, seed=1)
    >>> found.pool, found.repetitions, found.mean_square[0] < found.upper[0]
    (500, 100, True)
    """

    samples: int
    repetitions: int
    beta: Decimal
    mean_square: tuple[float, ...]
    upper: tuple[float, ...]
    first_moment: tuple[float, ...]
    most_move: Decimal
    pool: int | None

    @property
    def limit(self) -> MeanSquare:
        """The largest upper limit of the grid; of points that are not on it nothing is known."""
        return MeanSquare(samples=self.samples, mu_squared=round_up(max(self.upper)))

    def words(self) -> str:
        """The estimate in a few sentences."""
        from_pool = "" if self.pool is None else f" Drawn from a pool of {self.pool} public records."
        declared = "" if self.most_move == 1 else f", if no move is above the declared {text(self.most_move)}"
        return (
            f"At {self.samples} records mu^2 is about {max(self.mean_square):.3g}, and at most "
            f"{max(self.upper):.3g} with probability at least 1 - {self.beta} ({self.repetitions} pairs of runs, "
            f"{len(self.upper)} points{declared}); scores stray by {float(self.limit.radius):.3g} or less with "
            f"probability 3/4. The first moment is {max(self.first_moment):.3g}.{from_pool}"
        )


def estimate_stability(
    learner: Callable[[Records, int], Predictor],
    sampler: Callable[[np.random.Generator, int], Records],
    n: int,
    grid: Records,
    *,
    repetitions: int,
    seed: int,
    beta: Number = "0.05",
    most_move: Number = 1,
) -> StabilityEstimate:
    """The mean-square stability of `learner(records, coins) -> predictor` at n records, from pairs of runs on samples
    that differ in one record at a random place, with the same coins.

    `sampler(rng, m)` draws m independent records, one a row, from what is public. `predictor(grid)` gives a score in
    [0, 1] for each point of the grid. `most_move`, in (0, 1]: how far the exchange of one record moves a score at most,
    on any sample. The caller vouches for it (1/n for a mean of n numbers in [0, 1]): the limit shrinks
    with its square, and is far above mu^2 without it.
    Claim: `upper` bounds mu^2 at every point of the grid, with probability at least 1 - beta over the draws.
    Source: Maurer-Pontil 2009, Theorem 4, and a union over the grid; docs/proofs/stability_utility.md, "Estimates".
    Raises ParameterError naming the field; ContractViolation where the caller's code breaks its contract, or a score
    moves further than declared.

    >>> def mean(records, coins):
    ...     return lambda grid: np.full(len(grid), records.mean())
    >>> uniform = lambda rng, n: rng.random(n)
    >>> asked = {"repetitions": 100, "seed": 1}
    >>> found = dpl.stability.estimate_stability(mean, uniform, 50, np.zeros(1), **asked)
    >>> round(found.mean_square[0], 6), round(found.upper[0], 2)
    (7.8e-05, 0.09)
    >>> found = dpl.stability.estimate_stability(mean, uniform, 50, np.zeros(1), **asked, most_move="0.02")
    >>> round(found.upper[0], 6)
    0.000139
    """
    size = whole(n, field="n", least=2, most=MOST_SAMPLES)
    runs = whole(repetitions, field="repetitions", least=2, most=MOST_REPETITIONS)
    start, risk = whole(seed, field="seed"), read(beta, field="beta")
    if not 0 < risk < 1:
        raise ParameterError("beta", risk, "a number in (0, 1)")
    furthest = read(most_move, field="most_move")
    if not 0 < furthest <= 1:
        raise ParameterError("most_move", furthest, "a number in (0, 1], as scores are in [0, 1]")
    points = np.asarray(grid)
    if points.ndim < 1 or not len(points):
        raise ParameterError("grid", type(grid).__name__, "an array of at least one point")
    for name, code in (("learner", learner), ("sampler", sampler)):
        if not callable(code):
            raise ParameterError(name, code, "a function")
    moves = np.stack([
        _moves(learner, sampler, size, points, np.random.default_rng(child))
        for child in np.random.SeedSequence(start).spawn(runs)
    ])  # fmt: skip
    if (np.abs(moves) > float(furthest) * (1 + ROUNDING) + ROUNDING_OF_SCORES).any():
        raise ContractViolation(f"a score moved further than most_move = {text(furthest)}: the declared bound is wrong")
    squares = moves**2
    return StabilityEstimate(
        samples=size,
        repetitions=runs,
        beta=risk,
        mean_square=tuple(squares.mean(axis=0).tolist()),
        upper=tuple(_limits(squares, float(risk), float(furthest) ** 2).tolist()),
        first_moment=tuple(np.abs(moves).mean(axis=0).tolist()),
        most_move=furthest,
        pool=len(sampler.records) if isinstance(sampler, PublicPool) else None,
    )


def _moves(
    learner: Callable[[Records, int], Predictor],
    sampler: Callable[[np.random.Generator, int], Records],
    n: int,
    grid: Records,
    rng: np.random.Generator,
) -> Scores:
    drawn = np.asarray(sampler(rng, n + 1))
    if drawn.ndim < 1 or len(drawn) != n + 1:
        raise ContractViolation(f"the sampler was asked for {n + 1} records, one a row, and gave {drawn.shape}")
    place, coins = int(rng.integers(n)), int(rng.integers(2**63))
    changed = drawn[:n].copy()
    changed[place] = drawn[n]
    return _scores(learner(drawn[:n].copy(), coins), grid) - _scores(learner(changed, coins), grid)


def _scores(predictor: Predictor, grid: Records) -> Scores:
    scores = np.asarray(predictor(grid), dtype=np.float64)
    if scores.shape != (len(grid),) or not bool(((scores >= 0) & (scores <= 1)).all()):
        raise ContractViolation("a predictor gives one score in [0, 1] for each point of the grid")
    return scores


def _limits(squares: Scores, beta: float, most: float) -> Scores:
    """mean + sqrt(2 V log(2 G/beta)/R) + 7 most log(2 G/beta)/(3 (R - 1)), V the sample variance; at most `most`, which
    no square is above."""
    runs, points = squares.shape
    log = scalars.log(2 * points / beta)
    variance = squares.var(axis=0, ddof=1)
    found: Scores = squares.mean(axis=0) + np.sqrt(2 * variance * log / runs) + 7 * most * log / (3 * (runs - 1))
    return np.minimum(found, most) * (1 + ROUNDING)
