"""Which learner needs the fewest records, and how many a target needs: to ask before anything is spent.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> print(plan(ThresholdClass(1023), "0.1", "0.05", epsilon=1).words())
248 examples are enough (proved) for an error of at most 0.1, but with probability 0.05, of a concept of the class. \
It is the bound 'private Occam', decided by the privacy: sampling needs 95, privacy needs 248.
>>> found = recommend("0.1", "0.1", 1, 100, ThresholdClass(1024))
>>> found.learner, found.plan.needed
('ExponentialPPACLearner of records, by group privacy', 190)
>>> [(row.learner.split(",")[0], row.needed) for row in found.rows]
[('ExponentialPPACLearner of records', 190), ('ClippedPairwiseEM', 250), ('UserLevelProperLearner', 1099), \
('UserLevelThresholdLearner', 20005)]
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from inspect import Parameter, signature
from typing import Protocol, assert_never, runtime_checkable

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, read, round_down, round_up, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.binomial_tails import MOST_TRIALS
from dpledger.mechanisms.learning.domains import LearnsRows, LearnsUsers
from dpledger.mechanisms.learning.representations.sizes import realizable_size, surrogate_size
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import (
    AnyClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    any_class_from,
)
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, natural_log, users_of_examples
from dpledger.mechanisms.learning.theory.parity_sizes import parity_plan
from dpledger.mechanisms.learning.theory.sizes import agnostic_plan, occam, one_sided, private_occam
from dpledger.mechanisms.learning.theory.users.clipped_sizes import clipped_pairwise_plan
from dpledger.mechanisms.learning.theory.users.threshold_sizes import threshold_users
from dpledger.mechanisms.learning.theory.users.user_sizes import proper_users, surrogate_users
from dpledger.mechanisms.noise import exponent_for
from dpledger.mechanisms.plan import Status, open_unit
from dpledger.relations import Relation, one_way
from dpledger.schema import flag

__all__ = ["Asked", "Plans", "Recommendation", "Recommended", "plan", "recommend"]

NO_PRIVACY = 10**9  # the exponent with which the choice is that of the fewest errors
MOST_PAIRS = 2**13  # concepts, all pairs of which are compared
MOST_BITS = 24  # of a hash
NEAR_PARTS = tuple(Fraction(1, part) for part in (64, 32, 16, 12, 8, 4))
NEAR_AGNOSTIC = Fraction(36, 1000)  # of alpha: what `surrogate_size` leaves for the distance


@runtime_checkable
class Plans(Protocol):
    """A learner that says how many it needs."""

    @property
    def plan(self) -> Callable[..., SampleSize]:
        """How many records or users are enough, of those of alpha (or tolerance) and beta that it has not itself."""
        ...


def plan(
    what: Plans | AnyClass,
    alpha: Number | None = None,
    beta: Number | None = None,
    *,
    epsilon: Number | None = None,
    relation: Relation | None = None,
    agnostic: bool = False,
) -> SampleSize:
    """How many records or users a target needs, which term binds, and whether that is proved, exact, conservative or an
    order.

    `what`: a learner, which knows its epsilon and relation, and some their alpha and beta too: what it knows is left
    out. Or a class, for the exponential mechanism over it at `epsilon`, without privacy where that is None, under
    `relation` (default: replace_one; under add_remove and zero_out with `monotone`). `agnostic`: above the best of the
    class, on any data; else where a concept fits. ParameterError for anything else, and for a learner that promises no
    accuracy (`PrivateStumpBooster`); InfeasiblePlan where no number is enough.
    Claim: as the bound that it names. Source: `sizes` and the learner's own.

    >>> found = dpl.plan(dpl.learning.ThresholdClass(1023), "0.1", "0.05", epsilon=1)
    >>> found.needed, found.binding
    (248, 'privacy')
    """
    anything = flag(agnostic, field="agnostic")
    if isinstance(what, Plans) and not isinstance(what, type):
        return _planned(what, {"alpha": alpha, "beta": beta, "epsilon": epsilon, "relation": relation}, anything)
    if isinstance(what, LearnsRows | LearnsUsers) and not isinstance(what, type):
        name = type(what).__name__
        raise ParameterError("what", name, f"a class, or a learner that promises an accuracy: {name} promises none")
    concepts = any_class_from(what, "what")
    if alpha is None or beta is None:
        raise ParameterError("alpha" if alpha is None else "beta", None, "a number in (0, 1)")
    under = Relation.REPLACE_ONE if relation is None else Relation.read(relation)
    if epsilon is None:
        if anything:
            return agnostic_plan(concepts, NO_PRIVACY, alpha, beta)
        if isinstance(concepts, PointClass) or (isinstance(concepts, ThresholdClass) and not concepts.both_ways):
            return one_sided(alpha, beta)
        return occam(concepts.size, alpha, beta)
    exponent = exponent_for(_loss(epsilon), sensitivity=1, monotone=one_way(under))
    if anything:
        return agnostic_plan(concepts, exponent, alpha, beta)
    return private_occam(concepts.size, exponent, alpha, beta)


def _planned(learner: Plans, given: Mapping[str, Number | Relation | None], agnostic: bool) -> SampleSize:
    """What the learner's own `plan` says of what was given. ParameterError where it wants more, or less."""
    wanted = {"alpha" if name == "tolerance" else name: one for name, one in signature(learner.plan).parameters.items()}
    own = f"nothing: {type(learner).__name__} "
    for name, value in given.items():
        if value is not None and name not in wanted:
            raise ParameterError(name, value, own + f"has its own {name}")
        if value is None and name in wanted and wanted[name].default is Parameter.empty:
            raise ParameterError(name, None, f"a number: {type(learner).__name__} has no {name} of its own")
    if agnostic and "agnostic" not in wanted:
        raise ParameterError("agnostic", agnostic, own + "promises one thing alone")
    asked = {one.name: given[name] for name, one in wanted.items() if given.get(name) is not None}
    return learner.plan(**asked, **({"agnostic": True} if agnostic else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommended:
    """One learner. `plan`: what it needs; None, and `why`, where no number is enough."""

    learner: str
    plan: SampleSize | None
    why: str = ""

    @property
    def needed(self) -> int | None:
        """So many, of the same units for all."""
        return None if self.plan is None else self.plan.needed

    @property
    def status(self) -> Status | None:
        """On whose word."""
        return None if self.plan is None else self.plan.status


@dataclass(frozen=True, slots=True)
class Recommendation:
    """All learners that there are for a target, the one that needs fewest first."""

    rows: tuple[Recommended, ...]

    @property
    def learner(self) -> str:
        """The first."""
        return self.rows[0].learner

    @property
    def plan(self) -> SampleSize:
        """What the first needs. InfeasiblePlan where no number is enough for any."""
        found = self.rows[0].plan
        if found is None:
            raise InfeasiblePlan(f"no learner: {self.rows[0].why}")
        return found

    def words(self) -> str:
        """All of them, one a line."""
        return "\n".join(
            f"{row.learner}: {row.why}" if row.plan is None else f"{row.learner}: {row.plan.words()}"
            for row in self.rows
        )


def recommend(
    alpha: Number,
    beta: Number,
    epsilon: Number,
    examples: int,
    concepts: AnyClass,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    realizable: bool = False,
) -> Recommendation:
    """Which learner needs the fewest users with `examples` each (records, where that is 1), of all whose bounds hold.

    Amplification, by which a user who errs often counts once, pays where alpha sqrt(examples) is near 1 and alpha is
    small; else group privacy over all examples needs fewer. `realizable`: a concept of the class fits. Of a class on
    numbered points, or of stumps on a table: those are learned as records, by `ExponentialPPACLearner` alone (a
    `PrivateStumpBooster` promises no accuracy).
    Claim: each row is the plan of that learner, on the word that it names. Source: the plans' own;
    docs/proofs/learning_pac.md, learning_users.md, learning_median.md, learning_clipped.md.

    >>> found = dpl.planning.recommend("0.2", "0.2", 1, 3, dpl.learning.ParityClass(3))
    >>> found.plan.needed
    64
    >>> bins = dpl.learning.Binning({"age": [18, 40, 65]}, {"colour": ["red", "blue"]}, source="the form")
    >>> found = dpl.planning.recommend("0.1", "0.05", 1, 1, dpl.learning.StumpClass(bins))
    >>> found.learner, found.plan.needed
    ('ExponentialPPACLearner', 1097)
    """
    fits, m = flag(realizable, field="realizable"), whole(examples, field="examples", least=1, most=MOST_TRIALS)
    target, risk, loss = open_unit(alpha, "alpha"), open_unit(beta, "beta"), _loss(epsilon)
    asked = Asked(any_class_from(concepts, "concepts"), m, target, risk, loss, Relation.read(relation), fits)
    found = []
    for learner, planned in asked.learners():
        try:
            found.append(Recommended(learner=learner, plan=planned()))
        except InfeasiblePlan as reason:
            found.append(Recommended(learner=learner, plan=None, why=str(reason)))
    return Recommendation(tuple(sorted(found, key=lambda row: (row.plan is None, row.needed))))


@dataclass(frozen=True, slots=True)
class _Near:
    """A representation that is yet to be drawn."""

    a: Decimal
    b: Decimal
    log_size: Decimal


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, and who could do it."""

    concepts: AnyClass
    examples: int
    alpha: Decimal
    beta: Decimal
    epsilon: Decimal
    relation: Relation
    realizable: bool

    def learners(self) -> Iterator[tuple[str, Callable[[], SampleSize]]]:
        """The name and the plan of each."""
        exponential = "ExponentialPPACLearner" + (" with monotone" if one_way(self.relation) else "")
        if self.examples == 1:
            yield exponential, self._of_records
        else:
            yield f"{exponential} of records, by group privacy", self._of_records
        yield from self.structured()
        match self.concepts:
            case PointClass():
                if self._can_be_hashed:
                    yield "UserLevelSurrogateLearner, hashed points", self._surrogate
                yield "UserLevelProperLearner", self._proper
            case ThresholdClass():
                yield "UserLevelProperLearner", self._proper
                yield "UserLevelThresholdLearner", self._thresholds
            case FiniteClass():
                yield "UserLevelProperLearner", self._proper
            case ParityClass():
                pass
            case StumpClass():
                return  # a learner of users takes numbered points, and a booster promises no accuracy
            case _:
                assert_never(self.concepts)
        if self.concepts.size <= MOST_PAIRS:
            yield "ClippedPairwiseEM", self._clipped

    def structured(self) -> Iterator[tuple[str, Callable[[], SampleSize]]]:
        """Those of records that look at less than all concepts of the class."""
        match self.concepts:
            case PointClass() if self.examples == 1 and self._can_be_hashed:
                name = "RealizableRepresentationLearner" if self.realizable else "SurrogateAgnosticLearner"
                yield f"{name}, hashed points", self._hashed
            case ParityClass() if self.realizable:
                yield "RepeatedParity", self._parity
            case PointClass() | ParityClass() | ThresholdClass() | FiniteClass() | StumpClass():
                return
            case _:
                assert_never(self.concepts)

    @property
    def _can_be_hashed(self) -> bool:
        """Whether its points are all those of some bits, and more than two."""
        return (
            isinstance(self.concepts, PointClass) and self.concepts.points > 2 and self.concepts.points.bit_count() == 1
        )

    def _of_records(self) -> SampleSize:
        exponent = exponent_for(self.epsilon, sensitivity=self.examples, monotone=one_way(self.relation))
        if self.realizable:
            return self._in_users(private_occam(self.concepts.size, exponent, self.alpha, self.beta))
        return self._in_users(agnostic_plan(self.concepts, exponent, self.alpha, self.beta))

    def _parity(self) -> SampleSize:
        assert isinstance(self.concepts, ParityClass)
        each = round_down(Fraction(self.epsilon) / self.examples)
        found = parity_plan(self.concepts.dimension, self.alpha, self.beta, epsilon=each, relation=self.relation)
        return self._in_users(found)

    def _in_users(self, found: SampleSize) -> SampleSize:
        """Users of `examples` records each."""
        if self.examples == 1:
            return found

        def users(records: int) -> int:
            return -(-records // self.examples)

        return dataclasses.replace(
            found,
            needed=users(found.needed),
            chosen=users(found.chosen),
            terms=tuple((name, users(needed)) for name, needed in found.terms),
            others=tuple((name, users(needed)) for name, needed in found.others),
            units=users_of_examples(self.examples),
        )

    def _hashed(self) -> SampleSize:
        assert isinstance(self.concepts, PointClass)
        dimension = (self.concepts.size - 1).bit_length()
        exponent = exponent_for(self.epsilon, sensitivity=1, monotone=one_way(self.relation))
        if self.realizable:
            parts, failures = NEAR_PARTS, 2
        else:
            parts, failures = (NEAR_AGNOSTIC,), 6
            moved = 1 if self.relation is Relation.LABEL_FLIP else 2
            exponent = exponent_for(self.epsilon, sensitivity=moved, monotone=one_way(self.relation))
        found = []
        for part in parts:
            near = round_down(part * Fraction(self.alpha))
            bits = math.ceil(failures / (Fraction(near) * Fraction(self.beta)) - 1).bit_length()
            if bits >= dimension or bits > MOST_BITS:
                continue
            hashed = _Near(near, round_up(1 / (Fraction(near) * 2**bits)), outward.above(natural_log(2**bits)))
            if self.realizable:
                found.append(realizable_size(hashed, exponent, self.alpha, self.beta))
            else:
                found.append(surrogate_size(self.concepts, hashed, exponent, self.alpha, self.beta))
        if not found:
            raise InfeasiblePlan("as many cells as points would be needed: the class itself is better")
        return min(found, key=lambda one: one.needed)

    def _proper(self) -> SampleSize:
        assert isinstance(self.concepts, FiniteClass | PointClass | ThresholdClass)
        monotone = one_way(self.relation)
        return proper_users(
            self.concepts, self.examples, self.alpha, self.beta, epsilon=self.epsilon, monotone=monotone
        )

    def _surrogate(self) -> SampleSize:
        assert isinstance(self.concepts, PointClass)
        return surrogate_users(
            self.concepts,
            self.examples,
            self.alpha,
            self.beta,
            epsilon=self.epsilon,
            monotone=one_way(self.relation),
            most_bits=min((self.concepts.points - 1).bit_length() - 1, MOST_BITS),
        )

    def _thresholds(self) -> SampleSize:
        assert isinstance(self.concepts, ThresholdClass)
        monotone = one_way(self.relation)
        return threshold_users(
            self.concepts, self.examples, self.alpha, self.beta, epsilon=self.epsilon, monotone=monotone
        )

    def _clipped(self) -> SampleSize:
        return clipped_pairwise_plan(
            self.concepts.size, self.examples, self.alpha, self.beta, epsilon=self.epsilon, relation=self.relation
        )


def _loss(epsilon: Number) -> Decimal:
    loss = read(epsilon, field="epsilon")
    if not loss > 0:
        raise ParameterError("epsilon", loss, "a number above 0")
    return loss
