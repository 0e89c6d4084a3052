"""The lists of kinds in ledger/SPEC.md, written from the unions of the code: a kind that is recorded is listed.

Each list stands between a pair of marks, `<!-- generated: NAME -->` and `<!-- end -->`. `ledger_spec.py` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from typing import Any, get_args, get_type_hints

from dpledger.accounting.composition import Composition
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.accounting.trials import Trials
from dpledger.ledger.entries import declarations

_BLOCK = re.compile(r"(?P<mark><!-- generated: (?P<name>[a-z ]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
FORMS: Mapping[str, str] = {  # by the word of the code for the type of a member
    "Exact": "number",
    "Promise": "number",
    "Noise": "number above 0",
    "Positive": "number above 0",
    "Probability": "number in [0, 1)",
    "PromisedProbability": "number in [0, 1)",
    "OpenProbability": "number in (0, 1)",
    "Rate": "number in (0, 1]",
    "Exacts": "list of numbers",
    "Grid": "list of numbers",
    "Tally": "whole number",
    "Count": "whole number, 1 to 10^12",
    "Categories": "whole number, 2 to 10^12",
    "tuple[Tally, ...]": "list of whole numbers",
    "Part": "tree",
    "Law": "tree, a law",
    "Parts": "list of trees, at least one",
    "ChainLaw": "tree: `laplace`, `discrete_laplace` or `gaussian`",
    "Level": "tree: of the kind of `of`, or `pure_dp`",
    "TimeUniformBoundary": "boundary",
    "Guarantee": "guarantee",
    "Filter": "filter",
    "Trials": "trials",
    "Eta": "number above -1, up to 1000",
    "tuple[Boundary, ...]": "list of boundaries",
    "Relation": "relation",
    "SparseVectorOutcome": "outcome",
    "ExPostOutcome": "outcome",
    "bool": "true or false",
    "str": "text",
    "Literal[True]": "true",
}


def members(union: Any) -> tuple[type, ...]:
    """The classes of a closed union of records."""
    plain = get_args(union)[0] if hasattr(union, "__metadata__") else union
    return tuple(get_args(plain))


def outcomes() -> tuple[type, ...]:
    """The classes that say how a leaf came out: the types of members named `outcome`."""
    found = [option for leaf in members(Composition) for option in _outcome_of(leaf)]
    assert found, "a sparse vector has one"
    return tuple(found)


def _outcome_of(leaf: type) -> Iterable[type]:
    hint = get_type_hints(leaf).get("outcome")
    return (option for option in get_args(hint) if option is not type(None))


def kind_of(record: Any) -> str:
    """The word by which a record is told apart."""
    return str(record.__dataclass_fields__["kind"].default)


def lists() -> dict[str, str]:
    """The text of each list, by the name of its marks."""
    guarantees = members(Guarantee)
    trees = [one for one in members(Composition) if one not in guarantees]
    nodes = [one for one in trees if "of" in one.__dataclass_fields__]  # type: ignore[attr-defined]
    return {
        "guarantees": _table(guarantees),
        "failures": _table(members(Failure)),
        "leaves": _table(one for one in trees if one not in nodes),
        "outcomes": _table(outcomes()),
        "nodes": _table(nodes),
        "boundaries": _table(members(TimeUniformBoundary)),
        "trials": _table(members(Trials)),
        "filters": _table(members(Filter)),
        "items": ", ".join(f"`{item}`" for item in sorted(declarations.ITEMS)) + "\n",
    }


def refreshed(text: str) -> str:
    """The text of SPEC.md with its lists of kinds as the code has them."""
    written = lists()
    return _BLOCK.sub(lambda found: f"{found['mark']}\n{written[found['name']]}\n", text)


def marks(text: str) -> list[str]:
    """The names of the lists in a text, in order."""
    return [found["name"] for found in _BLOCK.finditer(text)]


def _table(records: Iterable[Any]) -> str:
    rows = ["| kind | members |", "|---|---|"]
    for record in records:
        said = ", ".join(_member(field) for field in fields(record) if field.name != "kind")
        rows.append(f"| `{kind_of(record)}` | {said} |")
    return "\n".join(rows) + "\n"


def _member(field: Field[Any]) -> str:
    type_, optional = re.subn(r" \| None$|^Optional(?=Positive$)", "", str(field.type).replace(" ** ", "**"))
    return f"`{field.name}`{' (optional)' if optional else ''}: {_form(type_)}"


def _form(type_: str) -> str:
    if type_ in FORMS:
        return FORMS[type_]
    words = re.fullmatch(r"Literal\[(.*)\]", type_)
    if words:
        return " or ".join(f"`{word}`" for word in re.findall(r"'([a-z0-9_]+)'", words[1]))
    whole = re.fullmatch(r"Annotated\[(?:int|Whole), Field\(strict=True, ge=(\d+), (?:le=(\S+)|lt=(\S+))\)\]", type_)
    assert whole, f"{type_}: give it words in FORMS"
    low, most, below = whole.groups()
    return f"whole number, {low} to {_power(most)}" if most else f"whole number, {low} to {_power(below)} - 1"


def _power(text: str) -> str:
    return text.replace("**", "^")
