"""The law of whole transcripts: what the mechanism draws, what theory says, and what the claim allows.

The oracle sums (or integrates) the threshold noise out and shares no code with the mechanism. With grid 1 and whole
query values the mechanism's noise is discrete Laplace of exactly the scales in its leaf.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from dpledger.accounting.composition import SparseVectorOutcome
from dpledger.accounting.families.sparse_vector import ex_post_epsilon
from dpledger.errors import Halted
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.threshold import Outcome, SparseVector, SparseVectorRun
from sparse_vector_mutants import MUTANTS, open_mutant
from sparse_vector_oracle import Law, Noise, charges_within, hockey_stick

pytestmark = pytest.mark.sliced

SIGNIFICANCE = 1e-9

MODES: list[dict[str, Any]] = [
    {"mode": "single_threshold"},
    {"mode": "basic"},
    {"mode": "dr14", "delta": "0.1"},
    {"mode": "zcdp", "delta": "0.1"},
    {"mode": "kov", "delta": "0.1"},
    {"mode": "target_charging", "delta": "0.1"},
]


def law_of(mechanism: SparseVector) -> Law:
    """The oracle's law for a mechanism with grid 1 and sensitivity 1."""
    leaf = mechanism.parts()
    return Law(
        Noise(float(leaf.threshold_scale)),
        Noise(float(leaf.query_scale)),
        float(mechanism.threshold),
        leaf.cutoff,
        refreshed=leaf.mode not in ("single_threshold", "target_charging"),
    )


def transcript(run: SparseVectorRun, values: Sequence[int]) -> str:
    """The answers until the run halts: "1" for a free one."""
    answers = ""
    for value in values:
        try:
            answers += "1" if run.ask(value) is Outcome.ABOVE else "0"
        except Halted:
            break
    return answers


def outcome_of(text: str, cutoff: int) -> SparseVectorOutcome:
    *closed, still_open = text.split("0")
    return SparseVectorOutcome(
        closed_epochs=tuple(len(epoch) + 1 for epoch in closed),
        open_epoch=len(still_open),
        halted=len(closed) == cutoff,
    )


# ---- the oracle itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("discrete", "known"),
    [
        (False, {"00": 0.234767512818, "010": 0.299790760661, "0111": 0.0598041000844, "1111": 0.0589710927724}),
        (True, {"00": 0.295940237048, "0111": 0.0467603440277, "1010": 0.00707182672482, "1111": 0.039946949635}),
    ],
)
def test_the_oracle_agrees_with_an_independent_derivation(discrete: bool, known: dict[str, float]) -> None:
    """Values at 30 digits from closed-form integrals (continuous) and exact sums (discrete); a law adds up to one."""
    law = Law(Noise(1.3, discrete), Noise(2.6, discrete), 4, 2)
    found = law.distribution([3, 5, 1, 4])
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    for text, probability in known.items():
        assert found[text] == pytest.approx(probability, rel=1e-10)


# ---- the mechanism against the oracle -------------------------------------------------------------------------------

VALUES = [3, 5, 1, 4]


def opener(name: str | None, mechanism: SparseVector, seed: int) -> Callable[[], SparseVectorRun]:
    """Opens runs of the mechanism, or of its mutant `name`, all from one stream of words."""
    entropy = seeded(seed)
    if name is None:
        return lambda: mechanism.open(None, entropy=entropy)
    return lambda: open_mutant(name, mechanism, None, entropy=entropy)


def frequencies(mechanism: SparseVector, runs: int, seed: int, mutant: str | None = None) -> Counter[str]:
    open_run = opener(mutant, mechanism, seed)
    return Counter(transcript(open_run(), VALUES) for _ in range(runs))


def least_p_value(found: Counter[str], law: Law) -> float:
    """The smallest exact binomial p-value of a transcript's frequency, times their number (Bonferroni)."""
    expected = law.distribution(VALUES)
    assert set(found) <= set(expected)
    values = [stats.binomtest(found[text], found.total(), p).pvalue for text, p in expected.items()]
    return min(1.0, len(values) * float(min(values)))


@pytest.mark.parametrize("change", MODES, ids=lambda change: str(change["mode"]))
def test_transcripts_have_exactly_the_law_of_theory(change: dict[str, Any]) -> None:
    mechanism = SparseVector(epsilon=3, cutoff=2, threshold=4, grid=1, sensitivity=1, **change)
    assert least_p_value(frequencies(mechanism, 4000, seed=21), law_of(mechanism)) > SIGNIFICANCE


