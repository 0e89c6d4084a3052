"""The encoder: outputs in, numbers and labels at paths out. Total: no output raises, whatever it is.

Runs are read by columns. Those of one type stand together: floats, whole numbers, texts, lists and arrays of equal
shape become a column at once; a dict with the same keys, one column a key. `kinds` says of any other thing which parts
it has. Everything is copied, so a mechanism may reuse its output.

>>> found = encode([{"mean": 0.5, "rows": 3}, {"mean": 0.7, "rows": 3}])
>>> found.numbers['output["mean"]'].ravel().tolist(), found.labels['output["rows"]'].tolist()
([0.5, 0.7], ['int', 'int'])
>>> encode(["a 1.5", None]).numbers["numbers in output"].ravel().tolist()
[1.5, nan]
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import NoneType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.audit.outcomes.kinds import described, key_words, to_float
from dpledger.audit.outcomes.structure import (
    ABSENT,
    DEEPEST,
    MOST_PARTS,
    ROOT,
    TOO_DEEP,
    TOO_MANY,
    UNREAD,
    Floats,
    Labels,
    Outcomes,
    Rows,
    gathered,
    joined,
    name_of_error,
)
from dpledger.audit.outcomes.texts import digest_of, read, shortened, words_of
from dpledger.mechanisms.protocol import Release

__all__ = ["Outputs", "encode"]

T = TypeVar("T")
Outputs: TypeAlias = "Sequence[object] | npt.NDArray[Any]"

DEEPEST_BLOCK = 3  # lists within lists that are one block
WORD = 53  # bits of a whole number that a double holds
EXACT = 2**WORD
MOST_WORDS = 64  # of one whole number
PLAIN = frozenset({float, int, bool, np.float64, np.float32, np.float16, np.int64, np.int32, np.bool_})
"""Types of numbers that stand in one block with others of a list."""

NUMPY_NUMBERS = {np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"}
"""Types whose numbers make one array: all but durations, which have units."""

PLAIN_BUT_BOOL = PLAIN - {bool, np.bool_}
WHOLE = frozenset({int, np.int64})  # of them, those that may have more bits than a double
LONGEST_SPELLED = 64


def encode(outputs: Outputs | Iterable[object]) -> Outcomes:
    """The outcomes of `outputs`, one run an item.

    What a run is read as is a function of that run alone: whatever runs stand beside it and however they are cut into
    chunks, its numbers and labels are the same. So of an array that holds many runs only the values are read, and not
    its dtype, which all of them decide together: an item that is too large for int32, a text of six letters, a NaN.
    Limits (4,096 parts, 12 levels) are counted in each run by itself."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an output's own code may warn
        if not isinstance(outputs, (np.ndarray, list, tuple)):
            outputs = _batch(outputs)
        if not isinstance(outputs, np.ndarray) or isinstance(outputs, np.ma.MaskedArray):
            return _of_list(list(outputs))
        batch = np.asarray(outputs if outputs.ndim else outputs.reshape(1))
        if batch.dtype.kind == "O" and batch.ndim == 1:
            return _of_list(list(map(_by_value, batch.tolist())))
        found = _Walk(len(batch))
        if len(batch):
            found.array(ROOT, batch, None, _read_as(batch), typed=False)
        return found.outcomes()


def _by_value(item: object) -> object:
    """A number of an array of objects as it would stand in an array of numbers, where a double holds it."""
    return float(item) if type(item) in PLAIN and not abs(item) > EXACT else item  # type: ignore[arg-type]


def _read_as(batch: npt.NDArray[Any]) -> str:
    """The shape of the runs of an array, and what their values are read as, whatever its dtype is."""
    if batch.dtype.names:
        return "record"
    if batch.dtype.kind in "biufUS" and batch.ndim == 1:
        return ""  # numbers and texts, which say themselves that they are texts
    kinds = dict.fromkeys("biuf", np.dtype(np.float64)) | {"c": np.dtype(np.complex128)}
    return _type_and_shape(kinds.get(batch.dtype.kind, batch.dtype.newbyteorder("=")), batch.shape[1:])


def _batch(outputs: Any) -> Outputs:
    """A column, a frame or a tensor whose items are runs."""
    if type(outputs).__name__ == "DataFrame":
        return list(outputs.to_dict("records"))
    inside = described(outputs, ROOT)[1].get(ROOT)
    return inside if isinstance(inside, np.ndarray) and inside.ndim else list(outputs)


