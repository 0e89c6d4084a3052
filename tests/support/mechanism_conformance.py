"""What every mechanism must do, as a class of tests that the tests of each mechanism inherit.

    class TestLaplace(MechanismConformance):
        relations = tuple(Relation)

        def make(self, **changes):
            return Laplace(**{"sensitivity": 1, "epsilon": "0.5", **changes})

        good_data = 12
        bad_data = (float("nan"), 10**400)
        bad_containers = ("x", None, [1])
        bad_parameters = ({"epsilon": "0"}, {"epsilon": "nan"})

An interactive mechanism overrides `run`: open it, ask, close it, return the release. Where no data suit a mechanism
under all of its relations, `data_of` says which suit it.
"""

from __future__ import annotations

import itertools
import json
import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.chains import is_within
from dpledger.accounting.composition import Chain, Composition, children
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.guarantees import Failure, PrivacyFailure
from dpledger.accounting.pricing.outcomes import planned, steps
from dpledger.accounting.rules import check
from dpledger.audit.sampling.released import agrees
from dpledger.decimals import total
from dpledger.errors import ParameterError, RelationError
from dpledger.ledger.signed.values import kept, restored
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording, replaying
from dpledger.mechanisms.protocol import (
    Described,
    GrantedSteps,
    Inspects,
    Interactive,
    Keeps,
    Mechanism,
    Reads,
    Refines,
    Release,
    Resumes,
    Sampled,
)
from dpledger.relations import Relation, Unit
from dpledger.schema import plain
from dpledger.strict_json import read_json

__all__ = ["MechanismConformance", "same_value"]

_KEY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_SEED = 20261121


