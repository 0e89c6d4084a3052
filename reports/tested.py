"""Which audits are of what is charged in a ledger: of what ran here, of what ran elsewhere, of neither.

An audit that was blind is none: what it is of goes on being counted as never audited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpledger.ledger.entries.bodies import Aborted, Audited, Intended, Reserved
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.requests import DECLARED

__all__ = [
    "AuditEntry",
    "Audits",
    "IntendedEntry",
    "RunsElsewhere",
    "audits_of",
    "blind_reasons",
    "kinds_that_ran",
    "mechanisms_that_ran",
    "runs_elsewhere",
    "told_apart",
    "unfinished",
]


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
    """An audit that was said to be made, and where that stands."""

    index: int
    time: str
    body: Intended

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that it would be about."""
        return tuple(level.scope for level in self.body.path)


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


def audits_of(entries: Iterable[Entry]) -> tuple[AuditEntry, ...]:
    """Every audit, in order."""
    return tuple(
        AuditEntry(entry.index, entry.time or "", entry.body) for entry in entries if isinstance(entry.body, Audited)
    )


def unfinished(entries: Iterable[Entry]) -> tuple[IntendedEntry, ...]:
    """Every audit that was intended, and that no result names, in order."""
    known = tuple(entries)
    finished = {one.body.intended for one in audits_of(known)}
    return tuple(
        IntendedEntry(entry.index, entry.time or "", entry.body)
        for entry in known
        if isinstance(entry.body, Intended) and entry.index not in finished
    )


def blind_reasons(audits: Audits, kinds: Iterable[str]) -> dict[str, str]:
    """Why an audit of each of these kinds that was tried saw nothing, the last word of each."""
    wanted = frozenset(kinds)
    tried = ((one.body.mechanism.kind, one.body.blind) for one in audits.blind)
    return {kind: why for kind, why in tried if kind in wanted and why is not None}


def kinds_that_ran(entries: Iterable[Entry]) -> frozenset[str]:
    """The tags of all mechanisms that were admitted to run here, and not given back. What runs elsewhere bears the name
    that somebody gave it: an audit of what bears that name here says nothing of it."""
    return frozenset(body.mechanism.kind for body in _that_ran(entries) if body.attested is None)


def mechanisms_that_ran(entries: Iterable[Entry]) -> frozenset[tuple[str, str]]:
    """The tags and parameters of the same mechanisms."""
    here = (body.mechanism for body in _that_ran(entries) if body.attested is None)
    return frozenset((mechanism.kind, repr(mechanism.parameters)) for mechanism in here)


def runs_elsewhere(entries: Iterable[Entry]) -> RunsElsewhere:
    """What ran elsewhere, with and without an audit. `declared_run` is no name."""
    known = tuple(entries)
    audits = [one.body for one in audits_of(known) if one.body.blind is None]
    charges, names = _named_by(audits)
    wrong_charges, wrong_names = _named_by([one for one in audits if one.verdict == "violation"])
    charged: list[Reserved] = []
    named: list[Reserved] = []
    never: list[Reserved] = []
    refuted: set[str] = set()
    for run in _elsewhere(known):
        by_charge = run.charge in charges
        (charged if by_charge else named if _name(run) in names else never).append(run)
        if run.charge in wrong_charges if by_charge else _name(run) in wrong_names:
            refuted.add(run.charge)
    return RunsElsewhere(tuple(charged), tuple(named), tuple(never), frozenset(refuted))


def _named_by(audits: Iterable[Audited]) -> tuple[frozenset[str | None], frozenset[str | None]]:
    """The charges, and the kinds, that audits name."""
    known = tuple(audits)
    return frozenset(one.charge for one in known), frozenset(one.mechanism.kind for one in known)


def told_apart(entries: Iterable[Entry]) -> Audits:
    """Every audit, by what ties it to what is charged in this ledger."""
    known = tuple(entries)
    ran = kinds_that_ran(known)
    there = _elsewhere(known)
    names, charges = {_name(body) for body in there}, {body.charge for body in there}
    here, charged, named, about, apart, blind = [], [], [], [], [], []
    for one in audits_of(known):
        if one.body.blind is not None:
            blind.append(one)
        elif one.body.charge in charges:
            charged.append(one)
        elif one.body.mechanism.kind in ran:
            here.append(one)
        elif one.body.mechanism.kind in names:
            named.append(one)
        elif one.scopes or one.body.charge is not None:
            about.append(one)
        else:
            apart.append(one)
    return Audits(tuple(here), tuple(charged), tuple(named), tuple(about), tuple(apart), tuple(blind))


def _elsewhere(entries: Iterable[Entry]) -> tuple[Reserved, ...]:
    return tuple(body for body in _that_ran(entries) if body.attested is not None)


def _name(there: Reserved) -> str | None:
    """What a run elsewhere was called; None where nobody named it."""
    return None if there.mechanism.kind == DECLARED else there.mechanism.kind


def _that_ran(entries: Iterable[Entry]) -> Iterable[Reserved]:
    found: dict[str, Reserved] = {}
    for entry in entries:
        if isinstance(entry.body, Reserved):
            found[entry.body.charge] = entry.body
        elif isinstance(entry.body, Aborted):
            del found[entry.body.charge]
    return found.values()
