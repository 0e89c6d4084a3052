"""Before training: how many steps, which rate, how much noise, what it will be charged, and whether anything is left to
learn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting import costs, filters
from dpledger.accounting.calibration import calibrate
from dpledger.accounting.composition import Composition, GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import Number, read, round_up, text, whole
from dpledger.errors import ParameterError
from dpledger.relations import Relation

__all__ = ["TrainingPlan", "dpsgd_plan"]

MOST_STEPS = 10**12
MOST_UNITS = 10**17  # a decimal of the profile, as the rate is
MOST_ENTRIES = 2**31  # of a gradient, as in `DPSGD`
CLEAR, LOST = 1.0, 0.05  # ratios of the mean gradient's bound to the norm of the noise on it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """`steps` of DP-SGD at `rate` with `noise_multiplier`. `prices`: what a scope with this filter charges, by account;
    `fits`: whether an empty one admits it. `signal_to_noise`: the largest norm that a mean gradient can have, over the
    typical norm of the noise on it."""

    rate: Decimal
    steps: int
    noise_multiplier: Decimal
    expected_batch_size: Decimal
    prices: Mapping[str, str]
    fits: bool
    signal_to_noise: float

    def parts(self) -> Composition:
        """What such a run is made of."""
        return Repeated(PoissonSampled(GaussianLaw(self.noise_multiplier), rate=self.rate), times=self.steps)

    def words(self) -> str:
        """The plan in two sentences."""
        if self.signal_to_noise >= CLEAR:
            said = "a single step can show a direction"
        elif self.signal_to_noise >= LOST:
            said = "single steps are mostly noise; what is learnt comes from many of them"
        else:
            said = "steps are lost in noise: take larger batches, fewer parameters, or a larger budget"
        return (
            f"{self.steps} steps at rate {text(self.rate)} with noise multiplier {text(self.noise_multiplier)}. "
            f"The mean gradient is at most {self.signal_to_noise:.3g} times the noise on it: {said}."
        )


def dpsgd_plan(
    n_public: int,
    epochs: Number,
    batch: Number,
    target: Guarantee,
    *,
    dimension: int,
    scope_filter: Filter | None = None,
) -> TrainingPlan:
    """A plan that meets `target`: batches of `batch` units expected, so many epochs over `n_public` units.

    `n_public`: how many units there are, a number that may be published (under add_remove the true one is private).
    `dimension`: of the gradient. `scope_filter`: that of the scope it is for; default: the one that a budget of
    `target` opens. It admits a chosen sequence of requests, so its prices may pass the target: then `fits` is False,
    and the scope wants a larger budget.
    Claim: `parts()` meets `target` under add_remove. Source: calibration.calibrate. Raises ParameterError naming the
    field, InfeasiblePlan where no noise does.
    """
    n_public = whole(n_public, field="n_public", least=1, most=MOST_UNITS)
    dimension = whole(dimension, field="dimension", least=1, most=MOST_ENTRIES)
    size, rounds = read(batch, field="batch"), read(epochs, field="epochs")
    if not 0 < size <= n_public:
        raise ParameterError("batch", size, f"a number above 0, at most n_public = {n_public}")
    if not rounds > 0:
        raise ParameterError("epochs", rounds, "a number above 0")
    rate = round_up(Fraction(size) / n_public)
    steps = math.ceil(Fraction(rounds) * n_public / Fraction(size))
    if steps > MOST_STEPS:
        raise ParameterError("epochs", rounds, f"at most {MOST_STEPS} steps in all")
    noise = calibrate(lambda z: Repeated(PoissonSampled(GaussianLaw(z), rate=rate), times=steps), target)
    plan = Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)
    rule = filters.opened_by(target) if scope_filter is None else scope_filter
    if type(rule) not in filters.KINDS:
        raise ParameterError("scope_filter", scope_filter, "a filter, like the one of the scope, or nothing")
    charged, nothing = costs.charge(rule, plan, Relation.ADD_REMOVE), filters.opening(rule)
    return TrainingPlan(
        rate=rate,
        steps=steps,
        noise_multiplier=noise,
        expected_batch_size=size,
        prices=filters.asked(rule, nothing, charged),
        fits=filters.admits(rule, filters.with_charge(rule, nothing, charged)),
        signal_to_noise=float(size) / (float(noise) * math.sqrt(dimension)),
    )
