"""The closed union of guarantees, told in words, and a warning of one that hardly protects."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args

from pydantic import Field

from dpledger.accounting.guarantees.divergences import GDP, RDP, ZCDP
from dpledger.accounting.guarantees.epsilons import ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.decimals import text
from dpledger.errors import ImplausiblePromise, ParameterError
from dpledger.schema import plain

__all__ = ["GUARANTEES", "Guarantee", "warn_where_implausible", "words_of"]

_FEW = 4  # numbers of a list that are written one by one

Guarantee: TypeAlias = PureDP | ApproxDP | ZCDP | GDP | RDP | BoundedRange | PrivacyCurve
"""The closed union of guarantees; told apart by `kind`."""
GUARANTEES: tuple[type[Guarantee], ...] = get_args(Guarantee)
"""The classes of the union, for a value of which nothing is known yet."""

if not TYPE_CHECKING:
    Guarantee = Annotated[Guarantee, Field(discriminator="kind")]


LARGEST_DELTA = Decimal("0.01")
"""A delta of as much is hardly meant: (0, delta)-DP allows to publish each unit's data whole with probability delta."""


def warn_where_implausible(promise: Guarantee, field: str) -> None:
    """Warn (`ImplausiblePromise`) of a delta at which the promise protects hardly anybody."""
    if not isinstance(promise, GUARANTEES):
        raise ParameterError(field, promise, "a guarantee, like ApproxDP(1, '1e-6')")
    delta = promise.fails
    if delta >= LARGEST_DELTA:
        words = (
            f"{field}: with a delta of {text(delta)} the whole data of each unit may be published with that "
            "probability; choose one far below one over the number of units, like 1e-6"
        )
        warnings.warn(words, ImplausiblePromise, stacklevel=3)


def words_of(guarantee: Guarantee) -> str:
    """A guarantee as people write it: its kind and numbers, of a long list its ends.

    >>> words_of(ApproxDP(1, "1e-6"))
    'approx_dp(epsilon=1, delta=0.000001)'
    """
    values = {name: value for name, value in plain(guarantee).items() if name != "kind"}
    return f"{guarantee.kind}({', '.join(f'{name}={_brief(value)}' for name, value in values.items())})"


def _brief(value: object) -> str:
    if isinstance(value, list) and len(value) > _FEW:
        return f"[{value[0]} .. {value[-1]}: {len(value)} in all]"
    return str(value)
