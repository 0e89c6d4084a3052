"""Outputs of runs by structure: `structure` is what is known of them, `encoding` finds it."""

from dpledger.audit.outcomes.encoding import Outputs, encode
from dpledger.audit.outcomes.structure import (
    ABSENT,
    RAISES,
    ROOT,
    UNREAD,
    Floats,
    Labels,
    Outcomes,
    Raised,
    joined,
    name_of_error,
)

__all__ = [
    "ABSENT",
    "RAISES",
    "ROOT",
    "UNREAD",
    "Floats",
    "Labels",
    "Outcomes",
    "Outputs",
    "Raised",
    "encode",
    "joined",
    "name_of_error",
]
