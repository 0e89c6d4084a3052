"""An audit that is killed goes on where it was, to the verdict and the numbers of one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dpledger as dpl
from dpledger.audit.course import blocks
from dpledger.audit.course.journal import Journal
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.sampling import runs as sampled_runs
from dpledger.errors import ParameterError

pytestmark = pytest.mark.sliced

TRIALS = 600
SETTINGS: dict[str, Any] = {"trials": TRIALS, "seed": 7, "stop_at_violation": False, "progress": False}

COUNT = dpl.Count(epsilon="0.5", of="rows")


def mixed(data: float, rng: np.random.Generator, *, width: int = 1) -> object:
    if rng.random() < 0.01:
        raise ValueError
    return {"a": data + rng.laplace(), "b": "x" if rng.random() < 0.5 else None, "c": rng.normal(size=width)}


def wide(data: float, rng: np.random.Generator) -> object:
    """So many numbers that a score is learned."""
    return mixed(data, rng, width=4)


def batch(data: float, size: int, rng: np.random.Generator) -> Any:
    return data + rng.laplace(size=size)


def priced(data: float, rng: np.random.Generator) -> tuple[float, float]:
    scale = float(rng.choice([1.0, 2.0]))
    return data + scale * rng.laplace(), 1 / scale


STRATA = dpl.ex_post.ExPostClaim(loss=lambda output: output[1])
AUDITS: dict[str, Callable[..., AuditResult]] = {
    "one by one": lambda **more: dpl.audit_mechanism(mixed, 0.0, 1.0, dpl.PureDP(1), floats="bits", **SETTINGS | more),
    "learned": lambda **more: dpl.audit_mechanism(wide, 0.0, 1.0, dpl.PureDP(1), **SETTINGS | more),
    "batched": lambda **more: dpl.audit_mechanism(batch, 0.0, 1.0, dpl.PureDP(1), batched=True, **SETTINGS | more),
    "many": lambda **more: dpl.audit_mechanism(
        batch, 0.0, 1.0, dpl.GDP(1), batched=True, **SETTINGS | {"trials": 70_000} | more
    ),
    "ex post": lambda **more: dpl.audit_mechanism(priced, 0.0, 1.0, STRATA, **SETTINGS | more),
    "a mechanism": lambda **more: dpl.audit_mechanism(
        dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], **SETTINGS | more
    ),
}


def same(one: AuditResult, other: AuditResult) -> bool:
    return one.body() == other.body() and one.evidence == other.evidence


@pytest.mark.parametrize("name", AUDITS)
def test_what_was_cut_off_anywhere_goes_on_to_the_same_end(name: str, tmp_path: Path) -> None:
    audit, place = AUDITS[name], tmp_path / "runs"
    whole = audit()
    assert same(audit(resume=place), whole)
    written = place.read_bytes()
    ends = [0, *np.flatnonzero(np.frombuffer(written, dtype=np.uint8) == ord("\n")) + 1]
    for end in [ends[len(ends) // 2] + 100, ends[-1] - 1]:
        place.write_bytes(written[:end])
        assert same(audit(resume=place), whole), end


def test_what_was_not_read_before_it_was_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of runs whose order is not tested, which are written down as they were counted."""
    monkeypatch.setattr(blocks, "ORDERED", 16)
    made = 0
    deep: list[object] = [0.0, None]
    for _ in range(13):
        deep = [deep, None]

    def deep_once(data: float, rng: np.random.Generator) -> object:
        nonlocal made
        made += 1
        return deep if made == TRIALS else data + rng.laplace()

    given: dict[str, Any] = {"mechanism": deep_once, "left": 0.0, "right": 0.0, "claim": dpl.PureDP(1)}
    first = dpl.audit_mechanism(**given, **SETTINGS, resume=tmp_path / "runs")
    assert any("12 levels" in words for words in first.told)
    again = dpl.audit_mechanism(**given, **SETTINGS, resume=tmp_path / "runs")
    assert any("12 levels" in words for words in again.told)


def test_a_slower_machine_is_no_other_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs take long, fewer of them are tried first."""
    whole = AUDITS["ex post"](resume=tmp_path / "runs")
    monkeypatch.setattr(sampled_runs, "LONGEST_PROBE", 0.0)
    assert same(AUDITS["ex post"](resume=tmp_path / "runs"), whole)


DRIVER = """
import os, signal, sys
import dpledger as dpl
from test_resumed_runs import SETTINGS, mixed

calls = 0

def counted(data, rng):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return mixed(data, rng)

