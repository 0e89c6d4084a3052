"""Neighbouring-dataset experiments: run a mechanism on two datasets that differ in one unit, and test its claim.

The first runs show what outputs look like, a quarter of the runs chooses events, the rest measures them. Same seed and
trials, same verdict and bounds, whatever the number of jobs.

>>> from dpledger.accounting.guarantees import PureDP
>>> def coin(data, size, rng):  # claims 0.1, and answers truthfully nine times in ten
...     return (rng.random(size) < 0.9) == data
>>> result = audit_mechanism(coin, True, False, claim=PureDP("0.1"), trials=10_000, batched=True, seed=1)
>>> result.verdict, 2 < result.epsilon_lower < 2.1972
('violation', True)
"""

from __future__ import annotations

import inspect
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.audit.claims import Target, target
from dpledger.audit.counting import Evidence, Plan, measured
from dpledger.audit.evidence.thresholds import POWER, most_telling, needed_epsilon
from dpledger.audit.neighbours import apart, check_pair
from dpledger.audit.outcomes import Raised, encode, usual_width
from dpledger.audit.sampling import (
    Batched,
    Part,
    Releases,
    Runs,
    Sampler,
    Samples,
    Single,
    Unaided,
    chunks,
    expected_seconds,
)
from dpledger.audit.strata import ExPostClaim, Stated
from dpledger.audit.verdict import AuditResult
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import LIBRARY, MechanismNote, Power
from dpledger.mechanisms.protocol import Inspects, Mechanism, Sampled
from dpledger.progress import bar, time_in_words
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, flag, one_text, validated

__all__ = ["audit_mechanism", "audit_outputs"]

_CLAIM: TypeAdapter[Guarantee] = TypeAdapter(Guarantee)
FEWEST_TRIALS = 100
MOST_TRIALS = 10**12
ALL_CORES = -1  # of `jobs`, as joblib says it
PROBE = 64  # runs of each side that show how many numbers an output is
MOST_WIDTH = 100_000  # numbers of an output
LONGEST = 10_800.0  # seconds that an audit takes without being insisted on


# ---- doors ----------------------------------------------------------------------------------------------------------


def audit_mechanism(
    mechanism: Mechanism[Any, Any] | Callable[..., Any],
    left: object,
    right: object,
    claim: Guarantee | ExPostClaim | None = None,
    *,
    trials: int = 1_000_000,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    batched: bool = False,
    seed: int | None = None,
    jobs: int = 1,
    progress: bool = True,
    insist: bool = False,
) -> AuditResult:
    """Run `mechanism` `trials` times on each of two neighbouring datasets, and test its claim.

    `mechanism`: a dpledger mechanism, a function f(data, rng) -> output (a number, array, text, None, or it raises: all
    are outcomes), or with `batched` a function f(data, size, rng) -> array or list of `size` outputs; `rng` is a numpy
    Generator. A function that takes the data alone, f(data) -> output, draws its noise itself. For its runs the global
    generators of `random`, numpy and torch are seeded, and put back after them: no other thread should draw from them
    meanwhile. What it draws from a generator of its own `seed` does not repeat, and a copy of that in each worker would
    repeat its noise, so all runs are in this process, whatever `jobs` says. ParameterError where the first runs of both
    sides all raise alike: then nothing ran. `claim`: a guarantee; None takes a mechanism's own, with the privacy curve
    of its parts; an `ExPostClaim` is tested stratum by stratum, and the result is about the one that fell. `delta`:
    where epsilon_lower is reported (default: the claim's; 10^-5 where it names none; an ex-post claim has its own).
    `relation`, `unit`: what a mechanism is fixed to if it names none. `seed`: at least 0 and below 2^53; None draws
    one, which the result names. `jobs`: processes, through joblib. `insist`: also where the first runs show that it
    would take over three hours, which is else a ParameterError that says how long.

    The pair is the caller's choice, and an audit is as good as its pair: one unit apart, the smallest data and the most
    extreme rows first. Lists that are more than one unit apart under `relation` are refused for a mechanism that reads
    rows, by its own claim; the result of any other says so (`apart`), since its lists may be no rows.

    Claim: if the mechanism keeps the claim on this pair, the verdict is `violation` with probability at most
        1 - confidence; and except with that probability (for both together) epsilon_lower is no larger than the truth.
    Source: docs/proofs/audit.md. Assumes: `left` and `right` are neighbours; runs are independent of each other.

    >>> def coin(data, size, rng):  # claims 0.1, and answers truthfully nine times in ten
    ...     return (rng.random(size) < 0.9) == data
    >>> dpl.audit_mechanism(coin, True, False, claim=dpl.PureDP("0.1"), trials=2000, batched=True, seed=1).verdict
    'violation'
    """
    settings = _Settings.read(trials=trials, confidence=confidence, delta=delta, seed=seed, jobs=jobs)
    batched, progress = flag(batched, field="batched"), flag(progress, field="progress")
    insist = flag(insist, field="insist")
    relation, unit = Relation.read(relation), Unit.read(unit)
    subject = _subject(mechanism, claim, relation, unit, batched)
    _inspect(subject.runner, left, right)
    if subject.own:
        check_pair(mechanism, left, right, relation, unit)
    aim = subject.aim(relation, settings.delta)
    started = time.perf_counter()
    stated = aim if isinstance(aim, Stated) else None
    workers = 1 if isinstance(subject.runner, Unaided) else settings.jobs
    runs, each = _probed(Runs(subject.runner, left, right, settings.seed, width=1, stated=stated))
    expected = expected_seconds(runs, settings.trials, workers, first=each, longest=LONGEST)
    if expected > LONGEST and not insist:
        wanted = f"fewer: these would take about {time_in_words(expected)} (insist, to run them all the same)"
        raise ParameterError("trials", f"{settings.trials:,}", wanted)
    with bar(f"auditing, about {time_in_words(expected)}", 2 * trials, shown=progress) as advance:
        evidence = measured(runs, aim, settings.alpha, trials=settings.trials, jobs=workers, advance=advance)
    return _result(
        evidence,
        settings,
        mechanism=subject.note,
        claim=subject.claim,
        aim=aim,
        relation=relation,
        pair=f"{_shape(left)} and {_shape(right)}",
        apart=apart(left, right, relation, unit),
        width=runs.width,
        seconds=time.perf_counter() - started,
        seed=settings.seed,
    )


