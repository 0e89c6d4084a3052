"""The sparse vector's numbers: published scales and tails, exact compositions, realised losses against exact laws."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.families.sparse_vector import (
    calls,
    certify,
    difference_tail,
    ex_post_epsilon,
    few_charges,
    kov_delta,
    pass_probability,
    svt_alpha,
    target_delta,
)
from dpledger.accounting.families.sparse_vector.scales import MODES, SparseVectorMode, auto_mode, sparse_vector_law
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError, WorkLimit
from price_oracles import binomial_below, composed_delta, mp, real, target_charging_delta
from sparse_vector_oracle import Law, Noise

pytestmark = pytest.mark.sliced

HALF_MILLIONTH = Decimal("5e-7")


def close(text: str, digits: int = 10) -> object:
    """The published number, to its digits."""
    return pytest.approx(Decimal(text), rel=Decimal(10) ** -digits)


# ---- composition of pure steps --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "step", "steps", "published"),
    [
        ("1", "0.7", 3, "0.199023947842"),
        ("0.5", "0.05", 20, "0.000947798724284"),
        ("0.5", "0.02", 100, "0.000500128597375"),
        ("1", "0.01", 500, "2.66752729732e-7"),
    ],
)
def test_the_published_deltas_of_compositions(epsilon: str, step: str, steps: int, published: str) -> None:
    assert kov_delta(Decimal(epsilon), Fraction(step), steps) == close(published)


@pytest.mark.parametrize(
    ("step", "steps", "published"),
    [("0.05", 20, "0.872282021043"), ("0.02", 100, "0.823179980886"), ("0.01", 500, "0.937497564124")],
)
def test_the_published_epsilons_of_compositions(step: str, steps: int, published: str) -> None:
    """The epsilon at which delta is 1e-6."""
    assert kov_delta(Decimal(published), Fraction(step), steps) == close("1e-6")


@given(
    st.integers(0, 40).map(lambda n: Decimal(n) / 8),
    st.integers(1, 300).map(lambda n: Fraction(n, 100)),
    st.integers(1, 120),
)
@settings(max_examples=80, deadline=None)
def test_a_composition_is_counted_exactly_from_above(epsilon: Decimal, step: Fraction, steps: int) -> None:
    exact = composed_delta(real(epsilon), mp.mpf(step.numerator) / step.denominator, steps)
    found = real(kov_delta(epsilon, step, steps))
    assert exact <= found * (1 + real("1e-40"))
    assert found <= min(exact * (1 + real("1e-9")) + real("1e-59"), 1)


@pytest.mark.parametrize("steps", [1000, 2001])
def test_long_compositions_use_a_window_that_loses_nothing(steps: int) -> None:
    for epsilon, step in (("1", "0.01"), ("8", "0.02"), ("0", "0.001")):
        exact = composed_delta(real(epsilon), real(step), steps)
        found = real(kov_delta(Decimal(epsilon), Fraction(step), steps))
        assert exact <= found <= exact * (1 + real("1e-9")) + real("1e-59")


def test_compositions_at_the_ends() -> None:
    assert kov_delta(Decimal(3), Fraction(1), 3) == 0
    assert 0 < kov_delta(Decimal("2.999999"), Fraction(1), 3) < Decimal("1e-5")
    assert kov_delta(Decimal(1), Fraction(1000), 3) == 1
    assert kov_delta(Decimal(900), Fraction(1), 1000) < Decimal("1e-59")
    assert kov_delta(Decimal(1), Fraction(1, 10**5), 10**9) < 1
    with pytest.raises(WorkLimit):
        kov_delta(Decimal(1), Fraction(1, 10**6), 10**11)


@given(st.integers(1, 20), st.integers(0, 60), st.integers(1, 200).map(lambda n: Fraction(n, 100)))
@settings(max_examples=40, deadline=None)
def test_the_chance_of_too_few_charges_is_a_binomial_tail(cutoff: int, more: int, step: Fraction) -> None:
    calls = cutoff + more
    exact = binomial_below(cutoff, calls, 1 / (1 + mp.exp(mp.mpf(step.numerator) / step.denominator)))
    found = real(few_charges(cutoff, step, calls))
    assert exact <= found * (1 + real("1e-40"))
    assert found <= exact * (1 + real("1e-9")) + real("1e-59")


@pytest.mark.parametrize(
    ("cutoff", "step", "epsilon", "exact", "bound", "calls"),
    [(1, "0.3", 1, 0.0325750691598, "0.0765267880", 7), (3, "0.2", 1, 0.0310915460686, "0.0613232057", 15)],
)
def test_target_charging_covers_the_worst_adversary(
    cutoff: int, step: str, epsilon: int, exact: float, bound: str, calls: int
) -> None:
    worst = target_charging_delta(cutoff, float(step), epsilon, 60 * cutoff)
    assert worst == pytest.approx(exact, rel=1e-9)
    found = target_delta(Decimal(epsilon), Fraction(step), cutoff, calls)
    assert found == close(bound, 8)
    assert all(float(target_delta(Decimal(epsilon), Fraction(step), cutoff, k)) >= worst for k in range(cutoff, 40))


# ---- scales ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cutoff", "basic", "dr14", "zcdp", "kov"),
    [
        (1, "2", "21.5470890756", "10.9560913904", "1.99999863"),
        (5, "10", "48.1807558903", "24.4985651167", "9.99990050"),
        (20, "40", "96.3615117807", "48.9971302333", "35.6465570"),
        (100, "200", "215.470890756", "109.560913904", "86.1055758"),
        (1000, "2000", "681.378784255", "346.462030466", "275.619191"),
    ],
)
def test_the_published_scales(cutoff: int, basic: str, dr14: str, zcdp: str, kov: str) -> None:
    one = Decimal(1)
    assert sparse_vector_law(one, Decimal(0), cutoff, "basic").threshold_scale == Decimal(basic)
    for mode, published in (("dr14", dr14), ("zcdp", zcdp), ("kov", kov)):
        law = sparse_vector_law(one, HALF_MILLIONTH, cutoff, mode)
        assert law.threshold_scale == close(published, 8)
        assert law.query_scale == 2 * law.threshold_scale


@pytest.mark.parametrize(
    ("cutoff", "delta", "scale", "calls"),
    [
        (5, "5e-7", "26.92662514", 39),
        (20, "5e-7", "40.49445022", 87),
        (50, "5e-7", "56.37456329", 168),
        (100, "5e-7", "74.41669393", 290),
        (2, "0.025", "5.747930808", 12),
    ],
)
def test_the_published_scales_of_target_charging(cutoff: int, delta: str, scale: str, calls: int) -> None:
    law = sparse_vector_law(Decimal(1), Decimal(delta), cutoff, "target_charging")
    assert law.query_scale == close(scale, 9)
    assert (law.threshold_scale, law.calls) == (Decimal(0), calls)


@given(
    st.sampled_from(["0.1", "1", "7.3", "40"]).map(Decimal),
    st.sampled_from(["1e-9", "1e-4", "0.1", "0.45"]).map(Decimal),
    st.integers(1, 12),
    st.integers(2, 60),
)
@settings(max_examples=12, deadline=None)
def test_target_charging_plans_the_best_number_of_calls(
    epsilon: Decimal, delta: Decimal, cutoff: int, twentieths: int
) -> None:
    """Of all numbers; none is planned only where none keeps delta."""
    step = Fraction(epsilon) * Fraction(twentieths, 20) / cutoff
    planned = calls.best_calls(float(epsilon), float(delta), cutoff, float(step))
    deltas = {number: target_delta(epsilon, step, cutoff, number) for number in range(cutoff, 30 * cutoff + 60)}
    if planned is None or min(deltas.values()) > delta:
        assert min(deltas.values()) >= delta
    else:
        assert deltas[planned] <= min(deltas.values()) * (1 + Decimal("1e-9"))


@pytest.mark.parametrize("cutoff", [1, 50])
def test_a_huge_epsilon_is_planned_in_few_steps(cutoff: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of 10^8 calls, among which the search looks at hundreds: as many more or fewer have a larger delta."""
    epsilon, looked = Decimal(2**31), list[int]()
    law = sparse_vector_law(epsilon, Decimal("1e-6"), cutoff, "target_charging")
    step, mass = 1 / Fraction(law.query_scale), calls._mass

    def counted(trials: int, hits: int, chance: float) -> float:
        looked.append(trials)
        return mass(trials, hits, chance)

    monkeypatch.setattr(calls, "_mass", counted)
    planned = calls.best_calls(float(epsilon), 1e-6, cutoff, float(step))
    assert planned is not None
    assert len(looked) < 1000
    deltas = [target_delta(epsilon, step, cutoff, planned + more) for more in (0, -1000, -2, -1, 1, 2, 1000)]
    assert min(deltas) == deltas[0]


