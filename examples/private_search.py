"""Tune and train a model privately: the pace of a logistic regression is searched for, and the whole is one charge.

Real data (breast cancer, bundled with scikit-learn), scaled by published ranges. Every trial trains one of four paces
with noise, and counts, with noise, on how many held-out patients it is wrong. Only the best model leaves.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import dpledger as dpl

LOW = np.array([6.981, 9.71, 43.79, 143.5, 0.053, 0.019, 0.0, 0.0, 0.106, 0.05])  # as published with the dataset
HIGH = np.array([28.11, 39.28, 188.5, 2501.0, 0.163, 0.345, 0.427, 0.201, 0.304, 0.097])
data = load_breast_cancer()
scaled = np.clip((data.data[:, :10] - LOW) / (HIGH - LOW), 0, 1) * 2 - 1
patients = np.hstack([scaled, np.ones((len(scaled), 1)), 2.0 * data.target[:, None] - 1])  # features, 1, label
order = np.random.default_rng(0).permutation(len(patients))
private, public = patients[order[:450]], patients[order[450:]]

STEPS = 40
plan = dpl.DPSGD(rate="0.2", steps=STEPS, noise_multiplier=6, clip_norm=1, dimension=11, expected_batch_size=70)
paces = [0.01, 0.1, 1.0, 10.0]


def train(pace, step):
    weights = np.zeros(11)

    def gradients(batch):
        x, y = batch[:, :11], batch[:, 11]
        return -(y / (1 + np.exp(y * dpl.learning.row_sums(x * weights))))[:, None] * x

    for _ in range(STEPS):
        weights = weights - pace * step(gradients)
    return weights


def wrong(weights, patient):
    return (patient[:11] @ weights > 0) != (patient[11] > 0)


with dpl.Ledger.in_memory() as book:
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(8, "1e-6"))
    found = dpl.private_search(
        scope, paces, private, trials=10, epsilon="0.2", training=plan, train=train, wrong=wrong,
        example_rows=np.ones((1, 12)),
    )  # fmt: skip
    best = found.value
    right = 1 - np.mean([wrong(best.model, patient) for patient in public])
    print(f"pace {paces[best.place]}: accuracy on the public part {right:.3f}")
    print("one training:", dpl.compose(plan).epsilon("1e-6"))
    print("the search, at delta 1e-6:", scope.spent(delta="1e-6"))
    book.verify()
