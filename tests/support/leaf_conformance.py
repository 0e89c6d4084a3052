"""The conformance class of leaves: what every kind says about itself, held against a mechanism enumerated by hand.

A kind gives an `Example`: a leaf, and for k steps of its relation a pair of lists of probabilities, of the outcomes of
some mechanism that the leaf describes, with the unit and without. Noise on a line is cut into cells: that is a function
of the output, so what the pair shows is at most what the leaf promises, and little less. Nothing here uses the engine,
a loss or a price of the package as an oracle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pytest

from dpledger.accounting import composition, rules
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp, epsilon_of_rdp, epsilon_of_zcdp
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    Group,
    Leaf,
    MixtureOfGaussiansLaw,
    PoissonSampled,
    Repeated,
    Shuffled,
)
from dpledger.accounting.guarantees import GUARANTEES, ApproxDP
from dpledger.accounting.kinds import AnyLeaf, JointGaussian, JointMixture, OpposedMixture, rules_of
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.draws import Poisson
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.lowering import read_losses
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.pricing.outcomes import certain, planned
from dpledger.accounting.pricing.pld import Drawn, losses_of
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify, ClaimTooSmall
from dpledger.relations import Relation

__all__ = [
    "Example",
    "LeafConformance",
    "Pmf",
    "gaussian_cells",
    "integer_cells",
    "laplace_cells",
    "mixture_cells",
    "opposed_cells",
    "responses",
]

Pmf: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Probabilities of the same outcomes: with the unit, without it."""

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
FOUND = (JointGaussian, JointMixture, OpposedMixture)  # in trees, where they are not written
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
EPSILONS = ("0", "0.1", "0.3", "0.7", "1.2", "2.5")
ORDERS = (Decimal("1.5"), Decimal(3), Decimal(8))
DELTA = Decimal("0.01")
AT = ("0", "1e-6", "0.001", "0.01", "0.1", "0.5")  # deltas
RATE = Decimal("0.25")
ROUNDING = 1e-9  # of the oracle, which sums a few thousand floats


@dataclass(frozen=True, kw_only=True)
class Example:
    """A leaf, and what some mechanism that it describes shows.

    `pair`: for k steps. `slack`: by how much the profile of the pair may fall short of the leaf's own, relative to 1;
    None where the leaf describes mechanisms that show more. `ran`: the leaf with an outcome, and the probabilities of
    that outcome with the unit and without. `grouped`, `sampled`, `shuffled`: whether some theorem covers a group, a
    Poisson sample, a shuffle of it. `relation`: under which all this is so. `no_dials`: its numbers of which neither
    more nor less is a price to be sought."""

    leaf: AnyLeaf
    pair: Callable[[int], Pmf]
    slack: float | None
    grouped: bool
    sampled: bool
    shuffled: bool
    no_dials: frozenset[str] = frozenset()
    relation: Relation = ADD
    ran: tuple[Leaf, float, float] | None = None


def turned(pair: Pmf, direction: Direction) -> Pmf:
    return pair if direction == "remove" else (pair[1], pair[0])


def hockey_stick(pair: Pmf, epsilon: float) -> float:
    """sup_S P(S) - e^epsilon Q(S)."""
    return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(*pair, strict=True))


def divergence(pair: Pmf, order: float) -> float:
    """The Renyi divergence of P from Q."""
    if any(p and not q for p, q in zip(*pair, strict=True)):
        return math.inf
    moment = math.fsum(q * (p / q) ** order for p, q in zip(*pair, strict=True) if q)
    return math.log(moment) / (order - 1)


def mixed(pair: Pmf, rate: float) -> Pmf:
    """A Poisson sample: with the unit, it is in the batch at this rate."""
    with_unit, without = pair
    return [rate * p + (1 - rate) * q for p, q in zip(with_unit, without, strict=True)], without


def product(pair: Pmf, runs: int) -> Pmf:
    left, right = [1.0], [1.0]
    for _ in range(runs):
        left = [p * q for p in left for q in pair[0]]
        right = [p * q for p in right for q in pair[1]]
    return left, right


# ---- mechanisms -----------------------------------------------------------------------------------------------------


def responses(epsilon: float, delta: float = 0.0) -> Pmf:
    """The worst case of (epsilon, delta)-DP."""
    likely, rare = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return [delta, likely, rare, 0.0], [0.0, rare, likely, delta]


