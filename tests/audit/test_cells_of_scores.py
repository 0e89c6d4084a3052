"""Cells on which the runs of an audit are counted: every number lies in one, and estimates from them are masses."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from dpledger.audit.evidence.estimates import (
    LATTICE,
    CellLattice,
    Grid,
    arms_of,
    atoms_of,
    binned,
    categories,
    cut_of,
    fitted,
    lattice_of,
    merged,
    pooled,
)

NUMBERS = st.lists(st.floats() | st.integers(-3, 3).map(float), min_size=1, max_size=60)
CUTS = [cut_of, lambda numbers, fine: lattice_of(numbers)]


def rising(grid: Grid, numbers: np.ndarray) -> np.ndarray:
    """The rank of each number's cell as numbers rise."""
    rank = np.empty(grid.size, dtype=int)
    rank[grid.order] = np.arange(grid.size - 1)
    rank[-1] = -1
    return rank[grid.of(numbers)]


@pytest.mark.parametrize("cut", CUTS)
@given(seen=NUMBERS, later=NUMBERS, fine=st.booleans())
def test_every_number_lies_in_one_cell_and_larger_ones_no_lower(
    cut: object, seen: list[float], later: list[float], fine: bool
) -> None:
    with np.errstate(all="ignore"):
        grid = cut(np.array(seen), fine=fine)  # type: ignore[operator]
        numbers = np.array([*later, *seen, math.nan, math.inf, -math.inf, 0.0, -0.0])
        places = grid.of(numbers)
        assert np.all((places >= 0) & (places < grid.size))
        assert np.array_equal(places == grid.size - 1, np.isnan(numbers))
        assert np.array_equal(grid.counts(numbers), np.bincount(places, minlength=grid.size))
        apart = grid.atoms if isinstance(grid, CellLattice) else np.empty(0)
        defined = np.sort(numbers[~np.isnan(numbers) & ~np.isin(numbers, apart)])
        assert np.all(np.diff(rising(grid, defined)) >= 0)
        assert all(grid.of(np.array([number]))[0] == place for number, place in zip(numbers, places, strict=True))


@pytest.mark.parametrize("number", [0.0, 5e-324, 2.0**53 + 4, -1e17, 1.7976931348623157e308, -1.7976931348623157e308])
def test_a_constant_and_its_neighbours_have_cells(number: float) -> None:
    with np.errstate(all="ignore"):
        grid = lattice_of(np.full(5_000, number))
        near: npt.NDArray[np.float64] = np.array([number, *(math.nextafter(number, end) for end in (-9e999, 9e999))])
        assert np.unique(grid.of(near)).size >= 2


@given(count=st.integers(1, 200), extra=st.lists(st.just(math.nan), max_size=3))
def test_a_category_is_a_cell(count: int, extra: list[float]) -> None:
    grid = categories(count)
    codes = np.array([*range(count), *extra])
    assert grid.of(codes).tolist() == [*range(count), *[count] * len(extra)]
    assert grid.counts(codes).tolist() == [*[1] * count, len(extra)]


def test_a_lattice_tells_apart_what_is_a_cell_apart_and_repeated_values_exactly() -> None:
    rng = np.random.default_rng(1)
    seen = np.concatenate([rng.normal(1e9, 1, 5_000), np.full(500, 1e9)])
    grid = lattice_of(seen)
    assert isinstance(grid, CellLattice)
    assert not grid.bent
    width = (grid.high - grid.low) / LATTICE
    inside = np.array([grid.low + width * (cell + 0.5) for cell in range(LATTICE)])
    assert grid.of(inside).tolist() == list(range(1, LATTICE + 1))
    assert grid.of(np.array([grid.low - width, grid.high + width])).tolist() == [0, LATTICE + 1]
    atom = grid.of(np.array([1e9, np.nextafter(1e9, 2e9)]))
    assert atom[0] >= LATTICE + 2 > atom[1]
    for cell in (0, 1, 17, LATTICE):
        assert grid.upper(cell) == pytest.approx(grid.low + cell * width)
    assert grid.upper(LATTICE + 1) == math.inf
    assert grid.upper(int(atom[0])) == 1e9


