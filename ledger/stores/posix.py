"""What ledger files need of the system: POSIX locks and rights. Where there are none, they are refused by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dpledger.errors import ParameterError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["fcntl", "require_posix"]


def require_posix(file: Path, field: str) -> None:
    """ParameterError, naming `field`, where the system cannot keep a ledger in a file."""
    if fcntl is None or not hasattr(os, "geteuid"):
        raise ParameterError(
            field,
            f"{file} on {sys.platform}",
            "Linux or macOS for ledgers in files (elsewhere: Ledger.in_memory, Ledger.begin with a store of your own, "
            "and bundles for those who verify)",
        )
