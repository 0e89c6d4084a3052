"""An Ed25519 key in a KMS, by the signers of securesystemslib (extra `kms`): HashiCorp Vault's Transit engine (`hv:`).

A KMS is slow, and each question costs: wrap the key in `Delegating`, and it is asked once for many entries
([ADR 41](../../docs/adr/0041-keys-elsewhere.md)). Whose credentials are used is said by the KMS's own environment (of
Vault: VAULT_ADDR and VAULT_TOKEN).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dpledger.errors import ParameterError, StoreFailure, VerificationError
from dpledger.ledger.signed import wire
from dpledger.ledger.signed.keys import KEY_BYTES, VerifyingKey

if TYPE_CHECKING:
    from securesystemslib.signer._signer import Signer as TheirSigner

__all__ = ["KmsKey"]

VAULT = "hv:"


class KmsKey:
    """A `Signer` whose key is elsewhere, under the name of a ledger. `signer`: one of securesystemslib, of an Ed25519
    key. ParameterError, by name, for a key of another type.

    >>> from securesystemslib.signer import CryptoSigner
    >>> signer = dpl.keys.KmsKey("clinic-" + "0" * 32, CryptoSigner.generate_ed25519())  # `at` finds one in Vault
    >>> signer.public.verify(signer.sign(b"message"), b"message")
    """

    def __init__(self, ledger: str, signer: TheirSigner) -> None:
        key: Any = signer.public_key
        kind = getattr(key, "keytype", None)
        if kind != "ed25519":
            raise ParameterError("key", f"one of the type {kind}", "an Ed25519 key: ledgers are signed by no other")
        public = bytes.fromhex(key.keyval["public"])
        if len(public) != KEY_BYTES:
            raise ParameterError("key", f"{len(public)} bytes", f"an Ed25519 key of {KEY_BYTES} bytes")
        self._signer = signer
        self._public = VerifyingKey(ledger, public)

    @classmethod
    def at(cls, ledger: str, uri: str) -> KmsKey:
        """The key at `uri`: `hv:NAME`, the newest version of a key of Vault's Transit engine, or `hv:NAME/VERSION`, one
        before it. ParameterError for another scheme, without the extra `kms`, and where the KMS does not answer, or has
        no such key."""
        if not isinstance(uri, str) or not uri.startswith(VAULT):
            raise ParameterError("uri", uri, f"a key of a KMS, like {VAULT}NAME or {VAULT}NAME/VERSION (Vault)")
        try:
            import hvac
            from securesystemslib.signer._key import SSlibKey
            from securesystemslib.signer._vault_signer import VaultSigner
        except ImportError:
            raise ParameterError("key", uri, "the extra `kms` (pip install 'dpledger[kms]')") from None
        name, _, version = uri.removeprefix(VAULT).partition("/")
        try:
            shown = hvac.Client().secrets.transit.read_key(name)["data"]["keys"]
            chosen = version or max(shown, key=int)
            public = Ed25519PublicKey.from_public_bytes(wire.from_base64(shown[chosen]["public_key"], "public_key"))
            return cls(ledger, VaultSigner(name, SSlibKey.from_crypto(public), int(chosen)))
        except ParameterError:
            raise
        except Exception as error:  # whatever the client of a KMS raises; what it says may hold a token
            expected = (
                f"a key that the KMS shows ({type(error).__name__}: see its own settings, VAULT_ADDR, VAULT_TOKEN)"
            )
            raise ParameterError("key", uri, expected) from None

    def __repr__(self) -> str:
        return f"<KmsKey {self._public.name} {self._public.key_id_hex}>"

    @property
    def public(self) -> VerifyingKey:
        """The key that checks what this one signs."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`, 64 bytes, by the KMS. StoreFailure where it does not sign, or says
        something else: nothing is appended then."""
        try:
            signature = bytes.fromhex(self._signer.sign(message).signature)
            self._public.verify(signature, message)
        except VerificationError as error:
            raise StoreFailure(f"the KMS gave no signature of this key ({error.reason})") from None
        except Exception as error:  # as above
            raise StoreFailure(
                f"the KMS did not sign ({type(error).__name__}): nothing was appended; try again"
            ) from None
        return signature
