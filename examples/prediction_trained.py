"""One linear model, trained privately, in place of a vote: it answers every query, for ever, at the price of training.

Softmax regression by DP-SGD (`dpl.private_sgd`) on two tasks of `private_prediction.py`, with all of their epsilon. The
model is the mean of those after each step of the second half. Settings are the same at every epsilon; about ten were
tried on the rows that are asked about, so that the numbers flatter a little.

    python prediction_trained.py           # small; options: --full, --json, --runs N, --data NAME
"""

import argparse
import json
from dataclasses import dataclass
from decimal import Decimal

from prediction_data import TASKS, task  # isort: skip  # first: it sets how many threads numpy starts
import numpy as np
from sklearn.base import clone

import dpledger as dpl

DELTA = Decimal("1e-6")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How many batches, with which probability a row is in each, how far a step goes along the mean gradient, at which
    norm a row's own is clipped, and what a mistake on each class weighs."""

    batches: int
    rate: str
    step: float
    clip_norm: int
    weights: tuple[float, ...]


SETTINGS = {
    # about a quarter of the flights is late: both classes count alike, as for the models that vote
    "flights": Setting(batches=400, rate="0.02", step=1, clip_norm=4, weights=(2 / 3, 2)),
    "digits": Setting(batches=60, rate="1", step=2, clip_norm=2, weights=(1,) * 10),
}


def with_constant(rows):
    """A last column of ones."""
    return np.column_stack([rows, np.ones(len(rows))])


def gradients(model, weights, batch):
    """Of the logistic loss, one for each row: float[rows, classes * columns]. Each depends on its own row alone."""
    rows, labels = batch
    scores = dpl.learning.row_sums(rows[:, None, :] * model)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = scores / dpl.learning.row_sums(scores)[:, None]
    errors[np.arange(len(labels)), labels] -= 1
    errors *= weights[labels][:, None]
    return (errors[:, :, None] * rows[:, None, :]).reshape(len(rows), model.size)


def trained(one, epsilon):
    """The weights of a model, float[classes, columns]. How many rows there are counts as public."""
    setting, rows = SETTINGS[one.name], with_constant(one.rows)
    weights = np.array(setting.weights, dtype=float)
    model, late = np.zeros((one.classes, rows.shape[1])), []
    budget = dpl.ApproxDP(epsilon, DELTA)
    scope = dpl.Ledger.in_memory().scope(one.name, unit=one.unit, relation=one.relation, budget=budget)
    run = {
        "rate": setting.rate,
        "steps": setting.batches,
        "expected_batch_size": round(float(setting.rate) * len(rows)),
        "dimension": model.size,
    }
    plan = scope.plan_training(**run)
    run |= {
        "noise_multiplier": plan.noise_multiplier,
        "tail_delta": plan.tail_delta,
        "clip_norm": setting.clip_norm,
    }
    with dpl.private_sgd(scope, (rows, one.labels), lambda batch: gradients(model, weights, batch), **run) as noisy:
        for number, gradient in enumerate(noisy):
            model = model - setting.step * gradient.reshape(model.shape)
            if 2 * number >= setting.batches:
                late.append(model)
    return np.mean(late, axis=0)


def answers(one, model):
    """The classes of all rows that are asked about."""
    return (with_constant(one.asked) @ model.T).argmax(axis=1)


def experiment(full, names, runs):
    """Accuracy on all queries: mean, least and most of the runs; and that of one model without privacy."""
    for name in names:
        one = task(name, full)
        plain = clone(one.learner).set_params(max_iter=1000).fit(one.rows, one.labels)
        for epsilon in one.epsilons:
            right = [float((answers(one, trained(one, epsilon)) == one.truth).mean()) for _ in range(runs)]
            yield {
                "data": name,
                "unit": one.unit.name,
                "epsilon": float(epsilon),
                "delta": float(DELTA),
                "queries": len(one.asked),
                "runs": runs,
                "accuracy": sum(right) / runs,
                "least": min(right),
                "most": max(right),
                "one_model_without_privacy": float(plain.score(one.asked, one.truth)),
            }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="all flights")
    options.add_argument("--data", choices=tuple(SETTINGS))
    options.add_argument("--json", action="store_true")
    options.add_argument("--runs", type=int)
    asked = options.parse_args()
    names = [name for name in TASKS if name in SETTINGS and asked.data in (None, name)]
    rows = experiment(asked.full, names, asked.runs or (5 if asked.full else 2))
    if asked.json:
        print(json.dumps(list(rows), indent=1))
        return
    print(f"{'data':17} {'epsilon':>7} {'queries':>8}  {'accuracy of runs':25} without privacy")
    for one in rows:
        told = f"{one['accuracy']:.3f} ({one['least']:.3f} to {one['most']:.3f})"
        start = f"{one['data']:17} {one['epsilon']:7g} {one['queries']:8d}"
        print(f"{start}  {told:25} {one['one_model_without_privacy']:.3f}")


if __name__ == "__main__":
    main()
