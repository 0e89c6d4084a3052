"""Outputs of runs by structure: `structure` is what is known of them, `encoding` finds it."""

from dpledger.audit.outcomes.flat import (
    Floats,
    Labels,
    Outcomes,
    Outputs,
    Raised,
    encode,
    head_of,
    joined,
    usual_width,
)

__all__ = ["Floats", "Labels", "Outcomes", "Outputs", "Raised", "encode", "head_of", "joined", "usual_width"]
