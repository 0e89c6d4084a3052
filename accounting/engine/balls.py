"""The same bounds once more, in ball arithmetic: every rounding is enclosed by the library, not by our error analysis.

The contour sum of `saddle_point`, its kernels, its aliases and the quadrature of the sampled Gaussian are evaluated
with python-flint (Arb) at `BITS` bits, every ball with its radius; sections 1, 2 and 4 of docs/proofs/engine.md say
what is added for what is left out. Taken from the engine: where the line lies, which may be anywhere, and the proven
decay of the last node (section 3), a bound with a margin of 1e-9. Parameters are those that the engine holds, as
doubles.
Gaussians only, and one run of a Laplace, a bounded range or a sampled Gaussian, need no line: their closed forms
(section 7) are evaluated instead, and nothing is taken from the engine.

Covered: Gaussian, Laplace, bounded range and sampled Gaussian losses and those of finitely many outcomes, in any list
whose transform falls within the work allowed. Everything else is CannotCertify: Renyi curves, a sampled Laplace, a
discrete Gaussian, few runs of a sampled Gaussian, a delta that is not above the mass at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.saddle_point import decay_beyond
from dpledger.accounting.engine.solve import WIDTH
from dpledger.accounting.engine.tilt import (
    Saddle,
    chernoff_bounds_around,
    choose_contour,
    saddle_for_delta,
    saddle_for_epsilon,
)
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_curve import quadrature_step
from dpledger.accounting.lowering import PldList
from dpledger.errors import CannotCertify, ParameterError, WorkLimit

__all__ = ["checked_delta", "checked_epsilon"]

BITS = 256
DIGITS = 100.0  # the discretisation error of a quadrature is below e^-DIGITS, relative
TOLERANCE = 1e-11
MOST_BALLS = 1 << 21
RUN = 64  # nodes
ASYMPTOTIC_FROM = 1000  # from here on erfc by its asymptotic series
FIRST_STEP, STEPS = 1e-10, 14  # relative: how far an end is moved at first, then fourfold
Ball = Any  # an arb or an acb


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise ParameterError("verify", "no python-flint", "the extra 'arb': install dpledger[arb]") from None
    return flint


@contextmanager
def _precision() -> Iterator[Any]:
    flint = _flint()
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    try:
        yield flint
    finally:
        flint.ctx.prec = before


def checked_epsilon(what: PldList, found: Interval, delta: Any) -> Interval:
    """`found`, each end confirmed in ball arithmetic, or moved outward until it is. `delta`: a Fraction or a Decimal.

    Claim: lower <= the least epsilon with delta(epsilon) <= delta <= upper. Source: docs/proofs/engine.md, sections 1,
    2 and 4. CannotCertify where an end cannot be confirmed, or a loss has no transform here.
    """
    composed = _composed(what)
    with _precision() as flint:
        wanted = _finite_delta(flint, composed, delta)
        line = _profile(flint, composed, lambda: saddle_for_delta(composed, float(wanted.log().mid()), WIDTH))
        upper = _moved(found.upper, 1.0, lambda at: line.bounds(at)[1] <= wanted)
        if found.lower == 0:
            return Interval(0.0, upper)
        return Interval(_moved(found.lower, -1.0, lambda at: line.bounds(at)[0] >= wanted), upper)


def checked_delta(what: PldList, found: Interval, epsilon: float) -> Interval:
    """`found`, confirmed in ball arithmetic: each end where the balls have it, if that is further out. CannotCertify if
    they contradict it. Never further in: the balls know parameters as doubles, `found` holds for what those round.

    Claim: lower <= delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1, 2 and 4.
    """
    composed = _composed(what)
    with _precision() as flint:
        line = _profile(flint, composed, lambda: saddle_for_epsilon(composed, epsilon))
        finite = line.bounds(epsilon)
        kept = _log_finite(flint, composed).exp()
        lower, upper = (1 - kept + kept * side for side in finite)
        low, high = float(lower.lower()), float(upper.upper())
    if low > found.upper or high < found.lower:
        raise CannotCertify(
            f"ball arithmetic gives delta in [{low}, {high}], the engine [{found.lower}, {found.upper}]"
        )
    low, high = max(0.0, math.nextafter(low, 0.0)), min(1.0, math.nextafter(high, 2.0))
    return Interval(min(found.lower, low), max(found.upper, high))


def _composed(what: PldList) -> Composed:
    if what.curves or not what.losses:
        raise CannotCertify("nothing to re-check in ball arithmetic: no privacy loss, or Renyi curves among them")
    return Composed(what.losses)


def _log_finite(flint: Any, composed: Composed) -> Ball:
    return sum((count * (-flint.arb(loss.infinite_mass)).log1p() for loss, count in composed.parts), flint.arb(0))


def _finite_delta(flint: Any, composed: Composed, delta: Any) -> Ball:
    numerator, denominator = delta.as_integer_ratio()
    kept = _log_finite(flint, composed).exp()
    wanted = (flint.arb(numerator) / flint.arb(denominator) - (1 - kept)) / kept
    if not wanted > 0:
        raise CannotCertify("delta is not above the mass at infinity: there is no contour to re-check")
    return wanted


def _moved(end: float, sign: float, holds: Any) -> float:
    """`end`, or the first point outward at which `holds`."""
    if math.isinf(end) or (end == 0 and holds(0.0)):
        return end
    for k in range(STEPS):
        at = end if k == 0 else end + sign * max(abs(end), 1e-300) * FIRST_STEP * 4.0 ** (k - 1)
        if holds(at):
            return at
    raise CannotCertify(f"ball arithmetic does not confirm the bound {end}")


def _profile(flint: Any, composed: Composed, saddle: Callable[[], Saddle]) -> _Closed | _Line:
    """What bounds delta of the finite loss: its closed form, where there is one, or a contour at the saddle."""
    formula = _closed_form(flint, composed)
    try:
        return _Closed(flint, formula) if formula is not None else _Line(flint, composed, saddle())
    except WorkLimit as error:
        raise CannotCertify(f"too much work for ball arithmetic: {error}") from None


@dataclass(frozen=True, slots=True)
class _Closed:
    """A profile in closed form: a ball that holds delta(epsilon)."""

    flint: Any
    formula: Callable[[Ball], Ball]

    def bounds(self, epsilon: float) -> tuple[Ball, Ball]:
        """Balls whose lower (upper) end is a lower (upper) bound of delta of the finite loss."""
        at = self.formula(self.flint.arb(epsilon))
        return self.flint.arb(at.lower()), self.flint.arb(at.upper())


def _closed_form(flint: Any, composed: Composed) -> Callable[[Ball], Ball] | None:
    """docs/proofs/engine.md, section 7."""
    squares = [flint.arb(loss.mu_squared) * n for loss, n in composed.parts if isinstance(loss, GaussianLoss)]
    if len(squares) == len(composed.parts):
        return _gaussian_form(flint, sum(squares, flint.arb(0)))
    match composed.parts:
        case ((LaplaceLoss(epsilon=e0), 1),):
            return lambda at: -((at - e0) / 2).expm1() if at < e0 else flint.arb(0)
        case ((BoundedRangeLoss(eta=eta), 1),):
            whole = -flint.arb(-eta).expm1()
            return lambda at: ((at - eta) / 2).expm1() ** 2 / whole if at < eta else flint.arb(0)
        case ((SampledGaussianLoss(rate=rate, sigma=sigma, direction=direction), 1),):
            base, q = _gaussian_form(flint, 1 / flint.arb(sigma) ** 2), flint.arb(rate)
            if direction == "remove":
                return lambda at: q * base((at.expm1() / q).log1p())
            left: Callable[[Ball], Ball] = lambda at: q - (1 - q) * at.expm1()  # noqa: E731
            return lambda at: left(at) * base(at + (q / left(at)).log()) if left(at) > 0 else flint.arb(0)
        case _:
            return None


def _gaussian_form(flint: Any, mu_squared: Ball) -> Callable[[Ball], Ball]:
    """Balle-Wang 2018, Theorem 8, with digits for what cancels where mu is small."""
    flint.ctx.prec = BITS + 4 * abs(math.frexp(float(mu_squared.mid()))[1])
    mu, root = mu_squared.sqrt(), flint.arb(2).sqrt()

    def delta(at: Ball) -> Ball:
        first, second = (at / mu - mu / 2) / root, (at / mu + mu / 2) / root
        if not second > ASYMPTOTIC_FROM:
            return (first.erfc() - at.exp() * second.erfc()) / 2
        h = 1 / (2 * second**2)  # erfc x = e^-x^2 / (x sqrt(pi)) (1 - h + r), 0 <= r <= 3 h^2
        series = 1 - h + flint.arb(1.5, 1.5) * h**2
        return (first.erfc() - (-(first**2)).exp() * series / (second * flint.arb.pi().sqrt())) / 2

    return delta


class _Line:
    """The contour sum of a composition, in balls."""

    def __init__(self, flint: Any, composed: Composed, saddle: Any) -> None:
        chernoff = chernoff_bounds_around(composed, saddle.c)
        chosen = choose_contour(composed, saddle, chernoff, tolerance=TOLERANCE, width=WIDTH / 64)
        self._flint = flint
        self.count, self._chernoff = chosen.count, chernoff
        self._c, self._step = flint.arb(chosen.c), flint.arb(chosen.step)
        self._mu2 = flint.arb(chosen.mu_squared)
        self._smooth = chosen.mu_squared > 0
        self._window = 2 * flint.arb.pi() / self._step
        self._moments = self._transform(composed, chosen.c, chosen.step)
        end = chosen.count * chosen.step
        decay = decay_beyond(composed.tilted(chosen.c), end, chosen.mu_squared)
        self._truncation = self._truncated(flint.arb(decay).exp())
        after = [i for i, c in enumerate(chernoff.c.tolist()) if c > chosen.c * 1.05]
        self._ahead = after[:: max(1, len(after) // 4)]
        self._tilts = {i: self._value(composed, float(chernoff.c[i])) for i in self._ahead}

    def _transform(self, composed: Composed, c: float, step: float) -> list[Ball]:
        """E e^{zL} of the whole at each node."""
        flint = self._flint
        product = [flint.acb(1)] * self.count
        for loss, count in composed.parts:
            once = _nodes(flint, loss, c, step, self.count)
            powers = (value ** flint.fmpz(count) for value in once)
            product = [whole * power for whole, power in zip(product, powers, strict=True)]
        return product

    def _value(self, composed: Composed, c: float) -> Ball:
        """E e^{cL} of the whole."""
        return _product(self._flint, (_nodes(self._flint, loss, c, 1.0, 1)[0] for loss, _ in composed.parts), composed)

    def _truncated(self, decay: Ball) -> tuple[Ball, Ball]:
        """What the nodes left out add to the upper, and take from the lower sum; in units of the first moment."""
        flint, end = self._flint, self._step * self.count
        front = 2 * decay * (self._mu2 / 2 * (self._c * (self._c + 1) - end * end)).exp()
        plain = front / (self._step**2 * (self.count - flint.arb(0.5)))
        if not self._smooth:
            return plain, plain
        ratio = -(-self._mu2 * end * self._step).expm1()
        return plain, plain + front * self._mu2 * (self._mu2 / 8).exp() / ratio

    def bounds(self, epsilon: float) -> tuple[Ball, Ball]:
        """Balls whose lower (upper) end is a lower (upper) bound of delta of the finite loss."""
        flint, at = self._flint, self._flint.arb(epsilon)
        bump = self._mu2 * (self._mu2 / 8).exp()
        upper, lower = flint.arb(0), flint.arb(0)
        for k, moment in enumerate(self._moments):
            z = flint.acb(self._c, self._step * k)
            term = moment * (-z * at + self._mu2 * z * (z + 1) / 2).exp() * (1 if k == 0 else 2)
            kernel = 1 / (z * (z + 1))
            upper += (term * kernel).real
            lower += (term * (kernel - bump)).real
        first = self._moments[0].real * (-self._c * at).exp()
        high = (upper + first * self._truncation[0]) / self._window
        low = (lower - first * self._truncation[1]) / self._window - self._aliases(at)
        return flint.arb(low.lower()), flint.arb(high.upper())

    def _aliases(self, epsilon: Ball) -> Ball:
        flint = self._flint
        behind = 1 / (self._c * self._window).expm1()
        ahead = None
        for i in self._ahead:
            c = flint.arb(float(self._chernoff.c[i]))
            kappa = (c * c.log() - (1 + c) * (1 + c).log()).exp()
            smooth = (self._mu2 * c * (c + 1) / 2).exp()
            term = kappa * self._tilts[i] * smooth * (-c * epsilon).exp() / ((c - self._c) * self._window).expm1()
            ahead = term if ahead is None or term.upper() < ahead.upper() else ahead
        if ahead is None:
            raise CannotCertify("no tilt to bound the aliases with in ball arithmetic")
        return behind + ahead


def _product(flint: Any, values: Iterator[Ball], composed: Composed) -> Ball:
    result = flint.arb(1)
    for value, (_, count) in zip(values, composed.parts, strict=True):
        result *= value.real ** flint.fmpz(count)
    return result


# ---- transforms -----------------------------------------------------------------------------------------------------


def _nodes(flint: Any, loss: Loss, c: float, step: float, count: int) -> list[Ball]:
    """E e^{zL} of one loss, given that it is finite, at z = c + i k step. docs/proofs/engine.md, section 7."""
    zs = [flint.acb(flint.arb(c), flint.arb(step) * k) for k in range(count)]
    match loss:
        case GaussianLoss(mu_squared=mu2):
            return [(flint.arb(mu2) * z * (z + 1) / 2).exp() for z in zs]
        case LaplaceLoss(epsilon=e0):
            e = flint.arb(e0)
            return [((1 + z) * (z * e).exp() + z * (-(1 + z) * e).exp()) / (2 * z + 1) for z in zs]
        case BoundedRangeLoss(eta=width):
            e = flint.arb(width)
            whole = 1 - (-e).exp()
            return [(z * e).exp() * (1 - (-(2 * z + 1) * e).exp()) / ((2 * z + 1) * whole) for z in zs]
        case FiniteLoss() as law:
            values = zip(law.losses.tolist(), law.loss_errors.tolist(), strict=True)
            losses = [flint.arb(value, error) for value, error in values]
            wrong = scalars.expm1(law.mass_error) * (1 + 1e-9)
            finite = 1 - flint.arb(law.infinite_mass, law.infinite_mass * wrong)
            masses = [flint.arb(mass, mass * wrong) / finite for mass in law.masses.tolist()]
            return _atoms(flint, losses, masses, c, step, count)
        case SampledGaussianLoss(cut=None):
            return _sampled(flint, loss, c, step, count)
        case _:
            raise CannotCertify(f"no transform in ball arithmetic for a {type(loss).__name__}")


def _atoms(flint: Any, losses: list[Ball], masses: list[Ball], c: float, step: float, count: int) -> list[Ball]:
    """sum p_j e^{(c + i k step) l_j}: each phase multiplied on from node to node."""
    if len(losses) * count > MOST_BALLS:
        raise WorkLimit(f"{len(losses)} outcomes at {count} nodes are more than {MOST_BALLS} balls")
    weights = [mass * (flint.arb(c) * loss).exp() for mass, loss in zip(masses, losses, strict=True)]
    return _turned_sums(flint, weights, [flint.arb(step) * loss for loss in losses], count)


def _turned_sums(flint: Any, weights: list[Ball], angles: list[Ball], count: int) -> list[Ball]:
    """sum of w e^{i k angle} for k below `count`. Phases are multiplied on for RUN nodes, then made anew: a product of
    boxes in the plane loses half a bit."""
    turns = [flint.acb(0, angle).exp() for angle in angles]
    sums: list[Ball] = []
    terms: list[Ball] = []
    for k in range(count):
        if k % RUN == 0:
            terms = [weight * flint.acb(0, angle * k).exp() for weight, angle in zip(weights, angles, strict=True)]
        sums.append(sum(terms, flint.acb(0)))
        terms = [term * turn for term, turn in zip(terms, turns, strict=True)]
    return sums


def _sampled(flint: Any, loss: SampledGaussianLoss, c: float, step: float, count: int) -> list[Ball]:
    """The trapezoid rule, its discretisation error and its tails in the radius. docs/proofs/engine.md, section 4."""
    sigma, removed = loss.sigma, loss.direction == "remove"
    width = quadrature_step(sigma, c + 1 if removed else -c, step * (count - 1), DIGITS).item()
    reach = sigma * math.sqrt(2 * (DIGITS + 12))
    low, high = (-reach, c + 1 + reach) if removed else (-c - reach, reach)
    first, last = math.floor(low / width), math.ceil(high / width)
    if (last - first) * count > MOST_BALLS:
        raise WorkLimit(f"{last - first} points at {count} nodes are more than {MOST_BALLS} balls")
    s2, q, power = flint.arb(sigma) ** 2, flint.arb(loss.rate), flint.arb(c) + 1 if removed else -flint.arb(c)
    xs = [flint.arb(width) * j for j in range(first, last + 1)]
    odds = [q * ((x - flint.arb(0.5)) / s2).exp() for x in xs]
    curve = [(1 - q + odd).log() for odd in odds]
    weights = [(power * value - x * x / (2 * s2)).exp() for value, x in zip(curve, xs, strict=True)]
    scale = flint.arb(width) / (2 * flint.arb.pi() * s2).sqrt()
    right = xs[-1] - power if removed else xs[-1]
    left = -xs[0] if removed else -xs[0] + power * odds[0] / (1 - q + odds[0])
    if not (right > 0 and left > 0):
        raise CannotCertify("the tails of a sampled Gaussian's quadrature are not seen to fall")
    rate = flint.arb(width) / s2
    tails = weights[-1] / (1 - (-rate * right).exp()) + weights[0] / (1 - (-rate * left).exp())
    total = sum(weights, flint.arb(0))
    missing = float((scale * (tails + total * flint.arb(1.1 * scalars.exp(-DIGITS)))).upper())
    slack = flint.arb(0, math.nextafter(missing, math.inf))
    sign = 1 if removed else -1
    angles = [sign * flint.arb(step) * value for value in curve]
    return [value * scale + flint.acb(slack, slack) for value in _turned_sums(flint, weights, angles, count)]
