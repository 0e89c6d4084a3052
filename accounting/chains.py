"""Chains of releases of one statistic, each finer than the one before: the node `chain`, and which level is finer.

A chain publishes levels one after another, each with less noise. What it shows is what its last level shows: the levels
before it are computed from it, by randomness that is independent of the data (docs/proofs/filters.md, "Chains"). So a
chain is one charge, at the finest level that may be published, and its levels do not add up.

>>> chain = Chain(LaplaceLaw(2), reached=LaplaceLaw("0.5"))
>>> is_within(chain.reached, chain.of), finer(LaplaceLaw(1), LaplaceLaw("0.5")).epsilon
(True, Decimal('1'))
>>> Chain(LaplaceLaw(1), reached=LaplaceLaw(2))
Traceback (most recent call last):
...
dpledger.errors.ParameterError: Chain.reached: expected a level of this chain, not above `of`, got LaplaceLaw
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

from pydantic import Field, ValidationInfo, field_validator

from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.leaves import DiscreteLaplaceLaw, GaussianLaw, LaplaceLaw
from dpledger.decimals import ZERO, negative
from dpledger.schema import given, record, tag

__all__ = ["Chain", "ChainLaw", "Level", "finer", "finest", "is_within", "settles_by_levels"]

ChainLaw: TypeAlias = LaplaceLaw | DiscreteLaplaceLaw | GaussianLaw
"""What a level of a chain may be."""
Level: TypeAlias = ChainLaw | PureDP
"""How far a chain came: its last level, or pure_dp of epsilon 0 where it was closed before the first."""

if not TYPE_CHECKING:
    ChainLaw = Annotated[ChainLaw, Field(discriminator="kind")]
    Level = Annotated[Level, Field(discriminator="kind")]


@record
class Chain:
    """Successive refinement: `of` is the finest level that may be published, `reached` the last one that was.

    `boundary`, of a Gaussian chain: a curve that gives it a pure price, with that delta (Whitehouse-Wu-Ramdas-Rogers
    2022). Koufogiannis-Han-Pappas 2015; Ligett-Neel-Roth-Waggoner-Wu 2017.

    >>> levels = dpl.ex_post.Chain(of=dpl.LaplaceLaw("0.5"), reached=dpl.LaplaceLaw("0.1"))
    >>> round(dpl.compose(levels).epsilon(0).upper, 4)  # as a plan: down to the finest level
    0.5
    """

    of: ChainLaw
    reached: Level | None = given(default=None)
    boundary: TimeUniformBoundary | None = given(default=None)
    kind: Literal["chain"] = tag(default="chain")

    @field_validator("reached")
    @classmethod
    def _is_a_level(cls, reached: Level | None, info: ValidationInfo) -> Level | None:
        of = info.data.get("of")
        if reached is not None and of is not None and not is_within(reached, of):
            raise ValueError("a level of this chain, not above `of`")
        return reached

    @field_validator("boundary")
    @classmethod
    def _has_a_variance(cls, boundary: TimeUniformBoundary | None, info: ValidationInfo) -> TimeUniformBoundary | None:
        if boundary is not None and not isinstance(info.data.get("of"), GaussianLaw):
            raise ValueError("none: only a Gaussian chain has one")
        return boundary


def settles_by_levels(of: ChainLaw) -> bool:
    """Whether each level, given those before it, is a release of its own whose price is fixed before it: so that the
    levels that were not taken come back in every currency, and not only the epsilon of the last one.

    Source: docs/proofs/filters.md, "Chains"."""
    match of:
        case LaplaceLaw() | DiscreteLaplaceLaw():
            return False
        case GaussianLaw():
            return True
        case _:
            assert_never(of)


def is_within(level: Level, finest_: Level) -> bool:
    """Whether `level` is one of a chain that comes as far as `finest_`: of its kind and sensitivity, and not above it.

    Compared exactly."""
    if isinstance(level, PureDP):
        return not level.epsilon
    if isinstance(finest_, PureDP):
        return False
    (chain, place), (other, end) = _placed(level), _placed(finest_)
    return chain == other and place <= end


def _placed(level: ChainLaw) -> tuple[tuple[str, Decimal], Decimal]:
    """The chain that a level is of, and a number that rises along it."""
    match level:
        case LaplaceLaw(epsilon=epsilon):
            return (level.kind, ZERO), epsilon
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            return (level.kind, sensitivity), negative(scale)
        case GaussianLaw(noise_multiplier=noise_multiplier):
            return (level.kind, ZERO), negative(noise_multiplier)
        case _:
            assert_never(level)


def finer(one: Level, other: Level) -> Level:
    """The finer of two levels; `one` where they are not of one chain."""
    return other if is_within(one, other) else one


def finest(levels: Iterable[ChainLaw], more: ChainLaw) -> tuple[ChainLaw, ...]:
    """`levels` and one more, without those that a finer one covers: one for each kind of chain."""
    kept = tuple(levels)
    if any(is_within(more, level) for level in kept):
        return kept
    return (*(level for level in kept if not is_within(level, more)), more)
