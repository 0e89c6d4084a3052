"""Who started a charge settles it: the secret bits of the redeem show it, its digest in the entries does not."""

from __future__ import annotations

import copy
import hashlib
import pickle
from typing import Any

import pytest

import ledger_golden
from dpledger.accounting.guarantees import ApproxDP
from dpledger.errors import TakenOver
from dpledger.ledger.charging.charges import Attempt
from dpledger.ledger.entries.bodies import Committed, Progress, Reserved, Started
from dpledger.ledger.entries.entry import format_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.capability import Redeem
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.mechanisms.protocol import Release
from forking import ignores_fork_warnings, in_child
from ledger_mechanisms import laplace, training

OWN, OTHER = Redeem(b"the own process."), Redeem(b"another process.")


@pytest.fixture
def book() -> Ledger:
    return Ledger.in_memory()


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))


def two_attempts_at_one_charge(scope: Scope, mechanism: Any) -> tuple[Attempt, Attempt]:
    """What a copied token makes: two processes that know the same reserved charge."""
    scope.reserve(mechanism)
    (charge,) = scope._ledger.state.open
    first, second = (Attempt(scope._ledger, charge, redeem, "laplace") for redeem in (OWN, OTHER))
    return first, second


def test_the_first_redeem_wins_and_it_alone_settles(book: Ledger, scope: Scope) -> None:
    first, second = two_attempts_at_one_charge(scope, laplace())
    first.start()
    size = len(book)
    with pytest.raises(TakenOver, match="another process"):
        second.start()
    with pytest.raises(TakenOver, match="another process"):
        second.commit(Release(value=7, parts=laplace().parts()), keep="value", handed_out=1)
    with pytest.raises(TakenOver, match="another process"):
        second.commit_at_cap(outside_guarantee=False)
    with pytest.raises(TakenOver, match="another process"):
        second.abort()
    assert len(book) == size
    assert first.commit(Release(value=6, parts=laplace().parts()), keep="value", handed_out=1).value == 6
    book.verify()


def test_the_steps_of_a_run_are_granted_to_whoever_started_it(book: Ledger, scope: Scope) -> None:
    scope.reserve(laplace())
    run = scope.open(training(40), None)
    (charge,) = (name for name, held in book.state.open.items() if held.form == "training")
    with pytest.raises(TakenOver, match="another process"):
        Attempt(book, charge, OTHER, "training").grant(2)
    assert run.ask(None) == 1


def test_the_attempt_keeps_the_bits_behind_every_digest_of_its_entries(book: Ledger, scope: Scope) -> None:
    with scope.open(training(40), None) as run:
        run.ask(None)
    kept = run._attempt._redeem
    digests = {body.redeem for body in bodies(book) if isinstance(body, (Reserved, Progress, Committed))}
    assert digests == {kept.digest}
    assert kept.opens(kept.digest)
    held = scope.reserve(laplace())
    held.release(1)
    *_, started, committed = bodies(book)
    assert isinstance(started, Started)
    assert isinstance(committed, Committed)
    assert held._attempt._redeem.opens(started.redeem)
    assert held._attempt._redeem.opens(committed.redeem)
    assert not kept.opens(started.redeem)


def bodies(book: Ledger) -> list[Any]:
    return [entry.body for entry in book.entries()]


def test_the_bits_are_drawn_for_each_attempt_and_are_in_no_entry() -> None:
    drawn: list[bytes] = []

    def draw(count: int) -> bytes:
        drawn.append(hashlib.sha256(bytes([len(drawn)])).digest()[:count])
        return drawn[-1]

    book = Ledger.begin(MemoryStore(), ledger_golden.KEY, ledger_golden.RECOVERY.public, draw=draw)
    scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))
    scope.release(laplace(), 1)
    scope.reserve(laplace()).release(1)
    told = "".join(repr(format_entry(entry)) for entry in book.entries())
    secrets = [token for token in drawn if hashlib.sha256(token).hexdigest() in told]
    assert len(secrets) == len(set(secrets)) == 2
    assert not any(token.hex() in told for token in secrets)


@ignores_fork_warnings
def test_the_bits_open_nothing_in_a_forked_child() -> None:
    assert OWN.opens(OWN.digest)
    assert in_child(lambda: OWN.opens(OWN.digest)).startswith("ForkedProcess: a redeem belongs")


def test_the_bits_show_nowhere_and_do_not_travel() -> None:
    secret = bytes(range(16))
    redeem = Redeem(secret)
    assert secret.hex() not in repr(redeem)
    assert repr(secret) not in f"{redeem} {redeem!r}"
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(redeem)
    with pytest.raises(TypeError, match="does not pickle"):
        copy.deepcopy(redeem)
