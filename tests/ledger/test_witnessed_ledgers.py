"""A ledger that names witnesses reads no data before a quorum has cosigned that it will. What nobody could see without
one, `test_remembered_heads` says: a copy on another machine, a clone, a fork."""

from __future__ import annotations

import gc
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import c2sp_reader
import dpledger as dpl
from dpledger.errors import NotWitnessed, ParameterError, StoreBehind, StoreFailure, VerificationError
from dpledger.ledger.entries.bodies import Committed, Progress, Reserved, Started
from dpledger.ledger.entries.entry import entry_of
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import verification
from dpledger.ledger.witnessing import watch
from dpledger.ledger.witnessing.asking import Asker, Silent
from dpledger.ledger.witnessing.cosigning import CosigningKey
from dpledger.ledger.witnessing.policy import Watcher, WitnessPolicy
from dpledger.ledger.witnessing.submission import Submission
from dpledger.ledger.witnessing.witness_file import Said
from dpledger.mechanisms.protocol import Release
from forking import ignores_fork_warnings, in_child
from interrupting import Lines
from ledger_mechanisms import Once, laplace, stream, training
from witnesses import Running, running, scope_of, witnessed

STEP = 29  # lines between two interrupts: over the cases they fall on different ones
MOST_LINES = 1500
KEY = SigningKey.generate("clinic/" + "0" * 32)
RECOVERY = SigningKey.generate(KEY.public.name)


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(watch, "SECONDS", 3.0)
    with running(tmp_path) as made:
        yield made


@pytest.fixture
def book(witness: Running) -> Iterator[Ledger]:
    """A ledger in memory, whose witness allows it."""
    witness.allow(KEY.public)
    with Ledger.begin(MemoryStore(), KEY, RECOVERY.public, witnesses=witness.policy) as made:
        yield made


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on this is another machine, or another user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


def two_clones(folder: Path, witness: Running) -> tuple[Path, Path]:
    """A ledger, and a copy of it with its signing key."""
    path, clone = witnessed(folder / "clinic.ledger", witness), folder / "clone.ledger"
    for suffix in ("", ".key"):
        shutil.copy(f"{path}{suffix}", f"{clone}{suffix}")
    return path, clone


def kinds(book: Ledger) -> list[str]:
    return [entry.body.kind for entry in book.entries()]


def reading(seen: list[Any], epsilon: str = "0.1") -> Once:
    """Tells in `seen` when it reads data."""

    def run(data: Any, parts: Any) -> Release[Any]:
        seen.append(data)
        return Release(value=data, parts=parts)

    return replace(laplace(epsilon), run=run)


# ---- what could not be seen ----------------------------------------------------------------------------------------


