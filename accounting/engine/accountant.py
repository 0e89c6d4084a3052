"""The accountant: what was run so far, and its certified epsilon at every step.

    accountant = Accountant(delta="1e-5")
    accountant.append(PoissonSampled(GaussianLaw(1), rate="0.01"), 1000)      # Bounds
    accountant.record()                                                       # what a file keeps; Accountant.resume

The bounds hold for the list as a plan whose parameters did not depend on what was published: for a budget that is spent
as one goes along, use a scope and its filter.

>>> from dpledger.accounting.composition import GaussianLaw
>>> accountant = Accountant("1e-5")
>>> [round(accountant.append(GaussianLaw(10)).upper, 6) for _ in range(3)]
[0.340669, 0.496975, 0.620004]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from dpledger.accounting.composition import Composition, Entry, Repeated, Sequence, parse_document
from dpledger.accounting.engine.choose import epsilon_interval
from dpledger.accounting.engine.floating import UNIT, require_assumptions
from dpledger.accounting.engine.running import Running
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.laws.reading import Ingredients, read_losses
from dpledger.accounting.profile import Bounds, Composable, Profile, compose, tree_of
from dpledger.decimals import Number, float_down, float_up, read, text
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation
from dpledger.schema import JsonValue, plain

__all__ = ["Accountant"]

Side = Literal["remove", "add"]
MOST_RUNS = 10**12  # of one mechanism
_NOTHING_FAILS = Fraction(0)


class Accountant:
    """The composition of everything appended, and its epsilon at one delta.

    `delta` in (0, 1). `relation`: default add_remove. `direction`: only one of the two ordered neighbour pairs."""

    def __init__(
        self, delta: Number, *, relation: Relation | str = Relation.ADD_REMOVE, direction: Side | None = None
    ) -> None:
        self.delta = read(delta, field="delta")
        if not 0 < self.delta < 1:
            raise ParameterError("delta", self.delta, "a number in (0, 1)")
        if direction not in (None, "add", "remove"):
            raise ParameterError("direction", direction, "'add', 'remove' or nothing")
        require_assumptions()
        self.relation, self.direction = Relation.read(relation), direction
        low, high = math.log(float_down(self.delta)), math.log(float_up(self.delta))
        logs = (low - 2 * UNIT * abs(low), high + 2 * UNIT * abs(high))
        sides: tuple[Side, ...] = ("remove", "add") if direction is None else (direction,)
        self._running = {side: Running(*logs) for side in sides}
        self._entries: dict[Composition, int] = {}
        self._known: dict[Composition, Mapping[Side, Ingredients] | None] = {}
        self._contours = True
        self._leading: Side = sides[0]
        self._bounds = Bounds(0.0, 0.0)

    @property
    def epsilon(self) -> Bounds:
        """The bounds after the last append; 0 for nothing."""
        return self._bounds

    def append(self, what: Composable, count: int = 1) -> Bounds:
        """The bounds of epsilon for everything so far and `count` runs of `what`.

        Claim: lower <= epsilon(delta) of the whole composition <= upper. Source: docs/proofs/engine.md.
        Raises CannotCertify, or RelationError, where `what` does not compose; then nothing was appended.
        """
        self._add(self._tree(what), count)
        self._bounds = self._largest() if self._contours else self.profile().epsilon(self.delta)
        return self._bounds

    def _add(self, tree: Composition, count: int) -> None:
        already = self._entries.get(tree, 0)
        if type(count) is not int or not 1 <= count <= MOST_RUNS - already:
            raise ParameterError("count", count, "a whole number from 1 on, at most 10^12 runs of one mechanism in all")
        if tree not in self._known:
            self._known[tree] = self._read(tree)
        self._entries[tree] = already + count
        losses = self._known[tree]
        if losses is None:
            self._contours = False
        elif self._contours:
            for side, ingredients in losses.items():
                for loss, times in ingredients.losses:
                    self._running[side].add(loss, times * count)

    def profile(self) -> Profile:
        """The whole profile of everything so far."""
        if not self._entries:
            raise ParameterError("Accountant", "nothing appended yet", "at least one mechanism")
        tree = Sequence(tuple(Repeated(tree, times=count) for tree, count in self._entries.items()))
        return compose(tree, self.relation, direction=self.direction)

    def _tree(self, what: Composable) -> Composition:
        tree, _, direction = tree_of(what, self.relation)
        if direction not in (None, self.direction):
            raise RelationError(f"the document is for {direction}, the accountant for {self.direction or 'both'}")
        return tree

    def _read(self, tree: Composition) -> Mapping[Side, Ingredients] | None:
        """One list of finite losses for each direction; None where the tree is more than that."""
        found: dict[Side, Ingredients] = {}
        for side in self._running:
            lists = read_losses(tree, self.relation, side)
            if len(lists) != 1 or not _is_plain(lists[0]):
                return None
            found[side] = lists[0]
        return found

    def _largest(self) -> Bounds:
        """The larger epsilon of the directions, the one that led last first: of the other it is often enough to know
        that it is smaller."""
        first = self._leading
        leading = self._one(first, 0.0)
        for side, running in self._running.items():
            if side == first or running.at_most() <= leading.lower:
                continue
            other = self._one(side, leading.lower)
            if other.lower > leading.lower:
                self._leading = side
            leading = Interval(max(leading.lower, other.lower), max(leading.upper, other.upper))
        return Bounds(leading.lower, leading.upper)

    def _one(self, side: Side, floor: float) -> Interval:
        running = self._running[side]
        found = running.epsilon(floor)
        if found is not None:
            return found
        return epsilon_interval(Ingredients(running.parts(), (), _NOTHING_FAILS), self.delta)

    # ---- keeping ----------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, JsonValue]:
        """Everything appended, in the ledger's byte profile: `{"delta", "document"}`. The rows of numbers that make an
        append fast are not kept: they follow from it, on any machine with the error bounds of that machine."""
        entries = [plain(Entry(tree, count=count)) for tree, count in self._entries.items()]
        document: dict[str, JsonValue] = {"relation": self.relation.value, "entries": entries}
        if self.direction is not None:
            document["direction"] = self.direction
        return {"delta": text(self.delta), "document": document}

    @classmethod
    def resume(cls, record: JsonValue) -> Accountant:
        """The accountant that a record says. ParameterError for anything that `record` does not write."""
        if not isinstance(record, dict) or set(record) != {"delta", "document"}:
            raise ParameterError("record", type(record).__name__, "an object with 'delta' and 'document'")
        delta, written = record["delta"], record["document"]
        if not isinstance(delta, str) or not isinstance(written, dict):
            raise ParameterError("record", "other values", "the text of delta, and a document")
        if not written.get("entries"):
            raise ParameterError("record", "no entries", "at least one: an accountant of nothing is made anew")
        document = parse_document(written)
        accountant = cls(delta, relation=document.relation, direction=document.direction)
        *before, last = document.entries
        for entry in before:
            accountant._add(entry.mechanism, entry.count)
        accountant.append(last.mechanism, last.count)
        return accountant


def _is_plain(what: Ingredients) -> bool:
    """Whether the losses are all there is to it: finite, exact, without curves and failures."""
    exact = what.attained and what.covers and not what.curves and not what.failure
    return exact and all(loss.infinite_mass == 0 for loss, _ in what.losses)
