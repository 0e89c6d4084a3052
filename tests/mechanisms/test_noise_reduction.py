"""Noise reduction of a statistic of one's own: at which level it ends, what that costs, and whose noise it is."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import Chain, LaplaceLaw, Sequence, SparseVectorLaw
from dpledger.accounting.ex_post.boundaries import LinearBoundary
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PrivacyFailure, PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.decimals import INFINITY
from dpledger.errors import ContractViolation, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Draw, Refinement, RoundedGaussian, recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.refinement import Doubling, Judged, NoiseReduction, Reduced
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

NAN = float("nan")
LINE = LinearBoundary(tuning=1, delta="1e-6")


def distance(published: Any) -> float:
    """How far a published number is from 1234."""
    return abs(float(published) - 1234.0)


def total_distance(published: Any) -> float:
    return float(np.abs(published).sum())


def nan(published: Any) -> float:
    return NAN


def search(**changes: Any) -> NoiseReduction:
    own = {
        "least": "0.01",
        "most": "0.32",
        "levels": 6,
        "accepts": 20,
        "check_epsilon": 2,
        "sensitivity": 1,
        "error_sensitivity": 1,
    }
    return NoiseReduction(**{**own, **changes})


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    changes: ClassVar[dict[str, object]] = {}
    good_data: ClassVar[object] = Judged(1234.0, distance)
    bad_data: ClassVar[tuple[object, ...]] = (
        Judged(NAN, distance),
        Judged(10**400, distance),
        Judged(3, nan),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (None, 3, Judged([1, 2], distance), (3, distance))
    bad_parameters = (
        *({"least": value} for value in (0, -1, NAN, "x", None, 1, "0.32")),
        *({"most": value} for value in (0, -1, NAN, None, "0.01", "1e17")),
        {"levels": 50_000, "least": "0.0001", "most": "0.000100000001"},
        *({"levels": value} for value in (0, 1, 10**6, 2.5, "3")),
        *({"check_epsilon": value} for value in (0, -1, NAN, "1e17", "1e-30")),
        *({"accepts": value} for value in (NAN, None)),
        *({"noise": value} for value in ("uniform", 3, None)),
        *({"sensitivity": value} for value in (0, -1, NAN)),
        *({"error_sensitivity": value} for value in (0, -1, NAN)),
        *({"grid": value} for value in (0, 3, "0.3")),
        *({"share": value} for value in (0, 1, 2, NAN)),
        {"missing": 5, "bound": 4},
    )

    def make(self, **changes: Any) -> Any:
        return search(**{**self.changes, **changes})


class TestLaplace(_Conformance):
    bad_parameters = (*_Conformance.bad_parameters, {"boundary": LINE})


class TestGaussian(_Conformance):
    changes: ClassVar[dict[str, object]] = {"noise": "gaussian"}
    bad_parameters = (
        *_Conformance.bad_parameters,
        {"levels": 5, "least": "1e-17", "most": "1.00000001e-17"},  # levels far closer than their noise is large
    )


class TestGaussianWithABoundary(_Conformance):
    changes: ClassVar[dict[str, object]] = {"noise": "gaussian", "boundary": LINE}
    bad_parameters = (*_Conformance.bad_parameters, {"most": 10**10})


class TestVector(_Conformance):
    changes: ClassVar[dict[str, object]] = {"dimension": 2}
    good_data = Judged([3.0, 4.5], total_distance)
    bad_data = (Judged([NAN, None], total_distance), Judged(np.array([1, 2]), nan))
    bad_containers = (None, Judged(3, distance), Judged([1, 2, 3], total_distance))

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        """What is released, in one array."""
        release: Release[Reduced] = mechanism.release(data, entropy=seeded(seed))
        return Release(value=np.append(release.value.value, release.value.level), parts=release.parts)


@dataclasses.dataclass
class _Told:
    """An error function that tells these in order, whatever is published."""

    errors: tuple[float, ...]
    asked: int = 0

    def __call__(self, _published: object) -> float:
        self.asked += 1
        return self.errors[min(self.asked, len(self.errors)) - 1]


LOUD: dict[str, Any] = {"check_epsilon": 10_000}  # the noise of the checks is far below one


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("passes", [1, 2, 5])
def test_it_ends_at_the_first_level_whose_error_is_low_enough(noise: str, passes: int) -> None:
    errors = _Told((*[100.0] * (passes - 1), 3.0))
    value = search(noise=noise, **LOUD).release(Judged(0, errors), entropy=seeded(passes)).value
    assert value.accepted
    assert (value.level, errors.asked) == (passes, passes)
    number = value.epsilon if noise == "laplace" else value.mu
    assert number == pytest.approx(Decimal("0.01") * 2 ** (passes - 1), rel=Decimal("1e-10"))
    assert (value.epsilon == INFINITY) is (noise == "gaussian")


@pytest.mark.parametrize("error", [100.0, NAN, float("inf")])
def test_where_no_level_is_good_enough_it_says_so(error: float) -> None:
    value = search(**LOUD).release(Judged(0, _Told((error,))), entropy=seeded(3)).value
    assert not value.accepted
    assert (value.level, value.epsilon) == (6, Decimal("0.32"))


# ---- what it costs --------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_up_to_a_level_it_costs_the_check_and_that_level_alone(done: int, seed: int) -> None:
    """Doubling with the same levels, check and halt pays for all of its answers: more from the second on."""
    errors = (*[100.0] * (done - 1), 3.0)
    parts = search(**LOUD).release(Judged(0, _Told(errors)), entropy=seeded(seed)).parts
    assert isinstance(parts, Sequence)
    check, chain = parts.of
    assert isinstance(check, SparseVectorLaw)
    assert isinstance(chain, Chain)
    assert isinstance(chain.reached, LaplaceLaw)
    spent = cost(parts, Relation.ADD_REMOVE).pure
    checked = cost(check, Relation.ADD_REMOVE).pure
    assert spent is not None
    assert checked is not None
    assert spent == checked + chain.reached.epsilon
    doubling = Doubling(first="0.01", rounds=6, accepts=20, check_epsilon=10_000, sensitivity=1, error_sensitivity=1)
    other = cost(doubling.release(Judged(0, _Told(errors)), entropy=seeded(seed)).parts, Relation.ADD_REMOVE).pure
    assert other is not None
    assert (spent < other) is (done > 1)


def test_what_was_not_needed_comes_back() -> None:
    scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(20_000))
    value = scope.release(search(**LOUD), Judged(0, _Told((100.0, 100.0, 3.0)))).value
    (admission,) = scope.account().admissions
    law = search(**LOUD).parts()
    assert isinstance(law, Sequence)
    assert admission.charged["pure"] < Decimal("10000.1")
    assert float(admission.charged["pure"] % 1) <= float(value.epsilon) + 1
    scope._ledger.verify()


def test_each_kind_of_noise_claims_what_it_can() -> None:
    assert search().claim() == PureDP("2.32")
    gaussian = search(noise="gaussian").claim()
    assert isinstance(gaussian, ZCDP)
    bounded = search(noise="gaussian", boundary=LINE)
    claim = bounded.claim()
    assert isinstance(claim, ApproxDP)
    assert claim.delta == LINE.delta
    assert bounded.failures() == (PrivacyFailure(LINE.delta, "time_uniform_boundary"),)


def test_all_levels_are_of_one_chain_at_the_declared_sensitivity() -> None:
    """moved / scale is the epsilon of each level, and only the first draw is independent."""
    with recording() as log:
        search(dimension=2, sensitivity=3, **LOUD).release(Judged([0, 0], _Told((100.0,))), entropy=seeded(3))
    levels = [draw for draw in log if isinstance(draw.law, Refinement)]
    scales = [draw.law.scale for draw in levels if isinstance(draw.law, Refinement)]
    assert [3 / float(scale) for scale in scales] == pytest.approx([0.01 * 2**k for k in range(6)], rel=2e-3)
    assert all(draw.sensitivity is not None and draw.sensitivity.norm == "l1" for draw in levels)
    assert all(3 <= draw.sensitivity.value < Decimal("3.01") for draw in levels if draw.sensitivity is not None)


def test_precisions_of_gaussian_levels_add_up_to_that_of_the_last() -> None:
    with recording() as log:
        search(dimension=2, sensitivity=3, noise="gaussian", **LOUD).release(
            Judged([0, 0], _Told((100.0,))), entropy=seeded(3)
        )
    drawn = [draw for draw in log if isinstance(draw, Draw) and isinstance(draw.law, RoundedGaussian)]
    assert len(drawn) == 6
    assert all(draw.sensitivity is not None and draw.sensitivity.norm == "l2" for draw in drawn)
    total = sum((3 / float(draw.law.sigma)) ** 2 for draw in drawn if isinstance(draw.law, RoundedGaussian))
    assert 0.99 * 0.32**2 < total <= 0.32**2


# ---- a family of one's own ------------------------------------------------------------------------------------------


def counts_of(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How many of each label there are in each of four cells: one row is one of them."""
    cells = np.clip((x * 4).astype(int), 0, 3)
    return np.bincount(cells * 2 + (y > 0), minlength=8).astype(float)


