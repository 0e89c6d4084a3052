"""Small pieces of SVG: elements, axes, scales. Text is escaped here and nowhere else.

Shapes carry classes; the page's style sheet gives them colours, for light, dark and print. Coordinates are written with
one digit after the point: below a tenth of a pixel nobody sees, and equal input gives equal bytes.

>>> element("line", x1=0, y1=2.5)
Markup('<line x1="0" y1="2.5"/>')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from markupsafe import Markup, escape

__all__ = ["Frame", "Scale", "element", "label", "marker", "marks", "path", "picture", "ticks"]

Attribute = str | int | float


def element(tag: str, content: Markup | str = "", **attributes: Attribute) -> Markup:
    """One element. Underscores in names stand for hyphens; a trailing one is dropped (`class_`)."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"' for name, value in attributes.items()
    )
    inside = escape(content)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")  # noqa: S704  # escaped above


def _value(value: Attribute) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def label(text: str, x: float, y: float, *, anchor: str = "start", style: str = "label") -> Markup:
    """A line of text."""
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=style)


def path(points: Sequence[tuple[float, float]], style: str) -> Markup:
    """A line through the points."""
    steps = " ".join(f"{'M' if place == 0 else 'L'}{_value(x)} {_value(y)}" for place, (x, y) in enumerate(points))
    return element("path", d=steps, class_=style)


def marker(x: float, y: float, style: str) -> Markup:
    """A small cross."""
    return element("path", d=f"M{_value(x - 4)} {_value(y - 4)}l8 8m0 -8l-8 8", class_=style)


NARROW = 480  # pixels: what is no wider fits a phone, and grows less on a page


def picture(id_: str, title: str, description: str, size: tuple[int, int], parts: Iterable[Markup]) -> Markup:
    """A whole picture: named and described for those who do not see it, scaling with the page."""
    width, height = size
    named = element("title", title, id=f"{id_}-title") + element("desc", description, id=f"{id_}-desc")
    return element(
        "svg",
        named + Markup("").join(parts),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{id_}-title",
        aria_describedby=f"{id_}-desc",
        class_="chart" if width > NARROW else "chart narrow",
    )


# ---- scales ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight map from numbers in [low, high] to pixels; where both are the same number, to the first of them."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: Decimal | float) -> float:
        """The pixel of `value`; what lies beyond the scale is drawn at its end."""
        if not self.high > self.low:
            return self.start
        inside = min(max(float(value), self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(high: float, most: int = 5) -> tuple[float, ...]:
    """Round numbers from 0 to `high`, at most `most` + 1 of them."""
    if not high > 0:
        return (0.0,)
    power = (
        10.0 ** (len(str(int(high))) - 1) if high >= 1 else 10.0 ** -next(n for n in range(1, 400) if high * 10**n >= 1)
    )
    step = next(power * factor for factor in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5, 5, 10) if high / (power * factor) <= most)
    return tuple(step * place for place in range(int(high / step + 1e-9) + 1))


def marks(low: float, high: float, *, whole: bool = False) -> tuple[float, ...]:
    """Round numbers from `low` to `high`; whole ones alone, of what is counted.

    >>> marks(51, 79), marks(0, 12), marks(0, 12, whole=True)
    ((60.0, 70.0), (0.0, 2.5, 5.0, 7.5, 10.0), (0.0, 3.0, 6.0, 9.0, 12.0))
    >>> marks(0, 4) == ticks(4)
    True
    """
    if not high > low:
        return (low,)
    step = (*ticks(high - low), 0.0)[1]
    if whole:
        step = float(ceil(step))
    return tuple(step * place for place in range(ceil(low / step - 1e-9), int(high / step + 1e-9) + 1))


def _number(value: float) -> str:
    return f"{value:,.10g}" if value == 0 or value >= 1e-4 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The axes of a chart: the pixels that they enclose."""

    left: float
    top: float
    right: float
    bottom: float

    def horizontal(self, high: float, low: float = 0.0) -> Scale:
        """Numbers from `low` to `high`, from left to right."""
        return Scale(low, high, self.left, self.right)

    def vertical(self, high: float) -> Scale:
        """Numbers from 0 to `high`, from bottom to top."""
        return Scale(0.0, high, self.bottom, self.top)

    def grid(self, x: Scale, y: Scale, x_name: str, y_name: str, *, whole: bool = False) -> Iterable[Markup]:
        """Grid lines, ticks and the names of both axes; `whole`: whether whole numbers alone stand on the lower one."""
        for tick in ticks(y.high):
            at = y.at(tick)
            yield element("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="grid")
            yield label(_number(tick), self.left - 8, at + 4, anchor="end", style="tick")
        for tick in marks(x.low, x.high, whole=whole):
            yield label(_number(tick), x.at(tick), self.bottom + 20, anchor="middle", style="tick")
        yield element("line", x1=self.left, x2=self.right, y1=self.bottom, y2=self.bottom, class_="axis")
        yield label(x_name, (self.left + self.right) / 2, self.bottom + 42, anchor="middle", style="name")
        yield label(y_name, self.left - 8, self.top - 12, anchor="start", style="name")
