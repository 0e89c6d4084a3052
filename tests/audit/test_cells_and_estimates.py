"""Cells of scores and estimates of their masses, each against a plain reading of what it says it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

import dpledger as dpl
from dpledger.audit.evidence import estimates
from dpledger.audit.evidence.estimates import (
    LATTICE,
    Arm,
    CellCut,
    CellLattice,
    Grid,
    arms_of,
    atoms_of,
    binned,
    by_line,
    categories,
    cut_of,
    fitted,
    lattice_of,
    merged,
    pooled,
)

EDGES = np.array([-2.0, 0.0, 0.5, 0.5000001, 7.0])
NUMBERS = np.array([-math.inf, -3, -2, -1.999, 0, 0.25, 0.5, 0.50000005, 0.6, 7, 7.1, math.inf, math.nan])


# ---- cells ----------------------------------------------------------------------------------------------------------


def test_a_number_is_in_the_cell_that_ends_at_or_above_it() -> None:
    cut = CellCut(EDGES)
    assert cut.size == 7
    assert cut.order.tolist() == [0, 1, 2, 3, 4, 5]
    found = cut.of(NUMBERS).tolist()
    assert found == [6 if math.isnan(x) else sum(x > edge for edge in EDGES) for x in NUMBERS.tolist()]
    for x, cell in zip(NUMBERS[:-1].tolist(), found, strict=False):
        assert x <= cut.upper(cell)
        assert cell == 0 or x > cut.upper(cell - 1)
    assert cut.upper(4) == 7.0
    assert cut.upper(5) == math.inf


@pytest.mark.parametrize("count", [2, 3, 64])
def test_each_category_is_a_cell(count: int) -> None:
    cut = categories(count)
    assert cut.of(np.arange(count, dtype=float)).tolist() == list(range(count))
    assert cut.of(np.array([math.nan])).tolist() == [count]
    assert cut.size == count + 1


LATTICES = (
    CellLattice(-3.0, 5.0, np.empty(0), False, 0.0, 1.0),
    CellLattice(-3.0, 5.0, np.array([-3.5, 0.25, 0.2501, 4.0]), False, 0.0, 1.0),
    CellLattice(-6.0, 9.0, np.array([0.0, 2.0]), True, 1.0, 0.5),
)


@pytest.mark.parametrize("lattice", LATTICES)
def test_a_lattice_has_even_cells_one_beyond_either_end_and_atoms(lattice: CellLattice) -> None:
    draw = np.random.default_rng(3)
    numbers = np.concatenate([draw.normal(size=300) * 4, draw.normal(size=20) * 1e4, lattice.atoms])
    size = 1 + LATTICE + 1 + lattice.atoms.size + 1
    assert lattice.size == size
    places = lattice.of(np.concatenate([numbers, [math.inf, math.nan]])).tolist()
    assert places[-2:] == [LATTICE + 1, size - 1]
    assert lattice.of(np.array([-math.inf, 0.1])).tolist()[0] == 0
    for x, place in zip(numbers.tolist(), places, strict=False):
        if x in lattice.atoms:
            assert place == LATTICE + 2 + lattice.atoms.tolist().index(x)
            assert lattice.upper(place) == x
            continue
        line = math.asinh((x - lattice.middle) / lattice.unit) if lattice.bent else x
        share = (line - lattice.low) / (lattice.high - lattice.low)
        assert place == min(max(math.floor(share * LATTICE + 1), 0), LATTICE + 1)
        assert x <= lattice.upper(place) + 1e-9 * abs(x)
        assert place == 0 or x >= lattice.upper(place - 1) - 1e-9 * abs(x)
    assert lattice.of(np.array([0.1, 0.2])).max() < size - 1


@pytest.mark.parametrize("lattice", LATTICES)
def test_the_order_of_a_lattice_is_that_of_numbers(lattice: CellLattice) -> None:
    order = lattice.order.tolist()
    assert sorted(order) == list(range(lattice.size - 1))
    plain = [cell for cell in order if cell < LATTICE + 2]
    assert plain == sorted(plain)
    bare = CellLattice(lattice.low, lattice.high, np.empty(0), lattice.bent, lattice.middle, lattice.unit)
    for number, atom in enumerate(lattice.atoms.tolist()):
        at = order.index(LATTICE + 2 + number)
        before = [cell for cell in order[:at] if cell < LATTICE + 2]
        assert before[-1] == bare.of(np.array([atom]))[0]
    atoms = [cell for cell in order if cell >= LATTICE + 2]
    assert atoms == sorted(atoms)


def repeated(values: dict[float, int]) -> np.ndarray:
    return np.repeat(list(values), list(values.values())).astype(float)


def test_a_value_is_an_atom_where_it_is_common_or_where_hardly_anything_repeats() -> None:
    apart = {1000.0 + k: 1 for k in range(200)}
    assert atoms_of(repeated(apart)).tolist() == []
    assert atoms_of(repeated({**apart, 3.0: 2, 1.0: 2})).tolist() == [1.0, 3.0]
    few = {float(k): 2 for k in range(16)}
    assert atoms_of(repeated({**apart, **few})).tolist() == list(few)
    many = {float(k): 2 for k in range(17)}  # more than sixteen: now two of some 230 are not enough
    assert atoms_of(repeated({**apart, **many})).tolist() == []
    assert atoms_of(repeated({**apart, **many, 500.0: 9})).tolist() == [500.0]
    assert atoms_of(np.array([math.nan, 1.0, 1.0, math.nan])).tolist() == [1.0]
    exact = {float(k): 1 for k in range(46)}  # a fiftieth of a hundred: two
    assert atoms_of(repeated({**exact, **{100.0 + k: 2 for k in range(27)}})).tolist() == [100.0 + k for k in range(27)]


def test_among_many_runs_two_of_a_kind_are_no_atom_and_three_are() -> None:
    apart = {1000.0 + k: 1 for k in range(4096)}
    assert atoms_of(repeated({**apart, 1.0: 2, 2.0: 3})).tolist() == [2.0]
    fewer = {1000.0 + k: 1 for k in range(4088)}
    assert atoms_of(repeated({**fewer, 1.0: 2, 2.0: 3})).tolist() == [1.0, 2.0]


def test_of_too_many_atoms_the_most_common_are_kept() -> None:
    counts = {float(k): 30 + (k % 7 == 0) * 30 for k in range(40)} | {float(k): 29 for k in range(40, 100)}
    found = atoms_of(repeated({k: v * 2 for k, v in counts.items()})).tolist()
    common = [k for k, v in counts.items() if 2 * v >= 0.02 * sum(2 * w for w in counts.values())]
    assert found == sorted(common)
    even = repeated({float(k): 2 for k in range(90)})  # each at least a fiftieth of 90
    assert atoms_of(even[:180]).size == estimates.MOST_ATOMS if 2 >= 0.02 * 180 else atoms_of(even).size == 0


@pytest.mark.parametrize("runs", [4, 15, 16, 80, 512, 5000])
@pytest.mark.parametrize("fine", [False, True])
def test_levels_are_even_shares_and_thinner_ones_into_both_tails(runs: int, fine: bool) -> None:
    most, factor = (64, math.sqrt(2)) if fine else (8, 6.0)
    cells = max(2, min(most, runs // 8))
    expected = [k / cells for k in range(1, cells)]
    tail = 1 / cells / factor
    while tail >= 4 / runs:
        expected += [tail, 1 - tail]
        tail /= factor
    assert estimates._levels(runs, fine).tolist() == pytest.approx(sorted(expected))


@pytest.mark.parametrize("fine", [False, True])
def test_a_cut_has_cells_of_about_even_mass_and_atoms_alone(fine: bool) -> None:
    draw = np.random.default_rng(4)
    numbers = np.concatenate([draw.normal(size=400), np.full(60, 0.3), [math.nan] * 5, [math.inf] * 20])
    cut = cut_of(numbers, fine=fine)
    places = cut.of(numbers)
    counts = np.bincount(places, minlength=cut.size)
    assert counts[-1] == 5
    assert counts[places[400]] == 60
    assert counts[:-1].max() <= 485 / (60 if fine else 8) * 1.3 + (60 if fine else 1)
    assert np.diff(cut.edges).min() > 0
    assert cut_of(np.array([math.nan] * 3), fine=fine).size == 2


def test_a_lattice_reaches_beyond_what_was_seen_and_bends_for_long_tails() -> None:
    numbers = np.linspace(1, 5, 101)
    even = lattice_of(numbers)
    assert (even.low, even.high, even.bent) == (3 - 2.5 * 2, 3 + 2.5 * 2, False)
    assert lattice_of(np.append(numbers, 3 + 2 * 40.5)).bent
    assert not lattice_of(np.append(numbers, 1 + 2 * 39.5)).bent
    heavy = np.append(numbers, [1e6, -1e9])
    bent = lattice_of(heavy)
    assert (bent.middle, bent.unit) == (float(np.median(heavy)), float(np.subtract(*np.quantile(heavy, [0.75, 0.25]))))
    line = np.arcsinh((heavy - bent.middle) / bent.unit)
    centre = float(np.median(line))
    assert bent.low == pytest.approx(centre + 2.5 * (line.min() - centre))
    assert bent.high == pytest.approx(centre + 2.5 * (line.max() - centre))
    for odd in ([5.0] * 9, [math.nan, 7.0], [1e308, -1e308, 1e308]):
        found = lattice_of(np.array(odd))
        assert math.isfinite(LATTICE / (found.high - found.low))
    alone = lattice_of(np.array([5.0] * 9))
    assert (alone.low, alone.high, alone.unit) == (4.0, 6.0, 1.0)
    assert alone.atoms.tolist() == [5.0]
    none = lattice_of(np.array([math.nan, math.inf, math.inf]))
    assert (none.low, none.high, none.atoms.tolist()) == (0.0, 1.0, [math.inf])


WIDE: dict[str, Callable[[np.random.Generator], npt.NDArray[np.float64]]] = {
    "even": lambda draw: draw.uniform(-5e307, 5e307, size=5_000),
    "all doubles": lambda draw: draw.uniform(-1, 1, size=5_000) * 1.7976931348623157e308,
    "two heaps": lambda draw: draw.choice([-1.7e308, 1.7e308], size=5_000) * draw.uniform(0.9, 1, size=5_000),
    "one side": lambda draw: 1.7e308 * (1 - 2 * draw.random(5_000) ** 9),
    "small, and a few huge": lambda draw: np.append(draw.normal(size=5_000), [-1.7e308, 1.7e308]),
    "tiny, and a few huge": lambda draw: np.append(1e-200 * draw.normal(size=5_000), [-1e200, 1e200]),
}


@pytest.mark.parametrize("law", WIDE)
def test_numbers_whose_differences_no_double_can_hold_are_told_apart(law: str) -> None:
    numbers = WIDE[law](np.random.default_rng(3))
    lattice = lattice_of(numbers)
    assert 0 < lattice.high - lattice.low < math.inf
    counts = lattice.counts(numbers)
    assert counts.sum() == numbers.size
    fine = np.bincount(merged(lattice, counts, fine=True), counts)
    assert np.count_nonzero(fine) >= (3 if "few" in law else 20)
    assert np.all(np.diff(rising(lattice, np.sort(numbers[~np.isin(numbers, lattice.atoms)]))) >= 0)
    ends = [-1.7976931348623157e308, 1.7976931348623157e308, math.inf, -math.inf]
    assert np.all(lattice.of(np.array(ends)) < lattice.size - 1)
    for number, cell in zip(numbers.tolist(), lattice.of(numbers).tolist(), strict=True):
        assert number <= lattice.upper(cell) + 1e-9 * abs(number) + 1e-190


@pytest.mark.parametrize("batched", [True, False])
def test_numbers_near_the_largest_double_are_audited(batched: bool) -> None:
    def spread(data: float, *given: Any) -> Any:
        numbers = given[-1].uniform(-5e307, 5e307, size=given[0] if batched else None) * (1 + data)
        return numbers if batched else float(numbers)

    found = dpl.audit_mechanism(
        spread, 0.0, 1.0, dpl.PureDP("0.1"), trials=5_000, batched=batched, seed=1, progress=False
    )
    assert (found.verdict, found.blind) == ("violation", None)


def test_merged_cells_are_runs_of_neighbours_and_leave_atoms_and_nan_alone() -> None:
    draw = np.random.default_rng(5)
    numbers = np.concatenate([draw.normal(size=4000), np.full(300, 0.25), np.full(9, math.nan)])
    lattice = lattice_of(numbers)
    counts = np.bincount(lattice.of(numbers), minlength=lattice.size)
    places = merged(lattice, counts, fine=False)
    masses = np.bincount(places, counts)
    in_order = places[lattice.order]
    assert set(np.diff(in_order).tolist()) == {0, 1}
    assert masses[-1] == 9
    assert np.count_nonzero(places == places[-1]) == 1
    atom = int(np.flatnonzero(lattice.atoms == 0.25)[0]) + LATTICE + 2
    assert np.count_nonzero(places == places[atom]) == 1
    assert masses[places[atom]] == 300
    even = [mass for mass in masses.tolist() if mass > 350]
    assert 6 <= len(even) <= 8
    assert max(masses) <= 4309 / 8 * 1.25
    assert merged(CellCut(EDGES), np.ones(7, int), fine=True).tolist() == list(range(7))
    assert len(set(merged(lattice, counts, fine=True).tolist())) > 60


# ---- estimates ------------------------------------------------------------------------------------------------------

LEFT, RIGHT = np.array([30, 0, 5, 12, 1, 7, 4]), np.array([10, 2, 25, 12, 0, 0, 1])


def test_pooled_masses_count_half_a_run_more_in_each_cell() -> None:
    expected = [(x + y + 0.5) / (59 + 50 + 3.5) for x, y in zip(LEFT.tolist(), RIGHT.tolist(), strict=True)]
    assert pooled(LEFT, RIGHT).tolist() == pytest.approx(expected)
    assert pooled(np.stack([LEFT, RIGHT]), np.stack([RIGHT, LEFT])).sum(1).tolist() == pytest.approx([1, 1])


def plainly(arm: Arm, left: list[int], right: list[int]) -> tuple[list[float], list[float]]:
    """What `binned` says, cell by cell."""
    n, m, size = sum(left), sum(right), len(left)
    mass = [(x + y + 0.5) / (n + m + size / 2) for x, y in zip(left, right, strict=True)]
    group = list(range(size))
    if arm.cells and arm.cells < size - 1:
        middles = [sum(mass[:i]) + mass[i] / 2 for i in range(size)]
        group = [min(int(middle * arm.cells), arm.cells - 1) for middle in middles[:-1]] + [arm.cells]

    def of(part: list[Any], i: int) -> float:
        return float(sum(value for value, mine in zip(part, group, strict=True) if mine == group[i]))

    ratios = []
    for i in range(size):
        x, y, both = of(left, i), of(right, i), of(mass, i)
        ratio = (x + arm.prior * both) / (n + arm.prior) / ((y + arm.prior * both) / (m + arm.prior))
        if arm.striking:
            odds = ratio * n / m
            expected = (left[i] + right[i]) * odds / (1 + odds)
            gain = left[i] * math.log(left[i] / expected) if left[i] else 0.0
            gain += right[i] * math.log(right[i] / (left[i] + right[i] - expected)) if right[i] else 0.0
            seen = sum(x + y > 0 for x, y in zip(left, right, strict=True))
            told = gain > math.log(max(seen, 2)) + 0.5
            ratio = (left[i] + 0.5) * m / ((right[i] + 0.5) * n) if told else 1.0
        ratios.append(ratio)
    p = [mass[i] * ratio / (1 + ratio) for i, ratio in enumerate(ratios)]
    q = [mass[i] / (1 + ratio) for i, ratio in enumerate(ratios)]
    return [x / sum(p) for x in p], [x / sum(q) for x in q]


@pytest.mark.parametrize(
    "arm",
    [*estimates.BINS, estimates.STRIKING, estimates.CELLS, Arm("three", cells=3, prior=1.0)],
    ids=lambda a: a.name,
)
def test_estimates_by_counts_are_those_of_their_groups(arm: Arm) -> None:
    draw = np.random.default_rng(6)
    chances = draw.dirichlet(np.ones(30))
    many = draw.multinomial(3000, chances), draw.multinomial(2000, draw.permutation(chances))
    for left, right in ((LEFT, RIGHT), (RIGHT, LEFT), many, (np.array([1, 0]), np.array([0, 1]))):
        expected = plainly(arm, left.tolist(), right.tolist())
        for found, plain in zip(binned([arm], left[None], right[None]), expected, strict=True):
            assert found[0].tolist() == pytest.approx(plain)


def test_columns_are_of_the_normal_quantile_of_the_middle_rank() -> None:
    mass = pooled(LEFT, RIGHT)
    inside = mass[:-1] / mass[:-1].sum()
    z = norm.ppf(np.cumsum(inside) - inside / 2)
    columns = estimates.basis_of(mass)
    expected = [z, z * z / 2, np.maximum(z - 1, 0), np.maximum(-1 - z, 0), np.maximum(z, 0), 0 * z, 0 * z + 1]
    assert np.allclose(columns[:-1], np.stack(expected, -1))
    assert columns[-1].tolist() == [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("arm", estimates.LINES, ids=lambda arm: arm.name)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_regression_is_the_penalised_fit_of_the_side(arm: Arm, swapped: bool) -> None:
    """Against a general minimiser; and several problems at once are those problems."""
    left, right = (RIGHT, LEFT) if swapped else (LEFT * 3, RIGHT)
    columns = estimates.basis_of(pooled(left, right))[:, [*arm.basis, 5, 6]]
    ridge = np.array([*[arm.ridge] * (len(arm.basis) + 1), 1e-3])
    tilt = math.log(left.sum() / right.sum())

    def loss(coefficients: np.ndarray) -> float:
        line = columns @ coefficients + tilt
        likelihood = left @ np.logaddexp(0, -line) + right @ np.logaddexp(0, line)
        return float(likelihood + (ridge * coefficients**2).sum() / 2)

    best = minimize(loss, np.zeros(ridge.size), method="BFGS", options={"gtol": 1e-9}).x
    expected = by_line((columns @ best)[None], pooled(left, right)[None])
    found = fitted([arm], left[None], right[None])
    for one, plain in zip(found, expected, strict=True):
        assert np.allclose(one, plain, rtol=1e-3, atol=1e-6)
    both = fitted([arm, estimates.LINES[0]], np.stack([left, right]), np.stack([right, left]))
    assert np.allclose(both[0][0], found[0][0])


def test_masses_by_a_line_have_its_log_ratio_and_the_sum_that_was_given() -> None:
    line, mass = np.array([[0.3, -2.0, 5.0]]), np.array([[0.2, 0.5, 0.3]])
    p, q = by_line(line, mass)
    assert (p.sum(), q.sum()) == pytest.approx((1, 1))
    assert np.ptp(np.log(p / q) - line) < 1e-12
    share = 1 / (1 + np.exp(-line))
    assert np.allclose(p / p[0, 0], mass * share / (mass * share)[0, 0])


def test_arms_are_those_of_numbers_or_of_categories() -> None:
    names = [
        [arm.name for arm in arms_of(numeric=n, primary=p)] for n, p in ((False, True), (True, True), (True, False))
    ]
    lines = ["a line", "a parabola", "broken lines", "stiff broken lines"]
    assert names == [
        ["every category", "rare cells"],
        ["4 cells", "8 cells", "rare cells", *lines],
        ["8 cells", "rare cells", *lines],
    ]


# ---- of any numbers -------------------------------------------------------------------------------------------------

ANY = st.lists(st.floats() | st.integers(-3, 3).map(float), min_size=1, max_size=60)
CUTS = [cut_of, lambda numbers, fine: lattice_of(numbers)]


def rising(grid: Grid, numbers: np.ndarray) -> np.ndarray:
    """The rank of each number's cell as numbers rise."""
    rank = np.empty(grid.size, dtype=int)
    rank[grid.order] = np.arange(grid.size - 1)
    rank[-1] = -1
    return rank[grid.of(numbers)]


