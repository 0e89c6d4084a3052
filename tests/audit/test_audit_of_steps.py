"""Audits of a training step by step: what must fall falls soon, and what keeps its claim stands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import dpledger as dpl
from dpledger.accounting.composition import Composition
from dpledger.audit.evidence.reading import ROUNDING, hedged
from dpledger.audit.results.verdict import STEPS
from dpledger.audit.training.canaries import with_canary
from dpledger.audit.training.step_claims import StepLaw, step_claim
from dpledger.audit.training.step_wealth import FACTORS, StepWealth, least_refuted
from dpledger.ledger.entries.bodies import Audited
from dpledger.mechanisms.noise import RoundedGaussian
from dpledger.mechanisms.training import DPSGD

pytestmark = pytest.mark.sliced

Rows = npt.NDArray[np.float64]
ALPHA = Fraction(1, 20)
RUN: dict[str, Any] = {
    "rate": "0.1", "steps": 80, "noise_multiplier": 1, "clip_norm": 1, "dimension": 3, "expected_batch_size": 10
}  # fmt: skip
CLAIM = step_claim(dpl.GaussianLaw(1))


class HalfTheNoise(DPSGD):
    """Draws half the noise that its parts claim."""

    @property
    def noise(self) -> RoundedGaussian:
        honest = DPSGD.noise.fget(self)  # type: ignore[attr-defined]  # a property
        return RoundedGaussian(sigma=honest.sigma / 2, grid=honest.grid)


def of_rows(weights: Rows, rows: Rows) -> Rows:
    return weights - rows


def states(steps: int, seed: int) -> Iterator[tuple[Rows, Rows]]:
    """Of a training whose weights move with what it saw."""
    rng = np.random.default_rng(seed)
    weights = np.zeros(3)
    for _ in range(steps):
        batch = rng.normal(0.3, 0.1, (10, 3))
        yield weights, batch
        weights = weights - 0.1 * (weights - batch).mean(axis=0) + rng.normal(0, 0.01, 3)


def audited(mu: float, seed: int, *, steps: int, alpha: Fraction = ALPHA, paired: bool = False) -> StepWealth:
    """Steps that give N(mu, 1) with the canary and N(0, 1) without it, until the claim falls."""
    rng, wealth = np.random.default_rng(seed), StepWealth(CLAIM, alpha, paired=paired)
    while wealth.steps < steps and wealth.fell_after is None:
        left = rng.normal()
        wealth.add(mu + left, left if paired else rng.normal())
    return wealth


# ---- own trainings --------------------------------------------------------------------------------------------------


def test_half_the_noise_shows_in_the_steps_of_one_training() -> None:
    found = [
        dpl.audit_steps(HalfTheNoise(**RUN), states(80, seed), np.full(3, 50.0), gradients=of_rows, seed=seed)
        for seed in range(5)
    ]
    assert sum(one.verdict == "violation" for one in found) >= 4
    assert np.mean([one.trials for one in found]) < 45
    assert all(one.mu_lower is None or one.mu_lower <= 2 for one in found)


def test_a_training_that_keeps_its_claim_is_not_refuted() -> None:
    for seed in range(2):
        result = dpl.audit_steps(DPSGD(**RUN), states(80, seed), np.full(3, 50.0), gradients=of_rows, seed=seed)
        assert result.verdict == "not_refuted"
        assert result.blind is None


def test_a_canary_may_be_a_gradient() -> None:
    canary = np.array([0.0, 7.0, 0.0])
    asked: dict[str, Any] = {"gradients": of_rows, "space": "gradients", "seed": 1}
    assert dpl.audit_steps(HalfTheNoise(**RUN), states(80, 1), canary, **asked).verdict == "violation"
    result = dpl.audit_steps(DPSGD(**RUN), states(80, 1), canary, **asked)
    assert result.verdict == "not_refuted"
    assert result.witness is not None
    assert result.witness.left > result.witness.right  # the canary is in the batch


def test_the_law_of_a_sample_is_tested_on_samples() -> None:
    law = dpl.PoissonSampled(dpl.GaussianLaw("0.5"), rate="0.5")
    plan: dict[str, Any] = {**RUN, "rate": "0.5", "noise_multiplier": "0.5"}
    for kind, verdict in ((DPSGD, "not_refuted"), (HalfTheNoise, "violation")):
        result = dpl.audit_steps(
            kind(**plan), ((np.zeros(3), np.zeros((4, 3))) for _ in range(300)), np.full(3, 50.0), law,
            gradients=of_rows, seed=3,
        )  # fmt: skip
        assert result.verdict == verdict
        assert result.claim.kind == "privacy_curve"


@pytest.mark.parametrize("claim", [dpl.GaussianLaw(1), dpl.GDP(1)])
def test_a_claim_of_the_noise_alone_is_tested_with_the_canary_for_certain(claim: Any) -> None:
    for kind, verdict in ((DPSGD, "not_refuted"), (HalfTheNoise, "violation")):
        result = dpl.audit_steps(kind(**RUN), states(80, 1), np.full(3, 50.0), claim, gradients=of_rows, seed=1)
        assert result.verdict == verdict
        assert result.trials < 80 or kind is DPSGD


@pytest.mark.parametrize(
    ("claim", "of_sample"),
    [
        (dpl.GaussianLaw(1), False),
        (dpl.GDP(1), False),
        (dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.1"), True),
        (dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.1"), times=2), True),
    ],
)
def test_which_claims_are_of_a_sample(claim: Any, of_sample: bool) -> None:
    assert step_claim(claim).of_sample is of_sample


# ---- any function ---------------------------------------------------------------------------------------------------


def noisy(sigma: float) -> Any:
    def gradient(weights: Rows, rows: Rows, rng: np.random.Generator) -> Rows:
        clipped = (rows - weights) / np.maximum(1, np.linalg.norm(rows - weights, axis=1, keepdims=True))
        total: Rows = clipped.sum(axis=0) + rng.normal(0, sigma, 3)
        return total

    return gradient


@pytest.mark.parametrize("direction", [None, [1.0, 1.0, 1.0], lambda weights: 50 - weights])
def test_any_function_is_audited(direction: Any) -> None:
    for sigma, verdict in ((0.5, "violation"), (1.0, "not_refuted")):
        result = dpl.audit_steps(
            noisy(sigma), states(150, 5), np.full(3, 50.0), dpl.GaussianLaw(1), direction=direction, seed=5
        )
        assert result.verdict == verdict


def test_no_noise_and_noise_of_a_fixed_seed_are_found() -> None:
    def fixed(weights: Rows, rows: Rows, rng: np.random.Generator) -> Rows:
        return noisy(1.0)(weights, rows, np.random.default_rng(0))  # type: ignore[no-any-return]

    for gradient in (noisy(0.0), fixed):
        result = dpl.audit_steps(gradient, states(80, 1), np.full(3, 50.0), dpl.GaussianLaw(1), seed=1)
        assert result.verdict == "violation"
        assert any("no noise" in told for told in result.told)


def test_an_exception_that_one_record_decides_is_found() -> None:
    def gradient(weights: Rows, rows: Rows, rng: np.random.Generator) -> Rows:
        if np.abs(rows).max() > 10:
            raise OverflowError
        return noisy(1.0)(weights, rows, rng)  # type: ignore[no-any-return]

    result = dpl.audit_steps(gradient, states(80, 1), np.full(3, 50.0), dpl.GaussianLaw(1), direction=[1, 1, 1], seed=1)
    assert result.verdict == "violation"


@pytest.mark.parametrize("fails", ["raises", "nan"])
def test_a_loop_that_crashed_does_not_pass(fails: str) -> None:
    def gradient(step: int, rows: Rows, rng: np.random.Generator) -> Rows:
        if step >= ends and fails == "raises":
            raise ZeroDivisionError
        return noisy(1.0)(np.zeros(3), rows, rng) * (math.nan if step >= ends else 1)  # type: ignore[no-any-return]

    for ends, is_blind in ((3, True), (38, False)):
        numbered = [(step, np.zeros((4, 3))) for step in range(40)]
        result = dpl.audit_steps(gradient, numbered, np.full(3, 50.0), dpl.GaussianLaw(1), seed=1)
        assert result.verdict == "not_refuted"
        assert f"in {40 - ends} of 40 steps" in result.told[0]
        assert (result.blind is not None) is is_blind
        assert (result.power is None) is is_blind
        assert result.body().blind == result.blind


def test_noise_that_both_gradients_share_accuses_nobody() -> None:
    """Noise of a step's own seed: fresh at each step, the same on both sides. Its law is as claimed."""

    def gradient(state: tuple[int, Rows], rows: Rows, rng: np.random.Generator) -> Rows:
        return noisy(1.0)(state[1], rows, np.random.default_rng(state[0]))  # type: ignore[no-any-return]

    for seed in range(2):
        numbered = (((1000 * seed + step, own), rows) for step, (own, rows) in enumerate(states(80, seed)))
        result = dpl.audit_steps(gradient, numbered, np.full(3, 50.0), dpl.GaussianLaw(1), seed=seed)
        assert result.told
        assert result.verdict == "not_refuted"


