"""One record, checked by one process and by several: the same answer, the same fault named; and what none may cost.

The processes are fresh interpreters. One that dies, or answers nonsense, costs time and changes no verdict.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
import ledger_golden
from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying import bundle, signatures, verification
from ledger_forger import signed_head

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY
LEAVES = tuple(bundle.read(ledger_golden.DATA)[0])
HEAD = bundle.read(ledger_golden.DATA)[1]
STRANGER = SigningKey.generate(KEY.public.name)


def checked(leaves: Iterator[bytes] | tuple[bytes, ...], jobs: int) -> list[signatures.Checked]:
    return list(signatures.checked(leaves, lambda _: KEY.public, jobs))


def test_one_process_and_several_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "LEAVES", 7)  # several chunks for each
    bad = (*LEAVES[:11], LEAVES[11][:-9] + b'AAAA=="}]}', b"", *LEAVES[11:])
    alone = checked(bad, 1)
    assert [one.leaf for one in alone] == list(bad)
    assert [one.payload is None for one in alone] == [leaf not in LEAVES for leaf in bad]
    assert checked(bad, 2) == checked(bad, 4) == alone


def test_a_whole_verification_is_the_same() -> None:
    alone, shared = (verification.verify(LEAVES, HEAD, KEY.public, jobs=jobs) for jobs in (1, 3))
    assert (alone.entries, alone.state.size, alone.mode) == (shared.entries, shared.state.size, shared.mode)
    assert alone.mode == "full"


@pytest.mark.parametrize("place", [0, 1, 17, len(LEAVES) - 1])
def test_the_same_fault_is_named(place: int) -> None:
    forged = list(LEAVES)
    signature = forged[place].rindex(b'"sig":"') + 12
    forged[place] = forged[place][:signature] + bytes([forged[place][signature] ^ 1]) + forged[place][signature + 1 :]
    head = signed_head(forged, KEY)
    told = []
    for jobs in (1, 2):
        with pytest.raises(VerificationError) as refusal:
            verification.verify(forged, head, KEY.public, jobs=jobs)
        told.append((refusal.value.index, refusal.value.reason))
    assert told[0] == told[1]
    assert told[0][0] == place


@pytest.mark.parametrize("lacks", ["process", "thread"])
def test_a_system_that_gives_no_process_or_thread_changes_nothing(lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `ulimit -u`, or in a container that counts processes."""
    asked: list[object] = []

    def refused(*operands: object, **options: object) -> None:
        asked.append(operands)
        raise BlockingIOError("no process") if lacks == "process" else RuntimeError("can't start new thread")

    if lacks == "process":
        monkeypatch.setattr(subprocess, "Popen", refused)
    else:
        monkeypatch.setattr(threading.Thread, "start", refused)
    assert checked(LEAVES, 3) == checked(LEAVES, 1)
    assert asked


