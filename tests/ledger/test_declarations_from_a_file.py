"""Declarations from a file: text as it is written, all or nothing, and nothing twice."""

from __future__ import annotations

import contextlib
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.errors import ParameterError, ScopeError
from dpledger.ledger.entries.bodies import Declared
from dpledger.ledger.entries.declarations import ITEMS, SYNONYMS
from dpledger.ledger.entries.declared_files import LARGEST, Statement, _Loader, is_sample, is_sample_name, parsed, read

ROOT = Path(__file__).parents[2]
DEMO = Path(str(files("dpledger.cli").joinpath("demo_declarations.yaml")))
SAMPLE = Path(str(files("dpledger.ledger.entries").joinpath("sample_declarations.yaml")))
EXAMPLE = ROOT / "examples" / "declarations.yaml"


@pytest.fixture
def book() -> dpl.Ledger:
    book = dpl.Ledger.in_memory()
    for name in ("patients-2026", "staff"):
        book.scope(name, unit="patient", relation="add_remove", budget=dpl.PureDP(1), dataset=name)
    return book


def written(folder: Path, text: str) -> Path:
    file = folder / "declarations.yaml"
    file.write_text(text, encoding="utf-8")
    return file


# ---- what a file says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [DEMO, EXAMPLE], ids=["demo", "example"])
def test_the_files_that_people_copy_declare_every_item_once(file: Path) -> None:
    items = [one.item for one in read(file)]
    assert sorted(items) == sorted(ITEMS)


@pytest.mark.parametrize("scalar", ["no", "null", "~", "2026-01-01", "1_000", "1e3", "0x10", ".inf", "12:30:00"])
def test_a_scalar_is_text_as_it_is_written(scalar: str) -> None:
    (only,) = parsed(f"by: A\nledger: {{region: {scalar}}}".encode())
    assert only == Statement(scope="", item="region", text=scalar, by="A")


words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1).filter(str.strip)
contents = st.fixed_dictionaries(
    {"by": words},
    optional={
        "ledger": st.dictionaries(st.sampled_from(sorted(ITEMS)), words, max_size=4),
        "scopes": st.dictionaries(
            st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from(sorted(ITEMS)), words, max_size=4)
        ),
    },
)


