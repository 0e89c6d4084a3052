"""Many questions at once: the law of asking one by one, exactly; what is counted, what halts, what is refused."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.errors import ContractViolation, ForkedProcess, Halted, ParameterError, PolicyError, ScopeError
from dpledger.mechanisms.entropy import Entropy, Words, seeded, system
from dpledger.mechanisms.noise import DiscreteLaplace, recording
from dpledger.mechanisms.protocol import AnswersMany, Release
from dpledger.mechanisms.threshold import (
    AnswerCounts,
    Outcome,
    SparseVector,
    SparseVectorRun,
    epochs,
    threshold_run as runs,
)
from dpledger.mechanisms.threshold.epochs import Epochs
from dpledger.mechanisms.threshold.sparse_vector import thresholding
from forking import in_child
from ledger_mechanisms import stream, training
from logged_draws import declared
from threads import together

ABOVE, BELOW = Outcome.ABOVE, Outcome.BELOW
LOUD: dict[str, Any] = {"epsilon": 1000, "cutoff": 2, "threshold": 10, "sensitivity": 1}  # noise far below one


def outcome(release: Release[Any]) -> SparseVectorOutcome:
    assert isinstance(release.parts, SparseVectorLaw)
    assert release.parts.outcome is not None
    return release.parts.outcome


# ---- the law --------------------------------------------------------------------------------------------------------

VALUES = (11, 9, 10)
Ask = Callable[[SparseVectorRun, Sequence[int]], Iterator[Outcome]]


def one_by_one(run: SparseVectorRun, values: Sequence[int]) -> Iterator[Outcome]:
    yield from map(run.ask, values)


def at_once(run: SparseVectorRun, values: Sequence[int]) -> Iterator[Outcome]:
    yield from run.ask_many(list(values))


def in_two(run: SparseVectorRun, values: Sequence[int]) -> Iterator[Outcome]:
    yield from run.ask_many(list(values[:1]))
    yield from run.ask_many(np.array(values[1:]))


def by_turns(run: SparseVectorRun, values: Sequence[int]) -> Iterator[Outcome]:
    yield from run.ask_many(list(values[:2]))
    yield from map(run.ask, values[2:])


class Door:
    """A door whose noise is -1, 0 or 1, read from a tape: a tape that ends goes on with -1."""

    def __init__(self, tape: list[int]) -> None:
        self.tape, self.read = tape, 0

    def __call__(self, law: Any, value: Any, *, sensitivity: object, entropy: object) -> Any:
        if not isinstance(value, np.ndarray):
            return value + self.next()
        return value + np.array([self.next() for _ in range(value.size)], dtype=np.int64)

    def next(self) -> int:
        if self.read == len(self.tape):
            self.tape.append(-1)
        self.read += 1
        return self.tape[self.read - 1]


def law_of(ask: Ask, tests: SparseVector, monkeypatch: pytest.MonkeyPatch) -> dict[object, Fraction]:
    """The exact distribution of what is answered and told, over every tape."""
    law: Counter[object] = Counter()
    tape: list[int] = []
    while True:
        door = Door(tape)
        monkeypatch.setattr(epochs, "draw", door)
        run, answers = tests.open(None, entropy=seeded(0)), []
        try:
            for answer in ask(run, VALUES):
                answers.append(answer)  # noqa: PERF402 - those before a halt count
        except Halted:
            pass
        law[tuple(answers), run.close()] += Fraction(1, 3 ** len(tape))  # type: ignore[assignment]
        while tape and tape[-1] == 1:
            tape.pop()
        if not tape:
            return dict(law)  # type: ignore[arg-type]
        tape[-1] += 1


@pytest.mark.parametrize("change", [{}, {"max_queries": 2}, {"cutoff": 1}, {"charged": "above"}], ids=str)
@pytest.mark.parametrize("mode", ["single_threshold", "basic", "target_charging"])
def test_batches_have_the_law_of_asking_one_by_one(
    mode: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is drawn and never looked at adds up to nothing."""
    delta = "0.1" if mode == "target_charging" else 0
    tests = SparseVector(
        **{
            "epsilon": 1,
            "cutoff": 2,
            "threshold": 10,
            "sensitivity": 1,
            "grid": 1,
            "mode": mode,
            "delta": delta,
            **change,
        }
    )
    exact = law_of(one_by_one, tests, monkeypatch)
    assert sum(exact.values()) == 1
    assert len(exact) > 1
    for ask in (at_once, in_two, by_turns):
        assert law_of(ask, tests, monkeypatch) == exact


