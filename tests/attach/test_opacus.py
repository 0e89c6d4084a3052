"""Training with Opacus in a ledger: what is charged, what is refused before it is out, and what cannot take the guard
away. Against the library itself, on a model of ten weights."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pickle
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import opacus
import pytest
import torch
from hypothesis import given, settings, strategies as st
from opacus.optimizers import DPOptimizer
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer
from opacus.schedulers import ExponentialGradClip, ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager, wrap_data_loader
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler
from torch.utils.data import DataLoader, TensorDataset

import forking
from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.profile import compose
from dpledger.attach.opacus import OpacusRun, charging
from dpledger.attach.opacus.charging import ASSUMES, BY_ROW, CHOSEN, GROUPED, NULL_ROW, ROWS_PUBLIC
from dpledger.attach.opacus.objects import freshen, null_odd_rows, rate_of
from dpledger.errors import (
    BudgetRefused,
    ContractViolation,
    Halted,
    ParameterError,
    PolicyError,
    RelationError,
    ScopeError,
)
from dpledger.ledger.entries.bodies import Committed, Progress, Reserved
from dpledger.ledger.entries.members import MechanismNote
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import seeded
from dpledger.relations import Unit

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
]
ROWS, BATCH = 60, 10
PUBLIC: dict[str, Any] = {"rate": 1 / 6, "expected_batch_size": BATCH}
WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study"}
DELTA = "0.000001"
NOTHING: Any = "neither an engine nor a loader"
OPENED = 2  # entries of a ledger with a scope: nothing was charged


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors, and a seed for batches and noise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(14)
    yield
    torch.set_num_threads(before)


def scope_of(relation: str = "add_remove", epsilon: int = 8, unit: Unit | str = "record") -> tuple[Ledger, Scope]:
    book = Ledger.in_memory(entropy=seeded(51))
    return book, book.scope("rows", unit=unit, relation=relation, budget=ApproxDP(epsilon, DELTA))


def charged(run: OpacusRun) -> Committed:
    """What the record says in the end."""
    body = run.receipt.entry.body
    assert isinstance(body, Committed)
    return body


def steps_of(run: OpacusRun) -> Repeated:
    parts = charged(run).parts
    assert isinstance(parts, Repeated)
    return parts


def note_of(book: Ledger) -> MechanismNote:
    """What the reservation says that was run."""
    [note] = [entry.body.mechanism for entry in book.entries() if isinstance(entry.body, Reserved)]
    return note


class Study:
    """A model, an optimizer and a loader as `make_private` returns them, and a loop over them."""

    def __init__(self, accountant: str = "rdp", *layers: torch.nn.Module, **options: Any) -> None:
        rows = torch.randn(ROWS, 4)
        labels = (rows[:, 0] > 0).long()
        module = torch.nn.Sequential(torch.nn.Linear(4, 2), *layers) if layers else torch.nn.Linear(4, 2)
        self.engine: Any = opacus.PrivacyEngine(accountant=accountant)
        given = {"noise_multiplier": 2.0, "max_grad_norm": 1.0} | options
        make: Any = self.engine.make_private_with_epsilon if "target_epsilon" in given else self.engine.make_private
        if "target_epsilon" in given:
            del given["noise_multiplier"]
        made: Any = make(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5),
            data_loader=DataLoader(TensorDataset(rows, labels), batch_size=BATCH),
            **given,
        )
        self.model: Any = made[0]
        self.optimizer: Any = made[1]
        self.loader: Any = made[-1]

    def charging(self, scope: Scope, steps: int = 12, **options: Any) -> OpacusRun:
        """With the public numbers that Opacus took from the rows here too, unless others are given."""
        asked = {"steps": steps, **WHO, **PUBLIC, **options}
        return charging(scope, self.engine, self.model, self.optimizer, self.loader, **asked)

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield from self.loader

    def backward(self, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        rows, labels = batch
        torch.nn.functional.cross_entropy(self.model(rows), labels).backward()

    def train(self, steps: int) -> None:
        for _, batch in zip(range(steps), self.batches(), strict=False):
            self.optimizer.zero_grad()
            self.backward(batch)
            self.optimizer.step()

    def weights(self) -> torch.Tensor:
        return torch.cat([one.detach().reshape(-1).clone() for one in self.model.parameters()])

    def keeps_its_weights_when(self, act: Callable[[], object], error: type[Exception], match: str) -> None:
        before = self.weights()
        with pytest.raises(error, match=match):
            act()
        assert torch.equal(self.weights(), before)


# ---- what is charged ------------------------------------------------------------------------------------------------


def test_a_run_is_charged_at_the_rate_of_the_sampler_and_the_noise_of_the_optimizer_and_is_attested() -> None:
    book, scope = scope_of()
    study = Study()
    before = study.weights()
    with study.charging(scope, evidence="commit 7") as run:
        study.train(12)
    assert not torch.equal(study.weights(), before)
    step = PoissonSampled(GaussianLaw(2), rate=rate_of(study.loader.batch_sampler))
    assert charged(run).parts == Repeated(step, times=12, done=12)
    [one] = scope.releases()
    assert one.attested is not None
    assert (one.mechanism.kind, one.attested.by, one.attested.evidence) == ("opacus_dp_sgd", "A. Smith", "commit 7")
    book.verify()


def test_the_record_says_what_the_run_was_and_what_is_taken_on_trust() -> None:
    book, scope = scope_of()
    with Study(accountant="prv").charging(scope, grouped=True) as run:
        pass
    note = note_of(book)
    assert note.library == f"opacus {opacus.__version__}, torch {torch.__version__}"
    assert note.parameters["noise_multiplier"] == "2"
    assert note.parameters["accountant"] == "prv"
    assert note.parameters["secure_mode"] is False
    assert note.parameters["assumes"] == f"{ASSUMES}; {GROUPED}; {CHOSEN}"
    assert charged(run).rule == "cap"  # no step was seen, and nobody said that nothing ran


def test_secure_mode_is_said() -> None:
    book, scope = scope_of()
    study = Study(noise_generator=torch.Generator().manual_seed(3))
    study.optimizer.secure_mode = True
    with study.charging(scope):
        study.train(12)
    note = note_of(book)
    assert note.parameters["secure_mode"] is True


def test_steps_are_granted_in_blocks_before_their_noise_is_drawn() -> None:
    book, scope = scope_of()
    study = Study()

    def granted() -> list[int]:
        return [entry.body.upto for entry in book.entries() if isinstance(entry.body, Progress)]

    with study.charging(scope, steps=60) as run:
        draw = run._draw_and_add
        seen: list[int] = []

        def watched() -> None:
            seen.append(granted()[-1])
            draw()

        run._draw_and_add = watched
        study.train(60)
    assert all(upto >= taken for taken, upto in enumerate(seen, start=1))
    assert granted() == list(range(3, 61, 3))


def test_stopping_early_gives_back_the_steps_that_were_never_granted() -> None:
    """Of a run that is priced step by step; also by an exception."""
    _, scope = scope_of()
    study = Study()

    def loop() -> None:
        with study.charging(scope, steps=100, tail_delta=0):
            study.train(7)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        loop()
    [one] = scope.releases()
    assert (one.rule, one.granted) == ("steps", 10)


def test_a_run_of_which_nothing_ran_is_given_back_on_somebodys_word() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        run.nothing_ran()
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "is not charged")
    with study.charging(scope) as run:
        study.train(1)
        with pytest.raises(PolicyError, match="started"):
            run.nothing_ran()
    assert charged(run).rule in {"cap", "steps"}


def test_virtual_steps_of_a_batch_memory_manager_cost_nothing() -> None:
    """Physical batches of 2 rows: one noise, and one granted step, for each logical batch."""
    _, scope = scope_of()
    study, physical = Study(), 0
    with study.charging(scope, steps=6) as run:
        manager = BatchMemoryManager(data_loader=study.loader, max_physical_batch_size=2, optimizer=study.optimizer)
        with manager as loader:
            for batch in loader:
                study.optimizer.zero_grad()
                study.backward(batch)
                study.optimizer.step()
                physical += 1
    assert physical > 6
    assert run.taken == 6 == sum(steps for *_, steps in study.engine.accountant.history)
    assert steps_of(run).done == 6


def test_the_loader_of_a_batch_memory_manager_is_known_by_its_sampler() -> None:
    _, scope = scope_of()
    study = Study()
    study.loader = wrap_data_loader(data_loader=study.loader, max_batch_size=4, optimizer=study.optimizer)
    with study.charging(scope) as run:
        assert run._plan.public.rate == rate_of(study.loader.batch_sampler.sampler)


def test_what_a_loop_left_of_a_logical_batch_is_no_part_of_the_next_one() -> None:
    """Opacus itself adds the next batch to it, with a row in the sum twice that is in both; and its queue of skipped
    steps, which workers fill ahead, is that of the pass that ended."""
    _, scope = scope_of()

    def begun_again(study: Study) -> tuple[bool, int]:
        """Whether a sum is there once another pass has begun, and how many signals are in the queue."""
        loader = wrap_data_loader(data_loader=study.loader, max_batch_size=2, optimizer=study.optimizer)
        study.optimizer.zero_grad()
        study.backward(next(iter(loader)))
        study.optimizer.step()
        assert study.optimizer._is_last_step_skipped
        study.optimizer.signal_skip_step()
        next(iter(loader))
        return any(one.summed_grad is not None for one in study.optimizer.params), len(study.optimizer._step_skip_queue)

    assert begun_again(Study()) == (True, 2)
    study = Study()
    with study.charging(scope) as run:
        assert begun_again(study) == (False, 1)
        study.train(12)
    assert run.taken == 12


def test_noise_for_a_target_epsilon_is_charged_as_what_it_is() -> None:
    """Two epochs for epsilon 6: Opacus's calibration holds by its own accountant, and ours is not above it."""
    _, scope = scope_of()
    study = Study(target_epsilon=6.0, target_delta=1e-6, epochs=2)
    with study.charging(scope, steps=2 * len(study.loader)) as run:
        study.train(12)
    both = run.epsilons(DELTA)
    assert both.opacus is not None
    assert both.opacus <= 6
    assert both.certified.upper <= 6


