"""The composition tree: one language for "what was run", in documents, ledger entries, mechanisms and tests.

Leaves are laws with their parameters or declared guarantees; nodes say how they combine. A tree names no relation: it
stands beside one. It is read from JSON by `parse_tree` and `parse_document`, and written by `schema.plain`.

>>> tree = PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01")
>>> from dpledger.schema import plain
>>> parse_tree(plain(tree)) == tree
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias, overload

from pydantic import BeforeValidator, Field, TypeAdapter

from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.decimals import Exact, Positive, Probability, Rate
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from dpledger.schema import JsonValue, complete, given, record, tag, validated

__all__ = [
    "Composition",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "Document",
    "Filtered",
    "GaussianLaw",
    "HasParts",
    "LaplaceLaw",
    "Parallel",
    "PoissonSampled",
    "PostProcessed",
    "Repeated",
    "Sequence",
    "SparseVectorLaw",
    "SparseVectorOutcome",
    "as_tree",
    "parse_document",
    "parse_tree",
    "planned",
]

Count = Annotated[int, Field(strict=True, ge=1, le=10**12)]
"""How many times something is run: 1 to 10^12."""
Tally = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""How many times something happened."""


class HasParts(Protocol):
    """What a node takes beside a tree: a mechanism, which is replaced by its parts."""

    def parts(self) -> Composition: ...


if TYPE_CHECKING:

    class Part:
        """A field that holds a tree and takes a tree or anything that has `parts()`."""

        @overload
        def __get__(self, instance: None, owner: type) -> Part: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Composition: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Composition | HasParts) -> None: ...

    class Parts:
        """A field that holds a tuple of trees and takes any sequence of trees or of things that have `parts()`."""

        @overload
        def __get__(self, instance: None, owner: type) -> Parts: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Composition, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: tuple[Composition | HasParts, ...]) -> None: ...


def _parts_of(value: object) -> object:
    parts = getattr(value, "parts", None)
    return parts() if callable(parts) else value


if not TYPE_CHECKING:
    Part = Annotated["Composition", BeforeValidator(_parts_of)]
    Parts = Annotated[tuple[Part, ...], Field(min_length=1)]


# ---- leaves ---------------------------------------------------------------------------------------------------------


@record
class LaplaceLaw:
    """Laplace noise; epsilon = sensitivity (l1) / scale, under the relation beside the tree."""

    epsilon: Exact
    kind: Literal["laplace"] = tag(default="laplace")


@record
class GaussianLaw:
    """Gaussian noise; noise_multiplier = sigma / the l2 bound of one unit's contribution.

    Adding, removing or zeroing a unit moves the mean by at most that bound (mu = 1/noise_multiplier); replacing one,
    or flipping its label, by at most twice that (mu = 2/noise_multiplier)."""

    noise_multiplier: Positive
    kind: Literal["gaussian"] = tag(default="gaussian")


@record
class DiscreteLaplaceLaw:
    """Laplace noise on the integers, pmf proportional to exp(-|k|/scale); sensitivity: l1, of an integer statistic."""

    scale: Positive
    sensitivity: Positive
    kind: Literal["discrete_laplace"] = tag(default="discrete_laplace")


@record
class DiscreteGaussianLaw:
    """Gaussian noise on the integers, pmf proportional to exp(-k^2/2 sigma^2); sensitivity: of one whole number. The
    zCDP price holds for a vector of them too, with the l2 norm. Canonne-Kamath-Steinke 2020."""

    sigma: Positive
    sensitivity: Positive
    kind: Literal["discrete_gaussian"] = tag(default="discrete_gaussian")


@record
class SparseVectorOutcome:
    """What a sparse vector interaction published, in numbers: every test, those below the threshold (charged), and the
    tests of each closed epoch and of the open one (docs/proofs/sparse_vector.md, "Ex-post loss")."""

    closed_epochs: tuple[Tally, ...]
    open_epoch: Tally
    halted: bool
    kind: Literal["sparse_vector_outcome"] = tag(default="sparse_vector_outcome")


@record
class SparseVectorLaw:
    """Sparse vector (docs/proofs/sparse_vector.md): `cutoff` charged answers, noise of scale `threshold_scale` on the
    threshold and `query_scale` on each query, both divided by the sensitivity. Without an outcome it costs its cap.

    `mode`: single_threshold, target_charging, basic, dr14, zcdp, kov. `calls`: the K of target_charging."""

    mode: Literal["single_threshold", "target_charging", "basic", "dr14", "zcdp", "kov"]
    cutoff: Annotated[int, Field(strict=True, ge=1, lt=2**31)]
    epsilon: Positive
    delta: Probability
    threshold_scale: Exact
    query_scale: Positive
    calls: Count | None = given(default=None)
    outcome: SparseVectorOutcome | None = given(default=None)
    kind: Literal["sparse_vector"] = tag(default="sparse_vector")


