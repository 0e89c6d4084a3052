"""The picture of a profile: delta against epsilon, and the trade-off of the errors of a membership test."""

from __future__ import annotations

from pathlib import Path

from dpledger.accounting.profile import Bounds, Profile
from dpledger.errors import ParameterError

__all__ = ["draw_profile"]

INK, BAND = "0.1", "0.75"
ALPHAS = tuple(i / 40 for i in range(41))
LEAST = 1e-300


def draw_profile(made: Profile, curve: tuple[tuple[float, Bounds], ...], path: Path) -> None:
    """Draw `curve` and the trade-off curve to `path`. Between the bounds is grey."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("plot", "no matplotlib", "the extra 'plots': install dpledger[plots]") from None
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    FigureCanvasAgg(figure)  # draws to a file: no window, no global state
    left, right = figure.subplots(1, 2)
    epsilons = [epsilon for epsilon, _ in curve]
    lower, upper = ([max(side, LEAST) for side in sides] for sides in zip(*_sides(curve), strict=True))
    left.fill_between(epsilons, lower, upper, color=BAND, linewidth=0)
    left.plot(epsilons, upper, color=INK, label="delta, upper bound")
    left.plot(epsilons, lower, color=INK, linestyle=":", label="delta, lower bound")
    left.set_yscale("log")
    left.set_xlabel("epsilon")
    left.set_ylabel("delta")
    left.legend(frameon=False)
    right.plot((0, 1), (1, 0), color=BAND, label="no information")
    bounds = made.tradeoffs(ALPHAS)
    right.fill_between(ALPHAS, [b.lower for b in bounds], [b.upper for b in bounds], color=BAND, linewidth=0)
    right.plot(ALPHAS, [b.lower for b in bounds], color=INK, label="no test does better than this")
    right.set_xlabel("false positives")
    right.set_ylabel("false negatives")
    right.set_aspect("equal")
    right.legend(frameon=False)
    figure.savefig(path, dpi=144)


def _sides(curve: tuple[tuple[float, Bounds], ...]) -> list[tuple[float, float]]:
    return [(bounds.lower, bounds.upper) for _, bounds in curve]
