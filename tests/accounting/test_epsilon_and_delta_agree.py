"""An epsilon and a delta of one profile are known about as well, where delta is close to 1 too."""

from __future__ import annotations

import pytest

import dpledger as dpl
from dpledger.accounting.engine import dispatch
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.laws.intervals import Interval

STEPPED = (
    (dpl.ApproxDP("3.535", "1.9e-11"), 3),
    (dpl.PoissonSampled(dpl.RandomizedResponseLaw("0.0257", k=2), rate="0.019"), 3),
    (dpl.LaplaceLaw("0.512"), 1),
)
ALMOST_SURE = (
    (dpl.PoissonSampled(dpl.GaussianLaw("1.19198"), rate="0.00616166"), 1000),
    (dpl.DiscreteGaussianLaw(sigma="1.40669", sensitivity=1), 100),
)


@pytest.mark.parametrize("delta", ["0.95", "0.953", "0.1", "1e-6"])
def test_an_epsilon_is_as_narrow_as_the_deltas_around_it(delta: str) -> None:
    """Where delta hardly falls, between heavy outcomes, no method for epsilon says anything; each delta is known."""
    profile = dpl.compose(*STEPPED)
    found = profile.epsilon(delta)
    assert found.upper - found.lower <= 1.1e-3 * found.upper
    assert profile.delta(found.upper * 1.001).lower <= float(delta) <= profile.delta(found.lower * 0.999).upper


@pytest.mark.parametrize("epsilon", [0, 2, 10, "18.42", 25])
def test_a_delta_close_to_1_takes_a_contour_of_few_nodes(epsilon: str) -> None:
    """The tilt that is best by Chernoff's bound is so small there that the nodes are too much work."""
    found = dpl.compose(*ALMOST_SURE, relation="replace_one").delta(epsilon)
    assert found.upper - found.lower <= 5e-5 * found.upper


def test_an_epsilon_by_deltas_holds_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Gaussian, where nothing else were known: by halves, until delta is not known on which side it is."""
    (case,) = dpl.compose(dpl.GaussianLaw(1)).cases
    exact = dpl.compose(dpl.GaussianLaw(1)).epsilon("0.01")
    wide = Interval(0.0, 64.0)
    found = dispatch._by_deltas(Composed(case.losses), 0.01, 0.01, wide)
    assert found.lower <= exact.lower <= exact.upper <= found.upper <= found.lower * (1 + 1.1e-3)
    monkeypatch.setattr(dispatch, "_delta_by_methods", lambda *_: Interval(0.0, 1.0))
    assert dispatch._by_deltas(Composed(case.losses), 0.01, 0.01, wide) == wide
