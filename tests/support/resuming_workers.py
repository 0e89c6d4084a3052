"""What processes do with a training run that is killed and resumed. Each step that draws leaves a line in a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import dpledger as dpl
from dpledger.errors import PolicyError

PLAN: dict[str, Any] = {
    "rate": "0.01",
    "steps": 5000,
    "noise_multiplier": 2,
    "clip_norm": 1,
    "dimension": 2,
    "expected_batch_size": 5,
    "key": "model",
}
SCOPE: dict[str, Any] = {"unit": "record", "relation": "add_remove", "budget": dpl.ApproxDP(3, "0.00001")}
ROWS = np.ones((20, 2))
SAVED_EVERY = 100


def trains(folder: Path, *, stop: str, at: int, **more: Any) -> str:
    """Train in `folder`, saving the weights with their token now and then, until step `at` of this process; then be
    killed, or wait for the file `go`. What it came to: "done", or the name of the error."""
    saved = folder / "model.json"
    weights, resume = np.zeros(2), True
    if saved.exists():
        found = json.loads(saved.read_text())
        weights, resume = np.array(found["weights"]), found["token"]
    with dpl.Ledger.open(folder / "clinic.ledger") as book:
        scope = book.scope("rows")
        try:
            with (
                (folder / "drawn").open("a", buffering=1) as drawn,
                dpl.private_sgd(scope, ROWS, lambda batch: weights - batch, **{**PLAN, **more}, resume=resume) as run,
            ):
                for count, mean_gradient in enumerate(run, start=1):
                    weights -= 0.01 * mean_gradient
                    token = run.token()
                    drawn.write(f"{token['generation']} {token['step']}\n")
                    if count == at or count % SAVED_EVERY == 0:
                        staged = folder / f"model.{os.getpid()}"
                        staged.write_text(json.dumps({"weights": weights.tolist(), "token": token}))
                        staged.replace(saved)
                    if count == at:
                        _stopped(folder, stop)
        except PolicyError as error:
            return type(error).__name__
    return "done"


def _stopped(folder: Path, stop: str) -> None:
    if stop == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"waits.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)


def begun(folder: Path) -> Path:
    """A folder with a ledger in it, and nothing run yet."""
    with dpl.Ledger.create(folder / "clinic.ledger") as book:
        book.scope("rows", **SCOPE)
    return folder


if __name__ == "__main__":
    where, how, step, told = sys.argv[1:]
    print(trains(Path(where), stop=how, at=int(step), **json.loads(told)))
