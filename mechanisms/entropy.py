"""Where random bits come from: the operating system, and a seeded keystream for tests and audits.

The source that releases draw from keeps no key: every call asks the operating system anew, so a copy of the process's
memory repeats no noise that is drawn after it, and tells nothing of what was drawn before. Keystreams are ChaCha20 (RFC
8439) of the `cryptography` package. A source belongs to the process that made it and refuses in a forked child.
Threads may share it: no two of them get the same words.

>>> seeded(7).words(2).tolist() == seeded(7).words(2).tolist()
True
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from dpledger.errors import ParameterError
from dpledger.process import Home

__all__ = ["Entropy", "Keystream", "SystemEntropy", "Words", "seeded", "system"]

Words = npt.NDArray[np.uint64]

_KEY_BYTES = 32
_MOST_BYTES = 2**36  # from one key: well below the 2^38 that a 32-bit block counter allows
_DIRECT = 256  # words: up to so many the operating system is faster than a keystream with a key from it


class Entropy(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int, /) -> Words:
        """`count` words, as uint64[count]."""
        ...


class Keystream:
    """A ChaCha20 keystream. `key`: 32 bytes.

    May be shared by threads; refuses in a forked child, where it would repeat its parent's words (make one there).
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise ParameterError("key", f"{len(key)} bytes", "32 bytes")
        self._home = Home("a noise source")
        self._lock = threading.RLock()  # the cipher may not run twice at once; RLock: a signal handler may draw, too
        nothing = bytes(16)  # 4 of the block counter, 12 of the nonce: a key has one stream
        self._stream = Cipher(algorithms.ChaCha20(key, nothing), mode=None).encryptor()
        self._drawn = 0

    def __reduce__(self) -> str:
        raise TypeError("an entropy source does not pickle: a copy would repeat its words")

    def words(self, count: int, /) -> Words:
        """`count` fresh words, as uint64[count]. ParameterError for a stream that is used up."""
        self._home.require()
        _require_count(count)
        with self._lock:
            if self._drawn + 8 * count > _MOST_BYTES:
                raise ParameterError("entropy", "a keystream past 2^36 bytes", "a fresh stream")
            self._drawn += 8 * count
            drawn = self._stream.update(bytes(8 * count))
        return _as_words(drawn)


class SystemEntropy:
    """The operating system's generator, asked anew at every call: what releases are drawn from.

    Many words come from a keystream whose key is made for that one call. Nothing is kept between two calls. Refuses in
    a forked child, as all that draws noise does: what was copied was charged once (docs/adr/0007-one-process.md).
    """

    def __init__(self) -> None:
        self._home = Home("a noise source")

    def __reduce__(self) -> str:
        raise TypeError("an entropy source does not pickle: make one where it is used")

    def words(self, count: int, /) -> Words:
        """`count` fresh words, as uint64[count]."""
        self._home.require()
        _require_count(count)
        return _as_words(os.urandom(8 * count)) if count <= _DIRECT else Keystream(os.urandom(_KEY_BYTES)).words(count)


def _require_count(count: int) -> None:
    if not 0 <= count <= _MOST_BYTES // 8:
        raise ParameterError("count", count, f"a whole number from 0 to {_MOST_BYTES // 8}")


def _as_words(drawn: bytes) -> Words:
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64, copy=False)


def system() -> SystemEntropy:
    """A source that asks the operating system at every call: what releases are drawn from."""
    return SystemEntropy()


def seeded(seed: int, *path: int) -> Keystream:
    """A reproducible keystream for tests and audits; `path` names independent streams of one seed.

    Never for a release: whoever knows the seed knows the noise.
    """
    label = ".".join(str(part) for part in (seed, *path))
    return Keystream(hashlib.sha256(b"dpledger seeded entropy " + label.encode()).digest())
