"""Parities, learned privately: which bits add up to the label.

    FAIL, with probability fail_probability;
    otherwise a uniform one of the parities that fit those examples that a coin kept; FAIL if there is none

A parity is wrong on half of all points or on none, so that to fit a random part of the examples is to fit them all,
while no example decides what fits: `sampling_rate` bounds its part. FAIL is an answer like any other, and
`RepeatedParity` asks again after it. Sources: Kasiviswanathan et al. 2011, section 4; Liu-Talwar 2019 for stopping at
random. Proofs: docs/proofs/learning_parity.md.

>>> from dpledger.mechanisms.entropy import seeded
>>> rows = LabeledSample([[1, 0, 1], [0, 1, 1], [1, 1, 1]] * 20, [1, 0, 1] * 20)
>>> learner = RepeatedParity(dimension=3, epsilon=1, mode="until_success", stop_probability="0.05")
>>> learner.under(Relation.REPLACE_ONE, Unit()).claim().epsilon <= 1
True
>>> found = learner.release(rows, entropy=seeded(1)).value
>>> found.params, found.predict([[1, 0, 0], [0, 1, 0]]).tolist()
({'place': '1'}, [1, 0])
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.certificates.parity import capped_delta, first_of_runs, greatest_rate, one_run, until_success
from dpledger.accounting.composition import Composition, Repeated
from dpledger.accounting.guarantees import ApproxDP, Failure, PrivacyFailure, PureDP
from dpledger.decimals import Number, multiply, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import RowsOfBits
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.parities.runs import FoundParities, ParityRuns
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import ParityClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.parity_sizes import RepetitionMode, parity_size, stays_failed
from dpledger.mechanisms.noise import happens
from dpledger.mechanisms.numeric.one_shot import exactly_one
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OpenProbability, OptionalPositive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["FAIL", "Failed", "ParityAnswer", "PrivateParityLearner", "RepeatedParity"]

_PLACE_BITS = 64
Dimension = Annotated[Whole, Field(strict=True, ge=1, le=2**20)]
Runs = Annotated[Whole, Field(strict=True, ge=1, le=10**12)]  # as often as a guarantee is repeated


class _Repetition(NamedTuple):
    """How runs are repeated; `runs` where there are so many at most."""

    mode: RepetitionMode | Literal["once"]
    runs: int


class Failed(StrEnum):
    """The answer of a run that has no hypothesis. A text, so that a ledger keeps it like any value.

    >>> FAIL, FAIL == "FAIL"
    (FAIL, True)
    """

    FAIL = "FAIL"

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


FAIL: Final = Failed.FAIL
"""The answer in place of a hypothesis. A value that was kept is a text again: compare by `==`."""

ParityAnswer: TypeAlias = Concept | Literal[Failed.FAIL]


class _Parity(RowLearner):
    """Base of records with the fields `dimension`, `epsilon`, `sampling_rate` and `fail_probability`."""

    __slots__ = ()

    dimension: int
    epsilon: OptionalPositive
    sampling_rate: OptionalPositive
    fail_probability: OpenProbability

    @property
    def domain(self) -> RowsOfBits:
        """The rows that it learns from."""
        return RowsOfBits(self.dimension)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """Their places; -1 of FAIL."""
        found = self._many(self._runs(taken), size, entropy)
        places = found.numbers.astype(np.int64 if self.dimension < _PLACE_BITS else object)
        places[~found.fits] = -1
        return places

    def sampled_of(self, value: ParityAnswer) -> int:
        """The place of the parity, as `sample` gives it; -1 of FAIL."""
        return -1 if value == FAIL else value.place

    def plain_of(self, value: ParityAnswer) -> int | None:
        """The place of the parity; None of FAIL."""
        return None if value is FAIL else value.place

    def value_of(self, plain: int | None) -> ParityAnswer:
        """The parity at a place, or FAIL, as `plain_of` says it."""
        return FAIL if plain is None else Concept(ParityClass(self.dimension), plain)

    def _runs(self, taken: LabeledSample) -> ParityRuns:
        return ParityRuns.on(taken, self.dimension, self._rate, self.fail_probability)

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many records are enough for an error of at most alpha where a parity fits all, but with probability beta,
        FAIL included. InfeasiblePlan where FAIL alone is more frequent."""
        return parity_size(self.dimension, self._rate, self._failed, alpha, beta)

    def _check(self) -> None:
        exactly_one(epsilon=self.epsilon, sampling_rate=self.sampling_rate)
        if self.sampling_rate is not None and self.sampling_rate >= 1:
            raise ParameterError("sampling_rate", self.sampling_rate, "a number in (0, 1): at 1 nothing is hidden")

    @property
    def _repetition(self) -> _Repetition:
        return _Repetition("once", 1)

    def _many(self, runs: ParityRuns, size: int, entropy: Entropy) -> FoundParities:
        return runs.many(size, entropy)

    @property
    def _failed(self) -> Decimal:
        """The probability of FAIL where a parity fits."""
        return self.fail_probability

    @property
    def _rate(self) -> Decimal:
        if self.sampling_rate is not None:
            return self.sampling_rate
        assert self.epsilon is not None, "one of the two is given"
        return _rate_for(self.epsilon, self._repetition, self.fail_probability, self._relation, rows_of(self.unit))

    def _price(self, repetition: _Repetition) -> Decimal:
        return _priced(repetition, self._rate, self.fail_probability, self._relation, rows_of(self.unit))

    @property
    def _relation(self) -> Relation:
        """Where none is fixed yet, the one under which most is lost."""
        return self.relation or Relation.REPLACE_ONE

    def _parameters(self, **more: object) -> Mapping[str, Plain]:
        values = {
            "dimension": self.dimension,
            "epsilon": self.epsilon,
            "sampling_rate": self._rate,
            "fail_probability": self.fail_probability,
            "strict": self.strict,
            **more,
        }
        result: dict[str, Plain] = plain(values)
        return result


