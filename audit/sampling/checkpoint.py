"""Where an audit stands, in a file: written after each block, so that one that is killed goes on where it was.

The file is one JSON object of three members, `of` (a digest of all that the audit is of), `pairs` (runs of each side
that count so far) and `state` (the engine's). It is replaced as a whole, so whatever falls in between, the old one or
the new one is there. Runs `pairs` onwards are the same whether or not an audit was interrupted, since a run's seed is a
function of its number.

>>> import tempfile, pathlib
>>> checkpoint = Checkpoint(pathlib.Path(tempfile.mkdtemp()) / "audit.json", of="digest")
>>> checkpoint.read() is None
True
>>> checkpoint.write({"wealth": "1.5"}, pairs=12)
>>> checkpoint.read()
({'wealth': '1.5'}, 12)
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpledger.errors import ParameterError
from dpledger.files import read_whole

__all__ = ["Checkpoint"]

LARGEST = 2**28  # bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file that remembers one audit. `of`: names what is audited, how, and with which seed; a file of another audit
    is refused, as its evidence is of other runs. What the engine keeps of runs is in it, so it is for its owner's eyes
    alone (mode 600)."""

    path: Path
    of: str

    def write(self, state: Mapping[str, Any], *, pairs: int) -> None:
        """Replace the file. ParameterError where that place cannot be written to."""
        text = json.dumps({"of": self.of, "pairs": pairs, "state": state}, allow_nan=False)
        try:
            number, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            try:
                with os.fdopen(number, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self.path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            raise ParameterError("resume", str(self.path), f"a file that can be written ({error.strerror})") from None

    def read(self) -> tuple[Mapping[str, Any], int] | None:
        """The engine's state, and how many pairs count in it; None where nothing was written yet. ParameterError for
        what is no such file, or of another audit."""
        if not self.path.exists():
            return None
        wanted = "a file that an audit wrote"
        text = read_whole(self.path, limit=LARGEST, field="resume")
        try:
            found = json.loads(text)
        except ValueError:
            raise ParameterError("resume", str(self.path), wanted) from None
        if not isinstance(found, dict) or found.keys() != {"of", "pairs", "state"}:
            raise ParameterError("resume", str(self.path), wanted)
        pairs, state = found["pairs"], found["state"]
        if type(pairs) is not int or pairs < 0 or not isinstance(state, dict):
            raise ParameterError("resume", str(self.path), wanted)
        if found["of"] != self.of:
            raise ParameterError(
                "resume", str(self.path), "a file of this audit: of this mechanism, pair, claim and seed"
            )
        return state, pairs
