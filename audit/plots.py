"""The picture of an audit: how well the two datasets can be told apart, beside what the claim allows.

The trade-off curve is drawn as detections against false alarms on logarithmic axes: a fault of a small delta lives at
rates that linear axes hide, and a factor e^epsilon is one distance everywhere. Detections are on the side where the
verdict's event is likelier: its complement says the same, but lies where such axes show nothing. Line styles and greys
carry the meaning, so that the picture survives print. Of an ex-post claim each stratum has a row: what it claims, and
what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from dpledger.audit.claims import Point
from dpledger.audit.evidence.thresholds import Direction
from dpledger.audit.outcomes import Floats
from dpledger.audit.verdict import percent
from dpledger.errors import ParameterError
from dpledger.files import place_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpledger.audit.verdict import AuditResult, StratumFinding

__all__ = ["best_of", "check_destination", "claimed_ceiling", "drawn"]

STEPS = 800
VERDICTS = {"violation": "violation", "not_refuted": "not refuted (which is no proof of privacy)"}
SUFFIXES = (".png", ".svg", ".pdf")


def claimed_ceiling(false_alarms: Floats, points: tuple[Point, ...]) -> Floats:
    """The highest rate of detections that a claim of these points allows at each rate of false alarms.

    Claim: on a mechanism that satisfies every point, no event that is as rare on one side as `false_alarms` is likelier
        on the other than this. Source: Dong-Roth-Su 2022, proposition 2.5 (one minus the trade-off function).
    """
    ceilings = [np.ones_like(false_alarms)]
    for point in points:
        growth, delta = float(np.exp(min(float(point.epsilon), 700.0))), float(point.delta)
        ceilings += [growth * false_alarms + delta, 1 - (1 - delta - false_alarms) / growth]
    result: Floats = np.min(ceilings, axis=0)
    return result


def best_of(tests: Sequence[tuple[float, float]], false_alarms: Floats) -> Floats:
    """The most detections, at each rate of false alarms, of all lotteries between tests of these rates (of false
    alarms, of detections), the test that never accuses and the one that always does.

    Claim: where each test has at most its false alarms and at least its detections, some test with at most
        `false_alarms` detects at least this much. Source: a lottery between two tests is a test, whose rates are the
        same mixture of theirs; and accusing more often loses no detection.
    """
    corners: list[tuple[float, float]] = []
    for x, y in sorted([*tests, (0.0, 0.0), (1.0, 1.0)], key=lambda test: (test[0], -test[1])):
        if corners and y <= corners[-1][1]:
            continue
        while len(corners) > 1 and _is_below(corners[-1], corners[-2], (x, y)):
            corners.pop()
        corners.append((x, y))
    found: Floats = np.interp(false_alarms, [x for x, _ in corners], [y for _, y in corners])
    return found


def _is_below(test: tuple[float, float], left: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether a lottery between its neighbours is as good."""
    (x, y), (x0, y0), (x1, y1) = test, left, right
    return (y - y0) * (x1 - x0) <= (y1 - y0) * (x - x0)


def check_destination(path: str | PathLike[str]) -> None:
    """Raise ParameterError unless a picture can be drawn and written to `path`: before an audit runs for it."""
    where = place_of(path, "plot")
    if where.suffix.lower() not in SUFFIXES:
        raise ParameterError("plot", str(where), f"a file name that ends in {', '.join(SUFFIXES)}")
    if where.is_dir() or not where.parent.is_dir():
        raise ParameterError("plot", str(where), "a file in a folder that is there")
    if find_spec("matplotlib") is None:
        raise _without_matplotlib()


def _without_matplotlib() -> ParameterError:
    return ParameterError("plot", "no matplotlib", "the extra 'plots': install dpledger[plots]")


