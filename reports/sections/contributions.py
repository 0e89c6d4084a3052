"""What each kind of mechanism contributes to the account that carries a scope: a picture of bars, and the limit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_never

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import boundary_offset
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    Boundary,
    EitherFilter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from dpledger.decimals import ZERO, multiply, negative, round_up, subtract, total
from dpledger.ledger.accounts.recomposition import Admission, ScopeAccount
from dpledger.reports import words
from dpledger.reports.model import Bar, BarChart, Picture

__all__ = ["contributions"]

MOST_BARS = 12


def contributions(account: ScopeAccount) -> Picture | None:
    """What each kind of mechanism is charged in the account that carries the scope now; None where nothing ran."""
    standing = [one for one in account.admissions if one.status != "aborted"]
    if not standing:
        return None
    carrier = standing[-1].account
    side = _side(account, carrier)
    bars = _bars(standing, side)
    together = _together(bars)
    limit = _limit(account, carrier)
    mixed = carrier.startswith("mixed")
    named = _mixed_name(account, carrier) if mixed else words.account(carrier)
    return Picture(
        id=f"scope:{account.scope}/contributions",
        title=f"What each mechanism contributes to scope {account.scope}",
        description=f"The {named}, which admitted the last request, may reach {words.at_least(limit)}"
        + (f"; an epsilon is read from it by adding {words.at_most(_offset(account, carrier))}" if mixed else "")
        + ". "
        + "; ".join(_bar_words(bar) for bar in bars)
        + ("" if together is None else f"; {_bar_words(together)}")
        + ".",
        chart=BarChart(bars=bars, together=together, limit=limit),
    )


def _bars(standing: Sequence[Admission], side: Sequence[str]) -> tuple[Bar, ...]:
    kinds: dict[str, list[Admission]] = {}
    for one in standing:
        kinds.setdefault(words.tag(one.mechanism.kind), []).append(one)
    bars = []
    for kind, members in kinds.items():
        reserved = total(member.reserved.get(name, ZERO) for member in members for name in side)
        charged = total(member.charged.get(name, ZERO) for member in members for name in side)
        label = kind if len(members) == 1 else f"{kind} × {len(members):,}"
        bars.append(Bar(label, charged, subtract(reserved, charged)))
    bars.sort(key=lambda bar: (negative(bar.charged), bar.label))
    if len(bars) <= MOST_BARS:
        return tuple(bars)
    rest = bars[MOST_BARS - 1 :]
    others = Bar(f"{len(rest)} other kinds", total(bar.charged for bar in rest), total(bar.returned for bar in rest))
    return (*bars[: MOST_BARS - 1], others)


def _together(bars: Sequence[Bar]) -> Bar | None:
    if len(bars) < 2:
        return None
    return Bar("together", total(bar.charged for bar in bars), total(bar.returned for bar in bars))


def _bar_words(bar: Bar) -> str:
    back = f", {words.at_least(bar.returned)} came back" if bar.returned else ""
    return f"{bar.label}: {words.at_most(bar.charged)} charged{back}"


def _side(account: ScopeAccount, carrier: str) -> tuple[str, ...]:
    """The coordinates that the account of `carrier` adds up."""
    match account.filter:
        case EitherFilter() as rule:
            return (carrier,) if carrier == "pure" else filters.mixed_names(rule)[_place(carrier)]
        case RDPFilter():
            return ("pure", _order_of(account, carrier))
        case PureFilter() | BasicFilter() | ZCDPFilter() | GDPFilter() | AllowanceFilter():
            return (carrier,)
        case rule:
            assert_never(rule)


def _place(carrier: str) -> int:
    return int(carrier.rpartition("_")[2])


def _mixed_name(account: ScopeAccount, carrier: str) -> str:
    return f"mixed account of order 1 + {words.at_most(_boundary(account, carrier).order_minus_one)}"


def _boundary(account: ScopeAccount, carrier: str) -> Boundary:
    assert isinstance(account.filter, EitherFilter)  # no other has mixed accounts
    return account.filter.boundaries[_place(carrier)]


def _order_of(account: ScopeAccount, carrier: str) -> str:
    """Of a Renyi grid, the order that is told: the carrier's, or for a pure charge the fullest one."""
    assert isinstance(account.filter, RDPFilter)
    return filters.fullest(account.filter, account.sums) if carrier == "pure" else carrier


def _offset(account: ScopeAccount, carrier: str) -> Decimal:
    """What the boundary of the mixed account costs by itself, beside what is charged in it."""
    own = _boundary(account, carrier)
    return round_up(boundary_offset(own.order_minus_one, own.delta_boundary))


def _limit(account: ScopeAccount, carrier: str) -> Decimal:
    """What the account may reach by itself: in a mixed account epsilon, less the offset of its boundary."""
    match account.filter:
        case EitherFilter(epsilon=epsilon):
            return epsilon if carrier == "pure" else max(ZERO, subtract(epsilon, _offset(account, carrier)))
        case PureFilter(epsilon=epsilon) | BasicFilter(epsilon=epsilon):
            return epsilon
        case ZCDPFilter(rho=rho):
            return rho
        case GDPFilter(mu=mu):
            return multiply(mu, mu)
        case RDPFilter(epsilons=epsilons) as rule:
            return epsilons[filters.names(rule).index(_order_of(account, carrier)) - 1]
        case AllowanceFilter(steps=steps, epsilon_rest=epsilon):
            return Decimal(steps) if carrier == "copies" else epsilon
        case rule:
            assert_never(rule)
