"""A kept value answers the request that it was released for, in its ledger, and no other; else it is withheld."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.accounting.guarantees import PureDP
from dpledger.cli import app
from dpledger.errors import AlreadySpent, ContractViolation, KeyReused, VerificationError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import envelope, values
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.signed.values import ValueOrigin
from dpledger.ledger.stores.memory import MemoryStore
from ledger_mechanisms import laplace

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": PureDP(5)}
OUTPUTS = {"k1": "the-output-4711", "k2": "the-output-4712"}
WITHHELD = "withheld"

ID = "example.org/clinic/000102030405060708090a0b0c0d0e0f"
KEY = SigningKey.from_seed(ID, bytes(32))
ORIGIN = ValueOrigin(ledger=ID, scope="s", key="k", request="ab" * 32, charge="cd" * 16, entry=7)
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
        dpl.Count(epsilon="0.1", of="rows"),
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


SAMPLE = dpl.learning.LabeledSample([1, 2, 5, 6] * 40, [0, 0, 1, 1] * 40)
AGES = dpl.learning.LabeledSample([{"age": age} for age in range(90)], [age >= 65 for age in range(90)])


@pytest.mark.parametrize(
    ("mechanism", "sample"),
    [
        (dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(7), epsilon=1), SAMPLE),
        (
            dpl.learning.PrivateStumpBooster(
                binning=dpl.learning.Binning({"age": [18, 65]}, source="the form"), epsilon=1
            ),
            AGES,
        ),
        (dpl.learning.PrivateParityLearner(dimension=3, epsilon=1), SAMPLE),
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


NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(),
    st.integers(),
    st.floats(),
    st.sampled_from([-0.0, 5e-324, -(2**9999), "\ud800", "\0", "\u202e"]),
    st.sampled_from([np.float64(-0.0), np.float32(1.5), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)]),
    st.sampled_from(["<f8", ">f4", "<i2", "|b1", "|u1"]).flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=3))
    ),
)
PLAIN = st.recursive(
    NUMBERS, lambda one: st.lists(one, max_size=3) | st.lists(one, max_size=3).map(tuple), max_leaves=6
)


def same(one: Any, other: Any) -> bool:
    """Of one type, and bit for bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return repr(one) == repr(other) if isinstance(one, float | np.generic) else bool(one == other)


@given(PLAIN)
def test_what_is_kept_comes_back_as_it_was(value: Any) -> None:
    data = values.kept(value)
    assert data is not None
    assert same(values.restored(data), value)


ODD = st.sampled_from(
    ["<f8", "|b1", "O", "f8,,", "(", "1" * 5000, "0x1p9999", "AAAAAAAA8D8=", "!", 7, None, [2, -1], [10**30]]
)
BROKEN = st.recursive(
    ODD,
    lambda one: (
        st.tuples(st.sampled_from(["is", "float", "int", "tuple", "array", "scalar"]), one, one, one).map(
            lambda parts: list(parts[: {"array": 4, "scalar": 3}.get(parts[0], 2)])
        )
        | st.lists(one, max_size=3)
    ),
    max_leaves=8,
)


@given(BROKEN)
def test_what_cannot_be_read_says_so_and_nothing_else(document: Any) -> None:
    try:
        found = values.restored(json.dumps(document).encode())
    except VerificationError:
        return
    assert values.kept(found) is not None, "what is read can be kept"


