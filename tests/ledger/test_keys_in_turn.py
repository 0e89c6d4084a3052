"""The keys of a ledger in turn: rotated, delegated, revoked; and what a thief of any of them can still do.

Both verifiers judge each record. What nobody can see who holds nothing newer is asserted as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
import ledger_golden
from dpledger.attach import intoto
from dpledger.decimals import text
from dpledger.errors import ApprovalNeeded, ForeignLedger, ParameterError, PolicyError, VerificationError
from dpledger.ledger.entries.bodies import (
    TIMELESS,
    Body,
    Closed,
    Heartbeat,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    OwnerRotated,
)
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import approvals
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.rules.transitions import EMPTY, fold
from dpledger.ledger.signed import checkpoint, envelope, merkle, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.signers.delegating import Delegating
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import bundle, proof, verification
from javascript_verifier import bundle as case_of, data, judged
from ledger_forger import TIME
from ledger_mechanisms import laplace

pytestmark = pytest.mark.sliced

NAME = "example.org/turns/000102030405060708090a0b0c0d0e0f"
FIRST, RECOVERY, SECOND, THIRD, THIEF, ENTRY = (SigningKey.from_seed(NAME, bytes([n]) * 32) for n in range(1, 7))
ELSEWHERE = SigningKey.from_seed("example.org/other/000102030405060708090a0b0c0d0e0f", bytes([9]) * 32)
OWNER, NEW_OWNER, OTHER_OWNER = (
    SigningKey.from_seed("example.org/owner/" + "0" * 32, bytes([n]) * 32) for n in (7, 8, 9)
)
RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(1)}


@dataclass(frozen=True)
class Said:
    """An entry as somebody signs it: a body, and a key."""

    body: Body
    key: SigningKey


def record(parts: Iterable[Said], head: SigningKey) -> tuple[list[bytes], bytes]:
    """Leaves and a head with these signatures; no rule is asked."""
    leaves: list[bytes] = []
    previous = "0" * 64
    for index, said in enumerate(parts):
        time = None if isinstance(said.body, TIMELESS) else TIME
        entry = Entry(ledger=NAME, index=index, previous=previous, body=said.body, time=time)
        leaves.append(envelope.seal(wire.dump(format_entry(entry)), said.key))
        previous = merkle.leaf_hash(leaves[-1]).hex()
    root = merkle.root(map(merkle.leaf_hash, leaves))
    return leaves, checkpoint.sign(Checkpoint(origin=NAME, size=len(leaves), root=root), head)


def verdict(leaves: Sequence[bytes], head: bytes, key: SigningKey) -> tuple[bool, int | None]:
    """Whether it verifies, and the entry at fault: the same in Python, in full, and in JavaScript."""
    try:
        verification.verify(leaves, head, key.public)
        told: tuple[bool, int | None] = (True, None)
    except VerificationError as error:
        told = (False, error.index)
    (theirs,) = judged([case_of(leaves, head, key.public.text)])
    assert (theirs.accepted, theirs.index) == told, theirs
    return told


def quick(leaves: Sequence[bytes], head: bytes, key: SigningKey) -> bool:
    try:
        verification.verify_quick(leaves, head, key.public)
    except VerificationError:
        return False
    return True


def opened(owner: SigningKey | None = None) -> Said:
    book = Ledger.begin(MemoryStore(), FIRST, RECOVERY.public, owner=None if owner is None else owner.public)
    return Said(next(iter(book.entries())).body, FIRST)


def beats(key: SigningKey, count: int = 1) -> list[Said]:
    return [Said(Heartbeat(), key)] * count


def rotated(to: SigningKey, by: SigningKey) -> Said:
    return Said(KeyRotated(public_key=to.public.text), by)


def delegated(to: SigningKey, by: SigningKey, last: int) -> Said:
    return Said(KeyDelegated(public_key=to.public.text, last=last), by)


TURNED = [opened(), *beats(FIRST), rotated(SECOND, FIRST), *beats(SECOND, 2)]
LENT = [opened(), delegated(ENTRY, FIRST, 4), *beats(ENTRY, 2)]


# ---- the life of a ledger -------------------------------------------------------------------------------------------


def book_of(signer: Any = FIRST, owner: SigningKey | None = None) -> Ledger:
    return Ledger.begin(MemoryStore(), signer, RECOVERY.public, owner=None if owner is None else owner.public)


def both_accept(book: Ledger, *keys: SigningKey) -> None:
    leaves, head = list(book.leaves()), book.head
    for key in keys:
        assert verdict(leaves, head, key) == (True, None)
        assert quick(leaves, head, key)


def test_a_handle_goes_on_with_the_new_key_and_either_verifies() -> None:
    book = book_of()
    scope = book.scope("s", **RULES)
    before = scope.release(laplace("0.25"), 1, key="once")
    kept = book.head
    book.rotate_key(SECOND)
    assert book.public_key == SECOND.public
    again = scope.release(laplace("0.25"), 1, key="once")
    assert (again.replayed, again.value) == (True, before.value)  # sealed by the key before
    scope.release(laplace("0.25"), 1)
    book.rotate_key(THIRD)
    scope.release(laplace("0.25"), 1)
    both_accept(book, FIRST, SECOND, THIRD)
    assert book.verify(since=[kept]).witnessed == 4
    assert [book.entry(index).index for index in range(len(book))] == list(range(len(book)))
    with pytest.raises(VerificationError, match="not a key of this record"):
        book.verify(key=THIEF.public)


def test_every_entry_is_proved_across_rotations_and_delegations_to_whoever_holds_either_key() -> None:
    book = book_of()
    book.record(Heartbeat())
    book.rotate_key(Delegating(SECOND, entries=3))
    for _ in range(5):
        book.record(Heartbeat())
    book.rotate_key(THIRD)
    book.record(Heartbeat())
    cases = []
    for index, entry in enumerate(book.entries()):
        for key in (FIRST, SECOND, THIRD):
            shown = book.prove(index)
            assert proof.verify(shown, key.public).entry == entry
            cases.append({"judge": "proof", "data": data(shown), "key": key.public.text})
    assert all(said.accepted for said in judged(cases))
    with pytest.raises(VerificationError, match="not a key of this record"):
        proof.verify(book.prove(1), THIEF.public)


def test_a_statement_about_a_file_is_read_with_either_key(tmp_path: Path) -> None:
    book = book_of(Delegating(FIRST, entries=50))
    scope = book.scope("s", **RULES)
    scope.release(laplace("0.25"), 1)
    model = tmp_path / "model"
    model.write_bytes(b"weights")
    first = intoto.attest(book, "s", model, by="A. Smith")
    book.rotate_key(SECOND)
    second = intoto.attest(book, "s", model, by="A. Smith")
    for made in (first, second):
        for key in (FIRST, SECOND):
            if made is first and key is SECOND:
                continue  # it is older than that key
            read = intoto.read(made, key.public)
            intoto.require_file(read, model)
            intoto.require_record(read, list(book.leaves()), book.head)
    for made, key in ((first, SECOND), (second, THIEF), (second, RECOVERY)):
        with pytest.raises(VerificationError):
            intoto.read(made, key.public)


def test_a_slow_key_is_asked_once_a_session() -> None:
    asked = []

    class Slow:
        public = FIRST.public

        def sign(self, message: bytes) -> bytes:
            asked.append(message)
            return FIRST.sign(message)

    book = book_of(Delegating(Slow(), entries=10_000))
    assert len(asked) == 2  # the first entry, and its head
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(100))
    for _ in range(20):
        scope.release(laplace("0.25"), 1)
    assert len(asked) == 3
    both_accept(book, FIRST)


def test_a_delegation_is_renewed_before_it_runs_out_and_taken_back_by_the_key_itself() -> None:
    store = MemoryStore()
    book = Ledger.begin(store, Delegating(FIRST, entries=6), RECOVERY.public)
    for _ in range(20):
        book.record(Heartbeat())
    terms = [entry.body for entry in book.entries() if isinstance(entry.body, KeyDelegated)]
    assert len(terms) == 7
    assert len({term.public_key for term in terms}) == 7
    both_accept(book, FIRST)
    plain = Ledger.resume(store, FIRST)
    plain.record(Heartbeat())
    assert [entry.body for entry in plain.entries()][-2:] == [KeyDelegated(), Heartbeat()]
    both_accept(plain, FIRST)


def test_the_old_key_opens_nothing_after_a_rotation() -> None:
    store = MemoryStore()
    book = Ledger.begin(store, FIRST, RECOVERY.public)
    other = Ledger.resume(store, FIRST)
    book.rotate_key(SECOND)
    with pytest.raises(ForeignLedger, match="was rotated"):
        other.record(Heartbeat())
    with pytest.raises(ForeignLedger, match="was rotated"):
        Ledger.resume(store, FIRST)
    with pytest.raises(ForeignLedger, match="not the key of this ledger"):
        Ledger.resume(store, THIEF)
    Ledger.resume(store, SECOND).record(Heartbeat())


@pytest.mark.parametrize("key", [FIRST, RECOVERY, ELSEWHERE])
def test_a_key_that_was_there_before_or_is_elsewhere_is_no_successor(key: SigningKey) -> None:
    book = book_of()
    book.rotate_key(SECOND)
    size = len(book)
    with pytest.raises(ParameterError, match="successor"):
        book.rotate_key(key)
    assert len(book) == size
    book.record(Heartbeat())


# ---- rotation: what a thief can do ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "head", "at"),
    [
        (TURNED, SECOND, (True, None)),
        ([*TURNED, *beats(FIRST)], FIRST, (False, 5)),  # an entry after the rotation by the old key
        ([*TURNED, *beats(FIRST)], SECOND, (False, 5)),
        (TURNED, FIRST, (False, None)),  # a head by the old key
        ([*TURNED[:2], *beats(FIRST)], SECOND, (False, None)),  # a head by a key that no entry names
        ([*TURNED[:2], rotated(SECOND, THIEF)], SECOND, (False, 2)),  # a rotation signed by neither
        ([*TURNED[:2], rotated(SECOND, SECOND)], SECOND, (False, 2)),
        ([*TURNED, rotated(THIEF, FIRST)], THIEF, (False, 5)),  # a second rotation by the old key
        ([*TURNED, rotated(THIRD, SECOND), *beats(THIRD)], THIRD, (True, None)),  # two rotations
        ([*TURNED, rotated(THIRD, SECOND), *beats(SECOND)], SECOND, (False, 6)),
        ([*TURNED, rotated(FIRST, SECOND)], FIRST, (False, 5)),  # back to the old key
        ([*TURNED, rotated(SECOND, SECOND)], SECOND, (False, 5)),
        ([*TURNED, rotated(RECOVERY, SECOND)], RECOVERY, (False, 5)),
        ([*TURNED, rotated(ELSEWHERE, SECOND)], SECOND, (False, 5)),
        ([*TURNED, *beats(RECOVERY)], SECOND, (False, 5)),  # the recovery key signs revocations alone
        ([opened(), rotated(SECOND, FIRST)], SECOND, (True, None)),
        ([opened(), rotated(SECOND, FIRST)], FIRST, (False, None)),
        ([rotated(SECOND, FIRST)], SECOND, (False, 0)),
    ],
)
def test_a_record_with_a_rotation(parts: list[Said], head: SigningKey, at: tuple[bool, int | None]) -> None:
    assert verdict(*record(parts, head), FIRST) == at


def test_a_rotation_that_is_replayed_is_refused() -> None:
    leaves, _ = record(TURNED, SECOND)
    again = [*leaves, leaves[2]]
    root = merkle.root(map(merkle.leaf_hash, again))
    head = checkpoint.sign(Checkpoint(origin=NAME, size=len(again), root=root), SECOND)
    assert verdict(again, head, FIRST) == (False, 5)


def test_what_a_thief_of_the_old_key_can_still_show_and_to_whom() -> None:
    """Another history: to those who hold the old key alone, and nothing newer."""
    fork = record([opened(), *beats(FIRST, 4)], FIRST)
    over = record([opened(), rotated(THIEF, FIRST), *beats(THIEF)], THIEF)
    for leaves, head in (fork, over):
        assert verdict(leaves, head, FIRST) == (True, None)  # undetectable without anything newer
        assert verdict(leaves, head, SECOND) == (False, None)  # whoever holds the new key sees it
        assert not quick(leaves, head, SECOND)
    leaves, head = record(TURNED, SECOND)
    kept = checkpoint.parse_unverified(head)[0]
    for other, signed in (fork, over):
        with pytest.raises(VerificationError, match="remembered head"):
            verification.verify(other, signed, FIRST.public, since=[kept])
    shown = proof.prove(fork[0], fork[1], 3)
    assert proof.verify(shown, FIRST.public).head.size == 5
    with pytest.raises(VerificationError):
        proof.verify(shown, SECOND.public)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_quick_and_full_tell_the_same_head_of_any_signatures(choices: st.DataObject) -> None:
    """Whatever is signed by whom: full accepts only what quick does, and both only what the rule by index allows."""
    keys = [FIRST, SECOND, ENTRY]
    parts, model = [opened()], _Model()
    for index in range(1, choices.draw(st.integers(1, 7))):
        signer = choices.draw(st.sampled_from(keys))
        bodies: list[Body] = [
            Heartbeat(),
            KeyRotated(public_key=SECOND.public.text),
            KeyDelegated(public_key=ENTRY.public.text, last=index + 2),
            KeyDelegated(),
        ]
        body = choices.draw(st.sampled_from(bodies))
        parts.append(Said(body, signer))
        model.see(index, body, signer)
    head = choices.draw(st.sampled_from(keys))
    leaves, signed = record(parts, head)
    allowed = model.legal and model.usual(len(leaves)) is head
    try:
        verification.verify(leaves, signed, FIRST.public)
        full = True
    except VerificationError:
        full = False
    assert full == allowed
    assert quick(leaves, signed, FIRST) or not full


class _Model:
    """The rule, told another way: who signs next."""

    def __init__(self) -> None:
        self.legal, self.own, self.last = True, FIRST, 0
        self.lent: SigningKey | None = None
        self.used = {FIRST.public.text}

    def usual(self, index: int) -> SigningKey:
        return self.own if self.lent is None or index > self.last else self.lent

    def see(self, index: int, body: Body, signer: SigningKey) -> None:
        match body:
            case KeyRotated():
                self.legal &= signer is self.own and SECOND.public.text not in self.used
                self.used.add(SECOND.public.text)
                self.own, self.lent = SECOND, None
            case KeyDelegated(public_key=None):
                self.legal &= signer is self.own and self.usual(index) is not self.own
                self.lent = None
            case KeyDelegated():
                self.legal &= signer is self.own and ENTRY.public.text not in self.used
                self.used.add(ENTRY.public.text)
                self.lent, self.last = ENTRY, index + 2
            case _:
                self.legal &= signer is self.usual(index)


# ---- delegation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "head", "at"),
    [
        (LENT, ENTRY, (True, None)),
        (LENT, FIRST, (False, None)),  # a head by the key that delegated it
        ([*LENT, *beats(ENTRY)], FIRST, (True, None)),  # the last entry is signed, and the head after it is the key's
        ([*LENT, *beats(ENTRY)], ENTRY, (False, None)),
        ([*LENT, *beats(ENTRY, 2)], ENTRY, (False, 5)),  # expired
        ([opened(), *beats(ENTRY), *LENT[1:]], ENTRY, (False, 1)),  # before its delegation
        ([*LENT, *beats(FIRST)], ENTRY, (False, 4)),  # outside: the key lent this one
        ([*LENT, rotated(THIEF, ENTRY)], THIEF, (False, 4)),  # an entry key names no other
        ([*LENT, delegated(THIEF, ENTRY, 9)], THIEF, (False, 4)),
        ([*LENT, rotated(SECOND, FIRST), *beats(SECOND)], SECOND, (True, None)),  # a rotation ends it
        ([*LENT, rotated(SECOND, FIRST), *beats(ENTRY)], ENTRY, (False, 5)),
        ([*LENT, Said(KeyDelegated(), FIRST), *beats(FIRST)], FIRST, (True, None)),
        ([*LENT, Said(KeyDelegated(), FIRST), *beats(ENTRY)], ENTRY, (False, 5)),
        ([opened(), Said(KeyDelegated(), FIRST)], FIRST, (False, 1)),  # there is none
        ([opened(), Said(KeyDelegated(last=4), FIRST)], FIRST, (False, 1)),
        ([opened(), Said(KeyDelegated(public_key=ENTRY.public.text), FIRST)], ENTRY, (False, 1)),
        ([opened(), delegated(ENTRY, FIRST, 1)], FIRST, (False, 1)),  # over before it begins
        ([opened(), delegated(ELSEWHERE, FIRST, 9)], ELSEWHERE, (False, 1)),
        ([*LENT, delegated(ENTRY, FIRST, 9)], ENTRY, (False, 4)),  # none comes back
        ([opened(), delegated(ENTRY, FIRST, 9), delegated(THIRD, FIRST, 9), *beats(THIRD)], THIRD, (True, None)),
    ],
)
def test_a_record_with_a_delegation(parts: list[Said], head: SigningKey, at: tuple[bool, int | None]) -> None:
    if head.public.name == NAME:
        assert verdict(*record(parts, head), FIRST) == at
    else:
        leaves, signed = record(parts, FIRST)
        assert verdict(leaves, signed, FIRST) == at


def test_a_delegation_of_another_ledger_is_none_here() -> None:
    leaves, _ = record(LENT, ENTRY)
    foreign = replace(ELSEWHERE.public)
    other = envelope.parse_unverified(leaves[1]).payload.replace(NAME.encode(), foreign.name.encode())
    copied = [leaves[0], envelope.seal(other, FIRST), *leaves[2:]]
    root = merkle.root(map(merkle.leaf_hash, copied))
    head = checkpoint.sign(Checkpoint(origin=NAME, size=len(copied), root=root), ENTRY)
    assert verdict(copied, head, FIRST) == (False, 1)


# ---- revocation -----------------------------------------------------------------------------------------------------


def spent_in(state: State) -> str:
    return text(state.scope("s").sums["pure"][0])


def stolen(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger file in whose entries from 6 on a thief may have had a hand, and its recovery key."""
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        scope = book.scope("s", **RULES)
        scope.reserve(laplace("0.25"), key="early")
        scope.release(laplace("0.125"), 1)
        assert len(book) == 5
        late = scope.reserve(laplace("0.25"), key="late")
        late.abort()
        with scope.reserve(laplace("0.0625"), key="open"):
            pass
        assert spent_in(book.state) == "0.375"
    return file, tmp_path / "clinic.ledger.recovery.key"


