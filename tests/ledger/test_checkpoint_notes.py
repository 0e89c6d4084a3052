"""Checkpoints: what is signed verifies, also under C2SP's rules read independently; no changed byte does."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, strategies as st

import merkle_oracle
import naive_signing as naive
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey, VerifyingKey

KEY = SigningKey.from_seed(naive.NAME, naive.SEED)
WITNESS = naive.OTHER_SEED
ROOTS = st.binary(min_size=32, max_size=32)
HEADS = st.builds(Checkpoint, origin=st.just(naive.NAME), size=st.integers(1, 2**53 - 1), root=ROOTS)


def opened_by_c2sp(note: str, vkey: str) -> str:
    """The text of a signed note, as c2sp.org/signed-note says it is opened by whoever knows one key; else ValueError.

    A stock reader in few lines, which shares nothing with the product: it knows neither sizes nor roots.
    """
    name, hash_text, key_text = vkey.split("+", 2)
    kind_and_key = base64.b64decode(key_text, validate=True)
    assert hashlib.sha256(f"{name}\n".encode() + kind_and_key).hexdigest()[:8] == hash_text
    split = note.rindex("\n\n")
    text, signatures = note[: split + 1], note[split + 2 :]
    assert signatures.endswith("\n")
    verified = False
    for line in signatures[:-1].split("\n"):
        dash, signer, encoded = line.split(" ")
        data = base64.b64decode(encoded, validate=True)
        assert dash == "\u2014"
        if (signer, data[:4].hex()) == (name, hash_text):
            Ed25519PublicKey.from_public_bytes(kind_and_key[1:]).verify(data[4:], text.encode())
            verified = True
    if not verified:
        raise ValueError("not signed by the key")
    return text


def accepted(data: bytes) -> bool:
    try:
        checkpoint.verify(data, KEY.public)
    except VerificationError:
        return False
    return True


@given(HEADS)
def test_what_is_signed_verifies(head: Checkpoint) -> None:
    data = checkpoint.sign(head, KEY)
    assert checkpoint.verify(data, KEY.public) == head
    assert checkpoint.parse_unverified(data)[0] == head


@given(HEADS)
def test_a_stock_reader_opens_it(head: Checkpoint) -> None:
    note = checkpoint.sign(head, KEY).decode()
    origin, size, root, end = opened_by_c2sp(note, KEY.public.text).split("\n")
    assert (origin, int(size), base64.b64decode(root), end) == (head.origin, head.size, head.root, "")
    with pytest.raises(InvalidSignature):
        opened_by_c2sp(note.replace(f"\n{size}\n", f"\n{int(size) + 1}\n", 1), KEY.public.text)


@given(HEADS)
def test_the_bytes_are_those_of_the_description(head: Checkpoint) -> None:
    assert head.text == naive.head(head.size, head.root)
    assert checkpoint.sign(head, KEY).decode() == naive.note(naive.head(head.size, head.root))


def test_the_note_that_go_gives_as_an_example_opens() -> None:
    """The signature of the example in golang.org/x/mod/sumdb/note is Ed25519 over the text as we read it."""
    text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    key = VerifyingKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    line = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    data = base64.b64decode(line)
    assert data[:4] == key.key_id
    key.verify(data[4:], text.encode())
    assert opened_by_c2sp(f"{text}\n\u2014 PeterNeumann {line}\n", key.text) == text


def test_every_change_of_one_byte_is_refused() -> None:
    data = checkpoint.sign(Checkpoint(origin=naive.NAME, size=1234, root=bytes(range(32))), KEY)
    assert accepted(data)
    for place in range(len(data)):
        for value in range(256):
            if value != data[place]:
                assert not accepted(data[:place] + bytes([value]) + data[place + 1 :]), (place, value)


def test_every_truncation_deletion_and_insertion_is_refused() -> None:
    data = checkpoint.sign(Checkpoint(origin=naive.NAME, size=1234, root=bytes(range(32))), KEY)
    for place in range(len(data)):
        assert not accepted(data[:place])
        assert not accepted(data[:place] + data[place + 1 :])
        for extra in b"\n 0A=\r":
            assert not accepted(data[:place] + bytes([extra]) + data[place:])
    for tail in (b"\n", b" ", b"\0", data):
        assert not accepted(data + tail)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_arbitrary_bytes_are_refused_with_one_error(data: bytes) -> None:
    with pytest.raises(VerificationError) as refusal:
        checkpoint.verify(data, KEY.public)
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 250


@given(st.data())
def test_bytes_that_are_nearly_a_checkpoint_are_refused_or_say_the_same(data: st.DataObject) -> None:
    head = Checkpoint(origin=naive.NAME, size=7, root=bytes(32))
    note = bytearray(checkpoint.sign(head, KEY))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(note)))
        end = data.draw(st.integers(start, min(len(note), start + 5)))
        pieces = ["\n", "\n\n", "\u2014 ", "\u2014 w AAAAAAA=\n", "+", "=", "0", "\u2028"]
        note[start:end] = data.draw(st.binary(max_size=4) | st.sampled_from(pieces).map(str.encode))
    try:
        read = checkpoint.verify(bytes(note), KEY.public)
    except VerificationError:
        return
    assert read == head


@given(
    st.lists(
        st.tuples(st.sampled_from(["witness.example", naive.NAME, "w"]), st.binary(min_size=5, max_size=99)),
        max_size=20,
    )
)
def test_lines_of_unknown_keys_prove_nothing_and_do_no_harm(others: list[tuple[str, bytes]]) -> None:
    text = naive.head(7, bytes(32))
    lines = [f"\u2014 {name} {naive.b64(data)}\n" for name, data in others if data[:4] != KEY.public.key_id]
    own = naive.signature_line(text)
    for place in {0, len(lines)}:
        note = naive.note(text, *lines[:place], own, *lines[place:])
        assert checkpoint.verify(note.encode(), KEY.public).size == 7
        assert opened_by_c2sp(note, KEY.public.text) == text
    if lines:
        assert not accepted(naive.note(text, *lines).encode())


def test_the_longest_signatures_of_16_witnesses_fit() -> None:
    text = naive.head(7, bytes(32))
    lines = [f"\u2014 {'w' * 255} {naive.b64(bytes([n]) * 5_000)}\n" for n in range(16)]
    assert accepted(naive.note(text, naive.signature_line(text), *lines).encode())


def test_a_note_of_a_megabyte_is_refused_unread() -> None:
    text = naive.head(7, bytes(32))
    note = naive.note(text, naive.signature_line(text), f"\u2014 w {'A' * 1_000_000}\n")
    with pytest.raises(VerificationError, match="at most 524288"):
        checkpoint.verify(note.encode(), KEY.public)


def test_the_signature_lines_are_returned_as_they_stand() -> None:
    text = naive.head(7, bytes(32))
    note = naive.note(text, naive.signature_line(text), naive.signature_line(text, name="w.example", seed=WITNESS))
    _, lines = checkpoint.parse_unverified(note.encode())
    assert [(line.name, line.key_id) for line in lines] == [
        (naive.NAME, KEY.public.key_id),
        ("w.example", naive.key_id("w.example", naive.public(WITNESS))),
    ]
    VerifyingKey("w.example", naive.public(WITNESS)).verify(lines[1].signature, text.encode())


def test_a_key_signs_heads_of_its_own_ledger_only() -> None:
    head = Checkpoint(origin=naive.OTHER_NAME, size=7, root=bytes(32))
    with pytest.raises(ParameterError, match="the ledger's id"):
        checkpoint.sign(head, KEY)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origin", "example.org"),
        ("origin", naive.NAME + "\n"),
        ("size", -1),
        ("size", 2**53),
        ("size", True),
        ("size", 7.0),
        ("root", bytes(31)),
        ("root", "A" * 32),
    ],
)
def test_an_impossible_head_cannot_exist(field: str, value: object) -> None:
    fields: dict[str, object] = {"origin": naive.NAME, "size": 7, "root": bytes(32), field: value}
    with pytest.raises(ParameterError):
        Checkpoint(**fields)  # type: ignore[arg-type]


def test_the_empty_tree_has_one_head() -> None:
    assert Checkpoint(origin=naive.NAME, size=0, root=merkle_oracle.head([])).size == 0
    with pytest.raises(ParameterError, match="empty tree"):
        Checkpoint(origin=naive.NAME, size=0, root=bytes(32))
