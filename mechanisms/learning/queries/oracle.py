"""Answers to statistical queries: how large a value is on average that is computed from each record by itself.

    fixed, uniform    sum of the clipped values + noise at epsilon/queries, of all records
    split             sum of the clipped values + noise at epsilon, of the records of this query's block

Where the number of records is public (`n`), an answer is that sum divided by it; where it is not, to divide by a noisy
count is the caller's business, at the price of a query. Proofs: docs/proofs/learning_queries.md. Source: Haghtalab
2020, CS6781, lecture 25, section 3; Kearns 1998; Blum-Dwork-McSherry-Nissim 2005.

>>> from dpledger.mechanisms.entropy import seeded
>>> oracle = StatisticalQueryOracle(epsilon=1, queries=10, values="whole", n=6000).under(Relation.REPLACE_ONE, Unit())
>>> oracle.plan("0.05", "0.05").needed
5348
>>> run = oracle.open(LabeledSample(list(range(6000)), [1, 0, 0] * 2000), entropy=seeded(1))
>>> round(run.ask(lambda x, y: y), 2), run.close().parts.done
(0.33, 1)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal, Self, assert_never

import numpy as np
from pydantic import Field

from dpledger.accounting.composition import Composition, DiscreteLaplaceLaw, LaplaceLaw, Parallel, Repeated
from dpledger.accounting.guarantees import AccuracyFailure, Failure, PureDP
from dpledger.decimals import Number, is_whole, magnitude, multiply, read, round_up, subtract, text
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.queries.domain_queries import Records
from dpledger.mechanisms.learning.queries.query_run import JointQuery, QueryRun
from dpledger.mechanisms.learning.queries.ranges import QueryRange
from dpledger.mechanisms.learning.samples import (
    LabeledSample,
    capped,
    capped_as,
    check_labels,
    check_units,
    labeled_sample,
)
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.query_sizes import MOST_CHAINS, MOST_QUERIES, QueryMode, query_size
from dpledger.mechanisms.noise import DiscreteLaplace, Law, RoundedLaplace, Sensitivity
from dpledger.mechanisms.numeric.grid import check_map, default_grid, exact_decimal
from dpledger.mechanisms.numeric.integers import geometric_scale, share_of
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.numeric.rows import check_rows, refuse_ids_of_one_row, rows_of, tally
from dpledger.mechanisms.plan import above_0
from dpledger.mechanisms.protocol import fixed
from dpledger.mechanisms.stability.ensembles.chunkers import by_relation, seats
from dpledger.mechanisms.units import Units
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["StatisticalQueryOracle"]

MOST_BLOCKS = {"real": 1000, "whole": 500}  # leaves that an entry has room for
_ONE = Decimal(1)
_MOVED = "each value is clipped by itself, and a unit has at most so many records"
_ASSUMES = "a query comes to one number a row, each of them a function of that row, its label and public values alone"


@record
class StatisticalQueryOracle:
    """Answer up to `queries` statistical queries, adaptively chosen; together they are epsilon-DP.

    `mode`: what the promise of accuracy is about, and in split how records are used. fixed: queries chosen before the
    first answer; uniform: adaptively, out of a family that `chains` nested chains of indicators hold (a query that is
    no indicator is a chain by itself); split: adaptively, each on a block of its own, with more noise a record but none
    to share. `values`: whole (queries are whole numbers, like indicators) or real. `low`, `high`: the range that
    values are clipped to; NaN and what is no number count as `low`. `grid`: of real values, a power of two; default:
    1024 times finer than noise, range and tolerance. `n`: the number of records, where it is public: answers are means,
    and not sums. `tolerance` and `beta`, together: all answers are that close to what is expected of a record, but with
    probability beta, where records are independent draws; refused where `n` is too few for that.

    Queries that were never asked come back, as far as they were not granted yet (a twentieth at a time); in split none
    do. Halted after the last.

    The published theorem (Haghtalab 2020, theorem 3.2) needs values in [0, 1] (of [-1, 1] the sensitivity is 2/m), a
    record replaced and m public; its Laplace step has to have beta/(2K) and its last bound is tau; its proof covers
    queries chosen beforehand alone, and adaptive ones break it where the noise is small. Its "Lap(S, f, K/(eps m))"
    passes a scale where an epsilon is meant, eps/K; "any combination" of answers (theorem 3.3) means whatever is
    computed from them, and later queries may depend on earlier answers.
    An answer is a float near the mean of the values, and may be negative where that is near 0. Many queries of numbered
    points are answered from one count of the records as `DomainQuery`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> oracle = dpl.learning.StatisticalQueryOracle(epsilon=1, queries=10, values="whole", n=6000)
    >>> oracle = oracle.under(dpl.Relation.REPLACE_ONE, dpl.Unit("record"))
    >>> run = oracle.open(dpl.learning.LabeledSample(list(range(6000)), [1, 0, 0] * 2000), entropy=seeded(1))
    >>> round(float(run.ask(lambda x, y: y)), 2)
    0.33
    """

    epsilon: Positive
    queries: Annotated[Whole, Field(strict=True, ge=1, le=MOST_QUERIES)]
    mode: QueryMode = given(default="fixed")
    values: Literal["real", "whole"] = given(default="real")
    low: Signed = given(default=0)
    high: Signed = given(default=1)
    grid: OptionalPositive = given(default=None)
    n: Annotated[Whole, Field(strict=True, ge=1, lt=2**53)] | None = given(default=None)
    tolerance: OptionalPositive = given(default=None)
    beta: OptionalPositive = given(default=None)
    chains: Annotated[Whole, Field(strict=True, ge=1, le=MOST_CHAINS)] | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["statistical_queries"] = tag(default="statistical_queries")

    def __post_init__(self) -> None:
        if self.mode == "split" and self.queries > (most := MOST_BLOCKS[self.values]):
            raise ParameterError("queries", self.queries, f"at most {most} {self.values} ones in mode split")
        if self.mode == "split" and self.n is not None and self.n < self.queries:
            raise ParameterError("n", self.n, f"a record for each of the {self.queries} blocks")
        if self.chains is not None and self.mode != "uniform":
            raise ParameterError("chains", self.chains, "nothing, but in mode uniform")
        if self.values == "whole" and not (is_whole(self.low) and is_whole(self.high) and self.grid in (None, _ONE)):
            raise ParameterError("values", "whole", "low and high that are whole, and no grid but 1")
        if self.n is not None and self.relation is Relation.ADD_REMOVE:
            raise RelationError(
                "under add_remove the number of records is private: leave n out, and the answers are sums"
            )
        if self.mode == "split" and rows_of(self.unit) > 1:
            raise RelationError("split puts each record into a block: for units of one record, not of several")
        check_map(self.range.grid, max(magnitude(self.low), magnitude(self.high)), self.low)
        _ = self._noise
        self._check_promise()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same oracle for this relation and unit, its grid fixed. RelationError under add_remove where `n` is
        given, under replace_one where it is and a unit may have many records, and in mode split where one may."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        if self.n is not None and own_relation is Relation.REPLACE_ONE and rows_of(own_unit) > 1:
            raise RelationError(
                f"n records are public where one {own_unit.name} has one record: exchanged for another, one of up to "
                f"{rows_of(own_unit)} may have more or fewer"
            )
        placed = dataclasses.replace(self, relation=own_relation, unit=own_unit)
        return placed if self.values == "whole" else dataclasses.replace(placed, grid=placed.range.grid)

    def claim(self) -> PureDP:
        """epsilon, for all queries together."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """`queries` Laplace leaves of epsilon/queries each; in mode split of epsilon, in parallel by unit."""
        return self._ended(None)

    def _ended(self, asked: int | None) -> Composition:
        """The parts where so many queries were asked."""
        match self.mode:
            case "fixed" | "uniform":
                return Repeated(self._leaf, times=self.queries, done=asked)
            case "split":
                return Parallel((self._leaf,) * self.queries, by="unit")
            case _:
                assert_never(self.mode)

    def steps_to_grant(self) -> int | None:
        """A step a query. In mode split there are none: it costs as much whatever is asked."""
        return None if self.mode == "split" else self.queries

    def failures(self) -> tuple[Failure, ...]:
        """What is promised of the answers, if anything is; the claim itself has no delta."""
        if self.tolerance is None or self.beta is None:
            return ()
        needed = self.plan(self.tolerance, self.beta).needed
        return (AccuracyFailure(self.beta, self._promise(self.tolerance, needed)),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the scale of the noise, in the units of a sum, and the sensitivity of one query."""
        values = {
            "epsilon": self.epsilon,
            "queries": self.queries,
            "mode": self.mode,
            "values": self.values,
            "low": self.low,
            "high": self.high,
            "grid": self.range.grid,
            "n": self.n,
            "tolerance": self.tolerance,
            "beta": self.beta,
            "chains": self.chains,
            "scale": self._noise.scale,
            "sensitivity": self._moved,
            "justification": _MOVED,
            "assumes": _ASSUMES,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def plan(self, tolerance: Number, beta: Number, *, sharp: bool = False) -> SampleSize:
        """How many records are enough for answers within the tolerance; real values count their rounding to the grid,
        which is the one that this tolerance has, where neither a grid nor a tolerance was given. `sharp`: as
        `query_size`. Under add_remove the answers are sums, and it is their part of the records that is meant; before a
        relation is known the dearest counts. ParameterError where the tolerance is no more than the grid."""
        close = above_0(tolerance, "tolerance")
        follows = self.values == "real" and self.grid is None and self.tolerance is None
        asked = dataclasses.replace(self, grid=self._automatic_grid(close)) if follows else self
        return query_size(
            self.queries,
            asked._less_rounding(close),
            beta,
            epsilon=multiply(self._share, 1 if self.mode == "split" else self.queries),
            mode=self.mode,
            chains=self.chains,
            in_steps=self.values == "whole",
            width=subtract(self.high, self.low),
            moved=asked._moved,
            sharp=sharp,
        )

    def values_read_as(self) -> tuple[str, ...]:
        """What values of a query count as that are no ordinary numbers: of the parameters, never of the data."""
        return ("a query is handed rows and labels as they are", *capped_as(self.unit), *self.range.read_as())

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a LabeledSample, of `n` records where that is public; in mode split, where
        their number is public, of one for each block; and with an id of a unit for each record where one unit may have
        many: of each so many count, taken at random. Without ids where one record is exchanged for one, and in mode
        split where their place says which block they are in."""
        sample = labeled_sample(data)
        check_units(sample, self.unit)
        if sample.by_unit is not None:
            refuse_ids_of_one_row(self._relation, self.unit)
            if self.mode == "split" and self._relation is not Relation.ADD_REMOVE:
                raise ParameterError("data", "ids of records", "records alone in mode split, but under add_remove")
        check_rows(sample.x)
        check_labels(sample, tally(sample.x))
        Units.of((sample.x, sample.y))
        if self.n is not None and tally(sample.y) != self.n:
            raise ParameterError("data", "another number of records", f"{self.n} records, which is public")
        if self.mode == "split" and self._relation is not Relation.ADD_REMOVE and tally(sample.y) < self.queries:
            raise ParameterError("data", "fewer records than blocks", f"a record for each of {self.queries} blocks")

    def open(self, data: LabeledSample, *, entropy: Entropy) -> QueryRun:
        """Begin a run of queries."""
        self.inspect(data)
        return self.begun(capped(data, rows_of(self.unit), entropy=entropy), entropy)

    def begun(self, data: LabeledSample, entropy: Entropy) -> QueryRun:
        """As `open`, of records that are inspected, of each unit as many as may count."""
        if self.mode != "split":
            everyone = Records(data.x, data.y, tally(data.y))
            return QueryRun(self, lambda _: everyone, entropy)
        units = Units.of((data.x, data.y))
        block = seats(by_relation(self._relation), units, chunks=self.queries, entropy=entropy)

        def of_block(number: int) -> Records:
            places = np.flatnonzero(block == number).astype(np.int64)
            x, y = units.take(places)
            return Records(x, y, len(places))

        return QueryRun(self, of_block, entropy)

    @property
    def range(self) -> QueryRange:
        """The values of a query, in steps."""
        grid = self.grid or (_ONE if self.values == "whole" else self._automatic_grid(self.tolerance))
        return QueryRange(low=self.low, high=self.high, grid=grid)

    def _divisor(self, records: int) -> int | None:
        """By what a sum over so many records is divided, a public number: `n` of all, where some of them may count
        nowhere; in mode split, where each counts, those of the block. None: by nothing."""
        return records if self.n is not None and self.mode == "split" else self.n

    def _law(self, joint: JointQuery | None) -> tuple[Law, Sensitivity]:
        """The noise of a query, or of several together, and what it hides.

        Claim: epsilon/queries-DP (split: epsilon), and no more than the leaf of one query. Source:
        docs/proofs/learning_queries.md, section 1."""
        if joint is None:
            return self._noise, Sensitivity(self._moved, "l1", _MOVED)
        noise, several, together = self._noise, len(joint.of), Fraction(read(joint.l1, field="l1"))
        match noise:
            case DiscreteLaplace():
                times = min(several, -(-together // (self._steps_moved)))
                law: Law = DiscreteLaplace(derived(multiply(noise.scale, int(times)), l1=joint.l1))
                moved = multiply(self._moved, int(times))
            case RoundedLaplace():
                steps = -(-together // Fraction(noise.grid)) + several - 1
                steps = min(int(steps), several * self._steps_moved) * rows_of(self.unit)
                moved = derived(exact_decimal(steps * Fraction(noise.grid)), l1=joint.l1)
                scale = derived(round_up(Fraction(moved) / Fraction(self._share)), l1=joint.l1)
                law = RoundedLaplace(scale, noise.grid)
            case _:
                assert_never(noise)
        return law, Sensitivity(moved, "l1", joint.justification)

    @property
    def _relation(self) -> Relation:
        """Where none is fixed yet, add_remove is meant; with a public number of records, replace_one."""
        return self.relation or (Relation.ADD_REMOVE if self.n is None else Relation.REPLACE_ONE)

    @property
    def _share(self) -> Decimal:
        """The epsilon of one query."""
        return self.epsilon if self.mode == "split" else share_of(self.epsilon, self.queries)

    @property
    def _steps_moved(self) -> int:
        """How many steps one record moves the sum of a query: before a relation is known, under the dearest."""
        known = (self.relation,) if self.relation else (Relation.ADD_REMOVE, Relation.REPLACE_ONE)[self.n is not None :]
        return max(self.range.moved(relation, uneven=rows_of(self.unit) > 1) for relation in known)

    @property
    def _moved(self) -> Decimal:
        """How far one unit moves the sum of a query."""
        return exact_decimal(self._steps_moved * rows_of(self.unit) * Fraction(self.range.grid))

    @property
    def _noise(self) -> DiscreteLaplace | RoundedLaplace:
        """The law of the noise of one query."""
        if self.values == "whole":
            return DiscreteLaplace(geometric_scale(int(self._moved), self._share))
        scale = derived(round_up(Fraction(self._moved) / Fraction(self._share)), epsilon=self.epsilon)
        return RoundedLaplace(scale, self.range.grid)

    @property
    def _leaf(self) -> LaplaceLaw | DiscreteLaplaceLaw:
        if self.values == "whole":
            return DiscreteLaplaceLaw(scale=self._noise.scale, sensitivity=int(self._moved))
        return LaplaceLaw(self._share)

    def _automatic_grid(self, tolerance: Decimal | None) -> Decimal:
        return _grid(subtract(self.high, self.low), self._share, tolerance)

    def _less_rounding(self, tolerance: Decimal) -> Decimal:
        """What of a tolerance is left beside the rounding of values and of the noise, half a step each."""
        if self.values == "whole":
            return tolerance
        grid = self.range.grid
        if not tolerance > grid:
            raise ParameterError("tolerance", tolerance, f"a number above the grid, {grid}: make that finer")
        return subtract(tolerance, grid)

    def _promise(self, tolerance: Decimal, needed: int) -> str:
        match self.mode:
            case "fixed":
                chosen = "the queries were chosen before the first answer"
            case "uniform":
                chosen = f"the queries are of {self.chains} nested chains chosen before the first answer"
            case "split":
                chosen = "each was asked of records of its own"
            case _:
                assert_never(self.mode)
        return (
            f"some answer is further than {text(tolerance)} from its expectation, where the records are independent "
            f"draws, {needed} of them are enough, and {chosen}"
        )

    def _check_promise(self) -> None:
        if (self.tolerance is None) != (self.beta is None):
            raise ParameterError("tolerance", self.tolerance, "tolerance and beta, or neither")
        if self.tolerance is None or self.beta is None:
            return
        if self.n is None:
            raise ParameterError("tolerance", self.tolerance, "nothing, unless the number of records is public: n")
        needed = self.plan(self.tolerance, self.beta).needed
        if self.n < needed:
            raise ParameterError("n", self.n, f"{needed} records for this tolerance and beta")


@functools.lru_cache(maxsize=512)
def _grid(width: Decimal, share: Decimal, tolerance: Decimal | None) -> Decimal:
    own = {"epsilon": Fraction(width) / Fraction(share), "high": Fraction(width)}
    return default_grid(**own, **({} if tolerance is None else {"tolerance": Fraction(tolerance)}))
