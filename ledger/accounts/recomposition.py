"""What a record comes to, read again from the beginning: every admission, every refusal, and what was spent.

Scope by scope; each admission with the account and the price that carried it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, assert_never

from dpledger.accounting import filters
from dpledger.accounting.adding import read_at
from dpledger.accounting.composition import Composition, Filtered, Leaf, leaves
from dpledger.accounting.ex_post.odometer import Odometer, OdometerReading
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    Coordinates,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    Sums,
    ZCDPFilter,
)
from dpledger.accounting.guarantees import (
    Failure,
    Guarantee,
    PrivacyFailure,
    words_of,
)
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.pricing.outcomes import planned
from dpledger.accounting.profile import Bounds
from dpledger.decimals import text
from dpledger.errors import Contradiction
from dpledger.ledger.accounts import readings
from dpledger.ledger.accounts.rollbacks import Rollbacks
from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Closed,
    Committed,
    Declared,
    Heartbeat,
    Intended,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    Lost,
    OwnerRotated,
    PlanRegistered,
    PolicyChanged,
    Progress,
    Refused,
    Reported,
    Reserved,
    RollbackAccepted,
    ScopeOpened,
    Snapshot,
    Started,
)
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import Attestation, MechanismNote
from dpledger.ledger.rules.scope_state import Form, ScopeState, State
from dpledger.ledger.rules.transitions import charged_scope
from dpledger.notebooks import summary
from dpledger.relations import Relation, Unit

__all__ = ["Admission", "Change", "Refusal", "ScopeAccount", "Status", "accounts", "admissions", "attested"]

Status = Literal["reserved", "started", "committed", "aborted"]
UNKNOWN = Bounds(0.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One charge of a scope, from its reservation on. `scope`: where it was asked for; `time`: when. `ended`: the index
    of the entry that ended it.

    `account`: the coordinate in which it was admitted; `reserved[account]` is the price that carried it, and
    `charged[account]` what is charged now (the settled price once committed, nothing once aborted). `tail_delta`: the
    delta of its price from a profile, 0 where it is priced from its parts. `attested`: of a run that happened
    elsewhere, whose word it is."""

    index: int
    time: str | None
    scope: str
    key: str
    charge: str
    mechanism: MechanismNote
    form: Form
    claim: Guarantee
    failures: tuple[Failure, ...]
    parts: Composition
    tail_delta: Decimal
    status: Status
    reserved: Coordinates
    charged: Coordinates
    rule: Literal["cap", "ex_post", "steps"] | None
    account: str
    steps: int | None
    granted: int
    warnings: tuple[str, ...]
    outside_guarantee: bool
    ended: int | None
    attested: Attestation | None = None

    @property
    def privacy_failures(self) -> tuple[PrivacyFailure, ...]:
        """What the delta of its charge lets fail, by cause: of its claim, or of a price from its profile."""
        if self.tail_delta:
            return (PrivacyFailure(self.tail_delta, "composition"),)
        return tuple(failure for failure in self.failures if isinstance(failure, PrivacyFailure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that the scope refused. `attested`: of a run that was to happen, or happened, elsewhere."""

    index: int
    key: str
    mechanism: MechanismNote
    claim: Guarantee
    asked: Mapping[str, Decimal]
    spent: Mapping[str, Decimal]
    left: Mapping[str, Decimal]
    attested: Attestation | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The sums of a scope once entry `index` was in, and the parts that it settled; None where it settled none, or
    nothing here saw them run."""

    index: int
    sums: Sums
    settled: Composition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeAccount:
    """Everything a scope admitted and refused, and what it comes to. `changes`: of its sums, in order.

    `guarantee`: what the scope promises for ever, its budget (ex ante). `spent`: the reading at `delta`, both bounds.
    `composition`: the tree of all that was admitted, with outcomes; None where something was priced from its profile,
    which a tree does not say. `held`: of the sums, what open charges hold.
    `contradiction`: why what stands in this scope cannot all be true, where it cannot; `spent` is then [0, inf].
    `rollback`: the index of the accepted rollback that ended the scope, where one did: what the missing entries charged
    is not known, and in no number here."""

    scope: str
    unit: Unit
    relation: Relation
    budget: Guarantee
    filter: Filter
    guarantee: Guarantee
    admissions: tuple[Admission, ...]
    refusals: tuple[Refusal, ...]
    changes: tuple[Change, ...]
    sums: Sums
    spent_by_account: Mapping[str, str]
    held_by_account: Mapping[str, str]
    left_by_account: Mapping[str, str]
    delta: Decimal
    spent: Bounds
    composition: Composition | None
    odometer_constants: Odometer | None
    contradiction: str | None = None
    rollback: int | None = None

    def __repr__(self) -> str:
        spent = self.contradiction or f"spent {self.spent:.6g} at delta {text(self.delta)}"
        counts = f"{len(self.admissions):,} admitted, {len(self.refusals):,} refused"
        return f"<ScopeAccount {self.scope}: {words_of(self.budget)}; {spent}; {counts}>"

    def _repr_html_(self) -> str:
        rows = [
            ("protects", f"one {self.unit.name}, {self.relation.value}"),
            ("budget", words_of(self.budget)),
            (f"spent epsilon at delta {text(self.delta)}", self.contradiction or f"{self.spent:.6g}"),
            *((f"left of {name}", left) for name, left in self.left_by_account.items()),
            ("admitted", f"{len(self.admissions):,}"),
            ("of these attested", f"{len(self.attested):,}"),
            ("refused", f"{len(self.refusals):,}"),
        ]
        return summary(f"Scope {self.scope}", rows)

    def odometer(self) -> OdometerReading | None:
        """What the odometer shows that the scope was opened with; None if it was opened with none. See
        `readings.odometer`: a bound that holds at every stopping time, and no DP guarantee."""
        if self.odometer_constants is None:
            return None
        counted = (_counted(admission) for admission in self.admissions if admission.status != "aborted")
        return readings.odometer(self.odometer_constants, self.relation, counted)

    @property
    def attested(self) -> tuple[Admission, ...]:
        """The charges that count and are for runs that happened elsewhere: their prices rest on somebody's word."""
        return tuple(one for one in self.admissions if one.attested is not None and one.status != "aborted")

    def reading(self, delta: Decimal) -> Decimal:
        """The upper bound of the reading at `delta`, as the exact decimal that the filter gives: never above the budget
        at its own delta, where `spent.upper` is the next float. Claim and source: those of `filters.reading`."""
        return filters.reading(self.filter, self.sums, delta)


def attested(parts: Composition) -> tuple[Leaf, ...]:
    """The leaves that are somebody's word, in the order in which they stand: declared guarantees, and with them the
    losses that they state. What a law guarantees, and what its outcome lost, is recomputed."""
    return tuple(leaf for leaf in leaves(parts) if rules_of(leaf).attested)


def accounts(entries: Iterable[Entry], state: State) -> tuple[ScopeAccount, ...]:
    """The account of each scope, in id order, from entries and the state that they fold to."""
    books = _books(entries, state)
    return tuple(books[name].account() for name in sorted(books))


def admissions(entries: Iterable[Entry], state: State, scope: str) -> tuple[Admission, ...]:
    """Every charge to one scope, from entries and the state that they fold to."""
    return _books(entries, state)[scope].admissions()


def _books(entries: Iterable[Entry], state: State) -> dict[str, _Book]:
    books = {name: _Book(scope) for name, scope in state.scopes.items()}
    charges: dict[str, _Charge] = {}
    rollbacks = Rollbacks()
    for entry in entries:
        rollbacks.see(entry)
        match entry.body:
            case Reserved() as body:
                own = charged_scope(state, body.path).scope
                charge = charges[body.charge] = _Charge(entry, body, own)
                for level in body.levels:
                    books[level.scope].admit(charge, level.amounts)
            case Committed() | Aborted() if state.last_trusted is not None and entry.index > state.last_trusted:
                pass  # nobody knows who signed it: the charge stands as it was reserved
            case Started(charge=name) | Progress(charge=name) | Committed(charge=name) | Aborted(charge=name) as body:
                for level in charges[name].body.levels:
                    books[level.scope].settle(charges[name], entry.index, body)
                charges[name].follow(entry.index, body)
            case Refused(level=level) as body:
                books[level].refusals.append(_refusal(entry.index, body))
            case LedgerOpened() | ScopeOpened() | Lost() | Closed() | Snapshot() | Heartbeat() | Declared() | Audited():
                pass
            case Intended() | Reported() | PlanRegistered() | PolicyChanged() | RollbackAccepted():
                pass
            case KeyRotated() | KeyDelegated() | OwnerRotated() | KeyRevoked():
                pass
            case _:
                assert_never(entry.body)
    for name, index in rollbacks.ended.items():
        books[name].rollback = index
    return books


class _Charge:
    """A charge while its entries are read."""

    def __init__(self, entry: Entry, body: Reserved, scope: str) -> None:
        self.index = entry.index
        self.time = entry.time
        self.body = body
        self.scope = scope
        self.status: Status = "reserved" if body.redeem is None else "started"
        self.granted = 0
        self.end: Committed | None = None
        self.ended: int | None = None

    def follow(self, index: int, body: Started | Progress | Committed | Aborted) -> None:
        match body:
            case Started():
                self.status = "started"
            case Progress(upto=upto):
                self.granted = upto
            case Aborted():
                self.status, self.ended = "aborted", index
            case Committed():
                self.status, self.end, self.ended = "committed", body, index
            case _:
                assert_never(body)

    def charged(self, scope: str) -> Coordinates:
        """What the scope is charged now: nothing once aborted, the settled amounts once committed, else the cap."""
        if self.status == "aborted":
            return {}
        levels = self.body.levels if self.end is None else self.end.levels
        return next(level.amounts for level in levels if level.scope == scope)


class _Book:
    """One scope while the entries are read: its sums at every prefix, and which account carried each admission."""

    def __init__(self, scope: ScopeState) -> None:
        self.scope = scope
        self.sums = filters.opening(scope.filter)
        self.charges: list[tuple[_Charge, str, Coordinates]] = []
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []
        self.rollback: int | None = None

    def admit(self, charge: _Charge, amounts: Coordinates) -> None:
        self.sums = filters.with_charge(self.scope.filter, self.sums, amounts)
        self.changes.append(Change(charge.index, self.sums))
        self.charges.append((charge, _carrier(self.scope.filter, self.sums, amounts), amounts))

    def settle(self, charge: _Charge, index: int, body: Started | Progress | Committed | Aborted) -> None:
        if isinstance(body, (Started, Progress)):
            return
        rule, name, parts = self.scope.filter, self.scope.scope, None
        self.sums = filters.without_charge(rule, self.sums, charge.charged(name))
        if isinstance(body, Committed):
            settled = next(level.amounts for level in body.levels if level.scope == name)
            self.sums = filters.with_charge(rule, self.sums, settled)
            parts = None if charge.body.attested else body.parts
        self.changes.append(Change(index, self.sums, parts))

    def admissions(self) -> tuple[Admission, ...]:
        return tuple(_admission(self.scope.scope, *charge) for charge in self.charges)

    def account(self) -> ScopeAccount:
        scope = self.scope
        guarantee = filters.budget_guarantee(scope.filter)
        delta, contradiction = read_at(guarantee), None
        admissions = self.admissions()
        ran = tuple(admission.parts for admission in admissions if admission.status != "aborted")
        is_replayable = bool(ran) and not any(admission.tail_delta for admission in admissions)
        try:
            spent = readings.spent(scope, delta)
        except Contradiction as error:  # of this scope: nothing that is said of the others rests on it
            spent, contradiction = UNKNOWN, str(error)
        return ScopeAccount(
            scope=scope.scope,
            unit=scope.unit,
            relation=scope.relation,
            budget=scope.budget,
            filter=scope.filter,
            guarantee=guarantee,
            admissions=admissions,
            refusals=tuple(self.refusals),
            changes=tuple(self.changes),
            sums=scope.sums,
            spent_by_account=filters.spent(scope.filter, scope.sums),
            held_by_account=filters.spent(scope.filter, scope.held),
            left_by_account=filters.left(scope.filter, scope.sums),
            delta=delta,
            spent=spent,
            composition=Filtered(scope.filter, ran) if is_replayable else None,
            odometer_constants=scope.odometer,
            contradiction=contradiction,
            rollback=self.rollback,
        )


def _counted(admission: Admission) -> Composition:
    """The parts that an odometer counts: outside its guarantee a run counts at its cap."""
    return planned(admission.parts) if admission.outside_guarantee else admission.parts


def _carrier(rule: Filter, sums: Sums, amounts: Coordinates) -> str:
    """The coordinate in which a charge was admitted, given the sums with it: in an `either` filter, the sum of pure
    prices as long as it fits, else the mixed account that leads; on a Renyi grid, that of the fullest order; of an
    allowance, its copies where there are some."""
    match rule:
        case PureFilter() | BasicFilter():
            return "pure"
        case ZCDPFilter():
            return "rho"
        case GDPFilter():
            return "mu_squared"
        case RDPFilter():
            return "pure" if amounts.get("pure") else filters.fullest(rule, sums)
        case EitherFilter(epsilon=epsilon) if not sums["pure"][1] and sums["pure"][0] <= epsilon:
            return "pure"
        case EitherFilter():
            pure, renyi = filters.mixed_names(rule)[filters.leading(rule, sums)]
            return renyi if amounts.get(renyi) else pure
        case AllowanceFilter():
            return "copies" if amounts.get("copies") else "pure"
        case _:
            assert_never(rule)


def _admission(scope: str, charge: _Charge, carrier: str, reserved: Coordinates) -> Admission:
    body, end = charge.body, charge.end
    return Admission(
        index=charge.index,
        time=charge.time,
        scope=charge.scope,
        key=body.key,
        charge=body.charge,
        mechanism=body.mechanism,
        form=body.form,
        claim=body.claim,
        failures=body.failures,
        parts=body.parts if end is None else end.parts,
        tail_delta=body.tail_delta,
        status=charge.status,
        reserved=reserved,
        charged=charge.charged(scope),
        rule=None if end is None else end.rule,
        account=carrier,
        steps=body.steps,
        granted=charge.granted,
        warnings=() if end is None else end.warnings,
        outside_guarantee=end is not None and end.outside_guarantee,
        ended=charge.ended,
        attested=body.attested,
    )


def _refusal(index: int, body: Refused) -> Refusal:
    return Refusal(
        index=index,
        key=body.key,
        mechanism=body.mechanism,
        claim=body.claim,
        asked=body.asked,
        spent=body.spent,
        left=body.left,
        attested=body.attested,
    )
