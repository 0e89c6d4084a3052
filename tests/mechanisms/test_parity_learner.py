"""`PrivateParityLearner` and `RepeatedParity`: conformance, exact laws, what they cost, what is entered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import dpledger as dpl
import parity_oracle as oracle
from dpledger.accounting.certificates.parity import one_run
from dpledger.accounting.composition import Repeated
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Committed
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.parities.parity_learners import FAIL, PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.noise import Bernoulli, recording
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

ROWS = LabeledSample([[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 0]] * 10, [1, 0, 1, 1] * 10)
TWO = ((1, 1), (2, 0))
THREE = (*TWO, (3, 0))
PATIENT = Unit("patient", max_contributions=1)
HALF = Decimal("0.5")


def sample_of(rows: oracle.Rows) -> LabeledSample:
    return LabeledSample([x for x, _ in rows], [y for _, y in rows])


class Parities(MechanismConformance):
    relations = tuple(Relation)
    learner: ClassVar[type]
    given: ClassVar[Mapping[str, object]] = {}

    def make(self, **changes: Any) -> Any:
        return self.learner(**{"dimension": 3, "epsilon": 2, **self.given, **changes})

    good_data = ROWS
    sampled_seeds = 0  # all systems are solved at once: test_what_is_sampled_has_the_exact_law compares them
    bad_data = (
        LabeledSample([], []),
        LabeledSample([[math.nan, 1, 0], [7, -3, 0.2]], [2, None]),
        LabeledSample([3, 2**80, "x", -1], ["a", 1, 0, True]),
        LabeledSample(np.zeros((0, 3)), np.zeros(0)),
        LabeledSample(np.full((5, 3), np.nan), np.full(5, np.nan)),
        LabeledSample([[1, 0, 1]] * 4, [0, 1, 0, 1]),
    )
    bad_containers = (None, [[1, 0, 1]], ([[1, 0, 1]], [1]), 3)
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"dimension": 0},
        {"dimension": 2.0},
        {"epsilon": 0},
        {"epsilon": "nan"},
        {"epsilon": None},
        {"sampling_rate": "0.5"},
        {"epsilon": None, "sampling_rate": 1},
        {"fail_probability": 0},
        {"fail_probability": 1},
    )


class TestOnce(Parities):
    learner = PrivateParityLearner


class TestBasic(Parities):
    learner = RepeatedParity
    given: ClassVar[Mapping[str, object]] = {"mode": "basic", "runs": 4}
    bad_parameters = (
        *Parities.bad_parameters,
        {"runs": 0},
        {"runs": None},
        {"stop_probability": "0.1"},
        {"max_runs": 3},
    )


class TestFirstSuccess(Parities):
    learner = RepeatedParity
    given: ClassVar[Mapping[str, object]] = {"mode": "first_success", "runs": 4}
    bad_parameters = (*Parities.bad_parameters, {"runs": None}, {"stop_probability": "0.1"}, {"mode": "last"})


class TestUntilSuccess(Parities):
    learner = RepeatedParity
    given: ClassVar[Mapping[str, object]] = {"stop_probability": "0.1"}
    bad_parameters = (
        *Parities.bad_parameters,
        {"stop_probability": None},
        {"stop_probability": 1},
        {"runs": 3},
        {"max_runs": 3},
    )


class TestCapped(Parities):
    learner = RepeatedParity
    given: ClassVar[Mapping[str, object]] = {"stop_probability": "0.1", "max_runs": 200}


# ---- what is drawn --------------------------------------------------------------------------------------------------


PUBLISHED = {
    TWO: [0.1171875, 0.1953125, 0.0703125, 0.1171875, 0.5],
    THREE: [0.146484375, 0.146484375, 0.052734375, 0.146484375, 0.5078125],
}


def test_the_exact_law_is_the_published_one() -> None:
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    for rows, law in PUBLISHED.items():
        assert [float(p) for p in oracle.one_run(rows, 2, quarter, half)] == law
    again = oracle.until_success(oracle.one_run(THREE, 2, quarter, half), Fraction("0.05"))
    known = [0.283018867925, 0.283018867925, 0.101886792453, 0.283018867925, 0.049056603774]
    assert [float(p) for p in again] == pytest.approx(known, abs=1e-12)


def counted(places: Any) -> dict[int, int]:
    """How often each parity came, by its place; FAIL is the fifth."""
    found, counts = np.unique(np.where(np.equal(places, -1), 4, places), return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def place(value: Any) -> int:
    return -1 if value is FAIL else int(value.place)


RATE: dict[str, Any] = {"dimension": 2, "sampling_rate": "0.25"}
LAWS: dict[str, tuple[Any, Any]] = {
    "once": (PrivateParityLearner(**RATE), lambda law: law),
    "basic": (RepeatedParity(**RATE, mode="basic", runs=3), lambda law: oracle.first_success(law, 3)),
    "first_success": (RepeatedParity(**RATE, mode="first_success", runs=3), lambda law: oracle.first_success(law, 3)),
    "until_success": (
        RepeatedParity(**RATE, stop_probability="0.05"),
        lambda law: oracle.until_success(law, Fraction("0.05")),
    ),
    "capped": (
        RepeatedParity(**RATE, stop_probability="0.6", max_runs=2),
        lambda law: oracle.capped(law, Fraction("0.6"), 2),
    ),
}


@pytest.mark.parametrize("rows", [TWO, THREE, ()], ids=["two", "three", "none"])
@pytest.mark.parametrize("name", LAWS)
def test_what_is_sampled_has_the_exact_law(name: str, rows: oracle.Rows) -> None:
    learner, repeated = LAWS[name]
    law = dict(enumerate(map(float, repeated(oracle.one_run(rows, 2, Fraction(1, 4), Fraction(1, 2))))))
    size = 200_000
    found = counted(learner.sample(sample_of(rows), size, seeded(3)))
    assert events_p_value(found, size, law) > SIGNIFICANCE
    wrong = {**law, 0: law[4], 4: law[0]}
    assert events_p_value(found, size, wrong) < SIGNIFICANCE


@pytest.mark.parametrize("name", LAWS)
def test_what_is_released_has_the_exact_law(name: str) -> None:
    learner, repeated = LAWS[name]
    law = dict(enumerate(map(float, repeated(oracle.one_run(THREE, 2, Fraction(1, 4), Fraction(1, 2))))))
    entropy, size = seeded(4), 2000
    found = counted([place(learner.release(sample_of(THREE), entropy=entropy).value) for _ in range(size)])
    assert events_p_value(found, size, law) > SIGNIFICANCE


def test_a_sample_of_wide_rows_has_their_law_too() -> None:
    """Sixty-four unknowns do not fit a word with the right side; all but one are fixed."""
    rows = LabeledSample(np.eye(64, dtype=np.uint8)[:63].repeat(40, axis=0), [0] * 63 * 40)
    learner = PrivateParityLearner(dimension=64, sampling_rate="0.5")
    found = learner.sample(rows, 200, seeded(5)).tolist()
    assert set(found) == {-1, 0, 2**63}
    counts = {event: found.count(name) for event, name in enumerate((-1, 0, 2**63))}
    assert events_p_value(counts, 200, {0: 0.5, 1: 0.25, 2: 0.25}) > SIGNIFICANCE


def test_only_coins_are_tossed_and_all_are_in_the_log() -> None:
    learner = PrivateParityLearner(dimension=3, sampling_rate="0.25")
    logs = []
    for labels in (ROWS.y, [0] * 40):
        with recording() as draws:
            learner.release(LabeledSample(ROWS.x, labels), entropy=seeded(6))
        assert {type(draw.law) for draw in draws} == {Bernoulli}
        logs.append([(draw.value, draw.shape) for draw in draws])
    assert logs[0] == logs[1] == [(Fraction(1, 2), ()), (Fraction(1, 4), (40,)), (Fraction(1, 2), (3,))]


def test_rows_are_bits_or_numbers_and_the_null_record_is_no_equation() -> None:
    numbers = LabeledSample([5, 6, 7, 1] * 10, [1, 0, 1, 1] * 10)
    with_null = LabeledSample([*ROWS.x, [math.nan, 0, 1]], [*ROWS.y, 1])  # type: ignore[misc]
    with_zero = LabeledSample([*ROWS.x, [0, 0, 0]], [*ROWS.y, 0])  # type: ignore[misc]
    learner = PrivateParityLearner(dimension=3, epsilon=1)

    def found(data: LabeledSample) -> list[object]:
        return list(learner.sample(data, 50, seeded(7)))

    assert found(numbers) == found(ROWS)
    assert found(with_null) == found(with_zero)


def test_it_learns() -> None:
    """The published size for twenty bits at epsilon 1, alpha 0.1 and beta 0.05: 564 examples."""
    rng = np.random.default_rng(8)
    learner = RepeatedParity(dimension=20, epsilon=1, stop_probability="0.0256").under(Relation.REPLACE_ONE, PATIENT)
    failed = 0
    for seed in range(60):
        x, hidden = rng.integers(0, 2, (564, 20), dtype=np.uint8), rng.integers(0, 2, 20, dtype=np.uint8)
        found = learner.release(LabeledSample(x, x.astype(int) @ hidden % 2), entropy=seeded(9, seed)).value
        right = np.array([sum(int(b) << j for j, b in enumerate(hidden))])
        failed += found is FAIL or found.place != right[0]
    assert failed <= 9  # of Bin(60, 0.05) more come with probability 0.0007


# ---- what it costs --------------------------------------------------------------------------------------------------


def test_the_rate_follows_from_epsilon_relation_and_unit() -> None:
    learner = PrivateParityLearner(dimension=4, epsilon=1)
    replaced, added = (learner.under(relation, PATIENT) for relation in (Relation.REPLACE_ONE, Relation.ADD_REMOVE))
    assert float(replaced.parameters()["sampling_rate"]) == pytest.approx(math.tanh(0.5), rel=1e-11)  # type: ignore[arg-type]
    assert float(added.parameters()["sampling_rate"]) == pytest.approx(-math.expm1(-1), rel=1e-11)  # type: ignore[arg-type]
    household = learner.under(Relation.REPLACE_ONE, Unit("household", max_contributions=4))
    assert float(household.parameters()["sampling_rate"]) == pytest.approx(math.tanh(0.125), rel=1e-11)  # type: ignore[arg-type]
    for placed in (replaced, added, household):
        assert Decimal("0.9999999999") < placed.claim().epsilon <= 1


def test_a_unit_of_several_rows_loses_no_more_than_is_said() -> None:
    learner = PrivateParityLearner(dimension=1, sampling_rate="0.25").under(
        Relation.REPLACE_ONE, Unit("pair", max_contributions=2)
    )
    twice = 2 * one_run(Decimal("0.25"), HALF, Relation.REPLACE_ONE)
    assert twice <= learner.claim().epsilon <= twice * Decimal("1.00000000001")
    rows = [(x, y) for x in (0, 1) for y in (0, 1)]
    pairs = [(a, b) for a in rows for b in rows] + [(a,) for a in rows] + [()]
    laws = [oracle.one_run(pair, 1, Fraction(1, 4), Fraction(1, 2)) for pair in pairs]
    losses = [oracle.largest_loss(left, right) for left in laws for right in laws]
    assert max(math.log(loss) for loss in losses if loss is not None) <= float(learner.claim().epsilon)


def test_claims_and_parts_of_each_mode() -> None:
    basic = RepeatedParity(dimension=2, sampling_rate="0.25", mode="basic", runs=6)
    one = one_run(Decimal("0.25"), HALF, Relation.REPLACE_ONE)
    assert basic.parts() == Repeated(PureDP(one), times=6)
    assert basic.claim() == PureDP(6 * one)
    capped = RepeatedParity(dimension=2, sampling_rate="0.25", stop_probability="0.1", max_runs=200)
    assert isinstance(capped.claim(), ApproxDP)
    assert capped.parts() == capped.claim()
    with pytest.raises(ParameterError, match="max_runs"):
        RepeatedParity(dimension=2, sampling_rate="0.25", stop_probability="0.1", max_runs=7)
    with pytest.raises(ParameterError, match="runs: "):
        RepeatedParity(dimension=2, sampling_rate="0.25", mode="basic", runs=10**12 + 1)


@pytest.mark.parametrize("name", LAWS)
def test_a_release_in_a_ledger_charges_the_claim_whatever_was_answered(name: str) -> None:
    ledger = dpl.Ledger.in_memory()
    scope = ledger.scope("parities", unit="record", relation="replace_one", budget=dpl.ApproxDP(9, "1e-6"))
    learner = LAWS[name][0] if name != "capped" else RepeatedParity(**RATE, stop_probability="0.3", max_runs=60)
    receipts = [scope.release(learner, sample_of(THREE)) for _ in range(2)]
    for receipt in receipts:
        body = receipt.entry.body
        assert isinstance(body, Committed)
        assert body.parts == learner.parts()
        assert receipt.value is FAIL or receipt.value.place < 4


@pytest.mark.parametrize("dimension", [100, 129, 20_000])
def test_a_parity_of_many_bits_has_a_text(dimension: int) -> None:
    """However long it is: one whose text could not be written would be lost with what was paid for it."""
    learner = RepeatedParity(dimension=dimension, epsilon=1, stop_probability="0.001").under(
        Relation.REPLACE_ONE, Unit()
    )
    found = learner.release(LabeledSample([[1] * dimension], [1]), entropy=seeded(1)).value
    assert isinstance(found, Concept)
    assert int(str(found.params["place"]), 0) == found.place
    assert str(found.params["place"]) in repr(found)
