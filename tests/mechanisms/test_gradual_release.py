"""Gradual releases behave as every mechanism must, and answer ever more precisely for the price of the last answer."""

from __future__ import annotations

import math
import pickle
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.chains import Chain
from dpledger.accounting.composition import DiscreteLaplaceLaw, GaussianLaw, LaplaceLaw
from dpledger.accounting.ex_post.boundaries import LinearBoundary, MixtureBoundary
from dpledger.accounting.guarantees import GDP, ApproxDP, PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.profile import compose
from dpledger.errors import Halted, ParameterError
from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.noise import (
    DiscreteLaplace,
    Draw,
    Refinement,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    recording,
)
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.refinement import GradualGaussian, GradualRelease
from dpledger.relations import Relation, Unit
from forking import ignores_fork_warnings, in_child
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

NAN, INF = float("nan"), float("inf")
ODD_VALUES: tuple[object, ...] = (
    *(NAN, INF, -INF, Decimal("sNaN"), 10**400, True, np.int8(-3), np.uint64(2**64 - 1), np.array(3.0), 1e308),
    *(Fraction(1, 3), Decimal("1e999"), 5e-324, np.longdouble("1e4000"), np.array("a"), np.complex128(1j)),
)
NO_NUMBERS: tuple[object, ...] = (None, "3", [], [1.0, 2.0], {}, 1j, np.array([1.0, 2.0]), pd.Series([1.0]), iter([1]))
NO_POSITIVES: tuple[object, ...] = (0, -1, NAN, INF, -INF, "nan", "", "one", None, "1e-61", 10**18, [], True)
VECTOR = [3.5, -2.25, 1e9]
ODD_VECTORS: tuple[object, ...] = (
    [NAN, 10**400, None],
    ("a", 1j, Decimal("sNaN")),
    np.array([2**63, 1, 0], dtype=np.uint64),
    np.array([np.inf, -np.inf, 0.0], dtype=np.float32),
    pd.Series([1, None, 3], dtype="Int64"),
)
NO_VECTORS: tuple[object, ...] = (None, 3, "abc", [1, 2], np.zeros((3, 1)), {1, 2, 3}, iter([1, 2, 3]))


def refused(field: str, *values: object) -> tuple[dict[str, object], ...]:
    return tuple({field: value} for value in values)


class _Gradual(MechanismConformance):
    relations = tuple(Relation)
    unit = Unit("patient")
    good_data: ClassVar[object] = 1234
    bad_data: ClassVar[tuple[object, ...]] = ODD_VALUES
    bad_containers: ClassVar[tuple[object, ...]] = NO_NUMBERS
    level_queries: ClassVar[tuple[object, ...]] = ("0.1", 0.25, Fraction(1, 2), 1)

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        for query in self.level_queries:
            run.ask(query)
        release: Release[Any] = run.close()
        return release


SHARED_BAD: tuple[dict[str, object], ...] = (
    *refused("sensitivity", *NO_POSITIVES),
    *refused("dimension", 0, -1, 1.5, "3", True),
    *refused("grid", *NO_POSITIVES[:-5], 3, "0.3"),
    *refused("bound", 0, NAN),
    {"missing": 5, "bound": 4},
    *refused("justification", "", "x" * 501, 3),
    *refused("relation", "neighbours", 3),
    *refused("unit", 3),
)


class TestGradualRelease(_Gradual):
    bad_parameters = (
        *SHARED_BAD,
        *refused("epsilon", *NO_POSITIVES),
        *refused("whole", 1, "yes", None),
        {"whole": True, "sensitivity": "1.5"},
        {"whole": True, "grid": "0.5"},
    )

    def make(self, **changes: Any) -> Any:
        return GradualRelease(**{"epsilon": 2, "sensitivity": 1, **changes})


class TestWhole(_Gradual):
    bad_parameters = (*refused("epsilon", *NO_POSITIVES), {"sensitivity": "0.5"})

    def make(self, **changes: Any) -> Any:
        return GradualRelease(**{"epsilon": 2, "whole": True, "sensitivity": 3, **changes})


class TestVector(_Gradual):
    good_data = VECTOR
    bad_data = ODD_VECTORS
    bad_containers = NO_VECTORS
    bad_parameters = SHARED_BAD

    def make(self, **changes: Any) -> Any:
        return GradualRelease(**{"epsilon": 2, "sensitivity": 1, "dimension": 3, **changes})


