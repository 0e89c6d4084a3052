"""The experiment of the paper, small: noise reduction takes less than doubling, and that less than theory; and what a
run did not lose comes back where a theorem allows it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.composition import Chain, LaplaceLaw, SparseVectorLaw
from dpledger.mechanisms.entropy import seeded

pytestmark = pytest.mark.sliced

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MADE_UP = ("twitter_like", "kdd_like_28")
SEED = 20261122


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    words = [sys.executable, str(EXAMPLES / "accuracy_first.py"), "--json"]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def examples() -> Iterator[dict[str, ModuleType]]:
    """The examples as modules: they import one another, as scripts in one folder do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield {
            name: importlib.import_module(name) for name in ("accuracy_data", "accuracy_first", "accuracy_in_a_ledger")
        }


# ---- the result -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_task_and_accuracy_is_there(rows: list[dict[str, Any]]) -> None:
    made_up = {(row["task"], row["setting"], row["alpha"]) for row in rows if row["task"] in MADE_UP}
    assert made_up == {
        (task, setting, alpha) for task in MADE_UP for setting in ("paper", "default") for alpha in (0.02, 0.05, 0.1)
    }
    real = {row["task"] for row in rows} - set(MADE_UP)
    assert real == {"flight_delay", "flight_late", "diabetes", "breast_cancer"}
    assert all(row["trials"] >= 8 for row in rows)


@pytest.mark.slow
def test_in_the_papers_setting_reduction_takes_less_than_doubling_and_that_less_than_theory(
    rows: list[dict[str, Any]],
) -> None:
    """The seeds are fixed; the ranges were measured by other code, with one threshold: for ridge, whose check falls,
    they reach further up."""
    for row in rows:
        if row["setting"] != "paper":
            continue
        epsilon, more = row["epsilon"], 1.5 if row["family"] == "ridge" else 1
        assert epsilon["reduction"] < epsilon["doubling"] < epsilon["theory"]
        assert 1.8 <= row["doubling_over_reduction"]["value"] <= 4 * more
        assert 5 <= row["theory_over_reduction"]["value"] <= 13 * more


@pytest.mark.slow
def test_so_it_is_at_the_defaults_and_on_real_data(rows: list[dict[str, Any]]) -> None:
    """By medians: a check whose threshold drew a bad coin walks on to levels that cost many times as much."""
    for row in rows:
        median = row["epsilon_median"]
        assert median["reduction"] < median["doubling"]
        assert median["reduction"] < row["epsilon"]["theory"]