def drawn(result: AuditResult, path: str | PathLike[str] | None) -> Figure:
    """The picture of `result`: its trade-off curve with its band, its witness and the claimed region, or of an ex-post
    claim its strata; saved to `path` if given. ParameterError where matplotlib is missing or `path` cannot be written.
    """
    if path is not None:
        check_destination(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise _without_matplotlib() from None
    figure = Figure(figsize=(7.2, max(5.6, 0.4 * len(result.by_stratum))), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file: no window, no global state
    axes = figure.add_subplot()
    if result.strata is None:
        _trade_off(axes, result)
    else:
        _strata(axes, result)
    if path is not None:
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ParameterError("plot", str(path), f"a file that can be written ({error.strerror})") from None
    return figure


# ---- the strata of an ex-post claim ---------------------------------------------------------------------------------


def _strata(axes: Axes, result: AuditResult) -> None:
    """One row a stratum: what is claimed, and what was found at least."""
    found = result.by_stratum
    places = np.arange(len(found))
    claimed, lower = ([float(getattr(one, name)) for one in found] for name in ("claimed", "epsilon_lower"))
    axes.barh(places, claimed, height=0.7, color="tab:blue", alpha=0.15, label="claimed: no event loses more")
    axes.plot(claimed, places, color="tab:blue", marker="|", ms=14, mew=1.4, ls="none")
    for is_refuted, marker in ((False, "o"), (True, "X")):
        rows = [place for place, one in zip(places, found, strict=True) if one.refuted is is_refuted]
        if rows:
            label = f"measured: at least this much{' (refuted)' if is_refuted else ''}"
            axes.plot([lower[row] for row in rows], rows, color="black", marker=marker, ls="none", label=label)
    axes.set_yticks(places, [_row(one) for one in found], fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=0.02)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"epsilon at delta {float(result.delta):.3g} ({percent(result.confidence)}, all strata at once)")
    together = "refuted together as well" if result.strata and result.strata.joint.refuted else "not refuted together"
    axes.set_title(
        f"{result.mechanism.kind}: {VERDICTS[result.verdict]}\nstrata of an ex-post claim, {together}", fontsize=11
    )
    axes.grid(axis="x", color="0.9", lw=0.6)
    axes.legend(loc="best", fontsize=8, framealpha=0.95)


def _row(found: StratumFinding) -> str:
    """A stratum in a few words, with how many runs fell into it."""
    above = found.stratum.above
    claimed = (
        f"{float(found.claimed):.4g}" if above is None else f"{max(float(above), 0):.4g} to {float(found.claimed):.4g}"
    )
    return f"claimed loss {claimed}\n{found.left:,} and {found.right:,} runs"


# ---- the trade-off curve --------------------------------------------------------------------------------------------


def _trade_off(axes: Axes, result: AuditResult) -> None:
    rates = np.geomspace(0.3 / max(sum(result.cells.rarer), 1), 1, STEPS)
    _draw_claim(axes, result, rates)
    _draw_band(axes, result, rates)
    _draw_witness(axes, result)
    _finish(axes, result, float(rates[0]))


def _draw_claim(axes: Axes, result: AuditResult, rates: Floats) -> None:
    ceiling = claimed_ceiling(rates, (result.target.point, *result.target.knots))
    axes.fill_between(rates, rates, ceiling, color="tab:blue", alpha=0.12, lw=0)
    axes.plot(rates, ceiling, color="tab:blue", ls="--", lw=1.4, label="the claim: no event lies above this line")


def _draw_band(axes: Axes, result: AuditResult, rates: Floats) -> None:
    """What the limits of the planned events, which hold at once, say of all lotteries between them: those are tests as
    well.

    Seen from the other side the events are their complements: false alarms and misses change places."""
    uppers = [(point.false_alarm_upper, point.missed_upper) for point in result.band]
    lowers = [(point.false_alarm_lower, point.missed_lower) for point in result.band]
    if result.witness.planned.direction is not result.cells.side:
        uppers, lowers = ([(missed, alarm) for alarm, missed in limits] for limits in (uppers, lowers))
    lower, upper = (best_of([(alarm, 1 - missed) for alarm, missed in limits], rates) for limits in (uppers, lowers))
    shown = lower > 0
    axes.fill_between(rates[shown], lower[shown], upper[shown], color="0.6", alpha=0.6, lw=0)
    label = f"measured: at least this much ({percent(result.confidence)}, whole line)"
    axes.plot(rates[shown], lower[shown], color="black", lw=1.3, label=label)


def _draw_witness(axes: Axes, result: AuditResult) -> None:
    look, words = result.witness, result.event.words
    label = f"the verdict's event: {words if len(words) <= 58 else words[:57] + '…'}"
    axes.plot([look.rarer_upper], [look.likelier_lower], marker="o", color="black", ls="none", label=label)


def _finish(axes: Axes, result: AuditResult, low: float) -> None:
    left_is_likelier = result.witness.planned.direction is Direction.LEFT
    rarer, likelier = ("right", "left") if left_is_likelier else ("left", "right")
    axes.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1.1))
    axes.set_xlabel(f"false alarms: how often the event happens on the {rarer} data")
    axes.set_ylabel(f"detections: how often it happens on the {likelier} data")
    bound = f"epsilon at least {float(result.epsilon_lower):.4g} at delta {float(result.delta):.3g}"
    axes.set_title(f"{result.mechanism.kind}: {VERDICTS[result.verdict]}\n{bound}", fontsize=11)
    axes.grid(which="major", color="0.9", lw=0.6)
    axes.legend(loc="lower right", fontsize=8, framealpha=0.95)
