"""What the rules of a ledger read: its scopes, their sums, the charges that are open. `ledger.rules.state` folds them.

The state holds sums and open charges, never the list of everything that happened; that each key and charge is used once
is the store's to keep and the verifier's to check. Its digest is what a `snapshot` entry states. What follows from the
entries and only saves looking at them again (`held`, `interactions`, `exclusive`, `ran`, `intended`, `replaced`) is not
in the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, Self, TypeVar

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, leaves
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import Filter, Sums
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.kinds import rules_of
from dpledger.decimals import ZERO, text
from dpledger.errors import VerificationError
from dpledger.ledger.entries.bodies import Intended, LedgerOpened
from dpledger.ledger.entries.members import LevelCharge, Step
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.rules.executed import NOTHING, Ran
from dpledger.ledger.rules.persistent import PersistentMap
from dpledger.ledger.signed import wire
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain

__all__ = [
    "EMPTY",
    "Form",
    "OpenCharge",
    "ScopeState",
    "State",
    "changed",
    "is_exclusive",
    "next_steps",
    "state_digest",
    "state_payload",
    "those",
]

Form = Literal["release", "interaction", "training"]
"""How a mechanism runs: it answers once, it answers a stream of queries, or it takes the steps of a plan."""


_Folded = TypeVar("_Folded")


def changed(folded: _Folded, **changes: object) -> _Folded:
    """`folded` with some fields changed: `dataclasses.replace`, in a fraction of its time, of what has no slots and
    checks nothing as it is made. KeyError for a field that it does not have."""
    kept = vars(folded)
    if not changes.keys() <= kept.keys():
        raise KeyError(*(changes.keys() - kept.keys()))
    made: _Folded = object.__new__(type(folded))
    made.__dict__.update(kept, **changes)
    return made


@dataclass(frozen=True, kw_only=True)
class ScopeState:
    """One scope: its rules, the sums of its filter over everything not aborted, and its next index.

    `opened_with`: the filter that it was opened with, `filter` the one in force. `instead`: the one that its first
    charge may fix in place of it; None once anything was charged. `opened`: the index of its entry. `path`: the scopes
    that a charge in this one is charged to, itself and everything above it, in id order. `held`: of the sums, the part
    that open charges hold. `interactions`: how many open charges are no plain release; `exclusive`: how many of those
    may overlap no other. `ran`: what is known to have run. `counted`: the sums without what came back after the last
    trusted entry, where something did: those that stand once the key is revoked."""

    scope: str
    opened: int
    unit: Unit
    relation: Relation
    budget: Guarantee
    filter: Filter
    opened_with: Filter
    keep: Literal["value", "digest", "none"]
    parents: tuple[str, ...]
    path: tuple[str, ...]
    dataset: str | None = None
    odometer: Odometer | None = None
    index: int
    sums: Sums
    held: Sums
    interactions: int = 0
    exclusive: int = 0
    ran: Ran = NOTHING
    epoch: int = 0
    closed: bool = False
    instead: Filter | None = None
    counted: Sums | None = None

    @property
    def is_fixed_late(self) -> bool:
        """Whether its first charge fixed another filter than it was opened with: then no run counts that may have begun
        before."""
        return self.filter != self.opened_with

    def fixed(self, filter_: Filter | None) -> Self:
        """The scope once its first charge fixed `filter_`, or, by None, the one that it was opened with."""
        if filter_ is None:
            return changed(self, instead=None)
        nothing = MappingProxyType(dict(filters.opening(filter_)))
        return changed(self, filter=filter_, sums=nothing, held=nothing, instead=None)


@dataclass(frozen=True, kw_only=True)
class OpenCharge:
    """A charge that is reserved or started: what it holds, what may settle it. `reserved`: the index of its entry.
    `tail_delta`: the delta of its price from a profile, 0 where it is priced from its parts. `attested`: whether what
    it is for runs elsewhere. `replaced`: the redeems from which others took a training run over, in order."""

    charge: str
    reserved: int
    scope: str
    key: str
    request: str
    form: Form
    parts: Composition
    levels: tuple[LevelCharge, ...]
    steps: int | None = None
    granted: int = 0
    redeem: str | None = None
    tail_delta: Decimal = ZERO
    attested: bool = False
    replaced: tuple[str, ...] = ()

    @property
    def generation(self) -> int:
        """How often it was taken over."""
        return len(self.replaced)

    @property
    def path(self) -> tuple[str, ...]:
        """The scopes that it is charged to, in id order."""
        return tuple(level.scope for level in self.levels)


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that the rules read. `size` is the number of entries folded; `intended`: the audits that were said to
    be made and are not finished, by the index of their entry, as text; `rollbacks`: how many were accepted;
    `authority`: who signs; `last_trusted`: the last entry that stands, where the last of all revokes the key. Whoever
    folds knows that one beforehand (`revoked_at`)."""

    size: int = 0
    opened: LedgerOpened | None = None
    scopes: PersistentMap[ScopeState] = field(default_factory=PersistentMap)
    open: PersistentMap[OpenCharge] = field(default_factory=PersistentMap)
    intended: PersistentMap[Intended] = field(default_factory=PersistentMap)
    closed: bool = False
    rollbacks: int = 0
    authority: Authority | None = None
    last_trusted: int | None = None

    @property
    def keys(self) -> Authority:
        """Who signs, in a ledger that was opened."""
        assert self.authority is not None, "the first entry names the keys"
        return self.authority

    @property
    def is_trusted(self) -> bool:
        """Whether the next entry is one of those that stand, as far as its signing key goes."""
        return self.last_trusted is None or self.size <= self.last_trusted

    def scope(self, name: str) -> ScopeState:
        """The scope `name`. VerificationError if it was never opened."""
        found = self.scopes.get(name)
        if found is None:
            raise VerificationError(f"scope {name} was never opened")
        return found

    def charge(self, name: str) -> OpenCharge:
        """The open charge `name`. VerificationError if there is none."""
        found = self.open.get(name)
        if found is None:
            raise VerificationError("the charge is not open")
        return found

    def overlaps(self, path: tuple[str, ...]) -> Literal["nothing", "interactions", "exclusive"]:
        """What a charge to the scopes in `path` would overlap: open interactions, and one that may overlap no other."""
        levels = [self.scope(name) for name in path]
        if any(level.exclusive for level in levels):
            return "exclusive"
        return "interactions" if any(level.interactions for level in levels) else "nothing"

    def must_wait(self, charge: OpenCharge) -> bool:
        """Whether an exclusive interaction other than `charge` is open in its scopes: nothing starts beside it, though
        it was reserved before."""
        own = is_exclusive(charge.form, charge.parts)
        return any(self.scope(name).exclusive > own for name in charge.path)


