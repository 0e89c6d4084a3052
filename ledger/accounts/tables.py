"""What a ledger holds, as rows: iterate over a `LedgerTable` for typed objects; `to_frame()` is a pandas DataFrame.

Column names and dtypes are the same for every ledger, also where there is no row or no value in a column; rows are
named by the index of their entry. Text is `string`, whole numbers that may be missing are `Int64`, kinds are
`category` with all of their kinds, times are `datetime64[s, UTC]`. An amount stands twice: as the exact Decimal
(`object`; infinite where there is no price), and as the least float that is not below it, `..._upper`. No column holds
data or outputs: no entry does.

`Ledger.entries()`, one row an entry; a member that its kind does not have is missing:

    time                 datetime64[s, UTC]   missing where it would say how long a mechanism ran
    kind                 category
    scopes               string               the scopes that it is charged to or about, in id order, between spaces
    key                  string               what was to happen once, in the caller's words
    charge               string               the attempt
    mechanism            string               its kind
    library              string               in which it ran, with its version
    form                 category             release, interaction, training
    claim                string               the promised guarantee, of a long list its ends
    rule                 category             by which a charge was settled: cap, ex_post, steps
    upto                 Int64                training steps granted so far
    level                string               the scope that refused
    item                 string               what is declared
    verdict              string               of an audit: violation, not_refuted
    attested             string               of a run that happened elsewhere: whose word it is
    previous             string               the leaf hash of the entry before

`Scope.releases()`, one row a charge to the scope, by the index of the entry that reserved it:

    time                 datetime64[s, UTC]   when it was reserved
    scope                string               where it was asked for: this scope, or one that is charged to it as well
    key                  string
    charge               string
    mechanism            string               of a run that happened elsewhere: what it was called
    library              string               in which it ran, with its version
    form                 category
    claim                string
    status               category             reserved, started, committed, aborted
    rule                 category             missing until it is committed
    ended                Int64                the index of the entry that ended it
    account              string               the coordinate of the scope's filter in which it was admitted
    reserved             object               the price in that account
    reserved_upper       float64
    charged              object               what counts now: the price until it is settled, 0 once aborted
    charged_upper        float64
    reserved_delta       object               the price in failure probability
    reserved_delta_upper float64
    charged_delta        object
    charged_delta_upper  float64
    steps                Int64                of a training run: planned
    granted              Int64                of a training run: granted, which counts as run
    outside_guarantee    boolean              whether the run broke its conditions; missing until it is committed
    warnings             string               missing where there is none
    attested             string               of a run that happened elsewhere: whose word it is
    reason               string               and why it counts here
    evidence             string               and what there is to show for it
    relation             string               and under which relation its guarantee is said to hold
    of                   string               and of what: row or unit; missing where a unit has one row

>>> from dpledger.accounting.guarantees import PureDP
>>> from dpledger.ledger.ledger import Ledger
>>> from dpledger.mechanisms.numeric import Laplace
>>> scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
>>> receipt = scope.release(Laplace(sensitivity=1, epsilon="0.3"), 1234, key="count")
>>> scope.releases().to_frame()[["key", "status", "charged", "charged_upper"]].to_dict("index")
{2: {'key': 'count', 'status': 'committed', 'charged': Decimal('0.3'), 'charged_upper': 0.30000000000000004}}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from dpledger.accounting.guarantees import words_of
from dpledger.decimals import INFINITY, ZERO, float_up
from dpledger.ledger.accounts.recomposition import Admission, Status
from dpledger.ledger.entries.bodies import KINDS
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules.scope_state import Form
from dpledger.ledger.rules.settling import Rule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LedgerTable", "entries_table", "releases_table"]

Row = TypeVar("Row")

TIME, TEXT, COUNT, FLAG, EXACT, UPPER = "datetime64[s, UTC]", "string", "Int64", "boolean", "object", "float64"
FORMS, STATUSES, RULES = get_args(Form), get_args(Status), get_args(Rule)


@dataclass(frozen=True, slots=True)
class LedgerColumn(Generic[Row]):
    """A column: its dtype, or all of its categories; and the value in a row, None where it is missing."""

    name: str
    dtype: str | tuple[str, ...]
    value: Callable[[Row], object]


class LedgerTable(Collection[Row]):
    """Rows in the order of the ledger, as it was when the table was asked for. Each iteration reads them anew."""

    def __init__(
        self,
        rows: Callable[[], Iterator[Row]],
        size: int,
        columns: tuple[LedgerColumn[Row], ...],
        index: Callable[[Row], int],
    ) -> None:
        self._rows = rows
        self._size = size
        self._columns = columns
        self._index = index

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    def __len__(self) -> int:
        return self._size

    def __contains__(self, row: object) -> bool:
        return any(row == other for other in self)

    def __repr__(self) -> str:
        return f"<Table of {self._size} rows: {', '.join(column.name for column in self._columns)}>"

    def to_frame(self) -> pd.DataFrame:
        """The rows as a DataFrame: the module's docstring lists its columns. Its index is called `index`."""
        import pandas as pd  # here, so that who wants no frame does not wait for pandas

        numbers: list[int] = []
        cells: list[list[Any]] = [[] for _ in self._columns]
        for row in self:
            numbers.append(self._index(row))
            for column, values in zip(self._columns, cells, strict=True):
                values.append(column.value(row))
        index = pd.Index(numbers, dtype="int64", name="index")
        return pd.DataFrame(
            {
                column.name: pd.Series(
                    values,
                    index=index,
                    dtype=column.dtype if isinstance(column.dtype, str) else pd.CategoricalDtype(list(column.dtype)),
                )
                for column, values in zip(self._columns, cells, strict=True)
            },
            index=index,
        )


