"""Sample sizes of learning a parity in private, where some parity fits all examples.

>>> parity_plan(20, "0.1", "0.05", epsilon=1, relation=Relation.REPLACE_ONE).needed
564
>>> parity_plan(20, "0.1", "0.05", epsilon=1, relation=Relation.REPLACE_ONE, mode="first_success").needed
959
"""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never, get_args

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.certificates.parity import first_of_runs, greatest_rate, one_run, until_success
from dpledger.decimals import Number, multiply, read, round_down, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.theory.concepts import MOST_BITS
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, ceiling, largest_of
from dpledger.mechanisms.plan import open_unit
from dpledger.relations import Relation

__all__ = ["RepetitionMode", "parity_plan", "parity_size", "stays_failed"]

RepetitionMode: TypeAlias = Literal["basic", "first_success", "until_success"]

HALF = Decimal("0.5")
MODES = get_args(RepetitionMode)


def parity_size(dimension: int, rate: Number, failed: Number, alpha: Number, beta: Number) -> SampleSize:
    """Examples with which a parity learned at this sampling rate errs on at most alpha, but with probability beta,
    `failed` of which is that there is no answer.

    Claim: (d ln 2 + ln(1/(beta - failed))) / -ln(1 - p alpha). Source: docs/proofs/learning_parity.md, section 5.
    InfeasiblePlan where no answer comes more often than beta."""
    bits = whole(dimension, field="dimension", least=1, most=MOST_BITS)
    kept, none = open_unit(rate, "rate"), read(failed, field="failed")
    target, risk = open_unit(alpha, "alpha"), open_unit(beta, "beta")
    if none >= risk:
        raise InfeasiblePlan(f"FAIL comes with probability {none:.4g}, more often than beta, {risk}: repeat more")
    with localcontext(outward.context(kept, target, risk)):
        left = risk - none
        needed = ceiling((bits * outward.ln(Decimal(2)) - outward.ln(left)) / -outward.ln1p(-kept * target))
    return largest_of(
        (("wrong parities", needed),),
        status="proved",
        target=f"an error of at most {target} where a parity fits, but with probability {risk}",
        bound="parity of a random part",
        inside=(("sampling rate", kept), ("failed", none)),
    )


def stays_failed(
    fail: Decimal, *, runs: int | None = None, stop: Decimal | None = None, most: int | None = None
) -> Decimal:
    """With what probability FAIL is the answer where a parity fits all examples, from above. `runs` at most, or
    a coin that stops them, after `most` at the latest.

    Claim: phi^k; gamma phi/(1 - (1-gamma) phi), and ((1-gamma) phi)^J more where J runs are the most."""
    with localcontext(outward.context(fail, stop or HALF)):
        if stop is None:
            return outward.above(outward.exp((runs or 1) * outward.ln(fail)))
        again = (1 - stop) * fail
        late = Decimal(0) if most is None else outward.exp(most * outward.ln(again))
        return outward.above(stop * fail / (1 - again) + late)


def parity_plan(
    dimension: int,
    alpha: Number,
    beta: Number,
    *,
    epsilon: Number,
    relation: Relation,
    mode: RepetitionMode = "until_success",
) -> SampleSize:
    """Examples, and how often to repeat, for an error of at most alpha but with probability beta: half of it for wrong
    parities, half for no answer, at a fail probability of 1/2.

    Claim: as `parity_size`; k = ceil(log2(2/beta)) runs, or stops with probability gamma, gamma/(1+gamma) = beta/2.

    >>> dpl.planning.parity_plan(20, "0.1", "0.05", epsilon=1, relation=dpl.Relation.REPLACE_ONE).needed
    564
    """
    budget, risk, under = read(epsilon, field="epsilon"), open_unit(beta, "beta"), Relation.read(relation)
    if not isinstance(mode, str) or mode not in MODES:
        raise ParameterError("mode", mode, "one of " + ", ".join(MODES))
    if not budget > 0:
        raise ParameterError("epsilon", epsilon, "a number above 0")
    half = multiply(risk, HALF)
    runs = (math.ceil(1 / Fraction(half)) - 1).bit_length()

    def price(rate: Decimal) -> Decimal:
        match mode:
            case "basic":
                return multiply(one_run(rate, HALF, under), runs)
            case "first_success":
                return first_of_runs(rate, HALF, runs, under)
            case "until_success":
                return until_success(rate, HALF, under)
            case _:
                assert_never(mode)

    rate = greatest_rate(budget, price)
    with localcontext(outward.context(half)):
        stop = round_down(half / (1 - half))
    size = parity_size(dimension, rate, half, alpha, risk)
    how = ("stop probability", stop) if mode == "until_success" else ("runs", Decimal(runs))
    bound = f"{size.bound}, {mode.replace('_', ' ')}"
    return dataclasses.replace(size, bound=bound, inside=(("sampling rate", rate), how))
