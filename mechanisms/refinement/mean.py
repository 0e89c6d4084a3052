"""The mean of clipped values, straight from the rows, answered ever more precisely.

Where the number of rows is private it is the second entry of a vector of two, each row weighing as much as a value may:
both are one chain, of which a level costs what it says.

>>> from dpledger.mechanisms.entropy import seeded
>>> run = GradualMean(epsilon=2, lower=0, upper=10).open([3, 4, "unknown"] * 500, entropy=seeded(4))
>>> [round(run.ask(epsilon), 3) for epsilon in ("0.05", "0.5")]
[3.993, 4.007]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dpledger.accounting.chains import Chain
from dpledger.accounting.composition import LaplaceLaw
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import add, multiply, round_up, subtract, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedLaplace, Sensitivity, chain
from dpledger.mechanisms.numeric.distances import Distances, check_range, clipped_as
from dpledger.mechanisms.numeric.grid import default_grid
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.numeric.rows import check_column, count_is_public, rows_of
from dpledger.mechanisms.refinement.gradual_run import Answer, Gradual
from dpledger.number_fields import OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["GradualMean"]


@record
class GradualMean(Gradual):
    """Answer with the mean of values clipped to [lower, upper] again and again, each time with less Laplace noise:
    `ask(epsilon)`, `epsilon` rising. Koufogiannis-Han-Pappas 2017.

    `epsilon`: the cap, of the finest level that may be asked for. What is no number counts as `missing`, in the range
    (default: its centre). The number of rows is exact where it is public (replace_one with one row a unit; label_flip),
    else noisy as well. `grid`: the step of the sum, a power of two; default: 1024 times finer than the noise and the
    range.
    An answer is a float in [lower, upper].

    >>> from dpledger.mechanisms.entropy import seeded
    >>> run = dpl.ex_post.GradualMean(epsilon=1, lower=0, upper=10).open([3, 4, 5] * 500, entropy=seeded(1))
    >>> [round(float(run.ask(epsilon)), 2) for epsilon in ("0.1", "1")]
    [3.96, 3.98]
    """

    measure: ClassVar[str] = "epsilon"

    epsilon: Positive
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["gradual_mean"] = tag(default="gradual_mean")

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper, self._missing)
        self._values.check()
        self._noise(self.epsilon)

    def claim(self) -> PureDP:
        """The cap."""
        return PureDP(self.epsilon)

    def parts(self) -> Chain:
        """One chain of Laplace noise."""
        return Chain(self._law(self.epsilon))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used and the scale of the finest level."""
        values = {
            "epsilon": self.epsilon,
            "lower": self.lower,
            "upper": self.upper,
            "missing": self._missing,
            "scale": self._noise(self.epsilon).scale,
            "grid": self._grid,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each."""
        check_column(data)

    def _law(self, level: Decimal) -> LaplaceLaw:
        self._noise(level)
        return LaplaceLaw(level)

    def _noise(self, epsilon: Decimal) -> RoundedLaplace:
        """Claim: sensitivity / scale <= epsilon, exactly."""
        ideal = Fraction(self._sensitivity.value) / Fraction(epsilon)
        return RoundedLaplace(scale=derived(round_up(ideal), epsilon=epsilon), grid=self._grid)

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return clipped_as(self.lower, self.upper, self._missing)

    def _steps(self, data: object) -> npt.NDArray[Any]:
        """The sum of the distances, and the number of rows, each of which counts as many steps as a value may."""
        values = self._values
        total, rows = values.totals(data)
        return np.array([total, rows * values.reach], dtype=object)

    def _answers(self, steps: npt.NDArray[Any], entropy: Entropy) -> Callable[[Decimal], Answer]:
        values, public = self._values, count_is_public(self.relation, self.unit)
        noisy_of = steps[:1] if public else steps
        levels = chain(self._noise(self.epsilon), noisy_of, sensitivity=self._sensitivity, entropy=entropy)

        def answer(epsilon: Decimal) -> float:
            scale = self._noise(epsilon).scale
            if scale == levels.scale:
                raise ParameterError("epsilon", text(epsilon), "one that differs from the last in its first 12 digits")
            noisy = levels.refine(scale)
            weighted = steps[1] if public else noisy[1]
            return values.mean(int(noisy[0]), int(weighted) / values.reach)

        return answer

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._grid, "missing": self._missing}

    @property
    def _sensitivity(self) -> Sensitivity:
        """How far the rows of a unit move the vector.

        Claim: 2 m r, in the l1 norm, under every relation, for units of at most m rows and values that lie up to r from
        the centre. A unit has a rows on one side and b on the other, where a row weighs r in the count: the sum moves
        by at most (a + b) r and the count by |a - b| r, together 2 max(a, b) r."""
        moved = 2 * rows_of(self.unit) * self._values.reach * Fraction(self._grid)
        why = "values lie within half of the range: with a rows, then b, a unit moves both by 2 max(a, b) of that"
        return Sensitivity(derived(round_up(moved), upper=self.upper), "l1", why)

    @property
    def _values(self) -> Distances:
        return Distances(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    @property
    def _missing(self) -> Decimal:
        return self.missing if self.missing is not None else multiply(add(self.lower, self.upper), Decimal("0.5"))

    @property
    def _grid(self) -> Decimal:
        if self.grid is not None:
            return self.grid
        half = Fraction(subtract(self.upper, self.lower)) / 2
        return default_grid(upper=half, epsilon=half / Fraction(self.epsilon))
