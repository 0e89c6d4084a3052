"""Runs that happen elsewhere: the same gate as a release, somebody's word beside every charge, and nothing that comes
back on that word alone."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence as Listed
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dpledger.accounting import filters, rules
from dpledger.accounting.composition import (
    Composition,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.documents import Document, DocumentLine
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PrivacyCurve, PrivacyFailure, PureDP
from dpledger.accounting.planning.claiming import promise
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    ChargeInProgress,
    ClaimTooSmall,
    ContractViolation,
    Halted,
    KeyReused,
    ParameterError,
    PolicyError,
    RelationError,
    ScopeBusy,
    ScopeError,
    VerificationError,
)
from dpledger.ledger.charging.declared_runs import DeclaredRun
from dpledger.ledger.entries.bodies import Body, Committed, Refused, Reserved
from dpledger.ledger.entries.entry import format_entry
from dpledger.ledger.entries.members import Attestation
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import requested
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import bundle, verification
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Relation, Unit
from forking import ignores_fork_warnings, in_child
from ledger_forger import forged
from ledger_mechanisms import Once, laplace, stream, training
from threads import together

pytestmark = pytest.mark.sliced

NAME = new_ledger_id("clinic")
KEY, RECOVERY = SigningKey.generate(NAME), SigningKey.generate(NAME)
ALREADY = r"'run-1' was used in scope '.+' for a run that is charged already.* load what"
WORD: dict[str, Any] = {"by": "A. Smith", "reason": "the study of 2025", "relation": "add_remove"}
BUDGETS: dict[str, Guarantee | Filter] = {
    "pure": PureDP(5),
    "either": ApproxDP(5, "0.000001"),
    "zcdp": ZCDP(2),
    "rdp": RDP((2, 8), (1, 4)),
    "gdp": GDP(2),
    "advanced": filters.advanced(5, "0.000001"),
}
PARTS: dict[str, Composition] = {
    "a law": LaplaceLaw("0.25"),
    "a guarantee": PureDP("0.125"),
    "a count of a law": Repeated(LaplaceLaw("0.0625"), times=3),
    "noise": GaussianLaw(9),
    "a sequence": Sequence((LaplaceLaw("0.125"), Repeated(GaussianLaw(30), times=4))),
}
RELATIONS = tuple(Relation)


def begun() -> Ledger:
    return Ledger.begin(MemoryStore(), KEY, RECOVERY.public)


def opened(budget: Guarantee | Filter = BUDGETS["either"], relation: str = "add_remove", **rest: Any) -> Scope:
    return begun().scope("s", unit="patient", relation=relation, budget=budget, **rest)


def entered(scope: Scope) -> Callable[..., DeclaredRun]:
    """Of a run that is held, what asks the scope for it."""
    return lambda *parts, **said: scope.charging(*parts, **said).__enter__()


@pytest.fixture
def scope() -> Scope:
    return opened()


def book_of(scope: Scope) -> Ledger:
    book = scope._ledger
    assert isinstance(book, Ledger)
    return book


def kinds(scope: Scope) -> Listed[str]:
    """What was appended after the scope was opened."""
    return [entry.body.kind for entry in book_of(scope).entries()][2:]


def verified(scope: Scope) -> verification.Verified:
    return book_of(scope).verify(key=KEY.public)


# ---- the gate of releases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_run_elsewhere_is_charged_as_a_release_of_the_same_parts(budget: str, parts: str) -> None:
    """Also refused as it is, where no theorem prices it in the budget, or it does not fit."""
    here, there = opened(BUDGETS[budget]), opened(BUDGETS[budget])
    tree = PARTS[parts]
    mechanism = Once(claimed=promise(tree, Relation.ADD_REMOVE, Decimal("0.000001")), made_of=tree)
    try:
        here.release(mechanism, 7)
    except Exception as error:
        with pytest.raises(type(error)):
            there.charge(tree, **WORD)
        assert kinds(there) == kinds(here)
    else:
        there.charge(tree, **WORD)
        assert kinds(there) == ["reserved", "committed"]
    assert there.account().sums == here.account().sums
    verified(there)


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_is_priced_under_the_relation_of_the_scope(relation: Relation) -> None:
    scope, word = opened(BUDGETS["either"], relation.value), {**WORD, "relation": relation}
    scope.charge(LaplaceLaw("0.5"), **word)
    with scope.charging(LaplaceLaw("0.5"), **word):
        pass
    assert scope.account().sums["pure"] == (Decimal(1), 0)
    verified(scope)


def test_a_refusal_is_that_of_a_release_and_names_whose_word_it_was() -> None:
    here, there = opened(PureDP(1)), opened(PureDP(1))
    for scope in (here, there):
        scope.release(laplace("0.5"), 7)
    with pytest.raises(BudgetRefused) as release:
        here.release(laplace("0.75"), 7)
    with pytest.raises(BudgetRefused, match="no promise of this scope covers it") as elsewhere:
        there.charge(LaplaceLaw("0.75"), key="k", **WORD)
    for numbers in ("asked", "spent", "left"):
        assert getattr(elsewhere.value, numbers) == getattr(release.value, numbers)
    (refusal,) = there.account().refusals
    assert refusal.attested == Attestation(**WORD)
    with pytest.raises(BudgetRefused):  # told again, and recorded once
        there.charge(LaplaceLaw("0.75"), key="k", **WORD)
    assert kinds(there)[-1:] == ["refused"]
    there.charge(LaplaceLaw("0.25"), key="k", **WORD)  # the key stayed free
    verified(there)


def test_every_scope_above_is_charged_too() -> None:
    book = begun()
    book.scope("region", unit="patient", relation="add_remove", budget=PureDP(1))
    ward = book.scope("ward", unit="patient", relation="add_remove", budget=PureDP(9), parents=["region"])
    ward.charge(PureDP("0.75"), **WORD)
    assert [one.attested for one in book.scope("region").releases()] == [Attestation(**WORD)]
    with pytest.raises(BudgetRefused, match="scope 'region'"):
        ward.charge(PureDP("0.5"), **WORD)
    book.verify(key=KEY.public)


def test_an_exclusive_interaction_overlaps_no_run_elsewhere() -> None:
    """How a run elsewhere answers is not seen: it counts as a stream of queries."""
    scope = opened(ZCDP(2, "0.001"))
    exclusive = ZCDP("0.01", "0.0001")
    with scope.charging(PureDP("0.1"), **WORD), pytest.raises(ScopeBusy):
        scope.charge(exclusive, **WORD)
    with scope.charging(exclusive, **WORD):
        for refused in (scope.charge, entered(scope)):
            with pytest.raises(ScopeBusy):
                refused(PureDP("0.1"), **WORD)
    scope.charge(exclusive, **WORD)
    verified(scope)


def test_nothing_begins_in_a_closed_scope(scope: Scope) -> None:
    scope.end("over")
    with pytest.raises(ScopeError, match="closed"):
        scope.charge(PureDP("0.1"), **WORD)


# ---- what may be said -----------------------------------------------------------------------------------------------


def test_parts_are_said_as_compose_takes_them(scope: Scope) -> None:
    said: list[Any] = [
        (LaplaceLaw("0.1"), 3),
        [LaplaceLaw("0.1"), (GaussianLaw(40), 2)],
        {LaplaceLaw("0.1"): 2},
        Laplace(epsilon="0.1", sensitivity=1),
        Document(relation=Relation.ADD_REMOVE, entries=(DocumentLine(LaplaceLaw("0.1"), count=2),)),
    ]
    for parts in said:
        scope.charge(parts, **WORD)
    recorded = [one.parts for one in scope.releases()]
    assert recorded[0] == Repeated(LaplaceLaw("0.1"), times=3)
    assert recorded[1] == Sequence((LaplaceLaw("0.1"), Repeated(GaussianLaw(40), times=2)))
    assert recorded[3] == LaplaceLaw("0.1")
    verified(scope)


def test_mechanisms_are_held_to_the_unit_and_the_relation_of_the_scope() -> None:
    scope = begun().scope("s", unit=Unit("patient", 3), relation="add_remove", budget=PureDP(5))
    other = Laplace(epsilon="0.1", sensitivity=1, unit=Unit("visit"))
    with pytest.raises(RelationError):
        scope.charge([other], **WORD)
    with pytest.raises(RelationError):
        scope.charge(Document(relation=Relation.REPLACE_ONE, entries=(DocumentLine(LaplaceLaw("0.1")),)), **WORD)
    assert kinds(scope) == []


def test_bounds_of_one_direction_are_no_price(scope: Scope) -> None:
    one_way = Document(relation=Relation.ADD_REMOVE, entries=(DocumentLine(LaplaceLaw("0.1")),), direction="add")
    with pytest.raises(ParameterError, match="both directions"):
        scope.charge(one_way, **WORD)


def test_parts_are_a_plan_without_an_outcome(scope: Scope) -> None:
    ran = (Repeated(LaplaceLaw("0.1"), times=5, done=1), ExPostDP(1, "pure", outcome=ExPostOutcome("0.1")))
    for parts in ran:
        with pytest.raises(ParameterError):
            scope.charge(parts, **WORD)
    assert kinds(scope) == []


@pytest.mark.parametrize("name", ["elsewhere", "elsewhere with a claim", "a quote", "a release"])
def test_parts_that_no_entry_can_hold_are_refused_before_they_are_priced(
    scope: Scope, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def priced(*_: Any) -> None:
        raise AssertionError("priced")

    monkeypatch.setattr("dpledger.ledger.charging.requests.promise", priced)
    monkeypatch.setattr("dpledger.ledger.charging.requests.rules.check", priced)
    many = Sequence(tuple(PoissonSampled(GaussianLaw(f"1.{number:04}"), rate="0.01") for number in range(1000)))
    asked: dict[str, Callable[[], object]] = {
        "elsewhere": lambda: scope.charge(many, **WORD),
        "elsewhere with a claim": lambda: scope.charge(many, claim=ApproxDP(1, "0.000001"), **WORD),
        "a quote": lambda: scope.quote(many, relation="add_remove"),
        "a release": lambda: scope.release(Once(made_of=many), []),
    }
    with pytest.raises(ParameterError, match=r"^parts: expected at most 49,149 bytes, .*, got \d\d,\d\d\d bytes$"):
        asked[name]()
    assert kinds(scope) == []


def test_a_claim_must_follow_from_the_parts(scope: Scope) -> None:
    with pytest.raises(ClaimTooSmall):
        scope.charge(LaplaceLaw("0.5"), claim=PureDP("0.25"), **WORD)
    with pytest.raises(ParameterError, match="claim"):
        scope.charge(LaplaceLaw("0.5"), claim="pure", **WORD)  # type: ignore[arg-type]
    scope.charge(LaplaceLaw("0.5"), claim=ApproxDP("0.5", "0.001"), **WORD)
    verified(scope)


TREES = st.one_of(
    st.builds(LaplaceLaw, st.sampled_from(["0.01", "0.3", "2"])),
    st.builds(GaussianLaw, st.sampled_from(["0.7", "2", "50"])),
    st.builds(PureDP, st.sampled_from(["0", "0.125"])),
    st.builds(ZCDP, st.sampled_from(["0.01", "1"]), st.sampled_from(["0", "0.0001"])),
    st.builds(GDP, st.sampled_from(["0.1", "1"])),
    st.builds(lambda sigma: PoissonSampled(GaussianLaw(sigma), rate="0.01"), st.sampled_from(["1", "4"])),
)


@given(st.lists(TREES, min_size=1, max_size=3), st.integers(1, 50))
def test_what_parts_promise_by_themselves_is_what_they_keep(parts: list[Composition], times: int) -> None:
    tree = Repeated(Sequence(tuple(parts)), times=times)
    rules.check(promise(tree, Relation.ADD_REMOVE, Decimal("0.00001")), tree, Relation.ADD_REMOVE)


def test_sampled_noise_promises_more_than_its_noise_does() -> None:
    noise = GaussianLaw(1)
    sampled = promise(Repeated(PoissonSampled(noise, rate="0.01"), times=100), Relation.ADD_REMOVE, Decimal("0.00001"))
    assert isinstance(sampled, RDP)
    assert sampled.epsilons[0] < 1
    assert promise(Repeated(noise, times=100), Relation.ADD_REMOVE, Decimal("0.00001")) == ZCDP(50)


def test_a_guarantee_promises_itself_and_what_only_the_engine_certifies_an_epsilon() -> None:
    curve = PrivacyCurve(("0", "1"), ("0.1", "0.001"))
    assert promise(curve, Relation.ADD_REMOVE, Decimal("0.01")) == curve
    twice = promise(Repeated(curve, times=2), Relation.ADD_REMOVE, Decimal("0.01"))
    assert isinstance(twice, ApproxDP)


HOSTILE = {
    "nothing": "",
    "white space": " \n",
    "a control character": "a\x00b",
    "turned around": "\u202eevil",
    "too long": "x" * 4097,
    "a number": 7,
    "bytes": b"bytes",
    "half a pair": "half \ud800 a pair",
}


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("field", ["by", "reason", "evidence"])
def test_words_that_say_nothing_or_hide_something_are_refused(scope: Scope, field: str, words: Any) -> None:
    for ask in (scope.charge, entered(scope), lambda *a, **k: scope.charges(*a, **k)(lambda: None)()):
        with pytest.raises(ParameterError, match=field):
            ask(PureDP("0.1"), **{**WORD, field: words})
    assert kinds(scope) == []


class Measurement:
    """As another library's: a function that answers for distances, and cannot be iterated over."""

    def map(self, distance: float) -> float:
        return distance

    def __iter__(self) -> Iterator[object]:
        raise ValueError("no iteration")


