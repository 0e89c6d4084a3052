"""Private stochastic gradient descent: noisy sums of clipped gradients over secret Poisson batches.

    one step   draw the batch: each unit with probability `rate`, exactly
               call the caller's gradients(items) -> (b, dimension), one row for each unit of the batch
               clip each row to l2 norm `clip_norm`, round it to whole steps of `grid`, add the whole numbers
               add Gaussian noise of deviation noise_multiplier (clip_norm + grid sqrt(dimension) / 2) on the grid
               return the sum divided by `expected_batch_size`, a public number

The release is a post-processing of the Poisson-sampled Gaussian mechanism with `noise_multiplier` (proof:
docs/proofs/dp_sgd.md), so the run is `repeated(steps, poisson_sampled(rate, gaussian(noise_multiplier)))`. Optimiser,
learning rate and schedule are the caller's. Who was drawn, how many, the number of units, norms and losses never leave.
Source: Abadi et al. 2016, algorithm 1.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> plan = DPSGD(
...     rate="0.5", steps=2, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=5
... )
>>> weights = np.zeros(3)
>>> run = plan.open(np.ones((10, 3)), entropy=seeded(1))
>>> for _ in run.steps():
...     weights -= 0.1 * run.ask(lambda rows: weights - rows)
>>> run.close().parts == Repeated(plan.parts().of, times=2, done=2)
True
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from dpledger.accounting import rules
from dpledger.accounting.arithmetic.prices import with_margin
from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.accounting.guarantees import RDP, Failure
from dpledger.accounting.pricing.batches import in_floats
from dpledger.decimals import multiply, read, round_up, whole
from dpledger.errors import CannotCertify, ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedGaussian, Sensitivity
from dpledger.mechanisms.numeric.grid import check_map, default_grid
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.training.clipping import LARGEST_CLIP_STEPS
from dpledger.mechanisms.training.gradients import Gradients, probe
from dpledger.mechanisms.training.training_run import StepNumbers, TrainingRun
from dpledger.mechanisms.units import Units, check_rows, check_whole_units
from dpledger.number_fields import Noise, OptionalPositive, Positive, Rate, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ASSUMES", "BY_ROW", "DPSGD", "ORDERS"]

ASSUMES = (
    "gradients are batch-invariant: the gradient of a unit depends, bit for bit, on that unit and public values alone"
)
"""What the guarantee takes from the caller's function, as the record says it."""
GROUPED = "each item of the data is everything of one unit"
"""What `grouped=True` declares, beside that."""
BY_ROW = "each item of the data is one row, and no unit has more of them than its scope says"
"""What `by_row=True` declares."""

ORDERS: tuple[Decimal, ...] = tuple(Decimal(order) for order in range(2, 65))
"""The Renyi orders of the claim."""

_RELATIONS = (Relation.ADD_REMOVE, Relation.ZERO_OUT)
_COARSEST_SHARE = 64  # grid sqrt(dimension) <= clip_norm / 8, squared: sigma grows by at most 1/16
_DEFAULT_SHARE = 16  # with the 1024 of `default_grid`: grid sqrt(dimension) <= clip_norm / 64, sigma grows by 0.8 %


