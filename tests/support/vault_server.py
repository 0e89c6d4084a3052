"""A stub that speaks what signing needs of HashiCorp Vault's protocol: the Transit engine's keys and signatures.

`GET /v1/transit/keys/NAME` tells the public keys by version, `POST /v1/transit/sign/NAME` signs what stands in `input`,
in base64; both want the token in `X-Vault-Token`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TOKEN = "hvs.stub"


@dataclass
class Vault:
    """What a running stub holds. `wrong`: sign with another key; `signed`: how often it signed."""

    address: str
    key: Ed25519PrivateKey
    kind: str = "ed25519"
    before: list[Ed25519PrivateKey] = field(default_factory=list)
    wrong: bool = False
    sealed: bool = False
    signed: list[bytes] = field(default_factory=list)

    def rotate(self) -> None:
        """Another version of the key is the newest."""
        self.before.append(self.key)
        self.key = Ed25519PrivateKey.generate()

    def answer(self, path: str, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The data of an answer; None where there is nothing."""
        if self.sealed:
            return None
        versions = [*self.before, self.key]
        if path == "/v1/transit/keys/ledger":
            shown = [base64.b64encode(key.public_key().public_bytes_raw()).decode() for key in versions]
            keys = {str(n): {"public_key": key, "name": self.kind} for n, key in enumerate(shown, start=1)}
            return {"type": self.kind, "keys": keys}
        if path.startswith("/v1/transit/sign/ledger"):
            message = base64.b64decode(asked["input"])
            self.signed.append(message)
            version = asked.get("key_version") or len(versions)
            key = Ed25519PrivateKey.generate() if self.wrong else versions[version - 1]
            return {"signature": f"vault:v{version}:" + base64.b64encode(key.sign(message)).decode()}
        return None


@contextmanager
def vault() -> Iterator[Vault]:
    """A stub on a free port of the loopback, until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        do_PUT = do_POST

        def reply(self, asked: dict[str, Any]) -> None:
            allowed = self.headers.get("X-Vault-Token") == TOKEN
            found = held.answer(self.path, asked) if allowed else None
            status = 200 if found is not None else 404 if allowed else 403
            body = json.dumps({"data": found} if found is not None else {"errors": ["no"]}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held = Vault(f"http://127.0.0.1:{server.server_port}", Ed25519PrivateKey.generate())
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
