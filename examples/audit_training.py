"""Audit a training: logistic regression on the digits of scikit-learn by DP-SGD, as it should be and with three faults.

Prints of each what is claimed, what is certified, what an audit of its steps shows, and what one training with many
canaries shows; last all of them in one table. The step level finds what one training cannot.

    python examples/audit_training.py                    # under a minute
    python examples/audit_training.py --model cnn        # a small convolutional network, by torch
    python examples/audit_training.py --plot audit.png   # the picture of the first set-up
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import dpledger as dpl

RATE, NOISE, CLIP = 0.05, 1.0, 1.0
PUBLIC_ROWS = 1797  # what sums are divided by must not follow the rows
Rows = tuple[np.ndarray, np.ndarray]
State = tuple[int, np.ndarray]  # the number of the step, the weights
Gradients = Callable[[np.ndarray, Rows], np.ndarray]


def logistic(weights: np.ndarray, rows: Rows) -> np.ndarray:
    """The gradient of each row: (rows, 650)."""
    x, labels = np.column_stack([rows[0], np.ones(len(rows[0]))]), np.asarray(rows[1])
    scores = x @ weights.reshape(10, 65).T
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(x)), labels] -= 1
    found: np.ndarray = (chances[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    return found


def convolutional() -> tuple[Gradients, np.ndarray]:
    """Gradients of a small network, of each row, and its first weights."""
    import torch
    from torch.func import functional_call, grad, vmap

    torch.manual_seed(0)
    torch.set_num_threads(1)  # a network this small gains nothing from more
    layers = [torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.AvgPool2d(2), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(72, 10))
    shapes = {name: one.shape for name, one in model.named_parameters()}
    first = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).numpy().astype(float)

    def loss(parameters: Any, x: Any, label: Any) -> Any:
        scores = functional_call(model, parameters, (x.reshape(1, 1, 8, 8),))
        return torch.nn.functional.cross_entropy(scores, label[None])

    of_each = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(weights: np.ndarray, rows: Rows) -> np.ndarray:
        if not len(rows[1]):
            return np.zeros((0, len(weights)))
        pieces = torch.as_tensor(weights, dtype=torch.float32).split([shape.numel() for shape in shapes.values()])
        parameters = {name: piece.reshape(shapes[name]) for name, piece in zip(shapes, pieces, strict=True)}
        found = of_each(parameters, torch.as_tensor(rows[0], dtype=torch.float32), torch.as_tensor(rows[1]))
        joined: np.ndarray = torch.cat([found[name].flatten(1) for name in shapes], dim=1).double().numpy()
        return joined

    return gradients, first


@dataclass(frozen=True)
class SetUp:
    """A training loop as people write it. `noise`: what it really adds, in clip norms; `together`: it clips the mean of
    a batch and not each row; `fading`: of the noise, after each step, of which the accountant does not know."""

    gradients: Gradients
    first: np.ndarray
    noise: float = NOISE
    together: bool = False
    fading: float = 1.0

    def step(self, state: State, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """A noisy sum of clipped gradients."""
        number, weights = state
        found = self.gradients(weights, rows)
        if self.together:
            found = found.sum(axis=0, keepdims=True) / max(1, len(found))
        found = found / np.maximum(1, np.linalg.norm(found, axis=1, keepdims=True) / CLIP)
        total = found.sum(axis=0) * (len(rows[1]) if self.together else 1)
        noisy: np.ndarray = total + rng.normal(0, self.noise * self.fading**number * CLIP, weights.shape)
        return noisy

    def run(self, rows: Rows, rng: np.random.Generator, steps: int) -> Iterator[tuple[State, Rows]]:
        """The state and the batch of each step; last the state after all of them."""
        weights = self.first
        for number in range(steps):
            drawn = rng.random(len(rows[1])) < RATE
            batch = (rows[0][drawn], rows[1][drawn])
            yield (number, weights), batch
            weights = weights - 0.5 * self.step((number, weights), batch, rng) / (RATE * PUBLIC_ROWS)
        yield (steps, weights), rows


def fault(size: int) -> tuple[np.ndarray, int]:
    """A canary: an image of noise, in the wrong class."""
    rng = np.random.default_rng(size)
    return rng.random(64), int(rng.integers(10))


def audited(setup: SetUp, rows: Rows, *, steps: int, canaries: int) -> Any:
    """One set-up, audited at its steps and by one training."""
    canary = (1 - rows[0][0], int(rows[1][0]))
    found = dpl.audit_steps(
        setup.step, setup.run(rows, np.random.default_rng(1), steps), canary, dpl.GaussianLaw(str(NOISE)),
        direction=lambda state: setup.gradients(state[1], (canary[0][None], np.array([canary[1]])))[0],
        steps=steps, seed=1,
    )  # fmt: skip

    def train(data: Rows, rng: np.random.Generator) -> np.ndarray:
        return list(setup.run(data, rng, steps))[-1][0][1]

    def score(weights: np.ndarray, one: tuple[np.ndarray, int]) -> float:
        """How far the model moved along the canary."""
        gradient = setup.gradients(setup.first, (one[0][None], np.array([one[1]])))[0]
        return float((setup.first - weights) @ gradient)

    claim = dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(str(NOISE)), rate=str(RATE)), times=steps)
    return dpl.audit_training(
        train, rows, claim, score=score, canaries=[fault(one) for one in range(canaries)], steps=found, seed=1
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", choices=("logistic", "cnn"), default="logistic")
    asked.add_argument("--steps", type=int, default=100)
    asked.add_argument("--canaries", type=int, default=400)
    asked.add_argument("--plot")
    chosen = asked.parse_args()
    digits = load_digits()
    rows = (digits.data / 16, digits.target)
    gradients, first = (logistic, np.zeros(650)) if chosen.model == "logistic" else convolutional()
    setups = {
        "as it should be": SetUp(gradients, first),
        "half the noise": SetUp(gradients, first, noise=NOISE / 2),
        "the mean of a batch is clipped, and no row": SetUp(gradients, first, together=True),
        "noise that fades by 2 % a step": SetUp(gradients, first, fading=0.98),
    }
    table = [("set-up", "claimed of a step", "certified of all", "step level", "one run")]
    for name, setup in setups.items():
        result = audited(setup, rows, steps=chosen.steps, canaries=chosen.canaries)
        print(f"\n{name}\n{result}")
        if chosen.plot and name == "as it should be":
            result.plot(chosen.plot)
            print(f"wrote {chosen.plot}", file=sys.stderr)
        table.append((name, *in_short(result)))
    print()
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    for row in table:
        print("".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def in_short(result: Any) -> tuple[str, str, str, str]:
    """What was claimed of a step, certified of all of them, and found at each level; epsilons are at delta 1e-5."""
    steps, once = result.steps, result.one_run
    fell = f"refuted after {steps.trials} steps" if steps.verdict == "violation" else "not refuted"
    most = f", noise at most {1 / float(steps.mu_lower):.2f}" if steps.mu_lower else ""
    return (
        f"noise {NOISE:g}, epsilon {float(steps.target.point.epsilon):.3g}",
        f"epsilon {float(result.claim.target.point.epsilon):.3g}",
        f"{fell}: epsilon at least {float(steps.epsilon_lower):.2g}{most}",
        f"{once.verdict.replace('_', ' ')}: epsilon at least {float(once.epsilon_lower):.2g}",
    )


if __name__ == "__main__":
    main()
