"""How much privacy does a given accuracy take? The experiment of "Accuracy First" (Ligett et al. 2017).

For each task and target of the excess risk, the epsilon that a run has lost in the end, ex post:
    reduction            noise reduction (AccuracyFirst): ever finer levels of one chain, of which the last is paid
    doubling             fresh noise at epsilons that double, a noisy check of each (Doubling, check "laplace")
    doubling_one_check   the same with one threshold for all (Doubling, check "above_threshold")
    theory               one run at the epsilon at which a utility theorem promises the target; and other theorems
All of them run as they are released, with exact noise.

    python accuracy_first.py                     # small; options: --json, --plot FOLDER, --trials N
    python accuracy_first.py --full --jobs 2     # n = 100,000 and all flights, up to 1,000 levels: minutes
    python accuracy_first.py --data flights      # or made-up, small
"""

import argparse
import json
import math
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

# matrices are small: threads would wait for each other
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import joblib  # noqa: E402
import numpy as np  # noqa: E402
from accuracy_data import SEED, solved, task, zero_excess  # noqa: E402
from scipy import stats  # noqa: E402

import dpledger as dpl  # noqa: E402
from dpledger.accounting.pricing.costs import cost  # noqa: E402
from dpledger.errors import InfeasiblePlan  # noqa: E402
from dpledger.mechanisms.entropy import seeded  # noqa: E402
from dpledger.mechanisms.refinement.accuracy_plans import calibrated, theories  # noqa: E402
from dpledger.relations import Relation  # noqa: E402

BETA = 0.1
BUDGETS = (1, 10)


@dataclass(frozen=True)
class Setting:
    """How hypotheses are projected, how many levels there may be, and whether they start at
    1 / rows and end at 4 times the published theory; else they start where noise is quick to draw, which also spares
    doubling the first of its checks, and end at 4 times the sharper one."""

    name: str
    radius: str
    levels: int
    published: bool


PAPER = Setting("paper", "reference", 1000, True)
PAPER_SHORT = Setting("paper", "reference", 100, True)
DEFAULT = Setting("default", "tight", 100, False)

GROUPS = {
    "made-up": ("twitter_like", "kdd_like_28", "kdd_like_38"),
    "flights": ("flight_delay", "flight_late"),
    "small": ("diabetes", "breast_cancer"),
}
SHORT = {
    "twitter_like": (0.02, 0.05, 0.1),
    "kdd_like_28": (0.02, 0.05, 0.1),
    "flight_delay": (0.001, 0.002),
    "flight_late": (0.02, 0.05),
    "diabetes": (0.01, 0.02),
    "breast_cancer": (0.01, 0.02),
}
PAPERS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
FULL = {
    **SHORT,
    **dict.fromkeys(GROUPS["made-up"], PAPERS),
    "flight_delay": (0.0002, 0.0005, 0.001, 0.002),
    "flight_late": (0.002, 0.005, 0.01, 0.02, 0.05),
}


@dataclass(frozen=True)
class Ran:
    """A run: its last level, its loss, the part of it that the check took, whether a hypothesis passed, and was as good
    as asked."""

    level: int
    epsilon: float
    check: float
    passed: bool
    met: bool


# ---- the three ways -------------------------------------------------------------------------------------------------


def lost(tree):
    """The epsilon of what was run."""
    return float(cost(tree, Relation.REPLACE_ONE).pure)


def noise_reduction(found, table, known, rng):
    """One search by the mechanism."""
    release = found.release(table, entropy=seeded(int(rng.integers(2**32))))
    best = release.value
    met = best.reached and known.excess(np.array(best.theta)) <= float(found.target_excess_risk)
    return Ran(best.level, lost(release.parts), lost(release.parts.of[0]), best.reached, met)


def doublings(found, risk, check):
    """Doubling on the grid of `found`: from its least epsilon past its most."""
    given, alpha = found.parameters(), float(found.target_excess_risk)
    least, moved = Decimal(given["least_epsilon"]), float(given["query_sensitivity"])
    rounds = math.ceil(math.log2(Decimal(given["most_epsilon"]) / least)) + 1
    if check == "laplace":
        accepts, epsilon, share = alpha / 2, 2 * moved * math.log(rounds / (2 * BETA)) / alpha, None
    else:
        test = calibrated(moved=moved, alpha=alpha, beta=BETA, levels=rounds)
        accepts, epsilon, share = test.slack, test.epsilon, Decimal(test.share) / 100
    return dpl.ex_post.Doubling(
        first=least,
        rounds=rounds,
        accepts=f"{accepts:.6g}",
        check_epsilon=f"{epsilon:.6g}",
        check=check,
        share=share,
        sensitivity=risk.moved,
        error_sensitivity=given["query_sensitivity"],
        dimension=risk.entries,
        justification="as of the same statistic and excess risk in AccuracyFirst",
    )


