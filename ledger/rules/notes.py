"""Notes: entries that charge nothing. What may be noted, about which scopes, and what the numbers in it have to do with
each other, for whoever writes one and whoever verifies it.

A note is somebody's word; no rule makes it true. But it may not contradict itself or the ledger: an audit is about a
scope's own relation, its verdict follows from its numbers, and these are numbers that so many runs can show; one that
saw nothing bounds nothing; and one that was intended is of what was intended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, runtime_checkable

from dpledger.accounting.arithmetic import scalars
from dpledger.errors import ParameterError, ScopeError, VerificationError
from dpledger.ledger.entries.bodies import Audited, Declared, Intended, Note
from dpledger.ledger.rules.scope_state import State, next_steps, those
from dpledger.ledger.stores.protocol import ChargeRow
from dpledger.schema import words

__all__ = [
    "Noted",
    "check_audited",
    "check_intended",
    "finishing",
    "intention_of",
    "note_of",
    "placed",
    "require_about",
    "require_open",
]

WEALTH = (
    "wealth"  # the method of audits that bet: what they refute is false, so the truth is above a bound that they reach
)
REPLAY = "replay"  # the method that leaves nothing to chance: a violation by it needs no e-value
BY_LIMITS = "threshold"  # the method that has exact limits of two counts, and no e-value
COUNTED = (BY_LIMITS, WEALTH)  # methods whose bounds are those of runs, which can show so much and no more
OF_POINTS = ("pure_dp", "approx_dp", "privacy_curve")  # claims that are tested as they stand, at one delta each, and
# not by a curve of what a mechanism is made of, which may allow less
MOST_DOUBLED = 4096  # runs: a larger e-value is never told
SLACK = 1 + 1e-9  # relative: what a double may be off in the few operations of `_most_shown`, and an e-value's digits


@runtime_checkable
class Noted(Protocol):
    """What says itself as a note: an audit before it is run, its result, a report."""

    def body(self) -> Note: ...


def note_of(what: Note | Noted) -> Note:
    """The note itself, or that of a result. ParameterError for what is neither, and for an audit whose verdict is not
    that of its numbers."""
    note: object = what
    if not isinstance(what, Note) and isinstance(what, Noted) and callable(what.body) and not isinstance(what, type):
        note = what.body()
    if not isinstance(note, Note):
        expected = "what an audit or `report` returned, or a note: Declared, Intended, Audited, Reported or Heartbeat"
        if isinstance(getattr(what, "results", None), tuple):
            expected = "each of its .results by itself"
        raise ParameterError("note", type(what).__name__, expected)
    if isinstance(note, Audited):
        _check_numbers(note)
    return note


def intention_of(audit: object) -> Intended:
    """What is intended, said before it is run. ParameterError for what is no audit that can be run."""
    note = note_of(audit) if isinstance(audit, (Note, Noted)) else audit
    if not isinstance(note, Intended):
        raise ParameterError("audit", type(audit).__name__, "an audit before it is run (dpl.Audit), or Intended")
    return note


def finishing(note: Note, intended: int) -> Audited:
    """An audit that is the one said to be made in the entry `intended`. ParameterError for any other note."""
    if not isinstance(note, Audited):
        raise ParameterError("intended", note.kind, "nothing with a note that is not an audit")
    return replace(note, intended=intended)


def placed(note: Note, about: Sequence[str], state: State, charges: Sequence[ChargeRow] = ()) -> Note:
    """`note` with its place in each scope that it is about. `charges`: the one that an audit is about, if there is one.
    ScopeError if a scope is not open; ParameterError for an audit that is not about them (under another relation, about
    a charge that is not in them), or not the one that it says was intended."""
    if not isinstance(note, (Declared, Intended, Audited)):
        return note
    names = tuple(sorted({*words(about, field="about"), *(level.scope for level in note.path)}))
    require_open(state, names)
    if isinstance(note, (Intended, Audited)):
        try:
            _check_relation(state, note, names)
            if isinstance(note, Audited):
                _check_finishes(state, note, names)
                if note.charge is not None:
                    scopes = {row.charge: row.scope for row in charges}
                    require_about(state, note.charge, scopes.get(note.charge), names)
        except VerificationError as error:
            raise ParameterError("note", note.kind, error.reason) from None
    return replace(note, path=next_steps(state, names))


def require_open(state: State, names: Sequence[str]) -> None:
    """ScopeError unless something may be noted about these scopes."""
    for name in names:
        if name not in state.scopes:
            raise ScopeError(f"no scope {name!r} in this ledger, {those(state.scopes)}")
        if state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is not open in this ledger")


def check_intended(state: State, body: Intended) -> None:
    """Raises VerificationError unless an audit that is intended would be about its scopes."""
    _check_relation(state, body, _scopes(body))


def check_audited(state: State, body: Audited) -> None:
    """Raises VerificationError or ParameterError unless an audit is about its scopes, is the one that it says was
    intended, and has the verdict of its numbers."""
    _check_relation(state, body, _scopes(body))
    _check_finishes(state, body, _scopes(body))
    _check_numbers(body)


def require_about(state: State, charge: str, scope: str | None, names: tuple[str, ...]) -> None:
    """Raises VerificationError unless `charge` was reserved (in `scope`), and is charged to every scope in `names`."""
    if scope is None:
        raise VerificationError(f"about a charge of this ledger: there is no charge {charge}")
    if not set(names) <= set(state.scope(scope).path):
        raise VerificationError(f"about scopes that the charge is charged to: {', '.join(state.scope(scope).path)}")


def _scopes(body: Intended | Audited) -> tuple[str, ...]:
    return tuple(level.scope for level in body.path)


def _check_finishes(state: State, body: Audited, names: tuple[str, ...]) -> None:
    """An audit that names an intention is what was intended, in all that was said beforehand, and the first to name
    it."""
    if body.intended is None:
        return
    said = state.intended.get(str(body.intended))
    if said is None:
        raise VerificationError(f"entry {body.intended} is no audit that is intended and not finished yet")
    runs = max(body.trials_left, body.trials_right)
    pairs: tuple[tuple[str, object, object], ...] = (
        ("mechanism", said.mechanism.kind, body.mechanism.kind),
        ("parameters", said.mechanism.parameters, body.mechanism.parameters),
        ("claim", said.claim or body.claim, body.claim),
        ("relation", said.relation, body.relation),
        ("confidence", said.confidence, body.confidence),
        ("seed", said.seed, body.seed),
        ("schedule", said.schedule, body.schedule),
        ("code", said.code or body.code, body.code),
        ("pair", said.pair or body.pair, body.pair),
        ("scopes", _scopes(said), names),
        ("trials", said.trials, max(said.trials, runs)),
    )
    for name, before, now in pairs:
        if before != now:
            raise VerificationError(f"not the audit that entry {body.intended} intended: {name} differs")


def _check_relation(state: State, body: Intended | Audited, names: tuple[str, ...]) -> None:
    for name in names:
        own = state.scope(name).relation
        if body.relation is not own:
            raise VerificationError(f"an audit under the relation of scope {name}: {own.value}")


def _check_numbers(body: Audited) -> None:
    """The verdict is `violation` exactly if the bound passes what the claim allows at its delta, another point of the
    claim fell, or the claim fell as a whole; no bound and no e-value is above what so many runs can show; a violation
    by bets has the e-value for it."""
    if body.blind is not None:
        _check_blind(body)
    fallen = body.refuted
    points = [(body.delta, body.epsilon_lower)]
    if fallen is not None:
        if not _passes(body, fallen.epsilon_lower, fallen.epsilon):
            expected = f"a bound above the epsilon that fell, {fallen.epsilon}"
            raise ParameterError("refuted", str(fallen.epsilon_lower), expected)
        if body.claim.kind in OF_POINTS and fallen.epsilon < body.claim.epsilon_at(fallen.delta):
            raise ParameterError(
                "refuted", str(fallen.epsilon), f"what the claim allows at delta {fallen.delta}, or more"
            )
        points.append((fallen.delta, fallen.epsilon_lower))
    for delta, bound in points:
        if delta >= 1:
            raise ParameterError("delta", str(delta), "a number in [0, 1)")
        if body.method in COUNTED and bound > _most_shown(body, delta):
            most = f"what {body.trials_left} and {body.trials_right} runs can show at confidence {body.confidence}"
            raise ParameterError("epsilon_lower", str(bound), f"at most {most}")
    contradicts = _passes(body, body.epsilon_lower, body.claim.epsilon_at(body.delta))
    together = body.together is not None
    needs_value = body.e_value is None and body.method != REPLAY
    if together and (contradicts or fallen is not None or needs_value):
        raise ParameterError("together", True, "an e-value, and no single point that fell")
    if (body.verdict == "violation") != (contradicts or fallen is not None or together):
        says = "above" if contradicts else "not above"
        expected = f"the verdict of its numbers: the bound is {says} what the claim allows at delta {body.delta}"
        raise ParameterError("verdict", body.verdict, expected)
    if body.power is not None and not _can_refute(body):
        most = f"none: {_runs(body)} runs refute nothing at confidence {body.confidence}"
        raise ParameterError("power", str(body.power.epsilon), most)
    if body.e_value is not None:
        _check_e_value(body.e_value, body)
    elif body.verdict == "violation" and body.method not in (REPLAY, BY_LIMITS) and _runs(body):
        raise ParameterError("e_value", None, "that of the runs, as the verdict is violation")


def _check_blind(body: Audited) -> None:
    """What saw nothing bounds nothing: every number but those of the plan is absent, or 0."""
    if body.verdict != "not_refuted":
        raise ParameterError("verdict", body.verdict, "not_refuted of an audit that was blind")
    if body.epsilon_lower:
        raise ParameterError("epsilon_lower", str(body.epsilon_lower), "0 of an audit that was blind")
    for name in ("refuted", "together", "e_value", "power"):
        if getattr(body, name) is not None:
            raise ParameterError(name, "a value", "none of an audit that was blind")


def _passes(body: Audited, bound: Decimal, allowed: Decimal) -> bool:
    """Whether a bound refutes what is allowed: of an audit that bets the truth is above its bound."""
    return bound > allowed or (body.method == WEALTH and bound == allowed)


def _runs(body: Audited) -> int:
    return body.trials_left + body.trials_right


def _can_refute(body: Audited) -> bool:
    """Whether the largest e-value of so many runs refutes anything."""
    return _largest(_runs(body)) * (1 - Fraction(body.confidence)) * Fraction(SLACK) >= 1


def _largest(runs: int) -> int:
    """The largest e-value that so many runs can have.

    Claim: a run multiplies the wealth of whoever bets before it by 2 at most. Of a pair: two laws that are one and the
    same keep every claim; let it be x or y, with probability 1/2 each. A factor f of mean at most 1 then has
    f(x, y) <= 4. So for each unit of several runs. Source: docs/proofs/audit.md 5 (what a factor is)."""
    return 1 << min(runs, MOST_DOUBLED)


def _check_e_value(e_value: Decimal, body: Audited) -> None:
    """A violation has an e-value of at least 1 / (1 - confidence), and none is more than so many runs can have. (The
    converse does not hold: an audit that bets refutes every smaller epsilon first.)

    Source: Ville 1939: of a true claim it is ever so large with probability at most 1 - confidence."""
    if Fraction(e_value) > _largest(_runs(body)):
        raise ParameterError("e_value", str(e_value), f"at most 2^{_runs(body)}, as there are so many runs")
    by_bets = body.verdict == "violation" and body.method != REPLAY
    if by_bets and Fraction(e_value) * (1 - Fraction(body.confidence)) * Fraction(SLACK) < 1:
        raise ParameterError(
            "e_value", str(e_value), f"at least 1 / (1 - {body.confidence}), as the verdict is violation"
        )


def _most_shown(body: Audited, delta: Decimal) -> Decimal:
    """What the bound is if an event happened in every run on one side and in none on the other.

    Claim: no test at confidence c refutes an epsilon that is larger, from n runs a side, n the larger number of runs:
    a pair that keeps it may have an event of probability 1 on one side and (1 - delta) e^-epsilon on the other, which
    n runs tell from one that never happens there with probability at most 1 - c if (1 - that)^n is at least 1 - c.
    Source: Clopper-Pearson 1934 (the limit for no hit); docs/proofs/audit.md 1."""
    runs = max(body.trials_left, body.trials_right)
    if not runs:
        return Decimal(0)
    doubt = scalars.log(float(1 - Fraction(body.confidence)))
    rarest = -scalars.expm1(doubt / runs)
    return Decimal.from_float(max(0.0, (scalars.log1p(-float(delta)) - scalars.log(rarest)) * SLACK))
