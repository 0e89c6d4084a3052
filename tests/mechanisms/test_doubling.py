"""Doubling: which round it ends in, what each round is paid, and what comes back of the rounds that never started."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Chain, LaplaceLaw, Repeated, Sequence, SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.errors import ContractViolation, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Draw, recording
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.refinement import Doubled, Doubling, Judged
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

NAN = float("nan")
BOTH_CHECKS = ("above_threshold", "laplace")


def distance(published: Any) -> float:
    """How far a published number is from 1234."""
    return abs(float(published) - 1234.0)


def total_distance(published: Any) -> float:
    return float(np.abs(published).sum())


def nan(published: Any) -> float:
    return NAN


def search(**changes: Any) -> Doubling:
    return Doubling(
        **{
            "first": "0.01",
            "rounds": 6,
            "accepts": 20,
            "check_epsilon": 2,
            "sensitivity": 1,
            "error_sensitivity": 1,
            **changes,
        }
    )


class _Conformance(MechanismConformance):
    relations = tuple(Relation)
    good_data: ClassVar[object] = Judged(1234.0, distance)
    bad_data: ClassVar[tuple[object, ...]] = (
        Judged(NAN, distance),
        Judged(10**400, distance),
        Judged(3, nan),
        Judged(np.array("a"), nan),
    )
    bad_containers: ClassVar[tuple[object, ...]] = (
        None,
        3,
        Judged([1, 2], distance),
        Judged("x", distance),
        Judged(None, nan),
        (3, distance),
    )
    bad_parameters = (
        *({"first": value} for value in (0, -1, NAN, "x", None)),
        *({"rounds": value} for value in (0, -1, 65, 1.5, "3", True)),
        *({"check_epsilon": value} for value in (0, -1, NAN, None)),
        *({"accepts": value} for value in (NAN, None, "x")),
        *({"check": value} for value in ("none", 3, None)),
        *({"sensitivity": value} for value in (0, -1, NAN)),
        *({"error_sensitivity": value} for value in (0, -1, NAN)),
        *({"grid": value} for value in (0, 3, "0.3")),
        *({"share": value} for value in (0, 1, 2, NAN, "x")),
        *({"first": value} for value in ("1e17", "1e-50")),
        *({"check_epsilon": value} for value in ("1e17", "1e-30")),
        {"missing": 5, "bound": 4},
    )

    def make(self, **changes: Any) -> Any:
        return search(**changes)


class TestAboveThreshold(_Conformance):
    pass


class TestLaplace(_Conformance):
    def make(self, **changes: Any) -> Any:
        return search(**{"check": "laplace", **changes})


class TestVector(_Conformance):
    good_data = Judged([3.0, 4.5], total_distance)
    bad_data = (Judged([NAN, None], total_distance), Judged(np.array([1, 2]), nan))
    bad_containers = (None, Judged(3, distance), Judged([1, 2, 3], total_distance))

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        """What is released, in one array."""
        release: Release[Doubled] = mechanism.release(data, entropy=seeded(seed))
        return Release(value=np.append(release.value.value, release.value.rounds), parts=release.parts)

    def make(self, **changes: Any) -> Any:
        return search(**{"dimension": 2, **changes})


@dataclasses.dataclass
class _Told:
    """An error function that tells these in order, whatever is published."""

    errors: tuple[float, ...]
    asked: int = 0

    def __call__(self, _published: object) -> float:
        self.asked += 1
        return self.errors[min(self.asked, len(self.errors)) - 1]


LOUD: dict[str, Any] = {"check_epsilon": 10_000}  # the noise of the checks is far below one


@pytest.mark.parametrize("check", BOTH_CHECKS)
@pytest.mark.parametrize("passes", [1, 2, 5])
def test_it_ends_in_the_first_round_whose_error_is_low_enough(check: str, passes: int) -> None:
    errors = _Told((*[100.0] * (passes - 1), 3.0))
    release = search(check=check, **LOUD).release(Judged(0, errors), entropy=seeded(passes))
    assert release.value.accepted
    assert (release.value.rounds, errors.asked) == (passes, passes)
    assert release.value.epsilon == Decimal("0.01") * 2 ** (passes - 1)


@pytest.mark.parametrize("check", BOTH_CHECKS)
@pytest.mark.parametrize("error", [100.0, NAN, float("inf")])
def test_where_no_round_is_good_enough_it_says_so(check: str, error: float) -> None:
    release = search(check=check, **LOUD).release(Judged(0, _Told((error,))), entropy=seeded(3))
    assert not release.value.accepted
    assert (release.value.rounds, release.value.epsilon) == (6, Decimal("0.32"))


def test_each_round_has_fresh_noise_of_its_own_epsilon() -> None:
    with recording() as log:
        search(check="laplace", **LOUD).release(Judged(0, _Told((100.0,))), entropy=seeded(3))
    answers = [draw for draw in log if isinstance(draw, Draw)][::2]
    scales = [float(draw.law.scale) for draw in answers]  # type: ignore[union-attr]
    assert scales == pytest.approx([100, 50, 25, 12.5, 6.25, 3.125], rel=1e-3)
    outputs = [int(np.asarray(draw.output).reshape(-1)[0]) for draw in answers]
    assert len(set(outputs)) == 6


@pytest.mark.parametrize("done", range(1, 7))
def test_what_was_started_is_paid_for(done: int) -> None:
    """Up to round t: 2 eps_t - eps_1 for the answers, and the checks' own loss; a chain pays eps_t."""
    errors = (*[100.0] * (done - 1), 3.0)
    for check in BOTH_CHECKS:
        parts = search(check=check, **LOUD).release(Judged(0, _Told(errors)), entropy=seeded(4)).parts
        price = cost(parts, Relation.ADD_REMOVE).pure
        assert isinstance(parts, Sequence)
        checks, answers = parts.of
        assert isinstance(answers, Sequence)
        assert answers.done == done
        last = Decimal("0.01") * 2 ** (done - 1)
        paid, checked = cost(answers, Relation.ADD_REMOVE).pure, cost(checks, Relation.ADD_REMOVE).pure
        assert paid == 2 * last - Decimal("0.01")
        assert paid is not None
        assert checked is not None
        assert price == paid + checked
        chain = cost(Chain(LaplaceLaw("0.32"), LaplaceLaw(last)), Relation.ADD_REMOVE).pure
        assert chain == last
        assert chain < paid or done == 1
        if isinstance(checks, Repeated):
            assert checked == done * 10_000
        else:
            assert isinstance(checks, SparseVectorLaw)
            assert checks.outcome == SparseVectorOutcome(closed_epochs=(done,), open_epoch=0, halted=True)