@pytest.mark.parametrize("accountant", ["rdp", "prv"])
def test_our_epsilon_stands_beside_that_of_opacus(accountant: str) -> None:
    """Renyi orders are loose; PRV is an upper estimate, whose error it keeps below 0.01."""
    _, scope = scope_of()
    study = Study(accountant=accountant)
    with study.charging(scope) as run:
        with pytest.raises(ParameterError, match="a run with steps"):
            run.epsilons(DELTA)
        study.train(12)
    both = run.epsilons(DELTA)
    assert (both.accountant, both.delta) == (accountant, DELTA)
    assert both.opacus is not None
    assert float(both.certified.lower) < both.opacus
    assert float(both.certified.upper) > both.opacus - (0.02 if accountant == "prv" else math.inf)


@given(batches=st.integers(1, 5000))
@settings(max_examples=200)
def test_the_rate_is_the_chance_that_24_random_bits_are_below_the_sample_rate(batches: int) -> None:
    """Counted where torch compares them: the first number that is not below it."""
    rate = rate_of(SimpleNamespace(sample_rate=1 / batches))
    guess = 2**24 // batches
    near = torch.arange(max(0, guess - 2), min(2**24, guess + 3), dtype=torch.float64)
    below = ((near / 2**24).to(torch.float32) < 1 / batches).sum()
    chance = Fraction(max(0, guess - 2) + int(below), 2**24)
    assert chance <= Fraction(rate) <= chance + Fraction(1, 2**23)


