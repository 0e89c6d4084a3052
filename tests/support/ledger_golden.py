"""The golden ledger: small, deterministic, with an entry of every kind that this version writes.

`python tests/support/ledger_golden.py` writes it to tests/data/ledger/golden/, the ledger of `golden_kinds` beside it,
and the examples and lists of SPEC.md; a test compares byte for byte. Run it when SPEC.md changes, never to make a test
pass: a change of these bytes is a change of the format.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import golden_kinds
import ledger_spec
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.errors import ApprovalNeeded, BudgetRefused, ContractViolation, UnrelatedScopes
from dpledger.ledger import tip
from dpledger.ledger.entries.bodies import (
    Audited,
    Body,
    Closed,
    Heartbeat,
    KeyRevoked,
    PlanRegistered,
    PolicyChanged,
    Reported,
    RollbackAccepted,
    Snapshot,
)
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.entries.members import MechanismNote, Power, Step
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import approvals
from dpledger.ledger.rules.scope_state import state_digest, state_payload
from dpledger.ledger.rules.transitions import EMPTY, step
from dpledger.ledger.signed import wire
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.signers.delegating import Delegating
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Store
from dpledger.mechanisms.entropy import seeded
from dpledger.relations import Relation
from ledger_mechanisms import Once, laplace, stream, training

KINDS_DATA = Path(__file__).parents[1] / "data" / "ledger" / "golden_kinds"
DATA = Path(__file__).parents[1] / "data" / "ledger" / "golden"
KEYS_DATA = Path(__file__).parents[1] / "data" / "ledger" / "golden_keys"
OWNED_DATA = Path(__file__).parents[1] / "data" / "ledger" / "golden_owned"
LEDGER_ID = "example.org/clinic/000102030405060708090a0b0c0d0e0f"
KEY = SigningKey.from_seed(LEDGER_ID, bytes(range(32)))
RECOVERY = SigningKey.from_seed(LEDGER_ID, bytes(range(32, 64)))
KINDS_KEY = SigningKey.from_seed("example.org/kinds/000102030405060708090a0b0c0d0e0f", bytes(range(32)))
KINDS_RECOVERY = SigningKey.from_seed(KINDS_KEY.public.name, bytes(range(32, 64)))
OWNED_KEY = SigningKey.from_seed("example.org/owned/000102030405060708090a0b0c0d0e0f", bytes(range(32)))
OWNED_RECOVERY = SigningKey.from_seed(OWNED_KEY.public.name, bytes(range(32, 64)))
OWNER = SigningKey.from_seed("example.org/owner/000102030405060708090a0b0c0d0e0f", bytes(range(64, 96)))
TURNS_KEY = SigningKey.from_seed("example.org/turns/000102030405060708090a0b0c0d0e0f", bytes(range(32)))
TURNS_RECOVERY = SigningKey.from_seed(TURNS_KEY.public.name, bytes(range(32, 64)))
TURNS_SECOND = SigningKey.from_seed(TURNS_KEY.public.name, bytes(range(96, 128)))
TURNS_ENTRY = SigningKey.from_seed(TURNS_KEY.public.name, bytes(range(128, 160)))
NEW_OWNER = SigningKey.from_seed(OWNER.public.name, bytes(range(160, 192)))
SNAPSHOT_EVERY = 16


def ticking() -> Callable[[], str]:
    """A clock that is a second later each time it is read."""
    seconds = iter(range(10**6))
    start = datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)
    return lambda: (start + timedelta(seconds=next(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def counted(label: str = "golden") -> Callable[[int], bytes]:
    """Bytes that look random and are the same each time: SHA-256 of a label and a counter."""
    numbers = iter(range(10**6))
    return lambda count: hashlib.sha256(f"{label} {next(numbers)}".encode()).digest()[:count]


def begin(store: Store | None = None) -> Ledger:
    """An empty golden ledger."""
    return Ledger.begin(
        store if store is not None else MemoryStore(),
        KEY,
        RECOVERY.public,
        clock=ticking(),
        entropy=seeded(1),
        draw=counted(),
        snapshot_every=SNAPSHOT_EVERY,
    )


def build() -> Ledger:
    """The golden ledger. The version of the library is part of it, and is fixed here."""
    with patch("dpledger.ledger.charging.requests.LIBRARY", "dpledger 0.1.0"):
        book = begin()
        _open_scopes(book)
        _release(book)
        _interact(book)
        _reserve(book)
        _note(book)
    return book


def build_kinds() -> Ledger:
    """The golden ledger of kinds."""
    book = Ledger.begin(
        MemoryStore(), KINDS_KEY, KINDS_RECOVERY.public, clock=ticking(), entropy=seeded(1), draw=counted("kinds")
    )
    return golden_kinds.build(book)


def build_owned() -> Ledger:
    """The golden ledger with an owner, who approves what opens and ends its scope, and the ledger after a rollback."""
    book = Ledger.begin(
        MemoryStore(),
        OWNED_KEY,
        OWNED_RECOVERY.public,
        owner=OWNER.public,
        clock=ticking(),
        entropy=seeded(1),
        draw=counted("owned"),
    )
    approved(partial(book.scope, unit="patient", relation="add_remove", budget=PureDP(1)), "clinic")
    approved(book.scope("clinic").end, "the study is over")
    lost = RollbackAccepted(size=9, leaf="44" * 32, by="A. Lindqvist", reason="the newest file is lost")
    book.transact(lambda *_: [lost])
    approved(book.end, "moved to a new ledger")
    return book


def build_keys() -> Ledger:
    """The golden ledger whose keys change: the owner's, then its own, which delegates; and that is revoked in the end,
    with a refund after the last trusted entry."""
    store = MemoryStore()
    book = Ledger.begin(
        store,
        TURNS_KEY,
        TURNS_RECOVERY.public,
        owner=OWNER.public,
        clock=ticking(),
        entropy=seeded(1),
        draw=counted("keys"),
    )
    approved(partial(book.scope, unit="patient", relation="add_remove", budget=PureDP(1)), "clinic")
    approved(book.rotate_owner, NEW_OWNER.public)
    slow = Delegating(TURNS_SECOND, entries=100)
    slow.entry = TURNS_ENTRY
    book.rotate_key(slow)
    with patch("dpledger.ledger.charging.requests.LIBRARY", "dpledger 0.1.0"):
        book.scope("clinic").reserve(laplace("0.25"), key="given-back").abort()
    book.transact(lambda state, _: [Snapshot(state_digest(state))])
    last = len(book) - 3
    start = tip.resumed(store, TURNS_RECOVERY, last_trusted=last).head
    ended = Ledger(store, TURNS_RECOVERY, clock=ticking())
    ended._head = start
    ended.transact(lambda *_: [KeyRevoked(last_trusted=last, reason="the signing host was broken into")])
    return ended


def approved(ask: Callable[..., Any], *what: Any, owner: SigningKey | None = None) -> Any:
    """What `ask(*what)` gives once the owner approved what it asked for."""
    try:
        return ask(*what)
    except ApprovalNeeded as needed:
        return ask(*what, approval=approvals.approval_of(needed.request, OWNER if owner is None else owner))


def _open_scopes(book: Ledger) -> None:
    book.scope(
        "clinic", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"), dataset="sha256:" + "ab" * 32
    )
    book.scope("ward-7", unit="patient", relation="add_remove", budget=PureDP(1), keep="digest", parents=["clinic"])


def _release(book: Ledger) -> None:
    book.scope("clinic").release(laplace("0.25"), 412, key="count/2026-11")
    book.scope("ward-7").release(laplace("0.5"), 41.5, key="mean-age")
    for _ in range(2):  # the second is refused again, and not recorded again
        with suppress(BudgetRefused):
            book.scope("ward-7").release(laplace("0.75"), 0, key="too-much")

    def fail(data: object, parts: object) -> object:
        raise KeyError(data)

    with suppress(ContractViolation):
        book.scope("clinic").release(Once(run=fail, kind="faulty"), 0, key="faulty")


def _interact(book: Ledger) -> None:
    clinic = book.scope("clinic")
    with clinic.open(stream("0.5", 2), None, key="stream") as answers:
        for query in (True, True, False, True):
            answers.ask(query)
    with clinic.open(training(40, "40"), None, key="train", tail_delta=0) as run:
        for number in range(5):
            run.ask(number)


def _reserve(book: Ledger) -> None:
    clinic = book.scope("clinic")
    clinic.reserve(laplace("0.125"), key="later").release(7)
    with clinic.reserve(laplace("0.125"), key="never-started"):
        pass
    clinic.reserve(laplace("0.125"), key="died")
    charge = next(iter(book.state.open))
    clinic.note_lost(charge, "the host of this process was switched off")


def _note(book: Ledger) -> None:
    book.scope("clinic").declare("sensitivity", "A patient is counted at most once.", by="Data protection officer")
    book.declare(
        "limits", "Reads of the raw data outside this program are not recorded here.", by="Data protection officer"
    )
    book.scope("clinic").record(
        Audited(
            mechanism=MechanismNote("laplace", {"epsilon": "0.25"}, "dpledger 0.1.0"),
            claim=PureDP("0.25"),
            relation=Relation.ADD_REMOVE,
            verdict="not_refuted",
            epsilon_lower="0.19",
            delta="0",
            confidence="0.95",
            trials_left=100_000,
            trials_right=100_000,
            event="output >= 413",
            method="threshold",
            power=Power(epsilon="0.3", probability="0.9"),
            seed=7,
        )
    )
    book.record(Reported(digest=hashlib.sha256(b"a report").hexdigest(), schema="dpledger.report.v1"))
    book.record(Heartbeat())
    book.scope("ward-7").end("the study is over")
    lost = RollbackAccepted(size=40, leaf="33" * 32, by="A. Lindqvist", reason="the newest file is lost")
    book.transact(lambda *_: [lost, Closed(reason="moved to a new ledger")])


def reserved_kinds() -> bytes:
    """Entries of the kinds whose bytes are fixed and which no ledger of this version holds, one a line, unsigned."""
    bodies: tuple[Body, ...] = (
        PlanRegistered(path=(Step("clinic", 1),), plan="00" * 16, requests=("11" * 32, "22" * 32)),
        PolicyChanged(
            reason="each quarter has its own patients",
            path=(Step("clinic", 2),),
            epoch=1,
            budget=ApproxDP(2, "0.000001"),
        ),
    )
    entries = (
        Entry(ledger=LEDGER_ID, index=index, previous="00" * 32, body=body, time="2026-11-21T10:00:00Z")
        for index, body in enumerate(bodies, start=4)
    )
    return b"".join(wire.dump(format_entry(entry)) + b"\n" for entry in entries)


def bundled(book: Ledger) -> dict[str, bytes]:
    """The files of a ledger's bundle by name."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = book.export(Path(folder) / "bundle")
        return {file.name: file.read_bytes() for file in sorted(bundle.iterdir())}


def files(book: Ledger) -> dict[str, bytes]:
    """The golden files by name: the bundle, the kinds that are not written yet, what the first snapshot digests."""
    found = bundled(book)
    state = EMPTY
    for entry in book.entries():
        if entry.body.kind == "snapshot":
            found["snapshot_state.json"] = wire.dump(state_payload(state)) + b"\n"
            break
        state = step(state, entry.body)
    return {**found, "reserved_kinds.jsonl": reserved_kinds()}


if __name__ == "__main__":
    warnings.simplefilter("ignore", UnrelatedScopes)  # of scopes that are examples
    golden = files(build())
    others = ((KINDS_DATA, build_kinds()), (OWNED_DATA, build_owned()), (KEYS_DATA, build_keys()))
    for data, contents in ((DATA, golden), *((data, bundled(book)) for data, book in others)):
        data.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (data / name).write_bytes(content)
    ledger_spec.SPEC.write_text(ledger_spec.refreshed(ledger_spec.SPEC.read_text("utf-8"), golden), "utf-8")
