"""How a ledger grows: opening, verifying and reading it beside what cannot be saved, in the same run.

    python benchmarks/ledger.py [--charges 5000 20000 50000] [--entries 1000000]

A charge is two entries. Each line is a file of its own, read by a process of its own. The peers: reading the leaves
from the file and hashing them to the root, and verifying as many Ed25519 signatures, with nothing else done. Seconds
are those of the processor; a ratio that does not grow with the ledger is what matters. The second table shows one step
in a ledger that has grown, the third what is written to a file beside signing and SQLite alone. `--entries` opens a
ledger of so many, which takes minutes to write.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import dpledger as dpl
from dpledger.ledger.entries.bodies import Heartbeat
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import keys, merkle
from dpledger.ledger.stores import layout
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Addition, Question, TableRows, streamed
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.verifying import sources, verification

AMPLE = dpl.PureDP(10**9)
BEYOND = dpl.Laplace(sensitivity=1, epsilon=10**10)
MEASURED = dpl.Laplace(sensitivity=1, epsilon="0.1")
DELTA = "0.000001"
ROUNDS = 200  # of one step


def seconds(call: Callable[[], object]) -> float:
    """Seconds of the processor."""
    started = time.process_time()
    call()
    return time.process_time() - started


# ---- a whole ledger -------------------------------------------------------------------------------------------------


def write(path: Path, charges: int) -> None:
    """A ledger file of so many settled charges: made in memory, where nothing waits for a disk, and copied."""
    name = keys.new_ledger_id("benchmark")
    made = MemoryStore()
    book = dpl.Ledger.begin(made, keys.SigningKey.generate(name), keys.SigningKey.generate(name).public)
    scope = new_scope(book, "s")
    for _ in range(charges):
        scope.release(MEASURED, 1)
    file = SQLiteStore.create(path)
    whole = made.tail(0, Question(everything=True))
    assert whole.head is not None
    rows, saved = TableRows(charges=list(whole.charges)), made.tail(None, Question(saved=True)).saved
    file.append(Addition(size=0, leaves=whole.leaves, head=whole.head, rows=rows, saved=saved))
    file.close()


def new_scope(book: dpl.Ledger, name: str) -> Scope:
    """A scope that refuses nothing."""
    return book.scope(name, unit="patient", relation="add_remove", budget=AMPLE, dataset=name)


def hashed(path: Path) -> None:
    """Reads every leaf and hashes the tree."""
    store = SQLiteStore.look(path)
    merkle.root(merkle.leaf_hash(leaf) for leaf in streamed(store, store.tail(None).size))
    store.close()


def opened(path: Path) -> None:
    """Opens the ledger: from the fold that was saved, and the entries after it."""
    dpl.Ledger.look(path).close()


def verified(path: Path) -> None:
    """Opens the ledger and verifies all of it on one core, as `dpledger verify` does: no entry is kept."""
    with dpl.Ledger.look(path) as book, sources.opened(path) as found:
        verification.verify(found.leaves, found.head, book.public_key, each=lambda _: None, jobs=1)


def accounted(path: Path) -> None:
    """Opens the ledger and lists every admission of its scope."""
    with dpl.Ledger.look(path) as book:
        book.scope("s").account()


def in_a_process_of_its_own(call: Callable[[Path], None], path: Path) -> tuple[float, float]:
    """Seconds of the processor, and megabytes more than before at the peak.

    Everything large is made in such a process: on Linux a new one starts with the peak of the one that started it."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(measured, call, path).result()


