"""How far one unit moves a query: pairs of neighbours are searched for one that moves it further than is declared.

A query adds no noise, so a pair is tried by two calls, and what it shows is certain. The distance is that of the floats
that came back, in exact fractions. Beside it stands the distance if no number had been rounded, where the code takes
fractions: a sum of floats that is clipped to 1 may move by 1 + 2^-52.

>>> from dpledger.relations import Relation
>>> found = audit_sensitivity(max, 1, neighbours={"rows": {"type": "number", "low": 0, "high": 5}, "fewest_rows": 1})
>>> found.verdict, found.left, found.right, float(found.moved)
('violation', [0.0], [0.0, 5.0], 5.0)
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, Literal

import numpy as np

from dpledger import decimals
from dpledger.audit.analytic.accounts import CERTAIN
from dpledger.audit.analytic.distances import DeclaredSensitivity, OutputDistance, RaisedOutput, entries_of
from dpledger.audit.analytic.rationals import exactly
from dpledger.audit.replay import ReplayResult, audit_replay
from dpledger.audit.results.verdict import REPLAY
from dpledger.audit.search.columns import MOST_ROWS
from dpledger.audit.search.families import NeighbourPair, smaller, varied
from dpledger.audit.search.given import neighbours_of
from dpledger.audit.tested.neighbours import OfNumbers, norm_of
from dpledger.audit.tested.subjects import name_of, named
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.entries.members import Step
from dpledger.mechanisms.entropy import Entropy
from dpledger.notebooks import summary
from dpledger.relations import Relation, Unit

__all__ = ["SensitivityAudit", "audit_sensitivity"]

MOST_MADE = 512  # pairs of a family, a strategy or a list
FEW_MADE = 64  # of these the first, of which others are made at random
SHOWN = 200  # characters of a dataset
NEAR = 1_000  # of a length, how small a part is told by itself


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SensitivityAudit:
    """How far one unit was found to move a query. Neither true nor false: compare `verdict`.

    `left`, `right`: the pair, of data that were made up, or given; `why`: how the two differ. `moved`: by how much, in
    the declared norm (of l2 rounded down at the 18th digit); None where no noise covers it (`because`: it raises on one
    of the two, comes back in another shape or as no number). `exact`: by how much if no number is rounded, where the
    code takes fractions. `replay`: of a mechanism, what `audit_replay` found on the pair; then it decides.

    >>> total = lambda rows: sum(min(row, 2) for row in rows)
    >>> schema = {"rows": {"type": "number", "low": 0, "high": 9}}
    >>> found = dpl.analytic.audit_sensitivity(total, dpl.Laplace(sensitivity=1, epsilon=1), neighbours=schema)
    >>> found.verdict, found.right, found.moved, found.exact
    ('violation', [9.0], Fraction(2, 1), Fraction(2, 1))
    """

    query: str
    declared: DeclaredSensitivity
    relation: Relation
    left: Any
    right: Any
    why: str
    moved: Fraction | None
    because: str
    exact: Fraction | None
    exceeds: bool
    pairs: int
    replay: ReplayResult | None

    @property
    def verdict(self) -> Literal["violation", "not_refuted"]:
        """`violation`: the pair moves it further than is declared, for certain; of a mechanism, further than its noise
        covers on its grid. `not_refuted`: no pair that was tried does, which proves nothing."""
        fell = self.exceeds if self.replay is None else self.replay.verdict == "violation"
        return "violation" if fell else "not_refuted"

    def __bool__(self) -> bool:
        raise TypeError("a SensitivityAudit is neither true nor false: compare result.verdict")

    def __repr__(self) -> str:
        return f"<SensitivityAudit: {self._head()}>"

    def __str__(self) -> str:
        return "\n".join(words for _, words in self._lines())

    def _repr_html_(self) -> str:
        return summary("SensitivityAudit", list(self._lines()))

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "verdict", self._head()
        yield "pair", f"the pair is {_shown(self.left)} and {_shown(self.right)} ({self.why})"
        if self.exceeds and self.verdict == "not_refuted":
            yield "grid", "that is more than is declared, and no more than the noise covers on its grid"
        if self.exact is not None and self.moved is not None:
            rounded = self.exceeds and self.exact <= Fraction(self.declared.sensitivity)
            told = ": the rest is rounding of floats" if rounded else ""
            yield "exact", f"in exact fractions it moves by {self._number(self.exact)}{told}"
        yield "tried", f"{self.pairs:,} pairs of neighbours were tried"

    def _head(self) -> str:
        beside = f"{decimals.text(self.declared.sensitivity)} in {self.declared.norm} is declared"
        moved = f"moves by {self._number(self.moved)}" if self.moved is not None else self.because
        if self.verdict == "violation":
            return f"violation: {self.query} {moved}, and {beside}"
        return f"not refuted (this is no proof): {self.query} {moved} at most, and {beside}"

    def _number(self, exact: Fraction) -> str:
        """A length; beside what is declared, where it is hardly more or less."""
        rest = exact - Fraction(self.declared.sensitivity)
        if abs(rest) * NEAR >= abs(exact):
            return f"{float(exact):.9g}"
        beside = f" {'+' if rest > 0 else '-'} {float(abs(rest)):.3g}" if float(rest) else ""
        return f"{decimals.text(self.declared.sensitivity)}{beside}"

    def body(self, path: tuple[Step, ...] = ()) -> Audited:
        """The result as a ledger entry holds it, without the pair: of the mechanism whose sensitivity was declared. No
        runs, and the method `replay`, which decided. ParameterError where a number was declared, and no mechanism."""
        mechanism = self.declared.mechanism
        if mechanism is None or self.replay is None:
            given = decimals.text(self.declared.sensitivity)
            raise ParameterError("declared", given, "the mechanism that adds the noise, whose claim goes on record")
        claim, fell = mechanism.claim(), self.verdict == "violation"
        told = self.replay.findings[0].public_words if fell else "no pair that was tried moves it further than declared"
        return Audited(
            mechanism=named(mechanism.kind, mechanism.parameters()),
            claim=claim,
            relation=self.relation,
            verdict=self.verdict,
            epsilon_lower=0,
            delta=claim.own_delta or 0,
            confidence=CERTAIN,
            trials_left=0,
            trials_right=0,
            event=f"{self.pairs:,} pairs searched for the sensitivity of what is released: {told}",
            method=REPLAY,
            path=path,
            together=True if fell else None,
        )

    def to_json(self) -> str:
        """The whole result as JSON, for whoever made up the data. Numbers are text."""
        document: dict[str, Any] = {
            "verdict": self.verdict,
            "query": self.query,
            "declared": {"sensitivity": decimals.text(self.declared.sensitivity), "norm": self.declared.norm},
            "relation": self.relation.value,
            "pair": [repr(self.left), repr(self.right), self.why],
            "moved": self.because if self.moved is None else str(self.moved),
            "exact": None if self.exact is None else str(self.exact),
            "pairs": self.pairs,
        }
        return json.dumps({name: value for name, value in document.items() if value is not None}, indent=2)


def audit_sensitivity(
    query: Callable[[Any], Any],
    declared: OfNumbers | Number,
    *,
    neighbours: Any,
    norm: Literal["l1", "l2"] = "l1",
    pairs: int = 2_000,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    seed: int = 0,
) -> SensitivityAudit:
    """Search neighbouring datasets for one pair that moves `query` further than is declared.

    `query`: a function of the data alone, without noise: a number, or numbers in a list, an array or a dict.
    `declared`: the mechanism that adds noise to it (Laplace, Gaussian, Geometric, IntegerGaussian), which brings its
    sensitivity and its norm, and how it reads what is no number; or a sensitivity, in `norm`, of noise from elsewhere.
    `neighbours`: as `audit_search` takes them: a schema, a strategy of Hypothesis, or a list of pairs. `pairs`: so
    many, at most, before the search for a smaller one: those of the families, and of a schema others with rows at
    random. `seed`: from 0; the same seed gives the same result.

    Claim: of `violation`, that the pair moves the query further than is declared, exactly (what raises on one of the
        two alone, or comes back in another shape, no noise covers). Of a mechanism, that more reaches its noise, on
        its grid, than it is for. `not_refuted` proves nothing. Source: docs/proofs/replay.md.
    Assumes: the query depends on the data alone. ParameterError where it does not, or raises on every pair.

    >>> def total(rows):  # of rows from 0 to 1; one moves it by 1, and as a float by more
    ...     return sum(rows)
    >>> schema = {"rows": {"type": "number", "low": 0, "high": 1}}
    >>> found = dpl.analytic.audit_sensitivity(total, 1, neighbours=schema)
    >>> found.verdict, found.moved > 1, found.exact
    ('violation', True, Fraction(1, 1))
    """
    if not callable(query):
        raise ParameterError("query", type(query).__name__, "a function of the data alone, without noise")
    most = decimals.whole(pairs, field="pairs", least=1, most=10**7)
    seed = decimals.whole(seed, field="seed", most=2**53 - 1)
    relation, unit = Relation.read(relation), Unit.read(unit)
    search = _Search(query, _declared(declared, norm, relation, unit))
    worst = search.worst(islice(_tried(neighbours, relation, unit, seed), most))
    pair, distance = search.shrunk(*worst)
    return search.result(pair, distance, relation, unit)


def _declared(declared: object, norm: object, relation: Relation, unit: Unit) -> DeclaredSensitivity:
    if isinstance(declared, OfNumbers):
        mechanism = declared.under(relation, unit)
        return DeclaredSensitivity(
            decimals.read(mechanism.sensitivity, field="declared"), norm_of(mechanism), mechanism
        )
    if not isinstance(norm, str) or norm not in ("l1", "l2"):
        raise ParameterError("norm", norm, "l1 or l2")
    if hasattr(declared, "release"):
        wanted = "Laplace, Gaussian, Geometric or IntegerGaussian, or a sensitivity"
        raise ParameterError("declared", type(declared).__name__, wanted)
    number: Any = declared
    sensitivity = decimals.read(number, field="declared")
    return DeclaredSensitivity(sensitivity, norm, None)


def _tried(neighbours: Any, relation: Relation, unit: Unit, seed: int) -> Iterator[NeighbourPair]:
    """The pairs that `neighbours` says, and without an end others that are made like the first of them."""
    made = list(islice(neighbours_of(neighbours, relation, unit, seed=seed), MOST_MADE))
    yield from made
    if made[0].rows is None:
        return
    rng = np.random.default_rng(seed)
    while True:
        yield varied(made[int(rng.integers(min(len(made), FEW_MADE)))], rng)


@dataclass(slots=True)
class _Search:
    query: Callable[[Any], Any]
    declared: DeclaredSensitivity
    tried: int = 0
    cause: Exception | None = None

    def worst(self, pairs: Iterator[NeighbourPair]) -> tuple[NeighbourPair, OutputDistance]:
        """The pair that moves it furthest."""
        found: tuple[NeighbourPair, OutputDistance] | None = None
        for pair in pairs:
            distance = self._distance(pair)
            if distance is not None and (found is None or distance.size > found[1].size):
                found = pair, distance
        if found is None:
            given = f"{type(self.cause).__name__} on every pair: its cause is shown with this error"
            raise ParameterError("query", given, "one that can be called with the data") from self.cause
        again, before = self._called(found[0].left), self._called(found[0].left)
        if self.declared.distance(again, before).size != (False, Fraction(0)):
            raise ParameterError(
                "query", "another answer on the same data", "a function of the data alone, without noise"
            )
        return found

    def shrunk(self, pair: NeighbourPair, distance: OutputDistance) -> tuple[NeighbourPair, OutputDistance]:
        """The smallest pair that still moves it further than is declared."""
        shrinks = distance.exceeds(self.declared.bound)
        while shrinks:
            shrinks = False
            for fewer in smaller(pair, each=MOST_ROWS):
                found = self._distance(fewer)
                if found is not None and found.exceeds(self.declared.bound):
                    pair, distance, shrinks = fewer, found, True
                    break
        return pair, distance

    def result(self, pair: NeighbourPair, distance: OutputDistance, relation: Relation, unit: Unit) -> SensitivityAudit:
        return SensitivityAudit(
            query=name_of(self.query),
            declared=self.declared,
            relation=relation,
            left=pair.left,
            right=pair.right,
            why=pair.why,
            moved=None if distance.power is None else self._length(distance.power),
            because=distance.why,
            exact=self._exact(pair),
            exceeds=distance.exceeds(self.declared.bound),
            pairs=self.tried,
            replay=self._replayed(pair, relation, unit),
        )

    def _distance(self, pair: NeighbourPair) -> OutputDistance | None:
        """None where it raises alike on both."""
        self.tried += 1
        ours, theirs = self._called(pair.left), self._called(pair.right)
        if (
            isinstance(ours, RaisedOutput)
            and isinstance(theirs, RaisedOutput)
            and type(ours.error) is type(theirs.error)
        ):
            self.cause = ours.error
            return None
        return self.declared.distance(ours, theirs)

    def _called(self, data: object) -> object:
        try:
            return self.query(copy.deepcopy(data))
        except Exception as error:  # whatever the code of others does
            return RaisedOutput(error)

    def _exact(self, pair: NeighbourPair) -> Fraction | None:
        """The distance if no number is rounded; None where the code does not take fractions, or does not keep them."""
        ours, theirs = (self._called(exactly(data)) for data in (pair.left, pair.right))
        entries = [*entries_of(ours).values(), *entries_of(theirs).values()]
        if (
            isinstance(ours, RaisedOutput)
            or isinstance(theirs, RaisedOutput)
            or not all(isinstance(one, (int, Fraction)) for one in entries)
        ):
            return None
        power = self.declared.distance(ours, theirs).power
        return None if power is None else self._length(power)

    def _length(self, power: Fraction) -> Fraction:
        if self.declared.norm == "l1":
            return power
        return Fraction(math.isqrt((power.numerator * power.denominator) << 128), power.denominator << 64)

    def _replayed(self, pair: NeighbourPair, relation: Relation, unit: Unit) -> ReplayResult | None:
        mechanism = self.declared.mechanism
        if mechanism is None:
            return None

        def release(data: Any, entropy: Entropy) -> Any:
            return mechanism.release(self.query(data), entropy=entropy).value

        try:
            return audit_replay(release, pair.left, pair.right, claim=mechanism.claim(), relation=relation, unit=unit)
        except ParameterError as error:  # it raises on both
            given = "an output that it does not take: its cause is shown with this error"
            raise ParameterError("query", given, f"what {mechanism.kind} takes") from error


def _shown(data: object) -> str:
    told = " | ".join(str(data).split("\n")) if type(data).__name__ == "DataFrame" else repr(data)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}..."
