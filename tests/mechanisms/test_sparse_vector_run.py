"""A sparse vector run: what it answers, when it halts, what it records, and that data never raise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure, PureDP
from dpledger.decimals import multiply
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.noise import Draw, recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.threshold import AnswerCounts, Outcome, SparseVector
from dpledger.mechanisms.threshold.sparse_vector import ASSUMES
from dpledger.mechanisms.threshold.threshold_run import Number
from dpledger.relations import Relation, Unit
from logged_draws import declared
from mechanism_conformance import MechanismConformance

ABOVE, BELOW = Outcome.ABOVE, Outcome.BELOW
LOUD: dict[str, Any] = {"epsilon": 1000, "cutoff": 2, "threshold": 10, "sensitivity": 1}  # noise far below one


def each(field: str, *values: object) -> list[dict[str, object]]:
    """One change of the parameters for each value."""
    return [{field: value} for value in values]


WITHOUT_DELTA: list[dict[str, object]] = [
    {"mode": mode, "delta": 0} for mode in ("kov", "dr14", "zcdp", "target_charging")
]
BAD: tuple[dict[str, object], ...] = (
    *each("epsilon", 0, -1, "nan", "inf", float("nan"), float("inf"), None, "x"),
    *each("cutoff", 0, -1, 1.5, "3", True, 2**31),
    *each("threshold", "nan", float("inf"), None),
    *each("delta", -0.1, 0.5, 1, "nan"),
    *each("sensitivity", 0, -1, "nan", float("inf")),
    *each("grid", 0, -1, 0.3, "nan"),
    *each("max_queries", 0, -1, 2.5),
    *each("mode", "best", "", 3),
    *each("charged", "both", True),
    *each("missing", "left", 0),
    *each("share", 0, 1, "1.5", "nan"),
    {"share": "0.5", "mode": "basic"},
    *each("monotone", 1, "yes", None),
    *WITHOUT_DELTA,
)


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    good_data = (0, 1, 2, 3)
    bad_data = (None, float("nan"), "text", (float("inf"),))
    bad_parameters = BAD
    changes: ClassVar[dict[str, Any]]

    def make(self, **changes: Any) -> Any:
        return SparseVector(**{"epsilon": 1, "cutoff": 3, "threshold": 2, "sensitivity": 1, **self.changes, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        for value in (lambda rows: len(rows) if isinstance(rows, tuple) else math.nan, 2, 3, -1, 2, 2):
            try:
                run.ask(value)
            except Halted:
                break
        release: Release[Any] = run.close()
        return release


class TestPure(_Conformance):
    changes: ClassVar[dict[str, Any]] = {}


class TestMonotone(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"monotone": True, "share": "0.4"}


class TestApproximate(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"delta": "0.000001", "cutoff": 20}


class TestRefreshed(_Conformance):
    changes: ClassVar[dict[str, Any]] = {"delta": "0.000001", "cutoff": 20, "mode": "kov"}


# ---- what it promises -----------------------------------------------------------------------------------------------


def test_pure_modes_promise_epsilon_alone_even_where_a_delta_is_given() -> None:
    for mode in ("single_threshold", "basic"):
        tests = SparseVector(epsilon=1, cutoff=3, threshold=0, delta="0.001", mode=mode, sensitivity=1)
        assert tests.claim() == PureDP(1)
        assert tests.failures() == ()


def test_other_modes_promise_a_delta_of_composition() -> None:
    tests = SparseVector(epsilon=1, cutoff=30, threshold=0, delta="0.000001", sensitivity=1)
    assert tests.claim() == ApproxDP(1, "0.000001")
    assert tests.failures() == (PrivacyFailure("0.000001", "composition"),)


def test_under_fixes_the_mode_and_the_grid() -> None:
    ready = SparseVector(epsilon=1, cutoff=30, threshold=0, delta="0.000001", sensitivity=1).under(
        Relation.ZERO_OUT, Unit("user")
    )
    assert ready.mode == "target_charging"
    assert ready.grid == Decimal(2) ** -10
    assert ready.parts() == SparseVector(epsilon=1, cutoff=30, threshold=0, delta="0.000001", sensitivity=1).parts()


def test_half_of_epsilon_on_the_threshold_is_the_split_of_above_threshold() -> None:
    law = SparseVector(epsilon=2, cutoff=1, threshold=0, share="0.5", charged="above", sensitivity=1).parts()
    assert [law.threshold_scale, law.query_scale] == [1, 2]
    assert SparseVector(epsilon=2, cutoff=1, threshold=0, sensitivity=1).parts() == (
        SparseVector(epsilon=2, cutoff=1, threshold=0, share="0.281", sensitivity=1).parts()
    )


def test_a_share_counts_where_the_mode_divides_epsilon() -> None:
    tests = SparseVector(epsilon=1, cutoff=30, threshold=0, delta="0.000001", share="0.1", sensitivity=1)
    assert tests.parts().mode == "target_charging"
    ready = tests.under(Relation.ADD_REMOVE, Unit("user"))
    assert (ready.mode, ready.share) == ("target_charging", None)
    assert ready.parts() == tests.parts()


def test_monotone_queries_are_declared_in_the_record_and_halve_the_noise() -> None:
    plain = SparseVector(epsilon=1, cutoff=3, threshold=0, share="0.5", sensitivity=1)
    counts = SparseVector(epsilon=1, cutoff=3, threshold=0, share="0.5", monotone=True, sensitivity=1)
    assert counts.parts().query_scale * 2 == plain.parts().query_scale
    assert counts.parts().monotone
    assert counts.parameters()["assumes"] == ASSUMES
    assert not {"monotone", "assumes"} & set(plain.parameters())
    assert counts.claim() == PureDP(1)


# ---- what it answers ------------------------------------------------------------------------------------------------


def test_it_answers_numbers_and_functions_of_the_data() -> None:
    run = SparseVector(**LOUD).open([1.0] * 20, entropy=seeded(1))
    assert [run.ask(len), run.ask(11.5), run.ask(sum), run.ask(Fraction(21, 2)), run.ask(np.float32(11))] == [ABOVE] * 5
    assert [run.ask(np.int64(8)), run.ask(lambda rows: max(rows))] == [BELOW, BELOW]


def never_called(_: Any) -> float:
    raise AssertionError("a query was evaluated after the halt")


def test_it_halts_at_the_cutoff_and_then_draws_nothing() -> None:
    entropy = Counting()
    run = SparseVector(**LOUD).open(None, entropy=entropy)
    assert [run.ask(0), run.ask(20), run.ask(0)] == [BELOW, ABOVE, BELOW]
    drawn = entropy.drawn
    with pytest.raises(Halted):
        run.ask(never_called)
    assert entropy.drawn == drawn
    release = run.close()
    assert release.value == AnswerCounts(asked=3, above=1, below=2, halted=True)
    assert outcome(release) == SparseVectorOutcome(closed_epochs=(1, 2), open_epoch=0, halted=True)
    assert run.close() is release


def test_it_halts_after_max_queries() -> None:
    run = SparseVector(**LOUD, max_queries=2).open(None, entropy=seeded(1))
    assert [run.ask(20), run.ask(20)] == [ABOVE, ABOVE]
    with pytest.raises(Halted):
        run.ask(20)
    release = run.close()
    assert release.value == AnswerCounts(asked=2, above=2, below=0, halted=True)
    assert outcome(release) == SparseVectorOutcome(closed_epochs=(), open_epoch=2, halted=False)


def test_a_closed_run_answers_nothing() -> None:
    run = SparseVector(**LOUD).open(None, entropy=seeded(1))
    run.close()
    with pytest.raises(Halted):
        run.ask(20)


def test_the_charged_side_can_be_above() -> None:
    run = SparseVector(**LOUD, charged="above").open(None, entropy=seeded(1))
    assert [run.ask(0), run.ask(0), run.ask(20), run.ask(0), run.ask(20)] == [BELOW, BELOW, ABOVE, BELOW, ABOVE]
    release = run.close()
    assert release.value == AnswerCounts(asked=5, above=2, below=3, halted=True)
    assert outcome(release) == SparseVectorOutcome(closed_epochs=(3, 2), open_epoch=0, halted=True)


@given(values=st.lists(st.integers(-5, 5), max_size=12), seed=st.integers(0, 100))
@settings(max_examples=40)
def test_charging_above_is_charging_below_of_the_mirror_image(values: list[int], seed: int) -> None:
    """On whole values of the grid, with the same words, the free and the charged answers are the same ones."""
    plan: dict[str, Any] = {"epsilon": 2, "cutoff": 3, "grid": 1, "sensitivity": 1}
    below = SparseVector(threshold=1, **plan).open(None, entropy=seeded(seed))
    above = SparseVector(threshold=-1, charged="above", **plan).open(None, entropy=seeded(seed))
    for value in values[:3]:
        assert (below.ask(value) is ABOVE) is (above.ask(-value) is BELOW)
    assert below.close().parts == above.close().parts


# ---- data never raise, the caller's code may ------------------------------------------------------------------------

EXTREMES: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    5e-324,
    10**400,
    Decimal("-1e500"),
    np.float64("nan"),
    True,
]


@pytest.mark.parametrize("missing", ["below", "above"])
@pytest.mark.parametrize("charged", ["below", "above"])
def test_every_number_has_an_answer(missing: str, charged: str) -> None:
    plan: dict[str, Any] = {**LOUD, "cutoff": 50, "missing": missing, "charged": charged}
    run = SparseVector(**plan).open(None, entropy=seeded(2))
    answers = [run.ask(value) for value in EXTREMES]
    of_nan = Outcome(missing)
    assert answers == [of_nan, ABOVE, BELOW, ABOVE, BELOW, BELOW, ABOVE, BELOW, of_nan, BELOW]
    assert not run.close().outside_guarantee


def secret_failure(data: Any) -> float:
    raise ValueError(f"the secret is {data}")


class Panic(BaseException):
    """What some libraries raise when they break: no Exception."""


def panics(data: str) -> float:
    raise Panic(f"a record of {data}")


@pytest.mark.parametrize(
    "query",
    [secret_failure, panics, lambda data: None, lambda data: "12", lambda data: 1j, lambda data: [1.0], None, "12"],
    ids=["raises", "panics", "none", "text", "complex", "list", "no query", "no number"],
)
def test_a_query_that_breaks_its_contract_ends_the_run_at_its_cap(query: Any) -> None:
    entropy = Counting()
    run = SparseVector(**LOUD).open("classified", entropy=entropy)
    run.ask(20)
    drawn = entropy.drawn
    with pytest.raises(ContractViolation) as violation:
        run.ask(query)
    assert entropy.drawn == drawn, "no noise is drawn for it"
    assert "classified" not in str(violation.value)
    assert violation.value.__cause__ is None
    assert violation.value.__context__ is None
    release = run.close()
    assert release.outside_guarantee
    assert release.parts == SparseVector(**LOUD).parts(), "without an outcome: charged at the cap"
    with pytest.raises(Halted):
        run.ask(20)


def test_a_query_that_closes_the_run_gets_no_answer() -> None:
    run = SparseVector(**LOUD).open(None, entropy=seeded(3))

    def query(_: Any) -> float:
        run.close()
        return 20.0

    with pytest.raises(Halted):
        run.ask(query)


# ---- what it draws --------------------------------------------------------------------------------------------------


def draws_of(mechanism: SparseVector, values: Sequence[Number]) -> list[Draw]:
    with recording() as draws:
        run = mechanism.open(None, entropy=seeded(4))
        for value in values:
            run.ask(value)
    return draws


@pytest.mark.parametrize(
    ("mode", "thresholds"), [("single_threshold", 1), ("target_charging", 0), ("basic", 2), ("kov", 2)]
)
def test_the_threshold_is_drawn_once_an_epoch(mode: str, thresholds: int) -> None:
    """Four queries: free, charged, free, charged. Nothing is drawn after the last charge."""
    mechanism = SparseVector(**{**LOUD, "mode": mode, "delta": "0.001"})
    draws = draws_of(mechanism, [20.0, 0.0, 20.0, 0.0])
    scales = [draw.law.scale for draw in draws if hasattr(draw.law, "scale")]
    leaf = mechanism.parts()
    steps = declared(draws[0]).value
    assert scales.count(multiply(leaf.threshold_scale, steps)) == thresholds
    assert scales.count(multiply(leaf.query_scale, steps)) == 4
    assert len(draws) == thresholds + 4


@given(
    value=st.floats(-1e6, 1e6),
    move=st.floats(-1, 1),
    sensitivity=st.sampled_from(["1", "0.3", "7"]),
    grid=st.sampled_from([None, 1, 4, "0.125"]),
)
def test_a_query_never_moves_further_than_is_declared(value: float, move: float, sensitivity: str, grid: Any) -> None:
    """In whole steps, for queries that keep their sensitivity exactly (as rational numbers)."""
    mechanism = SparseVector(epsilon=1, cutoff=1, threshold=0, sensitivity=sensitivity, grid=grid)
    neighbour = Fraction(value) + Fraction(move) * Fraction(Decimal(sensitivity))
    left, right = (draws_of(mechanism, [number])[-1] for number in (Fraction(value), neighbour))
    assert abs(int(left.value) - int(right.value)) <= declared(left).value


def test_a_threshold_off_the_grid_is_rounded_up() -> None:
    draws = draws_of(SparseVector(epsilon=1, cutoff=1, threshold="2.1", grid=1, sensitivity=1), [0.0])
    assert draws[0].value == 3


def test_a_run_does_not_pickle_and_shows_no_data() -> None:
    run = SparseVector(**LOUD).open("classified", entropy=seeded(1))
    assert repr(run) == str(run) == "<SparseVectorRun: 0 asked>"
    with pytest.raises(TypeError):
        run.__reduce__()


def test_positional_parameters_are_epsilon_cutoff_threshold_sensitivity_delta() -> None:
    assert SparseVector(1, 2, 3, 1, "0.01") == SparseVector(
        epsilon=1, cutoff=2, threshold=3, delta="0.01", sensitivity=1
    )


def test_a_grid_that_is_no_power_of_two_names_itself() -> None:
    with pytest.raises(ParameterError, match=r"SparseVector\.grid"):
        SparseVector(epsilon=1, cutoff=1, threshold=0, grid="0.3", sensitivity=1)


class Counting:
    """Seeded entropy that counts the words it hands out."""

    def __init__(self) -> None:
        self._source = seeded(7)
        self.drawn = 0

    def words(self, count: int, /) -> Words:
        self.drawn += count
        return self._source.words(count)


def outcome(release: Release[AnswerCounts]) -> SparseVectorOutcome | None:
    """The outcome in the leaf of a release."""
    assert isinstance(release.parts, SparseVectorLaw)
    return release.parts.outcome
