"""A training with Opacus that is killed, and goes on from its checkpoint under the charge that stands.

    python resume_opacus.py            plays it: the first process is killed, the second goes on
    python resume_opacus.py FOLDER     trains in FOLDER; after a crash, run it again

What a process needs to go on lies in the folder: the ledger, and one checkpoint with model, optimizer, accountant and
token, which is written whole before it takes the place of the one before.
"""

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import opacus
import torch
from torch.utils.data import DataLoader, TensorDataset

import dpledger as dpl
from dpledger.attach.opacus import charging
from dpledger.errors import StepsLost

warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook is firing|Optimal order is the")
warnings.filterwarnings("default", category=StepsLost)
STEPS, SAVED_EVERY, KILLED_AFTER = 200, 10, 55


def train(folder: Path, killed_after: int = 0) -> None:
    torch.manual_seed(0)  # for the rows that are made up; a run that goes on draws from fresh states
    torch.set_num_threads(1)  # the model is small
    x = torch.randn(1200, 4)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=100)
    model, engine = torch.nn.Linear(4, 2), opacus.PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5),
        data_loader=loader,
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    saved, resume = folder / "checkpoint.pt", True
    if saved.exists():
        resume = engine.load_checkpoint(path=saved, module=model, optimizer=optimizer)["run"]

    with dpl.Ledger.open_or_create(folder / "study.ledger") as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(4, "1e-5"))
        public = {"steps": STEPS, "rate": 1 / 12, "expected_batch_size": 100}  # chosen without looking at the rows
        who = {"by": "A. Smith", "reason": "the model of the study"}
        with charging(scope, engine, model, optimizer, loader, **public, **who, key="model", resume=resume) as run:
            while run.done < STEPS:
                for batch, truth in loader:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(batch), truth).backward()
                    optimizer.step()
                    if run.done % SAVED_EVERY == 0:
                        staged, token = folder / "checkpoint.new", {"run": run.token()}
                        engine.save_checkpoint(path=staged, module=model, optimizer=optimizer, checkpoint_dict=token)
                        staged.replace(saved)
                    if run.done == killed_after:
                        os.kill(os.getpid(), signal.SIGKILL)  # as a node that goes down
                    if run.done == STEPS:
                        break
        print(f"{run.taken} steps in this process, {run.done} of the plan; the charge:", scope.spent().upper)
        print("epsilon of the run:", run.epsilons("1e-5").certified)
        book.verify()


if len(sys.argv) > 1:
    train(Path(sys.argv[1]), *map(int, sys.argv[2:]))
else:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, sys.argv[0], folder]
        killed = subprocess.run([*words, str(KILLED_AFTER)], check=False)
        print("the first process ended by signal", -killed.returncode)
        subprocess.run(words, check=True)
