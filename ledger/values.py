"""Kept values: the result of a release as bytes, so that a repetition of its key is answered. In no entry, no export.

Only plain results are kept: None, truth values, numbers, text, tuples, lists, and arrays of numbers. Anything else is
not kept, and a repetition says so. Nothing is ever built by importing a name found in the bytes.

>>> restored(kept((1, 2.5, "a")))
(1, 2.5, 'a')
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from dpledger.errors import VerificationError

__all__ = ["LARGEST", "SALT_BYTES", "digest", "kept", "restored"]

LARGEST = 65_536  # bytes of a value that is kept
SALT_BYTES = 32
_WIDEST = 8  # bytes of a number whose form is the same on every machine


def kept(value: object) -> bytes | None:
    """The bytes of `value`; None if it is of a kind that is not kept, or larger than 64 KiB."""
    try:
        data = json.dumps(_tagged(value), separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return data if len(data) <= LARGEST else None


def digest(value: object, salt: bytes) -> str | None:
    """SHA-256 of the salt (32 secret bytes) and the bytes of `value`, in hex: says nothing to whoever lacks the salt,
    and shows the value to whoever is given both. None where `kept` is."""
    data = kept(value)
    return None if data is None else hashlib.sha256(salt + data).hexdigest()


def restored(data: bytes) -> object:
    """The value whose bytes these are. The inverse of `kept`; VerificationError for anything else."""
    try:
        return _untagged(json.loads(data))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise VerificationError(f"a kept value cannot be read ({type(error).__name__})") from None


def _tagged(value: object) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return ["is", value]
    if isinstance(value, (float, np.float64, np.float32, np.float16)):
        return ["float", float(value).hex()]
    if isinstance(value, (int, np.integer)):
        return ["int", str(int(value))]
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list) and len(value) <= LARGEST:
        return [type(value).__name__, [_tagged(item) for item in value]]
    if isinstance(value, np.ndarray) and _is_plain(value.dtype) and value.nbytes <= LARGEST:
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
        case ["tuple", items]:
            return tuple(_untagged(item) for item in items)
        case ["list", items]:
            return [_untagged(item) for item in items]
        case ["array", dtype, shape, text] if _is_plain(np.dtype(dtype)):
            return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype).reshape(shape).copy()
        case _:
            raise ValueError("unknown tag")
