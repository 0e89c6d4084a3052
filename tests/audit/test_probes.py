"""Probes of training set-ups of numpy: a fault planted for each is found and named, and correct set-ups pass."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dpledger as dpl
from dpledger.audit.training.probes import loops, probe_loop, probe_sgd
from dpledger.audit.training.probes.result import QUESTIONS, ProbeFinding
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy, seeded
from dpledger.mechanisms.training import DPSGD
from dpledger.mechanisms.training.batches import Positions
from dpledger.mechanisms.training.clipping import clipped_sum
from dpledger.mechanisms.training.training_run import StepNumbers, TrainingRun
from dpledger.mechanisms.units import Units

pytestmark = pytest.mark.sliced

ROWS, BATCH, RATE, NORM, NOISE = 80, 8, 0.1, 2.0, 1.5
MADE_UP = np.random.default_rng(0).normal(size=(ROWS, 3))
NUMBERS: dict[str, Any] = {
    "rate": "0.1", "noise_multiplier": "1.5", "clip_norm": 2, "expected_batch_size": BATCH
}  # fmt: skip
PLAN: dict[str, Any] = {**NUMBERS, "steps": 9, "dimension": 3}
RELATIONS = [dpl.Relation.ADD_REMOVE, dpl.Relation.ZERO_OUT]


def towards_zero(batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return -batch


# ---- our own loop ---------------------------------------------------------------------------------------------------


def changed(step: type[StepNumbers]) -> type[DPSGD]:
    """A `DPSGD` whose steps are of another class."""

    class Changed(DPSGD):
        @property
        def one_step(self) -> StepNumbers:
            right = super().one_step
            return step(**{one.name: getattr(right, one.name) for one in dataclasses.fields(right)})

    return Changed


class ClipsTheBatch(StepNumbers):
    """TRN-B1."""

    def clipped(self, rows: npt.NDArray[Any]) -> Any:
        total = np.asarray(rows, dtype=np.float64).sum(axis=0, keepdims=True)
        return clipped_sum(total, clip_norm=float(self.clip_norm), grid=float(self.grid))


class ClipsNothing(StepNumbers):
    def clipped(self, rows: npt.NDArray[Any]) -> Any:
        return clipped_sum(rows, clip_norm=1e9 * float(self.clip_norm), grid=float(self.grid))


class HalfTheNoise(StepNumbers):
    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> npt.NDArray[np.float64]:
        quiet = super().noisy_mean(rows[:0], entropy)
        mean = self.clipped(rows).astype(np.float64) * (float(self.grid) / float(self.expected_batch_size))
        return np.asarray(mean + quiet / 2)


class OwnDivisor(StepNumbers):
    """TRN-B2, of sum and noise."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> npt.NDArray[np.float64]:
        return super().noisy_mean(rows, entropy) * (float(self.expected_batch_size) / max(1, len(rows)))


class TwiceTheRate(StepNumbers):
    """TRN-B9."""

    def batch(self, units: int, entropy: Entropy) -> Positions:
        return np.union1d(super().batch(units, entropy), super().batch(units, entropy))


class SameSize(StepNumbers):
    """TRN-B3."""

    def batch(self, units: int, entropy: Entropy) -> Positions:
        seed = int(entropy.words(1)[0])
        return np.random.default_rng(seed).permutation(units)[:BATCH].astype(np.int64)


class Forgets(TrainingRun):
    """TRN-B5: a step that is not counted."""

    def close(self) -> Any:
        self._done -= 1
        return super().close()


class ForgetsSteps(DPSGD):
    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        return Forgets(self.one_step, self.parts(), Units.of(data), entropy)


