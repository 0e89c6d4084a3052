"""The account of mu^2 that an (epsilon, delta) budget holds: its size against the closed form at 60 digits, what counts
in it, and the best adaptive analyst by value iteration, who breaks a twin that takes rho for half of mu^2."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import dpledger as dpl
import golden_kinds
from dpledger.accounting import filters, rules
from dpledger.accounting.arithmetic.conversions import gdp_within
from dpledger.accounting.pricing.costs import priced
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from filter_games import UNIT, Product, game
from price_oracles import best_attack, gdp_delta, real

SAID: dict[str, Any] = {"unit": "record", "relation": "add_remove"}


@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "3", "12"])
@pytest.mark.parametrize("delta", ["1e-30", "1e-6", "0.01", "0.9"])
def test_it_is_the_most_that_the_budget_holds(epsilon: str, delta: str) -> None:
    mu = gdp_within(Decimal(epsilon), Decimal(delta))
    assert gdp_delta(real(mu), real(epsilon)) <= real(delta)
    assert gdp_delta(real(mu) * (1 + real("1e-9")), real(epsilon)) > real(delta)
    rules.check(dpl.ApproxDP(epsilon, delta), dpl.GDP(mu), Relation.ADD_REMOVE)


@pytest.mark.parametrize(("epsilon", "delta", "noise"), [(1, "1e-6", 50), (3, "1e-6", 50), ("0.5", "1e-8", 30)])
def test_gaussians_one_by_one_are_as_many_as_in_one_plan(epsilon: Any, delta: str, noise: int) -> None:
    law = dpl.GaussianLaw(noise)
    planned_ = dpl.planning.calibrate_count(lambda count: (law, count), dpl.ApproxDP(epsilon, delta))
    scope = dpl.Ledger.in_memory().scope("rows", budget=dpl.filters.gaussians(epsilon, delta), **SAID)
    assert scope.afford(law).one_by_one == scope.afford(law).planned == planned_


@pytest.mark.parametrize("kind", golden_kinds.EXAMPLES)
def test_everything_with_a_price_in_mu_squared_counts_in_it(kind: str) -> None:
    example = golden_kinds.EXAMPLES[kind]
    relation = Relation.REPLACE_ONE if example.scope == "replacing" else Relation.ADD_REMOVE
    tree = planned(golden_kinds.tree_of(kind, example))
    scope = dpl.Ledger.in_memory().scope(
        "rows", unit="record", relation=relation, budget=dpl.filters.gaussians(50, "1e-3")
    )
    price = priced(tree, relation, ())
    counts = price.mu_squared is not None and not price.delta
    try:
        assert scope.afford(tree, most=1).one_by_one == counts
    except CannotCertify:
        assert not counts


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "0.05"), ("1", "0.05"), ("1.5", "0.02")])
@pytest.mark.parametrize("moves", [("pure 2",), ("pure 1", "pure 4"), ("refunded 4 1", "pure 2")], ids=" + ".join)
def test_no_adaptive_analyst_gets_past_it(epsilon: str, delta: str, moves: tuple[str, ...]) -> None:
    filter_ = filters.gaussians(epsilon, delta)
    product, played = game(filter_, *moves)
    reached = best_attack(product, product.start(), played, float(epsilon), UNIT)
    assert (0.2 * float(delta) if epsilon == "1" else 0) <= reached <= float(delta)


def test_a_twin_that_takes_rho_for_half_of_mu_squared_is_broken() -> None:
    """As of a Gaussian: one response of 0.5 tells more, at an epsilon of 0, than a Gaussian of the same rho."""
    filter_ = filters.gaussians(0, "0.1975")
    product, played = game(filter_, "pure 4")
    cap, outcomes = product.prices["pure 4"]
    assert cap.rho is not None
    twin = Product(filter_, {"pure 4": (replace(cap, mu_squared=2 * cap.rho), outcomes)})
    assert best_attack(product, product.start(), played, 0.0, UNIT) <= 0.1975
    assert best_attack(twin, twin.start(), played, 0.0, UNIT) > 0.24
