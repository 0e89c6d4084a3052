"""Which error so many rows can promise: the inverse of a sample size.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> found = reachable_error(ThresholdClass(1023), 4000, "0.05", epsilon=1)
>>> found.alpha, found.plan.needed, found.plan.needed <= 4000
(Decimal('0.0063'), 4000, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpledger.accounting.planning.calibration import least_that
from dpledger.decimals import Number, RoundsUp, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.recommended import Plans, plan
from dpledger.mechanisms.learning.theory.concepts import AnyClass
from dpledger.mechanisms.learning.theory.needed_units import MOST, SampleSize
from dpledger.relations import Relation

__all__ = ["ReachableError", "reachable_error"]

LEAST_ERROR, MOST_ERROR = Decimal("1e-6"), Decimal("0.999")
DIGITS = 3  # of an error that people are told
OF_THE_ERROR = ("alpha", "tolerance")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachableError:
    """`available` records or users are enough for an error of `alpha`, by `plan`."""

    alpha: RoundsUp
    available: int
    plan: SampleSize

    def words(self) -> str:
        """The error and its plan, in a few sentences."""
        return f"{self.available:,} {self.plan.units} reach an error of {text(self.alpha)}. {self.plan.words()}"


def reachable_error(
    what: Plans | AnyClass,
    available: int,
    beta: Number | None = None,
    *,
    epsilon: Number | None = None,
    relation: Relation | None = None,
    agnostic: bool = False,
) -> ReachableError:
    """The least error, to three digits, for which so many records or users are enough, but with probability beta: the
    inverse of `plan`, of which the other arguments are. Of a learner of statistical queries it is the tolerance.

    `available`: a number that may be published, as under replace_one; under add_remove how many there are is private,
    and what is planned with is what one believes beforehand.
    Claim: `plan(what, result.alpha, beta, ...)` needs at most `available`. Assumes, for least alone: a greater error
    never needs more. Source: the plan's own, tried at the result.
    Raises as `plan` does, for a learner that has an alpha of its own too; InfeasiblePlan where so few are enough for
    no error below 0.999.

    >>> learner = dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(1023), epsilon="0.5")
    >>> found = dpl.planning.reachable_error(learner, 4000, "0.05", agnostic=True)
    >>> found.alpha, found.plan.needed
    (Decimal('0.0705'), 3995)
    """
    most = whole(available, field="available", least=1, most=MOST)

    def planned(alpha: Decimal) -> SampleSize:
        return plan(what, alpha, beta, epsilon=epsilon, relation=relation, agnostic=agnostic)

    def is_enough(alpha: Decimal) -> bool:
        try:
            return planned(alpha).needed <= most
        except InfeasiblePlan:
            return False
        except ParameterError as error:
            if error.field not in OF_THE_ERROR:
                raise
            return False  # finer than a grid of the learner

    easiest = planned(MOST_ERROR)
    found = least_that(is_enough, within=(LEAST_ERROR, MOST_ERROR), digits=DIGITS)
    if found is None:
        raise InfeasiblePlan(
            f"{most:,} available {easiest.units} are too few for any error: at least {easiest.needed:,} are needed"
        )
    return ReachableError(alpha=RoundsUp(found), available=most, plan=planned(found))
