"""Every golden vector of the byte layer, through the product; and the files themselves against what builds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ledger_vectors
from dpledger.errors import DpledgerError, ParameterError, VerificationError
from dpledger.ledger.signed import checkpoint, envelope, merkle, wire
from dpledger.ledger.signed.keys import SigningKey, VerifyingKey
from golden import Vector, content_of


def expect(vector: Vector, run: Callable[[], Any], refused_by: type[DpledgerError]) -> Any:
    """What `run` returns, for a good vector; for a bad one the right kind of error, saying why, in few words."""
    if "want_error" not in vector:
        return run()
    with pytest.raises(refused_by) as refusal:
        run()
    assert type(refusal.value) is refused_by
    assert vector["want_error"] in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert str(refusal.value).replace("\u2026", "").isascii()
    return None


def vectors_of(name: str, group: str = "vectors") -> pytest.MarkDecorator:
    vectors = ledger_vectors.load(name)[group]
    return pytest.mark.parametrize("vector", vectors, ids=[vector["desc"] for vector in vectors])


def test_the_files_are_what_the_description_gives() -> None:
    built = ledger_vectors.build()
    assert {
        path.name: path.read_text("utf-8") for path in ledger_vectors.DATA.glob("*.json") if path.name in built
    } == built


@vectors_of("payload")
def test_payload(vector: Vector) -> None:
    data = content_of(vector)
    value = expect(vector, lambda: wire.parse(data), VerificationError)
    if value is not None:
        assert wire.dump(value) == data


@vectors_of("fields", "ids")
def test_id(vector: Vector) -> None:
    expect(vector, lambda: wire.check_id(vector["text"], "field"), ParameterError)


@vectors_of("fields", "ledger_ids")
def test_ledger_id(vector: Vector) -> None:
    expect(vector, lambda: wire.check_ledger_id(vector["text"], "field"), ParameterError)


@vectors_of("fields", "times")
def test_time(vector: Vector) -> None:
    expect(vector, lambda: wire.check_time(vector["text"]), ParameterError)


@vectors_of("fields", "numbers")
def test_number(vector: Vector) -> None:
    def read() -> object:
        return wire.check_number(
            vector["text"], "field", signed=vector.get("signed", False), infinite=vector.get("infinite", False)
        )

    expect(vector, read, ParameterError)


@vectors_of("keys")
def test_verifying_key(vector: Vector) -> None:
    key = expect(vector, lambda: VerifyingKey.parse(vector["text"]), ParameterError)
    if key is not None:
        assert key.text == vector["text"]


@vectors_of("envelope")
def test_envelope(vector: Vector) -> None:
    key = VerifyingKey.parse(ledger_vectors.load("envelope")["key"])
    leaf = content_of(vector)
    payload = expect(vector, lambda: envelope.verify(leaf, lambda key_id: key), VerificationError)
    if payload is not None:
        assert merkle.leaf_hash(leaf).hex() == vector["leaf_hash"]
        assert envelope.encode(envelope.parse_unverified(leaf)) == leaf


@vectors_of("checkpoint")
def test_checkpoint(vector: Vector) -> None:
    key = VerifyingKey.parse(ledger_vectors.load("checkpoint")["key"])
    head = expect(vector, lambda: checkpoint.verify(content_of(vector), key), VerificationError)
    if head is not None:
        assert (head.size, head.root.hex()) == (vector["size"], vector["root"])


@vectors_of("merkle", "inclusion")
def test_inclusion_proof(vector: Vector) -> None:
    def check() -> None:
        merkle.check_inclusion(
            [bytes.fromhex(value) for value in vector["proof"]],
            leaf_hash=bytes.fromhex(vector["leaf_hash"]),
            index=vector["index"],
            size=vector["size"],
            root=bytes.fromhex(vector["root"]),
        )

    expect(vector, check, VerificationError)


@vectors_of("merkle", "consistency")
def test_consistency_proof(vector: Vector) -> None:
    def check() -> None:
        merkle.check_consistency(
            [bytes.fromhex(value) for value in vector["proof"]],
            old_size=vector["old_size"],
            old_root=bytes.fromhex(vector["old_root"]),
            new_size=vector["new_size"],
            new_root=bytes.fromhex(vector["new_root"]),
        )

    expect(vector, check, VerificationError)


def test_roots_of_the_vectors() -> None:
    content = ledger_vectors.load("merkle")
    hashes = [merkle.leaf_hash(bytes.fromhex(leaf)) for leaf in content["leaves"]]
    assert [merkle.root(hashes[:size]).hex() for size in range(len(hashes) + 1)] == content["roots"]


def test_the_product_writes_the_bytes_of_the_vectors() -> None:
    keys, entry, heads = (ledger_vectors.load(name) for name in ("keys", "envelope", "checkpoint"))
    key = SigningKey.from_seed(keys["name"], bytes.fromhex(keys["seed"]))
    assert key.public.text == entry["key"] == heads["key"] == keys["vectors"][0]["text"]
    assert (key.public.key_id_hex, key.public.public.hex()) == (keys["key_id"], keys["public"])
    assert envelope.seal(entry["payload"].encode(), key).decode() == entry["vectors"][0]["text"]
    first = heads["vectors"][0]
    head = checkpoint.Checkpoint(origin=keys["name"], size=first["size"], root=bytes.fromhex(first["root"]))
    assert checkpoint.sign(head, key).decode() == first["text"]
