"""Kinds are closed unions: a `match` over one lists every kind and ends in `assert_never`.

So a new kind is an error wherever somebody must say what it means, and never falls into an arm that was written for
others. A default is right where anything may come: numbers of any library, outputs of a function under audit, losses
(an open protocol: a method that does not know one hands over to the next). Those of accounting are listed here.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from dpledger.accounting import chains, composition, guarantees, kinds
from dpledger.accounting.filters import kinds as filter_kinds
from dpledger.accounting.laws import draws
from dpledger.audit.features import events
from dpledger.ledger.entries import bodies
from dpledger.ledger.rules import gate
from dpledger.mechanisms.noise import laws as noise
from dpledger.relations import Relation

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["accounting", "attach", "audit", "ledger", "mechanisms", "reports", "src/dpledger/cli"]


def members(union: Any) -> Iterator[type]:
    """The classes of a union, of unions within it, and of one that says by which field it is told apart."""
    for member in get_args(union):
        if isinstance(member, type):
            yield member
        else:
            yield from members(member)


UNIONS = (
    composition.Leaf,
    composition.Node,
    chains.Level,
    kinds.AnyLeaf,
    guarantees.Guarantee,
    guarantees.Failure,
    filter_kinds.Filter,
    draws.Draw,
    bodies.Body,
    gate.Decision,
    noise.AnyLaw,
    events.Event,
)
CLOSED = {member.__name__ for union in UNIONS for member in members(union)} | {
    f"Relation.{one.name}" for one in Relation
}
FEW = 4
"""Members of a union that a tuple may name: so many may be meant for what they have in common."""

DEFAULTS = {
    "accounting/engine/balls.py": "losses: where no closed form is known the integral answers",
}
"""Modules of these rooms with a `match` that does not end by refusing what it does not list, and what comes there."""


@functools.cache
def matches() -> dict[str, list[ast.Match]]:
    """Every `match` of the package, by module and function."""
    found: dict[str, list[ast.Match]] = {}

    def walk(node: ast.AST, path: str, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            own = child.name if isinstance(child, ast.FunctionDef) else name
            if isinstance(child, ast.Match):
                found.setdefault(f"{path}:{own}", []).append(child)
            walk(child, path, own)

    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            walk(ast.parse(file.read_text()), str(file.relative_to(ROOT)), "")
    return found


def is_wildcard(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def asserts_never(case: ast.match_case) -> bool:
    return is_wildcard(case) and case.guard is None and ast.unparse(case.body[0]).startswith("assert_never(")


def refuses(case: ast.match_case) -> bool:
    return is_wildcard(case) and case.guard is None and isinstance(case.body[-1], ast.Raise)


def named(match: ast.Match) -> set[str]:
    """The kinds that the arms name."""
    nodes = [node for case in match.cases for node in ast.walk(case.pattern)]
    classes = {ast.unparse(node.cls).rpartition(".")[2] for node in nodes if isinstance(node, ast.MatchClass)}
    return classes | {ast.unparse(node.value) for node in nodes if isinstance(node, ast.MatchValue)}


def test_there_are_matches_and_unions_to_look_at() -> None:
    assert len(CLOSED) > 50
    assert sum(map(len, matches().values())) > 60
    assert sum(bool(named(match) & CLOSED) for found in matches().values() for match in found) > 30


def test_a_match_over_a_closed_union_lists_every_kind() -> None:
    over_unions = [
        (f"{where}, line {match.lineno}", match)
        for where, found in matches().items()
        for match in found
        if named(match) & CLOSED
    ]
    for place, match in over_unions:
        *arms, last = match.cases
        assert not any(is_wildcard(case) for case in arms), f"{place}: an arm for whatever is left"
        assert asserts_never(last) or refuses(last), f"{place}: ends without assert_never"


def test_the_defaults_in_the_rooms_that_decide_say_why() -> None:
    open_ended = {
        where.partition(":")[0]
        for where, found in matches().items()
        for match in found
        if where.startswith(("accounting/", "ledger/"))
        if not (asserts_never(match.cases[-1]) or refuses(match.cases[-1]))
        or any(is_wildcard(case) for case in match.cases[:-1])
    }
    assert open_ended == set(DEFAULTS)


def lists() -> Iterator[tuple[str, set[str]]]:
    """Every tuple, list and set that is written out in these rooms: where, and the names in it."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Tuple | ast.List | ast.Set):
                    names = {ast.unparse(one).rpartition(".")[2] for one in node.elts}
                    yield f"{file.relative_to(ROOT)}, line {node.lineno}", names


@pytest.mark.sliced
def test_no_list_of_all_kinds_is_written_beside_the_union() -> None:
    """A new kind would be missing there, and no type checker tells: take `get_args` of the union."""
    unions = [{member.__name__ for member in members(union)} for union in UNIONS]
    found = {place for place, names in lists() for union in unions if len(names & union) > max(FEW, len(union) - 2)}
    assert found == set(), "write get_args(the union) in place of these"


# ---- who may name a law ---------------------------------------------------------------------------------------------

LAWS = {member.__name__ for member in members(composition.Leaf)} - {
    member.__name__ for member in members(guarantees.Guarantee)
}
MAY_NAME_A_LAW = (
    "accounting/leaves.py",
    "accounting/chains.py",
    "accounting/composition.py",
    "accounting/families/",
    "accounting/certificates/",
    "accounting/ex_post/senses.py",
)


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("room", ["accounting", "ledger"])
def test_no_law_is_named_outside_of_what_it_says_about_itself(room: str) -> None:
    """Whoever asks for a fact asks the rules of the leaf: then no fact of a new law can be missing."""
    named = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / room).rglob("*.py"))
        if (found := names_in(path) & LAWS)
    }
    assert {path: laws for path, laws in named.items() if not path.startswith(MAY_NAME_A_LAW)} == {}
