"""What a scope ran: each admission with the account and the price that carried it, refusals, and what is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import assert_never

from dpledger.accounting import composition as trees, guarantees as promises
from dpledger.accounting.pricing import outcomes
from dpledger.decimals import ZERO, round_up, total
from dpledger.ledger.accounts.recomposition import Admission, Refusal, ScopeAccount, attested
from dpledger.ledger.entries.members import Attestation
from dpledger.mechanisms.protocol import UNSAID
from dpledger.reports import words
from dpledger.reports.certified import CertifiedProfiles
from dpledger.reports.grouping import Alike, grouped, indices, keys, span
from dpledger.reports.model import Cell, Column, Table, visible
from dpledger.reports.sections.several import table_of
from dpledger.schema import plain

__all__ = ["admissions", "epsilons_of_one_run", "is_stated", "leaves", "open_charges", "price_of_each", "refusals"]

RULES = {
    "cap": "stands at its cap",
    "ex_post": "fell to its realised loss",
    "steps": "steps never granted came back",
}
STATED = "; the mechanism's own word"  # of a loss that an attested leaf states
OURS = "dpledger "  # what the library of a mechanism begins with, unless it is somebody's own code
MOST_NOTES = 6  # steps, breaches and warnings that one row tells
STATED_AS = (
    ("sensitivity", "no reason given"),
    ("clip_norm", "each contribution is clipped to it"),
    ("max_grad_norm", "each gradient is clipped to it"),
)
"""The parameters that say how much one unit moves what noise is added to, and why it is so where no reason is given."""
SHOWN_BESIDE = ("sensitivity", "justification", "assumes")  # parameters with a place of their own
ON_INTEGERS = (trees.DiscreteLaplaceLaw, trees.DiscreteGaussianLaw)
Admitted = Alike[Admission]


# ---- admissions -----------------------------------------------------------------------------------------------------


def admissions(accounts: Sequence[ScopeAccount], engine: CertifiedProfiles) -> Table:
    """Every admission, equal ones of a scope counted in one row."""
    return table_of(
        accounts,
        lambda account: (_admission(group, account, engine) for group in _groups(account)),
        id_="ran/admissions",
        caption="What was admitted, and the price of each run in the account that admitted it",
        columns=(
            Column("Mechanism"),
            Column("Entries"),
            Column("Sensitivity"),
            Column("Claim"),
            Column("Reserved, each", numeric=True),
            Column("Charged, each", numeric=True),
            Column("Status"),
            Column("Basis"),
        ),
        empty="Nothing was admitted.",
    )


def _groups(account: ScopeAccount) -> tuple[Admitted, ...]:
    return grouped(
        account.admissions,
        exact=_all_but_names,
        coarse=lambda one: (one.mechanism.kind, one.status, one.account, one.rule, one.outside_guarantee),
    )


def _all_but_names(one: Admission) -> tuple[object, ...]:
    return (
        one.mechanism.kind,
        repr(one.mechanism.parameters),
        one.mechanism.library,
        one.parts,
        one.tail_delta,
        one.claim,
        one.status,
        one.rule,
        one.account,
        tuple(one.reserved.items()),
        tuple(one.charged.items()),
        one.steps,
        one.granted,
        one.warnings,
        one.outside_guarantee,
        one.attested,
    )


def _admission(group: Admitted, account: ScopeAccount, engine: CertifiedProfiles) -> tuple[Cell, ...]:
    first = group.first
    return (
        Cell(group.times(words.tag(first.mechanism.kind)), first.mechanism.kind, note=_named(group)),
        Cell(indices([member.index for member in group.members]), len(group.members)),
        _sensitivity(group),
        _claim(group, account, engine),
        price_of_each(
            [member.reserved.get(member.account) for member in group.members], f"in the {words.account(first.account)}"
        ),
        price_of_each([_charged(member) for member in group.members], _refund(first)),
        _status(group),
        _basis(group),
    )


def _named(group: Admitted) -> str:
    """What tells it from others of its kind: the keys that people gave, why it counts here, its parameters."""
    said = group.first.attested
    why = visible(said.reason, 300) if said is not None and group.alike else ""
    named = keys(member.key for member in group.members) if group.alike else ""
    told = (named, why, _parameters(group))
    return "; ".join(part for part in told if part)


def _parameters(group: Admitted) -> str:
    if not group.alike:
        return "parameters differ: each stands in its entry"
    return words.parameters(group.first.mechanism.parameters, without=SHOWN_BESIDE)


def _sensitivity(group: Admitted) -> Cell:
    found = {_declared_sensitivity(member) for member in group.members}
    if found == {None}:
        return _by_its_kind(group)
    if len(found) > 1:
        return Cell("differs: see the entries", status="declared")
    ((value, why),) = (pair for pair in found if pair is not None)
    return Cell(value, value, status="unknown" if why.startswith(UNSAID) else "declared", note=why)


def _by_its_kind(group: Admitted) -> Cell:
    """Where no parameter says it: a mechanism of ours bounds by itself what one unit moves, and nobody declares it."""
    if all(one.attested is None and one.mechanism.library.startswith(OURS) for one in group.members):
        return Cell("by the mechanism itself", note="no parameter of its own: its proof bounds what one unit moves")
    return Cell("not stated", status="unknown")


def _declared_sensitivity(one: Admission) -> tuple[str, str] | None:
    """The sensitivity that the mechanism names and its reason; of a sampled or clipped run, its clipping bound."""
    stated = one.mechanism.parameters
    for field, reason in STATED_AS:
        if isinstance(stated.get(field), (str, int)):
            why = str(stated.get("justification", reason))
            return visible(str(stated[field]), 80), visible(why, 500)
    if "lower" in stated and "upper" in stated:
        return "by its bounds", visible(f"values are clipped to {stated['lower']} .. {stated['upper']}", 500)
    laws = tuple(leaves(one.parts))
    found = sorted({law.sensitivity for law in laws if isinstance(law, ON_INTEGERS)})
    if found and all(isinstance(law, ON_INTEGERS) for law in laws):
        return ", ".join(words.at_most(number) for number in found), "of an integer statistic"
    return None


def _claim(group: Admitted, account: ScopeAccount, engine: CertifiedProfiles) -> Cell:
    if not group.alike:
        return Cell("differs: see the entries")
    claim = group.first.claim
    native = words.guarantee(claim)
    if isinstance(claim, promises.PureDP | promises.ApproxDP):
        return Cell(native, claim.epsilon, note=words.variant(claim))
    upper = _converted(group.first, account, engine)
    note = "no certified epsilon" if upper is None else f"alone: ε ≤ {words.at_most(upper)}"
    return Cell(native, note=f"{words.variant(claim)}; {note} at δ = {words.at_most(account.delta)}")


def _converted(one: Admission, account: ScopeAccount, engine: CertifiedProfiles) -> Decimal | None:
    """Epsilon of the claim at the scope's delta, or that of the planned parts where the engine has a smaller one."""
    planned = outcomes.planned(one.parts)
    found = [engine.claimed_epsilon(one.claim, account.relation, account.delta)]
    own = engine.epsilon(planned, account.relation, account.delta)
    if own is not None:
        found.append(_finite(own.upper))
    return min((number for number in found if number is not None), default=None)


