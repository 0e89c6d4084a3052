"""One witness, asked over HTTP: a request at a time, on a connection that is kept."""

from __future__ import annotations

import io
import socket
import threading
import weakref
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from dpledger.errors import VerificationError
from dpledger.ledger.signed import checkpoint
from dpledger.ledger.signed.checkpoint import SignatureLine
from dpledger.ledger.witnessing import submission
from dpledger.ledger.witnessing.cosigning import cosigned_by
from dpledger.ledger.witnessing.deadlines import TimedReader
from dpledger.ledger.witnessing.policy import Watcher
from dpledger.ledger.witnessing.submission import Submission

__all__ = ["Answer", "Asker", "Cosigned", "Saw", "Silent"]

MOST_BYTES = 65_536  # of an answer: 13 signatures of 5 kB


@dataclass(frozen=True, slots=True)
class Cosigned:
    """It cosigned the head: its line."""

    line: SignatureLine


@dataclass(frozen=True, slots=True)
class Saw:
    """It saw a head of so many entries last, which is not what was said."""

    size: int


@dataclass(frozen=True, slots=True)
class Silent:
    """It cosigned nothing. `contradicts`: what it saw of this ledger is not continued by the head that was sent."""

    why: str
    contradicts: bool = False


Answer: TypeAlias = Cosigned | Saw | Silent

_REFUSALS: dict[int, str] = {
    HTTPStatus.FORBIDDEN: (
        "does not know the key that signed the head: have its operator allow it (dpledger witness allow); if that "
        "key delegates, name it as well (dpledger witness ask --key)"
    ),
    HTTPStatus.NOT_FOUND: (
        "does not know this ledger: have its operator allow the ledger's public key (dpledger witness allow)"
    ),
}


class _Answered(HTTPResponse):
    """An answer that comes, whole, in the time that its connection has for one read: beginning again with `100
    Continue`, or sent byte by byte, it takes no longer."""

    def __init__(self, sock: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        seconds = sock.gettimeout()
        assert seconds is not None, "each connection has a timeout"
        self.fp.close()
        self.fp = io.BufferedReader(TimedReader(sock, seconds, has_begun=True))


class Asker:
    """The connection to one witness. Any thread may ask; they take turns."""

    def __init__(self, watcher: Watcher, *, seconds: float) -> None:
        self.watcher = watcher
        self._seconds = seconds
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._closed: weakref.finalize[[], Asker]
        self._is_closed = False

    def ask(self, sent: Submission) -> Answer:
        """What the witness says of a head. Raises nothing."""
        if self.watcher.url is None:
            return Silent("has no address in the policy that this ledger was opened with")
        if not self._lock.acquire(timeout=self._seconds):  # an earlier question, whose caller was interrupted
            return Silent("is still busy with an earlier head")
        try:
            return self._said(self.watcher.url, sent)
        finally:
            self._lock.release()
            if self._is_closed:
                self.close()

    def close(self) -> None:
        """Close the connection; where a thread is using it, once that is done."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _said(self, url: str, sent: Submission) -> Answer:
        is_kept = self._connection is not None
        try:
            return self._judged(*self._posted(url, sent), sent)
        except (OSError, HTTPException, ValueError) as error:  # the last one of strange chunks
            self._drop()
            if is_kept and not isinstance(error, TimeoutError):  # it may have been closed meanwhile: once more, afresh
                return self._said(url, sent)
            return Silent(f"cannot be reached ({_told(error)})")
        except VerificationError as error:
            self._drop()
            return Silent(f"sent something that is not a witness's answer ({error.reason})")

    def _posted(self, url: str, sent: Submission) -> tuple[int, bytes]:
        parts = urlsplit(url)
        if self._connection is None:
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.netloc, timeout=self._seconds)
            self._closed = weakref.finalize(self, self._connection.close)  # also of a ledger that nobody closed
            self._connection.response_class = _Answered
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(self._seconds)  # the answer before left less of it
        path = f"{parts.path.rstrip('/')}/{submission.PATH}"
        self._connection.request("POST", path, sent.body, {"Content-Type": "text/plain; charset=utf-8"})
        response = self._connection.getresponse()
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES or not response.isclosed():
            self._drop()
        return response.status, body

    def _judged(self, status: int, body: bytes, sent: Submission) -> Answer:
        if status == HTTPStatus.OK:
            head, _ = checkpoint.parse_unverified(sent.note)
            for line in submission.lines_of(body, sent.note):
                if cosigned_by((line,), head, (self.watcher.key,)):
                    return Cosigned(line)
            return Silent("did not sign with the key that the policy names")
        if status == HTTPStatus.CONFLICT and body:
            return Saw(submission.read_size(body))
        if status in (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY):
            return Silent("saw other entries of this ledger than this copy holds", contradicts=True)
        return Silent(_REFUSALS.get(status, f"refused (HTTP status {status})"))

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection = None
            self._closed()


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or type(error).__name__