@pytest.mark.parametrize("cut", CUTS)
@given(seen=ANY, later=ANY, fine=st.booleans())
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
        found: list[tuple[Any, Any]] = []
        for estimate, same in (
            (binned, [arm for arm in arms if not arm.basis]),
            (fitted, [a for a in arms if a.basis]),
        ):
            if same:
                found += zip(*estimate(same, np.stack([left] * len(same)), np.stack([right] * len(same))), strict=True)
        for p, q in found:
            assert p.sum() == pytest.approx(1)
            assert q.sum() == pytest.approx(1)
            assert p.min() > 0
            assert q.min() > 0


@given(size=st.integers(2, 200), seed=st.integers(0, 2**32))
def test_estimates_by_counts_of_many_problems_are_those_of_each_alone(size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    arms = [*estimates.BINS, estimates.STRIKING, estimates.CELLS]
    chances = draw.dirichlet(np.full(size, 0.3))
    left, right = draw.multinomial(300, chances, size=4), draw.multinomial(200, chances, size=4)
    together = binned(arms, left, right)
    for row, arm in enumerate(arms):
        alone = binned([arm], left[row : row + 1], right[row : row + 1])
        assert [side[row].tobytes() for side in together] == [side[0].tobytes() for side in alone]


@given(one=st.lists(st.integers(0, 500), min_size=3, max_size=20).filter(any))
def test_sides_that_are_alike_are_not_told_apart_and_exchanged_sides_exchange_the_estimates(
    one: list[int],
) -> None:
    alike = np.array(one)
    other = np.roll(alike, 1)
    for numeric in (True, False):
        for arm in arms_of(numeric=numeric, primary=True):
            same, there, back = (
                [side[0] for side in (fitted if arm.basis else binned)([arm], left[None], right[None])]
                for left, right in ((alike, alike), (alike, other), (other, alike))
            )
            assert same[0] == pytest.approx(same[1], rel=1e-6)
            assert there[0] == pytest.approx(back[1], rel=1e-6)
            assert there[1] == pytest.approx(back[0], rel=1e-6)
