"""What Laplace noise costs, in each currency."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.decimals import ZERO, subtract

__all__ = ["laplace_cost", "laplace_mu_squared", "laplace_rdp", "laplace_rho"]

ONE = Decimal(1)
TWO = Decimal(2)


def laplace_cost(epsilon: Decimal, orders: tuple[Decimal, ...]) -> Cost:
    """Laplace noise with epsilon = sensitivity (l1) / scale, in every currency. Source: the functions below."""
    return Cost(
        pure=epsilon,
        rho=laplace_rho(epsilon),
        mu_squared=laplace_mu_squared(epsilon),
        rdp={order: laplace_rdp(epsilon, order) for order in orders},
    )


@lru_cache(maxsize=1024)
def laplace_rho(epsilon: Decimal) -> Decimal:
    """The zCDP price of Laplace noise with epsilon = sensitivity (l1) / scale: epsilon - 1 + e^-epsilon.

    Claim: rho-zCDP, for a statistic in any number of dimensions (the price is convex in epsilon and 0 at 0, so the
    coordinates' prices add up to no more).
    Source: docs/proofs/filters.md, "Prices".
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon)):
        return min(epsilon, outward.above(outward.expm1(-epsilon) + epsilon))


@lru_cache(maxsize=1024)
def laplace_rdp(epsilon: Decimal, order: Decimal) -> Decimal:
    """The Renyi divergence of Laplace noise: log[(a e^((a-1)epsilon) + (a-1) e^(-a epsilon)) / (2a-1)] / (a-1).

    Claim: (order, result)-RDP, in any number of dimensions (the logarithm is convex in epsilon and 0 at 0).
    Source: Mironov 2017, Proposition 6.
    """
    if not epsilon:
        return ZERO
    more = subtract(order, ONE)
    with localcontext(outward.context(epsilon, more)):
        falling = more / order * outward.exp(-(2 * order - 1) * epsilon)
        rest = outward.ln1p(falling) + outward.ln(order / (2 * order - 1))
        return min(epsilon, outward.above(epsilon + rest / more))


@lru_cache(maxsize=1024)
def laplace_mu_squared(epsilon: Decimal) -> Decimal:
    """mu^2 of Laplace noise: mu = -2 Phi^-1(e^(-epsilon/2) / 2).

    Claim: mu-GDP, in any number of dimensions (mu^2 is convex in epsilon and 0 at 0).
    Source: docs/proofs/filters.md, "Prices".
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon)):
        half = outward.tail_quantile(epsilon / 2 + outward.ln(TWO))
        return outward.above(4 * half * half)
