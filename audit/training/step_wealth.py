"""The wealth of a bettor against a claim about steps: one pair a step, one process over all of them.

    three quarters   on the law that the claim is about, with less noise than it claims: bets that are fixed beforehand
    one quarter      on what the steps so far suggest, as every audit bets (`Engine`)

Where the claim is that of no Gaussian step, all of it is on the second. Each bet on a step is a function of the steps
before it, and the claim holds of every step given those, whatever state the training is in by then: so the wealth is a
nonnegative supermartingale, and reaches 1/alpha with probability at most alpha. Statement and proof:
docs/proofs/audit.md 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpledger import decimals
from dpledger.accounting.guarantees import GDP
from dpledger.accounting.profile import compose
from dpledger.audit.course.blocks import Evidence
from dpledger.audit.evidence.edges import Claim, Regions
from dpledger.audit.evidence.power import needed
from dpledger.audit.evidence.projection import Bets, project
from dpledger.audit.evidence.reading import ROUNDING
from dpledger.audit.evidence.wealth import BudgetShare, Engine
from dpledger.audit.evidence.witness import witness_of
from dpledger.audit.features.blind import blindness
from dpledger.audit.features.score import Number
from dpledger.audit.outcomes import ROOT, Floats, Outcomes, encode
from dpledger.audit.tested.claims import MOST_TESTED, AuditTarget, target
from dpledger.audit.training.step_claims import StepClaim, StepLaw
from dpledger.ledger.entries.members import Power
from dpledger.relations import Relation

__all__ = ["StepWealth", "least_refuted"]

FACTORS = (1.1, 1.2, 1.4, 2.0, 4.0)  # by which noise is less than claimed, as bets suppose
WEIGHTS = (0.3, 0.15, 0.1, 0.35, 0.1)  # of these bets
SUPPOSED = Fraction(3, 4)  # of the error budget, for the bets that are fixed beforehand
CELLS = 96
TAIL = 4.0  # deviations beyond both means at which cells end
RUNS = 100_000  # steps for which bets are nearly best
POWER = Decimal("0.9")
LEARNT = 1.0  # nats that the choice among the bets costs
MOST = 64.0  # times mu: the largest law that is looked at for power
HALVINGS = 24
FIRST, STEP, LAST = 0.25, 1.06, 16.0  # of mu: laws with more and with less noise, each refuted for itself


class _Along(Number):
    """The output of a step along its canary."""

    def of(self, outcomes: Outcomes) -> Floats:
        return outcomes.column(ROOT, 0)

    @property
    def primary(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return "noisy gradient along the canary, in deviations of the noise"


_SCORES = (_Along(),)


@dataclass(slots=True)
class _Supposed:
    """Bets on some laws, against as many claims, that stand before the first step. `wealth`: of each, as a
    logarithm."""

    cuts: Floats
    left: Floats
    right: Floats
    paired: bool
    wealth: Floats

    @classmethod
    def on(
        cls, claims: Sequence[Claim], laws: Sequence[Sequence[tuple[Floats, Floats]]], cuts: Floats, *, paired: bool
    ) -> _Supposed:
        """Of each claim, bets on some laws: masses with and without the canary."""
        made = []
        for claim, own in zip(claims, laws, strict=True):
            left, right = (np.stack(side) for side in zip(*own, strict=True))
            made.append(_projected(claim, left, right))
        left, right = (np.concatenate([getattr(one, side) for one in made]) for side in ("left", "right"))
        return cls(cuts, left, right, paired, np.zeros(len(left)))

    def add(self, left: float, right: float) -> None:
        x, y = (_cell(self.cuts, side) for side in (left, right))
        a, b = self.left, self.right
        gains = a[:, x] + b[:, y]
        if self.paired:  # as `hedged` of these two cells
            least = np.exp(a.min(1)) + np.exp(b.min(1))
            part = np.where(least < 2, np.minimum(2.0, 0.95 / np.maximum(1 - least / 2, 1e-9)), 2.0)
            gains = np.log1p(part * ((np.exp(a[:, x]) + np.exp(b[:, y])) / 2 - 1))
        self.wealth += gains - ROUNDING


def _projected(claim: Claim, left: Floats, right: Floats) -> Bets:
    """Bets on some laws against one claim."""
    with np.errstate(all="ignore"):  # e^epsilon of a large mu is large
        return project(Regions.of([claim])[np.zeros(len(left), dtype=np.int64)], left, right, runs=RUNS)


def _cell(cuts: Floats, number: float) -> int:
    """The cell of a number; that of NaN is the last one."""
    return cuts.size - 1 if math.isnan(number) else int(np.searchsorted(cuts[1:-1], number, side="right"))


def _cuts(mu: float) -> Floats:
    inner = np.linspace(-TAIL, min(mu, 2 * TAIL) + TAIL, CELLS)
    return np.concatenate([[-np.inf], inner, [np.inf]])


class StepWealth:
    """The evidence of the steps of one training, while it is gathered.

    `paired`: the two gradients of a step may have noise in common; that of different steps is fresh in any case."""

    def __init__(self, claim: StepClaim, alpha: Fraction, *, paired: bool = False) -> None:
        self.claim, self.alpha = claim, alpha
        edges, point = claim.target.edges, claim.target.point
        self._law = None if claim.guarantee.is_point else claim.law
        share = 1 - SUPPOSED if self._law else Fraction(1)
        self._shares = (math.log(1 - share) if self._law else -math.inf, math.log(share))
        self._engine = Engine(
            edges,
            alpha * share,
            lambda *_: _SCORES,
            point=(float(point.epsilon), float(point.delta)),
            paired=paired,
        )
        self._supposed = None if self._law is None else _on_less_noise(self._law, edges, paired=paired)
        self._family = None if self._law is None else _Family(self._law, alpha, paired=paired)
        self.steps = 0
        self.fell_after: int | None = None
        self._best = 0.0
        self._level = -math.log(alpha) * (1 + 1e-12)
        self._path: list[tuple[int, float, float]] = []
        self._waiting: tuple[list[float], list[float]] = ([], [])
        self._seen: tuple[list[float], list[float]] = ([], [])

    def pair(self) -> None:
        """From the next step on the noise of both gradients may be one. Which step that is must depend on no noise of
        that step or of a later one."""
        if self._engine.paired:
            return
        self._end_block()
        self._engine.paired = True
        for bets in (self._supposed, None if self._family is None else self._family.bets):
            if bets is not None:
                bets.paired = True

    def add(self, left: float, right: float) -> None:
        """One step: where its noisy gradient lies along the canary, with and without it."""
        for waiting, side in zip(self._waiting, (left, right), strict=True):
            waiting.append(side)
        self.steps += 1
        if self._supposed is not None and self._family is not None:
            self._supposed.add(left, right)
            self._family.add(left, right)
            self._look(self._shares[0] + self._of_supposed)
        if len(self._waiting[0]) == self._engine.next_pairs:
            self._end_block()

    @property
    def _of_supposed(self) -> float:
        assert self._supposed is not None, "bets on a law"
        return float(np.logaddexp.reduce(np.log(WEIGHTS) + self._supposed.wealth))

    def _end_block(self) -> None:
        if not self._waiting[0]:
            return
        plan = self._engine.plan()
        with np.errstate(all="ignore"):
            self._engine.settle(*(plan.read(encode(side)) for side in self._waiting))
        for seen, waiting in zip(self._seen, self._waiting, strict=True):
            seen.extend(waiting)
            waiting.clear()
        now = self._shares[1] + self._engine.log_wealth
        if self._supposed is not None:
            now = float(np.logaddexp(now, self._shares[0] + self._of_supposed))
        self._look(now)
        self._look(self._shares[1] + self._engine.best_log_wealth)
        if self._engine.refuted is not None and self.fell_after is None:
            self.fell_after = self._engine.refuted
        self._path.append((self.steps, now, self._best))

    def _look(self, wealth: float) -> None:
        """At a wealth that there is now, or a part of it."""
        self._best = max(self._best, wealth)
        if wealth >= self._level and self.fell_after is None and not self.claim.guarantee.is_point:
            self.fell_after = self.steps

    def evidence(self) -> Evidence:
        """What the steps so far say."""
        self._end_block()
        engine, found = self._engine, self._engine.power()
        sides = [encode(side) for side in self._seen]
        lower = engine.epsilon_lower or 0.0
        supposed = () if self._law is None else (BudgetShare("Gaussian steps with less noise", self.alpha * SUPPOSED),)
        return Evidence(
            alpha=self.alpha,
            trials=(self.steps, self.steps),
            fell_after=self.fell_after,
            epsilon_lower=decimals.round_down(lower),
            log_wealth=self._best,
            path=tuple(self._path),
            budget=(*supposed, *engine.budget),
            witness=witness_of(engine),
            power=self._power(found.stretched),
            rare_event=found.event,
            blind=blindness(*sides) if self.fell_after is None else None,
            float_leak=None,
            mu_lower=None if self._family is None else self._family.mu_lower,
        )

    def _power(self, seen: float | None) -> Power | None:
        """Of a Gaussian step: the least epsilon of one with less noise that so many steps refute."""
        claimed = self.claim.target.point
        if self._law is None:
            epsilon = None if seen is None else max(decimals.round_up(seen), claimed.epsilon)
        else:
            factor = least_refuted(self.claim, self.alpha, self.steps)
            epsilon = None if factor is None else _epsilon_of(self._law, factor, claimed.delta)
        return None if epsilon is None else Power(epsilon=epsilon, probability=POWER)


class _Family:
    """Which of the laws of one family are refuted: each mu of a grid has a wealth of its own, and all up to `mu_lower`
    have fallen. The chance that a mu falls of which the steps keep the curve is at most alpha (docs/proofs/audit.md 6:
    whoever keeps the curve of a mu keeps that of a larger one)."""

    def __init__(self, law: StepLaw, alpha: Fraction, *, paired: bool) -> None:
        self._mus, made = _of_family(law)
        self.bets = replace(made, paired=paired, wealth=np.zeros(len(made.left)))
        self._level = -math.log(alpha) * (1 + 1e-12)
        self._fallen = np.zeros(len(self._mus), dtype=bool)

    def add(self, left: float, right: float) -> None:
        self.bets.add(left, right)
        held = self.bets.wealth.reshape(len(self._mus), -1) + np.log(WEIGHTS)
        self._fallen |= np.logaddexp.reduce(held, axis=1) >= self._level

    @property
    def mu_lower(self) -> Decimal | None:
        """The largest mu up to which all have fallen; None where none has."""
        standing = np.flatnonzero(~self._fallen)
        first = int(standing[0]) if standing.size else len(self._mus)
        return decimals.round_down(self._mus[first - 1]) if first else None


def least_refuted(claim: StepClaim, alpha: Fraction, steps: int) -> float | None:
    """About the least factor by which noise must be less than claimed for so many steps to refute the claim with
    probability 0.9; None where none is seen, or the claim is that of no Gaussian step. Known before a step is taken,
    and no bound: it is what is to be expected."""
    law = claim.law
    if law is None or claim.guarantee.is_point or not steps:
        return None
    nats = needed(float(alpha * SUPPOSED), LEARNT) / steps
    edges = claim.target.edges

    def grows(factor: float) -> bool:
        left, right = law.masses(_cuts(law.mu * factor), factor)
        return float(_projected(edges, left[None], right[None]).growth[0]) >= nats

    low, high = 1.0, MOST
    if not grows(high):
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if grows(middle) else (middle, high)
    return high


@functools.lru_cache(maxsize=16)
def _of_family(law: StepLaw) -> tuple[tuple[float, ...], _Supposed]:
    """The grid of mu, and bets against each of its claims."""
    factors = (FIRST * STEP ** np.arange(int(math.log(LAST / FIRST) / math.log(STEP)) + 1)).tolist()
    cuts = _cuts(law.mu)
    claims = [one for one in (_tested(law, factor) for factor in factors) if one.point.epsilon <= MOST_TESTED]
    factors = factors[: len(claims)]
    laws = [[law.masses(cuts, mine * more) for more in FACTORS] for mine in factors]
    made = _Supposed.on([one.edges for one in claims], laws, cuts, paired=False)
    return tuple(law.mu * factor for factor in factors), made


def _on_less_noise(law: StepLaw, edges: Claim, *, paired: bool) -> _Supposed:
    cuts = _cuts(law.mu)
    return _Supposed.on([edges], [[law.masses(cuts, factor) for factor in FACTORS]], cuts, paired=paired)


def _tested(law: StepLaw, factor: float) -> AuditTarget:
    """The curve of a law at its knots."""
    return target(GDP(decimals.round_up(law.mu * factor)), law.parts(factor), Relation.ADD_REMOVE, None)


def _epsilon_of(law: StepLaw, factor: float, delta: Decimal) -> Decimal:
    """The epsilon of one step with so much less noise, rounded up: it is said of a power."""
    return decimals.round_up(compose(law.parts(factor), relation=Relation.ADD_REMOVE).epsilon(delta).upper)
