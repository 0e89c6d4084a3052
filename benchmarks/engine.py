"""The engine beside other accountants, in one process and at equal work: `python benchmarks/engine.py`.

    --quick           a minute: configurations A and D, defaults of the peers, small samples
    --plots FOLDER    draws time against steps and against the number of distinct mechanisms
    --json FILE       all rows and verdicts as JSON

Every piece of work is asked for epsilon, in both directions where the library has two, and never twice alike: sizes
differ in their tenth digit, so that nothing kept from the run before helps. For each library: median milliseconds, the
interval or the upper bound, its width or its distance from our certified interval, and how many times slower it is
than ours. An upper bound below our lower one is UNSOUND, a lower bound above our upper one WRONG: docs/peers.md. After
the tables, each target with PASS or FAIL. A library that is not installed is named as such; Opacus is the extra
`bench` (install PyTorch for the processor alone first).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from accountants.peers import (
    ANY,
    DP_ACCOUNTING,
    MATCHED,
    PEERS,
    PRV,
    REFUSALS,
    Interval,
    NotCovered,
    Peer,
    ours,
    ours_in_balls,
)
from accountants.pictures import DISTINCT, STEPS, draw
from accountants.timing import Timed, peak_memory, repeated
from accountants.work import MAIN, OTHERS, Work, any_training, closed_mixes, distinct, few_runs

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import Composition, GaussianLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.profile import compose

DOCUMENT = Path(__file__).parents[1] / "examples" / "run.json"
IN_BALLS = Peer("dpledger, verify=arb", lambda work, _: ours_in_balls(work), most_runs=ANY)


@dataclass(frozen=True)
class Row:
    """`words`: width or error against our interval. `times`: how many times slower than ours."""

    work: str
    library: str
    milliseconds: float
    lower: float
    upper: float
    words: str
    times: float


@dataclass(frozen=True)
class Verdict:
    target: str
    measured: str
    met: bool


@dataclass
class Report:
    """What was measured so far; rows are printed as they come."""

    rows: list[Row] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    megabytes: dict[str, float] = field(default_factory=dict)

    def row(self, row: Row) -> None:
        self.rows.append(row)
        low = f"[{row.lower:.9f}, " if row.lower > -math.inf else "[..., "
        slower = f"{row.times:9.{0 if row.times >= 10 else 1}f}x" if row.times != 1 else ""
        print(
            f"  {row.library:26}{row.milliseconds:11.2f} ms  {low + f'{row.upper:.9f}]':34} {row.words:34}{slower}",
            flush=True,
        )

    def verdict(self, target: str, measured: str, met: bool) -> None:
        self.verdicts.append(Verdict(target, measured, met))
        print(f"  {measured}", flush=True)


def told(words: str) -> None:
    print(f"... {words}", file=sys.stderr, flush=True)


# ---- one piece of work, all libraries -------------------------------------------------------------------------------


def beside(report: Report, work: Work, peers: tuple[Peer, ...], repeats: int) -> dict[str, float]:
    """Prints a row for each library; the seconds of each that answered, ours under ""."""
    print(f"\n{work.name}")
    mine = repeated(lambda i: ours(work.unlike(i)), repeats)
    truth = ours(work)
    width = truth[1] - truth[0]
    words = f"width {width:.1e}, relative {width / truth[1] if truth[1] else 0.0:.1e}"
    report.row(Row(work.name, "dpledger", mine.median * 1e3, *truth, words, 1.0))
    seconds = {"": mine.median}
    for peer in peers:
        told(f"{work.name}: {peer.name}")
        theirs = _answered(work, peer, truth)
        if isinstance(theirs, str):
            print(f"  {peer.name:26} {theirs}", flush=True)
            continue
        ratio = theirs.median / mine.median
        report.row(Row(work.name, peer.name, theirs.median * 1e3, *theirs.result, _words(theirs.result, truth), ratio))
        if math.isfinite(theirs.result[1]):
            seconds[peer.name] = theirs.median
    return seconds


def _answered(work: Work, peer: Peer, truth: Interval) -> Timed[Interval] | str:
    """The library's answer, or in words why there is none."""
    if reason := peer.reason(work, truth):
        return reason
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repeated(lambda _: peer.answer(work, truth), 0 if peer.slow else 3)
    except ImportError as error:
        return f"NOT INSTALLED ({error.name})"
    except NotCovered as error:
        return f"has no {error}"
    except REFUSALS as error:
        return f"refuses: {' '.join(str(error).split())[:80] or type(error).__name__}"


