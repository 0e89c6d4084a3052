"""How many examples are enough, before anything is spent: the helpers that every calculator shares, and its answer.

Advice about utility; nothing here changes what a mechanism claims. Numbers are computed in wide decimals and rounded
up: a plan asks for no fewer than its theorem.

>>> smallest(lambda n: n * n >= 50, 1)
8
>>> uc_one("0.1", "0.05", ln_card=natural_log(1024))
497
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, exact, in_own_context, text
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.plan import Plan, Status

__all__ = [
    "SampleSize",
    "ceiling",
    "feasible",
    "largest_of",
    "ln_growth",
    "natural_log",
    "pairs_uc",
    "smallest",
    "uc_one",
    "users_of_examples",
]

MOST = 10**18
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize(Plan):
    """`needed` units are enough for `target`, by the bound named `bound`; `others`: what the other valid bounds ask
    for. `inside`: the parameters of the argument, in words, that the plan chose."""

    target: str
    bound: str
    units: str = "examples"
    others: tuple[tuple[str, int], ...] = ()
    inside: tuple[tuple[str, Decimal], ...] = ()

    def words(self) -> str:
        """The plan in a few sentences."""
        asked = ", ".join(f"{name} needs {needed:,}" for name, needed in self.terms)
        found = [
            f"{self.needed:,} {self.units} are enough ({self.status}) for {self.target}",
            f"It is the bound '{self.bound}', decided by the {self.binding}: {asked}",
        ]
        if self.inside:
            found.append("The argument chose: " + ", ".join(f"{name} {text(value)}" for name, value in self.inside))
        if self.others:
            found.append("Other bounds: " + ", ".join(f"{name} {needed:,}" for name, needed in self.others))
        return ". ".join(found) + "."


def largest_of(
    terms: tuple[tuple[str, int], ...],
    *,
    status: Status,
    target: str,
    bound: str,
    units: str = "examples",
    inside: tuple[tuple[str, Decimal], ...] = (),
) -> SampleSize:
    """The plan for as many as the term asks for that asks for most."""
    needed = max(needed for _, needed in terms)
    return SampleSize(
        needed=needed,
        chosen=needed,
        terms=terms,
        status=status,
        target=target,
        bound=bound,
        units=units,
        inside=inside,
    )


def users_of_examples(m: int) -> str:
    """What a plan counts: users with so many examples."""
    return f"users with {m} examples each" if m > 1 else "users"


def natural_log(size: Number) -> Decimal:
    """ln(size), for a size of at least 1."""
    with localcontext(outward.context()):
        return outward.ln(_decimal(size, "size"))


def smallest(enough: Callable[[int], bool], start: int) -> int:
    """The least n >= start with enough(n), which must hold from there on: doubling, then halving. InfeasiblePlan above
    10^18."""
    low, high = start - 1, max(start, 1)
    while not enough(high):
        if high > MOST:
            raise InfeasiblePlan(f"more than {MOST} would be needed")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def feasible(plans: Iterator[SampleSize]) -> Iterator[SampleSize]:
    """The plans before the first that no number is enough for."""
    with suppress(InfeasiblePlan):
        yield from plans


@in_own_context
def ceiling(value: Decimal) -> int:
    """The least whole number above `value`, whatever its last digits lost."""
    return max(0, math.ceil(value * (1 + outward.MARGIN)))


def ln_growth(vc: int, points: int) -> Decimal:
    """How many labellings of so many points a class has, as a logarithm.

    Claim: at least ln Pi_C(points) for every class of that VC dimension: points ln 2 up to vc, then vc ln(e points/vc).
    Source: Sauer 1972, Shelah 1972. To be called in a context of one's own, or for its value alone."""
    if vc == 0:
        return Decimal(0)
    with localcontext(outward.context()):
        if points <= vc:
            return points * outward.ln(Decimal(2))
        return vc * (1 + outward.ln(Decimal(points) / vc))


