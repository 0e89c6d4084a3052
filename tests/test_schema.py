"""Strict records and strict JSON: what does not fit is named, with its field and its value."""

import json
from array import array
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, PoissonSampled
from dpledger.accounting.documents import parse_document, parse_tree
from dpledger.accounting.guarantees import RDP, ApproxDP, PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.entries.members import MechanismNote
from dpledger.mechanisms.numeric import Count, Gaussian, Histogram
from dpledger.mechanisms.stability.labels.learner import LabelPrivateLearner
from dpledger.mechanisms.stability.noisy_votes import NoisyVotes
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.schema import plain
from dpledger.strict_json import read_json

JSON = st.recursive(
    st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=8) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def test_a_record_takes_positions_and_names_and_is_a_value() -> None:
    assert ApproxDP(1, "1e-6") == ApproxDP(epsilon="1", delta=1e-6)
    assert len({ApproxDP(1, "1e-6"), ApproxDP(1.0, "0.000001")}) == 1
    with pytest.raises(AttributeError):
        PureDP(1).epsilon = PureDP(2).epsilon  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ApproxDP(float("nan")), "ApproxDP.epsilon"),
        (lambda: ApproxDP(1, delta=1), "ApproxDP.delta"),
        (lambda: ApproxDP(), "ApproxDP.epsilon"),  # type: ignore[call-arg]
        (lambda: ApproxDP(1, gamma=2), "ApproxDP.gamma"),  # type: ignore[call-arg]
        (lambda: GaussianLaw(0), "GaussianLaw.noise_multiplier"),
        (lambda: PoissonSampled(GaussianLaw(1), rate="1.5"), "PoissonSampled.rate"),
        (lambda: RDP((3, 2), (1, 1)), "RDP.orders"),
        (lambda: RDP((2, 3), (1,)), "RDP.epsilons"),
    ],
)
def test_what_does_not_fit_is_named(make: object, field: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.field == field


@given(JSON)
def test_plain_json_reads_as_the_standard_reader_does(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}', "NaN", "[Infinity]", "{", "", "[1,]", "[" * 40 + "]" * 40, "[" * 100_000, '"\ud800',
        "1" * 30, "[1e999]",
    ],
)  # fmt: skip
def test_json_that_is_not_strict_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        read_json(text)


def test_numbers_are_read_exactly() -> None:
    assert read_json("[0.1, 1e-9]") == [PureDP("0.1").epsilon, PureDP("1e-9").epsilon]


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"relation": "add_remove"},
        {"relation": "add_remove", "entries": []},
        {"relation": "sideways", "entries": [{"mechanism": {"kind": "laplace", "epsilon": "1"}}]},
        {"relation": "add_remove", "entries": [{"mechanism": {"kind": "voodoo", "epsilon": "1"}}]},
        {"relation": "add_remove", "entries": [{"mechanism": {"kind": "laplace", "epsilon": "1"}, "extra": 1}]},
        {"relation": "add_remove", "entries": [{"count": 0, "mechanism": {"kind": "laplace", "epsilon": "1"}}]},
        {"relation": "add_remove", "entries": [{"count": "2", "mechanism": {"kind": "laplace", "epsilon": "1"}}]},
        {"relation": "add_remove", "entries": [{"mechanism": {"kind": "laplace"}}]},
        {"relation": "add_remove", "direction": "up", "entries": [{"mechanism": {"kind": "laplace", "epsilon": "1"}}]},
    ],
)
def test_documents_are_strict(document: object) -> None:
    with pytest.raises(ParameterError):
        parse_document(document)  # type: ignore[arg-type]


def _entry(mechanism: object, **more: object) -> object:
    return {"relation": "add_remove", "entries": [{"mechanism": mechanism, **more}]}


LAPLACE = {"kind": "laplace", "epsilon": "1"}


