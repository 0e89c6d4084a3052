"""What the site has beyond `docs/`: pages that stand elsewhere, lists that are generated, links between all of them.

A link in a page is written for a reader of the repository. Here it becomes a link of the site: a page where the target
is one, else a copy of the file.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import modules
import reference

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = modules.ROOT
ELSEWHERE = {  # in the repository: on the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "ledger/SPEC.md": "ledger_format.md",
}
SOURCES = {site: source for source, site in ELSEWHERE.items()}
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
ITEM = re.compile(r"(?:[*+-]|\d+\.) ")
LOADED = re.compile(  # by a browser, from another host
    r"""<(?:script|img|iframe|source|link(?![^>]*canonical))[^>]*\s(?:src|href)="?(?:https?:)?//[^">\s]*"""
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out each `folder/*` of the navigation."""
    generated = {"reference": list(reference.pages()), "modules": list(modules.PARTS)}
    config.nav = _written_out(config.nav, generated)
    return config


def _written_out(nav: Any, generated: dict[str, list[str]]) -> Any:
    if isinstance(nav, dict):
        return {title: _written_out(inner, generated) for title, inner in nav.items()}
    if not isinstance(nav, list):
        return nav
    out = []
    for item in nav:
        if isinstance(item, str) and item.endswith("/*"):
            folder = item.removesuffix("/*")
            written = sorted(path.stem for path in (ROOT / "docs" / folder).glob("*.md"))
            names = generated.get(folder) or sorted(written, key=lambda name: name != "README")
            pages = [f"{folder}/{name}.md" for name in names]
            out += [{"Overview": page} if page.endswith("README.md") else page for page in pages]
        else:
            out.append(_written_out(item, generated))
    return out


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, the generated ones, and the files that pages link to."""
    for source, site in ELSEWHERE.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text()))
    for room in modules.PARTS:
        files.append(File.generated(config, f"modules/{room}.md", content=modules.listing(room)))
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in sorted(_linked(files)):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def _linked(files: Files) -> set[str]:
    """The files outside of `docs/` to which a page links, from the root."""
    found = set()
    for file in files.documentation_pages():
        source = _source(file.src_uri)
        if source is not None:
            targets = (_from_root(source, link[1]) for link in LINK.finditer((ROOT / source).read_text()))
            found |= {one for one in targets if not one.startswith("docs/") and one not in ELSEWHERE}
    return {one for one in found if (ROOT / one).is_file()}


def _source(site: str) -> str | None:
    """Where the page `site` stands in the repository; None for a generated one."""
    source = SOURCES.get(site, f"docs/{site}")
    return source if (ROOT / source).is_file() else None


def _from_root(source: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with links of the site, and an empty line before each list, which Python-Markdown wants."""
    source = _source(page.file.src_uri)
    if source is None:
        return markdown

    def linked(link: re.Match[str]) -> str:
        path = _from_root(source, link[1])
        there = ELSEWHERE.get(path, path.removeprefix("docs/"))
        return f"]({posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or '.')}{link[2] or ''})"

    return _lists_apart(LINK.sub(linked, markdown))


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """The page as it is; PluginError where a reader's browser would load something from another host."""
    found = LOADED.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} loads from another host: {found[0]}")
    return output


def _lists_apart(markdown: str) -> str:
    out: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        before = out[-1] if out else ""
        if not fenced and ITEM.match(line) and before.strip() and not ITEM.match(before) and before[0] != " ":
            out.append("")
        out.append(line)
    return "\n".join(out)
