"""The composition tree: one language for "what was run", in documents, ledger entries, mechanisms and tests.

Leaves are laws with their parameters or declared guarantees; nodes say how they combine. A tree names no relation: it
stands beside one. It is read from JSON by `documents`, and written by `schema.plain`.

>>> tree = PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01")
>>> [leaf.kind for leaf in leaves(tree)]
['gaussian']
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Number
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, TypeGuard, assert_never, overload

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from dpledger.accounting.chains import Chain
from dpledger.accounting.filters import AllowanceFilter, Filter
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.leaves import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    GaussianWithReplacementLaw,
    LaplaceLaw,
    Leaf,
    MixtureOfGaussiansLaw,
    OffsetZCDP,
    PermuteAndFlipLaw,
    PmfPair,
    RandomizedResponseLaw,
    SparseVectorLaw,
    SparseVectorOutcome,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.trials import Trials
from dpledger.number_fields import Count, Rate, Tally, Whole
from dpledger.relations import Relation
from dpledger.schema import complete, given, record, tag

__all__ = [
    "AllowanceFilter",
    "Chain",
    "Composition",
    "Converted",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ExPostDP",
    "ExPostOutcome",
    "ExponentialLaw",
    "Filtered",
    "GaussianLaw",
    "GaussianWithReplacementLaw",
    "Group",
    "HasParts",
    "LaplaceLaw",
    "Leaf",
    "MixtureOfGaussiansLaw",
    "Node",
    "OffsetZCDP",
    "Parallel",
    "PermuteAndFlipLaw",
    "PmfPair",
    "PoissonSampled",
    "PostProcessed",
    "RandomAllocation",
    "RandomizedResponseLaw",
    "Repeated",
    "SampledWithoutReplacement",
    "Selected",
    "Sequence",
    "Shuffled",
    "SparseVectorLaw",
    "SparseVectorOutcome",
    "TruncatedSampledGaussianLaw",
    "children",
    "is_pair",
    "leaves",
]


class HasParts(Protocol):
    """What a node takes beside a tree: a mechanism, which is replaced by its parts. In a pair with a count it stands
    for its `repeated`: `Sequence((a, (b, 1000)))`."""

    def parts(self) -> Composition: ...


if TYPE_CHECKING:

    class Part:
        """A field that holds a tree and takes a tree or anything that has `parts()`."""

        @overload
        def __get__(self, instance: None, owner: type) -> Part: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Composition: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(
            self, instance: object, value: Composition | HasParts | tuple[Composition | HasParts, int]
        ) -> None: ...

    class Parts:
        """A field that holds a tuple of trees and takes any sequence of trees or of things that have `parts()`."""

        @overload
        def __get__(self, instance: None, owner: type) -> Parts: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Composition, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(
            self, instance: object, value: tuple[Composition | HasParts | tuple[Composition | HasParts, int], ...]
        ) -> None: ...


def _parts_of(value: object) -> object:
    if is_pair(value):
        part, times = value
        return Repeated(part, times=times)
    parts = None if isinstance(value, type) else getattr(value, "parts", None)
    return parts() if callable(parts) else value


def is_pair(value: object) -> TypeGuard[tuple[Any, Any]]:
    """Whether `value` is a pair of something and how often it ran: two items, of which the second is a number."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Number)


if not TYPE_CHECKING:
    Part = Annotated["Composition", BeforeValidator(_parts_of)]
    Parts = Annotated[tuple[Part, ...], Field(min_length=1)]


# ---- nodes ----------------------------------------------------------------------------------------------------------


@record
class Sequence:
    """One after another, every parameter fixed before the first release (the mechanisms themselves may look back).
    `compose` reads it in any order, unless it is told that this is the one.
    `done`: how many of them were started, the first ones, once known.

    >>> both = dpl.Sequence((dpl.LaplaceLaw("0.1"), (dpl.LaplaceLaw("0.2"), 3)))
    >>> round(dpl.compose(both).epsilon(0).upper, 4)
    0.7
    """

    of: Parts
    done: Tally | None = given(default=None)
    kind: Literal["sequence"] = tag(default="sequence")

    @field_validator("done")
    @classmethod
    def _were_planned(cls, done: int | None, info: ValidationInfo) -> int | None:
        planned = len(info.data.get("of", ()))
        if done is not None and done > planned:
            raise ValueError(f"at most {planned}, the number of parts")
        return done


