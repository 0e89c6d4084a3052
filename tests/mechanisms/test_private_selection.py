"""The best of a secret number of trials: its law by counting, how it behaves, faulty ones that the auditor finds."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Selected
from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.errors import BudgetRefused, CannotCertify, ContractViolation, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import Entropy, seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.numeric import Gaussian, Geometric, Laplace
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection import ExponentialMechanism, PrivateSelection
from dpledger.mechanisms.selection.trial_counts import drawn_trials
from dpledger.mechanisms.stability.stable_release import StableRelease
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.selection import SELECTED
from judged_cases import judged
from mechanism_conformance import MechanismConformance
from selection_oracle import Law, best_of, negative_binomial, poisson

pytestmark = pytest.mark.sliced

NAN = float("nan")
GEOMETRIC = NegativeBinomialTrials(eta=1, gamma="0.2")
CHOICE = ExponentialMechanism(candidates=3, epsilon=2, sensitivity=1)
SCORES = (2, 1, 0)
LAWS: list[tuple[Trials, Law]] = [
    (GEOMETRIC, negative_binomial(1, 0.2, 400)),
    (NegativeBinomialTrials(eta=0, gamma="0.1"), negative_binomial(0, 0.1, 700)),
    (NegativeBinomialTrials(eta="-0.5", gamma="0.1", most=8), negative_binomial(-0.5, 0.1, 8)),
    (NegativeBinomialTrials(eta="0.5", gamma="0.2"), negative_binomial(0.5, 0.2, 400)),
    (PoissonTrials(mean="2.5"), poisson(2.5, 60)),
    (PoissonTrials(mean=2, most=3), poisson(2, 3)),
]


def negated(output: float) -> float:
    return -output


class TestPrivateSelection(MechanismConformance):
    relations = tuple(Relation)
    good_data: ClassVar[object] = (1, 2.5, 0)
    bad_data: ClassVar[tuple[object, ...]] = ([NAN, 10**400, None], np.array(["a", "b", "c"]))
    bad_containers: ClassVar[tuple[object, ...]] = (None, 3, [1, 2])
    bad_parameters = (
        {"of": None},
        {"of": ExponentialMechanism},
        {"of": StableRelease(epsilon=1, delta="1e-6")},
        {"repeats": None},
        {"repeats": NegativeBinomialTrials(eta=2, gamma="0.5")},
        {"repeats": NegativeBinomialTrials(eta=1, gamma="0.00001")},
        {"repeats": NegativeBinomialTrials(eta=1, gamma="0.1", most=5)},
        {"best": "longest"},
        {"best": negated},
        {"entry": -1},
        {"entry": "first"},
        {"pad": True},
        {"pad": 1},
    )

    def make(self, **changes: Any) -> PrivateSelection:
        return PrivateSelection(**{"of": CHOICE, "repeats": GEOMETRIC, "best": "smallest", **changes})


def chances(scores: tuple[int, ...]) -> list[float]:
    """The law of one trial, which keeps odds of e^(epsilon/2) a point of score."""
    weights = np.exp(np.array(scores, dtype=np.float64))
    return list((weights / weights.sum()).tolist())


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "trials"), LAWS, ids=[one.kind + str(k) for k, (one, _) in enumerate(LAWS)])
def test_it_publishes_the_best_by_the_law_of_the_best(repeats: Trials, trials: Law) -> None:
    runs, entropy = 4_000, seeded(7)
    mechanism = PrivateSelection(of=CHOICE, repeats=repeats)
    values = (mechanism.release(SCORES, entropy=entropy).value for _ in range(runs))
    found = Counter(3 if value is None else int(value) for value in values)
    law = dict(enumerate(best_of(chances(SCORES), trials)))
    assert events_p_value(found, runs, law) > SIGNIFICANCE
    twin = dict(enumerate(best_of(chances(SCORES), (0.0, *trials))))  # one trial more
    assert events_p_value(found, runs, twin) < SIGNIFICANCE


@pytest.mark.parametrize(("repeats", "trials"), LAWS, ids=[one.kind + str(k) for k, (one, _) in enumerate(LAWS)])
def test_the_number_of_trials_has_its_law(repeats: Trials, trials: Law) -> None:
    runs, entropy = 10_000, seeded(11)
    found = Counter(drawn_trials(repeats, entropy) for _ in range(runs))
    law = {k: weight for k, weight in enumerate(trials[:12]) if k or repeats.kind == "negative_binomial"}
    assert events_p_value(found, runs, law) > SIGNIFICANCE
    twin = {k + 1: weight for k, weight in law.items()}
    assert events_p_value(found, runs, twin) < SIGNIFICANCE


def test_what_it_claims() -> None:
    pure = PrivateSelection(of=Laplace(sensitivity=1, epsilon="0.1"), repeats=GEOMETRIC)
    assert pure.claim() == PureDP("0.3")
    renyi = PrivateSelection(of=Gaussian(sensitivity=1, noise_multiplier=4), repeats=GEOMETRIC)
    assert isinstance(renyi.claim(), RDP)
    assert renyi.parts() == Selected(Gaussian(sensitivity=1, noise_multiplier=4).parts(), repeats=GEOMETRIC)


def test_one_charge_covers_all_trials() -> None:
    book = Ledger.in_memory()
    scope = book.scope("people", unit="record", relation="add_remove", budget=PureDP("0.35"))
    best = PrivateSelection(of=Geometric(sensitivity=1, epsilon="0.1"), repeats=GEOMETRIC)
    receipt = scope.release(best, 12, key="best")
    assert scope.spent(0).upper == pytest.approx(0.3)
    again = scope.release(best, 99, key="best")
    assert again.replayed
    assert again.value == receipt.value
    with pytest.raises(BudgetRefused):
        scope.release(best, 12, key="another")
    assert [entry.body.kind for entry in book.entries()].count("reserved") == 1


def test_a_budget_without_a_delta_says_what_it_lacks() -> None:
    best = PrivateSelection(of=Gaussian(sensitivity=1, noise_multiplier=9), repeats=GEOMETRIC)
    scope = Ledger.in_memory().scope("people", unit="record", relation="add_remove", budget=ZCDP(1))
    with pytest.raises(CannotCertify, match="use a budget with a delta above 0"):
        scope.release(best, 12)


def test_nothing_published_can_be_kept_too() -> None:
    rarely = PrivateSelection(of=Geometric(sensitivity=1, epsilon=1), repeats=PoissonTrials(mean="0.001"))
    scope = Ledger.in_memory().scope("people", unit="record", relation="add_remove", budget=ApproxDP(9, "1e-6"))
    assert scope.release(rarely, 12, key="a").value is None
    assert scope.release(rarely, 12, key="a").replayed


class Failing(Geometric):
    """A trial that breaks where its answer is odd."""

    def release(self, data: Any, *, entropy: Entropy) -> Release[int]:
        ran: Release[int] = super().release(data, entropy=entropy)
        if ran.value % 2:
            raise ContractViolation("the caller's code failed")
        return ran


def test_a_trial_that_fails_is_the_worst_and_leaves_the_guarantee() -> None:
    """One record may be why it fails."""
    entropy = seeded(3)
    failing = PrivateSelection(of=Failing(sensitivity=1, epsilon="0.1"), repeats=GEOMETRIC)
    releases = [failing.release(4, entropy=entropy) for _ in range(200)]
    assert None in [release.value for release in releases]
    assert all(release.value is None or release.value % 2 == 0 for release in releases)
    assert all(release.outside_guarantee for release in releases if release.value is None)


class Split(Geometric):
    """A name and a number beside it, which is no number where the answer is odd."""

    def release(self, data: Any, *, entropy: Entropy) -> Release[Any]:
        value = super().release(data, entropy=entropy).value
        return Release(value=("name", NAN if value % 2 else value), parts=self.parts())


def test_an_output_without_a_number_is_the_worst_and_the_smallest_may_be_the_best() -> None:
    found = {}
    for best in ("largest", "smallest"):
        entropy = seeded(3)
        chosen = PrivateSelection(of=Split(sensitivity=1, epsilon="0.1"), repeats=GEOMETRIC, best=best, entry=1)
        values = [chosen.release(4, entropy=entropy).value[1] for _ in range(300)]
        assert sum(value != value for value in values) < 100  # far fewer than half
        found[best] = float(np.nanmean(values))
    assert found["smallest"] < 0 < 8 < found["largest"]


def test_padding_runs_as_many_trials_whatever_the_number_is() -> None:
    trials = NegativeBinomialTrials(eta=1, gamma="0.2", most=9)
    padded = PrivateSelection(of=Geometric(sensitivity=1, epsilon=1), repeats=trials, pad=True)
    counted = set()
    for seed in range(30):
        with recording() as draws:
            padded.release(4, entropy=seeded(seed))
        counted.add(sum(draw.sensitivity is not None for draw in draws))
    assert counted == {9}


def test_a_relation_and_a_unit_go_to_what_is_selected_from() -> None:
    best = PrivateSelection(of=Geometric(sensitivity=1, epsilon=1), repeats=GEOMETRIC)
    placed = best.under(Relation.REPLACE_ONE, Unit("patient"))
    assert (placed.of.relation, placed.of.unit) == (Relation.REPLACE_ONE, Unit("patient"))
    with pytest.raises(ParameterError, match="sensitivity"):
        best.under(Relation.REPLACE_ONE, Unit("patient", max_contributions=4))


@pytest.mark.parametrize("name", SELECTED)
def test_the_auditor_finds_the_faulty_ones(name: str) -> None:
    case = HOUSE[name]
    assert case.faulty == (name != "selected_geometric")
    result = judged(name, trials=case.runs)
    assert result.epsilon_lower <= case.true_epsilon


def test_the_loss_of_every_case() -> None:
    for case in SELECTED.values():
        mechanism: Any = case.mechanism
        for bit in (0, 1):
            one = 1 / (1 + np.exp(-mechanism.epsilon if bit else mechanism.epsilon))
            mean = mechanism.mean + mechanism.by_data * bit
            law = tuple([0.0] * mean + [1.0]) if mechanism.fixed else negative_binomial(1, 1 / mean, 800)
            assert best_of((1 - one, one), law)[0] == pytest.approx(mechanism.nothing_better(bit), rel=1e-9)
    assert Fraction(1, 3) < SELECTED["selected_geometric"].true_epsilon < 1
