"""Vectors of payloads and of single fields."""

from __future__ import annotations

from typing import Any

from golden import Vector, bad, good
from naive_signing import NAME


def nested(depth: int) -> str:
    """An object with lists inside, `depth` levels in all."""
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def payload_vectors() -> dict[str, Any]:
    vectors = [*_accepted_payloads(), *_payloads_that_are_no_json(), *_payloads_outside_the_profile()]
    return {"about": "payloads: the byte profile", "vectors": vectors}


def _accepted_payloads() -> list[Vector]:
    return [
        good("the empty object", "{}"),
        good("every kind of value", '{"a":{"b":[1,"x",true,false,[],{}]},"c":-1}'),
        good("keys in byte order, _ before letters, digits before _", '{"a":1,"a1":2,"a_":3,"aa":4,"b":5}'),
        good("the longest key", '{"%s":1}' % ("k" * 64)),
        good("the greatest and the least integer", '{"a":9007199254740991,"b":-9007199254740991}'),
        good("32 levels", nested(32)),
        good("the three escapes", '{"a":"\\"\\\\\\n"}'),
        good("text beyond ASCII and beyond the basic plane", '{"a":"d\u00e9j\u00e0 \u4e2d \U0001f600"}'),
        good("the longest text", '{"a":"%s"}' % ("x" * 4096)),
        good("the longest text of characters of 4 bytes", '{"a":"%s"}' % ("\U0001f600" * 4096)),
        good("a slash is not escaped", '{"a":"</script>"}'),
    ]


def _payloads_that_are_no_json() -> list[Vector]:
    return [
        bad("nothing", "", "not JSON at byte 0"),
        bad("a list at the top", "[]", "object at the top"),
        bad("text at the top", '"a"', "object at the top"),
        bad("cut off", '{"a":1', "not JSON at byte"),
        bad("two objects", "{}{}", "not JSON at byte 2"),
        bad("a byte order mark", b"\xef\xbb\xbf{}", "not JSON at byte 0"),
        bad("not UTF-8", b'{"a":"\xff"}', "not JSON at byte 6"),
        bad("an overlong encoding", b'{"a":"\xc0\xaf"}', "not JSON at byte 6"),
        bad("an encoded surrogate", b'{"a":"\xed\xa0\x80"}', "not JSON at byte 6"),
        bad("an escaped half of a pair", '{"a":"\\ud800"}', "not JSON at byte"),
        bad("NaN", '{"a":NaN}', "not JSON at byte 5"),
        bad("Infinity", '{"a":Infinity}', "not JSON at byte 5"),
        bad("a comment", '{"a":1/**/}', "not JSON at byte 6"),
        bad("a trailing comma", '{"a":1,}', "not JSON at byte"),
        bad("single quotes", "{'a':1}", "not JSON at byte 1"),
    ]


