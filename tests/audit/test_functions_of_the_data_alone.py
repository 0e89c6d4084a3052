"""Functions that take no generator: whatever they draw from, no two runs share noise; nothing outside is changed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dpledger as dpl
from dpledger.accounting.guarantees import PureDP
from dpledger.audit import AuditResult, audit_mechanism, audit_outputs

pytestmark = pytest.mark.sliced

TRIALS = 4000  # more than one chunk of a side, in each part but the first


def by_random(data: float, scale: float) -> float:
    return data + scale * (random.expovariate(1) - random.expovariate(1))


def by_numpy(data: float, scale: float) -> float:
    return data + np.random.laplace(scale=scale)  # a global generator is what is tested


def by_torch(data: float, scale: float) -> float:
    return data + float(torch.distributions.Laplace(0.0, scale).sample())


def audited(function: Callable[..., Any], **options: Any) -> AuditResult:
    return audit_mechanism(function, 0.0, 1.0, PureDP(1), trials=TRIALS, progress=False, **{"seed": 3, **options})


def one(draw: Callable[[float, float], float], scale: float = 1.0) -> Callable[[float], float]:
    def of_the_data_alone(data: float) -> float:
        return draw(data, scale)

    return of_the_data_alone


GLOBAL = pytest.mark.parametrize("draw", [by_random, by_numpy, by_torch])


@GLOBAL
def test_it_is_audited_like_one_that_takes_a_generator(draw: Callable[[float, float], float]) -> None:
    assert audited(one(draw)).verdict == "not_refuted"
    assert audited(one(draw, 0.4)).verdict == "violation"


@GLOBAL
def test_the_global_generators_are_seeded_by_the_audit_and_put_back(draw: Callable[[float, float], float]) -> None:
    def states() -> list[Any]:
        return [random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()]

    before = states()
    first, again = (audited(one(draw), jobs=jobs) for jobs in (1, 2))
    assert states() == before
    assert first.evidence == again.evidence


def test_another_seed_gives_other_runs() -> None:
    assert audited(one(by_random), seed=3).evidence != audited(one(by_random), seed=4).evidence


@pytest.mark.parametrize("draw", [by_random, by_numpy])
def test_they_are_put_back_where_a_run_raises(draw: Callable[[float, float], float]) -> None:
    def raising(data: float) -> float:
        if draw(data, 1.0) > 2:
            raise ValueError
        return 1.0

    before = random.getstate(), np.random.random()
    assert audited(raising).verdict == "not_refuted"
    assert random.getstate() == before[0]
    assert np.random.random() != before[1]


class Own:
    """Noise from a generator of its own, which a copy would take along."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __call__(self, data: float) -> float:
        return data + float(np.log(self.rng.random()))


class Shared(Own):
    """Noise from the generator that every caller shares."""

    def __call__(self, data: float) -> float:
        return data + float(np.log(np.random.random()))


@pytest.mark.parametrize("make", [Own, Shared])
def test_no_two_runs_share_noise_whatever_jobs_says(make: type[Own]) -> None:
    """Each is seeded by its number: so they are the same runs for any number of processes, and independent."""
    one, three = (audited(make(), jobs=jobs) for jobs in (1, 3))
    assert one.evidence == three.evidence
    assert one.blind is None


def with_a_default(data: float, rng: np.random.Generator | None = None) -> float:
    assert isinstance(rng, np.random.Generator)
    return data + rng.laplace()


def with_any_number(*arguments: Any) -> float:
    data, rng = arguments
    return float(data + rng.laplace())


@pytest.mark.parametrize(
    "function", [with_a_default, with_any_number, functools.partial(lambda scale, data, rng: data + rng.laplace(), 1)]
)
def test_whatever_can_take_a_generator_is_given_one(function: Callable[..., Any]) -> None:
    assert audited(function).verdict == "not_refuted"


def test_a_second_argument_with_a_value_is_a_setting_and_no_place_for_a_generator() -> None:
    def set_to(data: float, scale: float = 0.4) -> float:
        return by_numpy(data, scale)

    assert audited(set_to).verdict == "violation"


def test_a_partial_and_a_method_are_read_like_functions() -> None:
    assert audited(functools.partial(by_numpy, scale=1.0), seed=1).trials == TRIALS


def test_trials_are_those_that_were_asked_for() -> None:
    assert audited(one(by_numpy)).trials == TRIALS
    rng = np.random.default_rng(1)
    left, right = rng.laplace(0, 1, 2000), rng.laplace(1, 1, 1500)
    found = audit_outputs(left, right, claim=PureDP(1))
    assert (found.trials_left, found.trials_right, found.trials) == (2000, 1500, 1500)


def test_what_takes_nothing_is_refused_by_how_it_is_called() -> None:
    with pytest.raises(dpl.errors.ParameterError, match=r"f\(data, rng\)"):
        audited(lambda: 1)
