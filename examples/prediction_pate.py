"""PATE: 250 teachers label public pictures of digits, and a student learns from the labels; by three ways of labelling.

    distances       `PrivateClassifier`, Gaussian tests: a coin where the teachers are not far from another answer
    noisy           `NoisyVotes`: the class with most votes under noise, for every picture
    confident       the same behind a test whether enough teachers say it; else a coin
Noise is calibrated to epsilon at delta 1e-6 for as many pictures as are asked about, before anything is looked at. The
1,797 handwritten digits of scikit-learn leave 6 pictures to a teacher; 60,000 *drawn* ones (of each class a normal
distribution with the mean and the covariance of its digits) leave 200, as MNIST would.

    python prediction_pate.py           # small; options: --json, --epsilon, --runs
    python prediction_pate.py --full    # all pictures: two minutes
"""

import argparse
import dataclasses
import json
import warnings
from decimal import Decimal

from prediction_data import SEED, digits  # isort: skip  # first: it sets how many threads numpy starts
import numpy as np
from private_prediction import DELTA, affordable
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dpledger as dpl

TEACHERS = 250
THRESHOLD = 150  # of the teachers: what `confident` asks for
WIDER = 3  # the noise of that test, to the noise on each count


def drawn(full):
    """As many digits as MNIST has: normal in each class."""
    number, asked = (60_000, 6_000) if full else (2_500, 700)
    pictures, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng([SEED, 5])
    kinds = rng.integers(0, 10, number + asked)
    rows = np.empty((number + asked, pictures.shape[1]))
    for kind in range(10):
        own = pictures[labels == kind] / 16
        rows[kinds == kind] = rng.multivariate_normal(own.mean(axis=0), np.cov(own.T), int((kinds == kind).sum()))
    parts = {"rows": rows[asked:], "labels": kinds[asked:], "asked": rows[:asked], "truth": kinds[:asked]}
    return dataclasses.replace(digits(full), name="drawn digits", **parts)


def calibrated(make, epsilon):
    """The mechanism with the least noise that keeps (epsilon, 1e-6)."""
    return make(dpl.calibrate(make, dpl.ApproxDP(epsilon, DELTA), within=("0.5", 10_000)))


def ways(epsilon, queries):
    """The three, each for so many pictures at most; tests of distances for as many as are answered if all agree."""
    given = {"chunks": TEACHERS, "classes": 10}
    yield (
        "noisy",
        calibrated(lambda sigma: dpl.stability.NoisyVotes(sigma=sigma, max_queries=queries, **given), epsilon),
    )

    def confident(sigma):
        test = {"threshold": THRESHOLD, "threshold_sigma": WIDER * sigma, "max_answers": queries}
        return dpl.stability.NoisyVotes(sigma=sigma, max_queries=queries, **test, **given)

    yield "confident", calibrated(confident, epsilon)
    most = min(queries, affordable("gaussian", epsilon, TEACHERS, queries))
    if most:
        yield "distances", dpl.stability.PrivateClassifier(epsilon, DELTA, mode="gaussian", max_queries=most, **given)


def lesson(one, teachers, votes, epsilon, queries, run):
    """One run in a ledger of its own, about pictures of its own; the student is tried on the last third of all."""
    kept = len(one.asked) * 2 // 3
    places = np.random.default_rng([SEED, run]).permutation(kept)[: min(queries, votes.max_queries)]
    budget = dpl.ApproxDP(epsilon, 2 * DELTA)  # half of delta is for adding up
    scope = dpl.Ledger.in_memory().scope("digits", unit=one.unit, relation=one.relation, budget=budget)
    asked = dpl.stability.Lesson(teachers, one.asked[places], LogisticRegression(max_iter=1000))
    found = scope.release(dpl.stability.LabelPrivateLearner(votes), asked, tail_delta=DELTA).value
    right = found.labels[found.answered] == one.truth[places][found.answered]
    student = found.predict(one.asked[kept:]) == one.truth[kept:] if found.failure is None else np.zeros(1)
    return len(places), int(found.answered.sum()), int(right.sum()), float(student.mean())


def experiment(full, epsilon, runs):
    """A row for each task, number of pictures and way: means over the runs."""
    for one in (digits(full), drawn(full)):
        one = dataclasses.replace(one, chunks=TEACHERS)
        teachers = one.ensemble()
        for queries in (30, 100, 180) if one.name == "digits" else (100, 300, 500, 1000, 4000) if full else (100, 300):
            for way, votes in ways(epsilon, queries):
                ran = [lesson(one, teachers, votes, epsilon, queries, run) for run in range(runs)]
                asked, answered, right, student = np.mean(ran, axis=0)
                yield {
                    "data": one.name,
                    "epsilon": float(epsilon),
                    "delta": float(DELTA),
                    "way": way,
                    "queries": queries,
                    "asked": float(asked),
                    "answered": float(answered),
                    "accuracy": float(right / answered) if answered else None,
                    "student": float(student),
                }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all pictures")
    parser.add_argument("--epsilon", type=Decimal, default=Decimal(2))
    parser.add_argument("--runs", type=int, default=None, help="5, or 1 where it is small")
    parser.add_argument("--json", action="store_true", help="rows for a program")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpl.errors.ImplausiblePromise)
        rows = list(experiment(options.full, options.epsilon, options.runs or (5 if options.full else 1)))
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print("data           way         asked   answered   right   student")
    for row in rows:
        right = "" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
        print(
            f"{row['data']:12s}   {row['way']:9s}   {row['asked']:5.0f}   {row['answered']:8.1f}   {right:5s}"
            f"   {row['student']:.3f}"
        )


if __name__ == "__main__":
    main()
