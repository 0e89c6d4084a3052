"""Replay accuses no correct mechanism of the project, and finds a planted fault in each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit.replay.differences import same
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import (
    Bernoulli,
    Draw,
    RandomizedAnswer,
    Uniform,
    api,
    bernoulli,
    chains,
    choices,
    randomness_log,
    rising,
)
from public_names import public
from replayed import CASES, Case

pytestmark = pytest.mark.sliced

DOORS = (chains, choices, bernoulli, api, rising)
NAMES = [f"{case.name}-{number}" for number, case in enumerate(CASES)]
ONE_EACH = list({case.name: case for case in reversed(CASES)}.values())


def is_mechanism(value: object) -> bool:
    return isinstance(value, type) and all(hasattr(value, name) for name in ("under", "claim", "parts", "failures"))


def test_no_mechanism_is_missing() -> None:
    mechanisms = {value.__name__ for value in public().values() if is_mechanism(value)}
    assert {case.name for case in CASES} == mechanisms, "two Cases in tests/support/replayed.py each"


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_no_correct_mechanism_is_refuted(case: Case) -> None:
    result = case.replay()
    assert result.verdict == "not_refuted", str(result)
    assert result.apart is None
    assert min(result.calls) > 0
    assert result.used is None or result.used <= 1


# ---- planted faults -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Planted:
    """A fault in the first call that is given a value of the data, on one of the two datasets. `coins`: of a mechanism
    that tosses coins alone, the first of those."""

    fault: Callable[[Draw], Draw | None]
    coins: bool
    here: bool = False
    done: bool = False

    def logged(self, law: Any, fresh: Any, **given: Any) -> Any:
        call = Draw(
            law=law, output=fresh, sensitivity=given.get("sensitivity"), **{k: given[k] for k in ("value", "shape")}
        )
        is_coin = isinstance(law, (Bernoulli, Uniform))
        if not self.here or self.done or is_coin != self.coins:
            return randomness_log.logged(law, fresh, **given)
        self.done = True
        faulty = self.fault(call)
        if faulty is None:
            return raw(call)
        return randomness_log.logged(faulty.law, fresh, **{**given, "value": faulty.value})


def raw(call: Draw) -> Any:
    """What a call answers without noise."""
    if isinstance(call.law, Bernoulli):
        return type(call.output)(call.value >= Fraction(1, 2)) if call.shape == () else call.output
    if isinstance(call.output, int) and not isinstance(call.value, int):
        return 0
    return call.value


def moved_too_far(call: Draw) -> Draw:
    if isinstance(call.law, Bernoulli) and isinstance(call.value, np.ndarray):
        return dataclasses.replace(call, value=1 - call.value)
    if isinstance(call.law, Bernoulli):
        assert isinstance(call.value, Fraction)
        likely = min(call.value, 1 - call.value) > Fraction(1, 100)
        return dataclasses.replace(call, value=call.value / 20 if likely else 1 - call.value)
    if isinstance(call.law, RandomizedAnswer):
        return dataclasses.replace(call, value=call.law.k - 1 - call.value)
    assert call.sensitivity is not None
    grid = getattr(getattr(call.law, "finest", call.law), "grid", 1)
    far = 3 * int(Fraction(call.sensitivity.value) / Fraction(grid)) + 3
    if isinstance(call.value, tuple):
        scores, counts = call.value
        return dataclasses.replace(call, value=(pushed(scores, far), counts))
    return dataclasses.replace(call, value=pushed(call.value, far))


def pushed(value: Any, far: int) -> Any:
    if not isinstance(value, np.ndarray):
        return value + far
    found = value.astype(object)
    found.flat[-1] -= far
    return found


def noise_that_depends_on_the_data(call: Draw) -> Draw:
    for name in ("scale", "sigma", "exponent", "epsilon"):
        if hasattr(call.law, name):
            return dataclasses.replace(call, law=dataclasses.replace(call.law, **{name: 2 * getattr(call.law, name)}))
    return moved_too_far(call)


def no_noise(_: Draw) -> None:
    return None


def tosses_coins_alone(case: Case) -> bool:
    return isinstance(case.mechanism, (dpl.learning.PrivateParityLearner, dpl.learning.RepeatedParity)) or (
        isinstance(case.mechanism, dpl.stability.StableRelease) and case.mechanism.mode == "optimal"
    )


@pytest.mark.parametrize("fault", [moved_too_far, noise_that_depends_on_the_data, no_noise])
@pytest.mark.parametrize("case", ONE_EACH, ids=[case.name for case in ONE_EACH])
def test_a_planted_fault_is_found_in_each(case: Case, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted, inner = Planted(fault, tosses_coins_alone(case)), case.job()
    run = inner if case.ask or case.ready else lambda data, entropy: case.placed().release(data, entropy=entropy)
    for module in DOORS:
        monkeypatch.setattr(module, "logged", planted.logged)

    def job(data: Any, entropy: Entropy) -> object:
        planted.here, planted.done = same(data, case.right), False
        return run(data, entropy)

    assert case.replay(job).verdict == "violation"
