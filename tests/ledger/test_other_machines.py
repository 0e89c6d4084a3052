"""A verifier whose floating point differs from the writer's: an honest ledger verifies, and no other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import machines
from dpledger.accounting import certified
from dpledger.accounting.arithmetic.prices import MARGIN, Cost, with_margin
from dpledger.accounting.families.randomized_response import rules
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.batches import batch_rdp, batch_rho, in_floats
from dpledger.decimals import round_up
from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger

pytestmark = pytest.mark.sliced

MOST = Decimal("5e-9")  # relative: half the margin
BEYOND = Decimal("3e-7")  # above the margin and the eight digits that a charge is rounded up to


def priced_in_floats(book: Ledger) -> bool:
    """Whether the charge of some entry is, in a currency that its scope counts."""
    return any(
        isinstance(entry.body, Reserved)
        and in_floats(entry.body.parts)
        and any(name not in {"pure", "delta"} for name in entry.body.levels[0].amounts)
        for entry in book.entries()
    )


@functools.cache
def books() -> tuple[Ledger, ...]:
    return tuple(itertools.islice(filter(priced_in_floats, map(machines.random_ledger, itertools.count())), 6))


def on_a_machine(monkeypatch: pytest.MonkeyPatch, factor: Decimal) -> None:
    """Every price in floating point comes out by `factor` larger."""

    def scaled(price: Decimal | None) -> Decimal | None:
        return None if price is None else round_up(price * factor)

    def rdp(found: Callable[..., dict[Decimal, Decimal | None]]) -> Callable[..., dict[Decimal, Decimal | None]]:
        return lambda *asked: {order: scaled(one) for order, one in found(*asked).items()}

    def each(found: Callable[..., tuple[Decimal | None, ...]]) -> Callable[..., tuple[Decimal | None, ...]]:
        return lambda *asked: tuple(map(scaled, found(*asked)))

    def one(found: Callable[..., Decimal | None]) -> Callable[..., Decimal | None]:
        return lambda *asked: scaled(found(*asked))

    def whole(found: Callable[..., Cost]) -> Callable[..., Cost]:
        def scaled_cost(*asked: Any) -> Cost:
            cost = found(*asked)
            pure, orders = scaled(cost.pure), {order: scaled(one) for order, one in cost.rdp.items()}
            return replace(cost, pure=pure, rdp=orders)

        return scaled_cost

    monkeypatch.setattr(costs, "batch_rdp", rdp(batch_rdp))
    monkeypatch.setattr(costs, "batch_rho", one(batch_rho))
    monkeypatch.setattr(rules, "_rdp", each(rules._rdp))
    monkeypatch.setattr(rules, "_rho", one(rules._rho))
    monkeypatch.setattr(certified, "certified_cost", whole(certified.certified_cost))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1 - MOST, 1 + MOST])
def test_an_honest_ledger_verifies(factor: Decimal, monkeypatch: pytest.MonkeyPatch) -> None:
    written = books()  # by prices as they are
    on_a_machine(monkeypatch, factor)
    for number, book in enumerate(written):
        assert book.verify().entries == tuple(book.entries()), f"book {number}"


def test_a_ledger_charged_below_the_price_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: to a verifier whose prices are as much larger, the same ledger is charged too little."""
    written = books()
    on_a_machine(monkeypatch, 1 + BEYOND)
    for book in written:
        with pytest.raises(VerificationError, match=r"charged less than its parts cost|claimed|compose"):
            book.verify()


@pytest.mark.parametrize("price", ["1", "0.123456789012", "99999999.5", "1E-30", "0"])
def test_what_is_charged_is_above_the_price_by_the_margin(price: str) -> None:
    charged = with_margin(Decimal(price))
    assert charged is not None
    assert Decimal(price) * (1 + MARGIN) <= charged <= Decimal(price) * (1 + BEYOND)
