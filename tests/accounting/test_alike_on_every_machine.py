"""Accounting and planners call nothing whose last digits a processor may change: prices are compared by others, and
what a plan chooses is recorded, and compared when its script runs again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpledger.accounting
import dpledger.ledger
import dpledger.mechanisms

ROOM = Path(dpledger.accounting.__file__).resolve().parent
LEDGER, MECHANISMS = (Path(name).resolve().parent for name in (dpledger.ledger.__file__, dpledger.mechanisms.__file__))
ARITHMETIC = {"math": {"sqrt", "fsum", "frexp", "ldexp", "floor", "ceil", "isqrt", "comb", "factorial", "gcd", "lcm"}}
"""Of `math` what is exact, or rounded correctly; beside it only what looks at a float."""
LOOKS = {"inf", "nan", "pi", "e", "isfinite", "isinf", "isnan", "nextafter", "ulp", "copysign", "fabs", "trunc", "prod"}
OURS = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "logaddexp", "logaddexp2"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arctanh"),
    *("hypot", "angle", "cbrt", "geomspace", "logspace", "dot", "vdot", "inner", "matmul", "tensordot", "convolve"),
    *("correlate", "linalg", "cov", "corrcoef", "i0", "sinc"),
}
"""Of numpy what takes what a processor or a library has; `elementary` has what is needed of it."""
IN_POWERS_OF_TWO = 2.0, 4.0
BALLS = {"balls.py"}  # in arb's whole numbers


def culprits(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if name not in ARITHMETIC["math"] | LOOKS:
                yield f"{node.lineno}: math.{name}"
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in OURS:
                yield f"{node.lineno}: np.{name}"
            case ast.BinOp(op=ast.MatMult()):
                yield f"{node.lineno}: a product of matrices"
            case ast.BinOp(
                op=ast.Pow(),
                left=left,
                right=ast.Constant(value=float()) | ast.UnaryOp(operand=ast.Constant(value=float())),
            ) if not _whole(left):
                yield f"{node.lineno}: a power of floats"
            case ast.Attribute(attr="leggauss"):
                yield f"{node.lineno}: nodes from eigenvalues"
            case ast.Call(func=ast.Attribute(attr="argsort"), keywords=named) if not any(
                k.arg == "kind" for k in named
            ):
                yield f"{node.lineno}: argsort that may turn equals round"
            case ast.ImportFrom(module=str(module)) if module.startswith("scipy"):
                yield f"{node.lineno}: {module}"
            case ast.ImportFrom(module="math" | "cmath") | ast.Import(names=[ast.alias(name="cmath")]):
                yield f"{node.lineno}: names of the C library"
            case _:
                pass


def _whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in IN_POWERS_OF_TWO


FILES = sorted(ROOM.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_a_module_keeps_to_what_ieee_754_fixes(path: Path) -> None:
    assert list(culprits(path.read_text(encoding="utf-8"))) == []


ON_DATA = {
    "noise": {"math", "np.exp", "np.log", "a power"},  # each draw is decided exactly; widths of answers have slack
    "refinement/erm/logistic.py": {"np.exp", "np.logaddexp"},  # solvers: what they find is published, and kept
    "refinement/erm/ridge.py": {"np.linalg", "scipy.linalg"},
    "refinement/erm/shared.py": {"np.linalg"},
    "learning/users/mistakes.py": {"scipy.sparse"},  # whole numbers
    "learning/users/sweep.py": {"argsort"},  # equals are added up
    "stability/plans/counting.py": {"scipy.special"},  # where exact searches begin, with a margin of a thousandth
}
"""Of mechanisms what may be called, by file or folder, since no recorded parameter follows from it."""
MATRICES = "a product of matrices"  # of mechanisms those of data: exact, or in solvers


def culprits_outside(path: Path, room: Path) -> list[str]:
    place = path.relative_to(room).as_posix()
    known = {name for where, names in ON_DATA.items() if place.startswith(where) for name in names} | {MATRICES}
    return [one for one in culprits(path.read_text("utf-8")) if not one.split(": ", 1)[1].startswith(tuple(known))]


PLANNERS = [(path, room) for room in (MECHANISMS, LEDGER) for path in sorted(room.rglob("*.py"))]


def test_planners_and_rules_of_the_ledger_keep_to_it_as_well() -> None:
    """Else the same script, rerun under its key on another machine, may plan another parameter and be refused."""
    found = {path.as_posix(): culprits_outside(path, room) for path, room in PLANNERS}
    assert {place: ones for place, ones in found.items() if ones} == {}


def test_what_is_excused_is_there() -> None:
    for where, names in ON_DATA.items():
        root = MECHANISMS / where
        files = [root] if root.is_file() else sorted(root.rglob("*.py"))
        there = [one.split(": ", 1)[1] for path in files for one in culprits(path.read_text("utf-8"))]
        assert all(any(one.startswith(name) for one in there) for name in names), where


SQUARED = [path for path in FILES if path.parent.name in {"laws", "engine"} and path.name not in BALLS]


@pytest.mark.parametrize("path", SQUARED, ids=lambda path: path.name)
def test_laws_and_engine_square_by_a_product(path: Path) -> None:
    """`x**2` of a float is the C library's power."""
    powers = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.BinOp)]
    assert [
        node.lineno for node in powers if isinstance(node.op, ast.Pow) and not isinstance(node.left, ast.Constant)
    ] == []


@pytest.mark.parametrize(
    "line",
    ["math.exp(1)", "np.exp(x)", "a @ b", "x**0.5", "1.5**-0.75", "np.argsort(x)", "from math import exp"],
)
def test_what_differs_is_found(line: str) -> None:
    """The twin."""
    assert list(culprits(line))
