"""Statements that bind a file to a ledger: against the public form (DSSE v1, in-toto Statement v1), against another
implementation of it, and against every change of what was signed."""

from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save_file
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.exceptions import VerificationError as TheirError
from securesystemslib.signer._key import SSlibKey

from dpledger.accounting.composition import GaussianLaw, Repeated
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.attach import intoto
from dpledger.attach.intoto import PREDICATE_TYPE, FileStatement, attest, read, require_file, require_record
from dpledger.errors import ParameterError, PolicyError, ScopeError, VerificationError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import envelope
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Unit

WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study", "relation": "add_remove"}
NAME = "clinic/000102030405060708090a0b0c0d0e0f"
KEY = SigningKey.from_seed(NAME, bytes(32))
SCOPES: dict[str, Any] = {"unit": Unit("patient", max_contributions=1), "relation": "add_remove"}


def begun() -> Ledger:
    return Ledger.begin(MemoryStore(), KEY, SigningKey.from_seed(NAME, bytes([1] * 32)).public)


def trained(book: Ledger, name: str = "patients") -> Scope:
    """A scope with a release, and a run elsewhere under a key."""
    scope = book.scope(name, budget=ApproxDP(3, "0.000001"), dataset="the snapshot of May", **SCOPES)
    scope.release(Laplace(sensitivity=1, epsilon="0.25"), 5)
    with scope.charging(
        Repeated(GaussianLaw(20), times=20), steps=20, key="model-2026", tail_delta=0, mechanism="their_sgd", **WHO
    ) as run:
        run.grant(20)
    return scope


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file({"weights": np.arange(6, dtype=np.float32)}, file)
    return file


@pytest.fixture
def book() -> Ledger:
    book = begun()
    trained(book)
    return book


def recorded(statement: FileStatement, book: Ledger) -> int:
    """How many entries were verified for it."""
    return require_record(statement, list(book.leaves()), book.head).head.size


# ---- the public form ------------------------------------------------------------------------------------------------


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    """The example of DSSE's protocol.md."""
    found = envelope.pre_authentication(b"hello world", "http://example.com/HelloWorld")
    assert found == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_the_envelope_is_dsse_and_its_payload_an_in_toto_statement(book: Ledger, model: Path) -> None:
    """Read as the two specifications say, with nothing of this package."""
    found = json.loads(attest(book, "patients", model, by="A. Smith"))
    assert found.keys() == {"payload", "payloadType", "signatures"}
    assert found["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(found["payload"], validate=True)
    (signature,) = found["signatures"]
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
    Ed25519PublicKey.from_public_bytes(KEY.public.public).verify(base64.b64decode(signature["sig"]), signed)
    said = json.loads(payload)
    assert said.keys() == {"_type", "subject", "predicateType", "predicate"}
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == PREDICATE_TYPE
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert said["subject"] == [{"name": "model.safetensors", "digest": {"sha256": digest}}]


def test_another_implementation_verifies_it(book: Ledger, model: Path) -> None:
    data = attest(book, "patients", model, by="A. Smith")
    theirs = TheirEnvelope.from_dict(json.loads(data))
    key = SSlibKey(KEY.public.key_id_hex, "ed25519", "ed25519", {"public": KEY.public.public.hex()})
    assert theirs.verify([key], 1).keys() == {KEY.public.key_id_hex}
    theirs.payload += b" "
    with pytest.raises(TheirError):
        theirs.verify([key], 1)


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_it_says_scope_range_guarantee_and_whose_word_it_is(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="A. Smith"), KEY.public)
    told = dict(found.predicate)
    spent = told.pop("spent")
    assert told == {
        "by": "A. Smith",
        "charges": {"all": 2, "elsewhere": 1, "open": 0, "outside_guarantee": 0},
        "checkpoint": book.head.decode(),
        "entries": {"first": 1, "last": len(book) - 1},
        "guarantee": {"kind": "approx_dp", "epsilon": "3", "delta": "0.000001"},
        "ledger": NAME,
        "scope": {
            "name": "patients", "unit": "patient", "max_contributions": 1, "relation": "add_remove",
            "dataset": "the snapshot of May",
        },
    }  # fmt: skip
    assert spent["delta"] == "0.000001"
    assert float(spent["epsilon"]) >= Scope(book, "patients").spent().upper
    require_file(found, model)
    recorded(found, book)


