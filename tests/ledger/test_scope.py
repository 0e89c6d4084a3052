"""What a scope promises its callers: which rules it has, what is kept, and what becomes of code that breaks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import LaplaceLaw, PoissonSampled, Repeated
from dpledger.accounting.filters import PureFilter
from dpledger.accounting.guarantees import ZCDP, ApproxDP, BoundedRange, PrivacyFailure, PureDP
from dpledger.errors import (
    AlreadySpent,
    BudgetRefused,
    CannotCertify,
    ClaimTooSmall,
    ContractViolation,
    DpledgerError,
    Halted,
    KeyReused,
    ParameterError,
    PolicyError,
    RelationError,
    ScopeBusy,
    ScopeError,
)
from dpledger.ledger.entries.bodies import Audited, Committed, Heartbeat, Reserved
from dpledger.ledger.entries.entry import format_entry
from dpledger.ledger.entries.members import MechanismNote
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import values
from dpledger.mechanisms.numeric import ClippedMean, Count, Laplace
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation, Unit
from ledger_mechanisms import Once, Stream, laplace, stream, training

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}


@pytest.fixture
def book() -> Ledger:
    return Ledger.in_memory()


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("s", budget=PureDP(2), **RULES)


def last(scope: Scope) -> Committed:
    """The last commit."""
    body = scope._ledger.entry(len(scope._ledger) - 1).body
    assert isinstance(body, Committed)
    return body


# ---- opening --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"unit": "household"}, "unit"),
        ({"unit": Unit("patient", 2)}, "unit"),
        ({"relation": "replace_one"}, "relation"),
        ({"budget": PureDP(3)}, "budget"),
        ({"budget": ApproxDP(2, "0.001")}, "budget"),
        ({"keep": "none"}, "keep"),
        ({"parents": ["t"]}, "parents"),
        ({"dataset": "another"}, "dataset"),
    ],
)
def test_a_scope_that_is_there_has_the_rules_it_was_opened_with(scope: Scope, other: dict[str, Any], what: str) -> None:
    book = scope._ledger
    assert isinstance(book, Ledger)
    with pytest.raises(ScopeError, match=what):
        book.scope("s", **other)
    assert book.scope("s", budget=PureDP(2), keep="value", **RULES).budget == PureDP(2)
    assert book.scope("s", budget=PureFilter(2)).budget == PureDP(2)
    assert len(book) == 2


@pytest.mark.parametrize("missing", ["unit", "relation", "budget"])
def test_to_open_a_scope_all_three_are_needed(book: Ledger, missing: str) -> None:
    rules = {**RULES, "budget": PureDP(1)}
    del rules[missing]
    with pytest.raises(ScopeError, match="to open it"):
        book.scope("s", **rules)


@pytest.mark.parametrize(
    "bad",
    [
        {"relation": "none"},
        {"unit": "a b"},
        {"budget": BoundedRange(1)},
        {"budget": PureDP(0)},
        {"keep": "all"},
        {"dataset": "a\x00b"},
    ],
)
def test_a_scope_with_bad_rules_is_refused_and_nothing_is_written(book: Ledger, bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        book.scope("s", **{**RULES, "budget": PureDP(1), **bad})
    for name in ("", "a b", "-", "x" * 129, "é"):
        with pytest.raises(ParameterError, match="scope"):
            book.scope(name, budget=PureDP(1), **RULES)
    assert len(book) == 1


def test_a_charge_counts_in_every_scope_above(book: Ledger) -> None:
    book.scope("z-hospital", budget=PureDP(1), **RULES)
    book.scope("clinic", budget=PureDP(5), parents=["z-hospital"], **RULES)
    ward = book.scope("ward", budget=PureDP(5), parents=["clinic"], **RULES)
    other = book.scope("other", budget=PureDP(5), parents=["z-hospital"], **RULES)
    ward.release(laplace("0.7"), 1)
    assert [level.scope for level in last(ward).levels] == ["clinic", "ward", "z-hospital"]
    with pytest.raises(BudgetRefused) as refused:
        other.release(laplace("0.4"), 1)
    assert refused.value.scope == "z-hospital"
    other.release(laplace("0.3"), 1)
    sums = {name: scope.sums["pure"][0] for name, scope in book.state.scopes.items()}
    charged = {"clinic": "0.7", "ward": "0.7", "other": "0.3", "z-hospital": "1"}
    assert sums == {name: Decimal(epsilon) for name, epsilon in charged.items()}
    assert len(other.account().refusals) == 0  # the refusal stands with the level that refused
    assert len(book.scope("z-hospital").account().refusals) == 1
    book.verify()


def test_a_child_protects_what_its_parent_protects(book: Ledger) -> None:
    book.scope("top", budget=PureDP(1), **RULES)
    for other in ({"unit": "household"}, {"relation": "replace_one"}):
        with pytest.raises(ScopeError, match="another relation or unit"):
            book.scope("child", budget=PureDP(1), parents=["top"], **{**RULES, **other})
    with pytest.raises(ScopeError, match="never opened"):
        book.scope("child", budget=PureDP(1), parents=["nowhere"], **RULES)


def test_an_ended_scope_and_an_ended_ledger_begin_nothing(book: Ledger, scope: Scope) -> None:
    held = scope.reserve(laplace())
    running = scope.open(stream(), None)
    scope.release(laplace(), 7, key="before")
    scope.end("the study is over")
    for begin in (
        lambda: scope.release(laplace(), 1),
        lambda: scope.declare("limits", "none", by="me"),
        lambda: book.scope("t", budget=PureDP(1), parents=["s"], **RULES),
    ):
        with pytest.raises(ScopeError, match=r"closed|not open"):
            begin()
    assert scope.release(laplace(), 7, key="before").value == 7  # what was released is answered
    running.close()
    held.abort()
    book.end("moved")
    with pytest.raises(PolicyError, match="ended"):
        book.declare("limits", "none", by="me")
    assert book.verify().state.closed


# ---- before anything is spent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (replace(laplace(), relation=Relation.REPLACE_ONE), RelationError),
        (replace(laplace(), unit=Unit("household")), RelationError),
        (replace(laplace(), claimed=PureDP("0.09")), ClaimTooSmall),
        (replace(laplace(), claimed=ZCDP("0.000001")), ClaimTooSmall),
        (replace(laplace(), claimed=ApproxDP("0.1", "0.001")), ParameterError),
        (replace(laplace(), causes=(PrivacyFailure("0.1", "numeric"),)), ParameterError),
        (replace(laplace(), made_of=Repeated(LaplaceLaw("0.01"), times=10, done=3)), ParameterError),
        (replace(laplace(), kind="a b"), ParameterError),
        (replace(laplace(), public={"Upper": "case"}), ParameterError),
        (replace(laplace(), public={"text": "\u202e"}), ParameterError),
        (replace(laplace(), public={"long": ["x" * 4000] * 20}), ParameterError),
        (stream(), ParameterError),
        ("laplace", ParameterError),
    ],
)
def test_a_mechanism_that_cannot_be_used_is_refused_before_it_is_charged(
    scope: Scope, mechanism: Any, error: type[DpledgerError]
) -> None:
    with pytest.raises(error):
        scope.release(mechanism, 1)
    assert len(scope._ledger) == 2


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 129, "-a"])
def test_a_key_is_an_id(scope: Scope, key: str) -> None:
    with pytest.raises(ParameterError, match="key"):
        scope.release(laplace(), 1, key=key)
    assert len(scope._ledger) == 2


def test_data_that_are_not_for_the_mechanism_are_refused_before_it_is_charged(scope: Scope) -> None:
    class Inspecting(Once):
        def inspect(self, data: object) -> None:
            if not isinstance(data, list):
                raise ParameterError("data", type(data).__name__, "a list")

    begins: tuple[Callable[[], object], ...] = (
        lambda: scope.release(Inspecting(), 3),
        lambda: scope.reserve(Inspecting(), key="k").release(3),
    )
    for begin in begins:
        with pytest.raises(ParameterError, match="data"):
            begin()
    assert [one.status for one in scope.account().admissions] == ["reserved"]
    assert scope.release(Inspecting(), [3]).value == [3]


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        (Laplace(sensitivity=1, epsilon="0.1"), [1, 2]),
        (Laplace(sensitivity=1, epsilon="0.1"), None),
        (Count(epsilon="0.1", of="rows"), {"a": 1}),
        (ClippedMean(epsilon="0.1", lower=0, upper=1), np.zeros((3, 2))),
    ],
)
def test_noise_alone_is_never_the_answer_to_data_of_a_wrong_kind(scope: Scope, mechanism: Any, data: object) -> None:
    with pytest.raises(ParameterError, match="data: expected"):
        scope.release(mechanism, data)
    assert len(scope._ledger) == 2


def test_what_is_nearly_a_mechanism_is_told_what_it_lacks(scope: Scope) -> None:
    class Nearly:
        kind = "nearly"

        def release(self, data: object, *, entropy: object) -> None:
            raise AssertionError("never run")

    lacks = "this object lacks relation, unit, under, claim, parts, failures, parameters"
    with pytest.raises(ParameterError, match=lacks):
        scope.release(Nearly(), 1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a mechanism that answers once"):
        scope.release(Nearly, 1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"dpl\.Laplace\(.*scope\.guard`, got function"):
        scope.release(lambda rows: len(rows), [1])  # type: ignore[arg-type]
    assert len(scope._ledger) == 2


def test_what_has_no_price_in_the_filter_is_refused(scope: Scope) -> None:
    with pytest.raises(BudgetRefused, match=r"asked inf.*no theorem prices it in pure: a budget with a delta"):
        scope.release(replace(laplace(), claimed=ZCDP("0.1"), made_of=ZCDP("0.1")), 1)


def test_a_key_stands_for_one_request(scope: Scope) -> None:
    first = scope.release(laplace(), 5, key="k")
    assert scope.release(laplace(), 6, key="k") == first
    with pytest.raises(KeyReused, match=rf"another request \(entry {first.entry.index} ended it; `scope.releases"):
        scope.release(laplace("0.2"), 5, key="k")
    with scope.reserve(laplace(), key="held"), pytest.raises(KeyReused, match="still open"):
        scope.release(laplace("0.2"), 5, key="held")
    book = scope._ledger
    assert isinstance(book, Ledger)
    other = book.scope("t", budget=PureDP(1), **RULES)
    assert other.release(laplace("0.2"), 6, key="k").value == 6
    with scope.reserve(laplace(), key="gone"):
        pass
    with pytest.raises(AlreadySpent):
        scope.release(laplace(), 5, key="gone")
    with scope.open(stream(), None, key="stream"):
        pass
    with pytest.raises(AlreadySpent):
        scope.open(stream(), None, key="stream")


# ---- what is kept ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [1, -(2**70), 0.1, float("inf"), "text", None, True, (1, (2.5, "a")), [1, [2]], np.arange(4.0)]
)
def test_a_plain_value_is_kept_and_answers_a_repetition(scope: Scope, value: Any) -> None:
    first = scope.release(laplace(), value, key="k")
    again = scope.release(laplace(), "other data", key="k")
    assert type(again.value) is type(value)
    assert np.array_equal(again.value, value) if isinstance(value, np.ndarray) else again.value == value
    assert again.entry == first.entry


@pytest.mark.parametrize("value", [object(), {1: 2}, np.zeros(10**5), "x" * 70_000, np.array([None]), 1j])
def test_any_other_value_is_handed_out_and_not_kept(scope: Scope, value: Any) -> None:
    assert scope.release(laplace(), value, key="k").value is value
    with pytest.raises(AlreadySpent, match=r"'k' was used in scope '.+', .* released then and not kept .* load what"):
        scope.release(laplace(), value, key="k")


def test_a_list_in_itself_is_not_kept() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert values.kept(endless) is None


def test_a_digest_is_opened_by_its_salt_alone(book: Ledger) -> None:
    scope = book.scope("d", budget=PureDP(1), keep="digest", **RULES)
    receipt = scope.release(laplace(), 41.5, key="k")
    assert receipt.salt is not None
    body = last(scope)
    assert body.digest == values.digest(41.5, receipt.salt)
    assert body.digest != values.digest(41.4, receipt.salt)
    assert body.digest != values.digest(41.5, bytes(32))
    with pytest.raises(AlreadySpent):
        scope.release(laplace(), 41.5, key="k")
    without = scope.release(laplace(), object())
    assert without.salt is None
    assert last(scope).digest is None
    assert "no digest" in last(scope).warnings[0]


def test_nothing_is_kept_where_nothing_is_to_be(book: Ledger) -> None:
    scope = book.scope("n", budget=PureDP(1), keep="none", **RULES)
    receipt = scope.release(laplace(), 41.5, key="k")
    assert (receipt.value, receipt.salt, last(scope).digest) == (41.5, None, None)
    with pytest.raises(AlreadySpent):
        scope.release(laplace(), 41.5, key="k")


def test_no_output_and_no_data_are_in_any_entry(book: Ledger, scope: Scope) -> None:
    scope.release(laplace(), "the-output-4711", key="k")
    with pytest.raises(ContractViolation):
        scope.release(Once(run=raising(ValueError("the-data-4711"))), "the-data-4711")
    told = "".join(str(format_entry(entry)) for entry in book.entries())
    assert "release" in told
    assert "the-output" not in told
    assert "the-data" not in told


# ---- code that breaks -----------------------------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[Any, Any], Any]:
    def run(data: Any, parts: Any) -> Any:
        raise error

    return run


SECRETIVE = [ValueError("patient 7"), ParameterError("age", "77", "x"), MemoryError("7"), Halted("7")]


@pytest.mark.parametrize("error", SECRETIVE)
def test_what_a_mechanism_raises_never_leaves_and_the_full_charge_stands(scope: Scope, error: Exception) -> None:
    with pytest.raises(ContractViolation) as seen:
        scope.release(Once(run=raising(error)), 1, key="k")
    assert "7" not in str(seen.value)
    assert seen.value.__cause__ is None
    assert seen.value.__context__ is None
    body = last(scope)
    assert (body.rule, body.outside_guarantee, body.levels[0].amounts["pure"]) == ("cap", True, Decimal("0.1"))
    with pytest.raises(AlreadySpent):
        scope.release(Once(run=raising(error)), 1, key="k")


def test_an_interruption_goes_through_and_the_full_charge_stands(scope: Scope) -> None:
    with pytest.raises(KeyboardInterrupt):
        scope.release(Once(run=raising(KeyboardInterrupt())), 1)
    assert (last(scope).rule, last(scope).outside_guarantee) == ("cap", False)
    session = scope.open(stream(), None)
    with pytest.raises(KeyboardInterrupt):
        session.ask(interrupt)
    with pytest.raises(Halted):
        session.close()
    assert (last(scope).rule, last(scope).outside_guarantee) == ("cap", False)


def interrupt() -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "returned",
    [
        None,
        1,
        Release(value=1, parts=LaplaceLaw("0.05")),
        Release(value=1, parts=Repeated(LaplaceLaw("0.1"), times=1, done=1)),
    ],
)
def test_a_release_of_other_parts_is_withheld(scope: Scope, returned: Any) -> None:
    with pytest.raises(ContractViolation):
        scope.release(Once(run=lambda data, parts: returned), 1)
    assert (last(scope).rule, last(scope).outside_guarantee) == ("cap", True)
    scope._ledger.verify()


def test_a_run_that_left_its_guarantee_is_charged_in_full_and_not_kept(scope: Scope) -> None:
    def run(data: Any, parts: Any) -> Release[Any]:
        return Release(value=data, parts=parts, warnings=("the solver did not converge",), outside_guarantee=True)

    assert scope.release(Once(run=run), 1, key="k").value == 1
    assert last(scope).outside_guarantee
    assert last(scope).warnings == ("the solver did not converge",)
    with pytest.raises(AlreadySpent):
        scope.release(Once(run=run), 1, key="k")


def test_an_outcome_that_fits_into_no_entry_is_charged_at_its_cap(book: Ledger) -> None:
    scope = book.scope("wide", budget=PureDP(10), **RULES)
    with scope.open(stream("1", cutoff=40_000), None) as answers:
        for _ in range(30_000):
            answers.ask(False)
    body = last(scope)
    assert (body.rule, body.outside_guarantee) == ("cap", False)
    assert body.warnings == ("the outcome does not fit into an entry: charged at its cap",)
    assert answers.receipt.value == 30_000
    book.verify()


@pytest.mark.parametrize("warning", ["w" * 5000, "a\ttab"])
def test_a_run_that_left_its_guarantee_is_recorded_so_where_its_words_do_not_fit(scope: Scope, warning: str) -> None:
    def run(data: Any, parts: Any) -> Release[Any]:
        return Release(value=data, parts=parts, warnings=(warning,), outside_guarantee=True)

    scope.release(Once(run=run), 1)
    assert (last(scope).rule, last(scope).outside_guarantee) == ("cap", True)
    assert last(scope).warnings == ("the outcome does not fit into an entry: charged at its cap",)
    scope._ledger.verify()


def test_one_outcome_for_many_runs_refunds_none_of_them(scope: Scope) -> None:
    run = scope.open(stream("0.5"), None)
    run.ask(True)
    outcome = run.close().entry.body
    assert isinstance(outcome, Committed)
    twice = Once(
        claimed=PureDP(1),
        made_of=Repeated(stream("0.5").made_of, times=2),
        run=lambda data, parts: Release(value=data, parts=Repeated(outcome.parts, times=2)),
    )
    scope.release(twice, 1)
    assert last(scope).levels[0].amounts["pure"] == 1


def test_a_query_that_raises_ends_the_interaction_at_its_cap(scope: Scope) -> None:
    def broken() -> bool:
        raise RuntimeError("patient 7")

    answers = scope.open(stream(), 1)
    answers.ask(True)
    with pytest.raises(ContractViolation, match="the full charge stands") as seen, answers:
        answers.ask(broken)
    assert "7" not in str(seen.value)
    body = last(scope)
    assert (body.rule, body.outside_guarantee, body.levels[0].amounts["pure"]) == ("cap", True, Decimal("0.5"))
    with pytest.raises(Halted, match="broke its contract"):
        answers.ask(True)
    with pytest.raises(Halted, match="broke its contract"):
        _ = answers.receipt


def test_leaving_by_an_exception_of_ones_own_commits_what_was_asked(scope: Scope) -> None:
    class Mine(Exception):
        pass

    answers = scope.open(stream(), 1)
    answers.ask(True)
    with pytest.raises(Mine), answers:
        raise Mine
    assert last(scope).rule == "ex_post"
    assert answers.close() is answers.receipt


def test_after_its_halt_an_interaction_answers_nothing_and_charges_nothing(scope: Scope) -> None:
    with scope.open(stream("0.5", 1), 1) as answers:
        assert answers.ask(False) is False
        size = len(scope._ledger)
        with pytest.raises(Halted):
            answers.ask(True)
        assert len(scope._ledger) == size
    with pytest.raises(Halted):
        answers.ask(True)


def test_a_training_run_is_granted_its_steps_before_they_run(book: Ledger) -> None:
    scope = book.scope("t", budget=ApproxDP(3, "0.000001"), **RULES)
    with scope.open(training(40), None) as run:
        for number in run.steps():
            assert run.ask(None) == number + 1
            (charge,) = book.state.open.values()
            assert number + 1 <= charge.granted <= number + 2
        with pytest.raises(Halted, match="all 40"):
            run.ask(None)
    assert last(scope).rule == "cap"  # all of it ran
    with scope.open(training(40), None):
        pass
    body = last(scope)
    assert body.rule == "steps"
    assert body.levels[0].amounts["mixed_rdp_0"] == 0


@dataclass(frozen=True)
class Paced(Stream):
    """A stream with a parameter that happens to be called `steps`."""

    steps: int = 3


def test_a_parameter_named_steps_makes_no_training_run(book: Ledger, scope: Scope) -> None:
    paced = Paced(claimed=PureDP("0.5"), made_of=stream().parts(), kind="paced")
    with scope.open(paced, None) as run:
        assert [run.ask(True) for _ in range(7)] == [True] * 7
        with pytest.raises(ScopeError, match="only a training run"):
            run.steps()
    (admission,) = scope.account().admissions
    assert (admission.form, admission.steps, admission.granted) == ("interaction", None, 0)
    assert admission.rule == "ex_post"


def test_an_exclusive_interaction_overlaps_nothing_interactive(book: Ledger) -> None:
    scope = book.scope("x", budget=ApproxDP(3, "0.001"), **RULES)
    exclusive = ExclusiveStream(
        claimed=ZCDP("0.01", "0.0001"), made_of=ZCDP("0.01", "0.0001"), causes=(PrivacyFailure("0.0001", "numeric"),)
    )
    with scope.open(exclusive, None):
        with pytest.raises(ScopeBusy):
            scope.open(stream("0.1"), None)
        with pytest.raises(ScopeBusy):
            scope.open(exclusive, None)
        with pytest.raises(ScopeBusy):
            scope.release(laplace(), 1)
    with scope.open(stream("0.1"), None), pytest.raises(ScopeBusy):
        scope.open(exclusive, None)
    book.verify()


def test_what_was_reserved_before_an_exclusive_interaction_waits_for_its_end(book: Ledger) -> None:
    """Run between its answers it would choose what is asked of it. It may be given back."""
    exclusive = ExclusiveStream(
        claimed=ZCDP("0.01", "0.0001"), made_of=ZCDP("0.01", "0.0001"), causes=(PrivacyFailure("0.0001", "numeric"),)
    )
    above = book.scope("all", budget=ApproxDP(3, "0.001"), **RULES)
    ward, other = (book.scope(name, budget=ApproxDP(3, "0.001"), parents=["all"], **RULES) for name in ("a", "b"))
    held, given_back, elsewhere = above.reserve(laplace()), ward.reserve(laplace()), other.reserve(laplace())
    with ward.open(exclusive, None):
        for reserved in (held, elsewhere):
            size = len(book)
            with pytest.raises(ScopeBusy, match="exclusive interaction is open"):
                reserved.release(7)
            assert len(book) == size
        given_back.abort()
    assert (held.release(7).value, elsewhere.release(8).value) == (7, 8)
    book.verify()


class ExclusiveStream(Stream):
    """An interaction whose own guarantee is an approximate zCDP."""

    def open(self, data: Any, *, entropy: Any) -> Any:
        made_of = self.made_of

        class Run:
            def ask(self, query: Any, /) -> Any:
                return query

            def close(self) -> Release[None]:
                return Release(value=None, parts=made_of)

        return Run()


# ---- notes ----------------------------------------------------------------------------------------------------------


def test_notes_charge_nothing_and_are_about_what_they_say(book: Ledger, scope: Scope) -> None:
    sums = book.state.scopes["s"].sums
    book.declare("limits", "none known", by="me")
    scope.declare("sensitivity", "at most one", by="me")
    audit = Audited(
        mechanism=MechanismNote("laplace", {}, "test"),
        claim=PureDP(1),
        relation=Relation.ADD_REMOVE,
        verdict="not_refuted",
        epsilon_lower="0.5",
        delta="0",
        confidence="0.95",
        trials_left=10,
        trials_right=10,
        event="output >= 1",
        method="threshold",
    )
    assert [step.scope for step in scope.record(audit).body.path] == ["s"]  # type: ignore[union-attr]
    book.record(audit)
    book.record(Heartbeat())
    assert book.state.scopes["s"].sums == sums
    with pytest.raises(ScopeError):
        book.record(audit, about=["nowhere"])
    book.verify()


def test_only_notes_are_recorded_from_outside(book: Ledger, scope: Scope) -> None:
    scope.release(laplace(), 1)
    for entry in list(book.entries()):
        with pytest.raises(ParameterError, match="a note"):
            book.record(entry.body)  # type: ignore[arg-type]


def test_a_charge_whose_process_died_is_noted_and_stays(book: Ledger, scope: Scope) -> None:
    scope.reserve(laplace(), key="k")
    reserved = book.entry(len(book) - 1).body
    assert isinstance(reserved, Reserved)
    scope.note_lost(reserved.charge, "the host was switched off")
    assert scope.account().spent_by_account == {"pure": "0.1"}
    with pytest.raises(ParameterError, match="open"):
        scope.note_lost("0" * 32, "unknown")
    book.verify()


def test_a_snapshot_is_written_every_so_many_entries() -> None:
    book = Ledger.in_memory()
    for _ in range(1000):
        book.record(Heartbeat())
    kinds = [entry.body.kind for entry in book.entries()]
    assert kinds.count("snapshot") == 1
    assert kinds[1000] == "snapshot"
    book.verify()


def test_what_no_theorem_prices_raises_before_it_is_charged(scope: Scope) -> None:
    unknown = replace(laplace(), claimed=PureDP(1), made_of=PoissonSampled(ZCDP(1), rate="0.5"))
    with pytest.raises(CannotCertify):
        scope.release(unknown, 1)
    assert len(scope._ledger) == 2


def test_a_copy_of_a_scope_is_that_scope() -> None:
    """What is copied with it, like a model that holds it, spends there."""
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
    assert copy.copy(scope) is scope
    assert copy.deepcopy([scope])[0] is scope
