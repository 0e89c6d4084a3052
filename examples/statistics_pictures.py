"""The picture of docs/statistics.md: how far off each statistic is, against epsilon, on made-up delays.

python statistics_pictures.py FOLDER     # a minute
"""

import sys
from pathlib import Path

import numpy as np
from plotting import figure_of, style

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded

ROWS, RUNS = 20_000, 60
EPSILONS = ("0.01", "0.03", "0.1", "0.3", "1")
QS = ("0.1", "0.25", "0.5", "0.75", "0.9")
LINES = {
    "mean": ("mean", "#0072b2", "-", "s"),
    "deviation": ("standard deviation", "#009e73", "-", "^"),
    "median": ("median", "#d55e00", "-", "D"),
    "one_by_one": ("the worst of five quantiles, one by one", "#999999", "--", "v"),
    "at_once": ("the worst of five quantiles, at once", "#cc79a7", "-", "P"),
}


def delays():
    """Minutes to a tenth, most near 0, some hours: made up."""
    rng = np.random.default_rng(20261128)
    return np.round(rng.normal(-5, 12, ROWS) + rng.exponential(30, ROWS) * (rng.random(ROWS) < 0.35), 1)


def errors(values, epsilon, seed):
    """How far off each statistic is, once."""
    at = {"lower": -60, "upper": 600}
    true = np.quantile(values, [float(q) for q in QS])

    def drawn(mechanism, *path):
        return mechanism.release(values, entropy=seeded(seed, *path)).value

    spread = drawn(dpl.Variance(epsilon=epsilon, **at), 1)
    share = str(float(epsilon) / len(QS))
    single = [drawn(dpl.Quantile(epsilon=share, q=q, grid="0.1", **at), 2, i) for i, q in enumerate(QS)]
    several = drawn(dpl.Quantiles(epsilon=epsilon, qs=QS, grid="0.1", **at), 3)
    return {
        "mean": abs(float(drawn(dpl.ClippedMean(epsilon=epsilon, **at), 4)) - values.mean()),
        "deviation": abs(spread.deviation - values.std()),
        "median": abs(drawn(dpl.Quantile(epsilon=epsilon, q="0.5", grid="0.1", **at), 5) - true[2]),
        "one_by_one": np.abs(single - true).max(),
        "at_once": np.abs(several - true).max(),
    }


def plot(folder):
    values = delays()
    figure = figure_of(6.5, 4.0)
    axes = figure.subplots()
    found = {epsilon: [errors(values, epsilon, run) for run in range(RUNS)] for epsilon in EPSILONS}
    for name, line in LINES.items():
        means = [np.mean([one[name] for one in found[epsilon]]) for epsilon in EPSILONS]
        print(name, [f"{mean:.3g}" for mean in means])
        axes.plot([float(epsilon) for epsilon in EPSILONS], np.maximum(means, 1e-3), **style(line))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("epsilon", fontsize=9)
    axes.set_ylabel("mean error, minutes", fontsize=9)
    axes.set_title(f"{ROWS:,} made-up delays between -60 and 600 minutes", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(Path(folder) / "statistics.png", dpi=120)


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip())
        return
    plot(sys.argv[1])


if __name__ == "__main__":
    main()
