"""Before training: how many steps, which rate, how much noise, what it will be charged, and whether anything is left to
learn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, runtime_checkable

from dpledger.accounting import filters
from dpledger.accounting.certified import has_profile_price
from dpledger.accounting.composition import Composition, GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.filters import Filter, GDPFilter, ZCDPFilter
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.planning import ways as planning
from dpledger.accounting.planning.calibration import DIGITS, MOST_DIGITS, calibrate
from dpledger.accounting.planning.least import Least, least, others
from dpledger.accounting.planning.ways import Level, Levels
from dpledger.decimals import ZERO, Number, RoundsUp, read, round_up, text, whole
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError
from dpledger.relations import Relation

__all__ = [
    "PlansTraining",
    "Sizes",
    "TrainingPlan",
    "charged_plan",
    "dpsgd_plan",
    "planned",
    "signal_to_noise",
    "sizes_of",
    "training_plan",
]

MOST_STEPS = 10**12
MOST_UNITS = 10**17  # a decimal of the profile, as the rate is
MOST_ENTRIES = 2**31  # of a gradient, as in `DPSGD`
LEAST_NOISE, MOST_NOISE = Decimal("0.01"), Decimal(10**6)
SAMPLING = (
    "The budget has no delta, so each step is charged as if it used all rows; with a delta, as in "
    'ZCDP("0.1", "1e-6"), the sampling counts'
)
CLEAR, LOST = 1.0, 0.05  # ratios of the mean gradient's bound to the norm of the noise on it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """`steps` of DP-SGD at `rate` with `noise_multiplier`. `tail_delta`: how the scope is asked for it (0: priced from
    its parts); `prices`: what it is then charged, by account; `fits`: whether it is admitted. `signal_to_noise`: the
    largest norm that a mean gradient can have, over the typical norm of the noise on it. `levels`: the scope that was
    asked, and those above it, as they stood; none of a plan for a target.

    >>> plan = dpl.planning.dpsgd_plan(n_public=10_000, epochs=3, batch=100, target=dpl.ZCDP(1), dimension=10)
    >>> plan.steps, float(plan.noise_multiplier), plan.fits
    (300, 12.2475, True)
    """

    rate: Decimal
    steps: int
    noise_multiplier: RoundsUp
    expected_batch_size: Decimal
    tail_delta: Decimal
    prices: Mapping[str, str]
    fits: bool
    signal_to_noise: float
    levels: Levels = field(default=(), repr=False, compare=False)

    @property
    def others(self) -> Mapping[Decimal, Decimal | None]:
        """The noise that other ways of asking would need, by their tail_delta, to three digits; None where none does.
        Computed when it is asked for."""
        if not self.levels:
            return {}
        found = Least(self.noise_multiplier.exact, self.tail_delta)
        return others(self.levels, lambda noise: _plan(self.rate, self.steps, noise), found, most=MOST_NOISE)

    def parts(self) -> Composition:
        """What such a run is made of."""
        return _plan(self.rate, self.steps, self.noise_multiplier)

    def words(self) -> str:
        """The plan in a few sentences."""
        if self.signal_to_noise >= CLEAR:
            said = "a single step can show a direction"
        elif self.signal_to_noise >= LOST:
            said = "single steps are mostly noise; what is learnt comes from many of them"
        else:
            said = "steps are lost in noise: take larger batches, fewer parameters, or a larger budget"
        sentences = [
            f"{self.steps} steps at rate {text(self.rate)} with noise multiplier {text(self.noise_multiplier)}, "
            f"{_asked(self.tail_delta)}.",
            *(f"{_asked(way).capitalize()} it would take {_needed(noise)}." for way, noise in self.others.items()),
            f"The mean gradient is at most {self.signal_to_noise:.3g} times the noise on it: {said}.",
        ]
        if self.levels:
            sentences.append("The least noise that fits takes all that the scope has left: more noise leaves some.")
        if self.rate < 1 and _ignores_sampling(self.levels):
            sentences.insert(1, f"{SAMPLING}.")
        if not self.fits:
            sentences.insert(1, "A scope with this budget refuses it: `scope.plan_training` says what it admits.")
        return " ".join(sentences)


def _ignores_sampling(levels: Levels) -> bool:
    """Whether a sampled step costs as much as one of all rows in one of the levels: rho and mu of a sample are those of
    the whole, and without a delta there is no price of the profile."""
    return any(
        isinstance(one.filter, GDPFilter) or (isinstance(one.filter, ZCDPFilter) and not one.filter.delta_sum)
        for one in levels
    )


def _asked(tail_delta: Decimal) -> str:
    return f"asked with tail_delta={text(tail_delta)}" if tail_delta else "priced from its parts (tail_delta=0)"


def _needed(noise: Decimal | None) -> str:
    return "more noise than any" if noise is None else f"{text(noise)}"


def _plan(rate: Decimal, steps: int, noise: Decimal) -> Composition:
    return Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)


@runtime_checkable
class PlansTraining(Protocol):
    """A scope, as far as a plan needs it."""

    def plan_training(
        self, *, rate: Number, steps: int, expected_batch_size: Number, dimension: int
    ) -> TrainingPlan: ...


def training_plan(
    levels: Levels, *, rate: Number, steps: int, expected_batch_size: Number, dimension: int, digits: int = DIGITS
) -> TrainingPlan:
    """The least noise, to so many digits, with which these levels admit so many steps, by the cheapest way of asking.

    Claim: `planning.admits(levels, result.parts(), result.tail_delta)`. Raises ParameterError naming the field,
    InfeasiblePlan where no noise from 0.01 to 10^6 is admitted in any way, CannotCertify where no theorem prices such a
    run under the relation."""
    chance, planned, size, entries = _checked(rate, steps, expected_batch_size, dimension)
    found = least(
        levels,
        lambda noise: _plan(chance, planned, noise),
        within=(LEAST_NOISE, MOST_NOISE),
        digits=whole(digits, field="digits", least=1, most=MOST_DIGITS),
    )
    if found is None:
        _require_theorem(levels, _plan(chance, planned, MOST_NOISE))
        no_delta = f". {SAMPLING}" if chance < 1 and _ignores_sampling(levels) else ""
        raise InfeasiblePlan(
            f"no noise multiplier up to {MOST_NOISE} lets the scope admit {planned} steps at rate {text(chance)}: take "
            f"fewer steps, a smaller rate, or a scope with more left (see `scope.account()`). A run that is open "
            "already (see `scope.releases()`) holds its charge: go on with it under its key, with its own noise and "
            f"tail_delta{no_delta}"
        )
    plan = _told(levels, chance, planned, found.value, found.tail_delta, size, entries)
    return replace(plan, levels=levels)


def charged_plan(
    noise_multiplier: Number,
    tail_delta: Decimal,
    prices: Mapping[str, str],
    *,
    rate: Number,
    steps: int,
    expected_batch_size: Number,
    dimension: int,
) -> TrainingPlan:
    """The plan of a run that a scope admitted with this noise and these prices. ParameterError naming the field."""
    chance, planned, size, entries = _checked(rate, steps, expected_batch_size, dimension)
    noise = read(noise_multiplier, field="noise_multiplier")
    return TrainingPlan(
        rate=chance,
        steps=planned,
        noise_multiplier=RoundsUp(noise),
        expected_batch_size=size,
        tail_delta=tail_delta,
        prices=prices,
        fits=True,
        signal_to_noise=signal_to_noise(size, noise, entries),
    )


def _checked(
    rate: Number, steps: int, expected_batch_size: Number, dimension: int
) -> tuple[Decimal, int, Decimal, int]:
    chance, size = read(rate, field="rate"), read(expected_batch_size, field="expected_batch_size")
    if not 0 < chance <= 1:
        raise ParameterError("rate", chance, "a probability in (0, 1]")
    if not size > 0:
        raise ParameterError("expected_batch_size", size, "a number above 0")
    planned = whole(steps, field="steps", least=1, most=MOST_STEPS)
    return chance, planned, size, whole(dimension, field="dimension", least=1, most=MOST_ENTRIES)


def _require_theorem(levels: Levels, plan: Composition) -> None:
    """CannotCertify for a level in which no theorem prices the plan, also with a delta that is gone by now."""
    for level in levels:
        try:
            planning.charge(level, plan)
        except CannotCertify:
            if filters.tail_budget(level.filter) is None or not has_profile_price(plan, level.relation):
                raise


def _told(
    levels: Levels,
    rate: Decimal,
    steps: int,
    noise: Decimal,
    tail_delta: Decimal,
    size: Decimal,
    dimension: int,
) -> TrainingPlan:
    plan = _plan(rate, steps, noise)
    own = planning.fixed(levels[0], plan, tail_delta)
    return TrainingPlan(
        rate=rate,
        steps=steps,
        noise_multiplier=RoundsUp(noise),
        expected_batch_size=size,
        tail_delta=tail_delta,
        prices=filters.asked(own.filter, own.sums, planning.charge(own, plan, tail_delta)),
        fits=planning.admits(levels, plan, tail_delta),
        signal_to_noise=signal_to_noise(size, noise, dimension),
    )


def signal_to_noise(size: Decimal, noise: Decimal, dimension: int) -> float:
    """The largest norm of a mean gradient over the typical norm of the noise on it. An indication, no bound."""
    return float(size) / (float(noise) * math.sqrt(dimension))


def dpsgd_plan(
    n_public: int,
    epochs: Number,
    batch: Number,
    target: Guarantee | None = None,
    *,
    dimension: int,
    scope: PlansTraining | None = None,
    scope_filter: Filter | None = None,
) -> TrainingPlan:
    """A plan for `scope`, or one that meets `target`: batches of `batch` units expected, so many epochs over `n_public`
    units.

    `n_public`: how many units there are, a number that may be published (under add_remove the true one is private).
    `dimension`: of the gradient. `scope`: the least noise that it admits now, by the cheapest way of asking
    (`Scope.plan_training`). `target`: the least noise with which the run alone meets it; `fits` then says whether an
    empty scope with `scope_filter` admits it in some way (default: one with a budget of `target`). A theorem of
    requests that are chosen as one goes along may ask for more noise than the target.
    Claim: with a target `parts()` meets it under add_remove; with a scope as `training_plan`. Source:
    calibration.calibrate. Raises ParameterError naming the field, InfeasiblePlan where no noise does.

    >>> plan = dpl.planning.dpsgd_plan(n_public=10_000, epochs=3, batch=100, target=dpl.ZCDP(1), dimension=10)
    >>> plan.steps, float(plan.noise_multiplier)
    (300, 12.2475)
    """
    sizes = sizes_of(n_public, epochs, batch, dimension)
    return planned(sizes.rate, sizes.steps, sizes, target=target, scope=scope, scope_filter=scope_filter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a plan is made for, checked: `batch` of `units` expected a step, so many `steps`, each unit in a batch with
    probability `rate` where all may be in each."""

    units: int
    batch: Decimal
    steps: int
    dimension: int

    @property
    def rate(self) -> Decimal:
        """batch / units, rounded up."""
        return round_up(Fraction(self.batch) / self.units)


