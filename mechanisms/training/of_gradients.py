"""What trainings by gradients share: how a row is bounded, whose each row is, and what the record says of it.

A row is clipped to `clip_norm` and rounded to `grid`, so one unit moves a sum by at most
clip_norm + grid sqrt(dimension) / 2 (docs/proofs/dp_sgd.md). What is drawn, and how often, is of each mechanism.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from dpledger.accounting import rules
from dpledger.accounting.arithmetic.prices import with_margin
from dpledger.accounting.composition import Repeated
from dpledger.accounting.guarantees import RDP, Failure
from dpledger.accounting.pricing.batches import in_floats
from dpledger.decimals import read, round_up
from dpledger.errors import CannotCertify, ParameterError, RelationError
from dpledger.mechanisms.noise import RoundedGaussian, Sensitivity
from dpledger.mechanisms.numeric.grid import check_map, default_grid
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.training.clipping import LARGEST_CLIP_STEPS
from dpledger.mechanisms.training.gradients import Gradients, probe
from dpledger.mechanisms.training.training_run import StepNumbers
from dpledger.mechanisms.units import Units, check_whole_units
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, plain

__all__ = ["ASSUMES", "ORDERS", "OfGradients", "root_up"]

ASSUMES = (
    "gradients are batch-invariant: the gradient of a unit depends, bit for bit, on that unit and public values alone"
)
"""What the guarantee takes from the caller's function, as the record says it."""
GROUPED = "each item of the data is everything of one unit"
"""What `grouped=True` declares, beside that."""

ORDERS: tuple[Decimal, ...] = tuple(Decimal(order) for order in range(2, 65))
"""The Renyi orders of the claim."""

_RELATIONS = (Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE)
_COARSEST_SHARE = 64  # grid sqrt(dimension) <= clip_norm / 8, squared: sigma grows by at most 1/16
_DEFAULT_SHARE = 16  # with the 1024 of `default_grid`: grid sqrt(dimension) <= clip_norm / 64, sigma grows by 0.8 %


