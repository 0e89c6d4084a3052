"""Public names that are listed in a stub alone, and loaded when they are first used.

A stub says `from .room.module import Name as Name`, relative to the package `dpledger`, or `from . import module`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from dpledger.spelling import meant

__all__ = ["attached"]

PACKAGE = "dpledger"


def attached(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module, by the stub beside its file. Raises AttributeError for a name
    that is not in it, which says where the name stands if it is in another stub, or which names are spelt nearly so."""
    homes = _listed(Path(file).with_suffix(".pyi"))

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{module} has no {name}{_elsewhere(name, Path(file).parent)}")
        home = homes[name]
        value = import_module(f"{PACKAGE}.{name}") if home is None else getattr(import_module(home), name)
        vars(sys.modules[module])[name] = value
        return value

    return resolve, lambda: sorted(homes), sorted(homes)


def _listed(stub: Path) -> dict[str, str | None]:
    """The module in which each name of a stub is; None: it is a module itself."""
    return {
        name.name: f"{PACKAGE}.{statement.module}" if statement.module else None
        for statement in ast.parse(stub.read_text("utf-8")).body
        if isinstance(statement, ast.ImportFrom) and statement.level == 1
        for name in statement.names
    }


def _elsewhere(name: str, folder: Path) -> str:
    if name.startswith("_"):
        return ""
    homes = {one: f"{PACKAGE}.errors.{one}" for one in import_module(f"{PACKAGE}.errors").__all__}
    for stub in sorted(folder.glob("*.pyi")):
        space = PACKAGE if stub.stem == "__init__" else f"{PACKAGE}.{stub.stem}"
        homes |= {one: f"{space}.{one}" for one, home in _listed(stub).items() if home}
    if name in homes:
        return f": it is {homes[name]}"
    longer = [homes[one] for one in homes if name[0].isupper() and one.endswith(name)]  # ClippedMean for Mean
    return meant(name, homes) or (f" (did you mean {' or '.join(longer[:2])}?)" if longer else "")
