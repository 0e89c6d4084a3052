"""What several guarantees add up to, where each holds whatever the others publish.

Guarantees of one kind add up in their own currency: epsilons, rho, mu^2, divergences order by order. What is left of
different kinds is turned into (epsilon, delta) and added.

>>> from dpledger.accounting.guarantees import ApproxDP, PureDP
>>> together([PureDP(1), ApproxDP(1, "1e-6")])
ApproxDP(epsilon=Decimal('2'), delta=Decimal('0.000001'), kind='approx_dp')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from dpledger.accounting.guarantees import TOO_LARGE, ApproxDP, Guarantee
from dpledger.decimals import ZERO, add

__all__ = ["READ_AT", "read_at", "together"]

READ_AT = Decimal("1e-6")
"""The delta at which a zCDP, Renyi or Gaussian budget is shown as an epsilon. Any other may be asked of the scope."""
ONE = Decimal(1)


def read_at(guarantee: Guarantee) -> Decimal:
    """The delta at which a guarantee is read as an epsilon: its own; in another currency READ_AT more than what it lets
    fail."""
    own = guarantee.own_delta
    return min(add(guarantee.fails, READ_AT), ONE) if own is None else own


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
    alike: dict[Any, list[Guarantee]] = {}
    others: list[Guarantee] = []
    for one in guarantees:
        summand = one.summand
        if summand is None:
            others.append(one)
        else:
            alike.setdefault(type(summand), []).append(summand)
    return *(whole for kind, parts in alike.items() for whole in kind.sum_of(parts)), *others


def _approximate(parts: Iterable[Guarantee | None]) -> ApproxDP | None:
    """The sum of the epsilons and of the deltas at which they are read. Source: as `together`."""
    epsilon = delta = ZERO
    for part in parts:
        if part is None or (at := read_at(part)) >= 1:
            return None
        epsilon, delta = add(epsilon, part.epsilon_at(at)), add(delta, at)
    return None if epsilon >= TOO_LARGE or delta >= 1 else ApproxDP(epsilon, delta)
