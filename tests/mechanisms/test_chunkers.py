"""One neighbouring change alters what exactly one chunk holds, whatever the changed unit brings along."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Words, seeded, system
from dpledger.mechanisms.stability.ensembles import ensemble
from dpledger.mechanisms.stability.ensembles.chunkers import Chunker, Hashed, by_relation, described, moved, seats
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.units import ByUnit, Units
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
SALT = Hashed("salt")
Row = list[Any]
Chunk = tuple[object, ...]


class Coins:
    """A source of the coins that each unit was dealt: a unit that comes or goes takes its own along."""

    def __init__(self, coins: Sequence[int]) -> None:
        self._coins = coins

    def words(self, count: int, /) -> Words:
        assert count == len(self._coins)
        return np.array(self._coins, dtype=np.uint64)


@pytest.fixture(autouse=True, scope="module")
def unheard() -> Iterator[None]:
    """No rehearsal, which would refuse `Holding`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "rehearse", lambda *args, **given: None)
        yield


class Holding:
    """A learner that keeps what each chunk was given, byte for byte, by the seed that is the chunk's own. It does so in
    its class, which the copies that chunks get have in common."""

    kept: ClassVar[list[dict[int, Chunk]]] = []

    def __init__(self) -> None:
        self.number = len(self.kept)
        self.kept.append({})

    @property
    def chunks(self) -> dict[int, Chunk]:
        return self.kept[self.number]

    def __call__(self, rows: Any, labels: Any, seed: int) -> Any:
        where = repr((list(rows.index), list(rows.columns), list(rows.dtypes))) if hasattr(rows, "iloc") else ""
        array = np.asarray(rows)
        self.chunks[seed] = (where, str(array.dtype), array.shape, repr(array.tolist()), repr(labels.tolist()))
        return lambda asked: np.full(len(asked), len(rows))


def held(units: Any, chunker: str | Hashed, *, coins: Sequence[int] | None = None, **given: Any) -> dict[int, Chunk]:
    """What the chunks hold. One that is empty is not given to a learner."""
    learner = Holding()
    source = None if coins is None else Coins(coins)
    Ensemble.fit(learner, units, 5, chunker, classes=3, progress=False, entropy=source, **given)
    return learner.chunks


def altered(left: dict[int, Chunk], right: dict[int, Chunk]) -> int:
    """How many chunks hold something else."""
    return sum(left.get(chunk) != right.get(chunk) for chunk in left.keys() | right.keys())


ENTRIES: Any = st.one_of(
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.sampled_from(
        [None, True, "x", "2.5", "nan", b"7", Decimal("1.5"), Decimal("sNaN"), 1j, [], {}, math.inf, pd.NaT]
    ),
    st.text(max_size=3),
)
ROWS: Any = st.lists(st.integers(-3, 3) | st.floats(-3, 3), min_size=2, max_size=2)
LABELS: Any = st.integers(0, 2)
ANY_LABEL: Any = LABELS | ENTRIES
BASES: Any = st.lists(st.tuples(ROWS, LABELS), min_size=5, max_size=14)
BROUGHT: Any = st.tuples(st.lists(ENTRIES, min_size=2, max_size=2), ANY_LABEL)


def as_arrays(units: Sequence[tuple[Row, Any]]) -> tuple[Any, Any]:
    """As numpy would keep them: numbers while all are, objects as soon as one is not."""
    rows = np.empty((len(units), 2), dtype=object)
    labels = np.empty(len(units), dtype=object)
    for place, (row, label) in enumerate(units):
        rows[place, 0], rows[place, 1] = row
        labels[place] = label
    is_number = all(type(entry) in (int, float) and abs(entry) < 2**50 for entry in (*rows.flat, *labels))
    return (rows.astype(np.float64), labels.astype(np.float64)) if is_number else (rows, labels)


def as_lists(units: Sequence[tuple[Row, Any]]) -> tuple[Any, Any]:
    return [row for row, _ in units], [label for _, label in units]


def as_table(units: Sequence[tuple[Row, Any]]) -> tuple[Any, Any]:
    """As pandas would keep them, with dtypes of its choice and an index that counts rows."""
    rows, labels = as_lists(units)
    columns = [pd.Series([row[place] for row in rows], dtype=object).infer_objects() for place in (0, 1)]
    return pd.DataFrame({"a": columns[0], "b": columns[1]}), pd.Series(labels, dtype=object).infer_objects()


