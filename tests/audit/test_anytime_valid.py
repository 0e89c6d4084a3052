"""The engine never alarms too often, however often it looks; twins of it that skip a safeguard do; and what it finds,
it finds in as many runs as the specification allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq

from audit_oracles import at_most_so_often
from dpledger.audit.evidence.bets import plausible
from dpledger.audit.evidence.chain import ClaimChain, grid_of
from dpledger.audit.evidence.edges import Claim, Regions, StrataClaim, pure_or_approx
from dpledger.audit.evidence.power import least_stretch, needed
from dpledger.audit.evidence.projection import project
from dpledger.audit.evidence.reading import Reading, hedged
from dpledger.audit.evidence.tracks import estimates
from dpledger.audit.evidence.wealth import FOLLOWED, Engine
from dpledger.audit.features.coordinates import Along, Value
from dpledger.audit.features.score import Place, Score
from dpledger.audit.outcomes.structure import Outcomes
from dpledger.errors import ParameterError
from edges_oracle import Drawn, gaussian_delta, gaussian_profile

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
Side = Callable[[Rng, int], Drawn]
SIGNIFICANCE = 1e-7  # of each simulation here
ALPHA = Fraction(1, 20)
OUTPUT = Value(Place("output"))


def proposed(*_: Outcomes) -> tuple[Score, ...]:
    return (OUTPUT,)


@dataclass(frozen=True)
class Case:
    """Two samplers and what is claimed of them."""

    left: Side
    right: Side
    claim: Claim
    point: tuple[float, float] | None = None


def laplace(centre: float, scale: float) -> Side:
    return lambda rng, size: Drawn(centre + rng.laplace(0, scale, size))


def gaussian(centre: float, sigma: float) -> Side:
    return lambda rng, size: Drawn(centre + rng.normal(0, sigma, size))


def response(bit: int, keep: float, told: float = 0.0) -> Side:
    """A bit, kept or flipped; with probability `told` it is published beside (as 2 or 3)."""

    def draw(rng: Rng, size: int) -> Drawn:
        answers = np.where(rng.random(size) < keep, bit, 1 - bit)
        return Drawn(np.where(rng.random(size) < told, 2 + bit, answers).astype(float))

    return draw


def coins(bit: int, epsilons: tuple[float, ...], claimed: tuple[float, ...]) -> Side:
    """One of several responses, published with what it is said to have lost."""

    def draw(rng: Rng, size: int) -> Drawn:
        which = rng.integers(0, len(epsilons), size)
        kept = rng.random(size) < 1 / (1 + np.exp(-np.array(epsilons)))[which]
        return Drawn(np.where(kept, bit, 1 - bit) + 2.0 * which, np.array(claimed)[which])

    return draw


KEEP = math.e / (1 + math.e)
TOLD = 0.05
TRUE = (0.25, 1.0)
STRATA = StrataClaim((*TRUE, math.inf), 0.0)
CORRECT = {
    "laplace": Case(laplace(1, 1), laplace(0, 1), pure_or_approx(1, 0), (1.0, 0.0)),
    "response": Case(response(1, KEEP), response(0, KEEP), pure_or_approx(1, 0), (1.0, 0.0)),
    "response with delta": Case(
        response(1, KEEP, TOLD), response(0, KEEP, TOLD), pure_or_approx(1, TOLD), (1.0, TOLD)
    ),
    "gaussian against its curve": Case(gaussian(1, 1), gaussian(0, 1), gaussian_profile(1.0)),
    "strata": Case(coins(1, TRUE, TRUE), coins(0, TRUE, TRUE), STRATA),
}  # fmt: skip


def audited(case: Case, seed: int, pairs: int, *, stop: bool = True, **changes: object) -> Engine:
    """An audit of up to so many pairs."""
    rng = np.random.default_rng(seed)
    engine = Engine(case.claim, ALPHA, proposed, point=case.point, **changes)  # type: ignore[arg-type]
    while engine.pairs < pairs and not (stop and engine.refuted):
        plan = engine.plan()
        size = min(plan.runs[0], pairs - engine.pairs)
        engine.settle(plan.read(case.left(rng, size).outcomes), plan.read(case.right(rng, size).outcomes))
    return engine


# ---- never too often ------------------------------------------------------------------------------------------------


def alarms(case: Case, audits: int, pairs: int) -> tuple[int, int]:
    """Of so many audits those that refute, and those whose lower bound exceeds the claim."""
    found = [audited(case, 1_000 + seed, pairs) for seed in range(audits)]
    high = [one.epsilon_lower for one in found if one.epsilon_lower is not None and case.point is not None]
    refuted = sum(one.refuted is not None for one in found)
    return refuted, sum(case.point is not None and bound >= case.point[0] for bound in high)


@pytest.mark.parametrize("name", CORRECT)
def test_a_hundred_audits_of_what_is_correct_do_not_alarm_too_often(name: str) -> None:
    refuted, high = alarms(CORRECT[name], 100, 40)
    assert at_most_so_often(refuted, 100, 0.05) > SIGNIFICANCE
    assert at_most_so_often(high, 100, 0.05) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", CORRECT)
def test_ten_thousand_audits_alarm_at_most_as_often_as_allowed(name: str) -> None:
    """Of Laplace and randomised response at least 1 % alarm: an error budget that is not used is power lost."""
    refuted, high = alarms(CORRECT[name], 2_000, 1_000)
    assert at_most_so_often(refuted, 2_000, 0.05) > SIGNIFICANCE
    assert at_most_so_often(high, 2_000, 0.05) > SIGNIFICANCE
    if name in ("laplace", "response"):
        assert refuted >= 20


# ---- twins that must alarm ------------------------------------------------------------------------------------------


def test_shared_seeds_have_too_large_a_mean_unless_the_runs_are_said_to_be_paired() -> None:
    """A correct randomised response whose two sides see the same coin: both keep their bit, or neither does."""
    p, q = np.array([[0.15, 0.85]]), np.array([[0.85, 0.15]])
    bets = project(Regions.of([pure_or_approx(1, 0)]), p, q, runs=1_000)
    both, neither = (1, 0), (0, 1)
    plain = bets.left[0][:, None] + bets.right[0]
    safe = hedged(bets.left[0], bets.right[0])
    means = [KEEP * math.exp(one[both]) + (1 - KEEP) * math.exp(one[neither]) for one in (plain, safe)]
    assert means[0] > 1.05
    assert means[1] <= 1 + 1e-9


def test_two_to_one_with_the_plain_product_has_too_large_a_mean() -> None:
    """Weights for one run a side, multiplied over two runs left and one right, by pairs that keep the claim."""
    p, q = np.array([[0.85, 0.15]]), np.array([[0.25, 0.75]])
    regions = Regions.of([pure_or_approx(1, 0)])
    truths = [
        (np.array([x, 1 - x]), np.array([y, 1 - y])) for x in np.linspace(0, 1, 201) for y in np.linspace(0, 1, 201)
    ]
    kept = [(x, y) for x, y in truths if (x <= math.e * y + 1e-9).all() and (y <= math.e * x + 1e-9).all()]

    def largest(shares: tuple[float, float]) -> float:
        bets = project(regions, p, q, runs=1_000, shares=shares)
        a, b = np.exp(bets.left[0]), np.exp(bets.right[0])
        return max(float((x @ a) ** 2 * (y @ b)) for x, y in kept)

    assert largest((4 / 3, 2 / 3)) <= 1 + 1e-6
    assert largest((1.0, 1.0)) > 1.1


def test_peeking_at_a_fixed_test_alarms_too_often() -> None:
    """The same estimates without bets fixed beforehand: a z test at every pair."""
    rng, alarmed = np.random.default_rng(5), 0
    for _ in range(200):
        x, y = rng.random(1_000) < KEEP, rng.random(1_000) < 1 - KEEP
        n = np.arange(1, 1_001)
        share_x, share_y = np.cumsum(x) / n, np.cumsum(y) / n
        spread = np.sqrt((share_x * (1 - share_x) + math.e**2 * share_y * (1 - share_y)) / n) + 1e-9
        alarmed += bool(((share_x - math.e * share_y) / spread > 1.645)[8:].any())
    assert at_most_so_often(alarmed, 200, 0.05) < 1e-6


@pytest.mark.slow
def test_the_last_refuted_claim_in_place_of_the_chain_exceeds_the_truth_too_often() -> None:
    """Wealths of true claims that are independent: each may reach 20, one of a hundred nearly always does."""
    rng = np.random.default_rng(2)
    last = through = 0
    for _ in range(40):
        chain = ClaimChain(grid_of(None), None, np.zeros(1))
        truth, steps = 500, np.log(1 + 0.5 * rng.choice([-1.0, 1.0], (100, 400)))
        places = list(range(truth, truth + 400, 4))
        reached = np.zeros(100, dtype=bool)
        chain.wealth[0, :truth] = 10.0
        chain.grow([truth - 1], np.array([[0.0]]))
        chain.look(0.0, math.log(20))
        for step in steps.T:
            chain.grow(places, step[None])
            chain.look(0.0, math.log(20))
            reached |= np.cumsum(steps, 1).max(1) >= math.log(20)
        through += chain.fallen > truth
        last += bool(reached.any())
    assert at_most_so_often(last, 40, 0.05) < 1e-6
    assert at_most_so_often(through, 40, 0.05) > 1e-6


# ---- what is found --------------------------------------------------------------------------------------------------


def test_half_the_noise_is_found_with_a_hundred_runs() -> None:
    case = Case(laplace(1, 0.5), laplace(0, 0.5), pure_or_approx(1, 0), (1.0, 0.0))
    stops = [audited(case, seed, 2_000).refuted or 2_000 for seed in range(40)]
    assert np.mean(stops) <= 100
    assert np.quantile(stops, 0.95) <= 200


def test_a_broken_stratum_and_a_broken_curve_are_found() -> None:
    small = (0.25, 0.4)
    strata = Case(coins(1, TRUE, small), coins(0, TRUE, small), StrataClaim((*small, math.inf), 0.0))
    curve = Case(gaussian(2, 1), gaussian(0, 1), gaussian_profile(1.0))
    assert audited(strata, 1, 3_000).refuted
    assert audited(curve, 1, 1_000).refuted


def test_two_runs_to_one_and_paired_runs_find_it_too() -> None:
    rng = np.random.default_rng(3)
    engine = Engine(pure_or_approx(1, 0), ALPHA, proposed, point=(1.0, 0.0), sizes=(2, 1))
    while engine.refuted is None and engine.pairs < 1_000:
        plan = engine.plan()
        sides = (laplace(1, 0.5)(rng, plan.runs[0]), laplace(0, 0.5)(rng, plan.runs[1]))
        engine.settle(*(plan.read(side.outcomes) for side in sides))
    assert engine.refuted
    case = Case(laplace(1, 0.5), laplace(0, 0.5), pure_or_approx(1, 0), (1.0, 0.0))
    assert audited(case, 1, 2_000, paired=True).refuted


def test_the_bound_comes_close_to_the_truth() -> None:
    bound = audited(CORRECT["laplace"], 7, 200_000, stop=False).epsilon_lower
    assert bound is not None
    assert 0.93 <= bound <= 1


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_chunks_of_any_size_come_to_the_same() -> None:
    case, engines = CORRECT["laplace"], []
    for chunks in (1, 3):
        rng = np.random.default_rng(1)
        engine = Engine(case.claim, ALPHA, proposed, point=case.point)
        while engine.pairs < 500:
            plan = engine.plan()
            sides = [side(rng, plan.runs[0]).outcomes for side in (case.left, case.right)]
            cut = [np.array_split(np.arange(plan.runs[0]), chunks) for _ in sides]
            read: list[Reading] = []
            for side, parts in zip(sides, cut, strict=True):
                pieces = [plan.read(side.where(slice(part[0], part[-1] + 1))) for part in parts if part.size]
                total = pieces[0]
                for piece in pieces[1:]:
                    total = total + piece
                read.append(total)
            engine.settle(*read)
        engines.append((engine.log_wealth, engine.epsilon_lower, engine.budget))
    assert engines[0] == engines[1]


def test_the_error_budget_adds_up() -> None:
    engine = audited(CORRECT["laplace"], 1, 100)
    assert sum(share.alpha for share in engine.budget) == ALPHA
    assert len({share.words for share in engine.budget}) == len(engine.budget)


def test_births_move_no_wealth_and_looks_inside_a_block_end_where_it_ends() -> None:
    """Scores are born while the leader gains and loses; whatever does not bet, the reserve too, goes with it."""
    case, place = Case(laplace(1, 0.8), laplace(0, 0.8), pure_or_approx(1, 0)), Place("output")
    rng, ends, born, leader = np.random.default_rng(4), [], set(), set()

    def more(left: Outcomes, _: Outcomes) -> tuple[Score, ...]:
        return (OUTPUT, *(Along((place,), (float(n),)) for n in range(1, 1 + len(left) // 12)))

    engine = Engine(case.claim, ALPHA, more, window=200)
    engine._look_at_each = lambda block, path: ends.append(path[-1])  # type: ignore[method-assign]
    while engine.pairs < 400:
        before = engine._mixed()
        plan = engine.plan()
        assert engine._mixed() == pytest.approx(before, abs=1e-12)
        ends.clear()
        engine.settle(*(plan.read(side(rng, plan.runs[0]).outcomes) for side in (case.left, case.right)))
        if ends and sum(bet.growth > 0 for bet in engine._bets) <= FOLLOWED:
            assert ends == [pytest.approx(engine._mixed(), abs=1e-9)]
        born.add(len(engine._tracks))
        leader.add(engine._leader)
    assert len(born) > 3
    assert min(leader) < 0 < max(leader)


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1), Fraction(3, 2), Fraction(-1, 20)])
def test_an_error_budget_that_is_none_is_refused(alpha: Fraction) -> None:
    with pytest.raises(ParameterError, match="alpha"):
        Engine(pure_or_approx(1, 0), alpha, proposed)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-1, 1)])
def test_a_block_without_runs_of_a_side_is_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ParameterError, match="sizes"):
        Engine(pure_or_approx(1, 0), ALPHA, proposed, sizes=sizes)
    with pytest.raises(ParameterError, match="sizes"):
        Engine(pure_or_approx(1, 0), ALPHA, proposed, sizes=(2, 2), paired=True)


def test_a_score_that_is_fitted_anew_goes_on_with_the_wealth_of_the_one_before() -> None:
    case, place = Case(laplace(1, 0.5), laplace(0, 0.5), pure_or_approx(1, 0)), Place("output")
    asked: list[int] = []

    def fitted(left: Outcomes, _: Outcomes) -> tuple[Score, ...]:
        asked.append(len(left))
        return (Along((place,), (float(len(left)),), "direction"),)

    rng, held = np.random.default_rng(5), []
    engine = Engine(case.claim, ALPHA, fitted, window=64)
    while engine.pairs < 300:
        before, births = engine.log_wealth, len(asked)
        plan = engine.plan()
        engine.settle(*(plan.read(side(rng, plan.runs[0]).outcomes) for side in (case.left, case.right)))
        if len(asked) > births > 0:
            held.append(before)
        assert sum(share.alpha for share in engine.budget) == ALPHA
    assert asked == sorted(set(asked))
    scores = [track.score for track in engine._tracks]
    assert len(scores) == 1, "one arm for all fits"
    assert scores == [Along((place,), (float(asked[-1]),), "direction")]
    assert engine.log_wealth > max(held) > 0


def test_power_is_what_is_found() -> None:
    """With as many runs as refute epsilon 1 at half the noise nine times in ten, the power says about 2."""
    case = Case(laplace(1, 0.5), laplace(0, 0.5), pure_or_approx(1, 0), (1.0, 0.0))
    power = audited(case, 1, 180, stop=False).power()
    assert power.stretched is not None
    assert 1.2 <= power.stretched <= 3.5
    event = audited(CORRECT["response"], 1, 10_000).power().event
    assert event is not None
    assert 1e-3 <= event <= 1e-2


def mu_at(epsilon: float, delta: float) -> float:
    """The Gaussian shift with this epsilon at this delta."""
    return float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 0.05, 8))


def of_shift(mu: float, delta: float) -> Case:
    return Case(gaussian(0, 1 / mu), gaussian(1, 1 / mu), pure_or_approx(1, delta), (1.0, delta))


def least_of_all(engine: Engine) -> float:
    """The power by a rule that takes the least epsilon of all estimates: that of four cells, which have no tail."""
    nats = needed(float(engine.alpha)) / engine.pairs
    found = (least_stretch(engine.claim, p, q, None, nats) for *_, p, q in estimates(engine._tracks, set()))
    return min(plausible(*pair, 0.01) for pair in found if pair is not None)


def test_power_at_a_delta_is_what_is_found() -> None:
    """A Gaussian with the true epsilon that the power states, at the delta of the claim, is refuted nine times in ten;
    one with that of a rule without tails is not."""
    keeps = of_shift(mu_at(1, 0.01), 0.01)
    audits = [audited(keeps, seed, 600, stop=False) for seed in range(3)]
    told = [audit.power().stretched for audit in audits]
    assert all(epsilon is not None and 1.5 <= epsilon <= 5 for epsilon in told)

    def found(epsilon: float) -> int:
        case = of_shift(mu_at(epsilon, 0.01), 0.01)
        return sum(audited(case, 100 + seed, 600).refuted is not None for seed in range(12))

    assert found(float(np.median([epsilon for epsilon in told if epsilon is not None]))) >= 10
    assert found(float(np.median([least_of_all(audit) for audit in audits]))) <= 6


def test_of_a_delta_that_no_run_shows_one_point_has_no_power_and_a_curve_that_of_its_tail() -> None:
    mu = mu_at(1, 1e-5)
    assert audited(of_shift(mu, 1e-5), 1, 3_000, stop=False).power().stretched is None
    assert audited(of_shift(mu_at(1, 1e-3), 1e-3), 1, 999, stop=False).power().stretched is None
    assert audited(of_shift(mu_at(1, 1e-3), 1e-3), 1, 1_000, stop=False).power().stretched is not None
    curve = Case(gaussian(0, 1), gaussian(1, 1), gaussian_profile(1), (4.3772, 1e-5))
    told = audited(curve, 1, 600, stop=False).power().stretched
    assert told is not None
    assert 4.3772 < told < 12


def test_of_a_delta_that_no_run_shows_a_few_values_have_the_power_that_is_found() -> None:
    """There is no tail: each value was given often. Where values are rare, as of whole numbers with a tail, it may be
    that of a Gaussian, and nobody knows."""
    claim, point = pure_or_approx(1, 1e-6), (1.0, 1e-6)
    audits = [
        audited(Case(response(1, KEEP), response(0, KEEP), claim, point), seed, 600, stop=False) for seed in range(3)
    ]
    told = [audit.power().stretched for audit in audits]
    assert all(epsilon is not None and 1 < epsilon < 2 for epsilon in told)

    def found(epsilon: float) -> int:
        keep = 1 / (1 + math.exp(-epsilon))
        case = Case(response(1, keep), response(0, keep), claim, point)
        return sum(audited(case, 100 + seed, 600).refuted is not None for seed in range(12))

    assert found(float(np.median([epsilon for epsilon in told if epsilon is not None]))) >= 10

    def rounded(centre: int) -> Side:
        return lambda rng, size: Drawn(centre + np.round(rng.normal(0, 2, size)))

    assert audited(Case(rounded(1), rounded(0), claim, point), 1, 600, stop=False).power().stretched is None
