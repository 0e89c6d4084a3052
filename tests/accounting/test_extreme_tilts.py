"""Extremes: epsilons so small that a Gaussian's tilt would be beyond its square, losses beyond the digits of delta."""

from __future__ import annotations

import pytest

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.guarantees import GDP, BoundedRange
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

LOPSIDED = Repeated(PmfPair(left=("0.75", "0.25"), right=("0.3", "0.7")), 100)
LISTS: dict[str, Composition] = {
    "laplace": Sequence((LOPSIDED, Repeated(LaplaceLaw("0.01"), 500))),
    "ranges": Sequence((LOPSIDED, Repeated(BoundedRange("0.01"), 500))),
    "gaussian": Sequence((LOPSIDED, GaussianLaw("3"))),
    "parallel": Parallel((Repeated(LaplaceLaw("0.01"), 500), Repeated(LaplaceLaw("0.011"), 500))),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", ["1e-100", "1e-160", "1e-200", "1e-300", "1e-310"])
@pytest.mark.parametrize("kind", LISTS)
def test_the_smallest_epsilons_are_answered(kind: str, epsilon: str) -> None:
    at, still = compose(LISTS[kind]).delta(epsilon), compose(LISTS[kind]).delta(0)
    assert at.lower <= still.upper
    assert still.lower <= at.upper * (1 + 1e-9)


@pytest.mark.parametrize("delta", ["0.01", "1e-100"])
@pytest.mark.parametrize("beside", [LaplaceLaw("5"), DiscreteGaussianLaw(sigma="0.4", sensitivity=2)])
def test_rare_samples_beside_losses_whose_rounding_is_more_than_all_digits_of_delta(
    beside: Composition, delta: str
) -> None:
    """A term's share of delta is below the least float there."""
    rare = Repeated(PoissonSampled(GaussianLaw("37.4"), rate="0.000117"), 425)
    loud = Repeated(beside, 10**12)
    both, alone = (compose(tree).epsilon(delta) for tree in (Sequence((rare, loud)), loud))
    assert alone.lower <= both.upper
    assert both.lower <= alone.upper * (1 + 1e-9)


def test_runs_of_which_a_lattice_keeps_nothing_are_about_gaussian() -> None:
    """10^24 of e0 = 1e-14: the loss of each is e0 or -e0, nearly, so together mu = 0.01."""
    many = Repeated(Repeated(LaplaceLaw("1e-14"), 10**12), 10**12)
    found, about = compose(many).epsilon("1e-6"), compose(GDP("0.01")).epsilon("1e-6")
    assert found.lower <= about.upper
    assert about.lower <= found.upper <= 1.05 * about.upper
