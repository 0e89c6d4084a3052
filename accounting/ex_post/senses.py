"""What a bound E(o) of the realised loss may mean, and what follows from it: three senses, and no others.

For neighbours P, Q, in either order, L = log dP/dQ:

    pure             L(o) <= E(o) at every outcome
    probabilistic    P(L > E) <= delta
    integrated       integral (dP - e^E dQ)_+ <= delta

pure => probabilistic => integrated; with delta = 0 all three are one. Here is every step that holds, as a function from
one promise to another; a step that does not hold raises CannotCertify and says why. A promise is the leaf `ExPostDP`: a
cap, a delta, a sense, and after a run its loss. The loss of a run is no guarantee: `guarantee` reads the cap.

>>> ran = ExPostDP(5, "pure", outcome=ExPostOutcome("0.01"))
>>> guarantee(ran)
ApproxDP(epsilon=Decimal('5'), delta=Decimal('0'), kind='approx_dp')
>>> in_sense(ExPostDP(1, "integrated", "1e-6"), "probabilistic")
Traceback (most recent call last):
...
dpledger.errors.CannotCertify: integrated is not probabilistic at the same bound: only a larger one, see `with_slack`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward, prices
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.leaves import ExPostDP, ExPostOutcome
from dpledger.decimals import ZERO, add, multiply, round_up, total, whole
from dpledger.errors import CannotCertify, ParameterError, UnboundedLoss
from dpledger.relations import Relation

__all__ = [
    "ProvedTail",
    "Sense",
    "concurrent",
    "constant",
    "group",
    "guarantee",
    "guarantee_by_tail",
    "in_sense",
    "poisson_sampled",
    "post_processed",
    "sampled_without_replacement",
    "with_slack",
]

Sense: TypeAlias = Literal["pure", "integrated", "probabilistic"]


# ---- from sense to sense --------------------------------------------------------------------------------------------


def constant(promise: PureDP | ApproxDP) -> ExPostDP:
    """A guarantee as a bound of the loss that is the same at every outcome.

    Claim: (epsilon, delta)-DP is integrated (epsilon, delta), epsilon-DP is pure. Source: docs/proofs/ex_post.md,
    "Senses". Not probabilistic: a (1, 0.001)-DP step may have P(L > 1) = 0.1."""
    match promise:
        case PureDP():
            return ExPostDP(promise.epsilon, "pure")
        case ApproxDP(delta=delta):
            return ExPostDP(promise.epsilon, "integrated" if delta else "pure", delta)
        case _:
            assert_never(promise)


def in_sense(promise: ExPostDP, sense: Sense) -> ExPostDP:
    """The same bound in another sense; CannotCertify where it does not follow.

    Claim: the result holds wherever the promise does. Source: docs/proofs/ex_post.md, "Senses"."""
    if sense not in ("pure", "integrated", "probabilistic"):
        raise ParameterError("sense", sense, "one of pure, integrated, probabilistic")
    if promise.sense == sense or promise.sense == "pure" or not promise.delta or sense == "integrated":
        return replace(promise, sense=sense)
    if sense == "pure":
        raise CannotCertify(
            f"what may fail with delta {promise.delta} is not pure: some outcomes may lose without bound"
        )
    raise CannotCertify("integrated is not probabilistic at the same bound: only a larger one, see `with_slack`")


def with_slack(promise: ExPostDP, slack: Decimal) -> ExPostDP:
    """An integrated bound as a probabilistic one that is larger by `slack`, with delta/(1 - e^-slack).

    Claim: P(L > E + slack) <= result.delta. Source: docs/proofs/ex_post.md, "Senses". CannotCertify where that is 1 or
    more."""
    if not (slack.is_finite() and slack > 0):
        raise ParameterError("slack", slack, "a number above 0")
    with localcontext(outward.context(slack, promise.delta)):
        delta = outward.above(promise.delta / -outward.expm1(-slack)) if promise.delta else ZERO
    if delta >= 1:
        raise CannotCertify(f"a slack of {slack} leaves a delta of {delta}: nothing is said")
    more = _mapped(promise, lambda epsilon: add(epsilon, slack))
    return replace(more, sense="probabilistic", delta=delta)


def post_processed(promise: ExPostDP) -> ExPostDP:
    """What holds of anything computed from the outcome: the cap; of probabilistic no more than integrated.

    Claim: for any randomised function of the outcome the result holds. Source: docs/proofs/ex_post.md, "Senses". The
    loss of a run does not stay: at what was computed the bound is the largest over all outcomes it may come from."""
    sense: Sense = "integrated" if promise.sense == "probabilistic" and promise.delta else promise.sense
    return ExPostDP(promise.epsilon, sense, promise.delta)


# ---- to a guarantee -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedTail:
    """P(E(o) > epsilon) <= probability, on every dataset, proved in `proof`: a frequency that was observed is none."""

    epsilon: Decimal
    probability: Decimal
    proof: str

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise ParameterError("epsilon", self.epsilon, "a number that is not negative")
        if not 0 <= self.probability < 1:
            raise ParameterError("probability", self.probability, "a number in [0, 1)")
        if not self.proof.strip():
            raise ParameterError("proof", "nothing", "where it is proved: what was observed in runs proves no tail")


def guarantee(promise: ExPostDP) -> ApproxDP:
    """(cap, delta)-DP: all that a bound with a cap guarantees beforehand, whatever a run of it lost.

    Claim: the mechanism is result-DP. Source: docs/proofs/ex_post.md, "Senses"."""
    return ApproxDP(promise.epsilon, promise.delta)


def guarantee_by_tail(delta: Decimal, tail: ProvedTail | None) -> ApproxDP:
    """(tail.epsilon, delta + tail.probability)-DP, of a bound without a cap in any sense of this delta.

    Claim: the mechanism is result-DP. Source: docs/proofs/ex_post.md, "Senses". UnboundedLoss without a proved tail,
    CannotCertify where the deltas come to 1."""
    if not 0 <= delta < 1:
        raise ParameterError("delta", delta, "a number in [0, 1)")
    if tail is None:
        raise UnboundedLoss("a bound without a cap guarantees nothing beforehand: prove its tail, or truncate it")
    failed = add(delta, tail.probability)
    if failed >= 1:
        raise CannotCertify(f"the deltas come to {failed}: nothing is said")
    return ApproxDP(tail.epsilon, failed)


# ---- groups, samples, many at once ----------------------------------------------------------------------------------


def group(promise: ExPostDP, k: int) -> ExPostDP:
    """The bound for k units together: k E, with delta times the sum of e^(j cap), j < k.

    Claim: the result holds for datasets k steps apart. Source: docs/proofs/ex_post.md, "Senses": of the cap, not of the
    loss of a run. CannotCertify where the delta comes to 1."""
    whole(k, field="k", least=1)
    delta = prices.group_delta(promise.epsilon, promise.delta, k)
    if delta is None:
        raise CannotCertify(f"a group of {k} has a delta of 1 or more")
    read = _read_integrated(promise) if k > 1 else promise
    return replace(_mapped(read, lambda epsilon: multiply(epsilon, k)), delta=delta)


def poisson_sampled(promise: ExPostDP, rate: Decimal, relation: Relation) -> ExPostDP:
    """The bound on a secret Poisson sample: log(1 + rate (e^E - 1)) at the same outcome, with rate times the delta.

    Claim: the result holds under add_remove. Source: docs/proofs/ex_post.md, "Samples". CannotCertify under another
    relation. A reading: no filter gives an outcome back under a sample."""
    if not 0 < rate <= 1:
        raise ParameterError("rate", rate, "a probability above 0")
    if relation is not Relation.ADD_REMOVE:
        raise CannotCertify(f"a Poisson sample amplifies under add_remove only, not under {relation.value}")
    amplified = _mapped(_read_integrated(promise), lambda epsilon: prices.amplified_epsilon(epsilon, rate))
    return replace(amplified, delta=min(promise.delta, round_up(multiply(promise.delta, rate))))


def sampled_without_replacement(promise: ExPostDP, population: int, batch: int, relation: Relation) -> ExPostDP:
    """The bound on `batch` of `population` units, q = batch/population: as a Poisson sample's, with q (2 - q) delta.

    Claim: the result holds under replace_one. Source: docs/proofs/ex_post.md, "Samples": q delta is enough for a bound
    that is one number, not for one that depends on the outcome. CannotCertify under another relation."""
    whole(population, field="population", least=1)
    whole(batch, field="batch", least=1, most=population)
    if relation is not Relation.REPLACE_ONE:
        raise CannotCertify(
            f"a sample without replacement amplifies under replace_one only, not under {relation.value}"
        )
    q = Fraction(batch, population)
    rate, failing = min(Decimal(1), round_up(q)), round_up(q * (2 - q) * Fraction(promise.delta))
    amplified = _mapped(_read_integrated(promise), lambda epsilon: prices.amplified_epsilon(epsilon, rate))
    return replace(amplified, delta=min(promise.delta, failing))


def concurrent(promises: Sequence[ExPostDP]) -> ExPostDP:
    """Mechanisms one after another or interleaved: the bounds add up along every path, and so do the deltas.

    Claim: if each bound holds against every adaptive analyst, and the deltas of what is run are within result.delta on
    every path, the whole transcript is bounded in the result's sense. Source: docs/proofs/ex_post.md, "Sums". It has an
    outcome once every one of them has; what that adds up to is a reading, never a guarantee. CannotCertify where the
    deltas come to 1."""
    if not promises:
        return ExPostDP(ZERO, "pure")
    delta = total(one.delta for one in promises)
    if delta >= 1:
        raise CannotCertify(f"the deltas come to {delta}: nothing is said")
    senses = {one.sense for one in promises if one.delta}
    sense: Sense = "pure" if not senses else "integrated" if "integrated" in senses else "probabilistic"
    lost = [one.outcome.epsilon for one in promises if one.outcome is not None]
    outcome = ExPostOutcome(total(lost)) if len(lost) == len(promises) else None
    return ExPostDP(total(one.epsilon for one in promises), sense, delta, outcome)


def _read_integrated(promise: ExPostDP) -> ExPostDP:
    """The promise in the sense that mixing outcomes leaves it, its outcome kept."""
    return replace(promise, sense=post_processed(promise).sense)


def _mapped(promise: ExPostDP, rising: Callable[[Decimal], Decimal]) -> ExPostDP:
    """The promise with its cap, and its loss where one is known, under a function that rises."""
    outcome = None if promise.outcome is None else ExPostOutcome(rising(promise.outcome.epsilon))
    return replace(promise, epsilon=rising(promise.epsilon), outcome=outcome)
