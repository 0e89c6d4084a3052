"""A key by what people write for it: the path of a file, `ssh-agent:` with a comment or a fingerprint, `hv:NAME`."""

from __future__ import annotations

from dpledger.ledger.signed.keys import Signer
from dpledger.ledger.signers.delegating import Delegating
from dpledger.ledger.signers.kms import VAULT, KmsKey
from dpledger.ledger.signers.ssh_agent import SshAgentKey

__all__ = ["is_elsewhere", "signer_named"]

AGENT = "ssh-agent:"


def is_elsewhere(given: object) -> bool:
    """Whether `given` names a key that is in no file."""
    return isinstance(given, str) and given.startswith((AGENT, VAULT))


def signer_named(given: str, ledger: str) -> Signer:
    """The key for the ledger with that id. One of a KMS delegates entries, as it is slow. ParameterError for what is not
    there."""
    if given.startswith(AGENT):
        return SshAgentKey(ledger, given.removeprefix(AGENT) or None)
    return Delegating(KmsKey.at(ledger, given))
