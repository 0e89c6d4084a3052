"""Chains: each level exactly its law, all levels together as revealing as the last, whatever the scales depended on."""

from __future__ import annotations

import itertools
import math
import os
import pickle
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from chain_oracle import coarsening_keeps, continuous_joint_cdf, discrete_joint, discrete_laplace
from dpledger.errors import ParameterError, PolicyError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Refinement,
    RoundedLaplace,
    Sensitivity,
    chain,
    draw,
    recording,
    replaying,
)
from dpledger.mechanisms.noise.noise_chains import LaplacePath, path
from exact_tests import SIGNIFICANCE, binomial_p_value, cumulative_p_value, events_p_value
from forking import ignores_fork_warnings, in_child
from noise_oracle import cdf_of
from threads import Interrupted, together

pytestmark = pytest.mark.sliced

NEVER_SURE = 1e30
ONE = Sensitivity(1, "l1", "a record changes a count by one")
CHAINS = 60_000
Cells = npt.NDArray[Any]
Levels = tuple[Cells, Cells]


def levels_of(finest: Any, *scales: Any, seed: int = 1, chains: int = CHAINS) -> list[Cells]:
    """Of many chains, the noise of each level."""
    one = chain(finest, np.zeros(chains, dtype=np.int64), sensitivity=ONE, entropy=seeded(seed))
    return [one.refine(scale) for scale in scales]


# ---- marginals ------------------------------------------------------------------------------------------------------

POINTS = [-30, -12, -5, -1, 0, 2, 6, 14, 30]


@pytest.mark.parametrize(
    "finest", [DiscreteLaplace("0.4"), RoundedLaplace("0.4", grid="0.5")], ids=lambda law: law.kind
)
def test_every_level_has_its_law_and_not_a_narrower_one(finest: Any) -> None:
    scales = [Decimal(20), Decimal("7.5"), Decimal("0.9"), Decimal("0.4")]
    for scale, noise in zip(scales, levels_of(finest, *scales), strict=True):
        law, mutant = (
            DiscreteLaplace(s) if finest.kind == "discrete_laplace" else RoundedLaplace(s, grid=finest.grid)
            for s in (scale, scale * Decimal("1.06"))
        )
        points = POINTS if scale > 5 else [-4, -2, -1, 0, 1, 3]
        assert cumulative_p_value(noise, cdf_of(law), points) > SIGNIFICANCE
        assert cumulative_p_value(noise, cdf_of(mutant), points) < SIGNIFICANCE


@pytest.mark.parametrize(("scale", "finer"), [(4, 2), (2, "0.5"), (10, 9)])
def test_a_level_stays_with_the_square_of_the_ratio_of_scales(scale: Any, finer: Any) -> None:
    """Continuous noise, on a grid so fine that two levels in one cell are one number."""
    older, newer = levels_of(RoundedLaplace(finer, grid=2.0**-20), scale, finer)
    r = float(Fraction(finer) / Fraction(scale))
    stayed = int((older == newer).sum())
    assert binomial_p_value(stayed, CHAINS, r * r) > SIGNIFICANCE
    assert binomial_p_value(stayed, CHAINS, r) < SIGNIFICANCE  # the first of the faulty variants


# ---- two levels -----------------------------------------------------------------------------------------------------

OLD, NEW = 3, 2  # the scales of the discrete levels


def p_value(levels: Levels, law: Callable[[int, int], float]) -> float:
    """That pairs of levels have this joint law: every cell near the middle."""
    cells = list(itertools.product(range(-4, 5), repeat=2))
    older, newer = levels
    counts = {i: int(((older == x) & (newer == y)).sum()) for i, (x, y) in enumerate(cells)}
    return events_p_value(counts, len(older), {i: law(x, y) for i, (x, y) in enumerate(cells)})


def online(seed: int) -> Levels:
    older, newer = levels_of(DiscreteLaplace(NEW), OLD, NEW, seed=seed, chains=CHAINS)
    return older, newer


def on_the_way(seed: int) -> Levels:
    """Levels of a chain that could have gone on, and had one before."""
    _, older, newer = levels_of(DiscreteLaplace("0.7"), 11, OLD, NEW, seed=seed, chains=CHAINS)
    return older, newer


@pytest.mark.parametrize("make", [online, on_the_way])
def test_two_levels_have_the_joint_law_of_the_kernels(make: Callable[[int], Levels]) -> None:
    assert p_value(make(2), discrete_joint(OLD, NEW)) > SIGNIFICANCE


