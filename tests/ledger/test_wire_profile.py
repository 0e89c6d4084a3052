"""Laws of the byte profile: one value, one text; RFC 8785's bytes; no float; nothing but the declared errors."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections import OrderedDict
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import assume, given, settings, strategies as st

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.signed import wire
from dpledger.schema import Plain

pytestmark = pytest.mark.sliced

KEYS = st.builds(str.__add__, st.sampled_from("abz"), st.text("az09_", max_size=4))
HIDDEN = [*range(10), *range(11, 32), *range(0x7F, 0xA0), *range(0x200B, 0x2010), *range(0x2028, 0x2030)]
HIDDEN += [*range(0x2060, 0x2070), 0xFEFF, 0xAD, 0x61C, 0x180E, *range(0xE0000, 0xE0080)]
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters=[chr(point) for point in HIDDEN])
TEXTS = st.text(CHARACTERS, max_size=40)
LEAVES = st.one_of(TEXTS, st.booleans(), st.integers(1 - 2**53, 2**53 - 1))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
PAYLOADS: st.SearchStrategy[Any] = st.dictionaries(KEYS, VALUES, max_size=4)


@given(PAYLOADS)
def test_the_bytes_are_those_of_rfc_8785(payload: dict[str, Plain]) -> None:
    assert wire.dump(payload) == rfc8785.dumps(payload)


@given(PAYLOADS)
def test_parse_undoes_dump(payload: dict[str, Plain]) -> None:
    again = wire.parse(wire.dump(payload))
    assert again == payload
    assert json.dumps(again, sort_keys=True) == json.dumps(payload, sort_keys=True)  # True is not 1 there


@given(PAYLOADS, st.randoms())
def test_the_order_in_which_keys_were_set_does_not_matter(payload: dict[str, Plain], random: Any) -> None:
    shuffled = list(payload.items())
    random.shuffle(shuffled)
    assert wire.dump(dict(shuffled)) == wire.dump(payload)


@given(PAYLOADS, st.data())
def test_any_other_text_of_the_value_is_refused(payload: dict[str, Plain], data: st.DataObject) -> None:
    separators = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (",", ": ")]))
    ascii_only, indent = data.draw(st.booleans()), data.draw(st.sampled_from([None, 1]))
    other = json.dumps(payload, separators=separators, ensure_ascii=ascii_only, indent=indent).encode()
    assume(other != wire.dump(payload))
    with pytest.raises(VerificationError, match="not in its one form at byte"):
        wire.parse(other)


@given(st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_arbitrary_bytes_are_refused_or_in_their_one_form(data: bytes) -> None:
    try:
        value = wire.parse(data)
    except VerificationError:
        return
    assert wire.dump(value) == data


@given(PAYLOADS, st.data())
def test_a_changed_byte_never_parses_to_the_same_value(payload: dict[str, Plain], data: st.DataObject) -> None:
    original = wire.dump(payload)
    place = data.draw(st.integers(0, len(original) - 1))
    changed = original[:place] + bytes([original[place] ^ data.draw(st.integers(1, 255))]) + original[place + 1 :]
    try:
        value = wire.parse(changed)
    except VerificationError:
        return
    assert value != payload or json.dumps(value) != json.dumps(payload)
    assert wire.dump(value) == changed


JUNK = st.recursive(
    LEAVES | st.none() | st.floats() | st.decimals() | st.binary(max_size=3) | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | KEYS, inner, max_size=3) | st.tuples(inner)
    ),
)


@given(JUNK)
def test_dump_takes_the_profile_or_raises_one_error(value: Any) -> None:
    try:
        data = wire.dump(value)
    except ParameterError as error:
        refusal = str(error)
    else:
        assert wire.parse(data) == value
        return
    assert len(refusal) < 300


@given(PAYLOADS, st.floats(), st.data())
def test_no_float_is_ever_written_or_read(payload: dict[str, Any], number: float, data: st.DataObject) -> None:
    target: Any = payload
    while True:  # somewhere in the payload
        inner = [
            item for item in (target.values() if isinstance(target, dict) else target) if isinstance(item, (dict, list))
        ]
        if not inner or data.draw(st.booleans()):
            break
        target = data.draw(st.sampled_from(inner))
    if isinstance(target, dict):
        target["x"] = number
    else:
        target.append(number)
    with pytest.raises(ParameterError, match="got float"):
        wire.dump(payload)
    if math.isfinite(number):
        with pytest.raises(VerificationError):
            wire.parse(json.dumps(payload, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode())


class Number(IntEnum):
    ONE = 1


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (1.0, "float"),
        (float("nan"), "float"),
        (None, "null"),
        ((1,), "tuple"),
        (Decimal(1), "Decimal"),
        (b"x", "bytes"),
        (Number.ONE, "Number"),
        (Word("x"), "Word"),
        (OrderedDict(), "OrderedDict"),
        ({1}, "set"),
        (2**53, "a larger one"),
        (-(2**53), "a larger one"),
        ("\ud800", r"U\+D800 at character 0"),
        ("x" * 4097, "4097 characters"),
        ({1: "x"}, "the key int"),
        ({Word("x"): 1}, "the key"),
    ],
)
def test_what_has_no_place_in_a_payload(value: Any, got: str) -> None:
    with pytest.raises(ParameterError, match=got) as refusal:
        wire.dump({"a": [{"b": value}]})
    assert refusal.value.field == "payload.a[0].b"


@pytest.mark.parametrize("top", [[], "x", 1, None, True])
def test_only_an_object_stands_at_the_top(top: Any) -> None:
    with pytest.raises(ParameterError, match="an object"):
        wire.dump(top)


def nested(depth: int) -> Any:
    value: Any = {}
    for level in range(depth - 1):
        value = {"a": value} if level % 2 else [value]
    return {"a": value} if isinstance(value, list) else value


def test_nesting_ends_at_32_levels_on_both_sides() -> None:
    deepest = nested(31)
    assert wire.parse(wire.dump(deepest)) == deepest
    too_deep: Any = {"a": {"a": deepest}}
    with pytest.raises(ParameterError, match="32 levels"):
        wire.dump(too_deep)
    with pytest.raises(VerificationError, match="32 levels"):
        wire.parse(rfc8785.dumps(too_deep))
    endless: Any = {}
    endless["a"] = endless
    with pytest.raises(ParameterError, match="32 levels"):
        wire.dump(endless)


@pytest.mark.parametrize("depth", [100, 254, 255, 256, 1_023, 1_024, 1_025, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_no_depth_breaks_the_parser(depth: int, opening: bytes, closing: bytes) -> None:
    with pytest.raises(VerificationError):
        wire.parse(b'{"a":' + opening * depth + b"1" + closing * depth + b"}")


def test_reading_takes_memory_in_proportion_to_the_bytes() -> None:
    data = b'{"a":[' + b",".join([b"{}"] * 20_000) + b"]}"
    tracemalloc.start()
    wire.parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * len(data)


def test_every_character_is_allowed_or_refused_as_listed() -> None:
    refused = {*HIDDEN, *range(0xD800, 0xE000)}
    for point in range(0x110000):
        if point in refused:
            with pytest.raises(ParameterError, match=f"U\\+{point:04X} at character 1"):
                wire.check_text("x" + chr(point), "note")
        else:
            assert wire.check_text("x" + chr(point), "note")


@given(st.text(max_size=60), st.sampled_from([wire.check_id, wire.check_ledger_id, wire.check_digest, wire.check_time]))
def test_checks_of_fields_return_their_text_or_raise_one_error(text: str, check: Any) -> None:
    try:
        checked = check(text, "field")
    except ParameterError as error:
        refusal = str(error)
    else:
        assert checked == text
        return
    assert refusal.startswith("field: expected ")
    assert refusal.replace("\u2026", "").isascii()
    assert len(refusal) < 300


@pytest.mark.parametrize(
    "check", [wire.check_text, wire.check_id, wire.check_ledger_id, wire.check_digest, wire.check_time]
)
@pytest.mark.parametrize("value", [None, 1, b"a", ["a"], Word("a")])
def test_checks_of_fields_take_text_only(check: Any, value: Any) -> None:
    with pytest.raises(ParameterError, match="expected text"):
        check(value, "field")


def test_a_digest_is_64_digits_in_lower_case() -> None:
    assert wire.check_digest("0f" * 32, "previous") == "0f" * 32
    for other in ["", "0F" * 32, "0f" * 31, "0f" * 33, "0g" * 32, "0f" * 32 + "\n"]:
        with pytest.raises(ParameterError, match="64 hexadecimal"):
            wire.check_digest(other, "previous")


@given(st.decimals(min_value=0, max_value=10**18 - 1, places=60, allow_nan=False))
def test_a_number_has_one_text(number: Decimal) -> None:
    whole, _, fraction = format(number, "f").partition(".")
    text = f"{whole}.{fraction.rstrip('0')}".rstrip(".")
    assert wire.check_number(text, "epsilon") == number
    for other in [f"0{text}", f"+{text}", f" {text}", f"{text}\n", f"{text}e0"]:
        with pytest.raises(ParameterError):
            wire.check_number(other, "epsilon")


@given(st.binary(max_size=100))
def test_base64_has_one_text(data: bytes) -> None:
    text = wire.to_base64(data)
    assert wire.from_base64(text, "sig") == data


@settings(max_examples=300)
@given(st.text(alphabet="AQgw09+/-_=\n ", max_size=9) | st.text(max_size=9))
def test_base64_is_refused_in_any_other_spelling(text: str) -> None:
    try:
        data = wire.from_base64(text, "sig")
    except ParameterError:
        return
    assert wire.to_base64(data) == text


def test_of_all_last_groups_only_those_without_spare_bits_are_base64() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    accepted = 0
    for first in alphabet:
        for second in alphabet:
            try:
                assert len(wire.from_base64(f"{first}{second}==", "sig")) == 1
            except ParameterError:
                continue
            accepted += 1
    assert accepted == 256
