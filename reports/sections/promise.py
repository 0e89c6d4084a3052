"""What a scope promises for ever, its budget, and what that means for one unit, in odds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from dpledger import decimals
from dpledger.accounting.arithmetic.conversions import epsilon_of
from dpledger.accounting.composition import Composition, PoissonSampled, children
from dpledger.accounting.filters import AllowanceFilter
from dpledger.accounting.pricing.outcomes import planned
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.rules.state import ScopeState
from dpledger.reports import explain, words
from dpledger.reports.certified import Engine, curve_of_guarantee
from dpledger.reports.model import (
    Cell,
    Column,
    Curve,
    CurveChart,
    Item,
    Items,
    Origin,
    Picture,
    Point,
    Prose,
    Section,
    Table,
    unknown,
    visible,
)

__all__ = ["bounds_of", "meaning", "promised"]

WARN_AT = (Decimal(1), Decimal(10))  # our own defaults, printed as such
MOST_PLANS = 3  # planned runs whose own odds are told
MOST_ASSUMPTIONS = 5  # different texts; our own mechanisms have one each

KEEP = {
    "value": "plain values are kept in the store, and answer a repeated request; never exported",
    "digest": "not kept; a salted digest is recorded",
    "none": "not kept",
}


# ---- what is promised -----------------------------------------------------------------------------------------------


def promised(
    account: ScopeAccount, scope: ScopeState, population: Item | None, opening: Origin, engine: Engine, prefix: str
) -> Section:
    """The section on the guarantee. `population`: the declared public number of units, if there is one. `opening`:
    whose word it is what the scope was opened with."""
    items = (
        *_guarantee(account, prefix),
        _delta_meaning(account, prefix),
        _delta_against_population(account, population, prefix),
        *_protected(account, opening, prefix),
        *_worst_cases(account, engine, prefix),
        *_rules(account, scope, prefix),
    )
    return Section(
        id=f"{prefix}/promise",
        heading="What is promised",
        blocks=(Items(items=items), *_warnings(account, prefix)),
    )


def bounds_of(account: ScopeAccount) -> tuple[Decimal, Decimal]:
    """(epsilon, delta) of the budget; of one that is neither pure nor approximate, its epsilon where it is read."""
    return epsilon_of(account.guarantee, account.delta), account.delta


def _guarantee(account: ScopeAccount, prefix: str) -> tuple[Item, ...]:
    epsilon, delta = bounds_of(account)
    return (
        Item(
            id=f"{prefix}/guarantee",
            label="Guarantee, fixed when the scope opened",
            text=f"ε ≤ {words.at_most(epsilon)}, δ = {words.at_most(delta)}, for everything that this scope ever "
            "releases",
            value=epsilon,
        ),
        Item(id=f"{prefix}/delta", label="δ of the guarantee", text=words.at_most(delta), value=delta),
        Item(
            id=f"{prefix}/native",
            label="Native parameters of the budget",
            text=f"{words.guarantee(account.budget)} ({words.variant(account.budget)})",
        ),
    )


def _delta_meaning(account: ScopeAccount, prefix: str) -> Item:
    label = "What δ means here"
    if not bounds_of(account)[1]:
        return Item(id=f"{prefix}/delta_meaning", label=label, text="nothing: δ is 0, the bound has no exception")
    causes = {failure.cause for admission in account.admissions for failure in admission.privacy_failures}
    named = ", ".join(words.name(cause) for cause in sorted(causes)) or "none yet"
    return Item(
        id=f"{prefix}/delta_meaning",
        label=label,
        text="how much probability may escape the bound. A release may lose everything with that probability if "
        f"its own claim has a δ; causes named by what ran: {named}. The rest of δ pays for composing adaptively, "
        "where the loss grows beyond ε by degrees and is not total",
    )


def _delta_against_population(account: ScopeAccount, population: Item | None, prefix: str) -> Item:
    id_, label = f"{prefix}/delta_against_population", "δ compared with 1/n"
    delta = bounds_of(account)[1]
    stated = re.fullmatch(r"\s*([0-9][0-9 ,_]{0,20})\s*", population.text) if population is not None else None
    size = int(re.sub(r"[ ,_]", "", stated.group(1))) if stated else 0
    if population is None or size == 0:
        return unknown(id_, label, "the number of units is not declared as a number (item population_size)")
    share = decimals.multiply(delta, size)
    verdict = "below" if share < 1 else "not below: δ this large allows publishing somebody's whole record"
    return Item(
        id=id_,
        label=label,
        text=f"n = {size:,} as declared; δ·n = {words.at_most(share)}, δ is {verdict}" + (" 1/n" if share < 1 else ""),
        value=share,
        origin=population.origin,
    )


def _protected(account: ScopeAccount, opening: Origin, prefix: str) -> tuple[Item, ...]:
    unit = account.unit
    return (
        Item(id=f"{prefix}/unit", label="Unit of privacy", text=f"one {unit.name}", value=unit.name, origin=opening),
        Item(
            id=f"{prefix}/relation",
            label="Neighbouring relation",
            text=words.relation(account.relation),
            value=account.relation.value,
            origin=opening,
        ),
        Item(
            id=f"{prefix}/contribution_bound",
            label="Contribution bound",
            text=f"at most {words.count(unit.max_contributions, 'row')} of one {unit.name}",
            value=unit.max_contributions,
            origin=opening,
        ),
    )


def _worst_cases(account: ScopeAccount, engine: Engine, prefix: str) -> tuple[Item, ...]:
    epsilon, delta = bounds_of(account)
    at = f"δ = {words.at_most(delta)}"
    claims = {admission.claim for admission in account.admissions if admission.status != "aborted"}
    found = [engine.claimed_epsilon(claim, account.relation, delta) for claim in sorted(claims, key=repr)]
    known = [number for number in found if number is not None]
    release = f"{prefix}/worst_release"
    label = "Worst case of one release"
    if not claims:
        worst = Item(id=release, label=label, text="nothing was released")
    elif len(known) < len(found):
        worst = unknown(release, label, f"not every claim has a certified epsilon at {at}")
    else:
        worst = Item(
            id=release, label=label, text=f"ε ≤ {words.at_most(max(known))}, {at}, by its claim", value=max(known)
        )
    lifetime = f"ε ≤ {words.at_most(epsilon)}, {at}"
    return (
        worst,
        Item(
            id=f"{prefix}/worst_epoch",
            label="Worst case of one epoch",
            text=f"{lifetime}; the budget was never renewed, so there is one epoch",
        ),
        Item(id=f"{prefix}/worst_lifetime", label="Worst case of the scope's lifetime", text=lifetime, value=epsilon),
    )


def _rules(account: ScopeAccount, scope: ScopeState, prefix: str) -> tuple[Item, ...]:
    parents = ", ".join(scope.parents)
    return (
        Item(
            id=f"{prefix}/composition_rule",
            label="Composition rule in force",
            text=words.filter_rule(account.filter) + _carried(account),
            value=account.filter.kind,
        ),
        *_allowance(account, prefix),
        Item(
            id=f"{prefix}/parents",
            label="Charged to other scopes as well",
            text=parents or "no: this scope stands alone",
        ),
        Item(id=f"{prefix}/keep", label="Released values", text=KEEP[scope.keep], value=scope.keep),
        Item(
            id=f"{prefix}/open",
            label="State",
            text="closed: nothing more can be released"
            if scope.closed
            else "open: more may be released within the budget",
        ),
        _sampler(account, prefix),
        _assumed(account, prefix),
    )


def _carried(account: ScopeAccount) -> str:
    """Which account carries the scope: the one in which the last charge that stands was admitted."""
    standing = [one for one in account.admissions if one.status != "aborted"]
    return f"; carried now by the {words.account(standing[-1].account)}" if standing else ""


def _allowance(account: ScopeAccount, prefix: str) -> tuple[Item, ...]:
    if not isinstance(account.filter, AllowanceFilter):
        return ()
    used = account.sums["copies"][0]
    return (Item(id=f"{prefix}/allowance", label="Allowance", text=words.allowance(account.filter, used), value=used),)


def _assumed(account: ScopeAccount, prefix: str) -> Item:
    """What the claims take from the caller's own code, as the mechanisms say it of themselves (`assumes`)."""
    found: dict[str, set[str]] = {}
    for admission in account.admissions:
        assumed = admission.mechanism.parameters.get("assumes")
        if isinstance(assumed, str):
            found.setdefault(assumed, set()).add(words.tag(admission.mechanism.kind))
    id_, label = f"{prefix}/assumed", "Assumed of the caller's code"
    if not found:
        return Item(id=id_, label=label, text="nothing is named by a mechanism that ran")
    said = [f"{', '.join(sorted(kinds))}: {visible(text, 500)}" for text, kinds in sorted(found.items())]
    if len(said) > MOST_ASSUMPTIONS:
        said = [*said[:MOST_ASSUMPTIONS], "and more: see the entries"]
    return Item(
        id=id_, label=label, text=f"{'; '.join(said)}. Nothing in the record shows it", origin=Origin(status="declared")
    )