OURS: dict[str, tuple[str, type[DPSGD], str]] = {
    "batch clipped": ("clipping", changed(ClipsTheBatch), "not per example|moves the sum by"),
    "nothing clipped": ("clipping", changed(ClipsNothing), "moves the sum by"),
    "half the noise": ("noise", changed(HalfTheNoise), r"0\.7\d+ clip norms of noise .* where 1.5 are charged"),
    "divided by the batch": ("divisor", changed(OwnDivisor), "divided by a number that is"),
    "twice the rate": ("sampler", changed(TwiceTheRate), "rows are drawn at 0.19"),
    "batches of one size": ("sampler", changed(SameSize), "8 rows, never another number"),
    "a step not counted": ("accountant", ForgetsSteps, "after 1 updates the accountant has counted 0 steps"),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_correct_plan_gets_six_times_yes(relation: dpl.Relation) -> None:
    plan = DPSGD(**PLAN, relation=relation)
    report = probe_sgd(plan, towards_zero, MADE_UP)
    assert [one.name for one in report.findings] == list(QUESTIONS)
    assert all(one.answer == "yes" for one in report.findings), str(report)


@pytest.mark.parametrize("name", OURS)
def test_a_fault_of_our_own_loop_is_found_by_its_probe_alone(name: str) -> None:
    asked, kind, match = OURS[name]
    report = probe_sgd(kind(**PLAN), towards_zero, MADE_UP)
    assert report.faults == (asked,), str(report)
    assert_said(report.finding(asked), match)


def test_two_ranks_of_one_seed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRN-B8."""
    monkeypatch.setattr(loops, "system", lambda: seeded(7))
    report = probe_sgd(DPSGD(**PLAN), towards_zero, MADE_UP)
    assert report.faults == ("ranks",)
    assert_said(report.finding("ranks"), "correlation 1")


def assert_said(finding: ProbeFinding, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        raise AssertionError(finding.evidence)


# ---- anybody's loop -------------------------------------------------------------------------------------------------


def noisy(total: Any, rng: np.random.Generator, multiplier: float = NOISE) -> Any:
    return total + rng.normal(0, multiplier * NORM, 3)


def clip(batch: Any, norm: float = NORM) -> Any:
    return -batch * np.minimum(1, norm / (1e-12 + np.linalg.norm(batch, axis=1, keepdims=True)))


def right(_: object, batch: Any, rng: np.random.Generator) -> Any:
    return noisy(clip(batch).sum(axis=0), rng) / BATCH


def poisson(rows: int, rng: np.random.Generator) -> Iterator[Any]:
    while True:
        yield np.flatnonzero(rng.random(rows) < RATE)


def shuffled(rows: int, rng: np.random.Generator) -> Iterable[Any]:
    return np.array_split(rng.permutation(rows), rows // BATCH)


def without_the_last(rows: int, rng: np.random.Generator) -> Iterable[Any]:
    """drop_last, of 80 rows in batches of 9."""
    order = rng.permutation(rows)
    return [order[start : start + 9] for start in range(0, rows - 9, 9)]


def weighted(rows: int, rng: np.random.Generator) -> Iterator[Any]:
    """Twice the chance for a fifth of the rows, at the charged rate in the mean."""
    weights = np.where(np.arange(rows) < rows // 5, 2.0, 1.0)
    yield np.flatnonzero(rng.random(rows) < RATE * weights / weights.mean())


def with_replacement(rows: int, rng: np.random.Generator) -> Iterator[Any]:
    yield rng.integers(rows, size=BATCH)


def sticky(rows: int, rng: np.random.Generator) -> Iterator[Any]:
    """A row is drawn in pairs of batches."""
    drawn = np.flatnonzero(rng.random(rows) < RATE)
    yield from (drawn, drawn)


def by_sizes(sizes: Any, batch: Any, rng: np.random.Generator) -> Any:
    """The divisor of Opacus: the integer part of rows / batches."""
    return noisy(clip(batch).sum(axis=0), rng) / sizes


def generator_of(rank: int) -> np.random.Generator:
    return np.random.default_rng([3, rank])


CORRECT: dict[str, Any] = {
    "state": len, "sampler": poisson, "counted_after": int, "generators": generator_of, **NUMBERS
}  # fmt: skip
FAULTS: dict[str, tuple[str, Callable[..., Any], dict[str, Any], str]] = {
    "a mean that is clipped": (
        "clipping",
        lambda _, b, rng: noisy(clip(b.mean(axis=0, keepdims=True))[0], rng) / BATCH,
        {},
        "not per example|moves the sum by",
    ),
    "a larger norm": ("clipping", lambda _, b, rng: noisy(clip(b, 3).sum(axis=0), rng) / BATCH, {}, "1.5 clip norms"),
    "centred rows": (
        "clipping",
        lambda _, b, rng: noisy(clip(b - b.mean(axis=0)).sum(axis=0), rng) / BATCH,
        {},
        "not per example|moves the sum by",
    ),
    "noise without the norm": (
        "noise",
        lambda _, b, rng: (clip(b).sum(axis=0) + rng.normal(0, NOISE, 3)) / BATCH,
        {},
        r"0\.7\d+ clip norms",
    ),
    "noise divided twice": (
        "noise",
        lambda _, b, rng: clip(b).sum(axis=0) / BATCH + rng.normal(0, NOISE * NORM, 3) / BATCH**2,
        {},
        r"0\.1\d+ clip norms",
    ),
    "a tenth too little": (
        "noise",
        lambda _, b, rng: noisy(clip(b).sum(axis=0), rng, 0.9 * NOISE) / BATCH,
        {},
        r"1\.\d+ clip norms of noise .* where 1.5",
    ),
    "one coordinate without": (
        "noise",
        lambda _, b, rng: (clip(b).sum(axis=0) + rng.normal(0, NOISE * NORM * 1.4, 3) * [1, 1, 0]) / BATCH,
        {},
        "one coordinate gets .* clip norms of noise only",
    ),
    "the sum by its own size": (
        "divisor",
        lambda _, b, rng: clip(b).sum(axis=0) / max(1, len(b)) + rng.normal(0, NOISE * NORM / BATCH, 3),
        {},
        "the sum is divided by a number that is",
    ),
    "the batch's own size": (
        "divisor",
        lambda _, b, rng: noisy(clip(b).sum(axis=0), rng) / max(1, len(b)),
        {},
        "noise is divided by a number that is",
    ),
    "a part of the rows": ("divisor", by_sizes, {"state": lambda rows: len(rows) // 10}, "follows the number of rows"),
    "shuffled": ("sampler", right, {"sampler": shuffled}, "8 rows, never another number"),
    "drop_last": ("sampler", right, {"sampler": without_the_last}, "9 rows, never another number"),
    "weights": ("sampler", right, {"sampler": weighted}, "rows have weights"),
    "replacement": ("sampler", right, {"sampler": with_replacement}, "drawn twice"),
    "sticky": ("sampler", right, {"sampler": sticky}, "more often"),
    "never counted": ("accountant", right, {"counted_after": lambda _: 0}, "counted 0 steps"),
    "counted an epoch late": ("accountant", right, {"counted_after": lambda steps: max(0, steps - 2)}, "counted 0"),
    "one seed for all": ("ranks", right, {"generators": lambda _: np.random.default_rng(3)}, "correlation 1"),
}


@pytest.mark.parametrize("shares_rows", [True, False])
def test_a_correct_loop_gets_six_times_yes(shares_rows: bool) -> None:
    report = probe_loop(right, MADE_UP, shares_rows=shares_rows, **CORRECT)
    assert all(one.answer == "yes" for one in report.findings), str(report)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_loop_is_found_by_its_probe_alone(name: str) -> None:
    asked, gradient, options, match = FAULTS[name]
    report = probe_loop(gradient, MADE_UP, **{**CORRECT, **options})
    assert report.faults == (asked,), str(report)
    assert_said(report.finding(asked), match)


def test_a_divisor_that_follows_the_rows_is_public_where_neighbours_share_their_number() -> None:
    options = {**CORRECT, "state": lambda rows: len(rows) // 10}
    assert probe_loop(by_sizes, MADE_UP, shares_rows=True, **options).faults == ()


def test_what_was_not_given_cannot_be_told_and_is_no_pass() -> None:
    report = probe_loop(right, MADE_UP, state=len, sampler=poisson, **NUMBERS)
    assert report.unknown == ("accountant", "ranks")
    assert "counted_after=" in report.finding("accountant").evidence
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(report)


def test_rows_that_do_not_explode_cannot_tell_of_clipping() -> None:
    report = probe_loop(right, MADE_UP * 1e-9, exploding=(0, 1), **CORRECT)
    assert report.finding("clipping").answer == "cannot tell"
    assert "give larger ones" in report.finding("clipping").evidence


@pytest.mark.parametrize("broken", [math.nan, math.inf, None])
def test_a_gradient_that_is_no_number_cannot_be_told(broken: float | None) -> None:
    def gradient(_: object, batch: Any, rng: np.random.Generator) -> Any:
        return None if broken is None else noisy(clip(batch).sum(axis=0), rng) + broken

    report = probe_loop(gradient, MADE_UP, **CORRECT)
    for name in ("clipping", "noise", "divisor", "ranks"):
        assert report.finding(name).answer == "cannot tell"
        assert "not finite" in report.finding(name).evidence


def test_noise_that_no_seed_makes_cannot_be_told() -> None:
    own = np.random.default_rng(4)
    report = probe_loop(lambda state, batch, _: right(state, batch, own), MADE_UP, **CORRECT)
    assert set(report.unknown) >= {"clipping", "divisor"}
    assert "does not follow from the seed" in report.finding("clipping").evidence


def test_a_function_whose_draws_follow_the_batch_cannot_be_told() -> None:
    def masked(state: object, batch: Any, rng: np.random.Generator) -> Any:
        return right(state, batch * (rng.random(batch.shape) < 0.5), rng)

    report = probe_loop(masked, MADE_UP, **CORRECT)
    assert "depends on the batch" in report.finding("clipping").evidence


@pytest.mark.slow
def test_correct_loops_are_accused_by_few_seeds() -> None:
    """Fifty seeds of the statistical probes: a correct one is accused with a chance of 1e-5 at most."""
    for seed in range(50):

        def seeded_right(state: object, batch: Any, rng: np.random.Generator, seed: int = seed) -> Any:
            return right(state, batch, np.random.default_rng([seed, int(rng.integers(2**62))]))

        def drawn(rows: int, rng: np.random.Generator, seed: int = seed) -> Iterator[Any]:
            yield from poisson(rows, np.random.default_rng([seed, int(rng.integers(2**62))]))

        assert probe_loop(seeded_right, MADE_UP, **{**CORRECT, "sampler": drawn}).faults == ()


def test_the_report_as_text_and_as_json() -> None:
    report = probe_loop(right, MADE_UP, **CORRECT)
    lines = str(report).splitlines()
    assert [line.split()[0] for line in lines] == list(QUESTIONS)
    document = json.loads(report.to_json())
    assert document["schema"] == "dpledger.probes.v1"
    assert [one["question"] for one in document["findings"]] == list(QUESTIONS.values())
    assert 1.4 < float(document["findings"][1]["numbers"]["noise_multiplier"]) < 1.6


@pytest.mark.parametrize("field", ["rate", "noise_multiplier", "clip_norm", "expected_batch_size"])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_a_number_out_of_range_is_named(field: str, bad: float) -> None:
    with pytest.raises(ParameterError, match=field):
        probe_loop(right, MADE_UP, **{**CORRECT, field: bad})


@pytest.mark.parametrize("exploding", [(0,), (0, 0), (0, ROWS), 3, ("a", "b")])
def test_positions_of_exploding_rows_are_checked(exploding: Any) -> None:
    with pytest.raises(ParameterError, match="exploding"):
        probe_loop(right, MADE_UP, exploding=exploding, **CORRECT)


def test_few_rows_and_rows_without_floats_are_refused() -> None:
    with pytest.raises(ParameterError, match="made_up_rows"):
        probe_loop(right, MADE_UP[:5], **CORRECT)
    with pytest.raises(ParameterError, match="exploding"):
        probe_loop(right, np.ones((ROWS, 3), dtype=int), **CORRECT)
    with pytest.raises(ParameterError, match="plan"):
        probe_sgd("a plan", towards_zero, MADE_UP)  # type: ignore[arg-type]