@pytest.mark.parametrize(
    "answers", ["", "import sys; sys.stdin.buffer.read(99)", "print('no answer at all', flush=True)"]
)
def test_a_process_that_dies_or_says_too_little_changes_nothing(answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen
    started: list[Any] = []

    def faulty(command: list[str], **pipes: Any) -> Any:
        started.append(start([command[0], "-c", answers], **pipes))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", faulty)
    if "print" in answers:  # as many bytes as there are leaves, and none of them is 1
        assert all(one.payload is None for one in checked(LEAVES[:10], 2))
    else:
        assert checked(LEAVES, 2) == checked(LEAVES, 1)
    found = verification.verify(LEAVES, HEAD, KEY.public, jobs=3)
    assert found.mode == "full"
    assert len(started) == 3
    assert all(one.returncode is not None for one in started), "none is left behind"


def test_a_reader_that_stops_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen
    started: list[Any] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    found = signatures.checked(LEAVES, lambda _: KEY.public, 3)
    next(found)
    found.close()
    assert len(started) == 2
    assert all(one.returncode is not None for one in started)


def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        "print('once', flush=True)\n"
        "import dpledger as dpl\n"
        "from dpledger.ledger.verifying import verification\n"
        "book = dpl.Ledger.in_memory()\n"
        "found = verification.verify(book.leaves(), book.head, book.public_key, jobs=3)\n"
        "print(found.mode)\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert ran.stdout == "once\nfull\n"
    assert not ran.stderr


@given(st.lists(st.sampled_from((*LEAVES[:4], b"", b"{}", b"\x00" * 40)), max_size=9), st.booleans())
def test_the_other_process_answers_a_byte_for_each_leaf(leaves: list[bytes], own: bool) -> None:
    key = KEY.public if own else STRANGER.public
    text = key.text.encode()
    parts = [len(leaves).to_bytes(4, "big"), len(text).to_bytes(4, "big"), text]
    parts += [part for leaf in leaves for part in (len(leaf).to_bytes(4, "big"), leaf)]
    chunk = b"".join(parts)
    answers = BytesIO()
    signatures.answer(BytesIO(chunk * 2), answers)
    expected = bytes(own and leaf in LEAVES for leaf in leaves)
    assert answers.getvalue() == expected * 2


def test_a_key_that_changes_on_the_way_is_the_one_that_counts() -> None:
    keys = iter([STRANGER.public] * len(LEAVES))
    found = list(signatures.checked(LEAVES, lambda _: next(keys), 1))
    assert all(one.payload is None and one.key == STRANGER.public for one in found)


@pytest.mark.parametrize("jobs", [0, -1, 65, True, 1.0, "2"])
def test_jobs_are_a_number_of_processes(jobs: Any) -> None:
    with pytest.raises(ParameterError, match="jobs"):
        verification.verify(LEAVES, HEAD, KEY.public, jobs=jobs)


def test_an_application_that_is_no_python_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert signatures.jobs_for(None, 10**6) == 1
    with pytest.raises(ParameterError, match="jobs"):
        signatures.jobs_for(2, 10**6)


def test_few_entries_start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    assert verification.verify(LEAVES, HEAD, KEY.public).mode == "full"
    assert signatures.jobs_for(None, 3_999) == 1


# ---- memory ---------------------------------------------------------------------------------------------------------


class Leaves:
    """The leaves of a ledger, which can be gone through again."""

    def __init__(self, book: dpl.Ledger) -> None:
        self.book = book

    def __iter__(self) -> Iterator[bytes]:
        return self.book.leaves()


def peak(book: dpl.Ledger, keep: bool) -> int:
    """Bytes at the peak of a verification."""
    gc.collect()
    tracemalloc.start()
    each = None if keep else (lambda entry: None)
    verification.verify(Leaves(book), book.head, book.public_key, each=each, jobs=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.slow
def test_memory_grows_with_the_ids_and_not_with_the_entries() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(10**6))
    peaks, sizes = [], []
    for _ in range(2):
        for _ in range(400):
            scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)
        peaks.append((peak(book, keep=False), peak(book, keep=True)))
        sizes.append(len(book))
    flat, kept = ((peaks[1][place] - peaks[0][place]) / (sizes[1] - sizes[0]) for place in (0, 1))
    assert flat < 250  # bytes an entry: a charge and its key, as two digests, for each second entry
    assert kept > 600  # what the same measure says where entries are kept


def test_each_entry_is_handed_out_once_in_order_and_none_is_kept() -> None:
    seen: list[Entry] = []
    found = verification.verify(LEAVES, HEAD, KEY.public, each=seen.append)
    whole = verification.verify(LEAVES, HEAD, KEY.public)
    assert found.entries == ()
    assert tuple(seen) == whole.entries
    assert (found.attested, found.state.size) == (whole.attested, whole.state.size)


def test_an_entry_is_handed_out_once_it_is_verified() -> None:
    forged = [*LEAVES[:5], LEAVES[6], *LEAVES[6:]]
    seen: list[int] = []
    with pytest.raises(VerificationError) as refusal:
        verification.verify(
            forged, signed_head(forged, KEY), KEY.public, each=lambda entry: seen.append(entry.index), jobs=2
        )
    assert refusal.value.index == 5
    assert seen == [0, 1, 2, 3, 4]
