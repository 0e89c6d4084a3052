"""The accountant: what was run so far, and its certified epsilon at every step.

    accountant = Accountant(delta="1e-5")
    accountant.append(PoissonSampled(GaussianLaw(1), rate="0.01"), 1000)      # Bounds
    accountant.record()                                                       # what a file keeps; Accountant.resume
    accountant.merge(other)                                                   # what was kept elsewhere

The state is additive: counts of mechanisms, and for each direction the sums that a certificate needs, so that an append
costs one product and a look at both ends of the interval. The bounds hold for the list as a plan whose parameters did
not depend on what was published: for a budget that is spent as one goes along, use a scope and its filter.

>>> from dpledger.accounting.composition import GaussianLaw
>>> accountant = Accountant("1e-5")
>>> [round(accountant.append(GaussianLaw(10)).upper, 4) for _ in range(3)]
[0.3407, 0.497, 0.62]
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.composition import Composition, Repeated, Sequence
from dpledger.accounting.documents import Entry, parse_document
from dpledger.accounting.engine.choose import epsilon_interval
from dpledger.accounting.engine.infinite_mass import finite_part
from dpledger.accounting.engine.place import Place
from dpledger.accounting.engine.running import Running
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.subsampled import Direction
from dpledger.accounting.profile import Bounds, Profile, compose
from dpledger.accounting.reading import Ingredients, read_both_ways, read_losses
from dpledger.decimals import Number, float_down, float_up, read, text, whole
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation
from dpledger.schema import one_of, plain
from dpledger.strict_json import JsonValue

__all__ = ["Accountant"]

Losses: TypeAlias = tuple[tuple[Loss, int], ...]
MOST_RUNS = 10**12  # of one mechanism
MOST_NODES = 1 << 15  # of a place that is read
_HEX = re.compile(r"0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,3}")


class Accountant:
    """The composition of everything appended, and its epsilon at one delta.

    `delta` in (0, 1). `relation`: default add_remove. `direction`: only one of the two ordered neighbour pairs. Threads
    may share it; a copy of it (a pickle, a fork) counts for itself.

    >>> accountant = dpl.Accountant(delta="1e-5")
    >>> step = dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01")
    >>> [round(accountant.append(step, 500).upper, 4) for _ in range(2)]
    [1.326, 1.8282]
    """

    def __init__(
        self, delta: Number, *, relation: Relation | str = Relation.ADD_REMOVE, direction: Direction | None = None
    ) -> None:
        self.delta = read(delta, field="delta")
        if not 0 < self.delta < 1:
            raise ParameterError("delta", self.delta, "a number in (0, 1)")
        if direction is not None:
            one_of(direction, ("add", "remove"), field="direction")
        self.relation, self.direction = Relation.read(relation), direction
        self._lock = threading.RLock()
        self._begin()
        self._bounds = Bounds(0.0, 0.0)

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def _begin(self) -> None:
        """With nothing appended."""
        logs = _logs(float_down(self.delta), float_up(self.delta))
        sides: tuple[Direction, ...] = ("remove", "add") if self.direction is None else (self.direction,)
        self._running = {side: Running(*logs) for side in sides}
        self._items: dict[Composition, _Item] = {}
        self._contours = True
        self._alike = True
        self._leading: Direction = sides[0]

    @property
    def epsilon(self) -> Bounds:
        """The bounds after the last append; 0 for nothing."""
        return self._bounds

    def append(self, what: Composable, count: int = 1) -> Bounds:
        """The bounds of epsilon for everything so far and `count` runs of `what`.

        Claim: lower <= epsilon(delta) of the whole composition <= upper. Source: docs/proofs/engine.md.
        Raises CannotCertify, or RelationError, where `what` does not compose; whatever it raises, nothing was appended.
        """
        with self._lock:
            tree = self._add(what, count)
            try:
                return self._answered()
            except BaseException:
                self._take_back(tree, count)
                raise

    def merge(self, other: Accountant) -> Bounds:
        """The bounds of epsilon for everything of both, which is appended here.

        Claim: as `append`. Raises ParameterError where delta differs, RelationError where relation or direction do."""
        if not isinstance(other, Accountant):
            raise ParameterError("other", other, "an accountant")
        if other.delta != self.delta:
            raise ParameterError("delta", other.delta, f"{self.delta}, as here")
        if (other.relation, other.direction) != (self.relation, self.direction):
            raise RelationError("two accountants of different relations or directions do not merge")
        appended = other._counts()
        with self._lock:
            for tree, count in appended:
                self._require(count, self._items.get(tree))
            for tree, count in appended:
                self._add(tree, count)
            return self._answered()

    def _counts(self) -> list[tuple[Composition, int]]:
        with self._lock:
            return [(tree, item.count) for tree, item in self._items.items()]

    def _answered(self) -> Bounds:
        self._bounds = self._largest() if self._contours else self.profile().epsilon(self.delta)
        return self._bounds

    def _require(self, count: object, item: _Item | None) -> int:
        """The count, if as many runs of the item may follow: 10^12 of one mechanism in all."""
        so_far = item.count if item else 0
        if so_far == MOST_RUNS:
            raise ParameterError("count", count, "no more runs of this mechanism: there are 10^12")
        return whole(count, field="count", least=1, most=MOST_RUNS - so_far)

    def _add(self, what: Composable, count: int) -> Composition:
        """The tree that was added."""
        tree = cast(Composition, what)
        item = self._items.get(tree) if isinstance(what, Hashable) and hasattr(what, "kind") else None
        if item is None:
            tree = self._tree(what)
            item = None if tree is what else self._items.get(tree)
        count = self._require(count, item)
        if item is None:
            item = self._items[tree] = self._read(tree)
            self._contours = self._contours and item.losses is not None
            self._alike = self._alike and item.alike
        item.count += count
        if item.losses is not None and self._contours:
            for side, losses in item.losses.items():
                for loss, times in losses:
                    self._running[side].add(loss, times * count)
        return tree

    def _take_back(self, tree: Composition, count: int) -> None:
        counts = {kept: item.count for kept, item in self._items.items()}
        counts[tree] -= count
        self._begin()
        for kept, left in counts.items():
            if left:
                self._add(kept, left)

    def profile(self) -> Profile:
        """The whole profile of everything so far."""
        if not self._items:
            raise ParameterError("Accountant", "nothing appended yet", "at least one mechanism")
        return compose(self._whole(), relation=self.relation, direction=self.direction)

    def _whole(self) -> Composition:
        return Sequence(tuple(Repeated(tree, times=count) for tree, count in self._counts()))

    def _tree(self, what: Composable) -> Composition:
        tree, _, direction = tree_of(what, relation=self.relation)
        if direction not in (None, self.direction):
            raise RelationError(f"the document is for {direction}, the accountant for {self.direction or 'both'}")
        return tree

    def _read(self, tree: Composition) -> _Item:
        """The losses of each direction; None where the tree is more than one list of losses."""
        found: dict[Direction, Losses] = {}
        removed, added = read_both_ways(tree, self.relation)
        for side in self._running:
            lists = removed if side == "remove" else added
            if len(lists) != 1 or not _is_plain(lists[0]):
                return _Item(None)
            found[side] = lists[0].losses
        first, *others = found.values()
        return _Item(found, alike=all(losses == first for losses in others))

    def _largest(self) -> Bounds:
        """The larger epsilon of the directions, the one that led last first: of the other it is often enough to know
        that it is smaller, and nothing is asked of it where all losses are the same in both."""
        first = self._leading
        leading = self._one(first, 0.0)
        for side, running in self._running.items():
            if side == first or self._alike or (self._aimed(running) and running.is_at_most(leading.lower)):
                continue
            other = self._one(side, leading.lower)
            if other.lower > leading.lower:
                self._leading = side
            leading = Interval(max(leading.lower, other.lower), max(leading.upper, other.upper))
        return Bounds(leading.lower, leading.upper)

    def _one(self, side: Direction, floor: float) -> Interval:
        running = self._running[side]
        found = running.epsilon(floor) if self._aimed(running) else None
        if found is not None:
            return found
        (what,) = read_losses(self._whole(), self.relation, side)  # once more, as its Gaussians are one there
        known = epsilon_interval(what, self.delta, floor)
        if known.lower > floor and self._aimed(running):
            running.learn(known)
        return known

    def _aimed(self, running: Running) -> bool:
        """Whether the finite losses can be asked: whether the mass at infinity leaves them a delta inside (0, 1)."""
        mass = running.infinite_mass
        if mass:
            down, up = finite_part(float_down(self.delta), mass, -1.0), finite_part(float_up(self.delta), mass, 1.0)
            if not 0 < down <= up < 1:
                return False
            running.aim(*_logs(down, up))
        return True

    # ---- keeping ----------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, JsonValue]:
        """Everything appended, in the ledger's byte profile: `{"delta", "document", "places"}`.

        Of the additive state the counts are kept, and the place of each direction's line: a choice that changes how
        wide bounds are, never whether they hold. The sums themselves are not: nobody could tell from a file that they
        are those of the document, and a forged sum would be a forged bound. `resume` forms them again at that place,
        with the error bounds of the machine it runs on.
        """
        entries = [plain(Entry(tree, count=count)) for tree, count in self._counts()]
        document: dict[str, JsonValue] = {"relation": self.relation.value, "entries": entries}
        if self.direction is not None:
            document["direction"] = self.direction
        places: dict[str, JsonValue] = {
            side: _written(running.place) for side, running in self._running.items() if running.place is not None
        }
        return {"delta": text(self.delta), "document": document, "places": places}

    @classmethod
    def resume(cls, record: JsonValue) -> Accountant:
        """The accountant that a record says. ParameterError for anything that `record` does not write."""
        if not isinstance(record, dict) or set(record) != {"delta", "document", "places"}:
            raise ParameterError("record", type(record).__name__, "an object with 'delta', 'document' and 'places'")
        delta, written, places = record["delta"], record["document"], record["places"]
        if not isinstance(delta, str) or not isinstance(written, dict) or not isinstance(places, dict):
            raise ParameterError("record", "other values", "the text of delta, a document, and places")
        if not written.get("entries"):
            raise ParameterError("record", "no entries", "at least one: an accountant of nothing is made anew")
        document = parse_document(written)
        accountant = cls(delta, relation=document.relation, direction=document.direction)
        for name, place in places.items():
            side = next((side for side in accountant._running if side == name), None)
            if side is None:
                raise ParameterError("places", name, "a direction of the document")
            accountant._running[side].begin(_place(place))
        for entry in document.entries:
            accountant._add(entry.mechanism, entry.count)
        accountant._answered()
        return accountant


@dataclass(slots=True)
class _Item:
    """One mechanism: its losses, direction by direction (None: more than finite losses), and how often it was run.
    `alike`: the directions have the same losses."""

    losses: Mapping[Direction, Losses] | None
    alike: bool = False
    count: int = 0


def _logs(down: float, up: float) -> tuple[float, float]:
    """Logarithms, rounded outward."""
    low, high = scalars.log(down), scalars.log(up)
    return low - 2 * UNIT * abs(low), high + 2 * UNIT * abs(high)


def _is_plain(what: Ingredients) -> bool:
    """Whether the losses are all there is to it, however often it runs and beside whatever: exact, without curves, not
    surely infinite. A bounded range is attained alone only: beside others no mechanism has all of its losses."""
    exact = what.attained and what.covers and not what.curves
    additive = not any(isinstance(loss, BoundedRangeLoss) for loss, _ in what.losses)
    return exact and additive and all(loss.infinite_mass < 1 for loss, _ in what.losses)


def _written(place: Place) -> JsonValue:
    numbers = {"smoothing": place.mu_squared, "step": place.step, "tilt": place.c}
    return {"nodes": place.count, **{name: value.hex() for name, value in numbers.items()}}


def _place(written: JsonValue) -> Place:
    """The place that a record says: any in these ranges is sound."""
    if not isinstance(written, dict) or set(written) != {"nodes", "smoothing", "step", "tilt"}:
        raise ParameterError("places", type(written).__name__, "'nodes', 'smoothing', 'step' and 'tilt'")
    nodes = written["nodes"]
    if type(nodes) is not int or not 2 <= nodes <= MOST_NODES:
        raise ParameterError("nodes", nodes, f"a whole number from 2 to {MOST_NODES}")
    tilt, step = _number(written, "tilt", 1e-12, 1e12), _number(written, "step", 1e-12, 1e12)
    return Place.near(tilt, step, nodes, _number(written, "smoothing", 0.0, min(1.0, 1 / (tilt * (tilt + 1)))))


def _number(written: Mapping[str, JsonValue], name: str, least: float, most: float) -> float:
    value = written[name]
    if not isinstance(value, str) or not _HEX.fullmatch(value) or not least <= float.fromhex(value) <= most:
        raise ParameterError(name, value, f"a hexadecimal number from {least:g} to {most:g}")
    return float.fromhex(value)
