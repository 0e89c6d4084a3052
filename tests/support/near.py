"""Which test files a change reaches, one a line: `make test-near`.

    python tests/support/near.py            what differs from the last commit
    python tests/support/near.py main~3     what differs from that commit

A test file is reached by each module of the package that it imports, names as `dpl.NAME`, or has from a module of
tests/support, and by all that those import in turn. What a test opens as a file or starts as a program is not seen:
`make test` runs all.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
TESTS, PACKAGE = ROOT / "tests", ROOT / "src" / "dpledger"
EVERYTHING = {"pyproject.toml", "constraints.txt", "setup.py", "tests/conftest.py", "Makefile"}
SHOWN = TESTS / "test_documentation.py"  # runs what pages and examples show


def changed(since: str) -> set[str]:
    """Files that differ from a commit, and new ones."""
    found: set[str] = set()
    for words in (("diff", "--name-only", since), ("ls-files", "--others", "--exclude-standard")):
        told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        found |= set(told.stdout.splitlines())
    return found


@cache
def public() -> dict[str, str]:
    """The module of each public name, as the stubs have it."""
    found = {}
    for stub in PACKAGE.glob("*.pyi"):
        for statement in ast.parse(stub.read_text()).body:
            if isinstance(statement, ast.ImportFrom) and statement.module:
                for name in statement.names:
                    found[name.name] = f"dpledger.{statement.module}"
    return found


def named(tree: ast.Module) -> Iterator[str]:
    """Modules that a file imports, and those of the public names that it uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (name.name for name in node.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                yield from (f"{module}.{name.name}" for name in node.names)
            case ast.Attribute(value=ast.Name("dpl" | "dpledger") | ast.Attribute(), attr=name) if name in public():
                yield public()[name]
            case _:
                pass


@cache
def reads(file: Path) -> frozenset[str]:
    """Modules of the package, and files of tests/support, that a file of tests has directly or through another."""
    found = {str(file.relative_to(ROOT))}
    for module in named(ast.parse(file.read_text())):
        inside = (TESTS / "support").joinpath(*module.split("."))
        for helper in (inside.with_suffix(".py"), inside / "__init__.py"):
            if helper.exists() and helper != file:
                found |= reads(helper)
        if module.startswith("dpledger"):
            found.add(module)
    return frozenset(found)


def near(files: set[str]) -> list[Path]:
    """The test files that these files reach."""
    every = sorted(TESTS.rglob("test_*.py"))
    if files & EVERYTHING:
        return every
    graph = grimp.build_graph("dpledger", cache_dir=None)
    reached = {file for file in files if file.startswith("tests/")}
    for file in files:
        path = Path(file.removeprefix("src/dpledger/")).with_suffix("")
        parts = path.parts[:-1] if path.name == "__init__" else path.parts
        module = ".".join(("dpledger", *parts))
        if module in graph.modules:
            reached |= {module, *graph.find_downstream_modules(module)}
    found = [test for test in every if reads(test) & reached]
    shows = any(file.startswith("examples/") or file.endswith(".md") for file in files)
    return sorted({*found, SHOWN}) if shows else found


def main() -> None:
    found = near(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))
    print(*(test.relative_to(ROOT) for test in found), sep="\n")


if __name__ == "__main__":
    main()
