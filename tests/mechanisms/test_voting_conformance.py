"""Mechanisms over the votes of an ensemble do what every mechanism must."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Group
from dpledger.accounting.guarantees import ApproxDP
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.voting import PrivateClassifier, SampleAndAggregate
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance
from voting_models import spread, threshold

pytestmark = pytest.mark.sliced

ADD, REPLACE, ZERO, FLIP = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP
RECORD = Unit("record")
SALT = Hashed("salt")


EVERYBODY = {relation: spread(61) for relation in Relation} | {ADD: spread(61, "random", unsafe_entropy=seeded(1))}


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

    def make(self, **changes: Any) -> Any:
        given: dict[str, Any] = {"epsilon": 8, "delta": "1e-4", "chunks": 61, "cutoff": 2, **self.changes, **changes}
        return self.kind(**given)

    def data_of(self, mechanism: Any) -> object:
        return EVERYBODY[mechanism.relation]

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        run.ask(60.0)
        run.ask_many([2.0, 55.0, 52.0, 50.0, 47.0, 45.0, 43.0, 41.0, 40.0, 39.0, 38.0, 37.0])
        release: Release[Any] = run.close()
        return release


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

    def data_of(self, mechanism: Any) -> object:
        return HASHED

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