def test_what_another_library_made_is_refused_by_the_name_of_the_field_and_told_what_would_do(scope: Scope) -> None:
    measured: Any = Measurement()
    for ask in (scope.charge, entered(scope), scope.charges):
        with pytest.raises(ParameterError, match=r"^parts: expected what ran: a guarantee like .*, got Measurement$"):
            ask(measured, **WORD)
    assert kinds(scope) == []


def test_a_file_stands_as_its_digest_and_words_as_they_are(scope: Scope, tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(b"what nobody else may read" * 9999)
    scope.charge(PureDP("0.1"), evidence=file, **WORD)
    scope.charge(PureDP("0.1"), evidence="a letter", **WORD)
    shown = [one.attested.evidence for one in scope.releases() if one.attested is not None]
    assert shown == [f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}", "a letter"]
    os.mkfifo(tmp_path / "pipe")
    for unreadable in (tmp_path / "not there", tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ParameterError, match="evidence"):
            scope.charge(PureDP("0.1"), evidence=unreadable, **WORD)


@pytest.mark.parametrize(
    "named",
    [
        "letter.pdf",
        "letters/march.txt",
        "/srv/letter",
        "./letter",
        "../letter",
        "~/letter",
        "C:\\letters\\march",
        "run.log",
    ],
)
def test_text_that_names_a_file_is_not_taken_for_words(scope: Scope, named: str) -> None:
    """Whether it is there or not: whoever means the file gives its path, whoever means words says more than a name."""
    for ask in (scope.charge, scope.charging, scope.charges):
        with pytest.raises(ParameterError, match=r"evidence: expected the pathlib\.Path of a file"):
            ask(PureDP("0.1"), evidence=named, **WORD)
    assert kinds(scope) == []


def test_text_that_is_the_name_of_a_file_that_is_there_is_not_taken_for_words(
    scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("their letter").write_text("private")
    with pytest.raises(ParameterError, match="evidence"):
        scope.charge(PureDP("0.1"), evidence="their letter", **WORD)


@pytest.mark.parametrize(
    "said",
    [
        "commit 7",
        "ticket-42",
        "https://clinic.example/letter.pdf",
        "10.1145/12345",
        "dpo@clinic.example",
        "see letter.pdf",
        "e.g.",
        "sha256:" + "cd" * 32,
    ],
)
def test_words_stand_as_they_are(scope: Scope, said: str) -> None:
    scope.charge(PureDP("0.1"), evidence=said, **WORD)
    assert [one.attested.evidence for one in scope.releases() if one.attested is not None] == [said]


def test_the_name_of_the_run_and_of_where_it_ran_stand_in_the_entry(scope: Scope) -> None:
    scope.charge(
        PureDP("0.1"), mechanism="registry_count", library="OpenDP 0.13", parameters={"rows": "cancer"}, **WORD
    )
    (one,) = scope.releases()
    assert (one.mechanism.kind, one.mechanism.library) == ("registry_count", "OpenDP 0.13")
    assert dict(one.mechanism.parameters) == {"rows": "cancer"}


# ---- once -----------------------------------------------------------------------------------------------------------


def test_a_key_charges_once_whoever_asks_again(scope: Scope) -> None:
    first = scope.charge(PureDP("0.5"), key="run-1", evidence="a letter", **WORD)
    again = scope.charge(PureDP("0.5"), key="run-1", evidence="a letter", **WORD)
    assert (again.entry, again.value, again.replayed) == (first.entry, None, True)
    assert kinds(scope) == ["reserved", "committed"]


@pytest.mark.parametrize(
    "other",
    [
        {"parts": PureDP("0.25")},
        {"by": "B. Jones"},
        {"reason": "another study"},
        {"evidence": "another letter"},
        {"evidence": None},
        {"mechanism": "another"},
        {"parameters": {"rows": "all"}},
    ],
    ids=str,
)
def test_a_key_of_another_request_is_refused(scope: Scope, other: dict[str, Any]) -> None:
    said: dict[str, Any] = {"parts": PureDP("0.5"), "evidence": "a letter", **WORD}
    scope.charge(key="run-1", **said)
    for ask in (scope.charge, entered(scope)):
        with pytest.raises(KeyReused):
            ask(key="run-1", **{**said, **other})


def test_a_key_is_not_used_for_a_release_and_a_run_elsewhere(scope: Scope) -> None:
    scope.release(laplace("0.5"), 7, key="count")
    with pytest.raises(KeyReused):
        scope.charge(LaplaceLaw("0.5"), key="count", mechanism="laplace", **WORD)


def test_a_run_whose_key_was_used_is_not_held_again(scope: Scope) -> None:
    with scope.charging(PureDP("0.5"), key="run-1", **WORD), pytest.raises(ChargeInProgress):
        scope.charge(PureDP("0.5"), key="run-1", **WORD)
    with pytest.raises(AlreadySpent, match=ALREADY), scope.charging(PureDP("0.5"), key="run-1", **WORD):
        raise AssertionError("ran under a charge that was made before")
    with scope.charging(PureDP("0.5"), key="run-2", **WORD) as run:
        run.nothing_ran()
    with pytest.raises(AlreadySpent, match="aborted"), scope.charging(PureDP("0.5"), key="run-2", **WORD):
        raise AssertionError("ran under a key that was used up")


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Scope]:
    with Ledger.create(tmp_path / "a.ledger") as book:
        yield book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))


