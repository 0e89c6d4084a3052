"""The probes on loops of numpy: a `DPSGD` with the caller's gradients, and any function that returns noisy gradients.

>>> def gradient(state, batch, rng):
...     cut = batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True))
...     return (cut.sum(axis=0) + rng.normal(0, 2, 3)) / 10
>>> def sampler(rows, rng):
...     while True:
...         yield np.flatnonzero(rng.random(rows) < 0.1)
>>> made_up = np.random.default_rng(0).normal(size=(100, 3))
>>> report = probe_loop(
...     gradient, made_up, state=lambda rows: None, sampler=sampler,
...     rate="0.1", noise_multiplier=2, clip_norm=1, expected_batch_size=10,
... )
>>> report.faults, report.unknown
((), ('accountant', 'ranks'))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.training.probes.asking import probe
from dpledger.audit.training.probes.result import ProbeReport
from dpledger.audit.training.probes.set_ups import CannotTell, Charged, Gradient, Positions, StepCounts, exploded
from dpledger.decimals import Number, read, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded, system
from dpledger.mechanisms.training import DPSGD, Gradients
from dpledger.mechanisms.training.gradients import not_on_nobody
from dpledger.mechanisms.units import Units
from dpledger.relations import Relation

__all__ = ["LEAST_ROWS", "OfLoop", "OfPlan", "positions_of", "probe_loop", "probe_sgd"]

LEAST_ROWS = 16
RANK_NUMBERS = 100  # of noise at least: identical noise is then ten standard deviations away
_COURSE = 3


@dataclass(frozen=True, kw_only=True)
class OfPlan:
    """A `DPSGD` with the caller's gradients."""

    plan: DPSGD
    gradients: Gradients
    units: Units
    exploding: tuple[int, ...]

    @property
    def charged(self) -> Charged:
        plan = self.plan
        return Charged(
            rate=float(plan.rate),
            noise_multiplier=float(plan.noise_multiplier),
            clip_norm=float(plan.clip_norm),
            divisor=float(plan.expected_batch_size),
        )

    @property
    def rows(self) -> int:
        return len(self.units)

    @property
    def shares_rows(self) -> bool:
        return self.plan.relation is Relation.ZERO_OUT

    def of_rows(self, rows: int) -> OfPlan:
        return replace(self, units=_first(self.units, rows), exploding=_within(self.exploding, rows))

    def step(self, batch: Positions, seed: int) -> Gradient:
        one = self.plan.one_step
        return one.noisy_mean(one.rows(self.gradients, self.units, batch), seeded(seed))

    def batches(self, count: int, seed: int) -> Sequence[Positions]:
        one, entropy = self.plan.one_step, seeded(seed)
        return [one.batch(self.rows, entropy) for _ in range(count)]

    def course(self) -> StepCounts:
        most = min(_COURSE, self.plan.steps)
        return StepCounts(counted=tuple((steps, self._counted(steps)) for steps in range(1, most + 1)))

    def _counted(self, steps: int) -> int:
        run = self.plan.open(self.units.take(np.arange(self.rows)), entropy=seeded(0))
        for _ in range(steps):
            run.ask(self.gradients)
        return run.close().value.done

    def ranks(self) -> Sequence[Gradient]:
        """Two processes: each has entropy of its own from the system."""
        one, nobody = self.plan.one_step, np.zeros((0, self.plan.dimension))
        draws = math.ceil(RANK_NUMBERS / self.plan.dimension)
        return [
            np.concatenate([one.noisy_mean(nobody, entropy) for _ in range(draws)]) for entropy in (system(), system())
        ]