class TestWholeVector(TestVector):
    bad_parameters = ({"sensitivity": "0.5"},)

    def make(self, **changes: Any) -> Any:
        return GradualRelease(**{"epsilon": 2, "sensitivity": 1, "dimension": 3, "whole": True, **changes})


class TestGradualGaussian(_Gradual):
    bad_parameters = (*SHARED_BAD, *refused("mu", *NO_POSITIVES), *refused("boundary", "linear", 3, {"kind": "x"}))

    def make(self, **changes: Any) -> Any:
        return GradualGaussian(**{"mu": 2, "sensitivity": 1, **changes})


class TestGaussianVector(_Gradual):
    good_data = VECTOR
    bad_data = ODD_VECTORS
    bad_containers = NO_VECTORS
    bad_parameters = SHARED_BAD

    def make(self, **changes: Any) -> Any:
        return GradualGaussian(**{"mu": 2, "sensitivity": 1, "dimension": 3, **changes})


class TestBounded(_Gradual):
    bad_parameters = refused("mu", *NO_POSITIVES, "1e10", "1e17", "1e-50")

    def make(self, **changes: Any) -> Any:
        return GradualGaussian(
            **{"mu": 2, "sensitivity": 1, "boundary": LinearBoundary(tuning=1, delta="1e-6"), **changes}
        )


def opened(mechanism: Any, data: object = 100, seed: int = 1) -> Any:
    return mechanism.open(data, entropy=seeded(seed))


BOTH: list[Any] = [
    GradualRelease(epsilon=2, sensitivity=1),
    GradualRelease(epsilon=2, whole=True, sensitivity=1),
    GradualGaussian(mu=2, sensitivity=1),
]


# ---- what is answered -----------------------------------------------------------------------------------------------


def test_an_answer_has_the_form_of_the_statistic() -> None:
    assert type(opened(GradualRelease(epsilon=2, sensitivity=1)).ask(1)) is float
    assert type(opened(GradualRelease(epsilon=2, whole=True, sensitivity=1)).ask(1)) is int
    assert type(opened(GradualRelease(epsilon=2, whole=True, bound=10**17, sensitivity=1), 10**30).ask(1)) is int
    assert type(opened(GradualGaussian(mu=2, sensitivity=1)).ask(1)) is float
    whole = opened(GradualRelease(epsilon=2, whole=True, dimension=3, sensitivity=1), [1, 2, 3]).ask(1)
    assert (whole.dtype, whole.shape) == (np.int64, (3,))
    for kind in (
        GradualRelease(epsilon=2, dimension=3, sensitivity=1),
        GradualGaussian(mu=2, dimension=3, sensitivity=1),
    ):
        found = opened(kind, VECTOR).ask(1)
        assert (found.dtype, found.shape) == (np.float64, (3,))


def test_an_answer_that_the_caller_changes_changes_none_that_comes() -> None:
    mechanism = GradualGaussian(mu=2, dimension=2, sensitivity=1)
    one, other = opened(mechanism, [0, 0]), opened(mechanism, [0, 0])
    one.ask(1)[:] = 10**9
    other.ask(1)
    assert np.array_equal(one.ask(2), other.ask(2))


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_level_that_is_not_finer_or_beyond_the_cap_is_refused_before_anything_is_drawn(mechanism: Any) -> None:
    counted = _Counted()
    run = mechanism.open(5, entropy=counted)
    for query in ("2.000001", 3, 0, -1, NAN, "x", None, math.inf):
        with pytest.raises(ParameterError, match=mechanism.measure):
            run.ask(query)
    assert counted.words_drawn == 0
    run.ask("0.5")
    drawn = counted.words_drawn
    for query in ("0.5", "0.25"):
        with pytest.raises(ParameterError, match="finer"):
            run.ask(query)
    assert (counted.words_drawn, run.level) == (drawn, Decimal("0.5"))
    assert run.close().parts.reached == mechanism.level_of("0.5")


def test_two_levels_of_the_same_noise_are_not_told_apart() -> None:
    run = opened(GradualRelease(epsilon=1, grid=1, sensitivity=1))
    run.ask("0.3")
    with pytest.raises(ParameterError, match="epsilon"):
        run.ask("0.3000000000000000000001")
    assert run.close().parts.reached == LaplaceLaw("0.3")


