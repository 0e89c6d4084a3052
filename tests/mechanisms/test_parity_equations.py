"""Equations over GF(2) against all their solutions, counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.learning.equations import Bits, Echelon, Systems
from exact_tests import SIGNIFICANCE, events_p_value

SMALL = st.integers(1, 6).flatmap(
    lambda unknowns: st.tuples(
        st.just(unknowns), st.lists(st.integers(0, 2 ** (unknowns + 1) - 1), min_size=0, max_size=9)
    )
)


def parts(equations: list[int], unknowns: int) -> tuple[Bits, Bits]:
    bits = np.array([[e >> j & 1 for j in range(unknowns + 1)] for e in equations], dtype=np.uint8)
    bits = bits.reshape(len(equations), unknowns + 1)
    return bits[:, :unknowns], bits[:, unknowns]


def all_solutions(equations: list[int], unknowns: int) -> set[int]:
    def holds(equation: int, x: int) -> bool:
        return (equation & (x | 1 << unknowns)).bit_count() % 2 == 0

    return {x for x in range(1 << unknowns) if all(holds(equation, x) for equation in equations)}


@given(SMALL)
def test_each_choice_of_bits_gives_a_solution_and_all_get_equally_many(case: tuple[int, list[int]]) -> None:
    unknowns, equations = case
    solutions = all_solutions(equations, unknowns)
    found = Echelon.of(*parts(equations, unknowns))
    assert (found is None) == (not solutions)
    if found is not None:
        counts = dict.fromkeys(solutions, 0)
        for free in itertools.product((0, 1), repeat=unknowns):
            solution = found.solution(np.array(free, dtype=np.uint8))
            counts[sum(int(bit) << j for j, bit in enumerate(solution))] += 1
        assert set(counts.values()) == {2**unknowns // len(solutions)}


@given(SMALL, st.integers(0, 2**32))
def test_many_systems_at_once_are_solved_as_each_by_itself(case: tuple[int, list[int]], seed: int) -> None:
    unknowns, equations = case
    kept = np.random.default_rng(seed).random((len(equations), 16)) < 0.6
    systems = Systems(16 << unknowns, unknowns)
    for equation, where in zip(equations, kept, strict=True):
        systems.add(equation, np.repeat(where, 1 << unknowns))
    found = systems.solutions(np.tile(np.arange(1 << unknowns, dtype=np.uint64), 16)).reshape(16, -1)
    fits = systems.solvable.reshape(16, -1)
    for system in range(16):
        solutions = all_solutions([e for e, where in zip(equations, kept[:, system], strict=True) if where], unknowns)
        assert fits[system].all() == fits[system].any() == bool(solutions)
        if solutions:
            values, counts = np.unique(found[system], return_counts=True)
            assert set(values.tolist()) == solutions
            assert set(counts.tolist()) == {2**unknowns // len(solutions)}


@pytest.mark.parametrize(
    ("equations", "unknowns"), [(1024, 4096), (2000, 63), (300, 64), (300, 65), (0, 70), (129, 128)]
)
def test_large_systems(equations: int, unknowns: int) -> None:
    rng = np.random.default_rng(5)
    left = rng.integers(0, 2, (equations, unknowns), dtype=np.uint8)
    hidden, free = rng.integers(0, 2, (2, unknowns), dtype=np.uint8)
    right = (left.astype(np.int64) @ hidden % 2).astype(np.uint8)
    found = Echelon.of(left, right)
    assert found is not None
    solution = found.solution(free)
    np.testing.assert_array_equal(left.astype(np.int64) @ solution % 2, right)
    kept = np.delete(np.arange(unknowns), found.pivots)
    np.testing.assert_array_equal(solution[kept], free[kept])
    if equations > unknowns:
        right[-1] ^= 1
        assert Echelon.of(left, right) is None


def test_solutions_of_a_hundred_thousand_random_systems_are_uniform() -> None:
    """x0 + x1 = 1 and x1 + x2 = 0 leave 001 and 110, in the order of bits."""
    rng = np.random.default_rng(6)
    size = 100_000
    systems = Systems(size, 3)
    for equation in (0b1011, 0b0110):
        systems.add(equation, np.ones(size, dtype=np.bool_))
    found = systems.solutions(rng.integers(0, 8, size).astype(np.uint64))
    values, counts = np.unique(found, return_counts=True)
    told = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert set(told) == {0b001, 0b110}
    assert events_p_value(told, size, {0b001: 0.5, 0b110: 0.5}) > SIGNIFICANCE
