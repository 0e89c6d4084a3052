"""What an event of dp_accounting costs, as a document: `read`, for every kind of its version 0.6 and main branch.

An event carries no relation: whoever reads it says under which one it ran, and a replaced record moves a sum by twice
the norm that the event's noise is relative to (docs/adr/0003-what-a-noise-multiplier-means.md). Kinds are told by
the name of their class, so that kinds of a newer version are read beside an older one. What is read composes: whatever
has no theorem under the relation is refused, by name and with the reason.

>>> import dp_accounting
>>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1))
>>> found = read(dp_accounting.SelfComposedDpEvent(step, 1000), relation="add_remove")
>>> tree = found.entries[0].mechanism
>>> found.relation.value, tree.times, tree.of.rate, tree.of.of.noise_multiplier
('add_remove', 1000, Decimal('0.01'), Decimal('1.1'))
>>> read(dp_accounting.NonPrivateDpEvent(), relation="add_remove")
Traceback (most recent call last):
...
dpledger.attach.dp_accounting.reading.NonPrivateEvent: NonPrivateDpEvent: it promises nothing
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    GaussianWithReplacementLaw,
    LaplaceLaw,
    MixtureOfGaussiansLaw,
    OffsetZCDP,
    PermuteAndFlipLaw,
    PmfPair,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Selected,
    Sequence,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.documents import Document
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.profile import compose
from dpledger.accounting.reach import Of, reaching, steps_of
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.attach.dp_accounting.numbers import gamma_at_mean, inverse, less, more, response_epsilon
from dpledger.attach.extras import extra
from dpledger.decimals import (
    ZERO,
    add,
    is_whole,
    magnitude,
    multiply,
    negative,
    read as number,
    round_down,
    round_up,
    subtract,
    total,
    whole,
)
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation, Unit, one_way

with extra("dp-accounting"):
    import dp_accounting
    from dp_accounting import NeighboringRelation

__all__ = ["RELATIONS", "NonPrivateEvent", "UnsupportedEvent", "read", "relation_of", "tree_of_event"]

RELATIONS: Final = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: Relation.ADD_REMOVE,
    NeighboringRelation.REPLACE_ONE: Relation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL: Relation.ZERO_OUT,
}
"""What the library calls neighbours, in words of ours; it has none for label_flip."""
NOTHING: Final = PureDP(0)
"""What an event without a loss costs."""

ONE = Decimal(1)
ROUNDED = Decimal("1e-9")  # what probabilities may miss 1 by

Event: TypeAlias = Any
Reader: TypeAlias = Callable[[Event, Relation], Composition]


class UnsupportedEvent(CannotCertify):
    """An event without a certified bound. `event`: the one that has none, itself or within the one that was read;
    `reason`: why."""

    def __init__(self, event: Event, reason: str) -> None:
        self.event, self.reason = event, reason
        super().__init__(f"{type(event).__name__}: {reason}")


class NonPrivateEvent(UnsupportedEvent):
    """An event that promises nothing: no epsilon is finite."""


def relation_of(said: Relation | NeighboringRelation | str) -> Relation:
    """A relation, also where it is said in the library's words."""
    return RELATIONS[said] if isinstance(said, NeighboringRelation) else Relation.read(said)


def read(
    event: Event,
    *,
    relation: Relation | NeighboringRelation | str,
    of: Of | None = None,
    unit: Unit | str = "record",
) -> Document:
    """`event` under `relation`: what ran, for `compose`, `Scope.quote` and `Scope.charge`, which refuse another
    relation than its own.

    Claim: composed, it bounds what one `unit` loses in a run that the event describes.
    `relation`: which datasets are neighbours; also as dp_accounting says it. `of`: whether a record of the event is a
    "row" of the unit, which has up to `max_contributions` of them, or the whole "unit"; may be left out where a unit
    has one row. Not needed where `Scope.charge` is told of what it holds.

    Source: the definition of each kind of event, and that of the law or node which it is read as.
    Raises UnsupportedEvent, with the event and the reason; its NonPrivateEvent where there is no noise;
    ParameterError for numbers that no such event has; RelationError as `Scope.charge` does."""
    under = relation_of(relation)
    tree = tree_of_event(event, under, of, Unit.read(unit))
    return Document(relation=under, entries=[{"mechanism": tree}])  # type: ignore[arg-type]


def tree_of_event(event: Event, relation: Relation, of: Of | None, unit: Unit) -> Composition:
    """The tree of `read`, without the relation that it holds under."""
    if not isinstance(event, dp_accounting.DpEvent):
        raise ParameterError("event", type(event).__name__, "an event of dp_accounting")
    steps = steps_of(relation, of, unit, relation)
    tree = _tree(event, relation)
    return _composing(event, reaching(tree, steps, each_step=False), relation) if steps else tree