@given(
    st.integers(1, 60).map(lambda n: Decimal(n) / 10),
    st.integers(1, 10).map(lambda n: Decimal(10) ** -n * Decimal("0.4")),
    st.integers(1, 40),
    st.sampled_from(MODES),
)
@settings(max_examples=60, deadline=None)
def test_every_scale_that_is_given_out_is_certified(epsilon: Decimal, delta: Decimal, cutoff: int, mode: str) -> None:
    try:
        law = sparse_vector_law(epsilon, delta, cutoff, mode)
    except CannotCertify:
        assert mode == "dr14"
        assert epsilon > Decimal("3.2") * -delta.ln()
        return
    certify(law)
    assert law.delta == (0 if mode in ("basic", "single_threshold") else delta)
    if mode in ("basic", "kov", "single_threshold", "target_charging"):
        less = Decimal("0.99999")
        scales = _short(law.threshold_scale * less), _short(law.query_scale * less)
        with pytest.raises(ClaimTooSmall):
            certify(SparseVectorLaw(law.mode, cutoff, epsilon, law.delta, scales[0], scales[1], law.calls))


def _short(number: Decimal) -> Decimal:
    return Decimal(f"{number:.20g}")


def test_auto_takes_the_most_accurate_mode() -> None:
    one, millionth = Decimal(1), Decimal("0.000001")
    assert auto_mode(one, Decimal(0), 50) == "single_threshold"
    assert auto_mode(one, millionth, 1) == "single_threshold"
    assert auto_mode(one, millionth, 100) == "target_charging"
    for cutoff in (1, 10, 25, 200):
        laws = {mode: sparse_vector_law(one, millionth, cutoff, mode) for mode in MODES}
        alphas = {mode: svt_alpha(law, 1000 * cutoff, Decimal("0.05")) for mode, law in laws.items()}
        assert auto_mode(one, millionth, cutoff) == min(alphas, key=lambda mode: alphas[mode])


