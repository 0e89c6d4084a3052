"""An Ed25519 key that an ssh-agent holds: it signs there, and its secret never comes here.

The protocol is that of draft-ietf-sshm-ssh-agent: messages of a length (4 bytes), a type, and strings, over the socket
that SSH_AUTH_SOCK names. Two of them are used: 11, the list of keys, and 13, a signature. An agent signs what it is
given, as it is: with a key of the type ssh-ed25519 the Ed25519 signature (RFC 8032) that a ledger needs (RFC 8709).
Keys of other types are refused by name. An agent that is forwarded to another host signs for whoever rules that host.
"""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dpledger.errors import ParameterError, StoreFailure, VerificationError
from dpledger.ledger.signed import wire
from dpledger.ledger.signed.keys import KEY_BYTES, SIGNATURE_BYTES, VerifyingKey

__all__ = ["SshAgentKey"]

SOCKET = "SSH_AUTH_SOCK"
SECONDS = 60.0  # an agent may ask its user to confirm
LONGEST = 256 * 1024  # bytes of a message, as OpenSSH has it
ASK_KEYS, KEYS = 11, 12
ASK_SIGNATURE, SIGNATURE = 13, 14
ED25519 = b"ssh-ed25519"
FINGERPRINT = "SHA256:"


@dataclass(frozen=True, slots=True)
class _Held:
    """A key of an agent: its blob, its type, what it is called, its fingerprint as `ssh-add -l` shows it."""

    blob: bytes
    kind: str
    comment: str

    @property
    def fingerprint(self) -> str:
        """SHA256: and the digest of the blob, in base64 without padding."""
        return FINGERPRINT + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


class SshAgentKey:
    """A `Signer` whose key an ssh-agent holds, under the name of a ledger.

    >>> dpl.keys.SshAgentKey("clinic-" + "0" * 32, socket_path="/nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dpledger.errors.ParameterError: SSH_AUTH_SOCK: expected the socket of an ssh-agent that answers ...
    """

    def __init__(self, ledger: str, key: str | None = None, *, socket_path: str | None = None) -> None:
        """`ledger`: the ledger's id, which is the name of the key. `key`: its comment, or its fingerprint
        (`SHA256:...`); None where the agent holds one Ed25519 key alone. ParameterError where no agent answers, it
        holds no such key, several, or one of another type."""
        wire.check_ledger_id(ledger, "ledger")
        if key is not None and not isinstance(key, str):
            raise ParameterError("key", type(key).__name__, "the comment or the fingerprint of a key, as text")
        path = os.environ.get(SOCKET) if socket_path is None else socket_path
        if not path:
            raise ParameterError(SOCKET, "not set", "the socket of an ssh-agent (start one: eval $(ssh-agent))")
        self._socket = path
        try:
            held = _chosen(list(_listed(_asked(path, bytes([ASK_KEYS]), KEYS))), key)
        except (OSError, _Malformed) as error:
            raise ParameterError(SOCKET, path, f"the socket of an ssh-agent that answers ({error})") from None
        self._blob = held.blob
        kind, public = _strings(held.blob, 2)
        assert kind == ED25519, "chosen so"
        if len(public) != KEY_BYTES:
            raise ParameterError("key", f"{len(public)} bytes", f"an Ed25519 key of {KEY_BYTES} bytes")
        self._public = VerifyingKey(ledger, public)

    def __repr__(self) -> str:
        return f"<SshAgentKey {self._public.name} {self._public.key_id_hex}>"

    @property
    def public(self) -> VerifyingKey:
        """The key that checks what this one signs."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`, 64 bytes, by the agent. StoreFailure where it does not sign, or says
        something else: nothing is appended then."""
        try:
            request = bytes([ASK_SIGNATURE]) + _string(self._blob) + _string(message) + struct.pack(">I", 0)
            (blob,) = _strings(_asked(self._socket, request, SIGNATURE), 1)
            kind, signature = _strings(blob, 2)
            if kind != ED25519 or len(signature) != SIGNATURE_BYTES:
                raise _Malformed("it gave a signature of another type")
            self._public.verify(signature, message)
        except (OSError, _Malformed, VerificationError) as error:
            raise StoreFailure(f"the ssh-agent did not sign ({error}): see `ssh-add -l`, and try again") from None
        return signature


class _Malformed(Exception):
    """What an agent answered is not in the protocol, or is a refusal."""


def _chosen(held: list[_Held], key: str | None) -> _Held:
    named = [one for one in held if key is None or key == (one.fingerprint if _is_fingerprint(key) else one.comment)]
    found = [one for one in named if one.kind == ED25519.decode()]
    if len(found) == 1:
        return found[0]
    if named and not found:
        kinds = ", ".join(sorted({one.kind for one in named}))
        raise ParameterError("key", f"one of the type {kinds}", "an ssh-ed25519 key (ssh-keygen -t ed25519)")
    shown = ", ".join(f"{one.fingerprint} ({one.comment})" for one in found or held) or "none"
    raise ParameterError("key", ascii(key), f"one of the keys of the ssh-agent, by comment or fingerprint: {shown}")


def _is_fingerprint(key: str) -> bool:
    """Whether a text names a key by what it is: whoever adds another to the agent may call that so."""
    return key.startswith(FINGERPRINT)


def _asked(path: str, message: bytes, expected: int) -> bytes:
    """What follows the type in the answer of the agent to `message`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        connection.sendall(_string(message))
        (length,) = struct.unpack(">I", _read(connection, 4))
        if not 1 <= length <= LONGEST:
            raise _Malformed("it answered at a length that no message has")
        answer = _read(connection, length)
    if answer[0] != expected:
        raise _Malformed("it refused: is it locked, or did somebody say no?")
    return answer[1:]


def _read(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise _Malformed("it hung up")
        parts += part
    return bytes(parts)


def _listed(answer: bytes) -> Iterator[_Held]:
    if len(answer) < 4:
        raise _Malformed("its list of keys ends early")
    (count,) = struct.unpack(">I", answer[:4])
    rest = answer[4:]
    for _ in range(count):
        blob, comment = _strings(rest, 2)
        rest = rest[8 + len(blob) + len(comment) :]
        (kind,) = _strings(blob, 1)
        yield _Held(
            blob,
            ascii(kind.decode("ascii", "replace")).strip("'"),
            ascii(comment.decode("utf-8", "replace")).strip("'"),
        )


def _strings(data: bytes, count: int) -> list[bytes]:
    """The first `count` strings in `data`, each behind its length."""
    found = []
    for _ in range(count):
        if len(data) < 4 or len(data) < 4 + (length := struct.unpack(">I", data[:4])[0]):
            raise _Malformed("its answer ends early")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
