"""Known answers of other accountants on the wrong side of the truth (docs/peers.md): the truth in ball arithmetic, our
bounds around it, their answers outside our bounds, and, where a peer is installed, that the page still says what it
answers."""

import importlib.metadata
import math
from dataclasses import dataclass
from typing import Any

import pytest

from ball_contours import Line, OnLine, SampledGaussian, saddle
from ball_profiles import Ball, ball, precision
from dpledger.accounting.composition import Composition, GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.profile import compose
from engine_oracles import ball as middle, composed_sampled_delta


@dataclass(frozen=True)
class Case:
    """`upper`: whether the answer was given as an upper bound (else a lower one); `by`: how far it is off."""

    peer: str
    sigma: str
    rate: str
    steps: int
    delta: str
    answer: str
    by: float
    upper: bool = True

    def tree(self) -> Composition:
        return Repeated(PoissonSampled(GaussianLaw(self.sigma), rate=self.rate), times=self.steps)

    def exact_delta(self, epsilon: Ball) -> Ball:
        """Direction remove, the larger one here: a contour in balls on a line of its own."""
        parts = [(SampledGaussian(self.rate, self.sigma, "remove"), self.steps)]
        line = Line(parts, 0.8 * saddle(parts, math.log(float(self.delta))))
        return OnLine(line, [self.steps])(epsilon)


CASES = (
    Case("dp-accounting", "2", "0.05", 5000, "1e-12", "14.912837804", 1.183e-2),
    Case("dp-accounting", "2", "0.05", 500, "1e-12", "4.491217203", 2.678e-4),
    Case("dp-accounting", "1", "0.0767", 846, "1e-11", "25.453196705", 1.529e-3),
    Case("dp-accounting", "1.94", "0.13", 888, "1e-11", "16.807899871", 2.401e-4),
    Case("dp-accounting", "1.28", "0.0178", 913, "1e-10", "3.424485394", 2.504e-6),
    Case("dp-accounting, grid 1e-5", "2", "0.05", 5000, "1e-8", "12.069366625", 9.95e-7),
    Case("dp-accounting, grid 1e-5", "2", "0.05", 5000, "1e-10", "13.570908659", 2.304e-4),
    Case("dp-accounting, grid 1e-5", "2", "0.05", 5000, "1e-11", "14.261641290", 2.008e-3),
    Case("dp-accounting, grid 1e-5", "2", "0.05", 5000, "1e-12", "14.908696771", 1.597e-2),
    Case("opacus", "2", "0.05", 5000, "1e-12", "14.869513437", 5.516e-2),
    Case("opacus", "3.07", "0.0203", 4854, "1e-12", "3.300886467", 5.195e-3),
    Case("prv-accountant", "1.64", "0.121", 2812, "1e-5", "26.884614344", 6.559e-2, upper=False),
    Case("prv-accountant", "3.1", "0.176", 4831, "1e-10", "33.893286251", 3.782e-1, upper=False),
)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.peer}, {case.steps} steps, {case.delta}")


@cases
def test_the_answer_is_outside_our_bounds_and_the_truth_within(case: Case) -> None:
    found = compose(case.tree()).epsilon(case.delta)
    answer, delta = ball(case.answer), ball(case.delta)
    with precision():
        assert not case.exact_delta(ball(found.lower)) < delta
        assert not case.exact_delta(ball(found.upper)) > delta
        if case.upper:
            assert answer < found.lower
            assert case.exact_delta(answer) > delta
        else:
            assert answer > found.upper
            assert case.exact_delta(answer) < delta
    least, most = sorted(abs(end - float(case.answer)) for end in (found.lower, found.upper))
    assert least * (1 - 5e-3) <= case.by <= most * (1 + 5e-3)


@cases
def test_delta_at_the_answer_is_on_the_other_side_too(case: Case) -> None:
    found = compose(case.tree()).delta(case.answer)
    if case.upper:
        assert found.lower > float(case.delta)
    else:
        assert found.upper < float(case.delta)


def test_the_first_of_them_from_every_side() -> None:
    """Two other lines in balls, written apart, and our own engine in balls."""
    run, answer = CASES[0].tree(), CASES[0].answer
    other: Any = composed_sampled_delta([("0.05", "2", 5000)], float(answer), "remove", c=2.5, window=80.0, nodes=260)
    assert middle(other) == pytest.approx(1.043006308e-12, rel=1e-8)
    with precision():
        assert float(CASES[0].exact_delta(ball(answer))) == pytest.approx(middle(other), rel=1e-12)
    checked = compose(run, verify="arb").epsilon("1e-12")
    assert checked.lower - 1e-7 <= 14.9246686 <= checked.upper + 1e-7


@pytest.mark.slow
def test_the_page_says_what_the_peers_answer() -> None:
    """Of the versions that it names; later ones may have mended it, and the page is then to be changed."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    assert importlib.metadata.version("dp-accounting") == "0.6.0"
    assert importlib.metadata.version("prv-accountant") == "0.2.0"
    for case in CASES:
        if case.peer == "dp-accounting":
            step = pld.from_gaussian_mechanism(float(case.sigma), sampling_prob=float(case.rate))
            answer = step.self_compose(case.steps).get_epsilon_for_delta(float(case.delta))
        elif case.peer == "prv-accountant":
            step = PoissonSubsampledGaussianMechanism(float(case.rate), float(case.sigma))
            accountant = PRVAccountant([step], 0.1, float(case.delta) / 1000, max_self_compositions=[case.steps])
            answer, _, _ = accountant.compute_epsilon(float(case.delta), [case.steps])
        else:
            continue
        assert answer == pytest.approx(float(case.answer), abs=2e-7), case
