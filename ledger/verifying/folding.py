"""Steps 8 and 9 of the verification: the fold over all entries in order, and what each of them charges.

What an entry means needs all before it, so the fold is made by one process. It holds the state and which ids were used,
never the entries.
"""

from __future__ import annotations

import hashlib
import sys
from typing import assert_never

from dpledger.errors import DpledgerError, VerificationError
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
    OwnerRotated,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    RollbackAccepted,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules import notes
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.rules.transitions import charged_scope, check_prices, moved
from dpledger.ledger.verifying import claims
from dpledger.ledger.verifying.seconds import Seconds

__all__ = ["Fold"]

ID_BYTES = 16  # of a digest that stands for an id: whoever finds two ids with one digest gets a sound entry refused


class Fold:
    """The entries so far, folded. `state` is what they come to; `unpriced` says at which entries `seconds` were not
    enough to compute the prices again: there the record's own numbers stand."""

    def __init__(self, begun: State, seconds: Seconds) -> None:
        self.state = begun
        self.unpriced: list[int] = []
        self._seconds = seconds
        self._scope_of: dict[bytes, str] = {}  # by charge
        self._keys: set[bytes] = set()
        self._refusals: set[bytes] = set()

    def add(self, entry: Entry) -> None:
        """Fold the next entry. Raises VerificationError, with its index, where it is no legal next one."""
        try:
            before, self.state = self.state, moved(self.state, entry.body)
            self._check(entry)
            if not self._seconds.are_enough(lambda: self._check_prices(before, entry)):
                self.unpriced.append(entry.index)
            if isinstance(entry.body, Reserved):
                claims.check_request(self.state, entry.body)
        except VerificationError as error:
            raise error.at(entry.index) from None
        except DpledgerError as error:
            raise VerificationError(str(error), index=entry.index) from None

    def _check_prices(self, before: State, entry: Entry) -> None:
        try:
            check_prices(before, entry.body)
            if isinstance(entry.body, Reserved):
                claims.check_reserved(self.state, entry.body)
        except DpledgerError:
            raise
        except (ArithmeticError, ValueError, MemoryError, RecursionError) as error:  # of parameters beyond all use
            reason = f"no price of its parts can be computed ({type(error).__name__}): no gate can have charged it"
            raise VerificationError(reason) from None

    def _check(self, entry: Entry) -> None:
        """What the state alone does not know: which ids were used."""
        body, after = entry.body, self.state
        match body:
            case Reserved(key=name, charge=charge):
                self._note(after.open[charge].scope, name, charge)
            case Refused(path=path):
                self._note_refusal(charged_scope(after, path).scope, body)
            case Audited(charge=charge, path=path):
                if charge is not None:
                    scope = self._scope_of.get(_digest(charge))
                    notes.require_about(after, charge, scope, tuple(level.scope for level in path))
            case ScopeOpened() | Started() | Progress() | Committed() | Aborted() | Lost() | Snapshot() | Closed():
                pass  # what they may do is in `moved`
            case LedgerOpened() | Declared() | Intended() | Reported() | Heartbeat() | PlanRegistered():
                pass
            case PolicyChanged() | KeyRotated() | KeyDelegated() | OwnerRotated() | KeyRevoked() | RollbackAccepted():
                pass
            case _:
                assert_never(body)

    def _note(self, scope: str, key: str, charge: str) -> None:
        """A charge and its key occur once, for ever."""
        own = _digest(charge)
        if own in self._scope_of:
            raise VerificationError("the charge was used before")
        self._keys.add(self._free(scope, key))
        self._scope_of[own] = sys.intern(scope)

    def _note_refusal(self, scope: str, body: Refused) -> None:
        """So does a refusal; of a key that was used there is none, as its request is replayed."""
        self._free(scope, body.key)
        refusal = _digest(scope, body.request)
        if refusal in self._refusals:
            raise VerificationError("the same refusal was recorded before")
        self._refusals.add(refusal)

    def _free(self, scope: str, key: str) -> bytes:
        own = _digest(scope, key)
        if own in self._keys:
            raise VerificationError("the key was used before in its scope")
        return own


def _digest(*ids: str) -> bytes:
    """What stands for the ids together: no id holds a line feed."""
    return hashlib.sha256("\n".join(ids).encode("ascii")).digest()[:ID_BYTES]