EMPTY = State()


def next_steps(state: State, path: tuple[str, ...]) -> tuple[Step, ...]:
    """The path of the next event in these scopes."""
    return tuple(Step(name, state.scope(name).index) for name in path)


def is_exclusive(form: Form, parts: Composition) -> bool:
    """Whether a charge may overlap no other interaction: one whose own guarantee is an approximate zCDP, which others
    that run between its answers break (docs/proofs/filters.md, "Setting"; Lyu 2022 and Haney et al. 2023 cover delta
    0)."""
    return form != "release" and any(rules_of(leaf).price.exclusive(leaf) for leaf in leaves(parts))


def state_payload(state: State) -> dict[str, Plain]:
    """The state as an object of the byte profile. Sums, counts and epochs are written out; what an entry says (the
    rules of a scope, the parts of a charge) is named by the index of that entry."""
    scopes: list[Plain] = [
        {
            "scope": name,
            "opened": scope.opened,
            "index": scope.index,
            "epoch": scope.epoch,
            "closed": scope.closed,
            **({} if scope.instead is None else {"unfixed": True}),
            "sums": {key: {"total": text(total), "unpriced": count} for key, (total, count) in scope.sums.items()},
        }
        for name, scope in state.scopes.items()
    ]
    charges: list[Plain] = [
        {
            "charge": name,
            "reserved": charge.reserved,
            "granted": charge.granted,
            **({"redeem": charge.redeem} if charge.redeem is not None else {}),
        }
        for name, charge in state.open.items()
    ]
    return {"size": state.size, "scopes": scopes, "open": charges, **_later_keys(state.authority)}


def _later_keys(authority: Authority | None) -> dict[str, Plain]:
    """What entries after the first say of keys."""
    if authority is None:
        return {}
    terms: list[Plain] = [
        {"key": term.key, "first": term.first, **({} if term.last is None else {"last": term.last})}
        for term in authority.terms[1:]
    ]
    owners: list[Plain] = [*authority.owners[1:]]
    return {**({"keys": terms} if terms else {}), **({"owners": owners} if owners else {})}


def state_digest(state: State) -> str:
    """The SHA-256 of the bytes of `state_payload`: what a `snapshot` entry states."""
    return hashlib.sha256(wire.dump(state_payload(state))).hexdigest()


MOST_LISTED = 20  # scopes that an error names


def those(scopes: Iterable[str]) -> str:
    """The scopes of a ledger, for an error that names one which is not among them.

    >>> those([]), those(["b", "a"])
    ('which has none yet', "which has 'a', 'b'")
    """
    names = sorted(scopes)
    if not names:
        return "which has none yet"
    listed = ", ".join(map(repr, names[:MOST_LISTED]))
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"which has {listed}{more}"
