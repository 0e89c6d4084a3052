"""What a ledger tells the program's log: every change once it is durable, in ids alone, and nothing unless asked.

A log is not guarded as a ledger is, so no event may hold what an entry only holds for a privacy officer; and a log may
break, which must change nothing in what is charged or run.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given, settings, strategies as st

import ledger_golden
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, ContractViolation, ForeignLedger, StoreBehind
from dpledger.ledger.entries.bodies import KINDS
from dpledger.ledger.entries.entry import format_entry
from dpledger.ledger.handle import logging as announced
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.mechanisms.protocol import Release
from dpledger.schema import Plain
from ledger_mechanisms import Once, laplace, stream

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}


class Kept(logging.Handler):
    """Keeps every record, and what the ledger holds of it at that moment if it is asked."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.seen: list[object] = []
        self._look = look

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.seen.append(self._look())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event_of(record) for record in self.records]


class Broken(logging.Handler):
    """Raises, wherever the record is handed to it."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("the disk of the log is full")


def event_of(record: logging.LogRecord) -> dict[str, Any]:
    assert isinstance(record.msg, dict)
    return record.msg


@contextmanager
def listening(handler: logging.Handler) -> Iterator[None]:
    """The program's logging, set up to hear what the ledger says."""
    logger = logging.getLogger("dpledger")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def heard() -> Iterator[Kept]:
    handler = Kept()
    with listening(handler):
        yield handler


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_every_entry_is_told_once_with_its_ids() -> None:
    """Of a ledger that holds every kind that this version writes, snapshots among them."""
    with heard() as log:
        book = ledger_golden.build()
    entries = list(book.entries())
    assert [event["event"] for event in log.events] == [entry.body.kind for entry in entries]
    for event, entry in zip(log.events, entries, strict=True):
        body: Any = entry.body
        expected = {"event": body.kind, "ledger": book.id, "index": entry.index}
        if getattr(body, "path", ()):
            expected["scopes"] = tuple(level.scope for level in body.path)
        for name in ("charge", "rule"):
            if getattr(body, name, None) is not None:
                expected[name] = getattr(body, name)
        assert event == expected
    assert {event["rule"] for event in log.events if "rule" in event} == {"cap", "ex_post", "steps"}


def test_the_names_of_events_and_fields_are_closed_lists() -> None:
    assert {*KINDS, "resumed", "failed"} == announced.EVENTS
    assert not KINDS & {"resumed", "failed"}
    with heard() as log:
        ledger_golden.build()
    for event in log.events:
        assert event["event"] in announced.EVENTS
        assert event.keys() - {"event"} <= announced.FIELDS


def test_what_is_told_is_durable(tmp_path: Path) -> None:
    """Whoever hears of an entry finds it in the file, by a handle of its own."""
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as book:

        def size() -> int:
            with Ledger.look(path) as other:
                return len(other)

        handler = Kept(size)
        with listening(handler):
            handler.addFilter(lambda record: event_of(record)["event"] != "resumed")
            book.scope("s", budget=PureDP(1), **RULES).release(laplace(), 1)
    assert [event["index"] for event in handler.events] == [1, 2, 3]
    assert all(
        isinstance(seen, int) and seen > event["index"]
        for seen, event in zip(handler.seen, handler.events, strict=True)
    )


def test_who_hears_of_a_change_may_ask_the_ledger_from_any_thread() -> None:
    """An event leaves outside the ledger's lock: a log that asks the ledger back waits for nobody."""
    book = Ledger.in_memory()
    sizes: list[int] = []

    def ask() -> None:
        asking = threading.Thread(target=lambda: sizes.append(book.refresh().size), daemon=True)
        asking.start()
        asking.join(timeout=30)

    with listening(Kept(ask)):
        book.scope("s", budget=PureDP(1), **RULES).release(laplace(), 1)
    assert sizes == [2, 3, 4]


def test_what_was_refused_twice_is_told_once_as_it_is_recorded_once() -> None:
    book = Ledger.in_memory()
    scope = book.scope("s", budget=PureDP(1), **RULES)
    with heard() as log:
        for _ in range(2):
            with suppress(BudgetRefused):
                scope.release(laplace("5"), 1, key="same")
    assert [event["event"] for event in log.events] == ["refused"]


