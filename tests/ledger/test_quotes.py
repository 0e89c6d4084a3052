"""What a scope would decide, and what it could afford: the promise that asking keeps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st

import dpledger as dpl
from dpledger.accounting import certified, filters
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.planning.calibration import least_that, most_that
from dpledger.accounting.planning.ways import admits, ways
from dpledger.errors import CannotCertify, InfeasiblePlan, RelationError, ScopeError
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

HUNDRED = (dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), 100)
STEP = dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01")
UNDER: dict[str, Any] = {"relation": "add_remove"}
WORD: dict[str, Any] = {"by": "A. Smith", "reason": "a count", **UNDER}


def opened(budget: Any, **said: Any) -> dpl.Scope:
    return dpl.Ledger.in_memory().scope("work", unit="record", relation="add_remove", budget=budget, **said)


def begun(budget: Any) -> dpl.Scope:
    """A scope that has fixed its filter, the one that it was opened with, and has nearly everything left."""
    scope = opened(budget)
    scope.release(dpl.Laplace(sensitivity=1, epsilon="0.001"), 0)
    return scope


def training(plan: dpl.planning.TrainingPlan) -> dpl.DPSGD:
    return dpl.DPSGD(
        rate=plan.rate,
        steps=plan.steps,
        noise_multiplier=plan.noise_multiplier,
        clip_norm=1,
        dimension=3,
        expected_batch_size=plan.expected_batch_size,
    )


def ran(scope: dpl.Scope, what: dpl.DPSGD, tail_delta: Any = None) -> None:
    with scope.open(what, np.zeros((4, 3)), tail_delta=tail_delta):
        pass


class TestAfford:
    """`one_by_one` is what a loop would count, and `planned` what one request may hold."""

    @pytest.mark.parametrize(
        ("budget", "what"),
        [
            (dpl.PureDP(1), dpl.Laplace(sensitivity=1, epsilon="0.15")),
            (dpl.ApproxDP(1, "1e-6"), dpl.Laplace(sensitivity=1, epsilon="0.15")),
            (dpl.ZCDP("0.05"), dpl.Gaussian(sensitivity=1, sigma=5)),
            (dpl.GDP("0.5"), dpl.Gaussian(sensitivity=1, sigma=5)),
            (dpl.ApproxDP(1, "1e-6"), dpl.Gaussian(sensitivity=1, sigma=20)),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_loop_counts_the_same(self, budget: Guarantee, what: Any) -> None:
        scope, counted = opened(budget), 0
        told = scope.afford(what).one_by_one
        while scope.quote(what).admitted:
            scope.release(what, 0)
            counted += 1
        assert counted == told > 0
        assert scope.afford(what).one_by_one == 0

    def test_runs_are_counted_with_the_tail_delta_that_each_of_them_would_get(self) -> None:
        scope, counted = opened(dpl.ApproxDP(3, "1e-6")), 0
        run = dpl.DPSGD(rate="0.01", steps=100, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=1)
        told = scope.afford(run)
        chosen = []
        while scope.quote(run).admitted:
            scope.open(run, np.zeros((4, 3)))
            chosen.append(scope.account().admissions[-1].tail_delta)
            counted += 1
        assert counted == told.one_by_one
        assert min(chosen) < max(chosen), "what is left of delta shrinks, and so does each share of it"

    def test_a_plan_of_so_many_is_admitted_and_one_more_is_not(self) -> None:
        basic = opened(filters.BasicFilter(3, "1e-6"))
        planned = basic.afford(STEP).planned
        assert planned == 2061 == dpl.planning.calibrate_count(lambda n: (STEP, n), dpl.ApproxDP(3, "1e-6"))
        assert opened(dpl.ApproxDP(3, "1e-6")).afford(STEP).planned == planned
        scope = begun(dpl.ApproxDP(3, "1e-6"))
        most = scope.afford(STEP).planned
        assert 0.9 * planned < most < planned
        ways = [Decimal("1e-6") / 2**power for power in range(8)] + [Decimal(0)]
        fits = [self._plan(scope, steps) for steps in (most, most + 1)]
        assert [any(scope.quote(plan, tail_delta=way).admitted for way in ways) for plan in fits] == [True, False]

    @staticmethod
    def _plan(scope: dpl.Scope, steps: int) -> dpl.DPSGD:
        return dpl.DPSGD(
            rate="0.01", steps=steps, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=1
        ).under(scope.relation, scope.unit)

    def test_it_stops_counting(self) -> None:
        told = opened(dpl.PureDP(1)).afford(dpl.LaplaceLaw("0.001"), most=10)
        assert (told.one_by_one, told.planned) == (10, 10)
        assert str(told) == "10 or more one by one, 10 or more as one plan"

    def test_what_is_above_counts_too(self) -> None:
        book = dpl.Ledger.in_memory()
        book.scope("all", unit="record", relation="add_remove", budget=dpl.PureDP("0.25"), dataset="people")
        below = book.scope(
            "some", unit="record", relation="add_remove", budget=dpl.PureDP(1), parents=["all"], dataset="people"
        )
        assert below.afford(dpl.LaplaceLaw("0.1")).one_by_one == 2

    def test_a_document_counts_as_it_is_charged(self) -> None:
        twice: Any = [{"mechanism": dpl.LaplaceLaw("0.1"), "count": 2}]
        run = dpl.Document(relation=Relation.ADD_REMOVE, entries=twice)
        book = dpl.Ledger.in_memory()
        under: dict[str, Any] = {"budget": dpl.PureDP("2.5"), "dataset": "people"}
        alike = book.scope("alike", unit="record", relation="add_remove", **under)
        replaced = book.scope("replaced", unit="record", relation="replace_one", **under)
        many = book.scope("many", unit=dpl.Unit("record", 3), relation="add_remove", **under)
        assert [one.afford(run).one_by_one for one in (alike, replaced)] == [12, 6]
        assert alike.afford((run, 3)).one_by_one == 4
        assert (many.afford(run, of="row").one_by_one, many.afford(run, of="unit").one_by_one) == (4, 12)
        for _ in range(4):
            many.charge(run, by="A. Smith", reason="a run elsewhere", of="row")
        assert many.afford(run, of="row").one_by_one == 0
        with pytest.raises(dpl.ParameterError, match=r"^of: "):
            many.afford(run)
        with pytest.raises(dpl.ParameterError, match=r"^of: .*expected nothing, except with a document"):
            many.afford(dpl.LaplaceLaw(1), of="row")
        with pytest.raises(RelationError):
            alike.afford(dpl.Document(relation=Relation.REPLACE_ONE, entries=twice))

    def test_nothing_is_recorded(self) -> None:
        scope = opened(dpl.ApproxDP(1, "1e-6"))
        before = len(scope._ledger)
        scope.afford(HUNDRED)
        scope.quote(dpl.Laplace(sensitivity=1, epsilon=1))
        scope.plan_training(rate="0.1", steps=10, expected_batch_size=5, dimension=3)
        assert len(scope._ledger) == before

    def test_what_has_no_price_in_any_currency_is_an_error_and_in_the_scope_s_own_is_none(self) -> None:
        assert opened(dpl.PureDP(1)).afford(dpl.GaussianLaw(1)).one_by_one == 0
        replacing = dpl.Ledger.in_memory().scope(
            "work", unit="record", relation="replace_one", budget=dpl.ApproxDP(1, "1e-6")
        )
        by_value = dpl.Parallel((dpl.LaplaceLaw(1), dpl.LaplaceLaw(1)))
        with pytest.raises(CannotCertify):
            replacing.afford(by_value)

    @pytest.mark.parametrize("most", [0, -1, "many", 1.5, True, 10**30])
    def test_a_bad_limit_names_itself(self, most: Any) -> None:
        with pytest.raises(dpl.ParameterError, match="most"):
            opened(dpl.PureDP(1)).afford(dpl.LaplaceLaw(1), most=most)


class TestQuote:
    """The decision, each account before and after, and a cheaper way."""

    def test_it_is_what_a_release_is_answered(self) -> None:
        scope = opened(dpl.PureDP(1))
        fits, not_ = (scope.quote(dpl.Laplace(sensitivity=1, epsilon=e)) for e in ("0.4", "1.1"))
        assert (fits.admitted, not_.admitted) == (True, False)
        before, after, left = (getattr(fits.accounts["pure"], name) for name in ("before", "after", "left"))
        assert (before, after, left) == ("0", "0.4", "0.6")
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.4"), 0)
        assert scope.account().left_by_account == {"pure": left}

    def test_one_that_is_refused_says_what_is_left_now(self) -> None:
        scope = opened(dpl.PureDP(3))
        scope.charge(dpl.PureDP("0.6"), **WORD)
        assert str(scope.quote(dpl.PureDP(3), **UNDER)).endswith("\n  pure: 0.6 before, 2.4 left; 3.6 with this")
        assert str(scope.quote(dpl.PureDP(2), **UNDER)).endswith("\n  pure: 0.6 before, 2.6 after, 0.4 left")
        assert "pure: 0.6 before, 2.4 left; no theorem prices this request in this account" in str(
            scope.quote(dpl.GaussianLaw(9), **UNDER)
        )

    def test_an_account_that_has_no_price_of_what_was_charged_says_so_in_words(self) -> None:
        scope = opened(dpl.ApproxDP(3, "1e-6"))
        scope.charge(dpl.GaussianLaw(9), tail_delta=0, **WORD)
        told = str(scope.quote(dpl.PureDP("0.1"), tail_delta=0, **UNDER))
        assert "pure: holds a charge that has no price in this account" in told
        assert "inf" not in told

    def test_a_training_run_is_told_how_to_ask_for_less(self) -> None:
        scope = begun(dpl.ApproxDP(3, "1e-6"))
        run = dpl.DPSGD(rate="0.01", steps=1800, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=1)
        quote = scope.quote(run)
        assert not quote.admitted
        assert quote.cheaper is not None
        assert quote.cheaper.admitted
        assert "tail_delta=" in str(quote)
        ran(scope, run, quote.cheaper.tail_delta)

    def test_which_accounts_decide_is_said(self) -> None:
        mixed, basic = opened(dpl.ApproxDP(3, "1e-6")), opened(filters.BasicFilter(3, "1e-6"))
        told = str(mixed.quote([(dpl.LaplaceLaw("0.05"), 60)], **UNDER)).splitlines()
        assert told[1] == "  pure: 0 before, 3 after, 0 left (for comparison: mixed counts it and decides)"
        assert [line.split(":")[0] for line in told[2:4]] == ["  mixed", "  delta"]
        assert not any("comparison" in line for line in told[2:])
        assert "comparison" not in str(basic.quote(dpl.LaplaceLaw("0.05"), **UNDER))

    def test_where_nothing_is_cheaper_nothing_is_said(self) -> None:
        quote = opened(dpl.ApproxDP(1, "1e-6")).quote(dpl.Laplace(sensitivity=1, epsilon="0.5"))
        assert quote.cheaper is None


class TestRefusals:
    """What does not fit as it was asked, and would fit in another way."""

    RUN = dpl.DPSGD(rate="0.01", steps=1800, noise_multiplier=1, clip_norm=1, dimension=3, expected_batch_size=1)

    def test_a_plan_is_told_with_which_tail_delta_it_fits(self) -> None:
        scope = begun(dpl.ApproxDP(3, "1e-6"))
        with pytest.raises(dpl.BudgetRefused) as raised:
            ran(scope, self.RUN)
        quote = scope.quote(self.RUN)
        assert quote.cheaper is not None
        assert raised.value.tail_delta == quote.cheaper.tail_delta
        assert str(raised.value).endswith(f"the same request fits now with tail_delta={quote.cheaper.tail_delta:f}")
        ran(scope, self.RUN, raised.value.tail_delta)

    @pytest.mark.parametrize("asked", ["0", "1e-9"])
    def test_one_that_was_asked_in_a_way_of_its_own_too(self, asked: str) -> None:
        scope = opened(dpl.ApproxDP(3, "1e-6"))
        with pytest.raises(dpl.BudgetRefused) as raised:
            ran(scope, self.RUN, asked)
        ran(scope, self.RUN, raised.value.tail_delta)

    @pytest.mark.parametrize(
        ("budget", "what"),
        [
            (dpl.ApproxDP(1, "1e-6"), dpl.Laplace(sensitivity=1, epsilon=2)),
            (dpl.ApproxDP("0.1", "1e-6"), RUN),
            (dpl.ZCDP("0.0001"), dpl.Gaussian(sensitivity=1, sigma=5)),
        ],
        ids=["one release", "in no way", "no delta"],
    )
    def test_where_no_way_fits_none_is_told(self, budget: Any, what: Any) -> None:
        scope = opened(budget)
        with pytest.raises(dpl.BudgetRefused) as raised:
            ran(scope, what) if isinstance(what, dpl.DPSGD) else scope.release(what, 0)
        assert raised.value.tail_delta is None
        assert "tail_delta" not in str(raised.value)

    def test_the_record_is_of_the_request_alone(self) -> None:
        """The way that fits now is said to whoever asked; the entry says what was asked, and is written once."""
        scope = opened(dpl.ApproxDP(3, "1e-6"))
        for _ in range(2):
            with pytest.raises(dpl.BudgetRefused):
                scope.charge((dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), 1800), **WORD)
        bodies = [entry.body for entry in scope._ledger.entries()]
        assert [body.kind for body in bodies].count("refused") >= 1
        assert not any("fits now" in repr(body) for body in bodies)

    def test_its_numbers_are_told_in_nine_digits_and_never_to_its_favour(self) -> None:
        """The price of noise on a grid is that of its scale, which is rounded: 8.99999999993 is nobody's epsilon."""
        scope = opened(dpl.PureDP("1.00000000001"))
        with pytest.raises(dpl.BudgetRefused, match=r"asked 9, spent 0, left 1\.") as raised:
            scope.release(dpl.Count(epsilon=9, of="rows"), [1])
        assert raised.value.asked["pure"] == "8.99999999993"
        with pytest.raises(dpl.BudgetRefused, match=r"asked 1\.00000001, spent 0, left 1\."):
            scope.charge(dpl.PureDP("1.00000000002"), **WORD)

    def test_a_refusal_says_which_accounts_decide(self) -> None:
        with pytest.raises(dpl.BudgetRefused, match=r"left 0\.0000005 \(pure is not a limit\)"):
            opened(dpl.ApproxDP(1, "1e-6")).release(dpl.Laplace(sensitivity=1, epsilon=2), 0)
        with pytest.raises(dpl.BudgetRefused) as raised:
            opened(dpl.PureDP(1)).release(dpl.Laplace(sensitivity=1, epsilon=2), 0)
        assert "not a limit" not in str(raised.value)

    def test_it_travels(self) -> None:
        scope = begun(dpl.ApproxDP(3, "1e-6"))
        with pytest.raises(dpl.BudgetRefused) as raised:
            ran(scope, self.RUN)
        copied = pickle.loads(pickle.dumps(raised.value))
        assert (copied.tail_delta, str(copied)) == (raised.value.tail_delta, str(raised.value))


