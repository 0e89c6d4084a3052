"""Notes: entries that charge nothing. What may be noted, and about which scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpledger.errors import ParameterError, ScopeError
from dpledger.ledger.bodies import Audited, Declared, Note
from dpledger.ledger.standing import State, next_steps
from dpledger.schema import words

__all__ = ["check", "placed"]


def check(note: Note) -> None:
    """ParameterError for what is no note, and for a declaration in which nothing, or nobody, says anything."""
    if not isinstance(note, Note):
        raise ParameterError("note", type(note).__name__, "a note: Declared, Audited, Reported or Heartbeat")
    if isinstance(note, Declared):
        for field, said in (("item", note.item), ("text", note.text), ("by", note.by)):
            if not said.strip():
                raise ParameterError(field, said, "words: a declaration says something, and whose word it is")


def placed(note: Note, about: Sequence[str], state: State) -> Note:
    """`note` with its place in each scope that it is about. ScopeError if one of them is not open."""
    if not isinstance(note, (Declared, Audited)):
        return note
    names = tuple(sorted({*words(about, field="about"), *(level.scope for level in note.path)}))
    for name in names:
        if name not in state.scopes or state.scopes[name].closed:
            raise ScopeError(f"scope {name!r} is not open in this ledger")
    return replace(note, path=next_steps(state, names))
