"""Votes that are free where far, else paid for: exact laws, prices, ledgers, and a paid answer without noise."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence as Several
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import DiscreteGaussianLaw, Repeated, Sequence, SparseVectorLaw
from dpledger.accounting.guarantees import ZCDP
from dpledger.accounting.profile import compose
from dpledger.errors import BudgetRefused, Halted, ParameterError, RelationError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.votes import winners
from dpledger.mechanisms.stability.hybrid_votes import HybridCounts, HybridVotes
from dpledger.mechanisms.stability.labels.learner import LabelPrivateLearner, Lesson
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.stability.noisy import HYBRID, law_of
from judged_cases import judged
from mechanism_conformance import MechanismConformance
from sparse_vector_oracle import Law, Noise
from voting_models import speaking, spread

pytestmark = [
    pytest.mark.sliced,
    pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise"),
]
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RECORD = Unit("record")
EVERYBODY = {relation: spread(61) for relation in Relation} | {ADD: spread(61, "random", unsafe_entropy=seeded(1))}


def far(epsilon: Any = 8, delta: Any = "1e-4", chunks: int = 61, cutoff: int | None = 2, **given: Any) -> Any:
    return PrivateClassifier(epsilon, delta, chunks, cutoff=cutoff, **given)


class TestHybridVotes(MechanismConformance):
    relations = tuple(Relation)
    bad_parameters = (
        {"sigma": 0},
        {"sigma": None},
        {"sigma": "nan"},
        {"of": None},
        {"of": dpl.stability.NoisyVotes(sigma=1, chunks=61, max_queries=1)},
    )
    bad_containers: ClassVar[tuple[object, ...]] = (None, [1, 2], spread(5), spread(61, classes=3))

    def make(self, **changes: Any) -> Any:
        return HybridVotes(**{"of": far(), "sigma": 9, **changes})

    def data_of(self, mechanism: Any) -> object:
        return EVERYBODY[mechanism.relation]

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        answers = (run.ask(60.0), *run.ask_many([2.0, 55.0, 60.0, 61.0, 31.0, 30.0, 30.0]))
        release: Release[Any] = run.close()
        return replace(release, value=(answers, release.value))


# ---- the law --------------------------------------------------------------------------------------------------------

Transcript = tuple[tuple[bool, int], ...]  # whether it was free, and the class


def law_of_run(
    law: SparseVectorLaw, sigma: float, counts: Several[tuple[int, ...]], votes: Any
) -> dict[Transcript, float]:
    """The exact law of what is published: tests by quadrature, paid answers by enumeration of their noise."""
    found = winners(votes, len(counts[0]))
    oracle = Law(
        Noise(float(law.threshold_scale)),
        Noise(float(law.query_scale)),
        float(law.stable_at or 0),
        law.cutoff,
        refreshed=law.mode not in ("single_threshold", "target_charging"),
    )
    paid = [law_of(row, sigma) for row in counts]
    published: dict[Transcript, float] = defaultdict(float)
    for pattern, chance in oracle.distribution(found.distances.tolist()).items():
        sides = [
            [(True, int(value))] if bit == "1" else [(False, one) for one in maximum]
            for bit, value, maximum in zip(pattern, found.values, paid, strict=False)
        ]
        for answers in itertools.product(*sides):
            weights = (1.0 if free else paid[place][one] for place, (free, one) in enumerate(answers))
            published[answers] += chance * math.prod(weights)
    return published


def table_of(counts: Several[tuple[int, ...]], models: int) -> Any:
    """Votes with these counts: a row a model, a column a query; the rest abstain."""
    columns = [[one for one, many in enumerate(row) for _ in range(many)] for row in counts]
    return np.array([[*column, *[-1] * (models - len(column))] for column in columns]).T


@pytest.mark.parametrize("case", [("basic", 1, 11), ("kov", 2, 25), ("target_charging", 2, 15)], ids=str)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_no_neighbours_lose_more_than_the_profile_of_its_parts(case: tuple[Any, int, int], data: st.DataObject) -> None:
    """Three queries, two classes, and one model that changes its votes on all of them."""
    mode, cutoff, k = case
    mechanism = HybridVotes(far("1.5", "0.2", k, cutoff, mode=mode), sigma=1)
    parts: Any = mechanism.under(REPLACE, RECORD).parts()
    profile = compose(parts, relation=REPLACE)
    left = [(ones := data.draw(st.integers(0, k)), k - ones) for _ in range(3)]
    right = []
    for first, second in left:
        moves = [(0, 0), *([(-1, 1)] if first else []), *([(1, -1)] if second else [])]
        up, down = data.draw(st.sampled_from(moves))
        right.append((first + up, second + down))
    laws = [law_of_run(parts.of[0], 1.0, counts, table_of(counts, k)) for counts in (left, right)]
    for law in laws:
        assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)
    for epsilon in (0.0, 1.0, 2.0):
        most = profile.delta(epsilon).upper
        for one, other in (laws, laws[::-1]):
            lost = math.fsum(max(0.0, p - math.exp(epsilon) * other.get(key, 0.0)) for key, p in one.items())
            assert lost <= most + 1e-9


def test_runs_have_that_law() -> None:
    counts = [(11, 0), (8, 3), (4, 7)]
    mechanism = HybridVotes(far(2, "0.2", 11, 1, mode="basic"), sigma=2).under(REPLACE, RECORD)
    parts: Any = mechanism.parts()
    expected = law_of_run(parts.of[0], 2.0, counts, table_of(counts, 11))
    ensemble, seen, entropy = speaking(table_of(counts, 11).tolist(), 2), Counter[Transcript](), seeded(5)
    for _ in range(1500):
        run = mechanism.open(ensemble, entropy=entropy)
        answers = run.ask_many([0.0, 1.0, 2.0])
        paid = run.close().value.paid
        seen[tuple((place < len(answers) - paid, one) for place, one in enumerate(answers))] += 1
    codes = {answers: code for code, answers in enumerate(expected)}
    found = Counter({codes[answers]: times for answers, times in seen.items()})
    assert events_p_value(found, 1500, {codes[key]: chance for key, chance in expected.items()}) > SIGNIFICANCE
    other = law_of_run(parts.of[0], 2.0, counts[::-1], table_of(counts[::-1], 11))
    assert events_p_value(found, 1500, {codes[key]: other.get(key, 0.0) for key in codes}) < SIGNIFICANCE


# ---- prices ---------------------------------------------------------------------------------------------------------


def test_what_it_costs() -> None:
    mechanism = HybridVotes(far(1, "1e-6", 4000, 10), sigma=40)
    parts = mechanism.parts()
    assert isinstance(parts, Sequence)
    tests, maxima = parts.of
    assert isinstance(tests, SparseVectorLaw)
    assert maxima == Repeated(Repeated(DiscreteGaussianLaw(40, 1), times=2), times=10)
    claim = mechanism.claim()
    assert claim.delta == Decimal("0.000001")
    assert claim.rho <= Decimal("0.5") + Decimal(10) / 1600
    with pytest.raises(ParameterError, match="cutoff"):
        HybridVotes(far(8, "1e-4", 4000, None, mode="gaussian", max_queries=9), sigma=1)


def test_two_chunks_that_may_change_are_refused() -> None:
    hashed = HybridVotes(far(chunker=Hashed("salt")), sigma=40)
    assert hashed.under(ADD, RECORD).claim() == hashed.claim()
    with pytest.raises(RelationError, match="two chunks"):
        hashed.under(REPLACE, RECORD)


class TestInALedger:
    def test_it_is_reserved_whole_and_nothing_comes_back(self) -> None:
        ledger = Ledger.in_memory()
        scope = ledger.scope("rows", unit="record", relation="replace_one", budget=dpl.ApproxDP(200, "1e-3"))
        mechanism = HybridVotes(far(50, "1e-6", 101, 4, mode="basic"), sigma=20)
        with scope.open(mechanism, spread()) as run:
            reserved = Decimal(scope.account().left_by_account["mixed"])
            answers = run.ask_many([100.0, 1.0, 50.5, 99.0])
        assert len(answers) == 4
        assert (answers[0], answers[1], answers[3]) == (1, 0, 1)
        assert run.receipt.value == HybridCounts(asked=4, free=3, paid=1, halted=False)
        left = Decimal(scope.account().left_by_account["mixed"])
        assert left == reserved < 150, "tests and maxima have one price in common, an account of squares"
        ledger.verify()

    def test_a_budget_without_room_for_the_maxima_refuses_it(self) -> None:
        ledger = Ledger.in_memory()
        tests = far(1, "1e-6", 4000, 10)
        rho = HybridVotes(tests, sigma=20).claim().rho
        scope = ledger.scope("rows", unit="record", relation="replace_one", budget=ZCDP(rho - Decimal("0.01"), "1e-5"))
        with pytest.raises(BudgetRefused), scope.open(HybridVotes(tests, sigma=20), spread(4000)):
            pass

    def test_it_halts_with_its_last_paid_answer(self) -> None:
        run = HybridVotes(far(50, "1e-6", 101, 2), sigma=2).under(REPLACE, RECORD).open(spread(), entropy=seeded(1))
        assert len(run.ask_many([50.5] * 9)) == 2
        assert run.halted
        with pytest.raises(Halted):
            run.ask(1.0)

    def test_it_labels_rows_for_a_student(self) -> None:
        teacher = LabelPrivateLearner(HybridVotes(far(50, "1e-6", 101, 3), sigma=2)).under(REPLACE, RECORD)
        student = teacher.release(Lesson(spread(), [100.0, 1.0, 60.0, 99.0, 61.0]), entropy=seeded(1)).value
        assert student.answered.all()
        assert student.labels.tolist() == [1, 0, 1, 1, 1]


# ---- faulty ones ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HYBRID)
def test_the_auditor_finds_the_faulty_ones(name: str) -> None:
    case = HOUSE[name]
    result = judged(name, trials=case.runs)
    assert result.epsilon_lower <= case.true_epsilon