@pytest.mark.parametrize(
    "value",
    [
        np.ma.MaskedArray([4711.0, 1.0], mask=[True, False]),
        np.array([[1.0]]).view(np.matrix),
        np.timedelta64(3),
        np.datetime64("2026-01-01"),
        np.array(["a"]),
        np.array([None]),
        np.longdouble("1.1"),
        1j,
        10**6000,
        b"a",
        {"a": 1},
        [1] * 9000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_come_back_as_something_else_is_not_kept(scope: Scope, value: Any) -> None:
    """A mask that hides a number would not hide it the second time."""
    assert values.kept(value) is None
    scope.release(laplace(), value, key="odd")
    with pytest.raises(AlreadySpent, match="not kept"):
        scope.release(laplace(), value, key="odd")


def test_a_number_has_one_digest_whoever_holds_it() -> None:
    salt = bytes(32)
    assert values.digest(np.float64(2.5), salt) == values.digest(2.5, salt)
    assert values.digest((np.int64(3), True), salt) == values.digest((3, np.bool_(True)), salt)


STATISTICS = st.one_of(
    st.builds(
        dpl.ClippedMean,
        epsilon=st.sampled_from(["0.001", "1", "20"]),
        lower=st.integers(-(10**6), 0),
        upper=st.integers(1, 10**6),
    ),
    st.builds(
        dpl.Histogram,
        epsilon=st.sampled_from(["1e-12", "1", "20"]),
        categories=st.lists(
            st.text("aé\u0301<&\"' 日", min_size=1).filter(lambda word: word == word.strip()),
            min_size=1,
            max_size=4,
            unique=True,
        ),
    ),
)


@settings(max_examples=40)
@given(STATISTICS, st.lists(st.floats() | st.integers() | st.text() | st.none(), max_size=5))
def test_a_statistic_says_its_value_in_numbers_and_makes_it_again_of_them(mechanism: Any, data: list[Any]) -> None:
    book = Ledger.in_memory()
    scope = book.scope("s", **{**RULES, "budget": PureDP(100)})
    first = scope.release(mechanism, data, key="k")
    again = scope.release(mechanism, [], key="k")
    assert (again.replayed, again.value, type(again.value)) == (True, first.value, type(first.value))
    for other in (replace(mechanism, epsilon="0.5"), dpl.Count(epsilon=mechanism.epsilon, of="rows")):
        with pytest.raises(KeyReused):
            scope.release(other, data, key="k")


BITS, POINTS = np.tile([[0, 1], [1, 1]], (50, 1)), np.arange(8)
BY_ROW = dpl.learning.LabeledSample(np.tile(POINTS, 20), np.tile(POINTS < 3, 20))
BY_USER = dpl.learning.UserSample(np.tile(POINTS, (60, 1)), np.tile(POINTS < 3, (60, 1)))
UPWARDS = dpl.learning.UserSample(BY_USER.x, np.tile(POINTS >= 3, (60, 1)))
X = np.linspace(-0.4, 0.4, 400).reshape(200, 2)


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        (dpl.learning.PrivateConjunctionLearner(2, epsilon=1), dpl.learning.LabeledSample(BITS, BITS[:, 0])),
        (dpl.learning.PrivateSQThresholdLearner(8, epsilon=1), BY_ROW),
        (
            dpl.learning.RealizableRepresentationLearner(
                dpl.learning.TrivialRepresentation(dpl.learning.ThresholdClass(8)), epsilon=1
            ),
            BY_ROW,
        ),
        (dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(8), epsilon=1, clip=2), BY_USER),
        (dpl.learning.MinimumErrorEstimator(dpl.learning.ThresholdClass(8), resolution="0.1", epsilon=1), BY_USER),
        (
            dpl.learning.UserLevelProperLearner(
                dpl.learning.ThresholdClass(8), epsilon=1, resolution="0.1", margin="0.1"
            ),
            BY_USER,
        ),
        (
            dpl.learning.UserLevelThresholdLearner(
                dpl.learning.ThresholdClass(8), epsilon=1, alpha="0.4", comparison="paper"
            ),
            BY_USER,
        ),
        (
            dpl.learning.UserLevelThresholdLearner(
                dpl.learning.ThresholdClass(8, both_ways=True), epsilon=50, alpha="0.4"
            ),
            UPWARDS,
        ),
        (dpl.ex_post.AccuracyFirst("ridge", 200, 2, "0.3", "0.4"), (X, X.sum(axis=1))),
    ],
    ids=lambda one: str(getattr(one, "kind", "")),
)
def test_what_was_learned_comes_back_under_its_key(mechanism: Any, data: Any) -> None:
    """Found: of most learners a used key raised AlreadySpent, whose rule is a number or two."""
    unit = dpl.Unit("patient", 8 if isinstance(data, dpl.learning.UserSample) else 1)
    scope = Ledger.in_memory().scope("s", unit=unit, relation="replace_one", budget=PureDP(100))
    first = scope.release(mechanism, data, key="k")
    again = scope.release(mechanism, data, key="k")
    assert (again.replayed, again.value, type(again.value)) == (True, first.value, type(first.value))


