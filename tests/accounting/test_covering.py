"""Few answers for many epsilons: each holds wherever it is asked, and one that does not is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest

from dpledger.accounting import certified
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import FAILED, Answer, AskedEpsilons, Method, RisingEpsilons, contours, cover
from dpledger.accounting.engine.dispatch import delta_interval
from dpledger.accounting.engine.large_losses import layers
from dpledger.accounting.engine.lattice import lattices
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.lowering import read_both_ways
from dpledger.relations import Relation
from work_counter import lines_run

RARE = [(1.0, 1e-3, 64, 0.09), (0.592, 1.16e-4, 52, 0.4), (0.522, 7.75e-4, 127, 2.0)]
"""Noise, rate, steps and the last epsilon, of lists where rare losses rule."""


def met(method: Method, composed: Composed, epsilons: Array, upper: Array | None = None) -> AskedEpsilons:
    above = np.ones(epsilons.size) if upper is None else upper.copy()
    asked = AskedEpsilons(RisingEpsilons(epsilons), np.zeros(epsilons.size), np.zeros(epsilons.size), above)
    cover(method, composed, asked)
    return asked


@pytest.mark.parametrize("case", RARE)
def test_methods_agree_with_each_other(case: tuple[float, float, int, float]) -> None:
    """Every interval for one delta holds the truth: no two are apart."""
    sigma, rate, steps, last = case
    composed = Composed(((SampledGaussianLoss(rate, sigma, "remove"), steps),))
    epsilons = np.concatenate([[0.0], np.geomspace(last / 1e4, last, 12)])
    plain = met(contours, composed, epsilons)
    found = [plain, *(met(method, composed, epsilons, plain.upper) for method in (layers, lattices))]
    lower = np.max([asked.lower for asked in found], axis=0)
    upper = np.min([asked.upper for asked in found], axis=0)
    assert np.all(lower <= upper)
    assert np.all(upper - lower <= 0.01 * upper)


def test_one_answer_serves_its_neighbours_as_if_each_were_asked_alone() -> None:
    step = Repeated(PoissonSampled(GaussianLaw(1), rate="0.001"), times=64)
    (what,) = read_both_ways(step, Relation.ADD_REMOVE)[0]
    epsilons = np.geomspace(1e-4, 0.08, 9)
    made: list[float] = []

    def counted(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
        made.append(epsilon)
        yield from contours(composed, epsilon, about)

    asked = met(counted, Composed(what.losses), epsilons)
    assert len(made) < 4
    for epsilon, lower, upper in zip(epsilons.tolist(), asked.lower, asked.upper, strict=True):
        alone = delta_interval(what, epsilon)
        assert max(lower, alone.lower) <= min(upper, alone.upper)
        assert upper <= alone.upper * (1 + 2e-3)


def test_a_method_that_says_nothing_is_given_up() -> None:
    composed = Composed(((SampledGaussianLoss(1e-3, 1.0, "add"), 64),))
    made: list[float] = []

    def useless(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
        made.append(epsilon)
        yield lambda epsilons: (np.zeros(epsilons.shape), np.ones(epsilons.shape))

    asked = met(useless, composed, np.linspace(0, 1, 50))
    assert len(made) == FAILED
    assert not asked.lower.any()
    assert np.all(asked.upper == 1)


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "tail_delta"), [("1", "0.001", 64, "5e-7"), ("0.592", "0.000116", 52, "3.45e-8")]
)
def test_prices_where_rare_losses_rule_take_few_lines(noise: str, rate: str, steps: int, tail_delta: str) -> None:
    """Each took from four seconds to minutes when every point was asked alone."""
    plan = Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)

    def price() -> None:
        certified.certified_cost(plan, Relation.ADD_REMOVE, Decimal(tail_delta), (Decimal(3),))

    assert lines_run(price) < 1_000_000