@dataclass(frozen=True, kw_only=True)
class OfLoop:
    """Any function that returns noisy gradients, and what draws its batches."""

    charged: Charged
    gradient: Callable[[Any, Any, np.random.Generator], npt.ArrayLike]
    state_of: Callable[[Any], object]
    state: object
    sampler: Callable[[int, np.random.Generator], Iterable[npt.ArrayLike]]
    units: Units
    exploding: tuple[int, ...]
    shares_rows: bool
    counted_after: Callable[[int], int] | None
    generators: Callable[[int], np.random.Generator] | None
    ends: dict[int, str] = field(default_factory=dict)  # of each seed, the generator's state after a step

    @property
    def rows(self) -> int:
        return len(self.units)

    def of_rows(self, rows: int) -> OfLoop:
        units = _first(self.units, rows)
        state = self.state_of(units.take(np.arange(rows)))
        return replace(self, units=units, state=state, exploding=_within(self.exploding, rows))

    def step(self, batch: Positions, seed: int) -> Gradient:
        rng = np.random.default_rng(seed)
        found, after = self._step(batch, rng), str(rng.bit_generator.state)
        if self.ends.setdefault(seed, after) != after:
            raise CannotTell("how much the function draws from its generator depends on the batch")
        return found

    def _step(self, batch: Positions, rng: np.random.Generator) -> Gradient:
        return np.asarray(self.gradient(self.state, self.units.take(batch), rng), dtype=np.float64).reshape(-1)

    def batches(self, count: int, seed: int) -> Sequence[Positions]:
        found: list[Positions] = []
        rng = np.random.default_rng(seed)
        while len(found) < count:
            before = len(found)
            drawn = islice(self.sampler(self.rows, rng), count - before)
            found += [np.array(one, dtype=np.int64).reshape(-1) for one in drawn]
            if len(found) == before:
                raise CannotTell("the sampler draws no batch")
        return found

    def course(self) -> StepCounts:
        if self.counted_after is None:
            raise CannotTell("no accountant was given (counted_after=)")
        return StepCounts(counted=tuple((steps, int(self.counted_after(steps))) for steps in range(1, _COURSE + 1)))

    def ranks(self) -> Sequence[Gradient]:
        if self.generators is None:
            raise CannotTell("one process, as far as was said (generators=)")
        batch = np.arange(min(self.rows, LEAST_ROWS))
        found = []
        for rng in (self.generators(0), self.generators(1)):
            first = self._step(batch, rng)
            pairs = math.ceil(RANK_NUMBERS / max(1, len(first)))
            found.append(np.concatenate([self._step(batch, rng) - self._step(batch, rng) for _ in range(pairs)]))
        return found


def probe_sgd(
    plan: DPSGD, gradients: Gradients, made_up_rows: object, *, exploding: Sequence[int] | None = None
) -> ProbeReport:
    """Ask the six questions of a `private_sgd` with these numbers and `gradients`, before it sees a private row.

    `made_up_rows`: rows in the form of the data, at least 16, never private ones. `exploding`: the positions of two or
    more of them whose gradients are far beyond the clip norm; default: floats of the first two are multiplied.
    Claim: none; see `docs/training_probes.md` for what no probe sees. Raises ParameterError for what is no such plan
    or no such rows; whatever `gradients` raises.

    >>> plan = dpl.DPSGD(rate="0.1", steps=9, noise_multiplier=1, clip_norm=1, dimension=2, expected_batch_size=5)
    >>> made_up = np.random.default_rng(0).normal(size=(50, 2))
    >>> dpl.learning.probe_sgd(plan, lambda batch: -batch, made_up)
    <ProbeReport: clipping yes, noise yes, divisor yes, sampler yes, accountant yes, ranks yes>
    """
    if not isinstance(plan, DPSGD):
        raise ParameterError("plan", type(plan).__name__, "a DPSGD")
    units, positions = _made_up(made_up_rows, exploding)
    everyone = units.take(np.arange(len(units)))
    plan.probe(gradients, everyone, everyone)
    called = not_on_nobody(gradients, plan.dimension)
    return probe(OfPlan(plan=plan, gradients=called, units=units, exploding=positions))


