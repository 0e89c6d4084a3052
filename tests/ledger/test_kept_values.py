"""A kept value answers the request that it was released for, in its ledger, and no other; else it is withheld."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import AlreadySpent, VerificationError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import envelope, values
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.signed.values import Origin
from dpledger.ledger.stores.memory import MemoryStore
from ledger_mechanisms import laplace

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": PureDP(5)}
OUTPUTS = {"k1": "the-output-4711", "k2": "the-output-4712"}
WITHHELD = "withheld"

ID = "example.org/clinic/000102030405060708090a0b0c0d0e0f"
KEY = SigningKey.from_seed(ID, bytes(32))
ORIGIN = Origin(ledger=ID, scope="s", key="k", request="ab" * 32, charge="cd" * 16, entry=7)
VALUE = b'["int","41"]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger with two values kept, for one mechanism under two keys, and one that was too large to keep."""
    with Ledger.create(tmp_path / "clinic.ledger") as book:
        scope = book.scope("s", **RULES)
        for key, output in OUTPUTS.items():
            scope.release(laplace(), output, key=key)
        scope.release(laplace(), object(), key="k3")
    return tmp_path / "clinic.ledger"


@pytest.fixture
def scope(path: Path) -> Iterator[Scope]:
    with Ledger.open(path) as book:
        yield book.scope("s")


def sql(scope: Scope, statement: str, *operands: object) -> list[Any]:
    """What somebody does who can write to the file and has no key."""
    store: Any = scope._ledger._store
    connection: sqlite3.Connection = store._connection
    return connection.execute(statement, operands).fetchall()


def charge_of(scope: Scope, key: str) -> str:
    ((charge,),) = sql(scope, "SELECT charge FROM charges WHERE key = ?", key)
    return str(charge)


def stored(scope: Scope, key: str) -> bytes:
    ((value,),) = sql(scope, "SELECT value FROM kept WHERE charge = ?", charge_of(scope, key))
    return bytes(value)


def ended(scope: Scope, key: str) -> int:
    ((index,),) = sql(scope, "SELECT ended FROM charges WHERE key = ?", key)
    return int(index)


def write(scope: Scope, key: str, value: bytes) -> None:
    sql(scope, "INSERT OR REPLACE INTO kept (charge, value) VALUES (?, ?)", charge_of(scope, key), value)


# ---- what is genuine ------------------------------------------------------------------------------------------------


def test_what_was_kept_is_answered_after_the_ledger_was_opened_again(scope: Scope) -> None:
    for key, output in OUTPUTS.items():
        receipt = scope.release(laplace(), "other data", key=key)
        assert receipt.value == output
        assert receipt.entry.index == ended(scope, key)
        assert isinstance(receipt.entry.body, Committed)
        assert receipt.entry.body.charge == charge_of(scope, key)


