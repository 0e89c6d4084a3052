"""The engine beside its peers, in one process and at equal work: `python benchmarks/engine.py [--plots FOLDER]`.

Poisson-sampled Gaussians (noise multiplier, rate, steps, delta), both directions for each. For every library: the
median time, the interval (or the one-sided bound), its width or its error, and how many times slower it is than ours.
A lower bound above our upper bound, or an upper bound below our lower one, is marked UNSOUND: docs/peers.md. A peer
that does not import is left out. With `--plots`, time against steps and against distinct mechanisms, as pictures.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.accountant import Accountant
from dpledger.accounting.profile import compose

Interval = tuple[float, float]


@dataclass(frozen=True)
class Run:
    """DP-SGD: `steps` of a Gaussian of `sigma` on batches of rate `rate`; what is asked is epsilon at `delta`."""

    name: str
    sigma: float
    rate: float
    steps: int
    delta: float

    def tree(self) -> Composition:
        return Repeated(PoissonSampled(GaussianLaw(self.sigma), rate=self.rate), times=self.steps)


RUNS = (
    Run("A", 1.0, 0.01, 1000, 1e-5),
    Run("B", 0.8, 256 / 60000, 14063, 1e-5),
    Run("C", 1.1, 1e-3, 10**5, 1e-6),
    Run("D", 2.0, 0.05, 5000, 1e-8),
    Run("E", 0.6, 4096 / 1.3e6, 30000, 1e-7),
    Run("unsound", 2.0, 0.05, 5000, 1e-12),
    Run("far tail", 1.0, 0.01, 1000, 1e-30),
)


def ours(run: Run) -> Interval:
    at = compose(run.tree()).epsilon(run.delta)
    return at.lower, at.upper


def ours_checked(run: Run) -> Interval:
    """Confirmed in ball arithmetic (the extra `arb`)."""
    import flint  # noqa: F401

    at = compose(run.tree(), verify="arb").epsilon(run.delta)
    return at.lower, at.upper


def dp_accounting_default(run: Run) -> Interval:
    """The pessimistic estimate at the default grid of 1e-4: an upper bound only."""
    return -math.inf, _dp_accounting(run, 1e-4, pessimistic=True)


def dp_accounting_fine(run: Run) -> Interval:
    """The pessimistic estimate at a grid of 1e-5."""
    return -math.inf, _dp_accounting(run, 1e-5, pessimistic=True)


def dp_accounting_both(run: Run) -> Interval:
    """Optimistic and pessimistic at the default grid: an interval."""
    return _dp_accounting(run, 1e-4, pessimistic=False), _dp_accounting(run, 1e-4, pessimistic=True)


def _dp_accounting(run: Run, grid: float, *, pessimistic: bool) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = pld.from_gaussian_mechanism(
        run.sigma, sampling_prob=run.rate, value_discretization_interval=grid, pessimistic_estimate=pessimistic
    )
    return float(step.self_compose(run.steps).get_epsilon_for_delta(run.delta))


def prv_default(run: Run) -> Interval:
    """Lower and upper bound at the default error of 0.1; its pair is the one for add and remove together."""
    return _prv(run, 0.1)


def prv_fine(run: Run) -> Interval:
    """The same at an error of 1e-3."""
    return _prv(run, 5e-4)


def _prv(run: Run, error: float) -> Interval:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    accountant = PRVAccountant(
        prvs=[PoissonSubsampledGaussianMechanism(sampling_probability=run.rate, noise_multiplier=run.sigma)],
        max_self_compositions=[run.steps],
        eps_error=error,
        delta_error=run.delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta=run.delta, num_self_compositions=[run.steps])
    return float(lower), float(upper)


def opacus_rdp(run: Run) -> Interval:
    """Renyi differential privacy, the default of many a training loop: an upper bound only."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(run.sigma, run.rate, run.steps)]
    return -math.inf, float(accountant.get_epsilon(delta=run.delta))


PEERS: tuple[Callable[[Run], Interval], ...] = (
    ours_checked,
    dp_accounting_default,
    dp_accounting_both,
    dp_accounting_fine,
    prv_default,
    prv_fine,
    opacus_rdp,
)
SLOW = {"dp_accounting_fine", "prv_fine", "dp_accounting_both"}


def timed(work: Callable[[], Interval], repeats: int) -> tuple[float, Interval]:
    """Median seconds and the last result, after one run that is not counted."""
    result = work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def compared(runs: tuple[Run, ...], repeats: int, peers: tuple[Callable[[Run], Interval], ...]) -> None:
    for run in runs:
        print(f"\n{run.name}: sigma {run.sigma}, rate {run.rate:.6g}, {run.steps} steps, delta {run.delta}")
        seconds, truth = timed(lambda run=run: ours(run), repeats)
        _line("dpledger", seconds, truth, f"width {truth[1] - truth[0]:.1e}")
        for peer in peers:
            try:
                theirs, found = timed(lambda run=run, peer=peer: peer(run), 1 if peer.__name__ in SLOW else 3)
            except ImportError as error:
                print(f"  {peer.__name__:22} not installed ({error.name})")
                continue
            except (ValueError, RuntimeError) as error:
                print(f"  {peer.__name__:22} refuses: {str(error).splitlines()[0][:70]}")
                continue
            _line(peer.__name__, theirs, found, f"{_words(found, truth)}  {theirs / seconds:.0f}x")


