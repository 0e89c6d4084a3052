"""Who may settle a charge: the process that holds its redeem, 128 secret bits that are written nowhere.

Entries carry its SHA-256, which anyone may read. So it is the bits themselves, not the digest, that show who started a
charge: whoever has them may be granted its steps and settle it, and nobody else. A training run may be taken over by
new bits, which replace the ones before for ever.

>>> redeem = Redeem(bytes(16))
>>> redeem.digest
'374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb'
>>> redeem.opens(redeem.digest), Redeem(b"another process.").opens(redeem.digest), redeem.opens(None)
(True, False, False)
>>> redeem
<Redeem 374708ff>
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NoReturn

from dpledger.process import Home

__all__ = ["REDEEM_BYTES", "Redeem"]

REDEEM_BYTES = 16
_SHOWN = 8  # digits of the digest that tell one from another


class Redeem:
    """Secret bits and what they open. They are shown by nothing and travel nowhere: it prints as its digest, is neither
    pickled nor copied, and opens nothing in a forked child.

    `digest`: what entries carry, the SHA-256 of the bits in hexadecimal."""

    __slots__ = ("_home", "_secret", "digest")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) == REDEEM_BYTES, "a redeem has 128 bits"
        self._home = Home("a redeem")
        self._secret = secret
        self.digest = hashlib.sha256(secret).hexdigest()

    def opens(self, digest: str | None) -> bool:
        """Whether `digest` is the digest of these bits; False for None, a charge that nobody started."""
        self._home.require()
        return digest is not None and hmac.compare_digest(hashlib.sha256(self._secret).hexdigest(), digest)

    def __repr__(self) -> str:
        return f"<Redeem {self.digest[:_SHOWN]}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a redeem does not pickle: it belongs to the process that reads the data")