# ---- what is refused before anything is charged ---------------------------------------------------------------------


def test_batches_that_are_no_poisson_samples_are_refused() -> None:
    book, scope = scope_of()
    with pytest.raises(ParameterError, match="Poisson samples"):
        Study(poisson_sampling=False).charging(scope)
    study = Study()
    with pytest.raises(ParameterError, match="loader"):
        charging(scope, study.engine, study.model, study.optimizer, NOTHING, steps=1, **WHO)
    assert len(book.entries()) == OPENED


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"grad_sample_mode": "ghost"}, "ghost clipping"),
        (
            {
                "clipping": "adaptive",
                "target_unclipped_quantile": 0.5,
                "clipbound_learning_rate": 0.2,
                "max_clipbound": 2.0,
                "min_clipbound": 0.5,
                "unclipped_num_std": 5.0,
            },
            "size of the batch",
        ),
    ],
    ids=["ghost", "adaptive"],
)
def test_other_clipping_is_refused(options: dict[str, Any], reason: str) -> None:
    _, scope = scope_of()
    with pytest.raises(ParameterError, match=reason):
        Study(**options).charging(scope)


def test_several_processes_are_refused(tmp_path: Path) -> None:
    _, scope = scope_of()
    study = Study()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        study.loader = DataLoader(
            study.loader.dataset,
            batch_sampler=DistributedUniformWithReplacementSampler(total_size=ROWS, sample_rate=0.1),
        )
        with pytest.raises(ParameterError, match="several processes"):
            study.charging(scope)
        study.optimizer = DistributedDPOptimizer(
            study.optimizer.original_optimizer, noise_multiplier=2.0, max_grad_norm=1.0, expected_batch_size=10
        )
        with pytest.raises(ParameterError, match="one process"):
            study.charging(scope)
        study = Study()
        study.model = torch.nn.parallel.DistributedDataParallel(study.model)
        with pytest.raises(ParameterError, match="DistributedDataParallel that adds up what several processes have"):
            study.charging(scope)
    finally:
        torch.distributed.destroy_process_group()


def test_wrong_parameters_are_named_with_nothing_charged() -> None:
    book, scope = scope_of()
    study = Study()
    with pytest.raises(ParameterError, match="steps"):
        study.charging(scope, steps=0)
    with pytest.raises(ParameterError, match="noise_multiplier"):
        study.charging(scope, noise_multiplier=3)
    with pytest.raises(ParameterError, match="scope"):
        study.charging("rows")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="engine"):
        charging(scope, NOTHING, study.model, study.optimizer, study.loader, steps=1, **WHO)
    with pytest.raises(ParameterError, match="DPOptimizer"):
        charging(scope, study.engine, study.model, study.optimizer.original_optimizer, study.loader, steps=1, **WHO)
    study.loader.batch_sampler.sample_rate = 2.0
    with pytest.raises(ParameterError, match="sample rate"):
        study.charging(scope_of("zero_out")[1], rate=None, expected_batch_size=None)
    assert len(book.entries()) == OPENED


def test_a_budget_that_is_too_small_and_a_relation_without_a_price_leave_the_optimizer_alone() -> None:
    study = Study(noise_multiplier=0.5)
    told = r"; `attach\.opacus\.plan_training` finds the least noise"
    with pytest.raises(BudgetRefused, match=told), study.charging(scope_of(epsilon=1)[1], steps=1000):
        raise AssertionError("trained without a charge")
    with pytest.raises(RelationError):
        study.charging(scope_of(relation="label_flip")[1])
    assert "add_noise" not in vars(study.optimizer)


def test_a_run_that_is_never_entered_leaves_the_optimizer_and_the_scope_alone() -> None:
    book, scope = scope_of()
    study = Study()
    never = study.charging(scope)
    assert "add_noise" not in vars(study.optimizer)
    assert len(book.entries()) == OPENED
    with study.charging(scope) as run:
        with pytest.raises(ParameterError, match="share its steps"), never:
            raise AssertionError("two runs of one optimizer")
        study.train(12)
    with (
        pytest.raises(ParameterError, match="expected 12, as many steps as the engine's accountant has counted"),
        never,
    ):
        raise AssertionError("steps that no entry charges")
    assert (run.taken, len(scope.releases())) == (12, 1)


def test_a_unit_of_many_rows_wants_rows_that_are_units() -> None:
    _, scope = scope_of(unit=Unit("patient", 5))
    with pytest.raises(ParameterError, match="everything of one patient"):
        Study().charging(scope)
    with Study().charging(scope, grouped=True) as run:
        run.nothing_ran()


def test_rows_of_a_unit_that_are_drawn_one_by_one_are_charged_together() -> None:
    book, scope = scope_of(unit=Unit("patient", 5), epsilon=30)
    study = Study()
    with pytest.raises(ParameterError, match=r"^grouped: .* or by_row=True"):
        study.charging(scope)
    with pytest.raises(ParameterError, match="by_row: expected one of them"):
        study.charging(scope, grouped=True, by_row=True)
    for name in ("grouped", "by_row"):
        with pytest.raises(ParameterError, match=f"{name}: expected True or False, got no"):
            study.charging(scope, 12, **{name: "no"})
    with study.charging(scope, by_row=True) as run:
        study.train(12)
        step = PoissonSampled(GaussianLaw(2), rate=rate_of(study.loader.batch_sampler))
        together = Repeated(Group(step, k=5, relation=scope.relation), times=12)
        assert run.epsilons("1e-5").certified == compose(together).epsilon("1e-5")
    assert charged(run).parts == dataclasses.replace(together, done=12)
    assert note_of(book).parameters["assumes"] == f"{ASSUMES}; {BY_ROW}; {CHOSEN}"
    book.verify()


