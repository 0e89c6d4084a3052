"""How numbers and names are written: always to the safe side, never hiding a character."""

from __future__ import annotations

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from markupsafe import Markup

from dpledger.accounting import filters
from dpledger.accounting.composition import Chain, DiscreteLaplaceLaw, LaplaceLaw, Repeated, Sequence
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.reports import words
from dpledger.reports.grouping import MOST_ROWS, grouped, indices, span
from dpledger.reports.model import visible
from dpledger.reports.pictures.svg import element, marks, ticks

AMOUNTS = st.decimals("0", "1000000", allow_nan=False, allow_infinity=False, places=30)


@given(AMOUNTS)
def test_at_most_is_never_below_and_at_least_never_above(number: Decimal) -> None:
    assert Decimal(words.at_most(number)) >= number
    assert Decimal(words.at_least(number)) <= number


@given(AMOUNTS)
def test_four_digits_are_close(number: Decimal) -> None:
    assert Decimal(words.at_most(number)) <= number * Decimal("1.001") + Decimal("1e-29")


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("0", "0"),
        ("0.000001", "1e-6"),
        ("0.00012345", "1.235e-4"),
        ("3", "3"),
        ("0.5", "0.5"),
        ("Infinity", "no bound"),
    ],
)
def test_how_numbers_look(number: str, shown: str) -> None:
    assert words.at_most(Decimal(number)) == shown


@pytest.mark.parametrize(
    "promise",
    [
        PureDP(1),
        ApproxDP(1, "1e-6"),
        ZCDP("0.5", "1e-6"),
        GDP(1),
        RDP(("2", "3"), ("0.1", "0.2")),
        BoundedRange(1),
        PrivacyCurve(("0", "0.5", "1", "2"), ("0.3", "0.1", "0.01", "0")),
    ],
)
def test_an_epsilon_never_stands_without_its_delta(promise: Guarantee) -> None:
    said = words.guarantee(promise)
    assert "ε =" not in said or "δ" in said
    assert words.variant(promise)


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(3, "1e-6")])
def test_every_rule_says_its_constants(budget: Guarantee) -> None:
    assert "adaptively" in words.filter_rule(filters.opened_by(budget))


@given(st.text())
def test_nothing_invisible_is_left(text: str) -> None:
    left = {character for character in visible(text) if character != "\n"}
    assert not any(unicodedata.category(character)[0] == "C" or character in "\u2028\u2029" for character in left)


BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and a symbol that no font draws


@pytest.mark.parametrize("character", [*BLANK, "\u034f", "\u180b", "\ufe0f", "\U000e0100"], ids=ascii)
def test_a_name_that_nobody_sees_is_written_out(character: str) -> None:
    assert visible(character) == f"[U+{ord(character):04X}]"


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters=BLANK), max_size=200))
def test_what_is_visible_already_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_a_text_that_is_cut_says_so() -> None:
    assert visible("a" * 5000).endswith("…")
    assert len(visible("a" * 5000)) == 3000


def test_parameters_are_one_line_and_bounded() -> None:
    said = words.parameters({"edges": ["0", "1"], "clip": "1", "flag": True, "nested": {"a": "b\nc"}})
    assert said == "edges [0, 1], clip 1, flag yes, nested {a b c}"
    assert len(words.parameters({"long": "x" * 4000})) <= 400


def test_how_far_a_run_came_is_told_of_each_part() -> None:
    parts = Sequence(
        (
            Chain(LaplaceLaw(2), LaplaceLaw("0.25")),
            Chain(DiscreteLaplaceLaw(4, 1), PureDP(0)),
            Sequence((LaplaceLaw(1), LaplaceLaw(2)), done=1),
            Repeated(LaplaceLaw(1), times=1000, done=1),
        )
    )
    assert list(words.ran(parts)) == [
        "last level of a chain: epsilon 0.25 (finest: epsilon 2)",
        "last level of a chain: none (finest: scale 4, sensitivity 1)",
        "1 of 2 parts started",
        "1 of 1,000 runs started",
    ]
    assert list(words.ran(planned(parts))) == []


def test_equal_things_are_one_group_and_too_many_are_coarser() -> None:
    few = grouped(range(10), exact=lambda number: number % 3, coarse=lambda number: 0)
    assert [group.members for group in few] == [(0, 3, 6, 9), (1, 4, 7), (2, 5, 8)]
    assert all(group.alike for group in few)
    many = grouped(range(MOST_ROWS + 1), exact=lambda number: number, coarse=lambda number: number % 2)
    assert [len(group.members) for group in many] == [MOST_ROWS // 2 + 1, MOST_ROWS // 2]
    assert not any(group.alike for group in many)


def test_a_group_says_its_range_and_what_has_no_price() -> None:
    assert span([Decimal(1), Decimal(2)]) == "1 to 2"
    assert span([Decimal(1), None]) == "no price"
    assert indices([4, 5]) == "4, 5"
    assert indices([4, 5, 6, 9]) == "4 to 9"


@given(st.floats(1e-12, 1e12))
def test_ticks_are_few_and_inside(high: float) -> None:
    found = ticks(high)
    assert 1 <= len(found) <= 7
    assert found[0] == 0
    assert all(0 <= tick <= high * (1 + 1e-9) for tick in found)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_marks_of_what_is_counted_are_whole(low: int, more: int) -> None:
    found = marks(low, low + more, whole=True)
    assert all(mark == int(mark) and low <= mark <= low + more for mark in found)
    assert len(found) <= 7


def test_svg_escapes_text_and_attributes() -> None:
    made = element("text", "<b>", class_='"><script>')
    assert made == Markup('<text class="&#34;&gt;&lt;script&gt;">&lt;b&gt;</text>')


def test_marks_do_not_pile_up_over_other_lines() -> None:
    assert visible("Z" + "\u0301" * 6 + "a\u0301") == "Z" + "\u0301" * 4 + "[U+0301]" * 2 + "a\u0301"
    for word in ("Tie\u0302\u0301ng", "\u05d1\u05bc\u05b0\u0596", "\u0e17\u0e35\u0e48"):
        assert visible(word) == word
