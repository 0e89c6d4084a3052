"""Where random bits come from: a keystream keyed by the operating system, and a seeded one for tests and audits.

Both are ChaCha20 keystreams (RFC 8439) of the `cryptography` package; they differ in the key alone. A generator
belongs to the process that made it and refuses in a forked child, so that two processes never share noise. Threads may
share it: no two of them get the same words.

>>> seeded(7).words(2).tolist() == seeded(7).words(2).tolist()
True
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms

from dpledger.errors import ParameterError
from dpledger.process import Home

__all__ = ["Entropy", "Keystream", "Words", "seeded", "system"]

Words = npt.NDArray[np.uint64]

_KEY_BYTES = 32
_REKEY_AFTER = 2**36  # bytes from one key: well below the 2^38 that a 32-bit block counter allows


class Entropy(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int, /) -> Words:
        """`count` words, as uint64[count]."""
        ...


class Keystream:
    """A ChaCha20 keystream. `key`: 32 secret bytes; `stream` separates streams of one key.

    `system=True` marks a key from the operating system: then the key is replaced after 2^36 bytes. May be shared by
    threads; refuses in a forked child, where it would repeat its parent's words (make one there: `system()`).
    """

    def __init__(self, key: bytes, *, stream: int = 0, system: bool = False) -> None:
        if len(key) != _KEY_BYTES:
            raise ParameterError("key", f"{len(key)} bytes", "32 bytes")
        self._home = Home("a noise source")
        self._lock = threading.RLock()  # the cipher may not run twice at once; RLock: a signal handler may draw, too
        self._system = system
        self._start(key, stream)

    def __reduce__(self) -> str:
        raise TypeError("an entropy source does not pickle: a copy would repeat its words")

    @property
    def is_secret(self) -> bool:
        """Whether its key is from the operating system: nobody knows it."""
        return self._system

    def _start(self, key: bytes, stream: int) -> None:
        nonce = struct.pack("<IIQ", 0, 0, stream)  # 4 bytes of block counter, 12 of nonce
        self._stream: CipherContext = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()
        self._drawn = 0

    def words(self, count: int, /) -> Words:
        """`count` fresh words, as uint64[count]."""
        self._home.require()
        if count < 0:
            raise ParameterError("count", count, "a whole number of at least 0")
        with self._lock:
            if self._drawn > _REKEY_AFTER:
                if not self._system:
                    raise ParameterError("entropy", "a seeded stream past 2^36 bytes", "a fresh stream")
                self._start(os.urandom(_KEY_BYTES), 0)
            self._drawn += 8 * count
            drawn = self._stream.update(bytes(8 * count))
        return np.frombuffer(drawn, dtype="<u8").astype(np.uint64, copy=False)


def system() -> Keystream:
    """A keystream keyed with 256 bits from the operating system: what releases are drawn from."""
    return Keystream(os.urandom(_KEY_BYTES), system=True)


def seeded(seed: int, *path: int) -> Keystream:
    """A reproducible keystream for tests and audits; `path` names independent streams of one seed.

    Never for a release: whoever knows the seed knows the noise.
    """
    label = ".".join(str(part) for part in (seed, *path))
    return Keystream(hashlib.sha256(b"dpledger seeded entropy " + label.encode()).digest())