def test_what_came_back_after_the_last_trusted_entry_counts_as_spent(tmp_path: Path) -> None:
    file, recovery = stolen(tmp_path)
    with Ledger.open(file) as book:
        trusted = book.public_key
    entry = Ledger.revoke_key(file, recovery=recovery, last_trusted=4, reason="the host was broken into")
    assert entry.body == KeyRevoked(last_trusted=4, reason="the host was broken into")
    with Ledger.look(file) as book:
        assert spent_in(book.state) == "0.6875"
        leaves, head = list(book.leaves()), book.head
        assert book.scope("s").spent().upper >= 0.6875
        (account,) = [book.scope("s").account()]
        assert account.spent.upper >= 0.6875
        shown = [proof.verify(book.prove(index), trusted).is_trusted for index in range(len(book))]
        assert shown == [index <= 4 for index in range(len(book))]
        with pytest.raises(PolicyError, match="revoked"):
            intoto.attest(book, "s", file, by="me")
    found = verification.verify(leaves, head, trusted)
    assert spent_in(found.state) == "0.6875"
    (theirs,) = judged([case_of(leaves, head, trusted.text)])
    assert theirs.found["scopes"][0]["accounts"][0]["spent"] == "0.6875"
    assert theirs.found["last_trusted"] == 4
    with Ledger.open(file) as again, pytest.raises(PolicyError, match="ended"):
        again.record(Heartbeat())


