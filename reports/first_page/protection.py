"""Whom the record protects, what is promised to them, how much of it is used, and what that means for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dpledger import decimals
from dpledger.ledger.accounts.people import SamePeople
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.rules.standing import ScopeState
from dpledger.reports import explain, words
from dpledger.reports.first_page.plain import budget_named
from dpledger.reports.model import Answer, Link, OddsChart, Picture, visible
from dpledger.reports.promises import Promise
from dpledger.reports.sections.declared import COPIED, Declarations, trust_model
from dpledger.reports.sections.promise import bounds_of, warnings_of
from dpledger.reports.sections.runs import is_stated
from dpledger.reports.sections.spending import upper

__all__ = ["meaning", "promised", "protected", "share", "used"]

MOST = 2  # units, datasets and promises in one answer, beside the first promise
LONG = 80  # characters of a text that somebody typed
HALF = Decimal("0.5")


# ---- who ------------------------------------------------------------------------------------------------------------


def protected(scopes: Sequence[ScopeState], declarations: Declarations) -> Answer:
    """Which unit, in which data: what was typed when a scope was opened, and what was declared of the people."""
    id_, question = "first_page/who", "Who is protected?"
    if not scopes:
        return Answer(
            id=id_, question=question, text="unknown", lines=("no budget was opened",), status="unknown", links=SCOPES
        )
    units = tuple(dict.fromkeys(f"one {scope.unit.name}" for scope in scopes))
    texts = tuple(dict.fromkeys(_data(scope) for scope in scopes))
    people = declarations.of("people")[:1]
    return Answer(
        id=id_,
        question=question,
        text=_some(units, "unit"),
        lines=(
            *texts[:MOST],
            *_more(len(texts) - MOST, "further dataset"),
            *(f"{one.words(LONG)} (declared by {one.speaker(40)})" for one in people),
            "The words are those of whoever opened the budget.",
        ),
        status="declared",
        links=SCOPES,
    )


def _data(scope: ScopeState) -> str:
    named = "in data that nobody named" if scope.dataset is None else f"in: {visible(scope.dataset, LONG)}"
    bound = words.count(scope.unit.max_contributions, "row")
    return f"{named}; at most {bound} of one {scope.unit.name}"


# ---- what -----------------------------------------------------------------------------------------------------------


def promised(
    found: Sequence[Promise], people: SamePeople, accounts: Sequence[ScopeAccount], declarations: Declarations
) -> Answer:
    """The weakest promise, the others below it, and whom one must trust for it."""
    id_, question = "first_page/promise", "What is promised?"
    if not found:
        return Answer(id=id_, question=question, text="unknown", lines=("no budget was opened",), status="unknown")
    worst, rest = found[0], found[1:]
    apart = len({name for one in people.apart for name in one.scopes})
    lines = [f"for everything that is ever released under {_named(worst)} about one {worst.unit}"]
    lines += [f"{_epsilon(one)} for one {one.unit}: {_named(one)}" for one in rest[:MOST]]
    lines += _more(len(rest) - MOST, "further promise")
    if apart:
        lines.append(f"Whether {words.count(apart, 'budget')} may share people with others is unknown: not added up.")
    elif any(len(one.scopes) > 1 for one in found):
        lines.append("Budgets that name the same dataset are added up.")
    broken = [account.scope for account in accounts if account.contradiction is not None]
    if broken:
        lines.append(f"Some claim in {budget_named(broken[0])} is false: no number of it can be relied on.")
    warned = () if worst.epsilon.is_infinite() else warnings_of(worst.epsilon)
    lines += [f"Warning: {line}" for line in warned]
    lines.append(_trust(declarations))
    unknown = worst.epsilon.is_infinite()
    return Answer(
        id=id_,
        question=question,
        text=_epsilon(worst),
        lines=tuple(lines),
        status="unknown" if unknown else "measured",
        tone="warning" if broken or warned else "plain",
        links=(Link("what each budget promises", f"scope:{worst.scopes[0]}/promise"),),
    )


def _epsilon(promise: Promise) -> str:
    if promise.epsilon.is_infinite():
        return "no bound holds"
    return f"ε ≤ {words.at_most(promise.epsilon)}, δ = {words.at_most(promise.delta)}"


def _named(promise: Promise) -> str:
    more = len(promise.scopes) - MOST
    return budget_named(*promise.scopes[:MOST]) + (f" and {more:,} more" if more > 0 else "")


def _trust(declarations: Declarations) -> str:
    word, by = trust_model(declarations)
    if not word and "trust_model" in declarations.copied:
        return f"Trust model: unknown; what stands there is {COPIED}."
    if not word:
        return "Trust model: unknown, nobody has said central, local or shuffled."
    return f"Trust model: {word} (declared by {visible(by, 40)})."


# ---- how much -------------------------------------------------------------------------------------------------------


def used(accounts: Sequence[ScopeAccount]) -> Answer:
    """One number: the share of its budget that the fullest scope has used, by the reading of the record."""
    id_, question = "first_page/used", "How much of it is used?"
    if not accounts:
        return Answer(id=id_, question=question, text="nothing", lines=("no budget was opened",))
    fullest = max(accounts, key=lambda account: (upper(account).is_infinite(), share(account)))
    part, most = share(fullest), upper(fullest)
    budget, delta = bounds_of(fullest)
    links = (Link("other readings, each explained", f"scope:{fullest.scope}/spent"),)
    if most.is_infinite():
        why = "statements in it contradict each other" if fullest.contradiction else "no bound holds"
        line = f"in {budget_named(fullest.scope)}: {why}"
        return Answer(
            id=id_, question=question, text="unknown", lines=(line,), status="unknown", tone="warning", links=links
        )
    others = len(accounts) - 1
    lines = [
        f"ε ≤ {words.at_most(most)} of {words.at_most(budget)}, at δ = {words.at_most(delta)}, in "
        f"{budget_named(fullest.scope)}" + (f", the fullest of {others + 1:,}" if others else ""),
        *_delta_used(fullest, part),
        "A reading of the record, after the fact. The promise stays the whole budget.",
        *_open(accounts),
        *_attested(accounts),
    ]
    return Answer(id=id_, question=question, text=words.percent(part), lines=tuple(lines), share=part, links=links)


def _delta_used(account: ScopeAccount, part: Decimal) -> tuple[str, ...]:
    """Where delta is what runs out."""
    if _part(upper(account), bounds_of(account)[0]) >= part:
        return ()
    return (f"Of the δ that charges may have, {words.percent(part)} is used: more than of ε.",)


def share(account: ScopeAccount) -> Decimal:
    """Which part of its budget a scope has used: of epsilon what its reading is, or of delta what is charged, whichever
    is more; rounded up, at most 1."""
    spent, (budget, _) = upper(account), bounds_of(account)
    return max(_part(spent, budget), _of_delta(account))


def _of_delta(account: ScopeAccount) -> Decimal:
    """Which part is charged of the delta that charges may have, in whatever account they are; 0 where none may."""
    if "delta" not in account.left_by_account:
        return decimals.ZERO
    charged, left = (
        decimals.parse(of["delta"], field="delta") for of in (account.spent_by_account, account.left_by_account)
    )
    return _part(charged, decimals.add(charged, left)) if charged else decimals.ZERO


def _part(of: Decimal, whole: Decimal) -> Decimal:
    return Decimal(1) if of >= whole else decimals.round_up(Fraction(of) / Fraction(whole), digits=3)


def _open(accounts: Sequence[ScopeAccount]) -> tuple[str, ...]:
    charges = {
        one.charge for account in accounts for one in account.admissions if one.status in ("reserved", "started")
    }
    return (f"{words.count(len(charges), 'run')} not settled: counted at the cap.",) if charges else ()


def _attested(accounts: Sequence[ScopeAccount]) -> tuple[str, ...]:
    """How many of the runs that count rest on somebody's word: because they happened elsewhere, or by their parts."""
    ran = {one.charge: one for account in accounts for one in account.admissions if one.status != "aborted"}
    elsewhere = [one.attested.by for one in ran.values() if one.attested is not None]
    stated = sum(one.attested is None and is_stated(one) for one in ran.values())
    of = f"of {words.count(len(ran), 'run')} attested"
    by = ", ".join(visible(name, 60) for name in sorted(set(elsewhere))[:MOST])
    more = len(set(elsewhere)) - MOST
    lines = []
    if elsewhere:
        others = f" and {more:,} more" if more > 0 else ""
        lines.append(f"{len(elsewhere):,} {of}: ran elsewhere, on the word of {by}{others}.")
    if stated:
        lines.append(f"{stated:,} {of}: what was promised or lost is stated, not recomputed.")
    return tuple(lines)


