"""Before a training with noise that later steps take off again: how many groups, which factor, how much noise.

More groups let more of the noise be taken off, and give each unit fewer turns; but a batch is then a larger part of its
group, so that it hides less who is in it. Which number is best depends on the budget: a plan tries powers of two.
Source: Choquette-Choo et al. 2023b, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import Number, RoundsUp, read, round_up, text, whole
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError
from dpledger.mechanisms.training.factor import MOST_BANDS, MOST_STEPS, banded_factor, error_of
from dpledger.mechanisms.training.training_plans import PlansTraining, Sizes, TrainingPlan, planned, sizes_of

__all__ = ["FTRLPlan", "ftrl_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FTRLPlan:
    """`steps` of DP-FTRL with `groups` and `coefficients`. `turns`: the plan of one unit's turns, which is one of
    DP-SGD with as many steps (noise, how the scope is asked, what it is charged); `error`: of sums of clipped
    gradients, the root mean square over the steps, in units of the clip norm; `error_of_dp_sgd`: that of `private_sgd`
    with the same budget, batches and steps; None where it has no guarantee.

    >>> plan = dpl.planning.ftrl_plan(10_000, 4, 100, dpl.ApproxDP(2, "1e-6"), dimension=10)
    >>> plan.groups, plan.turns.steps, float(plan.rate), plan.error < plan.error_of_dp_sgd
    (8, 50, 0.08, True)
    """

    steps: int
    groups: int
    coefficients: tuple[Decimal, ...]
    turns: TrainingPlan
    error: float
    error_of_dp_sgd: float | None

    @property
    def rate(self) -> Decimal:
        """With which probability a unit is in a batch of its group."""
        return self.turns.rate

    @property
    def noise_multiplier(self) -> RoundsUp:
        """Of one turn."""
        return self.turns.noise_multiplier

    @property
    def expected_batch_size(self) -> Decimal:
        """As asked."""
        return self.turns.expected_batch_size

    @property
    def tail_delta(self) -> Decimal:
        """How the scope is asked for it."""
        return self.turns.tail_delta

    def words(self) -> str:
        """The plan in a few sentences."""
        plain = "" if self.error_of_dp_sgd is None else f"; by DP-SGD it would be {self.error_of_dp_sgd:.3g}"
        return (
            f"{self.steps} steps; units are dealt to {self.groups} groups, each has at most {self.turns.steps} turns "
            f"at rate {text(self.rate)} with noise multiplier {text(self.noise_multiplier.exact)}. Sums of gradients "
            f"are off by {self.error:.3g} clip norms in each entry{plain}."
        )


def ftrl_plan(
    n_public: int,
    epochs: Number,
    batch: Number,
    target: Guarantee | None = None,
    *,
    dimension: int,
    momentum: Number = 0,
    groups: int | None = None,
    scope: PlansTraining | None = None,
    scope_filter: Filter | None = None,
) -> FTRLPlan:
    """A plan for `private_ftrl`, as `dpsgd_plan` makes one for `private_sgd`: of the numbers of groups that are powers
    of two, and the largest that there may be, n_public / batch, the one with the least error.

    `momentum`: of the optimiser that the answers go to. `groups`: so many, and no search; where groups * batch is
    n_public a batch is a whole group. Claim: the plan of the turns is as `dpsgd_plan` claims of one with as many steps.
    Raises as `dpsgd_plan` does, and for more than 50,000 steps.

    >>> plan = dpl.planning.ftrl_plan(1000, 8, 100, dpl.ZCDP("0.1"), dimension=10, groups=10)
    >>> plan.steps, plan.turns.steps, str(plan.rate), str(plan.noise_multiplier)
    (80, 8, '1', '6.32456')
    """
    sizes = sizes_of(n_public, epochs, batch, dimension)
    if sizes.steps > MOST_STEPS:
        raise ParameterError("epochs", epochs, f"at most {MOST_STEPS} steps in all")
    kept, rounds = read(momentum, field="momentum"), read(epochs, field="epochs")
    most = int(Fraction(sizes.units) / Fraction(sizes.batch))
    tried = _numbers(most) if groups is None else [whole(groups, field="groups", least=1, most=most)]

    plans, refusals = {}, []
    for number in sorted({1, *tried}):
        try:
            plans[number] = _turns(sizes, number, target, scope, scope_filter)
        except (CannotCertify, InfeasiblePlan) as refusal:  # as of a budget of mu, which has no price of a sample
            refusals.append(refusal)
    errors = {
        number: error_of(_factor(sizes, number, kept), sizes.steps, kept) * float(turns.noise_multiplier)
        for number, turns in plans.items()
    }
    chosen = min((number for number in tried if number in plans), key=errors.__getitem__, default=None)
    if chosen is None:
        last = refusals[-1]
        if isinstance(last, CannotCertify):
            whole_groups = "where a batch is a whole group, groups * batch = n_public, nothing is sampled"
            raise CannotCertify(f"{last}; {whole_groups}") from None
        if scope is None:
            raise last
        raise InfeasiblePlan(
            f"no noise multiplier lets the scope admit {sizes.steps} steps (epochs={text(rounds)}, "
            f"batch={text(sizes.batch)}, n_public={sizes.units}) in any number of groups that was tried "
            f"({', '.join(map(str, tried))}): hardly anything is left in it (see `scope.account()`). Take a scope "
            "with more left"
        )
    return FTRLPlan(
        steps=sizes.steps,
        groups=chosen,
        coefficients=_factor(sizes, chosen, kept),
        turns=plans[chosen],
        error=errors[chosen],
        error_of_dp_sgd=errors.get(1),
    )


def _turns(
    sizes: Sizes,
    groups: int,
    target: Guarantee | None,
    scope: PlansTraining | None,
    scope_filter: Filter | None,
) -> TrainingPlan:
    rate, times = round_up(Fraction(sizes.batch) * groups / sizes.units), -(-sizes.steps // groups)
    return planned(rate, times, sizes, target=target, scope=scope, scope_filter=scope_filter)


def _factor(sizes: Sizes, groups: int, momentum: Decimal) -> tuple[Decimal, ...]:
    return banded_factor(sizes.steps, min(groups, sizes.steps, MOST_BANDS), momentum=momentum)


def _numbers(most: int) -> list[int]:
    """1, 2, 4, ... and the largest."""
    powers = [2**exponent for exponent in range(most.bit_length())]
    return powers if powers[-1] == most else [*powers, most]
