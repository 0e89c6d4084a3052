"""Allowances on the walk of a ledger: opened, charged, refused, settled, read, reopened, verified and reported."""

from __future__ import annotations

import dataclasses
import itertools
from decimal import Decimal

import numpy as np
import pytest

import dpledger as dpl
import ledger_golden
from dpledger.accounting.composition import Composition, Filtered
from dpledger.accounting.filters import AllowanceFilter
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.errors import BudgetRefused, CannotCertify, ParameterError, ScopeError, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed, Reserved, ScopeOpened
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.verifying.verification import verify
from dpledger.reports.document import report
from ledger_forger import forged
from ledger_mechanisms import Once, laplace, stream, training

BUDGET = dpl.ApproxDP(3, "1e-6")
LAW = dpl.GaussianLaw(40)


def opened(book: Ledger, law: Composition = LAW, **size: object) -> Scope:
    allowance = dpl.filters.Allowance(law, **({"steps": 200} | size))  # type: ignore[arg-type]
    return book.scope("rows", unit="record", relation="add_remove", budget=BUDGET, allowance=allowance)


@pytest.fixture
def book() -> Ledger:
    return Ledger.in_memory()


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return opened(book)


def rule(scope: Scope) -> AllowanceFilter:
    found = scope.account().filter
    assert isinstance(found, AllowanceFilter)
    return found


def spent(scope: Scope) -> dict[str, str]:
    return dict(scope.account().spent_by_account)


def gaussian(noise: object) -> Once:
    return Once(claimed=dpl.GDP(1 / Decimal(str(noise))), made_of=dpl.GaussianLaw(str(noise)), kind="gaussian")


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_every_constant_is_in_the_entry_that_opens_the_scope(book: Ledger, scope: Scope) -> None:
    entry = next(entry for entry in book.entries() if isinstance(entry.body, ScopeOpened))
    assert isinstance(entry.body, ScopeOpened)
    assert entry.body.filter == rule(scope)
    assert (rule(scope).epsilon, rule(scope).delta) == (BUDGET.epsilon, BUDGET.delta)
    assert rule(scope).delta_rest == 0
    planned = dpl.compose((LAW, 200)).epsilon(BUDGET.delta).upper
    assert planned <= float(rule(scope).epsilon_law) <= planned * (1 + 3e-8)


def test_the_same_words_open_the_same_scope_again(book: Ledger, scope: Scope) -> None:
    assert opened(book).name == scope.name
    assert book.scope("rows").budget == BUDGET
    for other in ({"steps": 201}, {"law": dpl.GaussianLaw(41)}, {"delta_rest": "1e-7"}, {"steps": None, "share": 1}):
        with pytest.raises(ScopeError, match="another allowance"):
            opened(book, **other)
    plain = book.scope("plain", unit="record", relation="add_remove", budget=BUDGET)
    with pytest.raises(ScopeError, match="another allowance"):
        book.scope(plain.name, allowance=dpl.filters.Allowance(LAW, steps=200))


def test_a_share_opens_and_reopens_the_most_steps_in_it(book: Ledger) -> None:
    scope = opened(book, steps=None, share="0.8")
    steps = rule(scope).steps
    most = Decimal("0.8") * BUDGET.epsilon
    assert dpl.compose((LAW, steps)).epsilon(BUDGET.delta).upper <= most
    assert dpl.compose((LAW, steps + 1)).epsilon(BUDGET.delta).upper > most
    assert rule(opened(book, steps=None, share="0.8")).steps == rule(opened(book, steps=steps)).steps == steps


def test_what_does_not_fit_is_refused_before_anything_is_written(book: Ledger) -> None:
    before = len(book)
    for bad, field in (
        ({"steps": 10**6}, r"allowance\.steps"),
        ({"steps": 200, "delta_rest": "1e-5"}, r"allowance\.delta_rest"),
        ({"steps": 200, "share": 1}, "steps"),
        ({"steps": None}, "steps"),
        ({"steps": None, "share": 2}, "share"),
    ):
        with pytest.raises(ParameterError, match=field):
            opened(book, **bad)
    words = {"unit": "record", "relation": "add_remove"}
    short = AllowanceFilter(LAW, 200, 1, "1e-6", 2)
    with pytest.raises(ParameterError, match=r"epsilon_law: expected at least"):
        book.scope("rows", budget=short, **words)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="allowance"):
        book.scope("rows", budget=short, allowance=dpl.filters.Allowance(LAW, steps=3), **words)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="allowance"):
        book.scope("rows", budget=BUDGET, allowance=LAW, **words)  # type: ignore[arg-type]
    sampled = dpl.filters.Allowance(dpl.PoissonSampled(dpl.LaplaceLaw(9), rate="0.1"), steps=3)
    with pytest.raises(CannotCertify, match="replace_one"):
        book.scope("rows", unit="record", relation="replace_one", budget=BUDGET, allowance=sampled)
    assert len(book) == before