def test_a_revocation_that_trusts_everything_gives_everything_back(tmp_path: Path) -> None:
    file, recovery = stolen(tmp_path)
    with Ledger.look(file) as book:
        last = len(book) - 1
    for wrong in (last + 1, -1):
        with pytest.raises(ParameterError, match="last_trusted"):
            Ledger.revoke_key(file, recovery=recovery, last_trusted=wrong, reason="lost")
    for other in (file.with_name("clinic.ledger.key"), THIEF):
        with pytest.raises(ForeignLedger):
            Ledger.revoke_key(file, recovery=other, last_trusted=last, reason="lost")
    Ledger.revoke_key(file, recovery=recovery, last_trusted=last, reason="lost")
    with Ledger.look(file) as book:
        assert spent_in(book.state) == "0.375"
        book.verify()
    with pytest.raises((PolicyError, VerificationError, ForeignLedger)):
        Ledger.revoke_key(file, recovery=recovery, last_trusted=last, reason="again")


def test_a_long_ledger_whose_fold_was_saved_is_revoked_and_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        for _ in range(3):
            book.transact(lambda *_: [Heartbeat()] * 700)
        size, trusted = len(book), book.public_key
    recovery = tmp_path / "clinic.ledger.recovery.key"
    entry = Ledger.revoke_key(file, recovery=recovery, last_trusted=5, reason="stolen")
    assert entry.index == size
    with Ledger.look(file) as book:
        assert book.state.closed
        book.verify(key=trusted)


