"""Soft labels: bins in whole numbers, two tests at most for each query, and that no small case exceeds the claim."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.guarantees import ApproxDP
from dpledger.errors import Halted, InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteLaplace, recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.answers import UNSTABLE
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.labels.partitions import bins_of, bins_of_width, histograms
from dpledger.mechanisms.stability.labels.soft import SoftLabels
from dpledger.mechanisms.stability.labels.soft_run import SoftCounts, SoftQuery
from dpledger.mechanisms.stability.plans.soft import soft_plan
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from soft_oracle import SoftLaw
from sparse_vector_oracle import Noise
from voting_models import scoring

pytestmark = pytest.mark.sliced

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RECORD = Unit("record")
Floats = npt.NDArray[np.float64]
few_chunks = pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")


def agreeing(models: int, *queries: tuple[int, float, float]) -> Floats:
    """On each query (count, score, other): so many models say the one, the rest the other."""
    columns = [np.where(np.arange(models) < count, one, other) for count, one, other in queries]
    return np.stack(columns, axis=1)


# ---- partitions -----------------------------------------------------------------------------------------------------


def naive(score: float, bins: int) -> tuple[int, int]:
    """The bins of a score, by the definition, in exact fractions."""
    exact, width = Fraction(score), Fraction(1, bins)
    plain = next(j for j in range(bins) if exact < (j + 1) * width or j == bins - 1)
    half, shifted = width / 2, -1
    for j in range(bins - 1):
        low, high = half + j * width, half + (j + 1) * width
        if low <= exact < high or (j == bins - 2 and exact == high):
            shifted = j
    return plain, shifted


near_edges = st.builds(
    lambda edge, bins, steps: float(min(1.0, max(0.0, np.nextafter(edge / (2 * bins), steps)))),
    st.integers(0, 40),
    st.integers(2, 20),
    st.sampled_from([-1.0, 2.0]),
)
scores_from_0_to_1 = st.floats(0, 1) | near_edges | st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.75, 1.0, 5e-324, 2.0**-60])


class TestPartitions:
    @settings(max_examples=500, deadline=None)
    @given(scores_from_0_to_1, st.integers(2, 20))
    def test_the_bins_of_a_float_are_those_of_the_number_that_it_is(self, score: float, bins: int) -> None:
        plain, shifted = bins_of(np.array([[score]]), bins)
        assert (int(plain[0, 0]), int(shifted[0, 0])) == naive(score, bins)

    @pytest.mark.parametrize("bins", [2, 3, 7, 10, 16])
    def test_every_edge_and_its_neighbours(self, bins: int) -> None:
        edges = np.array([j / (2 * bins) for j in range(2 * bins + 1)])
        scores = np.clip(np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 2)]), 0, 1)[:, None]
        plain, shifted = bins_of(scores, bins)
        assert list(zip(plain.ravel().tolist(), shifted.ravel().tolist(), strict=True)) == [
            naive(float(score), bins) for score in scores.ravel()
        ]

    def test_a_million_bins(self) -> None:
        scores = np.array([[0.0], [0.5], [0.1], [1.0], [1e-6], [2.0**-1074]])
        plain, _ = bins_of(scores, 10**6)
        assert plain.ravel().tolist() == [math.floor(Fraction(float(x)) * 10**6) for x in scores[:3, 0]] + [
            10**6 - 1,
            math.floor(Fraction(1e-6) * 10**6),
            0,
        ]

    def test_inner_edges_of_plain_bins_are_middles_of_shifted_ones(self) -> None:
        for bins in range(2, 12):
            for j in range(1, bins):
                found = histograms(np.full((5, 1), j / bins), np.array([bins]), "halved")
                assert found.shifted[0] == (2 * j) / (2 * bins)

    @pytest.mark.parametrize(
        ("width", "bins"), [("0.5", 2), ("0.3", 4), ("0.25", 4), ("0.24", 5), ("0.333", 4), ("0.999", 2)]
    )
    def test_a_width_that_does_not_fit_is_made_smaller(self, width: Any, bins: int) -> None:
        assert bins_of_width(width) == bins
        assert Fraction(width) / 2 < Fraction(1, bins) <= Fraction(width)

    @pytest.mark.parametrize("width", [0, -1, 1, 2, "1e-9", "nan"])
    def test_no_such_width(self, width: Any) -> None:
        with pytest.raises(ParameterError, match="width"):
            bins_of_width(width)

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_one_model_keeps_the_contract_in_both_partitions(self, data: st.DataObject) -> None:
        """A distance moves by at most 1; a value only where the distance is 0 on both sides."""
        k, bins = data.draw(st.integers(3, 9)), data.draw(st.integers(2, 5))
        distance: Any = data.draw(st.sampled_from(["halved", "exact"]))
        score = st.sampled_from([j / (4 * bins) for j in range(4 * bins + 1)]) | st.just(math.nan)
        table = np.array(data.draw(st.lists(score, min_size=k, max_size=k)))[:, None]
        other = table.copy()
        other[data.draw(st.integers(0, k - 1))] = data.draw(score)
        a, b = (histograms(one, np.array([bins]), distance) for one in (table, other))
        for value, gap in (("plain", "plain_distances"), ("shifted", "shifted_distances")):
            near = int(getattr(a, gap)[0]), int(getattr(b, gap)[0])
            assert abs(near[0] - near[1]) <= 1
            if getattr(a, value)[0] != getattr(b, value)[0]:
                assert near == (0, 0)

    def test_bins_around_the_mean_break_it(self) -> None:
        """Faulty twin: a grid that follows the scores moves with one of them, however well they agree."""
        table = np.full(9, 0.5)
        other = table.copy()
        other[0] = 0.6
        middles = [float(np.mean(one)) for one in (table, other)]
        assert middles[0] != middles[1]


# ---- conformance ----------------------------------------------------------------------------------------------------

TABLE = agreeing(61, (61, 0.95, 0), (31, 0.4, 0.6), (50, 0.05, 0.9), (45, 0.3, 0.8), (40, 0.65, 0.35), (36, 0.1, 0.9))
EVERYBODY = {relation: scoring(TABLE) for relation in Relation} | {
    ADD: scoring(TABLE, "random", unsafe_entropy=seeded(1))
}


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    bad_parameters = (
        {"epsilon": 0},
        {"delta": 0.5},
        {"chunks": None},
        *({"failed_tests": bad} for bad in (None, 0, -1, 1.5, True)),
        *({"bins": bad} for bad in (1, 0, -3, 2.5, True, None, 10**7)),
        {"max_queries": 0},
        {"mode": "gaussian"},
        {"mode": "paper"},
        {"distance": "whole"},
    )
    bad_containers: ClassVar[tuple[object, ...]] = (
        None,
        np.zeros((4, 2)),
        scoring(TABLE[:5]),
        Ensemble.fit(lambda X, y: lambda q: [0] * len(q), (np.zeros(61), np.zeros(61)), 61, "slots", progress=False),
    )
    changes: ClassVar[dict[str, Any]] = {}

    def make(self, **changes: Any) -> Any:
        given: dict[str, Any] = {"epsilon": 8, "delta": "1e-4", "chunks": 61, "failed_tests": 3}
        return SoftLabels(**{**given, **self.changes, **changes})

    def data_of(self, mechanism: Any) -> object:
        return EVERYBODY[mechanism.relation]

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        run.ask(0)
        run.ask_many(np.array([0, 2, 3, 4, 5, 0, 1, 0]))
        release: Release[Any] = run.close()
        return release


@few_chunks
class TestSoft(_Conformance):
    pass


@few_chunks
class TestSingleThreshold(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"mode": "single_threshold", "share": "0.2", "bins": 4}
    bad_parameters = ({"share": 1}, {"bins": 1})


@few_chunks
class TestPaper(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"mode": "paper", "max_queries": 9, "epsilon": 70, "failed_tests": 2}
    bad_parameters = ({"max_queries": None}, {"bins": 1})


# ---- the law --------------------------------------------------------------------------------------------------------


def excess(left: dict[Any, float], right: dict[Any, float], epsilon: float) -> float:
    return sum(max(0.0, p - math.exp(epsilon) * right.get(answer, 0.0)) for answer, p in left.items())


def statistics(table: Floats, bins: int, distance: Any) -> tuple[list[Any], list[Any]]:
    found = histograms(table, np.full(table.shape[1], bins), distance)
    distances = list(zip(found.plain_distances.tolist(), found.shifted_distances.tolist(), strict=True))
    return distances, list(zip(found.plain.tolist(), found.shifted.tolist(), strict=True))


CASES = [("basic", 1, 11), ("basic", 2, 25), ("kov", 3, 41), ("single_threshold", 2, 25), ("target_charging", 2, 15)]


@few_chunks
class TestExactLaw:
    @pytest.mark.parametrize("case", CASES, ids=str)
    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def test_one_model_more_or_less_never_exceeds_the_claim(
        self, case: tuple[Any, int, int], data: st.DataObject
    ) -> None:
        mode, failed, k = case
        bins = data.draw(st.integers(2, 4))
        distance: Any = data.draw(st.sampled_from(["halved", "exact"]))
        mechanism = SoftLabels(
            epsilon="1.5", delta="0.2", failed_tests=failed, mode=mode, chunks=k, bins=bins, distance=distance
        )
        score = st.sampled_from([j / (4 * bins) for j in range(4 * bins + 1)])
        queries = [(data.draw(st.integers(0, k)), data.draw(score), data.draw(score)) for _ in range(3)]
        table = agreeing(k, *queries)
        other = table.copy()
        new = st.lists(score | st.just(math.nan), min_size=3, max_size=3)
        other[data.draw(st.integers(0, k - 1))] = data.draw(new)
        law = SoftLaw.of(mechanism.parts())
        left, right = (law.published(*statistics(one, bins, distance)) for one in (table, other))
        assert sum(left.values()) == pytest.approx(1, abs=1e-9)
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, 1.5) <= 0.2 + 1e-12

    @pytest.mark.parametrize(
        "many", [pytest.param(False, marks=pytest.mark.slow, id="ask"), pytest.param(True, id="ask_many")]
    )
    def test_runs_have_that_law(self, many: bool) -> None:
        """Of 500 runs, each transcript of four queries within 5 standard deviations of its probability."""
        mechanism = SoftLabels(2, "0.3", 25, failed_tests=3, mode="basic", bins=2).under(REPLACE, RECORD)
        table = agreeing(25, (25, 0.1, 0.9), (13, 0.4, 0.6), (20, 0.1, 0.9), (24, 0.4, 0.6))
        expected = SoftLaw.of(mechanism.parts()).published(*statistics(table, 2, "halved"))
        ensemble, entropy = scoring(table), seeded(5)
        seen: dict[Any, int] = defaultdict(int)
        for _ in range(500):
            run = mechanism.open(ensemble, entropy=entropy)
            answers = list(run.ask_many(np.arange(4))) if many else []
            while not many and not run.halted and len(answers) < 4:
                answers.append(run.ask(len(answers)))
            seen[tuple(None if answer is UNSTABLE else answer for answer in answers)] += 1
        assert set(seen) <= {answers for answers, chance in expected.items() if chance > 0}
        for answers, chance in expected.items():
            assert abs(seen[answers] - 500 * chance) <= 5 * math.sqrt(500 * chance * (1 - chance)) + 1

    def test_the_tables_of_the_specification(self) -> None:
        """Answers plain, plain, shifted, plain, plain, UNSTABLE; the right noise, and that of half of the tests."""
        left = [(3, 9)] * 6
        right = [(2, 8), (2, 8), (4, 10), (2, 8), (2, 8), (4, 10)]
        for scale, expected in ((4, (0.0070544190, 0.0039871053)), (2, (0.0067306250, 0.0019789293))):
            law = SoftLaw(Noise(scale, False), Noise(2 * scale, False), 4.0, 2)
            found = [law.probability(side, "ppspph") for side in (left, right)]
            assert found == pytest.approx(expected, rel=1e-6)


# ---- runs -----------------------------------------------------------------------------------------------------------


def opened(table: Any, seed: int = 1, **given: Any) -> Any:
    changes = {"epsilon": 50, "delta": "1e-6", "failed_tests": 2, "bins": 4, **given}
    return SoftLabels(chunks=len(table), **changes).under(REPLACE, RECORD).open(scoring(table), entropy=seeded(seed))


SURE = (101, 0.3, 0.3)  # all in one plain bin of four
EDGE = (51, 0.49, 0.51)  # half on either side of an edge: together in the shifted partition
SPLIT = (51, 0.05, 0.95)  # together nowhere


class TestRun:
    def test_the_counter_is_that_of_failed_tests(self) -> None:
        run = opened(agreeing(101, SURE, EDGE, SPLIT), failed_tests=4)
        assert run.ask(0) == 0.375
        assert run.ask(1) == 0.5
        assert run.ask(2) is UNSTABLE
        assert run.ask(0) == 0.375
        assert run.ask(2) is UNSTABLE, "the fourth failed test is its first: the second is not run"
        with pytest.raises(Halted):
            run.ask(0)
        release = run.close()
        assert release.value == SoftCounts(
            asked=5, passed_plain=2, passed_shifted=1, unstable=2, failed_tests=4, halted=True
        )
        assert release.parts.outcome.closed_epochs == (2, 2, 1, 2)  # SURE EDGE | EDGE' SPLIT | SPLIT' | SURE SPLIT

    def test_the_last_test_may_be_a_shifted_one(self) -> None:
        run = opened(agreeing(101, SURE, EDGE, SPLIT))
        assert run.ask_many([0, 2, 0]) == (0.375, UNSTABLE)
        assert run.close().value.failed_tests == 2

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**6), st.lists(st.integers(0, 4), max_size=40), st.integers(1, 6))
    def test_counts_are_functions_of_the_answers_and_of_the_outcome(
        self, seed: int, queries: list[int], failed: int
    ) -> None:
        table = agreeing(101, SURE, EDGE, SPLIT, (70, 0.3, 0.8), (75, 0.1, 0.9))
        run = opened(table, seed, failed_tests=failed, epsilon=12)
        answers = run.ask_many(np.array(queries, dtype=int))
        release = run.close()
        counts, outcome = release.value, release.parts.outcome
        plain = sum(answer is not UNSTABLE and round(answer * 8) % 2 == 1 for answer in answers)
        shifted = sum(answer is not UNSTABLE and round(answer * 8) % 2 == 0 for answer in answers)
        assert (counts.passed_plain, counts.passed_shifted) == (plain, shifted)
        assert counts.asked == len(answers) == plain + shifted + counts.unstable
        assert counts.failed_tests == len(outcome.closed_epochs) <= failed
        ended_early = counts.failed_tests == shifted + 2 * counts.unstable - 1
        assert ended_early or counts.failed_tests == shifted + 2 * counts.unstable
        assert not ended_early or counts.halted
        assert sum(outcome.closed_epochs) + outcome.open_epoch == plain + counts.failed_tests + shifted

    def test_thresholds_are_drawn_for_each_failed_test_but_the_last(self) -> None:
        """min(E, 1 + failed tests) of them: drawn where a test comes that needs one."""
        for failed, queries in ((3, [0, 1, 0]), (3, [2, 0]), (2, [2]), (1, [2]), (4, [2, 1, 0])):
            with recording() as log:
                run = opened(agreeing(101, SURE, EDGE, SPLIT), failed_tests=failed, mode="basic", epsilon=20)
                for query in queries:
                    run.ask(query)
            law, counts = run.close().parts, run.close().value
            drawn = [one.law for one in log]
            assert set(drawn) == {DiscreteLaplace(law.threshold_scale), DiscreteLaplace(law.query_scale)}
            assert drawn.count(DiscreteLaplace(law.threshold_scale)) == min(failed, 1 + counts.failed_tests)
            tests = counts.passed_plain + counts.passed_shifted + counts.failed_tests
            assert drawn.count(DiscreteLaplace(law.query_scale)) == tests

    @pytest.mark.parametrize(("mode", "drawn"), [("single_threshold", 1), ("target_charging", 0)])
    def test_modes_that_renew_no_threshold(self, mode: Any, drawn: int) -> None:
        with recording() as log:
            run = opened(agreeing(101, SURE, EDGE, SPLIT), failed_tests=4, mode=mode)
            for query in (2, 1, 0):
                run.ask(query)
        law = run.close().parts
        noise = DiscreteLaplace(law.query_scale)
        assert len([one for one in log if one.law != noise]) == drawn

    def test_planned_queries_halt_it(self) -> None:
        run = opened(agreeing(101, SURE, EDGE, SPLIT), max_queries=3, failed_tests=6)
        assert run.ask_many([0, 1, 0, 0]) == (0.375, 0.5, 0.375)
        assert run.halted
        with pytest.raises(Halted):
            run.ask(0)

    def test_a_query_with_bins_of_its_own(self) -> None:
        table = agreeing(101, SURE, EDGE)
        run = opened(table, failed_tests=9)
        assert run.ask(SoftQuery(0, 2)) == 0.25
        assert run.ask_many([SoftQuery(0, 5), 0, SoftQuery(1, 3), SoftQuery(1, 2)]) == (0.3, 0.375, 0.5, 0.5)
        for bad in (1, 0, 2.5, True, None, 10**7):
            with pytest.raises(ParameterError, match="bins"):
                SoftQuery(0, bad)  # type: ignore[arg-type]
        assert repr(SoftQuery(0.3, 4)) == "SoftQuery(..., bins=4)"

    @pytest.mark.parametrize("kind", [np.array, pd.Series, tuple, list])
    def test_rows_come_in_any_form(self, kind: Any) -> None:
        assert opened(agreeing(101, SURE)).ask_many(kind([0, 0])) == (0.375, 0.375)

    def test_more_than_a_block(self) -> None:
        run = opened(agreeing(101, SURE, EDGE, SPLIT), failed_tests=12)
        many = np.zeros(40_000, dtype=int)
        many[[100, 20_000]] = 1
        answers = run.ask_many(many)
        assert [i for i, answer in enumerate(answers) if answer != 0.375] == [100, 20_000]
        assert len(run.ask_many(np.append(np.full(7, 1), many))) == 40_007

    def test_scores_are_clipped_and_what_is_none_abstains(self) -> None:
        table = np.stack([np.where(np.arange(101) < 60, 7.0, math.nan), np.full(101, -math.inf)], axis=1)
        assert opened(table).ask_many([0, 1]) == (0.875, 0.125)

    def test_a_query_of_another_shape_is_refused_and_costs_nothing(self) -> None:
        run = opened(agreeing(101, SURE))
        for bad in ([1.0, 2.0], SoftQuery([1.0, 2.0], 3)):
            with pytest.raises(ParameterError, match="queries"):
                run.ask(bad)
        assert run.asked == 0


class TestEnsembleOfScores:
    def test_an_ensemble_of_classes_is_refused_and_says_how_to_have_scores(self) -> None:
        units = np.arange(606.0), np.arange(606) % 2
        ensemble = Ensemble.fit(
            lambda rows, labels: lambda asked: [0] * len(asked), units, 101, "slots", progress=False
        )
        mechanism = SoftLabels(50, "1e-6", 101, failed_tests=2, bins=4).under(REPLACE, RECORD)
        with pytest.raises(ParameterError, match=r"Ensemble of scores \(classes=None\), got an ensemble of classes 2"):
            mechanism.inspect(ensemble)

    def test_a_classifier_answers_with_its_mean_label(self) -> None:
        from sklearn.linear_model import LogisticRegression  # here: it takes its time

        rng = np.random.default_rng(3)
        rows = rng.normal(size=(6000, 1))
        labels = rng.random(6000) < 1 / (1 + np.exp(-2 * rows[:, 0]))
        ensemble = Ensemble.fit(LogisticRegression(), (rows, labels), 60, "slots", classes=None, jobs=1, progress=False)
        mechanism = SoftLabels(50, "1e-6", 60, failed_tests=8, bins=4).under(REPLACE, RECORD)
        answers = mechanism.open(ensemble, entropy=seeded(1)).ask_many([[-2.0], [2.0], [0.0]])
        assert answers[:2] == (0.125, 0.875)
        assert answers[2] in (0.375, 0.5, 0.625)

    def test_a_learner_tells_its_scores_on_made_up_rows(self) -> None:
        def mean(rows: Any, labels: Any) -> Any:
            return lambda asked: np.full(len(asked), labels.mean()) + np.asarray(asked)

        assert dpl.stability.try_learner(mean, [0.0, 9.0], [0.25, 0.5], classes=None).tolist() == [0.375, 1.0]
        with pytest.raises(ParameterError, match="2 scores"):
            dpl.stability.try_learner(
                lambda rows, labels: lambda asked: ["x"] * len(asked), [0, 0], [0.5, 0.5], classes=None
            )

    def test_labels_that_are_numbers_are_kept(self) -> None:
        def mean(rows: Any, labels: Any) -> Any:
            return lambda asked: [labels.mean()] * len(asked)

        labels = np.where(np.arange(610) % 3 == 0, np.nan, 0.3)
        ensemble = Ensemble.fit(mean, (np.zeros(610), labels), 61, "slots", classes=None, progress=False)
        run = (
            SoftLabels(50, "1e-6", 61, failed_tests=1, bins=5).under(REPLACE, RECORD).open(ensemble, entropy=seeded(1))
        )
        assert run.ask(0.0) == 0.3


# ---- what it costs, and what it promises ----------------------------------------------------------------------------


class TestRelations:
    def test_hashed_chunks_under_replace_one_are_a_group(self) -> None:
        mechanism = SoftLabels(5, "1e-4", 61, failed_tests=1, chunker=Hashed("salt"))
        assert mechanism.under(ADD, RECORD).claim() == ApproxDP(5, "1e-4")
        assert mechanism.under(REPLACE, RECORD).claim().epsilon == 10
        assert mechanism.under(REPLACE, RECORD).parts().kind == "group"

    def test_the_published_scales(self) -> None:
        """sqrt(64 T log(2/delta))/epsilon, and a threshold of 2 lambda log(4 m/delta), for 2 T failed tests."""
        law: Any = SoftLabels(100, "1e-4", 61, failed_tests=4, max_queries=50, mode="paper").parts()
        scale = math.sqrt(64 * 2 * math.log(2 / 1e-4)) / 100
        assert float(law.threshold_scale) == pytest.approx(scale, rel=1e-9)
        assert float(law.stable_at) == math.ceil(2 * scale * math.log(4 * 50 / 1e-4))

    def test_chunks_that_cannot_make_themselves_heard(self) -> None:
        with pytest.raises(InfeasiblePlan, match="at least"):
            SoftLabels(1, "1e-3", 21, failed_tests=1)


class TestInALedger:
    def test_what_was_asked_stands_in_the_outcome(self) -> None:
        scope = dpl.Ledger.in_memory().scope(
            "rows", unit="record", relation="replace_one", budget=dpl.ApproxDP(60, "1e-3")
        )
        mechanism = SoftLabels(50, "1e-6", 101, failed_tests=4, bins=4)
        with scope.open(mechanism, scoring(agreeing(101, SURE, EDGE))) as session:
            assert session.ask(0) == 0.375
            assert session.ask_many([0, 1, 0]) == (0.375, 0.5, 0.375)
        committed: Any = session.receipt.entry.body
        assert isinstance(committed.parts, SparseVectorLaw)
        assert committed.parts.outcome is not None
        assert committed.parts.outcome.closed_epochs == (3,)
        assert session.receipt.value.passed_shifted == 1
        assert mechanism.parameters()["failed_tests"] == 4
        assert "cutoff" not in mechanism.parameters()


class TestPlan:
    def test_what_the_plan_promises_happens(self) -> None:
        """Models that score the mean of their chunk's labels, scaled by the query: mu = 1/N for labels in [0, 1] up to
        a constant. All queries are answered, each within the promised distance of its mean score."""
        bound = dpl.ApproxDP(20, "1e-3")
        plan = soft_plan(
            2_000_000,
            lambda size: Decimal(1) / (2 * size),
            "0.05",
            max_queries=100,
            uncertain=20,
            epsilon=bound.epsilon,
            delta=bound.delta,
            beta="0.1",
        )

        def mean(rows: Any, labels: Any) -> Any:
            return lambda asked: asked * labels.mean()

        rng = np.random.default_rng(11)
        mechanism = SoftLabels(
            bound.epsilon,
            bound.delta,
            plan.chunks,
            failed_tests=plan.failed_tests,
            max_queries=100,
            bins=plan.bins,
            mode=plan.mode,
        ).under(REPLACE, RECORD)
        count = plan.chunks * plan.chunk_size
        labels = (rng.random(count) < 0.5).astype(float)
        ensemble = Ensemble.fit(mean, (np.zeros(count), labels), plan.chunks, "slots", classes=None, progress=False)
        asked = np.append(rng.random(80) * 0.1, rng.random(20) * 2)  # 80 of weak quality, then any
        answers = mechanism.open(ensemble, entropy=seeded(2)).ask_many(asked)
        assert len(answers) == 100
        assert UNSTABLE not in answers
        off = np.abs(np.array(answers) - asked / 2)
        assert off.max() <= float(plan.accuracy)
