"""Writes docs/verify.html, the page that verifies a bundle in a browser: verifier/*.mjs, page.css and page.html in one
file that loads nothing. Each module becomes a function that returns what it exports. `make verify-page` runs it.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "verify.html"
MODULES = (
    "bytes",
    "profile",
    "signed",
    "schema",
    "keys",
    "divergences",
    "prices",
    "witnesses",
    "fold",
    "verify",
    "archive",
    "page",
)
_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "\./(\w+)\.mjs";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)


def page() -> str:
    """The page as it is to be."""
    script = "\n" + "\n".join(_module(name) for name in MODULES) + "\n"
    style = "\n" + (HERE / "page.css").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    template = (HERE / "page.html").read_text("utf-8")
    for name, content in (("policy", policy), ("style", style), ("script", script)):
        template = template.replace("{{" + name + "}}", content, 1)
    return template


def _module(name: str) -> str:
    source = (HERE / f"{name}.mjs").read_text("utf-8")
    exports = ", ".join(_EXPORT.findall(source))
    source = _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = module_\2;", source))
    return f"const module_{name} = (() => {{\n{source}return {{ {exports} }};\n}})();"


def _digest(content: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
