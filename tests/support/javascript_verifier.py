"""The verifier in JavaScript, asked about many cases in one process of Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
JUDGE = ROOT / "tests" / "interop" / "judge.mjs"
CLI = ROOT / "verifier" / "cli.mjs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What it says of one case. `found`: what it returned; `index`: of the entry at fault, None where it names none."""

    accepted: bool
    found: Any = None
    newer: bool = False
    index: int | None = None
    reason: str = ""

    @property
    def not_recomputed(self) -> set[int]:
        """The entries of an accepted bundle of which something was not recomputed."""
        return {said["index"] for said in self.found["not_recomputed"]}


def node() -> str:
    """The path of Node."""
    found = shutil.which("node")
    assert found is not None, "no node: install it with `apt-get install nodejs`"
    return found


def judged(cases: Iterable[dict[str, Any]]) -> list[Verdict]:
    """A verdict for each case. AssertionError, with its stack, where the verifier fails in another way than it says."""
    run = subprocess.run(
        [node(), "--no-warnings", str(JUDGE)], input=json.dumps(list(cases)).encode(), capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    said = json.loads(run.stdout)
    crashes = [one["crash"] for one in said if "crash" in one]
    assert not crashes, crashes[0]
    return [Verdict(**one) for one in said]


def data(content: bytes) -> str:
    """Bytes as a case holds them."""
    return b64encode(content).decode("ascii")


def bundle(leaves: Sequence[bytes] | bytes, head: bytes, key: str) -> dict[str, Any]:
    """A case: leaves, or the bytes of their file, under a head, for the verifier's own key."""
    content = leaves if isinstance(leaves, bytes) else b"".join(leaf + b"\n" for leaf in leaves)
    return {"judge": "bundle", "entries": data(content), "head": data(head), "key": key}
