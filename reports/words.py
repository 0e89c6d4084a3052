"""How a report writes numbers and names: plain words, each number rounded to the safe side.

What was promised or charged is rounded up, what is left and what is only at least true is rounded down; nothing is
rounded to the nearest. No locale is asked.

>>> at_most(Decimal("2.30007")), at_least(Decimal("2.30007")), at_most(Decimal("0.000001"))
('2.301', '2.3', '1e-6')
>>> percent(Decimal("0.731059"))
'73.2 %'
>>> from dpledger.accounting.guarantees import ApproxDP
>>> guarantee(ApproxDP(3, "1e-6"))
'ε = 3, δ = 1e-6'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence as Listed
from decimal import Decimal
from typing import assert_never

from dpledger import decimals
from dpledger.accounting.chains import ChainLaw
from dpledger.accounting.composition import Chain, Composition, PoissonSampled, Repeated, Sequence, children
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    budget_guarantee,
)
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.accounting.pricing.allowances import law_of
from dpledger.relations import Relation
from dpledger.reports.model import visible
from dpledger.schema import Plain, plain

__all__ = [
    "account",
    "account_means",
    "allowance",
    "at_least",
    "at_most",
    "by_account",
    "count",
    "filter_rule",
    "guarantee",
    "name",
    "parameters",
    "percent",
    "percent_at_least",
    "ran",
    "relation",
    "relation_name",
    "tag",
    "variant",
]

ACCOUNTS = {
    "copies": "steps of the allowance",
    "pure": "sum of epsilons",
    "mixed": "mixed account",
    "mixed_pure": "mixed account, as pure",
    "mixed_rdp": "mixed account, as Rényi",
    "rho": "sum of zCDP prices (ρ)",
    "mu_squared": "sum of GDP prices (μ²)",
    "delta": "sum of deltas",
}
MEANS = {
    "copies": "how many steps of the allowance were taken",
    "pure": "the sum of the epsilons of all charges: simple, and the only account without a delta",
    "mixed": "pure charges and noisy ones in one currency (Rényi), read as an epsilon",
    "mixed_pure": "the pure part of the mixed account",
    "mixed_rdp": "the noisy part of the mixed account",
    "rho": "the price of Gaussian-like noise; it adds up, and an epsilon is read from the sum",
    "mu_squared": "the squares of Gaussian prices; they add up, and an epsilon is read from the sum",
    "delta": "the sum of the probabilities with which charges may exceed their bounds",
    "rdp": "the divergence at one order; each order gives an epsilon, and the report takes the least",
}
SHORT = 400  # characters of parameters in a row; the rest stands in the entry
SMALL = Decimal("0.001")  # below it a number is written with an exponent
DIGITS = 4


def at_most(number: Decimal, digits: int = DIGITS) -> str:
    """`number`, rounded up to `digits` digits."""
    return _written(decimals.round_up(number, digits=digits))


def at_least(number: Decimal, digits: int = DIGITS) -> str:
    """`number`, rounded down to `digits` digits."""
    return _written(decimals.round_down(number, digits=digits))


def percent(number: Decimal, digits: int = 3) -> str:
    """A probability that is at most this many per cent. Never above 100."""
    share = min(decimals.multiply(number, 100), Decimal(100))
    return f"{at_most(share, digits)} %"


def percent_at_least(number: Decimal, digits: int = 3) -> str:
    """A probability that is at least this many per cent."""
    return f"{at_least(decimals.multiply(number, 100), digits)} %"


def _written(number: Decimal) -> str:
    if number.is_infinite():
        return "no bound"
    if not number or decimals.magnitude(number) >= SMALL:
        return decimals.text(number)
    digits, exponent = f"{number:e}".split("e")
    return f"{digits}e{int(exponent)}"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 release`, `2 releases`, `12,000 releases`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def name(word: str) -> str:
    """A word of the wire as people read it."""
    return word.replace("_", " ")


def tag(word: str) -> str:
    """The tag of a mechanism, as it stands in its entry."""
    return visible(word)


def relation_name(which: Relation) -> str:
    """A relation in two words."""
    return {"add_remove": "add/remove", "replace_one": "replace one"}.get(which.value, name(which.value))


def relation(which: Relation) -> str:
    """What two neighbouring datasets differ in."""
    match which:
        case Relation.ADD_REMOVE:
            return "one unit is in the data or not (add/remove)"
        case Relation.REPLACE_ONE:
            return "one unit's data is exchanged for another's (replace one)"
        case Relation.ZERO_OUT:
            return "one unit's data is used or left blank (zero out)"
        case Relation.LABEL_FLIP:
            return "one unit's label is one or the other (label flip)"
        case _:
            assert_never(which)


def variant(promise: Guarantee) -> str:
    """The variant of differential privacy, in words."""
    return promise.variant


def guarantee(promise: Guarantee) -> str:
    """The native parameters of a guarantee. An epsilon never stands without its delta."""
    return promise.in_words(at_most)


def filter_rule(rule: Filter) -> str:
    """The composition rule in force, with its constants."""
    match rule:
        case PureFilter(epsilon=epsilon):
            return f"the sum of epsilons stays at most {at_most(epsilon)}; parameters may be chosen adaptively"
        case BasicFilter(epsilon=epsilon, delta_sum=delta):
            return (
                f"the sum of epsilons stays at most {at_most(epsilon)} and the sum of deltas at most {at_most(delta)}; "
                "parameters may be chosen adaptively"
            )
        case ZCDPFilter():
            return (
                f"the sum of zCDP prices (ρ) stays at most {at_most(rule.rho)} and the sum of deltas at most "
                f"{at_most(rule.delta_sum)}; parameters may be chosen adaptively"
            )
        case RDPFilter():
            return (
                f"the sum of Rényi divergences stays within {guarantee(budget_guarantee(rule))} at every order of the "
                "grid; parameters may be chosen adaptively"
            )
        case GDPFilter(mu=mu):
            return (
                f"the sum of squared GDP prices (μ²) stays at most the square of {at_most(mu)}; "
                "parameters may be chosen adaptively"
            )
        case EitherFilter(epsilon=epsilon, delta_sum=delta, boundaries=boundaries):
            return (
                "one epsilon is read from the sum of epsilons and from the mixed accounts (pure epsilons, and Rényi "
                f"divergences) of {', '.join(map(_boundary, boundaries))}; it stays at most {at_most(epsilon)} and the "
                f"sum of deltas at most {at_most(delta)}; parameters may be chosen adaptively"
            )
        case AllowanceFilter():
            return (
                f"at most {_law_steps(rule)}, in any runs, which together cost epsilon {at_most(rule.epsilon_law)} "
                f"with δ = {at_most(rule.delta_law)} once one is taken; for everything else, the sum of epsilons "
                f"stays at most {at_most(rule.epsilon_rest)} and the sum of deltas at most "
                f"{at_most(rule.delta_rest)}; parameters may be chosen adaptively"
            )
        case _:
            assert_never(rule)


def allowance(rule: AllowanceFilter, used: Decimal) -> str:
    """How much of an allowance is used up."""
    return f"{_law_steps(rule)}, used {int(used):,}"


def _law_steps(rule: AllowanceFilter) -> str:
    return f"{count(rule.steps, 'step')} of {_law(law_of(rule))}"


def _law(law: Composition) -> str:
    if isinstance(law, PoissonSampled):
        return f"{_law(law.of)} on Poisson samples of rate {decimals.text(law.rate)}"
    told = {key: value for key, value in plain(law).items() if key != "kind"}
    return f"{name(law.kind)} ({parameters(told)})"


def _boundary(one: Boundary) -> str:
    return f"order 1 + {at_most(one.order_minus_one)} (δ = {at_most(one.delta_boundary)})"


def account(which: str) -> str:
    """An account or coordinate of a filter, in words."""
    family, _, place = which.rpartition("_")
    if not place.isdecimal():
        return ACCOUNTS.get(which, name(which))
    if family == "rdp":
        return f"sum of Rényi divergences, order {int(place) + 1} of the grid"
    return f"{ACCOUNTS.get(family, name(family))}, boundary {int(place) + 1}"


def account_means(which: str) -> str:
    """What an account adds up, in a sentence; nothing for one that is not known."""
    family, _, place = which.rpartition("_")
    return MEANS.get(family if place.isdecimal() else which, "")


def by_account(amounts: Mapping[str, Decimal]) -> list[tuple[str, Decimal]]:
    """Amounts in the order of ACCOUNTS, others after them by name."""
    place = {known: number for number, known in enumerate(ACCOUNTS)}
    return sorted(amounts.items(), key=lambda pair: (place.get(pair[0], len(place)), pair[0]))


def parameters(words: Mapping[str, Plain], *, without: Listed[str] = ("assumes",)) -> str:
    """The public parameters of a mechanism, in one line; cut where it grows long (the entry holds all). `without`:
    those that stand elsewhere; what is assumed is a sentence, told once for the scope."""
    shown = ", ".join(f"{name(key)} {_plain(value)}" for key, value in words.items() if key not in without)
    return visible(shown.replace("\n", " "), SHORT)


def ran(parts: Composition) -> Iterator[str]:
    """How far a run came: parts that were started, the last level of a chain."""
    if isinstance(parts, Sequence) and parts.done is not None:
        yield f"{parts.done:,} of {count(len(parts.of), 'part')} started"
    if isinstance(parts, Repeated) and parts.done is not None:
        yield f"{parts.done:,} of {count(parts.times, 'run')} started"
    if isinstance(parts, Chain) and parts.reached is not None:
        at = "none" if isinstance(parts.reached, PureDP) else parameters(_level(parts.reached))
        yield f"last level of a chain: {at} (finest: {parameters(_level(parts.of))})"
    for part in children(parts):
        yield from ran(part)


def _level(law: ChainLaw) -> Mapping[str, Plain]:
    return {key: value for key, value in plain(law).items() if key != "kind"}


def _plain(value: Plain) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} {_plain(item)}" for key, item in value.items()) + "}"
    return str(value)
