"""Private answers by a vote of models: how many at which budget, how accurate, and beside what else can be done.

For each task and epsilon, the same queries to the same models, which were fitted to disjoint chunks of the units:
    single_threshold     `PrivateClassifier`, one noisy threshold for all queries; pays for answers UNSTABLE alone
    target_charging      the same without noise on the threshold; better where many answers are UNSTABLE
    gaussian             each query tested for itself and paid for, without a halt
    noisy_max            PATE, in numpy (`prediction_peers.py`), on all queries; `as_promised`: on as many as keep the
                         promise of the others
    noisy_max_by_votes, confident     PATE with an epsilon that depends on the votes, which is no claim
A cutoff (gaussian: how many queries) is the largest at which the planner promises an answer where AGREE of the models
do; that looks at no data. Every private run has a ledger of its own, and all of the epsilon: on one set, they add up.

A model that is trained privately, in place of a vote, is in `prediction_trained.py`.

    python private_prediction.py                           # small; options: --json, --plot FOLDER, --runs N
    python private_prediction.py --full --plot docs/images # all flights, a million records: minutes
    python private_prediction.py --data flights            # or flights_by_plane, digits, made_up, crossovers
"""

import argparse
import json
import warnings
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from prediction_data import SEED, TASKS, task  # isort: skip  # first: it sets how many threads numpy starts
import numpy as np
from prediction_peers import confident, noisy_max, noisy_max_by_votes, sigma_for
from prediction_pictures import PROMISED, plot, plot_crossovers
from scipy.special import ndtr

import dpledger as dpl
from dpledger.errors import CannotCertify, Halted, InfeasiblePlan, WorkLimit
from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.stability.ensembles.ensemble import queries_of, votes_of
from dpledger.mechanisms.stability.ensembles.votes import counts
from dpledger.mechanisms.stability.stable_tests import stable_tests
from dpledger.progress import bar

DELTA = Decimal("1e-6")
BETA = 1 - Decimal(str(PROMISED))
AGREE = 7 / 8  # of the models
BLOCK = 2**13  # queries that are voted on at a time
MODES = ("single_threshold", "target_charging", "gaussian")


# ---- private answers ------------------------------------------------------------------------------------------------


def required(mode, epsilon, cutoff, queries):
    """From which distance on such a run answers, as the planner says; None where a mode has no scale."""
    try:
        tests = stable_tests(
            Decimal(str(epsilon)), DELTA, None if mode == "gaussian" else cutoff, mode, max_queries=queries
        )
    except (CannotCertify, InfeasiblePlan, WorkLimit):
        return None
    return tests.required_distance(queries, BETA)


def affordable(mode, epsilon, chunks, queries):
    """The largest cutoff (gaussian: number of queries) up to `queries` at which a query is answered on which AGREE of
    the models do; 0 where there is none. Public."""
    reach = int((2 * AGREE - 1) * chunks - 1) // 2

    def fits(size):
        needed = required(mode, epsilon, size, size if mode == "gaussian" else queries)
        return needed is not None and needed <= reach

    return _last(fits, queries)


def _last(holds, most):
    """The last of 1..most up to which something holds; 0 if for none."""
    high = 1
    while high <= most and holds(high):
        high *= 2
    low, high = high // 2, min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def mechanism(one, mode, epsilon):
    """The classifier for a task at this epsilon. InfeasiblePlan where no cutoff is small enough."""
    queries = one.queries
    size = affordable(mode, epsilon, one.chunks, queries)
    if size == 0:
        raise InfeasiblePlan(f"epsilon {epsilon} answers nothing on which {AGREE:g} of {one.chunks} models agree")
    planned = {"max_queries": size} if mode == "gaussian" else {"cutoff": size, "max_queries": queries}
    return dpl.stability.PrivateClassifier(
        Decimal(str(epsilon)), DELTA, one.chunks, mode=mode, classes=one.classes, learner=one.name, **planned
    )


def tail_of(classifier):
    """The delta of its price: Gaussian tests are cheaper by their profile, the others by their claim."""
    return DELTA if classifier.mode == "gaussian" else None


def answered(one, ensemble, classifier, run):
    """One run through a ledger of its own: a class for each query that was asked, -1 for UNSTABLE."""
    book = dpl.Ledger.in_memory()
    budget = dpl.ApproxDP(classifier.epsilon, 2 * DELTA)  # of delta, half is for adding up
    scope = book.scope(one.name, unit=one.unit, relation=one.relation, budget=budget)
    with scope.open(classifier, ensemble, tail_delta=tail_of(classifier)) as session:
        answers = session.ask_many(one.asked[one.turn(run)])
    return np.array([-1 if answer is dpl.stability.UNSTABLE else answer for answer in answers], dtype=np.int64)


def counted(one, ensemble):
    """The votes on all queries, which no noise covers: only an experiment sees them."""
    asked = queries_of(ensemble, one.asked)
    blocks = [asked[start : start + BLOCK] for start in range(0, len(asked), BLOCK)]
    return np.concatenate([counts(votes_of(ensemble, block), one.classes) for block in blocks])


