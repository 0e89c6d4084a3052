"""`make mutants` makes faults that run, the same ones each time, and its judge tells found ones from missed ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import mutants
from near import ROOT

FILE, COSTS = "accounting/arithmetic/prices.py", "accounting/pricing/costs.py"


def test_a_sample_is_the_same_each_time_and_another_for_another_seed() -> None:
    folders = ("accounting/arithmetic",)
    first, again, other = (mutants.sampled(3, seed, folders) for seed in (0, 0, 1))
    assert first == again
    assert {one.told for one in first} != {one.told for one in other}


def test_a_mutant_is_one_change_of_one_line_and_runs() -> None:
    plain = ast.unparse(mutants.with_both((ROOT / FILE).read_text())).splitlines()
    assert mutants.places(FILE) > 50
    for number in range(0, mutants.places(FILE), 7):
        found = mutants.mutant(FILE, number)
        compile(found.source, FILE, "exec")
        changed = [new for old, new in zip(plain, found.source.splitlines(), strict=True) if old != new]
        assert len(changed) == 1
        assert changed[0].strip() in found.told


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("x: Literal[1, 2]\n", 0),
        ("@settings(max_examples=3)\ndef f() -> int: ...\n", 0),
        ("if TYPE_CHECKING:\n    y = 1 + 2\n", 0),
        ("raise ValueError(f'at most {limit + 1}')\n", 0),
        ("a = b < c\n", 1),
        ("error = 4 * UNIT * abs(x)\n", 4),
        ("a = min(b, c) + 1\n", 3),
        ("if a and b:\n    c = True\n", 3),
    ],
)
def test_only_what_runs_and_decides_is_changed(source: str, count: int) -> None:
    assert len(list(mutants.edits(ast.parse(source)))) == count


def test_a_bound_that_is_rounded_the_other_way_is_rounded() -> None:
    """Not a name that the module does not have, which any test would find."""
    for number in range(mutants.places(COSTS)):
        found = mutants.mutant(COSTS, number)
        if "round_down(" in found.told:
            assert "round_down" not in (ROOT / COSTS).read_text()
            assert re.search(r"from dpledger\.decimals import .*round_down", found.source)
            return
    pytest.fail("no mutant rounds a cost down")


def test_the_nearest_tests_have_the_module_itself() -> None:
    assert "tests/mechanisms/test_noise_chains.py" in mutants.nearest("mechanisms/noise/noise_chains.py", 1, 5)
    assert len(mutants.nearest("accounting/families/laplace/price.py", 1, 4)) == 4


def test_of_tests_of_a_module_those_come_first_that_name_what_is_changed() -> None:
    """Many tests have the sums and exponentials of `elementary`; one names this function."""
    lines = (ROOT / "accounting/arithmetic/elementary.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("def running_log_of_sum"))
    first, *_ = mutants.nearest("accounting/arithmetic/elementary.py", line + 3, 5)
    assert "running_log_of_sum" in (ROOT / first).read_text()


def test_a_line_is_in_functions_that_others_use(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "def inner() -> int:\n    return 1\n\n\nclass Outer:\n    def asked(self) -> int:\n        return inner()\n"
    )
    assert mutants.functions(file, 2) == {"inner"}
    assert mutants.functions(file, 7) == {"asked", "Outer"}
    assert mutants.functions(file, 3) == set()
    assert mutants.using(file, {"inner"}) == {"asked", "Outer"}


def test_what_leads_to_a_line_is_the_nearer_the_fewer_imports_lie_between() -> None:
    file = ROOT / "ledger/rules/course.py"
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "charge.form ==" in text)
    leading = mutants.leading_to("ledger/rules/course.py", line)
    assert leading["dpledger.ledger.rules.course"] == 1 > leading["dpledger.ledger.charging.charges"] > 0
    assert all(test.startswith("tests/ledger/") for test in mutants.nearest("ledger/rules/course.py", line, 3))
