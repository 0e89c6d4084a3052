"""What files with secrets and locks need of the system: owners, rights, flock. Elsewhere they are refused by name."""

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
    """ParameterError, naming `field`, where a ledger or a private key cannot be kept in a file."""
    if fcntl is None or not hasattr(os, "geteuid"):
        raise ParameterError(
            field,
            f"{file} on {sys.platform}",
            "Linux or macOS, where files have owners and locks: ledgers in files and private key files need them "
            "(elsewhere: Ledger.in_memory, Ledger.begin with a store of your own, a key in DPLEDGER_KEY, and bundles "
            "for `verify` and `report`)",
        )
