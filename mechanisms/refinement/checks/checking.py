"""The check of accuracy first: AboveThreshold on the negated excess risk, or on the negated number of mistakes, with
room for what a grid does to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.decimals import add, exact, multiply, negative, round_down, round_up, subtract, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.grid import default_grid, on_grid
from dpledger.mechanisms.refinement.accuracy_plans import calibrated
from dpledger.mechanisms.refinement.checks.falling import Stages, room_of
from dpledger.mechanisms.refinement.checks.runs import FallingTests, SingleTests, Stage, Tests
from dpledger.mechanisms.refinement.erm import Problem
from dpledger.mechanisms.threshold.sparse_vector import SparseVector, thresholding
from dpledger.mechanisms.threshold.threshold_run import Thresholding

__all__ = ["MISTAKES_WHY", "QUERY_WHY", "Check", "WalkPlan", "check_of", "rate_check_of"]

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
class WalkPlan:
    """What is known of a walk beforehand: its number of `levels`, of which `kept` at most are tested. `stages`: those
    in which the noise of the check falls; None where it stays."""

    levels: int
    kept: int
    stages: Stages | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The tests. One unit moves what they ask by `moved` at most, on its grid, for the reason `why`; what passes is
    `slack` and more below its bound, but for noise. `tests`: those of the last stage, or of all levels. `stages`: where
    noise falls; `room`: how far above the threshold what may not pass is, in a scale of the last stage."""

    tests: Thresholding
    moved: Decimal
    slack: Decimal
    why: str
    stages: Stages | None = None
    room: Decimal = Decimal(0)

    def law(self, k: int) -> SparseVectorLaw:
        """What the tests of the first k levels are charged before they run."""
        law = self.tests.law
        if self.stages is None:
            return law
        ratio = self.stages.ratio(k)
        threshold = round_up(multiply(law.threshold_scale, ratio))
        query = round_up(multiply(law.query_scale, ratio))
        epsilon = round_up(1 / Fraction(threshold) + 2 / Fraction(query))
        return SparseVectorLaw("single_threshold", 1, epsilon, 0, threshold, query, falling=True)

    def begin(self, k: int, entropy: Entropy) -> Tests:
        """The tests of the first k levels."""
        if self.stages is None:
            return SingleTests(self.tests, entropy)
        last = self.stages.at(k)
        stages = tuple(
            Stage(end, round_down(Fraction(ratio) / Fraction(self.stages.ratios[last])), self._threshold(ratio))
            for end, ratio in zip(self.stages.ends[: last + 1], self.stages.ratios, strict=False)
        )
        return FallingTests(replace(self.tests, law=self.law(k)), stages, entropy)

    def _threshold(self, ratio: Decimal) -> int:
        """Of a stage, in steps of what is tested: what may not pass stays `room` of its scales below."""
        more = Fraction(self.room) * (Fraction(ratio) - 1) / Fraction(self.tests.scale.grid)
        return self.tests.threshold - math.floor(more)


def check_of(risk: Problem, *, target: Decimal, beta: Decimal, walk: WalkPlan) -> Check:
    """The check of hypotheses by their excess risk."""
    asked = _Asked("target_excess_risk", target, "more rows, or more regularisation")
    room = _Room(Fraction(risk.query_moved), QUERY_WHY, below=Decimal(0), alpha=target, off=risk.off)
    return _check(asked, room, beta, walk)


def rate_check_of(rows: int, *, target: Decimal, margin: Decimal, beta: Decimal, walk: WalkPlan) -> Check:
    """The check of classifiers by how many of `rows` rows they err on, one that one unit's row moves by at most one:
    none passes, but with beta, that errs on more than a share `target`."""
    asked = _Asked("target_error_rate", target, "more rows, or a larger error_margin")
    below = multiply(subtract(target, margin), rows)
    room = _Room(Fraction(1), MISTAKES_WHY, below=below, alpha=multiply(margin, rows), off=0.0)
    return _check(asked, room, beta, walk)


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


def _check(asked: _Asked, room: _Room, beta: Decimal, walk: WalkPlan) -> Check:
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
    found = calibrated(moved=float(moved), alpha=alpha, beta=float(beta), levels=walk.levels)
    if walk.stages is None:
        return _made(room, grid, moved, found.slack, found.epsilon, found.share, walk.kept)
    scale = alpha / found.ratio
    wide, least = 2 * found.share / (100 - found.share), (alpha - found.slack) / scale
    room_at_last = room_of(walk.stages, wide=wide, missed=found.missed, least=least)
    ratio = room_at_last + found.slack / scale
    epsilon = float(moved) / alpha * ratio * 100 / found.share
    last = _made(room, grid, moved, alpha - alpha / ratio * room_at_last, epsilon, found.share, walk.kept)
    return replace(last, stages=walk.stages, room=round_up(alpha / ratio * room_at_last, digits=_DIGITS))


def _made(room: _Room, grid: Decimal, moved: Decimal, slack: float, epsilon: float, share: int, queries: int) -> Check:
    above = round_up(slack, digits=_DIGITS)
    tests = SparseVector(
        epsilon=round_up(epsilon, digits=_DIGITS),
        cutoff=1,
        threshold=negative(add(room.below, above, grid, grid)),
        sensitivity=moved,
        mode="single_threshold",
        share=exact(Fraction(share, 100)),
        grid=grid,
        max_queries=queries,
        charged="above",
        justification=room.why,
    )
    return Check(tests=thresholding(tests), moved=moved, slack=above, why=room.why)
