"""Guarantees of several interactions on the same data, added: exact in each kind, never below what composes."""

from collections.abc import Callable
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.adding import READ_AT, read_at, together
from dpledger.accounting.composition import Composition, ExponentialLaw, GaussianLaw, RandomizedResponseLaw, Sequence
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.profile import compose
from dpledger.decimals import round_up
from dpledger.relations import Relation

GRID = ("2", "8")


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([PureDP("0.3"), PureDP("0.4")], PureDP("0.7")),
        ([PureDP(1), BoundedRange(2)], PureDP(3)),
        ([ApproxDP(1, "1e-6"), ApproxDP(1, "1e-6")], ApproxDP(2, "2e-6")),
        ([PureDP(1), ApproxDP(1, "1e-6"), PureDP(2)], ApproxDP(4, "1e-6")),
        ([ZCDP("0.1"), ZCDP("0.2")], ZCDP("0.3")),
        ([GDP(3), GDP(4)], GDP(5)),
        ([GDP(1), GDP(1)], GDP("1.41421356238")),
        ([RDP(GRID, (1, 4)), RDP(("2", "3", "8"), (1, 2, 5))], RDP(GRID, (2, 9))),
        ([PrivacyCurve((1, 2), ("0.1", "0.01")), PureDP(1)], ApproxDP(3, "0.01")),
        ([ZCDP("0.1", "1e-9")], ZCDP("0.1", "1e-9")),
    ],
)
def test_each_kind_adds_up_in_its_own_currency(parts: list[Guarantee], whole: Guarantee) -> None:
    for order in permutations(parts):
        assert together(order) == whole


def test_kinds_that_do_not_add_are_read_as_epsilons_once_each() -> None:
    whole = together([ZCDP("0.1"), PureDP(1), ZCDP("0.2"), GDP(1)])
    epsilons = Decimal(1) + ZCDP("0.3").epsilon_at(READ_AT) + GDP(1).epsilon_at(READ_AT)
    assert whole == ApproxDP(epsilons, 2 * READ_AT)


def test_approximate_zcdp_does_not_add_in_rho() -> None:
    """No theorem composes it concurrently; each is an (epsilon, delta) of its own."""
    part = ZCDP("0.1", "1e-6")
    once = part.epsilon_at(read_at(part))
    assert together([part, part]) == ApproxDP(2 * once, 4 * READ_AT)


def test_what_comes_to_nothing_is_none() -> None:
    assert together([ApproxDP(1, "0.5"), ApproxDP(1, "0.5")]) is None
    assert together([PureDP("999999999999999999"), PureDP(1)]) is None
    assert together([ZCDP("1", "0.9999999"), PureDP(1)]) is None
    assert together([RDP(("2",), ("999999999999999999",)), RDP(("2",), ("1",))]) is None


def test_grids_without_a_common_order_are_read_one_by_one() -> None:
    parts = [RDP(("2",), ("0.1",)), RDP(("3",), ("0.1",))]
    epsilons = sum((part.epsilon_at(READ_AT) for part in parts), Decimal(0))
    assert together(parts) == ApproxDP(epsilons, 2 * READ_AT)


small = st.integers(1, 200).map(lambda n: Decimal(n) / 100)
kinds: tuple[Callable[[Decimal], Guarantee], ...] = (
    PureDP,
    lambda x: ApproxDP(x, Decimal("1e-8")),
    lambda x: ZCDP(x / 10),
    lambda x: ZCDP(x / 10, Decimal("1e-8")),
    GDP,
    lambda x: RDP(GRID, (x, 4 * x)),
    lambda x: RDP((*GRID, "9"), (x, 4 * x, 5 * x)),
    BoundedRange,
)
guarantees = st.lists(
    st.tuples(st.sampled_from(kinds), small).map(lambda pair: pair[0](pair[1])), min_size=1, max_size=5
)
AT = Decimal("1e-3")


@given(guarantees, st.randoms())
@settings(max_examples=30, deadline=None)
def test_order_changes_nothing(parts: list[Guarantee], random: object) -> None:
    mixed = sorted(parts, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert together(mixed) == together(parts)


@given(guarantees, st.sampled_from(kinds), small)
@settings(max_examples=30, deadline=None)
def test_one_more_is_never_less(parts: list[Guarantee], kind: Callable[[Decimal], Guarantee], amount: Decimal) -> None:
    """Where it is read at the delta of the larger one."""
    before, after = together(parts), together([*parts, kind(amount)])
    assert before is not None
    assert after is not None
    at = max(read_at(before), read_at(after))
    assert read_at(after) >= read_at(before) or isinstance(after, type(before))
    assert after.epsilon_at(at) >= before.epsilon_at(at) * (1 - Decimal("1e-11"))


# ---- against the engine, on laws that keep what is promised ----------------------------------------------------------

steps = st.integers(1, 40).map(lambda n: Decimal(n) / 10)


def response(epsilon: Decimal) -> tuple[Guarantee, Composition]:
    return PureDP(epsilon), RandomizedResponseLaw(epsilon)


def exponential(eta: Decimal) -> tuple[Guarantee, Composition]:
    return BoundedRange(eta), ExponentialLaw(eta)


def failing(epsilon: Decimal) -> tuple[Guarantee, Composition]:
    promise = ApproxDP(epsilon, "1e-5")
    return promise, promise


def gaussian(promised: Callable[[Decimal], Guarantee]) -> Callable[[Decimal], tuple[Guarantee, Composition]]:
    def kept(noise: Decimal) -> tuple[Guarantee, Composition]:
        return promised(round_up(1 / noise)), GaussianLaw(noise)

    return kept


WITNESSES = (
    response,
    exponential,
    failing,
    gaussian(GDP),
    gaussian(lambda mu: ZCDP(mu * mu / 2)),
    gaussian(lambda mu: ZCDP(mu * mu / 2, "1e-9")),
    gaussian(lambda mu: RDP(GRID, (mu * mu, 4 * mu * mu))),
)
kept = st.tuples(st.sampled_from(WITNESSES), steps).map(lambda pair: pair[0](pair[1]))


@given(st.lists(kept, min_size=2, max_size=4))
@settings(max_examples=20, deadline=None)
def test_it_is_never_below_what_one_after_the_other_comes_to(parts: list[tuple[Guarantee, Composition]]) -> None:
    whole = together([promise for promise, _ in parts])
    assert whole is not None
    at = max(read_at(whole), AT)
    composed = compose(Sequence(tuple(law for _, law in parts)), relation=Relation.ADD_REMOVE).epsilon(at)
    assert composed.lower <= float(whole.epsilon_at(at))


@pytest.mark.parametrize("witness", [response, gaussian(GDP), failing])
def test_the_largest_alone_would_be_too_little(witness: Callable[[Decimal], tuple[Guarantee, Composition]]) -> None:
    promise, law = witness(Decimal(1))
    composed = compose(Sequence((law, law)), relation=Relation.ADD_REMOVE).epsilon(AT)
    assert composed.lower > float(promise.epsilon_at(AT))
