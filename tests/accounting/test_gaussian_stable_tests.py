"""Gaussian tests of distances: what they claim, against exact enumeration of every transcript of a few tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from decimal import Decimal

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.certificates import gaussian_tests as gaussian_module
from dpledger.accounting.certificates.gaussian_tests import (
    GaussianTestsLaw,
    gaussian_distance,
    gaussian_tests,
    gaussian_tests_parts,
)
from dpledger.accounting.composition import Group, Sequence
from dpledger.accounting.families.sparse_vector.stable_scales import required_distance, stable_law
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import check, cost
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

BETA = Decimal("0.05")


Transcripts = dict[tuple[str, ...], float]


def passes(law: GaussianTestsLaw, distance: int) -> float:
    """P(distance + noise > threshold), noise on the integers, summed."""
    sigma = float(law.sigma)
    reach = math.ceil(40 * sigma) + law.threshold + 2
    weights = {k: math.exp(-k * k / (2 * sigma * sigma)) for k in range(-reach, reach + 1)}
    return math.fsum(w for k, w in weights.items() if distance + k > law.threshold) / math.fsum(weights.values())


def hockey_stick(there: Transcripts, back: Transcripts, epsilon: float) -> float:
    return math.fsum(max(0.0, p - math.exp(epsilon) * back.get(o, 0.0)) for o, p in there.items())


def transcripts(law: GaussianTestsLaw, side: str, queries: Iterable[tuple[str, int, int]]) -> Transcripts:
    """The law of the answers: a critical query shows the side that it passed on."""
    found: Transcripts = {(): 1.0}
    for kind, left, right in queries:
        chance = passes(law, left if side == "left" else right)
        shown = side if kind == "critical" else "value"
        found = {
            (*past, answer): p * q
            for past, p in found.items()
            for answer, q in ((shown, chance), ("unstable", 1 - chance))
        }
    return found


@pytest.mark.parametrize(("epsilon", "delta", "tests"), [("1", "0.05", 3), ("2", "0.2", 2), ("0.5", "0.01", 3)])
def test_no_transcript_shows_more_than_is_claimed(epsilon: str, delta: str, tests: int) -> None:
    law = gaussian_tests(Decimal(epsilon), Decimal(delta), tests)
    w, worst = law.threshold, 0.0
    queries = [("critical", 0, 0), *(("near", at, at + 1) for at in (0, w - 1, w, w + 2)), ("near", w + 1, w)]
    for stream in itertools.product(queries, repeat=tests):
        left, right = (transcripts(law, side, stream) for side in ("left", "right"))
        worst = max(worst, hockey_stick(left, right, float(epsilon)), hockey_stick(right, left, float(epsilon)))
    assert worst <= float(delta)
    assert worst >= float(delta) * 0.2, "nothing would be found"


def test_a_stream_of_critical_tests_attains_its_delta() -> None:
    law = gaussian_tests(Decimal(1), Decimal("0.05"), 4)
    stream = (("critical", 0, 0),) * 4
    found = hockey_stick(transcripts(law, "left", stream), transcripts(law, "right", stream), 5.0)
    told = float(law.delta_stability)
    assert found <= told
    assert found == pytest.approx(1 - (1 - passes(law, 0)) ** 4)
    assert told <= 2 * found, "the normal tail in place of the discrete one costs half a step"


@given(st.integers(1, 40), st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_the_chance_of_each_test_is_from_above(sigma: int, threshold: int) -> None:
    told = gaussian_module._each(Decimal(sigma) / 2, threshold)
    with mpmath.workdps(40):
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(sigma) ** 2 / 4)) for k in range(2000)]
        assert mpmath.mpf(str(told)) >= mpmath.fsum(weights[threshold + 1 :]) / (2 * mpmath.fsum(weights) - 1)


@given(st.integers(1, 10**6))
@settings(max_examples=20, deadline=None)
def test_all_tests_together_keep_their_share_of_delta(tests: int) -> None:
    law = gaussian_tests(Decimal(1), Decimal("1e-6"), tests)
    assert law.delta_stability == tests * law.delta_each <= Decimal("5e-7")
    price = cost(gaussian_tests_parts(law), Relation.REPLACE_ONE)
    assert law.delta_stability <= price.delta <= Decimal("1e-6")


def test_the_least_threshold_and_the_published_distances() -> None:
    """(1, 1e-6), beta 0.05: the specification's 394, 1380, 4751, for continuous noise."""
    for tests, published in ((100, 394), (1000, 1380), (10_000, 4751)):
        law = gaussian_tests(Decimal(1), Decimal("1e-6"), tests)
        assert published <= gaussian_distance(law, BETA) <= published + 5
        check(ApproxDP(1, "1e-6"), gaussian_tests_parts(law), Relation.REPLACE_ONE)


def test_the_published_epsilon_of_a_hundred_tests() -> None:
    """Noise of 40 and a delta of stability of 1e-7: 1.0665 at 1e-6, by the engine."""
    law = GaussianTestsLaw(sigma=Decimal(40), threshold=1, max_queries=100, delta_each=Decimal("1e-9"))
    assert compose(gaussian_tests_parts(law)).epsilon("1e-6").upper == pytest.approx(1.0665, abs=5e-5)


def test_from_the_told_distance_on_all_values_are_released() -> None:
    law = gaussian_tests(Decimal(1), Decimal("0.01"), 20)
    at = gaussian_distance(law, BETA)
    assert 20 * (1 - passes(law, at)) <= float(BETA)
    assert 20 * (1 - passes(law, at - 4)) > float(BETA)


@pytest.mark.parametrize(("queries", "last"), [(100, 7), (1000, 39)])
def test_charged_tests_do_better_up_to_as_many_charges_as_published(queries: int, last: int) -> None:
    gaussian = gaussian_distance(gaussian_tests(Decimal(1), Decimal("1e-6"), queries), BETA)

    def charged(cutoff: int) -> Decimal:
        law = stable_law(Decimal(1), Decimal("1e-6"), cutoff, "auto", max_queries=queries)
        return required_distance(law, queries, BETA, noise="discrete_laplace")

    assert charged(last - 1) < gaussian < charged(last + 2)


def test_a_group_is_refused_and_would_be_wrong_part_by_part() -> None:
    """On two steps a distance may be 0 where the value is another one and 1 where it is not: shown with far more than
    twice the chance. Part by part, with `approx_dp` in place of the curve, a group would claim less."""
    law = GaussianTestsLaw(sigma=Decimal(2), threshold=10, max_queries=1, delta_each=Decimal("5.8e-8"))
    assert passes(law, 0) <= 5.8e-8
    parts = gaussian_tests_parts(law)
    with pytest.raises(CannotCertify):
        compose(Group(parts, 2, Relation.ADD_REMOVE), relation="replace_one")
    assert isinstance(parts.of, Sequence)
    tempting = Sequence((parts.of.of[0], ApproxDP(0, law.delta_stability)))
    claimed = compose(Group(tempting, 2, Relation.ADD_REMOVE), relation="replace_one").delta(8).upper
    assert passes(law, 1) > 6 * claimed


def test_what_it_lacks_is_named() -> None:
    with pytest.raises(ParameterError, match="delta"):
        gaussian_tests(Decimal(1), Decimal(0), 5)
    with pytest.raises(ParameterError, match="delta_split"):
        gaussian_tests(Decimal(1), Decimal("0.1"), 5, delta_split=Decimal(1))
    with pytest.raises(ParameterError, match="beta"):
        gaussian_distance(gaussian_tests(Decimal(1), Decimal("0.1"), 5), Decimal(0))