class Careless(Epochs):
    """A twin that keeps one threshold through a batch of a mode that renews it."""

    def _failed(self, noisy: Any, charges: int) -> Any:
        return np.flatnonzero(noisy <= self._threshold())[:charges]


def test_a_batch_that_renews_no_threshold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = SparseVector(epsilon=1, cutoff=2, threshold=10, grid=1, mode="basic", sensitivity=1)
    exact = law_of(one_by_one, tests, monkeypatch)
    monkeypatch.setattr(runs, "Epochs", Careless)
    assert law_of(at_once, tests, monkeypatch) != exact


@pytest.mark.parametrize("mode", ["single_threshold", "basic", "kov", "target_charging"])
def test_long_batches_fail_as_often_as_they_should(mode: Any) -> None:
    """Through several blocks and windows: queries at the threshold fail with the probability of the noise's tail."""
    tests = SparseVector(epsilon=400, delta="0.1", cutoff=10**5, threshold=0, grid=1, sensitivity=1, mode=mode)
    run = tests.open(None, entropy=seeded(4))
    answers = run.ask_many(np.zeros(40_000))
    failed = sum(answer is BELOW for answer in answers)
    told = outcome(run.close())
    assert (len(told.closed_epochs), told.tests) == (failed, 40_000)
    starts = [place for place, answer in enumerate(answers, 1) if answer is BELOW]
    assert list(itertools.accumulate(told.closed_epochs)) == starts
    if mode == "target_charging":
        q = math.exp(-1 / float(tests.parts().query_scale))
        fails = 1 - q / (1 + q)
        assert abs(failed - 40_000 * fails) < 8 * math.sqrt(40_000 * fails * (1 - fails))  # beyond it: below 1e-14


# ---- what is counted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["single_threshold", "basic"])
def test_answers_end_with_the_one_that_halts(mode: Any) -> None:
    run = SparseVector(**LOUD, mode=mode).open(None, entropy=seeded(1))
    assert run.ask_many([20, 0, 20, 0, 20, 20]) == (ABOVE, BELOW, ABOVE, BELOW)
    with pytest.raises(Halted):
        run.ask_many([20])
    release = run.close()
    assert release.value == AnswerCounts(asked=4, above=2, below=2, halted=True)
    assert outcome(release) == SparseVectorOutcome((2, 2), 0, True)


def test_an_epoch_goes_on_from_batch_to_batch() -> None:
    run = SparseVector(**LOUD, mode="basic").open(None, entropy=seeded(1))
    run.ask_many([20, 20])
    assert run.ask(20) is ABOVE
    assert run.ask_many([20, 0, 20]) == (ABOVE, BELOW, ABOVE)
    assert outcome(run.close()) == SparseVectorOutcome((5,), 1, False)


def test_no_more_than_max_queries_are_answered_or_evaluated() -> None:
    run = SparseVector(**LOUD, max_queries=3).open([1] * 20, entropy=seeded(1))
    asked: list[int] = []

    def query(data: Any) -> int:
        asked.append(1)
        return len(data)

    assert run.ask(20) is ABOVE
    assert run.ask_many([query] * 10) == (ABOVE, ABOVE)
    assert len(asked) == 2
    with pytest.raises(Halted):
        run.ask_many([query])


def test_no_questions_have_no_answers() -> None:
    run = SparseVector(**LOUD).open(None, entropy=seeded(1))
    assert run.ask_many([]) == run.ask_many(np.array([])) == ()
    assert run.close().value.asked == 0


