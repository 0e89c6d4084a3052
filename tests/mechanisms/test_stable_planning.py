"""The plan of stable queries, and the specification's numbers for streams: laws of transcripts, pass probabilities,
thresholds, distances. Oracles are in `sparse_vector_oracle`, by quadrature or summation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.families.sparse_vector import difference_tail, pass_probability, svt_alpha
from dpledger.accounting.families.sparse_vector.losses import certify, composition_delta
from dpledger.accounting.families.sparse_vector.stability import stability_delta
from dpledger.accounting.families.sparse_vector.stable_scales import published_law, required_distance, stable_law
from dpledger.accounting.leaves import SparseVectorLaw
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.stability.answers import UNSTABLE, SideBySide
from dpledger.mechanisms.stability.release_plans import stable_plan
from dpledger.mechanisms.stability.stable_queries import StableQueries
from sparse_vector_oracle import Law, Noise, hockey_stick

pytestmark = pytest.mark.sliced

ONE, MILLIONTH, BETA = Decimal(1), Decimal("1e-6"), Decimal("0.05")


# ---- the specification's numbers -------------------------------------------------------------------------------------

CONTINUOUS = {
    "00": 0.234767512818,
    "010": 0.299790760661,
    "0110": 0.0290575890925,
    "0111": 0.0598041000844,
    "100": 0.0861903775082,
    "1010": 0.00765699159829,
    "1011": 0.0130486743537,
    "1100": 0.0951709922511,
    "1101": 0.0951709922511,
    "1110": 0.0203709166088,
    "1111": 0.0589710927724,
}
DISCRETE = {"00": 0.295940237048, "0111": 0.0467603440277, "1010": 0.00707182672482, "1111": 0.039946949635}


@pytest.mark.parametrize("discrete", [False, True])
def test_the_law_of_the_answers(discrete: bool) -> None:
    """TV1: distances 3, 5, 1, 4 against 4, two charged answers, noise of 1.3 and 2.6."""
    law = Law(Noise(1.3, discrete), Noise(2.6, discrete), 4, 2)
    found = law.distribution([3, 5, 1, 4])
    for text, published in (DISCRETE if discrete else CONTINUOUS).items():
        assert found[text] == pytest.approx(published, rel=1e-9)
    assert sum(found.values()) == pytest.approx(1)


def test_a_run_answers_with_that_law() -> None:
    """TV1 drawn: 20,000 runs of the mechanism itself, each transcript within six standard errors."""
    mechanism = StableQueries(epsilon="1.6", delta="0.3", cutoff=2, mode="basic")
    law = mechanism.parts()
    assert isinstance(law, SparseVectorLaw)
    assert law.stable_at is not None
    distances = [law.stable_at + at for at in (-1, 1, -3, 0)]
    scales = (Noise(float(law.threshold_scale), True), Noise(float(law.query_scale), True))
    exact = Law(scales[0], scales[1], law.stable_at, 2).distribution([float(at) for at in distances])
    entropy, runs = seeded(5), 20_000
    drawn = dict.fromkeys(exact, 0)
    for _ in range(runs):
        answers = mechanism.open(None, entropy=entropy).ask_many(SideBySide(["v"] * 4, distances))
        drawn["".join("0" if answer is UNSTABLE else "1" for answer in answers)] += 1
    for text, count in drawn.items():
        spread = math.sqrt(runs * exact[text] * (1 - exact[text]))
        assert abs(count - runs * exact[text]) <= 6 * spread + 1, text
    wrong = Law(scales[0], scales[1], law.stable_at + 1, 2).distribution([float(at) for at in distances])
    assert any(abs(drawn[text] - runs * p) > 6 * math.sqrt(runs * p) for text, p in wrong.items()), "it would be seen"


def test_the_chance_of_one_test() -> None:
    """TV2."""
    published = [0.0536003412494, 0.177322364803, 0.5, 0.822677635197, 0.946399658751]
    found = [
        pass_probability(Decimal(at), Decimal(10), Decimal(2), Decimal(4), noise="laplace") for at in range(0, 21, 5)
    ]
    assert list(map(float, found)) == pytest.approx(published, rel=1e-11)
    law = Law(Noise(2, False), Noise(4, False), 10, 1)
    assert law.probability([10, 10], "11") == pytest.approx(7 / 24)
    assert law.probability([10, 10], "10") == pytest.approx(5 / 24)


def test_the_discrete_thresholds() -> None:
    """TV11: the least whole threshold, and the chance that it leaves."""
    for scale, cutoff, at, published in ((4, 2, 26, 0.0473971997644), (40, 20, 1368, 4.96334555198e-7)):
        law = SparseVectorLaw("basic", cutoff, 1, "0.05", scale, 2 * scale, stable_at=at)
        assert float(stability_delta(law)) == pytest.approx(published, rel=1e-9)
    law = stable_law(ONE, Decimal("0.05"), 2, "basic")
    assert [law.threshold_scale, law.query_scale, law.stable_at] == [4, 8, 26]


@pytest.mark.parametrize(
    ("scale", "cutoff", "at", "published"),
    [(4, 2, "26.0883188928", 0.05), (40, 20, "1367.91397257", 5e-7)],
)
def test_the_continuous_thresholds(scale: int, cutoff: int, at: str, published: float) -> None:
    """TV5, tight: what a stream of critical queries alone reaches; TV6: the distance above it, and how many chunks."""
    one = float(difference_tail(Decimal(at), Decimal(scale), Decimal(2 * scale), noise="laplace"))
    assert -math.expm1(cutoff * math.log1p(-one)) == pytest.approx(published, rel=1e-9)
    if cutoff == 2:
        law = SparseVectorLaw("basic", cutoff, 1, "0.05", scale, 2 * scale)
        needed = Decimal(at) + svt_alpha(law, 50, BETA)
        assert float(needed) == pytest.approx(96.1058789411)
        assert math.ceil(6 * (needed + 1)) == 583


@pytest.mark.parametrize(
    ("cutoff", "share", "at", "published"),
    [(1, "0.34", "45.6424417044", 84.4639873206), (20, "0.06", "692.96280353", 1164.31667699)],
)
def test_the_thresholds_of_a_single_draw(cutoff: int, share: str, at: str, published: float) -> None:
    """TV11: one threshold for the whole run at (1, 1e-6), beta 0.05, 1000 queries; the noise is whole, and so is w."""
    narrow, broad = 1 / Decimal(share), 2 * cutoff / (1 - Decimal(share))
    tail = cutoff * difference_tail(Decimal(at), narrow, broad, noise="laplace")
    assert float(tail) == pytest.approx(1e-6, rel=1e-9)
    law = stable_law(ONE, MILLIONTH, cutoff, "single_threshold", max_queries=1000, share=Decimal(share))
    assert float(Decimal(at) + svt_alpha(law, 1000, BETA)) == pytest.approx(published)
    assert law.stable_at is not None
    assert abs(law.stable_at - float(at)) <= 1


def test_the_published_scales_with_a_tight_threshold() -> None:
    """3.5: lambda of 20 charges with the least threshold needs 5781."""
    scale = Decimal("96.3615117807")
    within = [at for at in (3295, 3296) if 20 * difference_tail(Decimal(at), scale, 2 * scale, noise="laplace") <= 5e-7]
    assert within == [3296]
    law = SparseVectorLaw("dr14", 20, 1, MILLIONTH, scale, 2 * scale)
    assert float(3296 + svt_alpha(law, 1000, BETA)) == pytest.approx(5781, abs=1.5)


def test_the_published_scales_and_threshold() -> None:
    """TV4, TV9 and 3.5: lambda 96.36 at 20 charges; with the published w, 6613 and not the published 19353."""
    law = published_law(ONE, MILLIONTH, 20, 1000)
    assert float(law.threshold_scale) == pytest.approx(96.3615117807)
    assert law.stable_at == math.ceil(2 * 96.3615117808 * math.log(2000 / 1e-6))
    assert float(required_distance(law, 1000, BETA)) == pytest.approx(6613, abs=1.5)
    published = 8 * 96.3615117807 * math.log(4 * 1000 * 20 / 1e-6)
    assert published == pytest.approx(19353.4714900888)
    assert composition_delta(law) <= MILLIONTH / 2
    assert stability_delta(law) <= MILLIONTH / 3


@given(
    st.integers(1, 30),
    st.integers(1, 2000),
    st.sampled_from(["0.1", "1", "4"]),
    st.sampled_from(["1e-9", "1e-6", "0.01"]),
)
@settings(max_examples=40, deadline=None)
def test_the_published_law_keeps_its_claim(cutoff: int, queries: int, epsilon: str, delta: str) -> None:
    law = published_law(Decimal(epsilon), Decimal(delta), cutoff, queries)
    certify(law)
    assert law.cutoff == min(cutoff, queries)
    assert stability_delta(law) <= Decimal(delta) / 2


def test_a_threshold_that_let_queries_pass_is_low() -> None:
    """Why the published argument, a union over queries, does not hold: after 399 queries at w - lambda that pass, a
    critical one passes more often than any of its 400 shares of delta."""
    cutoff = queries = 400
    lam, delta = 1.0, 0.5
    w = 2 * lam * math.log(2 * queries / delta)
    grid = np.linspace(-60 * lam, 60 * lam, 400_001)
    density = np.exp(-np.abs(grid) / lam) / (2 * lam)
    step = grid[1] - grid[0]

    def passing(distance: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        gap = w + grid - distance
        return np.where(gap >= 0, np.exp(-np.abs(gap) / (2 * lam)) / 2, 1 - np.exp(-np.abs(gap) / (2 * lam)) / 2)

    fresh = density * step
    alive = fresh.copy()
    near = passing(w - lam)
    for _ in range(queries - 1):
        failed = float((alive * (1 - near)).sum())
        alive = alive * near + failed * fresh
    conditional = float((alive * passing(0.0)).sum() / alive.sum())
    assert conditional == pytest.approx(0.00135620, rel=2e-3)
    assert float((fresh * passing(0.0)).sum()) == pytest.approx(0.00041660, rel=1e-3)
    assert conditional > 2 * delta / (2 * cutoff)


# ---- pairs of datasets ----------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[bool, int, int]]:
    """Queries of two neighbours: critical, or at distances that differ by at most one, near a threshold of 5."""
    kinds = st.one_of(
        st.just((True, 0, 0)),
        st.tuples(st.just(False), st.integers(0, 9), st.integers(-1, 1)).map(
            lambda t: (t[0], t[1], max(0, t[1] + t[2]))
        ),
    )
    return draw(st.lists(kinds, min_size=1, max_size=5))


@given(streams(), st.sampled_from(["basic", "single_threshold", "target_charging"]))
@settings(max_examples=80, deadline=None)
def test_no_pair_of_streams_is_told_apart_by_more_than_is_claimed(
    stream: list[tuple[bool, int, int]], mode: Any
) -> None:
    """Whole transcripts with their values, both ways, exactly."""
    law = stable_law(Decimal(2), Decimal("0.2"), 2, mode)
    assert law.stable_at is not None
    shift = law.stable_at - 5
    noises = (Noise(float(law.threshold_scale), True), Noise(float(law.query_scale), True))
    run = Law(noises[0], noises[1], law.stable_at, law.cutoff, refreshed=mode == "basic")
    sides = [[0.0 if critical else float(max(0, pair[side] + shift)) for critical, *pair in stream] for side in (0, 1)]
    laws = [run.distribution(side) for side in sides]
    for here, there in (laws, laws[::-1]):
        shown = {
            text: 0.0 if any(query[0] and bit == "1" for query, bit in zip(stream, text, strict=False)) else p
            for text, p in there.items()
        }
        assert hockey_stick(here, shown, 2.0) <= 0.2 + 1e-12


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_the_plan_is_what_the_mechanism_runs() -> None:
    for cutoff in (1, 20):
        plan = stable_plan(epsilon=1, delta="1e-6", cutoff=cutoff, max_queries=1000)
        mechanism = StableQueries(epsilon=1, delta="1e-6", cutoff=cutoff, max_queries=1000)
        assert plan.tests.parts() == mechanism.parts()
        assert plan.mode == mechanism.parameters()["mode"]
        assert plan.delta_composition + plan.delta_stability == MILLIONTH


@pytest.mark.parametrize("mode", ["auto", "basic", "kov", "paper", "gaussian"])
def test_a_plan_says_what_will_be_answered(mode: str) -> None:
    cutoff = None if mode == "gaussian" else 5
    plan = stable_plan(epsilon=1, delta="1e-6", cutoff=cutoff, max_queries=100, mode=mode)  # type: ignore[arg-type]
    entropy, missed = seeded(8), 0
    for _ in range(200):
        run = StableQueries(
            epsilon=1,
            delta="1e-6",
            cutoff=cutoff,
            max_queries=100,
            mode=mode,  # type: ignore[arg-type]
        ).open(None, entropy=entropy)
        answers = run.ask_many(SideBySide(range_of(100), [plan.required_distance] * 100))
        missed += len(answers) < 100 or UNSTABLE in answers
    assert missed <= 200 * 0.05 + 6 * math.sqrt(200 * 0.05), "at most beta, within six standard errors"
    assert f"distance {plan.required_distance} or more" in plan.words()
    assert f"Mode {plan.mode}" in plan.words()


def range_of(count: int) -> list[int]:
    return list(range(count))


def test_the_comparison_names_the_best_other_mode_and_the_gaussian_tests() -> None:
    plan = stable_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000)
    assert plan.mode == "target_charging"
    assert plan.runner_up is not None
    assert plan.gaussian is not None
    assert plan.runner_up.mode == "single_threshold"
    assert plan.required_distance < plan.runner_up.required_distance < plan.gaussian.required_distance
    many = stable_plan(epsilon=1, delta="1e-6", cutoff=50, max_queries=1000)
    assert many.gaussian is not None
    assert many.gaussian.required_distance < many.required_distance
    alone = stable_plan(epsilon=1, delta="1e-6", cutoff=None, max_queries=1000, mode="gaussian")
    assert (alone.runner_up, alone.cutoff) == (None, None)
    assert alone.required_distance == many.gaussian.required_distance


def test_what_cannot_be_planned_says_why() -> None:
    with pytest.raises(ParameterError, match="cutoff"):
        stable_plan(epsilon=1, delta="1e-6", cutoff=None, max_queries=10)
    with pytest.raises(ParameterError, match="beta"):
        stable_plan(epsilon=1, delta="1e-6", cutoff=1, max_queries=10, beta=0)
    with pytest.raises(ParameterError, match="mode"):
        stable_plan(epsilon=1, delta="1e-6", cutoff=1, max_queries=10, mode="best")  # type: ignore[arg-type]
    with pytest.raises(InfeasiblePlan, match="threshold"):
        stable_plan(epsilon="1e-15", delta="1e-9", cutoff=5, max_queries=1000, mode="basic")


PLANNERS = (
    dpl.planning.stable_plan,
    dpl.planning.subsample_plan,
    dpl.planning.binclas_plan,
    dpl.planning.binclas_required_n,
    dpl.planning.label_private_plan,
    dpl.planning.soft_plan,
)
BY_PLACE = ("n", "rate", "vc", "mu", "alpha", "zeta")
BY_NAME = ("epsilon", "delta", "beta", "cutoff", "uncertain", "max_queries", "mode", "delta_split")
FURTHER = ("regime", "gamma", "learner", "counting", "dissent")


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.__name__)
def test_planners_are_called_alike(planner: Callable[..., object]) -> None:
    """What is planned for stands by place; the budget and all else by name, in one order, with one default each."""
    asked = inspect.signature(planner).parameters
    assert list(asked) == [name for name in BY_PLACE + BY_NAME + FURTHER if name in asked]
    assert {"epsilon", "delta", "beta", "mode", "delta_split"} <= set(asked)
    everywhere = [inspect.signature(other).parameters for other in PLANNERS]
    for name, one in asked.items():
        assert one.kind is (one.POSITIONAL_OR_KEYWORD if name in BY_PLACE else one.KEYWORD_ONLY)
        assert len({others[name].default for others in everywhere if name in others}) == 1, name
