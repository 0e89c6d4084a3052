"""The pictures of `private_learning.py`: records against bits and epsilon, users against examples, error against users.

python private_learning.py --json > points.json
python learning_pictures.py points.json FOLDER     # draws them again
"""

import json
import sys
from pathlib import Path

from plotting import figure_of, style

LINES = {
    "no_privacy": ("no privacy", "#000000", ":", "o"),
    "exponential_mechanism": ("exponential mechanism", "#0072b2", "-", "s"),
    "hashed_points": ("hashed points (improper)", "#009e73", "-", "^"),
    "elimination": ("elimination on a random part", "#d55e00", "-", "D"),
    "item_level": ("item level: protects one example only", "#999999", "--", "v"),
    "group_privacy": ("group privacy: epsilon divided by m", "#0072b2", "-", "s"),
    "clipped": ("clipped pairs", "#009e73", "-", "^"),
    "by_users": ("counts of users who are failed often", "#d55e00", "-", "D"),
    "halving": ("halving an interval by such counts", "#cc79a7", "-", "P"),
}
FLOOR = 1e-4  # of the excess that is drawn
DATA = {"made_up": "made-up users", "planes": "planes"}


def _lines(rows, axes, across, height, *, mark=True):
    """One line a learner."""
    for learner in LINES:
        own = [one for one in rows if one["learner"] == learner and one[height] is not None]
        if own:
            axes.plot([one[across] for one in own], [one[height] for one in own], **style(LINES[learner], mark=mark))


def _legend(figure, grid, columns):
    found = {}
    for axes in grid:
        found |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = [label for label, *_ in LINES.values() if label in found]
    handles = [found[label] for label in order]
    figure.legend(handles, order, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def plot_sizes(found, path):
    """Records needed against bits of a point, planned (lines) and measured (marks); and against epsilon, planned."""
    names = list(dict.fromkeys(one["class"] for one in found["by_bits"]))
    figure = figure_of(4.0 * len(names), 7.0)
    grid = figure.subplots(2, len(names), squeeze=False, sharey="row")
    for (bits, epsilon), name in zip(grid.T, names, strict=True):
        own = [one for one in found["by_bits"] if one["class"] == name]
        _lines(own, bits, "bits", "planned", mark=False)
        for one in own:
            if one["measured"] is not None:
                _, colour, _, marker = LINES[one["learner"]]
                bits.plot(one["bits"], one["measured"], color=colour, marker=marker, markersize=5, linestyle="")
        _lines([one for one in found["by_epsilon"] if one["class"] == name], epsilon, "epsilon", "planned", mark=False)
        bits.set_title(f"{name}, epsilon 1", fontsize=10)
        bits.set_xlabel("bits of a point (the domain has 2^bits points)", fontsize=9)
        bits.set_xticks((2, 8, 16, 32, 48, 64))
        epsilon.set_title(f"{name}, 16 bits", fontsize=10)
        epsilon.set_xlabel("epsilon", fontsize=9)
        epsilon.set_xscale("log")
        ticks = sorted({one["epsilon"] for one in found["by_epsilon"]})
        epsilon.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        epsilon.set_xticks([], minor=True)
        for axes in (bits, epsilon):
            axes.set_yscale("log")
            axes.grid(alpha=0.25)
            axes.tick_params(labelsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("records for an error of at most 0.1", fontsize=9)
    _legend(figure, grid.flat, 4)
    figure.savefig(path, dpi=100)


def plot_plans(rows, path):
    """Users needed by the plans against the examples of each."""
    alphas = sorted({one["alpha"] for one in rows}, reverse=True)
    figure = figure_of(4.8 * len(alphas), 4.2)
    grid = figure.subplots(1, len(alphas), squeeze=False, sharey=True)[0]
    for axes, alpha in zip(grid, alphas, strict=True):
        _lines([one for one in rows if one["alpha"] == alpha], axes, "examples", "users")
        axes.set_title(f"planned: at most {alpha:g} above the least error, epsilon 1", fontsize=10)
        axes.set_xlabel("examples of each user, m", fontsize=9)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.grid(alpha=0.25)
        axes.tick_params(labelsize=8)
    grid[0].set_ylabel("users that are enough", fontsize=9)
    _legend(figure, grid, 2)
    figure.savefig(path, dpi=100)


def plot_users(rows, path):
    """How far above the least error a learned threshold is, against the users: a row for each set of users."""
    names = list(dict.fromkeys(one["data"] for one in rows))
    sizes = sorted({one["examples"] for one in rows})
    figure = figure_of(4.2 * len(sizes), 3.7 * len(names))
    grid = figure.subplots(len(names), len(sizes), squeeze=False, sharey=True)
    for line, name in zip(grid, names, strict=True):
        for axes, examples in zip(line, sizes, strict=True):
            own = [one for one in rows if (one["data"], one["examples"]) == (name, examples)]
            _lines([one | {"drawn": max(one["excess"], FLOOR)} for one in own], axes, "users", "drawn")
            axes.set_title(f"{DATA[name]}, {examples} example{'s' * (examples > 1)} each", fontsize=10)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.grid(alpha=0.25)
            axes.tick_params(labelsize=8)
            axes.set_xlabel("users", fontsize=9)
        line[0].set_ylabel("share of mistakes above the least", fontsize=9)
    _legend(figure, grid.flat, 3)
    figure.savefig(path, dpi=100)


def plot(found, folder):
    """All pictures of a result."""
    folder.mkdir(parents=True, exist_ok=True)
    plot_sizes(found["sizes"], folder / "learning_sizes.png")
    plot_plans(found["plans"], folder / "learning_plans.png")
    plot_users(found["users"], folder / "learning_users.png")


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip())
        return
    plot(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
