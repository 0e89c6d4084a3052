"""What past runs suggest: cells of a score, counts in them, and estimates (p, q) of both sides' masses, one an arm.

An estimate only chooses a bet, so nothing here can make an audit say too much. While there are few runs, the cells are
cut from the numbers themselves; later all runs are counted on one fixed lattice, whose cells are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from dpledger.audit.features.score import MOST_COUNTED, edges_below
from dpledger.audit.outcomes.structure import Floats

__all__ = [
    "Arm",
    "CellCut",
    "CellLattice",
    "Counts",
    "Grid",
    "Places",
    "arms_of",
    "binned",
    "by_line",
    "categories",
    "cut_of",
    "fitted",
    "lattice_of",
    "merged",
    "pooled",
]

Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]

LATTICE = 4096  # even cells of a lattice
REACH = 2.5  # how far a lattice goes beyond what was seen, in distances from the middle to the furthest
FURTHEST = 1e300  # from 0, where the middle of a lattice lies
HUGE, SHRINK = 2.0**1018, 2.0**-6  # numbers beyond it are read times so much: differences of them could not be written
STEEPEST = 2.0**-1000  # of the span: the least unit of asinh, so that no number is too many units away
HEAVY = 40.0  # times the middle half: a tail that is as long is counted after asinh
COMMON = 0.02  # a value of as many runs is a cell
MOST_ATOMS = 64
FEW_REPEATED = 16  # repeated values, if no more, are cells: what repeats where nothing should tells something
FEW, MANY = (8, 6.0), (64, 2.0**0.5)  # equal cells, and by which factor the masses of tail cells fall


# ---- cells ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CellCut:
    """Cells (edge, next edge] of numbers, and a last one of NaN."""

    edges: Floats

    @property
    def size(self) -> int:
        return self.edges.size + 2

    def of(self, numbers: Floats) -> Places:
        """The cell of each number: whole numbers[runs] below `size`."""
        places = edges_below(self.edges, numbers)
        places[np.isnan(numbers)] = self.edges.size + 1
        return places

    def counts(self, numbers: Floats) -> Counts:
        """How many numbers each cell holds."""
        if self.edges.size > MOST_COUNTED:
            return np.bincount(self.of(numbers), minlength=self.size)
        undefined = int(np.count_nonzero(np.isnan(numbers)))
        above = [numbers.size - undefined]
        for edge in self.edges:
            above.append(int(np.count_nonzero(numbers > edge)) if above[-1] else 0)
        return np.array([*(more - less for more, less in pairwise([*above, 0])), undefined])

    @property
    def order(self) -> Places:
        """The cells as numbers rise, without that of NaN."""
        return np.arange(self.size - 1)

    def upper(self, cell: int) -> float:
        """The largest number of a cell."""
        return float(self.edges[cell]) if cell < self.edges.size else np.inf


@dataclass(frozen=True, slots=True, eq=False)
class CellLattice:
    """Even cells between two numbers, on the scale of asinh if `bent`, one beyond either end, one for each of `atoms`,
    which are exact, and a last one of NaN. All but the atoms are of numbers times `scale`, a power of two."""

    low: float
    high: float
    atoms: Floats
    bent: bool
    middle: float
    unit: float
    scale: float = 1.0

    @property
    def size(self) -> int:
        return LATTICE + 3 + self.atoms.size

    def of(self, numbers: Floats) -> Places:
        """The cell of each number: whole numbers[runs] below `size`."""
        width = (self.high - self.low) / LATTICE
        undefined = np.isnan(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self._line(numbers) - (self.low - width)
            scaled *= LATTICE / (self.high - self.low)
            np.clip(scaled, 0.0, LATTICE + 1.0, out=scaled)
            places = scaled.astype(np.intp)
        if self.atoms.size:
            near = np.minimum(np.searchsorted(self.atoms, numbers), self.atoms.size - 1)
            hit = self.atoms[near] == numbers
            places[hit] = LATTICE + 2 + near[hit]
        if undefined.any():
            places[undefined] = self.size - 1
        return places

    def counts(self, numbers: Floats) -> Counts:
        """How many numbers each cell holds."""
        return np.bincount(self.of(numbers), minlength=self.size)

    def _line(self, numbers: Floats) -> Floats:
        shrunk = numbers if self.scale == 1.0 else numbers * self.scale
        return np.arcsinh((shrunk - self.middle) / self.unit) if self.bent else shrunk

    @property
    def order(self) -> Places:
        """The cells as numbers rise, an atom after the even cell that it lies in; without that of NaN."""
        keys = np.arange(self.size - 1, dtype=np.float64)
        if self.atoms.size:
            keys[LATTICE + 2 :] = CellLattice(
                self.low, self.high, self.atoms[:0], self.bent, self.middle, self.unit, self.scale
            ).of(self.atoms) + np.linspace(0.25, 0.75, self.atoms.size)
        return np.argsort(keys, kind="stable")

    def upper(self, cell: int) -> float:
        """The largest number of a cell, about."""
        if cell >= LATTICE + 2:
            return float(self.atoms[cell - LATTICE - 2])
        line = self.low + cell * (self.high - self.low) / LATTICE
        if cell == LATTICE + 1:
            return np.inf
        with np.errstate(over="ignore"):
            number = float(self.middle + self.unit * np.sinh(line)) if self.bent else float(line)
        return number / self.scale


Grid = CellCut | CellLattice


def categories(count: int) -> CellCut:
    """The cells of whole numbers 0..count-1."""
    return CellCut(np.arange(count - 1, dtype=np.float64))


def atoms_of(numbers: Floats) -> Floats:
    """Values that repeat: each that many runs gave, and the few that repeat at all where others do not."""
    values, seen = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    common = seen >= max(2.0, COMMON * numbers.size)
    repeated = seen >= (2 if numbers.size < 4096 else 3)
    kept = repeated if np.count_nonzero(repeated) <= FEW_REPEATED else common
    most = np.argsort(-seen[kept], kind="stable")[:MOST_ATOMS]
    return np.sort(values[kept][most])


def cut_of(numbers: Floats, *, fine: bool) -> CellCut:
    """Cells from numbers of both sides: equal masses, thinner ones into both tails, and atoms of their own."""
    defined = np.sort(numbers[~np.isnan(numbers)])
    if not defined.size:
        return CellCut(np.empty(0))
    atoms = atoms_of(defined)
    edges = defined[np.minimum((_levels(defined.size, fine) * defined.size).astype(int), defined.size - 1)]
    between = np.nextafter(atoms[np.isfinite(atoms)], -np.inf)
    return CellCut(np.unique(np.concatenate([edges, atoms, between])))


def _levels(runs: int, fine: bool) -> Floats:
    """Shares of the runs (of both sides) below the edges of cells."""
    cells, factor = MANY if fine else FEW
    cells = max(2, min(cells, runs // 8))
    tails = factor ** -np.arange(1, 200) / cells
    tails = tails[tails >= 4 / runs]
    return np.sort(np.concatenate([np.arange(1, cells) / cells, tails, 1 - tails]))


def lattice_of(numbers: Floats) -> CellLattice:
    """A lattice for numbers like those of many runs."""
    finite = numbers[np.isfinite(numbers)]
    atoms = atoms_of(numbers)
    if not finite.size:
        return CellLattice(0.0, 1.0, atoms, False, 0.0, 1.0)
    scale = SHRINK if np.abs(finite).max() > HUGE else 1.0
    finite = finite * scale
    with np.errstate(over="ignore"):
        quarter, middle, three = (float(x) for x in np.quantile(finite, [0.25, 0.5, 0.75]))
        span = float(finite.max() - finite.min())
        unit = max(three - quarter, STEEPEST * span) if three > quarter else 1.0
        bent = span > HEAVY * unit
        line = CellLattice(0.0, 1.0, atoms, bent, middle, unit)._line(finite)
        centre = float(np.median(line))
        low, high = centre + REACH * (float(line.min()) - centre), centre + REACH * (float(line.max()) - centre)
    if not (np.isfinite(low) and np.isfinite(high) and high - low > 1e-300 and LATTICE / (high - low) < np.inf):
        centre = min(max(centre, -FURTHEST), FURTHEST)
        reach = max(1.0, abs(centre) / LATTICE)
        low, high = centre - reach, centre + reach
    return CellLattice(low, high, atoms, bent, middle, unit, scale)


def merged(grid: Grid, counts: Counts, *, fine: bool) -> Places:
    """For each cell of a grid, which merged cell it belongs to: those of NaN and of atoms stay alone, others are merged
    to what `cut_of` would cut."""
    if isinstance(grid, CellCut):
        return np.arange(grid.size)
    order = grid.order
    mass = counts[order]
    total = max(int(counts.sum()), 16)
    below = (np.cumsum(mass) - mass / 2) / total
    group = np.searchsorted(_levels(total, fine), below)
    alone = order >= LATTICE + 2
    fresh = np.concatenate([[True], (np.diff(group) > 0) | alone[1:] | alone[:-1]])
    places = np.empty(grid.size, dtype=np.int64)
    places[order] = np.cumsum(fresh) - 1
    places[-1] = places[order[-1]] + 1
    return places


# ---- arms -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to estimate. `cells`: merge to as many (0: keep); `prior`: runs by which an estimate is pulled to the
    pooled masses; `basis`: of a logistic regression of the side instead, with its `ridge`; `striking`: only cells whose
    counts differ strikingly are told apart."""

    name: str
    cells: int = 0
    prior: float = 2.0
    basis: tuple[int, ...] = ()
    ridge: float = 1.0
    striking: bool = False


