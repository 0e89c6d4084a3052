"""What a scope's promise means for one unit: the odds under the whole budget, and under its costliest runs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest

from dpledger.accounting.composition import Composition
from dpledger.accounting.pricing.outcomes import planned
from dpledger.decimals import INFINITY, negative
from dpledger.ledger.accounts.recomposition import Admission, ScopeAccount
from dpledger.reports import explain, words
from dpledger.reports.certified import MOST, CertifiedProfiles, curve_of_guarantee
from dpledger.reports.grouping import in_entries, key_of
from dpledger.reports.model import (
    Cell,
    Column,
    CurveChart,
    CurvePoint,
    Picture,
    Prose,
    Section,
    Table,
    TradeoffCurve,
)
from dpledger.reports.sections.promise import bounds_of
from dpledger.reports.sections.several import table_of

__all__ = ["meaning"]

MOST_PLANS = 8  # kinds of runs whose own odds are told
MOST_CURVES = 3  # of these, whose curves are drawn
BY_ITS_CURVE = "by its own trade-off curve"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A planned run, and the admissions of it."""

    tree: Composition
    members: tuple[Admission, ...]

    @property
    def name(self) -> str:
        """The tag, the key that somebody gave to it, and that it is looked at by itself."""
        key = key_of(self.members[0].key) if len(self.members) == 1 else ""
        tag = words.tag(self.members[0].mechanism.kind)
        return f"{tag} ({key}), alone" if key else f"{tag}, alone"

    @property
    def entries(self) -> str:
        """Where its admissions stand."""
        return in_entries([one.index for one in self.members])


@dataclass(frozen=True, slots=True)
class PlansOfScope:
    """The planned runs of a scope. `told`: the costliest of those whose curves were computed, `computed` in number;
    `without`: how many have none by any theorem; `unasked`: how many no curve was computed of."""

    told: tuple[PlannedRun, ...]
    computed: int
    without: int
    unasked: int


