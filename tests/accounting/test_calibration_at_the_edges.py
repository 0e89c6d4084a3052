"""Calibration where the answer is the least decimal there is, or where a target is met here and there."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpledger.accounting.composition import (
    GaussianLaw,
)
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.planning.calibration import calibrate, meets


@pytest.mark.parametrize("target", ["1e-40", "1e-58", "0.3333333333"])
def test_the_least_decimals_are_within_reach(target: str) -> None:
    """Every value that is tried is one that a parameter may have: 60 digits after the point."""
    found = calibrate(lambda epsilon: PureDP(epsilon), PureDP(target), seek="most", within=("1e-60", 1))
    assert Decimal(target) * Decimal("0.99999") <= found <= Decimal(target)


def test_a_target_that_is_met_here_and_there_is_met_by_the_result() -> None:
    """The search assumes that more noise costs less; the result is checked all the same."""

    def trap(noise: Decimal) -> GaussianLaw:
        return GaussianLaw("0.1") if 4 < noise < 10 else GaussianLaw(noise)

    target = ApproxDP(1, "1e-5")
    assert meets(trap(calibrate(trap, target)), target)