def _of_list(items: list[Any]) -> Outcomes:
    found = _Walk(len(items))
    if not items:
        return found.outcomes()
    try:
        found.column(ROOT, items, None)
    except Exception as error:  # code of an output that fails where nothing is called on purpose: a metaclass, a key
        if len(items) > 1:
            return joined([_of_list([item]) for item in items])
        found = _Walk(1)
        found.put(ROOT, None, None, f"unreadable: {name_of_error(error)}")
    return found.outcomes()


class _Walk:
    """The columns found so far."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.numbers: dict[str, list[tuple[Rows, Floats]]] = {}
        self.labels: dict[str, list[tuple[Rows, str | Labels]]] = {}
        self.columns = 0  # no run has more parts
        self.parts: npt.NDArray[np.int64] | int = 0  # of each run; a number: of every run
        self.unread: dict[str, npt.NDArray[np.bool_]] = {}  # runs of which not all is read

    def outcomes(self) -> Outcomes:
        for path, runs in self.unread.items():
            self.put(path, np.flatnonzero(runs), None, "not read")
        labels = {path: pieces for path, pieces in self.labels.items() if not self._plain(pieces)}
        return Outcomes(self.runs, gathered(self.runs, self.numbers, np.nan), gathered(self.runs, labels, ABSENT))

    def _plain(self, pieces: list[tuple[Rows, str | Labels]]) -> bool:
        """Plain floats in every run."""
        if any(isinstance(label, np.ndarray) or label for _, label in pieces):
            return False
        if any(rows is None for rows, _ in pieces):
            return True
        here = np.zeros(self.runs, dtype=np.bool_)
        for rows, _ in pieces:
            here[rows] = True
        return bool(here.all())

    # ---- writing ----

    def put(self, path: str, rows: Rows, table: Floats | None, label: str | Labels = "") -> None:
        """The numbers, if any, and the label of some runs at a path."""
        if table is not None and table.shape[1]:
            self.numbers.setdefault(path, []).append((rows, table))
        elif isinstance(label, str):
            label = label or "nothing"  # "" is a plain number
        self.labels.setdefault(path, []).append((rows, label))

    # ---- reading ----

    def column(self, path: str, items: list[object], rows: Rows, prefix: str = "", depth: int = 0) -> None:
        """What some runs have at a path. `prefix`: words of what it is the inside of."""
        self.columns += 1
        if rows is None:
            self.parts += 1
        else:
            if isinstance(self.parts, int):
                self.parts = np.full(self.runs, self.parts, dtype=np.int64)
            self.parts[rows] += 1
        if self.columns > MOST_PARTS:  # else no run has so many
            items, rows = self._within(items, rows)
            if not items:
                return
        kinds = set(map(type, items))
        if len(kinds) == 1:
            self._alike(path, kinds.pop(), items, rows, prefix, depth)
            return
        for kind, part, at in _grouped([type(item) for item in items], items, rows):
            self._alike(path, kind, part, at, prefix, depth)

    def _within(self, items: list[object], rows: Rows) -> tuple[list[object], Rows]:
        """Without the runs of which enough is read, such as a list that holds itself many times."""
        parts = np.broadcast_to(self.parts, self.runs)
        are_few = (parts if rows is None else parts[rows]) <= MOST_PARTS
        some = np.flatnonzero(are_few)
        if len(some) == len(items):
            return items, rows
        self._leave(TOO_MANY, _part(rows, np.flatnonzero(~are_few)))
        return [items[place] for place in some], _part(rows, some)

    def _leave(self, why: str, rows: Rows) -> None:
        """Not all of these runs is read."""
        self.unread.setdefault(why, np.zeros(self.runs, dtype=np.bool_))[slice(None) if rows is None else rows] = True

    def _alike(self, path: str, kind: Any, items: list[Any], rows: Rows, prefix: str, depth: int) -> None:
        """Items of one type."""
        if depth > DEEPEST:
            self.put(path, rows, None, f"{prefix}more than {DEEPEST} levels")
            self._leave(TOO_DEEP, rows)
        elif kind is float:
            self.put(path, rows, np.array(items, dtype=np.float64).reshape(-1, 1), prefix.rstrip())
        elif kind is int:
            self._whole(path, items, rows, f"{prefix}int")
        elif kind is bool:
            self.put(path, rows, np.array(items, dtype=np.float64).reshape(-1, 1), f"{prefix}bool")
        elif kind is NoneType:
            self.put(path, rows, None, f"{prefix}None")
        elif kind is str:
            self._texts(path, items, rows, f"{prefix}text")
        elif kind is list or kind is tuple:
            self._lists(path, items, rows, f"{prefix}{kind.__name__} of ", depth)
        elif kind is dict:
            self._dicts(path, items, rows, f"{prefix}dict of ", depth)
        elif kind is Release:
            self.column(path, [item.value for item in items], rows, prefix, depth + 1)
        elif kind in NUMPY_NUMBERS:
            name = "numpy bool" if kind is np.bool_ else np.dtype(kind).name
            self.array(path, np.array(items), rows, prefix + name, depth)
        elif kind is np.ndarray or (issubclass(kind, np.generic) and kind.__module__.partition(".")[0] == "numpy"):
            arrays = [np.asarray(item) for item in items]
            names = [(array.dtype, array.shape) for array in arrays]
            for (dtype, shape), part, at in _grouped(names, arrays, rows):
                width = f" up to {dtype.itemsize} bytes" if shape and dtype.kind in "US" else ""
                name = _type_and_shape(dtype, shape) + width
                is_bare = kind is np.ndarray and not shape and not prefix
                self.array(path, np.stack(part), at, f"array of one {name}" if is_bare else prefix + name, depth)
        else:
            self._described(path, items, rows, prefix, depth)

    def _described(self, path: str, items: list[object], rows: Rows, prefix: str, depth: int) -> None:
        """Items of a type that `kinds` takes apart."""
        found = [described(item, path) for item in items]
        forms = [(label, *parts) for label, parts in found]
        for (label, *places), group, at in _grouped(forms, found, rows):
            if path not in places:
                self.put(path, at, None, prefix + label)
            for why in UNREAD.keys() & set(places):
                self._leave(why, at)
            for place in (place for place in places if place not in UNREAD):
                inner = f"{prefix}{label} " if place == path else ""
                self.column(place, [parts[place] for _, parts in group], at, inner, depth + 1)

    def _whole(self, path: str, items: list[int], rows: Rows, label: str) -> None:
        """Whole numbers of any size. Beyond 64 bits also how many bits there are, and all of them as words of 53, from
        the lowest; of very many bits a digest."""
        try:
            self._integers(path, np.array(items, dtype=np.int64).reshape(-1, 1), rows, label)
        except OverflowError:
            for words, part, at in _grouped([_words(item) for item in items], items, rows):
                if not words:
                    self._integers(path, np.array(part, dtype=np.int64).reshape(-1, 1), at, label)
                    continue
                self.put(path, at, _tall(map(to_float, part)), label)
                self.put(f"bits in {path}", at, _tall(item.bit_length() for item in part))
                shifts = [WORD * word for word in range(min(words, MOST_WORDS))]
                low = [[item >> shift & (EXACT - 1) for shift in shifts] for item in part]
                self.put(f"low bits of {path}", at, np.array(low, dtype=np.float64))
                if words > MOST_WORDS:
                    self.put(f"digest of {path}", at, None, _objects(map(digest_of, part)))

    def _integers(
        self,
        path: str,
        table: npt.NDArray[Any],
        rows: Rows,
        label: str,
        missing: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Whole numbers of a numpy type; of runs with one beyond 2^53 the low bits stand beside them."""
        numbers = table.astype(np.float64)
        self.put(path, rows, numbers if missing is None else np.where(missing, np.nan, numbers), label)
        if table.dtype.itemsize < 8 or not table.size:
            return
        large = ((table > EXACT) | (table < -EXACT) if table.dtype.kind == "i" else table > EXACT).any(axis=1)
        if large.any():
            low = (table[large] & (EXACT - 1)).astype(np.float64)
            self.put(f"low bits of {path}", _part(rows, np.flatnonzero(large)), low)

    def _texts(self, path: str, items: list[str], rows: Rows, label: str) -> None:
        self.put(path, rows, None, label)
        self.put(f"len({path})", rows, _tall(map(len, items)))
        self.put(f"text of {path}", rows, None, _objects(f"'{shortened(item)}'" for item in items))
        spoken = [words_of(item) for item in items]
        for places, some, at in _grouped([tuple(words) for words in spoken], spoken, rows):
            for place in places:
                self.put(f"word {place} of {path}", at, None, _objects(f"'{shortened(one[place])}'" for one in some))
        found = [read(item) for item in items]
        for count, part, at in _grouped([len(numbers) for _, numbers in found], found, rows):
            if count:
                self.put(f"numbers in {path}", at, np.array([numbers for _, numbers in part]))
                self.put(f"form of {path}", at, None, _objects(f"'{shortened(form)}'" for form, _ in part))

    def _lists(self, path: str, items: list[Any], rows: Rows, prefix: str, depth: int) -> None:
        """Lists: a block where all items are numbers, else a column for each place."""
        self.put(f"len({path})", rows, _tall(map(len, items)))
        if set(map(type, chain.from_iterable(items))) <= {float}:
            for count, part, at in _grouped(list(map(len, items)), items, rows):
                self.put(path, at, np.array(part, dtype=np.float64), f"{prefix}{count}")
            return
        for form, part, at in _grouped([_form(item) for item in items], items, rows):
            if form is not None:
                self._block(path, part, at, prefix + form)
                if "mixed" in form:
                    self.put(f"types in {path}", at, None, _objects(map(_types, part)))
                continue
            self._beside(path, part, at)
            for count, same, these in _grouped(list(map(len, part)), part, at):
                self.put(path, these, None, f"{prefix}{count}")
                for place in range(min(count, MOST_PARTS)):
                    self.column(f"{path}[{place}]", [item[place] for item in same], these, "", depth + 1)

    def _block(self, path: str, items: list[Any], rows: Rows, label: str) -> None:
        flat = [list(_flat(item)) for item in items]
        self.put(path, rows, np.array([list(map(to_float, row)) for row in flat], dtype=np.float64), label)
        large = [any(type(item) in WHOLE and abs(int(item)) > EXACT for item in row) for row in flat]
        for big, part, at in _grouped(large, flat, rows):
            if big:
                low = [[int(item) & (EXACT - 1) if type(item) in WHOLE else 0 for item in row] for row in part]
                self.put(f"low bits of {path}", at, np.array(low, dtype=np.float64))

    def _beside(self, path: str, items: list[Any], rows: Rows) -> None:
        """What a transcript is besides its items: where it halts (its first None, the first item that is not like the
        first of all), the numbers in it wherever they stand, and all of it in words."""
        first = [next((place for place, item in enumerate(run) if item is None), -1) for run in items]
        self.put(f"first None in {path}", rows, _tall(place if place >= 0 else np.nan for place in first))
        self.put(f"first change in {path}", rows, _tall(map(_first_change, items)))
        numbers = [[to_float(item) for item in run if type(item) in PLAIN_BUT_BOOL] for run in items]
        for count, part, at in _grouped(list(map(len, numbers)), numbers, rows):
            if count:
                self.put(f"numbers in {path}", at, np.array(part, dtype=np.float64))
        spelled = [_spelled(run) for run in items]
        for short, texts, at in _grouped([words is not None for words in spelled], spelled, rows):
            if short:
                self.put(f"text of {path}", at, None, _objects(map(str, texts)))

    def _dicts(self, path: str, items: list[dict[Any, Any]], rows: Rows, prefix: str, depth: int) -> None:
        self.put(f"len({path})", rows, _tall(map(len, items)))
        seen: dict[tuple[str, ...], tuple[str, ...]] = {}
        words = []
        for item in items:
            if set(map(type, item)) <= {str}:
                keys = tuple(item)
                if keys not in seen:
                    seen[keys] = key_words(keys)
                words.append(seen[keys])
            else:
                words.append(key_words(item))
        numeric = [bool(item) and set(map(type, item)) <= PLAIN for item in items]
        for are, part, at in _grouped(numeric, items, rows):
            if are:
                self.column(f"keys of {path}", [sorted(item) for item in part], at, "", depth + 1)
        for keys, part, at in _grouped(words, items, rows):
            self.put(path, at, None, prefix + shortened(", ".join(keys)))
            values = [list(item.values()) for item in part]
            for place, key in enumerate(keys[:MOST_PARTS]):
                self.column(f"{path}[{key}]", [item[place] for item in values], at, "", depth + 1)

    def array(
        self, path: str, batch: npt.NDArray[Any], rows: Rows, label: str, depth: int = 0, *, typed: bool = True
    ) -> None:
        """Arrays of one type and shape: batch[runs, ...]. `label`: what stands for their type and shape. `typed`:
        whether the type is theirs, and not that of the whole batch."""
        kind, shape = batch.dtype.kind, batch.shape[1:]
        if shape and (kind in "iubfcmM" or batch.dtype.names):  # else it is read as a list, which has its own length
            self.put(f"len({path})", rows, np.full((len(batch), 1), float(shape[0])))
        flat = batch.reshape(len(batch), -1)
        if kind in "iu":
            self._integers(path, flat, rows, label)
        elif kind in "bf":
            table = np.array(flat, dtype=np.float64, order="C")
            self.put(path, rows, table, label)
            if batch.dtype.itemsize > table.itemsize:
                self._rounding(path, flat - table, rows)
        elif kind == "c":
            self.put(path, rows, None, label)
            self.array(f"{path}.real", batch.real, rows, "", depth + 1)
            self.array(f"{path}.imag", batch.imag, rows, "", depth + 1)
        elif kind in "mM":
            missing = np.isnat(flat)
            ticks = np.where(missing, 0, flat.astype(flat.dtype.newbyteorder("=")).view(np.int64))
            self._integers(path, ticks, rows, label, missing)
        elif batch.dtype.names:
            self.put(path, rows, None, label)
            for field, word in zip(batch.dtype.names, key_words(batch.dtype.names), strict=True):
                part = batch[field]
                inner = _type_and_shape(part.dtype, part.shape[1:]) if typed else _read_as(part)
                self.array(f"{path}[{word}]", part, rows, inner, depth + 1, typed=typed)
        elif shape:
            self._lists(path, flat.tolist(), rows, f"{label} as list of ", depth + 1)
        else:
            self.column(path, batch.tolist(), rows, f"{label} ".lstrip(), depth + 1)

    def _rounding(self, path: str, left_over: npt.NDArray[np.floating[Any]], rows: Rows) -> None:
        """What doubles leave out of longer numbers, where they do."""
        some = ((left_over != 0) & ~np.isnan(left_over)).any(axis=1)
        if some.any():
            self.put(f"rounding of {path}", _part(rows, np.flatnonzero(some)), left_over[some].astype(np.float64))