@pytest.mark.parametrize(
    "mechanism",
    [
        dpl.Count(epsilon="0.1"),
        dpl.ClippedMean(epsilon="0.1", lower=0, upper=90),
        dpl.Histogram(epsilon="0.1", edges=(0, 40, 90)),
        dpl.Laplace(sensitivity=1, epsilon="0.1", dimension=2),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_statistics_are_kept_as_they_were_released(mechanism: Any, path: Path) -> None:
    """A script with a mean in it runs twice: the second time it gets the first one's numbers, and pays nothing."""
    data = [30.0, 60.0]
    with Ledger.open(path) as book:
        first = book.scope("s").release(mechanism, data, key="mean")
        spent = book.scope("s").spent(delta=0)
    with Ledger.open(path) as book:
        again = book.scope("s").release(mechanism, [1.0, 2.0], key="mean")
        assert again.replayed
        assert np.array_equal(again.value, first.value)
        assert type(again.value) is type(first.value)
        assert book.scope("s").spent(delta=0) == spent


SAMPLE = dpl.LabeledSample([1, 2, 5, 6] * 40, [0, 0, 1, 1] * 40)
AGES = dpl.LabeledSample([{"age": age} for age in range(90)], [age >= 65 for age in range(90)])


@pytest.mark.parametrize(
    ("mechanism", "sample"),
    [
        (dpl.ExponentialPPACLearner(dpl.ThresholdClass(7), epsilon=1), SAMPLE),
        (dpl.PrivateStumpBooster(binning=dpl.Binning({"age": [18, 65]}, source="the form"), epsilon=1), AGES),
        (dpl.PrivateParityLearner(dimension=3, epsilon=1), SAMPLE),
    ],
    ids=lambda value: getattr(value, "kind", "sample"),
)
def test_learned_rules_are_kept_as_they_were_released(mechanism: Any, sample: Any, tmp_path: Path) -> None:
    path = tmp_path / "rules.ledger"
    with Ledger.create(path) as book:
        scope = book.scope("s", unit="record", relation="replace_one", budget=dpl.PureDP(5))
        found = [scope.release(mechanism, sample, key=f"rule-{number}").value for number in range(4)]
    with Ledger.open(path) as book:
        again = [book.scope("s").release(mechanism, sample, key=f"rule-{number}") for number in range(4)]
    assert all(receipt.replayed for receipt in again)
    assert [receipt.value for receipt in again] == found


def test_a_backup_answers_too(scope: Scope, path: Path, tmp_path: Path) -> None:
    book = scope._ledger
    assert isinstance(book, Ledger)
    book.backup(tmp_path / "copy.ledger")
    with Ledger.open(tmp_path / "copy.ledger", key=path.with_name("clinic.ledger.key")) as copy:
        assert copy.scope("s").release(laplace(), 0, key="k1").value == OUTPUTS["k1"]


def test_a_replayed_receipt_says_that_it_is_the_value_of_the_first_run(scope: Scope) -> None:
    """Nobody compares the data with those of the first run: whether one record differs would be a release itself."""
    first = scope.release(laplace(), "these data", key="k4")
    again = scope.release(laplace(), "other data", key="k4")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.value, again.entry) == ("these data", first.entry)


# ---- what somebody who can write to the file, and has no key, may try ------------------------------------------------

FORGED: dict[str, Callable[[Scope], None]] = {
    "another value without a signature": lambda scope: write(scope, "k1", values.kept("forged") or b""),
    "the genuine value without its signature": lambda scope: write(scope, "k1", stored(scope, "k1")[64:]),
    "another value behind the genuine signature": lambda scope: write(
        scope, "k1", stored(scope, "k1")[:64] + (values.kept("forged") or b"")
    ),
    "the value of another key of the same mechanism": lambda scope: write(scope, "k1", stored(scope, "k2")),
    "a signature that stands under an entry": lambda scope: write(scope, "k1", entry_as_a_value(scope)),
    "a signature of another key": lambda scope: write(
        scope, "k1", values.sealed(values.kept("forged") or b"", origin_of(scope, "k1"), KEY)
    ),
    "nothing": lambda scope: write(scope, "k1", b""),
    "a part": lambda scope: write(scope, "k1", stored(scope, "k1")[:-1]),
}


def entry_as_a_value(scope: Scope) -> bytes:
    found = envelope.parse_unverified(next(scope._ledger.leaves()))
    return found.signature + found.payload


def origin_of(scope: Scope, key: str) -> Origin:
    ((request,),) = sql(scope, "SELECT request FROM charges WHERE key = ?", key)
    return Origin(
        ledger=scope._ledger.id,
        scope="s",
        key=key,
        request=request,
        charge=charge_of(scope, key),
        entry=ended(scope, key),
    )


@pytest.mark.parametrize("name", FORGED)
def test_a_value_that_the_ledger_did_not_sign_is_withheld(scope: Scope, name: str) -> None:
    size, index = len(scope._ledger), ended(scope, "k1")
    FORGED[name](scope)
    with pytest.raises(VerificationError, match=WITHHELD) as seen:
        scope.release(laplace(), 0, key="k1")
    assert seen.value.index == index
    assert "forged" not in str(seen.value)
    assert "the-output" not in str(seen.value)
    assert len(scope._ledger) == size
    assert scope.release(laplace(), 0, key="k2").value == OUTPUTS["k2"]
    scope._ledger.verify()


def test_a_value_changed_while_the_ledger_was_closed_is_withheld(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kept SET value = ?", (values.kept(1),))
    connection.close()
    with Ledger.open(path) as book, pytest.raises(VerificationError, match=WITHHELD):
        book.scope("s").release(laplace(), 0, key="k1")


def test_a_value_that_was_never_kept_cannot_be_put_there(scope: Scope) -> None:
    with pytest.raises(AlreadySpent, match="not kept"):
        scope.release(laplace(), 0, key="k3")
    write(scope, "k3", stored(scope, "k1"))
    with pytest.raises(VerificationError, match=WITHHELD):
        scope.release(laplace(), 0, key="k3")


def test_the_value_of_another_ledger_is_withheld(scope: Scope, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "other.ledger") as book:
        other = book.scope("s", **RULES)
        other.release(laplace(), "of the other ledger", key="k1")
        foreign = stored(other, "k1")
    write(scope, "k1", foreign)
    with pytest.raises(VerificationError, match=WITHHELD):
        scope.release(laplace(), 0, key="k1")


def test_the_rows_of_two_keys_that_change_places_give_no_value_to_the_wrong_one(scope: Scope) -> None:
    """Opening compares the table of charges with the entries; this is what it holds while the ledger is open."""
    for old, new in (("k1", "k0"), ("k2", "k1"), ("k0", "k2")):
        sql(scope, "UPDATE charges SET key = ? WHERE key = ?", new, old)
    for key in OUTPUTS:
        with pytest.raises(VerificationError, match=WITHHELD):
            scope.release(laplace(), 0, key=key)


def test_a_value_does_not_answer_another_request(scope: Scope) -> None:
    """The row is made to say that the key stood for what is asked now."""
    wanted = laplace("0.2")
    other = scope.release(wanted, 0, key="other").entry.body
    assert isinstance(other, Committed)
    sql(scope, "UPDATE charges SET request = (SELECT request FROM charges WHERE key = 'other') WHERE key = 'k1'")
    with pytest.raises(VerificationError, match=WITHHELD):
        scope.release(wanted, 0, key="k1")


def test_a_row_that_names_another_entry_gives_no_receipt(scope: Scope) -> None:
    sql(scope, "UPDATE charges SET ended = ? WHERE key = 'k1'", ended(scope, "k2"))
    with pytest.raises(VerificationError, match=WITHHELD):
        scope.release(laplace(), 0, key="k1")


@pytest.mark.parametrize("taken_from", ["k2", "nowhere"])
def test_an_entry_that_is_not_the_signed_one_is_not_handed_out(scope: Scope, taken_from: str) -> None:
    """The leaf is exchanged while the ledger is open, for that of another commit or for one that nobody signed."""
    index = ended(scope, "k1")
    leaves = list(scope._ledger.leaves())
    last = leaves[index]
    forged = last[:-20] + (b"A" if last[-20:-19] != b"A" else b"B") + last[-19:]  # in the base64 of the signature
    leaf = forged if taken_from == "nowhere" else leaves[ended(scope, taken_from)]
    sql(scope, "UPDATE leaves SET leaf = ? WHERE i = ?", leaf, index)
    with pytest.raises(VerificationError) as seen:
        scope.release(laplace(), 0, key="k1")
    assert seen.value.index == index


# ---- the seal -------------------------------------------------------------------------------------------------------


def test_a_sealed_value_comes_back_as_it_was() -> None:
    assert values.unsealed(values.sealed(VALUE, ORIGIN, KEY), ORIGIN, KEY.public) == VALUE


@pytest.mark.parametrize(
    "other",
    [
        {"ledger": "example.org/clinic/ff0102030405060708090a0b0c0d0e0f"},
        {"scope": "t"},
        {"key": "l"},
        {"request": "00" * 32},
        {"charge": "00" * 16},
        {"entry": 8},
    ],
)
def test_every_part_of_the_origin_is_signed(other: dict[str, Any]) -> None:
    sealed = values.sealed(VALUE, ORIGIN, KEY)
    with pytest.raises(VerificationError, match=WITHHELD):
        values.unsealed(sealed, replace(ORIGIN, **other), KEY.public)


@given(place=st.integers(0, 64 + len(VALUE) - 1), bit=st.integers(0, 7))
def test_no_bit_of_it_can_be_changed(place: int, bit: int) -> None:
    sealed = bytearray(values.sealed(VALUE, ORIGIN, KEY))
    sealed[place] ^= 1 << bit
    with pytest.raises(VerificationError, match=WITHHELD):
        values.unsealed(bytes(sealed), ORIGIN, KEY.public)


def test_a_seal_is_no_signature_of_an_entry_nor_of_a_head() -> None:
    """One key signs all three: what it signs begins with the type, and no type is that of an entry."""
    sealed = values.sealed(VALUE, ORIGIN, KEY)
    signature = sealed[: len(sealed) - len(VALUE)]
    for payload in (VALUE, values.seal_payload(VALUE, ORIGIN)):
        with pytest.raises(VerificationError, match="not made by the key"):
            KEY.public.verify(signature, envelope.pre_authentication(payload))
    message = envelope.pre_authentication(values.seal_payload(VALUE, ORIGIN), values.SEAL_TYPE)
    KEY.public.verify(signature, message)
    assert message.startswith(b"DSSEv1 %d %b " % (len(values.SEAL_TYPE), values.SEAL_TYPE.encode()))
    assert not message.startswith(ID.encode())
    assert values.SEAL_TYPE != envelope.PAYLOAD_TYPE


def test_what_the_store_holds_is_the_seal_and_the_value() -> None:
    """The store holds the value anyhow; the entries hold nothing of it."""
    store = MemoryStore()
    book = Ledger.begin(store, KEY, SigningKey.from_seed(ID, bytes(range(32))).public)
    book.scope("s", **RULES).release(laplace(), 41, key="k")
    (kept,) = store.values.values()
    assert kept[64:] == VALUE
    leaves = b"".join(envelope.parse_unverified(leaf).payload for leaf in book.leaves())
    assert hashlib.sha256(VALUE).hexdigest().encode() not in leaves
    assert VALUE not in leaves
