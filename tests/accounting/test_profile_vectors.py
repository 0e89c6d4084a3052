"""Published cases: the exact epsilon of each document is bracketed by closed forms or 80-bit contour integrals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from dpledger.accounting.composition import Composition
from dpledger.accounting.documents import parse_document
from dpledger.accounting.profile import compose
from dpledger.strict_json import read_json

PATH = Path(__file__).parent.parent / "data" / "composition_vectors.json"
VECTORS: list[Any] = read_json(PATH.read_bytes())["vectors"]  # type: ignore[index, call-overload, assignment]


def kinds(value: Any) -> set[str]:
    """Every kind of node in a document."""
    if isinstance(value, list):
        return set().union(*map(kinds, value)) if value else set()
    if isinstance(value, dict):
        own = {value["kind"]} if "kind" in value else set()
        return own.union(*map(kinds, value.values()))
    return set()


def known_kinds() -> set[str]:
    union = get_args(Composition)[0] if hasattr(Composition, "__metadata__") else Composition
    return {leaf.__dataclass_fields__["kind"].default for leaf in get_args(union)}


def test_every_kind_of_the_vectors_is_a_kind_of_the_tree() -> None:
    assert len(VECTORS) == 51
    assert {kind for v in VECTORS for kind in kinds(v["document"])} <= known_kinds()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_vector(vector: Any) -> None:
    at = compose(parse_document(vector["document"])).epsilon(vector["delta"])
    lower, upper = float(vector["epsilon_lower"]), float(vector["epsilon_upper"])
    assert at.upper >= lower
    assert at.lower <= upper
    assert at.upper - at.lower <= 2e-4 * at.upper
