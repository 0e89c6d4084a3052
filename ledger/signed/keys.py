"""Ed25519 keys with names, in the text forms of C2SP signed notes, and key files that only their owner can read.

A key is named after the ledger it signs for. Its *id* tells it from other keys of that name:

    key id          the first 4 bytes of SHA-256(name || 0x0A || 0x01 || public key), 0x01 standing for Ed25519
    verifying key   <name>+<key id in hex>+<base64 of 0x01 || public key>
    signing key     PRIVATE+KEY+<name>+<key id in hex>+<base64 of 0x01 || seed>
    the same, locked with a passphrase
                    LOCKED+KEY+<name>+<key id in hex>+<base64 of 0x01 || salt || nonce || ciphertext>

The seed (32 bytes) is locked by ChaCha20-Poly1305 under scrypt (N = 2^17, r = 8, p = 1) of the passphrase and the salt
(16 bytes); the nonce has 12 bytes; the name and the key id are authenticated with it. A key file is one such line.

Public keys of small order, in a non-canonical encoding, or off the curve are refused wherever one is named, and so are
signatures whose point R is of small order: on those, verifiers in use disagree.

>>> key = SigningKey.from_seed("example.org/clinic/000102030405060708090a0b0c0d0e0f", bytes(32))
>>> key.public.text
'example.org/clinic/000102030405060708090a0b0c0d0e0f+4c595323+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop'
>>> key.public.verify(key.sign(b"message"), b"message")
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from dpledger import bounded
from dpledger.errors import ParameterError, StoreFailure, VerificationError
from dpledger.ledger.signed import wire
from dpledger.posix import require_posix

__all__ = [
    "ENVIRONMENT_KEY",
    "SIGNATURE_BYTES",
    "Passphrase",
    "Signer",
    "SigningKey",
    "VerifyingKey",
    "create_private",
    "new_ledger_id",
    "read_private",
    "said_once",
]

ENVIRONMENT_KEY = "DPLEDGER_KEY"
"""The environment variable that may hold the text of a signing key, in place of a key file."""
Passphrase: TypeAlias = str | Callable[[], str]
"""What a key file is locked with, or what asks somebody for it: asked where the file is locked, and there alone."""
SIGNATURE_BYTES = 64
KEY_BYTES = 32  # of a seed, and of a public key
_ED25519 = b"\x01"  # C2SP signature type
_LOCK_V1 = b"\x01"
_SALT_BYTES = 16
_NONCE_BYTES = 12
_TAG_BYTES = 16
_SCRYPT_COST = 2**17  # with r = 8: 128 MiB and about half a second a guess
LONGEST_FILE = 4096  # bytes; a key file has about 200

_NAME = re.compile(r"[!-*,-~]{1,255}")  # visible ASCII without "+"
_LABEL_CHARACTERS = 95  # what 128 leave beside "/" and 32 hexadecimal digits

_PRIME: Final = 2**255 - 19
_CURVE_D: Final = -121665 * pow(121666, -1, _PRIME) % _PRIME
# On the points of order 8, t = y^2 is the root of d t^2 + 2 t - 1 that is a square: doubling one of them gives a point
# with y = 0, so x^2 = -y^2, and the curve's equation -x^2 + y^2 = 1 + d x^2 y^2 says the rest.
_ORDER_8_Y: Final = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
# y of the identity, of the point of order 2, of the two of order 4, of the four of order 8.
_SMALL_ORDER_Y: Final = frozenset({1, _PRIME - 1, 0, _ORDER_8_Y, _PRIME - _ORDER_8_Y})


@runtime_checkable
class Signer(Protocol):
    """Whatever signs for a ledger: a `SigningKey`, or a service that keeps the key to itself.

    >>> isinstance(dpl.keys.SigningKey.generate("clinic-" + "0" * 32), dpl.keys.Signer)
    True
    """

    @property
    def public(self) -> VerifyingKey:
        """The key that checks what this one signs."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`, 64 bytes."""
        ...


