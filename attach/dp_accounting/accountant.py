"""`PrivacyAccountant`: the protocol of dp_accounting's accountants, answered with certified bounds."""

from __future__ import annotations

import copy
import math
from typing import Any, Final, Self

from dpledger.accounting.bounds import Bounds
from dpledger.accounting.composition import Composition
from dpledger.accounting.documents import Document
from dpledger.accounting.profile import Profile, compose
from dpledger.accounting.reach import Of, steps_of
from dpledger.attach.dp_accounting.reading import (
    NOTHING,
    RELATIONS,
    NonPrivateEvent,
    UnsupportedEvent,
    tree_of_event,
)
from dpledger.attach.extras import extra
from dpledger.decimals import Number
from dpledger.errors import ParameterError, RelationError
from dpledger.ledger.scope import Scope
from dpledger.relations import Unit

with extra("dp-accounting"):
    import dp_accounting
    from dp_accounting import NeighboringRelation

__all__ = ["PrivacyAccountant"]

BEYOND: Final = 10**9
"""An epsilon that no finite loss of interest reaches: delta there is at least that at infinity."""


class PrivacyAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]  # of a library without types
    """An accountant of dp_accounting that answers with certified upper bounds.

    `scope`: whose relation and unit it counts for. It charges nothing: `Scope.charge(accountant.document, ...)` does.
    `neighboring_relation`: without a scope, default add or remove one. `of`: as of `read`, for a scope whose unit may
    have many rows. Copies, and pickles, count for themselves. RelationError for a scope under label_flip, which the
    library has no word for, and for two relations.
    """

    def __init__(
        self,
        scope: Scope | None = None,
        neighboring_relation: NeighboringRelation | None = None,
        *,
        of: Of | None = None,
    ) -> None:
        super().__init__(_neighbouring(scope, neighboring_relation))
        self._unit = Unit() if scope is None else scope.unit
        self._of: Of | None = of
        self._runs: tuple[tuple[Composition, int], ...] = ()
        self._is_private = True
        relation = RELATIONS[self.neighboring_relation]
        steps_of(relation, of, self._unit, relation)  # refused here, and not at the first event

    def __copy__(self) -> Self:
        """A copy that counts for itself."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _ledger=copy.deepcopy(self._ledger))
        return other

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """None, and with `do_compose` the event is counted; else which event has no certified bound, and why."""
        relation = RELATIONS[self.neighboring_relation]
        try:
            tree = tree_of_event(event, relation, self._of, self._unit)
        except NonPrivateEvent:
            self._is_private = self._is_private and not do_compose
        except UnsupportedEvent as error:
            return self.CompositionErrorDetails(error.event, error.reason)
        else:
            if do_compose:
                self._runs = (*self._runs, (tree, count))
        return None

    @property
    def document(self) -> Document:
        """Everything that was composed, under `neighboring_relation`: for `compose` and `Scope.charge`.

        ParameterError where something without noise was."""
        if not self._is_private:
            raise ParameterError("document", "an event without noise", "events that promise something")
        lines = [{"mechanism": tree, "count": count} for tree, count in self._runs or ((NOTHING, 1),)]
        return Document(relation=RELATIONS[self.neighboring_relation], entries=lines)  # type: ignore[arg-type]

    @property
    def _profile(self) -> Profile:
        return compose(self.document)

    def bounds(self, target_delta: Number) -> Bounds:
        """Epsilon at this delta, from both sides.

        Claim: lower <= epsilon <= upper. Source: `Profile.epsilon`, of what was composed."""
        return self._profile.epsilon(target_delta) if self._is_private else Bounds(math.inf, math.inf)

    def get_epsilon(self, target_delta: float) -> float:
        """At least the epsilon of everything composed, at this delta.

        Claim: it is (result, target_delta)-DP. Source: `bounds`."""
        return self.bounds(target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """At least the delta of everything composed, at this epsilon, which may be infinite.

        Claim: it is (target_epsilon, result)-DP. Source: `Profile.delta`; delta falls in epsilon."""
        if not self._is_private:
            return 1.0
        return self._profile.delta(BEYOND if target_epsilon == math.inf else target_epsilon).upper


def _neighbouring(scope: Scope | None, asked: NeighboringRelation | None) -> NeighboringRelation:
    """The library's word for the relation; that of the scope, where there is one."""
    if asked is not None and asked not in RELATIONS:
        raise ParameterError("neighboring_relation", type(asked).__name__, "one of dp_accounting.NeighboringRelation")
    if scope is None:
        return NeighboringRelation.ADD_OR_REMOVE_ONE if asked is None else asked
    if not isinstance(scope, Scope):
        raise ParameterError("scope", type(scope).__name__, "a scope (see Ledger.scope), or none")
    own = next((word for word, relation in RELATIONS.items() if relation is scope.relation), None)
    if own is None:
        raise RelationError(f"dp_accounting has no word for {scope.relation.value}, the relation of the scope")
    if asked not in (None, own):
        raise RelationError(f"the scope is for {scope.relation.value}, not for {asked.name}")
    return own