# ---- nodes ----------------------------------------------------------------------------------------------------------


@record
class Sequence:
    """One after another, every parameter fixed before the first release (the mechanisms themselves may look back)."""

    of: Parts
    kind: Literal["sequence"] = tag(default="sequence")


@record
class Repeated:
    """The same, `times` times. `done`: how many were started, once known (a plan stopped early)."""

    of: Part
    times: Count
    done: Tally | None = given(default=None)
    kind: Literal["repeated"] = tag(default="repeated")


@record
class PoissonSampled:
    """Run on a secret batch that holds each unit independently with probability `rate`. add_remove and zero_out."""

    of: Part
    rate: Rate
    kind: Literal["poisson_sampled"] = tag(default="poisson_sampled")


@record
class Parallel:
    """Each child reads its own disjoint part of the units; under add_remove the maximum counts (McSherry 2009)."""

    of: Parts
    kind: Literal["parallel"] = tag(default="parallel")


@record
class PostProcessed:
    """Computed from the outputs of `of` alone: costs what `of` costs."""

    of: Part
    kind: Literal["post_processed"] = tag(default="post_processed")


@record
class Filtered:
    """Admitted one by one under a named filter, parameters chosen adaptively: its budget is the guarantee."""

    filter: Filter
    of: Parts
    kind: Literal["filtered"] = tag(default="filtered")


Composition: TypeAlias = (
    PureDP
    | ApproxDP
    | ZCDP
    | GDP
    | RDP
    | BoundedRange
    | LaplaceLaw
    | GaussianLaw
    | DiscreteLaplaceLaw
    | DiscreteGaussianLaw
    | SparseVectorLaw
    | Sequence
    | Repeated
    | PoissonSampled
    | Parallel
    | PostProcessed
    | Filtered
)
"""The closed union of leaves and nodes; told apart by `kind`."""

if not TYPE_CHECKING:
    Composition = Annotated[Composition, Field(discriminator="kind")]


@record
class Entry:
    """One line of a document: a mechanism, run `count` times."""

    mechanism: Part
    count: Count = given(default=1)


@record
class Document:
    """The portable form of "what was run": a relation, and entries read as a `sequence` of `repeated`.

    `direction`: only this one of the two ordered neighbour pairs (default: both, and the maximum counts)."""

    relation: Relation
    entries: Annotated[tuple[Entry, ...], Field(min_length=1)]
    direction: Literal["add", "remove"] | None = given(default=None)

    def tree(self) -> Composition:
        """The tree that the entries say."""
        return Sequence(tuple(Repeated(entry.mechanism, times=entry.count) for entry in self.entries))


_RECURSIVE: tuple[Any, ...] = (Sequence, Repeated, PoissonSampled, Parallel, PostProcessed, Filtered, Entry, Document)
complete(*_RECURSIVE)

_TREE: TypeAdapter[Composition] = TypeAdapter(Composition)
_DOCUMENT: TypeAdapter[Document] = TypeAdapter(Document)


def parse_tree(value: JsonValue | Mapping[str, object]) -> Composition:
    """The tree that a JSON value says; ParameterError naming the field for anything that is not one."""
    return validated(_TREE, value, "tree")


def as_tree(value: object) -> Composition:
    """`value`, if it is a tree; ParameterError naming its type for anything else."""
    if not hasattr(value, "kind"):
        raise ParameterError("tree", type(value).__name__, "a tree (like LaplaceLaw(1)), a mechanism or a document")
    return validated(_TREE, value, "tree")


def parse_document(value: JsonValue) -> Document:
    """The composition document that a JSON value says; ParameterError naming the field for anything that is not one."""
    if not isinstance(value, dict):
        raise ParameterError("document", type(value).__name__, "an object with 'relation' and 'entries'")
    return validated(_DOCUMENT, value, "document")


def planned(tree: Composition) -> Composition:
    """The tree without its outcomes: what was planned before it ran. `planned(release.parts) == mechanism.parts()`."""
    match tree:
        case SparseVectorLaw():
            return _without(tree, "outcome")
        case Repeated(of=of, times=times):
            return Repeated(planned(of), times=times)
        case Sequence(of=parts):
            return Sequence(tuple(planned(part) for part in parts))
        case Parallel(of=parts):
            return Parallel(tuple(planned(part) for part in parts))
        case PoissonSampled(of=of, rate=rate):
            return PoissonSampled(planned(of), rate=rate)
        case PostProcessed(of=of):
            return PostProcessed(planned(of))
        case Filtered(filter=filter_, of=parts):
            return Filtered(filter_, tuple(planned(part) for part in parts))
        case _:
            return tree


def _without(leaf: SparseVectorLaw, field: str) -> SparseVectorLaw:
    values = {name: getattr(leaf, name) for name in leaf.__dataclass_fields__ if name != field}
    return SparseVectorLaw(**values)
