"""What a bound E(o) of the realised loss may mean, and what follows from it: three senses, and no others.

For neighbours P, Q, in either order, L = log dP/dQ:

    pure             L(o) <= E(o) at every outcome
    probabilistic    P(L > E) <= delta
    integrated       integral (dP - e^E dQ)_+ <= delta

pure => probabilistic => integrated; with delta = 0 all three are one. Here is every step that holds, as a function from
one promise to another; a step that does not hold raises CannotCertify and says why. A promise is the leaf `ExPostDP`: a
cap, a delta, a sense, and after a run its loss. The loss of a run is no guarantee: `guarantee` reads the cap. Public as
`dpledger.ex_post`.

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
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from dpledger.accounting.arithmetic import outward, prices
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.leaves import ExPostDP, ExPostOutcome
from dpledger.decimals import ZERO, Number, add, multiply, read, round_up, total, whole
from dpledger.errors import CannotCertify, ParameterError, UnboundedLoss
from dpledger.number_fields import Exact, Probability
from dpledger.relations import Relation
from dpledger.schema import listed, one_of, record

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

MOST_UNITS = 10**6  # of a group, as in `Group`
MOST_POPULATION = 10**18


def _promised(promise: object, field: str = "promise") -> ExPostDP:
    if not isinstance(promise, ExPostDP):
        raise ParameterError(field, type(promise).__name__, "an ExPostDP")
    return promise


# ---- from sense to sense --------------------------------------------------------------------------------------------


def constant(promise: PureDP | ApproxDP) -> ExPostDP:
    """A guarantee as a bound of the loss that is the same at every outcome.

    Claim: (epsilon, delta)-DP is integrated (epsilon, delta), epsilon-DP is pure. Source: docs/proofs/ex_post.md,
    "Senses". Not probabilistic: a (1, 0.001)-DP step may have P(L > 1) = 0.1. ParameterError for anything else.

    >>> dpl.ex_post.constant(dpl.ApproxDP(1, "1e-6")).sense
    'integrated'
    """
    if isinstance(promise, PureDP):
        return ExPostDP(promise.epsilon, "pure")
    if not isinstance(promise, ApproxDP):
        raise ParameterError("promise", type(promise).__name__, "a PureDP or an ApproxDP")
    return ExPostDP(promise.epsilon, "integrated" if promise.delta else "pure", promise.delta)


def in_sense(promise: ExPostDP, sense: Sense) -> ExPostDP:
    """The same bound in another sense; CannotCertify where it does not follow, ParameterError for a sense that is none.

    Claim: the result holds wherever the promise does. Source: docs/proofs/ex_post.md, "Senses".

    >>> dpl.ex_post.in_sense(dpl.ex_post.ExPostDP(1, "probabilistic", "1e-6"), "integrated").sense
    'integrated'
    """
    _promised(promise)
    one_of(sense, ("pure", "integrated", "probabilistic"), field="sense")
    if promise.sense == sense or promise.sense == "pure" or not promise.delta or sense == "integrated":
        return replace(promise, sense=sense)
    if sense == "pure":
        raise CannotCertify(
            f"what may fail with delta {promise.delta} is not pure: some outcomes may lose without bound"
        )
    raise CannotCertify("integrated is not probabilistic at the same bound: only a larger one, see `with_slack`")


def with_slack(promise: ExPostDP, slack: Number) -> ExPostDP:
    """An integrated bound as a probabilistic one that is larger by `slack` (in epsilon, above 0), with
    delta/(1 - e^-slack).

    Claim: P(L > E + slack) <= result.delta. Source: docs/proofs/ex_post.md, "Senses". CannotCertify where that is 1 or
    more.

    >>> dpl.ex_post.with_slack(dpl.ex_post.ExPostDP(1, "integrated", "1e-6"), "0.1").delta
    Decimal('0.0000105083319448')
    """
    _promised(promise)
    more_of_it = read(slack, field="slack")
    if not more_of_it:
        raise ParameterError("slack", slack, "a number above 0")
    with localcontext(outward.context(more_of_it, promise.delta)):
        delta = outward.above(promise.delta / -outward.expm1(-more_of_it)) if promise.delta else ZERO
    if delta >= 1:
        raise CannotCertify(f"a slack of {more_of_it} leaves a delta of {delta}: nothing is said")
    more = _mapped(promise, lambda epsilon: add(epsilon, more_of_it))
    return replace(more, sense="probabilistic", delta=delta)


def post_processed(promise: ExPostDP) -> ExPostDP:
    """What holds of anything computed from the outcome: the cap; of probabilistic no more than integrated.

    Claim: for any randomised function of the outcome the result holds. Source: docs/proofs/ex_post.md, "Senses". The
    loss of a run does not stay: at what was computed the bound is the largest over all outcomes it may come from.

    >>> told = dpl.ex_post.ExPostDP(5, "pure", outcome=dpl.ex_post.ExPostOutcome("0.01"))
    >>> dpl.ex_post.post_processed(told).outcome is None
    True
    """
    _promised(promise)
    sense: Sense = "integrated" if promise.sense == "probabilistic" and promise.delta else promise.sense
    return ExPostDP(promise.epsilon, sense, promise.delta)


# ---- to a guarantee -------------------------------------------------------------------------------------------------


def _told(proof: str) -> str:
    if not proof.strip():
        raise ValueError("where it is proved: what was observed in runs proves no tail")
    return proof


@record
class ProvedTail:
    """P(E(o) > epsilon) <= probability, on every dataset, proved in `proof`: a frequency that was observed is none.

    `epsilon`: not negative. `probability`: in [0, 1).

    >>> tail = dpl.ex_post.ProvedTail(epsilon=3, probability="1e-7", proof="Lemma 2 of our note")
    >>> dpl.ex_post.guarantee_by_tail("1e-6", tail)
    ApproxDP(epsilon=Decimal('3'), delta=Decimal('0.0000011'), kind='approx_dp')
    """

    epsilon: Exact
    probability: Probability
    proof: Annotated[str, Field(strict=True), AfterValidator(_told)]


def guarantee(promise: ExPostDP) -> ApproxDP:
    """(cap, delta)-DP: all that a bound with a cap guarantees beforehand, whatever a run of it lost.

    Claim: the mechanism is result-DP. Source: docs/proofs/ex_post.md, "Senses".

    >>> dpl.ex_post.guarantee(dpl.ex_post.ExPostDP(5, "pure", outcome=dpl.ex_post.ExPostOutcome("0.01"))).epsilon
    Decimal('5')
    """
    _promised(promise)
    return ApproxDP(promise.epsilon, promise.delta)


def guarantee_by_tail(delta: Number, tail: ProvedTail | None) -> ApproxDP:
    """(tail.epsilon, delta + tail.probability)-DP, of a bound without a cap in any sense of this delta, in [0, 1).

    Claim: the mechanism is result-DP. Source: docs/proofs/ex_post.md, "Senses". UnboundedLoss without a proved tail,
    CannotCertify where the deltas come to 1.

    >>> dpl.ex_post.guarantee_by_tail("1e-6", None)
    Traceback (most recent call last):
    ...
    dpledger.errors.UnboundedLoss: a bound without a cap guarantees nothing beforehand: prove its tail, or truncate it
    """
    failing = read(delta, field="delta")
    if not failing < 1:
        raise ParameterError("delta", failing, "a number in [0, 1)")
    if tail is None:
        raise UnboundedLoss("a bound without a cap guarantees nothing beforehand: prove its tail, or truncate it")
    if not isinstance(tail, ProvedTail):
        raise ParameterError("tail", type(tail).__name__, "a ProvedTail, or None")
    failed = add(failing, tail.probability)
    if failed >= 1:
        raise CannotCertify(f"the deltas come to {failed}: nothing is said")
    return ApproxDP(tail.epsilon, failed)


# ---- groups, samples, many at once ----------------------------------------------------------------------------------


def group(promise: ExPostDP, k: int) -> ExPostDP:
    """The bound for k units together, 1 to 10^6: k E, with delta times the sum of e^(j cap), j < k.

    Claim: the result holds for datasets k steps apart. Source: docs/proofs/ex_post.md, "Senses": of the cap, not of the
    loss of a run. CannotCertify where the delta comes to 1.

    >>> dpl.ex_post.group(dpl.ex_post.ExPostDP(1, "integrated", "1e-6"), 3).delta
    Decimal('0.0000111073379275')
    """
    _promised(promise)
    units = whole(k, field="k", least=1, most=MOST_UNITS)
    delta = prices.group_delta(promise.epsilon, promise.delta, units)
    if delta is None:
        raise CannotCertify(f"a group of {units} has a delta of 1 or more")
    held = _read_integrated(promise) if units > 1 else promise
    return replace(_mapped(held, lambda epsilon: multiply(epsilon, units)), delta=delta)


def poisson_sampled(promise: ExPostDP, rate: Number, relation: Relation | str) -> ExPostDP:
    """The bound on a secret Poisson sample: log(1 + rate (e^E - 1)) at the same outcome, with rate times the delta.
    `rate`: the probability in (0, 1] with which a unit is in it.

    Claim: the result holds under add_remove. Source: docs/proofs/ex_post.md, "Samples". CannotCertify under another
    relation. A reading: no filter gives an outcome back under a sample.

    >>> dpl.ex_post.poisson_sampled(dpl.ex_post.ExPostDP(1, "pure"), "0.1", "add_remove").epsilon
    Decimal('0.158565078741')
    """
    _promised(promise)
    chance = read(rate, field="rate")
    if not 0 < chance <= 1:
        raise ParameterError("rate", chance, "a probability above 0")
    neighbours = Relation.read(relation)
    if neighbours is not Relation.ADD_REMOVE:
        raise CannotCertify(f"a Poisson sample amplifies under add_remove only, not under {neighbours.value}")
    amplified = _mapped(_read_integrated(promise), lambda epsilon: prices.amplified_epsilon(epsilon, chance))
    return replace(amplified, delta=min(promise.delta, round_up(multiply(promise.delta, chance))))


def sampled_without_replacement(promise: ExPostDP, population: int, batch: int, relation: Relation | str) -> ExPostDP:
    """The bound on `batch` of `population` units, q = batch/population: as a Poisson sample's, with q (2 - q) delta.

    Claim: the result holds under replace_one. Source: docs/proofs/ex_post.md, "Samples": q delta is enough for a bound
    that is one number, not for one that depends on the outcome. CannotCertify under another relation.

    >>> dpl.ex_post.sampled_without_replacement(dpl.ex_post.ExPostDP(1, "pure"), 1000, 100, "replace_one").epsilon
    Decimal('0.158565078741')
    """
    _promised(promise)
    everybody = whole(population, field="population", least=1, most=MOST_POPULATION)
    drawn = whole(batch, field="batch", least=1, most=everybody)
    neighbours = Relation.read(relation)
    if neighbours is not Relation.REPLACE_ONE:
        raise CannotCertify(
            f"a sample without replacement amplifies under replace_one only, not under {neighbours.value}"
        )
    q = Fraction(drawn, everybody)
    rate, failing = min(Decimal(1), round_up(q)), round_up(q * (2 - q) * Fraction(promise.delta))
    amplified = _mapped(_read_integrated(promise), lambda epsilon: prices.amplified_epsilon(epsilon, rate))
    return replace(amplified, delta=min(promise.delta, failing))


def concurrent(promises: Sequence[ExPostDP]) -> ExPostDP:
    """Mechanisms one after another or interleaved: the bounds add up along every path, and so do the deltas.

    Claim: if each bound holds against every adaptive analyst, and the deltas of what is run are within result.delta on
    every path, the whole transcript is bounded in the result's sense. Source: docs/proofs/ex_post.md, "Sums". It has an
    outcome once every one of them has; what that adds up to is a reading, never a guarantee. Of none: ExPostDP(0,
    "pure"). CannotCertify where the deltas come to 1.

    >>> dpl.ex_post.concurrent([dpl.ex_post.ExPostDP(1, "pure"), dpl.ex_post.ExPostDP(2, "integrated", "1e-6")]).sense
    'integrated'
    """
    all_of_them = [_promised(one, "promises") for one in listed(promises, field="promises")]
    if not all_of_them:
        return ExPostDP(ZERO, "pure")
    delta = total(one.delta for one in all_of_them)
    if delta >= 1:
        raise CannotCertify(f"the deltas come to {delta}: nothing is said")
    senses = {one.sense for one in all_of_them if one.delta}
    sense: Sense = "pure" if not senses else "integrated" if "integrated" in senses else "probabilistic"
    lost = [one.outcome.epsilon for one in all_of_them if one.outcome is not None]
    outcome = ExPostOutcome(total(lost)) if len(lost) == len(all_of_them) else None
    return ExPostDP(total(one.epsilon for one in all_of_them), sense, delta, outcome)


def _read_integrated(promise: ExPostDP) -> ExPostDP:
    """The promise in the sense that mixing outcomes leaves it, its outcome kept."""
    return replace(promise, sense=post_processed(promise).sense)


def _mapped(promise: ExPostDP, rising: Callable[[Decimal], Decimal]) -> ExPostDP:
    """The promise with its cap, and its loss where one is known, under a function that rises."""
    outcome = None if promise.outcome is None else ExPostOutcome(rising(promise.outcome.epsilon))
    return replace(promise, epsilon=rising(promise.epsilon), outcome=outcome)