def test_what_was_reserved_first_is_kept_as_well(scope: Scope) -> None:
    mechanism = dpl.ClippedMean(epsilon=1, lower=0, upper=90)
    with scope.reserve(mechanism, key="mean") as held:
        first = held.release([30.0])
    again = scope.release(mechanism, [60.0], key="mean")
    assert (again.replayed, again.value) == (True, first.value)


def test_a_statistic_has_a_digest_as_well() -> None:
    mechanism = dpl.ClippedMean(epsilon=1, lower=0, upper=90)
    receipt = Ledger.in_memory().scope("s", keep="digest", **RULES).release(mechanism, [30.0, 60.0])
    assert isinstance(receipt.entry.body, Committed)
    assert receipt.salt is not None
    assert receipt.entry.body.warnings == ()
    assert receipt.entry.body.digest == values.digest(mechanism.plain_of(receipt.value), receipt.salt)


class Forgetful(dpl.ClippedMean):
    """Says its value, and cannot make it again."""

    def value_of(self, plain: Any) -> Any:
        raise ValueError(f"the output is {plain}")


def test_an_error_of_a_mechanism_that_reads_what_was_kept_is_withheld(scope: Scope) -> None:
    """It may hold the value, which logs and tracebacks are not told."""
    mechanism = dpl.ClippedMean(epsilon=1, lower=0, upper=90)
    scope.release(mechanism, [30.0], key="mean")
    spent, size = scope.spent(delta=0), len(scope._ledger)
    with pytest.raises(ContractViolation) as seen:
        scope.release(Forgetful(epsilon=1, lower=0, upper=90), [30.0], key="mean")
    assert seen.value.__context__ is None
    assert "output" not in str(seen.value)
    assert (scope.spent(delta=0), len(scope._ledger)) == (spent, size)
    assert scope.release(mechanism, [30.0], key="mean").replayed


CANARY = 13_377_331  # a count that stands nowhere by chance


def test_outputs_stand_in_the_store_and_its_backup_and_in_nothing_that_is_handed_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    told: dict[str, str] = {}
    with Ledger.create(tmp_path / "ward.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(99))
        receipts = [scope.release(laplace(), f"canary {CANARY}", key="text") for _ in range(2)]
        receipts += [scope.release(dpl.Count(epsilon=40, of="rows"), range(CANARY), key="count") for _ in range(2)]
        assert [receipt.replayed for receipt in receipts] == [False, True] * 2
        told["receipts"] = " ".join(repr(one) + one._repr_html_() for one in receipts)
        told["tables"] = book.entries().to_frame().to_string() + scope.releases().to_frame().to_string()
        told["entries"] = b"".join(envelope.parse_unverified(leaf).payload for leaf in book.leaves()).decode()
        made = dpl.report(book)
        told |= {"html": made.html(), "json": made.json(), "markdown": made.markdown(), "registry": made.registry()}
        for file in book.export(tmp_path / "bundle").iterdir():
            told[file.name] = file.read_text()
        book.backup(tmp_path / "copy.ledger")
    for words in (("show",), ("show", "--json"), ("scopes", "--json"), ("spent", "--scope", "s")):
        command, *rest = words
        told[" ".join(words)] = CliRunner().invoke(app, [command, str(tmp_path / "ward.ledger"), *rest]).output
    told["log"] = caplog.text
    for place, text in told.items():
        assert text, place
        assert str(CANARY) not in text, place
        assert "canary" not in text, place
    for kept in ("ward.ledger", "copy.ledger"):
        assert str(CANARY).encode() in (tmp_path / kept).read_bytes()


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


def origin_of(scope: Scope, key: str) -> ValueOrigin:
    ((request,),) = sql(scope, "SELECT request FROM charges WHERE key = ?", key)
    return ValueOrigin(
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
