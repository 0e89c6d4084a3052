"""Choices: exactly their laws, whichever path decides; segments as if they were spelt out; total in the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from choice_oracle import probabilities, winner_from_words
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import (
    ExponentialWeights,
    PermuteAndFlipChoice,
    RandomizedAnswer,
    Sensitivity,
    Weighted,
    choose,
    exponent_for,
    recording,
    replaying,
    respond,
)
from dpledger.mechanisms.noise.exponential_race import race
from exact_tests import SIGNIFICANCE, events_p_value
from noise_oracle import WordList

pytestmark = pytest.mark.sliced

NEVER_SURE = 1e30  # widens the error bounds so far that exact arithmetic decides every race
ONE = Sensitivity(1, "linf", "a record changes each score by at most one")
LAWS: list[type[ExponentialWeights] | type[PermuteAndFlipChoice]] = [ExponentialWeights, PermuteAndFlipChoice]


def chosen(law: Weighted, scores: Any, *, seed: int = 1, counts: Any = None) -> int:
    return choose(law, scores, sensitivity=ONE, entropy=seeded(seed), counts=counts)


def found_in(law: Weighted, scores: Sequence[int], *, counts: Sequence[int] | None = None, trials: int) -> list[int]:
    """How often each segment was chosen."""
    entropy = seeded(31)
    ends = np.cumsum(counts or [1] * len(scores))
    places = [choose(law, scores, sensitivity=ONE, entropy=entropy, counts=counts) for _ in range(trials)]
    found: list[int] = np.bincount(np.searchsorted(ends, places, side="right"), minlength=len(scores)).tolist()
    return found


def p_value(counted: list[int], law: list[float]) -> float:
    return events_p_value(dict(enumerate(counted)), sum(counted), dict(enumerate(law)))


# ---- the laws -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize(
    ("scores", "counts"),
    [([3, 2, 2, 0], None), ([0], None), ([-1, 4, 4, 4, 0], None), ([3, 2, 0], [1, 2, 3]), ([5, 5, 1], [2, 0, 4])],
)
def test_choices_follow_the_law_and_not_one_that_is_two_fifths_sharper(
    make: Any, scores: list[int], counts: list[int] | None
) -> None:
    law = probabilities(make("0.5"), scores, counts)
    assert p_value(found_in(make("0.5"), scores, counts=counts, trials=6_000), law) > SIGNIFICANCE
    if len(scores) > 1 and counts != [2, 0, 4]:
        assert p_value(found_in(make("0.7"), scores, counts=counts, trials=6_000), law) < SIGNIFICANCE


def test_the_oracles_are_the_published_numbers() -> None:
    assert probabilities(PermuteAndFlipChoice("0.5"), [3, 2, 2, 0]) == pytest.approx(
        [0.47423301, 0.22623663, 0.22623663, 0.07329374], abs=1e-8
    )
    assert probabilities(ExponentialWeights("0.5"), [-2, -1, 0, -1]) == pytest.approx(
        [0.142536956597, 0.235003712202, 0.387455619000, 0.235003712202], abs=1e-12
    )
    median = probabilities(ExponentialWeights("0.5"), [-4, -3, -2, -3, -4], [1, 1, 1, 3, 1])
    assert median == pytest.approx(
        [0.088392579005, 0.145734725178, 0.240275941280, 3 * 0.145734725178, 0.088392579005], abs=1e-11
    )


@settings(max_examples=60, deadline=None)
@given(
    make=st.sampled_from(LAWS),
    exponent=st.decimals("1e-6", "1e3", places=6),
    segments=st.lists(
        st.tuples(
            st.integers(-(10**6), 10**6) | st.integers(-3, 3),
            st.integers(0, 5) | st.integers(1, 2**80) | st.integers(1, 2**1000),
        ),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 2**32),
)
def test_both_paths_choose_as_the_definition_does(
    make: Any, exponent: Decimal, segments: list[tuple[int, int]], seed: int
) -> None:
    """Draw by draw: floats, exact arithmetic, and mpmath from the same words agree on who won the race."""
    scores, counts = [score for score, _ in segments], [count for _, count in segments]
    if not sum(counts):
        return
    law, row, many = make(exponent), np.array(scores), np.array(counts, dtype=object)
    fast = race(law, row, many, seeded(seed))
    assert fast == race(law, row, many, seeded(seed), coarse=NEVER_SURE)
    standing = [place for place, count in enumerate(counts) if count]
    words = seeded(seed).words(len(counts)).tolist()
    expected = winner_from_words(
        law, [scores[i] for i in standing], [counts[i] for i in standing], [words[i] for i in standing]
    )
    assert expected is None or standing[expected] == fast


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("coarse", [2.0**30, 2.0**36, 2.0**40])
def test_any_hand_over_between_the_paths_gives_the_same_choices(make: Any, coarse: float) -> None:
    scores = np.arange(500) % 7
    for seed in range(40):
        sure, unsure = (race(make("0.3"), scores, None, seeded(seed), coarse=c) for c in (1.0, coarse))
        assert sure == unsure


@pytest.mark.parametrize("make", LAWS)
def test_a_candidate_of_tiny_probability_can_win(make: Any) -> None:
    """Its weight is e^-800, which a float softmax makes zero: a loss that is infinite in place of epsilon. Here the
    words that let it win are just as rare as they should be."""
    assert math.exp(-800) == 0.0
    words = [2**63, *[0] * 40]
    assert race(make(800), np.array([1, 0]), None, WordList(np.array(words, dtype=np.uint64), seeded(1))) == 1
    fewer = [2**63, *[0] * 20]
    assert race(make(800), np.array([1, 0]), None, WordList(np.array(fewer, dtype=np.uint64), seeded(1))) == 0


def test_the_functions_keep_the_accuracy_that_the_tolerances_assume() -> None:
    """Assumed: 2^-46. Measured on the arguments that the race uses."""
    with mp.workdps(40):
        u = 2.0 ** -(8 + 56 * np.random.default_rng(5).random(1500))
        for function, exactly in [(np.log1p, mp.log1p), (np.expm1, mp.expm1), (np.exp, mp.exp)]:
            arguments = np.concatenate([-u, -45 * u, -np.random.default_rng(6).random(1500)])
            worst = max(
                abs(mp.mpf(float(value)) / exactly(mp.mpf(float(x))) - 1)
                for x, value in zip(arguments, function(arguments), strict=True)
            )
            assert worst < 2.0**-50


def test_a_twin_that_rounds_its_weights_is_caught() -> None:
    """A cumulative float softmax over many equal scores below one good one: the last cells get what rounding leaves."""

    def softmax(scores: list[int], u: float) -> int:
        weights = np.exp(np.array(scores) * 40.0 - 40.0 * max(scores))
        return int(np.searchsorted(np.cumsum(weights) / weights.sum(), u, side="right"))

    scores = [1] + [0] * 10
    assert {softmax(scores, 1 - 2.0**-k) for k in range(1, 54)} == {0}  # the others are never chosen
    true = probabilities(ExponentialWeights(40), scores)
    assert sum(true[1:]) > 0
    words = [2**64 - 2**20, *[2**63] * 4, 2**10, *[2**63] * 5]  # E = 30 for the best, 2^-54 for the sixth
    source = WordList(np.array(words, dtype=np.uint64), seeded(1))
    assert race(ExponentialWeights(40), np.array(scores), None, source) == 5


# ---- segments, sizes, words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LAWS)
def test_within_a_segment_every_candidate_is_as_likely(make: Any) -> None:
    entropy = seeded(5)
    places = [
        choose(make(1), [0, 1], sensitivity=ONE, entropy=entropy, counts=[10**6, 2**64]) - 10**6 for _ in range(4000)
    ]
    octants = [place >> 61 for place in places if place >= 0]
    counts = {octant: octants.count(octant) for octant in range(8)}
    assert events_p_value(counts, len(octants), dict.fromkeys(range(8), 1 / 8)) > SIGNIFICANCE
    assert len({place % 1000 for place in places}) > 900


@pytest.mark.parametrize("make", LAWS)
def test_a_class_of_two_to_the_thousand_is_chosen_from(make: Any) -> None:
    place = chosen(make(1), [0, -5], counts=[1, 2**1000])
    assert 2**900 < place <= 2**1000
    assert chosen(make(1), [0, -5000], counts=[1, 2**1000]) == 0  # e^-5000 2^1000 < e^-4000


@pytest.mark.parametrize("make", LAWS)
def test_a_class_of_any_size_is_chosen_from_at_once(make: Any) -> None:
    """Found: a count of more than 4300 digits raised ValueError; one a little smaller took seconds."""
    huge = 10**20_000
    assert huge // 10**30 < chosen(make(1), [0, 10**20_000], counts=[huge, huge]) <= 2 * huge
    assert chosen(make("1e-60"), [0, -(10**5000)], counts=[1, huge]) == 0


@pytest.mark.parametrize("make", LAWS)
def test_a_score_that_nobody_has_changes_nothing_however_large_it_is(make: Any) -> None:
    """Found: OverflowError above e^709, a refusal that depends on the data."""
    for score in (10**400, -(10**400), 2**63 - 1, -(2**63)):
        assert {chosen(make(1), [score, 7], counts=[0, 1], seed=seed) for seed in range(5)} == {0}


@pytest.mark.parametrize("make", LAWS)
def test_masked_candidates_run_like_all_others(make: Any) -> None:
    """Found: numpy's best of a masked array was not the best, and the gap of the best wrapped."""
    masked = np.ma.masked_array([0, 1000, 3], mask=[False, True, False])
    assert {chosen(make(1), masked, seed=seed) for seed in range(20)} == {1}


