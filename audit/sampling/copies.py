"""What a run gives, kept apart from every other run: copies of outputs.

A mechanism may answer in a buffer that it uses again. So an output is copied before the next run starts.

>>> buffer = np.zeros(2)
>>> one = copied(buffer); buffer[0] = 5
>>> one.tolist()
[0.0, 0.0]
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.sampling.digests import ATOMS

__all__ = ["Uncopied", "copied", "copied_batch", "is_immutable", "shares_memory"]

Array = npt.NDArray[Any]

MOST_CHECKED = 2**20  # pairs of arrays that lie among each other, so many that they pass for shared
MOST_WORK = 10_000  # of numpy's on one pair
MOST_ITEMS = 2**20  # of an iterator: one that never ends is an outcome as well


class Uncopied(Exception):
    """An output that cannot be copied: it is to be encoded before the next run."""


def copied(output: object) -> object:
    """`output` as it is now, whatever is done to it later; an iterator as the list of its items. Uncopied where its own
    code does not let it be copied."""
    if type(output) in ATOMS or (isinstance(output, np.generic) and not isinstance(output, np.void)):
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
        return _share(left, right)
    ours, theirs = _mutable(left), _mutable(right)
    if {id(item) for item in ours} & {id(item) for item in theirs}:
        return True
    for checked, (one, other) in enumerate(_near(_arrays(ours), _arrays(theirs))):
        if checked == MOST_CHECKED or _share(one, other):
            return True
    return False


def _share(one: Array, other: Array) -> bool:
    """Whether two arrays share an element, or may and it would take too long to see."""
    try:
        return np.shares_memory(one, other, max_work=MOST_WORK)  # type: ignore[arg-type]  # any number of steps
    except np.exceptions.TooHardError:
        return True


def _near(ours: Sequence[Array], theirs: Sequence[Array]) -> Iterator[tuple[Array, Array]]:
    """Pairs of an array of either side, one of which begins before the other ends."""
    spans = [(*np.lib.array_utils.byte_bounds(item), side, item) for side in (0, 1) for item in (ours, theirs)[side]]
    reached: tuple[list[tuple[int, Array]], list[tuple[int, Array]]] = ([], [])  # of each side, by where they end
    for low, high, side, item in sorted(spans, key=lambda span: span[:3]):
        other = reached[1 - side]
        other[:] = [(end, near) for end, near in other if end > low]
        yield from ((item, near) for _, near in other)
        reached[side].append((high, item))


def _arrays(items: Sequence[object]) -> list[Array]:
    """The arrays among them; a record of one is a view as well."""
    return [np.asarray(item) for item in items if isinstance(item, (np.ndarray, np.void))]


def _mutable(outputs: object) -> list[object]:
    """What of a collection could be written to: the collection's items that are neither numbers nor texts."""
    if isinstance(outputs, np.ndarray):
        return [outputs, *(outputs.ravel().tolist() if outputs.dtype.hasobject else [])]
    items = outputs if isinstance(outputs, Sequence) else ()
    kinds = (np.ndarray, np.void, list, dict, set, bytearray)
    found: list[object] = [item for item in items if isinstance(item, kinds)]
    return found + [part for item in found if isinstance(item, list) for part in item if isinstance(part, np.ndarray)]
