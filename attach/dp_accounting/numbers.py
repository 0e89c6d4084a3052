"""Numbers of events in the units of trees, and back: reciprocals, a response's epsilon, the mean of a number of trials.

An event holds floats, a tree exact decimals. A float is read as its shortest decimal. What has no finite decimal is
rounded to 25 digits, to the side that costs more: enough that the float it came from is the nearest one to what comes
back.

>>> more(inverse, Decimal("3")), less(inverse, Decimal("3"))
(Decimal('0.3333333333333333333333334'), Decimal('0.3333333333333333333333333'))
>>> nearest(0.25, lambda x: x >= Decimal("0.2500000000000001"), towards=1)
0.2500000000000001
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import in_own_context, read, round_down, round_up, subtract

__all__ = [
    "gamma_at_mean",
    "inverse",
    "less",
    "mean_of_trials",
    "more",
    "nearest",
    "response_epsilon",
    "response_parameter",
]

ONE = Decimal(1)
DIGITS = 25
HALVINGS = 100  # of an interval of ratio 2, to a width far below DIGITS
EDGE = Decimal("1e-35")  # relative; above what is lost in `outward.context`, far below DIGITS


def more(formula: Callable[..., Fraction | Decimal], *given: Decimal | int) -> Decimal:
    """At least the value of `formula`, to 25 digits."""
    found = formula(*given)
    with localcontext(outward.context()):
        return round_up(found * (1 + EDGE) if isinstance(found, Decimal) else found, digits=DIGITS)


def less(formula: Callable[..., Fraction | Decimal], *given: Decimal | int) -> Decimal:
    """At most the value of `formula`, to 25 digits."""
    found = formula(*given)
    with localcontext(outward.context()):
        return round_down(found * (1 - EDGE) if isinstance(found, Decimal) else found, digits=DIGITS)


def nearest(value: Fraction | Decimal | float, is_enough: Callable[[Decimal], bool], *, towards: float) -> float:
    """The float nearest to `value` of which, as it will be read, `is_enough`; else the next one `towards` that side."""
    found = float(value)
    while not is_enough(read(found, field="an event's number")):
        found = math.nextafter(found, towards)
    return found


def inverse(x: Decimal) -> Fraction:
    """1/x."""
    return 1 / Fraction(x)


def response_epsilon(parameter: Decimal, buckets: int) -> Decimal:
    """log(1 + k (1 - p)/p): of a response that is the true one of k with probability 1 - p + p/k, another with p/k."""
    with localcontext(outward.context(parameter, subtract(ONE, parameter))):
        return outward.ln1p(buckets * (1 - parameter) / parameter)


def response_parameter(epsilon: Decimal, buckets: int) -> Decimal:
    """k/(e^epsilon + k - 1): the parameter p of which `response_epsilon` is this."""
    with localcontext(outward.context(epsilon)):
        return buckets / (outward.exp(epsilon) + buckets - 1)


def mean_of_trials(shape: Decimal, gamma: Decimal) -> Decimal:
    """The mean of a truncated negative binomial number, gamma in (0, 1).

    Source: Papernot-Steinke 2022, Definition 1."""
    with localcontext(outward.context(shape, gamma, subtract(ONE, gamma))):
        return _mean(shape, gamma)


@in_own_context
def _mean(shape: Decimal, gamma: Decimal) -> Decimal:
    log = outward.ln(gamma)
    return (1 - 1 / gamma) / log if not shape else shape * (1 - gamma) / (-gamma * outward.expm1(shape * log))


def gamma_at_mean(shape: Decimal, mean: Decimal) -> Fraction | Decimal:
    """The gamma at which the mean of a number of this shape is `mean`, above 1: the mean falls as gamma rises.

    Claim: at `less` of it the mean is no smaller than asked for, so that a selection costs no less. Source:
    Papernot-Steinke 2022, Theorem 2, whose bound falls in gamma; bisection."""
    if shape == 1:
        return inverse(mean)
    with localcontext(outward.context(shape, mean, subtract(mean, ONE))):
        low, high = Decimal("0.5"), Decimal(1)
        while _mean(shape, low) < mean:
            low, high = low / 2, low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _mean(shape, middle) >= mean else (low, middle)
        return low
