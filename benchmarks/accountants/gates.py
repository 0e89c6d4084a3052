"""Other libraries' own budget objects: how many of one mechanism each lets through, one after another.

Each is asked as its documentation shows: OpenDP's privacy filter over its fully adaptive composition, diffprivlib's
`BudgetAccountant` (with the slack that admits most), and the loop that Opacus's examples run, "stop when
`get_epsilon(delta)` is above the target". None of them is a ledger; they are what a user has.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accountants.peers import NotCovered
from accountants.work import Part

__all__ = ["GATES", "Gate", "most_that"]


@dataclass(frozen=True)
class Gate:
    """`admitted(part, epsilon, delta, most)`: how many of `part` go through a budget of (epsilon, delta), at most
    `most`. `package`: its name at the registry."""

    name: str
    package: str
    admitted: Callable[[Part, float, float, int], int]


def most_that(fits: Callable[[int], bool], most: int) -> int:
    """The largest count up to `most` that fits, where fewer fit too; 0 where none does."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# ---- Opacus ---------------------------------------------------------------------------------------------------------


def _opacus(kind: str) -> Callable[[Part, float, float, int], int]:
    def admitted(part: Part, epsilon: float, delta: float, most: int) -> int:
        from opacus import accountants

        if part.kind != "gaussian":
            raise NotCovered(part.kind)

        def fits(count: int) -> bool:
            accountant = getattr(accountants, kind)()
            accountant.history = [(part.size, part.rate, count)]
            return float(accountant.get_epsilon(delta=delta)) <= epsilon

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return most_that(fits, most)

    return admitted


# ---- diffprivlib ----------------------------------------------------------------------------------------------------

SLACKS = (0.0, 0.25, 0.5, 0.9)  # shares of delta
GAUSSIAN_SHARES = tuple(2.0**-power for power in range(1, 14))  # of delta, for one Gaussian


def _diffprivlib(part: Part, epsilon: float, delta: float, most: int) -> int:
    """The best of some slacks, and for a Gaussian of some deltas that it may state beside its epsilon."""
    if part.rate < 1:
        raise NotCovered("samples")
    return max(
        _spent(once, at_once, epsilon, delta, slack * delta, most)
        for once, at_once in _stated(part, delta)
        for slack in SLACKS
    )


def _stated(part: Part, delta: float) -> list[tuple[float, float]]:
    """The (epsilon, delta) of one release, as diffprivlib's mechanisms state them."""
    if part.kind in ("laplace", "response"):
        return [(part.size, 0.0)]
    if part.kind == "gaussian":
        return [(_gaussian_epsilon(part.size, share * delta), share * delta) for share in GAUSSIAN_SHARES]
    raise NotCovered(part.kind)


def _gaussian_epsilon(sigma: float, delta: float) -> float:
    """The least epsilon for which diffprivlib's analytic Gaussian takes no more noise than `sigma`."""
    from diffprivlib.mechanisms import GaussianAnalytic

    low, high = 1e-9, 1e3
    for _ in range(80):
        middle = math.sqrt(low * high)
        noise = GaussianAnalytic(epsilon=middle, delta=delta, sensitivity=1.0)._scale
        low, high = (low, middle) if noise <= sigma else (middle, high)
    return high


def _spent(once: float, at_once: float, epsilon: float, delta: float, slack: float, most: int) -> int:
    from diffprivlib import BudgetAccountant
    from diffprivlib.utils import BudgetError

    def fits(count: int) -> bool:
        accountant = BudgetAccountant(epsilon, delta, slack, spent_budget=[(once, at_once)] * (count - 1))
        accountant.spend(once, at_once)
        return True

    def tried(count: int) -> bool:
        try:
            return fits(count)
        except (BudgetError, ValueError):
            return False

    return most_that(tried, min(most, 20_000))


# ---- OpenDP ---------------------------------------------------------------------------------------------------------


def _opendp(part: Part, epsilon: float, delta: float, most: int) -> int:
    """A filter over pure epsilons, or one over zCDP whose rho is the most that OpenDP's own conversion takes to
    (epsilon, delta)."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if part.rate < 1:
        raise NotCovered("samples")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    match part.kind:
        case "laplace":
            once = dp.m.make_laplace(*space, scale=1 / part.size)
            return _through_filter(dp, once, dp.max_divergence(), epsilon, most)
        case "gaussian" | "discrete_gaussian":
            once = dp.m.make_gaussian(*space, scale=part.size)
            rho = _rho_of(dp, space, epsilon, delta)
            return _through_filter(dp, once, dp.zero_concentrated_divergence(), rho, most)
        case _:
            raise NotCovered(part.kind)


def _rho_of(dp: Any, space: tuple[Any, Any], epsilon: float, delta: float) -> float:
    """The most rho that OpenDP converts to at most (epsilon, delta)."""
    low, high = 0.0, 10 * epsilon
    for _ in range(60):
        rho = (low + high) / 2
        whole = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1 / math.sqrt(2 * rho)))
        low, high = (rho, high) if whole.map(1).epsilon(delta) <= epsilon else (low, rho)
    return low


def _through_filter(dp: Any, once: Any, measure: Any, budget: float, most: int) -> int:
    odometer = dp.c.make_fully_adaptive_composition(once.input_domain, once.input_metric, measure)
    queryable = dp.c.make_privacy_filter(odometer, d_in=1, d_out=budget)(0)
    for count in range(most):
        try:
            queryable(once)
        except dp.OpenDPException:
            return count
    return most


GATES = (
    Gate("OpenDP filter", "opendp", _opendp),
    Gate("diffprivlib BudgetAccountant", "diffprivlib", _diffprivlib),
    Gate("Opacus RDP", "opacus", _opacus("RDPAccountant")),
    Gate("Opacus PRV", "opacus", _opacus("PRVAccountant")),
    Gate("Opacus GDP", "opacus", _opacus("GaussianAccountant")),
)
