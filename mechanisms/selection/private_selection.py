"""The best of a secret number of releases of one mechanism, for a few times the price of one.

>>> from dpledger.accounting.trials import NegativeBinomialTrials
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.numeric import Geometric
>>> trials = NegativeBinomialTrials(eta=1, gamma="0.1")
>>> largest = PrivateSelection(of=Geometric(sensitivity=1, epsilon="0.5"), repeats=trials)
>>> largest.claim()
PureDP(epsilon=Decimal('1.5'), kind='pure_dp')
>>> largest.release(10, entropy=seeded(1)).value
10
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from dpledger.accounting.composition import Composition, Selected
from dpledger.accounting.guarantees import RDP, Failure, PureDP
from dpledger.accounting.planning.claiming import promise
from dpledger.accounting.trials import Trials
from dpledger.decimals import ZERO
from dpledger.errors import CannotCertify, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.one_shot import OneShot
from dpledger.mechanisms.protocol import Mechanism, Release, inspect, plain_of, reads, value_of
from dpledger.mechanisms.selection.trial_counts import check_drawable, drawn_trials
from dpledger.number_fields import Tally
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ASSUMES", "PrivateSelection", "claimed", "selected"]

ASSUMES = "nobody sees the trials, or how long they took"
"""What the guarantee takes from the caller, as the record says it."""
WORST = -math.inf


@record
class PrivateSelection(OneShot):
    """Release `of` a secret number of times, and publish the output with the best score, alone.

    `of`: a mechanism that answers once, pure or with Renyi divergences, without a delta. `repeats`: the law of the
    number of trials (`planning.NegativeBinomialTrials`, `planning.PoissonTrials`); eta at most 1, mean at most 10^4.
    `best`: the largest or the smallest output; `entry`: for outputs that are vectors, the place of the number by which
    they are compared. Whatever decides must be in the output: have `of` release it. An output that is no number, also
    NaN, is the worst. A trial in which the caller's code failed is never chosen; if there is no other, or no trial at
    all (Poisson), the value is None. Of equally good ones the first is published. `pad`: run as many trials as
    `repeats.most` says, whatever the number is, so that how long it takes tells little.

    Data are those of `of`, each trial reads them all, and all trials are one charge, made before the first.
    Claim: (2 + eta) epsilon for a pure `of`, negative binomial; else by Renyi divergences.
    Assumes: `ASSUMES`; how long a selection takes tells the number of trials. Source: Liu-Talwar 2019;
    Papernot-Steinke 2022, Theorems 2 and 6; docs/proofs/selection.md.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> trials = dpl.planning.NegativeBinomialTrials(eta=0, gamma="0.1")
    >>> largest = dpl.PrivateSelection(of=dpl.Geometric(sensitivity=1, epsilon="0.5"), repeats=trials)
    >>> largest.claim().epsilon, largest.release(10, entropy=seeded(3)).value
    (Decimal('1'), 10)
    """

    of: Any
    repeats: Trials
    best: Literal["largest", "smallest"] = given(default="largest")
    entry: Tally | None = given(default=None)
    pad: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_selection"] = tag(default="private_selection")

    def __post_init__(self) -> None:
        if isinstance(self.of, type) or not isinstance(self.of, Mechanism):
            found = self.of if isinstance(self.of, type) else type(self.of).__name__
            raise ParameterError("of", found, "a mechanism that answers once, made with its parameters")
        check_drawable(self.repeats)
        if self.pad and self.repeats.most is None:
            raise ParameterError("pad", True, "a bound on the trials to run up to: repeats with `most`")
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `OneShot.under`, of what is selected from too."""
        placed = OneShot.under(self, relation, unit)
        return placed._with(of=self.of.under(relation, unit))

    def claim(self) -> PureDP | RDP:
        """What the selection promises: an epsilon if `of` has one, else Renyi divergences."""
        return claimed(self.parts(), self.relation or self.of.relation or Relation.ADD_REMOVE)

    def parts(self) -> Composition:
        """One node, of the parts of a trial."""
        return Selected(self.of.parts(), repeats=self.repeats)

    def failures(self) -> tuple[Failure, ...]:
        """None: the claim has no delta."""
        return ()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, those of `of` inside; the score by its name."""
        values = {
            "of": {"kind": self.of.kind, **self.of.parameters()},
            "repeats": plain(self.repeats),
            "best": self.best,
            "entry": self.entry,
            "pad": self.pad,
            "assumes": ASSUMES,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values count as that are no ordinary ones: of the parameters, never of the data."""
        return (*reads(self.of), "an output that is no number, also NaN, is the worst")

    def inspect(self, data: object) -> None:
        """As `of` does."""
        inspect(self.of, data)

    def release(self, data: Any, *, entropy: Entropy) -> Release[Any]:
        """The best output, or None."""
        self.inspect(data)
        run = functools.partial(self.of.release, data)
        value, outside = selected(
            lambda coins: run(entropy=coins), self.repeats, self._scored, entropy=entropy, pad=self.pad
        )
        return Release(value=value, parts=self.parts(), outside_guarantee=outside)

    def plain_of(self, value: Any) -> object:
        """Nothing, or the output as `of` keeps it."""
        return () if value is None else (plain_of(self.of, value),)

    def value_of(self, kept: Any) -> Any:
        """The inverse of `plain_of`."""
        return value_of(self.of, kept[0]) if kept else None

    def _scored(self, value: Any) -> float:
        number = float(value if self.entry is None else value[self.entry])
        return number if self.best == "largest" else -number


def selected(
    run: Callable[[Entropy], Release[Any]],
    repeats: Trials,
    score: Callable[[Any], float],
    *,
    entropy: Entropy,
    pad: bool = False,
) -> tuple[Any, bool]:
    """The output of the best of a fresh number of runs, or None; and whether one of them left its guarantee.

    `score`: a function of one output; where it raises or is NaN, that output is the worst. A run that comes to None is
    never chosen; nor is one that leaves its guarantee, as one that raises does: one record may be why."""
    count = drawn_trials(repeats, entropy)
    best: tuple[float, Any] | None = None
    outside = False
    for number in range(repeats.most or count if pad else count):
        ran = came_to(lambda: run(entropy))
        if ran is None or ran[0].outside_guarantee:
            outside = True
        elif number < count and ran[0].value is not None:
            scored = _total(score, ran[0].value)
            best = (scored, ran[0].value) if best is None or scored > best[0] else best
    return None if best is None else best[1], outside


def _total(score: Callable[[Any], float], value: Any) -> float:
    found = came_to(lambda: score(value))
    return WORST if found is None or math.isnan(found[0]) else found[0]


@functools.lru_cache(maxsize=64)
def claimed(parts: Composition, relation: Relation) -> PureDP | RDP:
    """What a selection of these parts promises. ParameterError where that is neither."""
    try:
        found = promise(parts, relation, ZERO)
    except CannotCertify:
        found = None
    if isinstance(found, PureDP | RDP):
        return found
    raise ParameterError("of", "one without them", "a mechanism with an epsilon or Renyi divergences, and no delta")