@record
class DPSGD:
    """`steps` noisy sums of clipped gradients, one an `ask`. Abadi et al. 2016, algorithm 1.

    `rate`: probability, in (0, 1], with which a unit is in a batch. `steps`: how many batches. `noise_multiplier`:
    sigma / the l2 bound of one unit. `clip_norm`: that bound before rounding, in units of the gradient. `dimension`:
    length of a gradient, at most 2^31. `expected_batch_size`: what the sum is divided by; a declared number, never
    measured on private data. `grid`: a power of two, the step of the sum; default: the largest with
    grid <= noise_multiplier clip_norm / 1024 and grid sqrt(dimension) <= clip_norm / 64. `microbatch`: how many units
    `gradients` is called on at a time, the last call filled up with null rows (`unit_rows`); default: all of a batch.
    `grouped`: True declares that item i of the data is everything of unit i. `by_row`: True that it is one row, of
    which no unit has more than its scope says: rows are drawn and clipped one by one, and a unit pays for all of its
    rows (`Group`), which costs more than one clipped gradient of all.

    Data: item i is everything of unit i (`Units`); a unit with many rows yields one gradient, clipped as one. So where
    a unit may contribute many rows (`Unit.max_contributions`), the data are `ByUnit(rows, units=ids)`, or items that
    already are whole units, which `grouped=True` declares, or rows, which `by_row=True` declares; anything else is
    refused. Relation: add_remove, or zero_out
    where the gradient of the null unit is zero or not finite. Raises ParameterError naming the field for a parameter
    out of range, RelationError for another relation.

    Assumes: gradients are batch-invariant. Row i of what they return is, bit for bit, a function of item i, earlier
    outputs of the run and public values alone, whatever else the batch holds and however large it is. `microbatch=1`
    makes it so for every function that keeps nothing between calls; `check_batch_invariance` tries it on made-up rows.
    An answer is the noisy mean gradient, float64[dimension]; any entry may be negative. The value is `StepsTaken`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> plan = dpl.DPSGD(rate="0.5", steps=2, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=5)
    >>> run = plan.open(np.ones((10, 3)), entropy=seeded(1))
    >>> run.ask(lambda rows: -rows).shape
    (3,)
    """

    rate: Rate
    steps: Annotated[Whole, Field(strict=True, ge=1, le=10**12)]
    noise_multiplier: Noise
    clip_norm: Positive
    dimension: Annotated[Whole, Field(strict=True, ge=1, le=2**31)]
    expected_batch_size: Positive
    grid: OptionalPositive = given(default=None)
    microbatch: Annotated[Whole, Field(strict=True, ge=1, le=2**31)] | None = given(default=None)
    grouped: Annotated[bool, Field(strict=True)] = given(default=False)
    by_row: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["dp_sgd"] = tag(default="dp_sgd")

    def __post_init__(self) -> None:
        if self.relation is not None:
            _check_relation(self.relation)
        if self.by_row and self.grouped:
            raise ParameterError("by_row", "True, and grouped", "one of them: items that are rows, or whole units")
        if self.grid is not None:
            check_map(self.grid, Decimal(1), Decimal(0))
            self._check_coarseness(Fraction(self.grid))
        if Fraction(self.clip_norm) / Fraction(self.step_size) > LARGEST_CLIP_STEPS:
            expected = "a noise multiplier of at least 2^-39, and a grid not finer than clip_norm / 2^50"
            raise ParameterError("noise_multiplier", str(self.noise_multiplier), expected)
        self.noise  # noqa: B018  # a sigma outside the profile of decimals is refused here, before anything is spent

    def _check_coarseness(self, grid: Fraction) -> None:
        if grid**2 * self.dimension * _COARSEST_SHARE > Fraction(self.clip_norm) ** 2:
            fitting = _default_grid(self.noise_multiplier, self.clip_norm, self.dimension)
            expected = f"at most clip_norm / (8 sqrt(dimension)); {fitting} would do"
            raise ParameterError("grid", str(self.grid), expected)

    @property
    def step_size(self) -> Decimal:
        """The grid that is used."""
        return self.grid or _default_grid(self.noise_multiplier, self.clip_norm, self.dimension)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one unit moves the sum, in l2: clip_norm + grid sqrt(dimension) / 2, rounded up."""
        bound = round_up(Fraction(self.clip_norm) + Fraction(self.step_size) * _root_up(self.dimension) / 2)
        return Sensitivity(
            read(bound, field="clip_norm"), "l2", "one row, clipped to clip_norm and rounded to the grid"
        )

    @property
    def noise(self) -> RoundedGaussian:
        """The law of the noise on each entry of the sum: sigma = noise_multiplier times the sensitivity, rounded up."""
        sigma = round_up(multiply(self.sensitivity.value, self.noise_multiplier))
        return RoundedGaussian(sigma=read(sigma, field="noise_multiplier"), grid=self.step_size)

    @property
    def one_step(self) -> StepNumbers:
        """What one step does."""
        return StepNumbers(
            rate=self.rate,
            dimension=self.dimension,
            clip_norm=self.clip_norm,
            expected_batch_size=self.expected_batch_size,
            noise=self.noise,
            sensitivity=self.sensitivity,
            microbatch=self.microbatch,
        )

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism, for this relation and unit, its grid fixed. RelationError but for add_remove, zero_out:
        batches of a public size have another privacy loss."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        _check_relation(own_relation)
        changes: dict[str, Any] = {"relation": own_relation, "unit": own_unit, "grid": self.step_size}
        return dataclasses.replace(self, **changes)

    def claim(self) -> RDP:
        """Renyi divergences at those of the orders `ORDERS` that have a bound, rounded up: the price of the parts.

        Claim: for every order, at least the divergence of `steps` adaptive Poisson-sampled Gaussians, in both
        directions, for all rows of a unit where they are drawn one by one. Source: Mironov-Talwar-Zhang 2019, section
        3.3; docs/proofs/mixtures.md, section 2; Mironov 2017, proposition 1 (composition).
        Raises CannotCertify where no order has a bound.
        """
        return _claimed(self.parts(), self.relation or Relation.ADD_REMOVE)

    def parts(self) -> Repeated:
        """`steps` Poisson-sampled Gaussians, in a group of the rows of a unit where these are drawn one by one."""
        step = PoissonSampled(GaussianLaw(self.noise_multiplier), rate=self.rate)
        rows = 1 if self.unit is None or not self.by_row else self.unit.max_contributions
        if rows == 1 or self.relation is None:
            return Repeated(step, times=self.steps)
        return Repeated(Group(step, k=rows, relation=self.relation), times=self.steps)

    def steps_to_grant(self) -> int:
        """All of `steps`: each ask is one of them."""
        return self.steps

    def failures(self) -> tuple[Failure, ...]:
        """None: the claim has no delta."""
        return ()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid and the sigma that are used."""
        values = {
            "rate": self.rate,
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
            "clip_norm": self.clip_norm,
            "dimension": self.dimension,
            "expected_batch_size": self.expected_batch_size,
            "grid": self.step_size,
            "sigma": self.noise.sigma,
            "microbatch": self.microbatch,
            "grouped": self.grouped or None,
            "by_row": self.by_row or None,
            "assumes": "; ".join([ASSUMES, *([GROUPED] if self.grouped else []), *([BY_ROW] if self.by_row else [])]),
        }
        result: dict[str, Plain] = plain(values)
        return result

    def probe(self, gradients: Gradients, data: object, example_rows: object = None) -> None:
        """Call `gradients` on an empty batch of `data`, or, where they cannot take one, on `example_rows`, made-up ones
        in the same form: ParameterError, with what they raised, unless they return real numbers of shape
        (items, dimension). Nothing is drawn or spent: do it before a scope opens the run, as `attach.training` does."""
        examples = None if example_rows is None else Units.of(example_rows)
        probe(gradients, Units.of(data), self.dimension, examples=examples, microbatch=self.microbatch)

    def values_read_as(self) -> tuple[str, ...]:
        """What values count as that are no ordinary numbers: of the parameters, never of the data."""
        return (
            "the gradients are handed rows as they are",
            "a gradient in which an entry is no number, NaN and infinity too, counts as zero",
        )

    def inspect(self, data: object) -> None:
        """ParameterError where the data are not items by position, or do not say how rows belong to units; a scope asks
        before it charges anything."""
        if self.by_row:
            check_rows(data)
            return
        check_whole_units(
            data,
            self.unit,
            grouped=self.grouped,
            by_ids="private_sgd(..., units=ids), or ",
            beside="; or by_row=True where rows are drawn and clipped one by one, which costs more",
        )

    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        """Begin the run on `data` (`Units`). ParameterError where `inspect` has one."""
        return self.resume(data, done=0, entropy=entropy)

    def resume(self, data: object, *, done: int, entropy: Entropy) -> TrainingRun:
        """As `open`, after `done` steps that count as run: each draws a batch and noise of its own. ParameterError for
        more than are planned."""
        self.inspect(data)
        behind = whole(done, field="done", most=self.steps)
        return TrainingRun(self.one_step, self.parts(), Units.of(data), entropy, done=behind)


