"""Time against the number of steps, and against the number of distinct mechanisms, for every library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from accountants.peers import ANY, PEERS, REFUSALS, Interval, NotCovered, Peer, ours
from accountants.timing import repeated
from accountants.work import Work, distinct, dp_sgd

TOO_SLOW = 20.0  # seconds: where a line ends
NOTHING: Interval = (0.0, 0.0)


@dataclass(frozen=True)
class Picture:
    """`work(x, i)`: the i-th of the pieces of work of size x."""

    file: str
    title: str
    axis: str
    sizes: tuple[int, ...]
    work: Callable[[int, int], Work]


STEPS = Picture(
    "time_against_steps.png",
    "Poisson-sampled Gaussian: sigma 1, rate min(0.01, 1/√T), delta 1e-5",
    "steps T",
    tuple(10**k for k in range(2, 11)),
    lambda x, i: dp_sgd("", 1.0, min(0.01, 1 / x**0.5), x, 1e-5).unlike(i),
)
DISTINCT = Picture(
    "time_against_distinct.png",
    "Distinct Poisson-sampled Gaussians: 20 steps of each, delta 1e-5",
    "distinct mechanisms",
    (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000),
    lambda x, i: distinct(x, i),
)
STYLES = {
    "dpledger": ("#000000", "-", "o"),
    "dp_accounting PLD, above": ("#0072b2", "-", "s"),
    "dp_accounting RDP": ("#0072b2", ":", "s"),
    "prv_accountant": ("#d55e00", "-", "^"),
    "Opacus PRV": ("#009e73", "-", "D"),
    "Opacus RDP": ("#009e73", ":", "D"),
}


def points(picture: Picture, told: Callable[[str], None]) -> Iterator[tuple[str, int, float]]:
    """(library, size, seconds); a library that is not installed, refuses or takes too long ends its line."""
    libraries = (Peer("dpledger", lambda work, _: ours(work), most_runs=ANY), *PEERS)
    for peer in (peer for peer in libraries if peer.name in STYLES):
        told(f"{picture.file}: {peer.name}")
        for size in picture.sizes:
            if peer.reason(picture.work(size, 0), NOTHING):
                break
            try:
                taken = repeated(lambda i, size=size, peer=peer: peer.answer(picture.work(size, i), NOTHING), 5)
            except (ImportError, NotCovered, *REFUSALS):
                break
            yield peer.name, size, taken.median
            if taken.median > TOO_SLOW / 6:  # the next is likely to take more than TOO_SLOW
                break


def draw(picture: Picture, folder: Path, told: Callable[[str], None]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lines: dict[str, list[tuple[int, float]]] = {}
    for library, size, seconds in points(picture, told):
        lines.setdefault(library, []).append((size, seconds * 1e3))
    for library, line in lines.items():
        colour, dash, marker = STYLES[library]
        sizes, times = zip(*line, strict=True)
        axes.loglog(sizes, times, dash, color=colour, marker=marker, markersize=5, label=library)
    axes.set_title(picture.title, fontsize=10)
    axes.set_xlabel(picture.axis)
    axes.set_ylabel("milliseconds of one processor")
    axes.grid(visible=True, which="major", color="0.9")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    path = folder / picture.file
    figure.savefig(path, dpi=110)
    return path
