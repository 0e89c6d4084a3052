"""Transcendental functions of exact decimals, wide enough that one outward margin covers every rounding inside.

The standard library's decimal exponential and logarithm are correctly rounded, in the context that is current: whoever
calls them has set one with `localcontext(context(...))`. A formula evaluated in `context(x, ...)` keeps at least forty
digits after all the cancellation that arguments of those sizes can cause, and `above` then adds a relative margin of
1e-12 and rounds up: the margin also lets a verifier recompute a stored price in double precision.

>>> with localcontext(context()):
...     above(exp(Decimal(1))), below(exp(Decimal(1)))
(Decimal('2.71828182847'), Decimal('2.71828182845'))
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext

from dpledger.decimals import ZERO, in_own_context, negative, own_context, round_down, round_up

__all__ = [
    "above",
    "below",
    "context",
    "exp",
    "expm1",
    "ln",
    "ln1p",
    "ln_factorial",
    "normal_tail",
    "tail_quantile",
    "tanh",
]

ONE = Decimal(1)
MARGIN = Decimal("1e-12")  # relative; above every rounding error in `context`, below anything that a budget notices
DIGITS = 60  # kept beyond what cancels
LN_2_PI = Decimal(  # log(2 pi), to 160 digits
    "1.83787706640934548356065947281123527972279494727556682563430308096553139185452079"
    "5389486597271908395244011293249268674892733725763681587144311751830445362787207"
)
FAR_TAIL = 207  # the logarithm of 1e90: below e^-207 the Gaussian tail is inverted through its Mills bound
QUANTILE_DIGITS = 140
FRACTION_DEPTH = 250  # of the continued fraction: at x = 5 its convergents agree to 40 digits
IN_PLACE_OF_UNDERFLOW = Decimal("1e-999999999")  # in place of an underflow: tiny, and above what underflows
ROUNDING = Decimal("1e-100")  # far above what QUANTILE_DIGITS lose
STIRLING = ((1, 12, 1), (-1, 360, 3), (1, 1260, 5), (-1, 1680, 7), (1, 1188, 9), (-691, 360360, 11))
"""Stirling's series B_2k/(2k(2k-1)) n^(1-2k): (numerator, denominator, 2k-1); the error is below the next term."""


def context(*arguments: Decimal, digits: int = DIGITS) -> Context:
    """A context in which a formula of `arguments` keeps its digits: a difference of two functions of x near 0 loses at
    most a few times the leading zeros of x."""
    lost = sum(abs(x.adjusted()) for x in arguments if x)
    return own_context(digits + 4 * lost)


def above(value: Decimal) -> Decimal:
    """An upper bound that is kept: 12 significant digits, with the outward margin.

    Claim: above(x) >= x (1 + 1e-12) for x >= 0, and >= x for every x.
    """
    with localcontext(context()):
        return round_up(value + abs(value) * MARGIN)


def below(value: Decimal) -> Decimal:
    """A lower bound that is kept. Claim: below(x) <= x (1 - 1e-12) for x >= 0, and <= x for every x."""
    with localcontext(context()):
        return round_down(value - abs(value) * MARGIN)


@in_own_context
def exp(x: Decimal) -> Decimal:
    """e^x; never 0: what is below every decimal becomes 1e-999999999, which is too large. Upper bounds alone may rest
    on it."""
    return x.exp() or IN_PLACE_OF_UNDERFLOW


@in_own_context
def expm1(x: Decimal) -> Decimal:
    """e^x - 1; the context must hold the digits that cancel for small x."""
    return x.exp() - 1


@in_own_context
def ln(x: Decimal) -> Decimal:
    """The natural logarithm of x > 0."""
    return x.ln()


@in_own_context
def ln1p(x: Decimal) -> Decimal:
    """log(1 + x); the context must hold the digits that cancel for small x."""
    return (1 + x).ln()


@in_own_context
def ln_factorial(n: int) -> Decimal:
    """log n!, with an absolute error below 1e-28: exact below 100, then Stirling's series to n^-11."""
    if n < 100:
        return ln(Decimal(math.factorial(n)))
    x = Decimal(n)
    series = sum((Decimal(a) / b / x**k for a, b, k in STIRLING), start=ZERO)
    return x * ln(x) - x + (ln(x) + LN_2_PI) / 2 + series


@in_own_context
def tanh(x: Decimal) -> Decimal:
    """The hyperbolic tangent of x >= 0."""
    u = exp(-2 * x)
    return (1 - u) / (1 + u)


