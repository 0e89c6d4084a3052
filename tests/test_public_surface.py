"""Every public function and constructor, every parameter, with each of sixty values that are hardly ever right.

What comes is a valid object, or an error of ours that names the parameter, in one short line that shows nothing of what
is in a container; at once, and without a warning. The table is held against all public names: a new one without an
entry fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bad_values import SECRET, bad_values
from dpledger.errors import DpledgerError, InputError
from dpledger.schema import plain
from public_names import public
from public_surface import ANSWERS, DOORS, WORDS, Door, doors_wanted, parameters

pytestmark = pytest.mark.sliced

SECONDS = 10.0  # of the processor, for one call


class TookTooLong(BaseException):
    """No part of the program catches this."""


@contextmanager
def at_once(seconds: float = SECONDS) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fault(door: Door, parameter: str, value: object) -> str | None:
    """What is wrong with the answer to one bad value; None: nothing."""
    try:
        with at_once():
            made = door.call(**{**door.good, parameter: value})
    except DpledgerError as error:
        secret = "no secret" if parameter == door.numbers else str(SECRET)
        return fault_of_message(error, door.names.get(parameter, parameter), secret, door.longest)
    except TookTooLong:
        return f"took more than {SECONDS} s"
    except Exception as error:  # the very thing that is looked for
        return f"{type(error).__name__} is none of ours"
    return fault_of_object(made)


def fault_of_message(error: DpledgerError, name: str, secret: str, longest: int) -> str | None:
    message = str(error)
    if len(message) > longest:
        return f"a message of {len(message)} characters: {message[:400]}"
    if not message.isprintable():
        return f"a message of more than one line, or with control characters: {message!r}"
    if secret in message:
        return f"the message shows what is in a container: {message}"
    if isinstance(error, InputError) and not any(word in message for word in name.split("|")):
        return f"the message does not name {name}: {message}"
    return None


def fault_of_object(made: object) -> str | None:
    """A record that was made is a value: it has a text and a hash, and can be written."""
    if not hasattr(type(made), "__dataclass_fields__") or not hasattr(made, "kind"):
        return None
    hash(made), repr(made)
    plain(made)
    return None


def test_the_table_holds_every_public_name_and_no_other() -> None:
    assert set(DOORS) | set(ANSWERS) == doors_wanted(), "a Door in tests/support/public_surface.py each"
    assert not set(DOORS) & set(ANSWERS)
    assert set(WORDS) <= set(public())


ABSENT = {
    "Ledger.revoke_key",
    "Document.read", "Ledger.accept_rollback", "Ledger.create", "Ledger.open", "Ledger.open_or_create", "Ledger.look",
    "Ledger.backup", "results.AuditResult.plot", "results.TrainingAudit.plot", "Ledger.declare_file",
}  # fmt: skip
UNKNOWN = {"Scope.note_lost"}


@pytest.mark.parametrize("name", sorted(DOORS.keys() - ABSENT - UNKNOWN))
def test_a_call_that_is_right_is_answered(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is refused below would be refused for another reason."""
    monkeypatch.chdir(tmp_path)
    door = DOORS[name]
    assert set(door.left) <= parameters(name)
    door.call(**door.good)


@pytest.mark.parametrize("name", sorted(ABSENT | UNKNOWN))
def test_a_call_about_what_is_not_there_says_so(name: str) -> None:
    with pytest.raises(InputError, match=r"nowhere|ledger file|open in scope"):
        DOORS[name].call(**DOORS[name].good)


@pytest.mark.parametrize("name", DOORS)
def test_what_is_not_right_is_refused_by_name_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    door, faults = DOORS[name], []
    for parameter in sorted(parameters(name) - set(door.left)):
        for label, make in bad_values().items():
            found = fault(door, parameter, make())
            if found is not None:
                faults.append(f"{name}({parameter}={label}): {found}")
    assert faults == []


@pytest.mark.parametrize("jobs", [0, -2, 4097, "2", None, 2.5, True])
def test_a_number_of_processes_that_cannot_be_is_refused(jobs: object) -> None:
    with pytest.raises(InputError, match=r"^jobs: "):
        DOORS["audit_mechanism"].call(**{**DOORS["audit_mechanism"].good, "jobs": jobs})