@pytest.mark.parametrize("error", ["x", None, [1.0], ValueError])
def test_an_error_function_that_breaks_its_contract_is_told_nothing_about(error: Any) -> None:
    def broken(_published: object) -> Any:
        if error is ValueError:
            raise ValueError("the row of Jane Doe")
        return error

    with pytest.raises(ContractViolation) as refusal:
        search().release(Judged(0, broken), entropy=seeded(1))
    assert "Jane" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_an_error_function_cannot_change_what_is_published() -> None:
    def meddling(published: Any) -> float:
        published[:] = 10**6
        return 0.0

    release = search(dimension=2, first=100, **LOUD).release(Judged([0, 0], meddling), entropy=seeded(1))
    assert np.abs(release.value.value).max() < 10


def opened() -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(20_000))


def charged(scope: Scope, mechanism: Doubling, errors: tuple[float, ...]) -> tuple[Doubled, Decimal]:
    value: Doubled = scope.release(mechanism, Judged(0, _Told(errors))).value
    scope._ledger.verify()
    (admission,) = scope.account().admissions
    return value, admission.charged["pure"]


def test_with_one_threshold_the_rounds_that_were_not_started_come_back() -> None:
    value, paid = charged(opened(), search(**LOUD), (100.0, 100.0, 3.0))
    assert value.rounds == 3
    law = search(**LOUD)._checks().parts()
    assert isinstance(law, SparseVectorLaw)
    ran = dataclasses.replace(law, outcome=SparseVectorOutcome(closed_epochs=(3,), open_epoch=0, halted=True))
    checked = cost(ran, Relation.ADD_REMOVE).pure
    assert checked is not None
    assert paid == checked + Decimal("0.07")


@pytest.mark.parametrize("share", ["0.2", "0.5"])
def test_the_threshold_gets_its_share(share: str) -> None:
    """1 / threshold_scale + 2 / query_scale = check_epsilon, of which the first is the share."""
    law = search(share=share)._checks().parts()
    assert isinstance(law, SparseVectorLaw)
    assert law.threshold_scale is not None
    assert 1 / float(law.threshold_scale) == pytest.approx(2 * float(share))
    assert 2 / float(law.query_scale) == pytest.approx(2 * (1 - float(share)))


def test_checks_with_fresh_noise_have_no_threshold_to_share_with() -> None:
    with pytest.raises(ParameterError, match="share"):
        search(check="laplace", share="0.5")


def test_with_fresh_noise_for_each_check_the_plan_stays_charged() -> None:
    value, paid = charged(opened(), search(check="laplace", check_epsilon=1000), (100.0, 100.0, 3.0))
    assert value.rounds == 3
    assert paid == 6 * 1000 + Decimal("0.63")


def test_a_broken_error_function_costs_the_plan() -> None:
    scope = opened()
    with pytest.raises(ContractViolation):
        scope.release(search(), Judged(0, lambda _: 1 / 0))
    (admission,) = scope.account().admissions
    assert admission.charged["pure"] == Decimal("2.63")


def test_both_sensitivities_are_declared_where_a_unit_has_many_rows() -> None:
    for changes in ({"sensitivity": 3}, {"error_sensitivity": 3}):
        with pytest.raises(ParameterError, match="sensitivity"):
            search(**changes).under(Relation.ADD_REMOVE, Unit("patient", max_contributions=3))
    search(sensitivity=3, error_sensitivity=3).under(Relation.ADD_REMOVE, Unit("patient", max_contributions=3))
