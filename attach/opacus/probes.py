"""The static probes on a training with Opacus: your own set-up and your own step, on made-up rows.

>>> import warnings, opacus, torch
>>> warnings.filterwarnings("ignore", message="Secure RNG turned off|Full backward hook")
>>> def make(rows):
...     model, engine = torch.nn.Linear(3, 1), opacus.PrivacyEngine(accountant="rdp")
...     made = engine.make_private(
...         module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
...         data_loader=torch.utils.data.DataLoader(rows, batch_size=8), noise_multiplier=2.0, max_grad_norm=1.0,
...     )
...     return engine, *made
>>> def step(model, optimizer, batch):
...     optimizer.zero_grad()
...     torch.nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
...     optimizer.step()
>>> made_up = torch.utils.data.TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
>>> probe(make, step, made_up, relation="add_remove").faults  # Opacus takes its divisor from the number of rows
('divisor',)
>>> probe(make, step, made_up, relation="add_remove", rate="0.125", expected_batch_size=8).faults
()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from dpledger.attach.extras import extra
from dpledger.attach.opacus.objects import clipped_to, counted, require_relation
from dpledger.attach.opacus.public import Public, by_declaration
from dpledger.audit.training.probes.asking import probe as ask
from dpledger.audit.training.probes.loops import LEAST_ROWS, RANK_NUMBERS, positions_of
from dpledger.audit.training.probes.result import ProbeReport
from dpledger.audit.training.probes.set_ups import CannotTell, Charged, Gradient, Positions, StepCounts, exploded
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.relations import Relation

with extra("opacus"):
    import torch
    from opacus import PrivacyEngine
    from opacus.optimizers import DPOptimizer
    from opacus.utils.batch_memory_manager import BatchSplittingSampler
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

__all__ = ["probe"]

Made: TypeAlias = "tuple[PrivacyEngine, torch.nn.Module, DPOptimizer, torch.utils.data.DataLoader[Any]]"
_MADE = "engine, model, optimizer and loader, as make_private made them"
_COURSE = 3


def probe(
    make: Callable[[torch.utils.data.Dataset[Any]], Made],
    step: Callable[[torch.nn.Module, DPOptimizer, Any], object],
    made_up_rows: torch.utils.data.Dataset[Any],
    *,
    relation: Relation | str,
    rate: Number | None = None,
    expected_batch_size: int | None = None,
    exploding: Sequence[int] | None = None,
    ranks: Callable[[int], Made] | None = None,
) -> ProbeReport:
    """Ask the six questions of a set-up of Opacus, before it sees a private row.

    `make(rows)`: engine, model, optimizer and loader, as your program makes them; it is called anew for fewer rows.
    `step(model, optimizer, batch)`: one step of your loop. `made_up_rows`: a dataset in the form of yours, at least 16
    rows, never private ones. `exploding`: positions of two of them or more with gradients far beyond the clip norm;
    default: floats of the first two of a TensorDataset are multiplied.
    `relation`: that of the scope. `rate`, `expected_batch_size`: as given to `charging`, which sets them; else what
    Opacus takes from the rows is asked about, against what its accountant is told.
    `ranks(rank)`: what a process of this rank makes, from its own seeds. Each starts with torch's generator seeded
    anew, as a fresh process does.
    Claim: none; see `docs/training_probes.md` for what no probe sees.
    Raises ParameterError for another make or dataset, or a step without an update; RelationError under label_flip
    (add_remove, zero_out and replace_one are answered); whatever `make` and `step` raise."""
    own = Relation(relation)
    require_relation(own)
    if (rate is None) != (expected_batch_size is None):
        raise ParameterError("rate", rate, "rate and expected_batch_size, or neither")
    public = None if rate is None else by_declaration(rate=rate, expected_batch_size=expected_batch_size)
    try:
        rows = len(made_up_rows)
    except TypeError:
        raise ParameterError(
            "made_up_rows", type(made_up_rows).__name__, "a dataset of rows that are counted"
        ) from None
    if rows < LEAST_ROWS:
        raise ParameterError("made_up_rows", f"{rows} rows", f"at least {LEAST_ROWS} made-up rows")
    if exploding is not None:
        positions = positions_of(exploding, rows)
    elif isinstance(made_up_rows, torch.utils.data.TensorDataset):
        positions = (0, 1)
        columns = exploded(tuple(one.numpy() for one in made_up_rows.tensors), positions)
        made_up_rows = torch.utils.data.TensorDataset(*(torch.from_numpy(one) for one in columns))
    else:
        raise ParameterError("exploding", None, "positions of rows with huge gradients, if rows are no TensorDataset")
    with torch.random.fork_rng():
        try:
            set_up = OfOpacus(make, step, made_up_rows, rows, positions, own, public, ranks)
        except CannotTell as why:
            raise ParameterError("step", str(why), "one step of your loop, with optimizer.step()") from None
        return ask(set_up)


class OfOpacus:
    """A set-up of Opacus, as the probes ask for it."""

    def __init__(
        self,
        make: Callable[[Any], Made],
        step: Callable[[Any, Any, Any], object],
        dataset: Any,
        rows: int,
        exploding: tuple[int, ...],
        relation: Relation,
        public: Public | None,
        ranks: Callable[[int], Made] | None,
    ) -> None:
        self._make, self._step, self._dataset, self._public, self._ranks = make, step, dataset, public, ranks
        self._relation, self.shares_rows = relation, relation is Relation.ZERO_OUT
        self.rows, self.exploding = rows, tuple(position for position in exploding if position < rows)
        self._one = self._fresh()
        self.charged = self._told()

    def of_rows(self, rows: int) -> OfOpacus:
        fewer = _first(self._dataset, rows)
        return OfOpacus(self._make, self._step, fewer, rows, self.exploding, self._relation, self._public, self._ranks)

    def step(self, batch: Positions, seed: int) -> Gradient:
        return self._one.step(self._step, self._items(batch), seed)

    def batches(self, count: int, seed: int) -> Sequence[Positions]:
        sampler: Any = self._one.loader.batch_sampler
        if isinstance(sampler, BatchSplittingSampler):
            sampler = sampler.sampler
        if sampler is None:
            raise CannotTell("the loader has no sampler of batches")
        torch.manual_seed(seed)
        found: list[Positions] = []
        while len(found) < count:
            before = len(found)
            found += [np.array(one, dtype=np.int64) for one in islice(sampler, count - before)]
            if len(found) == before:
                raise CannotTell("the sampler draws no batch")
        return found

    def course(self) -> StepCounts:
        """Three steps, then one of two physical batches, the first of which makes no update."""
        one = self._fresh()
        batch = self._items(np.arange(min(self.rows, LEAST_ROWS)))
        before, found = counted(one.engine), []
        for skipped in (*(False,) * _COURSE, True, False):
            one.optimizer.signal_skip_step(do_skip=skipped)
            self._step(one.model, one.optimizer, batch)
            found.append((one.updates, counted(one.engine) - before))
        return StepCounts(counted=tuple(found))

    def ranks(self) -> Sequence[Gradient]:
        if self._ranks is None:
            raise CannotTell("one process, as far as was said (ranks=)")
        found, batch = [], self._items(np.arange(min(self.rows, LEAST_ROWS)))
        for rank in (0, 1):
            torch.seed()  # as in a process of its own
            one = _Made(self._ranks(rank))
            first = one.step(self._step, batch, None)
            pairs = math.ceil(RANK_NUMBERS / max(1, len(first)))
            found.append(
                np.concatenate(
                    [one.step(self._step, batch, None) - one.step(self._step, batch, None) for _ in range(pairs)]
                )
            )
        return found

    def _fresh(self) -> _Made:
        one = _Made(self._make(self._dataset))
        if self._public is not None:
            if isinstance(one.loader.batch_sampler, UniformWithReplacementSampler):
                self._public.impose(one.loader.batch_sampler, one.optimizer)
            elif self._public.divisor is not None:
                one.optimizer.expected_batch_size = self._public.divisor
        return one

    def _items(self, batch: Positions) -> Any:
        return self._one.loader.collate_fn([self._dataset[position] for position in batch.tolist()])

    def _told(self) -> Charged:
        """What the accountant is told of a step; of one that is told nothing, what the optimizer and loader say."""
        one = self._one
        before = counted(one.engine)
        one.step(self._step, self._items(np.arange(min(self.rows, LEAST_ROWS))), None)
        if counted(one.engine) > before:
            noise, rate, _ = one.engine.accountant.history[-1]
        else:
            noise, rate = one.optimizer.noise_multiplier, 1 / len(one.loader)
        return Charged(
            rate=float(rate if self._public is None else self._public.rate),
            noise_multiplier=float(noise),
            clip_norm=clipped_to(one.optimizer),
            divisor=float(one.optimizer.expected_batch_size or 1) if one.optimizer.loss_reduction == "mean" else 1.0,
        )


class _Made:
    """What `make` returned, with a hook below its optimizer that sees each update."""

    def __init__(self, made: Any) -> None:
        if not (isinstance(made, tuple) and len(made) == 4 and isinstance(made[2], DPOptimizer)):
            raise ParameterError("make", type(made).__name__, _MADE)
        self.engine, self.model, self.optimizer, self.loader = made
        self.updates = 0
        self._seen: Gradient | None = None
        self._seed: int | None = None
        for module in self.model.modules():
            if isinstance(module, torch.nn.modules.dropout._DropoutNd):
                module.eval()  # its masks go by the size of the batch
        self._draw_and_add = self.optimizer.add_noise
        self.optimizer.add_noise = self._add_noise
        self.optimizer.original_optimizer.register_step_pre_hook(self._before_update)

    def step(self, step: Callable[[Any, Any, Any], object], batch: Any, seed: int | None) -> Gradient:
        """What one step gives to the optimizer below, from the same weights each time; None: from no seed of ours."""
        self._seed, self._seen = seed, None
        with self._kept():
            self._reseed()
            step(self.model, self.optimizer, batch)
        if self._seen is None:
            raise CannotTell("the step made no update")
        return self._seen

    def _add_noise(self) -> None:
        if self._seed is not None and not torch.equal(torch.get_rng_state(), self._begun):
            raise CannotTell("the model draws random numbers beside the noise: probe it without")
        self._draw_and_add()

    def _reseed(self) -> None:
        if self._seed is None:
            return
        if self.optimizer.secure_mode:
            raise CannotTell("noise of secure_mode follows from no seed: probe the same set-up without it")
        torch.manual_seed(self._seed)
        if self.optimizer.generator is not None:
            self.optimizer.generator.manual_seed(self._seed)
        self._begun = torch.get_rng_state()

    def _before_update(self, *_: object) -> None:
        self.updates += 1
        parts = [one.grad.detach().reshape(-1).cpu().double() for one in self.optimizer.params]
        self._seen = torch.cat(parts).numpy()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        before = {name: one.detach().clone() for name, one in self.model.state_dict().items()}
        try:
            yield
        finally:
            self.model.load_state_dict(before)


def _first(dataset: Any, rows: int) -> Any:
    if isinstance(dataset, torch.utils.data.TensorDataset):
        return torch.utils.data.TensorDataset(*(one[:rows] for one in dataset.tensors))
    return torch.utils.data.Subset(dataset, range(rows))
