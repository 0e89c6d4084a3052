"""Transcendental functions of exact decimals, wide enough that one outward margin covers every rounding inside.

The standard library's decimal exponential and logarithm are correctly rounded. A formula evaluated in `context(x, ...)`
keeps at least forty digits after all the cancellation that arguments of those sizes can cause, and `above` then adds a
relative margin of 1e-12 and rounds up: the margin also lets a verifier recompute a stored price in double precision.

>>> above(exp(Decimal(1)))
Decimal('2.71828182847')
>>> below(exp(Decimal(1)))
Decimal('2.71828182845')
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext

from dpledger.decimals import round_down, round_up

__all__ = [
    "above",
    "below",
    "context",
    "exp",
    "expm1",
    "ln",
    "ln1p",
    "ln_cosh",
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
FAR_TAIL = Decimal("1e-90")  # below this the Gaussian tail is inverted through its Mills bound
QUANTILE_DIGITS = 140


def context(*arguments: Decimal) -> Context:
    """A context in which a formula of `arguments` keeps its digits: a difference of two functions of x near 0 loses at
    most a few times the leading zeros of x."""
    lost = sum(abs(x.adjusted()) for x in arguments if x)
    return Context(
        prec=DIGITS + 4 * lost, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation, DivisionByZero, Overflow]
    )


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


def exp(x: Decimal) -> Decimal:
    """e^x in the current context (0 where it is below every decimal)."""
    return x.exp()


def expm1(x: Decimal) -> Decimal:
    """e^x - 1; the context must hold the digits that cancel for small x."""
    return x.exp() - 1


def ln(x: Decimal) -> Decimal:
    """The natural logarithm of x > 0."""
    return x.ln()


def ln1p(x: Decimal) -> Decimal:
    """log(1 + x); the context must hold the digits that cancel for small x."""
    return (1 + x).ln()


def tanh(x: Decimal) -> Decimal:
    """The hyperbolic tangent of x >= 0; 1 where the difference is below every decimal."""
    u = exp(-2 * x)
    return (1 - u) / (1 + u)


def ln_cosh(x: Decimal) -> Decimal:
    """log cosh x for x >= 0, without overflow."""
    return x + ln1p(exp(-2 * x)) - ln(Decimal(2))


def tail_quantile(p: Decimal) -> Decimal:
    """The x with P(N(0,1) > x) = p, from above, for 0 < p <= 1/2.

    Claim: P(N(0,1) > result) <= p.
    Source: for p above 1e-90 the positive series Phi(x) - 1/2 = phi(x) (x + x^3/3 + x^5/15 + ...), cut (so the tail is
    over-estimated); beyond, the Mills bound P(N(0,1) > x) <= phi(x)/x.
    """
    if p < FAR_TAIL:
        return _far_quantile(p)
    with localcontext(context()) as wide:
        half_mass = context(p).subtract(Decimal("0.5"), p)
        wide.prec = QUANTILE_DIGITS
        x = _start(p, half_mass)
        for _ in range(60):
            step = (_half_mass(x) - half_mass) / _density(x)
            x -= step
            if abs(step) <= abs(x) * Decimal("1e-30"):
                break
        x *= 1 + MARGIN / 10
        if not half_mass <= _half_mass(x):  # cannot occur: Newton's last step was far below the margin
            raise ArithmeticError("the Gaussian quantile did not converge")
        return x


def _start(p: Decimal, half_mass: Decimal) -> Decimal:
    """A first guess on the side from which Newton's method converges: Phi is concave above 0, so from below."""
    linear = half_mass * (LN_2_PI / 2).exp()  # exact as half_mass -> 0, and below the quantile: the density falls
    return linear if p > Decimal("0.01") else max(linear, (-2 * p.ln() - LN_2_PI - (-2 * p.ln()).ln()).sqrt())


def _density(x: Decimal) -> Decimal:
    return (-(x * x + LN_2_PI) / 2).exp()


def _half_mass(x: Decimal) -> Decimal:
    """Phi(x) - 1/2 for x >= 0, from below: a cut series of positive terms."""
    term = total = x
    square, odd = x * x, 1
    while term > total * Decimal("1e-120"):
        odd += 2
        term = term * square / odd
        total += term
    return total * _density(x)


def _far_quantile(p: Decimal) -> Decimal:
    """The least x (but for the margin) with phi(x)/x <= p."""
    with localcontext(context()):
        target = -ln(p) - LN_2_PI / 2  # x^2/2 + log x >= target
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
