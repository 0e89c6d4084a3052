"""An audit that is killed goes on where it was: a run is a function of the seed and its number."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpledger.audit.sampling.checkpoint import Checkpoint
from dpledger.audit.sampling.runs import Runs
from dpledger.audit.sampling.ways import Single
from dpledger.errors import ParameterError

SIZES = (8, 12, 40, 100, 300)

DRIVER = """
import os, signal, sys
import numpy as np
from dpledger.audit.sampling.checkpoint import Checkpoint
from dpledger.audit.sampling.runs import Runs
from dpledger.audit.sampling.ways import Single
from pathlib import Path

calls = 0

def mechanism(data, rng):
    global calls
    calls += 1
    if calls == 250:
        os.kill(os.getpid(), signal.SIGKILL)
    return data + rng.laplace()

checkpoint, sums, pairs = Checkpoint(Path(sys.argv[1]), of="this"), [0.0, 0.0], 0
runs = Runs(Single(mechanism), 0.0, 1.0, seed=3, encode=np.array)
for size in (8, 12, 40, 100, 300):
    sums = [one + float(new) for one, new in zip(sums, runs.block(pairs, size, np.sum, jobs=1, advance=lambda _: None))]
    pairs += size
    checkpoint.write({"sums": sums}, pairs=pairs)
"""


def noisy(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


def driven(sums: list[float], pairs: int) -> list[float]:
    """What the driver does from there on."""
    runs = Runs(Single(noisy), 0.0, 1.0, seed=3, encode=np.array)
    for size in SIZES:
        if pairs < sum(SIZES[: SIZES.index(size) + 1]):
            new: Any = runs.block(pairs, size, np.sum, jobs=1, advance=lambda _: None)
            sums = [one + float(other) for one, other in zip(sums, new, strict=True)]
            pairs += size
    return sums


def test_what_was_killed_in_the_middle_goes_on_to_the_same_end(tmp_path: Path) -> None:
    place = tmp_path / "audit.json"
    killed = subprocess.run([sys.executable, "-c", DRIVER, str(place)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    found = Checkpoint(place, of="this").read()
    assert found is not None
    state, pairs = found
    assert pairs == 60  # 250 calls fall into the fourth block
    assert driven(state["sums"], pairs) == driven([0.0, 0.0], 0)


def test_a_checkpoint_is_of_one_audit(tmp_path: Path) -> None:
    place = tmp_path / "audit.json"
    assert Checkpoint(place, of="this").read() is None
    Checkpoint(place, of="this").write({"wealth": [1, 2.5]}, pairs=8)
    assert Checkpoint(place, of="this").read() == ({"wealth": [1, 2.5]}, 8)
    assert place.stat().st_mode & 0o077 == 0
    with pytest.raises(ParameterError, match="of this audit"):
        Checkpoint(place, of="another").read()
    with pytest.raises(ParameterError, match="can be written"):
        Checkpoint(tmp_path / "nowhere" / "audit.json", of="this").write({}, pairs=0)
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"of": "this", "pairs": -1, "state": {}}', '{"of": "this", "pairs": 1.5,']
)
def test_what_no_audit_wrote_is_refused(tmp_path: Path, text: str) -> None:
    place = tmp_path / "audit.json"
    place.write_text(text)
    with pytest.raises(ParameterError, match="resume"):
        Checkpoint(place, of="this").read()


def test_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "audit.json", of="this")
    checkpoint.write({"a": 1}, pairs=1)
    with pytest.raises(ValueError, match="JSON"):
        checkpoint.write({"a": float("nan")}, pairs=2)
    assert json.loads((tmp_path / "audit.json").read_text())["pairs"] == 1
