"""How many runs a side an audit needs to refute, and how close its lower bound comes, beside the information limit.

    python benchmarks/audit.py [audits a row]

Black box: the engine sees outputs alone. `limit` is what no test beats in the mean, log(20) over the growth of the
projection of the exact laws; `fixed` is what the best single event, known beforehand, needs at a fixed number of runs.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import beta, laplace, norm

from dpledger.audit.evidence.edges import Edges, Regions, pure_or_approx
from dpledger.audit.evidence.projection import project
from dpledger.audit.evidence.wealth import Engine
from dpledger.audit.features.bank import bank
from dpledger.audit.outcomes.structure import Outcomes

Floats = npt.NDArray[np.float64]
Side = Callable[[np.random.Generator, int], Floats]
ALPHA = Fraction(1, 20)


@dataclass(frozen=True)
class Row:
    """A faulty mechanism, what it claims, and the targets. `masses`: of fine cells, on both sides."""

    name: str
    left: Side
    right: Side
    claim: Edges
    point: tuple[float, float]
    masses: tuple[Floats, Floats]
    mean: int
    most: int


def delta_of(epsilon: float, mu: float) -> float:
    """The profile of a Gaussian. Source: Balle-Wang 2018."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def profile(mu: float, *points: tuple[float, float]) -> Edges:
    """Eight knots a direction, and points."""
    top = float(brentq(lambda t: delta_of(t, mu) - 5e-5, 0, 20))
    return Edges.of_points([*((t, delta_of(t, mu)) for t in np.linspace(0, top, 8)), *points])


def masses(left: object, right: object, edges: Floats) -> tuple[Floats, Floats]:
    """Of the cells between edges."""
    cdfs = [np.concatenate([[0.0], law.cdf(edges), [1.0]]) for law in (left, right)]  # type: ignore[attr-defined]
    return np.maximum(np.diff(cdfs[0]), 1e-25), np.maximum(np.diff(cdfs[1]), 1e-25)


def with_atoms(cells: tuple[Floats, Floats], share: float) -> tuple[Floats, Floats]:
    """Cells of which `share` is moved to one atom a side."""
    p, q = ((1 - share) * side for side in cells)
    return np.append(p, [share, 1e-25]), np.append(q, [1e-25, share])


def shifted(draw: Callable[[np.random.Generator, int], Floats], by: float) -> Side:
    """Noise about a number."""
    return lambda rng, size: by + draw(rng, size)


def leaking(by: float, share: float) -> Side:
    """Laplace noise about a number, which is itself told with probability `share`."""
    return lambda rng, size: np.where(rng.random(size) < share, by, by + rng.laplace(0, 1, size))


def largest_of_five(query: float) -> Side:
    """The largest of five noisy answers."""
    return lambda rng, size: (query + rng.laplace(0, 2, (size, 5))).max(1)


class _Largest:
    """The law of the largest of five noisy answers."""

    def __init__(self, query: float) -> None:
        self.query = query

    def cdf(self, x: Floats) -> Floats:
        found: Floats = laplace(self.query, 2).cdf(x) ** 5
        return found


def rows() -> list[Row]:
    """The table of issue 22."""
    mu = float(brentq(lambda m: delta_of(1, m) - 1e-5, 0.05, 1))
    fine = np.linspace(-12, 14, 4_001)

    def half_laplace(rng: np.random.Generator, size: int) -> Floats:
        return rng.laplace(0, 0.5, size)

    def normal(rng: np.random.Generator, size: int) -> Floats:
        return rng.normal(0, 1, size)

    pure, point = pure_or_approx(1, 0), pure_or_approx(1, 1e-5)
    half = masses(norm(2 * mu), norm(0), fine)
    leak = with_atoms(masses(laplace(1), laplace(0), fine), 1e-3)
    top = masses(_Largest(1), _Largest(0), np.linspace(-10, 40, 4_001))
    return [
        Row("Laplace, half noise", shifted(half_laplace, 1), half_laplace, pure, (1, 0),
            masses(laplace(1, 0.5), laplace(0, 0.5), fine), 100, 180),
        Row("Gaussian, half sigma, (1, 1e-5)", shifted(normal, 2 * mu), normal, point, (1, 1e-5), half, 7_500, 13_000),
        Row("the same against its profile", shifted(normal, 2 * mu), normal, profile(mu, (1, 1e-5)), (1, 1e-5), half,
            450, 800),
        Row("Gaussian mu 1.1 claims GDP(1)", shifted(normal, 1.1), normal, profile(1), (4.377, 1e-5),
            masses(norm(1.1), norm(0), fine), 2_500, 4_500),
        Row("raw value once in 1,000", leaking(1, 1e-3), leaking(0, 1e-3), pure_or_approx(1, 1e-6), (1, 1e-6), leak,
            30_000, 50_000),
        Row("noisy max that reports the value", largest_of_five(1), largest_of_five(0), pure, (1, 0), top, 900, 1_600),
    ]  # fmt: skip


