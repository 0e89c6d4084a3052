"""Several quantiles by halving (`Quantiles`) beside the joint choice of Gillenwater et al. 2021: mean error in rows.

The joint choice is drawn in floats, which is no release: forward sums over all paths by recursive filters, then a path
backwards. Rows are distinct, shares equally spaced, epsilon 1.

    python joint_quantiles.py          # three minutes
"""

from decimal import Decimal

import numpy as np
from scipy.signal import lfilter

import dpledger as dpl
from dpledger.mechanisms.entropy import system

EPSILON = 1.0
SHARES = (1, 2, 3, 5, 7, 9, 10, 15, 20)
RUNS = {1000: 200, 100_000: 60}


def filtered(weights, rate, target):
    """sum over d >= 0 of weights[i - d] e^(-rate |d - target|), for each i: two geometric sums, from both sides."""
    size, first, keep = len(weights), int(np.ceil(target)), np.exp(-rate)
    late, early = np.zeros(size), np.zeros(size + first)
    late[first:] = weights[: max(size - first, 0)]
    early[max(first - 1, 0) : max(first - 1, 0) + size] = weights
    found = lfilter([1], [1, -keep], late) * np.exp(-rate * (first - target))
    if first:
        found += lfilter([1], [1, -keep], early[::-1])[::-1][:size] * np.exp(-rate * (target - first + 1))
    return found


def joint(rows, shares, relation, rng, runs):
    """Draws of the joint choice on [0, 1]: float64[runs, shares]. A unit of one row moves the score by 2 (1 - the least
    gap) where it is added, by 2 where it is changed."""
    gaps = np.diff([0.0, *shares, 1.0])
    rate = EPSILON / (2 * (2 * (1 - gaps.min()) if relation == "add_remove" else 2))
    targets, ends = len(rows) * gaps, np.concatenate(([0.0], rows, [1.0]))
    widths, places = np.diff(ends), np.arange(len(rows) + 1)
    forward, before = [], np.eye(1, len(places))[0]
    for target in targets[:-1]:
        weights = filtered(before, rate, target) * widths
        forward.append(before := weights / weights.sum())
    found = np.empty((runs, len(shares)))
    for run in range(runs):
        above = len(rows)
        for share in reversed(range(len(shares))):
            weights = forward[share][: above + 1] * np.exp(
                -rate * np.abs(above - places[: above + 1] - targets[share + 1])
            )
            sums = weights.cumsum()
            above = int(np.searchsorted(sums, rng.random() * sums[-1]))
            found[run, share] = ends[above] + widths[above] * rng.random()
    return np.sort(found, axis=1)


def main():
    rng = np.random.default_rng(1)
    print("relation      rows     quantiles   halving   joint")
    for relation in ("add_remove", "replace_one"):
        for number, runs in RUNS.items():
            rows = np.sort(rng.random(number))
            for count in SHARES:
                shares = tuple(
                    (Decimal(place) / (count + 1)).quantize(Decimal("1e-6")) for place in range(1, count + 1)
                )
                here = dpl.Quantiles(epsilon=1, qs=shares, lower=0, upper=1).under(
                    dpl.Relation(relation), dpl.Unit("record")
                )
                drawn = here.sample(rows, runs, system()), joint(rows, list(map(float, shares)), relation, rng, runs)
                wanted = np.array([float(share) * number for share in shares])
                errors = [np.abs(np.searchsorted(rows, values) - wanted).mean() for values in drawn]
                print(f"{relation:11s}   {number:6d}   {count:9d}   {errors[0]:7.1f}   {errors[1]:5.1f}")


if __name__ == "__main__":
    main()
