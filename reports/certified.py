"""What the engine answers for a report: each question asked once, and only so many of them.

A report shows bounds and computes none. Where no theorem gives one, or too many were asked for, the answer is None, and
the report says unknown, and which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from types import MappingProxyType

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.profile import Bounds, Profile, compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from dpledger.reports.explain import LARGEST, PRECISION, Odds, missed_at_least, odds
from dpledger.reports.model import CurvePoint

__all__ = ["ALPHAS", "MOST", "CertifiedProfiles", "curve_of_guarantee"]

MOST = 48  # distinct trees that one report composes; more would make a report of a long ledger slow
ALPHAS = tuple(
    Decimal(rate) for rate in ("0", "0.02", "0.05", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9")
)
"""False-positive rates at which a curve is drawn, before its end."""
NOTHING: Mapping[tuple[Composition, Relation], Profile | None] = MappingProxyType({})
END = CurvePoint(Decimal(1), Decimal(0))


class CertifiedProfiles:
    """The profiles of one report, by tree and relation. Trees beyond the first MOST have no answer."""

    def __init__(self, known: Mapping[tuple[Composition, Relation], Profile | None] = NOTHING) -> None:
        self._known = known
        self._profiles: dict[tuple[Composition, Relation], Profile | None] = {}

    def with_room(self) -> CertifiedProfiles:
        """One that has answered nothing yet of its own MOST, and knows what this one was asked."""
        return CertifiedProfiles(self._profiles)

    def was_asked(self, tree: Composition, relation: Relation) -> bool:
        """Whether the engine was asked: if it was not, too many others were before."""
        return (tree, relation) in self._known or (tree, relation) in self._profiles

    def profile(self, tree: Composition, relation: Relation) -> Profile | None:
        """The certified profile of `tree`; None where no theorem gives one, or where too many were asked for."""
        key = (tree, relation)
        if key in self._known:
            return self._known[key]
        if key not in self._profiles:
            if len(self._profiles) >= MOST:
                return None
            try:
                self._profiles[key] = compose(tree, relation=relation)
            except CannotCertify:
                self._profiles[key] = None
        return self._profiles[key]

    def epsilon(self, tree: Composition, relation: Relation, delta: Decimal) -> Bounds | None:
        """Both bounds of epsilon at `delta`; None where there is no certified one."""
        profile = self.profile(tree, relation)
        try:
            return None if profile is None else profile.epsilon(delta)
        except CannotCertify:
            return None

    def claimed_epsilon(self, claim: Guarantee, relation: Relation, delta: Decimal) -> Decimal | None:
        """The least epsilon, rounded up, that `claim` is known to promise at `delta`; None where there is none."""
        if claim.is_point:
            stated = claim.epsilon_at(delta)
            return None if stated.is_infinite() else stated
        found = self.epsilon(claim, relation, delta)
        upper = decimals.INFINITY if found is None else decimals.round_up(found.upper)
        return None if upper.is_infinite() else upper

    def odds(self, tree: Composition, relation: Relation, delta: Decimal) -> Odds | None:
        """What `tree` alone lets somebody learn; None where there is no certified answer."""
        profile = self.profile(tree, relation)
        try:
            return None if profile is None else odds(profile, delta)
        except CannotCertify:
            return None

    def curve(self, tree: Composition, relation: Relation) -> tuple[CurvePoint, ...]:
        """Points of the trade-off curve, each rounded down; none where there is no certified answer."""
        profile = self.profile(tree, relation)
        if profile is None:
            return ()
        try:
            missed = [decimals.round_down(bounds.lower, digits=6) for bounds in profile.tradeoffs(ALPHAS)]
        except CannotCertify:
            return ()
        return (*(CurvePoint(alpha, beta) for alpha, beta in zip(ALPHAS, missed, strict=True)), END)


def curve_of_guarantee(epsilon: Decimal, delta: Decimal) -> tuple[CurvePoint, ...]:
    """The trade-off curve of (epsilon, delta)-DP: two straight lines that meet where both error rates are equal."""
    alphas = sorted({*ALPHAS, _meeting(epsilon, delta)})
    missed = (decimals.round_down(missed_at_least(epsilon, delta, alpha), digits=6) for alpha in alphas)
    return (*(CurvePoint(alpha, beta) for alpha, beta in zip(alphas, missed, strict=True)), END)


def _meeting(epsilon: Decimal, delta: Decimal) -> Decimal:
    with localcontext(decimals.own_context(PRECISION)):
        raised = min(epsilon, LARGEST).exp()
        return decimals.round_down((1 - delta) / (1 + raised), digits=6)
