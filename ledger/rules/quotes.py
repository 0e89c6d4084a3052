"""What a scope would decide, and what it could afford: nothing is recorded, nothing is spent.

A quote holds for the state that it was made from: another process may ask first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting import certified, filters
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.planning import ways as planning
from dpledger.accounting.planning.calibration import most_that
from dpledger.accounting.planning.ways import Level, Levels
from dpledger.decimals import ZERO, multiply, read, text
from dpledger.ledger.rules.gate import Admitted, Decision, require_open
from dpledger.ledger.rules.requested import Request, levels_of, require_room_for
from dpledger.ledger.rules.scope_state import ScopeState, State

__all__ = ["AccountQuote", "Affordable", "Quote", "Way", "afforded", "another_way", "left", "quoted"]


TOLD_ONLY = " (for comparison: mixed counts it and decides)"
WORTH = Fraction(98, 100)
PLACE = Decimal("1e-6")
MOST_PLACES = 10**15  # an epsilon of 10^9


@dataclass(frozen=True, slots=True, kw_only=True)
class Affordable:
    """How many more of something would be admitted now. `one_by_one`: each a request of its own. `planned`: as one
    request for all of them, asked in the best way. Both stop counting at `most`."""

    one_by_one: int
    planned: int
    most: int

    def __str__(self) -> str:
        one, plan = (
            f"{count} or more" if count == self.most else str(count) for count in (self.one_by_one, self.planned)
        )
        return f"{one} one by one, {plan} as one plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountQuote:
    """One account of one scope: what it holds before and after the request, what would then be left, and what is
    left now; decimal texts, `inf` where a charge has no price. `decides`: whether what is admitted stays within it;
    else it is shown beside an account that counts it too."""

    before: str
    after: str
    left: str
    left_now: str
    decides: bool = True

    def words(self, *, admitted: bool) -> str:
        """What a request that is admitted leaves of it, or what there is for one that is not."""
        return f"{self._amounts(admitted)}{'' if self.decides else TOLD_ONLY}"

    def _amounts(self, admitted: bool) -> str:
        if Decimal(self.before).is_infinite():
            return "holds a charge that has no price in this account"
        if Decimal(self.after).is_infinite():
            return f"{self.before} before, {self.left_now} left; no theorem prices this request in this account"
        if admitted:
            return f"{self.before} before, {self.after} after, {self.left} left"
        return f"{self.before} before, {self.left_now} left; {self.after} with this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of asking. `tail_delta`: 0 for the price of the parts. `accounts`: by scope, then by account. `fixes`:
    the scopes whose first charge it would be, and which would have another filter from then on: it, by scope."""

    tail_delta: Decimal
    admitted: bool
    accounts: Mapping[str, Mapping[str, AccountQuote]]
    fixes: Mapping[str, filters.Filter]

    def words(self) -> str:
        """How it is asked, in words."""
        if not self.tail_delta:
            return "priced from its parts (tail_delta=0)"
        return f"priced by its certified profile (tail_delta={text(self.tail_delta)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What the scope would answer to a request now. `decision`: what the gate says. `way`: as it would be asked.
    `cheaper`: another way that is admitted and takes less of epsilon, or that is admitted where this one is not; None
    where there is none."""

    scope: str
    mechanism: str
    decision: Decision
    way: Way
    cheaper: Way | None

    @property
    def admitted(self) -> bool:
        """Whether the scope admits it."""
        return isinstance(self.decision, Admitted)

    @property
    def accounts(self) -> Mapping[str, AccountQuote]:
        """The accounts of the scope itself."""
        return self.way.accounts[self.scope]

    def __str__(self) -> str:
        said = "admits" if self.admitted else "refuses"
        lines = [f"scope {self.scope!r} {said} {self.mechanism}, {self.way.words()}"]
        for name, accounts in self.way.accounts.items():
            for account, amounts in accounts.items():
                where = account if name == self.scope else f"{name}, {account}"
                lines.append(f"  {where}: {amounts.words(admitted=self.admitted)}")
        lines.extend(
            f"  it would be the first charge of {name!r}, and fix its filter as {rule.kind}: from then on claims add "
            "up and may use all of the delta, and none is kept for composing"
            for name, rule in self.way.fixes.items()
        )
        if self.cheaper is not None:
            own = "; ".join(f"{name} {amounts.after}" for name, amounts in self.cheaper.accounts[self.scope].items())
            lines.append(f"  cheaper: {self.cheaper.words()}, after which {own}")
        return "\n".join(lines)


def quoted(state: State, scope: ScopeState, request: Request, decision: Decision) -> Quote:
    """The quote of a request that the gate decides so. CannotCertify where no theorem prices it."""
    levels, parts = levels_of(state, scope, request), request.parts
    asked = planning.chosen_tail_delta(levels, parts) if request.tail_delta is None else request.tail_delta
    names = (scope.scope, *(name for name in scope.path if name != scope.scope))
    best = _cheapest(levels, parts, asked)
    if best is not None and isinstance(decision, Admitted) and not _is_worth_it(levels, parts, best, asked):
        best = None
    return Quote(
        scope=scope.scope,
        mechanism=request.mechanism.kind,
        decision=decision,
        way=_way(names, levels, parts, asked),
        cheaper=None if best is None else _way(names, levels, parts, best),
    )


def another_way(state: State, request: Request) -> Decimal | None:
    """The tail_delta with which a request that is refused is admitted in this state, if there is one. Looked for where
    the scope may price it by its profile unless it is told otherwise."""
    scope = state.scopes[request.scope]
    if not certified.has_profile_price(request.parts, scope.relation):
        return None
    levels = levels_of(state, scope, request)
    asked = planning.chosen_tail_delta(levels, request.parts) if request.tail_delta is None else request.tail_delta
    return _cheapest(levels, request.parts, asked)


def _cheapest(levels: Levels, parts: Composition, asked: Decimal) -> Decimal | None:
    """The other way that is admitted and uses least; of two alike the one that takes less of delta."""
    return planning.cheapest(levels, parts, (way for way in planning.ways(levels, parts) if way != asked))


def _is_worth_it(levels: Levels, parts: Composition, way: Decimal, than: Decimal) -> bool:
    """Whether it takes clearly less: a hundredth is what a price from a profile may differ by for no good reason. A
    scope that fixes another rule for it than it would loses more than that."""
    if planning.changes(levels, parts, way) > planning.changes(levels, parts, than):
        return False
    before = planning.used(levels)
    takes, would = (planning.used(planning.after(levels, parts, one)) - before for one in (way, than))
    return takes < WORTH * would


def _way(names: tuple[str, ...], levels: Levels, parts: Composition, tail_delta: Decimal) -> Way:
    charged = planning.after(levels, parts, tail_delta)
    found = tuple(planning.fixed(level, parts, tail_delta) for level in levels)
    fixes = {
        name: then.filter
        for name, before, then in zip(names, levels, charged, strict=True)
        if then.filter != before.filter
    }
    accounts = {}
    for name, before, then in zip(names, found, charged, strict=True):
        held, now = (filters.spent(at.filter, at.sums) for at in (before, then))
        left_now, left = (filters.left(at.filter, at.sums) for at in (before, then))
        deciding = filters.deciding(before.filter)
        accounts[name] = {
            account: AccountQuote(
                before=held[account],
                after=now[account],
                left=left[account],
                left_now=left_now[account],
                decides=account in deciding,
            )
            for account in held
        }
    admitted = planning.admits(levels, parts, tail_delta)
    return Way(tail_delta=tail_delta, admitted=admitted, accounts=accounts, fixes=fixes)


def left(state: State, scope: ScopeState) -> Decimal:
    """The most epsilon, in whole `PLACE`s, of a declared epsilon-DP request that would be admitted and is within what
    the readings leave of every budget in epsilon. ScopeError in a closed scope; CannotCertify where no theorem prices
    one."""
    require_open(state, scope)
    levels = levels_of(state, scope)

    planning.after(levels, PureDP(PLACE), ZERO)

    def fits(places: int) -> bool:
        return planning.admits(levels, PureDP(multiply(Decimal(places), PLACE)), ZERO)

    most = min(MOST_PLACES, *(_places_left(level) for level in levels))
    return read(text(multiply(Decimal(most_that(fits, most=most)), PLACE)))


def _places_left(level: Level) -> int:
    """What the reading at a budget's own delta leaves of its epsilon, if it has one, in whole `PLACE`s."""
    budget = filters.budget_guarantee(level.filter)
    if not budget.is_point:
        return MOST_PLACES
    reading, epsilon = filters.reading(level.filter, level.sums, budget.fails), budget.epsilon_at(budget.fails)
    return 0 if reading >= epsilon else int((Fraction(epsilon) - Fraction(reading)) / Fraction(PLACE))


def afforded(
    state: State, scope: ScopeState, parts: Composition, *, most: int, tail_delta: Decimal | None
) -> Affordable:
    """How many more of `parts` would be admitted. Raises as the gate does: ScopeError in a closed scope; ParameterError
    for a tail_delta that the scope does not take; CannotCertify where no theorem prices it as it is asked, nor as a
    plan in any way."""
    require_open(state, scope)
    levels = levels_of(state, scope)
    way = planning.chosen_tail_delta(levels, parts) if tail_delta is None else tail_delta
    require_room_for(scope, way)
    planned = planning.planned_copies(levels, parts, most=most)
    if not planned:
        planning.after(levels, parts, way)
    one_by_one = planning.copies_one_by_one(levels, parts, most=most, tail_delta=tail_delta)
    return Affordable(one_by_one=one_by_one, planned=planned, most=most)