def test_of_one_run_it_says_its_entries_and_what_it_promised(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="A. Smith", run="model-2026"), KEY.public)
    (own,) = [one for one in Scope(book, "patients").releases() if one.key == "model-2026"]
    assert found.predicate["entries"] == {"first": own.index, "last": own.ended}
    run = found.predicate["run"]
    assert (run["key"], run["mechanism"], run["status"]) == ("model-2026", "their_sgd", "committed")
    assert run["attested_by"] == "A. Smith"
    assert run["claim"]["kind"] == own.claim.kind
    recorded(found, book)


def test_a_budget_without_an_epsilon_is_said_as_it_is(model: Path) -> None:
    book = begun()
    book.scope("in_rho", budget=ZCDP(2), **SCOPES)
    found = read(attest(book, "in_rho", model, by="me"), KEY.public)
    assert "spent" not in found.predicate
    assert found.predicate["guarantee"] == {"kind": "zcdp", "rho": "2", "delta": "0"}
    recorded(found, book)


def test_what_broke_its_guarantee_is_counted_or_refused(model: Path) -> None:
    book = begun()
    scope = book.scope("s", budget=PureDP(2), **SCOPES)
    with scope.charging(PureDP("0.5"), key="broken", **WHO) as run:
        run.broke_off("another norm than planned")
    with scope.charging(PureDP("0.5"), key="empty", **WHO) as run:
        run.nothing_ran()
    assert read(attest(book, "s", model, by="me"), KEY.public).predicate["charges"]["outside_guarantee"] == 1
    for key, said in (("broken", "left its guarantee"), ("empty", "was given back: nothing ran")):
        with pytest.raises(PolicyError, match=said):
            attest(book, "s", model, by="me", run=key)
    with pytest.raises(ParameterError, match="run: expected the key of a charge of scope 's', like broken, empty"):
        attest(book, "s", model, by="me", run="other")
    with pytest.raises(ScopeError, match="no scope 't'"):
        attest(book, "t", model, by="me")
    with pytest.raises(ParameterError, match="file"):
        attest(book, "s", model.parent / "nothing", by="me")
    with pytest.raises(ParameterError, match="by"):
        attest(book, "s", model, by=" ")


