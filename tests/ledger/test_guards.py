"""Code that somebody holds, behind the gate: what a call is charged, that it is charged first, and what never leaves.
Against OpenDP itself, and against datasets enumerated by hand."""

from __future__ import annotations

import functools
import itertools
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import opendp.prelude as op
import pytest

from dpledger.accounting.composition import GaussianLaw, Group, Repeated
from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP, Guarantee, PrivacyCurve, PureDP
from dpledger.audit.tested.subjects import subject_of
from dpledger.errors import AlreadySpent, BudgetRefused, ContractViolation, ParameterError, RelationError
from dpledger.ledger.charging.guards import LATE, RAISED, Guarded, name_of
from dpledger.ledger.entries.bodies import Committed, Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.measurements import rows_apart
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Relation, Unit
from forking import ignores_fork_warnings, in_child
from threads import together

WHO: dict[str, Any] = {"by": "A. Smith", "reason": "counts of the study"}
STATED: dict[str, Any] = {**WHO, "relation": "add_remove", "claim": PureDP("0.25")}
SECRET = "the record of Eva"


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    op.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    yield
    op.disable_features("contrib", "honest-but-curious", "idealized-numerics")


BUDGET = ApproxDP(10, "0.000001")


def opened(budget: Guarantee = BUDGET, relation: str = "add_remove", rows: int = 1) -> Scope:
    book = Ledger.in_memory()
    return book.scope("s", unit=Unit("patient", max_contributions=rows), relation=relation, budget=budget)


def kinds(scope: Scope) -> Sequence[str]:
    """What was appended after the scope was opened."""
    return [entry.body.kind for entry in scope._ledger.entries()][2:]


def reserved(scope: Scope) -> Reserved:
    return next(entry.body for entry in scope._ledger.entries() if isinstance(entry.body, Reserved))


def space() -> tuple[Any, Any]:
    return op.vector_domain(op.atom_domain(T=int)), op.symmetric_distance()


def count(noise: Callable[[], Any] | None = None) -> Any:
    return op.t.make_count(*space()) >> (op.m.then_laplace(scale=2.0) if noise is None else noise())


def gaussian() -> Any:
    return count(lambda: op.m.then_gaussian(scale=4.0))


# ---- what a map says ------------------------------------------------------------------------------------------------


def profile() -> Any:
    return op.c.make_zCDP_to_approxDP(gaussian())


def renyi() -> Any:
    return op.m.make_user_measurement(
        *space(), op.renyi_divergence(), lambda rows: len(rows), lambda d_in: lambda order: order * d_in**2 / 32
    )