def test_a_charge_may_wait_for_a_run_with_its_key(filed: Scope) -> None:
    """It gets the receipt of that run, once it is charged."""
    held = filed.charging(PureDP("0.5"), key="run-1", **WORD).__enter__()
    later = threading.Timer(0.2, held.close)
    later.start()
    receipt = filed.charge(PureDP("0.5"), key="run-1", wait=60, **WORD)
    later.join()
    assert receipt.replayed
    assert receipt.entry == held.receipt.entry
    assert filed.spent(0).upper == 0.5


def test_a_charge_waits_no_longer_than_it_was_told(filed: Scope) -> None:
    with filed.charging(PureDP("0.5"), key="run-1", **WORD):
        begun_at = time.monotonic()
        with pytest.raises(ChargeInProgress):
            filed.charge(PureDP("0.5"), key="run-1", wait="0.1", **WORD)
        assert time.monotonic() - begun_at >= 0.1
    with pytest.raises(ParameterError, match="wait"):
        filed.charge(PureDP("0.5"), key="run-2", wait=-1, **WORD)


def test_a_function_with_a_key_is_called_once_for_ever(filed: Scope) -> None:
    calls: list[int] = []

    @filed.charges(PureDP("0.5"), key="run-1", **WORD)
    def count(number: int) -> int:
        calls.append(number)
        return number

    assert count(7) == 7
    with pytest.raises(AlreadySpent, match=ALREADY):
        count(8)
    assert calls == [7]
    assert filed.spent(0).upper == 0.5


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_quote_of_a_run_elsewhere_is_what_a_charge_would_be_answered(name: str, budget: str) -> None:
    scope = opened(BUDGETS[budget])
    quote = scope.quote(PARTS[name], relation="add_remove")
    assert kinds(scope) == []
    if quote.admitted:
        scope.charge(PARTS[name], **WORD)
        account = scope.account()
        held = filters.spent(account.filter, account.sums)
        assert {own: one.after for own, one in quote.accounts.items()} == held
    else:
        assert budget == "pure"  # noise has no price in it
        with pytest.raises(BudgetRefused):
            scope.charge(PARTS[name], **WORD)


