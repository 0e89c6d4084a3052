"""Exact profiles of finite losses, by counting every outcome, with directed rounding.

The outcomes of a loss with a values, run T times, are the C(T+a-1, a-1) ways to share T among the values; those of
several losses multiply. Where they are few, their masses and total losses are listed and delta(eps) is a sum: the
binomial sum of Kairouz-Oh-Viswanath 2015 and the enumeration of Murtagh-Vadhan 2016 are cases of it. Beside these stand
the profiles in closed form: neither needs a contour.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import SUBNORMAL, UNIT, Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import ClosedForm, Deltas, ListedLosses, Loss

__all__ = ["MANY_OUTCOMES", "Direct", "closed_form", "direct_deltas", "enumerated", "outcomes_of", "ratios"]

MOST_OUTCOMES = 1 << 15
MANY_OUTCOMES = 100_000  # where nothing else is narrow
LEAST_LOG_DELTA = -690.0  # of outcomes that are listed for every delta
MOST_TALLIES = 1 << 20  # counts that are laid out at once
_LAID_OUT = 1 << 16  # epsilons times outcomes, at once: they stay in the cache
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_FIRST = 24  # log n! by Stirling's series from here on: its error is below the next term, 1e-15


def enumerated(
    parts: tuple[tuple[Loss, int], ...], most: int = MOST_OUTCOMES, rare: float = 0.0
) -> ListedLosses | None:
    """Every outcome, where all losses are finite and the outcomes at most `most`; None otherwise. Values of a loss with
    a mass below `rare` are not listed."""
    size, beyond = 1, 0.0
    finite: list[tuple[FiniteLoss, int]] = []
    if not all(isinstance(part, FiniteLoss) for part, _ in parts):
        return None
    for part, count in parts:
        assert isinstance(part, FiniteLoss)
        loss, left_out = _without_rare(part, rare)
        if count + loss.losses.size > 2 * most:
            return None
        ways = math.comb(count + loss.losses.size - 1, min(loss.losses.size - 1, count))
        size *= ways
        if size > most or (count > 1 and ways * loss.losses.size > MOST_TALLIES):
            return None
        finite.append((loss, count))
        beyond += count * left_out
    whole = _outcomes(*finite[0])
    for loss, count in finite[1:]:
        whole = _joined(whole, _outcomes(loss, count))
    return whole if beyond == 0 else replace(whole, log_beyond=scalars.log(beyond) + 1e-9)


def _without_rare(loss: FiniteLoss, rare: float) -> tuple[FiniteLoss, float]:
    """The loss without its rare values, and at least their mass, given that the loss is finite."""
    kept = loss.masses >= rare
    if kept.all() or not kept.any():
        return loss, 0.0
    left_out = float(np.sum(loss.masses[~kept])) / (1 - loss.infinite_mass) * (scalars.exp(loss.log_error) + 1e-12)
    return replace(
        loss, losses=loss.losses[kept], masses=loss.masses[kept], loss_errors=loss.loss_errors[kept]
    ), left_out


@functools.lru_cache(maxsize=4)
def _outcomes(loss: FiniteLoss, count: int) -> ListedLosses:
    if count == 1:
        return _once(loss)
    tallies = _shares(count, loss.losses.size)
    log_finite = scalars.log1p(-loss.infinite_mass)
    log_each = elementary.log(loss.masses) - log_finite
    of_tallies = _log_factorials(count)
    ways = of_tallies[count] - np.sum(of_tallies[tallies], axis=1)
    sizes = of_tallies[count] + np.sum(of_tallies[tallies], axis=1) + elementary.product(tallies, np.abs(log_each) + 1)
    odds = loss.infinite_mass / (1 - loss.infinite_mass)
    each = loss.log_error + 4 * UNIT * (1 + odds)
    spread = UNIT * (16 + 2 * loss.losses.size)
    return ListedLosses(
        elementary.product(tallies, loss.losses),
        ways + elementary.product(tallies, log_each),
        elementary.product(tallies, loss.loss_errors + spread * np.abs(loss.losses)),
        spread * sizes + count * each,
    )


def _once(loss: FiniteLoss) -> ListedLosses:
    log_masses = elementary.log(loss.masses) - scalars.log1p(-loss.infinite_mass)
    odds = loss.infinite_mass / (1 - loss.infinite_mass)
    mass_errors = loss.log_error + 8 * UNIT * (1 + odds + np.abs(log_masses))
    return ListedLosses(loss.losses, log_masses, loss.loss_errors, mass_errors)


def _joined(left: ListedLosses, right: ListedLosses) -> ListedLosses:
    losses = np.add.outer(left.losses, right.losses).ravel()
    masses = np.add.outer(left.log_masses, right.log_masses).ravel()
    loss_sizes = np.add.outer(np.abs(left.losses), np.abs(right.losses)).ravel()
    mass_sizes = np.add.outer(np.abs(left.log_masses), np.abs(right.log_masses)).ravel()
    return ListedLosses(
        losses,
        masses,
        np.add.outer(left.loss_errors, right.loss_errors).ravel() + 2 * UNIT * loss_sizes,
        np.add.outer(left.mass_errors, right.mass_errors).ravel() + 2 * UNIT * mass_sizes,
    )


def _shares(count: int, values: int) -> npt.NDArray[np.int64]:
    """Every way to write `count` as an ordered sum of `values` whole numbers, one a row."""
    if 0 < count < values:
        chosen = np.array(list(itertools.combinations_with_replacement(range(values), count)), dtype=np.int64)
        tallies = np.zeros((len(chosen), values), dtype=np.int64)
        np.add.at(tallies, (np.arange(len(chosen))[:, None], chosen), 1)
        return tallies
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([count])
    for _ in range(values - 1):  # another value takes any part of what is left
        ways = left + 1
        row = np.repeat(np.arange(left.size), ways)
        taken = np.arange(row.size) - np.repeat(np.cumsum(ways) - ways, ways)
        rows, left = np.column_stack([rows[row], taken]), left[row] - taken
    return np.column_stack([rows, left])


def _log_factorials(last: int) -> Array:
    """log n!, n = 0..last, within 8 UNIT (1 + log n!)."""
    table = np.array([scalars.log(math.factorial(n)) for n in range(min(last + 1, _FIRST))])
    if last < _FIRST:
        return table
    n = np.arange(_FIRST, last + 1, dtype=np.float64)
    square = 1 / (n * n)
    series = (_STIRLING[0] + square * (_STIRLING[1] + square * (_STIRLING[2] + square * _STIRLING[3]))) / n
    return np.concatenate([table, (n + 0.5) * elementary.log(n) - n + scalars.log(2 * math.pi) / 2 + series])


def ratios(outcomes: ListedLosses, epsilons: Array, log_scale: float) -> tuple[Array, Array]:
    """Bounds of d(epsilon) / e^log_scale at each epsilon: the sum over outcomes of mass (1 - e^{epsilon - loss})_+.

    Claim: lower <= d / e^log_scale <= upper. Source: Dwork-Rothblum 2016 (delta as this mean).
    """
    size = max(1, _LAID_OUT // outcomes.losses.size)
    found = [
        _ratios(outcomes, epsilons[start : start + size, None], log_scale) for start in range(0, epsilons.size, size)
    ]
    if not found:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])


def _ratios(outcomes: ListedLosses, epsilons: Array, log_scale: float) -> tuple[Array, Array]:
    """Of a column of epsilons: a row each, with a column for every outcome."""
    gap = epsilons - outcomes.losses
    scaled = outcomes.log_masses - log_scale
    slack = outcomes.mass_errors + 4 * UNIT * (np.abs(scaled) + abs(log_scale) + 4)
    moved = outcomes.loss_errors + 2 * UNIT * (np.abs(outcomes.losses) + np.abs(epsilons))
    most = elementary.exp(np.minimum(scaled + slack, 700.0)) * -elementary.expm1(np.minimum(gap - moved, 0.0))
    least = elementary.exp(np.minimum(scaled - slack, 700.0)) * -elementary.expm1(np.minimum(gap + moved, 0.0))
    beyond = scalars.exp(min(outcomes.log_beyond - log_scale, 700.0))
    rounding = UNIT * (outcomes.losses.size + 16)
    terms = np.count_nonzero(gap < moved, axis=1) + (outcomes.log_beyond > -math.inf)
    lower, upper = np.sum(least, axis=1) * (1 - rounding), (np.sum(most, axis=1) + beyond) * (1 + rounding)
    return np.maximum(0.0, lower - terms * SUBNORMAL), upper + terms * SUBNORMAL


# ---- profiles that need no contour ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Direct:
    """The profile of a finite loss without a contour. `is_sharp`: nothing else could be narrower. `one_by_one`: as
    `ClosedForm`."""

    deltas: Deltas
    is_sharp: bool
    one_by_one: bool


def closed_form(composed: Composed) -> ClosedForm | None:
    """The profile of the finite loss in closed form: of one run, and of losses that are one together."""
    whole = composed.parts[0][0].joined(composed.parts)
    return None if whole is None else whole.closed


def direct_deltas(composed: Composed) -> Direct | None:
    """Where the finite loss has a profile in closed form or as a sum over few outcomes; None: a contour answers."""
    closed = closed_form(composed)
    if closed is not None:
        return Direct(closed.deltas, is_sharp=True, one_by_one=closed.one_by_one)
    outcomes = outcomes_of(composed, LEAST_LOG_DELTA)
    if outcomes is None:
        return None
    deltas = functools.partial(ratios, outcomes, log_scale=0.0)
    return Direct(deltas, is_sharp=outcomes.log_beyond == float("-inf"), one_by_one=False)


def outcomes_of(composed: Composed, log_delta: float) -> ListedLosses | None:
    """The outcomes of a finite loss, but for a mass that is small beside e^log_delta; None where they are too many."""
    if len(composed.parts) == 1:
        ((loss, count),) = composed.parts
        counted = loss.counted(count, log_delta)
        if counted is not None:
            return counted
    return enumerated(composed.parts)
