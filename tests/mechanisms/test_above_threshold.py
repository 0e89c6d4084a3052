"""AboveThreshold: what it answers, what a run costs, and the exact suprema that its losses come to, right and wrong."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import dpledger as dpl
from above_threshold_oracle import Run
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.families.sparse_vector import ex_post_epsilon
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.audit.zoo import ZOO
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.threshold import AboveThreshold, Outcome, SparseVector, SparseVectorRun
from dpledger.relations import Relation, Unit
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

ABOVE, BELOW = Outcome.ABOVE, Outcome.BELOW
ADD = Relation.ADD_REMOVE
LOUD: dict[str, Any] = {"epsilon": 1000, "threshold": 10, "sensitivity": 1}  # noise far below one


def each(field: str, *values: object) -> list[dict[str, object]]:
    return [{field: value} for value in values]


class TestConformance(MechanismConformance):
    relations = tuple(Relation)
    good_data = (0, 1, 2, 3)
    bad_data = (None, float("nan"), "text", (float("inf"),))
    bad_parameters = (
        *each("epsilon", 0, -1, "nan", "inf", None, "x", "1e-50"),
        *each("threshold", "nan", float("inf"), None),
        *each("max_queries", 0, -1, 2.5, True, "3"),
        *each("sensitivity", 0, -1, "nan", float("inf")),
        *each("share", 0, 1, "1.5", "nan", None),
        *each("monotone", 1, "yes", None),
        *each("grid", 0, -1, 0.3, "nan"),
        *each("missing", "left", 0),
        *each("justification", "", None),
    )

    def make(self, **changes: Any) -> Any:
        return AboveThreshold(**{"epsilon": 1, "sensitivity": 1, "threshold": 2, "max_queries": 9, **changes})

    def run(self, mechanism: Any, data: Any, seed: int) -> Release[Any]:
        run = mechanism.open(data, entropy=seeded(seed))
        for value in (lambda rows: len(rows) if isinstance(rows, tuple) else math.nan, -2, -3, -1, 2, 2):
            try:
                run.ask(value)
            except Halted:
                break
        release: Release[Any] = run.close()
        return release


# ---- what it answers ------------------------------------------------------------------------------------------------


def test_it_halts_at_the_first_query_above() -> None:
    run = AboveThreshold(**LOUD).open([1] * 20, entropy=seeded(1))
    assert [run.ask(0), run.ask(9), run.ask(len)] == [BELOW, BELOW, ABOVE]
    with pytest.raises(Halted):
        run.ask(0)
    assert run.close().parts == settled_at((3,), 0)


def test_it_halts_after_max_queries_with_nothing_found() -> None:
    run = AboveThreshold(**LOUD, max_queries=2).open(None, entropy=seeded(1))
    assert run.ask_many([0, 0, 0]) == (BELOW, BELOW)
    with pytest.raises(Halted):
        run.ask(20)
    assert run.close().parts == settled_at((), 2)


def test_a_query_that_is_no_number_is_answered_and_one_that_raises_ends_the_run_at_its_cap() -> None:
    run = AboveThreshold(**LOUD).open(None, entropy=seeded(1))
    assert [run.ask(math.nan), run.ask(-math.inf)] == [BELOW, BELOW]
    with pytest.raises(ContractViolation):
        run.ask(lambda _: 1 / 0)
    release = run.close()
    assert release.outside_guarantee
    assert cost(release.parts, ADD).pure == 1000
    assert AboveThreshold(**LOUD, missing="above").open(None, entropy=seeded(1)).ask(math.nan) is ABOVE


def test_it_is_the_sparse_vector_of_one_charge_above() -> None:
    """The same leaf and, with the same words, the same answers."""
    mine = AboveThreshold(epsilon=3, threshold=4, share="0.4", monotone=True, sensitivity=1)
    twin = SparseVector(
        epsilon=3,
        cutoff=1,
        threshold=4,
        mode="single_threshold",
        charged="above",
        share="0.4",
        monotone=True,
        sensitivity=1,
    )
    assert mine.parts() == twin.parts()
    assert (mine.claim(), mine.failures()) == (twin.claim(), twin.failures())
    asked = [1, 2, 3, 4, 5, 6]
    for seed in range(20):
        runs = [one.open(None, entropy=seeded(seed)) for one in (mine, twin)]
        assert runs[0].ask_many(asked) == runs[1].ask_many(asked)
        assert runs[0].close().parts == runs[1].close().parts


def test_its_parameters_are_its_own() -> None:
    mine = AboveThreshold(epsilon=2, threshold=10, sensitivity=3, max_queries=7, justification="rows are clipped to 3")
    ready = mine.under(ADD, Unit("patient"))
    assert ready.parameters() == {
        "epsilon": "2", "threshold": "10", "sensitivity": "3", "threshold_scale": "1", "query_scale": "2",
        "grid": "0.001953125", "max_queries": 7, "missing": "below", "share": "0.5",
        "justification": "rows are clipped to 3",
    }  # fmt: skip
    assert AboveThreshold(epsilon=1, threshold=0, monotone=True, sensitivity=1).parameters()["assumes"]


def test_a_unit_of_many_rows_needs_a_declared_sensitivity() -> None:
    with pytest.raises(ParameterError, match="sensitivity"):
        AboveThreshold(epsilon=1, threshold=0, sensitivity=1).under(ADD, Unit("user", max_contributions=5))


def settled_at(closed: tuple[int, ...], still_open: int) -> SparseVectorLaw:
    """The leaf of a loud run with this outcome."""
    plan = AboveThreshold(**LOUD).parts()
    outcome = SparseVectorOutcome(closed_epochs=closed, open_epoch=still_open, halted=bool(closed))
    return SparseVectorLaw(
        plan.mode, plan.cutoff, plan.epsilon, plan.delta, plan.threshold_scale, plan.query_scale, outcome=outcome
    )


# ---- what a run costs -----------------------------------------------------------------------------------------------


def loss(tests: int, *, halted: bool, **changes: Any) -> Decimal:
    """The realised loss of a run of so many tests, at epsilon 1."""
    law = AboveThreshold(**{"epsilon": 1, "sensitivity": 1, "threshold": 0, **changes}).parts()
    counts: dict[str, Any] = (
        {"closed_epochs": (tests,), "open_epoch": 0} if halted else {"closed_epochs": (), "open_epoch": tests}
    )
    return ex_post_epsilon(law, SparseVectorOutcome(**counts, halted=halted))


@given(tests=st.integers(1, 1000))
def test_a_halt_costs_a_quarter_a_test_up_to_epsilon_and_silence_up_to_half_of_it(tests: int) -> None:
    quarter = Decimal("0.25")
    assert loss(tests, halted=True) == min(Decimal(1), tests * quarter)
    assert loss(tests, halted=False) == min(Decimal("0.5"), tests * quarter)


@given(tests=st.integers(1, 1000), share=st.sampled_from(["0.1", "0.25", "0.8"]), monotone=st.booleans())
def test_general_scales(tests: int, share: str, monotone: bool) -> None:
    """Halt min(1/b1 + 2/b2, t/b2) (monotone 1/b2), silence min(1/b1, t/b2); a halt is never above the cap."""
    law = AboveThreshold(epsilon=1, threshold=0, share=share, monotone=monotone, sensitivity=1).parts()
    on_threshold, on_query = 1 / float(law.threshold_scale), 1 / float(law.query_scale)
    halt = on_threshold + (1 if monotone else 2) * on_query
    assert halt == pytest.approx(1)
    changes: dict[str, Any] = {"share": share, "monotone": monotone}
    assert float(loss(tests, halted=True, **changes)) == pytest.approx(min(halt, tests * on_query))
    assert float(loss(tests, halted=False, **changes)) == pytest.approx(min(on_threshold, tests * on_query))


def test_a_ledger_gives_back_what_an_early_halt_did_not_cost() -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(2000))
    with scope.open(AboveThreshold(**LOUD, max_queries=9), [1] * 20) as run:
        assert scope.account().left_by_account["pure"] == "1000"
        assert run.ask(len) is ABOVE
    assert scope.account().left_by_account["pure"] == "1750"
    admission = scope.account().admissions[-1]
    assert admission.rule == "ex_post"
    with scope.open(AboveThreshold(**LOUD, max_queries=9), [1] * 20) as run:
        assert run.ask_many([0] * 9) == (BELOW,) * 9
    assert scope.account().left_by_account["pure"] == "1250"


def test_where_rules_give_nothing_back_the_cap_stays() -> None:
    """rho and mu are fixed before a run: only an account of epsilons falls."""
    for budget in (dpl.ZCDP(10), dpl.GDP(10)):
        scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=budget)
        with scope.open(AboveThreshold(epsilon=4, threshold=-(10**9), sensitivity=1), [1]) as run:
            before = scope.account().sums
            run.ask(0)
        assert scope.account().sums == before
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=ApproxDP(10, "1e-6"))
    with scope.open(AboveThreshold(epsilon=4, threshold=-(10**9), sensitivity=1), [1]) as run:
        assert scope.account().admissions[-1].reserved["pure"] == 4
        run.ask(0)
    assert scope.account().admissions[-1].charged["pure"] == 1


# ---- exactly: the losses are these and no less ----------------------------------------------------------------------

RIGHT = Run(2, 4)  # epsilon 1, half of it on the threshold


@pytest.mark.parametrize(("tests", "supremum"), [(1, 0.25), (2, 0.5), (3, 0.75), (6, 1.0), (12, 1.0)])
def test_the_loss_of_a_halt_is_attained(tests: int, supremum: float) -> None:
    found = RIGHT.worst_halt(tests)
    assert supremum - 1e-4 <= found <= float(loss(tests, halted=True)) + 1e-9


def test_four_tests_come_up_to_the_cap() -> None:
    assert 0.97 <= RIGHT.worst_halt(4) <= 1


def test_the_loss_of_silence_is_attained() -> None:
    assert RIGHT.worst_silence(1) == pytest.approx(0.25, abs=1e-9)
    assert RIGHT.worst_silence(2, 30) == pytest.approx(0.4716, abs=5e-5)
    assert RIGHT.worst_silence(2, 1000) == pytest.approx(0.4990, abs=5e-5)
    for tests in (3, 5, 20):
        assert 0.4999 <= RIGHT.worst_silence(tests) <= 0.5 + 1e-9


def test_monotone_queries_need_half_the_noise() -> None:
    """They all go one way: what they lose with half the noise is what was claimed, and the others lose 1.5."""
    half = Run(2, 2)
    assert 1 - 1e-6 <= half.worst_halt(6, one_way=True) <= 1 + 1e-9
    assert half.worst_halt(6) == pytest.approx(1.5, abs=1e-3)


FAULTS = {
    "above_threshold_half_query_noise": (Run(2, 2), 1.5),
    "above_threshold_least_noise": (Run(1, 1), 3),
    "above_threshold_swapped": (Run(4, 2), 1.25),
    "above_threshold_half_sensitivity": (Run(1, 2), 2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_wrong_constant_loses_what_the_zoo_says(name: str) -> None:
    """The supremum over all queries, and the loss of the pair that the zoo shows."""
    twin, supremum = FAULTS[name]
    assert twin.worst_halt(20) == pytest.approx(supremum, abs=1e-3)
    assert worst_of_the_pair(twin) == pytest.approx(ZOO[name].true_epsilon, abs=1e-9)
    assert f"at worst {supremum}" in ZOO[name].about
    assert ZOO[name].faulty


def test_the_correct_one_of_the_zoo() -> None:
    assert worst_of_the_pair(RIGHT) == pytest.approx(ZOO["above_threshold"].true_epsilon, abs=1e-9)
    assert not ZOO["above_threshold"].faulty


def test_a_threshold_that_is_kept_costs_half_of_epsilon_a_halt_more() -> None:
    """(1 + c)/2 at epsilon 1 for c halts, in the limit; and what the pair of the zoo loses."""
    for halts in (1, 2, 4):
        law = AboveThreshold(epsilon=1, threshold=0, sensitivity=1).parts()
        kept = SparseVectorLaw(
            "single_threshold", halts, (1 + halts) / Decimal(2), 0, law.threshold_scale, law.query_scale
        )
        assert cost(kept, ADD).pure == (1 + halts) / Decimal(2)
    shown = ZOO["above_threshold_kept"]
    assert kept_loss(shown.left, shown.right, 4) == pytest.approx(shown.true_epsilon, abs=1e-9)
    far = ((10.0,) * 12 + (-10.0,) * 4, (11.0,) * 12 + (-11.0,) * 4)
    assert kept_loss(*far, 4, only=(0,) * 12 + (1,) * 4) == pytest.approx(2.5, abs=1e-3)


@given(tests=st.integers(1, 40))
@settings(max_examples=20)
def test_without_threshold_noise_silence_costs_every_test(tests: int) -> None:
    assert Run(0, 4).worst_silence(tests, 30) == pytest.approx(tests / 4, abs=1e-6)


@given(tests=st.integers(1, 40))
@settings(max_examples=20)
def test_a_comparison_that_is_published_costs_every_test(tests: int) -> None:
    """(t, f_t + nu_t) at a value v below all queries: given Z <= v each test before has the ratio e^(1/4), and so has
    the density of v. The integral over Z, of which the shift says nothing any more."""
    z, weights = RIGHT._nodes((0.0, -1.0))
    ratios = []
    for value in (0.0, 1.0):
        reached = np.where(z <= -1, np.exp((np.minimum(z, -1) - value) / 4) / 2, 0.0) ** (tests - 1) * (z <= -1)
        ratios.append(float(weights @ reached) * math.exp((-1 - value) / 4) / 8)
    assert math.log(ratios[0] / ratios[1]) == pytest.approx(tests / 4, abs=1e-9)


def worst_of_the_pair(run: Run) -> float:
    """The greatest loss, over outcomes and both directions, of the zoo's pair."""
    left, right = ((0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,))
    halts = [math.log(run.above_at_last(left[:t]) / run.above_at_last(right[:t])) for t in range(1, 7)]
    return max(abs(one) for one in (*halts, math.log(run.below(left) / run.below(right))))