def epsilons_of_one_run(accounts: Sequence[ScopeAccount], engine: CertifiedProfiles) -> tuple[str, ...]:
    """Which epsilons stand beside one run and which of them counts, told of the costliest run that has several, in the
    first scope that has one."""
    return next((told for account in accounts if (told := _told_apart(account, engine))), ())


def _told_apart(account: ScopeAccount, engine: CertifiedProfiles) -> tuple[str, ...]:
    ran = [one for one in account.admissions if one.status != "aborted"]
    told = {}
    for claim in sorted({one.claim for one in ran}, key=repr):
        epsilon = engine.claimed_epsilon(claim, account.relation, account.delta)
        if epsilon is not None and not isinstance(claim, promises.PureDP | promises.ApproxDP):
            told[claim] = epsilon
    if not told:
        return ()
    claim = max(told, key=lambda one: (told[one], repr(one)))
    one = next(one for one in ran if one.claim == claim)
    own = engine.epsilon(outcomes.planned(one.parts), account.relation, account.delta)
    at = f"at δ = {words.at_most(account.delta)}"
    alone = "" if own is None else f" Its parts alone come to ε ≤ {words.at_most(round_up(own.upper))}, {at}."
    share = f", with a δ of {words.at_most(one.tail_delta)} to itself" if one.tail_delta else ""
    charged = words.at_most(_charged(one) or ZERO)
    return (
        f"The {words.tag(one.mechanism.kind)} in entry {one.index} has several ε. Its claim gives ε ≤ "
        f"{words.at_most(told[claim])}, {at}, which “Worst case of one release” names.{alone} Together with all "
        f"others it is charged {charged} ({words.account(one.account)}{share}). Only the charge counts against the "
        "budget.",
    )


