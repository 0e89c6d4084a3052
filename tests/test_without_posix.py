"""What works on a system that is no POSIX system, and what is refused there by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import without_posix


def test_ledgers_in_memory_work_without_posix_and_files_are_refused_by_name(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, without_posix.__file__],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")
