"""What an audit tests: the point at which a lower bound is reported, and the knots of a claim that is a whole curve.

A claim of epsilon at one delta is one point. A claim that is a curve (GDP, zCDP, RDP, bounded range, or the parts of a
mechanism) is also tested at knots: each says that the mechanism is (epsilon, delta)-DP, with the delta rounded up, so
a refuted knot refutes the curve. A refuted knot does not refute the point.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.audit.evidence.edges import Edges
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

if TYPE_CHECKING:
    from dpledger.accounting.profile import Profile

__all__ = ["DELTA_OF_CURVES", "MOST_TESTED", "AuditTarget", "ClaimPoint", "target"]

DELTA_OF_CURVES = Decimal("0.00001")  # where epsilon_lower is reported for a claim that names no delta
MOST_TESTED = 600  # epsilons above: no number of runs refutes them
KNOTS = 8  # as many come within 3 % of the runs that forty would need
SMALLEST_KNOT = 5e-5  # delta at the last knot


@dataclass(frozen=True, slots=True)
class ClaimPoint:
    """The statement: P(S) <= e^epsilon Q(S) + delta for every event S, both ways."""

    epsilon: Decimal
    delta: Decimal

    @property
    def words(self) -> str:
        return f"epsilon {float(self.epsilon):.6g} at delta {float(self.delta):.3g}"


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """What is tested. `point`: where epsilon_lower is reported. `knots`: further points of the claimed curve."""

    point: ClaimPoint
    knots: tuple[ClaimPoint, ...] = ()

    @property
    def points(self) -> tuple[ClaimPoint, ...]:
        """All of them, the first where epsilon_lower is reported."""
        return (self.point, *self.knots)

    @property
    def edges(self) -> Edges:
        """Everything that is claimed, as edges of one test.

        Claim: whoever satisfies all points keeps all edges. Source: docs/proofs/audit.md 3 and 5. ParameterError where
        no point has an epsilon of at most 600: e^600 runs would be needed."""
        points = [
            (decimals.float_up(point.epsilon), decimals.float_up(point.delta))
            for point in self.points
            if point.epsilon <= MOST_TESTED
        ]
        if not points:
            raise ParameterError("claim", self.point.words, f"an epsilon of at most {MOST_TESTED}")
        return Edges.of_points(points)


def target(claim: Guarantee, parts: Composition | None, relation: Relation, delta: Decimal | None) -> AuditTarget:
    """The points at which `claim`, and where given the curve of the mechanism's own `parts`, is tested.

    `delta`: where epsilon_lower is reported (None: the claim's own, or 10^-5 where it names none).
    Claim: whoever satisfies the claim and has the parts satisfies every point. Source: docs/proofs/audit.md 3.
    """
    curve = _curve(parts if parts is not None else claim, relation)
    own = claim.own_delta
    if delta is not None and own is not None and delta < own:
        least = "own" if claim.is_point else "least"
        raise ParameterError("delta", str(delta), f"at least the claim's {least}, {own}")
    if claim.is_point:
        at = claim.fails if delta is None else delta
        point = ClaimPoint(claim.epsilon_at(at), at)
    elif claim.points:
        at = max(DELTA_OF_CURVES, min(each.delta for each in claim.points)) if delta is None else delta
        point = ClaimPoint(claim.epsilon_at(at), at)
    else:
        at = DELTA_OF_CURVES if delta is None else delta
        if curve is None:
            raise CannotCertify(f"no privacy curve can be certified for the claim {claim.kind}")
        point = ClaimPoint(decimals.round_up(curve.epsilon(at).upper), at)
    return AuditTarget(point, () if curve is None else _knots(curve, point.epsilon))


def _curve(tree: Composition, relation: Relation) -> Profile | None:
    """The certified profile of what is claimed; None for a single point, or where none can be certified."""
    if isinstance(tree, (PureDP, ApproxDP)):
        return None
    from dpledger.accounting.profile import compose  # here: the engine is not loaded to audit a single point

    try:
        return compose(tree, relation=relation)
    except CannotCertify:
        return None


def _knots(curve: Profile, claimed: Decimal) -> tuple[ClaimPoint, ...]:
    """Points of the curve, even in epsilon from 0 to where its delta is small (else to the claimed epsilon)."""
    last = decimals.round_up(curve.epsilon(SMALLEST_KNOT).upper)
    top = claimed if last.is_infinite() else last
    steps = (decimals.round_up(float(top) * place / (KNOTS - 1)) for place in range(KNOTS))
    points = (ClaimPoint(epsilon, decimals.round_up(curve.delta(epsilon).upper)) for epsilon in steps)
    return tuple(dict.fromkeys(point for point in points if point.delta < 1))