def _sampler(account: ScopeAccount, prefix: str) -> Item:
    rates = sorted({rate for admission in account.admissions for rate in _rates(admission.parts)})
    label = "Amplification by sampling"
    if not rates:
        return Item(id=f"{prefix}/amplification", label=label, text="none is claimed")
    listed = ", ".join(words.at_most(rate) for rate in rates[:6])
    return Item(
        id=f"{prefix}/amplification",
        label=label,
        text=f"claimed for secret Poisson batches, each unit drawn independently at rate {listed}. Whether the batches "
        "were really drawn so is not recorded: see the declared item on the sampler",
    )


def _rates(tree: Composition) -> Iterable[Decimal]:
    if isinstance(tree, PoissonSampled):
        yield tree.rate
    for part in children(tree):
        yield from _rates(part)


def _warnings(account: ScopeAccount, prefix: str) -> tuple[Prose, ...]:
    epsilon = bounds_of(account)[0]
    passed = [limit for limit in WARN_AT if epsilon > limit]
    if not passed:
        return ()
    said = (
        "a guarantee this weak says little about any one unit"
        if passed[-1] == WARN_AT[-1]
        else "look at the odds below before relying on it"
    )
    line = f"ε is above {passed[-1]}: {said}. (The limits 1 and 10 are defaults of this report, not a rule of law.)"
    return (Prose(id=f"{prefix}/epsilon_warning", lines=(line,), tone="warning"),)