def test_one_run_at_a_time_and_noise_of_opacus_alone() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        with pytest.raises(ParameterError, match="share its steps"):
            study.charging(scope)
        run.nothing_ran()
    other = Study()
    other.optimizer.add_noise = lambda: None
    with pytest.raises(ParameterError, match="replaced"):
        other.charging(scope)


# ---- what is refused in a step, before its noise is drawn -----------------------------------------------------------


def test_a_step_beyond_the_plan_or_after_the_block_changes_nothing() -> None:
    """Also none of an optimizer that nobody charges any more; another run of it is charged by itself."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope, steps=5) as run:
        study.train(5)
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "all 5 planned steps")
    study.keeps_its_weights_when(lambda: study.train(1), Halted, "is not charged")
    assert run.taken == 5
    with study.charging(scope, steps=3, steps_before=5) as second:
        study.train(3)
    assert (second.granted, second.taken, run.taken) == (3, 3, 5)
    assert len(scope.releases()) == 2


def test_noise_without_gradients_is_refused_and_can_be_made_up_for() -> None:
    _, scope = scope_of()
    study = Study(noise_generator=torch.Generator().manual_seed(3))
    with study.charging(scope) as run:
        study.train(1)
        study.loader.batch_sampler.unused = [ROWS]
        study.keeps_its_weights_when(study.optimizer.add_noise, Halted, "noise without gradients")
        assert run.granted == 1
        study.train(1)
    assert run.taken == 2


def test_under_zero_out_a_zeroed_row_is_taken_to_have_no_gradient() -> None:
    book, scope = scope_of(relation="zero_out")
    with Study().charging(scope) as run:
        run.nothing_ran()
    assert note_of(book).parameters["assumes"] == f"{ASSUMES}; {ROWS_PUBLIC}; {NULL_ROW}"


# ---- the two numbers that Opacus takes from the number of rows ------------------------------------------------------


class Rows(Study):
    """The same of so many rows, in batches of ten."""

    def __init__(self, rows: int, **options: Any) -> None:
        super().__init__()
        module = torch.nn.Linear(4, 2)
        data = DataLoader(TensorDataset(torch.randn(rows, 4), torch.zeros(rows).long()), batch_size=BATCH)
        given: dict[str, Any] = {"noise_multiplier": 2.0, "max_grad_norm": 1.0} | options
        self.engine = opacus.PrivacyEngine(accountant="rdp")
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1), data_loader=data, **given
        )


def numbers_of(study: Study) -> tuple[float, float, int]:
    return study.loader.batch_sampler.sample_rate, study.optimizer.expected_batch_size, len(study.loader)


def test_opacus_takes_both_numbers_from_the_rows_so_that_neighbours_differ() -> None:
    """What this library does, which the charge must not rest on."""
    assert [numbers_of(Rows(rows))[1] for rows in (59, 60)] == [9, 10]
    assert [numbers_of(Rows(rows))[0] for rows in (60, 61)] == [1 / 6, 1 / 7]


@pytest.mark.parametrize("missing", ["rate", "expected_batch_size"])
def test_under_add_remove_a_number_that_nobody_declared_is_asked_for(missing: str) -> None:
    book, scope = scope_of()
    without: dict[str, Any] = {missing: None}
    with pytest.raises(ParameterError, match=rf"{missing}.*without looking at the rows.*neighbours may differ"):
        Study().charging(scope, **without)
    assert len(book.entries()) == OPENED


@pytest.mark.parametrize("rows", [59, 60, 61])
def test_neighbours_draw_and_divide_by_what_was_declared(rows: int) -> None:
    _, scope = scope_of()
    study = Rows(rows)
    with study.charging(scope) as run:
        assert numbers_of(study) == (1 / 6, BATCH, 6)
        study.train(12)
    step = PoissonSampled(GaussianLaw(2), rate=rate_of(study.loader.batch_sampler))
    assert (run.taken, charged(run).parts) == (12, Repeated(step, times=12, done=12))


def test_before_the_block_both_numbers_are_as_they_were() -> None:
    study = Rows(61)
    before = numbers_of(study)
    study.charging(scope_of()[1])
    assert numbers_of(study) == before != (1 / 6, BATCH, 6)


def test_a_divisor_that_changes_in_the_run_is_refused_in_the_step() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.train(1)
        study.optimizer.expected_batch_size = 9
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "divided by 9, not by 10")
    assert run.taken == 1


def test_under_zero_out_the_numbers_of_opacus_are_kept_or_declared() -> None:
    study = Rows(61)
    before = numbers_of(study)
    with study.charging(scope_of("zero_out")[1], rate=None, expected_batch_size=None):
        assert numbers_of(study) == before
    with study.charging(scope_of("zero_out")[1], rate=None, expected_batch_size=12):
        assert numbers_of(study) == (before[0], 12, before[2])
    with study.charging(scope_of("zero_out")[1], rate="0.1", expected_batch_size=None):
        assert numbers_of(study) == (0.1, 12, 10)


def test_sums_that_are_not_divided_need_no_divisor() -> None:
    study = Rows(60, loss_reduction="sum")
    with pytest.raises(ParameterError, match="does not divide"):
        study.charging(scope_of()[1])
    with study.charging(scope_of()[1], expected_batch_size=None) as run:
        study.train(3)
    assert run.taken == 3


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": "1.01"}, {"expected_batch_size": 0}], ids=str)
def test_wrong_numbers_are_named(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(ParameterError, match=name):
        Study().charging(scope_of()[1], **wrong)


def test_rows_with_weights_are_refused_by_name() -> None:
    study = Study()
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * ROWS, num_samples=12)
    study.loader = DataLoader(study.loader.dataset, batch_size=BATCH, sampler=weighted)
    with pytest.raises(ParameterError, match=r"would depend on its weight.*WeightedRandomSampler"):
        study.charging(scope_of()[1])


def test_steps_that_no_entry_charges_are_asked_about() -> None:
    _, scope = scope_of()
    study = Study()
    study.train(4)
    with pytest.raises(
        ParameterError, match=r"expected 4.* if other charges cover them; else take a fresh PrivacyEngine"
    ):
        study.charging(scope)
    with study.charging(scope, steps_before=4) as run:
        study.train(12)
    assert run.epsilons(DELTA).opacus is not None


def test_less_noise_than_planned_is_refused_and_more_is_not() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        schedule = ExponentialNoise(study.optimizer, gamma=0.5)
        study.train(1)
        schedule.step()
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "noise of 1.0 times 1.0")
        study.optimizer.noise_multiplier = 9.0
        study.train(1)
    assert run.taken == 2


def test_a_schedule_is_charged_at_the_least_noise_that_was_declared() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope, noise_multiplier=1) as run:
        schedule = ExponentialNoise(study.optimizer, gamma=0.5)
        study.train(1)
        schedule.step()
        study.train(1)
        schedule.step()
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "noise of 0.5")
    assert steps_of(run).of == PoissonSampled(GaussianLaw(1), rate=rate_of(study.loader.batch_sampler))


def test_a_clip_norm_may_change_between_steps_and_not_within_one() -> None:
    """Noise is a multiple of the norm as it is then: too little for a row that was clipped to a larger one."""
    _, scope = scope_of()
    study = Study()
    batches = study.batches()
    with study.charging(scope) as run:
        schedule = ExponentialGradClip(study.optimizer, gamma=0.5)
        study.train(1)
        schedule.step()
        study.train(1)
        rows, labels = next(batches)
        study.optimizer.zero_grad()
        study.backward((rows[:2], labels[:2]))
        study.optimizer.signal_skip_step()
        study.optimizer.step()
        study.optimizer.zero_grad()
        study.backward((rows[2:], labels[2:]))
        schedule.step()
        study.keeps_its_weights_when(study.optimizer.step, Halted, "clipped to 0.5")
    assert run.taken == 2


def test_two_batches_in_one_sum_are_refused() -> None:
    """By a step that is skipped: a row may be in both, and is clipped in each."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        batches = study.batches()
        study.optimizer.zero_grad()
        study.backward(next(batches))
        study.optimizer.signal_skip_step()
        study.optimizer.step()
        study.optimizer.zero_grad()
        study.backward(next(batches))
        study.keeps_its_weights_when(study.optimizer.step, Halted, "more gradients than rows")
    assert run.taken == 0