def signature_of(message: bytes, signer: Signer) -> bytes:
    """The signature of `message` by `signer`, checked if it was made elsewhere: an entry that does not verify would end
    the ledger. StoreFailure where it does not hold: nothing is appended then."""
    signature = signer.sign(message)
    if type(signer) is not SigningKey:
        try:
            if type(signature) is not bytes:
                raise VerificationError(f"{type(signature).__name__}, not bytes")
            signer.public.verify(signature, message)
        except VerificationError as error:
            raise StoreFailure(
                f"the signer gave no signature of its key ({error.reason}): nothing was written"
            ) from None
    return signature


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key and its name. `public` is the point's encoding, 32 bytes (RFC 8032 section 5.1.2).

    Raises ParameterError for a name with spaces, control characters, `+` or characters outside ASCII, and for a point
    of small order, in a non-canonical encoding, or not on the curve.

    >>> key = dpl.Ledger.in_memory().public_key
    >>> dpl.keys.VerifyingKey.parse(key.text) == key
    True
    """

    name: str
    public: bytes

    def __post_init__(self) -> None:
        if type(self.name) is not str or not _NAME.fullmatch(self.name):
            shown = ascii(self.name) if isinstance(self.name, str) else type(self.name).__name__
            raise ParameterError("key name", shown, "1 to 255 visible ASCII characters without '+'")
        if type(self.public) is not bytes or len(self.public) != KEY_BYTES:
            raise ParameterError("public key", type(self.public).__name__, f"{KEY_BYTES} bytes")
        _check_point(self.public)

    @property
    def key_id(self) -> bytes:
        """The C2SP key id, 4 bytes: a hint which key signed, never a proof."""
        return _key_id(self.name, self.public)

    @property
    def key_id_hex(self) -> str:
        """The key id as 8 hexadecimal digits in lower case."""
        return self.key_id.hex()

    @property
    def text(self) -> str:
        """The key in its one text form, `<name>+<id>+<base64>`. The inverse of `parse`."""
        return f"{self.name}+{self.key_id_hex}+{wire.to_base64(_ED25519 + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifyingKey:
        """The key whose text form is exactly `text`. ParameterError for anything else."""
        name, key_id, data = _split(text, "verifying key")
        _check_type(data, 1 + KEY_BYTES, "verifying key")
        key = cls(name, data[1:])
        _check_id(key, key_id, "verifying key")
        return key

    def verify(self, signature: bytes, message: bytes) -> None:
        """Raises VerificationError unless `signature` is this key's Ed25519 signature of `message`."""
        if len(signature) != SIGNATURE_BYTES:
            raise VerificationError(f"signature: expected {SIGNATURE_BYTES} bytes, got {len(signature)}")
        if _y(signature[:KEY_BYTES]) in _SMALL_ORDER_Y:
            raise VerificationError("signature: its point R is of small order")
        try:
            _loaded(self.public).verify(signature, message)
        except InvalidSignature:
            raise VerificationError(f"signature: not made by the key {self.key_id_hex}") from None


