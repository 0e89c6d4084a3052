"""What a scope is opened with, and whether a scope that is there was opened with the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from dpledger.accounting import filters
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import (
    Filter,
    Orders,
)
from dpledger.accounting.guarantees import GUARANTEES, Guarantee, warn_where_implausible
from dpledger.accounting.planning.allotting import Allowance, allotted, is_same, require_certified
from dpledger.decimals import text
from dpledger.errors import ParameterError, ScopeError
from dpledger.ledger.entries.bodies import ScopeOpened
from dpledger.ledger.entries.members import Step, UnitNote
from dpledger.ledger.rules.scope_state import ScopeState, those
from dpledger.ledger.signed import wire
from dpledger.relations import Relation, Unit
from dpledger.schema import listed, one_of, one_text, words

__all__ = ["Keep", "Rules"]

Keep = Literal["value", "digest", "none"]

_LEAVE_OUT = "leave it out to use the scope as it is, or open a new scope under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a caller says about a scope; None: nothing."""

    name: str
    unit: Unit | None
    relation: Relation | None
    budget: Guarantee | Filter | None
    orders: Orders | None
    allowance: Allowance | None
    keep: Keep | None
    parents: tuple[str, ...] | None
    dataset: str | None
    odometer: Odometer | None

    @classmethod
    def read(
        cls,
        name: str,
        unit: Unit | str | None,
        relation: Relation | str | None,
        budget: Guarantee | Filter | None,
        keep: Keep | None,
        parents: Sequence[str] | None,
        dataset: str | None,
        *,
        odometer: Odometer | None = None,
        orders: Orders | None = None,
        allowance: Allowance | None = None,
    ) -> Rules:
        """The rules in the caller's words. ParameterError for a name, unit, relation or odometer that is none, and for
        orders that the budget does not open a filter with."""
        if odometer is not None and not isinstance(odometer, Odometer):
            raise ParameterError("odometer", type(odometer).__name__, "an Odometer")
        return cls(
            name=wire.check_id(name, "scope"),
            unit=None if unit is None else Unit.read(unit),
            relation=None if relation is None else Relation.read(relation),
            budget=_read_budget(budget),
            orders=None if orders is None else tuple(listed(orders, field="orders")),
            allowance=_read_allowance(allowance),
            keep=_read_keep(keep),
            parents=None if parents is None else tuple(sorted(set(words(parents, field="parents")))),
            dataset=None if dataset is None else one_text(dataset, field="dataset"),
            odometer=odometer,
        )

    def require_same(self, existing: ScopeState) -> None:
        """ScopeError unless everything that is said is what the scope was opened with."""
        said: tuple[tuple[str, object, object], ...] = (
            ("unit", self.unit, existing.unit),
            ("relation", self.relation, existing.relation),
            ("keep", self.keep, existing.keep),
            ("parents", self.parents, existing.parents),
            ("dataset", self.dataset, existing.dataset),
            ("odometer", self.odometer, existing.odometer),
        )
        for what, asked, found in said:
            if asked is not None and asked != found:
                raise ScopeError(
                    f"scope {self.name!r} was opened with another {what}: {_said(found)}, not {_said(asked)}"
                )
        if self.budget is not None and self.budget not in (existing.budget, existing.opened_with):
            raise ScopeError(
                f"scope {self.name!r} was opened with another budget: {existing.budget.in_words(text)}, not "
                f"{_budget(self.budget)}; {_LEAVE_OUT}"
            )
        if self.orders is not None and filters.opened_by(existing.budget, orders=self.orders) != existing.opened_with:
            raise ScopeError(f"scope {self.name!r} was opened with other orders; {_LEAVE_OUT}")
        allowance = self.allowance
        if allowance is not None and not is_same(allowance, existing.budget, existing.relation, existing.filter):
            raise ScopeError(f"scope {self.name!r} was opened with another allowance; {_LEAVE_OUT}")

    def opening(self, others: Collection[str] = ()) -> ScopeOpened:
        """The body that opens the scope. ScopeError if unit, relation or budget was not said: it names the `others`, of
        which one may have been meant."""
        if self.budget is None or self.relation is None or self.unit is None:
            raise ScopeError(
                f"no scope {self.name!r} in this ledger, {those(others)}; to open it, give unit, relation and budget"
            )
        rule, promise = _rule_and_promise(self.budget, self.relation, self.orders, self.allowance)
        require_certified(rule, self.relation)
        warn_where_implausible(promise, "budget")
        return ScopeOpened(
            path=(Step(self.name, 0),),
            unit=UnitNote(self.unit.name, self.unit.max_contributions),
            relation=self.relation,
            budget=promise,
            filter=rule,
            keep=self.keep if self.keep is not None else "value",
            parents=self.parents if self.parents is not None else (),
            dataset=self.dataset,
            odometer=self.odometer,
            instead=filters.instead(promise) if self._is_default else None,
        )

    @property
    def _is_default(self) -> bool:
        """Whether nobody named constants."""
        return isinstance(self.budget, GUARANTEES) and self.orders is None and self.allowance is None


def _budget(asked: Guarantee | Filter) -> str:
    """A budget in words: what it promises, or, of a filter that was chosen, its kind."""
    return asked.in_words(text) if isinstance(asked, GUARANTEES) else f"a {asked.kind} filter of your own"


def _said(value: object) -> str:
    """A rule of a scope in words."""
    if isinstance(value, Unit):
        return f"{value.name} (at most {value.max_contributions} row{'s' if value.max_contributions > 1 else ''})"
    if isinstance(value, Relation):
        return value.value
    if isinstance(value, tuple):
        return " and ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _read_budget(budget: object) -> Guarantee | Filter | None:
    if budget is None or isinstance(budget, (*GUARANTEES, *filters.KINDS)):
        return cast("Guarantee | Filter | None", budget)
    raise ParameterError("budget", type(budget).__name__, "a guarantee, like ApproxDP(3, '1e-6'), or a filter")


def _read_keep(keep: object) -> Keep | None:
    return None if keep is None else cast("Keep", one_of(keep, get_args(Keep), field="keep"))


def _read_allowance(allowance: object) -> Allowance | None:
    if allowance is None or isinstance(allowance, Allowance):
        return allowance
    expected = "an allowance, like Allowance(GaussianLaw(50), share=1)"
    raise ParameterError("allowance", type(allowance).__name__, expected)


def _rule_and_promise(
    budget: Guarantee | Filter, relation: Relation, orders: Orders | None, allowance: Allowance | None
) -> tuple[Filter, Guarantee]:
    if isinstance(budget, GUARANTEES):
        if allowance is None:
            return filters.opened_by(budget, orders=orders), budget
        if orders is not None:
            raise ParameterError("orders", len(orders), "nothing with an allowance, which has no Renyi accounts")
        return allotted(allowance, budget, relation), budget
    assert isinstance(budget, filters.KINDS), "it was read"
    if orders is not None:
        raise ParameterError("orders", len(orders), "nothing with a filter, which has its own")
    if allowance is not None:
        raise ParameterError("allowance", "one", "nothing with a filter, which has every constant already")
    return budget, filters.budget_guarantee(budget)
