"""Gradual means of rows: how far a unit moves them, what is noisy, and that finer levels come closer."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.numeric.rows import count_is_public
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.refinement import GradualMean
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

NAN, INF = float("nan"), float("inf")


def opened(mechanism: Any, data: object, seed: int = 1) -> Any:
    return mechanism.open(data, entropy=seeded(seed))


class TestGradualMean(MechanismConformance):
    relations = tuple(Relation)
    good_data: ClassVar[object] = [1.0, 2.5, 30]
    level_queries: ClassVar[tuple[object, ...]] = ("0.1", 0.25, Fraction(1, 2), 1)
    bad_data: ClassVar[tuple[object, ...]] = (
        [],
        [NAN, INF, None, "x", 10**400],
        np.array(["a"]),
        pd.Series([1, None], dtype="Int64"),
        range(3),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (None, 5, "text", {1, 2}, iter([1, 2]), np.zeros((3, 2)))
    bad_parameters = (
        *({"epsilon": value} for value in (0, -1, NAN, INF, "x", None, "1e-61", 10**18, True)),
        *({"upper": value} for value in (-1, NAN, None)),
        *({"missing": value} for value in (-1, 11, NAN)),
        *({"grid": value} for value in (0, 3, "0.3", 2.0**-60)),
    )

    def make(self, **changes: Any) -> Any:
        return GradualMean(**{"epsilon": 2, "lower": 0, "upper": 10, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = opened(mechanism, data, seed)
        for query in self.level_queries:
            run.ask(query)
        release: Release[Any] = run.close()
        return release


entries = st.one_of(st.floats(-20, 20), st.sampled_from([NAN, INF, None, "x", 10**400]))
MEAN = GradualMean(epsilon=2, lower=-3, upper=5, missing=1)


@given(
    rows=st.lists(entries, max_size=8),
    own=st.lists(entries, min_size=1, max_size=3),
    others=st.lists(entries, min_size=3, max_size=3),
    relation=st.sampled_from(Relation),
)
@settings(max_examples=200, deadline=None)
def test_a_unit_moves_sum_and_count_of_a_mean_by_no_more_than_its_sensitivity(
    rows: list[object], own: list[object], others: list[object], relation: Relation
) -> None:
    unit = Unit("patient", max_contributions=len(own))
    mechanism = MEAN.under(relation, unit)
    changed = rows if relation is Relation.ADD_REMOVE else rows + others[: len(own)]
    moved = abs(mechanism._steps(rows + own) - mechanism._steps(changed))
    sensitivity = Fraction(mechanism._sensitivity.value) / Fraction(mechanism._grid)
    public = relation is Relation.LABEL_FLIP or (relation is Relation.REPLACE_ONE and len(own) == 1)
    assert (moved[0] if public else moved.sum()) <= sensitivity
    if public:
        assert moved[1] == 0


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("relation", list(Relation), ids=str)
def test_the_sensitivity_is_reached_and_never_passed(relation: Relation, most: int) -> None:
    """Every unit of up to `most` rows at the ends and the centre of the range, against every other one. Found: three
    times the reach a row was declared where two will do."""
    mechanism = GradualMean(epsilon=2, lower=-1, upper=1).under(relation, Unit("patient", max_contributions=most))
    units = [list(own) for size in range(most + 1) for own in itertools.product((-1, 0, 1), repeat=size)]
    moved = []
    for own, other in itertools.product(units, repeat=2):
        match relation:
            case Relation.ADD_REMOVE:
                is_pair = not other
            case Relation.LABEL_FLIP:
                is_pair = len(own) == len(other)
            case Relation.REPLACE_ONE:
                is_pair = most > 1 or len(own) == len(other) == 1
            case Relation.ZERO_OUT:  # of null rows, as many or none
                is_pair = not any(other)
        if is_pair:
            steps = abs(mechanism._steps([0.5, *own]) - mechanism._steps([0.5, *other]))
            moved.append(int(steps[0] if count_is_public(relation, mechanism.unit) else steps.sum()))
    assert max(moved) * Fraction(mechanism._grid) == Fraction(mechanism._sensitivity.value) == 2 * most


@pytest.mark.parametrize("relation", list(Relation))
def test_a_mean_comes_closer_to_that_of_the_clipped_rows(relation: Relation) -> None:
    rows = [-10.0, 0.0, 2.0, NAN, 100.0] * 400  # clipped: -3, 0, 2, 1, 5
    mechanism = MEAN.under(relation, Unit("patient"))
    runs = [opened(mechanism, rows, seed) for seed in range(40)]
    errors = np.array([[abs(run.ask(level) - 1.0) for level in ("0.02", "0.2", 2)] for run in runs])
    assert (np.diff(np.median(errors, axis=0)) < 0).all()
    assert np.median(errors[:, 2]) < 0.01


def test_a_mean_of_a_public_number_of_rows_draws_for_the_sum_alone() -> None:
    sizes = {}
    for relation in Relation:
        with recording() as log:
            opened(MEAN.under(relation, Unit("patient")), [1, 2, 3]).ask(1)
        sizes[relation] = np.asarray(log[0].output).size
    public = {Relation.REPLACE_ONE, Relation.LABEL_FLIP}
    assert sizes == {relation: 1 if relation in public else 2 for relation in Relation}
