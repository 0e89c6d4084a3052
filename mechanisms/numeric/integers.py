"""Noise for a whole number that the caller computed: the geometric mechanism, and its Gaussian counterpart.

>>> from dpledger.mechanisms.entropy import seeded
>>> Geometric(sensitivity=1, epsilon="0.5").claim()
PureDP(epsilon=Decimal('0.5'), kind='pure_dp')
>>> isinstance(Geometric(sensitivity=1, epsilon="0.5").release(100, entropy=seeded(1)).value, int)
True
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, DiscreteGaussianLaw, DiscreteLaplaceLaw
from dpledger.accounting.families.gaussian.price import gaussian_mu_squared
from dpledger.accounting.guarantees import ZCDP, PureDP
from dpledger.decimals import Number, multiply, round_down, round_up
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, draw, half_width
from dpledger.mechanisms.numeric.added import AddedNoise
from dpledger.mechanisms.numeric.grid import check_map, check_number, to_steps
from dpledger.mechanisms.numeric.one_shot import ShortText, derived, exactly_one, least_epsilon
from dpledger.mechanisms.protocol import UNSAID, Release
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["Geometric", "IntegerGaussian", "geometric_scale", "share_of"]

_ONE = Decimal(1)
_PositiveWhole = Annotated[Whole, Field(strict=True, ge=1, lt=2**53)]


def geometric_scale(sensitivity: int, epsilon: Decimal) -> Decimal:
    """The scale of discrete Laplace noise that makes a whole number of this l1 sensitivity epsilon-private.

    Claim: sensitivity / scale <= epsilon, also after it is rounded up to 12 significant digits.
    Source: Ghosh-Roughgarden-Sundararajan 2009. Raises ParameterError if no such scale is below 10^18.
    """
    share = derived(round_down(epsilon), epsilon=epsilon)
    return derived(round_up(Fraction(sensitivity) / Fraction(share)), epsilon=epsilon)


def share_of(epsilon: Decimal, parts: int) -> Decimal:
    """epsilon / parts, rounded down to the digits that are kept of a price."""
    return derived(round_down(Fraction(epsilon) / parts), epsilon=epsilon)


class _WholeNumber(AddedNoise):
    """Base of a record that adds noise to one whole number."""

    __slots__ = ()

    sensitivity: int

    @property
    @abstractmethod
    def noise(self) -> DiscreteLaplace | DiscreteGaussian:
        """The law of the noise."""

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are one number; its value never matters."""
        check_number(data)

    def release(self, data: object, *, entropy: Entropy) -> Release[int]:
        """`data` plus noise, a whole number."""
        self.inspect(data)
        noisy = draw(self.noise, to_steps(data, self._map), sensitivity=self._declared, entropy=entropy)
        return Release(value=noisy, parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases of the same data, as whole numbers."""
        self.inspect(data)
        steps = np.array([to_steps(data, self._map)]).repeat(size)
        return draw(self.noise, steps, sensitivity=self._declared, entropy=entropy)

    def interval(self, confidence: Number) -> int:
        """The half-width around the released value that holds the number (if whole and within the bound) with at least
        this probability."""
        return half_width(self.noise, confidence)

    @property
    def _grid(self) -> Decimal:
        return _ONE


@record
class Geometric(_WholeNumber):
    """Release a whole number with discrete Laplace noise. Ghosh-Roughgarden-Sundararajan 2009.

    `sensitivity`: how far one unit moves it, a whole number (the caller vouches for it; `justification` says why, in
    one line). Exactly one of `epsilon` and `scale` is given. A number that is not whole is rounded; beyond
    `bound` it counts as the bound, and NaN as `missing`; no value raises. Data that are not one number are refused.
    The value is a whole number, and may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> dpl.Geometric(sensitivity=1, epsilon="0.1").release(1234, entropy=seeded(1)).value
    1209
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l1"

    sensitivity: _PositiveWhole
    epsilon: OptionalPositive = given(default=None)
    scale: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["geometric"] = tag(default="geometric")

    def __post_init__(self) -> None:
        exactly_one(epsilon=self.epsilon, scale=self.scale)
        check_map(_ONE, self.bound, self.missing)
        self.claim()
        self.parts()

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error`; `fields`: all but
        epsilon and scale.

        >>> Geometric.for_error(10, "0.95", sensitivity=1).claim().epsilon
        Decimal('0.284349')
        """
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise."""
        if self.scale is not None:
            return DiscreteLaplace(self.scale)
        assert self.epsilon is not None, "exactly one of them is given"
        return DiscreteLaplace(geometric_scale(self.sensitivity, self.epsilon))

    def claim(self) -> PureDP:
        """epsilon = sensitivity / scale, rounded up."""
        if self.epsilon is not None:
            return PureDP(self.epsilon)
        return PureDP(derived(round_up(self.sensitivity / Fraction(self.noise.scale)), scale=self.scale))

    def parts(self) -> Composition:
        """One discrete Laplace leaf."""
        return DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=self.sensitivity)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with epsilon and scale as they are used."""
        used = {"sensitivity": self.sensitivity, "epsilon": self.claim().epsilon, "scale": self.noise.scale}
        result: dict[str, Plain] = plain(
            {**used, "bound": self.bound, "missing": self.missing, "justification": self.justification}
        )
        return result


@record
class IntegerGaussian(_WholeNumber):
    """Release a whole number with discrete Gaussian noise. Canonne-Kamath-Steinke 2020, theorem 4.

    `sigma`: the parameter of the noise. `sensitivity`: how far one unit moves the number, a whole number (the caller
    vouches for it; `justification` says why, in one line). A number that is not whole is rounded; beyond
    `bound` it counts as the bound, and NaN as `missing`; no value raises. Data that are not one number are refused.
    The value is a whole number, and may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> dpl.IntegerGaussian(sensitivity=1, sigma=10).release(1234, entropy=seeded(1)).value
    1223
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l2"

    sigma: Positive
    sensitivity: _PositiveWhole
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["integer_gaussian"] = tag(default="integer_gaussian")

    def __post_init__(self) -> None:
        check_map(_ONE, self.bound, self.missing)
        self.claim()

    @property
    def noise(self) -> DiscreteGaussian:
        """The law of the noise."""
        return DiscreteGaussian(self.sigma)

    def claim(self) -> ZCDP:
        """rho = sensitivity^2 / (2 sigma^2), rounded up."""
        mu_squared = gaussian_mu_squared(self.sensitivity, self.sigma)
        return ZCDP(derived(round_up(multiply(mu_squared, Decimal("0.5"))), sigma=self.sigma))

    def parts(self) -> Composition:
        """One discrete Gaussian leaf."""
        return DiscreteGaussianLaw(sigma=self.sigma, sensitivity=self.sensitivity)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them."""
        result: dict[str, Plain] = plain(
            {
                "sigma": self.sigma,
                "sensitivity": self.sensitivity,
                "bound": self.bound,
                "missing": self.missing,
                "justification": self.justification,
            }
        )
        return result