# ---- what it means --------------------------------------------------------------------------------------------------


def meaning(found: Sequence[Promise]) -> Answer:
    """The odds under the weakest promise, in words and one picture."""
    id_, question = "first_page/meaning", "What does that mean for one person?"
    if not found or found[0].epsilon.is_infinite():
        line = "no limit is known on what can be learnt about one person"
        return Answer(id=id_, question=question, text="unknown", lines=(line,), status="unknown")
    worst = found[0]
    odds = explain.worst_case(worst.epsilon, worst.delta)
    guess, suspicion = explain.sentences(odds, worst.relation, worst.unit, f"everything in {_named(worst)}")[:2]
    return Answer(
        id=id_,
        question=f"What does that mean for one {worst.unit}?",
        text=f"At most {words.percent(odds.guess)} of guesses are right",
        lines=(guess, suspicion),
        picture=Picture(
            id="first_page/odds",
            title="Right guesses out of a hundred",
            description="Whether one is in the data: by luck, and at most after seeing everything.",
            chart=OddsChart(before=HALF, after=odds.guess),
        ),
        links=(Link("the odds in full", f"scope:{worst.scopes[0]}/meaning"),),
    )


SCOPES = (Link("every budget", "scopes"),)


def _some(found: Sequence[str], what: str) -> str:
    shown = ", ".join(found[:MOST])
    more = len(found) - MOST
    return shown[:1].upper() + shown[1:] + (f", and {words.count(more, f'more {what}')}" if more > 0 else "")


def _more(number: int, what: str) -> tuple[str, ...]:
    return (f"and {words.count(number, what)}",) if number > 0 else ()
