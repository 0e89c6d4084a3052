"""The check of accuracy first: AboveThreshold on the negated excess risk, with room for what a grid does to it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.decimals import add, exact, negative, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.grid import default_grid, on_grid
from dpledger.mechanisms.refinement.accuracy_plans import calibrated
from dpledger.mechanisms.refinement.erm import Problem
from dpledger.mechanisms.threshold.sparse_vector import SparseVector, thresholding
from dpledger.mechanisms.threshold.threshold_run import Thresholding

__all__ = ["QUERY_WHY", "Check", "check_of"]

QUERY_WHY = (
    "R/n for each row that a unit takes part with, R the largest loss in the ball, or what a label does to one there; "
    "errors of solver, rounding"
)
"""Why an excess risk moves by no more than is said."""

_DIGITS = 6  # of what follows from doubles and is no bound: the same on every machine
_STEPS = 6  # of the query's grid: what rounding and discrete noise cost the check in accuracy, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The tests; `moved` is how far one unit moves the excess risk on its grid, -`slack` the threshold."""

    tests: Thresholding
    moved: Decimal
    slack: Decimal


def check_of(risk: Problem, *, target: Decimal, beta: Decimal, levels: int, queries: int) -> Check:
    """The check of at most `queries` hypotheses, calibrated for `levels` of them.

    Claim: calibrated for continuous noise at an alpha that is smaller by what rounding the queries and the threshold,
    and discrete noise (stochastically at most a step larger), can add, the check keeps beta.
    Source: docs/proofs/accuracy_first.md, section 4."""
    grid = default_grid(rows=Fraction(risk.query_moved))
    moved = on_grid(risk.query_moved, grid)
    alpha = float(target) - _STEPS * float(grid) - risk.off
    if not alpha > 0:
        expected = f"a number well above {moved}, which one unit moves it by: more rows, or more regularisation"
        raise ParameterError("target_excess_risk", str(target), expected)
    found = calibrated(moved=float(moved), alpha=alpha, beta=float(beta), levels=levels)
    slack = round_up(found.slack, digits=_DIGITS)
    tests = SparseVector(
        epsilon=round_up(found.epsilon, digits=_DIGITS),
        cutoff=1,
        threshold=negative(add(slack, grid, grid)),
        sensitivity=moved,
        mode="single_threshold",
        share=exact(Fraction(found.share, 100)),
        grid=grid,
        max_queries=queries,
        charged="above",
        justification=QUERY_WHY,
    )
    return Check(tests=thresholding(tests), moved=moved, slack=slack)
