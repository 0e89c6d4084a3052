"""Every kind that can be recorded is listed in SPEC.md and stands in a golden ledger; one that this version does not
know stops it as newer than itself, wherever it stands, and is neither skipped nor called invalid."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import golden_kinds
import ledger_golden
import ledger_spec
import spec_kinds
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.cli import app
from dpledger.errors import NewerThanVerifier, ParameterError, UnknownWord, VerificationError
from dpledger.ledger.entries import declarations
from dpledger.ledger.entries.bodies import KINDS, Body
from dpledger.ledger.entries.entry import format_entry, parse_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.transitions import EMPTY, step
from dpledger.ledger.signed import wire
from dpledger.ledger.stores.protocol import Addition
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.verifying import bundle, verification
from ledger_forger import forged_payloads

BOOK = ledger_golden.build_kinds()
ENTRIES = tuple(BOOK.entries())
PAYLOADS: tuple[dict[str, Any], ...] = tuple(
    format_entry(entry) for entry in (*ENTRIES, *ledger_golden.build().entries())
)
SPEC = ledger_spec.SPEC.read_text("utf-8")


def recorded() -> set[str]:
    """Every word that stands under `kind` anywhere in the golden ledgers."""
    return {kind for payload in PAYLOADS for kind in golden_kinds.kinds_in(payload)}


# ---- listed, and shown ----------------------------------------------------------------------------------------------


def test_the_golden_ledger_of_kinds_is_the_golden_one_and_verifies() -> None:
    found = ledger_golden.bundled(BOOK)
    folder = ledger_golden.KINDS_DATA
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == found
    assert bundle.verify(folder, ledger_golden.KINDS_KEY.public).entries == ENTRIES


def test_the_lists_of_the_specification_are_those_of_the_code() -> None:
    assert spec_kinds.refreshed(SPEC) == SPEC, "`python tests/support/ledger_golden.py` writes them"
    assert sorted(spec_kinds.marks(SPEC)) == sorted(spec_kinds.lists())


UNIONS = {
    "trees": spec_kinds.members(Composition),
    "guarantees": spec_kinds.members(Guarantee),
    "filters": spec_kinds.members(Filter),
    "failures": spec_kinds.members(Failure),
    "outcomes": spec_kinds.outcomes(),
}


@pytest.mark.parametrize("name", UNIONS)
def test_every_kind_of_every_union_is_listed_and_stands_in_a_golden_ledger(name: str) -> None:
    kinds = {spec_kinds.kind_of(record) for record in UNIONS[name]}
    assert kinds <= recorded(), "an example in tests/support/golden_kinds.py, then its ledger_golden.py"
    assert [kind for kind in kinds if f"| `{kind}` |" not in SPEC] == []


def test_there_is_an_example_of_every_tree_and_a_scope_of_every_filter() -> None:
    known = {spec_kinds.kind_of(record) for record in spec_kinds.members(Composition)}
    assert set(golden_kinds.EXAMPLES) == known, "an example in tests/support/golden_kinds.py each"
    assert set(golden_kinds.FILTERS) == {spec_kinds.kind_of(record) for record in spec_kinds.members(Filter)}
    shown = {payload["parts"]["kind"] for payload in PAYLOADS if payload["kind"] == "reserved"}
    assert shown >= set(golden_kinds.EXAMPLES)


RUN = ("outcome", "done", "reached")  # what a run adds to its plan


def test_every_member_that_a_tree_may_lack_stands_in_a_golden_entry_and_what_a_run_adds_in_a_commit() -> None:
    for record in spec_kinds.members(Composition):
        kind = spec_kinds.kind_of(record)
        optional = {field.name for field in fields(record) if field.default is None}
        assert optional <= members_of(kind, "reserved", "committed"), kind
        if optional.intersection(RUN):
            assert optional <= members_of(kind, "committed"), kind


def members_of(kind: str, *entries: str) -> set[str]:
    """The members with which trees of this kind stand in golden entries of those kinds."""
    trees = (tree for payload in PAYLOADS if payload["kind"] in entries for tree in records_in(payload["parts"]))
    return {name for tree in trees if tree["kind"] == kind for name in tree}


def records_in(value: Any) -> Iterator[dict[str, Any]]:
    """Everything in a payload that has a kind."""
    if isinstance(value, dict) and "kind" in value:
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from records_in(item)


def test_a_kind_that_a_list_lacks_would_be_seen() -> None:
    """The twin: the specification without one line, or with a member too few."""
    for removed in ("| `shuffled` |", ", `query_scale`: number above 0"):
        line = next(line for line in SPEC.splitlines(keepends=True) if removed in line)
        spoilt = SPEC.replace(line, line.replace(removed, ""))
        assert spec_kinds.refreshed(spoilt) == SPEC != spoilt


def test_the_specification_says_of_every_member_what_binds_it() -> None:
    for kind in KINDS:
        members = {field for body in _classes(kind) for field in body.__dataclass_fields__} - {"kind", "version"}
        rules = ledger_spec.rules_of(SPEC, kind)
        assert set(rules) == members, kind
        assert all(rule.strip() for rule in rules.values()), kind


def _classes(kind: str) -> Iterator[Any]:
    return (body for body in spec_kinds.members(Body) if spec_kinds.kind_of(body) == kind)


# ---- newer than the verifier ----------------------------------------------------------------------------------------


def places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every `kind` in a payload."""
    if isinstance(value, dict):
        if "kind" in value and way != ("mechanism",):  # of a mechanism it is the caller's own word
            yield (*way, "kind")
        for name, item in value.items():
            if way[:1] != ("mechanism",):
                yield from places(item, (*way, name))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*way, index))


