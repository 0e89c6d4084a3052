"""What audits found: each claim against the lower bound that the evidence gives. Not refuted does not mean proved."""

from __future__ import annotations

from collections.abc import Iterable

from dpledger.accounting.guarantees import Guarantee
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.entries.entry import Entry
from dpledger.reports import words
from dpledger.reports.certified import CertifiedProfiles, curve_of_guarantee
from dpledger.reports.grouping import Alike, grouped, indices
from dpledger.reports.model import (
    Block,
    Cell,
    ClaimChart,
    Claimed,
    Column,
    CurveChart,
    Item,
    Items,
    Picture,
    Prose,
    Section,
    Table,
    TradeoffCurve,
    unknown,
    visible,
)
from dpledger.reports.sections.several import named
from dpledger.reports.tested import (
    AuditEntry,
    IntendedEntry,
    RunsAndAudits,
    RunsElsewhere,
    blind_reasons,
)

__all__ = ["audits_section"]

MOST_CURVES = 4  # audits whose curves are drawn
MOST_BARS = 16  # audits in the chart of claims

PROVES_NOTHING = (
    "An audit runs a mechanism many times on two neighbouring datasets and tries to refute its claim. A violation "
    "refutes it, at the stated confidence. Not refuted does not mean proved: this audit found nothing, and its power "
    "says what it could have found.",
)
OF_RUNS_ELSEWHERE = "Audits of what ran elsewhere and is charged here"
NOWHERE = "Audits of mechanisms whose names did not run here"
ITS_CHARGE = "whose charge an audit names: whoever recorded the audit says that it was of this run"
ITS_NAME = "under a name that was audited: the entries do not say whether the audit was of this run"
NO_AUDIT = "never audited: no entry ties an audit to such a run"
NOT_HERE = (
    "Nothing that is charged in this ledger has these names. If a verdict names a budget, whoever recorded it says so; "
    "if it names none, it says nothing about this ledger. Planted faults are listed here too: they show that the "
    "auditor finds what is wrong.",
)
CLAIMS_DRAWN = "Claims against audited lower bounds"
ABOUT_A_BUDGET = "Claims against audited lower bounds, about a budget, of mechanisms whose names did not run here"
BLIND = "Audits that could see nothing: they do not count"
UNFINISHED = "Audits that were intended but never finished"
UNFINISHED_SAYS = (
    "Somebody said that these audits would be made, and recorded no result, or one that ended early without a "
    "violation. It would look like this if somebody repeated an audit until they liked the result, and left out the "
    "others, or ended one before it could find anything.",
)
VERDICTS = {"violation": "violation", "not_refuted": "not refuted"}


def audits_section(entries: tuple[Entry, ...], engine: CertifiedProfiles) -> Section:
    """The section on audits: those of kinds of mechanisms that ran in this ledger, those of runs elsewhere that are
    charged in it, and those of something that did not run here."""
    tested = RunsAndAudits(entries)
    audits = tested.told_apart
    here, there, nowhere = _groups(audits.here), _groups(audits.elsewhere), _groups(audits.nowhere)
    caption = "Claims of what ran here that were tested, and what was found"
    blocks: list[Block] = [
        Prose(id="audits/not_proved", lines=PROVES_NOTHING, tone="note"),
        _table("audits/results", caption, here, tested),
    ]
    if there:
        blocks.append(_table("audits/elsewhere", OF_RUNS_ELSEWHERE, there, None))
    blocks += [*_of_runs_elsewhere(tested.elsewhere), Items(items=(_never_audited(tested),))]
    if audits.blind:
        blocks.append(_blind_table(audits.blind))
    if left := tested.unfinished:
        blocks += [_unfinished_table(left), Prose(id="audits/unfinished_says", lines=UNFINISHED_SAYS, tone="note")]
    if nowhere:
        blocks.append(_table("audits/nowhere", NOWHERE, nowhere, None))
        blocks.append(Prose(id="audits/nowhere_says_nothing", lines=NOT_HERE, tone="note"))
    if about := _groups(audits.about):
        blocks.append(_claims_picture("audits/about_picture", ABOUT_A_BUDGET, about, engine))
    drawn = (*here, *there)
    if drawn:
        blocks.append(_claims_picture("audits/claims_picture", CLAIMS_DRAWN, drawn, engine))
        blocks += [_curve_picture(number, group, engine) for number, group in enumerate(drawn[:MOST_CURVES], start=1)]
    return Section(
        id="audits",
        heading="Audits",
        about="Whether somebody tried to refute the claims, how hard, and what came out.",
        blocks=tuple(blocks),
    )


def _of_runs_elsewhere(there: RunsElsewhere) -> tuple[Prose, ...]:
    """What ties audits to runs elsewhere, and what nothing does."""
    told = ((there.charged, ITS_CHARGE), (there.named, ITS_NAME), (there.never, NO_AUDIT))
    lines = tuple(f"{words.count(len(found), 'run')} elsewhere {how}." for found, how in told if found)
    return (Prose(id="audits/elsewhere_says", lines=lines, tone="note"),) if lines else ()


