"""What witnesses saw of a record, by the cosignatures under a head, for whoever trusts their keys.

A head that a witness cosigned counts also where it is as new as the record: that witness signs no other one of this
ledger which does not continue it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpledger.errors import VerificationError
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.verifying.verification import Verified
from dpledger.ledger.witnessing.cosigning import Cosignature, cosigned_by
from dpledger.ledger.witnessing.policy import WitnessPolicy

__all__ = ["CosignedHead", "is_cosigned", "read_cosigned", "with_seen"]


@dataclass(frozen=True, slots=True)
class CosignedHead:
    """A head, and who of those that the verifier trusts saw it."""

    head: Checkpoint
    by: tuple[Cosignature, ...]

    def is_by(self, policy: WitnessPolicy) -> bool:
        """Whether those are a quorum."""
        return policy.is_met({one.key for one in self.by})


def read_cosigned(note: bytes, policy: WitnessPolicy) -> CosignedHead:
    """The head in `note`, cosigned by a quorum of `policy`; VerificationError for another one. Whose record it is, and
    that the ledger signed it, is verified with the record (`since`)."""
    found = _read(note, policy)
    if not found.is_by(policy):
        seen = len(found.by)
        raise VerificationError(f"checkpoint: {seen} of the witnesses that you trust cosigned it, which is too few")
    return found


def is_cosigned(note: bytes, policy: WitnessPolicy) -> bool:
    """Whether a quorum of `policy` cosigned the head in `note`; VerificationError for a cosignature that is wrong."""
    return _read(note, policy).is_by(policy)


def _read(note: bytes, policy: WitnessPolicy) -> CosignedHead:
    head, lines = checkpoint.parse_unverified(note)
    return CosignedHead(head, cosigned_by(lines, head, policy.keys))


def with_seen(found: Verified, heads: Sequence[CosignedHead]) -> Verified:
    """What was verified, against `heads` among others or as the head of its own, with who saw it, and until where."""
    if not heads:
        return found
    newest = max(heads, key=lambda one: one.head.size)
    witnessed = max(found.witnessed, newest.head.size)
    return replace(found, witnessed=witnessed, is_own=False, seen=newest.by if witnessed == newest.head.size else ())
