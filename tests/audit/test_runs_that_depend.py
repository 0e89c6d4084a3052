"""The probe of dependence: exact under independence, whatever the law; it tells what repeats, drifts or is shared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import hypergeom

from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_mechanism, audit_outputs
from dpledger.audit.evidence.binomial import lower_limit
from dpledger.audit.features.blind import STILL
from dpledger.audit.sampling import dependence as probe
from dpledger.audit.sampling.dependence import dependence

pytestmark = pytest.mark.sliced

ALPHA = Fraction(1, 20_000)  # a twentieth of that of an audit at confidence 0.999


@dataclass
class Seen:
    """Runs of one side by structure."""

    numbers: Mapping[str, npt.NDArray[np.float64]]
    labels: Mapping[str, npt.NDArray[np.object_]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter([*self.numbers.values(), *self.labels.values()])))


def seen(values: npt.ArrayLike, **labels: list[str]) -> Seen:
    numbers = np.asarray(values, dtype=np.float64)
    return Seen(
        {"output": numbers.reshape(len(numbers), -1)},
        {name: np.array(words, dtype=object) for name, words in labels.items()},
    )


Draw = Callable[[np.random.Generator, int], npt.NDArray[Any]]


def continuous(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return rng.laplace(size=runs)


def coins(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return rng.integers(2, size=runs)


def rare(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return rng.random(runs) < 0.01


def clipped(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return np.clip(rng.laplace(size=runs), -0.3, 0.3)


def counts(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return rng.geometric(0.3, size=runs)


def constant(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return np.zeros(runs)


def vectors(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return np.round(rng.normal(size=(runs, 3)))


def with_nan(rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
    return np.where(rng.random(runs) < 0.5, np.nan, np.round(rng.laplace(size=runs)))


# ---- laws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("bag", [(0, 0, 0, 1, 1, 2), (0, 1, 2, 3, 4, 5), (0, 0, 0, 0, 0, 1), (0, 0, 1, 1, 2, 2)])
@pytest.mark.parametrize("rule", ["last", "second last", "start", "as before", "other side"])
def test_a_rule_gains_nothing_on_average_over_all_orders(bag: tuple[int, ...], rule: str, more: bool) -> None:
    """Over all 720 orders of what was there: the martingale has mean one."""
    wealth = []
    for order in itertools.permutations(bag):
        codes = np.array(order)
        guesses = {
            "last": probe._earlier(codes, 1),
            "second last": probe._earlier(codes, 2),
            "start": probe._since_start(codes, (0, 2, 4)),
            "as before": probe._as_before(codes),
            "other side": np.array((0, 1, 0, 2, 0, 1)),
        }[rule]
        wealth.append(math.exp(-_signed([("", codes, guesses)], more)))
    assert math.isclose(sum(wealth) / 720, 1, rel_tol=1e-12)


def _signed(rules: Any, more: bool) -> float:
    """Minus the logarithm of the average wealth, also where that is below one."""
    logs = [probe._log_wealth(*probe._met(rule), strength, more=more) for rule in rules for strength in probe.STRENGTHS]
    return -float(np.logaddexp.reduce(logs) - math.log(len(logs)))


def test_a_tail_is_no_less_than_the_exact_one() -> None:
    for runs, marked, drawn in itertools.product((8, 30, 100), (1, 4, 7), (1, 2, 6)):
        law = hypergeom(runs, marked, drawn)
        for hits in range(max(0, drawn + marked - runs), min(drawn, marked) + 1):
            exact = min(1.0, 2 * min(law.cdf(hits), law.sf(hits - 1)))
            assert math.exp(probe._log_tail(hits, runs, marked, drawn)) >= exact * (1 - 1e-9)


@pytest.mark.parametrize("draw", [continuous, coins, rare, clipped, counts, constant, vectors, with_nan])
def test_runs_that_are_independent_are_told_no_more_often_than_that(draw: Draw) -> None:
    """At a level of one half, so that a probe with a wrong p-value would show."""
    rng, audits = np.random.default_rng(20261128), 60
    told = 0
    for _ in range(audits):
        left, right = seen(draw(rng, 128)), seen(draw(rng, 128))
        told += dependence(left, right, Fraction(1, 2), starts=((0, 8, 20, 50), (0, 8, 20, 50))) is not None
    assert lower_limit(told, audits, 1e-9) <= 0.5
    assert told < audits / 4  # a union bound over tests that are far from independent: it stays well below


def test_many_independent_runs_are_not_told() -> None:
    rng = np.random.default_rng(1)
    for draw in (continuous, coins, rare, clipped, constant):
        assert dependence(seen(draw(rng, 70_000)), seen(draw(rng, 70_000)), ALPHA) is None


def test_no_runs_are_no_evidence() -> None:
    nothing = Seen({"output": np.zeros((0, 1))})
    assert dependence(nothing, nothing, ALPHA) is None


# ---- what it must tell ----------------------------------------------------------------------------------------------


def both(make: Callable[[np.random.Generator], npt.NDArray[Any]]) -> str | None:
    rng = np.random.default_rng(7)
    return dependence(seen(make(rng)), seen(1 + make(rng)), ALPHA)


def test_a_quota() -> None:
    used_up = np.arange(20_000) >= 15_000
    assert both(lambda rng: np.where(used_up, np.nan, rng.laplace(size=20_000))) is not None


def test_a_drift() -> None:
    assert both(lambda rng: rng.laplace(size=70_000) + np.arange(70_000) * 4e-6) is not None
    assert both(lambda rng: rng.laplace(size=5_000) * (1 + np.arange(5_000) / 1_000)) is not None


def test_a_warm_up() -> None:
    assert both(lambda rng: np.where(np.arange(500) < 30, 0.0, rng.laplace(size=500))) is not None


@pytest.mark.parametrize("draw", [continuous, coins, counts])
@pytest.mark.parametrize("lag", [1, 4])
def test_outputs_that_are_listed_twice(draw: Draw, lag: int) -> None:
    def twice(rng: np.random.Generator) -> npt.NDArray[Any]:
        return np.repeat(draw(rng, 512).reshape(-1, lag), 2, axis=0).ravel()

    told = both(twice)
    assert told is not None
    assert told.startswith("runs depend on each other: ")


@pytest.mark.parametrize(("runs", "times"), [(90, 3), (500, 3), (1_100, 3), (700, 10)])
def test_outputs_that_are_listed_again_after_all_of_them(runs: int, times: int) -> None:
    rng = np.random.default_rng(runs)
    left, right = (np.tile(rng.laplace(loc, 1, runs), times) for loc in (0, 1))
    assert dependence(seen(left), seen(right), ALPHA) is not None
    result = audit_outputs(left, right, PureDP(1), confidence="0.9999")
    assert result.verdict == "not_refuted"
    assert result.blind == "runs depend on each other: they go on as they did before"


def test_workers_and_batches_that_begin_alike() -> None:
    starts = list(range(0, 512, 32))

    def alike(rng: np.random.Generator) -> npt.NDArray[Any]:
        return np.tile(rng.laplace(size=32), 16)

    rng = np.random.default_rng(7)
    told = dependence(seen(alike(rng)), seen(alike(rng)), ALPHA, starts=(starts, starts))
    assert told == "runs depend on each other: they repeat from one worker, or batch, to the next"


def test_noise_that_both_sides_share() -> None:
    rng = np.random.default_rng(7)
    noise = rng.laplace(size=200)
    assert dependence(seen(noise), seen(noise + 1), ALPHA) is not None
    assert dependence(seen(noise), seen(noise), ALPHA) == "runs depend on each other: one side repeats the other"


def test_answers_that_alternate() -> None:
    assert both(lambda rng: rng.laplace(size=300) + 5 * (np.arange(300) % 2)) is not None


def test_labels_are_outcomes_as_well() -> None:
    half = ["" if run < 60 else "None" for run in range(128)]
    rng = np.random.default_rng(7)
    left, right = (seen(rng.laplace(size=128), output=half) for _ in range(2))
    assert dependence(left, right, ALPHA) is not None
    mixed = [[str(word) for word in rng.permutation(half)] for _ in range(2)]
    left, right = (seen(rng.laplace(size=128), output=words) for words in mixed)
    assert dependence(left, right, ALPHA) is None


class Repeats:
    """A correct coin that gives each answer so many times."""

    def __init__(self, times: int) -> None:
        self.times, self.calls = times, [0, 0]
        self.last = [0.0, 0.0]

    def __call__(self, data: float, rng: np.random.Generator) -> float:
        side = int(data)
        if self.calls[side] % self.times == 0:
            self.last[side] = data if rng.random() < math.e / (1 + math.e) else 1 - data
        self.calls[side] += 1
        return self.last[side]


@pytest.mark.parametrize("times", [4, 10, 30])
def test_a_mechanism_that_repeats_its_answers_is_told_however_soon_the_claim_fell(times: int) -> None:
    fell = []
    for seed in range(8):
        result = audit_mechanism(Repeats(times), 0.0, 1.0, PureDP(1), trials=1_000, seed=seed, progress=False)
        assert result.verdict == "not_refuted"
        assert result.blind is not None
        fell.append(result.evidence.fell_after)
    assert any(fell)  # so it is the order of more runs that saves it


class Keeps:
    """A correct answer, drawn once for each dataset."""

    def __init__(self) -> None:
        self.kept: dict[float, Any] = {}

    def __call__(self, data: float, rng: np.random.Generator) -> Any:
        return self.kept.setdefault(data, {"mean": data + rng.laplace(), "note": "ok", "none": [math.nan, 1]})


def test_what_gives_one_answer_for_ever_looks_like_raw_data_and_its_author_is_told() -> None:
    kept = audit_mechanism(Keeps(), 0.0, 1.0, PureDP(1), trials=1_000, seed=1, progress=False)
    assert kept.verdict == "violation"
    assert STILL in kept.told
    assert STILL in str(kept)
    half = audit_mechanism(
        lambda x, rng: x + rng.laplace(scale=0.5), 0.0, 1.0, PureDP(1), trials=1_000, seed=1, progress=False
    )
    assert half.verdict == "violation"
    assert half.told == ()
    one_side = audit_mechanism(
        lambda x, rng: x * rng.random(), 0.0, 1.0, PureDP(1), trials=1_000, seed=1, progress=False
    )
    assert one_side.told == ()
