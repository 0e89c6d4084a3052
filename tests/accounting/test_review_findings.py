"""Cases that an adversarial reader found: each was wrong once."""

import math
from decimal import Decimal

import pytest
from mpmath import mp

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    GaussianLaw,
    PmfPair,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.guarantees import ApproxDP, BoundedRange, PureDP
from dpledger.accounting.outcomes import planned
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import cost
from dpledger.relations import Relation

RATES = ["0.999999999", "0.9999999999", "0.999999999997", "0.99999999999992567"]


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_close_to_one_does_not_hide_what_the_right_side_alone_shows(rate: str) -> None:
    """Left is outcome 0 for sure; right is either. Sampled and turned round, outcome 1 has the loss -log(1 - rate)."""
    pair = PoissonSampled(PmfPair(("1", "0"), ("0.5", "0.5")), rate)
    exact = math.log((0.5 - 1e-10) / 0.5) - math.log(float(1 - Decimal(rate)))
    bounds = compose(pair, direction="add").epsilon("1e-10")
    assert bounds.lower <= exact + 1e-9
    assert bounds.upper >= exact - 1e-9


def test_so_for_a_promise_with_much_delta() -> None:
    tree = PoissonSampled(ApproxDP("1.369", "0.849"), "0.99999999999992567")
    assert compose(tree, direction="add").epsilon("1e-9").upper >= 30.230262


def test_two_bounded_ranges_have_no_lower_bound_that_no_mechanism_attains() -> None:
    """The best adaptive pair of 1-bounded-range mechanisms has delta 0.152452 at 0.5, one of 4 has 0.262093 at 5."""
    for eta, epsilon, worst in ((1, "0.5", 0.152452), (4, "5", 0.262093)):
        bounds = compose(Repeated(BoundedRange(eta), times=2)).delta(epsilon)
        assert bounds.lower <= worst <= bounds.upper


SPARSE = SparseVectorLaw(
    mode="basic",
    cutoff=10,
    epsilon=10,
    delta=0,
    threshold_scale=2,
    query_scale=4,
    outcome=SparseVectorOutcome(closed_epochs=(1,), open_epoch=0, halted=False),
)


@pytest.mark.parametrize(
    ("tree", "relation"),
    [
        (PoissonSampled(SPARSE, "0.5"), Relation.ADD_REMOVE),
        (SampledWithoutReplacement(SPARSE, population=10, batch=5), Relation.REPLACE_ONE),
        (RandomAllocation(SPARSE, steps=5), Relation.ADD_REMOVE),
    ],
)
def test_an_outcome_below_a_secret_draw_refunds_nothing(tree: PoissonSampled, relation: Relation) -> None:
    """A realised loss is no price in zCDP, nor is one run's outcome that of five."""
    order = (Decimal(5),)
    assert cost(tree, relation, orders=order) == cost(planned(tree), relation, orders=order)


# ---- the accountant -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [BoundedRange("1"), BoundedRange("0.3")], ids=str)
def test_an_accountant_says_no_more_of_bounded_ranges_than_is_attained(leaf: BoundedRange) -> None:
    """Each alone is attained by a mechanism; that all of them are at once is another claim."""
    accountant = Accountant("1e-5")
    for more, times in ((1, 1), (1, 2), (8, 10)):
        found = accountant.append(leaf, more)
        assert found == compose(Repeated(leaf, times=times)).epsilon("1e-5")


def test_two_bounded_ranges_cost_less_than_their_envelope_twice() -> None:
    """The optimum of the adaptive adversary, by recursion over the two positions, is 8.93e-6 at 1.9538."""
    accountant = Accountant("1e-5")
    accountant.append(BoundedRange("1"))
    assert accountant.append(BoundedRange("1")).lower < 1.9538


def test_where_only_failures_are_spent() -> None:
    assert Accountant("0.2").append(ApproxDP(0, "1e-6")).upper == 0
    failures = Sequence(tuple(ApproxDP(0, f"0.00{i}") for i in range(10, 32)))
    assert compose(failures).epsilon("0.5").upper == 0


def test_an_append_that_breaks_appends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant("1e-5")
    before = accountant.append(PureDP("0.1"), 3)
    written = accountant.record()
    with monkeypatch.context() as patched:
        patched.setattr(Accountant, "_answered", out_of_memory)
        with pytest.raises(MemoryError):
            accountant.append(PureDP("0.2"))
    assert accountant.epsilon == before
    assert accountant.record()["document"] == written["document"]
    again = accountant.append(PureDP("0.1"))
    whole = compose(Repeated(PureDP("0.1"), times=4)).epsilon("1e-5")
    assert max(again.lower, whole.lower) <= min(again.upper, whole.upper)
    assert again.upper <= whole.upper * (1 + 1e-4)


def out_of_memory(accountant: Accountant) -> None:
    raise MemoryError


# ---- ball arithmetic ------------------------------------------------------------------------------------------------


def test_ball_arithmetic_moves_no_end_inward() -> None:
    """It knows the rate as a double, which is not the decimal: a closed form is narrower than that."""
    tree = PoissonSampled(GaussianLaw("2399.45"), rate="0.509713")
    exact = mp.mpf("8.474694830007585791e-05")
    plain, checked = (compose(tree, direction="add", verify=how).delta(0) for how in (None, "arb"))
    assert checked.lower <= plain.lower < exact < plain.upper <= checked.upper