# ---- what it means --------------------------------------------------------------------------------------------------


def meaning(account: ScopeAccount, engine: Engine, prefix: str) -> Section:
    """The section that explains epsilon."""
    epsilon, delta = bounds_of(account)
    worst = explain.worst_case(epsilon, delta)
    everything = f"everything that {account.scope} may ever release"
    plans = _plans(account, engine)
    return Section(
        id=f"{prefix}/meaning",
        heading="What that means for one " + account.unit.name,
        blocks=(
            Prose(
                id=f"{prefix}/odds_sentences",
                lines=explain.sentences(worst, account.relation, account.unit.name, everything),
            ),
            _odds_table(account, worst, plans, engine, prefix),
            _curves(account, plans, engine, prefix),
        ),
    )


def _plans(account: ScopeAccount, engine: Engine) -> tuple[tuple[str, Composition], ...]:
    """The costliest distinct planned runs that the engine has a profile for: name and tree."""
    found: dict[Composition, str] = {}
    for admission in account.admissions:
        if admission.status != "aborted":
            found.setdefault(planned(admission.parts), words.tag(admission.mechanism.kind))
    known = []
    for tree, name in found.items():
        bounds = engine.epsilon(tree, account.relation, account.delta)
        if bounds is not None:
            known.append((-bounds.upper, name, tree))
    known.sort(key=lambda plan: (plan[0], plan[1], repr(plan[2])))
    return tuple((name, tree) for _, name, tree in known[:MOST_PLANS])


def _odds_table(
    account: ScopeAccount,
    worst: explain.Odds,
    plans: tuple[tuple[str, Composition], ...],
    engine: Engine,
    prefix: str,
) -> Table:
    rows = [_odds_row("the whole budget", "worst case of its ε and δ", worst)]
    for name, tree in plans:
        found = engine.odds(tree, account.relation, account.delta)
        if found is not None:
            rows.append(_odds_row(f"{name}, alone", "by its own trade-off curve", found))
    return Table(
        id=f"{prefix}/odds",
        caption=f"The odds in {account.scope}, each an upper bound",
        columns=(
            Column("Of"),
            Column("Right guess after a coin flip", numeric=True),
            Column("A 1 % suspicion becomes", numeric=True),
            Column("Advantage", numeric=True),
            *(Column(f"Found at {words.percent(rate)} false alarms", numeric=True) for rate in explain.RATES),
        ),
        rows=tuple(rows),
        empty="",
    )


def _odds_row(name: str, note: str, found: explain.Odds) -> tuple[Cell, ...]:
    exception = f"except with probability {words.at_most(found.exception)}" if found.exception else ""
    suspicion = (
        Cell("no limit: δ is too large", status="unknown")
        if found.suspicion is None
        else Cell(words.percent(found.suspicion), found.suspicion, note=exception)
    )
    return (
        Cell(name, note=note),
        Cell(words.percent(found.guess), found.guess),
        suspicion,
        Cell(words.at_most(found.advantage, 3), found.advantage),
        *(Cell(words.percent(power), power) for power in found.power),
    )


def _curves(account: ScopeAccount, plans: tuple[tuple[str, Composition], ...], engine: Engine, prefix: str) -> Picture:
    epsilon, delta = bounds_of(account)
    curves = [Curve(label="the whole budget", role="promise", points=curve_of_guarantee(epsilon, delta))]
    for name, tree in plans:
        points = engine.curve(tree, account.relation)
        if points:
            curves.append(Curve(label=f"{name}, alone", role="plan", points=points))
    return Picture(
        id=f"{prefix}/tradeoff",
        title=f"What a test can learn about one {account.unit.name} in {account.scope}",
        description="For each rate of false alarms, the share of true cases that any test must miss. The diagonal is "
        "guessing; the closer a curve is to it, the less can be learnt. "
        + " ".join(_curve_words(curve) for curve in curves),
        chart=CurveChart(curves=tuple(curves)),
    )


def _curve_words(curve: Curve) -> str:
    at = max((point for point in curve.points if point.alpha <= Decimal("0.1")), key=_alpha)
    missed = words.percent_at_least(at.beta)
    return f"For {curve.label}, at {words.percent(at.alpha)} false alarms, at least {missed} are missed."


def _alpha(point: Point) -> Decimal:
    return point.alpha
