"""Answers by a noisy maximum of votes: PATE (Papernot et al. 2018), for comparison with `private_prediction.py`.

    noisy_max            the class whose count with Gaussian noise is largest; every query costs the same
    noisy_max_by_votes   the same, but each query is charged what its own votes show that it lost (Theorem 6 there)
    confident            first a test whether the largest count with noise is above a threshold, and only then

The epsilon of the last two depends on the private votes: it is no claim, must not be published as it is, and enters no
ledger (Papernot et al. publish it with noise, by its smooth sensitivity; we do not). Noise, which is numpy's, and
threshold are chosen in hindsight, the best of a grid, which nobody may do on private data: both are in their favour.

    python prediction_peers.py        # what one unanimous query costs, and one that is disputed
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

ORDERS = np.array([1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 192, 256, 512, 1024])
SIGMAS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)  # as parts of the number of models
THRESHOLDS = (0.6, 0.75, 0.9)
CHECKS = (0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class Ran:
    """Classes, -1 where there is no answer, for the queries that were asked before the budget was used up."""

    answers: np.ndarray
    epsilon: float
    words: str

    def right(self, truth):
        return int((self.answers == truth[: len(self.answers)]).sum())


def gaussian_delta(epsilon, mu):
    """Of mu-Gaussian privacy at epsilon (Balle-Wang 2018)."""
    second = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
    return norm.cdf(mu / 2 - epsilon / mu) - second


def sigma_for(queries, epsilon, delta):
    """The noise on each count with which so many noisy maxima keep (epsilon, delta): one vote moves two counts."""
    mu = brentq(lambda value: gaussian_delta(epsilon, value) - delta, 1e-4, 50)
    return math.sqrt(2 * queries) / mu


def by_votes(log_q, sigma):
    """The loss at each order of queries whose likeliest outcome fails with probability at most q, of a mechanism that
    loses at most order / sigma^2: the less of both bounds. Papernot et al. 2018, Theorem 6; float[queries, orders]."""
    known = np.minimum(log_q, -1e-12)[:, None]
    second = sigma * np.sqrt(-known)
    first = second + 1
    flat = ORDERS / sigma**2
    with np.errstate(all="ignore"):  # where it does not apply, it may be anything
        loss_first, loss_second = first / sigma**2, second / sigma**2
        most = (second - 1) * loss_second - second * (np.log(first / (first - 1)) + np.log(second / (second - 1)))
        log_kept = np.log1p(-np.exp(known))
        log_a = log_kept - np.log1p(-np.exp((known + loss_second) * (second - 1) / second))
        log_b = loss_first - known / (first - 1)
        bound = np.logaddexp(log_kept + (ORDERS - 1) * log_a, known + (ORDERS - 1) * log_b) / (ORDERS - 1)
        applies = (first >= ORDERS) & (second > 1) & (known <= most) & np.isfinite(bound)
    return np.where(applies, np.minimum(bound, flat), flat)


def epsilons(losses, delta):
    """Epsilon after each query, from the losses at all orders (Canonne-Kamath-Steinke 2020, Proposition 12)."""
    turned = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return (np.cumsum(losses, axis=0) + turned).min(axis=1)


def log_other(counts, sigma):
    """An upper bound on the log of the probability that another class than the first one wins."""
    ordered = np.sort(counts, axis=1)[:, ::-1]
    return logsumexp(log_ndtr(-(ordered[:, :1] - ordered[:, 1:]) / (sigma * math.sqrt(2))), axis=1)


def noisy_max(counts, epsilon, delta, rng):
    """Every query, at the noise that so many take."""
    sigma = sigma_for(len(counts), epsilon, delta)
    return Ran(_noisy(counts, sigma, rng), epsilon, f"sigma {sigma:.4g}")


def _noisy(counts, sigma, rng):
    return (counts + rng.normal(0, sigma, counts.shape)).argmax(axis=1)


def _cut(answers, after, epsilon, words):
    """The queries before the one that would go beyond the budget."""
    kept = int(np.searchsorted(after, epsilon, side="right"))
    return Ran(answers[:kept], float(after[kept - 1]) if kept else 0.0, words)


def noisy_max_by_votes(counts, budgets, delta, truth, rng):
    """For each epsilon the best run of a grid of noises."""
    models = counts.sum(axis=1).max()
    runs = []
    for part in SIGMAS:
        sigma = part * models
        after = epsilons(by_votes(log_other(counts, sigma), sigma), delta)
        runs.append((_noisy(counts, sigma, rng), after, f"sigma {sigma:.4g}"))
    return _best(runs, budgets, truth)


def confident(counts, budgets, delta, truth, rng):
    """For each epsilon the best run of a grid of noises and thresholds."""
    models = counts.sum(axis=1).max()
    largest = counts.max(axis=1)
    runs = []
    for check in CHECKS:
        tested = largest + rng.normal(0, check * models, len(counts))
        for threshold in THRESHOLDS:
            # the less likely outcome of the test; one vote moves the largest count by one
            log_q = log_ndtr(-np.abs(largest - threshold * models) / (check * models))
            test = by_votes(log_q, check * models * math.sqrt(2))
            passed = tested >= threshold * models
            for part in (0.01, 0.04, 0.16):
                sigma = part * models
                losses = test + np.where(passed[:, None], by_votes(log_other(counts, sigma), sigma), 0)
                answers = np.where(passed, _noisy(counts, sigma, rng), -1)
                words = f"threshold {threshold:g} k, its sigma {check * models:.4g}, sigma {sigma:.4g}"
                runs.append((answers, epsilons(losses, delta), words))
    return _best(runs, budgets, truth)


def _best(runs, budgets, truth):
    cut = {budget: [_cut(*run[:2], budget, run[2]) for run in runs] for budget in budgets}
    return {budget: max(found, key=lambda ran: ran.right(truth)) for budget, found in cut.items()}


def main():
    print("1000 models, epsilon after 1, 100 and 10,000 such queries at delta 1e-6, sigma 100")
    for votes in ((1000, 0), (900, 100), (600, 400)):
        losses = by_votes(log_other(np.array([votes]), 100), 100)
        found = [epsilons(times * losses, 1e-6)[0] for times in (1, 100, 10_000)]
        print(f"votes {votes}: " + ", ".join(f"{epsilon:8.4f}" for epsilon in found))


if __name__ == "__main__":
    main()
