"""The examples in ledger/SPEC.md are entries of the golden ledger, and its lists of kinds are those of the code.

`python tests/support/ledger_golden.py` writes both anew; a test compares. An example is a block of JSON below a line
that says which entry it is; the lists are those of `spec_kinds`.
"""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import spec_kinds
from dpledger.ledger.signed import envelope
from dpledger.ledger.verifying import bundle

SPEC = Path(__file__).parents[2] / "ledger" / "SPEC.md"
OWNED_LEAVES = Path(__file__).parents[1] / "data" / "ledger" / "golden_owned" / "entries.jsonl"
KEYS_LEAVES = Path(__file__).parents[1] / "data" / "ledger" / "golden_keys" / "entries.jsonl"
KINDS_LEAVES = Path(__file__).parents[1] / "data" / "ledger" / "golden_kinds" / "entries.jsonl"
_EXAMPLE = re.compile(
    r"(?P<says>Entry (?P<entry>\d+) of the golden ledger:|"
    r"The first `(?P<kind>[a-z_]+)` entry of the second golden ledger:|"
    r"Entry (?P<owned>\d+) of the golden ledger with an owner:|"
    r"Entry (?P<keys>\d+) of the golden ledger of keys:|"
    r"Line (?P<line>\d+) of `reserved_kinds.jsonl`:|"
    r"What entry \d+ of the golden ledger is the digest of:)\n\n```json\n.*?```\n",
    re.DOTALL,
)


def shown(payload: dict[str, Any]) -> str:
    """A payload with a line for each member."""
    rows = (f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in payload.items())
    return "```json\n{\n" + ",\n".join(rows) + "\n}\n```\n"


def refreshed(text: str, files: dict[str, bytes]) -> str:
    """The text of SPEC.md with its examples taken from the golden files, its lists from the code. `files`: by name."""
    leaves = list(bundle.lines(BytesIO(files["entries.jsonl"])))
    later = files["reserved_kinds.jsonl"].splitlines()

    def example(found: re.Match[str]) -> str:
        if found["entry"] is not None:
            payload = envelope.parse_unverified(leaves[int(found["entry"])]).payload
        elif found["owned"] is not None:
            payload = envelope.parse_unverified(owned_leaves()[int(found["owned"])]).payload
        elif found["keys"] is not None:
            payload = envelope.parse_unverified(keys_leaves()[int(found["keys"])]).payload
        elif found["kind"] is not None:
            payload = first_of_kinds(found["kind"])
        else:
            payload = files["snapshot_state.json"] if found["line"] is None else later[int(found["line"])]
        return f"{found['says']}\n\n{shown(json.loads(payload))}"

    return spec_kinds.refreshed(_EXAMPLE.sub(example, text))


def second_leaves() -> list[bytes]:
    """The leaves of the second golden ledger, the one of kinds."""
    return list(bundle.lines(BytesIO(KINDS_LEAVES.read_bytes())))


def owned_leaves() -> list[bytes]:
    """The leaves of the golden ledger with an owner."""
    return list(bundle.lines(BytesIO(OWNED_LEAVES.read_bytes())))


def keys_leaves() -> list[bytes]:
    """The leaves of the golden ledger of keys."""
    return list(bundle.lines(BytesIO(KEYS_LEAVES.read_bytes())))


def first_of_kinds(kind: str) -> bytes:
    """The payload of the first entry of this kind in the second golden ledger."""
    payloads = (envelope.parse_unverified(leaf).payload for leaf in second_leaves())
    return next(payload for payload in payloads if json.loads(payload)["kind"] == kind)


def kinds_shown(text: str) -> set[str]:
    """The kinds of the examples in section 6, each under the heading of its kind."""
    headings = re.findall(r"^### `([a-z_]+)`\n(.*?)(?=^##)", text, re.DOTALL | re.MULTILINE)
    return {kind for kind, section in headings if _EXAMPLE.search(section) and f'"kind": "{kind}"' in section}


def rules_of(text: str, kind: str) -> dict[str, str]:
    """What section 6 says binds each member of a kind: the last column of its table."""
    section = text.split(f"### `{kind}`\n")[1].split("\n##")[0]
    return dict(re.findall(r"^\| `([a-z_]+)`.* \| ([^|]+) \|$", section, re.MULTILINE))
