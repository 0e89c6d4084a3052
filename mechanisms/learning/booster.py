"""Stumps that vote: each round draws one by the weights of the rows that those before it get wrong.

>>> from dpledger.mechanisms.entropy import seeded
>>> bins = Binning({"age": [18, 65]}, source="the census form")
>>> booster = PrivateStumpBooster(binning=bins, epsilon=20, rounds=3)
>>> rows = [{"age": age} for age in range(90)]
>>> found = booster.release(LabeledSample(rows, [age >= 65 for age in range(90)]), entropy=seeded(1)).value
>>> found.predict([{"age": 70}, {"age": 30}]).tolist(), found.output_in_class
([1, 0], False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.accounting.composition import Composition, Repeated
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.decimals import Number, read, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample, labels_of
from dpledger.mechanisms.learning.tables.binning import Binned, Binning, BinningField, binning_of
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.numeric.integers import share_of
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Positive, Whole
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["BoostedStumps", "PrivateStumpBooster"]

HALF = Decimal("0.5")
STEPS = 2**20  # of a weight in [0, 1]: weights are whole numbers, whose sums are exact
_ROWS_OF_A_ROUND = 24  # times epsilon, for each unit of the logarithm of how many stumps there are
_MOST_ROUNDS = 50
_WHY = "a record has a weight in [0, 1], which follows from it and the stumps that were released before"


@dataclass(frozen=True, slots=True)
class BoostedStumps:
    """The majority of the stumps at `places`; 0 where the votes are even."""

    stumps: StumpClass
    places: tuple[int, ...]

    def __str__(self) -> str:
        return "most of: " + "; ".join(map(self.stumps.words, self.places))

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """The label of each row of `x`."""
        return np.asarray(self.scores(x) > 0, dtype=np.uint8)

    def scores(self, x: object) -> npt.NDArray[np.float64]:
        """For each row of `x` by how much of all votes those for 1 are ahead: float64[rows], from -1 to 1."""
        rows = self.stumps.binning.read(x)
        votes = sum((self.stumps.labels(place, rows).astype(np.int64) for place in self.places), np.int64(0))
        return np.asarray((2 * votes - len(self.places)) / len(self.places), dtype=np.float64)

    @property
    def params(self) -> Mapping[str, Plain]:
        """The places of the stumps, in the order in which they were drawn."""
        return {"places": list(self.places)}

    @property
    def output_in_class(self) -> bool:
        """A majority is no stump."""
        return False


@record
class PrivateStumpBooster(RowLearner):
    """Draw so many stumps, each by how much weight it gets right, and let them vote. Servedio 2003 (SmoothBoost).

    `binning`: public, fixed before the data. `epsilon`: of all rounds together, under any relation. `rounds` are fixed
    beforehand, and more of them share the epsilon (`for_rows` chooses them). `gamma`: the edge that a stump is expected
    to have, in (0, 1/2); with theta = gamma/(2 + gamma) and N the sum over the stumps so far of (+1 where one is right,
    -1 else, less theta), a row weighs 1 where N < 0, else (1 - gamma)^(N/2). The weights are not divided by their sum,
    which is private, and no error on the sample ends the rounds. No accuracy is promised. `strict`: see `RowLearner`.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> bins = dpl.learning.Binning({"age": [18, 65]}, source="the census form")
    >>> rows = dpl.learning.LabeledSample([{"age": age} for age in range(90)], [age >= 65 for age in range(90)])
    >>> booster = dpl.learning.PrivateStumpBooster(binning=bins, epsilon=20, rounds=3)
    >>> found = booster.release(rows, entropy=seeded(1)).value
    >>> found.predict([{"age": 70}, {"age": 30}]).tolist()
    [1, 0]
    """

    binning: BinningField
    epsilon: Positive
    rounds: Annotated[Whole, Field(strict=True, ge=1, le=10**4)] = given(default=5)
    gamma: Positive = given(default=Decimal("0.2"))
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_stump_booster"] = tag(default="private_stump_booster")

    def __post_init__(self) -> None:
        if self.gamma >= HALF:
            raise ParameterError("gamma", self.gamma, "a number in (0, 1/2)")
        _ = self.choice

    @classmethod
    def for_rows(cls, rows: int, binning: Binning, epsilon: Number, **others: Any) -> Self:
        """With as many rounds as so many rows, a public number, pay for: of few rows one sharp round says more than
        many that are noise. About rows epsilon / (24 ln stumps), at most 50 (measured: docs/private_learning.md).

        >>> bins = dpl.learning.Binning({"age": [18, 65]}, source="the census form")
        >>> [dpl.learning.PrivateStumpBooster.for_rows(rows, bins, epsilon=1).rounds for rows in (40, 400, 40_000)]
        [1, 9, 50]
        """
        many, share = whole(rows, field="rows", least=1, most=10**12), read(epsilon, field="epsilon")
        paid = float(share) * many / (_ROWS_OF_A_ROUND * scalars.log(StumpClass(binning_of(binning)).size))
        return cls(binning=binning, epsilon=epsilon, rounds=round(min(max(paid, 1.0), _MOST_ROUNDS)), **others)

    @property
    def domain(self) -> Binning:
        """The rows that it learns from."""
        return self.binning

    @property
    def says(self) -> tuple[str, ...]:
        """How its votes are shared."""
        return ("scores",)

    @property
    def epsilon_of_a_round(self) -> Decimal:
        """An equal share, rounded down."""
        return share_of(self.epsilon, self.rounds)

    @property
    def choice(self) -> Choice:
        """Of a round, by the weight that a stump gets right. Where scores move in one direction only (add_remove,
        zero_out) the exponent is twice as much."""
        share, moved = self.epsilon_of_a_round, STEPS * rows_of(self.unit)
        return Choice.weighing(share, moved=moved, why=_WHY, monotone=one_way(self.relation))

    @property
    def exponent(self) -> Decimal:
        """How much likelier, as a logarithm, one more step of weight makes a stump."""
        return self.choice.exponent

    def claim(self) -> PureDP:
        """Epsilon.

        Claim: the rounds compose, each a choice that may depend on those before it.
        Source: docs/proofs/learning_tables.md, "Rounds"."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A choice in each round."""
        return Repeated(BoundedRange(self.epsilon_of_a_round), times=self.rounds)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used, of a step of weight."""
        result: dict[str, Plain] = plain(
            {
                "binning": self.binning.described(),
                "epsilon": self.epsilon,
                "rounds": self.rounds,
                "gamma": self.gamma,
                "strict": self.strict,
                "steps_of_weight": STEPS,
                **self.choice.said(),
            }
        )
        return result

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[BoostedStumps]:
        """The stumps that vote."""
        sample = self._taken(data, entropy)
        drawn = self._drawn(self.binning.read(sample.x), labels_of(sample.y), entropy)
        return Release(value=self.value_of(drawn), parts=self.parts())

    def plain_of(self, value: BoostedStumps) -> tuple[int, ...]:
        """The places of the stumps: which they are follows from the parameters."""
        return value.places

    def value_of(self, plain: tuple[int, ...]) -> BoostedStumps:
        """The majority of the stumps at these places, as `plain_of` says it."""
        return BoostedStumps(StumpClass(self.binning), plain)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """The places of their stumps, one release a row."""
        rows, y = self.binning.read(taken.x), labels_of(taken.y)
        found = [self._drawn(rows, y, entropy) for _ in range(size)]
        return np.array(found, dtype=np.int64).reshape(size, self.rounds)

    def scores(self, rows: Binned, y: npt.NDArray[np.uint8], before: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """The weight of the rows that each stump gets right, in steps, after the stumps at the places `before`."""
        stumps = StumpClass(self.binning)
        right = np.zeros(len(y), dtype=np.int64)
        for place in before:
            right += stumps.labels(place, rows) == y
        weights = np.where(rows.known, _weights(self.gamma, len(before))[right], 0)
        zeros = int(weights[y == 0].sum())  # what a stump gets right that says 0 throughout
        return zeros + stumps.sums(rows, np.where(y == 1, weights, -weights))

    def _drawn(self, rows: Binned, y: npt.NDArray[np.uint8], entropy: Entropy) -> tuple[int, ...]:
        choice = self.choice
        found: tuple[int, ...] = ()
        for _ in range(self.rounds):
            found = (*found, choice.one(self.scores(rows, y, found), entropy=entropy))
        return found


@lru_cache(maxsize=4096)
def _weights(gamma: Decimal, rounds: int) -> npt.NDArray[Any]:
    """The weight in steps of a row that so many of the stumps get right, by that number."""
    theta = Fraction(gamma) / (2 + Fraction(gamma))
    found = np.array(
        [_weight(gamma, 2 * right - rounds - rounds * theta) for right in range(rounds + 1)], dtype=np.int64
    )
    found.setflags(write=False)
    return found


def _weight(gamma: Decimal, margin: Fraction) -> int:
    """(1 - gamma)^(margin/2) in whole steps; all of them below 0."""
    if margin < 0:
        return STEPS
    with localcontext(outward.context(gamma)):
        power = Decimal(margin.numerator) / Decimal(2 * margin.denominator) * outward.ln1p(-gamma)
        return int(outward.exp(power) * STEPS + HALF)
