"""A service on loopback: audited inside its quota, at its rate, with refusals, errors and times as outcomes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit.services import Service
from dpledger.errors import ParameterError

pytestmark = pytest.mark.sliced

QUOTA = 1_000
audit_service: Any = dpl.audit_service
SAID: dict[str, Any] = {"quota": QUOTA, "seed": 1, "progress": False, "confidence": "0.999999"}
Answer = Callable[[str, np.random.Generator], float | None]


def honest(table: str, rng: np.random.Generator) -> float:
    return float((7 if table == "without" else 8) + rng.laplace())


def half_noise(table: str, rng: np.random.Generator) -> float:
    return float((7 if table == "without" else 8) + rng.laplace(scale=0.5))


def refuses_her(table: str, rng: np.random.Generator) -> float | None:
    """Status 403, one time in four that she is in the table."""
    return None if table == "with" and rng.random() < 0.25 else float(rng.laplace())


class Served(ThreadingHTTPServer):
    """A server that answers GET /TABLE, counts, and has had enough after its quota."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.answer, self.rng, self.asked = answer, np.random.default_rng(5), list[str]()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        table = self.path.strip("/")
        server.asked.append(table)
        answer = server.answer(table, server.rng)
        status = 429 if len(server.asked) > QUOTA else 403 if answer is None else 200
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[Served, Callable[[str], float]]]:
    with Served(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def ask(table: str) -> float:
            try:
                with urlopen(f"http://127.0.0.1:{server.server_port}/{table}") as told:
                    return float(json.load(told))
            except HTTPError as error:
                error.close()
                raise

        try:
            yield server, ask
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "verdict"), [(honest, "not_refuted"), (half_noise, "violation"), (refuses_her, "violation")]
)
def test_a_service_is_audited_inside_its_quota(answer: Answer, verdict: str) -> None:
    with serving(answer) as (server, ask):
        result = audit_service(ask, "without", "with", dpl.PureDP(1), **SAID)
    assert result.verdict == verdict
    assert result.trials_left + result.trials_right <= len(server.asked) <= QUOTA
    assert server.asked.count("with") == server.asked.count("without")
    if verdict == "not_refuted":
        assert len(server.asked) == QUOTA
        assert result.power is not None
    else:
        assert len(server.asked) < QUOTA


