"""Laws of every filter: order does not matter, more never admits more, no prefix passes the budget, refusal changes
nothing, settling never costs more than was reserved; and the constants and words of each."""

import copy
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters, rules
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    Repeated,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.filters import (
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    advanced,
    opened_by,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.accounting.profile import compose
from dpledger.decimals import INFINITY, parse
from dpledger.errors import ParameterError
from dpledger.relations import Relation
from price_oracles import least, mp, real

pytestmark = pytest.mark.sliced


def opened(budget: ApproxDP) -> EitherFilter:
    """The either-filter of an approximate budget."""
    filter_ = opened_by(budget)
    assert isinstance(filter_, EitherFilter)
    return filter_


EITHER = opened(ApproxDP(3, "1e-6"))
GRID = RDPFilter(("1.5", 4, 32), ("0.2", "0.5", 3))
FILTERS: tuple[Filter, ...] = (
    PureFilter(3),
    BasicFilter(3, "1e-6"),
    ZCDPFilter("0.2", "1e-7"),
    GRID,
    GDPFilter("0.6"),
    advanced(3, "1e-6", "1e-7"),
    EITHER,
)
every_filter = pytest.mark.parametrize("filter_", FILTERS, ids=lambda f: f.kind)

BASIC = SparseVectorLaw("basic", 2, 1, 0, 4, 8)
small = st.integers(1, 200).map(lambda n: Decimal(n) / 100)
requests: st.SearchStrategy[Composition] = st.one_of(
    small.map(PureDP),
    small.map(LaplaceLaw),
    small.map(lambda e: ApproxDP(e, "1e-8")),
    small.map(lambda z: GaussianLaw(10 * z)),
    small.map(lambda r: ZCDP(r / 20)),
    st.just(BASIC),
)


def price(filter_: Filter, tree: Composition) -> Cost:
    return rules.cost(tree, Relation.ADD_REMOVE, orders=filters.orders(filter_))


def charged(filter_: Filter, trees: Sequence[Composition]) -> filters.Sums:
    sums = filters.opening(filter_)
    for tree in trees:
        sums = filters.with_charge(filter_, sums, filters.charge(filter_, price(filter_, tree)))
    return sums


# ---- sums -----------------------------------------------------------------------------------------------------------


@every_filter
@given(trees=st.lists(requests, max_size=6), data=st.data())
@settings(max_examples=25, deadline=None)
def test_sums_do_not_depend_on_the_order(filter_: Filter, trees: list[Composition], data: st.DataObject) -> None:
    assert charged(filter_, trees) == charged(filter_, data.draw(st.permutations(trees)))


@every_filter
@given(trees=st.lists(requests, min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_taking_a_charge_away_undoes_it(filter_: Filter, trees: list[Composition]) -> None:
    last = filters.charge(filter_, price(filter_, trees[-1]))
    assert filters.without_charge(filter_, charged(filter_, trees), last) == charged(filter_, trees[:-1])


@every_filter
@given(trees=st.lists(requests, max_size=5), more=requests)
@settings(max_examples=25, deadline=None)
def test_one_charge_more_never_helps(filter_: Filter, trees: list[Composition], more: Composition) -> None:
    before, after = charged(filter_, trees), charged(filter_, [*trees, more])
    assert filters.admits(filter_, before) or not filters.admits(filter_, after)
    for delta in (Decimal("1e-6"), Decimal("0.01")):
        assert filters.reading(filter_, before, delta) <= filters.reading(filter_, after, delta)


@every_filter
@given(trees=st.lists(requests, max_size=5), more=requests)
@settings(max_examples=40, deadline=None)
def test_the_accounts_of_a_request_fit_exactly_if_it_is_admitted(
    filter_: Filter, trees: list[Composition], more: Composition
) -> None:
    """What a refusal shows is enough to see that it was one."""
    before, asked = charged(filter_, trees), filters.charge(filter_, price(filter_, more))
    shown = {name: parse(total, infinite=True) for name, total in filters.asked(filter_, before, asked).items()}
    admitted = filters.admits(filter_, filters.with_charge(filter_, before, asked))
    assert filters.fits(filter_, before, shown) is admitted


@every_filter
def test_what_a_request_asks_is_told_in_the_accounts_of_the_filter(filter_: Filter) -> None:
    empty = filters.opening(filter_)
    nothing = {name: Decimal(0) for name in filters.spent(filter_, empty)}
    assert filters.fits(filter_, empty, nothing)
    for wrong in ({}, {**nothing, "gold": Decimal(0)}, dict(list(nothing.items())[1:])):
        with pytest.raises(ParameterError, match="accounts"):
            filters.fits(filter_, empty, wrong)


@every_filter
@given(trees=st.lists(requests, max_size=12))
@settings(max_examples=25, deadline=None)
def test_no_prefix_passes_the_budget_and_refusing_changes_nothing(filter_: Filter, trees: list[Composition]) -> None:
    sums, admitted = filters.opening(filter_), []
    for tree in trees:
        kept = copy.deepcopy(sums)
        wanted = filters.with_charge(filter_, sums, filters.charge(filter_, price(filter_, tree)))
        if filters.admits(filter_, wanted):
            sums = wanted
            admitted.append(tree)
        else:
            assert sums == kept
        assert filters.admits(filter_, sums)
        budget = filters.budget_guarantee(filter_)
        assert filters.reading(filter_, sums, Decimal("1e-5")) <= budget.epsilon_at(Decimal("1e-5"))
    assert charged(filter_, admitted) == sums


# ---- charges and refunds --------------------------------------------------------------------------------------------


@every_filter
@given(
    closed=st.lists(st.integers(1, 20), max_size=2).map(tuple),
    open_epoch=st.integers(0, 20),
)
@settings(max_examples=25, deadline=None)
def test_settling_never_costs_more_and_never_returns_delta(
    filter_: Filter, closed: tuple[int, ...], open_epoch: int
) -> None:
    outcome = SparseVectorOutcome(closed, 0 if len(closed) == 2 else open_epoch, len(closed) == 2)
    for cap in (BASIC, SparseVectorLaw("kov", 2, 1, "1e-7", 4, 8)):
        run = SparseVectorLaw(cap.mode, 2, 1, cap.delta, 4, 8, outcome=outcome)
        reserved = filters.charge(filter_, price(filter_, cap))
        settled = filters.settle(filter_, reserved, price(filter_, run))
        assert settled.keys() == reserved.keys()
        assert all(settled[name] <= reserved[name] for name in reserved)
        assert settled.get("delta") == reserved.get("delta")
        assert filters.settle(filter_, reserved, price(filter_, cap)) == reserved


def test_a_request_with_both_currencies_pays_the_smaller_one_in_the_mixed_account() -> None:
    fine = filters.charge(EITHER, price(EITHER, PureDP("0.01")))
    assert fine["mixed_pure_0"] == 0 < fine["mixed_rdp_0"] < Decimal("0.01")
    refundable = filters.charge(EITHER, price(EITHER, BASIC))
    assert refundable["mixed_rdp_0"] == 0 < refundable["mixed_pure_0"] == 1
    gaussian = filters.charge(EITHER, price(EITHER, GaussianLaw(10)))
    assert gaussian.keys() == {"delta", "mixed_pure_0", "mixed_rdp_0", "mixed_pure_1", "mixed_rdp_1"}


def test_each_account_of_a_mixture_chooses_its_own_currency() -> None:
    """A pure ex-post price of 0.3 and 0.04 of zCDP: at order 31 the pure one is cheaper, at order 3 the Renyi one."""
    filter_ = EitherFilter(3, "5e-7", (Boundary(30, "3e-7"), Boundary(2, "2e-7")))
    cap = Cost(pure=Decimal("0.3"), rho=Decimal("0.04"), mu_squared=None)
    reserved = filters.charge(filter_, cap)
    assert (reserved["mixed_pure_0"], reserved["mixed_rdp_0"]) == (Decimal("0.3"), Decimal(0))
    assert (reserved["mixed_pure_1"], reserved["mixed_rdp_1"]) == (Decimal(0), Decimal("0.12"))
    realised = Cost(pure=Decimal("0.1"), rho=Decimal("0.04"), mu_squared=None)
    settled = filters.settle(filter_, reserved, realised)
    assert settled == {**reserved, "pure": Decimal("0.1"), "mixed_pure_0": Decimal("0.1")}


def test_a_renyi_charge_is_the_smaller_of_the_divergence_and_order_times_rho() -> None:
    order = filters.orders(EITHER)[0]
    for tree in (PureDP("0.05"), ZCDP("0.01"), GaussianLaw(10)):
        found = price(EITHER, tree)
        assert found.rho is not None
        taken = filters.charge(EITHER, found)["mixed_rdp_0"]
        divergence = found.rdp[order]
        assert divergence is not None
        assert taken == divergence <= found.rho * order * Decimal("1.0000000001")


def test_the_pure_filter_takes_no_delta() -> None:
    sums = charged(PureFilter(3), [ApproxDP("0.1", "1e-12")])
    assert sums["pure"] == (Decimal(0), 1)
    assert not filters.admits(PureFilter(3), sums)
    assert filters.reading(PureFilter(3), sums, Decimal("0.5")) == INFINITY


def test_the_delta_of_a_run_stays_spent_on_every_path() -> None:
    """A published coin that picks a large or a small delta may not claim the small one: deltas only ever add."""
    filter_ = BasicFilter(3, "1e-6")
    reserved = filters.charge(filter_, price(filter_, ApproxDP(1, "9e-7")))
    settled = filters.settle(filter_, reserved, price(filter_, ApproxDP("0.1", "1e-9")))
    assert settled == {"pure": Decimal("0.1"), "delta": Decimal("9e-7")}


def test_a_plan_stopped_early_gets_its_other_steps_back_but_not_their_delta() -> None:
    step = ApproxDP("0.01", "1e-9")
    plan, stopped = Repeated(step, times=100), Repeated(step, times=100, done=10)
    reserved = filters.charge(EITHER, price(EITHER, plan))
    settled = filters.settle(EITHER, reserved, price(EITHER, stopped))
    for place in (0, 1):
        assert settled[f"mixed_rdp_{place}"] * 10 == reserved[f"mixed_rdp_{place}"] > 0
        assert settled[f"mixed_pure_{place}"] == 0
    assert settled["delta"] == reserved["delta"] == Decimal("1e-7")


def test_admission_asks_for_the_cap_whatever_the_outcome_may_be() -> None:
    """Testing the budget after a cheap outcome would claim 0.9 for a mechanism that reveals 1."""
    filter_ = PureFilter("0.9")
    assert not filters.admits(filter_, charged(filter_, [BASIC]))


# ---- constants ------------------------------------------------------------------------------------------------------


def held(more: object, epsilon: float, delta: object) -> object:
    """Minus the zCDP that a boundary holds at order 1 + more."""
    k = real(more)
    offset = (-mp.log(real(delta)) + k * mp.log(k / (1 + k)) - mp.log(1 + k)) / k
    return -(real(epsilon) - max(offset, mp.mpf(0))) / (1 + k)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("3", "1e-6"), ("1", "1e-9"), ("0.1", "1e-5"), ("20", "0.01"), ("1", "0.5")]
)
def test_a_budget_opens_a_mixture_below_the_order_that_holds_most(epsilon: str, delta: str) -> None:
    filter_, whole = opened(ApproxDP(epsilon, delta)), Decimal(delta)
    assert filters.budget_guarantee(filter_) == ApproxDP(epsilon, delta)
    assert filter_.delta_sum == whole / 2
    first, second = filter_.boundaries
    assert (first.delta_boundary, second.delta_boundary) == (whole * 35 / 100, whole * 15 / 100)
    assert second.order_minus_one == first.order_minus_one * 7 / 10
    best = least(lambda more: held(more, float(epsilon), filter_.delta_sum), 1e-4, 1e6)
    assert held(first.order_minus_one, float(epsilon), filter_.delta_sum) <= best * real("0.999999")


def test_people_may_choose_the_orders_of_a_mixture() -> None:
    alike = opened_by(ApproxDP(3, "0.000001"), orders=(2, "8.5", 33))
    assert isinstance(alike, EitherFilter)
    assert [boundary.order_minus_one for boundary in alike.boundaries] == [1, Decimal("7.5"), 32]
    assert {boundary.delta_boundary for boundary in alike.boundaries} == {Decimal("0.000000" + "1" + "6" * 53)}  # cut
    shared = opened_by(ApproxDP(3, "0.000001"), orders=[(9, "0.8"), (2, "0.2")])
    assert shared == EitherFilter(3, "5e-7", (Boundary(8, "4e-7"), Boundary(1, "1e-7")))


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        ((), "from 1 to 16"),
        ((1,), "above 1"),
        ((2, 3, 2), "orders that differ"),
        (((2, "0.5"), (3, "0.6")), "at most 1"),
        (((2, 0),), "above 0"),
        (((2, "0.5"), 3), "not both"),
        (((2, "0.5", 3),), "not both"),
        (tuple(range(2, 19)), "from 1 to 16"),
    ],
)
def test_orders_that_no_mixture_has_are_refused(orders: filters.Orders, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        opened_by(ApproxDP(3, "1e-6"), orders=orders)


@pytest.mark.parametrize("budget", [PureDP(1), ApproxDP(1, 0), ZCDP(1)])
def test_only_an_approximate_budget_has_orders(budget: Guarantee) -> None:
    with pytest.raises(ParameterError, match=r"orders: .* approx_dp"):
        opened_by(budget, orders=(9,))


def test_a_pure_budget_opens_the_pure_filter() -> None:
    assert opened_by(PureDP(2)) == opened_by(ApproxDP(2, 0)) == PureFilter(2)


def test_a_budget_without_a_filter_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"budget: expected a guarantee that composes .* got bounded_range"):
        opened_by(BoundedRange(1))


