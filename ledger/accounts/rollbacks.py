"""Rollbacks that were accepted, and the scopes that they ended: what the missing entries charged there is in no number.

A scope that was closed before is not among them: nothing could be charged to it in any copy.
"""

from __future__ import annotations

from dpledger.ledger.entries.bodies import Closed, RollbackAccepted, ScopeOpened
from dpledger.ledger.entries.entry import Entry

__all__ = ["Rollbacks"]


class Rollbacks:
    """What is told of rollbacks by the entries that were seen, in order. `accepted`: by the index of their entry.
    `ended`: by scope, the index of the one that ended it."""

    def __init__(self) -> None:
        self.accepted: dict[int, RollbackAccepted] = {}
        self.ended: dict[str, int] = {}
        self._open: set[str] = set()

    def see(self, entry: Entry) -> None:
        """The next entry."""
        body = entry.body
        if isinstance(body, ScopeOpened):
            self._open.add(body.path[0].scope)
        elif isinstance(body, Closed):
            self._open.difference_update(level.scope for level in body.path)
        elif isinstance(body, RollbackAccepted):
            self.accepted[entry.index] = body
            self.ended.update(dict.fromkeys(self._open, entry.index))
            self._open.clear()