BINS = (Arm("4 cells", cells=4), Arm("8 cells", cells=8, prior=4.0))
STRIKING = Arm("rare cells", cells=8, prior=4.0, striking=True)
CELLS = Arm("every category")
LINES = (
    Arm("a line", basis=(0,)),
    Arm("a parabola", basis=(0, 1), ridge=10.0),
    Arm("broken lines", basis=(0, 2, 3, 4)),
    Arm("stiff broken lines", basis=(0, 2, 3, 4), ridge=10.0),
)
COLUMNS = 7  # z, z^2/2, (z-1)+, (-1-z)+, z+, whether the cell is that of NaN, and 1
FITTING = 5  # steps of a regression
DROPPED = 1e9  # ridge of a column that an arm does not use


def arms_of(*, numeric: bool, primary: bool) -> tuple[Arm, ...]:
    """The arms of a score, the cheap ones first."""
    if not numeric:
        return (CELLS, STRIKING)
    return (*BINS, STRIKING, *LINES) if primary else (BINS[1], STRIKING, *LINES)


def pooled(left: Counts, right: Counts) -> Floats:
    """Masses of cells over both sides, none 0."""
    runs = left.sum(-1, keepdims=True) + right.sum(-1, keepdims=True)
    masses: Floats = (left + right + 0.5) / (runs + 0.5 * left.shape[-1])
    return masses


