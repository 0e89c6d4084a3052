"""Poisson samples of which at most so many units are kept, against every sample of a few units, one by one."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as pld

import dpledger as dpl
from dpledger.accounting.laws.binomial import at_least
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from leaf_conformance import Pmf, divergence, grid, hockey_stick, masses, normal_tail

pytestmark = pytest.mark.sliced

Law = dpl.planning.TruncatedSampledGaussianLaw
ADD, ZERO, REPLACE = Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE
EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.6)
ORDERS = (Decimal("1.5"), Decimal(2), Decimal(4))
RATE, BATCH, SIGMA = 0.3, 2, 1.0


def shown(contributions: tuple[float, ...], rate: float = RATE, batch: int = BATCH) -> list[float]:
    """The noisy sum of a truncated sample of these, through the cells of a grid: every sample and every part of it."""
    edges, found = grid(0.0, 10.0, 1200), [0.0] * 1202
    for chosen in itertools.product((False, True), repeat=len(contributions)):
        present = [x for x, inside in zip(contributions, chosen, strict=True) if inside]
        chance = math.prod(rate if inside else 1 - rate for inside in chosen)
        kept = list(itertools.combinations(present, min(batch, len(present))))
        for part in kept:
            cells = masses(lambda t: normal_tail(t / SIGMA), edges, math.fsum(part))
            found = [p + chance / len(kept) * q for p, q in zip(found, cells, strict=True)]
    return found


OTHERS: dict[str, tuple[float, ...]] = {
    "nothing": (0.0, 0.0, 0.0),
    "against it": (-1.0, -1.0, -1.0),
    "mixed": (-1.0, 0.5, 1.0),
}


def neighbours(others: tuple[float, ...], relation: Relation) -> Pmf:
    match relation:
        case Relation.ADD_REMOVE:
            return shown((1.0, *others)), shown(others)
        case Relation.ZERO_OUT:
            return shown((1.0, *others)), shown((0.0, *others))
        case _:
            return shown((1.0, *others)), shown((-1.0, *others))


@pytest.mark.parametrize("relation", [ADD, ZERO, REPLACE])
@pytest.mark.parametrize("others", OTHERS)
def test_every_sample_of_four_units_shows_at_most_the_bound(others: str, relation: Relation) -> None:
    law, pair = Law(SIGMA, RATE, 4, BATCH), neighbours(OTHERS[others], relation)
    price = cost(law, relation, orders=ORDERS)
    for direction, here in (("remove", pair), ("add", (pair[1], pair[0]))):
        profile = dpl.compose(law, relation=relation, direction=direction)  # type: ignore[arg-type]
        for epsilon in EPSILONS:
            bounds, found = profile.delta(str(epsilon)), hockey_stick(here, epsilon)
            assert found <= bounds.upper + 1e-9
            assert others != "nothing" or relation is REPLACE or bounds.lower <= found + 1e-5
        for order in ORDERS:
            most = price.rdp[order]
            assert most is not None
            assert divergence(here, float(order)) <= float(most) + 1e-9


def test_the_lower_bound_is_shown_where_the_others_contribute_nothing() -> None:
    law, pair = Law(SIGMA, RATE, 4, BATCH), neighbours(OTHERS["nothing"], ADD)
    for epsilon in EPSILONS:
        found, bounds = hockey_stick(pair, epsilon), dpl.compose(law).delta(str(epsilon))
        assert found - 1e-5 <= bounds.lower <= found + 1e-5


def test_a_twin_that_forgets_who_is_displaced_is_refuted() -> None:
    """The unit takes the place of another: a sample that is only drawn less often says too little."""
    pair = shown((1.0, -1.0, -1.0, -1.0), 0.9, 1), shown((-1.0, -1.0, -1.0), 0.9, 1)
    twin = dpl.compose(dpl.PoissonSampled(dpl.GaussianLaw(SIGMA), rate="0.25"))
    law = dpl.compose(Law(SIGMA, "0.9", 4, 1))
    found = {epsilon: hockey_stick(pair, epsilon) for epsilon in EPSILONS}
    assert any(one > twin.delta(str(epsilon)).upper + 1e-2 for epsilon, one in found.items())
    assert all(one <= law.delta(str(epsilon)).upper + 1e-9 for epsilon, one in found.items())


def test_the_truncation_costs_what_others_find_or_less() -> None:
    for relation, theirs in ((ADD, NeighboringRelation.ADD_OR_REMOVE_ONE), (ZERO, NeighboringRelation.REPLACE_SPECIAL)):
        for batch in (15, 25):
            found = pld.from_truncated_subsampled_gaussian_mechanism(
                1000, 0.01, batch, 1.0, value_discretization_interval=1e-3, neighboring_relation=theirs
            ).self_compose(50)
            ours = dpl.compose((Law(1, "0.01", 1000, batch), 50), relation=relation).epsilon("1e-6")
            assert ours.lower <= ours.upper <= found.get_epsilon_for_delta(1e-6)


def test_a_batch_that_is_never_full_is_a_poisson_sample() -> None:
    law, sample = Law(1, "0.01", 1000, 1000), dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01")
    both = [dpl.compose((one, 50)).epsilon("1e-6") for one in (law, sample)]
    assert both[0].lower <= both[1].upper <= both[0].upper <= both[1].upper * 1.001
    priced = [cost(one, ADD, orders=ORDERS).rdp for one in (law, sample)]
    assert all(
        one is not None and other is not None and other <= one <= other * Decimal("1.0001")
        for one, other in zip(priced[0].values(), priced[1].values(), strict=True)
    )


def test_everyone_in_a_batch_of_everyone() -> None:
    for relation, shift in ((ADD, 1), (ZERO, 1), (REPLACE, 2)):
        whole = dpl.compose(Law(2, 1, 10, 10), relation=relation).epsilon("1e-6")
        gaussian = dpl.compose(dpl.GaussianLaw(Decimal(2) / shift)).epsilon("1e-6")
        assert whole.lower <= gaussian.upper <= whole.upper <= gaussian.upper * 1.001


def test_smaller_batches_than_the_sample_lose_more_in_a_full_one() -> None:
    upper = [dpl.compose((Law(1, "0.01", 1000, batch), 20)).epsilon("1e-6").upper for batch in (12, 20, 30)]
    assert upper == sorted(upper, reverse=True)


@pytest.mark.parametrize(("trials", "rate"), [(12, "0.3"), (1, "0.5"), (40, "0.999"), (1000, "0.01"), (30, "1e-12")])
def test_the_chance_of_a_full_batch_is_between_its_bounds(trials: int, rate: str) -> None:
    q = Fraction(rate)
    masses_of = [math.comb(trials, r) * q**r * (1 - q) ** (trials - r) for r in range(trials + 1)]
    tails = list(itertools.accumulate(reversed([*masses_of, Fraction(0)])))[::-1]  # from each number on
    for least, exact in enumerate(tails[:42]):
        lower, upper = at_least(trials, q, least)
        assert Fraction(lower) <= exact <= Fraction(upper)
        assert upper - lower <= 1e-9 * upper + 3e-38


REFUSED: dict[str, tuple[dpl.Composition, str]] = {
    "a group": (dpl.Group(Law(1, "0.1", 100, 20), k=2, relation=ADD), "to a group of 2"),
    "a sample": (dpl.PoissonSampled(Law(1, "0.1", 100, 20), rate="0.5"), "a fixed number of units"),
    "dealt": (dpl.RandomAllocation(Law(1, "0.1", 100, 20), steps=3), "a fixed number of units"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_theorem_covers_is_refused_by_name(name: str) -> None:
    tree, words = REFUSED[name]
    with pytest.raises(CannotCertify, match=words):
        dpl.compose(tree)


@pytest.mark.parametrize("name", ["a sample", "dealt"])
def test_a_batch_of_another_draw_has_no_price(name: str) -> None:
    with pytest.raises(CannotCertify, match="a fixed number of units"):
        cost(REFUSED[name][0], ADD)
