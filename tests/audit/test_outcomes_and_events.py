"""Every output is an outcome, and every event's words, predicate and count say the same."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst

from audit_oracles import unruly
from dpledger.audit.events import (
    Above,
    AtMost,
    Coordinate,
    Equals,
    Event,
    Headed,
    Labelled,
    NotANumber,
    Outside,
    Row,
    Spread,
    Total,
    Within,
)
from dpledger.audit.features.value import candidates, ladder
from dpledger.audit.outcomes import Floats, Outcomes, Raised, encode, joined, usual_width
from dpledger.audit.sampling import Chunk, Part, Side, Single


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("output", "label"),
    [
        (None, "None"),
        ("text", "str: 'text'"),
        (b"\xff", "bytes: b'\\xff'"),
        (Raised("ValueError"), "raises ValueError"),
        ([], "0 numbers: "),
        ((1, 2.5), "2 numbers: 1.0, 2.5"),
        ((1, "a"), "tuple: (1, 'a')"),
        ({"b": 1, "a": None}, "dict: 'a'=None, 'b'=1"),
        ({3, 1}, "set: 1, 3"),
        (object(), "object: "),
        (Unprintable(), "Unprintable: unprintable RuntimeError"),
        (10**400, f"int: {10**400}"[:160]),
        (Decimal("sNaN"), "Decimal: Decimal('sNaN')"),
    ],
)
def test_what_is_no_number_becomes_a_label(output: object, label: str) -> None:
    found = encode([output], 1)
    assert found.labels is not None
    assert found.labels[0].startswith(label)
    assert math.isnan(found.values[0, 0])


@pytest.mark.parametrize(
    "output", [1, True, 0.5, np.float32(0.5), np.int64(3), Fraction(1, 2), Decimal("0.5"), math.inf]
)
def test_what_is_a_number_stays_one(output: object) -> None:
    found = encode([output], 1)
    assert found.labels is None
    assert found.values[0, 0] == float(output)  # type: ignore[arg-type]


def test_an_array_of_many_runs_and_a_list_of_them_are_the_same_outcomes() -> None:
    runs = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(encode(runs, 3).values, encode([tuple(row) for row in runs], 3).values)
    assert encode(runs, 2).labels is not None
    assert np.array_equal(encode(np.array([1 + 2j]), 2).values, [[1.0, 2.0]])
    assert usual_width([(1, 2), (1, 2), 3, None, "x"]) == 2
    assert usual_width([None, "x"]) == 1


def test_long_texts_are_told_apart_and_exceptions_lose_their_message() -> None:
    found = encode(["a" * 500 + "b", "a" * 500 + "c"], 1)
    assert found.labels is not None
    assert found.labels[0] != found.labels[1]
    outputs = Single(unruly).draw(0.0, Chunk(Side.LEFT, Part.ESTIMATION, 0, 200), 3)
    labels = encode(outputs, 1).labels
    assert labels is not None
    assert "raises ValueError" in set(labels)
    assert not any("message" in label for label in labels)


EVENTS: list[Event] = [
    Above(Coordinate(0), 0.5),
    AtMost(Coordinate(0), 0.5),
    Within(Coordinate(0), 0.0, 1.0),
    Outside(Coordinate(0), 0.0, 1.0),
    Equals(Coordinate(0), 1.0),
    Row((1.0,)),
    NotANumber(Coordinate(0)),
    Labelled("str: 'x'"),
    Headed("raises ValueError"),
]
OUTPUTS = [0.0, 0.5, 1.0, 2.0, math.nan, math.inf, -math.inf, "x", None, Raised("ValueError"), (1.0, 2.0)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_events_predicate_and_its_count_agree(event: Event) -> None:
    inside = [output for output in OUTPUTS if event.contains(output)]
    assert 0 < len(inside) < len(OUTPUTS)
    assert event.count(encode(OUTPUTS, 1)) == len(inside)


def test_public_words_hold_no_output() -> None:
    assert "0.123" not in Equals(Coordinate(0), 0.123).public_words
    assert "0.123" not in Row((0.123, 0.5)).public_words
    assert "secret" not in Labelled("str: 'secret'").public_words
    assert Above(Total(), 2.5).public_words == "sum(output) > 2.5"


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)


@settings(deadline=None, max_examples=60)
@given(
    left=npst.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(2)), elements=NUMBERS),
    right=npst.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(2)), elements=NUMBERS),
)
def test_the_counts_of_every_candidate_are_those_of_its_event(left: Floats, right: Floats) -> None:
    sides = Outcomes(left, None), Outcomes(right, None)
    families = list(candidates(*sides))
    assert families
    for family in families:
        for place in range(0, len(family.left), 1 + len(family.left) // 7):
            event = family.event(place)
            assert (family.left[place], family.right[place]) == (event.count(sides[0]), event.count(sides[1]))


def test_labels_and_numbers_that_are_mixed_are_candidates_as_well() -> None:
    left = encode([None, "a", 1.0, Raised("ValueError")] * 5, 1)
    right = encode([1.0] * 20, 1)
    words = {family.event(place).words for family in candidates(left, right) for place in range(len(family.left))}
    assert {"outcome is of the kind 'raises ValueError'", "outcome is \"str: 'a'\"", "output == 1.0"} <= words


def test_the_ladder_reaches_into_both_tails_and_holds_the_extremes_of_each_side() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=50_000), rng.normal(size=50_000) + 1
    edges = ladder(left, right)
    assert left.max() in edges
    assert np.nextafter(right.min(), -np.inf) in edges
    pooled = np.sort(np.concatenate([left, right]))
    assert any(pooled[1] <= edge <= pooled[9] for edge in edges)
    assert ladder(np.full(3, np.nan), np.full(3, np.inf)).size == 0


def test_features_are_what_their_words_say() -> None:
    values = np.array([[3.0, 4.0], [np.inf, -np.inf]])
    assert Total().of(values)[0] == 7
    assert math.isnan(Total().of(values)[1])
    assert Spread().of(values).tolist() == [5.0, math.inf]
    assert [Coordinate(1, 2).words, Coordinate(0).words] == ["output[1]", "output"]


def test_chunks_that_are_joined_keep_their_order_and_labels() -> None:
    whole = joined([encode([1.0, 2.0], 1), encode([None], 1)])
    assert whole.labels is not None
    assert whole.labels.tolist() == ["", "", "None"]
    assert whole.where(np.array([False, True, True])).values[0, 0] == 2
