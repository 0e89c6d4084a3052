"""A record by somebody who wants the verifier to work for ever: what it costs, and what is said of what was left out.

A thief with the key signs it, so that nothing but the price of its laws holds the verifier up.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import dpledger as dpl
import ledger_golden
from dpledger.accounting.composition import Composition, LaplaceLaw, PoissonSampled, Repeated, Sequence as InSequence
from dpledger.errors import DpledgerError, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed, LedgerOpened, Reserved
from dpledger.ledger.entries.members import Priced
from dpledger.ledger.rules import requested
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying import claims, verification
from dpledger.ledger.verifying.seconds import Seconds
from dpledger.reports import report
from ledger_forger import forged, signed_head

KEY = ledger_golden.KEY
BUDGET = dpl.ApproxDP(epsilon=1000, delta="0.001")


def honest(releases: int = 2) -> tuple[Body, ...]:
    """What stands in a ledger of the golden key with so many releases."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=BUDGET)
    for _ in range(releases):
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)
    opened = next(entry.body for entry in ledger_golden.build().entries() if isinstance(entry.body, LedgerOpened))
    return (opened, *(entry.body for entry in book.entries() if not isinstance(entry.body, LedgerOpened)))


BODIES = honest()


def with_parts(parts: Composition, priced: Priced | None = None) -> tuple[Body, ...]:
    """The same, where the first charge is for `parts`, and every number of it stays."""
    changed: list[Body] = []
    for body in BODIES:
        if isinstance(body, Reserved) and not any(isinstance(one, Reserved) for one in changed):
            other = replace(body, parts=parts, priced=priced)
            changed.append(replace(other, request=requested.request_digest("s", other, other.tail_delta)))
            first = other.charge
        elif isinstance(body, Committed) and body.charge == first:
            changed.append(replace(body, parts=parts))
        else:
            changed.append(body)
    return tuple(changed)


def sampled(count: int) -> Composition:
    """So many distinct sampled laws, each with a profile of its own."""
    return InSequence(tuple(PoissonSampled(LaplaceLaw(Decimal(1000 + i) / 1000), "0.01") for i in range(count)))


def verified(bodies: Sequence[Body], most: float | None, **how: Any) -> verification.Verified:
    return verification.verify(*forged(bodies, KEY), KEY.public, most_seconds=most, **how)


EXPENSIVE = {
    "distinct sampled laws": lambda: with_parts(sampled(300)),
    "the same, from their profile": lambda: with_parts(sampled(300), Priced("0.0001")),
    "distinct laws, from their profile": lambda: with_parts(
        InSequence(tuple(LaplaceLaw(Decimal(100_000 + i) / 1_000_000) for i in range(500))), Priced("0.0001")
    ),
}


@pytest.mark.parametrize("name", EXPENSIVE)
def test_an_entry_that_costs_too_much_is_named_and_the_rest_is_verified(name: str) -> None:
    bodies = EXPENSIVE[name]()
    place = next(index for index, body in enumerate(bodies) if isinstance(body, Reserved))
    began = time.process_time()
    found = verified(bodies, 0.4, jobs=1)
    assert time.process_time() - began < 4  # half of 0.4 for the charge, a quarter for its end; and all the rest
    assert found.mode == "partial"
    assert place in found.unpriced
    later = next(index for index, body in enumerate(bodies) if index > place and isinstance(body, Reserved))
    assert later not in found.unpriced, "one entry takes no more than half of what is left"
    assert found.state.size == len(bodies)
    assert len(found.entries) == len(bodies)


def test_with_time_enough_the_same_record_is_refuted() -> None:
    with pytest.raises(VerificationError, match="charged less than its parts cost"):
        verified(with_parts(sampled(20)), 1000)


def test_an_honest_record_is_verified_in_full_within_its_seconds() -> None:
    found = verified(BODIES, 1000)
    assert (found.mode, found.unpriced) == ("full", ())
    assert verified(BODIES, None).mode == "full"


def test_what_needs_no_price_is_refused_without_one() -> None:
    """A faulty twin of each kind is still found where no price at all is computed."""
    no_time = 1e-9
    assert len(verified(BODIES, no_time).unpriced) == len(BODIES)
    committed = next(body for body in BODIES if isinstance(body, Committed))
    above = replace(committed, levels=tuple(replace(one, amounts={"pure": Decimal(1)}) for one in committed.levels))
    reserved = next(body for body in BODIES if isinstance(body, Reserved))
    wrong = {
        "above what was reserved|other coordinates": [above if body is committed else body for body in BODIES],
        "the charge was used before": [*BODIES, reserved],
        "not the digest": [replace(body, request="0" * 64) if body is reserved else body for body in BODIES],
    }
    for reason, bodies in wrong.items():
        with pytest.raises(VerificationError, match=reason):
            verified(_in_order(bodies), no_time)


