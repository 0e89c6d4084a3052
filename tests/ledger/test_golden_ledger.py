"""The golden ledger: its bytes are the format, and every kind is in it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

import ledger_golden
import ledger_spec
from dpledger.errors import NewerThanVerifier, VerificationError
from dpledger.ledger.entries.bodies import KINDS
from dpledger.ledger.entries.entry import entry_of, format_entry, parse_entry
from dpledger.ledger.rules.scope_state import state_digest
from dpledger.ledger.rules.transitions import EMPTY, step
from dpledger.ledger.signed import wire
from dpledger.ledger.verifying import bundle
from dpledger.schema import Plain

BOOK = ledger_golden.build()
FILES = ledger_golden.files(BOOK)
RESERVED_KINDS = FILES["reserved_kinds.jsonl"].splitlines()
KEYS = tuple(map(entry_of, ledger_spec.keys_leaves()))
SECOND = tuple(map(entry_of, ledger_spec.second_leaves()))
ALL = (*BOOK.entries(), *SECOND, *KEYS, *(parse_entry(wire.parse(line)) for line in RESERVED_KINDS))


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_byte_is_the_golden_one(name: str) -> None:
    assert FILES[name] == (ledger_golden.DATA / name).read_bytes()


def test_no_other_golden_file_lies_about() -> None:
    assert {path.name for path in ledger_golden.DATA.iterdir()} == set(FILES)


def test_every_kind_has_a_golden_entry() -> None:
    written = {entry.body.kind for entry in (*BOOK.entries(), *SECOND, *KEYS)}
    later = {parse_entry(wire.parse(line)).body.kind for line in RESERVED_KINDS}
    assert written | later == KINDS
    assert not written & later


def test_the_golden_bundle_verifies_with_the_public_key_alone() -> None:
    verified = bundle.verify(ledger_golden.DATA, ledger_golden.KEY.public)
    assert verified.entries == tuple(BOOK.entries())
    assert verified.state == BOOK.state
    assert verified.witnessed == 0
    assert verified.unwitnessed == len(BOOK)


@pytest.mark.parametrize("line", RESERVED_KINDS, ids=[json.loads(line)["kind"] for line in RESERVED_KINDS])
def test_a_kind_of_a_later_version_has_its_bytes_and_stops_this_verifier(line: bytes) -> None:
    entry = parse_entry(wire.parse(line))
    assert wire.dump(format_entry(entry)) == line
    with pytest.raises(NewerThanVerifier, match="newer than this verifier"):
        step(BOOK.state.__class__(size=4, opened=BOOK.state.opened, scopes=BOOK.state.scopes), entry.body)


def test_the_examples_of_the_specification_are_golden_entries() -> None:
    text = ledger_spec.SPEC.read_text("utf-8")
    assert ledger_spec.refreshed(text, FILES) == text, "python tests/support/ledger_golden.py writes them"
    assert ledger_spec.kinds_shown(text) == KINDS


def test_the_specification_names_every_member_of_every_kind() -> None:
    """Each table of section 6 lists exactly the members of its class, in other words too: optional where one may be
    absent."""
    text = ledger_spec.SPEC.read_text("utf-8")
    for body in {type(entry.body): entry.body for entry in ALL}.values():
        section = text.split(f"### `{body.kind}`\n")[1].split("\n##")[0]
        listed = set(re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE))
        assert listed == set(body.__dataclass_fields__) - {"kind", "version"}, body.kind


def test_an_entry_is_one_text_both_ways() -> None:
    for leaf in BOOK.leaves():
        entry = entry_of(leaf)
        payload = format_entry(entry)
        assert parse_entry(payload) == entry
        assert wire.parse(wire.dump(payload)) == payload


def test_a_snapshot_states_the_digest_of_the_state_before_it() -> None:
    state = EMPTY
    for entry in BOOK.entries():
        if entry.body.kind == "snapshot":
            assert entry.body.state == state_digest(state)
            assert entry.index == ledger_golden.SNAPSHOT_EVERY
        state = step(state, entry.body)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": ["heartbeat"]}, "kind: expected a word"),
        ({"kind": "Heartbeat"}, "kind: expected a word"),
        ({"version": True}, "version: expected a whole number"),
        ({"version": 0}, "version: expected a whole number"),
        ({"version": "2"}, "version: expected a whole number"),
        ({"extra": "field"}, "no such field"),
        ({"index": -1}, "index"),
        ({"index": True}, "index"),
        ({"previous": "0" * 63}, "previous"),
        ({"time": "2026-02-30T00:00:00Z"}, "time"),
        ({"time": "2026-11-21 10:00:00"}, "time"),
        ({"path": []}, "no such field"),
        ({"ledger": "short"}, "ledger"),
    ],
)
def test_a_payload_that_is_no_entry_is_refused_and_says_why(change: dict[str, Plain], reason: str) -> None:
    heartbeat = next(entry for entry in BOOK.entries() if entry.body.kind == "heartbeat")
    with pytest.raises(VerificationError, match=reason) as refusal:
        parse_entry({**format_entry(heartbeat), **change})
    assert not isinstance(refusal.value, NewerThanVerifier)


def sha256(value: Plain) -> str:
    """Of a value in the profile."""
    return hashlib.sha256(wire.dump(value)).hexdigest()


def test_a_request_is_digested_as_the_specification_says() -> None:
    for entry in BOOK.entries():
        if entry.body.kind == "reserved":
            payload: Any = format_entry(entry)
            asked = {name: payload[name] for name in ("claim", "form", "parts")}
            mechanism = {name: payload["mechanism"][name] for name in ("kind", "parameters")}
            own = {"count/2026-11": "clinic", "mean-age": "ward-7"}.get(payload["key"], "clinic")
            assert payload["request"] == sha256({**asked, "mechanism": mechanism, "scope": own})


def test_the_first_snapshot_is_the_digest_of_the_golden_state() -> None:
    (snapshot,) = (format_entry(entry) for entry in BOOK.entries() if entry.body.kind == "snapshot")
    assert snapshot["state"] == hashlib.sha256(FILES["snapshot_state.json"].rstrip(b"\n")).hexdigest()


def test_an_empty_list_has_no_place_in_an_entry() -> None:
    declared = next(entry for entry in BOOK.entries() if entry.body.kind == "declared" and not entry.body.path)
    with pytest.raises(VerificationError, match="one form"):
        parse_entry({**format_entry(declared), "path": []})


def test_only_the_kinds_that_run_on_data_carry_no_time() -> None:
    for entry in BOOK.entries():
        assert (entry.time is None) == (entry.body.kind in {"started", "progress", "committed"})
        payload = format_entry(entry)
        flipped = {**payload, "time": "2026-11-21T10:00:00Z"} if entry.time is None else dict(payload)
        if entry.time is not None:
            del flipped["time"]
        with pytest.raises(VerificationError, match="time"):
            parse_entry(flipped)
