"""Channels that hide from whoever looks at numbers: found through the door within 10^5 runs a side. Noise that is
correct to the last bit is left alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_mechanism

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
CLAIM = PureDP(1)
RUNS = 100_000


def sign_of_zero(data: float, size: int, rng: Rng) -> Any:
    """One answer in ten is a zero."""
    return np.where(rng.random(size) < 0.1, -0.0 if data else 0.0, rng.laplace(size=size))


def payload(data: float, size: int, rng: Rng) -> Any:
    """One answer in twenty is a NaN."""
    nan = np.full(size, 0x7FF8000000000001 + int(data), dtype=np.uint64).view(np.float64)
    return np.where(rng.random(size) < 0.05, nan, rng.laplace(size=size))


def lowest_bit(data: float, size: int, rng: Rng) -> Any:
    """Three answers in four end in the bit."""
    numbers = rng.laplace(size=size)
    ending = (numbers.view(np.uint64) & ~np.uint64(1)) | np.uint64(data)
    return np.where(rng.random(size) < 0.75, ending.view(np.float64), numbers)


def beside_a_large_number(data: float, rng: Rng) -> int:
    """Three answers in four end in the bit, which no float of that size holds."""
    return 2**60 + 2 * int(rng.integers(8)) + int(data if rng.random() < 0.75 else rng.integers(2))


def equal_coordinates(data: float, size: int, rng: Rng) -> Any:
    """In one answer of twenty two of six numbers are the same."""
    numbers = rng.laplace(size=(size, 6))
    if data:
        numbers[:, 3] = np.where(rng.random(size) < 0.05, numbers[:, 1], numbers[:, 3])
    return numbers


def shared_noise(data: float, size: int, rng: Rng) -> Any:
    """Eight numbers, one of which moves, and one draw of noise for all."""
    return np.eye(8)[5] * data + rng.laplace(size=(size, 1))


def parity_of_three(data: float, size: int, rng: Rng) -> Any:
    """Six numbers, of which three have the bit as the parity of their signs four times in five."""
    numbers = rng.normal(size=(size, 6))
    odd = (numbers[:, [0, 2, 5]] < 0).sum(1) % 2
    told = rng.random(size) < 0.8
    numbers[:, 5] *= np.where(told == (odd == data), 1, -1)
    return numbers


def one_time_rappor(data: float, size: int, rng: Rng) -> Any:
    """A Bloom filter of 16 bits and two hashes, f = 1/2: the loss is 2 h log((1 - f/2) / (f/2)), 4.39. Source:
    Erlingsson-Pihur-Korolova 2014, theorem 1."""
    bits = np.zeros(16, dtype=bool)
    bits[[2, 11] if data else [5, 7]] = True
    kept = rng.random((size, 16)) < 0.75
    return (kept == bits).astype(np.int64)


def naive_laplace(data: float, size: int, rng: Rng) -> Any:
    """What Mironov 2012 breaks."""
    return data + rng.laplace(size=size)


@pytest.mark.parametrize(
    ("mechanism", "floats"),
    [
        (sign_of_zero, "numbers"),
        (payload, "numbers"),
        (lowest_bit, "bits"),
        (equal_coordinates, "numbers"),
        (shared_noise, "numbers"),
        (parity_of_three, "numbers"),
        (one_time_rappor, "numbers"),
        (naive_laplace, "bits"),
    ],
)
def test_what_a_channel_hides_is_found(mechanism: Callable[..., Any], floats: Any) -> None:
    result = audit_mechanism(
        mechanism, 0.0, 1.0, CLAIM, trials=RUNS, batched=True, seed=1, floats=floats, progress=False
    )
    assert result.verdict == "violation"


def test_a_bit_beside_a_large_whole_number_is_found() -> None:
    assert audit_mechanism(beside_a_large_number, 0.0, 1.0, CLAIM, trials=RUNS, seed=1, progress=False).verdict == (
        "violation"
    )


@pytest.mark.parametrize("mechanism", [lowest_bit, naive_laplace])
def test_what_only_bits_of_floats_give_away_is_told_where_they_are_not_counted(mechanism: Callable[..., Any]) -> None:
    result = audit_mechanism(mechanism, 0.0, 1.0, CLAIM, trials=5_000, batched=True, seed=1, progress=False)
    assert result.verdict == "not_refuted"
    assert result.float_leak is not None


# ---- correct to the last bit -----------------------------------------------------------------------------------------

SPACING = Fraction(1, 2**10)


def rounded_once(data: Fraction, size: int, rng: Rng) -> npt.NDArray[np.float64]:
    """A number and noise on a grid, added as fractions and rounded once to a double: post-processing of the sum.

    The noise is the difference of two geometric numbers (Ghosh et al. 2009): the number moves by 1, which is 2^10
    steps, and each step loses 2^-10."""
    stops = -np.expm1(-float(SPACING))
    steps = rng.geometric(stops, size) - rng.geometric(stops, size)
    return np.array([float(data + step * SPACING) for step in steps.tolist()])


@pytest.mark.slow
def test_correctly_rounded_noise_is_never_accused() -> None:
    left = Fraction(1, 3)  # no double, so nearly every sum is rounded
    for seed in range(20):
        result = audit_mechanism(
            rounded_once,
            left,
            left + 1,
            CLAIM,
            trials=2_000,
            batched=True,
            seed=seed,
            floats="bits",
            confidence="0.9999",
            progress=False,
        )
        assert result.verdict == "not_refuted"
        assert result.blind is None
