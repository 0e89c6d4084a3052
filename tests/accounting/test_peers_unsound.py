"""Known answers of other accountants that are too small (docs/peers.md): the truth by arbitrary precision, our bounds
against it, and, where the peer is installed, that the page still says what it does."""

import importlib.metadata

import pytest

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.profile import compose
from engine_oracles import ball, composed_sampled_delta

PEER = "14.912838"
TRUTH = "14.9246686"
DELTA = "1e-12"
RUN = Repeated(PoissonSampled(GaussianLaw(2), rate="0.05"), times=5000)


def exact_delta(epsilon: float) -> float:
    """By the contour sum at 300 bits, on another line than the engine's."""
    return ball(composed_sampled_delta([("0.05", "2", 5000)], epsilon, "remove", c=2.5, window=80.0, nodes=260))


def test_the_truth_is_between_our_bounds_and_the_peer_is_below_it() -> None:
    found = compose(RUN).epsilon(DELTA)
    assert float(PEER) < found.lower <= found.upper
    assert exact_delta(found.upper) <= 1e-12 <= exact_delta(found.lower)
    assert exact_delta(float(PEER)) == pytest.approx(1.043006308e-12, rel=1e-8)
    assert found.lower - 1e-7 <= float(TRUTH) <= found.upper + 1e-7


def test_delta_at_the_peers_answer_is_more_than_was_asked_for() -> None:
    assert compose(RUN).delta(PEER).lower > 1.04e-12


def test_ball_arithmetic_says_the_same() -> None:
    checked = compose(RUN, verify="arb").epsilon(DELTA)
    assert float(PEER) + 0.01 < checked.lower <= checked.upper < float(TRUTH) + 1e-6


@pytest.mark.slow
def test_the_page_says_what_the_peer_answers() -> None:
    """Of version 0.6.0; a later one may have mended it, and the page is then to be changed."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    assert importlib.metadata.version("dp-accounting") == "0.6.0"
    step = pld.from_gaussian_mechanism(2.0, sampling_prob=0.05)
    assert step.self_compose(5000).get_epsilon_for_delta(1e-12) == pytest.approx(float(PEER), abs=1e-5)