@record
class PrivateParityLearner(_Parity):
    """One run: a parity, or FAIL.

    `dimension`: bits of a row. Exactly one of `epsilon` and `sampling_rate`, in (0, 1), is given: the rate that follows
    is the greatest that keeps epsilon. `fail_probability`: of FAIL on examples that a parity fits; below 1/2 it costs
    nothing down to (1-p)/(3-p) under replace_one and label_flip and (1-p)/(2-p) under add_remove and zero_out, p being
    the rate. A unit of several rows pays for each. The data are a LabeledSample whose
    rows are bits (or numbers, bit j of a number being bit j of a row). `strict`: see `RowLearner`.
    The value is a hypothesis, whose `predict(rows)` gives uint8[rows], 0 or 1; or it equals `dpl.learning.FAIL`.

    Of the slides (Nissim 2017, "Private Learning"): at the rate epsilon/4 and a fail probability of 1/2 an example that
    no parity fits makes FAIL likelier by epsilon/8 and not by epsilon/4, and what is lost is 2 artanh(epsilon/4), about
    half of epsilon; above epsilon = 3.83 it is more than epsilon. The labels of their example are in two notations.

    >>> learner = dpl.learning.PrivateParityLearner(dimension=20, epsilon=1, fail_probability="0.01")
    >>> learner = learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("record"))
    >>> learner.plan("0.1", "0.1").needed
    9367
    >>> from dpledger.mechanisms.entropy import seeded
    >>> none_fits = dpl.learning.LabeledSample([5] * 10**4, [0, 1] * (10**4 // 2))
    >>> learner.release(none_fits, entropy=seeded(1)).value == dpl.learning.FAIL
    True
    """

    dimension: Dimension
    epsilon: OptionalPositive = given(default=None)
    sampling_rate: OptionalPositive = given(default=None)
    fail_probability: OpenProbability = given(default=Decimal("0.5"))
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_parity"] = tag(default="private_parity")

    def __post_init__(self) -> None:
        self._check()
        self.claim()

    def claim(self) -> PureDP:
        """The epsilon of the rate: at most the one asked for."""
        return PureDP(self._price(self._repetition))

    def parts(self) -> Composition:
        """One guarantee, which the leaf states."""
        return self.claim()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the rate that is used."""
        return self._parameters()

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[ParityAnswer]:
        """A parity, or FAIL."""
        return Release(value=self.value_of(self._runs(self._taken(data, entropy)).one(entropy)), parts=self.parts())


@record
class RepeatedParity(_Parity):
    """Runs on the same examples until one finds a parity: that parity, or FAIL.

    `mode`: `until_success` tosses a coin after each FAIL, and stops with probability `stop_probability`; with
    `max_runs` it stops there at the latest, which costs a delta. `first_success` has `runs` at most. `basic` pays for
    each of its `runs`, as if all were shown. Everything else as of a `PrivateParityLearner`. Which run found it is not
    said, and how long it takes depends on the examples: do not show the time. Where no parity fits, `until_success`
    takes up to 1/`stop_probability` runs on average, unless `max_runs` ends it.
    The value is a hypothesis, whose `predict(rows)` gives uint8[rows], 0 or 1; or it equals `dpl.learning.FAIL`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> rows = dpl.learning.LabeledSample([[1, 0, 1], [0, 1, 1], [1, 1, 1]] * 20, [1, 0, 1] * 20)
    >>> learner = dpl.learning.RepeatedParity(dimension=3, epsilon=1, mode="basic", runs=9)
    >>> learner.release(rows, entropy=seeded(1)).value.params
    {'place': '1'}
    """

    dimension: Dimension
    epsilon: OptionalPositive = given(default=None)
    sampling_rate: OptionalPositive = given(default=None)
    fail_probability: OpenProbability = given(default=Decimal("0.5"))
    mode: RepetitionMode = given(default="until_success")
    runs: Runs | None = given(default=None)
    stop_probability: OptionalPositive = given(default=None)
    max_runs: Runs | None = given(default=None)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["repeated_parity"] = tag(default="repeated_parity")

    def __post_init__(self) -> None:
        self._check()
        belongs = {
            "runs": (self.runs, self.mode != "until_success", True),
            "stop_probability": (self.stop_probability, self.mode == "until_success", True),
            "max_runs": (self.max_runs, self.mode == "until_success", False),
        }
        for field, (value, wanted, needed) in belongs.items():
            if value is not None and not wanted:
                raise ParameterError(field, str(value), f"none: mode {self.mode} has no such parameter")
            if value is None and wanted and needed:
                raise ParameterError(field, "none", f"a number: mode {self.mode} needs it")
        if self.stop_probability is not None and self.stop_probability >= 1:
            raise ParameterError("stop_probability", self.stop_probability, "a number in (0, 1)")
        self.claim()

    def claim(self) -> PureDP | ApproxDP:
        """The epsilon of the rate: at most the one asked for. With `max_runs` a delta beside it."""
        epsilon = self._price(self._repetition)
        if self.max_runs is None or self.stop_probability is None:
            return PureDP(epsilon)
        delta = capped_delta(epsilon, self.stop_probability, self.max_runs)
        if delta >= 1:
            raise ParameterError("max_runs", self.max_runs, f"more runs: at these delta would be {delta:.3g}")
        return ApproxDP(epsilon, delta)

    def parts(self) -> Composition:
        """One guarantee, which the leaf states; in mode basic that of one run, `runs` times."""
        if self.mode == "basic" and self.runs is not None:
            return Repeated(PureDP(self._price(_Repetition("once", 1))), times=self.runs)
        return self.claim()

    def failures(self) -> tuple[Failure, ...]:
        """With `max_runs` the chance that they are used up, as far as it counts against privacy."""
        claim = self.claim()
        return () if isinstance(claim, PureDP) else (PrivacyFailure(claim.delta, "approximation"),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the rate that is used."""
        return self._parameters(
            mode=self.mode, runs=self.runs, stop_probability=self.stop_probability, max_runs=self.max_runs
        )

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[ParityAnswer]:
        """A parity, or FAIL."""
        found, answer = self._runs(self._taken(data, entropy)), None
        done = 0
        while True:
            answer, done = found.one(entropy), done + 1
            if answer is not None or done == self._most_runs or self._stops(None, entropy)[0]:
                return Release(value=self.value_of(answer), parts=self.parts())

    def _many(self, runs: ParityRuns, size: int, entropy: Entropy) -> FoundParities:
        fits, numbers, going, done = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=object), np.arange(size), 0
        while len(going):
            found, done = runs.many(len(going), entropy), done + 1
            fits[going], numbers[going] = found.fits, found.numbers
            if done == self._most_runs:
                break
            going = going[~found.fits]
            going = going[~self._stops(len(going), entropy)]
        return FoundParities(fits, numbers)

    def _stops(self, size: int | None, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Whether a coin says that it is over, after FAIL."""
        if self.stop_probability is None:
            return np.zeros(1 if size is None else size, dtype=np.bool_)
        fell = happens(self.stop_probability, entropy=entropy, size=size)
        return np.atleast_1d(np.asarray(fell, dtype=np.bool_))

    @property
    def _most_runs(self) -> int | None:
        return self.max_runs if self.runs is None else self.runs

    @property
    def _repetition(self) -> _Repetition:
        return _Repetition(self.mode, self.runs or 1)

    @property
    def _failed(self) -> Decimal:
        return stays_failed(self.fail_probability, runs=self.runs, stop=self.stop_probability, most=self.max_runs)


@lru_cache(maxsize=512)
def _priced(repetition: _Repetition, rate: Decimal, fail: Decimal, relation: Relation, rows: int) -> Decimal:
    """The epsilon of a unit of so many rows: a chain of as many neighbours."""
    match repetition.mode:
        case "once":
            return round_up(multiply(one_run(rate, fail, relation), rows))
        case "basic":
            once = round_up(multiply(one_run(rate, fail, relation), rows))
            return multiply(once, repetition.runs)
        case "first_success":
            return round_up(multiply(first_of_runs(rate, fail, repetition.runs, relation), rows))
        case "until_success":
            return round_up(multiply(until_success(rate, fail, relation), rows))
        case _:
            assert_never(repetition.mode)


@lru_cache(maxsize=512)
def _rate_for(epsilon: Decimal, repetition: _Repetition, fail: Decimal, relation: Relation, rows: int) -> Decimal:
    return greatest_rate(epsilon, lambda rate: _priced(repetition, rate, fail, relation, rows))