@pytest.mark.parametrize("mutant", ["SVT-B1", "SVT-B2", "SVT-B6"])
def test_the_same_test_rejects_wrong_noise(mutant: str) -> None:
    mechanism = SparseVector(epsilon=6, cutoff=2, threshold=4, grid=1, mode="basic", sensitivity=1)
    assert least_p_value(frequencies(mechanism, 2000, seed=22), law_of(mechanism)) > SIGNIFICANCE
    assert least_p_value(frequencies(mechanism, 2000, seed=22, mutant=mutant), law_of(mechanism)) < SIGNIFICANCE


# ---- the claim against the oracle -----------------------------------------------------------------------------------

STREAM = st.lists(st.tuples(st.integers(-6, 6), st.integers(-1, 1)), min_size=1, max_size=7)


@pytest.mark.parametrize("change", MODES, ids=lambda change: str(change["mode"]))
@given(stream=STREAM, cutoff=st.integers(1, 3), epsilon=st.sampled_from(["0.5", "1", "4"]))
@settings(max_examples=25, deadline=None)
def test_neighbours_are_as_close_as_claimed(
    change: dict[str, Any], stream: list[tuple[int, int]], cutoff: int, epsilon: str
) -> None:
    """Every transcript for the pure modes; the hockey-stick divergence for the others. Both directions."""
    mechanism = SparseVector(epsilon=epsilon, cutoff=cutoff, threshold=1, grid=1, sensitivity=1, **change)
    law = law_of(mechanism)
    here = law.distribution([value for value, _ in stream])
    there = law.distribution([value + move for value, move in stream])
    delta = float(mechanism.parts().delta)
    for left, right in ((here, there), (there, here)):
        assert hockey_stick(left, right, float(epsilon)) <= delta + 1e-12


