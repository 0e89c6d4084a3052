"""What a report says, before anything is rendered: the answers of its first page, then annexes of items, tables,
pictures and prose.

HTML, JSON and Markdown walk this one model and add nothing to it, so they cannot disagree. Every answer and every item
says where its word comes from:

    measured    shown by the verified record, or computed from it
    declared    somebody's word: by whom, when, under whose signature
    unknown     nobody has said it; it is printed all the same

Text that comes from a ledger passes through `visible`, so that no character of it can hide, reorder or end a line.
Numbers beside text are exact decimals, for programs; the text shows them rounded to the safe side.

>>> visible("pa\\u200btient")
'pa[U+200B]tient'
>>> Item(id="root", label="Root", text="ab12").origin.status
'measured'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

__all__ = [
    "MEASURED",
    "SCHEMA",
    "UNKNOWN",
    "Answer",
    "Bar",
    "BarChart",
    "Block",
    "Cell",
    "Chart",
    "ClaimChart",
    "Claimed",
    "Column",
    "CurveChart",
    "CurvePoint",
    "Item",
    "Items",
    "Link",
    "OddsChart",
    "Origin",
    "Page",
    "Picture",
    "Prose",
    "ReportModel",
    "Section",
    "Spent",
    "SpentChart",
    "Status",
    "Table",
    "TradeoffCurve",
    "blocks",
    "pictures",
    "unknown",
    "visible",
]

SCHEMA = "dpledger.report.v3"
LONGEST = 3000  # characters of one text; what is longer stands in full in its entry

Status: TypeAlias = Literal["measured", "declared", "unknown"]
Tone: TypeAlias = Literal["plain", "warning", "note"]


def visible(text: str, limit: int = LONGEST) -> str:
    """`text` with every character but the line feed that nobody sees, or that is private or unassigned, or that is one
    mark too many on a letter, written out as `[U+....]`, and what is beyond `limit` characters cut with a mark."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(_shown(text))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that no font draws: those of Unicode's Default_Ignorable_Code_Point, and the empty Braille cell."""


MOST_MARKS = 4
"""Marks on one letter, as many as a language writes; more would pile up over the lines beside it."""


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        yield character if _is_shown(character) and marks <= MOST_MARKS else f"[U+{ord(character):04X}]"


def _is_shown(character: str) -> bool:
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or BLANK.match(character)
    return character == "\n" or not hidden


# ---- where a word comes from ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an item comes from. `by`, `when`, `signature`, `entry`: of a declaration, also of one in the words of the
    sample, which leaves an item unknown; empty otherwise."""

    status: Status
    by: str = ""
    when: str = ""
    signature: str = ""
    entry: int | None = None


MEASURED = Origin(status="measured")
UNKNOWN = Origin(status="unknown")


# ---- blocks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that the report says. `value`: the exact number or word behind `text`, where there is one. `scopes`: of
    which it says so, where it is about some."""

    id: str
    label: str
    text: str
    value: Decimal | str | int | None = None
    origin: Origin = MEASURED
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Items, one under another."""

    items: tuple[Item, ...]
    kind: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and whether it holds numbers."""

    heading: str
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table. `status`: where it is not that of the table. `note`: small print below.
    `link`: the id of what the text leads to."""

    text: str
    value: Decimal | str | int | None = None
    status: Status | None = None
    note: str = ""
    tone: Tone = "plain"
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under headings; the first cell of a row is its heading. `empty`: what is said where there is no row."""

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str
    origin: Origin = MEASURED
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Text of ours, a paragraph or a list."""

    id: str
    lines: tuple[str, ...]
    tone: Tone = "plain"
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart with the sentence that says what it shows."""

    id: str
    title: str
    description: str
    chart: Chart
    kind: Literal["picture"] = "picture"


Block: TypeAlias = Items | Table | Prose | Picture