def test_a_ledger_that_grew_since_is_as_good(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me"), KEY.public)
    Scope(book, "patients").release(Laplace(sensitivity=1, epsilon="0.5"), 5)
    assert recorded(found, book) == len(book) > found.head.size


# ---- what does not verify -------------------------------------------------------------------------------------------


def resigned(found: FileStatement, change: Callable[[dict[str, Any]], object]) -> FileStatement:
    """The statement with its predicate changed, signed by the same key all the same."""
    predicate = orjson.loads(orjson.dumps(dict(found.predicate)))
    change(predicate)
    payload = intoto._statement(found.name, found.sha256, predicate)
    return read(envelope.seal(payload, KEY, envelope.STATEMENT_TYPE), KEY.public)


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "guarantee": lambda said: said["guarantee"].update(epsilon="1"),
    "entries": lambda said: said["entries"].update(first=0),
    "charges": lambda said: said["charges"].update(elsewhere=0),
    "scope": lambda said: said["scope"].update(max_contributions=5),
    "relation": lambda said: said["scope"].update(relation="replace_one"),
    "run": lambda said: said["run"].update(mechanism="ours"),
    "another run": lambda said: said["run"].update(key="other"),
    "no claim": lambda said: said["run"].pop("claim"),
    "another scope": lambda said: said["scope"].update(name="others"),
    "spent": lambda said: said["spent"].update(epsilon="0.1"),
    "spent at another delta": lambda said: said["spent"].update(delta="0.1"),
    "no spent": lambda said: said.pop("spent"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_signed_lie_is_found_by_the_record(lie: str, book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me", run="model-2026"), KEY.public)
    recorded(resigned(found, lambda said: said.update(by="somebody else")), book)  # whose word it is, nobody can see
    recorded(resigned(found, lambda said: said["spent"].update(epsilon="2.5")), book)  # more is no lie
    with pytest.raises(VerificationError, match="the statement says"):
        recorded(resigned(found, LIES[lie]), book)


def test_a_file_that_differs_in_one_bit_is_another(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me"), KEY.public)
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    model.write_bytes(data)
    with pytest.raises(VerificationError, match="the file is another one"):
        require_file(found, model)


def test_another_key_another_history_and_a_shorter_one_are_refused(book: Ledger, model: Path) -> None:
    data = attest(book, "patients", model, by="me")
    found = read(data, KEY.public)
    with pytest.raises(VerificationError):
        read(data, SigningKey.generate(NAME).public)
    other, shorter = begun(), begun()
    trained(other, "patients"), trained(other, "others")
    for one in (other, shorter):
        with pytest.raises(VerificationError):
            recorded(found, one)


def test_an_entry_of_the_ledger_is_no_statement(book: Ledger) -> None:
    """One key signs both: the types keep them apart."""
    for leaf in book.leaves():
        with pytest.raises(VerificationError):
            read(leaf, KEY.public)
    with pytest.raises(VerificationError, match="another payloadType"):
        envelope.verify(book.stated(b"{}"), lambda _: KEY.public)


@settings(max_examples=60)
@given(st.data())
def test_no_changed_byte_verifies(data: st.DataObject) -> None:
    whole = _DATA()
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(VerificationError):
        read(bytes(changed), KEY.public)


def _DATA(made: list[bytes] = []) -> bytes:  # noqa: B006
    if not made:
        made.append(attest(_with_a_scope(), "s", Path(__file__), by="me"))
    return made[0]


def _with_a_scope() -> Ledger:
    book = begun()
    book.scope("s", budget=PureDP(1), **SCOPES)
    return book


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"[]", b"null", b'{"subject":[]}', b'{"predicate":{},"subject":[{"digest":{},"name":"a"}]}',
        b"not JSON", b'{"predicate":{"by":1.5},"subject":[{"digest":{"sha256":"00"},"name":"a"}]}',
    ],
)  # fmt: skip
def test_what_is_signed_and_no_statement_is_refused(payload: bytes) -> None:
    with pytest.raises(VerificationError, match="statement"):
        read(envelope.seal(payload, KEY, envelope.STATEMENT_TYPE), KEY.public)


@pytest.mark.parametrize("member", ["by", "charges", "checkpoint", "entries", "guarantee", "ledger", "scope"])
def test_a_member_that_lacks_or_is_of_another_kind_is_refused(member: str, book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me"), KEY.public)
    for value in (None, 7, {"other": 1}, [1]):

        def change(said: dict[str, Any], value: object = value) -> None:
            said.pop(member)
            if value is not None:
                said[member] = value

        with pytest.raises(VerificationError, match=r"statement|checkpoint"):
            resigned(found, change)


def test_a_run_without_its_key_is_no_run(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me", run="model-2026"), KEY.public)
    with pytest.raises(VerificationError, match="not an in-toto Statement"):
        resigned(found, lambda said: said["run"].pop("key"))


def test_a_checkpoint_of_another_ledger_in_it_is_refused(book: Ledger, model: Path) -> None:
    found = read(attest(book, "patients", model, by="me"), KEY.public)
    with pytest.raises(VerificationError, match="its checkpoint is of another ledger"):
        resigned(found, lambda said: said.update(ledger=NAME.replace("clinic", "other")))


def test_a_large_file_is_read_in_flat_memory(tmp_path: Path) -> None:
    """128 MiB that are a hole: a few blocks of it are in memory at once."""
    large, book = tmp_path / "large.bin", _with_a_scope()
    with large.open("wb") as stream:
        stream.truncate(2**27)
    tracemalloc.start()
    try:
        require_file(read(attest(book, "s", large, by="me"), KEY.public), large)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
