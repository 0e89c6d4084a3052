"""Would the random questions see a mistake? Each part of what makes an answer sound is left out in turn.

Two parts are not seen from outside, so conservative are their bounds: the truncation of the contour alone, and the
aliases of the lattice. Contours and lattices made on purpose with too few nodes see them (`test_engine_certificate`,
`test_lattice_engine`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import soundness
from ball_profiles import precision
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.composition import Composition
from dpledger.accounting.engine import saddle_point
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.connect_the_dots import upper_steps
from dpledger.accounting.engine.enumeration import ratios
from dpledger.accounting.engine.saddle_point import Contour
from dpledger.accounting.laws.law import ListedLosses
from dpledger.accounting.lowering import read_both_ways
from dpledger.accounting.pricing.pld_list import PldList, Ranges
from dpledger.errors import Contradiction
from dpledger.relations import Relation
from soundness import Question, Random, Tally

Stream = Callable[[Random], Iterator[Question]]
Patch = pytest.MonkeyPatch
QUESTIONS, MANY = 60, 600


def wrong_answers(streams: tuple[Stream, ...], questions: int) -> int:
    tally = Tally()
    with precision():
        for stream in streams:
            for question in itertools.islice(stream(np.random.default_rng(77)), questions):
                try:
                    tally.put(question)
                except Contradiction:  # bounds that cross are no bounds, and are refused
                    tally.wrong.append(question.of)
    return len(tally.wrong)


def after_construction(patch: Patch, change: Callable[[Any], None]) -> None:
    """Every contour is changed once it is made."""
    honest = Contour.__init__

    def made(self: Contour, *args: Any, **options: Any) -> None:
        honest(self, *args, **options)
        change(self)

    patch.setattr(Contour, "__init__", made)


def without_aliases(patch: Patch) -> None:
    patch.setattr(Contour, "_log_alias", lambda self, epsilon: -math.inf)


def larger_moments(patch: Patch) -> None:
    """K off by a billionth, upwards: the lower bounds suffer."""
    after_construction(patch, lambda line: setattr(line, "_log_front", line._log_front + 1e-9 * abs(line._log_front)))


def smaller_moments(patch: Patch) -> None:
    after_construction(patch, lambda line: setattr(line, "_log_front", line._log_front - 1e-9 * abs(line._log_front)))


def without_rounding_and_truncation(patch: Patch) -> None:
    def exact(line: Any) -> None:
        line._truncation, line._rounding, line._position_size, line._log_front_error = (0.0, 0.0), 0.0, 0.0, 0.0

    after_construction(patch, exact)


def without_the_bump_of_smoothing(patch: Patch) -> None:
    honest = saddle_point._line

    def plain(*place: Any) -> saddle_point.KernelLine:
        line = honest(*place)
        return replace(line, lower=line.upper)

    patch.setattr(saddle_point, "_line", plain)


def without_infinite_mass(patch: Patch) -> None:
    patch.setattr(Composed, "log_finite", 0.0)


def turned_round(patch: Patch) -> None:
    """Add for remove, remove for add."""

    def turned(
        tree: Composition, relation: Relation, ranges: Ranges, effort: int
    ) -> tuple[tuple[PldList, ...], tuple[PldList, ...]]:
        removed, added = read_both_ways(tree, relation, ranges, effort)
        return added, removed

    patch.setattr("dpledger.accounting.profile.read_both_ways", turned)


def counted_without_errors(patch: Patch) -> None:
    def middle(outcomes: ListedLosses, epsilons: Array, log_scale: float) -> tuple[Array, Array]:
        lower, upper = ratios(outcomes, epsilons, log_scale)
        return (lower + upper) / 2, (lower + upper) / 2

    patch.setattr("dpledger.accounting.engine.enumeration.ratios", middle)


def lattice_from_above_on_both_sides(patch: Patch) -> None:
    patch.setattr("dpledger.accounting.engine.lattice.lower_steps", upper_steps)


MUTANTS: list[tuple[Callable[[Patch], None], int, tuple[Stream, ...]]] = [
    (without_aliases, QUESTIONS, (soundness.dp_sgd, soundness.mixed)),
    (larger_moments, QUESTIONS, (soundness.dp_sgd, soundness.mixed)),
    (smaller_moments, QUESTIONS, (soundness.dp_sgd, soundness.mixed)),
    (without_rounding_and_truncation, MANY, (soundness.laplaces,)),
    (without_the_bump_of_smoothing, QUESTIONS, (soundness.bounded_range_with_responses, soundness.laplaces)),
    (without_infinite_mass, QUESTIONS, (soundness.gaussian_with_responses,)),
    (turned_round, QUESTIONS, (soundness.sampled_once, soundness.dp_sgd)),
    (counted_without_errors, QUESTIONS, (soundness.counted, soundness.responses)),
    (lattice_from_above_on_both_sides, QUESTIONS, (soundness.few_runs,)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mutate", "questions", "streams"), MUTANTS, ids=[mutant[0].__name__ for mutant in MUTANTS])
def test_what_is_left_out_is_seen(
    mutate: Callable[[Patch], None], questions: int, streams: tuple[Stream, ...], monkeypatch: Patch
) -> None:
    assert wrong_answers(streams, questions) == 0
    mutate(monkeypatch)
    assert wrong_answers(streams, questions) > 0


def test_aliases_left_out_are_seen(monkeypatch: Patch) -> None:
    """One of them in every run."""
    without_aliases(monkeypatch)
    assert wrong_answers((soundness.gaussian_with_responses,), 20) > 0