# ---- charging --------------------------------------------------------------------------------------------------------


def test_copies_and_rest_are_two_accounts(scope: Scope) -> None:
    scope.release(gaussian(40), 1)
    scope.release(gaussian(16), 1)  # (40/16)^2 = 6.25
    scope.release(laplace("0.1"), 1)
    assert spent(scope) == {"copies": "8", "pure": "0.1", "delta": "0"}
    assert [one.account for one in scope.account().admissions] == ["copies", "copies", "pure"]
    with pytest.raises(BudgetRefused, match="copies: asked 400, spent 8, left 192"):
        scope.release(gaussian(2), 1)
    with pytest.raises(BudgetRefused, match=r"pure: asked 2, spent 0\.1"):
        scope.release(laplace("2"), 1)
    with pytest.raises(BudgetRefused, match="pure: asked inf"):
        scope.release(Once(claimed=dpl.ZCDP("0.01"), made_of=dpl.ZCDP("0.01")), 1)


def test_what_no_currency_prices_as_a_whole_is_charged_part_by_part(scope: Scope) -> None:
    """A Gaussian has no epsilon, and a group that may fail has nothing else."""
    failing = dpl.Group(dpl.ApproxDP("0.1", "1e-9"), k=2, relation=dpl.Relation.ADD_REMOVE)
    with pytest.raises(BudgetRefused, match=r"copies: asked 1, .* pure: asked 0\.2, .* delta: asked 0\.0000000021"):
        scope.release(Once(claimed=dpl.ApproxDP(2, "1e-4"), made_of=dpl.Sequence((LAW, failing)),
                           causes=(PrivacyFailure("1e-4", "composition"),)), 1)  # fmt: skip


def test_the_last_copy_is_admitted_and_the_next_is_not(scope: Scope) -> None:
    for steps in (150, 49, 1):
        with scope.open(training(steps, "40"), None) as run:
            for _ in range(steps):
                run.ask(None)
    assert spent(scope)["copies"] == "200"
    assert scope.spent(BUDGET.delta).upper <= BUDGET.epsilon
    with pytest.raises(BudgetRefused):
        scope.release(gaussian(400), 1)


def test_steps_that_were_never_granted_come_back_from_runs_that_interleave(book: Ledger, scope: Scope) -> None:
    runs = [scope.open(training(80, "40"), None) for _ in range(2)]
    with pytest.raises(BudgetRefused, match="copies: asked 80, spent 160, left 40"):
        scope.open(training(80, "40"), None)
    with runs[0], runs[1]:
        for run in (runs[0], runs[1], runs[0]):
            run.ask(None)
    granted = [entry.body for entry in book.entries() if isinstance(entry.body, Committed)]
    assert [body.rule for body in granted] == ["steps", "steps"]
    used = int(spent(scope)["copies"])
    assert used == sum(one.granted for one in scope.account().admissions) < 160
    scope.open(training(80, "40"), None)
    book.verify()


def test_an_outcome_of_the_rest_settles_and_a_reserved_copy_may_be_aborted(scope: Scope) -> None:
    with scope.open(stream("0.4", 2), None) as answers:
        answers.ask(False)
    settled = Decimal(spent(scope)["pure"])
    assert 0 < settled < Decimal("0.4")
    reservation = scope.reserve(gaussian(40))
    assert spent(scope)["copies"] == "1"
    assert scope.spent(BUDGET.delta).upper > 1
    reservation.abort()
    assert spent(scope)["copies"] == "0"
    assert scope.account().reading(BUDGET.delta) == settled


def test_the_reading_is_that_of_the_law_once_a_copy_was_granted(scope: Scope) -> None:
    law = rule(scope)
    scope.release(laplace("0.25"), 1)
    assert scope.account().reading(BUDGET.delta) == Decimal("0.25")
    scope.release(gaussian(40), 1)
    assert scope.account().reading(BUDGET.delta) == law.epsilon_law + Decimal("0.25")
    assert scope.account().reading(BUDGET.delta / 2).is_infinite()


def test_a_scope_above_counts_in_its_own_way(book: Ledger) -> None:
    opened(book)
    words = {"unit": "record", "relation": "add_remove"}
    below = book.scope("below", budget=dpl.ApproxDP(3, "1e-6"), parents=["rows"], **words)  # type: ignore[arg-type]
    below.release(gaussian(40), 1)
    assert spent(book.scope("rows"))["copies"] == "1"
    assert "copies" not in spent(below)
    book.verify()