def test_a_rotated_ledger_opens_from_its_saved_fold(tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        for successor in (SigningKey.generate(book.id), Delegating(SigningKey.generate(book.id))):
            book.rotate_key(successor)
            for _ in range(3):
                book.transact(lambda *_: [Heartbeat()] * 700)
        kept = book.state
    with Ledger.look(file) as book:
        assert book.state == kept
        assert fold(entry.body for entry in book.entries()) == kept
    with Ledger.open(file, key=successor) as book:
        book.record(Heartbeat())
        book.verify()


def revoked(last: int) -> Said:
    return Said(KeyRevoked(last_trusted=last, reason="stolen"), RECOVERY)


@pytest.mark.parametrize(
    ("parts", "head", "at"),
    [
        ([*TURNED, revoked(1)], RECOVERY, (True, None)),
        ([*TURNED, revoked(4)], RECOVERY, (True, None)),
        ([*TURNED, revoked(5)], RECOVERY, (False, 5)),  # itself
        ([*TURNED, revoked(1)], SECOND, (False, None)),  # a head by the key that was revoked
        ([*TURNED, replace(revoked(1), key=SECOND)], RECOVERY, (False, 5)),  # by the signing key
        ([*TURNED, replace(revoked(1), key=THIEF)], RECOVERY, (False, 5)),
        ([*TURNED, revoked(1), *beats(SECOND)], SECOND, (False, 5)),  # something after it
        ([*TURNED, revoked(1), revoked(1)], RECOVERY, (False, 6)),
        ([*TURNED, Said(Closed(reason="a thief ends it"), SECOND), revoked(4)], RECOVERY, (True, None)),
        ([*LENT, revoked(1)], RECOVERY, (True, None)),
        ([opened(), revoked(0)], RECOVERY, (True, None)),
    ],
)
def test_a_record_with_a_revocation(parts: list[Said], head: SigningKey, at: tuple[bool, int | None]) -> None:
    assert verdict(*record(parts, head), FIRST) == at


def test_a_key_named_after_the_last_trusted_entry_is_no_longer_one_to_trust() -> None:
    leaves, head = record([*TURNED, revoked(1)], RECOVERY)
    assert verdict(leaves, head, SECOND) == (False, None)
    with pytest.raises(VerificationError, match=r"was named after entry 1, .*: verify it with the key before"):
        verification.verify(leaves, head, SECOND.public)
    leaves, head = record([*TURNED, revoked(2)], RECOVERY)
    assert verdict(leaves, head, SECOND) == (True, None)


def test_what_a_thief_can_still_show_after_a_revocation() -> None:
    """The record without its end, to whoever holds nothing newer; nobody else is taken in."""
    leaves, head = record(TURNED, SECOND)
    assert verdict(leaves, head, FIRST) == (True, None)
    _, ended = record([*TURNED, revoked(1)], RECOVERY)
    with pytest.raises(VerificationError, match="ends here"):
        verification.verify(leaves, head, FIRST.public, since=[ended])


def test_no_proof_of_one_entry_goes_on_after_a_revocation() -> None:
    """Nor is one good under a head that does: with the recovery key, whoever signed what follows."""
    revoked = Said(KeyRevoked(last_trusted=1, reason="stolen"), RECOVERY)
    begun = [opened(), *beats(FIRST), revoked]
    cases: list[tuple[list[Said], SigningKey, tuple[int, ...], bool]] = [
        (begun, RECOVERY, (0, 2), True),
        ([*begun, *beats(FIRST)], RECOVERY, (0, 2), False),
        ([*begun, rotated(THIEF, FIRST)], RECOVERY, (0, 2), False),
        ([*begun, rotated(THIEF, FIRST)], RECOVERY, (0, 2, 3), False),
        ([*begun, rotated(THIEF, FIRST)], THIEF, (0, 2, 3), False),
        ([*begun, delegated(THIEF, FIRST, 9)], THIEF, (0, 2, 3), False),
        ([*begun, *beats(FIRST)], RECOVERY, (0, 2, 3), False),
        ([*begun, revoked], RECOVERY, (0, 2, 3), False),
    ]
    expected, told, contents = [], [], []
    for parts, head_key, named, is_good in cases:
        leaves, head = record(parts, head_key)
        first, _, *rest = proof.prove(leaves, head, 1).split(b"\n")
        extra = wire.to_base64(b"\n".join([leaves[1], *(leaves[index] for index in named)]))
        contents.append(b"\n".join([first, f"extra {extra}".encode(), *rest]))
        expected.append(is_good)
        try:
            told.append(proof.verify(contents[-1], FIRST.public).is_trusted)
        except VerificationError:
            told.append(False)
    theirs = judged({"judge": "proof", "data": data(content), "key": FIRST.public.text} for content in contents)
    assert ([said.accepted for said in theirs], told) == (expected, expected)


# ---- the owner ------------------------------------------------------------------------------------------------------


def approved(ask: Callable[..., Any], by: SigningKey, *what: Any) -> Any:
    with pytest.raises(ApprovalNeeded) as needed:
        ask(*what)
    return ask(*what, approval=approvals.approval_of(needed.value.request, by))


def test_an_old_approval_is_none_under_a_new_owner() -> None:
    book = book_of(owner=OWNER)
    open_scope = partial(book.scope, "s", **RULES)
    with pytest.raises(ApprovalNeeded) as needed:
        open_scope()
    unused = approvals.approval_of(needed.value.request, OWNER)
    approved(book.rotate_owner, OWNER, NEW_OWNER.public)
    assert book.owner == NEW_OWNER.public
    with pytest.raises(ParameterError, match="approval"):
        open_scope(approval=unused)
    approved(open_scope, NEW_OWNER)
    with pytest.raises(ParameterError, match="owner"):  # nor does the old owner come back
        approved(book.rotate_owner, NEW_OWNER, OWNER.public)
    both_accept(book, FIRST)


def test_the_recovery_key_replaces_an_owner_s_that_was_lost_and_no_other_does() -> None:
    book = book_of(owner=OWNER)
    for wrong in (FIRST, NEW_OWNER, THIEF):
        with pytest.raises(ParameterError, match="approval"):
            approved(book.rotate_owner, wrong, NEW_OWNER.public)
    approved(book.rotate_owner, RECOVERY, NEW_OWNER.public)
    with pytest.raises(ParameterError, match="approval"):  # it approves nothing else
        approved(partial(book.scope, "s", **RULES), RECOVERY)
    approved(partial(book.scope, "s", **RULES), NEW_OWNER)
    both_accept(book, FIRST)


@pytest.mark.parametrize("by", [OWNER, RECOVERY], ids=["owner", "recovery"])
def test_no_approval_outlives_a_change_of_the_owner(by: SigningKey) -> None:
    """Whoever signed it: the recovery key's of a key that was stolen since would undo the change that came after."""
    book = book_of(owner=OWNER)
    stolen, newest = OTHER_OWNER.public, NEW_OWNER.public
    with pytest.raises(ApprovalNeeded) as needed:
        book.rotate_owner(stolen)
    unused = approvals.approval_of(needed.value.request, by)
    approved(book.rotate_owner, RECOVERY, newest)
    with pytest.raises(ParameterError, match="approval"):
        book.rotate_owner(stolen, approval=unused)
    late = OwnerRotated(owner_key=stolen.text, approval=unused)
    entries = [Said(entry.body, FIRST) for entry in book.entries()]
    assert verdict(*record([*entries, Said(late, FIRST)], FIRST), FIRST) == (False, len(entries))
    approved(book.rotate_owner, RECOVERY, stolen)  # asked again
    both_accept(book, FIRST)


def test_an_owner_s_key_does_not_come_back_under_another_name() -> None:
    book = book_of(owner=OWNER)
    approved(book.rotate_owner, OWNER, NEW_OWNER.public)
    renamed = replace(OWNER.public, name="another.example/owner")
    with pytest.raises(ParameterError, match="none comes back"):
        approved(book.rotate_owner, NEW_OWNER, renamed)
    body = OwnerRotated(owner_key=renamed.text)
    asked = approvals.request_of(NAME, body, owner_changes=1)
    signed = replace(body, approval=approvals.approval_of(asked, NEW_OWNER))
    entries = [Said(entry.body, FIRST) for entry in book.entries()]
    assert verdict(*record([*entries, Said(signed, FIRST)], FIRST), FIRST) == (False, len(entries))


def test_records_with_an_owner_s_key() -> None:
    first = opened(OWNER)
    body = OwnerRotated(owner_key=NEW_OWNER.public.text)
    signed = [
        replace(body, approval=approvals.approval_of(approvals.request_of(NAME, body), key))
        for key in (OWNER, RECOVERY)
    ]
    bad = [
        body,
        replace(body, approval=approvals.approval_of(approvals.request_of(NAME, body), THIEF)),
        replace(signed[0], owner_key=OWNER.public.text),
        OwnerRotated(owner_key=FIRST.public.text, approval=signed[0].approval),
    ]
    for good in signed:
        assert verdict(*record([first, Said(good, FIRST)], FIRST), FIRST) == (True, None)
        assert verdict(*record([first, Said(good, FIRST), Said(good, FIRST)], FIRST), FIRST) == (False, 2)
        assert verdict(*record([opened(), Said(good, FIRST)], FIRST), FIRST) == (False, 1)
    for wrong in bad:
        assert verdict(*record([first, Said(wrong, FIRST)], FIRST), FIRST) == (False, 1)


# ---- the state ------------------------------------------------------------------------------------------------------


def test_a_snapshot_tells_the_keys_and_both_verifiers_fold_the_same() -> None:
    book = Ledger.begin(MemoryStore(), FIRST, RECOVERY.public, owner=OWNER.public, snapshot_every=4)
    book.record(Heartbeat())
    approved(book.rotate_owner, OWNER, NEW_OWNER.public)
    book.rotate_key(Delegating(SECOND, entries=1000))
    for _ in range(6):
        book.record(Heartbeat())
    assert sum(entry.body.kind == "snapshot" for entry in book.entries()) == 3
    assert fold(entry.body for entry in book.entries()) == book.state
    both_accept(book, FIRST, SECOND)
    assert EMPTY.authority is None


def test_the_golden_ledger_of_keys_is_the_golden_one_and_both_verify_it() -> None:
    files = ledger_golden.bundled(ledger_golden.build_keys())
    assert {name: (ledger_golden.KEYS_DATA / name).read_bytes() for name in files} == files
    leaves, head = list(bundle.read(ledger_golden.KEYS_DATA)[0]), files["checkpoint"]
    for key in (ledger_golden.TURNS_KEY, ledger_golden.TURNS_SECOND):
        assert verdict(leaves, head, key) == (True, None)
        assert quick(leaves, head, key)
    for key in (ledger_golden.TURNS_ENTRY, ledger_golden.TURNS_RECOVERY):  # no key of the ledger's own
        assert verdict(leaves, head, key) == (False, None)
    found = verification.verify(leaves, head, ledger_golden.TURNS_KEY.public)
    assert text(found.state.scope("clinic").sums["pure"][0]) == "0.25"  # it came back after the last trusted entry


def test_every_changed_byte_of_it_is_refused_by_both_at_the_same_entry() -> None:
    leaves, head = list(bundle.read(ledger_golden.KEYS_DATA)[0]), bundle.read(ledger_golden.KEYS_DATA)[1]
    content, key = b"".join(leaf + b"\n" for leaf in leaves), ledger_golden.TURNS_KEY
    cases = []
    for place in range(0, len(content), 23):
        flipped = content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]
        cases.append((flipped, head))
    heads = (head[:place] + bytes([head[place] ^ (1 << place % 8)]) + head[place + 1 :] for place in range(len(head)))
    cases += [(content, flipped) for flipped in heads]
    theirs = judged(case_of(entries, signed, key.public.text) for entries, signed in cases)
    for (entries, signed), said in zip(cases, theirs, strict=True):
        with pytest.raises(VerificationError) as refusal:
            verification.verify(bundle.lines(BytesIO(entries)), signed, key.public)
        assert (said.accepted, said.index) == (False, refusal.value.index)