def binned(arms: Sequence[Arm], left: Counts, right: Counts) -> tuple[Floats, Floats]:
    """Estimates by counts, in groups of cells in the order of the cells: counts[problems, cells] and one arm a problem;
    float64[problems, cells] each."""
    mass, n, m = pooled(left, right), left.sum(-1, keepdims=True), right.sum(-1, keepdims=True)
    problems, cells = mass.shape
    wanted, prior = np.array([[arm.cells] for arm in arms]), np.array([[arm.prior] for arm in arms])
    merges = (wanted > 0) & (wanted < cells - 1)
    group = np.minimum(((np.cumsum(mass, -1) - mass / 2) * wanted).astype(np.int64), wanted - 1)
    group[:, -1:] = wanted  # NaN
    group = np.where(merges, group, np.arange(cells)) + cells * np.arange(problems)[:, None]
    x, y, both = (np.bincount(group.ravel(), part.ravel(), group.size)[group] for part in (left, right, mass))
    ratio = (x + prior * both) / (n + prior) / ((y + prior * both) / (m + prior))
    own = (left + 0.5) * m / ((right + 0.5) * n)
    told = _striking(left.astype(np.float64), right.astype(np.float64), ratio * n / m)
    strikes = np.array([[arm.striking] for arm in arms])
    ratio = np.where(strikes, np.where(told, own, 1.0), ratio)
    p, q = mass * ratio / (1 + ratio), mass / (1 + ratio)
    return p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)


