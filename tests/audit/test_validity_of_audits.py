"""What an audit says of mechanisms that lose exactly what they claim, through the door, looked at after every pair:
it accuses them at most as often as it may, and its lower bound passes the truth no more often. What breaks an
assumption is told, and would have been accused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from audit_oracles import at_most_so_often, gaussian_epsilon
from dpledger.audit import AuditResult, audit_outputs

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
SIGNIFICANCE = 1e-7  # of each simulation here
ALPHA = 0.05
KEEP = math.e / (1 + math.e)
TOLD = 0.05
LOSSES = np.array([0.25, 1.0])


@dataclass(frozen=True)
class Case:
    """A mechanism f(bit, size, rng) that attains its claim, and its true epsilon at the delta of the result; None of a
    claim without one."""

    draw: Callable[[int, int, Rng], Any]
    claim: Any
    truth: float | None


def laplace(bit: int, size: int, rng: Rng) -> Any:
    return bit + rng.laplace(size=size)


def response(bit: int, size: int, rng: Rng, keep: float = KEEP) -> Any:
    return np.where(rng.random(size) < keep, bit, 1 - bit).astype(np.float64)


def response_with_delta(bit: int, size: int, rng: Rng) -> Any:
    """The bit itself is published beside (as 2 or 3) with a probability of delta."""
    return np.where(rng.random(size) < TOLD, 2 + bit, response(bit, size, rng))


def gaussian(bit: int, size: int, rng: Rng) -> Any:
    return bit + rng.normal(size=size)


def coins(bit: int, size: int, rng: Rng) -> Any:
    """One of two responses, published with its loss."""
    which = rng.integers(0, 2, size)
    kept = rng.random(size) < 1 / (1 + np.exp(-LOSSES))[which]
    return np.where(kept, bit, 1 - bit) + 2.0 * which


def billed(output: float) -> float:
    return float(LOSSES[int(output >= 2)])


CASES = {
    "laplace": Case(laplace, dpl.PureDP(1), 1.0),
    "response": Case(response, dpl.PureDP(1), 1.0),
    "response with delta": Case(response_with_delta, dpl.ApproxDP(1, "0.05"), 1.0),
    "gaussian against its curve": Case(gaussian, dpl.GDP(1), gaussian_epsilon(1.0, 1e-5)),
    "strata": Case(coins, dpl.ex_post.ExPostClaim(billed), None),
}


def audited(case: Case, seed: int, pairs: int) -> AuditResult:
    rng = np.random.default_rng(10_000 + seed)
    return audit_outputs(case.draw(1, pairs, rng), case.draw(0, pairs, rng), case.claim)


def tally(case: Case, audits: int, pairs: int) -> tuple[int, int, int]:
    """Of so many audits those that refute, those whose bound passes the truth, and those that are said to be blind."""
    found = [audited(case, seed, pairs) for seed in range(audits)]
    high = sum(case.truth is not None and float(one.epsilon_lower) > case.truth for one in found)
    return sum(one.verdict == "violation" for one in found), high, sum(one.blind is not None for one in found)


@pytest.mark.slow  # each commit asks five hundred audits of the engine below the door: test_anytime_valid.py
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_audits_on_the_boundary_say_too_much_no_more_often_than_they_may(name: str) -> None:
    for count in tally(CASES[name], 2_000, 150):
        assert at_most_so_often(count, 2_000, ALPHA) > SIGNIFICANCE


# ---- what breaks an assumption ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_outputs_listed_many_times_would_be_accused_too_often_and_are_told() -> None:
    accused, audits = 0, 24
    for seed in range(audits):
        rng = np.random.default_rng(seed)
        left, right = (np.repeat(response(bit, 80, rng), 8) for bit in (1, 0))
        result = audit_outputs(left, right, dpl.PureDP(1))
        accused += result.evidence.fell_after is not None
        assert result.verdict == "not_refuted"
        assert result.blind is not None
    assert at_most_so_often(accused, audits, ALPHA) < 1e-6


def test_shared_seeds_are_told_unless_the_runs_are_said_to_be_paired() -> None:
    """Both sides keep their bit, or neither does."""
    for seed in range(3):
        kept = np.random.default_rng(seed).random(1_000) < KEEP
        left, right = np.where(kept, 1.0, 0.0), np.where(kept, 0.0, 1.0)
        plain, paired = (audit_outputs(left, right, dpl.PureDP(1), paired=paired) for paired in (False, True))
        assert (plain.verdict, paired.verdict) == ("not_refuted", "not_refuted")
        assert plain.blind is not None
        assert paired.blind is None


def test_a_fault_is_found_in_pairs_that_share_their_seeds() -> None:
    kept = np.random.default_rng(1).random(1_000) < 0.9
    left, right = np.where(kept, 1.0, 0.0), np.where(kept, 0.0, 1.0)
    assert audit_outputs(left, right, dpl.PureDP(1), paired=True).verdict == "violation"
    noise = np.random.default_rng(1).laplace(0, 0.5, 1_000)
    assert audit_outputs(noise + 1, noise, dpl.PureDP(1), paired=True).verdict == "violation"


def test_pairs_that_depend_on_the_pairs_before_them_are_told() -> None:
    rng = np.random.default_rng(1)
    left, right = (np.repeat(response(bit, 300, rng), 4) for bit in (1, 0))
    assert audit_outputs(left, right, dpl.PureDP(1), paired=True).blind is not None
