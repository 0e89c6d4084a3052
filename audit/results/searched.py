"""What a search for a pair says beside the audit of the pair that it found.

>>> str(PairSearch([0], [0, 1], "a row is added", seed=1, pairs=9, known=200, runs=700, audits=1))
'searched 9 of 200 pairs of neighbours, 700 runs a side, audits: 1; the pair is [0] and [0, 1] (a row is added)'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PairSearch"]

SHOWN = 200  # characters of a dataset


@dataclass(frozen=True, slots=True, eq=False)
class PairSearch:
    """How the pair of an audit was found. `left`, `right`: the pair, of data that were made up, or given; `why`: how
    the two differ; `pairs`: how many of `known` were screened before the search ended; `runs`: on each side, of all
    pairs together, audits among them; `audits`: how many pairs were audited, whose parts of the error budget add up to
    at most alpha; `refused`: screens and audits that could not be made, as every run raises."""

    left: Any
    right: Any
    why: str
    seed: int
    pairs: int
    known: int
    runs: int
    audits: int
    refused: int = 0

    def __str__(self) -> str:
        return f"{self.public_words}; the pair is {_shown(self.left)} and {_shown(self.right)} ({self.why})"

    @property
    def public_words(self) -> str:
        """The same without the pair, which may be somebody's data where pairs were given."""
        refused = f", {self.refused:,} refused" if self.refused else ""
        runs = f"{self.runs:,} runs a side, audits: {self.audits}"
        return f"searched {self.pairs:,} of {self.known:,} pairs of neighbours{refused}, {runs}"


def _shown(data: object) -> str:
    """A made-up dataset, cut where it is long."""
    told = " | ".join(str(data).split("\n")) if type(data).__name__ == "DataFrame" else repr(data)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}..."
