"""The report as Markdown: headings, lists and tables of CommonMark with GitHub's tables. No HTML, no link, no image.

Whatever could start markup, a link, a formula or a mention is escaped, so text from a ledger shows as it is written.

>>> print(escaped("# 1"), escaped("1. one"), escaped("---"), escaped("-0.5"), escaped("1.5"))
\\# 1 1\\. one \\--- \\-0.5 1.5
>>> escaped("see <b> http://a.b or *c*")
'see \\\\<b\\\\> http\\\\://a.b or \\\\*c\\\\*'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from dpledger.reports.model import Answer, Block, Cell, Item, Items, Origin, Picture, Prose, ReportModel, Section, Table

__all__ = ["escaped", "render"]

_MARKUP = re.compile(r"[\\`*_\[\]<>|~&$@!{}^]|:(?=\S)|(?<=www)\.", re.IGNORECASE)
_START = re.compile(r"^(?:([-+=#])|(\d{1,9})([.)])(?= |$))")
"""What would begin a list, a heading or a rule, where the text is the first of its line."""
_DEEPEST = 6  # levels of headings


def render(model: ReportModel, digest: str) -> str:
    """The whole report. `digest`: the SHA-256 of its JSON form."""
    lines = [f"# {escaped(model.title)}", "", escaped(model.subtitle), ""]
    several = len(model.pages) > 1
    for page in model.pages:
        if page.about:
            product = f"{page.title}. " if several and page.title != model.subtitle else ""
            lines += [f"## {escaped(product + page.about)}", ""]
        for answer in page.answers:
            lines += _answer(answer, 3 if page.about else 2)
    for section in model.sections:
        lines += _section(section, 2)
    whole = f"SHA-256 of the whole report's JSON form: `{model.of}`  " if model.of else None
    lines += [
        "---",
        "",
        *([whole] if whole else []),
        f"SHA-256 of the JSON form of this {'page' if model.of else 'report'}: `{digest}`  ",
        f"Ledger: `{model.ledger}`  ",
        f"Root of the ledger: `{model.root}`  ",
        f"Schema: `{model.schema}`",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """`text` in one line, with a backslash before whatever Markdown could read as markup."""
    line = _MARKUP.sub(lambda found: "\\" + found.group(), re.sub(r"\s+", " ", text).strip())
    return _START.sub(lambda found: f"{found[2] or ''}\\{found[1] or found[3]}", line)


def _answer(answer: Answer, level: int) -> Iterator[str]:
    yield f"{'#' * level} {escaped(answer.question)}"
    yield ""
    yield f"**{escaped(answer.text)}** [{answer.status}]"
    yield ""
    yield from (f"- {escaped(line)}" for line in answer.lines)
    if answer.links:
        yield f"- See: {', '.join(f'{escaped(link.label)} (`{link.to}`)' for link in answer.links)}"
    if answer.picture is not None:
        yield ""
        yield from _block(answer.picture)
    yield ""


def _section(section: Section, level: int) -> Iterator[str]:
    yield f"{'#' * min(level, _DEEPEST)} {escaped(section.heading)}"
    yield ""
    if section.about:
        yield escaped(section.about)
        yield ""
    for block in section.blocks:
        yield from _block(block)
        yield ""
    for below in section.sections:
        yield from _section(below, level + 1)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Items(items=items):
            yield from (_item(item) for item in items)
        case Table():
            yield from _table(block)
        case Prose():
            yield from _prose(block)
        case Picture(title=title, description=description):
            yield f"**Picture: {escaped(title)}.** {escaped(description)}"
        case _:
            assert_never(block)


def _item(item: Item) -> str:
    return f"- **{escaped(item.label)}:** {escaped(item.text)} {_origin(item.origin)} `{item.id}`"


def _origin(origin: Origin) -> str:
    match origin.status:
        case "measured":
            return "[measured]"
        case "unknown":
            return f"**[unknown]**{_declared(origin)}"
        case "declared":
            return f"[declared{_declared(origin)}]"
        case _:
            assert_never(origin.status)


def _declared(origin: Origin) -> str:
    """Whose word, when, where, and under which signature; nothing where many stand together."""
    if not origin.by:
        return ""
    when = f", {origin.when}" if origin.when else ""
    place = "" if origin.entry is None else f", entry {origin.entry}"
    return " " + escaped(f"by {origin.by}{when}{place}; signature: {origin.signature}")


def _prose(block: Prose) -> Iterator[str]:
    match block.tone:
        case "warning":
            yield from (f"> **Warning:** {escaped(line)}" for line in block.lines)
        case "note":
            yield from (f"> {escaped(line)}" for line in block.lines)
        case "plain":
            yield from (f"- {escaped(line)}" for line in block.lines)
        case _:
            assert_never(block.tone)


def _table(table: Table) -> Iterator[str]:
    yield f"**{escaped(table.caption)}** [{table.origin.status}]"
    yield ""
    if not table.rows:
        yield escaped(table.empty)
        return
    yield "| " + " | ".join(escaped(column.heading) for column in table.columns) + " |"
    yield "| " + " | ".join("---:" if column.numeric else "---" for column in table.columns) + " |"
    for row in table.rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    if cell.status is not None:
        text += f" [{cell.status}]"
    return f"{text} ({escaped(cell.note)})" if cell.note else text
