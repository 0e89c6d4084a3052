"""What the scopes of a record were opened with."""

from __future__ import annotations

from collections.abc import Iterable

from dpledger.ledger.entries.bodies import ScopeOpened
from dpledger.ledger.entries.entry import Entry
from dpledger.reports.model import Origin, visible

__all__ = ["Openings"]


class Openings:
    """What each scope was opened with, in whose word, and where."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        opened = [(entry, entry.body) for entry in entries if isinstance(entry.body, ScopeOpened)]
        self._of = {body.path[0].scope: (entry, body) for entry, body in opened}

    def index(self, scope: str) -> int:
        """The entry that opened the scope."""
        return self._of[scope][0].index

    def dataset(self, scope: str) -> str | None:
        """What the scope was opened for, in its own words, if it says."""
        said = self._of[scope][1].dataset
        return None if said is None else visible(said)

    def origin(self, scope: str) -> Origin:
        """Whose word it is what the scope was opened with: its unit, its relation, its dataset."""
        entry, _ = self._of[scope]
        return Origin(
            status="declared",
            by="whoever opened the scope",
            when=entry.time or "",
            signature="the ledger's own key",
            entry=entry.index,
        )
