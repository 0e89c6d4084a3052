"""What is chosen and how often, and what that costs: by enumeration, against laws that are computed elsewhere."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from choice_oracle import probabilities
from dpledger.accounting.composition import ExponentialLaw, PermuteAndFlipLaw, RandomizedResponseLaw, Repeated
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, RandomizedResponse, Segments
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value

ADD, REPLACE, RECORD = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Unit("record")
KINDS: list[Any] = [ExponentialMechanism, PermuteAndFlip]


def chances(mechanism: Any, scores: object) -> list[float]:
    """The law of one release, by the oracle, from what the mechanism passes to its noise function."""
    steps, counts = mechanism._steps(scores)
    return probabilities(mechanism.law, steps.tolist(), counts)


def test_the_laws_are_those_of_the_sources() -> None:
    scores = (3, 2, 2, 0)
    flipped = chances(PermuteAndFlip(candidates=4, epsilon=1, sensitivity=1), scores)
    weighted = chances(ExponentialMechanism(candidates=4, epsilon=1, sensitivity=1), scores)
    assert flipped == pytest.approx([0.47423301, 0.22623663, 0.22623663, 0.07329374], abs=1e-8)
    assert weighted == pytest.approx([0.41047677, 0.24896674, 0.24896674, 0.09158975], abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_it_chooses_by_that_law(kind: Any) -> None:
    mechanism, runs = kind(candidates=4, epsilon=1, sensitivity=1), 10_000
    true = dict(enumerate(chances(mechanism, (3, 2, 2, 0))))
    twin = dict(enumerate(chances(kind(candidates=4, epsilon="1.6", sensitivity=1), (3, 2, 2, 0))))
    found = Counter(mechanism.sample((3, 2, 2, 0), runs, seeded(5)).tolist())
    assert events_p_value(found, runs, true) > SIGNIFICANCE
    assert events_p_value(found, runs, twin) < SIGNIFICANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("monotone", [False, True])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(kind: Any, monotone: bool) -> None:
    """All scores of three candidates from a small range, and all that a unit may make of them; epsilon is nearly
    attained."""
    mechanism = kind(candidates=3, epsilon=1, sensitivity="0.5", monotone=monotone)
    steps = (0.0, 0.5) if monotone else (-0.5, 0.0, 0.5)
    worst, span = 0.0, 0.0
    for scores in itertools.product((0.0, 4.0, 20.0), repeat=3):
        before = chances(mechanism, scores)
        for moves in itertools.product(steps, repeat=3):
            after = chances(mechanism, [score + move for score, move in zip(scores, moves, strict=True)])
            losses = [math.log(p / q) for p, q in zip(before, after, strict=True)]
            worst, span = max(worst, *map(abs, losses)), max(span, max(losses) - min(losses))
    assert 0.98 < worst <= 1 + 1e-12
    if kind is ExponentialMechanism:
        assert 0.98 < span <= 1 + 1e-12


@given(
    scores=st.lists(st.floats(-8, 8), min_size=2, max_size=5),
    moves=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    sensitivity=st.sampled_from(["1", "0.3", "0.0007"]),
)
@settings(max_examples=60)
def test_rounding_to_the_grid_is_paid_for(scores: list[float], moves: list[float], sensitivity: str) -> None:
    for kind in KINDS:
        mechanism = kind(candidates=len(scores), epsilon="0.7", sensitivity=sensitivity)
        scores = [score * float(Decimal(sensitivity)) for score in scores]
        near = [score + move * float(Decimal(sensitivity)) * (1 - 1e-9) for score, move in zip(scores, moves)]  # noqa: B905
        losses = [math.log(p / q) for p, q in zip(chances(mechanism, scores), chances(mechanism, near), strict=True)]
        assert max(map(abs, losses)) <= 0.7 + 1e-12


def test_monotone_scores_need_a_relation_that_keeps_them_so() -> None:
    for kind in KINDS:
        mechanism = kind(candidates=2, epsilon=1, sensitivity=1, monotone=True)
        assert mechanism.under(ADD, RECORD).parameters()["assumes"]
        for relation in (REPLACE, Relation.LABEL_FLIP):
            with pytest.raises(RelationError, match="monotone"):
                mechanism.under(relation, RECORD)
            with pytest.raises(RelationError, match="monotone"):
                kind(candidates=2, epsilon=1, sensitivity=1, monotone=True, relation=relation)


def test_what_it_promises_and_what_it_is_made_of() -> None:
    weighted, flipped = (kind(candidates=2, epsilon="0.5", sensitivity=1) for kind in KINDS)
    assert (weighted.claim(), weighted.parts()) == (BoundedRange("0.5"), ExponentialLaw("0.5"))
    assert (flipped.claim(), flipped.parts()) == (PureDP("0.5"), PermuteAndFlipLaw("0.5"))


@pytest.mark.parametrize("monotone", [False, True])
def test_permute_and_flip_is_dominated_by_laplace_noise(monotone: bool) -> None:
    """The profile of Laplace noise at distance epsilon is 1 - e^((t - epsilon) / 2); of two candidates some gap attains
    it, and of three none is above."""
    steps, nearest = (0.0, 0.5) if monotone else (-0.5, 0.5), math.inf
    few = itertools.product((0.0, 0.125, 0.25, 0.375, 0.5, 0.625), (0.0,))
    for scores in (*few, *itertools.product((0.0, 0.5, 4.0), repeat=3)):
        mechanism = PermuteAndFlip(
            candidates=len(scores), epsilon=1, sensitivity="0.5", grid="0.125", monotone=monotone
        )
        before = chances(mechanism, scores)
        for moves in itertools.product(steps, repeat=len(scores)):
            after = chances(mechanism, [score + move for score, move in zip(scores, moves, strict=True)])
            for t in (0.0, 0.3, 0.7):
                delta = sum(max(p - math.exp(t) * q, 0) for p, q in zip(before, after, strict=True))
                nearest = min(nearest, 1 - math.exp((t - 1) / 2) - delta)
    assert -1e-12 < nearest < 2e-3


# ---- many candidates ------------------------------------------------------------------------------------------------


def test_segments_are_candidates_in_a_row() -> None:
    for kind in KINDS:
        mechanism = kind(candidates=6, epsilon=2, sensitivity=1)
        apart = chances(mechanism, [1, 1, 3, 3, 3, 0])
        together = chances(mechanism, Segments([1, 3, 0], [2, 3, 1]))
        assert together == pytest.approx([sum(apart[:2]), sum(apart[2:5]), apart[5], 0.0])
        assert mechanism.release(Segments([1, 30, 0], [2, 3, 1]), entropy=seeded(1)).value in (2, 3, 4)


def test_segments_that_do_not_fit_are_read_in_one_way() -> None:
    mechanism = ExponentialMechanism(candidates=10, epsilon=2, missing=-3, sensitivity=1)
    for counts, read in (([4, 9], [4, 6, 0]), ([4, 2], [4, 2, 4]), ([-7, "x"], [0, 0, 10]), ([2.5, 1e300], [3, 7, 0])):
        scores, filled = mechanism._steps(Segments([1, 2], counts))
        assert filled == read
        assert scores[-1] * float(mechanism.under(ADD, RECORD).grid or 0) == -3


def test_segments_are_refused_where_candidates_have_names() -> None:
    with pytest.raises(ParameterError, match="names"):
        ExponentialMechanism(candidates=("a", "b"), epsilon=1, sensitivity=1).release(
            Segments([1], [2]), entropy=seeded(1)
        )
    for scores, counts in (([1], [1, 2]), ("ab", [1, 2]), ([1], 3), (np.zeros((1, 1)), [1])):
        with pytest.raises(ParameterError):
            Segments(scores, counts)


def test_what_is_chosen_is_hardly_ever_far_below_the_best() -> None:
    for kind in KINDS:
        mechanism = kind(candidates=5, epsilon=1, sensitivity=2)
        scores = [0.0, 3.0, 9.0, 11.0, 20.0]
        for beta in ("0.5", "0.05", "1e-3"):
            far = sum(
                p
                for p, score in zip(chances(mechanism, scores), scores, strict=True)
                if score < 20 - mechanism.loss(beta)
            )
            assert far <= float(beta)
        assert mechanism.loss("0.05") == pytest.approx(4 * math.log(100), rel=2e-3)
        with pytest.raises(ParameterError, match="beta"):
            mechanism.loss(1)


# ---- answers at random ----------------------------------------------------------------------------------------------


def test_every_answer_is_drawn_by_its_own_law() -> None:
    asked, runs = RandomizedResponse(answers=("a", "b", "c"), epsilon=1), 40_000
    kept, other = math.e / (math.e + 2), 1 / (math.e + 2)
    found = asked.sample(["b", "unknown"], runs, seeded(3))
    for column, true in ((0, 1), (1, 0)):
        counted = Counter(found[:, column].tolist())
        assert (
            events_p_value(counted, runs, {place: kept if place == true else other for place in range(3)})
            > SIGNIFICANCE
        )
        assert events_p_value(counted, runs, {true: kept + 0.03}) < SIGNIFICANCE


def test_a_unit_is_charged_for_each_of_its_rows() -> None:
    """Where their number is public: it is how many answers are published."""
    made, many = RandomizedResponse(answers=("no", "yes"), epsilon="0.3"), Unit("user", max_contributions=4)
    asked = made.under(Relation.LABEL_FLIP, many)
    assert asked.claim() == PureDP("1.2")
    assert asked.parts() == Repeated(RandomizedResponseLaw("0.3", k=2), times=4)
    for relation, unit in ((ADD, RECORD), (ADD, many), (REPLACE, many), (Relation.ZERO_OUT, many)):
        with pytest.raises(RelationError, match=f"under {relation}"):
            made.under(relation, unit)
        with pytest.raises(RelationError, match=f"under {relation}"):
            RandomizedResponse(answers=("no", "yes"), epsilon=1, relation=relation, unit=unit)


def test_counts_are_estimated_without_bias() -> None:
    asked, rows = RandomizedResponse(answers=("a", "b", "c"), epsilon="0.8"), ["a"] * 3 + ["b"] * 2
    chance = [np.exp(0.8 * (np.arange(3) == place)) / (np.exp(0.8) + 2) for place in (0, 0, 0, 1, 1)]
    mean = np.zeros(3)
    for published in itertools.product(range(3), repeat=5):
        weight = math.prod(row[place] for row, place in zip(chance, published, strict=True))
        mean += weight * np.array(asked.estimate([asked.answers[place] for place in published]))
    assert mean == pytest.approx([rows.count(answer) for answer in asked.answers])
    assert RandomizedResponse(answers=("a", "b"), epsilon=10_000).estimate(["a", "a", "b"]) == (2.0, 1.0)
    with pytest.raises(ParameterError, match="published"):
        asked.estimate(["d"])
