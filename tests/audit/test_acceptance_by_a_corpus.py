"""Classic mechanisms that nobody tuned the auditor on: nearly all faulty ones fall, and right ones are left alone."""

from __future__ import annotations

import pytest

from audit_oracles import at_most_so_often
from classic_mechanisms import FAULTY, RIGHT, Classic
from dpledger.audit import AuditResult, audit_mechanism

pytestmark = pytest.mark.sliced

RUNS = 200_000
AUDITS, MOST_ALARMS = 20, 14  # of each right one; of 600 audits at alpha 0.01
QUICK = (
    "Laplace, half noise",
    "by the l2 norm",
    "histogram, scale epsilon",
    "clamped to the data",
    "geometric, half noise",
    "Gaussian as pure",
    "sparse vector 5",
    "RAPPOR",
    "a dict, half noise",
    "a text, half noise",
)


def audited(classic: Classic, seed: int, runs: int) -> AuditResult:
    return audit_mechanism(
        classic.mechanism,
        classic.left,
        classic.right,
        classic.claim,
        trials=runs,
        batched=True,
        confidence="0.99",
        seed=seed,
        progress=False,
    )


def alarms(audits: int, runs: int) -> int:
    found = [audited(classic, seed, runs) for classic in RIGHT.values() for seed in range(audits)]
    return sum(one.verdict == "violation" for one in found)


@pytest.mark.parametrize("name", QUICK)
def test_a_faulty_classic_falls(name: str) -> None:
    assert audited(FAULTY[name], 1, RUNS).verdict == "violation"


@pytest.mark.slow
def test_right_classics_are_left_alone() -> None:
    """One audit of each: three alarms have a probability of 0.003 if one in a hundred is allowed."""
    assert len(RIGHT) == 30
    assert alarms(1, 300) <= 2


@pytest.mark.slow
def test_all_but_one_of_the_faulty_classics_fall() -> None:
    missed = [name for name, classic in FAULTY.items() if audited(classic, 1, RUNS).verdict != "violation"]
    assert len(missed) <= 1, missed


@pytest.mark.slow
def test_six_hundred_audits_of_right_classics_alarm_at_most_so_often() -> None:
    found = alarms(AUDITS, RUNS)
    assert found <= MOST_ALARMS
    assert at_most_so_often(found, AUDITS * len(RIGHT), 0.01) > 1e-3