@pytest.mark.parametrize("mechanism", BOTH)
def test_closed_before_the_first_level_it_reached_nothing(mechanism: Any) -> None:
    counted = _Counted()
    run = mechanism.open(5, entropy=counted)
    release = run.close()
    assert (release.value, release.parts.reached, counted.words_drawn) == (None, PureDP(0), 0)
    assert run.close() is release
    with pytest.raises(Halted):
        run.ask(1)


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_last_answer_is_the_value(mechanism: Any) -> None:
    run = opened(mechanism)
    answers = [run.ask(level) for level in ("0.5", "1", "1.5")]
    assert run.close().value == answers[-1]


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_run_does_not_pickle_and_shows_nothing(mechanism: Any) -> None:
    run = opened(mechanism, 987654321)
    with pytest.raises(TypeError):
        pickle.dumps(run)
    assert repr(run) == str(run) == "<GradualRun: nothing asked>"
    run.ask("0.50")
    run.close()
    assert repr(run) == f"<GradualRun: at {mechanism.measure} 0.5, closed>"


@ignores_fork_warnings
@pytest.mark.parametrize("mechanism", BOTH)
def test_in_a_forked_child_a_run_answers_nothing(mechanism: Any) -> None:
    run = opened(mechanism)
    run.ask("0.5")
    for act in (lambda: run.ask(1), run.close):
        assert in_child(act).startswith("ForkedProcess: a gradual release")
    assert run.ask(1) == run.close().value


@pytest.mark.parametrize("mechanism", BOTH)
def test_threads_share_a_run_and_each_level_is_answered_once(mechanism: Any) -> None:
    run, answered = opened(mechanism), []

    def ask(level: Decimal) -> None:
        try:
            run.ask(level)
        except ParameterError:
            return
        answered.append(level)

    levels = [Decimal(n) / 20 for n in range(1, 41)] * 2
    threads = [threading.Thread(target=ask, args=(level,)) for level in levels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answered)) == len(answered)
    assert run.close().parts.reached == mechanism.level_of(max(answered))


# ---- the laws that are used -----------------------------------------------------------------------------------------

positive = st.decimals("0.001", "50", places=3, allow_nan=False)


@given(cap=positive, sensitivity=positive, dimension=st.integers(1, 40), part=st.decimals("0.01", 1, places=2))
@settings(max_examples=80, deadline=None)
def test_the_noise_of_a_level_is_enough_for_its_epsilon_after_rounding(
    cap: Decimal, sensitivity: Decimal, dimension: int, part: Decimal
) -> None:
    mechanism = GradualRelease(epsilon=cap, sensitivity=sensitivity, dimension=dimension)
    epsilon = cap * part
    noise, grid = mechanism.noise(epsilon), Fraction(mechanism.grid_in_use)
    assert isinstance(noise, RoundedLaplace)
    slack = Fraction(sensitivity) + (dimension * grid if dimension > 1 else (-Fraction(sensitivity)) % grid)
    assert slack <= Fraction(noise.scale) * Fraction(epsilon) <= slack * (1 + Fraction(1, 10**10))
    assert slack <= Fraction(sensitivity) * (1 + Fraction(1, 1000))
    assert mechanism.level_of(epsilon) == LaplaceLaw(epsilon)


@given(cap=positive, sensitivity=st.integers(1, 20_000), part=st.decimals("0.01", 1, places=2))
@settings(max_examples=80, deadline=None)
def test_a_whole_statistic_takes_the_discrete_chain_unless_no_pair_is_certified_for_it(
    cap: Decimal, sensitivity: int, part: Decimal
) -> None:
    mechanism = GradualRelease(epsilon=cap, sensitivity=sensitivity, whole=True)
    noise, law, epsilon = mechanism.noise(cap * part), mechanism.level_of(cap * part), cap * part
    assert Fraction(noise.scale) * Fraction(epsilon) >= sensitivity
    if sensitivity < 8192:
        assert noise == DiscreteLaplace(noise.scale)
        assert law == DiscreteLaplaceLaw(scale=noise.scale, sensitivity=sensitivity)
        compose(mechanism.parts(), relation=Relation.ADD_REMOVE)
    else:
        assert noise == RoundedLaplace(scale=noise.scale, grid=1)
        assert law == LaplaceLaw(epsilon)
    price = cost(Chain(mechanism.parts().of, law), Relation.ADD_REMOVE).pure
    assert price is not None
    assert price <= epsilon


