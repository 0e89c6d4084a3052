"""What the first mechanism costs a fresh process, beside numpy's own import.

    python benchmarks/importing.py [--rounds 5]

Seconds of the processor of a process that imports dpledger and makes one `Laplace`, the median of the rounds, less
what an empty process takes; how many times numpy's import that is; and the target, 1.0 s, with PASS or FAIL.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

MOST = 1.0  # seconds of the processor
FIRST = "import dpledger as dpl; dpl.Laplace(sensitivity=1, epsilon=1)"


def seconds(code: str, rounds: int) -> float:
    """Seconds of the processor that a fresh process takes for `code`, the median."""
    found = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    empty = seconds("pass", rounds)
    numpy, first = (seconds(code, rounds) - empty for code in ("import numpy", FIRST))
    verdict = "PASS" if first <= MOST else "FAIL"
    print(
        f"{verdict} import and first Laplace: {first:.2f} s, {first / numpy:.1f} times numpy's import ({numpy:.2f} s)"
    )


if __name__ == "__main__":
    main()
