"""The questions of NIST SP 800-226, in our words, and where a report answers each.

They are those that the "Guidelines for Evaluating Differential Privacy Guarantees" (2025) put to whoever promises
differential privacy, layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpledger.reports.model import Cell, Column, Section, Table
from dpledger.reports.sections.declared import COPIED, Declarations, label

__all__ = ["questions_section"]

TOP, MIDDLE, BOTTOM = "the guarantee", "the algorithms", "the deployment"


@dataclass(frozen=True, slots=True)
class _Question:
    """`measured`: the annex, or the table in one, that answers it; `declared`: the items that answer it."""

    layer: str
    asked: str
    measured: str = ""
    declared: tuple[str, ...] = ()


QUESTIONS = (
    _Question(TOP, "Which privacy parameters, and are they small?", "promise"),
    _Question(TOP, "Which variant of differential privacy, and what does its delta mean?", "promise"),
    _Question(TOP, "What is the unit of privacy, and is it the right one?", "promise", ("unit_justification",)),
    _Question(TOP, "How much of one unit's data is used?", "promise", ("contribution_bounding", "epoch_policy")),
    _Question(TOP, "What does it come to over all releases from the same people?", "scopes", ("non_dp_releases",)),
    _Question(MIDDLE, "Which mechanisms ran, with which sensitivity?", "ran", ("sensitivity",)),
    _Question(MIDDLE, "How exact are the results, and for whom less so?", "ran/accuracy", ("accuracy",)),
    _Question(MIDDLE, "Were parameters chosen by looking at the data?", "", ("parameters_chosen_without_data",)),
    _Question(MIDDLE, "Was sampling done as the proof assumes?", "promise", ("sampler",)),
    _Question(MIDDLE, "Is noise safe against floating-point and timing attacks?", "ran", ("floating_point", "timing")),
    _Question(MIDDLE, "Has somebody tried to refute the claims?", "audits"),
    _Question(
        MIDDLE, "Are models or synthetic data released, and how were they made?", "", ("synthetic_data", "model_files")
    ),
    _Question(BOTTOM, "Who may ask what, and can they join forces?", "", ("query_model", "who_may_query", "collusion")),
    _Question(BOTTOM, "Whom must one trust: central, local or shuffled?", "", ("trust_model",)),
    _Question(
        BOTTOM,
        "Are the raw data secured, and who has access?",
        "",
        ("security_at_rest", "security_in_use", "access_control"),
    ),
    _Question(
        BOTTOM, "What is collected, and could it be less?", "", ("data_categories", "collection_and_minimisation")
    ),
    _Question(BOTTOM, "What is published exactly, beside the guarantee?", "", ("invariants",)),
)
ANNEXES = {"scopes": "Scopes at a glance", "audits": "Audits"}
OF_SCOPES = {"promise": "What is promised", "ran": "What was run", "ran/accuracy": "How exact the releases are"}


def questions_section(declarations: Declarations, has_scopes: bool) -> Section:
    """The annex on the questions. `has_scopes`: whether the annexes on scopes are there."""
    return Section(
        id="questions",
        heading="The questions of NIST SP 800-226",
        about="Each question, and where this report answers it or leaves it open.",
        blocks=(
            Table(
                id="questions/table",
                caption="Questions about a guarantee, and where they are answered",
                columns=(Column("Question"), Column("About"), Column("Shown by the record"), Column("Declared")),
                rows=tuple(_row(question, declarations, has_scopes) for question in QUESTIONS),
                empty="",
            ),
        ),
    )


def _row(question: _Question, declarations: Declarations, has_scopes: bool) -> tuple[Cell, ...]:
    return (
        Cell(question.asked),
        Cell(question.layer),
        _measured(question.measured, has_scopes),
        _declared(question.declared, declarations),
    )


def _measured(where: str, has_scopes: bool) -> Cell:
    if not where:
        return Cell("a record cannot show it")
    if where in ANNEXES:
        return Cell(ANNEXES[where], link=where)
    return Cell(OF_SCOPES[where], link=where) if has_scopes else Cell("no scope was opened")


def _declared(items: tuple[str, ...], declarations: Declarations) -> Cell:
    if not items:
        return Cell("nothing is needed")
    copied = [item for item in items if item in declarations.copied]
    missing = [item for item in items if item in declarations.missing]
    told = [label(item) for item in items if item not in missing and item not in copied]
    if missing or copied:
        named = [*map(label, missing), *(f"{label(item)} ({COPIED})" for item in copied)]
        return Cell(", ".join(named), status="unknown", note=f"declared: {', '.join(told)}" if told else "")
    return Cell(", ".join(label(item) for item in items), status="declared")