def kept_loss(left: Any, right: Any, halts: int, only: tuple[int, ...] | None = None) -> float:
    """The greatest loss of one threshold for several halts, over all patterns of answers (or of this one)."""
    patterns = [only] if only else list(_patterns(len(left), halts))
    return max(abs(math.log(_pattern(left, one) / _pattern(right, one))) for one in patterns)


def _patterns(queries: int, halts: int) -> set[tuple[int, ...]]:
    found = set()
    for number in range(2**queries):
        bits = [number >> place & 1 for place in range(queries)]
        ends = [place for place in range(queries) if bits[place]]
        found.add(tuple(bits[: ends[halts - 1] + 1] if len(ends) >= halts else bits))
    return found


def _pattern(values: Any, answers: tuple[int, ...]) -> float:
    z, weights = RIGHT._nodes(sorted(set(values)))
    for value, answer in zip(values, answers, strict=False):
        weights = weights * stats.laplace.cdf((value - z if answer else z - value) / 4)
    return float(weights.sum())


# ---- sampled --------------------------------------------------------------------------------------------------------

VALUES = (0, 1, 0, 2, 1)


def last_answers(mechanism: AboveThreshold, runs: int, seed: int) -> Counter[tuple[int, bool]]:
    """How often a run ended with its t-th answer, above or not."""
    entropy = seeded(seed)

    def ended() -> tuple[int, bool]:
        run: SparseVectorRun = mechanism.open(None, entropy=entropy)
        given_out = run.ask_many(VALUES)
        return len(given_out), given_out[-1] is ABOVE

    return Counter(ended() for _ in range(runs))


def distance(found: Counter[tuple[int, bool]], run: Run) -> float:
    """The p-value of Pearson's test of these frequencies against the law of `run` on VALUES, threshold 1."""
    values = [value - 1.0 for value in VALUES]
    law = {(t, True): run.above_at_last(values[:t]) for t in range(1, len(values) + 1)}
    law[(len(values), False)] = run.below(values)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    counts = [found[one] for one in law]
    return float(stats.chisquare(counts, [found.total() * p for p in law.values()], sum_check=False).pvalue)


def test_runs_have_the_law_of_theory_and_not_that_of_a_twin() -> None:
    """On a grid of 1/1024 the noise is Laplace but for less than can be seen. False alarms: 1e-9."""
    right = last_answers(AboveThreshold(epsilon=1, threshold=1, sensitivity=1), 6000, seed=11)
    assert distance(right, RIGHT) > 1e-9
    twin = AboveThreshold(epsilon=1, threshold=1, share="0.9", sensitivity=1)
    assert distance(last_answers(twin, 6000, seed=11), RIGHT) < 1e-9