def test_gradients_of_several_passes_in_one_sum_are_refused() -> None:
    _, scope = scope_of()
    study = Study()
    study.model.allow_grad_accumulation()
    batches = study.batches()
    with study.charging(scope) as run:
        study.backward(next(batches))
        study.backward(next(batches))
        study.keeps_its_weights_when(study.optimizer.step, Halted, "gradients of 2 passes")
        study.optimizer.zero_grad()
        study.train(1)
    assert run.taken == 1


def test_a_step_that_is_skipped_is_not_granted() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.backward(next(iter(study.loader)))
        study.optimizer.signal_skip_step()
        study.optimizer.step()
        assert (run.granted, run.taken) == (0, 0)
        run.nothing_ran()


def test_a_higher_rate_is_refused_and_a_lower_one_is_not() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.loader.batch_sampler.sample_rate = 0.01
        study.train(1)
        study.loader.batch_sampler.sample_rate = 0.2
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "above the planned")
    assert run.taken == 1


@pytest.mark.parametrize("own_generator", [False, True], ids=["default", "own"])
def test_neither_noise_nor_batches_follow_what_a_loop_seeds(own_generator: bool) -> None:
    """Of a seed that comes back two steps would have the same noise, and their difference none."""
    _, scope = scope_of()
    generator = torch.Generator().manual_seed(3) if own_generator else torch.default_generator
    study = Study(noise_generator=generator) if own_generator else Study()
    drawn, noises = [], []
    steps_before = 0
    for _ in range(2):
        torch.manual_seed(5)
        generator.manual_seed(5)
        with study.charging(scope, steps=6, steps_before=steps_before) as run:
            for rows, labels in study.loader:
                study.optimizer.zero_grad()
                study.backward((rows, labels))
                study.optimizer.clip_and_accumulate()
                before = torch.cat([one.summed_grad.flatten() for one in study.optimizer.params])
                study.optimizer.add_noise()
                noisy = torch.cat([one.grad.flatten() for one in study.optimizer.params])
                drawn.append(rows[:, 0].tolist())
                noises.append(tuple((noisy - before).tolist()))
                torch.manual_seed(5)
                generator.manual_seed(5)
        assert run.taken == 6
    assert len(set(noises)) == 12
    assert len(set(map(tuple, drawn))) == 12


def test_the_noise_of_a_step_is_no_function_of_a_seed_of_32_bits() -> None:
    """Of 32 bits one would find them all, and of 100,000 steps two would be alike."""
    fresh = freshen(torch.Generator())
    seeded = torch.Generator().manual_seed(fresh.initial_seed())
    assert not torch.equal(torch.rand(4, generator=fresh), torch.rand(4, generator=seeded))
    words = fresh.get_state()[24:5016].view(torch.int64)
    assert len(set(words.tolist())) == 624
    assert all(0 <= word < 2**32 for word in words.tolist())
    draws = torch.rand(20_000, generator=freshen(torch.Generator()))
    assert abs(float(draws.mean()) - 0.5) < 0.02


def test_no_gradient_of_a_row_is_left_beside_the_weights() -> None:
    """`torch.save(model)` writes what hangs on its parameters."""
    _, scope = scope_of()
    study = Study()
    left = {"grad_sample", "summed_grad"}
    with study.charging(scope) as run:
        study.train(2)
        assert not any(vars(one).get(name) is not None for one in study.model.parameters() for name in left)
        study.backward(next(iter(study.loader)))
    assert run.taken == 2
    assert not any(vars(one).get(name) is not None for one in study.model.parameters() for name in left)
    assert not any(one.grad is not None and one.grad.any() for one in study.model.parameters())


