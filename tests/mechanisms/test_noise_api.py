"""`draw`: shapes, types, no wrapping, and record and replay."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from dpledger.errors import ParameterError, PolicyError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Draw,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    draw,
    recording,
    replaying,
    unrecorded,
)

LAW = DiscreteLaplace(scale=3)
ONE = Sensitivity(1, "l1", "a record changes a count by one")


def noisy(value: Any, *, law: Any = LAW, seed: int = 1) -> Any:
    return draw(law, value, sensitivity=ONE, entropy=seeded(seed))


@settings(max_examples=50, deadline=None)
@given(
    values=arrays.arrays(np.int64, arrays.array_shapes(min_dims=0, max_dims=3, max_side=5)), seed=st.integers(0, 2**16)
)
def test_an_array_keeps_its_shape_and_gets_the_noise_of_zeros(values: np.ndarray[Any, Any], seed: int) -> None:
    result = noisy(values, seed=seed)
    noise = noisy(np.zeros(values.shape, dtype=np.int64), seed=seed)
    assert result.shape == values.shape
    assert [int(r) - int(n) for r, n in zip(result.flat, noise.flat, strict=True)] == values.reshape(-1).tolist()


@settings(max_examples=50, deadline=None)
@given(value=st.integers(-(10**30), 10**30), seed=st.integers(0, 2**16))
def test_a_number_gets_the_noise_of_zero_however_large_it_is(value: int, seed: int) -> None:
    assert noisy(value, seed=seed) == value + noisy(0, seed=seed)
    assert type(noisy(value, seed=seed)) is int


def test_sums_never_wrap() -> None:
    edge = np.array([2**63 - 1, -(2**63)] * 50)
    result = noisy(edge)
    assert result.dtype == object
    assert max(result) > 2**63 - 1
    assert min(result) < -(2**63)
    assert noisy(np.array([2**63 - 10**6])).dtype == np.int64
    assert noisy(np.array([2**64 - 1] * 20, dtype=np.uint64)).dtype == object
    assert noisy(np.array([10**40] * 3, dtype=object)).tolist() == [
        10**40 + n for n in noisy(np.zeros(3, int)).tolist()
    ]


@pytest.mark.parametrize("value", [5, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_an_array_without_axes_is_answered_whatever_it_holds(value: int, dtype: Any) -> None:
    """Found: AttributeError for numbers of 2^62 and more only, a refusal that depends on the data."""
    result = noisy(np.array(value, dtype=dtype))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result.item() == value + noisy(np.zeros(1, int)).item()


def test_masked_entries_get_noise_like_all_others() -> None:
    """Found: numpy adds nothing to what is masked, so the exact numbers stood in the answer's `data`."""
    masked = np.ma.masked_array([1000, 2000, 3000], mask=[False, True, False])
    for result in (noisy(masked), noisy(masked.astype(object))):
        assert type(result) is np.ndarray
        assert result.tolist() == noisy(np.array([1000, 2000, 3000])).tolist()


def test_an_empty_array_stays_empty() -> None:
    for law in (LAW, DiscreteGaussian(1), RoundedLaplace(1, 1), RoundedGaussian(1, 1)):
        assert noisy(np.zeros((0, 3), dtype=np.int64), law=law).shape == (0, 3)


@pytest.mark.parametrize(
    "value", [1.0, True, "1", None, [1, 2], np.array([1.0]), np.array([True]), np.array([1, 2.5], dtype=object)]
)
def test_a_mechanism_that_passes_no_whole_numbers_is_told(value: object) -> None:
    with pytest.raises(ParameterError, match="value"):
        noisy(value)


def test_a_law_and_a_sensitivity_are_needed() -> None:
    with pytest.raises(ParameterError, match="law"):
        noisy(1, law="laplace")
    with pytest.raises(ParameterError, match="sensitivity"):
        draw(LAW, 1, sensitivity=1, entropy=seeded(1))  # type: ignore[call-overload]


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "-inf", "x", None, True, 10**18, "1e-61"])
def test_laws_refuse_parameters_that_are_no_scale(bad: Any) -> None:
    for make in (DiscreteLaplace, DiscreteGaussian):
        with pytest.raises(ParameterError):
            make(bad)
    for wide in (RoundedLaplace, RoundedGaussian):
        with pytest.raises(ParameterError):
            wide(bad, grid=1)
        with pytest.raises(ParameterError, match="grid"):
            wide(1, grid=bad)


