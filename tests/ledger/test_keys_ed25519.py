"""Keys: their text forms, key files that only the owner reads, and the points on which verifiers disagree."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings, strategies as st

import naive_signing as naive
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import keys, wire
from dpledger.ledger.signed.keys import SigningKey, VerifyingKey, new_ledger_id

KEY = SigningKey.from_seed(naive.NAME, naive.SEED)
SEEDS = st.binary(min_size=32, max_size=32)


@given(SEEDS, st.binary(max_size=100))
def test_what_is_signed_verifies_and_nothing_else(seed: bytes, message: bytes) -> None:
    key = SigningKey.from_seed(naive.NAME, seed)
    signature = key.sign(message)
    assert signature == naive.sign(seed, message)
    key.public.verify(signature, message)
    with pytest.raises(VerificationError):
        key.public.verify(signature, message + b"x")
    with pytest.raises(VerificationError, match="64 bytes"):
        key.public.verify(signature[:-1], message)


@given(SEEDS)
def test_text_forms_have_inverses(seed: bytes) -> None:
    key = SigningKey.from_seed(naive.NAME, seed)
    assert key.public.text == naive.vkey(naive.NAME, naive.public(seed))
    assert VerifyingKey.parse(key.public.text) == key.public
    assert SigningKey.from_text(key.to_text()).public == key.public
    assert key.to_text() == "PRIVATE+KEY+" + naive.vkey(naive.NAME, naive.public(seed)).rsplit(
        "+" + naive.b64(b"\x01" + naive.public(seed)), 1
    )[0] + "+" + naive.b64(b"\x01" + seed)


def test_the_signing_key_that_go_gives_as_an_example_has_our_form() -> None:
    """Of golang.org/x/mod/sumdb/note. Its name is no ledger id, so the key is named anew: its seed is compared."""
    seed_and_type = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
    seed = wire.from_base64(seed_and_type, "example")[1:]
    public = VerifyingKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert SigningKey.from_seed(naive.NAME, seed).public.public == public.public
    assert SigningKey.from_seed(naive.NAME, seed).to_text().endswith(f"+{seed_and_type}")


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([naive.NAME, "+", "336e37ae", "AQ", "=", "PRIVATE+KEY+", "a"]), max_size=7).map("".join)
)
def test_arbitrary_text_is_no_key(text: str) -> None:
    for parse in (VerifyingKey.parse, SigningKey.from_text):
        with pytest.raises(ParameterError) as refusal:
            parse(text)
        assert len(str(refusal.value)) < 500


def test_every_change_of_one_character_of_a_verifying_key_is_refused() -> None:
    text = KEY.public.text
    for place in range(len(text)):
        for value in map(chr, range(128)):
            if value != text[place]:
                with pytest.raises(ParameterError):
                    VerifyingKey.parse(text[:place] + value + text[place + 1 :])


# Points on which verifiers disagree


@pytest.mark.parametrize("point", naive.SMALL_ORDER.values(), ids=naive.SMALL_ORDER.keys())
def test_a_key_of_small_order_is_refused(point: bytes) -> None:
    with pytest.raises(ParameterError, match="small order"):
        VerifyingKey(naive.NAME, point)


def test_the_points_of_order_8_solve_their_equation() -> None:
    d = -121665 * pow(121666, -1, naive.PRIME)
    t = pow(int.from_bytes(bytes.fromhex(naive.ORDER_8), "little"), 2, naive.PRIME)
    assert (d * t * t + 2 * t - 1) % naive.PRIME == 0


@pytest.mark.parametrize("above", range(19))
@pytest.mark.parametrize("sign", [0, 2**255])
def test_every_non_canonical_encoding_is_refused(above: int, sign: int) -> None:
    with pytest.raises(ParameterError, match="non-canonical"):
        VerifyingKey(naive.NAME, (naive.PRIME + above + sign).to_bytes(32, "little"))


def test_half_of_all_encodings_are_no_points_and_are_refused() -> None:
    refused = 0
    for y in range(2, 202):
        on_curve = is_on_curve(y)
        try:
            VerifyingKey(naive.NAME, y.to_bytes(32, "little"))
        except ParameterError:
            refused += 1
            assert not on_curve
        else:
            assert on_curve
    assert 60 < refused < 140


def is_on_curve(y: int) -> bool:
    """Whether -x^2 + y^2 = 1 + d x^2 y^2 has a solution, found by taking the root (RFC 8032 section 5.1.3)."""
    p = naive.PRIME
    d = -121665 * pow(121666, -1, p) % p
    square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
    root = pow(square, (p + 3) // 8, p)
    return (root * root - square) % p == 0 or (root * root + square) % p == 0


def signature_with_point(point: bytes, message: bytes) -> bytes:
    """A signature by KEY whose R is `point` of small order, and that satisfies the equation if R is the identity."""
    digest = hashlib.sha512(naive.SEED).digest()
    scalar = (int.from_bytes(digest[:32], "little") & (2**254 - 8)) | 2**254
    challenge = int.from_bytes(hashlib.sha512(point + naive.public(naive.SEED) + message).digest(), "little")
    return point + (challenge * scalar % naive.ORDER).to_bytes(32, "little")


def test_a_signature_whose_point_is_the_identity_is_refused_although_the_library_takes_it() -> None:
    signature = signature_with_point((1).to_bytes(32, "little"), b"message")
    Ed25519PublicKey.from_public_bytes(naive.public(naive.SEED)).verify(signature, b"message")
    with pytest.raises(VerificationError, match="small order"):
        KEY.public.verify(signature, b"message")


@pytest.mark.parametrize("point", naive.SMALL_ORDER.values(), ids=naive.SMALL_ORDER.keys())
def test_no_signature_has_a_point_of_small_order(point: bytes) -> None:
    with pytest.raises(VerificationError, match="small order"):
        KEY.public.verify(signature_with_point(point, b"message"), b"message")


def test_a_signature_has_one_scalar() -> None:
    signature = KEY.sign(b"message")
    larger = int.from_bytes(signature[32:], "little") + naive.ORDER
    with pytest.raises(VerificationError, match="not made by the key"):
        KEY.public.verify(signature[:32] + larger.to_bytes(32, "little"), b"message")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\n", "caf\u00e9", "a\u2003b", "x" * 256, 7])
def test_a_name_that_no_note_can_carry_is_refused(name: Any) -> None:
    with pytest.raises(ParameterError, match="key name"):
        VerifyingKey(name, naive.public(naive.SEED))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), "x" * 32, bytearray(32)])
def test_a_public_key_has_32_bytes(public: Any) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        VerifyingKey(naive.NAME, public)


# Key files


def test_a_key_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.key"
    key = SigningKey.generate(naive.NAME)
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SigningKey.load(path).public == key.public
    assert SigningKey.load(path).sign(b"m") == key.sign(b"m")


def test_a_key_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        KEY.save(tmp_path / "ledger.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ledger.key").stat().st_mode) == 0o600


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.key"
    KEY.save(path)
    before = path.read_bytes()
    with pytest.raises(ParameterError, match="nothing exists yet"):
        SigningKey.generate(naive.NAME).save(path)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ParameterError):
        KEY.save(tmp_path / "link")
    assert path.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o601, 0o666, 0o644, 0o440])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "ledger.key"
    KEY.save(path)
    path.chmod(mode)
    with pytest.raises(ParameterError, match=f"with mode {mode:04o}"):
        SigningKey.load(path)
    path.chmod(0o400)
    assert SigningKey.load(path).public == KEY.public


def lowest_free_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_what_is_no_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="No such file"):
        SigningKey.load(tmp_path / "missing")
    free_before = lowest_free_descriptor()
    with pytest.raises(ParameterError, match="regular file"):
        SigningKey.load(tmp_path)
    assert lowest_free_descriptor() == free_before
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ParameterError, match="regular file"):
        SigningKey.load(tmp_path / "pipe")
    with pytest.raises(ParameterError, match="key file"):
        KEY.save(tmp_path / "no" / "such" / "folder.key")


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xff", b"x" * 5000, b"PRIVATE+KEY+", b"LOCKED+KEY+a+00000000+AQ=="], ids=range(6)
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.key"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(ParameterError):
        SigningKey.load(path)


@pytest.mark.parametrize(
    ("ends", "told"),
    [(OSError(28, "No space left on device"), ParameterError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_half_written_key_file_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, told: type[BaseException]
) -> None:
    def stopped(descriptor: int) -> None:
        raise ends

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(told, match=r"No space left|^$"):
        KEY.save(tmp_path / "ledger.key")
    assert not (tmp_path / "ledger.key").exists()


def test_a_key_is_locked_with_a_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "ledger.key"
    KEY.save(path, passphrase="correct horse \u00e9")
    assert naive.b64(b"\x01" + naive.SEED)[4:40] not in path.read_text()
    assert SigningKey.load(path, passphrase="correct horse \u00e9").public == KEY.public
    with pytest.raises(ParameterError, match="passphrase"):
        SigningKey.load(path)
    with pytest.raises(ParameterError, match="passphrase"):
        SigningKey.load(path, passphrase="another")


def test_a_locked_key_is_bound_to_its_name_and_every_byte() -> None:
    text = KEY.to_text(passphrase="p")
    tampered = text.replace(naive.NAME, naive.OTHER_NAME), text[:-8] + ("A" if text[-8] != "A" else "B") + text[-7:]
    for other in tampered:
        with pytest.raises(ParameterError):
            SigningKey.from_text(other, passphrase="p")
    assert SigningKey.from_text(text, passphrase="p").public == KEY.public


@pytest.mark.parametrize("passphrase", ["", 7, "\ud800"])
def test_a_passphrase_is_text_that_is_not_empty(passphrase: Any) -> None:
    with pytest.raises(ParameterError, match="passphrase"):
        KEY.to_text(passphrase=passphrase)


def test_a_passphrase_for_an_open_key_is_refused() -> None:
    with pytest.raises(ParameterError, match="not locked"):
        SigningKey.from_text(KEY.to_text(), passphrase="p")


def test_the_name_the_id_and_the_seed_belong_together() -> None:
    text = KEY.to_text()
    other = SigningKey.from_seed(naive.NAME, naive.OTHER_SEED).to_text()
    for forged in (text.replace(naive.NAME, naive.OTHER_NAME), text[:-44] + other[-44:]):
        with pytest.raises(ParameterError, match="the key id"):
            SigningKey.from_text(forged)


def test_a_key_comes_from_the_environment() -> None:
    found = SigningKey.from_environment({"DPLEDGER_KEY": KEY.to_text()})
    assert found is not None
    assert found.public == KEY.public
    assert SigningKey.from_environment({}) is None
    with pytest.raises(ParameterError):
        SigningKey.from_environment({"DPLEDGER_KEY": ""})


# What must not leak


def test_a_key_shows_its_public_half_only() -> None:
    secrets = [naive.SEED.hex(), naive.b64(naive.SEED), naive.b64(b"\x01" + naive.SEED), repr(naive.SEED)]
    assert not any(secret in shown for secret in secrets for shown in (repr(KEY), str(KEY), f"{KEY}"))
    assert KEY.public.key_id_hex in repr(KEY)


@settings(max_examples=30)
@given(st.integers(0, 120))
def test_no_error_repeats_a_secret(place: int) -> None:
    text = KEY.to_text()
    place %= len(text)
    broken = text[:place] + "!" + text[place + 1 :]
    with pytest.raises(ParameterError) as refusal:
        SigningKey.from_text(broken)
    assert text[-40:-10] not in str(refusal.value) + refusal.value.value


def test_a_signing_key_does_not_pickle() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(KEY)


def test_a_verifying_key_travels_to_workers() -> None:
    assert pickle.loads(pickle.dumps(KEY.public)) == KEY.public == copy.copy(KEY.public)


# Names


@given(st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,20}[./])?[a-z0-9_-]{1,20}", fullmatch=True))
def test_a_new_ledger_id_has_its_form_and_is_new(label: str) -> None:
    first, second = new_ledger_id(label), new_ledger_id(label)
    assert first.startswith(f"{label}/")
    assert first != second
    assert wire.check_ledger_id(first, "ledger") == first
    assert not Path(first).is_absolute()
    assert ".." not in Path(first).parts


@pytest.mark.parametrize("label", ["", "Clinic", "a b", "/a", "a/../b", "a//b", "a/", "x" * 96, "a\n", "\u00e9", None])
def test_a_bad_label_is_refused(label: Any) -> None:
    with pytest.raises(ParameterError):
        new_ledger_id(label)


@pytest.mark.parametrize("name", ["clinic", "PeterNeumann", naive.NAME + "\n"])
def test_a_signing_key_is_named_after_a_ledger(name: str) -> None:
    with pytest.raises(ParameterError, match="a ledger id"):
        SigningKey.generate(name)


@pytest.mark.parametrize("seed", [b"", bytes(31), "x" * 32])
def test_a_seed_has_32_bytes(seed: Any) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        SigningKey.from_seed(naive.NAME, seed)


def test_the_environment_variable_has_its_name() -> None:
    assert keys.ENVIRONMENT_KEY == "DPLEDGER_KEY"
