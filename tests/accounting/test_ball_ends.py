"""Ball arithmetic confirms an interval or widens it; it moves no end inward."""

from __future__ import annotations

from mpmath import mp

from dpledger.accounting.composition import (
    GaussianLaw,
    PoissonSampled,
)
from dpledger.accounting.profile import compose


def test_ball_arithmetic_moves_no_end_inward() -> None:
    """It knows the rate as a double, which is not the decimal: a closed form is narrower than that."""
    tree = PoissonSampled(GaussianLaw("2399.45"), rate="0.509713")
    exact = mp.mpf("8.474694830007585791e-05")
    plain, checked = (compose(tree, direction="add", verify=how).delta(0) for how in (None, "arb"))
    assert checked.lower <= plain.lower < exact < plain.upper <= checked.upper