def test_an_update_without_noise_is_refused() -> None:
    """By the optimizer below, which holds raw gradients after a backward pass."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.train(1)
        study.optimizer.zero_grad()
        study.backward(next(iter(study.loader)))
        study.keeps_its_weights_when(study.optimizer.original_optimizer.step, Halted, "no noise")
    assert run.taken == 1


def test_an_update_of_a_layer_that_was_frozen_after_backward_is_refused() -> None:
    """Opacus leaves it out, and its optimizer would apply the gradient that torch computed, without noise."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope):
        study.backward(next(study.batches()))
        study.model._module.bias.requires_grad_(False)
        study.keeps_its_weights_when(study.optimizer.step, Halted, "frozen after")
        study.model._module.bias.requires_grad_(True)
        study.train(2)


@pytest.mark.parametrize(
    "options", [{}, {"clipping": "per_layer", "max_grad_norm": [1.0, 1.0]}], ids=["flat", "layers"]
)
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_row_whose_gradient_is_not_finite_counts_as_zero(options: dict[str, Any], odd: float) -> None:
    """A sum would show it: of all weights nothing would be left."""
    _, scope = scope_of()
    study = Study(**options)
    rows, sums = torch.randn(9, 4), []
    with study.charging(scope):
        next(study.batches())
        study.loader.batch_sampler.unused = [ROWS]
        for taken in (torch.cat([torch.full((1, 4), odd), rows]), rows):
            study.optimizer.zero_grad()
            study.backward((taken, torch.ones(len(taken)).long()))
            study.optimizer.clip_and_accumulate()
            sums.append([one.summed_grad.clone() for one in study.optimizer.params])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*sums, strict=True))
    assert all(bool(one.abs().max() > 0) for one in sums[0])


def test_a_row_that_is_not_finite_moves_no_other_whose_gradient_lies_in_the_same_memory() -> None:
    """In the mode `ew` the gradients of a bias may be one row, shown as many."""
    shared, own = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))
    shared.grad_sample, own.grad_sample = torch.ones(2).expand(5, 2), [torch.ones(5, 3)]
    own.grad_sample[0][1, 2] = math.nan
    null_odd_rows(SimpleNamespace(params=[shared, own]))
    counts = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    assert torch.equal(shared.grad_sample.sum(1), 2 * counts)
    assert torch.equal(own.grad_sample[0].sum(1), 3 * counts)


def test_each_step_takes_a_batch_that_was_drawn_in_the_block_at_its_rate() -> None:
    _, scope = scope_of()
    study = Study()
    before = iter(study.loader)
    drawn = next(before)

    def step() -> None:
        study.optimizer.zero_grad()
        study.backward(drawn)
        study.optimizer.step()

    with study.charging(scope) as run:
        study.keeps_its_weights_when(step, Halted, "inside its block")
        drawn = next(before)  # of a pass that began before
        study.keeps_its_weights_when(step, Halted, "inside its block")
        study.optimizer.zero_grad()
        study.train(2)
        study.keeps_its_weights_when(step, Halted, "a batch of its own")
        study.optimizer.zero_grad()
        study.train(2)
    assert run.taken == 4


def test_a_second_step_on_one_batch_is_refused_though_workers_drew_others_ahead() -> None:
    _, scope = scope_of()
    study = Study()
    sampler = study.loader.batch_sampler
    study.loader = DataLoader(
        study.loader.dataset, batch_sampler=sampler, num_workers=2, multiprocessing_context="fork"
    )
    with study.charging(scope) as run:
        batches = study.batches()
        for _ in range(2):
            batch = next(batches)
            study.optimizer.zero_grad()
            study.backward(batch)
            study.optimizer.step()
        study.optimizer.zero_grad()
        study.backward(batch)
        study.keeps_its_weights_when(study.optimizer.step, Halted, "a batch of its own")
        study.optimizer.zero_grad()
        study.train(2)
    assert run.taken == 4


def test_a_sum_of_a_layer_that_was_frozen_since_is_dropped_with_the_others() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope):
        for one in study.optimizer.params:
            one.summed_grad = torch.ones(1)
        next(study.model.parameters()).requires_grad_(False)
        next(study.batches())
        assert [one.summed_grad for one in study.model.parameters()] == [None, None]


def test_coarse_floats_are_refused_before_anything_is_charged() -> None:
    book, scope = scope_of()
    study = Study()
    study.model.to(torch.bfloat16)
    with pytest.raises(ParameterError, match="bfloat16"):
        study.charging(scope)
    assert len(book) == 2


def test_noise_that_is_drawn_without_an_update_is_a_step() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.backward(next(iter(study.loader)))
        study.optimizer.pre_step()
    assert (run.taken, run.granted) == (1, 1)


# ---- what is taken back, and who else hooks on ----------------------------------------------------------------------


def test_another_hook_detaches_nothing() -> None:
    """Opacus has one slot for a hook: who takes it stops Opacus's accountant, and ours counts on."""
    _, scope = scope_of()
    study = Study()
    seen: list[object] = []
    with study.charging(scope) as run:
        study.train(2)
        study.optimizer.attach_step_hook(seen.append)
        study.train(3)
    assert (run.taken, len(seen)) == (5, 3)
    assert run.epsilons(DELTA).opacus is None