def cells_of(above: Callable[[float], float], shift: float, reach: float) -> Pmf:
    """Noise whose tail P(x > t) is `above`, added to `shift` and to 0, seen through the cells of a grid."""
    edges = grid(shift / 2, reach)
    return masses(above, edges, shift), masses(above, edges, 0.0)


def grid(middle: float, reach: float, count: int = 3000) -> list[float]:
    return [middle + reach * (2 * i / count - 1) for i in range(count + 1)]


def masses(above: Callable[[float], float], edges: list[float], mean: float) -> list[float]:
    """Of the cells between edges, and beyond."""
    tails = [1.0, *(above(edge - mean) for edge in edges), 0.0]
    heads = [0.0, *(above(mean - edge) for edge in edges), 1.0]
    both = zip(tails, tails[1:], heads, heads[1:], strict=False)
    return [max(t - u if t < 0.5 else h - g, 0.0) for t, u, g, h in both]


def normal_tail(t: float) -> float:
    return math.erfc(t / math.sqrt(2)) / 2


def gaussian_cells(mu: float) -> Pmf:
    return cells_of(normal_tail, mu, 9 + mu)


def mixture_cells(shifts: Sequence[float], weights: Sequence[float]) -> Pmf:
    """Normal noise around these, and around 0 with what is left of the probability, against that around 0."""
    edges = grid(max(shifts) / 2, 9 + max(shifts))
    places = [(0.0, 1 - math.fsum(weights)), *zip(shifts, weights, strict=True)]
    each = [[weight * mass for mass in masses(normal_tail, edges, shift)] for shift, weight in places]
    return [math.fsum(cell) for cell in zip(*each, strict=True)], masses(normal_tail, edges, 0.0)


def opposed_cells(shifts: Sequence[float], weights: Sequence[float]) -> Pmf:
    """Normal noise around these, and around 0 with what is left of the probability, against its mirror image."""
    edges = grid(0.0, 9 + 2 * max(shifts))
    places = [(0.0, 1 - math.fsum(weights)), *zip(shifts, weights, strict=True)]
    sides = [
        [[weight * mass for mass in masses(normal_tail, edges, side * at)] for at, weight in places] for side in (1, -1)
    ]
    there, back = ([math.fsum(cell) for cell in zip(*each, strict=True)] for each in sides)
    return there, back


def laplace_cells(epsilon: float) -> Pmf:
    """The ratio is constant beyond the two means."""
    return cells_of(lambda t: math.exp(-t) / 2 if t > 0 else 1 - math.exp(t) / 2, epsilon, epsilon / 2)


def integer_cells(weight: Callable[[int], float], shift: int, reach: int = 400) -> Pmf:
    """Noise on the integers with these weights; outputs beyond what both can show are seen at the ends."""
    noise = {k: weight(k) for k in range(-reach, reach + 1)}
    whole = math.fsum(noise.values())
    low, high = shift - reach, reach

    def masses(mean: int) -> list[float]:
        shown = dict.fromkeys(range(low, high + 1), 0.0)
        for k, mass in noise.items():
            shown[min(max(k + mean, low), high)] += mass / whole
        return list(shown.values())

    return masses(shift), masses(0)


# ---- what every kind keeps ------------------------------------------------------------------------------------------


