"""Every kind of a composition document is read, written back the same, and refused where its numbers mean nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
    SparseVectorLaw,
    SparseVectorOutcome,
    children,
)
from dpledger.accounting.documents import parse_document, parse_tree
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.errors import ParameterError
from dpledger.schema import plain
from dpledger.strict_json import JsonValue, read_json

WRITTEN: list[tuple[str, Composition]] = [
    ('{"kind": "randomized_response", "epsilon": "1.5"}', RandomizedResponseLaw("1.5")),
    ('{"kind": "randomized_response", "epsilon": 1e-3, "k": 7}', RandomizedResponseLaw("0.001", 7)),
    ('{"kind": "exponential", "epsilon": "0.25"}', ExponentialLaw("0.25")),
    (
        '{"kind": "pmf", "left": ["0.5", "0.5", "0"], "right": ["1e-60", "0.25", "%s"]}' % ("0.74" + "9" * 58),
        PmfPair(("0.5", "0.5", 0), ("1e-60", "0.25", "0.74" + "9" * 58)),
    ),
    (
        '{"kind": "sampled_without_replacement", "population": 60000, "batch": 256, "of": {"kind": "gaussian", '
        '"noise_multiplier": 2}}',
        SampledWithoutReplacement(GaussianLaw(2), population=60000, batch=256),
    ),
    (
        '{"kind": "shuffled", "users": 1000, "of": {"kind": "pure_dp", "epsilon": "1"}}',
        Shuffled(PureDP(1), users=1000),
    ),
    (
        '{"kind": "random_allocation", "steps": 2, "of": {"kind": "laplace", "epsilon": "0.1"}}',
        RandomAllocation(LaplaceLaw("0.1"), steps=2),
    ),
]


@pytest.mark.parametrize(("text", "tree"), WRITTEN, ids=lambda value: getattr(value, "kind", ""))
def test_a_kind_is_read_and_written_back_the_same(text: str, tree: Composition) -> None:
    value = read_json(text)
    assert parse_tree(value) == tree
    assert parse_tree(plain(tree)) == tree
    assert plain(parse_tree(plain(tree))) == plain(tree)
    assert plain(tree)["kind"] == tree.kind
    document: JsonValue = {"relation": "add_remove", "entries": [{"mechanism": value, "count": 3}]}
    assert parse_document(document).tree() == Sequence((Repeated(tree, times=3),))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**5), min_size=1, max_size=8))
def test_exact_probabilities_survive_the_round_trip(weights: list[int]) -> None:
    """Millionths that add up to one, with zeros among them, and the same in another order."""
    masses = [Decimal(weight).scaleb(-6) for weight in (*weights, 10**6 - sum(weights))]
    pair = PmfPair(tuple(masses), tuple(reversed(masses)))
    assert parse_tree(plain(pair)) == pair
    assert sum(pair.left) == sum(pair.right) == 1


BAD: list[tuple[str, dict[str, Any]]] = [
    ("epsilon", {"kind": "randomized_response", "epsilon": "-1"}),
    ("epsilon", {"kind": "randomized_response", "epsilon": "inf"}),
    ("epsilon", {"kind": "randomized_response", "epsilon": "nan"}),
    ("k", {"kind": "randomized_response", "epsilon": "1", "k": 1}),
    ("k", {"kind": "randomized_response", "epsilon": "1", "k": True}),
    ("k", {"kind": "randomized_response", "epsilon": "1", "k": 2.5}),
    ("eta", {"kind": "exponential", "eta": "1", "epsilon": "1"}),
    ("epsilon", {"kind": "exponential"}),
    ("left", {"kind": "pmf", "left": ["0.5", "0.4"], "right": ["0.5", "0.5"]}),
    ("left", {"kind": "pmf", "left": ["0.5", "0.5" + "0" * 50 + "1"], "right": ["0.5", "0.5"]}),
    ("right", {"kind": "pmf", "left": ["0.5", "0.5"], "right": ["1.5", "-0.5"]}),
    ("right", {"kind": "pmf", "left": ["0.5", "0.5"], "right": ["1"]}),
    ("left", {"kind": "pmf", "left": [], "right": []}),
    ("left", {"kind": "pmf", "left": "1", "right": ["1"]}),
    ("left", {"kind": "pmf", "left": ["0"] * 4096 + ["1"], "right": ["0"] * 4096 + ["1"]}),
    ("batch", {"kind": "sampled_without_replacement", "population": 10, "batch": 11, "of": WRITTEN[0][1]}),
    ("batch", {"kind": "sampled_without_replacement", "population": 10, "batch": 0, "of": WRITTEN[0][1]}),
    ("population", {"kind": "sampled_without_replacement", "population": "10", "batch": 1, "of": WRITTEN[0][1]}),
    ("users", {"kind": "shuffled", "users": 0, "of": WRITTEN[0][1]}),
    ("users", {"kind": "shuffled", "users": 10**9 + 1, "of": WRITTEN[0][1]}),
    ("of", {"kind": "shuffled", "users": 5}),
    ("steps", {"kind": "random_allocation", "steps": 0, "of": WRITTEN[0][1]}),
    ("steps", {"kind": "random_allocation", "steps": 10**6 + 1, "of": WRITTEN[0][1]}),
]


@pytest.mark.parametrize(("field", "value"), BAD, ids=[f"{value['kind']}-{field}" for field, value in BAD])
def test_numbers_that_mean_nothing_are_refused_by_name(field: str, value: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=field):
        parse_tree(value)


def test_a_plan_is_the_tree_without_its_outcomes_whatever_the_node() -> None:
    outcome = SparseVectorOutcome((), 3, halted=False)
    ran = SparseVectorLaw("single_threshold", 1, 1, 0, 2, 4, outcome=outcome)
    plan = SparseVectorLaw("single_threshold", 1, 1, 0, 2, 4)
    for wrap in (
        lambda leaf: SampledWithoutReplacement(leaf, population=10, batch=2),
        lambda leaf: Shuffled(leaf, users=10),
        lambda leaf: RandomAllocation(leaf, steps=3),
        lambda leaf: PoissonSampled(leaf, rate="0.1"),
    ):
        assert planned(wrap(ran)) == wrap(plan)
        assert children(wrap(ran)) == (ran,)
    assert children(ran) == ()
