"""How many runs a side an audit needs to refute, how close its lower bound comes, and how fast it takes runs in.

    python benchmarks/audit.py [--audits 200] [--runs 100_000_000] [--json FILE]

Each audit is a call of `audit_mechanism` with default arguments: it sees outputs alone.

runs a side  until the claim falls: mean and 95th percentile of so many audits, and the two targets. `limit` is what no
             test beats in the mean, log(20) over the growth of the projection of the exact laws; `fixed` is what the
             best single event, known beforehand, needs at a fixed number of runs against the claim at its delta
bound        the mean lower bound of five audits over the truth
stream       so many runs of a vectorised Laplace: runs a second of CPU time, beside the sampling of it alone, and the
             memory that came on top of what a hundredth of the runs takes
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import comb
from scipy.stats import beta, laplace, norm

import dpledger as dpl
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.evidence.edges import Regions
from dpledger.audit.evidence.projection import project
from dpledger.audit.tested.claims import target
from dpledger.relations import Relation

Floats = npt.NDArray[np.float64]
Mechanism = Callable[[float, int, np.random.Generator], Floats]
LIMIT_95 = math.log(20)


@dataclass(frozen=True)
class Row:
    """A faulty mechanism on the data 1 and 0, what it claims, and the targets. `masses`: of fine cells, on both
    sides."""

    name: str
    mechanism: Mechanism
    claim: Guarantee
    masses: tuple[Floats, Floats]
    mean: int
    most: int


@dataclass(frozen=True)
class Stops:
    """When the audits of a row refuted. `unrefuted`: how many did not, within four times the target."""

    name: str
    audits: int
    mean: float
    percentile_95: float
    mean_target: int
    most_target: int
    limit: float
    fixed: float
    unrefuted: int
    cpu_seconds: float


@dataclass(frozen=True)
class Bound:
    """The mean lower bound of five audits of so many runs, over the truth."""

    name: str
    runs: int
    share: float
    cpu_seconds: float


@dataclass(frozen=True)
class Stream:
    """Many runs. Rates: runs of both sides a second of CPU time. `more_memory`: MiB."""

    runs: int
    rate: float
    sampling_rate: float
    more_memory: float


# ---- mechanisms and their laws ---------------------------------------------------------------------------------------


def delta_of(epsilon: float, mu: float) -> float:
    """The profile of a Gaussian. Source: Balle-Wang 2018."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def masses(left: object, right: object, edges: Floats) -> tuple[Floats, Floats]:
    """Of the cells between edges."""
    cdfs = [np.concatenate([[0.0], law.cdf(edges), [1.0]]) for law in (left, right)]  # type: ignore[attr-defined]
    return np.maximum(np.diff(cdfs[0]), 1e-25), np.maximum(np.diff(cdfs[1]), 1e-25)


def with_atoms(cells: tuple[Floats, Floats], share: float) -> tuple[Floats, Floats]:
    """Cells of which `share` is moved to one atom a side."""
    p, q = ((1 - share) * side for side in cells)
    return np.append(p, [share, 1e-25]), np.append(q, [1e-25, share])


def with_laplace(scale: float) -> Mechanism:
    """A number with Laplace noise."""
    return lambda data, size, rng: data + rng.laplace(0, scale, size)


def with_normal(mu: float) -> Mechanism:
    """A number with normal noise that is mu times too small to hide it."""
    return lambda data, size, rng: mu * data + rng.normal(0, 1, size)


def leaking(share: float) -> Mechanism:
    """A number with Laplace noise, which is itself told with probability `share`."""
    return lambda data, size, rng: np.where(rng.random(size) < share, data, data + rng.laplace(0, 1, size))


def largest_of_five(data: float, size: int, rng: np.random.Generator) -> Floats:
    """The largest of five noisy answers."""
    return np.asarray((data + rng.laplace(0, 2, (size, 5))).max(1))


class _Largest:
    """The law of the largest of five noisy answers."""

    def __init__(self, query: float) -> None:
        self.query = query

    def cdf(self, x: Floats) -> Floats:
        found: Floats = laplace(self.query, 2).cdf(x) ** 5
        return found


def first_of_nine(data: float, size: int, rng: np.random.Generator) -> Floats:
    """Which of nine queries passes the threshold first; 9: none. Source: Lyu-Su-Li 2017, algorithm 4, c = 1."""
    queries = np.array([1 - data] * 8 + [data])
    above = queries + rng.laplace(0, 4 / 3, (size, 9)) >= rng.laplace(0, 4, (size, 1))
    return np.where(above.any(1), above.argmax(1), 9).astype(np.float64)


def each_of_ten(data: float, size: int, rng: np.random.Generator) -> Floats:
    """Which of ten queries pass the threshold, however many. Source: Lyu-Su-Li 2017, algorithm 6."""
    queries = np.array([1 - data] * 5 + [data] * 5)
    return (queries + rng.laplace(0, 2, (size, 10)) >= rng.laplace(0, 2, (size, 1))).astype(np.float64)


