"""Laws of a mixture of orders: its one number against the definition at 60 digits, and what it never does."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import boundary_offset
from dpledger.accounting.filters import Boundary, EitherFilter, mixture
from dpledger.accounting.filters.mixture import Share, mixture_epsilon
from dpledger.accounting.guarantees import ApproxDP
from dpledger.decimals import INFINITY
from dpledger.errors import ParameterError
from price_oracles import Real, mp, real

pytestmark = pytest.mark.sliced

numbers = st.decimals("0", "12", places=4, allow_nan=False, allow_infinity=False)
orders = st.decimals("0.05", "60", places=2)
deltas = st.integers(20, 120).map(lambda k: Decimal(10) ** (-k // 10) * (k % 10 + 1) / 20)
boundaries = st.lists(st.tuples(orders, deltas), min_size=1, max_size=4, unique_by=lambda pair: pair[0])
priced = st.one_of(st.just(INFINITY), numbers)


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[EitherFilter, tuple[Decimal, ...], Decimal]:
    """A filter, the totals of its accounts, and the sum of pure prices."""
    found = draw(boundaries)
    filter_ = EitherFilter(draw(st.decimals("0.1", "9", places=3)), "1e-7", tuple(Boundary(*pair) for pair in found))
    totals = draw(st.lists(priced, min_size=len(found), max_size=len(found)))
    return filter_, tuple(totals), draw(priced)


def sums(filter_: EitherFilter, totals: Sequence[Decimal], pure: Decimal) -> filters.Sums:
    """Accounts that come to these totals, charged as Renyi prices."""
    found = dict(filters.opening(filter_))
    found["pure"] = (Decimal(0), 1) if pure.is_infinite() else (pure, 0)
    for (_, name), total in zip(filters.mixed_names(filter_), totals, strict=True):
        found[name] = (Decimal(0), 1) if total.is_infinite() else (total, 0)
    return found


def own_delta(filter_: EitherFilter) -> Decimal:
    return filters.budget_guarantee(filter_).delta  # type: ignore[union-attr]


def holds(filter_: EitherFilter, totals: Sequence[Decimal], pure: Decimal, epsilon: Real) -> bool:
    """The test of the section on F6, y by y: where the difference of both sides is least, and on a grid."""
    known = [
        (real(one.order_minus_one), real(one.delta_boundary), real(total))
        for one, total in zip(filter_.boundaries, totals, strict=True)
        if not total.is_infinite()
    ]

    def over(y: Real) -> Real:
        return mp.fsum(d * mp.exp(more * (epsilon - total + y)) for more, d, total in known) - 1 + mp.exp(-y)

    def slope(y: Real) -> Real:
        return mp.fsum(d * more * mp.exp(more * (epsilon - total + y)) for more, d, total in known) - mp.exp(-y)

    most = mp.mpf(500) if pure.is_infinite() else real(pure) - epsilon
    if most <= 0:
        return True
    low, high = mp.mpf(0), most
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    grid = [most * step / 300 for step in range(1, 301)]
    return all(over(y) >= 0 for y in [low, high, *grid] if y > 0)


@given(mixtures())
@settings(max_examples=80, deadline=None)
def test_a_request_is_admitted_just_when_the_test_holds(
    case: tuple[EitherFilter, tuple[Decimal, ...], Decimal],
) -> None:
    """The reading passes the test; a billionth less does not. At the filter's own epsilon admission is the test."""
    filter_, totals, pure = case
    held = sums(filter_, totals, pure)
    shown = filters.reading(filter_, held, own_delta(filter_))
    assert filters.admits(filter_, held) is (shown <= filter_.epsilon)
    if shown.is_infinite():
        assert not holds(filter_, totals, pure, real(filter_.epsilon))
        return
    assert holds(filter_, totals, pure, real(shown))
    less = real(shown) * (1 - real("1e-10")) - real("1e-30")
    assert shown == 0 or not holds(filter_, totals, pure, less)


@given(mixtures())
@settings(max_examples=100, deadline=None)
def test_it_admits_all_that_one_account_admits_by_itself(
    case: tuple[EitherFilter, tuple[Decimal, ...], Decimal],
) -> None:
    filter_, totals, pure = case
    held = sums(filter_, totals, pure)
    alone = [
        total + boundary_offset(one.order_minus_one, one.delta_boundary)
        for one, total in zip(filter_.boundaries, totals, strict=True)
    ]
    assert filters.admits(filter_, held) or min(pure, *alone) > filter_.epsilon
    assert filters.reading(filter_, held, own_delta(filter_)) <= max(Decimal(0), min(pure, *alone)) * Decimal(
        "1.0000001"
    )


