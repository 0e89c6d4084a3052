"""A composition document with one free number: what `dpledger calibrate` fills in.

The number is written as "free" in place of its value:

    {"relation": "add_remove", "entries": [{"count": 1000, "mechanism":
      {"kind": "poisson_sampled", "rate": "0.01", "of": {"kind": "gaussian", "noise_multiplier": "free"}}}]}

Of noise (`noise_multiplier`, `sigma`, `scale`: what kinds of leaves say is noise) the least value is sought; of
everything else that makes a release cost more (`rate`, `epsilon`, `mu`, `rho`, `eta`; whole: `count`, `times`, `batch`)
the most. "free" may stand in several
places of one kind: then all of them get the same value.

>>> entries = [{"mechanism": {"kind": "laplace", "epsilon": "free"}}]
>>> template = read_template({"relation": "add_remove", "entries": entries})
>>> template.field, template.filled(Decimal("0.5")).entries[0].mechanism.epsilon
('epsilon', Decimal('0.5'))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from dpledger.accounting.documents import Document, parse_document
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.kinds import EVERY_KIND
from dpledger.accounting.planning.calibration import MOST_COUNT, calibrate, calibrate_count
from dpledger.decimals import text
from dpledger.errors import ParameterError
from dpledger.strict_json import JsonValue

__all__ = ["FREE", "Template", "read_template"]

FREE = "free"
NOISE = frozenset[str]().union(*(rules.price.noise_fields for rules in EVERY_KIND.values()))
LOSSES = frozenset[str]().union(*(rules.price.loss_fields for rules in EVERY_KIND.values()))
COUNTS = frozenset({"count", "times", "batch"})
MOST_RATE = Decimal(1)
LEAST_RATE = Decimal("1e-9")
Place: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A document in which the number `field` is free, at `places`."""

    source: JsonValue
    field: str
    places: tuple[Place, ...]

    def filled(self, value: Decimal | int) -> Document:
        """The document with `value` in every free place. ParameterError where it is no value of that field."""
        written: JsonValue = int(value) if self.field in COUNTS else text(Decimal(value))
        return parse_document(_replaced(self.source, written))

    def calibrated(self, target: Guarantee) -> Decimal | int:
        """The least noise, or the most of anything else, for which the document provably meets `target`.

        Claim: `filled(result)` meets the target. Source: calibration.calibrate. Raises InfeasiblePlan if nothing does.
        """
        if self.field in COUNTS:
            return calibrate_count(self.filled, target, within=(1, self._most()))
        if self.field in NOISE:
            return calibrate(self.filled, target)
        if self.field == "rate":
            return calibrate(self.filled, target, seek="most", within=(LEAST_RATE, MOST_RATE))
        return calibrate(self.filled, target, seek="most")

    def _most(self) -> int:
        """The greatest count that may stand in every place: a batch is no larger than its population."""
        return min(_populations(self.source), default=MOST_COUNT)


def _populations(value: JsonValue) -> Iterator[int]:
    """Those beside a batch that is free."""
    if isinstance(value, dict) and value.get("batch") == FREE:
        population = value.get("population")
        if type(population) is int and population > 0:
            yield population
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _populations(item)


def read_template(source: JsonValue) -> Template:
    """The template that a JSON value says. ParameterError unless numbers of exactly one field are free."""
    places = tuple(_free(source, ()))
    fields = {str(place[-1]) for place in places}
    if len(fields) != 1:
        found = ", ".join(sorted(fields)) or "none"
        raise ParameterError("document", found, f'one number written as "{FREE}", to be found')
    field = fields.pop()
    if field not in NOISE | COUNTS | LOSSES | {"rate"}:
        known = ", ".join(sorted(NOISE | COUNTS | LOSSES | {"rate"}))
        raise ParameterError(field, FREE, f"a number here: free may be one of {known}")
    return Template(source, field, places)


def _free(value: JsonValue, place: Place) -> Iterator[Place]:
    if value == FREE and place and isinstance(place[-1], str):
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _free(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _free(item, (*place, number))


def _replaced(value: JsonValue, written: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: written if item == FREE else _replaced(item, written) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, written) for item in value]
    return value
