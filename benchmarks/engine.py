"""The engine beside its peers, in one process: `python benchmarks/engine.py [--repeats N]`.

Poisson-sampled Gaussian (noise multiplier 1, rate 0.01, 1000 steps) at delta = 1e-5, both directions for each. Prints
the median time, the interval or the one-sided bound, and the ratio of times. A peer that does not import is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.profile import compose

SIGMA, RATE, STEPS, DELTA = 1.0, 0.01, 1000, 1e-5

Interval = tuple[float, float]


def ours() -> Interval:
    steps = Repeated(PoissonSampled(GaussianLaw(SIGMA), rate=RATE), times=STEPS)
    at = compose(steps).epsilon(DELTA)
    return at.lower, at.upper


def dp_accounting() -> Interval:
    """The pessimistic estimate at the default grid: an upper bound only."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = pld.from_gaussian_mechanism(SIGMA, sampling_prob=RATE)
    return 0.0, float(step.self_compose(STEPS).get_epsilon_for_delta(DELTA))


def prv_accountant() -> Interval:
    """Lower and upper bound at the default error of 0.1; its pair is the one for add and remove together."""
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    accountant = PRVAccountant(
        prvs=[PoissonSubsampledGaussianMechanism(sampling_probability=RATE, noise_multiplier=SIGMA)],
        max_self_compositions=[STEPS],
        eps_error=0.1,
        delta_error=DELTA / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta=DELTA, num_self_compositions=[STEPS])
    return float(lower), float(upper)


def timed(run: Callable[[], Interval], repeats: int) -> tuple[float, Interval]:
    """Median seconds and the last result, after one run that is not counted."""
    result = run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def main() -> None:
    parser = argparse.ArgumentParser(description="The engine beside its peers, in one process.")
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    seconds, (lower, upper) = timed(ours, repeats)
    print(f"dpledger        {seconds * 1e3:9.2f} ms  [{lower:.10f}, {upper:.10f}]  width {upper - lower:.1e}")
    for peer in (dp_accounting, prv_accountant):
        try:
            theirs, (low, high) = timed(peer, max(1, repeats // 5))
        except ImportError as error:
            print(f"{peer.__name__:15} not installed ({error.name})")
            continue
        width = f"width {high - low:.1e}" if low else f"upper bound only, {high - upper:+.1e} from ours"
        print(f"{peer.__name__:15} {theirs * 1e3:9.2f} ms  [{low:.6f}, {high:.6f}]  {width}  {theirs / seconds:.0f}x")


if __name__ == "__main__":
    main()
