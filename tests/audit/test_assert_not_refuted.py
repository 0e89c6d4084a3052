"""Audits in a test suite: they fail where a claim is false, and where they could not have found out."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit import assert_not_refuted
from dpledger.errors import AuditTooWeak, ClaimRefuted, ParameterError

pytestmark = pytest.mark.sliced

Rng = np.random.Generator
SECRET = 4711.25


def noisy(data: float, rng: Rng) -> float:
    return data + rng.laplace()


def raw(data: float, rng: Rng) -> float:
    """Shows the number itself, once in ten runs."""
    return data if rng.random() < 0.1 else data + rng.laplace()


def test_a_promise_that_is_kept_passes_and_gives_the_results() -> None:
    (result,) = assert_not_refuted(noisy, [(0.0, 1.0)], dpl.PureDP(1), trials=3_000)
    assert result.verdict == "not_refuted"
    assert result.power is not None
    assert result.power.epsilon <= 2


def test_a_false_promise_fails_with_the_line_that_runs_it_again_and_no_output() -> None:
    with pytest.raises(ClaimRefuted) as failed:
        assert_not_refuted(raw, [(SECRET, SECRET + 1)], dpl.PureDP(1), trials=3_000, seed=7)
    said = str(failed.value)
    assert isinstance(failed.value, AssertionError)
    assert "violation: pure_dp(epsilon=1) is refuted" in said
    assert "seed=7" in said
    assert str(int(SECRET)) not in said
    assert json.loads(failed.value.found)["verdict"] == "violation"


def test_the_same_seed_gives_the_same_verdict() -> None:
    one, two = (assert_not_refuted(noisy, [(0.0, 1.0)], dpl.PureDP(1), trials=2_000)[0] for _ in range(2))
    assert one.evidence == two.evidence


@pytest.mark.parametrize(
    ("function", "changes", "why"),
    [
        (noisy, {"trials": 100}, "more trials, or a larger must_detect"),
        (noisy, {"trials": 2_000, "must_detect": 1}, "must_detect"),
        (lambda data, rng: None, {"trials": 400}, "the audit could see nothing"),
    ],
)
def test_a_test_that_can_find_nothing_does_not_pass(function: Any, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(AuditTooWeak, match=why) as failed:
        assert_not_refuted(function, [(0.0, 1.0)], dpl.PureDP(1), **changes)
    assert isinstance(failed.value, AssertionError)
    assert pickle.loads(pickle.dumps(failed.value)).args == failed.value.args


def test_half_the_noise_does_not_pass_for_want_of_a_tail() -> None:
    """A Gaussian with the true epsilon 2.16 at the delta of the claim (1, 1e-5): 2,000 runs refute it next to never."""
    with pytest.raises(AuditTooWeak, match="at least 100,000 trials"):
        assert_not_refuted(
            lambda data, size, rng: data + rng.normal(0, 1 / 0.5361, size),
            [(0.0, 1.0)],
            dpl.ApproxDP(1, "0.00001"),
            trials=2_000,
            batched=True,
        )


def histogram(data: dict[int, int], rng: Rng) -> dict[str, float]:
    """No noise on the last twenty of a hundred keys."""
    return {f"cat{i:03d}": data.get(i, 0) + (rng.laplace() if i < 80 else 0.0) for i in range(100)}


def test_a_key_without_noise_is_found_among_a_hundred() -> None:
    with pytest.raises(ClaimRefuted):
        assert_not_refuted(histogram, [({90: 3}, {90: 4})], dpl.PureDP(1), trials=300)


def test_the_error_is_shared_by_all_pairs() -> None:
    results = assert_not_refuted(noisy, [(0.0, 1.0), (1.0, 0.0)], dpl.PureDP(1), alpha="0.01", trials=2_000)
    assert [result.evidence.alpha for result in results] == [results[0].evidence.alpha] * 2
    assert results[0].evidence.alpha * 2 <= 1 / 100


@pytest.mark.parametrize("pairs", [[], None, (0, 1), [(0, 1, 2)], "ab"])
def test_pairs_are_pairs(pairs: Any) -> None:
    with pytest.raises(ParameterError, match=r"^pairs.*an empty list" if pairs == [] else r"^pairs"):
        assert_not_refuted(noisy, pairs, dpl.PureDP(1))


def test_the_fixture_puts_what_was_found_into_the_report_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import dpledger as dpl\n"
        "def test_it(assert_not_refuted):\n"
        "    assert_not_refuted(dpl.Laplace(sensitivity=1, epsilon=1), [(0, 1)], trials=3000)\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "dpledger.pytest_plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # whether it is installed, or only in reach
    asked = [*words, "--junitxml", "run.xml", "test_mine.py"]
    done = subprocess.run(asked, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "epsilon_lower of laplace on int and int" in (tmp_path / "run.xml").read_text()
