"""What a mechanism's author gives in place of a claim or parts, and what a caller says of a scope that is there: what
cannot be used is named, and nothing is charged."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import dpledger as dpl
from dpledger.errors import ParameterError
from dpledger.mechanisms.protocol import Release


class Odd:
    """A mechanism of somebody else's, of which one method gives something else."""

    kind, relation, unit = "odd", None, None

    def __init__(self, **gives: Any) -> None:
        self.gives = {"claim": dpl.PureDP("0.1"), "parts": dpl.PureDP("0.1"), "failures": (), **gives}

    def under(self, relation: object, unit: object) -> Any:
        return self.gives.get("under", self)

    def claim(self) -> Any:
        return self.gives["claim"]

    def parts(self) -> Any:
        return self.gives["parts"]

    def failures(self) -> Any:
        return self.gives["failures"]

    def parameters(self) -> dict[str, Any]:
        return {}

    def release(self, data: object, *, entropy: object) -> Release[int]:
        return Release(value=1, parts=self.parts())


@pytest.fixture
def scope() -> dpl.Scope:
    return dpl.Ledger.in_memory().scope("s", unit="row", relation="add_remove", budget=dpl.PureDP(1))


@pytest.mark.parametrize("method", ["under", "claim", "parts", "failures"])
@pytest.mark.parametrize("given", [None, {}, 3, dpl.PureDP], ids=lambda one: f"{one!r:.12}")
def test_what_is_no_claim_and_no_parts_is_named(scope: dpl.Scope, method: str, given: object) -> None:
    with pytest.raises(ParameterError, match=method):
        scope.release(Odd(**{method: given}), [1])
    assert scope.spent(0).upper == 0


def test_what_an_author_gives_runs(scope: dpl.Scope) -> None:
    assert scope.release(Odd(), [1]).value == 1


@pytest.mark.parametrize("field", ["budget", "keep", "dataset"])
@pytest.mark.parametrize("given", [3, ["a"], {"kind": "pure_dp"}, np.ones(2)], ids=lambda one: type(one).__name__)
def test_what_is_said_of_a_scope_that_is_there_is_read_first(field: str, given: object) -> None:
    book, odd = dpl.Ledger.in_memory(), cast("Any", {field: given})
    book.scope("s", unit="row", relation="add_remove", budget=dpl.PureDP(1))
    with pytest.raises(ParameterError, match=field):
        book.scope("s", **odd)
