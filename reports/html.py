"""The report as one HTML file: no network, no script, its style inline; light, dark and print.

The page's own content-security policy forbids everything but inline style. All text is escaped by the template; the
only markup that enters unescaped is made by `pictures`, which escapes for itself.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from dpledger.decimals import multiply
from dpledger.reports.model import Item, Page, ReportModel, pictures
from dpledger.reports.pictures.charts import drawn

__all__ = ["framed", "render"]

_RELATION = re.compile(r"[εδρμηn] [=≤≥] [0-9](?:[0-9.e-]*[0-9])?|[0-9]e-[0-9]+|[0-9.]+ %")
_WORDS = re.compile(r"(\s+)")
_PARTS = re.compile(r"[^._/:,;=-]{0,16}[._/:,;=-]|.{1,16}", re.DOTALL)
LONG_WORD = 24  # characters without a space from which a text is set in a fixed width


def render(model: ReportModel, digest: str) -> str:
    """The whole page. `digest`: the SHA-256 of the JSON form."""
    drawings = {picture.id: drawn(picture, f"picture-{place}") for place, picture in enumerate(pictures(model))}
    return (
        _environment()
        .get_template("report.html")
        .render(
            model=model,
            digest=digest,
            style=_style(),
            pictures=drawings,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["mono"] = _is_mono
    environment.tests["roomy"] = _is_roomy
    environment.filters["tied"] = _tied
    environment.filters["hundredths"] = _hundredths
    return environment


def _hundredths(share: Decimal) -> str:
    """A share as a length on a scale of a hundred."""
    return f"{multiply(share, 100):f}"


def _template(name: str) -> str:
    return files("dpledger.reports").joinpath("templates", name).read_text("utf-8")


@functools.cache
def _style() -> Markup:
    return Markup(_template("report.css"))  # noqa: S704  # our own file


def _tied(text: str) -> Markup:
    """`text`, escaped, with each symbol, its relation and its number kept on one line, and places to break in words
    that no line may hold."""
    pieces = (_breakable(piece) if len(piece) >= LONG_WORD else str(escape(piece)) for piece in _WORDS.split(text))
    return Markup(_RELATION.sub(r'<span class="n">\g<0></span>', "".join(pieces)))  # noqa: S704  # escaped piecewise


def _breakable(piece: str) -> str:
    """A long word, escaped, that may be broken between its parts and within those that are long themselves."""
    parts = _PARTS.findall(piece)
    return "<wbr>".join(str(escape(part)) for part in parts)


def _is_mono(item: Item) -> bool:
    """Digests, keys and commands: set in a fixed width."""
    return any(len(word) >= LONG_WORD for word in item.text.split()) and item.origin.status == "measured"


LETTERS, LARGE = 56, 34  # of a line in a column of the printed first page: of a text, and of an answer
MOST_LINES = 66  # of them in all, so that the page is still one sheet when it is set larger


def _is_roomy(page: Page) -> bool:
    """Whether a first page says so little that it may be set larger in print."""
    lines = sum(-(-len(line) // LETTERS) for answer in page.answers for line in answer.lines)
    answers = sum(-(-len(answer.text) // LARGE) for answer in page.answers)
    return lines + answers + (len(page.title) + len(page.about)) // LETTERS <= MOST_LINES


def framed(page: str) -> str:
    """`page` in an `iframe` that may run nothing and reach nothing, for a notebook."""
    return str(
        Markup('<iframe sandbox srcdoc="{}" title="{}" style="width:100%;height:40rem;border:0"></iframe>').format(
            page, "Privacy report"
        )
    )