def audit_outputs(
    left_outputs: Sequence[object] | npt.NDArray[Any],
    right_outputs: Sequence[object] | npt.NDArray[Any],
    claim: Guarantee | ExPostClaim,
    *,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    name: str = "collected_outputs",
) -> AuditResult:
    """Test a claim on outputs that somebody already collected, one independent run an item (or a row).

    The two sides may differ in number. Every fourth run chooses events, the others measure them. `name`: what the
    entry calls the mechanism. Claim, Source: as `audit_mechanism`.
    Assumes: rows are independent runs of one mechanism; scores of many canaries of one training are not.

    >>> rng = np.random.default_rng(1)
    >>> left, right = rng.laplace(0, 1, 2000), rng.laplace(1, 1, 2000)
    >>> dpl.audit_outputs(left, right, claim=dpl.PureDP(1)).verdict
    'not_refuted'
    """
    settings = _Settings.read(trials=FEWEST_TRIALS, confidence=confidence, delta=delta, seed=0, jobs=1)
    for field, outputs in (("left_outputs", left_outputs), ("right_outputs", right_outputs)):
        is_list = (isinstance(outputs, np.ndarray) and outputs.ndim) or isinstance(outputs, Sequence)
        if not is_list or isinstance(outputs, (str, bytes)):
            raise ParameterError(field, type(outputs).__name__, "a list or array, one run an item")
        if len(outputs) < FEWEST_TRIALS:
            raise ParameterError(field, f"{len(outputs)} runs", f"at least {FEWEST_TRIALS}")
    relation, started = Relation.read(relation), time.perf_counter()
    name = one_text(name, field="name")
    claim = _claim(claim)
    aim = _aim(claim, None, relation, settings.delta)
    width = usual_width([*left_outputs[:PROBE], *right_outputs[:PROBE]])
    read = aim.outcomes if isinstance(aim, Stated) else encode
    plan, left, right = Plan.split(read(left_outputs, width), read(right_outputs, width), aim, settings.alpha)
    return _result(
        plan.evidence(plan.hits(left), plan.hits(right)),
        settings,
        mechanism=MechanismNote(kind=_as_id(name), parameters={}, library=LIBRARY),
        claim=claim,
        aim=aim,
        relation=relation,
        pair="outputs collected elsewhere",
        apart=None,
        width=width,
        seconds=time.perf_counter() - started,
        seed=None,
    )


