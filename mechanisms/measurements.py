"""What a measurement of OpenDP says of itself: its map, in the words of its measure, from a distance in its metric.

A measurement is taken by what it has (`map`, `input_metric`, `output_measure`); nothing of OpenDP is imported.

    its measure                              a guarantee here
    MaxDivergence                            PureDP
    Approximate<MaxDivergence>               ApproxDP
    ZeroConcentratedDivergence               ZCDP
    Approximate<ZeroConcentratedDivergence>  ZCDP, with its delta
    SmoothedMaxDivergence                    PrivacyCurve, read down to a thousandth of the delta of the scope
    RenyiDivergence                          RDP, read at some orders

Its metric says what a distance counts. Two datasets that differ in one unit, of m = `max_contributions` rows, are so
far apart:

    its metric                                   add_remove    replace_one    label_flip
    SymmetricDistance, InsertDeleteDistance      m             2 m            2 m
    ChangeOneDistance, HammingDistance           -             m = 1: 1       m
    SymmetricIdDistance (identifiers are units)  1             2              2
    ChangeOneIdDistance                          -             1              1

A domain of a fixed size has no neighbours under add_remove: a map is then next to nothing at distance 1, and is refused
there. Any other metric is of numbers that were computed from the rows: whoever guards it says what it holds of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata
from typing import Any, Protocol, runtime_checkable

from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP, Guarantee, PrivacyCurve, PureDP
from dpledger.decimals import float_down, float_up, is_whole, multiply, read, round_up, text
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation, Unit

__all__ = ["MapPromise", "Measurement", "is_interactive", "measured", "rows_apart"]

ORDERS = ("1.25", "1.5", "2", "3", "4", "6", "8", "12", "16", "24", "32", "48", "64", "128", "256", "512")
"""At which a Renyi curve is read: those that budgets use lie among them."""
LEAST_DELTA = Decimal("1e-9")  # to which a profile is read where the scope has no delta of its own
PART_OF_DELTA = Decimal(
    "0.001"
)  # of the scope's delta, down to which a profile is read: so many fit beside one another
PROFILE = tuple(Decimal(f"1e-{power}") for power in range(1, 19))  # the deltas at which a profile is read

_FIXED_SIZE = re.compile(r"\bsize\s*=\s*\d")


@runtime_checkable
class Measurement(Protocol):
    """What OpenDP calls a measurement."""

    input_domain: Any
    input_metric: Any
    output_measure: Any

    def map(self, d_in: Any) -> Any:
        """How far apart two outputs are, in the measure, for inputs that are `d_in` apart."""
        ...

    def __call__(self, data: Any, /) -> Any:
        """One release."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPromise:
    """What a measurement promises at a distance. `parameters`: its public numbers, for the record."""

    promises: Guarantee
    parameters: Mapping[str, str]
    library: str


def measured(one: Measurement, d_in: object, delta: Decimal) -> MapPromise:
    """What `one` promises for inputs that are `d_in` apart; a profile is read with `delta`, that of the scope, 0 of a
    scope that has none.

    Claim: if its map is right, its outputs keep `promises` for all inputs of its domain that are `d_in` apart.
    Source: the definitions of its measures. Assumes: its map, which is the word of its library.
    Raises ParameterError where the map does not take `d_in` or promises nothing there, and for measures without a
    guarantee here."""
    measure = str(one.output_measure)
    at = _distance(d_in)
    try:
        far = one.map(at)
        promises = _in_words_of(str(one.output_measure.type), far, delta)
    except ParameterError:
        raise
    except Exception as error:  # the map is public: what it says depends on no data
        raise ParameterError(
            "d_in", d_in, f"a distance that its map takes, in {one.input_metric}: {_line(error)}"
        ) from None
    said = {"d_in": str(at), "metric": str(one.input_metric), "measure": measure, "d_out": _shown(far)}
    return MapPromise(promises=promises, parameters=said, library=_library(one))