def _finite(number: float) -> Decimal | None:
    rounded = round_up(number)
    return None if rounded.is_infinite() else rounded


def _charged(one: Admission) -> Decimal | None:
    return ZERO if one.status == "aborted" else one.charged.get(one.account)


def price_of_each(numbers: Sequence[Decimal | None], note: str = "") -> Cell:
    """The price of each run; of several, what they come to is told below."""
    known = [number for number in numbers if number is not None]
    told = [note] if note else []
    if len(numbers) > 1 and len(known) == len(numbers):
        told.insert(0, f"all {len(numbers):,}: {words.at_most(total(known))}")
    return Cell(span(numbers), numbers[0] if len(set(numbers)) == 1 else None, note="; ".join(told))


def _refund(one: Admission) -> str:
    match one.status:
        case "aborted":
            given = "" if one.attested is None else ", on the word of who declared it"
            return f"all came back: never started{given}"
        case "reserved" | "started":
            return "not settled: held at its cap"
        case "committed":
            stated = one.rule == "ex_post" and any(outcomes.planned_leaf(leaf) != leaf for leaf in attested(one.parts))
            return f"{RULES[one.rule or 'cap']}{STATED if stated else ''}"
        case _:
            assert_never(one.status)


def _status(group: Admitted) -> Cell:
    first = group.first
    notes = [f"{first.granted:,} of {first.steps:,} steps granted"] if first.steps is not None and group.alike else []
    if group.alike and first.status == "committed" and first.steps is None:
        notes += words.ran(first.parts)
    tails = [member.tail_delta for member in group.members if member.tail_delta]
    if tails:
        notes.append(f"priced as a whole, from its certified profile, with a δ of at most {words.at_most(max(tails))}")
    if any(member.outside_guarantee for member in group.members):
        notes.append("outside its guarantee: the run broke its contract, and nothing came back")
    notes += dict.fromkeys(visible(warning, 300) for member in group.members for warning in member.warnings)
    if len(notes) > MOST_NOTES:
        notes = [*notes[:MOST_NOTES], "and more warnings: see the entries"]
    return Cell(first.status, first.status, note="; ".join(notes))


def _basis(group: Admitted) -> Cell:
    """Whether the claim was recomputed from laws, or rests on a promise that the entry only declares."""
    libraries = sorted({member.mechanism.library for member in group.members})
    custom = "" if all(library.startswith(OURS) for library in libraries) else "; custom code"
    note = visible(", ".join(libraries), 200) + custom + _noise(group)
    said = _said(group)
    if said:
        return Cell("attested", status="declared", note=f"ran elsewhere; {said}; {note}")
    if any(is_stated(member) for member in group.members):
        return Cell("attested", status="declared", note=note)
    if any(attested(member.parts) for member in group.members):
        return Cell("proved", note=note)
    return Cell("recomputed", note=note)


def is_stated(one: Admission) -> bool:
    """Whether what a run promises is the word of somebody's code: its entry states a guarantee, or what it lost, and it
    is not a mechanism of ours with a guarantee that follows from its public parameters."""
    leaves = attested(one.parts)
    if one.attested is None and one.mechanism.library.startswith(OURS):
        return any(outcomes.planned_leaf(leaf) != leaf for leaf in leaves)
    return bool(leaves)


def _said(group: Admitted) -> str:
    """Of runs that happened elsewhere: whose word they are, why they count here, and what there is to show for them."""
    words_of = [member.attested for member in group.members if member.attested is not None]
    if not words_of:
        return ""
    names = visible(", ".join(sorted({said.by for said in words_of})), 200)
    if len(set(words_of)) > 1 or len(words_of) < len(group.members):
        return f"by {names}: reasons and evidence stand in the entries"
    said = words_of[0]
    shown = "none given" if said.evidence is None else visible(said.evidence, 300)
    return f"by {names}; {_holds(said)}; evidence: {shown}"


def _holds(said: Attestation) -> str:
    """Of what, and under which relation, the guarantee of a run elsewhere is said to hold."""
    if said.relation is None:
        return "nobody said for which unit it holds, or under which relation"
    of = "" if said.of is None else f" of one {said.of}"
    return f"said to hold{of} under {said.relation.value}"


