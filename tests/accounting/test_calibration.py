"""Calibration: the value meets its target, the next one does not, and closed forms say which value it must be."""

import math
from collections.abc import Callable
from decimal import Decimal
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.planning.calibration import calibrate, calibrate_count, least_within, meets, next_below
from dpledger.accounting.planning.templates import read_template
from dpledger.errors import CannotCertify, ImplausiblePromise, InfeasiblePlan, ParameterError
from dpledger.strict_json import JsonValue

pytestmark = pytest.mark.sliced


def sampled(noise: object, rate: object, steps: int) -> Composition:
    return Repeated(PoissonSampled(GaussianLaw(noise), rate=rate), times=steps)  # type: ignore[arg-type]


def test_the_gaussian_of_a_closed_form() -> None:
    """Balle-Wang 2018: the least noise with Phi(1/2z - eps z) - e^eps Phi(-1/2z - eps z) <= delta."""
    found = calibrate(GaussianLaw, ApproxDP(1, "1e-5"), digits=8)

    def delta(noise: float) -> float:
        normal = NormalDist()
        return normal.cdf(0.5 / noise - noise) - math.e * normal.cdf(-0.5 / noise - noise)

    assert delta(float(found)) <= 1e-5 * (1 + 1e-9)
    assert delta(float(found) - 1e-7) > 1e-5


@settings(max_examples=12, deadline=None)
@given(
    epsilon=st.sampled_from(["0.3", "1", "4"]),
    delta=st.sampled_from(["1e-3", "1e-6", "1e-12"]),
    rate=st.sampled_from(["0.3", "0.01", "0.001"]),
    steps=st.sampled_from([1, 100, 10**5]),
)
def test_what_is_found_meets_the_target_and_a_little_less_does_not(
    epsilon: str, delta: str, rate: str, steps: int
) -> None:
    target = ApproxDP(epsilon, delta)
    noise = calibrate(lambda z: sampled(z, rate, steps), target, digits=4)
    assert meets(sampled(noise, rate, steps), target)
    spent = dpl.compose(sampled(noise * Decimal("0.995"), rate, steps)).epsilon(delta)
    assert spent.upper > float(epsilon)


def test_the_most_steps_and_the_highest_rate() -> None:
    target = ApproxDP(1, "1e-5")
    steps = calibrate_count(lambda n: sampled("1.1", "0.01", n), target)
    assert meets(sampled("1.1", "0.01", steps), target)
    assert not meets(sampled("1.1", "0.01", steps + 1), target)
    rate = calibrate(lambda q: sampled("1.1", q, 1000), target, seek="most", within=("1e-6", 1), digits=3)
    assert meets(sampled("1.1", rate, 1000), target)
    assert not meets(sampled("1.1", rate * Decimal("1.01"), 1000), target)


@pytest.mark.parametrize(
    ("target", "noise"),
    [
        (ZCDP("0.5"), "10"),  # 100 / (2 z^2)
        (GDP("0.5"), "20"),  # sqrt(100) / z
        (RDP((2, 5), ("0.25", 1)), "20"),  # a 100 / (2 z^2): order 2 rules
    ],
)
def test_targets_in_other_currencies(target: ZCDP | GDP | RDP, noise: str) -> None:
    assert calibrate(lambda z: Repeated(GaussianLaw(z), times=100), target) == Decimal(noise)


def test_a_pure_target_is_met_by_the_sum_of_epsilons() -> None:
    assert calibrate_count(lambda n: Repeated(LaplaceLaw("0.1"), times=n), PureDP(1)) == 10
    assert calibrate(lambda e: Repeated(LaplaceLaw(e), times=8), PureDP(1), seek="most") == Decimal("0.125")
    assert calibrate(lambda e: Repeated(LaplaceLaw(e), times=8), ApproxDP(1, 0), seek="most") <= Decimal("0.125")


def test_a_whole_number_may_be_the_least() -> None:
    """The least number of parts that noise is split over: a scale that is an integer."""
    found = calibrate_count(GaussianLaw, ApproxDP(1, "1e-5"), seek="least")
    assert found == 4  # 3.73 exactly


