"""Whether a learner keeps its contract on given populations: by exact limits of runs, or by its whole law where that is
small.

>>> from dpledger.audit.learning.populations import hard_populations
>>> from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> from dpledger.mechanisms.learning.theory.contracts import PACContract
>>> learner, contract = ExponentialPPACLearner(ThresholdClass(3), epsilon=1), PACContract("0.3", "0.2")
>>> enough = learner.plan("0.3", "0.2").needed
>>> found = check_contract(learner, contract, enough, hard_populations(ThresholdClass(3), "0.3"))
>>> found.verdict, found.met, {one.how for one in found.findings}
('not_refuted', True, {'exact'})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.rules import check
from dpledger.audit.evidence.binomial import lower_limit, upper_limit
from dpledger.audit.learning.populations import Population
from dpledger.decimals import Number, whole
from dpledger.errors import ParameterError, WorkLimit
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.domains import LearnsUsers
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.hypotheses import Concept, Hypothesis
from dpledger.mechanisms.learning.parities.parity_learners import FAIL, Failed
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample
from dpledger.mechanisms.learning.theory.concepts import ConceptClass, class_from
from dpledger.mechanisms.learning.theory.contracts import (
    AgnosticContract,
    Contract,
    PACContract,
    PPACContract,
)
from dpledger.mechanisms.plan import open_unit
from dpledger.mechanisms.protocol import Mechanism
from dpledger.relations import Relation, Unit
from dpledger.schema import listed

__all__ = ["ContractCheck", "Finding", "check_contract", "exact_failure"]

Answer: TypeAlias = Hypothesis | Literal[Failed.FAIL]
Learner: TypeAlias = (
    Mechanism[LabeledSample, Answer]
    | Mechanism[UserSample, Answer]
    | Callable[[LabeledSample, np.random.Generator], Answer]
)

MOST_SAMPLES = 400_000  # multisets of examples that are walked
MOST_CONCEPTS = 4096
MOST_ROWS = 10**7
AT_ONCE = 1 << 20  # numbers of a block
SLACK = 1e-9  # above the rounding of a sum of so many terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How often the learner fails on one population: `failures` of `trials` runs and exact limits, each missed with the
    check's share of error; or its probability, from the whole law (`trials` is 0), within 1e-9."""

    population: str
    how: Literal["exact", "sampled"]
    failures: int
    trials: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractCheck:
    """What was found on every population. `met`: each limit is below beta, so that the contract holds on these; it says
    nothing of others."""

    contract: Contract
    n: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Literal["violation", "not_refuted"]:
        """`violation`: on some population the learner fails more often than beta."""
        beta = float(self.contract.beta)
        return "violation" if any(one.lower > beta for one in self.findings) else "not_refuted"

    @property
    def met(self) -> bool:
        """Whether on all these populations the learner surely keeps the contract."""
        return all(one.upper <= float(self.contract.beta) for one in self.findings)

    @property
    def worst(self) -> Finding:
        """Where it fails most often, as far as is known."""
        return max(self.findings, key=lambda one: one.lower)