def doubling(mechanism, known, alpha, rng):
    """One search by that mechanism; its loss by what was started."""
    errors = []

    def error(noisy):
        errors.append(known.excess(known.hypothesis(noisy)))
        return errors[-1]

    judged = dpl.ex_post.Judged(known.statistic(36) * 2.0**-36, error)
    release = mechanism.release(judged, entropy=seeded(int(rng.integers(2**32))))
    found = release.value
    met = found.accepted and errors[-1] <= alpha
    return Ran(found.rounds, lost(release.parts), lost(release.parts.of[0]), found.accepted, met)


# ---- rows of the result ---------------------------------------------------------------------------------------------


def mean(values):
    """The mean, its standard error and Student's factor of a 95 % interval."""
    factor = stats.t.ppf(0.975, len(values) - 1)
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))), float(factor)


def interval(values):
    """A 95 % interval of the mean, by the delta method on its logarithm."""
    middle, error, factor = mean(values)
    return [middle * math.exp(sign * factor * error / middle) for sign in (-1, 1)]


def ratio(above, below):
    """The ratio of two means with a 95 % interval, by the delta method on its logarithm."""
    value = above[0] / below[0]
    wide = math.exp(max(above[2], below[2]) * math.hypot(above[1] / above[0], below[1] / below[0]))
    return {"value": value, "low": value / wide, "high": value * wide}


def fitting(found, budget):
    """How many of the levels a budget has room for, beside the check; 0: the plan is infeasible."""
    try:
        return found.within(budget).plan().levels
    except InfeasiblePlan:
        return 0


def row(name, full, setting, alpha, trials):
    """All ways for one task, setting and target."""
    rng = np.random.default_rng([SEED, *f"{name} {setting.name} {alpha}".encode()])
    risk, known = solved(name, full, setting.radius)
    theory = dict(theories(risk, alpha))
    public = task(name, full).public
    found = dpl.ex_post.AccuracyFirst(
        target_excess_risk=str(alpha),
        **public,
        beta=str(BETA),
        radius=setting.radius,
        levels=setting.levels,
        least_epsilon=f"{1 / public['rows']:.6g}" if setting.published else None,
        most_epsilon=f"{4 * theory['published']:.6g}" if setting.published else None,
        keep=setting.levels if setting.published else None,
    )
    data = task(name, full).table
    runs = {"reduction": [noise_reduction(found, data, known, rng) for _ in range(trials)]}
    for way, check in (("doubling", "laplace"), ("doubling_one_check", "above_threshold")):
        mechanism = doublings(found, risk, check)
        runs[way] = [doubling(mechanism, known, alpha, rng) for _ in range(trials)]
    published = theory.pop("published")
    losses = {way: [run.epsilon for run in ran] for way, ran in runs.items()}
    means = {way: mean(values) for way, values in losses.items()}
    return {
        "task": name,
        "family": found.family,
        "setting": setting.name,
        "rows": found.rows,
        "features": found.dimension,
        "levels": setting.levels,
        "levels_within": {str(budget): fitting(found, budget) for budget in BUDGETS},
        "radius": setting.radius,
        "alpha": alpha,
        "zero_excess": zero_excess(name, full),
        "trials": trials,
        "epsilon": {**{way: middle for way, (middle, _, _) in means.items()}, "theory": published},
        "epsilon_interval": {way: interval(values) for way, values in losses.items()},
        "epsilon_median": {way: float(np.median(values)) for way, values in losses.items()},
        "check_epsilon": {way: float(np.mean([run.check for run in ran])) for way, ran in runs.items()},
        "other_theory": theory,
        "passed": {way: float(np.mean([run.passed for run in ran])) for way, ran in runs.items()},
        "met": {way: float(np.mean([run.met for run in ran])) for way, ran in runs.items()},
        "theory_over_reduction": ratio((published, 0.0, 0.0), means["reduction"]),
        "doubling_over_reduction": ratio(means["doubling"], means["reduction"]),
        "one_check_over_reduction": ratio(means["doubling_one_check"], means["reduction"]),
    }


def settings_of(name, full):
    """Real data run at the defaults; at the paper's settings they take ten times as long and say the same."""
    return ((PAPER if full else PAPER_SHORT), DEFAULT) if name in GROUPS["made-up"] else (DEFAULT,)


def experiment(full, groups, trials, jobs):
    places = [
        (name, full, setting, alpha, trials)
        for group in groups
        for name in GROUPS[group]
        if full or name in SHORT
        for setting in settings_of(name, full)
        for alpha in (FULL if full else SHORT)[name]
    ]
    return joblib.Parallel(n_jobs=jobs)(joblib.delayed(row)(*place) for place in places)