class SigningKey:
    """A private key in memory. It prints as its public half and does not pickle.

    >>> book = dpl.Ledger.in_memory()
    >>> successor = dpl.keys.SigningKey.generate(book.id)  # `save` writes its file, `load` reads it
    >>> book.rotate_key(successor).body.public_key == book.public_key.text
    True
    """

    __slots__ = ("_private", "_public")

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        wire.check_ledger_id(name, "key name")
        self._private = private
        self._public = VerifyingKey(name, private.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"<SigningKey {self._public.name} {self._public.key_id_hex}>"

    @property
    def public(self) -> VerifyingKey:
        """The key that checks what this one signs."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message` (RFC 8032, deterministic), 64 bytes."""
        return self._private.sign(message)

    @classmethod
    def generate(cls, name: str) -> SigningKey:
        """A fresh key from the operating system's generator for the ledger `name`."""
        return cls(name, Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, name: str, seed: bytes) -> SigningKey:
        """The key of a seed of 32 bytes (RFC 8032 section 5.1.5). For keys made elsewhere, and for test vectors."""
        if type(seed) is not bytes or len(seed) != KEY_BYTES:
            raise ParameterError("seed", type(seed).__name__, f"{KEY_BYTES} bytes")
        return cls(name, Ed25519PrivateKey.from_private_bytes(seed))

    def to_text(self, *, passphrase: str | None = None) -> str:
        """The secret in its text form: `PRIVATE+KEY+...`, or `LOCKED+KEY+...` if a passphrase is given."""
        seed = self._private.private_bytes_raw()
        identity = f"{self._public.name}+{self._public.key_id_hex}"
        if passphrase is None:
            return f"{_OPEN_PREFIX}{identity}+{wire.to_base64(_ED25519 + seed)}"
        salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)
        ciphertext = _cipher(passphrase, salt).encrypt(nonce, seed, identity.encode())
        return f"{_LOCKED_PREFIX}{identity}+{wire.to_base64(_LOCK_V1 + salt + nonce + ciphertext)}"

    @classmethod
    def from_text(cls, text: str, *, passphrase: Passphrase | None = None) -> SigningKey:
        """The key that `to_text` wrote. ParameterError, showing nothing of the text, if it is malformed, if its name,
        id and secret do not belong together, or if the passphrase is missing, superfluous or wrong."""
        if not isinstance(text, str):
            raise ParameterError("signing key", type(text).__name__, "the text of a key")
        if text.startswith(_OPEN_PREFIX):
            if isinstance(passphrase, str):
                raise ParameterError("passphrase", "one", "none: this key is not locked")
            name, key_id, data = _split(text.removeprefix(_OPEN_PREFIX), "signing key")
            _check_type(data, 1 + KEY_BYTES, "signing key")
            seed = data[1:]
        elif text.startswith(_LOCKED_PREFIX):
            if passphrase is None:
                raise ParameterError("passphrase", "none", "the passphrase that this key is locked with")
            name, key_id, data = _split(text.removeprefix(_LOCKED_PREFIX), "signing key")
            seed = _unlocked(data, said_once(passphrase), f"{name}+{key_id}")
        else:
            raise ParameterError("signing key", "another text", "PRIVATE+KEY+... or LOCKED+KEY+...")
        key = cls.from_seed(name, seed)
        _check_id(key.public, key_id, "signing key")
        return key

    def save(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> None:
        """Writes a new key file that its owner alone can read, and returns when it is on the disk.

        ParameterError if something exists at `path` (nothing is overwritten) or if it cannot be written.
        """
        require_posix(Path(path), "key file")
        data = f"{self.to_text(passphrase=passphrase)}\n".encode()
        try:
            create_private(Path(path), data)
        except FileExistsError:
            raise ParameterError("key file", str(path), "a path where nothing exists yet") from None
        except OSError as error:
            raise ParameterError("key file", str(path), f"a path that can be written ({error.strerror})") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, passphrase: Passphrase | None = None) -> SigningKey:
        """The key in a key file. ParameterError if there is none, if its group or others have any right to it, or if it
        does not hold a key."""
        require_posix(Path(path), "key file")
        try:
            data = read_private(Path(path))
        except OSError as error:
            raise ParameterError("key file", str(path), f"a readable key file ({error.strerror})") from None
        try:
            line = data.decode("ascii")
        except UnicodeDecodeError:
            raise ParameterError("key file", str(path), "one line of ASCII text") from None
        return cls.from_text(line.removesuffix("\n"), passphrase=passphrase)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, *, passphrase: Passphrase | None = None
    ) -> SigningKey | None:
        """The key whose text the variable DPLEDGER_KEY holds; None where it is not set."""
        text = environment.get(ENVIRONMENT_KEY)
        return None if text is None else cls.from_text(text, passphrase=passphrase)


def said_once(passphrase: Passphrase | None) -> str | None:
    """The passphrase as text, asked for now. ParameterError for what is neither text nor a function that gives it."""
    if passphrase is not None and not isinstance(passphrase, str):
        if isinstance(passphrase, type) or not callable(passphrase):
            raise ParameterError("passphrase", type(passphrase).__name__, "text, or a function that gives it")
        return passphrase()
    return passphrase


def new_ledger_id(label: str) -> str:
    """A fresh ledger id, `<label>/<128 random bits in hex>`. The label, 1 to 95 of `a-z 0-9 . / _ -`, is for people.
    ParameterError, saying what a label may be, for another one."""
    if type(label) is str and 1 <= len(label) <= _LABEL_CHARACTERS:
        with suppress(ParameterError):
            return wire.check_ledger_id(f"{label}/{secrets.token_hex(16)}", "name")
    expected = (
        f"1 to {_LABEL_CHARACTERS} of a-z 0-9 . / _ -, the first a letter or digit, no . or / at the end or beside "
        "another, like my-clinic"
    )
    raise ParameterError("name", label, expected)


_OPEN_PREFIX: Final = "PRIVATE+KEY+"
_LOCKED_PREFIX: Final = "LOCKED+KEY+"
SIGNING: Final = (_OPEN_PREFIX, _LOCKED_PREFIX)  # what the text of a signing key begins with