def test_a_ledger_that_is_opened_again_is_told(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    Ledger.create(path).close()
    with heard() as log:
        with Ledger.open(path) as book:
            pass
        with Ledger.look(path):
            pass
    assert log.events == [{"event": "resumed", "ledger": book.id, "size": 1}] * 2


# ---- what fails -----------------------------------------------------------------------------------------------------


def test_a_store_that_lost_entries_is_told_at_every_try() -> None:
    store = MemoryStore()
    book = ledger_golden.begin(store)
    scope = book.scope("s", budget=PureDP(1), **RULES)
    store.log.pop()
    store._additions.clear()
    with heard() as log:
        for attempt in (lambda: scope.release(laplace(), 1), book.refresh, lambda: book.declare("own_a", "b", by="c")):
            with pytest.raises(StoreBehind):
                attempt()
    told = {"event": "failed", "error": "StoreBehind", "ledger": book.id, "size": 2}
    assert log.events == [told] * 3
    assert {record.levelname for record in log.records} == {"WARNING"}


def test_a_file_that_is_no_whole_ledger_is_told(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    Ledger.create(path).close()
    store = SQLiteStore.open(path)
    store._connection.execute("DELETE FROM head")
    store.close()
    with heard() as log, pytest.raises(ForeignLedger):
        Ledger.open(path)
    assert log.events == [{"event": "failed", "error": "ForeignLedger"}]


# ---- nothing private ------------------------------------------------------------------------------------------------


def texts(value: Plain) -> Iterator[str]:
    """Every text and number in a record."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


CLOCKS = {"created", "msecs", "relativeCreated", "thread", "process"}  # numbers of logging's own, of any digits


def unclocked(record: logging.LogRecord) -> dict[str, object]:
    """What a record holds but for times and numbers of processes."""
    return {name: value for name, value in record.__dict__.items() if name not in CLOCKS}


def test_no_event_holds_anything_else_that_its_entry_says() -> None:
    """Parameters, claims, amounts, redeems, digests, texts: long enough to be told from an index by chance."""
    with heard() as log:
        book = ledger_golden.build()
    allowed = {book.id, *(scope for scope in book.scopes())}
    compared = 0
    for record, entry in zip(log.records, book.entries(), strict=True):
        told = {str(value) for value in event_of(record).values()} | allowed
        for text in texts(format_entry(entry)):
            if text not in told and len(text) > 3:
                assert text not in repr(unclocked(record)), entry.body.kind
                compared += 1
    assert compared > 200


LARGE = st.integers(2**60, 2**61)


@settings(max_examples=15)
@given(st.data())
def test_no_event_of_a_walk_holds_a_secret(data: st.DataObject) -> None:
    """Data, outputs, what was raised on them, keys of releases, justifications, texts, signing keys, redeems, salts."""
    secrets: list[str] = []
    drawn: list[str] = []

    def secret() -> str:
        secrets.append(f"CANARY-{data.draw(LARGE)}-{len(secrets)}-")
        return secrets[-1]

    def draw(count: int) -> bytes:
        token = os.urandom(count)
        drawn.append(token.hex())
        return token

    def fails(rows: object, parts: object) -> Release[object]:
        raise ValueError(rows)

    handler = Kept()
    with listening(handler):
        key = ledger_golden.KEY
        book = Ledger.begin(MemoryStore(), key, ledger_golden.RECOVERY.public, draw=draw)
        scopes = [
            book.scope("kept", budget=PureDP(2), dataset=secret(), keep="value", **RULES),
            book.scope("digested", budget=PureDP(2), dataset=secret(), keep="digest", **RULES),
        ]
        for _ in range(data.draw(st.integers(1, 6))):
            scope = data.draw(st.sampled_from(scopes))
            justified: dict[str, Plain] = {"sensitivity": {"value": "1", "why": secret()}}
            once = Once(claimed=PureDP("0.3"), made_of=laplace("0.3").made_of, kind="laplace", public=justified)
            with suppress(BudgetRefused, ContractViolation):
                scope.release(once, secret(), key=secret())
                scope.release(Once(run=fails, public=justified), secret(), key=secret())
                with scope.open(stream("0.2"), secret()) as answers:
                    answers.ask(secret)
                charge = scope.reserve(once, key=secret())._attempt._charge
                scope.note_lost(charge, secret())
            scope.declare("limits", secret(), by=secret())
        scopes[0].end(secret())
        book.end(secret())
    charges = {event["charge"] for event in handler.events if "charge" in event}
    seed = key._private.private_bytes_raw()
    secrets += [seed.hex(), key.to_text(), repr(seed), *(token for token in drawn if token not in charges)]
    told = repr([record.__dict__ for record in handler.records])
    assert charges
    assert [one for one in secrets if one in told] == []
    assert all(event.keys() - {"event"} <= announced.FIELDS for event in handler.events)
    assert not any(record.exc_info or record.stack_info or record.args for record in handler.records)


# ---- a log that breaks ----------------------------------------------------------------------------------------------


def raising(*_: Any) -> Any:
    raise RuntimeError("the processor is broken")


def broken_formatter() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[raising]))
    return handler


def broken_filter() -> logging.Handler:
    handler = logging.NullHandler()
    handler.addFilter(raising)
    return handler


@pytest.mark.parametrize("make", [Broken, broken_filter, broken_formatter])
def test_a_log_that_breaks_changes_nothing(
    make: Callable[[], logging.Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run happens once, each charge stands once, each value is handed out; a refusal is still the refusal."""
    monkeypatch.setattr(logging, "raiseExceptions", False)  # what the standard library does with an error in a handler
    ran: list[object] = []

    def counted(rows: object, parts: Any) -> Release[object]:
        ran.append(rows)
        return Release(value=rows, parts=parts)

    with listening(make()):
        book = Ledger.create(tmp_path / "clinic.ledger")
        scope = book.scope("s", budget=PureDP(1), **RULES)
        assert [scope.release(Once(run=counted), number, key=f"k{number}").value for number in range(3)] == [0, 1, 2]
        assert scope.release(Once(run=counted), 0, key="k0").value == 0  # a repetition
        with pytest.raises(BudgetRefused):
            scope.release(laplace("5"), 1)
        book.close()
        with Ledger.open(tmp_path / "clinic.ledger") as again:
            assert again.scope("s").spent(0).upper == 0.3000000000000000166533453693773481063544750213623046875
            assert again.verify().head.size == 9
    assert ran == [0, 1, 2]


def test_a_log_that_breaks_does_not_hide_what_failed() -> None:
    store = MemoryStore()
    book = ledger_golden.begin(store)
    store.log.clear()
    store._additions.clear()
    with listening(Broken()), pytest.raises(StoreBehind):
        book.refresh()


# ---- in a program of its own ----------------------------------------------------------------------------------------

WALK = """
import dpledger as dpl
from dpledger.errors import StoreBehind
book = dpl.Ledger.create("clinic.ledger")
scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)
try:
    scope.release(dpl.Laplace(sensitivity=1, epsilon=5), 1)
except dpl.BudgetRefused:
    pass
book._store._connection.execute("DELETE FROM leaves WHERE i = 4")
try:
    book.refresh()
except StoreBehind:
    pass
else:
    raise SystemExit("nothing failed")
"""
KINDS_OF_THE_WALK = ["ledger_opened", "scope_opened", "reserved", "committed", "refused", "failed"]


def program(code: str, folder: Path) -> tuple[str, str]:
    """What a fresh program that does the walk prints on standard output and standard error."""
    words = [sys.executable, "-c", code + WALK]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def test_a_program_that_sets_nothing_up_hears_nothing(tmp_path: Path) -> None:
    """Not even that a store failed, which is a warning."""
    assert program("", tmp_path) == ("", "")


def test_structlog_as_the_program_configured_it_does_not_print_our_events(tmp_path: Path) -> None:
    """By default structlog prints to standard output, where the answers of the program go."""
    configured = "import structlog\nstructlog.configure(logger_factory=structlog.PrintLoggerFactory())\n"
    assert program(configured, tmp_path) == ("", "")


def test_plain_logging_shows_them(tmp_path: Path) -> None:
    out, err = program("import logging\nlogging.basicConfig(level=logging.INFO)\n", tmp_path)
    lines = [line for line in err.splitlines() if "dpledger.ledger" in line]
    assert out == ""
    assert [kind for kind, line in zip(KINDS_OF_THE_WALK, lines, strict=True) if f"'event': '{kind}'" not in line] == []


def test_structlogs_formatter_renders_them(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "events.md").read_text()
    setup = page.split("```python\n")[1].split("\nscope = ")[0]
    out, err = program(setup + "\n", tmp_path)
    events = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    assert [event["event"] for event in events] == KINDS_OF_THE_WALK
    shown = json.loads(page.split("```json\n")[1].split("\n```")[0])
    committed = events[3]
    assert shown.keys() == committed.keys()
    assert {name: shown[name] for name in ("event", "index", "rule")} == {
        name: committed[name] for name in ("event", "index", "rule")
    }


def test_the_command_line_prints_its_answer_alone(tmp_path: Path) -> None:
    for words in (["init", "c.ledger"], ["scopes", "c.ledger"]):
        done = subprocess.run(
            [sys.executable, "-m", "dpledger", *words, "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert isinstance(json.loads(done.stdout), dict)
        assert done.stderr == ""


LISTENING = "import logging\nlogging.basicConfig(level=logging.INFO)\n"


@pytest.mark.parametrize("setup", ["", LISTENING], ids=["nobody", "somebody"])
def test_the_sequence_that_a_program_seeded_goes_on(tmp_path: Path, setup: str) -> None:
    """A library under structlog draws from it as it is imported."""
    seeded = "import random\nrandom.seed(7)\nbefore = random.getstate()\n"
    words = [sys.executable, "-c", setup + seeded + WALK + "assert random.getstate() == before\n"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=120, check=True)