counted.kind = "mixed"
result = dpl.audit_mechanism(counted, 0.0, 1.0, dpl.PureDP(1), resume=sys.argv[1], **SETTINGS)
print(result.verdict, result.epsilon_lower, result.e_value, result.wealth)
"""


def driven(place: Path, dies_at: int) -> subprocess.CompletedProcess[str]:
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", DRIVER, str(place), str(dies_at)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": folders},
    )


@pytest.mark.slow
def test_what_was_killed_twice_goes_on_to_the_same_end(tmp_path: Path) -> None:
    for dies_at in (150, 450):
        assert driven(tmp_path / "runs", dies_at).returncode == -signal.SIGKILL
    assert driven(tmp_path / "runs", -1).stdout == driven(tmp_path / "others", -1).stdout != ""


@pytest.mark.slow
def test_it_goes_on_with_other_jobs_and_its_own_seed_and_more_trials(tmp_path: Path) -> None:
    audit, place = AUDITS["one by one"], tmp_path / "runs"
    whole, cut = audit(), tmp_path / "cut"
    audit(resume=place)
    cut.write_bytes(b"".join(place.read_bytes().splitlines(keepends=True)[:9]))
    cut.chmod(0o600)
    assert same(audit(resume=cut, jobs=2, seed=None), whole)
    more = audit(resume=place, trials=2 * TRIALS, seed=None)
    assert more.trials_left == 2 * TRIALS
    assert more.seed == whole.seed
    assert more.e_value >= whole.e_value
    assert same(audit(resume=place, trials=2 * TRIALS), more)


@pytest.mark.parametrize("first", [False, True])
def test_it_goes_on_whether_or_not_it_ends_at_a_violation(first: bool, tmp_path: Path) -> None:
    def audit(stop: bool, place: Path | None = None) -> AuditResult:
        return dpl.audit_mechanism(
            with_scale(0.5), 0.0, 1.0, dpl.PureDP(1), **SETTINGS | {"stop_at_violation": stop}, resume=place
        )

    place = tmp_path / "runs"
    assert audit(first, place).verdict == "violation"
    for stop in (not first, first):
        assert same(audit(stop, place), audit(stop))


def test_an_audit_out_of_time_goes_on_another_day(tmp_path: Path) -> None:
    first = AUDITS["one by one"](resume=tmp_path / "runs", seconds="0.001")
    assert first.trials_left < TRIALS
    assert AUDITS["one by one"](resume=tmp_path / "runs").trials_left == TRIALS


def with_scale(scale: float) -> Callable[[float, np.random.Generator], float]:
    return lambda data, rng: data + scale * rng.laplace()


@pytest.mark.parametrize(
    ("named", "changes"),
    [
        ("seed", {"seed": 8}),
        ("claim", {"claim": dpl.PureDP(2)}),
        ("left", {"left": 0.5}),
        ("confidence", {"confidence": "0.99"}),
        ("floats", {"floats": "bits"}),
        ("relation", {"relation": "replace_one"}),
        ("mechanism", {"mechanism": mixed}),
        ("the first ones give other outputs", {"mechanism": with_scale(2)}),
    ],
)
def test_a_journal_is_of_one_audit(named: str, changes: dict[str, Any], tmp_path: Path) -> None:
    given: dict[str, Any] = SETTINGS | {"mechanism": with_scale(1), "left": 0.0, "right": 1.0, "claim": dpl.PureDP(1)}
    dpl.audit_mechanism(**given, resume=tmp_path / "runs")
    with pytest.raises(ParameterError, match=named) as caught:
        dpl.audit_mechanism(**given | changes, resume=tmp_path / "runs")
    assert "resume" in str(caught.value)


class Counter:
    """Numbers of its own that begin anew in each process, and that no seed reaches."""

    state = 12_345

    def __call__(self, data: float) -> float:
        self.state = self.state * 6364136223846793005 + 1442695040888963407 & (2**64 - 1)
        return data + float(np.log(((self.state >> 11) + 1) / 2**53))


def test_what_begins_anew_in_each_process_is_told(tmp_path: Path) -> None:
    """The same numbers come again: runs that depend on each other."""
    settings = SETTINGS | {"resume": tmp_path / "runs", "confidence": "0.999999"}
    first = dpl.audit_mechanism(Counter(), 0.0, 1.0, dpl.PureDP(40), **settings)
    assert first.blind is None
    again = dpl.audit_mechanism(Counter(), 0.0, 1.0, dpl.PureDP(40), **settings | {"trials": 4_200})
    assert again.blind is not None
    assert "from one worker, or batch, to the next" in again.blind


# ---- the file -------------------------------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    with Journal.open(place, of={}, seed=1) as journal:
        assert place.stat().st_mode & 0o077 == 0
        journal.append({"a": 1})
        with pytest.raises(ParameterError, match="no other audit"):
            Journal.open(place, of={}, seed=1)
    place.chmod(0o640)
    with pytest.raises(ParameterError, match="chmod 600"):
        Journal.open(place, of={}, seed=1)


def test_where_no_file_can_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "else")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for place in (tmp_path, tmp_path / "nowhere" / "runs", tmp_path / "link", tmp_path / "pipe", 7, "\0"):
        with pytest.raises(ParameterError, match="resume"):
            Journal.open(place, of={}, seed=1)


@pytest.mark.parametrize("text", [b"[]\n", b"{}\n", b"no audit", b'e3b0 {"of": {}, "seed": 1}\n', b"\n"])
def test_what_no_audit_wrote_is_refused_and_left_as_it_is(text: bytes, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    place.write_bytes(text)
    place.chmod(0o600)
    with pytest.raises(ParameterError, match="a file that an audit wrote"):
        Journal.open(place, of={}, seed=1)
    assert place.read_bytes() == text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_what_was_altered_is_never_read(tmp_path: Path, place: int, flip: int) -> None:
    """A changed byte of a record is refused, or the record is the last one and counts as cut off."""
    file = tmp_path / f"{place}-{flip}"
    records = [{"block": number, "text": "ü" * number} for number in range(4)]
    with Journal.open(file, of={}, seed=1) as journal:
        for record in records:
            journal.append(record)
    altered = bytearray(file.read_bytes())
    altered[place % len(altered)] ^= flip
    file.write_bytes(altered)
    try:
        with Journal.open(file, of={}, seed=1) as journal:
            found = list(iter(journal.next, None))
    except ParameterError:
        return
    assert found == records[: len(found)]
    assert len(found) >= 3


def test_threads_of_one_process_do_not_share_a_file(tmp_path: Path) -> None:
    refused = []

    def second() -> None:
        try:
            Journal.open(tmp_path / "runs", of={}, seed=1)
        except ParameterError as error:
            refused.append(error)

    with Journal.open(tmp_path / "runs", of={}, seed=1):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