@given(contents)
def test_what_a_library_writes_is_read_back(content: dict[str, Any]) -> None:
    found = parsed(yaml.safe_dump(content, default_style='"', allow_unicode=True).encode())
    scopes = {"": content.get("ledger", {}), **content.get("scopes", {})}
    assert {(one.scope, one.item, one.text) for one in found} == {
        (scope, item, text) for scope, items in scopes.items() for item, text in items.items()
    }
    assert {one.by for one in found} <= {content["by"]}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("by: A\nledger: {region: x, region: y}", "each key once"),
        ("by: &a A\nledger: {region: *a}", "anchor"),
        ("by: !!python/object/apply:os.getcwd []", "tag"),
        ("ledger: {region: x}", "by in line 1: expected whose words these are, as `by: NAME`, got nothing"),
        ("by: A\nledger: {region: }", "region in line 2: expected words.*got nothing"),
        ("by: {name: A}\nledger: {region: x}", "by in line 1: .*got a mapping"),
        ("by: A\nscopes:\n", "scopes in line 2: .*leave it out, got nothing"),
        ("by: A\x07", r"U\+0007"),
        ("by: A\nledger: {region: [x]}", "`by` and `text`"),
        ("by: A\nledger: {region: {text: x}}", "`by` and `text`"),
        ("by: A\nledgers: {region: x}", "`by`, `ledger` and `scopes`"),
        ("by: A\nledger: {? [x] : y}", "no text"),
        ("by: A\n---\nby: B", "another document"),
        ("by: A\nscopes: {'': {region: x}}", "the name of each scope"),
        ("- by", "mapping"),
        ("", "mapping"),
        ("{", "line 1"),
        ("[" * 4000, "levels"),
    ],
)
def test_what_is_not_of_the_form_is_refused(tmp_path: Path, source: str, told: str) -> None:
    file = written(tmp_path, source)
    with pytest.raises(ParameterError, match=told) as refusal:
        read(file)
    assert "declarations.yaml" in str(refusal.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("by: A", "ledger:", "  region: Europe: north"), r'declarations in line 3: .*goes in "quotes"'),
        (("by: A", "ledger:", "  people: All", "  regoin: Europe"), r"item in line 4: .*did you mean region\?"),
        (("by: A", "ledger:", "  region: {by: B, text: Europe, Asia}"), r'region in line 3: .* comma .*"quotes"'),
        (("by: A", "ledger:", "  people: All", "  region:"), "region in line 4: expected words"),
        (("ledger:", "  people: {by: B, text: All}", "  region: x"), "by in line 1: expected whose words"),
        (("# ours", "by:", "ledger:", "  region: x"), "by in line 2: expected whose words"),
        (("by: A", "ledger:", "  people: {by: '', text: All}"), "by of people in line 3: expected whose words"),
        (("by: A", "ledger:", "  dpia_reference: #2026-014"), r'dpia_reference in line 3: .*# goes in "quotes"'),
        (("by: A", "ledger:", "  region: *all of Bavaria*"), r'in line 3: expected text; .*\* or ! goes in "quotes"'),
        (("by: A", "ledger:", "  people: All", "\tregion: x"), "in line 4: expected spaces, got a tab"),
        (("by: A", "ledger:", "  region:\tx"), "in line 3: expected spaces, got a tab"),
        (("by: A", "ledger:", "\u00a0\u00a0region: x"), "in line 3: .*got a no-break space"),
        (("by: A", "ledger:", "  region:\u00a0x", "  people: All"), "in line 3: .*got a no-break space"),
        (("by: A", "ledger:", "  region: x", "  people:\u00a0x"), "in line 4: .*got a no-break space"),
        (("by: A", "ledger:", "  people: All", "  region: x", "  people: x"), "people: .* a second one in line 5"),
        (("by: A", "ledger:", "  purpose: x"), r"item in line 3: .*\(did you mean intended_use\?\); words of your own"),
        (("by: A", "ledger:", "  Region: x"), r"Region in line 3: .*did you mean region\?"),
        (("by: A", "ledger:", "  intended use: x"), r"intended use in line 3: .*did you mean intended_use\?"),
        (("by: A", "ledger:", "  zebra: x"), "item in line 3: .*one of access_control, accuracy, .*, who_may_query;"),
        (("by: A", "scopes:", "  staff:", "    regions: x"), r"item in line 4: .*did you mean region\?"),
        (("by: A", "scopes:", "  staff: x"), "staff in line 3: expected a mapping of items"),
        (("by: A", "region: x"), "declarations in line 2: .*`ledger`"),
        # a mistake that YAML sees a line later
        (("by: A", "ledger:", "  people: All who", "came twice", "  region: x"), "in line 4: .*got came twice"),
        (("by: A", "ledger:", "  people: All", "  limits:x", "  region: x"), "in line 4: .*got limits:x"),
        (("by: A", "ledger:", "  limits:x", "  region: x"), "in line 3 or 4: .*got limits:x"),
        (("by:A", "ledger:", "  region: x"), "in line 1 or 2: .*got by:A"),
        (("by: A", "ledger:", "  people: All", "", "   region: x"), "in line 3 or 5: .*at the same indent"),
        (("by: A", "ledger:", "  people: All", " region: x"), "in line 4: .*at the same indent"),
        (("by: A", "ledger:", '  people: "All', "  region: x"), "in line 3 or 4: "),
        (("by: A", "ledger:", "  people: {by: B, text: All", "  region: x"), "in line 3 or 4: "),
    ],
)
def test_a_refusal_names_the_line_and_what_to_write(tmp_path: Path, lines: tuple[str, ...], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        read(written(tmp_path, "\n".join(lines)))


def test_the_line_is_named_however_long_the_path_is(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 50)
    folder.mkdir()
    with pytest.raises(ParameterError, match=r"declarations in line 2: .*got region"):
        read(written(folder, "by: A\nregion: x"))


def test_another_name_for_an_item_is_none_itself_and_leads_to_one() -> None:
    assert set(SYNONYMS.values()) <= ITEMS
    assert not SYNONYMS.keys() & ITEMS


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    with pytest.raises(ParameterError, match="in line 3: expected a file of text, saved as UTF-8"):
        parsed("by: A\nledger:\n  region: Österreich\n".encode("latin-1"))


def test_signs_that_are_refused_elsewhere_may_stand_within_a_text() -> None:
    (only,) = parsed('by: A\nledger: {region: "*all of\u00a0it*"}'.encode())
    assert only.text == "*all of\u00a0it*"


def test_the_words_of_the_sample_file_are_known_again() -> None:
    """The one in the package is the one in examples/; kinds from a closed list are anybody's, short words are not."""
    assert SAMPLE.read_bytes() == EXAMPLE.read_bytes()
    found = {one.item: is_sample(one.item, one.text) for one in read(EXAMPLE)}
    kinds = {"kind_of_product", "data_growth", "release_frequency", "synthetic_data", "model_files"}
    assert {item for item, is_known in found.items() if not is_known} == kinds
    assert all(is_sample_name(one.by) for one in read(EXAMPLE))
    assert not any(is_sample_name(one.by) for one in read(DEMO))
    assert not is_sample("people", "All patients of one clinic in 2025")
    assert not any(is_sample(one.item, one.text) for one in read(DEMO))


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_parse_or_be_refused(data: bytes) -> None:
    with contextlib.suppress(ParameterError):
        assert all(isinstance(one, Statement) for one in parsed(data))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="1,048,576"):
        read(written(tmp_path, "#" * (LARGEST + 1)))


