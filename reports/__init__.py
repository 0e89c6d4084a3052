"""Reports: a verified ledger for those who must judge it. One model, rendered as HTML, JSON and Markdown.

A report supplies evidence and gaps; it shows bounds that the engine, the ledger and audits returned, and computes none.
"""

from dpledger.reports.document import Report, report

__all__ = ["Report", "report"]
