"""The procedure keeps its promise: exactly on experiments small enough to enumerate, by simulation on others; and an
auditor that chooses and measures on the same runs does not."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from audit_oracles import at_most_so_often, gaussian_epsilon, outcomes_of_two
from dpledger import decimals
from dpledger.accounting.guarantees import GDP, ApproxDP, Guarantee, PureDP
from dpledger.audit import audit_mechanism
from dpledger.audit.claims import Point, Target, target
from dpledger.audit.counting import Plan
from dpledger.audit.events import Coordinate, Equals
from dpledger.audit.evidence.thresholds import Direction, Look, PlannedLook, Tally, look_at, needed_epsilon
from dpledger.audit.outcomes import Outcomes, encode
from dpledger.audit.zoo import ZOO, Exhibit
from dpledger.relations import Relation

SIGNIFICANCE = 1e-9  # of each simulation here


def coins(ones: int, runs: int) -> Outcomes:
    return encode(np.array([1.0] * ones + [0.0] * (runs - ones)), 1)


def look(x: int, y: int, runs: int, share: Fraction, epsilon: str = "0", delta: str = "0") -> Look:
    point = Point(decimals.read(epsilon), decimals.read(delta))
    planned = PlannedLook(
        event=Equals(Coordinate(0), 1.0), direction=Direction.LEFT, point=point, share=share, rank=0.0
    )
    return look_at(planned, Tally(left=x, right=y, runs_left=runs, runs_right=runs))


@pytest.mark.parametrize("share", [Fraction(1, 5), Fraction(1, 20)])
@pytest.mark.parametrize("delta", ["0", "0.1"])
@pytest.mark.parametrize(("p", "q"), [("3/4", "1/4"), ("1/2", "1/2"), ("9/10", "1/10"), ("1/5", "1/20"), ("1", "1/2")])
def test_one_look_exceeds_the_truth_at_most_at_its_share_by_enumeration(
    p: str, q: str, delta: str, share: Fraction
) -> None:
    likelier, rarer, spare = Fraction(p), Fraction(q), Fraction(delta)
    truth = max(0.0, math.log((likelier - spare) / rarer)) + 1e-12
    misses = sum(
        chance
        for x, y, chance in outcomes_of_two(12, likelier, rarer)
        if float(look(x, y, 12, share, delta=delta).epsilon_lower) > truth
    )
    assert misses <= share


@pytest.mark.parametrize("alpha", [Fraction(1, 2), Fraction(4, 5)])
def test_the_whole_audit_of_a_coin_is_valid_by_enumeration(alpha: Fraction) -> None:
    """Randomised response at the boundary of its claim, log 3: all outcomes of both parts, with their probabilities."""
    p, q = Fraction(3, 4), Fraction(1, 4)
    aim = Target(Point(decimals.read("1.0986122887"), decimals.ZERO))
    false = Fraction(0)
    for x, y, chosen in outcomes_of_two(3, p, q):
        plan = Plan.on(coins(x, 3), coins(y, 3), aim, alpha)
        false += chosen * sum(chance * refutes(plan, a, b, 9) for a, b, chance in outcomes_of_two(9, p, q))
    assert 0 < false <= alpha


def refutes(plan: Plan, x: int, y: int, runs: int) -> bool:
    return any(found.refuted for found in plan.evidence(plan.hits(coins(x, runs)), plan.hits(coins(y, runs))).looks)


BOUNDARY = [(ZOO["laplace"], 200), (ZOO["randomized_response"], 200), (ZOO["sparse_vector"], 60), (ZOO["gaussian"], 60)]


@pytest.mark.parametrize(("shown", "audits"), BOUNDARY, ids=lambda value: getattr(value, "about", str(value)))
def test_correct_mechanisms_are_refuted_no_more_often_than_promised(shown: Exhibit, audits: int) -> None:
    results = [
        audit_mechanism(
            shown.mechanism, shown.left, shown.right, shown.claim, trials=400, confidence="0.8", batched=True, seed=seed
        )
        for seed in range(audits)
    ]
    alarms = sum(result.verdict == "violation" for result in results)
    above = sum(float(result.epsilon_lower) > shown.true_epsilon for result in results)
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE
    assert at_most_so_often(above, audits, 0.2) > SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("trials", [300, 3_000])
@pytest.mark.parametrize("name", ["laplace", "randomized_response", "sparse_vector", "gaussian"])
def test_many_audits_on_the_boundary_and_of_a_curve(name: str, trials: int) -> None:
    shown, audits = ZOO[name], 600
    claim = GDP("0.2680511233") if name == "gaussian" else shown.claim  # mu = 1/sigma, rounded up
    alarms = sum(
        audit_mechanism(
            shown.mechanism, shown.left, shown.right, claim, trials=trials, confidence="0.8", batched=True, seed=seed
        ).verdict
        == "violation"
        for seed in range(audits)
    )
    assert at_most_so_often(alarms, audits, 0.2) > SIGNIFICANCE


ZERO = Point(decimals.ZERO, decimals.ZERO)
NO_LOSS = Target(ZERO, (ZERO,))  # as the point, ranked by bound, and as a knot, ranked by margin


def peeking_verdict(seed: int, categories: int, runs: int, alpha: Fraction) -> bool:
    """An auditor that is wrong on purpose: it selects and measures on the same runs."""
    rng = np.random.default_rng([seed, 1])
    left, right = (encode(rng.integers(categories, size=runs).astype(float), 1) for _ in range(2))
    plan = Plan.on(left, right, NO_LOSS, alpha)
    return any(found.refuted for found in plan.evidence(plan.hits(left), plan.hits(right)).looks)


def splitting_verdict(seed: int, categories: int, runs: int, alpha: Fraction) -> bool:
    rng = np.random.default_rng([seed, 2])
    left, right = (encode(rng.integers(categories, size=runs).astype(float), 1) for _ in range(2))
    plan, left, right = Plan.split(left, right, NO_LOSS, alpha)
    return any(found.refuted for found in plan.evidence(plan.hits(left), plan.hits(right)).looks)


def test_choosing_and_measuring_on_the_same_runs_alarms_too_often_and_splitting_does_not() -> None:
    """The mechanism ignores its data (the true epsilon is 0, and so is the claim), with forty possible outputs."""
    audits, alpha = 100, Fraction(1, 2)
    peeking = sum(peeking_verdict(seed, 40, 1200, alpha) for seed in range(audits))
    splitting = sum(splitting_verdict(seed, 40, 1200, alpha) for seed in range(audits))
    assert at_most_so_often(peeking, audits, float(alpha)) < SIGNIFICANCE
    assert at_most_so_often(splitting, audits, float(alpha)) > SIGNIFICANCE


def test_shares_add_up_to_the_error_budget_and_everything_is_planned_before_the_count() -> None:
    rng = np.random.default_rng(4)
    left, right = encode(rng.normal(0, 1, 500), 1), encode(rng.normal(1, 1, 500), 1)
    aim = Target(Point(decimals.read(1), decimals.ZERO), (Point(decimals.read("0.5"), decimals.read("0.1")),))
    plan = Plan.on(left, right, aim, Fraction(1, 20))
    assert sum(planned.share for planned in plan.looks) == Fraction(1, 20)
    assert [planned.direction for planned in plan.looks] == [Direction.LEFT, Direction.RIGHT] * 2


def test_the_stated_power_is_kept_in_the_world_that_it_describes() -> None:
    """All outcomes of an estimation part of 40 runs a side, in a world with exactly the epsilon that is stated."""
    share, runs = Fraction(1, 10), 40
    seen = look(20, 6, runs, share, epsilon="0.2")
    epsilon = needed_epsilon(seen)
    assert epsilon is not None
    p = Fraction(20, runs)
    q = Fraction(math.exp(-float(epsilon))) * p
    refuted = [[look(x, y, runs, share, epsilon="0.2").refuted for y in range(runs + 1)] for x in range(runs + 1)]
    power = sum(chance for x, y, chance in outcomes_of_two(runs, p, q) if refuted[x][y])
    assert 0.9 <= power <= 0.95


def test_power_is_unknown_where_no_epsilon_could_have_been_refuted() -> None:
    assert needed_epsilon(look(1, 0, 20, Fraction(1, 20), epsilon="5")) is None
    assert needed_epsilon(look(0, 0, 20, Fraction(1, 20))) is None


@pytest.mark.parametrize(("name", "trials"), [("laplace_half_noise", 600), ("gaussian_half_noise", 100_000)])
def test_half_the_noise_is_found_with_the_stated_runs(name: str, trials: int) -> None:
    shown = ZOO[name]
    for seed in range(3):
        result = audit_mechanism(
            shown.mechanism, shown.left, shown.right, shown.claim, trials=trials, batched=True, seed=seed
        )
        assert result.verdict == "violation"
        assert result.epsilon_lower <= shown.true_epsilon


@pytest.mark.parametrize(
    ("claim", "delta", "points"),
    [
        (PureDP(1), None, 1),
        (PureDP(1), decimals.read("0.1"), 1),
        (ApproxDP(1, "1e-5"), None, 1),
        (ApproxDP(1, "1e-5"), decimals.read("1e-3"), 1),
    ],
)
def test_a_claim_at_one_delta_is_one_point(claim: Guarantee, delta: Decimal | None, points: int) -> None:
    aim = target(claim, None, Relation.ADD_REMOVE, delta)
    assert 1 + len(aim.knots) == points


def test_gaussian_exhibits_have_the_loss_that_they_state() -> None:
    sigma = float(ZOO["gaussian"].mechanism.sigma)  # type: ignore[attr-defined]
    for name, mu in (("gaussian", 1 / sigma), ("gaussian_half_noise", 2 / sigma)):
        assert gaussian_epsilon(mu, 1e-5) == pytest.approx(ZOO[name].true_epsilon, abs=1e-9)
    assert not ZOO["gaussian"].faulty
    assert list(itertools.islice(ZOO, 2)) == ["laplace", "laplace_half_noise"]