def probe_loop(
    gradient: Callable[[Any, Any, np.random.Generator], npt.ArrayLike],
    made_up_rows: object,
    *,
    state: Callable[[Any], object],
    sampler: Callable[[int, np.random.Generator], Iterable[npt.ArrayLike]],
    rate: Number,
    noise_multiplier: Number,
    clip_norm: Number,
    expected_batch_size: Number,
    shares_rows: bool = False,
    exploding: Sequence[int] | None = None,
    counted_after: Callable[[int], int] | None = None,
    generators: Callable[[int], np.random.Generator] | None = None,
) -> ProbeReport:
    """Ask the six questions of a training loop that somebody wrote.

    `gradient(state, batch, rng)`: the noisy mean gradient of a batch, float[dimension], all randomness from `rng`.
    `state(rows)`: what it gets first, made for these rows; it is called for fewer rows, too, so that a number taken
    from the rows is seen. `sampler(rows, rng)`: batches, as positions of so many rows; begun again when it ends.
    `rate`, `noise_multiplier`, `clip_norm`, `expected_batch_size`: what the accountant is told of a step.
    `shares_rows`: neighbours have the same number of rows (zero_out). `counted_after(steps)`: trains so many steps
    from the start, and returns how many the accountant counted. `generators(rank)`: the generator that a rank makes.
    `made_up_rows`, `exploding`: as of `probe_sgd`. What is not given cannot be told.
    Claim: none. Raises ParameterError for a number out of range or such rows; whatever the functions raise.

    >>> def gradient(state, batch, rng):  # the batch is clipped, and not each row
    ...     total = batch.sum(axis=0)
    ...     return (total / max(1, np.linalg.norm(total)) + rng.normal(0, 2, 3)) / 10
    >>> def sampler(rows, rng):
    ...     yield np.flatnonzero(rng.random(rows) < 0.1)
    >>> made_up = np.random.default_rng(0).normal(size=(100, 3))
    >>> numbers = {"rate": "0.1", "noise_multiplier": 2, "clip_norm": 1, "expected_batch_size": 10}
    >>> report = dpl.learning.probe_loop(gradient, made_up, state=len, sampler=sampler, **numbers)
    >>> report.faults
    ('clipping',)
    """
    charged = Charged(
        rate=_positive(rate, "rate", most=1),
        noise_multiplier=_positive(noise_multiplier, "noise_multiplier"),
        clip_norm=_positive(clip_norm, "clip_norm"),
        divisor=_positive(expected_batch_size, "expected_batch_size"),
    )
    units, positions = _made_up(made_up_rows, exploding)
    return probe(
        OfLoop(
            charged=charged,
            gradient=gradient,
            state_of=state,
            state=state(units.take(np.arange(len(units)))),
            sampler=sampler,
            units=units,
            exploding=positions,
            shares_rows=shares_rows,
            counted_after=counted_after,
            generators=generators,
        )
    )


def positions_of(exploding: Sequence[int], rows: int) -> tuple[int, ...]:
    """Two or more different positions of so many rows; ParameterError for anything else."""
    expected = f"two or more different positions below {rows}, of at most half of the rows"
    try:
        found = tuple(whole(one, field="exploding", most=rows - 1) for one in exploding)
    except Exception:  # whatever a container of somebody raises
        raise ParameterError("exploding", type(exploding).__name__, expected) from None
    if not 2 <= len(set(found)) <= rows // 2:
        raise ParameterError("exploding", f"{len(set(found))} positions", expected)
    return found


def _made_up(rows: object, exploding: Sequence[int] | None) -> tuple[Units, tuple[int, ...]]:
    units = Units.of(rows)
    if len(units) < LEAST_ROWS:
        raise ParameterError("made_up_rows", f"{len(units)} rows", f"at least {LEAST_ROWS} made-up rows")
    if exploding is not None:
        return units, positions_of(exploding, len(units))
    columns = rows if isinstance(rows, tuple) else (rows,)
    if not all(isinstance(column, np.ndarray) for column in columns):
        raise ParameterError("exploding", None, "positions of rows with huge gradients, where rows are no arrays")
    return Units.of(exploded(rows, (0, 1))), (0, 1)


def _positive(number: Number, name: str, most: float = math.inf) -> float:
    found = float(read(number, field=name))
    if not 0 < found <= most:
        raise ParameterError(name, number, "a positive number" if most == math.inf else f"in (0, {most}]")
    return found


def _first(units: Units, rows: int) -> Units:
    return Units.of(units.take(np.arange(rows)))


def _within(positions: tuple[int, ...], rows: int) -> tuple[int, ...]:
    return tuple(position for position in positions if position < rows)
