"""Canaries: a record that nobody has, put into a batch. With and without it are neighbours under add_remove.

>>> with_canary(np.zeros((2, 3)), [1, 1, 1]).shape
(3, 3)
>>> with_canary((np.zeros((2, 3)), [0, 1]), ([1, 1, 1], 0))[1]
[0, 1, 0]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dpledger.errors import ParameterError

__all__ = ["with_canary"]


def with_canary(batch: object, canary: object, *, field: str = "states") -> Any:
    """A batch with one more item, its last. `batch`: an array, a tensor of torch, a list, or a tuple of such, side by
    side; of a tuple the canary is a tuple as well. ParameterError for another container, which it names as `field`, and
    where the canary does not have the shape of an item."""
    if isinstance(batch, tuple):
        if not isinstance(canary, tuple) or len(canary) != len(batch):
            raise ParameterError("canary", type(canary).__name__, f"a tuple of {len(batch)}, as a batch is")
        return tuple(with_canary(column, item, field=field) for column, item in zip(batch, canary, strict=True))
    if isinstance(batch, list):
        return [*batch, canary]
    try:
        if isinstance(batch, np.ndarray):
            return np.concatenate([batch, np.asarray(canary, dtype=batch.dtype)[np.newaxis]])
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(batch, torch.Tensor):
            item = torch.as_tensor(canary, dtype=batch.dtype, device=batch.device)
            return torch.cat([batch, item[None]])
    except (ValueError, TypeError, RuntimeError):
        shape = tuple(getattr(batch, "shape", ()))[1:]
        raise ParameterError("canary", type(canary).__name__, f"an item of a batch, of shape {shape}") from None
    given = f"{'a batch that is ' if field == 'states' else ''}a {type(batch).__name__}"
    raise ParameterError(field, given, "an array, a tensor, a list or a tuple")
