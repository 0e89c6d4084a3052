"""The DP-SGD steps that each way of asking gets out of one budget, against noise and against rate."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import dpledger as dpl
from dpledger.errors import InfeasiblePlan

__all__ = ["draw"]

EPSILON, DELTA = "3", "1e-6"
NOISES = tuple(Decimal(noise) for noise in ("0.7", "0.8", "0.9", "1", "1.2", "1.5", "2", "2.5", "3"))
RATES = tuple(Decimal(rate) for rate in ("0.001", "0.002", "0.004", "0.01", "0.02", "0.05", "0.1"))
STYLES = {
    "allowance of one law": ("#000000", "-", "o"),
    "one plan, default scope": ("#0072b2", "-", "s"),
    "runs of a hundredth": ("#d55e00", "-", "^"),
    "single steps": ("#009e73", "-", "D"),
    "one Renyi order, single steps": ("0.6", ":", "x"),
}
MOST = 10**6

Ways = dict[str, Callable[[dpl.Composition, str, str, int], int]]


def draw(folder: Path, ways: Ways, told: Callable[[str], None]) -> Path:
    """One picture, two panels; the way that is admitted nothing has no point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    swept = (
        ("noise multiplier, at rate 0.01", NOISES, lambda noise: (noise, Decimal("0.01"))),
        ("sampling rate, at noise multiplier 1", RATES, lambda rate: (Decimal(1), rate)),
    )
    for axes, (axis, values, law_of) in zip(panels, swept, strict=True):
        lines: dict[str, list[tuple[float, int]]] = {}
        for value in values:
            told(f"{axis}: {value}")
            noise, rate = law_of(value)
            law = dpl.PoissonSampled(dpl.GaussianLaw(noise), rate=rate)
            try:
                planned = dpl.planning.calibrate_count(
                    lambda n, law=law: (law, n), dpl.ApproxDP(EPSILON, DELTA), within=(1, MOST)
                )
            except InfeasiblePlan:
                continue
            for way in STYLES:
                admitted = ways[way](law, EPSILON, DELTA, planned)
                if admitted:
                    lines.setdefault(way, []).append((float(value), admitted))
        for way, line in lines.items():
            colour, dash, marker = STYLES[way]
            axes.loglog(*zip(*line, strict=True), dash, color=colour, marker=marker, markersize=4, label=way)
        axes.set_xlabel(axis)
        axes.grid(visible=True, which="major", color="0.9")
    panels[0].set_ylabel("DP-SGD steps admitted")
    figure.suptitle(f"What a budget of ({EPSILON}, {DELTA}) lets through", fontsize=10)
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    path = folder / "budgets.png"
    figure.savefig(path, dpi=110)
    return path
