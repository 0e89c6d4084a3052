"""What an audit must find, and whom it must leave alone, through its own door and with default arguments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.guarantees import GDP, PureDP
from dpledger.audit import ExPostClaim, audit_mechanism, audit_outputs
from dpledger.audit.sampling import runs as sampled_runs
from dpledger.errors import ParameterError
from half_noise import HalfNoiseLaplace
from told_outputs import TOLD

Rng = np.random.Generator
CLAIM = PureDP(1)
UNREADABLE = {"function"}  # what it holds cannot be seen


@pytest.mark.parametrize("name", TOLD)
def test_half_the_noise_is_found_in_every_type_of_output(name: str) -> None:
    def told(data: float, rng: Rng) -> Any:
        output = TOLD[name](float(data + rng.laplace(scale=0.5)))
        if name == "exception":
            raise ValueError(output.text)
        return output

    result = audit_mechanism(told, 0.0, 1.0, CLAIM, trials=1_000, seed=1, texts=name == "exception", progress=False)
    if name in UNREADABLE:
        assert result.blind is not None
    else:
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

    def __init__(self, most: int = 3_000) -> None:
        self.calls, self.most = 0, most

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        if self.calls > self.most:
            raise RuntimeError("quota")
        return data + rng.laplace()


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


@pytest.mark.parametrize("make", [Buffered, InPlace, Quota, Drifts, WarmsUp, Own])
def test_what_is_correct_is_never_accused(make: Callable[[], Any]) -> None:
    left: Any
    left, right = (np.zeros(1), np.ones(1)) if make is InPlace else (0.0, 1.0)
    for seed in range(4):
        result = audit_mechanism(
            make(), left, right, CLAIM, trials=3_000, confidence="0.9999", seed=seed, progress=False
        )
        assert result.verdict == "not_refuted"


def test_a_larger_quota_is_told_and_accuses_nobody() -> None:
    quota = Quota(30_000)
    result = audit_mechanism(quota, 0.0, 1.0, CLAIM, trials=20_000, confidence="0.9999", seed=1, progress=False)
    assert quota.calls > 30_000
    assert result.verdict == "not_refuted"
    assert result.blind is not None
    assert "runs depend on each other" in result.blind


def test_a_generator_of_its_own_in_two_jobs_is_seeded_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_runs, "HERE", 0.0)
    one, two = (
        audit_mechanism(Own(), 0.0, 1.0, CLAIM, trials=3_000, seed=1, jobs=jobs, progress=False) for jobs in (1, 2)
    )
    assert one.body() == two.body()
    assert (one.verdict, one.blind, one.told) == ("not_refuted", None, two.told)


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


# ---- what only some of a value gives away ---------------------------------------------------------------------------


def bit(x: float, size: int, rng: Rng) -> Any:
    """x, in nine runs of ten."""
    return (rng.random(size) < 0.1 + 0.8 * x).astype(np.int64)


def last_bit(x: float, size: int, rng: Rng) -> Any:
    return (rng.normal(size=size).view(np.int64) & ~np.int64(1) | bit(x, size, rng)).view(np.float64)


def payload(x: float, size: int, rng: Rng) -> Any:
    return (np.int64(0x7FF8000000000000) + bit(x, size, rng)).view(np.float64)


def equal_coordinates(x: float, size: int, rng: Rng) -> Any:
    numbers = rng.normal(size=(size, 5))
    numbers[:, 3] = np.where(bit(x, size, rng), numbers[:, 1], numbers[:, 3])
    return numbers


def shared_noise(x: float, size: int, rng: Rng) -> Any:
    return x * np.eye(8)[3] + rng.laplace(scale=8, size=(size, 1))


def parity(x: float, size: int, rng: Rng) -> Any:
    bits = rng.integers(0, 2, (size, 6))
    bits[:, 1] = bits[:, 3] ^ bits[:, 4] ^ bit(x, size, rng)
    return (2 * bits - 1) * rng.random((size, 6))


def one_time_rappor(x: float, size: int, rng: Rng) -> Any:
    bits = np.zeros(16, dtype=bool)
    bits[[2, 7] if x else [3, 11]] = True
    return np.where(rng.random((size, 16)) < 0.8, bits, ~bits)


def naive(x: float, size: int, rng: Rng) -> Any:
    return x + rng.laplace(size=size)


HIDDEN: dict[str, tuple[Callable[..., Any], str]] = {
    "sign of zero": (lambda x, size, rng: np.where(bit(x, size, rng), -0.0, 0.0), "bits"),
    "payload of a NaN": (payload, "bits"),
    "lowest bit of a float": (last_bit, "bits"),
    "2^60 and a bit": (lambda x, size, rng: 2**60 + bit(x, size, rng), "numbers"),
    "noise in floating point": (naive, "bits"),
    "coordinates that are equal": (equal_coordinates, "numbers"),
    "noise shared by 8 coordinates": (shared_noise, "numbers"),
    "parity of 3 signs of 6": (parity, "numbers"),
    "one-time RAPPOR": (one_time_rappor, "numbers"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_only_some_of_a_value_gives_away_is_found(name: str) -> None:
    mechanism, floats = HIDDEN[name]
    settings: dict[str, Any] = {"batched": True, "trials": 100_000, "seed": 1, "floats": floats, "progress": False}
    assert audit_mechanism(mechanism, 0.0, 1.0, CLAIM, **settings).verdict == "violation"


def rounded_once(x: float, rng: Rng) -> float:
    """x plus noise that is continuous: the double is one digit of it, and what lies below is drawn as well, added
    exactly, and rounded once."""
    noise = float(rng.laplace())
    below = Fraction(float(rng.random() - 0.5)) * Fraction(float(np.spacing(abs(noise))))
    return float(Fraction(x) + Fraction(noise) + below)


def test_noise_that_is_rounded_correctly_is_never_accused() -> None:
    """The twin, which adds what was rounded before, is."""
    settings: dict[str, Any] = {"trials": 600, "floats": "bits", "progress": False}
    for seed in range(20):
        result = audit_mechanism(rounded_once, 0.0, 1.0, CLAIM, seed=seed, confidence="0.9999", **settings)
        assert result.verdict == "not_refuted"
    assert audit_mechanism(naive, 0.0, 1.0, CLAIM, seed=1, batched=True, **settings).verdict == "violation"


# ---- on record ------------------------------------------------------------------------------------------------------

LAPLACE = dpl.Laplace(sensitivity=1, epsilon=1)
VERDICTS: dict[str, Callable[[], Any]] = {
    "violation": lambda: audit_outputs(*(np.repeat([0, 1], [9 * x + 45, 545 - 9 * x]) for x in (0, 50)), CLAIM),
    "a whole curve": lambda: audit_mechanism(
        lambda x, n, rng: x + rng.normal(size=n) / 2, 0.0, 1.0, GDP(1), batched=True, trials=5_000, seed=1
    ),
    "strata": lambda: audit_mechanism(
        lambda x, rng: x + rng.laplace() / 2, 0.0, 1.0, ExPostClaim(loss=lambda _: 1), trials=5_000, seed=1
    ),
    "a replay": lambda: audit_mechanism(
        HalfNoiseLaplace(dpl.Laplace(sensitivity=1, epsilon=1)), 0.0, 1.0, trials=2_000, seed=1
    ),
    "a pass": lambda: audit_mechanism(naive, 0.0, 1.0, CLAIM, batched=True, trials=2_000, seed=1, confidence="0.9999"),
    "all alike": lambda: audit_mechanism(lambda *_: 1, 0.0, 1.0, CLAIM, trials=500, seed=1),
    "none alike": lambda: audit_mechanism(lambda *_: object(), 0.0, 1.0, CLAIM, trials=500, seed=1),
    "dependent": lambda: audit_outputs(*(np.repeat(np.arange(500.0), 2) for _ in "ab"), CLAIM),
    "float leak": lambda: audit_mechanism(naive, 0.0, 1.0, CLAIM, batched=True, trials=20_000, seed=1),
    "rows apart": lambda: audit_mechanism(lambda x, rng: len(x) + rng.laplace(), [1], [1, 2, 3, 4], CLAIM, trials=500),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_every_verdict_is_recorded_and_comes_back(name: str, tmp_path: Path) -> None:
    result = VERDICTS[name]()
    with dpl.Ledger.create(tmp_path / "a.ledger") as book:
        entry = book.record(result)
        book.verify()
        assert book.entry(entry.index).body == result.body()
    assert (result.body().blind is None) == (result.blind is None)
    assert (result.body().apart is not None) == (name == "rows apart")


def test_rows_that_are_three_apart_are_refused_where_a_mechanism_reads_rows() -> None:
    with pytest.raises(ParameterError, match="apart"):
        audit_mechanism(dpl.Count(epsilon=1, of="rows"), [1], [1, 2, 3, 4], trials=500)
