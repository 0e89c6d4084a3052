"""The type checker refuses decimal arithmetic in the caller's context: each form of it, and no form of our own.

The rule is a plugin (tests/support/decimal_contexts.py), so `python -m mypy` holds the whole library to it.
"""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "tests/support/decimal_contexts.py"
OPENING = """
from decimal import Context, Decimal, getcontext, localcontext

def own_context(digits: int) -> Context: ...

x, y, measured, own = Decimal(1), Decimal(3), 0.1, own_context(40)
"""
REFUSED = (
    "x + y",
    "1 - x",
    "x / 3",
    "x**2",
    "-x",
    "abs(x)",
    "sum([x, y])",
    "x.sqrt()",
    "x.quantize(y)",
    "x.to_integral_value()",
    "Decimal(measured)",
    "x < measured",
    "measured < x",
    "localcontext()",
    "localcontext(prec=5)",
    "Context(prec=5)",
    "getcontext()",
)
ALLOWED = (
    "x < y",
    "x == 0",
    "x.sqrt(own)",
    "x.quantize(y, context=own)",
    "own.add(x, y)",
    "x.copy_negate()",
    "Decimal('0.1')",
    "Decimal.from_float(measured)",
    "localcontext(own)",
    "measured + 1",
)


def found(folder: Path, *lines: str) -> dict[int, str]:
    """What the checker says of each line of a module of the library."""
    module = folder / "src" / "dpledger" / "snippet.py"
    module.parent.mkdir(parents=True)
    module.write_text("\n".join((OPENING.strip(), *lines, "")))
    settings = folder / "mypy.ini"
    settings.write_text(f"[mypy]\nplugins = {PLUGIN}\ndisable_error_code = empty-body\n")
    said, broken, _ = api.run([f"--config-file={settings}", f"--cache-dir={folder}", str(module)])
    assert not broken, broken
    first = len(OPENING.strip().splitlines())
    complaints = (re.match(r".*snippet\.py:(\d+): error: (.*)", line) for line in said.splitlines())
    return {int(match[1]) - first: match[2] for match in complaints if match}


def test_arithmetic_in_the_callers_context_is_refused(tmp_path: Path) -> None:
    complaints = found(tmp_path, *REFUSED)
    assert [line for place, line in enumerate(REFUSED, start=1) if place not in complaints] == []


def test_arithmetic_in_an_own_context_is_allowed(tmp_path: Path) -> None:
    inside = ("with localcontext(own):", "    (x + y) * -x / abs(y)", "    x.sqrt().ln()")
    assert not found(tmp_path, *ALLOWED, *inside)


@pytest.mark.parametrize("opening", ["with localcontext():", "if x:"])
def test_no_other_block_is_an_own_context(tmp_path: Path, opening: str) -> None:
    assert "operator" in found(tmp_path, opening, "    x + y").get(2, "")
