"""Whom the record protects, what is promised to them, how much of it is used, and what that means for one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger import decimals
from dpledger.accounting import filters
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    EitherFilter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from dpledger.accounting.guarantees import BoundedRange, PrivacyCurve
from dpledger.ledger.accounts.overlap import NotAdded
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.reports import explain, words
from dpledger.reports.first_page.plain import budget_named, unit_of
from dpledger.reports.first_page.said import budgets, names, said
from dpledger.reports.grouping import in_entries
from dpledger.reports.model import Answer, Link, OddsChart, Picture, visible
from dpledger.reports.promises import Promise, is_read
from dpledger.reports.sections.declared import COPIED, Declarations, trust_models, without_trust_model
from dpledger.reports.sections.promise import bounds_of, is_large, population, read_delta, warnings_of
from dpledger.reports.sections.runs import is_stated
from dpledger.reports.sections.spending import in_native, native_sum, upper

__all__ = ["meaning", "promised", "protected", "share", "used"]

MOST = 2  # datasets, scopes and names in one answer
LONG = 80  # characters of a text that somebody typed
HALF = Decimal("0.5")


# ---- who ------------------------------------------------------------------------------------------------------------


def protected(
    promise: Promise | None,
    accounts: Sequence[ScopeAccount],
    scopes: Mapping[str, ScopeState],
    declarations: Declarations,
) -> Answer:
    """Which unit, in which data: what was typed when a scope was opened, and what was declared of the people."""
    id_, question = "first_page/who", "Who is protected?"
    if promise is None:
        return Answer(
            id=id_, question=question, text="unknown", lines=("no budget was opened",), status="unknown", links=SCOPES
        )
    texts = tuple(dict.fromkeys(_data(scopes[account.scope]) for account in accounts))
    people = declarations.of("people")[:1]
    told = said("people", declarations, LONG)
    unit = promise.unit
    return Answer(
        id=id_,
        question=question,
        text=f"One {unit.name}",
        lines=(
            *texts[:MOST],
            *_more(len(texts) - MOST, "further dataset"),
            f"one {unit.name} has at most {words.count(unit.max_contributions, 'row')}: declared, not measured",
            *(f"{told} (declared by {one.speaker(40)})" for one in people),
            "Whoever opened the budget wrote this.",
        ),
        status="declared",
        links=SCOPES,
    )


def _data(scope: ScopeState) -> str:
    return "in data that nobody named" if scope.dataset is None else f"in: {visible(scope.dataset, LONG)}"


# ---- what -----------------------------------------------------------------------------------------------------------


def promised(
    promise: Promise | None,
    others: Sequence[Promise],
    apart: Sequence[NotAdded],
    alike: Sequence[NotAdded],
    accounts: Sequence[ScopeAccount],
    declarations: Declarations,
) -> Answer:
    """The promise in its native currency, what it is read as, what is not in it, and whom one must trust for it."""
    id_, question = "first_page/promise", "What is promised?"
    if promise is None:
        return Answer(id=id_, question=question, text="unknown", lines=("no budget was opened",), status="unknown")
    unsure = len({name for one in apart for name in one.scopes})
    everything = f"for everything that is ever released under {_named(promise)} about one {promise.unit.name}"
    lines = [*_reading(promise), everything + _own_delta(promise)]
    if unsure:
        lines.append(f"Not added up: {words.count(unsure, 'budget')} that may, or may not, share people with others.")
    elif len(promise.scopes) > 1:
        lines.append("Budgets that name the same dataset are added up.")
    if others:
        lines.append(f"This page is not about {_of_others(others)} a page here or in a report of its own.")
    broken = [account.scope for account in accounts if account.contradiction is not None]
    if broken:
        lines.append(f"A claim in {budget_named(broken[0])} is false, so none of its numbers can be relied on.")
    outside = sorted({one.index for account in accounts for one in account.admissions if one.outside_guarantee})
    if outside:
        left = f"{words.count(len(outside), 'run')} left the guarantee ({in_entries(outside)})"
        lines.append(f"Warning: {left}. The promise does not cover what came of it.")
    unknown = promise.epsilon.is_infinite()
    warned = (
        *(() if unknown else (*warnings_of(promise.epsilon), *_large_delta(promise, accounts, declarations))),
        *(
            f"{budgets(one.scopes)} name datasets that are spelt nearly alike. Each is added up by itself."
            for one in alike
        ),
    )
    lines += [f"Warning: {line}" for line in warned]
    lines.append(_trust(declarations))
    return Answer(
        id=id_,
        question=question,
        text=_native(promise),
        lines=tuple(lines),
        status="unknown" if unknown else "measured",
        tone="warning" if broken or warned or outside else "plain",
        links=(Link("what each budget promises", "promise"),),
    )


def _native(promise: Promise) -> str:
    """The promise in the currency in which its budgets count."""
    if promise.guarantee is None or promise.epsilon.is_infinite():
        return "no bound holds"
    return words.guarantee(promise.guarantee).replace("=", "≤", 1)


def _reading(promise: Promise) -> Iterator[str]:
    """What the promise is read as where it is no epsilon itself, and whose delta stands there."""
    if promise.guarantee is None or promise.epsilon.is_infinite():
        return
    at = words.at_most(promise.delta)
    if is_read(promise.guarantee):
        yield f"read as ε ≤ {words.at_most(promise.epsilon)} at δ = {at}"
        yield f"This δ is {read_delta(promise.guarantee)}."
    elif promise.read:
        yield f"The report chose part of δ = {at}, because not all of these budgets are stated in ε."
    elif isinstance(promise.guarantee, BoundedRange | PrivacyCurve):
        yield f"read as ε ≤ {words.at_most(promise.epsilon)} at δ = {at}"


def _own_delta(promise: Promise) -> str:
    """That a delta is one of the budgets themselves, where it is."""
    if promise.read or not promise.delta or promise.epsilon.is_infinite():
        return ""
    return "; the δ is the budget's own" if len(promise.scopes) == 1 else "; the δ is the budgets' own"


def _large_delta(promise: Promise, accounts: Sequence[ScopeAccount], declarations: Declarations) -> tuple[str, ...]:
    """What is to be said of a delta that is not below 1/n, n the largest number of people that is declared."""
    sizes = (population(declarations.for_scope("population_size", account.scope)) for account in accounts)
    size = max(sizes, default=0)
    if not promise.delta or not is_large(promise.delta, size):
        return ()
    told = f"not below 1/n, with n = {size:,} as declared"
    if promise.read and promise.guarantee is not None and not is_large(promise.guarantee.fails, size):
        return (f"ε is read at a δ that is {told}. At a smaller δ it is larger.",)
    return (f"δ is {told}: somebody's whole record may be published.",)


def _of_others(others: Sequence[Promise]) -> str:
    if len(others) > 1:
        return f"any of the {len(others):,} other promises of the ledger, each of which has"
    return f"the other promise of the ledger, {_named(others[0])}, which has"


def _named(promise: Promise) -> str:
    more = len(promise.scopes) - MOST
    return budget_named(*promise.scopes[:MOST]) + (f" and {more:,} more" if more > 0 else "")


def _trust(declarations: Declarations) -> str:
    """The trust model in a word, or that of each budget."""
    found, rest = trust_models(declarations), without_trust_model(declarations)
    if not found and "trust_model" in declarations.copied:
        return f"Trust model: unknown; what stands there is {COPIED}."
    if not found:
        return "Trust model: unknown. Nobody has said whether it is central, local or shuffled."
    by = f"(declared by {names([one for _, one in found[:MOST]])})"
    if len({word for word, _ in found}) == 1 and not rest:
        return f"Trust model: {found[0][0]} {by}."
    of_each = [f"{word} for {budgets(declarations.counts_for(one))}" for word, one in found[:MOST]]
    of_each += _more(len(found) - MOST, "further one")
    return f"Trust model: {', '.join(of_each)} {by}" + (f"; unknown for {budgets(rest)}." if rest else ".")


# ---- how much -------------------------------------------------------------------------------------------------------


def used(accounts: Sequence[ScopeAccount], scopes: Mapping[str, ScopeState]) -> Answer:
    """One number: the share of its budget that the fullest scope has used, by the reading of the record."""
    id_, question = "first_page/used", "How much of it is used?"
    if not accounts:
        return Answer(id=id_, question=question, text="nothing", lines=("no budget was opened",))
    fullest = max(accounts, key=lambda account: (upper(account).is_infinite(), share(account)))
    part, most = share(fullest), upper(fullest)
    links = (Link("other readings, each explained", "spent"),)
    if most.is_infinite():
        why = "statements in it contradict each other" if fullest.contradiction else "no bound holds"
        line = f"in {budget_named(fullest.scope)}: {why}"
        return Answer(
            id=id_, question=question, text="unknown", lines=(line,), status="unknown", tone="warning", links=links
        )
    lost = [account for account in accounts if account.rollback is not None]
    others = len(accounts) - 1
    native = in_native(fullest)
    lines = [
        *(_lost(account) for account in lost[:MOST]),
        *_more(len(lost) - MOST, "further budget that ended so", several="further budgets that ended so"),
        f"{_counted(fullest)}, in {budget_named(fullest.scope)}"
        + (f", the fullest of {others + 1:,}" if others else ""),
        *_left(fullest, scopes),
        *_delta_used(fullest, part),
        *(() if native is None else (_read(fullest), f"Why: {native[1]}.")),
        "This is computed from the record, afterwards. The promise is still the whole budget.",
        *_open(accounts),
        *_attested(accounts),
    ]
    return Answer(
        id=id_,
        question=question,
        text=f"unknown; {words.percent(part)} by the entries that are left" if lost else words.percent(part),
        lines=tuple(lines),
        share=None if lost else part,
        status="unknown" if lost else "measured",
        tone="warning" if lost else "plain",
        links=links,
    )


def _lost(account: ScopeAccount) -> str:
    """Why no number says what a scope has used."""
    return (
        f"The ledger was continued from an older copy (entry {account.rollback:,}), which ended "
        f"{budget_named(account.scope)}. Nobody knows what the missing entries charged."
    )


def _counted(account: ScopeAccount) -> str:
    """What is used of how much, in the currency in which the budget counts."""
    native = in_native(account)
    return _reading_of(account) if native is None else native[0]


def _reading_of(account: ScopeAccount) -> str:
    budget, delta = bounds_of(account)
    return f"ε ≤ {words.at_most(upper(account))} of {words.at_most(budget)}, at δ = {words.at_most(delta)}"


def _read(account: ScopeAccount) -> str:
    return f"Read as {_reading_of(account)}, the report's choice. That is no share."


def _left(account: ScopeAccount, scopes: Mapping[str, ScopeState]) -> tuple[str, ...]:
    """What is left in the accounts that decide what is admitted, rounded down; of many orders, in the fullest."""
    if account.rollback is not None:
        return ()
    if scopes[account.scope].closed:
        return ("Left: nothing, because the budget is closed.",)
    match account.filter:
        case RDPFilter() as rule:
            deciding = [filters.fullest(rule, account.sums)]
        case EitherFilter():
            deciding = ["mixed", "delta"]
        case PureFilter() | BasicFilter() | ZCDPFilter() | GDPFilter() | AllowanceFilter():
            deciding = list(account.left_by_account)
        case _:
            assert_never(account.filter)
    left = {name: decimals.parse(account.left_by_account[name], field=name) for name in deciding}
    if not left.get("delta") and not decimals.parse(account.spent_by_account.get("delta", "0"), field="delta"):
        left.pop("delta", None)  # the budget has none
    return (f"Left: {', '.join(f'{words.at_least(of)} of {unit_of(name)}' for name, of in left.items())}.",)


def _delta_used(account: ScopeAccount, part: Decimal) -> tuple[str, ...]:
    """Where delta is what runs out."""
    if _of_amounts(account) >= part:
        return ()
    native = native_sum(account)
    return (
        f"Charges have used {words.percent(part)} of their δ, a larger share than of {native[0] if native else 'ε'}.",
    )


def share(account: ScopeAccount) -> Decimal:
    """Which part of its budget a scope has used: of what its budget is counted in (for one that is no sum, of epsilon
    what its reading is), or of delta what is charged, whichever is more; rounded up, at most 1."""
    return max(_of_amounts(account), _of_delta(account))


def _of_amounts(account: ScopeAccount) -> Decimal:
    native = native_sum(account)
    if native is None:
        return _part(upper(account), bounds_of(account)[0])
    _, spent, limit = native
    return _part(spent, limit)


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
    return (f"{words.count(len(charges), 'run')} not settled yet: counted at the cap.",) if charges else ()


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
        lines.append(f"{stated:,} {of}: somebody stated what was promised or lost; it was not recomputed.")
    return tuple(lines)


# ---- what it means --------------------------------------------------------------------------------------------------


def meaning(promise: Promise | None) -> Answer:
    """The odds under the promise, in words and one picture."""
    id_, question = "first_page/meaning", "What does that mean for one person?"
    if promise is None or promise.epsilon.is_infinite():
        line = "no limit is known on what can be learnt about one person"
        return Answer(id=id_, question=question, text="unknown", lines=(line,), status="unknown")
    odds, unit = promise.odds, promise.unit.name
    guess, suspicion = explain.sentences(odds, promise.relation, unit, f"everything in {_named(promise)}")[:2]
    return Answer(
        id=id_,
        question=f"What does that mean for one {unit}?",
        text=f"At most {words.percent(odds.guess)} of guesses are right",
        lines=(guess, suspicion),
        picture=Picture(
            id="first_page/odds",
            title="Right guesses out of a hundred",
            description=(
                f"Guesses {explain.question(promise.relation, unit)}: right by luck, and right at most after seeing "
                "everything."
            ),
            chart=OddsChart(before=HALF, after=odds.guess),
        ),
        links=(Link("the odds in full", "meaning"),),
    )


SCOPES = (Link("every budget", "scopes"),)


def _more(number: int, what: str, *, several: str | None = None) -> tuple[str, ...]:
    return (f"and {words.count(number, what, several)}",) if number > 0 else ()
