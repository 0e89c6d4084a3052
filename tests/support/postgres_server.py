"""A PostgreSQL server of the tests' own, on loopback, from Debian's package, as durable as any."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

__all__ = ["Server", "programs"]

PROGRAMS = Path("/usr/lib/postgresql")
PATIENCE_SECONDS = 30.0


def programs() -> Path | None:
    """The folder of the newest server's programs; None where none is installed."""
    found = sorted(PROGRAMS.glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return found[-1] if found else None


class Server:
    """A server that is running until `close`."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None, "apt-get install postgresql"
        self._programs = found
        self._folder = Path(tempfile.mkdtemp(prefix="dpl-pg-"))
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(self._folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._schemas = 0
        self._run("initdb", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres")
        self.start()

    def _run(self, program: str, *said: str) -> None:
        command = [*self._user, str(self._programs / program), "-D", str(self._folder / "data"), *said]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, timeout=60)

    def start(self) -> None:
        settings = f"-c listen_addresses=127.0.0.1 -c port={self._port} -c unix_socket_directories={self._folder}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", settings, "start")
            except subprocess.CalledProcessError:  # processes of a server that was killed see it after a moment
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.1)

    def kill(self, *, every: bool = False) -> None:
        """As the machine would: no process of it ends what it was at. Of the first process alone, the others see it
        after a moment; `every`: all at once."""
        first = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        others = Path(f"/proc/{first}/task/{first}/children").read_text().split() if every else []
        for process in (first, *map(int, others)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def address(self, schema: str | None = None) -> str:
        """Of an empty schema, or of one that is there."""
        base = f"postgresql://postgres@127.0.0.1:{self._port}/postgres?connect_timeout=5"
        if schema is None:
            self._schemas += 1
            schema = f"ledger_{self._schemas}"
            with psycopg.connect(base, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA {schema}")
        return f"{base}&options=-csearch_path%3D{schema}"

    def close(self) -> None:
        try:
            self._run("pg_ctl", "-m", "immediate", "stop")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