def _tree(event: Event, relation: Relation) -> Composition:
    kind = KINDS.get(type(event).__name__)
    if kind is None:
        raise UnsupportedEvent(event, "a kind of event that has no reader")
    fields = {field.name for field in getattr(type(event), "__attrs_attrs__", ())}
    if fields != set(kind.fields):
        names = ", ".join(sorted(fields ^ set(kind.fields)))
        raise UnsupportedEvent(event, f"not the event that is known by this name: it differs in {names}")
    return _composing(event, kind.reader(event, relation), relation)


def _composing(event: Event, tree: Composition, relation: Relation) -> Composition:
    """`tree`, if it has a certified profile under `relation`."""
    try:
        compose(tree, relation=relation)
    except CannotCertify as error:
        raise UnsupportedEvent(event, str(error)) from error
    return tree


# ---- numbers --------------------------------------------------------------------------------------------------------


def _number(event: Event, field: str) -> Decimal:
    return number(getattr(event, field), field=f"{type(event).__name__}.{field}")


def _whole(event: Event, field: str, least: int = 0) -> int:
    """A whole number; a float that is whole counts as one."""
    given = getattr(event, field)
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    return whole(given, field=f"{type(event).__name__}.{field}", least=least)


def _noise(event: Event, field: str) -> Decimal:
    found = _number(event, field)
    if not found:
        raise NonPrivateEvent(event, "it adds no noise")
    return found


def _contributions(relation: Relation) -> int:
    """By how many contributions of one record a sum moves."""
    return 1 if one_way(relation) else 2


# ---- one reader for each kind ---------------------------------------------------------------------------------------


def _nothing(_event: Event, _relation: Relation) -> Composition:
    return NOTHING


def _non_private(event: Event, _relation: Relation) -> Composition:
    raise NonPrivateEvent(event, "it promises nothing")


def _unsupported(event: Event, _relation: Relation) -> Composition:
    raise UnsupportedEvent(event, "it says itself that nobody has described what ran")


def _composed(event: Event, relation: Relation) -> Composition:
    parts, bare = [], None
    for part in event.events:
        try:
            parts.append(_tree(part, relation))
        except NonPrivateEvent as error:  # another part may be one that is refused
            bare = error
    if bare is not None:
        raise bare
    return Sequence(tuple(parts)) if parts else NOTHING


def _self_composed(event: Event, relation: Relation) -> Composition:
    return Repeated(_tree(event.event, relation), times=_whole(event, "count", least=1))


def _gaussian(event: Event, _relation: Relation) -> Composition:
    return GaussianLaw(_noise(event, "noise_multiplier"))


def _laplace(event: Event, relation: Relation) -> Composition:
    noise = _noise(event, "noise_multiplier")
    return LaplaceLaw(more(lambda: _contributions(relation) * inverse(noise)))


def _discrete_laplace(event: Event, relation: Relation) -> Composition:
    """The event's noise parameter is the reciprocal of a scale."""
    rate, sensitivity = _noise(event, "noise_parameter"), _whole(event, "sensitivity")
    if not sensitivity:
        return NOTHING
    return DiscreteLaplaceLaw(less(inverse, rate), sensitivity * _contributions(relation))


def _discrete_gaussian(event: Event, relation: Relation) -> Composition:
    """Of one whole number its own pair; of a vector, or where nobody says, zCDP. Source: Canonne-Kamath-Steinke 2020,
    Theorems 4 and 14."""
    sigma = _noise(event, "sigma")
    moved = multiply(_number(event, "sensitivity"), _contributions(relation))
    if not moved:
        return NOTHING
    if event.dimension == 1 and is_whole(moved):
        return DiscreteGaussianLaw(sigma, moved)
    return ZCDP(more(lambda: (Fraction(moved) / Fraction(sigma)) ** 2 / 2))


def _randomized_response(event: Event, relation: Relation) -> Composition:
    """A record answers for itself. Under zero_out the answer of a null record is uniform, as the library means it."""
    parameter, buckets = _number(event, "noise_parameter"), _whole(event, "num_buckets", least=1)
    if parameter > 1:
        raise ParameterError("RandomizedResponseDpEvent.noise_parameter", parameter, "a probability")
    if relation is Relation.ADD_REMOVE:
        reason = "one answer a record, so that neighbours under add_remove have different numbers of them: read it "
        raise UnsupportedEvent(
            event, reason + "under replace_one, or under zero_out, where a null record answers anything"
        )
    if buckets == 1:
        return NOTHING
    if not parameter:
        raise NonPrivateEvent(event, "it adds no noise")
    if relation is not Relation.ZERO_OUT:
        return RandomizedResponseLaw(more(response_epsilon, parameter, buckets), k=buckets)
    share = Fraction(1, buckets)
    true = round_up(1 - Fraction(parameter) * (1 - share), digits=30)
    guessed = round_down(share, digits=30)
    return PmfPair(left=(true, subtract(ONE, true)), right=(guessed, subtract(ONE, guessed)))


