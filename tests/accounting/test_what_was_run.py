"""What was run is said as a list of mechanisms and counts; nothing that was said is lost, whatever is equal to it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composable import tree_of
from dpledger.accounting.composition import Composition, Filtered, Sequence
from dpledger.accounting.documents import DocumentLine, as_tree
from dpledger.accounting.profile import Bounds
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation

STEP = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier=1), rate="0.01")
EQUAL_STEP = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier="1.0"), rate=0.01)
ANSWER = dpl.LaplaceLaw("0.1")
FORMS: list[Callable[[], dpl.results.Profile]] = [
    lambda: dpl.compose((STEP, 1000), (EQUAL_STEP, 1000)),
    lambda: dpl.compose([(STEP, 1000), (EQUAL_STEP, 1000)]),
    lambda: dpl.compose(((STEP, 1000), (EQUAL_STEP, 1000))),
    lambda: dpl.compose((step, 1000) for step in (STEP, EQUAL_STEP)),
    lambda: dpl.compose(dpl.Repeated(STEP, times=1000), (EQUAL_STEP, 1000)),
    lambda: dpl.compose((STEP, np.int64(1000)), (EQUAL_STEP, 1000)),
    lambda: dpl.compose(dpl.Sequence(((STEP, 1000), (EQUAL_STEP, 1000)))),
    lambda: dpl.compose(
        dpl.Document(Relation.ADD_REMOVE, (DocumentLine(STEP, count=1000), DocumentLine(EQUAL_STEP, count=1000)))
    ),
    lambda: dpl.compose({STEP: 2000}),
]


def epsilon(what: dpl.results.Profile) -> Bounds:
    return what.epsilon("1e-5")


def test_equal_mechanisms_count_each_time_in_every_form() -> None:
    truth = epsilon(dpl.compose(dpl.Repeated(STEP, times=2000)))
    assert 2.5838 < truth.lower <= truth.upper < 2.5839
    assert [epsilon(form()) for form in FORMS] == [truth] * len(FORMS)


def test_of_equal_keys_of_a_dict_python_keeps_one_and_the_documentation_says_so() -> None:
    assert len({STEP: 1000, EQUAL_STEP: 1000}) == 1
    assert epsilon(dpl.compose({STEP: 1000, EQUAL_STEP: 1000})) == epsilon(dpl.compose((STEP, 1000)))
    assert "equal keys" in str(dpl.compose.__doc__)


COUNTS = st.lists(st.tuples(st.sampled_from([STEP, EQUAL_STEP, ANSWER]), st.integers(1, 40)), min_size=1, max_size=6)


@settings(max_examples=25)
@given(COUNTS)
def test_a_pair_is_the_mechanism_as_often_and_order_does_not_matter(runs: list[tuple[Composition, int]]) -> None:
    one_by_one = [tree for tree, count in runs for _ in range(count)]
    found = [epsilon(dpl.compose(form)) for form in (runs, runs[::-1], one_by_one)]
    assert max(bounds.lower for bounds in found) <= min(bounds.upper for bounds in found)


def test_one_thing_alone_is_itself() -> None:
    assert dpl.compose(STEP).tree == dpl.compose([STEP]).tree == STEP
    assert dpl.compose((STEP, 3)).tree == dpl.compose([(STEP, 3)]).tree == dpl.Repeated(STEP, times=3)


def test_a_tuple_of_two_is_told_by_its_second_item() -> None:
    assert tree_of((STEP, ANSWER))[0] == Sequence((STEP, ANSWER))
    assert tree_of((STEP, 7))[0] == dpl.Repeated(STEP, times=7)
    for count in (0, -1, 1.5, Decimal(2), True, np.float64(2)):
        with pytest.raises(ParameterError, match=r"Repeated\.times"):
            dpl.compose((STEP, count))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "what",
    [
        {STEP, ANSWER}, frozenset({STEP}), {STEP: 1}.keys(), "laplace", b"laplace", 5, None, [None], [5], (5, 3),
        [[STEP]], [{STEP: 3}], dpl.LaplaceLaw, [dpl.Laplace], np.array([1.0, 2.0]), [], (), {}, [STEP, "3"],
        itertools.repeat(ANSWER), [Relation.ADD_REMOVE], (ANSWER, None), {STEP: None}, {"laplace": 3},
    ],
)  # fmt: skip
def test_what_is_no_list_of_mechanisms_is_refused(what: Any) -> None:
    with pytest.raises(ParameterError):
        dpl.compose(what)


def test_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least one mechanism"):
        dpl.compose()


def test_a_relation_in_second_place_is_told_to_have_a_name() -> None:
    for second in (Relation.REPLACE_ONE, "replace_one"):
        with pytest.raises(ParameterError, match="by name"):
            dpl.compose(STEP, second)  # type: ignore[arg-type]


def test_no_node_takes_a_set_or_an_iterator() -> None:
    for parts in ({STEP, ANSWER}, iter([STEP, ANSWER]), frozenset({STEP}), {STEP: 1}.keys()):
        for node in (dpl.Sequence, dpl.Parallel, lambda of: Filtered(dpl.filters.PureFilter(1), of)):
            with pytest.raises(ParameterError, match="a list or tuple"):
                node(parts)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a list or tuple"):
        dpl.RDP({2, 3}, (1, 1))  # type: ignore[arg-type]


def test_documents_stand_beside_mechanisms_under_one_relation() -> None:
    document = dpl.Document(Relation.REPLACE_ONE, (DocumentLine(dpl.GaussianLaw(4), count=3),))
    beside = dpl.compose(document, (dpl.GaussianLaw(4), 2)).epsilon("1e-5")
    assert beside == dpl.compose((dpl.GaussianLaw(4), 5), relation="replace_one").epsilon("1e-5")
    assert dpl.compose((document, 2)).epsilon("1e-5") == dpl.compose(document, document).epsilon("1e-5")
    with pytest.raises(RelationError):
        dpl.compose(document, STEP, relation="add_remove")
    with pytest.raises(RelationError):
        dpl.compose(document, dpl.Document(Relation.ADD_REMOVE, document.entries))


def test_the_direction_of_one_document_is_not_that_of_what_stands_beside_it() -> None:
    document = dpl.Document(Relation.ADD_REMOVE, (DocumentLine(STEP, count=10),), direction="add")
    assert not dpl.compose(document).symmetric
    with pytest.raises(RelationError, match="direction="):
        dpl.compose(document, STEP)
    assert not dpl.compose(document, STEP, direction="add").symmetric
    with pytest.raises(RelationError, match="not remove"):
        dpl.compose(document, STEP, direction="remove")


def test_nodes_and_trees_take_pairs() -> None:
    assert dpl.Sequence((STEP, (ANSWER, 3))).of == (STEP, dpl.Repeated(ANSWER, times=3))
    assert as_tree((ANSWER, 3)) == dpl.Repeated(ANSWER, times=3)
    with pytest.raises(ParameterError, match=r"Sequence\.of"):
        dpl.Sequence((STEP, 3))  # type: ignore[arg-type]  # no list of two trees


def test_a_list_in_a_json_document_is_no_pair() -> None:
    with pytest.raises(ParameterError):
        dpl.PostProcessed([{"kind": "laplace", "epsilon": "1"}, 3])  # type: ignore[arg-type]


def test_an_accountant_takes_every_form() -> None:
    many, one = dpl.Accountant("1e-5"), dpl.Accountant("1e-5")
    many.append([(STEP, 300), (EQUAL_STEP, 300), ANSWER])
    for what in (dpl.Repeated(STEP, times=300), (EQUAL_STEP, 300), ANSWER):
        one.append(what)
    assert max(many.epsilon.lower, one.epsilon.lower) <= min(many.epsilon.upper, one.epsilon.upper)


def test_a_calibration_takes_every_form() -> None:
    target = dpl.ApproxDP(1, "1e-6")
    noise = dpl.calibrate(lambda z: [(dpl.GaussianLaw(z), 50), (dpl.GaussianLaw(z), 50)], target)
    assert noise == dpl.calibrate(lambda z: (dpl.GaussianLaw(z), 100), target)
    assert dpl.planning.calibrate_count(lambda n: [(dpl.GaussianLaw(noise), n)], target) == 100


# ---- documents from files -------------------------------------------------------------------------------------------

TEXT = '{"relation": "add_remove", "entries": [{"mechanism": {"kind": "laplace", "epsilon": "0.5"}, "count": 2}]}'


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a byte order mark"])
def test_a_document_is_read_from_a_file(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(mark + TEXT.encode())
    for place in (path, str(path)):
        assert dpl.compose(dpl.Document.read(place)).epsilon(0).upper == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "JSON"),
        (b"", "JSON"),
        (TEXT.encode("utf-16"), "UTF-8"),
        (TEXT.encode().replace(b'"0.5"', b'"0.5", "epsilon": "0.1"'), "each key once"),
        (TEXT.encode().replace(b'"0.5"', b'"-1"'), "document.entries.0.mechanism.epsilon"),
        (TEXT.encode().replace(b'"0.5"', b"1e400"), "below 10^18"),
        (b"[]", "an object with 'relation' and 'entries'"),
        (b"[" * 100_000, "levels"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_a_file_that_is_no_document_is_named_with_the_place_in_it(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(text)
    with pytest.raises(ParameterError) as caught:
        dpl.Document.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "nowhere", tmp_path, tmp_path / "pipe", "/dev/zero", "a\0b", 5, None, b"\xff"):
        with pytest.raises(ParameterError, match=re.escape("document: expected")):
            dpl.Document.read(place)  # type: ignore[arg-type]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as stream:
        stream.truncate(64 * 2**20 + 1)
    with pytest.raises(ParameterError, match="at most 67,108,864 bytes"):
        dpl.Document.read(path)