MEASURES: dict[str, tuple[Callable[[], Any], Guarantee]] = {
    "MaxDivergence": (count, PureDP("0.5")),
    "Approximate<MaxDivergence>": (lambda: op.c.make_fix_delta(profile(), 1e-9), ApproxDP("1.46", "1e-9")),
    "ZeroConcentratedDivergence": (gaussian, ZCDP("0.03125")),
    "Approximate<ZeroConcentratedDivergence>": (lambda: op.c.make_approximate(gaussian()), ZCDP("0.03125")),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measurement_is_charged_what_its_own_map_says(measure: str) -> None:
    make, expected = MEASURES[measure]
    scope, one = opened(), make()
    assert str(one.output_measure.type) == measure
    guarded = scope.guard(one, d_in=1, **WHO)
    assert kinds(scope) == []
    assert isinstance(guarded([1, 2, 3]), int)
    assert kinds(scope) == ["reserved", "started", "committed"]
    parts = reserved(scope).parts
    assert type(parts) is type(expected)
    for name in {"epsilon", "rho", "delta"} & set(type(parts).__slots__):
        assert getattr(parts, name) == pytest.approx(getattr(expected, name), rel=Decimal("0.01"))
        far = one.map(1)
        said = far if isinstance(far, float) else far[1 if name == "delta" else 0]
        if name != "delta" or isinstance(far, tuple):
            assert getattr(parts, name) >= Decimal(said)  # to the last digit of the float that it said


def test_a_profile_is_read_at_points_that_it_keeps_and_others_of_it_follow() -> None:
    scope, one = opened(), profile()
    curve = scope.guard(one, d_in=1, **WHO).parts
    assert isinstance(curve, PrivacyCurve)
    assert min(curve.deltas) == Decimal("1e-9")  # a thousandth of the scope's delta
    for at in curve.points:
        assert at.epsilon >= Decimal(one.map(1).epsilon(float(at.delta)))
    in_rho = opened(ZCDP(1)).guard(one, d_in=1, **WHO).parts
    assert isinstance(in_rho, PrivacyCurve)


def test_a_renyi_curve_is_read_at_the_orders_that_budgets_use() -> None:
    scope = opened()
    guarded = scope.guard(renyi(), d_in=2, **WHO)
    assert isinstance(guarded.parts, RDP)
    for order, epsilon in zip(guarded.parts.orders, guarded.parts.epsilons, strict=True):
        assert float(epsilon) == pytest.approx(float(order) * 4 / 32)
    guarded([1])
    assert scope.releases()


def test_a_measure_without_a_guarantee_here_is_refused_by_its_name() -> None:
    mine = op.m.make_user_measurement(*space(), op.user_divergence("mine"), lambda rows: 1, lambda d_in: 1.0)
    with pytest.raises(ParameterError, match="a guarantee here, not ExtrinsicDivergence"):
        opened().guard(mine, d_in=1, **WHO)
    endless = op.m.make_user_measurement(*space(), op.max_divergence(), lambda rows: 1, lambda d_in: float("inf"))
    with pytest.raises(ParameterError, match="its map says infinity"):
        opened().guard(endless, d_in=1, **WHO)


def test_the_record_says_whose_word_it_is_and_what_the_map_said() -> None:
    scope = opened()
    scope.guard(count(), d_in=1, evidence="the notebook of 3 March", **WHO)([1])
    body = reserved(scope)
    assert body.attested is not None
    assert (body.attested.by, body.attested.relation, body.attested.of) == ("A. Smith", Relation.ADD_REMOVE, "unit")
    assert body.mechanism.kind == "opendp_measurement"
    assert body.mechanism.library.startswith("opendp ")
    assert dict(body.mechanism.parameters) == {
        "d_in": "1", "d_out": "0.5", "measure": "MaxDivergence", "metric": "SymmetricDistance()"
    }  # fmt: skip
    told = repr(scope.guard(count(), d_in=1, **WHO))
    assert told.endswith("charged pure_dp(epsilon=0.5) in scope s, on the word of A. Smith: attested, not recomputed>")
    scope._ledger.verify(key=scope._ledger.public_key)


# ---- how far apart neighbours are -----------------------------------------------------------------------------------

VALUES, MOST_ROWS = "ab", 3


def datasets(rows: int) -> list[Counter[str]]:
    """What one unit may have: every multiset of at most so many rows."""
    return [
        Counter(found) for size in range(rows + 1) for found in itertools.combinations_with_replacement(VALUES, size)
    ]


def removed_and_added(left: Counter[str], right: Counter[str]) -> int:
    return sum(((left - right) + (right - left)).values())


@pytest.mark.parametrize("rows", range(1, MOST_ROWS + 1))
def test_neighbours_are_at_most_as_far_apart_as_is_asked_and_some_are(rows: int) -> None:
    """Over all that one unit may have, what others have being the same."""
    every = datasets(rows)
    added = max(removed_and_added(Counter(), own) for own in every)
    exchanged = max(removed_and_added(one, other) for one in every for other in every)
    unit = Unit("patient", max_contributions=rows)
    assert rows_apart(count(), unit, Relation.ADD_REMOVE) == added
    assert rows_apart(count(), unit, Relation.REPLACE_ONE) == exchanged
    assert rows_apart(count(), unit, Relation.LABEL_FLIP) == exchanged


def of_metric(metric: Any) -> Any:
    return op.m.make_user_measurement(
        op.vector_domain(op.atom_domain(T=int)), metric, op.max_divergence(), lambda rows: 1, lambda d_in: float(d_in)
    )


def test_exchanged_rows_say_nothing_where_the_number_of_rows_may_differ() -> None:
    changed = of_metric(op.change_one_distance())
    assert rows_apart(changed, Unit("patient"), Relation.REPLACE_ONE) == 1
    assert rows_apart(changed, Unit("patient", max_contributions=4), Relation.LABEL_FLIP) == 4
    for unit, relation in (
        (Unit("patient", max_contributions=2), Relation.REPLACE_ONE),
        (Unit("patient"), Relation.ADD_REMOVE),
        (Unit("patient"), Relation.ZERO_OUT),
    ):
        with pytest.raises(RelationError, match="ChangeOneDistance counts rows that are exchanged"):
            rows_apart(changed, unit, relation)
    with pytest.raises(RelationError, match="null rows"):
        rows_apart(count(), Unit("patient"), Relation.ZERO_OUT)


@pytest.mark.parametrize("kind", ["SymmetricIdDistance", "ChangeOneIdDistance"])
def test_identifiers_are_units_whatever_rows_they_have(kind: str) -> None:
    metric = SimpleNamespace(type=kind)
    one: Any = SimpleNamespace(input_metric=metric, input_domain="frames")
    unit = Unit("patient", max_contributions=9)
    assert rows_apart(one, unit, Relation.REPLACE_ONE) == (2 if kind == "SymmetricIdDistance" else 1)
    if kind == "SymmetricIdDistance":
        assert rows_apart(one, unit, Relation.ADD_REMOVE) == 1


@pytest.mark.parametrize(("relation", "rows", "needed"), [("add_remove", 3, 3), ("replace_one", 1, 2)])
def test_a_distance_that_is_less_than_one_unit_is_refused_and_says_which_is_enough(
    relation: str, rows: int, needed: int
) -> None:
    scope = opened(relation=relation, rows=rows)
    with pytest.raises(ParameterError, match=f"d_in: expected at least {needed}: under "):
        scope.guard(count(), d_in=needed - 1, **WHO)
    assert scope.guard(count(), d_in=needed, **WHO).parts == PureDP(Decimal(needed) / 2)


def sized() -> Any:
    domain = op.vector_domain(op.atom_domain(bounds=(0.0, 1.0), nan=False), size=10)
    return (domain, op.symmetric_distance()) >> op.t.then_mean() >> op.m.then_laplace(scale=0.1)


def test_a_domain_of_a_fixed_size_has_no_neighbours_under_add_remove() -> None:
    """Its map is next to nothing at distance 1, where no two datasets of one size are."""
    assert sized().map(1) < 1e-12 < 1 <= sized().map(2)
    with pytest.raises(RelationError, match="fixes the number of rows"):
        opened().guard(sized(), d_in=1, **WHO)
    guarded = opened(relation="replace_one").guard(sized(), d_in=2, **WHO)
    assert isinstance(guarded.parts, PureDP)
    assert guarded.parts.epsilon >= 1


def test_of_a_number_that_was_computed_from_rows_somebody_says_what_it_holds_of() -> None:
    noise = op.m.make_laplace(op.atom_domain(T=int), op.absolute_distance(T=int), scale=4.0)
    scope = opened(rows=3)
    with pytest.raises(ParameterError, match="relation: expected"):
        scope.guard(noise, d_in=1, of="row", **WHO)
    with pytest.raises(ParameterError, match="of: expected"):
        scope.guard(noise, d_in=1, relation="add_remove", **WHO)
    guarded = scope.guard(noise, d_in=1, relation="add_remove", of="row", **WHO)
    assert guarded.parts == Group(PureDP("0.25"), k=3, relation=Relation.ADD_REMOVE)
    assert guarded.charged == "a group"


# ---- a claim that is stated -----------------------------------------------------------------------------------------


def survey(rows: list[str], *, extra: int = 0) -> int:
    """How many, with noise of its own."""
    return len(rows) + extra


def test_any_function_is_charged_what_is_stated_of_it_at_each_call() -> None:
    scope = opened(PureDP(1))
    ask = scope.guard(survey, **STATED)
    assert [ask(["a"]), ask(["a"], extra=1)] == [1, 2]
    assert scope.spent().upper == 0.5
    assert [(one.mechanism.kind, one.rule) for one in scope.releases()] == [(f"{__name__}.survey", "cap")] * 2
    assert ask.__doc__ is not None
    assert "not recomputed" in ask.__doc__
    plan = scope.guard(survey, **{**STATED, "claim": [(GaussianLaw(40), 2)]})
    survey_here = type("odd name", (), {"__call__": lambda self, rows: 1})()
    assert repr(scope.guard(survey_here, **STATED)).startswith(f"<Guarded {__name__}.odd_name@")
    assert plan.parts == Repeated(GaussianLaw(40), times=2)


def test_it_is_charged_before_it_runs_and_not_called_where_it_is_refused() -> None:
    scope, seen = opened(PureDP("0.5")), []

    def told(rows: object) -> None:
        seen.append(kinds(scope))

    ask = scope.guard(told, **STATED)
    ask(1), ask(2)
    assert seen == [["reserved", "started"], ["reserved", "started", "committed", "reserved", "started"]]
    with pytest.raises(BudgetRefused):
        ask(3)
    assert len(seen) == 2


def test_a_call_with_other_arguments_charges_nothing() -> None:
    scope = opened()
    with pytest.raises(TypeError, match="missing a required argument"):
        scope.guard(survey, **STATED)()  # type: ignore[call-arg]
    counted: Any = scope.guard(count(), d_in=1, **WHO)
    with pytest.raises(TypeError, match="too many positional"):
        counted([1], [2])
    assert kinds(scope) == []


def raising(rows: object) -> None:
    raise ValueError(f"{SECRET}: {rows}")


def odd(rows: object) -> None:
    raise BaseException(SECRET)


@pytest.mark.parametrize("code", [raising, odd])
def test_what_it_raises_is_withheld_and_the_charge_stands(code: Callable[[object], None]) -> None:
    scope = opened()
    with pytest.raises(ContractViolation, match="the full charge stands") as raised:
        scope.guard(code, **STATED)([SECRET])
    error: BaseException | None = raised.value
    assert SECRET not in str(error)
    assert error is not None
    assert error.__context__ is None
    assert error.__cause__ is None
    last = list(scope._ledger.entries())[-1].body
    assert isinstance(last, Committed)
    assert (last.rule, last.outside_guarantee, last.warnings) == ("cap", True, (RAISED,))
    assert scope.spent().upper == pytest.approx(0.25, rel=1e-4)


def test_what_a_measurement_raises_of_its_data_is_withheld() -> None:
    scope = opened()
    with pytest.raises(ContractViolation) as raised:
        scope.guard(count(), d_in=1, **WHO)([SECRET])
    assert SECRET not in str(raised.value)
    assert raised.value.__context__ is None


def test_who_ends_the_program_is_heard_and_the_charge_stands() -> None:
    scope = opened()

    def stopped(rows: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scope.guard(stopped, **STATED)(1)
    assert kinds(scope)[-1] == "committed"


async def later() -> int:
    return 1


def returns_a_coroutine(rows: object) -> object:
    return later()


def composed() -> Any:
    return op.c.make_adaptive_composition(*space(), output_measure=op.max_divergence(), d_in=1, d_mids=[0.25, 0.25])


def test_what_would_answer_later_is_withheld_and_charged() -> None:
    scope = opened()
    for ask in (scope.guard(returns_a_coroutine, **STATED), scope.guard(composed(), d_in=1, **WHO)):
        with pytest.raises(ContractViolation, match="answers later"):
            ask([1])
        last = list(scope._ledger.entries())[-1].body
        assert isinstance(last, Committed)
        assert last.warnings == (LATE,)
    with pytest.raises(ParameterError, match="function"):
        scope.guard(later, **STATED)


def test_under_a_key_it_is_one_call_for_ever() -> None:
    scope = opened()
    ask = scope.guard(survey, key="survey-1", **STATED)
    assert ask(["a"]) == 1
    with pytest.raises(AlreadySpent):
        ask(["a"])


def answers_as_a_generator(rows: object) -> Iterator[object]:
    yield rows


async def answers_as_a_coroutine(rows: object) -> object:
    return rows


def test_what_cannot_be_guarded_is_refused_before_anything_is_called() -> None:
    scope = opened()
    exact = op.t.make_count(*space())
    odometer = op.c.make_fully_adaptive_composition(*space(), output_measure=op.max_divergence())
    anything: Any = scope.guard
    for code, rest, said in (
        (exact, STATED, "a transformation, which adds no noise"),
        (odometer, STATED, "an Odometer, which answers later"),
        (survey, WHO, "claim: expected what one call costs"),
        (survey, {**STATED, "d_in": 1}, "d_in: expected nothing: a function has no map"),
        (count(), STATED, "claim: expected nothing: a measurement is charged by its own map"),
        (count(), WHO, "d_in: expected how far apart neighbours are"),
        (count(), {**WHO, "d_in": "0.5"}, "d_in: expected a distance that its map takes"),
        (count(), {**WHO, "d_in": 1, "of": "row"}, "of: expected at least 1"),
        (Ledger, STATED, "the class Ledger"),
        (answers_as_a_generator, STATED, "got a generator function, which has not run when it returns"),
        (answers_as_a_coroutine, STATED, "got a coroutine function, which has not run when it returns"),
        (survey, {**STATED, "claim": PureDP(0)}, "claim: expected a loss above 0"),
        (survey, {**STATED, "claim": ZCDP(0)}, "claim: expected a loss above 0"),
        (5, STATED, "code: expected a measurement of OpenDP, or a function"),
        (Laplace(1, 1), STATED, r"a mechanism of dpledger goes to `scope\.release`"),
    ):
        with pytest.raises(ParameterError, match=said):
            anything(code, **rest)
    with pytest.raises(RelationError, match="leave it out, or give that of the scope"):
        scope.guard(count(), d_in=1, relation="replace_one", **WHO)
    assert kinds(scope) == []


def test_threads_share_it_and_nobody_is_charged_twice() -> None:
    scope = opened(PureDP(1))
    ask = scope.guard(survey, **STATED)
    answers = together(*[lambda: ask(["a"])] * 6)
    assert answers.count(1) == 4
    assert sum(isinstance(answer, BudgetRefused) for answer in answers) == 2


def test_it_does_not_pickle() -> None:
    with pytest.raises(TypeError, match="open the ledger in the other process"):
        pickle.dumps(opened().guard(survey, **STATED))


@ignores_fork_warnings
def test_a_forked_child_is_refused_and_calls_nothing(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        ask: Guarded[[object], object] = scope.guard(lambda rows: print("called"), **STATED)
        told = in_child(lambda: ask(1))
        assert told.startswith("ForkedProcess")
        assert kinds(scope) == []


SCRIPT = """
import dpledger as dpl
from dpledger.audit.tested.subjects import subject_of
from dpledger.relations import Relation, Unit


def survey(rows, rng=None):
    return len(rows)


if __name__ == "__main__":
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    scope.guard(survey, claim=dpl.PureDP(1), relation="add_remove", by="A. Smith", reason="counts")([1])
    (one,) = scope.releases()
    note = subject_of(survey, dpl.PureDP(1), Relation.ADD_REMOVE, Unit.read("patient"), batched=False).note
    print(one.mechanism.kind, note.kind)
"""


@pytest.mark.parametrize(
    ("how", "name"), [(["study_job.py"], "study_job.survey"), (["-m", "jobs.study"], "jobs.study.survey")]
)
def test_a_script_is_named_as_the_module_that_others_import(tmp_path: Path, how: list[str], name: str) -> None:
    """So an audit of it in a test, which imports it, is of what the script charged."""
    (tmp_path / "jobs").mkdir()
    for place in ("study_job.py", "jobs/study.py"):
        (tmp_path / place).write_text(SCRIPT)
    done = subprocess.run([sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [name, name]


def test_two_lambdas_of_a_module_have_two_names_and_each_the_same_in_the_next_process(tmp_path: Path) -> None:
    """An audit of one is none of the other."""
    (tmp_path / "job.py").write_text(
        "from dpledger.ledger.charging.guards import name_of\nJOBS = [\n    lambda rows: 1,\n    lambda rows: 2,\n]\n"
        "def made():\n    return lambda rows: 3\nprint(*map(name_of, [*JOBS, made()]))\n"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["job.lambda_line_3", "job.lambda_line_4", "job.made.lambda_line_7"]


def test_code_goes_by_one_name_where_it_is_charged_and_where_it_is_audited() -> None:
    named = SimpleNamespace(kind="clinic.mean")
    odd = type("Anfälle je Tag", (), {"__call__": lambda self, rows: 1})()
    assert name_of(survey) == name_of(functools.partial(survey, extra=1)) == f"{__name__}.survey"
    assert name_of(named) == "clinic.mean"
    scope = opened(PureDP(1))
    scope.guard(odd, **STATED)(["a"])
    (one,) = scope.releases()
    assert one.mechanism.kind == subject_of(odd, PureDP(1), Relation.ADD_REMOVE, Unit(), batched=False).note.kind
