"""What one request costs, in each currency a filter may count in.

A `Cost` is the price of a composition tree under one relation. A currency that has no theorem for the tree is None:
unknown is never zero. Prices are rounded up. Two costs add where both have a price (`sequence`). The functions below
price the guarantees and laws that need a formula; `rules.cost` says which applies where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import rdp_of_pure, zcdp_of_pure
from dpledger.decimals import ZERO, add, in_own_context, is_whole, multiply, round_up, subtract, total
from dpledger.errors import ParameterError

__all__ = [
    "FREE",
    "Cost",
    "amplified_epsilon",
    "discrete_laplace_epsilon",
    "discrete_laplace_rdp",
    "discrete_laplace_rho",
    "gaussian_mu_squared",
    "group_delta",
    "interpolated_rdp",
    "laplace_mu_squared",
    "laplace_rdp",
    "laplace_rho",
    "pmf_epsilon",
    "pmf_failure",
    "pmf_rdp",
    "with_margin",
]

ONE = Decimal(1)
TWO = Decimal(2)
MARGIN = Decimal("1e-8")
"""Relative: what is charged above a price that was computed in floating point, in which machines differ. A verifier
asks for its own, without it. No theorem says that two machines differ by less, and some prices do differ by more
(docs/proofs/filters.md, "Machines"): an honest charge may be refused elsewhere, but none below the truth passes."""
MARGIN_DIGITS = 8  # of a price with its margin: more would differ between machines in every entry
WIDE_DIGITS = 40  # kept of a rational price that may be compared with the square of a declared number


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Upper bounds of the privacy loss of a tree.

    `pure`: an epsilon that, with `delta`, bounds it (currency X). `delta`: the failure that goes with every other
    field. `rho`: zCDP (S). `mu_squared`: Gaussian DP. `rdp`: the Renyi divergence of each order asked for.
    None: no theorem gives a price in this currency.
    """

    pure: Decimal | None
    delta: Decimal = ZERO
    rho: Decimal | None
    mu_squared: Decimal | None
    rdp: Mapping[Decimal, Decimal | None] = field(default_factory=lambda: MappingProxyType({}))

    def __add__(self, other: Cost) -> Cost:
        """The cost of both, run one after the other with adaptively chosen parameters."""
        return Cost(
            pure=_sum(self.pure, other.pure),
            delta=add(self.delta, other.delta),
            rho=_sum(self.rho, other.rho),
            mu_squared=_sum(self.mu_squared, other.mu_squared),
            rdp={order: _sum(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def times(self, count: int) -> Cost:
        """The cost of `count` runs."""
        return Cost(
            pure=_product(self.pure, count),
            delta=multiply(self.delta, count),
            rho=_product(self.rho, count),
            mu_squared=_product(self.mu_squared, count),
            rdp={order: _product(price, count) for order, price in self.rdp.items()},
        )

    def or_worse(self, other: Cost) -> Cost:
        """The greater price in each currency: the cost of two runs of which a neighbour changes only one."""
        return Cost(
            pure=_greater(self.pure, other.pure),
            delta=max(self.delta, other.delta),
            rho=_greater(self.rho, other.rho),
            mu_squared=_greater(self.mu_squared, other.mu_squared),
            rdp={order: _greater(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def or_better(self, other: Cost) -> Cost:
        """The smaller price in each currency, of two costs of one run; both without delta."""
        return Cost(
            pure=_smaller(self.pure, other.pure),
            rho=_smaller(self.rho, other.rho),
            mu_squared=_smaller(self.mu_squared, other.mu_squared),
            rdp={order: _smaller(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def is_unknown(self) -> bool:
        """Whether no currency has a price."""
        return all(price is None for price in (self.pure, self.rho, self.mu_squared, *self.rdp.values()))


def _sum(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else add(left, right)


def _product(price: Decimal | None, count: int) -> Decimal | None:
    return None if price is None else multiply(price, count)


def _greater(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else max(left, right)


def _smaller(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    if left is None or right is None:
        return left if right is None else right
    return min(left, right)


def with_margin(price: Decimal | None) -> Decimal | None:
    """A price in floating point as it is charged: `MARGIN` above, rounded up. Claim: at least the price."""
    return None if price is None else round_up(multiply(price, add(ONE, MARGIN)), digits=MARGIN_DIGITS)


FREE = Cost(pure=ZERO, rho=ZERO, mu_squared=ZERO)
"""The cost of nothing."""


# ---- Laplace --------------------------------------------------------------------------------------------------------


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


def discrete_laplace_epsilon(scale: Decimal, sensitivity: Decimal) -> Decimal:
    """sensitivity / scale, rounded up. Claim: the integer mechanism is result-DP. Source: Ghosh et al. 2012."""
    _require_whole(sensitivity)
    return round_up(Fraction(sensitivity) / Fraction(scale))


@lru_cache(maxsize=1024)
def discrete_laplace_rho(scale: Decimal, sensitivity: Decimal) -> Decimal:
    """The zCDP price of Laplace noise on the integers: e - (t / sinh t)(1 - exp(-e)), t = 1/scale, e = sensitivity t.

    Claim: rho-zCDP, for an integer statistic in any number of dimensions (convex in the sensitivity and 0 at 0).
    Source: docs/proofs/filters.md, "Prices".
    """
    _require_whole(sensitivity)
    if not sensitivity:
        return ZERO
    with localcontext(outward.context(scale, sensitivity)):
        step = 1 / scale
        u = outward.exp(-step)
        shrunk = 2 * step * u / (1 - u * u)  # t / sinh t
        exact = sensitivity * step + shrunk * outward.expm1(-sensitivity * step)
    return min(outward.above(exact), zcdp_of_pure(discrete_laplace_epsilon(scale, sensitivity)))


@lru_cache(maxsize=1024)
def discrete_laplace_rdp(scale: Decimal, sensitivity: Decimal, order: Decimal) -> Decimal:
    """The Renyi divergence of Laplace noise on the integers, shifted by `sensitivity` steps.

    Claim: (order, result)-RDP, for an integer statistic in any number of dimensions: with q = e^(-1/scale), a =
    q^(1-order), b = q^order and r = q^(2 order - 1), the moment of a shift by k is the convex sum
    M(k) = [(1 - rq) a^k + (q - r) b^k] / ((1+q)(1-r)), log-convex in k with M(0) = 1.
    Source: docs/proofs/filters.md, "Prices".
    """
    _require_whole(sensitivity)
    if not sensitivity:
        return ZERO
    more = subtract(order, ONE)
    with localcontext(outward.context(scale, sensitivity, more)):
        q, r = outward.exp(-1 / scale), outward.exp(-(2 * order - 1) / scale)
        growing, falling = (1 - r * q) / ((1 + q) * (1 - r)), (q - r) / ((1 + q) * (1 - r))
        epsilon = sensitivity / scale
        ratio = falling / growing * outward.exp(-(2 * order - 1) * epsilon)
        exact = epsilon + (outward.ln(growing) + outward.ln1p(ratio)) / more
    return min(outward.above(exact), rdp_of_pure(discrete_laplace_epsilon(scale, sensitivity), order))


def _require_whole(sensitivity: Decimal) -> None:
    if not is_whole(sensitivity):
        raise ParameterError("DiscreteLaplaceLaw.sensitivity", sensitivity, "a whole number (of an integer statistic)")


# ---- pairs, outcome by outcome --------------------------------------------------------------------------------------

Masses: TypeAlias = tuple[Decimal, ...]


def pmf_failure(left: Masses, right: Masses) -> Decimal:
    """The larger of the masses that only one side has."""
    only_left = total(p for p, q in zip(left, right, strict=True) if not q)
    only_right = total(q for p, q in zip(left, right, strict=True) if not p)
    return max(only_left, only_right)


@lru_cache(maxsize=256)
def pmf_epsilon(left: Masses, right: Masses) -> Decimal:
    """The largest finite |log left/right|, rounded up.

    Claim: P(S) <= e^result Q(S) + pmf_failure, and the same turned round, for every event S. Source: Dwork-Roth 2014,
    section 2.3 (the sum over outcomes).
    """
    ratios = [Fraction(p) / Fraction(q) for p, q in zip(left, right, strict=True) if p and q]
    largest = max((max(ratio, 1 / ratio) for ratio in ratios), default=Fraction(1))
    if largest == 1:
        return ZERO
    with localcontext(outward.context(Decimal("1e-60"))):
        above_one = round_up(largest - 1, digits=WIDE_DIGITS)
        return outward.above(outward.ln1p(above_one))


@lru_cache(maxsize=1024)
def pmf_rdp(left: Masses, right: Masses, order: Decimal) -> Decimal:
    """The larger of the two Renyi divergences of this order, for a pair without mass on one side only.

    Claim: at least D(left || right) and D(right || left). Source: Mironov 2017, Definition 3.
    """
    more = subtract(order, ONE)
    with localcontext(outward.context(Decimal("1e-60"), more)):
        losses = [(outward.ln(p / q), p, q) for p, q in zip(left, right, strict=True) if p]
        forward = _log_moment([(outward.ln(p) + more * loss) for loss, p, _ in losses])
        back = _log_moment([(outward.ln(q) - more * loss) for loss, _, q in losses])
        exact = max(forward, back, ZERO) / more
    return min(outward.above(exact), pmf_epsilon(left, right))


@in_own_context
def _log_moment(logs: list[Decimal]) -> Decimal:
    """log sum e^x, the largest term taken out: the terms themselves may be beyond every decimal."""
    largest = max(logs)
    return largest + outward.ln(sum((outward.exp(x - largest) for x in logs), ZERO))


# ---- Gaussian, Renyi, sampling --------------------------------------------------------------------------------------


def gaussian_mu_squared(sensitivity: Decimal | int, sigma: Decimal) -> Decimal:
    """(sensitivity / sigma)^2, rounded up at forty digits. Claim: mu-GDP. Source: Dong-Roth-Su 2022, Theorem 2.7."""
    return round_up((Fraction(sensitivity) / Fraction(sigma)) ** 2, digits=WIDE_DIGITS)


@lru_cache(maxsize=256)
def group_delta(epsilon: Decimal, delta: Decimal, k: int) -> Decimal | None:
    """delta (e^(k epsilon) - 1)/(e^epsilon - 1), k delta at epsilon = 0; None where that is 1 or more.

    Claim: k steps of an (epsilon, delta)-DP mechanism are (k epsilon, result)-DP. Source: Vadhan 2017, Lemma 2.2.
    """
    if not delta:
        return ZERO
    if not epsilon:
        result = multiply(delta, k)
        return result if result < 1 else None
    if multiply(epsilon, k) > 200:  # delta, at least 10^-60, times e^((k-1) epsilon), k > 1 or epsilon > 200
        return delta if k == 1 else None
    with localcontext(outward.context(epsilon)):
        result = outward.above(delta * outward.expm1(k * epsilon) / outward.expm1(epsilon))
    return result if result < 1 else None


def interpolated_rdp(orders: tuple[Decimal, ...], epsilons: tuple[Decimal, ...], order: Decimal) -> Decimal | None:
    """The Renyi divergence of `order` from those of a grid; None above the greatest order.

    Claim: (order, result)-RDP. (a-1) D_a is convex in a and 0 at a = 1, so the chord is an upper bound.
    Source: van Erven-Harremoes 2014, Corollary 2.
    """
    left_order, left = Fraction(1), Fraction(0)
    wanted = Fraction(order)
    for right_order, declared, epsilon in zip(map(Fraction, orders), epsilons, map(Fraction, epsilons), strict=True):
        right = (right_order - 1) * epsilon
        if wanted == right_order:
            return declared
        if wanted < right_order:
            chord = left + (right - left) * (wanted - left_order) / (right_order - left_order)
            return round_up(chord / (wanted - 1))
        left_order, left = right_order, right
    return None


@lru_cache(maxsize=1024)
def amplified_epsilon(epsilon: Decimal, rate: Decimal) -> Decimal:
    """log(1 + rate (e^epsilon - 1)): the epsilon of a mechanism run on a secret Poisson sample.

    Claim: (result, rate*delta)-DP for an (epsilon, delta)-DP mechanism. Assumes: add_remove.
    Source: Li-Qardaji-Su 2012, Theorem 1; Balle-Barthe-Gaboardi 2018, Theorem 8.
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon, rate)):
        return min(epsilon, outward.above(epsilon + outward.ln(rate + (1 - rate) * outward.exp(-epsilon))))