def sizes_of(n_public: int, epochs: Number, batch: Number, dimension: int) -> Sizes:
    """The sizes of a training. ParameterError naming the field."""
    units = whole(n_public, field="n_public", least=1, most=MOST_UNITS)
    entries = whole(dimension, field="dimension", least=1, most=MOST_ENTRIES)
    size, rounds = read(batch, field="batch"), read(epochs, field="epochs")
    if not 0 < size <= units:
        raise ParameterError("batch", size, f"a number above 0, at most n_public = {units}")
    if not rounds > 0:
        raise ParameterError("epochs", rounds, "a number above 0")
    steps = math.ceil(Fraction(rounds) * units / Fraction(size))
    if steps > MOST_STEPS:
        raise ParameterError("epochs", rounds, f"at most {MOST_STEPS} steps in all")
    return Sizes(units=units, batch=size, steps=steps, dimension=entries)


def planned(
    rate: Decimal,
    times: int,
    sizes: Sizes,
    *,
    target: Guarantee | None,
    scope: PlansTraining | None,
    scope_filter: Filter | None,
) -> TrainingPlan:
    """The least noise for so many samples at `rate`, for a scope or a target as of `dpsgd_plan`."""
    if scope is not None:
        if target is not None or scope_filter is not None:
            raise ParameterError("scope", "given beside a target or a filter", "one of them")
        if not isinstance(scope, PlansTraining):
            raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope)")
        return scope.plan_training(rate=rate, steps=times, expected_batch_size=sizes.batch, dimension=sizes.dimension)
    if target is None:
        raise ParameterError("target", "nothing", "a guarantee, like ApproxDP(3, '1e-6'), or a scope to plan for")
    noise = calibrate(lambda z: _plan(rate, times, z), target)
    rule = filters.opened_by(target) if scope_filter is None else scope_filter
    if type(rule) not in filters.KINDS:
        raise ParameterError("scope_filter", scope_filter, "a filter, like the one of the scope, or nothing")
    instead = filters.instead(target) if scope_filter is None else None
    empty = (Level(rule, Relation.ADD_REMOVE, filters.opening(rule), instead),)
    plan = _plan(rate, times, noise)
    admitted = (way for way in planning.ways(empty, plan) if planning.admits(empty, plan, way))
    return _told(empty, rate, times, noise, next(admitted, ZERO), sizes.batch, sizes.dimension)
