"""Training with Opacus that goes on in another process: from its own checkpoint, with batches and noise that nobody
drew before; layers clipped by themselves; several processes, refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import opacus
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from dpledger.accounting.guarantees import ApproxDP
from dpledger.attach.opacus import OpacusRun, charging
from dpledger.attach.opacus.objects import clipped_to, noise_of
from dpledger.errors import Halted, ParameterError, StepsLost, TakenOver
from dpledger.ledger.entries.bodies import Committed, Progress, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
]
STEPS = 200  # in blocks of two
PUBLIC: dict[str, Any] = {"rate": 1 / 6, "expected_batch_size": 10, "by": "me", "reason": "a model", "key": "model"}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        yield made


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("rows", unit="record", relation="add_remove", budget=ApproxDP(30, "1e-5"))


class Process:
    """What a script makes when it starts, its generators seeded as ever; and what it does."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(14)
        rows = torch.randn(60, 4)
        module = torch.nn.Linear(4, 2)
        self.engine: Any = opacus.PrivacyEngine()
        made: Any = self.engine.make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5),
            data_loader=DataLoader(TensorDataset(rows, (rows[:, 0] > 0).long()), batch_size=10),
            **{"noise_multiplier": 2.0, "max_grad_norm": 1.0} | options,
        )
        self.model, self.optimizer, self.loader = made
        self.sums: list[torch.Tensor] = []
        """What each step gave the optimizer below."""

    def charging(self, scope: Scope, resume: Any = True, **more: Any) -> OpacusRun:
        private: tuple[Any, Any, Any, Any] = self.engine, self.model, self.optimizer, self.loader
        return charging(scope, *private, **{"steps": STEPS, **PUBLIC, **more}, resume=resume)

    def train(self, steps: int) -> None:
        done = 0
        while True:
            for rows, labels in self.loader:
                if done == steps:
                    return
                self.optimizer.zero_grad()
                torch.nn.functional.cross_entropy(self.model(rows), labels).backward()
                self.optimizer.step()
                self.sums.append(torch.cat([one.grad.flatten() for one in self.optimizer.params]).clone())
                done += 1

    def save(self, path: Path, run: OpacusRun) -> None:
        self.engine.save_checkpoint(
            path=path, module=self.model, optimizer=self.optimizer, checkpoint_dict={"run": run.token()}
        )

    def load(self, path: Path) -> Any:
        return self.engine.load_checkpoint(path=path, module=self.model, optimizer=self.optimizer)["run"]


def test_a_run_goes_on_from_the_checkpoint_of_opacus(book: Ledger, scope: Scope, tmp_path: Path) -> None:
    first = Process()
    run = first.charging(scope).__enter__()
    first.train(20)
    first.save(tmp_path / "model", run)
    second = Process()
    resumed = second.charging(scope, second.load(tmp_path / "model"))
    with resumed:
        assert (resumed.granted, resumed.taken, resumed.done) == (20, 0, 20)
        for own, other in zip(second.model.parameters(), first.model.parameters(), strict=True):
            assert torch.equal(own, other)
        torch.seed()  # both are in one process here, and one generator
        with pytest.raises(TakenOver):
            first.train(1)
        second.train(STEPS - 20)
        with pytest.raises(Halted, match="all 200 planned steps"):
            second.train(1)
    epsilons = resumed.epsilons("1e-5")
    assert epsilons.opacus is not None  # its accountant came along, and counted every step
    assert epsilons.opacus > epsilons.certified.upper
    (committed,) = [entry.body for entry in book.entries() if isinstance(entry.body, Committed)]
    assert committed.parts.done == STEPS  # type: ignore[union-attr]
    assert len(scope.releases()) == 1
    book.verify()


def test_steps_that_the_checkpoint_lacks_are_lost_and_never_run_again(scope: Scope, tmp_path: Path) -> None:
    first = Process()
    run = first.charging(scope).__enter__()
    first.train(4)
    first.save(tmp_path / "model", run)
    first.train(3)
    second = Process()
    resumed = second.charging(scope, second.load(tmp_path / "model"))
    with pytest.warns(StepsLost, match="has run 4 steps .* 8 of 200 are granted and charged: 4 are lost"), resumed:
        second.train(1)
    assert resumed.token()["step"] == 9
    assert resumed.epsilons("1e-5").opacus is None  # it counted five of nine


