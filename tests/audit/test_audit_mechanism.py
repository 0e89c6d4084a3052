"""Audits from the door: faults found, correct mechanisms left alone, seeds, jobs, input that is refused."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import dpledger as dpl
from audit_oracles import unruly
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.audit.tested.claims import ClaimPoint
from dpledger.audit.tested.subjects import named
from dpledger.audit.zoo.answers.numbers import AddedGaussian, AddedLaplace
from dpledger.errors import ParameterError, RelationError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.relations import Relation
from half_noise import HalfNoiseLaplace

pytestmark = pytest.mark.sliced

Rng = np.random.Generator


def test_a_correct_laplace_is_bounded_from_close_below() -> None:
    result = audit_mechanism(AddedLaplace(Decimal(1)), 0.0, 1.0, PureDP(1), trials=1_000_000, batched=True, seed=5)
    assert result.verdict == "not_refuted"
    assert 0.975 <= result.epsilon_lower <= 1
    assert result.power is not None
    assert 1 < result.power.epsilon < Decimal("1.03")
    assert result.float_leak is not None


def test_a_mechanism_of_dpledger_is_held_to_its_own_claim_and_curve() -> None:
    honest = Laplace(sensitivity=1, epsilon="0.5")
    fair = audit_mechanism(honest, 10, 11, trials=20_000, seed=3)
    foul = audit_mechanism(HalfNoiseLaplace(honest), 10, 11, trials=20_000, seed=2)
    assert (fair.verdict, foul.verdict) == ("not_refuted", "violation")
    assert fair.claim == foul.claim == PureDP("0.5")
    assert fair.replay is not None
    assert fair.replay.verdict == "not_refuted"
    assert fair.mechanism.kind == "laplace"
    assert fair.body().mechanism.parameters["scale"] == "2"


@pytest.mark.slow
def test_a_curve_finds_what_its_point_cannot() -> None:
    """Half the noise of a Gaussian: a few hundred runs against the curve, thousands at one point."""
    sigma = AddedGaussian(Decimal("1.86531581745"))
    point, curve = ApproxDP(1, "1e-5"), GDP("0.268051123206")
    seen = [audit_mechanism(sigma, 0.0, 1.0, curve, trials=3_000, batched=True, seed=seed) for seed in range(3)]
    missed = [audit_mechanism(sigma, 0.0, 1.0, point, trials=3_000, batched=True, seed=seed) for seed in range(3)]
    assert [result.verdict for result in seen] == ["violation"] * 3
    assert [result.verdict for result in missed] == ["not_refuted"] * 3
    assert "by its privacy curve as a whole" in str(seen[0])
    assert all(result.fell_as_a_whole and result.refuted is None for result in seen)
    assert seen[0].delta == Decimal("0.00001")


CURVE = PrivacyCurve(("0", "1", "3"), ("0.39", "0.13", "0.002"))  # what a Gaussian of noise multiplier 1 keeps


@pytest.mark.parametrize("claim", [GDP(1), ZCDP("0.5"), RDP(("2", "8"), ("1", "4")), BoundedRange(2), CURVE])
def test_a_correct_gaussian_is_not_refuted_under_any_kind_of_claim(claim: Guarantee) -> None:
    kept = AddedLaplace(Decimal(1)) if isinstance(claim, BoundedRange) else AddedGaussian(Decimal(1))
    result = audit_mechanism(kept, 0.0, 1.0, claim, trials=5_000, batched=True, seed=7)
    assert result.verdict == "not_refuted"
    assert sum(share.alpha for share in result.budget) * 20 == 1


def test_a_claimed_curve_is_tested_at_its_points_and_between() -> None:
    result = audit_mechanism(AddedGaussian(Decimal("0.4")), 0.0, 1.0, CURVE, trials=5_000, batched=True, seed=7)
    assert result.verdict == "violation"
    assert result.target.point == ClaimPoint(Decimal(3), Decimal("0.002"))
    with pytest.raises(ParameterError, match=r"at least the claim's least, 0\.002"):
        audit_mechanism(AddedGaussian(Decimal(1)), 0.0, 1.0, CURVE, trials=5_000, delta="1e-6", seed=7)


def test_the_gaussian_mechanism_is_audited_with_its_own_curve() -> None:
    result = audit_mechanism(Gaussian(sensitivity=1, noise_multiplier=2), 0, 1, trials=4_000, seed=3)
    assert result.verdict == "not_refuted"
    assert result.target.knots


def unbatched(data: float, rng: Rng) -> float:
    return data + float(rng.laplace(0, 0.5))


def vector(data: Any, size: int, rng: Rng) -> Any:
    """Ten coordinates, one of which has half the noise."""
    noise = rng.laplace(0, 1, (size, 10))
    noise[:, 6] /= 2
    return np.asarray(data) + noise


def test_a_function_that_is_called_once_a_run() -> None:
    result = audit_mechanism(unbatched, 0.0, 1.0, PureDP(1), trials=2_000, seed=1)
    assert result.verdict == "violation"
    assert result.mechanism.kind.endswith("unbatched")


def test_a_fault_in_one_coordinate_of_ten_is_found_and_named() -> None:
    result = audit_mechanism(
        vector, [0.0] * 10, [0.0] * 6 + [1.0] + [0.0] * 3, PureDP(1), trials=4_000, batched=True, seed=1
    )
    assert result.verdict == "violation"
    assert result.event is not None
    assert "output[6]" in result.event.words
    assert result.event.contains([0.0] * 6 + [5.0] + [0.0] * 3) != result.event.contains([0.0] * 6 + [-5.0] + [0.0] * 3)


def test_outputs_of_every_kind_are_outcomes_and_a_mechanism_without_data_is_not_refuted() -> None:
    result = audit_mechanism(unruly, 0.0, 1.0, PureDP("0.1"), trials=4_000, seed=1)
    assert result.verdict == "not_refuted"


class OnlyReleases(HalfNoiseLaplace):
    """A mechanism that cannot draw many releases at once."""

    sample = None  # type: ignore[assignment]

    def release(self, data: object, *, entropy: Entropy) -> Release[float]:
        return super().release(data, entropy=entropy)


# ---- seeds and jobs --------------------------------------------------------------------------------------------------


def same(result: AuditResult) -> tuple[object, ...]:
    return result.verdict, result.evidence


def test_the_same_seed_gives_the_same_result_with_any_number_of_jobs() -> None:
    one, two = (
        audit_mechanism(AddedLaplace(Decimal(1)), 0.0, 1.0, PureDP(1), trials=300_000, batched=True, seed=9, jobs=jobs)
        for jobs in (1, 2)
    )
    assert same(one) == same(two)


def test_two_functions_have_two_kinds() -> None:
    names = [
        "job.f",
        "__main__.f",
        "_job.f",
        "main__.f",
        "jöb.f",
        "jäb.f",
        "öb.f",
        "",
        "a b",
        "a_b",
        "x" * 129,
        "x" * 130,
        "-a",
    ]
    kinds = [named(name, {}).kind for name in names]
    assert len(set(kinds)) == len(names)
    assert kinds[:2] == ["job.f", "python:__main__.f"]
    for kind in kinds:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}", kind)


def test_another_seed_gives_other_runs_and_no_seed_a_fresh_one_that_is_named() -> None:
    def audited(seed: int | None) -> AuditResult:
        return audit_mechanism(AddedLaplace(Decimal(1)), 0.0, 1.0, PureDP(1), trials=500, batched=True, seed=seed)

    assert same(audited(1)) != same(audited(2))
    first, second = audited(None), audited(None)
    assert first.seed != second.seed
    assert same(first) == same(audited(first.seed))


# ---- collected outputs -----------------------------------------------------------------------------------------------


def test_collected_outputs_of_unequal_number() -> None:
    rng = np.random.default_rng(8)
    result = audit_outputs(rng.laplace(0, 0.5, 3_000), list(rng.laplace(1, 0.5, 2_000)), PureDP(1))
    assert result.verdict == "violation"
    assert 2 * result.trials_left == 3 * result.trials_right  # it ends when the claim has fallen
    assert result.seed is None


def test_collected_outputs_that_are_one_list_are_refused() -> None:
    one = np.random.default_rng(8).laplace(0, 0.5, 3_000)
    for other in (one, one[:2_000], one[::-1]):
        with pytest.raises(ParameterError, match="share memory"):
            audit_outputs(one, other, PureDP(1))


def test_collected_pairs_may_depend_on_each_other() -> None:
    """Both sides of a randomised response from one coin each: as independent runs it is told, as pairs it is kept."""
    coins = np.random.default_rng(8).random(20_000) < 0.7310585786
    left, right = np.where(coins, 1.0, 0.0), np.where(coins, 0.0, 1.0)
    assert audit_outputs(left, right, PureDP(1)).blind is not None
    kept = audit_outputs(left, right, PureDP(1), confidence=0.9999, paired=True)
    assert kept.evidence.fell_after is None
    with pytest.raises(ParameterError, match="as many as on the left"):
        audit_outputs(left, right[:-1], PureDP(1), paired=True)


# ---- what is refused -------------------------------------------------------------------------------------------------


def batch_that_raises(data: float, size: int, rng: Rng) -> Any:
    raise RuntimeError("patient 17")


def too_few(data: float, size: int, rng: Rng) -> Any:
    return np.zeros(size - 1)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"trials": 99}, "trials"),
        ({"trials": 1e6}, "trials"),
        ({"trials": True}, "trials"),
        ({"trials": 10**13}, "trials"),
        ({"confidence": 1}, "confidence"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"delta": 1}, "delta"),
        ({"delta": -0.1}, "delta"),
        ({"delta": math.inf}, "delta"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**53}, "seed"),
        ({"jobs": 0}, "jobs"),
        ({"claim": None}, "claim"),
        ({"claim": "PureDP"}, "claim"),
        ({"relation": "sideways"}, "relation"),
        ({"mechanism": 3}, "mechanism"),
        ({"mechanism": batch_that_raises}, "mechanism"),
        ({"mechanism": too_few}, "mechanism"),
        ({"claim": ApproxDP(1, "1e-5"), "delta": "1e-6"}, "delta"),
    ],
)
def test_bad_input_is_refused_and_named(changes: dict[str, Any], field: str) -> None:
    settings: dict[str, Any] = {
        "mechanism": AddedLaplace(Decimal(1)), "left": 0.0, "right": 1.0, "claim": PureDP(1), "trials": 200,
        "batched": True, "seed": 1,
    }  # fmt: skip
    with pytest.raises(ParameterError) as error:
        audit_mechanism(**{**settings, **changes})
    assert error.value.field.startswith(field)
    assert "patient" not in str(error.value)


def test_an_interactive_mechanism_is_refused_with_the_way_to_audit_it() -> None:
    with pytest.raises(ParameterError, match="opens the interaction, asks"):
        audit_mechanism(SparseVector(epsilon=1, cutoff=1, threshold=0, sensitivity=1), 0, 1, trials=200)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "audit",
    [
        lambda code: audit_mechanism(code, 0, 1, PureDP(1), trials=200),
        lambda code: dpl.audit_replay(code, 0, 1),
        lambda code: dpl.audit_service(code, 0, 1, PureDP(1), quota=200),
        lambda code: dpl.audit_training(code, [0], PureDP(1), score=lambda model, canary: 0.0, canaries=[1]),
        lambda code: dpl.analytic.audit_doubles(code, 0, 1, PureDP(1)),
        lambda code: dpl.assert_not_refuted(code, [(0, 1)], PureDP(1)),
    ],
)
def test_guarded_code_is_not_run_since_each_run_would_be_charged(audit: Callable[[object], object]) -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
    said: Any = {"by": "A. Smith", "reason": "a test", "relation": "add_remove"}
    guarded = scope.guard(lambda data, rng=None: data, claim=PureDP("0.1"), **said)
    with pytest.raises(ParameterError, match=r"the function itself, as it was given to scope\.guard"):
        audit(guarded)
    assert not len(scope.releases())


def test_outputs_that_are_too_few_or_no_list_are_refused() -> None:
    with pytest.raises(ParameterError, match="left_outputs"):
        audit_outputs([0.0] * 99, [0.0] * 200, PureDP(1))
    with pytest.raises(ParameterError, match="right_outputs"):
        audit_outputs([0.0] * 200, "text" * 50, PureDP(1))


HELD: dict[str, Callable[[Any], Any]] = {
    "series": pd.Series,
    "frame": pd.DataFrame,
    "polars": pl.Series,
    "tensor": torch.tensor,
    "tensor with a gradient": lambda outputs: torch.tensor(outputs, requires_grad=True),
}


@pytest.mark.parametrize("held", HELD)
def test_outputs_may_be_held_in_a_series_a_frame_or_a_tensor(held: str) -> None:
    def drawn(data: float, size: int, rng: Rng) -> Any:
        return HELD[held](rng.laplace(data, 0.5, size))

    left, right = (drawn(data, 2000, np.random.default_rng(seed)) for seed, data in enumerate((0.0, 1.0)))
    for one in (
        audit_outputs(left, right, PureDP(1)),
        audit_mechanism(drawn, 0.0, 1.0, PureDP(1), batched=True, trials=2000, seed=1),
    ):
        assert one.verdict == "violation"
    with pytest.raises(ParameterError, match="share memory"):
        audit_outputs(left, left, PureDP(1))


def test_a_mechanism_for_another_relation_is_refused() -> None:
    with pytest.raises(RelationError):
        audit_mechanism(
            Laplace(sensitivity=1, epsilon=1, relation=Relation.REPLACE_ONE), 0, 1, relation="add_remove", trials=200
        )


def test_a_mechanism_without_samples_is_released_once_a_run() -> None:
    result = audit_mechanism(OnlyReleases(Laplace(sensitivity=1, epsilon=1)), 0, 1, trials=600, seed=4)
    assert result.verdict == "violation"


def test_importing_the_room_loads_no_statistics_no_plots_and_no_workers() -> None:
    code = (
        "import sys, dpledger.audit, dpledger.audit.zoo\n"
        "print([name for name in ('scipy.stats', 'joblib', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# ---- calls that fail ------------------------------------------------------------------------------------------------


def noarg() -> int:
    return 1


def test_a_function_that_cannot_be_called_is_no_finding() -> None:
    said = r"called as f\(data, rng\), got TypeError from all of the first 128 runs"
    with pytest.raises(ParameterError, match=said) as refusal:
        audit_mechanism(noarg, 0, 1, PureDP(1), trials=1_000, seed=1)
    assert refusal.value.field == "mechanism"
    assert isinstance(refusal.value.__cause__, TypeError)


@pytest.mark.parametrize("batched", [False, True])
def test_a_function_that_always_raises_shows_what_it_raised(batched: bool) -> None:
    raised: list[KeyError] = []

    def lacks_a_column(*_: object) -> float:
        raised.append(KeyError(f"age, of call {len(raised)}"))
        raise raised[-1]

    with pytest.raises(ParameterError, match="KeyError") as refusal:
        audit_mechanism(lacks_a_column, 0, 1, PureDP(1), trials=1_000, seed=1, batched=batched)
    assert refusal.value.__cause__ in raised


@pytest.mark.parametrize("claim", [1, "1", 0.5, [PureDP(1)]])
def test_a_claim_is_a_guarantee(claim: Any) -> None:
    with pytest.raises(ParameterError, match=r"^claim: expected a guarantee, like PureDP\(1\), got "):
        audit_mechanism(lambda data, rng: 0.0, 0, 1, claim, trials=1_000, seed=1)


def test_a_function_that_raises_now_and_then_is_audited() -> None:
    def fragile(data: int, rng: Rng) -> float:
        if rng.random() < 0.9:
            raise ValueError
        return data + rng.laplace()

    assert audit_mechanism(fragile, 0, 1, PureDP(1), trials=2_000, seed=1).verdict == "not_refuted"


def test_a_function_that_raises_otherwise_on_each_side_is_refuted() -> None:
    def telling(data: int, rng: Rng) -> float:
        raise ValueError if data else KeyError

    assert audit_mechanism(telling, 0, 1, PureDP(1), trials=2_000, seed=1).verdict == "violation"


@pytest.mark.parametrize(("left", "right"), [([1.0], 1.0), (1.0, "x")])
def test_data_that_a_mechanism_cannot_use_are_refused_before_the_runs(left: object, right: object) -> None:
    with pytest.raises(ParameterError) as refusal:
        audit_mechanism(Laplace(sensitivity=1, epsilon=1), left, right, trials=1_000, seed=1)
    assert refusal.value.field == "data"


# ---- how long it takes ----------------------------------------------------------------------------------------------


def _waits(data: float, rng: np.random.Generator) -> float:
    time.sleep(0.002)
    return data + rng.laplace()


def test_an_audit_ends_when_its_seconds_are_over() -> None:
    started = time.monotonic()
    result = audit_mechanism(_waits, 0, 1, claim=PureDP(2), trials=10**9, seconds=1, seed=1)
    assert time.monotonic() - started < 20
    assert 0 < result.trials < 5_000
    for seconds in (0, -1, math.nan, math.inf):
        with pytest.raises(ParameterError, match="seconds"):
            audit_mechanism(_waits, 0, 1, claim=PureDP(2), trials=100, seconds=seconds, seed=1)


def test_who_does_not_stop_at_a_violation_learns_more_of_it() -> None:
    first, last = (
        audit_mechanism(unbatched, 0.0, 1.0, PureDP(1), trials=5_000, seed=1, stop_at_violation=stop)
        for stop in (True, False)
    )
    assert first.verdict == last.verdict == "violation"
    assert first.trials < last.trials == 5_000
    assert first.epsilon_lower < last.epsilon_lower < 2


def test_outputs_of_absurdly_many_numbers_are_refused_with_what_to_return_instead() -> None:
    with pytest.raises(ParameterError, match=r"at most 100,000 numbers: return what tells .*got 100,001 numbers"):
        audit_mechanism(lambda data, rng: np.full(100_001, data), 0, 1, claim=PureDP(2), trials=100, seed=1)


def test_wide_outputs_are_drawn_fewer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is held at once does not grow with them; the runs are as many."""
    sizes: list[int] = []

    def wide(data: float, size: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        sizes.append(size)
        return data + rng.laplace(size=(size, 10))

    monkeypatch.setattr("dpledger.audit.sampling.runs.MOST_NUMBERS", 1_000)
    result = audit_mechanism(
        wide, 0.0, 1.0, claim=PureDP(1), trials=1_000, batched=True, seed=1, stop_at_violation=False
    )
    assert (max(sizes) <= 100, sum(sizes) >= 2_000, result.verdict) == (True, True, "violation")
    assert (result.trials_left, result.trials_right) == (1_000, 1_000)
