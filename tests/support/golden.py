"""How one vector is written down: `desc`, its data (`text`, or `base64` where that is not UTF-8), perhaps more about
it, and `want_error`, a part of the message to expect; without it the data must be accepted."""

from __future__ import annotations

import base64
from typing import Any

Vector = dict[str, Any]


def good(desc: str, text: str, **more: object) -> Vector:
    return {"desc": desc, "text": text, **more}


def bad(desc: str, data: str | bytes, want_error: str, **more: object) -> Vector:
    shown = {"text": data} if isinstance(data, str) else {"base64": base64.b64encode(data).decode("ascii")}
    return {"desc": desc, **shown, **more, "want_error": want_error}


def content_of(vector: Vector) -> bytes:
    """The bytes that a vector is about."""
    return base64.b64decode(vector["base64"]) if "base64" in vector else vector["text"].encode("utf-8")
