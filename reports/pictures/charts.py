"""The five charts of a report as inline SVG. Every line differs in its dashes and every bar in its filling, so that a
print in black and white says the same; what a chart shows is also said in words under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import ceil
from typing import assert_never

from markupsafe import Markup

from dpledger.decimals import add, multiply
from dpledger.reports import words
from dpledger.reports.model import (
    Bar,
    BarChart,
    ClaimChart,
    Claimed,
    CurveChart,
    OddsChart,
    Picture,
    SpentChart,
    TradeoffCurve,
)
from dpledger.reports.pictures import svg
from dpledger.reports.pictures.svg import Frame, Scale

__all__ = ["drawn"]

WIDTH = 420  # fits a phone
KEY = 432  # of the trade-off curves: where what they are called begins
ROW = 46  # pixels of a bar and its label
CLAIM_ROW = 64  # pixels of a claim and two labels


def drawn(picture: Picture, id_: str) -> Markup:
    """The picture as one `svg` element. `id_`: unique in the page."""
    size, parts = _chart(picture.chart, id_)
    return svg.picture(id_, picture.title, picture.description, size, parts)


def _chart(
    chart: SpentChart | BarChart | CurveChart | ClaimChart | OddsChart, id_: str
) -> tuple[tuple[int, int], Iterator[Markup]]:
    match chart:
        case SpentChart():
            return (WIDTH, 320), _spent(chart)
        case BarChart():
            return (WIDTH, 74 + ROW * len(_all_bars(chart))), _bars(chart, id_)
        case CurveChart():
            return (WIDTH, KEY + 30 + sum(_height(curve.label) for curve in chart.curves)), _curves(chart, id_)
        case ClaimChart():
            return (WIDTH, 80 + CLAIM_ROW * len(chart.rows)), _claims(chart)
        case OddsChart():
            return (STEP * ACROSS + 14, TOP + STEP * (100 // ACROSS) + 8), _odds(chart, id_)
        case _:
            assert_never(chart)


# ---- spent over the entries -----------------------------------------------------------------------------------------


def _spent(chart: SpentChart) -> Iterator[Markup]:
    frame = Frame(64, 44, WIDTH - 20, 260)
    known = [point.upper for point in chart.points if point.upper is not None]
    first = min([chart.last - 1, *(point.index for point in chart.points), *chart.refused])
    x = frame.horizontal(float(chart.last), float(max(first - 1, 0)))
    y = frame.vertical(float(max([chart.budget, *known])) * 1.08)
    yield from frame.grid(x, y, "entry of the ledger", "ε", whole=True)
    yield svg.path([(frame.left, y.at(chart.budget)), (frame.right, y.at(chart.budget))], "line budget")
    yield svg.label(
        f"budget {words.at_most(chart.budget)}", frame.right, y.at(chart.budget) - 7, anchor="end", style="label strong"
    )
    upper = _steps(chart, x, y, [(point.index, point.upper) for point in chart.points])
    yield svg.path([(upper[0][0], y.at(0)), *upper, (upper[-1][0], y.at(0))], "area") if upper else Markup("")
    yield svg.path(upper, "line upper") if upper else Markup("")
    lower = _steps(chart, x, y, [(point.index, point.lower) for point in chart.points])
    yield svg.path(lower, "line lower") if lower else Markup("")
    for index in chart.refused:
        yield svg.marker(x.at(index), frame.bottom - 12, "refused")
    yield from _spent_legend(chart)


def _steps(
    chart: SpentChart, x: Scale, y: Scale, values: Sequence[tuple[int, Decimal | None]]
) -> list[tuple[float, float]]:
    """A staircase from the first value to the end of the ledger; a value without a bound is drawn at the top."""
    points: list[tuple[float, float]] = []
    for index, value in values:
        at = y.at(y.high if value is None else value)
        points += [(x.at(index), points[-1][1] if points else y.at(0)), (x.at(index), at)]
    return [*points, (x.at(chart.last), points[-1][1])] if points else []


def _spent_legend(chart: SpentChart) -> Iterator[Markup]:
    entries = [("line upper", "spent at most"), ("line lower", "spent at least")]
    left = 10.0
    for style, name in entries:
        yield svg.path([(left, 12), (left + 34, 12)], style)
        yield svg.label(name, left + 42, 16)
        left += 150
    if chart.refused:
        yield svg.marker(left + 6, 12, "refused")
        yield svg.label("refused", left + 20, 16)


# ---- what each mechanism contributes --------------------------------------------------------------------------------


def _bars(chart: BarChart, id_: str) -> Iterator[Markup]:
    yield _hatching(id_)
    bars = _all_bars(chart)
    widest = max([chart.limit, *(add(bar.charged, bar.returned) for bar in bars)])
    x = Scale(0.0, float(widest) * 1.04, 10, WIDTH - 10)
    for place, bar in enumerate(bars):
        yield from _bar(bar, x, 34 + ROW * place, id_)
    bottom = 30 + ROW * len(bars)
    limit = x.at(chart.limit)
    yield svg.path([(limit, 22), (limit, bottom)], "line budget")
    yield svg.label(f"limit {words.at_least(chart.limit)}", limit - 6, 18, anchor="end", style="label strong")
    yield svg.element("rect", x=10, y=bottom + 16, width=26, height=12, class_="bar")
    yield svg.label("charged", 44, bottom + 27)
    yield svg.element("rect", x=124, y=bottom + 16, width=26, height=12, class_="back", fill=f"url(#{id_}-hatch)")
    yield svg.label("came back", 158, bottom + 27)


def _all_bars(chart: BarChart) -> tuple[Bar, ...]:
    return chart.bars if chart.together is None else (*chart.bars, chart.together)


def _bar(bar: Bar, x: Scale, top: float, id_: str) -> Iterator[Markup]:
    charged, whole = x.at(bar.charged), x.at(add(bar.charged, bar.returned))
    said = svg.element("tspan", words.at_most(bar.charged), class_="strong") + f"  {_short(bar.label, MOST_LETTERS)}"
    yield svg.element("text", said, x=10, y=top + 10, class_="label")
    yield svg.element("rect", x=10, y=top + 17, width=max(charged - 10, 1.0), height=14, class_="bar")
    if bar.returned:
        width = max(whole - charged, 1.0)
        yield svg.element(
            "rect", x=charged, y=top + 17, width=width, height=14, class_="back", fill=f"url(#{id_}-hatch)"
        )


def _hatching(id_: str) -> Markup:
    line = svg.element("path", d="M0 6L6 0", class_="hatch")
    pattern = svg.element("pattern", line, id=f"{id_}-hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return svg.element("defs", pattern)


# ---- trade-off curves -----------------------------------------------------------------------------------------------


def _curves(chart: CurveChart, id_: str) -> Iterator[Markup]:
    yield _hatching(id_)
    frame = Frame(64, 44, 384, 364)
    x, y = frame.horizontal(1.0), frame.vertical(1.0)
    yield from frame.grid(x, y, "false alarms", "missed cases")
    yield svg.path([(x.at(0), y.at(1)), (x.at(1), y.at(0))], "line guess")
    yield from _band(chart, x, y, id_)
    styles = _styles(chart.curves)
    for curve, style in zip(chart.curves, styles, strict=True):
        yield svg.path([(x.at(point.alpha), y.at(point.beta)) for point in curve.points], style)
    yield from _curve_legend(chart, styles)


def _styles(curves: Sequence[TradeoffCurve]) -> list[str]:
    """One look a curve: promises solid, audits dashed, plans each with dashes of its own."""
    plans = 0
    styles = []
    for curve in curves:
        plans += curve.role == "plan"
        styles.append(f"line plan{plans}" if curve.role == "plan" else f"line {curve.role}")
    return styles


def _band(chart: CurveChart, x: Scale, y: Scale, id_: str) -> Iterator[Markup]:
    """Between what is claimed and what an audit found, where there is an audit."""
    promise = next((curve for curve in chart.curves if curve.role == "promise"), None)
    audit = next((curve for curve in chart.curves if curve.role == "audit"), None)
    if promise is None or audit is None:
        return
    outline = [(x.at(point.alpha), y.at(point.beta)) for point in (*promise.points, *reversed(audit.points))]
    steps = " ".join(f"{a:.1f},{b:.1f}" for a, b in outline)
    yield svg.element("polygon", points=steps, class_="band", fill=f"url(#{id_}-hatch)")


MOST_LETTERS = 38  # of what a bar is called, or of a line of what a curve is called
LINE = 17  # pixels from one line to the next
MOST_LETTERS_ACROSS = 62  # of what has a line to itself


def _short(name: str, most: int) -> str:
    """What is longer stands in full under the picture."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _curve_legend(chart: CurveChart, styles: Sequence[str]) -> Iterator[Markup]:
    rows = [("line guess", "guessing: nothing is learnt")]
    rows += [(style, curve.label) for curve, style in zip(chart.curves, styles, strict=True)]
    top = KEY
    for style, name in rows:
        yield svg.path([(64, top), (100, top)], style)
        for place, line in enumerate(_lines(name)):
            yield svg.label(line, 110, top + 4 + LINE * place)
        top += _height(name)


