"""The verifier in JavaScript prices noise as the one in Python does, to the last digit that is kept."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

from dpledger.accounting.documents import parse_tree
from dpledger.accounting.pricing.costs import priced
from dpledger.relations import Relation
from javascript_verifier import judged

ORDERS = ["1.0000001", "17.3", "1000000000000"]
EDGES = ["0.000000000000000000000000000000000000000000000000000000000001", "1", "1000", "999999999999999999"]


def plain(price: Decimal) -> str:
    """Its digits, as a number of an entry has them, but of any size."""
    digits = f"{price:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def number(chosen: random.Random) -> str:
    """Between 10^-9 and 10^6, of one to twelve digits; or one at the edge."""
    if chosen.random() < 0.1:
        return chosen.choice(EDGES)
    digits = chosen.randrange(1, 10 ** chosen.randrange(1, 13))
    return plain(Decimal(digits).scaleb(chosen.randrange(-8, 4) - len(str(digits))))


def leaf(chosen: random.Random) -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "pure_dp": lambda: {"epsilon": number(chosen)},
        "laplace": lambda: {"epsilon": number(chosen)},
        "permute_and_flip": lambda: {"epsilon": number(chosen)},
        "exponential": lambda: {"epsilon": number(chosen)},
        "bounded_range": lambda: {"eta": number(chosen)},
        "discrete_laplace": lambda: {"scale": number(chosen), "sensitivity": str(chosen.choice([1, 1, 2, 7, 10**6]))},
        "approx_dp": lambda: {"epsilon": number(chosen), "delta": chosen.choice(["0", "0.00001"])},
        "gaussian": lambda: {"noise_multiplier": number(chosen)},
        "discrete_gaussian": lambda: {"sigma": number(chosen), "sensitivity": number(chosen)},
        "gdp": lambda: {"mu": number(chosen)},
        "zcdp": lambda: {"rho": number(chosen), "delta": chosen.choice(["0", "0.00001"])},
    }
    kind = chosen.choice(list(kinds))
    return {"kind": kind, **kinds[kind]()}


def tree(chosen: random.Random) -> dict[str, Any]:
    match chosen.randrange(8):
        case 0:
            return {"kind": "sequence", "of": [leaf(chosen) for _ in range(3)]}
        case 1:
            return {"kind": "repeated", "of": leaf(chosen), "times": chosen.randrange(1, 10**6)}
        case 2:
            return {"kind": "parallel", "by": "unit", "of": [leaf(chosen) for _ in range(3)]}
        case _:
            return leaf(chosen)


def python_says(case: dict[str, Any]) -> dict[str, str | None]:
    """Of each currency the price; None where no theorem gives one."""
    orders = tuple(map(Decimal, ORDERS))
    found = priced(parse_tree(case["tree"]), Relation(case["relation"]), orders)
    named = {"pure": found.pure, "delta": found.delta, "rho": found.rho, "mu_squared": found.mu_squared}
    named |= {f"rdp_{place}": found.rdp[order] for place, order in enumerate(orders)}
    return {name: None if price is None else plain(price) for name, price in named.items()}


def test_every_price_that_it_knows_is_the_one_in_python() -> None:
    chosen = random.Random(27)
    cases = [
        {"judge": "price", "tree": tree(chosen), "relation": chosen.choice(list(Relation)).value, "orders": ORDERS}
        for _ in range(150)
    ]
    compared = 0
    for case, verdict in zip(cases, judged(cases), strict=True):
        wanted = python_says(case)
        told = {name: price for name, price in verdict.found.items() if price is not None}
        assert told == {name: wanted[name] or "inf" for name in told}, case["tree"]
        assert {"delta", "rho"} <= set(told)
        compared += len(told)
    assert compared > 800