@in_own_context
def tail_quantile(log_inverse: Decimal) -> Decimal:
    """The x with P(N(0,1) > x) = e^-log_inverse, from above, for log_inverse >= log 2. The logarithm and not the
    probability, which may be less than any decimal; the context must hold the digits that cancel near log 2.

    Claim: P(N(0,1) > result) <= e^-log_inverse.
    Source: for probabilities above 1e-90 the positive series Phi(x) - 1/2 = phi(x) (x + x^3/3 + x^5/15 + ...), cut (so
    the tail is over-estimated); beyond, the Mills bound P(N(0,1) > x) <= phi(x)/x.
    """
    if log_inverse > FAR_TAIL:
        return _far_quantile(log_inverse)
    p = exp(-log_inverse)
    with localcontext(own_context(QUANTILE_DIGITS)):
        half_mass = Decimal("0.5") - p
        x = _start(log_inverse, half_mass)
        for _ in range(60):
            step = (_half_mass(x) - half_mass) / _density(x)
            x -= step
            if abs(step) <= abs(x) * Decimal("1e-30"):
                break
        x *= 1 + MARGIN / 10
        if not half_mass <= _half_mass(x):  # cannot occur: Newton's last step was far below the margin
            raise ArithmeticError("the Gaussian quantile did not converge")
        return x


def normal_tail(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds (lower, upper) of P(N(0,1) > x), to at least thirty digits.

    Claim: lower <= P <= upper. Source: below 5 the series of `tail_quantile`; above, two neighbouring convergents of
    Laplace's continued fraction phi(x) / (x + 1/(x + 2/(x + 3/...))), which lie on either side (Feller 1968, VII.1).
    """
    if x < 0:
        lower, upper = normal_tail(negative(x))
        with localcontext(own_context(QUANTILE_DIGITS)):
            return 1 - upper, 1 - lower
    with localcontext(own_context(QUANTILE_DIGITS)):
        if x < 5:
            tail = Decimal("0.5") - _half_mass(x)
            return tail - ROUNDING, tail + ROUNDING
        density = _density(x)
        one, other = (density / _fraction(x, depth) for depth in (FRACTION_DEPTH, FRACTION_DEPTH + 1))
        upper = max(one, other) * (1 + ROUNDING)
        return (min(one, other) * (1 - ROUNDING) if density > IN_PLACE_OF_UNDERFLOW else ZERO), upper


@in_own_context
def _fraction(x: Decimal, depth: int) -> Decimal:
    """x + 1/(x + 2/(x + ... depth/x))."""
    value = x
    for k in range(depth, 0, -1):
        value = x + k / value
    return value


@in_own_context
def _start(log_inverse: Decimal, half_mass: Decimal) -> Decimal:
    """A first guess on the side from which Newton's method converges: Phi is concave above 0, so from below."""
    linear = half_mass * (LN_2_PI / 2).exp()  # exact as half_mass -> 0, and below the quantile: the density falls
    far = 2 * log_inverse
    return linear if far < 9 else max(linear, (far - LN_2_PI - far.ln()).sqrt())


@in_own_context
def _density(x: Decimal) -> Decimal:
    return exp(-(x * x + LN_2_PI) / 2)


@in_own_context
def _half_mass(x: Decimal) -> Decimal:
    """Phi(x) - 1/2 for x >= 0, from below: a cut series of positive terms."""
    term = total = x
    square, odd = x * x, 1
    while term > total * Decimal("1e-120"):
        odd += 2
        term = term * square / odd
        total += term
    return total * _density(x)


def _far_quantile(log_inverse: Decimal) -> Decimal:
    """The least x (but for the margin) with phi(x)/x <= e^-log_inverse."""
    with localcontext(context()):
        target = log_inverse - LN_2_PI / 2  # x^2/2 + log x >= target
        x = (2 * target).sqrt()  # x > 1, so log x > 0 and this is above the root
        for _ in range(200):
            lower = (2 * (target - ln(x))).sqrt()
            if x - lower <= x * MARGIN / 100:
                break
            x = (2 * (target - ln(lower))).sqrt()  # the map falls, so the image of a lower point is an upper one
        x *= 1 + MARGIN / 10
        if not x * x / 2 + ln(x) >= target:
            raise ArithmeticError("the Gaussian quantile did not converge")
        return x
