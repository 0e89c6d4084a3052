"""A unit in k of t steps, chosen uniformly, against every choice and every output of a few steps."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest

import dpledger as dpl
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

ADD, ZERO, REPLACE = Relation.ADD_REMOVE, Relation.ZERO_OUT, Relation.REPLACE_ONE
SIZES = [(3, 2), (4, 2), (5, 2), (6, 3), (7, 3), (4, 4), (4, 3)]
EPSILONS = ("0", "0.2", "0.5", "1", "2")
LEFT = tuple(map(Fraction, ("0.6", "0.3", "0.1")))
RIGHT = tuple(map(Fraction, ("0.25", "0.25", "0.5")))
STEP = dpl.PmfPair(left=("0.6", "0.3", "0.1"), right=("0.25", "0.25", "0.5"))


def shown(steps: int, k: int) -> tuple[list[Fraction], list[Fraction]]:
    """The probabilities of all outputs of `steps` responses, with the unit and without it, exactly."""
    chosen = list(itertools.combinations(range(steps), k))
    there, back = [], []
    for outputs in itertools.product(range(3), repeat=steps):
        back.append(math.prod((RIGHT[one] for one in outputs), start=Fraction(1)))
        each = (
            math.prod((LEFT[one] if i in places else RIGHT[one] for i, one in enumerate(outputs)), start=Fraction(1))
            for places in chosen
        )
        there.append(sum(each, Fraction(0)) / len(chosen))
    return there, back


def hockey_stick(left: list[Fraction], right: list[Fraction], epsilon: str) -> float:
    y = Fraction(math.exp(float(epsilon)))
    return float(sum((max(Fraction(0), p - y * q) for p, q in zip(left, right, strict=True)), Fraction(0)))


@pytest.mark.parametrize(("steps", "k"), SIZES)
def test_every_choice_of_a_few_steps_is_between_the_bounds(steps: int, k: int) -> None:
    there, back = shown(steps, k)
    tree = dpl.RandomAllocation(STEP, steps=steps, k=k)
    both: tuple[tuple[Direction, list[Fraction], list[Fraction]], ...] = (("remove", there, back), ("add", back, there))
    for direction, left, right in both:
        profile = dpl.compose(tree, direction=direction)
        for epsilon in EPSILONS:
            bounds, found = profile.delta(epsilon), hockey_stick(left, right, epsilon)
            assert bounds.lower - 1e-12 <= found <= bounds.upper + 1e-12
            assert k < steps or bounds.upper - bounds.lower <= 1e-9, "in every step"
    price = cost(tree, ADD, orders=(Decimal(2), Decimal(5)))
    assert price.pure is not None
    assert hockey_stick(there, back, str(price.pure)) <= 1e-12
    for order, most in price.rdp.items():
        moment = sum(float(q) * float(p / q) ** float(order) for p, q in zip(there, back, strict=True))
        assert most is None or math.log(moment) / (float(order) - 1) <= float(most) + 1e-9


def test_a_twin_in_fewer_steps_is_refuted() -> None:
    there, back = shown(5, 3)
    twin, tree = (dpl.compose(dpl.RandomAllocation(STEP, steps=5, k=k), direction="remove") for k in (1, 3))
    found = hockey_stick(there, back, "0.5")
    assert twin.delta("0.5").upper + 1e-2 < found <= tree.delta("0.5").upper


def test_it_is_as_many_allocations_to_one_of_as_many_blocks() -> None:
    for law in (dpl.GaussianLaw(2), dpl.LaplaceLaw("0.5"), STEP):
        several = dpl.compose(dpl.RandomAllocation(law, steps=23, k=4)).epsilon("1e-5")
        blocks = dpl.compose((dpl.RandomAllocation(law, steps=5), 4)).epsilon("1e-5")
        assert several.upper == pytest.approx(float(blocks.upper), rel=1e-12)
        one_step = dpl.compose(dpl.PoissonSampled(law, rate=Decimal(4) / 23)).epsilon("1e-5")
        assert several.lower == pytest.approx(float(one_step.lower), rel=1e-3)


def test_one_is_the_allocation_that_it_was_and_all_is_no_allocation() -> None:
    assert dpl.compose(dpl.RandomAllocation(STEP, steps=6, k=1)).epsilon("1e-3") == dpl.compose(
        dpl.RandomAllocation(STEP, steps=6)
    ).epsilon("1e-3")
    whole = dpl.RandomAllocation(dpl.GaussianLaw(2), steps=6, k=6)
    for relation in (ADD, ZERO, REPLACE):
        repeated = dpl.Repeated(dpl.GaussianLaw(2), times=6)
        assert dpl.compose(whole, relation=relation).epsilon("1e-6") == dpl.compose(
            repeated, relation=relation
        ).epsilon("1e-6")
        assert cost(whole, relation) == cost(repeated, relation)


def test_more_steps_are_dearer_and_more_to_choose_from_cheaper() -> None:
    upper = [
        dpl.compose(dpl.RandomAllocation(dpl.GaussianLaw(2), steps=60, k=k)).epsilon("1e-5").upper for k in (1, 3, 6)
    ]
    assert upper == sorted(upper)
    assert upper[1] > dpl.compose(dpl.RandomAllocation(dpl.GaussianLaw(2), steps=120, k=3)).epsilon("1e-5").upper


def test_what_no_theorem_covers_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="at most 3"):
        dpl.RandomAllocation(STEP, steps=3, k=4)
    for tree, relation, words in (
        (dpl.RandomAllocation(dpl.BoundedRange(1), steps=6, k=2), ADD, "of a bounded range"),
        (dpl.RandomAllocation(dpl.GaussianLaw(1), steps=6, k=2), REPLACE, "add_remove and zero_out"),
        (dpl.RandomAllocation(dpl.ZCDP(1), steps=6, k=2), ADD, "zcdp"),
        (dpl.PoissonSampled(dpl.RandomAllocation(STEP, steps=6, k=2), rate="0.5"), ADD, "secret batch"),
    ):
        with pytest.raises(CannotCertify, match=words):
            dpl.compose(tree, relation=relation)