def _groups(audits: Iterable[AuditEntry]) -> tuple[Alike[AuditEntry], ...]:
    return grouped(audits, exact=_all_but_place, coarse=lambda one: (_kind(one), one.body.verdict))


def _all_but_place(one: AuditEntry) -> tuple[object, ...]:
    body = one.body
    return (
        body.mechanism.kind,
        repr(body.mechanism.parameters),
        body.claim,
        body.relation,
        body.verdict,
        body.epsilon_lower,
        body.delta,
        body.confidence,
        body.trials_left,
        body.trials_right,
        body.event,
        body.method,
        body.power,
        body.together,
        body.blind,
        body.apart,
        one.scopes,
    )


def _kind(one: AuditEntry) -> str:
    return words.tag(one.body.mechanism.kind)


# ---- the table ------------------------------------------------------------------------------------------------------


def _table(id_: str, caption: str, found: tuple[Alike[AuditEntry], ...], tested: RunsAndAudits | None) -> Table:
    """`tested`: what ran here; None in a table of what did not."""
    return Table(
        id=id_,
        caption=caption,
        columns=(
            Column("Mechanism"),
            Column("Entries"),
            Column("Claim tested"),
            Column("Verdict"),
            Column("ε is at least", numeric=True),
            Column("Runs", numeric=True),
            Column("Would have refuted"),
            Column("Evidence"),
            Column("Budget"),
        ),
        rows=tuple(_row(group, tested) for group in found),
        empty="No audit of what ran here was recorded.",
    )


def _row(group: Alike[AuditEntry], tested: RunsAndAudits | None) -> tuple[Cell, ...]:
    body = group.first.body
    place = Cell(indices([member.index for member in group.members]), len(group.members))
    is_wrong = body.verdict == "violation"
    verdict = Cell(VERDICTS[body.verdict], body.verdict, note=_reserve(body), tone="warning" if is_wrong else "plain")
    if not group.alike:
        differs = Cell("differs: see the entries")
        return (
            Cell(group.times(_kind(group.first))),
            place,
            differs,
            verdict,
            differs,
            differs,
            differs,
            differs,
            differs,
        )
    return (
        _mechanism(group, tested),
        place,
        Cell(words.guarantee(body.claim), note=words.relation(body.relation)),
        verdict,
        Cell(
            words.at_least(body.epsilon_lower),
            body.epsilon_lower,
            note=f"at δ = {words.at_most(body.delta)}, confidence {words.percent_at_least(body.confidence)}",
        ),
        Cell(f"{body.trials_left:,} + {body.trials_right:,}", body.trials_left + body.trials_right),
        _power(body),
        Cell(visible(body.event, 400), note=_method(body)),
        Cell(named(group.first.scopes) or "none is named"),
    )


def _mechanism(group: Alike[AuditEntry], tested: RunsAndAudits | None) -> Cell:
    note = group.first.body.mechanism
    why = "" if tested is None else tested.why_not(group.first)
    told = words.parameters(note.parameters) + (f"; no test of what ran here, as an audit {why}" if why else "")
    return Cell(group.times(_kind(group.first)), note.kind, note=told)


def _reserve(body: Audited) -> str:
    """What is to be known beside a verdict."""
    together = "by all strata of outcomes together; no single stratum was refuted" if body.together else ""
    distant = f"if the data are rows, they are {visible(body.apart, 400)}" if body.apart else ""
    return "; ".join(part for part in (together, distant) if part)


def _blind_table(found: tuple[AuditEntry, ...]) -> Table:
    groups = _groups(found)
    return Table(
        id="audits/blind",
        caption=BLIND,
        columns=(Column("Mechanism"), Column("Entries"), Column("Why"), Column("Runs", numeric=True), Column("Budget")),
        rows=tuple(
            (
                Cell(group.times(_kind(group.first)), group.first.body.mechanism.kind),
                Cell(indices([member.index for member in group.members]), len(group.members)),
                Cell(visible(group.first.body.blind or "", 400) if group.alike else "differs: see the entries"),
                Cell(
                    f"{group.first.body.trials_left:,} + {group.first.body.trials_right:,}"
                    if group.alike
                    else "differs"
                ),
                Cell(named(group.first.scopes) or "none is named"),
            )
            for group in groups
        ),
        empty="",
    )


def _unfinished_table(found: tuple[IntendedEntry, ...]) -> Table:
    return Table(
        id="audits/unfinished",
        caption=UNFINISHED,
        columns=(Column("Mechanism"), Column("Entry"), Column("Claim"), Column("Runs", numeric=True), Column("Budget")),
        rows=tuple(
            (
                Cell(words.tag(one.body.mechanism.kind), one.body.mechanism.kind, tone="warning"),
                Cell(str(one.index), one.index, note=f"on {one.time}"),
                Cell(_intended_claim(one.body.claim), note=words.relation(one.body.relation)),
                Cell(f"at most {one.body.trials:,} a side", one.body.trials, note=_how(one)),
                Cell(", ".join(map(visible, one.scopes)) or "none is named"),
            )
            for one in found
        ),
        empty="",
    )


