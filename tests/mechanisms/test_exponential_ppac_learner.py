"""The exponential learner: its law by enumeration, its structured classes against their matrices, its exact epsilon on
every pair of neighbours."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.errors import BudgetRefused, ParameterError, RelationError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.hypotheses import Concept, Hypothesis
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of, labels_of, points_of
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import (
    AnyClass,
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    matrix_of,
)
from dpledger.mechanisms.learning.theory.needed_units import natural_log
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from learning_oracle import datasets, errors_of, exponential_law, worst_loss
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

CLASSES: list[ConceptClass] = [
    PointClass(1),
    PointClass(5),
    ThresholdClass(1),
    ThresholdClass(6),
    ParityClass(1),
    ParityClass(3),
    FiniteClass([[0, 0, 1], [1, 1, 1], [1, 0, 1], [1, 0, 1]]),
]
NAN = float("nan")


def sample_of(data: Any) -> LabeledSample:
    return LabeledSample([x for x, _ in data], [y for _, y in data])


def spelt_out(concepts: AnyClass, sample: LabeledSample) -> list[int]:
    """The errors of the concept at each place, from the segments."""
    counted = concepts.errors(sample)
    found: dict[int, int] = {}
    number = 0
    for errors, many in zip(counted.errors.tolist(), counted.counts.tolist(), strict=True):
        for _ in range(many):
            found[counted.place(number)] = errors
            number += 1
    assert sorted(found) == list(range(concepts.size))
    return [found[place] for place in range(concepts.size)]


def law_of(learner: ExponentialPPACLearner, data: Any) -> list[float]:
    """The law of the places, by the exponent that is used and the errors that are counted."""
    weights = [math.exp(-float(learner.exponent) * k) for k in spelt_out(learner.concept_class, sample_of(data))]
    return [weight / sum(weights) for weight in weights]


def law_of_any_order(learner: ExponentialPPACLearner) -> Callable[[Any], Any]:
    """Its law by the multiset of examples: each is counted once, however many neighbours lead to it."""

    @cache
    def law(data: Any) -> Any:
        return np.array(law_of(learner, data))

    return lambda data: law(tuple(sorted(data)))


class Conforms(MechanismConformance):
    relations = tuple(Relation)
    good_data = LabeledSample([0, 1, 2, 3], [1, 1, 0, 0])
    bad_data = (
        LabeledSample([], []),
        LabeledSample(
            [NAN, -(10**400), "x", None, 2**200, object(), 1j, [1], {}], [0, 1, NAN, "1", None, 3, -1, [], {}]
        ),
        LabeledSample(np.array([NAN, np.inf, -np.inf, 0.5]), np.array([NAN, 1, 0, np.inf])),
        LabeledSample(pd.Series([1, None]), pd.Series(["a", "1"])),
        LabeledSample(np.array([2**64 - 1, 0], dtype=np.uint64), np.array([True, False])),
        LabeledSample(np.array([-(2**63), 2**63 - 1]), np.array([1, 0], dtype=np.uint8)),
    )
    bad_containers = (
        None,
        [1, 0],
        ([1], [0]),
        LabeledSample([1], [1, 0]),
        LabeledSample("x", [1]),
        LabeledSample([1], 1),
    )
    bad_parameters = ({"epsilon": 0}, {"epsilon": "nan"}, {"monotone": 1}, {"concept_class": 3})
    concepts: ConceptClass

    def make(self, **changes: Any) -> Any:
        return ExponentialPPACLearner(**{"concept_class": self.concepts, "epsilon": "0.5", **changes})


class TestThresholds(Conforms):
    concepts = ThresholdClass(2**64)


class TestPoints(Conforms):
    concepts = PointClass(2**64)


class TestParities(Conforms):
    concepts = ParityClass(4)


class TestMatrix(Conforms):
    concepts = FiniteClass(np.eye(7, dtype=int))


class TestSharp(Conforms):
    concepts = ThresholdClass(20)
    relations = (Relation.ADD_REMOVE, Relation.ZERO_OUT)

    def make(self, **changes: Any) -> Any:
        return super().make(**{"monotone": True, **changes})


# ---- the law --------------------------------------------------------------------------------------------------------

OURS = ((0, 1), (1, 1), (2, 0))


def test_its_law_on_three_examples() -> None:
    """The numbers of the specification."""
    plain = ExponentialPPACLearner(ThresholdClass(3), epsilon=1)
    here = [0.142536956597, 0.235003712202, 0.387455619000, 0.235003712202]
    there = [0.101536324092, 0.167405097278, 0.276004344707, 0.455054233923]
    assert law_of(plain, OURS) == pytest.approx(here, abs=1e-9)
    assert law_of(plain, [*OURS[:2], (2, 1)]) == pytest.approx(there, abs=1e-9)
    assert max(abs(math.log(p / q)) for p, q in zip(here, there, strict=True)) == pytest.approx(0.660815296662)
    sharp = ExponentialPPACLearner(ThresholdClass(3), epsilon=1, monotone=True)
    found = [0.072329488129, 0.196611933241, 0.534446645389, 0.196611933241]
    assert law_of(sharp, OURS) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("concepts", CLASSES, ids=str)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_segments_are_the_errors_of_each_concept(concepts: ConceptClass, data: st.DataObject) -> None:
    examples = data.draw(st.lists(st.tuples(st.integers(0, concepts.points - 1), st.integers(0, 1)), max_size=12))
    matrix = matrix_of(concepts)
    assert spelt_out(concepts, sample_of(examples)) == errors_of(matrix, examples)
    counted = concepts.errors(sample_of(examples))
    ranked = [
        (counted.member(counted.least + more, rank), counted.least + more)
        for more, many in enumerate(counted.by_errors().tolist())
        for rank in range(many)
    ]
    assert [errors for _, errors in sorted(ranked)] == errors_of(matrix, examples)
    everywhere = [concepts.predict(place, range(concepts.points)).tolist() for place in range(concepts.size)]
    assert everywhere == matrix.astype(int).tolist()


def test_a_class_beyond_every_word_has_segments_of_the_sample() -> None:
    last = 2**64 - 1
    of_points = PointClass(2**64).errors(LabeledSample([last, 0, last], [1, 0, 1]))
    assert of_points.errors.tolist() == [3, 0, 2]
    assert [int(many) for many in of_points.counts] == [1, 1, 2**64 - 2]
    assert [of_points.place(at) for at in (0, 1, 2, 2**64 - 1)] == [0, last, 1, last - 1]
    assert [of_points.member(2, rank) for rank in (0, 1, 2**64 - 3)] == [1, 2, last - 1]
    assert of_points.member(3, 0) == 0
    of_thresholds = ThresholdClass(2**64).errors(LabeledSample([last], [1]))
    assert of_thresholds.errors.tolist() == [1, 0]
    assert [int(many) for many in of_thresholds.counts] == [2**64, 1]


@pytest.mark.parametrize("concepts", [CLASSES[1], CLASSES[3], CLASSES[5], CLASSES[6]], ids=str)
def test_draws_follow_the_law_and_not_that_of_twice_the_epsilon(concepts: ConceptClass) -> None:
    data = [(x % concepts.points, int(x % 3 == 0)) for x in range(9)]
    drawn = ExponentialPPACLearner(concepts, epsilon=1).sample(sample_of(data), 4000, seeded(7))
    counts = dict(enumerate(np.bincount(drawn, minlength=concepts.size).tolist()))
    true, twice = (exponential_law(matrix_of(concepts), exponent)(data) for exponent in (0.5, 1.0))
    assert events_p_value(counts, 4000, dict(enumerate(true.tolist()))) > SIGNIFICANCE
    assert events_p_value(counts, 4000, dict(enumerate(twice.tolist()))) < SIGNIFICANCE


# ---- privacy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "size", "exact"),
    [
        ("replace_one", 1, 0.746154),
        ("replace_one", 2, 0.827989),
        ("replace_one", 4, 0.928453),
        ("replace_one", 6, 0.972336),
        ("add_remove", 1, 0.396452),
        ("add_remove", 2, 0.431537),
        ("add_remove", 4, 0.472383),
        ("add_remove", 6, 0.489465),
    ],
)
def test_its_exact_epsilon_is_below_its_claim(relation: str, size: int, exact: float) -> None:
    learner = ExponentialPPACLearner(ThresholdClass(3), epsilon=1).under(Relation(relation), Unit())
    found = worst_loss(law_of_any_order(learner), 3, size, relation)
    assert found == pytest.approx(exact, abs=1e-6)
    assert found <= float(learner.claim().eta)


@pytest.mark.parametrize(("size", "exact"), [(1, 1.470615), (2, 1.756442), (4, 1.961963), (6, 1.994739)])
def test_the_weights_of_monotone_scores_tell_twice_as_much_where_rows_are_replaced(size: int, exact: float) -> None:
    learner = ExponentialPPACLearner(ThresholdClass(3), epsilon=1, monotone=True)
    assert worst_loss(law_of_any_order(learner), 3, size, "replace_one") == pytest.approx(exact, abs=1e-6)
    with pytest.raises(RelationError, match="monotone"):
        learner.under(Relation.REPLACE_ONE, Unit())


@pytest.mark.parametrize("concepts", [PointClass(3), ParityClass(2), ThresholdClass(2)], ids=str)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "label_flip"])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(
    concepts: ConceptClass, relation: str, monotone: bool
) -> None:
    if monotone and relation != "add_remove":
        with pytest.raises(RelationError, match="monotone"):
            ExponentialPPACLearner(concepts, epsilon=1, monotone=True).under(Relation(relation), Unit())
        return
    learner = ExponentialPPACLearner(concepts, epsilon=1, monotone=monotone).under(Relation(relation), Unit())
    for size in (1, 2, 3):
        found = worst_loss(lambda data: np.array(law_of(learner, data)), concepts.points, size, relation)
        assert found <= float(learner.claim().eta) + 1e-9


def test_replacing_tells_all_of_epsilon_in_the_limit() -> None:
    learner = ExponentialPPACLearner(FiniteClass([[0, 1], [1, 0]]), epsilon=1)
    base = [(0, 1)] * 40
    here, there = (law_of(learner, [*base, one]) for one in ((0, 1), (0, 0)))
    assert math.log(there[0] / here[0]) == pytest.approx(1, abs=1e-3)


def test_a_unit_of_many_rows_is_protected_as_a_whole() -> None:
    one, four = (
        ExponentialPPACLearner(ThresholdClass(3), epsilon=1).under(Relation.REPLACE_ONE, Unit("user", rows))
        for rows in (1, 4)
    )
    assert (one.exponent, four.exponent) == (Decimal("0.5"), Decimal("0.125"))
    assert one.claim() == four.claim() == BoundedRange(1)


def test_a_single_concept_costs_nothing() -> None:
    assert ExponentialPPACLearner(FiniteClass([[0, 1]]), epsilon=1).claim() == BoundedRange(0)


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2**62, 500), rng.integers(0, 2, 500)
    learner, other = ExponentialPPACLearner(ThresholdClass(2**62), epsilon=1), rng.permutation(500)
    found = [learner.release(LabeledSample(x[at], y[at]), entropy=seeded(1)) for at in (slice(None), other)]
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [2**63 - 1, 2**63, 2**63 + 1, 2**63 + 4], ids=lambda size: f"2^63{size - 2**63:+}")
@pytest.mark.parametrize(
    "examples", [[], [(5, 0), (5, 1)], [(5, 1)], [(5, 1), (9, 0)], [(at, at % 2) for at in range(5)]], ids=len
)
def test_concepts_are_counted_beyond_a_word_however_a_sample_divides_them(
    size: int, examples: list[tuple[int, int]]
) -> None:
    """No sample makes the counts of its segments overflow when they are added."""
    data = LabeledSample([x for x, _ in examples], [y for _, y in examples])
    for concepts in (ThresholdClass(size - 1), PointClass(size)):
        totals = concepts.errors(data).by_errors()
        assert sum(int(many) for many in totals) == concepts.size
        assert min(totals) >= 0
        place = ExponentialPPACLearner(concepts, epsilon=1).release(data, entropy=seeded(1)).value.place
        assert 0 <= place < concepts.size


# ---- what goes in and comes out -------------------------------------------------------------------------------------


def test_rows_are_read_one_by_one() -> None:
    """A row that makes numpy take a wider type changes no other row."""
    listed = [2**60 + 1, 3]
    assert points_of(listed, 2**64).points.tolist() == points_of([*listed, NAN, "x"], 2**64).points.tolist()[:2]
    assert points_of([NAN, "x", None], 4).known.tolist() == [False] * 3
    assert points_of(np.array([1e300, -1e300, 2.5, 1.5]), 4).points.tolist() == [3, 0, 2, 2]
    assert labels_of([1, 0, 2, True, "1", None]).tolist() == [1, 0, 0, 1, 1, 0]


def test_text_beside_a_number_does_not_round_it() -> None:
    """numpy writes a number as text where one record is text; it is the same point then."""
    large = 2**60 + 1
    alone, beside = np.array([large, 3]), np.array([large, "x"])
    assert points_of(alone, 2**64).points[0] == points_of(beside, 2**64).points[0] == large
    assert points_of(["-5", b"7", "99", "1e3", "0" * 50 + "2", "9" * 9999], 9).points.tolist() == [0, 7, 8, 8, 2, 8]


@pytest.mark.parametrize("kind", [np.longdouble, np.float32], ids=lambda kind: kind.__name__)
def test_no_number_warns(kind: Any) -> None:
    """A warning is an exception for some programs, and would tell that somebody holds such a number."""
    huge, signalling = np.array(["1e4000"], dtype=np.longdouble), np.array([0x7F800001], dtype=np.uint32)
    value = huge if kind is np.longdouble else signalling.view(np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        point, bit, label = points_of(value, 2**64), bits_of(value.reshape(1, 1), 1), labels_of(value)
    is_number = kind is np.longdouble
    assert point.known.tolist() == bit.known.tolist() == [is_number]
    assert point.points.tolist() == [2**64 - 1 if is_number else 0]
    assert label.tolist() == [0]


def test_bits_come_as_columns_lists_or_numbers() -> None:
    wanted = [[1, 0, 1], [0, 1, 1]]
    for given_as in (np.array(wanted), wanted, [5, 6], np.array([5, 6]), np.array(wanted, dtype=object)):
        assert bits_of(given_as, 3).bits.tolist() == wanted
    assert bits_of([[1, 0], 5, [1, NAN, 0]], 3).known.tolist() == [False, True, False]


def test_what_was_learned_predicts() -> None:
    data = LabeledSample([3] * 200 + [4] * 200, [1] * 200 + [0] * 200)
    found = ExponentialPPACLearner(ThresholdClass(10), epsilon=4).release(data, entropy=seeded(2)).value
    assert isinstance(found, Hypothesis)
    assert found.output_in_class
    assert found.predict([3, 4, NAN, 10**9, -5]).tolist() == [1, 0, 0, 0, 1]
    assert repr(data) == str(data) == "LabeledSample(...)"


@pytest.mark.parametrize(
    ("concepts", "place", "said"),
    [
        (ThresholdClass(2**64), 2**64, "x < 18446744073709551616"),
        (PointClass(9), 5, "x = 5"),
        (ParityClass(5), 0b10010, "x1 xor x4"),
        (ParityClass(5), 0, "always 0"),
        (FiniteClass([[0, 1], [1, 1]]), 1, "row 1 of the matrix"),
        (StumpClass(Binning({"age": [18, 65]}, source="a form")), 4, "age >= 65"),
    ],
    ids=["threshold", "point", "parity", "no-bit", "row", "stump"],
)
def test_what_was_learned_can_be_read(concepts: AnyClass, place: int, said: str) -> None:
    assert str(Concept(concepts, place)) == said
    with pytest.raises(ParameterError, match="place"):
        str(Concept(concepts, concepts.size))


def test_classes_are_their_matrices() -> None:
    same, other = FiniteClass([[0, 1], [1, 1]]), FiniteClass([[0, 1, 1, 1]])
    assert same == FiniteClass(np.array([[False, True], [True, True]]))
    assert same != other
    for bad in ([], [0, 1], [[0, 2]], [[-1]], [[0.5]], "x", None):
        with pytest.raises(ParameterError, match="matrix"):
            FiniteClass(bad)


def test_all_parities_are_weighed_so_that_their_bits_are_few() -> None:
    with pytest.raises(ParameterError, match="40 bits"):
        ExponentialPPACLearner(ParityClass(40), epsilon=1)


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_a_release_leaves_an_entry_without_the_data_or_what_was_learned() -> None:
    book = Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation="replace_one", budget=PureDP(2))
    data = LabeledSample([7] * 40 + [8] * 40, [1] * 40 + [0] * 40)
    matrix = FiniteClass(np.tri(9, 12, -1, dtype=int))
    for concepts in (ThresholdClass(2**64), matrix):
        receipt = scope.release(ExponentialPPACLearner(concepts, epsilon=1), data)
        assert isinstance(receipt.value, Hypothesis)
    *_, last = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    assert last.mechanism.kind == "exponential_ppac_learner"
    size = outward.above(natural_log(9))
    assert last.mechanism.parameters["concept_class"] == {**matrix.described(), "ln_size": str(size)}
    assert scope.spent(0).upper == pytest.approx(2)
    with pytest.raises(BudgetRefused):
        scope.release(ExponentialPPACLearner(matrix, epsilon=1), data)
    with pytest.raises(ParameterError, match="one label a row"):
        scope.release(ExponentialPPACLearner(matrix, epsilon=1), LabeledSample([1], []))
    book.verify()


def test_enumeration_walks_all_datasets() -> None:
    assert len(list(datasets(3, 2))) == 21


def test_an_epsilon_of_which_nothing_is_left_for_one_error_is_refused_when_the_learner_is_made() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        ExponentialPPACLearner(ThresholdClass(3), epsilon="1e-60")