def _check_relation(relation: Relation) -> None:
    if relation not in _RELATIONS:
        raise RelationError(
            f"dp_sgd has no guarantee under {relation.value}: its batches hide how many units there are; "
            "use add_remove, or zero_out"
        )


def _root_up(number: int) -> Fraction:
    """A rational number that is not below the square root of `number`, and exact for a perfect square."""
    scale = 2**40
    return Fraction(math.isqrt(number * scale**2 - 1) + 1, scale)


@functools.lru_cache(maxsize=512)
def _default_grid(noise_multiplier: Decimal, clip_norm: Decimal, dimension: int) -> Decimal:
    clip = Fraction(clip_norm)
    length = min(Fraction(noise_multiplier) * clip, _DEFAULT_SHARE * clip / _root_up(dimension))
    return default_grid(clip_norm=length)


@functools.lru_cache(maxsize=64)
def _claimed(plan: Repeated, relation: Relation) -> RDP:
    prices = rules.cost(plan, relation, orders=ORDERS).rdp
    stated = {order: with_margin(one) if in_floats(plan) else one for order, one in prices.items()}
    known = {order: price for order, price in stated.items() if price is not None and price.is_finite()}
    if not known:
        raise CannotCertify(f"no Renyi divergence of this run can be bounded: {plan.of}")
    return RDP(orders=tuple(known), epsilons=tuple(known.values()))