def below(query: float, scale: float, threshold: Floats) -> Floats:
    """How often a noisy query stays below a threshold."""
    found: Floats = laplace(query, scale).cdf(threshold)
    return found


def over_thresholds(scale: float) -> tuple[Floats, Floats]:
    """Values of the threshold's noise, and their masses."""
    at = np.linspace(-60, 60, 240_001)
    return at, np.diff(laplace(0, scale).cdf(np.concatenate([[-np.inf], (at[1:] + at[:-1]) / 2, [np.inf]])))


def masses_of_nine(data: float) -> Floats:
    """The law of `first_of_nine`."""
    at, mass = over_thresholds(4)
    low, last = below(1 - data, 4 / 3, at), below(data, 4 / 3, at)
    halts = [(mass * low**k * (1 - low)).sum() for k in range(8)]
    return np.array([*halts, (mass * low**8 * (1 - last)).sum(), (mass * low**8 * last).sum()])


def masses_of_ten(data: float) -> Floats:
    """The law of how many of the first and of the last five pass in `each_of_ten`: the order among equals says
    nothing."""
    at, mass = over_thresholds(2)
    low, last = below(1 - data, 2, at), below(data, 2, at)

    def of_five(p: Floats, k: int) -> Floats:
        return np.asarray(comb(5, k) * p**k * (1 - p) ** (5 - k))

    return np.array([(mass * of_five(low, k) * of_five(last, m)).sum() for k in range(6) for m in range(6)])


def half_sigma() -> float:
    """The mu of a Gaussian that is just (1, 10^-5)."""
    return float(brentq(lambda m: delta_of(1, m) - 1e-5, 0.05, 1))


def rows() -> list[Row]:
    """The faulty mechanisms, each with the claim epsilon 1 unless said."""
    mu, fine = half_sigma(), np.linspace(-12, 14, 4_001)
    half, tenth = (masses(norm(shift), norm(0), fine) for shift in (2 * mu, 1.1))
    leak = with_atoms(masses(laplace(1), laplace(0), fine), 1e-3)
    top = masses(_Largest(1), _Largest(0), np.linspace(-10, 40, 4_001))
    pure, point = dpl.PureDP(1), dpl.ApproxDP(1, "1e-5")
    return [
        Row("Laplace, half noise", with_laplace(0.5), pure, masses(laplace(1, 0.5), laplace(0, 0.5), fine), 100, 180),
        Row("Gaussian, half sigma, (1, 1e-5)", with_normal(2 * mu), point, half, 7_500, 13_000),
        Row("the same against its profile", with_normal(2 * mu), dpl.GDP(f"{mu:.9f}"), half, 450, 800),
        Row("Gaussian mu 1.1 claims GDP(1)", with_normal(1.1), dpl.GDP(1), tenth, 2_500, 4_500),
        Row("raw value once in 1,000", leaking(1e-3), dpl.ApproxDP(1, "1e-6"), leak, 30_000, 50_000),
        Row("noisy max that reports the value", largest_of_five, pure, top, 900, 1_600),
        Row("sparse vector 4", first_of_nine, pure, (masses_of_nine(1), masses_of_nine(0)), 9_000, 16_000),
        Row("sparse vector 6", each_of_ten, pure, (masses_of_ten(1), masses_of_ten(0)), 500, 900),
    ]  # fmt: skip


# ---- what is measured ------------------------------------------------------------------------------------------------


def limit(row: Row) -> float:
    """Pairs that no test beats in the mean."""
    p, q = (side[None] / side.sum() for side in row.masses)
    edges = target(row.claim, None, Relation.ADD_REMOVE, None).edges
    return LIMIT_95 / float(project(Regions.of([edges]), p, q, runs=10**9).growth[0])


def fixed(row: Row) -> float:
    """Runs a side at which the best event known beforehand refutes half of the time, by Clopper-Pearson limits."""
    return min(_fixed(row.claim, row.masses), _fixed(row.claim, row.masses[::-1]))


def _fixed(claim: Guarantee, likely: tuple[Floats, ...]) -> float:
    """The same of events that are likelier on the first side."""
    order = np.argsort(-likely[0] / likely[1])
    p, q = (np.cumsum(side[order]) / side.sum() for side in likely)
    point = target(claim, None, Relation.ADD_REMOVE, None).point
    epsilon, delta = float(point.epsilon), float(point.delta)
    for n in np.geomspace(20, 1e8, 300):
        lower = beta.ppf(0.025, np.maximum(n * p, 1e-9), n - n * p + 1)
        upper = beta.ppf(0.975, n * q + 1, np.maximum(n - n * q, 1e-9))
        if np.nanmax(lower - math.exp(epsilon) * upper - delta) > 0:
            return float(n)
    return math.inf


