"""What objects show of themselves: short in a console, a table in a notebook, never a value, a salt or markup."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger import errors
from dpledger.notebooks import grid, summary
from public_names import public

HOSTILE = '<script>alert("x")</script>\x1b[2J\u202e'


@pytest.fixture(scope="module")
def book() -> Iterator[dpl.Ledger]:
    with dpl.Ledger.in_memory() as made:
        yield made


@pytest.fixture(scope="module")
def receipt(book: dpl.Ledger) -> dpl.results.Receipt[int]:
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1), keep="digest")
    return scope.release(dpl.Count(epsilon="0.25", of="rows"), [0] * 4321)


@pytest.fixture(scope="module")
def shown(book: dpl.Ledger, receipt: dpl.results.Receipt[int]) -> dict[str, object]:
    noise = dpl.Laplace(sensitivity=1, epsilon=1)
    return {
        "Ledger": book,
        "Scope": book.scope("patients"),
        "Receipt": receipt,
        "Entry": receipt.entry,
        "ScopeAccount": book.scope("patients").account(),
        "Verified": book.verify(),
        "Profile": dpl.compose([(noise, n) for n in range(1, 9)]),
        "AuditResult": dpl.audit_mechanism(noise, 0, 1, trials=1000, seed=1),
        "ReplayResult": dpl.audit_replay(noise, 0, 1),
        "Report": dpl.report(book),
    }


def test_a_number_in_a_message_is_written_as_people_write_it() -> None:
    """A decimal of 100 is kept as 1E+2."""
    with pytest.raises(dpl.ParameterError, match=r"expected a number above lower, 200, got 100$"):
        dpl.ClippedMean(epsilon="0.1", lower=200, upper=100)
    assert errors.shown(Decimal("1E+999999999")) == "1E+999999999"


KINDS = (
    "Ledger",
    "Scope",
    "Receipt",
    "Entry",
    "ScopeAccount",
    "Verified",
    "Profile",
    "AuditResult",
    "ReplayResult",
    "Report",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_is_one_short_line(shown: dict[str, object], kind: str) -> None:
    said = repr(shown[kind])
    assert said.startswith(f"<{kind}")
    assert len(said) <= 160
    assert "\n" not in said


def test_neither_value_nor_salt_is_shown(receipt: dpl.results.Receipt[int]) -> None:
    assert receipt.salt is not None
    for said in (repr(receipt), receipt._repr_html_()):
        assert str(receipt.value) not in said
        assert receipt.salt.hex() not in said
        assert repr(receipt.salt) not in said


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs in ([], [("scope", "row")], [("scope", "col")])
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("kind", ["Receipt", "ScopeAccount", "Profile", "AuditResult", "ReplayResult"])
def test_a_notebook_shows_a_table_of_text(shown: dict[str, object], kind: str) -> None:
    page = Tags(shown[kind]._repr_html_())  # type: ignore[attr-defined]
    assert set(page.tags) == {"table", "caption", "tr", "th", "td"}
    assert page.tags.count("th") == page.tags.count("td") >= 3


@given(st.text(), st.text())
def test_no_text_is_markup(title: str, said: str) -> None:
    page = Tags(summary(title, ((said, said),)))
    assert page.tags == ["table", "caption", "tr", "th", "td"]


@given(st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=200))
def test_no_text_of_a_grid_is_markup_and_long_ones_are_cut(title: str, rows: list[tuple[str, str]]) -> None:
    page = Tags(grid(title, ("key", title), rows))
    shown = min(len(rows), 61)
    assert page.tags == ["table", "caption", "tr", "th", "th", *(["tr", "td", "td"] * shown)]


def test_hostile_text_is_inert_in_a_notebook(shown: dict[str, object]) -> None:
    result = shown["AuditResult"]
    assert isinstance(result, dpl.results.AuditResult)
    hostile = dataclasses.replace(result, mechanism=dataclasses.replace(result.mechanism, kind="x"))
    object.__setattr__(hostile.mechanism, "kind", HOSTILE)
    page = hostile._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page


def test_signatures_read_well() -> None:
    """Without the tag, and without the types by which values are checked."""
    assert str(inspect.signature(dpl.PureDP)) == "(epsilon)"
    told = str(inspect.signature(dpl.ClippedMean))
    assert told == "(epsilon, lower, upper, missing=None, grid=None, relation=None, unit=None)"
    for cls in public().values():
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls):
            assert "Strict" not in str(inspect.signature(cls))
            assert "Field(" not in str(inspect.signature(cls))
