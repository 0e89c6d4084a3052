"""A group of units may be spread over the parts of a parallel node."""

from __future__ import annotations

import pytest

from dpledger.accounting.composition import (
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PostProcessed,
    RandomizedResponseLaw,
    Repeated,
    Sequence,
)
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

RESPONSE = RandomizedResponseLaw(1)


@pytest.mark.parametrize(
    "parts",
    [
        Parallel((RESPONSE, RESPONSE)),
        Sequence((GaussianLaw(3), Parallel((RESPONSE, RESPONSE)))),
        Repeated(PostProcessed(Parallel((RESPONSE, RESPONSE))), times=3),
        Parallel((RESPONSE, LaplaceLaw(1))),
    ],
    ids=lambda tree: tree.kind,
)
def test_two_units_may_be_in_two_parts_that_are_alike(parts: Parallel) -> None:
    """Each part then answers differently: two randomised responses lose twice what one does."""
    with pytest.raises(CannotCertify, match="different parallel parts"):
        compose(Group(parts, k=2, relation=Relation.ADD_REMOVE), relation="add_remove")


def test_a_group_of_one_is_what_it_holds_in_parallel_too() -> None:
    parts = Parallel((RESPONSE, LaplaceLaw("0.5"), GaussianLaw(2)))
    alone = compose(parts).epsilon("1e-4")
    assert compose(Group(parts, k=1, relation=Relation.ADD_REMOVE)).epsilon("1e-4") == alone


def test_one_part_alone_may_hold_a_group() -> None:
    one = Group(Parallel((LaplaceLaw("0.5"),)), k=2, relation=Relation.ADD_REMOVE)
    assert compose(one).epsilon(0) == compose(LaplaceLaw(1)).epsilon(0)
    promised = Group(ApproxDP("0.5", "1e-6"), k=2, relation=Relation.ADD_REMOVE)
    assert compose(promised).epsilon("0.1").upper <= 1
