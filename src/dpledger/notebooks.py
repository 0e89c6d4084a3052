"""What a notebook shows of an object: a table of two columns or a grid, in which nothing is markup but the table.

>>> summary("Receipt", (("value", "<b>4</b>"),))
'<table><caption>Receipt</caption><tr><th scope="row">value</th><td>&lt;b&gt;4&lt;/b&gt;</td></tr></table>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["grid", "inert", "summary"]

LONGEST = 2_000  # characters of a cell: a name may be longer than a screen
MOST_ROWS = 60  # of a grid: of more the first and the last are shown


def summary(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """The table, as HTML; text is escaped, control characters and direction marks are shown, not obeyed."""
    cells = (f'<tr><th scope="row">{_safe(name)}</th><td>{_safe(str(said))}</td></tr>' for name, said in rows)
    return f"<table><caption>{_safe(title)}</caption>{''.join(cells)}</table>"


def grid(title: str, heads: Iterable[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head over each column, as HTML like that of `summary`; of long ones the first and last rows."""
    half, left_out = MOST_ROWS // 2, ["..."] * len(rows[0]) if rows else []
    shown = rows if len(rows) <= MOST_ROWS else [*rows[:half], left_out, *rows[-half:]]
    head = "".join(f'<th scope="col">{_safe(name)}</th>' for name in heads)
    cells = ("".join(f"<td>{_safe(one)}</td>" for one in row) for row in shown)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><caption>{_safe(title)}</caption><tr>{head}</tr>{body}</table>"


def _safe(text: str) -> str:
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return escape(inert(shown))


def inert(text: str) -> str:
    """Text from others, safe to show: control characters and direction marks are written out."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" for c in text)
