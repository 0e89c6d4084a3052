"""Propose, test, release: its conformance, what it draws, and what it shows of neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.certificates.stable_releases import release_probability
from dpledger.accounting.composition import LaplaceLaw, Sequence
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure
from dpledger.audit import audit_mechanism
from dpledger.errors import ContractViolation
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.stability.answers import UNSTABLE
from dpledger.mechanisms.stability.propose_test_release import ProposeTestRelease
from dpledger.relations import Relation
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

MADE: dict[str, Any] = {"epsilon": 2, "delta": "0.01", "local_sensitivity": 3}


class Proposed(MechanismConformance):
    relations = tuple(Relation)
    mode: ClassVar[str]

    def make(self, **changes: Any) -> Any:
        return ProposeTestRelease(**{**MADE, "mode": self.mode, **changes})

    good_data = (41.5, 5)
    bad_data = ((float("nan"), float("inf")), (10**400, 0), (Decimal("sNaN"), 10**400), (np.float32(1), Fraction(4)))
    bad_containers = (None, 3, [1.5, 5], (1.5,), (1.5, 5, 6), ("41", 5), (None, 5), ([1.0, 2.0], 5))
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"delta": "0.5"},
        {"local_sensitivity": 0},
        {"test_share": 1},
        {"mode": "best"},
        {"grid": 3},
        {"missing": "nan"},
    )


class TestOptimal(Proposed):
    mode = "optimal"


class TestTight(Proposed):
    mode = "tight"


def test_the_parts_are_the_test_and_the_noise() -> None:
    made = ProposeTestRelease(**MADE, test_share="0.25")
    assert made.parts() == Sequence((ApproxDP("0.5", "0.01"), LaplaceLaw("1.5")))
    assert made.claim() == ApproxDP(2, "0.01")
    assert made.failures() == (PrivacyFailure("0.01", "stability"),)
    told = made.parameters()
    assert (told["test_epsilon"], told["value_epsilon"], told["scale"]) == ("0.5", "1.5", "2")


def test_the_coin_is_tossed_first_and_noise_is_drawn_only_where_it_falls() -> None:
    made = ProposeTestRelease(**MADE)
    for distance in (0, 2, 9):
        for seed in range(5):
            with recording() as draws:
                answer = made.release((41.5, distance), entropy=seeded(seed)).value
            assert draws[0].value == release_probability(Decimal(1), Decimal("0.01"), distance)
            assert len(draws) == (1 if answer is UNSTABLE else 2)
            assert (answer is UNSTABLE) == (not draws[0].output)


def test_a_sample_is_many_releases() -> None:
    sample = ProposeTestRelease(**MADE).sample((41.5, 3), 4000, seeded(1))
    passed = [answer for answer in sample if answer is not UNSTABLE]
    chance = float(release_probability(Decimal(1), Decimal("0.01"), 3))
    assert len(passed) == pytest.approx(4000 * chance, abs=6 * math.sqrt(4000 * chance))
    assert all(isinstance(answer, float) for answer in passed)
    assert np.mean(np.abs(np.array(passed) - 41.5)) == pytest.approx(3, rel=0.2)


@pytest.mark.parametrize("distance", [-1, 0.5, float("nan"), "3", None])
def test_what_is_no_distance_breaks_the_contract_before_anything_is_drawn(distance: Any) -> None:
    with recording() as draws, pytest.raises(ContractViolation):
        ProposeTestRelease(**MADE).release((41.5, distance), entropy=seeded(1))
    assert not draws


def laws(made: ProposeTestRelease, data: tuple[float, int], points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The chance of UNSTABLE and of each cell of a fine grid, for continuous noise."""
    number, distance = data
    chance = float(release_probability(Decimal(1), made.delta, distance))
    tails = np.exp(-np.abs(points - number) / 3) / 2
    cells = np.diff(np.where(points < number, tails, 1 - tails))
    return np.array([1 - chance, *(chance * cells)])


@pytest.mark.parametrize(
    ("left", "right", "least"),
    [
        ((0.0, 4), (3.0, 5), 0.0),
        ((0.0, 0), (3.0, 1), 0.002),
        ((0.0, 0), (1e3, 0), 0.0099),
        ((0.0, 7), (-3.0, 6), 0.0),
    ],
)
def test_neighbours_show_no_more_than_is_claimed(
    left: tuple[float, int], right: tuple[float, int], least: float
) -> None:
    """Numbers at most 3 apart, or distances of 0 on both sides: summed over fine cells."""
    made = ProposeTestRelease(**MADE)
    points = np.linspace(-2000, 3000, 400_001)
    here, there = (laws(made, data, points) for data in (left, right))
    for one, other in ((here, there), (there, here)):
        assert np.maximum(one - math.exp(2) * other, 0).sum() <= 0.01 + 1e-9
    assert max(np.maximum(a - math.exp(2) * b, 0).sum() for a, b in ((here, there), (there, here))) >= least


@pytest.mark.slow
def test_a_number_that_jumps_where_the_distance_does_not_say_so_is_found() -> None:
    """The twin of a distance: 5 on both sides of a jump of 1000."""
    made = ProposeTestRelease(**MADE)
    fair = audit_mechanism(made, (0.0, 5), (3.0, 6), trials=20_000, seed=3)
    foul = audit_mechanism(made, (0.0, 5), (1000.0, 6), trials=2_000, seed=3)
    assert (fair.verdict, foul.verdict) == ("not_refuted", "violation")
