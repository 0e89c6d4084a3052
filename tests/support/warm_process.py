"""Programs in processes of their own, without their start: a process that has loaded the library forks one for each.

A program finds an empty `__main__`, the folder and the arguments that it is given, and ends as any program does. That
modules are loaded already is all that it could see of the others.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run"]

FORKING = """
import json, os, signal, sys, types
import dpledger.accounting.profile, dpledger.audit, dpledger.cli, dpledger.ledger.ledger, dpledger.mechanisms.numeric
import dpledger.ledger.verifying.verification, dpledger.ledger.verifying.sources, dpledger.reports
import joblib, matplotlib.pyplot, pandas, scipy.optimize, scipy.stats, sklearn.linear_model, typer.testing
for name in dpledger.__all__:
    space = getattr(dpledger, name)
    for inner in space.__all__ if isinstance(space, types.ModuleType) else ():
        getattr(space, inner)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
signal.alarm(asked["seconds"])
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(os.open(asked["out"], os.O_WRONLY), 1)
os.dup2(os.open(asked["err"], os.O_WRONLY), 2)
os.chdir(asked["folder"])
sys.argv, sys.path[0] = asked["words"], asked["beside"]
main = sys.modules["__main__"] = types.ModuleType("__main__")
main.__file__ = asked["words"][0]
exec(compile(asked["source"], asked["words"][0], "exec"), vars(main))
"""


@functools.cache
def _forking(warnings: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": warnings}
    words = [sys.executable, "-c", FORKING]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(process.communicate)
    return process


def run(
    source: str,
    words: Sequence[str] = ("-c",),
    *,
    folder: Path | None = None,
    beside: str = "",
    warnings: str = "",
    seconds: int = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a program as `python -c source` would: `words` are its arguments, `folder` is where it runs, `beside` where
    it finds other modules, `warnings` as of PYTHONWARNINGS. It is killed after so many seconds."""
    process = _forking(warnings)
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = {
            "source": source,
            "words": list(words),
            "folder": str(folder or Path.cwd()),
            "beside": beside,
            "seconds": seconds,
            "out": out.name,
            "err": err.name,
        }
        print(json.dumps(asked), file=process.stdin, flush=True)
        status = int(process.stdout.readline())
        return subprocess.CompletedProcess(list(words), status, out.read(), err.read())
