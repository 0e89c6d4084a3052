"""One value, released if no near dataset has another; otherwise UNSTABLE.

    data = (value, distance)
    optimal:   value with the greatest probability that keeps (epsilon, delta) at this distance
    tight:     value if distance + noise(1/epsilon) > threshold, the least that keeps delta

The caller vouches for the distance: one unit moves it by at most 1, and it is 0 on both of two neighbours that have
different values. The graph distance to the nearest dataset with another value does that, and anything smaller that one
unit moves by at most 1; a count of removals alone does not (an insertion may change the value). Sources:
Bassily-Thakkar-Thakurta 2018, Algorithm 2, for the noise; Desfontaines-Voss-Gipson-Mandayam 2022 for the best
probability. Proofs: docs/proofs/stability.md, sections 1 and 2.

>>> from dpledger.mechanisms.entropy import seeded
>>> winner = StableRelease(epsilon=1, delta="1e-6", justification="half the lead over the second, less one")
>>> winner.release(("B", 40), entropy=seeded(1)).value, winner.release(("B", 2), entropy=seeded(1)).value
('B', UNSTABLE)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.accounting.certificates.stable_releases import (
    NoisyRelease,
    grouped_noisy,
    noisy_distance,
    noisy_release,
    release_distance,
    release_probability,
)
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, Failure, PrivacyFailure
from dpledger.decimals import Number, read
from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw, happens
from dpledger.mechanisms.protocol import UNSAID, Release, check_declared, fixed
from dpledger.mechanisms.stability.answers import DISTANCES_READ_AS, UNSTABLE, StableAnswer, pair_of, unstable
from dpledger.mechanisms.stability.distances import Justification, grouped, grouped_claim, steps_between
from dpledger.number_fields import OpenProbability, Positive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ReleaseMode", "StableRelease"]

ReleaseMode: TypeAlias = Literal["optimal", "tight"]


@record
class StableRelease:
    """Release a value with its distance, or UNSTABLE.

    `epsilon`, `delta`: delta in (0, 0.5) is the chance of a value that a neighbour does not have. `mode`: how the
    distance is tested. `distance_relation`: under which the distance was counted; default: the scope's. Where it is
    another, the claim is that of a group, and says so.
    `justification`: one line that says why the distance keeps its contract. The data are the pair (value, distance):
    a value that can be hashed, and a whole number of at least 0, or infinity. ContractViolation for any other.
    The value is the one that was given, as it is, or UNSTABLE.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> winner = dpl.stability.StableRelease(epsilon=1, delta="1e-6")
    >>> winner.release(("B", 40), entropy=seeded(1)).value
    'B'
    """

    epsilon: Positive
    delta: OpenProbability
    mode: ReleaseMode = given(default="optimal")
    distance_relation: Relation | None = given(default=None)
    justification: Justification = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["stable_release"] = tag(default="stable_release")

    def __post_init__(self) -> None:
        if self.delta >= Decimal("0.5"):
            raise ParameterError("delta", self.delta, "a number in (0, 0.5): values are released with some probability")
        if self.mode == "optimal":
            release_probability(self.epsilon, self.delta, 0)
        else:
            DiscreteLaplace(self._noisy().scale)
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit. RelationError where the distance was counted under one of
        which a step of this is not known to be a few; InfeasiblePlan where no delta is left for them; ParameterError
        where a unit may have many rows and nobody said why the distance holds for all of them."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        check_declared(1, self.justification, own_unit)
        counted = self.distance_relation or own_relation
        steps_between(counted, own_relation)
        return dataclasses.replace(self, relation=own_relation, unit=own_unit, distance_relation=counted)

    def claim(self) -> ApproxDP:
        """(epsilon, delta), delta that at the threshold used; for several steps of the distance's relation, that of so
        many."""
        match self.mode, self._steps():
            case "tight", 2:
                return ApproxDP(*grouped_noisy(self.epsilon, self._noisy()))
            case _, k:
                return grouped_claim(self.epsilon, self._delta(), k)

    def parts(self) -> Composition:
        """One guarantee, which the leaf states; in a group where the distance's relation is not the scope's, unless the
        leaf states what two steps keep (tight)."""
        if self.mode != "optimal" and self._steps() == 2:
            return self.claim()
        return grouped(ApproxDP(self.epsilon, self._delta()), self._steps(), self.distance_relation)

    def failures(self) -> tuple[Failure, ...]:
        """The chance of a value that a neighbour does not have."""
        return (PrivacyFailure(self.claim().delta, "stability"),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the noise and the threshold that are used."""
        noisy = None if self.mode == "optimal" else self._noisy()
        values = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mode": self.mode,
            "scale": None if noisy is None else noisy.scale,
            "threshold": None if noisy is None else noisy.threshold,
            "distance_relation": self.distance_relation,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def released_from(self, beta: Number) -> int:
        """The least distance at which a value is released with probability at least 1 - beta."""
        missed = read(beta, field="beta")
        if self.mode == "optimal":
            return release_distance(self.epsilon, self.delta, missed)
        return noisy_distance(self._noisy(), missed)

    def values_read_as(self) -> tuple[str, ...]:
        """What value and distance count as that are no ordinary ones: of the parameters, never of the data."""
        return ("the value is released as it is, also NaN, or not at all", DISTANCES_READ_AS)

    def inspect(self, data: object) -> None:
        """ParameterError unless the data are a pair."""
        if not isinstance(data, tuple) or len(data) != 2:
            raise ParameterError("data", type(data).__name__, "a pair: (value, distance)")

    def release(self, data: tuple[Hashable, Any], *, entropy: Entropy) -> Release[StableAnswer]:
        """The value, or UNSTABLE."""
        value, distance = self._kept(data)
        answer = value if self._passes(distance, None, entropy)[0] else UNSTABLE
        return Release(value=answer, parts=self.parts())

    def sample(self, data: tuple[Hashable, Any], size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """So many independent releases."""
        value, distance = self._kept(data)
        answers = unstable(size)
        for place in np.flatnonzero(self._passes(distance, size, entropy)):
            answers[place] = value
        return answers

    def _kept(self, data: tuple[Hashable, Any]) -> tuple[Hashable, int]:
        self.inspect(data)
        kept = came_to(lambda: pair_of(data))
        if kept is None:
            raise ContractViolation(
                "a stable release takes a value that can be hashed and a whole distance of 0 or more, or infinity; the "
                "full charge stands"
            )
        return kept[0]

    def _passes(self, distance: int, size: int | None, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Whether a value at this distance is released, `size` times or once."""
        match self.mode:
            case "optimal":
                chance: Fraction = release_probability(self.epsilon, self.delta, distance)
                fell = happens(chance, entropy=entropy, size=size, given=True)
                return np.atleast_1d(np.asarray(fell, dtype=np.bool_))
            case "tight":
                test = self._noisy()
                moved = Sensitivity(1, "linf", self.justification)
                noisy = draw(
                    DiscreteLaplace(test.scale),
                    np.full(1 if size is None else size, distance, dtype=np.int64),
                    sensitivity=moved,
                    entropy=entropy,
                )
                return np.asarray(noisy > test.threshold, dtype=np.bool_)
            case _:
                assert_never(self.mode)

    def _delta(self) -> Decimal:
        return self.delta if self.mode == "optimal" else self._noisy().delta

    def _noisy(self) -> NoisyRelease:
        assert self.mode != "optimal", "asked only where the distance gets noise"
        return noisy_release(self.epsilon, self.delta)

    def _steps(self) -> int | None:
        return steps_between(self.distance_relation, self.relation)
