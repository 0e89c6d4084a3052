"""How many small faults the tests find: `make mutants`.

    python tests/support/mutants.py 30            a sample of thirty
    python tests/support/mutants.py 30 --seed 2   another one

Each mutant is one change of one place: a comparison, a sign, a bound that is rounded the other way, a whole number, a
condition, a term of an error bound that is dropped. It is made in a copy of the checkout and judged by the nearest
tests there, those that use names which lead to the place and which few other tests use: what fails must pass without
the mutant. A mutant that no test finds is printed as a line that may be looked at; some of them change nothing that
anybody could see.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import grimp

from near import PACKAGE, ROOT, TESTS, reads

WHERE = ("accounting", "ledger/rules", "mechanisms/noise", "audit/evidence")
NEAREST = 5  # test files that judge a mutant
PATIENCE_S = 900

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
CALLED = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "round_up": "round_down",
    "round_down": "round_up",
    "float_up": "float_down",
    "float_down": "float_up",
}
UNITS = {"UNIT", "SLACK", "_SLACK"}  # of an error bound: a term of it is dropped


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file of the checkout with one change, which `told` says."""

    file: str
    line: int
    told: str
    source: str


def edits(tree: ast.Module) -> Iterator[tuple[int, Callable[[], None]]]:
    """Each line with what changes it in the tree."""
    for node in _executed(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Compare(ops=[op]) if type(op) in SWAPPED:
                yield line, partial(setattr, node, "ops", [SWAPPED[type(op)]()])
            case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
                yield line, partial(setattr, node, "op", SWAPPED[type(op)]())
            case ast.Call(func=ast.Name(id=name)) if name in CALLED:
                yield line, partial(setattr, node, "func", ast.Name(CALLED[name], ast.Load()))
            case ast.Constant(value=bool(value)):
                yield line, partial(setattr, node, "value", not value)
            case ast.Constant(value=int(value)):
                yield line, partial(setattr, node, "value", value + 1)
            case ast.If(test=test) | ast.IfExp(test=test):
                yield line, partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
            case _:
                pass
        match node:
            case ast.BinOp(left=ast.Name(id=name), op=ast.Mult()) if name in UNITS:
                yield line, partial(setattr, node, "left", ast.Constant(0.0))
            case ast.BinOp(op=ast.Mult(), right=ast.Name(id=name)) if name in UNITS:
                yield line, partial(setattr, node, "right", ast.Constant(0.0))
            case _:
                pass


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """What runs, below a node: no annotations, decorators, texts or messages, and no switches of type checkers."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"} or isinstance(
            node, ast.Raise | ast.Assert
        ):
            continue
        if isinstance(node, ast.AnnAssign) and field == "target":
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test):
                continue
            if isinstance(one, ast.AST):
                yield one
                yield from _executed(one)


def places(file: str) -> int:
    """How many mutants a file has."""
    return sum(1 for _ in edits(ast.parse((ROOT / file).read_text())))


def mutant(file: str, number: int) -> Mutant:
    """One of them, in the order in which the file is walked."""
    tree = with_both((ROOT / file).read_text())
    plain = ast.unparse(tree).splitlines()
    line, make = next(itertools.islice(edits(tree), number, None))
    make()
    source = ast.unparse(ast.fix_missing_locations(tree))
    old, new = next(pair for pair in zip(plain, source.splitlines(), strict=True) if pair[0] != pair[1])
    return Mutant(file, line, f"{old.strip()}  ->  {new.strip()}", source)


def with_both(source: str) -> ast.Module:
    """A module that imports of two functions that are called for each other both, where it imports one."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = dict.fromkeys(name.name for name in node.names if name.asname is None)
            more = [CALLED[name] for name in names if name in CALLED and CALLED[name] not in names]
            node.names += [ast.alias(name) for name in more]
    return tree


def sampled(count: int, seed: int, where: tuple[str, ...] = WHERE) -> list[Mutant]:
    """So many mutants of these folders: the same ones for a seed, while the files are the same."""
    files = sorted(str(path.relative_to(ROOT)) for folder in where for path in (ROOT / folder).rglob("*.py"))
    every = [(file, number) for file in files for number in range(places(file))]
    return [mutant(*place) for place in random.Random(seed).sample(every, min(count, len(every)))]


def nearest(file: str, line: int, most: int) -> list[str]:
    """The test files that tell most about a line: a name that leads to it tells the more, the nearer it is and the
    fewer test files use it, and four times as much in the tests of its own room."""
    leading, used = leading_to(file, line), uses()

    def tells(test: Path) -> float:
        told = sum(near / used[name] for name, near in leading.items() if name in words(test))
        return told * (4 if test.parent.name == Path(file).parts[0] else 1)

    tests = sorted(TESTS.rglob("test_*.py"), key=lambda test: (-tells(test), len(words(test)), test))
    return [str(test.relative_to(ROOT)) for test in tests[:most]]


def leading_to(file: str, line: int) -> dict[str, float]:
    """The names that lead to a line: 1 for the functions and classes that it is in and for its module, an eighth for
    what uses those in the module, a 64th for what uses these in modules that import it, and for these, and so on."""
    module = ".".join(("dpledger", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
    found = dict.fromkeys(functions(ROOT / file, line), 1.0)
    ring, near = {module}, 1.0
    while ring:
        found |= dict.fromkeys(ring, near)
        near /= 8
        found |= dict.fromkeys(set().union(*(using(source(one), set(found)) for one in ring)), near)
        ring = {above for one in ring for above in imports().find_modules_that_directly_import(one)} - set(found)
    return found


def functions(file: Path, line: int) -> set[str]:
    """The names of the functions and classes that a line is in."""
    return {node.name for node, _ in _made(file) if node.lineno <= line <= (node.end_lineno or 0)}


def using(file: Path, wanted: set[str]) -> set[str]:
    """The functions and classes of a file that use one of these names, or one another that does."""
    found, more = set(wanted), True
    while more:
        users = {node.name for node, used in _made(file) if not found.isdisjoint(used)}
        more = not users <= found
        found |= users
    return found - wanted


@cache
def _made(file: Path) -> list[tuple[ast.FunctionDef | ast.ClassDef, frozenset[str]]]:
    """The functions and classes of a file, with the names that each uses."""
    made = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [(node, names(node)) for node in made if node.name[:2] != "__"]


def names(tree: ast.AST) -> frozenset[str]:
    """Every name that is used below a node, and every attribute."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})


@cache
def words(test: Path) -> frozenset[str]:
    """The names that a file of tests uses, and the modules that it has, itself or through tests/support."""
    modules = (name if name in imports().modules else name.rpartition(".")[0] for name in reads(test))
    return names(ast.parse(test.read_text())) | {module for module in modules if module.startswith("dpledger.")}


@cache
def uses() -> Counter[str]:
    """In how many files of tests each name is used."""
    return Counter(name for test in TESTS.rglob("test_*.py") for name in words(test))


def source(module: str) -> Path:
    """The file of a module of the package."""
    inside = PACKAGE.joinpath(*module.split(".")[1:])
    return inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")


@cache
def imports() -> grimp.ImportGraph:
    """Which module imports which."""
    return grimp.build_graph("dpledger", cache_dir=None)


class Judge:
    """A copy of the checkout, in which tests run."""

    def __init__(self, folder: Path, slices: str, most: int) -> None:
        self.folder, self.slices, self.most = folder, slices, most
        self._sound, self._broken = set[str](), set[str]()
        listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
        for name in listed.stdout.splitlines():
            there = folder / name
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, there, follow_symlinks=False)

    def failing(self, tests: list[str]) -> str | None:
        """The first test that fails; None where all pass."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        inside = {
            **kept,
            "PYTHONPATH": f"{self.folder}/src{os.pathsep}{self.folder}/tests/support",
            "DPLEDGER_HYPOTHESIS": "mutants",
        }
        words = ["-p", "no:cacheprovider", "-q", "-x", "-m", "not slow", f"--slices={self.slices}", *tests]
        left_out = [f"--deselect={one}" for one in sorted(self._broken)]
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *words, *left_out],
                cwd=self.folder,
                env=inside,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no end"
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ran.stdout, re.M)
        return None if ran.returncode == 0 else failed[1] if failed else f"exit {ran.returncode}"

    def found(self, mutant: Mutant) -> str | None:
        """The test that finds a mutant; None where none does. A test that fails without it too is left out from then
        on."""
        place, tests = self.folder / mutant.file, nearest(mutant.file, mutant.line, self.most)
        before = place.read_text()
        while True:
            place.write_text(mutant.source)
            failed = self.failing(tests)
            place.write_text(before)
            if failed is None or "::" not in failed or failed in self._sound:
                return failed
            if self.failing([failed]) is None:
                self._sound.add(failed)
                return failed
            self._broken.add(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slices", default="all")
    parser.add_argument("--nearest", type=int, default=NEAREST, help="how many test files judge a mutant")
    given = parser.parse_args()
    chosen, killed = sampled(given.count, given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder), given.slices, given.nearest)
        for number, mutant in enumerate(chosen, 1):
            by = judge.found(mutant)
            killed += by is not None
            print(f"{number:3} {'found' if by else 'MISSED'} {mutant.file}:{mutant.line}: {mutant.told}", flush=True)
            print(
                f"      by {by}"
                if by
                else f"      by none of {' '.join(nearest(mutant.file, mutant.line, given.nearest))}",
                flush=True,
            )
    print(f"{killed} of {len(chosen)} found")


if __name__ == "__main__":
    main()