class MechanismConformance(ABC):
    """Inherit, set the class attributes, define `make`."""

    relations: ClassVar[tuple[Relation, ...]]
    """The relations under which the mechanism has a guarantee; `under` raises RelationError for the others."""
    good_data: ClassVar[object]
    bad_data: ClassVar[tuple[object, ...]] = ()
    """Data of the right kind that no release may raise for, whatever they hold: not a number, out of range."""
    bad_containers: ClassVar[tuple[object, ...]] = ()
    """Data of a wrong kind, which type, axes or public length show: refused before anything is charged."""
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]]
    """Changes to the parameters, each of which the constructor refuses with an error that names one of them."""
    level_queries: ClassVar[tuple[object, ...]] = ()
    """Of a mechanism that `Refines`: queries that ask for levels of its chain, each finer than the one before."""
    unit: ClassVar[Unit] = Unit("patient", max_contributions=1)
    sampled_seeds: ClassVar[int] = 50
    """With how many seeds `sample` is held against `release`: fewer where one run takes long; 0 where it draws its
    coins in another order, for many runs at once, and another test compares the laws."""

    @abstractmethod
    def make(self, **changes: Any) -> Any:
        """The mechanism with these parameters changed, relation and unit open."""

    def data_of(self, mechanism: Any) -> object:
        """Data that suit the mechanism, under the relation that it was put."""
        return self.good_data

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        """Run the mechanism to its end."""
        release: Release[Any] = mechanism.release(data, entropy=seeded(seed))
        return release

    def placed(self) -> list[Described]:
        """The mechanism under each of its relations."""
        return [self.make().under(relation, self.unit) for relation in self.relations]

    def test_what_is_run_step_by_step_plans_as_many_as_it_grants(self) -> None:
        for mechanism in self.placed():
            if isinstance(mechanism, GrantedSteps) and mechanism.steps_to_grant() is not None:
                assert isinstance(mechanism, Interactive)
                plan = steps(mechanism.parts())
                assert plan is not None
                assert plan.planned == mechanism.steps_to_grant()

    def test_what_goes_on_runs_the_rest_of_its_plan_and_no_more(self) -> None:
        for mechanism in self.placed():
            if not isinstance(mechanism, Resumes):
                continue
            counted = steps(mechanism.parts())
            assert counted is not None
            for done in {0, counted.planned // 2, counted.planned}:
                run: Any = mechanism.resume(self.data_of(mechanism), done=done, entropy=seeded(_SEED))
                assert list(run.steps()) == list(range(done, counted.planned))
                assert run.close().parts == counted.recorded(done)
            for wrong in (-1, counted.planned + 1, "1"):
                with pytest.raises(ParameterError, match="done"):
                    mechanism.resume(self.data_of(mechanism), done=wrong, entropy=seeded(_SEED))  # type: ignore[arg-type]

    def test_it_is_a_frozen_value(self) -> None:
        for mechanism in (self.make(), *self.placed()):
            assert hash(mechanism) == hash(pickle.loads(pickle.dumps(mechanism)))
            assert mechanism == pickle.loads(pickle.dumps(mechanism))
            with pytest.raises(AttributeError):
                mechanism.relation = None
        assert self.make() == self.make()

    def test_its_kind_is_one_word(self) -> None:
        assert _KEY.fullmatch(self.make().kind)

    def test_put_under_a_relation_it_stays_there(self) -> None:
        for mechanism in self.placed():
            assert mechanism.relation is not None
            assert mechanism.unit == self.unit
            assert mechanism.under(mechanism.relation, self.unit) == mechanism

    def test_relations_and_units_are_never_mixed(self) -> None:
        for mechanism in self.placed():
            for relation in Relation:
                if relation is not mechanism.relation:
                    with pytest.raises(RelationError):
                        mechanism.under(relation, self.unit)
            assert mechanism.relation is not None
            with pytest.raises(RelationError):
                mechanism.under(mechanism.relation, Unit("household"))

    def test_a_relation_without_a_guarantee_is_refused(self) -> None:
        for relation in set(Relation) - set(self.relations):
            with pytest.raises(RelationError):
                self.make().under(relation, self.unit)

    def test_the_parts_keep_the_claim(self) -> None:
        for mechanism in self.placed():
            assert mechanism.relation is not None
            assert _refusal(partial(check, mechanism.claim(), mechanism.parts(), mechanism.relation)) is None

    def test_failures_add_up_to_the_claims_delta(self) -> None:
        for mechanism in self.placed():
            assert _delta_of_failures(mechanism.failures()) == mechanism.claim().fails

    def test_parameters_have_a_place_in_the_ledger(self) -> None:
        for mechanism in (self.make(), *self.placed()):
            assert _misplaced(dict(mechanism.parameters())) == []

    def test_parts_survive_the_wire(self) -> None:
        for mechanism in self.placed():
            parts = mechanism.parts()
            assert parse_tree(read_json(json.dumps(plain(parts)))) == parts

    def test_its_levels_are_those_of_its_chain_and_grow_finer(self) -> None:
        for mechanism in self.placed():
            if isinstance(mechanism, Refines):
                assert self.level_queries, "say which queries ask for levels"
                levels = [mechanism.level_of(query) for query in self.level_queries]
                chains = list(_chains(mechanism.parts()))
                for coarse, fine in itertools.pairwise(levels):
                    assert coarse is not None
                    assert fine is not None
                    assert is_within(coarse, fine)
                assert all(any(is_within(level, chain.of) for chain in chains) for level in levels if level is not None)

    def test_it_says_what_values_count_as_that_are_no_ordinary_ones(self) -> None:
        """Receipts say it, whatever the data hold: a mechanism that reads data and is silent spends on a surprise."""
        for mechanism in (self.make(), *self.placed()):
            assert isinstance(mechanism, Reads)
            said = mechanism.values_read_as()
            assert said == mechanism.values_read_as()
            assert all(type(sentence) is str and sentence.isprintable() for sentence in said)
            assert any("NaN" in sentence or "missing" in sentence for sentence in said), said

    def test_a_run_adds_outcomes_only(self) -> None:
        for mechanism in self.placed():
            release = self.run(mechanism, self.data_of(mechanism), _SEED)
            assert planned(release.parts) == mechanism.parts()
            assert not release.outside_guarantee

    def test_a_run_is_a_function_of_its_entropy(self) -> None:
        for mechanism in self.placed():
            data = self.data_of(mechanism)
            first, second = (self.run(mechanism, data, _SEED) for _ in range(2))
            assert same_value(first.value, second.value)
            assert first.parts == second.parts
            others = (self.run(mechanism, data, _SEED + i) for i in range(1, 30))
            assert any(not same_value(first.value, other.value) for other in others)

    def test_what_it_samples_is_what_it_releases(self) -> None:
        """Audits draw by `sample`: it gives the values that `release` gives from the same entropy."""
        mechanism = self.placed()[0]
        if isinstance(mechanism, Sampled) and isinstance(mechanism, Mechanism):
            assert agrees(mechanism, self.data_of(mechanism), seed=_SEED, runs=self.sampled_seeds) is None

    def test_all_that_it_draws_is_in_the_log(self) -> None:
        """So the log tells the run: replayed with other entropy, it passes the same values and comes to the same."""
        for mechanism in self.placed():
            data = self.data_of(mechanism)
            with recording() as draws:
                first = self.run(mechanism, data, _SEED)
            for other in (1, 2):
                with replaying(draws) as again:
                    assert same_value(first.value, self.run(mechanism, data, _SEED + other).value)
                assert len(again) == len(draws)
                assert all(same_value(then.value, now.value) for then, now in zip(draws, again, strict=True))

    def test_a_value_that_is_kept_comes_back(self) -> None:
        """What a mechanism says of its value in numbers, in the bytes of a store, is the value again."""
        for mechanism in self.placed():
            if isinstance(mechanism, Keeps):
                value = self.run(mechanism, self.data_of(mechanism), _SEED).value
                data = kept(mechanism.plain_of(value))
                assert data is not None
                assert mechanism.value_of(restored(data)) == value

    def test_data_never_raise(self) -> None:
        for mechanism in self.placed():
            for data in self.bad_data:
                release = self.run(mechanism, data, _SEED)
                assert planned(release.parts) == mechanism.parts()

    def test_what_it_can_use_passes_inspection(self) -> None:
        for mechanism in self.placed():
            if isinstance(mechanism, Inspects):
                for data in (self.data_of(mechanism), *self.bad_data):
                    assert _refusal(partial(mechanism.inspect, data)) is None

    def test_containers_of_a_wrong_kind_are_refused_before_the_run(self) -> None:
        for mechanism in self.placed():
            for data in self.bad_containers:
                assert isinstance(mechanism, Inspects)
                with pytest.raises(ParameterError) as refusal:
                    mechanism.inspect(data)
                assert refusal.value.field == "data"
                with pytest.raises(ParameterError):
                    self.run(mechanism, data, _SEED)
                if isinstance(mechanism, Sampled):
                    with pytest.raises(ParameterError):
                        mechanism.sample(data, 2, seeded(_SEED))

    def test_bad_parameters_raise(self) -> None:
        assert self.bad_parameters, "name the parameters that it refuses"
        for changes in self.bad_parameters:
            with pytest.raises(ParameterError) as refusal:
                self.make(**changes)
            assert any(name in str(refusal.value) for name in changes), (changes, str(refusal.value))

    def test_unknown_parameters_raise(self) -> None:
        is_ours = type(self.make()).__module__.startswith("dpledger.")
        with pytest.raises(ParameterError if is_ours else TypeError, match="no_such_parameter"):  # Python's, of others
            self.make(no_such_parameter=1)


def same_value(left: object, right: object) -> bool:
    """Whether two released values are equal, arrays entry by entry."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return bool(np.array_equal(np.asarray(left), np.asarray(right)))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return left == right


def _chains(tree: Composition) -> Iterator[Chain]:
    if isinstance(tree, Chain):
        yield tree
    for part in children(tree):
        yield from _chains(part)


def _delta_of_failures(failures: tuple[Failure, ...]) -> Decimal:
    return total(failure.delta for failure in failures if isinstance(failure, PrivacyFailure))


def _misplaced(value: object) -> list[object]:
    """What is no text, no boolean, no integer below 2^53 in size, no list of those and no object with plain keys: no
    float, no null."""
    if isinstance(value, dict):
        keys = [key for key in value if not isinstance(key, str) or not _KEY.fullmatch(key)]
        return keys + [one for item in value.values() for one in _misplaced(item)]
    if isinstance(value, list):
        return [one for item in value for one in _misplaced(item)]
    fits = abs(value) < 2**53 if type(value) is int else isinstance(value, (str, bool))
    return [] if fits else [value]


def _refusal(call: Callable[[], None]) -> Exception | None:
    """What a call raised."""
    try:
        call()
    except Exception as error:
        return error
    return None