def independent(seed: int) -> Levels:
    """A fresh variate at each level: both levels are paid for."""
    return draws(OLD, seed), draws(NEW, seed + 1)


def rescaled(seed: int) -> Levels:
    """The older noise shrunk: two levels give the value away."""
    older = draws(OLD, seed)
    return older, np.round(older * (NEW / OLD)).astype(np.int64)


def draws(scale: float, seed: int) -> Cells:
    return draw(DiscreteLaplace(scale), np.zeros(CHAINS, dtype=np.int64), sensitivity=ONE, entropy=seeded(seed))


def by_kernel(keep: float, added: float) -> Callable[[int], Levels]:
    def levels(seed: int) -> Levels:
        newer, moved = draws(NEW, seed), draws(added, seed + 1)
        kept = np.random.default_rng(seed).random(CHAINS) < keep
        return np.where(kept, newer, newer + moved), newer

    return levels


KEEP = coarsening_keeps(OLD, NEW)
MUTANTS: Mapping[str, Callable[[int], Levels]] = {
    "fresh noise at each level": independent,
    "rescaled noise": rescaled,
    "the root of the probability to keep": by_kernel(KEEP**0.5, OLD),
    "the probability to move": by_kernel(1 - KEEP, OLD),
    "noise of the smaller scale": by_kernel(KEEP, NEW),
}


def test_the_kernel_itself_passes() -> None:
    assert p_value(by_kernel(KEEP, OLD)(5), discrete_joint(OLD, NEW)) > SIGNIFICANCE


@pytest.mark.parametrize("name", MUTANTS)
def test_a_faulty_chain_is_caught(name: str) -> None:
    assert p_value(MUTANTS[name](5), discrete_joint(OLD, NEW)) < SIGNIFICANCE


def loss(joint: Callable[[int, int], float], reach: int = 25) -> float:
    """The largest log ratio of two levels for values that differ by one."""
    box = itertools.product(range(-reach, reach + 1), repeat=2)
    return max(abs(math.log(joint(x, y) / joint(x - 1, y - 1))) for x, y in box)


def test_two_levels_together_lose_what_the_last_one_loses() -> None:
    """By enumeration, of the joint law that the draws were held against."""
    assert loss(discrete_joint(OLD, NEW)) == pytest.approx(1 / NEW, rel=1e-12)
    older, newer = discrete_laplace(OLD), discrete_laplace(NEW)
    assert loss(lambda x, y: older(x) * newer(y)) == pytest.approx(1 / NEW + 1 / OLD)  # fresh noise


def test_a_level_that_is_kept_too_often_loses_more_than_it_claims() -> None:
    def first_level(keep: float) -> float:
        law = discrete_joint(OLD, NEW, keep=keep)
        seen = [sum(law(x, y) for y in range(-80, 81)) for x in range(-8, 9)]
        return max(abs(math.log(a / b)) for a, b in itertools.pairwise(seen))

    assert first_level(KEEP) == pytest.approx(1 / OLD, rel=1e-9)
    assert min(first_level(KEEP**0.5), first_level(1 - KEEP)) > 1.01 / OLD


def test_continuous_levels_have_the_joint_law_of_the_kernels() -> None:
    """P(x <= a, y <= b), where a and b lie between cells."""
    grid, scale, finer = Fraction(1, 4), 2.0, 1.0
    older, newer = levels_of(RoundedLaplace(1, grid=grid), 2, 1, seed=3)
    places = list(itertools.product((-9, -2, 0, 3, 9), repeat=2))
    counts = {i: int(((older <= a) & (newer <= b)).sum()) for i, (a, b) in enumerate(places)}
    right, wrong = (continuous_joint_cdf(scale, finer, keep=keep) for keep in (None, 0.5))
    for law, passes in ((right, True), (wrong, False)):
        expected = {i: law((a + 0.5) * float(grid), (b + 0.5) * float(grid)) for i, (a, b) in enumerate(places)}
        assert (events_p_value(counts, CHAINS, expected) > SIGNIFICANCE) is passes