def test_what_cannot_be_met_says_so() -> None:
    with pytest.raises(
        InfeasiblePlan, match=r"no value from 0\.1 to 2 meets epsilon 1 at delta 0\.00001: not even 2 does"
    ):
        calibrate(GaussianLaw, ApproxDP(1, "1e-5"), within=("0.1", 2))
    with pytest.raises(InfeasiblePlan):
        calibrate_count(lambda n: Repeated(GaussianLaw(1), times=n), ApproxDP(1, "1e-5"))
    with pytest.raises(CannotCertify):
        calibrate(GaussianLaw, PureDP(1))
    with pytest.raises(CannotCertify):
        calibrate(GaussianLaw, BoundedRange(1))
    assert calibrate(GaussianLaw, ApproxDP(100, "0.009"), within=(1, 5)) == 1


@pytest.mark.parametrize("within", [(0, 1), (2, 1), ("nan", 1), (-1, 1), (1, "inf")])
def test_bad_ranges_are_refused(within: tuple[object, object]) -> None:
    with pytest.raises(ParameterError, match="within"):
        calibrate(GaussianLaw, ApproxDP(1, "1e-5"), within=within)  # type: ignore[arg-type]


@pytest.mark.parametrize("digits", [0, 13, True, 2.5])
def test_bad_digits_are_refused(digits: object) -> None:
    with pytest.raises(ParameterError, match="digits"):
        calibrate(GaussianLaw, ApproxDP(1, "1e-5"), digits=digits)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="within"):
        calibrate_count(GaussianLaw, ApproxDP(1, "1e-5"), within=(0, digits))  # type: ignore[arg-type]


# ---- how often it asks ----------------------------------------------------------------------------------------------


@given(
    root=st.floats(0.02, 1e5),
    slope=st.floats(0.3, 6),
    bend=st.floats(-0.3, 0.3),
    rough=st.sampled_from([0.0, 1e-6, 1e-4]),
    digits=st.sampled_from([3, 6, 9]),
)
def test_a_search_asks_a_few_times_and_returns_what_holds(
    root: float, slope: float, bend: float, rough: float, digits: int
) -> None:
    """Halving takes 24 tries for six digits. What is asked may be as rough as certified bounds are wide."""
    asked: list[Decimal] = []

    def excess(value: Decimal) -> float:
        asked.append(value)
        away = math.log(value / Decimal(root))
        return -slope * (away - bend * away * abs(away) / 10) + rough * math.sin(1e5 * float(value))

    found = least_within(excess, within=(Decimal("0.01"), Decimal(10**6)), digits=digits)
    assert found is not None
    assert found in asked
    assert next_below(found, digits) in asked
    assert excess(found) <= 0 < excess(next_below(found, digits))
    assert len(asked) - 2 <= (40 if rough else 16)


def test_a_noise_multiplier_takes_less_than_ten_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    composed = dpl.compose

    def counted(*what: Any, **said: Any) -> Any:
        calls.append(what)
        return composed(*what, **said)

    monkeypatch.setattr("dpledger.accounting.planning.calibration.compose", counted)
    calibrate(lambda z: sampled(z, "0.01", 300), ApproxDP(3, "1e-6"))
    assert len(calls) < 10


# ---- documents with one free number ---------------------------------------------------------------------------------


def document(mechanism: JsonValue, count: JsonValue = 1) -> JsonValue:
    return {"relation": "add_remove", "entries": [{"count": count, "mechanism": mechanism}]}


