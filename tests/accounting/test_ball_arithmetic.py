"""`verify="arb"`: answers confirmed in ball arithmetic, wrong ones refused, a clear word where it cannot be done."""

import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.balls import checked_delta, checked_epsilon
from dpledger.accounting.guarantees import ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.lowering import PldList, read_losses
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from engine_oracles import gaussian_delta, mp

pytestmark = pytest.mark.sliced

STEP = PoissonSampled(GaussianLaw(1), rate="0.01")
CASES: list[tuple[Composition, str]] = [
    (Repeated(STEP, times=1000), "1e-5"),
    (Repeated(PoissonSampled(GaussianLaw("0.8"), rate="0.001"), times=10**6), "1e-8"),
    (Repeated(STEP, times=10**5), "1e-300"),
    (Repeated(GaussianLaw(10), times=100), "1e-6"),
    (Repeated(LaplaceLaw("0.1"), times=500), "1e-6"),
    (Repeated(BoundedRange("0.2"), times=100), "1e-6"),
    (Repeated(PureDP("0.1"), times=300), "1e-6"),
    (Sequence((Repeated(STEP, times=400), Repeated(ApproxDP("0.05", "1e-9"), times=3), GaussianLaw(4))), "1e-5"),
]


def losses(tree: Composition) -> PldList:
    (found,) = read_losses(tree, Relation.ADD_REMOVE, "remove")
    return found


@pytest.mark.parametrize(("tree", "delta"), CASES, ids=range(len(CASES)))
def test_the_engine_is_confirmed(tree: Composition, delta: str) -> None:
    found, checked = compose(tree).epsilon(delta), compose(tree, verify="arb").epsilon(delta)
    assert checked.lower <= found.lower <= found.upper <= checked.upper
    if "BoundedRange" not in str(tree):  # which are confirmed by their envelope
        assert checked.upper - checked.lower <= max(2 * (found.upper - found.lower), 1e-6 * found.upper)
    point = compose(tree, verify="arb").delta(found.upper)
    assert 0 < point.lower <= point.upper
    assert Decimal(point.lower) <= Decimal(delta) * (1 + Decimal("1e-9"))


@settings(max_examples=10, deadline=None)
@given(st.floats(0.5, 20), st.integers(1, 1000), st.floats(0.0, 8.0))
def test_ball_arithmetic_encloses_the_closed_form_of_a_gaussian(noise: float, times: int, epsilon: float) -> None:
    """Balle-Wang 2018, Theorem 8. An oracle for the checker itself, which shares its formulas with no engine."""
    what = losses(Repeated(GaussianLaw(noise), times=times))
    (((law, _),), mu_squared) = what.losses, what.losses[0][0].cumulants(1.0).variance
    assert law.largest == float("inf")
    exact = gaussian_delta(mp.sqrt(mp.mpf(mu_squared)), mp.mpf(epsilon))
    found = checked_delta(what, Interval(0.0, 1.0), epsilon)
    assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)


def test_a_bound_that_is_wrong_is_not_confirmed() -> None:
    """What dp-accounting 0.6.0 returns as an upper bound (docs/peers.md), and a lower bound above the truth."""
    what = losses(Repeated(PoissonSampled(GaussianLaw(2), rate="0.05"), times=5000))
    delta = Decimal("1e-12")
    assert checked_epsilon(what, Interval(14.92, 14.93), delta) == Interval(14.92, 14.93)
    with pytest.raises(CannotCertify, match=r"does not confirm the bound 14\.8"):
        checked_epsilon(what, Interval(0.0, 14.8), delta)
    with pytest.raises(CannotCertify, match=r"does not confirm the bound 15\.1"):
        checked_epsilon(what, Interval(15.1, 15.2), delta)
    with pytest.raises(CannotCertify, match="ball arithmetic gives delta"):
        checked_delta(what, Interval(2e-12, 3e-12), 14.93)


CLOSED = [
    GaussianLaw("1e-15"),
    GaussianLaw(1),
    GaussianLaw("1e9"),
    Repeated(GaussianLaw(1), times=10**12),
    LaplaceLaw(1),
    BoundedRange(1),
    PoissonSampled(GaussianLaw("0.5"), rate="0.01"),
]


@pytest.mark.parametrize("tree", CLOSED, ids=str)
@pytest.mark.parametrize("delta", ["1e-5", "1e-50"])
def test_closed_forms_are_confirmed_as_they_are(tree: Composition, delta: str) -> None:
    """Two evaluations that share no code: neither end is moved."""
    assert compose(tree, verify="arb").epsilon(delta) == compose(tree).epsilon(delta)


@pytest.mark.parametrize("tree", CLOSED, ids=str)
def test_a_closed_form_that_is_wrong_is_not_confirmed(tree: Composition) -> None:
    (what, *_), found = compose(tree).cases, compose(tree, direction="remove").epsilon("1e-40")
    with pytest.raises(CannotCertify, match="does not confirm"):
        checked_epsilon(what, Interval(0.0, 0.99 * found.lower), Decimal("1e-40"))


def test_finite_losses_are_taken_as_they_are_where_they_are_finite() -> None:
    """delta(x) of n (epsilon, delta)-DP runs is 1 - (1 - delta)^n (1 - that of n randomised responses)."""
    runs, x = 100, 1
    with mp.workdps(30):
        keeps = 1 / (1 + mp.exp(mp.mpf("-0.1")))
        losses = (
            (mp.binomial(runs, k) * keeps**k * (1 - keeps) ** (runs - k), (2 * k - runs) / mp.mpf(10))
            for k in range(runs + 1)
        )
        finite = mp.fsum(mass * max(0, 1 - mp.exp(x - loss)) for mass, loss in losses)
        truth = float(1 - (1 - mp.mpf("0.0001")) ** runs * (1 - finite))
    tree = Repeated(ApproxDP("0.1", "0.0001"), times=runs)
    found = compose(tree, verify="arb").delta(x)
    assert found.lower <= truth <= found.upper <= truth * 1.001
    (case,) = compose(tree).cases
    epsilon = compose(tree).epsilon("0.05").upper
    told = checked_epsilon(case, Interval(0.0, epsilon * (1 - 3e-4)), Decimal("0.05"))  # below the true one
    assert told.upper >= compose(tree).epsilon("0.05").lower


def test_what_has_no_contour_says_so() -> None:
    for tree, delta in ((ZCDP("0.1"), "1e-5"), (ApproxDP(1, "1e-5"), "1e-6"), (PureDP(1), "0")):
        with pytest.raises(CannotCertify):
            compose(tree, verify="arb").epsilon(delta)
    with pytest.raises(ParameterError, match="verify"):
        compose(STEP, verify="mpmath")  # type: ignore[arg-type]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ParameterError, match=r"dpledger\[arb\]"):
        compose(STEP, verify="arb").epsilon("1e-5")
    assert compose(STEP).epsilon("1e-5").upper > 0