@pytest.mark.parametrize(
    "budget",
    [
        PureDP(0),
        ApproxDP(0, 0),
        ApproxDP(0, "1e-6"),
        ApproxDP(1, "1e-60"),
        ZCDP(0),
        ZCDP(0, "1e-6"),
        GDP(0),
        RDP((2, 3), (1, 0)),
    ],
)
def test_budgets_of_nothing_are_refused(budget: Guarantee) -> None:
    with pytest.raises(ParameterError):
        opened_by(budget)


def test_an_unsound_boundary_cannot_be_built() -> None:
    with pytest.raises(ParameterError, match=r"delta_sum: expected a number below 1 - 0\.5"):
        advanced(3, "0.5", "0.5")
    with pytest.raises(ParameterError, match=r"EitherFilter\.delta_sum: expected a number below 1 - 0\.6"):
        EitherFilter(3, "0.4", (Boundary(5, "0.3"), Boundary(4, "0.3")))


@pytest.mark.parametrize("bad", ["0", "-1", "NaN", "Infinity", "one"])
def test_bad_numbers_name_their_field(bad: str) -> None:
    with pytest.raises(ParameterError, match=r"PureFilter\.epsilon"):
        PureFilter(bad)
    with pytest.raises(ParameterError, match=r"Boundary\.order_minus_one"):
        Boundary(bad, "1e-6")
    with pytest.raises(ParameterError, match=r"Boundary\.delta_boundary"):
        Boundary(1, bad)