def with_word(payload: dict[str, Any], way: tuple[str | int, ...], word: object, **more: object) -> dict[str, Any]:
    """The payload with another word there, and more members beside it."""
    changed: Any = copy.deepcopy(payload)
    at = changed
    for step_ in way[:-1]:
        at = at[step_]
    at[way[-1]] = word
    at.update(more)
    return dict(changed)


KIND_PLACES = [(number, way) for number, payload in enumerate(PAYLOADS) for way in places(payload)]


def test_there_are_kinds_in_every_place() -> None:
    deep = {way[-2] for _, way in KIND_PLACES if len(way) > 1}
    assert deep >= {"budget", "filter", "claim", "parts", "of", "to", "outcome", 0}


@pytest.mark.parametrize(("number", "way"), KIND_PLACES, ids=lambda one: str(one))
def test_a_kind_that_is_not_known_is_newer_wherever_it_stands(number: int, way: tuple[str | int, ...]) -> None:
    for more in ({}, {"tomorrow": "x"}):
        with pytest.raises(NewerThanVerifier, match=r"frobnicated.*newer than this verifier; upgrade") as refusal:
            parse_entry(with_word(PAYLOADS[number], way, "frobnicated", **more))
        assert refusal.value.index == PAYLOADS[number]["index"]


@pytest.mark.parametrize("word", ["", "Laplace", "laplace!", 7, True, ["laplace"], {"kind": "laplace"}])
def test_what_is_no_word_is_not_newer_but_wrong(word: object) -> None:
    for number, way in KIND_PLACES[:: len(KIND_PLACES) // 12]:
        with pytest.raises(VerificationError) as refusal:
            parse_entry(with_word(PAYLOADS[number], way, word))
        assert not isinstance(refusal.value, NewerThanVerifier)


@pytest.mark.parametrize(
    ("kind", "member", "word"),
    [
        ("scope_opened", "relation", "swap_two"),
        ("scope_opened", "keep", "sealed"),
        ("reserved", "form", "federated"),
        ("committed", "rule", "odometer"),
        ("audited", "verdict", "inconclusive"),
        ("ledger_opened", "witness", "quorum"),
        ("ledger_opened", "format", "dpledger.ledger.v2"),
        ("declared", "item", "carbon_footprint"),
    ],
)
def test_a_word_that_is_not_on_its_closed_list_is_newer(kind: str, member: str, word: str) -> None:
    payload = next(payload for payload in PAYLOADS if payload["kind"] == kind)
    with pytest.raises(NewerThanVerifier, match=member):
        parse_entry({**payload, member: word})


def test_a_member_that_is_not_listed_is_wrong_and_not_newer() -> None:
    heartbeat = next(payload for payload in PAYLOADS if payload["kind"] == "heartbeat")
    with pytest.raises(VerificationError, match="no such field") as refusal:
        parse_entry({**heartbeat, "mood": "good"})
    assert not isinstance(refusal.value, NewerThanVerifier)
    for kind, version in (("frobnicated", 1), ("heartbeat", 2)):
        with pytest.raises(NewerThanVerifier, match=kind):
            parse_entry({**heartbeat, "kind": kind, "version": version, "mood": "good"})


def newer_record(index: int) -> tuple[list[bytes], bytes]:
    """The golden ledger of kinds, in which a leaf at `index` is of a kind that nobody knows yet; correctly signed."""
    payloads = [dict(payload) for payload in PAYLOADS[: len(ENTRIES)]]
    payloads[index]["parts"] = {"kind": "frobnicated", "epsilon": "0.25"}
    return forged_payloads(payloads, ledger_golden.KINDS_KEY)


def test_the_verifier_stops_at_what_is_newer_and_says_where() -> None:
    index = next(entry.index for entry in ENTRIES if entry.body.kind == "reserved")
    leaves, head = newer_record(index)
    with pytest.raises(NewerThanVerifier, match=f"entry {index}: .*frobnicated.*upgrade") as refusal:
        verification.verify(leaves, head, ledger_golden.KINDS_KEY.public)
    assert refusal.value.index == index
    assert verification.verify_quick(leaves, head, ledger_golden.KINDS_KEY.public).head.size == len(leaves)


def test_the_command_line_tells_newer_from_wrong(tmp_path: Path) -> None:
    """Exit status 2, cannot be used; a record that contradicts its signatures is 1."""
    index = next(entry.index for entry in ENTRIES if entry.body.kind == "reserved")
    leaves, head = newer_record(index)
    folder = bundle.write(tmp_path / "bundle", leaves, head)
    ran = CliRunner().invoke(app, ["verify", str(folder), "--key", ledger_golden.KINDS_KEY.public.text])
    assert ran.exit_code == 2
    assert f"entry {index}" in ran.output
    assert "upgrade dpledger" in " ".join(ran.output.split())


def test_a_ledger_file_of_a_later_version_does_not_open_and_says_so(tmp_path: Path) -> None:
    leaves, head = newer_record(next(entry.index for entry in ENTRIES if entry.body.kind == "reserved"))
    store = SQLiteStore.create(tmp_path / "clinic.ledger")
    assert store.append(Addition(size=0, leaves=tuple(leaves), head=head)) == "done"
    store.close()
    with pytest.raises(NewerThanVerifier, match="upgrade dpledger"):
        Ledger.look(tmp_path / "clinic.ledger")


def test_a_registered_plan_is_newer() -> None:
    entry = next(entry for entry in ENTRIES if entry.body.kind == "reserved")
    state = EMPTY
    for before in ENTRIES[: entry.index]:
        state = step(state, before.body)
    planned = parse_entry({**format_entry(entry), "plan": "ab" * 16})
    with pytest.raises(NewerThanVerifier, match="registered plan"):
        step(state, planned.body)


# ---- what declarations say ------------------------------------------------------------------------------------------


def test_a_mistyped_item_is_refused_with_what_may_be_meant_or_with_the_list() -> None:
    book = Ledger.in_memory()
    for item, near in (("regoin", "region"), ("contact", "controller_and_contact or incident_contact")):
        with pytest.raises(UnknownWord) as refusal:
            book.declare(item, "Europe", by="me")
        assert f"a known item (did you mean {near}?);" in str(refusal.value)
    with pytest.raises(UnknownWord) as refusal:
        book.declare("zebra", "Europe", by="me")
    assert all(item in str(refusal.value) for item in declarations.ITEMS)
    assert isinstance(refusal.value, ParameterError)
    for item in ("own_", "Region", "region ", ""):
        with pytest.raises(ParameterError):
            book.declare(item, "Europe", by="me")
    book.declare("own_regoin", "Europe", by="me")
    assert len(book) == 2


BLANK = ["", " ", "\n", " \u00a0\u2003\u3000\n"]


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("declared", "text"),
        ("declared", "by"),
        ("lost", "note"),
        ("closed", "reason"),
        ("audited", "event"),
        ("audited", "blind"),
    ],
)
def test_an_entry_that_says_nothing_is_refused(kind: str, member: str, blank: str) -> None:
    payload = next(payload for payload in PAYLOADS if payload["kind"] == kind and member in payload)
    with pytest.raises(VerificationError, match=f"{member}: expected words"):
        parse_entry({**payload, member: blank})


def test_what_says_nothing_is_not_written_either() -> None:
    book = Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=golden_kinds.FILTERS["pure"])
    sayings: tuple[Callable[[], object], ...] = (
        lambda: book.end(" "),
        lambda: scope.end("\n"),
        lambda: book.declare("region", "  ", by="me"),
    )
    for say in sayings:
        with pytest.raises(ParameterError, match="words"):
            say()
    assert len(book) == 2


def test_the_blanks_of_the_specification_are_those_of_the_code() -> None:
    """Of all characters that the profile lets through, exactly those that SPEC.md names say nothing by themselves."""
    silent = set()
    for point in (*range(0x20, 0xD800), *range(0xE000, 0x30000)):
        try:
            wire.check_text(chr(point), "text")
        except ParameterError:
            continue
        if not chr(point).strip():
            silent.add(point)
    said = next(line for line in SPEC.split("\n\n") if "*words* is text that says something" in line)
    named = re.findall(r"U\+([0-9A-F]{4})(?: to U\+([0-9A-F]{4}))?", said.split("*words*")[1])
    expected = {point for low, high in named for point in range(int(low, 16), int(high or low, 16) + 1)}
    assert silent == expected
