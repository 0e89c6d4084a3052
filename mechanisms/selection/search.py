"""A search over ways to train: each trial trains one of several candidates and counts its errors on units held out.

Every unit is dealt once, by a secret coin of its own, to be trained on or to be held out. A trial draws a candidate,
trains it on the first, and counts, with noise, for how many of the others it is wrong. A unit is in one of the two
parts, so a trial costs the larger of training and count, not their sum; of all trials the least count wins
(`PrivateSelection`). docs/proofs/selection.md, section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, Parallel, Selected
from dpledger.accounting.guarantees import RDP, PureDP
from dpledger.accounting.trials import Trials
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import happens, uniform
from dpledger.mechanisms.numeric import Geometric
from dpledger.mechanisms.numeric.one_shot import OneShot
from dpledger.mechanisms.protocol import Release, reads
from dpledger.mechanisms.selection.private_selection import ASSUMES, claimed, selected
from dpledger.mechanisms.selection.trial_counts import check_drawable
from dpledger.mechanisms.units import Units, check_whole_units
from dpledger.number_fields import Count, OpenProbability, Positive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["Found", "PrivateSearch", "Searched"]

COUNTED = "each unit that is held out counts once, as right or as wrong"
KEEPS_NOTHING = (
    "training keeps nothing of one trial for another, and whether a model is wrong of a unit depends on them alone"
)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search publishes: the `place` of the candidate, its `model`, and for how many of the units held out it was
    `wrong`, with noise, maybe negative."""

    place: int
    model: Any
    wrong: int

    def __float__(self) -> float:
        return float(self.wrong)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Searched:
    """What a search runs on. `data`: items by position, or `ByUnit`. `train`: the model of a candidate in a tuple, from
    the positions of the units to train on; all its noise from the entropy that it is given; None where what fails saw
    no data, and raising where it did. `wrong`: of each unit at some positions whether a model is wrong of it,
    bool[positions], by that unit and the model alone."""

    data: object
    train: Callable[[int, npt.NDArray[np.int64], Entropy], tuple[Any] | None]
    wrong: Callable[[Any, npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


@record
class PrivateSearch(OneShot):
    """Train a candidate drawn at random, count its errors on units held out, and so again; publish the best.

    `candidates`: how many there are, public. `training`: what each of them costs, the same for all: a mechanism, of
    which the parts count, or, `by_claim`, its claim: of candidates that promise the same by other parts. `epsilon`: of
    one count of errors. `held_out`: the chance with which a unit is held out. `repeats`: the law of the number of
    trials. Data: `Searched`. The value is a `Found`, or None.
    Claim: that of the best of so many runs of the larger of the two. Source: docs/proofs/selection.md, section 7.
    """

    candidates: Count
    training: Any
    epsilon: Positive
    repeats: Trials
    held_out: OpenProbability = given(default="0.2")
    by_claim: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_search"] = tag(default="private_search")

    def __post_init__(self) -> None:
        check_drawable(self.repeats)
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `OneShot.under`, of what is trained too."""
        placed = OneShot.under(self, relation, unit)
        return placed._with(training=self.training.under(relation, unit))

    def claim(self) -> PureDP | RDP:
        """What the best of all trials promises."""
        return claimed(self.parts(), self.relation or self.training.relation or Relation.ADD_REMOVE)

    def parts(self) -> Composition:
        """The best of runs that train on one part of the units and count on the other."""
        trained = self.training.claim() if self.by_claim else self.training.parts()
        return Selected(Parallel((trained, self._count.parts()), by="unit"), repeats=self.repeats)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, those of the training inside."""
        values = {
            "candidates": self.candidates,
            "training": {"kind": self.training.kind, **self.training.parameters()},
            "epsilon": self.epsilon,
            "repeats": plain(self.repeats),
            "held_out": self.held_out,
            "by_claim": self.by_claim,
            "justification": COUNTED,
            "assumes": f"{ASSUMES}; {KEEPS_NOTHING}",
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values count as that are no ordinary ones: of the parameters, never of the data."""
        return (
            *reads(self.training),
            "a unit of which nothing can be said, also NaN or missing values, counts as wrong",
        )

    def inspect(self, data: object) -> None:
        """ParameterError where the data are no `Searched`, or do not say how rows belong to units."""
        if not isinstance(data, Searched):
            raise ParameterError("data", type(data).__name__, "what `private_search` makes of rows and functions")
        check_whole_units(data.data, self.unit, grouped=getattr(self.training, "grouped", False))

    def release(self, data: Searched, *, entropy: Entropy) -> Release[Found | None]:
        """The best of what was found."""
        self.inspect(data)
        out = happens(self.held_out, size=len(Units.of(data.data)), entropy=entropy)
        trial = _Trial(self, data, np.flatnonzero(~out), np.flatnonzero(out))
        value, outside = selected(trial.run, self.repeats, lambda found: -float(found), entropy=entropy)
        return Release(value=value, parts=self.parts(), outside_guarantee=outside)

    @property
    def _count(self) -> Geometric:
        return Geometric(
            sensitivity=1, epsilon=self.epsilon, justification=COUNTED, relation=self.relation, unit=self.unit
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """One trial, of units that are dealt."""

    search: PrivateSearch
    data: Searched
    trained_on: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]

    def run(self, entropy: Entropy) -> Release[Found | None]:
        place = int(uniform(self.search.candidates, 1, entropy=entropy, given=True)[0])
        trained = self.data.train(place, self.trained_on, entropy)
        if trained is None:
            return Release(value=None, parts=self.search.parts())
        (model,) = trained
        wrong = int(np.count_nonzero(self.data.wrong(model, self.held_out)))
        noisy = self.search._count.release(wrong, entropy=entropy).value
        return Release(value=Found(place, model, noisy), parts=self.search.parts())
