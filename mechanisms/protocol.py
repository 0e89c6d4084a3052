"""What a mechanism is: a frozen, typed object that knows its claim and its parts before it runs, and runs.

A mechanism describes itself from its parameters alone (`claim`, `parts`, `failures`, `parameters`); `release` or `open`
runs it on data and returns a `Release`: the value, for the caller only, and the parts with the outcomes that the run
added, for the ledger. Parameters raise, and so do data of the wrong kind (`inspect`, before anything is charged); what
the data hold never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy.typing as npt

from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain

__all__ = [
    "UNSAID",
    "AnswersMany",
    "Conversation",
    "Described",
    "GrantedSteps",
    "Halts",
    "Inspects",
    "Interactive",
    "Keeps",
    "Mechanism",
    "Reads",
    "Refines",
    "Release",
    "Resumes",
    "Sampled",
    "SamplesOtherwise",
    "check_declared",
    "fixed",
    "inspect",
    "plain_of",
    "reads",
    "sampled_of",
    "value_of",
]

UNSAID = "no reason given"
"""What the record says beside a sensitivity for which the caller gave no justification."""

Data_contra = TypeVar("Data_contra", contravariant=True)
Query_contra = TypeVar("Query_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
Value_contra = TypeVar("Value_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Generic[Value_co]):
    """The end of a run. `value`: for the caller only. The rest is for the ledger, and holds nothing of the data."""

    value: Value_co
    parts: Composition
    warnings: tuple[str, ...] = ()
    outside_guarantee: bool = False


class Described(Protocol):
    """What every mechanism says of itself. Frozen and hashable."""

    @property
    def kind(self) -> str: ...
    @property
    def relation(self) -> Relation | None:
        """The neighbouring relation; None: the scope's."""
        ...

    @property
    def unit(self) -> Unit | None:
        """The unit of privacy; None: the scope's."""
        ...

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism with relation, unit and every "auto" fixed. RelationError if it names others, or has no
        guarantee under this relation. Only the result is claimed, priced, run and entered."""
        ...

    def claim(self) -> Guarantee:
        """What it promises, from its parameters alone."""
        ...

    def parts(self) -> Composition:
        """What it is made of, no outcome yet: priced at its cap."""
        ...

    def failures(self) -> tuple[Failure, ...]:
        """How the claim may fail, by cause; the deltas add up to the claim's."""
        ...

    def parameters(self) -> Mapping[str, Plain]:
        """Its public parameters, in the ledger's byte profile: no float, no null."""
        ...


@runtime_checkable
class Mechanism(Described, Protocol[Data_contra, Value_co]):
    """A mechanism that answers once."""

    def release(self, data: Data_contra, *, entropy: Entropy) -> Release[Value_co]: ...


