"""What a budget lets through, against what the engine certifies for the same work: `python benchmarks/budgets.py`.

    --quick           four budgets instead of twelve
    --plots FOLDER    draws the DP-SGD steps admitted by each way of asking, against noise and rate
    --json FILE       all cases and verdicts as JSON

`planned` is the most copies of a law that `compose` certifies for the budget. Beside it stands what a scope admits by
each way of asking, as a share of `planned`, and what OpenDP's, diffprivlib's and Opacus's own budget objects let
through; one that lets through more than is certified is named, with the epsilon that its last admission makes. The
targets are at the end, each with PASS or FAIL. A library that is not installed is named as such; they are the extra
`bench` (install PyTorch for the processor alone first).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np
from accountants import budget_pictures
from accountants.gates import GATES
from accountants.peers import DP_ACCOUNTING, REFUSALS, NotCovered
from accountants.work import Part, Work

import dpledger as dpl
from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import best_order_minus_one
from dpledger.errors import CannotCertify, InfeasiblePlan

MOST = 10**8  # copies that are counted at the most
PEERS_MOST = 40_000

LAWS: dict[str, Part] = {
    "DP-SGD, noise 1, rate 0.01": Part("gaussian", 1.0, rate=0.01),
    "DP-SGD, noise 1, rate 0.001": Part("gaussian", 1.0, rate=0.001),
    "DP-SGD, noise 0.8, rate 0.005": Part("gaussian", 0.8, rate=0.005),
    "DP-SGD, noise 1.1, rate 0.004": Part("gaussian", 1.1, rate=0.004),
    "DP-SGD, noise 2, rate 0.02": Part("gaussian", 2.0, rate=0.02),
    "DP-SGD, noise 4, rate 0.15": Part("gaussian", 4.0, rate=0.15),
    "Gaussian, noise 10": Part("gaussian", 10.0),
    "Gaussian, noise 50": Part("gaussian", 50.0),
    "discrete Gaussian, sigma 20": Part("discrete_gaussian", 20.0),
    "Laplace 0.01": Part("laplace", 0.01),
    "Laplace 0.1": Part("laplace", 0.1),
    "randomised response 0.05": Part("response", 0.05),
    "Laplace 0.5, rate 0.01": Part("laplace", 0.5, rate=0.01),
}
BUDGETS = tuple(itertools.product(("0.5", "1", "3", "8"), ("1e-5", "1e-6", "1e-8")))
QUICK = (("1", "1e-6"), ("3", "1e-6"), ("8", "1e-5"), ("0.5", "1e-8"))
PIECES = {"runs of a twentieth": 20, "runs of a hundredth": 100}
FEW = 20  # planned copies below which a share says nothing
RARE = "where rare losses rule"


@dataclass(frozen=True)
class Case:
    """One law under one budget. `ways`: copies admitted by each way of asking; `peers`: by other libraries."""

    law: str
    epsilon: str
    delta: str
    planned: int
    ways: dict[str, int]
    peers: dict[str, int | str] = field(default_factory=dict)

    def share(self, way: str) -> float:
        """Admitted / planned."""
        return self.ways[way] / self.planned

    @property
    def name(self) -> str:
        return f"{self.law}, ({self.epsilon}, {self.delta})"


# ---- ways of asking -------------------------------------------------------------------------------------------------


def opened(budget: dpl.ApproxDP | filters.Filter, **rules: object) -> dpl.Scope:
    """A scope in which nothing has happened."""
    book = dpl.Ledger.in_memory()
    return book.scope("work", unit="record", relation="add_remove", budget=budget, **rules)


def one_order(epsilon: str, delta: str) -> filters.Filter:
    """For comparison, an account with one boundary: of the order that is best for Gaussians."""
    half = Decimal(delta) / 2
    order = best_order_minus_one(Decimal(epsilon), half)
    return filters.EitherFilter(Decimal(epsilon), half, (filters.Boundary(order, half),))


def in_runs(scope: dpl.Scope, law: dpl.Composition, steps: int) -> int:
    """Copies admitted in requests of `steps` copies, one after another."""
    return scope.afford((law, steps), most=MOST // steps).one_by_one * steps


WAYS: dict[str, Callable[[dpl.Composition, str, str, int], int]] = {
    "one Renyi order, single steps": lambda law, e, d, n: (
        opened(one_order(e, d)).afford(law, most=2 * n, tail_delta=0).one_by_one
    ),
    "allowance of one law": lambda law, e, d, n: (
        opened(dpl.ApproxDP(e, d), allowance=dpl.filters.Allowance(law, share=1)).afford(law, most=2 * n).one_by_one
    ),
    "one plan, basic scope": lambda law, e, d, n: opened(filters.BasicFilter(e, d)).afford(law, most=2 * n).planned,
    "one plan, first charge": lambda law, e, d, n: opened(dpl.ApproxDP(e, d)).afford(law, most=2 * n).planned,
    "one plan, default scope": lambda law, e, d, n: (  # in which something ran: it kept the filter it was opened with
        opened(filters.opened_by(dpl.ApproxDP(e, d))).afford(law, most=2 * n).planned
    ),
    "runs of a twentieth": lambda law, e, d, n: in_runs(opened(dpl.ApproxDP(e, d)), law, max(1, n // 20)),
    "runs of a hundredth": lambda law, e, d, n: in_runs(opened(dpl.ApproxDP(e, d)), law, max(1, n // 100)),
    "single steps": lambda law, e, d, n: opened(dpl.ApproxDP(e, d)).afford(law, most=2 * n).one_by_one,
}


def measured(name: str, part: Part, epsilon: str, delta: str, ways: dict[str, object]) -> Case | None:
    """The case, or None where fewer than `FEW` copies are planned."""
    law = law_of(part)
    try:
        planned = dpl.planning.calibrate_count(lambda n: (law, n), dpl.ApproxDP(epsilon, delta), within=(1, MOST))
    except InfeasiblePlan:
        return None
    if planned < FEW:
        return None
    return Case(name, epsilon, delta, planned, {way: WAYS[way](law, epsilon, delta, planned) for way in ways})


def law_of(part: Part) -> dpl.Composition:
    """One copy, in our words."""
    return dpl.RandomizedResponseLaw(part.size) if part.kind == "response" else part.tree().of


# ---- peers ----------------------------------------------------------------------------------------------------------

BESIDE_PEERS = (
    ("DP-SGD, noise 1, rate 0.01", "3", "1e-6"),
    ("DP-SGD, noise 1, rate 0.001", "1", "1e-6"),
    ("DP-SGD, noise 4, rate 0.15", "3", "1e-6"),
    ("Gaussian, noise 50", "1", "1e-6"),
    ("Laplace 0.01", "1", "1e-6"),
    ("Laplace 0.1", "3", "1e-6"),
)


def beside_peers(case: Case) -> Iterator[str]:
    """A line for each library: what it let through, its share, and what that makes where it is too much."""
    part = LAWS[case.law]
    for gate in GATES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                admitted = gate.admitted(part, float(case.epsilon), float(case.delta), PEERS_MOST)
        except ImportError:
            case.peers[gate.name] = "NOT INSTALLED"
        except NotCovered:
            case.peers[gate.name] = "has no such mechanism"
        except REFUSALS as error:
            case.peers[gate.name] = f"refuses: {' '.join(str(error).split())[:60]}"
        else:
            case.peers[gate.name] = admitted
            if admitted > case.planned:
                certain = dpl.compose((law_of(part), admitted)).epsilon(case.delta).lower
                yield (
                    f"    {gate.name:28} {admitted:7}  {admitted / case.planned:5.2f}  TOO MUCH: epsilon is at least "
                    f"{certain:.6g} then, not {case.epsilon}"
                )
                continue
            yield f"    {gate.name:28} {admitted:7}  {admitted / case.planned:5.2f}"
            continue
        yield f"    {gate.name:28} {case.peers[gate.name]}"


# ---- what is printed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    target: str
    measured: str
    met: bool


def told(words: str) -> None:
    print(f"... {words}", file=sys.stderr, flush=True)


def quantiles(cases: list[Case], way: str) -> tuple[float, float, float]:
    """Median, lower quarter, lowest tenth."""
    shares = [case.share(way) for case in asked_so(cases, way)]
    middle, quarter, tenth = np.quantile(shares, (0.5, 0.25, 0.1), method="lower")
    return float(middle), float(quarter), float(tenth)


def asked_so(cases: list[Case], way: str) -> list[Case]:
    """The cases in which the way is one of its own: a run holds two copies at least, else it is a single step."""
    return [case for case in cases if case.planned >= 2 * PIECES.get(way, 0)]


def verdicts(cases: list[Case]) -> list[Verdict]:
    found = []

    def add(target: str, said: str, met: bool) -> None:
        found.append(Verdict(target, said, met))

    same = sum(case.ways["allowance of one law"] == case.planned for case in cases)
    add("an allowance of one law: as many as compose allows", f"{same} of {len(cases)}", same == len(cases))
    same = sum(case.ways["one plan, basic scope"] == case.planned for case in cases)
    add("one plan, basic scope: as many as compose allows", f"{same} of {len(cases)}", same == len(cases))
    middle, _, tenth = quantiles(cases, "one plan, default scope")
    add(
        "one plan, default scope: median 0.95, lowest tenth 0.90 (0.5 " + RARE + ")",
        f"{middle:.3f}, {tenth:.3f}",
        middle >= 0.95 and tenth >= 0.5,
    )
    for way in PIECES:
        middle, _, tenth = quantiles(cases, way)
        least = min(case.share(way) for case in asked_so(cases, way))
        add(
            f"{way}: median 0.75, lowest tenth 0.50, none at 0",
            f"{middle:.3f}, {tenth:.3f}, least {least:.3f}",
            middle >= 0.75 and tenth >= 0.5 and least > 0,
        )
    middle, quarter, _ = quantiles(cases, "single steps")
    add(
        "single steps: median 0.75, lower quarter 0.40",
        f"{middle:.3f}, {quarter:.3f}",
        middle >= 0.75 and quarter >= 0.4,
    )
    return found


def times() -> list[Verdict]:
    """Opening and pricing, in seconds of the processor: the best of some tries, each of numbers that were never asked
    before."""

    def clock(run: Callable[[int], object], tries: int = 5) -> float:
        best = float("inf")
        for number in range(tries):
            start = time.process_time()
            run(number)
            best = min(best, time.process_time() - start)
        return best * 1e3

    opening = clock(lambda number: opened(dpl.ApproxDP(Decimal(3) + Decimal(number) / 1000, "1e-6")))
    data = np.zeros((20, 10))

    def asked(number: int, steps: int = 100, least: int = 20) -> None:
        """The whole of it: claim, check, gate and entry; in a scope with room for it."""
        noise = Decimal(least) + Decimal(number) / 1000
        run = dpl.DPSGD(
            rate="0.01", steps=steps, noise_multiplier=noise, clip_norm=1, dimension=10, expected_batch_size=10
        )
        scope.open(run, data)

    def planned(number: int, steps: int) -> dpl.planning.TrainingPlan:
        """The least noise of so many steps, in a scope of its own."""
        own = opened(dpl.ApproxDP(Decimal(3) + Decimal(number) / 1000, "1e-6"))
        return own.plan_training(rate="0.01", steps=steps, expected_batch_size=10, dimension=10)

    def beside(steps: int) -> Verdict:
        """A plan, in units of one answer about what it planned."""
        target = f"the least noise of {steps} steps takes less than one epsilon of it ({DP_ACCOUNTING.name})"
        part = Part("gaussian", float(planned(-1, steps).noise_multiplier), steps, rate=0.01)
        work = Work("a plan", (part,), 1e-6)
        try:
            answer = clock(lambda _: DP_ACCOUNTING.answer(work, (0.0, 0.0)), 3)
        except ImportError as error:
            return Verdict(target, f"NOT INSTALLED ({error.name})", False)
        share = clock(lambda number: planned(number, steps)) / answer
        return Verdict(target, f"{share:.2f} of it", share < 1)

    scope = opened(dpl.ApproxDP(3, "1e-6"))
    cold = clock(asked)
    warm = clock(lambda _: asked(0))
    short = max(clock(lambda number, steps=steps: asked(number, steps, 2)) for steps in (2, 4))
    return [
        Verdict("opening a scope: below 20 ms", f"{opening:.1f} ms", opening < 20),
        Verdict("a DP-SGD run of 100 steps priced: below 60 ms cold", f"{cold:.1f} ms", cold < 60),
        Verdict("a DP-SGD run of 100 steps priced: below 10 ms warm", f"{warm:.1f} ms", warm < 10),
        Verdict("a DP-SGD run of 2 or 4 steps priced: below 100 ms cold", f"{short:.1f} ms", short < 100),
        *map(beside, (2, 10, 100)),
    ]


def worst(cases: list[Case], way: str) -> Iterator[str]:
    for case in sorted(asked_so(cases, way), key=lambda case: case.share(way))[:3]:
        yield f"      {case.share(way):5.3f}  {case.ways[way]} of {case.planned}: {case.name}"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plots", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = []
    for (epsilon, delta), (name, part) in itertools.product(QUICK if options.quick else BUDGETS, LAWS.items()):
        told(f"({epsilon}, {delta}) {name}")
        try:
            case = measured(name, part, epsilon, delta, dict(WAYS))
        except CannotCertify as error:
            told(f"    {error}")
            continue
        cases += [case] if case is not None else []

    print(f"Copies admitted / copies that the engine certifies: {len(cases)} cases of {FEW} copies and more")
    print(f"    {'':26} {'median':>7} {'quarter':>8} {'tenth':>7}")
    for way in WAYS:
        middle, quarter, tenth = quantiles(cases, way)
        print(f"    {way:26} {middle:7.3f} {quarter:8.3f} {tenth:7.3f}")
        for line in worst(cases, way):
            print(line)

    print("\nBeside the budget objects of others")
    for where in BESIDE_PEERS:
        for case in cases:
            if (case.law, case.epsilon, case.delta) == where:
                print(f"  {case.name}: {case.planned} certified")
                for way in WAYS:
                    print(f"    {way:28} {case.ways[way]:7}  {case.share(way):5.2f}")
                for line in beside_peers(case):
                    print(line, flush=True)
    for gate in {gate.package for gate in GATES}:
        try:
            print(f"    {gate} {importlib.metadata.version(gate)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"    {gate}: not installed")

    reached = verdicts(cases) + times()
    print("\nTargets")
    for verdict in reached:
        print(f"  {'PASS' if verdict.met else 'FAIL'}  {verdict.target}: {verdict.measured}")
    if options.plots is not None:
        print(budget_pictures.draw(options.plots, WAYS, told))
    if options.json is not None:
        found = {"cases": [asdict(case) for case in cases], "verdicts": [asdict(verdict) for verdict in reached]}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
