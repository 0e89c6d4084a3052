"""A number with noise for a proposed local sensitivity, if every near dataset keeps it; otherwise UNSTABLE.

    data = (number, distance)
    number + Laplace(local_sensitivity / value_epsilon)     where a stable release at this distance releases
    UNSTABLE                                                where it does not

The distance is that to the nearest dataset of which some neighbour has a number that differs by more than was proposed;
0 for such a dataset itself, and anything smaller that one unit moves by at most 1 will do. So noise may be set for what
the data are like and not for the worst there is, without showing what they are like. Source: Dwork-Lei 2009, section 3;
proof: docs/proofs/stability.md, section 8.

>>> from dpledger.mechanisms.entropy import seeded
>>> median = ProposeTestRelease(epsilon=1, delta="1e-6", local_sensitivity=2, justification="gaps at the middle")
>>> answers = [median.release((41.5, far), entropy=seeded(2)).value for far in (60, 0)]
>>> abs(answers[0] - 41.5) < 40, answers[1]
(True, UNSTABLE)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.guarantees import ApproxDP, Failure
from dpledger.decimals import Number, multiply, round_down, subtract
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.grid import check_number
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.protocol import UNSAID, Release, check_declared, fixed
from dpledger.mechanisms.stability.answers import DISTANCES_READ_AS, UNSTABLE, Unstable, unstable
from dpledger.mechanisms.stability.distances import Justification
from dpledger.mechanisms.stability.stable_release import ReleaseMode, StableRelease
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ProposeTestRelease"]


@record
class ProposeTestRelease:
    """Release a number with noise for a local sensitivity that is tested first, or UNSTABLE.

    `epsilon`: in total; `test_share` of it, in (0, 1), is for the test. `delta`: in (0, 0.5), the chance that a number
    is released though a neighbour's differs by more than `local_sensitivity`, which is public. `mode`: how the distance
    is tested, as of a `StableRelease`. `grid`: the step of the result, a power of two. A number beyond `bound` counts
    as the bound, NaN as `missing`: the local sensitivity is that of what is counted. `justification`: one line that
    says why the distance keeps its contract. The data are the pair (number, distance). ContractViolation where the
    distance is no whole number of at least 0 and not infinite.
    The value is a float, of any sign, or UNSTABLE.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> median = dpl.stability.ProposeTestRelease(epsilon=1, delta="1e-6", local_sensitivity=2)
    >>> median.release((41.5, 0), entropy=seeded(2)).value
    UNSTABLE
    """

    epsilon: Positive
    delta: OpenProbability
    local_sensitivity: Positive
    test_share: OpenProbability = given(default=Decimal("0.5"))
    mode: ReleaseMode = given(default="optimal")
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: Justification = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["propose_test_release"] = tag(default="propose_test_release")

    def __post_init__(self) -> None:
        try:
            self._test, self._number  # noqa: B018 - each refuses what it cannot do
        except ParameterError as error:
            field = error.field.rpartition(".")[2]
            known = {"sensitivity": "local_sensitivity"}.get(field, field)
            raise ParameterError(known, error.value, error.expected) from None

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its grid fixed: local sensitivity and distance are declared
        under it. ParameterError where a unit may have many rows and nobody said why they hold for all of them."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        check_declared(1, self.justification, own_unit)
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, grid=self._number.noise.grid)

    def claim(self) -> ApproxDP:
        """(epsilon, delta), delta that at the threshold used."""
        return ApproxDP(self.epsilon, self._test.claim().delta)

    def parts(self) -> Composition:
        """The test, which its leaf states, and the noise."""
        return Sequence((self._test.parts(), self._number.parts()))

    def failures(self) -> tuple[Failure, ...]:
        """The chance of a number whose noise is too small for a neighbour's."""
        return self._test.failures()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the noise and the threshold that are used."""
        test, number = self._test.parameters(), self._number.parameters()
        own = plain(
            {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "local_sensitivity": self.local_sensitivity,
                "test_share": self.test_share,
            }
        )
        tested = {f"test_{name}": test[name] for name in ("epsilon", "scale", "threshold") if name in test}
        shared = {name: number[name] for name in ("scale", "grid", "bound", "missing", "justification")}
        return {**own, "mode": self.mode, **tested, "value_epsilon": number["epsilon"], **shared}

    def released_from(self, beta: Number) -> int:
        """The least distance at which a number is released with probability at least 1 - beta."""
        return self._test.released_from(beta)

    def values_read_as(self) -> tuple[str, ...]:
        """What number and distance count as that are no ordinary ones: of the parameters, never of the data."""
        return (*self._number.values_read_as(), DISTANCES_READ_AS)

    def inspect(self, data: object) -> None:
        """ParameterError unless the data are a pair whose first is one number."""
        self._test.inspect(data)
        assert isinstance(data, tuple), "a pair"
        check_number(data[0])

    def release(self, data: tuple[Any, Any], *, entropy: Entropy) -> Release[float | Literal[Unstable.UNSTABLE]]:
        """The number with noise, or UNSTABLE."""
        self.inspect(data)
        number, distance = data
        if self._test.release((True, distance), entropy=entropy).value is UNSTABLE:
            return Release(value=UNSTABLE, parts=self.parts())
        return Release(value=float(self._number.release(number, entropy=entropy).value), parts=self.parts())

    def sample(self, data: tuple[Any, Any], size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """So many independent releases."""
        self.inspect(data)
        number, distance = data
        passed = self._test.sample((True, distance), size, entropy) != UNSTABLE
        answers, places = unstable(size), np.flatnonzero(passed)
        answers[places] = self._number.sample(number, len(places), entropy)
        return answers

    @property
    def _test(self) -> StableRelease:
        epsilon = round_down(multiply(self.epsilon, self.test_share))
        return StableRelease(epsilon=epsilon, delta=self.delta, mode=self.mode, justification=self.justification)

    @property
    def _number(self) -> Laplace:
        return Laplace(
            sensitivity=self.local_sensitivity,
            epsilon=subtract(self.epsilon, self._test.epsilon),
            grid=self.grid,
            bound=self.bound,
            missing=self.missing,
            justification=self.justification,
        )
