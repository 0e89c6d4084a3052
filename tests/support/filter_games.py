"""The product's filters as something to play against: what each move is charged, and what its outcomes settle at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpledger.accounting import filters, rules
from dpledger.accounting.arithmetic.conversions import zcdp_of_pure
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.relations import Relation
from price_oracles import Move, failing, lopsided, response

Kept = tuple[tuple[str, filters.Sum], ...]
UNITS = Decimal("0.125")
UNIT = float(UNITS)
FAILURE = Decimal("0.02")


def cost(tree: PureDP | ZCDP | ApproxDP, filter_: Filter) -> Cost:
    return rules.cost(tree, Relation.ADD_REMOVE, orders=filters.orders(filter_))


def realised(cap: Cost, epsilon: Decimal) -> Cost:
    """A pure ex-post outcome: only the pure price settles."""
    return Cost(pure=epsilon, delta=cap.delta, rho=cap.rho, mu_squared=cap.mu_squared, rdp=cap.rdp)


@dataclass(frozen=True)
class Product:
    """The product's filter, told the price of each move and of each of its outcomes."""

    filter: Filter
    prices: Mapping[str, tuple[Cost, tuple[Cost, ...]]]

    def admit(self, state: Kept, move: Move) -> tuple[Kept, ...] | None:
        cap, outcomes = self.prices[move.name]
        reserved = filters.charge(self.filter, cap)
        sums = dict(state)
        if not filters.admits(self.filter, filters.with_charge(self.filter, sums, reserved)):
            return None
        settled = (filters.settle(self.filter, reserved, outcome) for outcome in outcomes)
        return tuple(tuple(filters.with_charge(self.filter, sums, charge).items()) for charge in settled)

    def start(self) -> Kept:
        return tuple(filters.opening(self.filter).items())


def game(filter_: Filter, *names: str) -> tuple[Product, tuple[Move, ...]]:
    """The moves that `names` say: "pure 4" (a randomized response of 4 units, declared as pure DP), "zcdp 2" (declared
    as zCDP alone), "refunded 4 1" (losses of +4 and -1 units, charged what it reveals), "failing 2" (it reveals
    everything with probability 0.02, and is declared so)."""
    prices: dict[str, tuple[Cost, tuple[Cost, ...]]] = {}
    moves = []
    for name in names:
        kind, *units = name.split()
        sizes = [int(size) for size in units]
        cap = cost(PureDP(UNITS * max(sizes)), filter_)
        match kind:
            case "refunded":
                move = Move(name, lopsided(sizes[0], sizes[1], UNIT))
                settled = tuple(realised(cap, UNITS * size) for size in sizes)
            case "failing":
                cap = cost(ApproxDP(UNITS * sizes[0], FAILURE), filter_)
                move, settled = Move(name, failing(sizes[0], float(FAILURE), UNIT)), (cap, cap, cap)
            case "outcome":  # as `refunded`, without a Renyi price (as the sparse vector): charged as an epsilon
                cap = Cost(pure=cap.pure, rho=None, mu_squared=None, rdp=dict.fromkeys(cap.rdp))
                move = Move(name, lopsided(sizes[0], sizes[1], UNIT))
                settled = tuple(realised(cap, UNITS * size) for size in sizes)
            case _:
                cap = cost(ZCDP(zcdp_of_pure(UNITS * sizes[0])), filter_) if kind == "zcdp" else cap
                move, settled = Move(name, response(sizes[0], UNIT)), (cap, cap)
        moves.append(move)
        prices[name] = (cap, settled)
    return Product(filter_, prices), tuple(moves)
