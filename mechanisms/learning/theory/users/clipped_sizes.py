"""How many users are enough for a choice by clipped comparisons of pairs, and where to clip.

>>> plan = clipped_pairwise_plan(1025, 100, "0.1", "0.1", epsilon=1, relation=Relation.REPLACE_ONE)
>>> plan.needed, dict(plan.inside)["clip"]
(250, Decimal('29'))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.arithmetic import scalars
from dpledger.decimals import Number, text, whole
from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, natural_log, users_of_examples
from dpledger.mechanisms.learning.theory.sizes import class_size
from dpledger.mechanisms.noise import exponent_for
from dpledger.mechanisms.plan import above_0, open_unit
from dpledger.relations import Relation

__all__ = ["MOST_EXAMPLES", "clipped_pairwise_plan", "clipped_size", "moved_by_a_user"]

MOST_EXAMPLES = 2**40
TENTHS = range(3, 61)  # of sqrt(m): how far the clip is above the drift
STEPS = 200  # of the drift that is searched where the clip is given
SLACK = 1 + 1e-8  # of doubles: functions within a few units, and differences that lose at most half of their digits
LEAST_SHARE = 1e-6  # of the drift: what clipping must leave


@dataclass(frozen=True, slots=True)
class _Argument:
    """What the proof chooses. `drift`: how far apart two concepts are, for one user; `gained`: of it, what clipping
    leaves; `rate`: of the exponential moment. `sampled`: the users that were enough without privacy."""

    users: float
    sampled: float
    clip: int
    drift: float
    gained: float
    rate: float


def moved_by_a_user(clip: int, examples: int, relation: Relation | None) -> int:
    """How far one user moves a score at most: clip, of as many examples; twice where he may change his mind.

    Claim: for neighbours of the relation. Source: docs/proofs/learning_clipped.md, section 1."""
    once = min(clip, examples)
    match relation:
        case Relation.ADD_REMOVE | Relation.ZERO_OUT:
            return once
        case Relation.REPLACE_ONE | Relation.LABEL_FLIP | None:
            return 2 * once
        case _:
            assert_never(relation)


def clipped_pairwise_plan(
    size: int, examples: int, alpha: Number, beta: Number, *, epsilon: Number, relation: Relation
) -> SampleSize:
    """Users with `examples` each, and the clip, for an error of at most alpha above the best of a class of that size,
    but with probability beta, on any data.

    Claim: n >= (2 ln|C| + ln(1/beta))/(l g - 2 l^2 v), with l = min(exponent, g/(4v)), v = min(clip^2, m) and g what
    clipping leaves of a drift of at most m alpha. Source: docs/proofs/learning_clipped.md, section 2.

    >>> plan = dpl.planning.clipped_pairwise_plan(1025, 100, "0.1", "0.1", epsilon=1, relation=dpl.Relation.REPLACE_ONE)
    >>> plan.needed
    250
    """
    many, m, under = class_size(size), _examples(examples), Relation.read(relation)
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    loss = above_0(epsilon, "epsilon")
    spread = math.sqrt(m)
    found = []
    for tenths in TENTHS:
        above = tenths / 10 * spread
        for drift in {min(float(m * Fraction(target)), most) for most in (math.inf, above / 2, above)}:
            clip = min(m, math.ceil(drift + above))
            exponent = exponent_for(loss, sensitivity=moved_by_a_user(clip, m, under))
            found.append(_argument(many, m, clip, drift, float(exponent), float(risk)))
    return _told(min(found, key=lambda one: one.users), m, target, risk)


def clipped_size(size: int, examples: int, clip: int, exponent: Number, alpha: Number, beta: Number) -> SampleSize:
    """Users that are enough with a clip and an exponent that are given.

    Claim: as `clipped_pairwise_plan`. InfeasiblePlan where clipping leaves nothing of what tells concepts apart."""
    many, m = class_size(size), _examples(examples)
    target, risk, rate = open_unit(alpha, "alpha"), open_unit(beta, "beta"), above_0(exponent, "exponent")
    cut = min(whole(clip, field="clip", least=1), m)
    most = min(float(m * Fraction(target)), float(cut))
    found = [_argument(many, m, cut, most * step / STEPS, float(rate), float(risk)) for step in range(1, STEPS + 1)]
    best = min(found, key=lambda one: one.users)
    if best.users == math.inf:
        raise InfeasiblePlan(f"a clip of {cut} leaves nothing of a difference of {most:.4g} mistakes: clip later")
    return _told(best, m, target, risk)


def _argument(size: int, m: int, clip: int, drift: float, exponent: float, beta: float) -> _Argument:
    gained = drift if clip >= m else drift - _beyond(clip - drift, m) - _beyond(clip, m)
    if gained <= LEAST_SHARE * drift or not exponent:
        return _Argument(math.inf, math.inf, clip, drift, gained, 0.0)
    spread = float(min(clip * clip, m))
    rate = min(exponent, gained / (4 * spread))
    asked = 2 * float(natural_log(size)) - scalars.log(beta)
    users = asked / (rate * gained - 2 * rate * rate * spread)
    return _Argument(users, asked * 8 * spread / gained**2, clip, drift, gained, rate)


def _beyond(clip: float, m: int) -> float:
    """The mean of what a sub-Gaussian sum with the proxy m has beyond the clip, from above: the integral of
    e^(-s^2/(2m)) from there on."""
    return math.sqrt(math.pi * m / 2) * scalars.erfc(clip / math.sqrt(2 * m)) * SLACK


def _told(best: _Argument, m: int, target: Decimal, risk: Decimal) -> SampleSize:
    if best.users > 10**18:
        raise InfeasiblePlan("more than 10^18 users would be needed")
    needed = math.ceil(best.users * SLACK)
    return SampleSize(
        needed=needed,
        chosen=needed,
        terms=(("sampling", min(needed, math.ceil(best.sampled * SLACK))), ("privacy", needed)),
        status="proved",
        target=f"an error of at most {text(target)} above the best of the class, but with probability {text(risk)}",
        bound="clipped comparisons of pairs",
        units=users_of_examples(m),
        inside=(
            ("clip", Decimal(best.clip)),
            ("drift", _short(best.drift)),
            ("left by clipping", _short(best.gained)),
            ("exponent of a preference that is counted on", _short(best.rate)),
        ),
    )


def _short(number: float) -> Decimal:
    return Decimal(f"{number:.6g}")


def _examples(examples: int) -> int:
    return whole(examples, field="examples", least=1, most=MOST_EXAMPLES)
