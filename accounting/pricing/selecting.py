"""What a selection costs: the best of a secret number of runs of one mechanism.

A run costs `whole`. The selection costs, in each order a, with E the mean of a truncated negative binomial number:

    eps'(a) = eps(a) + (1 + eta) min_b [(1 - 1/b) eps(b) + log(1/gamma)/b] + log(E)/(a - 1)
    pure    = (2 + eta) eps

and, with a Poisson number of mean m, d the delta of a run at log(1 + 1/(a - 1)), p the probability of no output:

    eps'(a) = X + log(m + p e^(-(a - 1) X))/(a - 1),  X = eps(a) + m d
    pure    = eps + m tanh(eps/2)

Proofs: docs/proofs/selection.md. A run that may fail beside its price, by a delta, has no theorem here.

>>> from dpledger.accounting.arithmetic.prices import pure_cost
>>> run = pure_cost(Decimal("0.1"), ORDERS)
>>> selected_cost(NegativeBinomialTrials(eta=1, gamma="0.01"), run, ()).pure
Decimal('0.3')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.prices import Cost, pure_cost, rdp_alone
from dpledger.accounting.guarantees import RDP, PureDP
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.decimals import ZERO, add, in_own_context, multiply, round_up
from dpledger.errors import CannotCertify

__all__ = ["ORDERS", "selected_cost", "selected_guarantee"]

ONE = Decimal(1)
COMPARED_AT = Decimal("1e-6")

ORDERS = (
    *(round_up(1 + Fraction(k, 50)) for k in range(1, 5)),
    *(round_up(1 + Fraction(k, 10)) for k in range(1, 100)),
    *map(Decimal, range(11, 64)),
    *(round_up(64 * Fraction(17, 16) ** k, digits=5) for k in range(95)),
)
"""The orders at which a run is priced, for a selection of it to be: dense where runs of a training have their best."""


def selected_cost(repeats: Trials, whole: Cost, orders: tuple[Decimal, ...]) -> Cost:
    """The price of a selection among runs that cost `whole`, which has a price for `ORDERS` and `orders` where a
    theorem gives one.

    Claim: the selection meets each guarantee that the result has a price for.
    Source: Papernot-Steinke 2022, Theorems 2 and 6; docs/proofs/selection.md, sections 2 to 5.
    """
    if whole.delta:
        raise CannotCertify("a selection among outputs of a mechanism that has a delta has no certified bound")
    known = {order: price for order, price in sorted(whole.rdp.items()) if price is not None}
    renyi = _rising(_divergences(repeats, known, whole.pure))
    by_order = rdp_alone({order: renyi.get(order) for order in orders})
    return by_order if whole.pure is None else by_order.or_better(pure_cost(_pure(repeats, whole.pure), orders))


def selected_guarantee(price: Cost) -> PureDP | RDP:
    """What the engine composes for a selection of this price, of which the orders are `ORDERS`: the one of its two
    prices that says less at a delta of 1e-6."""
    known = tuple((order, divergence) for order, divergence in price.rdp.items() if divergence is not None)
    curve = RDP(tuple(order for order, _ in known), tuple(each for _, each in known)) if known else None
    if price.pure is not None and (curve is None or price.pure <= curve.epsilon_at(COMPARED_AT)):
        return PureDP(price.pure)
    if curve is None:
        raise CannotCertify("no theorem gives a selection of these runs a bound: they have no Renyi divergences")
    return curve


def _rising(divergences: Iterator[tuple[Decimal, Decimal]]) -> Mapping[Decimal, Decimal]:
    """A divergence is at most that of any higher order. Source: van Erven-Harremoes 2014, Theorem 3."""
    least: dict[Decimal, Decimal] = {}
    best = None
    for order, divergence in reversed(list(divergences)):
        best = divergence if best is None else min(best, divergence)
        least[order] = best
    return least


def _pure(repeats: Trials, epsilon: Decimal) -> Decimal:
    """Source: docs/proofs/selection.md, sections 2 and 5."""
    match repeats:
        case NegativeBinomialTrials(eta=eta):
            return multiply(epsilon, add(eta, Decimal(2)))
        case PoissonTrials(mean=mean):
            with localcontext(outward.context(epsilon)):
                return outward.above(epsilon + mean * outward.tanh(epsilon / 2))
        case _:
            assert_never(repeats)


def _divergences(
    repeats: Trials, known: Mapping[Decimal, Decimal], pure: Decimal | None
) -> Iterator[tuple[Decimal, Decimal]]:
    """The bounds of the module, order by order."""
    match repeats:
        case NegativeBinomialTrials():
            return _of_negative_binomial(repeats, known)
        case PoissonTrials():
            return _of_poisson(repeats, known, pure)
        case _:
            assert_never(repeats)


def _of_negative_binomial(
    repeats: NegativeBinomialTrials, known: Mapping[Decimal, Decimal]
) -> Iterator[tuple[Decimal, Decimal]]:
    with localcontext(outward.context(repeats.gamma)):
        more = 1 + repeats.eta
        rare, often = -outward.ln(repeats.gamma), outward.ln(repeats.mean)
        each = ((1 - 1 / order) * divergence + rare / order for order, divergence in known.items())
        step = more * min(each, default=rare)
    for order, divergence in known.items():
        with localcontext(outward.context()):
            bound = outward.above(divergence + step + often / (order - 1))
        yield order, bound


def _of_poisson(
    repeats: PoissonTrials, known: Mapping[Decimal, Decimal], pure: Decimal | None
) -> Iterator[tuple[Decimal, Decimal]]:
    mean, nothing = repeats.mean, _nothing(repeats)
    lines = _lines(known)
    for order, divergence in known.items():
        with localcontext(outward.context(mean)):
            more = order - 1
            near = outward.below(outward.ln1p(1 / more))
            failing = min((rise - slope * near for slope, rise in lines), default=Decimal(0))
            delta = min(outward.exp(failing) if failing < 0 else Decimal(1), _pure_delta(pure, near))
            lost = divergence + mean * delta
            bound = outward.above(lost + outward.ln(mean + nothing * outward.exp(-more * lost)) / more)
        yield order, bound


@in_own_context
def _pure_delta(pure: Decimal | None, epsilon: Decimal) -> Decimal:
    """At least the delta at `epsilon` of a run that is pure: none from its own epsilon on.

    Source: Kairouz-Oh-Viswanath 2015, Theorem 3.3 (the worst pair, a randomised response)."""
    if pure is None:
        return ONE
    return -outward.expm1(epsilon - pure) / (1 + outward.exp(-pure)) if epsilon < pure else ZERO


def _lines(known: Mapping[Decimal, Decimal]) -> list[tuple[Decimal, Decimal]]:
    """(b, a) for each order: the logarithm of the delta of a run at an epsilon e is at most a - b e.

    Source: Canonne-Kamath-Steinke 2020, Proposition 12."""
    with localcontext(outward.context()):
        return [
            (order - 1, (order - 1) * (divergence + outward.ln(1 - 1 / order)) - outward.ln(order))
            for order, divergence in known.items()
        ]


def _nothing(repeats: PoissonTrials) -> Decimal:
    """At least the probability that K is 0, or above `most`: Chernoff's bound.

    Source: Mitzenmacher-Upfal 2005, Theorem 5.4."""
    mean = repeats.mean
    with localcontext(outward.context(mean)):
        none = outward.exp(-mean)
        if repeats.most is None:
            return outward.above(none)
        first = Decimal(repeats.most + 1)
        if first <= mean:
            return ONE
        beyond = outward.exp(first - mean - first * outward.ln(first / mean))
        return min(ONE, outward.above(none + beyond))
