"""Policy files: C2SP's grammar as far as a ledger without witnesses needs it; the rest is refused, not skipped."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import naive_signing as naive
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import policy
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.signed.policy import Policy

TEXT = naive.vkey(naive.NAME, naive.public(naive.SEED))
OTHER_TEXT = naive.vkey(naive.OTHER_NAME, naive.public(naive.OTHER_SEED))
KEY, OTHER_KEY = VerifyingKey.parse(TEXT), VerifyingKey.parse(OTHER_TEXT)


def test_a_policy_file_is_read_back() -> None:
    both = Policy((KEY, OTHER_KEY))
    assert policy.encode(both).decode() == f"log {TEXT}\nlog {OTHER_TEXT}\nquorum none\n"
    assert policy.parse(policy.encode(both)) == both


def test_space_comments_and_addresses_are_read_as_c2sp_says() -> None:
    text = f"# who is trusted: caf\u00e9\n\n \t# more\n\tquorum \t none \n  log {TEXT}\thttps://example.org/log \n"
    assert policy.parse(text.encode()) == Policy((KEY,))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without its end"),
        ("quorum none\n", "0 logs"),
        (f"log {TEXT}\n", "0 quorum lines"),
        (f"log {TEXT}\nquorum none\nquorum none\n", "2 quorum lines"),
        (f"log {TEXT}\nquorum none", "without its end"),
        (f"log {TEXT}\nquorum w\n", "line 2.*a quorum line"),
        (f"log {TEXT}\nwitness w {OTHER_TEXT}\nquorum none\n", "a witness line"),
        (f"log {TEXT}\ngroup g any w\nquorum none\n", "a group line"),
        (f"log {TEXT}\nquorum\n", "a quorum line"),
        (f"log {TEXT} address more\nquorum none\n", "line 1.*another line"),
        ("log\nquorum none\n", "another line"),
        (f"Log {TEXT}\nquorum none\n", "another line"),
        ("\nlog nonsense\nquorum none\n", "policy line 2.*<name>"),
        (f"log {TEXT}\nlog {TEXT}\nquorum none\n", "each public key once"),
        (f"log {TEXT}\r\nquorum none\r\n", "a control character"),
        (f"log {TEXT}\x0b\nquorum none\n", "a control character"),
        (f"log\u00a0{TEXT}\nquorum none\n", "another line"),
        ("#" * 70_000 + "\n", "at most 65536 bytes"),
    ],
)
def test_what_is_no_policy_without_witnesses_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        policy.parse(text.encode())


def test_one_public_key_under_two_names_is_one_key() -> None:
    twin = VerifyingKey(naive.OTHER_NAME, KEY.public)
    with pytest.raises(ParameterError, match="each public key once"):
        Policy((KEY, twin))


def test_the_key_is_found_by_the_name_of_the_ledger() -> None:
    trusted = Policy((KEY,))
    assert trusted.key_of(naive.NAME) == KEY
    with pytest.raises(VerificationError, match="0 keys"):
        trusted.key_of(naive.OTHER_NAME)
    rotated = Policy((KEY, VerifyingKey(naive.NAME, OTHER_KEY.public)))
    with pytest.raises(VerificationError, match="2 keys"):
        rotated.key_of(naive.NAME)


WORDS = st.sampled_from(["log", "quorum", "none", "witness", TEXT, " ", "\t", "\n", "#", "x"])


@given(st.binary(max_size=60) | st.lists(WORDS, max_size=12).map(lambda words: "".join(words).encode()))
def test_arbitrary_bytes_are_refused_with_one_error_or_read(data: bytes) -> None:
    try:
        read = policy.parse(data)
    except ParameterError:
        return
    assert policy.parse(policy.encode(read)) == read
