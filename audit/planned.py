"""An audit before it is run: said beforehand in a ledger, run, and run again from its entry.

>>> audit = Audit(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1)
>>> audit.body().trials, audit.run().verdict
(2000, 'not_refuted')
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.experiment import audit_mechanism
from dpledger.audit.results.verdict import CANARIES, SCHEDULE, STEPS, AuditResult
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.tested.neighbours import pair_digest
from dpledger.audit.tested.subjects import FEWEST_TRIALS, Settings, code_digest, subject_of
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Audited, Intended
from dpledger.ledger.entries.members import MechanismNote
from dpledger.mechanisms.protocol import Mechanism
from dpledger.relations import Relation, Unit
from dpledger.schema import flag, plain

__all__ = ["Audit", "differences"]

OF_TRAININGS = {CANARIES: "one training with canaries", STEPS: "the steps of a training"}
SAME = Fraction(1, 10**6)
COMPARED = (
    "verdict", "epsilon_lower", "delta", "refuted", "together", "e_value", "blind", "event", "trials_left",
    "trials_right", "claim", "confidence", "method", "schedule", "arms",
)  # fmt: skip
"""Members of an entry that the same audit of the same code gives again, those that matter most first."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Audit:
    """An audit that can be run: the arguments of `audit_mechanism`, whose docstring says what they are, checked before
    anything runs. A seed that is not given is drawn, once: `run` gives the same result each time.

    `Ledger.intend` records beforehand that it will be made; `Audit.again` is the audit of an entry.

    >>> audit = dpl.Audit(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1)
    >>> audit.run().verdict
    'not_refuted'
    """

    mechanism: Mechanism[Any, Any] | Callable[..., Any]
    left: object
    right: object
    claim: Guarantee | ExPostClaim | None = None
    _: KW_ONLY
    trials: int = 1_000_000
    confidence: Number = "0.95"
    delta: Number | None = None
    relation: Relation | str = Relation.ADD_REMOVE
    unit: Unit | str = "record"
    batched: bool = False
    stop_at_violation: bool = True
    each_seconds: Number | None = None
    texts: bool = False
    floats: Literal["numbers", "bits"] = "numbers"
    made_up: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbits(53))
        self.body()

    def run(
        self,
        *,
        seconds: Number | None = None,
        jobs: int = 1,
        progress: bool = True,
        resume: str | os.PathLike[str] | None = None,
    ) -> AuditResult:
        """The result. Raises as `audit_mechanism` does. With `seconds` it depends on the machine."""
        return audit_mechanism(
            self.mechanism,
            self.left,
            self.right,
            self.claim,
            trials=self.trials,
            confidence=self.confidence,
            delta=self.delta,
            relation=self.relation,
            unit=self.unit,
            batched=self.batched,
            stop_at_violation=self.stop_at_violation,
            each_seconds=self.each_seconds,
            texts=self.texts,
            floats=self.floats,
            made_up=self.made_up,
            seed=self.seed,
            seconds=seconds,
            jobs=jobs,
            progress=progress,
            resume=resume,
        )

    def body(self) -> Intended:
        """The audit as a ledger says it beforehand: without its data, with the digest of the code and, of data that are
        `made_up`, of the pair. ParameterError for what cannot be run."""
        settings = Settings.read(
            trials=self.trials, confidence=self.confidence, delta=self.delta, seed=self.seed, jobs=1
        )
        relation = Relation.read(self.relation)
        batched = flag(self.batched, field="batched")
        subject = subject_of(self.mechanism, self.claim, relation, Unit.read(self.unit), batched=batched)
        return Intended(
            mechanism=subject.note,
            claim=None if isinstance(subject.claim, ExPostClaim) else subject.claim,
            relation=relation,
            trials=settings.trials,
            confidence=settings.confidence,
            seed=settings.seed,
            schedule=SCHEDULE,
            code=code_digest(self.mechanism),
            pair=pair_digest(self.left, self.right) if flag(self.made_up, field="made_up") else None,
        )

    @classmethod
    def again(
        cls,
        entry: Audited,
        mechanism: Mechanism[Any, Any] | Callable[..., Any],
        left: object,
        right: object,
        *,
        loss: ExPostClaim | None = None,
        unit: Unit | str = "record",
        batched: bool = False,
    ) -> Audit:
        """The audit of an entry, to be run again. `mechanism`, `left`, `right`, `batched`: what it was given, which no
        entry holds; `loss`: the ex-post claim, if it was one, of which an entry names the largest loss; `unit`: that of
        its scope. Everything else is as by default. ParameterError for an entry without a seed, and for one whose two
        sides have not as many runs: outputs that somebody collected."""
        if not isinstance(entry, Audited):
            raise ParameterError("entry", type(entry).__name__, "what an entry `audited` holds: entry.body")
        if entry.seed is None or entry.trials_left != entry.trials_right:
            raise ParameterError("entry", "an audit of outputs that were collected", "one that ran a mechanism")
        if entry.schedule in (CANARIES, STEPS):
            raise ParameterError("entry", f"an audit of {OF_TRAININGS[entry.schedule]}", "one that ran a mechanism")
        own = _own_claim(mechanism, entry.relation, Unit.read(unit))
        return cls(
            mechanism,
            left,
            right,
            loss if loss is not None else None if own == entry.claim else entry.claim,
            trials=max(entry.trials_left, FEWEST_TRIALS),
            confidence=entry.confidence,
            delta=None if loss is not None else entry.delta,
            relation=entry.relation,
            unit=unit,
            batched=batched,
            seed=entry.seed,
        )

    def changes(self, entry: Audited) -> tuple[str, ...]:
        """What is known to be another than when `entry` was recorded, in words; its result may then be another, too."""
        mechanism = self.body().mechanism
        pairs = (
            ("the mechanism is", _named(entry.mechanism), _named(mechanism)),
            ("the library is", entry.mechanism.library, mechanism.library),
            ("the code is", entry.code, code_digest(self.mechanism) if entry.code else None),
            ("the pair is", entry.pair, pair_digest(self.left, self.right) if entry.pair else None),
        )
        return tuple(f"{what} another than was recorded" for what, old, new in pairs if old != new)

    def __repr__(self) -> str:
        said = self.body()
        return f"<Audit of {said.mechanism.kind}: {said.trials:,} runs a side, seed {said.seed}>"


def _own_claim(mechanism: object, relation: Relation, unit: Unit) -> object:
    """What a mechanism claims itself: it was tested with its whole curve, as it is where no claim is named."""
    if not isinstance(mechanism, Mechanism) or isinstance(mechanism, type):
        return None
    return mechanism.under(relation, unit).claim()


def differences(before: Audited, now: Audited) -> tuple[str, ...]:
    """What two entries of one audit do not have in common, in words; none: the same result.

    Bounds and e-values that agree to 10^-6 are the same: on another processor the elementary functions of numpy and the
    trees of scikit-learn may end in other digits."""
    pairs = ((name, getattr(before, name), getattr(now, name)) for name in COMPARED)
    return tuple(f"{name} was {_said(old)}, is {_said(new)}" for name, old, new in pairs if not _agree(old, new))


def _agree(old: object, new: object) -> bool:
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return abs(Fraction(old) - Fraction(new)) <= SAME * abs(Fraction(old))
    return old == new


def _named(mechanism: MechanismNote) -> tuple[object, ...]:
    return mechanism.kind, mechanism.parameters


def _said(value: object) -> str:
    if value is None:
        return "absent"
    said = plain(value)
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
