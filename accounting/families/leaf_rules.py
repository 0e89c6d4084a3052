"""What a kind of leaf must say about itself: every fact that pricing, the engine and the ledger ask for.

No fact has a default. A kind that leaves one out cannot be imported (TypeError); one for which there is no theorem says
so by `no_theorem(...)`, and one for which there is nothing of the sort says None, where the fact allows it.

>>> LeafRules(kind=str)  # doctest: +ELLIPSIS
Traceback (most recent call last):
...
TypeError: LeafRules.__init__() missing 24 required keyword-only arguments: 'attested', 'price', 'failure', ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.laws.cells import Bracket
from dpledger.accounting.laws.draws import Draw
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.renyi_curves import RenyiCurve
from dpledger.decimals import float_up
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "NEVER",
    "Divergences",
    "ExPost",
    "LeafRules",
    "Mirror",
    "Orders",
    "floats_up",
    "may_overlap",
    "mirrors_itself",
    "never_fails",
    "no_group",
    "no_theorem",
    "states_no_orders",
    "written",
]

L = TypeVar("L")
Orders: TypeAlias = tuple[Decimal, ...]
Divergences: TypeAlias = tuple[Decimal | None, ...]
Mirror: TypeAlias = Literal["itself", "above", "not"]
NEVER = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExPost(Generic[L]):
    """Of a kind whose run may publish an outcome that says what it lost.

    `known`: whether the leaf has its outcome. `planned`: the leaf without it. Of a leaf with an outcome: `answers`, how
    many answers it speaks of, None where it counts none; `require_possible`, ParameterError where no run of the leaf
    has it; `loss`, an epsilon that bounds the log likelihood ratio at the outcome. Settling takes the smaller of the
    loss and the cap, refunds nothing else, and never a delta."""

    known: Callable[[L], bool]
    planned: Callable[[L], L]
    answers: Callable[[L], int | None]
    require_possible: Callable[[L], None]
    loss: Callable[[L], Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRules(Generic[L]):
    """The facts of one kind. A fact is a function of the leaf, and of what stands beside it.

    Whose word it is
        `attested`: whether it states what it guarantees, which is somebody's word; what a law guarantees is recomputed
            from its parameters.

    What it costs
        `price`: its cap in every currency, under a relation, in RDP at the orders asked for. A currency without a
            theorem is None.
        `failure`: at least the mass of its loss at infinity, exact; in the direction asked for.
        `outcome`: None where no run of it says what it lost.
        `exclusive`: whether no theorem lets it run beside another interaction.
        `stated_orders`: Renyi orders that the leaf names.
        `noise_fields`, `loss_fields`: its numbers of which more costs less, and of which more costs more.

    What it is as a pair (P, Q) of distributions, with the unit and without it
        `mirrors`: "itself" where the pair is the same in both directions, up to the order of its outcomes; "above"
            where that is so of what dominates it; else "not". Where a unit is exchanged, neither side is the one
            with the unit: there a leaf that says "not" is refused.
        `bracket`: finite pairs above and below it, P first: one object where it is finite. None: it shows nothing.
        `alone`: its own loss on everyone, in a direction; None for a kind: by its bracket.
        `sampled`: its own loss on a Poisson sample of this rate below 1; None for a kind: by its bracket.
        `shuffled`: finite pairs above and below the shuffled outputs of so many users, who each run it.
        `quick`: whether the losses on a Poisson sample are formed faster than they are looked up.
        `in_floats`: whether its own rho or Renyi prices are computed in floating point, which machines round apart.
        `null_is_absence`: whether a unit that is zeroed out shows as one that is not there, so that what is known of
            samples under add_remove holds under zero_out.

    What it is to other runs of itself
        `grouped`: the leaf for k > 1 steps of the relation that it is stated under.
        `relative`: whether what it is depends on the relation: then it is grouped for one step too.
        `gaussian`: its mu^2 as a ratio; None for a kind that is not Gaussian noise. Those add.
        `renyi`: what it promises in place of a pair, None of a leaf that shows nothing; None for a kind with a pair.
        `range`: eta, of a kind whose pair is an envelope of all mechanisms of that bounded range: no one of them
            attains it in every run; None for a kind that is one mechanism.
        `copies`: of a law and another leaf of the kind, how many independent draws of the law's pair the leaf's is a
            post-processing of, in both directions; None where none is known to do. None for a kind that is no law of an
            allowance. Source: docs/proofs/allowances.md, "Copies".
        `batch_divergences`: of a secret batch, at least the Renyi divergence of each of some orders in both directions,
            None where nothing is known, each a function of its own order alone; None for a kind of which they are those
            of its losses, where these are bounded.

    What keeps its bounds apart
        `reason`: one sentence; None where its pair is exact.
    """

    kind: type[L]
    attested: bool

    price: Callable[[L, Relation, Orders], Cost]
    failure: Callable[[L, Direction], Fraction]
    outcome: ExPost[L] | None
    exclusive: Callable[[L], bool]
    stated_orders: Callable[[L], Orders]
    noise_fields: frozenset[str]
    loss_fields: frozenset[str]

    mirrors: Callable[[L], Mirror]
    bracket: Callable[[L, Relation], Bracket | None]
    alone: Callable[[L, Relation, Direction], Loss | None] | None
    sampled: Callable[[L, float, Relation, Direction], Loss | None] | None
    shuffled: Callable[[L, int], Bracket | None]
    quick: bool
    in_floats: bool
    null_is_absence: bool

    grouped: Callable[[L, int, Relation], Any]
    relative: bool
    gaussian: Callable[[L, Relation], tuple[int, int]] | None
    renyi: Callable[[L], RenyiCurve | None] | None
    range: Callable[[L], Decimal] | None
    copies: Callable[[L, L], int | None] | None
    batch_divergences: Callable[[L, Draw, Relation, Orders], Divergences] | None

    reason: str | None


def no_theorem(reason: str) -> Callable[..., NoReturn]:
    """The fact of which nothing is known: CannotCertify with this reason, whoever asks."""

    def refuse(*_: object) -> NoReturn:
        raise CannotCertify(reason)

    return refuse


# ---- facts that many kinds state ------------------------------------------------------------------------------------


def no_group(kind: str) -> Callable[..., NoReturn]:
    """`grouped` of a kind that no theorem gives to a group."""

    def refuse(_leaf: object, k: int, _relation: Relation) -> NoReturn:
        raise CannotCertify(f"no theorem gives this {kind} to a group of {k}")

    return refuse


def never_fails(_leaf: object, _direction: Direction) -> Fraction:
    """`failure` of a pair without mass at infinity."""
    return NEVER


def may_overlap(_leaf: object) -> bool:
    """`exclusive` of what a theorem composes concurrently: pure DP, GDP, zCDP and RDP without a delta (Lyu 2022; Haney
    et al. 2023), (epsilon, delta)-DP (Vadhan-Wang 2021)."""
    return False


def mirrors_itself(_leaf: object) -> Mirror:
    """`mirrors` of noise that is as likely up as down, and of the worst case of a promise made in both directions."""
    return "itself"


def floats_up(orders: Orders) -> Array:
    """The orders as floats, rounded up: a divergence rises with the order."""
    return np.array([float_up(order) for order in orders])


def written(bound: float) -> Decimal | None:
    """A bound computed in floating point as a price; None for one that is infinite. CannotCertify where floating point
    is not what its error bounds assume."""
    return outward.above(Decimal.from_float(bound)) if bound < math.inf else None


def states_no_orders(_leaf: object) -> Orders:
    """`stated_orders` of a kind that names none."""
    return ()
