"""What is published of a run on a secret batch gives nothing back."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpledger.accounting.composition import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.pricing.outcomes import planned
from dpledger.accounting.rules import cost
from dpledger.relations import Relation

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
