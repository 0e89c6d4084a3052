"""Any payload at all under the real key: the verifier accepts it or names it, and raises nothing else."""

from __future__ import annotations

import copy
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import ledger_golden
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.entry import format_entry, parse_entry
from dpledger.ledger.signed import envelope, merkle, wire
from dpledger.ledger.verifying import bundle, verification
from dpledger.schema import Plain
from ledger_forger import signed_head

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY
LEAVES = list(bundle.read(ledger_golden.DATA)[0])
PAYLOADS = [wire.parse(envelope.parse_unverified(leaf).payload) for leaf in LEAVES]
NUMBERS = ["0", "1", "-1", "0.1", "inf", "NaN", "1e9", "999999999999999999"]
WORDS = st.sampled_from([*NUMBERS, "", "clinic", "ward-7", "pure", "repeated", "a" * 64])
SCALARS: st.SearchStrategy[Plain] = st.one_of(
    st.booleans(), st.integers(-2, 3), st.integers(-(2**53) + 1, 2**53 - 1), WORDS, st.text(max_size=5)
)
VALUES: st.SearchStrategy[Plain] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a payload."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(place for key, item in items for place in places(item, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn) -> tuple[int, Any]:
    """A golden payload in which something is missing, or something else stands in its place."""
    index = draw(st.integers(0, len(PAYLOADS) - 1))
    payload: Any = copy.deepcopy(PAYLOADS[index])
    *way, last = draw(st.sampled_from(places(payload)))
    holder = payload
    for step in way:
        holder = holder[step]
    match draw(st.sampled_from(["replace", "remove", "borrow"])):
        case "replace":
            holder[last] = draw(VALUES)
        case "remove":
            del holder[last]
        case _:
            other: Any = draw(st.sampled_from(PAYLOADS))
            for step in draw(st.sampled_from(places(other))):
                other = other[step]
            holder[last] = copy.deepcopy(other)
    return index, payload


@settings(max_examples=400, deadline=None)
@given(changed())
def test_a_changed_payload_is_one_entry_or_none(case: tuple[int, Any]) -> None:
    _, payload = case
    try:
        data = wire.dump(payload)
        entry = parse_entry(wire.parse(data))
    except (ParameterError, VerificationError):  # outside the profile it cannot be written, outside the kinds not read
        return
    assert wire.dump(format_entry(entry)) == data


@settings(max_examples=150, deadline=None)
@given(changed())
def test_a_changed_payload_under_the_real_key_is_accepted_or_named(case: tuple[int, Any]) -> None:
    index, payload = case
    try:
        leaves = relinked(index, payload)
    except ParameterError:
        return  # outside the profile: it cannot be written at all
    error = refusal(leaves)
    if error is not None:
        assert error.index is not None
        assert error.index >= index  # nothing before it was changed
        assert len(str(error)) < 1000


def refusal(leaves: list[bytes]) -> VerificationError | None:
    """What the verifier says against these leaves under a head of their own."""
    try:
        verification.verify(leaves, signed_head(leaves, KEY), KEY.public)
    except VerificationError as error:
        return error
    return None


def relinked(index: int, payload: dict[str, Plain]) -> list[bytes]:
    """The golden ledger with another payload at `index`, and each entry after it linked to the one before."""
    leaves = LEAVES[:index]
    for following in [payload, *PAYLOADS[index + 1 :]]:
        if leaves and following is not payload:
            following = {**following, "previous": merkle.leaf_hash(leaves[-1]).hex()}
        leaves = [*leaves, envelope.seal(wire.dump(following), KEY)]
    return leaves


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_any_bytes_in_a_bundle_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(VerificationError):
        verification.verify(bundle.lines(BytesIO(data)), (ledger_golden.DATA / "checkpoint").read_bytes(), KEY.public)


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_any_object_is_one_entry_or_none(value: Plain) -> None:
    payload: Any = value if isinstance(value, dict) else {"kind": value, "version": 1}
    with pytest.raises(VerificationError):
        parse_entry(payload)
