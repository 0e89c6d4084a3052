"""The Laplace mechanism for one number that the caller computed.

The number is rounded to the grid, and the Laplace variable, rounded to the same grid, is added as whole steps. The
release is a post-processing of the continuous mechanism on the rounded number, so its leaf is `LaplaceLaw(epsilon)`.

>>> from dpledger.mechanisms.entropy import seeded
>>> count = Laplace(sensitivity=1, epsilon="0.1")
>>> count.claim(), count.parameters()["scale"], count.parameters()["grid"]
(PureDP(epsilon=Decimal('0.1'), kind='pure_dp'), '10', '0.0009765625')
>>> count.release(1234, entropy=seeded(5)).parts == count.parts()
True
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, round_up
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.grid import (
    TotalMap,
    check_map,
    check_number,
    default_grid,
    on_grid,
    to_floats,
    to_steps,
)
from dpledger.mechanisms.numeric.one_shot import ShortText, Vouched, derived, exactly_one
from dpledger.mechanisms.protocol import UNSAID, Release
from dpledger.number_fields import OptionalPositive, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["Laplace"]


@record
class Laplace(Vouched):
    """Release a number with Laplace noise. Dwork-McSherry-Nissim-Smith 2006, theorem 1.

    `sensitivity`: how far one unit moves the number, under the relation (the caller vouches for it; `justification`
    says why, in one line). Exactly one of `epsilon` and `scale` is given; the other follows, rounded to the safe side.
    `grid`: the step of the result, a power of two; default: the largest that is 1024 times finer than scale and
    sensitivity. A number beyond `bound` counts as the bound, and NaN as `missing`; no value raises. Data that are not
    one number are refused.
    """

    sensitivity: Positive = given(default=1)
    epsilon: OptionalPositive = given(default=None)
    scale: OptionalPositive = given(default=None)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["laplace"] = tag(default="laplace")

    def __post_init__(self) -> None:
        exactly_one(epsilon=self.epsilon, scale=self.scale)
        check_map(self._plan.grid, self.bound, self.missing)

    @property
    def _plan(self) -> _Plan:
        return _planned(self.sensitivity, self.epsilon, self.scale, self.grid)

    @property
    def noise(self) -> RoundedLaplace:
        """The law of the noise, on its grid."""
        return RoundedLaplace(scale=self._plan.scale, grid=self._plan.grid)

    def claim(self) -> PureDP:
        """epsilon = sensitivity / scale, rounded up."""
        return PureDP(self._plan.epsilon)

    def parts(self) -> Composition:
        """One Laplace leaf."""
        return LaplaceLaw(self._plan.epsilon)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with epsilon, scale and grid as they are used."""
        plan = self._plan
        values = {
            "sensitivity": self.sensitivity,
            "epsilon": plan.epsilon,
            "scale": plan.scale,
            "grid": plan.grid,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are one number; its value never matters."""
        check_number(data)

    def release(self, data: object, *, entropy: Entropy) -> Release[float]:
        """`data` plus noise, as the nearest float to a multiple of the grid."""
        self.inspect(data)
        noisy = draw(self.noise, to_steps(data, self._map), sensitivity=self._declared, entropy=entropy)
        return Release(value=float(to_floats(np.array([noisy]), self._plan.grid)[0]), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data."""
        self.inspect(data)
        steps = np.array([to_steps(data, self._map)]).repeat(size)
        noisy = draw(self.noise, steps, sensitivity=self._declared, entropy=entropy)
        return to_floats(noisy, self._plan.grid)

    def interval(self, confidence: Number) -> float:
        """The half-width around the released value that holds the number (within the bound) with at least this
        probability; counts the rounding to the grid."""
        return float(to_floats(np.array([half_width(self.noise, confidence) + 1]), self._plan.grid)[0])

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._plan.grid}

    @property
    def _map(self) -> TotalMap:
        return TotalMap(grid=self._plan.grid, bound=self.bound, missing=self.missing)

    @property
    def _declared(self) -> Sensitivity:
        return Sensitivity(self._plan.sensitivity, "l1", self.justification)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is used. `sensitivity` is that of the number rounded to the grid."""

    epsilon: Decimal
    scale: Decimal
    grid: Decimal
    sensitivity: Decimal


@functools.lru_cache(maxsize=512)
def _planned(sensitivity: Decimal, epsilon: Decimal | None, scale: Decimal | None, grid: Decimal | None) -> _Plan:
    """Claim: sensitivity / scale <= epsilon, exactly, for the values in the plan."""
    if epsilon is not None:
        if grid is None:
            grid = default_grid(epsilon=Fraction(sensitivity) / Fraction(epsilon), sensitivity=Fraction(sensitivity))
        moved = on_grid(sensitivity, grid)
        used = derived(round_up(Fraction(moved) / Fraction(epsilon)), epsilon=epsilon)
        return _Plan(epsilon=epsilon, scale=used, grid=grid, sensitivity=moved)
    assert scale is not None, "exactly one of them is given"
    if grid is None:
        grid = default_grid(scale=Fraction(scale), sensitivity=Fraction(sensitivity))
    moved = on_grid(sensitivity, grid)
    loss = derived(round_up(Fraction(moved) / Fraction(scale)), scale=scale)
    return _Plan(epsilon=loss, scale=scale, grid=grid, sensitivity=moved)