class Refused(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


@pytest.mark.parametrize(("status", "verdict"), [(404, "violation"), (403, "not_refuted")])
def test_refusals_are_told_apart_by_their_numbers(status: int, verdict: str) -> None:
    rng = np.random.default_rng(3)

    def ask(table: str) -> float:
        if rng.random() < 0.5:
            raise Refused(403 if table == "with" else status)
        return float(rng.laplace())

    assert audit_service(ask, "without", "with", dpl.PureDP(1), **SAID).verdict == verdict


def test_what_a_service_refuses_is_named() -> None:
    rng = np.random.default_rng(3)

    def ask(table: str) -> float:
        if rng.random() < 0.1:
            raise Refused(429)
        return honest(table, rng)

    limited = audit_service(ask, "without", "with", dpl.PureDP(1), **SAID)
    assert limited.verdict == "not_refuted"
    assert "of 1,000 calls raised" in limited.told[-2]
    assert "Refused 429 in" in limited.told[-2]
    assert "rate=" in limited.told[-1]
    free = audit_service(lambda table: honest(table, rng), "without", "with", dpl.PureDP(1), **SAID)
    assert not any("raised" in words for words in free.told)


def test_the_sides_are_asked_in_an_order_that_coins_decide() -> None:
    with serving(honest) as (server, ask):
        audit_service(ask, "without", "with", dpl.PureDP(1), **SAID)
    pairs = list(zip(server.asked[::2], server.asked[1::2], strict=True))
    assert all(set(pair) == {"with", "without"} for pair in pairs)
    firsts = sum(first == "with" for first, _ in pairs)
    assert 170 < firsts < 330  # P(|Bin(500, 1/2) - 250| >= 80) < 10^-12


def test_a_service_whose_answers_depend_on_each_other_makes_the_audit_blind() -> None:
    kept: dict[str, list[float]] = {"with": [], "without": []}
    rng = np.random.default_rng(3)

    def repeats(table: str) -> float:  # each answer twenty times
        if not kept[table]:
            kept[table] = [honest(table, rng)] * 20
        return kept[table].pop()

    assert audit_service(repeats, "without", "with", dpl.PureDP(1), **SAID).blind is not None


def test_a_service_that_keeps_its_answers_is_told_of() -> None:
    kept = {"with": 1.5, "without": 0.25}
    told = audit_service(kept.__getitem__, "without", "with", dpl.PureDP(1), **SAID).told
    assert any("caches answers" in words for words in told)
    rng = np.random.default_rng(3)
    noisy = audit_service(lambda table: honest(table, rng), "without", "with", dpl.PureDP(1), **SAID)
    assert not any("caches answers" in words for words in noisy.told)


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("claim", ["0.1", "1.02"])
def test_a_service_that_answers_in_one_array_is_audited_as_one_that_answers_in_new_ones(
    claim: str, times: bool
) -> None:
    buffer = np.zeros(2)

    def asking(copied: bool) -> Any:
        rng = np.random.default_rng(3)

        def ask(table: float) -> Any:
            buffer[:] = table + rng.laplace()
            return buffer.copy() if copied else buffer

        return ask

    once, new = (audit_service(asking(copied), 0.0, 1.0, dpl.PureDP(claim), **SAID, times=times)
                 for copied in (False, True))  # fmt: skip
    assert once.verdict == new.verdict == ("violation" if claim == "0.1" else "not_refuted")
    if not times:  # how long calls take, and how alike, is for the machine to say
        assert once.blind is new.blind is None
        assert once.e_value == new.e_value


def test_an_answer_that_cannot_be_copied_is_read_before_the_next_call() -> None:
    class Answer(list[float]):
        def __deepcopy__(self, memo: object) -> Any:
            raise TypeError

    answer = Answer([0.0])

    def ask(number: object) -> Any:
        answer[0] += 1
        return answer

    service = Service(ask, (0, 1), seed=1, quota=8)
    both = service(0, 4, lambda outcomes: Kept(outcomes))  # type: ignore[arg-type]
    assert sorted(number for side in both for number in side.numbers) == [1, 2, 3, 4, 5, 6, 7, 8]  # type: ignore[attr-defined]


class Kept:
    """The numbers of outcomes, to be added up."""

    def __init__(self, outcomes: Any) -> None:
        self.numbers = outcomes.column("output").tolist()

    def __add__(self, other: Kept) -> Kept:
        self.numbers += other.numbers
        return self


def test_arrays_before_an_error_are_no_reason_to_stop() -> None:
    rng = np.random.default_rng(3)

    def ask(table: str) -> Any:
        if rng.random() < 0.5:
            raise ValueError
        return rng.normal(size=3)

    assert audit_service(ask, "without", "with", dpl.PureDP(1), **SAID).verdict == "not_refuted"


class Clock:
    """A clock that goes on when somebody sleeps, or when a call takes time."""

    def __init__(self) -> None:
        self.now, self.begun = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def call(self, took: object) -> int:
        self.begun.append(self.now)
        self.now += float(str(took))
        return 0


def asked(clock: Clock, pairs: int, **settings: Any) -> list[Any]:
    service = Service(clock.call, (0.125, 0.5), seed=1, clock=lambda: clock.now, sleep=clock.sleep, **settings)
    return list(service(0, pairs, lambda outcomes: outcomes))  # type: ignore[arg-type]


def test_the_rate_is_kept_also_where_a_call_takes_long() -> None:
    clock = Clock()
    asked(clock, 20, quota=40, pause=0.25)
    assert len(clock.begun) == 40
    assert np.diff(clock.begun).min() >= 0.25
    assert clock.begun[-1] <= 39 * 0.5


def test_times_are_outcomes_where_that_is_asked_for() -> None:
    left, right = asked(Clock(), 20, quota=40, times=True)
    (path,) = (path for path in left.numbers if "seconds" in path)
    assert left.column(path).tolist() == [0.125] * 20
    assert right.column(path).tolist() == [0.5] * 20
    plain, _ = asked(Clock(), 20, quota=40)
    assert not any("seconds" in path for path in plain.numbers)


def test_no_call_is_ever_made_beyond_the_quota() -> None:
    clock = Clock()
    with pytest.raises(RuntimeError, match="quota"):
        asked(clock, 21, quota=40)
    assert len(clock.begun) == 40


def test_a_service_that_is_not_there_is_told_after_64_calls() -> None:
    made = []

    def unreachable(table: str) -> float:
        made.append(table)
        raise ConnectionRefusedError(111, "refused")

    with pytest.raises(ParameterError, match="ConnectionRefusedError") as told:
        audit_service(unreachable, "without", "with", dpl.PureDP(1), **SAID)
    assert len(made) == 64
    assert isinstance(told.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize(
    "wrong", [{"quota": 199}, {"rate": 0}, {"rate": "inf"}, {"each_seconds": 0}, {"confidence": 1}, {"times": 1}]
)
def test_what_is_not_right_is_refused_before_a_call(wrong: dict[str, Any]) -> None:
    made: list[object] = []
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        audit_service(made.append, 0, 1, dpl.PureDP(1), **(SAID | wrong))
    assert made == []
