"""What a kind of leaf must say about itself: every fact that pricing, the engine and the ledger ask for.

No fact has a default. A kind that leaves one out cannot be imported (TypeError); one for which there is no theorem says
so by `no_theorem(...)`, and one for which there is nothing of the sort says that by its name, where the fact allows it
(`NO_OUTCOME`, `BY_ITS_BRACKET`, ...).

>>> LeafRules(kind=str)  # doctest: +ELLIPSIS
Traceback (most recent call last):
...
TypeError: LeafRules.__init__() missing 6 required keyword-only arguments: 'attested', 'price', 'pair', ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Generic, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.draws import Draw, Ranged, Runs
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.renyi_curves import RenyiCurve
from dpledger.decimals import float_up
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "BY_ITS_BRACKET",
    "BY_ITS_LOSSES",
    "EXACT",
    "HAS_A_PAIR",
    "NEVER",
    "NO_ALLOWANCE",
    "NO_FIELDS",
    "NO_OUTCOME",
    "NO_SQUARES",
    "OF_A_FIXED_SIZE",
    "ONE_MECHANISM",
    "BatchFacts",
    "CountedLosses",
    "Divergences",
    "ExPost",
    "GroupFacts",
    "LeafRules",
    "LossBracket",
    "Mirror",
    "Orders",
    "PairFacts",
    "PriceFacts",
    "RangeEnvelope",
    "Squares",
    "exact_pair",
    "floats_up",
    "found_by_its_bracket",
    "may_overlap",
    "mirrors_itself",
    "never_fails",
    "no_group",
    "no_theorem",
    "overlapping",
    "states_no_orders",
    "written",
]

L = TypeVar("L")
Orders: TypeAlias = tuple[Decimal, ...]
Divergences: TypeAlias = tuple[Decimal | None, ...]
Mirror: TypeAlias = Literal["itself", "above", "not"]
NEVER = Fraction(0)


NO_FIELDS: Final = frozenset[str]()
NO_OUTCOME: Final = None
"""`outcome` of a kind of which no run says what it lost."""
BY_ITS_BRACKET: Final = None
"""`alone` or `sampled` of a kind whose losses are those of its finite pairs."""
HAS_A_PAIR: Final = None
"""`renyi` of a kind that shows a pair."""
NO_SQUARES: Final = None
"""`squares` of a kind that is not Gaussian noise."""
ONE_MECHANISM: Final = None
"""`envelope` of a kind that is one mechanism."""
EXACT: Final = None
"""`reason` of a kind whose pair is known exactly, or as closely as it is asked for."""
NO_ALLOWANCE: Final = None
"""`copies` of a kind that is no law of an allowance."""
BY_ITS_LOSSES: Final = None
"""`divergences` of a kind whose batch costs what its losses do, where these are bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFacts(Generic[L]):
    """What it costs.

    `cap`: in every currency, under a relation, in RDP at the orders asked for. A currency without a theorem is None.
    `exclusive`: whether no theorem lets it run beside another interaction.
    `stated_orders`: Renyi orders that the leaf names.
    `noise_fields`, `loss_fields`: its numbers of which more costs less, and of which more costs more.
    `in_floats`: whether its own rho or Renyi prices are computed in floating point, which machines round apart."""

    cap: Callable[[L, Relation, Orders], Cost]
    exclusive: Callable[[L], bool]
    stated_orders: Callable[[L], Orders]
    noise_fields: frozenset[str]
    loss_fields: frozenset[str]
    in_floats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Squares(Generic[L]):
    """Of Gaussian noise, whose squares add: `ratio`, mu^2 of a leaf; `together`, what several on one batch are;
    `loss`, that of all at once; `in_samples`, of mu^2, a rate and k, what k units that come or go together see of
    Poisson samples, and `exchanged` what k that are exchanged see, mu^2 being that of one contribution; or
    CannotCertify. mu^2 above 0."""

    ratio: Callable[[L, Relation], tuple[int, int]]
    together: Callable[[Fraction], Any]
    loss: Callable[[float], Loss]
    in_samples: Callable[[Fraction, Fraction, int], Any]
    exchanged: Callable[[Fraction, Fraction, int], Any]


