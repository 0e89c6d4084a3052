"""Answers by the votes of an ensemble: what they are, what they cost, and that no small case exceeds the claim."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import Group, SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP
from dpledger.errors import Halted, ImplausiblePromise, InfeasiblePlan, ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteLaplace, recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.answers import UNSTABLE, SideBySide, StableCounts
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.ensembles.votes import winners
from dpledger.mechanisms.stability.plans.subsample import subsample_plan
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.voting import PrivateClassifier, SampleAndAggregate
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from sparse_vector_oracle import Law, Noise

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
RECORD = Unit("record")
SALT = Hashed("salt")
few_chunks = pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")
KINDS: tuple[Any, ...] = (PrivateClassifier, SampleAndAggregate)


def threshold(rows: Any, labels: Any) -> Any:
    """A model that votes 1 above the least row of its chunk."""
    least = rows.min()
    return lambda asked: (np.asarray(asked, dtype=float).reshape(-1) > least).astype(int)


def spread(chunks: int = 101, chunker: Any = "slots", **given: Any) -> Ensemble:
    """Of k models, round(x) vote 1 on the query x."""
    units = (np.arange(chunks), np.zeros(chunks))
    if isinstance(chunker, Hashed):
        given.setdefault("ids", range(chunks))
    return Ensemble.fit(threshold, units, chunks, chunker, progress=False, **given)


def speaking(table: Sequence[Sequence[int]], classes: int) -> Ensemble:
    """An ensemble whose models vote as a table says: a row a model; query j is the number j."""

    def learner(rows: Any, labels: Any) -> Any:
        own = table[int(rows[0])]
        return lambda asked: [own[int(query)] for query in np.asarray(asked).reshape(-1)]

    units = (np.arange(len(table)), np.zeros(len(table)))
    return Ensemble.fit(learner, units, len(table), "slots", classes=classes, progress=False)


# ---- conformance ----------------------------------------------------------------------------------------------------

EVERYBODY = {relation: spread(61, "random" if relation is ADD else "slots") for relation in Relation}


def each(field: str, *values: object) -> list[dict[str, object]]:
    """One change of the parameters for each value."""
    return [{field: value} for value in values]


BAD: tuple[dict[str, object], ...] = (
    *each("epsilon", 0, -1, "nan", math.inf, None),
    *each("delta", 0, 0.5, 1, -0.1, "nan"),
    *each("chunks", 0, -1, 2.5, True, None, 2**21),
    *each("cutoff", 0, -1, 1.5, True, None),
    *each("max_queries", 0, -1, 2.5),
    *each("mode", "best", None, 3),
    *each("chunker", "consecutive", "", None, 3, Hashed),
    *each("classes", 0, -1, 2.5, True, 2**21),
    *each("distance", "whole", None, 1),
    *each("delta_split", 0, 1, "nan"),
    *each("share", 0, 1, "nan"),
    *each("learner", "", 3),
    {"mode": "paper"},
    {"mode": "gaussian"},
)


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    bad_parameters = BAD
    bad_containers: ClassVar[tuple[object, ...]] = (
        None,
        3,
        [1, 2],
        "x",
        np.zeros((4, 2)),
        spread(5),
        spread(61, SALT),
        spread(61, classes=3),
    )
    changes: ClassVar[dict[str, Any]] = {}
    kind: ClassVar[Any] = PrivateClassifier
    good_data = "everybody"

    def make(self, **changes: Any) -> Any:
        given: dict[str, Any] = {"epsilon": 8, "delta": "1e-4", "chunks": 61, "cutoff": 2, **self.changes, **changes}
        return self.kind(**given)

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        ensemble = EVERYBODY[mechanism.relation] if data is self.good_data else data
        run = mechanism.open(ensemble, entropy=seeded(seed))
        run.ask(60.0)
        run.ask_many([2.0, 55.0, 52.0, 50.0, 47.0, 45.0, 43.0, 41.0, 40.0, 39.0, 38.0, 37.0])
        release: Release[Any] = run.close()
        return release

    def test_what_it_can_use_passes_inspection(self) -> None:
        for mechanism in self.placed():
            mechanism.inspect(EVERYBODY[mechanism.relation])  # type: ignore[attr-defined, index]


class TestClassifier(_Conformance):
    pass


class TestAggregate(_Conformance):
    kind = SampleAndAggregate


class TestSingleThreshold(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"mode": "single_threshold", "share": "0.2"}
    bad_parameters = BAD[:-2]


class TestExact(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"distance": "exact", "learner": "a threshold"}


class TestPaper(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"mode": "paper", "max_queries": 13, "epsilon": 100}
    bad_parameters = BAD[:-2]


class TestGaussian(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"mode": "gaussian", "max_queries": 13, "cutoff": None}
    bad_parameters = tuple(bad for bad in BAD[:-2] if bad != {"cutoff": None} and "share" not in bad)


class TestHashed(_Conformance):
    """Where two chunks may change the parts are a group of two."""

    changes: ClassVar[dict[str, Any]] = {"chunker": SALT, "epsilon": 5}
    bad_containers = (None, spread(61), spread(61, Hashed("another salt")))

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        return super().run(mechanism, HASHED if data is self.good_data else data, seed)

    def test_what_it_can_use_passes_inspection(self) -> None:
        for mechanism in self.placed():
            mechanism.inspect(HASHED)  # type: ignore[attr-defined]

    def test_its_price_under_replace_one_is_that_of_two(self) -> None:
        mechanism = self.make().under(REPLACE, RECORD)
        parts = mechanism.parts()
        assert isinstance(parts, Group)
        assert (parts.k, parts.relation) == (2, ADD)
        assert mechanism.claim().epsilon == 10
        assert float(mechanism.claim().delta) == pytest.approx((1 + math.exp(5)) * 1e-4)
        for relation in (ADD, ZERO, FLIP):
            assert self.make().under(relation, RECORD).claim() == ApproxDP(5, "1e-4")

    def test_no_theorem_gives_gaussian_tests_in_a_group(self) -> None:
        gaussian = self.make(mode="gaussian", cutoff=None, max_queries=4)
        gaussian.under(ADD, RECORD)
        with pytest.raises(ParameterError, match="gaussian"):
            gaussian.under(REPLACE, RECORD)


def _of_many_hashes() -> Ensemble:
    """Every chunk of 61 has units, so all models vote."""
    units = np.arange(1500)
    return Ensemble.fit(threshold, (units, units * 0), 61, SALT, ids=units, progress=False)


HASHED = _of_many_hashes()

# ---- the law --------------------------------------------------------------------------------------------------------

TINY: dict[str, Any] = {"epsilon": "1.5", "delta": "0.2"}
CASES = [
    {"cutoff": 1, "mode": "basic", "chunks": 11},
    {"cutoff": 2, "mode": "kov", "chunks": 25},
    {"cutoff": 2, "mode": "single_threshold", "chunks": 25},
    {"cutoff": 2, "mode": "target_charging", "chunks": 15},
    {"cutoff": 1, "mode": "paper", "max_queries": 3, "chunks": 201},
]


def transcripts(law: SparseVectorLaw, votes: np.ndarray[Any, Any], classes: int, kind: Any) -> dict[Any, float]:
    """The exact law of all that is published: the answers, in order."""
    found = winners(votes, classes, kind)
    oracle = Law(
        Noise(float(law.threshold_scale)),
        Noise(float(law.query_scale)),
        float(law.stable_at or 0),
        law.cutoff,
        refreshed=law.mode not in ("single_threshold", "target_charging"),
    )
    published: dict[Any, float] = defaultdict(float)
    for pattern, chance in oracle.distribution(found.distances.tolist()).items():
        answers = [int(value) if bit == "1" else None for bit, value in zip(pattern, found.values, strict=False)]
        published[tuple(answers)] += chance
    return published


def excess(left: dict[Any, float], right: dict[Any, float], epsilon: float) -> float:
    return sum(max(0.0, p - math.exp(epsilon) * right.get(answer, 0.0)) for answer, p in left.items())


@few_chunks
class TestExactLaw:
    """By enumeration of everything that three queries may publish."""

    @pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["mode"]))
    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_one_model_more_or_less_never_exceeds_the_claim(self, case: dict[str, Any], data: st.DataObject) -> None:
        kind: Any = data.draw(st.sampled_from(["halved", "exact"]))
        classes = data.draw(st.integers(1, 3))
        law: Any = PrivateClassifier(**TINY, **case, distance=kind, classes=classes).parts()
        k = case["chunks"]
        lead = data.draw(st.lists(st.integers(0, k), min_size=3, max_size=3))
        votes = np.stack([np.where(np.arange(k) < ones, classes - 1, 0) for ones in lead], axis=1)
        other = votes.copy()
        row = data.draw(st.integers(0, k - 1))
        other[row] = data.draw(st.lists(st.integers(-1, classes - 1), min_size=3, max_size=3))
        left, right = (transcripts(law, table, classes, kind) for table in (votes, other))
        assert sum(left.values()) == pytest.approx(1, abs=1e-9)
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, float(law.epsilon)) <= float(law.delta) + 1e-12

    def test_a_stream_of_queries_that_one_vote_decides_needs_nearly_all_of_the_stability_part(self) -> None:
        law: Any = PrivateClassifier(**TINY, cutoff=1, mode="basic", chunks=11).parts()
        votes = np.array([[1] * 3] * 6 + [[0] * 3] * 5)
        other = votes.copy()
        other[0] = 0
        left, right = (transcripts(law, table, 2, "halved") for table in (votes, other))
        loss = excess(left, right, 30.0)
        coarse = math.exp(-1 / float(law.query_scale))
        assert float(law.delta) * coarse < loss <= float(law.delta)

    def test_a_whole_gap_exceeds_it(self) -> None:
        """Faulty twin: the gap less one in place of its half."""
        law: Any = PrivateClassifier(epsilon=1, delta="1e-4", cutoff=1, mode="basic", chunks=101).parts()
        oracle = Law(Noise(float(law.threshold_scale)), Noise(float(law.query_scale)), float(law.stable_at), 1)
        left, right = (oracle.distribution(gaps) for gaps in ([36] * 9 + [32], [34] * 9 + [34]))
        assert excess(left, right, 1.0) > 0.01

    @settings(max_examples=20, deadline=None)
    @given(st.data())
    def test_two_models_never_exceed_the_claim_of_a_group(self, data: st.DataObject) -> None:
        given = {"epsilon": "0.7", "delta": "0.1", "cutoff": 1, "mode": "basic", "chunks": 23, "chunker": SALT}
        mechanism = PrivateClassifier(**given).under(REPLACE, RECORD)  # type: ignore[arg-type]
        law: Any = PrivateClassifier(**given).under(ADD, RECORD).parts()  # type: ignore[arg-type]
        lead = data.draw(st.lists(st.integers(0, 23), min_size=3, max_size=3))
        votes = np.stack([(np.arange(23) < ones).astype(int) for ones in lead], axis=1)
        other = votes.copy()
        for row in data.draw(st.lists(st.integers(0, 22), min_size=2, max_size=2)):
            other[row] = data.draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3))
        left, right = (transcripts(law, table, 2, "halved") for table in (votes, other))
        for one, two in ((left, right), (right, left)):
            assert excess(one, two, float(mechanism.claim().epsilon)) <= float(mechanism.claim().delta)


# ---- answers --------------------------------------------------------------------------------------------------------


class TestAnswers:
    @few_chunks
    @pytest.mark.parametrize("distance", ["halved", "exact"])
    def test_they_are_those_of_stable_queries_on_the_votes(self, distance: Any) -> None:
        generator = np.random.default_rng(4)
        table = (generator.random((61, 40)) < generator.random(40)).astype(int)
        ensemble, given = speaking(table.tolist(), 2), {"epsilon": 9, "delta": "1e-4", "cutoff": 9}
        mechanism = PrivateClassifier(**given, chunks=61, distance=distance).under(REPLACE, RECORD)  # type: ignore[arg-type]
        found = winners(table, 2, distance)
        pairs = SideBySide(found.values, found.distances)
        expected = StableQueries(**given, justification="votes").open(None, entropy=seeded(8)).ask_many(pairs)  # type: ignore[arg-type]
        run = mechanism.open(ensemble, entropy=seeded(8))
        assert run.ask_many(np.arange(40.0)) == expected
        assert {type(answer) for answer in expected} == {int, type(UNSTABLE)}

    def test_one_by_one_they_go_by_the_votes(self) -> None:
        run = PrivateClassifier(50, "1e-6", 101, cutoff=2).under(REPLACE, RECORD).open(spread(), entropy=seeded(1))
        assert [run.ask(query) for query in (100.0, 1.0, 50.5)] == [1, 0, UNSTABLE]
        assert run.ask(51) is UNSTABLE
        with pytest.raises(Halted):
            run.ask(100.0)
        assert run.close().value == StableCounts(asked=4, answered=2, unstable=2, halted=True)

    def test_many_end_where_the_run_halts(self) -> None:
        run = PrivateClassifier(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD).open(spread(), entropy=seeded(1))
        assert run.ask_many([100.0, 1.0, 50.5, 100.0]) == (1, 0, UNSTABLE)
        with pytest.raises(Halted):
            run.ask_many([100.0])

    def test_more_than_a_block(self) -> None:
        run = PrivateClassifier(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD).open(spread(), entropy=seeded(1))
        many = np.where(np.arange(40_000) % 2, 1.0, 100.0)
        answers = run.ask_many(many)
        assert answers == tuple((many > 50).astype(int).tolist())
        halting = np.append(many[:20_000], 50.5)
        assert len(run.ask_many(np.append(halting, many))) == 20_001

    def test_the_same_answers_by_worker_and_threads_and_form(self) -> None:
        mechanism = PrivateClassifier(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD)
        asked = [100.0, 1.0]
        for many in (asked, np.array(asked), pd.Series(asked), tuple(asked)):
            assert mechanism.open(spread(), entropy=seeded(1)).ask_many(many) == (1, 0)

    def test_an_aggregate_hands_queries_to_the_models_as_they_are(self) -> None:
        class Question:
            def __init__(self, quantile: float) -> None:
                self.quantile = quantile

        def learner(rows: Any, labels: Any) -> Any:
            assert labels is None
            return lambda asked: [int(np.quantile(rows, one.quantile) > 500) for one in asked]

        ensemble = Ensemble.fit(learner, np.arange(1000) % 1000, 101, "slots", progress=False)
        run = SampleAndAggregate(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD).open(ensemble, entropy=seeded(1))
        assert run.ask(Question(0.9)) == 1
        assert run.ask_many([Question(0.9), Question(0.1)]) == (1, 0)
        bad: Any
        for bad in (3, "text", None, {}):
            with pytest.raises(ParameterError, match="queries"):
                run.ask_many(bad)

    def test_a_query_of_another_shape_is_refused_and_costs_nothing(self) -> None:
        run = PrivateClassifier(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD).open(spread(), entropy=seeded(1))
        with pytest.raises(ParameterError, match="queries"):
            run.ask([1.0, 2.0])
        for bad in (np.zeros((3, 2)), 5):
            with pytest.raises(ParameterError, match="queries"):
                run.ask_many(bad)
        assert run.ask_many([]) == ()
        assert run.asked == 0
        assert run.ask(100.0) == 1

    def test_where_all_models_abstain_nothing_is_answered(self) -> None:
        mute = Ensemble.fit(lambda rows, labels: lambda asked: 1 / 0, (np.arange(101), [0] * 101), 101, "slots")
        run = PrivateClassifier(50, "1e-6", 101, cutoff=3).under(REPLACE, RECORD).open(mute, entropy=seeded(1))
        assert run.ask_many([1.0] * 5) == (UNSTABLE,) * 3


class TestPlans:
    def test_what_a_plan_promises_is_kept(self) -> None:
        """Models that are right three times in four: all queries are answered rightly, but in one run of twenty. More
        than ten of forty would be bad luck of less than 10^-5."""
        plan = subsample_plan(20, "1e-4", cutoff=2, max_queries=20, beta="0.05")
        mechanism = PrivateClassifier(20, "1e-4", plan.chunks, cutoff=2, max_queries=20, mode=plan.mode).under(
            REPLACE, RECORD
        )
        generator, kept = np.random.default_rng(20261122), 0
        for seed in range(40):
            right = generator.integers(0, 2, 20)
            wrong = generator.random((plan.chunks, 20)) > 0.75
            run = mechanism.open(speaking(np.where(wrong, 1 - right, right).tolist(), 2), entropy=seeded(seed))
            kept += run.ask_many(np.arange(20.0)) == tuple(right.tolist())
        assert kept >= 30


class TestNoise:
    def test_the_draws_are_those_of_the_leaf_one_a_query_and_one_an_epoch(self) -> None:
        mechanism = PrivateClassifier(9, "1e-4", 61, cutoff=2, mode="kov").under(REPLACE, RECORD)
        law: Any = mechanism.parts()
        with recording() as tape:
            run = mechanism.open(EVERYBODY[REPLACE], entropy=seeded(1))
            for query in (60.0, 60.0, 30.0):
                run.ask(query)
        expected = [law.threshold_scale, law.query_scale, law.query_scale, law.query_scale]
        drawn = [one.law for one in tape]
        assert drawn == [DiscreteLaplace(scale) for scale in expected]
        assert {one.sensitivity.value for one in tape if one.sensitivity} == {Decimal(1)}
        assert "60" not in repr(run)


# ---- what is refused, and what is recorded --------------------------------------------------------------------------


class TestRefusals:
    @pytest.mark.parametrize("kind", KINDS)
    def test_relations_of_chunkers(self, kind: Any) -> None:
        given = {"epsilon": 8, "delta": "1e-4", "chunks": 61, "cutoff": 2}
        with pytest.raises(RelationError, match="shifts those behind"):
            kind(**given, chunker="slots").under(ADD, RECORD)
        for relation in (REPLACE, ZERO, FLIP):
            with pytest.raises(RelationError, match="slots"):
                kind(**given, chunker="random").under(relation, RECORD)
            assert kind(**given).under(relation, RECORD).chunker == "slots"
        assert kind(**given).under(ADD, RECORD).chunker == "random"

    @pytest.mark.parametrize("chunks", [1, 2])
    def test_fewer_than_three_chunks(self, chunks: int) -> None:
        with pytest.raises(InfeasiblePlan, match="at least"):
            PrivateClassifier(50, "0.1", chunks, cutoff=1)

    def test_chunks_that_cannot_make_themselves_heard(self) -> None:
        with pytest.raises(InfeasiblePlan, match="at least 53 chunks"):
            PrivateClassifier(1, "1e-3", 51, cutoff=1, mode="basic")
        with pytest.warns(ImplausiblePromise, match="not sure to be answered"):
            assert PrivateClassifier(1, "1e-3", 57, cutoff=1, mode="basic").parts() is not None

    def test_a_unit_of_many_rows_needs_ids(self) -> None:
        person = Unit("person", max_contributions=4)
        mechanism = PrivateClassifier(50, "1e-6", 101, cutoff=1, chunker="random").under(ADD, person)
        with pytest.raises(ParameterError, match=r"ids=.*person"):
            mechanism.inspect(spread(chunker="random"))
        mechanism.inspect(spread(chunker="random", ids=range(101)))
        mechanism.inspect(spread(chunker="random", grouped=True))

    @pytest.mark.parametrize(("field", "other"), [("chunks", spread(103)), ("classes", spread(classes=3))])
    def test_an_ensemble_of_other_public_numbers(self, field: str, other: Ensemble) -> None:
        mechanism = PrivateClassifier(50, "1e-6", 101, cutoff=1).under(REPLACE, RECORD)
        with pytest.raises(ParameterError, match=field):
            mechanism.inspect(other)


class TestInALedger:
    def scope(self, relation: str = "add_remove") -> Any:
        book = dpl.Ledger.in_memory()
        budget = dpl.ApproxDP(60, "1e-3")
        return book.scope("rows", unit="record", relation=relation, budget=budget)

    def test_what_was_asked_stands_in_the_outcome(self) -> None:
        scope = self.scope("replace_one")
        mechanism = PrivateClassifier(50, "1e-6", 101, cutoff=2, learner="a threshold")
        with scope.open(mechanism, spread()) as session:
            assert session.ask(100.0) == 1
            assert session.ask_many([1.0, 50.5, 99.0]) == (0, UNSTABLE, 1)
        committed = session.receipt.entry.body
        assert session.receipt.value == StableCounts(asked=4, answered=3, unstable=1, halted=False)
        assert isinstance(committed.parts, SparseVectorLaw)
        assert committed.parts.outcome == SparseVectorOutcome(closed_epochs=(3,), open_epoch=1, halted=False)

    def test_a_halted_one_refuses(self) -> None:
        scope = self.scope("replace_one")
        with scope.open(PrivateClassifier(50, "1e-6", 101, cutoff=1), spread()) as session:
            assert session.ask(50.5) is UNSTABLE
            with pytest.raises(Halted):
                session.ask(50.5)

    def test_coins_of_a_known_seed_are_told_in_the_entry(self) -> None:
        scope = self.scope()
        mechanism = PrivateClassifier(50, "1e-6", 101, cutoff=1)
        with scope.open(mechanism, spread(chunker="random", unsafe_entropy=seeded(1))) as session:
            session.ask(1.0)
        assert "seed" in session.receipt.entry.body.warnings[0]