def check_contract(
    learner: Learner,
    contract: Contract,
    n: int,
    populations: Sequence[Population],
    *,
    concepts: ConceptClass | None = None,
    examples: int = 1,
    trials: int = 1000,
    error: Number = Decimal("1e-6"),
    relation: Relation | str = Relation.ADD_REMOVE,
    seed: int = 0,
) -> ContractCheck:
    """Try the learner on samples of n of each population. The answer FAIL breaks every contract.

    `learner`: a mechanism, or f(sample, rng) -> hypothesis. `concepts`: the class that an AgnosticContract compares
    with, and that holds the truth of the others (default: the learner's). `examples`: of each of n users, who are then
    the unit; a learner of users is given them by user, every other all their examples. Of a PPACContract the privacy is
    checked by the mechanism's parts, and ClaimTooSmall raised where it does not hold; a function promises none, and is
    refused.

    Claim: but with probability `error`, the verdict `violation` and `met` are right on these populations: one-sided
    Clopper-Pearson limits at error/(2 populations) each; no error at all where the law is enumerated.
    Source: Clopper-Pearson 1934; docs/proofs/audit.md 1.

    >>> learner = dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(2), epsilon=2)
    >>> halves = dpl.learning.Population("halves", ((0, 1), (1, 0)), (1, 1))
    >>> found = dpl.learning.check_contract(learner, dpl.learning.PACContract("0.4", "0.2"), 9, [halves])
    >>> found.verdict, found.met
    ('not_refuted', True)
    """
    each = whole(examples, field="examples", least=1, most=MOST_ROWS)
    size, runs = whole(n, field="n", most=MOST_ROWS // each), whole(trials, field="trials", least=1, most=10**9)
    first = whole(seed, field="seed", most=2**53 - 1)
    tried = listed(populations, field="populations")
    if not tried or not all(isinstance(one, Population) for one in tried):
        raise ParameterError("populations", f"{len(tried)} items", "at least one Population: no evidence is no verdict")
    share = float(open_unit(error, "error")) / (2 * len(tried))
    if not isinstance(contract, PACContract | AgnosticContract | PPACContract):
        raise ParameterError("contract", type(contract).__name__, "PACContract, AgnosticContract or PPACContract")
    placed = _placed(learner, contract, Relation.read(relation), Unit("user", each) if each > 1 else Unit())
    of_whom = concepts if concepts is not None else getattr(placed, "concept_class", None)
    compared = None if of_whom is None else class_from(of_whom, "concepts")
    found = []
    for number, population in enumerate(tried):
        if isinstance(placed, ExponentialPPACLearner) and _is_small(_numbered(placed), population, size * each):
            failure = exact_failure(placed, contract, size * each, population, concepts=compared)
            low, high = max(0.0, failure - SLACK), min(1.0, failure + SLACK)
            found.append(Finding(population=population.name, how="exact", failures=0, trials=0, lower=low, upper=high))
            continue
        least = _least(contract, population, compared)
        entropy = np.random.SeedSequence((first, number))
        bad = 0
        for child in entropy.spawn(runs):
            answer = _learned(placed, population, size, each, child)
            bad += answer is FAIL or not contract.accepts(population.error(answer), least)
        found.append(
            Finding(
                population=population.name,
                how="sampled",
                failures=bad,
                trials=runs,
                lower=lower_limit(bad, runs, share),
                upper=upper_limit(bad, runs, share),
            )
        )
    return ContractCheck(contract=contract, n=size, findings=tuple(found))


def exact_failure(
    learner: ExponentialPPACLearner,
    contract: Contract,
    n: int,
    population: Population,
    *,
    concepts: ConceptClass | None = None,
) -> float:
    """The probability that the exponential learner breaks the contract, over all samples of n of the population, within
    1e-9. `concepts`: whom it is compared with (default: its own class). WorkLimit where there are too many samples.
    Source: the multinomial law, and the law of the learner on each sample."""
    own = _numbered(learner)
    if not _is_small(own, population, n):
        raise WorkLimit(f"more than {MOST_SAMPLES} samples, or {MOST_CONCEPTS} concepts, would be walked")
    least = _least(contract, population, own if concepts is None else concepts)
    heard = [(one, weight) for one, weight in zip(population.examples, population.weights, strict=True) if weight]
    hypotheses = [Concept(own, place) for place in range(own.size)]
    points, labels = [x for (x, _), _ in heard], np.array([y for (_, y), _ in heard])
    wrong = np.array([one.predict(points) != labels for one in hypotheses], dtype=np.float64)
    fails = np.array([not contract.accepts(population.error(one), least) for one in hypotheses])
    chances = np.log(np.array([weight for _, weight in heard], dtype=np.float64) / sum(population.weights))
    total = 0.0
    for counts in _blocks(n, len(heard), max(1, AT_ONCE // own.size)):
        seen = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) + counts @ chances
        errors = counts @ wrong.T
        weights = np.exp(-float(learner.exponent) * (errors - errors.min(axis=1, keepdims=True)))
        total += float(np.exp(seen) @ (weights[:, fails].sum(axis=1) / weights.sum(axis=1)))
    return total


def _placed(learner: Learner, contract: Contract, relation: Relation, unit: Unit) -> Learner:
    """The learner for a relation and a unit, its privacy checked where the contract has it."""
    if isinstance(learner, type) or not (isinstance(learner, Mechanism) or callable(learner)):
        raise ParameterError("learner", type(learner).__name__, "a mechanism, or f(sample, rng) -> hypothesis")
    match contract:
        case PPACContract():
            if not isinstance(learner, Mechanism):
                raise ParameterError("learner", type(learner).__name__, "a mechanism: a function promises no privacy")
            placed = learner.under(relation, unit)
            asked = ApproxDP(contract.epsilon, contract.delta) if contract.delta else PureDP(contract.epsilon)
            check(asked, placed.parts(), relation)
            return placed
        case PACContract() | AgnosticContract():
            return learner.under(relation, unit) if isinstance(learner, Mechanism) else learner
        case _:
            assert_never(contract)


def _learned(learner: Learner, population: Population, n: int, each: int, seeds: np.random.SeedSequence) -> Answer:
    """What it answers to n units of `each` examples; ParameterError where that is no answer of a learner."""
    rng = np.random.default_rng(seeds)
    of_users = not isinstance(learner, type) and isinstance(learner, LearnsUsers)
    sample: Any = population.users(n, each, rng) if of_users else population.drawn(n * each, rng)
    if not of_users and each > 1:  # examples are independent: whose they are says nothing
        sample = LabeledSample(sample.x, sample.y, units=np.repeat(np.arange(n), each))
    if isinstance(learner, Mechanism):
        answer = learner.release(sample, entropy=seeded(int(rng.integers(2**62)))).value
    else:
        answer = learner(sample, rng)
    if answer == FAIL:
        return FAIL
    if not isinstance(answer, Hypothesis):
        raise ParameterError("learner", f"one that answers {type(answer).__name__}", "answers that predict, or FAIL")
    return answer


def _least(contract: Contract, population: Population, concepts: ConceptClass | None) -> Fraction:
    """The least error of the class; 0 where the contract is about a truth in it."""
    if concepts is None:
        raise ParameterError("concepts", None, "the class that the learner is compared with")
    least = population.least_error(concepts)
    match contract:
        case PACContract() | PPACContract():
            if least:
                raise ParameterError("populations", population.name, "one that a concept of the class labels")
        case AgnosticContract():
            pass
        case _:
            assert_never(contract)
    return least


def _numbered(learner: ExponentialPPACLearner) -> ConceptClass:
    """Its class. ParameterError where that is of tables: populations have numbered points."""
    return class_from(learner.concept_class, "learner.concept_class")


def _is_small(concepts: ConceptClass, population: Population, n: int) -> bool:
    kinds = sum(1 for weight in population.weights if weight)
    return concepts.size <= MOST_CONCEPTS and math.comb(n + kinds - 1, kinds - 1) <= MOST_SAMPLES


def _blocks(n: int, kinds: int, rows: int) -> Iterator[npt.NDArray[np.float64]]:
    """All ways to have n examples of so many kinds, one a row, in blocks."""
    block: list[tuple[int, ...]] = []
    for counts in _compositions(n, kinds):
        block.append(counts)
        if len(block) == rows:
            yield np.array(block, dtype=np.float64)
            block = []
    if block:
        yield np.array(block, dtype=np.float64)


def _compositions(n: int, kinds: int) -> Iterator[tuple[int, ...]]:
    if kinds == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _compositions(n - first, kinds - 1):
            yield (first, *rest)