def _striking(x: Floats, y: Floats, odds: Floats) -> npt.NDArray[np.bool_]:
    """Cells whose counts are told better by a ratio of their own than by the odds of their group, by more than the
    number of cells allows."""
    expected = (x + y) * odds / (1 + odds)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.nan_to_num(x * np.log(x / expected)) + np.nan_to_num(y * np.log(y / (x + y - expected)))
    held = np.maximum(np.count_nonzero(x + y, axis=-1, keepdims=True), 2)
    told: npt.NDArray[np.bool_] = gain > np.log(held) + 0.5
    return told


def basis_of(mass: Floats) -> Floats:
    """Columns of the regressions: float64[scores, cells, 7], of the normal quantile of each cell's middle rank."""
    inside = mass.copy()
    inside[..., -1] = 0
    rank = (np.cumsum(inside, -1) - inside / 2) / np.maximum(inside.sum(-1, keepdims=True), 1e-300)
    z = ndtri(np.clip(rank, 1e-12, 1 - 1e-12))
    z[..., -1] = 0
    nan = np.zeros_like(z)
    nan[..., -1] = 1
    columns = [z, z * z / 2, np.maximum(z - 1, 0), np.maximum(-1 - z, 0), np.maximum(z, 0)]
    columns = [np.where(nan > 0, 0.0, column) for column in columns]
    return np.stack([*columns, nan, np.ones_like(z)], -1)


def fitted(arms: Sequence[Arm], left: Counts, right: Counts) -> tuple[Floats, Floats]:
    """Estimates by regression: counts[problems, cells] and one arm a problem; float64[problems, cells] each."""
    mass = pooled(left, right)
    columns = basis_of(mass)
    ridge = np.full((len(arms), COLUMNS), DROPPED)
    for place, arm in enumerate(arms):
        ridge[place, [*arm.basis, COLUMNS - 2]] = arm.ridge
        ridge[place, COLUMNS - 1] = 1e-3
    runs = left + right
    tilt = np.log(left.sum(-1) / right.sum(-1))[:, None]  # sides of unequal numbers
    line, coefficients = np.zeros(mass.shape), np.zeros((len(arms), COLUMNS))
    for _ in range(FITTING):
        share = expit(line + tilt)
        weight = np.maximum(runs * share * (1 - share), 1e-12)
        gradient = ((left - runs * share)[:, None] @ columns)[:, 0] - ridge * coefficients
        system = np.swapaxes(columns * weight[..., None], 1, 2) @ columns + ridge[:, :, None] * np.eye(COLUMNS)
        move = np.linalg.solve(system, gradient[..., None])[..., 0]
        coefficients = coefficients + np.clip(move, -3, 3)
        line = (columns @ coefficients[..., None])[..., 0]
    return by_line(line, mass)


def by_line(line: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Masses whose log ratio is `line`, but for a constant, and whose sum is `mass`."""
    p, q = mass * expit(line), mass * expit(-line)
    return p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
