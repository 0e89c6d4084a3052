"""What an audit must find, and whom it must leave alone, through its own door and with default arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_mechanism, audit_outputs
from told_outputs import TOLD

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
CLAIM = PureDP(1)


@pytest.mark.parametrize("name", TOLD)
def test_half_the_noise_is_found_in_every_type_of_output(name: str) -> None:
    def told(data: float, rng: Rng) -> Any:
        output = TOLD[name](float(data + rng.laplace(scale=0.5)))
        if name == "exception":
            raise ValueError(output.text)
        return output

    result = audit_mechanism(told, 0.0, 1.0, CLAIM, trials=1_000, seed=1, texts=name == "exception", progress=False)
    assert result.verdict == "violation"


def test_a_number_without_noise_in_a_dict_is_found() -> None:
    def told(data: list[float], rng: Rng) -> dict[str, float]:
        return {"rows": len(data) + rng.laplace(), "mean": float(np.mean(data))}

    assert audit_mechanism(told, [0.0, 1.0], [0.5, 1.0], CLAIM, trials=1_000, seed=1).verdict == "violation"


# ---- correct mechanisms that an auditor may accuse by its own doing --------------------------------------------------


class Buffered:
    """Answers in a buffer that it uses again."""

    def __init__(self) -> None:
        self.buffer = np.zeros(2)

    def __call__(self, data: float, rng: Rng) -> Any:
        self.buffer[:] = data + rng.laplace(), 0.0
        return self.buffer


class InPlace:
    """Adds its noise to the data that it was given."""

    def __call__(self, data: Any, rng: Rng) -> float:
        data += rng.laplace()
        return float(data[0])


class Quota:
    """Answers so many calls, and then no more."""

    most = 3_000

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        if self.calls > self.most:
            raise RuntimeError("quota")
        return data + rng.laplace()


class LargeQuota(Quota):
    """The same with ten times as many calls."""

    most = 30_000


class Drifts:
    """Its answers drift with the number of calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        return data + rng.laplace() + self.calls / 1_000


class WarmsUp(Drifts):
    """Its first answers are of another scale."""

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        return data + rng.laplace(scale=30 if self.calls < 500 else 1)


class Own:
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __call__(self, data: float) -> float:
        return data + self.rng.laplace()


CORRECT = [Buffered, InPlace, Quota, Drifts, WarmsUp, Own]


def accused(make: Callable[[], Any], seeds: range, trials: int) -> list[int]:
    """The seeds with which something correct is accused."""
    left: Any
    left, right = (np.zeros(1), np.ones(1)) if make is InPlace else (0.0, 1.0)
    return [
        seed
        for seed in seeds
        if audit_mechanism(
            make(), left, right, CLAIM, trials=trials, confidence="0.9999", seed=seed, progress=False
        ).verdict
        != "not_refuted"
    ]


@pytest.mark.parametrize("make", CORRECT)
def test_what_is_correct_is_never_accused(make: Callable[[], Any]) -> None:
    assert accused(make, range(2), 3_000) == []


@pytest.mark.slow
@pytest.mark.parametrize(("make", "trials"), [*((make, 2_000) for make in CORRECT), (LargeQuota, 20_000)])
def test_what_is_correct_is_accused_in_none_of_a_hundred_audits(make: Callable[[], Any], trials: int) -> None:
    assert accused(make, range(100), trials) == []


def test_a_large_quota_is_told() -> None:
    """It ends in the middle of the runs, on both sides about alike."""
    for seed in range(2):
        result = audit_mechanism(
            LargeQuota(), 0.0, 1.0, CLAIM, trials=20_000, confidence="0.9999", seed=seed, progress=False
        )
        assert result.verdict == "not_refuted"
        assert result.blind is not None


def test_a_generator_of_its_own_under_two_jobs_is_never_accused_and_its_noise_never_shared() -> None:
    """Each process would begin with a copy of the generator; a run is seeded wherever it runs."""
    for seed in range(2):
        one, two = (
            audit_mechanism(
                Own(), 0.0, 1.0, CLAIM, trials=2_000, confidence="0.9999", seed=seed, jobs=jobs, progress=False
            )
            for jobs in (1, 2)
        )
        assert two.verdict == "not_refuted"
        assert two.blind is None
        assert one.evidence == two.evidence


def test_outputs_that_are_listed_twice_are_told() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        left, right = (np.repeat(shift + rng.laplace(size=2_000), 2) for shift in (0, 1))
        result = audit_outputs(left, right, CLAIM, confidence="0.9999")
        assert result.verdict == "not_refuted"
        assert result.blind is not None


def test_raw_data_in_an_array_that_is_used_again_are_found() -> None:
    buffer = np.zeros(2**16)

    def raw(data: float, size: int, rng: Rng) -> Any:
        buffer[:size] = data
        return buffer[:size]

    assert audit_mechanism(raw, 0.0, 1.0, CLAIM, trials=1_000, batched=True, seed=1).verdict == "violation"


def test_the_last_bits_of_floats_are_told_and_counted_where_that_is_asked() -> None:
    def naive(data: float, size: int, rng: Rng) -> Any:
        return data + rng.laplace(size=size)

    told, counted = (
        audit_mechanism(naive, 0.0, 1.0, CLAIM, trials=20_000, batched=True, seed=1, floats=floats)
        for floats in ("numbers", "bits")
    )
    assert (told.verdict, counted.verdict) == ("not_refuted", "violation")
    assert told.float_leak is not None
    assert "floats='bits'" in str(told)
