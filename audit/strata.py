"""Ex-post claims: what each published outcome is said to have lost at most, and the strata on which that is one number.

    P(o) <= e^E(o) Q(o) at every outcome o, both ways, but for a mass of delta

A bound of the realised loss is tested where it speaks: within a stratum of outcomes with the same E(o), every event A
has P(A) <= e^E Q(A) + delta. Pooled over strata a bound that is too small in one of them hides behind the others. E(o)
must be computed from what is published. A run that raises is charged its cap; what is said to have lost anything, is in
no stratum.

>>> claim = ExPostClaim(lambda halted_at: min(1, halted_at / 4))
>>> Stated(claim, Relation.ADD_REMOVE).losses([1, 2, 9]).tolist()
[0.25, 0.5, 1.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.accounting.composition import Composition
from dpledger.accounting.pricing.costs import cost
from dpledger.audit.outcomes import Floats, Outcomes, Outputs, Raised, encode
from dpledger.decimals import Number
from dpledger.errors import CannotCertify, ParameterError
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation

__all__ = ["ExPostClaim", "Stated", "Stratum", "strata_of"]

MOST_STRATA = 32  # a claim of more values is read in that many ranges of them, each at its largest
MOST_TESTED = 600  # claimed losses above: e^600 runs would be needed
DIGITS = 15  # of a claimed loss, rounded up: as many as a double keeps
_WHAT = "a loss that is a number of at least 0, or infinity"


@dataclass(frozen=True, slots=True)
class ExPostClaim:
    """A bound of the realised loss of each outcome, as it is claimed: what `audit_mechanism` tests stratum by stratum.

    `loss`: a function of one output (of the whole batch, where outputs are drawn in batches) that says what it lost at
    most, a number or infinity. None: what the record of the run says, so the output must be a `Release`, as a mechanism
    gives it, or as a function returns it that opens an interaction, asks and closes. `delta`: of the claim; None: that
    of a mechanism's own parts, else 0. `cap`: what a run that raises lost at most; None: what a mechanism's own parts
    say, else anything.

    >>> claim = dpl.ex_post.ExPostClaim(lambda halted_at: min(1, halted_at / 4))
    >>> claim.loss(2)
    0.5
    """

    loss: Callable[[Any], Any] | None = None
    delta: Number | None = None
    cap: Number | None = None

    def __post_init__(self) -> None:
        if self.loss is not None and not callable(self.loss):
            raise ParameterError("loss", type(self.loss).__name__, "a function of an output, or None")
        if self.delta is not None:
            delta = decimals.read(self.delta, field="delta")
            if delta >= 1:
                raise ParameterError("delta", str(delta), "a number in [0, 1)")
            object.__setattr__(self, "delta", delta)
        if self.cap is not None:
            object.__setattr__(self, "cap", decimals.read(self.cap, field="cap"))


@dataclass(frozen=True, slots=True)
class Stated:
    """An ex-post claim in one audit. `relation`: under which records are priced; `batched`: whether the loss is that of
    whole batches; `parts`: of the mechanism, if it has any."""

    claim: ExPostClaim
    relation: Relation
    batched: bool = False
    parts: Composition | None = None

    @property
    def delta(self) -> Decimal:
        """The delta of the claim."""
        if self.claim.delta is not None:
            return decimals.read(self.claim.delta)
        return decimals.ZERO if self.parts is None else cost(self.parts, self.relation).delta

    @property
    def cap(self) -> float:
        """What a run that raises is said to have lost."""
        if self.claim.cap is not None:
            return _loss(self.claim.cap)
        price = None if self.parts is None else cost(self.parts, self.relation).pure
        return math.inf if price is None else _loss(price)

    def outcomes(self, outputs: Outputs) -> Outcomes:
        """The outcomes of `outputs`, each with its claimed loss."""
        return replace(encode(outputs), losses=self.losses(outputs))

    def losses(self, outputs: Outputs) -> Floats:
        """The claimed loss of each output: float64[runs], exact to 15 digits and rounded up.

        ParameterError for what is no loss, and where a record without a price, or with a delta above the claim's, is
        asked for one: the claim is a parameter."""
        if self.claim.loss is not None and self.batched:
            said = _asked(self.claim.loss, outputs)
            if np.shape(said) != (len(outputs),):
                raise ParameterError("claim", f"losses of shape {np.shape(said)}", f"{len(outputs)} losses of a batch")
            values, places = np.unique(np.asarray(said), return_inverse=True)
            return np.array([_loss(value) for value in values.tolist()], dtype=np.float64)[places]
        cap, seen = self.cap, dict[object, float]()
        return np.array(
            [cap if isinstance(output, Raised) else self._of_output(output, seen) for output in outputs],
            dtype=np.float64,
        )

    def _of_output(self, output: object, seen: dict[object, float]) -> float:
        if self.claim.loss is None:
            return self._of_record(output, seen)
        said = _asked(self.claim.loss, output.value if isinstance(output, Release) else output)
        try:
            if said not in seen:
                seen[said] = _loss(said)
            return seen[said]
        except TypeError:  # what cannot be hashed is no number
            raise ParameterError("claim", f"a loss of the type {type(said).__name__}", _WHAT) from None

    def _of_record(self, output: object, prices: dict[object, float]) -> float:
        if not isinstance(output, Release):
            given = f"a run that gave {type(output).__name__}"
            raise ParameterError("claim", given, "runs that give a Release, or a claim with a loss of its own")
        if output.parts not in prices:
            price = cost(output.parts, self.relation)
            if price.delta > self.delta:
                raise ParameterError("claim", f"delta {self.delta}", f"a delta of at least the record's, {price.delta}")
            prices[output.parts] = math.inf if price.pure is None else _loss(price.pure)
        return prices[output.parts]


def _asked(loss: Callable[[Any], Any], given: object) -> Any:
    try:
        return loss(given)
    except Exception as error:
        raise ParameterError("claim", f"a loss that raised {type(error).__name__}", "one of every output") from error


def _loss(said: Any) -> float:
    """A claimed loss as a double from which `_decimal` reads 15 digits that are not below it. One above MOST_TESTED is
    as good as infinite: no number of runs refutes it."""
    try:
        number = decimals.exact(said, field="claim")
    except ParameterError:
        number = Decimal(-1)
    if number.is_nan() or number < 0:
        raise ParameterError("claim", f"a loss of {said!r}", _WHAT)
    return float(decimals.round_up(number, digits=DIGITS)) if number <= MOST_TESTED else math.inf


def _decimal(loss: float) -> Decimal:
    """The decimal of 15 digits that `_loss` made a double of: a double keeps as many."""
    return decimals.read(repr(float(loss)), field="claim")


# ---- strata ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stratum:
    """Outcomes with a claimed loss of `epsilon`; with `above`, those of a claimed loss above that and at most
    `epsilon`."""

    epsilon: Decimal
    above: Decimal | None = None

    def holds(self, losses: Floats) -> npt.NDArray[np.bool_]:
        """Which outcomes are in it, by their claimed losses."""
        above = math.nextafter(float(self.epsilon), -math.inf) if self.above is None else float(self.above)
        inside: npt.NDArray[np.bool_] = (losses > above) & (losses <= float(self.epsilon))
        return inside

    @property
    def words(self) -> str:
        """The stratum in words: public, as claimed losses are."""
        if self.above is None:
            return f"claimed loss {self.epsilon:f}"
        above = "" if self.above < 0 else f"above {self.above:f} and "
        return f"claimed loss {above}at most {self.epsilon:f}"


def strata_of(losses: Sequence[Floats]) -> tuple[Stratum, ...]:
    """Strata of the claimed losses that were seen: one a value, or ranges of values where there are many.

    Claim: in each stratum every event A has P(A) <= e^epsilon Q(A) + delta, if the ex-post claim holds. Source:
    docs/proofs/audit.md 4. CannotCertify where no finite loss is claimed: then nothing is."""
    pooled = np.concatenate(list(losses))
    values = np.unique(pooled[np.isfinite(pooled)])
    if not values.size:
        raise CannotCertify("the claim bounds the loss of no outcome that was seen: there is nothing to test")
    if values.size <= MOST_STRATA:
        return tuple(Stratum(_decimal(value)) for value in values.tolist())
    places = np.linspace(0, 1, MOST_STRATA + 1)[1:]
    ends = np.unique(np.quantile(pooled[np.isfinite(pooled)], places, method="higher"))
    lows = [None, *(_decimal(end) for end in ends.tolist()[:-1])]
    least = Decimal(-1)  # below every loss
    return tuple(
        Stratum(_decimal(end), least if low is None else low) for low, end in zip(lows, ends.tolist(), strict=True)
    )
