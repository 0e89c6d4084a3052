"""Your own logistic regression loop, made private in three lines: budget, batches, noise and the record are dpledger's.

Real data (breast cancer, bundled with scikit-learn). Features are scaled by the ranges that were published with it, not
by those of the private rows, and accuracy is measured on a part of the data that plays the public, held-out set.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

import dpledger as dpl
from dpledger.attach.training import private_sgd

LOW = np.array([6.981, 9.71, 43.79, 143.5, 0.053, 0.019, 0.0, 0.0, 0.106, 0.05])  # as published with the dataset
HIGH = np.array([28.11, 39.28, 188.5, 2501.0, 0.163, 0.345, 0.427, 0.201, 0.304, 0.097])
data = load_breast_cancer()
order = np.random.default_rng(0).permutation(len(data.target))
scaled = np.clip((data.data[:, :10] - LOW) / (HIGH - LOW), 0, 1) * 2 - 1
features = np.hstack([scaled, np.ones((len(scaled), 1))])[order]
labels = 2.0 * data.target[order] - 1
private, public = slice(0, 400), slice(400, None)


def gradients(weights: np.ndarray, batch: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """One gradient of the logistic loss for each patient of the batch: shape (batch, 11).

    `dpl.learning.row_sums(x * weights)` is x @ weights with every sum in one order: a product by BLAS gives a patient
    other last bits when the batch grows, and the guarantee is for gradients that depend on their own patient alone.
    """
    x, y = batch
    return -(y / (1 + np.exp(y * dpl.learning.row_sums(x * weights))))[:, None] * x


made_up = np.random.default_rng(1).uniform(-1, 1, (200, features.shape[1]))
print(
    dpl.learning.check_batch_invariance(lambda batch: gradients(made_up[0], batch), (made_up, np.sign(made_up[:, 0])))
)

with dpl.Ledger.in_memory() as book:
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    weights = np.zeros(features.shape[1])

    with private_sgd(
        scope, (features[private], labels[private]), lambda batch: gradients(weights, batch),
        rate="0.15", steps=99, noise_multiplier=4, clip_norm=1, dimension=11, expected_batch_size=60,
    ) as run:  # fmt: skip
        for mean_gradient in run:
            weights -= 2.0 * mean_gradient

    accuracy = np.mean((features[public] @ weights > 0) == (labels[public] > 0))
    print(f"accuracy on the public part: {accuracy:.3f}")
    print(f"steps: {run.receipt.value.done} of {run.receipt.value.planned}; entry {run.receipt.entry.index}")
    print("epsilon spent at delta 1e-6:", scope.spent(delta="1e-6"))
    book.verify()