# ---- charts: numbers, each rounded to the safe side -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent once entry `index` was in: the reading's two bounds. None: infinite, no bound at this delta."""

    index: int
    lower: Decimal
    upper: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentChart:
    """The reading over the entries of a ledger, against the budget. `refused`: entries that were refusals."""

    points: tuple[Spent, ...]
    budget: Decimal
    refused: tuple[int, ...]
    last: int
    kind: Literal["spent_chart"] = "spent_chart"


@dataclass(frozen=True, slots=True)
class Bar:
    """What one mechanism is charged in one account, and what came back to it."""

    label: str
    charged: Decimal
    returned: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Bars in one account, what several come to together, and the account's limit."""

    bars: tuple[Bar, ...]
    together: Bar | None
    limit: Decimal
    kind: Literal["bar_chart"] = "bar_chart"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a trade-off curve: false positives, false negatives."""

    alpha: Decimal
    beta: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffCurve:
    """A trade-off curve. `role`: a promise (the curve is nowhere below), or an audit (it touches or passes below)."""

    label: str
    role: Literal["promise", "plan", "audit"]
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveChart:
    """Trade-off curves in the same axes."""

    curves: tuple[TradeoffCurve, ...]
    kind: Literal["curve_chart"] = "curve_chart"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim at the audit's delta beside the audited lower bound. `claim` None: no bound at this delta."""

    label: str
    claim: Decimal | None
    lower: Decimal
    verdict: Literal["violation", "not_refuted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChart:
    """Claims against audited lower bounds."""

    rows: tuple[Claimed, ...]
    kind: Literal["claim_chart"] = "claim_chart"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddsChart:
    """Of a hundred guesses whether somebody is in the data, how many are right at most: before, and after. Each a
    probability."""

    before: Decimal
    after: Decimal
    kind: Literal["odds_chart"] = "odds_chart"


Chart: TypeAlias = SpentChart | BarChart | CurveChart | ClaimChart | OddsChart


# ---- the whole ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the annexes, by its id, and what it is called."""

    label: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the first page. `text`: the answer in a few words; `lines`: what it rests on and what it leaves
    open. `share`: of a whole, 0 to 1, where the answer is one. `links`: where the annexes show it."""

    id: str
    question: str
    text: str
    lines: tuple[str, ...] = ()
    status: Status = "measured"
    tone: Tone = "plain"
    share: Decimal | None = None
    picture: Picture | None = None
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The first page of one promise. `about`: which of how many promises it is, empty where there is no other;
    `scopes`: whose promise it is, none where no scope was opened or nothing was read."""

    id: str
    title: str
    about: str
    scopes: tuple[str, ...]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An annex, or a part of one: its heading, what it answers, what stands under it, and the sections below."""

    id: str
    heading: str
    about: str = ""
    blocks: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportModel:
    """A report: a first page a promise, then its annexes. `ledger`, `size` and `root` stand in the annexes as well;
    here for whoever files reports. `registry`: the fields of an entry for a public registry, a table a promise. `of`:
    of first pages that stand alone, the SHA-256 of the report's JSON."""

    title: str
    subtitle: str
    ledger: str
    size: int
    root: str
    pages: tuple[Page, ...]
    sections: tuple[Section, ...] = field(default=())
    registry: tuple[Table, ...] = ()
    of: str = ""
    schema: str = SCHEMA


def blocks(sections: tuple[Section, ...]) -> Iterator[Block]:
    """Every block of `sections` and of those below, in reading order."""
    for section in sections:
        yield from section.blocks
        yield from blocks(section.sections)


def pictures(model: ReportModel) -> Iterator[Picture]:
    """Every picture of a report, in reading order."""
    yield from (answer.picture for page in model.pages for answer in page.answers if answer.picture is not None)
    yield from (block for block in blocks(model.sections) if isinstance(block, Picture))


def unknown(id_: str, label: str, why: str = "not declared") -> Item:
    """An item that nobody has said anything about, and why."""
    return Item(id=id_, label=label, text=why, origin=UNKNOWN)
