"""Two pipelines on private flights: scores from 0 to 1 as precise as the models agree, and a student to be published.

    scores     `SoftLabels`: how likely each flight is late, in bins of 1/2 to 1/5, each tested in a partition and its
               shift; what was answered, and how many of the flights at each score were late indeed
    student    `LabelPrivateLearner`: the vote labels flights whose rows are public, a student learns from the labels,
               and predicts for ever at no further cost; beside one that was taught the true labels
Cutoffs are planned as in `private_prediction.py`. Flights come as they are: about a quarter is late.

    python prediction_pipelines.py                          # small; options: --json, --plot FOLDER
    python prediction_pipelines.py --full --plot docs/images
"""

import argparse
import json
import warnings
from decimal import Decimal
from pathlib import Path

from prediction_data import flight_late  # isort: skip  # first: it sets how many threads numpy starts
import numpy as np
from private_prediction import DELTA, affordable, counted
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import dpledger as dpl
from dpledger.mechanisms.stability.ensembles.ensemble import queries_of
from dpledger.progress import bar

BINS = (2, 3, 4, 5)
EPSILONS = {False: (8,), True: (1, 2, 4, 8)}


def score(rows, labels):
    """A learner: how likely a flight is late."""
    model = LogisticRegression().fit(rows, labels)
    return lambda asked: model.predict_proba(asked)[:, 1]


def scope_for(one, epsilon):
    budget = dpl.ApproxDP(Decimal(epsilon), 2 * DELTA)  # of delta, half is for adding up
    return dpl.Ledger.in_memory().scope("flights", unit=one.unit, relation=one.relation, budget=budget)


# ---- scores ---------------------------------------------------------------------------------------------------------


def scores(one, ensemble, mean, epsilon, bins):
    """One run: what was answered, how far from the mean of all models, and how many were late at each score."""
    queries = one.queries
    tests = affordable("auto", epsilon, one.chunks, 2 * queries)
    soft = dpl.stability.SoftLabels(
        Decimal(epsilon), DELTA, one.chunks, failed_tests=tests, bins=bins, max_queries=queries, learner="P(late)"
    )
    with scope_for(one, epsilon).open(soft, ensemble) as session:
        answers = session.ask_many(one.asked[:queries])
    told = np.array([answer is not dpl.stability.UNSTABLE for answer in answers])
    found = np.array([float(answer) for answer in answers if answer is not dpl.stability.UNSTABLE])
    truth = one.truth[: len(answers)][told]
    counts = session.receipt.value
    return {
        "data": one.name,
        "method": f"scores in {bins} bins",
        "bins": bins,
        "epsilon": float(epsilon),
        "delta": float(DELTA),
        "chunks": one.chunks,
        "failed_tests_planned": tests,
        "failed_tests": counts.failed_tests,
        "queries": queries,
        "queries_asked": len(answers),
        "queries_answered": len(found),
        "passed_plain": counts.passed_plain,
        "passed_shifted": counts.passed_shifted,
        "accuracy": float(((found > 0.5) == truth).mean()),
        "non_private_accuracy": float(((mean > 0.5) == one.truth[:queries]).mean()),
        "off_the_mean": float(np.abs(found - mean[: len(answers)][told]).mean()),
        "late": [
            {"score": value, "flights": int((found == value).sum()), "late": int(truth[found == value].sum())}
            for value in sorted(set(found.tolist()))
        ],
    }


def mean_score(one, ensemble):
    """What all models say together, without noise: only an experiment sees it."""
    asked = queries_of(ensemble, one.asked[: one.queries])
    return np.mean([model(asked) for model in ensemble._fitted.models if model is not None], axis=0)


# ---- a student ------------------------------------------------------------------------------------------------------


def student(one, ensemble, votes, epsilon):
    """One lesson: the first held out flights as public rows, the rest to see how good students are: that of all labels
    with their coins, and (`accuracy`) one of the answered rows alone."""
    taught, tried = slice(0, one.queries), slice(one.queries, None)
    size = affordable("gaussian", epsilon, one.chunks, one.queries)
    tests = dpl.stability.PrivateClassifier(Decimal(epsilon), DELTA, one.chunks, mode="gaussian", max_queries=size)
    learner = dpl.stability.LabelPrivateLearner(tests, student="logistic regression")
    public = one.asked[taught][:size]
    lesson = dpl.stability.Lesson(ensemble, public, LogisticRegression())
    found = scope_for(one, epsilon).release(learner, lesson, tail_delta=DELTA).value
    truly = LogisticRegression(class_weight="balanced").fit(public, one.truth[taught][:size])
    clear = LogisticRegression().fit(public[found.answered], found.labels[found.answered])  # both are published
    own = one.truth[tried]
    return {
        "data": one.name,
        "method": "student",
        "epsilon": float(epsilon),
        "delta": float(DELTA),
        "chunks": one.chunks,
        "queries": size,
        "queries_answered": int(found.answered.sum()),
        "accuracy": float((clear.predict(one.asked[tried]) == own).mean()),
        "accuracy_with_coins": float((found.predict(one.asked[tried]) == own).mean()),
        "non_private_accuracy": float((votes.argmax(axis=1)[tried] == own).mean()),
        "taught_the_truth": float((truly.predict(one.asked[tried]) == own).mean()),
        "tried_on": len(own),
    }


