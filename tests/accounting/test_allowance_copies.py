"""What counts as a copy of a law, and why: no profile of a leaf that counts is above that of its copies, in either
direction, by the engine and by exact enumeration; and counting is by structure alone."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters
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
    RandomizedResponseLaw,
    Repeated,
    Sequence,
)
from dpledger.accounting.filters import AllowanceFilter, Coordinates
from dpledger.accounting.guarantees import GDP, ApproxDP, PureDP
from dpledger.accounting.planning.allotting import Allowance, allotted
from dpledger.accounting.planning.calibration import calibrate_count
from dpledger.accounting.pricing import costs
from dpledger.accounting.pricing.allowances import split
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from golden_kinds import EXAMPLES, tree_of

pytestmark = pytest.mark.sliced

ADD = Relation.ADD_REMOVE
GAUSS, LAPLACE, ANSWER = GaussianLaw(2), LaplaceLaw("0.5"), RandomizedResponseLaw(1, k=4)
STEPS, WHOLE = DiscreteLaplaceLaw(3, 2), DiscreteGaussianLaw("1.5", 2)
PAIR = PmfPair(("0.7", "0.2", "0.1"), ("0.2", "0.6", "0.2"))


def sampled(tree: Composition, rate: str = "0.2") -> PoissonSampled:
    return PoissonSampled(tree, rate=rate)


COUNTED: dict[str, tuple[Composition, Composition, int]] = {
    "gaussian": (GAUSS, GAUSS, 1),
    "gaussian of more noise": (GAUSS, GaussianLaw("2.5"), 1),
    "gaussian of less noise": (GAUSS, GaussianLaw("0.9"), 5),  # (2/0.9)^2 = 4.94
    "gaussian of half the noise": (GAUSS, GaussianLaw(1), 4),
    "laplace": (LAPLACE, LaplaceLaw("0.35"), 1),
    "randomized response": (ANSWER, RandomizedResponseLaw("0.8", k=4), 1),
    "randomized response of more values": (ANSWER, RandomizedResponseLaw(1, k=9), 1),
    "discrete laplace of more noise": (STEPS, DiscreteLaplaceLaw("4.5", 2), 1),
    "discrete laplace of a shorter shift": (STEPS, DiscreteLaplaceLaw(3, 1), 1),
    "discrete gaussian of a shorter shift": (WHOLE, DiscreteGaussianLaw("1.5", 1), 1),
    "pmf": (PAIR, PAIR, 1),
    "a sample": (sampled(GAUSS), sampled(GAUSS), 1),
    "a smaller sample": (sampled(GAUSS), sampled(GAUSS, "0.05"), 1),
    "a smaller sample with more noise": (sampled(GAUSS), sampled(GaussianLaw(3), "0.1"), 1),
    "a sample of a laplace": (sampled(LAPLACE), sampled(LaplaceLaw("0.4"), "0.15"), 1),
    "a sample of a pmf": (sampled(PAIR), sampled(PAIR, "0.1"), 1),
    "a sample of a discrete laplace": (sampled(STEPS), sampled(DiscreteLaplaceLaw(4, 1), "0.15"), 1),
    "a sample under a whole law": (GAUSS, sampled(GAUSS, "0.9"), 1),
    "a sample of less noise under a whole law": (GAUSS, sampled(GaussianLaw(1), "0.9"), 4),
    "what is made of it": (sampled(GAUSS), PostProcessed(sampled(PostProcessed(GAUSS))), 1),
}
LEFT: dict[str, tuple[Composition, Composition]] = {
    "laplace of a larger epsilon": (LAPLACE, LaplaceLaw("0.51")),
    "randomized response of fewer values": (ANSWER, RandomizedResponseLaw(1, k=3)),
    "randomized response of a larger epsilon": (ANSWER, RandomizedResponseLaw("1.1", k=4)),
    "discrete laplace of less noise": (STEPS, DiscreteLaplaceLaw("2.9", 2)),
    "discrete laplace of a smaller epsilon and a longer shift": (STEPS, DiscreteLaplaceLaw(6, 3)),
    "discrete gaussian of a greater sigma": (WHOLE, DiscreteGaussianLaw("1.6", 2)),
    "discrete gaussian of a vector": (WHOLE, DiscreteGaussianLaw("1.5", "1.4")),
    "another pmf": (PAIR, PmfPair(PAIR.right, PAIR.left)),
    "a rate above the law's": (sampled(GAUSS), sampled(GAUSS, "0.21")),
    "everyone, under a law on a sample": (sampled(GAUSS), GAUSS),
    "everyone, with much more noise": (sampled(GAUSS), GaussianLaw(100)),
    "a sample of less noise, under a law on a sample": (sampled(GAUSS), sampled(GaussianLaw(1), "0.01")),
    "two on one batch": (sampled(GAUSS), sampled(Sequence((GaussianLaw(9), GaussianLaw(9))))),
    "a group": (GAUSS, Group(GaussianLaw(50), k=2, relation=ADD)),
    "parallel parts": (GAUSS, Parallel((GAUSS, GAUSS))),
    "another family": (LAPLACE, RandomizedResponseLaw("0.1")),
    "a promise": (GAUSS, GDP("0.1")),
}


# ---- domination ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTED)
def test_a_counted_leaf_is_not_above_its_copies_in_either_direction(name: str) -> None:
    law, leaf, copies = COUNTED[name]
    assert split(law, leaf) == (copies, None)
    for direction in ("remove", "add"):
        one = compose(leaf, relation=ADD, direction=direction)
        many = compose((law, copies), relation=ADD, direction=direction)
        for at in ("0", "0.01", "0.1", "0.4", "1", "2"):
            assert one.delta(at).lower <= many.delta(at).upper


SQUARES = GDP("0.3")
PRICED: dict[str, Composition] = {
    "gaussian": GAUSS,
    "laplace": LAPLACE,
    "randomized response": ANSWER,
    "pure": PureDP("0.7"),
    "gdp": GDP("0.31"),
    "a group": Group(GaussianLaw(9), k=2, relation=ADD),
    "parallel parts": Parallel((LAPLACE, GaussianLaw(3)), by="unit"),
    "several": Sequence((Repeated(LAPLACE, times=3), PostProcessed(GAUSS))),
}


@pytest.mark.parametrize("relation", [ADD, Relation.REPLACE_ONE], ids=lambda one: one.value)
@pytest.mark.parametrize("name", PRICED)
def test_whatever_has_a_price_in_mu_squared_is_so_many_draws_of_a_gdp(name: str, relation: Relation) -> None:
    """None of its profile is above that of the draws, in either direction, and no draw of a part is one too many."""
    tree, rule = PRICED[name], AllowanceFilter(SQUARES, 10**6, 100, "1e-6", 100, "1e-6")
    if isinstance(tree, Group) and relation is not ADD:
        tree = Group(tree.of, k=tree.k, relation=relation)
    charged_, price = costs.charge(rule, tree, relation), costs.cost(tree, relation).mu_squared
    assert price is not None
    assert charged_["pure"] == charged_["delta"] == 0
    copies, parts = int(charged_["copies"]), 4 if name == "several" else 1
    assert price <= copies * Decimal("0.09") < price + parts * Decimal("0.09")
    for direction in ("remove", "add"):
        one = compose(tree, relation=relation, direction=direction)
        many = compose((SQUARES, copies), relation=relation, direction=direction)
        for at in ("0", "0.01", "0.1", "0.4", "1", "2"):
            assert one.delta(at).lower <= many.delta(at).upper


def test_beside_a_gdp_the_rest_pays_for_what_has_no_price_in_mu_squared() -> None:
    rule, tree = AllowanceFilter(SQUARES, 10**6, 100, "1e-6", 100, "1e-6"), ApproxDP("0.1", "1e-7")
    found = costs.charge(rule, Sequence((GAUSS, tree)), ADD)
    assert found["copies"] == math.ceil(Decimal("0.25") / Decimal("0.09"))
    assert found["pure"] > 0


@pytest.mark.parametrize("name", LEFT)
def test_what_no_copy_is_known_to_dominate_is_left_to_the_rest(name: str) -> None:
    law, leaf = LEFT[name]
    assert split(law, leaf) == (0, leaf)


scales = st.fractions(Fraction(1, 4), 6, max_denominator=40)


@given(law=scales, more=st.fractions(1, 4, max_denominator=20), shift=st.integers(1, 5), less=st.integers(0, 4))
def test_more_noise_and_a_shorter_shift_on_whole_numbers_show_less(
    law: Fraction, more: Fraction, shift: int, less: int
) -> None:
    """Term by term, at every threshold that matters to either pair."""
    shorter = max(1, shift - less)
    above, below = discrete_laplace(law, shift), discrete_laplace(law * more, shorter)
    for threshold in thresholds(above) | thresholds(below):
        assert excess(below, threshold) <= excess(above, threshold) + 1e-13
    same = (discrete_gaussian(law, shift), discrete_gaussian(law, shorter))
    for threshold in thresholds(same[0]) | thresholds(same[1]):
        assert excess(same[1], threshold) <= excess(same[0], threshold) + 1e-13


@given(
    epsilons=st.tuples(st.floats(0.01, 6), st.floats(0.01, 6)),
    categories=st.tuples(st.integers(2, 30), st.integers(2, 30)),
)
def test_a_smaller_epsilon_among_more_values_shows_less(
    epsilons: tuple[float, float], categories: tuple[int, int]
) -> None:
    above, below = response(max(epsilons), min(categories)), response(min(epsilons), max(categories))
    for threshold in thresholds(above) | thresholds(below):
        assert excess(below, threshold) <= excess(above, threshold) + 1e-13


@given(
    masses=st.tuples(*(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)) for _ in range(3))),
    rates=st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)),
)
def test_a_lower_rate_shows_less_in_both_directions(
    masses: tuple[tuple[float, float], ...], rates: tuple[float, float]
) -> None:
    totals = [math.fsum(side) for side in zip(*masses, strict=True)]
    pair = [(p / totals[0], q / totals[1]) for p, q in masses]

    def mixed(rate: float, turned: bool) -> Pair:
        sides = [(rate * p + (1 - rate) * q, q) for p, q in pair]
        return [(without, sample) for sample, without in sides] if turned else sides

    for turned in (False, True):
        above, below = (mixed(rate, turned) for rate in (max(rates), min(rates)))
        for threshold in thresholds(above) | thresholds(below):
            assert excess(below, threshold) <= excess(above, threshold) + 1e-13


def test_the_oracle_tells_a_greater_sigma_from_a_smaller_one() -> None:
    narrow, wide = discrete_gaussian(Fraction("0.36"), 1), discrete_gaussian(Fraction("0.54"), 1)
    assert max(excess(wide, at) - excess(narrow, at) for at in thresholds(wide) | thresholds(narrow)) > 0.07


# ---- structure -------------------------------------------------------------------------------------------------------

LAW = sampled(GAUSS)
leaves = st.sampled_from(
    [LAW, sampled(GaussianLaw(3), "0.1"), LaplaceLaw("0.1"), PureDP("0.2"), ApproxDP("0.1", "1e-9"), ANSWER]
)
trees = st.recursive(
    leaves,
    lambda of: st.one_of(
        st.lists(of, min_size=1, max_size=3).map(lambda parts: Sequence(tuple(parts))),
        st.builds(lambda part, times: Repeated(part, times=times), of, st.integers(1, 4)),
        of.map(PostProcessed),
    ),
    max_leaves=6,
)
RULE = AllowanceFilter(LAW, 10**6, 100, "1e-6", 100, "1e-6")


def charged(*parts: Composition) -> dict[str, Decimal]:
    return dict(costs.charge(RULE, Sequence(parts), ADD))


@given(st.lists(trees, min_size=1, max_size=4), st.randoms())
def test_the_charge_depends_on_neither_order_nor_grouping(parts: list[Composition], shuffle: object) -> None:
    mixed = list(parts)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    found = charged(*parts)
    assert charged(*mixed) == found
    assert charged(Sequence(tuple(parts[:1])), PostProcessed(Sequence(tuple(parts)))) == {
        name: amount + charged(parts[0])[name] for name, amount in found.items()
    }


@given(trees, st.integers(1, 50))
def test_a_repetition_costs_as_often_what_one_run_does(tree: Composition, times: int) -> None:
    assert charged(Repeated(tree, times=times)) == {name: times * amount for name, amount in charged(tree).items()}


@given(trees)
def test_what_is_counted_is_not_priced_again(tree: Composition) -> None:
    copies, rest = split(LAW, tree)
    assert split(LAW, Repeated(LAW, times=3) if rest is None else rest)[0] == (3 if rest is None else 0)
    assert charged(tree)["copies"] == copies


@settings(max_examples=30)
@given(st.integers(1, 100), st.data())
def test_steps_never_granted_come_back_and_nothing_else(times: int, data: st.DataObject) -> None:
    done = data.draw(st.integers(0, times))
    step = Sequence((LAW, ApproxDP("0.1", "1e-9")))
    reserved = costs.charge(RULE, Repeated(step, times=times), ADD)
    settled = costs.settled(RULE, reserved, Repeated(step, times=times, done=done), ADD)
    assert settled == {"copies": done, "pure": done * Decimal("0.1"), "delta": reserved["delta"]}


def test_parts_of_a_sequence_that_were_never_granted_come_back() -> None:
    """Whatever each of them is: a copy, or something of the rest."""
    parts = (LAW, LaplaceLaw("0.1"), LAW, LAW)
    reserved = charged(*parts)
    settled = [costs.settled(RULE, reserved, Sequence(parts, done=done), ADD) for done in range(5)]
    assert [one["copies"] for one in settled] == [0, 1, 1, 2, 3]
    assert [one["pure"] for one in settled] == [0, 0, *[Decimal("0.1")] * 3]
    assert settled[-1] == reserved


def test_copies_beyond_what_is_written_down_have_no_price() -> None:
    assert "copies" not in charged(Repeated(Repeated(LAW, times=10**10), times=10**10))
    assert split(GaussianLaw("1e9"), GaussianLaw("1e-9")) == (10**36, None)


@pytest.mark.parametrize(
    "law",
    [PureDP(1), ExponentialLaw(1), Repeated(GAUSS, times=2), sampled(Sequence((GAUSS, GAUSS))),
     sampled(sampled(GAUSS)), Group(GAUSS, k=2, relation=ADD)],
    ids=lambda law: law.kind,
)  # fmt: skip
def test_a_law_is_one_draw_of_noise(law: Composition) -> None:
    with pytest.raises(ParameterError, match=r"law: expected one draw of noise"):
        Allowance(law, steps=3)
    with pytest.raises(ParameterError, match="law"):
        costs.charge(AllowanceFilter(law, 3, 1, "1e-6", 1), GAUSS, ADD)


# ---- every kind ------------------------------------------------------------------------------------------------------

EVERYTHING: tuple[Composition, ...] = (
    *(tree_of(name, example) for name, example in EXAMPLES.items()),
    *(leaf for _, leaf, _ in COUNTED.values()),
    *(leaf for _, leaf in LEFT.values()),
)
LAWS = {name: law for name, (law, leaf, _) in COUNTED.items() if law == leaf}


def price(rule: AllowanceFilter, tree: Composition, relation: Relation) -> Coordinates | None:
    """What is charged; None where it is refused in words."""
    try:
        return costs.charge(rule, tree, relation)
    except CannotCertify as refusal:
        said = str(refusal)
    assert len(said) > 20
    return None


@pytest.mark.parametrize("relation", Relation, ids=lambda one: one.value)
@pytest.mark.parametrize("name", LAWS)
def test_every_kind_is_charged_under_every_relation_or_refused_in_words(name: str, relation: Relation) -> None:
    rule = AllowanceFilter(LAWS[name], 1000, 50, "1e-4", 50, "1e-4")
    for tree in EVERYTHING:
        found = price(rule, tree, relation)
        assert found is None or found["copies"] > 0 or "pure" not in found or found["pure"] > 0


@pytest.mark.parametrize("name", LAWS)
def test_what_is_admitted_means_no_less_than_the_engine_knows(name: str) -> None:
    """The reading of an allowance that just holds a request is not below the engine's lower bound."""
    budget = ApproxDP(50, "1e-4")
    for tree in EVERYTHING:
        copies, _ = split(LAWS[name], tree)
        rule = allotted(Allowance(LAWS[name], steps=max(1, copies), delta_rest="5e-5"), budget, ADD)
        found = price(rule, tree, ADD)
        if found is None:
            continue
        sums = filters.with_charge(rule, filters.opening(rule), found)
        if filters.admits(rule, sums):
            least = compose(tree, relation=ADD).epsilon(budget.delta).lower
            assert least <= float(filters.reading(rule, sums, budget.delta))