def _words(found: Interval, truth: Interval) -> str:
    if found[1] < truth[0]:
        return f"UNSOUND: upper bound too small by {truth[0] - found[1]:.1e}"
    if found[0] > truth[1]:
        return f"WRONG: lower bound too large by {found[0] - truth[1]:.1e}"
    if found[0] == -math.inf and found[1] <= truth[1]:
        return "within our interval"
    if found[0] == -math.inf:
        return f"above the truth by {found[1] - truth[1]:.1e}"
    return f"from {found[0] - truth[0]:+.1e} to {found[1] - truth[1]:+.1e}"


# ---- the parts of the report ----------------------------------------------------------------------------------------


def training(report: Report, quick: bool) -> None:
    """Configurations A to E, then other deltas, counts and mechanisms."""
    peers = tuple(peer for peer in (IN_BALLS, *PEERS) if not quick or not peer.slow)
    found = [beside(report, work, peers, 9 if quick else 25) for work in (MAIN[:1] if quick else MAIN)]
    for peer, least in ((DP_ACCOUNTING, 100), (PRV, 80), (MATCHED, 3000)):
        ratios = [seconds[peer.name] / seconds[""] for seconds in found if peer.name in seconds]
        if ratios:
            words = f"{peer.name}: {min(ratios):.0f}x to {max(ratios):.0f}x slower"
            report.verdict(f"at least {least}x faster than {peer.name}", words, min(ratios) >= least)
    balls = [seconds[IN_BALLS.name] for seconds in found if IN_BALLS.name in seconds]
    if balls:
        report.verdict("verify=arb: under a second", f"verify=arb: at most {max(balls):.2f} s", max(balls) < 1)
    ten = max(seconds[""] for seconds in found) * 1e3
    report.verdict("A to E: at most 2 ms", f"A to E: at most {ten:.2f} ms (median each)", ten <= 2)
    others = [work for work in OTHERS if not quick or "docs/peers.md" in work.name]
    for work in others:
        beside(report, work, tuple(peer for peer in peers if not peer.slow and peer is not IN_BALLS), 9)


def memory(report: Report) -> None:
    """Of one call, configuration A."""
    print("\npeak memory, configuration A")
    work, truth = MAIN[0], ours(MAIN[0])
    peers = (peer for peer in PEERS if not peer.slow or peer is MATCHED)
    for peer in (Peer("dpledger", lambda work, _: ours(work.unlike(1))), *peers):
        told(f"memory: {peer.name}")
        try:
            report.megabytes[peer.name] = peak_memory(lambda peer=peer: peer.answer(work, truth))
            print(f"  {peer.name:26}{report.megabytes[peer.name]:11.2f} MB", flush=True)
        except ImportError as error:
            print(f"  {peer.name:26} NOT INSTALLED ({error.name})")


@dataclass(frozen=True)
class Sample:
    """Milliseconds and relative widths of many random pieces of work."""

    milliseconds: tuple[float, ...]
    widths: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def ninetieth(self) -> float:
        return statistics.quantiles(self.milliseconds, n=10)[-1]

    def words(self) -> str:
        widths = sorted(self.widths)
        return (
            f"{self.median:.2f} ms median, {self.ninetieth:.2f} ms p90; relative width {statistics.median(widths):.0e} "
            f"median, {widths[int(0.9 * len(widths))]:.0e} p90, {widths[int(0.97 * len(widths))]:.0e} p97"
        )


