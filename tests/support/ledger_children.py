"""What child processes do in tests of the ledger. In a module of its own, so that a fresh interpreter can import it.

python -m ledger_children releases PATH COUNT EPSILON    release COUNT times; print each value once it was handed out
"""

from __future__ import annotations

import sys

from dpledger.errors import BudgetRefused
from dpledger.ledger.ledger import Ledger
from ledger_mechanisms import laplace


def releases(path: str, count: int, epsilon: str) -> None:
    """Release until refused; one line a value that came out, flushed."""
    with Ledger.open(path) as book:
        scope = book.scope("s")
        print("ready", flush=True)
        for number in range(count):
            try:
                scope.release(laplace(epsilon), number)
            except BudgetRefused:
                print("refused", flush=True)
                return
            print("released", flush=True)


if __name__ == "__main__":
    releases(sys.argv[2], int(sys.argv[3]), sys.argv[4])
