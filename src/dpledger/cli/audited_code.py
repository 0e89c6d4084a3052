"""The code that somebody at the command line named, and the pair of datasets that it is audited on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from traceback import extract_tb, format_exception_only
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee
    from dpledger.audit import ExPostClaim

__all__ = ["AuditedPair", "causes_shown", "current_folder_first", "imported", "subject_of"]

MOST_NAMED = 3  # names, to somebody who named none


@contextmanager
def current_folder_first() -> Iterator[None]:
    """Modules of the current folder are found, and found first, as `python -m` does it."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def causes_shown() -> Iterator[None]:
    """What the audited code itself raised, and where, is shown with the error: to whoever runs it, on data of their
    own choice, and nowhere else."""
    try:
        yield
    except ParameterError as error:
        if error.__cause__ is not None:
            *_, frame = extract_tb(error.__cause__.__traceback__) or (None,)
            where = "" if frame is None else f" (line {frame.lineno} of {Path(frame.filename).name})"
            error.add_note(f"cause: {''.join(format_exception_only(error.__cause__)).strip()}{where}")
        raise


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """What is audited, on which pair of neighbours; `claim` None: the mechanism's own."""

    mechanism: Any
    left: object
    right: object
    claim: Guarantee | ExPostClaim | None = None
    batched: bool = False


NAMES = "the names in dpledger.audit.zoo.ZOO, like zoo:laplace_half_noise"


def subject_of(target: str, left: str | None, right: str | None) -> AuditedPair:
    """What `module:name`, or `zoo:NAME`, names. ParameterError that says what to write instead."""
    module, _, name = target.partition(":")
    if module == "zoo":
        from dpledger.audit.zoo import ZOO, case

        if name not in ZOO:
            near = ", ".join(f"zoo:{one}" for one in _near(name, ZOO))
            raise ParameterError("target", target, f"a case, like {near}" if near else f"a case, one of {NAMES}")
        shown = case(name)
        return AuditedPair(shown.mechanism, shown.left, shown.right, shown.claim, shown.batched)
    if left is None or right is None:
        raise ParameterError("left, right", "nothing", "two neighbouring datasets as JSON, like --left 0 --right 1")
    return AuditedPair(imported("target", target), _dataset("left", left), _dataset("right", right))


def imported(field: str, target: str) -> Any:
    """What the person at the command line named. Never called with a name found in data."""
    module, _, name = target.partition(":")
    if not module or not name or module.endswith(".py") or re.search(r"[/\\]", module):
        raise ParameterError(field, repr(target), _instead(module, name))
    try:
        found = import_module(module)
    except Exception as error:  # whatever the module does as it is loaded
        reason = f"{type(error).__name__}: {error}"
        expected = f"module:name, of a module that is installed or lies in the current folder ({reason})"
        raise ParameterError(field, target, expected) from None
    try:
        return getattr(found, name)
    except Exception:  # a module may answer for its names itself
        near = ", ".join(f"{module}:{one}" for one in _near(name, _audited(found)))
        expected = f"a name that {module} has{f', like {near}' if near else ''}"
        raise ParameterError(field, target, expected) from None


def _audited(module: ModuleType) -> Iterator[str]:
    """Names of what may be audited: no module that it imported, nothing that is not called and releases nothing."""
    for name, value in vars(module).items():
        if name[0] != "_" and not isinstance(value, ModuleType) and (callable(value) or hasattr(value, "release")):
            yield name


def _instead(module: str, name: str) -> str:
    """What to write for somebody who named a file, or left something out."""
    if not module.endswith(".py"):
        return "module:name, like job:release for the function `release` in job.py of the current folder"
    *folders, file = re.split(r"[/\\]", module.removesuffix(".py"))
    inside = "" if set(folders) <= {"", "."} else f", in the folder {'/'.join(folders) or '/'}"
    return f"module:name, without .py: {file}:{name or 'NAME'}{inside}"


def _near(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, known, MOST_NAMED, cutoff=0.5)


def _dataset(field: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise ParameterError(field, text, "JSON, like 0 or [1, 2, 3]") from None
