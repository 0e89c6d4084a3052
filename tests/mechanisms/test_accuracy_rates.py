"""Accuracy first by an error rate: what it counts, how far one row moves that, its promise, and what it saves."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from dpledger.accounting.guarantees import AccuracyFailure, PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.refinement.accuracy_first import AccuracyFirst, _run_of
from dpledger.mechanisms.refinement.erm.logistic import LogisticExamples
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

Floats = npt.NDArray[np.float64]

ROWS = 40
X: Floats = np.linspace(-0.4, 0.3, ROWS * 3).reshape(ROWS, 3)
COMMON: dict[str, Any] = {"family": "logistic", "dimension": 2, "regularisation": "0.01"}


class TestConforms(MechanismConformance):
    relations = tuple(Relation)
    good_data = (X, X[:, 0])
    bad_data = ((np.full((ROWS, 3), np.nan), X[:, 0]), ([[None, "x", float("inf")]] * ROWS, ["yes"] * ROWS))
    bad_containers = (None, X, (X, X[:-1, 0]))
    bad_parameters = (
        {"target_error_rate": 0},
        {"target_error_rate": 1},
        {"target_error_rate": "nan"},
        {"target_error_rate": "0.0001"},
        {"target_error_rate": None},
        {"target_excess_risk": "0.4"},
        {"error_margin": "0.5"},
        {"error_margin": 0},
        {"family": "ridge"},
        {"target_error_rate": None, "target_excess_risk": "0.4", "error_margin": "0.1"},
    )

    def make(self, **changes: Any) -> Any:
        asked = {"target_error_rate": "0.5", "levels": 20, **COMMON, "dimension": 3, "rows": ROWS}
        return AccuracyFirst(**{**asked, **changes})


def mistakes(signed: Floats, theta: Floats) -> int:
    risk = _run_of(AccuracyFirst(**COMMON, rows=1000, target_error_rate="0.2")).problem
    count: Any = risk.mistakes(LogisticExamples(signed=signed))  # type: ignore[arg-type]
    return int(count(theta))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 70))
def test_a_row_is_right_or_wrong_whatever_the_others_are(seed: int, rows: int) -> None:
    """So that one row moves the number by one: of rows near the border too, where a sum's order decides."""
    rng = np.random.default_rng(seed)
    theta, signed = rng.normal(size=9), rng.normal(size=(rows, 9)) * 10.0 ** rng.integers(-8, 8, (rows, 9))
    signed[:, 0] = -(signed[:, 1:] @ theta[1:]) / theta[0]
    each = [mistakes(row[None], theta) for row in signed]
    assert mistakes(signed, theta) == sum(each)
    assert mistakes(np.asfortranarray(signed[::-1]), theta) == sum(each)


def test_what_is_on_the_border_is_wrong() -> None:
    assert mistakes(np.zeros((3, 2)), np.ones(2)) == 3
    assert mistakes(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2)) == 1


def made_up(rows: int, seed: int) -> tuple[Floats, Floats]:
    """Labels that the best line gets wrong in 4 % of rows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-0.5, 0.5, (rows, 2))
    right = rng.random(rows) > 0.04
    return x, np.where((x @ [1.0, -0.7] > 0) == right, 1.0, -1.0)


def share_of_mistakes(theta: object, data: tuple[Floats, Floats]) -> float:
    x, y = data
    return float(np.mean((x @ np.array(theta) > 0) != (y > 0)))


def test_what_passes_errs_on_no_more_than_was_asked() -> None:
    """Of 60 runs near the edge: as often as beta allows, by an exact limit."""
    data = made_up(2000, 3)
    search = AccuracyFirst(**COMMON, rows=2000, target_error_rate="0.08", error_margin="0.03", beta="0.1")
    search = search.under(Relation.REPLACE_ONE, Unit())
    found = [search.release(data, entropy=seeded(seed)).value for seed in range(60)]
    passed = [one for one in found if one.reached]
    assert len(passed) > 20
    failed = sum(share_of_mistakes(one.theta, data) > 0.08 for one in passed)
    assert binom.sf(failed - 1, 60, 0.1) > 1e-6
    (promise,) = search.failures()
    assert isinstance(promise, AccuracyFailure)
    assert "share of mistakes" in str(promise)


def test_a_rate_below_what_any_line_reaches_does_not_pass() -> None:
    data = made_up(2000, 3)
    search = AccuracyFirst(**COMMON, rows=2000, target_error_rate="0.03").under(Relation.REPLACE_ONE, Unit())
    assert not any(search.release(data, entropy=seeded(seed)).value.reached for seed in range(10))


@pytest.mark.parametrize("relation", Relation, ids=str)
def test_the_check_of_a_rate_is_cheaper_than_that_of_a_risk(relation: Relation) -> None:
    """One row moves a share of mistakes by 1/n; an excess risk by several times that, the largest loss."""
    by_risk = AccuracyFirst(**COMMON, rows=20_000, target_excess_risk="0.02").under(relation, Unit())
    by_rate = AccuracyFirst(**COMMON, rows=20_000, target_error_rate="0.08", error_margin="0.02").under(
        relation, Unit()
    )
    assert by_rate.parameters()["query_sensitivity"] == "1"
    checks = [one.plan().check_epsilon for one in (by_risk, by_rate)]
    assert checks[1] < checks[0] / 2
    assert by_rate.plan().check_epsilon < Decimal("0.2")


def test_it_runs_in_a_scope() -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=PureDP(20))
    search = AccuracyFirst(**COMMON, rows=2000, target_error_rate="0.1").within(20)
    receipt = scope.release(search, made_up(2000, 1), key="line")
    assert receipt.value.reached
    assert share_of_mistakes(receipt.value.theta, made_up(2000, 1)) <= 0.1
    assert scope.spent(0).upper < float(search.plan().cap)
    with pytest.raises(ParameterError, match="target_error_rate"):
        AccuracyFirst("ridge", 2000, 2, "0.1", target_error_rate="0.1")