def _result(
    evidence: Evidence,
    settings: _Settings,
    *,
    mechanism: MechanismNote,
    claim: Guarantee | ExPostClaim,
    aim: Target | Stated,
    relation: Relation,
    pair: str,
    apart: str | None,
    width: int,
    seconds: float,
    seed: int | None,
) -> AuditResult:
    if isinstance(claim, ExPostClaim) or isinstance(aim, Stated):
        point = most_telling(evidence.looks).planned.point
        claim, target = ApproxDP(point.epsilon, point.delta) if point.delta else PureDP(point.epsilon), Target(point)
    else:
        target = aim
    needed = [needed_epsilon(look) for look in evidence.looks if look.planned.point == target.point]
    found = [epsilon for epsilon in needed if epsilon is not None]
    return AuditResult(
        mechanism=mechanism,
        claim=claim,
        target=target,
        relation=relation,
        confidence=settings.confidence,
        looks=evidence.looks,
        cells=evidence.cells,
        power=Power(epsilon=min(found), probability=POWER) if found else None,
        pair=pair,
        apart=apart,
        width=width,
        selected_on=evidence.selected_on,
        trials_left=evidence.trials[0],
        trials_right=evidence.trials[1],
        constant=evidence.constant,
        strata=evidence.strata,
        seconds=seconds,
        seed=seed,
    )


def _probed(runs: Runs) -> tuple[Runs, float]:
    """The same runs, with the width that a few of them show, and the seconds that one took. They count in no bound.

    ParameterError, from the first of what they raised, where all raise alike: then what was audited would be the
    mistake in the call; and where an
    output is so many numbers that no search among them would end."""
    shown: list[object] = []
    each = 0.0
    for chunk in chunks(Part.PROBE, PROBE, PROBE):
        started = time.perf_counter()
        shown.extend(runs.outputs(chunk))
        each = (time.perf_counter() - started) / PROBE
    first = shown[0]
    if isinstance(first, Raised) and all(isinstance(output, Raised) and output == first for output in shown):
        given = (
            f"{first.name} from all of the first {len(shown)} runs, on both sides: its cause is shown with this error"
        )
        raise ParameterError("mechanism", given, f"one that can be called as {runs.sampler.call}") from first.error
    width = usual_width(shown)
    if width > MOST_WIDTH:
        wanted = (
            f"outputs of at most {MOST_WIDTH:,} numbers: return what tells the two datasets apart, some entries or sums"
        )
        raise ParameterError(
            "mechanism", f"{width:,} numbers", f"{wanted} of them (it keeps every claim that they keep)"
        )
    return replace(runs, width=width), each


# ---- what was asked -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The checked settings of one audit."""

    trials: int
    confidence: Decimal
    delta: Decimal | None
    seed: int
    jobs: int

    @property
    def alpha(self) -> Fraction:
        """The whole error budget, exactly."""
        return 1 - Fraction(self.confidence)

    @classmethod
    def read(cls, *, trials: int, confidence: Number, delta: Number | None, seed: int | None, jobs: int) -> _Settings:
        trials = decimals.whole(trials, field="trials", least=FEWEST_TRIALS, most=MOST_TRIALS)
        chosen = secrets.randbits(53) if seed is None else decimals.whole(seed, field="seed", most=2**53 - 1)
        workers = decimals.whole(jobs, field="jobs", least=ALL_CORES, most=4096)
        if not workers:
            raise ParameterError("jobs", workers, "a whole number from 1 to 4096, or -1 for every core")
        level = decimals.read(confidence, field="confidence")
        if not 0 < level < 1:
            raise ParameterError("confidence", str(level), "a number in (0, 1)")
        at = None if delta is None else decimals.read(delta, field="delta")
        if at is not None and at >= 1:
            raise ParameterError("delta", str(at), "a number in [0, 1)")
        return cls(trials=trials, confidence=level, delta=at, seed=chosen, jobs=workers)


