"""What a guarantee of others is worth to one unit of a scope: each line of the table against every pair of neighbours
of a mechanism that can be enumerated, and what is not in it against one that loses without bound."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from dpledger.accounting.composition import (
    Chain,
    Composition,
    GaussianLaw,
    Group,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.profile import compose
from dpledger.accounting.reach import Of, reaches, reaching, steps_of
from dpledger.accounting.rules import cost
from dpledger.decimals import read
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
POINTS, LABELS = (-1, 0), (0, 1)
NULL = ("null", 0)
Row = tuple[object, int]
Rows = tuple[Row, ...]
Statistic = Callable[[Rows], int]
WIDE = 40  # outputs are cut there: beyond every sum


def rows(count: int) -> Iterator[Rows]:
    """All lists of exactly `count` rows of one unit."""
    yield from itertools.product(itertools.product((-1, 1), LABELS), repeat=count)


def units(most: int) -> list[Rows]:
    """Everything that one unit may hold."""
    return [held for count in range(most + 1) for held in rows(count)]


def neighbours(relation: Relation, most: int) -> Iterator[tuple[Rows, Rows]]:
    """One unit before and after, in every way; what the others hold is the same on both sides, and is left out."""
    for held in units(most):
        match relation:
            case Relation.ADD_REMOVE:
                yield held, ()
            case Relation.REPLACE_ONE:
                yield from ((held, other) for other in units(most))
            case Relation.ZERO_OUT:
                yield held, (NULL,) * len(held)
            case Relation.LABEL_FLIP:
                for labels in itertools.product(LABELS, repeat=len(held)):
                    yield held, tuple((point, label) for (point, _), label in zip(held, labels, strict=True))


def of_rows(relation: Relation) -> Iterator[tuple[Rows, Rows]]:
    """Neighbours as the other library means them: of one row."""
    for one in rows(1):
        match relation:
            case Relation.ADD_REMOVE:
                yield one, ()
            case Relation.REPLACE_ONE:
                yield from ((one, other) for other in rows(1))
            case Relation.ZERO_OUT:
                yield one, (NULL,)
            case Relation.LABEL_FLIP:
                yield from ((one, ((one[0][0], label),)) for label in LABELS)


@functools.cache
def law(sum_: int) -> dict[int, Fraction]:
    """Two-sided geometric noise of ratio 1/2 on a sum, cut at both ends: the mechanism of the other library."""
    found: dict[int, Fraction] = dict.fromkeys(range(-WIDE, WIDE + 1), Fraction(0))
    third = Fraction(1, 3)
    for output in range(-WIDE + 1, WIDE):
        found[output] = third / 2 ** abs(output - sum_)
    for end in (-WIDE, WIDE):
        found[end] = third * 2 / 2 ** abs(end - sum_)  # 1/3 (1/2^d + 1/2^(d+1) + ...)
    assert sum(found.values()) == 1
    return found


def loss(pairs: Iterator[tuple[Rows, Rows]], statistic: Statistic) -> Fraction:
    """The largest likelihood ratio of all pairs, both ways."""
    sums = {(statistic(left), statistic(right)) for left, right in pairs}
    both = [(law(left), law(right)) for left, right in sums]
    return max(max(p[at] / q[at], q[at] / p[at]) for p, q in both for at in p)


def points(held: Rows) -> int:
    return sum(point for point, _ in held if isinstance(point, int))


def labels(held: Rows) -> int:
    return sum(label for _, label in held)


def there(held: Rows) -> int:
    return sum(row != NULL for row in held)


LINES: list[tuple[Relation, Relation, int, Statistic]] = [
    (ADD, ADD, 1, points),
    (ADD, ADD, 3, points),
    (ADD, REPLACE, 1, points),
    (ADD, REPLACE, 3, points),
    (ZERO, ZERO, 1, points),
    (ZERO, ZERO, 3, points),
    (ZERO, REPLACE, 1, points),
    (REPLACE, REPLACE, 1, labels),
    (REPLACE, FLIP, 1, labels),
    (REPLACE, FLIP, 3, labels),
    (FLIP, FLIP, 1, labels),
    (FLIP, FLIP, 3, labels),
]


def in_bits(tree: Composition, relation: Relation) -> int:
    """The price of a tree in which PureDP(1) stands for a likelihood ratio of 2."""
    price = cost(tree, relation).pure
    assert price is not None
    assert price == int(price)
    return int(price)


def pairs_of(relation: Relation, most: int) -> Iterator[tuple[Rows, Rows]]:
    """`neighbours`; under replace_one of units that have a row each, where one has one: the number of rows is fixed."""
    found = neighbours(relation, most)
    return (pair for pair in found if all(pair)) if relation is REPLACE and most == 1 else found


@pytest.mark.parametrize(("said", "relation", "most", "statistic"), LINES)
def test_the_price_is_what_the_worst_unit_loses(
    said: Relation, relation: Relation, most: int, statistic: Statistic
) -> None:
    """Not more, not less: the mechanism of the other library loses a factor of 2 for a row, as it says."""
    assert loss(of_rows(said), statistic) == 2
    steps = steps_of(said, "row", Unit("user", most), relation)
    assert loss(pairs_of(relation, most), statistic) == 2 ** in_bits(
        reaching(PureDP(1), steps, each_step=False), relation
    )


@pytest.mark.parametrize(("said", "relation"), list(itertools.product(Relation, repeat=2)))
def test_of_a_whole_unit_a_row_is_the_unit(said: Relation, relation: Relation) -> None:
    """The table for whole units is that for rows where a unit has one."""

    def found(of: Of | None, most: int) -> object:
        try:
            return steps_of(said, of, Unit("user", most), relation)
        except RelationError as error:
            return str(error)

    assert found("unit", 7) == found("row", 1) == found("unit", 1) == found(None, 1)


@pytest.mark.parametrize(
    ("said", "relation", "most"),
    [
        (REPLACE, ADD, 1),
        (REPLACE, ZERO, 1),
        (FLIP, ADD, 1),
        (FLIP, REPLACE, 1),
        (REPLACE, REPLACE, 2),
        (ZERO, REPLACE, 2),
    ],
)
def test_what_is_refused_may_lose_without_bound(said: Relation, relation: Relation, most: int) -> None:
    """A statistic that the other library's neighbours do not move at all, and those of the scope as far as it likes."""

    unmoved: dict[Relation, Statistic] = {REPLACE: there, FLIP: points, ZERO: len}

    def told(held: Rows) -> int:
        return 15 * unmoved[said](held)

    assert loss(of_rows(said), told) == 1
    assert loss(neighbours(relation, most), told) >= 2**15
    with pytest.raises(RelationError, match=said.value):
        steps_of(said, "row", Unit("user", most), relation)


