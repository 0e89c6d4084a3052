"""Whatever an audit ends with can be recorded in a ledger, and what saw nothing clears nothing there."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Audited
from dpledger.mechanisms.protocol import Release
from dpledger.reports.build import build
from dpledger.reports.model import Items, blocks

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
CLAIM = dpl.PureDP(1)
LAPLACE = dpl.Laplace(sensitivity=1, epsilon=1)


def tried(mechanism: Any, claim: Any = CLAIM, left: Any = 0.0, right: Any = 1.0, **options: Any) -> AuditResult:
    return audit_mechanism(mechanism, left, right, claim, seed=1, progress=False, **{"trials": 1_000} | options)


def half_noise(data: float, size: int, rng: Rng) -> Any:
    return data + rng.laplace(0, 0.5, size)


def noisy(data: float, size: int, rng: Rng) -> Any:
    return data + rng.laplace(size=size)


def normal(data: float, size: int, rng: Rng) -> Any:
    return 2 * data + rng.normal(size=size)


def constant(data: float, rng: Rng) -> str:
    return "an answer"


def unreadable(data: float) -> str:
    return secrets.token_urlsafe()


class Cached:
    """Every answer is given four times."""

    def __init__(self) -> None:
        self.calls, self.answer = 0, 0.0

    def __call__(self, data: float, rng: Rng) -> float:
        if self.calls % 4 == 0:
            self.answer = data + rng.laplace()
        self.calls += 1
        return self.answer


class Quota:
    """So many answers, and then none."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: float, rng: Rng) -> float:
        self.calls += 1
        if self.calls > 1_000:
            raise RuntimeError("quota")
        return data + rng.laplace()


class Raw(dpl.Laplace):
    """Releases what it was given."""

    def release(self, data: object, **options: Any) -> Release[Any]:
        return Release(value=data, parts=self.parts())

    def sample(self, data: Any, size: int, entropy: Any) -> Any:
        return [data] * size


def coin(data: int, size: int, rng: Rng) -> Any:
    """A bit that is told three times in four: it loses log 3."""
    return np.where(rng.random(size) < 0.75, data, 1 - data)


def listed_twice() -> AuditResult:
    rng = np.random.default_rng(1)
    left, right = (np.repeat(shift + rng.laplace(size=1_000), 2) for shift in (0, 1))
    return audit_outputs(left, right, CLAIM)


def billed(outputs: Any) -> Any:
    return np.full(len(outputs), 0.1)


ALL_ALIKE = "all runs of both sides gave the same output"
SINGLE = "more than half of the runs gave an output that no other run gave, and no number in it can be read"
DEPEND = "runs depend on each other: "
ENDS: dict[str, tuple[Callable[[], AuditResult], str, str | None]] = {
    "violation": (lambda: tried(half_noise, batched=True), "violation", None),
    "violation of a curve": (lambda: tried(normal, dpl.GDP(1), batched=True), "violation", None),
    "violation of strata": (
        lambda: tried(coin, dpl.ex_post.ExPostClaim(billed), 0, 1, batched=True, trials=5_000),
        "violation",
        None,
    ),
    "violation by replay": (lambda: tried(Raw(sensitivity=1, epsilon=1), None), "violation", None),
    "pass": (lambda: tried(noisy, batched=True), "not_refuted", None),
    "pass of a mechanism": (lambda: tried(LAPLACE, None), "not_refuted", None),
    "pass that only bits would refute": (lambda: tried(noisy, batched=True, trials=20_000), "not_refuted", None),
    "blind, all alike": (lambda: tried(constant), "not_refuted", ALL_ALIKE),
    "blind, all different": (lambda: tried(unreadable, trials=300), "not_refuted", SINGLE),
    "blind, answers from a cache": (lambda: tried(Cached()), "not_refuted", DEPEND),
    "blind, a quota": (lambda: tried(Quota()), "not_refuted", DEPEND),
    "blind, outputs listed twice": (listed_twice, "not_refuted", DEPEND),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_verdict_is_recorded_and_read_again(name: str, tmp_path: Path) -> None:
    end, verdict, blind = ENDS[name]
    result = end()
    assert result.verdict == verdict
    assert result.blind == blind or (blind is not None and str(result.blind).startswith(blind))
    with dpl.Ledger.create(tmp_path / "ledger.db") as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1), dataset="visits")
        said = book.record(result)
        placed = scope.record(result.body())
        book.verify()
    with dpl.Ledger.open(tmp_path / "ledger.db") as book:
        bodies = [entry.body for entry in book.verify().entries if entry.index in (said.index, placed.index)]
    first, second = bodies
    assert isinstance(first, Audited)
    assert isinstance(second, Audited)
    assert (first.verdict, first.blind) == (verdict, result.blind)
    assert first.epsilon_lower == result.epsilon_lower
    assert (first.trials_left, first.trials_right) == (result.trials_left, result.trials_right)
    assert (first.e_value is None) == (result.blind is not None)
    assert second.path[0].scope == "patients"


def test_an_audit_of_a_constant_clears_nothing_and_one_of_the_mechanism_does() -> None:
    def named_alike(data: float, rng: Rng) -> float:
        return 3.0

    named_alike.kind = "laplace"  # type: ignore[attr-defined]
    told = []
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(2), dataset="visits")
        scope.release(LAPLACE, 3)
        for result in (tried(named_alike), tried(LAPLACE, None)):
            scope.record(result)
            items = (
                item
                for block in blocks(build(book.verify()).sections)
                if isinstance(block, Items)
                for item in block.items
            )
            told.append({item.id: item for item in items}["audits/never_audited"].text)
    assert ALL_ALIKE in told[0]
    assert "laplace" in told[0]
    assert "laplace" not in told[1]


def test_rows_three_apart_are_refused_or_the_entry_says_so() -> None:
    left, right = [1] * 9, [1] * 12
    with pytest.raises(ParameterError, match="3 in right alone, 1 a unit"):
        tried(dpl.Count(epsilon="0.5", of="rows"), None, left, right)

    def rows(data: list[int], size: int, rng: Rng) -> Any:
        return len(data) + rng.laplace(size=size)

    with dpl.Ledger.in_memory() as book:
        near, far = (book.record(tried(rows, CLAIM, left, other, batched=True)).body for other in ([1] * 10, right))
    assert isinstance(near, Audited)
    assert isinstance(far, Audited)
    assert near.apart is None
    assert far.apart == "no neighbours under add_remove: 0 rows in left alone, 3 in right alone, 1 a unit"