def test_scales_may_depend_on_the_answers() -> None:
    """The next scale follows the sign of the last answer. The joint law is that of each branch; and for values one
    apart the ratio of any two answers is that of the last, in each branch."""

    def branch(x: int) -> int:
        return 2 if x > 0 else 1

    pairs: list[tuple[int, ...]] = []
    for seed in range(6000):
        one = chain(DiscreteLaplace(1), 0, sensitivity=ONE, entropy=seeded(seed))
        x = one.refine(3)
        pairs.append((x, one.refine(branch(x))))
    laws = {finer: discrete_joint(3, finer) for finer in (1, 2)}
    cells = list(itertools.product(range(-3, 4), repeat=2))
    counts = {i: pairs.count(cell) for i, cell in enumerate(cells)}
    expected = {i: laws[branch(x)](x, y) for i, (x, y) in enumerate(cells)}
    assert events_p_value(counts, len(pairs), expected) > SIGNIFICANCE
    ratios = [math.log(laws[branch(x)](x, y) / laws[branch(x)](x - 1, y - 1)) * branch(x) for x, y in cells]
    assert max(map(abs, ratios)) == pytest.approx(1, rel=1e-12)


# ---- exactness ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    finest=st.one_of(
        st.decimals("0.05", 50, places=3).map(DiscreteLaplace),
        st.tuples(st.decimals("0.01", 50, places=3), st.sampled_from(["1", "0.0009765625", "0.3"])).map(
            lambda pair: RoundedLaplace(*pair)
        ),
    ),
    factors=st.lists(st.decimals(1, 30, places=2), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_the_fast_and_the_exact_path_agree_on_every_level(finest: Any, factors: list[Decimal], seed: int) -> None:
    scales = sorted({finest.scale * factor for factor in factors} | {finest.scale}, reverse=True)
    fast, exact = (path(finest, scales[0], 5, seeded(seed), coarse=coarse) for coarse in (1.0, NEVER_SURE))
    for scale in scales:
        assert fast.read(scale).tolist() == exact.read(scale).tolist()


FINE = RoundedLaplace("0.1", grid=2.0**-40)
FINEST = RoundedLaplace("0.1", grid=2.0**-55)
FALLING = [Decimal(scale) for scale in ("40", "39.9", "11", "10.9", "2", "0.7", "0.3", "0.11", "0.1")]


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_two_floats_give_the_levels_of_exact_arithmetic(seed: int) -> None:
    """At 2^37 to 2^46 steps in a scale floats decide hardly anything, and sums of two nearly all."""
    quick, exact = (path(FINE, FALLING[0], 12, seeded(seed), coarse=coarse) for coarse in (1.0, NEVER_SURE))
    for scale in FALLING:
        assert quick.read(scale).tolist() == exact.read(scale).tolist()


def test_sums_of_two_floats_decide_what_floats_leave_open(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    exactly = LaplacePath._exactly

    def counted(one: LaplacePath, entry: int, turns: list[int]) -> int:
        asked.append(entry)
        return exactly(one, entry, turns)

    monkeypatch.setattr(LaplacePath, "_exactly", counted)
    many = path(FINE, FALLING[0], 1000, seeded(3))
    for scale in FALLING:
        many.read(scale)
    assert len(asked) < 60


def test_a_level_without_a_jump_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: 48 levels of a regression computed every entry 48 times. Whatever is asked for again stays as it was."""
    kept = path(FINE, FALLING[0], 50, seeded(5), coarse=NEVER_SURE)
    first = kept.read(FALLING[1])
    monkeypatch.setattr(LaplacePath, "_exactly", lambda *_: pytest.fail("computed again"))
    assert kept.read(FALLING[1]).tolist() == first.tolist()
    monkeypatch.undo()
    first[:] = 0
    fresh = path(FINE, FALLING[0], 50, seeded(5), coarse=NEVER_SURE)
    assert kept.read(FALLING[3]).tolist() == fresh.read(FALLING[3]).tolist()


def test_what_sums_of_two_floats_are_not_sure_of_they_may_get_wrong() -> None:
    """The mutant: with no room for errors they decide what the first 64 bits do not know."""
    trusting, exact = (path(FINEST, Decimal(9), 60, seeded(6), coarse=coarse) for coarse in (0.0, NEVER_SURE))
    certain = path(FINEST, Decimal(9), 60, seeded(6))
    levels = [one.read(Decimal(9)).tolist() for one in (trusting, exact, certain)]
    assert levels[0] != levels[1] == levels[2]


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_two_floats_err_less_than_they_say(seed: int) -> None:
    """Against mpmath, at both ends of what the first words leave open."""
    one = path(FINE, FALLING[0], 40, seeded(seed))
    assert isinstance(one, LaplacePath)
    worst, used = mp.mpf(0), 0
    with mp.workdps(60):
        for turn, here in enumerate(one._rounds):
            jumps = one._doubled[turn + 1]
            for i, entry in enumerate(here.entries.tolist()):
                if here.rough[i]:
                    continue
                found = mp.mpf(float(jumps.sizes.high[i])) + mp.mpf(float(jumps.sizes.low[i]))
                for more in (0, 1):
                    place = mp.mpf(one._top.numerator) / one._top.denominator
                    for earlier in one._rounds[: turn + 1]:
                        word = int(earlier.words[0, np.searchsorted(earlier.entries, entry)])
                        place *= mp.sqrt(mp.mpf(word + more) / 2**64)
                    size, negative = divmod(int(here.words[1, i]), 2)
                    true = -mp.log(mp.mpf(size + 1 - more) / 2**63) * place * (-1 if negative else 1)
                    worst, used = max(worst, abs(found - true) / mp.mpf(float(jumps.unsure[i]))), used + 1
    assert used > 300
    assert 0.05 < worst < 1


@pytest.mark.parametrize("coarse", [2.0**20, 2.0**27])
def test_any_hand_over_between_the_paths_gives_the_same_levels(coarse: float) -> None:
    for law in (DiscreteLaplace(2), RoundedLaplace(2, grid="0.015625")):
        sure, unsure = (path(law, Decimal(90), 150, seeded(8), coarse=c) for c in (1.0, coarse))
        for scale in (90, 30, 5, 2):
            assert sure.read(Decimal(scale)).tolist() == unsure.read(Decimal(scale)).tolist()


def test_a_mutant_that_trusts_its_floats_is_caught() -> None:
    law = RoundedLaplace(1, grid=Decimal(2) ** -50)
    trusting, exact = (path(law, Decimal(9), 400, seeded(6), coarse=coarse).read(Decimal(9)) for coarse in (0.0, 1.0))
    assert np.count_nonzero(trusting != exact) > 2


def test_a_level_of_one_scale_is_the_laplace_variable_of_its_word() -> None:
    """Without jumps: sign and -ln U of the word, at 60 digits."""
    words = seeded(9).words(50)
    noise = path(RoundedLaplace(3, grid="0.001"), Decimal(3), 50, seeded(9)).read(Decimal(3))
    with mp.workdps(60):
        for word, found in zip(words.tolist(), noise, strict=True):
            size = -mp.log((mp.mpf(word >> 1) + mp.mpf("0.5")) / 2**63) * 3000
            assert found == mp.floor((-size if word & 1 else size) + mp.mpf("0.5"))


def test_scales_at_the_edges_of_the_parameters() -> None:
    for finest in (DiscreteLaplace("1e-50"), RoundedLaplace("1e-50", grid=1)):
        assert levels_of(finest, "1e-49", "1e-50", chains=20)[1].tolist() == [0] * 20
    far = levels_of(RoundedLaplace("1e-20", grid="1e-20"), 10**17, "1e-20", chains=5)
    assert min(map(abs, far[0])) > 2**64
    assert all(type(value) is int for value in far[0])
    assert max(map(abs, far[1])) < 60
    wide = levels_of(DiscreteLaplace(1), 10**17, 1, chains=5)
    assert np.abs(wide[0]).min() > 2**30


# ---- the conversation -----------------------------------------------------------------------------------------------


def test_answers_are_the_value_plus_noise_in_its_shape() -> None:
    values = np.array([[1, 2], [3, 10**6]])
    levels = chain(DiscreteLaplace(1), values, sensitivity=ONE, entropy=seeded(1))
    values[:] = 0  # the chain has its own
    noise = levels_of(DiscreteLaplace(1), 5, 1, chains=4)
    assert levels.scale is None
    for scale, moved in zip((5, 1), noise, strict=True):
        assert (levels.refine(scale) - np.array([[1, 2], [3, 10**6]])).reshape(-1).tolist() == moved.tolist()
        assert levels.scale == scale
    huge = chain(DiscreteLaplace(1), 10**40, sensitivity=ONE, entropy=seeded(1)).refine(2)
    assert abs(huge - 10**40) < 200
    assert (
        chain(DiscreteLaplace(1), np.array([2**63 - 1] * 40), sensitivity=ONE, entropy=seeded(1)).refine(9).dtype
        == object
    )
    assert chain(RoundedLaplace(1, 1), np.zeros((0, 2), int), sensitivity=ONE, entropy=seeded(1)).refine(9).shape == (
        0,
        2,
    )


@pytest.mark.parametrize("value", [np.array(7), np.array(2**63 - 1), np.array(2**80, dtype=object)])
def test_an_array_without_axes_has_one_chain(value: Cells) -> None:
    answer = chain(DiscreteLaplace(1), value, sensitivity=ONE, entropy=seeded(1)).refine(5)
    assert answer.shape == ()
    assert answer.item() == value.item() + levels_of(DiscreteLaplace(1), 5, chains=1)[0].item()


def test_masked_entries_have_chains_like_all_others() -> None:
    """Found: the exact numbers stood in the answer's `data`."""
    masked = np.ma.masked_array([1000, 2000, 3000], mask=[False, True, False])
    plain = np.array([1000, 2000, 3000])
    one, other = (chain(DiscreteLaplace(1), v, sensitivity=ONE, entropy=seeded(1)).refine(50) for v in (masked, plain))
    assert type(one) is np.ndarray
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("bad", [5, 6, "0.999", 0, -1, float("nan"), float("inf"), None, "x"])
def test_a_scale_is_below_the_last_and_not_below_the_finest(bad: Any) -> None:
    levels = chain(DiscreteLaplace(1), 7, sensitivity=ONE, entropy=seeded(1))
    first = levels.refine(5)
    with pytest.raises(ParameterError, match="scale"):
        levels.refine(bad)
    again = chain(DiscreteLaplace(1), 7, sensitivity=ONE, entropy=seeded(1))
    assert (again.refine(5), again.refine(1)) == (first, levels.refine(1))  # the refusal drew nothing
    with pytest.raises(ParameterError, match="scale"):
        levels.refine(1)


def test_parameters_are_asked_for_before_anything_is_drawn() -> None:
    for finest in (DiscreteGaussian(1), "laplace", None):
        with pytest.raises(ParameterError, match="finest"):
            chain(finest, 1, sensitivity=ONE, entropy=seeded(1))  # type: ignore[arg-type]
    for value in (1.0, True, "1", [1], np.array([0.5])):
        with pytest.raises(ParameterError, match="value"):
            chain(DiscreteLaplace(1), value, sensitivity=ONE, entropy=seeded(1))  # type: ignore[type-var]
    with pytest.raises(ParameterError, match="sensitivity"):
        chain(DiscreteLaplace(1), 1, sensitivity=1, entropy=seeded(1))  # type: ignore[arg-type]


def test_levels_are_in_the_log_and_replayed_on_another_value() -> None:
    def run(value: int, seed: int) -> list[int]:
        levels = chain(DiscreteLaplace(1), value, sensitivity=ONE, entropy=seeded(seed))
        return [levels.refine(4), levels.refine(1)]

    with recording() as draws_made:
        recorded = run(100, 1)
    assert [one.law for one in draws_made] == [Refinement(DiscreteLaplace(1), scale) for scale in (4, 1)]
    assert [one.value for one in draws_made[:2]] == [100, 100]
    with replaying(draws_made) as again:
        assert run(101, 2) == recorded
    assert again[0].value == 101


def test_a_chain_shows_nothing_and_does_not_pickle() -> None:
    levels = chain(DiscreteLaplace(1), 123456789, sensitivity=ONE, entropy=seeded(1))
    assert repr(levels) == "<NoiseChain: nothing drawn>"
    levels.refine(2)
    assert repr(levels) == "<NoiseChain: at scale 2>"
    with pytest.raises(TypeError, match="repeat its noise"):
        pickle.dumps(levels)


@ignores_fork_warnings
def test_a_chain_answers_nothing_in_a_forked_child() -> None:
    levels = chain(DiscreteLaplace(1), 5, sensitivity=ONE, entropy=seeded(1))
    assert in_child(lambda: levels.refine(2), os.fork).startswith("ForkedProcess: a chain of noise")
    levels.refine(2)


def test_a_level_that_is_asked_for_in_the_middle_of_another_is_refused() -> None:
    """As a signal handler may. Found: both levels were answered, from two paths: two independent answers, and the loss
    of both, at the price of the finer one."""

    def handler() -> None:
        with pytest.raises(PolicyError, match="while it was answering"):
            levels.refine(5)

    levels = chain(DiscreteLaplace(1), 10**6, sensitivity=ONE, entropy=Interrupted(handler))
    levels.refine(9)
    assert levels.scale == 9
    assert levels.refine(5)


def test_threads_that_share_a_chain_get_each_level_once() -> None:
    levels = chain(DiscreteLaplace(1), np.zeros(500, dtype=np.int64), sensitivity=ONE, entropy=seeded(1))

    def ask() -> str:
        try:
            levels.refine(2)
        except ParameterError:
            return "refused"
        return "answered"

    assert sorted(map(str, together(ask, ask, ask))) == ["answered", "refused", "refused"]
