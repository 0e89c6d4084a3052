"""A witness that is asked over HTTP, as any client of c2sp.org/tlog-witness would."""

from __future__ import annotations

import base64
import hashlib
import http.client
import logging
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import c2sp_reader
import merkle_oracle
from dpledger.errors import ParameterError
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.witnessing import serving, submission
from dpledger.ledger.witnessing.cosigning import CosigningKey
from dpledger.ledger.witnessing.founding import founded, key_beside
from dpledger.ledger.witnessing.serving import WitnessServer
from dpledger.ledger.witnessing.witness_file import WitnessFile
from witnesses import Running, running

LOG = SigningKey.from_seed("clinic/" + "0" * 32, bytes(32))
NEXT = SigningKey.from_seed("clinic/" + "0" * 32, bytes([1]) * 32)  # the next key of the same ledger
LEAVES = [bytes([number]) for number in range(20)]
HASH = hashlib.sha256(LOG.public.name.encode()).hexdigest()


def note(size: int, leaves: list[bytes] = LEAVES, key: SigningKey = LOG) -> bytes:
    return checkpoint.sign(Checkpoint(origin=key.public.name, size=size, root=merkle_oracle.head(leaves[:size])), key)


def proof(old: int, new: int, leaves: list[bytes] = LEAVES) -> list[bytes]:
    return merkle_oracle.proof(old, leaves[:new]) if 0 < old < new else []


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as made:
        made.allow(LOG.public)
        yield made


def asked(witness: Running, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection(*witness.servers[0].server_address[:2], timeout=20)  # type: ignore[arg-type]
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers["Content-Type"]
    connection.close()
    return found


def added(
    witness: Running, old: int, new: int, leaves: list[bytes] = LEAVES, **given: object
) -> tuple[int, bytes, str]:
    sent = {"proof": proof(old, new, leaves), "note": note(new, leaves), **given}
    return asked(witness, "POST", "/add-checkpoint", c2sp_reader.submission(old, sent["proof"], sent["note"]))  # type: ignore[arg-type]


def test_each_answer_is_that_of_the_text(witness: Running) -> None:
    """c2sp.org/tlog-witness, in its order."""
    key = c2sp_reader.Verifier.parse(witness.servers[0].signer.public.text)
    status, line, kind = added(witness, 0, 5)
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert c2sp_reader.opened(note(5) + line, [key])[1] == [key]
    assert added(witness, 0, 7) == (409, b"5\n", "text/x.tlog.size")  # it saw more
    assert added(witness, 6, 7)[:2] == (409, b"5\n")
    assert added(witness, 7, 6)[0] == 400  # an older size that is newer
    assert added(witness, 5, 9)[0] == 200
    assert added(witness, 9, 9)[0] == 200  # again: the same head
    forged = [b"x", *LEAVES[1:]]
    assert added(witness, 9, 9, forged)[0] == 422  # another root of this size
    assert added(witness, 9, 12, forged)[0] == 422
    assert added(witness, 9, 12, proof=[*proof(9, 12), bytes(32)])[0] == 422
    assert added(witness, 9, 12, proof=proof(9, 12)[:-1])[0] == 422
    assert added(witness, 9, 12)[0] == 200
    assert added(witness, 5, 5)[:2] == (409, b"12\n")  # no way back


def test_a_first_head_needs_no_proof_and_must_bring_none(witness: Running) -> None:
    assert added(witness, 0, 5, proof=[bytes(32)])[0] == 422
    assert added(witness, 0, 5)[0] == 200


def test_who_is_unknown_or_signs_falsely_is_refused(witness: Running) -> None:
    stranger = SigningKey.from_seed("other/" + "1" * 32, bytes(32))
    assert added(witness, 0, 5, note=note(5, key=stranger))[0] == 404
    assert added(witness, 0, 5, note=b"not one of ours\n1\n\n\n")[0] == 404
    assert added(witness, 0, 5, note=note(5, key=NEXT))[0] == 403  # this ledger, another key
    signed_for_six = note(6).replace(b"\n6\n", b"\n5\n")
    assert added(witness, 0, 5, note=signed_for_six)[0] == 403
    assert added(witness, 0, 5, note=note(5) + b"garbage\n")[0] == 400
    assert asked(witness, "GET", f"/{HASH}/checkpoint")[0] == 404  # nothing of all that was kept


def test_a_ledger_may_have_another_key_later(witness: Running) -> None:
    assert added(witness, 0, 5)[0] == 200
    witness.allow(NEXT.public)
    assert added(witness, 5, 9, note=note(9, key=NEXT))[0] == 200
    assert added(witness, 9, 12)[0] == 200


def test_the_newest_head_is_served_with_both_signatures(witness: Running) -> None:
    assert asked(witness, "GET", f"/{HASH}/checkpoint")[0] == 404
    stranger = b"\xe2\x80\x94 somebody.example AAAAAAAA\n"
    added(witness, 0, 5, note=note(5) + stranger)
    status, served, _ = asked(witness, "GET", f"/{HASH}/checkpoint")
    keys = [c2sp_reader.Verifier.parse(one) for one in (LOG.public.text, witness.servers[0].signer.public.text)]
    assert (status, c2sp_reader.opened(served, keys)[1]) == (200, keys)
    assert stranger not in served


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("POST", "/add-checkpoint/", 404),
        ("GET", "/add-checkpoint", 404),
        ("GET", "/", 404),
        ("GET", f"/{HASH.upper()}/checkpoint", 404),
        ("GET", "/../etc/passwd", 404),
        ("PUT", "/add-checkpoint", 501),
    ],
)
def test_other_requests_are_refused(witness: Running, method: str, path: str, status: int) -> None:
    assert asked(witness, method, path, b"old 0\n\n" + note(1))[0] == status


