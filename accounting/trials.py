"""How often a selection runs what it selects from: laws of the secret number of trials of the node `selected`.

A selection runs a mechanism a random number of times and publishes the best output. The number is drawn before the
first trial and never told. docs/proofs/selection.md.

>>> NegativeBinomialTrials(eta=1, gamma="0.01").mean
Decimal('100.000000001')
>>> PoissonTrials(mean=4).mean
Decimal('4')
"""

from __future__ import annotations

import functools
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from dpledger.accounting.arithmetic import outward
from dpledger.number_fields import Count, OpenProbability, Positive, Signed
from dpledger.schema import given, record, tag

if not TYPE_CHECKING:
    from pydantic import AfterValidator

__all__ = ["NegativeBinomialTrials", "PoissonTrials", "Trials"]

MOST_ETA = 1000

if TYPE_CHECKING:
    Eta: TypeAlias = Signed
else:

    def _in_range(eta):
        if not -1 < eta <= MOST_ETA:
            raise ValueError(f"a number above -1, up to {MOST_ETA}")
        return eta

    Eta = Annotated[Signed, AfterValidator(_in_range)]


@record
class NegativeBinomialTrials:
    """K = k with probability proportional to (1 - gamma)^k Gamma(k + eta)/k!, k = 1, 2, ...: the truncated negative
    binomial law. eta = 1: geometric, of mean 1/gamma; eta = 0: logarithmic. `most`: K given that it is no more, which
    costs nothing (docs/proofs/selection.md, section 3).

    Papernot-Steinke 2022, Definition 1.

    >>> dpl.planning.NegativeBinomialTrials(eta=0, gamma="0.1").mean
    Decimal('3.90865033714')
    """

    eta: Eta
    gamma: OpenProbability
    most: Count | None = given(default=None)
    kind: Literal["negative_binomial"] = tag(default="negative_binomial")

    @property
    def mean(self) -> Decimal:
        """At least the mean number of trials: eta (1 - gamma)/(gamma (1 - gamma^eta)), at eta = 0 (1/gamma - 1)/log
        (1/gamma). Source: Papernot-Steinke 2022, Definition 1; a bound by `most` does not raise it."""
        return _mean(self.eta, self.gamma)


@functools.lru_cache(maxsize=256)
def _mean(eta: Decimal, gamma: Decimal) -> Decimal:
    with localcontext(outward.context(eta, gamma)):
        log = outward.ln(gamma)
        if not eta:
            return outward.above((1 - 1 / gamma) / log)
        return outward.above(eta * (1 - gamma) / (-gamma * outward.expm1(eta * log)))


@record
class PoissonTrials:
    """K has the Poisson law of this `mean`. K = 0 publishes nothing, and so does K above `most`.

    >>> dpl.planning.PoissonTrials(mean=4)
    PoissonTrials(mean=Decimal('4'), most=None, kind='poisson')
    """

    mean: Positive
    most: Count | None = given(default=None)
    kind: Literal["poisson"] = tag(default="poisson")


Trials: TypeAlias = NegativeBinomialTrials | PoissonTrials
"""The closed union of laws of the number of trials."""

if not TYPE_CHECKING:
    Trials = Annotated[Trials, Field(discriminator="kind")]