def _payloads_outside_the_profile() -> list[Vector]:
    kinds = "expected text, a whole number"
    form = "not in its one form"
    hidden = "without control, invisible"
    code_points = [0x7F, 0x85, 0x9F, 0x200B, 0x200E, 0x202E, 0x2028, 0x2066, 0x206F, 0xFEFF]
    code_points += [0xAD, 0x61C, 0x180E, 0xE0001]
    return [
        bad("null", '{"a":null}', f"payload.a: {kinds}"),
        bad("null in a list", '{"a":[1,null]}', f"payload.a[1]: {kinds}"),
        bad("a number with a point", '{"a":1.5}', f"payload.a: {kinds}"),
        bad("a whole number with a point", '{"a":100.0}', f"payload.a: {kinds}"),
        bad("an exponent", '{"a":1e3}', f"payload.a: {kinds}"),
        bad("negative zero with a point", '{"a":-0.0}', f"payload.a: {kinds}"),
        bad("negative zero", '{"a":-0}', f"{form} at byte 5"),
        bad("a leading zero", '{"a":01}', "not JSON at byte"),
        bad("a plus sign", '{"a":+1}', "not JSON at byte 5"),
        bad("2^53", '{"a":9007199254740992}', "payload.a: expected a whole number"),
        bad("-2^53", '{"a":-9007199254740992}', "payload.a: expected a whole number"),
        bad("2^64 - 1", '{"a":18446744073709551615}', "payload.a: expected"),
        bad("2^64", '{"a":18446744073709551616}', "payload.a: expected"),
        bad("an integer of 400 digits", '{"a":%s}' % ("9" * 400), "payload"),
        bad("an empty key", '{"":1}', "expected keys"),
        bad("a numeric key", '{"10":1,"9":2}', "expected keys"),
        bad("a key that begins with _", '{"__proto__":1}', "expected keys"),
        bad("a key with a capital letter", '{"aB":1}', "expected keys"),
        bad("a key beyond ASCII", '{"\u00e9":1}', "expected keys"),
        bad("a key with an escape", '{"\\u0061":1}', f"{form} at byte 2"),
        bad("a key of 65 characters", '{"%s":1}' % ("k" * 65), "expected keys"),
        bad("a bad key inside a list", '{"a":[{"A":1}]}', "payload.a[0]: expected keys"),
        bad("unsorted keys", '{"b":1,"a":2}', f"{form} at byte 2"),
        bad("a key twice, the same value", '{"a":1,"a":1}', f"{form} at byte 6"),
        bad("a key twice, another value", '{"a":1,"a":2}', f"{form} at byte 5"),
        bad("a space after a colon", '{"a": 1}', f"{form} at byte 5"),
        bad("a leading space", " {}", f"{form} at byte 0"),
        bad("a trailing line feed", "{}\n", f"{form} at byte 2"),
        bad("a spare escape of a letter", '{"a":"\\u0062"}', f"{form} at byte 6"),
        bad("an escaped slash", '{"a":"\\/"}', f"{form} at byte 6"),
        bad("a line feed as \\u000a", '{"a":"\\u000a"}', f"{form} at byte 7"),
        bad("text beyond ASCII as an escape", '{"a":"\\u00e9"}', f"{form} at byte 6"),
        bad("33 levels", nested(33), "at most 32 levels"),
        bad("300 levels", nested(300), "at most 32 levels"),
        bad("5,000 levels", nested(5000), "payload"),
        bad("text of 4,097 characters", '{"a":"%s"}' % ("x" * 4097), "at most 4096 characters"),
        bad("a tab", '{"a":"\\t"}', hidden),
        bad("a carriage return", '{"a":"\\r"}', hidden),
        bad("U+0000", '{"a":"\\u0000"}', hidden),
        bad("the escape character", '{"a":"\\u001b[31m"}', hidden),
        *(bad(f"U+{point:04X}", f'{{"a":"x{chr(point)}"}}', f"U+{point:04X} at character 1") for point in code_points),
    ]


