"""One seed, one verdict: whatever runs it, and in however many pieces."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dpledger as dpl
from dpledger.audit import audit_mechanism
from dpledger.mechanisms.protocol import Release

pytestmark = pytest.mark.sliced

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "engine_audits.py"


@functools.cache
def said(engine: str, jobs: int) -> list[dict[str, Any]]:
    """What audits say under an engine; the seconds that they took are left out."""
    command = [sys.executable, "-W", "ignore", str(PROGRAM), engine, str(jobs)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_one_two_and_sixteen_jobs_say_the_same() -> None:
    (one,) = said("loky", 1)
    assert [one] == said("loky", 2) == said("threading", 16)
    assert {name: result["verdict"] for name, result in one.items()} == {
        "half_noise": "violation",
        "noisy": "not_refuted",
        "batched": "violation",
        "unaided": "not_refuted",
        "Own": "not_refuted",
    }


def test_dask_says_the_same() -> None:
    assert said("dask", 2) == said("loky", 1)


@pytest.mark.slow  # each call of joblib starts actors of its own
def test_ray_says_the_same() -> None:
    assert said("ray", 2) == said("loky", 1)


class RawRelease(dpl.Laplace):
    """A right `sample` beside a `release` that gives the number itself."""

    def release(self, data: object, **options: Any) -> Release[Any]:
        return Release(value=data, parts=self.parts())


@pytest.mark.parametrize("claim", [None, dpl.PureDP(1)], ids=["its own claim", "a given claim"])
def test_a_right_sample_beside_a_raw_release_is_found(claim: Any) -> None:
    """A given claim is not replayed: then the runs find it."""
    mechanism = RawRelease(sensitivity=1, epsilon=1)
    result = audit_mechanism(mechanism, 0.0, 1.0, claim, trials=1_000, seed=1, progress=False)
    assert result.verdict == "violation"
    assert any(words.startswith("RawRelease.release and RawRelease.sample differ in ") for words in result.told)
