"""Which audits are of what is charged in a ledger: of what ran here, of what ran elsewhere, of neither.

A violation counts against every run of its kind. An audit that refuted nothing is a test of those runs of its kind
alone that had its very parameters, and only if it tested what they promise: under their relation, a claim that is no
weaker than theirs, at a confidence of 90 % or more. One that was blind tests nothing. What no audit tests goes on being
counted as never audited."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from dpledger.accounting.guarantees import Guarantee
from dpledger.ledger.charging.requests import DECLARED
from dpledger.ledger.entries.bodies import Aborted, Audited, Intended, Reserved, ScopeOpened
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import MechanismNote
from dpledger.ledger.signed import wire
from dpledger.relations import Relation
from dpledger.schema import plain

__all__ = [
    "AuditEntry",
    "Audits",
    "IntendedEntry",
    "RunsAndAudits",
    "RunsElsewhere",
    "TestedKinds",
    "blind_reasons",
]

LEAST_CONFIDENCE = Decimal("0.9")
OTHER_PARAMETERS = "whose parameters no run here had"
OTHER_RELATION = "whose relation is not that of the run"
WEAKER = "whose claim is weaker than that of the run"
UNSURE = "whose confidence is below 90 %"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An audit and where it stands."""

    index: int
    time: str
    body: Audited

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that it is about."""
        return tuple(level.scope for level in self.body.path)


@dataclass(frozen=True, slots=True)
class Audits:
    """The audits of a ledger, each once: of a kind that ran here; of the charge of a run elsewhere; under the name of
    one; about a budget, of something that did not run here; those that nothing ties to what is charged here; and of
    anything, those that were blind."""

    here: tuple[AuditEntry, ...]
    charged: tuple[AuditEntry, ...]
    named: tuple[AuditEntry, ...]
    about: tuple[AuditEntry, ...]
    apart: tuple[AuditEntry, ...]
    blind: tuple[AuditEntry, ...]

    @property
    def elsewhere(self) -> tuple[AuditEntry, ...]:
        """Those of runs elsewhere, in order."""
        return _in_order(self.charged, self.named)

    @property
    def nowhere(self) -> tuple[AuditEntry, ...]:
        """Those of something that did not run here, in order."""
        return _in_order(self.about, self.apart)

    @property
    def concerning(self) -> tuple[AuditEntry, ...]:
        """Those of no kind that ran here, which are about what is charged here all the same, in order."""
        return _in_order(self.charged, self.named, self.about)


@dataclass(frozen=True, slots=True)
class IntendedEntry:
    """An audit that was said to be made, where that stands, and its result, if there is one."""

    index: int
    time: str
    body: Intended
    found: Audited | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that it would be about."""
        return tuple(level.scope for level in self.body.path)

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end: to a violation, or to all runs that were intended."""
        return self.found is not None and (self.found.verdict == "violation" or _runs(self.found) >= self.body.trials)

    @property
    def early(self) -> str:
        """How it ended before its end; empty where no result was recorded."""
        if self.found is None:
            return ""
        return f"intended for {self.body.trials:,} runs a side, ended after {_runs(self.found):,} without a violation"


def _runs(body: Audited) -> int:
    """Of each side, at least."""
    return min(body.trials_left, body.trials_right)


def _in_order(*found: tuple[AuditEntry, ...]) -> tuple[AuditEntry, ...]:
    return tuple(sorted((one for some in found for one in some), key=lambda one: one.index))


@dataclass(frozen=True, slots=True)
class RunsElsewhere:
    """The runs elsewhere that were admitted, and not given back, by the audit that is of them: of their `charge`, of
    what bears their `name` alone, or none. `refuted`: the charges of those whose audit found a violation."""

    charged: tuple[Reserved, ...]
    named: tuple[Reserved, ...]
    never: tuple[Reserved, ...]
    refuted: frozenset[str]

    def outcome(self, runs: tuple[Reserved, ...]) -> str:
        """What audits found of these runs, which have one: of a part of them, or of all; nothing where nothing was."""
        found = sum(run.charge in self.refuted for run in runs)
        if not found:
            return ""
        return ": refuted" if found == len(runs) else f": {found:,} refuted"


@dataclass(frozen=True, slots=True)
class TestedKinds:
    """What audits tested of the kinds that ran here. `tested`: kinds that were in every way in which they ran, by
    parameters, relation and claim; `partly`: in how many of how many others were; `refuted`: those of a violation;
    `never`: the rest. `uncounted`: audits of kinds that ran here that test nothing of what ran, by the reason."""

    tested: frozenset[str]
    partly: Mapping[str, tuple[int, int]]
    refuted: frozenset[str]
    never: frozenset[str]
    uncounted: Mapping[str, tuple[AuditEntry, ...]]

    @property
    def is_any(self) -> bool:
        """Whether an audit says anything of what ran here."""
        return bool(self.tested or self.partly or self.refuted)


@dataclass(frozen=True, slots=True)
class _Ran:
    """A mechanism that ran here, as often as it did: its parameters in the ledger's bytes, and what it promised."""

    kind: str
    parameters: bytes
    relation: Relation
    claim: Guarantee