def field_vectors() -> dict[str, Any]:
    id_error, ledger_error, time_error, number_error = (
        "1 to 128",
        "a ledger id",
        "a time like",
        "decimal in its one form",
    )
    random_bits = NAME[-32:]
    return {
        "about": "what single fields may hold: ids, ledger ids, times, decimal numbers",
        "ids": [
            good("one character", "a"),
            good("every character", "Az09._:/@-"),
            good("the longest", "a" * 128),
            bad("nothing", "", id_error),
            bad("too long", "a" * 129, id_error),
            *(bad(f"begins with {first}", f"{first}a", id_error) for first in "._:/@-"),
            bad("a space", "a b", id_error),
            bad("a line feed at the end", "a\n", id_error),
            bad("a letter beyond ASCII", "a\u00e9", id_error),
            bad("full-width digits", "\uff11", id_error),
            bad("a character of another direction", "a\u202e", id_error),
        ],
        "ledger_ids": [
            good("with a label", NAME),
            good("random bits alone", random_bits),
            good("the longest", "a" * 95 + "/" + random_bits),
            bad("nothing", "", ledger_error),
            bad("too long", "a" * 96 + "/" + random_bits, ledger_error),
            bad("too few random bits", f"clinic/{random_bits[1:]}", ledger_error),
            bad("capital letters in the random bits", f"clinic/{random_bits.upper()}", ledger_error),
            bad("capital letters in the label", f"Clinic/{random_bits}", ledger_error),
            bad("begins with a slash", f"/clinic/{random_bits}", ledger_error),
            bad("begins with a dot", f".clinic/{random_bits}", ledger_error),
            bad("a step up", f"a/../b/{random_bits}", ledger_error),
            bad("an empty step", f"a//{random_bits}", ledger_error),
            bad("a hidden step", f"a/.b/{random_bits}", ledger_error),
            bad("a plus sign", f"a+b/{random_bits}", ledger_error),
            bad("a space", f"a b/{random_bits}", ledger_error),
            bad("a line feed at the end", f"{NAME}\n", ledger_error),
        ],
        "times": [
            good("an ordinary one", "2026-11-21T20:15:00Z"),
            good("a leap day", "2024-02-29T23:59:59Z"),
            bad("nothing", "", time_error),
            bad("no leap day", "2026-02-29T00:00:00Z", time_error),
            bad("month 13", "2026-13-01T00:00:00Z", time_error),
            bad("hour 24", "2026-01-01T24:00:00Z", time_error),
            bad("a leap second", "2016-12-31T23:59:60Z", time_error),
            bad("the year 0", "0000-01-01T00:00:00Z", time_error),
            bad("another zone", "2026-01-01T00:00:00+00:00", time_error),
            bad("no zone", "2026-01-01T00:00:00", time_error),
            bad("a fraction", "2026-01-01T00:00:00.5Z", time_error),
            bad("a space for the T", "2026-01-01 00:00:00Z", time_error),
            bad("small letters", "2026-01-01t00:00:00z", time_error),
            bad("one digit too few", "2026-1-01T00:00:00Z", time_error),
            bad("a line feed at the end", "2026-01-01T00:00:00Z\n", time_error),
            bad("digits of another script", "\u0662\u0660\u0662\u0666-01-01T00:00:00Z", time_error),
        ],
        "numbers": [
            good("zero", "0"),
            good("a whole number", "3"),
            good("a fraction", "0.000001"),
            good("the most digits", "999999999999999999." + "9" * 60),
            good("a negative one, in a signed field", "-0.5", signed=True),
            good("infinity, in a field that says so", "inf", infinite=True),
            bad("nothing", "", number_error),
            bad("a negative one", "-0.5", number_error),
            bad("negative zero", "-0", number_error, signed=True),
            bad("infinity", "inf", number_error),
            bad("negative infinity", "-inf", number_error, signed=True, infinite=True),
            bad("Infinity spelled out", "Infinity", number_error, infinite=True),
            bad("not a number", "NaN", number_error, infinite=True),
            bad("a leading zero", "01", number_error),
            bad("no digit before the point", ".5", number_error),
            bad("no digit after the point", "1.", number_error),
            bad("a trailing zero", "0.10", number_error),
            bad("zero with a point", "0.0", number_error),
            bad("a plus sign", "+1", number_error),
            bad("an exponent", "1e-6", number_error),
            bad("a great exponent", "1E+999999999", number_error),
            bad("an underscore", "1_000", number_error),
            bad("spaces", " 1 ", number_error),
            bad("a line feed at the end", "1\n", number_error),
            bad("full-width digits", "\uff11", number_error),
            bad("a comma", "0,5", number_error),
            bad("19 digits", "1" * 19, number_error),
            bad("61 digits after the point", "0." + "1" * 61, number_error),
            bad("a thousand digits", "1" * 1_000, number_error),
        ],
    }
