"""Every kind of leaf keeps what it says about itself: held against a mechanism enumerated by hand, in both directions.

A kind of the union without an example here fails; so does a kind that says something untrue (the twins below).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any, get_args

import pytest

from dpledger.accounting import kinds
from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    GaussianWithReplacementLaw,
    LaplaceLaw,
    Leaf,
    MixtureOfGaussiansLaw,
    OffsetZCDP,
    PermuteAndFlipLaw,
    PmfPair,
    RandomizedResponseLaw,
    SparseVectorLaw,
    SparseVectorOutcome,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.families.gaussian.mixtures import exchanged_in_samples
from dpledger.accounting.families.leaf_rules import never_fails
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.kinds import EVERY_KIND, JointGaussian, JointMixture, LeafRules, OpposedMixture
from dpledger.accounting.pricing import pld
from dpledger.relations import Relation
from leaf_conformance import (
    Example,
    LeafConformance,
    Pmf,
    gaussian_cells,
    hockey_stick,
    integer_cells,
    laplace_cells,
    mixture_cells,
    opposed_cells,
    responses,
)

pytestmark = pytest.mark.sliced


def answers(epsilon: float, k: int) -> Pmf:
    """One of k values, where the true one is the first with the unit and the second without."""
    whole = math.exp(epsilon) + k - 1
    likely, rare = math.exp(epsilon) / whole, 1 / whole
    return [likely, rare, *[rare] * (k - 2)], [rare, likely, *[rare] * (k - 2)]


def one_test(value: int) -> Pmf:
    """A test of a query at `value` or at 0 against the threshold 0, with Laplace noise of scale 4 on the query and of
    scale 2 on the threshold: passed, failed. The tail of the difference, integrated by hand."""

    def fails(at: int) -> float:
        return (16 * math.exp(-at / 4) - 4 * math.exp(-at / 2)) / 24

    return [1 - fails(value), fails(value)], [1 - fails(0), fails(0)]


def curve_of(epsilon: float, at: tuple[str, ...]) -> PrivacyCurve:
    """The profile of a randomised response at these points, rounded up."""
    exact = (Decimal(hockey_stick(responses(epsilon), float(one))) for one in at)
    return PrivacyCurve(at, tuple(one.quantize(Decimal("1e-15"), ROUND_CEILING) for one in exact))


TEST = SparseVectorLaw("basic", cutoff=1, epsilon=1, delta=0, threshold_scale=2, query_scale=4)
PASSED = dataclasses.replace(TEST, outcome=SparseVectorOutcome(closed_epochs=(), open_epoch=1, halted=False))
RELEASING = SparseVectorLaw("basic", cutoff=1, epsilon=1, delta="0.1", threshold_scale=2, query_scale=4, stable_at=8)
WITHHELD = dataclasses.replace(RELEASING, outcome=SparseVectorOutcome(closed_epochs=(1,), open_epoch=0, halted=True))


def one_value(_: int) -> Pmf:
    """A value that neighbours do not share, at distance 0: that of one is released, that of the other, or none. Noise
    on the integers, summed by hand."""
    low, high = math.exp(-1 / 2), math.exp(-1 / 4)
    masses = {z: (1 - low) / (1 + low) * low ** abs(z) for z in range(-200, 201)}
    above = {k: high**k / (1 + high) if k > 0 else 1 - high ** (1 - k) / (1 + high) for k in range(-200, 220)}
    shown = math.fsum(mass * above[8 + 1 + z] for z, mass in masses.items())
    return [shown, 0.0, 1 - shown], [0.0, shown, 1 - shown]


COIN = ExPostDP(epsilon="0.8", sense="pure")
HALF_LOST = dataclasses.replace(COIN, outcome=ExPostOutcome(epsilon="0.3"))


def cheap_or_dear(k: int) -> Pmf:
    """A public coin, shown with the answer: a response of epsilon 0.3, or one of 0.8; k steps change the bit k times as
    much, which the coin does not."""
    cheap, dear = responses(0.3 * k), responses(0.8 * k)
    return [p / 2 for p in (*cheap[0], *dear[0])], [q / 2 for q in (*cheap[1], *dear[1])]


LISTED = PmfPair(left=("0.6", "0.3", "0.1", "0"), right=("0.5", "0.2", "0", "0.3"))
SWAPPED = PmfPair(left=("0.6", "0.1", "0.3"), right=("0.1", "0.6", "0.3"))
REPLACE = Relation.REPLACE_ONE
SMOOTH = 1e-4  # what cells hide


def better_of_two(k: int) -> Pmf:
    """Permute-and-flip of two candidates, epsilon 0.8: the unit, k times over, makes the worse one the better."""
    rare = math.exp(-0.4 * k) / 2
    return [1 - rare, rare], [rare, 1 - rare]


EXAMPLES = [
    Example(
        leaf=PureDP("0.8"),
        pair=lambda k: responses(0.8 * k),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=True,
    ),
    Example(
        leaf=ApproxDP("0.8", "0.001"),
        pair=lambda k: responses(0.8 * k, 0.001),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=False,
        no_dials=frozenset({"delta"}),
    ),
    Example(
        leaf=ZCDP("0.125"),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=None,
        grouped=True,
        sampled=False,
        shuffled=False,
    ),
    Example(
        leaf=ZCDP("0.125", "0.001"),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=None,
        grouped=False,
        sampled=False,
        shuffled=False,
        no_dials=frozenset({"delta"}),
    ),
    Example(
        leaf=OffsetZCDP(rho="0.1", xi="0.025"),  # what a divergence of 0.125 a is at orders up to 2, and more above
        pair=lambda k: responses(0.4 * k),
        slack=None,
        grouped=True,
        sampled=False,
        shuffled=False,
    ),
    Example(
        leaf=PermuteAndFlipLaw("0.8"),
        pair=better_of_two,
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=GDP("0.5"),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=SMOOTH,
        grouped=True,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=RDP(orders=("1.5", "3", "8"), epsilons=("0.1875", "0.375", "1")),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=None,
        grouped=False,
        sampled=False,
        shuffled=False,
    ),
    Example(
        leaf=BoundedRange("0.9"),
        pair=lambda k: responses(0.45 * k),
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=True,
    ),
    Example(
        leaf=curve_of(0.8, ("0", "0.4", "0.8")),
        pair=lambda k: responses(0.8 * k),
        slack=1e-6,
        grouped=False,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=LaplaceLaw("0.7"),
        pair=lambda k: laplace_cells(0.7 * k),
        slack=SMOOTH,
        grouped=True,
        sampled=True,
        shuffled=True,
    ),
    Example(
        leaf=GaussianLaw(2),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=SMOOTH,
        grouped=True,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=MixtureOfGaussiansLaw(2, ("0.5", 2), ("0.3", "0.2")),
        pair=lambda _: mixture_cells((0.25, 1.0), (0.3, 0.2)),
        slack=SMOOTH,
        grouped=False,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=TruncatedSampledGaussianLaw(2, "0.3", 4, 2),
        pair=lambda _: mixture_cells((0.5,), (0.27705,)),  # in the batch, of others who contribute nothing
        slack=None,
        grouped=False,
        sampled=False,
        shuffled=False,
        no_dials=frozenset({"rate"}),
    ),
    Example(
        leaf=GaussianWithReplacementLaw(4, 10, 2),
        pair=lambda _: mixture_cells((0.5, 1.0), (0.18, 0.01)),  # others contribute the opposite
        slack=None,
        grouped=False,
        sampled=False,
        shuffled=False,
        relation=REPLACE,
    ),
    Example(
        leaf=DiscreteLaplaceLaw(2, 1),
        pair=lambda k: integer_cells(lambda x: math.exp(-abs(x) / 2), k),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=True,
        no_dials=frozenset({"sensitivity"}),
    ),
    Example(
        leaf=DiscreteGaussianLaw(2, 1),
        pair=lambda k: integer_cells(lambda x: math.exp(-(x**2) / 8), k, reach=60),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=False,
        no_dials=frozenset({"sensitivity"}),
    ),
    Example(
        leaf=RandomizedResponseLaw("0.8", 3),
        pair=lambda _: answers(0.8, 3),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=True,
    ),
    Example(
        leaf=ExponentialLaw("0.9"),
        pair=lambda k: responses(0.45 * k),
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=True,
    ),
    Example(
        leaf=LISTED,
        pair=lambda _: (list(map(float, LISTED.left)), list(map(float, LISTED.right))),
        slack=0.0,
        grouped=False,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=SWAPPED,
        pair=lambda _: (list(map(float, SWAPPED.left)), list(map(float, SWAPPED.right))),
        slack=0.0,
        grouped=False,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=TEST,
        pair=one_test,
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=False,
        ran=(PASSED, one_test(1)[0][0], one_test(1)[1][0]),
        no_dials=frozenset({"threshold_scale", "query_scale"}),
    ),
    Example(
        leaf=RELEASING,
        pair=one_value,
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=False,
        ran=(WITHHELD, one_value(1)[0][2], one_value(1)[1][2]),
        no_dials=frozenset({"threshold_scale", "query_scale", "delta"}),
    ),
    Example(
        leaf=COIN,
        pair=cheap_or_dear,
        slack=None,
        grouped=True,
        sampled=True,
        shuffled=False,
        ran=(HALF_LOST, cheap_or_dear(1)[0][1], cheap_or_dear(1)[1][1]),
    ),
    Example(
        leaf=ExPostDP(epsilon="0.8", sense="integrated", delta="0.001"),
        pair=lambda k: responses(0.8 * k, 0.001),
        slack=0.0,
        grouped=True,
        sampled=True,
        shuffled=False,
        ran=(ExPostDP("0.8", "integrated", "0.001", ExPostOutcome("0.5")), math.exp(0.5), 1.0),
        no_dials=frozenset({"delta"}),
    ),
    Example(
        leaf=JointGaussian(Fraction(1, 4)),
        pair=lambda k: gaussian_cells(0.5 * k),
        slack=SMOOTH,
        grouped=True,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=JointMixture(Fraction(1), (Fraction(1, 2), Fraction(1)), (Fraction(1, 2), Fraction(1, 4))),
        pair=lambda _: mixture_cells((0.5, 1.0), (0.5, 0.25)),
        slack=SMOOTH,
        grouped=False,
        sampled=True,
        shuffled=False,
    ),
    Example(
        leaf=exchanged_in_samples(Fraction(1, 4), Fraction(1, 4), 2),
        pair=lambda _: opposed_cells((0.5, 1.0), (0.375, 0.0625)),
        slack=SMOOTH,
        grouped=False,
        sampled=False,
        shuffled=False,
        relation=REPLACE,
    ),
]


def test_every_kind_has_an_example() -> None:
    kinds_with_rules = {*get_args(Leaf), JointGaussian, JointMixture, OpposedMixture}
    assert {type(example.leaf) for example in EXAMPLES} == kinds_with_rules == set(EVERY_KIND)


class TestEveryKind(LeafConformance):
    @pytest.fixture(params=EXAMPLES, ids=lambda example: type(example.leaf).__name__)
    def example(self, request: pytest.FixtureRequest) -> Example:
        found: Example = request.param
        return found


# ---- what the class would find --------------------------------------------------------------------------------------

HELD = [name for name in vars(LeafConformance) if name.startswith("test_")]
BY_KIND = {type(example.leaf): example for example in EXAMPLES}


def cheaper(rules: Any) -> Any:
    """The price of half the leaf."""
    return lambda leaf, relation, orders: rules.price.cap(LaplaceLaw(leaf.epsilon / 2), relation, orders)


def half_the_mean(squares: Any) -> Any:
    """The squares of half of mu."""
    return dataclasses.replace(squares, ratio=lambda leaf, at: squares.ratio(GDP(leaf.mu / 2), at))


def half(leaf: RandomizedResponseLaw) -> RandomizedResponseLaw:
    return RandomizedResponseLaw(leaf.epsilon / 2, leaf.k)


def of_half(envelope: Any) -> Any:
    """The envelope of half the range."""
    return dataclasses.replace(envelope, eta=lambda leaf: leaf.eta / 2)


def told_otherwise(rules: LeafRules[Any], facts: dict[str, Any]) -> LeafRules[Any]:
    """The rules with other facts, each in its group."""
    for name, fact in facts.items():
        homes = [group for group in ("price", "pair", "group", "batch") if hasattr(getattr(rules, group), name)]
        changed = {home: dataclasses.replace(getattr(rules, home), **{name: fact}) for home in homes}
        rules = dataclasses.replace(rules, **(changed or {name: fact}))
    return rules


def half_the_weights(leaf: MixtureOfGaussiansLaw) -> MixtureOfGaussiansLaw:
    return MixtureOfGaussiansLaw(leaf.sigma, leaf.sensitivities, tuple(weight / 2 for weight in leaf.weights))


LIES: dict[str, tuple[type, Callable[[Any], dict[str, Any]]]] = {
    "an asymmetric pair mirrors itself": (PmfPair, lambda _: {"mirrors": lambda _: "itself"}),
    "a failure is none": (ApproxDP, lambda _: {"failure": never_fails}),
    "half the price": (LaplaceLaw, lambda rules: {"cap": cheaper(rules)}),
    "a group is one": (LaplaceLaw, lambda _: {"grouped": lambda leaf, *_: leaf}),
    "half the loss": (
        LaplaceLaw,
        lambda rules: {"alone": lambda leaf, *rest: rules.pair.alone(LaplaceLaw(leaf.epsilon / 2), *rest)},
    ),
    "half the finite pairs": (
        RandomizedResponseLaw,
        lambda rules: {
            "bracket": lambda leaf, at: rules.pair.bracket(RandomizedResponseLaw(leaf.epsilon / 2, leaf.k), at)
        },
    ),
    "a sample at half the rate": (
        LaplaceLaw,
        lambda rules: {"sampled": lambda leaf, rate, *rest: rules.batch.sampled(leaf, rate / 2, *rest)},
    ),
    "a shuffle of half": (
        LaplaceLaw,
        lambda rules: {"shuffled": lambda leaf, users: rules.batch.shuffled(LaplaceLaw(leaf.epsilon / 4), users)},
    ),
    "a Gaussian of half the mean": (
        GDP,
        lambda rules: {"squares": half_the_mean(rules.pair.squares)},
    ),
    "a curve of half the divergence": (
        ZCDP,
        lambda rules: {"renyi": lambda leaf: rules.pair.renyi(ZCDP(leaf.rho / 8))},
    ),
    "a narrow range": (
        BoundedRange,
        lambda rules: {"envelope": of_half(rules.pair.envelope)},
    ),
    "a batch at half its divergence": (
        GaussianLaw,
        lambda rules: {"divergences": lambda *asked: tuple(one / 2 for one in rules.batch.divergences(*asked))},
    ),
    "a mixture that moves half as often": (
        MixtureOfGaussiansLaw,
        lambda rules: {"alone": lambda leaf, *rest: rules.pair.alone(half_the_weights(leaf), *rest)},
    ),
    "no outcome": (SparseVectorLaw, lambda _: {"outcome": None}),
    "an outcome that lost nothing": (
        SparseVectorLaw,
        lambda rules: {"outcome": dataclasses.replace(rules.outcome, loss=lambda _: Decimal(0))},
    ),
    "a relation that does not count": (GaussianLaw, lambda _: {"relative": False}),
    "noise that is a loss": (
        GaussianLaw,
        lambda _: {"noise_fields": frozenset(), "loss_fields": frozenset({"noise_multiplier"})},
    ),
    "a dial that is none": (LaplaceLaw, lambda _: {"loss_fields": frozenset()}),
    "an approximate zCDP that overlaps": (ZCDP, lambda _: {"exclusive": lambda _: False}),
    "exact where it is not": (ZCDP, lambda _: {"reason": None}),
    "order 1": (RDP, lambda _: {"stated_orders": lambda _: (Decimal(1),)}),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_kind_that_says_something_untrue_is_found(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, told = LIES[lie]
    rules = EVERY_KIND[kind]
    monkeypatch.setattr(kinds, "EVERY_KIND", {**EVERY_KIND, kind: told_otherwise(rules, told(rules))})
    forget()
    try:
        assert any(not holds(name, example) for name in HELD for example in EXAMPLES if type(example.leaf) is kind)
    finally:
        forget()


def holds(name: str, example: Example) -> bool:
    try:
        getattr(TestEveryKind(), name)(example)
    except Exception:  # whatever a lie breaks
        return False
    return True


def forget() -> None:
    """Drop the losses that are kept from one question to the next."""
    pld._kept_losses_of.cache_clear()
    pld._allocated.cache_clear()
