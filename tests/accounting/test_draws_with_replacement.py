"""Records drawn with replacement, against every batch of a few units, one by one."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import pytest

import dpledger as dpl
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from leaf_conformance import Pmf, divergence, grid, hockey_stick, masses, normal_tail

Law = dpl.planning.GaussianWithReplacementLaw
ZERO, REPLACE = Relation.ZERO_OUT, Relation.REPLACE_ONE
EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.6)
ORDERS = (Decimal("1.5"), Decimal(2), Decimal(4))
SIGMA, DRAWS = 2.0, 3


def shown(contributions: tuple[float, ...]) -> list[float]:
    """The noisy sum of a batch, through the cells of a grid: every sequence of draws."""
    edges, sums = grid(0.0, 20.0, 1200), [math.fsum(one) for one in itertools.product(contributions, repeat=DRAWS)]
    found = [0.0] * 1202
    for place in set(sums):
        cells = masses(lambda t: normal_tail(t / SIGMA), edges, place)
        found = [p + sums.count(place) / len(sums) * q for p, q in zip(found, cells, strict=True)]
    return found


OTHERS = {"nothing": (0.0, 0.0, 0.0), "against it": (-1.0, -1.0, -1.0), "mixed": (-1.0, 0.5, 1.0)}


def neighbours(others: tuple[float, ...], relation: Relation) -> Pmf:
    other = 0.0 if relation is ZERO else -1.0
    return shown((1.0, *others)), shown((other, *others))


@pytest.mark.parametrize("relation", [ZERO, REPLACE])
@pytest.mark.parametrize("others", OTHERS)
def test_every_batch_of_four_units_shows_at_most_the_bound(others: str, relation: Relation) -> None:
    law, pair = Law(SIGMA, 4, DRAWS), neighbours(OTHERS[others], relation)
    price = cost(law, relation, orders=ORDERS)
    for direction, here in (("remove", pair), ("add", (pair[1], pair[0]))):
        profile = dpl.compose(law, relation=relation, direction=direction)  # type: ignore[arg-type]
        for epsilon in EPSILONS:
            assert hockey_stick(here, epsilon) <= profile.delta(str(epsilon)).upper + 1e-9
        for order in ORDERS:
            most = price.rdp[order]
            assert most is not None
            assert divergence(here, float(order)) <= float(most) + 1e-9


def test_the_lower_bound_is_shown_by_others_who_contribute_the_opposite() -> None:
    pair = neighbours(OTHERS["against it"], REPLACE)
    for epsilon in EPSILONS:
        bounds = dpl.compose(Law(SIGMA, 4, DRAWS), relation=REPLACE).delta(str(epsilon))
        assert 0 < bounds.lower <= hockey_stick(pair, epsilon) + 1e-5 <= bounds.upper + 2e-5


def test_a_twin_whose_batch_holds_a_unit_at_most_once_is_refuted() -> None:
    pair = neighbours(OTHERS["against it"], REPLACE)
    drawn = 1 - (3 / 4) ** DRAWS
    batch = dpl.SampledWithoutReplacement(dpl.GaussianLaw(SIGMA), population=1000, batch=round(1000 * drawn))
    twin = dpl.compose(batch, relation=REPLACE)
    assert any(hockey_stick(pair, epsilon) > twin.delta(str(epsilon)).upper + 1e-4 for epsilon in EPSILONS)


def test_one_draw_is_a_sample_of_one() -> None:
    one = dpl.compose(Law(2, 50, 1), relation=REPLACE)
    other = dpl.compose(dpl.SampledWithoutReplacement(dpl.GaussianLaw(2), population=50, batch=1), relation=REPLACE)
    for epsilon in EPSILONS[1:]:
        assert abs(one.delta(str(epsilon)).upper - other.delta(str(epsilon)).upper) <= 1e-9


def test_more_draws_and_less_noise_lose_more() -> None:
    upper = [
        dpl.compose((law, 5), relation=REPLACE).epsilon("1e-6").upper
        for law in (Law(4, 99, 3), Law(4, 99, 6), Law(3, 99, 6))
    ]
    assert upper == sorted(upper)


def test_it_is_refused_where_the_number_of_units_is_none() -> None:
    with pytest.raises(CannotCertify, match="not under add_remove"):
        dpl.compose(Law(2, 10, 2))
    with pytest.raises(CannotCertify, match="not under add_remove"):
        cost(Law(2, 10, 2), Relation.ADD_REMOVE)
    with pytest.raises(CannotCertify, match="a fixed number of units"):
        dpl.compose(dpl.SampledWithoutReplacement(Law(2, 10, 2), population=10, batch=2), relation=REPLACE)
    with pytest.raises(ParameterError, match="at least 2 units"):
        Law(2, 1, 2)
