"""The lowest versions of its dependencies that pyproject.toml allows, one a line, each with its last patch.

pip install $(python tests/support/lowest.py)
"""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def lowest() -> list[str]:
    """`numpy>=2.0` as `numpy==2.0.*`."""
    return [one.replace(">=", "==") + ".*" for one in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]]


if __name__ == "__main__":
    print("\n".join(lowest()))