@pytest.mark.parametrize("mode", MODES)
def test_bad_budgets_are_refused_by_name(mode: str) -> None:
    for epsilon, delta, cutoff, field in [
        ("0", "1e-6", 1, "epsilon"),
        ("NaN", "1e-6", 1, "epsilon"),
        ("1", "0.5", 1, "delta"),
        ("1", "-1", 1, "delta"),
        ("1", "1e-6", 0, "cutoff"),
    ]:
        with pytest.raises(ParameterError, match=f"^{field}"):
            sparse_vector_law(Decimal(epsilon), Decimal(delta), cutoff, mode)


def test_modes_that_compose_approximately_need_a_delta() -> None:
    for mode in ("dr14", "zcdp", "kov", "target_charging"):
        with pytest.raises(ParameterError, match="a number above 0 in mode"):
            sparse_vector_law(Decimal(1), Decimal(0), 3, mode)


@pytest.mark.parametrize(
    ("law", "field"),
    [
        (SparseVectorLaw("basic", 3, 1, 0, 0, 12), "threshold_scale"),
        (SparseVectorLaw("target_charging", 3, 1, "1e-6", 6, 12, 9), "threshold_scale"),
        (SparseVectorLaw("target_charging", 3, 1, "1e-6", 0, 12), "calls"),
        (SparseVectorLaw("target_charging", 3, 1, "1e-6", 0, 12, 2), "calls"),
        (SparseVectorLaw("kov", 3, 1, "1e-6", 6, 12, 9), "calls"),
    ],
)
def test_scales_that_a_mode_cannot_have_are_refused(law: SparseVectorLaw, field: str) -> None:
    with pytest.raises(ParameterError, match=rf"SparseVectorLaw\.{field}"):
        certify(law)


