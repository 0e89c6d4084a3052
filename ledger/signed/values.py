"""Kept values: the result of a release as bytes, so that a repetition of its key is answered. In no entry, no export.

Only plain results are kept: None, truth values, numbers, text, tuples, lists, and arrays of numbers. Anything else is
not kept (nor is an array that is more than its numbers, as one with a mask is), and a repetition says so. Nothing is
ever built by importing a name found in the bytes.

>>> restored(kept((1, 2.5, "a")))
(1, 2.5, 'a')

The store holds them sealed, so that whoever can write there cannot have another value handed out:

    seal || bytes     the seal: the ledger key's Ed25519 signature, 64 bytes, of DSSE's pre-authentication encoding of
        type          application/vnd.dpledger.kept.v1+json
        payload       {"charge", "entry", "key", "ledger", "request", "scope", "value"} in the profile of `wire`:
                      whose value it is (`ValueOrigin`), and the SHA-256 of the bytes

A seal stands beside the value and in no entry: a digest that anyone could read would give away a value of few
possibilities.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpledger.errors import VerificationError
from dpledger.ledger.signed import envelope, wire
from dpledger.ledger.signed.keys import SIGNATURE_BYTES, Signer, VerifyingKey, signature_of

__all__ = [
    "LARGEST_KEPT",
    "SALT_BYTES",
    "SEAL_TYPE",
    "ValueOrigin",
    "digest",
    "kept",
    "restored",
    "seal_payload",
    "sealed",
    "unsealed",
]

SEAL_TYPE = "application/vnd.dpledger.kept.v1+json"
LARGEST_KEPT = 65_536  # bytes of a value that is kept
SALT_BYTES = 32
_WIDEST = 8  # bytes of a number whose form is the same on every machine
_DTYPE = re.compile(r"[<>|][biuf][1248]")


def kept(value: object) -> bytes | None:
    """The bytes of `value`; None if it is of a kind that is not kept, or larger than 64 KiB."""
    return _plain_bytes(value, by_dtype=True)


def digest(value: object, salt: bytes) -> str | None:
    """SHA-256 of the salt (32 secret bytes) and the bytes of `value`, in hex: says nothing to whoever lacks the salt,
    and shows the value to whoever is given both. A number is digested as such, whether it is one of NumPy's or
    Python's. None where `kept` is."""
    data = _plain_bytes(value, by_dtype=False)
    return None if data is None else hashlib.sha256(salt + data).hexdigest()


def _plain_bytes(value: object, *, by_dtype: bool) -> bytes | None:
    try:
        data = json.dumps(_tagged(value, by_dtype), separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return data if len(data) <= LARGEST_KEPT else None


def restored(data: bytes) -> object:
    """The value whose bytes these are. The inverse of `kept`; VerificationError for anything else."""
    try:
        return _untagged(json.loads(data))
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise VerificationError(f"a kept value cannot be read ({type(error).__name__})") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """Whose value a kept value is: the charge, the key and the request that it answers in its scope, and the index of
    the entry of its commit."""

    ledger: str
    scope: str
    key: str
    request: str
    charge: str
    entry: int


def seal_payload(data: bytes, origin: ValueOrigin) -> bytes:
    """What is signed for the value with these bytes: its origin and its digest."""
    return wire.dump({**asdict(origin), "value": hashlib.sha256(data).hexdigest()})


def sealed(data: bytes, origin: ValueOrigin, signer: Signer) -> bytes:
    """The bytes of a value as the store holds them."""
    return signature_of(envelope.pre_authentication(seal_payload(data, origin), SEAL_TYPE), signer) + data


def unsealed(stored: bytes, origin: ValueOrigin, key: VerifyingKey) -> bytes:
    """The bytes of the value in what the store holds. The inverse of `sealed`; VerificationError unless `key` signed
    just these bytes for this origin."""
    seal, data = stored[:SIGNATURE_BYTES], stored[SIGNATURE_BYTES:]
    try:
        key.verify(seal, envelope.pre_authentication(seal_payload(data, origin), SEAL_TYPE))
    except VerificationError:
        raise VerificationError(
            "the value that the store holds for it is not one that the ledger signed for this key and request: the "
            "file was changed, or an earlier version kept the value unsigned. It is withheld, and the charge "
            "stands; find out who writes to the file, and release again under a new key",
            index=origin.entry,
        ) from None
    return data


def _tagged(value: object, by_dtype: bool) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return ["is", value]
    if isinstance(value, np.generic) and _is_plain(value.dtype):
        number = _tagged(value.item(), by_dtype)
        return ["scalar", value.dtype.str, number] if by_dtype else number
    if isinstance(value, np.generic):
        raise TypeError(type(value).__name__)
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, int):
        return ["int", str(int(value))]
    if type(value) in (tuple, list) and isinstance(value, (tuple, list)) and len(value) <= LARGEST_KEPT:
        return [type(value).__name__, [_tagged(item, by_dtype) for item in value]]
    if type(value) is np.ndarray and _is_plain(value.dtype) and value.nbytes <= LARGEST_KEPT:
        plain = np.ascontiguousarray(value)
        return ["array", plain.dtype.str, list(value.shape), base64.b64encode(plain.tobytes()).decode()]
    raise TypeError(type(value).__name__)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= _WIDEST


def _untagged(value: Any) -> Any:
    match value:
        case ["is", item]:
            return item
        case ["float", text]:
            return float.fromhex(text)
        case ["int", text]:
            return int(text)
        case ["scalar", str(dtype), number] if _DTYPE.fullmatch(dtype):
            return np.dtype(dtype).type(_untagged(number))
        case ["tuple", items]:
            return tuple(_untagged(item) for item in items)
        case ["list", items]:
            return [_untagged(item) for item in items]
        case ["array", str(dtype), shape, text] if _DTYPE.fullmatch(dtype):
            return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype).reshape(shape).copy()
        case _:
            raise ValueError("unknown tag")
