"""What scopes promise for ever: their budgets, each in its native currency first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from dpledger import decimals
from dpledger.accounting.composition import Composition, PoissonSampled, children
from dpledger.accounting.filters import AllowanceFilter
from dpledger.accounting.guarantees import Guarantee
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.rules.transitions import ScopeState
from dpledger.reports import readings, words
from dpledger.reports.certified import CertifiedProfiles
from dpledger.reports.model import (
    Item,
    Items,
    Origin,
    Prose,
    Section,
    unknown,
    visible,
)
from dpledger.reports.promises import is_read
from dpledger.reports.sections.declared import COPIED, Declaration, Declarations
from dpledger.reports.sections.openings import Openings
from dpledger.reports.sections.several import items_of, named
from dpledger.reports.sections.spending import contradicted

__all__ = ["bounds_of", "is_large", "population", "promised", "read_delta", "reading_of", "warnings_of"]

WARN_AT = (Decimal(1), Decimal(10))  # our own defaults, printed as such
MOST_ASSUMPTIONS = 5  # different texts; our own mechanisms have one each

KEEP = {
    "value": "plain values are kept in the store, and answer a repeated request; never exported",
    "digest": "not kept; a salted digest is recorded",
    "none": "not kept",
}


# ---- what is promised -----------------------------------------------------------------------------------------------


def promised(
    accounts: Sequence[ScopeAccount],
    states: Mapping[str, ScopeState],
    declarations: Declarations,
    openings: Openings,
    engine: CertifiedProfiles,
) -> Section:
    """The section on the guarantees: what is the same for several scopes is told once."""

    def items(account: ScopeAccount) -> tuple[Item, ...]:
        scope, prefix = account.scope, f"scope:{account.scope}"
        opening = openings.origin(scope)
        return (
            _dataset(openings.dataset(scope), opening, prefix),
            *_guarantee(account, prefix),
            _delta_meaning(account, prefix),
            _delta_against_population(account, declarations.for_scope("population_size", scope), prefix),
            *_protected(account, opening, prefix),
            *_worst_cases(account, engine, prefix),
            *_rules(account, states[scope], prefix),
        )

    return Section(
        id="promise",
        heading="What is promised",
        about="Of each budget: the guarantee, whom it protects, the rule that keeps it, and what is assumed.",
        blocks=(
            *contradicted(accounts, "promise"),
            *_warnings(accounts),
            Items(items=items_of(accounts, items)),
        ),
    )


def _dataset(noted: str | None, opening: Origin, prefix: str) -> Item:
    id_, label = f"{prefix}/dataset", "Dataset, as the scope names it"
    if noted is None:
        return unknown(id_, label, "the scope names no dataset and commits to none")
    return Item(id=id_, label=label, text=noted, origin=opening)


def bounds_of(account: ScopeAccount) -> tuple[Decimal, Decimal]:
    """(epsilon, delta) of the budget; of one that is neither pure nor approximate, its epsilon where it is read."""
    return account.guarantee.epsilon_at(account.delta), account.delta


OWN_DELTA = "the budget's own"


def read_delta(guarantee: Guarantee) -> str:
    """Whose delta it is at which an epsilon is read from a guarantee in another currency."""
    own = (
        f"1e-6 above the budget's own δ of {words.at_most(guarantee.fails)}" if guarantee.fails else "not the budget's"
    )
    return f"the report's choice, {own}: ε is read at this δ, and is larger at a smaller δ"


def reading_of(account: ScopeAccount) -> str:
    """The epsilon that is read from a budget in another currency, and at which delta; empty where it is one itself."""
    if not is_read(account.guarantee):
        return ""
    epsilon, delta = bounds_of(account)
    return f"read as ε ≤ {words.at_most(epsilon)} at δ = {words.at_most(delta)}"


def _guarantee(account: ScopeAccount, prefix: str) -> tuple[Item, ...]:
    epsilon, delta = bounds_of(account)
    at = words.at_most(delta)
    whose = read_delta(account.guarantee) if is_read(account.guarantee) else OWN_DELTA
    return (
        Item(
            id=f"{prefix}/native",
            label="Guarantee, fixed when the scope opened",
            text=f"{words.guarantee(account.budget)} ({words.variant(account.budget)}), for everything that the scope "
            "ever releases",
        ),
        Item(
            id=f"{prefix}/guarantee",
            label="Read as an epsilon",
            text=f"ε ≤ {words.at_most(epsilon)}, δ = {at}",
            value=epsilon,
        ),
        Item(id=f"{prefix}/delta", label="Whose δ that is", text=f"{at}: {whose}" if delta else "δ is 0", value=delta),
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
        text="the probability with which the loss may exceed ε. A release whose own claim has a δ may lose everything "
        f"with that probability; the mechanisms that ran name these causes: {named}. The rest of δ pays for adaptive "
        "composition, where the loss may exceed ε a little, but is not total",
    )


def _delta_against_population(account: ScopeAccount, declared: Declaration | None, prefix: str) -> Item:
    id_, label = f"{prefix}/delta_against_population", "δ compared with 1/n"
    delta = bounds_of(account)[1]
    if not delta:
        return Item(id=id_, label=label, text="nothing to compare: δ is 0", value=decimals.ZERO)
    if declared is not None and declared.is_copied:
        return unknown(id_, label, f"the number of units: {COPIED} (item population_size)")
    size = population(declared)
    if declared is None or size == 0:
        return unknown(id_, label, "the number of units is not declared as a number (item population_size)")
    share, is_below = decimals.multiply(delta, size), not is_large(delta, size)
    verdict = "below" if is_below else "not below: with a δ this large, somebody's whole record may be published"
    return Item(
        id=id_,
        label=label,
        text=f"n = {size:,} as declared; δ·n = {words.at_most(share)}, δ is {verdict}" + (" 1/n" if is_below else ""),
        value=share,
        origin=declared.origin(),
    )


def population(declared: Declaration | None) -> int:
    """How many units there are, as declared; 0 where nobody has said it as a number."""
    return 0 if declared is None or declared.is_copied else readings.number(declared.body.text)


def is_large(delta: Decimal, size: int) -> bool:
    """Whether delta is at least 1/size: then one unit's whole record may be expected to be published."""
    return decimals.multiply(delta, size) >= 1


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
            text=f"at most {words.count(unit.max_contributions, 'row')} of one {unit.name}: declared, not measured",
            value=unit.max_contributions,
            origin=opening,
        ),
    )


