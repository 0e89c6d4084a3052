"""The gallery of audits of released libraries: those whose library is here still find it, and the page says what was
measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "examples" / "gallery"

TOY = '''"""toy 1: answers with its data."""

PACKAGE, VERSIONS = "numpy", ("0",)
CLAIM, RELATION, TRIALS = {"epsilon": "1"}, "replace_one", 100
LEFT, RIGHT = 0, 1


def mechanism(value):
    print("libraries print what they like")
    if value == 3:
        raise ValueError("secret")
    return {"at": [value, None], "of": "toy"}


def claimed():
    return 0.5


def truth(dpl):
    return dpl.compose(dpl.LaplaceLaw(CLAIM["epsilon"]))
'''


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """run.py as a module; the files of its folder import one another, as scripts do."""
    sys.path.insert(0, str(GALLERY))
    try:
        yield __import__("run")
    finally:
        sys.path.remove(str(GALLERY))
        for name in ("run", "page", "environments"):
            sys.modules.pop(name, None)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def test_a_case_is_asked_over_a_pipe(run: ModuleType, toy: Path) -> None:
    with run.Served(sys.executable, toy) as served:
        assert served.ask(runs=2, data=7, seed=1) == [{"at": [7, None], "of": "toy"}] * 2
        assert served.ask(runs=1, data=3, seed=1) == ["raised ValueError"]
        assert served.ask(version="numpy") == __import__("numpy").__version__


def test_a_case_that_ends_is_an_error(run: ModuleType, toy: Path) -> None:
    with run.Served(sys.executable, toy) as served, pytest.raises(RuntimeError, match="exit status 1"):
        served.ask(version="no-such-package")


def test_a_mechanism_without_noise_is_a_violation(run: ModuleType, toy: Path) -> None:
    said = run.Case.read(toy).said
    with run.Served(sys.executable, toy) as served:
        claim, verdict, bound, event = run._sampled(said, served)
    assert (claim, verdict) == ("epsilon 1", "violation")
    assert bound > 1
    assert "output" in event


def test_an_accountant_that_says_less_than_is_lost_is_a_violation(run: ModuleType, toy: Path) -> None:
    said = run.Case.read(toy).said
    with run.Served(sys.executable, toy) as served:
        _, verdict, bound, _ = run._accounted(said, served)
        assert verdict == "violation"
        assert 0.99 < bound <= 1
        said["CLAIM"]["epsilon"] = "0.4"  # less is lost than the toy says
        assert run._accounted(said, served)[1:3] == ("not_refuted", None)


def test_a_python_that_is_not_there_is_told(run: ModuleType) -> None:
    with pytest.raises(__import__("environments").NoEnvironment, match=r"no Python 9\.9"):
        __import__("environments").interpreter("9.9")


def test_the_page_says_what_was_measured(run: ModuleType) -> None:
    page, results = run.PAGE.read_text(), json.loads(run.RESULTS.read_text())
    assert run.written(page, results) == page
    assert {one["case"] for one in results} == set(run.CASES)
    assert all(one["epsilon_lower"] is not None for one in results if one["verdict"] == "violation")
    assert not any(one["verdict"] == "blind" for one in results)


def test_every_case_names_what_it_needs(run: ModuleType) -> None:
    for path in run.CASES.values():
        said = run.Case.read(path).said
        assert said["VERSIONS"], path
        assert said["CLAIMED"], path
        assert ("truth" in said) == ("claimed" in said) != ("mechanism" in said), path
        assert all(one.count("==") == 1 for one in said["WITH"]), path  # pinned


def test_what_this_environment_has_is_still_found(run: ModuleType) -> None:
    found = list(run.audited(["diffprivlib_linear_regression"], only_here=True))
    assert [one.verdict for one in found] == ["violation"]


@pytest.mark.slow
def test_all_that_this_environment_has(run: ModuleType) -> None:
    recorded = {(one["case"], one["library"]): one["verdict"] for one in json.loads(run.RESULTS.read_text())}
    found = list(run.audited(list(run.CASES), only_here=True))
    assert found
    assert {(one.case, one.library): one.verdict for one in found} == {
        (one.case, one.library): recorded[one.case, one.library] for one in found
    }
