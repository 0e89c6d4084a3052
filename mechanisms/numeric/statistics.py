"""Counts of records: how many rows there are, and how many in each interval or category.

Data are rows: a sequence, an array or a column of a table; whatever a row holds is mapped to something (`rows`). One
unit may contribute up to `unit.max_contributions` rows (one, while no unit is fixed), and each sensitivity is
multiplied by that.

>>> from dpledger.mechanisms.entropy import seeded
>>> count = Count(epsilon=1, of="rows")
>>> count.release(["a", "b", "c"], entropy=seeded(1)).parts == count.parts()
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, DiscreteLaplaceLaw, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.integers import geometric_scale, share_of
from dpledger.mechanisms.numeric.one_shot import OneShot, ShortText, exactly_one, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import (
    OfUnits,
    capped_where_known,
    check_column,
    check_rows,
    count_sensitivity,
    counted,
    interval_positions,
    intervals_of,
    rows_of,
    tally,
    trues,
    with_or_without_ids,
    word,
    word_positions,
)
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OptionalSignedNumbers, Positive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, said, tag

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Count", "Counts", "Histogram"]


@record
class Count(OneShot):
    """How many rows there are, or how many of them are true. Discrete Laplace noise.

    `of`: "rows" counts every row, whatever it holds; "true" counts the rows that are True (among numbers 1, among text
    "True") and needs one entry a row. Which of the two is public, and has no default: what the rows hold never decides.
    `counted` says in words what a counted row is. One unit moves the count by at most its rows, under every relation.
    The value is a whole number, and may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> count = dpl.Count(epsilon="0.1", of="rows")
    >>> count.release(["a", "b", "c"] * 100, entropy=seeded(1)).value
    275
    >>> count.interval("0.95")
    30
    >>> dpl.Count(epsilon="0.1", of="true").release([True, False] * 150, entropy=seeded(1)).value
    125
    """

    epsilon: Positive
    of: Annotated[Literal["rows", "true"], said("'rows' (every row, whatever it holds) or 'true' (rows that are true)")]
    counted: ShortText = given(default="rows")
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["count"] = tag(default="count")

    def __post_init__(self) -> None:
        self.parts()

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error`; `fields`: all but
        epsilon, `unit` among them where it may have several rows.

        >>> dpl.Count.for_error(30, "0.95", of="rows").epsilon
        Decimal('0.0981813')
        """
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise."""
        return DiscreteLaplace(geometric_scale(rows_of(self.unit), self.epsilon))

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """One discrete Laplace leaf."""
        return DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=rows_of(self.unit))

    def parameters(self) -> Mapping[str, Plain]:
        """epsilon, which rows are counted and what they are, the scale of the noise."""
        used = {"epsilon": self.epsilon, "of": self.of, "counted": self.counted, "scale": self.noise.scale}
        result: dict[str, Plain] = plain(used)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        every = "every row counts, whatever it holds, also NaN or a missing one"
        some = 'a row that is neither True, 1 nor "True" is not counted; neither is NaN, or a missing one'
        return (every if self.of == "rows" else some, *capped_where_known(self.unit))

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows; of one entry each, where those that are true are counted."""
        if self.of == "rows":
            check_rows(with_or_without_ids(data))
        else:
            check_column(with_or_without_ids(data))

    def release(self, data: object, *, entropy: Entropy) -> Release[int]:
        """The noisy count of the rows of `data`."""
        self.inspect(data)
        count = self._count(counted(data, self.unit, entropy=entropy))
        noisy = draw(self.noise, count, sensitivity=self._declared, entropy=entropy)
        return Release(value=noisy, parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases of the same data, as whole numbers."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        return draw(self.noise, np.full(size, self._count(data)), sensitivity=self._declared, entropy=entropy)

    def interval(self, confidence: Number) -> int:
        """The half-width around the released value that holds the count with at least this probability."""
        return half_width(self.noise, confidence)

    def noises(self) -> tuple[tuple[DiscreteLaplace, Sensitivity], ...]:
        """The noise of the count, with how far one unit moves it."""
        return ((self.noise, self._declared),)

    def _count(self, data: object) -> int:
        return tally(data) if self.of == "rows" else trues(data)

    @property
    def _declared(self) -> Sensitivity:
        return count_sensitivity(self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Mapping[str, int]):
    """A released histogram: a whole number, possibly negative, for each label.

    A mapping from labels to counts: `counts["label"]` is one, `counts.items()` are pairs, `dict(counts)` is what JSON
    takes, `numpy.asarray(counts)` the numbers alone. `to_series()` and `to_frame()` are of pandas.

    >>> released = Counts(labels=("a", "b"), counts=(3, -1))
    >>> dict(released), released["b"], len(released)
    ({'a': 3, 'b': -1}, -1, 2)
    >>> import json
    >>> json.dumps(dict(released)), released.to_series()["b"].item()
    ('{"a": 3, "b": -1}', -1)
    """

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    _by_label: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_label", dict(zip(self.labels, self.counts, strict=True)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, label: str) -> int:
        """The count of a label. KeyError where there is none."""
        return self._by_label[label]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.counts, dtype=dtype)

    def to_series(self) -> pd.Series[int]:
        """A Series of whole numbers, `count`; its index is called `label`."""
        import pandas as pd

        return pd.Series(list(self.counts), index=pd.Index(self.labels, name="label", dtype=object), name="count")

    def to_frame(self) -> pd.DataFrame:
        """A DataFrame of one column of floats, `count`; its index is called `label`."""
        import pandas as pd  # here, so that who wants no frame does not wait for pandas

        index = pd.Index(self.labels, name="label", dtype=object)
        return pd.DataFrame({"count": np.array(self.counts, dtype=np.float64)}, index=index)


