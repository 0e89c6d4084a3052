"""What a budget opens: the filter that keeps it, with constants that public numbers fix."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpledger.accounting.arithmetic.conversions import best_order_minus_one, gdp_within, zcdp_within
from dpledger.accounting.filters.kinds import (
    MOST_BOUNDARIES,
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.decimals import ZERO, Number, add, multiply, read, round_down, subtract, text, total
from dpledger.errors import ParameterError

__all__ = ["Orders", "advanced", "gaussians", "instead", "opened_by"]

Orders: TypeAlias = "Sequence[Number] | Sequence[tuple[Number, Number]]"
"""Renyi orders above 1, which share a delta alike; or each with its share."""
HALF = Decimal("0.5")
ONE = Decimal(1)
BOUNDARIES = ((Decimal(1), Decimal("0.7")), (Decimal("0.7"), Decimal("0.3")))
"""Of the default mixture: parts of the order that holds the most zCDP (conversions.best_order_minus_one) and shares of
the boundaries' delta. The second order holds what has rare losses; more orders, or others, gain nothing."""
SHARE_DIGITS = 60  # a share of delta is cut, if at all, only at the last place that a decimal may have


def opened_by(budget: Guarantee, *, orders: Orders | None = None) -> Filter:
    """The filter that a scope's budget opens: F1 for a pure one, F6 for an approximate one, F3 for zCDP, F4 for RDP, F5
    for GDP.

    F6 gets half of delta for its boundaries and half for its charges. `orders` are those of its boundaries, which share
    alike or as they say (`chosen`); else they are `BOUNDARIES`. Raises ParameterError for another kind, for a budget of
    nothing, and for orders where the budget opens no F6.
    """
    if orders is not None and not (isinstance(budget, ApproxDP) and budget.delta):
        raise ParameterError("orders", len(orders), "nothing: only an approx_dp budget with a delta above 0 has orders")
    match budget:
        case PureDP(epsilon=epsilon):
            return PureFilter(epsilon)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _opened_by_approximate(epsilon, delta, orders)
        case ZCDP(rho=rho, delta=delta):
            return ZCDPFilter(rho, delta)
        case RDP(orders=orders, epsilons=epsilons):
            return RDPFilter(orders, epsilons)
        case GDP(mu=mu):
            return GDPFilter(mu)
        case BoundedRange() | PrivacyCurve():  # exact profiles do not compose when parameters are chosen adaptively
            raise ParameterError(
                "budget", budget.kind, "a guarantee that composes (pure_dp, approx_dp, zcdp, rdp, gdp)"
            )
        case _:
            assert_never(budget)


def instead(budget: Guarantee) -> BasicFilter | None:
    """The filter that the first charge of a scope may fix in place of the default of its budget (`opened_by`): where
    that is F6, F2 with all of epsilon and delta.

    Claim: whichever of the two is fixed before anything ran, what it admits keeps `budget`.
    Source: docs/proofs/filters.md, "Constants fixed at the first charge".

    >>> instead(ApproxDP(3, "1e-6")) == BasicFilter(3, "1e-6"), instead(PureDP(3))
    (True, None)
    """
    if isinstance(budget, ApproxDP) and budget.epsilon and budget.delta:
        return BasicFilter(budget.epsilon, budget.delta)
    return None


def _opened_by_approximate(epsilon: Decimal, delta: Decimal, orders: Orders | None) -> Filter:
    if not epsilon:
        raise ParameterError("budget.epsilon", "0", "a number above 0")
    if not delta:
        return PureFilter(epsilon)
    half = _share_of(delta, HALF)
    if not half:
        raise ParameterError("budget.delta", text(delta), "0, or enough to be halved within 60 decimal places")
    best = best_order_minus_one(epsilon, half)
    chosen = [(multiply(best, part), share) for part, share in BOUNDARIES] if orders is None else _chosen(orders)
    twice = {more for more, _ in chosen if sum(more == other for other, _ in chosen) > 1}
    if twice:
        raise ParameterError("orders", text(add(min(twice), ONE)), "orders that differ")
    boundaries = [(more, _share_of(half, share)) for more, share in chosen]
    if not all(boundary for _, boundary in boundaries):
        raise ParameterError("budget.delta", text(delta), "enough for each boundary within 60 decimal places")
    return EitherFilter(epsilon, half, tuple(Boundary(more, boundary) for more, boundary in boundaries))


