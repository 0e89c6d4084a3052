"""What the head of a ledger carries: releases a second by processes at once, in a file and in PostgreSQL, in one run.

    python benchmarks/stores.py [--address postgresql://...] [--processes 1 4 16] [--seconds 5]

Each process is given one scope, and releases from it for so many seconds; "apart" gives each a ledger of its own.
Without an address there is the file alone. The address must name a database in which this program may make schemas;
they are left behind. The last column is the file's rate at as many processes, in the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import dpledger as dpl

MEASURED = dpl.Laplace(sensitivity=1, epsilon="0.1")
RULES = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(10**9)}


def released(place: str, key: str, seconds: float, together: Barrier, told: multiprocessing.Queue[int]) -> None:
    """Release for so long; tells how often."""
    with dpl.Ledger.open(place, key=key) as book:
        scope, count = book.scope("s"), 0
        together.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            scope.release(MEASURED, 1)
            count += 1
    told.put(count)


def rate(places: list[tuple[str, str]], seconds: float) -> float:
    """Releases a second of one process for each of the places, all at once."""
    spawn = multiprocessing.get_context("spawn")
    together, told = spawn.Barrier(len(places)), spawn.Queue()
    processes = [spawn.Process(target=released, args=(*place, seconds, together, told)) for place in places]
    for process in processes:
        process.start()
    counts = [told.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(counts) / seconds


def in_file(folder: str) -> tuple[str, str]:
    """A new ledger file, and the file of its key."""
    path = str(Path(folder, f"{secrets.token_hex(4)}.ledger"))
    with dpl.Ledger.create(path) as book:
        book.scope("s", **RULES)
    return path, f"{path}.key"


def in_database(address: str, folder: str) -> tuple[str, str]:
    """A new ledger in a schema of its own, and the file of its key."""
    import psycopg

    schema = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    place = f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{schema}"
    keys = Path(folder, schema)
    with dpl.Ledger.create(place, keys=keys) as book:
        book.scope("s", **RULES)
    return place, f"{keys}.key"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    print(f"{'releases a second':>18} {'file':>8} {'database':>9} {'apart':>7} {'database / file':>16}")
    with tempfile.TemporaryDirectory() as folder:
        for count in given.processes:
            files = rate([in_file(folder)] * count, given.seconds)
            print(f"{count:>10} at once {files:8.0f}", end=" ", flush=True)
            if given.address is None:
                print()
                continue
            shared = rate([in_database(given.address, folder)] * count, given.seconds)
            apart = rate([in_database(given.address, folder) for _ in range(count)], given.seconds)
            print(f"{shared:9.0f} {apart:7.0f} {shared / files:16.2f}", flush=True)


if __name__ == "__main__":
    main()