def _in_order(bodies: Sequence[Body]) -> list[Body]:
    """With the count of the scope as it goes on."""
    count, placed = 0, list[Body]()
    for body in bodies:
        path = getattr(body, "path", ())
        placed.append(replace(body, path=(replace(path[0], index=count),)) if path else body)  # type: ignore[arg-type]
        count += bool(path)
    return placed


def test_an_entry_too_large_is_refused_before_anything_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(claims, "check_reserved", lambda *what: asked.append(what))
    leaves, _ = forged(BODIES[:2], KEY)
    large = [*leaves, b'{"payload":"' + b"e" * 65_600 + b'"}']
    with pytest.raises(VerificationError, match="at most 65535") as refusal:
        verification.verify(large, signed_head(large, KEY), KEY.public, most_seconds=1)
    assert refusal.value.index == 2
    assert not asked


def test_a_law_nested_to_the_end_is_priced_or_refused_at_once() -> None:
    parts: Composition = LaplaceLaw("0.1")
    for _ in range(13):
        parts = Repeated(parts, times=10**12)
    began = time.process_time()
    for priced in (None, Priced("0.0001")):
        with pytest.raises(VerificationError):
            verified(with_parts(parts, priced), 100)
    assert time.process_time() - began < 5


# ---- the alarm ------------------------------------------------------------------------------------------------------


def busy(seconds: float) -> Callable[[], None]:
    def work() -> None:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    return work


def test_seconds_are_shared_and_come_to_an_end() -> None:
    began = time.process_time()
    seconds = Seconds(0.2)
    done = [seconds.are_enough(busy(10)) for _ in range(6)]
    assert done == [False] * 6
    assert time.process_time() - began < 2
    assert not seconds.are_enough(busy(1))


def test_what_is_quick_is_done() -> None:
    seconds = Seconds(1.0)
    assert all(seconds.are_enough(lambda: None) for _ in range(100))
    assert Seconds(None).are_enough(busy(0.01))


def test_no_handler_and_no_timer_is_left_behind() -> None:
    before = signal.getsignal(signal.SIGPROF)
    seconds = Seconds(0.1)
    seconds.are_enough(busy(1))
    seconds.are_enough(lambda: None)
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_error_of_the_check_passes_through() -> None:
    def refuted() -> None:
        raise VerificationError("found")

    with pytest.raises(VerificationError, match="found"):
        Seconds(1.0).are_enough(refuted)


def test_what_catches_every_exception_is_interrupted_all_the_same() -> None:
    def stubborn() -> None:
        while True:
            with suppress(Exception):
                busy(0.05)()

    assert not Seconds(0.2).are_enough(stubborn)


@pytest.mark.parametrize("most", [0, -1, float("inf"), float("nan"), True, "10"])
def test_seconds_are_a_finite_number_above_0(most: Any) -> None:
    with pytest.raises(ParameterError, match="most_seconds"):
        verified(BODIES, most)


def test_in_a_thread_a_limit_is_refused_by_name() -> None:
    told: list[object] = []

    def asked() -> None:
        try:
            verified(BODIES, 5.0)
        except DpledgerError as error:
            told.append(error)
        told.append(verified(BODIES, None).mode)

    thread = threading.Thread(target=asked)
    thread.start()
    thread.join()
    assert "main thread" in str(told[0])
    assert told[1] == "full"


# ---- what is said of it ---------------------------------------------------------------------------------------------


def test_the_report_says_what_was_not_verified() -> None:
    found = verified(EXPENSIVE["distinct sampled laws"](), 0.4)
    (page, *_) = report(found).model.pages
    answer = next(one for one in page.answers if one.id == "first_page/record")
    assert "verified in part" in answer.text
    assert (answer.status, answer.tone) == ("unknown", "warning")
    assert any(f"{found.unpriced[0]}" in line for line in answer.lines)
    assert "Not verified" in report(found).markdown()
    assert not page.scopes, "and computes none of the prices that the verifier would not"
    assert "verified in part" not in report(verified(BODIES, None)).markdown()


def test_another_key_signs_nothing_here() -> None:
    stranger = SigningKey.generate(KEY.public.name)
    with pytest.raises(VerificationError):
        verification.verify(*forged(BODIES, KEY), stranger.public, most_seconds=1)