@pytest.mark.parametrize("begins", [1, 7])
def test_noise_that_both_gradients_share_from_a_later_step_on_accuses_nobody(begins: int) -> None:
    """And half of it is found."""

    def keyed(secret: int, sigma: float) -> Any:
        def gradient(step: int, rows: Rows, rng: np.random.Generator) -> float:
            own = rng if step < begins else np.random.default_rng([secret, step])
            return float(np.clip(rows, -1, 1).sum() + own.normal(0, sigma))

        return gradient

    numbered = [(step, np.zeros(5)) for step in range(120)]
    for seed in range(2):
        result = dpl.audit_steps(keyed(seed, 1.0), numbered, 5.0, dpl.GaussianLaw(1), seed=seed, rehearsals=2)
        assert result.verdict == "not_refuted"
        assert result.told[0].startswith(f"from step {begins + 1} on: ")
    half = dpl.audit_steps(keyed(5, 0.25), numbered, 5.0, dpl.GaussianLaw(1), seed=5, rehearsals=2)
    assert half.verdict == "violation"


def test_a_few_rehearsals_that_come_out_alike_by_luck_are_no_noise_in_common() -> None:
    def gradient(state: float, rows: Rows, rng: np.random.Generator) -> float:
        return float(np.clip(rows, -1, 1).sum() + np.rint(rng.normal(0, 0.5)))

    numbered = [(0.0, np.zeros(5)) for _ in range(60)]
    assert not dpl.audit_steps(gradient, numbered, 5.0, dpl.GaussianLaw(1), seed=1, rehearsals=2).told