@given(
    levels=st.lists(st.integers(1, 400), min_size=1, max_size=12, unique=True).map(sorted), dimension=st.integers(1, 3)
)
@settings(max_examples=50, deadline=None)
def test_precisions_of_a_gaussian_chain_add_up_to_that_of_its_level_and_never_above(
    levels: list[int], dimension: int
) -> None:
    mechanism = GradualGaussian(mu=4, dimension=dimension, sensitivity=1)
    mus = [Decimal(level) / 100 for level in levels]
    with recording() as log:
        run = opened(mechanism, 0 if dimension == 1 else [0] * dimension)
        for mu in mus:
            run.ask(mu)
    draws = [draw for draw in log if isinstance(draw, Draw)]
    assert draws[0].sensitivity is not None
    moved = Fraction(draws[0].sensitivity.value)
    spent = Fraction(0)
    for mu, draw in zip(mus, draws, strict=True):
        assert isinstance(draw.law, RoundedGaussian)
        spent += 1 / Fraction(draw.law.sigma) ** 2
        worth, law = moved**2 * spent, mechanism.level_of(mu)
        assert isinstance(law, GaussianLaw)
        assert worth <= 1 / Fraction(law.noise_multiplier) ** 2 <= Fraction(mu) ** 2
        assert float(worth) == pytest.approx(float(mu) ** 2, rel=1e-9)


def test_a_gaussian_answer_is_the_mean_weighted_by_precision() -> None:
    with recording() as log:
        run = opened(GradualGaussian(mu=3, sensitivity=1), 17)
        answers = [run.ask(mu) for mu in (1, 2, 3)]
    draws = [draw for draw in log if isinstance(draw, Draw)]
    grid = GradualGaussian(mu=3, sensitivity=1).grid_in_use
    weights = [1 / float(draw.law.sigma) ** 2 for draw in draws]  # type: ignore[union-attr]
    published = [float(np.asarray(draw.output).reshape(-1)[0]) * float(grid) for draw in draws]
    for k, answer in enumerate(answers, start=1):
        assert answer == pytest.approx(np.average(published[:k], weights=weights[:k]), rel=1e-12)


def test_a_level_of_a_chain_is_in_the_log_with_its_sensitivity() -> None:
    with recording() as log:
        run = opened(GradualRelease(epsilon=2, sensitivity=4, grid="0.5", justification="four rows of one unit"))
        run.ask("0.5")
    (draw,) = log
    assert draw.law == Refinement(RoundedLaplace(scale=2, grid="0.5"), Decimal(8))
    assert draw.sensitivity == Sensitivity(4, "l1", "four rows of one unit")


# ---- what it claims -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LinearBoundary, MixtureBoundary])
@pytest.mark.parametrize("relation", list(Relation))
def test_with_a_boundary_a_gaussian_chain_is_approximately_private(kind: Any, relation: Relation) -> None:
    mechanism = GradualGaussian(mu=1, boundary=kind(tuning=1, delta="1e-6"), sensitivity=1).under(relation, Unit("row"))
    claim = mechanism.claim()
    assert isinstance(claim, ApproxDP)
    assert claim.delta == Decimal("1e-6")
    known = {LinearBoundary: 5.75652, MixtureBoundary: 7.84001}
    if kind in known:
        assert float(claim.epsilon) == pytest.approx(known[kind], abs=1e-5)
    assert [failure.cause for failure in mechanism.failures()] == ["time_uniform_boundary"]  # type: ignore[union-attr]


@given(mu=st.decimals("1e-4", "1000", allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_a_gaussian_chain_claims_its_cap_whatever_its_digits(mu: Decimal) -> None:
    for relation in Relation:
        mechanism = GradualGaussian(mu=mu, sensitivity=1).under(relation, Unit("row"))
        assert mechanism.claim() == GDP(mu)
        price = cost(mechanism.parts(), relation).mu_squared
        assert price is not None
        assert price <= Fraction(mu) ** 2 * (1 + Fraction(1, 10**11))


def test_where_a_unit_is_replaced_the_leaf_counts_half_the_sensitivity() -> None:
    mechanism = GradualGaussian(mu=2, sensitivity=1).under(Relation.REPLACE_ONE, Unit("row"))
    assert mechanism.parts() == Chain(GaussianLaw(1))
    assert mechanism.level_of(1) == GaussianLaw(2)


class _Counted:
    """Seeded entropy that counts its words."""

    def __init__(self) -> None:
        self._source = seeded(3)
        self.words_drawn = 0

    def words(self, count: int) -> Words:
        self.words_drawn += count
        return self._source.words(count)
