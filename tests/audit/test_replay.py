"""Record and replay: what it finds, what it leaves alone, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.audit.replay.calls import Run, used
from dpledger.audit.replay.differences import differences
from dpledger.audit.replay.rows import guesses, paired
from dpledger.errors import PolicyError
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, RoundedGaussian, RoundedLaplace, Sensitivity
from work_counter import lines_run

ONE = Sensitivity(1, "l1", "a row counts at most one")
HUNDREDTHS = RoundedLaplace(scale=Decimal(1) / 12, grid=Decimal(2) ** -7)
ROWS = [0.5, 0.25, 1.0]


def noisy(value: int, entropy: Entropy, scale: Any = 1, sensitivity: Sensitivity = ONE) -> int:
    return noise.draw(DiscreteLaplace(scale), value, sensitivity=sensitivity, entropy=entropy)


def kinds(result: dpl.results.ReplayResult) -> list[tuple[str, int | None]]:
    return [(finding.kind, finding.call) for finding in result.findings]


# ---- what no sampling sees ------------------------------------------------------------------------------------------


def clipped(bound: float) -> Callable[[list[float], Entropy], float]:
    """A sum of rows clipped to a bound; whoever reads it is told 1. Epsilon is 12."""

    def total(rows: list[float], entropy: Entropy) -> float:
        steps = int(np.rint(np.clip(rows, 0, bound) * 128).sum())
        return noise.draw(HUNDREDTHS, steps, sensitivity=ONE, entropy=entropy) / 128

    return total


def test_a_clipped_sum_whose_rows_reach_more_than_declared() -> None:
    result = dpl.audit_replay(clipped(1.1), ROWS, [*ROWS, 7.0])
    assert result.verdict == "violation"
    (finding,) = result.findings
    assert (finding.kind, finding.call) == ("moved", 1)
    assert (finding.moved, finding.declared) == (Fraction(141, 128), Decimal(1))
    assert result.used == Fraction(141, 128)
    assert dpl.audit_replay(clipped(1.0), ROWS, [*ROWS, 7.0]).verdict == "not_refuted"


def test_a_sensitivity_of_the_largest_row() -> None:
    def total(rows: list[int], entropy: Entropy) -> int:
        return noisy(sum(rows), entropy, scale=10, sensitivity=Sensitivity(max(rows), "l1", "the largest row"))

    assert kinds(dpl.audit_replay(total, [1, 2], [1, 2, 9])) == [("law", 1)]


def test_a_scale_of_the_largest_row() -> None:
    result = dpl.audit_replay(lambda rows, entropy: noisy(sum(rows), entropy, scale=max(rows)), [1, 2], [1, 2, 1, 9])
    assert kinds(result) == [("law", 1)]
    assert "scale of discrete_laplace" in result.findings[0].words


def test_a_branch_that_returns_the_number_without_noise() -> None:
    def total(rows: list[int], entropy: Entropy) -> int:
        return sum(rows) if max(rows) > 100 else noisy(sum(rows), entropy)

    for left, right in (([1, 2], [1, 2, 200]), ([1, 2, 200], [1, 2])):
        assert kinds(dpl.audit_replay(total, left, right)) == [("flow", 1)]


@dataclass
class Answer:
    mean: float
    note: object


@pytest.mark.parametrize(
    ("note", "how"),
    [
        (lambda rows: len(rows), "output.note has another value"),
        (lambda rows: "many" if len(rows) > 3 else None, "output.note is of another type"),
        (lambda rows: dict.fromkeys(rows), "output.note has other keys"),
        (lambda rows: float("nan") if 7 in rows else 1.0, "output.note is NaN on one of the two"),
        (lambda rows: -0.0 if 7 in rows else 0.0, "output.note has another value"),
        (lambda rows: np.zeros(len(rows)), "output.note has another shape"),
        (lambda rows: lambda: rows, "output.note.closure[0] has another length"),
        (lambda rows: pd.Series(rows).dtype if 7 in rows else pd.Series([1.5]).dtype, "output.note is of another type"),
    ],
)
def test_a_value_that_leaves_without_a_draw(note: Any, how: str) -> None:
    result = dpl.audit_replay(
        lambda rows, entropy: Answer(noisy(len(rows), entropy), note(rows)), [1, 2, 3], [1, 2, 3, 7]
    )
    assert result.verdict == "violation"
    assert result.findings[0].words.startswith(how), result


def test_an_error_that_one_row_brings_about() -> None:
    def total(rows: list[int], entropy: Entropy) -> float:
        return noisy(len(rows), entropy) / (0 if 7 in rows else 1)

    assert kinds(dpl.audit_replay(total, [1, 2], [1, 2, 7])) == [("raised", None)]


def test_vectors_move_in_the_norm_that_is_declared_exactly() -> None:
    law = RoundedGaussian(sigma=1, grid=Decimal("0.5"))

    def shifted(data: tuple[int, ...], entropy: Entropy) -> Any:
        return noise.draw(law, np.array(data), sensitivity=Sensitivity("2.5", "l2", "said"), entropy=entropy)

    assert dpl.audit_replay(shifted, (0, 0), (3, 4)).used == 1  # 5 steps of a half
    result = dpl.audit_replay(shifted, (2**70, 0), (2**70 + 4, 4))
    assert kinds(result) == [("moved", 1)]
    assert result.findings[0].moved == pytest.approx(8**0.5)


def test_scores_move_by_half_of_their_largest_difference() -> None:
    law = noise.ExponentialWeights(1)

    def chosen(data: Any, entropy: Entropy) -> int:
        scores, counts = data
        return noise.choose(law, scores, counts=counts, sensitivity=Sensitivity(1, "linf", "said"), entropy=entropy)

    assert dpl.audit_replay(chosen, ([5, 5, 5], None), ([9, 9, 9], None)).used == 0  # differences count alone
    assert dpl.audit_replay(chosen, ([5, 5, 5], None), ([6, 4, 5], None)).used == 1
    assert kinds(dpl.audit_replay(chosen, ([5, 5, 5], None), ([6, 3, 5], None))) == [("moved", 1)]
    assert dpl.audit_replay(chosen, ([5, 0], [2, 2**70]), ([0, 5], [2**70, 2])).used == 0
    assert kinds(dpl.audit_replay(chosen, ([5, 0], [2, 2**70]), ([9, 0], [2, 2**70]))) == [("moved", 1)]


def test_the_result_is_found_the_other_way_round_too() -> None:
    def both(rows: list[int], entropy: Entropy) -> object:
        first = noisy(len(rows), entropy)
        return first, (noisy(0, entropy) if 7 in rows else None)

    for pair in (([1], [1, 7]), ([1, 7], [1])):
        assert kinds(dpl.audit_replay(both, *pair)) == [("flow", 2)]


def test_a_training_that_returns_what_its_batch_is_worth() -> None:
    """Coins of a batch protect nothing that is told of the batch."""
    plan = dpl.DPSGD(rate="0.5", steps=2, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=6)
    told: list[float] = []

    def gradients(batch: Any) -> Any:
        told.append(float(np.asarray(batch).sum()))
        return np.asarray(batch)

    def train(rows: Any, entropy: Entropy) -> object:
        told.clear()
        run = plan.under(dpl.Relation.ADD_REMOVE, dpl.Unit()).open(rows, entropy=entropy)
        means = [run.ask(gradients) for _ in run.steps()]
        return means, told[-1]

    rows = np.linspace(-1, 1, 24).reshape(12, 2)
    result = dpl.audit_replay(train, rows, rows[:-1])
    assert kinds(result) == [("returned", None)]
    assert result.findings[0].words.startswith("output[1]")


def test_the_order_of_rows_is_no_difference_between_batches() -> None:
    plan = dpl.DPSGD(rate="0.5", steps=3, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=6)

    def train(rows: Any, entropy: Entropy) -> object:
        run = plan.under(dpl.Relation.ADD_REMOVE, dpl.Unit()).open(rows, entropy=entropy)
        return [run.ask(lambda batch: np.asarray(batch)) for _ in run.steps()]

    rows = np.linspace(-1, 1, 24).reshape(12, 2)
    result = dpl.audit_replay(train, rows, rows[::-1][:-1])
    assert result.verdict == "not_refuted"
    assert result.used is not None
    assert result.used > 0


# ---- nobody is accused who did nothing ------------------------------------------------------------------------------


def by_coins(scores: list[int], entropy: Entropy) -> int:
    """Permute and flip, of two candidates: a coin that falls for sure on one dataset pays for it by the others."""
    first = bool(noise.happens("0.5", entropy=entropy))
    for place in (int(first), 1 - int(first)) * 50:
        if noise.happens(noise.ExpMinus(Fraction(max(scores) - scores[place], 2)), entropy=entropy):
            return place
    return 0


def answered_at_random(data: bool, entropy: Entropy) -> bool:
    return data if noise.happens("0.5", entropy=entropy) else noise.happens("0.5", entropy=entropy)


def subsampled(rows: list[int], entropy: Entropy) -> int:
    return noisy(len(noise.sampled("0.5", len(rows), entropy=entropy)), entropy)


def test_coins_may_be_what_protects() -> None:
    for job, left, right in ((by_coins, [0, 1], [1, 0]), (answered_at_random, True, False), (subsampled, [1], [1, 2])):
        results = [dpl.audit_replay(job, left, right, seed=seed) for seed in range(20)]
        assert all(result.verdict == "not_refuted" or "the two runs differ" in str(result.blind) for result in results)


def test_units_by_their_ids_keep_their_coins() -> None:
    """More of them than ways of leaving one out are tried."""
    plan = dpl.DPSGD(rate="0.5", steps=1, noise_multiplier=4, clip_norm=1, dimension=1, expected_batch_size=50)

    def train(data: dpl.ByUnit, entropy: Entropy) -> object:
        run = plan.under(dpl.Relation.ADD_REMOVE, dpl.Unit("user", max_contributions=2)).open(data, entropy=entropy)
        return run.ask(lambda users: np.array([3 * user.sum(axis=0) for user in users]).reshape(len(users), 1))

    ids = np.repeat(np.arange(100), 2)
    left, right = (dpl.ByUnit(np.ones((200, 1))[kept], units=ids[kept]) for kept in (ids >= 0, ids != 31))
    result = dpl.audit_replay(train, left, right, unit=dpl.Unit("user", max_contributions=2))
    assert result.verdict == "not_refuted"
    assert result.used is not None
    assert result.used > Fraction(9, 10)


def test_runs_that_part_are_no_pass() -> None:
    """Eighty coins in place of seventy nine, of units that nobody can pair."""

    def counted(number: int, entropy: Entropy) -> int:
        noise.sampled("0.5", number, entropy=entropy)
        return noisy(0, entropy)

    result = dpl.audit_replay(counted, 79, 80)
    assert result.verdict == "blind"
    assert "differ from call 1 on" in str(result)


def test_a_few_coins_are_enumerated() -> None:
    for epsilon, verdict in (("1.0987", "not_refuted"), ("1.0985", "violation")):  # ln 3 = 1.09861
        result = dpl.audit_replay(answered_at_random, True, False, claim=dpl.PureDP(epsilon))
        assert result.verdict == verdict, result
    assert "delta is at least" in str(result)


def test_noise_that_is_added_by_hand_may_cover_what_came_back() -> None:
    """Drawn for 0 and added to the data, noise covers them as well; beside it nothing is covered."""

    def by_hand(rows: list[int], entropy: Entropy) -> object:
        return len(rows) + noisy(0, entropy)

    def threshold(rows: list[int], entropy: Entropy) -> object:
        return "above" if len(rows) > noisy(1, entropy, scale=9) else None

    def branch(rows: list[int], entropy: Entropy) -> object:
        return noisy(3, entropy) if len(rows) > noisy(1, entropy, scale=9) else None

    def beside(rows: list[int], entropy: Entropy) -> object:
        return noisy(0, entropy), len(rows)

    for job in (by_hand, threshold, branch):
        results = [dpl.audit_replay(job, [1], [1, 2], seed=seed) for seed in range(9)]
        assert "violation" not in {result.verdict for result in results}
        assert any("may cover it" in str(result) for result in results)
    assert kinds(dpl.audit_replay(beside, [1], [1, 2])) == [("returned", None)]


@pytest.mark.parametrize("epsilon", [4, 12])
def test_noise_that_hardly_ever_shows_covers_as_well(epsilon: int) -> None:
    """At epsilon 12 it is 0 in nearly every run: pushed, it decides what was found."""
    scale = Fraction(1, epsilon)

    def noise_of(entropy: Entropy) -> int:
        return noisy(0, entropy, scale=f"{float(scale):.4f}")

    def adds(rows: list[int], entropy: Entropy) -> object:
        return len(rows) + noise_of(entropy)

    def exceeds(rows: list[int], entropy: Entropy) -> object:
        return len(rows) + noise_of(entropy) >= 2

    def branches(rows: list[int], entropy: Entropy) -> object:
        return noisy(3, entropy) if len(rows) + noise_of(entropy) >= 2 else None

    def is_odd(rows: list[int], entropy: Entropy) -> object:
        if (len(rows) + noise_of(entropy)) % 2:
            raise ValueError
        return 0

    def scales(rows: list[int], entropy: Entropy) -> object:
        return noisy(0, entropy, scale=10 + (len(rows) + noise_of(entropy)) % 2)

    def asks(rows: list[int], entropy: Entropy) -> object:
        return noisy(5 * (len(rows) + noise_of(entropy)), entropy)

    def best(rows: list[int], entropy: Entropy) -> object:
        law, counts = DiscreteLaplace(f"{float(scale):.4f}"), np.array([rows.count(1), rows.count(2)])
        return int(np.argmax(counts + noise.draw(law, np.zeros(2, np.int64), sensitivity=ONE, entropy=entropy)))

    def answers(rows: list[int], entropy: Entropy) -> object:
        lie = noise.respond(noise.RandomizedAnswer(epsilon=epsilon, k=2), 0, entropy=entropy)
        return (len(rows) + lie) % 2

    for job in (adds, exceeds, branches, is_odd, scales, asks, best, answers):
        results = [dpl.audit_replay(job, [1], [1, 2], seed=seed) for seed in range(3)]
        assert {result.verdict for result in results} <= {"not_refuted", "blind"}, job.__name__


def test_what_noise_for_another_value_does_not_decide_is_found_at_once() -> None:
    """Before that noise, or beside it."""

    def before(rows: list[int], entropy: Entropy) -> object:
        return noisy(2 * len(rows), entropy), noisy(0, entropy)

    def flows(rows: list[int], entropy: Entropy) -> object:
        first = noisy(0, entropy)
        return (first, noisy(3, entropy)) if len(rows) > 1 else (first, 3)

    def raises(rows: list[int], entropy: Entropy) -> object:
        noisy(0, entropy)
        if len(rows) > 1:
            raise ValueError
        return 0

    for job, kind in ((before, ("moved", 1)), (flows, ("flow", 2)), (raises, ("raised", None))):
        assert kinds(dpl.audit_replay(job, [1], [1, 2])) == [kind]


def test_a_promise_may_break_with_its_delta() -> None:
    """At distance 0 a value is released with probability delta: in many a recording, and it is within the claim."""
    release = dpl.stability.StableRelease(epsilon=1, delta="0.2", mode="tight")
    results = [dpl.audit_replay(release, ("a", 0), ("b", 1), seed=seed) for seed in range(12)]
    assert {result.verdict for result in results} == {"not_refuted"}
    assert any("did not come again" in str(result) for result in results)


def test_a_value_that_is_released_whatever_its_distance_is_found_in_spite_of_delta() -> None:
    release = dpl.stability.StableRelease(epsilon=1, delta="0.01", mode="tight")
    result = dpl.audit_replay(release, ("a", 10**6), ("b", 10**6 + 1))
    assert kinds(result) == [("returned", None)]
    assert result.recordings > 1


def test_randomness_of_its_own_is_told_and_not_taken_for_data() -> None:
    def total(rows: list[int], rng: np.random.Generator) -> float:
        return len(rows) + float(rng.laplace())

    def mixed(rows: list[int]) -> object:
        return dpl.Count(1, of="rows").under(dpl.Relation.ADD_REMOVE, dpl.Unit()), np.random.default_rng().random()

    for job in (total, mixed):
        result = dpl.audit_replay(job, [1], [1, 2])
        assert result.verdict == "blind"
        assert result.blind is not None
        assert "nothing was drawn" in result.blind


def test_what_goes_before_randomness_of_its_own_is_compared() -> None:
    def total(rows: list[int], entropy: Entropy) -> object:
        found = noisy(10 * len(rows), entropy)
        return found, len(rows) + np.random.default_rng().random()

    result = dpl.audit_replay(total, [1], [1, 2])
    assert kinds(result) == [("moved", 1)]
    assert result.blind is not None

    def correct(rows: list[int], entropy: Entropy) -> object:
        return noisy(len(rows), entropy), len(rows) + np.random.default_rng().random()

    assert dpl.audit_replay(correct, [1], [1, 2]).verdict == "blind"


def test_what_draws_nothing_is_no_pass() -> None:
    result = dpl.audit_replay(lambda rows: sum(rows), [1, 2], [1, 2, 3])
    assert result.verdict == "blind"
    assert str(result).startswith("blind, which does not pass: nothing was drawn through dpledger.mechanisms.noise")
    assert "output has another value" in str(result)


def test_data_that_a_run_alters_are_those_of_no_other() -> None:
    def grows(rows: list[int], entropy: Entropy) -> int:
        rows.append(1)
        return noisy(len(rows), entropy)

    left = [1, 2]
    assert dpl.audit_replay(grows, left, [1, 2, 3]).verdict == "not_refuted"
    assert left == [1, 2]


# ---- how it is asked ------------------------------------------------------------------------------------------------


def test_a_job_is_called_as_it_says() -> None:
    def with_generator(rows: list[int], rng: np.random.Generator) -> int:
        assert isinstance(rng, np.random.Generator)
        return len(rows)

    def by_keyword(rows: list[int], *, entropy: Entropy) -> int:
        return noisy(len(rows), entropy)

    def with_setting(rows: list[int], most: int = 3) -> int:
        return min(len(rows), most)

    for job in (with_generator, by_keyword, with_setting):
        assert dpl.audit_replay(job, [1], [1, 2]).verdict in ("blind", "not_refuted")


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (3, "job"),
        (dpl.SparseVector(epsilon=1, cutoff=1, threshold=1, sensitivity=1), "job"),
        (lambda: 3, "job"),
        (lambda rows: rows.nothing, "job"),
    ],
)
def test_what_cannot_be_called_is_refused(job: Any, field: str) -> None:
    with pytest.raises(dpl.ParameterError) as refusal:
        dpl.audit_replay(job, [1], [1, 2])
    assert refusal.value.field == field


def test_rows_that_are_no_neighbours_are_refused_by_a_mechanism_and_told_of_a_function() -> None:
    with pytest.raises(dpl.ParameterError, match="no neighbours"):
        dpl.audit_replay(dpl.Count(1, of="rows"), [1], [1, 2, 3, 4])
    result = dpl.audit_replay(lambda rows, entropy: noisy(len(rows), entropy), [1], [1, 2, 3, 4])
    assert result.apart is not None
    assert "no neighbours" in str(result)


def test_inside_a_release_nothing_is_replayed() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("visitors", unit="visitor", relation="add_remove", budget=dpl.PureDP(10))

    def inner(rows: Any, entropy: Entropy) -> object:
        return scope.release(dpl.Count(1, of="rows"), rows)

    with pytest.raises(dpl.ParameterError) as refusal:
        dpl.audit_replay(inner, [1], [1, 2])
    assert isinstance(refusal.value.__cause__, PolicyError)


def test_the_result_says_what_it_saw_and_is_no_boolean() -> None:
    result = dpl.audit_replay(clipped(1.1), ROWS, [*ROWS, 7.0], seed=3)
    again = dpl.audit_replay(clipped(1.1), ROWS, [*ROWS, 7.0], seed=3)
    assert (result.findings, result.calls, result.used) == (again.findings, again.calls, again.used)
    document = json.loads(result.to_json())
    assert document["verdict"] == "violation"
    assert document["findings"][0]["moved"] == "141/128"
    assert document["calls"] == {"left": 1, "right": 1}
    assert "1.10156" in str(result)
    assert "1.10156" not in " ".join(result.public_words)
    assert "violation" in repr(result)
    assert "<table" in result._repr_html_()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(result)


def test_keys_of_an_output_are_left_out_of_public_words() -> None:
    result = dpl.audit_replay(lambda rows, entropy: {"Ann Lee": len(rows), "n": noisy(0, entropy)}, [1], [1, 2])
    assert "Ann Lee" in str(result)
    assert "Ann Lee" not in " ".join(result.public_words)


def test_a_pair_takes_few_lines() -> None:
    """Some 15 milliseconds; before, more than twice as many."""
    count = dpl.Count(1, of="rows")
    dpl.audit_replay(count, [1] * 99, [1] * 100)
    assert lines_run(lambda: dpl.audit_replay(count, [1] * 99, [1] * 100)) < 20_000


# ---- differences and rows -------------------------------------------------------------------------------------------


def test_what_is_the_same_to_the_last_bit_has_no_differences() -> None:
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    alike: Any = (
        lambda: {"a": [np.float32(1), float("nan"), {1, 2}], "b": (Decimal("1.0"), 2**80, b"x")},
        lambda: pd.DataFrame({"x": [1.5, None], "y": ["a", None]}),
        lambda: np.array([1, "x", None], dtype=object),
        lambda: Answer(1.0, range(3)),
        lambda: [cyclic],
    )
    for make in alike:
        assert differences(make(), make()) == ()


def test_other_kinds_of_values_are_told_apart() -> None:
    pairs: list[tuple[Any, Any]] = [
        (1, 1.0),
        (Decimal("1.0"), Decimal("1.00")),
        (np.float32(1), np.float64(1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, {1, 3}),
        (pd.Series([1, 2], name="x"), pd.Series([1, 2], name="y")),
        (pd.DataFrame({"x": [1]}), pd.DataFrame({"x": [1.0]})),
        (pd.Timestamp(0), pd.Timestamp(1)),
        (np.array([1.0, np.nan]), np.array([np.nan, 1.0])),
        (int, float),
        (Answer(1, 2).__repr__, Answer(1, 3).__repr__),
    ]
    for left, right in pairs:
        assert differences(left, right), (left, right)


def test_units_are_paired_by_what_they_hold() -> None:
    assert paired([1, 2, 3], [1, 9, 3]) == paired(np.array([1, 2, 3]), np.array([1, 9, 3]))
    left = (np.array([[1, 2], [3, 4], [5, 6]]), [0, 1, 0])
    right = (np.array([[1, 2], [5, 6]]), [0, 0])
    pairing = paired(left, right)
    assert pairing is not None
    assert pairing.only_left == (1,)
    assert pairing.positions(np.array([1, 2])).tolist() == [1]
    assert pairing.swapped.positions(np.array([1])).tolist() == [1, 2]  # who is only there is in as well
    assert pairing.numbers(np.array([7, 8, 9]), np.array([0, 0])).tolist() == [7, 9]
    assert paired(3, 4) is None
    moved = paired([1, 2, 3, 4], [4, 9, 1, 2])
    assert moved is not None
    assert moved.pairs == ((0, 2), (1, 3), (2, 1), (3, 0))
    assert (moved.only_left, moved.only_right) == ((2,), (1,))
    assert moved.positions(np.array([0])).tolist() == [1, 2]
    assert [guess.only_left for guess in guesses(2, 1)] == [(1,), (0,)]
    assert guesses(9, 7) == ()


def test_nothing_is_used_of_runs_that_part_at_once() -> None:
    assert used(Run((), 1), Run((), 2), None) == []