def test_who_replaces_the_noise_gets_no_update() -> None:
    """Nor another run, whose guard would stand beside it."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.train(1)
        study.optimizer.add_noise = DPOptimizer.add_noise.__get__(study.optimizer)
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "no noise")
    assert run.taken == 1
    with pytest.raises(ParameterError, match="replaced"):
        study.charging(scope, steps_before=2)


def test_an_optimizer_that_is_made_private_again_is_charged_anew() -> None:
    """The new guard stands in for the old one, which refuses the updates of an optimizer that nobody charged."""
    _, scope = scope_of()
    study = Study()

    def make_private() -> None:
        study.model, study.optimizer, _ = study.engine.make_private(
            module=study.model, optimizer=study.optimizer, data_loader=study.loader, noise_multiplier=2.0,
            max_grad_norm=1.0,
        )  # fmt: skip

    with study.charging(scope):
        study.train(3)
        make_private()
        with pytest.raises(ParameterError, match="share its steps"):
            study.charging(scope, steps_before=3)
    study.keeps_its_weights_when(lambda: study.train(1), Halted, "no noise")
    with study.charging(scope, steps=3, steps_before=4) as run:
        study.train(3)
    assert run.taken == 3


def test_an_accountant_that_was_set_back_ends_the_run_at_its_full_charge() -> None:
    book, scope = scope_of()
    study = Study()
    with study.charging(scope, steps=100, tail_delta=0) as run:
        study.train(2)
        older = study.engine.accountant.state_dict()
        study.train(1)
        study.engine.accountant.load_state_dict(older)
        study.keeps_its_weights_when(lambda: study.train(1), ContractViolation, "from 3 steps to 2")
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "over")
    body = charged(run)
    assert (body.rule, body.outside_guarantee) == ("cap", True)
    assert body.warnings == ("the accountant of Opacus was set back from 3 steps to 2",)
    assert run.epsilons(DELTA).opacus is None
    book.verify()


def test_an_older_state_of_the_optimizer_is_not_loaded_in_the_middle() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        older = study.optimizer.state_dict()
        study.train(2)
        with pytest.raises(Halted, match="loaded before its run"):
            study.optimizer.load_state_dict(older)
        study.train(1)
    study.optimizer.load_state_dict(older)
    assert run.taken == 3


def test_a_run_can_be_said_to_have_broken_off() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.train(1)
        run.broke_off("the rows were those of another study")
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "over")
    assert charged(run).outside_guarantee
    assert charged(run).rule == "cap"


def test_it_stays_in_its_process_and_is_short() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        assert repr(run) == "<OpacusRun: 0 of 12 steps granted>"
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(run)
        with pytest.raises(ScopeError, match="not charged yet"):
            _ = run.receipt
        run.close()
    assert charged(run).rule == "cap"


@forking.ignores_fork_warnings
def test_a_fork_draws_nothing_under_the_steps_of_its_parent() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        study.train(1)
        study.optimizer.zero_grad()
        study.backward(next(iter(study.loader)))
        assert "ForkedProcess" in forking.in_child(study.optimizer.step)
        study.optimizer.step()
    assert run.taken == 2


class AlwaysClipped(OpacusRun):
    """Of which each step has gradients."""

    _clipped_to = property(lambda _: 1.0, lambda *_: None)


def test_threads_take_turns() -> None:
    """No noise is drawn while another is, and each has a granted step of its own."""
    _, scope = scope_of()
    study = Study()
    inside: list[bool] = []
    busy = threading.Lock()

    def draw() -> None:
        inside.append(busy.acquire(blocking=False))
        torch.randn(1)
        busy.release()

    with study.charging(scope, steps=40) as run:
        study.loader.batch_sampler.unused = [ROWS] * 40
        run._draw_and_add, run.__class__ = draw, AlwaysClipped
        threads = [threading.Thread(target=lambda: [study.optimizer.add_noise() for _ in range(10)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert inside == [True] * 40
    assert run.taken == run.granted == 40


def test_opacus_calls_what_is_guarded() -> None:
    """The shape of the library that the guard rests on: `step` calls both methods of the object that it is given."""
    called: list[str] = []
    study = Study()

    def watched(name: str) -> Callable[[], None]:
        real = getattr(DPOptimizer, name).__get__(study.optimizer)

        def method() -> None:
            called.append(name)
            real()

        return method

    for name in ("clip_and_accumulate", "add_noise"):
        setattr(study.optimizer, name, watched(name))
    study.train(1)
    assert called == ["clip_and_accumulate", "add_noise"]


# ---- what layers do with rows beside their gradients ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "does"),
    [
        (torch.nn.BatchNorm1d(2, affine=False), "1, a BatchNorm1d that mixes the rows of a batch"),
        (torch.nn.BatchNorm1d(2, affine=False, track_running_stats=False).eval(), "1, a BatchNorm1d that mixes"),
        (torch.nn.InstanceNorm1d(2, track_running_stats=True), "1, a InstanceNorm1d that keeps running statistics"),
    ],
    ids=["batch", "batch-eval", "instance"],
)
def test_a_layer_that_mixes_rows_or_keeps_statistics_of_them_is_refused_with_nothing_charged(
    layer: torch.nn.Module, does: str
) -> None:
    book, scope = scope_of()
    study = Study("rdp", layer)
    if not layer.training:
        study.model.eval()  # in which it takes those of the batch all the same
    with pytest.raises(ParameterError, match=f"model: .*GroupNorm.*got .*{does}"):
        study.charging(scope)
    assert len(book) == OPENED


class Remembers(torch.nn.Module):  # type: ignore[misc]
    """Adds up what it saw, in a buffer of its own."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen = self.seen + rows.detach().sum(0)
        return rows


def test_a_buffer_that_changes_is_refused_in_the_step_and_is_as_it_was_again() -> None:
    _, scope = scope_of()
    layer = Remembers()
    study = Study("rdp", layer)
    with study.charging(scope) as run:
        study.keeps_its_weights_when(
            lambda: study.train(1), Halted, "1.seen, which a layer keeps beside its weights, changed"
        )
        assert study.model.state_dict()["_module.1.seen"].tolist() == [0, 0]
        assert run.granted == 0
        layer.eval()
        study.train(2)
        assert run.taken == 2