# ---- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "budget", "most"),
    [
        (PoissonSampled(GaussianLaw(1), rate="0.01"), ApproxDP(3, "1e-6"), 2061),
        (GaussianLaw(50), ApproxDP(1, "1e-6"), 140),
        (LaplaceLaw("0.01"), ApproxDP(1, "1e-6"), 564),
        (PoissonSampled(GaussianLaw(1), rate="0.001"), ApproxDP(1, "1e-6"), None),
        (RandomizedResponseLaw("0.1", k=3), ApproxDP(2, "1e-5"), None),
        (DiscreteGaussianLaw(9, 1), ApproxDP(2, "1e-5"), None),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_an_allowance_has_as_many_steps_as_one_plan(law: Composition, budget: ApproxDP, most: int | None) -> None:
    planned = calibrate_count(lambda steps: (law, steps), budget)
    found = allotted(Allowance(law, share=1), budget, ADD)
    assert found.steps == planned == (most or planned)
    assert allotted(Allowance(law, steps=planned), budget, ADD) == found
    with pytest.raises(ParameterError, match=rf"allowance\.steps: .* got {planned + 1}"):
        allotted(Allowance(law, steps=planned + 1), budget, ADD)


def test_the_constants_add_up_to_the_budget_and_no_more() -> None:
    budget = ApproxDP(3, "1e-6")
    found = allotted(Allowance(LAW, steps=10, delta_rest="1e-7"), budget, ADD)
    assert (found.epsilon, found.delta) == (budget.epsilon, budget.delta)
    assert (found.delta_law, found.delta_rest) == (Decimal("9e-7"), Decimal("1e-7"))
    with pytest.raises(ParameterError, match=r"allowance\.delta_rest"):
        allotted(Allowance(LAW, steps=10, delta_rest="2e-6"), budget, ADD)
    with pytest.raises(ParameterError, match="budget"):
        allotted(Allowance(LAW, steps=10), PureDP(3), ADD)


def test_without_a_delta_the_sums_of_a_pure_law_are_exact() -> None:
    found = allotted(Allowance(RandomizedResponseLaw("0.1"), share=1), ApproxDP(3, 0), ADD)
    assert (found.steps, found.epsilon_law, found.epsilon_rest) == (30, Decimal(3), Decimal(0))
    with pytest.raises(ParameterError, match=r"these cost no finite epsilon"):
        allotted(Allowance(GAUSS, steps=1), ApproxDP(3, 0), ADD)


def test_an_exchanged_unit_counts_as_the_law_says_under_each_relation() -> None:
    """Under replace_one the mean moves twice as far: the same noise costs as much as half of it does."""
    budget = ApproxDP(2, "1e-6")
    exchanged = allotted(Allowance(GaussianLaw(40), share=1), budget, Relation.REPLACE_ONE)
    assert exchanged.steps == allotted(Allowance(GaussianLaw(20), share=1), budget, ADD).steps


# ---- exact oracles ---------------------------------------------------------------------------------------------------

Pair = list[tuple[float, float]]


def discrete_laplace(scale: Fraction, shift: int) -> Pair:
    return _shifted(lambda k: math.exp(-abs(k) / float(scale)), shift, reach=math.ceil(40 * scale) + 10)


def discrete_gaussian(sigma: Fraction, shift: int) -> Pair:
    return _shifted(lambda k: math.exp(-(k**2) / (2 * float(sigma) ** 2)), shift, reach=math.ceil(9 * sigma) + 10)


def _shifted(weight: object, shift: int, *, reach: int) -> Pair:
    assert callable(weight)
    weights = {k: weight(k) for k in range(-reach - shift, reach + shift + 1)}
    total = math.fsum(weights.values())
    return [(weights[k] / total, weights[k - shift] / total) for k in range(-reach, reach + shift + 1)]


def response(epsilon: float, categories: int) -> Pair:
    total = math.exp(epsilon) + categories - 1
    rest = (1 / total, 1 / total)
    return [(math.exp(epsilon) / total, 1 / total), (1 / total, math.exp(epsilon) / total), *[rest] * (categories - 2)]


def thresholds(pair: Pair) -> set[float]:
    """The ratios at which the excess bends, and the middles between them: it is linear from one to the next."""
    bends = sorted({p / q for p, q in pair if p > 1e-12 and q > 1e-12})
    return {*bends, *(math.sqrt(low * high) for low, high in pairwise(bends))}


def excess(pair: Pair, threshold: float) -> float:
    """The integral of (dP - t dQ)_+."""
    return math.fsum(max(0.0, p - threshold * q) for p, q in pair)
