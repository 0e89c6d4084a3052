"""Boundaries in time: curves psi that the noise of the privacy loss crosses, at any time, with probability `delta`.

The loss of releases whose zCDP sums up to rho is rho plus a deviation. At one time fixed beforehand the deviation has a
Gaussian tail; at a time that depends on what was published it has not, and one of these curves takes the place of the
tail, as a function of the variance v = 2 rho:

    linear      tangent to the fixed-time curve at v = tuning
    mixture     a half-normal mixture of all lines, of precision `tuning`: good everywhere, best around v = tuning

Kind, tuning and delta are fixed before the first release: the better of two curves, chosen afterwards, is none.

>>> height(LinearBoundary(tuning=1, delta="1e-6"), Decimal(1))
Decimal('5.25652176977')
>>> height(MixtureBoundary(tuning=1, delta="1e-6"), Decimal(1))
Decimal('7.34001010157')
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

from pydantic import Field

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import INFINITY, in_own_context, subtract
from dpledger.errors import ParameterError
from dpledger.number_fields import OpenProbability, Positive
from dpledger.schema import record, tag

__all__ = ["LinearBoundary", "MixtureBoundary", "TimeUniformBoundary", "height"]

ONE = Decimal(1)
STEPS = 100  # of Newton's method, which converges in ten
CLOSE = Decimal("1e-30")  # relative step at which it ends


@record
class LinearBoundary:
    """psi(v) = sqrt(log(1/delta)/2) (v/sqrt(tuning) + sqrt(tuning)): at v = tuning what one fixed time would cost.

    >>> curve = dpl.ex_post.LinearBoundary(tuning="0.1", delta="1e-6")
    >>> levels = dpl.ex_post.Chain(of=dpl.GaussianLaw(2), reached=dpl.GaussianLaw(4), boundary=curve)
    >>> levels.boundary == curve
    True
    """

    tuning: Positive
    delta: OpenProbability
    kind: Literal["linear"] = tag(default="linear")


@record
class MixtureBoundary:
    """psi(v) = the s with 2 sqrt(r/(v+r)) exp(s^2/(2(v+r))) Phi(s/sqrt(v+r)) = 1/delta, r = tuning.

    >>> curve = dpl.ex_post.MixtureBoundary(tuning="0.1", delta="1e-6")
    >>> levels = dpl.ex_post.Chain(of=dpl.GaussianLaw(2), reached=dpl.GaussianLaw(4), boundary=curve)
    >>> levels.boundary == curve
    True
    """

    tuning: Positive
    delta: OpenProbability
    kind: Literal["mixture"] = tag(default="mixture")


TimeUniformBoundary: TypeAlias = LinearBoundary | MixtureBoundary

if not TYPE_CHECKING:
    TimeUniformBoundary = Annotated[TimeUniformBoundary, Field(discriminator="kind")]


@lru_cache(maxsize=4096)
def height(boundary: TimeUniformBoundary, variance: Decimal) -> Decimal:
    """psi(v), from above; it rises with v. Infinite where the variance is.

    Claim: let M and V >= 0 be such that exp(l M_n - l^2 V_n/2) is a supermartingale that starts at most at 1, for every
    l >= 0, V_n being fixed before step n. Then P(M_n >= result(V_n) for some n) <= delta.
    Source: Ville 1939; Darling-Robbins 1968; Howard-Ramdas-McAuliffe-Sekhon 2021, Theorem 1;
    docs/proofs/ex_post.md, "Boundaries". ParameterError for a variance that is negative or no number.
    """
    if variance.is_nan() or variance < 0:
        raise ParameterError("variance", variance, "a number that is not negative")
    if variance.is_infinite():
        return INFINITY
    tuning, doubt = boundary.tuning, subtract(ONE, boundary.delta)
    with localcontext(outward.context(variance, tuning, boundary.delta, doubt)):
        failure = -outward.ln(boundary.delta)
        match boundary:
            case LinearBoundary():
                return outward.above(_linear(variance, tuning, failure))
            case MixtureBoundary():
                return outward.above(_mixture(variance, tuning, failure))
            case _:
                assert_never(boundary)


@in_own_context
def _linear(variance: Decimal, tuning: Decimal, failure: Decimal) -> Decimal:
    return (failure / 2).sqrt() * (variance / tuning.sqrt() + tuning.sqrt())


@in_own_context
def _mixture(variance: Decimal, tuning: Decimal, failure: Decimal) -> Decimal:
    """sqrt(v + r) x, where x^2/2 + log(2 Phi(x)) = log(1/delta) + log(1 + v/r)/2 =: t.

    The left side is convex and rises, and is at least t at the closed bound sqrt(2 log((1 + e^t)/2)), as
    Phi(x) >= 1 - e^(-x^2/2)/2: Newton's method falls from there to the root and never below it."""
    target = failure + outward.ln1p(variance / tuning) / 2
    x = (2 * outward.ln1p(outward.expm1(target) / 2)).sqrt()
    for _ in range(STEPS):
        value, slope = _mixed(x)
        step = (value - target) / slope
        x -= step
        if step <= x * CLOSE:
            break
    x *= 1 + outward.MARGIN / 10
    if not _mixed(x)[0] >= target:  # cannot occur: Newton's last step was far below the margin
        raise ArithmeticError("the mixture boundary did not converge")
    return x * (variance + tuning).sqrt()


@in_own_context
def _mixed(x: Decimal) -> tuple[Decimal, Decimal]:
    """x^2/2 + log(2 Phi(x)), from below, and its derivative."""
    mass = 1 - outward.normal_tail(x)[1]
    density = outward.exp(-(x * x + outward.LN_2_PI) / 2)
    return x * x / 2 + outward.ln1p(2 * mass - 1), x + density / mass
