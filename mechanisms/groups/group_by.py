"""Statistics of groups in one release: of a table's rows by the words of some of its columns.

    keys            a public list of them; or unknown: found in the data, and published by a choice of their own
    statistics      each with its epsilon: what it costs one unit in all groups together
    contributions   of one unit so many rows, in so many groups, so many in each: by a column that says whose a row is

>>> import pandas as pd
>>> from dpledger.mechanisms.entropy import seeded
>>> flights = pd.DataFrame({"dest": ["ATL"] * 60 + ["BOS"] * 40, "late": [5.0, 15.0] * 50})
>>> from dpledger.mechanisms.numeric import ClippedMean, Count
>>> late = GroupBy("dest", [Count(1, of="rows"), ("late", ClippedMean(1, lower=0, upper=20))], keys=["ATL", "ORD"])
>>> late.release(flights, entropy=seeded(1)).value
GroupTable(2 groups by dest: count, late_mean)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.guarantees import ApproxDP, Failure, PrivacyFailure, PureDP
from dpledger.decimals import Number, total
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.frames import Coded, check_frame, codes_of, columns, key_word, words_of
from dpledger.mechanisms.groups.by_group import Groups, GroupStatistic
from dpledger.mechanisms.groups.contributions import Contributions
from dpledger.mechanisms.groups.fields import MISSING, Cap, Keys, Names, Statistics
from dpledger.mechanisms.groups.group_table import GroupTable, Key
from dpledger.mechanisms.groups.partition_selection import KeyChoice
from dpledger.mechanisms.numeric.one_shot import OneShot, ShortText, derived
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.units import id_word
from dpledger.number_fields import OptionalPositive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["GroupBy"]


@record
class GroupBy(OneShot):
    """Statistics of the rows of a table, by groups, in one release.

    `by`: the column, or columns, whose words make the groups. `statistics`: a list of `Count`s of rows, and of pairs of
    a column and a `ClippedSum`, a `ClippedMean`, a `Histogram` with edges or a `Count(of="true")`; each one's epsilon
    is what it costs in all groups together.
    `keys`: the groups, where they are public; each is published, empty ones too, and rows of other keys count nowhere.
    Without them `key_epsilon` and `key_delta` pay for a choice among the keys that the data hold: a key is published if
    so many units have it that none of them gives it away. With no statistics the keys alone are published. `missing`:
    whether a row without a key (None, NaN) is `ignored`, or `counted` as one of the key "nan". `units`: the column with
    the id of the unit of each row; needed where a unit may have many rows. As many rows of one unit count as it may
    contribute, in at most `keys_per_unit` groups, `rows_per_key` in each (default: as many), drawn at random for that
    unit alone. `data`: a frame of pandas, polars, DuckDB or Arrow. The value is a `GroupTable`: a mapping from keys to
    the statistics by name, with `to_frame()`.

    >>> import pandas as pd
    >>> from dpledger.mechanisms.entropy import seeded
    >>> visits = pd.DataFrame({"ward": ["north"] * 60 + ["south"] * 30 + ["attic"], "age": [30, 50, 70] * 30 + [99]})
    >>> ages = ("age", dpl.ClippedMean(epsilon=1, lower=0, upper=100))
    >>> by_ward = dpl.GroupBy("ward", [dpl.Count(1, of="rows"), ages], key_epsilon=1, key_delta="1e-5")
    >>> table = by_ward.release(visits, entropy=seeded(1)).value
    >>> list(table), table["north"]["count"]
    (['north', 'south'], 59)
    """

    by: Names
    statistics: Statistics
    keys: Keys = given(default=None)
    key_epsilon: OptionalPositive = given(default=None)
    key_delta: OptionalPositive = given(default=None)
    missing: Literal["ignored", "counted"] = given(default="ignored")
    units: ShortText | None = given(default=None)
    keys_per_unit: Cap = given(default=None)
    rows_per_key: Cap = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["group_by"] = tag(default="group_by")

    def __post_init__(self) -> None:
        self._check_keys()
        self._check_statistics()
        if self.unit is not None and self.unit.max_contributions > 1 and self.units is None:
            raise ParameterError(
                "units",
                f"nothing, in a scope where one {self.unit.name} may have {self.unit.max_contributions} rows",
                "the name of the column that says whose each row is",
            )
        self.claim()
        self.parts()
        for placed in self._placed:
            placed.noises()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `OneShot.under`. RelationError for label_flip."""
        if relation is Relation.LABEL_FLIP:
            raise RelationError(
                "group_by has no guarantee under label_flip, because nobody says which column is the label. If none of "
                "its columns is, nothing is private; otherwise take replace_one, which covers label_flip"
            )
        return OneShot.under(self, relation, unit)

    def claim(self) -> PureDP | ApproxDP:
        """The epsilons of all statistics; with unknown keys those of their choice, and its delta, too."""
        epsilon = total(placed.epsilon for placed in self._placed)
        if self._choice is None:
            return PureDP(epsilon)
        return ApproxDP(derived(total((epsilon, self._choice.epsilon)), key_epsilon=epsilon), self._choice.delta)

    def parts(self) -> Composition:
        """The choice of the keys, where they are unknown, and the leaves of each statistic."""
        choice = () if self._choice is None else (self._choice.parts(),)
        parts = (*choice, *(placed.parts() for placed in self._placed))
        return Sequence(parts) if len(parts) > 1 else parts[0]

    def failures(self) -> tuple[Failure, ...]:
        """The chance of a key that no other unit has."""
        return () if self._choice is None else (PrivacyFailure(self._choice.delta, "stability"),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with those of each statistic as it is used."""
        values = {
            "by": self.by,
            "statistics": [placed.parameters() for placed in self._placed],
            "keys": self.keys,
            "key_epsilon": self.key_epsilon,
            "key_delta": self.key_delta,
            **self._key_noise,
            "missing": self.missing,
            "units": self.units,
            "keys_per_unit": self._bounds.groups,
            "rows_per_key": self._bounds.rows_a_group,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What keys, ids and values count as that are no ordinary ones: of the parameters, never of the data."""
        told = "is ignored" if self.missing == "ignored" else f'counts as one of the key "{MISSING}"'
        found = [f"a row whose key is missing, NaN, or no word, number or date {told}"]
        if self.units is not None:
            of_whom, bounds = "unit" if self.unit is None else self.unit.name, self._bounds
            found.append(
                f"of one {of_whom} at most {bounds.rows} rows count, in at most {bounds.groups} groups, "
                f"{bounds.rows_a_group} in each, taken at random; a row whose id is no text, bytes, UUID or number, "
                "also NaN or a missing one, counts nowhere"
            )
        return (*found, *(sentence for placed in self._placed for sentence in placed.values_read_as()))

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a frame with the columns that are named."""
        check_frame(data, dict.fromkeys(self._names()))

    def release(self, data: object, *, entropy: Entropy) -> Release[GroupTable]:
        """The table of the groups of `data`."""
        self.inspect(data)
        found = dict(zip(self._names(), columns(data, self._names()), strict=True))
        groups, keys = self._groups(found, entropy)
        numbers = tuple(
            placed.released(groups, None if placed.column is None else found[placed.column], entropy=entropy)
            for placed in self._placed
        )
        return Release(value=self._table(keys, numbers), parts=self.parts())

    def plain_of(self, value: GroupTable) -> tuple[object, ...]:
        """The keys, and the numbers that noise was added to: the rest follows from the parameters."""
        return value.groups, value.numbers

    def value_of(self, plain: Any) -> GroupTable:
        """The table of these keys and numbers, as `plain_of` says them."""
        keys, numbers = plain
        return self._table(keys, numbers)

    def published_from(self, probability: Number) -> int:
        """The number of units from which on an unknown key is published with this probability. ParameterError where
        keys are public, or where one unit may have several and nobody said yet how many rows it has (`under`)."""
        if self._choice is None:
            raise ParameterError("keys", "public ones", "unknown ones: public keys are published whatever the data are")
        if self.unit is None and (self.units is not None or self.keys_per_unit is not None):
            expected = "the unit of the scope: ask .under(scope.relation, scope.unit).published_from(...)"
            raise ParameterError("unit", "none yet", expected)
        return self._choice.published_from(probability)

    def _table(self, keys: tuple[Key, ...], numbers: tuple[tuple[tuple[int, ...], ...], ...]) -> GroupTable:
        return GroupTable(by=self.by, groups=keys, statistics=self._placed, numbers=numbers)

    # ---- what is read ---------------------------------------------------------------------------------------------

    def _groups(self, found: Mapping[str, Any], entropy: Entropy) -> tuple[Groups, tuple[Key, ...]]:
        """Which rows count in which published group, and their keys."""
        coded, words = self._coded([found[name] for name in self.by])
        if self.keys is not None:
            places = {key: place for place, key in enumerate(self.keys)}
            coded = _renamed(coded, [places.get(word, -1) for word in words])
        rows, owners = None, None
        if self.units is not None:
            owners = codes_of(found[self.units], id_word)
            rows = self._bounds.kept(coded, owners, entropy=entropy)
            coded, owners = coded[rows], owners[rows]
        if self._choice is None:
            assert self.keys is not None, "keys are public or chosen"
            return Groups(rows=rows, codes=coded, count=len(self.keys)), self.keys
        order = sorted(range(len(words)), key=words.__getitem__)
        counts = _units_of(coded, owners, len(words))
        present = [code for code in order if counts[code]]
        chosen = self._choice.chosen([int(counts[code]) for code in present], entropy=entropy)
        published = {present[place]: new for new, place in enumerate(chosen)}
        coded = _renamed(coded, [published.get(code, -1) for code in range(len(words))])
        return Groups(rows=rows, codes=coded, count=len(chosen)), tuple(words[code] for code in published)

    def _coded(self, found: list[Any]) -> tuple[npt.NDArray[np.int64], list[Key]]:
        """The group of each row, -1 for one that counts nowhere, and the keys of the groups that there are."""
        first, *others = (self._with_missing(words_of(column, key_word)) for column in found)
        codes, keys = first.codes, [_key(word) for word in first.words]
        for column in others:
            codes, keys = _crossed(codes, keys, column)
        return codes, keys

    def _with_missing(self, column: Coded) -> Coded:
        if self.missing == "ignored":
            return column
        return Coded(np.where(column.codes < 0, len(column.words), column.codes), (*column.words, MISSING))

    def _names(self) -> list[str]:
        of_statistics = [one.column for one in self.statistics if one.column is not None]
        return [*self.by, *of_statistics, *([] if self.units is None else [self.units])]

    # ---- what is bounded ------------------------------------------------------------------------------------------

    @property
    def _bounds(self) -> Contributions:
        """How much of one unit counts."""
        rows = rows_of(self.unit)
        return Contributions(
            rows=rows, groups=min(self.keys_per_unit or rows, rows), rows_a_group=min(self.rows_per_key or rows, rows)
        )

    @property
    def _times(self) -> int:
        """How often one unit's rows go or come: where it is exchanged some go and others come. The null unit of
        zero_out has no key, and so is in no group where such rows are ignored."""
        leaves = self.relation is Relation.ZERO_OUT and self.missing == "ignored"
        return 1 if leaves or self.relation in (None, Relation.ADD_REMOVE) else 2

    @property
    def _placed(self) -> tuple[GroupStatistic, ...]:
        """The statistics for what counts of one unit."""
        moved = self._bounds.most * self._times
        return tuple(one.placed(rows=moved) for one in self.statistics)

    @property
    def _choice(self) -> KeyChoice | None:
        """How unknown keys are chosen; None where they are public."""
        if self.key_epsilon is None or self.key_delta is None:
            return None
        return KeyChoice(epsilon=self.key_epsilon, delta=self.key_delta, keys=self._bounds.groups * self._times)

    @property
    def _key_noise(self) -> dict[str, object]:
        """Where the keys of a unit share Gaussian noise: how much, and above what a key is published."""
        law = None if self._choice is None else self._choice.law
        return {} if law is None else {"key_sigma": law.sigma, "key_threshold": law.threshold}

    # ---- what is checked ------------------------------------------------------------------------------------------

    def _automatic(self) -> dict[str, Any]:
        return {"keys_per_unit": self._bounds.groups, "rows_per_key": self._bounds.rows_a_group}

    def _check_keys(self) -> None:
        _once("by", self.by)
        paid = (self.key_epsilon is not None, self.key_delta is not None)
        if self.keys is None and not all(paid):
            raise ParameterError(
                "keys", "nothing", "public keys, or key_epsilon and key_delta to choose among unknown ones"
            )
        if self.keys is not None:
            if any(paid):
                raise ParameterError("key_epsilon", "both public keys and a choice of keys", "one of them")
            _once("keys", self.keys)
            if any(len(key) != len(self.by) for key in self.keys):
                raise ParameterError("keys", "keys of another length", f"a word for each of {len(self.by)} columns")
            if self.missing == "ignored" and any(MISSING in key for key in self.keys):
                raise ParameterError("keys", "one of those that are missing", "missing='counted', or no such key")

    def _check_statistics(self) -> None:
        if not self.statistics and self.keys is not None:
            raise ParameterError("statistics", "none, of public keys", "at least one statistic")
        if any(one.statistic.relation is not None or one.statistic.unit is not None for one in self.statistics):
            raise ParameterError("statistics", "one with a relation or a unit", "statistics that leave them open")
        _once("statistics", [name for one in self.statistics for name in one.names])


def _once(field: str, names: Any) -> None:
    """ParameterError where something is named twice."""
    if max(Counter(names).values(), default=1) > 1:
        raise ParameterError(field, "one of them more than once", "each once")


def _renamed(codes: npt.NDArray[np.int64], places: list[int]) -> npt.NDArray[np.int64]:
    """The codes by their new places; -1 stays."""
    return np.array([*places, -1], dtype=np.int64)[codes]


def _crossed(codes: npt.NDArray[np.int64], keys: list[Key], more: Coded) -> tuple[npt.NDArray[np.int64], list[Key]]:
    """The groups by one more column: those that there are."""
    import pandas as pd

    width = len(more.words)
    inside = (codes >= 0) & (more.codes >= 0)
    both, found = pd.factorize(np.where(inside, codes * width + more.codes, -1))
    named = [None if pair < 0 else (*keys[pair // width], more.words[pair % width]) for pair in found.tolist()]
    places = {key: place for place, key in enumerate(key for key in named if key is not None)}
    return _renamed(both.astype(np.int64), [-1 if key is None else places[key] for key in named]), list(places)


def _units_of(codes: npt.NDArray[np.int64], owners: npt.NDArray[np.int64] | None, count: int) -> npt.NDArray[np.int64]:
    """How many units each group has; each row is one where nobody says whose they are."""
    if owners is not None and len(codes):
        pairs = np.sort(owners * count + codes)
        codes = pairs[np.r_[True, pairs[1:] != pairs[:-1]]] % count
    return np.bincount(codes + 1, minlength=count + 1)[1:].astype(np.int64)


def _key(*words: str) -> Key:
    return words
