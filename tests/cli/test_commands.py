"""The command line, as a user meets it: what it prints, what programs read, and how it says no."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app
from dpledger.cli.speaking import bounds_in_words

pytestmark = pytest.mark.sliced

Run = Callable[..., Result]

DOCUMENT = {
    "relation": "add_remove",
    "entries": [
        {
            "count": 1000,
            "mechanism": {
                "kind": "poisson_sampled",
                "rate": "0.01",
                "of": {"kind": "gaussian", "noise_multiplier": "1.0"},
            },
        },
        {"count": 3, "mechanism": {"kind": "laplace", "epsilon": "0.1"}},
        {"count": 1, "mechanism": {"kind": "approx_dp", "epsilon": "0.5", "delta": "1e-9"}},
    ],
}


EXCHANGED = {"relation": "replace_one"}
SILENT = {"kind": "gaussian", "noise_multiplier": 0}
SAMPLED = {"kind": "poisson_sampled", "rate": "0.1", "of": {"kind": "laplace", "epsilon": "1"}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)

    def call(*words: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(words), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger file with one scope, one release and one refusal."""
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.25"), 10)
        with pytest.raises(dpl.BudgetRefused):
            scope.release(dpl.Laplace(sensitivity=1, epsilon=2), 10)
    return path


# ---- tables ---------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_each_row_whole(run: Run) -> None:
    """What reads a pipe looks for a name; nothing there is as wide as a screen."""
    name = "patients-of-" + "all-the-hospitals-" * 6 + "2026"
    with dpl.Ledger.create("wide.ledger") as book:
        book.scope(name, unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    assert any(name in row for row in run("show", "wide.ledger").stdout.splitlines())


# ---- compose --------------------------------------------------------------------------------------------------------


def test_compose_prints_both_bounds_for_programs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(DOCUMENT))
    done = run("compose", "run.json", "--delta", "1e-5", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["delta"] == "1e-5"
    assert 2.3747 < answer["epsilon"]["lower"] <= answer["epsilon"]["upper"] < 2.3749


def test_compose_confirms_its_bounds_in_ball_arithmetic(run: Run) -> None:
    words = ("compose", "-", "--delta", "1e-5", "--json")
    plain = json.loads(run(*words, stdin=json.dumps(DOCUMENT)).stdout)["epsilon"]
    checked = json.loads(run(*words, "--verify", "arb", stdin=json.dumps(DOCUMENT)).stdout)["epsilon"]
    assert checked["lower"] <= plain["lower"] <= plain["upper"] <= checked["upper"] < plain["upper"] + 1e-4
    assert run(*words, "--verify", "faith", stdin=json.dumps(DOCUMENT)).exit_code == 2


def test_compose_reads_standard_input_and_answers_in_words(run: Run) -> None:
    done = run("compose", "-", "--epsilon", "1", stdin=json.dumps(DOCUMENT))
    assert done.exit_code == 0
    assert done.stdout.startswith("delta at epsilon 1: [")


def test_compose_shows_a_whole_profile(run: Run) -> None:
    done = run("compose", "-", "--profile", "--json", stdin=json.dumps(DOCUMENT))
    points = json.loads(done.stdout)["profile"]
    uppers = [point["delta"]["upper"] for point in points]
    assert len(points) > 3
    assert uppers == sorted(uppers, reverse=True)


@pytest.mark.parametrize(
    ("document", "words", "complaint"),
    [
        ("{", ("--delta", "1e-5"), "JSON"),
        (json.dumps({**DOCUMENT, "extra": 1}), ("--delta", "1e-5"), "extra"),
        (json.dumps({**DOCUMENT, "relation": "sideways"}), ("--delta", "1e-5"), "relation"),
        (json.dumps(DOCUMENT), ("--delta", "nan"), "delta"),
        (json.dumps(DOCUMENT), ("--delta", "-1"), "delta"),
        (json.dumps(DOCUMENT), ("--delta", "2"), "delta"),
        (json.dumps(DOCUMENT), ("--epsilon", "inf"), "epsilon"),
        (json.dumps(DOCUMENT), (), "exactly one"),
        (json.dumps(DOCUMENT), ("--delta", "1e-5", "--profile"), "exactly one"),
        (json.dumps({"relation": "add_remove", "entries": [{"mechanism": SILENT}]}), ("--delta", "1e-5"), "noise_mult"),
        (json.dumps({**EXCHANGED, "entries": [{"mechanism": SAMPLED}]}), ("--delta", "1e-5"), "replace_one"),
    ],
)  # fmt: skip
def test_compose_names_what_is_wrong(run: Run, document: str, words: tuple[str, ...], complaint: str) -> None:
    done = run("compose", "-", *words, stdin=document)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert done.stdout == ""


def test_the_process_ends_with_the_exit_status_and_no_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dpledger", "compose", str(tmp_path / "nowhere.json"), "--delta", "1e-5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "nowhere.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_document_is_bad_input(run: Run) -> None:
    done = run("compose", "nowhere.json", "--delta", "1e-5", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["kind"] == "ParameterError"


def test_bounds_are_shown_rounded_outward() -> None:
    assert bounds_in_words(1 / 3, 1 / 3) == "[0.3333333333, 0.3333333334]"
    assert bounds_in_words(0.0, float("inf")) == "[0, infinite]"


# ---- ledgers --------------------------------------------------------------------------------------------------------


def test_init_makes_a_ledger_and_keys_for_their_owner_alone(run: Run, tmp_path: Path) -> None:
    done = run("init", "new.ledger", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["id"].startswith("new/")
    for secret in ("new.ledger.key", "new.ledger.recovery.key", "new.ledger"):
        assert (tmp_path / secret).stat().st_mode & 0o077 == 0
    again = run("init", "new.ledger")
    assert again.exit_code == 2
    assert "new.ledger" in again.stderr


def test_looking_at_a_ledger(run: Run, ledger: Path) -> None:
    scopes = json.loads(run("scopes", str(ledger), "--json").stdout)["scopes"]
    assert [(scope["scope"], scope["admitted"], scope["refused"]) for scope in scopes] == [("patients", 1, 1)]
    spent = json.loads(run("spent", str(ledger), "--scope", "patients", "--json").stdout)
    assert 0.2499 < spent["epsilon"]["lower"] <= spent["epsilon"]["upper"] == 0.25
    assert spent["left"] == {"epsilon": 0.75}
    assert "left: 0.75, the most epsilon" in run("spent", str(ledger), "--scope", "patients").stdout
    shown = json.loads(run("show", str(ledger), "--json").stdout)["entries"]
    assert [entry["kind"] for entry in shown] == ["ledger_opened", "scope_opened", "reserved", "committed", "refused"]
    assert json.loads(run("show", str(ledger), "--index", "4", "--json").stdout)["asked"] == {"pure": "2"}
    assert "refused" in run("show", str(ledger)).stdout


def test_of_a_closed_scope_nothing_is_left(run: Run, ledger: Path) -> None:
    with dpl.Ledger.open_or_create(ledger) as book:
        book.scope("patients").end("done")
    spent = json.loads(run("spent", str(ledger), "--scope", "patients", "--json").stdout)
    assert spent["left"] == {"epsilon": 0}


def test_scopes_of_one_dataset_are_added_up(run: Run, tmp_path: Path) -> None:
    with dpl.Ledger.create(tmp_path / "people.ledger") as book:
        for name, dataset in (("counts", "ward 7"), ("models", "ward 7"), ("survey", None)):
            budget = dpl.ApproxDP(1, "1e-6")
            book.scope(name, unit="patient", relation="add_remove", budget=budget, dataset=dataset)
    words = run("scopes", "people.ledger").stdout
    assert (
        "together at most approx_dp(epsilon=2, delta=0.000002) for one patient of dataset 'ward 7' (add_remove): "
        "scopes counts, models"
    ) in " ".join(words.split())
    assert "not added up (survey): they name no dataset" in " ".join(words.split())
    found = json.loads(run("scopes", "people.ledger", "--json").stdout)
    assert found["together"] == [
        {
            "dataset": "ward 7",
            "unit": {"name": "patient", "max_contributions": 1},
            "relation": "add_remove",
            "scopes": ["counts", "models"],
            "counted": ["counts", "models"],
            "guarantee": {"kind": "approx_dp", "epsilon": "2", "delta": "0.000002"},
        }
    ]
    assert [one["scopes"] for one in found["not_added"]] == [["survey"]]


def test_the_only_scope_need_not_be_named(run: Run, ledger: Path) -> None:
    named, unnamed = run("spent", str(ledger), "--scope", "patients"), run("spent", str(ledger))
    assert (unnamed.exit_code, unnamed.stdout) == (0, named.stdout)
    assert json.loads(run("spent", str(ledger), "--json").stdout)["scope"] == "patients"


def test_of_several_scopes_each_is_read_and_of_none_nothing(run: Run, tmp_path: Path) -> None:
    with dpl.Ledger.create(tmp_path / "many.ledger") as book:
        none = run("spent", "many.ledger")
        for number in range(21):
            rules: Any = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(1)}
            book.scope(f"s{number:02}", dataset=f"d{number}", **rules)
    several = run("spent", "many.ledger")
    assert (none.exit_code, several.exit_code) == (2, 0)
    assert "the ledger has no scope yet: somebody opens one in Python" in none.stderr
    assert "s00: spent epsilon" in several.stdout
    assert "s20: spent epsilon" in several.stdout
    told = json.loads(run("spent", "many.ledger", "--json").stdout)["scopes"]
    assert told[20] == json.loads(run("spent", "many.ledger", "--scope", "s20", "--json").stdout)


@pytest.mark.parametrize(("budget", "used"), [(dpl.GDP(1), "μ² ≤ 4e-4 of 1"), (dpl.ZCDP(1, "1e-6"), "ρ ≤ 2e-4 of 1")])
def test_of_a_budget_in_rho_or_mu_what_is_used_is_told_beside_its_epsilon(
    run: Run, tmp_path: Path, budget: Any, used: str
) -> None:
    with dpl.Ledger.create(tmp_path / "native.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=budget, dataset="d")
        unused = run("spent", "native.ledger").stdout
        scope.release(dpl.Gaussian(sensitivity=1, noise_multiplier=50), 5)
    words = run("spent", "native.ledger").stdout
    assert f"how much is used: {used}; look at this, not at the second bound" in words
    assert "the first charge, however small, brings much or all" in words
    assert f"used: {used}" in run("scopes", "native.ledger").stdout
    assert "how much is used" not in unused


def test_of_runs_elsewhere_alone_it_is_said_why_nothing_is_known_from_below(run: Run, tmp_path: Path) -> None:
    with dpl.Ledger.create(tmp_path / "other.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1), dataset="d")
        scope.charge(dpl.PureDP("0.5"), relation="add_remove", by="A. Lindqvist", reason="ran at the partner's")
    assert "the first is 0 because every charge is for a run elsewhere" in run("spent", "other.ledger").stdout


def test_an_odometer_is_read_beside_what_was_spent(run: Run, tmp_path: Path) -> None:
    odometer = dpl.ex_post.Odometer("mixture", tuning="0.5", delta_boundary="1e-6")
    with dpl.Ledger.create(tmp_path / "read.ledger") as book:
        budget = dpl.ApproxDP(1, "1e-6")
        scope = book.scope("s", unit="patient", relation="add_remove", budget=budget, odometer=odometer)
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.5"), 3)
    assert "odometer" in run("spent", "read.ledger", "--scope", "s").stdout
    found = json.loads(run("spent", "read.ledger", "--scope", "s", "--json").stdout)
    assert found["odometer"] == {"delta": "0.000001", "epsilon": {"upper": 0.5}}


def test_a_bundle_is_verified_with_the_public_key_alone(run: Run, ledger: Path, tmp_path: Path) -> None:
    assert run("export", str(ledger), "-o", "bundle").exit_code == 0
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "bundle", elsewhere / "bundle")
    shutil.copy(f"{ledger}.pub", elsewhere / "key.pub")
    done = run("verify", str(elsewhere / "bundle"), "--key", str(elsewhere / "key.pub"), "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["size"] == 5


def test_a_changed_bundle_does_not_verify_and_the_entry_is_named(run: Run, ledger: Path, tmp_path: Path) -> None:
    run("export", str(ledger), "-o", "bundle")
    entries = tmp_path / "bundle" / "entries.jsonl"
    lines = entries.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"a", b"b", 1)
    entries.write_bytes(b"\n".join(lines))
    for words in (("verify",), ("report", "-o", "report.html")):
        done = run(words[0], "bundle", "--key", f"{ledger}.pub", *words[1:])
        assert done.exit_code == 1
        assert done.stderr.startswith("dpledger: DOES NOT VERIFY: entry 2")
    assert not (tmp_path / "report.html").exists()


def test_a_remembered_head_shows_that_the_record_goes_on(run: Run, ledger: Path, tmp_path: Path) -> None:
    run("export", str(ledger), "-o", "before")
    with dpl.Ledger.open(ledger) as book:
        book.scope("patients").release(dpl.Laplace(sensitivity=1, epsilon="0.25"), 10)
    done = run("verify", str(ledger), "--key", f"{ledger}.pub", "--since", "before/checkpoint", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["unwitnessed"] == 2
    rolled_back = run("export", str(ledger), "-o", "after")
    assert rolled_back.exit_code == 0
    done = run("verify", "before", "--key", f"{ledger}.pub", "--since", "after/checkpoint")
    assert done.exit_code == 1


@pytest.mark.parametrize("command", ["scopes", "show", "verify", "export", "report", "spent"])
@pytest.mark.parametrize("damage", ["missing", "empty", "text", "foreign", "truncated", "folder"])
def test_what_is_no_whole_ledger_is_bad_input(
    run: Run, ledger: Path, tmp_path: Path, command: str, damage: str
) -> None:
    target = tmp_path / "target.ledger"
    match damage:
        case "empty":
            target.write_bytes(b"")
        case "text":
            target.write_text("not a ledger\n" * 100)
        case "foreign":
            with sqlite3.connect(target) as other:
                other.execute("CREATE TABLE t (x)")
            other.close()
        case "truncated":
            whole = ledger.read_bytes()
            target.write_bytes(whole[: len(whole) // 2])
        case "folder":
            target.mkdir()
    words = {
        "verify": ["--key", f"{ledger}.pub"],
        "export": ["-o", "out"],
        "report": ["-o", "out.html", "--key", f"{ledger}.pub"],
        "spent": ["--scope", "patients"],
    }
    done = run(command, str(target), *words.get(command, []))
    assert done.exit_code == 2, done.stderr
    assert "target.ledger" in done.stderr


# ---- declare, report ------------------------------------------------------------------------------------------------


def test_a_file_is_declared_once_and_the_report_knows_it(run: Run, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "said.yaml").write_text("by: A\nledger: {region: Europe}\nscopes: {patients: {population_size: 398}}\n")
    first = run("declare", str(ledger), "said.yaml", "--json")
    assert first.exit_code == 0
    answer = json.loads(first.stdout)
    assert len(answer["declared"]) == 2
    assert not {"region", "population_size"} & set(answer["missing"])
    again = run("declare", str(ledger), "said.yaml")
    assert again.exit_code == 0
    assert "nothing new" in again.stdout
    assert run("report", str(ledger), "-o", "report.md").exit_code == 0
    assert "Europe" in (tmp_path / "report.md").read_text()


def test_a_file_that_cannot_be_declared_is_bad_input_and_changes_nothing(
    run: Run, ledger: Path, tmp_path: Path
) -> None:
    before = ledger.read_bytes()
    (tmp_path / "said.yaml").write_text("by: A\nledger: {regoin: Europe}\n")
    done = run("declare", str(ledger), "said.yaml")
    assert done.exit_code == 2
    assert "said.yaml" in done.stderr
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("name", ["report.pdf", "report.txt", "report"])
def test_a_form_that_there_is_none_of_is_refused_before_the_work(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that would take minutes to verify is not read for it."""
    monkeypatch.setattr("dpledger.cli.records.verified", lambda *_: pytest.fail("the ledger was verified"))
    found = run("report", str(tmp_path / "clinic.ledger"), "-o", str(tmp_path / "report.html"), "-o", name)
    assert found.exit_code == 2
    assert ".html, .json, .md or .yaml" in " ".join(found.output.split())
    assert not list(tmp_path.iterdir())


def test_the_first_page_is_written_alone(run: Run, ledger: Path, tmp_path: Path) -> None:
    done = run("report", str(ledger), "--summary", "-o", "page.html", "-o", "page.md", "-o", "page.json")
    assert done.exit_code == 0
    page = json.loads((tmp_path / "page.json").read_text())
    assert (len(page["pages"][0]["answers"]), page["sections"]) == (10, [])
    assert page["of"] in (tmp_path / "page.html").read_text()
    assert run("report", str(ledger), "--summary", "-o", "entry.yaml").exit_code == 2


def test_a_report_on_a_bundle_asks_for_the_key(run: Run, ledger: Path, tmp_path: Path) -> None:
    assert run("export", str(ledger), "-o", "bundle").exit_code == 0
    done = run("report", "bundle", "-o", "report.md")
    assert done.exit_code == 2
    assert done.stderr.startswith("dpledger: key: expected --key with the public key that you trust")
    assert run("report", "bundle", "--key", f"{ledger}.pub", "-o", "report.md").exit_code == 0


def test_a_report_tells_what_came_after_a_checkpoint(run: Run, ledger: Path, tmp_path: Path) -> None:
    assert run("export", str(ledger), "-o", "before").exit_code == 0
    with dpl.Ledger.open(ledger) as book:
        size = len(book)
        book.scope("patients").release(dpl.Laplace(sensitivity=1, epsilon="0.125"), 10)
    assert run("report", str(ledger), "--since", "before/checkpoint", "-o", "report.md").exit_code == 0
    text = (tmp_path / "report.md").read_text()
    assert f"nothing up to entry {size - 1} was changed. The 2 entries after it" in text
    assert f"{size} entries then, as they are now; since: 1 charge, 1 settled charge, " in text
    (tmp_path / "no.checkpoint").write_text("hello")
    done = run("report", str(ledger), "--since", "no.checkpoint", "-o", "report.md")
    assert done.exit_code == 2
    assert "no.checkpoint" in done.stderr


OWN = "came with this record, or is as new as it, so it shows nothing about earlier copies"


def test_the_checkpoint_of_the_bundle_itself_shows_nothing(run: Run, ledger: Path, tmp_path: Path) -> None:
    """Nor does a copy of it, nor an older one that whoever handed over the bundle put into it."""
    key = ("--key", f"{ledger}.pub")
    run("export", str(ledger), "-o", "before")
    with dpl.Ledger.open(ledger) as book:
        size = len(book)
        book.scope("patients").release(dpl.Laplace(sensitivity=1, epsilon="0.125"), 10)
    run("export", str(ledger), "-o", "bundle")
    shutil.copy(tmp_path / "bundle" / "checkpoint", tmp_path / "as.new")
    shutil.copy(tmp_path / "before" / "checkpoint", tmp_path / "bundle" / "older")
    for since in ("bundle/checkpoint", "as.new", "bundle/older"):
        assert run("report", "bundle", *key, "--since", since, "-o", "report.md").exit_code == 0
        text = (tmp_path / "report.md").read_text()
        assert OWN in text
        assert "nothing up to entry" not in text
        assert "none: the one given came with this record" in text
        verified = run("verify", "bundle", *key, "--since", since)
        assert OWN in verified.stdout
        assert json.loads(run("verify", "bundle", *key, "--since", since, "--json").stdout)["unwitnessed"] == size + 2
    shown = run("report", "bundle", *key, "--since", "before/checkpoint", "-o", "report.md")
    assert shown.exit_code == 0
    assert f"nothing up to entry {size - 1} was changed. The 2 entries" in (tmp_path / "report.md").read_text()


def test_a_report_is_recorded_and_the_next_one_names_it(run: Run, ledger: Path, tmp_path: Path) -> None:
    done = run("report", str(ledger), "-o", "report.json", "--record", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert hashlib.sha256((tmp_path / "report.json").read_bytes()).hexdigest() == answer["digest"]
    assert run("report", str(ledger), "-o", "next.json", "-o", "next.html", "--record").exit_code == 0
    next_digest = hashlib.sha256((tmp_path / "next.json").read_bytes()).hexdigest()
    assert next_digest in (tmp_path / "next.html").read_text()
    assert run("report", str(ledger), "-o", "last.md").exit_code == 0
    text = (tmp_path / "last.md").read_text()
    assert f"recorded in entry {answer['recorded'] + 1}" in text
    run("export", str(ledger), "-o", "bundle")
    refused = run("report", "bundle", "--key", f"{ledger}.pub", "-o", "refused.json", "--record")
    assert refused.exit_code == 2
    assert "nothing is appended to a bundle" in refused.stderr
    assert not (tmp_path / "refused.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "report.html"), "add -o report.json"),
        (("-o", "page.json", "--summary"), "give --record without --summary"),
    ],
    ids=["no json", "a first page alone"],
)
def test_no_digest_is_recorded_of_what_is_not_written(
    run: Run, ledger: Path, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    before = ledger.read_bytes()
    refused = run("report", str(ledger), *words, "--record")
    assert refused.exit_code == 2
    assert told in refused.stderr
    assert ledger.read_bytes() == before
    assert not (tmp_path / words[1]).exists()


def test_a_file_for_a_scope_that_is_not_there_names_those_that_are(run: Run, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "said.yaml").write_text("by: A\nscopes: {patient: {region: Europe}}\n")
    done = run("declare", str(ledger), "said.yaml")
    assert done.exit_code == 2
    assert "no scope 'patient' in this ledger, which has 'patients'" in done.stderr


def test_declaring_the_words_of_the_sample_is_told(run: Run, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "said.yaml").write_text("by: A\nledger: {intended_use: Planning of screening capacity, region: Here}\n")
    done = run("declare", str(ledger), "said.yaml")
    assert done.exit_code == 0
    assert "copied word for word from the sample file, which is about nobody: intended_use" in done.stdout
    assert json.loads(run("declare", str(ledger), "said.yaml", "--json").stdout)["of_the_sample"] == ["intended_use"]
    sample = Path(__file__).parents[2] / "examples" / "declarations.yaml"
    (tmp_path / "all.yaml").write_text(sample.read_text().replace("patients-2026", "patients"))
    (line,) = (line for line in run("declare", str(ledger), "all.yaml").stdout.splitlines() if "copied word" in line)
    assert (line.count(", "), line.endswith(" and 36 more")) == (8, True)


def test_a_registrys_entry_is_written(run: Run, ledger: Path, tmp_path: Path) -> None:
    assert run("report", str(ledger), "-o", "entry.yaml").exit_code == 0
    assert 'status: "Draft"' in (tmp_path / "entry.yaml").read_text()


# ---- audit ----------------------------------------------------------------------------------------------------------


def test_a_planted_fault_is_found(run: Run) -> None:
    done = run("audit", "zoo:laplace_half_noise", "--trials", "20000", "--seed", "1", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["verdict"] == "violation"


def test_a_correct_mechanism_is_not_refuted_and_nothing_is_proved(run: Run) -> None:
    done = run("audit", "zoo:laplace", "--trials", "20000", "--seed", "1")
    assert done.exit_code == 0
    assert "not refuted" in done.stdout
    assert "proved" not in done.stdout


def test_an_absurd_number_of_trials_ends_when_the_seconds_are_over(run: Run) -> None:
    started = time.monotonic()
    done = run("audit", "zoo:laplace", "--trials", "1000000000000", "--seconds", "1", "--seed", "1")
    assert done.exit_code == 0
    assert time.monotonic() - started < 60


def test_a_function_of_the_user_is_audited(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def release(data, rng):\n    return data + rng.laplace()\n")
    words = ("--left", "0", "--right", "1", "--epsilon", "1", "--trials", "5000", "--seed", "3")
    assert run("audit", "mine:release", *words).exit_code == 0


@pytest.mark.parametrize("target", ["zoo:nothing", "no.such.module:f", "json:nothing", "plain"])
def test_an_unknown_target_is_bad_input(run: Run, target: str) -> None:
    done = run("audit", target, "--left", "0", "--right", "1", "--epsilon", "1")
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("job.py:release", "module:name, without .py: job:release"),
        ("./job.py:release", "without .py: job:release, got"),
        ("night/job.py:release", "without .py: job:release, in the folder night"),
        ("job.py", "without .py: job:NAME"),
        ("job", "module:name, like job:release for the function `release` in job.py"),
        (":release", "module:name, like job:release"),
        ("", "module:name, like job:release"),
        ("json:dump_s", "a name that json has, like json:dumps"),
        ("json:_", "a name that json has"),
        ("not_there:f", "current folder (ModuleNotFoundError"),
        ("zoo:laplase", "like zoo:laplace"),
        ("zoo:", "one of the names in dpledger.audit.zoo.ZOO"),
    ],
)
def test_a_target_that_is_none_is_told_what_one_is(run: Run, target: str, told: str) -> None:
    done = run("audit", target, "--left", "0", "--right", "1", "--epsilon", "1")
    assert done.exit_code == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_module_that_was_imported_is_proposed(run: Run, tmp_path: Path) -> None:
    text = "import math as ma, dpledger as dpl\n\nmab = 3\nmac = dpl.Count(1, of='rows')\n\ndef mad(data, rng): ...\n"
    (tmp_path / "my_names.py").write_text(text)
    told = run("audit", "my_names:ma_", *PAIR).stderr
    assert "my_names:mac" in told
    assert "my_names:mad" in told
    assert "my_names:mab" not in told
    assert "my_names:ma," not in told.replace("got my_names:ma_", "")


def test_a_function_without_a_claim_is_asked_for_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_unclaimed.py").write_text(NOISY)
    done = run("audit", "my_unclaimed:release", "--left", "0", "--right", "1")
    assert (done.exit_code, "--epsilon 1" in done.stderr) == (2, True)


NOISY = "def release(data, rng):\n    return data + rng.laplace()\n"
PAIR = ("--left", "0", "--right", "1", "--epsilon", "1", "--trials", "2000", "--seed", "3")


def test_the_module_of_the_current_folder_is_meant_and_found_in_this_command_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_own_release.py").write_text(NOISY)
    before = list(sys.path)
    assert run("audit", "my_own_release:release", *PAIR).exit_code == 0
    assert sys.path == before
    assert "current folder" in " ".join(run("audit", "--help").stdout.split())


def test_a_module_that_breaks_as_it_is_loaded_is_bad_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_broken_release.py").write_text("1 / 0\n")
    done = run("audit", "my_broken_release:release", *PAIR)
    assert done.exit_code == 2
    assert "ZeroDivisionError" in done.stderr


def test_a_function_that_cannot_be_called_is_bad_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_noarg_release.py").write_text("def noarg():\n    return 1\n")
    done = run("audit", "my_noarg_release:noarg", *PAIR)
    assert done.exit_code == 2
    assert "TypeError" in done.stderr
    assert "f(data, rng)" in done.stderr


ROWS = "import dpledger as dpl\n\ncount = dpl.Count(1, of='rows')\nwards = dpl.Histogram(1, categories=('a', 'b'))\n"
RUNS = ("--trials", "2000", "--seed", "3")


def test_rows_that_are_no_neighbours_refute_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_rows.py").write_text(ROWS)
    far = run("audit", "my_rows:count", "--left", "[1, 1]", "--right", "[1, 1, 1, 1, 1]", *RUNS)
    assert (far.exit_code, "no neighbours under add_remove" in far.stderr) == (2, True)
    assert run("audit", "my_rows:count", "--left", "[1, 1]", "--right", "[1, 1, 1]", *RUNS).exit_code == 0


def test_a_relation_is_named_where_no_scope_brings_one(run: Run, tmp_path: Path, ledger: Path) -> None:
    (tmp_path / "my_wards.py").write_text(ROWS)
    words = ("audit", "my_wards:wards", "--left", '["a"]', "--right", '["b"]', *RUNS)
    assert run(*words).exit_code == 2
    assert run(*words, "--relation", "replace_one").exit_code == 0
    assert run(*words, "--relation", "neighbours").exit_code == 2
    beside = run(*words, "--relation", "replace_one", "--ledger", str(ledger), "--scope", "patients")
    assert (beside.exit_code, "nothing together with --scope" in beside.stderr) == (2, True)


def test_what_a_function_raises_is_shown_to_whoever_audits_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_raising_release.py").write_text("def release(data, rng):\n    raise ValueError(f'boom {data}')\n")
    done = run("audit", "my_raising_release:release", *PAIR, "--left", "7", "--right", "7")
    assert done.exit_code == 2
    assert "ValueError from all of the first 128 runs" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1] == "cause: ValueError: boom 7 (line 2 of my_raising_release.py)"
    told = run("audit", "my_raising_release:release", *PAIR, "--left", "7", "--right", "7", "--json")
    assert json.loads(told.stdout)["error"]["notes"] == [done.stderr.splitlines()[1]]


def test_of_what_was_raised_the_record_knows_no_words(run: Run, tmp_path: Path, ledger: Path) -> None:
    (tmp_path / "my_recorded_release.py").write_text("def release(data, rng):\n    raise ValueError('boom')\n")
    before = ledger.read_bytes()
    assert run("audit", "my_recorded_release:release", *PAIR, "--ledger", str(ledger)).exit_code == 2
    assert (audits(ledger), b"boom" in ledger.read_bytes(), b"boom" in before) == ([], False, False)


@pytest.mark.parametrize("value", ["None", "7", "'done'", "[0.0, 1.0]", "float('nan')"])
def test_a_function_that_always_gives_the_same_does_not_pass_a_gate(run: Run, tmp_path: Path, value: str) -> None:
    (tmp_path / "my_constant_release.py").write_text(
        f"def release(data, rng):\n    rng.laplace()\n    return {value}\n"
    )
    sys.modules.pop("my_constant_release", None)
    done = run("audit", "my_constant_release:release", *PAIR)
    assert done.exit_code == 2
    assert done.stdout.startswith("blind, so nothing follows")
    assert "all runs of both sides gave the same output" in done.stdout
    told = run("audit", "my_constant_release:release", *PAIR, "--json")
    assert told.exit_code == 2
    assert json.loads(told.stdout)["blind"] == "all runs of both sides gave the same output"


# ---- an audit in a ledger -------------------------------------------------------------------------------------------


def audits(ledger: Path) -> list[Any]:
    with dpl.Ledger.look(ledger) as book:
        book.verify()
        return [entry.body for entry in book.entries() if entry.body.kind == "audited"]


def test_an_audit_is_recorded_where_the_report_finds_it(run: Run, tmp_path: Path, ledger: Path) -> None:
    (tmp_path / "my_mechanism.py").write_text(
        "import dpledger as dpl\n\nnoisy = dpl.Laplace(epsilon=1, sensitivity=1)\n"
    )
    words = ("--left", "0", "--right", "1", "--trials", "2000", "--seed", "3", "--ledger", str(ledger))
    done = run("audit", "my_mechanism:noisy", *words, "--scope", "patients")
    assert (done.exit_code, f"recorded in {ledger}: entry 5" in done.stdout) == (0, True)
    told = run("audit", "my_mechanism:noisy", *words, "--json")
    assert json.loads(told.stdout)["entry"] == 6
    assert [(body.mechanism.kind, [step.scope for step in body.path]) for body in audits(ledger)] == [
        ("laplace", ["patients"]),
        ("laplace", []),
    ]


def test_a_scope_says_under_which_relation_its_audit_is_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_count.py").write_text('import dpledger as dpl\n\ncount = dpl.Count(epsilon=1, of="true")\n')
    path = tmp_path / "ward.ledger"
    with dpl.Ledger.create(path) as book:
        book.scope("ward", unit="patient", relation="replace_one", budget=dpl.PureDP(1))
    words = ("--left", "[true, false]", "--right", "[true, true]", "--trials", "2000", "--seed", "3")
    assert run("audit", "my_count:count", *words, "--ledger", str(path), "--scope", "ward").exit_code == 0
    (body,) = audits(path)
    assert body.relation is dpl.Relation.REPLACE_ONE


def test_a_refuted_claim_is_recorded_too(run: Run, ledger: Path) -> None:
    words = ("--trials", "20000", "--seed", "1", "--ledger", str(ledger))
    assert run("audit", "zoo:laplace_half_noise", *words).exit_code == 1
    assert [body.verdict for body in audits(ledger)] == ["violation"]


def test_what_gave_no_answer_is_recorded_as_blind(run: Run, tmp_path: Path, ledger: Path) -> None:
    (tmp_path / "my_silent.py").write_text("def release(data, rng):\n    rng.laplace()\n")
    assert run("audit", "my_silent:release", *PAIR, "--ledger", str(ledger)).exit_code == 2
    (audited,) = audits(ledger)
    assert audited.blind == "all runs of both sides gave the same output"


@pytest.mark.parametrize("case", ["no ledger", "no scope of it", "a closed scope", "no key", "an ended ledger"])
def test_what_cannot_be_recorded_is_said_before_anything_is_run(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the audit ran")

    monkeypatch.setattr("dpledger.audit.audit_mechanism", never)
    words = {
        "no ledger": ("--scope", "patients"),
        "no scope of it": ("--ledger", str(ledger), "--scope", "nobody"),
    }.get(case, ("--ledger", str(ledger), "--scope", "patients"))
    with dpl.Ledger.open(ledger) as book:
        if case == "a closed scope":
            book.scope("patients").end("over")
        if case == "an ended ledger":
            book.end("over")
    if case == "no key":
        ledger.with_name("clinic.ledger.key").unlink()
    done = run("audit", "zoo:laplace", *words)
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith("dpledger: ")
    assert done.stdout == ""


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_result_is_told_also_where_it_can_no_longer_be_recorded(
    run: Run, tmp_path: Path, ledger: Path, words: tuple[str, ...]
) -> None:
    """The scope is closed while the audit runs."""
    (tmp_path / "my_closing.py").write_text(
        "import dpledger as dpl\n\n\ndef release(data, rng):\n"
        f"    with dpl.Ledger.open({str(ledger)!r}) as book:\n"
        "        if not book.state.scopes['patients'].closed:\n"
        "            book.scope('patients').end('over')\n"
        "    return data + rng.laplace()\n"
    )
    sys.modules.pop("my_closing", None)
    pair = ("--left", "0", "--right", "1", "--epsilon", "1", "--trials", "100", "--seed", "3")
    done = run("audit", "my_closing:release", *pair, "--ledger", str(ledger), "--scope", "patients", *words)
    assert done.exit_code == 2
    if words:
        assert "not open" in json.loads(done.stdout)["not_recorded"]
    else:
        assert "not refuted" in done.stdout
        assert "not recorded: scope 'patients' is not open" in done.stderr


LOSING = """
def release(data, rng):  # a published coin takes a fair answer, or the bit itself nine times in ten
    dear = bool(rng.random() < 0.2)
    return (dear, (rng.random() < (0.9 if dear else 0.5)) == bool(data))

def too_little(output):
    return 0.5 if output[0] else 0

def enough(output):
    return 2.2 if output[0] else 0
"""


@pytest.mark.parametrize(("loss", "code"), [("too_little", 1), ("enough", 0)])
def test_a_realised_loss_is_audited_stratum_by_stratum(run: Run, tmp_path: Path, loss: str, code: int) -> None:
    (tmp_path / "my_losing_release.py").write_text(LOSING)
    sys.modules.pop("my_losing_release", None)
    words = ("--left", "0", "--right", "1", "--trials", "6000", "--seed", "3", "--plot", "a.svg")
    done = run("audit", "my_losing_release:release", "--loss", f"my_losing_release:{loss}", *words)
    assert done.exit_code == code, done.stderr
    assert "claimed loss 0: " in done.stdout
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_a_realised_loss_is_one_claim_and_can_be_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_losing_release.py").write_text(LOSING)
    for words in (("--epsilon", "1"), ()):
        done = run(
            "audit", "my_losing_release:release", "--loss", "nowhere:loss", *words, "--left", "0", "--right", "1"
        )
        assert done.exit_code == 2
        assert done.stderr.startswith("dpledger: loss: expected")
    done = run("audit", "my_losing_release:release", "--loss", "recorded", "--left", "0", "--right", "1")
    assert done.exit_code == 2
    assert "a Release" in done.stderr


@pytest.mark.parametrize("plot", ["a.xyz", "a", "missing/a.png"])
def test_a_plot_that_cannot_be_written_is_bad_input_before_the_audit_runs(
    run: Run, tmp_path: Path, plot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the audit ran")

    monkeypatch.setattr("dpledger.audit.audit_mechanism", never)
    done = run("audit", "zoo:laplace", "--plot", plot)
    assert done.exit_code == 2
    assert done.stderr.startswith("dpledger: plot: expected a file")


def test_a_plot_is_written(run: Run, tmp_path: Path) -> None:
    assert run("audit", "zoo:laplace", "--trials", "2000", "--seed", "1", "--plot", "a.svg").exit_code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


# ---- speaking -------------------------------------------------------------------------------------------------------


def test_the_version_is_told(run: Run) -> None:
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"dpledger {dpl.__version__}\n")


@pytest.mark.parametrize(
    "words",
    [("export", "clinic.ledger"), ("compose", "-", "--frob"), ("frob",), ("audit", "zoo:laplace", "--trials", "x")],
)
def test_wrong_use_is_told_to_programs_as_json(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["kind"] == "UsageError"
    assert run(*words).exit_code == 2
    assert run(*words).stdout == ""


@pytest.mark.parametrize(
    ("options", "given"), [((), "none"), (("--delta", "1e-5", "--profile"), "--delta and --profile")]
)
def test_compose_says_which_questions_were_asked(run: Run, options: tuple[str, ...], given: str) -> None:
    done = run("compose", "-", *options, stdin="{}")
    assert done.exit_code == 2
    assert done.stderr.rstrip().endswith(f"exactly one of --delta, --epsilon, --profile, got {given}")


def test_long_curves_are_shortened_and_granted_steps_are_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
        plan = dpl.DPSGD(rate="0.1", steps=3, noise_multiplier=4, clip_norm=1, dimension=1, expected_batch_size=1)
        with scope.open(plan, [[0.5]] * 10) as run_:
            run_.ask(lambda batch: np.zeros((len(batch), 1)))
    shown = " ".join(run("show", str(path)).stdout.split())
    assert "in all]" in shown
    assert "steps up to" in shown