def _epsilon_delta(event: Event, _relation: Relation) -> Composition:
    if event.epsilon == math.inf or event.delta == 1:
        raise NonPrivateEvent(event, "it promises nothing")
    epsilon, delta = _number(event, "epsilon"), _number(event, "delta")
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _zcdp(event: Event, _relation: Relation) -> Composition:
    """A divergence of at most xi at every order is epsilon-DP with epsilon xi. Source: van Erven-Harremoes 2014,
    Theorem 6."""
    rho, xi = _number(event, "rho"), _number(event, "xi")
    if rho and xi:
        return OffsetZCDP(rho, xi)
    return PureDP(xi) if xi else ZCDP(rho)


def _exponential(event: Event, _relation: Relation) -> Composition:
    return ExponentialLaw(_number(event, "epsilon"))


def _permute_and_flip(event: Event, _relation: Relation) -> Composition:
    return PermuteAndFlipLaw(_number(event, "epsilon"))


def _mixture(event: Event, relation: Relation) -> Composition:
    """Sensitivities that rise, and no mass at 0. What rounding left the probabilities short of 1 counts at the largest
    sensitivity; what it gave them too much is taken from the smallest ones: larger ones cost more."""
    name = type(event).__name__
    if not one_way(relation):
        raise UnsupportedEvent(event, "of a record that is there or not: read it under add_remove or zero_out")
    if len(event.sensitivities) != len(event.sampling_probs) or not len(event.sensitivities):
        raise ParameterError(f"{name}.sampling_probs", "another number", "as many as sensitivities, at least one")
    masses: dict[Decimal, Decimal] = {}
    for sensitivity, probability in zip(event.sensitivities, event.sampling_probs, strict=True):
        at = number(sensitivity, field=f"{name}.sensitivities")
        masses[at] = add(masses.get(at, ZERO), number(probability, field=f"{name}.sampling_probs"))
    short = subtract(ONE, total(masses.values()))
    if magnitude(short) > ROUNDED:
        raise ParameterError(f"{name}.sampling_probs", total(masses.values()), "probabilities that add up to 1")
    rising = sorted(at for at, mass in masses.items() if mass)
    if short > 0:
        masses[rising[-1]] = add(masses[rising[-1]], short)
    for at in rising:
        taken = min(masses[at], max(ZERO, negative(short)))
        masses[at], short = subtract(masses[at], taken), add(short, taken)
    moved = [at for at in rising if at and masses[at]]
    if not moved:
        return NOTHING
    return MixtureOfGaussiansLaw(_noise(event, "standard_deviation"), tuple(moved), tuple(masses[at] for at in moved))


def _with_replacement(event: Event, relation: Relation) -> Composition:
    population, draws = _whole(event, "source_dataset_size", least=1), _whole(event, "sample_size")
    part = _of_batch(event, relation, draws > 0, lambda part: part)
    if not draws:
        return NOTHING
    if not isinstance(part, GaussianLaw) or population < 2:
        raise UnsupportedEvent(event, "draws with replacement are bounded for one Gaussian, from two records or more")
    if relation is Relation.ADD_REMOVE:
        raise UnsupportedEvent(
            event, "a fixed number of draws from a public number of records: read it under replace_one"
        )
    return GaussianWithReplacementLaw(part.noise_multiplier, population=population, draws=draws)


def _poisson(event: Event, relation: Relation) -> Composition:
    rate = _number(event, "sampling_probability")
    return _of_batch(event, relation, bool(rate), lambda part: PoissonSampled(part, rate=rate))


def _without_replacement(event: Event, relation: Relation) -> Composition:
    population, batch = _whole(event, "source_dataset_size", least=1), _whole(event, "sample_size")
    return _of_batch(
        event, relation, batch > 0, lambda part: SampledWithoutReplacement(part, population=population, batch=batch)
    )


