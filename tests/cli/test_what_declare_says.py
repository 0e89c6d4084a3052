"""`dpledger declare`, `report` and `verify`, as somebody meets them who has written no YAML before: what each says of a
mistake is where it is, and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app
from dpledger.reports.sections.declared import ITEMS

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


SAMPLE = Path(__file__).parents[2] / "examples" / "declarations.yaml"


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


def test_the_sample_in_a_ledger_without_scopes_says_what_to_leave_out(run: Run, ledger: Path, tmp_path: Path) -> None:
    sample = SAMPLE.read_text(encoding="utf-8")
    done = run("declare", str(ledger), said(tmp_path, sample))
    assert done.exit_code == 2
    told = "leave out `scopes:` until somebody has opened it in Python (docs/start.md, 2)"
    assert f"no scope 'patients-2026' in this ledger, which has none yet; {told}" in done.stderr
    before, after = sample.split("scopes:")
    assert "leave this out until somebody has opened a scope in Python (docs/start.md, 2)" in after
    assert run("declare", str(ledger), said(tmp_path, before)).exit_code == 0


def test_the_untouched_sample_declares_nothing_of_the_report(run: Run, tmp_path: Path) -> None:
    with dpl.Ledger.create(tmp_path / "other.ledger") as book:
        book.scope("patients-2026", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    done = run("declare", "other.ledger", said(tmp_path, SAMPLE.read_text(encoding="utf-8")))
    assert done.stdout.endswith("  in the sample's words, not filled in: 44 of 49 items of the report\n")
    own = [f"  {item}: Words of our own" for item in ITEMS]
    done = run("declare", "other.ledger", said(tmp_path, "by: A", "ledger:", *own))
    assert done.stdout.endswith("  in the sample's words, not filled in: 1 of 49 items of the report\n")
    own = ["by: A", "ledger:", "  region: x", "scopes:", "  patients-2026:", "    population_size: 12"]
    assert run("declare", "other.ledger", said(tmp_path, *own)).stdout.endswith(
        "every item of the report is declared\n"
    )


@pytest.mark.parametrize("name", ["entry.yaml", "entry.YAML"])
def test_a_registrys_entry_is_of_the_whole_report(run: Run, ledger: Path, tmp_path: Path, name: str) -> None:
    done = run("report", str(ledger), "--summary", "-o", "page.md", "-o", name)
    assert done.exit_code == 2
    assert "entries of a registry (.yaml) need the whole report: leave out --summary, got entry" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix.lower() in {".md", ".yaml"}) == []


def test_without_a_key_verify_says_which_one(run: Run, ledger: Path) -> None:
    """The key that lies beside a ledger came with it: it is not taken for one's own."""
    done = run("verify", str(ledger))
    assert done.exit_code == 2
    assert "key: expected --key with the public key that you trust: its text, or the file that its owner" in done.stderr


@pytest.mark.parametrize("command", [("verify",), ("report", "-o", "report.md")], ids=["verify", "report"])
@pytest.mark.parametrize("as_text", [False, True], ids=["a file", "its text"])
def test_a_signing_key_in_place_of_the_public_one_is_told_and_not_shown(
    run: Run, ledger: Path, command: tuple[str, ...], as_text: bool
) -> None:
    file = Path(f"{ledger}.key")
    secret = file.read_text().strip()
    done = run(*command, str(ledger), "--key", secret if as_text else str(file))
    assert done.exit_code == 2
    assert "this is a signing key, which signs entries: do not pass it on" in done.stderr
    assert secret[-20:] not in done.stderr


def test_a_number_a_day_and_a_kind_that_no_report_can_read_are_told(run: Run, ledger: Path, tmp_path: Path) -> None:
    """They are declared all the same: words are words."""
    unread = ("population_size: 2,000 patients", "first_published: 1.12.2026", "kind_of_product: Some tables")
    file = said(tmp_path, "by: A", "ledger:", *(f"  {line}" for line in unread), "  data_growth: It is growing")
    done = run("declare", str(ledger), file)
    assert done.exit_code == 0
    assert "4 declared" in done.stdout
    assert "population_size: the report looks for a number above 0, in digits alone" in done.stdout
    assert "cannot read '2,000 patients'" in done.stdout
    assert "first_published: the report looks for a day, as 2026-11-02; it cannot read '1.12.2026'" in done.stdout
    assert "kind_of_product: the report looks for one of Summary statistics, " in done.stdout
    assert "data_growth: the" not in done.stdout
    answer = json.loads(run("declare", str(ledger), file, "--json").stdout)
    assert answer["not_read"] == ["first_published", "kind_of_product", "population_size"]
