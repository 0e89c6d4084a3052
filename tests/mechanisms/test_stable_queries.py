"""`StableQueries` as a mechanism: its conformance, what a run answers and counts, what it refuses."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.accounting.composition import Group, SparseVectorLaw
from dpledger.accounting.families.sparse_vector.stable_scales import stable_law
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure
from dpledger.errors import ContractViolation, ForkedProcess, Halted, ParameterError, RelationError
from dpledger.ledger.entries.bodies import Committed
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, recording
from dpledger.mechanisms.protocol import AnswersMany, Release
from dpledger.mechanisms.stability import gaussian
from dpledger.mechanisms.stability.answers import FAR, UNSTABLE, SideBySide, StableCounts
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.stable_run import StableRun
from dpledger.mechanisms.threshold import Outcome, SparseVector, epochs
from dpledger.relations import Relation, Unit
from forking import in_child
from mechanism_conformance import MechanismConformance

Run = StableRun[Any, Any]
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "cutoff": 3, "max_queries": 40}
STREAM = (("a", 10**6), ("b", 0), lambda rows: (len(rows), 60), ("c", float("inf")))


class Stable(MechanismConformance):
    relations = tuple(Relation)
    changes: ClassVar[Mapping[str, Any]] = {}

    def make(self, **changes: Any) -> Any:
        return StableQueries(**{**BUDGET, **self.changes, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        near = mechanism.parameters()["threshold"]
        stream = (*STREAM, *((place, near) for place in range(8)))
        answers = tuple(run.ask(query) for query in stream if not run.halted)
        release = run.close()
        return Release(value=(answers, release.value), parts=release.parts)

    good_data = (1, 2, 3)
    bad_data = ((), tuple(range(100)))
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"delta": 0},
        {"delta": "0.5"},
        {"cutoff": 0},
        {"max_queries": 0},
        {"mode": "best"},
        {"delta_split": 1},
        {"share": 2, "mode": "single_threshold"},
        {"distance_relation": "other"},
    )


class TestAutomatic(Stable):
    bad_parameters = (*Stable.bad_parameters, {"cutoff": None}, {"share": "0.5", "mode": "kov"})


class TestKov(Stable):
    changes: ClassVar[Mapping[str, Any]] = {"mode": "kov"}


class TestPaper(Stable):
    changes: ClassVar[Mapping[str, Any]] = {"mode": "paper"}
    bad_parameters = (*Stable.bad_parameters, {"max_queries": None}, {"share": "0.5"})


class TestGaussian(Stable):
    changes: ClassVar[Mapping[str, Any]] = {"mode": "gaussian", "cutoff": None}
    bad_parameters = ({"max_queries": None}, {"cutoff": 3}, {"share": "0.5"}, {"epsilon": 0}, {"delta": "0.5"})


class TestInAGroup(Stable):
    relations = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
    changes: ClassVar[Mapping[str, Any]] = {"distance_relation": "add_remove", "mode": "kov"}


def opened(seed: int = 1, **changes: Any) -> Run:
    return StableQueries(**{**BUDGET, **changes}).open((1, 2, 3), entropy=seeded(seed))


# ---- what it answers ------------------------------------------------------------------------------------------------


def test_far_values_are_answered_and_near_ones_are_not_until_it_halts() -> None:
    run = opened()
    assert isinstance(run, AnswersMany)
    assert run.ask(lambda rows: (sum(rows), 10**6)) == 6
    assert run.ask(("value", float("inf"))) == "value"
    assert [run.ask((name, 0)) for name in "abc"] == [UNSTABLE] * 3
    assert run.halted
    with pytest.raises(Halted, match="3 charged answers, 5 queries"):
        run.ask(("d", 10**6))
    release = run.close()
    assert release.value == StableCounts(asked=5, answered=2, unstable=3, halted=True)
    assert isinstance(release.parts, SparseVectorLaw)
    assert release.parts.outcome is not None
    assert release.parts.outcome.closed_epochs == (3, 1, 1)


def test_the_law_of_the_tests_is_that_of_the_leaf_and_the_log_shows_it() -> None:
    mechanism = StableQueries(**{**BUDGET, "mode": "kov"})
    law = stable_law(Decimal(1), Decimal("1e-6"), 3, "kov", max_queries=40)
    assert mechanism.parts() == law
    with recording() as draws:
        mechanism.open(None, entropy=seeded(1)).ask(("a", 7))
    assert [draw.law for draw in draws] == [DiscreteLaplace(law.threshold_scale), DiscreteLaplace(law.query_scale)]
    assert [draw.value for draw in draws] == [law.stable_at, 7]
    with recording() as draws:
        opened(mode="gaussian", cutoff=None).ask_many(SideBySide([1, 2], [5, 6]))
    assert [type(draw.law) for draw in draws] == [DiscreteGaussian]


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


def law_of(ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> dict[object, Fraction]:
    """The exact distribution of what is answered, over every tape."""
    law: Counter[object] = Counter()
    tape: list[int] = []
    while True:
        door = Door(tape)
        monkeypatch.setattr(epochs, "draw", door)
        monkeypatch.setattr(gaussian, "draw", door)
        law[ask()] += Fraction(1, 3 ** len(tape))  # type: ignore[assignment]
        while tape and tape[-1] == 1:
            tape.pop()
        if not tape:
            return dict(law)  # type: ignore[arg-type]
        tape[-1] += 1


def one_by_one(run: Run, pairs: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    for pair in pairs:
        if run.halted:
            return
        yield run.ask(pair)


def side_by_side(run: Run, pairs: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    values, distances = zip(*pairs, strict=True)
    yield from run.ask_many(SideBySide(np.array(values), np.array(distances)))


def in_two(run: Run, pairs: Sequence[tuple[Any, Any]]) -> Iterator[Any]:
    yield from run.ask_many([pairs[0], lambda _: pairs[1]])
    if not run.halted:
        yield from run.ask_many(pd_columns(pairs[2:]))


def pd_columns(pairs: Sequence[tuple[Any, Any]]) -> SideBySide:
    frame = pd.DataFrame(pairs, columns=["value", "distance"])
    return SideBySide(frame["value"], frame["distance"])


MODES = ["single_threshold", "basic", "target_charging", "gaussian"]


def made(mode: str, **changes: Any) -> StableQueries:
    cutoff = {} if mode == "gaussian" else {"cutoff": 2}
    return StableQueries(epsilon=1, delta="0.1", mode=mode, **{"max_queries": 3, **cutoff, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_many_at_once_have_the_law_of_one_by_one(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = made(mode)
    w = mechanism.parameters()["threshold"]
    assert isinstance(w, int)
    pairs = (("a", w + 1), ("b", w - 1), ("c", w))

    def asked(how: Callable[..., Iterator[Any]]) -> Callable[[], object]:
        def ask() -> object:
            run = mechanism.open(None, entropy=seeded(0))
            answers = tuple(how(run, pairs))
            return answers, run.close()

        return ask

    exact = law_of(asked(one_by_one), monkeypatch)
    assert sum(exact.values()) == 1
    assert len(exact) > 2
    for how in (side_by_side, in_two):
        assert law_of(asked(how), monkeypatch) == exact


@pytest.mark.parametrize("mode", ["single_threshold", "basic", "target_charging"])
def test_the_tests_are_those_of_a_sparse_vector_on_the_distances(mode: Any) -> None:
    """The same noise gives the same pattern: there is one law."""
    mechanism = made(mode, max_queries=None, cutoff=5)
    law = mechanism.parts()
    assert isinstance(law, SparseVectorLaw)
    assert law.stable_at is not None
    distances = np.arange(200) % 11 + law.stable_at
    for seed in range(20):
        stable = mechanism.open(None, entropy=seeded(seed)).ask_many(SideBySide(np.arange(200), distances))
        run = SparseVector(
            epsilon=1,
            cutoff=5,
            threshold=law.stable_at,
            delta=law.delta,
            grid=1,
            mode="single_threshold",
            sensitivity=1,
        ).open(None, entropy=seeded(seed))
        run._tests = epochs.Epochs(_plan(mechanism), seeded(seed))
        pattern = run.ask_many(distances)
        assert [answer is UNSTABLE for answer in stable] == [answer is Outcome.BELOW for answer in pattern]
        assert all(answer == place for place, answer in enumerate(stable) if answer is not UNSTABLE)


def _plan(mechanism: StableQueries) -> epochs.EpochPlan:
    run = mechanism.open(None, entropy=seeded(0))
    plan: epochs.EpochPlan = run._tests._plan  # type: ignore[attr-defined]
    return plan


def test_a_hundred_thousand_are_answered_at_once_and_every_value_is_itself() -> None:
    run = StableQueries(epsilon=1, delta="1e-6", cutoff=50, max_queries=10**5).open(None, entropy=seeded(2))
    values = [(place, "text") for place in range(10**5)]
    answers = run.ask_many(SideBySide(values, np.full(10**5, 10**5)))
    assert list(answers) == values
    with pytest.raises(Halted, match="100000 queries"):
        run.ask(("a", 10**6))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3),
        np.array(["a", "b", "c"]),
        [1, "b", (3, 4)],
        [(1, 2), (3, 4), (5, 6)],
        [None, 2, frozenset()],
    ],
    ids=["int64", "text", "mixed", "tuples", "set"],
)
def test_values_come_back_as_they_were(values: Any) -> None:
    run = opened()
    assert list(run.ask_many(SideBySide(values, [10**6] * 3))) == list(values)


@pytest.mark.parametrize(
    "distances",
    [
        np.array([5, 0, 2**62], dtype=np.uint64),
        np.array([5, 0, 100], dtype=np.int8),
        np.array([5.0, 0.0, np.inf]),
        np.array([5, 0, np.inf], dtype=np.float16),
        np.array([5, 0, 1e300], dtype=np.longdouble),
        pd.Series([5, 0, 7]),
        [5, Fraction(0), Decimal("1e9")],
        [5, 0.0, float("inf")],
        [True, False, 10**400],
        np.array([True, False, True]),
    ],
    ids=["uint64", "int8", "float", "half", "long", "series", "fractions", "floats", "whole", "truth"],
)
def test_every_kind_of_whole_number_is_a_distance(distances: Any) -> None:
    with recording() as together:
        opened(mode="target_charging").ask_many(SideBySide([1, 2, 3], distances))
    with recording() as alone:
        run = opened(mode="target_charging")
        for distance in distances:
            run.ask(("value", distance))
    assert together[0].value.tolist() == [draw.value for draw in alone]
    assert all(0 <= value <= FAR for value in together[0].value.tolist())


# ---- what breaks the contract ---------------------------------------------------------------------------------------


def _raises(_: object) -> tuple[str, int]:
    raise KeyError("secret")


BROKEN: dict[str, Any] = {
    "raises": _raises,
    "no pair": 5,
    "a list": ["a", 5],
    "three": ("a", 5, 6),
    "below zero": ("a", -1),
    "half": ("a", 0.5),
    "nan": ("a", float("nan")),
    "text": ("a", "5"),
    "no hash": ([1], 5),
    "minus infinity": ("a", -float("inf")),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("many", [False, True], ids=["ask", "ask_many"])
@pytest.mark.parametrize("mode", ["auto", "gaussian"])
def test_a_query_that_breaks_its_contract_ends_the_run_at_its_full_charge(name: str, many: bool, mode: str) -> None:
    run = opened(mode=mode, cutoff=None if mode == "gaussian" else 3)
    with recording() as draws, pytest.raises(ContractViolation) as refusal:
        run.ask_many([("fine", 5), BROKEN[name]]) if many else run.ask(BROKEN[name])
    assert not draws, "nothing is drawn before all were read"
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
    with pytest.raises(Halted):
        run.ask(("a", 5))
    release = run.close()
    assert release.outside_guarantee
    assert (
        release.parts == StableQueries(**{**BUDGET, "mode": mode, "cutoff": None if mode == "gaussian" else 3}).parts()
    )


@pytest.mark.parametrize(
    "broken",
    [
        SideBySide([1, 2], [5, -1]),
        SideBySide([1, 2], np.array([5, -1])),
        SideBySide([1, 2], np.array([5, np.nan])),
        SideBySide([1, 2], np.array([5, 0.5])),
        SideBySide([1, [2]], [5, 6]),
        SideBySide([1, 2], np.array(["5", "6"])),
    ],
    ids=["list", "int", "nan", "half", "hash", "text"],
)
def test_arrays_that_break_the_contract_end_the_run_too(broken: SideBySide) -> None:
    run = opened()
    with recording() as draws, pytest.raises(ContractViolation):
        run.ask_many(broken)
    assert not draws
    assert run.close().outside_guarantee


def test_queries_beyond_the_last_are_not_read() -> None:
    run = opened(max_queries=3, cutoff=3)
    assert len(run.ask_many([("a", 10**6)] * 3 + [BROKEN["raises"]])) == 3
    assert not run.close().outside_guarantee


@pytest.mark.parametrize(
    "queries", [5, "ab", {("a", 5)}, np.zeros(3), iter([("a", 5)])], ids=lambda q: type(q).__name__
)
def test_what_holds_no_queries_is_refused_and_costs_nothing(queries: Any) -> None:
    run = opened()
    with pytest.raises(ParameterError, match="queries"):
        run.ask_many(queries)
    assert run.asked == 0
    assert run.ask(("a", 10**6)) == "a"


def test_sides_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="distances"):
        SideBySide([1, 2], [5])
    with pytest.raises(ParameterError, match="values"):
        SideBySide(5, [5])
    with pytest.raises(ParameterError, match="distances"):
        SideBySide([1, 2], np.zeros((2, 2)))
    assert repr(SideBySide(["secret"], [5])) == "SideBySide(1 queries)"


def test_a_run_shows_nothing_does_not_pickle_and_stays_in_its_process() -> None:
    run = opened()
    assert repr(run) == str(run) == "<StableRun: 0 asked>"
    with pytest.raises(TypeError, match="repeat its noise"):
        pickle.dumps(run)
    assert ForkedProcess.__name__ in in_child(lambda: run.ask(("a", 5)))


# ---- what it costs --------------------------------------------------------------------------------------------------


def test_failures_are_kept_apart_and_the_pure_modes_have_one() -> None:
    pure = StableQueries(**{**BUDGET, "mode": "single_threshold"})
    assert pure.failures() == (PrivacyFailure("1e-6", "stability"),)
    for mode in ("kov", "target_charging", "gaussian"):
        made_ = StableQueries(**{**BUDGET, "mode": mode, "cutoff": None if mode == "gaussian" else 3})
        assert [getattr(failure, "cause", None) for failure in made_.failures()] == ["composition", "stability"]


def test_a_group_keeps_the_claim_and_gets_its_outcome() -> None:
    mechanism = StableQueries(**{**BUDGET, "mode": "basic", "distance_relation": "add_remove"})
    ready = mechanism.under(Relation.REPLACE_ONE, Unit())
    assert ready.claim().epsilon == 2
    assert float(ready.claim().delta) == pytest.approx(1e-6 * (1 + 2.718281828459045))
    run = ready.open(None, entropy=seeded(1))
    run.ask(("a", 10**6))
    parts = run.close().parts
    assert isinstance(parts, Group)
    assert isinstance(parts.of, SparseVectorLaw)
    assert parts.of.outcome is not None
    scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=ApproxDP(3, "1e-4"))
    with scope.open(mechanism, None) as session:
        session.ask(("a", 10**6))
    committed = session.receipt.entry.body
    assert isinstance(committed, Committed)
    assert committed.rule == "ex_post"


def test_gaussian_tests_are_refused_for_a_distance_of_another_relation() -> None:
    wanted = StableQueries(**{**BUDGET, "mode": "gaussian", "cutoff": None, "distance_relation": "add_remove"})
    assert wanted.under(Relation.ADD_REMOVE, Unit()).claim() == ApproxDP(1, "1e-6")
    with pytest.raises(ParameterError, match="distance_relation"):
        wanted.under(Relation.REPLACE_ONE, Unit())
    with pytest.raises(RelationError):
        StableQueries(**{**BUDGET, "distance_relation": "zero_out"}).under(Relation.ADD_REMOVE, Unit())


def test_no_more_unstable_answers_than_queries_are_paid_for() -> None:
    law = StableQueries(**{**BUDGET, "cutoff": 90, "max_queries": 4}).parts()
    assert isinstance(law, SparseVectorLaw)
    assert law.cutoff == 4


@pytest.mark.parametrize("mode", ["auto", "kov", "gaussian"])
def test_through_a_scope(mode: str) -> None:
    mechanism = StableQueries(**{**BUDGET, "mode": mode, "cutoff": None if mode == "gaussian" else 3})
    ledger = dpl.Ledger.in_memory()
    scope = ledger.scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "1e-4"))
    with scope.open(mechanism, [1, 2]) as session:
        assert session.ask(lambda rows: (len(rows), 10**6)) == 2
        assert list(session.ask_many(SideBySide(["a", "b"], [10**6, 10**6]))) == ["a", "b"]
    assert session.receipt.value == StableCounts(asked=3, answered=3, unstable=0, halted=False)
    spent = scope.spent("1e-4").upper
    assert (spent < 0.5) == (mode != "gaussian"), "of charged tests nearly all comes back"