@lru_cache(maxsize=64)
def _key_id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


@lru_cache(maxsize=64)
def _loaded(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def _y(encoding: bytes) -> int:
    """The y coordinate of an encoded point, without the sign bit of x."""
    return int.from_bytes(encoding, "little") & (2**255 - 1)


@lru_cache(maxsize=64)
def _check_point(public: bytes) -> None:
    """Raises ParameterError unless `public` is the one encoding (RFC 8032 section 5.1.3) of a point of large order.

    An encoding with x = 0 and the sign bit set is not canonical either, but x = 0 only at small order.
    """
    y = _y(public)
    if y >= _PRIME:
        raise ParameterError("public key", "a non-canonical encoding", "the one encoding of a point")
    if y in _SMALL_ORDER_Y:
        raise ParameterError("public key", "a point of small order", "a point of large order")
    # x^2 = (y^2 - 1) / (d y^2 + 1); a product is a square exactly if the quotient is
    if pow((y * y - 1) * (_CURVE_D * y * y + 1), (_PRIME - 1) // 2, _PRIME) != 1:
        raise ParameterError("public key", "no point of the curve", "the encoding of a point of edwards25519")


def _split(text: str, what: str) -> tuple[str, str, bytes]:
    """Name, key id and data of `<name>+<id>+<base64>`; the text itself, which may be a secret, is never shown."""
    if not isinstance(text, str):
        raise ParameterError(what, type(text).__name__, "the text of a key")
    name, _, rest = text.partition("+")
    key_id, _, data = rest.partition("+")
    if not name or not re.fullmatch(r"[0-9a-f]{8}", key_id) or not data:
        raise ParameterError(what, "another form", "<name>+<8 hexadecimal digits>+<base64>")
    return name, key_id, wire.from_base64(data, what)


def _check_type(data: bytes, length: int, what: str) -> None:
    if data[:1] != _ED25519:
        raise ParameterError(what, f"signature type 0x{data[:1].hex()}", "0x01 (Ed25519)")
    if len(data) != length:
        raise ParameterError(what, f"{len(data)} bytes", f"{length} bytes")


def _check_id(key: VerifyingKey, key_id: str, what: str) -> None:
    if key.key_id_hex != key_id:
        raise ParameterError(what, f"the key id {key_id}", f"{key.key_id_hex}, which name and key give")


def _cipher(passphrase: str | None, salt: bytes) -> ChaCha20Poly1305:
    if type(passphrase) is not str or not passphrase:
        raise ParameterError("passphrase", "an empty one", "at least one character")
    try:
        secret = passphrase.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("passphrase", "half of a surrogate pair", "characters that have a form in UTF-8") from None
    return ChaCha20Poly1305(Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=8, p=1).derive(secret))


def _unlocked(data: bytes, passphrase: str | None, identity: str) -> bytes:
    start_of_nonce = len(_LOCK_V1) + _SALT_BYTES
    start_of_ciphertext = start_of_nonce + _NONCE_BYTES
    if data[:1] != _LOCK_V1 or len(data) != start_of_ciphertext + KEY_BYTES + _TAG_BYTES:
        raise ParameterError("signing key", "another form", "a locked key of version 0x01")
    cipher = _cipher(passphrase, data[len(_LOCK_V1) : start_of_nonce])
    try:
        return cipher.decrypt(data[start_of_nonce:start_of_ciphertext], data[start_of_ciphertext:], identity.encode())
    except InvalidTag:
        raise ParameterError("passphrase", "another one", "the passphrase that this key is locked with") from None


def create_private(path: Path, data: bytes) -> None:
    """Write a new file for its owner alone; on the disk when this returns. FileExistsError where something is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)  # half a key is of no use, and O_EXCL would refuse the next attempt
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_private(path: Path) -> bytes:
    """The bytes of a key file. Its rights are read from the open file, so it cannot be exchanged in between.
    ParameterError where its group or others have any right to it, OSError where it cannot be read."""
    with bounded.opened(path) as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            rights = f"{path} with mode {stat.S_IMODE(mode):04o}"
            raise ParameterError("key file", rights, "mode 0600: no right for group or others (chmod 600)")
        data = file.read(LONGEST_FILE + 1)
    if len(data) > LONGEST_FILE:
        raise ParameterError("key file", f"{path} with more than {LONGEST_FILE} bytes", "a key file")
    return data
