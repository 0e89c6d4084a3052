"""Keys that are in no file: a real ssh-agent, and a stub that speaks Vault's protocol. And files that are locked."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import dpledger as dpl
from dpledger import keys
from dpledger.cli import app
from dpledger.errors import DpledgerError, ForeignLedger, NotWitnessed, ParameterError, StoreFailure
from dpledger.ledger.entries.bodies import Heartbeat
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rotating import rotate
from dpledger.ledger.signed.checkpoint import parse_unverified
from dpledger.ledger.signed.keyfiles import KeyFiles, read_public_key, save_owner_key
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.signers import ssh_agent
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import bundle
from javascript_verifier import judged
from ledger_mechanisms import laplace
from vault_server import TOKEN, Vault, vault
from witnesses import Running, running, scope_of, witnessed

pytestmark = pytest.mark.sliced

NAME = "example.org/elsewhere/000102030405060708090a0b0c0d0e0f"
RECOVERY = SigningKey.from_seed(NAME, bytes([2]) * 32)


# ---- ssh-agent ------------------------------------------------------------------------------------------------------


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"no {name}: install it with `apt-get install openssh-client`"
    return found


class Agent:
    """A running ssh-agent, and keys that are made for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "agent")
        self.process = subprocess.Popen(
            [tool("ssh-agent"), "-D", "-a", self.socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not Path(self.socket).exists():
            assert self.process.poll() is None, "the ssh-agent did not start"

    def add(self, comment: str, kind: str = "ed25519") -> None:
        file = self.folder / comment
        subprocess.run([tool("ssh-keygen"), "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(file)], check=True)
        self.run("ssh-add", "-q", str(file))

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, "SSH_AUTH_SOCK": self.socket}
        told = subprocess.run(
            [tool(arguments[0]), *arguments[1:]], env=environment, check=True, capture_output=True, text=True
        )
        return told.stdout


@pytest.fixture
def agent(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    started = Agent(tmp_path_factory.mktemp("a"))
    monkeypatch.setenv("SSH_AUTH_SOCK", started.socket)
    yield started
    started.process.terminate()
    started.process.wait()


def test_a_ledger_is_signed_by_a_real_ssh_agent(agent: Agent) -> None:
    agent.add("clinic")
    signer = keys.SshAgentKey(NAME)
    assert "clinic" not in repr(signer)
    book = Ledger.begin(MemoryStore(), signer, RECOVERY.public)
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    scope.release(dpl.Count(epsilon="0.1", of="rows"), [1, 2])
    assert book.verify(key=signer.public).head.size == 4
    public = base64.b64decode((agent.folder / "clinic.pub").read_text().split()[1])
    assert public.endswith(book.public_key.public)


def test_a_key_is_named_by_its_comment_or_its_fingerprint(agent: Agent) -> None:
    agent.add("one")
    agent.add("two")
    prints = re.findall(r"SHA256:\S+", agent.run("ssh-add", "-l"))
    named = {keys.SshAgentKey(NAME, key).public.key_id for key in ("one", "two")}
    assert named == {keys.SshAgentKey(NAME, key).public.key_id for key in prints}
    assert len(named) == 2
    with pytest.raises(ParameterError, match=r"key: .*one.*two"):
        keys.SshAgentKey(NAME)
    with pytest.raises(ParameterError, match=r"key: .*'three'"):
        keys.SshAgentKey(NAME, "three")


def test_no_comment_stands_for_a_fingerprint(agent: Agent) -> None:
    """Whoever rules a host to which an agent is forwarded can add a key of that name to it."""
    agent.add("one")
    (print_,) = re.findall(r"SHA256:\S+", agent.run("ssh-add", "-l"))
    agent.run("ssh-add", "-q", "-D")
    agent.add("other")
    held = agent.folder / "other"
    subprocess.run([tool("ssh-keygen"), "-q", "-c", "-C", print_, "-f", str(held)], check=True)
    agent.run("ssh-add", "-q", "-D")
    agent.run("ssh-add", "-q", str(held))
    assert print_ in agent.run("ssh-add", "-l").partition(" ")[2].partition(" ")[2]
    with pytest.raises(ParameterError, match="one of the keys of the ssh-agent"):
        keys.SshAgentKey(NAME, print_)


@pytest.mark.parametrize(("kind", "named"), [("ecdsa", "ecdsa-sha2-nistp256"), ("rsa", "ssh-rsa")])
def test_a_key_of_another_type_is_refused_by_name(agent: Agent, kind: str, named: str) -> None:
    agent.add("other", kind)
    for key in (None, "other"):
        with pytest.raises(ParameterError, match=f"ssh-ed25519.*{named}"):
            keys.SshAgentKey(NAME, key)


def test_an_agent_that_is_locked_or_gone_signs_nothing_and_nothing_is_appended(agent: Agent) -> None:
    agent.add("clinic")
    book = Ledger.begin(MemoryStore(), keys.SshAgentKey(NAME), RECOVERY.public)
    agent.run("ssh-add", "-D")
    with pytest.raises(StoreFailure, match="ssh-agent did not sign"):
        book.record(Heartbeat())
    assert len(book) == 1
    agent.run("ssh-add", "-q", str(agent.folder / "clinic"))
    book.record(Heartbeat())
    agent.process.terminate()
    agent.process.wait()
    with pytest.raises(StoreFailure, match="ssh-agent did not sign"):
        book.record(Heartbeat())
    with pytest.raises(ParameterError, match="SSH_AUTH_SOCK"):
        keys.SshAgentKey(NAME)
    book.verify()


def test_without_an_agent_it_is_said_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(ParameterError, match=r"SSH_AUTH_SOCK: .*eval"):
        keys.SshAgentKey(NAME)


@given(st.binary(max_size=200))
def test_whatever_an_agent_answers_is_read_or_refused(answer: bytes) -> None:
    with contextlib.suppress(ssh_agent._Malformed):
        assert len(ssh_agent._strings(answer, 2)) == 2
    with contextlib.suppress(ssh_agent._Malformed):
        assert all(held.blob in answer for held in ssh_agent._listed(answer))


def test_a_signature_that_does_not_hold_is_not_used(tmp_path_factory: pytest.TempPathFactory, agent: Agent) -> None:
    """An agent in between that answers with another signature."""
    agent.add("clinic")
    path = str(tmp_path_factory.mktemp("b") / "between")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()

    def between() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            asked = connection.recv(65536)
            with socket.socket(socket.AF_UNIX) as real:
                real.connect(agent.socket)
                real.sendall(asked)
                answer = bytearray(real.recv(65536))
            if asked[4] == ssh_agent.ASK_SIGNATURE:
                answer[-1] ^= 1
            connection.sendall(answer)
            connection.close()

    threading.Thread(target=between, daemon=True).start()
    try:
        with pytest.raises(StoreFailure, match="did not sign"):
            keys.SshAgentKey(NAME, socket_path=path).sign(b"message")
    finally:
        server.close()


def test_the_command_hands_a_ledger_over_to_the_agent(agent: Agent, tmp_path: Path) -> None:
    agent.add("clinic")
    file = tmp_path / "clinic.ledger"
    Ledger.create(file).close()
    told = CliRunner().invoke(app, ["rotate-key", str(file), "--to", "ssh-agent:clinic"])
    assert told.exit_code == 0, told.output
    with Ledger.open(file, key="ssh-agent:clinic") as book:
        book.record(Heartbeat())
        book.verify()
    with pytest.raises(DpledgerError, match="rotated"):
        Ledger.open(file)


# ---- a KMS ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    with vault() as running:
        monkeypatch.setenv("VAULT_ADDR", running.address)
        monkeypatch.setenv("VAULT_TOKEN", TOKEN)
        yield running


def test_a_kms_is_asked_once_a_session(kms: Vault, tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        first = book.public_key
    assert CliRunner().invoke(app, ["rotate-key", str(file), "--to", "hv:ledger"]).exit_code == 0
    for session in range(2):
        asked = len(kms.signed)
        with Ledger.open(file, key="hv:ledger") as book:
            for _ in range(10):
                book.record(Heartbeat())
            delegations = sum(entry.body.kind == "key_delegated" for entry in book.entries())
        assert len(kms.signed) - asked <= 2  # the delegation, and what was folded until then
        assert delegations == session + 1
    with Ledger.look(file) as book:
        folder = book.export(tmp_path / "bundle")
        assert book.verify(key=first).head.size == len(book)
        newest = book.public_key
    for key in (first, newest):
        bundle.verify(folder, key)


def test_a_kms_that_fails_or_lies_signs_nothing(kms: Vault) -> None:
    signer = keys.KmsKey.at(NAME, "hv:ledger")
    book = Ledger.begin(MemoryStore(), signer, RECOVERY.public)
    kms.wrong = True
    with pytest.raises(StoreFailure, match="no signature of this key"):
        book.record(Heartbeat())
    kms.wrong, kms.sealed = False, True
    with pytest.raises(StoreFailure, match="did not sign"):
        book.record(Heartbeat())
    kms.sealed = False
    book.record(Heartbeat())
    book.verify()


def test_a_version_of_a_key_signs_until_the_ledger_is_rotated_to_the_newest(kms: Vault, tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    Ledger.create(file).close()
    assert CliRunner().invoke(app, ["rotate-key", str(file), "--to", "hv:ledger"]).exit_code == 0
    kms.rotate()
    with pytest.raises(ForeignLedger):
        Ledger.open(file, key="hv:ledger")
    Ledger.open(file, key="hv:ledger/1").close()
    command = ["rotate-key", str(file), "--key", "hv:ledger/1", "--to", "hv:ledger"]
    assert CliRunner().invoke(app, command).exit_code == 0
    with Ledger.open(file, key="hv:ledger/2") as book:
        book.record(Heartbeat())
        book.verify()
    for absent in ("hv:ledger/3", "hv:ledger/1/2", "hv:ledger/one"):
        with pytest.raises(ParameterError):
            keys.KmsKey.at(NAME, absent)


# ---- other signers --------------------------------------------------------------------------------------------------


class Faulty:
    """A signer of somebody's own, which from the third time on does something else than it should."""

    def __init__(self, how: str, since: int) -> None:
        self.key, self.how, self.left, self.last = SigningKey.from_seed(NAME, bytes([1]) * 32), how, since, b""

    @property
    def public(self) -> dpl.keys.VerifyingKey:
        return self.key.public

    def sign(self, message: bytes) -> bytes:
        right, before, self.left = self.key.sign(message), self.last, self.left - 1
        self.last = right
        if self.left > 0:
            return right
        match self.how:
            case "malleable":  # s + the order of the group, which some verifiers take
                order = 2**252 + 27742317777372353535851937790883648493
                s = int.from_bytes(right[32:], "little") + order
                return right[:32] + s.to_bytes(32, "little")
            case "old":
                return before
            case "another's":
                return RECOVERY.sign(message)
            case "text":
                return right.hex()  # type: ignore[return-value]
            case _:
                raise AssertionError(self.how)


@pytest.mark.parametrize("since", range(1, 9))
@pytest.mark.parametrize("how", ["malleable", "old", "another's", "text"])
def test_nothing_is_written_that_a_signer_did_not_sign(how: str, since: int) -> None:
    signer, store = Faulty(how, since + 3), MemoryStore()
    book = Ledger.begin(store, signer, RECOVERY.public)
    with pytest.raises(StoreFailure, match="no signature of its key"):
        [book.record(Heartbeat()) for _ in range(10)]
    signer.left = 10**9
    book.record(Heartbeat())
    book.verify()
    Ledger.resume(store, signer.key).verify()


def test_what_is_no_key_of_a_kms_is_refused_without_its_token(kms: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    for uri in ("hv:other", "gcpkms:projects/x", "file:secret"):
        with pytest.raises(ParameterError) as refused:
            keys.KmsKey.at(NAME, uri)
        assert TOKEN not in str(refused.value)
    monkeypatch.setenv("VAULT_TOKEN", "hvs.another")
    with pytest.raises(ParameterError) as refused:
        keys.KmsKey.at(NAME, "hv:ledger")
    assert "hvs" not in str(refused.value)


def test_a_key_of_another_type_in_a_kms_is_refused_by_name() -> None:
    class Theirs:
        class public_key:
            keytype = "ecdsa"
            keyval: ClassVar[dict[str, str]] = {}

    with pytest.raises(ParameterError, match=r"Ed25519.*ecdsa"):
        keys.KmsKey(NAME, Theirs())  # type: ignore[arg-type]


# ---- before witnesses -----------------------------------------------------------------------------------------------


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as made:
        yield made


def test_after_a_rotation_nothing_is_charged_before_the_witness_was_told_of_the_key(
    tmp_path: Path, witness: Running, agent: Agent
) -> None:
    file = witnessed(tmp_path / "clinic.ledger", witness)
    agent.add("clinic")
    with Ledger.open(file) as book:
        scope_of(book).release(laplace(), 7)
        for successor in (SigningKey.generate(book.id), keys.SshAgentKey(book.id, "clinic")):
            before = book.public_key
            book.rotate_key(successor)
            charged = len(book)
            for _ in range(2):
                with pytest.raises(NotWitnessed, match="dpledger witness allow"):
                    scope_of(book).release(laplace(), 7)
            assert len(book) == charged
            witness.allow(book.public_key)
            scope_of(book).release(laplace(), 7)
            assert witness.files[0].forget(before)
            assert not witness.files[0].forget(before)
            scope_of(book).release(laplace(), 7)
            assert book.verify(since=[book.cosigned()], witnesses=witness.policy).unwitnessed == 0


def test_a_witness_takes_heads_of_a_delegated_key_that_the_key_it_knows_signed_too(
    tmp_path: Path, witness: Running, kms: Vault
) -> None:
    file = witnessed(tmp_path / "clinic.ledger", witness)
    assert CliRunner().invoke(app, ["rotate-key", str(file), "--to", "hv:ledger"]).exit_code == 0
    with Ledger.look(file) as book:
        witness.allow(book.public_key)
    for _ in range(2):  # each session delegates to a key that nobody saw before
        with Ledger.open(file, key="hv:ledger") as book:
            asked = len(kms.signed)
            for _ in range(3):
                scope_of(book).release(laplace(), 7)
            assert len(kms.signed) - asked <= 6  # a delegation and what was folded; then once a question
            note = book.cosigned()
            assert book.verify(since=[note], witnesses=witness.policy).unwitnessed == 0
    kept = witness.files[0].newest(hashlib.sha256(book.id.encode()).hexdigest())
    assert kept is not None
    with Ledger.look(file) as book:
        size = len(book)
        assert len(book.verify(since=[kept], witnesses=witness.policy).seen) == 1
        with pytest.raises(NotWitnessed, match="dpledger witness ask --key"):
            book.cosigned()
    command = ["witness", "ask", str(file), "--key", "hv:ledger", "-o", str(tmp_path / "cosigned")]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert parse_unverified((tmp_path / "cosigned").read_bytes())[0].size == size


def test_a_locked_key_has_its_heads_cosigned(tmp_path: Path, witness: Running) -> None:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file, witnesses=witness.policy, passphrase="open sesame") as book:
        witness.allow(book.public_key)
    with Ledger.open(file, passphrase="open sesame") as book:
        scope_of(book).release(laplace(), 7)
        assert book.verify(since=[book.cosigned()], witnesses=witness.policy).unwitnessed == 0


# ---- locked files ---------------------------------------------------------------------------------------------------


def test_a_passphrase_locks_both_files_and_is_asked_for_a_locked_one_alone(tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    Ledger.create(file, passphrase="correct horse").close()
    files = KeyFiles.beside(file)
    for path in (files.signing, files.recovery):
        assert path.read_text().startswith("LOCKED+KEY+")
        assert path.stat().st_mode & 0o77 == 0
    for wrong in (None, "another"):
        with pytest.raises(ParameterError, match="passphrase"):
            Ledger.open(file, passphrase=wrong)
    asked: list[int] = []
    with Ledger.open(file, passphrase=lambda: asked.append(1) or "correct horse") as book:  # type: ignore[func-returns-value]
        book.record(Heartbeat())
    assert asked == [1]
    with Ledger.open_or_create(file, passphrase="correct horse") as book:
        book.record(Heartbeat())
    Ledger.create(tmp_path / "open.ledger").close()
    with Ledger.open(tmp_path / "open.ledger", passphrase=lambda: pytest.fail("asked")) as book:
        book.record(Heartbeat())
    entry = Ledger.revoke_key(
        file, recovery=files.recovery, last_trusted=1, reason="a drill", passphrase="correct horse"
    )
    assert entry.index == 3


def on_a_terminal(*arguments: str, said: list[str]) -> tuple[int, str]:
    """What a command shows on a terminal, where somebody answers each question with a line of `said`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "dpledger", *arguments])
    shown = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], 300)
        assert ready, shown
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        if said and shown.endswith(b": "):
            os.write(terminal, said.pop(0).encode() + b"\n")
            shown += b"\n"
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_commands_ask_for_a_passphrase_and_never_show_it(tmp_path: Path) -> None:
    file = tmp_path / "clinic.ledger"
    secret = "correct horse"
    code, shown = on_a_terminal("init", str(file), "--passphrase", said=[secret, secret])
    assert (code, secret in shown) == (0, False), shown
    assert KeyFiles.beside(file).signing.read_text().startswith("LOCKED+KEY+")
    code, shown = on_a_terminal("rotate-key", str(file), "--passphrase", said=["new one", "new one", secret])
    assert (code, "horse" in shown, "new one" in shown) == (0, False, False), shown
    with Ledger.open(file, passphrase="new one") as book:
        assert len(book) == 2
    code, shown = on_a_terminal("owner-key", str(tmp_path / "o.key"), "--passphrase", said=["a", "b"])
    assert (code, "the same one twice" in shown) == (2, True), shown
    piped = CliRunner().invoke(app, ["rotate-key", str(file)], input="new one\n")
    assert piped.exit_code == 2
    assert "got no terminal" in piped.output


def test_a_private_key_where_a_public_one_is_asked_is_named_and_never_shown(tmp_path: Path) -> None:
    key = SigningKey.generate(NAME)
    secrets = [
        key.to_text(),
        key.to_text(passphrase="p"),
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
    ]
    for place, secret in enumerate(secrets):
        file = tmp_path / f"key-{place}"
        file.write_text(secret + "\n")
        for source in (secret, str(file)):
            with pytest.raises(ParameterError, match="signing key") as refused:
                read_public_key(source)
            assert secret[-30:] not in str(refused.value)
            assert secret[40:60] not in str(refused.value)
        (verdict,) = judged([{"judge": "bundle", "entries": "", "head": "", "key": secret}])
        assert not verdict.accepted
        assert "PRIVATE" in verdict.reason
        assert secret[30:60] not in verdict.reason


# ---- a rotation beside the ledger -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["rename", "replace", "rotate_key", "save"])
def test_a_rotation_that_is_interrupted_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    file = tmp_path / "clinic.ledger"
    with Ledger.create(file) as book:
        old = book.public_key

    class Cut(BaseException):
        pass

    def cut(*_: Any, **__: Any) -> None:
        raise Cut

    owner = {"rename": Path, "replace": Path, "rotate_key": Ledger, "save": SigningKey}[stop]
    with monkeypatch.context() as patched:
        patched.setattr(owner, stop, cut)
        with pytest.raises(Cut):
            rotate(str(file), None, None, None, lambda: None)
    done = rotate(str(file), None, None, None, lambda: None)
    assert done.key != old
    with Ledger.open(file) as book:
        assert book.public_key == done.key == read_public_key(KeyFiles.beside(file).public)
        assert sum(entry.body.kind == "key_rotated" for entry in book.entries()) == 1
        book.verify(key=old)
    left = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".ledger" and "-" not in path.name)
    assert left == sorted(
        [
            "clinic.ledger.key",
            "clinic.ledger.pub",
            "clinic.ledger.recovery.key",
            f"clinic.ledger.{old.key_id_hex}.old.key",
        ]
    )
    for path in tmp_path.glob("*.key"):
        assert path.stat().st_mode & 0o77 == 0


def test_an_owner_approves_with_a_locked_key(tmp_path: Path) -> None:
    public, owner = save_owner_key(tmp_path / "officer.key", passphrase="p")
    assert read_public_key(public) == owner
    with pytest.raises(ParameterError, match="passphrase"):
        SigningKey.load(tmp_path / "officer.key")
    assert SigningKey.load(tmp_path / "officer.key", passphrase="p").public == owner
