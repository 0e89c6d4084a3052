"""Two and three runs of random losses against nested quadrature."""

from __future__ import annotations

import math

import numpy as np

import nested_runs
from dpledger.accounting.composition import (
    GaussianLaw,
    PoissonSampled,
    Repeated,
)
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.large_losses import large_losses_epsilon
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.profile import compose
from seed_batches import over_seeds


@over_seeds(12, 150)
def test_a_few_runs_against_nested_quadrature(seed: int) -> None:
    """Two or three runs, epsilons that jumps rule; whatever is found holds the truth, by jumps alone and by all."""
    rng = np.random.default_rng(seed)
    runs = 2 if seed % 4 else 3
    sigma, rate = float(rng.uniform(0.4, 4.5)), float(10 ** rng.uniform(-6, -1.3))
    delta = float(10 ** rng.uniform(-240, -4))
    composed = Composed(((SampledGaussianLoss(rate, sigma, "remove"), runs),))
    tree = Repeated(PoissonSampled(GaussianLaw(repr(sigma)), rate=repr(rate)), times=runs)
    for found in (large_losses_epsilon(composed, delta, delta), compose(tree, direction="remove").epsilon(repr(delta))):
        ends = [end for end in (found.lower, found.upper) if 0 < end < math.inf]
        if not ends:  # no split: the losses have one scale only
            continue
        exact = dict(zip(ends, nested_runs.log_delta(rate, sigma, runs, np.array(ends)).tolist(), strict=True))
        assert exact.get(found.lower, math.inf) >= math.log(delta) - 1e-8
        assert exact.get(found.upper, -math.inf) <= math.log(delta) + 1e-8
