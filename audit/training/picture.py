"""The picture of a training: certified and empirical epsilons on one axis.

What is certified bounds the truth from above, what audits show bounds it from below. The epsilon at the step level is
that of one step.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from dpledger.audit.results.plots import check_destination, without_matplotlib
from dpledger.audit.results.verdict import STEPS, AuditResult
from dpledger.audit.tested.claims import ClaimPoint
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["drawn_beside"]


def drawn_beside(
    certified: ClaimPoint, found: list[tuple[str, AuditResult]], path: str | PathLike[str] | None
) -> Figure:
    """One row for what is certified, then two for each audit: what its claim allows, and what it showed at least."""
    if path is not None:
        check_destination(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise without_matplotlib() from None
    figure = Figure(figsize=(8.5, 1.6 + 0.75 * (1 + len(found))), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file: no window, no global state
    axes = figure.subplots()
    names = ["whole training"]
    axes.barh(0, float(certified.epsilon), height=0.5, color="tab:blue", alpha=0.15, lw=0)
    axes.plot([float(certified.epsilon)] * 2, [-0.3, 0.3], color="tab:blue", lw=2.5, label="certified: at most")
    for row, (words, result) in enumerate(found, start=1):
        names.append(f"{words}{', of one step' if result.schedule == STEPS else ''}")
        allowed, shown = float(result.target.point.epsilon), float(result.epsilon_lower)
        axes.barh(row, allowed, height=0.5, color="tab:blue", alpha=0.15, lw=0)
        axes.plot([allowed] * 2, [row - 0.3, row + 0.3], color="tab:blue", lw=2.5)
        is_fallen = result.verdict == "violation"
        label = {True: "audited: at least (claim refuted)", False: "audited: at least (claim not refuted)"}[is_fallen]
        axes.plot(
            [shown],
            [row],
            ls="none",
            marker=">",
            ms=9,
            color="black",
            mfc="black" if is_fallen else "white",
            label=label,
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=-0.02 * max(1.0, float(certified.epsilon)))
    axes.set_xlabel(f"epsilon at delta {float(certified.delta):.3g}")
    axes.grid(axis="x", color="0.9", lw=0.6)
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, fontsize=8)
    if path is not None:
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ParameterError("plot", str(path), f"a file that can be written ({error.strerror})") from None
    return figure
