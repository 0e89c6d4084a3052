"""The house stands as docs/architecture.md says: rooms at the root, one package, imports one way, light at the door."""

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import dpledger
from public_names import public

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["accounting", "attach", "audit", "ledger", "mechanisms", "reports"]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(dpledger.__path__, "dpledger.") if "__main__" not in module.name
)


def in_fresh_process(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_into_the_package_by_a_relative_link(room: str) -> None:
    link = ROOT / "src" / "dpledger" / room
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / room


def test_each_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for room in [*ROOMS, "src/dpledger"] for path in (ROOT / room).rglob("*.py")}
    assert folders
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_setup_maps_every_room() -> None:
    rooms = re.search(r"ROOMS = (\[.*?\])", (ROOT / "setup.py").read_text())
    assert rooms is not None
    assert ast.literal_eval(rooms[1]) == ROOMS


@pytest.mark.sliced
def test_no_module_is_loaded_under_two_names() -> None:
    """`ledger` beside `dpledger.ledger` would be two copies of every class."""
    for name in MODULES:
        importlib.import_module(name)
    assert [room for room in ROOMS if room in sys.modules] == []


def test_a_module_that_is_named_like_a_public_name_is_what_that_names() -> None:
    """Else an import of the module would put it in the place of a function."""
    named = set(dpledger.__all__)
    top_level = {name.split(".")[1] for name in MODULES}
    assert named & top_level == {
        "analytic",
        "errors",
        "ex_post",
        "filters",
        "keys",
        "learning",
        "planning",
        "results",
        "stability",
    }
    for name in named & top_level:
        assert getattr(dpledger, name) is importlib.import_module(f"dpledger.{name}")


def test_no_type_has_two_homes() -> None:
    homes: dict[str, set[str]] = {}
    for name in MODULES:
        for one in vars(importlib.import_module(name)).values():
            if isinstance(one, type) and one.__module__ == name and not one.__name__.startswith("_"):
                homes.setdefault(one.__name__, set()).add(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_no_module_is_a_drawer_of_odds_and_ends() -> None:
    assert [name for name in MODULES if name.rpartition(".")[2] in {"utils", "helpers", "common", "misc"}] == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = in_fresh_process("import dpledger, sys\nprint(*sys.modules)").split()
    assert {"numpy", "scipy", "pandas", "pydantic", "typer", "structlog", "sklearn"} & set(loaded) == set()


def test_the_first_mechanism_loads_no_statistics_no_tables_and_no_logging() -> None:
    code = "import dpledger as d, sys\nd.Laplace(sensitivity=1, epsilon=1)\nprint(*sys.modules)"
    loaded = in_fresh_process(code).split()
    assert "dpledger.mechanisms.numeric.laplace" in loaded
    assert {"scipy", "pandas", "sklearn", "joblib", "structlog", "rich", "asyncio", "typer"} & set(loaded) == set()


def test_composing_loads_no_statistics_no_tables_and_no_ledger() -> None:
    code = (
        "import dpledger as d, sys\n"
        "d.compose((d.PoissonSampled(d.GaussianLaw(1), rate='0.01'), 1000)).epsilon('1e-5')\n"
        "print(*sys.modules)"
    )
    loaded = in_fresh_process(code).split()
    assert "numpy" in loaded
    assert {"scipy", "pandas", "sklearn", "joblib", "dpledger.ledger", "typer"} & set(loaded) == set()


def test_what_people_use_every_day_is_70_names_and_no_name_is_in_two_places() -> None:
    names = public()
    assert all(value is not None for value in names.values())
    assert len([name for name in names if "." not in name]) <= 70
    inside = Counter(name.rpartition(".")[2] for name in names)
    assert [name for name, homes in inside.items() if homes > 1] == []
    with pytest.raises(AttributeError, match=r"^dpledger has no nothing$"):
        getattr(dpledger, "nothing")  # noqa: B009
    for told in ("learning.PointClass", "ex_post.group", "errors.WorkLimit"):
        with pytest.raises(AttributeError, match=rf"it is dpledger\.{told}$"):  # also after it was used there
            getattr(dpledger, told.rpartition(".")[2])
    with pytest.raises(AttributeError, match=r"it is dpledger\.Laplace$"):
        getattr(dpledger.learning, "Laplace")  # noqa: B009
    with pytest.raises(AttributeError, match=r"has no Sum \(did you mean dpledger\.ClippedSum\?\)$"):
        getattr(dpledger, "Sum")  # noqa: B009
    misspelt = {"laplce": "Laplace or dpledger.LaplaceLaw", "PrivateClasifier": "stability.PrivateClassifier"}
    for name, told in misspelt.items():
        with pytest.raises(AttributeError, match=rf"has no {name} \(did you mean dpledger\.{told}\?\)$"):
            getattr(dpledger, name)


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == dpledger.__version__


@pytest.mark.sliced
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    """Those of public names call the package `dpl` and numpy `np`, as its pages do."""
    outcome = doctest.testmod(importlib.import_module(name), extraglobs={"dpl": dpledger, "np": np})
    assert outcome.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_each_module_says_what_it_is_for(name: str) -> None:
    text = importlib.import_module(name).__doc__
    assert text is not None
    assert len(text) > 20


def test_no_text_names_a_document_that_a_clone_does_not_hold() -> None:
    """Citations are papers, or pages under docs/."""
    files = [path for room in [*ROOMS, "src", "tests", "docs"] for path in (ROOT / room).rglob("*.py")]
    files += [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    dangling = re.compile(r"\bspec/\w+\.md|\bhouse\.md|\bdesign\.md|\bstyle\.md")
    found = [
        str(path.relative_to(ROOT)) for path in files if path != Path(__file__) and dangling.search(path.read_text())
    ]
    assert found == []


def test_pages_that_the_code_cites_exist() -> None:
    cited: set[str] = set()
    for room in [*ROOMS, "src/dpledger"]:
        for path in (ROOT / room).rglob("*.py"):
            cited.update(re.findall(r"docs/[\w/.-]+\.md", path.read_text()))
    assert cited
    assert [page for page in sorted(cited) if not (ROOT / page).is_file()] == []