def sampled(works: Iterator[Work], size: int) -> Sample:
    milliseconds: list[float] = []
    widths: list[float] = []
    for work in itertools.islice(works, size):
        taken = repeated(lambda _, work=work: ours(work), 0, 0.0)
        lower, upper = taken.result
        milliseconds.append(taken.median * 1e3)
        widths.append((upper - lower) / upper if upper > 0 else 0.0)
    return Sample(tuple(milliseconds), tuple(widths))


def samples(report: Report, quick: bool) -> None:
    size = 60 if quick else 400
    print(f"\n{size} random ones, each asked once")
    sampled(few_runs(99), 3)  # what is loaded and checked once
    some = sampled(any_training(1), size)
    narrow = sum(width <= 1e-7 for width in some.widths) / size
    words = f"T in [64, 1e8], delta in [1e-300, 1e-2]: {some.words()}"
    report.verdict("any T in [64, 1e8], delta in [1e-300, 1e-2]: <= 2 ms median", words, some.median <= 2)
    report.verdict("the same: relative width <= 1e-7", f"{narrow:.1%} within 1e-7", narrow == 1)
    some = sampled(closed_mixes(2), size)
    met = some.median <= 1 and max(some.widths) <= 3e-4
    report.verdict(
        "closed-form mixes up to 20 entries: <= 1 ms, width <= 3e-4",
        f"closed-form mixes: {some.words()}, {max(some.widths):.0e} at most",
        met,
    )
    some = sampled(few_runs(3), size)
    sharp = sum(width <= 1e-6 for width in some.widths) / size
    report.verdict(
        "T in 2..63: <= 30 ms median, width <= 1e-6 in 95 %, <= 1e-5 in all",
        f"T in 2..63: {some.words()}; {sharp:.1%} within 1e-6, {max(some.widths):.0e} at most",
        some.median <= 30 and sharp >= 0.95 and max(some.widths) <= 1e-5,
    )