# ---- showing it -----------------------------------------------------------------------------------------------------

LINES = {
    "theory": ("theory, published", "#000000", "--"),
    "other": ("theory, sharper", "#999999", "--"),
    "doubling": ("doubling, fresh checks", "#d55e00", "-"),
    "doubling_one_check": ("doubling, one check", "#e69f00", "-"),
    "reduction": ("noise reduction", "#0072b2", "-"),
    "check": ("of it, the check", "#0072b2", ":"),
}


def _line(own, way):
    if way == "other":
        return [min(one["other_theory"].values()) for one in own]
    if way == "check":
        return [one["check_epsilon"]["reduction"] for one in own]
    return [one["epsilon"][way] for one in own]


def plot(rows, path):
    """Epsilon against the target, one panel for each task and setting."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings, tasks = (dict.fromkeys(one[key] for one in rows) for key in ("setting", "task"))
    panels = [
        [one for one in rows if (one["setting"], one["task"]) == (setting, name)]
        for setting in settings
        for name in tasks
    ]
    wide = len(tasks)
    tall = len(settings)
    figure = Figure(figsize=(4.4 * wide, 3.7 * tall + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(tall, wide, squeeze=False)
    for axes, own in zip(grid.flat, panels, strict=True):
        first = own[0]
        alphas = [one["alpha"] for one in own]
        for way, (label, colour, dash) in LINES.items():
            axes.loglog(alphas, _line(own, way), dash, color=colour, marker="o", markersize=3.5, label=label)
            if way in first["epsilon_interval"]:
                low, high = zip(*(one["epsilon_interval"][way] for one in own), strict=True)
                axes.fill_between(alphas, low, high, color=colour, alpha=0.2, linewidth=0)
        if min(alphas) < first["zero_excess"] < max(alphas):
            axes.axvline(first["zero_excess"], color="0.7", linewidth=1)
        words = f"{first['task']}: {first['family']}, n = {first['rows']:,}, p = {first['features']}"
        axes.set_title(f"{words}\n{first['radius']} radius, at most {first['levels']} levels", fontsize=9)
        axes.set_xlabel("target of the excess risk", fontsize=9)
        axes.set_ylabel("epsilon lost", fontsize=9)
        axes.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas], fontsize=8)
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.25)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 2 * wide), frameon=False)
    figure.savefig(path, dpi=110)


def table(rows):
    """The result as text."""
    heads = ("theory", "sharper", "doubling", "1 check", "reduction")
    print(
        f"{'task':13} {'setting':8} {'target':>7} {heads[0]:>8} {heads[1]:>8} {heads[2]:>9} {heads[3]:>8} "
        f"{heads[4]:>9}   theory/red.          doubling/red.        passed  met"
    )
    for one in rows:
        epsilon = one["epsilon"]
        spans = [
            "{value:5.2f} [{low:5.2f}, {high:6.2f}]".format(**one[f"{way}_over_reduction"])
            for way in ("theory", "doubling")
        ]
        marks = (" *" if one["alpha"] >= one["zero_excess"] else "") + ("" if one["levels_within"]["10"] else " !")
        print(
            f"{one['task']:13} {one['setting']:8} {one['alpha']:7.4g} {epsilon['theory']:8.3g} "
            f"{min(one['other_theory'].values()):8.3g} {epsilon['doubling']:9.3g} "
            f"{epsilon['doubling_one_check']:8.3g} {epsilon['reduction']:9.3g}   {'  '.join(spans)}  "
            f"{one['passed']['reduction']:6.2f} {one['met']['reduction']:4.2f}{marks}"
        )
    print(
        "*: a hypothesis that is 0 everywhere would do; !: a budget of epsilon 10 has no room for it (InfeasiblePlan)"
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="the paper's rows, targets and levels, and all flights")
    options.add_argument("--data", choices=(*GROUPS, "all"), default="all")
    options.add_argument("--json", action="store_true")
    options.add_argument("--plot", metavar="FOLDER", type=Path)
    options.add_argument("--trials", type=int)
    options.add_argument("--jobs", type=int, default=1, help="processes")
    asked = options.parse_args()
    groups = tuple(GROUPS) if asked.data == "all" else (asked.data,)
    rows = experiment(asked.full, groups, asked.trials or (20 if asked.full else 12), asked.jobs)
    if asked.plot:
        asked.plot.mkdir(parents=True, exist_ok=True)
        for group in groups:
            own = [one for one in rows if one["task"] in GROUPS[group]]
            plot(own, asked.plot / f"accuracy_{group.replace('-', '_')}.png")
    if asked.json:
        print(json.dumps(rows, indent=1))
    else:
        table(rows)


if __name__ == "__main__":
    main()
