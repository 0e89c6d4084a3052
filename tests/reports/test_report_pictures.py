"""The pictures: numbers as in the tables, shapes as the theory says, looks that differ in grey."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import pytest

import dpledger as dpl
import dpledger.reports
from dpledger.accounting.guarantees import GDP, ApproxDP, PureDP
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.reports.build import build
from dpledger.reports.model import (
    BarChart,
    ClaimChart,
    CurveChart,
    CurvePoint,
    Picture,
    ReportModel,
    SpentChart,
    TradeoffCurve,
    blocks,
)
from dpledger.reports.pictures.charts import drawn
from report_records import Record, audit, report_on_sample

T = TypeVar("T")


def pictures(model: ReportModel) -> list[Picture]:
    return [block for block in blocks(model.sections) if isinstance(block, Picture)]


def charts(model: ReportModel, kind: type[T]) -> list[T]:
    return [picture.chart for picture in pictures(model) if isinstance(picture.chart, kind)]


def test_every_kind_of_chart_is_drawn_as_one_well_formed_picture() -> None:
    found = pictures(report_on_sample().model)
    assert {type(picture.chart) for picture in found} == {SpentChart, BarChart, CurveChart, ClaimChart}
    for number, picture in enumerate(found):
        drawing = ElementTree.fromstring(drawn(picture, f"p{number}"))
        title, description = drawing[0], drawing[1]
        assert (title.tag, title.text) == ("title", picture.title)
        assert (description.tag, description.text) == ("desc", picture.description)
        assert "nan" not in ElementTree.tostring(drawing, "unicode").lower()


def test_the_line_of_what_was_spent_lies_between_its_bounds_and_ends_at_the_reading() -> None:
    record = Record()
    record.scope("s", PureDP(1))
    for epsilon in ("0.1", "0.2", "0.3"):
        record.release("s", Laplace(sensitivity=1, epsilon=epsilon))
    (chart,) = charts(build(record.verified()), SpentChart)
    uppers = [point.upper for point in chart.points]
    assert uppers == [Decimal(text) for text in ("0.1", "0.1", "0.3", "0.3", "0.6", "0.6")]
    assert all(point.upper is not None and point.lower <= point.upper <= chart.budget for point in chart.points)
    assert [point.lower for point in chart.points] == sorted(point.lower for point in chart.points)
    assert Decimal("0.299") < chart.points[-1].lower <= Decimal("0.3")


def test_a_charge_that_comes_back_lowers_the_line() -> None:
    record = Record()
    record.scope("s", PureDP(1))
    record.abort("s", Laplace(sensitivity=1, epsilon="0.4"))
    (chart,) = charts(build(record.verified()), SpentChart)
    assert [point.upper for point in chart.points] == [Decimal("0.4"), Decimal(0)]


def test_refusals_are_marked_where_they_happened() -> None:
    record = Record()
    record.scope("s", PureDP(1))
    record.ask("s", Laplace(sensitivity=1, epsilon=2))
    (chart,) = charts(build(record.verified()), SpentChart)
    assert chart.refused == (2,)
    assert chart.points == ()
    assert any("A cross marks 1 refusal." in one.description for one in pictures(build(record.verified())))
    record.ask("s", Laplace(sensitivity=1, epsilon=3))
    assert any("Crosses mark 2 refusals." in one.description for one in pictures(build(record.verified())))


def test_what_comes_before_the_first_charge_takes_no_room_and_every_line_fits_a_phone() -> None:
    record = Record()
    record.scope("s", PureDP(1))
    for number in range(49):
        record.declare("region", f"Region {number}", "A. Lindqvist")
    record.release("s", Laplace(sensitivity=1, epsilon="0.5"))
    record.ask("s", Laplace(sensitivity=1, epsilon=2))
    record.add(audit("laplace", PureDP("0.5"), "0.4", "not_refuted"))
    for number, picture in enumerate(pictures(build(record.verified()))):
        drawing = ElementTree.fromstring(drawn(picture, f"p{number}"))
        width = float(drawing.attrib["viewBox"].split()[2])
        assert width <= 480
        assert drawing.attrib["class"] == "chart narrow"
        for line in drawing.iter("path"):
            if "budget" in line.attrib["class"]:
                corners = [float(number) for number in re.findall(r"[0-9.]+", line.attrib["d"])][::2]
                assert all(0 <= x <= width for x in corners)
        if isinstance(picture.chart, SpentChart):
            (upper,) = (
                one
                for one in drawing.iter("path")
                if one.attrib["class"] == "line upper" and one.attrib["d"].count("L") > 1
            )
            begins = float(re.findall(r"[0-9.]+", upper.attrib["d"])[0])
            assert begins < width / 2


def test_a_long_line_is_thinned_and_keeps_its_end() -> None:
    record = Record()
    record.scope("s", PureDP(1000))
    for _ in range(300):
        record.release("s", Laplace(sensitivity=1, epsilon=1))
    (chart,) = charts(build(record.verified()), SpentChart)
    assert len(chart.points) <= 240
    assert (chart.points[-1].index, chart.points[-1].upper) == (601, Decimal(300))


def test_trade_off_curves_fall_are_convex_and_the_budget_is_the_lowest() -> None:
    record = Record()
    record.scope("s", ApproxDP(1, "1e-6"))
    record.release("s", Laplace(sensitivity=1, epsilon="0.5"))
    (chart,) = charts(build(record.verified()), CurveChart)
    budget, plan = chart.curves
    assert (budget.role, plan.role) == ("promise", "plan")
    for curve in chart.curves:
        points = [(float(point.alpha), float(point.beta)) for point in curve.points]
        slopes = [(b - d) / (a - c) for (a, b), (c, d) in pairwise(points)]
        assert all(0 <= alpha <= 1 and 0 <= beta <= 1 - alpha + 1e-5 for alpha, beta in points)
        assert all(one <= other + 1e-3 for one, other in pairwise(slopes)), curve.label
    lower = {point.alpha: point.beta for point in budget.points}
    assert all(lower[point.alpha] <= point.beta for point in plan.points)


@pytest.mark.parametrize(("lower", "verdict", "refuted"), [("0.4", "not_refuted", False), ("0.9", "violation", True)])
def test_an_audit_is_drawn_on_the_side_that_its_verdict_says(lower: str, verdict: str, refuted: bool) -> None:
    record = Record()
    record.scope("patients", PureDP(1))
    record.release("patients", Laplace(sensitivity=1, epsilon="0.5"))
    record.add(audit("laplace", PureDP("0.5"), lower, verdict))  # type: ignore[arg-type]
    model = build(record.verified())
    (claims,) = charts(model, ClaimChart)
    assert [(row.claim, row.lower) for row in claims.rows] == [(Decimal("0.5"), Decimal(lower))]
    (curves,) = (one for one in charts(model, CurveChart) if any(curve.role == "audit" for curve in one.curves))
    claimed, audited = ({p.alpha: p.beta for p in curve.points}[Decimal("0.3")] for curve in curves.curves)
    assert (audited < claimed) is refuted
    (picture,) = (one for one in pictures(model) if one.chart == curves)
    assert ("the claim is refuted" in picture.description) is refuted


def test_the_audits_of_a_training_that_are_about_a_budget_are_drawn() -> None:
    """One of nothing that is charged here is no picture; what its entry says of a budget is."""
    with dpl.Ledger.in_memory() as book:
        book.scope("rows", unit="row", relation="add_remove", budget=PureDP(1))
        found = audit("train", PureDP(2), "2.5", "violation")
        book.record(found)
        assert not charts(build(book.verify()), ClaimChart)
        entry = book.record(found, about=["rows"])
        model = build(book.verify())
    (claims,) = charts(model, ClaimChart)
    assert [(row.label, row.claim, row.lower) for row in claims.rows] == [
        (f"train, entry {entry.index}", Decimal(2), Decimal("2.5"))
    ]
    (picture,) = (one for one in pictures(model) if one.chart == claims)
    assert "about a budget" in picture.title


def test_bars_say_what_was_charged_and_what_came_back() -> None:
    chart = next(chart for chart in charts(report_on_sample().model, BarChart) if len(chart.bars) > 1)
    bars = {bar.label: bar for bar in chart.bars}
    assert bars["dp_sgd"].returned > 0
    assert bars["sparse_vector"].charged + bars["sparse_vector"].returned == Decimal("0.4")
    assert [bar.charged for bar in chart.bars] == sorted((bar.charged for bar in chart.bars), reverse=True)


def test_lines_differ_in_their_dashes_and_not_only_in_colour() -> None:
    style = (Path(dpledger.reports.__file__).parent / "templates" / "report.css").read_text("utf-8")
    together = (
        ("upper", "lower", "budget"),
        ("guess", "promise", "audit"),
        ("guess", "promise", "plan1", "plan2", "plan3"),
    )
    for names in together:
        dashes = [re.search(rf"\.chart \.{name} {{[^}}]*stroke-dasharray: ([0-9 ]+)", style) for name in names]
        looks = [found.group(1) if found else "solid" for found in dashes]
        assert len(set(looks)) == len(looks), names


def test_a_budget_that_reads_as_no_epsilon_is_drawn() -> None:
    """Little enough of a Gaussian is within (0, 1e-6)-DP: nothing has a height then, and no scale a length."""
    record = Record()
    record.scope("s", GDP("1e-9"))
    for picture in pictures(build(record.verified())):
        assert "nan" not in drawn(picture, "p").lower()


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("gaussian, alone", ["gaussian, alone"]),
        (
            "exponential_ppac_learner (stump of the clinic), alone",
            ["exponential_ppac_learner (stump of the", "clinic), alone"],
        ),
        ("x" * 50, ["x" * 38, "x" * 12]),
        ("x" * 90, ["x" * 38, "x" * 37 + "…"]),
    ],
)
def test_a_long_name_of_a_curve_stands_in_two_lines_within_the_picture(name: str, lines: list[str]) -> None:
    points = (CurvePoint(Decimal(0), Decimal(1)), CurvePoint(Decimal(1), Decimal(0)))
    curves = tuple(TradeoffCurve(label=label, role="plan", points=points) for label in (name, "the last one"))
    drawing = ElementTree.fromstring(
        drawn(Picture(id="p", title="t", description="d", chart=CurveChart(curves=curves)), "p")
    )
    texts = [(one.text, float(one.get("y", "0"))) for one in drawing.iter("text")]
    told = [text for text, _ in texts]
    place = told.index(lines[0])
    assert told[place : place + len(lines) + 1] == [*lines, "the last one"]
    heights = [height for _, height in texts[place:]]
    assert all(below - above >= 17 for above, below in pairwise(heights))
    assert max(heights) < float(drawing.get("viewBox", "").split()[3])
