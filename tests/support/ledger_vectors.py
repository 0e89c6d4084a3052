"""The golden vectors of the ledger's byte layer, which a verifier in any language can be tried on.

They are built from the format's description by code that shares nothing with the product.
`python tests/support/ledger_vectors.py` writes them to tests/data/ledger/; a test compares the files with what `build`
gives, and others run every vector through the product.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from golden_signed import checkpoint_vectors, envelope_vectors, key_vectors, merkle_vectors
from golden_unsigned import field_vectors, payload_vectors

DATA = Path(__file__).parents[1] / "data" / "ledger"


def load(name: str) -> Any:
    """The content of the file `name`.json."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def build() -> dict[str, str]:
    """Every file's text, by the name of the file."""
    files = {
        "payload": payload_vectors(),
        "fields": field_vectors(),
        "keys": key_vectors(),
        "envelope": envelope_vectors(),
        "checkpoint": checkpoint_vectors(),
        "merkle": merkle_vectors(),
    }
    return {f"{name}.json": json.dumps(content, indent=1) + "\n" for name, content in files.items()}


if __name__ == "__main__":
    DATA.mkdir(parents=True, exist_ok=True)
    for file_name, content in build().items():
        (DATA / file_name).write_text(content, "utf-8")
