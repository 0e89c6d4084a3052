"""The lattice engine against oracles that share nothing with it, and against the contour engine."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.composition import GaussianLaw, LaplaceLaw, PoissonSampled, Repeated
from dpledger.accounting.engine import lattice
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.connect_the_dots import Mesh, lower_steps, upper_steps
from dpledger.accounting.engine.convolution import Convolved, chernoff_bounds, convolve
from dpledger.accounting.engine.covering import alone, contours
from dpledger.accounting.engine.enumeration import MANY_OUTCOMES, enumerated
from dpledger.accounting.engine.lattice import lattice_epsilon, lattices
from dpledger.accounting.engine.methods import _many_outcomes
from dpledger.accounting.engine.saddle_point import ChernoffBounds
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.profile import compose
from engine_oracles import finite_delta as counted_delta, gaussian_delta, holds_delta, holds_epsilon, mp
from lattice_oracles import plain_transform, profile_of_steps, random_finite, random_law, twice
from seed_batches import over_seeds

pytestmark = pytest.mark.sliced


def random_sampled(rng: np.random.Generator) -> tuple[float, float, Direction]:
    rate = math.exp(rng.uniform(math.log(1e-4), math.log(0.5)))
    return rate, rng.uniform(0.5, 4), "add" if rng.random() < 0.5 else "remove"


# ---- exact oracles --------------------------------------------------------------------------------------------------


@over_seeds(60, 600)
def test_one_run_of_any_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss, exact = random_law(rng)
    delta = 10 ** rng.uniform(-12, -1)
    at = lattice_epsilon(Composed(((loss, 1),)), delta, delta)
    assert holds_epsilon(at.lower, at.upper, exact, mp.mpf(delta))
    epsilon = rng.uniform(0, 4)
    found = alone(lattices, Composed(((loss, 1),)), epsilon)
    assert holds_delta(found.lower, found.upper, exact(mp.mpf(epsilon)))


@pytest.mark.slow
@over_seeds(4, 60)
def test_two_runs_of_a_sampled_gaussian_by_quadrature(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate, sigma, direction = random_sampled(rng)
    delta = 10 ** rng.uniform(-12, -3)
    composed = Composed(((SampledGaussianLoss(rate, sigma, direction), 2),))
    at = lattice_epsilon(composed, delta, delta)
    assert at.upper - at.lower <= 1e-3 * max(at.upper, 0.2)
    if at.lower > 0:
        assert twice(rate, sigma, direction, mp.mpf(at.lower)) >= mp.mpf(delta) * (1 - mp.mpf(10) ** -12)
    assert twice(rate, sigma, direction, mp.mpf(at.upper)) <= mp.mpf(delta) * (1 + mp.mpf(10) ** -12)


@over_seeds(20, 300)
def test_finite_pairs_by_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [(*random_finite(rng, 3), int(rng.integers(1, 5))) for _ in range(2)]
    composed = Composed(tuple((loss, count) for loss, _, count in drawn))
    pairs = [(pair, count) for _, pair, count in drawn]
    delta = 10 ** rng.uniform(-9, -1)
    at = lattice_epsilon(composed, delta, delta)
    assert holds_epsilon(at.lower, at.upper, lambda e: counted_delta(pairs, e), mp.mpf(delta))


@over_seeds(20, 200)
def test_many_gaussians_are_one(seed: int) -> None:
    """Down to a delta of 1e-40, where nothing but tilting keeps the digits."""
    rng = np.random.default_rng(seed)
    mu, runs, delta = math.exp(rng.uniform(-3, 1)), int(rng.integers(2, 200)), 10 ** rng.uniform(-40, -2)
    at = lattice_epsilon(Composed(((GaussianLoss(mu * mu), runs),)), delta, delta)
    whole = mp.sqrt(mp.mpf(mu * mu) * runs)
    assert holds_epsilon(at.lower, at.upper, lambda e: gaussian_delta(whole, e), mp.mpf(delta))
    assert at.upper - at.lower <= 2e-3 * max(at.upper, lattice.SMALL)


# ---- the other engine -----------------------------------------------------------------------------------------------


@over_seeds(25, 1500)
def test_lattice_and_contour_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        rate, sigma, direction = random_sampled(rng)
        parts.append((SampledGaussianLoss(max(rate, 3e-3), sigma, direction), int(rng.integers(6, 30))))
    if rng.random() < 0.5:
        parts.append((GaussianLoss(math.exp(rng.uniform(-3, 0))), 1))  # type: ignore[arg-type]
    composed = Composed(tuple(parts))
    log_delta = math.log(10) * rng.uniform(-11, -2)
    delta = math.exp(log_delta)
    by_lattice = lattice_epsilon(composed, delta, delta)
    by_contour = finite_epsilon(composed, log_delta - 1e-12, log_delta + 1e-12)
    assert max(by_lattice.lower, by_contour.lower) <= min(by_lattice.upper, by_contour.upper)
    epsilon = by_lattice.upper
    one, other = alone(lattices, composed, epsilon), alone(contours, composed, epsilon)
    assert one.lower <= other.upper
    assert other.lower <= one.upper


@over_seeds(12, 300)
def test_few_runs_are_narrow(seed: int) -> None:
    """What is promised for 2 to 63 runs: a width of 1e-5, relative, and mostly 1e-6 (for an epsilon below 1/1000:
    absolute 1e-8)."""
    rng = np.random.default_rng(seed)
    rate, sigma, _ = random_sampled(rng)
    step = PoissonSampled(GaussianLaw(noise_multiplier=sigma), rate=rate)
    at = compose(Repeated(step, times=int(rng.integers(2, 64)))).epsilon(10 ** rng.uniform(-12, -3))
    assert at.upper - at.lower <= 1e-5 * max(at.upper, 1e-3)


@pytest.mark.parametrize("runs", [2, 5, 10, 20, 40, 62, 63, 64, 65, 100])
def test_the_answer_is_as_sharp_for_few_runs_as_for_many(runs: int) -> None:
    at = compose((PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01"), runs)).epsilon("1e-5")
    assert at.upper - at.lower <= 1e-6 * at.upper


@over_seeds(12, 150)
def test_few_runs_of_a_sampled_laplace_are_narrow(seed: int) -> None:
    """Heavy atoms at both ends, which an estimate must see."""
    rng = np.random.default_rng(seed)
    rate, e0 = math.exp(rng.uniform(math.log(1e-4), math.log(0.9))), math.exp(rng.uniform(-4, 1.5))
    step = PoissonSampled(LaplaceLaw(e0), rate=rate)
    at = compose(Repeated(step, times=int(rng.integers(2, 64)))).epsilon(10 ** rng.uniform(-12, -3))
    assert at.upper - at.lower <= 2e-3 * max(at.upper, 1e-3)


@pytest.mark.parametrize(
    ("rate", "sigma", "delta", "runs", "width"),
    [("1e-6", "1", "1e-12", 1000, 5e-4), ("1e-5", "1", "1e-11", 500, 1e-4), ("1.7e-4", "0.584", "2e-12", 14, 4e-3)],
)
def test_where_one_rare_loss_rules_the_tail(rate: str, sigma: str, delta: str, runs: int, width: float) -> None:
    """Exponential bounds are loose there, or there is none; what is answered is narrow all the same."""
    step = PoissonSampled(GaussianLaw(noise_multiplier=sigma), rate=rate)
    at = compose(Repeated(step, times=runs)).epsilon(delta)
    assert 0 < at.lower <= at.upper
    assert at.upper - at.lower <= width


def test_an_epsilon_on_a_heavy_atom_is_counted() -> None:
    """Too many outcomes to count at once, few enough where smoothing is wide: the count is exact, and no contour
    contradicts it."""
    rng = np.random.default_rng(0)
    counted = 0
    for _ in range(150):
        (one, _), (other, _), runs = random_finite(rng, 4), random_finite(rng, 4), int(rng.integers(4, 11))
        composed = Composed(((one, runs), (other, runs)))
        delta = 10 ** rng.uniform(-10, -1)
        if enumerated(composed.parts) is not None or enumerated(composed.parts, MANY_OUTCOMES) is None:
            continue
        smoothed = finite_epsilon(composed, math.log(delta) - 1e-14, math.log(delta) + 1e-14)
        at = _many_outcomes(composed, delta, delta)
        assert max(smoothed.lower, at.lower) <= min(smoothed.upper, at.upper)
        assert at.relative_width() <= 1e-9
        counted += 1
    assert counted >= 3


def test_close_to_the_largest_loss() -> None:
    """Direction add, epsilon within 3 % of its largest: no tilt is too steep for the lattice."""
    composed = Composed(((SampledGaussianLoss(0.0235642, 0.718, "add"), 5),))
    at = lattice_epsilon(composed, 2.12e-11, 2.12e-11)
    assert at.lower > 0.97 * composed.largest
    assert at.upper - at.lower <= 1e-3 * at.upper


@over_seeds(20, 200)
def test_a_loss_too_small_for_the_lattice_takes_nothing_from_the_bounds(seed: int) -> None:
    """Beside Gaussians that need only a coarse one. A Laplace loss is at most e0, so epsilon grows by no more."""
    rng = np.random.default_rng(seed)
    e0, mu, runs = 10 ** rng.uniform(-12, -5), rng.uniform(0.5, 2), int(rng.integers(1, 4))
    whole, delta = mp.sqrt(mp.mpf(mu * mu) * runs), 10 ** rng.uniform(-9, -2)
    composed = Composed(((LaplaceLoss(e0), 1), (GaussianLoss(mu * mu), runs)))
    at = lattice_epsilon(composed, delta, delta)
    assert at.upper - at.lower <= 2e-3 * at.upper
    assert gaussian_delta(whole, mp.mpf(at.upper)) <= delta
    assert gaussian_delta(whole, mp.mpf(at.lower) - mp.mpf(e0)) >= delta
    epsilon = rng.uniform(0.1, 3)
    found = alone(lattices, composed, epsilon)
    assert found.upper - found.lower <= 2e-3 * found.upper
    assert found.upper >= gaussian_delta(whole, mp.mpf(epsilon))
    assert found.lower <= gaussian_delta(whole, mp.mpf(epsilon) - mp.mpf(e0))


# ---- each term is needed --------------------------------------------------------------------------------------------


class WithoutAliases(Convolved):
    """The periodic sum as if it were delta."""

    def _log_aliases(self, epsilons: Array) -> Array:
        return np.full(epsilons.shape, -math.inf)


def composed_gaussians(mu: float, runs: int, c: float, length: int, spacing: float) -> tuple[Convolved, Convolved]:
    """Both lattices of `runs` Gaussians, at any tilt and window, sensible or not."""
    law = GaussianLoss(mu * mu).profile()
    assert law is not None
    mesh, reach = Mesh.near(spacing), mu * mu / 2 + 9 * mu
    sums = []
    for made in (upper_steps, lower_steps):
        parts = [(made(law, mesh, -reach, reach), runs)]
        sums.append(convolve(parts, c, length, chernoff_bounds(parts, c * np.geomspace(1.1, 4, 8))))
    return sums[0], sums[1]


def as_twin(kind: type[Convolved], sums: Convolved) -> Convolved:
    fields = (getattr(sums, name) for name in Convolved.__dataclass_fields__)
    return kind(*fields)


def wrong_bounds(above: Convolved, below: Convolved, mu: float, runs: int) -> int:
    whole, wrong = mp.sqrt(mp.mpf(mu * mu) * runs), 0
    for epsilon in np.linspace(-6 * float(whole), 9 * float(whole), 40).tolist():
        for sums, side in ((above, 1), (below, -1)):
            j = sums.nearest(epsilon)
            bound = sums.upper(j) if side > 0 else sums.lower(j)
            position = mp.mpf(sums.start + j * sums.mesh.width) * mp.mpf(sums.mesh.unit)
            wrong += side * (mp.mpf(bound) - gaussian_delta(whole, position)) < 0
    return int(wrong)


def test_without_aliases_the_lower_bound_is_wrong() -> None:
    honest = twin = 0
    for length in (64, 128):
        above, below = composed_gaussians(0.3, 5, 2.0, length, 0.02)
        honest += wrong_bounds(above, below, 0.3, 5)
        twin += wrong_bounds(above, as_twin(WithoutAliases, below), 0.3, 5)
    assert honest == 0
    assert twin >= 10


def test_without_the_rounding_of_transforms_bounds_are_wrong() -> None:
    """Far from the tilt the sums are rounding: the bounds say so, those of the twin do not."""
    honest = twin = 0
    for c in (1.0, 4.0):
        above, below = composed_gaussians(0.5, 6, c, 4096, 0.01)
        honest += wrong_bounds(above, below, 0.5, 6)
        twin += wrong_bounds(replace(above, error=0.0), replace(below, error=0.0), 0.5, 6)
    assert honest == 0
    assert twin >= 3


@pytest.mark.parametrize("size", [64, 256])
def test_transforms_err_less_than_assumed(size: int) -> None:
    values = np.random.default_rng(size).dirichlet(np.ones(size) * 0.1)
    found, exact = np.fft.rfft(values), plain_transform(values)
    assumed = 16 * UNIT * math.log2(size) * math.sqrt(size) * float(np.linalg.norm(values))
    assert max(float(abs(mp.mpc(a) - b)) for a, b in zip(found.tolist(), exact, strict=True)) <= assumed / 2


# ---- edges ----------------------------------------------------------------------------------------------------------


def test_a_law_without_tails_is_left_to_others() -> None:
    cut = SampledGaussianLoss(0.1, 1.0, "remove", cut=Cut(3.0, 0.3))
    composed = Composed(((cut, 2),))
    assert cut.profile() is None
    assert lattice_epsilon(composed, 1e-5, 1e-5) == Interval(0.0, math.inf)
    assert alone(lattices, composed, 1.0) == Interval(0.0, 1.0)


def test_a_delta_that_is_met_at_once_needs_no_epsilon() -> None:
    composed = Composed(((SampledGaussianLoss(1e-4, 2.0, "remove"), 3),))
    assert lattice_epsilon(composed, 0.01, 0.01).upper <= 1e-12


def test_a_lattice_says_as_little_far_out_as_it_knows() -> None:
    """Of all points at once, and where no lattice reaches: there the last upper bound holds, and 0 is the lower one."""
    composed = Composed(((SampledGaussianLoss(0.01, 1.0, "remove"), 2),))
    at = np.array([0.0, 0.02, 0.1, 1.0, 50.0, 1e6, 1e20, 1e140])
    exact = [twice(0.01, 1.0, "remove", mp.mpf(epsilon)) for epsilon in at[:4].tolist()]
    for method in lattice.lattices(composed, 0.01, 1.0):
        lower, upper = method(at)
        assert np.all((lower >= 0) & (lower <= upper))
        assert np.all(np.diff(upper) <= 1e-12 * upper[:-1])
        assert not lower[-3:].any()
        for delta, low, high in zip(exact, lower.tolist(), upper.tolist(), strict=False):
            assert low * (1 - 1e-12) <= delta <= high * (1 + 1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        SampledGaussianLoss(0.1, 1.0, "add"),
        LaplaceLoss(0.3),
        BoundedRangeLoss(0.4),
        approximate_pair(0.2, 0.0).loss(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_at_the_largest_loss_and_beyond_nothing_is_left(loss: Loss) -> None:
    composed = Composed(((loss, 3),))
    for epsilon in (composed.largest, math.nextafter(composed.largest, math.inf), 2 * composed.largest):
        assert alone(lattices, composed, epsilon) == Interval(0.0, 0.0)
        assert alone(contours, composed, epsilon) == Interval(0.0, 0.0)
        assert list(lattices(composed, epsilon, 0.01)) == []
    near = 0.9 * composed.largest
    assert alone(lattices, composed, near).upper > 0
    assert alone(contours, composed, near).upper > 0


@over_seeds(60, 2000)
def test_extreme_parameters_give_an_interval_all_the_same(seed: int) -> None:
    """No warning, no exception, never an interval that is upside down."""
    rng = np.random.default_rng(seed)
    rate = math.exp(rng.uniform(math.log(1e-12), 0)) if seed % 3 else 1 - 10 ** -rng.uniform(1, 12)
    direction: Direction = "add" if rng.random() < 0.5 else "remove"
    sampled = SampledGaussianLoss(rate, 10 ** rng.uniform(-1.3, 3), direction)
    composed = Composed(
        ((sampled, int(10 ** rng.uniform(0, 6))), (GaussianLoss(10 ** rng.uniform(-9, 4)), int(rng.integers(1, 9))))
    )
    delta = 10 ** -rng.uniform(0, 12 if seed % 4 else 300)
    at, of = lattice_epsilon(composed, delta, delta), alone(lattices, composed, 10 ** rng.uniform(-5, 2))
    assert 0 <= at.lower <= at.upper
    assert 0 <= of.lower <= of.upper <= 1


def test_chernoff_bounds_of_a_lattice_law() -> None:
    """They hold for its own profile, and are not far above it."""
    law = GaussianLoss(0.25).profile()
    assert law is not None
    steps = lower_steps(law, Mesh.near(0.1), -4.0, 4.0)
    chernoff: ChernoffBounds = chernoff_bounds([(steps, 1)], np.geomspace(0.2, 30, 12))
    for epsilon in (-1.0, 0.0, 1.0, 2.0):
        exact = mp.log(profile_of_steps(steps, mp.mpf(epsilon)))
        assert exact <= chernoff.log_delta(epsilon) <= exact + 4
