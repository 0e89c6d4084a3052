"""A part read as a weaker promise: taken where a formula gives it, refused where none does; what follows from it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpledger.accounting.composition import (
    Composition,
    Converted,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    Sequence,
    children,
)
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain

BOTH = Relation.ADD_REMOVE

# Each promise on the right is the formula's value with the last digit up; `short` is below the value.
CONVERSIONS: list[tuple[Composition, Guarantee, Guarantee]] = [
    (ZCDP("0.1"), ApproxDP("2.142", "1e-6"), ApproxDP("2.141", "1e-6")),  # Canonne-Kamath-Steinke 2020, Corollary 13
    (GDP("0.447213595499958"), ApproxDP("1.9946", "1e-6"), ApproxDP("1.9945", "1e-6")),  # Dong-Roth-Su 2022
    (ZCDP("0.1", "1e-7"), ApproxDP("2.17", "1e-6"), ApproxDP("2.142", "1e-6")),  # 9e-7 are left
    (RDP(("8",), ("0.8",)), ApproxDP("2.344", "1e-6"), ApproxDP("2.343", "1e-6")),  # Proposition 12
    (PureDP(1), ZCDP("0.46212"), ZCDP("0.46211")),  # tanh(1/2)
    (PureDP(1), GDP("1.23204"), GDP("1.23203")),
    (PureDP(1), RDP(("2",), ("0.73533",)), RDP(("2",), ("0.73532",))),  # log cosh 1.5 - log cosh 0.5
    (GDP(1), ZCDP("0.5"), ZCDP("0.49999")),
    (GDP(1), RDP(("4",), ("2",)), RDP(("4",), ("1.99",))),
    (Repeated(PureDP("0.1"), times=3), PureDP("0.3"), PureDP("0.29")),
    (Sequence((ApproxDP(1, "1e-6"), LaplaceLaw(1))), ApproxDP(2, "1e-6"), ApproxDP(2, "1e-7")),
]


@pytest.mark.parametrize(("part", "promise", "short"), CONVERSIONS, ids=str)
def test_a_promise_is_taken_where_its_formula_gives_it(part: Composition, promise: Guarantee, short: Guarantee) -> None:
    node = Converted(part, to=promise, relation=BOTH)
    orders = (Decimal(2),)
    assert cost(node, BOTH, orders=orders) == cost(promise, BOTH, orders=orders)
    assert compose(node).epsilon("1e-5") == compose(promise).epsilon("1e-5")
    for read in (lambda tree: cost(tree, BOTH), compose):
        with pytest.raises(CannotCertify, match="no conversion"):
            read(Converted(part, to=short, relation=BOTH))


def test_what_is_converted_can_be_amplified() -> None:
    """zCDP on a secret batch has no bound; the (epsilon, delta) that it means has one."""
    promise = ApproxDP("2.142", "1e-6")
    with pytest.raises(CannotCertify):
        compose(PoissonSampled(ZCDP("0.1"), rate="0.01"))
    sampled = compose(PoissonSampled(Converted(ZCDP("0.1"), to=promise, relation=BOTH), rate="0.01"))
    assert sampled.epsilon("1e-6") == compose(PoissonSampled(promise, rate="0.01")).epsilon("1e-6")


@pytest.mark.parametrize(("part", "to"), [(LaplaceLaw(1), BoundedRange(2)), (ZCDP(1), PureDP(10)), (ZCDP(1), GDP(10))])
def test_there_is_no_way_back(part: Composition, to: Guarantee) -> None:
    with pytest.raises(CannotCertify, match="no conversion"):
        compose(Converted(part, to=to, relation=BOTH))


def test_the_relation_inside_is_the_one_outside() -> None:
    node = Converted(GaussianLaw(1), to=ZCDP("2"), relation=Relation.REPLACE_ONE)
    assert cost(node, Relation.REPLACE_ONE).rho == cost(node, Relation.LABEL_FLIP).rho == 2
    for other in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
        with pytest.raises(CannotCertify, match="use a group"):
            compose(node, relation=other)


def test_it_is_read_and_written_like_any_node() -> None:
    node = Converted(Repeated(GaussianLaw(2), times=3), to=ZCDP("0.4"), relation=BOTH)
    assert parse_tree(plain(node)) == planned(node) == node
    assert children(node) == (node.of,)
    with pytest.raises(ParameterError, match="to"):
        parse_tree({**plain(node), "to": {"kind": "gaussian", "noise_multiplier": "1"}})
    with pytest.raises(ParameterError, match="relation"):
        parse_tree({key: value for key, value in plain(node).items() if key != "relation"})
