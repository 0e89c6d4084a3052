"""How exact each release is: the interval that its noise leaves around the released value.

The mechanism is made again from the public parameters in its entry and asked for its interval. Where it does not come
out with the parameters that stand there, or has none that is known beforehand, the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from dpledger.decimals import Number, round_up
from dpledger.errors import InputError
from dpledger.ledger.accounts.recomposition import Admission, ScopeAccount
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.integers import Geometric, IntegerGaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.numeric.statistics import Count, Histogram
from dpledger.mechanisms.protocol import Described
from dpledger.reports import words
from dpledger.reports.grouping import Alike, grouped, indices, keys
from dpledger.reports.model import Cell, Column, Table
from dpledger.reports.sections.runs import OURS
from dpledger.reports.sections.several import table_of

__all__ = ["CONFIDENCE", "accuracy"]

CONFIDENCE = Decimal("0.95")

FIELDS: Mapping[str, tuple[type[Any], tuple[str, ...], str]] = {
    "count": (Count, ("epsilon", "of", "counted"), "of the count"),
    "histogram": (Histogram, ("epsilon", "edges", "categories", "others"), "of each count by itself"),
    "laplace": (Laplace, ("sensitivity", "epsilon", "grid", "bound", "missing", "justification"), "of the number"),
    "gaussian": (
        Gaussian,
        ("sensitivity", "noise_multiplier", "dimension", "grid", "bound", "missing", "justification"),
        "of each number by itself",
    ),
    "geometric": (Geometric, ("sensitivity", "epsilon", "bound", "missing", "justification"), "of the number"),
    "integer_gaussian": (
        IntegerGaussian,
        ("sigma", "sensitivity", "bound", "missing", "justification"),
        "of the number",
    ),
}
"""By kind: what is made again, from which of its parameters, and of what the interval is."""
WITH_VALUE = {
    "clipped_mean": "stated with the value: it depends on the noisy number of rows",
    "group_by": "stated with the value, beside each number of the table",
    "variance": "stated with the value: it depends on the noisy number of rows",
}


class _Sized(Described, Protocol):
    """A mechanism whose noise has a half-width that is known beforehand."""

    def interval(self, confidence: Number) -> float: ...


def accuracy(accounts: Sequence[ScopeAccount], is_declared: Callable[[str], bool]) -> Table:
    """The half-width of a 95 % interval of each release, equal ones counted in one row. `is_declared`: whether somebody
    declared of a scope how exact its other releases are."""
    return table_of(
        accounts,
        lambda account: _rows(account, is_declared(account.scope)),
        id_="ran/accuracy",
        caption="How exact the releases are, by their noise alone",
        columns=(Column("Mechanism"), Column("Entries"), Column("95 % interval")),
        empty="Nothing was released.",
    )


def _rows(account: ScopeAccount, is_declared: bool) -> Iterator[tuple[Cell, ...]]:
    found = grouped(
        (one for one in account.admissions if one.status == "committed"),
        exact=lambda one: (one.mechanism.kind, repr(one.mechanism.parameters), one.mechanism.library),
        coarse=lambda one: one.mechanism.kind,
    )
    for group in found:
        kind = group.first.mechanism.kind
        yield (
            Cell(group.times(words.tag(kind)), kind, note=keys(member.key for member in group.members)),
            Cell(indices([member.index for member in group.members]), len(group.members)),
            _interval(group, account, is_declared),
        )


def _interval(group: Alike[Admission], account: ScopeAccount, is_declared: bool) -> Cell:
    kind = group.first.mechanism.kind
    if not group.alike:
        return Cell("differs: see the entries")
    if kind in WITH_VALUE and group.first.mechanism.library.startswith(OURS):
        return Cell(WITH_VALUE[kind])
    made = _made(group.first, account)
    if made is None:
        if is_declared:
            return Cell("none is known beforehand", status="declared", note="see the declared item accuracy")
        return Cell("none is known beforehand", status="unknown", note="and the item accuracy is not declared")
    width = round_up(made.interval(CONFIDENCE))
    of = FIELDS[kind][2]
    return Cell(f"± {words.at_most(width)}", width, note=f"{of}, in 95 % of runs; clipping and bias are not in it")


def _made(one: Admission, account: ScopeAccount) -> _Sized | None:
    """The mechanism of an entry, made again; None where that does not come out with the parameters in the entry."""
    note = one.mechanism
    if one.attested is not None or note.kind not in FIELDS or not note.library.startswith(OURS):
        return None
    make, names, _ = FIELDS[note.kind]
    try:
        made: _Sized = make(**{name: note.parameters[name] for name in names if name in note.parameters}).under(
            account.relation, account.unit
        )
        return made if made.parameters() == note.parameters else None
    except InputError:
        return None
