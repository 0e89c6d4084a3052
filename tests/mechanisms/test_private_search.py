"""Searches: their law by enumeration, what they cost, what they refuse, and a faulty one that loses more."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dpledger as dpl
from dpledger.accounting.composition import Parallel, Selected
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.trials import NegativeBinomialTrials
from dpledger.attach.sklearn import LearnerClassifier
from dpledger.decimals import round_up
from dpledger.errors import ContractViolation, ParameterError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import Entropy, seeded
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.noise import RandomizedAnswer, respond
from dpledger.mechanisms.selection import RandomizedResponse
from dpledger.mechanisms.selection.search import PrivateSearch, Searched
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from selection_oracle import Law, negative_binomial

pytestmark = pytest.mark.sliced

Outcome = tuple[int, int, int]
Positions = npt.NDArray[np.int64]
EACH = math.log(2)
ANSWERS = RandomizedResponse(answers=("0", "1"), epsilon="0.69314718056")
FAR = 40  # of the noise on a count: beyond, 2^-40


# ---- the law of a small search --------------------------------------------------------------------------------------


def searched(bits: tuple[int, ...], *, on_all: bool = False) -> Searched:
    """Two candidates: whether some bit is 1, or its opposite; by randomised response of odds 2 to 1. `on_all`: trained
    on the units held out too."""

    def train(place: int, positions: Positions, entropy: Entropy) -> tuple[int]:
        seen = bits if on_all else [bits[position] for position in positions.tolist()]
        bit = int(any(seen)) ^ place
        return (int(respond(RandomizedAnswer(ANSWERS.epsilon, k=2), np.array([bit]), entropy=entropy)[0]),)

    def wrong(model: int, positions: Positions) -> npt.NDArray[np.bool_]:
        return np.array([bits[position] != model for position in positions.tolist()], dtype=np.bool_)

    return Searched(data=list(bits), train=train, wrong=wrong)


def law(bits: tuple[int, ...], trials: Law, *, on_all: bool = False) -> dict[Outcome, float]:
    """P(place, model, count), by every way to deal, candidate, model and noise."""
    total: dict[Outcome, float] = {}
    for dealt in itertools.product((False, True), repeat=len(bits)):
        one: dict[Outcome, float] = {}
        for place, model in itertools.product((0, 1), repeat=2):
            seen = [bit for bit, out in zip(bits, dealt, strict=True) if on_all or not out]
            said = (2 if model == int(any(seen)) ^ place else 1) / 3
            wrong = sum(bit != model for bit, out in zip(bits, dealt, strict=True) if out)
            for noise in range(-FAR, FAR + 1):
                one[place, model, wrong + noise] = 0.5 * said * 2.0 ** -abs(noise) / 3
        for outcome, chance in best(one, trials).items():
            total[outcome] = total.get(outcome, 0.0) + chance / 2 ** len(bits)
    return total


def best(one: dict[Outcome, float], trials: Law) -> dict[Outcome, float]:
    """Of the fewest wrong, the first."""
    counts: dict[int, float] = {}
    for (_, _, count), chance in one.items():
        counts[count] = counts.get(count, 0.0) + chance
    above, found = 0.0, dict[int, float]()
    for count in sorted(counts, reverse=True):
        up_to = above + counts[count]
        found[count] = sum(weight * (up_to**k - above**k) for k, weight in enumerate(trials))
        above = up_to
    return {outcome: found[outcome[2]] * chance / counts[outcome[2]] for outcome, chance in one.items()}


def search(repeats: NegativeBinomialTrials) -> PrivateSearch:
    return PrivateSearch(
        candidates=2, training=ANSWERS, epsilon=ANSWERS.epsilon, repeats=repeats, held_out="0.5"
    ).under(Relation.REPLACE_ONE, Unit("record"))


GEOMETRIC = NegativeBinomialTrials(eta=1, gamma="0.25")
ONCE = NegativeBinomialTrials(eta="-0.99", gamma="0.9", most=1)


@pytest.mark.slow
def test_it_publishes_by_its_law() -> None:
    bits, runs, entropy = (1, 0, 0), 3_000, seeded(5)
    mechanism, data = search(GEOMETRIC), searched((1, 0, 0))
    values = (mechanism.release(data, entropy=entropy).value for _ in range(runs))
    found: Any = Counter((value.place, value.model, value.wrong) for value in values if value is not None)
    true = law(bits, negative_binomial(1, 0.25, 200))
    assert math.fsum(true.values()) == pytest.approx(1)
    often: Any = {outcome: chance for outcome, chance in true.items() if chance > 0.001}
    assert events_p_value(found, runs, often) > SIGNIFICANCE
    twin: Any = {(place, model, wrong + 1): chance for (place, model, wrong), chance in often.items()}
    assert events_p_value(found, runs, twin) < SIGNIFICANCE


@pytest.mark.parametrize(("repeats", "trials"), [(GEOMETRIC, negative_binomial(1, 0.25, 200)), (ONCE, (0.0, 1.0))])
def test_no_neighbours_lose_more_than_the_claim(repeats: NegativeBinomialTrials, trials: Law) -> None:
    claim = search(repeats).claim()
    assert isinstance(claim, PureDP)
    assert worst(trials, on_all=False) <= float(claim.epsilon) + 1e-9


def test_a_search_that_trains_on_what_it_holds_out_loses_more() -> None:
    claim = search(ONCE).claim()
    assert isinstance(claim, PureDP)
    assert worst((0.0, 1.0), on_all=True) > 1.2 * float(claim.epsilon)


def worst(trials: Law, *, on_all: bool) -> float:
    """The largest loss of all pairs of three bits of which one differs."""
    losses = []
    for bits in itertools.product((0, 1), repeat=3):
        other = (1 - bits[0], *bits[1:])
        left, right = law(bits, trials, on_all=on_all), law(other, trials, on_all=on_all)
        near = [outcome for outcome in left if abs(outcome[2]) < FAR - 6]
        losses += [abs(math.log(left[outcome] / right[outcome])) for outcome in near]
    return max(losses)


# ---- the function ---------------------------------------------------------------------------------------------------

BINS = Binning({0: [20, 40, 60]}, source="decades")
COARSE = Binning({0: [20]}, source="children")
AGES = np.arange(600.0).reshape(-1, 1) % 100
OLD = np.where(AGES[:, 0] >= 60, "old", "young")
PLAN = dpl.DPSGD(rate="0.2", steps=5, noise_multiplier=2, clip_norm=1, dimension=2, expected_batch_size=10)


def scope_of(budget: Any, unit: Any = "record") -> Scope:
    return Ledger.in_memory().scope("people", unit=unit, relation="add_remove", budget=budget)


def models(scope: Scope, *epsilons: int) -> list[LearnerClassifier]:
    return [
        LearnerClassifier(ExponentialPPACLearner(StumpClass(bins), epsilon), bins, ("young", "old"), scope)
        for bins, epsilon in zip((COARSE, BINS), epsilons, strict=True)
    ]


def test_the_better_estimator_is_found_at_three_times_the_price_of_one() -> None:
    """Nearly always: one trial in twenty searches is the only one, and is of the other half the time."""
    scope = scope_of(PureDP(1000))
    candidates = models(scope, 8, 8)
    searches = [dpl.private_search(scope, candidates, (AGES, OLD), trials=20, epsilon=1).value for _ in range(15)]
    found = [one for one in searches if one is not None and one.place == 1]
    assert len(found) >= 8
    assert all(one.model.predict([[70], [30]]).tolist() == ["old", "young"] for one in found)
    one = candidates[0].learner.under(scope.relation, scope.unit).claim()
    assert scope.spent(0).upper == pytest.approx(15 * 3 * float(one.eta))


def test_what_promises_the_same_may_differ_in_all_else() -> None:
    """Steps of a logistic regression, whose parts cost not quite the same; rounds of boosting."""
    book = Ledger.in_memory()
    scope = book.scope("people", unit="record", relation="add_remove", budget=dpl.ApproxDP(60, "1e-6"))

    def of(learner: Any) -> LearnerClassifier:
        return LearnerClassifier(learner, BINS, ("young", "old"), scope)

    steps = [of(dpl.learning.PrivateLogisticLearner(BINS, rho="0.5", steps=count)) for count in (3, 10, 30)]
    rounds = [of(dpl.learning.PrivateStumpBooster(BINS, epsilon=1, rounds=count)) for count in (1, 3)]
    for candidates in (steps, rounds):
        found = dpl.private_search(scope, candidates, (AGES, OLD), trials=5, epsilon=1).value
        assert found is not None
        assert found.place in range(len(candidates))
    charged: list[Any] = [entry.body for entry in book.entries() if isinstance(entry.body, Reserved)]
    assert [one.parts.of.of[0].kind for one in charged] == ["zcdp", "pure_dp"]
    book.verify()


def test_units_of_many_rows_are_dealt_and_counted_whole() -> None:
    scope = scope_of(PureDP(1000), Unit("person", max_contributions=3))
    found = dpl.private_search(
        scope, models(scope, 8, 8), (AGES, OLD), trials=10, epsilon=1, units=np.arange(600) // 3
    ).value
    assert found is not None
    assert abs(found.wrong) < 60


def _geometric(mean: int) -> NegativeBinomialTrials:
    return NegativeBinomialTrials(eta=1, gamma=round_up(Fraction(1, mean)))


def train(pace: float, step: Any) -> npt.NDArray[np.float64]:
    weights = np.zeros(2)
    for _ in range(5):
        weights = weights - pace * step(functools.partial(np.subtract, weights))
    return weights


def far(weights: npt.NDArray[np.float64], row: npt.NDArray[np.float64]) -> bool:
    return bool(np.abs(weights - row).max() > 0.6)


def test_trainings_of_ones_own_cost_what_the_best_of_so_many_plans_costs() -> None:
    scope = scope_of(dpl.ApproxDP(60, "1e-6"))
    found = dpl.private_search(
        scope, [0.001, 0.5], np.ones((400, 2)), trials=6, epsilon="0.1", training=PLAN, train=train, wrong=far,
        example_rows=np.zeros((1, 2)),
    )  # fmt: skip
    assert found.value is not None
    assert found.value.model.shape == (2,)
    parts = PrivateSearch(candidates=2, training=PLAN, epsilon="0.1", repeats=_geometric(6)).parts()
    assert scope.spent("1e-6").upper < 1.1 * dpl.compose(parts).epsilon("5e-7").upper


def test_the_parts_are_the_best_of_the_larger_of_training_and_count() -> None:
    parts = PrivateSearch(candidates=2, training=PLAN, epsilon="0.1", repeats=GEOMETRIC).parts()
    assert isinstance(parts, Selected)
    assert isinstance(parts.of, Parallel)
    whole = dpl.compose(parts).epsilon("1e-6").upper
    alone = dpl.compose(Selected(PLAN.parts(), repeats=GEOMETRIC)).epsilon("1e-6").upper
    assert whole == pytest.approx(alone, rel=1e-6)


def test_what_cannot_be_searched_is_refused_and_nothing_is_spent() -> None:
    scope, rows = scope_of(dpl.ApproxDP(60, "1e-6")), np.ones((40, 2))
    functions = {"training": PLAN, "train": train, "wrong": far}

    def asked(candidates: Any = (0.1,), data: Any = rows, **changes: Any) -> None:
        dpl.private_search(scope, candidates, data, **{"trials": 5, "epsilon": 1, **functions, **changes})

    nothing: dict[str, Any] = dict.fromkeys(functions)
    refused: list[tuple[str, Callable[[], None]]] = [
        ("candidates", lambda: asked(())),
        ("candidates", lambda: asked(models(scope, 8, 4), (AGES, OLD), **nothing)),
        ("training", lambda: asked(models(scope, 8, 8), (AGES, OLD))),
        ("scope", lambda: asked(models(scope_of(PureDP(1)), 8, 8), (AGES, OLD), **nothing)),
        ("data", lambda: asked(models(scope, 8, 8), AGES, **nothing)),
        ("training", lambda: asked(training=None)),
        ("train", lambda: asked(train=None)),
        ("wrong", lambda: asked(wrong=None)),
        ("train", lambda: asked(train=lambda pace, step: step(lambda batch: batch.nothing))),
        ("wrong", lambda: asked(wrong=lambda model, row: row.nothing, example_rows=rows)),
        ("trials", lambda: asked(trials=1)),
    ]
    for field, call in refused:
        with pytest.raises(ParameterError, match=field):
            call()
    assert scope.spent("1e-6").upper == 0


def in_three_steps(scope: Any, rows: list[Any], train: Callable[[float, Any], Any]) -> Any:
    plan = dpl.DPSGD(rate=1, steps=3, noise_multiplier=8, clip_norm=1, dimension=1, expected_batch_size=10)
    return dpl.private_search(
        scope, [0.01, 0.1], rows, trials=4, epsilon="0.1", training=plan, train=train, wrong=lambda w, row: True
    )


def own_gradients(batch: list[Any]) -> npt.NDArray[np.float64]:
    return np.array([[float(row)] for row in batch]).reshape(-1, 1)  # "?" is no number


def told(pace: float, step: Any) -> float:
    return pace * sum(float(step(own_gradients)[0]) for _ in range(3))


def swallowed(pace: float, step: Any) -> float:
    with suppress(ContractViolation):
        told(pace, step)
    return pace


@pytest.mark.parametrize("train", [told, swallowed])
def test_gradients_that_fail_of_one_record_leave_the_guarantee(train: Callable[[float, Any], float]) -> None:
    """Nothing is published where that record is; also where the training goes on as if nothing had happened."""
    for rows, outside in (([1.0] * 50, False), ([1.0] * 50 + ["?"], True)):
        scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=dpl.ApproxDP(50, "1e-6"))
        receipts = [in_three_steps(scope, rows, train) for _ in range(4)]
        assert any(receipt.entry.body.outside_guarantee for receipt in receipts) is outside
        assert all(receipt.value is None for receipt in receipts if receipt.entry.body.outside_guarantee)


def test_a_training_that_fails_of_what_it_was_handed_is_never_chosen() -> None:
    def fails(pace: float, step: Any) -> float:
        return 1 / (pace - 0.1) if step(own_gradients).size else 0.0

    scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=dpl.ApproxDP(50, "1e-6"))
    receipts = [in_three_steps(scope, [1.0] * 50, fails) for _ in range(6)]
    assert not any(receipt.entry.body.outside_guarantee for receipt in receipts)
    assert {receipt.value.place for receipt in receipts if receipt.value is not None} == {0}


def test_of_a_unit_that_cannot_be_judged_the_model_is_wrong() -> None:
    scope = scope_of(dpl.ApproxDP(60, "1e-6"))
    found = dpl.private_search(
        scope, [0.5], np.ones((500, 2)), trials=2, epsilon=5, training=PLAN, train=train, held_out="0.5",
        wrong=lambda model, row: bool(row.nothing),
    ).value  # fmt: skip
    assert found is not None
    assert found.wrong > 150
