"""Boosted trees of depth 2 beside `PrivateLogisticLearner`, at the same rho (add_remove; splits of 3/4 and 1/4).

A round takes a pair of columns by a public coin, and one noisy sum of gradients and one noisy count for each leaf, or
for each bin of both columns. Leaves: of two random splits; of the best splits of the noisy bins (as free as any
function of them); or the bins themselves, as DP-EBM has them (Nori et al. 2021). Of trees the best of several numbers
of rounds and learning rates is shown, which a user would pay for; noise in floats.

    python depth_two.py            # ten minutes
"""

import functools
import itertools
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from accuracy_data import raw_flights

WEIGHT = 0.5  # of a row in the counts, where it is 1 in the sums
LEAVES = ("random splits", "best splits", "bins")
GRID = list(itertools.product((10, 30, 100), (0.1, 0.3, 1.0)))  # rounds, learning rates


def tumours(bins):
    """Binned rows, bins of each column, labels; pairs that a doctor might name."""
    x, y = load_breast_cancer(return_X_y=True)
    low, high = np.zeros(30), np.max(x, axis=0)  # a maximum of the data: as good for both
    binned = np.minimum(((x - low) / (high - low) * bins).astype(int), bins - 1)
    return binned, [bins] * 30, y, [(20, 21), (22, 27), (7, 23)]


def flights():
    rows = raw_flights().sample(240_000, random_state=1)
    columns = [
        rows["carrier"].astype("category").cat.codes,
        rows["origin"].astype("category").cat.codes,
        rows["month"] - 1,
        rows["day"] - 1,
        rows["sched_dep_time"] // 100,
        np.minimum(rows["distance"] // 200, 15),
    ]
    x = np.stack([np.asarray(one, dtype=int) for one in columns], axis=1)
    late = (rows["arr_delay"] >= 15).to_numpy(int)
    return x, (x.max(axis=0) + 1).tolist(), late, [(2, 4), (2, 3), (0, 1)]


def split_places(noisy, counts):
    """Leaf of each bin of two columns: the best first split, then the best one on either side, by the noisy sums."""

    def best(sums, sizes):
        gains = [_gain(sums[:c], sizes[:c]) + _gain(sums[c:], sizes[c:]) for c in range(1, len(sums))]
        return 1 + int(np.argmax(gains))

    leaf = np.zeros(noisy.shape, dtype=int)
    first = best(noisy.sum(axis=1), counts.sum(axis=1))
    for side, part in enumerate((slice(0, first), slice(first, None))):
        cut = best(noisy[part].sum(axis=0), counts[part].sum(axis=0))
        leaf[part, :cut], leaf[part, cut:] = 2 * side, 2 * side + 1
    return leaf


def _gain(sums, counts):
    return sums.sum() ** 2 / max(counts.sum(), 1.0)


def boosted(x, sizes, y, others, rho, leaves, rounds, rate, rng):
    """Scores of other rows."""
    sigma = np.sqrt((1 + WEIGHT**2) * rounds / (2 * rho))
    score, found = np.zeros(len(y)), np.zeros(len(others))
    for _ in range(rounds):
        i, j = rng.choice(len(sizes), 2, replace=False)
        bins = sizes[i] * sizes[j]
        leaf = np.arange(bins).reshape(sizes[i], sizes[j])
        if leaves == "random splits":
            down, right = rng.integers(1, sizes[i]), rng.integers(1, sizes[j])
            leaf = 2 * (np.arange(sizes[i]) >= down)[:, None] + (np.arange(sizes[j]) >= right)
        cells = leaf[x[:, i], x[:, j]]
        count = int(leaf.max()) + 1
        sums = np.bincount(cells, y - 1 / (1 + np.exp(-score)), count) + rng.normal(0, sigma, count)
        rows = np.bincount(cells, minlength=count) + rng.normal(0, sigma / WEIGHT, count)
        if leaves == "best splits":
            leaf = split_places(sums.reshape(leaf.shape), rows.reshape(leaf.shape))
            group = leaf.ravel()
            sums, rows = np.bincount(group, sums), np.bincount(group, rows)
            deviation = sigma * np.sqrt(np.bincount(group))
        else:
            deviation = sigma
        step = rate * sums / (np.maximum(rows, 0) / 4 + deviation)
        score += step[leaf[x[:, i], x[:, j]]]
        found += step[leaf[others[:, i], others[:, j]]]
    return found


def ours(x, sizes, y, others, rho, pairs, seed):
    bins = dpl.learning.Binning({c: list(range(1, size)) for c, size in enumerate(sizes)}, source="as made")
    learner = dpl.learning.PrivateLogisticLearner(bins, rho=str(rho), pairs=pairs)
    model = learner.release(dpl.learning.LabeledSample(x, y), entropy=seeded(seed)).value
    return model.probabilities(others)[:, 1]


def main():
    print(f"{'':9} {'rho':>7}  logistic  with pairs  " + "  ".join(f"trees, {one}" for one in LEAVES))
    sets = (
        ("16 bins", functools.partial(tumours, 16), (0.03, 0.3, 3), 6),
        ("4 bins", functools.partial(tumours, 4), (0.03, 0.3, 3), 6),
        ("flights", flights, (3e-4, 3e-3), 2),
    )
    for name, data, rhos, splits in sets:
        x, sizes, y, pairs = data()
        for rho in rhos:
            found = {}
            for split in range(splits):
                rng = np.random.default_rng([split, 5])
                order = rng.permutation(len(y))
                own, other = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
                ways = {("logistic",): ours(x[own], sizes, y[own], x[other], rho, [], split)}
                ways["pairs",] = ours(x[own], sizes, y[own], x[other], rho, pairs, split)
                for leaves in LEAVES:
                    for rounds, rate in GRID:
                        ways[leaves, rounds, rate] = boosted(
                            x[own], sizes, y[own], x[other], rho, leaves, rounds, rate, rng
                        )
                for way, scores in ways.items():
                    found.setdefault(way, []).append(roc_auc_score(y[other], scores))
            mean = {way: float(np.mean(areas)) for way, areas in found.items()}
            trees = (max((mean[way], way[1:]) for way in mean if way[0] == leaves) for leaves in LEAVES)
            told = "  ".join(f"{area:.3f} {settings}" for area, settings in trees)
            print(f"{name:9} {rho:7g}  {mean['logistic',]:8.3f}  {mean['pairs',]:10.3f}  {told}", flush=True)


if __name__ == "__main__":
    main()
