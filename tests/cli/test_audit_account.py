"""`dpledger audit-account`: exits 1 where a claim is too small, 2 where it cannot be told, and can record it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.cli import app

RUN = {"relation": "add_remove", "entries": [{"mechanism": {"kind": "gaussian", "noise_multiplier": "1"}}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text(json.dumps(RUN))


@pytest.mark.parametrize(("epsilon", "status", "verdict"), [("4", 1, "violation"), ("5", 0, "not_refuted")])
def test_a_claim_is_compared(epsilon: str, status: int, verdict: str) -> None:
    words = ["audit-account", "run.json", "--epsilon", epsilon, "--delta", "1e-5", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == status, done.output
    assert json.loads(done.stdout)["verdict"] == verdict


def test_a_claim_between_the_bounds_is_no_pass() -> None:
    bounds = dpl.compose(dpl.GaussianLaw(1)).epsilon("1e-5")
    between = str((bounds.lower + bounds.upper) / 2)
    done = CliRunner().invoke(app, ["audit-account", "run.json", "--epsilon", between, "--delta", "1e-5"])
    assert done.exit_code == 2, done.output
    assert "the answer is unknown" in done.output


def test_it_goes_on_record() -> None:
    with dpl.Ledger.create("a.ledger") as book:
        book.scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(1))
    words = ["audit-account", "run.json", "--epsilon", "4", "--ledger", "a.ledger", "--scope", "rows"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    with dpl.Ledger.look("a.ledger") as book:
        assert book.entry(int(done.output.rpartition("entry ")[2])).body.kind == "audited"
