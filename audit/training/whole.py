"""Audits of whole trainings: one with many canaries, and many with one; beside them what was certified, and what an
audit of its steps found.

>>> import numpy as np
>>> from dpledger.accounting.guarantees import ApproxDP
>>> def train(rows, rng):  # claims epsilon 1, and releases the sum of the rows with hardly any noise
...     return np.sum(rows, axis=0) + rng.normal(0, 0.1, 40)
>>> found = audit_training(
...     train, np.zeros((10, 40)), ApproxDP(1, "0.00001"), score=lambda model, canary: model @ canary,
...     canaries=list(np.eye(40)), seed=1, progress=False,
... )
>>> found.one_run.verdict
'violation'
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee, PrivacyCurve, words_of
from dpledger.audit.experiment import audit_mechanism
from dpledger.audit.results.verdict import CANARIES, STEPS, AuditResult
from dpledger.audit.tested.subjects import FEWEST_TRIALS, Settings, name_of, named, require_unguarded
from dpledger.audit.training.canaries import with_canary
from dpledger.audit.training.one_run import OneRun
from dpledger.audit.training.picture import drawn_beside
from dpledger.audit.training.step_claims import StepClaim, step_claim
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.notebooks import summary
from dpledger.progress import bar
from dpledger.relations import Relation
from dpledger.schema import flag

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TrainingAudit", "audit_training"]

WAYS = {"steps": "step level", "one_run": "one run", "trainings": "many runs"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TrainingAudit:
    """What is known of a training: the claim, and one `AuditResult` for each way in which it was audited, None for the
    others. `announced`: what one run could show, said before it began.

    The results are of claims of their own: that of `steps` is the claim of one step. Record each of `results` in
    a ledger by `book.record`.

    >>> asked = {"score": lambda model, canary: model @ canary, "canaries": list(np.eye(40)), "seed": 1}
    >>> found = dpl.audit_training(
    ...     lambda rows, rng: sum(rows), [np.zeros(40)], dpl.PureDP(1), progress=False, **asked
    ... )
    >>> found.is_refuted, found.one_run.verdict, found.trainings
    (True, 'violation', None)
    """

    claim: StepClaim
    steps: AuditResult | None
    one_run: AuditResult | None
    trainings: AuditResult | None
    announced: str | None

    @property
    def results(self) -> tuple[AuditResult, ...]:
        """Those that there are."""
        return tuple(result for _, result in self._each())

    @property
    def is_refuted(self) -> bool:
        """Whether any of them found a violation."""
        return any(result.verdict == "violation" for result in self.results)

    def _each(self) -> Iterator[tuple[str, AuditResult]]:
        for name, words in WAYS.items():
            result = getattr(self, name)
            if result is not None:
                yield words, result

    def rows(self) -> list[tuple[str, str, str]]:
        """The table: what it is of, the number, the verdict."""
        point = self.claim.target.point
        found = [
            ("claim", _in_words(self.claim.guarantee), ""),
            ("certified", f"epsilon at most {float(point.epsilon):.4g} at delta {float(point.delta):.3g}", ""),
        ]
        for words, result in self._each():
            told = f"epsilon at least {float(result.epsilon_lower):.4g} at delta {float(result.delta):.3g}"
            if result.mu_lower is not None:
                multiplier = decimals.round_up(1 / Fraction(result.mu_lower), digits=3)
                told = f"a step: {told}; noise multiplier at most {multiplier}"
            found.append((words, told, "blind" if result.blind else f"{result.verdict}{_after(result)}"))
        return found

    def __str__(self) -> str:
        width = max(len(told) for _, told, _ in self.rows())
        lines = [f"{what:<11}{told:<{width + 2}}{verdict}".rstrip() for what, told, verdict in self.rows()]
        for words, result in self._each():
            lines += [f"{words}: {told}" for told in (result.blind, *result.told) if told]
        return "\n".join([*lines, *([self.announced] if self.announced else [])])

    def __repr__(self) -> str:
        return f"<TrainingAudit: {', '.join(f'{words} {result.verdict}' for words, result in self._each())}>"

    def _repr_html_(self) -> str:
        return summary("TrainingAudit", [(what, f"{told} {verdict}".strip()) for what, told, verdict in self.rows()])

    def __bool__(self) -> bool:
        raise TypeError("a TrainingAudit is neither true nor false: ask is_refuted, or the verdict of each result")

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """What was certified of the whole training and what each audit found, as epsilons on one axis; saved to `path`
        if given. Needs matplotlib, the extra `plots`. ParameterError as `AuditResult.plot` has it."""
        return drawn_beside(self.claim.target.point, list(self._each()), path)


def audit_training(
    train: Callable[[Any, np.random.Generator], Any],
    data: object,
    claim: Guarantee | Composition,
    *,
    score: Callable[[Any, Any], float],
    canaries: Sequence[object] = (),
    trainings: int | None = None,
    steps: AuditResult | None = None,
    confidence: Number = "0.95",
    delta: Number | None = None,
    seed: int | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> TrainingAudit:
    """Audit a whole training, from what its models give away about canaries.

    `train(data, rng)` gives a model, or all that is released; `score(model, canary)` a number that is larger where the
    canary was in the data: minus its loss, or how far the model moved along its gradient. `claim`: of the whole
    training, under add_remove: a guarantee, or the law of all steps. `data`: an array, a tensor, a list, or a tuple of
    such; a canary is one more item.

    `canaries`: with ten or more, one training is made that includes each by a fair coin; how many are guessed right is
    tested. The most that it can show is printed before it begins. `trainings`: at most this many with the first canary
    and as many without it, in `jobs` processes of joblib, and one before them that shows that it can be done. `steps`:
    what `audit_steps` found, to stand beside them. `delta`, `confidence`, `seed`: as `audit_mechanism` has them.

    Claim: of each result, if the training keeps its claim, the verdict is `violation` with probability at most
        1 - confidence. Source: docs/proofs/audit.md 5 and 6; Steinke, Nasr and Jagielski 2023, theorem 5.2.
    Assumes: trainings are independent runs; the coins of the canaries are told to nobody but `train`, by its data.

    >>> def train(rows, rng):  # claims epsilon 1, and releases the sum of the rows with hardly any noise
    ...     return np.sum(rows, axis=0) + rng.normal(0, 0.1, 40)
    >>> asked = {"score": lambda model, canary: model @ canary, "canaries": list(np.eye(40)), "seed": 1}
    >>> dpl.audit_training(train, np.zeros((10, 40)), dpl.ApproxDP(1, "1e-5"), progress=False, **asked).is_refuted
    True
    """
    for field, function in (("train", train), ("score", score)):
        require_unguarded(function, field=field)
        if not callable(function):
            raise ParameterError(field, type(function).__name__, "a function")
    settings = Settings.read(trials=FEWEST_TRIALS, confidence=confidence, delta=delta, seed=seed, jobs=jobs)
    progress = flag(progress, field="progress")
    if steps is not None and not isinstance(steps, AuditResult):
        raise ParameterError("steps", type(steps).__name__, "the result of audit_steps, or None")
    many = 0 if trainings is None else decimals.whole(trainings, field="trainings", least=FEWEST_TRIALS, most=10**9)
    if not isinstance(canaries, Sequence) or isinstance(canaries, (str, bytes)):
        raise ParameterError("canaries", type(canaries).__name__, "a list of items")
    if many and not len(canaries):
        raise ParameterError("canaries", "none", "at least one, for trainings with it and without it")
    if not (len(canaries) or many or steps is not None):
        wanted = "ten canaries or more, for one training; or one canary, and trainings= for many"
        raise ParameterError("canaries, trainings", "neither", wanted)
    if len(canaries) == 1 and not many:
        wanted = f"how many to make with the one canary and without it, at least {FEWEST_TRIALS}; or ten canaries"
        raise ParameterError("trainings", trainings, wanted)
    claimed = step_claim(claim, settings.delta, of="the training claims")
    if len(canaries):
        with_canary(data, canaries[0], field="data")
    plan = None
    if len(canaries) and not (many and len(canaries) == 1):
        plan = OneRun.planned(len(canaries), claimed, alpha=settings.alpha)
        if progress:
            print(plan.words, file=sys.stderr)
    return TrainingAudit(
        claim=claimed,
        steps=steps,
        one_run=None if plan is None else _one_run(plan, train, data, score, canaries, settings, shown=progress),
        trainings=_many(train, data, claimed, score, canaries[0], settings, many, shown=progress) if many else None,
        announced=None if plan is None else plan.words,
    )


def _one_run(
    plan: OneRun,
    train: Callable[[Any, np.random.Generator], Any],
    data: object,
    score: Callable[[Any, Any], float],
    canaries: Sequence[object],
    settings: Settings,
    *,
    shown: bool,
) -> AuditResult:
    started = time.perf_counter()
    coins, noise = (np.random.default_rng(one) for one in np.random.SeedSequence(settings.seed).spawn(2))
    included = coins.random(len(canaries)) < 0.5
    for canary, is_in in zip(canaries, included, strict=True):
        data = with_canary(data, canary, field="data") if is_in else data
    with bar("training with canaries", None, shown=shown):
        scores = _scores(train, data, noise, score, canaries)
    return AuditResult(
        mechanism=named(name_of(train), {"canaries": plan.canaries, "guesses": plan.guesses}),
        claim=plan.claim.guarantee,
        target=plan.claim.target,
        relation=Relation.ADD_REMOVE,
        confidence=settings.confidence,
        evidence=plan.evidence(scores, included),
        pair="data with each canary and without it",
        seconds=time.perf_counter() - started,
        seed=settings.seed,
        schedule=CANARIES,
    )


def _scores(
    train: Callable[[Any, np.random.Generator], Any],
    data: object,
    rng: np.random.Generator,
    score: Callable[[Any, Any], float],
    canaries: Sequence[object],
) -> list[float]:
    """Of one training, the score of each canary. ParameterError where a function raises, whatever the code of others
    does, or a score is no number."""
    try:
        model = train(data, rng)
    except Exception as error:
        raise ParameterError("train", type(error).__name__, "a function that trains on the data") from error
    try:
        return [float(score(model, canary)) for canary in canaries]
    except Exception as error:
        raise ParameterError("score", type(error).__name__, "a function that gives a number") from error


def _in_words(claim: Guarantee) -> str:
    return f"a privacy curve, at {len(claim.points)} points" if isinstance(claim, PrivacyCurve) else words_of(claim)


def _after(result: AuditResult) -> str:
    return f" after {result.trials:,} steps" if result.schedule == STEPS else ""


@dataclass(frozen=True, slots=True)
class _Scored:
    """A training and its score (a class, so that it travels to other processes)."""

    train: Callable[[Any, np.random.Generator], Any]
    score: Callable[[Any, Any], float]
    canary: object

    @property
    def kind(self) -> str:
        return name_of(self.train)

    @property
    def __wrapped__(self) -> Callable[[Any, np.random.Generator], Any]:
        return self.train

    def __call__(self, data: Any, rng: np.random.Generator) -> float:
        return float(self.score(self.train(data, rng), self.canary))


def _many(
    train: Callable[[Any, np.random.Generator], Any],
    data: object,
    claimed: StepClaim,
    score: Callable[[Any, Any], float],
    canary: object,
    settings: Settings,
    trainings: int,
    *,
    shown: bool,
) -> AuditResult:
    tried = np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(2,)))
    _scores(train, data, tried, score, [canary])  # in the runs of an audit what raises is an outcome
    return audit_mechanism(
        _Scored(train, score, canary),
        with_canary(data, canary),
        data,
        claimed.guarantee,
        trials=trainings,
        confidence=settings.confidence,
        delta=settings.delta,
        seed=settings.seed,
        jobs=settings.jobs,
        progress=shown,
    )