@pytest.mark.parametrize(
    "values",
    [
        np.array([20.0, 3.0, np.nan, 30.0]),
        np.array([20, 3, -5], dtype=np.int8),
        np.array([20, 3, 2**63 + 5], dtype=np.uint64),
        np.array([True, False]),
        np.array([20.0, np.inf, -np.inf], dtype=np.float32),
        np.array([1e300, -1e300, 5e-324]),
        np.array([20, Decimal(3), Fraction(31, 2)], dtype=object),
        pd.Series([20.5, 1.5, 12.0]),
        [20, lambda _: 3, Fraction(21, 2)],
        (10**30, -(10**30)),
    ],
    ids=lambda values: str(getattr(values, "dtype", type(values).__name__)),
)
@pytest.mark.parametrize("change", [{}, {"charged": "above", "missing": "above"}, {"grid": 2**20, "sensitivity": 1}])
def test_every_kind_of_number_counts_as_when_it_is_asked_alone(values: Any, change: dict[str, Any]) -> None:
    tests = SparseVector(**{**LOUD, "cutoff": 9, **change})
    with recording() as alone:
        run = tests.open(None, entropy=seeded(2))
        for value in values:
            run.ask(value)
    with recording() as together_:
        tests.open(None, entropy=seeded(2)).ask_many(values)
    law = thresholding(tests).query_noise
    singles = [draw.value for draw in alone if draw.law == law]
    (batch,) = (draw.value for draw in together_ if draw.law == law)
    assert isinstance(batch, np.ndarray)
    assert batch.tolist() == singles


def test_the_log_shows_the_law_the_values_and_the_sensitivity() -> None:
    tests = SparseVector(epsilon=1, cutoff=50, threshold=0, grid=1, mode="basic", sensitivity=1)
    with recording() as draws:
        tests.open(None, entropy=seeded(3)).ask_many(np.zeros(5))
    query = [draw for draw in draws if draw.law == DiscreteLaplace(tests.parts().query_scale)]
    assert [draw.size for draw in query] == [5]
    assert {declared(draw).norm for draw in draws} == {"linf"}
    thresholds = [draw for draw in draws if draw.law == DiscreteLaplace(tests.parts().threshold_scale)]
    assert len(draws) == len(query) + len(thresholds)


@pytest.mark.parametrize("mode", ["single_threshold", "basic"])
def test_noise_is_drawn_in_vectors(mode: Any) -> None:
    """A hundred thousand queries in seven draws, and thresholds by the hundred: no draw for each query or charge."""
    tests = SparseVector(epsilon=500, cutoff=10**5, threshold=0, grid=1, mode=mode, sensitivity=1)
    run = tests.open(None, entropy=seeded(3))
    with recording() as draws:
        assert len(run.ask_many(np.tile([10**6, 10**6, 10**6, -(10**6)], 25_000))) == 100_000
    query = [draw for draw in draws if draw.law == DiscreteLaplace(tests.parts().query_scale)]
    assert sorted({draw.size for draw in query}) == [100_000 % 2**14, 2**14]
    assert len(query) == 7
    assert len(draws) - len(query) <= (1 if mode == "single_threshold" else 25_000 // 256 + 7 + 1)
    assert len(outcome(run.close()).closed_epochs) == 25_000


# ---- what breaks ----------------------------------------------------------------------------------------------------


class Counting:
    """Entropy that says how many words were drawn."""

    def __init__(self) -> None:
        self.drawn, self.source = 0, seeded(0)

    def words(self, count: int, /) -> Words:
        self.drawn += count
        return self.source.words(count)


def broken(_: Any) -> float:
    raise ValueError("a unit's name")


@pytest.mark.parametrize("bad", [broken, lambda _: "x", "x", None])
def test_a_query_that_breaks_its_contract_closes_the_run_before_any_noise(bad: Any) -> None:
    entropy = Counting()
    run = SparseVector(**LOUD).open(None, entropy=entropy)
    with pytest.raises(ContractViolation) as caught:
        run.ask_many([20, bad, 20])
    assert "unit" not in str(caught.value)
    assert entropy.drawn == 0
    release = run.close()
    assert release.outside_guarantee
    assert release.value.asked == 0


@pytest.mark.parametrize("bad", ["text", 3, None, {1, 2}, np.zeros((2, 2)), np.float64(1), iter([1])])
def test_what_is_no_list_of_queries_is_refused_and_nothing_is_asked(bad: Any) -> None:
    run = SparseVector(**LOUD).open(None, entropy=seeded(1))
    with pytest.raises(ParameterError, match=r"^queries"):
        run.ask_many(bad)
    assert run.ask(20) is ABOVE


def test_threads_share_the_answers_that_are_left() -> None:
    run = SparseVector(epsilon=1, cutoff=3, threshold=-(10**6), max_queries=1000, sensitivity=1).open(
        None, entropy=system()
    )

    def work() -> int:
        given = 0
        try:
            while True:
                given += len(run.ask_many(np.zeros(7)))
        except Halted:
            return given

    assert sum(given for given in together(*[work] * 4) if isinstance(given, int)) == 1000
    assert run.close().value.asked == 1000


def test_a_forked_child_gets_no_answers() -> None:
    run = SparseVector(**LOUD).open(None, entropy=system())
    assert ForkedProcess.__name__ in in_child(lambda: run.ask_many([20]))


# ---- through a scope ------------------------------------------------------------------------------------------------


@pytest.fixture
def scope() -> dpl.Scope:
    return dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(3000))