def test_a_quote_takes_whatever_a_charge_takes(scope: Scope) -> None:
    asked: Listed[Any] = ([PureDP(3), (LaplaceLaw("0.5"), 3)], (PureDP("1.5"), 3), {PureDP("1.5"): 3})
    for parts in asked:
        assert scope.quote(parts, relation="add_remove").admitted
    assert not scope.quote([(PureDP("1.5"), 3), PureDP(1)], relation="add_remove").admitted
    bad: Any
    for bad in (3, PureDP, "PureDP(1)", None, [], PrivacyCurve):
        with pytest.raises(ParameterError):
            scope.quote(bad, relation="add_remove")


SCRIPT = """
import sys
import dpledger as dpl
book = dpl.Ledger.open_or_create(sys.argv[1])
scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
said = {"by": "A. Smith", "reason": "a count of last year", "relation": "add_remove"}
receipt = scope.charge(dpl.PureDP("0.75"), key="2025", **said)
print(receipt.entry.index, scope.spent(0).upper)
"""


def test_scripts_at_once_charge_one_run_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "a.ledger")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {process.communicate(timeout=120)[0] for process in running} == {"3 0.75\n"}
    assert [process.returncode for process in running] == [0, 0, 0]


# ---- held, and settled ----------------------------------------------------------------------------------------------

STEPS = Repeated(GaussianLaw(60), times=20)


def stepped(scope: Scope, **rest: Any) -> DeclaredRun:
    return scope.charging(STEPS, **{"steps": 20, "tail_delta": 0, **WORD, **rest})


def rho(scope: Scope) -> Decimal:
    return scope.account().sums["rho"][0]


def test_a_run_is_held_before_it_begins_and_charged_when_it_ends(scope: Scope) -> None:
    with scope.charging(LaplaceLaw("0.5"), **WORD) as run:
        assert [one.status for one in scope.releases()] == ["reserved"]
        assert scope.account().held_by_account["pure"] == "0.5"
        run.start()
        assert [one.status for one in scope.releases()] == ["started"]
        with pytest.raises(ScopeError, match="not charged yet"):
            _ = run.receipt
    assert [one.status for one in scope.releases()] == ["committed"]
    assert run.receipt is run.close()
    assert run.receipt.entry.body.kind == "committed"
    for late in (run.start, run.grant, run.nothing_ran, lambda: run.broke_off("why")):
        with pytest.raises(Halted):
            late()
    verified(scope)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("starts", [True, False])
def test_an_exception_gives_nothing_back_and_is_not_changed(
    scope: Scope, error: type[BaseException], starts: bool
) -> None:
    """That something failed does not show that nothing ran, whether the run said that it starts or not."""
    raised = error("out of memory")

    def fail() -> None:
        with scope.charging(LaplaceLaw("0.5"), **WORD) as run:
            if starts:
                run.start()
            raise raised

    with pytest.raises(error) as caught:
        fail()
    assert caught.value is raised
    assert scope.account().sums["pure"] == (Decimal("0.5"), 0)
    assert kinds(scope) == ["reserved", "started", "committed"]
    assert "out of memory" not in "".join(str(format_entry(entry)) for entry in book_of(scope).entries())


