"""A sensitivity that nobody justified is entered as such: the record never puts words into the caller's mouth."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpledger.accounting.guarantees import ApproxDP
from dpledger.errors import ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.numeric import Gaussian, Geometric, IntegerGaussian, Laplace
from dpledger.mechanisms.protocol import UNSAID, Described
from dpledger.mechanisms.refinement import Doubling, GradualGaussian, GradualRelease, NoiseReduction
from dpledger.mechanisms.selection import ExponentialMechanism, PermuteAndFlip
from dpledger.mechanisms.threshold.above_threshold import AboveThreshold
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.relations import Relation, Unit
from dpledger.reports import report

SILENT: list[Callable[..., Described]] = [
    lambda **said: Laplace(**{"sensitivity": 1, "epsilon": "0.1", **said}),
    lambda **said: Gaussian(**{"sensitivity": 1, "noise_multiplier": 20, **said}),
    lambda **said: Geometric(**{"sensitivity": 1, "epsilon": "0.1", **said}),
    lambda **said: IntegerGaussian(**{"sensitivity": 1, "sigma": 20, **said}),
    lambda **said: SparseVector(**{"sensitivity": 1, "epsilon": "0.1", "cutoff": 1, "threshold": 10, **said}),
]


@pytest.mark.parametrize("make", SILENT)
def test_the_entry_says_that_no_reason_was_given(make: Callable[..., Described]) -> None:
    assert make().parameters()["justification"] == UNSAID
    assert make(justification="one row").parameters()["justification"] == "one row"


@pytest.mark.parametrize("make", SILENT)
def test_the_sensitivity_of_one_row_is_refused_where_a_unit_may_have_many(
    make: Callable[..., Described],
) -> None:
    """It would be claimed for all rows of a user, at the price of one."""
    many = Unit("user", max_contributions=10)
    with pytest.raises(ParameterError, match=r"sensitivity: expected how far all rows of one user.*may have 10 rows"):
        make().under(Relation.ADD_REMOVE, many)
    for said in ({"sensitivity": 10}, {"justification": "a user changes one flag, whatever the rows"}):
        assert make(**said).under(Relation.ADD_REMOVE, many).unit == many
    assert make().under(Relation.ADD_REMOVE, Unit("user")).unit == Unit("user")


def reported(mechanism: Laplace) -> str:
    """The report on a ledger with one release, as Markdown."""
    book = Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))
    scope.release(mechanism, 1)
    return report(book).markdown()


def test_the_report_shows_what_nobody_declared_as_unknown() -> None:
    assert f"| 1 [unknown] ({UNSAID}) |" in reported(Laplace(sensitivity=1, epsilon="0.1"))
    assert "| 1 [declared] (one row) |" in reported(Laplace(epsilon="0.1", sensitivity=1, justification="one row"))


SEARCH = {"accepts": 20, "check_epsilon": 2}
WITHOUT: list[tuple[Callable[..., Described], dict[str, object]]] = [
    (Laplace, {"epsilon": 1}),
    (Geometric, {"epsilon": 1}),
    (Gaussian, {"noise_multiplier": 1}),
    (IntegerGaussian, {"sigma": 1}),
    (ExponentialMechanism, {"candidates": 3, "epsilon": 1}),
    (PermuteAndFlip, {"candidates": 3, "epsilon": 1}),
    (SparseVector, {"epsilon": 1, "cutoff": 1, "threshold": 10}),
    (AboveThreshold, {"epsilon": 1, "threshold": 10}),
    (GradualRelease, {"epsilon": 1}),
    (GradualGaussian, {"mu": 1}),
    (Doubling, {"first": 1, "rounds": 2, "error_sensitivity": 1, **SEARCH}),
    (NoiseReduction, {"least": "0.1", "most": 1, "levels": 4, "error_sensitivity": 1, **SEARCH}),
]


@pytest.mark.parametrize(("make", "others"), WITHOUT)
def test_what_the_caller_computed_has_no_default_sensitivity(
    make: Callable[..., Described], others: dict[str, object]
) -> None:
    with pytest.raises(ParameterError, match=r"\.sensitivity: expected a value, got nothing"):
        make(**others)
    assert str(make(sensitivity=2, **others).parameters()["sensitivity"]) == "2"


@pytest.mark.parametrize("make", [Laplace, Geometric, Gaussian])
def test_the_sensitivity_of_noise_that_is_added_comes_first(make: Callable[..., Described]) -> None:
    law = {"noise_multiplier": 1} if make is Gaussian else {"epsilon": 1}
    assert make(sensitivity=1, **law) == make(1, **law)


@pytest.mark.parametrize(("make", "others"), WITHOUT[-2:])
def test_nor_has_the_error_of_a_search(make: Callable[..., Described], others: dict[str, object]) -> None:
    known = {name: value for name, value in others.items() if name != "error_sensitivity"}
    with pytest.raises(ParameterError, match=r"\.error_sensitivity: expected a value, got nothing"):
        make(sensitivity=1, **known)
