"""The two numbers of a run that Opacus takes from the number of rows: with which chance a row is drawn, and by what a
sum of gradients is divided.

Opacus draws with 1 / batches and divides by `int(rows / batches)`. Neighbours with as many rows share both numbers.
Under add_remove they need not, nor under replace_one where units have different numbers of rows: in batches of 100,
sums of 1,200 rows are divided by 100 and of 1,199 by 99; of 1,200 rows one is drawn with 1/12, of 1,201 with 1/13. No
noise covers that, so there both are declared, and set where they are used.

>>> by_declaration(rate="0.1", expected_batch_size=10)
Public(rate=Decimal('0.100000023842'), sample_rate=0.1, batches=10, divisor=10)
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpledger.attach.opacus.objects import rate_at, rate_of
from dpledger.decimals import Number, read, whole
from dpledger.errors import ParameterError
from dpledger.relations import Relation

__all__ = ["Public", "by_declaration", "of_relation", "require_declared"]

_WHY = "Opacus takes it from the number of rows, in which neighbours may differ (not under zero_out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """`rate`: a row is drawn with at most this chance, by a sampler with this `sample_rate`, `batches` times a pass.
    `divisor`: of the noisy sum; None where gradients are summed up and not divided."""

    rate: Decimal
    sample_rate: float
    batches: int
    divisor: float | None

    def impose(self, sampler: Any, optimizer: Any) -> None:
        """Let `sampler` and `optimizer` use these numbers, whatever they took from their rows."""
        sampler.sample_rate, sampler.steps = self.sample_rate, self.batches
        if self.divisor is not None:
            optimizer.expected_batch_size = self.divisor


def of_relation(
    relation: Relation,
    sampler: Any,
    optimizer: Any,
    *,
    rate: Number | None,
    expected_batch_size: int | None,
) -> Public:
    """Both numbers of a run: as they are declared, else as Opacus has them, if `relation` keeps every row.

    Claim: neighbours under `relation` have the same numbers, if the declared ones are public.
    Raises ParameterError for one that is missing but under zero_out, and for a divisor that is not used."""
    divides = optimizer.loss_reduction == "mean"
    if expected_batch_size is not None and not divides:
        raise ParameterError(
            "expected_batch_size", expected_batch_size, "None: this optimizer sums and does not divide"
        )
    if relation is not Relation.ZERO_OUT:
        require_declared("rate", rate)
        if divides:
            require_declared("expected_batch_size", expected_batch_size)
    as_it_is = float(sampler.sample_rate)
    if rate is None and expected_batch_size is None:
        return Public(
            rate=rate_of(sampler),
            sample_rate=as_it_is,
            batches=len(sampler),
            divisor=optimizer.expected_batch_size if divides else None,
        )
    declared = by_declaration(rate=as_it_is if rate is None else rate, expected_batch_size=expected_batch_size)
    if divides and expected_batch_size is None:
        return Public(
            rate=declared.rate,
            sample_rate=declared.sample_rate,
            batches=declared.batches,
            divisor=optimizer.expected_batch_size,
        )
    return declared


def by_declaration(*, rate: Number, expected_batch_size: int | None) -> Public:
    """The numbers of a run whose sampler is given this `rate`, in (0, 1], and whose sums are divided by so many."""
    asked = float(read(rate, field="rate"))
    if not 0 < asked <= 1:
        raise ParameterError("rate", rate, "the chance with which a row is drawn, in (0, 1]")
    if expected_batch_size is not None:
        whole(expected_batch_size, field="expected_batch_size", least=1)
    return Public(rate=rate_at(asked), sample_rate=asked, batches=round(1 / asked), divisor=expected_batch_size)


def require_declared(name: str, given: object) -> None:
    """ParameterError for a number that Opacus takes from the rows, where nobody said what it is."""
    if given is None:
        raise ParameterError(name, None, f"a number that you choose without looking at the rows: {_WHY}")
