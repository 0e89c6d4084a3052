"""Envelopes: what is sealed verifies; no changed byte does; nothing is read before the signature holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import naive_signing as naive
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import envelope
from dpledger.ledger.signed.keys import SigningKey, VerifyingKey

KEY = SigningKey.from_seed(naive.NAME, naive.SEED)
OTHER_KEY = SigningKey.from_seed(naive.NAME, naive.OTHER_SEED)
OTHER_LEDGER = SigningKey.from_seed(naive.OTHER_NAME, naive.SEED)


def ours(key_id: str) -> VerifyingKey:
    if key_id != KEY.public.key_id_hex:
        raise VerificationError(f"the key {key_id} is not in force")
    return KEY.public


def accepted(leaf: bytes) -> bool:
    try:
        envelope.verify(leaf, ours)
    except VerificationError:
        return False
    return True


@given(st.binary(max_size=300))
def test_what_is_sealed_verifies(payload: bytes) -> None:
    leaf = envelope.seal(payload, KEY)
    assert envelope.verify(leaf, ours) == payload
    assert leaf == envelope.encode(envelope.parse_unverified(leaf))


@given(st.binary(max_size=300))
def test_the_bytes_are_those_that_dsse_describes(payload: bytes) -> None:
    assert envelope.pre_authentication(payload) == naive.pae(payload)
    assert envelope.seal(payload, KEY).decode() == naive.envelope(payload)


def test_the_message_that_dsse_itself_gives_as_an_example() -> None:
    """The DSSE protocol prints one; the oracle of these tests gives it, and ours differs in the type alone."""
    example = naive.pae(b"hello world", "http://example.com/HelloWorld")
    assert example == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    signed = envelope.pre_authentication(b"hello world")
    assert signed == example.replace(b"29 http://example.com/HelloWorld", b"38 application/vnd.dpledger.entry.v1+json")


def test_a_tolerant_reader_sees_the_members_of_dsse() -> None:
    content = json.loads(envelope.seal(b"{}", KEY))
    assert list(content) == ["payload", "payloadType", "signatures"]
    assert [list(signature) for signature in content["signatures"]] == [["keyid", "sig"]]


def test_every_change_of_one_byte_is_refused() -> None:
    leaf = envelope.seal(b'{"index":0,"kind":"heartbeat"}', KEY)
    assert accepted(leaf)
    for place in range(len(leaf)):
        for value in range(256):
            if value != leaf[place]:
                assert not accepted(leaf[:place] + bytes([value]) + leaf[place + 1 :]), (place, value)


def test_every_truncation_deletion_insertion_and_repetition_is_refused() -> None:
    leaf = envelope.seal(b'{"index":0}', KEY)
    for place in range(len(leaf)):
        assert not accepted(leaf[:place])
        assert not accepted(leaf[:place] + leaf[place + 1 :])
        for extra in b' \n"A=0\x00\xff':
            assert not accepted(leaf[:place] + bytes([extra]) + leaf[place:])
    for tail in (b"\n", b" ", b"\0", leaf):
        assert not accepted(leaf + tail)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_with_one_error(data: bytes) -> None:
    with pytest.raises(VerificationError) as refusal:
        envelope.verify(data, ours)
    assert str(refusal.value).isascii()
    assert len(str(refusal.value)) < 200


@given(st.data())
def test_bytes_that_are_nearly_an_envelope_are_refused_with_one_error(data: st.DataObject) -> None:
    leaf = bytearray(envelope.seal(b'{"index":0}', KEY))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(leaf)))
        end = data.draw(st.integers(start, min(len(leaf), start + 5)))
        leaf[start:end] = data.draw(
            st.binary(max_size=5) | st.sampled_from([b'"', b'","sig":"', b"}]}", b"=", b"QR=="])
        )
    if leaf != envelope.seal(b'{"index":0}', KEY):
        with pytest.raises(VerificationError):
            envelope.verify(bytes(leaf), ours)


@pytest.mark.parametrize("signer", [OTHER_KEY, OTHER_LEDGER])
def test_another_key_or_ledger_is_refused(signer: SigningKey) -> None:
    leaf = envelope.seal(b"{}", signer)
    with pytest.raises(VerificationError, match="not in force"):
        envelope.verify(leaf, ours)
    with pytest.raises(VerificationError, match="signed under the key id"):
        envelope.verify(leaf, lambda key_id: KEY.public)


def test_the_key_is_asked_for_by_the_id_in_the_envelope() -> None:
    asked: list[str] = []

    def key_of(key_id: str) -> VerifyingKey:
        asked.append(key_id)
        return KEY.public

    envelope.verify(envelope.seal(b"{}", KEY), key_of)
    assert asked == [naive.key_id(naive.NAME, naive.public(naive.SEED)).hex()]


def test_a_checkpoints_signature_is_no_envelopes_signature() -> None:
    """One key signs both: a head's text cannot be passed off as a payload, nor the other way round."""
    text = naive.head(3, bytes(32))
    leaf = naive.envelope(text.encode(), sig=naive.b64(naive.sign(naive.SEED, text.encode())))
    assert not accepted(leaf.encode())
    assert not naive.pae(b"").startswith(text[:1].encode())


def test_the_payload_is_not_read() -> None:
    assert envelope.verify(envelope.seal(b"\xff not JSON", KEY), ours) == b"\xff not JSON"


def longest_payload() -> int:
    return (envelope.MAX_BYTES - len(envelope.seal(b"", KEY))) // 4 * 3


def test_an_envelope_has_at_most_65535_bytes() -> None:
    length = longest_payload()
    leaf = envelope.seal(bytes(length), KEY)
    assert 65_535 - 4 < len(leaf) <= 65_535
    assert envelope.verify(leaf, ours) == bytes(length)
    with pytest.raises(ParameterError, match="enter a digest"):
        envelope.seal(bytes(length + 1), KEY)
    with pytest.raises(VerificationError, match="at most 65535"):
        envelope.verify(naive.envelope(bytes(length + 1)).encode(), ours)


@pytest.mark.parametrize(
    ("key_id", "signature"), [("ABCDEF01", bytes(64)), ("1234567", bytes(64)), ("12345678", bytes(63)), ("", bytes(64))]
)
def test_a_malformed_envelope_is_not_written(key_id: str, signature: bytes) -> None:
    with pytest.raises(ParameterError):
        envelope.encode(envelope.Envelope(b"{}", key_id, signature))