def meaning(accounts: Sequence[ScopeAccount], engine: CertifiedProfiles) -> Section:
    """The section that explains epsilon: in sentences where there is one scope, in one table of all."""
    engine, room = engine.with_room(), max(1, MOST // max(1, len(accounts)))
    plans = {account.scope: _plans(account, engine, room) for account in accounts}
    units = {account.unit.name for account in accounts}
    return Section(
        id="meaning",
        heading=f"What that means for one {min(units) if len(units) == 1 else 'of them'}",
        about="The odds under each whole budget, and under its costliest runs alone.",
        blocks=(
            *(_sentences(account) for account in accounts if len(accounts) == 1),
            _odds_table(accounts, plans, engine),
            *_left_out(plans),
            *(_curves(account, plans[account.scope].told[:MOST_CURVES], engine) for account in accounts),
        ),
    )


def _sentences(account: ScopeAccount) -> Prose:
    everything = f"everything that scope {account.scope} may ever release"
    lines = explain.sentences(_of_budget(account), account.relation, account.unit.name, everything)
    return Prose(id="meaning/odds_sentences", lines=lines)


def _of_budget(account: ScopeAccount) -> explain.Odds:
    return explain.promised(account.budget, account.relation, *bounds_of(account))


def _plans(account: ScopeAccount, engine: CertifiedProfiles, room: int) -> PlansOfScope:
    """The distinct planned runs, of which the engine is asked about so many: those of the highest prices."""
    found: dict[Composition, list[Admission]] = {}
    for admission in account.admissions:
        if admission.status != "aborted":
            found.setdefault(planned(admission.parts), []).append(admission)
    runs = _dearest_first([PlannedRun(tree, tuple(members)) for tree, members in found.items()])
    known = []
    for run in runs[:room]:
        bounds = engine.epsilon(run.tree, account.relation, account.delta)
        if bounds is not None and engine.odds(run.tree, account.relation, account.delta) is not None:
            known.append((-bounds.upper, run.members[0].index, run))
    known.sort(key=lambda one: one[:2])
    return PlansOfScope(
        told=tuple(run for *_, run in known[:MOST_PLANS]),
        computed=len(known),
        without=len(runs[:room]) - len(known),
        unasked=len(runs[room:]),
    )


def _dearest_first(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """By the price at which they were admitted. Those of different accounts do not compare: first comes the dearest of
    each account, then the second of each."""
    by_account: dict[str, list[PlannedRun]] = {}
    for run in sorted(runs, key=lambda run: (negative(_price(run)), run.members[0].index)):
        by_account.setdefault(run.members[0].account, []).append(run)
    return [run for some in zip_longest(*by_account.values()) for run in some if run is not None]


def _price(run: PlannedRun) -> Decimal:
    first = run.members[0]
    return first.reserved.get(first.account, INFINITY)


def _odds_table(
    accounts: Sequence[ScopeAccount], plans: Mapping[str, PlansOfScope], engine: CertifiedProfiles
) -> Table:
    def rows(account: ScopeAccount) -> Iterator[tuple[Cell, ...]]:
        note = "worst case of its ε and δ" if account.budget.is_point else BY_ITS_CURVE
        yield _odds_row("the whole budget", note, _of_budget(account))
        for plan in plans[account.scope].told:
            found = engine.odds(plan.tree, account.relation, account.delta)
            if found is not None:
                yield _odds_row(plan.name, f"{plan.entries}; {BY_ITS_CURVE}", found)

    return table_of(
        accounts,
        rows,
        id_="meaning/odds",
        caption="The odds, each an upper bound",
        columns=(
            Column("Of"),
            Column("Right guess after a coin flip", numeric=True),
            Column("A 1 % suspicion becomes", numeric=True),
            Column("Advantage", numeric=True),
            *(Column(f"Found at {words.percent(rate)} false alarms", numeric=True) for rate in explain.RATES),
        ),
        empty="",
    )


def _left_out(plans: Mapping[str, PlansOfScope]) -> tuple[Prose, ...]:
    """Which runs the table does not tell of, and why."""
    lines = []
    for scope, found in plans.items():
        of = f" of {scope}" if len(plans) > 1 else ""
        more = found.computed - len(found.told) + found.unasked
        if more:
            those = f"the {words.count(found.computed, 'kind')} of runs{of} whose curves were computed"
            costliest = f"the {len(found.told)} costliest of " if found.computed > len(found.told) else ""
            lines.append(f"The table has {costliest}{those}. “What was run” lists {more:,} more.")
        if found.unasked:
            lines.append(
                f"No curve was computed for {words.count(found.unasked, 'kind')} of runs{of}: a report computes {MOST} "
                "at most, beginning with the highest prices in each account."
            )
        if without := found.without:
            lines.append(
                f"{words.count(without, 'kind')} of runs{of} {'is' if without == 1 else 'are'} not in it: no theorem "
                "gives a trade-off curve for what ran there. The whole budget covers them."
            )
    return (Prose(id="meaning/odds_left_out", lines=tuple(lines), tone="note"),) if lines else ()


def _odds_row(name: str, note: str, found: explain.Odds) -> tuple[Cell, ...]:
    exception = f"except with probability {words.at_most(found.exception)}, 1000 δ" if found.exception else ""
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


def _curves(account: ScopeAccount, plans: Sequence[PlannedRun], engine: CertifiedProfiles) -> Picture:
    own = () if account.budget.is_point else engine.curve(account.budget, account.relation)
    points = own or curve_of_guarantee(*bounds_of(account))
    curves = [TradeoffCurve(label="the whole budget", role="promise", points=points)]
    for plan in plans:
        points = engine.curve(plan.tree, account.relation)
        if points:
            curves.append(TradeoffCurve(label=plan.name, role="plan", points=points))
    return Picture(
        id=f"scope:{account.scope}/tradeoff",
        title=f"What a test can learn about one {account.unit.name} in scope {account.scope}",
        description="For each rate of false alarms, the share of true cases that any test must miss. The diagonal is "
        "guessing; the closer a curve is to it, the less can be learnt. "
        + " ".join(_curve_words(curve) for curve in curves),
        chart=CurveChart(curves=tuple(curves)),
    )


def _curve_words(curve: TradeoffCurve) -> str:
    at = max((point for point in curve.points if point.alpha <= Decimal("0.1")), key=_alpha)
    missed = words.percent_at_least(at.beta)
    return f"For {curve.label}, at {words.percent(at.alpha)} false alarms, at least {missed} are missed."


def _alpha(point: CurvePoint) -> Decimal:
    return point.alpha