def as_categories(units: Sequence[tuple[Row, Any]]) -> tuple[Any, Any]:
    """A table whose second column has categories: one unit that brings a new one alters the dtype of all rows."""
    table, labels = as_table([([row[0], str(row[1])], label) for row, label in units])
    return table.assign(b=table["b"].astype("category")), labels


CONTAINERS = {"arrays": as_arrays, "lists": as_lists, "tables": as_table}


@pytest.mark.parametrize("container", CONTAINERS)
class TestOneChunkIsAltered:
    @settings(max_examples=60, deadline=None)
    @given(BASES, BROUGHT, st.data())
    def test_random_chunks_when_a_unit_comes_or_goes(
        self, container: str, base: list[Any], brought: Any, data: st.DataObject
    ) -> None:
        made = CONTAINERS[container]
        coins = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(base), max_size=len(base)))
        place, coin = data.draw(st.integers(0, len(base))), data.draw(st.integers(0, 2**64 - 1))
        more = [*base[:place], brought, *base[place:]]
        before = held(made(base), "random", coins=coins)
        after = held(made(more), "random", coins=[*coins[:place], coin, *coins[place:]])
        assert altered(before, after) <= 1

    @settings(max_examples=60, deadline=None)
    @given(BASES, BROUGHT, st.data())
    def test_slots_when_a_unit_is_replaced(
        self, container: str, base: list[Any], brought: Any, data: st.DataObject
    ) -> None:
        made = CONTAINERS[container]
        place = data.draw(st.integers(0, len(base) - 1))
        other = [*base[:place], brought, *base[place + 1 :]]
        assert altered(held(made(base), "slots"), held(made(other), "slots")) <= 1

    @settings(max_examples=60, deadline=None)
    @given(BASES, BROUGHT, st.data())
    def test_hashes_when_a_unit_with_many_rows_comes_or_goes(
        self, container: str, base: list[Any], brought: Any, data: st.DataObject
    ) -> None:
        made = CONTAINERS[container]
        ids: list[Any] = data.draw(st.lists(st.integers(0, 4), min_size=len(base), max_size=len(base)))
        places = sorted(data.draw(st.lists(st.integers(0, len(base)), min_size=1, max_size=3)), reverse=True)
        name = data.draw(st.sampled_from(["new", 77, None, math.nan, 0.5]))
        more, longer = list(base), list(ids)
        for place in places:
            more.insert(place, brought)
            longer.insert(place, name)
        assert altered(held(made(base), SALT, ids=ids), held(made(more), SALT, ids=longer)) <= 1

    def test_and_it_is_one_where_the_unit_matters(self, container: str) -> None:
        base: list[Any] = [([float(i), 1.0], i % 3) for i in range(11)]
        other = [*base[:4], ([7.0, 7.0], 0), *base[5:]]
        made = CONTAINERS[container]
        assert altered(held(made(base), "slots"), held(made(other), "slots")) == 1
        coins = list(range(11))
        assert altered(held(made(base), "random", coins=coins), held(made(base[1:]), "random", coins=coins[1:])) == 1


def test_a_category_that_one_unit_brings_along_alters_no_other_chunk() -> None:
    base: list[Any] = [([1.0, "abc"[i % 3]], i % 3) for i in range(10)]
    other = [*base[:4], ([1.0, "new"], 0), *base[5:]]
    left, right = (held(as_categories(units), "slots", words=("b",)) for units in (base, other))
    assert altered(left, right) == 1
    ids = list(range(10))
    left = held(as_categories(base), SALT, words=("b",), ids=ids)
    right = held(as_categories([*base, ([1.0, "new"], 0)]), SALT, words=("b",), ids=[*ids, "x"])
    assert altered(left, right) == 1


class TestTwoChunks:
    """Under replace_one a hashed id may be exchanged as well: that is what the group of two is for."""

    def test_an_id_that_is_exchanged_alters_two(self) -> None:
        base: list[Any] = [([float(i), 1.0], i % 3) for i in range(12)]
        ids = list(range(12))
        found = {
            altered(held(as_arrays(base), SALT, ids=ids), held(as_arrays(base), SALT, ids=[f"other {i}", *ids[1:]]))
            for i in range(8)
        }
        assert max(found) == 2 == moved(SALT, REPLACE)

    def test_a_label_or_a_unit_that_keeps_its_id_alters_one(self) -> None:
        base: list[Any] = [([float(i), 1.0], 0) for i in range(12)]
        ids = list(range(12))
        flipped = [(base[0][0], 1), *base[1:]]
        zeroed = [([0.0, 0.0], None), *base[1:]]
        for other in (flipped, zeroed):
            assert altered(held(as_arrays(base), SALT, ids=ids), held(as_arrays(other), SALT, ids=ids)) == 1
        assert moved(SALT, FLIP) == moved(SALT, ZERO) == moved(SALT, ADD) == 1


