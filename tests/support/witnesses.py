"""Witnesses that run in this process, honest ones and others, and ledgers that name them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dpledger as dpl
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.witnessing.cosigning import CosigningKey
from dpledger.ledger.witnessing.policy import Watcher, WitnessGroup, WitnessPolicy
from dpledger.ledger.witnessing.serving import WitnessServer
from dpledger.ledger.witnessing.submission import Submission
from dpledger.ledger.witnessing.witness_file import Said, WitnessFile

BUDGET = 3


class Scripted(WitnessFile):
    """A witness that does `first` before it answers each head. It counts what it was asked."""

    def __init__(self, path: Path, first: Callable[[Submission], Said | None] = lambda _: None) -> None:
        super().__init__(path)
        self.first = first
        self.asked = 0

    def add(self, submission: Submission, signer: CosigningKey) -> Said:
        self.asked += 1
        said = self.first(submission)
        return super().add(submission, signer) if said is None else said


class Running:
    """Witnesses that listen on loopback, each with a file of its own, and the policy that names them."""

    def __init__(self, folder: Path, count: int = 1, least: int = 1) -> None:
        self.folder = folder
        self.files, self.servers = [], []
        for number in range(count):
            path = folder / f"w{number}.witness"
            if not path.exists():
                WitnessFile.create(path)
            self.files.append(Scripted(path))
            self.servers.append(WitnessServer(self.files[-1], CosigningKey.generate(f"w{number}.example/w")))
            threading.Thread(target=self.servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        watchers = tuple(Watcher(f"w{n}", one.signer.public, one.url) for n, one in enumerate(self.servers))
        names = tuple(one.name for one in watchers)
        groups = (WitnessGroup("many", least, names),) if count > 1 else ()
        self.policy = WitnessPolicy(watchers, groups, "many" if count > 1 else "w0")

    def allow(self, key: VerifyingKey) -> None:
        for one in self.files:
            one.allow(key)

    def stop(self, number: int = 0) -> None:
        """This one cannot be reached any more."""
        self.servers[number].shutdown()
        self.servers[number].server_close()

    def close(self) -> None:
        with ExitStack() as stack:
            for server, file in zip(self.servers, self.files, strict=True):
                stack.callback(file.close)
                stack.callback(server.server_close)
                stack.callback(server.shutdown)


@contextmanager
def running(folder: Path, count: int = 1, least: int = 1) -> Iterator[Running]:
    made = Running(folder, count, least)
    try:
        yield made
    finally:
        made.close()


def scope_of(book: Ledger) -> Scope:
    return book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(BUDGET))


def witnessed(path: Path, by: Running) -> Path:
    """A ledger file with a scope that names these witnesses, who allow it; closed."""
    with Ledger.create(path, witnesses=by.policy) as book:
        by.allow(book.public_key)
        scope_of(book)
    return path
