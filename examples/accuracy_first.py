"""How much privacy does a given accuracy take? The experiment of "Accuracy First" (Ligett et al. 2017) on made-up data.

For each target of the excess risk: what noise reduction (AccuracyFirst) is charged in the end, what doubling takes
(fresh noise at epsilons that double, a noisy check of each), and at which epsilon a utility theorem promises the
target. The many runs are simulated with numpy's noise; one run at the end is real, in a ledger.

    python accuracy_first.py                 # small: n = 5,000, a few seconds; --json, --plot accuracy.png
    python accuracy_first.py --full          # n = 100,000, up to 1,000 levels: the settings of the paper, minutes
"""

import argparse
import json
import math
import os
from decimal import Decimal

# matrices are small: threads would wait for each other
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

import dpledger as dpl  # noqa: E402
from dpledger.mechanisms.refinement.erm import problem  # noqa: E402
from dpledger.mechanisms.refinement.examples import Shape, bounded  # noqa: E402
from dpledger.mechanisms.refinement.planning import calibrated, theories  # noqa: E402

SIZES = {"ridge": 77, "logistic": 28}
REGULARISATION, BETA, SEED = "0.005", 0.1, 20261122


def twitter_like(n, rng):
    """Eleven attributes on seven days, and the activity of the eighth day."""
    g = rng.normal(0, 1.2, n)
    days = [rng.normal(size=n)]
    while len(days) < 8:
        days.append(0.8 * days[-1] + 0.6 * rng.normal(size=n))
    means, loads = np.linspace(1, 4, 11), np.linspace(0.6, 1.3, 11)
    columns = [
        np.log1p(np.exp(mean + load * (g + 0.5 * day) + 0.5 * rng.normal(size=n)))
        for mean, load in zip(means, loads, strict=True)
        for day in days[:7]
    ]
    labels = np.log1p(np.exp(2.5 + 1.2 * (g + 0.5 * days[7]) + 0.4 * rng.normal(size=n))) / 5
    return np.stack(columns, axis=1) / 200, np.clip(labels, -1, 1)