def ranges(report: Report, quick: bool) -> None:
    """Bounded ranges that are run several times, each run chosen by what came out before."""
    size = 12 if quick else 60
    rng = random.Random(5)

    def some(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    def runs(eta: float, times: float) -> Repeated:
        return Repeated(BoundedRange(f"{eta:.9f}"), times=round(times))

    def ten() -> Sequence:
        return Sequence(tuple(runs(some(0.05, 1), some(1, 100)) for _ in range(10)))

    print(f"\n{size} random compositions of bounded ranges, delta = 1e-6")
    equal = asked([runs(some(0.05, 4), some(2, 1000)) for _ in range(size)])
    report.verdict(
        "2 to 1,000 runs of one range, eta in [0.05, 4]: <= 100 ms median, width <= 1e-3",
        f"runs of one range: {equal.words()}, {max(equal.widths):.1e} at most",
        equal.median <= 100 and max(equal.widths) <= 1e-3,
    )
    mixes: list[Composition] = [ten() for _ in range(size)]
    for words, order in _ORDERS.items():
        mixed = asked(mixes, order)
        report.verdict(
            f"ten ranges, 1 to 100 runs of each, {words}: <= 100 ms median, width <= 1e-3",
            f"ten ranges, {words}: {mixed.words()}, {max(mixed.widths):.1e} at most",
            mixed.median <= 100 and max(mixed.widths) <= 1e-3,
        )


_ORDERS: dict[str, Literal["any", "given"]] = {"in their order": "given", "in any order": "any"}


def asked(trees: list[Composition], order: Literal["any", "given"] = "any") -> Sample:
    """Epsilon of each, once."""
    compose(trees[0], order=order).epsilon("1e-5")  # what is loaded and checked once
    taken = [repeated(lambda _, tree=tree: compose(tree, order=order).epsilon("1e-6"), 0, 0.0) for tree in trees]
    widths = tuple((one.result.upper - one.result.lower) / one.result.upper for one in taken)
    return Sample(tuple(one.median * 1e3 for one in taken), widths)


def many(report: Report, quick: bool) -> None:
    """Distinct mechanisms, beside the libraries while that takes seconds."""
    peers = (DP_ACCOUNTING, PRV, *(peer for peer in PEERS if peer.name.startswith("Opacus")))
    for count in (10,) if quick else (10, 100):
        beside(report, distinct(count, 0), peers, 3)
    print("\nmany distinct mechanisms, dpledger")
    for count, most in ((100, 150.0), (1000, 150.0)) if quick else ((100, 150.0), (1000, 150.0), (10_000, 1500.0)):
        taken = repeated(lambda seed, count=count: ours(distinct(count, seed)), 3 if count > 1000 else 5)
        built = repeated(lambda seed, count=count: (distinct(count, seed).tree(), 0.0), 3)
        milliseconds = (taken.median - built.median) * 1e3
        lower, upper = taken.result
        words = f"{count} distinct: {milliseconds:.1f} ms, relative width {(upper - lower) / upper:.0e}"
        report.verdict(f"{count} distinct: <= {most:.0f} ms", words, milliseconds <= most)


def running(report: Report) -> None:
    """Append and ask, a profile at a thousand points, the command line."""
    print("\nan accountant, a whole profile, start-up")
    step = PoissonSampled(GaussianLaw(1), rate=0.01)
    accountant = Accountant(1e-5)
    accountant.append(step, 200)
    taken = repeated(lambda _: accountant.append(step), 500)
    mean = statistics.fmean(taken.seconds) * 1e3
    report.verdict(
        "append, certified: <= 5 ms", f"append: {mean:.3f} ms mean, {taken.median * 1e3:.3f} median", mean <= 5
    )
    far = compose(MAIN[0].tree()).epsilon(1e-30).upper
    epsilons = [far * i / 999 for i in range(1000)]
    taken_profile = repeated(lambda i: compose(MAIN[0].unlike(i).tree()).deltas(epsilons), 9)
    ends = [(at.upper / at.lower - 1) if at.lower > 0 else math.inf for at in taken_profile.result]
    milliseconds = taken_profile.median * 1e3
    report.verdict(
        "a profile of 1000 epsilons over 30 decades: <= 30 ms",
        f"1000 epsilons, delta to 1e-30: {milliseconds:.1f} ms, relative width of delta {max(ends):.0e} at most",
        milliseconds <= 30,
    )
    for name, most, words in (
        ("import dpledger", 0.5, ["-c", "import dpledger"]),
        ("dpledger compose", 1.0, ["-m", "dpledger", "compose", str(DOCUMENT), "--delta", "1e-5"]),
    ):
        seconds_taken = _started(words)
        if seconds_taken is None:
            print(f"  {name}: did not run")
            continue
        report.verdict(f"{name}: <= {most} s", f"{name}: {seconds_taken:.2f} s", seconds_taken <= most)


def _started(words: list[str]) -> float | None:
    """The shortest of three runs of a new interpreter, seconds on the clock."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *words], capture_output=True, check=False)
        taken.append(time.perf_counter() - start)
        if done.returncode:
            return None
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description="The engine beside other accountants, in one process.")
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--plots", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", type=Path, help="a file for rows and verdicts")
    words = parser.parse_args()
    quick: bool = words.quick
    report = Report()
    parts: tuple[Callable[[], None], ...] = (
        lambda: samples(report, quick),
        lambda: training(report, quick),
        lambda: ranges(report, quick),
        lambda: many(report, quick),
        lambda: running(report),
        lambda: None if quick else memory(report),
    )
    for part in parts:
        part()
    print("\ntargets")
    for verdict in report.verdicts:
        print(f"  {'PASS' if verdict.met else 'FAIL'}  {verdict.target}\n          {verdict.measured}")
    if words.json is not None:
        written = json.dumps(asdict(report), indent=1).replace("-Infinity", "null").replace("Infinity", "null")
        words.json.write_text(written + "\n")
    if words.plots is not None:
        for picture in (STEPS, DISTINCT):
            print(f"drawn: {draw(picture, words.plots, told)}")


if __name__ == "__main__":
    main()