def _lines(name: str) -> tuple[str, ...]:
    """What a curve is called, in one line or two: broken between words, else where the line is full."""
    if len(name) <= MOST_LETTERS:
        return (name,)
    place = name.rfind(" ", 0, MOST_LETTERS + 1)
    if place <= 0:
        return name[:MOST_LETTERS], _short(name[MOST_LETTERS:], MOST_LETTERS)
    return name[:place], _short(name[place + 1 :], MOST_LETTERS)


def _height(name: str) -> int:
    return 30 + LINE * (len(_lines(name)) - 1)


# ---- claims against audits ------------------------------------------------------------------------------------------


def _claims(chart: ClaimChart) -> Iterator[Markup]:
    known = [row.lower for row in chart.rows] + [row.claim for row in chart.rows if row.claim is not None]
    x = Scale(0.0, max(float(max(known)) * 1.08, 1e-9), 10, WIDTH - 10)
    for place, row in enumerate(chart.rows):
        yield from _claim(row, x, 22 + CLAIM_ROW * place)
    bottom = 32 + CLAIM_ROW * len(chart.rows)
    yield svg.element("path", d=_diamond(17, bottom + 20), class_="claimed")
    yield svg.label("claimed", 32, bottom + 24)
    yield svg.element("circle", cx=121, cy=bottom + 20, r=6, class_="audited")
    yield svg.label("audited: at least", 136, bottom + 24)
    yield svg.element("rect", x=276, y=bottom + 14, width=12, height=12, class_="violated")
    yield svg.label("violation: at least", 298, bottom + 24)