class OfGradients(ABC):
    """Base of records with the fields below; `entrance`: the function of `attach.training` that runs one; `beside`:
    what may be declared of items but that they are whole units, for a message."""

    __slots__ = ()

    entrance: ClassVar[str]
    beside: ClassVar[str] = ""

    kind: str
    rate: Decimal
    steps: int
    noise_multiplier: Decimal
    clip_norm: Decimal
    dimension: int
    expected_batch_size: Decimal
    grid: Decimal | None
    microbatch: int | None
    grouped: bool
    relation: Relation | None
    unit: Unit | None

    @property
    @abstractmethod
    def noise(self) -> RoundedGaussian:
        """The law of the noise on each entry of what a step adds it to."""

    @abstractmethod
    def parts(self) -> Repeated:
        """What the steps lose, for one unit."""

    def __post_init__(self) -> None:
        if self.relation is not None:
            self._check_relation(self.relation)
        if self.grid is not None:
            check_map(self.grid, Decimal(1), Decimal(0))
            self._check_coarseness(Fraction(self.grid))
        if Fraction(self.clip_norm) / Fraction(self.step_size) > LARGEST_CLIP_STEPS:
            expected = "a noise multiplier of at least 2^-39, and a grid not finer than clip_norm / 2^50"
            raise ParameterError("noise_multiplier", str(self.noise_multiplier), expected)
        self.noise  # noqa: B018  # a sigma outside the profile of decimals is refused here, before anything is spent

    def _check_relation(self, relation: Relation) -> None:
        """RelationError where there is no guarantee under this relation."""
        if relation not in _RELATIONS:
            raise RelationError(
                f"{self.kind} has no guarantee under {relation.value}: use add_remove, zero_out or replace_one"
            )

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
        """How far one unit moves a sum, in l2: clip_norm + grid sqrt(dimension) / 2, rounded up."""
        bound = round_up(Fraction(self.clip_norm) + Fraction(self.step_size) * root_up(Fraction(self.dimension)) / 2)
        return Sensitivity(
            read(bound, field="clip_norm"), "l2", "one row, clipped to clip_norm and rounded to the grid"
        )

    @property
    def one_step(self) -> StepNumbers:
        """What one step does."""
        return StepNumbers(
            rate=self.rate,
            dimension=self.dimension,
            clip_norm=self.clip_norm,
            grid=self.step_size,
            expected_batch_size=self.expected_batch_size,
            noise=self.noise,
            sensitivity=self.sensitivity,
            microbatch=self.microbatch,
        )

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism, for this relation and unit, with every automatic parameter fixed. RelationError where it
        has no guarantee under the relation."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        self._check_relation(own_relation)
        changes: dict[str, Any] = {"relation": own_relation, "unit": own_unit, **self._automatic()}
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # each subclass is a dataclass

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self.step_size}

    def claim(self) -> RDP:
        """Renyi divergences at those of the orders `ORDERS` that have a bound, rounded up: the price of the parts.

        Claim: for every order, at least the divergence of the (Poisson-sampled) Gaussians that the parts are, run
        adaptively, in both directions. Source: Mironov-Talwar-Zhang 2019, section 3.3; Mironov 2017, proposition 1
        (composition). Raises CannotCertify where no order has a bound.
        """
        return _claimed(self.parts(), self.relation or Relation.ADD_REMOVE)

    def failures(self) -> tuple[Failure, ...]:
        """None: the claim has no delta."""
        return ()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid and the sigma that are used."""
        values = {
            "rate": self.rate,
            "steps": self.steps,
            **self._more_parameters(),
            "noise_multiplier": self.noise_multiplier,
            "clip_norm": self.clip_norm,
            "dimension": self.dimension,
            "expected_batch_size": self.expected_batch_size,
            "grid": self.step_size,
            "sigma": self.noise.sigma,
            "microbatch": self.microbatch,
            "grouped": self.grouped or None,
            "assumes": "; ".join(self._assumed()),
        }
        result: dict[str, Plain] = plain(values)
        return result

    def _assumed(self) -> tuple[str, ...]:
        return (ASSUMES, GROUPED) if self.grouped else (ASSUMES,)

    def _more_parameters(self) -> Mapping[str, object]:
        return {}

    def probe(self, gradients: Gradients, data: object, example_rows: object = None) -> None:
        """Call `gradients` on empty batches in the form of `data`, or, where they cannot take one, on `example_rows`,
        made-up ones in the same form: ParameterError, with what they raised, unless they return real numbers of shape
        (items, dimension). Nothing is drawn or spent: do it before a scope opens the run, as `attach.training` does."""
        examples = None if example_rows is None else Units.of(example_rows)
        probe(gradients, Units.of(data), self.dimension, examples=examples, microbatch=self.microbatch)

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return (
            "the gradients are handed rows as they are",
            "a gradient in which an entry is NaN, infinite or no number counts as zero",
        )

    def inspect(self, data: object) -> None:
        """ParameterError where the data are not items by position, or do not say how rows belong to units; a scope asks
        before it charges anything."""
        by_ids = f"{self.entrance}(..., units=ids), or "
        check_whole_units(data, self.unit, grouped=self.grouped, by_ids=by_ids, beside=self.beside)


def root_up(number: Fraction) -> Fraction:
    """A rational number that is not below the square root of `number`, by at most 2^-40 more, and exact where the root
    is a whole number."""
    scale = 2**40
    whole = -(-number.numerator * scale**2 // number.denominator)  # rounded up
    return Fraction(math.isqrt(whole - 1) + 1, scale) if whole else Fraction(0)


@functools.lru_cache(maxsize=512)
def _default_grid(noise_multiplier: Decimal, clip_norm: Decimal, dimension: int) -> Decimal:
    clip = Fraction(clip_norm)
    length = min(Fraction(noise_multiplier) * clip, _DEFAULT_SHARE * clip / root_up(Fraction(dimension)))
    return default_grid(clip_norm=length)


@functools.lru_cache(maxsize=64)
def _claimed(plan: Repeated, relation: Relation) -> RDP:
    prices = rules.cost(plan, relation, orders=ORDERS).rdp
    stated = {order: with_margin(one) if in_floats(plan) else one for order, one in prices.items()}
    known = {order: price for order, price in stated.items() if price is not None and price.is_finite()}
    if not known:
        raise CannotCertify(f"no Renyi divergence of this run can be bounded: {plan.of}")
    return RDP(orders=tuple(known), epsilons=tuple(known.values()))
