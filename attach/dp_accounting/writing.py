"""A tree as an event of dp_accounting: `write`, where its kinds can say what the tree says.

Reading the event again gives the tree, or one that costs at least as much where a decimal lies between two floats.

>>> from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
>>> step = PoissonSampled(GaussianLaw("1.1"), rate="0.01")
>>> write(Repeated(step, times=1000), relation="add_remove").event.event
GaussianDpEvent(noise_multiplier=1.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

from dpledger.accounting.composable import tree_of
from dpledger.accounting.composition import (
    Chain,
    Composition,
    Converted,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    ExPostDP,
    Filtered,
    GaussianLaw,
    GaussianWithReplacementLaw,
    Group,
    HasParts,
    LaplaceLaw,
    Leaf,
    MixtureOfGaussiansLaw,
    OffsetZCDP,
    Parallel,
    PermuteAndFlipLaw,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Selected,
    Sequence,
    Shuffled,
    SparseVectorLaw,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.documents import Document, as_tree
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials
from dpledger.attach.dp_accounting.numbers import (
    gamma_at_mean,
    inverse,
    less,
    mean_of_trials,
    more,
    nearest,
    response_epsilon,
    response_parameter,
)
from dpledger.attach.dp_accounting.reading import relation_of
from dpledger.attach.extras import extra
from dpledger.decimals import is_whole, multiply, read as number, subtract, total
from dpledger.errors import ParameterError, RelationError
from dpledger.relations import Relation, one_way

with extra("dp-accounting"):
    import dp_accounting
    from dp_accounting import NeighboringRelation

__all__ = ["write"]

Event: TypeAlias = Any


def write(
    what: Composition | HasParts | Document, *, relation: Relation | NeighboringRelation | str | None = None
) -> Event:
    """The event that `what` is: a document, a tree that holds under `relation`, or the parts that a mechanism has under
    it, for its own unit.

    Claim: `read(write(tree, relation=r), relation=r)` costs at least what `tree` costs. Source: each number is the
    nearest float that is read as no smaller a loss.
    Raises ParameterError for what no kind of event says, or none of the version that is installed: parallel parts,
    groups, shuffles, allocations, filters, and laws that the library has no name for; RelationError for a document of
    another relation."""
    given = None if relation is None else relation_of(relation)
    if isinstance(what, Document):
        if given not in (None, what.relation):
            raise RelationError(f"the document is {what.relation.value}, not {given.value if given else None}")
        lines = what.entries
        is_one = len(lines) == 1 and lines[0].count == 1
        return _node(lines[0].mechanism if is_one else what.tree(), what.relation)
    if given is None:
        raise ParameterError("relation", "nothing", "the relation under which the tree holds")
    is_mechanism = not isinstance(what, type) and callable(getattr(what, "parts", None))
    return _node(tree_of(what, relation=given)[0] if is_mechanism else as_tree(what), given)


def _node(tree: Composition, relation: Relation) -> Event:
    if isinstance(tree, Leaf):
        return _leaf(tree, relation)
    match tree:
        case Sequence(of=parts, done=done):
            return dp_accounting.ComposedDpEvent([_node(part, relation) for part in parts[:done]])
        case Repeated(of=part, times=times, done=done):
            ran = times if done is None else done
            return dp_accounting.SelfComposedDpEvent(_node(part, relation), ran) if ran else _event("NoOpDpEvent")
        case PoissonSampled(of=part, rate=rate):
            return dp_accounting.PoissonSampledDpEvent(_up(rate), _node(part, relation))
        case SampledWithoutReplacement(of=part, population=population, batch=batch):
            return dp_accounting.SampledWithoutReplacementDpEvent(population, batch, _node(part, relation))
        case Selected(of=part, repeats=repeats):
            return _selected(_node(part, relation), repeats)
        case PostProcessed(of=part) | Chain(of=part):
            return _node(part, relation)
        case Converted(to=promised):
            return _leaf(promised, relation)
        case Shuffled() | RandomAllocation() | Group() | Parallel() | Filtered():
            raise _no_event(tree.kind)
        case _:
            assert_never(tree)


def _selected(run: Event, repeats: NegativeBinomialTrials | PoissonTrials) -> Event:
    if repeats.most is not None:
        raise _no_event("selected with a number of trials that is capped")
    match repeats:
        case PoissonTrials(mean=mean):
            return _event("RepeatAndSelectDpEvent", run, _up(mean), math.inf)
        case NegativeBinomialTrials(eta=eta, gamma=gamma):
            if eta < 0:
                raise _no_event("selected with a negative eta")
            shape = _up(eta)
            as_read = number(shape)
            enough = nearest(
                mean_of_trials(eta, gamma),
                lambda x: x > 1 and less(gamma_at_mean, as_read, x) <= gamma,
                towards=math.inf,
            )
            return _event("RepeatAndSelectDpEvent", run, enough, shape)
        case _:
            assert_never(repeats)


def _leaf(leaf: Leaf, relation: Relation) -> Event:
    moved = 1 if one_way(relation) else 2  # contributions of one record, by which a sum moves
    match leaf:
        case PureDP(epsilon=epsilon):
            return _event("EpsilonDeltaDpEvent", _up(epsilon), 0.0) if epsilon else _event("NoOpDpEvent")
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _event("EpsilonDeltaDpEvent", _up(epsilon), _up(delta))
        case ZCDP(rho=rho, delta=delta):
            if delta:
                raise _no_event("zcdp with a delta")
            return _event("ZCDpEvent", _up(rho), 0.0)
        case OffsetZCDP(rho=rho, xi=xi):
            return _event("ZCDpEvent", _up(rho), _up(xi))
        case PermuteAndFlipLaw(epsilon=epsilon):
            return _event("PermuteAndFlipDpEvent", _up(epsilon))
        case GaussianLaw(noise_multiplier=noise):
            return _event("GaussianDpEvent", _down(noise))
        case GDP(mu=mu):
            if not mu:
                return _event("NoOpDpEvent")
            least = nearest(moved * inverse(mu), lambda x: multiply(x, mu) <= moved, towards=0)
            return _event("GaussianDpEvent", least)
        case LaplaceLaw(epsilon=epsilon):
            if not epsilon:
                return _event("NoOpDpEvent")
            least = nearest(moved * inverse(epsilon), _costs(epsilon, lambda x: moved * inverse(x)), towards=0)
            return _event("LaplaceDpEvent", least)
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            rate = nearest(inverse(scale), lambda x: less(inverse, x) <= scale, towards=math.inf)
            return _event("DiscreteLaplaceDpEvent", rate, -(-int(sensitivity) // moved))
        case DiscreteGaussianLaw(sigma=sigma, sensitivity=sensitivity):
            if not is_whole(sensitivity):
                raise _no_event("discrete_gaussian of a vector")
            return _event("DiscreteGaussianDpEvent", _down(sigma), float(-(-int(sensitivity) // moved)), 1)
        case RandomizedResponseLaw(epsilon=epsilon, k=k):
            if one_way(relation):
                raise _no_event(f"randomized_response under {relation.value}")
            enough = _costs(epsilon, lambda x: response_epsilon(x, k))
            return _event("RandomizedResponseDpEvent", nearest(response_parameter(epsilon, k), enough, towards=0), k)
        case ExponentialLaw(epsilon=epsilon):
            return _event("ExponentialMechanismDpEvent", _up(epsilon))
        case MixtureOfGaussiansLaw(sigma=sigma, sensitivities=sensitivities, weights=weights):
            still = subtract(Decimal(1), total(weights))
            at, masses = list(map(_up, sensitivities)), list(map(_up, weights))
            if still:
                at, masses = [0.0, *at], [_down(still), *masses]
            return _event("MixtureOfGaussiansDpEvent", _down(sigma), at, masses)
        case TruncatedSampledGaussianLaw(noise_multiplier=noise, rate=rate, population=population, batch=batch):
            if number(float(rate)) != rate:  # another rate may cost more or less
                raise _no_event(f"truncated_sampled_gaussian at a rate of {rate}, which no float says")
            return _event("TruncatedSubsampledGaussianDpEvent", population, float(rate), batch, _down(noise))
        case GaussianWithReplacementLaw(noise_multiplier=noise, population=population, draws=draws):
            return _event("SampledWithReplacementDpEvent", population, draws, _event("GaussianDpEvent", _down(noise)))
        case RDP() | BoundedRange() | PrivacyCurve() | PmfPair() | SparseVectorLaw() | ExPostDP():
            raise _no_event(leaf.kind)
        case _:
            assert_never(leaf)


def _event(name: str, *values: object) -> Event:
    """An event of this kind; ParameterError where the version that is installed has none."""
    kind = getattr(dp_accounting.dp_event, name, None)
    if kind is None:
        raise ParameterError(
            "tree", f"what a {name} says", "what the installed version of dp_accounting has events for"
        )
    return kind(*values)


def _no_event(what: str) -> ParameterError:
    return ParameterError("tree", what, "what an event of dp_accounting says: none says this")


def _up(number: Decimal) -> float:
    """The nearest float that is read as no less."""
    return nearest(number, lambda x: x >= number, towards=math.inf)


def _down(number: Decimal) -> float:
    """The nearest float that is read as no more."""
    return nearest(number, lambda x: x <= number, towards=0)


def _costs(epsilon: Decimal, formula: Callable[[Decimal], Fraction | Decimal]) -> Callable[[Decimal], bool]:
    """Whether a float is read as at least this epsilon."""
    return lambda x: bool(x) and more(formula, x) >= epsilon