def _noise(group: Admitted) -> str:
    if any(member.attested is not None for member in group.members):
        return ""
    stated = group.first.mechanism.parameters
    if "unsafe" in group.first.mechanism.kind:
        return "; floating-point noise, for simulation only"
    if "grid" in stated:
        return "; exact noise on a grid"
    if all(isinstance(leaf, ON_INTEGERS) for leaf in leaves(group.first.parts)):
        return "; exact noise on integers"
    return "; grid of the noise: unknown"


def leaves(tree: trees.Composition) -> Iterator[trees.Composition]:
    """The laws and declared guarantees of a tree."""
    below = trees.children(tree)
    if not below:
        yield tree
    for part in below:
        yield from leaves(part)


# ---- what is open, what was refused ---------------------------------------------------------------------------------


def open_charges(accounts: Sequence[ScopeAccount]) -> Table:
    """Charges that are not settled: they hold their cap until somebody settles them, for ever if nobody does."""
    return table_of(
        accounts,
        _open,
        id_="stopped/open_charges",
        caption="Charges that are not settled, and what each is counted at",
        columns=(
            Column("Mechanism"),
            Column("Entries"),
            Column("Status"),
            Column("Account"),
            Column("Holds, each", numeric=True),
        ),
        empty="Every charge is settled: nothing is held.",
    )


def _open(account: ScopeAccount) -> Iterator[tuple[Cell, ...]]:
    waiting = (one for one in account.admissions if one.status in ("reserved", "started"))
    found = grouped(waiting, exact=_all_but_names, coarse=lambda one: (one.mechanism.kind, one.status, one.account))
    for group in found:
        first = group.first
        yield (
            Cell(
                group.times(words.tag(first.mechanism.kind)),
                first.mechanism.kind,
                note=keys(member.key for member in group.members),
            ),
            Cell(indices([member.index for member in group.members]), len(group.members)),
            Cell(first.status, first.status),
            Cell(words.account(first.account), first.account),
            price_of_each([member.reserved.get(member.account) for member in group.members]),
        )


def refusals(accounts: Sequence[ScopeAccount]) -> Table:
    """Requests that a budget did not admit."""
    return table_of(
        accounts,
        lambda account: map(_refused, _refusals(account)),
        id_="stopped/refusals",
        caption="Requests that were refused; nothing was charged for them",
        columns=(Column("Mechanism"), Column("Entries"), Column("Asked"), Column("Spent then"), Column("Left then")),
        empty="No request was refused.",
    )


def _refusals(account: ScopeAccount) -> tuple[Alike[Refusal], ...]:
    return grouped(
        account.refusals,
        exact=lambda one: (
            one.mechanism.kind,
            repr(one.mechanism.parameters),
            one.attested,
            *map(_texts, (one.asked, one.spent)),
        ),
        coarse=lambda one: one.mechanism.kind,
    )


def _refused(group: Alike[Refusal]) -> tuple[Cell, ...]:
    first = group.first
    differs = Cell("differs: see the entries")
    return (
        Cell(group.times(words.tag(first.mechanism.kind)), first.mechanism.kind, note=_words(first, group.alike)),
        Cell(indices([member.index for member in group.members]), len(group.members)),
        Cell(_asked(first.asked)) if group.alike else differs,
        Cell(_asked(first.spent)) if group.alike else differs,
        Cell(_left(first.left)) if group.alike else differs,
    )


def _words(one: Refusal, alike: bool) -> str:
    told = words.parameters(one.mechanism.parameters) if alike else "parameters differ: each stands in its entry"
    told = "; ".join(part for part in (keys([one.key]) if alike else "", told) if part)
    if one.attested is None or not alike:
        return told
    ran = f"{visible(one.attested.by, 200)} says that it was to run elsewhere: if it did, nothing here covers it"
    return f"{told}; {ran}" if told else ran


def _texts(amounts: Mapping[str, Decimal]) -> str:
    return str(plain(amounts))


def _asked(amounts: Mapping[str, Decimal]) -> str:
    return "; ".join(
        f"{words.account(name)} {'no price' if amount.is_infinite() else words.at_most(amount)}"
        for name, amount in words.by_account(amounts)
    )


def _left(amounts: Mapping[str, Decimal]) -> str:
    return "; ".join(f"{words.account(name)} {words.at_least(amount)}" for name, amount in words.by_account(amounts))
