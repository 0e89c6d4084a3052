"""What a notebook shows of an object: a table of two columns, in which nothing is markup but the table.

>>> summary("Receipt", (("value", "<b>4</b>"),))
'<table><caption>Receipt</caption><tr><th scope="row">value</th><td>&lt;b&gt;4&lt;/b&gt;</td></tr></table>'
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["inert", "summary"]

LONGEST = 2_000  # characters of a cell: a name may be longer than a screen


def summary(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """The table, as HTML; text is escaped, control characters and direction marks are shown, not obeyed."""
    cells = (f'<tr><th scope="row">{_safe(name)}</th><td>{_safe(str(said))}</td></tr>' for name, said in rows)
    return f"<table><caption>{_safe(title)}</caption>{''.join(cells)}</table>"


def _safe(text: str) -> str:
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return escape(inert(shown))


def inert(text: str) -> str:
    """Text from others, safe to show: control characters and direction marks are written out."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" for c in text)