def test_training_of_ones_own_is_counted_step_by_step() -> None:
    """Runs of 30 steps each, as many as fit: the last one asks for what is left."""
    book, law = Ledger.in_memory(), dpl.PoissonSampled(dpl.GaussianLaw(2), rate="0.1")
    scope = opened(book, law, steps=100)
    rows = np.zeros((50, 2))
    for number in itertools.count():
        left = int(Decimal(scope.account().left_by_account["copies"]))
        if not left:
            break
        with dpl.private_sgd(
            scope, rows, lambda batch: batch, key=f"run-{number}",
            rate="0.1", steps=min(30, left), noise_multiplier=2, clip_norm=1, dimension=2, expected_batch_size=5,
        ) as run:  # fmt: skip
            for _ in run:
                pass
    assert number == 4
    assert scope.spent("1e-6").upper <= 3
    book.verify()


def test_the_transcript_as_one_tree_costs_no_more_than_the_budget(scope: Scope) -> None:
    scope.release(gaussian(16), 1)
    scope.release(laplace("0.1"), 1)
    tree = scope.account().composition
    assert isinstance(tree, Filtered)
    found = dpl.compose(tree).epsilon(BUDGET.delta)
    assert found.upper <= BUDGET.epsilon
    assert dpl.compose(dpl.Repeated(LAW, times=200)).epsilon(BUDGET.delta).upper <= found.upper
    boast = dataclasses.replace(rule(scope), epsilon_law=Decimal("0.001"), epsilon_rest=Decimal("0.1"))
    honest = dataclasses.replace(rule(scope), epsilon_rest=Decimal("0.1"))
    assert dpl.compose(Filtered(boast, tree.of)).epsilon("1e-6") == dpl.compose(Filtered(honest, tree.of)).epsilon(
        "1e-6"
    )


# ---- verifying -------------------------------------------------------------------------------------------------------


def bodies(book: Ledger) -> list[Body]:
    return [entry.body for entry in book.entries()]


@pytest.fixture
def honest() -> list[Body]:
    """What is forged below, by the key of the golden ledger."""
    book = Ledger.in_memory(entropy=None)
    scope = opened(book)
    with scope.open(training(80, "40"), None) as run:
        run.ask(None)
    golden = next(entry.body for entry in ledger_golden.build().entries())
    return [golden, *bodies(book)[1:]]


KEY: SigningKey = ledger_golden.KEY


def test_an_honest_record_verifies(honest: list[Body]) -> None:
    leaves, head = forged(honest, KEY)
    assert verify(leaves, head, KEY.public).mode == "full"


def test_an_allowance_that_says_less_than_its_law_costs_is_no_record(honest: list[Body]) -> None:
    index = next(number for number, body in enumerate(honest) if isinstance(body, ScopeOpened))
    body = honest[index]
    assert isinstance(body, ScopeOpened)
    assert isinstance(body.filter, AllowanceFilter)
    less = dataclasses.replace(body.filter, epsilon_law=body.filter.epsilon_law - Decimal("0.001"))
    more = dataclasses.replace(body.filter, steps=body.filter.steps + 1)
    several = dataclasses.replace(body.filter, law=dpl.Repeated(LAW, times=1))
    for bad, said in ((less, "epsilon_law"), (more, "epsilon_law"), (several, "law")):
        record = [*honest[:index], dataclasses.replace(body, filter=bad), *honest[index + 1 :]]
        leaves, head = forged(record, KEY)
        with pytest.raises(VerificationError, match=f"{said}: expected") as found:
            verify(leaves, head, KEY.public)
        assert found.value.index == index


@pytest.mark.parametrize("copies", ["0", "79", "79.5"])
def test_copies_that_are_not_all_charged_are_found(honest: list[Body], copies: str) -> None:
    record = [_with_copies(body, Decimal(copies)) if isinstance(body, Reserved) else body for body in honest]
    leaves, head = forged(record, KEY)
    with pytest.raises(VerificationError, match="charged less than its parts cost"):
        verify(leaves, head, KEY.public)


def test_a_refund_beyond_what_was_never_granted_is_found(honest: list[Body]) -> None:
    record = [_with_copies(body, Decimal(0)) if isinstance(body, Committed) else body for body in honest]
    leaves, head = forged(record, KEY)
    with pytest.raises(VerificationError, match="copies refunded beyond the rule"):
        verify(leaves, head, KEY.public)


def _with_copies(body: Reserved | Committed, copies: Decimal) -> Body:
    (level,) = body.levels
    return dataclasses.replace(body, levels=(LevelCharge(level.scope, {**level.amounts, "copies": copies}),))


# ---- telling ---------------------------------------------------------------------------------------------------------


def test_a_report_says_how_many_steps_of_which_law_were_used() -> None:
    book = Ledger.in_memory()
    scope = opened(book, dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), steps=1800)
    parts = dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01"), times=212)
    scope.release(Once(claimed=dpl.ZCDP("106"), made_of=parts, kind="training"), 1)
    scope.release(laplace("0.1"), 1)
    with pytest.raises(BudgetRefused):
        scope.release(laplace("1"), 1)
    told = report(book).markdown()
    assert "1,800 steps of gaussian (noise multiplier 1) on Poisson samples of rate 0.01, used 212" in told
    assert "steps of the allowance" in told
