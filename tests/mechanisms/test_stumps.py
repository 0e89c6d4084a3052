"""Tables: bins as a total map of rows, stumps against their definition, and the exponential learner over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.baselines import occam_learner
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.tables.binning import Binning, Bins
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.relations import Relation, Unit
from learning_tables import ENTRIES, SMALL, cancer_bins, entries_of, stump_labels, wide_bins
from mechanism_conformance import MechanismConformance

NAN = float("nan")
STUMPS = StumpClass(SMALL)
TWO = Binning({0: [1]}, {1: ["a"]}, source="made up")  # few enough rows to try all of them
ALL_ROWS = list(itertools.product((0, 1, None), ("a", "b", None)))


class TestConforms(MechanismConformance):
    relations = tuple(Relation)
    good_data = LabeledSample([[20, 1, "red"], [70, 0, "blue"]], [1, 0])
    bad_data = (
        LabeledSample([], []),
        LabeledSample([[NAN, 10**400, object()], [], "x", None, {0: 3}, [1j, [], {}]], [0, 1, NAN, "1", None, 3]),
        LabeledSample(np.array([[NAN, np.inf, -np.inf]]), np.array([NAN])),
        LabeledSample(pd.DataFrame({0: ["?", None], 1: [pd.NaT, 3], 2: [None, 7]}), pd.Series(["a", 1])),
        LabeledSample(np.zeros((0, 3)), np.zeros(0)),
        LabeledSample(np.array([["1", "2", "red"]]), ["1"]),
    )
    bad_containers = (
        None,
        [[1, 2, 3]],
        LabeledSample([[1, 2, 3]], [1, 0]),
        LabeledSample(np.zeros(4), np.zeros(4)),
        LabeledSample(np.zeros((4, 2)), np.zeros(4)),
        LabeledSample(pd.DataFrame({0: [1], 1: [1]}), [1]),
        LabeledSample("abc", [1, 2, 3]),
    )
    bad_parameters = ({"epsilon": 0}, {"concept_class": SMALL})

    def make(self, **changes: Any) -> Any:
        return ExponentialPPACLearner(**{"concept_class": STUMPS, "epsilon": "0.5", **changes})


# ---- bins -----------------------------------------------------------------------------------------------------------


@given(rows=st.lists(st.tuples(*(st.sampled_from(one) for one in ENTRIES)), max_size=8))
def test_the_bin_of_an_entry_follows_from_that_entry_alone(rows: list[tuple[object, ...]]) -> None:
    alone = [SMALL.read([row]) for row in rows]
    found = SMALL.read(rows)
    assert found.places.tolist() == [one.places[0].tolist() for one in alone]
    assert found.known.tolist() == [bool(one.known[0]) for one in alone]


def test_edges_belong_to_the_bin_above() -> None:
    below, at, above = np.nextafter(65.0, 0), 65, np.nextafter(65.0, 100)
    ages = Binning({0: [18, 65]}, source="a form")
    assert ages.read([[below], [at], [above], [-math.inf], [math.inf], [NAN], ["65"]]).places[:, 0].tolist() == [
        2, 3, 3, 1, 3, 0, 3,
    ]  # fmt: skip


def test_a_row_that_holds_nothing_is_the_null_record() -> None:
    rows = [[None, NAN, None], [None, NAN, "green"], [3, None, None], [], 7, "x"]
    assert SMALL.read(rows).known.tolist() == [False, True, True, False, False, False]


def test_a_missing_value_that_is_listed_is_a_value() -> None:
    listed = Binning({1: [1]}, {0: ["a", None]}, source="a form")
    assert listed.read([["a", 0], [None, 0], [NAN, 0], ["b", 0]]).places[:, 1].tolist() == [1, 2, 2, 0]


def test_a_row_of_missing_values_alone_counts_nowhere_also_where_they_are_listed() -> None:
    """It is the null record, which a unit that is zeroed out becomes."""
    listed = Binning({1: [1]}, {0: ["a", None]}, source="a form")
    found = listed.read([["a", None], [None, None], [NAN, NAN], [None, 3]])
    assert found.known.tolist() == [True, False, False, True]
    assert found.places.tolist() == [[0, 1], [0, 0], [0, 0], [2, 2]]
    assert [number is None for number in listed.numbered([[None, None], [None, 3]])] == [True, False]
    rows = [["a", 0]] * 5
    learner = ExponentialPPACLearner(StumpClass(listed), epsilon=1).under(Relation.ZERO_OUT, Unit("row"))
    samples = [LabeledSample([*rows, [None, None]], [1] * 5 + [label]) for label in (0, 1)]
    costs = [learner._costs(sample) for sample in samples]
    assert costs[0].errors.tolist() == costs[1].errors.tolist()
    assert [str(count) for count in costs[0].counts] == [str(count) for count in costs[1].counts]


def test_tables_arrays_and_rows_say_the_same() -> None:
    rows: list[list[Any]] = [[20, 3.5, "red"], [70, None, "7"], [None, 0, None]]
    table = pd.DataFrame(rows)
    named = Binning({"age": [18, 65], "size": [1, 2, 3]}, {"colour": ["red", 7]}, source="a form")
    wanted = SMALL.read(rows)
    of_dicts = named.read([dict(zip(("age", "size", "colour"), row, strict=True)) for row in rows])
    for found in (
        SMALL.read(table),
        SMALL.read(np.array(rows, dtype=object)),
        SMALL.read([tuple(row) for row in rows]),
        named.read(table.set_axis(["age", "size", "colour"], axis=1)[["colour", "size", "age"]]),
        of_dicts,
    ):
        assert np.array_equal(found.places, wanted.places)
        assert np.array_equal(found.known, wanted.known)


def test_a_binning_shows_its_columns_and_where_it_comes_from() -> None:
    many = Binning({f"column {at}": range(100) for at in range(7)}, {"colour": ["red"]}, source="a form")
    assert repr(many) == ("Binning(column 0, column 1, column 2, column 3, column 4, ...: 701 tests, source='a form')")
    assert repr(Binning(categories={0: ["red"]}, source="a form")) == "Binning(0: 1 tests, source='a form')"


def test_bins_are_values_that_the_record_tells_apart() -> None:
    same = Binning({0: ["18", 65.0], 1: [1, 2, 3]}, {2: ["red", 7.0]}, source="a form")
    assert same == SMALL
    assert hash(same) == hash(SMALL)
    others = [
        Binning({0: [18, 66], 1: [1, 2, 3]}, {2: ["red", 7]}, source="a form"),
        Binning({"0": [18, 65], 1: [1, 2, 3]}, {2: ["red", 7]}, source="a form"),
        Binning({0: [18, 65], 1: [1, 2, 3]}, {2: ["red"]}, source="a form"),
    ]
    assert len({one.digest for one in (SMALL, *others)}) == 4
    assert SMALL.described()["source"] == "a form"


@pytest.mark.parametrize("low", [0, 10**9, 123_456_789_012_344, -(10**15)])
def test_equal_bins_lie_in_their_range_however_far_off_it_is(low: int) -> None:
    [column] = Binning.equal({0: (low, low + 1)}, bins=4, source="a form").features
    assert isinstance(column, Bins)
    assert [edge - low for edge in column.edges] == [Decimal("0.25"), Decimal("0.5"), Decimal("0.75")]


def test_equal_bins_leave_the_ends_open() -> None:
    thirds = Binning.equal({0: (-1, 1)}, bins=3, source="a form").read([[-9], [-0.34], [-0.33], [0.33], [0.34], [9]])
    assert thirds.places[:, 0].tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"edges": {}}, "columns"),
        ({"edges": {0: []}}, "edges"),
        ({"edges": {0: [1, 1]}}, "edges"),
        ({"edges": {0: [2, 1]}}, "edges"),
        ({"edges": {0: [1, NAN]}}, "edges"),
        ({"edges": {True: [1]}}, "column"),
        ({"edges": {-1: [1]}}, "column"),
        ({"edges": [[1]]}, "edges"),
        ({"edges": {0: [1]}, "categories": {0: ["a"]}}, "columns"),
        ({"categories": {0: []}}, "categories"),
        ({"categories": {0: [1, "1"]}}, "categories"),
        ({"categories": {0: [object()]}}, "categories"),
        ({"categories": {0: "ab"}}, "categories"),
        ({"edges": {0: [1]}, "source": ""}, "source"),
        ({"edges": {0: [1]}, "source": 3}, "source"),
    ],
    ids=lambda value: value if isinstance(value, str) else ", ".join(value),
)
def test_bins_that_are_none_are_refused(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        Binning(**{"source": "a form", **changes})


def test_ranges_that_are_none_are_refused() -> None:
    for bad in ((1, 1), (2, 1), (1,), (1, 2, 3), "ab", (NAN, 1)):
        with pytest.raises(ParameterError, match="ranges"):
            Binning.equal({0: bad}, bins=3, source="a form")  # type: ignore[dict-item]
    with pytest.raises(ParameterError, match="bins"):
        Binning.equal({0: (0, 1)}, bins=1, source="a form")


# ---- stumps ---------------------------------------------------------------------------------------------------------


def test_a_column_of_b_bins_has_twice_b_minus_one_stumps() -> None:
    assert STUMPS.size == 2 + 2 * (3 - 1) + 2 * (4 - 1) + 2 * 2
    said = [STUMPS.words(place) for place in range(STUMPS.size)]
    assert len(set(said)) == STUMPS.size
    assert said[-1] == "not 2 = '7'"


@given(rows=st.lists(st.tuples(*(st.sampled_from(one) for one in ENTRIES)), max_size=6))
def test_stumps_say_what_their_definition_says(rows: list[tuple[object, ...]]) -> None:
    found = [STUMPS.predict(place, rows).tolist() for place in range(STUMPS.size)]
    assert (
        found == [list(one) for one in zip(*(stump_labels(row) for row in rows), strict=True)]
        if rows
        else not any(found)
    )
    assert SMALL.tests(rows).tolist() == [stump_labels(row)[2::2] for row in rows]


@given(
    rows=st.lists(st.tuples(*(st.sampled_from(one) for one in ENTRIES)), max_size=8),
    labels=st.lists(st.sampled_from([0, 1, None, "1"]), min_size=8, max_size=8),
)
def test_errors_are_counted_as_one_by_one(rows: list[tuple[object, ...]], labels: list[object]) -> None:
    said = [(stump_labels(row), int(label in (1, "1"))) for row, label in zip(rows, labels, strict=False)]
    standing = [
        pair for row, pair in zip(rows, said, strict=True) if any(entry is not None for entry in entries_of(row))
    ]
    wanted = [sum(labels[place] != y for labels, y in standing) for place in range(STUMPS.size)]
    counted = STUMPS.errors(LabeledSample(rows, labels[: len(rows)]))
    assert counted.errors.tolist() == wanted
    assert counted.counts.tolist() == [1] * STUMPS.size


def test_rows_are_numbered_by_their_bins() -> None:
    places = TWO.read(ALL_ROWS).places.tolist()
    wanted = [
        None if row == (None, None) else low + 3 * high for row, (low, high) in zip(ALL_ROWS, places, strict=True)
    ]
    assert TWO.numbered(ALL_ROWS) == wanted
    assert TWO.points == 3 * 2
    assert wide_bins(40).numbered([[3] * 40]) == [wide_bins(40).points - 1]


# ---- privacy --------------------------------------------------------------------------------------------------------


def law_of(learner: ExponentialPPACLearner, rows: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The law of the places, from the errors that are counted and the exponent that is used."""
    counted = learner.concept_class.errors(LabeledSample([x for x, _ in rows], [y for _, y in rows]))
    weights = np.exp(-float(learner.exponent) * counted.errors)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(
    "relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP]
)
def test_no_pair_of_small_tables_tells_more_than_is_claimed(relation: Relation) -> None:
    """All tables of at most two rows: a null record is the one that counts nowhere."""
    learner = ExponentialPPACLearner(StumpClass(TWO), epsilon=1).under(relation, Unit())
    examples = list(itertools.product(ALL_ROWS, (0, 1)))
    worst = 0.0
    for rest in [[], *([one] for one in examples)]:
        laws = {one: law_of(learner, [*rest, one]) for one in examples}
        for one, here in laws.items():
            match relation:
                case Relation.ADD_REMOVE:
                    others = [law_of(learner, rest)]
                case Relation.ZERO_OUT:
                    others = [laws[((None, None), 0)]]
                case Relation.LABEL_FLIP:
                    others = [laws[(one[0], 1 - one[1])]]
                case Relation.REPLACE_ONE:
                    others = list(laws.values())
            worst = max(worst, *(float(np.abs(np.log(here / there)).max()) for there in others))
    assert 0.5 * float(learner.claim().eta) < worst <= float(learner.claim().eta)


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, y, other = rng.normal(size=(500, 4)), rng.integers(0, 2, 500), rng.permutation(500)
    learner = ExponentialPPACLearner(StumpClass(Binning({j: [-1, 0, 1] for j in range(4)}, source="a form")), epsilon=1)
    found = [learner.release(LabeledSample(x[at], y[at]), entropy=seeded(1)) for at in (slice(None), other)]
    assert found[0] == found[1]


