"""What is audited: how it is run, what it is called, what it claims."""

from __future__ import annotations

import functools
import inspect
import platform
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.sampling import Batched, Releases, Sampler, Samples, Single, Unaided
from dpledger.audit.strata import ExPostClaim, Stated
from dpledger.audit.tested.claims import AuditTarget, target
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.charging.guards import Guarded, as_kind, name_of
from dpledger.ledger.entries.members import LIBRARY, MechanismNote
from dpledger.mechanisms.protocol import Inspects, Mechanism, Sampled
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, validated

__all__ = [
    "FEWEST_TRIALS",
    "Settings",
    "Subject",
    "aim_at",
    "claim_of",
    "code_digest",
    "name_of",
    "named",
    "require_unguarded",
    "seconds_of",
    "subject_of",
]

_CLAIM: TypeAdapter[Guarantee] = TypeAdapter(Guarantee)
FEWEST_TRIALS = 100
MOST_TRIALS = 10**12
ALL_CORES = -1  # of `jobs`, as joblib says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
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
    def read(cls, *, trials: int, confidence: Number, delta: Number | None, seed: int | None, jobs: int) -> Settings:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """How to run it, what to call it, what it claims, and of a mechanism what it is made of. `own`: whether the claim
    is its own."""

    runner: Sampler
    note: MechanismNote
    claim: Guarantee | ExPostClaim
    parts: Composition | None = None
    own: bool = False

    def aim(self, relation: Relation, delta: Decimal | None) -> AuditTarget | Stated:
        """What is tested."""
        aim = aim_at(self.claim, self.parts if self.own else None, relation, delta)
        if not isinstance(aim, Stated):
            return aim
        return replace(aim, batched=isinstance(self.runner, Batched), parts=self.parts)

    def identity(self, mechanism: object, **settings: object) -> dict[str, str]:
        """Everything that the runs of an audit depend on, by name, in words that hold no data: itself, the versions of
        what computes, and `settings`."""
        claim = self.claim
        loss = claim.loss if isinstance(claim, ExPostClaim) else None
        named = {
            "mechanism": (self.note.kind, dict(self.note.parameters)),
            "code": code_digest(mechanism),
            "claim": (claim.delta, claim.cap, code_digest(loss)) if isinstance(claim, ExPostClaim) else claim,
            "version": (LIBRARY, np.__version__, platform.python_version(), platform.machine()),
        }
        return {name: str(value) for name, value in (named | settings).items()}

    def inspect(self, left: object, right: object) -> None:
        """ParameterError where a mechanism says, from type and shape, that the data are not for it."""
        if isinstance(self.runner, Samples | Releases) and isinstance(self.runner.mechanism, Inspects):
            self.runner.mechanism.inspect(left)
            self.runner.mechanism.inspect(right)


def claim_of(claim: object) -> Guarantee | ExPostClaim:
    """A claim that was given, checked."""
    if isinstance(claim, ExPostClaim):
        return claim
    if claim is None:
        raise ParameterError("claim", claim, "a guarantee, like PureDP(1): a plain function has none of its own")
    if not hasattr(claim, "kind") and not isinstance(claim, Mapping):
        raise ParameterError("claim", claim, "a guarantee, like PureDP(1)")
    return validated(_CLAIM, claim, "claim")


def aim_at(
    claim: Guarantee | ExPostClaim, parts: Composition | None, relation: Relation, delta: Decimal | None
) -> AuditTarget | Stated:
    """What is tested of a claim."""
    if not isinstance(claim, ExPostClaim):
        return target(claim, parts, relation, delta)
    if delta is not None:
        raise ParameterError("delta", str(delta), "None: an ex-post claim holds at its own delta")
    return Stated(claim, relation)


def subject_of(
    mechanism: object, claim: Guarantee | ExPostClaim | None, relation: Relation, unit: Unit, *, batched: bool
) -> Subject:
    """A mechanism, as it is fixed to `relation` and `unit`, or a function."""
    require_unguarded(mechanism)
    if isinstance(mechanism, Mechanism) and not isinstance(mechanism, type):
        mine = mechanism.under(relation, unit)
        needs_record = isinstance(claim, ExPostClaim) and claim.loss is None
        runner: Sampler = Samples(mine) if isinstance(mine, Sampled) and not needs_record else Releases(mine)
        return Subject(
            runner=runner,
            note=named(mine.kind, mine.parameters()),
            claim=mine.claim() if claim is None else claim_of(claim),
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
    return Subject(runner=call, note=named(name_of(mechanism), _own_parameters(mechanism)), claim=claim_of(claim))


def require_unguarded(code: object, *, field: str = "mechanism") -> None:
    """ParameterError for code that is behind a scope: each of its runs would be charged."""
    if isinstance(code, Guarded):
        expected = "the function itself, as it was given to scope.guard: each call of what that returned is charged"
        raise ParameterError(field, "guarded code", expected)


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


def _own_parameters(function: object) -> Mapping[str, Plain]:
    parameters = getattr(function, "parameters", None)
    found = parameters() if callable(parameters) else {}
    return found if isinstance(found, Mapping) else {}


def named(kind: str, parameters: Mapping[str, Plain]) -> MechanismNote:
    """What the ledger calls it: `kind` as a name in the ledger's alphabet."""
    return MechanismNote(kind=as_kind(kind), parameters=parameters, library=LIBRARY)


def seconds_of(given: Number | None, field: str) -> float | None:
    """A time that was given, in seconds."""
    if given is None:
        return None
    seconds = decimals.read(given, field=field)
    if not 0 < seconds < Decimal("1e9"):
        raise ParameterError(field, str(seconds), "seconds: a number above 0 and below 10^9")
    return float(seconds)


def code_digest(mechanism: object) -> str | None:
    """The SHA-256 of the source file that a function, or the class of a mechanism, stands in; None where there is none.
    What it imports is not in it. Of what wraps a function (`__wrapped__`, a partial) it is that of the function."""
    try:
        while isinstance(mechanism, functools.partial):
            mechanism = mechanism.func
        code = inspect.unwrap(mechanism) if callable(mechanism) else mechanism
        file = inspect.getsourcefile(code if inspect.isroutine(code) else type(code))
    except (TypeError, ValueError):  # built in, written at a prompt, or wrapped in itself
        return None
    path = None if file is None else Path(file)
    return sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None