def _claim(claim: object) -> Guarantee | ExPostClaim:
    if isinstance(claim, ExPostClaim):
        return claim
    if claim is None:
        raise ParameterError("claim", claim, "a guarantee, like PureDP(1): a plain function has none of its own")
    if not hasattr(claim, "kind") and not isinstance(claim, Mapping):
        raise ParameterError("claim", claim, "a guarantee, like PureDP(1)")
    return validated(_CLAIM, claim, "claim")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """How to run it, what to call it, what it claims, and of a mechanism what it is made of. `own`: whether the claim
    is its own."""

    runner: Sampler
    note: MechanismNote
    claim: Guarantee | ExPostClaim
    parts: Composition | None = None
    own: bool = False

    def aim(self, relation: Relation, delta: Decimal | None) -> Target | Stated:
        """What is tested."""
        aim = _aim(self.claim, self.parts if self.own else None, relation, delta)
        if not isinstance(aim, Stated):
            return aim
        return replace(aim, batched=isinstance(self.runner, Batched), parts=self.parts)


def _aim(
    claim: Guarantee | ExPostClaim, parts: Composition | None, relation: Relation, delta: Decimal | None
) -> Target | Stated:
    if not isinstance(claim, ExPostClaim):
        return target(claim, parts, relation, delta)
    if delta is not None:
        raise ParameterError("delta", str(delta), "None: an ex-post claim holds at its own delta")
    return Stated(claim, relation)


def _subject(
    mechanism: object, claim: Guarantee | ExPostClaim | None, relation: Relation, unit: Unit, batched: bool
) -> _Subject:
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):
        mine = mechanism.under(relation, unit)
        needs_record = isinstance(claim, ExPostClaim) and claim.loss is None
        runner: Sampler = Samples(mine) if isinstance(mine, Sampled) and not needs_record else Releases(mine)
        return _Subject(
            runner=runner,
            note=_note(mine.kind, mine.parameters()),
            claim=mine.claim() if claim is None else _claim(claim),
            parts=mine.parts(),
            own=claim is None,
        )
    if not callable(mechanism):
        hint = "a mechanism with release(), or a function f(data, rng) or f(data)"
        if hasattr(mechanism, "open"):
            hint += " that opens the interaction, asks, and returns what was answered"
        raise ParameterError("mechanism", type(mechanism).__name__, hint)
    call: Sampler = (
        Batched(mechanism) if batched else Unaided(mechanism) if _takes_one(mechanism) else Single(mechanism)
    )
    kind = getattr(mechanism, "kind", None) or f"{mechanism.__module__}.{_name(mechanism)}"
    return _Subject(runner=call, note=_note(str(kind), _own_parameters(mechanism)), claim=_claim(claim))


def _takes_one(function: Callable[..., object]) -> bool:
    """Whether it is to be called with the data alone: it takes no second argument, or has a value for it that is
    neither None nor a generator (a setting). What does not say is given a generator."""
    try:
        signature = inspect.signature(function)
        signature.bind(None)
    except (TypeError, ValueError):
        return False
    try:
        second = list(signature.bind(None, None).arguments)[-1]
    except TypeError:
        return True
    default = signature.parameters[second].default
    return default is not inspect.Parameter.empty and not isinstance(default, np.random.Generator | None)


def _inspect(runner: Sampler, left: object, right: object) -> None:
    """ParameterError where a mechanism says, from type and shape, that the data are not for it."""
    if isinstance(runner, Samples | Releases) and isinstance(runner.mechanism, Inspects):
        runner.mechanism.inspect(left)
        runner.mechanism.inspect(right)


def _name(function: object) -> str:
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    return name.replace("<locals>.", "").replace("<lambda>", "lambda")


def _own_parameters(function: object) -> Mapping[str, Plain]:
    parameters = getattr(function, "parameters", None)
    found = parameters() if callable(parameters) else {}
    return found if isinstance(found, Mapping) else {}


def _note(kind: str, parameters: Mapping[str, Plain]) -> MechanismNote:
    return MechanismNote(kind=_as_id(kind), parameters=parameters, library=LIBRARY)


def _as_id(text: str) -> str:
    """`text` as a name in the ledger's alphabet."""
    cleaned = re.sub(r"[^A-Za-z0-9._:/@-]+", "_", text).lstrip("._:/@-")
    return cleaned[:128] or "unnamed"


def _shape(data: object) -> str:
    """A dataset by its type and shape, never by its values."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple):
        return f"{type(data).__name__} of shape {shape}"
    return f"{type(data).__name__} of {len(data)}" if isinstance(data, (list, tuple, dict)) else type(data).__name__
