"""Private answers by votes beside plain numpy that does the same work with no privacy, in the same run.

    python benchmarks/stability.py [--quick] [--rounds 3]

Each line: seconds of ours (the best of the rounds, taken in turns), of the plain one, and their ratio;
then each target with PASS or FAIL.

votes        the winners and distances of 250 models on 10^5 queries and ten classes, from the table of votes; plain: a
             loop over queries, `numpy.bincount` and a sort for each
two classes  the same; plain: two comparisons and two sums
answers      10^5 queries through a scope, of an ensemble of 250 cheap models: their predictions, the votes, exact
             noise, and the entries of the ledger; plain: the same predictions in a loop over models, counts by
             `numpy.bincount`, and floating-point noise. Also the private part alone, without the predictions
one answer   a query at a time, of 250 models and of 1,000
fitting      250 decision trees: chunks, copies, readings, silence; plain: a loop over slices of the array
jobs         the same with two worker processes
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier

import dpledger as dpl
from dpledger.mechanisms.stability.ensembles.votes import winners

MODELS, QUERIES, CLASSES, ROWS, FEATURES = 250, 100_000, 10, 100_000, 10
MANY_MODELS = 1000
VOTES_SECONDS, ANSWERS_SECONDS = 2.0, 5.0
TWO_CLASSES_RATIO, ONE_ANSWER_RATIO = 1.0, 5.0
GENERATOR = np.random.default_rng(20261122)

Run = Callable[[], object]


class Shifted:
    """Classes are intervals of one number, found by the mean of what their rows are off: cheap, as the work that is
    measured is what is done with its answers."""

    def fit(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Shifted:
        self.offset_ = float((rows - labels).mean()) - 0.5
        return self

    def predict(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.floor(rows - self.offset_).astype(np.int64)


def rows_of_classes(count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Well separated classes, so that nearly all models agree."""
    labels = GENERATOR.integers(0, CLASSES, count)
    return labels + GENERATOR.uniform(-0.1, 0.1, size=count), labels