def _intended_claim(claim: Guarantee | None) -> str:
    return "the realised loss of each outcome" if claim is None else words.guarantee(claim)


def _how(one: IntendedEntry) -> str:
    return "; ".join(part for part in (_seeded(one.body.seed), one.early) if part)


def _seeded(seed: int | None) -> str:
    return "" if seed is None else f"seed {seed}"


def _power(body: Audited) -> Cell:
    if body.power is None:
        return Cell("none is stated", status="unknown")
    chance = words.percent_at_least(body.power.probability)
    return Cell(f"ε = {words.at_most(body.power.epsilon)}", body.power.epsilon, note=f"with probability {chance}")


def _method(body: Audited) -> str:
    told = (
        f"method {words.name(body.method)}",
        _seeded(body.seed),
        "" if body.schedule is None else f"order of runs {visible(body.schedule)}",
        "" if body.arms is None else words.count(body.arms, "bet"),
        "" if body.e_value is None else f"e-value at least {words.at_least(body.e_value)}",
        "" if body.intended is None else f"intended in entry {body.intended}",
        "" if body.code is None else f"code SHA-256 {body.code[:16]}…",
    )
    return ", ".join(part for part in told if part)


def _never_audited(tested: RunsAndAudits) -> Item:
    id_, label = "audits/never_audited", "What ran and was never audited"
    ran, there, audits = tested.kinds, tested.elsewhere, tested.told_apart
    missing = sorted(tested.tests.never)
    gaps = []
    if missing:
        shown = ", ".join(words.tag(kind) for kind in missing[:20])
        more = f" and {len(missing) - 20} more kinds" if len(missing) > 20 else ""
        gaps.append(f"{shown}{more}: no evidence besides the proof")
    for kind, (some, of) in sorted(tested.tests.partly.items()):
        gaps.append(f"{words.tag(kind)}: tested in {some:,} of the {of:,} ways in which it ran here")
    for kind, why in blind_reasons(audits, missing).items():
        gaps.append(f"{words.tag(kind)}: an audit was tried and saw nothing: {visible(why, 400)}")
    if there.never:
        gaps.append(f"{words.count(len(there.never), 'run')} elsewhere: no audit is of that name")
    if there.named:
        told = there.outcome(there.named)
        gaps.append(f"{words.count(len(there.named), 'run')} elsewhere audited by name alone{told}")
    if gaps:
        return unknown(id_, label, "; ".join(gaps))
    is_any = ran or there.charged
    return Item(
        id=id_,
        label=label,
        text="none: each kind was audited as it ran" if is_any else "nothing ran",
    )


# ---- the pictures ---------------------------------------------------------------------------------------------------


def _claims_picture(id_: str, title: str, found: tuple[Alike[AuditEntry], ...], engine: CertifiedProfiles) -> Picture:
    rows = tuple(_claimed(group, engine) for group in found[:MOST_BARS])
    said = "; ".join(
        f"{row.label}: claimed {'no bound' if row.claim is None else words.at_most(row.claim)}, audited at least "
        f"{words.at_least(row.lower)}, {VERDICTS[row.verdict]}"
        for row in rows
    )
    return Picture(
        id=id_,
        title=title,
        description=f"Epsilon at each audit's delta. A lower bound to the right of its claim is a violation. {said}.",
        chart=ClaimChart(rows=rows),
    )


def _claimed(group: Alike[AuditEntry], engine: CertifiedProfiles) -> Claimed:
    body = group.first.body
    return Claimed(
        label=f"{_kind(group.first)}, entry {group.first.index}",
        claim=engine.claimed_epsilon(body.claim, body.relation, body.delta),
        lower=body.epsilon_lower,
        verdict=body.verdict,
    )


def _curve_picture(number: int, group: Alike[AuditEntry], engine: CertifiedProfiles) -> Picture:
    body = group.first.body
    curves = []
    claimed = engine.claimed_epsilon(body.claim, body.relation, body.delta)
    if claimed is not None:
        curves.append(TradeoffCurve(label="claimed", role="promise", points=curve_of_guarantee(claimed, body.delta)))
    audited = curve_of_guarantee(body.epsilon_lower, body.delta)
    curves.append(TradeoffCurve(label="audited", role="audit", points=audited))
    confidence = words.percent_at_least(body.confidence)
    return Picture(
        id=f"audits/tradeoff_{number}",
        title=f"The audit of {_kind(group.first)} in entry {group.first.index}",
        description="False alarms against missed cases. If the claim holds, the true curve is nowhere below the solid "
        f"line. The audit says, with confidence {confidence}, that it is somewhere on or below the dashed line. "
        + (
            "The dashed line is below the solid one. Both cannot hold, so the claim is refuted."
            if claimed is not None and body.epsilon_lower > claimed
            else "The band between the lines is where the truth may lie."
        ),
        chart=CurveChart(curves=tuple(curves)),
    )
