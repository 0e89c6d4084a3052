"""Where the keys of a ledger file lie: beside it, by name.

clinic.ledger                 the ledger
clinic.ledger.key             its signing key (owner only)
clinic.ledger.pub             the public key: give it to those who verify
clinic.ledger.recovery.key    revokes a stolen signing key, and replaces a lost key of the owner: move it offline
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpledger import bounded
from dpledger.errors import ParameterError
from dpledger.files import path_of
from dpledger.ledger.signed.keys import (
    LONGEST_FILE,
    SIGNING,
    Passphrase,
    Signer,
    SigningKey,
    VerifyingKey,
    new_ledger_id,
)

__all__ = ["KeyFiles", "is_private", "read_public_key", "save_owner_key", "signer_of"]

MEANT = "the public key (.pub); this is a signing key, which signs entries: do not pass it on"
PRIVATE = "PRIVATE KEY-----"
TEXT_OF_A_KEY = 2  # plus signs in `name+id+base64`, at least; a path rarely has as many


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFiles:
    """The three key files of one ledger file."""

    signing: Path
    public: Path
    recovery: Path

    @classmethod
    def beside(cls, ledger: str | os.PathLike[str]) -> KeyFiles:
        """The key files of the ledger file at `ledger`. ParameterError for a path without a name."""
        path = path_of(ledger, "ledger")
        return cls(
            signing=path.with_name(path.name + ".key"),
            public=path.with_name(path.name + ".pub"),
            recovery=path.with_name(path.name + ".recovery.key"),
        )

    def require_absent(self, ledger: Path | None = None) -> None:
        """ParameterError if one of the files is there: a key is never written over. `ledger`: the file that should lie
        beside them, where it is known that it does not."""
        lost = (
            f"no keys without their ledger: keys lie here, but {ledger} does not exist. If it was moved, put it "
            "back; for a new ledger move the keys away: keys are never overwritten"
        )
        expected = "a path where nothing exists yet: keys are never overwritten" if ledger is None else lost
        for path in (self.signing, self.public, self.recovery):
            if os.path.lexists(path):
                raise ParameterError("key", str(path), expected)

    def save_private(self, signer: SigningKey, recovery: SigningKey, passphrase: str | None = None) -> None:
        """Write the two private ones, for their owner alone, and locked where a passphrase is given. If one cannot be
        written, none stays."""
        signer.save(self.signing, passphrase=passphrase)
        try:
            recovery.save(self.recovery, passphrase=passphrase)
        except BaseException:
            self.signing.unlink(missing_ok=True)
            raise

    def save_public(self, key: VerifyingKey) -> None:
        """Write the public one, unless it is there. Last: it says that the ledger of these keys was begun."""
        try:
            with self.public.open("x", encoding="ascii") as file:
                file.write(key.text + "\n")
        except FileExistsError:
            return
        except OSError as error:
            self.public.unlink(missing_ok=True)
            expected = f"a path that can be written ({error.strerror})"
            raise ParameterError("key", str(self.public), expected) from None

    def find(
        self, given: Signer | str | os.PathLike[str] | None, passphrase: Passphrase | None = None
    ) -> Signer | None:
        """What signs: `given`, or the key in the file `given`; without one: beside the ledger, else DPLEDGER_KEY, else
        None. ParameterError for what is neither."""
        return signer_of(self.signing if given is None and os.path.exists(self.signing) else given, passphrase)


def signer_of(given: Signer | str | os.PathLike[str] | None, passphrase: Passphrase | None = None) -> Signer | None:
    """What signs: `given`, or the key in the file `given`; without one DPLEDGER_KEY, else None."""
    if isinstance(given, Signer):
        return given
    if given is None:
        return SigningKey.from_environment(passphrase=passphrase)
    return SigningKey.load(path_of(given, "key"), passphrase=passphrase)


def save_owner_key(path: str | os.PathLike[str], *, passphrase: str | None = None) -> tuple[Path, VerifyingKey]:
    """Make the key of who approves at `path`, readable by its owner alone, and locked where a passphrase is given, and
    its public half beside it (`.pub`): the file of that, and the key. ParameterError where something is there, or it
    cannot be written."""
    file = path_of(path, "key")
    public, owner = file.with_name(file.name + ".pub"), SigningKey.generate(new_ledger_id("owner"))
    if os.path.lexists(public):
        raise ParameterError("key", str(public), "a path where nothing exists yet: keys are never overwritten")
    owner.save(file, passphrase=passphrase)
    try:
        with public.open("x", encoding="ascii") as stream:
            stream.write(owner.public.text + "\n")
    except OSError as error:
        file.unlink(missing_ok=True)
        raise ParameterError("key", str(public), f"a path that can be written ({error.strerror})") from None
    return public, owner.public


def is_private(text: str) -> bool:
    """Whether what was given as a public key is a private one: of ours, or in a file of OpenSSH or PEM."""
    return text.lstrip().startswith(SIGNING) or PRIVATE in text


def public_key_of(given: VerifyingKey | str | os.PathLike[str], field: str) -> VerifyingKey:
    """`given`, or the public key that this text, or the file of this name, holds."""
    if isinstance(given, VerifyingKey):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise ParameterError(field, type(given).__name__, "a public key: its text or its file")
    return read_public_key(given)


def read_public_key(source: str | os.PathLike[str]) -> VerifyingKey:
    """A public key, from its text (`name+id+base64`) or from a file that holds it. ParameterError for anything else,
    naming the file where one was meant."""
    text = os.fspath(source)
    try:
        if is_private(text) or not Path(text).is_file():
            if is_private(text):
                raise ParameterError("public key", "the text of a signing key", MEANT)
            if text.count("+") >= TEXT_OF_A_KEY:
                return VerifyingKey.parse(text)
            raise ParameterError(
                "public key", text, "the text of a key, or a file that holds it (there is no such regular file)"
            )
        line = bounded.read(text, LONGEST_FILE).decode("ascii").removesuffix("\n")
    except OSError as error:
        raise ParameterError("public key", text, f"a readable file ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ParameterError("public key", text, "a file with one public key (this one is not ASCII)") from None
    if is_private(line):
        raise ParameterError("public key", text, MEANT)
    try:
        return VerifyingKey.parse(line)
    except ParameterError as error:
        raise ParameterError("public key", text, f"a file with one public key ({error})") from None