@pytest.mark.parametrize(
    "end",
    [DeclaredRun.nothing_ran, DeclaredRun.close, lambda run: run.broke_off("why")],
    ids=["back", "closed", "broke"],
)
def test_a_block_is_entered_once_so_that_nothing_runs_without_a_charge(
    scope: Scope, end: Callable[[DeclaredRun], object]
) -> None:
    run = scope.charging(PureDP("0.5"), **WORD)
    with run:
        with pytest.raises(Halted, match="another run"), run:
            raise AssertionError("ran in a block within its block")
        end(run)
    with pytest.raises(Halted, match="over"), run:
        raise AssertionError("ran without a charge")


def test_a_run_holds_nothing_before_its_block_is_entered(tmp_path: Path) -> None:
    """Also under its key, and where nobody ever enters it."""
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        size = len(book.entries())
        never, run = (scope.charging(PureDP("0.75"), key="run-1", **WORD) for _ in range(2))
        assert (len(book.entries()), repr(run)) == (size, "<DeclaredRun of declared_run: not entered>")
        for early in (run.start, run.grant, run.nothing_ran, run.close, lambda: run.broke_off("why")):
            with pytest.raises(ScopeError, match="enter its block"):
                early()
        assert scope.spent(0).upper == 0
        with run:
            assert [one.status for one in scope.releases()] == ["reserved"]
            with pytest.raises(ChargeInProgress, match="`charging` and `charges` do not"), never:
                raise AssertionError("ran under the charge of another run")
        assert scope.spent(0).upper == 0.75
    with Ledger.open(tmp_path / "a.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        assert scope.charge(PureDP("0.75"), key="run-1", **WORD).replayed
        book.verify()


def test_a_run_that_is_refused_where_it_is_entered_may_be_entered_later(scope: Scope) -> None:
    """Its parameters were looked at before; what the scope holds is looked at then."""
    with pytest.raises(ParameterError, match="tail_delta"):
        opened(ZCDP(2)).charging(STEPS, tail_delta="1e-8", **WORD)
    run, first = (scope.charging(PureDP(4), **WORD) for _ in range(2))
    with first:
        with pytest.raises(BudgetRefused), run:
            raise AssertionError("ran without a charge")
        first.nothing_ran()
    with run:
        assert [one.status for one in scope.releases()] == ["aborted", "reserved"]
    verified(scope)


def test_the_receipt_of_a_run_elsewhere_has_no_value_to_read(scope: Scope) -> None:
    with scope.charging(PureDP("0.1"), key="held", **WORD) as run:
        pass
    once, again = (scope.charge(PureDP("0.1"), key="over", **WORD) for _ in range(2))
    for receipt in (run.receipt, once, again):
        assert "value" not in repr(receipt)
        assert "value" not in receipt._repr_html_()
    assert "read .value" in repr(scope.release(laplace("0.1"), 7))


@pytest.mark.parametrize("parts", [0.05, "PureDP", [PureDP(1), 0.5], PureDP])
def test_what_never_ran_is_told_what_could_have(scope: Scope, parts: Any) -> None:
    with pytest.raises(ParameterError, match=r"^parts: expected what ran: a guarantee like PureDP") as refusal:
        scope.charge(parts, **WORD)
    assert refusal.value.value in ("float", "str", "the class PureDP")


def test_a_refusal_says_what_a_new_scope_is_for_the_same_people() -> None:
    scope = opened(ApproxDP(3, "1e-6"))
    with pytest.raises(BudgetRefused) as refusal:
        scope.charge(ApproxDP("0.1", "6e-7"), **WORD)
    told = str(refusal.value)
    assert "a new scope (for the same people, both add up)" in told
    assert "a new scope with delta 0.0000012 has room" in told
    assert "another dataset" not in told


def test_only_a_word_gives_a_charge_back_and_only_before_the_run_is_started(scope: Scope) -> None:
    before = scope.account().sums
    with scope.charging(LaplaceLaw("0.5"), **WORD) as run:
        assert run.nothing_ran().body.kind == "aborted"
    assert scope.account().sums == before
    assert [(one.status, one.attested) for one in scope.releases()] == [("aborted", Attestation(**WORD))]
    with pytest.raises(ScopeError, match="given back"):
        _ = run.receipt
    with pytest.raises(Halted):
        run.close()
    starting: list[Callable[[DeclaredRun], object]] = [DeclaredRun.start, DeclaredRun.grant]
    for begin in starting:
        with stepped(scope) as other:
            begin(other)
            with pytest.raises(PolicyError, match="was started"):
                other.nothing_ran()
    verified(scope)


def test_steps_that_were_never_granted_come_back_and_those_that_were_do_not() -> None:
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        whole = rho(scope)
        assert (run.grant(3), run.grant(), run.granted, run.left) == (3, 4, 4, 16)
    assert rho(scope) == whole * 4 / 20
    (one,) = scope.releases()
    assert (one.rule, one.granted, one.steps, one.parts) == ("steps", 4, 20, replace(STEPS, done=4))
    verified(scope)


@pytest.mark.parametrize("budget", [name for name in BUDGETS if name != "pure"])
def test_granted_steps_cost_what_those_of_a_training_run_here_cost(budget: str) -> None:
    here, there = opened(BUDGETS[budget]), opened(BUDGETS[budget])
    mechanism = training(20, "50")
    with here.open(mechanism, None, tail_delta=0) as session:
        for _ in range(3):
            session.ask(None)
    with there.charging(mechanism.parts(), steps=20, tail_delta=0, **WORD) as run:
        run.grant(3)
    assert there.account().sums == here.account().sums
    assert [one.rule for one in there.releases()] == ["steps"]
    verified(there)


def test_what_fits_into_no_entry_charges_nothing(scope: Scope) -> None:
    many = {f"parameter_{number}": "x" * 4000 for number in range(20)}
    for ask in (scope.charge, entered(scope)):
        with pytest.raises(ParameterError, match="65535"):
            ask(PureDP("0.1"), parameters=many, **WORD)
    assert kinds(scope) == []
    assert scope.account().sums["pure"] == (Decimal(0), 0)


@pytest.mark.parametrize("begin", [lambda run: None, DeclaredRun.start], ids=["never started", "started"])
def test_a_run_that_was_granted_no_step_is_charged_whole(begin: Callable[[DeclaredRun], object]) -> None:
    """The ledger saw no grant, so that it cannot tell which steps did not run."""
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        whole = rho(scope)
        begin(run)
    assert rho(scope) == whole
    assert [(one.rule, one.parts) for one in scope.releases()] == [("cap", STEPS)]
    verified(scope)


def test_a_run_that_ends_outside_of_its_guarantee_is_charged_whole_and_says_why() -> None:
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        whole = rho(scope)
        run.grant(2)
        receipt = run.broke_off("the state of the optimizer was put back")
    assert rho(scope) == whole
    (one,) = scope.releases()
    assert (one.outside_guarantee, one.warnings) == (True, ("the state of the optimizer was put back",))
    assert run.close() == receipt
    verified(scope)


@pytest.mark.parametrize("why", ["", " ", "Traceback:\n\tFile", 7])
def test_a_run_that_broke_off_is_outside_of_its_guarantee_though_its_words_are_refused(why: str) -> None:
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        run.grant(2)
        with pytest.raises(ParameterError, match="why"):
            run.broke_off(why)
    (one,) = scope.releases()
    assert (one.outside_guarantee, one.warnings) == (
        True,
        ("why it broke off was said in words that no entry may hold",),
    )
    verified(scope)


def test_of_a_price_from_the_profile_nothing_comes_back(scope: Scope) -> None:
    with scope.charging(STEPS, steps=20, tail_delta="1e-8", **WORD) as run:
        before = scope.account().sums
        run.grant()
    assert scope.account().sums == before
    assert [one.rule for one in scope.releases()] == ["cap"]
    verified(scope)


def test_no_step_is_granted_beyond_the_plan_or_of_a_run_without_steps(scope: Scope) -> None:
    with stepped(scope) as run:
        run.grant(19)
        with pytest.raises(Halted, match="19 of 20"):
            run.grant(2)
        run.grant()
        for bad in (0, -1, "two", 1.5, None):
            with pytest.raises(ParameterError, match="count"):
                run.grant(bad)  # type: ignore[arg-type]
    with scope.charging(STEPS, tail_delta=0, **WORD) as whole, pytest.raises(ScopeError, match="steps="):
        whole.grant()
    verified(scope)


@pytest.mark.parametrize(("parts", "steps"), [(STEPS, 19), (STEPS, 21), (LaplaceLaw("0.1"), 1), (STEPS, 0)])
def test_the_steps_are_those_of_the_parts(scope: Scope, parts: Composition, steps: int) -> None:
    with pytest.raises(ParameterError, match="steps"):
        scope.charging(parts, steps=steps, **WORD)
    assert kinds(scope) == []


def test_threads_are_granted_every_step_once() -> None:
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        found = together(*[run.grant] * 25)
    assert sorted(one for one in found if isinstance(one, int)) == list(range(1, 21))
    assert [type(one) for one in found if not isinstance(one, int)] == [Halted] * 5
    assert [one.granted for one in scope.releases()] == [20]


def test_threads_that_end_a_run_end_it_once(scope: Scope) -> None:
    run = scope.charging(LaplaceLaw("0.5"), **WORD).__enter__()
    found = together(run.close, run.close, run.nothing_ran)
    given_back = any(getattr(one, "body", None) is not None for one in found)
    assert kinds(scope) == (["reserved", "aborted"] if given_back else ["reserved", "started", "committed"])
    verified(scope)


@ignores_fork_warnings
def test_a_forked_child_does_nothing_and_what_it_may_have_run_counts_as_run() -> None:
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        whole = rho(scope)
        run.grant()
        for ask in (run.grant, run.start, run.close, run.nothing_ran, lambda: run.broke_off("why")):
            assert in_child(ask).startswith("ForkedProcess")
        assert in_child(lambda: run.__exit__(None, None, None)) == "done"
    assert rho(scope) == whole
    (one,) = scope.releases()
    assert "forked" in one.warnings[0]
    verified(scope)


@pytest.mark.parametrize("interrupted", range(1, 5))
def test_an_interruption_after_a_durable_write_leaves_a_run_that_ends_in_its_block(
    interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys that stop a program are mostly noticed when a write to the disk returns: it is durable then."""
    scope = opened()
    run = stepped(scope).__enter__()
    attempt, left = scope._ledger, interrupted

    def transact(make: Any, real: Any = attempt.transact) -> Any:
        nonlocal left
        left -= 1
        entries = real(make)
        if left == 0:
            raise KeyboardInterrupt
        return entries

    monkeypatch.setattr(attempt, "transact", transact)

    def grants() -> None:
        with contextlib.ExitStack() as block:
            block.push(run)
            for _ in range(4):
                run.grant()

    with pytest.raises(KeyboardInterrupt):
        grants()
    monkeypatch.undo()
    (one,) = scope.releases()
    assert one.status == "committed"
    assert kinds(scope).count("started") == 1
    assert one.granted == interrupted - 1
    verified(scope)


def test_a_run_that_was_not_started_before_its_scope_was_closed_is_held_or_given_back(scope: Scope) -> None:
    """Nothing begins in a closed scope, so that nothing of it can be charged; what is held counts at its cap."""
    held, given_back = (scope.charging(PureDP("0.5"), **WORD).__enter__() for _ in range(2))
    started = scope.charging(PureDP("0.25"), **WORD).__enter__()
    started.start()
    scope.end("the study is over")
    for end in (held.close, held.start, lambda: held.broke_off("why")):
        with pytest.raises(ScopeError, match="closed before this charge was started"):
            end()
    given_back.nothing_ran()
    started.close()
    assert [one.status for one in scope.releases()] == ["reserved", "aborted", "committed"]
    assert scope.account().sums["pure"][0] == Decimal("0.75")
    verified(scope)


def test_a_run_does_not_pickle(scope: Scope) -> None:
    import pickle

    with scope.charging(PureDP("0.5"), **WORD) as run, pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(run)
    assert repr(run) == "<DeclaredRun of declared_run: charged>"


@pytest.mark.parametrize("grants", [0, 1])
def test_a_run_whose_process_died_stays_at_its_cap(tmp_path: Path, grants: int) -> None:
    path = tmp_path / "a.ledger"
    rules: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": ZCDP(2)}
    work = f"""
import os, sys
import dpledger as dpl
from dpledger.accounting.composition import GaussianLaw, Repeated
scope = dpl.Ledger.create(sys.argv[1]).scope("s", unit="patient", relation="add_remove", budget=dpl.ZCDP(2))
run = scope.charging(
    Repeated(GaussianLaw(60), times=20), steps=20, key="run", tail_delta=0, by="A. Smith", reason="the study of 2025",
    relation="add_remove",
).__enter__()
for _ in range({grants}):
    run.grant()
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", work, str(path)], check=False).returncode == 9
    with Ledger.open(path) as book:
        scope = book.scope("s", **rules)
        whole = opened(ZCDP(2))
        whole.charge(STEPS, tail_delta=0, **WORD)
        assert rho(scope) == rho(whole)
        with pytest.raises(ChargeInProgress, match="Its charge stands either way"), stepped(scope, key="run"):
            raise AssertionError("ran under the charge of another run")
        (one,) = scope.releases()
        assert (one.status, one.granted) == ("started" if grants else "reserved", grants)
        scope.note_lost(one.charge, "the machine was switched off")
        assert rho(scope) == rho(whole)
        book.verify()


# ---- functions ------------------------------------------------------------------------------------------------------


def test_each_call_of_a_function_is_a_run(scope: Scope) -> None:
    @scope.charges(PureDP("0.5"), mechanism="survey", **WORD)
    def answer(question: str, *, times: int = 1) -> str:
        """What the survey says."""
        assert [one.status for one in scope.releases()][-1] == "started"
        return question * times

    assert (answer.__name__, answer.__doc__) == ("answer", "What the survey says.")
    assert kinds(scope) == []
    assert answer("no", times=2) == "nono"
    assert answer(question="yes") == "yes"
    assert [(one.mechanism.kind, one.status) for one in scope.releases()] == [("survey", "committed")] * 2
    with pytest.raises(TypeError):
        answer()  # type: ignore[call-arg]
    assert len(scope.releases()) == 2
    verified(scope)


def test_a_function_that_is_refused_is_not_called(scope: Scope) -> None:
    called: list[int] = []
    ask = scope.charges(PureDP(4), **WORD)(lambda: called.append(1))
    ask()
    with pytest.raises(BudgetRefused):
        ask()
    assert called == [1]


def test_a_function_that_raises_is_charged_whole(scope: Scope) -> None:
    @scope.charges(PureDP("0.5"), **WORD)
    def fail() -> None:
        raise LookupError("private")

    with pytest.raises(LookupError, match="private"):
        fail()
    assert kinds(scope) == ["reserved", "started", "committed"]
    assert scope.account().sums["pure"] == (Decimal("0.5"), 0)


async def later() -> None: ...


def bit_by_bit() -> Iterator[None]:
    yield


async def bit_by_bit_later() -> AsyncIterator[None]:
    yield


class Late:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "function",
    [later, bit_by_bit, bit_by_bit_later, Late(), staticmethod(later), functools.partial(Late()), dict, 7, None],
    ids=lambda one: type(one).__name__,
)
def test_what_returns_before_it_has_run_is_refused(scope: Scope, function: Any) -> None:
    with pytest.raises(ParameterError, match="function"):
        scope.charges(PureDP("0.5"), **WORD)(function)


@pytest.mark.parametrize(
    "late",
    [later, bit_by_bit, bit_by_bit_later, Late()],
    ids=["coroutine", "generator", "generator of coroutines", "callable"],
)
def test_what_a_function_returns_that_has_not_run_is_charged_and_withheld(
    scope: Scope, late: Callable[[], Any]
) -> None:
    """It would run when nothing is held for it."""
    ask = scope.charges(PureDP("0.5"), **WORD)(lambda: late())
    with pytest.raises(ContractViolation, match="returned before it had run"):
        ask()
    committed = bodies(scope)[-1]
    assert isinstance(committed, Committed)
    assert committed.outside_guarantee
    assert scope.account().sums["pure"] == (Decimal("0.5"), 0)
    verified(scope)


def test_parameters_of_a_decorator_are_refused_where_it_stands(scope: Scope) -> None:
    for wrong in (
        {"by": ""},
        {"evidence": Path("not there")},
        {"mechanism": "no word"},
        {"key": "no word"},
        {"tail_delta": 2},
    ):
        with pytest.raises(ParameterError):
            scope.charges(PureDP("0.5"), **{**WORD, **wrong})
    with pytest.raises(ClaimTooSmall):
        scope.charges(PureDP("0.5"), claim=PureDP("0.25"), **WORD)
    assert kinds(scope) == []


# ---- what it shows, and to whom -------------------------------------------------------------------------------------


def test_nobody_here_saw_the_run_so_that_nothing_is_known_from_below() -> None:
    """The same Gaussian, released here, is known to have cost something at the least."""
    here, there = opened(GDP(2)), opened(GDP(2))
    gaussian = GaussianLaw(2)
    here.release(Once(claimed=ZCDP("0.125"), made_of=gaussian), 7)
    there.charge(gaussian, **WORD)
    assert there.spent("1e-6").upper == here.spent("1e-6").upper
    assert here.spent("1e-6").lower > there.spent("1e-6").lower == 0


def test_an_exported_bundle_of_runs_elsewhere_verifies_and_no_changed_byte_of_them_does(tmp_path: Path) -> None:
    scope = opened()
    scope.charge(PureDP("0.5"), evidence="a letter", **WORD)
    with stepped(scope) as run:
        run.grant(2)
    folder = book_of(scope).export(tmp_path / "bundle")
    found = bundle.verify(folder, KEY.public)
    assert [entry.body.attested for entry in found.entries if isinstance(entry.body, Reserved)] == [
        Attestation(evidence="a letter", **WORD),
        Attestation(**WORD),
    ]
    entries = folder / bundle.ENTRIES
    good = entries.read_bytes()
    start = good.index(b"\n", good.index(b"\n") + 1) + 1  # the third line: the run that was reserved
    for place in range(start, good.index(b"\n", start), 37):
        entries.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(VerificationError):
            bundle.verify(folder, KEY.public)


def bodies(scope: Scope) -> list[Body]:
    return [entry.body for entry in book_of(scope).entries()]


def refused(changed: list[Body]) -> VerificationError:
    """What the verifier says to a record that somebody with the key signed."""
    with pytest.raises(VerificationError) as error:
        verification.verify(*forged(changed, KEY), KEY.public)
    return error.value


SMITH = Attestation(evidence="a letter", **WORD)


@pytest.mark.parametrize(
    "said",
    [None, replace(SMITH, by="B. Jones"), replace(SMITH, reason="none"), replace(SMITH, evidence=None)],
    ids=["taken away", "another name", "another reason", "without evidence"],
)
def test_whose_word_it_was_cannot_be_changed_even_with_the_key(said: Attestation | None) -> None:
    scope = opened()
    scope.charge(PureDP("0.5"), evidence="a letter", **WORD)
    ledger_opened, scope_opened, reserved, committed = bodies(scope)
    assert isinstance(reserved, Reserved)
    error = refused([ledger_opened, scope_opened, replace(reserved, attested=said), committed])
    assert (error.index, "request" in error.reason) == (2, True)


def test_a_release_cannot_be_made_a_run_elsewhere() -> None:
    scope = opened()
    scope.release(laplace("0.5"), 7)
    ledger_opened, scope_opened, reserved, committed = bodies(scope)
    assert isinstance(reserved, Reserved)
    assert refused([ledger_opened, scope_opened, replace(reserved, attested=SMITH), committed]).index == 2


def test_a_run_elsewhere_is_no_release_even_with_the_key() -> None:
    """A release answers once, and may stand between the answers of others: of a run elsewhere nobody saw that."""
    scope = opened(ZCDP(2, "1e-6"))
    scope.charging(ZCDP("0.1"), **WORD).__enter__()
    *before, reserved = bodies(scope)
    assert isinstance(reserved, Reserved)
    exclusive = replace(
        reserved,
        path=tuple(replace(step, index=step.index + 1) for step in reserved.path),
        key="another",
        charge="0" * 32,
        claim=ZCDP("0.1", "1e-9"),
        parts=ZCDP("0.1", "1e-9"),
        levels=tuple(replace(level, amounts={**level.amounts, "delta": Decimal("1e-9")}) for level in reserved.levels),
        failures=(PrivacyFailure(Decimal("1e-9"), "approximation"),),
        form="release",
    )
    exclusive = replace(exclusive, request=requested.request_digest(scope.name, exclusive, Decimal(0)))
    assert "nobody saw its form" in refused([*before, reserved, exclusive]).reason


def test_a_word_alone_settles_nothing_even_with_the_key() -> None:
    """A faulty gate gives back what a run elsewhere says that it did not lose; each twin is refused by the verifier."""
    scope = opened(ZCDP(2))
    with stepped(scope) as run:
        run.grant(4)
    *before, granted, committed = bodies(scope)
    assert isinstance(committed, Committed)
    assert committed.parts == replace(STEPS, done=4)
    for done in (0, 3, 5):
        changed = replace(committed, parts=replace(STEPS, done=done))
        refused([*before, granted, changed])
    nothing = replace(
        committed,
        parts=replace(STEPS, done=0),
        levels=tuple(replace(level, amounts=dict.fromkeys(level.amounts, Decimal(0))) for level in committed.levels),
    )
    assert "steps that were granted" in refused([*before, nothing]).reason  # as if none had been granted


def test_a_loss_that_a_run_elsewhere_states_is_not_believed() -> None:
    """A leaf that may state its loss may do so where the mechanism ran here, and nowhere else."""
    plan = ExPostDP("0.5", "pure")
    scope = opened(PureDP(1))
    scope.charge(plan, **WORD)
    ledger_opened, scope_opened, reserved, committed = bodies(scope)
    assert isinstance(reserved, Reserved)
    assert isinstance(committed, Committed)
    levels = tuple(replace(level, amounts={"pure": Decimal("0.125")}) for level in committed.levels)
    stated = replace(committed, parts=replace(plan, outcome=ExPostOutcome("0.125")), levels=levels, rule="ex_post")
    error = refused([ledger_opened, scope_opened, reserved, stated])
    assert (error.index, "what came of it" in error.reason) == (3, True)


def test_a_refusal_says_whose_word_it_was() -> None:
    scope = opened(PureDP(1))
    with pytest.raises(BudgetRefused):
        scope.charge(PureDP(2), evidence="a letter", **WORD)
    refusal = bodies(scope)[-1]
    assert isinstance(refusal, Refused)
    assert refusal.attested == SMITH


def test_a_stream_here_and_a_run_elsewhere_go_on_beside_each_other(scope: Scope) -> None:
    with scope.open(stream("0.5", 2), None) as answers, stepped(scope) as run:
        answers.ask(False)
        run.grant(2)
        answers.ask(True)
    assert {one.status for one in scope.releases()} == {"committed"}
    verified(scope)


def test_a_reader_of_another_thread_sees_what_is_held(scope: Scope) -> None:
    seen: list[str] = []
    with scope.charging(PureDP("0.5"), **WORD):
        reader = threading.Thread(target=lambda: seen.append(scope.account().held_by_account["pure"]))
        reader.start()
        reader.join()
    assert seen == ["0.5"]
