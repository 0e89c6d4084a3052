"""List the modules of the package, each with the first sentence of its docstring.

`python docs/site/modules.py` prints all of them, `python docs/site/modules.py ledger` those of one room. The site shows
the same lists, so no page has to be kept by hand.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dpledger"
ROOMS = ("cli", "attach", "reports", "audit", "ledger", "mechanisms", "accounting")  # as imports run: downwards
BESIDE = "dpledger"  # the modules of the package itself, which stand in no room
PARTS = (*ROOMS, BESIDE)


def first_sentence(path: Path) -> str:
    """The first sentence of the docstring of the module at `path`, on one line; ValueError where it has none."""
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s(?=[A-Z`]|docs/)", paragraph)[0].rstrip(".")  # not after "i.i.d."


def folders(part: str) -> list[Path]:
    """The folder of `part` and, of a room, those below it that hold modules, in the order of their names."""
    return [PACKAGE] if part == BESIDE else sorted({path.parent for path in (PACKAGE / part).rglob("*.py")})


def listing(part: str) -> str:
    """The modules of `part` as Markdown: one heading a folder, one line a module."""
    lines = [f"# {part}", ""]
    for folder in folders(part):
        lines += [f"## {folder.relative_to(PACKAGE.parent)}", ""]
        modules = sorted(folder.glob("*.py"))
        if modules[0].stem == "__init__":
            lines += [f"{first_sentence(modules.pop(0))}.", ""]
        lines += [f"* `{path.stem}`: {first_sentence(path)}" for path in modules]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        print(listing(name))
