"""`make test-near` runs the tests that a change reaches."""

from __future__ import annotations

import pytest

from near import SHOWN, TESTS, near, reads


def names(*files: str) -> set[str]:
    return {test.name for test in near(set(files))}


def test_a_change_reaches_who_imports_it_directly_or_by_a_public_name_or_through_support() -> None:
    assert "test_noise_chains.py" in names("mechanisms/noise/noise_chains.py")
    assert "test_zoo_of_tables.py" in names("mechanisms/learning/booster.py")
    assert "test_ensemble.py" in names("tests/support/learners.py")
    assert names("tests/ledger/test_quotes.py") == {"test_quotes.py"}


def test_a_change_deep_down_reaches_much_and_one_at_the_edge_little() -> None:
    every = len(list(TESTS.rglob("test_*.py")))
    assert len(names("src/dpledger/errors.py")) > every / 2
    assert 1 <= len(names("attach/sklearn.py")) < every / 20


def test_pages_and_examples_reach_the_test_that_runs_them() -> None:
    assert names("docs/start.md", "examples/run.json") == {SHOWN.name}
    assert names("LICENSE") == set()


@pytest.mark.parametrize("file", ["pyproject.toml", "tests/conftest.py"])
def test_what_all_tests_rest_on_reaches_all(file: str) -> None:
    assert len(near({file})) == len(list(TESTS.rglob("test_*.py")))


def test_what_a_test_reads_is_itself_and_modules_of_the_package() -> None:
    read = reads(TESTS / "test_near.py")
    assert {"tests/test_near.py", "tests/support/near.py"} <= read
    assert all(name.startswith(("dpledger", "tests/")) for name in read)
