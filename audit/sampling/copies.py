"""What a run is given and what it gives, kept apart from every other run: copies of outputs, digests of data.

A mechanism may answer in a buffer that it uses again, and it may write into its data. So an output is copied before the
next run starts, and data are compared with what they were by a digest.

>>> buffer = np.zeros(2)
>>> one = copied(buffer); buffer[0] = 5
>>> one.tolist()
[0.0, 0.0]
>>> digest([1, 2.0]) == digest([1, 2.0]), digest([1, 2.0]) == digest([1, 2.5]), digest([1]) == digest([True])
(True, False, False)
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["Uncopied", "copied", "copied_batch", "digest", "is_immutable", "shares_memory"]

ATOMS: Final = frozenset({float, int, bool, str, bytes, complex, type(None)})
MOST_ITEMS = 2**20  # of an iterator: one that never ends is an outcome as well
DEEPEST = 100  # levels of data that a digest looks into: deeper, or in a circle, it says so and stops


class Uncopied(Exception):
    """An output that cannot be copied: it is to be encoded before the next run."""


def copied(output: object) -> object:
    """`output` as it is now, whatever is done to it later; an iterator as the list of its items. Uncopied where its own
    code does not let it be copied."""
    if type(output) in ATOMS or isinstance(output, np.generic):
        return output
    if type(output) is np.ndarray and not output.dtype.hasobject:
        return output.copy()
    if type(output) in (tuple, list) and all(type(item) in ATOMS for item in output):  # type: ignore[attr-defined]
        return output[:]  # type: ignore[index]
    if isinstance(output, Iterator):
        return [copied(item) for item in itertools.islice(output, MOST_ITEMS)]
    try:
        return copy.deepcopy(output)
    except Exception as error:
        raise Uncopied from error


def copied_batch(outputs: Sequence[object] | npt.NDArray[Any]) -> Sequence[object] | npt.NDArray[Any]:
    """The outputs of a batch as they are now, to be encoded at once, which copies an array. What cannot be copied stays
    as it is."""
    if isinstance(outputs, np.ndarray) and not outputs.dtype.hasobject:
        return outputs
    if is_immutable(list(outputs)):
        return outputs
    try:
        return [copied(output) for output in outputs]
    except Uncopied:
        return outputs


def is_immutable(data: object) -> bool:
    """Whether these are numbers and texts, or a list or tuple of them: nothing that could be altered unseen."""
    return type(data) in ATOMS or (type(data) in (list, tuple) and set(map(type, data)) <= ATOMS)  # type: ignore[call-overload]


def shares_memory(left: object, right: object) -> bool:
    """Whether two collections of outputs are one, hold an array whose memory both read, or one mutable object twice:
    then they are no independent runs, whatever they hold."""
    if left is right and type(left) not in ATOMS:
        return True
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and not (left.dtype.hasobject or right.size == 0):
        return bool(np.may_share_memory(left, right) and np.shares_memory(left, right))
    ours, theirs = _mutable(left), _mutable(right)
    if {id(item) for item in ours} & {id(item) for item in theirs}:
        return True
    spans = sorted(
        [(*np.lib.array_utils.byte_bounds(item), 0) for item in ours if isinstance(item, np.ndarray)]
        + [(*np.lib.array_utils.byte_bounds(item), 1) for item in theirs if isinstance(item, np.ndarray)]
    )
    reach = [0, 0]  # the highest address of each side so far
    for low, high, side in spans:
        if low < reach[1 - side]:
            return True
        reach[side] = max(reach[side], high)
    return False


def _mutable(outputs: object) -> list[object]:
    """What of a collection could be written to: the collection's items that are neither numbers nor texts."""
    if isinstance(outputs, np.ndarray):
        return [outputs, *(outputs.ravel().tolist() if outputs.dtype.hasobject else [])]
    items = outputs if isinstance(outputs, Sequence) else ()
    found: list[object] = [item for item in items if isinstance(item, (np.ndarray, list, dict, set, bytearray))]
    return found + [part for item in found if isinstance(item, list) for part in item if isinstance(part, np.ndarray)]


def digest(data: object) -> bytes:
    """A digest of whatever the data hold, by their structure: the same until something in them is changed. Total.

    Assumes: what only its own methods show is told by its pickle, or not at all."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher.update, data, 0)
    return hasher.digest()


def _feed(update: Callable[[Any], None], data: Any, depth: int) -> None:
    kind = type(data)
    update(f"<{kind.__qualname__}>".encode())
    if depth > DEEPEST:
        return
    if kind in ATOMS or isinstance(data, np.generic):
        update(repr(data).encode("utf-8", "surrogatepass"))
    elif isinstance(data, np.ndarray) and not data.dtype.hasobject:
        update(f"{data.dtype.str}{data.dtype.names}{data.shape}".encode())
        update(np.ascontiguousarray(data).view(np.uint8).data if data.size else b"")
    elif isinstance(data, np.ndarray):
        update(f"{data.shape}".encode())
        _feed_all(update, data.ravel().tolist(), depth)
    elif isinstance(data, Mapping):
        _feed_all(update, itertools.chain.from_iterable(data.items()), depth)
    elif isinstance(data, Set):
        update(b"".join(sorted(map(digest, data))))
    elif isinstance(data, (list, tuple)):
        if _is_plain(data):
            update(pickle.dumps(data, protocol=5))  # a hundred times as fast
        else:
            _feed_all(update, data, depth)
    elif hasattr(data, "detach") and hasattr(data, "numpy"):  # a tensor
        _feed(update, data.detach().cpu().numpy(), depth + 1)
    elif hasattr(data, "to_numpy"):  # a frame, a series, an index
        _feed_table(update, data, depth)
    elif dataclasses.is_dataclass(data) and not isinstance(data, type):
        _feed_all(update, (getattr(data, field.name, None) for field in dataclasses.fields(data)), depth)
    else:
        _feed_object(update, data, depth)
    update(b"</>")


def _is_plain(data: Sequence[object]) -> bool:
    """Whether these are numbers and texts, or rows of them."""
    if set(map(type, data)) <= ATOMS:
        return True
    rows = [item for item in data if type(item) in (list, tuple)]
    return len(rows) == len(data) and set(map(type, itertools.chain.from_iterable(rows))) <= ATOMS  # type: ignore[arg-type]


def _feed_all(update: Callable[[Any], None], items: Any, depth: int) -> None:
    for item in items:
        _feed(update, item, depth + 1)


def _feed_table(update: Callable[[Any], None], table: Any, depth: int) -> None:
    for part in ("columns", "index", "name", "dtype"):
        update(repr(getattr(table, part, None)).encode("utf-8", "surrogatepass"))
    columns = getattr(table, "columns", None)
    listed = [table] if columns is None else [table.iloc[:, place] for place in range(len(columns))]
    for column in listed:
        _feed(update, np.asarray(column.to_numpy()), depth + 1)


def _feed_object(update: Callable[[Any], None], data: Any, depth: int) -> None:
    try:
        update(pickle.dumps(data, protocol=5))
    except Exception:  # the object's own code: then by what it keeps
        _feed(update, getattr(data, "__dict__", None), depth + 1)