@pytest.mark.parametrize("fields", [(0, "l1", "why"), (1, "l3", "why"), (1, "l1", ""), (1, "l1", "x" * 501)])
def test_a_sensitivity_has_a_value_a_norm_and_a_reason(fields: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ParameterError):
        Sensitivity(*fields)


def test_a_recording_keeps_what_was_declared_passed_and_returned() -> None:
    values = np.array([[1, 2], [3, 4]])
    with recording() as draws:
        first = noisy(7)
        second = noisy(values)
        values[:] = 0
    noisy(8)
    assert [d.size for d in draws] == [1, 4]
    assert (draws[0].law, draws[0].sensitivity, draws[0].value, draws[0].output) == (LAW, ONE, 7, first)
    assert np.array_equal(draws[1].value, [[1, 2], [3, 4]])
    assert np.array_equal(draws[1].output, second)


def test_recording_does_not_change_the_draws() -> None:
    with recording():
        recorded = noisy(7)
    assert recorded == noisy(7)


def test_a_replay_hands_out_the_recorded_outputs_and_records_the_new_inputs() -> None:
    def run(value: int) -> list[Any]:
        return [noisy(value), noisy(np.array([value, value])), noisy(value + 1, law=DiscreteLaplace(5))]

    with recording() as left:
        outputs = run(10)
    with replaying(left) as right:
        replayed = run(11)
    assert [np.asarray(output).tolist() for output in outputs] == [np.asarray(output).tolist() for output in replayed]
    assert [np.asarray(d.value).tolist() for d in right] == [11, [11, 11], 12]
    assert all(a.law == b.law and a.size == b.size for a, b in zip(left, right, strict=True))


def test_a_replay_reads_as_much_entropy_as_the_recorded_run() -> None:
    """So that whatever else a mechanism draws from it (a secret batch) is the same in both."""

    def run() -> tuple[int, list[int]]:
        entropy = seeded(9)
        value = draw(DiscreteGaussian(3), 5, sensitivity=ONE, entropy=entropy)
        return value, entropy.words(2).tolist()

    with recording() as draws:
        recorded = run()
    with replaying(draws):
        assert run() == recorded


def test_a_replay_that_parts_from_the_script_draws_afresh() -> None:
    with recording() as left:
        noisy(10)
    with replaying(left) as right:
        outputs = [noisy(0, law=DiscreteLaplace(10**6), seed=5), noisy(0, seed=6)]
    assert outputs == [noisy(0, law=DiscreteLaplace(10**6), seed=5), noisy(0, seed=6)]
    assert [d.law for d in right] != [d.law for d in left]


def test_a_recording_is_of_one_thread_and_nests() -> None:
    with recording() as outer:
        with recording() as inner:
            noisy(1)
        thread = threading.Thread(target=noisy, args=(2,))
        thread.start()
        thread.join()
        noisy(3)
    assert [d.value for d in inner] == [1]
    assert [d.value for d in outer] == [3]


def test_what_is_unrecorded_is_in_no_log() -> None:
    """Neither one that is on, nor one that is put on inside; and only as long as it lasts."""

    @unrecorded()
    def run() -> Any:
        return noisy(7)

    with recording() as draws, pytest.raises(PolicyError, match="being recorded"):
        run()
    assert draws == []
    for log in (recording, lambda: replaying(draws)):
        with unrecorded(), unrecorded(), pytest.raises(PolicyError, match="inside a release"), log():
            pass
    assert run() == noisy(7)
    with recording() as draws:
        noisy(7)
    assert len(draws) == 1


def test_a_draw_shows_nothing_by_accident() -> None:
    shown = repr(Draw(law=LAW, sensitivity=ONE, value=123456789, output=987654321))
    assert "123456789" not in shown
    assert "987654321" not in shown