def test_a_copy_that_is_restored_on_other_machines_releases_nothing(
    tmp_path: Path, witness: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a witness it releases 9 of a budget of 3 (`test_on_another_machine_nobody_notices`)."""
    path, kept = witnessed(tmp_path / "clinic.ledger", witness), tmp_path / "kept"
    shutil.copy(path, kept)
    released = 0
    for restored in range(3):
        elsewhere(monkeypatch, tmp_path / f"machine{restored}")
        shutil.copy(kept, path)
        with Ledger.open(path) as book:
            for _ in range(3):
                with suppress(StoreBehind):
                    scope_of(book).release(laplace("1"), 1)
                    released += 1
            assert len(book) == (8 if not restored else 2)  # and nothing was charged
    assert released == 3


def test_of_two_clones_one_goes_on(tmp_path: Path, witness: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clone = two_clones(tmp_path, witness)
    one = Ledger.open(path)
    elsewhere(monkeypatch, tmp_path / "there")
    other = Ledger.open(clone)
    seen: list[Any] = []
    mechanism = reading(seen, "1")
    scope_of(one).release(laplace("1"), 1)
    with pytest.raises(StoreBehind, match="another copy went on"):
        scope_of(other).release(mechanism, 1)
    scope_of(one).release(laplace("1"), 1)
    assert (len(one), len(other), seen) == (6, 2, [])
    one.close()
    other.close()


def test_a_fork_of_the_same_length_is_refused(
    tmp_path: Path, witness: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is copied as it runs: both handles were answered before."""
    path, clone = two_clones(tmp_path, witness)
    one = Ledger.open(path)
    elsewhere(monkeypatch, tmp_path / "there")
    other = Ledger.open(clone)
    for book in (one, other):
        book.cosigned()
    seen: list[Any] = []
    mechanism = reading(seen, "1")
    scope_of(one).release(laplace("1"), 1)
    with pytest.raises(StoreBehind, match="went on"):
        scope_of(other).release(mechanism, 1)
    assert seen == []
    assert kinds(other)[2:] == ["reserved"]  # in the copy, which goes on no more
    one.close()
    other.close()


def test_a_longer_fork_is_refused_by_its_proof(
    tmp_path: Path, witness: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clone = two_clones(tmp_path, witness)
    with Ledger.open(path) as one:
        scope_of(one).release(laplace("1"), 1)
    elsewhere(monkeypatch, tmp_path / "there")
    with Ledger.open(clone) as other:
        for _ in range(8):
            other.declare("accuracy", f"words {_}", by="me")
        with pytest.raises(StoreBehind, match="went on by itself"):
            scope_of(other).release(laplace("1"), 1)
        with pytest.raises(StoreBehind, match="went on by itself"):
            other.cosigned()


# ---- before data are read -------------------------------------------------------------------------------------------


def test_data_are_read_once_the_head_with_the_reservation_is_cosigned(book: Ledger, witness: Running) -> None:
    sizes: list[tuple[int, list[int]]] = []
    seen: list[Any] = []
    mechanism = reading(seen)
    witness.files[0].first = lambda sent: sizes.append((int(sent.note.split(b"\n")[1]), list(seen)))
    scope = scope_of(book)
    scope.release(mechanism, 7)
    scope.release(mechanism, 8)
    # before the first: what there is; then each reservation, before its data
    assert sizes[:2] == [(2, []), (3, [])]
    assert (5, [7]) in sizes
    assert sizes[-1] == (5, [7])
    assert seen == [7, 8]


def test_a_session_is_cosigned_once(book: Ledger, witness: Running) -> None:
    scope = scope_of(book)
    book.cosigned()
    before = witness.files[0].asked
    with scope.open(stream("0.5"), None) as session:
        session.ask(0)
        session.ask(0)
    assert witness.files[0].asked == before + 1
    assert book.verify().head.size == len(book)


def test_steps_are_cosigned_by_their_blocks(book: Ledger, witness: Running) -> None:
    scope = book.scope("t", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    book.cosigned()
    before = witness.files[0].asked
    with scope.open(training(steps=40), None) as run:
        for _ in run.steps():
            run.ask(None)
    granted = kinds(book).count("progress")
    assert witness.files[0].asked == before + 1 + granted


def test_what_reads_no_data_asks_nobody(book: Ledger, witness: Running) -> None:
    scope = scope_of(book)
    with scope.reserve(laplace()):
        pass  # given back
    scope.charge(dpl.PureDP("0.1"), by="me", reason="a survey", relation="add_remove")
    with pytest.raises(dpl.BudgetRefused):
        scope.release(laplace("9"), 1)
    book.declare("accuracy", "words", by="me")
    assert witness.files[0].asked == 0


def test_callers_at_once_share_a_question(book: Ledger, witness: Running) -> None:
    """While one question is under way the others append; the next one is for all of them."""
    book.cosigned()
    before = witness.files[0].asked
    witness.files[0].first = lambda _: time.sleep(0.1)
    scope, count = scope_of(book), 16
    errors: list[BaseException] = []

    def release() -> None:
        try:
            scope.release(laplace("0.1"), 1)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=release) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    assert kinds(book).count("committed") == count
    assert witness.files[0].asked - before < count
    assert book.verify().head.size == len(book)


# ---- witnesses that do not answer -----------------------------------------------------------------------------------


def failing(status: Any) -> Any:
    return lambda _: Said(status)


def test_a_witness_that_cannot_be_reached_stops_everything_before_it_is_charged(
    tmp_path: Path, witness: Running
) -> None:
    path = witnessed(tmp_path / "clinic.ledger", witness)
    witness.stop()
    seen: list[Any] = []
    mechanism = reading(seen)
    with Ledger.open(path) as book:
        for _ in range(2):
            with pytest.raises(NotWitnessed, match=r"0 of 1 .* w0 cannot be reached .*; no data were read"):
                scope_of(book).release(mechanism, 7)
        assert (seen, kinds(book)) == ([], ["ledger_opened", "scope_opened"])
        assert scope_of(book).spent().upper == 0


def test_a_witness_that_goes_away_costs_the_one_charge_it_was_asked_about(book: Ledger, witness: Running) -> None:
    seen: list[Any] = []
    scope, mechanism = scope_of(book), reading(seen, "0.5")
    scope.release(laplace("0.5"), 1)
    witness.files[0].first = failing(503)
    with pytest.raises(NotWitnessed, match="HTTP status 503") as error:
        scope.release(mechanism, 7, key="again")
    assert error.value.__notes__ == ["laplace: the charge stands at its cap; its key is used up"]
    for _ in range(3):  # nothing more is charged
        with pytest.raises(NotWitnessed):
            scope.release(mechanism, 7)
    assert (seen, kinds(book)[4:]) == ([], ["reserved", "committed"])
    assert scope.spent().lower <= 1 <= scope.spent().upper
    witness.files[0].first = lambda _: None
    scope.release(mechanism, 7)
    assert seen == [7]
    assert book.verify().head.size == 8


def test_a_reservation_whose_start_nobody_cosigned_is_no_more_than_charged(book: Ledger, witness: Running) -> None:
    seen: list[Any] = []
    scope, mechanism = scope_of(book), reading(seen, "0.5")
    witness.files[0].first = failing(403)
    held = scope.reserve(mechanism)
    with pytest.raises(NotWitnessed, match="does not know the key that signed the head") as error:
        held.release(7)
    assert error.value.__notes__[0].endswith(
        "the charge was given back whole, since no data were read; its key is used up"
    )
    witness.files[0].first = lambda _: None
    book.cosigned()
    witness.files[0].first = failing(403)
    held = scope.reserve(mechanism)
    with pytest.raises(NotWitnessed) as error:
        held.release(7)
    assert error.value.__notes__[0].endswith("the charge stands at its cap; its key is used up")
    assert seen == []
    assert kinds(book)[2:] == ["reserved", "aborted", "reserved", "started", "committed"]


def test_a_block_of_steps_that_nobody_cosigned_is_granted_once_somebody_did(book: Ledger, witness: Running) -> None:
    """A grant that is said again appends nothing: it is cosigned all the same, before a step runs."""
    scope = book.scope("t", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    with scope.open(training(steps=40), None) as run:
        witness.files[0].first = failing(503)
        for _ in range(2):
            with pytest.raises(NotWitnessed):
                run.ask(None)
        assert (run.asked, kinds(book)[-1]) == (0, "progress")
        before = witness.files[0].asked
        witness.files[0].first = lambda _: None
        run.ask(None)
        assert (run.asked, witness.files[0].asked) == (1, before + 1)


@pytest.mark.parametrize(
    "answer",
    [
        Said(200, b""),
        Said(200, b"\xe2\x80\x94 w0.example/w AAAAAAAAAAA=\n"),
        Said(200, b"no line at all"),
        Said(200, b"\xff" * 70_000),
        Said(409, b"02\n"),
        Said(409, b"9" * 30 + b"\n"),
        Said(400),
        Said(404),
    ],
)
def test_a_witness_that_answers_anything_else_releases_nothing(book: Ledger, witness: Running, answer: Said) -> None:
    seen: list[Any] = []
    mechanism = reading(seen)
    witness.files[0].first = lambda _: answer
    with pytest.raises(NotWitnessed, match="0 of 1"):
        scope_of(book).release(mechanism, 7)
    assert (seen, len(book)) == ([], 2)


def test_another_key_than_that_of_the_policy_counts_for_nothing(book: Ledger, witness: Running) -> None:
    mine = witness.servers[0].signer
    forged = c2sp_reader.cosigned(book.head.partition(b"\n\n")[0] + b"\n", mine.public.name, b"7" * 32, 1)
    witness.files[0].first = lambda _: Said(200, forged)
    with pytest.raises(NotWitnessed, match="did not sign with the key that the policy names"):
        book.cosigned()


def test_a_slow_witness_is_waited_for_no_longer_than_said(
    book: Ledger, witness: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    book._watch = watch.HeadWatch(witness.policy, book._store, lambda: book._head.tree, seconds=0.3)
    stop = threading.Event()

    def waits(_: object) -> None:
        stop.wait(20)

    witness.files[0].first = waits
    with pytest.raises(NotWitnessed, match="no answer in time"):
        scope_of(book).release(laplace(), 7)
    with pytest.raises(NotWitnessed, match=r"busy with an earlier head|no answer in time"):
        scope_of(book).release(laplace(), 7)
    stop.set()


@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n",
        b"H",
    ],
    ids=["100 Continue", "a byte now and then", "closing", "line"],
)
def test_an_answer_without_an_end_is_left(book: Ledger, endless: bytes) -> None:
    """The asker is free afterwards, though a byte came all the time."""

    def answer(server: socket.socket) -> None:
        with suppress(OSError), server.accept()[0] as connection:
            begins = 50 if endless.startswith(b"HTTP/1.1 100") else 1
            for number in range(50):
                connection.sendall(endless if number < begins else b"a")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        key = CosigningKey.generate("w").public
        asker = Asker(Watcher("w", key, f"http://127.0.0.1:{server.getsockname()[1]}/"), seconds=0.5)
        begun = time.monotonic()
        assert asker.ask(Submission(0, (), book.head)) == Silent("cannot be reached (no answer in time)")
        assert time.monotonic() - begun < 2
        asker.close()


def test_a_witness_that_claims_to_have_seen_more_stops_a_release_and_no_more(book: Ledger, witness: Running) -> None:
    """All that a false witness can do is refuse."""
    witness.files[0].first = lambda _: Said(409, b"999\n")
    with pytest.raises(StoreBehind, match="saw 999 entries"):
        scope_of(book).release(laplace(), 7)
    witness.files[0].first = lambda _: None
    scope_of(book).release(laplace(), 7)


# ---- quorums --------------------------------------------------------------------------------------------------------


def test_two_of_three_are_enough(tmp_path: Path) -> None:
    with running(tmp_path, 3, 2) as three, Ledger.open(witnessed(tmp_path / "clinic.ledger", three)) as book:
        three.files[2].first = failing(503)
        scope_of(book).release(laplace(), 7)
        known = [c2sp_reader.Verifier.parse(one.signer.public.text) for one in three.servers]
        assert len(c2sp_reader.opened(book.cosigned(), known)[1]) >= 2
        three.files[1].first = failing(503)
        seen: list[Any] = []
        mechanism = reading(seen)
        with pytest.raises(NotWitnessed, match=r"1 of 3 witnesses cosigned, too few: w1 refused .*; w2 refused"):
            scope_of(book).release(mechanism, 7)
        assert seen == []


def test_a_witness_that_was_away_catches_up(tmp_path: Path) -> None:
    with running(tmp_path, 3, 2) as three, Ledger.open(witnessed(tmp_path / "clinic.ledger", three)) as book:
        for away in (0, 1, 2, 0, 1, 2):
            for number, file in enumerate(three.files):
                file.first = failing(503) if number == away else lambda _: None
            scope_of(book).release(laplace(), 7)
        assert kinds(book).count("committed") == 6


def test_a_clone_with_a_minority_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three witnesses lost its file: the other two know better."""
    with running(tmp_path, 3, 2) as three:
        path, kept = witnessed(tmp_path / "clinic.ledger", three), tmp_path / "kept"
        shutil.copy(path, kept)
        three.files[0].first = failing(503)  # the quorum is the other two: who answers after one may never see its head
        with Ledger.open(path) as book:
            scope_of(book).release(laplace(), 7)
        elsewhere(monkeypatch, tmp_path / "there")
        shutil.copy(kept, path)
        three.files[0]._database.execute("DELETE FROM heads")
        three.files[0].first = lambda _: None
        with Ledger.open(path) as book, pytest.raises(StoreBehind):
            scope_of(book).release(laplace(), 7)


# ---- interrupts, threads, forks -------------------------------------------------------------------------------------


@pytest.mark.sliced
@pytest.mark.parametrize("start", range(0, STEP, 4))
def test_an_interrupt_while_a_witness_is_asked_loses_nothing(book: Ledger, witness: Running, start: int) -> None:
    """Ctrl-C before lines of the ledger in turn: whatever was handed out is in the record, the charge of what was not
    is ended, and nothing is read that no witness knows of."""
    scope = book.scope("many", unit="patient", relation="add_remove", budget=dpl.PureDP(1000))
    scope.release(laplace(), 7)
    handed_out, target, is_told = 0, start, True
    while is_told and target < MOST_LINES:
        receipts: list[Any] = []
        seen: list[Any] = []
        lines = Lines(target, (watch.__file__,))
        mechanism = reading(seen)
        lines.run(lambda one=mechanism, told=receipts: told.append(scope.release(one, 7)))  # type: ignore[misc]
        is_told, target = lines.has_raised, target + STEP
        handed_out += len(receipts)
        if seen:  # then a witness knows of the last charge
            size = witness.files[0]._database.execute("SELECT size FROM heads").fetchone()[0]
            later = [entry_of(leaf).body for leaf in book._store.leaves(size, len(book))]
            assert not any(isinstance(body, (Reserved, Started)) for body in later)
        assert scope.release(laplace(), 7).entry.body.kind == "committed"
    assert not is_told, "more lines than were interrupted"
    assert book.state.open == {}
    assert kinds(book).count("committed") >= handed_out
    assert book.verify().head.size == len(book)


def test_a_handler_that_uses_the_ledger_as_a_witness_is_asked_is_refused(book: Ledger, witness: Running) -> None:
    scope = scope_of(book)
    book.cosigned()
    found: list[type[BaseException]] = []

    def inner() -> None:
        try:
            scope.release(laplace(), 1)
        except StoreFailure as error:
            found.append(type(error))

    original = book._watch
    assert original is not None
    asked = original._answers

    def interrupted(*given: Any) -> Any:
        inner()
        return asked(*given)

    original._answers = interrupted  # type: ignore[method-assign, assignment]
    assert scope.release(laplace(), 7).entry.body.kind == "committed"
    assert found == [StoreFailure]
    assert kinds(book).count("reserved") == 1


def test_a_turn_that_an_interrupt_left_behind_ends(book: Ledger, witness: Running) -> None:
    """In another thread, which has ended."""
    book._watch = mine = watch.HeadWatch(witness.policy, book._store, lambda: book._head.tree)
    left = mine._turn
    thread = threading.Thread(target=left.acquire)
    thread.start()
    thread.join()
    mine._turn = SimpleNamespace(acquire=lambda timeout: left.acquire(timeout=timeout / 100))  # type: ignore[assignment]
    assert scope_of(book).release(laplace(), 7).entry.body.kind == "committed"


@ignores_fork_warnings
def test_a_forked_child_asks_nobody(book: Ledger, witness: Running) -> None:
    scope = scope_of(book)
    scope.release(laplace(), 7)
    before = witness.files[0].asked
    assert in_child(lambda: scope.release(laplace(), 7)).startswith("ForkedProcess")
    assert in_child(book.cosigned).startswith("ForkedProcess")
    assert witness.files[0].asked == before
    scope.release(laplace(), 7)


def test_many_handles_of_one_file_go_on_together(tmp_path: Path, witness: Running) -> None:
    """As processes would: each learns from the witness how far the others are."""
    path = witnessed(tmp_path / "clinic.ledger", witness)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with Ledger.open(path) as mine:
                for _ in range(4):
                    scope_of(mine).release(laplace("0.05"), 1)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    with Ledger.open(path) as book:
        assert kinds(book).count("committed") == 16
        assert book.verify(since=[book.cosigned()], witnesses=witness.policy).unwitnessed == 0


# ---- the policy -----------------------------------------------------------------------------------------------------


def test_the_policy_is_in_the_first_entry_and_binds_whoever_opens_the_file(tmp_path: Path, witness: Running) -> None:
    path = witnessed(tmp_path / "clinic.ledger", witness)
    opened = next(iter(Ledger.open(path).entries())).body
    assert (opened.witness, opened.witness_policy) == ("before", witness.policy.text)  # type: ignore[union-attr]
    witness.stop()
    with Ledger.open(path) as book, pytest.raises(NotWitnessed):  # nobody said `witnesses=`
        scope_of(book).release(laplace(), 7)


def test_witnesses_may_move_and_not_change(tmp_path: Path, witness: Running) -> None:
    path, file = tmp_path / "clinic.ledger", tmp_path / "policy"
    nowhere = WitnessPolicy.parse(witness.policy.text.replace(witness.servers[0].url, "http://127.0.0.1:9/"))
    with Ledger.create(path, witnesses=nowhere) as book:
        witness.allow(book.public_key)
        with pytest.raises(NotWitnessed):
            scope_of(book).release(laplace(), 7)
    file.write_text(witness.policy.text)
    with Ledger.open_or_create(path, witnesses=file) as book:
        scope_of(book).release(laplace(), 7)
    with running(tmp_path / "..", 1) as other, pytest.raises(ParameterError, match="that of the ledger"):
        Ledger.open_or_create(path, witnesses=other.policy)
    plain = tmp_path / "plain.ledger"
    Ledger.create(plain).close()
    with pytest.raises(ParameterError, match="that of the ledger"):
        Ledger.open_or_create(plain, witnesses=file)
    with Ledger.open(plain) as book, pytest.raises(ParameterError, match="made with `witnesses=`"):
        book.cosigned()


# ---- verifying ------------------------------------------------------------------------------------------------------


def test_a_verifier_sees_who_saw_it_and_until_where(tmp_path: Path, witness: Running) -> None:
    path = witnessed(tmp_path / "clinic.ledger", witness)
    with Ledger.open(path) as book:
        scope_of(book).release(laplace(), 7)
        cosigned = book.cosigned()
        new = book.verify(since=[cosigned], witnesses=witness.policy)
        assert (new.witnessed, new.unwitnessed, new.is_own) == (4, 0, False)
        assert [one.key for one in new.seen] == [witness.servers[0].signer.public]
        assert abs(new.seen[0].time - time.time()) < 3600
        scope_of(book).release(laplace(), 7)
        later = book.verify(since=[cosigned], witnesses=witness.policy.keys[0].text)
        assert (later.witnessed, later.unwitnessed) == (4, 2)
        assert book.verify(since=[cosigned]).seen == ()  # nobody's key was given: it is a head as any other
        with pytest.raises(VerificationError, match="too few"):
            book.verify(since=[book.head], witnesses=witness.policy)
        stranger = witness.policy.keys[0].text.replace("w0.example", "w1.example")
        with pytest.raises(ParameterError):
            book.verify(since=[cosigned], witnesses=stranger)
        for kept in ([], [checkpoint.parse_unverified(cosigned)[0]]):  # nothing that a witness could have cosigned
            with pytest.raises(ParameterError, match="expected the bytes of a checkpoint that witnesses cosigned"):
                book.verify(since=kept, witnesses=witness.policy)


def test_a_copy_that_lost_what_a_witness_saw_does_not_verify(tmp_path: Path, witness: Running) -> None:
    path = witnessed(tmp_path / "clinic.ledger", witness)
    with Ledger.open(path) as book:
        leaves, head = list(book.leaves()), book.head
        scope_of(book).release(laplace(), 7)
        cosigned, key = book.cosigned(), book.public_key
    from dpledger.ledger.verifying.seen import read_cosigned

    found = read_cosigned(cosigned, witness.policy)
    with pytest.raises(VerificationError, match="the record ends here"):
        verification.verify(leaves, head, key, since=[found.head])


def test_a_ledger_that_nobody_closed_leaves_no_connection_to_a_witness(tmp_path: Path, witness: Running) -> None:
    path = witnessed(tmp_path / "clinic.ledger", witness)
    book = Ledger.open(path)
    scope_of(book).release(laplace(), 7)
    vars(book)["cycle"] = [book]
    del book
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gc.collect()
    assert not [str(one.message) for one in told if one.category is ResourceWarning]


def test_every_entry_that_lets_data_be_read_is_asked_about() -> None:
    """The rule by itself: of the kinds that there are, those after which nothing comes back."""
    asked = {Started, Progress}
    assert {one for one in (Started, Progress, Committed) if watch._lets_read(one.__new__(one))} == asked  # type: ignore[arg-type]