def _claim(row: Claimed, x: Scale, top: float) -> Iterator[Markup]:
    line = top + 40
    lower = x.at(row.lower)
    yield svg.label(_short(row.label, MOST_LETTERS_ACROSS), 10, top + 8)
    verdict = "violation" if row.verdict == "violation" else "not refuted"
    claim = "no bound" if row.claim is None else words.at_most(row.claim)
    said = f"claimed {claim}, at least {words.at_least(row.lower)}: {verdict}"
    yield svg.label(said, 10, top + 25, style="label strong")
    yield svg.element("line", x1=10, x2=WIDTH - 10, y1=line, y2=line, class_="grid")
    if row.claim is not None:
        yield svg.path([(lower, line), (x.at(row.claim), line)], "line between")
        yield svg.element("path", d=_diamond(x.at(row.claim), line), class_="claimed")
    if row.verdict == "violation":
        yield svg.element("rect", x=lower - 6, y=line - 6, width=12, height=12, class_="violated")
    else:
        yield svg.element("circle", cx=lower, cy=line, r=6, class_="audited")


def _diamond(x: float, y: float) -> str:
    return f"M{x:.1f} {y - 8:.1f}l8 8l-8 8l-8 -8z"


# ---- odds -----------------------------------------------------------------------------------------------------------

ACROSS, STEP = 20, 17  # guesses in a row, and pixels from one to the next
TOP = 26


def _odds(chart: OddsChart, id_: str) -> Iterator[Markup]:
    """A hundred guesses: those that are right by luck alone, those that may be right as well, the rest."""
    yield _hatching(id_)
    before, after = int(multiply(chart.before, 100)), ceil(multiply(chart.after, 100))
    yield svg.label(f"{before} by luck", 26, 12)
    yield svg.element("circle", cx=14, cy=8, r=6, class_="luck")
    yield svg.element("circle", cx=118, cy=8, r=6, class_="learnt", fill=f"url(#{id_}-hatch)")
    yield svg.label(f"up to {after - before} more", 130, 12)
    yield svg.element("circle", cx=238, cy=8, r=6, class_="wrong")
    yield svg.label("wrong", 250, 12)
    for place in range(100):
        x, y = 14 + STEP * (place % ACROSS), TOP + 8 + STEP * (place // ACROSS)
        if place < before:
            yield svg.element("circle", cx=x, cy=y, r=6, class_="luck")
        elif place < after:
            yield svg.element("circle", cx=x, cy=y, r=6, class_="learnt", fill=f"url(#{id_}-hatch)")
        else:
            yield svg.element("circle", cx=x, cy=y, r=6, class_="wrong")
