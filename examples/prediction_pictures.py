"""The pictures of `private_prediction.py`: what is answered and how well, and where modes cross.

python private_prediction.py --json > points.json
python prediction_pictures.py points.json FOLDER     # draws them again
"""

import json
import sys
from pathlib import Path

from plotting import figure_of, style

PROMISED = 0.95  # of the runs: what the planner is asked for

LINES = {
    "single_threshold": ("single threshold", "#0072b2", "-", "o"),
    "target_charging": ("target charging", "#56b4e9", "-", "s"),
    "gaussian": ("Gaussian tests", "#009e73", "-", "^"),
    "noisy_max": ("noisy max, all queries", "#000000", "-", "D"),
    "noisy_max_as_promised": ("noisy max, as many as keep the promise", "#d55e00", "-", "P"),
    "noisy_max_by_votes": ("noisy max by votes: no claim", "#e69f00", "--", "d"),
    "confident": ("confident: no claim", "#cc79a7", "--", "v"),
}


def plot(rows, path):
    """Queries answered, and the accuracy of the answers, against epsilon: a column for each task."""
    names = list(dict.fromkeys(one["data"] for one in rows))
    figure = figure_of(3.9 * len(names), 7.0)
    grid = figure.subplots(2, len(names), squeeze=False)
    for (answers, accuracy), name in zip(grid.T, names, strict=True):
        own = [one for one in rows if one["data"] == name]
        first = own[0]
        ticks = sorted({one["epsilon"] for one in own})
        for method, look in LINES.items():
            line = [one for one in own if one["method"] == method]
            answers.plot([one["epsilon"] for one in line], [one["queries_answered"] for one in line], **style(look))
            some = [one for one in line if one["queries_answered"] >= 10]
            accuracy.plot([one["epsilon"] for one in some], [one["accuracy"] for one in some], **style(look))
        accuracy.axhline(first["non_private_accuracy"], color="0.4", linewidth=1, linestyle=":")
        answers.axhline(first["queries"], color="0.4", linewidth=1, linestyle=":")
        answers.set_title(f"{name}: {first['chunks']:,} chunks, unit: {first['unit']}", fontsize=10)
        answers.set_ylabel(f"of {first['queries']:,} queries, answered", fontsize=9)
        if first["queries"] > 10_000:
            answers.set_yscale("log")
        else:
            answers.set_ylim(bottom=0)
        accuracy.set_ylabel("accuracy of the answers", fontsize=9)
        for axes in (answers, accuracy):
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_xticks([], minor=True)
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.25)
        accuracy.set_xlabel("epsilon, at delta 1e-6", fontsize=9)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)


def plot_crossovers(found, path, *, promised):
    """The distance that each mode needs against the cutoff; and how often each keeps what is `promised` of the best."""
    panels = found["planned"]
    figure = figure_of(4.1 * (len(panels) + 1), 4.0)
    grid = figure.subplots(1, len(panels) + 1, squeeze=False)[0]
    for axes, panel in zip(grid, panels, strict=False):
        for mode, distances in panel["distance"].items():
            label, colour, dash, _ = LINES[mode]
            axes.loglog(panel["cutoffs"], distances, dash, color=colour, label=label)
        for from_cutoff in (panel["target_charging_from"], panel["gaussian_from"]):
            if from_cutoff is not None:
                axes.axvline(from_cutoff, color="0.6", linewidth=1, linestyle=":")
                axes.text(from_cutoff * 1.05, 60, str(from_cutoff), fontsize=9, color="0.3")
        axes.set_title(f"planned: {panel['queries']:,} queries, epsilon 1", fontsize=10)
        axes.set_ylim(50, 20_000)
        axes.set_xlabel("cutoff: answers UNSTABLE that end the run", fontsize=9)
        axes.set_ylabel("answers from this distance on", fontsize=9)
        axes.grid(alpha=0.25)
    axes, measured = grid[-1], found["measured"]
    for mode in measured[0]["kept"]:
        label, colour, dash, mark = LINES[mode]
        line = [(one["cutoff"], one["kept"][mode]) for one in measured]
        axes.semilogx(*zip(*line, strict=True), dash, color=colour, marker=mark, markersize=4.5, label=label)
    ticks = (2, 5, 10, 20, 40, 70)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.axhline(promised, color="0.4", linewidth=1, linestyle=":")
    axes.set_title(f"measured: {measured[0]['queries']:,} queries, at the best distance", fontsize=10)
    axes.set_xlabel("cutoff", fontsize=9)
    axes.set_ylabel("runs in which all of them are answered", fontsize=9)
    axes.grid(alpha=0.25)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip())
        return
    found, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    plot(found["answers"], folder / "prediction.png")
    plot_crossovers(found["crossovers"], folder / "prediction_crossovers.png", promised=PROMISED)


if __name__ == "__main__":
    main()
