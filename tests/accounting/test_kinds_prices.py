"""What the kinds cost in each currency, by rules.cost; claims about them; groups of units."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import check, cost
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain
from engine_oracles import mp

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
ORDERS = (Decimal("1.5"), Decimal(4), Decimal(32))


# ---- leaves ---------------------------------------------------------------------------------------------------------


def test_other_words_cost_the_same() -> None:
    assert cost(ExponentialLaw("0.7"), ADD, orders=ORDERS) == cost(BoundedRange("0.7"), ADD, orders=ORDERS)
    two, worst = cost(RandomizedResponseLaw("0.7"), ADD, orders=ORDERS), cost(PureDP("0.7"), ADD, orders=ORDERS)
    assert (two.pure, two.delta, two.mu_squared) == (worst.pure, worst.delta, worst.mu_squared)
    for order in ORDERS:
        assert two.rdp[order] == pytest.approx(worst.rdp[order], rel=Decimal("1e-11"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.lists(st.integers(1, 1000), min_size=5, max_size=5))
def test_a_listed_pair_costs_its_largest_loss_and_its_divergences(one: list[int], other: list[int]) -> None:
    lefts = [*one, 10**4 - sum(one)]
    rights = [*other[: len(one)], 10**4 - sum(other[: len(one)])]
    tree = PmfPair(tuple(str(Decimal(x).scaleb(-4)) for x in lefts), tuple(str(Decimal(x).scaleb(-4)) for x in rights))
    found = cost(tree, ADD, orders=ORDERS)
    p, q = ([mp.mpf(x) / 10**4 for x in side] for side in (lefts, rights))
    largest = max(abs(mp.log(a / b)) for a, b in zip(p, q, strict=True))
    assert found.pure is not None
    assert largest <= mp.mpf(str(found.pure)) <= largest * mp.mpf("1.0000000001") + mp.mpf("1e-40")
    assert found.delta == 0
    for order in ORDERS:
        a = mp.mpf(str(order))
        sides = [mp.fsum(x**a * y ** (1 - a) for x, y in zip(*pair, strict=True)) for pair in ((p, q), (q, p))]
        exact = mp.log(max(sides)) / (a - 1)
        price = found.rdp[order]
        assert price is not None
        assert exact - mp.mpf("1e-50") <= mp.mpf(str(price)) <= exact * mp.mpf("1.0000000001") + mp.mpf("1e-50")


def test_mass_on_one_side_alone_is_a_delta() -> None:
    found = cost(PmfPair(("0.5", "0.4", "0.1", 0), ("0.25", "0.55", 0, "0.2")), ADD, orders=ORDERS)
    assert found.delta == Decimal("0.2")
    assert found.pure is not None
    assert math.log(2) <= found.pure <= Decimal("0.693147180561")
    assert found.mu_squared is None
    check(ApproxDP("0.7", "0.2"), PmfPair(("0.5", "0.4", "0.1", 0), ("0.25", "0.55", 0, "0.2")), ADD)
    with pytest.raises(ClaimTooSmall):
        check(PureDP(5), PmfPair((1, 0), ("0.5", "0.5")), ADD)


# ---- secret batches -------------------------------------------------------------------------------------------------


def test_without_replacement_epsilon_and_delta_are_amplified_and_nothing_costs_more() -> None:
    whole = cost(ApproxDP(1, "1e-6"), REPLACE, orders=ORDERS)
    found = cost(SampledWithoutReplacement(ApproxDP(1, "1e-6"), population=1000, batch=10), REPLACE, orders=ORDERS)
    assert found.pure is not None
    exact = math.log1p(0.01 * math.expm1(1))
    assert exact <= found.pure <= Decimal(exact) * Decimal("1.0000001")
    assert found.delta == Decimal("1e-8")
    for leaf in (GaussianLaw(2), LaplaceLaw(1), ZCDP("0.3"), GDP(1), RDP(ORDERS, (1, 2, 3)), DiscreteGaussianLaw(2, 1)):
        whole = cost(leaf, REPLACE, orders=ORDERS)
        found = cost(SampledWithoutReplacement(leaf, population=1000, batch=10), REPLACE, orders=ORDERS)
        pairs = [(found.pure, whole.pure), (found.rho, whole.rho), (found.mu_squared, whole.mu_squared)]
        for less, more in [*pairs, *((found.rdp[a], whole.rdp[a]) for a in ORDERS)]:
            assert (less is None) == (more is None)
            assert less is None or more is None or less <= more
    everyone = SampledWithoutReplacement(LaplaceLaw(1), population=7, batch=7)
    assert cost(everyone, REPLACE, orders=ORDERS) == cost(LaplaceLaw(1), REPLACE, orders=ORDERS)
    for relation in (ADD, Relation.ZERO_OUT, Relation.LABEL_FLIP):
        with pytest.raises(CannotCertify, match="replace_one"):
            cost(everyone, relation)


def test_shuffled_and_allocated_mechanisms_cost_what_they_run_where_nothing_less_is_known() -> None:
    leaf = LaplaceLaw("0.3")
    many, alone = (cost(tree, REPLACE, orders=ORDERS) for tree in (Shuffled(leaf, users=10**6), leaf))
    assert (many.pure, many.mu_squared) == (alone.pure, alone.mu_squared)
    with pytest.raises(CannotCertify, match="replace_one"):
        cost(Shuffled(leaf, users=10), ADD)
    for relation in Relation:
        for one in (GaussianLaw(2), ZCDP("0.1")):
            assert cost(RandomAllocation(one, steps=9), relation, orders=ORDERS) == cost(one, relation, orders=ORDERS)


@pytest.mark.parametrize(
    "leaf",
    [
        RandomizedResponseLaw(1, 3),
        ExponentialLaw(1),
        DiscreteLaplaceLaw(1, 1),
        PmfPair(("0.7", "0.3"), ("0.3", "0.7")),
        PmfPair(("0.7", "0.3", 0), ("0.3", "0.6", "0.1")),
    ],
    ids=lambda leaf: leaf.kind,
)
def test_a_price_of_a_poisson_sample_is_above_its_profile(leaf: Composition) -> None:
    tree = PoissonSampled(leaf, rate="0.25")
    price = cost(tree, ADD)
    assert price.pure is not None
    assert compose(tree).delta(price.pure).lower <= price.delta


@pytest.mark.parametrize(
    ("enough", "too_small", "tree", "relation"),
    [
        (BoundedRange("0.5"), BoundedRange("0.49"), ExponentialLaw("0.5"), ADD),
        (PureDP("0.5"), PureDP("0.49"), RandomizedResponseLaw("0.5", 3), ADD),
        (ApproxDP("0.25", "1e-6"), ApproxDP("0.1", "1e-6"), Shuffled(PureDP(1), users=1000), REPLACE),
        (ApproxDP(4, "1e-5"), ApproxDP(3, "1e-5"), RandomAllocation(GaussianLaw(1), steps=2), ADD),
        (
            ApproxDP("1.7", "1e-5"),
            ApproxDP("1.6", "1e-5"),
            SampledWithoutReplacement(GaussianLaw(2), population=1000, batch=100),
            REPLACE,
        ),
        (PureDP(2), PureDP("1.99"), Group(LaplaceLaw(1), k=2, relation=ADD), REPLACE),
    ],
    ids=["exponential", "response", "shuffled", "allocated", "subset", "group"],
)
def test_a_claim_about_a_kind_is_kept_or_refused(
    enough: Guarantee, too_small: Guarantee, tree: Composition, relation: Relation
) -> None:
    check(enough, tree, relation)
    with pytest.raises(ClaimTooSmall):
        check(too_small, tree, relation)


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_a_group_is_read_and_written_back_the_same() -> None:
    tree = Group(LaplaceLaw("0.1"), k=2, relation=ADD)
    assert plain(tree) == {"kind": "group", "k": 2, "relation": "add_remove", "of": plain(LaplaceLaw("0.1"))}
    assert parse_tree(plain(tree)) == tree
    for field, bad in (("k", {"k": 0}), ("k", {"k": "2"}), ("relation", {"relation": "none"}), ("of", {"of": 1})):
        with pytest.raises(ParameterError, match=field):
            parse_tree({**plain(tree), **bad})


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["0.1", "0.7", "2"]), st.integers(1, 6))
def test_groups_cost_k_epsilon_and_squares(number: str, k: int) -> None:
    """Vadhan 2017, Lemma 2.2; Bun-Steinke 2016, Proposition 1.9; Dong-Roth-Su 2022, Theorem 2.14."""
    value = Decimal(number)
    assert cost(Group(PureDP(number), k=k, relation=ADD), ADD).pure == k * value
    assert cost(Group(ZCDP(number), k=k, relation=ADD), ADD).rho == k * k * value
    assert cost(Group(GDP(number), k=k, relation=ADD), ADD).mu_squared == (k * value) ** 2
    approximate = cost(Group(ApproxDP(number, "1e-12"), k=k, relation=ADD), ADD)
    exact = Fraction(1, 10**12) * sum(Fraction(math.exp(i * float(number))) for i in range(k))
    assert approximate.pure == k * value
    assert exact <= Fraction(approximate.delta) * Fraction(1.0000000001)
    assert Fraction(approximate.delta) <= exact * Fraction(1.000001)
    assert k == 1 or approximate.rho is None
    assert cost(Group(ApproxDP(0, "1e-12"), k=k, relation=ADD), ADD).delta == k * Decimal("1e-12")


@pytest.mark.parametrize(
    ("leaf", "same"),
    [
        (GaussianLaw(2), GaussianLaw(1)),
        (LaplaceLaw("0.3"), LaplaceLaw("0.6")),
        (DiscreteLaplaceLaw(3, 1), DiscreteLaplaceLaw(3, 2)),
        (DiscreteGaussianLaw(3, 1), DiscreteGaussianLaw(3, 2)),
        (PureDP("0.3"), PureDP("0.6")),
        (GDP("0.3"), GDP("0.6")),
        (ZCDP("0.1"), ZCDP("0.4")),
        (BoundedRange("0.3"), BoundedRange("0.6")),
        (ExponentialLaw("0.3"), BoundedRange("0.6")),
        (RandomizedResponseLaw(1, 4), RandomizedResponseLaw(1, 4)),
        (PostProcessed(LaplaceLaw("0.3")), LaplaceLaw("0.6")),
    ],
    ids=lambda tree: tree.kind,
)
def test_two_steps_of_a_law_are_its_longer_shift(leaf: Composition, same: Composition) -> None:
    for times in (1, 5):
        pair = Group(Repeated(leaf, times=times), k=2, relation=ADD)
        alone = compose(Repeated(same, times=times)).epsilon("1e-6")
        assert compose(pair).epsilon("1e-6") == alone
        assert compose(pair, relation=REPLACE).epsilon("1e-6") == alone


def test_a_replaced_unit_is_one_removed_and_one_added() -> None:
    """The noise multiplier means the same under both relations: two contributions apart either way."""
    for noise in (1, "7.5"):
        group = Group(GaussianLaw(noise), k=2, relation=ADD)
        assert compose(group, relation=REPLACE).epsilon("1e-6") == compose(
            GaussianLaw(noise), relation=REPLACE
        ).epsilon("1e-6")


@pytest.mark.parametrize(
    ("tree", "relation", "match"),
    [
        (Group(PureDP(1), k=1, relation=ADD), REPLACE, "not known"),
        (Group(PureDP(1), k=3, relation=ADD), REPLACE, "not known"),
        (Group(PureDP(1), k=2, relation=REPLACE), ADD, "not known"),
        (Group(PureDP(1), k=2, relation=ADD), Relation.ZERO_OUT, "not known"),
        (Group(ZCDP(1, "1e-9"), k=2, relation=ADD), ADD, "group of 2"),
        (Group(ApproxDP(200, "1e-9"), k=2, relation=ADD), ADD, "delta of 1 or more"),
        (Group(ApproxDP(1, "0.5"), k=3, relation=ADD), ADD, "delta of 1 or more"),
    ],
)
def test_groups_that_no_theorem_covers_are_refused(tree: Composition, relation: Relation, match: str) -> None:
    for answer in (lambda: compose(tree, relation=relation), lambda: cost(tree, relation)):
        with pytest.raises(CannotCertify, match=match):
            answer()


@pytest.mark.parametrize(
    "inside",
    [
        PoissonSampled(LaplaceLaw(1), rate="0.1"),
        Parallel((PureDP(1), PureDP(2))),
        PmfPair((1, 0), ("0.5", "0.5")),
        RDP((2,), (1,)),
        Sequence((PureDP(1), RandomAllocation(PureDP(1), steps=3))),
    ],
    ids=lambda tree: tree.kind,
)
def test_groups_in_secret_batches_and_parallel_parts_have_no_profile(inside: Composition) -> None:
    with pytest.raises(CannotCertify, match="group"):
        compose(Group(inside, k=2, relation=ADD))


def test_a_label_is_part_of_a_unit() -> None:
    tree = Group(LaplaceLaw("0.4"), k=1, relation=REPLACE)
    assert compose(tree, relation=Relation.LABEL_FLIP).epsilon(0) == compose(LaplaceLaw("0.4")).epsilon(0)
    assert cost(tree, Relation.LABEL_FLIP).pure == Decimal("0.4")


@pytest.mark.parametrize(
    "leaf", [ZCDP("0.1"), GDP("0.5"), RDP(ORDERS, (1, 2, 3)), DiscreteGaussianLaw(2, 1), LaplaceLaw(1)]
)
def test_a_poisson_sample_never_costs_more_than_the_whole(leaf: Composition) -> None:
    whole, part = (cost(tree, ADD, orders=ORDERS) for tree in (leaf, PoissonSampled(leaf, rate="0.3")))
    assert not part.is_unknown()
    pairs = [(part.pure, whole.pure), (part.rho, whole.rho), (part.mu_squared, whole.mu_squared)]
    for less, more in [*pairs, *((part.rdp[a], whole.rdp[a]) for a in ORDERS)]:
        assert less is None or (more is not None and less <= more)