def rows_apart(one: Measurement, unit: Unit, relation: Relation) -> int | None:
    """How far apart neighbours are whom one `unit` tells apart under `relation`, in the metric of `one`; None of a
    metric that is not of rows. RelationError where no distance is enough, or the domain has no such neighbours.

    Claim: two datasets of the domain that differ in one unit of at most `max_contributions` rows are at most so far
    apart. Source: the table above: a row that is exchanged is one that leaves and one that comes."""
    rows = unit.max_contributions
    metric = str(one.input_metric.type)
    match metric:
        case "SymmetricDistance" | "InsertDeleteDistance":
            changed = rows
        case "SymmetricIdDistance":
            changed = 1
        case "ChangeOneDistance" | "HammingDistance" if relation is Relation.LABEL_FLIP or (
            relation is Relation.REPLACE_ONE and rows == 1
        ):
            return rows
        case "ChangeOneIdDistance" if relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP):
            return 1
        case "ChangeOneDistance" | "HammingDistance" | "ChangeOneIdDistance":
            raise RelationError(
                f"{metric} counts rows that are exchanged, which does not cover one {unit.name} under "
                f"{relation.value}, the relation of the scope: guard a measurement from SymmetricDistance"
            )
        case _:
            return None
    if relation is Relation.ADD_REMOVE and not _FIXED_SIZE.search(str(one.input_domain)):
        return changed
    if relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP):
        return 2 * changed
    if relation is Relation.ADD_REMOVE:
        raise RelationError(
            f"its domain fixes the number of rows ({_line(str(one.input_domain))}), and under add_remove, the relation "
            "of the scope, neighbours differ in it: guard it in a scope of replace_one, or one that fixes none"
        )
    raise RelationError(
        f"{metric} does not cover rows that are replaced by null rows, as under {relation.value}, the relation of the "
        "scope: guard it in a scope of add_remove or replace_one"
    )


def is_interactive(released: object) -> bool:
    """Whether what a measurement released answers queries later on, as a `Queryable` of OpenDP does."""
    kind = type(released)
    return kind.__name__ == "Queryable" and kind.__module__.partition(".")[0] == "opendp"


def _distance(d_in: object) -> int | float:
    """A distance as the map of a library in another language takes it: a whole number, or a float not below it."""
    if isinstance(d_in, bool) or d_in is None:
        raise ParameterError("d_in", d_in, "how far apart neighbours are, like 1")
    number = read(d_in, field="d_in")  # type: ignore[arg-type]
    if type(d_in) is not float and is_whole(number):
        return int(number)
    return float_up(number)


def _in_words_of(measure: str, far: Any, delta: Decimal) -> Guarantee:
    match measure:
        case "MaxDivergence":
            return PureDP(_finite(far))
        case "Approximate<MaxDivergence>":
            return ApproxDP(_finite(far[0]), _finite(far[1]))
        case "ZeroConcentratedDivergence":
            return ZCDP(_finite(far))
        case "Approximate<ZeroConcentratedDivergence>":
            return ZCDP(_finite(far[0]), _finite(far[1]))
        case "SmoothedMaxDivergence":
            return _curve(far, delta)
        case "RenyiDivergence":
            return RDP(ORDERS, tuple(_finite(far(float(order))) for order in ORDERS))
        case _:
            expected = (
                f"one in a measure that has a guarantee here, not {measure}: chain a conversion (dp.c.make_fix_delta, "
                "dp.c.make_zCDP_to_approxDP), or guard a function that calls it, with claim="
            )
            raise ParameterError("code", "a measurement", expected)


def _finite(far: float) -> Decimal:
    if not read(far, field="d_in", infinite=True).is_finite():
        raise ParameterError("d_in", "a distance at which its map says infinity", "one at which it promises something")
    return round_up(far)


def _curve(profile: Any, delta: Decimal) -> Guarantee:
    """The profile at powers of ten; of points with one epsilon that with the least delta."""
    least = multiply(delta, PART_OF_DELTA) if delta else LEAST_DELTA
    found = {_finite(profile.epsilon(float_down(at))): at for at in PROFILE if at >= least}
    rising = sorted(found.items())
    return PrivacyCurve(tuple(epsilon for epsilon, _ in rising), tuple(at for _, at in rising))


def _shown(far: Any) -> str:
    """The output distance, where it is numbers."""
    if isinstance(far, tuple):
        return ", ".join(map(_shown, far))
    return text(read(far, field="d_out")) if isinstance(far, int | float) else "a curve"


def _library(one: object) -> str:
    name = type(one).__module__.partition(".")[0]
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name


def _line(said: object) -> str:
    return " ".join(str(said).split())[:160]