@pytest.mark.parametrize(
    ("document", "field", "expected"),
    [
        (_entry({"kind": "frob"}), "mechanism.kind", "one of 'pure_dp', 'approx_dp',"),
        (_entry({"kind": "laplace"}), "mechanism.epsilon", "a value"),
        (_entry({**LAPLACE, "foo": 1}), "mechanism.foo", "no such field"),
        (_entry({"kind": "sequence", "of": [{**LAPLACE, "epsilon": -1}]}), "mechanism.of.0.epsilon", "a number that"),
        (_entry({"kind": "sequence", "of": []}), "mechanism.of", "a list of length 1 or more"),
        (_entry({"kind": "sequence", "of": 5}), "mechanism.of", "a list"),
        (_entry(5), "mechanism", "an object with a field 'kind'"),
        (_entry(LAPLACE, count="2"), "count", "a whole number"),
        (_entry(LAPLACE, count=1.5), "count", "a whole number"),
        (_entry(LAPLACE, count=0), "count", "a number of at least 1"),
        (_entry(LAPLACE, count=10**15), "count", "a number of at most 1000000000000"),
    ],
)
def test_messages_are_in_our_own_words_and_name_fields_alone(document: object, field: str, expected: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_document(document)  # type: ignore[arg-type]
    assert caught.value.field == f"document.entries.0.{field}"
    assert caught.value.expected.startswith(expected)
    assert "Input" not in str(caught.value)
    assert "valid" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Count(epsilom=1, of="rows"), "no such field (did you mean epsilon?)"),  # type: ignore[call-arg]
        (lambda: ApproxDP(1, Delta="1e-6"), "no such field (did you mean delta?)"),  # type: ignore[call-arg]
        (lambda: ApproxDP(1, gamma=2), "no such field (ApproxDP has epsilon, delta)"),  # type: ignore[call-arg]
    ],
)
def test_a_field_that_is_not_there_is_told_with_those_that_are(make: Callable[[], object], expected: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.expected == expected


@pytest.mark.parametrize("asked", [{"epsilon": 1, "delta": "1e-5"}, {"delta": "1e-5"}])
def test_whoever_has_an_epsilon_and_no_noise_is_told_who_finds_it(asked: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"no such field .*: `dpl\.calibrate` finds the noise"):
        Gaussian(sensitivity=1, **asked)


@pytest.mark.parametrize(
    "edges",
    [range(3), array("d", [0, 1, 2]), np.arange(3), pd.Series([0, 1, 2]), pl.Series([0, 1, 2]), (0, "1", 2.0)],
    ids=lambda edges: type(edges).__name__,
)
def test_a_list_of_numbers_may_be_any_that_has_an_order_and_an_end(edges: Any) -> None:
    assert Histogram(epsilon=1, edges=edges).edges == tuple(map(Decimal, range(3)))


@pytest.mark.parametrize("edges", [range(10**12), iter([0, 1]), {0, 1}, np.zeros((2, 2)), pl.DataFrame({"a": [0, 1]})])
def test_what_has_none_of_them_is_refused(edges: Any) -> None:
    with pytest.raises(ParameterError, match=r"^Histogram\.edges: "):
        Histogram(epsilon=1, edges=edges)


def test_a_choice_of_words_or_a_record_is_named_by_its_field() -> None:
    """Not by a member of the union; and what is run on is sent where it belongs."""
    with pytest.raises(ParameterError) as caught:
        PrivateClassifier(epsilon=1, delta="1e-6", chunks=1000, cutoff=3, chunker="in_order")  # type: ignore[arg-type]
    assert caught.value.field == "PrivateClassifier.chunker"
    with pytest.raises(ParameterError, match="estimators, functions and data go to what they are run on"):
        LabelPrivateLearner(NoisyVotes(sigma=1, chunks=10, max_queries=1), student=object())  # type: ignore[arg-type]


def test_a_list_or_mapping_that_holds_itself_is_refused_by_the_name_of_the_record() -> None:
    line: list[object] = []
    line.append(line)
    ring: dict[str, object] = {}
    ring["a"] = ring
    for made in (lambda: PureDP(line), lambda: MechanismNote("count", {"a": ring}, "1")):  # type: ignore[arg-type, dict-item]
        with pytest.raises(ParameterError, match="lists and mappings of a few levels"):
            made()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ('{"entries": [{"count": NaN}]}', "document.entries.0.count", "NaN"),
        ('{"a": [1, 1e400]}', "document.a.1", "1e400"),
        ("-Infinity", "document", "-Infinity"),
        ('{"a": ' + "1" * 30 + "}", "document.a", "1" * 30),
    ],
)
def test_a_number_that_cannot_be_kept_is_named_by_its_place(text: str, field: str, value: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_json(text)
    assert (caught.value.field, caught.value.value) == (field, value)


def test_a_tree_survives_its_json_form() -> None:
    tree = PoissonSampled(GaussianLaw("1.5"), rate="0.01")
    assert parse_tree(plain(tree)) == tree


def test_what_has_parts_stands_for_them() -> None:
    class Described:
        def parts(self) -> GaussianLaw:
            return GaussianLaw(2)

    assert PoissonSampled(Described(), rate=1).of == GaussianLaw(2)


def test_no_float_gets_into_the_byte_profile() -> None:
    with pytest.raises(ParameterError):
        plain({"a": 0.5})