def measured(call: Callable[[Path], None], path: Path) -> tuple[float, float]:
    """The same, in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = seconds(lambda: call(path))
    return taken, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def signatures(count: int) -> float:
    """Seconds for so many bare verifications of a message as long as an entry."""
    key, message = Ed25519PrivateKey.generate(), bytes(900)
    public, signature = key.public_key(), key.sign(message)
    return seconds(lambda: [public.verify(signature, message) for _ in range(count)])


def grown(sizes: list[int]) -> None:
    """Print the table of whole ledgers."""
    print("seconds of the processor (megabytes at the peak); x: times the peer in the same run\n")
    print(f"{'entries':>8}  {'hash':>6} {'Ed25519':>8}  {'open':>14} {'x hash':>7} {'x Ed25519':>9}", end="  ")
    print(f"{'open + verify':>14} {'x Ed25519':>9}  {'open + account':>15}")
    with tempfile.TemporaryDirectory() as folder:
        for charges in sizes:
            path = Path(folder) / f"{charges}.ledger"
            in_a_process_of_its_own(partial(write, charges=charges), path)
            entries = 2 * charges
            plain, _ = in_a_process_of_its_own(hashed, path)
            bare = signatures(entries)
            (opening, small), (verifying, large), (reading, some) = (
                in_a_process_of_its_own(call, path) for call in (opened, verified, accounted)
            )
            print(f"{entries:8,}  {plain:6.2f} {bare:8.2f}  {opening:6.2f} ({small:3.0f} MB)", end=" ")
            print(f"{opening / plain:7.1f} {opening / bare:9.2f}  {verifying:6.2f} ({large:3.0f} MB)", end=" ")
            print(f"{verifying / bare:9.2f}  {reading:7.2f} ({some:3.0f} MB)")


# ---- one step -------------------------------------------------------------------------------------------------------


def microseconds(call: Callable[[], object]) -> float:
    """The median of ROUNDS calls."""
    call()
    return statistics.median(seconds(call) for _ in range(ROUNDS)) * 1e6


def beside(scopes: int = 0, waiting: int = 0, settled: int = 0) -> Scope:
    """A scope in a ledger in memory, beside so many others, with so many charges open and settled."""
    book = dpl.Ledger.in_memory()
    for number in range(scopes):
        new_scope(book, f"other-{number}")
    scope = new_scope(book, "s")
    for _ in range(waiting):
        scope.reserve(MEASURED)
    for _ in range(settled):
        scope.release(MEASURED, 1)
    return scope


def steps() -> None:
    """Print the table of one step."""
    release = {"alone": beside(), "2,000 scopes": beside(scopes=2_000), "2,000 open charges": beside(waiting=2_000)}
    print(f"\n{'one release':34} {'us':>8} {'ratio':>6}")
    first = 0.0
    for name, scope in release.items():
        taken = microseconds(lambda scope=scope: scope.release(MEASURED, 1))
        first = first or taken
        print(f"  beside {name:25} {taken:8.0f} {taken / first:6.2f}")
    print(f"{'scope.spent':34} {'us':>8} {'ratio':>6}")
    first = 0.0
    for entries in (400, 800, 8_000):
        scope = beside(settled=entries // 2)
        taken = microseconds(lambda scope=scope: scope.spent(DELTA))
        first = first or taken
        print(f"  after {entries:5,} entries {'':12} {taken:8.0f} {taken / first:6.2f}")


# ---- beside signing -------------------------------------------------------------------------------------------------

CALLERS, EACH = 64, 10
NOTE = Heartbeat()


def by_many(call: Callable[[], object]) -> None:
    """CALLERS threads call at once, EACH times."""

    def calls() -> None:
        for _ in range(EACH):
            call()

    threads = [threading.Thread(target=calls) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare(file: Path) -> Callable[[], object]:
    """One durable append to SQLite, as a store makes it: the same tables and settings, no checks, nothing signed."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(layout.CREATE)
    layout.confine(connection)
    places = itertools.count()

    def append() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("SELECT max(i) FROM leaves").fetchone()
        connection.execute("INSERT INTO leaves (i, leaf) VALUES (?, ?)", (next(places), bytes(900)))
        connection.execute("INSERT OR REPLACE INTO head (one, checkpoint) VALUES (1, ?)", (bytes(250),))
        connection.execute("COMMIT")

    return append


def beside_signing() -> None:
    """Print the table of what is written to a file, durably. A release is two appends. An append signs its entry and
    the head; what SQLite alone takes, with as many signatures, is the least that one by one can take."""
    with tempfile.TemporaryDirectory() as folder, dpl.Ledger.create(Path(folder) / "signing.ledger") as book:
        scope, key = new_scope(book, "s"), keys.SigningKey.generate(book.id)
        message = bytes(900)
        calls: dict[str, tuple[Callable[[], object], int]] = {
            "append": (lambda: book.record(NOTE), 1),
            "release": (lambda: scope.release(MEASURED, 1), 2),
        }
        signing, store = microseconds(lambda: key.sign(message)), microseconds(bare(Path(folder) / "bare.sqlite"))
        print(f"\n{'written to a file, durably':34} {'us':>8} {'signing / it':>12} {'it / the least':>14}")
        print(f"  {'signing alone':32} {signing:8.0f}")
        print(f"  {'SQLite alone':32} {store:8.0f} {signing / store:12.3f}")
        for name, (call, appends) in calls.items():
            alone, least = microseconds(call), appends * (store + 2 * signing)
            many = seconds(lambda call=call: by_many(call)) / (CALLERS * EACH) * 1e6
            print(f"  {name + ', the least':32} {least:8.0f} {appends * signing / least:12.3f}")
            print(f"  {name + ', one by one':32} {alone:8.0f} {appends * signing / alone:12.3f} {alone / least:14.1f}")
            print(f"  {name + f', {CALLERS} callers':32} {many:8.0f} {appends * signing / many:12.3f}")
        before = len(book)
        for _ in range(ROUNDS):
            with suppress(dpl.BudgetRefused):
                scope.release(BEYOND, 1)
        print(f"  {ROUNDS} refused calls add {len(book) - before} entries")


def write_many(path: Path, entries: int) -> None:
    """A ledger file of so many entries, most of which say that it is alive."""
    with dpl.Ledger.create(path) as book:
        scope = new_scope(book, "s")
        for _ in range(100):
            scope.release(MEASURED, 1)
        while len(book) < entries:
            book.transact(lambda *_: [NOTE] * 500)


def spent(path: Path) -> None:
    """Opens the ledger and reads what a scope has spent."""
    with dpl.Ledger.look(path) as book:
        book.scope("s").spent(DELTA)


def opening(sizes: list[int]) -> None:
    """Print how long a ledger takes to open."""
    print(f"\n{'entries':>10} {'open':>16} {'open + spent':>16}")
    with tempfile.TemporaryDirectory() as folder:
        for entries in sizes:
            path = Path(folder) / f"{entries}.ledger"
            in_a_process_of_its_own(partial(write_many, entries=entries), path)
            (opened_in, small), (read_in, large) = (in_a_process_of_its_own(call, path) for call in (opened, spent))
            print(f"{entries:10,} {opened_in:6.2f} s ({small:3.0f} MB) {read_in:6.2f} s ({large:3.0f} MB)")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--charges", type=int, nargs="+", default=[5_000, 20_000, 50_000])
    parser.add_argument("--entries", type=int, nargs="*", default=[10_000, 100_000])
    asked = parser.parse_args()
    grown(asked.charges)
    steps()
    beside_signing()
    opening(asked.entries)


if __name__ == "__main__":
    main()
