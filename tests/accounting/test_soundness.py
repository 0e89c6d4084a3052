"""A hundred thousand random compositions, none of them with a bound on the wrong side of its exact answer.

What is exact: closed forms, residues, counts of outcomes, and contour integrals in ball arithmetic on other lines than
the engine's (tests/support: `ball_profiles`, `ball_contours`, `soundness`). A slice runs always, the whole in the slow
suite; docs/testing.md has the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import soundness
from ball_profiles import precision
from soundness import Question, Random, Tally

pytestmark = pytest.mark.sliced

Stream = Callable[[Random], Iterator[Question]]

BLOCK = 250
SLICE = 25  # of each kind, in every run
BLOCKS: dict[Stream, int] = {
    soundness.gaussians: 40,
    soundness.sampled_once: 60,
    soundness.vanishing: 4,
    soundness.laplaces: 24,
    soundness.responses: 24,
    soundness.gaussian_with_responses: 24,
    soundness.bounded_range_with_responses: 12,
    soundness.counted: 80,
    soundness.dp_sgd: 48,
    soundness.few_runs: 12,
    soundness.mixed: 80,
    soundness.many_distinct: 8,
    soundness.rare_jumps: 4,
    soundness.appended: 20,
    soundness.curves: 20,
}
NARROW = 0.95  # of the intervals of epsilon, at least: no bound is sound by saying nothing


def asked(stream: Stream, seed: int, questions: int) -> Tally:
    tally = Tally()
    with precision():
        for question in itertools.islice(stream(np.random.default_rng([20261121, seed])), questions):
            tally.put(question)
    return tally


def blocks() -> list[Any]:
    return [
        pytest.param(stream, block, id=f"{stream.__name__}-{block}", marks=pytest.mark.slow)
        for stream, most in BLOCKS.items()
        for block in range(1, most + 1)
    ]


@pytest.mark.parametrize("stream", BLOCKS, ids=lambda stream: stream.__name__)
def test_a_slice_of_every_kind(stream: Stream) -> None:
    tally = asked(stream, 0, SLICE)
    assert not tally.wrong
    assert tally.narrow >= NARROW * tally.epsilons


@pytest.mark.parametrize(("stream", "block"), blocks())
def test_no_bound_is_on_the_wrong_side(stream: Stream, block: int) -> None:
    tally = asked(stream, block, BLOCK)
    assert not tally.wrong
    assert tally.questions == BLOCK
    assert tally.narrow >= NARROW * tally.epsilons


def test_they_are_a_hundred_thousand() -> None:
    assert sum(BLOCKS.values()) * BLOCK >= 100_000


# ---- the oracles against others that share no code with them --------------------------------------------------------


def test_the_exact_profiles_are_those_of_other_oracles() -> None:
    """Written once for speed, in balls, and once plainly, at 60 digits."""
    import ball_profiles as balls
    import engine_oracles as plain
    from ball_profiles import ball
    from engine_oracles import mp, real

    with precision():
        tenth, third = ball("0.1"), ball("0.3")
        for at in ("-0.2", "0", "0.05", "0.29", "2"):
            pairs: list[tuple[balls.Profile, Any]] = [
                (balls.gaussian(third), plain.gaussian_delta(real("0.3"), real(at))),
                (balls.laplace(third, 1), plain.laplace_delta(real("0.3"), real(at))),
                (balls.bounded_range(third), plain.bounded_range_delta(real("0.3"), real(at))),
                (balls.Responses(tenth, 7), plain.binomial_delta(real("0.1"), 7, real(at))),
                *(
                    (
                        balls.sampled_gaussian(third, ball("0.8"), side),
                        plain.sampled_gaussian_delta(real("0.3"), real("0.8"), real(at), side),
                    )
                    for side in ("add", "remove")
                ),
                (
                    balls.Counted([(balls.approximate_pair(third, ball("1e-3")), 3)]),
                    plain.finite_delta([(plain.randomised_response(real("0.3"), real("1e-3")), 3)], real(at)),
                ),
            ]
            for profile, expected in pairs:
                found = profile(ball(at))
                assert found.rad() < 1e-50
                assert abs(mp.mpf(found.mid().str(50, radius=False)) - expected) < mp.mpf("1e-30")


@pytest.mark.parametrize("count", [2, 5, 11])
def test_one_laplace_more_is_a_mean_over_its_loss(count: int) -> None:
    """The residues of `count` from those of one fewer: E delta(eps - L), two atoms and a density."""
    from ball_profiles import ball, laplace
    from engine_oracles import mp, real

    def plain(profile: Callable[[Any], Any], at: Any) -> Any:
        return mp.mpf(profile(ball(mp.nstr(at, 60))).mid().str(60, radius=False))

    with precision():
        fewer, more = laplace(ball("0.3"), count - 1), laplace(ball("0.3"), count)
        e0, epsilon = real("0.3"), real("0.2")
        kinks = [epsilon - (count - 1 - 2 * j) * e0 for j in range(count)]
        ends = sorted({-e0, e0, *(kink for kink in kinks if -e0 < kink < e0)})
        mean = mp.quad(lambda x: mp.exp((x - e0) / 2) / 4 * plain(fewer, epsilon - x), ends)
        mean += plain(fewer, epsilon - e0) / 2 + mp.exp(-e0) / 2 * plain(fewer, epsilon + e0)
        assert abs(plain(more, epsilon) - mean) < mp.mpf("1e-25") * mean


def test_a_contour_in_balls_is_the_closed_form_where_there_is_one() -> None:
    from ball_contours import Gaussian, Line, OnLine
    from ball_profiles import ball, gaussian

    with precision():
        line = Line([(Gaussian("3"), 40)], 2.5)
        profile, exact = OnLine(line, [40]), gaussian(ball(40).sqrt() / 3)
        at = ball(line.saddle_epsilon([40]))
        assert abs(profile(at) - exact(at)) < ball("1e-14") * exact(at)


def test_an_answer_on_the_wrong_side_is_seen() -> None:
    """By a millionth, either end, either query."""
    with precision():
        question = next(soundness.gaussians(np.random.default_rng(1)))
        assert question.ask_epsilon is not None
        lower, upper = question.ask_epsilon(question.delta)
        off = 1e-6 * upper
        for wrong in ((lower - 2 * off, upper - off), (lower + off, upper + 2 * off)):
            tally = Tally()
            tally.put(Question("", question.exact, question.delta, 0.0, soundness.answered(*wrong), None))
            assert tally.wrong
        tally = Tally()
        tally.put(Question("", question.exact, question.delta, 0.0, None, lambda _: (0.0, 1e-300)))
        assert tally.wrong
