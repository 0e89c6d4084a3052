"""Neighbouring-dataset experiments: run a mechanism on two datasets that differ in one unit, and test its claim.

Runs come in blocks, and each block is bet on as the blocks before it suggest. An audit ends when the claim is refuted,
or when its runs are used up. Same seed and trials, same verdict and bounds, whatever the number of jobs.

>>> from dpledger.accounting.guarantees import PureDP
>>> def coin(data, size, rng):  # claims 0.1, and answers truthfully nine times in ten
...     return (rng.random(size) < 0.9) == data
>>> result = audit_mechanism(
...     coin, True, False, claim=PureDP("0.1"), trials=10_000, batched=True, seed=1, stop_at_violation=False
... )
>>> result.verdict, 2 <= result.epsilon_lower < 2.1972
('violation', True)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.audit.course.blocks import Course, Evidence, Limits
from dpledger.audit.course.journal import Journal
from dpledger.audit.course.recorded import require_same_outputs
from dpledger.audit.course.sources import PROBE, Collected, DrawnNow, losses_of, run_course, try_first
from dpledger.audit.outcomes import Floats, Outputs, encode
from dpledger.audit.replay import ReplayResult, audit_replay
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.sampling import Runs, digest, listed, released, shares_memory
from dpledger.audit.strata import ExPostClaim, Stated
from dpledger.audit.tested.claims import AuditTarget, ClaimPoint
from dpledger.audit.tested.neighbours import alike, apart, check_pair, pair_digest
from dpledger.audit.tested.subjects import (
    FEWEST_TRIALS,
    Settings,
    aim_at,
    claim_of,
    code_digest,
    named,
    seconds_of,
    subject_of,
)
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import MechanismNote
from dpledger.mechanisms.protocol import Mechanism
from dpledger.progress import bar
from dpledger.relations import Relation, Unit
from dpledger.schema import flag, one_text

__all__ = ["audit_mechanism", "audit_outputs", "result_of", "seen_on"]

FLOATS = ("numbers", "bits")
MOST_SIZES = 8  # runs of one side to a run of the other, where both have more than that many


# ---- doors ----------------------------------------------------------------------------------------------------------


def audit_mechanism(
    mechanism: Mechanism[Any, Any] | Callable[..., Any],
    left: object,
    right: object,
    claim: Guarantee | ExPostClaim | None = None,
    *,
    trials: int = 1_000_000,
    seconds: Number | None = None,
    stop_at_violation: bool = True,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    batched: bool = False,
    each_seconds: Number | None = None,
    texts: bool = False,
    floats: Literal["numbers", "bits"] = "numbers",
    made_up: bool = False,
    seed: int | None = None,
    jobs: int = 1,
    progress: bool = True,
    resume: str | os.PathLike[str] | None = None,
) -> AuditResult:
    """Run `mechanism` on each of two neighbouring datasets, at most `trials` times each, and test its claim.

    `mechanism`: a dpledger mechanism, a function f(data, rng) -> output, or with `batched` a function f(data, size,
    rng) -> array or list of `size` outputs; `rng` is a numpy Generator. An output may be anything: a number, an array,
    a dict, text, a frame, None, or an exception. A function that takes the data alone, f(data) -> output, draws its
    noise itself; the generators that it shares with the process, or keeps, are seeded for each run.
    A mechanism's own claim is first tried by `audit_replay`, in which nothing is left to chance.
    ParameterError if the first runs of both sides all raise alike: then nothing ran.

    `claim`: a guarantee; None takes a mechanism's own, with the privacy curve of its parts; an `ExPostClaim` is tested
    over all of its strata. `delta`: where epsilon_lower is reported (default: the claim's; 10^-5 where it names none;
    an ex-post claim has its own). `relation`, `unit`: what a mechanism is fixed to if it names none.

    `trials`: a whole number from 100 on. `seconds`: no block of runs begins that would end later; the verdict then
    depends on the machine. `stop_at_violation`: end as soon as the claim is refuted; False uses all runs, for a larger
    epsilon_lower. `each_seconds`: a run that takes longer is stopped, and that is its outcome. `texts`: the message of
    an exception is part of the outcome, not only its type. `floats`: "numbers" compares floats as numbers, and reports
    apart from the verdict what only the last bits give away (`float_leak`; Mironov 2012), as noise that is drawn and
    added in floating point nearly always does. "bits" counts them like any other outcome. `made_up`: the data are
    about nobody, and are JSON, so an entry may name them by a digest, which hides nothing. `seed`: at least 0 and below
    2^53; None draws one, which the result names. `jobs`: processes, through joblib, whose `parallel_config` chooses the
    engine; -1 is every core. `resume`: a file that keeps each block of runs as it is drawn: the same call continues
    where a killed one was (with its seed, if none is given), and gives the result of one that was not killed; with more
    `trials` it continues where it ended. It holds outputs, so only its owner can read it (mode 600).

    You choose the pair, and an audit is as good as its pair: take datasets one unit apart, the smallest data and the
    most extreme rows first. A mechanism's own claim covers neighbours only: other data are refused. For any other claim
    the result says so (`apart`), since lists need not be rows.

    Claim: if the mechanism keeps the claim on this pair, the verdict is `violation` with probability at most
        1 - confidence, whenever the audit ends; and with at least that confidence the true epsilon is no smaller than
        epsilon_lower. Source: docs/proofs/audit.md.
    Assumes: `left` and `right` are neighbours; runs are independent of each other (what shows otherwise makes `blind`,
        and so do two datasets that are the same, where nothing was refuted).

    >>> def coin(data, size, rng):  # claims 0.1, and answers truthfully nine times in ten
    ...     return (rng.random(size) < 0.9) == data
    >>> dpl.audit_mechanism(coin, True, False, claim=dpl.PureDP("0.1"), trials=2000, batched=True, seed=1).verdict
    'violation'
    """
    settings = Settings.read(trials=trials, confidence=confidence, delta=delta, seed=seed, jobs=jobs)
    batched, progress = flag(batched, field="batched"), flag(progress, field="progress")
    stop, texts = flag(stop_at_violation, field="stop_at_violation"), flag(texts, field="texts")
    bits, each = _reads_bits(floats), seconds_of(each_seconds, "each_seconds")
    limits = Limits(trials=settings.trials, seconds=seconds_of(seconds, "seconds"), stop_at_violation=stop)
    relation, unit = Relation.read(relation), Unit.read(unit)
    subject = subject_of(mechanism, claim, relation, unit, batched=batched)
    subject.inspect(left, right)
    code = code_digest(mechanism)
    named_pair = pair_digest(left, right) if flag(made_up, field="made_up") else None
    if subject.own:
        check_pair(mechanism, left, right, relation, unit)
    aim = subject.aim(relation, settings.delta)
    started = time.perf_counter()
    with ExitStack() as opened:
        journal = None
        if resume is not None:
            of = subject.identity(mechanism, confidence=settings.confidence, delta=settings.delta, relation=relation,
                                  unit=unit, batched=batched, each_seconds=each, texts=texts, floats=floats,
                                  left=digest(left).hex(), right=digest(right).hex())  # fmt: skip
            journal = opened.enter_context(Journal.open(resume, of=of, seed=seed, drawn=settings.seed))
            settings = replace(settings, seed=journal.seed)
        replay = _replayed(mechanism, left, right, relation, unit) if subject.own else None
        if replay is not None and replay.verdict == "violation" and stop:
            limits = replace(limits, trials=FEWEST_TRIALS)
        runner, unlike = released(subject.runner, left, right, settings.seed)
        read = aim.outcomes if isinstance(aim, Stated) else encode
        runs = Runs(runner, left, right, seed=settings.seed, encode=read, each_seconds=each, texts=texts)
        shown = try_first(runs)
        if journal is not None:
            require_same_outputs(journal, shown)
        advance = opened.enter_context(bar("auditing", 2 * settings.trials, shown=progress))
        course = run_course(aim, settings.alpha, DrawnNow(runs, settings.jobs, advance), limits, journal, bits=bits)
    return result_of(
        seen_on(course.evidence(runs.starts), left, right),
        settings,
        mechanism=subject.note,
        claim=subject.claim,
        aim=aim,
        relation=relation,
        pair=f"{_shape(left)} and {_shape(right)}",
        apart=apart(left, right, relation, unit),
        told=tuple(words for words in (unlike, *runs.told, course.still, *course.unread) if words),
        seconds=time.perf_counter() - started,
        seed=settings.seed,
        replay=replay,
        code=code,
        made_up=named_pair,
    )


def _replayed(mechanism: object, left: object, right: object, relation: Relation, unit: Unit) -> ReplayResult | None:
    """What a replay says of a mechanism, before anything is drawn; None where it cannot be run."""
    try:
        return audit_replay(mechanism, left, right, relation=relation, unit=unit)
    except ParameterError:  # it raises alike on both datasets: the runs will show it
        return None


def audit_outputs(
    left_outputs: Any,
    right_outputs: Any,
    claim: Guarantee | ExPostClaim,
    *,
    paired: bool = False,
    stop_at_violation: bool = True,
    floats: Literal["numbers", "bits"] = "numbers",
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    name: str = "collected_outputs",
) -> AuditResult:
    """Test a claim on outputs that somebody already collected, one independent run an item (or a row), in the order in
    which they were drawn: lists, arrays, series, frames or tensors.

    The two sides must be independent of each other. `paired`: run i on the left may depend on run i on the right, but
    on no other; then both sides have as many runs, and the test needs a tenth more. Otherwise they may differ in
    number; if one side has many more, a few are left over. `name`: what the entry calls the mechanism.
    Claim, Source: as `audit_mechanism`.
    Assumes: rows are independent runs of one mechanism; scores of many canaries of one training are not.
    ParameterError for sides that share memory: one of them is not what was collected.

    >>> rng = np.random.default_rng(1)
    >>> left, right = rng.laplace(0, 1, 2000), rng.laplace(1, 1, 2000)
    >>> dpl.audit_outputs(left, right, claim=dpl.PureDP(1)).verdict
    'not_refuted'
    """
    settings = Settings.read(trials=FEWEST_TRIALS, confidence=confidence, delta=delta, seed=0, jobs=1)
    bits = _reads_bits(floats)
    paired, stop = flag(paired, field="paired"), flag(stop_at_violation, field="stop_at_violation")
    left, right = _collected(left_outputs, "left_outputs"), _collected(right_outputs, "right_outputs")
    counts = len(left), len(right)
    if paired and counts[0] != counts[1]:
        raise ParameterError(
            "right_outputs", f"{counts[1]} runs", f"as many as on the left, {counts[0]}: they are pairs"
        )
    if left_outputs is right_outputs or shares_memory(left, right):
        raise ParameterError("left_outputs, right_outputs", "outputs that share memory", "two lists of separate runs")
    relation, started = Relation.read(relation), time.perf_counter()
    name = one_text(name, field="name")
    claim = claim_of(claim)
    aim = aim_at(claim, None, relation, settings.delta)
    read = aim.outcomes if isinstance(aim, Stated) else encode
    sides = read(left), read(right)
    skipped, losses = 0, tuple[Floats, ...]()
    if isinstance(aim, Stated):
        skipped = min(PROBE, min(counts) // 4)
        losses = tuple(loss for side in sides for loss in losses_of(side.where(slice(0, skipped))))
    unit = (1, 1) if paired else _sizes(counts[0] - skipped, counts[1] - skipped)
    collected = Collected((sides[0].where(slice(skipped, None)), sides[1].where(slice(skipped, None))), unit)
    course = Course(aim, settings.alpha, losses=losses, paired=paired, sizes=unit, bits=bits)
    course.run(collected, Limits(trials=collected.units, stop_at_violation=stop))
    course.order(*collected.sides)
    return result_of(
        course.evidence(),
        settings,
        mechanism=named(name, {}),
        claim=claim,
        aim=aim,
        relation=relation,
        pair="outputs collected elsewhere",
        apart=None,
        told=course.unread,
        seconds=time.perf_counter() - started,
        seed=None,
    )


def seen_on(evidence: Evidence, left: object, right: object) -> Evidence:
    """The evidence of runs on these data: it is blind where they are the same, and nothing was refuted."""
    if evidence.blind is not None or evidence.fell_after is not None:
        return evidence
    return replace(evidence, blind=alike(left, right))


def result_of(
    evidence: Evidence,
    settings: Settings,
    *,
    mechanism: MechanismNote,
    claim: Guarantee | ExPostClaim,
    aim: AuditTarget | Stated,
    relation: Relation,
    pair: str,
    apart: str | None,
    told: tuple[str, ...],
    seconds: float,
    seed: int | None,
    replay: ReplayResult | None = None,
    code: str | None = None,
    made_up: str | None = None,
) -> AuditResult:
    """The result of runs, with what was asked."""
    if isinstance(claim, ExPostClaim) or isinstance(aim, Stated):
        assert isinstance(aim, Stated)
        point = ClaimPoint(max(stratum.epsilon for stratum in evidence.strata), aim.delta)
        claim, target = (
            ApproxDP(point.epsilon, point.delta) if point.delta else PureDP(point.epsilon),
            AuditTarget(point),
        )
    else:
        target = aim
    return AuditResult(
        mechanism=mechanism,
        claim=claim,
        target=target,
        relation=relation,
        confidence=settings.confidence,
        evidence=evidence,
        pair=pair,
        apart=apart,
        told=told,
        seconds=seconds,
        seed=seed,
        replay=replay,
        code=code,
        made_up=made_up,
    )


# ---- what was asked -------------------------------------------------------------------------------------------------


def _collected(outputs: object, field: str) -> Outputs:
    runs = listed(outputs)
    if runs is None:
        raise ParameterError(field, type(outputs).__name__, "a list, array or series, one run an item")
    if len(runs) < FEWEST_TRIALS:
        raise ParameterError(field, f"{len(runs)} runs", f"at least {FEWEST_TRIALS}")
    return runs


def _sizes(left: int, right: int) -> tuple[int, int]:
    """How many runs left and right make a unit, so that few are left over."""
    if left < right:
        one, other = _sizes(right, left)
        return other, one
    ratio = Fraction(left, right).limit_denominator(MOST_SIZES)
    return ratio.numerator, ratio.denominator


def _reads_bits(floats: object) -> bool:
    if not isinstance(floats, str) or floats not in FLOATS:
        raise ParameterError("floats", floats, "numbers or bits")
    return floats == "bits"


def _shape(data: object) -> str:
    """A dataset by its type and shape, never by its values."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple):
        return f"{type(data).__name__} of shape {shape}"
    return f"{type(data).__name__} of {len(data)}" if isinstance(data, (list, tuple, dict)) else type(data).__name__
