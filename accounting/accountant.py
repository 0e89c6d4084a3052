"""The accountant: what was run so far, and its certified epsilon after each append.

    accountant = Accountant(delta="1e-5")
    accountant.append(PoissonSampled(GaussianLaw(1), rate="0.01"), 1000)      # Bounds
    accountant.record()                                                       # what a file keeps; Accountant.resume
    accountant.merge(other)                                                   # what was kept elsewhere

It keeps counts of mechanisms and composes them anew each time. The bounds hold for the list as a plan whose parameters
did not depend on what was published: for a budget that is spent as one goes along, use a scope and its filter.

>>> from dpledger.accounting.composition import GaussianLaw
>>> accountant = Accountant("1e-5")
>>> [round(accountant.append(GaussianLaw(10)).upper, 4) for _ in range(3)]
[0.3407, 0.497, 0.62]
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.composition import Composition, Repeated, Sequence
from dpledger.accounting.documents import DocumentLine, parse_document
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.profile import Bounds, Profile, compose
from dpledger.decimals import Number, read, text, whole
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation
from dpledger.schema import one_of, plain
from dpledger.strict_json import JsonValue

__all__ = ["Accountant"]

MOST_RUNS = 10**12  # of one mechanism


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
        self._counts: Mapping[Composition, int] = {}
        self._bounds = Bounds(0.0, 0.0)

    def __getstate__(self) -> dict[str, object]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @property
    def epsilon(self) -> Bounds:
        """The bounds after the last append; 0 for nothing."""
        return self._bounds

    def append(self, what: Composable, count: int = 1) -> Bounds:
        """The bounds of epsilon for everything so far and `count` runs of `what`.

        Claim: lower <= epsilon(delta) of the whole composition <= upper. Source: docs/proofs/engine.md.
        Raises CannotCertify, or RelationError, where `what` does not compose; whatever it raises, nothing was appended.
        """
        tree, _, direction = tree_of(what, relation=self.relation)
        if direction not in (None, self.direction):
            raise RelationError(f"the document is for {direction}, the accountant for {self.direction or 'both'}")
        return self._add([(tree, count)])

    def merge(self, other: Accountant) -> Bounds:
        """The bounds of epsilon for everything of both, which is appended here.

        Claim: as `append`. Raises ParameterError where delta differs, RelationError where relation or direction do."""
        if not isinstance(other, Accountant):
            raise ParameterError("other", other, "an accountant")
        if other.delta != self.delta:
            raise ParameterError("delta", other.delta, f"{self.delta}, as here")
        if (other.relation, other.direction) != (self.relation, self.direction):
            raise RelationError("two accountants of different relations or directions do not merge")
        return self._add(other._counts.items())

    def _add(self, more: Iterable[tuple[Composition, int]]) -> Bounds:
        """The bounds with `more`, which is kept once they are known."""
        with self._lock:
            counts = dict(self._counts)
            for tree, count in more:
                before = counts.get(tree, 0)
                if before == MOST_RUNS:
                    raise ParameterError("count", count, "no more runs of this mechanism: there are 10^12")
                counts[tree] = before + whole(count, field="count", least=1, most=MOST_RUNS - before)
            if counts:
                self._bounds, self._counts = self._profile(counts).epsilon(self.delta), counts
            return self._bounds

    def profile(self) -> Profile:
        """The whole profile of everything so far."""
        if not self._counts:
            raise ParameterError("Accountant", "nothing appended yet", "at least one mechanism")
        return self._profile(self._counts)

    def _profile(self, counts: Mapping[Composition, int]) -> Profile:
        runs = Sequence(tuple(Repeated(tree, times=count) for tree, count in counts.items()))
        return compose(runs, relation=self.relation, direction=self.direction)

    def record(self) -> dict[str, JsonValue]:
        """Everything appended, in the ledger's byte profile: `{"delta", "document"}`."""
        entries = [plain(DocumentLine(tree, count=count)) for tree, count in self._counts.items()]
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
        accountant._add((entry.mechanism, entry.count) for entry in document.entries)
        return accountant
