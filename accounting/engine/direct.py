"""Profiles that need no contour: those in closed form, and sums over outcomes where these are few."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine.closed_forms import (
    Deltas,
    added_delta,
    bounded_range_delta,
    laplace_delta,
    removed_delta,
)
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.enumeration import Outcomes, enumerated, lattice_runs, ratios
from dpledger.accounting.engine.normal_tails import gaussian_delta
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.discrete.gaussian_loss import DiscreteGaussianLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss

__all__ = ["Direct", "SampledLoss", "at_one", "direct_deltas", "outcomes_of", "sampled_deltas", "sampled_from"]

SampledLoss: TypeAlias = SampledGaussianLoss | SampledLaplaceLoss


@dataclass(frozen=True, slots=True)
class Direct:
    """The profile of a finite loss without a contour. `is_sharp`: nothing else could be narrower."""

    deltas: Deltas
    is_sharp: bool


def direct_deltas(composed: Composed) -> Direct | None:
    """Where the finite loss has a profile in closed form or as a sum over few outcomes; None: a contour answers."""
    match composed.parts:
        case ((LaplaceLoss(epsilon=e0), 1),):
            return Direct(functools.partial(laplace_delta, e0), is_sharp=True)
        case ((BoundedRangeLoss(eta=eta), 1),):
            return Direct(functools.partial(bounded_range_delta, eta), is_sharp=True)
        case ((SampledGaussianLoss() | SampledLaplaceLoss() as loss, 1),):
            return Direct(sampled_deltas(loss), is_sharp=True)
        case _:
            outcomes = outcomes_of(composed, -690.0)
            if outcomes is None:
                return None
            return Direct(functools.partial(ratios, outcomes, log_scale=0.0), outcomes.log_beyond == -math.inf)


def sampled_deltas(loss: SampledLoss) -> Deltas:
    """The profile of one run on a sample, from that of what is sampled."""
    sampled = removed_delta if loss.direction == "remove" else added_delta
    match loss:
        case SampledGaussianLoss(sigma=sigma):
            return functools.partial(sampled, loss.rate, functools.partial(_gaussian_deltas, 1 / scalars.square(sigma)))
        case SampledLaplaceLoss(epsilon=e0):
            return functools.partial(sampled, loss.rate, functools.partial(laplace_delta, e0))
        case _:
            assert_never(loss)


def _gaussian_deltas(mu_squared: float, epsilons: Array) -> tuple[Array, Array]:
    """One by one: Mills' ratio is a continued fraction of its own for each epsilon."""
    found = [gaussian_delta(mu_squared, epsilon) for epsilon in epsilons.tolist()]
    return np.array([at.lower for at in found]), np.array([at.upper for at in found])


def sampled_from(loss: SampledLoss) -> Composed:
    """What is run on the batch."""
    match loss:
        case SampledGaussianLoss(sigma=sigma):
            return Composed(((GaussianLoss(1 / scalars.square(sigma)), 1),))
        case SampledLaplaceLoss(epsilon=e0):
            return Composed(((LaplaceLoss(e0), 1),))
        case _:
            assert_never(loss)


def outcomes_of(composed: Composed, log_delta: float) -> Outcomes | None:
    """The outcomes of a finite loss, but for a mass that is small beside e^log_delta; None where they are too many."""
    match composed.parts:
        case ((DiscreteGaussianLoss() as loss, count),):
            return lattice_runs(loss, count, log_delta)
        case parts:
            return enumerated(parts)


def at_one(deltas: Deltas, epsilon: float) -> Interval:
    """What holds at one epsilon."""
    lower, upper = deltas(np.array([epsilon]))
    return Interval(float(lower[0]), float(upper[0]))