def test_bodies_are_bounded(witness: Running) -> None:
    assert asked(witness, "POST", "/add-checkpoint", b"x" * (submission.MAX_BYTES + 1))[0] == 413
    assert asked(witness, "POST", "/add-checkpoint", b"x" * submission.MAX_BYTES)[0] == 400
    for head in (b"", b"Content-Length: -1\r\n", b"Content-Length: 5 \xb2\r\n", b"Transfer-Encoding: chunked\r\n"):
        with socket.create_connection(witness.servers[0].server_address[:2]) as raw:  # type: ignore[arg-type]
            raw.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\n" + head + b"\r\n5\r\nold 0\r\n")
            assert raw.makefile("rb").readline().split()[1] in (b"411", b"400")
    assert added(witness, 0, 5)[0] == 200


def test_who_is_too_slow_is_left(witness: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SECONDS", 0.2)
    with socket.create_connection(witness.servers[0].server_address[:2]) as raw:  # type: ignore[arg-type]
        raw.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\nold")
        raw.settimeout(20)
        with raw.makefile("rb") as stream:
            assert b"200" not in stream.read()  # to its end
    assert added(witness, 0, 5)[0] == 200


@pytest.mark.parametrize(
    "begun",
    [b"GET / HTTP/1.1\r\n", b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\n", b"G"],
    ids=["headers", "body", "line"],
)
def test_a_byte_now_and_then_does_not_hold_a_place(
    witness: Running, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(serving, "SECONDS", 0.5)
    with socket.create_connection(witness.servers[0].server_address[:2]) as raw:  # type: ignore[arg-type]
        raw.sendall(begun)
        begun_at = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < begun_at + 10:
                raw.sendall(b"a")
                time.sleep(0.1)
    assert time.monotonic() < begun_at + 5


def test_an_answer_that_nobody_takes_does_not_hold_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SECONDS", 0.5)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answer = serving._Whole(ours)
        answer.write(b"x" * 10**8)
        stopped = threading.Event()

        def trickle() -> None:
            while not stopped.wait(0.1):
                theirs.recv(1)

        taking = threading.Thread(target=trickle, daemon=True)
        taking.start()
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            answer.flush()
        assert time.monotonic() - begun < 5
        stopped.set()
        taking.join()


def test_where_all_places_are_taken_each_is_free_after_its_answer(witness: Running) -> None:
    witness.servers[0]._places = threading.BoundedSemaphore(1)
    with socket.create_connection(witness.servers[0].server_address[:2]) as raw:  # type: ignore[arg-type]
        raw.settimeout(5)  # less than a silent connection is kept
        raw.sendall(b"GET / HTTP/1.1\r\nHost: w\r\n\r\n")
        with raw.makefile("rb") as stream:
            assert b"Connection: close" in stream.read()  # to its end


def test_only_lines_that_may_count_are_kept(witness: Running) -> None:
    """Of the ledger's name: those of keys that it knows, and one of a key to which they may delegate."""

    def line(number: int, size: int = 64) -> bytes:
        junk = base64.b64encode(bytes([number]) * (4 + size)).decode()
        return f"\u2014 {LOG.public.name} {junk}\n".encode()

    def kept() -> list[bytes]:
        served = asked(witness, "GET", f"/{HASH}/checkpoint")[1]
        return [line(number) for number in range(9) if line(number) in served]

    assert added(witness, 0, 5, note=note(5) + line(1) + line(2))[0] == 200
    assert kept() == []
    assert added(witness, 5, 5, note=note(5) + line(3))[0] == 200  # later than what is kept of this size
    assert kept() == []
    assert added(witness, 5, 6, note=note(6) + line(4, 65))[0] == 200
    assert line(4, 65) not in asked(witness, "GET", f"/{HASH}/checkpoint")[1]
    assert added(witness, 6, 7, note=note(7) + line(5))[0] == 200
    assert kept() == [line(5)]
    assert added(witness, 7, 7, note=note(7) + line(6))[0] == 200
    assert kept() == [line(5)]
    checkpoint.verify(asked(witness, "GET", f"/{HASH}/checkpoint")[1], LOG.public)


def test_too_many_at_once_are_not_heard(witness: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    witness.servers[0]._places = threading.BoundedSemaphore(2)
    idle = [socket.create_connection(witness.servers[0].server_address[:2]) for _ in range(2)]  # type: ignore[arg-type]
    until = time.monotonic() + 10
    while not witness.servers[0].is_full() and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        asked(witness, "GET", "/")
    for one in idle:
        one.close()


def test_of_requests_at_once_one_is_first(witness: Running) -> None:
    """The race that the text warns of: twenty heads from one size, of two histories."""
    assert added(witness, 0, 5)[0] == 200
    other = [*LEAVES[:5], *(b"other" + leaf for leaf in LEAVES[5:])]
    answers: list[int] = []

    def ask(number: int) -> None:
        leaves = (LEAVES, other)[number % 2]
        answers.append(added(witness, 5, 6 + number // 2, leaves)[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(answers) == [200] + [409] * 19


def test_nothing_of_a_request_is_logged(
    witness: Running, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        added(witness, 0, 5)
        added(witness, 3, 5)
        asked(witness, "GET", "/secret")
        asked(witness, "PUT", "/secret")
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_what_was_cosigned_is_on_the_disk(tmp_path: Path) -> None:
    """A witness that is killed and started again, in one file, remembers: nothing lies beside it."""
    with running(tmp_path) as made:
        made.allow(LOG.public)
        assert added(made, 0, 5)[0] == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w0.witness"]
    with running(tmp_path) as made:
        assert added(made, 0, 4)[:2] == (409, b"5\n")


def test_a_full_disk_cosigns_nothing(witness: Running) -> None:
    assert added(witness, 0, 5)[0] == 200
    witness.files[0]._database.execute("PRAGMA query_only = ON")
    assert added(witness, 5, 6)[0] == 503
    witness.files[0]._database.execute("PRAGMA query_only = OFF")
    assert added(witness, 5, 6)[0] == 200


def test_a_witness_is_made_whole_for_its_owner_alone(tmp_path: Path) -> None:
    made = founded(tmp_path / "w", "w.example/w", "https://w.example/")
    assert key_beside(tmp_path / "w").public == made.public
    assert stat.S_IMODE(made.key.stat().st_mode) == stat.S_IMODE((tmp_path / "w").stat().st_mode) == 0o600
    with pytest.raises(ParameterError, match="nothing exists yet"):
        founded(tmp_path / "w", "w.example/w", "https://w.example/")
    made.key.chmod(0o644)
    with pytest.raises(ParameterError, match="0600"):
        key_beside(tmp_path / "w")
    for name, url in (("a b", "https://w.example/"), ("w+w", "https://w.example/"), ("w", "ftp://w.example/")):
        with pytest.raises(ParameterError):
            founded(tmp_path / "other", name, url)
    assert not list(tmp_path.glob("other*"))


def test_other_files_are_no_witness(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="witness init"):
        WitnessFile(tmp_path / "nothing")
    (tmp_path / "text").write_text("no database, but long enough to be read as one" * 20)
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.executescript("CREATE TABLE a (b)")
    for name in ("text", "other"):
        with pytest.raises(ParameterError, match="witness init"):
            WitnessFile(tmp_path / name)


def test_a_port_that_is_taken_is_told(witness: Running) -> None:
    port = witness.servers[0].server_address[1]
    with pytest.raises(ParameterError, match="an address to listen on"):
        WitnessServer(witness.files[0], CosigningKey.generate("w"), host="256.0.0.1", port=port)
    with pytest.raises(ParameterError, match="an address to listen on"):
        WitnessServer(witness.files[0], CosigningKey.generate("w"), port=70_000)
    for host in ("", "\udcff", "a\0b", "a" * 300):
        with pytest.raises(ParameterError):
            WitnessServer(witness.files[0], CosigningKey.generate("w"), host=host)