# ---- the wealth -----------------------------------------------------------------------------------------------------


def test_steps_on_the_boundary_alarm_as_rarely_as_they_may() -> None:
    for paired in (False, True):
        fell = [audited(1.0, seed, steps=30, alpha=Fraction(1, 5), paired=paired).fell_after for seed in range(10)]
        assert sum(after is not None for after in fell) <= 6  # P(Bin(10, 1/5) >= 7) < 1e-3


@pytest.mark.parametrize("law", [StepLaw(mu=1.0), StepLaw(mu=0.5, rate=0.2), StepLaw(mu=4.0)])
def test_no_bet_of_a_law_gains_where_the_claim_is_kept(law: StepLaw) -> None:
    """In the mean, exactly, on the boundary of the claim; and each gains where noise is as much less as it supposes."""
    wealth = StepWealth(step_claim(law.parts()), ALPHA)
    bets = wealth._supposed
    assert bets is not None
    left, right = law.masses(bets.cuts)
    means = (left * np.exp(bets.left)).sum(1) * (right * np.exp(bets.right)).sum(1)
    assert (means <= 1 + 1e-9).all()
    for row, factor in enumerate(FACTORS):
        left, right = law.masses(bets.cuts, factor)
        assert bets.left[row] @ left + bets.right[row] @ right > 0


def test_more_than_is_claimed_falls() -> None:
    """The twin of the test above: it must alarm."""
    fell = [audited(1.5, seed, steps=150, alpha=Fraction(1, 5)).fell_after for seed in range(4)]
    assert sum(after is not None for after in fell) >= 3


def test_the_mu_that_is_refuted_is_below_the_true_one() -> None:
    found = [audited(2.0, seed, steps=60).evidence().mu_lower for seed in range(4)]
    assert all(one is None or one <= 2 for one in found)
    assert sum(one is not None for one in found) >= 3


def test_steps_with_noise_in_common_are_bet_on_as_pairs_are() -> None:
    wealth = StepWealth(CLAIM, ALPHA, paired=True)
    bets = wealth._supposed
    assert bets is not None
    wealth.add(0.3, -1.2)
    x, y = (int(np.searchsorted(bets.cuts[1:-1], side, side="right")) for side in (0.3, -1.2))
    pairs = zip(bets.left, bets.right, strict=True)
    assert np.allclose(bets.wealth, [hedged(a, b)[x, y] - ROUNDING for a, b in pairs], rtol=1e-12)


def test_the_power_that_is_told_beforehand_is_met() -> None:
    factor = least_refuted(CLAIM, ALPHA, 60)
    assert factor is not None
    fell = [audited(factor, seed, steps=60).fell_after for seed in range(6)]
    assert sum(after is not None for after in fell) >= 4
    assert least_refuted(CLAIM, ALPHA, 1000) < factor  # type: ignore[operator]  # there is one
    assert least_refuted(step_claim(dpl.PureDP(1)), ALPHA, 60) is None


# ---- claims and canaries --------------------------------------------------------------------------------------------