# ---- what a pattern reveals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["basic", "single_threshold", "target_charging"])
@pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])
def test_no_pattern_reveals_more_than_its_realised_loss(mode: SparseVectorMode, discrete: bool) -> None:
    """Every pattern of four tests, on neighbours whose queries move by one (and, for whole noise, not at all)."""
    cutoff, b1, b2 = 2, 0 if mode == "target_charging" else 2, 3
    law = SparseVectorLaw(mode, cutoff, 9, "0.4", b1, b2, 9 if mode == "target_charging" else None)
    run = Law(Noise(b1, discrete), Noise(b2, discrete), 1, cutoff, refreshed=mode == "basic")
    values = (3.0, -1.0, 2.0, 0.0)
    left = run.distribution(values)
    tightest = 0.0
    for moves in itertools.product((-1, 0, 1) if discrete else (-1, 1), repeat=4):
        right = run.distribution([value + move for value, move in zip(values, moves, strict=True)])
        for pattern, mass in left.items():
            loss = abs(math.log(mass / right[pattern]))
            bound = float(ex_post_epsilon(law, outcome_of(pattern, cutoff)))
            assert loss <= bound + 1e-9
            tightest = max(tightest, loss / bound)
    assert tightest > 0.6


def outcome_of(pattern: str, cutoff: int) -> SparseVectorOutcome:
    *closed, last = pattern.split("0")
    return SparseVectorOutcome(tuple(len(epoch) + 1 for epoch in closed), len(last), len(closed) == cutoff)


def test_the_realised_losses_of_the_modes() -> None:
    one_failed, none_failed = SparseVectorOutcome((40,), 30, False), SparseVectorOutcome((), 70, False)
    basic = SparseVectorLaw("basic", 4, 1, 0, 8, 16)
    single = SparseVectorLaw("single_threshold", 4, 1, 0, 4, 16)
    target = SparseVectorLaw("target_charging", 4, 1, "1e-6", 0, 20, 30)
    assert (ex_post_epsilon(basic, one_failed), ex_post_epsilon(basic, none_failed)) == (
        Decimal("0.375"),
        Decimal("0.125"),
    )
    assert (ex_post_epsilon(single, one_failed), ex_post_epsilon(single, none_failed)) == (
        Decimal("0.375"),
        Decimal("0.25"),
    )
    assert ex_post_epsilon(target, one_failed) == Decimal("3.5")
    for law in (basic, single, target):
        assert ex_post_epsilon(law, SparseVectorOutcome((), 1, False)) == 1 / law.query_scale
        assert ex_post_epsilon(law, SparseVectorOutcome((), 0, False)) == 0


@pytest.mark.parametrize(
    ("closed", "open_epoch", "field"),
    [((1, 1, 1), 0, "closed_epochs"), ((0,), 0, "closed_epochs"), ((1, 1), 4, "open_epoch")],
)
def test_outcomes_that_a_run_cannot_have_are_refused(closed: tuple[int, ...], open_epoch: int, field: str) -> None:
    with pytest.raises(ParameterError, match=rf"SparseVectorOutcome\.{field}"):
        ex_post_epsilon(SparseVectorLaw("basic", 2, 1, 0, 4, 8), SparseVectorOutcome(closed, open_epoch, True))


# ---- how likely a test passes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "published"),
    [(0, "0.0536003412494"), (5, "0.177322364803"), (10, "0.5"), (15, "0.822677635197"), (20, "0.946399658751")],
)
def test_the_published_pass_probabilities(value: int, published: str) -> None:
    assert pass_probability(Decimal(value), Decimal(10), Decimal(2), Decimal(4), noise="laplace") == close(published)


@pytest.mark.parametrize(
    ("b1", "b2", "s", "published"),
    [
        ("0.7", "1.4", 1, "0.366965366709"),
        ("0.7", "1.4", 3, "0.0979164600325"),
        ("0.7", "1.4", 10, "0.000680792548814"),
        ("2", "4", 10, "0.059843462622"),
        ("5", "10", 3, "0.417870496578"),
        ("3", "3", 4, "0.244416371578"),
        ("3", "1.5", 4, "0.188154852765"),
    ],
)
def test_the_published_discrete_tails(b1: str, b2: str, s: int, published: str) -> None:
    assert difference_tail(Decimal(s), Decimal(b1), Decimal(b2), noise="discrete_laplace") == close(published)


