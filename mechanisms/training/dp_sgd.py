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

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpledger.accounting.composition import GaussianLaw, Group, PoissonSampled, Repeated
from dpledger.decimals import multiply, read, round_up, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedGaussian
from dpledger.mechanisms.training.of_gradients import OfGradients
from dpledger.mechanisms.training.training_run import TrainingRun
from dpledger.mechanisms.units import Units, check_rows
from dpledger.number_fields import Noise, OptionalPositive, Positive, Rate, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["BY_ROW", "DPSGD"]

BY_ROW = "each item of the data is one row, and no unit has more of them than its scope says"
"""What `by_row=True` declares."""


@record
class DPSGD(OfGradients):
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
    refused. Relation: add_remove; zero_out, where the gradient of the null unit is zero or not finite; replace_one,
    where the sum moves by twice the bound. Raises ParameterError naming the field for a parameter out of range,
    RelationError for label_flip.

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

    entrance: ClassVar[str] = "private_sgd"
    beside: ClassVar[str] = "; or by_row=True where rows are drawn and clipped one by one, which costs more"

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
        OfGradients.__post_init__(self)
        if self.by_row and self.grouped:
            raise ParameterError("by_row", "True, and grouped", "one of them: items that are rows, or whole units")

    @property
    def noise(self) -> RoundedGaussian:
        """The law of the noise on each entry of the sum: sigma = noise_multiplier times the sensitivity, rounded up."""
        sigma = round_up(multiply(self.sensitivity.value, self.noise_multiplier))
        return RoundedGaussian(sigma=read(sigma, field="noise_multiplier"), grid=self.step_size)

    def parts(self) -> Repeated:
        """`steps` Poisson-sampled Gaussians, in a group of the rows of a unit where these are drawn one by one
        (docs/proofs/mixtures.md, sections 2 and 7)."""
        step = PoissonSampled(GaussianLaw(self.noise_multiplier), rate=self.rate)
        rows = self.unit.max_contributions if self.unit is not None and self.by_row else 1
        if rows == 1:
            return Repeated(step, times=self.steps)
        return Repeated(Group(step, k=rows, relation=self.relation or Relation.ADD_REMOVE), times=self.steps)

    def steps_to_grant(self) -> int:
        """All of `steps`: each ask is one of them."""
        return self.steps

    def _more_parameters(self) -> Mapping[str, object]:
        return {"by_row": self.by_row or None}

    def _assumed(self) -> tuple[str, ...]:
        return (*OfGradients._assumed(self), *([BY_ROW] if self.by_row else []))

    def inspect(self, data: object) -> None:
        """As of every training by gradients; by rows, ParameterError where the data say whose they are."""
        if self.by_row:
            check_rows(data)
        else:
            OfGradients.inspect(self, data)

    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        """Begin the run on `data` (`Units`). ParameterError where `inspect` has one."""
        return self.resume(data, done=0, entropy=entropy)

    def resume(self, data: object, *, done: int, entropy: Entropy) -> TrainingRun:
        """As `open`, after `done` steps that count as run: each draws a batch and noise of its own. ParameterError for
        more than are planned."""
        self.inspect(data)
        behind = whole(done, field="done", most=self.steps)
        return TrainingRun(self.one_step, self.parts(), Units.of(data), entropy, done=behind)