def _type_and_shape(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    name = {"U": "text", "S": "bytes", "O": "objects"}.get(dtype.kind, dtype.name)
    name = name if dtype.isnative or dtype.names else f"swapped {name}"
    return f"{name}[{', '.join(map(str, shape))}]" if shape else name


def _grouped(names: Sequence[Any], items: Sequence[T], rows: Rows) -> Iterator[tuple[Any, list[T], Rows]]:
    """The items by name, each group with its runs, in the order of first sight."""
    places: dict[Any, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    if len(places) == 1:
        yield next(iter(places)), list(items), rows
        return
    for name, some in places.items():
        yield name, [items[place] for place in some], _part(rows, np.array(some, dtype=np.intp))


def _part(rows: Rows, places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return places if rows is None else rows[places]


def _tall(numbers: Iterable[float]) -> Floats:
    return np.array(list(numbers), dtype=np.float64).reshape(-1, 1)


def _objects(words: Iterable[str]) -> Labels:
    listed = list(words)
    found = np.empty(len(listed), dtype=object)
    found[:] = listed
    return found


def _words(item: int) -> int:
    """How many words of 53 bits a whole number has that is beyond 64 bits; 0 for any other."""
    return 0 if -(2**63) <= item < 2**63 else -(-item.bit_length() // WORD)


def _form(item: Sequence[object], depth: int = 0) -> str | None:
    """The shape and types of a list of numbers, or of lists of them that are alike; None for any other, such as one
    with a whole number of more than 64 bits."""
    kinds = set(map(type, item))
    if kinds <= PLAIN:
        if int in kinds and any(type(number) is int and _words(number) for number in item):
            return None
        names = sorted(_type_name(kind) for kind in kinds if kind is not float)
        mixed = [["mixed"], ["mixed float"]][float in kinds] if len(kinds) > 1 else []
        return " ".join([str(len(item)), *mixed, *names])
    if depth < DEEPEST_BLOCK and len(kinds) == 1 and kinds <= {list, tuple}:
        forms = {_form(inner, depth + 1) for inner in item}  # type: ignore[arg-type]
        inner = forms.pop()
        if not forms and inner is not None:
            return f"{len(item)} {kinds.pop().__name__}s of {inner}"
    return None


def _types(item: Sequence[object]) -> str:
    """The type of each number of a list, in their order."""
    return shortened(", ".join(_type_name(type(number)) for number in _flat(item)))


def _type_name(kind: type) -> str:
    return "numpy bool" if kind is np.bool_ else kind.__name__


def _flat(item: Iterable[Any]) -> Iterator[Any]:
    for part in item:
        if type(part) is list or type(part) is tuple:
            yield from _flat(part)
        else:
            yield part


def _spelled(items: Sequence[object]) -> str | None:
    """A short transcript of a few words, such as what a sparse vector answered."""
    if len(items) <= LONGEST_SPELLED and all(item is None or type(item) in (bool, str) for item in items):
        return shortened(f"[{', '.join(map(repr, items))}]")
    return None


def _first_change(items: Sequence[object]) -> float:
    """Where a transcript first holds something of another type than at its start, or another text or truth."""
    for place, item in enumerate(items):
        first = items[0]
        if type(item) is not type(first) or (type(item) in (str, bool) and item != first):
            return float(place)
    return np.nan
