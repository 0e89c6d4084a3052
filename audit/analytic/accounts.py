"""What an accountant says, composed again from the parameters of what ran, and compared.

Both bounds of a composition are certified, so the answer is certain, or it is that the claim lies between the two.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
>>> from dpledger.accounting.guarantees import ApproxDP
>>> steps = Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=1000)
>>> audit_account(steps, ApproxDP(2, "1e-6")).verdict
'violation'
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from dpledger import decimals
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee, words_of
from dpledger.accounting.profile import Bounds, Profile, compose
from dpledger.accounting.rules import check
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.tested.claims import ClaimPoint, target
from dpledger.audit.tested.subjects import claim_of, named
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.entries.members import MechanismNote, RefutedPoint, Step
from dpledger.notebooks import summary
from dpledger.relations import Relation
from dpledger.schema import one_text, plain

__all__ = ["AccountAudit", "audit_account"]

METHOD = "account"
CERTAIN = Decimal("0.999999999999")  # of an entry, which asks for a number below 1; nothing is left to chance
MOST = Decimal(10**6)  # of an entry, in the place of an infinite epsilon, which is at least this


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AccountAudit:
    """A claim beside what `dpl.compose` certifies. Neither true nor false: compare `verdict`.

    `bounds`: of epsilon at `delta`, that of the claim (10^-5 where it names none). `refuted`: the point of the claim
    that lies below what is lost at least; None where none does. `is_kept`: whether the claim follows from the parts.

    >>> kept = dpl.analytic.audit_account(dpl.LaplaceLaw("0.5"), dpl.PureDP("0.5"))
    >>> kept.verdict, kept.is_kept
    ('not_refuted', True)
    """

    mechanism: MechanismNote
    claim: Guarantee
    relation: Relation
    bounds: Bounds
    delta: Decimal
    refuted: ClaimPoint | None
    lost: Decimal
    is_kept: bool

    @property
    def verdict(self) -> Literal["violation", "not_refuted"]:
        """`violation`: the parts lose more than is claimed, for certain. `not_refuted`: they do not, or it cannot be
        told (`is_kept`)."""
        return "not_refuted" if self.refuted is None else "violation"

    def __bool__(self) -> bool:
        raise TypeError("an AccountAudit is neither true nor false: compare result.verdict, or ask is_kept")

    def __repr__(self) -> str:
        return f"<AccountAudit: {self._head()}>"

    def __str__(self) -> str:
        return f"{self._head()}\n{self._bounds()}"

    def _repr_html_(self) -> str:
        return summary("AccountAudit", [("verdict", self._head()), ("certified", self._bounds())])

    def _head(self) -> str:
        claimed = words_of(self.claim)
        if self.refuted is not None:
            least = decimals.text(decimals.round_down(self.lost, digits=6))
            at = f"at delta {float(self.refuted.delta):.3g} epsilon is at least {least}"
            allowed = f"{float(self.refuted.epsilon):.6g} is claimed"
            return f"violation: {claimed} is refuted, for certain: {at}, and {allowed}"
        if self.is_kept:
            return f"not refuted: {claimed} follows from what was composed (if that is what the code does)"
        return f"not refuted: {claimed} lies between the two bounds, so the answer is unknown"

    def _bounds(self) -> str:
        return f"epsilon at delta {float(self.delta):.3g} is in {self.bounds:.6g}"

    def body(self, path: tuple[Step, ...] = ()) -> Audited:
        """The result as a ledger entry holds it: no runs, the method `account`. `path`: the scope it is about, if
        any."""
        fell = self.refuted
        point = None if fell is None else RefutedPoint(epsilon=fell.epsilon, delta=fell.delta, epsilon_lower=self.lost)
        return Audited(
            mechanism=self.mechanism,
            claim=self.claim,
            relation=self.relation,
            verdict=self.verdict,
            epsilon_lower=_finite(self.bounds.lower),
            delta=self.delta,
            confidence=CERTAIN,
            trials_left=0,
            trials_right=0,
            event="composed again from its parameters; nothing was run",
            method=METHOD,
            refuted=point,
            path=path,
        )

    def to_json(self) -> str:
        """The whole result as JSON. Numbers are text."""
        document: dict[str, Any] = {
            "verdict": self.verdict,
            "is_kept": self.is_kept,
            "claim": plain(self.claim),
            "relation": self.relation.value,
            "delta": decimals.text(self.delta),
            "epsilon": {"lower": repr(self.bounds.lower), "upper": repr(self.bounds.upper)},
        }
        return json.dumps(document, indent=2)


def audit_account(
    what: Composable,
    claim: Guarantee,
    *,
    relation: Relation | str | None = None,
    name: str = "account",
) -> AccountAudit:
    """Compose `what` ran, and compare what it certifiably loses with the `claim` of an accountant about it.

    `what`: as `dpl.compose` takes it: a tree, a mechanism, a document, or a list of these and of pairs with counts.
    `claim`: a guarantee; of a curve (GDP, zCDP, RDP, a privacy curve) nine points are compared. `relation`: default:
    that of documents and mechanisms, or add_remove. `name`: what the entry calls it.

    Claim: of `violation`, that no epsilon as small as the refuted one is true of the composition at its delta; of
        `is_kept`, that the composition keeps the claim. Source: docs/proofs/engine.md; `accounting.rules.check`.
    Assumes: `what` is what the code does. ParameterError for a claim that is none; CannotCertify where no theorem
    covers the tree.

    >>> run = dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), times=1000)
    >>> found = dpl.analytic.audit_account(run, dpl.ApproxDP(2, "1e-6"))
    >>> found.verdict, round(float(found.lost), 3), found.bounds > 2
    ('violation', 2.125, True)
    """
    claimed = claim_of(claim)
    if isinstance(claimed, ExPostClaim):
        raise ParameterError("claim", "an ex-post claim", "a guarantee, like ApproxDP(1, '1e-6')")
    name = one_text(name, field="name")
    tree, under, direction = tree_of(what, relation=relation)
    profile = compose(tree, relation=under, direction=direction)
    aim = target(claimed, None, under, None)
    refuted, lost = _fallen(profile, aim.points)
    return AccountAudit(
        mechanism=named(name, {"parts": plain(tree)}),
        claim=claimed,
        relation=under,
        bounds=profile.epsilon(aim.point.delta),
        delta=aim.point.delta,
        refuted=refuted,
        lost=lost,
        is_kept=refuted is None and _follows(claimed, tree, under),
    )


def _fallen(profile: Profile, points: tuple[ClaimPoint, ...]) -> tuple[ClaimPoint | None, Decimal]:
    """The first point below what is lost at least, and that."""
    for point in points:
        lost = _finite(profile.epsilon(point.delta).lower)
        if lost > point.epsilon:
            return point, lost
    return None, decimals.ZERO


def _follows(claim: Guarantee, tree: Composition, relation: Relation) -> bool:
    try:
        check(claim, tree, relation)
    except (ClaimTooSmall, CannotCertify):
        return False
    return True


def _finite(epsilon: float) -> Decimal:
    return MOST if math.isinf(epsilon) else decimals.round_down(epsilon)