def experiment(full, shown):
    """All rows: scores on flights as they come; students on flights of which half are late."""
    halved, soft, rows = flight_late(full), flight_late(full, as_they_come=True), []
    votes_of_scores = dpl.stability.Ensemble.fit(
        score, (soft.rows, soft.labels), soft.chunks, relation=soft.relation, classes=None, progress=shown
    )
    mean = mean_score(soft, votes_of_scores)
    epsilons = EPSILONS[full]
    with bar("scores", len(epsilons) * len(BINS), shown=shown) as advance:
        for epsilon in epsilons:
            for bins in BINS:
                rows.append(scores(soft, votes_of_scores, mean, epsilon, bins))
                advance(1)
    teachers = halved.ensemble(progress=shown)
    votes = counted(halved, teachers)
    rows += [student(halved, teachers, votes, epsilon) for epsilon in epsilons]
    return rows


# ---- showing it -----------------------------------------------------------------------------------------------------


def plot(rows, path):
    """What was answered by bins; how many were late at each score; and students."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    soft = [row for row in rows if "bins" in row]
    students = [row for row in rows if row["method"] == "student"]
    figure = Figure(figsize=(13.5, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    answered, late, taught = figure.subplots(1, 3)
    places = np.arange(len(soft))
    plain, shifted = ([row[name] for row in soft] for name in ("passed_plain", "passed_shifted"))
    answered.bar(places, plain, color="#0072b2", label="in the partition: free")
    answered.bar(places, shifted, bottom=plain, color="#56b4e9", label="in its shift: one charge")
    answered.set_xticks(places, [f"1/{row['bins']}" for row in soft], fontsize=7)
    epsilons = list(dict.fromkeys(row["epsilon"] for row in soft))
    each = len(soft) // len(epsilons)
    for place, epsilon in enumerate(epsilons):
        words = {"ha": "center", "va": "top", "transform": answered.get_xaxis_transform()}
        answered.text((place + 0.5) * each - 0.5, -0.1, f"epsilon {epsilon:g}", **words)
    answered.axhline(soft[0]["queries"], color="0.4", linewidth=1, linestyle=":")
    answered.set_ylim(0, 1.25 * soft[0]["queries"])
    answered.set_ylabel(f"of {soft[0]['queries']:,} flights, scored")
    answered.set_title("width of bins", fontsize=10)
    answered.legend(frameon=False, fontsize=8, loc="upper right")
    colours = dict(zip(BINS, ("#000000", "#e69f00", "#0072b2", "#009e73"), strict=True))
    for row in soft:
        if row["epsilon"] != epsilons[-1]:
            continue
        enough = [point for point in row["late"] if point["flights"] >= 10]
        shares = [point["late"] / point["flights"] for point in enough]
        spans = [binomtest(point["late"], point["flights"]).proportion_ci(method="wilson") for point in enough]
        error = np.array([[share - span.low, span.high - share] for share, span in zip(shares, spans, strict=True)])
        shift = (row["bins"] - 3.5) * 0.006
        centres = [point["score"] + shift for point in enough]
        style = {"color": colours[row["bins"]], "marker": "o", "markersize": 4.5, "capsize": 2}
        late.errorbar(centres, shares, yerr=np.abs(error.T), label=f"bins of 1/{row['bins']}", **style)
    late.plot((0, 1), (0, 1), color="0.6", linewidth=1, linestyle=":")
    late.set_xlim(0, 0.7)
    late.set_ylim(0, 0.7)
    late.set_xlabel(f"private score, at epsilon {epsilons[-1]:g}")
    late.set_ylabel("of these flights, late")
    late.legend(frameon=False, fontsize=8)
    ticks = [row["epsilon"] for row in students]
    for key, label, colour, dash in (
        ("accuracy", "student of the private answers", "#0072b2", "-"),
        ("accuracy_with_coins", "the same, with coins for UNSTABLE", "#56b4e9", "-"),
        ("taught_the_truth", "student of the true labels", "#d55e00", "--"),
        ("non_private_accuracy", "the ensemble, without noise", "#777777", ":"),
    ):
        taught.plot(ticks, [row[key] for row in students], dash, color=colour, marker="o", label=label)
    taught.set_xscale("log")
    taught.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    taught.set_xticks([], minor=True)
    taught.set_ylim(0.5, 0.7)  # from what a guess is right on
    taught.set_xlabel("epsilon, at delta 1e-6")
    taught.set_ylabel(f"accuracy on {students[0]['tried_on']:,} other flights")
    taught.legend(frameon=False, fontsize=8)
    for axes in (answered, late, taught):
        axes.grid(alpha=0.25)
    figure.savefig(path, dpi=100)


def table(rows):
    for row in rows:
        number = f"{row['queries_answered']:5d} of {row['queries']:5d} answered"
        told = f"{row['method']:18} epsilon {row['epsilon']:g}: {number}"
        if row["method"] == "student":
            print(
                f"{told}; student right on {row['accuracy']:.3f}, one of true labels on {row['taught_the_truth']:.3f}, "
                f"ensemble without noise on {row['non_private_accuracy']:.3f}"
            )
        else:
            print(
                f"{told}, {row['passed_shifted']} of them in the shift; {row['failed_tests']} tests failed of "
                f"{row['failed_tests_planned']}; off the mean score by {row['off_the_mean']:.3f}"
            )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="all flights")
    options.add_argument("--json", action="store_true")
    options.add_argument("--plot", metavar="FOLDER", type=Path)
    asked = options.parse_args()
    rows = experiment(asked.full, not asked.json)
    if asked.plot:
        asked.plot.mkdir(parents=True, exist_ok=True)
        plot(rows, asked.plot / "prediction_pipelines.png")
    if asked.json:
        print(json.dumps(rows, indent=1))
    else:
        table(rows)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