def limit(row: Row) -> float:
    """Pairs that no test beats in the mean."""
    p, q = (side[None] / side.sum() for side in row.masses)
    return math.log(20) / float(project(Regions.of([row.claim]), p, q, runs=10**9).growth[0])


def fixed(row: Row) -> float:
    """Runs a side at which the best event known beforehand refutes half of the time, by Clopper-Pearson limits."""
    order = np.argsort(-row.masses[0] / row.masses[1])
    p, q = (np.cumsum(side[order]) / side.sum() for side in row.masses)
    epsilon, delta = row.point
    for n in np.geomspace(20, 1e8, 300):
        lower = beta.ppf(0.025, np.maximum(n * p, 1e-9), n - n * p + 1)
        upper = beta.ppf(0.975, n * q + 1, np.maximum(n - n * q, 1e-9))
        if np.nanmax(lower - math.exp(epsilon) * upper - delta) > 0:
            return float(n)
    return math.inf


def outcomes(numbers: Floats) -> Outcomes:
    """Numbers as outcomes."""
    return Outcomes(len(numbers), {"output": numbers.reshape(-1, 1)}, {})


def audited(row: Row, seed: int, most: int, *, stop: bool = True) -> Engine:
    """One audit of at most so many runs a side."""
    rng, engine = np.random.default_rng(seed), Engine(row.claim, ALPHA, bank, point=row.point)
    while engine.pairs < most and not (stop and engine.refuted):
        plan = engine.plan()
        size = min(plan.runs[0], most - engine.pairs)
        engine.settle(plan.read(outcomes(row.left(rng, size))), plan.read(outcomes(row.right(rng, size))))
    return engine


def bounds() -> list[tuple[Row, float]]:
    """What lower bounds are measured on, with their truths."""
    mu, fine = float(brentq(lambda m: delta_of(1, m) - 1e-5, 0.05, 1)), np.zeros(1)

    def normal(rng: np.random.Generator, size: int) -> Floats:
        return rng.normal(0, 1, size)

    def noise(rng: np.random.Generator, size: int) -> Floats:
        return rng.laplace(0, 1, size)

    made = [Row("Laplace 1", shifted(noise, 1), noise, pure_or_approx(1, 0), (1, 0), (fine, fine), 0, 0)]
    truths = [1.0]
    for name, shift in (("Gaussian mu 1 at 1e-5", 1.0), ("half-sigma Gaussian", 2 * mu)):
        made.append(Row(name, shifted(normal, shift), normal, pure_or_approx(1, 1e-5), (1, 1e-5), (fine, fine), 0, 0))
        truths.append(float(brentq(lambda t, m=shift: delta_of(t, m) - 1e-5, 0, 20)))
    return list(zip(made, truths, strict=True))


def main(audits: int) -> None:
    """Print both tables."""
    print(f"{'runs a side':34}{'mean':>9}{'95 %':>9}{'target':>9}{'95 %':>9}{'limit':>9}{'fixed':>9}{'CPU s':>8}")
    for row in rows():
        started = time.process_time()
        stops = [audited(row, seed, 4 * row.most).refuted or 4 * row.most for seed in range(audits)]
        cpu = (time.process_time() - started) / audits
        ours = f"{np.mean(stops):9,.0f}{np.quantile(stops, 0.95):9,.0f}"
        print(
            f"{row.name:34}{ours}{row.mean:9,}{row.most:9,}{limit(row):9,.0f}{fixed(row):9,.0f}{cpu:8.2f}", flush=True
        )
    print(f"\n{'bound over truth':34}{'10^4':>9}{'10^5':>9}{'10^6':>9}{'CPU s':>8}   mean of 5")
    for row, truth in bounds():
        found = []
        for most in (10**4, 10**5, 10**6):
            started = time.process_time()
            found.append(
                np.mean([audited(row, seed, most, stop=False).epsilon_lower or 0.0 for seed in range(5)]) / truth
            )
        print(
            f"{row.name:34}" + "".join(f"{one:9.3f}" for one in found) + f"{(time.process_time() - started) / 5:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