# ---- readings and words ---------------------------------------------------------------------------------------------


def test_readings_say_what_the_theorem_of_each_filter_allows() -> None:
    trees = [PureDP("0.01")] * 40
    basic, either = BasicFilter(3, "1e-6"), charged(EITHER, trees)
    assert filters.reading(PureFilter(3), charged(PureFilter(3), trees), Decimal(0)) == Decimal("0.4")
    assert filters.reading(basic, charged(basic, trees), Decimal("1e-6")) == Decimal("0.4")
    assert filters.reading(basic, charged(basic, trees), Decimal(0)) == Decimal("0.4")
    assert Decimal("0.3999") < filters.reading(EITHER, either, Decimal("1e-6")) < Decimal("0.4")
    assert filters.reading(EITHER, either, Decimal("5e-7")) == Decimal("0.4")
    assert filters.reading(EITHER, either, Decimal("1e-7")) == Decimal("0.4")
    gaussians = charged(EITHER, [GaussianLaw(10)] * 4)
    at_budget = filters.reading(EITHER, gaussians, Decimal("1e-6"))
    assert filters.spent(EITHER, gaussians)["mixed"] == str(at_budget)
    assert filters.reading(EITHER, gaussians, Decimal("1e-3")) < at_budget
    assert filters.reading(EITHER, gaussians, Decimal("5e-7")) == INFINITY
    assert filters.reading(EITHER, gaussians, Decimal("5.1e-7")) > at_budget


