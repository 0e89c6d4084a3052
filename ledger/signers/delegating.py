"""A slow key, as in a KMS, that signs once a session: it delegates the entries to a key that is made for them.

The entry key is made here, in memory, and is gone with the process; the ledger says from which entry on and up to
which it may sign. Whoever steals it can sign those entries; the slow key ends it by a new delegation, or a rotation.

>>> slow = SigningKey.generate("clinic-" + "0" * 32)
>>> signer = Delegating(slow, entries=500)
>>> signer.public == slow.public, signer.entry.public == slow.public
(True, False)
"""

from __future__ import annotations

from dpledger.decimals import whole
from dpledger.ledger.signed.keys import Signer, SigningKey, VerifyingKey

__all__ = ["ENTRIES", "Delegating"]

ENTRIES = 100_000
MOST_ENTRIES = 10**9
ROOM = 1000  # entries that an append is to find under its delegation, if that is as long


class Delegating:
    """Signs as `signer` does, and delegates up to `entries` entries at a time to a key of its own, `entry`."""

    def __init__(self, signer: Signer, *, entries: int = ENTRIES) -> None:
        self._signer = signer
        self.entries = whole(entries, field="entries", least=2, most=MOST_ENTRIES)
        self.entry = SigningKey.generate(signer.public.name)

    def __repr__(self) -> str:
        return f"<Delegating {self._signer!r}: {self.entries:,} entries>"

    @property
    def public(self) -> VerifyingKey:
        """The ledger's key."""
        return self._signer.public

    def sign(self, message: bytes) -> bytes:
        """The signature of `signer` itself."""
        return self._signer.sign(message)

    @property
    def room(self) -> int:
        """How many entries are to be left of a delegation before an append."""
        return min(ROOM, self.entries // 2)

    def renew(self) -> None:
        """Make another entry key: none signs in two delegations."""
        self.entry = SigningKey.generate(self._signer.public.name)