def _worst_cases(account: ScopeAccount, engine: CertifiedProfiles, prefix: str) -> tuple[Item, ...]:
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
    elif max(known) > epsilon and not any(admission.outside_guarantee for admission in account.admissions):
        text = (
            f"ε ≤ {words.at_most(epsilon)}, {at}, by the budget, which covers every release; its "
            f"claim alone, read at this δ, gives only ε ≤ {words.at_most(max(known))}"
        )
        worst = Item(id=release, label=label, text=text, value=epsilon)
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
    parents = named(scope.parents)
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
            text=parents or "no: the scope stands alone",
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
    return f"; the last charge was admitted by the {words.account(standing[-1].account)}" if standing else ""


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
        return Item(id=id_, label=label, text="no mechanism that ran names an assumption")
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
        text=(
            f"claimed for secret Poisson batches, each unit drawn independently at rate {listed}. The record does "
            "not show whether the batches were really drawn like this: see the declared item on the sampler"
        ),
    )


def _rates(tree: Composition) -> Iterable[Decimal]:
    if isinstance(tree, PoissonSampled):
        yield tree.rate
    for part in children(tree):
        yield from _rates(part)


def _warnings(accounts: Sequence[ScopeAccount]) -> tuple[Prose, ...]:
    found: dict[str, list[str]] = {}
    for account in accounts:
        for line in warnings_of(bounds_of(account)[0]):
            found.setdefault(line, []).append(account.scope)
    lines = tuple(line if len(accounts) == 1 else f"{named(scopes)}: {line}" for line, scopes in found.items())
    return (Prose(id="promise/epsilon_warning", lines=lines, tone="warning"),) if lines else ()


def warnings_of(epsilon: Decimal) -> tuple[str, ...]:
    """What is to be said of an epsilon above the limits of this report; nothing below."""
    passed = [limit for limit in WARN_AT if epsilon > limit]
    if not passed:
        return ()
    said = (
        "a guarantee this weak says little about any one unit"
        if passed[-1] == WARN_AT[-1]
        else "look at the odds before relying on it"
    )
    return (f"ε is above {passed[-1]}: {said}. (The limits 1 and 10 are this report's own, not a law.)",)