@pytest.mark.parametrize(
    ("source", "field"),
    [
        (document({"kind": "gaussian", "noise_multiplier": "free"}, 10), "noise_multiplier"),
        (document({"kind": "laplace", "epsilon": "free"}, 10), "epsilon"),
        (document({"kind": "laplace", "epsilon": "0.01"}, "free"), "count"),
        (
            document({"kind": "repeated", "times": "free", "of": {"kind": "gaussian", "noise_multiplier": "30"}}),
            "times",
        ),
        (
            document(
                {"kind": "poisson_sampled", "rate": "free", "of": {"kind": "gaussian", "noise_multiplier": "1"}}, 100
            ),
            "rate",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_free_number_of_a_document_is_found(source: JsonValue, field: str) -> None:
    template = read_template(source)
    assert template.field == field
    found = template.calibrated(ApproxDP(2, "1e-6"))
    assert meets(template.filled(found), ApproxDP(2, "1e-6"))
    assert dpl.compose(template.filled(found)).epsilon("1e-6").upper > 1.95 if field != "times" else found > 1


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (document({"kind": "laplace", "epsilon": "0.1"}), "one number written as"),
        (document({"kind": "laplace", "epsilon": "free"}, "free"), "count, epsilon"),
        (document({"kind": "approx_dp", "epsilon": "1", "delta": "free"}), "delta"),
        (document({"kind": "free"}), "kind"),
        ([], "one number written as"),
    ],
)
def test_documents_without_one_free_number_are_refused(source: JsonValue, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        read_template(source)


@pytest.mark.parametrize("populations", [(50,), (50, 80), (80, 50)])
def test_a_free_batch_is_at_most_each_population(populations: tuple[int, ...]) -> None:
    """Noise that allows any batch: the result is the least population, and no search asks for a larger batch."""
    noise: JsonValue = {"kind": "laplace", "epsilon": "0.001"}
    source: JsonValue = {
        "relation": "replace_one",
        "entries": [
            {
                "count": 1,
                "mechanism": {
                    "kind": "sampled_without_replacement",
                    "of": noise,
                    "population": population,
                    "batch": "free",
                },
            }
            for population in populations
        ],
    }
    template = read_template(source)
    assert template.field == "batch"
    assert template.calibrated(ApproxDP(2, "1e-6")) == min(populations)


# ---- what cannot have been meant ------------------------------------------------------------------------------------

TARGET = ApproxDP(1, "1e-6")


@pytest.mark.parametrize(
    ("search", "other"),
    [
        (lambda: calibrate(LaplaceLaw, PureDP(1)), "most"),
        (lambda: calibrate(LaplaceLaw, PureDP("0.5")), "most"),
        (lambda: calibrate(GaussianLaw, TARGET, seek="most"), "least"),
        (lambda: calibrate(lambda q: PoissonSampled(GaussianLaw(2), rate=q), TARGET, within=("1e-6", 1)), "most"),
        (lambda: calibrate_count(lambda n: (LaplaceLaw("0.1"), n), TARGET, seek="least"), "most"),
    ],
)
def test_seeking_the_wrong_way_is_an_error_that_names_the_right_one(search: Callable[[], object], other: str) -> None:
    with pytest.raises(ParameterError, match=f"^seek: expected '{other}'"):
        search()


def test_a_float_times_the_number_is_a_float_on_the_safe_side() -> None:
    twice = calibrate(lambda z: GaussianLaw(2 * z), TARGET)
    assert twice == calibrate(lambda z: GaussianLaw(2.0 * z), TARGET)
    assert twice * 2.0 == 2 * float(twice)
    assert float(twice) >= twice.exact
    rate = calibrate(
        lambda q: (PoissonSampled(GaussianLaw(2), rate=1.0 * q), 9), TARGET, seek="most", within=("1e-6", 1)
    )
    assert float(rate) <= rate.exact


def test_a_function_that_does_not_take_the_number_is_told_as_such() -> None:
    with pytest.raises(ParameterError, match="a function of one number") as caught:
        calibrate(lambda z: GaussianLaw(z + "1"), TARGET)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("target", [5, None, "pure", GaussianLaw(1), PureDP])
def test_a_target_is_a_guarantee(target: Any) -> None:
    for search in (
        lambda: calibrate(GaussianLaw, target),
        lambda: calibrate_count(lambda n: (GaussianLaw(9), n), target),
    ):
        with pytest.raises(ParameterError, match=r"^target: expected a guarantee"):
            search()


def test_a_delta_that_protects_nobody_is_warned_of_where_it_is_promised() -> None:
    wild = ApproxDP(1, "0.5")
    scope: dict[str, Any] = {"unit": "record", "relation": "add_remove"}
    promises: list[Callable[[], object]] = [
        lambda: calibrate(GaussianLaw, wild, digits=1),
        lambda: calibrate_count(lambda n: (GaussianLaw(9), n), wild),
        lambda: dpl.planning.dpsgd_plan(100, 1, 50, wild, dimension=3),
        lambda: dpl.Ledger.in_memory().scope("rows", budget=wild, **scope),
        lambda: dpl.Ledger.in_memory().scope("rows", budget=dpl.filters.BasicFilter(1, "0.5"), **scope),
        lambda: dpl.Ledger.in_memory().scope("rows", budget=dpl.ZCDP(1, "0.01"), **scope),
    ]
    for promise in promises:
        with pytest.warns(ImplausiblePromise, match="the whole data of each unit"):
            promise()
