"""Keys: what signs a ledger, in a file, an ssh-agent or a KMS, and what verifies it.

    SigningKey                     in memory, from a file (`load`, with a passphrase) or a text
    SshAgentKey, KmsKey            elsewhere: they sign, and their secret never comes here
    Delegating                     a slow key, asked once for many entries
    VerifyingKey                   the public half
    Signer                         what a signer of your own has to be

Each goes into `Ledger.open(key=...)`, `Ledger.begin` and `Ledger.rotate_key` (`docs/team.md`, "Keys").
"""

from dpledger.stubs import attached

__getattr__, __dir__, __all__ = attached(__name__, __file__)
