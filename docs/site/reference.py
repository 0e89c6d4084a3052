"""Write the pages of the API reference, with every public name.

The names are those of the stubs (`__init__.pyi`, of which each room has a page, and one stub a namespace) and of
`errors`. mkdocstrings fills in signatures and docstrings when the site is built.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import griffe
import modules

import dpledger.errors

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = {  # the names of `dpl`, by the first folder of their home: file and title of the page
    "ledger": ("ledger", "Ledger, scopes, reports"),
    "reports": ("ledger", "Ledger, scopes, reports"),
    "relations": ("ledger", "Ledger, scopes, reports"),
    "mechanisms": ("mechanisms", "Mechanisms"),
    "attach": ("mechanisms", "Mechanisms"),
    "accounting": ("composition", "Guarantees and composition"),
    "audit": ("audits", "Audits"),
}
GIVEN = {  # what calls hand out: nobody makes one
    *("Ledger", "Scope", "Session", "Receipt", "DeclaredRun", "Profile", "Document"),
    *("AuditResult", "ReplayResult", "Ensemble", "Student", "StabilityEstimate"),
}
NAMESPACES = ("planning", "filters", "ex_post", "stability", "learning", "keys", "results")
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *\n).*)*", re.MULTILINE)  # a doctest, to the next empty line
LABEL = re.compile(r"^(Claim|Source|Assumes|Raises):", re.MULTILINE)


class PublicNames(griffe.Extension):
    """What a static reader does not see: records have constructors, and docstrings are not quite Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for cls in _classes(pkg):
            if _is_record(cls):
                cls.set_member("__init__", _constructor(cls))


def _classes(inside: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    for member in inside.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _classes(member)
        if isinstance(member, griffe.Class):
            yield member


def _is_record(cls: griffe.Class) -> bool:
    return any(decorator.callable_path == "dpledger.schema.record" for decorator in cls.decorators)


def _constructor(cls: griffe.Class) -> griffe.Function:
    """What `schema.record` makes: a parameter for each field, but for the `kind` that a union is told apart by."""
    fields: dict[str, griffe.Parameter] = {}
    for holder in (*reversed(cls.mro()), cls):
        for name, field in holder.attributes.items() if _is_record(holder) else ():
            call = field.value.canonical_name if isinstance(field.value, griffe.ExprCall) else ""
            if field.annotation is not None and "instance-attribute" in field.labels and call != "tag":
                default = _argument(field.value, "default") if call == "given" else field.value
                kind = griffe.ParameterKind.positional_or_keyword
                fields[name] = griffe.Parameter(name, annotation=_bare(field.annotation), default=default, kind=kind)
    return griffe.Function("__init__", parameters=griffe.Parameters(*fields.values()), parent=cls)


def _argument(call: Any, name: str) -> Any:
    return next(given.value for given in call.arguments if getattr(given, "name", None) == name)


def _bare(annotation: Any) -> Any:
    """`annotation` without what `Annotated` adds to it."""
    if isinstance(annotation, griffe.ExprBinOp):
        return griffe.ExprBinOp(_bare(annotation.left), annotation.operator, _bare(annotation.right))
    if isinstance(annotation, griffe.ExprSubscript) and annotation.canonical_name == "Annotated":
        added: Any = annotation.slice
        return added.elements[0]
    return annotation


def as_markdown(docstring: str) -> str:
    """`docstring` with fences around its doctests and its labels in bold."""
    fenced = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", docstring)
    return LABEL.sub(r"\n**\1:**", fenced)


@dataclass(frozen=True)
class Name:
    """A public name: how people write it (`dpl.Count`), and the module that it is taken from."""

    written: str
    home: str

    @property
    def entry(self) -> str:
        """What mkdocstrings makes the entry of."""
        last = self.written.rpartition(".")[2]
        options = [f"heading: {self.written}", f"toc_label: {last}"]
        if last in GIVEN:
            options.append("merge_init_into_class: false")
        return "\n      ".join([f"::: {self.home}.{last}\n    options:", *options])


def names(stub: str, prefix: str) -> Iterator[Name]:
    """The names that the file `stub` of the package lists, but for the namespaces and errors."""
    for statement in ast.parse((modules.PACKAGE / stub).read_text()).body:
        if isinstance(statement, ast.ImportFrom) and statement.module and statement.module != "errors":
            yield from (Name(prefix + alias.name, f"dpledger.{statement.module}") for alias in statement.names)


def pages() -> dict[str, str]:
    """The reference as Markdown, by the name of the page, in the order of the navigation."""
    found: dict[str, list[Name]] = {file: [] for file, _ in PAGES.values()}
    for name in names("__init__.pyi", "dpl."):
        found[PAGES[name.home.split(".")[1]][0]].append(name)
    titles = dict(PAGES.values())
    written = {file: _page(titles[file], "", inside) for file, inside in found.items()}
    for space in NAMESPACES:
        written[space] = _page(f"dpl.{space}", _docstring(space), [*names(f"{space}.pyi", f"dpl.{space}.")])
    errors = [Name(f"dpl.errors.{name}", "dpledger.errors") for name in dpledger.errors.__all__]
    return written | {"errors": _page("dpl.errors", _docstring("errors"), errors)}


def _docstring(module: str) -> str:
    return as_markdown(ast.get_docstring(ast.parse((modules.PACKAGE / f"{module}.py").read_text())) or "")


def _page(title: str, text: str, inside: list[Name]) -> str:
    entries = [name.entry for name in sorted(inside, key=lambda name: name.written.lower())]
    return "\n\n".join([f"# {title}", text, *entries, ""])
