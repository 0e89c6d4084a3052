"""How many runs an audit needs, how close its bound comes, how long it takes; beside a textbook baseline.

    python benchmarks/audit.py

The baseline is a plain ladder of one-sided thresholds with half the runs for choosing, and Clopper-Pearson limits from
scipy. Times are of this machine; the ratios travel better.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from dpledger.audit import audit_mechanism
from dpledger.audit.zoo import ZOO, Exhibit

SEEDS = 5
RUNS_TO_REFUTE = (100, 140, 200, 280, 400, 560, 800, 1_100, 1_600, 2_200, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400)
ALPHA = 0.05


def ours(shown: Exhibit, trials: int, seed: int) -> float:
    """The lower bound of one audit."""
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=True, seed=seed, progress=False
    )
    return float(result.epsilon_lower)


def baseline(shown: Exhibit, trials: int, seed: int) -> float:
    """The lower bound of the textbook ladder."""
    rng = np.random.default_rng(seed)
    left, right = (shown.mechanism(data, trials, rng) for data in (shown.left, shown.right))
    half, delta = trials // 2, float(shown.claim.delta) if shown.claim.kind == "approx_dp" else 0.0
    edges = np.quantile(np.concatenate([left[:half], right[:half]]), np.linspace(0.01, 0.99, 99))
    options = [(edge, sign, swap) for edge in edges for sign in (1, -1) for swap in (False, True)]

    def hits(part: slice, option: tuple[float, int, bool]) -> tuple[int, int]:
        edge, sign, swap = option
        x, y = (int(np.count_nonzero(sign * side[part] > sign * edge)) for side in (left, right))
        return (y, x) if swap else (x, y)

    chosen = max(options, key=lambda option: limit(*hits(slice(half), option), half, delta))
    return max(limit(*hits(slice(half, None), chosen), trials - half, delta), 0.0)


def limit(x: int, y: int, runs: int, delta: float) -> float:
    """log((p - delta)/q) at the Clopper-Pearson limits of scipy."""
    lower = beta.ppf(ALPHA / 2, x, runs - x + 1) if x else 0.0
    upper = beta.ppf(1 - ALPHA / 2, y + 1, runs - y) if y < runs else 1.0
    return math.log((lower - delta) / upper) if lower > delta else -math.inf


def runs_needed(shown: Exhibit, bound: Callable[[Exhibit, int, int], float]) -> int | None:
    """The fewest runs of the list at which every seed refutes the claim."""
    for trials in RUNS_TO_REFUTE:
        if all(bound(shown, trials, seed) > float(shown.claim.epsilon) for seed in range(SEEDS)):
            return trials
    return None


def timed(bound: Callable[[Exhibit, int, int], float], shown: Exhibit, trials: int) -> tuple[float, float]:
    """Mean lower bound and seconds an audit."""
    started = time.perf_counter()
    found: npt.NDArray[np.float64] = np.array([bound(shown, trials, seed) for seed in range(SEEDS)])
    return float(found.mean()), (time.perf_counter() - started) / SEEDS


def main() -> None:
    """Print the table."""
    titles = f"{'truth':>8}{'runs':>10}{'bound':>9}{'seconds':>9}{'baseline':>10}{'seconds':>9}{'time ratio':>12}"
    print(f"{'exhibit':34}{titles}")
    for name in ("laplace", "laplace_half_noise", "gaussian_half_noise", "sparse_vector_no_threshold_noise"):
        shown = ZOO[name]
        for trials in (10_000, 100_000, 1_000_000):
            (mine, seconds), (theirs, others) = (timed(bound, shown, trials) for bound in (ours, baseline))
            ratio = f"{others / seconds:.1f}x"
            numbers = (
                f"{shown.true_epsilon:8.3f}{trials:10,}{mine:9.4f}{seconds:9.2f}{theirs:10.4f}{others:9.2f}{ratio:>12}"
            )
            print(f"{name:34}{numbers}")
    print("\nruns a side until every one of five seeds refutes the claim:")
    for name in ("laplace_half_noise", "gaussian_half_noise", "scale_depends_on_data", "report_raw_value"):
        needed = [runs_needed(ZOO[name], bound) for bound in (ours, baseline)]
        words = [f"{count:,}" if count else f"more than {RUNS_TO_REFUTE[-1]:,}" for count in needed]
        print(f"{name:34} ours {words[0]:>12}   baseline {words[1]:>12}")


if __name__ == "__main__":
    main()
