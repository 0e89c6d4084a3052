"""The check of accuracy first: AboveThreshold on the negated excess risk, or on the negated number of mistakes, with
room for what a grid does to it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.decimals import add, exact, multiply, negative, round_up, subtract, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.grid import default_grid, on_grid
from dpledger.mechanisms.refinement.accuracy_plans import calibrated
from dpledger.mechanisms.refinement.erm import Problem
from dpledger.mechanisms.threshold.sparse_vector import SparseVector, thresholding
from dpledger.mechanisms.threshold.threshold_run import Thresholding

__all__ = ["MISTAKES_WHY", "QUERY_WHY", "Check", "check_of", "rate_check_of"]

QUERY_WHY = (
    "R/n for each row that a unit takes part with, R the largest loss in the ball, or what a label does to one there; "
    "errors of solver, rounding"
)
"""Why an excess risk moves by no more than is said."""
MISTAKES_WHY = "whether a hypothesis errs on a row follows from that row alone, and a unit has one"
"""Why a number of mistakes does."""

_DIGITS = 6  # of what follows from doubles and is no bound: the same on every machine
_STEPS = 6  # of the query's grid: what rounding and discrete noise cost the check in accuracy, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The tests. One unit moves what they ask by `moved` at most, on its grid, for the reason `why`; what passes is
    `slack` and more below its bound, but for noise."""

    tests: Thresholding
    moved: Decimal
    slack: Decimal
    why: str


def check_of(risk: Problem, *, target: Decimal, beta: Decimal, levels: int, queries: int) -> Check:
    """The check of at most `queries` hypotheses by their excess risk, calibrated for `levels` of them."""
    asked = _Asked("target_excess_risk", target, "more rows, or more regularisation")
    room = _Room(Fraction(risk.query_moved), QUERY_WHY, below=Decimal(0), alpha=target, off=risk.off)
    return _check(asked, room, beta, levels, queries)


def rate_check_of(rows: int, *, target: Decimal, margin: Decimal, beta: Decimal, levels: int, queries: int) -> Check:
    """The check of at most `queries` classifiers by how many of `rows` rows they err on, one that one unit's row moves
    by at most one: none passes, but with beta, that errs on more than a share `target`."""
    asked = _Asked("target_error_rate", target, "more rows, or a larger error_margin")
    below = multiply(subtract(target, margin), rows)
    room = _Room(Fraction(1), MISTAKES_WHY, below=below, alpha=multiply(margin, rows), off=0.0)
    return _check(asked, room, beta, levels, queries)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parameter that says what may pass, and what else `helps` where it leaves no room."""

    field: str
    value: Decimal
    helps: str


@dataclass(frozen=True, slots=True)
class _Room:
    """Of a query that one unit `moves` by so much: up to `below` it is as it should be, beyond by `alpha` it may not
    pass. What is computed of it is `off` by at most so much."""

    moves: Fraction
    why: str
    below: Decimal
    alpha: Decimal
    off: float


def _check(asked: _Asked, room: _Room, beta: Decimal, levels: int, queries: int) -> Check:
    """A check with this room.

    Claim: calibrated for continuous noise at an alpha that is smaller by what rounding the queries and the threshold,
    and discrete noise (stochastically at most a step larger), can add, the check keeps beta.
    Source: docs/proofs/accuracy_first.md, section 4."""
    grid = default_grid(rows=room.moves)
    moved = on_grid(exact(room.moves), grid)
    alpha = float(room.alpha) - _STEPS * float(grid) - room.off
    if not alpha > 0:
        expected = f"a number that leaves more room than what one unit moves: {asked.helps}"
        raise ParameterError(asked.field, text(asked.value), expected)
    found = calibrated(moved=float(moved), alpha=alpha, beta=float(beta), levels=levels)
    slack = round_up(found.slack, digits=_DIGITS)
    tests = SparseVector(
        epsilon=round_up(found.epsilon, digits=_DIGITS),
        cutoff=1,
        threshold=negative(add(room.below, slack, grid, grid)),
        sensitivity=moved,
        mode="single_threshold",
        share=exact(Fraction(found.share, 100)),
        grid=grid,
        max_queries=queries,
        charged="above",
        justification=room.why,
    )
    return Check(tests=thresholding(tests), moved=moved, slack=slack, why=room.why)
