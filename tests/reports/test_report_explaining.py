"""Epsilon in odds: against the closed forms at 50 digits, and against the published figures."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.composition import GaussianLaw, LaplaceLaw
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.profile import compose
from dpledger.relations import Relation
from dpledger.reports import words
from dpledger.reports.explain import Odds, missed_at_least, odds, promised, sentences, worst_case

EPSILONS = st.decimals("0", "30", places=6)
DELTAS = st.decimals("0", "0.0009", places=9)
HAIR = mpmath.mpf("1e-10")  # relative: twelve digits are kept


def exactly(number: Decimal) -> mpmath.mpf:
    return mpmath.mpf(str(number))


@pytest.mark.parametrize(
    ("epsilon", "guess", "suspicion", "advantage", "power"),
    [("1", 0.731, 0.0267, 0.462, 0.027), ("4", 0.982, 0.356, 0.964, 0.546)],
)
def test_the_figures_that_are_known(
    epsilon: str, guess: float, suspicion: float, advantage: float, power: float
) -> None:
    found = worst_case(Decimal(epsilon), Decimal("0.000001"))
    assert found.suspicion is not None
    assert float(found.guess) == pytest.approx(guess, abs=5e-4)
    assert float(found.suspicion) == pytest.approx(suspicion, abs=5e-4)
    assert float(found.advantage) == pytest.approx(advantage, abs=5e-4)
    assert float(found.power[0]) == pytest.approx(power, abs=5e-4)
    assert found.exception == Decimal("0.001")


@given(EPSILONS, DELTAS)
def test_the_worst_case_is_its_formula_rounded_up(epsilon: Decimal, delta: Decimal) -> None:
    found = worst_case(epsilon, delta)
    with mpmath.workdps(50):
        raised, rest = mpmath.exp(exactly(epsilon)), exactly(delta)
        advantage = (raised - 1 + 2 * rest) / (raised + 1)
        assert_just_above(found.advantage, advantage)
        assert_just_above(found.guess, (1 + advantage) / 2)
        ratio = raised if not delta else raised / (1 - rest / (1000 * rest))
        assert found.suspicion is not None
        assert_just_above(found.suspicion, ratio / (99 + ratio))
        for rate, power in zip((mpmath.mpf("0.01"), mpmath.mpf("0.001")), found.power, strict=True):
            missed = max(0, 1 - rest - raised * rate, (1 - rest - rate) / raised)
            assert_just_above(power, 1 - missed)


def assert_just_above(bound: Decimal, truth: mpmath.mpf) -> None:
    assert truth <= exactly(bound) <= min(mpmath.mpf(1), truth * (1 + HAIR) + mpmath.mpf("1e-11"))


@given(EPSILONS, DELTAS, st.decimals("0", "1", places=4))
def test_a_trade_off_curve_is_its_own_mirror_image(epsilon: Decimal, delta: Decimal, alpha: Decimal) -> None:
    """No test does better with its two answers exchanged: f(f(alpha)) <= alpha, but for rounding."""
    missed = missed_at_least(epsilon, delta, alpha)
    assert 0 <= missed <= 1
    again = missed_at_least(epsilon, delta, missed)
    assert again <= alpha + Decimal("1e-9") * (1 + epsilon.exp())


@given(EPSILONS, EPSILONS, DELTAS)
def test_more_epsilon_never_means_less_is_learnt(one: Decimal, other: Decimal, delta: Decimal) -> None:
    less, more = (worst_case(epsilon, delta) for epsilon in sorted((one, other)))
    assert numbers(less) <= numbers(more) or all(a <= b for a, b in zip(numbers(less), numbers(more), strict=True))


def numbers(found: Odds) -> tuple[Decimal, ...]:
    return (found.advantage, found.guess, found.suspicion or Decimal(1), *found.power)


def test_the_real_curve_says_less_than_the_worst_case_of_its_epsilon() -> None:
    """A Gaussian of epsilon 1 at 1e-6 lets far less be learnt than (1, 1e-6)-DP would allow."""
    delta = Decimal("0.000001")
    profile = compose(GaussianLaw(noise_multiplier="4.2"))
    epsilon = Decimal(repr(profile.epsilon(delta).upper))
    real, worst = odds(profile, delta), worst_case(epsilon, delta)
    assert real.advantage < worst.advantage / 2
    assert all(mine < theirs for mine, theirs in zip(real.power, worst.power, strict=True))


@pytest.mark.parametrize("mu", ["0.1", "1", "3"])
def test_a_promise_in_gaussian_dp_is_told_by_its_own_curve(mu: str) -> None:
    """Right guesses: Phi(mu / 2); found at 1 % false alarms: Phi(mu - z) (Dong-Roth-Su 2022)."""
    delta = Decimal("0.000001")
    epsilon = GDP(mu).epsilon_at(delta)
    found, read = promised(GDP(mu), Relation.ADD_REMOVE, epsilon, delta), worst_case(epsilon, delta)
    guess = mpmath.ncdf(mpmath.mpf(mu) / 2)
    power = mpmath.ncdf(mpmath.mpf(mu) + mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf("0.01") - 1))
    assert guess <= exactly(found.guess) <= guess + mpmath.mpf("1e-9")
    assert power <= exactly(found.power[0]) <= power + mpmath.mpf("1e-6")
    assert found.guess < read.guess
    assert (found.suspicion, found.exception) == (read.suspicion, read.exception)


@pytest.mark.parametrize("rho", ["0.005", "0.5", "50"])
def test_a_promise_in_zcdp_is_told_between_its_gaussian_and_its_epsilon(rho: str) -> None:
    delta = Decimal("0.000001")
    epsilon = ZCDP(rho).epsilon_at(delta)
    found, read = promised(ZCDP(rho), Relation.ADD_REMOVE, epsilon, delta), worst_case(epsilon, delta)
    least = mpmath.ncdf(mpmath.sqrt(2 * mpmath.mpf(rho)) / 2)
    assert least <= exactly(found.guess)
    assert all(mine <= theirs for mine, theirs in zip(numbers(found), numbers(read), strict=True))
    assert numbers(found) != numbers(read) or rho == "50"


def test_two_numbers_are_their_worst_case() -> None:
    """Also where nothing is promised but them, and where a guarantee says no more."""
    delta = Decimal("0.000001")
    for guarantee in (None, PureDP(1), ApproxDP(1, delta)):
        assert promised(guarantee, Relation.ADD_REMOVE, Decimal(1), delta) == worst_case(Decimal(1), delta)


def test_the_real_curve_of_laplace_noise_is_its_closed_form() -> None:
    """The total variation of two Laplace laws one scale apart is 1 - e^(-1/2)."""
    found = odds(compose(LaplaceLaw(1)), Decimal(0))
    with mpmath.workdps(50):
        truth = 1 - mpmath.exp(mpmath.mpf("-0.5"))
        assert truth <= exactly(found.advantage) <= truth + mpmath.mpf("1e-4")
    assert found.exception == 0


def test_of_pure_noise_nothing_is_excepted() -> None:
    """Not even where the scope allows a delta: its own epsilon holds without any."""
    for epsilon in ("0.1", "1"):
        found = odds(compose(LaplaceLaw(epsilon)), Decimal("1e-6"))
        assert found.exception == 0
        ratio = mpmath.exp(mpmath.mpf(epsilon))
        assert found.suspicion is not None
        assert ratio / (99 + ratio) <= exactly(found.suspicion) <= ratio / (99 + ratio) * (1 + HAIR)
        assert "except" not in sentences(found, Relation.ADD_REMOVE, "patient", "this")[1]
    assert odds(compose(GaussianLaw(2)), Decimal("1e-6")).exception == Decimal("0.001")


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "0"), ("1", "0.000001"), ("4", "0.0001")])
def test_the_engine_knows_the_same_worst_case(epsilon: str, delta: str) -> None:
    """The engine composes the guarantee itself, as a law: its bounds are the closed forms, but for their width."""
    profile = compose(ApproxDP(epsilon, delta))
    worst = worst_case(Decimal(epsilon), Decimal(delta))
    assert profile.advantage().lower <= worst.advantage <= profile.advantage().upper + 1e-9
    for rate in ("0.01", "0.001", "0.3"):
        bounds = profile.tradeoff(rate)
        missed = missed_at_least(Decimal(epsilon), Decimal(delta), Decimal(rate))
        assert bounds.lower - 1e-9 <= missed <= bounds.upper + 1e-9


def test_a_delta_too_large_for_the_sentence_is_said_and_not_hidden() -> None:
    found = worst_case(Decimal(1), Decimal("0.001"))
    assert found.suspicion is None
    assert any("No limit can be stated" in line for line in sentences(found, Relation.ADD_REMOVE, "patient", "it"))


def test_a_huge_epsilon_is_certainty_and_no_error() -> None:
    found = worst_case(Decimal(10**17), Decimal(0))
    assert {found.advantage, found.guess, *found.power} == {Decimal(1)}


@pytest.mark.parametrize("relation", list(Relation))
def test_the_sentences_ask_the_question_of_the_relation(relation: Relation) -> None:
    said = sentences(worst_case(Decimal(1), Decimal("0.000001")), relation, "patient", "everything")
    expected = {
        Relation.ADD_REMOVE: "is in the data",
        Relation.REPLACE_ONE: "two versions",
        Relation.ZERO_OUT: "left blank",
        Relation.LABEL_FLIP: "two labels",
    }
    assert expected[relation] in said[0]
    assert "73.2 %" in said[0]
    assert said[1] == "A suspicion of 1 % becomes at most 2.68 %, except with probability 0.001 (1000 δ)."


@given(st.decimals("0", "1", places=20))
def test_a_percentage_is_never_below_the_probability(share: Decimal) -> None:
    assert Decimal(words.percent(share).removesuffix(" %")) >= share * 100
    assert Decimal(words.percent_at_least(share).removesuffix(" %")) <= share * 100
