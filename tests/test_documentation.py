"""What the documentation shows, runs: every Python block of `PAGES`, every file under examples/."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from types import FunctionType

import pytest
from markdown_it import MarkdownIt

import warm_process
from dpledger.reports.explain import worst_case
from dpledger.reports.words import percent
from public_names import public

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/statistics.md",
    "docs/concepts.md",
    "docs/audit_replay.md",
    "docs/audit_search.md",
    "docs/accuracy_first.md",
    "docs/events.md",
    "docs/budgets.md",
    "docs/ex_post.md",
    "docs/prediction.md",
    "docs/private_learning.md",
    "docs/stable_values.md",
    "docs/runs_elsewhere.md",
    "docs/dp_accounting.md",
    "docs/others_code.md",
    "docs/own_mechanism.md",
    "docs/trainers.md",
    "docs/attest.md",
    "docs/auditing.md",
    "docs/audit_trainings.md",
    "docs/group_by.md",
    "docs/gallery.md",
)
BLOCKS = [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]
FIRST = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "start.md").read_text(), re.DOTALL)
ON_A_FILE = [number for number, block in enumerate(BLOCKS) if "open_or_create" in block and block not in FIRST]
SHOWN, ANSWERED = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "docs" / "concepts.md").read_text(), re.DOTALL)
ONCE = [number for number, block in enumerate(BLOCKS) if number not in ON_A_FILE and block != SHOWN]
SPACES = "ex_post|filters|keys|learning|planning|stability"
MARKDOWN = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "ledger" / "SPEC.md"]
SHARED = "plotting"  # what the pictures of several examples share: nothing to run
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem != SHARED)
SMALL = ("--steps", "40", "--canaries", "40")
FEWER = {"audit_training": SMALL}
RUN_BY = {  # tests of what they say
    "accuracy_first": "test_accuracy_experiment.py",
    "private_learning": "test_private_learning.py",
    "private_prediction": "test_private_prediction.py",
}
SHOWN_BY = {  # tests that compute all of what they show, and have it shown
    "learning_in_a_ledger": "test_private_learning.py",
    "learning_users": "test_private_learning.py",
    "prediction_pipelines": "test_private_prediction.py",
}


def run(words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_readme_has_examples() -> None:
    assert len(BLOCKS) >= 3
    assert EXAMPLES


@pytest.mark.sliced
@pytest.mark.parametrize("number", ONCE)
def test_each_block_of_a_page_runs_by_itself(number: int, tmp_path: Path) -> None:
    """The others do below."""
    done = warm_process.run(BLOCKS[number], folder=tmp_path, warnings="error")
    assert done.returncode == 0, done.stderr


def test_what_the_page_of_concepts_says_that_its_program_prints_is_what_it_prints(tmp_path: Path) -> None:
    done = warm_process.run(SHOWN, folder=tmp_path, warnings="error")
    assert (done.returncode, done.stdout) == (0, ANSWERED), done.stderr


def test_the_mechanism_of_ones_own_conforms(tmp_path: Path) -> None:
    """The page says: append the tests to the file, and run them. The fault that it names is found."""
    page = (ROOT / "docs" / "own_mechanism.md").read_text()
    parts = [re.findall(rf"```{fence}\n(.*?)```", page, re.DOTALL) for fence in ("python", "py")]
    assert [len(found) for found in parts] == [1, 1]
    (tmp_path / "test_margin.py").write_text("\n".join(found[0] for found in parts))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_margin.py"]
    done = run([*words, "-o", f"pythonpath={ROOT / 'tests' / 'support'}"], tmp_path)
    assert done.returncode == 0, done.stdout
    right = next(line.strip() for line in page.splitlines() if line.strip().startswith("moves = "))
    done = warm_process.run(parts[0][0].replace(right, "moves = rows"), folder=tmp_path, warnings="error")
    assert done.returncode == 1
    assert "AssertionError" in done.stderr


@pytest.mark.sliced
@pytest.mark.parametrize("number", ON_A_FILE)
def test_each_block_on_a_ledger_file_runs_twice(number: int, tmp_path: Path) -> None:
    """As scripts do: what it made the first time is there."""
    for _ in range(2):
        done = warm_process.run(BLOCKS[number], folder=tmp_path, warnings="error")
        assert done.returncode == 0, done.stderr


@pytest.mark.sliced
def test_the_blocks_of_the_first_page_run_in_turn_twice(tmp_path: Path) -> None:
    """On one ledger, which the page is about."""
    for block in FIRST * 2:
        done = warm_process.run(block, folder=tmp_path, warnings="error")
        assert done.returncode == 0, done.stderr


def test_what_blocks_take_from_the_package_is_public() -> None:
    """A module of it that is not imported by a block, others have loaded: it would not be missed."""
    lines = [line for block in BLOCKS for line in block.splitlines() if not re.match(r"\s*(from|import) ", line)]
    used = {name for line in lines for name in re.findall(rf"\b(?:dpl|dpledger)\.((?:(?:{SPACES})\.)?\w+)", line)}
    assert used
    assert used - public().keys() == set()


@pytest.mark.sliced
@pytest.mark.parametrize(
    "example", [path for path in EXAMPLES if path.stem not in RUN_BY | SHOWN_BY], ids=lambda path: path.stem
)
def test_each_example_runs(example: Path, tmp_path: Path) -> None:
    words, beside = (str(example), *FEWER.get(example.stem, ())), str(example.parent)
    done = warm_process.run(example.read_text(), words, folder=tmp_path, beside=beside, warnings="error")
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("stem", RUN_BY)
def test_the_other_examples_run_in_a_process_of_their_own(stem: str) -> None:
    """Where their numbers are looked at, with warnings as errors."""
    source = (ROOT / "tests" / RUN_BY[stem]).read_text()
    assert (ROOT / "examples" / f"{stem}.py").exists()
    assert f'[sys.executable, str(EXAMPLES / "{stem}.py"), "--json"' in source


@pytest.mark.parametrize("stem", SHOWN_BY)
def test_examples_whose_results_are_computed_elsewhere_show_them_there(stem: str) -> None:
    assert (ROOT / "examples" / f"{stem}.py").exists()
    assert f'examples["{stem}"].main()' in (ROOT / "tests" / SHOWN_BY[stem]).read_text()


def test_each_public_name_shows_in_its_own_docstring_how_it_is_used() -> None:
    """`test_layout.py` runs what is found here. A text and an alias of types have no docstring; of a value it is that
    of its class."""
    values = [value for name, value in public().items() if name != "Composition"]
    homes = [value if isinstance(value, type | FunctionType) else type(value) for value in values]
    modules = {home.__module__ for home in homes}
    found = [test for name in modules for test in doctest.DocTestFinder().find(importlib.import_module(name))]
    shown = {test.name for test in found if test.examples}
    assert sorted({f"{home.__module__}.{home.__qualname__}" for home in homes} - shown) == []


def test_the_answer_that_the_readme_shows_for_a_document_is_the_answer(tmp_path: Path) -> None:
    shown = json.loads(re.search(r'^\{"delta": .*\}$', (ROOT / "README.md").read_text(), re.MULTILINE)[0])  # type: ignore[index]
    words = [sys.executable, "-m", "dpledger", "compose", str(ROOT / "examples" / "run.json"), "--json"]
    answer = json.loads(run([*words, "--delta", shown["delta"]], tmp_path).stdout)
    assert answer["epsilon"]["lower"] == pytest.approx(shown["epsilon"]["lower"], rel=1e-6)
    assert answer["epsilon"]["upper"] == pytest.approx(shown["epsilon"]["upper"], rel=1e-6)


def test_the_bounds_that_the_readme_shows_are_computed(tmp_path: Path) -> None:
    """`CALL  # Bounds(lower=1.82..., upper=1.83...)`, to the last digit that is shown."""
    line = re.compile(r"^(\S.*)  # Bounds\(lower=([\d.]+?)(?:\.{3})?, upper=([\d.]+?)(?:\.{3})?\).*$", re.MULTILINE)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    told = [block for block in blocks if line.search(block)]
    shown = [end for block in told for _, *ends in line.findall(block) for end in ends]
    assert len(shown) == 4
    program = "\n".join(line.sub(r"print('ends', *\1)", block) for block in told)
    done = warm_process.run(program, folder=tmp_path, warnings="error")
    found = [end for printed in re.findall(r"^ends (.*)$", done.stdout, re.MULTILINE) for end in printed.split()]
    for end, number in zip(shown, found, strict=True):
        assert abs(Decimal(number) - Decimal(end)) < Decimal(1).scaleb(-len(end.partition(".")[2]))


def test_the_readme_names_every_command() -> None:
    from dpledger.cli import app

    text = (ROOT / "README.md").read_text()
    names = [command.name for command in app.registered_commands]
    assert names
    assert [name for name in names if not re.search(rf"`(dpledger )?{name}\b", text)] == []


def test_the_odds_that_the_page_for_officers_shows_are_those_of_a_report() -> None:
    page = (ROOT / "docs" / "officer.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+ %) \| ([\d.]+ %) \|$", page, re.MULTILINE)
    assert len(rows) >= 5
    for epsilon, guess, suspicion in rows:
        odds = worst_case(Decimal(epsilon), Decimal("1e-6"))
        assert odds.suspicion is not None
        assert (guess, suspicion) == (percent(odds.guess), percent(odds.suspicion))


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in MARKDOWN
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_each_page_stands_in_one_group_of_the_site() -> None:
    """`folder/*` is each page of a folder; what is no page of `docs/` comes from docs/site/hooks.py."""
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    assert re.findall(r"^  - (\w+):$", nav, re.MULTILINE) == ["Use", "Sign", "Operate", "Theory", "Change"]
    listed = re.findall(r"^ +- (?:.+: )?(\S+(?:\.md|/\*))$", nav, re.MULTILINE)
    folder = ROOT / "docs"
    times = Counter(page for pattern in listed for page in folder.glob(pattern) if page.suffix == ".md")
    assert {str(page.relative_to(ROOT)) for page in folder.rglob("*.md") if times[page] != 1} == set()


def test_no_subscript_in_a_formula_is_read_as_emphasis() -> None:
    """Between signs `_` opens and closes emphasis: there it is written as `\\_`."""
    reader = MarkdownIt("commonmark").enable("table")
    found = [
        f"{page.relative_to(ROOT)}, line {block.map[0] + 1}"
        for page in MARKDOWN
        for block in reader.parse(page.read_text())
        if block.map and any("_" in part.markup for part in block.children or ())
    ]
    assert found == []


def test_the_page_of_tests_lists_all_invariants_and_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert re.findall(r"^\| I-(\d+) \|", page, re.MULTILINE) == [str(number) for number in range(1, 24)]
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert len(named) > 40
    texts = {file: (ROOT / "tests" / file).read_text() for file, _ in named}
    assert [
        f"{file}::{name}" for file, name in named if not re.search(rf"^ *(def )?{name}( =|\()", texts[file], re.M)
    ] == []
