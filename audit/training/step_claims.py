"""What a step of a training claims, and what it would look like with less noise than it claims.

A step adds Gaussian noise to a sum in which one canary moves the total by at most a clip norm. Along the direction of
the canary, in deviations of the noise, such a step gives N(0, 1) without it and N(mu, 1) with it, mu = 1 / noise
multiplier; of a sample at some rate, N(mu, 1) with that probability and N(0, 1) else. A step with less noise than it
claims gives the same with a larger mu. These laws say what to bet on and never whether a bet is valid.

>>> from dpledger.accounting.composition import GaussianLaw
>>> step_claim(GaussianLaw(2)).law
StepLaw(mu=0.5, rate=1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from pydantic import TypeAdapter
from scipy.special import ndtr

from dpledger import decimals
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    children,
)
from dpledger.accounting.guarantees import GDP, GUARANTEES, Guarantee, PrivacyCurve
from dpledger.accounting.profile import compose
from dpledger.audit.outcomes import Floats
from dpledger.audit.tested.claims import MOST_TESTED, AuditTarget, ClaimPoint, target
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from dpledger.schema import validated

__all__ = ["StepClaim", "StepLaw", "step_claim"]

_TREE: TypeAdapter[Composition] = TypeAdapter(Composition)
SAMPLES = (PoissonSampled, SampledWithoutReplacement, RandomAllocation)
LEAST_MASS = 1e-12  # of a cell, in a law that is bet on


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLaw:
    """One step along its canary, in deviations of its noise: N(0, 1) without it; with it N(mu, 1) with probability
    `rate`, else N(0, 1)."""

    mu: float
    rate: float = 1.0

    def masses(self, cuts: Floats, factor: float = 1.0) -> tuple[Floats, Floats]:
        """Of the cells between rising `cuts`, the first and the last of which are infinite, and of a cell for what is
        no number: their masses with and without the canary, where mu is larger by `factor`. float64[cuts] each."""
        without = np.diff(ndtr(cuts))
        mixed = self.rate * np.diff(ndtr(cuts - self.mu * factor)) + (1 - self.rate) * without
        left, right = (np.append(side, 0.0) + LEAST_MASS for side in (mixed, without))
        return left / left.sum(), right / right.sum()

    def parts(self, factor: float = 1.0) -> Composition:
        """The law whose mu is larger by `factor`, as accounting has it; its noise multiplier is rounded down, so that
        it promises less."""
        noise = GaussianLaw(decimals.round_down(1 / (self.mu * factor)))
        return noise if self.rate == 1 else PoissonSampled(noise, rate=decimals.round_up(self.rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClaim:
    """What one step claims. `guarantee`: as a ledger says it; `target`: what is tested; `law`: the Gaussian step that
    it is the claim of, None where it is that of none. `of_sample`: it is the law of a step that draws its batch."""

    guarantee: Guarantee
    target: AuditTarget
    law: StepLaw | None
    of_sample: bool = False


def step_claim(claim: object, delta: Decimal | None = None, *, of: str = "one step claims") -> StepClaim:
    """A claim that was given: a guarantee, or a law or tree of laws of one step, under add_remove.

    `delta`: where epsilon_lower is reported; None: the claim's own, or 10^-5. `of`: whose claim it is, for errors.
    Claim: whoever keeps the law keeps the guarantee and every point of the target. ParameterError for anything else."""
    if claim is None or not (hasattr(claim, "kind") or isinstance(claim, Mapping)):
        raise ParameterError("claim", claim, f"what {of}: a guarantee like GDP(1), or a law like GaussianLaw")
    tree: Composition = validated(_TREE, claim, "claim")
    made = replace(_claim(tree, delta), of_sample=_draws(tree))
    if made.target.point.epsilon > MOST_TESTED:
        asked = "a claim, and a delta, at which epsilon is at most 600"
        raise ParameterError("claim, delta", made.target.point.words, asked)
    return made


def _draws(tree: Composition) -> bool:
    return isinstance(tree, SAMPLES) or any(_draws(one) for one in children(tree))


def _claim(tree: Composition, delta: Decimal | None) -> StepClaim:
    law = _law_of(tree)
    if isinstance(tree, GUARANTEES):
        return StepClaim(guarantee=tree, target=target(tree, None, Relation.ADD_REMOVE, delta), law=law)
    if law is not None and law.rate == 1:
        guarantee: Guarantee = GDP(decimals.round_up(law.mu))
        return StepClaim(guarantee=guarantee, target=target(guarantee, None, Relation.ADD_REMOVE, delta), law=law)
    tested = target(GDP(1), tree, Relation.ADD_REMOVE, delta)  # all but the point is read off the tree
    at = tested.point.delta
    point = ClaimPoint(decimals.round_up(compose(tree, relation=Relation.ADD_REMOVE).epsilon(at).upper), at)
    tested = replace(tested, point=point)
    return StepClaim(guarantee=_curve(tested), target=tested, law=law)


def _law_of(tree: Composition) -> StepLaw | None:
    if isinstance(tree, GDP) and tree.mu:
        return StepLaw(mu=float(tree.mu))
    if isinstance(tree, GaussianLaw):
        return StepLaw(mu=float(1 / Fraction(tree.noise_multiplier)))
    if isinstance(tree, PoissonSampled) and isinstance(tree.of, GaussianLaw):
        return StepLaw(mu=float(1 / Fraction(tree.of.noise_multiplier)), rate=float(tree.rate))
    return None


def _curve(tested: AuditTarget) -> PrivacyCurve:
    """The tested points as a guarantee: epsilons rise, deltas fall."""
    points = {point.epsilon: point.delta for point in (*tested.knots, tested.point)}
    rising = sorted(points)
    return PrivacyCurve(epsilons=tuple(rising), deltas=tuple(points[epsilon] for epsilon in rising))