def _words(found: Interval, truth: Interval) -> str:
    if found[1] < truth[0] or found[0] > truth[1]:
        return f"UNSOUND by {max(truth[0] - found[1], found[0] - truth[1]):.1e}"
    return (
        f"width {found[1] - found[0]:.1e}" if found[0] > -math.inf else f"upper bound only, {found[1] - truth[1]:+.1e}"
    )


def _line(name: str, seconds: float, found: Interval, words: str) -> None:
    low = f"[{found[0]:.10f}, " if found[0] > -math.inf else "[..., "
    print(f"  {name:22} {seconds * 1e3:9.2f} ms  {low}{found[1]:.10f}]  {words}")


# ---- other shapes of work -------------------------------------------------------------------------------------------


def distinct(count: int, seed: int) -> Composition:
    """So many sampled Gaussians, no two alike, twenty steps each."""
    rng = random.Random(seed)
    steps = (
        PoissonSampled(GaussianLaw(str(round(rng.uniform(0.8, 4), 6))), rate=str(round(rng.uniform(1e-4, 0.02), 7)))
        for _ in range(count)
    )
    return Sequence(tuple(Repeated(step, times=20) for step in steps))


def shapes(counts: tuple[int, ...]) -> None:
    print("\nother shapes of work, dpledger")
    mixed = Sequence((Repeated(GaussianLaw(20), times=50), Repeated(LaplaceLaw("0.05"), times=40), LaplaceLaw("0.3")))
    for name, tree in (("closed forms, mixed", mixed), ("Laplace 0.1 x 500", Repeated(LaplaceLaw("0.1"), times=500))):
        seconds, at = timed(lambda tree=tree: _epsilon(tree, 1e-6), 9)
        _line(name, seconds, at, f"width {at[1] - at[0]:.1e}")
    for count in counts:
        trees = iter([distinct(count, seed) for seed in range(3)])
        seconds, at = timed(lambda trees=trees: _epsilon(next(trees), 1e-5), 2)
        _line(f"{count} distinct, 20 each", seconds, at, f"width {at[1] - at[0]:.1e}")
    profile = compose(RUNS[0].tree())
    epsilons = [9.3 * i / 999 for i in range(1000)]
    seconds, _ = timed(lambda: (profile.deltas(epsilons)[0].lower, 0.0), 5)
    print(f"  {'1000 points, 30 decades':22} {seconds * 1e3:9.2f} ms")
    step = PoissonSampled(GaussianLaw(1), rate=0.01)
    accountant = Accountant(1e-5)
    accountant.append(step, 200)
    start = time.perf_counter()
    for _ in range(2000):
        accountant.append(step)
    print(f"  {'append, known step':22} {(time.perf_counter() - start) / 2000 * 1e3:9.3f} ms, amortised")


def _epsilon(tree: Composition, delta: float) -> Interval:
    at = compose(tree).epsilon(delta)
    return at.lower, at.upper


# ---- pictures -------------------------------------------------------------------------------------------------------


def draw(folder: Path) -> None:
    """`time_against_steps.png` and `time_against_distinct.png`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    for name, title, label, points in (
        ("time_against_steps.png", "DP-SGD, sigma 1, rate 0.01, delta 1e-5", "steps", _steps()),
        ("time_against_distinct.png", "distinct sampled Gaussians, 20 steps each", "distinct mechanisms", _many()),
    ):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        lines: dict[str, list[tuple[int, float]]] = {}
        for library, at, seconds in points:
            lines.setdefault(library, []).append((at, seconds * 1e3))
        for style, (library, line) in zip(("-", "--", ":"), lines.items(), strict=False):
            axes.loglog([at for at, _ in line], [ms for _, ms in line], style, marker="o", color="0.1", label=library)
        axes.set_title(title)
        axes.set_xlabel(label)
        axes.set_ylabel("milliseconds")
        axes.legend(frameon=False)
        figure.savefig(folder / name, dpi=144)
        print(f"drawn: {folder / name}")


def _steps() -> Iterator[tuple[str, int, float]]:
    libraries = (
        ("dpledger", ours, 10),
        ("dp_accounting", dp_accounting_default, 5),
        ("prv_accountant", prv_default, 4),
    )
    for name, library, most in libraries:
        for power in range(2, most + 1):
            run = Run("", 1.0, 0.01 if power <= 6 else 1e-4, 10**power, 1e-5)
            try:
                yield name, run.steps, timed(lambda run=run, library=library: library(run), 2)[0]
            except (ImportError, ValueError, RuntimeError):
                break


def _many() -> Iterator[tuple[str, int, float]]:
    for count in (1, 3, 10, 30, 100, 300, 1000):
        trees = iter([distinct(count, seed) for seed in range(3)])
        yield "dpledger", count, timed(lambda trees=trees: _epsilon(next(trees), 1e-5), 2)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="The engine beside its peers, in one process.")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="default settings of the peers only, two runs")
    parser.add_argument("--plots", type=Path, help="a folder for the pictures")
    words = parser.parse_args()
    quick: bool = words.quick
    peers = tuple(peer for peer in PEERS if not quick or peer.__name__ not in SLOW)
    compared((RUNS[0], RUNS[5]) if quick else RUNS, words.repeats, peers)
    shapes((10, 100) if quick else (10, 100, 1000))
    if words.plots is not None:
        draw(words.plots)


if __name__ == "__main__":
    main()