def audited(
    mechanism: Mechanism, claim: Guarantee, seed: int, most: int, *, stop: bool = True
) -> dpl.results.AuditResult:
    """One audit of at most so many runs a side."""
    return dpl.audit_mechanism(
        mechanism, 1.0, 0.0, claim, trials=most, batched=True, seed=seed, stop_at_violation=stop, progress=False
    )


def stops_of(row: Row, audits: int) -> Stops:
    """When each of so many audits refuted."""
    started, most = time.process_time(), 4 * row.most
    found = [audited(row.mechanism, row.claim, seed, most).evidence.fell_after for seed in range(audits)]
    stops = [most if one is None else one for one in found]
    return Stops(
        row.name,
        audits,
        float(np.mean(stops)),
        float(np.quantile(stops, 0.95)),
        row.mean,
        row.most,
        limit(row),
        fixed(row),
        found.count(None),
        (time.process_time() - started) / audits,
    )


def bounds() -> list[tuple[str, Mechanism, Guarantee, float]]:
    """What lower bounds are measured on, with their truths."""
    made: list[tuple[str, Mechanism, Guarantee, float]] = [("Laplace 1", with_laplace(1), dpl.PureDP(1), 1.0)]
    for name, mu in (("Gaussian mu 1 at 1e-5", 1.0), ("half-sigma Gaussian", 2 * half_sigma())):
        truth = float(brentq(lambda t, m=mu: delta_of(t, m) - 1e-5, 0, 20))
        made.append((name, with_normal(mu), dpl.ApproxDP(1, "1e-5"), truth))
    return made


def bound_of(name: str, mechanism: Mechanism, claim: Guarantee, truth: float, runs: int) -> Bound:
    """The mean lower bound of five audits."""
    started = time.process_time()
    found = [float(audited(mechanism, claim, seed, runs, stop=False).epsilon_lower) for seed in range(5)]
    return Bound(name, runs, float(np.mean(found)) / truth, (time.process_time() - started) / 5)


def stream(runs: int) -> Stream:
    """So many runs of both sides together."""
    mechanism, claim = with_laplace(1), dpl.PureDP(1)
    audited(mechanism, claim, 1, runs // 200, stop=False)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    audited(mechanism, claim, 1, runs // 2, stop=False)
    taken, after = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng, size, sampled = np.random.default_rng(1), 2**16, max(runs // 10, 2**16)
    started = time.process_time()
    for _ in range(sampled // size):
        mechanism(0.0, size, rng)
    alone = (sampled // size) * size / (time.process_time() - started)
    return Stream(runs, runs / taken, alone, (after - before) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description="Audits beside the information limit.")
    parser.add_argument("--audits", type=int, default=200, help="of each row")
    parser.add_argument("--runs", type=int, default=100_000_000, help="of the stream, both sides together")
    parser.add_argument("--json", type=Path, help="a file for all rows")
    words = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {"stops": [], "bounds": [], "stream": []}
    heads = [
        ("mean", 9),
        ("95 %", 9),
        ("target", 9),
        ("95 %", 9),
        ("limit", 9),
        ("fixed", 12),
        ("none", 6),
        ("CPU s", 8),
    ]
    print(f"{'runs a side':33}" + "".join(f"{head:>{width}}" for head, width in heads))
    for row in rows():
        got = stops_of(row, words.audits)
        ours = f"{got.mean:9,.0f}{got.percentile_95:9,.0f}{got.mean_target:9,}{got.most_target:9,}"
        print(
            f"{row.name:33}{ours}{got.limit:9,.0f}{got.fixed:12,.0f}{got.unrefuted:6}{got.cpu_seconds:8.2f}", flush=True
        )
        found["stops"].append(asdict(got))
    print(f"\n{'bound over truth':34}{'runs':>12}{'share':>9}{'CPU s':>8}   mean of 5")
    for one in bounds():
        for runs in (10**4, 10**5, 10**6):
            bound = bound_of(*one, runs)
            print(f"{bound.name:34}{runs:12,}{bound.share:9.3f}{bound.cpu_seconds:8.2f}", flush=True)
            found["bounds"].append(asdict(bound))
    flow = stream(words.runs)
    print(
        f"\n{flow.runs:,} runs: {flow.rate:,.0f} a second, {flow.rate / flow.sampling_rate:.2f} of sampling alone",
        end="",
    )
    print(f" ({flow.sampling_rate:,.0f}); {flow.more_memory:.0f} MiB more than a hundredth of them took")
    found["stream"].append(asdict(flow))
    if words.json is not None:
        words.json.write_text(json.dumps(found, indent=1).replace("Infinity", "null") + "\n")


if __name__ == "__main__":
    main()
