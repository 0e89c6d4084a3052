"""Certified privacy profiles: epsilon for a delta, delta for an epsilon, the trade-off curve, the advantage.

Every answer is a `Bounds`: the truth for the tree that was composed lies between, truncation, discretisation and
rounding included. Both directions of a neighbour pair are composed, and the larger counts.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled
>>> step = PoissonSampled(GaussianLaw(noise_multiplier=1), rate="0.01")
>>> spent = compose((step, 1000)).epsilon("1e-5")
>>> round(spent.lower, 6), round(spent.upper, 6)
(1.828237, 1.828237)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Literal, TypeAlias, assert_never

import numpy as np

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.bounds import Bounds, BoundsAt
from dpledger.accounting.composable import Composable, tree_of
from dpledger.accounting.composition import Composition
from dpledger.accounting.engine.balls import checked_delta, checked_epsilon
from dpledger.accounting.engine.dispatch import delta_interval, epsilon_interval
from dpledger.accounting.engine.expansion_points import ProfileCurve, RisingEpsilons
from dpledger.accounting.engine.tradeoff import Deltas, power_bounds
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.lowering import PldList, read_both_ways
from dpledger.accounting.pricing.pld_list import MOST_EFFORT, Ranges
from dpledger.accounting.reasons import reasons
from dpledger.decimals import Number, exact, float_down, float_up, multiply, own_context, whole
from dpledger.errors import Contradiction, EngineError, ParameterError
from dpledger.notebooks import summary
from dpledger.relations import Relation
from dpledger.schema import listed, one_of

__all__ = ["Bounds", "Profile", "compose", "kept_profile"]

Verify: TypeAlias = Literal["arb"]
Order: TypeAlias = Literal["any", "given"]

_POSTERIOR_DIGITS = 60  # of Bayes' rule: what they lose is far below its slack
_MOST_RUNS = 10**100  # of one leaf, that nested counts may say
_LEAST_DELTA = Decimal("1e-12")  # of a curve
_NEARLY_NOTHING, _BELOW_A_RATE = Decimal("1e-6"), Decimal("1e-8")  # of a false-positive rate: no delta that counts
_FEW = 4  # kinds of loss that are named one by one
_MANY = 8  # answers that are worth contours for the whole profile


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """The privacy profile of a composition: the pointwise maximum over `cases` (directions, parallel parts).

    `symmetric`: both directions are among them; where not, `opposite` are those of the other direction. `verify`: by
    what each epsilon and delta is checked once more. `tree`: what was composed.

    >>> profile = dpl.compose((dpl.GaussianLaw(4), 10))
    >>> round(profile.epsilon("1e-6").upper, 4), round(profile.delta(1).upper, 4)
    (3.7472, 0.0606)
    >>> round(profile.tradeoff("0.05").lower, 4)  # whoever raises 5 % false alarms misses at least so many
    0.8035
    """

    cases: tuple[PldList, ...]
    symmetric: bool = True
    opposite: tuple[PldList, ...] = ()
    verify: Verify | None = None
    tree: Composition | None = field(default=None, repr=False, compare=False)
    order: Order = "any"
    _seen: dict[tuple[str, float | Decimal], Bounds] = field(default_factory=dict, repr=False, compare=False)
    _curves: dict[tuple[PldList, ...], tuple[tuple[ProfileCurve, ...], ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __repr__(self) -> str:
        counts = {loss: count for case in self.cases[:1] for loss, count in case.losses}  # others: other directions
        kinds = [f"{type(loss).__name__} x {count:,}" for loss, count in counts.items()]
        kinds += [f"{count:,} known by a curve" for case in self.cases[:1] for _, count in case.curves]
        more = [f"{len(kinds) - _FEW} more"] if len(kinds) > _FEW else []
        return f"<Profile of {', '.join([*kinds[:_FEW], *more]) or 'nothing'}>"

    def _repr_html_(self) -> str:
        return summary("Profile", [("of", repr(self).removeprefix("<Profile of ").removesuffix(">")), *self._read()])

    def _read(self) -> Iterator[tuple[str, str]]:
        """What it comes to at a few deltas; where no theorem says, that."""
        for delta in ("1e-5", "1e-6", "1e-9"):
            try:
                said = f"{self.epsilon(delta):.6g}"
            except EngineError as error:
                said = str(error)
            yield f"epsilon at delta {delta}", said

    @property
    def notes(self) -> tuple[str, ...]:
        """Why bounds may stay apart: a sentence for each kind in the tree whose loss is known from one side only."""
        return () if self.tree is None else reasons(self.tree, in_any_order=self.order == "any")

    def epsilon(self, delta: Number) -> Bounds:
        """The least epsilon >= 0 for which the composition is (epsilon, delta)-DP; infinite where there is none.

        Relative width, at deltas of 1e-2 to 1e-11: 1e-6 or less with many runs or noise, 2e-4 where no noise smooths
        the losses; 1e-3 for many runs of one bounded range, more for mixes of them (docs/proofs/bounded_ranges.md).
        `epsilons`, `delta` and `deltas` aim at the same: a width w of epsilon is one of c epsilon w of delta, where
        delta falls like e^{-c epsilon}. One more part never lowers epsilon. It may lower a bound, by no more than the
        bounds are apart: each mix of bounded ranges has lattices of its own. Measured, relative, on 80 to 200 mixes:
        the lower end by 3e-4 at a delta of 1e-2, 8e-4 at 1e-6, 9e-3 at 1e-12, the upper by 2e-4.
        Claim: lower <= epsilon <= upper. Source: docs/proofs/engine.md, sections 1 and 2.
        """
        exact = _exact(delta, "delta", Decimal(1))
        return self._largest(("epsilon", exact), lambda case, floor: self._epsilon_of(case, exact, floor))

    def _epsilon_of(self, case: PldList, delta: Decimal, floor: float) -> Interval:
        if self.verify is None:
            return epsilon_interval(case, delta, floor)
        checked: Interval = checked_epsilon(case, epsilon_interval(case, delta), delta)
        return checked

    def delta(self, epsilon: Number) -> Bounds:
        """The least delta for which the composition is (epsilon, delta)-DP, epsilon >= 0.

        Relative width: the aim is 1e-5, as in `deltas`, which is a width of epsilon of 1e-6 or less. Measured on 623
        random trees, at deltas of 1e-6: 2e-8 for half, 1e-4 for nine in ten, 3e-3 for 99 in a hundred, 1.1e-2 at worst
        (few runs of samples beside responses); of 320 more, at deltas of 1e-9 to 0.99, 6e-3 at worst. With bounded
        ranges that run several times 2e-3 for half, 0.13 at worst. Next to the largest loss `lower` may be 0.
        Claim: lower <= delta <= upper. Source: docs/proofs/engine.md, sections 1 and 2.
        """
        exact = _exact(epsilon, "epsilon", None)
        start, end = _around(exact)
        if self.verify is not None:
            return Bounds(self._checked_delta(end).lower, self._checked_delta(start).upper)
        if ("delta", exact) not in self._seen:
            lower, upper = self._deltas_at(RisingEpsilons(np.array([float(exact)]), lambda _: (start, end)), self.cases)
            self._seen["delta", exact] = _consistent("delta", float(lower[0]), float(upper[0]))
        return self._seen["delta", exact]

    def _checked_delta(self, epsilon: float) -> Bounds:
        def answer(case: PldList, _: float) -> Interval:
            checked: Interval = checked_delta(case, delta_interval(case, epsilon), epsilon)
            return checked

        return self._largest(("delta", epsilon), answer)

    def _largest(self, key: tuple[str, float | Decimal], answer: Callable[[PldList, float], Interval]) -> Bounds:
        """The largest answer of all cases; each is told the lower bound that those before it gave. Of several lists
        that cover one case the least upper end holds."""
        if key not in self._seen:
            lower, upper = 0.0, 0.0
            for case in self.cases:
                found = answer(case, lower)
                if case.attained or (case.approached and key == ("epsilon", 0)):
                    lower = max(lower, found.lower)
                if case.covers:
                    others = (answer(other, lower).upper for other in case.also)
                    upper = max(upper, min((found.upper, *others)))
            self._seen[key] = _consistent(key[0], lower, upper)
        return self._seen[key]

    def advantage(self) -> Bounds:
        """The total variation distance: the most by which any test beats guessing. It is delta at epsilon = 0.

        Claim: lower <= advantage <= upper. Source: Kairouz-Oh-Viswanath 2015, section 2.1.
        """
        return self.delta(0)

    def curve(self, count: int = 33) -> BoundsAt:
        """`count` points (epsilon, bounds of delta), epsilon evenly from 0 to where delta falls to 1e-12; `to_frame()`
        makes a pandas DataFrame of them."""
        count = whole(count, field="count", least=2, most=100_000)
        epsilons = np.array([self._reach() * i / (count - 1) for i in range(count)])
        lower, upper = self._deltas_at(RisingEpsilons(epsilons), self.cases)
        points = zip(epsilons.tolist(), lower.tolist(), upper.tolist(), strict=True)
        return BoundsAt((at, Bounds(low, high)) for at, low, high in points)

    def deltas(self, epsilons: Iterable[Number]) -> tuple[Bounds, ...]:
        """`delta` at each epsilon: many at once, for little more than a few. Relative width: that of `delta`.

        Claim: each lower <= delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
        """
        asked = listed(epsilons, field="epsilons")
        near: Array = np.array([_nearest(epsilon, "epsilons") for epsilon in asked], dtype=np.float64)
        order = np.argsort(near, kind="stable")
        points = RisingEpsilons(near[order], lambda i: _around(_exact(asked[order[i]], "epsilons", None)))
        lower, upper = self._deltas_at(points, self.cases)
        place = np.argsort(order, kind="stable")
        ends = zip(lower[place].tolist(), upper[place].tolist(), strict=True)
        return tuple(_consistent("delta", low, high) for low, high in ends)

    def _deltas_at(self, points: RisingEpsilons, cases: tuple[PldList, ...], least: float = 0.0) -> tuple[Array, Array]:
        """Lower and upper bounds of the largest delta of some cases; of one below `least` not much more than that."""
        lower, upper = np.zeros(points.near.shape), np.zeros(points.near.shape)
        for case, (curve, *others) in zip(cases, self._curves_of(cases), strict=True):
            floors = np.maximum(lower, least)
            low, high = curve.deltas(points, floors)
            for other in others:
                high = np.minimum(high, other.deltas(points, floors)[1])
            if case.attained:
                lower = np.maximum(lower, low)
            if case.covers:
                upper = np.maximum(upper, high)
        return lower, upper

    def _curves_of(self, cases: tuple[PldList, ...]) -> tuple[tuple[ProfileCurve, ...], ...]:
        """What was found out of the cases so far, and of the other lists that cover each."""
        if cases not in self._curves:
            self._curves[cases] = tuple(tuple(map(ProfileCurve, (case, *case.also))) for case in cases)
        return self._curves[cases]

    def epsilons(self, deltas: Iterable[Number]) -> tuple[Bounds, ...]:
        """`epsilon` at each delta: many at once, for little more than a few. Relative width as that of `epsilon`.

        Claim: each lower <= epsilon <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
        """
        exact = [_exact(delta, "deltas", Decimal(1)) for delta in listed(deltas, field="deltas")]
        if len(exact) < _MANY or self.verify is not None:
            return tuple(self.epsilon(delta) for delta in exact)
        lower, upper = np.zeros(len(exact)), np.zeros(len(exact))
        zero = np.array([not delta for delta in exact])
        for case, (curve, *others) in zip(self.cases, self._curves_of(self.cases), strict=True):
            low, high = curve.epsilons(exact, lower)
            for other in others:
                high = np.minimum(high, other.epsilons(exact, lower)[1])
            if case.attained or case.approached:
                lower = np.maximum(lower, low if case.attained else np.where(zero, low, 0.0))
            if case.covers:
                upper = np.maximum(upper, high)
        return tuple(map(Bounds, lower.tolist(), upper.tolist()))

    def _reach(self, least: Decimal = _LEAST_DELTA) -> float:
        """An epsilon beyond which little happens: where delta is `least`, or more where it is never that."""
        for delta in (least, "1e-6", "1e-2", "0.5"):
            upper = self.epsilon(delta).upper
            if 0 < upper < math.inf:
                return upper
        return 1.0

    def tradeoff(self, alpha: Number) -> Bounds:
        """The trade-off function of the composition at `alpha`: the largest convex, symmetric f for which it is f-DP;
        that of the ordered pair, where the composition is for one direction.

        No test of false-positive rate at most `alpha` has a false-negative rate below `lower`, in either direction;
        where the two directions differ, none need reach `upper`.
        Claim: lower <= f(alpha) <= upper. Source: Dong-Roth-Su 2022, Proposition 2.13 (f from the profile: the
        supremum over epsilon of 1 - delta - e^epsilon alpha, and its mirror image); docs/proofs/engine.md, section 9.
        """
        return self.tradeoffs((alpha,))[0]

    def tradeoffs(self, alphas: Iterable[Number]) -> tuple[Bounds, ...]:
        """`tradeoff` at each alpha: many at once, for little more than one. Claim, Source: those of `tradeoff`."""
        found = self._powers([_exact(alpha, "alpha", Decimal(1)) for alpha in listed(alphas, field="alphas")])
        ends = ((math.nextafter(1 - power.upper, 0.0), math.nextafter(1 - power.lower, 2.0)) for power in found)
        return tuple(Bounds(max(0.0, low), min(1.0, high)) for low, high in ends)

    def true_positives(self, false_positives: Number) -> Bounds:
        """The greatest true-positive rate of a membership test with a false-positive rate of at most so much: of a test
        that finds a unit, and of one that misses it (in the direction add alone: of the latter).

        Claim: lower <= rate <= upper. Source: it is 1 - `tradeoff`; Carlini et al. 2022 (TPR at a low FPR).
        """
        return self._powers([_exact(false_positives, "false_positives", Decimal(1))])[0]

    def _powers(self, rates: list[Decimal]) -> tuple[Bounds, ...]:
        """Bounds of the greatest true-positive rates at false-positive rates."""
        places = sorted({end for rate in rates for end in (float_down(rate), float_up(rate))})
        if not places:
            return ()
        least = min((rate for rate in rates if rate), default=Decimal(1))
        there = back = self._deltas_of(self.cases, least)
        if not self.symmetric:
            back = self._deltas_of(self.opposite, least)
        reach = self._reach(max(multiply(least, _NEARLY_NOTHING), _LEAST_DELTA))
        lower, upper = power_bounds(there, back, reach, np.array(places))
        at = {place: i for i, place in enumerate(places)}
        ends = ((float(lower[at[float_down(rate)]]), float(upper[at[float_up(rate)]])) for rate in rates)
        return tuple(Bounds(low, high) for low, high in ends)

    def _deltas_of(self, cases: tuple[PldList, ...], rate: Decimal) -> Deltas:
        """For false-positive rates from `rate` on, to which a delta that is far below adds nothing."""
        least = float_down(multiply(rate, _BELOW_A_RATE))
        return lambda epsilons: self._deltas_at(RisingEpsilons(epsilons), cases, least)

    def posterior(self, prior: Number, false_positives: Number) -> Bounds:
        """How sure an attacker may become: the greatest probability that a unit is in the data, given that a test with
        this false-positive rate, above 0, says so, when it was `prior` before.

        Claim: lower <= probability <= upper. Source: Bayes' rule at `true_positives`, in which it rises.
        """
        before, rate = _exact(prior, "prior", Decimal(1)), _exact(false_positives, "false_positives", Decimal(1))
        if not rate:
            raise ParameterError("false_positives", false_positives, "a rate above 0")
        found = self.true_positives(false_positives)
        with localcontext(own_context(_POSTERIOR_DIGITS)):
            shares = (before * Decimal.from_float(side) for side in (found.lower, found.upper))
            lower, upper = (share / (share + (1 - before) * rate) if share else Decimal(0) for share in shares)
            slack = Decimal("1e-20")
            return Bounds(float_down(max(Decimal(0), lower - slack)), float_up(min(Decimal(1), upper + slack)))


def compose(
    *what: Composable,
    relation: Relation | str | None = None,
    direction: Direction | None = None,
    verify: Verify | None = None,
    order: Order = "any",
    effort: int = 1,
) -> Profile:
    """The certified profile of the composition of `what`, under `relation` (default: that of its documents or
    mechanisms, or add_remove).

    `what`: trees, mechanisms and documents, each by itself or in a pair with a count (`compose(a, (b, 1000))`), or one
    list of these; also a dict of counts, of whose equal keys Python keeps one (`accounting.composable`). `direction`:
    only one of the two ordered neighbour pairs. `verify="arb"`: each `epsilon` and `delta` (no curve) is confirmed in
    ball arithmetic (python-flint, the extra `arb`), its ends moved outward where that needs it; CannotCertify where it
    cannot be; bounded ranges that are run several times are then read by their envelopes, which is wider. `order`: that
    of different bounded ranges, the only parts whose order matters: "any", also chosen by what came out, or the "given"
    one, fixed beforehand, in which the bounds are closer. `effort`, a whole number from 1 to 64: how many times the
    usual work may go into different bounded ranges in any order, eight or more of them, say; at 12, ten take a second
    (at 1: 0.07), and their bounds come as close as those of seven at 1. Raises RelationError where different relations
    are named, CannotCertify where no theorem covers the tree.

    >>> step = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier=1), rate="0.01")
    >>> spent = dpl.compose((step, 1000), dpl.LaplaceLaw("0.1")).epsilon("1e-5")
    >>> round(spent.lower, 4), round(spent.upper, 4)
    (1.8654, 1.8654)
    """
    if verify is not None:
        one_of(verify, ("arb",), field="verify")
    one_of(order, ("any", "given"), field="order")
    effort = whole(effort, field="effort", least=1, most=MOST_EFFORT)
    try:
        tree, given, direction = tree_of(*what, relation=relation, direction=direction)
        removed, added = _cases(tree, given, order if verify is None else "envelope", effort)
    except RecursionError:
        raise ParameterError("tree", "deeper nesting", "fewer nodes one below the other") from None
    match direction:
        case "remove":
            return Profile(removed, symmetric=False, opposite=added, verify=verify, tree=tree, order=order)
        case "add":
            return Profile(added, symmetric=False, opposite=removed, verify=verify, tree=tree, order=order)
        case None:
            cases = (*removed, *(case for case in added if case not in removed))
            return Profile(cases, verify=verify, tree=tree, order=order)
        case _:
            assert_never(direction)


@functools.lru_cache(maxsize=64)
def kept_profile(tree: Composition, relation: Relation) -> Profile:
    """`compose(tree, relation=relation)`, with all that was found out of it: a claim and a price ask the same."""
    return compose(tree, relation=relation)


def _cases(
    tree: Composition, relation: Relation, ranges: Ranges, effort: int
) -> tuple[tuple[PldList, ...], tuple[PldList, ...]]:
    """What the engine is asked for the directions remove and add. ParameterError where nested counts are no number of
    runs."""
    try:
        removed, added = read_both_ways(tree, relation, ranges, effort)
    except OverflowError:
        removed, added = (), ()
    counts = [count for case in removed for _, count in (*case.losses, *case.curves)]
    if not removed or max(counts, default=0) > _MOST_RUNS:
        raise ParameterError("times", "nested counts that multiply to more", "at most 10^100 runs of one mechanism")
    return removed, added


def _consistent(name: str, lower: float, upper: float) -> Bounds:
    if lower > upper:
        raise Contradiction(f"these parts contradict themselves: {name} is at least {lower} and at most {upper}")
    return Bounds(lower, upper)


def _nearest(value: Number, name: str) -> float:
    """The float nearest to a number that is not negative; one of infinite size is refused, as by `_exact`."""
    return value if type(value) is float and 0 <= value < math.inf else float(_exact(value, name, None))


def _around(number: Decimal) -> tuple[float, float]:
    return float_down(number), float_up(number)


def _exact(value: Number, name: str, most: Decimal | None) -> Decimal:
    """The exact number that `value` says, not negative and at most `most`; of any size, unlike a promise."""
    number = exact(value, field=name)
    if number.is_nan():
        raise ParameterError(name, value, "a number (this is not one)")
    if not number.is_finite() or number < 0 or (most is not None and number > most):
        raise ParameterError(name, value, "a number in [0, 1]" if most is not None else "a number that is not negative")
    return number
