"""The check of `AccuracyFirst` beside ReducedAboveThreshold (Whitehouse et al. 2022): epsilon in units of Delta/alpha.

Here: one threshold and queries of one scale. Reduced: the threshold's noise falls along a chain, and that of the tests
with it, so that a hypothesis that passes early has paid for the coarse noise alone. Both keep the same promise at gamma
= 0.1: no hypothesis of excess alpha passes, and one of excess 0 does by the last level. Simulated, scales in equal
ratios, each test with an equal part of what may pass wrongly; the best of a few ratios and splits.

    python reduced_check.py            # two minutes
"""

import numpy as np
from scipy.optimize import brentq

GAMMA = 0.1
RATIOS, PARTS, THRESHOLDS = (1.0, 1.5, 2, 4, 8), (0.02, 0.05, 0.08), (0.25, 0.35, 0.45, 0.55)
EXCESSES = (0.0, 0.25, 0.5)  # of alpha
POINTS = np.concatenate([-np.geomspace(60, 1e-4, 4000), np.geomspace(1e-4, 60, 4000)])


def laplace_below(value, scale):
    small = np.exp(-np.abs(value) / scale) / 2
    return np.where(value < 0, small, 1 - small)


def here(levels):
    """The least epsilon, by docs/proofs/accuracy_first.md, section 4."""
    found = []
    for share in np.arange(0.2, 0.6, 0.02):
        ratio = 2 * share / (1 - share)
        for part in np.arange(0.1, 0.9, 0.05):
            slack = np.log(1 / (2 * part * GAMMA))

            def passes(alpha, slack=slack, ratio=ratio, part=part):
                each = np.minimum(laplace_below(slack + POINTS - alpha, ratio), 1 - 1e-12)
                some = -np.expm1(levels * np.log1p(-each))
                return np.trapezoid(np.exp(-np.abs(POINTS)) / 2 * some, POINTS) - (1 - part) * GAMMA

            found.append((1 + 2 / ratio) * brentq(passes, slack + 0.01, 200))
    return min(found)


def reduced(levels, ratio, part, share, runs, rng):
    """The mean epsilon at which hypotheses of each excess pass, and the cap. Scales in units of the last one."""
    wide, scales = 2 * share / (1 - share), np.geomspace(ratio, 1, levels)
    tail = brentq(lambda x: (wide**2 * np.exp(-x / wide) - np.exp(-x)) / (2 * (wide**2 - 1)) - part / levels, 0, 400)
    threshold = np.empty((runs, levels))
    threshold[:, -1] = rng.laplace(size=runs)
    for level in range(levels - 2, -1, -1):
        coarser = rng.random(runs) >= (scales[level + 1] / scales[level]) ** 2
        threshold[:, level] = threshold[:, level + 1] + coarser * rng.laplace(size=runs) * scales[level]
    noise = rng.laplace(size=(runs, levels)) * scales * wide - threshold - tail * scales
    low, high = 0.1, 300.0
    while high - low > 1e-2:  # alpha at which an excess of 0 never passes with gamma less what passes wrongly
        middle = (low + high) / 2
        enough = (noise + middle < 0).all(axis=1).mean() <= GAMMA - part
        low, high = (low, middle) if enough else (middle, high)
    cap, means = (1 + 2 / wide) * high, []
    for excess in EXCESSES:
        passed = noise + (1 - excess) * high >= 0
        first = np.where(passed.any(axis=1), passed.argmax(axis=1), levels - 1)
        means.append(float((cap / scales[first]).mean()))
    return means, cap


def main():
    rng = np.random.default_rng(7)
    print("levels   here   reduced: excess 0   a quarter   a half   cap")
    for levels in (10, 30, 100, 1000):
        tried = (
            reduced(levels, ratio, part, share, 3000 if levels > 100 else 8000, rng)
            for ratio in RATIOS
            for part in PARTS
            for share in THRESHOLDS
        )
        means, cap = min(tried)
        print(f"{levels:6d}   {here(levels):4.1f}   {means[0]:17.1f}   {means[1]:9.1f}   {means[2]:6.1f}   {cap:4.1f}")


if __name__ == "__main__":
    main()
