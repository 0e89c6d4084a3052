"""What a search for accuracy first comes to: a problem, the levels of its chain, and the check that ends it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.decimals import round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.grid import default_grid
from dpledger.mechanisms.refinement.accuracy_plans import theories
from dpledger.mechanisms.refinement.checks import Check
from dpledger.mechanisms.refinement.erm import Problem
from dpledger.mechanisms.refinement.judged import named
from dpledger.mechanisms.refinement.levels import ChainNoise, Levels
from dpledger.mechanisms.threshold.epochs import SMALL
from dpledger.relations import Relation

__all__ = ["DIGITS", "AccuracyRun", "enough_for", "levels_for"]

DIGITS = 6  # of what follows from doubles and is no bound: the same on every machine
_ROUNDING = 64  # the statistic's own rounding to the grid is at most this part of its sensitivity
_FINE = 16  # the grid is at least so much finer than the finest noise
_ENOUGH = 4  # times the level of which theory promises the target: beyond it only the noise of the check can fail
_COARSE = 2**28  # steps of the coarsest noise by default: float64 decides nearly all of its draws


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyRun:
    """What is used: the first `kept` of the levels."""

    problem: Problem
    check: Check
    levels: Levels
    kept: int

    @property
    def power(self) -> int:
        """The grid has steps of 2^-power."""
        return Fraction(self.levels.plan.grid).denominator.bit_length() - 1

    @property
    def relation(self) -> Relation:
        return self.problem.relation

    @property
    def least(self) -> Decimal:
        return self.levels.least

    @property
    def most(self) -> Decimal:
        return self.levels.most

    @property
    def claim(self) -> PureDP | ApproxDP | ZCDP:
        return self.upto(self.kept)

    def upto(self, k: int) -> PureDP | ApproxDP | ZCDP:
        """The check and the first k levels."""
        return self.levels.claim(self.check.law(k), k)

    def price(self, k: int) -> Decimal:
        """What that takes of an account: of epsilons, or else of rho."""
        claim = self.upto(k)
        return claim.rho if isinstance(claim, ZCDP) else claim.epsilon


def enough_for(risk: Problem, alpha: Decimal) -> Decimal:
    """A level, epsilon or mu, finer than which none would pass either."""
    return round_up(_ENOUGH * min(level for _, level in theories(risk, float(alpha))), digits=DIGITS)


def levels_for(
    risk: Problem,
    *,
    noise: ChainNoise,
    rows: int,
    count: int,
    least: Decimal | None,
    most: Decimal,
    boundary: TimeUniformBoundary | None,
) -> Levels:
    """The levels from `least` (default: 1/rows, or the least whose noise is quick to draw) to `most`.

    Claim: one unit moves the statistic in steps of the grid by at most what the levels are made for: each of its
    entries is rounded, which adds at most a step. Source: docs/proofs/noise.md, section 5.
    ParameterError where noise is not drawn, or would take too many steps."""
    laplace = noise == "laplace"
    moved = Fraction(risk.moved)
    spread = risk.entries if laplace else math.isqrt(risk.entries - 1) + 1
    grid = default_grid(
        regularisation=moved * 1024 / (_ROUNDING * spread), most_epsilon=moved / Fraction(most) * 1024 / _FINE
    )
    quick = round_up((moved + spread * Fraction(grid)) / (Fraction(grid) * _COARSE), digits=DIGITS)
    least = least or max(round_up(Fraction(1, rows), digits=DIGITS), quick)
    levels = Levels(
        noise=noise,
        least=least,
        most=most,
        count=count,
        moved=risk.moved,
        entries=risk.entries,
        grid=grid,
        boundary=boundary,
        relation=risk.relation,
        suffix="_epsilon" if laplace else "_mu",
    )
    with named(f"least{levels.suffix}", least):
        levels.require_noise()
    if risk.largest_entry / float(grid) >= SMALL:
        expected = f"a smaller number: with its noise the statistic would have {SMALL} steps and more"
        raise ParameterError(f"most{levels.suffix}", str(most), expected)
    return levels