def test_a_classifier_by_cells_is_as_private_as_its_accuracy_allows() -> None:
    """The hypothesis is the sign of the noisy difference in each cell; its error, a share of misclassified rows, moves
    by 1/n0 with a row."""
    rng = np.random.default_rng(3)
    x = rng.random(4000)
    y = np.where((x > 0.5) ^ (rng.random(4000) < 0.05), 1.0, -1.0)

    def error(published: Any) -> float:
        rule = np.where(published[1::2] > published[::2], 1.0, -1.0)
        return float((rule[np.clip((x * 4).astype(int), 0, 3)] != y).sum() / 4000)

    mechanism = NoiseReduction(
        least="0.0001",
        most=1,
        levels=30,
        accepts="0.12",
        check_epsilon="0.3",
        sensitivity=1,
        error_sensitivity="0.00025",
        dimension=8,
        justification="a row is in one cell; the error is a sum of 0 or 1 over a public 4000",
    )
    book = Ledger.in_memory()
    scope = book.scope("cells", unit="row", relation="add_remove", budget=PureDP(2))
    value = scope.release(mechanism, Judged(counts_of(x, y), error)).value
    assert value.accepted
    assert value.epsilon < Decimal("0.2")
    assert error(value.value) < 0.2
    assert float(scope.account().left_by_account["pure"]) > 1.5
    book.verify()


# ---- the caller's own code ------------------------------------------------------------------------------------------


def test_a_broken_error_function_costs_the_plan_and_tells_nothing() -> None:
    scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(20))
    with pytest.raises(ContractViolation) as refusal:
        scope.release(search(), Judged(0, lambda _: 1 / 0))
    assert "division" not in str(refusal.value)
    (admission,) = scope.account().admissions
    assert admission.charged["pure"] == Decimal("2.32")


def test_an_error_function_cannot_change_what_is_published() -> None:
    def meddling(published: Any) -> float:
        published[:] = 10**6
        return 0.0

    value = search(dimension=2, least=100, most=200, **LOUD).release(Judged([0, 0], meddling), entropy=seeded(1)).value
    assert np.abs(value.value).max() < 10


def test_both_sensitivities_are_declared_where_a_unit_has_many_rows() -> None:
    for changes in ({"sensitivity": 3}, {"error_sensitivity": 3}):
        with pytest.raises(ParameterError, match="sensitivity"):
            search(**changes).under(Relation.ADD_REMOVE, Unit("patient", max_contributions=3))
    search(sensitivity=3, error_sensitivity=3).under(Relation.ADD_REMOVE, Unit("patient", max_contributions=3))
