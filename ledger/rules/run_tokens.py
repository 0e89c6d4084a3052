"""Where a model stands in a run that is granted its steps: saved beside the model, held against the record when the run
is resumed.

A token is a small dictionary, which JSON keeps: the run, its generation (how often another process had taken it over),
and the step of the plan that the model has behind it. It opens nothing, and is no secret.

>>> saved: RunToken = {"run": "000102030405060708090a0b0c0d0e0f", "generation": 0, "step": 90}
>>> require_of(saved, run="000102030405060708090a0b0c0d0e0f", generation=0, granted=100)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from dpledger.decimals import whole
from dpledger.errors import ParameterError, StoreBehind

__all__ = ["RunToken", "read", "require_of"]

_EXPECTED = "True, or the token that was saved beside the model ({'run': ..., 'generation': ..., 'step': ...})"


class RunToken(TypedDict):
    """`run`: the id of its charge. `generation`: how often it had been taken over. `step`: how many steps of the plan
    the model has behind it, counted with those that were lost before."""

    run: str
    generation: int
    step: int


def read(resume: object) -> RunToken | None:
    """The token in what `resume=` was given; None where it is True or False. ParameterError for anything else."""
    if isinstance(resume, bool):
        return None
    if not isinstance(resume, Mapping) or set(resume) != set(RunToken.__required_keys__):
        raise ParameterError("resume", resume, _EXPECTED)
    said: Mapping[str, Any] = resume
    if not isinstance(said["run"], str):
        raise ParameterError("resume", said["run"], _EXPECTED)
    return RunToken(
        run=said["run"],
        generation=whole(said["generation"], field="generation of resume"),
        step=whole(said["step"], field="step of resume"),
    )


def require_of(saved: RunToken, *, run: str, generation: int, granted: int) -> None:
    """ParameterError unless `saved` is a token of this run; StoreBehind for one of a later state than the record has:
    the ledger lost entries."""
    if saved["run"] != run:
        raise ParameterError("resume", saved["run"], f"the token of the run under this key, {run}")
    if saved["step"] > granted:
        ahead = f"it has run {saved['step']} steps, and {granted} are granted"
    elif saved["generation"] > generation:
        ahead = f"it is of generation {saved['generation']}, and the record knows {generation}"
    else:
        return
    raise StoreBehind(
        f"the model is ahead of the ledger: {ahead}. The ledger lost entries; perhaps it was restored from an older "
        "copy. Do not continue with it"
    )