# ---- the experiment -------------------------------------------------------------------------------------------------


def row(one, votes, method, epsilon, ran, cutoff=None):
    """What the runs of one method came to: classes in each, -1 where there is no answer. `accuracy`: of the answers;
    `right`: how many of them in a run."""
    best = votes.argmax(axis=1)
    places = [np.arange(len(one.asked))[one.turn(run)][: len(answers)] for run, answers in enumerate(ran)]
    told = [place[answers >= 0] for place, answers in zip(places, ran, strict=True)]
    right = sum(
        int((answers[answers >= 0] == one.truth[place]).sum()) for place, answers in zip(told, ran, strict=True)
    )
    right_without_noise = sum(int((best[place] == one.truth[place]).sum()) for place in told)
    number, runs = sum(map(len, told)), max(1, len(ran))
    return {
        "data": one.name,
        "unit": one.unit.name,
        "method": method,
        "epsilon": float(epsilon),
        "delta": float(DELTA),
        "claim": method not in ("noisy_max_by_votes", "confident"),
        "chunks": one.chunks,
        "cutoff": cutoff,
        "runs": len(ran),
        "queries": one.queries,
        "queries_asked": sum(map(len, ran)) / runs,
        "queries_answered": number / runs,
        "accuracy": right / number if number else None,
        "right": right / runs,
        "non_private_accuracy": float((best == one.truth).mean()),
        "non_private_accuracy_on_answered": right_without_noise / number if number else None,
    }


def private_rows(one, ensemble, votes, runs, advance):
    for mode in MODES:
        for epsilon in one.epsilons:
            try:
                classifier = mechanism(one, mode, epsilon)
            except InfeasiblePlan:
                ran, cutoff = [], None
            else:
                ran = [answered(one, ensemble, classifier, run) for run in range(runs)]
                cutoff = classifier.cutoff
            advance(1)
            yield row(one, votes, mode, epsilon, ran, cutoff)


def as_promised(one, epsilon):
    """The most queries that a noisy maximum answers with the promise of the other methods: all those right on which
    AGREE of the models do, but with probability BETA."""
    gap = (2 * AGREE - 1) * one.chunks

    def fits(queries):
        sigma = sigma_for(queries, epsilon, float(DELTA))
        return queries * (one.classes - 1) * ndtr(-gap / (sigma * 2**0.5)) <= float(BETA)

    return _last(fits, one.queries)


def peer_rows(one, votes, runs, advance):
    rng = np.random.default_rng([SEED, 4])
    own = [(votes[one.turn(run)], one.truth[one.turn(run)]) for run in range(runs)]
    if len(one.asked) == one.queries:
        own = own[:1]
    found = {}
    for method in ("noisy_max", "noisy_max_as_promised"):
        found[method] = {}
        for epsilon in one.epsilons:
            size = one.queries if method == "noisy_max" else as_promised(one, epsilon)
            found[method][epsilon] = [noisy_max(part[:size], epsilon, float(DELTA), rng) for part, _ in own if size]
    for method, run in (("noisy_max_by_votes", noisy_max_by_votes), ("confident", confident)):
        best = [run(part, one.epsilons, float(DELTA), truth, rng) for part, truth in own]
        found[method] = {epsilon: [each[epsilon] for each in best] for epsilon in one.epsilons}
        advance(len(one.epsilons))
    for method, by_epsilon in found.items():
        for epsilon, ran in by_epsilon.items():
            yield row(one, votes, method, epsilon, [each.answers for each in ran])


def experiment(full, names, runs, jobs, shown):
    """All rows of these tasks."""
    rows = []
    for name in names:
        one = task(name, full)
        ensemble = one.ensemble(jobs, progress=shown)
        votes = counted(one, ensemble)
        with bar(f"answering: {name}", 5 * len(one.epsilons), shown=shown) as advance:
            rows += private_rows(one, ensemble, votes, runs, advance)
            rows += peer_rows(one, votes, runs, advance)
    return rows


# ---- where modes cross ----------------------------------------------------------------------------------------------


def crossing(better, than, queries, most, epsilon=1):
    """The least cutoff from which on the planner has one mode answer nearer queries than another; None if beyond."""

    def is_better(cutoff):
        found = [required(mode, epsilon, cutoff, queries) for mode in (better, than)]
        return found[0] is not None and (found[1] is None or found[0] < found[1])

    before = _last(lambda cutoff: not is_better(cutoff), most)
    return before + 1 if before < most else None


