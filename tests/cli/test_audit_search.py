"""`dpledger audit-search`: exits 1 where it found a pair, tells it, and names a schema that it cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpledger.cli import app

WORDS = ["audit-search", "held:total", "--epsilon", "1", "--seed", "1"]
SCHEMA = '{"rows": {"type": "number", "low": 0, "high": 1}}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("held.py").write_text("def total(rows, rng):\n    return sum(rows) + rng.laplace() if rows else 0.0\n")


@pytest.mark.parametrize("as_file", [False, True])
def test_a_pair_is_found_from_a_schema(as_file: bool) -> None:
    Path("schema.json").write_text(SCHEMA)
    done = CliRunner().invoke(app, [*WORDS, "--schema", "schema.json" if as_file else SCHEMA, "--json"])
    assert done.exit_code == 1, done.output
    said = json.loads(done.stdout)
    assert said["verdict"] == "violation"
    assert "the pair is [] and [0.0]" in said["searched"]


@pytest.mark.parametrize("schema", ["nothing.json", "{", "[]", '{"rows": 1}', '{"columns": {}}'])
def test_a_schema_that_cannot_be_read_is_named(schema: str) -> None:
    done = CliRunner().invoke(app, [*WORDS, "--schema", schema])
    assert done.exit_code == 2
    assert "dpledger: " in done.stderr
    assert "Traceback" not in done.output


def test_a_function_without_a_claim_is_asked_for_one() -> None:
    done = CliRunner().invoke(app, ["audit-search", "held:total", "--schema", SCHEMA])
    assert done.exit_code == 2
    assert "epsilon" in done.stderr
