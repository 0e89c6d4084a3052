"""A mutant of dpledger's own mechanism: it claims what the original claims, and does something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Failure, PureDP
from dpledger.decimals import multiply
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain

__all__ = ["HalfNoiseLaplace"]


@dataclass(frozen=True, slots=True)
class HalfNoiseLaplace:
    """A Laplace mechanism with half the noise of `of`, whose claim, parts and parameters it repeats.

    Its true epsilon is twice the claim. For audits and demonstrations: a scope would have no reason to refuse it."""

    of: Laplace

    @property
    def kind(self) -> str:
        return "faulty_laplace_half_noise"

    @property
    def relation(self) -> Relation | None:
        return self.of.relation

    @property
    def unit(self) -> Unit | None:
        return self.of.unit

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mutant, for this relation and unit."""
        return replace(self, of=self.of.under(relation, unit))

    def claim(self) -> PureDP:
        """What the original promises."""
        return self.of.claim()

    def parts(self) -> Composition:
        """What the original is made of."""
        return self.of.parts()

    def failures(self) -> tuple[Failure, ...]:
        """None, says the original."""
        return self.of.failures()

    def parameters(self) -> Mapping[str, Plain]:
        """The original's, the scale that is not used among them."""
        return self.of.parameters()

    @property
    def _real(self) -> Laplace:
        half: dict[str, Any] = {"scale": multiply(self.of.noise.scale, Decimal("0.5")), "grid": self.of.noise.grid}
        return Laplace(sensitivity=self.of.sensitivity, **half)

    def release(self, data: object, *, entropy: Entropy) -> Release[float]:
        """`data` with half the noise, under the parts of the original."""
        return Release(value=float(self._real.release(data, entropy=entropy).value), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` such releases."""
        return self._real.sample(data, size, entropy)
