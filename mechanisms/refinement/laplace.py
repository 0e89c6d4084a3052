"""A number or a vector, answered ever more precisely with Laplace noise, until the analyst is content.

All answers together cost the epsilon of the last one, not their sum: the levels share their noise
(`noise.chain`). The cap is reserved, and the rest comes back at close where the budget's rule allows it.

>>> from dpledger.mechanisms.entropy import seeded
>>> run = GradualRelease(epsilon=2, sensitivity=1, whole=True).open(1234, entropy=seeded(4))
>>> [run.ask(epsilon) for epsilon in ("0.05", "0.1", "0.5")]
[1258, 1261, 1233]
>>> run.close().parts.reached == DiscreteLaplaceLaw(scale=2, sensitivity=1)
True
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.chains import Chain, ChainLaw
from dpledger.accounting.composition import DiscreteLaplaceLaw, LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, is_whole, round_up, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, RoundedLaplace, Sensitivity, chain, half_width
from dpledger.mechanisms.numeric.grid import check_map, default_grid, on_grid, to_floats
from dpledger.mechanisms.numeric.integers import geometric_scale
from dpledger.mechanisms.numeric.one_shot import ShortText, derived
from dpledger.mechanisms.protocol import UNSAID
from dpledger.mechanisms.refinement.gradual_run import Answer, GradualStatistic
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["GradualRelease", "LaplacePlan", "laplace_plan"]

_ONE = Decimal(1)
_MOST_ATOMS = 2**13  # steps of sensitivity from which the pair of discrete Laplace noise is refused


@record
class GradualRelease(GradualStatistic):
    """Answer with one statistic again and again, each time with less Laplace noise: `ask(epsilon)`, `epsilon` rising.
    Koufogiannis-Han-Pappas 2017; Ligett-Neel-Roth-Waggoner-Wu 2017.

    `epsilon`: the cap, of the finest level that may be asked for. `sensitivity`: how far one unit moves the statistic
    in the l1 norm, under the relation (the caller vouches for it; `justification` says why, in one line). `dimension`:
    1 for a number, else the length of the vector. `whole`: every entry is a whole number (what is not is rounded, and
    the sensitivity is that of the rounded ones). `grid`: the step of the answers otherwise, a power of two; default:
    the largest that costs at most 0.1 % of the noise. An entry beyond `bound` counts as the bound and what is no number
    as `missing`; no value raises. What is no number, or no vector of this length, is refused.
    An answer is a float (with `whole` an int), or an array of `dimension` of them; any entry may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> run = dpl.ex_post.GradualRelease(epsilon=1, sensitivity=1, whole=True).open(1234, entropy=seeded(1))
    >>> [run.ask(epsilon) for epsilon in ("0.1", "0.5", "1")]
    [1194, 1232, 1232]
    """

    measure: ClassVar[str] = "epsilon"

    epsilon: Positive
    sensitivity: Positive
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    whole: Annotated[bool, Field(strict=True)] = given(default=False)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["gradual_release"] = tag(default="gradual_release")

    def __post_init__(self) -> None:
        if self.whole and not is_whole(self.sensitivity):
            raise ParameterError("sensitivity", str(self.sensitivity), "a whole number, as `whole` says")
        if self.whole and self.grid not in (None, _ONE):
            raise ParameterError("grid", str(self.grid), "none, or 1, as `whole` says")
        check_map(self.grid_in_use, self.bound, self.missing)
        self._law(self.epsilon)

    @property
    def _plan(self) -> LaplacePlan:
        return laplace_plan(self.epsilon, self.sensitivity, self.dimension, self.whole, self.grid)

    @property
    def grid_in_use(self) -> Decimal:
        """The step of the answers."""
        return self._plan.grid

    def noise(self, epsilon: Number) -> RoundedLaplace | DiscreteLaplace:
        """The law of the noise of each entry at a level, on its grid."""
        return self._plan.noise(self._level_asked(epsilon))

    def claim(self) -> PureDP:
        """The cap."""
        return PureDP(self.epsilon)

    def parts(self) -> Chain:
        """One chain, of discrete Laplace noise where the statistic is whole and moves by less than 8,192."""
        return Chain(self._law(self.epsilon))

    def _law(self, level: Decimal) -> ChainLaw:
        """The law of a level, as the chain names it."""
        noise = self._plan.noise(level)
        match noise:
            case DiscreteLaplace(scale=scale):
                return DiscreteLaplaceLaw(scale=scale, sensitivity=int(self.sensitivity))
            case RoundedLaplace():
                return LaplaceLaw(level)
            case _:
                assert_never(noise)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used and the scale of the finest level."""
        values = {
            "epsilon": self.epsilon,
            "sensitivity": self.sensitivity,
            "dimension": self.dimension,
            "whole": self.whole or None,
            "scale": self._plan.noise(self.epsilon).scale,
            "grid": self.grid_in_use,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def _answers(self, steps: npt.NDArray[Any], entropy: Entropy) -> Callable[[Decimal], Answer]:
        """The chain's levels, in the statistic's own units."""
        plan = self._plan
        moved = Sensitivity(plan.sensitivity, "l1", self.justification)
        levels = chain(plan.noise(self.epsilon), steps, sensitivity=moved, entropy=entropy)

        def answer(epsilon: Decimal) -> Answer:
            scale = plan.noise(epsilon).scale
            if scale == levels.scale:
                raise ParameterError("epsilon", text(epsilon), "one that differs from the last in its first 12 digits")
            noisy = levels.refine(scale)
            if not self.whole:
                noisy = to_floats(noisy, plan.grid)
            first: int | float = noisy[0].item() if isinstance(noisy[0], np.generic) else noisy[0]
            return first if self.dimension == 1 else noisy

        return answer

    def interval(self, epsilon: Number, confidence: Number) -> float:
        """The half-width around each entry of the answer at this level that holds its number (within the bound) with at
        least this probability; counts the rounding to the grid. Of one level that is chosen beforehand."""
        width = half_width(self.noise(epsilon), confidence) + (0 if self.whole else 1)
        return float(to_floats(np.array([width]), self.grid_in_use)[0])

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self.grid_in_use}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaplacePlan:
    """What is used. `sensitivity` is that of the statistic rounded to the grid."""

    sensitivity: Decimal
    grid: Decimal
    discrete: bool

    def noise(self, epsilon: Decimal) -> RoundedLaplace | DiscreteLaplace:
        """The noise of a level.

        Claim: sensitivity / scale <= epsilon, exactly; the scale falls where epsilon rises, or stays."""
        if self.discrete:
            return DiscreteLaplace(geometric_scale(int(self.sensitivity), epsilon))
        ideal = Fraction(self.sensitivity) / Fraction(epsilon)
        return RoundedLaplace(scale=derived(round_up(ideal), epsilon=epsilon), grid=self.grid)


@functools.lru_cache(maxsize=512)
def laplace_plan(
    epsilon: Decimal, sensitivity: Decimal, dimension: int, whole: bool, grid: Decimal | None
) -> LaplacePlan:
    """Claim: entries that move by `sensitivity` in the l1 norm move by at most that of the plan once rounded. Source:
    docs/proofs/noise.md, section 5."""
    if whole:
        return LaplacePlan(sensitivity=sensitivity, grid=_ONE, discrete=sensitivity < _MOST_ATOMS)
    length = Fraction(sensitivity)
    if grid is None:
        grid = default_grid(epsilon=length / Fraction(epsilon), sensitivity=length / dimension)
    if dimension == 1:
        return LaplacePlan(sensitivity=on_grid(sensitivity, grid), grid=grid, discrete=False)
    moved = derived(round_up(length + dimension * Fraction(grid)), sensitivity=sensitivity)
    return LaplacePlan(sensitivity=moved, grid=grid, discrete=False)
