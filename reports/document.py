"""The public entry: a report on a ledger, in three forms that cannot disagree.

>>> import dpledger as dpl
>>> book = dpl.Ledger.in_memory()
>>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
>>> made = report(book)
>>> made.markdown().splitlines()[0], made.body().schema
('# Privacy report', 'dpledger.report.v3')
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from dpledger.errors import ParameterError
from dpledger.files import path_of
from dpledger.ledger.entries.bodies import Reported
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import html, jsonform, markdown, registryform
from dpledger.reports.build import build
from dpledger.reports.model import SCHEMA, ReportModel

__all__ = ["FORMS", "Report", "report"]


@dataclass(frozen=True, slots=True)
class Report:
    """A report: a first page of answers for each promise, then annexes. Each form is a rendering of `model`; entries
    for a registry stand in the JSON and the YAML form alone."""

    model: ReportModel

    def __repr__(self) -> str:
        model = self.model
        pages = "a first page" if len(model.pages) == 1 else f"{len(model.pages)} first pages"
        parts = f"{pages} alone" if model.of else f"{pages} and {len(model.sections)} sections"
        return f"<Report on {model.ledger}, {model.size:,} entries: {parts}>"

    def html(self) -> str:
        """One self-contained page: no network, no script."""
        return html.render(self.model, self.digest)

    def json(self) -> str:
        """The JSON form, in the ledger's byte profile."""
        return jsonform.render(self.model).decode()

    def markdown(self) -> str:
        """The Markdown form."""
        return markdown.render(self.model, self.digest)

    def registry(self) -> str:
        """An entry for the public registry of deployments for each promise, in YAML (several are documents of one
        file), with the status Draft: what the record shows and people declared, with what is missing listed above it.
        ParameterError for first pages alone."""
        return registryform.render(self.model, self.digest)

    def summary(self) -> Report:
        """The first pages alone, one a promise, in the same forms. They name this report by its digest.

        >>> import dpledger as dpl
        >>> page = report(dpl.Ledger.in_memory()).summary()
        >>> [len(one.answers) for one in page.model.pages], page.model.sections
        ([10], ())
        """
        return self if self.model.of else Report(replace(self.model, sections=(), registry=(), of=self.digest))

    @property
    def digest(self) -> str:
        """The SHA-256 of the JSON form, in hexadecimal."""
        return jsonform.digest(self.model)

    def body(self) -> Reported:
        """What a ledger records of this report: `book.record(report)`."""
        return Reported(digest=self.digest, schema=SCHEMA)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the form that the suffix of `path` names: .html, .json, .md, or .yaml for `registry`. ParameterError
        for another suffix, or where it cannot be written."""
        target = path_of(path, "path")
        form = FORMS.get(target.suffix.lower())
        if form is None:
            raise ParameterError("path", target.name, "a name that ends in .html, .json, .md or .yaml")
        text = form(self)
        try:
            target.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise ParameterError("path", str(target), f"a path that can be written ({error.strerror})") from None
        return target

    def _repr_html_(self) -> str:
        """The page in a notebook, in a frame of its own: its style stays there."""
        return html.framed(self.html())


def report(book: Ledger | Verified, *, scope: str | None = None) -> Report:
    """The report on `book`: a ledger, which is verified in full first, or what a verification returned.

    It has a first page, and an entry for a public registry, for each promise: that of one scope, or of scopes that
    share people (`Ledger.people`). `scope`: the name of a scope; the report is then about the promise that covers it,
    and about whatever is charged to that, and says nothing of the others; None: about all. The record is verified as a
    whole.

    Verifying a ledger against its own key shows that it is consistent, not whose it is; pass what
    `verification.verify` returned for a key that you trust. Raises VerificationError for a record that does not hold,
    ParameterError for a scope that is not there, or where no entry was read (quick verification).

    >>> book = dpl.Ledger.in_memory()
    >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    >>> dpl.report(book).markdown().splitlines()[0]
    '# Privacy report'
    >>> dpl.report(book, scope="patients").model.pages[0].scopes
    ('patients',)
    """
    if not isinstance(book, (Ledger, Verified)):
        expected = "a Ledger (dpl.Ledger.look(path) opens a file for reading), or what `verify` returned"
        raise ParameterError("book", type(book).__name__, expected)
    if scope is not None and not isinstance(scope, str):
        raise ParameterError("scope", type(scope).__name__, "the name of a scope, or None for all")
    return Report(build(book if isinstance(book, Verified) else book.verify(), scope))


FORMS: Mapping[str, Callable[[Report], str]] = MappingProxyType(
    {".html": Report.html, ".json": Report.json, ".md": Report.markdown, ".yaml": Report.registry}
)
"""What `Report.save` writes, by the suffix of the file."""
