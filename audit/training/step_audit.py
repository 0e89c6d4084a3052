"""Audits of a training step by step: at each step's own state, its noisy gradient with one canary and without it.

A fault shows inside one training: half the noise at multiplier 1 after some thirty steps, where a test of whole
trainings needs as many trainings.

>>> import numpy as np
>>> from dpledger.accounting.composition import GaussianLaw
>>> def gradient(weights, rows, rng):  # claims noise of 1 clip norm, adds half of it
...     return np.clip(rows - weights, -1, 1).sum() + rng.normal(0, 0.5)
>>> states = ((step / 100, np.zeros(20)) for step in range(400))
>>> print(audit_steps(gradient, states, 5.0, GaussianLaw(1), seed=1).verdict)
violation
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.results.verdict import STEPS, AuditResult
from dpledger.audit.tested.subjects import FEWEST_TRIALS, Settings, named
from dpledger.audit.training.step_claims import StepClaim, step_claim
from dpledger.audit.training.step_subjects import AnySteps, AuditedSteps, OwnSteps, TakenStep
from dpledger.audit.training.step_wealth import StepWealth
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import MechanismNote
from dpledger.mechanisms.training import DPSGD
from dpledger.progress import track
from dpledger.relations import Relation
from dpledger.schema import Plain, flag

__all__ = ["StepRecord", "audit_steps", "step_record"]

MOST_STEPS = 10**9
MOST_REHEARSALS = 10_000
MOST_FAILED = 0.1  # of the steps may lack both gradients; an audit in which more do is blind
MOST_CAUSES = 3
ERRORS = 3  # standard errors, within which a canary does not show


def audit_steps(
    gradient: DPSGD | Callable[[Any, Any, np.random.Generator], Any],
    states: Iterable[tuple[Any, Any]],
    canary: object,
    claim: Guarantee | Composition | None = None,
    *,
    gradients: Callable[[Any, Any], npt.ArrayLike] | None = None,
    space: Literal["records", "gradients"] = "records",
    direction: npt.ArrayLike | Callable[[Any], npt.ArrayLike] | None = None,
    rehearsals: int = 8,
    steps: int = 10_000,
    stop_at_violation: bool = True,
    confidence: Number = "0.95",
    delta: Number | None = None,
    seed: int | None = None,
    progress: bool = True,
) -> AuditResult:
    """Audit a training at its own states: each step's noisy gradient with `canary` in the batch, and without it.

    `gradient`: a function gradient(state, batch, rng) -> numbers, the noisy gradient as the training releases it; or a
    `DPSGD`, whose own step is run, with `gradients(state, items)`: one gradient for each item, as `private_sgd` takes
    them. `states`: pairs (state, batch), in the order of the training, as many as there are steps; they may be made as
    the audit goes. Which state comes next may depend on all steps before, and on what they released.
    `canary`: one more item of a batch, an extreme one; with space="gradients", of a `DPSGD`, its gradient.
    `claim`: what one step claims of a batch with and without one item: a guarantee, or a law, like `GaussianLaw(1)`.
    None, of a `DPSGD`: Gaussian noise at its multiplier. The canary is in the batch for certain, unless the claim is
    the law of a sample (`PoissonSampled`): then steps are at the rate of the plan, and `states` gives all items and not
    a batch; a function draws its batch itself. A guarantee is of the noise alone: for a sample, give its law.

    `direction`: of a function, along which the canary moves its gradient: a vector, or a function of the state; None:
    as earlier steps suggest, which needs many steps where there are many numbers. `rehearsals`: of a function, calls at
    each step that count for nothing: they say where its gradient lies without the canary. `steps`: the most steps.
    `stop_at_violation`, `confidence`, `delta`, `seed`: as `audit_mechanism` has them.

    Its gradients are drawn beside the training, and charged to nobody: audit on made-up or public rows.
    It says nothing of what no step shows: of the sampler, where the canary is in each batch, and of the accountant.
    `power` says what this many steps would have refuted; `mu_lower` bounds the noise of a Gaussian step.

    Claim: if every step keeps the claim, whatever the steps before it gave, the verdict is `violation` with probability
        at most 1 - confidence, whenever the audit ends. Source: docs/proofs/audit.md 8.
    Assumes: the noise of a step is fresh, given the steps before it, and that of both gradients of one step is apart,
        but where rehearsals show otherwise (the result says so).

    >>> def gradient(weights, rows, rng):  # claims noise of 1 clip norm, adds half of it
    ...     return np.clip(rows - weights, -1, 1).sum() + rng.normal(0, 0.5)
    >>> states = [(step / 100, np.zeros(20)) for step in range(400)]
    >>> dpl.audit_steps(gradient, states, 5.0, dpl.GaussianLaw(1), seed=1).verdict
    'violation'
    """
    settings = Settings.read(trials=FEWEST_TRIALS, confidence=confidence, delta=delta, seed=seed, jobs=1)
    stop, progress = flag(stop_at_violation, field="stop_at_violation"), flag(progress, field="progress")
    most = decimals.whole(steps, field="steps", least=1, most=MOST_STEPS)
    given = None if claim is None else step_claim(claim, settings.delta)
    certain = given is None or not given.of_sample
    subject = _subject(
        gradient, gradients, canary, space, direction, rehearsals, settings.seed, canary_is_certain=certain
    )
    claimed = step_claim(subject.own_claim, settings.delta) if given is None else given
    record: StepRecord | None = None
    for step, pair in enumerate(track(_pairs(states, most), "auditing steps", shown=progress)):
        taken = subject.taken(step, *pair)
        if record is None:
            record = StepRecord(subject.note, claimed, settings)
        if subject.paired:
            record.pair(subject.told)
        record.add(taken)
        if stop and record.is_refuted:
            break
    if record is None:
        raise ParameterError("states", "none", "a pair (state, batch) for each step")
    return record.result()


def _pairs(states: Iterable[tuple[Any, Any]], most: int) -> Iterable[tuple[Any, Any]]:
    try:
        own = iter(states)
    except Exception:
        raise ParameterError("states", type(states).__name__, "pairs (state, batch), one for each step") from None
    for _, given in zip(range(most), own, strict=False):
        if not isinstance(given, tuple) or len(given) != 2:
            raise ParameterError("states", type(given).__name__, "pairs (state, batch)")
        yield given


def _subject(
    gradient: object,
    gradients: Callable[[Any, Any], npt.ArrayLike] | None,
    canary: object,
    space: str,
    direction: npt.ArrayLike | Callable[[Any], npt.ArrayLike] | None,
    rehearsals: int,
    seed: int,
    *,
    canary_is_certain: bool,
) -> AuditedSteps:
    if not isinstance(space, str) or space not in ("records", "gradients"):
        raise ParameterError("space", space, "records or gradients")
    rehearsals = decimals.whole(rehearsals, field="rehearsals", least=2, most=MOST_REHEARSALS)
    if isinstance(gradient, DPSGD):
        if not callable(gradients):
            raise ParameterError("gradients", gradients, "a function gradients(state, items), beside a DPSGD")
        if direction is not None:
            raise ParameterError("direction", "one", "None: that of a DPSGD is known")
        return OwnSteps(
            plan=gradient,
            gradients=gradients,
            canary=canary,
            in_gradients=space == "gradients",
            given_batch=canary_is_certain,
            seed=seed,
        )
    if not callable(gradient):
        raise ParameterError("gradient", type(gradient).__name__, "a function gradient(state, batch, rng), or a DPSGD")
    if gradients is not None:
        raise ParameterError("gradients", "a function", "None: that is for a DPSGD")
    if space == "gradients":
        raise ParameterError("space", space, "records: only a DPSGD is given the gradient of a canary")
    return AnySteps(gradient=gradient, canary=canary, direction=direction, rehearsals=rehearsals, seed=seed)


def step_record(
    kind: str,
    parameters: Mapping[str, Plain],
    claim: object,
    *,
    confidence: Number,
    delta: Number | None,
    seed: int,
    library: str,
) -> StepRecord:
    """The audit of steps that somebody else takes: of what `kind` and `parameters` name, which `library` runs."""
    settings = Settings.read(trials=FEWEST_TRIALS, confidence=confidence, delta=delta, seed=seed, jobs=1)
    note = replace(named(kind, parameters), library=library)
    return StepRecord(note, step_claim(claim, settings.delta), settings)


class StepRecord:
    """The audit of one training while it runs: `add` a pair for each step, and take the `result` at any time."""

    def __init__(
        self,
        note: MechanismNote,
        claim: StepClaim,
        settings: Settings,
    ) -> None:
        self._note, self._claim, self._settings = note, claim, settings
        self._told: tuple[str, ...] = ()
        self._wealth = StepWealth(claim, settings.alpha)
        self._started = time.perf_counter()
        self._causes: Counter[str] = Counter()
        self._failed = self._failed_alike = 0  # steps
        self._moved, self._measured = 0.0, 0  # in deviations, added up over steps that gave two numbers

    @property
    def is_refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self._wealth.fell_after is not None

    def pair(self, told: tuple[str, ...]) -> None:
        """From the next step on the noise of both gradients may be one, for what was `told`."""
        self._told = told
        self._wealth.pair()

    def add(self, taken: TakenStep) -> None:
        """One step: where its noisy gradient lies along the canary, with it and without it, in deviations of the noise,
        by a measure that was fixed before the noise was drawn."""
        self._wealth.add(taken.left, taken.right)
        if math.isfinite(apart := taken.left - taken.right):
            self._moved += apart
            self._measured += 1
        causes = {why for why in taken.failed if why is not None}
        self._causes.update(causes)
        self._failed += bool(causes)
        self._failed_alike += None not in taken.failed

    def result(self) -> AuditResult:
        """What the steps so far say. ParameterError before the first one."""
        if not self._wealth.steps:
            raise ParameterError("states", "no steps", "at least one step")
        evidence = self._wealth.evidence()
        if evidence.fell_after is None and evidence.blind is None:
            evidence = replace(evidence, blind=self._blind() or self._unmoved())
        return AuditResult(
            mechanism=self._note,
            claim=self._claim.guarantee,
            target=self._claim.target,
            relation=Relation.ADD_REMOVE,
            confidence=self._settings.confidence,
            evidence=evidence,
            pair="the batch of each step, with a canary and without it",
            seconds=time.perf_counter() - self._started,
            seed=self._settings.seed,
            told=(*self._told, *self._failures()),
            schedule=STEPS,
        )

    def _failures(self) -> tuple[str, ...]:
        if not self._failed:
            return ()
        causes = ", ".join(f"{why} in {steps:,}" for why, steps in self._causes.most_common(MOST_CAUSES))
        return (f"a gradient raised, or was not finite, in {self._failed:,} of {self._wealth.steps:,} steps: {causes}",)

    def _blind(self) -> str | None:
        """Why nothing follows where both gradients of many steps are missing."""
        if self._failed_alike <= MOST_FAILED * self._wealth.steps:
            return None
        return (
            f"the gradients with the canary and without it both raised, or were not finite, in {self._failed_alike:,} "
            f"of {self._wealth.steps:,} steps"
        )

    def _unmoved(self) -> str | None:
        """Why nothing could be found where the canary does not move the gradient as far as the claim lets it."""
        law = self._claim.law
        if law is None or not self._measured:
            return None
        mean, error = self._moved / self._measured, math.sqrt(2 / self._measured)
        allowed = law.mu * law.rate
        if mean > ERRORS * error or allowed < 2 * ERRORS * error:
            return None
        return (
            f"in {self._measured:,} steps the canary moves the gradient by {mean:.2g} deviations of its noise in the "
            f"mean, give or take {error:.2g}, and the claim lets it move by {allowed:.2g}: the canary has no effect, "
            "or there is far more noise than is claimed. Take a canary whose gradient is as long as the clip norm"
        )