class RunsAndAudits:
    """What ran in a ledger, or in a part of it, and what audits are of it; its entries are read once."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        ran: dict[str, Reserved] = {}
        audits: list[AuditEntry] = []
        intended: list[IntendedEntry] = []
        self._relations: dict[str, Relation] = {}
        for entry in entries:
            body = entry.body
            if isinstance(body, Reserved):
                ran[body.charge] = body
            elif isinstance(body, ScopeOpened):
                self._relations[body.path[0].scope] = body.relation
            elif isinstance(body, Aborted):
                del ran[body.charge]
            elif isinstance(body, Audited):
                audits.append(AuditEntry(entry.index, entry.time or "", body))
            elif isinstance(body, Intended):
                intended.append(IntendedEntry(entry.index, entry.time or "", body))
        self.audits = tuple(audits)
        """Every audit, in order."""
        self._intended = intended
        self._here = [body for body in ran.values() if body.attested is None]
        self._elsewhere = [body for body in ran.values() if body.attested is not None]

    @functools.cached_property
    def kinds(self) -> frozenset[str]:
        """The tags of all mechanisms that were admitted to run here, and not given back. What runs elsewhere bears the
        name that somebody gave it: an audit of what bears that name here says nothing of it."""
        return frozenset(body.mechanism.kind for body in self._here)

    @functools.cached_property
    def _ran(self) -> frozenset[_Ran]:
        """The mechanisms that ran here, of the kinds that were audited."""
        audited = {one.body.mechanism.kind for one in self.audits}
        return frozenset(
            _Ran(body.mechanism.kind, _parameters(body.mechanism), self._relations[body.path[0].scope], body.claim)
            for body in self._here
            if body.mechanism.kind in audited
        )

    @functools.cached_property
    def tests(self) -> TestedKinds:
        """What the audits of kinds that ran here tested of them."""
        tested: set[_Ran] = set()
        refuted: set[str] = set()
        uncounted: dict[str, list[AuditEntry]] = {}
        for one in self.told_apart.here:
            if one.body.verdict == "violation":
                refuted.add(one.body.mechanism.kind)
            elif why := self.why_not(one):
                uncounted.setdefault(why, []).append(one)
            else:
                tested.update(self._tested_by(one.body))
        all_of: dict[str, list[bool]] = {}
        for ran in self._ran:
            all_of.setdefault(ran.kind, []).append(ran in tested)
        whole = frozenset(kind for kind, found in all_of.items() if all(found))
        some = {kind: (sum(found), len(found)) for kind, found in all_of.items() if any(found) and not all(found)}
        return TestedKinds(
            tested=whole,
            partly=some,
            refuted=frozenset(refuted),
            never=self.kinds - whole - some.keys() - refuted,
            uncounted={why: tuple(found) for why, found in uncounted.items()},
        )

    def why_not(self, one: AuditEntry) -> str:
        """Why an audit of a kind that ran here is no test of what ran; empty where it is one."""
        body = one.body
        same = self._alike(body)
        if not same:
            return OTHER_PARAMETERS
        if all(ran.relation is not body.relation for ran in same):
            return OTHER_RELATION
        if not self._tested_by(body):
            return WEAKER
        return UNSURE if body.confidence < LEAST_CONFIDENCE else ""

    def _alike(self, body: Audited) -> frozenset[_Ran]:
        kind, parameters = body.mechanism.kind, _parameters(body.mechanism)
        return frozenset(ran for ran in self._ran if (ran.kind, ran.parameters) == (kind, parameters))

    def _tested_by(self, body: Audited) -> frozenset[_Ran]:
        """The mechanisms that ran here whose promise this audit tested."""
        return frozenset(
            ran for ran in self._alike(body) if ran.relation is body.relation and _is_no_weaker(body.claim, ran.claim)
        )

    @property
    def unfinished(self) -> tuple[IntendedEntry, ...]:
        """Every audit that was intended and not finished, in order: no result names it, or one that ended without a
        violation after fewer runs."""
        found = {one.body.intended: one.body for one in self.audits}
        said = (replace(one, found=found.get(one.index)) for one in self._intended)
        return tuple(one for one in said if not one.is_finished)

    @functools.cached_property
    def elsewhere(self) -> RunsElsewhere:
        """What ran elsewhere, with and without an audit. `declared_run` is no name."""
        audits = [one.body for one in self.audits if one.body.blind is None]
        charges, names = _named_by(audits)
        wrong_charges, wrong_names = _named_by([one for one in audits if one.verdict == "violation"])
        charged: list[Reserved] = []
        named: list[Reserved] = []
        never: list[Reserved] = []
        refuted: set[str] = set()
        for run in self._elsewhere:
            by_charge = run.charge in charges
            (charged if by_charge else named if _name(run) in names else never).append(run)
            if run.charge in wrong_charges if by_charge else _name(run) in wrong_names:
                refuted.add(run.charge)
        return RunsElsewhere(tuple(charged), tuple(named), tuple(never), frozenset(refuted))

    @functools.cached_property
    def told_apart(self) -> Audits:
        """Every audit, by what ties it to what is charged in this ledger."""
        names, charges = {_name(body) for body in self._elsewhere}, {body.charge for body in self._elsewhere}
        here, charged, named, about, apart, blind = [], [], [], [], [], []
        for one in self.audits:
            if one.body.blind is not None:
                blind.append(one)
            elif one.body.charge in charges:
                charged.append(one)
            elif one.body.mechanism.kind in self.kinds:
                here.append(one)
            elif one.body.mechanism.kind in names:
                named.append(one)
            elif one.scopes or one.body.charge is not None:
                about.append(one)
            else:
                apart.append(one)
        return Audits(tuple(here), tuple(charged), tuple(named), tuple(about), tuple(apart), tuple(blind))


def blind_reasons(audits: Audits, kinds: Iterable[str]) -> dict[str, str]:
    """Why an audit of each of these kinds that was tried saw nothing, the last word of each."""
    wanted = frozenset(kinds)
    tried = ((one.body.mechanism.kind, one.body.blind) for one in audits.blind)
    return {kind: why for kind, why in tried if kind in wanted and why is not None}


def _parameters(mechanism: MechanismNote) -> bytes:
    return wire.dump(plain(mechanism.parameters))


def _is_no_weaker(tested: Guarantee, promised: Guarantee) -> bool:
    """Whether who keeps `tested` keeps `promised`: they are the same, or the one gives the epsilon of the other at its
    delta. Claim: if so, it is so. Source: the Claim of each `epsilon_at`."""
    if tested == promised:
        return True
    if not promised.is_point:
        return False
    delta = promised.own_delta
    return delta is not None and tested.epsilon_at(delta) <= promised.epsilon_at(delta)


def _named_by(audits: Iterable[Audited]) -> tuple[frozenset[str | None], frozenset[str | None]]:
    """The charges, and the kinds, that audits name."""
    known = tuple(audits)
    return frozenset(one.charge for one in known), frozenset(one.mechanism.kind for one in known)


def _name(there: Reserved) -> str | None:
    """What a run elsewhere was called; None where nobody named it."""
    return None if there.mechanism.kind == DECLARED else there.mechanism.kind