def _share_of(delta: Decimal, share: Decimal | Fraction) -> Decimal:
    return round_down(Fraction(delta) * Fraction(share), digits=SHARE_DIGITS)


def _chosen(orders: Orders) -> list[tuple[Decimal, Decimal | Fraction]]:
    """Orders less one, with their shares of the boundaries' delta: what they say, or alike."""
    if not 1 <= len(orders) <= MOST_BOUNDARIES:
        raise ParameterError("orders", len(orders), f"from 1 to {MOST_BOUNDARIES} Renyi orders")
    pairs = [order for order in orders if isinstance(order, (tuple, list))]
    alike = [order for order in orders if not isinstance(order, (tuple, list))]
    if not pairs:
        return [(_less_one(order), Fraction(1, len(alike))) for order in alike]
    if alike or any(len(pair) != 2 for pair in pairs):
        raise ParameterError("orders", len(orders), "orders, or pairs (order, share), and not both")
    shares = [read(share, field="orders") for _, share in pairs]
    if not all(shares) or total(shares) > 1:
        raise ParameterError("orders", text(total(shares)), "shares above 0 that add up to at most 1")
    return [(_less_one(order), share) for (order, _), share in zip(pairs, shares, strict=True)]


def _less_one(order: Number) -> Decimal:
    found = read(order, field="orders")
    if not found > 1:
        raise ParameterError("orders", found, "Renyi orders above 1")
    return subtract(found, ONE)


def gaussians(epsilon: Number, delta: Number) -> GDPFilter:
    """The GDP budget that (epsilon, delta) holds: an account of mu^2, in which Gaussian noise that is asked for one by
    one costs what it costs as one plan, and beside it whatever has a price in mu^2: Laplace noise, choices, epsilons.
    For what has none too: an `Allowance` of a law of `GDP`, with a rest. ParameterError where that is nothing.

    Claim: what the result admits is (epsilon, delta)-DP. Source: conversions.gdp_within; docs/proofs/filters.md, "F5".

    >>> budget = gaussians(epsilon=1, delta="1e-6")
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.GaussianLaw(50), most=200).one_by_one
    140
    """
    loss, failing = read(epsilon, field="epsilon"), read(delta, field="delta")
    if not 0 < failing < 1:
        raise ParameterError("delta", failing, "a number in (0, 1)")
    mu = gdp_within(loss, failing)
    if not mu:
        raise ParameterError("delta", failing, "enough to hold a mu within 60 decimal places")
    return GDPFilter(mu)


def advanced(epsilon: Number, delta_boundary: Number, delta_sum: Number = ZERO) -> ZCDPFilter:
    """The zCDP budget that an epsilon holds at `delta_boundary`. ParameterError where that is nothing.

    Claim: what the result admits is (epsilon, delta_boundary + delta_sum)-DP. Source: conversions.zcdp_within;
    docs/proofs/filters.md, "F3".

    >>> budget = advanced(epsilon=1, delta_boundary="1e-6")
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.GaussianLaw(20), most=50).one_by_one
    19
    """
    loss, boundary = read(epsilon, field="epsilon"), read(delta_boundary, field="delta_boundary")
    if not loss > 0:
        raise ParameterError("epsilon", loss, "a number above 0")
    if not 0 < boundary < 1:
        raise ParameterError("delta_boundary", boundary, "a number in (0, 1)")
    failing = read(delta_sum, field="delta_sum")
    if not add(boundary, failing) < 1:
        raise ParameterError("delta_sum", failing, f"a number below 1 - {text(boundary)}")
    return ZCDPFilter(round_down(zcdp_within(loss, boundary)), failing)