@pytest.mark.parametrize("filter_", [BasicFilter(3, "1e-6"), EITHER], ids=["basic", "either"])
def test_below_the_filters_delta_a_reading_holds_while_as_much_may_fail(filter_: Filter) -> None:
    sums = charged(filter_, [ApproxDP("0.5", "1e-7"), ApproxDP("0.25", "2e-8"), PureDP("0.1")])
    for delta, shown in (("0", INFINITY), ("1.1e-7", INFINITY), ("1.2e-7", "0.85"), ("4e-7", "0.85")):
        assert filters.reading(filter_, sums, Decimal(delta)) == Decimal(shown)


def test_at_and_below_its_delta_a_filter_of_rho_reads_with_halves() -> None:
    filter_ = ZCDPFilter("0.1", "1e-5")
    sums = {"rho": (Decimal("0.02"), 0), "delta": (Decimal("2e-6"), 0)}
    free = filters.reading(ZCDPFilter("0.1", 0), {**sums, "delta": (Decimal(0), 0)}, Decimal("3e-6"))
    assert filters.reading(filter_, sums, Decimal("6e-6")) == free < INFINITY
    assert filters.reading(filter_, sums, Decimal("1e-5")) < free
    assert filters.reading(filter_, sums, Decimal("3.9e-6")) == INFINITY
    assert filters.reading(filter_, filters.opening(filter_), Decimal(0)) == 0


