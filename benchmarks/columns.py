"""Statistics of a column beside numpy, pandas, OpenDP and diffprivlib in one run: error at equal epsilon, and time.

    python benchmarks/columns.py [--rows 1000000 10000000] [--rounds 15] [--epsilon 1]

For each number of made-up rows (floats, normal, between 0 and 100) and statistic: the seconds of each library (the
best of the rounds, taken in turns, until a library took five seconds), how many times the time of numpy without noise
that is, and the mean error over the rounds; then each target with PASS or FAIL. Sums, means and variances are under
replace_one, where the number of rows is public, as OpenDP's of a known size and diffprivlib's are; quantiles under
add_remove, as OpenDP's. OpenDP's median is among 1,001 candidates, ours among the same; diffprivlib's is among real
numbers. Peers are in the extra `bench`, or beside it; without them, their columns are empty, and that is said.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import dpledger as dpl
from dpledger.mechanisms.entropy import system

try:
    import opendp.prelude as odp

    odp.enable_features("contrib")
except ImportError:
    odp = None
try:
    import diffprivlib.tools as dptools
except ImportError:
    dptools = None

Column = npt.NDArray[np.float64]
Answer = Callable[[], Any]

LOW, HIGH = 0.0, 100.0
QUANTILES = ("0.1", "0.25", "0.5", "0.75", "0.9")
SLOWEST = 8.0  # times numpy's sort or sum of clipped rows: the target, of the most rows
LONGEST = 5.0  # seconds after which a library is not run again
MOST_SORTED = 10**6  # rows of which diffprivlib is asked for five quantiles
RANGE = {"lower": 0, "upper": 100}
CHANGED = {**RANGE, "relation": dpl.Relation.REPLACE_ONE}


@dataclass(frozen=True, slots=True)
class Task:
    """A statistic: the answer without noise, and each library's."""

    name: str
    true: Any
    plain: Answer
    ours: Answer
    pandas: Answer | None = None
    opendp: Answer | None = None
    diffprivlib: Answer | None = None

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Of every library that is here."""
        every = {"plain": self.plain, "pandas": self.pandas, "ours": self.ours, "opendp": self.opendp}
        for name, answer in {**every, "diffprivlib": self.diffprivlib}.items():
            if answer is not None:
                yield name, answer


def tasks(rows: Column, epsilon: float) -> Iterator[Task]:
    """All of them, on these rows."""
    clipped, column = np.clip(rows, LOW, HIGH), pd.Series(rows)
    given = str(epsilon)

    def released(mechanism: Any, read: Callable[[Any], Any] = float) -> Answer:
        return lambda: read(mechanism.release(rows, entropy=system()).value)

    yield Task(
        "sum",
        clipped.sum(),
        lambda: np.clip(rows, LOW, HIGH).sum(),
        released(dpl.ClippedSum(given, **CHANGED)),
        lambda: column.clip(LOW, HIGH).sum(),
        opendp_of("sum", rows, epsilon),
        diffprivlib_of("sum", rows, epsilon),
    )
    yield Task(
        "mean",
        clipped.mean(),
        lambda: np.clip(rows, LOW, HIGH).mean(),
        released(dpl.ClippedMean(given, **CHANGED)),
        lambda: column.clip(LOW, HIGH).mean(),
        opendp_of("mean", rows, epsilon),
        diffprivlib_of("mean", rows, epsilon),
    )
    yield Task(
        "variance (ours with its mean)",
        clipped.var(),
        lambda: np.clip(rows, LOW, HIGH).var(),
        released(dpl.Variance(given, **CHANGED)),
        lambda: column.clip(LOW, HIGH).var(),
        opendp_of("variance", rows, epsilon),
        diffprivlib_of("var", rows, epsilon),
    )
    yield Task(
        "median",
        np.median(rows),
        lambda: np.sort(rows)[len(rows) // 2],
        released(dpl.Quantile(given, q="0.5", grid="0.1", **RANGE)),
        column.median,
        opendp_of("median", rows, epsilon),
        diffprivlib_of("median", rows, epsilon),
    )
    shares = [float(q) for q in QUANTILES]
    yield Task(
        "five quantiles (error: the worst)",
        np.quantile(rows, shares),
        lambda: np.sort(rows)[[int(share * len(rows)) for share in shares]],
        released(dpl.Quantiles(given, qs=QUANTILES, **RANGE), np.array),
        lambda: column.quantile(shares).to_numpy(),
        None,
        diffprivlib_of("quantiles", rows, epsilon),
    )


def opendp_of(name: str, rows: Column, epsilon: float) -> Answer | None:
    """OpenDP's, made beforehand; None where it is not here."""
    if odp is None:
        return None
    metric, entries = odp.symmetric_distance(), odp.atom_domain(T=float, nan=False)
    if name == "median":
        candidates, space = np.linspace(LOW, HIGH, 1001).tolist(), (odp.vector_domain(entries), metric)
        measurement = odp.binary_search_chain(
            lambda scale: space >> odp.m.then_private_quantile(odp.max_divergence(), candidates, 0.5, scale),
            d_in=1,
            d_out=epsilon,
        )
    else:
        sized = odp.vector_domain(entries, size=len(rows)), metric
        statistic = sized >> odp.t.then_clamp((LOW, HIGH)) >> getattr(odp.t, f"then_{name}")()
        measurement = odp.binary_search_chain(
            lambda scale: statistic >> odp.m.then_laplace(scale), d_in=2, d_out=epsilon
        )
    return lambda: measurement(rows)


