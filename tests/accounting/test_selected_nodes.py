"""The node `selected` against published numbers, against an enumeration of small mechanisms, and where it has none."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    PoissonSampled,
    Repeated,
    Selected,
    Sequence,
)
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing import selecting
from dpledger.accounting.pricing.selecting import selected_cost
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import check, cost
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain
from selection_oracle import Law, best_of, enumerated, hockey_stick, negative_binomial, pairs_within, poisson, renyi

pytestmark = pytest.mark.sliced

BOTH = Relation.ADD_REMOVE
TRAINING = Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=1000)
GEOMETRIC = NegativeBinomialTrials(eta=1, gamma="0.01")

# dp_accounting 0.6 (RdpAccountant, orders 1.1 to 200) at a delta of 1e-5: eta, mean, epsilon.
PUBLISHED = [
    ("1", 5, 3.6858), ("1", 20, 4.4807), ("1", 100, 5.2700),
    ("0", 5, 3.2434), ("0", 20, 3.7737), ("0", 100, 4.3012),
    ("0.5", 5, 3.4827), ("0.5", 20, 4.1422), ("0.5", 100, 4.7909),
]  # fmt: skip
PUBLISHED_POISSON = [(5, 3.2842), (20, 6.2937), (100, 16.3968)]


def gamma_of(eta: str, mean: int) -> str:
    """The gamma at which the mean of K is this one, from mpmath."""
    with mpmath.workdps(40):
        power = mpmath.mpf(eta)

        def off(gamma: mpmath.mpf) -> mpmath.mpf:
            if not power:
                return (1 / gamma - 1) / mpmath.log(1 / gamma) - mean
            return power * (1 - gamma) / (gamma * (1 - gamma**power)) - mean

        return str(mpmath.nstr(mpmath.findroot(off, (1e-5, 0.5), solver="bisect", tol=1e-30), 25))


@pytest.mark.parametrize(("eta", "mean", "published"), PUBLISHED)
def test_a_training_costs_what_others_publish(eta: str, mean: int, published: float) -> None:
    trials = NegativeBinomialTrials(eta=eta, gamma=gamma_of(eta, mean))
    assert float(trials.mean) == pytest.approx(mean, rel=1e-10)
    found = compose(Selected(TRAINING, repeats=trials)).epsilon("1e-5").upper
    assert published - 0.002 <= found <= published + 0.00005


@pytest.mark.parametrize(("mean", "published"), PUBLISHED_POISSON)
def test_a_training_costs_what_others_publish_for_poisson(mean: int, published: float) -> None:
    found = compose(Selected(TRAINING, repeats=PoissonTrials(mean))).epsilon("1e-5").upper
    assert published - 0.002 <= found <= published + 0.00005


# ---- every pair of a small mechanism --------------------------------------------------------------------------------

RATIO = Fraction(3, 2)
PAIRS = pairs_within(RATIO, steps=10)
TRIED = tuple(map(Decimal, ("1.5", "2", "4", "16", "64")))
LAWS: list[tuple[Trials, Law]] = [
    (NegativeBinomialTrials(eta=1, gamma="0.25", most=6), negative_binomial(1, 0.25, 6)),
    (NegativeBinomialTrials(eta=1, gamma="0.125"), negative_binomial(1, 0.125, 300)),
    (NegativeBinomialTrials(eta=0, gamma="0.125"), negative_binomial(0, 0.125, 300)),
    (NegativeBinomialTrials(eta="-0.5", gamma="0.125"), negative_binomial(-0.5, 0.125, 300)),
    (NegativeBinomialTrials(eta=3, gamma="0.5"), negative_binomial(3, 0.5, 150)),
    (NegativeBinomialTrials(eta=2, gamma="0.0625", most=3), negative_binomial(2, 0.0625, 3)),
    (PoissonTrials(mean=4), poisson(4, 60)),
    (PoissonTrials(mean="0.5"), poisson(0.5, 40)),
    (PoissonTrials(mean=4, most=5), poisson(4, 5)),
    (PoissonTrials(mean=1, most=1), poisson(1, 1)),
]
CUT = 1e-13  # what K above the last one counted could move, of laws that have no `most`


def decimals_of(law: Law) -> tuple[str, ...]:
    return tuple(f"{x:.1f}" for x in law)


ANY_PAIR = PureDP("0.405465108108165")  # log 1.5, which all of PAIRS keep


@functools.cache
def price_of(run: Composition) -> Cost:
    """Its price at every order that a selection asks for."""
    return cost(run, BOTH, orders=(*TRIED, *selecting.ORDERS))


def exceeds(price: Cost, best: Law, other: Law) -> bool:
    """Whether a pair loses more than the price, in either direction."""
    assert price.pure is not None
    pure = max(abs(math.log(x / y)) for x, y in zip(best, other, strict=True) if x)
    found = [pure > float(price.pure) + CUT]
    for order, divergence in price.rdp.items():
        assert divergence is not None
        each = max(renyi(best, other, float(order)), renyi(other, best, float(order)))
        found.append(each > float(divergence) + CUT)
    return any(found)


@pytest.mark.parametrize(("repeats", "trials"), LAWS, ids=[one.kind + str(k) for k, (one, _) in enumerate(LAWS)])
def test_no_pair_of_a_small_mechanism_loses_more_than_the_price(repeats: Trials, trials: Law) -> None:
    every = selected_cost(repeats, price_of(ANY_PAIR), TRIED)
    for left, right in PAIRS:
        assert not exceeds(every, best_of(left, trials), best_of(right, trials))
    for left, right in PAIRS[::48]:
        own = selected_cost(repeats, price_of(PmfPair(decimals_of(left), decimals_of(right))), TRIED)
        assert not exceeds(own, best_of(left, trials), best_of(right, trials))


def test_a_price_that_forgets_a_part_of_the_formula_is_found() -> None:
    """Of the run alone; and of a selection that pays for the rare best only once."""
    repeats, trials = LAWS[1]
    whole = price_of(ANY_PAIR)
    assert any(exceeds(replace(whole, rdp={}), best_of(left, trials), best_of(right, trials)) for left, right in PAIRS)
    alone = {order: whole.rdp[order] for order in TRIED}
    assert any(
        exceeds(replace(whole, pure=Decimal(9), rdp=alone), best_of(left, trials), best_of(right, trials))
        for left, right in PAIRS
    )
    assert repeats.kind == "negative_binomial"


@pytest.mark.parametrize(("repeats", "trials"), LAWS[::3], ids=[one.kind for one, _ in LAWS[::3]])
def test_the_profile_of_a_selection_is_above_that_of_every_pair(repeats: Trials, trials: Law) -> None:
    profile = compose(Selected(ANY_PAIR, repeats=repeats))
    for epsilon in (0.0, 0.1, 0.4):
        above = profile.delta(epsilon).upper
        for left, right in PAIRS:
            best, other = best_of(left, trials), best_of(right, trials)
            assert max(hockey_stick(best, other, epsilon), hockey_stick(other, best, epsilon)) <= above + CUT


def test_counting_draw_by_draw_is_counting_every_sequence() -> None:
    for (_, trials), (left, _) in itertools.product(LAWS, PAIRS[:3]):
        assert best_of(left, trials[:6]) == pytest.approx(enumerated(left, trials[:6]), rel=1e-12)


def test_a_formula_that_forgets_how_rare_the_best_is_fails() -> None:
    """(1 + eta) epsilon, one epsilon less than the theorem: with many trials, of which the best are rare, the law of K
    tells of the rare ones 1 + eta times, and the output itself once more."""
    ratio = float(RATIO)
    usual, good = 1e-3, 0.1
    left = (1 - usual * ratio - good / ratio, usual * ratio, good / ratio)
    right = (1 - usual - good, usual, good)
    for eta in (0.0, 1.0):
        trials = negative_binomial(eta, 1 / 2000, 60_000)
        pairs = zip(best_of(left, trials), best_of(right, trials), strict=True)
        lost = max(abs(math.log(x / y)) for x, y in pairs if x) / math.log(ratio)
        assert 1 + eta < lost <= 2 + eta


# ---- rules ----------------------------------------------------------------------------------------------------------


def test_what_is_pure_costs_two_and_eta_times_as_much() -> None:
    run = Sequence((LaplaceLaw("0.1"), PureDP("0.2")))
    assert cost(Selected(run, repeats=GEOMETRIC), BOTH).pure == Decimal("0.9")
    assert compose(Selected(run, repeats=GEOMETRIC)).epsilon(0).upper == pytest.approx(0.9, rel=1e-9)
    check(PureDP("0.9"), Selected(run, repeats=GEOMETRIC), BOTH)
    with pytest.raises(ClaimTooSmall):
        check(PureDP("0.89"), Selected(run, repeats=GEOMETRIC), BOTH)


def test_a_bound_on_the_trials_costs_nothing_where_they_are_negative_binomial() -> None:
    bounded = NegativeBinomialTrials(eta=1, gamma="0.01", most=10)
    for run in (LaplaceLaw(1), GaussianLaw(2)):
        orders = (Decimal(3),)
        assert cost(Selected(run, repeats=bounded), BOTH, orders=orders) == cost(
            Selected(run, repeats=GEOMETRIC), BOTH, orders=orders
        )


def test_where_no_theorem_is_there_is_no_price() -> None:
    gaussian = cost(Selected(GaussianLaw(2), repeats=GEOMETRIC), BOTH, orders=(Decimal(8),))
    assert gaussian.pure is gaussian.rho is gaussian.mu_squared is None
    assert gaussian.rdp[Decimal(8)] is not None
    for run in (ApproxDP(1, "1e-6"), ZCDP("0.1", "1e-6")):
        for read in (lambda tree: cost(tree, BOTH), compose):
            with pytest.raises(CannotCertify):
                read(Selected(run, repeats=GEOMETRIC))


def test_several_selections_add_up_like_runs() -> None:
    one = Selected(TRAINING, repeats=GEOMETRIC)
    orders = (Decimal(4), Decimal(9))
    once, thrice = (cost(tree, BOTH, orders=orders) for tree in (one, Repeated(one, times=3)))
    for order in orders:
        single, several = once.rdp[order], thrice.rdp[order]
        assert single is not None
        assert several == 3 * single
    assert compose((one, 3)).epsilon("1e-5").upper < 3 * compose(one).epsilon("1e-5").upper


def test_more_runs_and_more_noise_move_the_price_the_right_way() -> None:
    means = [compose(Selected(TRAINING, repeats=NegativeBinomialTrials(1, gamma))).epsilon("1e-5").upper
             for gamma in ("0.5", "0.1", "0.01", "0.001")]  # fmt: skip
    assert means == sorted(means)
    assert compose(TRAINING).epsilon("1e-5").upper < means[0]


def test_renyi_prices_are_those_of_a_promise_of_the_same_divergences() -> None:
    orders = (Decimal(2), Decimal(8))
    promise = RDP(orders, ("0.25", "1"))
    found = cost(Selected(promise, repeats=GEOMETRIC), BOTH, orders=orders)
    assert found.rdp[Decimal(2)] is not None
    with mpmath.workdps(30):  # by hand: 2 min((1 - 1/2) 0.25 + log(100)/2, (1 - 1/8) 1 + log(100)/8) + log 100/(a - 1)
        rare = mpmath.log(100)
        step = 2 * min(rare / 2 + mpmath.mpf("0.125"), rare / 8 + mpmath.mpf("0.875"))
        assert float(found.rdp[Decimal(8)] or 0) == pytest.approx(float(1 + step + rare / 7), rel=1e-9)


@pytest.mark.parametrize("mean", [1000, 10**6])  # of fewer the pure price is less
def test_a_pure_run_has_no_delta_from_its_epsilon_on(mean: int) -> None:
    """At an order of 1 + 1/(e^eps - 1) and below a Poisson number costs its divergence and log(mean)/(a - 1), alone."""
    order = Decimal("1.58")  # log(1 + 1/0.58) = 1.0021
    run = cost(LaplaceLaw(1), BOTH, orders=(order,)).rdp[order]
    found = cost(Selected(LaplaceLaw(1), PoissonTrials(mean)), BOTH, orders=(order,)).rdp[order]
    assert run is not None
    assert found is not None
    by_hand = float(run) + math.log(mean + math.exp(-mean - 0.58 * float(run))) / 0.58
    assert float(found) == pytest.approx(by_hand, rel=1e-9)


def test_it_is_read_and_written_like_any_node() -> None:
    for repeats in (GEOMETRIC, PoissonTrials(mean=20, most=200)):
        node: Composition = Selected(LaplaceLaw(1), repeats=repeats)
        assert parse_tree(plain(node)) == node


@pytest.mark.parametrize("eta", ["-1", "-1.5", "1001", "nan"])
def test_eta_is_above_minus_one(eta: str) -> None:
    with pytest.raises(ParameterError):
        NegativeBinomialTrials(eta=eta, gamma="0.5")