def kdd_like(n, rng, size=SIZES["logistic"]):
    """Connections of two classes: magnitudes, flags and rates, which the classes move by unlike amounts."""
    labels = np.where(rng.random(n) < 0.8, 1.0, -1.0)
    apart = rng.uniform(-1, 1, size)
    flags = min(10, size // 3)
    columns = []
    for j in range(size):
        shift = apart[j] * labels
        if j < 3:
            columns.append(np.clip(0.4 + 0.25 * shift + 0.15 * rng.normal(size=n), 0, 1))
        elif j < 3 + flags:
            columns.append((rng.random(n) < 0.5 + 0.45 * shift).astype(float))
        else:
            columns.append(rng.beta(2 + 1.8 * shift, 2 - 1.8 * shift))
    return np.stack(columns, axis=1) / (0.55 * size), labels


def solved(family, n, rng):
    data = twitter_like(n, rng) if family == "ridge" else kdd_like(n, rng)
    risk = problem(family, rows=n, dimension=SIZES[family], regularisation=Decimal(REGULARISATION), radius="reference")
    shape = Shape(rows=n, dimension=SIZES[family], feature_bound=Decimal(1), label_bound=Decimal(1), target=None)
    return data, risk, risk.solved(*bounded(data, shape, signs=risk.signs))


def laplace_chain(size, scales, rng):
    """Noise of falling scales, each coarser one made from the finer: the last first."""
    levels = [rng.laplace(size=size) * scales[-1]]
    for coarse, fine in zip(scales[-2::-1], scales[:0:-1], strict=True):
        kept = rng.random(size) < (fine / coarse) ** 2
        levels.append(levels[-1] + np.where(kept, 0.0, rng.laplace(size=size) * coarse))
    return levels[::-1]


def first_above(excesses, slack, epsilon, moved, rng):
    """AboveThreshold on negated excesses: how many were tested, whether the last passed, its excess, what it cost."""
    threshold = -slack + rng.laplace() * 2 * moved / epsilon
    t, excess = 0, math.inf
    for t, excess in enumerate(excesses, start=1):
        if -excess + rng.laplace() * 4 * moved / epsilon >= threshold:
            return t, True, excess, min(epsilon, t * epsilon / 4)
    return t, False, excess, min(epsilon / 2, t * epsilon / 4)


def noise_reduction(risk, known, statistic, alpha, most, levels, rng):
    moved = float(risk.query_moved)
    check = calibrated("closed", moved=moved, alpha=alpha, beta=BETA, levels=levels)
    epsilons = np.geomspace(1 / risk.rows, most, levels)
    noises = laplace_chain(risk.entries, float(risk.moved) / epsilons, rng)
    excesses = (known.excess(risk.hypothesis(statistic + noise)) for noise in noises)
    t, passed, excess, cost = first_above(excesses, check.slack, check.epsilon, moved, rng)
    return cost + epsilons[t - 1], passed and excess <= alpha


def doubling(risk, known, statistic, alpha, most, rng, *, fresh):
    """Doubling with a fresh Laplace check of each hypothesis, or with one AboveThreshold for all."""
    moved, least = float(risk.query_moved), 1 / risk.rows
    levels = math.ceil(math.log2(most / least)) + 1
    epsilons = least * 2.0 ** np.arange(levels)
    scales = float(risk.moved) / epsilons
    hypotheses = (risk.hypothesis(statistic + rng.laplace(size=risk.entries) * scale) for scale in scales)
    excesses = map(known.excess, hypotheses)
    if not fresh:
        check = calibrated("closed", moved=moved, alpha=alpha, beta=BETA, levels=levels)
        t, passed, excess, cost = first_above(excesses, check.slack, check.epsilon, moved, rng)
        return cost + epsilons[:t].sum(), passed and excess <= alpha
    each = 2 * moved * math.log(levels / (2 * BETA)) / alpha
    for t, excess in enumerate(excesses, start=1):
        if excess + rng.laplace() * moved / each <= alpha / 2:
            return t * each + epsilons[:t].sum(), excess <= alpha
    return levels * each + epsilons.sum(), False


def mean(costs):
    """The mean, its standard error and Student's factor of a 95 % interval."""
    factor = stats.t.ppf(0.975, len(costs) - 1)
    return float(np.mean(costs)), float(np.std(costs, ddof=1) / math.sqrt(len(costs))), float(factor)


def ratio(above, below):
    """The ratio of two means with a 95 % interval, by the delta method on its logarithm."""
    value = above[0] / below[0]
    wide = math.exp(max(above[2], below[2]) * math.hypot(above[1] / above[0], below[1] / below[0]))
    return {"value": value, "low": value / wide, "high": value * wide}


def experiment(family, n, alphas, levels, trials):
    rng = np.random.default_rng([SEED, SIZES[family]])
    data, risk, known = solved(family, n, rng)
    statistic = known.statistic(36) * 2.0**-36
    rows = []
    for alpha in alphas:
        theory = dict(theories(risk, alpha))
        most = 4 * theory["published"]
        runs = {
            "reduction": [noise_reduction(risk, known, statistic, alpha, most, levels, rng) for _ in range(trials)],
            "doubling": [doubling(risk, known, statistic, alpha, most, rng, fresh=True) for _ in range(trials)],
            "doubling_one_check": [
                doubling(risk, known, statistic, alpha, most, rng, fresh=False) for _ in range(trials)
            ],
        }
        means = {name: mean([cost for cost, _ in found]) for name, found in runs.items()}
        rows.append(
            {
                "task": family,
                "rows": n,
                "alpha": alpha,
                "trials": trials,
                "epsilon": {**{name: found[0] for name, found in means.items()}, "theory": theory["published"]},
                "other_theory": {name: value for name, value in theory.items() if name != "published"},
                "met": {name: float(np.mean([good for _, good in found])) for name, found in runs.items()},
                "theory_over_reduction": ratio((theory["published"], 0.0, 0.0), means["reduction"]),
                "doubling_over_reduction": ratio(means["doubling"], means["reduction"]),
                "one_check_over_reduction": ratio(means["doubling_one_check"], means["reduction"]),
            }
        )
    return data, rows


def in_a_ledger(family, data, alpha):
    """The real thing: exact noise, a charge that gives back the levels that were not needed."""
    found = dpl.AccuracyFirst(alpha, family, len(data[1]), SIZES[family], REGULARISATION)
    book = dpl.Ledger.in_memory()
    scope = book.scope("experiment", unit="person", relation="replace_one", budget=dpl.PureDP(10**4))
    value = scope.release(found, data).value
    left = scope.account().left_by_account["pure"]
    print(found.plan().words())
    print(f"In a ledger: level {value.level} passed: {value.reached}; {left} of 10000 is left.\n")


def plot(rows, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4))
    for axes, family in zip(figure.subplots(1, 2), SIZES, strict=True):
        own = [row for row in rows if row["task"] == family]
        for name in ("theory", "doubling", "doubling_one_check", "reduction"):
            axes.loglog([row["alpha"] for row in own], [row["epsilon"][name] for row in own], "o-", label=name)
        axes.set(title=family, xlabel="excess risk", ylabel="epsilon")
    axes.legend()
    figure.savefig(path)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="the paper's n, alphas and levels")
    options.add_argument("--json", action="store_true")
    options.add_argument("--plot", metavar="FILE")
    options.add_argument("--trials", type=int)
    asked = options.parse_args()
    n, levels, trials = (100_000, 1000, 20) if asked.full else (5000, 100, 12)
    alphas = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if asked.full else (0.02, 0.05, 0.1)
    rows = []
    for family in SIZES:
        data, found = experiment(family, n, alphas, levels, asked.trials or trials)
        rows += found
        if not asked.json and family == "logistic":
            in_a_ledger(family, data, "0.05")
    if asked.plot:
        plot(rows, asked.plot)
    if asked.json:
        print(json.dumps(rows, indent=1))
        return
    print("task      alpha   theory  doubling  one check  reduction   theory/red.         doubling/red.       met")
    for row in rows:
        eps = row["epsilon"]
        spans = ["{value:5.2f} [{low:5.2f}, {high:5.2f}]".format(**row[f"{name}_over_reduction"]) for name in
                 ("theory", "doubling")]  # fmt: skip
        print(
            f"{row['task']:9s} {row['alpha']:.3f} {eps['theory']:8.3g} {eps['doubling']:9.3g} "
            f"{eps['doubling_one_check']:10.3g} {eps['reduction']:10.3g}   {'   '.join(spans)}   "
            f"{row['met']['reduction']:.2f}"
        )


if __name__ == "__main__":
    main()