@pytest.mark.sliced
def test_of_very_many_keys_each_is_asked_once_whether_it_stands_twice() -> None:
    """Asked of all pairs, a file of a mebibyte took minutes to be refused."""

    def built(number: int) -> float:
        mark = yaml.Mark("", 0, 0, 0, None, 0)
        words = [yaml.ScalarNode("", f"k{place}", mark, mark) for place in range(number)]
        mapping = yaml.MappingNode("", [(word, word) for word in words])
        began = time.process_time()
        assert len(_Loader("").construct_mapping(mapping)) == number
        return time.process_time() - began

    assert min(built(20_000) for _ in range(3)) < 40 * min(built(2_000) for _ in range(5))


# ---- what a ledger makes of it --------------------------------------------------------------------------------------


def test_a_file_is_declared_and_the_ledger_verifies(book: dpl.Ledger) -> None:
    entries = book.declare_file(EXAMPLE)
    assert len(entries) == len(ITEMS)
    said = {entry.body.item: entry.body for entry in entries if isinstance(entry.body, Declared)}
    assert said["decision_owner"].by == "M. Okafor"
    assert [step.scope for step in said["population_size"].path] == ["patients-2026"]
    assert book.verify().head.size == len(book)


def test_the_second_time_only_what_changed_is_declared(book: dpl.Ledger, tmp_path: Path) -> None:
    book.declare_file(
        written(tmp_path, "by: A\nledger: {region: Europe, people: All}\nscopes: {staff: {region: Here}}")
    )
    again = book.declare_file(
        written(tmp_path, "by: A\nledger: {region: Europe, people: Most}\nscopes: {staff: {region: Here}}")
    )
    assert [(entry.body.item, entry.body.text) for entry in again if isinstance(entry.body, Declared)] == [
        ("people", "Most")
    ]
    assert book.declare_file(tmp_path / "declarations.yaml") == ()
    other = book.declare_file(written(tmp_path, "by: B\nledger: {region: Europe}"))
    assert len(other) == 1  # somebody else's word is another declaration


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("by: A\nledger: {region: Europe, regoin: Europe}", ParameterError),
        ("by: A\nledger: {region: Europe}\nscopes: {nobody: {region: x}}", ScopeError),
    ],
)
def test_it_is_all_or_nothing(book: dpl.Ledger, tmp_path: Path, source: str, error: type[Exception]) -> None:
    size = len(book)
    with pytest.raises(error):
        book.declare_file(written(tmp_path, source))
    assert len(book) == size


def test_many_declarations_of_one_scope_take_places_one_after_another(book: dpl.Ledger, tmp_path: Path) -> None:
    entries = book.declare_file(written(tmp_path, "by: A\nscopes: {staff: {region: x, people: y, limits: z}}"))
    places = [entry.body.path[0].index for entry in entries if isinstance(entry.body, Declared)]
    assert places == [places[0], places[0] + 1, places[0] + 2]
    book.verify()
