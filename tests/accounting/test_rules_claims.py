"""A claim is checked in its own currency, with both numbers in the message; what cannot be shown is not accepted."""

from decimal import Decimal

import pytest

from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
)
from dpledger.accounting.families.sparse_vector.scales import sparse_vector_law
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.planning.calibration import calibrate
from dpledger.accounting.rules import check
from dpledger.errors import CannotCertify, ClaimTooSmall
from dpledger.relations import Relation

ADD = Relation.ADD_REMOVE
TWO = Sequence((LaplaceLaw("0.1"), LaplaceLaw("0.2")))


@pytest.mark.parametrize(
    ("enough", "too_small", "tree"),
    [
        (PureDP("0.3"), PureDP("0.2999999999"), TWO),
        (ApproxDP("0.3", 0), ApproxDP("0.29", 0), TWO),
        (ApproxDP(2, "2e-6"), ApproxDP(2, "1.9e-6"), Repeated(ApproxDP(1, "1e-6"), times=2)),
        (ZCDP("0.5"), ZCDP("0.4999999"), Repeated(GaussianLaw(2), times=4)),
        (ZCDP("0.2", "1e-9"), ZCDP("0.2", "1e-10"), ZCDP("0.2", "1e-9")),
        (GDP("0.333333333334"), GDP("0.333333333333"), GaussianLaw(3)),
        (RDP((2, 8), (1, 4)), RDP((2, 8), ("0.999", 4)), Repeated(GaussianLaw(2), times=4)),
        (RDP((2, 8), (1, 4)), RDP((2, 8), (1, "3.99")), Repeated(GaussianLaw(2), times=4)),
        (BoundedRange(1), BoundedRange("0.9"), BoundedRange(1)),
    ],
)
def test_a_claim_holds_exactly_up_to_what_its_parts_compose_to(
    enough: Guarantee, too_small: Guarantee, tree: Composition
) -> None:
    check(enough, tree, ADD)
    with pytest.raises(ClaimTooSmall, match=r"claimed .* the parts compose to"):
        check(too_small, tree, ADD)


CURVE = PrivacyCurve(("1", "2", "3"), ("1e-9", "1e-12", "1e-15"), ("1e-10", "1e-13", "0"))


@pytest.mark.parametrize(
    "claim",
    [
        ApproxDP("1", "1e-9"),
        ApproxDP("2.5", "1e-12"),
        ApproxDP("3", "1e-15"),
        PrivacyCurve(("2",), ("1e-12",)),
        PrivacyCurve(("1", "3"), ("1e-9", "1.5e-15")),
        PrivacyCurve(("0.5", "2"), ("0.5", "1e-12"), ("1e-10", "1e-13")),
        CURVE,
    ],
)
def test_what_a_curve_states_is_kept_to_the_last_digit(claim: Guarantee) -> None:
    check(claim, CURVE, ADD)


@pytest.mark.parametrize(
    "claim",
    [
        ApproxDP("1", "0.99999e-9"),
        ApproxDP("0.99999", "1e-9"),
        PrivacyCurve(("1", "2"), ("1e-9", "0.99999e-12")),
        PrivacyCurve(("2",), ("1e-12",), ("1.01e-13",)),
        PrivacyCurve(("3",), ("1e-15",), ("1e-20",)),
    ],
)
def test_what_a_curve_does_not_state_is_no_claim(claim: Guarantee) -> None:
    with pytest.raises((ClaimTooSmall, CannotCertify)):
        check(claim, CURVE, ADD)


def test_a_curve_is_claimed_of_sums_to_the_last_digit() -> None:
    parts = Repeated(ApproxDP("0.1", "1e-9"), times=3)
    check(PrivacyCurve(("0.3",), ("3e-9",)), parts, ADD)
    with pytest.raises(ClaimTooSmall):
        check(PrivacyCurve(("0.3",), ("2e-9",)), parts, ADD)


def test_an_approximate_claim_may_use_the_certified_profile_of_its_parts() -> None:
    """99 subsampled Gaussian steps have no pure price at all; many Laplaces compose to less than their sum."""
    training = Repeated(PoissonSampled(GaussianLaw(4), rate="0.15"), times=99)
    check(ApproxDP("1.9", "1e-6"), training, ADD)
    with pytest.raises(ClaimTooSmall, match=r"claimed delta at epsilon 1\.5 0\.000001, the parts compose to"):
        check(ApproxDP("1.5", "1e-6"), training, ADD)
    check(ApproxDP("2.5", "1e-3"), Repeated(LaplaceLaw("0.1"), times=50), ADD)
    with pytest.raises(ClaimTooSmall):
        check(ApproxDP("1.5", "1e-9"), Repeated(LaplaceLaw("0.1"), times=50), ADD)


@pytest.mark.parametrize("rate", ["0.001", "0.01", "0.1"])
@pytest.mark.parametrize("steps", [2, 100, 3000])
def test_what_was_calibrated_by_epsilon_may_be_claimed(rate: str, steps: int) -> None:
    """The two readings of a profile have bounds of their own; a claim holds that one of them shows."""

    def training(noise: Decimal) -> Repeated:
        return Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)

    claim = ApproxDP(2, "1e-6")
    least = calibrate(training, claim)
    check(claim, training(least), Relation.ADD_REMOVE)
    with pytest.raises(ClaimTooSmall, match="delta at epsilon 2"):
        check(claim, training(least * Decimal("0.99")), Relation.ADD_REMOVE)


def test_a_pure_claim_is_not_met_by_a_delta() -> None:
    with pytest.raises(ClaimTooSmall, match=r"claimed delta 0, the parts compose to delta 0\.000001"):
        check(PureDP(1), ApproxDP(1, "1e-6"), ADD)


@pytest.mark.parametrize(
    ("claim", "tree"),
    [
        (PureDP(10), GaussianLaw(100)),
        (GDP(10), ZCDP("0.001")),
        (ZCDP(10), RDP((2,), ("0.1",))),
        (RDP((3,), (1,)), RDP((2,), ("0.1",))),
        (BoundedRange(10), PureDP(1)),
        (ZCDP(10), PoissonSampled(RDP((2,), ("0.1",)), rate="0.1")),
    ],
)
def test_what_no_theorem_shows_is_not_accepted(claim: Guarantee, tree: Composition) -> None:
    with pytest.raises(CannotCertify):
        check(claim, tree, ADD)


def test_a_claim_depends_on_the_relation() -> None:
    check(GDP("0.5"), GaussianLaw(2), ADD)
    with pytest.raises(ClaimTooSmall):
        check(GDP("0.5"), GaussianLaw(2), Relation.REPLACE_ONE)
    check(GDP(1), GaussianLaw(2), Relation.REPLACE_ONE)


def test_a_sparse_vector_is_checked_down_to_its_scales() -> None:
    law = sparse_vector_law(Decimal(1), Decimal("1e-6"), 20, "target_charging")
    check(ApproxDP(1, "1e-6"), law, ADD)
    for fewer in (law.query_scale * Decimal("0.999"), law.query_scale / 2):
        twin = SparseVectorLaw(law.mode, law.cutoff, law.epsilon, law.delta, 0, fewer, law.calls)
        with pytest.raises(ClaimTooSmall, match="its scales give"):
            check(ApproxDP(1, "1e-6"), twin, ADD)


def test_post_processing_keeps_a_claim() -> None:
    check(PureDP("0.3"), PostProcessed(TWO), ADD)