@record
class Histogram(OneShot):
    """How many rows fall in each interval between `edges`, or in each of `categories`; give exactly one of the two.

    Intervals hold their lower edge, the last one both, and rows are read as numbers; categories are compared as words,
    where 1, 1.0 and True are "1" (`rows.word`). Rows that fall nowhere (out of range, not a number, unknown) are
    `ignored`, or `counted` under the label "other". Discrete Laplace noise on each count: a unit added moves the counts
    by its rows in total, a unit changed by twice that.
    The value is a `Counts`: a whole number for each of `labels`, in that order, which may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> wards = dpl.Histogram(epsilon=1, categories=("north", "south"))
    >>> wards.release(["north"] * 40 + ["south"] * 25, entropy=seeded(1)).value
    Counts(labels=('north', 'south'), counts=(38, 22))
    """

    epsilon: Positive
    edges: OptionalSignedNumbers = given(default=None)
    categories: tuple[ShortText, ...] | None = given(default=None)
    others: Literal["ignored", "counted"] = given(default="ignored")
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["histogram"] = tag(default="histogram")

    def __post_init__(self) -> None:
        exactly_one(edges=self.edges, categories=self.categories)
        if self.edges is not None and (len(self._edges) < 2 or any(b <= a for a, b in pairwise(self._edges))):
            raise ParameterError("edges", str(list(self._edges)), "at least two numbers, rising")
        words = list(map(word, self.labels()))
        if self.categories is not None and (not self.categories or len(set(words)) < len(words)):
            expected = "at least one word, each once (1, 1.0 and True are the same word)"
            raise ParameterError("categories", str(list(self.categories)), expected)
        self.parts()

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error`; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row."""
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def labels(self) -> tuple[str, ...]:
        """What each count is of."""
        if self.categories is not None:
            named = self.categories
        else:
            edges = list(map(_shown, self._edges))
            ends = [")"] * (len(edges) - 2) + ["]"]
            named = tuple(f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(edges), ends, strict=True))
        return (*named, "other") if self.others == "counted" else named

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise of each count."""
        return DiscreteLaplace(geometric_scale(rows_of(self.unit), share_of(self.epsilon, self._times)))

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A discrete Laplace leaf in the l1 norm; two of them, for the counts that fall and those that rise, where a
        unit is changed. Source: docs/proofs/noise.md, section 6."""
        leaf = DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=rows_of(self.unit))
        return leaf if self._times == 1 else Sequence((leaf, leaf))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, and the scale of the noise."""
        values = {
            "epsilon": self.epsilon,
            "edges": self.edges,
            "categories": self.categories,
            "others": self.others,
            "scale": self.noise.scale,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return (self._others(), *capped_where_known(self.unit))

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each."""
        check_column(with_or_without_ids(data))

    def release(self, data: object, *, entropy: Entropy) -> Release[Counts]:
        """The noisy counts of the rows of `data`."""
        self.inspect(data)
        counts = self._counts(counted(data, self.unit, entropy=entropy))
        noisy = draw(self.noise, counts, sensitivity=self._declared, entropy=entropy)
        return Release(value=self.value_of(tuple(noisy.tolist())), parts=self.parts())

    def plain_of(self, value: Counts) -> tuple[int, ...]:
        """The counts: their labels follow from the parameters."""
        return value.counts

    def value_of(self, plain: tuple[int, ...]) -> Counts:
        """The histogram with these counts, as `plain_of` says them."""
        return Counts(labels=self.labels(), counts=plain)

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases of the same data: whole numbers [size, labels]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        return draw(self.noise, np.tile(self._counts(data), (size, 1)), sensitivity=self._declared, entropy=entropy)

    def interval(self, confidence: Number) -> int:
        """The half-width around one released count that holds it with at least this probability (each by itself)."""
        return half_width(self.noise, confidence)

    def noises(self) -> tuple[tuple[DiscreteLaplace, Sensitivity], ...]:
        """The noise of each count, with how far one unit moves all of them."""
        return ((self.noise, self._declared),) * len(self.labels())

    def places(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Which label each of these numbers is counted under, where `edges` are given; beyond the last: under none."""
        return intervals_of(values, np.array(self._edges))

    def _others(self) -> str:
        """What happens to a row that falls nowhere."""
        told = "is ignored" if self.others == "ignored" else 'counts as "other"'
        if self.edges is not None:
            return f"a row in no interval {told}: NaN or any other non-number is in none; text counts as what it says"
        return f'a row in none of the categories {told}; NaN and a missing one are the word "nan"'

    @property
    def _edges(self) -> tuple[float, ...]:
        """The edges as they are compared with values."""
        return tuple(float(edge) for edge in self.edges or ())

    @property
    def _times(self) -> int:
        """How many times its rows a unit moves the counts, in total."""
        return 1 if self.relation in (None, Relation.ADD_REMOVE) else 2

    @property
    def _declared(self) -> Sensitivity:
        why = "a unit adds its rows" if self._times == 1 else "a unit moves its rows from some counts to others"
        return Sensitivity(self._times * rows_of(self.unit), "l1", why)

    def _counts(self, data: object) -> npt.NDArray[np.int64]:
        if self.categories is not None:
            positions, inside = word_positions(data, self.categories), len(self.categories)
        else:
            positions, inside = interval_positions(data, np.array(self._edges)), len(self._edges) - 1
        counts = np.bincount(positions, minlength=inside + 1).astype(np.int64)
        return counts if self.others == "counted" else counts[:inside]


def _shown(edge: float) -> str:
    """An edge in six digits, or in as many as it needs: two labels are never the same."""
    short = f"{edge:g}"
    return short if float(short) == edge else repr(edge).removesuffix(".0")
