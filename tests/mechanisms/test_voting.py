"""Answers by the votes of an ensemble: what they are, what is refused, what is recorded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.errors import Halted, ImplausiblePromise, InfeasiblePlan, ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteLaplace, recording
from dpledger.mechanisms.stability.answers import UNSTABLE, SideBySide, StableCounts
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.ensembles.votes import winners
from dpledger.mechanisms.stability.plans.subsample import subsample_plan
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.voting import PrivateClassifier, SampleAndAggregate
from dpledger.relations import Relation, Unit
from voting_models import speaking, spread, threshold

pytestmark = pytest.mark.sliced

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
RECORD = Unit("record")
few_chunks = pytest.mark.filterwarnings("ignore:.*even they are not sure:dpledger.errors.ImplausiblePromise")
KINDS: tuple[Any, ...] = (PrivateClassifier, SampleAndAggregate)


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
    @pytest.mark.slow
    def test_what_a_plan_promises_is_kept(self) -> None:
        """Models that are right three times in four: all queries are answered rightly, but in one run of twenty. More
        than six of sixteen would be bad luck of less than 10^-5."""
        plan = subsample_plan(epsilon=20, delta="1e-4", cutoff=2, max_queries=20, beta="0.05")
        mechanism = PrivateClassifier(20, "1e-4", plan.chunks, cutoff=2, max_queries=20, mode=plan.mode).under(
            REPLACE, RECORD
        )
        generator, kept = np.random.default_rng(20261122), 0
        for seed in range(16):
            right = generator.integers(0, 2, 20)
            wrong = generator.random((plan.chunks, 20)) > 0.75
            run = mechanism.open(speaking(np.where(wrong, 1 - right, right).tolist(), 2), entropy=seeded(seed))
            kept += run.ask_many(np.arange(20.0)) == tuple(right.tolist())
        assert kept >= 10


class TestNoise:
    def test_the_draws_are_those_of_the_leaf_one_a_query_and_one_an_epoch(self) -> None:
        mechanism = PrivateClassifier(9, "1e-4", 61, cutoff=2, mode="kov").under(REPLACE, RECORD)
        law: Any = mechanism.parts()
        with recording() as log:
            run = mechanism.open(spread(61), entropy=seeded(1))
            for query in (60.0, 60.0, 30.0):
                run.ask(query)
        expected = [law.threshold_scale, law.query_scale, law.query_scale, law.query_scale]
        drawn = [one.law for one in log]
        assert drawn == [DiscreteLaplace(scale) for scale in expected]
        assert {one.sensitivity.value for one in log if one.sensitivity} == {Decimal(1)}
        assert repr(run) == "<EnsembleRun: 3 asked>"


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

    def test_a_group_of_two_is_entered_with_the_outcome_and_verified(self) -> None:
        book = dpl.Ledger.in_memory()
        scope = book.scope("rows", unit="record", relation="replace_one", budget=dpl.ApproxDP(60, "1e-3"))
        ids = np.arange(1500)
        ensemble = Ensemble.fit(threshold, (ids, ids * 0), 101, Hashed("salt"), ids=ids, progress=False)
        with scope.open(PrivateClassifier(20, "1e-14", 101, cutoff=2, chunker=Hashed("salt")), ensemble) as session:
            assert session.ask_many([1400.0, 5.0, 1400.0]) == (1, 0, 1)
        body: Any = session.receipt.entry.body
        parts = body.parts
        assert (parts.kind, parts.k, parts.relation) == ("group", 2, ADD)
        assert parts.of.outcome == SparseVectorOutcome(closed_epochs=(), open_epoch=3, halted=False)
        book.verify()

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