def test_a_reading_is_an_epsilon_that_the_engine_does_not_contradict() -> None:
    sums = charged(EITHER, [GaussianLaw(10)] * 30)
    for delta in ("1e-6", "1e-4", "0.01"):
        truth = compose(Repeated(GaussianLaw(10), times=30), relation=Relation.ADD_REMOVE).epsilon(delta)
        assert Decimal(truth.lower) <= filters.reading(EITHER, sums, Decimal(delta))


def test_a_refusal_can_be_told_account_by_account() -> None:
    sums = charged(EITHER, [PureDP(1), GaussianLaw(10)])
    charged_ = filters.charge(EITHER, price(EITHER, GaussianLaw("0.5")))
    asked = filters.asked(EITHER, sums, charged_)
    spent, left = filters.spent(EITHER, sums), filters.left(EITHER, sums)
    assert asked["pure"] == spent["pure"] == "inf"
    assert left["pure"] == asked["delta"] == "0"
    assert Decimal(spent["mixed"]) + Decimal(left["mixed"]) == EITHER.epsilon
    assert Decimal(asked["mixed"]) > Decimal(left["mixed"])
    after = filters.with_charge(EITHER, sums, charged_)
    assert Decimal(spent["mixed"]) + Decimal(asked["mixed"]) == Decimal(filters.spent(EITHER, after)["mixed"])
    assert filters.left(PureFilter(3), charged(PureFilter(3), [PureDP("0.1")])) == {"pure": "2.9"}
    assert filters.left(BasicFilter(3, "1e-6"), filters.opening(BasicFilter(3, "1e-6"))) == {
        "pure": "3",
        "delta": "0.000001",
    }


def test_a_price_beyond_every_budget_is_no_price() -> None:
    """Noise of 1e-60 costs more than a decimal may hold: refused in words, not by an overflow."""
    charged_ = filters.charge(EITHER, price(EITHER, GaussianLaw("1e-60")))
    assert filters.asked(EITHER, filters.opening(EITHER), charged_) == {"pure": "inf", "mixed": "inf", "delta": "0"}
    assert not filters.admits(EITHER, filters.with_charge(EITHER, filters.opening(EITHER), charged_))


def test_a_gaussian_budget_has_a_square_that_can_be_written_down() -> None:
    """Its sums are of mu^2, and numbers on the wire are below 10^18."""
    with pytest.raises(ParameterError, match=r"GDPFilter\.mu: expected a number below 1000000000"):
        filters.opened_by(GDP("1e9"))
    widest = filters.opened_by(GDP("999999999.9"))
    assert filters.left(widest, filters.opening(widest)) == {"mu_squared": "999999999800000000.01"}


# ---- which accounts decide ------------------------------------------------------------------------------------------


@every_filter
def test_every_account_decides_but_the_pure_one_beside_a_mixture(filter_: Filter) -> None:
    told = filters.spent(filter_, filters.opening(filter_))
    assert filters.deciding(filter_) == tuple(name for name in told if filter_ is not EITHER or name != "pure")


@given(st.lists(requests, max_size=12))
def test_of_a_mixture_mixed_and_delta_decide_and_mixed_is_never_above_pure(asked: list[Composition]) -> None:
    """As every page and every refusal says, at every prefix: also where `pure` has nothing left."""
    sums = filters.opening(EITHER)
    for tree in asked:
        sums = filters.with_charge(EITHER, sums, filters.charge(EITHER, price(EITHER, tree)))
        held = {name: Decimal(total) for name, total in filters.spent(EITHER, sums).items()}
        assert held["mixed"] <= held["pure"]
        fits = held["mixed"] <= EITHER.epsilon and held["delta"] <= EITHER.delta_sum
        assert filters.admits(EITHER, sums) == fits


def test_nothing_left_of_pure_refuses_nothing() -> None:
    sums = filters.opening(EITHER)
    small = filters.charge(EITHER, price(EITHER, LaplaceLaw("0.05")))
    for _ in range(60):
        sums = filters.with_charge(EITHER, sums, small)
    left = filters.left(EITHER, sums)
    assert left["pure"] == "0"
    assert Decimal(left["mixed"]) > Decimal("0.9")
    assert filters.admits(EITHER, filters.with_charge(EITHER, sums, small))