def test_long_tails_are_counted_on_a_scale_that_reaches_them() -> None:
    seen = np.random.default_rng(2).standard_cauchy(20_000)
    grid = lattice_of(seen)
    assert isinstance(grid, CellLattice)
    assert grid.bent
    counts = grid.counts(seen)
    assert counts[0] == counts[LATTICE + 1] == 0
    assert np.count_nonzero(counts) > 500
    places = np.array([3, 1_000, 2_000, 3_000])
    assert grid.of(np.array([grid.upper(cell) for cell in places])) == pytest.approx(places, abs=1)


@pytest.mark.parametrize("fine", [True, False])
def test_merged_cells_keep_repeated_values_and_what_is_no_number_alone(fine: bool) -> None:
    rng = np.random.default_rng(3)
    seen = np.concatenate([rng.normal(0, 1, 20_000), np.full(3_000, 0.25), np.full(50, np.nan)])
    grid = lattice_of(seen)
    counts = grid.counts(seen)
    cell = merged(grid, counts, fine=fine)
    assert set(cell.tolist()) == set(range(int(cell.max()) + 1))
    assert np.all(np.diff(cell[grid.order]) >= 0)
    atom = int(grid.of(np.array([0.25]))[0])
    for alone in (atom, grid.size - 1):
        assert np.count_nonzero(cell == cell[alone]) == 1
    masses = np.bincount(cell, counts)
    others = np.delete(masses, [cell[atom], cell[-1]])
    assert others.max() <= (seen.size / 50 if fine else seen.size / 6)
    assert others.size >= (60 if fine else 8)


def test_what_repeats_where_nothing_should_is_seen() -> None:
    rng = np.random.default_rng(4)
    assert atoms_of(np.concatenate([rng.normal(size=1_000), [0.5, 0.5]])).tolist() == [0.5]
    assert atoms_of(np.concatenate([rng.normal(size=5_000), [0.5, 0.5]])).tolist() == []
    assert atoms_of(np.concatenate([rng.normal(size=5_000), [0.5] * 3])).tolist() == [0.5]
    rounded = np.round(rng.normal(size=5_000), 3)
    common = atoms_of(np.concatenate([rounded, np.full(200, 7.0)]))
    assert common.tolist() == [7.0]


COUNTS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=3, max_size=20).filter(
    lambda cells: min(sum(left for left, _ in cells), sum(right for _, right in cells)) > 0
)


@given(cells=COUNTS)
def test_estimates_are_masses_that_none_of_the_cells_lacks(cells: list[tuple[int, int]]) -> None:
    left, right = np.array(cells).T
    mass = pooled(left, right)
    assert mass.sum() == pytest.approx(1)
    for numeric in (True, False):
        arms = arms_of(numeric=numeric, primary=True)
        found = [binned(arm, left, right) for arm in arms if not arm.basis]
        lines = [arm for arm in arms if arm.basis]
        if lines:
            found += zip(*fitted(lines, np.stack([left] * len(lines)), np.stack([right] * len(lines))), strict=True)
        for p, q in found:
            assert p.sum() == pytest.approx(1)
            assert q.sum() == pytest.approx(1)
            assert p.min() > 0
            assert q.min() > 0


@given(one=st.lists(st.integers(0, 500), min_size=3, max_size=20).filter(any))
def test_sides_that_are_alike_are_not_told_apart_and_exchanged_sides_exchange_the_estimates(
    one: list[int],
) -> None:
    alike = np.array(one)
    other = np.roll(alike, 1)
    for numeric in (True, False):
        for arm in arms_of(numeric=numeric, primary=True):
            same, there, back = (
                [side[0] for side in fitted([arm], left[None], right[None])] if arm.basis else binned(arm, left, right)
                for left, right in ((alike, alike), (alike, other), (other, alike))
            )
            assert same[0] == pytest.approx(same[1], rel=1e-6)
            assert there[0] == pytest.approx(back[1], rel=1e-6)
            assert there[1] == pytest.approx(back[0], rel=1e-6)