@runtime_checkable
class Sampled(Protocol[Data_contra]):
    """A mechanism that can run many times at once on the same data: what audits draw from."""

    def sample(self, data: Data_contra, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases: their values, along the first axis."""
        ...


@runtime_checkable
class Inspects(Protocol):
    """A mechanism that can tell, from shape and type alone, that data are not for it: before anything is charged."""

    def inspect(self, data: object) -> None:
        """ParameterError where container, axes, public length or dtype do not fit. Values never matter."""
        ...


@runtime_checkable
class Reads(Protocol):
    """A mechanism that can say what it makes of values that are no ordinary ones: NaN, infinity, what is missing."""

    def values_read_as(self) -> tuple[str, ...]:
        """A sentence each, from its parameters alone: whether the data hold any such value is never told."""
        ...


def reads(mechanism: Described) -> tuple[str, ...]:
    """What the mechanism says of such values, if it says anything (`Reads`)."""
    return tuple(map(str, mechanism.values_read_as())) if isinstance(mechanism, Reads) else ()


@runtime_checkable
class Keeps(Protocol[Value]):
    """A mechanism whose value is more than numbers and texts, and that can say it in them: so it can be kept."""

    def plain_of(self, value: Value) -> object:
        """Numbers, texts, and tuples of them, from which `value_of` makes an equal value."""
        ...

    def value_of(self, plain: Any) -> Value:
        """The value that `plain_of` said, of a mechanism with the same parameters."""
        ...


def plain_of(mechanism: object, value: Any) -> object:
    """The value as it is kept: in the mechanism's own words, if it has some (`Keeps`)."""
    return mechanism.plain_of(value) if isinstance(mechanism, Keeps) else value


def value_of(mechanism: object, plain: Any) -> Any:
    """The inverse of `plain_of`."""
    return mechanism.value_of(plain) if isinstance(mechanism, Keeps) else plain


def inspect(mechanism: Described, data: object) -> None:
    """What the mechanism can tell of the data before anything is charged (`Inspects`), if it looks at all."""
    if isinstance(mechanism, Inspects):
        mechanism.inspect(data)


@runtime_checkable
class AnswersMany(Protocol[Query_contra, Answer_co]):
    """A conversation that answers many queries at once, distributed as if they were asked one by one. Where it halts
    the answers end: those given, with the one that halted it, count; the rest is not answered and costs nothing."""

    def ask_many(self, queries: Sequence[Query_contra] | npt.NDArray[Any], /) -> Sequence[Answer_co]:
        """The answers, in order; fewer than asked where it halted. Raises as `ask`."""
        ...


@runtime_checkable
class SamplesOtherwise(Protocol[Value_contra]):
    """A mechanism whose `sample` writes its values otherwise than `release` does, and can say how."""

    def sampled_of(self, value: Value_contra) -> object:
        """What `sample` gives where `release` gives this value."""
        ...


def sampled_of(mechanism: object, value: Any) -> tuple[object, ...]:
    """The ways in which `sample` may give the value of a release: the mechanism's own (`SamplesOtherwise`); else the
    value, or as it is kept."""
    if isinstance(mechanism, SamplesOtherwise):
        return (mechanism.sampled_of(value),)
    return value, plain_of(mechanism, value)


class Conversation(Protocol[Query_contra, Answer_co, Value_co]):
    """An open interaction. After a halt, or once closed, `ask` raises Halted and charges nothing."""

    def ask(self, query: Query_contra, /) -> Answer_co: ...
    def close(self) -> Release[Value_co]:
        """End it; the release says what was asked. A second call returns the same release."""
        ...


@runtime_checkable
class Halts(Protocol):
    """A conversation that may be over before its caller closes it, and says so."""

    @property
    def halted(self) -> bool:
        """Whether nothing more is answered."""
        ...


@runtime_checkable
class Interactive(Described, Protocol[Data_contra, Query_contra, Answer_co, Value_co]):
    """A mechanism that answers a stream of queries, adaptively chosen."""

    def open(self, data: Data_contra, *, entropy: Entropy) -> Conversation[Query_contra, Answer_co, Value_co]: ...


@runtime_checkable
class GrantedSteps(Protocol):
    """An interactive mechanism whose asks are steps of a plan: the scope grants them in blocks before they run. It says
    so by this method, which nothing else is called: a parameter named `steps` says nothing."""

    def steps_to_grant(self) -> int | None:
        """How many steps are planned; None where, as its parameters are, nothing is run step by step."""
        ...


@runtime_checkable
class Resumes(Protocol[Data_contra, Query_contra, Answer_co, Value_co]):
    """A mechanism of granted steps (`GrantedSteps`) that draws each step independently of all before, so that a run may
    go on in another process."""

    def resume(
        self, data: Data_contra, *, done: int, entropy: Entropy
    ) -> Conversation[Query_contra, Answer_co, Value_co]:
        """As `open`, with the first `done` steps of the plan behind it; they are not run again."""
        ...


@runtime_checkable
class Refines(Protocol):
    """An interactive mechanism whose answers may be levels of a `chain` of its parts. The session notes the levels that
    it hands out: `reached` may say no less, and without such notes an interaction gets nothing of a chain back."""

    def level_of(self, query: Any, /) -> ChainLaw | None:
        """The level that the answer to `query` publishes, by public values alone; None where it publishes none.
        ParameterError for a query that asks for no level that it has."""
        ...


def fixed(
    own_relation: Relation | None, own_unit: Unit | None, relation: Relation, unit: Unit
) -> tuple[Relation, Unit]:
    """The relation and unit a mechanism runs under, given its own and the scope's. RelationError where they differ."""
    if own_relation is not None and own_relation is not relation:
        raise RelationError(
            f"the mechanism is {own_relation.value}, the scope is {relation.value}: "
            "make the mechanism for the scope's relation. One is never converted into the other silently"
        )
    if own_unit is not None and own_unit != unit:
        raise RelationError(
            f"the mechanism protects one {_rows_of(own_unit)}, the scope one {_rows_of(unit)}: make the mechanism "
            "without a unit, and it takes that of the scope"
        )
    return relation, unit


def _rows_of(unit: Unit) -> str:
    rows = unit.max_contributions
    return f"{unit.name} with {'one row' if rows == 1 else f'at most {rows} rows'}"


def check_declared(sensitivity: Decimal | int, justification: str, unit: Unit) -> None:
    """Raise ParameterError where nobody justified a sensitivity of 1 though one unit may have many rows: it is nearly
    always that of a single row, and would be claimed for all of them."""
    if sensitivity == 1 and justification == UNSAID and unit.max_contributions > 1:
        raise ParameterError(
            "sensitivity",
            f"1 without a justification, where one {unit.name} may have {unit.max_contributions} rows",
            f"how far all rows of one {unit.name} move it, with a justification that says why",
        )
