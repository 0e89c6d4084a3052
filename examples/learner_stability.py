"""How far do the scores of a learner stray from one sample to the next? By a theorem, and measured on made-up rows.

Logistic regression by one pass of gradient descent, with a penalty of 0.1 |w|^2 / 2, on rows in the unit ball; weights
are projected to the unit ball as well. The theorem's constants follow: gradients are at most 1 + 0.1, they change by at
most 1/4 + 0.1 times as much as the weights, and a score by at most 1/4 times as much.
"""

import math

import numpy as np

import dpledger as dpl
from dpledger import stability

PENALTY = 0.1
LOSS = stability.Smooth(lipschitz="1.1", smoothness="0.35", prediction="0.25")
LATE = math.ceil(0.35 / PENALTY)


def bound(records):
    """mu^2 of the learner at so many records, whatever they are."""
    return stability.strongly_convex_mean_square(LOSS, records, convexity=str(PENALTY), epochs=1)


def learner(records, _coins):
    """Rows of two columns and a label of -1 or 1; the scores are P(label = 1)."""
    weights = np.zeros(2)
    for t, (x, y, label) in enumerate(records.tolist(), start=1):
        slope = -label / (1 + math.exp(label * (x * weights[0] + y * weights[1])))
        weights -= (slope * np.array([x, y]) + PENALTY * weights) / (PENALTY * (t + LATE))
        weights /= max(1.0, math.hypot(*weights))
    return lambda rows: 1 / (1 + np.exp(-rows @ weights))


def made_up(rng, number):
    """Rows in the unit ball, labels that follow the first column."""
    rows = rng.uniform(-0.7, 0.7, (number, 2))
    labels = np.where(rng.random(number) < 1 / (1 + np.exp(-3 * rows[:, 0])), 1, -1)
    return np.column_stack([rows, labels])


grid = np.array([[0.7, 0.0], [0.0, 0.7], [0.5, 0.5]])
found = dpl.stability.estimate_stability(learner, made_up, 200, grid, repetitions=300, seed=1)
print(f"at 200 records, one of them drawn anew, on made-up rows: {found.words()}")
print(f"by the theorem, for rows of any kind: mu^2 is at most {bound(200).mu_squared:.3g}")
print("how far scores stray by the theorem, with probability 3/4:")
for records in (1000, 10_000, 100_000):
    print(f"  {records:7,d} records: {bound(records).radius:.3f}")

plan = dpl.planning.soft_plan(
    10**8,
    lambda records: bound(records).mu,
    "0.05",
    max_queries=1000,
    uncertain=20,
    epsilon=1,
    delta="1e-6",
    beta="0.05",
)
print(plan.words())
