"""How one step of a training is run with its canary and without it, and where its noisy gradient lies along the canary.

What a gradient is held against, a direction, a centre and a deviation, is fixed before its noise is drawn: it comes
from earlier steps, from the state and the batch, and from rehearsals that count for nothing. If it is wrong, the audit
sees less; it never accuses for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, GaussianLaw
from dpledger.audit.outcomes import Floats
from dpledger.audit.sampling.seeds import Side, right_first
from dpledger.audit.tested.subjects import name_of, named
from dpledger.audit.training.canaries import with_canary
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import MechanismNote
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.training import DPSGD
from dpledger.mechanisms.training.gradients import BrokenShape
from dpledger.mechanisms.training.training_run import StepNumbers
from dpledger.mechanisms.units import Units
from dpledger.relations import Relation, Unit

__all__ = ["NOT_FINITE", "AnySteps", "AuditedSteps", "HeldAlong", "OwnSteps", "TakenStep"]

FIRST = 32  # rehearsals of the first step, at least: they say how large the noise is
FEWEST = 4  # earlier steps that say where the next one lies
UNNOISED = (
    "gradients of one state and batch are the same for every generator: there is no noise, or the code sets its own "
    "seed; the two gradients of a step count as dependent"
)
NOT_FINITE = "NaN or infinite"
SAME = 1e-9  # of the deviation: what rounding leaves of noise that is none


@dataclass(frozen=True, slots=True)
class HeldAlong:
    """What a gradient is held against: `direction`, of length 1, float64[d]; where it lies along that without the
    canary (`centre`), and the `deviation` of its noise there."""

    direction: Floats
    centre: float
    deviation: float

    def of(self, gradient: Floats) -> float:
        """Where a noisy gradient lies, in deviations; NaN of one that is no number, or of another shape."""
        usable = gradient.shape == self.direction.shape and np.isfinite(gradient).all()
        if not usable or not math.isfinite(self.centre):
            return math.nan
        apart = float(gradient @ self.direction) - self.centre
        if self.deviation > 0:
            return apart / self.deviation
        return 0.0 if abs(apart) <= SAME * max(1.0, abs(self.centre)) else math.copysign(math.inf, apart)


class TakenStep(NamedTuple):
    """Where the noisy gradients of a step lie, with the canary (`left`) and without it; `failed`: of each, why it is no
    finite number, None where it is one."""

    left: float
    right: float
    failed: tuple[str | None, str | None] = (None, None)


class AuditedSteps(Protocol):
    """What is audited, one step at a time."""

    @property
    def note(self) -> MechanismNote: ...
    @property
    def own_claim(self) -> Composition | None:
        """What a step claims, where nobody says otherwise."""
        ...

    @property
    def told(self) -> tuple[str, ...]: ...
    @property
    def paired(self) -> bool:
        """Whether the noise of both gradients of a step may be one: so far, and of every step from then on."""
        ...

    def taken(self, step: int, state: Any, batch: Any) -> TakenStep:
        """Where the noisy gradients of a step lie, with the canary and without it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSteps:
    """Steps of a `DPSGD`: each is one `ask` of a run that is opened for it, on the batch with the canary and without
    it. `given_batch`: the canary is in the batch for certain; else batches are samples of what `states` gives, at the
    rate of the plan. `in_gradients`: the canary is a gradient, and no record."""

    plan: DPSGD
    gradients: Callable[[Any, Any], npt.ArrayLike]
    canary: Any
    in_gradients: bool
    given_batch: bool
    seed: int
    told: tuple[str, ...] = ()
    paired: bool = False

    @property
    def note(self) -> MechanismNote:
        return named(self.plan.kind, self.plan.parameters())

    @property
    def own_claim(self) -> Composition:
        return GaussianLaw(self.plan.noise_multiplier)

    @property
    def one(self) -> DPSGD:
        """The plan of one step."""
        rate = Decimal(1) if self.given_batch else self.plan.rate
        return replace(self.plan, steps=1, rate=rate).under(Relation.ADD_REMOVE, self.plan.unit or Unit())

    def taken(self, step: int, state: Any, batch: Any) -> TakenStep:
        try:
            return self._taken(step, state, batch)
        except BrokenShape as error:
            wanted = f"real numbers of shape (rows, {self.plan.dimension}), one row a unit"
            raise ParameterError("gradients", str(error), wanted) from None

    def _taken(self, step: int, state: Any, batch: Any) -> TakenStep:
        plan = self.one
        held = self._along(plan.one_step, state, batch)
        found: dict[Side, float] = {}
        for side in _order(self.seed, step):
            data, gradients = self._of(side, state, batch)
            run = plan.open(data, entropy=seeded(self.seed, step, int(side)))
            found[side] = held.of(run.ask(gradients))
        return TakenStep(found[Side.LEFT], found[Side.RIGHT])

    def _of(self, side: Side, state: Any, batch: Any) -> tuple[Any, Callable[[Any], npt.ArrayLike]]:
        """The items of a step, and the function that is asked for their gradients."""
        if side is Side.RIGHT:
            return batch, lambda items: self.gradients(state, items)
        if not self.in_gradients:
            return with_canary(batch, self.canary), lambda items: self.gradients(state, items)
        units = Units.of(batch)

        def rows(positions: npt.NDArray[np.int64]) -> Floats:
            theirs = positions[positions < len(units)]
            own = np.tile(np.asarray(self.canary, dtype=np.float64), (len(positions) - len(theirs), 1))
            return np.concatenate([np.asarray(self.gradients(state, units.take(theirs)), dtype=np.float64), own])

        return np.arange(len(units) + 1), rows

    def _along(self, step: StepNumbers, state: Any, batch: Any) -> HeldAlong:
        units, divisor = Units.of(batch), float(step.expected_batch_size)
        rows = step.rows(lambda items: self.gradients(state, items), units, np.arange(len(units)))
        data, gradients = self._of(Side.LEFT, state, batch)
        own = step.rows(gradients, Units.of(data), np.array([len(units)]))
        direction = _unit(np.asarray(own[0], dtype=np.float64))
        clipped = step.clipped(rows).astype(np.float64) * (float(step.grid) * float(step.rate) / divisor)
        return HeldAlong(direction, float(clipped @ direction), float(step.noise.sigma) / divisor)