@pytest.mark.slow
def test_each_ratio_lies_in_its_interval(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for name in ("doubling_over_reduction", "theory_over_reduction", "one_check_over_reduction"):
            assert 0 < row[name]["low"] < row[name]["value"] < row[name]["high"]


@pytest.mark.slow
def test_a_tighter_ball_makes_each_check_cheaper(rows: list[dict[str, Any]]) -> None:
    checks = {(row["task"], row["setting"], row["alpha"]): row["check_epsilon"]["reduction"] for row in rows}
    for (task, setting, alpha), check in checks.items():
        if setting == "paper":
            assert checks[task, "default", alpha] < check


@pytest.mark.slow
def test_what_was_accepted_is_as_good_as_asked(rows: list[dict[str, Any]]) -> None:
    assert all(share >= 0.9 for row in rows for share in row["met"].values())


@pytest.mark.slow
def test_small_data_pay_much(rows: list[dict[str, Any]]) -> None:
    """A few hundred rows: there is no model worth having at an epsilon that protects anybody."""
    small = [row for row in rows if row["task"] in ("diabetes", "breast_cancer")]
    assert min(row["epsilon_median"]["reduction"] for row in small) > 20
    assert all(row["levels_within"] == {"1": 0, "10": 0} for row in small)
    late = [row["levels_within"]["10"] for row in rows if row["task"] == "flight_late"]
    assert min(late) > 50


@pytest.mark.slow
def test_the_other_baselines_are_told_too(rows: list[dict[str, Any]]) -> None:
    """A sharper theorem may beat them all: nobody should read the ratios as the last word."""
    for row in rows:
        assert set(row["other_theory"]) == ({"derived"} if row["family"] == "ridge" else {"smooth"})
    kdd = [row for row in rows if row["task"] == "kdd_like_28" and row["setting"] == "paper"]
    assert all(row["other_theory"]["smooth"] < row["epsilon"]["reduction"] for row in kdd)


# ---- the data -------------------------------------------------------------------------------------------------------


def test_the_flights_are_those_with_a_known_delay(examples: dict[str, ModuleType]) -> None:
    table = examples["accuracy_data"].flights()
    assert len(table) == 327_346
    features = table.drop(columns="delay").to_numpy()
    assert features.min() == 0
    assert features.max() == 1
    assert np.isfinite(table["delay"]).all()
    for group in ("carrier", "origin", "month", "weekday", "hour"):
        own = [name for name in table.columns if name.startswith(f"{group}_")]
        assert (table[own].sum(axis=1) == 1).all(), f"each flight has one {group} of the public list"


def test_the_made_up_data_are_as_hard_as_those_of_the_paper(examples: dict[str, ModuleType]) -> None:
    excess = examples["accuracy_data"].zero_excess
    assert 0.09 <= excess("twitter_like", False) <= 0.13
    assert 0.10 <= excess("kdd_like_28", False) <= 0.25


# ---- in a ledger ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tried(examples: dict[str, ModuleType]) -> dict[str, Any]:
    """The same run under each budget: the same coins."""
    data = examples["accuracy_data"].flight_late(examples["accuracy_data"].EVERY)
    result: dict[str, Any] = examples["accuracy_in_a_ledger"].tried(data, lambda: seeded(SEED))
    return result


def outcome(receipt: Any) -> tuple[SparseVectorLaw, Chain, Decimal]:
    """The leaf of the check, the chain, and E = min(eps_A, t eps_A / 4) + eps_t."""
    check, chain = receipt.entry.body.parts.of
    assert isinstance(check, SparseVectorLaw)
    assert isinstance(chain, Chain)
    assert check.outcome is not None
    assert check.outcome.closed_epochs == (receipt.value.level,)
    share = min(Decimal(1), Decimal(receipt.value.level) / 4)
    return check, chain, check.epsilon * share + receipt.value.epsilon


def test_every_budget_sees_the_same_run(tried: dict[str, Any]) -> None:
    values = [receipt.value for receipt, _ in tried.values()]
    assert len(values) == 5
    assert all(value == values[0] for value in values)
    assert values[0].reached


def test_the_entry_tells_cap_and_level(tried: dict[str, Any]) -> None:
    for receipt, account in tried.values():
        check, chain, lost = outcome(receipt)
        (admission,) = account.admissions
        assert isinstance(chain.of, LaplaceLaw)
        assert chain.reached == LaplaceLaw(receipt.value.epsilon)
        assert admission.claim == dpl.PureDP(check.epsilon + chain.of.epsilon)
        assert lost < admission.claim.epsilon


@pytest.mark.parametrize(
    ("budget", "settled"),
    [("pure", {"pure"}), ("approximate", {"pure", "mixed_pure_0", "mixed_pure_1"}), ("renyi", {"pure"})],
)
def test_accounts_of_epsilons_fall_to_the_loss(tried: dict[str, Any], budget: str, settled: set[str]) -> None:
    receipt, account = tried[budget]
    _, _, lost = outcome(receipt)
    (admission,) = account.admissions
    assert {name for name, amount in admission.charged.items() if amount} == settled
    assert {admission.charged[name] for name in settled} == {lost}
    assert {admission.reserved[name] for name in settled} == {admission.claim.epsilon}
    for name, left in account.left_by_account.items():
        assert name == "delta" or float(left) == pytest.approx(10 - float(lost), abs=1e-6)


@pytest.mark.parametrize(("budget", "coordinate"), [("zero-concentrated", "rho"), ("gaussian", "mu_squared")])
def test_accounts_of_squares_keep_the_cap(tried: dict[str, Any], budget: str, coordinate: str) -> None:
    _, account = tried[budget]
    (admission,) = account.admissions
    assert admission.charged == admission.reserved
    assert admission.charged[coordinate] > 1


def test_no_delta_comes_back(tried: dict[str, Any]) -> None:
    for _, account in tried.values():
        (admission,) = account.admissions
        assert admission.charged.get("delta") == admission.reserved.get("delta")