class TestPlans:
    """A plan that is said to fit is admitted, whatever was charged before."""

    @settings(max_examples=12, deadline=None)
    @given(
        epsilon=st.sampled_from(["0.5", "1", "3", "8"]),
        delta=st.sampled_from(["1e-5", "1e-6", "1e-9"]),
        rate=st.sampled_from(["0.001", "0.01", "0.2", "1"]),
        steps=st.integers(1, 500),
        spent=st.lists(st.sampled_from(["0.01", "0.1", "0.2"]), max_size=3),
        basic=st.booleans(),
    )
    def test_it_is_admitted(
        self, epsilon: str, delta: str, rate: str, steps: int, spent: list[str], basic: bool
    ) -> None:
        scope = opened(filters.BasicFilter(epsilon, delta) if basic else dpl.ApproxDP(epsilon, delta))
        for loss in spent:
            if scope.quote(dpl.Laplace(sensitivity=1, epsilon=loss)).admitted:
                scope.release(dpl.Laplace(sensitivity=1, epsilon=loss), 0)
        try:
            plan = scope.plan_training(rate=rate, steps=steps, expected_batch_size=2, dimension=3, digits=3)
        except InfeasiblePlan:
            reject()
        assert plan.fits
        less = plan.noise_multiplier * Decimal("0.9")
        worse = dpl.DPSGD(
            rate=rate, steps=steps, noise_multiplier=less, clip_norm=1, dimension=3, expected_batch_size=2
        )
        assert not scope.quote(worse, tail_delta=plan.tail_delta).admitted
        ran(scope, training(plan), plan.tail_delta)

    def test_the_issue_s_plan(self) -> None:
        """(3, 1e-6): what alone meets the target fits a scope of that budget to which nothing was charged; one that has
        begun refuses it, and admits what it plans itself."""
        alone = dpl.planning.dpsgd_plan(60_000, 10, 256, dpl.ApproxDP(3, "1e-6"), dimension=10)
        fresh = opened(dpl.ApproxDP(3, "1e-6"))
        whole = dpl.planning.dpsgd_plan(60_000, 10, 256, dimension=10, scope=fresh)
        assert alone.fits
        assert (whole.noise_multiplier, whole.tail_delta) == (alone.noise_multiplier, alone.tail_delta)
        assert whole.prices == alone.prices
        scope = begun(dpl.ApproxDP(3, "1e-6"))
        planned = dpl.planning.dpsgd_plan(60_000, 10, 256, dimension=10, scope=scope)
        assert alone.noise_multiplier < planned.noise_multiplier < alone.noise_multiplier * Decimal("1.03")
        for where, plan in ((fresh, whole), (scope, planned)):
            assert plan.fits
            others = [noise for noise in plan.others.values() if noise is not None]
            assert others
            assert all(noise > plan.noise_multiplier for noise in others)
            ran(where, training(plan), plan.tail_delta)
        mixture = filters.opened_by(dpl.ApproxDP(3, "1e-6"))
        named = dpl.planning.dpsgd_plan(60_000, 10, 256, dpl.ApproxDP(3, "1e-6"), dimension=10, scope_filter=mixture)
        assert not named.fits
        assert "scope.plan_training" in named.words()

    def test_a_scope_that_has_nothing_left_says_so(self) -> None:
        scope = opened(dpl.ApproxDP(1, "1e-6"))
        scope.release(dpl.Laplace(sensitivity=1, epsilon=1), 0)
        with pytest.raises(InfeasiblePlan, match="scope with more left"):
            scope.plan_training(rate="0.5", steps=100, expected_batch_size=2, dimension=3)

    def test_all_of_delta_is_spent_only_where_it_spares_noise(self) -> None:
        """Above stands a budget that prices the parts alone: it sets the noise, however the scope below is asked."""
        book = dpl.Ledger.in_memory()
        said: Any = {"unit": "record", "relation": "add_remove"}
        book.scope("register", budget=dpl.ZCDP("0.1"), **said)
        scope = book.scope("work", budget=dpl.ApproxDP(3, "1e-6"), parents=["register"], **said)
        plan = scope.plan_training(rate="0.01", steps=100, expected_batch_size=2, dimension=3, digits=2)
        assert plan.tail_delta == scope.quote(training(plan)).way.tail_delta
        assert set(plan.others) == {Decimal("1e-6"), Decimal(0)}
        assert plan.fits

    def test_it_takes_few_prices_and_those_of_other_ways_when_they_are_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []
        price = certified.certified_cost

        def counted(*said: Any) -> Any:
            asked.append(said)
            return price(*said)

        monkeypatch.setattr(certified, "certified_cost", counted)
        scope = opened(dpl.ApproxDP(3, "1e-6"))
        plan = scope.plan_training(rate="0.01", steps=300, expected_batch_size=2, dimension=3)
        assert len(set(asked)) <= 9
        assert {tail for *_, tail, _ in asked} == {Decimal("1e-6")}  # a first charge: no other way needs less
        asked.clear()
        words = plan.words()
        assert asked
        assert all(f"{noise}" in words for noise in plan.others.values())

    def test_smaller_parts_of_delta_are_asked_until_one_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scope, asked = opened(dpl.ApproxDP(3, "1e-6")), list[Decimal]()
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 0)
        price = certified.certified_cost

        def kept(*said: Any) -> Any:
            asked.append(said[2])
            return price(*said)

        monkeypatch.setattr(certified, "certified_cost", kept)
        assert scope.plan_training(rate="0.01", steps=300, expected_batch_size=2, dimension=3).fits
        assert min(asked) == max(asked) / 2

    def test_few_steps_take_few_prices_and_a_wrong_guess_moves_no_plan(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def planned(steps: int) -> tuple[Decimal, int]:
            certified._good_part.cache_clear()
            plan = opened(dpl.ApproxDP(3, "1e-6")).plan_training(
                rate="0.01", steps=steps, expected_batch_size=2, dimension=3
            )
            return plan.noise_multiplier.exact, certified._good_part.cache_info().misses

        found = {steps: planned(steps) for steps in (2, 20)}
        assert max(prices for _, prices in found.values()) <= 5
        for factor in (0.5, 0.99, 3):
            rough = certified.rough_epsilon

            def wrong(*said: Any, rough: Any = rough, factor: float = factor) -> float:
                return factor * float(rough(*said))

            with monkeypatch.context() as patched:
                patched.setattr(certified, "rough_epsilon", wrong)
                assert planned(2)[0] == found[2][0]

    def test_the_way_that_needs_least_is_found(self) -> None:
        """What was spent of delta and epsilon moves the best tail_delta: each other way needs as much or more."""
        for spent in ("1e-7", "4.9e-7"):
            scope = opened(dpl.ApproxDP(2, "1e-6"))
            scope.charge(dpl.ApproxDP("0.3", spent), **WORD)
            plan = scope.plan_training(rate="0.02", steps=200, expected_batch_size=2, dimension=3, digits=4)
            for way in ways(plan.levels, plan.parts()):
                less = replace(plan, noise_multiplier=plan.noise_multiplier * Decimal("0.999"))
                assert not admits(plan.levels, less.parts(), way)

    def test_where_no_theorem_prices_it_no_noise_is_to_blame(self) -> None:
        scope = dpl.Ledger.in_memory().scope("work", unit="record", relation="label_flip", budget=dpl.PureDP(1))
        with pytest.raises(CannotCertify):
            scope.plan_training(rate="0.01", steps=100, expected_batch_size=2, dimension=3)

    def test_a_plan_for_a_scope_has_no_target_of_its_own(self) -> None:
        scope = opened(dpl.ApproxDP(1, "1e-6"))
        with pytest.raises(dpl.ParameterError, match="scope"):
            dpl.planning.dpsgd_plan(100, 1, 10, dpl.ApproxDP(1, "1e-6"), dimension=1, scope=scope)
        with pytest.raises(dpl.ParameterError, match="target"):
            dpl.planning.dpsgd_plan(100, 1, 10, dimension=1)


@pytest.mark.parametrize("closed", ["register", "work"])
def test_a_closed_scope_affords_nothing_and_says_so(closed: str) -> None:
    book = dpl.Ledger.in_memory()
    said: Any = {"unit": "record", "relation": "add_remove", "budget": dpl.ApproxDP(3, "1e-6")}
    scopes = {"register": book.scope("register", **said)}
    scope = scopes["work"] = book.scope("work", parents=["register"], **said)
    scopes[closed].end("done")
    with pytest.raises(ScopeError, match="is closed"):
        scope.quote(dpl.Laplace(sensitivity=1, epsilon=1))
    with pytest.raises(ScopeError, match="is closed"):
        scope.afford(dpl.Laplace(sensitivity=1, epsilon=1))
    with pytest.raises(ScopeError, match="is closed"):
        scope.plan_training(rate="0.01", steps=100, expected_batch_size=2, dimension=3)


@pytest.mark.parametrize("what", [STEP, HUNDRED], ids=["step", "plan"])
def test_what_nothing_prices_is_told_by_afford_as_by_release(what: Any) -> None:
    """A sample of Gaussian noise has no epsilon of its own: no number of them is afforded, and none is refused."""
    scope, said = opened(dpl.PureDP(1)), []
    asked: tuple[Callable[..., object], ...] = (scope.afford, partial(scope.quote, **UNDER))
    for ask in asked:
        with pytest.raises(CannotCertify, match="counts pure epsilons") as caught:
            ask(what)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_afford_refuses_a_tail_delta_that_release_refuses() -> None:
    scope = opened(dpl.PureDP(1))
    said = []
    for ask in (scope.afford, scope.quote):
        with pytest.raises(dpl.ParameterError) as caught:
            ask(dpl.Laplace(sensitivity=1, epsilon="0.1"), tail_delta="1e-8")
        said.append(str(caught.value))
    assert said[0] == said[1]


@given(limit=st.integers(0, 10**6), most=st.integers(1, 10**6), share=st.floats(0, 1))
def test_most_that_finds_the_last_number_that_holds(limit: int, most: int, share: float) -> None:
    known = int(min(limit, most) * share)
    assert most_that(lambda count: count <= limit, most=most, known=known) == min(limit, most)


@given(limit=st.decimals("0.0001", "10000000", places=9), digits=st.integers(2, 8))
def test_least_that_finds_the_first_value_that_holds(limit: Decimal, digits: int) -> None:
    found = least_that(lambda value: value >= limit, within=(Decimal("0.01"), Decimal(10**6)), digits=digits)
    if limit > 10**6:
        assert found is None
    else:
        assert found is not None
        assert limit <= found <= max(Decimal("0.01"), limit * (1 + Decimal(2) / 10 ** (digits - 1)))