@record
class Repeated:
    """The same, `times` times. `done`: how many were started, once known (a plan stopped early).

    >>> planned = dpl.Repeated(dpl.LaplaceLaw("0.1"), times=10)
    >>> round(dpl.compose(planned).epsilon("1e-6").upper, 4)
    0.999
    """

    of: Part
    times: Count
    done: Tally | None = given(default=None)
    kind: Literal["repeated"] = tag(default="repeated")


@record
class PoissonSampled:
    """Run on a secret batch that holds each unit independently with probability `rate`. add_remove and zero_out.

    >>> step = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier=1), rate="0.01")
    >>> round(dpl.compose((step, 1000)).epsilon("1e-5").upper, 4)
    1.8282
    """

    of: Part
    rate: Rate
    kind: Literal["poisson_sampled"] = tag(default="poisson_sampled")


@record
class SampledWithoutReplacement:
    """Run on a secret batch: a uniformly random set of `batch` of the `population` units. replace_one.

    >>> step = dpl.SampledWithoutReplacement(of=dpl.LaplaceLaw(1), population=1000, batch=10)
    >>> round(dpl.compose(step, relation="replace_one").epsilon(0).upper, 4)
    0.017
    """

    of: Part
    population: Count
    batch: Count
    kind: Literal["sampled_without_replacement"] = tag(default="sampled_without_replacement")

    @field_validator("batch")
    @classmethod
    def _batch_fits(cls, batch: int, info: ValidationInfo) -> int:
        if batch > info.data.get("population", batch):
            raise ValueError("at most the population")
        return batch


@record
class Shuffled:
    """Each of `users` units runs `of` on its own data, with its own randomness; only the set of all outputs is
    published, in random order. replace_one; `of` must be pure.

    >>> survey = dpl.Shuffled(of=dpl.RandomizedResponseLaw(epsilon=1, k=2), users=500)
    >>> round(dpl.compose(survey, relation="replace_one").epsilon("1e-6").upper, 2)
    0.22
    """

    of: Part
    users: Annotated[Whole, Field(strict=True, ge=1, le=10**9)]
    kind: Literal["shuffled"] = tag(default="shuffled")


@record
class RandomAllocation:
    """Each unit is dealt, secretly and uniformly, to one of `steps` batches, or to `k` of them; `of` runs on each batch
    in turn.

    >>> dealt = dpl.RandomAllocation(of=dpl.RandomizedResponseLaw(epsilon=1, k=2), steps=30)
    >>> round(dpl.compose(dealt).epsilon("1e-5").upper, 4)
    0.8715
    """

    of: Part
    steps: Annotated[Whole, Field(strict=True, ge=1, le=10**6)]
    k: Annotated[Whole, Field(strict=True, ge=1, le=10**6)] | None = given(default=None)
    kind: Literal["random_allocation"] = tag(default="random_allocation")

    @field_validator("k")
    @classmethod
    def _are_there(cls, k: int | None, info: ValidationInfo) -> int | None:
        steps = info.data.get("steps")
        if k is not None and steps is not None and k > steps:
            raise ValueError(f"at most {steps}, the number of steps")
        return k


@record
class Group:
    """`of`, for `k` steps of the inner `relation`: what it costs k units at once, or one unit under a relation of which
    a step is k inner ones (replace_one is two steps of add_remove or of zero_out; label_flip is one of replace_one).
    Over a Poisson sample of Gaussian noise: k units that all come or all go (`planning.MixtureOfGaussiansLaw`).

    >>> household = dpl.Group(of=dpl.LaplaceLaw("0.1"), k=4, relation="add_remove")
    >>> round(dpl.compose(household).epsilon(0).upper, 4)
    0.4
    """

    of: Part
    k: Annotated[Whole, Field(strict=True, ge=1, le=10**6)]
    relation: Relation
    kind: Literal["group"] = tag(default="group")