class TestFaultyTwins:
    """What is not done, and would alter more chunks."""

    def test_runs_of_a_list_shift(self) -> None:
        units = list(range(100))

        def runs(listed: list[int]) -> list[list[int]]:
            return [listed[i * len(listed) // 10 : (i + 1) * len(listed) // 10] for i in range(10)]

        assert sum(left != right for left, right in zip(runs(units), runs([-1, *units]), strict=True)) == 10

    def test_slots_shift_where_units_come_and_go(self) -> None:
        base: list[Any] = [([float(i), 1.0], i % 3) for i in range(11)]
        assert altered(held(as_arrays(base), "slots"), held(as_arrays(base[1:]), "slots")) == 5
        with pytest.raises(RelationError, match="add_remove"):
            moved("slots", ADD)

    def test_coins_of_a_known_seed_shift(self) -> None:
        base: list[Any] = [([float(i), 1.0], i % 3) for i in range(40)]
        fit: dict[str, Any] = {"chunks": 5, "chunker": "random", "classes": 3}
        learners = Holding(), Holding()
        for learner, units in zip(learners, (base, base[1:]), strict=True):
            Ensemble.fit(learner, as_arrays(units), unsafe_entropy=seeded(1), **fit)
        assert altered(learners[0].chunks, learners[1].chunks) > 1


class TestRules:
    def test_auto_goes_by_whether_the_number_of_units_is_public(self) -> None:
        assert by_relation(ADD) == "random"
        assert {by_relation(relation) for relation in (REPLACE, ZERO, FLIP)} == {"slots"}
        for relation in Relation:
            assert moved(by_relation(relation), relation) == 1

    @pytest.mark.parametrize("relation", [REPLACE, ZERO, FLIP])
    def test_random_chunks_are_for_add_remove(self, relation: Relation) -> None:
        with pytest.raises(RelationError, match=relation.value):
            moved("random", relation)

    def test_slots_need_a_unit_for_each_chunk_and_items_that_are_units(self) -> None:
        with pytest.raises(ParameterError, match="one for each of the 4 units"):
            seats("slots", Units.of([1, 2, 3, 4]), chunks=5, entropy=None)
        with pytest.raises(ParameterError, match="no public slot"):
            seats("slots", Units.of(ByUnit([1, 2, 3, 4], units=[1, 2, 3, 4])), chunks=3, entropy=None)

    def test_hashes_need_ids(self) -> None:
        with pytest.raises(ParameterError, match="ids"):
            seats(SALT, Units.of([1, 2, 3, 4]), chunks=3, entropy=None)

    def test_a_salt_makes_other_chunks_and_the_same_salt_the_same(self) -> None:
        units = Units.of(ByUnit(list(range(200)), units=list(range(200))))

        def dealt(salt: str) -> list[int]:
            found: npt.NDArray[np.int64] = seats(Hashed(salt), units, chunks=50, entropy=None)
            return list(map(int, found))

        assert dealt("a") == dealt("a")
        assert sum(left == right for left, right in zip(dealt("a"), dealt("b"), strict=True)) < 30
        assert len(set(dealt("a"))) > 40

    @pytest.mark.parametrize("bad", ["", None, "x" * 201])
    def test_a_salt_is_a_short_text(self, bad: Any) -> None:
        with pytest.raises(ParameterError, match="salt"):
            Hashed(bad)

    def test_random_chunks_are_uniform(self) -> None:
        units = Units.of(np.zeros(30_000))
        found = np.bincount(seats("random", units, chunks=3, entropy=system()), minlength=3)
        assert np.abs(found - 10_000).max() < 80 * 7  # seven deviations: below 1e-10

    def test_what_the_record_says(self) -> None:
        chunkers: list[Chunker] = ["slots", "random", Hashed("s")]
        assert [described(one) for one in chunkers] == [
            {"chunker": "slots"}, {"chunker": "random"}, {"chunker": "hashed", "salt": "s"}
        ]  # fmt: skip