def kept(mode, cutoff, queries, distance, runs, epsilon=1):
    """The share of runs in which every query at this distance is answered, while one less than the cutoff are at 0."""
    size = {"max_queries": queries} if mode == "gaussian" else {"max_queries": queries, "cutoff": cutoff}
    tests = dpl.stability.StableQueries(
        Decimal(str(epsilon)), DELTA, mode=mode, justification="made-up distances", **size
    )
    near = np.zeros(queries, dtype=bool)
    near[np.random.default_rng([SEED, cutoff]).choice(queries, cutoff - 1, False)] = True
    distances = np.where(near, 0, distance)
    fine = 0
    for _ in range(runs):
        run = tests.open(None, entropy=system())
        try:
            answers = run.ask_many(dpl.stability.SideBySide(np.ones(queries), distances))
        except Halted:
            answers = ()
        passed = np.array([answer is not dpl.stability.UNSTABLE for answer in answers], dtype=bool)
        fine += len(passed) == queries and bool(passed[~near].all())
        run.close()
    return fine / runs


@dataclass(frozen=True)
class Extent:
    """How far crossings are drawn, and measured."""

    queries: tuple[int, ...]
    most: int
    measured: tuple[int, ...]
    runs: int


EXTENT = {
    False: Extent((100,), 60, (2, 40), 10),
    True: Extent((100, 1000, 10_000), 1000, (2, 5, 10, 14, 17, 20, 28, 34, 38, 41, 45, 55, 70), 100),
}
MEASURED = {False: 100, True: 1000}  # queries


def crossovers(full, shown):
    """What the planner says of each number of queries, and what runs say at the distance that the best mode needs."""
    extent = EXTENT[full]
    cutoffs = sorted({round(extent.most ** (step / 24)) for step in range(25)})
    planned = [
        {
            "queries": queries,
            "cutoffs": cutoffs,
            "distance": {mode: [required(mode, 1, cutoff, queries) for cutoff in cutoffs] for mode in MODES},
            "target_charging_from": crossing("target_charging", "single_threshold", queries, extent.most),
            "gaussian_from": max(crossing("gaussian", mode, queries, extent.most) or 0 for mode in MODES[:2]) or None,
        }
        for queries in extent.queries
    ]
    queries, measured = MEASURED[full], []
    with bar("crossings", len(extent.measured), shown=shown) as advance:
        for cutoff in extent.measured:
            needed = {mode: required(mode, 1, cutoff, queries) for mode in MODES}
            distance = min(needed.values())
            shares = {mode: kept(mode, cutoff, queries, distance, extent.runs) for mode in MODES}
            measured.append({"queries": queries, "cutoff": cutoff, "needed": needed, "kept": shares})
            advance(1)
    return {"planned": planned, "measured": measured}


# ---- showing it -----------------------------------------------------------------------------------------------------


def table(rows):
    """The result as text."""
    heads = f"{'epsilon':>7} {'cutoff':>6} {'asked':>8} {'answered':>9} {'accuracy':>9} {'no noise':>9}"
    print(f"{'data':17} {'method':21} {heads}")
    for one in rows:
        accuracy = "-" if one["accuracy"] is None else f"{one['accuracy']:.3f}"
        cutoff = "-" if one["cutoff"] is None else str(one["cutoff"])
        mark = "" if one["claim"] else " *"
        print(
            f"{one['data']:17} {one['method']:21} {one['epsilon']:7g} {cutoff:>6} {one['queries_asked']:8.0f} "
            f"{one['queries_answered']:9.1f} {accuracy:>9} {one['non_private_accuracy']:9.3f}{mark}"
        )
    print("*: this epsilon depends on the votes, with noise chosen in hindsight: no claim, for comparison only")


def table_of_crossovers(found):
    for one in found["planned"]:
        words = ", ".join(f"{key.replace('_', ' ')} {one[key]}" for key in ("target_charging_from", "gaussian_from"))
        print(f"{one['queries']} queries at epsilon 1, by cutoff: {words}")
    for one in found["measured"]:
        shares = ", ".join(f"{mode} {share:.2f}" for mode, share in one["kept"].items())
        print(f"cutoff {one['cutoff']:4d}, at distance {min(one['needed'].values())}, runs with all answered: {shares}")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="all flights, a million records, 100,000 queries")
    options.add_argument("--data", choices=(*TASKS, "crossovers", "all"), default="all")
    options.add_argument("--json", action="store_true")
    options.add_argument("--plot", metavar="FOLDER", type=Path)
    options.add_argument("--runs", type=int, help="of each private method")
    options.add_argument("--jobs", type=int, default=1, help="processes that fit models")
    asked = options.parse_args()
    shown = not asked.json
    names = tuple(TASKS) if asked.data == "all" else tuple(name for name in TASKS if name == asked.data)
    rows = experiment(asked.full, names, asked.runs or (5 if asked.full else 2), asked.jobs, shown)
    crossed = crossovers(asked.full, shown) if asked.data in ("all", "crossovers") else None
    if asked.plot:
        asked.plot.mkdir(parents=True, exist_ok=True)
        if rows:
            plot(rows, asked.plot / "prediction.png")
        if crossed:
            plot_crossovers(crossed, asked.plot / "prediction_crossovers.png", promised=PROMISED)
    if asked.json:
        print(json.dumps({"answers": rows, "crossovers": crossed}, indent=1))
        return
    if rows:
        table(rows)
    if crossed:
        table_of_crossovers(crossed)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
