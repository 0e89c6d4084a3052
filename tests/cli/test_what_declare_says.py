"""`dpledger declare`, `report` and `verify`, as somebody meets them who has written no YAML before: what each says of a
mistake is where it is, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)

    def call(*words: str) -> Result:
        return CliRunner().invoke(app, list(words), catch_exceptions=True)

    return call


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger that nobody has opened a scope in."""
    path = tmp_path / "clinic.ledger"
    dpl.Ledger.create(path).close()
    return path


def said(folder: Path, *lines: str) -> str:
    (folder / "said.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "said.yaml"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("ledger:", "  region: x"), "by in line 1: expected whose words these are, as `by: NAME`, got nothing"),
        (
            ("by: A", "ledger:", "  dpia_reference: #2026-014"),
            'a text that begins with # goes in "quotes"',
        ),
        (("by: A", "ledger:", "\tregion: x"), "in line 3: expected spaces, got a tab"),
        (("by: A", "ledger:", "  region: *all of it*"), 'one that begins with &, * or ! goes in "quotes"'),
        (
            ("by: A", "ledger:", "\u00a0\u00a0region: x"),
            "in line 3: expected spaces, as the space bar makes them",
        ),
        (("by: A", "scopes:"), "scopes in line 2: expected a mapping of scopes; without any, leave it out"),
        (("by: A", "ledger:", "  people: All", "  limits:x", "  region: x"), "in line 4: expected each name"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_write(
    run: Run, ledger: Path, tmp_path: Path, lines: tuple[str, ...], told: str
) -> None:
    before = ledger.read_bytes()
    done = run("declare", str(ledger), said(tmp_path, *lines))
    assert done.exit_code == 2
    assert done.stderr.startswith("dpledger: said.yaml")
    assert told in done.stderr
    assert "\\x" not in done.stderr
    assert ledger.read_bytes() == before