@pytest.mark.parametrize(("b1", "b2"), [("1", "2"), ("3", "3"), ("3", "3.0000000001"), ("2", "0.5"), ("0", "2")])
@pytest.mark.parametrize("gap", [-7, -1, 0, 1, 5])
def test_pass_probabilities_are_those_of_the_noise(b1: str, b2: str, gap: int) -> None:
    for noise in ("laplace", "discrete_laplace"):
        law = Law(Noise(float(b1), noise == "discrete_laplace"), Noise(float(b2), noise == "discrete_laplace"), gap, 1)
        found = pass_probability(Decimal(0), Decimal(gap), Decimal(b1), Decimal(b2), noise=noise)
        assert float(found) == pytest.approx(law.probability([0.0], "1"), abs=1e-12)


def test_distances_that_have_no_tail_are_refused() -> None:
    for distance, noise in (("-1", "laplace"), ("0", "discrete_laplace"), ("1.5", "discrete_laplace")):
        with pytest.raises(ParameterError, match="distance"):
            difference_tail(Decimal(distance), Decimal(1), Decimal(2), noise=noise)


def test_a_query_that_far_above_the_threshold_passes() -> None:
    """The union bound of svt_alpha, against the exact chance that one test of many fails."""
    beta = Decimal("0.05")
    for mode in ("single_threshold", "kov", "target_charging"):
        law = sparse_vector_law(Decimal(1), Decimal("1e-6"), 5, mode)
        for noise in ("laplace", "discrete_laplace"):
            alpha = svt_alpha(law, 1000, beta, noise=noise)
            alpha = alpha.to_integral_value() if noise == "discrete_laplace" else alpha
            passes = pass_probability(alpha, Decimal(0), law.threshold_scale, law.query_scale, noise=noise)
            assert 0 < 1 - passes < beta
    with pytest.raises(ParameterError, match="beta"):
        svt_alpha(law, 10, Decimal(1))
    with pytest.raises(ParameterError, match="max_queries"):
        svt_alpha(law, 0, beta)


FLAGS: tuple[None, Literal[True]] = (None, True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cutoff", [1, 2])
@pytest.mark.parametrize("calls", [None, 1, 2, 9])
def test_scales_are_refused_that_a_mode_cannot_have(mode: SparseVectorMode, cutoff: int, calls: int | None) -> None:
    """Each of the ways in which a law may be none, alone and together, in every mode."""
    charging = mode == "target_charging"
    for threshold, stable, monotone, falling in itertools.product((0, 4), (None, 5000), FLAGS, FLAGS):
        law = SparseVectorLaw(
            mode, cutoff, 90, "0.99", threshold, 8, calls, stable_at=stable, monotone=monotone, falling=falling
        )
        wrong = charging != (threshold == 0)
        wrong |= charging and (calls is None or calls < cutoff or monotone is True)
        wrong |= not charging and calls is not None
        wrong |= falling is True and (mode != "single_threshold" or cutoff > 1 or stable is not None)
        if wrong:
            with pytest.raises(ParameterError, match="SparseVectorLaw"):
                certify(law)
        else:
            certify(law)


def test_a_claim_that_its_scales_just_keep_is_kept() -> None:
    """1/8 for the threshold and 2/16 for each of the charges, one for each where queries move in one direction."""
    for cutoff in (1, 3):
        for monotone, each in zip(FLAGS, (Decimal("0.125"), Decimal("0.0625")), strict=True):
            epsilon = Decimal("0.125") + cutoff * each
            certify(SparseVectorLaw("single_threshold", cutoff, epsilon, 0, 8, 16, monotone=monotone))
            with pytest.raises(ClaimTooSmall):
                certify(
                    SparseVectorLaw("single_threshold", cutoff, epsilon - Decimal("1e-20"), 0, 8, 16, monotone=monotone)
                )