CountedLosses: TypeAlias = tuple[tuple[Loss, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeEnvelope(Generic[L]):
    """Of a kind whose pair is an envelope of all mechanisms of that bounded range: no one of them attains it in every
    run.

    `eta`: the range. `above`: of ranges with their envelopes, in the order that is known or in any, lists of losses
    that dominate, the more the `effort` the closer. `tilts`: at which the loss of all these runs is far out. `below`:
    of two losses, eta apart, for a tilt: what some conversation shows."""

    eta: Callable[[L], Decimal]
    above: Callable[[Sequence[tuple[Ranged, Loss]], Runs | None, int], tuple[CountedLosses, ...]]
    tilts: Callable[[Sequence[Ranged]], tuple[float, ...]]
    below: Callable[[Sequence[Ranged], tuple[float, ...], float, Direction, Runs | None], CountedLosses]


@dataclass(frozen=True, slots=True)
class LossBracket:
    """A loss that dominates, and one of what some mechanism of the description shows, or less."""

    above: Loss
    below: Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFacts(Generic[L]):
    """What it is as a pair (P, Q) of distributions, with the unit and without it.

    `failure`: at least the mass of its loss at infinity, exact; in the direction asked for.
    `mirrors`: "itself" where the pair is the same in both directions, up to the order of its outcomes; "above" where
        that is so of what dominates it; else "not". Where a unit is exchanged, neither side is the one with the unit:
        there a leaf that says "not" is refused.
    `bracket`: finite pairs above and below it, P first: one object where it is finite. None: it shows nothing.
    `alone`: its own loss on everyone, in a direction, or one above and one below; or BY_ITS_BRACKET.
    `squares`: of Gaussian noise; or NO_SQUARES.
    `renyi`: what it promises in place of a pair, None of a leaf that shows nothing; or HAS_A_PAIR.
    `envelope`: of bounded ranges; or ONE_MECHANISM.
    `reason`: what keeps its bounds apart, in one sentence; or EXACT."""

    failure: Callable[[L, Direction], Fraction]
    mirrors: Callable[[L], Mirror]
    bracket: Callable[[L, Relation], PairBracket | None]
    alone: Callable[[L, Relation, Direction], Loss | LossBracket | None] | None
    squares: Squares[L] | None
    renyi: Callable[[L], RenyiCurve | None] | None
    envelope: RangeEnvelope[L] | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts(Generic[L]):
    """What it is to other runs of itself, and to more than one unit.

    `grouped`: the leaf for k > 1 steps of the relation that it is stated under.
    `relative`: whether what it is depends on the relation: then it is grouped for one step too.
    `copies`: of a law and another leaf of the kind, how many independent draws of the law's pair the leaf's is a
        post-processing of, in both directions; None where none is known to do; or NO_ALLOWANCE. Source:
        docs/proofs/allowances.md, "Copies"."""

    grouped: Callable[[L, int, Relation], Any]
    relative: bool
    copies: Callable[[L, L], int | None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts(Generic[L]):
    """What it is on a secret batch.

    `sampled`: its own loss on a Poisson sample of this rate below 1; or BY_ITS_BRACKET, or OF_A_FIXED_SIZE.
    `shuffled`: finite pairs above and below the shuffled outputs of so many users, who each run it.
    `quick`: whether the losses on a Poisson sample are formed faster than they are looked up.
    `null_is_absence`: whether a unit that is zeroed out shows as one that is not there, so that what is known of
        samples under add_remove holds under zero_out; and any record is as far from that as any other, so that a unit
        that is exchanged on a Poisson sample has a pair.
    `divergences`: at least the Renyi divergence of each of some orders in both directions, None where nothing is known,
        each a function of its own order alone; or BY_ITS_LOSSES."""

    sampled: Callable[[L, float, Relation, Direction], Loss | None] | None
    shuffled: Callable[[L, int], PairBracket | None]
    quick: bool
    null_is_absence: bool
    divergences: Callable[[L, Draw, Relation, Orders], Divergences] | None


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
    """The facts of one kind, in five groups. A fact is a function of the leaf, and of what stands beside it.

    `attested`: whether the leaf states what it guarantees, which is somebody's word; what a law guarantees is
    recomputed from its parameters. `outcome`: or NO_OUTCOME."""

    kind: type[L]
    attested: bool
    price: PriceFacts[L]
    pair: PairFacts[L]
    group: GroupFacts[L]
    batch: BatchFacts[L]
    outcome: ExPost[L] | None


def no_theorem(reason: str) -> Callable[..., NoReturn]:
    """The fact of which nothing is known: CannotCertify with this reason, whoever asks."""

    def refuse(*_: object) -> NoReturn:
        raise CannotCertify(reason)

    return refuse


OF_A_FIXED_SIZE: Final = no_theorem("what holds of a fixed number of units does not cover a batch drawn otherwise")
"""`sampled` of a kind that states how many units there are: no batch is drawn for it."""


# ---- facts that many kinds state ------------------------------------------------------------------------------------


def overlapping(
    cap: Callable[[L, Relation, Orders], Cost], *, noise_fields: frozenset[str], loss_fields: frozenset[str]
) -> PriceFacts[L]:
    """The price of a kind that may overlap with others, names no orders and is priced exactly."""
    return PriceFacts(
        cap=cap,
        exclusive=may_overlap,
        stated_orders=states_no_orders,
        noise_fields=noise_fields,
        loss_fields=loss_fields,
        in_floats=False,
    )


def exact_pair(
    *,
    failure: Callable[[L, Direction], Fraction],
    mirrors: Callable[[L], Mirror],
    bracket: Callable[[L, Relation], PairBracket | None],
    alone: Callable[[L, Relation, Direction], Loss | LossBracket | None] | None,
) -> PairFacts[L]:
    """The pair of one mechanism, known as closely as it is asked for, that is no Gaussian noise."""
    return PairFacts(
        failure=failure,
        mirrors=mirrors,
        bracket=bracket,
        alone=alone,
        squares=NO_SQUARES,
        renyi=HAS_A_PAIR,
        envelope=ONE_MECHANISM,
        reason=EXACT,
    )


def found_by_its_bracket(shuffled: Callable[[L, int], PairBracket | None]) -> BatchFacts[L]:
    """The batch of a kind of which nothing is known but its finite pairs, and what shuffling does to them."""
    return BatchFacts(
        sampled=BY_ITS_BRACKET, shuffled=shuffled, quick=False, null_is_absence=False, divergences=BY_ITS_LOSSES
    )


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
