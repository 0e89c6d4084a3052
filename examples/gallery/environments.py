"""A virtual environment with packages in pinned versions, on the Python that they need, thrown away afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SERVED = Path(__file__).with_name("served.py")


class NoEnvironment(Exception):
    """The Python that a case needs is not there, or its packages do not install."""


def here(pinned: str) -> bool:
    """Whether this very environment has the package "name==version" in that version."""
    name, wanted = pinned.split("==")
    try:
        return version(name) == wanted
    except PackageNotFoundError:
        return False


def interpreter(wanted: str) -> str:
    """The path of Python `wanted` ("3.8"): on the PATH, or of pyenv. NoEnvironment where there is none."""
    if wanted == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{wanted}")
    if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:  # a shim of pyenv may fail
        return found
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for one in sorted(versions.glob(f"{wanted}.*/bin/python")):
        return str(one)
    raise NoEnvironment(f"no Python {wanted}: install uv, or put python{wanted} on the PATH")


@contextmanager
def environment(python: str, library: str, others: tuple[str, ...]) -> Iterator[str]:
    """The path of a Python that has `library`: this one where it has that version, else one that is made for the block,
    with `others` as pinned. NoEnvironment where it cannot be made."""
    if here(library):
        yield sys.executable
        return
    with tempfile.TemporaryDirectory(prefix="gallery-") as folder:
        made = f"{folder}/bin/python"
        if uv := shutil.which("uv"):
            steps = [[uv, "venv", "--quiet", "--python", python, folder],
                     [uv, "pip", "install", "--quiet", "--python", made, library, *others]]  # fmt: skip
        else:
            install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefer-binary"]
            steps = [
                [interpreter(python), "-m", "venv", folder],
                [made, *install, library, *others],
            ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True)
            if done.returncode:
                raise NoEnvironment(f"{' '.join(step)}: {done.stderr.strip()[-800:]}")
        yield made


class Served:
    """A case in a process of its own, with its own Python, asked over a pipe."""

    def __init__(self, python: str, case: Path) -> None:
        self._process = subprocess.Popen(
            [python, str(SERVED), str(case)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asking, self._answers = self._process.stdin, self._process.stdout

    def ask(self, **asked: object) -> Any:
        """What the case answers. RuntimeError where its process has ended."""
        self._asking.write(json.dumps(asked) + "\n")
        self._asking.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the case ended with exit status {self._process.wait()}; its error is above")
        return json.loads(line)["outputs"]

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.close()
        self._answers.close()
        self._process.kill()  # it has answered; some libraries take a minute to end
        self._process.wait()
