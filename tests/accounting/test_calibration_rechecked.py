"""What calibration returns is checked once more, from outside: the certified upper epsilon is at most the target, and
the next value of as many digits misses it; whatever the kind, and at the edges of what may be asked."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.planning.templates import Template, read_template
from dpledger.accounting.profile import compose
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.strict_json import JsonValue

GAUSSIAN: JsonValue = {"kind": "gaussian", "noise_multiplier": "free"}


def template(mechanism: JsonValue, count: JsonValue = 1, relation: str = "add_remove") -> Template:
    return read_template({"relation": relation, "entries": [{"mechanism": mechanism, "count": count}]})


def sampled(of: JsonValue, rate: str = "0.01") -> JsonValue:
    return {"kind": "poisson_sampled", "rate": rate, "of": of}


KNOWN: JsonValue = {"kind": "gaussian", "noise_multiplier": "1"}
SUBSET: dict[str, JsonValue] = {"kind": "sampled_without_replacement", "population": 1000, "batch": 10}

NOISES = [
    template(GAUSSIAN, 100),
    template(sampled(GAUSSIAN), 1000),
    template(sampled(GAUSSIAN), 8),
    template(sampled(GAUSSIAN)),
    template({"kind": "discrete_laplace", "scale": "free", "sensitivity": 1}, 10),
    template({"kind": "discrete_gaussian", "sigma": "free", "sensitivity": 1}, 10),
    template({**SUBSET, "of": GAUSSIAN}, 10, "replace_one"),
]
MOST = [
    template(sampled(KNOWN, "free"), 1000),
    template(sampled(KNOWN, "free")),
    template({"kind": "laplace", "epsilon": "free"}, 10),
    template({"kind": "exponential", "epsilon": "free"}, 10),
]
COUNTS = [template(sampled(KNOWN), "free"), template({**SUBSET, "batch": "free", "of": KNOWN}, 1, "replace_one")]


def upper(of: Template, value: Decimal | int, delta: Decimal) -> Decimal:
    return Decimal(compose(of.filled(value)).epsilon(delta).upper)


def next_digit(value: Decimal | int) -> Decimal:
    """One unit in the sixth digit."""
    return Decimal(1).scaleb(Decimal(value).adjusted() - 5)


@pytest.mark.parametrize("free", [*NOISES, *MOST], ids=lambda free: str(free.source)[:90])
def test_the_certified_upper_bound_is_within_the_target_and_the_next_value_is_not(free: Template) -> None:
    target = ApproxDP(1, "1e-6")
    found = free.calibrated(target)
    assert upper(free, found, target.delta) <= 1
    beside = found - next_digit(found) if free in NOISES else found + next_digit(found)
    assert upper(free, beside, target.delta) > 1


@pytest.mark.parametrize("free", COUNTS, ids=lambda free: str(free.source)[:90])
def test_so_are_whole_numbers(free: Template) -> None:
    target = ApproxDP(2, "1e-5")
    found = free.calibrated(target)
    assert isinstance(found, int)
    assert upper(free, found, target.delta) <= 2 < upper(free, found + 1, target.delta)


def test_a_batch_is_at_most_its_population() -> None:
    loose = template(
        {**SUBSET, "batch": "free", "of": {"kind": "gaussian", "noise_multiplier": "100"}}, 1, "replace_one"
    )
    assert loose.calibrated(ApproxDP(1, "1e-5")) == 1000


def test_an_epsilon_of_zero_is_met_by_enough_noise() -> None:
    """Then delta is the total variation distance."""
    free, target = template(GAUSSIAN), ApproxDP(0, "1e-5")
    found = free.calibrated(target)
    assert upper(free, found, target.delta) == 0
    assert compose(free.filled(found - next_digit(found))).delta(0).lower > 1e-5


@pytest.mark.parametrize(
    ("free", "target"),
    [
        (template(GAUSSIAN), ApproxDP(0, 0)),
        (template(GAUSSIAN), ApproxDP(1, 0)),
        (template(sampled(KNOWN), "free"), ApproxDP("0.001", "1e-9")),
    ],
)
def test_targets_that_nothing_meets_are_said_to_be(free: Template, target: ApproxDP) -> None:
    with pytest.raises(InfeasiblePlan, match="no value from"):
        free.calibrated(target)


@pytest.mark.parametrize("noise", ["1", "1e12"])
def test_a_delta_that_is_the_rate_itself_has_an_epsilon(noise: str) -> None:
    """Of one sample: delta / rate is 1, on the edge of what the mechanism that is sampled can be asked."""
    found = compose(template(sampled({"kind": "gaussian", "noise_multiplier": "free"}, "0.001")).filled(Decimal(noise)))
    assert found.epsilon("0.001").upper == 0


@pytest.mark.parametrize("epsilon", ["-1", "nan", "inf", "", True, None, [], "1e18"])
def test_targets_that_are_no_numbers_are_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        ApproxDP(epsilon, "1e-5")  # type: ignore[arg-type]