@pytest.mark.parametrize("change", MODES, ids=lambda change: str(change["mode"]))
@given(stream=STREAM, cutoff=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_each_transcript_is_within_its_realised_loss(
    change: dict[str, Any], stream: list[tuple[int, int]], cutoff: int
) -> None:
    """|log P/P'| of every transcript is at most what its outcome is settled at."""
    mechanism = SparseVector(epsilon=2, cutoff=cutoff, threshold=1, grid=1, sensitivity=1, **change)
    law = law_of(mechanism)
    there = law.distribution([value + move for value, move in stream])
    for text, probability in law.distribution([value for value, _ in stream]).items():
        realised = float(ex_post_epsilon(mechanism.parts(), outcome_of(text, cutoff)))
        assert abs(math.log(probability / there[text])) <= realised + 1e-9


# ---- known audit cases: epsilon 1, cutoff 1, threshold 0, mode basic (scales 2 and 4) -------------------------------

CONTINUOUS = (Noise(2, discrete=False), Noise(4, discrete=False))
TESTS_PASS_THEN_FAIL = "111110"


@pytest.mark.parametrize(
    ("law", "here", "there", "text", "expected"),
    [
        (Law(*CONTINUOUS, 0, 1), [-2] * 6, [-3] * 5 + [-1], TESTS_PASS_THEN_FAIL, (0.0094967678, 0.0036448163)),
        (Law(CONTINUOUS[0], Noise(0), 0, 1), [1, -1], [0, 0], "10", (0.3934693403, 0.0)),
        (
            Law(CONTINUOUS[0], CONTINUOUS[0], 0, 1),
            [-2] * 6,
            [-3] * 5 + [-1],
            TESTS_PASS_THEN_FAIL,
            (0.0090661453, 0.0020443828),
        ),
        (
            Law(*CONTINUOUS, 0, 2),
            ([0] * 5 + [-2]) * 2,
            ([-1] * 5 + [-1]) * 2,
            TESTS_PASS_THEN_FAIL * 2,
            (0.0012947148, 0.0002259966),
        ),
        (Law(*CONTINUOUS, 0, 1, every_test=True), [3] * 19, [2] * 19, "1" * 19, (0.0020671673, 0.0003413760)),
        (Law(Noise(0), Noise(1, discrete=False), 0, 1), [1] * 6, [0] * 6, "1" * 6, (0.2953475946, 0.015625)),
    ],
    ids=["SVT-OK", "SVT-B1", "SVT-B2", "SVT-B3", "SVT-B5", "TCT-B1"],
)
def test_audit_cases_have_their_published_probabilities(
    law: Law, here: list[int], there: list[int], text: str, expected: tuple[float, float]
) -> None:
    """Only the correct mechanism stays within e^epsilon = e of its neighbour."""
    found = law.probability(here, text), law.probability(there, text)
    assert found == pytest.approx(expected, abs=2e-10)
    correct = law == Law(*CONTINUOUS, 0, 1)
    assert (found[0] <= math.e * found[1]) is correct


def test_runs_with_too_many_charges_leave_the_claim_far_behind() -> None:
    """SVT-B4 and SVT-B6, noise for one charge: the number of charges among equal queries at 0, against 1."""
    law, queries = Law(*CONTINUOUS, 0, cutoff=10**6), 70
    here, there = charges_within(law, 0, queries), charges_within(law, 1, queries)
    assert max(here[k] / there[k] for k in range(queries) if here[k] > 0.1) > math.exp(2)
    assert (here[40], there[40]) == pytest.approx((0.0187176394, 0.0005563487), abs=2e-10)
    assert here[40] < float(stats.binom.sf(39, queries, 0.5)), "tests of one threshold are not independent"


# ---- the same, sampled ----------------------------------------------------------------------------------------------

Event = Callable[[str], bool]


def lower_bound(here: int, there: int, trials: int) -> float:
    """log(p_low / q_high), two one-sided Clopper-Pearson limits at 5e-9: above a true epsilon once in 10^8."""
    if not here:
        return -math.inf
    low = float(stats.beta.ppf(5e-9, here, trials - here + 1))
    high = float(stats.beta.ppf(1 - 5e-9, there + 1, trials - there)) if there < trials else 1.0
    return math.log(low / high)


def hits(open_run: Callable[[], SparseVectorRun], values: Sequence[int], event: Event, trials: int) -> int:
    return sum(event(transcript(open_run(), values)) for _ in range(trials))


def audited(
    name: str | None, mechanism: SparseVector, here: list[int], there: list[int], event: Event, trials: int
) -> float:
    """A lower bound of epsilon from `trials` runs a side of the mechanism, or of its mutant `name`."""
    open_run = opener(name, mechanism, seed=31)
    return lower_bound(hits(open_run, here, event, trials), hits(open_run, there, event, trials), trials)


def one_charge(**changes: Any) -> SparseVector:
    return SparseVector(**{"epsilon": 1, "cutoff": 1, "threshold": 0, "sensitivity": 1, "mode": "basic", **changes})


def test_the_correct_mechanism_is_not_refuted() -> None:
    """SVT-OK, in the direction that comes within 4 % of the claim."""
    event: Event = "111110".__eq__
    assert audited(None, one_charge(), [-2] * 6, [-3] * 5 + [-1], event, 3000) <= 1


def test_a_run_without_query_noise_is_refuted() -> None:
    """SVT-B1: ABOVE, then BELOW on two equal queries needs a query noise."""
    assert audited("SVT-B1", one_charge(), [1, -1], [0, 0], "10".__eq__, 400) > 1


def test_target_charging_with_too_little_noise_is_refuted() -> None:
    """TCT-B1: each of six free answers reveals a little, and the noise was set for one."""
    mechanism = one_charge(mode="target_charging", delta="0.000001")
    assert audited("TCT-B1", mechanism, [1] * 6, [0] * 6, "111111".__eq__, 2000) > 1
    assert audited(None, mechanism, [1] * 6, [0] * 6, "111111".__eq__, 500) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cutoff"), [("SVT-B4", 1), ("SVT-B6", 40)])
def test_too_many_charges_are_refuted(name: str, cutoff: int) -> None:
    """A run that does not halt, and one whose noise is set for a single charge: 34 charges among 70 equal queries."""

    def event(text: str) -> bool:
        return text.count("0") >= 34

    assert audited(name, one_charge(cutoff=cutoff), [0] * 70, [1] * 70, event, 3000) > 1


def test_every_mutant_is_named() -> None:
    assert set(MUTANTS) == {f"SVT-B{i}" for i in range(1, 7)} | {"TCT-B1"}