@pytest.mark.parametrize("seeded_again", [False, True])
def test_a_script_that_seeds_draws_no_batch_and_no_noise_twice(scope: Scope, seeded_again: bool) -> None:
    """Those of a script that is seeded as ever are its own in each run, whether it is a new one or goes on."""
    first = Process()
    with first.charging(scope, False):
        first.train(3)
    again = Process()
    with again.charging(scope, False, key="another"):
        again.train(3)
    assert not any(torch.equal(one, other) for one in first.sums for other in again.sums)

    begun = Process()
    begun.charging(scope, key="third").__enter__()
    begun.train(3)
    goes_on = Process()

    def trains() -> None:
        with goes_on.charging(scope, key="third"):
            if seeded_again:
                torch.manual_seed(14)
            goes_on.train(3)

    with pytest.warns(StepsLost, match="has run 0 steps"):
        trains()
    assert not any(torch.equal(one, other) for one in begun.sums for other in goes_on.sums)


def test_an_engine_with_a_history_wants_its_token(scope: Scope, tmp_path: Path) -> None:
    first = Process()
    run = first.charging(scope).__enter__()
    first.train(4)
    first.save(tmp_path / "model", run)
    second = Process()
    token = second.load(tmp_path / "model")
    for resume in (True, {**token, "step": 3}):
        with pytest.raises(ParameterError, match="for a loaded checkpoint"):
            second.charging(scope, resume)


def test_what_is_raised_in_the_block_leaves_it_open(book: Ledger, scope: Scope) -> None:
    own = Process()

    def breaks() -> None:
        with own.charging(scope, tail_delta=0):
            own.train(2)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        breaks()
    assert not [entry for entry in book.entries() if isinstance(entry.body, Committed)]
    with pytest.raises(Halted, match="the run is over"):
        own.train(1)
    assert scope.settle("model").entry.body.kind == "committed"


# ---- layers that are clipped by themselves --------------------------------------------------------------------------


def by_layers() -> Process:
    return Process(clipping="per_layer", max_grad_norm=[0.6, 0.7])


def test_layers_are_charged_for_the_root_of_the_sum_of_their_squares(book: Ledger, scope: Scope) -> None:
    own = by_layers()
    with own.charging(scope, steps=3) as run:
        own.train(3)
    assert run.taken == 3
    (reserved,) = [entry.body for entry in book.entries() if isinstance(entry.body, Reserved)]
    assert reserved.mechanism.parameters["clipping"] == "per_layer"
    noise = Fraction(str(reserved.parts.of.of.noise_multiplier))  # type: ignore[union-attr]
    exact = Fraction(2) * Fraction(own.optimizer.max_grad_norm)  # the deviation that it adds
    squares = Fraction(0.6) ** 2 + Fraction(0.7) ** 2
    assert noise**2 * squares <= exact**2 <= noise**2 * squares * (1 + Fraction(1, 10**12))
    book.verify()


def test_a_layer_that_is_clipped_to_more_than_planned_gets_no_noise(book: Ledger, scope: Scope) -> None:
    own = by_layers()
    with own.charging(scope, steps=3) as run:
        own.optimizer.max_grad_norms[1] = 0.8
        with pytest.raises(Halted, match="for gradients clipped to"):
            own.train(1)
    assert run.taken == 0
    assert not [entry for entry in book.entries() if isinstance(entry.body, Progress)]


def test_each_layer_of_a_row_is_within_its_norm() -> None:
    own = by_layers()
    own.model(torch.full((1, 4), 1000.0)).sum().backward()
    own.optimizer.clip_and_accumulate()
    norms = [float(one.summed_grad.norm()) for one in own.optimizer.params]
    assert norms == pytest.approx([0.6, 0.7], abs=1e-4)
    assert sum(norm**2 for norm in norms) ** 0.5 <= clipped_to(own.optimizer) + 1e-6
    assert noise_of(own.optimizer) == pytest.approx(2.0)


# ---- several processes ----------------------------------------------------------------------------------------------

RANK = """
import sys, warnings
warnings.filterwarnings("ignore")
import opacus, torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Distributed
from torch.utils.data import DataLoader, TensorDataset
import dpledger as dpl
from dpledger.attach.opacus import charging
rank, where = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{where}/store", rank=rank, world_size=2)
module = Distributed(torch.nn.Linear(4, 2))
rows = TensorDataset(torch.randn(60, 4), torch.zeros(60, dtype=torch.long))
engine = opacus.PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
    data_loader=DataLoader(rows, batch_size=10), noise_multiplier=2.0, max_grad_norm=1.0,
)
scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(3, "1e-5"))
try:
    charging(scope, engine, model, optimizer, loader, steps=3, rate=1 / 6, expected_batch_size=10, by="A", reason="b")
except dpl.errors.ParameterError as error:
    print(type(optimizer).__name__, error, len(scope._ledger))
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_each_of_two_processes_is_refused_by_name_before_anything_is_charged(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for rank in range(2)
    ]
    for rank in ranks:
        said = rank.communicate(timeout=120)[0]
        assert said.startswith("DistributedDPOptimizer optimizer: expected clipping by hooks in one process")
        assert "the one that adds the noise cannot see how the others clip" in said
        assert said.split()[-1] == "2"  # entries: nothing was reserved
