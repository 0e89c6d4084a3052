"""A proof of one entry shows that entry to whoever has the key, and nothing that was changed passes; the verifier in
JavaScript says the same."""

from __future__ import annotations

import base64
import re
from importlib.resources import files

import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
import ledger_golden
import ledger_vectors
import merkle_oracle
from dpledger.errors import VerificationError
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying import bundle, proof
from javascript_verifier import data, judged
from ledger_forger import signed_head

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY
LEAVES = tuple(bundle.read(ledger_golden.DATA)[0])
HEAD = bundle.read(ledger_golden.DATA)[1]
INDEX = 5
PROOF = proof.prove(LEAVES, HEAD, INDEX)
OTHER_KEY = SigningKey.from_seed(KEY.public.name, bytes(32))


def accepted(content: bytes, key: SigningKey = KEY) -> bool:
    """Whether it holds. Any other exception than a VerificationError fails the test."""
    try:
        proof.verify(content, key.public)
    except VerificationError:
        return False
    return True


def both_say(contents: list[bytes], key: SigningKey = KEY) -> list[bool]:
    """What Python and JavaScript say of each, which is the same."""
    told = [accepted(content, key) for content in contents]
    cases = [{"judge": "proof", "data": data(content), "key": key.public.text} for content in contents]
    verdicts = judged(cases)
    assert [verdict.accepted for verdict in verdicts] == told
    return told


def test_every_entry_of_every_prefix_is_shown_by_the_path_of_the_standard() -> None:
    many = (LEAVES * 2)[:40]  # a leaf at a place that is not its own has a path as well
    contents, expected = [], []
    for size in range(1, 41):
        leaves = many[:size]
        head = signed_head(leaves, KEY)
        for index in range(size):
            content = proof.prove(iter(leaves), head, index)
            lines = content.partition(b"\n\n")[0].decode().split("\n")
            assert [base64.b64decode(line) for line in lines[3:]] == merkle_oracle.path(index, list(leaves))
            contents.append(content)
            expected.append(index < len(LEAVES))  # else it says that it is another entry
    assert both_say(contents) == expected


def test_every_entry_is_shown_as_it_is_in_the_ledger() -> None:
    found = [proof.verify(proof.prove(LEAVES, HEAD, index), KEY.public) for index in range(len(LEAVES))]
    whole = bundle.verify(ledger_golden.DATA, KEY.public)
    assert tuple(one.entry for one in found) == whole.entries
    assert {one.head for one in found} == {whole.head}


def test_every_flipped_byte_and_every_truncation_is_refused_by_both() -> None:
    flips = [
        PROOF[:place] + bytes([PROOF[place] ^ (1 << bit)]) + PROOF[place + 1 :]
        for place in range(len(PROOF))
        for bit in (place % 8, 5)
    ]
    cuts = [PROOF[:size] for size in range(len(PROOF))]
    told = both_say([PROOF, *flips, *cuts])
    assert told[0]
    assert not any(told[1:])


def test_what_is_put_together_from_several_ledgers_or_spelled_otherwise_is_refused_by_both() -> None:
    text, _, head = PROOF.partition(b"\n\n")
    lines = text.split(b"\n")
    other = proof.prove(LEAVES, HEAD, INDEX + 1).partition(b"\n\n")[0].split(b"\n")
    shorter = signed_head(LEAVES[:-1], KEY)
    bad = {
        "another head of the ledger": text + b"\n\n" + shorter,
        "another entry": b"\n".join([lines[0], other[1], *lines[2:]]) + b"\n\n" + head,
        "another index": b"\n".join([*lines[:2], b"index 6", *lines[3:]]) + b"\n\n" + head,
        "the path of another": b"\n".join([*lines[:3], *other[3:]]) + b"\n\n" + head,
        "a hash too few": b"\n".join(lines[:-1]) + b"\n\n" + head,
        "a hash too many": b"\n".join([*lines, lines[-1]]) + b"\n\n" + head,
        "a longer hash": b"\n".join([*lines[:-1], base64.b64encode(bytes(33))]) + b"\n\n" + head,
        "no entry": b"\n".join([lines[0], *lines[2:]]) + b"\n\n" + head,
        "no index": b"\n".join([*lines[:2], *lines[3:]]) + b"\n\n" + head,
        "a leading zero": PROOF.replace(b"index 5", b"index 05"),
        "a sign": PROOF.replace(b"index 5", b"index +5"),
        "an index beyond the tree": PROOF.replace(b"index 5", b"index 9007199254740993"),
        "another version": PROOF.replace(b"@v1", b"@v2"),
        "carriage returns": PROOF.replace(b"\n", b"\r\n"),
        "something after it": PROOF + b"\n",
        "nothing": b"",
        "too large": PROOF + b"\n" * proof.MAX_BYTES,
        "no head": text + b"\n\n",
    }
    told = both_say(list(bad.values()))
    assert [name for name, passes in zip(bad, told, strict=True) if passes] == []


def test_another_key_and_another_ledger_are_refused_by_both() -> None:
    elsewhere = ledger_golden.KINDS_KEY
    assert both_say([PROOF], OTHER_KEY) == [False]
    assert both_say([PROOF], elsewhere) == [False]
    smuggled = proof.prove(LEAVES, signed_head(LEAVES, elsewhere), INDEX)  # its entries under the head of another
    assert both_say([smuggled], elsewhere) == [False]
    assert not accepted(smuggled)


@given(content=st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: PROOF[:120] + tail))
def test_what_is_no_proof_is_refused_and_nothing_else_happens(content: bytes) -> None:
    assert not accepted(content)


def test_leaves_that_are_not_those_of_the_head_give_no_proof() -> None:
    with pytest.raises(VerificationError, match="another root"):
        proof.prove(LEAVES[:-1], HEAD, INDEX)
    for index in (-1, len(LEAVES), True, 1.0):
        with pytest.raises(dpl.errors.ParameterError, match="index"):
            proof.prove(LEAVES, HEAD, index)  # type: ignore[arg-type]


def test_a_ledger_proves_each_of_its_entries_as_it_grows() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        for _ in range(3):
            scope.release(dpl.Laplace(sensitivity=1, epsilon="0.25"), 10)
            for index, entry in enumerate(book.entries()):
                found = proof.verify(book.prove(index), book.public_key)
                assert (found.entry, found.head.size) == (entry, len(book))


def test_the_example_of_the_specification_is_one() -> None:
    spec = files("dpledger.ledger").joinpath("SPEC.md").read_text("utf-8")
    (example,) = re.findall(r"```text\n(c2sp\.org/tlog-proof@v1\n.*?)```", spec, re.DOTALL)
    assert both_say([example.encode()]) == [True]
    found = proof.verify(example.encode(), KEY.public)
    assert (found.entry.index, found.entry.body.kind, found.head.size) == (1, "heartbeat", 2)
    leaf, head = (ledger_vectors.load(name)["vectors"][0]["text"] for name in ("envelope", "checkpoint"))
    assert base64.b64encode(leaf.encode()).decode() in example
    assert example.endswith(head)
