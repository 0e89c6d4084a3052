"""Accounting calls nothing whose last digits a processor may change: its prices are compared by others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpledger.accounting

ROOM = Path(dpledger.accounting.__file__).resolve().parent
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
GUIDES = {"calls.py"}  # says how many calls are worth certifying; nothing that is compared depends on it
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
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=float())) if not _whole(left):
                yield f"{node.lineno}: a power of floats"
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


FILES = sorted(path for path in ROOM.rglob("*.py") if path.name not in GUIDES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOM).as_posix())
def test_a_module_keeps_to_what_ieee_754_fixes(path: Path) -> None:
    assert list(culprits(path.read_text(encoding="utf-8"))) == []


SQUARED = [path for path in FILES if path.parent.name in {"laws", "engine"} and path.name not in BALLS]


@pytest.mark.parametrize("path", SQUARED, ids=lambda path: path.name)
def test_laws_and_engine_square_by_a_product(path: Path) -> None:
    """`x**2` of a float is the C library's power."""
    powers = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.BinOp)]
    assert [
        node.lineno for node in powers if isinstance(node.op, ast.Pow) and not isinstance(node.left, ast.Constant)
    ] == []


@pytest.mark.parametrize(
    "line", ["math.exp(1)", "np.exp(x)", "a @ b", "x**0.5", "np.argsort(x)", "from math import exp"]
)
def test_what_differs_is_found(line: str) -> None:
    """The twin."""
    assert list(culprits(line))
