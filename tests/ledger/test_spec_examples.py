"""The examples in ledger/SPEC.md are the golden vectors, byte for byte, and its constants are right."""

from __future__ import annotations

from importlib.resources import files

import ledger_vectors
import merkle_oracle
import naive_signing as naive

SPEC = files("dpledger.ledger").joinpath("SPEC.md").read_text("utf-8")


def test_the_examples_are_the_vectors() -> None:
    entry, heads = ledger_vectors.load("envelope"), ledger_vectors.load("checkpoint")
    leaf = entry["vectors"][0]["text"]
    assert f"```json\n{entry['payload']}\n```" in SPEC
    assert f"```json\n{leaf}\n```" in SPEC
    assert f"```text\n{heads['vectors'][0]['text']}```" in SPEC
    assert f"```text\n{entry['key']}\n```" in SPEC
    assert merkle_oracle.leaf(leaf.encode()).hex() in SPEC


def test_the_constants_are_those_of_the_vectors() -> None:
    assert naive.SEED.hex() in SPEC
    assert str(naive.ORDER - 2**252) in SPEC
    for point in ("order 8", "order 8, the other y"):
        assert naive.SMALL_ORDER[point].hex() in SPEC


def test_every_part_of_the_format_has_its_section() -> None:
    headings = [line for line in SPEC.splitlines() if line.startswith("## ")]
    assert headings[:4] == ["## 1. Payload", "## 2. Envelope and leaf", "## 3. Tree and head", "## 4. Keys"]
    assert headings[4].startswith("## 5. Entries")
