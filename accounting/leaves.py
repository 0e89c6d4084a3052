"""The laws that a composition tree holds as leaves: noise and its parameters, a pair of distributions, a sparse vector;
and the promise of a mechanism whose loss depends on what came out.

A law names no relation: `epsilon`, `scale` and `sensitivity` are stated under the relation beside the tree, a noise
multiplier per unit's contribution (docs/adr/0003). Declared guarantees, the other leaves, are in `guarantees`: those
can be claimed and be a budget too, which `ExPostDP` cannot.

>>> PmfPair(left=("0.75", "0.25"), right=("0.25", "0.75")).kind
'pmf'
>>> PmfPair(left=("0.75", "0.2"), right=("0.25", "0.75"))
Traceback (most recent call last):
...
dpledger.errors.ParameterError: PmfPair.left: expected probabilities that add up to exactly 1, got ('0.75', '0.2')
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from dpledger.decimals import total
from dpledger.number_fields import Exact, Exacts, Noise, Positive, Probability, Whole
from dpledger.schema import given, record, tag

__all__ = [
    "Categories",
    "Count",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ExPostDP",
    "ExPostOutcome",
    "ExponentialLaw",
    "GaussianLaw",
    "LaplaceLaw",
    "PmfPair",
    "RandomizedResponseLaw",
    "SparseVectorLaw",
    "SparseVectorOutcome",
    "Tally",
]


Count = Annotated[Whole, Field(strict=True, ge=1, le=10**12)]
"""How many times something is run: 1 to 10^12."""
Tally = Annotated[Whole, Field(strict=True, ge=0, lt=2**53)]
"""How many times something happened."""
Categories = Annotated[Whole, Field(strict=True, ge=2, le=10**12)]
"""How many values a randomised answer chooses from: 2 to 10^12."""
MOST_OUTCOMES = 4096
"""Outcomes that a pair of distributions may list."""


@record
class LaplaceLaw:
    """Laplace noise; epsilon = sensitivity (l1) / scale, under the relation beside the tree.

    >>> round(dpl.compose((dpl.LaplaceLaw("0.1"), 20)).epsilon("1e-6").upper, 4)
    1.774
    """

    epsilon: Exact
    kind: Literal["laplace"] = tag(default="laplace")


@record
class GaussianLaw:
    """Gaussian noise; noise_multiplier = sigma / the l2 bound of one unit's contribution.

    Adding, removing or zeroing a unit moves the mean by at most that bound (mu = 1/noise_multiplier); replacing one,
    or flipping its label, by at most twice that (mu = 2/noise_multiplier).

    >>> round(dpl.compose((dpl.GaussianLaw(noise_multiplier=4), 10)).epsilon("1e-6").upper, 4)
    3.7472
    """

    noise_multiplier: Noise
    kind: Literal["gaussian"] = tag(default="gaussian")


@record
class DiscreteLaplaceLaw:
    """Laplace noise on the integers, pmf proportional to exp(-|k|/scale); sensitivity: l1, of an integer statistic.

    >>> round(dpl.compose(dpl.DiscreteLaplaceLaw(scale=10, sensitivity=1)).epsilon(0).upper, 4)
    0.1
    """

    scale: Noise
    sensitivity: Positive
    kind: Literal["discrete_laplace"] = tag(default="discrete_laplace")


@record
class DiscreteGaussianLaw:
    """Gaussian noise on the integers, pmf proportional to exp(-k^2/2 sigma^2); sensitivity: of one whole number. The
    zCDP price holds for a vector of them too, with the l2 norm. Canonne-Kamath-Steinke 2020.

    >>> round(dpl.compose(dpl.DiscreteGaussianLaw(sigma=4, sensitivity=1)).epsilon("1e-5").upper, 4)
    0.9274
    """

    sigma: Noise
    sensitivity: Positive
    kind: Literal["discrete_gaussian"] = tag(default="discrete_gaussian")


@record
class RandomizedResponseLaw:
    """One of `k` values is published: the true one with probability e^epsilon / (e^epsilon + k - 1), each other one
    with probability 1 / (e^epsilon + k - 1). Warner 1965; Kairouz-Bonawitz-Ramage 2016.

    A neighbour may have any other true value.

    >>> answer = dpl.RandomizedResponseLaw(epsilon=1, k=4)
    >>> round(dpl.compose(answer, relation="replace_one").epsilon(0).upper, 4)
    1.0
    """

    epsilon: Exact
    k: Categories = given(default=2)
    kind: Literal["randomized_response"] = tag(default="randomized_response")


@record
class ExponentialLaw:
    """The exponential mechanism with weights e^{epsilon score / (2 sensitivity)}: another word for a bounded range of
    eta = epsilon. McSherry-Talwar 2007; Durfee-Rogers 2019, Lemma 3.2.

    >>> round(dpl.compose((dpl.ExponentialLaw("0.1"), 20)).epsilon("1e-6").upper, 3)
    0.932
    """

    epsilon: Exact
    kind: Literal["exponential"] = tag(default="exponential")


@record
class PmfPair:
    """A dominating pair, outcome by outcome: `left` with the unit, `right` without it; each adds up to exactly 1.

    An outcome that only one of them allows is a loss of infinity, in that direction. Claim made by whoever writes it:
    for all a >= 0 and neighbours D (with the unit) and D', sup_S M(D)(S) - a M(D')(S) is at most that of the pair.

    >>> answers = dpl.PmfPair(left=("0.75", "0.25"), right=("0.25", "0.75"))
    >>> round(dpl.compose(answers).epsilon(0).upper, 4)
    1.0986
    """

    left: Exacts
    right: Exacts
    kind: Literal["pmf"] = tag(default="pmf")

    @field_validator("left", "right")
    @classmethod
    def _add_up(cls, masses: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if not 1 <= len(masses) <= MOST_OUTCOMES:
            raise ValueError(f"1 to {MOST_OUTCOMES} probabilities")
        if total(masses) != 1:
            raise ValueError("probabilities that add up to exactly 1")
        return masses

    @field_validator("right")
    @classmethod
    def _same_outcomes(cls, right: tuple[Decimal, ...], info: ValidationInfo) -> tuple[Decimal, ...]:
        if len(right) != len(info.data.get("left", right)):
            raise ValueError("as many probabilities as left")
        return right


@record
class SparseVectorOutcome:
    """What a sparse vector interaction published, in numbers: every test, those below the threshold (charged), and the
    tests of each closed epoch and of the open one (docs/proofs/sparse_vector.md, "Ex-post loss")."""

    closed_epochs: tuple[Tally, ...]
    open_epoch: Tally
    halted: bool
    kind: Literal["sparse_vector_outcome"] = tag(default="sparse_vector_outcome")

    @property
    def tests(self) -> int:
        """Every test, of closed epochs and of the open one: as many as answers were given."""
        return sum(self.closed_epochs) + self.open_epoch


@record
class SparseVectorLaw:
    """Sparse vector (docs/proofs/sparse_vector.md): `cutoff` charged answers, noise of scale `threshold_scale` on the
    threshold and `query_scale` on each query, both divided by the sensitivity. Without an outcome it costs its cap.

    `mode`: single_threshold, target_charging, basic, dr14, zcdp, kov. `calls`: the K of target_charging. `stable_at`:
    a value is released with each free answer, of queries that are whole distances to another value, and this is their
    threshold, in steps of the sensitivity; noise is discrete. `monotone`: between two neighbours all queries move in
    one direction, so that a charge costs 1/query_scale, not 2 (in target_charging it costs that anyway).

    >>> tests = dpl.SparseVectorLaw(mode="basic", cutoff=3, epsilon=1, delta=0, threshold_scale=6, query_scale=12)
    >>> round(dpl.compose(tests).epsilon(0).upper, 4)
    1.0
    """

    mode: Literal["single_threshold", "target_charging", "basic", "dr14", "zcdp", "kov"]
    cutoff: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)]
    epsilon: Positive
    delta: Probability
    threshold_scale: Exact
    query_scale: Noise
    calls: Count | None = given(default=None)
    stable_at: Annotated[Whole, Field(strict=True, ge=1, lt=2**53)] | None = given(default=None)
    monotone: Literal[True] | None = given(default=None)
    outcome: SparseVectorOutcome | None = given(default=None)
    kind: Literal["sparse_vector"] = tag(default="sparse_vector")


@record
class ExPostOutcome:
    """What a run of `ExPostDP` lost, in the mechanism's own word: its bound at what it published.

    >>> dpl.ExPostDP(epsilon=1, sense="pure", outcome=dpl.ex_post.ExPostOutcome("0.25")).outcome.epsilon
    Decimal('0.25')
    """

    epsilon: Exact
    kind: Literal["ex_post_outcome"] = tag(default="ex_post_outcome")


@record
class ExPostDP:
    """A declared bound E(o) <= epsilon of the loss at each published outcome o; `outcome` says what it came to. A
    function of what was published alone. Ligett et al. 2017; Whitehouse et al. 2022.

    `sense`: pure: log P(o)/Q(o) <= E(o) at every o. integrated: the sum over o of max(0, P(o) - e^E(o) Q(o)) is at most
    delta. probabilistic: under P the loss is above E(o) with probability at most delta; read as integrated, which
    follows from it and which post-processing keeps. For every ordered pair of neighbours P, Q.

    >>> search = dpl.ExPostDP(epsilon=1, sense="pure", outcome=dpl.ex_post.ExPostOutcome("0.25"))
    >>> round(dpl.compose(search).epsilon(0).upper, 4)  # as a plan: the cap
    1.0
    """

    epsilon: Exact
    sense: Literal["pure", "integrated", "probabilistic"]
    delta: Probability = given(default=Decimal(0))
    outcome: ExPostOutcome | None = given(default=None)
    kind: Literal["ex_post"] = tag(default="ex_post")

    @field_validator("delta")
    @classmethod
    def _pure_never_fails(cls, delta: Decimal, info: ValidationInfo) -> Decimal:
        if delta and info.data.get("sense") == "pure":
            raise ValueError("0 in the sense pure")
        return delta
