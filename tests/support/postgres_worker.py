"""A process that releases from a ledger in PostgreSQL until it is refused: the address and where the keys lie."""

from __future__ import annotations

import sys

import dpledger as dpl


def main(address: str, keys: str) -> None:
    """Once it is told to begin, a line for each value that was handed out."""
    with dpl.Ledger.open_or_create(address, keys=keys) as book:
        scope = book.scope("s")
        print("ready", flush=True)
        sys.stdin.readline()
        while True:
            try:
                scope.release(dpl.Laplace(sensitivity=1, epsilon=1), 0)
            except dpl.BudgetRefused:
                return
            print(".", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
