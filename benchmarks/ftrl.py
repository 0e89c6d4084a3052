"""Models by DP-FTRL beside models by DP-SGD, at the same epsilon, on the data of the demo.

    python benchmarks/ftrl.py [--runs 40] [--epsilons 1 3 8] [--epochs 15] [--batch 60] [--step 2]

Both are planned for the target by themselves, with the same epochs, batches and steps of the optimiser; delta is 1e-6.
Printed are the means over the runs, on held-out rows: accuracy, and the mean logistic loss, of the last weights and of
the mean of all; beside each mean its standard error.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
import numpy.typing as npt

import dpledger as dpl
from dpledger.cli import demo_data
from dpledger.mechanisms.entropy import system

Floats = npt.NDArray[np.float64]


def trained(mechanism: Any, private: demo_data.Patients, step: float) -> tuple[Floats, Floats]:
    """The last weights of a run, and the mean of those after each step."""
    weights, total = np.zeros((2, private.features.shape[1]))
    run = mechanism.open((private.features, private.malignant), entropy=system())

    def gradients(batch: tuple[Floats, Floats]) -> Floats:
        return demo_data.gradients(weights, *batch)

    for _ in run.steps():
        weights -= step * run.ask(gradients)
        total += weights
    return weights, total / mechanism.steps


def loss(weights: Floats, patients: demo_data.Patients) -> float:
    """The mean logistic loss."""
    margins = (patients.features @ weights) * (2 * patients.malignant - 1)
    return float(np.logaddexp(0, -margins).mean())


def contestants(epsilon: float, epochs: float, batch: int, units: int, dimension: int) -> dict[str, Any]:
    """The mechanisms, each with the least noise that meets the target."""
    asked: dict[str, Any] = {"n_public": units, "epochs": epochs, "batch": batch, "dimension": dimension}
    target = dpl.ApproxDP(epsilon, "1e-6")
    plain = dpl.planning.dpsgd_plan(**asked, target=target)
    shared: dict[str, Any] = {"clip_norm": 1, "dimension": dimension, "expected_batch_size": batch}
    sgd = dpl.DPSGD(rate=plain.rate, steps=plain.steps, noise_multiplier=plain.noise_multiplier, **shared)
    found: dict[str, Any] = {"DP-SGD": sgd}
    for groups in (None, units // batch):
        plan = dpl.planning.ftrl_plan(**asked, target=target, groups=groups)
        found[f"DP-FTRL, {plan.groups} groups"] = dpl.learning.DPFTRL(
            steps=plan.steps,
            groups=plan.groups,
            coefficients=plan.coefficients,
            rate=plan.rate,
            noise_multiplier=plan.noise_multiplier,
            **shared,
        )
    return found


def told(values: list[float]) -> str:
    """A mean and its standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / math.sqrt(len(values)):.3f}"


def main() -> None:
    """Train and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 3, 8])
    parser.add_argument("--epochs", type=float, default=15)
    parser.add_argument("--batch", type=int, default=60)
    parser.add_argument("--step", type=float, default=2)
    options = parser.parse_args()
    private, public = demo_data.load()
    print("| epsilon | by | accuracy, last | loss, last | accuracy, mean | loss, mean |\n|---|---|---|---|---|---|")
    for epsilon in options.epsilons:
        sizes = options.epochs, options.batch, *private.features.shape
        for name, mechanism in contestants(epsilon, *sizes).items():
            runs = [trained(mechanism, private, options.step) for _ in range(options.runs)]
            columns = [
                told([judge(pair[which], public) for pair in runs])
                for which in (0, 1)
                for judge in (demo_data.accuracy, loss)
            ]
            print(f"| {epsilon:g} | {name} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
