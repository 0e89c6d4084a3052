"""What several guarantees come to together, where each is kept by itself against everything that the others publish.

Guarantees of one kind add up in their own currency: epsilons, rho, mu^2, divergences order by order. What is left of
different kinds is turned into (epsilon, delta) and added.

>>> from dpledger.accounting.guarantees import ApproxDP, PureDP
>>> together([PureDP(1), ApproxDP(1, "1e-6")])
ApproxDP(epsilon=Decimal('2'), delta=Decimal('0.000001'), kind='approx_dp')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from typing import assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import epsilon_of
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.decimals import ZERO, add, multiply, round_up, total

__all__ = ["READ_AT", "read_at", "together"]

READ_AT = Decimal("1e-6")
"""The delta at which a zCDP, Renyi or Gaussian budget is shown as an epsilon. Any other may be asked of the scope."""
ONE = Decimal(1)
TOO_LARGE = Decimal(10**18)  # no decimal that is written down reaches it


def read_at(guarantee: Guarantee) -> Decimal:
    """The delta at which a guarantee is read as an epsilon: its own; in another currency READ_AT more than what it lets
    fail."""
    match guarantee:
        case ApproxDP(delta=delta):
            return delta
        case ZCDP(delta=delta):
            return min(add(delta, READ_AT), ONE)
        case GDP() | RDP():
            return READ_AT
        case PrivacyCurve(deltas=deltas):
            return min(deltas)
        case PureDP() | BoundedRange():
            return ZERO
        case _:
            assert_never(guarantee)


def together(guarantees: Sequence[Guarantee]) -> Guarantee | None:
    """What all of these come to, at least one; None where they come to nothing that holds.

    Claim: if each is kept, under one relation, by an interaction against every adaptive analyst, all of them run on the
    same data and interleaved as she likes keep the result.
    Source: docs/proofs/filters.md, "Scopes together"; for pure and approximate DP Vadhan-Wang 2021, for RDP and zCDP
    Lyu 2022, for GDP Vadhan-Zhang 2023.
    """
    if len(guarantees) == 1:
        return guarantees[0]
    sums = _sums(guarantees)
    return sums[0] if len(sums) == 1 else _approximate(sums)


def _sums(guarantees: Iterable[Guarantee]) -> tuple[Guarantee | None, ...]:
    """The guarantees with those of one kind added up, as far as they add up in their own currency; None for a sum that
    is too large to be one."""
    pure: list[Decimal] = []
    rho: list[Decimal] = []
    mu: list[Decimal] = []
    renyi: list[RDP] = []
    others: list[Guarantee] = []
    for one in guarantees:
        match one:
            case PureDP(epsilon=epsilon) | BoundedRange(eta=epsilon):
                pure.append(epsilon)
            case ZCDP(rho=spent, delta=delta) if not delta:  # with a delta it is not known to compose concurrently
                rho.append(spent)
            case GDP(mu=apart):
                mu.append(apart)
            case RDP():
                renyi.append(one)
            case ApproxDP() | ZCDP() | PrivacyCurve():
                others.append(one)
            case _:
                assert_never(one)
    found: list[Guarantee | None] = []
    if pure:
        found.append(_promise(PureDP, total(pure)))
    if rho:
        found.append(_promise(ZCDP, total(rho)))
    if mu:
        found.append(_promise(GDP, _root_of_squares(mu)))
    return *found, *_on_common_orders(renyi), *others


def _promise(kind: Callable[[Decimal], Guarantee], amount: Decimal) -> Guarantee | None:
    return kind(amount) if amount < TOO_LARGE else None


def _root_of_squares(numbers: Iterable[Decimal]) -> Decimal:
    squares = total(multiply(number, number) for number in numbers)
    with localcontext(outward.context(squares)):
        root = squares.sqrt()
        return round_up(root) if root * root == squares else outward.above(root)


def _on_common_orders(parts: Sequence[RDP]) -> tuple[Guarantee | None, ...]:
    """One guarantee, at the orders that all of them name; all of them, where there is no such order."""
    shared = set(parts[0].orders).intersection(*(part.orders for part in parts)) if parts else set()
    if not shared:
        return tuple(parts)
    grids = [dict(zip(part.orders, part.epsilons, strict=True)) for part in parts]
    sums = {order: total(grid[order] for grid in grids) for order in sorted(shared)}
    if max(sums.values()) >= TOO_LARGE:
        return (None,)
    return (RDP(tuple(sums), tuple(sums.values())),)


def _approximate(parts: Iterable[Guarantee | None]) -> ApproxDP | None:
    """The sum of the epsilons and of the deltas at which they are read. Source: as `together`."""
    epsilon = delta = ZERO
    for part in parts:
        if part is None or (at := read_at(part)) >= 1:
            return None
        epsilon, delta = add(epsilon, epsilon_of(part, at)), add(delta, at)
    return None if epsilon >= TOO_LARGE or delta >= 1 else ApproxDP(epsilon, delta)