def diffprivlib_of(name: str, rows: Column, epsilon: float) -> Answer | None:
    """diffprivlib's; None where it is not here, or takes minutes."""
    if dptools is None or (name == "quantiles" and len(rows) > MOST_SORTED):
        return None
    given = {"epsilon": epsilon, "bounds": (LOW, HIGH)}
    if name == "quantiles":
        shares = [float(q) for q in QUANTILES]
        return lambda: dptools.quantile(rows, shares, **given)
    return lambda: getattr(dptools, name)(rows, **given)


def measured(task: Task, rounds: int) -> dict[str, tuple[float, float]]:
    """Of each library the best time and the mean error."""
    times: dict[str, list[float]] = {name: [] for name, _ in task.answers()}
    errors: dict[str, list[float]] = {name: [] for name in times}
    for _ in range(rounds):
        for name, answer in task.answers():
            if sum(times[name]) > LONGEST:
                continue
            begun = time.perf_counter()
            found = answer()
            times[name].append(time.perf_counter() - begun)
            errors[name].append(float(np.abs(np.asarray(found) - task.true).max()))
    return {name: (min(times[name]), float(np.mean(errors[name]))) for name in times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--epsilon", type=float, default=1.0)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", module="diffprivlib")
    for name, library in (("OpenDP", odp), ("diffprivlib", dptools)):
        if library is None:
            print(f"{name} is not installed: its columns are empty")
    missed = []
    for many in asked.rows:
        rows = np.random.default_rng(20261128).normal(55, 15, many)
        print(f"\n{many:,} rows, epsilon {asked.epsilon:g}: seconds (times numpy's), mean error")
        for task in tasks(rows, asked.epsilon):
            found = measured(task, asked.rounds)
            base = found["plain"][0]
            told = [f"{name} {s:.3f} ({s / base:.1f}) {error:.3g}" for name, (s, error) in found.items()]
            print(f"  {task.name}: " + " | ".join(told))
            if many == max(asked.rows) and found["ours"][0] > SLOWEST * base:
                missed.append(f"{task.name} of {many:,} rows takes {found['ours'][0] / base:.1f} times numpy's time")
    print(f"\nwithin {SLOWEST:g} times numpy's time: {'FAIL: ' + '; '.join(missed) if missed else 'PASS'}")


if __name__ == "__main__":
    main()
