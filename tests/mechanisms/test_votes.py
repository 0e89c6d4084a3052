"""Votes: how far a winner is from losing, against every table of votes and against the graph of single changes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.ensembles.votes import Distance, counts, winners

KINDS: tuple[Distance, ...] = ("halved", "exact")
SMALL = [(k, classes) for k in range(1, 8) for classes in range(1, 5)]
Table = tuple[int, ...]


def tables(models: int, classes: int) -> Iterator[Table]:
    """Every table of counts: the votes for each class; the rest of the models abstain."""
    for found in itertools.product(range(models + 1), repeat=classes):
        if sum(found) <= models:
            yield found


def changed(table: Table, models: int) -> Iterator[Table]:
    """The tables after one model changes its vote, to another class, to none, or from none."""
    full = (*table, models - sum(table))
    for source, target in itertools.permutations(range(len(full)), 2):
        if full[source]:
            moved = list(full)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved[:-1])


def winner(table: Table) -> int:
    return max(range(len(table)), key=lambda j: (table[j], -j))


def votes_of(table: Table, models: int) -> list[int]:
    cast = [j for j, count in enumerate(table) for _ in range(count)]
    return cast + [-1] * (models - len(cast))


def distances_of(found: list[Table], models: int, kind: Distance) -> dict[Table, int]:
    votes = np.array([votes_of(table, models) for table in found]).T
    result = winners(votes, len(found[0]), kind)
    assert result.values.tolist() == [winner(table) for table in found]
    return dict(zip(found, result.distances.tolist(), strict=True))


def walked(found: list[Table], models: int) -> dict[Table, int]:
    """By breadth-first search: the steps to the nearest table that has a neighbour with another winner."""
    far = {table: 0 for table in found if any(winner(near) != winner(table) for near in changed(table, models))}
    queue = deque(far)
    while queue:
        table = queue.popleft()
        for near in changed(table, models):
            if near not in far:
                far[near] = far[table] + 1
                queue.append(near)
    return far


class TestEveryTable:
    @pytest.mark.parametrize(("models", "classes"), SMALL)
    @pytest.mark.parametrize("kind", KINDS)
    def test_one_vote_moves_the_distance_by_one_at_most_and_a_new_winner_has_none(
        self, models: int, classes: int, kind: Distance
    ) -> None:
        found = list(tables(models, classes))
        distances = distances_of(found, models, kind)
        for table, near in [(one, other) for one in found for other in changed(one, models)]:
            assert abs(distances[table] - distances[near]) <= 1
            if winner(table) != winner(near):
                assert distances[table] == distances[near] == 0

    @pytest.mark.parametrize(("models", "classes"), [case for case in SMALL if case[1] > 1])
    def test_exact_is_the_distance_in_the_graph_of_single_changes_and_halved_hardly_less(
        self, models: int, classes: int
    ) -> None:
        found = list(tables(models, classes))
        exact, halved = (distances_of(found, models, kind) for kind in ("exact", "halved"))
        assert exact == walked(found, models)
        assert all(exact[table] - halved[table] in (0, 1) for table in found)

    @pytest.mark.parametrize(("models", "classes"), [(5, 2), (6, 3)])
    def test_a_whole_gap_in_place_of_half_of_it_breaks_both_rules(self, models: int, classes: int) -> None:
        def whole(table: Table) -> int:
            second, first = sorted(table)[-2:]
            return max(0, first - second - 1)

        pairs = [(table, near) for table in tables(models, classes) for near in changed(table, models)]
        assert max(abs(whole(table) - whole(near)) for table, near in pairs) == 2
        assert any(winner(table) != winner(near) and whole(table) == 1 for table, near in pairs)


class TestKnownTables:
    """The gaps and distances of two classes, written down."""

    def test_seven_models(self) -> None:
        votes = np.array([[1] * ones + [0] * (7 - ones) for ones in range(8)]).T
        for kind in KINDS:
            assert winners(votes, 2, kind).distances.tolist() == [3, 2, 1, 0, 0, 1, 2, 3]

    def test_six_models_with_a_tie_that_goes_to_class_zero(self) -> None:
        votes = np.array([[1] * ones + [0] * (6 - ones) for ones in range(7)]).T
        assert winners(votes, 2).distances.tolist() == [2, 1, 0, 0, 0, 1, 2]
        assert winners(votes, 2, "exact").distances.tolist() == [3, 2, 1, 0, 0, 1, 2]
        assert winners(votes, 2).values.tolist() == [0, 0, 0, 0, 1, 1, 1]

    def test_nobody_votes(self) -> None:
        nobody = np.full((5, 2), -1)
        for kind in KINDS:
            assert winners(nobody, 3, kind).values.tolist() == [0, 0]
            assert winners(nobody, 3, kind).distances.tolist() == [0, 0]

    def test_a_class_that_does_not_exist_gets_no_votes(self) -> None:
        votes = np.array([[5, 2**40], [-9, 0], [1, 1]])
        assert counts(votes, 2).tolist() == [[0, 1], [1, 1]]
        assert counts(votes.astype(np.uint64), 2).tolist() == [[0, 1], [1, 1]]

    @pytest.mark.parametrize("votes", [np.zeros(3, dtype=int), np.zeros((2, 2)), [[0, 1]], None])
    def test_what_is_no_table_of_votes_is_refused(self, votes: object) -> None:
        with pytest.raises(ParameterError, match="votes"):
            winners(votes, 2)  # type: ignore[arg-type]


@st.composite
def _votes(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    classes, models, queries = draw(st.integers(1, 12)), draw(st.integers(1, 40)), draw(st.integers(1, 5))
    vote = st.integers(-1, classes - 1)
    return draw(st.lists(st.lists(vote, min_size=queries, max_size=queries), min_size=models, max_size=models)), classes


class TestLaws:
    @given(_votes(), st.data(), st.sampled_from(KINDS))
    def test_one_model_that_votes_otherwise_on_all_queries(
        self, case: tuple[list[list[int]], int], data: st.DataObject, kind: Distance
    ) -> None:
        rows, classes = case
        votes = np.array(rows)
        other = votes.copy()
        queries = votes.shape[1]
        other[data.draw(st.integers(0, len(rows) - 1))] = data.draw(
            st.lists(st.integers(-1, classes - 1), min_size=queries, max_size=queries)
        )
        before, after = winners(votes, classes, kind), winners(other, classes, kind)
        assert (np.abs(before.distances - after.distances) <= 1).all()
        flipped = before.values != after.values
        assert not before.distances[flipped].any()
        assert not after.distances[flipped].any()

    @given(_votes())
    def test_counts_are_those_of_a_loop(self, case: tuple[list[list[int]], int]) -> None:
        rows, classes = case
        by_hand = [[column.count(j) for j in range(classes)] for column in map(list, zip(*rows, strict=True))]
        assert counts(np.array(rows, dtype=np.int8), classes).tolist() == by_hand

    def test_a_table_wider_than_a_block_is_read_as_its_parts(self) -> None:
        generator = np.random.default_rng(7)
        votes = generator.integers(-1, 3, size=(300, 9000)).astype(np.int16)  # three blocks
        whole, parts = winners(votes, 3), [winners(votes[:, i : i + 1000], 3) for i in range(0, 9000, 1000)]
        assert whole.values.tolist() == np.concatenate([part.values for part in parts]).tolist()
        assert whole.distances.tolist() == np.concatenate([part.distances for part in parts]).tolist()


@pytest.mark.parametrize("models", [1, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("classes", [1, 2, 16, 17])
def test_few_classes_are_counted_as_many_are(models: int, classes: int) -> None:
    """A pass for each class, in the narrowest integers that hold all models, and one pass for all of them."""
    votes = np.random.default_rng(models + classes).integers(-2, classes + 2, size=(models, 3)).astype(np.int16)
    votes[:, 1], votes[:, 2] = classes - 1, -1
    naive = [[int((votes[:, query] == one).sum()) for one in range(classes)] for query in range(3)]
    assert counts(votes, classes).tolist() == naive
    assert naive[1][-1] == models
