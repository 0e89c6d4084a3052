"""An epsilon of any size has a delta: what is lost at infinity, and next to nothing beside; without a warning."""

from __future__ import annotations

import pytest

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.guarantees import ZCDP, ApproxDP
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

STEP = PoissonSampled(GaussianLaw(1), rate="0.01")
TREES: list[Composition] = [
    GaussianLaw(1),
    STEP,
    Repeated(STEP, times=20),
    Repeated(STEP, times=1000),
    Repeated(LaplaceLaw(1), times=100),
    Repeated(DiscreteGaussianLaw(10, 1), times=1000),
    ZCDP(1),
    Sequence((GaussianLaw(1), ZCDP(1))),
]


@pytest.mark.parametrize("epsilon", ["1e20", "1e160", "1e308", "1e400", "1e5000"])
@pytest.mark.parametrize("tree", TREES)
def test_far_out_next_to_nothing_is_left(tree: Composition, epsilon: str) -> None:
    profile = compose(tree)
    alone, (_, among) = profile.delta(epsilon), profile.deltas(["1", epsilon])
    for found in (alone, among):
        assert found.lower == 0
        assert found.upper <= 1e-280


@pytest.mark.parametrize("epsilon", ["1e20", "1e400"])
def test_far_out_what_is_lost_at_infinity_remains(epsilon: str) -> None:
    profile = compose(Sequence((STEP, ApproxDP(1, "1e-5"))))
    for found in (profile.delta(epsilon), *profile.deltas([epsilon])):
        assert found.lower <= 1e-5 <= found.upper
        assert found.upper - found.lower <= 1e-17


@pytest.mark.parametrize("noise", ["0.03", "0.01"])
def test_losses_beyond_what_an_exponential_holds_have_tails_too(noise: str) -> None:
    """Two runs cost at least one, at an epsilon whose exponential is no float."""
    step = PoissonSampled(GaussianLaw(noise), rate="0.01")
    once, twice = compose(step).delta(1000), compose(Repeated(step, times=2)).delta(1000)
    assert once.lower <= twice.upper
    assert twice.lower <= 2 * once.upper + 1e-4  # both batches hold the unit