def test_a_release_leaves_the_bins_and_their_source_in_the_record() -> None:
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
    scope.release(ExponentialPPACLearner(STUMPS, epsilon=1, monotone=True), LabeledSample([[20, 1, "red"]], [1]))
    (reserved,) = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    said = reserved.mechanism.parameters["concept_class"]
    assert isinstance(said, dict)
    assert said["class"] == "stumps"
    assert said["binning"] == {"columns": 3, "tests": 7, "sha256": SMALL.digest, "source": "a form"}
    book.verify()


# ---- real data ------------------------------------------------------------------------------------------------------


def cancer_splits() -> Iterator[tuple[LabeledSample, Any, Any]]:
    """Fifteen splits: a sample to learn from, and the rows and labels that are kept."""
    x, y = load_breast_cancer(return_X_y=True)
    for split in range(15):
        train, test, labels, wanted = train_test_split(x, y, train_size=398, random_state=split)
        yield LabeledSample(train, labels), test, wanted


@pytest.mark.parametrize(
    ("epsilon", "published", "exact", "spread"),
    [("0.1", 0.80, 0.8316, 0.0233), ("0.5", 0.89, 0.8903, 0.0050), (1, 0.89, 0.8923, 0.0041)],
)
def test_accuracy_on_the_breast_cancer_data(epsilon: Any, published: float, exact: float, spread: float) -> None:
    """The mean over 15 splits: exactly, by the law of each release, and of one release a split. The published numbers
    are such means of releases: each is within 1.4 standard deviations, and rounding, of what it estimates."""
    x, _ = load_breast_cancer(return_X_y=True)
    stumps = StumpClass(cancer_bins(x))
    assert stumps.size == 2 + 30 * 30
    learner = ExponentialPPACLearner(stumps, epsilon=epsilon).under(Relation.REPLACE_ONE, Unit())
    means, variances, released = [], [], []
    for split, (sample, test, wanted) in enumerate(cancer_splits()):
        weights = np.exp(-float(learner.exponent) * stumps.errors(sample).errors.astype(float))
        rows = stumps.binning.read(test)
        right = np.array([(stumps.labels(place, rows) == wanted).mean() for place in range(stumps.size)])
        mean = weights @ right / weights.sum()
        means.append(mean)
        variances.append(weights @ (right - mean) ** 2 / weights.sum())
        found = learner.release(sample, entropy=seeded(split)).value
        released.append(float((found.predict(test) == wanted).mean()))
    assert np.mean(means) == pytest.approx(exact, abs=5e-5)
    assert math.sqrt(np.mean(variances) / 15) == pytest.approx(spread, abs=5e-5)
    assert np.mean(released) == pytest.approx(exact, abs=4 * spread)
    assert published == pytest.approx(exact, abs=1.4 * spread + 0.005)


def test_accuracy_on_the_breast_cancer_data_without_privacy() -> None:
    x, _ = load_breast_cancer(return_X_y=True)
    stumps = StumpClass(cancer_bins(x))
    right = [
        float((occam_learner(stumps, sample).predict(test) == wanted).mean())
        for sample, test, wanted in cancer_splits()
    ]
    assert np.mean(right) == pytest.approx(0.89, abs=0.02)