class LeafConformance:
    """Tests of one example. Inherit, and give `example` as a fixture."""

    # the pair

    def test_the_engine_is_above_what_is_shown_and_near_it(self, example: Example) -> None:
        """Each direction by itself, and not by what the kind says of the other."""
        leaf = _written(example)
        for direction in DIRECTIONS:
            shown, profile = (
                turned(example.pair(1), direction),
                compose(leaf, relation=example.relation, direction=direction),
            )
            for epsilon in EPSILONS:
                exact, bounds = hockey_stick(shown, float(epsilon)), profile.delta(epsilon)
                assert exact <= bounds.upper + ROUNDING, (direction, epsilon)
                if example.slack is not None:
                    assert bounds.lower <= exact + example.slack + ROUNDING, (direction, epsilon)

    def test_two_runs_are_above_what_two_runs_show(self, example: Example) -> None:
        leaf = _written(example)
        if len(example.pair(1)[0]) > 100:
            return  # the product of lists of cells is too long to enumerate
        for direction in DIRECTIONS:
            shown = product(turned(example.pair(1), direction), 2)
            profile = compose(Repeated(leaf, times=2), relation=example.relation, direction=direction)
            for epsilon in EPSILONS:
                assert hockey_stick(shown, float(epsilon)) <= profile.delta(epsilon).upper + ROUNDING

    def test_the_two_directions_mirror_each_other_as_it_says(self, example: Example) -> None:
        rules, pair = rules_of(example.leaf), example.pair(1)
        gaps = [abs(hockey_stick(pair, float(e)) - hockey_stick(turned(pair, "add"), float(e))) for e in EPSILONS]
        said = rules.pair.mirrors(example.leaf)
        if example.slack is not None:
            assert (said == "not") == (max(gaps) > 1e-6)
        if said == "itself" and rules.pair.renyi is None and (pairs := _finite_pairs(example)) is not None:
            for one in (pairs.above, pairs.below):
                there, back = _listed(one), _listed(one.turned())
                assert all(
                    math.isclose(hockey_stick(there, float(e)), hockey_stick(back, float(e)), abs_tol=1e-9)
                    for e in EPSILONS
                )

    def test_where_units_are_exchanged_only_what_mirrors_itself_has_a_pair(self, example: Example) -> None:
        if isinstance(example.leaf, FOUND):
            return  # found under the relation of a group
        if rules_of(example.leaf).pair.mirrors(example.leaf) == "not":
            assert _refused(lambda: compose(_written(example), relation=REPLACE))
        else:
            compose(_written(example), relation=REPLACE)

    def test_the_mass_at_infinity_is_within_the_failure(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        for direction in DIRECTIONS:
            failure = rules.pair.failure(example.leaf, direction)
            there, back = turned(example.pair(1), direction)
            shown = math.fsum(p for p, q in zip(there, back, strict=True) if p and not q)
            assert 0 <= failure <= 1
            if example.slack is not None and rules.pair.renyi is None:
                assert shown <= float(failure) + 1e-12
            if (
                rules.pair.renyi is None
                and (losses := losses_of(Drawn(example.leaf), example.relation, direction)) is not None
            ):
                assert 0 <= losses.failure - failure <= Fraction(1, 10**40), "what cells leave out"
                assert losses.failure >= Fraction(losses.above.infinite_mass) - Fraction(1, 10**15)

    def test_the_loss_of_the_whole_and_the_finite_pairs_agree(self, example: Example) -> None:
        """A kind that has a loss of its own says the same by its finite pairs, above and below."""
        rules = rules_of(example.leaf)
        if rules.pair.renyi is not None or (pairs := _finite_pairs(example)) is None:
            return
        for direction in DIRECTIONS:
            profile = compose(_written(example), relation=example.relation, direction=direction)
            for epsilon in EPSILONS:
                above = hockey_stick(turned(_listed(pairs.above), direction), float(epsilon))
                below = hockey_stick(turned(_listed(pairs.below), direction), float(epsilon))
                assert profile.delta(epsilon).lower <= above + ROUNDING
                assert below <= profile.delta(epsilon).upper + ROUNDING

    # the price

    def test_the_price_is_above_the_engine_and_above_what_is_shown(self, example: Example) -> None:
        price, leaf = _price(example), _written(example)
        for direction in DIRECTIONS:
            profile = compose(leaf, relation=example.relation, direction=direction)
            shown = turned(example.pair(1), direction)
            if price.pure is not None:
                assert profile.delta(price.pure).lower <= float(price.delta) + ROUNDING
                assert hockey_stick(shown, float(price.pure)) <= float(price.delta) + ROUNDING
            for epsilon in _epsilons(price, DELTA):
                assert profile.epsilon(DELTA).lower <= float(epsilon) + ROUNDING
                assert hockey_stick(shown, float(epsilon)) <= float(DELTA) + ROUNDING
            for order, most in price.rdp.items():
                if most is not None and not price.delta:
                    assert divergence(shown, float(order)) <= float(most) + ROUNDING

    def test_the_price_is_at_least_the_failure(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        failures = [rules.pair.failure(example.leaf, direction) for direction in DIRECTIONS]
        assert Fraction(_price(example).delta) >= max(failures) or not any(failures)

    def test_noise_makes_it_cheaper_and_loss_dearer(self, example: Example) -> None:
        rules, leaf = rules_of(example.leaf), example.leaf
        if isinstance(leaf, FOUND) or rules.outcome is not None:
            return  # never written; or its numbers belong together
        assert not rules.price.noise_fields & rules.price.loss_fields
        for name in rules.price.noise_fields | rules.price.loss_fields:
            values = {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
            more: Any = type(leaf)(**{**values, name: 2 * values[name]})
            less, dear = (more, leaf) if name in rules.price.noise_fields else (leaf, more)
            assert (
                compose(less, relation=example.relation).epsilon(DELTA).upper
                < compose(dear, relation=example.relation).epsilon(DELTA).upper
            ), f"epsilon at {DELTA} does not move with {name}: neither noise nor loss (NO_FIELDS)"

    def test_every_number_that_may_be_free_is_said_to_be_noise_or_loss(self, example: Example) -> None:
        """A number of which a document may say "free" is one of those; the others are no dials."""
        rules, leaf = rules_of(example.leaf), example.leaf
        if isinstance(leaf, FOUND):
            return
        values = {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
        numbers = {name for name, value in values.items() if isinstance(value, Decimal) and value}
        dials = rules.price.noise_fields | rules.price.loss_fields
        assert dials <= set(values)
        assert numbers - dials == example.no_dials, "no_dials are the Decimal fields that neither set names"

    # what a guarantee answers for itself

    def test_a_guarantee_is_an_epsilon_where_its_mechanism_is(self, example: Example) -> None:
        """A claim of it at a delta is kept by what it is said of; `fails` and `own_delta` are those at which it is."""
        leaf = example.leaf
        if not isinstance(leaf, GUARANTEES):
            return
        found = {delta: leaf.epsilon_at(delta) for delta in (*map(Decimal, AT), leaf.fails, leaf.own_delta or DELTA)}
        assert any(epsilon.is_finite() for epsilon in found.values())
        for delta, epsilon in found.items():
            assert epsilon >= 0
            assert delta >= leaf.fails or not epsilon.is_finite()
            for direction in DIRECTIONS:
                shown = hockey_stick(turned(example.pair(1), direction), float(epsilon)) if epsilon.is_finite() else 0.0
                assert shown <= float(delta) + ROUNDING, "epsilon_at says less than the mechanism loses"
        assert leaf.own_delta is None or found[leaf.own_delta].is_finite()
        failures = [rules_of(leaf).pair.failure(leaf, direction) for direction in DIRECTIONS]
        assert Fraction(leaf.fails) >= max(failures) or len(leaf.points) > 1, (
            "a profile says at each epsilon what fails"
        )

    def test_a_claim_of_a_guarantee_asks_for_its_delta_too(self, example: Example) -> None:
        leaf = example.leaf
        if not isinstance(leaf, GUARANTEES):
            return
        rules.check(leaf, leaf, example.relation)
        with pytest.raises((ClaimTooSmall, CannotCertify)):
            rules.check(leaf, composition.Sequence((leaf, ApproxDP(0, "0.001"))), example.relation)

    # several steps, and secret batches

    def test_a_group_is_above_what_two_steps_show(self, example: Example) -> None:
        tree = Group(_written(example), k=2, relation=example.relation)
        if not example.grouped:
            assert _refused(lambda: compose(tree, relation=example.relation))
            return
        for direction in DIRECTIONS:
            shown, profile = (
                turned(example.pair(2), direction),
                compose(tree, relation=example.relation, direction=direction),
            )
            for epsilon in EPSILONS:
                assert hockey_stick(shown, float(epsilon)) <= profile.delta(epsilon).upper + ROUNDING
        price = cost(tree, example.relation)
        if price.pure is not None:
            assert hockey_stick(example.pair(2), float(price.pure)) <= float(price.delta) + ROUNDING

    def test_a_group_of_one_is_the_leaf(self, example: Example) -> None:
        one = compose(Group(_written(example), k=1, relation=example.relation), relation=example.relation)
        alone = compose(_written(example), relation=example.relation)
        for epsilon in EPSILONS:
            assert math.isclose(one.delta(epsilon).upper, alone.delta(epsilon).upper, rel_tol=1e-9, abs_tol=1e-15)

    def test_the_relation_counts_where_it_says_so(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        if isinstance(example.leaf, FOUND) or rules.pair.mirrors(example.leaf) == "not" or example.relation is not ADD:
            return
        both = [compose(_written(example), relation=relation).epsilon(DELTA).upper for relation in (ADD, REPLACE)]
        assert (both[0] != both[1]) == rules.group.relative

    def test_a_sample_is_above_what_a_mixture_shows(self, example: Example) -> None:
        tree = PoissonSampled(_written(example), rate=RATE)
        if not example.sampled:
            assert _refused(lambda: compose(tree, relation=example.relation))
            return
        for direction in DIRECTIONS:
            shown = turned(mixed(example.pair(1), float(RATE)), direction)
            profile = compose(tree, relation=example.relation, direction=direction)
            for epsilon in EPSILONS:
                exact, bounds = hockey_stick(shown, float(epsilon)), profile.delta(epsilon)
                assert exact <= bounds.upper + ROUNDING, (direction, epsilon)
                if example.slack is not None:
                    assert bounds.lower <= exact + example.slack + ROUNDING, (direction, epsilon)

    def test_the_price_of_a_sample_is_above_what_a_mixture_shows(self, example: Example) -> None:
        tree = PoissonSampled(_written(example), rate=RATE)
        if _refused(lambda: cost(tree, example.relation, orders=ORDERS)):
            return
        price = cost(tree, example.relation, orders=ORDERS)
        for direction in DIRECTIONS:
            shown = turned(mixed(example.pair(1), float(RATE)), direction)
            if price.pure is not None:
                assert hockey_stick(shown, float(price.pure)) <= float(price.delta) + ROUNDING
            for order, most in price.rdp.items():
                if most is not None and not price.delta:
                    assert divergence(shown, float(order)) <= float(most) + ROUNDING
            if price.rho is not None and not price.delta:
                assert max(divergence(shown, float(order)) / float(order) for order in ORDERS) <= float(price.rho)

    def test_what_it_says_of_a_batch_is_above_what_a_mixture_shows(self, example: Example) -> None:
        said = rules_of(example.leaf).batch.divergences
        if said is None or not example.sampled:
            return
        for order, found in zip(ORDERS, said(example.leaf, Poisson(RATE), example.relation, ORDERS), strict=True):
            assert found is not None
            for direction in DIRECTIONS:
                shown = turned(mixed(example.pair(1), float(RATE)), direction)
                assert divergence(shown, float(order)) <= float(found) + ROUNDING

    def test_a_unit_that_is_zeroed_out_is_sampled_where_it_says_so(self, example: Example) -> None:
        if isinstance(example.leaf, FOUND):
            return
        tree = PoissonSampled(_written(example), rate=RATE)
        said = rules_of(example.leaf).batch.null_is_absence
        assert _refused(lambda: compose(tree, relation=Relation.ZERO_OUT)) == (not said)

    def test_a_shuffle_is_above_what_one_user_alone_among_constants_shows(self, example: Example) -> None:
        """Three users of whom two hold the same: the number of times that the likeliest outcome is seen."""
        tree = Shuffled(_written(example), users=3)
        if not example.shuffled:
            assert _refused(lambda: compose(tree, relation=REPLACE))
            return
        with_unit, without = example.pair(1)
        best = max(range(len(without)), key=lambda i: with_unit[i] / without[i] if without[i] > 1e-3 else 0.0)
        p, q = with_unit[best], without[best]
        others = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
        there = [(1 - p) * a + p * b for a, b in zip([*others, 0.0], [0.0, *others], strict=True)]
        back = [(1 - q) * a + q * b for a, b in zip([*others, 0.0], [0.0, *others], strict=True)]
        profile = compose(tree, relation=REPLACE)
        for epsilon in EPSILONS:
            for pair in ((there, back), (back, there)):
                assert hockey_stick(pair, float(epsilon)) <= profile.delta(epsilon).upper + ROUNDING

    # what composes otherwise

    def test_gaussians_add_their_squares(self, example: Example) -> None:
        squares = rules_of(example.leaf).pair.squares
        if squares is None:
            return
        mu = math.sqrt(Fraction(*squares.ratio(example.leaf, example.relation)))
        for epsilon in EPSILONS:
            exact = hockey_stick(gaussian_cells(mu), float(epsilon))
            assert math.isclose(exact, hockey_stick(example.pair(1), float(epsilon)), abs_tol=1e-6)

    def test_a_curve_is_above_the_divergence_of_what_is_shown(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        if rules.pair.renyi is None:
            return
        assert _refused(lambda: losses_of(Drawn(example.leaf), example.relation, "remove"))
        (case,) = read_losses(_written(example), example.relation, "remove")[:1]
        assert case.curves == ((rules.pair.renyi(example.leaf), 1),)

    def test_losses_lie_within_the_range_that_it_says(self, example: Example) -> None:
        said = rules_of(example.leaf).pair.envelope
        if said is None:
            return
        with_unit, without = example.pair(1)
        losses = [math.log(p / q) for p, q in zip(with_unit, without, strict=True) if p or q]
        assert max(losses) - min(losses) <= float(said.eta(example.leaf)) + 1e-9

    def test_where_it_gives_no_reason_its_bounds_meet(self, example: Example) -> None:
        runs = compose(Repeated(_written(example), times=3), relation=example.relation)
        bounds = runs.delta(1)
        assert runs.notes == (
            () if rules_of(example.leaf).pair.reason is None else (rules_of(example.leaf).pair.reason,)
        )
        if not runs.notes:
            assert bounds.upper - bounds.lower <= 1e-4

    # outcomes

    def test_a_plan_has_no_outcome_and_a_run_costs_at_most_its_plan(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        assert (rules.outcome is None) == (example.ran is None)
        if isinstance(example.leaf, FOUND):
            return
        assert planned(example.leaf) == example.leaf
        if example.ran is None:
            assert certain(example.leaf) == example.leaf
            return
        assert rules.outcome is not None
        settled, with_unit, without = example.ran
        assert rules.outcome.known(settled)
        assert not rules.outcome.known(planned(settled))
        assert planned(settled) == example.leaf != settled
        assert certain(settled) is None
        loss = rules.outcome.loss(settled)
        assert abs(math.log(with_unit / without)) <= float(loss) + ROUNDING
        cap, price = cost(example.leaf, example.relation, orders=ORDERS), cost(settled, example.relation, orders=ORDERS)
        assert cap.pure is not None
        assert price.pure == min(cap.pure, loss) < cap.pure, "the example is to show a refund"
        assert (price.delta, price.rho, price.mu_squared, price.rdp) == (
            cap.delta,
            cap.rho,
            cap.mu_squared,
            cap.rdp,
        )

    def test_orders_and_exclusiveness_are_said(self, example: Example) -> None:
        rules = rules_of(example.leaf)
        assert all(order > 1 for order in rules.price.stated_orders(example.leaf))
        assert isinstance(rules.price.exclusive(example.leaf), bool)
        approximate_renyi = rules.pair.renyi is not None and any(
            rules.pair.failure(example.leaf, d) for d in DIRECTIONS
        )
        assert rules.price.exclusive(example.leaf) or not approximate_renyi, "no theorem overlaps such interactions"


def _written(example: Example) -> Composition:
    """The leaf as a tree; of what is found in trees, and no tree holds as one, a tree that says the same."""
    if isinstance(example.leaf, JointMixture):
        return MixtureOfGaussiansLaw(1, *_written_as(example.leaf))
    if isinstance(example.leaf, OpposedMixture):
        side = example.leaf.side
        k, always = len(side.shifts), side.weights[-1]  # that all k are in the sample
        step = PoissonSampled(GaussianLaw(k / math.sqrt(side.mu_squared)), rate=float(always) ** (1 / k))
        return Group(step, k=k, relation=REPLACE)
    if isinstance(example.leaf, JointGaussian):
        noise = 1 / math.sqrt(example.leaf.mu_squared)
        return Group(GaussianLaw(noise), k=1, relation=ADD)
    return example.leaf


def _written_as(leaf: JointMixture) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(float(shift) * math.sqrt(leaf.mu_squared) for shift in leaf.shifts), tuple(map(float, leaf.weights))


def _price(example: Example) -> Cost:
    return rules_of(example.leaf).price.cap(example.leaf, example.relation, ORDERS)


def _epsilons(price: Cost, delta: Decimal) -> list[Decimal]:
    """What the price means at `delta`, by the published conversions."""
    left, found = delta - price.delta, list[Decimal]()
    if left <= 0:
        return found
    if price.rho is not None:
        found.append(epsilon_of_zcdp(price.rho, left))
    if price.mu_squared is not None:
        found.append(epsilon_of_gdp(Decimal(math.sqrt(price.mu_squared) * (1 + 1e-12)), left))
    found.extend(epsilon_of_rdp(order, most, left) for order, most in price.rdp.items() if most is not None)
    return found


def _finite_pairs(example: Example) -> PairBracket | None:
    """Above and below, where the kind knows them."""
    try:
        return rules_of(example.leaf).pair.bracket(example.leaf, example.relation)
    except CannotCertify:
        return None


def _listed(pair: Any) -> Pmf:
    """A finite pair of the package as two lists, its mass at infinity as outcomes of one side."""
    return [*pair.left, pair.only_left, 0.0], [*pair.right, 0.0, pair.only_right]


def _refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except CannotCertify:
        return True
    return False