def entries_table(rows: Callable[[], Iterator[Entry]], size: int) -> LedgerTable[Entry]:
    """The table of `size` entries, which `rows` reads."""
    return LedgerTable(rows, size, _ENTRY, lambda entry: entry.index)


def releases_table(admissions: tuple[Admission, ...]) -> LedgerTable[Admission]:
    """The table of the charges of one scope."""
    return LedgerTable(lambda: iter(admissions), len(admissions), _ADMISSION, lambda admission: admission.index)


def _member(name: str) -> Callable[[Entry], object]:
    return lambda entry: getattr(entry.body, name, None)


def _mechanism(name: str) -> Callable[[Entry], object]:
    return lambda entry: getattr(getattr(entry.body, "mechanism", None), name, None)


def _scopes(entry: Entry) -> object:
    return " ".join(level.scope for level in getattr(entry.body, "path", ())) or None


def _claim(entry: Entry) -> object:
    claim = getattr(entry.body, "claim", None)
    return None if claim is None else words_of(claim)


def _attested(entry: Entry) -> object:
    said = getattr(entry.body, "attested", None)
    return None if said is None else said.by


_ENTRY: tuple[LedgerColumn[Entry], ...] = (
    LedgerColumn("time", TIME, lambda entry: entry.time),
    LedgerColumn("kind", tuple(sorted(KINDS)), lambda entry: entry.body.kind),
    LedgerColumn("scopes", TEXT, _scopes),
    LedgerColumn("key", TEXT, _member("key")),
    LedgerColumn("charge", TEXT, _member("charge")),
    LedgerColumn("mechanism", TEXT, _mechanism("kind")),
    LedgerColumn("library", TEXT, _mechanism("library")),
    LedgerColumn("form", FORMS, _member("form")),
    LedgerColumn("claim", TEXT, _claim),
    LedgerColumn("rule", RULES, _member("rule")),
    LedgerColumn("upto", COUNT, _member("upto")),
    LedgerColumn("level", TEXT, _member("level")),
    LedgerColumn("item", TEXT, _member("item")),
    LedgerColumn("verdict", TEXT, _member("verdict")),
    LedgerColumn("attested", TEXT, _attested),
    LedgerColumn("previous", TEXT, lambda entry: entry.previous),
)


def _reserved(one: Admission) -> Decimal:
    return one.reserved.get(one.account, INFINITY)


def _charged(one: Admission) -> Decimal:
    return ZERO if one.status == "aborted" else one.charged.get(one.account, INFINITY)


def _reserved_delta(one: Admission) -> Decimal:
    """A filter without this coordinate admits no charge that has a delta."""
    return one.reserved.get("delta", ZERO)


def _charged_delta(one: Admission) -> Decimal:
    return one.charged.get("delta", ZERO)


def _said_relation(one: Admission) -> str | None:
    return None if one.attested is None or one.attested.relation is None else one.attested.relation.value


def _both(name: str, amount: Callable[[Admission], Decimal]) -> tuple[LedgerColumn[Admission], LedgerColumn[Admission]]:
    """An amount, exactly, and as a float that is not below it."""
    return LedgerColumn(name, EXACT, amount), LedgerColumn(f"{name}_upper", UPPER, lambda one: float_up(amount(one)))


_ADMISSION: tuple[LedgerColumn[Admission], ...] = (
    LedgerColumn("time", TIME, lambda one: one.time),
    LedgerColumn("scope", TEXT, lambda one: one.scope),
    LedgerColumn("key", TEXT, lambda one: one.key),
    LedgerColumn("charge", TEXT, lambda one: one.charge),
    LedgerColumn("mechanism", TEXT, lambda one: one.mechanism.kind),
    LedgerColumn("library", TEXT, lambda one: one.mechanism.library),
    LedgerColumn("form", FORMS, lambda one: one.form),
    LedgerColumn("claim", TEXT, lambda one: words_of(one.claim)),
    LedgerColumn("status", STATUSES, lambda one: one.status),
    LedgerColumn("rule", RULES, lambda one: one.rule),
    LedgerColumn("ended", COUNT, lambda one: one.ended),
    LedgerColumn("account", TEXT, lambda one: one.account),
    *_both("reserved", _reserved),
    *_both("charged", _charged),
    *_both("reserved_delta", _reserved_delta),
    *_both("charged_delta", _charged_delta),
    LedgerColumn("steps", COUNT, lambda one: one.steps),
    LedgerColumn("granted", COUNT, lambda one: None if one.steps is None else one.granted),
    LedgerColumn("outside_guarantee", FLAG, lambda one: one.outside_guarantee if one.status == "committed" else None),
    LedgerColumn("warnings", TEXT, lambda one: "; ".join(one.warnings) or None),
    LedgerColumn("attested", TEXT, lambda one: None if one.attested is None else one.attested.by),
    LedgerColumn("reason", TEXT, lambda one: None if one.attested is None else one.attested.reason),
    LedgerColumn("evidence", TEXT, lambda one: None if one.attested is None else one.attested.evidence),
    LedgerColumn("relation", TEXT, _said_relation),
    LedgerColumn("of", TEXT, lambda one: None if one.attested is None else one.attested.of),
)
