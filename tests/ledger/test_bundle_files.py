"""The files that are handed to others, and those that are not: bundles and public keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import ledger_golden
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import ForeignLedger, ParameterError, StoreFailure, VerificationError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed.keyfiles import KeyFiles, read_public_key
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import bundle
from ledger_mechanisms import laplace

KEY = ledger_golden.KEY.public


def test_a_bundle_holds_what_was_signed_and_nothing_else(tmp_path: Path) -> None:
    book = ledger_golden.build()
    folder = book.export(tmp_path / "deep" / "bundle")
    assert {path.name for path in folder.iterdir()} == {"entries.jsonl", "checkpoint"}
    leaves, head = bundle.read(folder)
    assert (list(leaves), head) == (list(book.leaves()), book.head)


def test_no_kept_value_and_no_secret_is_in_a_bundle(tmp_path: Path) -> None:
    """As written and as decoded: neither an output nor the seed of a key, in any of its forms, leaves the ledger."""
    with Ledger.create(tmp_path / "clinic.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        scope.release(laplace(), "the-output-4711", key="k")
        folder = book.export(tmp_path / "bundle")
    written = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    payloads = [json.loads(line)["payload"] for line in (folder / "entries.jsonl").read_text().splitlines()]
    told = written + b"".join(base64.b64decode(payload) for payload in payloads)
    assert b'"kind":"reserved"' in told
    assert b"the-output" not in told
    for end in (".key", ".recovery.key"):
        text = (tmp_path / f"clinic.ledger{end}").read_text().strip().removeprefix("PRIVATE+KEY+").split("+", 2)[2]
        seed = base64.b64decode(text, validate=True)[1:]
        assert len(seed) == 32
        for form in (text.encode(), base64.b64encode(seed), seed, seed.hex().encode()):
            assert form not in told


def test_a_bundle_is_written_into_an_empty_folder_alone(tmp_path: Path) -> None:
    book = ledger_golden.build()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for taken in ("full", "file"):
        with pytest.raises(ParameterError, match="empty or not there"):
            book.export(tmp_path / taken)
    (tmp_path / "empty").mkdir()
    assert book.export(tmp_path / "empty") == tmp_path / "empty"


def test_a_bundle_that_cannot_be_finished_leaves_no_files(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"leaf"
        raise StoreFailure("the disk is gone")

    with pytest.raises(StoreFailure):
        bundle.write(tmp_path / "bundle", failing(), b"")
    assert list((tmp_path / "bundle").iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ParameterError, match="can be written"):
        bundle.write(tmp_path / "file" / "bundle", [], b"")


@pytest.mark.parametrize("missing", ["entries.jsonl", "checkpoint"])
def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path, missing: str) -> None:
    folder = ledger_golden.build().export(tmp_path / "bundle")
    (folder / missing).unlink()
    for path in (folder, tmp_path / "nowhere", tmp_path):
        with pytest.raises(ForeignLedger, match="not a bundle"):
            bundle.verify(path, KEY)


def test_a_key_that_lies_in_the_folder_is_not_asked(tmp_path: Path) -> None:
    """Keys come from the verifier: what else lies in the folder makes no difference."""
    book = ledger_golden.build()
    folder = book.export(tmp_path / "bundle")
    (folder / "keys.json").write_text('{"log":"evil"}\n')
    assert bundle.verify(folder, KEY).entries == tuple(book.entries())


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n", b"{}\n", b"\r\n", b"\x00", bytes(range(256)) + b"\n"])
def test_other_entries_are_refused_at_the_first(tmp_path: Path, data: bytes) -> None:
    folder = ledger_golden.build().export(tmp_path / "bundle")
    (folder / "entries.jsonl").write_bytes(data)
    with pytest.raises(VerificationError) as refusal:
        bundle.verify(folder, KEY)
    assert refusal.value.index == 0


def test_a_public_key_is_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(KEY.text + "\n")
    assert read_public_key(tmp_path / "key.pub") == read_public_key(KEY.text) == KEY


@pytest.mark.parametrize("content", ["", "key", KEY.text + "x", f"{KEY.text}\n\n", "é", KEY.text.replace("+", "-")])
def test_what_is_no_public_key_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "key.pub").write_text(content, encoding="utf-8")
    for source in (tmp_path / "key.pub", content):
        with pytest.raises(ParameterError):
            read_public_key(source)


def test_keys_lie_beside_the_ledger_by_name(tmp_path: Path) -> None:
    files = KeyFiles.beside(tmp_path / "clinic.ledger")
    with Ledger.create(tmp_path / "clinic.ledger") as book:
        assert read_public_key(files.public) == book.public_key
        assert VerifyingKey.parse(files.public.read_text().strip()).name == book.id
    assert files.signing.name == "clinic.ledger.key"
    assert files.recovery.name == "clinic.ledger.recovery.key"
