"""Cases that an adversarial reader found: each was wrong once."""

import math
from decimal import Decimal

import pytest

from dpledger.accounting.composition import (
    PmfPair,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    SparseVectorLaw,
    SparseVectorOutcome,
    planned,
)
from dpledger.accounting.guarantees import ApproxDP, BoundedRange
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
