"""Training with noise that later steps take off again: DP-FTRL, by banded matrix factorisation.

    first      each unit is dealt to one of `groups`, by a coin of its own
    step t     draw the batch: each unit of group t modulo groups with probability `rate`; clip, round, add, as DP-SGD
    noise      of C^-1 z in place of z: C the factor with `coefficients` on its diagonals, as many as there are groups
               at most; z Gaussian noise of deviation noise_multiplier ||c|| (clip_norm + grid sqrt(dimension) / 2)

Sums of such answers, which is what a training makes of them, carry less noise than sums of answers with noise of their
own. A unit takes part in steps at least `groups` apart, so the columns of C that it moves have no row in common: its
ceil(steps / groups) turns are as many Poisson-sampled Gaussians with `noise_multiplier`, and the run is `repeated` of
them (proof: docs/proofs/matrix_factorisation.md). With one group it is DP-SGD.
Source: Denisov et al. 2022; Choquette-Choo et al. 2023b, theorem 4.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> plan = DPFTRL(
...     steps=8, groups=4, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=25
... ).under(Relation.ADD_REMOVE, Unit("record"))
>>> [str(one) for one in plan.coefficients]
['1', '0.493', '0.336', '0.2383']
>>> plan.parts()
Repeated(of=GaussianLaw(noise_multiplier=Decimal('1'), kind='gaussian'), times=2, done=None, kind='repeated')
>>> weights = np.zeros(3)
>>> run = plan.open(np.ones((100, 3)), entropy=seeded(1))
>>> for _ in run.steps():
...     weights -= 0.1 * run.ask(lambda rows: weights - rows)
>>> run.close().parts == plan.parts()
True
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.decimals import multiply, read, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedGaussian
from dpledger.mechanisms.training.factor import (
    MOST_BANDS,
    MOST_STEPS,
    banded_factor,
    check_coefficients,
    column_norm,
    places_of,
    shown,
)
from dpledger.mechanisms.training.ftrl_run import FTRLNumbers, FTRLRun
from dpledger.mechanisms.training.of_gradients import OfGradients
from dpledger.mechanisms.units import Units
from dpledger.number_fields import Exacts, Noise, OptionalPositive, Positive, Rate, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["DPFTRL"]


@record
class DPFTRL(OfGradients):
    """`steps` noisy sums of clipped gradients, one an `ask`, whose noise is C^-1 z. Denisov et al. 2022; Choquette-Choo
    et al. 2023b.

    `steps`: how many. `groups`: units are dealt to so many, which take turns; so a batch is rate / groups of all units.
    `rate`: probability, in (0, 1], with which a unit is in a batch of its group; 1: a batch is the whole group.
    `coefficients`: of the factor, 1 first, never rising, at most as many as groups, with at most 6 digits after the
    point (`learning.banded_factor`); default: those of `banded_factor(steps, groups)`. `noise_multiplier`: sigma / how
    far a turn of one unit moves C times the sums, in l2. `clip_norm`, `dimension`, `expected_batch_size`, `grid`,
    `microbatch`, `grouped` as of `DPSGD`, and the data.

    Relation: add_remove; zero_out, where the gradient of the null unit is zero or not finite; replace_one, where a turn
    moves C times the sums by twice as much. Raises ParameterError naming the field for a parameter out of range,
    RelationError for label_flip.

    Assumes: gradients are batch-invariant, as of `DPSGD`. The whole run is charged, however many steps run; it is not
    resumed, for the noise that is still to be taken off dies with its process.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> plan = dpl.learning.DPFTRL(
    ...     steps=8, groups=4, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=25
    ... )
    >>> run = plan.open(np.ones((100, 3)), entropy=seeded(1))
    >>> run.ask(lambda rows: -rows).shape
    (3,)
    """

    entrance: ClassVar[str] = "private_ftrl"

    steps: Annotated[Whole, Field(strict=True, ge=1, le=10**12)]
    groups: Annotated[Whole, Field(strict=True, ge=1, le=2**31)]
    noise_multiplier: Noise
    clip_norm: Positive
    dimension: Annotated[Whole, Field(strict=True, ge=1, le=2**31)]
    expected_batch_size: Positive
    rate: Rate = given(default=1)
    coefficients: Exacts = given(default=())
    grid: OptionalPositive = given(default=None)
    microbatch: Annotated[Whole, Field(strict=True, ge=1, le=2**31)] | None = given(default=None)
    grouped: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["dp_ftrl"] = tag(default="dp_ftrl")

    def __post_init__(self) -> None:
        if self.coefficients:
            check_coefficients(self.coefficients)
            if len(self.coefficients) > self.groups:
                expected = f"at most {self.groups}, one a group: a unit takes part in steps that far apart"
                raise ParameterError("coefficients", shown(self.coefficients), expected)
        elif self.steps > MOST_STEPS:
            raise ParameterError("coefficients", "nothing", f"coefficients, for more than {MOST_STEPS} steps")
        OfGradients.__post_init__(self)

    @property
    def factor(self) -> tuple[Decimal, ...]:
        """The coefficients that are used."""
        if self.coefficients:
            return self.coefficients
        return banded_factor(self.steps, min(self.groups, self.steps, MOST_BANDS))

    @property
    def turns(self) -> int:
        """In how many steps at most one unit may take part."""
        return -(-self.steps // self.groups)

    @property
    def noise(self) -> RoundedGaussian:
        """The law of the noise on each entry of C times the sums: sigma = noise_multiplier ||c|| times the sensitivity
        of a sum, rounded up; on the grid that C times whole numbers of steps has."""
        moved = multiply(self.sensitivity.value, column_norm(self.factor))
        sigma = round_up(multiply(moved, self.noise_multiplier))
        finer = multiply(self.step_size, Decimal((0, (1,), -places_of(self.factor))))
        return RoundedGaussian(sigma=read(sigma, field="noise_multiplier"), grid=read(finer, field="grid"))

    def _automatic(self) -> dict[str, Any]:
        return {**OfGradients._automatic(self), "coefficients": self.factor}

    def _more_parameters(self) -> Mapping[str, object]:
        return {"groups": self.groups, "coefficients": self.factor}

    def parts(self) -> Repeated:
        """One Gaussian for each turn of a unit, Poisson-sampled where `rate` is below 1."""
        turn = GaussianLaw(self.noise_multiplier)
        of = turn if self.rate == 1 else PoissonSampled(turn, rate=self.rate)
        return Repeated(of, times=self.turns)

    def open(self, data: object, *, entropy: Entropy) -> FTRLRun:
        """Begin the run on `data` (`Units`). ParameterError where `inspect` has one."""
        self.inspect(data)
        units = 10 ** places_of(self.factor)
        numbers = FTRLNumbers(
            row=self.one_step,
            steps=self.steps,
            groups=self.groups,
            whole=tuple(int(multiply(number, units)) for number in self.factor),
        )
        return FTRLRun(numbers, self.parts(), Units.of(data), entropy)
