"""Chains: one value answered ever more precisely, where a finer answer makes the coarser ones free.

The levels of a chain share their noise: each coarser one is the finer one, made noisier by coins and noise that know
nothing of the data. So all that was answered is as revealing as the last answer alone, however the scales were chosen.

>>> from dpledger.mechanisms.entropy import seeded
>>> one = Sensitivity(1, "l1", "a record changes a count by one")
>>> levels = chain(DiscreteLaplace(scale=1), 1000, sensitivity=one, entropy=seeded(1))
>>> [levels.refine(scale) for scale in (50, 10, 1)]
[824, 1011, 998]
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.decimals import Number, read, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise.laws import DiscreteLaplace, Refinement, RoundedLaplace, Sensitivity
from dpledger.mechanisms.noise.noise_chains import DiscretePath, Finest, LaplacePath, path
from dpledger.mechanisms.noise.randomness_log import logged
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home

__all__ = ["NoiseChain", "chain"]

Value = TypeVar("Value", int, npt.NDArray[Any])


class NoiseChain(Generic[Value]):
    """The conversation of `chain`. It holds the exact value and the noise of all levels: it shows neither, does not
    pickle, and refuses in a forked child. Threads may share it."""

    def __init__(self, finest: Finest, value: Value, sensitivity: Sensitivity, entropy: Entropy) -> None:
        self._finest, self._sensitivity, self._entropy = finest, sensitivity, entropy
        self._value: Value = value
        self._path: LaplacePath | DiscretePath | None = None
        self._scale: Decimal | None = None
        self._home = Home("a chain of noise")
        self._turn = Turn("a chain of noise")

    def __repr__(self) -> str:
        reached = "nothing drawn" if self._scale is None else f"at scale {text(self._scale)}"
        return f"<{type(self).__name__}: {reached}>"

    def __reduce__(self) -> str:
        raise TypeError("a chain of noise does not pickle: a copy would repeat its noise")

    @property
    def scale(self) -> Decimal | None:
        """The scale of the last level, None before the first: what has been answered is as revealing as that."""
        return self._scale

    def refine(self, scale: Number) -> Value:
        """The value with noise of this scale: below that of the last level, and not below that of the finest.

        Raises ParameterError, with nothing drawn, for another scale. A coarser level is post-processing of the
        last answer."""
        self._home.require()
        asked = read(scale, field="scale")
        with self._turn:
            self._require_finer(asked)
            size = self._value.size if isinstance(self._value, np.ndarray) else 1
            if self._path is None:
                self._path = path(self._finest, asked, size, self._entropy)
            noise = self._path.read(asked)
            self._scale = asked
            law, answer = Refinement(self._finest, asked), _sum(self._value, noise)
            shape = self._value.shape if isinstance(self._value, np.ndarray) else ()
            return logged(law, answer, value=self._value, shape=shape, sensitivity=self._sensitivity)

    def _require_finer(self, scale: Decimal) -> None:
        if scale < self._finest.scale:
            raise ParameterError("scale", scale, f"at least that of the finest level, {text(self._finest.scale)}")
        if self._scale is not None and scale >= self._scale:
            raise ParameterError("scale", scale, f"a scale below that of the last level, {text(self._scale)}")


def chain(finest: Finest, value: Value, *, sensitivity: Sensitivity, entropy: Entropy) -> NoiseChain[Value]:
    """Begin a chain of ever more precise answers. Nothing is drawn before the first level is asked for.

    `finest`: RoundedLaplace or DiscreteLaplace, the law of the finest level that may be asked for. `value`: an int, or
    an array of integers of any shape (each entry has a chain of its own), in whole steps of `finest.grid`.
    Claim: levels of scales b_1 > ... > b_k, each chosen after the answers before it, have together the log likelihood
    ratio of the last: at most sensitivity / b_k, for sensitivity in the l1 norm; and each alone is exactly the value
    plus noise of the law of `finest` at that scale.
    Source: Koufogiannis-Han-Pappas 2017; docs/proofs/noise.md, section 10.
    """
    if not isinstance(finest, (RoundedLaplace, DiscreteLaplace)):
        raise ParameterError("finest", type(finest).__name__, "RoundedLaplace or DiscreteLaplace")
    if not isinstance(sensitivity, Sensitivity):
        raise ParameterError("sensitivity", type(sensitivity).__name__, "a Sensitivity with norm and justification")
    return NoiseChain(finest, _whole(value), sensitivity, entropy)


def _whole(value: Value) -> Value:
    """A copy, of Python's own int or an array of whole numbers."""
    known: Value
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iu" or (value.dtype.kind == "O" and all(type(item) is int for item in value.flat)):
            known = np.array(value)  # of a masked array every entry
            return known
    elif isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        known = int(value)
        return known
    raise ParameterError("value", type(value).__name__, "whole numbers of steps: an int or an array of integers")


def _sum(value: Value, noise: npt.NDArray[Any]) -> Value:
    """value + noise in Python integers; int64 where all of them fit."""
    total: Value
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1).astype(object) + noise
        if not flat.size or -(2**63) <= min(flat) <= max(flat) < 2**63:
            flat = flat.astype(np.int64)
        total = flat.reshape(value.shape)
    else:
        total = value + int(noise[0])
    return total