def test_a_law_is_tested_as_its_guarantee_is() -> None:
    assert step_claim(dpl.GaussianLaw(2)).target == step_claim(dpl.GDP("0.5")).target
    sampled = step_claim(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.1"))
    profile = dpl.compose(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.1"), relation="add_remove")
    points = (*sampled.target.knots, sampled.target.point)
    assert all(profile.delta(point.epsilon).lower <= point.delta for point in points)
    assert sampled.law == StepLaw(mu=1.0, rate=0.1)
    assert step_claim(dpl.LaplaceLaw(1)).law is None


def test_masses_of_a_law_are_those_of_its_normals() -> None:
    from scipy.stats import norm

    cuts = np.array([-np.inf, -1.0, 0.5, 2.0, np.inf])
    left, right = StepLaw(mu=0.8, rate=0.25).masses(cuts, 2.0)
    without = np.diff(norm.cdf(cuts))
    mixed = 0.25 * np.diff(norm.cdf(cuts, loc=1.6)) + 0.75 * without
    assert np.allclose(left[:-1], mixed, atol=1e-9)
    assert np.allclose(right[:-1], without, atol=1e-9)
    assert math.isclose(left.sum(), 1) and math.isclose(right.sum(), 1)  # noqa: PT018


@pytest.mark.parametrize("claim", [None, 1, "gdp"])
def test_what_is_no_claim_is_refused(claim: Composition | None) -> None:
    with pytest.raises(dpl.ParameterError, match="claim"):
        dpl.audit_steps(noisy(1.0), states(3, 1), np.zeros(3), claim)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"states": iter(())}, "states"),
        ({"states": [1, 2]}, "states"),
        ({"rehearsals": 1}, "rehearsals"),
        ({"space": "gradients"}, "space"),
        ({"gradients": of_rows}, "gradients"),
        ({"gradient": 3}, "gradient"),
        ({"gradient": lambda state, batch, rng: 1 / 0}, "gradient"),
        ({"canary": np.zeros(2)}, "canary"),
        ({"direction": np.zeros(3)}, "direction"),
        ({"direction": np.ones(2)}, "direction.*as many as the gradient"),
        ({"gradient": lambda state, rows, rng: rows - state}, "gradient.*one vector of floats for the batch"),
        ({"canary": np.full(3, math.nan)}, "gradient.*with the canary NaN"),
        ({"gradient": DPSGD(**RUN), "gradients": lambda state, rows: rows[:, :2]}, "gradients.*one row a unit"),
        ({"gradient": DPSGD(**RUN), "gradients": lambda state, rows: rows[0]}, "gradients.*one row a unit"),
        ({"gradient": DPSGD(**RUN), "gradients": lambda state, rows: None}, "gradients.*one row a unit"),
    ],
)
def test_bad_parameters_are_named(changed: dict[str, Any], named: str) -> None:
    asked: dict[str, Any] = {
        "gradient": noisy(1.0), "states": states(3, 1), "canary": np.zeros(3), "claim": dpl.GDP(1), **changed
    }  # fmt: skip
    with pytest.raises(dpl.ParameterError, match=named):
        dpl.audit_steps(**asked)


def test_a_canary_has_the_form_of_an_item() -> None:
    assert with_canary(torch.zeros(2, 3), np.ones(3))[2].tolist() == [1, 1, 1]
    assert with_canary(["a"], "b") == ["a", "b"]
    for batch, canary in (({}, 1), (np.zeros((2, 3)), "x"), ((np.zeros(2), [1]), (1,))):
        with pytest.raises(dpl.ParameterError):
            with_canary(batch, canary)


def test_a_result_goes_on_record() -> None:
    result = dpl.audit_steps(noisy(0.5), states(80, 1), np.full(3, 50.0), dpl.GaussianLaw(1), seed=1)
    book = dpl.Ledger.in_memory()
    body = book.record(result).body
    assert isinstance(body, Audited)
    assert body.schedule == STEPS
    assert body.verdict == "violation"
    assert "audit_steps" in result.again
    with pytest.raises(dpl.ParameterError, match="steps of a training"):
        dpl.Audit.again(body, noisy(0.5), 0, 1)
    assert "noise multiplier is at most" in str(result)


def test_a_canary_that_moves_nothing_is_blind() -> None:
    def gradient(state: float, rows: npt.NDArray[np.float64], rng: np.random.Generator) -> float:
        return float(np.clip(rows, -1, 1).sum() + rng.normal())

    states = [(0.0, np.zeros(5))] * 120
    asked: dict[str, Any] = {"claim": dpl.GaussianLaw(1), "direction": [1.0], "seed": 1, "progress": False}
    unmoved = dpl.audit_steps(gradient, states, 0.0, **asked)
    assert unmoved.blind is not None
    assert "no effect" in unmoved.blind
    assert unmoved.power is None
    moved = dpl.audit_steps(gradient, states, 9.0, **asked)
    assert moved.blind is None
    assert moved.power is not None
    few = dpl.audit_steps(gradient, states[:20], 0.0, **asked)  # of which nobody could say
    assert few.blind is None
