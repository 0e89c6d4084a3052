"""Epsilon in odds: what a guarantee lets somebody learn about one unit, in sentences that people get right.

Numbers come from a certified `Profile`, or from (epsilon, delta) alone as the worst case, and are rounded up. Odds
were the best understood of the explanations compared by Nanayakkara, Smart, Cummings, Kaptchuk and Redmiles, "What are
the chances? Explaining the epsilon parameter in differential privacy", USENIX Security 2023.

>>> at_one = worst_case(Decimal(1), Decimal(0))
>>> words.percent(at_one.guess), words.percent(at_one.suspicion)
('73.2 %', '2.68 %')
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import assert_never

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.profile import Profile, compose
from dpledger.decimals import ZERO
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from dpledger.reports import words

__all__ = [
    "LARGEST",
    "PRECISION",
    "RATES",
    "Odds",
    "missed_at_least",
    "odds",
    "promised",
    "question",
    "sentences",
    "worst_case",
]

SUSPICION = Decimal("0.01")  # a suspicion of 1 %, before anything is released
RATES = (Decimal("0.01"), Decimal("0.001"))  # false-positive rates at which the test's power is told
EXCEPTION = 1000  # the sentence about suspicion fails with probability this many times delta
ONE = Decimal(1)
HALF = Decimal("0.5")
PRECISION = 40  # digits of an exponential; its error is far below the 12 digits that are kept
ULP = Decimal("1e-35")  # relative; more than PRECISION loses
LARGEST = Decimal(2302)  # an exponent beyond which e^epsilon is 10^1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """Upper bounds, each a probability. `guess`: of a right guess after a coin flip. `suspicion`: what a suspicion of
    1 % becomes, except with probability `exception`; None where nothing can be said. `power`: the true-positive rate at
    each of RATES."""

    advantage: Decimal
    guess: Decimal
    suspicion: Decimal | None
    exception: Decimal
    power: tuple[Decimal, ...]


def odds(profile: Profile, delta: Decimal) -> Odds:
    """What the mechanism of `profile` lets somebody learn, from its real trade-off curve.

    Claim: each number is at least what the best attack reaches; the one about a suspicion except with probability
    `exception`. Source: guess and advantage: Kairouz-Oh-Viswanath 2015, section 2.1 (total variation); power:
    Dong-Roth-Su 2022, section 2.1 (the trade-off curve); suspicion: `_suspicion`.
    """
    advantage = _probability(decimals.round_up(profile.advantage().upper))
    return _odds(
        advantage=advantage,
        epsilon=decimals.round_up(profile.epsilon(delta).upper),
        delta=delta,
        missed=tuple(decimals.round_down(bounds.lower) for bounds in profile.tradeoffs(RATES)),
        pure=_pure(profile),
    )


def _pure(profile: Profile) -> Decimal:
    """The epsilon of the mechanism without any delta; infinite where it has none, or none is certified."""
    try:
        return decimals.round_up(profile.epsilon(ZERO).upper)
    except CannotCertify:
        return decimals.INFINITY


@lru_cache(maxsize=512)
def promised(guarantee: Guarantee | None, relation: Relation, epsilon: Decimal, delta: Decimal) -> Odds:
    """What a promise that is read as (epsilon, delta) lets somebody learn: where it says more than these two, as a mu
    or a rho does, by its own trade-off curve.

    Claim: as `odds`. Source: `odds`, `worst_case`; both hold, so each number is the smaller one.
    """
    read = worst_case(epsilon, delta)
    if guarantee is None or guarantee.is_point:
        return read
    try:
        real = odds(compose(guarantee, relation=relation), delta)
    except CannotCertify:
        return read
    return Odds(
        advantage=min(real.advantage, read.advantage),
        guess=min(real.guess, read.guess),
        suspicion=read.suspicion,
        exception=read.exception,
        power=tuple(map(min, real.power, read.power)),
    )


def worst_case(epsilon: Decimal, delta: Decimal) -> Odds:
    """What (epsilon, delta)-DP, and nothing more, lets somebody learn: some mechanism reaches each number.

    Claim: as `odds`. Source: Kairouz-Oh-Viswanath 2015, Theorem 2.1: the advantage is
    (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), the trade-off curve `missed_at_least`.
    """
    with localcontext(decimals.own_context(PRECISION)):
        raised = _exponential(epsilon)
        advantage = (raised - ONE + 2 * delta) / (raised + ONE) * (ONE + ULP)
    return _odds(
        advantage=_probability(decimals.round_up(advantage)),
        epsilon=epsilon,
        delta=delta,
        missed=tuple(missed_at_least(epsilon, delta, rate) for rate in RATES),
    )


def missed_at_least(epsilon: Decimal, delta: Decimal, alpha: Decimal) -> Decimal:
    """The least false-negative rate at false-positive rate `alpha` under (epsilon, delta)-DP, rounded down.

    Claim: max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)). Source: Wasserman-Zhou 2010, Theorem
    2.4; Kairouz-Oh-Viswanath 2015, section 2.1.
    """
    with localcontext(decimals.own_context(PRECISION)):
        raised, rest = _exponential(epsilon), ONE - delta
        return decimals.round_down(max(ZERO, rest - raised * alpha, (rest - alpha) / raised * (ONE - ULP)))


@decimals.in_own_context
def _exponential(epsilon: Decimal) -> Decimal:
    """e^epsilon, rounded up; above 10^1000 that stands for it (every odds is 1 by then)."""
    return min(epsilon, LARGEST).exp() * (ONE + ULP)


def _odds(
    *,
    advantage: Decimal,
    epsilon: Decimal,
    delta: Decimal,
    missed: tuple[Decimal, ...],
    pure: Decimal = decimals.INFINITY,
) -> Odds:
    """`pure`: an epsilon that holds without any delta. Where it says as much, nothing is excepted."""
    exception = decimals.multiply(delta, EXCEPTION)
    suspicion = None if epsilon.is_infinite() or exception >= 1 else _suspicion(epsilon, delta)
    if pure.is_finite():
        certain = _suspicion(pure, ZERO)
        if suspicion is None or certain <= suspicion:
            suspicion, exception = certain, ZERO
    return Odds(
        advantage=advantage,
        guess=_probability(decimals.round_up(decimals.multiply(decimals.add(ONE, advantage), HALF))),
        suspicion=suspicion,
        exception=exception,
        power=tuple(_probability(decimals.round_up(decimals.subtract(ONE, share))) for share in missed),
    )


def _suspicion(epsilon: Decimal, delta: Decimal) -> Decimal:
    """What a suspicion of 1 % becomes at most, but for an event of probability p = EXCEPTION * delta.

    Claim: p' e^e' / (1 - p' + p' e^e') with p' = 1 % and e' = epsilon - log(1 - delta/p). Source: Bayes' rule; the set
    where the likelihood ratio exceeds e^e' has probability at most delta / (1 - e^(epsilon - e')) = p
    (Kasiviswanathan-Smith 2014, Lemma 3.3, with this constant).
    """
    with localcontext(decimals.own_context(PRECISION)):
        ratio = _exponential(epsilon)
        if delta:
            ratio = ratio * EXCEPTION / (EXCEPTION - 1) * (ONE + ULP)
        return _probability(decimals.round_up(SUSPICION * ratio / (ONE - SUSPICION + SUSPICION * ratio) * (ONE + ULP)))


def _probability(value: Decimal) -> Decimal:
    return min(value, ONE)


def sentences(found: Odds, relation: Relation, unit: str, scope: str) -> tuple[str, ...]:
    """The odds in words. `scope`: what was released, as in "everything that this scope may ever release"."""
    lines = [
        f"If someone guesses by coin flip {question(relation, unit)}, they are right at most "
        f"{words.percent(found.guess)} of the time after seeing {scope}. Without it they are right 50 % of the time.",
        _suspicion_sentence(found),
        f"Advantage over guessing: at most {words.at_most(found.advantage, 3)} on a scale from 0 (nothing is "
        "learnt) to 1 (everything is).",
    ]
    lines += [
        f"A test that accuses wrongly in {words.percent(rate)} of cases finds at most {words.percent(power)} of "
        "those whom it looks for."
        for rate, power in zip(RATES, found.power, strict=True)
    ]
    return tuple(lines)


def _suspicion_sentence(found: Odds) -> str:
    if found.suspicion is None:
        return "No limit can be stated on what a 1 % suspicion becomes: delta is too large for such a sentence."
    sentence = f"A suspicion of 1 % becomes at most {words.percent(found.suspicion)}"
    if found.exception == ZERO:
        return sentence + "."
    return sentence + f", except with probability {words.at_most(found.exception)} (1000 δ)."


def question(relation: Relation, unit: str) -> str:
    """What is guessed about one unit, by what neighbours differ in."""
    match relation:
        case Relation.ADD_REMOVE:
            return f"whether one particular {unit} is in the data"
        case Relation.REPLACE_ONE:
            return f"which of two versions of one particular {unit}'s data was used"
        case Relation.ZERO_OUT:
            return f"whether one particular {unit}'s data was used or left blank"
        case Relation.LABEL_FLIP:
            return f"which of two labels one particular {unit} has"
        case _:
            assert_never(relation)
