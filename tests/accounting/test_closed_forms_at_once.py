"""Closed forms and sums over outcomes answer for many epsilons at once: against 60 digits, with no call for a point."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.composition import (
    Composition,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
)
from dpledger.accounting.engine import expansion_points
from dpledger.accounting.engine.dispatch import delta_interval
from dpledger.accounting.laws.closed_forms import crossing
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.lowering import read_losses
from dpledger.accounting.profile import compose
from dpledger.relations import Relation
from engine_oracles import bounded_range_delta, holds_delta, laplace_delta, mp, real, sampled_gaussian_delta

Exact = Callable[[Any], Any]

POINTS = [0.0, 1e-300, 1e-9, 0.01, 0.1, 0.3, 0.5, 0.69, 0.7, 1.0, 2.0, 5.0, 50.0, 650.0, 699.0, 701.0, 1e4, 1e200]
RATES = ["0.1", "0.999", "1e-12"]


def sampled_laplace_delta(rate: str, e0: str, direction: str, epsilon: Any) -> Any:
    """From the profile of the Laplace release itself: Balle-Barthe-Gaboardi 2018, Theorem 2 (remove), turned round."""
    q, raised = real(rate), mp.exp(epsilon)
    if direction == "remove":
        return q * laplace_delta(real(e0), mp.log(1 + (raised - 1) / q))
    left = 1 - (1 - q) * raised
    return left * laplace_delta(real(e0), mp.log(q * raised / left)) if left > 0 else mp.mpf(0)


def sampled_gaussian(rate: str, sigma: str, direction: str, epsilon: Any) -> Any:
    return sampled_gaussian_delta(real(rate), real(sigma), epsilon, direction)


def cases() -> dict[str, tuple[Composition, Direction, Exact]]:
    found: dict[str, tuple[Composition, Direction, Exact]] = {
        "laplace": (LaplaceLaw("0.7"), "remove", lambda e: laplace_delta(real("0.7"), e)),
        "bounded range": (ExponentialLaw("0.7"), "remove", lambda e: bounded_range_delta(real("0.7"), e)),
    }
    for direction in ("remove", "add"):
        for rate in RATES:
            found[f"sampled laplace {rate} {direction}"] = (
                PoissonSampled(LaplaceLaw("0.7"), rate=rate),
                direction,
                partial(sampled_laplace_delta, rate, "0.7", direction),
            )
            found[f"sampled gaussian {rate} {direction}"] = (
                PoissonSampled(GaussianLaw("0.8"), rate=rate),
                direction,
                partial(sampled_gaussian, rate, "0.8", direction),
            )
    return found


@pytest.mark.parametrize("name", cases())
def test_closed_forms_hold_the_exact_profile_at_every_point(name: str) -> None:
    tree, direction, exact = cases()[name]
    found = compose(tree, direction=direction).deltas(POINTS)
    for epsilon, bounds in zip(POINTS, found, strict=True):
        truth = exact(mp.mpf(epsilon)) if epsilon < 1e5 else mp.mpf(0)
        assert holds_delta(bounds.lower, bounds.upper, truth), (epsilon, bounds, truth)
        assert bounds.upper - bounds.lower <= 1e-9 * bounds.upper + 1e-290 or bounds.upper < 1e-13


TREES: list[Composition] = [
    LaplaceLaw("0.7"),
    ExponentialLaw("0.7"),
    PoissonSampled(LaplaceLaw("0.7"), rate="0.1"),
    PoissonSampled(GaussianLaw("0.8"), rate="0.1"),
    RandomizedResponseLaw("0.7", k=3),
    Repeated(RandomizedResponseLaw("0.7"), times=40),
    DiscreteLaplaceLaw(scale=3, sensitivity=2),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_whole_profile_makes_no_call_for_a_single_point(tree: Composition, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[float] = []

    def counted(what: Any, epsilon: float, floor: float = 0.0) -> Any:
        alone.append(epsilon)
        return delta_interval(what, epsilon, floor)

    monkeypatch.setattr(expansion_points, "delta_interval", counted)
    profile = compose(tree)
    profile.tradeoffs([Decimal(k) / 20 for k in range(21)])
    profile.deltas(np.linspace(0, 1, 500).tolist())
    assert len(alone) <= 20


def test_a_report_asks_for_curves_not_for_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases made about 3,000 calls of the engine when closed forms were asked point by point."""
    calls: list[int] = []
    asked = expansion_points.ProfileCurve.deltas

    def counted(self: expansion_points.ProfileCurve, points: expansion_points.RisingEpsilons, floors: Any) -> Any:
        calls.append(points.near.size)
        return asked(self, points, floors)

    monkeypatch.setattr(expansion_points.ProfileCurve, "deltas", counted)
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)
    scope.release(dpl.Count(epsilon="0.1", of="rows"), [1])
    dpl.report(book)
    assert 0 < len(calls) <= 60


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_one_direction_is_bounded_alike_alone_and_among_many(tree: Composition) -> None:
    for direction in ("remove", "add"):
        (case, *_) = read_losses(tree, Relation.ADD_REMOVE, direction)
        epsilons = np.array(POINTS)
        lower, upper = expansion_points.ProfileCurve(case).deltas(
            expansion_points.RisingEpsilons(epsilons), np.zeros(epsilons.size)
        )
        for at, low, high in zip(POINTS, lower.tolist(), upper.tolist(), strict=True):
            one = delta_interval(case, at)
            assert max(one.lower, low) <= min(one.upper, high)


@pytest.mark.parametrize("at_once", [1, 2, 31])
@pytest.mark.parametrize("blur", [1e-14, 1e-3, 0.6])
def test_a_root_is_bracketed_however_blurred_the_answer(at_once: int, blur: float) -> None:
    """The least x in [0, 4] with e^-x <= delta; an answer that is wide leaves a bracket about as wide."""

    def answer(points: Any) -> tuple[Any, Any]:
        return np.exp(-points) * (1 - blur), np.exp(-points) * (1 + blur)

    for root in (0.0, 1e-7, 0.5, 1.0, 3.9):
        delta = float(np.exp(-root))
        found = crossing(answer, delta, delta, 0.0, 4.0, at_once=at_once)
        assert found.lower <= root <= found.upper
        assert np.log1p(-blur) - 1e-7 <= found.lower - root
        assert found.upper - root <= np.log1p(blur) + 1e-7