@dataclass(slots=True, kw_only=True)
class AnySteps:
    """Steps of a function gradient(state, batch, rng). `direction`: of the canary, a vector or a function of the state;
    None: from earlier steps. `rehearsals`: calls on the batch without the canary, at each step, that say where the
    noisy gradient lies and how large its noise is."""

    gradient: Callable[[Any, Any, np.random.Generator], Any]
    canary: Any
    direction: npt.ArrayLike | Callable[[Any], npt.ArrayLike] | None
    rehearsals: int
    seed: int
    paired: bool = False
    told: tuple[str, ...] = ()
    _apart: Floats | None = None  # with the canary less without it, added up
    _squares: float = 0.0  # of rehearsals, about their mean at each step
    _freedom: int = 0
    _length: int | None = None  # of a gradient at the first step
    _why: str = ""  # no direction is learnt from the first step
    _earlier: list[float] = field(default_factory=list)  # without the canary, along the directions of their steps

    @property
    def note(self) -> MechanismNote:
        return named(name_of(self.gradient), {})

    @property
    def own_claim(self) -> None:
        return None

    def taken(self, step: int, state: Any, batch: Any) -> TakenStep:
        data = {Side.LEFT: with_canary(batch, self.canary), Side.RIGHT: batch}
        held = self._along(step, state, data)
        drawn = {side: self._tried(state, data[side], step, int(side)) for side in _order(self.seed, step)}
        (left, why_left), (right, why_right) = drawn[Side.LEFT], drawn[Side.RIGHT]
        if self.direction is None:
            self._learn(left, right)
        if self.paired and right.shape == held.direction.shape:
            self._earlier.append(float(right @ held.direction))
        return TakenStep(held.of(left), held.of(right), (why_left, why_right))

    def _along(self, step: int, state: Any, data: dict[Side, Any]) -> HeldAlong:
        if self.paired:  # a rehearsal would show the noise of the step itself
            return self._as_earlier(self._directed(state))
        tried = self._rehearsed(step, state, data[Side.RIGHT])
        if not self._freedom:
            self._begin(step, state, data, tried)
        elif _all_alike(tried):
            self.paired, self.told = True, (f"from step {step + 1:,} on: {UNNOISED}",)
        direction = self._directed(state)
        if self.paired:
            return HeldAlong(direction, math.nan, math.nan)
        lies = np.array([float(one @ direction) for one in tried if one.shape == direction.shape])
        lies = lies[np.isfinite(lies)]
        if lies.size < 2:
            return HeldAlong(direction, math.nan, math.nan)
        self._squares += float(((lies - lies.mean()) ** 2).sum())
        self._freedom += lies.size - 1
        return HeldAlong(direction, float(lies.mean()), math.sqrt(self._squares / self._freedom))

    def _rehearsed(self, step: int, state: Any, batch: Any) -> list[Floats]:
        """Rehearsals of a step: more where they come out alike, which a few may by luck."""
        count = self.rehearsals if self._freedom else max(FIRST, self.rehearsals)
        tried = [self._drawn(state, batch, step, 2 + one) for one in range(count)]
        while len(tried) < FIRST and _all_alike(tried):
            tried.append(self._drawn(state, batch, step, 2 + len(tried)))
        return tried

    def _as_earlier(self, direction: Floats) -> HeldAlong:
        """By what earlier steps gave without the canary."""
        lies = np.array([one for one in self._earlier if math.isfinite(one)])
        if lies.size < FEWEST:
            return HeldAlong(direction, math.nan, math.nan)
        return HeldAlong(direction, float(lies.mean()), float(lies.std(ddof=1)))

    def _begin(self, step: int, state: Any, data: dict[Side, Any], tried: list[Floats]) -> None:
        """What the first step shows: whether the function can be called, whether its noise is its own, and, where no
        direction was given, about which way the canary moves it."""
        if not all(np.isfinite(one).all() and one.shape == tried[0].shape for one in tried):
            self._raise_its_cause(step, state, data[Side.RIGHT])
        self._length = tried[0].size
        if _all_alike(tried):
            self.paired, self.told = True, (UNNOISED,)
        if self.direction is None:
            for one, without in enumerate(tried):
                found, why = self._tried(state, data[Side.LEFT], step, 2 + len(tried) + one)
                self._why = f"with the canary {why or f'{found.size} numbers'}, without it {without.size} numbers"
                self._learn(found, without)

    def _raise_its_cause(self, step: int, state: Any, batch: Any) -> None:
        wanted = "a function gradient(state, batch, rng) whose first noisy gradients are finite, and of one shape"
        try:
            found = _vector(self.gradient(state, batch, _generator(self.seed, step, 2)))
        except Exception as error:
            raise ParameterError("gradient", type(error).__name__, wanted) from error
        raise ParameterError("gradient", f"{found.size} numbers, or such as are not finite", wanted)

    def _directed(self, state: Any) -> Floats:
        if self.direction is None:
            if self._apart is None:
                wanted = (
                    "one vector of floats for the batch, finite and of one length with the canary, too; or a direction"
                )
                raise ParameterError("gradient", self._why, wanted)
            return _unit(self._apart)
        given = self.direction(state) if callable(self.direction) else self.direction
        try:
            numbers = _vector(given)
        except Exception:  # what it is made of may raise anything
            raise ParameterError("direction", type(given).__name__, "as many numbers as a gradient has") from None
        if self._length is not None and numbers.size != self._length:
            wanted = f"{self._length}, as many as the gradient of a batch has"
            raise ParameterError("direction", f"{numbers.size} numbers", wanted)
        return _unit(numbers, "direction")

    def _learn(self, left: Floats, right: Floats) -> None:
        if left.shape == right.shape and np.isfinite(left).all() and np.isfinite(right).all():
            self._apart = left - right if self._apart is None else self._apart + left - right

    def _drawn(self, state: Any, batch: Any, step: int, draw: int) -> Floats:
        return self._tried(state, batch, step, draw)[0]

    def _tried(self, state: Any, batch: Any, step: int, draw: int) -> tuple[Floats, str | None]:
        """A noisy gradient; one NaN where the function raises, which is an outcome as any other. And why it is no
        finite number, None where it is one."""
        try:
            found = _vector(self.gradient(state, batch, _generator(self.seed, step, draw)))
        except Exception as error:
            return np.array([math.nan]), type(error).__name__
        return found, None if np.isfinite(found).all() else NOT_FINITE


def _generator(seed: int, step: int, draw: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step, draw)))


def _order(seed: int, step: int) -> tuple[Side, Side]:
    """Which side is drawn first, by a coin."""
    return (Side.RIGHT, Side.LEFT) if right_first(seed, step, 1)[0] else (Side.LEFT, Side.RIGHT)


def _all_alike(tried: list[Floats]) -> bool:
    """Whether those that are finite are several, and the same."""
    usable = [one for one in tried if np.isfinite(one).all()]
    return len(usable) > 1 and all(np.array_equal(one, usable[0]) for one in usable)


def _vector(output: Any) -> Floats:
    found = array_of(output)
    return np.asarray(output if found is None else found, dtype=np.float64).ravel()


def _unit(vector: Floats, field: str = "canary") -> Floats:
    """A direction of length 1. ParameterError for a canary whose gradient is 0, or no number: nothing would show."""
    length = float(np.linalg.norm(vector))
    if not 0 < length < math.inf:
        raise ParameterError(field, f"a gradient of length {length}", "one whose gradient is not 0, at every state")
    unit: Floats = vector / length
    return unit
