"""A witness over HTTP (c2sp.org/tlog-witness): `POST /add-checkpoint`, and `GET /<SHA-256 of the origin>/checkpoint`.

It listens on loopback; TLS, and who may ask from elsewhere, are for a proxy before it. A request is bounded in bytes
and in time, from its first byte to its last, and so is the number of connections at once: where all are taken, each is
closed after its answer. Nothing of what is asked is logged.
"""

from __future__ import annotations

import io
import re
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dpledger.errors import ParameterError, StoreFailure, VerificationError
from dpledger.ledger.witnessing.cosigning import CosigningKey
from dpledger.ledger.witnessing.deadlines import TimedReader
from dpledger.ledger.witnessing.submission import MAX_BYTES, PATH, SIZE_TYPE, Submission
from dpledger.ledger.witnessing.witness_file import WitnessFile

__all__ = ["WitnessServer"]

SECONDS = 10.0  # for a request, and of silence between two
AT_ONCE = 64  # connections; others are closed unheard
_NOTE_TYPE = "text/plain; charset=utf-8"
_CHECKPOINT = re.compile(r"/([0-9a-f]{64})/checkpoint")
_LENGTH = re.compile(r"[0-9]{1,9}")


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


class WitnessServer(ThreadingHTTPServer):
    """A witness that listens: `serve_until_stopped`, or `serve_forever` in a thread until `shutdown`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = AT_ONCE  # that wait to be heard; beyond, the system resets them

    def __init__(self, kept: WitnessFile, signer: CosigningKey, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """`port` 0: one that is free. ParameterError where nobody can listen there, and for no host, which would be
        every network of the machine."""
        if not host:
            raise ParameterError("host", host, "an address of this machine, like 127.0.0.1")
        self.kept = kept
        self.signer = signer
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, TypeError, ValueError) as error:  # the last two of what can be no host
            told = getattr(error, "strerror", None) or str(error)
            raise ParameterError("port", f"{host}:{port}", f"an address to listen on ({told})") from None

    @property
    def url(self) -> str:
        """Where it listens, as the address of a policy."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"

    def serve_until_stopped(self, ready: Callable[[], None]) -> None:
        """Serve in this thread, the main one, until Ctrl-C or SIGTERM, as managers of services send it; also where both
        were ignored, as of what a script starts in the background. `ready` is called once it can be stopped so."""
        before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with suppress(KeyboardInterrupt):
                ready()
                self.serve_forever()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is a place."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def is_full(self) -> bool:
        """Whether no place is left."""
        if self._places.acquire(blocking=False):
            self._places.release()
            return False
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever went away in the middle, or was too slow, is no error of ours; nothing is written of it."""


class _Whole(io.BytesIO):
    """An answer, which goes out whole when it is flushed: in so much time, however slowly it is taken."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection

    def flush(self) -> None:
        answer = self.getvalue()
        self.seek(0)
        self.truncate()
        if answer:
            self._connection.settimeout(SECONDS)
            self._connection.sendall(answer)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: WitnessServer
    protocol_version = "HTTP/1.1"
    server_version = "dpledger-witness"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rfile.close()
        self.wfile.close()
        self._timed = TimedReader(self.connection, SECONDS)
        self.rfile = io.BufferedReader(self._timed)
        self.wfile = _Whole(self.connection)

    def handle_one_request(self) -> None:
        """One, from its first byte on in so much time."""
        self._timed.begin()
        super().handle_one_request()

    def do_POST(self) -> None:
        """A head to be cosigned."""
        body = self._body()
        if body is None:
            return
        if self.path != f"/{PATH}":
            self._answer(HTTPStatus.NOT_FOUND)
            return
        try:
            submission = Submission.parse(body)
        except VerificationError:
            self._answer(HTTPStatus.BAD_REQUEST)
            return
        try:
            said = self.server.kept.add(submission, self.server.signer)
        except StoreFailure:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        kind = SIZE_TYPE if said.status == 409 else _NOTE_TYPE
        self._answer(HTTPStatus(said.status), said.body, kind)

    def do_GET(self) -> None:
        """The newest head of a ledger."""
        found = _CHECKPOINT.fullmatch(self.path)
        try:
            note = None if found is None else self.server.kept.newest(found[1])
        except StoreFailure:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        if note is None:
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            self._answer(HTTPStatus.OK, note)

    def _body(self) -> bytes | None:
        """What was sent, whole; None once it was refused: without a length, too long, too slow, cut off."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") is not None or not _LENGTH.fullmatch(length):
            self.close_connection = True
            self._answer(HTTPStatus.LENGTH_REQUIRED)
            return None
        if int(length) > MAX_BYTES:
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        body = b""
        with suppress(TimeoutError):
            body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
            return None
        return body

    def _answer(self, status: HTTPStatus, body: bytes = b"", kind: str = _NOTE_TYPE) -> None:
        self.close_connection = self.close_connection or self.server.is_full()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
