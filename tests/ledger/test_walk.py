"""The walk through the house: a typed mechanism, a scope, an entry, a bundle, a verification, the numbers.

One person does all of it here, in the order in which a reader of the documentation would.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import dpledger as dpl
from dpledger.errors import AlreadySpent, ScopeError
from dpledger.ledger.accounts import recomposition
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.signed.keyfiles import read_public_key
from dpledger.ledger.verifying import bundle
from ledger_mechanisms import stream, training

AGES: NDArray[np.float64] = np.array([31.0, 45.0, 52.0, 38.0, 29.0, 61.0])


def test_the_walk_from_a_mechanism_to_the_numbers(tmp_path: Path) -> None:
    # A ledger is a file and its keys. A scope is one dataset, one unit, one relation, one budget.
    book = dpl.Ledger.create(tmp_path / "clinic.ledger")
    scope = book.scope("patients-2026", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, 1e-6))

    # A mechanism is typed and immutable; the scope fixes what it leaves open. The value comes with its signed entry.
    count = dpl.Laplace(sensitivity=1, epsilon="0.25", grid=1)
    out = scope.release(count, float(len(AGES)), key="how-many")
    assert isinstance(out.value, float)
    assert isinstance(out.entry.body, Committed)
    assert out.entry.index == 3

    # The same key is the same release: nothing runs, and nothing is spent, a second time.
    assert scope.release(count, float(len(AGES)), key="how-many") == out

    # Interactions and training hold their cap while they are open; what they did not use comes back at close.
    with scope.open(stream("0.5", cutoff=2), AGES, key="stream") as answers:
        answers.ask(True)
        answers.ask(False)
    # A training run priced step by step (`tail_delta=0`) gets back the steps that never ran.
    with scope.open(training(steps=40, noise_multiplier="40"), AGES, key="train", tail_delta=0) as run:
        run.ask("one step")

    # What does not fit is refused before any data are read, and the refusal says what was asked, spent and left.
    spent_before = book.state.scopes[scope.name].sums
    with pytest.raises(dpl.BudgetRefused, match=r"mixed: asked 2\.92\d*, spent 1\.70\d*, left 1\.29") as refused:
        scope.release(dpl.Laplace(sensitivity=1, epsilon=3), 0.0)
    assert book.state.scopes[scope.name].sums == spent_before
    assert refused.value.scope == "patients-2026"
    assert set(refused.value.asked) == {"pure", "mixed", "delta"}

    # The bundle is plain files. Somebody else verifies it with the public key alone, and prices everything again.
    folder = book.export(tmp_path / "bundle")
    key = read_public_key(tmp_path / "clinic.ledger.pub")
    book.close()
    verified = bundle.verify(folder, key)
    (account,) = recomposition.accounts(verified.entries, verified.state)

    # The numbers: the guarantee for ever, what carried each admission, what is spent, what was refused.
    assert account.guarantee == dpl.ApproxDP(3, 1e-6)
    assert [admission.key for admission in account.admissions] == ["how-many", "stream", "train"]
    assert [admission.rule for admission in account.admissions] == ["cap", "ex_post", "steps"]
    assert [admission.account for admission in account.admissions] == ["pure", "pure", "mixed_rdp_0"]
    counted, streamed, trained = account.admissions
    assert counted.charged["pure"] == Decimal("0.25")
    assert streamed.charged["pure"] < streamed.reserved["pure"] == Decimal("0.5")
    assert (trained.steps, trained.granted) == (40, 2)
    assert trained.charged["mixed_rdp_0"] * 20 == trained.reserved["mixed_rdp_0"]
    (refusal,) = account.refusals
    assert refusal.asked["pure"] == Decimal(3)
    assert account.composition is not None
    assert 0 < account.spent.lower <= account.spent.upper < 3


def test_a_reader_may_ask_before_spending() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    before = len(book)
    fits, too_much = (scope.quote(dpl.Laplace(sensitivity=1, epsilon=epsilon)) for epsilon in ("0.5", "1.5"))
    assert fits.admitted
    assert not too_much.admitted
    assert len(book) == before
    assert scope.spent(0) == dpl.planning.Bounds(lower=0.0, upper=0.0)


def test_a_reservation_is_released_or_given_back() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    mechanism = dpl.Laplace(sensitivity=1, epsilon="0.75")
    with scope.reserve(mechanism) as first:
        with pytest.raises(dpl.BudgetRefused):
            scope.reserve(mechanism)
        entry = first.abort()
    assert entry.body.kind == "aborted"
    with scope.reserve(mechanism, key="later") as second:
        second.release(41.0)
    with pytest.raises(AlreadySpent):
        second.release(41.0)
    with pytest.raises(AlreadySpent):
        scope.reserve(mechanism, key="later")
    assert [one.status for one in scope.account().admissions] == ["aborted", "committed"]
    kinds = [entry.body.kind for entry in book.verify().entries]
    assert kinds[2:] == ["reserved", "refused", "aborted", "reserved", "started", "committed"]


def test_a_reservation_in_a_scope_that_was_closed_since_is_given_back() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    with scope.reserve(dpl.Count(epsilon="0.5", of="rows")) as reserved:
        scope.end("the study is over")
        with pytest.raises(ScopeError, match="closed before this charge was started"):
            reserved.release([7])
    assert [one.status for one in scope.releases()] == ["aborted"]
    assert scope.spent(delta=0).upper == 0