@record
class Parallel:
    """Each child reads its own part of the units, disjoint from the others' and fixed before the first release; under
    add_remove the maximum counts. McSherry 2009, Theorem 4. `by`: "unit" where each unit's part is fixed by its id, a
    secret coin of its own, or a public position (not under add_remove, where a removal shifts positions): then the
    maximum counts under every relation. Absent: by what the data hold, so that a unit that changes may move.

    >>> wards = dpl.Parallel(of=(dpl.LaplaceLaw("0.1"), dpl.LaplaceLaw("0.3")))
    >>> round(dpl.compose(wards).epsilon(0).upper, 4)
    0.3
    """

    of: Parts
    by: Literal["unit"] | None = given(default=None)
    kind: Literal["parallel"] = tag(default="parallel")


@record
class PostProcessed:
    """Computed from the outputs of `of` alone: costs what `of` costs.

    >>> round(dpl.compose(dpl.PostProcessed(dpl.LaplaceLaw("0.1"))).epsilon(0).upper, 4)
    0.1
    """

    of: Part
    kind: Literal["post_processed"] = tag(default="post_processed")


@record
class Selected:
    """The best of a secret number of independent runs of `of`, by a fixed order of what it outputs; only that output is
    published. `repeats`: the law of the number. Liu-Talwar 2019; Papernot-Steinke 2022.

    >>> trials = dpl.planning.NegativeBinomialTrials(eta=1, gamma="0.01")
    >>> best_of_100 = dpl.planning.Selected(of=dpl.LaplaceLaw("0.1"), repeats=trials)
    >>> round(dpl.compose(best_of_100).epsilon(0).upper, 4)
    0.3
    """

    of: Part
    repeats: Trials
    kind: Literal["selected"] = tag(default="selected")


@record
class Converted:
    """`of`, read as a weaker promise: `to`, which a conversion formula gives it under the inner `relation`; so that
    what follows needs no more than that (a sample amplifies (epsilon, delta), not zCDP).

    >>> weaker = dpl.planning.Converted(of=dpl.ZCDP("0.01"), to=dpl.ApproxDP(1, "1e-6"), relation="add_remove")
    >>> round(dpl.compose(weaker).epsilon("1e-6").upper, 4)
    1.0
    """

    of: Part
    to: Guarantee
    relation: Relation
    kind: Literal["converted"] = tag(default="converted")


@record
class Filtered:
    """Admitted one by one under a named filter, parameters chosen adaptively: its budget is the guarantee."""

    filter: Filter
    of: Parts
    kind: Literal["filtered"] = tag(default="filtered")


Node: TypeAlias = (
    Sequence
    | Repeated
    | PoissonSampled
    | SampledWithoutReplacement
    | Shuffled
    | RandomAllocation
    | Group
    | Parallel
    | Chain
    | PostProcessed
    | Selected
    | Converted
    | Filtered
)
"""The closed union of nodes: a `match` over them ends in `assert_never`."""

Composition: TypeAlias = Leaf | Node
"""The closed union of leaves and nodes; told apart by `kind`."""

if not TYPE_CHECKING:
    Composition = Annotated[Composition, Field(discriminator="kind")]


complete(AllowanceFilter, names={"Law": Composition})
complete(*Node.__args__)


def children(tree: Composition) -> tuple[Composition, ...]:
    """The trees directly below a node; none below a leaf. A walk that uses it meets every leaf, of any node."""
    if isinstance(tree, Leaf):
        return ()
    match tree:
        case Sequence(of=parts) | Parallel(of=parts) | Filtered(of=parts):
            return parts
        case Repeated(of=part) | PoissonSampled(of=part) | SampledWithoutReplacement(of=part) | Shuffled(of=part):
            return (part,)
        case RandomAllocation(of=part) | Group(of=part) | PostProcessed(of=part) | Converted(of=part) | Chain(of=part):
            return (part,)
        case Selected(of=part):
            return (part,)
        case _:
            assert_never(tree)


def leaves(tree: Composition) -> Iterator[Leaf]:
    """Every leaf of a tree, from left to right: of a node whatever is below it."""
    if isinstance(tree, Leaf):
        yield tree
        return
    for part in children(tree):
        yield from leaves(part)
