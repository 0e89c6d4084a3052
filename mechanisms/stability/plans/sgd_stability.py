"""How stable stochastic gradient descent is: on losses that are L-Lipschitz and B-smooth in the parameters, for
predictions that move at most `prediction` times as far as the parameters do.

    first moments (Hardt-Recht-Singer 2016)    mean squares (docs/proofs/stability_utility.md, "SGD")
    convex, eta_t <= 2/B                       convex, eta_t <= 2/B, every record in turn, K epochs
    strongly convex, eta <= 1/B                convex, eta <= 2/B constant, records drawn with replacement
    nonconvex, eta_t <= c/t                    strongly convex, eta <= 1/B constant, drawn with replacement
                                               strongly convex, eta_t = 1/(g (t + t0)), every record K times

Above the step size that its theorem allows a calculator raises CannotCertify: nothing is extrapolated. Scores stray by
little (`MeanSquare.radius`) only if mu = o(1/sqrt n): for steps that fall or are small, not for constant ones. Public
as `dpledger.stability`. All take the loss, the number n of records (2 to 10^18) and steps of up to 10^15; a setting out
of its range is a ParameterError that names it. Answers are numbers from above, in the scale of the predictions.

>>> loss = Smooth(lipschitz=1, smoothness=1)
>>> convex_first_moment(loss, 100, Constant("0.1", 100)).mean_move
Decimal('0.200000000001')
>>> convex_first_moment(loss, 100, Constant(3, 100))
Traceback (most recent call last):
...
dpledger.errors.CannotCertify: steps up to 3 are beyond 2/smoothness: no theorem covers them
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.decimals import Number, multiply, read, round_up, total, whole
from dpledger.errors import CannotCertify, ParameterError
from dpledger.mechanisms.stability.on_average import MOST_SAMPLES, FirstMoment, MeanSquare
from dpledger.number_fields import Exacts, Positive, Whole
from dpledger.schema import given, record

__all__ = [
    "Constant",
    "Listed",
    "Smooth",
    "Steps",
    "convex_first_moment",
    "convex_mean_square",
    "convex_sampled_mean_square",
    "nonconvex_first_moment",
    "strongly_convex_first_moment",
    "strongly_convex_mean_square",
    "strongly_convex_sampled_mean_square",
]

MOST_STEPS = 10**15
MOST_EXPONENT = 10**4  # of a growth beyond which a bound on scores says nothing
ONE = Decimal(1)


@record
class Smooth:
    """A loss that is `lipschitz`-Lipschitz and `smoothness`-smooth in the parameters, whatever the record, on the set
    to which they are projected; `prediction`: the Lipschitz constant of the predictions in the parameters. All are
    above 0. Logistic loss on rows of norm at most 1: 1 and 1/4.

    >>> dpl.stability.Smooth(lipschitz=1, smoothness="0.25").prediction
    Decimal('1')
    """

    lipschitz: Positive
    smoothness: Positive
    prediction: Positive = given(default=ONE)


@record
class Constant:
    """`count` steps of one `size` above 0, a learning rate.

    >>> dpl.stability.Constant("0.1", 100).size
    Decimal('0.1')
    """

    size: Positive
    count: Whole

    def __post_init__(self) -> None:
        whole(self.count, field="count", least=1, most=MOST_STEPS)


@record
class Listed:
    """Steps of these sizes above 0, in their order.

    >>> dpl.stability.Listed(("0.5", "0.25", "0.125")).sizes[1]
    Decimal('0.25')
    """

    sizes: Exacts

    def __post_init__(self) -> None:
        if not self.sizes or not all(self.sizes):
            raise ParameterError("sizes", "one of 0" if self.sizes else "none", "at least one step, all above 0")


Steps: TypeAlias = Constant | Listed


def _sums(steps: Steps) -> tuple[int, Decimal, Decimal, Decimal]:
    """How many, the largest, their sum and the sum of their squares."""
    if not isinstance(steps, Constant | Listed):
        raise ParameterError("steps", type(steps).__name__, "steps of one size (Constant), or a list (Listed)")
    match steps:
        case Constant():
            square = multiply(steps.size, steps.size)
            return steps.count, steps.size, multiply(steps.size, steps.count), multiply(square, steps.count)
        case Listed():
            squares = total(multiply(size, size) for size in steps.sizes)
            return len(steps.sizes), max(steps.sizes), total(steps.sizes), squares
        case _:
            assert_never(steps)


def _within(loss: Smooth, largest: Decimal, most: int) -> None:
    if Fraction(largest) * Fraction(loss.smoothness) > most:
        raise CannotCertify(f"steps up to {largest} are beyond {most}/smoothness: no theorem covers them")


def _samples(loss: Smooth, n: int) -> int:
    """The number of records; and `loss` is what it should be."""
    if not isinstance(loss, Smooth):
        raise ParameterError("loss", type(loss).__name__, "a loss (Smooth)")
    return whole(n, field="n", least=2, most=MOST_SAMPLES)


def _curved(loss: Smooth, convexity: Number) -> Decimal:
    curved = read(convexity, field="convexity")
    if not 0 < curved <= loss.smoothness:
        raise ParameterError("convexity", curved, "a number above 0, at most the smoothness")
    return curved


# ---- first moments --------------------------------------------------------------------------------------------------


def convex_first_moment(loss: Smooth, n: int, steps: Steps) -> FirstMoment:
    """Convex losses: (2 L/n) sum of the steps.

    Claim: bounds the mean move of a prediction. Source: Hardt-Recht-Singer 2016, Theorem 3.8, of uniform records or of
    a random order; every order by docs/proofs/stability_utility.md, "Reduction". CannotCertify for a step above 2/B.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.convex_first_moment(loss, 1000, dpl.stability.Constant("0.1", 1000)).mean_move
    Decimal('0.200000000001')
    """
    size = _samples(loss, n)
    _, largest, sum_, _ = _sums(steps)
    _within(loss, largest, 2)
    with localcontext(outward.context()):
        return FirstMoment(samples=size, mean_move=outward.above(2 * loss.prediction * loss.lipschitz * sum_ / size))


def strongly_convex_first_moment(loss: Smooth, n: int, convexity: Number, step: Number) -> FirstMoment:
    """Losses that are strongly convex, projected, a constant step of at most 1/B: 2 L/(convexity n).
    `convexity`: above 0, at most the smoothness.

    Claim: bounds the mean move of a prediction, for any number of steps. Source: Hardt-Recht-Singer 2016, Thm 3.9.
    CannotCertify for a step above 1/B.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.strongly_convex_first_moment(loss, 1000, convexity="0.1", step=1).mean_move
    Decimal('0.0200000000001')
    """
    size, curved = _samples(loss, n), _curved(loss, convexity)
    _within(loss, _step(step), 1)
    with localcontext(outward.context(curved)):
        return FirstMoment(
            samples=size, mean_move=outward.above(2 * loss.prediction * loss.lipschitz / (curved * size))
        )


def nonconvex_first_moment(loss: Smooth, n: int, first: Number, steps: int) -> FirstMoment:
    """Scores in [0, 1], steps that fall and are at most first/t: the least over t0 in 1..n of
    t0/n + (2 Lh L/(B (n-1))) (T/t0)^(B first).

    Claim: bounds the mean move of a prediction. Source: Hardt-Recht-Singer 2016, Lemma 3.11 and the proof of Theorem
    3.12, at whole t0. The same bounds the loss, where that is in [0, 1] and `prediction` is L.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness=1)
    >>> dpl.stability.nonconvex_first_moment(loss, 1000, first="0.1", steps=10_000).mean_move
    Decimal('0.00602880166469')
    """
    size, scale = _samples(loss, n), read(first, field="first")
    count = whole(steps, field="steps", least=1, most=MOST_STEPS)
    if not scale > 0:
        raise ParameterError("first", scale, "a number above 0")
    power = float(multiply(loss.smoothness, scale))
    moved = 2 * float(loss.prediction) * float(loss.lipschitz) / (float(loss.smoothness) * (size - 1))
    meeting = (scalars.log(power * moved * size) + power * scalars.log(count)) / (power + 1)  # of the two slopes
    guess = scalars.exp(min(meeting, scalars.log(size)))
    starts = {min(max(1, math.floor(guess) + place), size) for place in range(2)}
    return FirstMoment(samples=size, mean_move=min(_from(loss, size, scale, count, start) for start in starts))


def _from(loss: Smooth, n: int, first: Decimal, steps: int, start: int) -> Decimal:
    """The bound at one t0, at most 1: the changed record is first used after it, or the scores may differ by all."""
    if steps <= start:
        return min(ONE, round_up(Fraction(start, n)))
    with localcontext(outward.context(loss.smoothness, first)):
        exponent = loss.smoothness * first * outward.ln(Decimal(steps) / start)
        if exponent > MOST_EXPONENT:
            return ONE
        grown = outward.exp(exponent)
        moved = 2 * loss.prediction * loss.lipschitz / (loss.smoothness * (n - 1))
        return min(ONE, outward.above(Decimal(start) / n + moved * grown))


def _step(step: Number) -> Decimal:
    size = read(step, field="step")
    if not size > 0:
        raise ParameterError("step", size, "a number above 0")
    return size


# ---- mean squares ---------------------------------------------------------------------------------------------------


def convex_mean_square(loss: Smooth, n: int, steps: Steps) -> MeanSquare:
    """Convex losses, every record once an epoch in any fixed or random order, K epochs of n steps:
    Lh^2 (4 L^2 K/n) sum of eta_t^2.

    Claim: bounds mu^2. Source: docs/proofs/stability_utility.md, "SGD". CannotCertify for a step above 2/B.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.convex_mean_square(loss, 1000, dpl.stability.Constant("0.01", 1000)).mu_squared
    Decimal('0.000400000000001')
    """
    size = _samples(loss, n)
    count, largest, _, squares = _sums(steps)
    if count % size:
        raise ParameterError("steps", count, f"whole epochs of {size} steps")
    _within(loss, largest, 2)
    with localcontext(outward.context()):
        moved = 4 * (loss.prediction * loss.lipschitz) ** 2 * (count // size)
        return MeanSquare(samples=size, mu_squared=outward.above(moved * squares / size))


def convex_sampled_mean_square(loss: Smooth, n: int, step: Number, steps: int) -> MeanSquare:
    """Convex losses, each of T steps of one size on a record drawn with replacement:
    Lh^2 4 L^2 eta^2 ((T/n)(1 - 1/n) + T^2/n^2).

    Claim: bounds mu^2. Source: docs/proofs/stability_utility.md, "SGD". CannotCertify for a step above 2/B.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.convex_sampled_mean_square(loss, 1000, step="0.01", steps=1000).mu_squared
    Decimal('0.000799600000001')
    """
    size, each, count = _samples(loss, n), _step(step), whole(steps, field="steps", least=1, most=MOST_STEPS)
    _within(loss, each, 2)
    with localcontext(outward.context()):
        mean = Decimal(count) / size
        hits = mean * (1 - ONE / size) + mean**2
        return MeanSquare(
            samples=size, mu_squared=outward.above(4 * (loss.prediction * loss.lipschitz * each) ** 2 * hits)
        )


def strongly_convex_sampled_mean_square(loss: Smooth, n: int, convexity: Number, step: Number) -> MeanSquare:
    """Losses that are strongly convex (g), a constant step of at most 1/B, records drawn with replacement, any number
    of steps: Lh^2 (4 L^2/(g^2 n^2) + 4 L^2 eta/(g n)).

    Claim: bounds mu^2. Source: docs/proofs/stability_utility.md, "SGD". CannotCertify for a step above 1/B.

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.strongly_convex_sampled_mean_square(loss, 1000, convexity="0.1", step="0.001").mu_squared
    Decimal('0.000440000000001')
    """
    size, curved, each = _samples(loss, n), _curved(loss, convexity), _step(step)
    _within(loss, each, 1)
    with localcontext(outward.context(curved)):
        moved = 4 * (loss.prediction * loss.lipschitz) ** 2
        return MeanSquare(
            samples=size, mu_squared=outward.above(moved * (1 / (curved * size) ** 2 + each / (curved * size)))
        )


def strongly_convex_mean_square(loss: Smooth, n: int, convexity: Number, epochs: int) -> MeanSquare:
    """Losses that are strongly convex (g), steps 1/(g (t + t0)), t = 1, 2, ..., with t0 = B/g rounded up, every record
    `epochs` (K) times: (Lh 2 L K/(g (n K + t0)))^2, which is at most (2 L Lh/(g n))^2.

    Claim: bounds every move of a prediction surely, and so mu^2. Source: docs/proofs/stability_utility.md, "SGD".

    >>> loss = dpl.stability.Smooth(lipschitz=1, smoothness="0.25")
    >>> dpl.stability.strongly_convex_mean_square(loss, 1000, convexity="0.1", epochs=3).radius
    Decimal('0.893533657348')
    """
    size, curved = _samples(loss, n), _curved(loss, convexity)
    times = whole(epochs, field="epochs", least=1, most=MOST_STEPS)
    late = math.ceil(Fraction(loss.smoothness) / Fraction(curved))
    with localcontext(outward.context(curved)):
        moved = 2 * loss.prediction * loss.lipschitz * times / (curved * (size * times + late))
        return MeanSquare(samples=size, mu_squared=outward.above(moved**2))