def plain_winners(votes: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """A loop over queries."""
    found = []
    for column in votes.T:
        tallied = np.bincount(column[column >= 0], minlength=CLASSES)
        second, first = np.sort(tallied)[-2:]
        found.append((int(tallied.argmax()), max(0, (int(first) - int(second) - 1) // 2)))
    return found


def plain_of_two(votes: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two classes, all queries at once."""
    ones, zeros = (votes == 1).sum(axis=0), (votes == 0).sum(axis=0)
    return ones > zeros, np.maximum(0, (np.abs(ones - zeros) - 1) // 2)


def plain_models(
    learner: Callable[[], Any], rows: npt.NDArray[Any], labels: npt.NDArray[Any], models: int = MODELS
) -> list[Any]:
    """A loop over slices."""
    return [learner().fit(rows[i::models], labels[i::models]) for i in range(models)]


def plain_answers(models: list[Any], asked: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Predictions in a loop over models, counts, floating-point noise on half the gap."""
    tallied = np.zeros((len(asked), CLASSES), dtype=np.int64)
    places = np.arange(len(asked)) * CLASSES
    for model in models:
        tallied += np.bincount(places + model.predict(asked), minlength=tallied.size).reshape(tallied.shape)
    top = np.partition(tallied, CLASSES - 2, axis=1)
    distances = np.maximum(0, (top[:, -1] - top[:, -2] - 1) // 2)
    noisy = distances + GENERATOR.laplace(0, 5, len(asked))
    return np.where(noisy > 40, tallied.argmax(axis=1), -1)


def timed(runs: list[Run], rounds: int) -> list[float]:
    """The best seconds of each, taken in turns."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def told(name: str, seconds: list[float]) -> None:
    """One line of the table."""
    ours, plain = seconds
    print(f"{name:22} {ours:10.4f} {plain:10.4f} {ours / plain:8.2f}", flush=True)


def through_scope(ensemble: dpl.stability.Ensemble, asked: npt.NDArray[Any]) -> int:
    """All of it: open, ask, close, in a fresh ledger."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(11, "1e-5"))
    mechanism = dpl.stability.PrivateClassifier(10, "1e-6", MODELS, cutoff=5, max_queries=len(asked), classes=CLASSES)
    with scope.open(mechanism, ensemble) as session:
        answered = len(session.ask_many(asked))
    if answered != len(asked):
        raise SystemExit(f"the run halted after {answered} queries: the classes are not separated well enough")
    return answered


def one_by_one(ensemble: dpl.stability.Ensemble, asked: npt.NDArray[Any], models: int = MODELS) -> None:
    """A query at a time."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(11, "1e-5"))
    mechanism = dpl.stability.PrivateClassifier(10, "1e-6", models, cutoff=5, classes=CLASSES)
    with scope.open(mechanism, ensemble) as session:
        for row in asked:
            session.ask(row)


def predicted(models: list[Any], asked: npt.NDArray[Any]) -> None:
    """The predictions alone."""
    for model in models:
        model.predict(asked)


def main() -> None:
    """Measure and print the table and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    queries = QUERIES // 10 if options.quick else QUERIES
    print(f"{queries} queries, {MODELS} models, {CLASSES} classes\n{'':22} {'ours s':>10} {'plain s':>10} {'ratio':>8}")

    votes = GENERATOR.integers(-1, CLASSES, size=(MODELS, queries)).astype(np.int16)
    counted = timed([lambda: winners(votes, CLASSES), lambda: plain_winners(votes)], options.rounds)
    told("votes", counted)
    told("votes, exact", [timed([lambda: winners(votes, CLASSES, "exact")], options.rounds)[0], counted[1]])
    of_two = np.minimum(votes, 1)
    two = timed([lambda: winners(of_two, 2), lambda: plain_of_two(of_two)], options.rounds)
    told("two classes", two)

    rows, labels = rows_of_classes(ROWS)
    asked, _ = rows_of_classes(queries)
    fit: dict[str, Any] = {"chunker": "random", "classes": CLASSES, "progress": False}

    wide = rows[:, None] + GENERATOR.normal(size=(ROWS, FEATURES))

    def trees(jobs: int) -> dpl.stability.Ensemble:
        return dpl.stability.Ensemble.fit(DecisionTreeClassifier(), (wide, labels), MODELS, jobs=jobs, **fit)

    trees(2)  # starts the workers
    fitting = timed(
        [lambda: trees(1), lambda: plain_models(DecisionTreeClassifier, wide, labels), lambda: trees(2)], options.rounds
    )
    ensemble = dpl.stability.Ensemble.fit(Shifted(), (rows, labels), MODELS, **fit)
    models = plain_models(Shifted, rows, labels)
    whole = timed(
        [
            lambda: through_scope(ensemble, asked),
            lambda: plain_answers(models, asked),
            lambda: predicted(models, asked),
        ],
        options.rounds,
    )
    told("answers", whole[:2])
    told("answers, the rest", [whole[0] - whole[2], whole[1] - whole[2]])
    few = asked[:50]
    one = timed(
        [lambda: one_by_one(ensemble, few), lambda: [plain_answers(models, few[i : i + 1]) for i in range(50)]],
        options.rounds,
    )
    told("one answer", [seconds / len(few) for seconds in one])
    many = dpl.stability.Ensemble.fit(Shifted(), (rows, labels), MANY_MODELS, **fit)
    many_models = plain_models(Shifted, rows, labels, MANY_MODELS)
    of_many = timed(
        [
            lambda: one_by_one(many, few, MANY_MODELS),
            lambda: [plain_answers(many_models, few[i : i + 1]) for i in range(50)],
        ],
        options.rounds,
    )
    told("one answer of 1,000", [seconds / len(few) for seconds in of_many])
    told("fitting", fitting[:2])
    told("jobs", [fitting[2], fitting[1]])

    verdicts = [
        ("votes", counted[0], VOTES_SECONDS, "s"),
        ("answers through a scope", whole[0], ANSWERS_SECONDS, "s"),
        ("two classes", two[0] / two[1], TWO_CLASSES_RATIO, "times numpy"),
        ("one answer of 1,000 models", of_many[0] / of_many[1], ONE_ANSWER_RATIO, "times the plain models"),
    ]
    print()
    for name, found, most, unit in verdicts:
        print(f"{'PASS' if found <= most else 'FAIL'}  {name}: {found:.2f} of at most {most:.0f} {unit}")
    sys.exit(any(found > most for _, found, most, _ in verdicts))


if __name__ == "__main__":
    main()
