"""Two keys: where a ledger names an owner, nothing opens or ends a scope without her signature."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import dpledger as dpl
import ledger_golden
import ledger_spec
from dpledger.cli import app
from dpledger.errors import ApprovalNeeded, VerificationError
from dpledger.ledger.entries.bodies import Closed, RollbackAccepted
from dpledger.ledger.entries.members import Step
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import approvals
from dpledger.ledger.rules.transitions import EMPTY, fold, step
from dpledger.ledger.signed import envelope, wire
from dpledger.ledger.signed.keyfiles import save_owner_key
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import bundle
from ledger_golden import OWNED_KEY, OWNED_RECOVERY, OWNER, approved
from ledger_mechanisms import laplace

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(1)}
OTHER = SigningKey.from_seed("example.org/other/000102030405060708090a0b0c0d0e0f", bytes(range(96, 128)))


def owned() -> Ledger:
    return Ledger.begin(MemoryStore(), OWNED_KEY, OWNED_RECOVERY.public, owner=OWNER.public)


def opened(book: Ledger, name: str = "s") -> dpl.Scope:
    scope = approved(partial(book.scope, **RULES), name)
    assert isinstance(scope, dpl.Scope)
    return scope


def request(book: Ledger, name: str = "s", **rules: Any) -> bytes:
    with pytest.raises(ApprovalNeeded) as needed:
        book.scope(name, **{**RULES, **rules})
    return needed.value.request


# ---- at the gate ----------------------------------------------------------------------------------------------------


def test_a_scope_opens_and_ends_with_the_owner_s_approval_alone() -> None:
    book = owned()
    with pytest.raises(ApprovalNeeded, match=r"opening scope 's' needs .*`dpledger approve FILE`"):
        book.scope("s", **RULES)
    assert len(book) == 1
    scope = opened(book)
    scope.release(laplace(), 1)
    with pytest.raises(ApprovalNeeded, match="closing scope 's'"):
        scope.end("over")
    scope.release(laplace(), 1)  # its index moved meanwhile: that is no part of the question
    approved(scope.end, "over")
    with pytest.raises(ApprovalNeeded, match="ending the ledger"):
        book.end("over")
    approved(book.end, "over")
    book.verify()


def test_a_scope_that_is_there_needs_no_approval() -> None:
    book = owned()
    opened(book)
    assert book.scope("s", **RULES).name == "s"
    assert book.scope("s").name == "s"


@pytest.mark.parametrize(
    "other",
    [
        {"budget": dpl.PureDP(2)},
        {"unit": dpl.Unit("patient", 2)},
        {"relation": "replace_one"},
        {"dataset": "other"},
        {"keep": "none"},
        {"budget": dpl.ApproxDP(1, "1e-9")},
    ],
)
def test_an_approval_is_for_what_was_asked(other: dict[str, Any]) -> None:
    book = owned()
    approval = approvals.approval_of(request(book), OWNER)
    with pytest.raises(dpl.ParameterError, match=r"printed for this request, got another line \(the approval is not"):
        book.scope("s", **{**RULES, **other}, approval=approval)
    with pytest.raises(dpl.ParameterError, match="approval"):
        book.scope("t", **RULES, approval=approval)
    assert len(book) == 1


@pytest.mark.parametrize("signer", [OTHER, OWNED_KEY, OWNED_RECOVERY], ids=["another", "the ledger's", "recovery"])
def test_no_other_key_approves(signer: SigningKey) -> None:
    with pytest.raises(dpl.ParameterError, match="not the owner's signature"):
        approved(partial(owned().scope, **RULES), "s", owner=signer)


def test_an_approval_of_another_ledger_is_none() -> None:
    other_key = SigningKey.from_seed("example.org/owned/100102030405060708090a0b0c0d0e0f", bytes(range(32)))
    recovery = SigningKey.from_seed(other_key.public.name, bytes(range(32, 64)))
    other = Ledger.begin(MemoryStore(), other_key, recovery.public, owner=OWNER.public)
    approval = approvals.approval_of(request(other), OWNER)
    with pytest.raises(dpl.ParameterError, match="not the owner's signature"):
        owned().scope("s", **RULES, approval=approval)


def test_a_scope_that_was_lost_is_not_opened_again_by_its_old_approval() -> None:
    book = owned()
    old = approvals.approval_of(request(book), OWNER)
    lost = RollbackAccepted(size=9, leaf="44" * 32, by="me", reason="lost")
    book.transact(lambda *_: [lost])
    with pytest.raises(dpl.ParameterError, match="not the owner's signature"):
        book.scope("s", **RULES, approval=old)
    assert json.loads(request(book))["rollbacks"] == 1
    opened(book)
    book.verify()


@pytest.mark.parametrize("owner", [OWNED_KEY, OWNED_RECOVERY], ids=["signing", "recovery"])
def test_the_owner_s_key_is_another_one(owner: SigningKey) -> None:
    renamed = replace(owner.public, name=OWNER.public.name)
    with pytest.raises(VerificationError, match="two keys are two secrets"):
        Ledger.begin(MemoryStore(), OWNED_KEY, OWNED_RECOVERY.public, owner=renamed)


def test_without_an_owner_there_is_no_approval() -> None:
    book = Ledger.in_memory()
    with pytest.raises(dpl.ParameterError, match="names none"):
        book.scope("s", **RULES, approval="00")
    assert book.owner is None


def test_a_request_has_whole_counts_above_zero() -> None:
    asked = json.loads(request(owned()))
    for name in ("rollbacks", "owner_changes"):
        for count in (True, False, -5, 0, "1"):
            changed = wire.dump({**asked, name: count})
            with pytest.raises(dpl.ParameterError, match="request"):
                approvals.asked(changed)
        assert getattr(approvals.asked(wire.dump({**asked, name: 2})), name) == 2


# ---- for whoever verifies -------------------------------------------------------------------------------------------


BODIES: tuple[Any, ...] = tuple(entry.body for entry in ledger_golden.build_owned().entries())


def test_the_golden_ledger_with_an_owner_is_the_golden_one_and_verifies() -> None:
    files = ledger_golden.bundled(ledger_golden.build_owned())
    assert {name: (ledger_golden.OWNED_DATA / name).read_bytes() for name in files} == files
    found = bundle.verify(ledger_golden.OWNED_DATA, OWNED_KEY.public)
    assert [entry.body.kind for entry in found.entries] == [
        "ledger_opened",
        "scope_opened",
        "closed",
        "rollback_accepted",
        "closed",
    ]


def test_the_specification_shows_its_request() -> None:
    body = BODIES[1]
    assert isinstance(body, approvals.Approved)
    assert approvals.request_of(OWNED_KEY.public.name, body).decode() in ledger_spec.SPEC.read_text("utf-8")


@pytest.mark.parametrize("place", [1, 2, 4])
@pytest.mark.parametrize("approval", [None, "", "x", OWNER.public.text, "A" * 86 + "=="])
def test_an_entry_without_it_does_not_verify(place: int, approval: str | None) -> None:
    with pytest.raises(VerificationError, match="approval"):
        fold([*BODIES[:place], replace(BODIES[place], approval=approval)])


@pytest.mark.parametrize("place", [1, 2, 4])
def test_every_member_that_is_approved_is_bound(place: int) -> None:
    """A twin that leaves a member out of the request would pass here."""
    body = BODIES[place]
    others: dict[str, Any] = {
        "keep": "none",
        "dataset": "another",
        "reason": "another",
    }
    changed = [name for name in others if hasattr(body, name)]
    assert changed
    for name in changed:
        with pytest.raises(VerificationError, match="not the owner's signature"):
            fold([*BODIES[:place], replace(body, **{name: others[name]})])


def test_a_ledger_without_an_owner_has_no_approvals() -> None:
    alone = [replace(BODIES[0], owner_key=None), BODIES[1]]
    with pytest.raises(VerificationError, match="names none"):
        fold(alone)
    assert step(EMPTY, alone[0]).opened is not None


@given(st.integers(0, 87), st.sampled_from("ABCD/+"))
def test_a_changed_signature_is_none(place: int, letter: str) -> None:
    body = BODIES[1]
    assert isinstance(body, approvals.Approved)
    assert body.approval is not None
    changed = body.approval[:place] + letter + body.approval[place + 1 :]
    if changed != body.approval:
        with pytest.raises(VerificationError):
            fold([BODIES[0], replace(body, approval=changed)])


def test_an_approval_is_no_signature_of_an_entry() -> None:
    body = BODIES[1]
    assert isinstance(body, approvals.Approved)
    asked = approvals.request_of(OWNED_KEY.public.name, body)
    signature = OWNER.sign(envelope.pre_authentication(asked))  # of the type of entries
    with pytest.raises(VerificationError):
        OWNER.public.verify(signature, envelope.pre_authentication(asked, approvals.APPROVAL_TYPE))


# ---- on the owner's machine -----------------------------------------------------------------------------------------


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*words: str, given: str | None = None) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words), input=given)
        return done.exit_code, done.output

    assert run("owner-key", "officer.key")[0] == 0
    assert stat.S_IMODE(Path("officer.key").stat().st_mode) == 0o600
    assert run("owner-key", "officer.key")[0] == 2
    assert run("init", "clinic.ledger", "--owner", "officer.key.pub")[0] == 0
    with dpl.Ledger.open_or_create("clinic.ledger", owner="officer.key.pub") as book:
        Path("request.json").write_bytes(request(book, dataset="wards"))
        status, said = run("approve", "request.json", "--key", "clinic.ledger.key", "--yes")
        assert (status, "a key of the ledger" in said, "approved" in said) == (2, True, False)
        status, said = run("approve", "request.json", "--key", "officer.key", given="n\n")
        assert (status, "not approved; nothing was signed" in said) == (2, True)
        assert "open scope s" in said
        assert "budget: " in said
        status, said = run("approve", "request.json", "--key", "officer.key", given="y\n")
        assert status == 0
        line = said.strip().splitlines()[-1]
        status, said = run("approve", "request.json", "--key", "officer.key", "--yes", "--json")
        assert json.loads(said)["approval"] == line
        book.scope("s", **RULES, dataset="wards", approval=line).release(laplace(), 1)
        book.verify()
        told = dpl.report(book).markdown()
    assert "approved each budget. Whoever spends cannot open a budget alone." in told
    assert run("approve", "request.json", "--key", "officer.key", "--json")[0] == 2
    edited = json.loads(Path("request.json").read_text())
    edited["budget"]["epsilon"] = "0.5"
    Path("request.json").write_text(json.dumps(edited, sort_keys=True, separators=(",", ":")))
    status, said = run("approve", "request.json", "--key", "officer.key", "--yes")
    assert status == 2
    assert "claimed epsilon 0.5" in said
    Path("request.json").write_text("{}")
    assert run("approve", "request.json", "--key", "officer.key", "--yes")[0] == 2
    another = save_owner_key(tmp_path / "another.key")[0]
    with pytest.raises(dpl.ParameterError, match="owner: expected that of the ledger"):
        dpl.Ledger.open_or_create("clinic.ledger", owner=another)


BLANK = " " * 60


@pytest.mark.parametrize(
    "said",
    [f"over{between}budget: epsilon 1" for between in ("\n  ", BLANK, chr(0x2800) * 60)],
)
def test_what_is_asked_cannot_write_lines_of_its_own(tmp_path: Path, said: str) -> None:
    book = owned()
    opened(book)
    questions = [Closed(reason=said), replace(BODIES[1], dataset=said)]
    save_owner_key(tmp_path / "officer.key")
    for number, body in enumerate(questions):
        file = tmp_path / f"{number}.json"
        file.write_bytes(approvals.request_of(book.id, body))
        done = CliRunner().invoke(app, ["approve", str(file), "--key", str(tmp_path / "officer.key"), "--yes"])
        assert done.exit_code == 0, done.output
        forged = [line for line in done.output.splitlines() if line.strip().startswith("budget: epsilon 1")]
        assert not forged
        assert BLANK not in done.output
        assert chr(0x2800) * 2 not in done.output


def test_each_scope_that_would_end_is_named(tmp_path: Path) -> None:
    save_owner_key(tmp_path / "officer.key")
    body = Closed(reason="over", path=(Step("one", 0), Step("two", 0)))
    (tmp_path / "ask.json").write_bytes(approvals.request_of(OWNED_KEY.public.name, body, owner_changes=3))
    words = ["approve", str(tmp_path / "ask.json"), "--key", str(tmp_path / "officer.key"), "--yes"]
    said = CliRunner().invoke(app, words).output
    assert "close scope one, two\n" in said
    assert "another owner took over 3 times before\n" in said
