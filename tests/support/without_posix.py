"""A program of a system that is no POSIX system, as Windows: run it in a process of its own, in an empty folder.

What such a Python lacks is taken away before anything of dpledger is imported."""

from __future__ import annotations

import os
import sys

MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
OF_OS = ("fork", "forkpty", "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "fchmod", "fchown", "chown")
FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK")

if __name__ == "__main__":
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in (*OF_OS, *FLAGS):
        delattr(os, name)

    from collections.abc import Callable
    from functools import partial
    from pathlib import Path

    import pytest
    from typer.testing import CliRunner

    import dpledger as dpl
    from dpledger.cli import app
    from dpledger.ledger.signed.keys import SigningKey, new_ledger_id

    def command(*words: str, status: int = 0) -> str:
        told = CliRunner().invoke(app, words)
        assert told.exit_code == status, (words, told.output)
        return told.output

    def refused(field: str, use: Callable[[], object]) -> None:
        with pytest.raises(dpl.ParameterError, match=f"{field}: expected Linux or macOS.* on {sys.platform}"):
            use()

    gaussian = dpl.Gaussian(sensitivity=1, noise_multiplier=1)
    assert dpl.compose([gaussian] * 2).epsilon(delta=1e-5).lower > 1
    Path("run.json").write_text(
        '{"relation": "add_remove", "entries": [{"count": 3, "mechanism": {"kind": "laplace", "epsilon": "0.1"}}]}'
    )
    assert "0.3" in command("compose", "run.json", "--delta", "0")
    result = dpl.audit_mechanism(dpl.Laplace(sensitivity=1, epsilon=1), 0, 1, trials=2000, seed=1)
    assert result.verdict == "not_refuted"
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(dpl.Count(epsilon="0.5", of="rows"), [1, 2, 3], key="count")
        book.record(result, about=["rows"])
        book.verify()
        dpl.report(book).save("report.html")
        Path("book.pub").write_text(book.public_key.text + "\n")
        book.export("bundle")
    for name in ("report.md", "report.json"):
        command("report", "bundle", "--key", "book.pub", "-o", name)
    command("verify", "bundle", "--key", "book.pub")

    for way in (dpl.Ledger.create, dpl.Ledger.open, dpl.Ledger.look, dpl.Ledger.open_or_create):
        refused("ledger", partial(way, "clinic.ledger"))
    assert "Linux or macOS" in command("init", "clinic.ledger", status=2)
    key = SigningKey.generate(new_ledger_id("name"))
    refused("key file", lambda: key.save("name.key"))
    Path("name.key").write_text(key.to_text())
    refused("key file", lambda: SigningKey.load("name.key"))
    assert SigningKey.from_environment({"DPLEDGER_KEY": key.to_text()}) is not None
    left = {"book.pub", "bundle", "name.key", "report.html", "report.json", "report.md", "run.json"}
    assert set(os.listdir()) == left, "what was refused left something"
    print("done")