def test_a_session_forwards_a_batch_and_counts_its_answers(scope: dpl.Scope) -> None:
    with scope.open(SparseVector(**LOUD), [1] * 20) as tests:
        assert tests.ask_many([len, 0, 20]) == (ABOVE, BELOW, ABOVE)
        assert tests.ask_many(np.array([0.0, 20.0])) == (BELOW,)
        with pytest.raises(Halted):
            tests.ask_many([1])
    assert tests.receipt.value == AnswerCounts(asked=4, above=2, below=2, halted=True)
    (admission,) = scope.account().admissions
    assert admission.parts.outcome == SparseVectorOutcome((2, 2), 0, True)  # type: ignore[union-attr]


def test_a_bad_container_costs_nothing_and_a_broken_query_the_cap(scope: dpl.Scope) -> None:
    with scope.open(SparseVector(**LOUD), None) as tests:
        with pytest.raises(ParameterError, match="queries"):
            tests.ask_many({20})  # type: ignore[arg-type]
        assert tests.ask_many([20, 20]) == (ABOVE, ABOVE)
        with pytest.raises(ContractViolation):
            tests.ask_many([20, broken])
    (admission,) = scope.account().admissions
    assert admission.rule == "cap"


class FewerThanTold:
    """A conversation that hands out many answers and tells of none."""

    def __init__(self, law: SparseVectorLaw) -> None:
        self.law = law

    def ask(self, query: Any, /) -> bool:
        return True

    def ask_many(self, queries: Sequence[Any], /) -> list[bool]:
        return [True] * len(queries)

    def close(self) -> Release[int]:
        told = SparseVectorOutcome((), 1, halted=False)
        return Release(value=0, parts=SparseVectorLaw(**{**vars_of(self.law), "outcome": told}))


def vars_of(law: SparseVectorLaw) -> dict[str, Any]:
    return {name: getattr(law, name) for name in law.__dataclass_fields__ if name not in ("kind", "outcome")}


def test_answers_of_a_batch_are_handed_out_each(scope: dpl.Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = stream("0.5", 2)

    def opened(self: Any, data: Any, *, entropy: Entropy) -> FewerThanTold:
        return FewerThanTold(self.made_of)

    monkeypatch.setattr(type(plan), "open", opened)
    tests = scope.open(plan, None)
    assert len(tests.ask_many([1, 2])) == 2
    with pytest.raises(ContractViolation):
        tests.close()
    (admission,) = scope.account().admissions
    assert admission.charged == admission.reserved


def test_what_answers_one_at_a_time_says_so(scope: dpl.Scope) -> None:
    with scope.open(stream("0.5", 2), None) as tests:
        assert not isinstance(tests._conversation, AnswersMany)
        with pytest.raises(ScopeError, match="one query at a time"):
            tests.ask_many([True])
        assert tests.ask(True)


def test_the_steps_of_a_training_run_are_granted_one_by_one() -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="p", relation="add_remove", budget=dpl.ApproxDP(9, "1e-6"))
    with scope.open(training(), None) as run, pytest.raises(ScopeError, match="one query at a time"):
        run.ask_many([1, 2])


def test_no_batch_of_a_scope_is_in_a_log(scope: dpl.Scope) -> None:
    with scope.open(SparseVector(**LOUD), None) as tests:
        with recording(), pytest.raises(PolicyError):
            tests.ask_many([20])
        assert tests.ask_many([20]) == (ABOVE,)