def test_a_normalisation_with_public_statistics_stays_as_it_is() -> None:
    _, scope = scope_of()
    frozen = torch.nn.BatchNorm1d(2, affine=False).eval()
    study = Study("rdp", frozen)
    frozen.eval()  # make_private put all layers in training
    with study.charging(scope) as run:
        study.train(2)
        assert run.taken == 2
        frozen.train()
        study.keeps_its_weights_when(lambda: study.train(1), Halted, "running_mean, which a layer keeps")
        assert frozen.state_dict()["running_mean"].tolist() == [0, 0]


class Notes(torch.nn.Module):  # type: ignore[misc]
    """Writes down what it saw, in plain attributes; the weights and a number of its own it may have there."""

    def __init__(self, note: Callable[[Notes, torch.Tensor], object]) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.same_weights, self.passes = [self.inner.weight, self.inner.weight.detach()], 0
        self.mean, self.seen, self.notes = torch.zeros(2), None, {"logits": [torch.zeros(1)]}
        self.note = note

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        if self.training:
            self.note(self, rows.detach())
        return self.inner(rows)


@pytest.mark.parametrize(
    ("note", "name"),
    [
        (lambda layer, rows: layer.mean.add_(rows.sum(0)), "mean"),
        (lambda layer, rows: setattr(layer, "mean", rows.sum(0)), "mean"),
        (lambda layer, rows: setattr(layer, "seen", rows), "seen"),
        (lambda layer, rows: setattr(layer, "last", (rows,)), "last"),
        (lambda layer, rows: layer.notes["logits"].append(rows), "notes"),
    ],
    ids=["in place", "another", "none before", "new", "in a list"],
)
def test_a_tensor_in_an_attribute_that_changes_is_refused_in_the_step_and_is_as_it_was_again(
    note: Callable[[Notes, torch.Tensor], object], name: str
) -> None:
    """The next step would see it, and `torch.save(model)` writes it."""
    _, scope = scope_of()
    layer = Notes(note)
    study = Study("rdp", layer)
    with study.charging(scope) as run:
        study.keeps_its_weights_when(lambda: study.train(1), Halted, f"1.{name}, which a layer keeps beside")
        assert layer.mean.tolist() == [0, 0]
        assert layer.seen is None
        assert not hasattr(layer, "last")
        assert layer.notes == {"logits": [torch.zeros(1)]}
        assert run.granted == 0
        layer.note = lambda layer, rows: None
        study.train(2)
        assert (run.taken, layer.passes) == (2, 3)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_gradients_of_half_precision_are_refused_in_the_step(kind: torch.dtype) -> None:
    """The weights are whole, but autocast makes gradients of rows that are not, and Opacus sums them as they are: of
    505 rows of norm 1 or less one moves the sum by nearly 3."""
    _, scope = scope_of()
    study = Study()
    with study.charging(scope) as run:
        with torch.autocast("cpu", dtype=kind):
            study.keeps_its_weights_when(lambda: study.train(1), Halted, f"gradients of {kind}, .*without autocast")
        assert run.granted == 0
        study.train(2)
        assert run.taken == 2


def test_another_model_than_the_one_that_is_trained_is_refused() -> None:
    book, scope = scope_of()
    study = Study()
    for model, found in ((torch.nn.Linear(4, 2), "a Linear without them"), (study.optimizer, "DPOptimizer")):
        with pytest.raises(ParameterError, match=f"model: .*got {found}"):
            charging(scope, study.engine, model, study.optimizer, study.loader, steps=2, **WHO, **PUBLIC)
    assert len(book) == OPENED


def test_several_devices_are_refused() -> None:
    _, scope = scope_of()
    study = Study("rdp", torch.nn.DataParallel(torch.nn.Identity()))
    with study.charging(scope) as run:
        study.train(1)
    assert run.taken == 1
    devices = torch.nn.DataParallel(torch.nn.Identity())
    devices.device_ids = [0, 1]
    with pytest.raises(ParameterError, match="DataParallel that clips on several devices"):
        Study("rdp", devices).charging(scope)


def _twice(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Each row, and beside it what an augmentation made of it."""
    return model(torch.cat([rows, -rows]))


def _by_moments(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """A row of moments taken apart: to the layers each of them is a row."""
    return model(torch.stack([rows, rows], dim=1).flatten(0, 1))


@pytest.mark.parametrize("use", [_twice, _by_moments])
@pytest.mark.parametrize("physical", [None, 3], ids=["whole", "in pieces"])
def test_a_row_that_has_several_gradients_in_a_step_is_refused(use: Callable[..., torch.Tensor], physical: Any) -> None:
    """Each of them is clipped by itself, and all of them move the sum: by twice what is charged."""
    _, scope = scope_of()
    study = Study()

    def train() -> None:
        managed: Any = contextlib.nullcontext(study.loader)
        if physical is not None:
            managed = BatchMemoryManager(
                data_loader=study.loader, max_physical_batch_size=physical, optimizer=study.optimizer
            )
        with managed as loader:
            for rows, _ in loader:
                study.optimizer.zero_grad()
                use(study.model, rows).square().sum(1).mean().backward()
                study.optimizer.step()

    with study.charging(scope, steps=6) as run:
        study.keeps_its_weights_when(train, Halted, "more gradients than rows were drawn")
        assert run.granted == 0
        study.train(1)


def test_batches_that_a_loop_passes_over_may_be_smaller_than_those_it_takes() -> None:
    _, scope = scope_of()
    study = Study()
    with study.charging(scope, steps=6) as run:
        for rows, labels in study.loader:
            if len(rows) > BATCH - 2:
                study.optimizer.zero_grad()
                study.backward((rows, labels))
                study.optimizer.step()
    assert run.granted == run.taken
