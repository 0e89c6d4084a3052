"""Kinds with finitely many outcomes, against every dataset, coin and output listed with exact fractions."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from amplification_oracles import (
    Randomiser,
    allocated,
    hockey_stick,
    listed,
    mixture,
    multisets,
    product,
    randomised_response,
    shuffled,
    subset_sampled,
)
from dpledger.accounting.composition import (
    Composition,
    DiscreteLaplaceLaw,
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
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.profile import Bounds, compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from engine_oracles import finite_delta, holds_delta, holds_epsilon, mp, real

pytestmark = pytest.mark.sliced

EPSILONS = ("0", "0.05", "0.4", "1.1", "3")
REPLACE = Relation.REPLACE_ONE


def holds(at: Bounds, exact: Fraction) -> bool:
    return holds_delta(at.lower, at.upper, mp.mpf(exact.numerator) / exact.denominator)


def exact_ratio(epsilon: str) -> Fraction:
    """e^epsilon to 60 digits."""
    return Fraction(str(mp.exp(real(epsilon))))


def as_decimals(law: list[int]) -> tuple[str, ...]:
    whole = sum(law)
    assert 10**6 % whole == 0
    return tuple(str(Decimal(x * (10**6 // whole)).scaleb(-6)) for x in law)


# ---- listed pairs ---------------------------------------------------------------------------------------------------

weights = st.integers(2, 5).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 1000), min_size=n - 1, max_size=n - 1) for _ in range(2)))
)


def pmf(weights_: list[int]) -> list[int]:
    """Ten thousandths that add up: what is missing goes to the last outcome."""
    return [*weights_, 10**4 - sum(weights_)]


@settings(max_examples=60, deadline=None)
@given(weights, st.integers(1, 3), st.sampled_from(EPSILONS), st.sampled_from(["add", "remove"]))
def test_a_listed_pair_and_its_runs(lists: Any, times: int, epsilon: str, direction: Direction) -> None:
    """Zeros are infinite losses in one direction, and nothing in the other."""
    left, right = pmf(lists[0]), pmf(lists[1])
    tree = Repeated(PmfPair(as_decimals(left), as_decimals(right)), times=times)
    pair = [(mp.mpf(p) / 10**4, mp.mpf(q) / 10**4) for p, q in zip(left, right, strict=True)]
    turned = pair if direction == "remove" else [(q, p) for p, q in pair]
    at = compose(tree, direction=direction).delta(epsilon)
    exact = finite_delta([(turned, times)], real(epsilon))
    assert holds_delta(at.lower, at.upper, exact)
    assert at.upper - at.lower <= 1e-6


@settings(max_examples=40, deadline=None)
@given(weights, st.integers(1, 99), st.sampled_from(EPSILONS), st.sampled_from(["add", "remove"]))
def test_a_poisson_sample_of_a_listed_pair(lists: Any, percent: int, epsilon: str, direction: Direction) -> None:
    rate = Fraction(percent, 100)
    left, right = listed(*([Fraction(x, 10**4) for x in pmf(one)] for one in lists))
    mixed = mixture([(1 - rate, right), (rate, left)])
    here, there = (mixed, right) if direction == "remove" else (right, mixed)
    tree = PoissonSampled(PmfPair(as_decimals(pmf(lists[0])), as_decimals(pmf(lists[1]))), rate=f"0.{percent:02d}")
    exact = hockey_stick(here, there, exact_ratio(epsilon))
    assert holds(compose(tree, direction=direction).delta(epsilon), exact)


@settings(max_examples=25, deadline=None)
@given(weights, st.integers(2, 4), st.sampled_from(EPSILONS), st.sampled_from(["add", "remove"]))
def test_a_random_allocation_of_a_listed_pair(lists: Any, steps: int, epsilon: str, direction: Direction) -> None:
    left, right = listed(*([Fraction(x, 10**4) for x in pmf(one)] for one in lists))
    with_unit, without = allocated(left, right, steps), product([right] * steps)
    here, there = (with_unit, without) if direction == "remove" else (without, with_unit)
    tree = RandomAllocation(PmfPair(as_decimals(pmf(lists[0])), as_decimals(pmf(lists[1]))), steps=steps)
    assert holds(compose(tree, direction=direction).delta(epsilon), hockey_stick(here, there, exact_ratio(epsilon)))


def test_mass_that_one_side_lacks_is_an_infinite_loss_exactly() -> None:
    pair = PmfPair(("0.5", "0.4", "0.1", 0), ("0.25", "0.55", 0, "0.2"))
    for direction, mass in (("remove", "0.1"), ("add", "0.2")):
        profile = compose(pair, direction=direction)  # type: ignore[arg-type]
        assert profile.epsilon(Decimal(mass) - Decimal("1e-10")) == Bounds(math.inf, math.inf)
        at = profile.epsilon(mass)
        largest = math.log(2) if direction == "remove" else math.log(0.55 / 0.4)
        assert at.lower <= largest <= at.upper <= largest * (1 + 1e-12)
    twice = compose(Repeated(pair, times=2), direction="remove")
    assert twice.epsilon("0.1899") == Bounds(math.inf, math.inf)
    at = twice.epsilon("0.1901")
    assert at.upper < math.inf
    assert compose(pair).epsilon("0.15").upper == math.inf  # the other direction's


def test_a_pair_that_tells_all_costs_infinitely_much() -> None:
    surely = PmfPair((1, 0), (0, 1))
    for tree in (surely, Sequence((surely, LaplaceLaw(1), ZCDP("0.1"))), Repeated(surely, times=10**12)):
        assert compose(tree).epsilon("0.999999999999999999") == Bounds(math.inf, math.inf)
        assert compose(tree).epsilon(1) == Bounds(0.0, 0.0)
        assert compose(tree).delta(5) == Bounds(1.0, 1.0)
    sampled = compose(PoissonSampled(surely, rate="0.25")).delta(0)
    assert sampled.lower <= 0.25 <= sampled.upper <= 0.25 + 1e-12


def test_a_pair_of_equals_costs_nothing() -> None:
    assert compose(PmfPair(("0.3", "0.7"), ("0.3", "0.7"))).epsilon(0) == Bounds(0.0, 0.0)


def test_likelihood_ratios_very_near_one_keep_their_digits() -> None:
    more, less = "0.5" + "0" * 28 + "1", "0.4" + "9" * 29
    at = compose(PmfPair((more, less), ("0.5", "0.5"))).delta(0)
    assert at.lower <= 1e-30 <= at.upper <= 1.0001e-30


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.LABEL_FLIP])
def test_a_lopsided_pair_needs_a_side_with_the_unit(relation: Relation) -> None:
    """Two releases could show it in opposite order: (P x Q, Q x P) is worse than either order of the pair squared."""
    with pytest.raises(CannotCertify, match="left and right exchanged"):
        compose(PmfPair(("0.9", "0.1"), ("0.5", "0.5")), relation=relation)
    same = PmfPair(("0.7", "0.1", "0.2"), ("0.1", "0.7", "0.2"))
    assert compose(same, relation=relation).epsilon("0.1") == compose(same).epsilon("0.1")


# ---- randomised response, exponential -------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 10, 10**12])
@pytest.mark.parametrize("epsilon", ["0.001", "0.7", "4", "30"])
def test_randomised_response_on_k_values(k: int, epsilon: str) -> None:
    grown = mp.exp(real(epsilon))
    whole = grown + k - 1
    pair = [(grown / whole, 1 / whole), (1 / whole, grown / whole), ((k - 2) / whole, (k - 2) / whole)]
    profile = compose(Repeated(RandomizedResponseLaw(epsilon, k), times=2))
    for at in ("0", "0.0005", "0.5", "4.1", "45"):
        found = profile.delta(at)
        assert holds_delta(found.lower, found.upper, finite_delta([(pair, 2)], real(at)))


def test_two_values_are_the_worst_case_of_pure_dp() -> None:
    assert compose(RandomizedResponseLaw("0.8")).epsilon("1e-3") == compose(PureDP("0.8")).epsilon("1e-3")
    assert compose(RandomizedResponseLaw(0, 5)).epsilon(0) == Bounds(0.0, 0.0)


@pytest.mark.parametrize("relation", list(Relation))
def test_exponential_is_another_word_for_bounded_range(relation: Relation) -> None:
    for delta in ("0", "1e-3", "1e-9"):
        one = compose(Repeated(ExponentialLaw("0.4"), times=9), relation=relation).epsilon(delta)
        assert one == compose(Repeated(BoundedRange("0.4"), times=9), relation=relation).epsilon(delta)


# ---- without replacement --------------------------------------------------------------------------------------------

BITS: list[tuple[int, ...]] = list(itertools.product((0, 1), repeat=4))


def respond_to_first(odds: Fraction) -> Any:
    """Randomised response to the parity of the batch: a mechanism of epsilon = log(odds) under replace_one."""
    answers = randomised_response(odds, 2)
    return lambda batch: answers[sum(batch) % 2]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_no_dataset_beats_the_bound_without_replacement(batch: int) -> None:
    """All neighbours of four bits, every batch, against the bound at many epsilons."""
    odds = Fraction(3)
    tree = SampledWithoutReplacement(PureDP(str(Decimal(3).ln() + Decimal("1e-20"))), population=4, batch=batch)
    profile = compose(tree, relation=REPLACE)
    mechanism = respond_to_first(odds)
    worst = dict.fromkeys(EPSILONS, Fraction(0))
    for data in BITS:
        for i in range(4):
            other = (*data[:i], 1 - data[i], *data[i + 1 :])
            left, right = (subset_sampled(mechanism, one, batch) for one in (data, other))
            for epsilon in EPSILONS:
                worst[epsilon] = max(worst[epsilon], hockey_stick(left, right, exact_ratio(epsilon)))
    for epsilon in EPSILONS:
        assert profile.delta(epsilon).upper >= worst[epsilon]


def test_a_mechanism_attains_the_bound_without_replacement() -> None:
    """Is unit 0 in the batch? by randomised response, which is as bad as the bound says, once."""
    grown, rate = Fraction(str(mp.exp(real("1.2")))), Fraction(3, 10)
    answers = randomised_response(grown, 2)
    with_unit = mixture([(rate, answers[1]), (1 - rate, answers[0])])
    profile = compose(SampledWithoutReplacement(PureDP("1.2"), population=10, batch=3), relation=REPLACE)
    for epsilon in ("0", "0.1", "0.4"):
        exact = hockey_stick(with_unit, answers[0], exact_ratio(epsilon))
        at = profile.delta(epsilon)
        assert holds(at, exact)
        assert at.upper <= float(exact) * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.sampled_from(EPSILONS), st.integers(0, 4))
def test_runs_without_replacement_in_any_mix_of_directions(times: int, batch: int, epsilon: str, turned: int) -> None:
    """An analyst may ask the question the other way round in some of the runs: below the bound, and above the lower."""
    grown, rate = Fraction(str(mp.exp(real("0.9")))), Fraction(batch, 10)
    answers = randomised_response(grown, 2)
    with_unit = mixture([(rate, answers[1]), (1 - rate, answers[0])])
    runs = [(with_unit, answers[0]) if i >= turned else (answers[0], with_unit) for i in range(times)]
    exact = hockey_stick(product([p for p, _ in runs]), product([q for _, q in runs]), exact_ratio(epsilon))
    tree = SampledWithoutReplacement(PureDP("0.9"), population=10, batch=batch)
    assert compose(Repeated(tree, times=times), relation=REPLACE).delta(epsilon).upper >= exact


def test_the_whole_population_is_no_sample() -> None:
    whole = SampledWithoutReplacement(GaussianLaw(2), population=50, batch=50)
    assert compose(whole, relation=REPLACE).epsilon("1e-5") == compose(GaussianLaw(2), relation=REPLACE).epsilon("1e-5")


# ---- shuffling ------------------------------------------------------------------------------------------------------


def staircase(odds: Fraction) -> Randomiser:
    """Three inputs, four outputs, every ratio `odds`, 1 or 1/odds: an extremal randomiser that is no response."""
    one = Fraction(1)
    rows = [[odds, odds, one, one], [odds, one, odds, one], [one, odds, odds, one]]
    return [{y: x / (2 * odds + 2) for y, x in enumerate(row)} for row in rows]


RANDOMISERS: list[tuple[str, Randomiser, Composition]] = [
    ("response 2", randomised_response(Fraction(str(mp.exp(real(1)))), 2), RandomizedResponseLaw(1)),
    ("response 3", randomised_response(Fraction(str(mp.exp(real(1)))), 3), RandomizedResponseLaw(1, 3)),
    ("response 3 as pure", randomised_response(Fraction(str(mp.exp(real(1)))), 3), PureDP(1)),
    ("staircase", staircase(Fraction(str(mp.exp(real(1))))), PureDP(1)),
]


@pytest.mark.parametrize(("randomiser", "leaf"), [r[1:] for r in RANDOMISERS], ids=[r[0] for r in RANDOMISERS])
def test_no_dataset_of_shuffled_users_beats_the_bound(randomiser: Randomiser, leaf: Composition) -> None:
    """Five users: every value of the four others, every pair of values of the first."""
    profile = compose(Shuffled(leaf, users=5), relation=REPLACE)
    epsilons = ("0", "0.2", "0.6", "0.9")
    worst = dict.fromkeys(epsilons, Fraction(0))
    for others in multisets(4, len(randomiser)):
        laws = [shuffled(randomiser, (value, *others)) for value in range(len(randomiser))]
        for left, right in itertools.permutations(laws, 2):
            for epsilon in epsilons:
                worst[epsilon] = max(worst[epsilon], hockey_stick(left, right, exact_ratio(epsilon)))
    for epsilon in epsilons:
        upper = profile.delta(epsilon).upper
        assert upper >= worst[epsilon]
        assert upper <= compose(leaf, relation=REPLACE).delta(epsilon).upper * (1 + 1e-6)


def clones_delta(local: float, users: int, chance: Any, epsilon: float) -> Any:
    """The pair of Feldman-McMillan-Talwar 2023, outcome by outcome: every other user is a clone with this chance."""
    r = mp.exp(local) / (1 + mp.exp(local))
    parts = []
    for c in range(users):
        weight = mp.binomial(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c)
        half = [mp.binomial(c, j) / mp.mpf(2) ** c for j in range(c + 1)]
        for a in range(c + 2):
            one, none = (half[a - 1] if a else mp.mpf(0)), (half[a] if a <= c else mp.mpf(0))
            gap = r * one + (1 - r) * none - mp.exp(epsilon) * ((1 - r) * one + r * none)
            parts.append(weight * max(mp.mpf(0), gap))
    return mp.fsum(parts)


@pytest.mark.parametrize(("local", "users"), [(0.1, 3), (1.0, 25), (2.0, 60), (3.0, 40)])
def test_the_bound_is_that_of_the_clones(local: float, users: int) -> None:
    profile = compose(Shuffled(PureDP(local), users=users), relation=REPLACE)
    for part in (0.0, 0.2, 0.5, 0.8):
        exact = clones_delta(local, users, 2 / (1 + mp.exp(local)), part * local)
        upper = profile.delta(part * local).upper
        assert upper >= exact
        assert upper <= exact * mp.mpf("1.02") + mp.mpf("1e-9")
        assert upper <= clones_delta(local, users, mp.exp(-local), part * local)  # fewer clones: the bound of 2021


@pytest.mark.parametrize("leaf", [PureDP("0.7"), RandomizedResponseLaw("0.7")], ids=lambda leaf: leaf.kind)
def test_shuffled_responses_of_users_who_agree_are_a_lower_bound(leaf: Composition) -> None:
    """One dataset of one randomiser that is (epsilon)-DP: no bound may be below what it shows, once and twice."""
    randomiser = randomised_response(Fraction(str(mp.exp(real("0.7")))), 2)
    left, right = (shuffled(randomiser, (value, 0, 0, 0, 0, 0)) for value in (0, 1))
    tree = Shuffled(leaf, users=6)
    for times, epsilon in itertools.product((1, 2), ("0", "0.2", "0.5")):
        one, other = product([left] * times), product([right] * times)
        exact = max(hockey_stick(*pair, exact_ratio(epsilon)) for pair in ((one, other), (other, one)))
        at = compose(Repeated(tree, times=times), relation=REPLACE).delta(epsilon)
        assert holds(at, exact)
        assert at.lower >= exact * Fraction(999, 1000)


def test_the_two_ends_for_many_shuffled_users_are_not_far_apart() -> None:
    for users in (10**3, 10**6, 10**9):
        at = compose(Shuffled(RandomizedResponseLaw(1), users=users), relation=REPLACE).epsilon("1e-8")
        assert 0.6 * at.upper < at.lower < at.upper


def test_more_users_hide_more_and_shuffling_never_costs_more() -> None:
    uppers = [
        compose(Shuffled(PureDP(2), users=n), relation=REPLACE).epsilon("1e-6").upper for n in (1, 100, 10**4, 10**6)
    ]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[0] <= 2 * (1 + 1e-12)
    assert uppers[-1] < 0.05
    assert compose(Shuffled(PureDP(2), users=10**6), relation=REPLACE).epsilon(0).upper <= 2 * (1 + 1e-12)


def test_randomised_response_on_many_values_hides_more_than_its_epsilon_says() -> None:
    """On two values it is no better known than any randomiser of its epsilon."""
    general = compose(Shuffled(PureDP(3), users=10**4), relation=REPLACE).epsilon("1e-6")
    uppers = []
    for k in (2, 3, 10, 100, 1000):
        special = compose(Shuffled(RandomizedResponseLaw(3, k), users=10**4), relation=REPLACE).epsilon("1e-6")
        uppers.append(special.upper)
        assert k == 2 or special.lower > 0.985 * special.upper
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[0] == general.upper
    assert uppers[2] < 0.9 * general.upper
    assert general.lower > 0.96 * general.upper


@pytest.mark.parametrize(("k", "users"), [(3, 6), (4, 5), (6, 4)])
def test_shuffled_responses_on_three_values_and_more_are_known_from_both_sides(k: int, users: int) -> None:
    """Others hold a third value: what they show is reached, of three values nearly all of it; no dataset shows more."""
    randomiser, leaf = randomised_response(Fraction(4), k), RandomizedResponseLaw("1.3862943611", k)
    tree = Shuffled(leaf, users=users)
    left, right = (shuffled(randomiser, (value, *[2] * (users - 1))) for value in (0, 1))
    for epsilon in ("0", "0.1", "0.4", "1.1"):
        exact = hockey_stick(left, right, exact_ratio(epsilon))
        at = compose(tree, relation=REPLACE).delta(epsilon)
        assert at.lower <= exact * (1 + Fraction(1, 10**6))
        assert exact <= at.upper * (1 + Fraction(1, 10**6))
        assert k > 3 or at.lower >= exact * Fraction(93, 100)
    for others in multisets(users - 1, k):
        left, right = (shuffled(randomiser, (value, *others)) for value in (0, 1))
        for epsilon in ("0", "0.4"):
            upper = compose(tree, relation=REPLACE).delta(epsilon).upper
            assert hockey_stick(left, right, exact_ratio(epsilon)) <= upper * (1 + 1e-6)


@pytest.mark.parametrize("leaf", [LaplaceLaw(1), DiscreteLaplaceLaw(1, 1), ExponentialLaw(1)], ids=lambda one: one.kind)
def test_other_randomisers_have_a_lower_bound_from_two_of_their_outcomes(leaf: Composition) -> None:
    at = compose(Shuffled(leaf, users=10**4), relation=REPLACE).epsilon("1e-6")
    assert 0.3 * at.upper < at.lower < at.upper
    alone = compose(Shuffled(leaf, users=1), relation=REPLACE).delta("0.1")
    assert 0 < alone.lower <= compose(leaf, relation=REPLACE).delta("0.1").upper * (1 + 1e-12)


def test_a_shuffled_laplace_is_no_better_hidden_than_its_sign() -> None:
    """Five users add noise of scale 1 to 0, or one of them to 1; only how many are above 1 is looked at."""
    rare, even = Fraction(str(mp.exp(-1) / 2)), Fraction(1, 2)
    randomiser = [{0: 1 - rare, 1: rare}, {0: even, 1: even}]
    left, right = (shuffled(randomiser, (value, 0, 0, 0, 0)) for value in (0, 1))
    for epsilon in ("0", "0.2", "0.5"):
        exact = max(hockey_stick(*pair, exact_ratio(epsilon)) for pair in ((left, right), (right, left)))
        at = compose(Shuffled(LaplaceLaw(1), users=5), relation=REPLACE).delta(epsilon)
        assert exact * Fraction(999, 1000) <= at.lower <= exact * (1 + Fraction(1, 10**9))


def test_runs_of_a_shuffle_add_up_to_less_than_their_sum() -> None:
    once = compose(Shuffled(PureDP(1), users=1000), relation=REPLACE).epsilon("1e-7").upper
    many = compose(Repeated(Shuffled(PureDP(1), users=1000), times=10), relation=REPLACE).epsilon("1e-6").upper
    assert once < many < 10 * once


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "relation", "match"),
    [
        (SampledWithoutReplacement(GaussianLaw(1), population=9, batch=2), Relation.ADD_REMOVE, "replace_one"),
        (SampledWithoutReplacement(GaussianLaw(1), population=9, batch=2), Relation.ZERO_OUT, "replace_one"),
        (SampledWithoutReplacement(GaussianLaw(1), population=9, batch=2), Relation.LABEL_FLIP, "replace_one"),
        (SampledWithoutReplacement(ZCDP(1), population=9, batch=2), REPLACE, "zcdp"),
        (SampledWithoutReplacement(PmfPair((1, 0), ("0.5", "0.5")), population=9, batch=2), REPLACE, "exchanged"),
        (Shuffled(PureDP(1), users=9), Relation.ADD_REMOVE, "replace_one"),
        (Shuffled(ApproxDP(1, "1e-9"), users=9), REPLACE, "pure local randomisers"),
        (Shuffled(GaussianLaw(1), users=9), REPLACE, "pure local randomisers"),
        (Shuffled(PureDP(41), users=9), REPLACE, "local epsilons up to 40"),
        (Shuffled(Sequence((PureDP(1), PureDP(2))), users=9), REPLACE, "Gaussian noise only"),
        (RandomAllocation(GaussianLaw(1), steps=3), REPLACE, "add_remove"),
        (RandomAllocation(PureDP(1), steps=3), Relation.ZERO_OUT, "Gaussian noise only"),
        (RandomAllocation(RDP((2,), (1,)), steps=3), Relation.ADD_REMOVE, "rdp"),
        (RandomAllocation(PoissonSampled(GaussianLaw(1), rate="0.1"), steps=3), Relation.ADD_REMOVE, "another"),
        (PoissonSampled(Shuffled(PureDP(1), users=3), rate="0.1"), Relation.ADD_REMOVE, "replace_one"),
        (Shuffled(SampledWithoutReplacement(PureDP(1), population=3, batch=1), users=3), REPLACE, "another"),
    ],
)
def test_what_no_theorem_covers_is_refused(tree: Composition, relation: Relation, match: str) -> None:
    with pytest.raises(CannotCertify, match=match):
        compose(tree, relation=relation)


# ---- laws -----------------------------------------------------------------------------------------------------------

LEAVES: list[Composition] = [
    RandomizedResponseLaw("0.5", 4),
    ExponentialLaw("0.4"),
    PmfPair(("0.5", "0.5", 0), ("0.49", "0.50", "0.01")),
    PoissonSampled(PmfPair(("0.5", "0.3", "0.2"), ("0.2", "0.3", "0.5")), rate="0.1"),
    PoissonSampled(ExponentialLaw(1), rate="0.2"),
    PoissonSampled(GDP(1), rate="0.2"),
    RandomAllocation(PureDP(1), steps=5),
    RandomAllocation(GaussianLaw(3), steps=2),
]
REPLACED: list[Composition] = [
    SampledWithoutReplacement(GaussianLaw(4), population=100, batch=10),
    SampledWithoutReplacement(ApproxDP(1, "1e-8"), population=100, batch=10),
    Shuffled(PureDP(1), users=200),
]
BOTH = [*((leaf, Relation.ADD_REMOVE) for leaf in LEAVES), *((leaf, REPLACE) for leaf in REPLACED)]


@pytest.mark.parametrize(("leaf", "relation"), BOTH, ids=lambda value: getattr(value, "kind", ""))
def test_repeated_is_a_sequence_of_equals_in_any_order(leaf: Composition, relation: Relation) -> None:
    other = LaplaceLaw("0.1")
    one = compose(Sequence((Repeated(leaf, times=3), other)), relation=relation).epsilon("0.05")
    spelled = compose(Sequence((leaf, other, Sequence((leaf, leaf)))), relation=relation).epsilon("0.05")
    assert one == spelled
    assert compose(Repeated(leaf, times=3), relation=relation).epsilon("0.05").lower <= one.upper


@pytest.mark.parametrize(("leaf", "relation"), BOTH, ids=lambda value: getattr(value, "kind", ""))
def test_more_runs_and_smaller_deltas_cost_more(leaf: Composition, relation: Relation) -> None:
    few, many = compose(Repeated(leaf, times=2), relation=relation), compose(Repeated(leaf, times=5), relation=relation)
    assert few.epsilon("0.1").lower <= many.epsilon("0.1").upper
    assert many.epsilon("0.2").lower <= many.epsilon("0.1").upper
    assert many.delta("0.3").lower <= many.delta("0.1").upper


@pytest.mark.parametrize(
    ("more", "less", "relation"),
    [
        (RandomizedResponseLaw(1, 3), RandomizedResponseLaw("0.9", 3), Relation.ADD_REMOVE),
        (
            PoissonSampled(ExponentialLaw(1), rate="0.2"),
            PoissonSampled(ExponentialLaw(1), rate="0.1"),
            Relation.ADD_REMOVE,
        ),
        (RandomAllocation(GaussianLaw(1), steps=2), RandomAllocation(GaussianLaw(1), steps=4), Relation.ADD_REMOVE),
        (RandomAllocation(GaussianLaw(1), steps=3), RandomAllocation(GaussianLaw("1.2"), steps=3), Relation.ADD_REMOVE),
        (
            SampledWithoutReplacement(GaussianLaw(2), population=100, batch=20),
            SampledWithoutReplacement(GaussianLaw(2), population=100, batch=10),
            REPLACE,
        ),
    ],
    ids=["epsilon", "rate", "steps", "noise", "batch"],
)
def test_more_noise_and_more_secrecy_cost_less(more: Composition, less: Composition, relation: Relation) -> None:
    for delta in ("1e-2", "1e-5", "1e-9"):
        assert (
            compose(less, relation=relation).epsilon(delta).upper
            < compose(more, relation=relation).epsilon(delta).lower
        )


def test_both_directions_count() -> None:
    pair = PmfPair(("0.6", "0.4"), ("0.9", "0.1"))
    both = compose(pair).epsilon("0.01")
    sides = [compose(pair, direction=side).epsilon("0.01") for side in ("add", "remove")]
    assert both.upper == max(side.upper for side in sides)
    assert sides[0] != sides[1]
    assert holds_epsilon(
        sides[1].lower,
        sides[1].upper,
        lambda e: finite_delta([([(real("0.6"), real("0.9")), (real("0.4"), real("0.1"))], 1)], e),
        real("0.01"),
    )