REFUSED = [(ADD, ZERO), (ADD, FLIP), (ZERO, ADD), (ZERO, FLIP), (REPLACE, ADD), (REPLACE, ZERO)]


@pytest.mark.parametrize(("said", "relation"), [*REFUSED, *((FLIP, other) for other in (ADD, REPLACE, ZERO))])
@pytest.mark.parametrize("of", ["row", "unit"])
def test_what_is_in_no_line_is_refused_by_name(said: Relation, relation: Relation, of: Of) -> None:
    with pytest.raises(RelationError, match=f"{said.value} does not cover one user under {relation.value}"):
        steps_of(said, of, Unit("user", 3), relation)


def test_of_what_is_asked_where_a_unit_may_have_many_rows() -> None:
    with pytest.raises(ParameterError, match=r"'row'.*charged for 3 of one user.*'unit'"):
        steps_of(ADD, None, Unit("user", 3), ADD)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("said", list(Relation))
def test_what_is_offered_works(said: Relation, relation: Relation) -> None:
    def works(of: Of) -> bool:
        try:
            steps_of(said, of, Unit("user", 3), relation)
        except RelationError:
            return False
        return True

    with pytest.raises((ParameterError, RelationError)) as told:
        steps_of(said, None, Unit("user", 3), relation)
    assert [f"'{of}' (it bounds" in str(told.value) for of in ("row", "unit")] == [works("row"), works("unit")]


STEP = PoissonSampled(GaussianLaw(4), rate="0.01")


def test_granted_steps_are_grouped_one_by_one() -> None:
    steps = steps_of(ADD, "row", Unit("user", 3), REPLACE)
    one = Group(Group(STEP, k=3, relation=ADD), k=2, relation=ADD)
    plan, several = Repeated(STEP, times=9), Sequence((STEP, LaplaceLaw(1)))
    assert reaching(plan, steps, each_step=True) == Repeated(one, times=9)
    found = reaching(several, steps, each_step=True)
    assert isinstance(found, Sequence)
    assert found.of[0] == one
    assert all(reaches(tree, steps, each_step=True) for tree in (Repeated(one, times=9), found))
    assert not any(reaches(tree, steps, each_step=True) for tree in (plan, several, one, Sequence((one, STEP))))
    assert reaching(STEP, (), each_step=True) == STEP
    with pytest.raises(ParameterError, match="Repeated or a Sequence"):
        reaching(STEP, steps, each_step=True)


# ---- a group of one -------------------------------------------------------------------------------------------------

ORDERS = (read(2), read(8))
ALONE: list[Composition] = [
    RDP((2, 8), (1, 4)),
    ZCDP("0.1", "1e-9"),
    ApproxDP(1, "1e-6"),
    GDP(1),
    BoundedRange("0.3"),
    PrivacyCurve(epsilons=(0, 1), deltas=("0.1", "0.01")),
    Chain(GaussianLaw(4)),
    STEP,
    Repeated(STEP, times=4),
    Sequence((BoundedRange("0.3"), BoundedRange("0.1"))),
]


@pytest.mark.parametrize("tree", ALONE, ids=lambda tree: tree.kind)
def test_a_group_of_one_is_what_it_holds(tree: Composition) -> None:
    group = Group(tree, k=1, relation=ADD)
    assert cost(group, ADD, orders=ORDERS) == cost(tree, ADD, orders=ORDERS)
    assert compose(group).epsilon("1e-5") == compose(tree).epsilon("1e-5")
    assert compose(group, order="given").epsilon("1e-5") == compose(tree, order="given").epsilon("1e-5")


def test_a_group_of_one_in_a_secret_batch_is_what_it_holds() -> None:
    inside = Group(GaussianLaw(4), k=1, relation=ADD)
    sampled = PoissonSampled(inside, rate="0.01")
    assert cost(sampled, ADD, orders=ORDERS) == cost(STEP, ADD, orders=ORDERS)
    subset, alone = (
        SampledWithoutReplacement(of, population=100, batch=5)
        for of in (Group(GaussianLaw(4), k=1, relation=REPLACE), GaussianLaw(4))
    )
    assert cost(subset, REPLACE, orders=ORDERS) == cost(alone, REPLACE, orders=ORDERS)


def test_a_renyi_bound_of_replacements_holds_of_labels() -> None:
    """Before, a group had no Renyi price of its own, and one of a claim with delta none at all."""
    curve = RDP((2, 8), (1, 4))
    assert cost(Group(curve, k=1, relation=REPLACE), FLIP, orders=ORDERS).rdp == {read(2): 1, read(8): 4}
