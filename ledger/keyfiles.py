"""Where the keys of a ledger file lie: beside it, by name.

clinic.ledger                 the ledger
clinic.ledger.key             its signing key (owner only)
clinic.ledger.pub             the public key: give it to those who verify
clinic.ledger.recovery.key    revokes the signing key if it is stolen: move it offline
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpledger.errors import ParameterError
from dpledger.ledger.keys import SigningKey, VerifyingKey

__all__ = ["KeyFiles", "read_public_key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFiles:
    """The three key files of one ledger file."""

    signing: Path
    public: Path
    recovery: Path

    @classmethod
    def beside(cls, ledger: str | os.PathLike[str]) -> KeyFiles:
        """The key files of the ledger file at `ledger`. ParameterError for a path without a name."""
        path = Path(ledger)
        if not path.name:
            raise ParameterError("ledger", os.fspath(ledger), "the path of a file")
        return cls(
            signing=path.with_name(path.name + ".key"),
            public=path.with_name(path.name + ".pub"),
            recovery=path.with_name(path.name + ".recovery.key"),
        )

    def require_absent(self) -> None:
        """ParameterError if one of the files is there: a key is never written over."""
        for path in (self.signing, self.public, self.recovery):
            if path.exists() or path.is_symlink():
                raise ParameterError("key", str(path), "a path where nothing is yet: keys are never written over")

    def save(self, signer: SigningKey, recovery: SigningKey) -> None:
        """Write all three; the private ones for their owner alone. If one cannot be written, none stays."""
        written: list[Path] = []
        try:
            signer.save(self.signing)
            written.append(self.signing)
            recovery.save(self.recovery)
            written.append(self.recovery)
            with self.public.open("x", encoding="ascii") as file:
                written.append(self.public)
                file.write(signer.public.text + "\n")
        except BaseException as error:
            for path in written:
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                expected = f"a path that can be written ({error.strerror})"
                raise ParameterError("key", str(self.public), expected) from None
            raise

    def remove(self) -> None:
        """Remove the three files, of a ledger that was never used."""
        for path in (self.signing, self.recovery, self.public):
            path.unlink(missing_ok=True)

    def find(self, given: str | os.PathLike[str] | None) -> SigningKey | None:
        """The signing key in the file `given`; without one: beside the ledger, else DPLEDGER_KEY, else None."""
        if given is not None:
            return SigningKey.load(given)
        if self.signing.exists():
            return SigningKey.load(self.signing)
        return SigningKey.from_environment()


def read_public_key(source: str | os.PathLike[str]) -> VerifyingKey:
    """A public key, from its text (`name+id+base64`) or from a file that holds it. ParameterError for anything else."""
    text = os.fspath(source)
    path = Path(text)
    try:
        if path.is_file():
            text = path.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        raise ParameterError("public key", str(path), "a readable file with one public key") from None
    return VerifyingKey.parse(text)