def _truncated(event: Event, _relation: Relation) -> Composition:
    """Of neighbours of different sizes the larger one is meant, as the library does."""
    rate = _number(event, "sampling_probability")
    population, batch = _whole(event, "dataset_size"), _whole(event, "truncated_batch_size")
    if not (rate and population and batch):
        return NOTHING
    return TruncatedSampledGaussianLaw(_noise(event, "noise_multiplier"), rate, population, batch)


def _of_batch(
    event: Event, relation: Relation, is_drawn: bool, sampled: Callable[[Composition], Composition]
) -> Composition:
    """What runs on a batch; nothing, whatever runs, where nobody is ever in it."""
    try:
        part = _tree(event.event, relation)
    except NonPrivateEvent:
        if is_drawn:
            raise
        return NOTHING
    return sampled(part) if is_drawn else NOTHING


def _tree_aggregation(event: Event, relation: Relation) -> Composition:
    """A record is in one leaf of one tree, and so in at most one node of each level; a tree of n steps has nodes, which
    are released when all their steps are done, on floor(log2 n) + 1 levels.

    Source: Kairouz et al. 2021, appendix D."""
    if relation is Relation.ADD_REMOVE:
        raise UnsupportedEvent(event, "a record more or less would move others to other steps: read it under zero_out")
    noise, given = _noise(event, "noise_multiplier"), event.step_counts
    counts = list(given) if isinstance(given, (list, tuple)) else [given]
    steps = [whole(one, field="SingleEpochTreeAggregationDpEvent.step_counts") for one in counts]
    if not any(steps):
        raise ParameterError("SingleEpochTreeAggregationDpEvent.step_counts", "no steps", "at least one step")
    return Repeated(GaussianLaw(noise), times=max(steps).bit_length())


def _repeat_and_select(event: Event, relation: Relation) -> Composition:
    run, mean = _tree(event.event, relation), _number(event, "mean")
    if mean < 1:
        raise ParameterError("RepeatAndSelectDpEvent.mean", mean, "at least 1")
    repeats: Trials
    if event.shape == math.inf:
        repeats = PoissonTrials(mean)
    elif mean == 1:  # one run, always
        return run
    else:
        shape = _number(event, "shape")
        repeats = NegativeBinomialTrials(eta=shape, gamma=less(gamma_at_mean, shape, mean))
    return Selected(run, repeats=repeats)


class EventKind(NamedTuple):
    """A kind of event: what it holds, and its reader."""

    fields: tuple[str, ...]
    reader: Reader


KINDS: Final[Mapping[str, EventKind]] = MappingProxyType(
    {
        "NoOpDpEvent": EventKind((), _nothing),
        "NonPrivateDpEvent": EventKind((), _non_private),
        "UnsupportedDpEvent": EventKind((), _unsupported),
        "ComposedDpEvent": EventKind(("events",), _composed),
        "SelfComposedDpEvent": EventKind(("event", "count"), _self_composed),
        "GaussianDpEvent": EventKind(("noise_multiplier",), _gaussian),
        "LaplaceDpEvent": EventKind(("noise_multiplier",), _laplace),
        "DiscreteLaplaceDpEvent": EventKind(("noise_parameter", "sensitivity"), _discrete_laplace),
        "DiscreteGaussianDpEvent": EventKind(("sigma", "sensitivity", "dimension"), _discrete_gaussian),
        "RandomizedResponseDpEvent": EventKind(("noise_parameter", "num_buckets"), _randomized_response),
        "EpsilonDeltaDpEvent": EventKind(("epsilon", "delta"), _epsilon_delta),
        "ZCDpEvent": EventKind(("rho", "xi"), _zcdp),
        "ExponentialMechanismDpEvent": EventKind(("epsilon",), _exponential),
        "PermuteAndFlipDpEvent": EventKind(("epsilon",), _permute_and_flip),
        "PoissonSampledDpEvent": EventKind(("sampling_probability", "event"), _poisson),
        "SampledWithoutReplacementDpEvent": EventKind(
            ("source_dataset_size", "sample_size", "event"), _without_replacement
        ),
        "SampledWithReplacementDpEvent": EventKind(("source_dataset_size", "sample_size", "event"), _with_replacement),
        "SingleEpochTreeAggregationDpEvent": EventKind(("noise_multiplier", "step_counts"), _tree_aggregation),
        "RepeatAndSelectDpEvent": EventKind(("event", "mean", "shape"), _repeat_and_select),
        "MixtureOfGaussiansDpEvent": EventKind(("standard_deviation", "sensitivities", "sampling_probs"), _mixture),
        "TruncatedSubsampledGaussianDpEvent": EventKind(
            ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier"),
            _truncated,
        ),
    }
)
"""Every kind of dp_accounting 0.6 and of its main branch of August 2026, by the name of its class."""