@given(mixtures(), st.data())
@settings(max_examples=60, deadline=None)
def test_the_order_of_its_boundaries_does_not_matter(
    case: tuple[EitherFilter, tuple[Decimal, ...], Decimal], data: st.DataObject
) -> None:
    filter_, totals, pure = case
    turned = data.draw(st.permutations(list(zip(filter_.boundaries, totals, strict=True))))
    other = EitherFilter(filter_.epsilon, filter_.delta_sum, tuple(one for one, _ in turned))
    moved = sums(other, [total for _, total in turned], pure)
    for delta in (own_delta(filter_), Decimal("0.001"), Decimal("0.9")):
        assert filters.reading(filter_, sums(filter_, totals, pure), delta) == filters.reading(other, moved, delta)


@given(mixtures(), st.lists(numbers, min_size=5, max_size=5))
@settings(max_examples=100, deadline=None)
def test_more_in_any_account_is_never_less_in_all(
    case: tuple[EitherFilter, tuple[Decimal, ...], Decimal], more: list[Decimal]
) -> None:
    filter_, totals, pure = case
    before = sums(filter_, totals, pure)
    after = sums(filter_, [total + rise for total, rise in zip(totals, more, strict=False)], pure + more[-1])
    for delta in (own_delta(filter_), Decimal("0.001")):
        assert filters.reading(filter_, before, delta) <= filters.reading(filter_, after, delta)
    assert filters.admits(filter_, before) or not filters.admits(filter_, after)


@given(mixtures())
@settings(max_examples=60, deadline=None)
def test_a_larger_delta_never_reads_more(case: tuple[EitherFilter, tuple[Decimal, ...], Decimal]) -> None:
    filter_, totals, pure = case
    held = sums(filter_, totals, pure)
    read = [filters.reading(filter_, held, Decimal(delta)) for delta in ("1e-7", "2e-7", "1e-4", "0.1", "1")]
    assert read == sorted(read, reverse=True)


@pytest.mark.parametrize("more", ["1e-30", "1e-6", "1", "1e6", "99999999999999999"])
@pytest.mark.parametrize("delta", ["1e-59", "1e-9", "0.999"])
@pytest.mark.parametrize("total", ["0", "1e-40", "3", "1e17"])
def test_one_boundary_alone_is_its_offset_at_every_size(more: str, delta: str, total: str) -> None:
    share = Share(Decimal(more), Decimal(delta))
    found = mixture_epsilon((share,), (Decimal(total),), INFINITY)
    assert found == max(Decimal(0), share.alone(Decimal(total)))


def test_a_budget_of_many_digits_is_kept_to_its_last() -> None:
    """A reading is told in twelve digits, but never past a budget that it is within."""
    filter_ = EitherFilter("3.00000000000000000000001", "0", (Boundary(8, "1e-7"), Boundary(1, "1e-7")))
    share = Share(Decimal(8), Decimal("1e-7"))
    total = Decimal(3) - round(share.alone(Decimal(0)), 24)
    shown = filters.reading(filter_, sums(filter_, [total, INFINITY], INFINITY), Decimal("2e-7"))
    assert Decimal(3) <= shown <= filter_.epsilon


@pytest.mark.parametrize(("delta", "needs"), [("1e-60", "halved"), ("2e-60", "boundary"), ("4e-60", "boundary")])
def test_a_delta_of_which_a_boundary_would_have_nothing_opens_no_mixture(delta: str, needs: str) -> None:
    """Of none of the boundaries, and of one of them alone."""
    with pytest.raises(ParameterError, match=rf"^budget\.delta: expected .*{needs}"):
        filters.opened_by(ApproxDP(1, delta))


@given(
    shared=st.lists(st.tuples(orders, deltas, numbers), min_size=2, max_size=4),
    pure=st.one_of(st.just(INFINITY), numbers),
)
@settings(max_examples=60, deadline=None)
def test_a_search_that_ends_early_never_reads_less(
    shared: list[tuple[Decimal, Decimal, Decimal]], pure: Decimal
) -> None:
    """What it leaves to its last bound is added: also where that is a part in a hundred."""
    given_ = [Share(more, delta) for more, delta, _ in shared], [total for *_, total in shared], pure
    exact = mixture_epsilon(*given_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixture, "MISSED", Decimal("0.01"))
        patch.setattr(mixture, "NEAR", Decimal(1))
        early = mixture_epsilon(*given_)
    assert exact - (1 + exact) * Decimal("1e-27") <= early <= exact + (exact + 20) / 50
