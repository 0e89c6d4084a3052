"""What an allowance (F7) counts of a tree: draws of its law, by structure, and what is left to price beside them.

A leaf that so many draws of the law dominate counts as these *copies*; a sequence, a repetition and what is computed
from outputs count what their parts do. Every other node is left whole, and several leaves on one batch: a group of two
costs a Gaussian four copies, not two. Which leaves a law dominates is said by its kind (`LeafRules.copies`); a law of
`gdp`, on no sample, also counts whatever has a price in mu^2, a whole node too.

>>> from dpledger.accounting.composition import GaussianLaw, LaplaceLaw
>>> law = PoissonSampled(GaussianLaw(1), rate="0.01")
>>> copies, rest = split(law, Sequence((Repeated(law, times=100), LaplaceLaw("0.1"))))
>>> copies, rest == Sequence((LaplaceLaw("0.1"),))
(100, True)
>>> split(GaussianLaw(10), GaussianLaw(3))
(12, None)
>>> split(GDP("0.1"), LaplaceLaw("0.1"), lambda tree: Decimal("0.016"))  # its price in mu^2
(2, None)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias, assert_never

from dpledger.accounting.composition import (
    Chain,
    Composition,
    Converted,
    Filtered,
    Group,
    Leaf,
    Parallel,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Selected,
    Sequence,
    Shuffled,
)
from dpledger.accounting.filters import Coordinates, Filter, budget_guarantee
from dpledger.accounting.filters.allowance import AllowanceFilter
from dpledger.accounting.guarantees import GDP, ApproxDP
from dpledger.accounting.kinds import EVERY_KIND, rules_of
from dpledger.accounting.pricing.outcomes import planned, steps
from dpledger.errors import ParameterError

__all__ = ["MuSquared", "counted", "law_of", "promised", "require_law", "split"]

MuSquared: TypeAlias = Callable[[Composition], Decimal | None]
"""The price of a plan in mu^2, under the relation of whoever counts; None where it has none, or a delta beside it."""
ALL = Decimal(1)
LAWS = ", ".join(
    str(rules.kind.__dataclass_fields__["kind"].default) for rules in EVERY_KIND.values() if rules.group.copies
)


def counted(filter_: Filter, tree: Composition, mu_squared: MuSquared) -> tuple[Coordinates, Composition | None]:
    """What the filter counts of `tree`, and what of it remains to be priced: all of it, but under an allowance."""
    if not isinstance(filter_, AllowanceFilter):
        return {}, tree
    copies, rest = split(law_of(filter_), tree, mu_squared)
    return {"copies": Decimal(copies)}, rest


def promised(filter_: Filter) -> Composition:
    """A tree of which everything that the filter admits is a post-processing, in every currency that it is priced in.

    Of an allowance that of its draws and its rest, whatever epsilon_law says; of any other its budget.
    Source: docs/proofs/allowances.md, "One tree"; docs/proofs/filters.md."""
    if not isinstance(filter_, AllowanceFilter):
        return budget_guarantee(filter_)
    rest = ApproxDP(filter_.epsilon_rest, filter_.delta_rest)
    return Sequence((Repeated(law_of(filter_), times=filter_.steps), rest))


def law_of(filter_: AllowanceFilter) -> Composition:
    """The law of an allowance. ParameterError for a tree that is none."""
    return require_law(filter_.law)


def require_law(tree: object) -> Composition:
    """The tree as a law: one draw of noise, alone or on a Poisson sample. ParameterError for one that is none."""
    law = _law(tree)
    return law.leaf if law.rate == ALL else PoissonSampled(law.leaf, law.rate)


def _unpriced(_: Composition) -> None:
    """No price in mu^2 is known."""


def split(law: Composition, tree: Composition, mu_squared: MuSquared = _unpriced) -> tuple[int, Composition | None]:
    """How many copies of `law` are counted for `tree`, and what is left of it to be priced, if anything is.

    Claim: under every relation (that of `mu_squared`, where a law of `gdp` asks for it), what is counted is a
    post-processing of so many independent draws of the law's pair. Steps of a plan that were never granted are not
    counted, once that is known. Source: docs/proofs/allowances.md.
    Raises ParameterError for a law that is no draw: see `law_of`."""
    return _split(_law(law), tree, mu_squared)


@dataclass(frozen=True, slots=True)
class _Draw:
    """One draw of a leaf: of everyone, or of a secret Poisson sample of a rate below 1."""

    leaf: Leaf
    rate: Decimal


def _law(tree: object) -> _Draw:
    found = _draw(tree)
    if found is None or rules_of(found.leaf).group.copies is None:
        kind = getattr(tree, "kind", type(tree).__name__)
        raise ParameterError("law", kind, f"one draw of noise ({LAWS}), alone or poisson_sampled")
    return found


def _draw(tree: object) -> _Draw | None:
    """A leaf, alone or on a Poisson sample; None of anything else, and of several on one batch."""
    if isinstance(tree, Leaf):
        return _Draw(tree, ALL)
    if isinstance(tree, PostProcessed):
        return _draw(tree.of)
    if isinstance(tree, PoissonSampled):
        inner = _draw(tree.of)
        return _Draw(inner.leaf, tree.rate) if inner is not None and inner.rate == ALL else None
    return None


def _split(law: _Draw, tree: Composition, mu_squared: MuSquared) -> tuple[int, Composition | None]:
    copies = _copies(law, tree, mu_squared)
    if copies is not None:
        return copies, None
    if isinstance(tree, Leaf):
        return 0, tree
    counted_ = steps(tree)
    if counted_ is not None and counted_.started is not None:
        ran = counted_.run_of(counted_.started)
        return (0, None) if ran is None else _split(law, ran, mu_squared)
    match tree:
        case Sequence(of=parts):
            found = [_split(law, part, mu_squared) for part in parts]
            left = tuple(rest for _, rest in found if rest is not None)
            return sum(copies for copies, _ in found), Sequence(left) if left else None
        case Repeated(of=of, times=times):
            copies, rest = _split(law, planned(of), mu_squared)  # one outcome says nothing of the other runs
            return copies * times, None if rest is None else Repeated(rest, times=times)
        case PostProcessed(of=of):
            return _split(law, of, mu_squared)
        case PoissonSampled() | SampledWithoutReplacement() | RandomAllocation() | Shuffled() | Group():
            return 0, tree
        case Parallel() | Selected() | Converted() | Filtered() | Chain():
            return 0, tree
        case _:
            assert_never(tree)


def _copies(law: _Draw, tree: Composition, mu_squared: MuSquared) -> int | None:
    """Of how many draws of the law `tree` is a post-processing; None where none is known to do, or it is no draw.

    A leaf on a sample costs no more than the leaf; under a law on a sample it has one of at most the law's rate."""
    if isinstance(law.leaf, GDP) and law.rate == ALL:
        return _squares(law.leaf, tree, mu_squared)
    found, of_kind = _draw(tree), rules_of(law.leaf).group.copies
    if found is None or type(found.leaf) is not type(law.leaf) or of_kind is None:
        return None
    copies = of_kind(law.leaf, found.leaf)
    if law.rate == ALL:
        return copies
    return copies if copies == 1 and found.rate <= law.rate else None


def _squares(law: GDP, tree: Composition, mu_squared: MuSquared) -> int | None:
    """The least whole number of draws whose mu^2 add up to that of the plan, of what its parts do not say."""
    if isinstance(tree, Sequence | Repeated | PostProcessed):
        return None
    price = mu_squared(planned(tree))
    return None if price is None else math.ceil(Fraction(price) / Fraction(law.mu) ** 2)