@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(st.integers(-(2**200), 2**200) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
    make=st.sampled_from(LAWS),
)
def test_no_score_raises(scores: list[int], make: Any) -> None:
    assert chosen(make(1), scores) in range(len(scores))
    far = max(scores) - 1000
    assert scores[chosen(make(1), scores)] > far


@pytest.mark.parametrize(
    "scores",
    [
        np.array([-(2**63), 2**63 - 1]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([-100, 100], dtype=np.int8),
        np.array([0, 10**30], dtype=object),
    ],
)
def test_gaps_never_wrap(scores: np.ndarray[Any, Any]) -> None:
    assert {chosen(ExponentialWeights(1), scores, seed=seed) for seed in range(20)} == {1}


@pytest.mark.parametrize("make", LAWS)
def test_how_many_words_are_drawn_does_not_depend_on_the_scores(make: Any) -> None:
    for scores, counts, words in [
        ([0, 0, 0], None, 3),
        ([0, 10**9, -5], None, 3),
        ([0, 1, 2], [1, 2**70, 5], 3 + 3),
        ([9, 1, 9], [2**70, 1, 5], 3 + 3),
    ]:
        source = WordList(np.zeros(0, dtype=np.uint64), seeded(3))
        choose(make(1), scores, sensitivity=ONE, entropy=source, counts=counts)
        assert source.asked == words


def test_many_candidates_of_one_score_are_all_reached() -> None:
    places = [chosen(ExponentialWeights(1), np.zeros(200_000, dtype=int), seed=seed) for seed in range(40)]
    thirds = {third: sum(place * 3 // 200_000 == third for place in places) for third in range(3)}
    assert events_p_value(thirds, 40, dict.fromkeys(range(3), 1 / 3)) > SIGNIFICANCE
    assert len(set(places)) == 40


# ---- the privacy of it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("monotone", [False, True])
def test_the_exponent_gives_epsilon_and_no_less_noise_than_needed(make: Any, monotone: bool) -> None:
    """All score vectors in a small box, moved by up to one in each entry (in one direction if monotone)."""
    law = make(exponent_for(1, sensitivity=1, monotone=monotone))
    worst = 0.0
    for base in np.ndindex(3, 3, 3):
        for move in np.ndindex(2, 2, 2) if monotone else np.ndindex(3, 3, 3):
            left = np.array(base) * 4
            right = left + np.array(move) - (0 if monotone else 1)
            p, q = probabilities(law, left.tolist()), probabilities(law, right.tolist())
            worst = max(worst, *(abs(math.log(a / b)) for a, b in zip(p, q, strict=True)))
    assert 0.9 < worst <= 1 + 1e-12


def test_an_exponent_is_rounded_down() -> None:
    third = exponent_for(1, sensitivity=3, monotone=True)
    assert Fraction(third) < Fraction(1, 3) < Fraction(third) + Fraction(1, 10**11)
    assert exponent_for("0.5", sensitivity=1) == Decimal("0.25")
    for bad in (0, -1, float("nan"), None):
        with pytest.raises(ParameterError, match="epsilon"):
            exponent_for(bad, sensitivity=1)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="sensitivity"):
            exponent_for(1, sensitivity=bad)  # type: ignore[arg-type]


# ---- random answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 5, 2**32])
def test_answers_are_true_as_often_as_they_should_be(k: int) -> None:
    law, people = RandomizedAnswer("1.5", k=k), 200_000
    answers = respond(law, np.full(people, k - 1), entropy=seeded(6))
    truth = float(mp.exp("1.5") / (mp.exp("1.5") + k - 1))
    counted = {0: int((answers == k - 1).sum()), 1: int((answers < k // 2).sum())}
    assert events_p_value(counted, people, {0: truth, 1: (k // 2) * (1 - truth) / (k - 1)}) > SIGNIFICANCE
    twin = respond(RandomizedAnswer("1.6", k=k), np.full(people, k - 1), entropy=seeded(7))
    if k < 10:
        counted[0] = int((twin == k - 1).sum())
        assert events_p_value(counted, people, {0: truth}) < SIGNIFICANCE
    assert answers.min() >= 0
    assert answers.max() < k


def test_one_answer_and_many_are_the_same_law_on_the_same_words() -> None:
    law = RandomizedAnswer(1, k=3)
    singles = [respond(law, 2, entropy=seeded(seed)) for seed in range(50)]
    assert singles == [int(respond(law, np.array([2]), entropy=seeded(seed))[0]) for seed in range(50)]
    assert respond(law, np.zeros((2, 3), dtype=np.int8), entropy=seeded(0)).shape == (2, 3)


def test_what_is_no_answer_is_read_as_the_nearest_that_is() -> None:
    law = RandomizedAnswer(40, k=300)
    odd = np.array([-5, 700, 2, -(2**63)])
    assert respond(law, odd, entropy=seeded(1)).tolist() == [0, 299, 2, 0]
    assert respond(law, np.array([2**64 - 1], dtype=np.uint64), entropy=seeded(1)).tolist() == [299]
    assert respond(law, np.array([5, -5], dtype=np.int8), entropy=seeded(1)).tolist() == [5, 0]
    assert respond(law, 10**30, entropy=seeded(1)) == 299
    for bad in (1.0, True, "1", None, np.array([0.5])):
        with pytest.raises(ParameterError, match="answer"):
            respond(law, bad, entropy=seeded(1))  # type: ignore[arg-type]


def test_an_answer_that_is_all_but_certain_is_drawn_at_once() -> None:
    assert respond(RandomizedAnswer("9e17", k=3), 1, entropy=seeded(1)) == 1


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, True, 2**32 + 1])
def test_there_are_at_least_two_answers(k: Any) -> None:
    with pytest.raises(ParameterError, match="k"):
        RandomizedAnswer(1, k=k)


# ---- parameters, log -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "counts", "field"),
    [
        ([], None, "scores"),
        ([1.0], None, "scores"),
        ([True], None, "scores"),
        (np.array([[1, 2]]), None, "scores"),
        (np.array([1.5]), None, "scores"),
        (3, None, "scores"),
        ([1, 2], [1], "counts"),
        ([1, 2], [0, 0], "counts"),
        ([1, 2], [1, -1], "counts"),
        ([1, 2], [1, 0.5], "counts"),
    ],
)
def test_what_is_no_row_of_candidates_is_refused(scores: Any, counts: Any, field: str) -> None:
    with pytest.raises(ParameterError, match=field):
        chosen(ExponentialWeights(1), scores, counts=counts)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None, True])
def test_laws_of_choice_refuse_what_is_no_exponent(bad: Any) -> None:
    for make in LAWS:
        with pytest.raises(ParameterError, match="exponent"):
            make(bad)


def test_a_law_and_a_sensitivity_are_needed() -> None:
    with pytest.raises(ParameterError, match="law"):
        chosen("weights", [1])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="law"):
        respond(ExponentialWeights(1), 1, entropy=seeded(1))  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="sensitivity"):
        choose(ExponentialWeights(1), [1], sensitivity=1, entropy=seeded(1))  # type: ignore[arg-type]


def test_choices_are_in_the_log_and_replayed_on_other_scores() -> None:
    def run(scores: list[int], seed: int) -> list[int]:
        entropy = seeded(seed)
        return [
            choose(ExponentialWeights(1), scores, sensitivity=ONE, entropy=entropy),
            choose(PermuteAndFlipChoice(1), scores, sensitivity=ONE, entropy=entropy, counts=[5] * len(scores)),
            respond(RandomizedAnswer(1, k=4), scores[0], entropy=entropy),
        ]

    with recording() as draws:
        recorded = run([3, 1, 2], 1)
    with replaying(draws) as again:
        assert run([0, 1, 9], 2) == recorded
    assert [draw.output for draw in draws] == recorded
    assert [draw.size for draw in draws] == [3, 15, 1]
    assert np.asarray(again[0].value).tolist() == [0, 1, 9]
    assert [part.tolist() for part in again[1].value] == [[0, 1, 9], [5, 5, 5]]
    with replaying(draws):
        assert run([0, 1, 9, 9], 2)[0] in range(4)  # another number of candidates: chosen afresh
