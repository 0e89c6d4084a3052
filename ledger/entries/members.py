"""What bodies are made of: words, digests and places of the wire, and the small records that several kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from dpledger.accounting.filters import Filter
from dpledger.decimals import read
from dpledger.ledger.entries import declarations
from dpledger.ledger.signed import wire
from dpledger.number_fields import Exact, OpenProbability
from dpledger.relations import Relation
from dpledger.schema import Plain, given, plain, record


def _version() -> str:
    try:
        return metadata.version("dpledger")
    except metadata.PackageNotFoundError:
        return "(not installed)"


LIBRARY = f"dpledger {_version()}"
"""What the ledger says a mechanism ran in."""

if TYPE_CHECKING:
    Amounts: TypeAlias = Mapping[str, Decimal]
    Accounts: TypeAlias = Mapping[str, Decimal]
    Parameters: TypeAlias = Mapping[str, Plain]
else:

    def _frozen(value):
        return MappingProxyType(dict(sorted(value.items())))

    _Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    _Infinite = Annotated[Decimal, Field(allow_inf_nan=True), BeforeValidator(lambda value: read(value, infinite=True))]
    Amounts = Annotated[dict[_Word, Exact], AfterValidator(_frozen)]
    Accounts = Annotated[dict[_Word, _Infinite], AfterValidator(_frozen)]
    Parameters = Annotated[dict[str, Any], AfterValidator(lambda value: _frozen(plain(value)))]

Index = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Id = Annotated[str, AfterValidator(lambda text: wire.check_id(text, "id"))]
LedgerId = Annotated[str, AfterValidator(lambda text: wire.check_ledger_id(text, "ledger"))]
Hash = Annotated[str, AfterValidator(lambda text: wire.check_digest(text, "digest"))]
"""A SHA-256 digest in lower-case hexadecimal."""
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""128 random bits in lower-case hexadecimal."""
Time = Annotated[str, AfterValidator(wire.check_time)]
Text = Annotated[str, AfterValidator(lambda text: wire.check_text(text, "text"))]
Words = Annotated[Text, AfterValidator(declarations.check_words)]
"""Text that says something: not empty, and not white space alone."""
Item = Annotated[str, AfterValidator(declarations.check_item)]
Flag = Annotated[bool, Field(strict=True)]


@record
class Step:
    """One level of a path: a scope, and this event's place in the contiguous count of that scope."""

    scope: Id
    index: Index


@record
class UnitNote:
    """The unit of privacy of a scope, and how many rows one unit may contribute."""

    name: Id
    max_contributions: Annotated[int, Field(strict=True, ge=1, lt=2**53)]


@record
class MechanismNote:
    """Which mechanism: its tag (in which the ledger reads no meaning), its public parameters, the library it ran in."""

    kind: Id
    parameters: Parameters
    library: Text


@record
class Attestation:
    """Of a run that happened elsewhere: whose word it is, why it counts here, and what there is to show for it, in
    words or as `sha256:` and the digest of a file. Nothing here saw the run. `relation`, `of`: under which relation its
    guarantee is said to hold, and of what, which may be absent where a unit has one row. Older entries say neither."""

    by: Words
    reason: Words
    evidence: Words | None = given(default=None)
    relation: Relation | None = given(default=None)
    of: Literal["row", "unit"] | None = given(default=None)


@record
class LevelCharge:
    """What one level of the path is charged: the coordinates of its filter, by name. Absent: without a price."""

    scope: Id
    amounts: Amounts


@record
class Fixed:
    """A scope that this charge is the first of, and the filter, with every constant, that it has from here on, in place
    of the one that it was opened with."""

    scope: Id
    filter: Filter


@record
class Priced:
    """A charge that is priced from the certified profile of its parts, with this delta for what the profile lets fail;
    absent: from the parts."""

    tail_delta: OpenProbability


@record
class Continues:
    """The ledger that this one continues after a loss or a revoked key: its last known head."""

    ledger: LedgerId
    size: Index
    root: Hash


@record
class Power:
    """A true epsilon of `epsilon` would have been refuted with at least this probability."""

    epsilon: Exact
    probability: OpenProbability


@record
class RefutedPoint:
    """A point of the claim that fell: at `delta` the claim allows `epsilon`, and the audit found `epsilon_lower`."""

    epsilon: Exact
    delta: Exact
    epsilon_lower: Exact


Path: TypeAlias = Annotated[tuple[Step, ...], Field(min_length=1)]
Levels: TypeAlias = Annotated[tuple[LevelCharge, ...], Field(min_length=1)]