def uc_one(
    deviation: Number,
    failure: Number,
    *,
    ln_card: Decimal | None = None,
    vc: int | None = None,
    thresholds: bool = False,
    mult: int = 1,
    m: int = 1,
) -> int:
    """The fewest units of m points with which the frequencies of all concepts deviate, to one side, by at most
    `deviation`, but for `failure`. The least of the bounds that are at hand.

    Claim: finite class: Hoeffding and a union over `mult` e^ln_card events; VC dimension: 4 mult Pi_C(2nm)
    e^(-n a^2/8) <= b; thresholds (m = 1): (2/a^2) ln(4/b), for the two nested chains of their mistakes.
    Source: Hoeffding 1963; Anthony-Bartlett 1999, theorem 4.3; Massart 1990."""
    found: list[int] = []
    with localcontext(outward.context()):
        a, b = _open(deviation, "deviation"), _open(failure, "failure")
        square = a * a
        if ln_card is not None:
            found.append(ceiling((ln_card + outward.ln(mult / b)) / (2 * square)))
        if thresholds and m == 1:
            found.append(ceiling(2 / square * outward.ln(4 * mult / b)))
        if vc is not None:
            found.append(_vc_size(square / 8, vc, m, outward.ln(4 * mult / b)))
    if not found:
        raise ParameterError("ln_card", "neither", "ln_card or vc")
    return max(1, min(found))


def pairs_uc(
    gamma: Number,
    accepted: Number,
    failure: Number,
    *,
    ln_hypotheses: Decimal,
    ln_card: Decimal | None = None,
    vc: int | None = None,
    m: int = 1,
) -> int:
    """The fewest units with which, but for `failure`, for all pairs (h, f) the true disagreement is at most (1 + gamma)
    times the observed one plus `accepted`.

    Claim: finite class: Chernoff at the worst true value, rate 2 gamma b/(1+gamma)^2 for b <= gamma, else
    ((gamma+b)/(1+gamma))^2/2; VC dimension: 4 |H| Pi_C(2nm) e^(-gamma b n/(4(1+gamma))) <= failure.
    Source: docs/proofs/learning_pac.md, "Pairs"; Li-Wang-Ye 2024, lemma 4.2; Anthony-Bartlett 1999, theorem 4.4."""
    found: list[int] = []
    with localcontext(outward.context()):
        g, b, beta = _decimal(gamma, "gamma"), _open(accepted, "accepted"), _open(failure, "failure")
        if not g > 0:
            raise ParameterError("gamma", gamma, "a number above 0")
        if ln_card is not None:
            rate = 2 * g * b / (1 + g) ** 2 if b <= g else ((g + b) / (1 + g)) ** 2 / 2
            found.append(ceiling((ln_hypotheses + ln_card - outward.ln(beta)) / rate))
        if vc is not None:
            found.append(_vc_size(g * b / (4 * (1 + g)), vc, m, outward.ln(4 / beta) + ln_hypotheses))
    if not found:
        raise ParameterError("ln_card", "neither", "ln_card or vc")
    return max(1, min(found))


@in_own_context
def _vc_size(rate: Decimal, vc: int, m: int, offset: Decimal) -> int:
    """The least n with offset + ln_growth(vc, 2nm) <= rate n. Concave in n with its top at vc/rate: monotone beyond."""
    start = max(1, vc, math.ceil(vc / rate))
    return smallest(lambda n: (offset + ln_growth(vc, 2 * n * m)) * (1 + outward.MARGIN) <= rate * n, start)


def _open(value: Number, field: str) -> Decimal:
    number = _decimal(value, field)
    if not 0 < number < 1:
        raise ParameterError(field, value, "a number in (0, 1)")
    return number


def _decimal(value: Number, field: str) -> Decimal:
    """A number, of a Fraction its nearest decimal in a wide context."""
    if isinstance(value, Fraction):
        with localcontext(outward.context()):
            return Decimal(value.numerator) / Decimal(value.denominator)
    return exact(value, field=field)
