"""Filters: the rule by which a scope admits requests while parameters are chosen adaptively.

A filter is constants, fixed when its scope opens. It turns the cost of a request into *coordinates* (what is summed and
written on the wire) and says whether sums of coordinates are admitted. It has no state of its own: `Sums` are values,
which the caller keeps.

    F1 `pure`    epsilon                                    sum of pure prices <= epsilon
    F2 `basic`   epsilon, delta_sum                         that, and sum of deltas <= delta_sum
    F3 `zcdp`    rho, delta_sum                             sum of rho <= rho, and sum of deltas <= delta_sum
    F4 `rdp`     orders, epsilons                           at each order: sum of divergences, or of pure prices, <= its
                                                            epsilon
    F5 `gdp`     mu                                         sum of mu^2 <= mu^2
    F6 `either`  epsilon, delta_sum,                        the sum of pure prices and a mixed account for each boundary
                 boundaries (order_minus_one,               come to at most epsilon together (`mixture`), and
                 delta_boundary)                            sum of deltas <= delta_sum
    F7 `allowance` law, steps, epsilon_law, delta_law,      copies of the law <= steps, and F2's test of the rest at
                 epsilon_rest, delta_rest                   epsilon_rest and delta_rest

Coordinates: `pure` (epsilons), `delta`, `rho`, `mu_squared`; on a grid `rdp_0`, `rdp_1`, ... (one an order) beside
`pure`, of which a request fills one or the other; and in the mixed account of each boundary `mixed_pure_0` or
`mixed_rdp_0`, `mixed_pure_1` or `mixed_rdp_1`, ..., of which a request fills the cheaper and leaves the other 0:
`mixed_rdp` is the Renyi divergence of order 1 + order_minus_one. An allowance has `copies`,
draws of its law (`accounting.pricing.allowances` counts them), beside `pure` and `delta` of the rest.
Statements and proofs: docs/proofs/filters.md.

>>> from decimal import Decimal
>>> from dpledger.accounting.guarantees import ApproxDP
>>> from dpledger.accounting.arithmetic.prices import Cost
>>> either = opened_by(ApproxDP(3, 1e-6))
>>> price = charge(either, Cost(pure=Decimal(1), rho=Decimal("0.4"), mu_squared=None))
>>> sums = with_charge(either, opening(either), price)
>>> admits(either, sums), left(either, sums)["pure"]
(True, '2')
>>> admits(either, with_charge(either, sums, charge(either, Cost(pure=Decimal(4), rho=None, mu_squared=None))))
False
"""

from __future__ import annotations

from dpledger.accounting.filters.admission import (
    admits,
    asked,
    deciding,
    delta_for_claims,
    fits,
    fullest,
    leading,
    left,
    reading,
    spent,
    used,
)
from dpledger.accounting.filters.charges import (
    TOO_LARGE,
    Account,
    Coordinates,
    Sum,
    Sums,
    charge,
    currencies,
    opening,
    settle,
    with_charge,
    without_charge,
)
from dpledger.accounting.filters.coordinates import mixed_names, names, orders
from dpledger.accounting.filters.kinds import (
    KINDS,
    AllowanceFilter,
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    budget_guarantee,
    tail_budget,
)
from dpledger.accounting.filters.openings import Orders, advanced, gaussians, instead, opened_by

__all__ = [
    "KINDS",
    "TOO_LARGE",
    "Account",
    "AllowanceFilter",
    "BasicFilter",
    "Boundary",
    "Coordinates",
    "EitherFilter",
    "Filter",
    "GDPFilter",
    "Orders",
    "PureFilter",
    "RDPFilter",
    "Sum",
    "Sums",
    "ZCDPFilter",
    "admits",
    "advanced",
    "asked",
    "budget_guarantee",
    "charge",
    "currencies",
    "deciding",
    "delta_for_claims",
    "fits",
    "fullest",
    "gaussians",
    "instead",
    "leading",
    "left",
    "mixed_names",
    "names",
    "opened_by",
    "opening",
    "orders",
    "reading",
    "settle",
    "spent",
    "tail_budget",
    "used",
    "with_charge",
    "without_charge",
]
