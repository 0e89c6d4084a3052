"""Events of dp_accounting: both ways, at no more than its own accountants say, under the protocol of its own tests."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, dp_event, privacy_accountant_test
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import HealthCheck, given, settings, strategies as st

import dpledger as dpl
import newer_events
from dpledger.accounting.composition import (
    Composition,
    DiscreteLaplaceLaw,
    GaussianLaw,
    GaussianWithReplacementLaw,
    Group,
    LaplaceLaw,
    MixtureOfGaussiansLaw,
    OffsetZCDP,
    Parallel,
    PermuteAndFlipLaw,
    PmfPair,
    PoissonSampled,
    Repeated,
    Selected,
    TruncatedSampledGaussianLaw,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import cost
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials
from dpledger.attach.dp_accounting import NonPrivateEvent, PrivacyAccountant, UnsupportedEvent, read, write
from dpledger.attach.dp_accounting.reading import KINDS, RELATIONS
from dpledger.errors import ParameterError, RelationError
from dpledger.ledger.ledger import Ledger
from dpledger.relations import Relation, Unit
from newer_events import event

pytestmark = pytest.mark.sliced

Gaussian, Laplace, Sampled = (
    dp_accounting.GaussianDpEvent,
    dp_accounting.LaplaceDpEvent,
    dp_accounting.PoissonSampledDpEvent,
)
ADD, REPLACE, NULL = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT


def read_tree(what: Any, **said: Any) -> Composition:
    """The tree of an event, which is all of its document."""
    (line,) = read(what, **said).entries
    assert line.count == 1
    return line.mechanism


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library as its main branch is."""
    for name, kind in newer_events.NEWER.items():
        if not hasattr(dp_event, name):
            monkeypatch.setattr(dp_event, name, kind, raising=False)


# ---- every kind -----------------------------------------------------------------------------------------------------


def test_every_kind_of_the_library_has_a_reader() -> None:
    base = {"DpEvent", "DpEventNamedTuple"}
    theirs = {name for name in vars(dp_event) if name.endswith("DpEvent")} - base
    assert theirs | newer_events.NEWER.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_the_fields_are_those_of_the_library(name: str) -> None:
    kind = getattr(dp_event, name, newer_events.NEWER.get(name))
    assert tuple(field.name for field in getattr(kind, "__attrs_attrs__", ())) == KINDS[name].fields


def test_another_event_of_a_known_name_is_refused() -> None:
    import attr

    @attr.s(frozen=True, auto_attribs=True)
    class GaussianDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
        noise_multiplier: float
        clip: float

    with pytest.raises(UnsupportedEvent, match=r"^GaussianDpEvent: .* differs in clip$"):
        read_tree(GaussianDpEvent(1.0, 2.0), relation=ADD)
    with pytest.raises(ParameterError, match="an event of dp_accounting"):
        read_tree("GaussianDpEvent", relation=ADD)


GAUSSIAN = Gaussian(3.0)
mixed = dp_event.MixtureOfGaussiansDpEvent
truncated = dp_event.TruncatedSubsampledGaussianDpEvent
LESS, MORE = "0.499999999999", "0.500000000001"
READ: list[tuple[Any, Relation, Composition]] = [
    (dp_accounting.NoOpDpEvent(), ADD, PureDP(0)),
    (dp_accounting.ComposedDpEvent([]), ADD, PureDP(0)),
    (GAUSSIAN, REPLACE, GaussianLaw(3)),  # which costs twice the shift there
    (Laplace(4.0), ADD, LaplaceLaw("0.25")),
    (Laplace(4.0), REPLACE, LaplaceLaw("0.5")),
    (dp_event.DiscreteLaplaceDpEvent(0.5, 3), ADD, DiscreteLaplaceLaw(2, 3)),
    (dp_event.DiscreteLaplaceDpEvent(0.5, 3), REPLACE, DiscreteLaplaceLaw(2, 6)),
    (event("DiscreteGaussianDpEvent", 2.0, 1.0), REPLACE, ZCDP("0.5")),
    (event("EpsilonDeltaDpEvent", 1.0, 1e-6), ADD, ApproxDP(1, "1e-6")),
    (event("EpsilonDeltaDpEvent", 1.0, 0.0), ADD, PureDP(1)),
    (dp_event.ZCDpEvent(0.3), REPLACE, ZCDP("0.3")),
    (dp_event.ZCDpEvent(0.3, 0.1), ADD, OffsetZCDP("0.3", "0.1")),
    (dp_event.ZCDpEvent(0.0, 0.1), ADD, PureDP("0.1")),
    (event("PermuteAndFlipDpEvent", 0.5), ADD, PermuteAndFlipLaw("0.5")),
    (mixed(1.5, [2, 0, 1, 1], [0.25, 0.25, 0.25, 0.25]), ADD, MixtureOfGaussiansLaw("1.5", (1, 2), ("0.5", "0.25"))),
    (mixed(1.5, [0.0, 1.0], [0.5, 0.5 - 1e-12]), ADD, MixtureOfGaussiansLaw("1.5", (1,), ("0.5",))),
    (mixed(1.5, [1.0, 2.0], [0.5, 0.5 + 1e-12]), ADD, MixtureOfGaussiansLaw("1.5", (1, 2), (LESS, MORE))),
    (mixed(0.0, [0.0], [1.0]), ADD, PureDP(0)),
    (truncated(1000, 0.01, 30, 1.5), ADD, TruncatedSampledGaussianLaw("1.5", "0.01", 1000, 30)),
    (truncated(1000, 0.01, 0, 0.0), ADD, PureDP(0)),
    (dp_accounting.SampledWithReplacementDpEvent(10, 2, GAUSSIAN), REPLACE, GaussianWithReplacementLaw(3, 10, 2)),
    (dp_accounting.SampledWithReplacementDpEvent(10, 0, Gaussian(0.0)), REPLACE, PureDP(0)),
    (Sampled(0.0, Gaussian(0.0)), ADD, PureDP(0)),
    (dp_accounting.RandomizedResponseDpEvent(0.0, 1), REPLACE, PureDP(0)),
    (dp_accounting.RandomizedResponseDpEvent(0.5, 4), NULL, PmfPair(("0.625", "0.375"), ("0.25", "0.75"))),
    (dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, [5, 9]), NULL, Repeated(GaussianLaw(3), times=4)),
    (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 4.0, math.inf), ADD, Selected(GaussianLaw(3), PoissonTrials(4))),
    (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 1.0, 0.5), ADD, GaussianLaw(3)),
    (
        dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 4.0, 1.0),
        ADD,
        Selected(GaussianLaw(3), NegativeBinomialTrials(eta=1, gamma="0.25")),
    ),
]


@pytest.mark.parametrize(
    ("what", "relation", "tree"), READ, ids=[f"{type(one).__name__} {r.value}" for one, r, _ in READ]
)
def test_what_an_event_is_read_as(what: Any, relation: Relation, tree: Composition) -> None:
    assert read_tree(what, relation=relation) == tree


REFUSED = [
    (dp_accounting.UnsupportedDpEvent(), ADD, "nobody has described"),
    (dp_accounting.RandomizedResponseDpEvent(0.5, 4), ADD, "replace_one, or under zero_out"),
    (dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, 4), ADD, "zero_out"),
    (
        Sampled(0.1, dp_event.LaplaceDpEvent(2.0)),
        REPLACE,
        "under replace_one is certified for Gaussian noise only, not for laplace",
    ),
    (Sampled(0.1, dp_event.ZCDpEvent(0.3)), ADD, "zcdp on a secret batch"),
    (dp_accounting.SampledWithoutReplacementDpEvent(10, 2, GAUSSIAN), ADD, "replace_one"),
    (dp_accounting.SampledWithReplacementDpEvent(10, 2, GAUSSIAN), ADD, "read it under replace_one"),
    (dp_accounting.SampledWithReplacementDpEvent(10, 2, Laplace(1.0)), REPLACE, "for one Gaussian"),
    (mixed(1.0, [1.0], [1.0]), REPLACE, "add_remove or zero_out"),
]


@pytest.mark.parametrize(("what", "relation", "reason"), REFUSED)
def test_what_has_no_bound_is_refused_by_name(what: Any, relation: Relation, reason: str) -> None:
    nested = dp_accounting.ComposedDpEvent([dp_accounting.NonPrivateDpEvent(), dp_event.SelfComposedDpEvent(what, 3)])
    with pytest.raises(UnsupportedEvent, match=reason) as raised:
        read_tree(nested, relation=relation)
    assert raised.value.event is what
    assert str(raised.value) == f"{type(what).__name__}: {raised.value.reason}"
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.event, again.reason) == (what, raised.value.reason)


BARE = [
    dp_accounting.NonPrivateDpEvent(),
    Gaussian(0.0),
    Laplace(0.0),
    dp_event.DiscreteLaplaceDpEvent(0.0, 1),
    mixed(0.0, [1.0, 2.0], [0.5, 0.5]),
    truncated(1000, 0.01, 30, 0.0),
    event("EpsilonDeltaDpEvent", math.inf, 0.0),
    event("EpsilonDeltaDpEvent", 1.0, 1.0),
    Sampled(0.1, Gaussian(0.0)),
    dp_accounting.ComposedDpEvent([Gaussian(1.0), dp_event.RepeatAndSelectDpEvent(Gaussian(0.0), 2.0, 1.0)]),
]


@pytest.mark.parametrize("bare", BARE)
def test_what_adds_no_noise_promises_nothing(bare: Any) -> None:
    with pytest.raises(NonPrivateEvent):
        read_tree(bare, relation=ADD)
    accountant = PrivacyAccountant().compose(bare)
    assert (accountant.get_epsilon(0.5), accountant.get_delta(5.0)) == (math.inf, 1.0)
    with pytest.raises(ParameterError, match="without noise"):
        _ = accountant.document


@pytest.mark.parametrize(
    "wrong",
    [
        Gaussian(-1.0),
        Gaussian(math.nan),
        Sampled(1.5, GAUSSIAN),
        dp_accounting.RandomizedResponseDpEvent(1.5, 4),
        dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 0.5, 1.0),
        dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 2.0, -1.5),
        dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, 0),
        dp_accounting.SampledWithoutReplacementDpEvent(10, 20, GAUSSIAN),
        dp_event.SelfComposedDpEvent(GAUSSIAN, 0),
        mixed(1.0, [1.0], [0.5]),
        mixed(1.0, [1.0, 2.0], [1.0]),
        mixed(1.0, [-1.0], [1.0]),
    ],
)
def test_numbers_that_no_event_has_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        read_tree(wrong, relation=REPLACE if "Sampled" in type(wrong).__name__ and wrong.event is GAUSSIAN else NULL)


def test_a_mixture_is_written_back() -> None:
    whole, still = mixed(0.3, [1.0, 2.0], [0.7, 0.3]), mixed(1.5, [0.0, 1.0, 2.5], [0.5, 0.25, 0.25])
    for what in (whole, still, truncated(1000, 0.013, 30, 1.7)):
        assert write(read_tree(what, relation=ADD), relation=ADD) == what


def test_a_group_of_rows_on_samples_is_priced() -> None:
    """Against PLDs of dp_accounting for Bin(k, q) rows: 0.13348 for two of 8, 0.01, 200 steps at 1e-6."""
    pair = Unit("pair", max_contributions=2)
    steps = dp_event.SelfComposedDpEvent(Sampled(0.01, Gaussian(8.0)), 200)
    found = compose(read_tree(steps, relation=ADD, of="row", unit=pair)).epsilon("1e-6")
    assert found.upper == pytest.approx(0.13348, abs=1e-4)


def test_of_what_a_record_is() -> None:
    household = Unit("household", max_contributions=4)
    assert read_tree(Laplace(2.0), relation=ADD, of="row", unit=household) == Group(
        LaplaceLaw("0.5"), k=4, relation=ADD
    )
    assert read_tree(Laplace(2.0), relation=ADD, of="unit", unit=household) == LaplaceLaw("0.5")
    with pytest.raises(ParameterError, match="of: expected 'row'"):
        read_tree(Laplace(2.0), relation=ADD, unit=household)
    with pytest.raises(RelationError):
        read_tree(Laplace(2.0), relation=REPLACE, of="row", unit=household)


# ---- both ways ------------------------------------------------------------------------------------------------------

NUMBERS = st.floats(1e-6, 1e6)
PROBABILITIES = st.floats(1e-6, 1 - 1e-6)
EPSILONS = st.floats(1e-6, 50)
LEAVES = st.one_of(
    st.builds(dp_accounting.NoOpDpEvent),
    st.builds(Gaussian, NUMBERS),
    st.builds(Laplace, st.floats(0.02, 1e6)),
    st.builds(dp_event.DiscreteLaplaceDpEvent, st.floats(1e-3, 10), st.integers(1, 20)),
    st.builds(dp_event.ZCDpEvent, EPSILONS),
    st.builds(dp_event.ZCDpEvent, EPSILONS, EPSILONS),
    st.builds(newer_events.PermuteAndFlipDpEvent, EPSILONS),
    st.builds(newer_events.EpsilonDeltaDpEvent, EPSILONS, PROBABILITIES),
    st.builds(newer_events.EpsilonDeltaDpEvent, EPSILONS, st.just(0.0)),
    st.builds(newer_events.DiscreteGaussianDpEvent, st.floats(0.5, 50), st.sampled_from([1.0, 2.0, 3.0]), st.just(1)),
    st.builds(newer_events.ExponentialMechanismDpEvent, EPSILONS),
)
RUNS = st.builds(Gaussian, st.floats(0.1, 100))
BY_RELATION = {
    ADD: st.one_of(LEAVES, st.builds(Sampled, PROBABILITIES, RUNS)),
    NULL: st.one_of(LEAVES, st.builds(Sampled, PROBABILITIES, RUNS)),
    REPLACE: st.one_of(
        LEAVES,
        st.builds(dp_accounting.RandomizedResponseDpEvent, PROBABILITIES, st.integers(2, 100)),
        st.builds(dp_accounting.SampledWithoutReplacementDpEvent, st.just(1000), st.integers(1, 900), RUNS),
    ),
}
SHAPES = st.one_of(st.just(math.inf), st.just(1.0), st.just(0.0), st.floats(0.01, 20))


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("relation", BY_RELATION)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_was_read_is_written_back(relation: Relation, data: st.DataObject) -> None:
    part = BY_RELATION[relation]
    whole = st.one_of(
        part,
        st.builds(dp_event.SelfComposedDpEvent, part, st.integers(1, 10**6)),
        st.builds(dp_accounting.ComposedDpEvent, st.lists(part, min_size=1, max_size=3)),
    )
    given_event = data.draw(whole)
    assert write(read_tree(given_event, relation=relation), relation=relation) == given_event


@settings(max_examples=25, deadline=None)
@given(mean=st.floats(1.001, 1e6), shape=SHAPES)
def test_what_is_selected_is_written_back(mean: float, shape: float) -> None:
    selected = dp_event.RepeatAndSelectDpEvent(GAUSSIAN, mean, shape)
    assert write(read_tree(selected, relation=ADD), relation=ADD) == selected


WRITTEN: list[tuple[Composition, Relation]] = [
    (LaplaceLaw("0.12345678901234567890123"), ADD),
    (LaplaceLaw("0.3"), REPLACE),
    (GaussianLaw("1.12345678901234567890123"), ADD),
    (GDP("0.3"), REPLACE),
    (DiscreteLaplaceLaw(3, 5), REPLACE),
    (PoissonSampled(GaussianLaw(2), rate="0.01234567890123456789"), ADD),
    (
        MixtureOfGaussiansLaw(
            "1.23456789012345678901", ("1", "1.12345678901234567891"), ("0.3", "0.1234567890123456789")
        ),
        ADD,
    ),
    (MixtureOfGaussiansLaw("1.5", (1, 2), ("0.1234567890123456789", "0.8765432109876543211")), ADD),
    (ZCDP("0.12345678901234567890123"), ADD),
]


@pytest.mark.parametrize(("tree", "relation"), WRITTEN)
def test_what_is_written_costs_no_less(tree: Composition, relation: Relation) -> None:
    again = read_tree(write(tree, relation=relation), relation=relation)
    orders = (Decimal(2), Decimal(10))
    before, after = cost(tree, relation, orders=orders), cost(again, relation, orders=orders)
    for name in ("pure", "rho", "mu_squared"):
        had, has = getattr(before, name), getattr(after, name)
        assert had is None or (has is not None and has >= had)


@pytest.mark.parametrize(
    "silent",
    [
        Parallel((LaplaceLaw(1), LaplaceLaw(2))),
        Group(LaplaceLaw(1), k=2, relation=ADD),
        RDP((2,), (1,)),
        ZCDP(1, delta="1e-6"),
        Selected(LaplaceLaw(1), NegativeBinomialTrials(eta=1, gamma="0.1", most=5)),
        Selected(LaplaceLaw(1), NegativeBinomialTrials(eta="-0.5", gamma="0.1")),
    ],
)
def test_what_no_event_says_is_refused(silent: Composition) -> None:
    with pytest.raises(ParameterError, match="none says this"):
        write(silent, relation=ADD)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_a_mechanism_is_written_as_the_parts_that_it_has_under_the_relation(relation: Relation) -> None:
    plan: dict[str, Any] = {"rate": "0.01", "steps": 100, "clip_norm": 1, "dimension": 3, "expected_batch_size": 1}
    for mechanism in (dpl.Laplace(sensitivity=1, epsilon="0.1"), dpl.DPSGD(noise_multiplier=1, **plan)):
        parts = mechanism.under(relation, Unit("record")).parts()
        assert write(mechanism, relation=relation) == write(parts, relation=relation)
    with pytest.raises(ParameterError, match="none says this, got sparse_vector"):
        write(dpl.SparseVector(epsilon=1, cutoff=1, threshold=10, sensitivity=1), relation=relation)


def test_what_the_installed_version_cannot_say_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dp_event, "EpsilonDeltaDpEvent", raising=False)
    with pytest.raises(ParameterError, match="EpsilonDeltaDpEvent"):
        write(PureDP(1), relation=ADD)


# ---- beside its own accountants -------------------------------------------------------------------------------------

STEP = Sampled(0.02, Gaussian(1.2))
RESPONSE = dp_accounting.RandomizedResponseDpEvent(0.4, 5)
WORDS = {
    ADD: NeighboringRelation.ADD_OR_REMOVE_ONE,
    REPLACE: NeighboringRelation.REPLACE_ONE,
    NULL: NeighboringRelation.REPLACE_SPECIAL,
}
BESIDE_PLD = [
    (dp_event.SelfComposedDpEvent(STEP, 300), ADD),
    (dp_event.SelfComposedDpEvent(STEP, 300), NULL),
    (dp_accounting.ComposedDpEvent([Gaussian(2.0), Laplace(3.0), STEP]), ADD),
    (GAUSSIAN, REPLACE),
    (dp_event.SelfComposedDpEvent(Sampled(0.05, Laplace(1.0)), 20), ADD),
    (dp_event.SelfComposedDpEvent(dp_event.DiscreteLaplaceDpEvent(0.3, 2), 5), ADD),
    pytest.param(  # which takes them ten seconds
        dp_event.SelfComposedDpEvent(mixed(4.0, [0.0, 1.0, 2.0], [0.9, 0.07, 0.03]), 3), ADD, marks=pytest.mark.slow
    ),
    (dp_accounting.ComposedDpEvent([RESPONSE] * 7), REPLACE),
    (dp_accounting.ComposedDpEvent([RESPONSE] * 7), NULL),
]


@pytest.mark.parametrize(("what", "relation"), BESIDE_PLD)
def test_no_more_than_its_loss_distributions_and_no_less_than_the_truth(what: Any, relation: Relation) -> None:
    theirs = pld_privacy_accountant.PLDAccountant(WORDS[relation]).compose(what)
    ours = PrivacyAccountant(None, WORDS[relation]).compose(what)
    found = ours.bounds(1e-5)
    assert found.lower - 1e-9 <= theirs.get_epsilon(1e-5)
    assert ours.get_epsilon(1e-5) == found.upper <= theirs.get_epsilon(1e-5) + 1e-6
    assert ours.get_delta(1.0) <= theirs.get_delta(1.0) + 1e-9
    assert found.upper - found.lower < 1e-3


BESIDE_RENYI = [
    (dp_accounting.SingleEpochTreeAggregationDpEvent(9.0, [3, 17, 8]), NULL),
    (dp_event.SelfComposedDpEvent(dp_accounting.SingleEpochTreeAggregationDpEvent(9.0, 16), 3), NULL),
    (dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(STEP, 100), 10.0, 0.5), ADD),
    (dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 10.0, math.inf), ADD),
    (dp_event.ZCDpEvent(0.1), ADD),
    (dp_event.ZCDpEvent(0.05, 0.02), ADD),
    (dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(0.01, 0.001), 8), ADD),
]


@pytest.mark.parametrize(("what", "relation"), BESIDE_RENYI)
def test_no_more_than_its_renyi_divergences(what: Any, relation: Relation) -> None:
    theirs = rdp_privacy_accountant.RdpAccountant(neighboring_relation=WORDS[relation]).compose(what)
    ours = PrivacyAccountant(None, WORDS[relation]).compose(what)
    for delta in (1e-3, 1e-5, 1e-8):
        assert ours.get_epsilon(delta) <= theirs.get_epsilon(delta) * (1 + 3e-4)  # its orders lie elsewhere


def test_a_replaced_record_on_samples_is_read_written_and_priced_as_theirs() -> None:
    ran = dp_event.SelfComposedDpEvent(STEP, 300)
    tree = read_tree(ran, relation=REPLACE)
    assert tree == Repeated(PoissonSampled(GaussianLaw("1.2"), rate="0.02"), times=300)
    assert write(tree, relation=REPLACE) == ran
    theirs = pld_privacy_accountant.PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(ran).get_epsilon(1e-5)
    found = PrivacyAccountant(None, NeighboringRelation.REPLACE_ONE).compose(ran).bounds(1e-5)
    assert found.lower <= theirs
    assert found.upper <= theirs * 1.0003
    assert PrivacyAccountant().compose(ran).get_epsilon(1e-5) * 1.5 < found.lower


@pytest.mark.slow
@pytest.mark.parametrize("relation", [ADD, NULL, REPLACE])
@pytest.mark.parametrize("numbers", [(4, 0.5, 2, 1.0), (1000, 0.01, 30, 1.0)])
def test_truncated_samples_cost_what_its_loss_distributions_say(relation: Relation, numbers: Any) -> None:
    theirs = pld_privacy_accountant.PLDAccountant(WORDS[relation]).compose(truncated(*numbers), 3)
    found = PrivacyAccountant(None, WORDS[relation]).compose(truncated(*numbers), 3).bounds(1e-5)
    assert found.lower <= theirs.get_epsilon(1e-5)
    assert found.upper <= theirs.get_epsilon(1e-5) * (1 + 1e-3)


@pytest.mark.parametrize("relation", [REPLACE, NULL])
def test_responses_that_are_repeated_are_counted_each(relation: Relation) -> None:
    """Its accountants of version 0.6 count such a response once."""
    one_by_one = PrivacyAccountant(None, WORDS[relation]).compose(dp_accounting.ComposedDpEvent([RESPONSE] * 7))
    counted = PrivacyAccountant(None, WORDS[relation]).compose(dp_event.SelfComposedDpEvent(RESPONSE, 7))
    assert counted.get_epsilon(1e-5) == one_by_one.get_epsilon(1e-5)
    once = PrivacyAccountant(None, WORDS[relation]).compose(RESPONSE)
    assert counted.bounds(1e-5).lower > 6 * once.get_epsilon(1e-5)


def nodes_of(step: int, steps: int) -> int:
    """In how many finished nodes of a binary tree over `steps` leaves this one is, counted one by one."""
    spans = [(start, start + size) for size in (2**level for level in range(12)) for start in range(0, steps, size)]
    return sum(start <= step < end <= steps for start, end in spans)


@pytest.mark.parametrize("steps", range(1, 40))
def test_a_tree_has_so_many_levels(steps: int) -> None:
    found = read_tree(dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, steps), relation=NULL)
    assert isinstance(found, Repeated)
    assert found.times == max(nodes_of(step, steps) for step in range(steps))


@pytest.mark.parametrize(("parameter", "buckets"), [(0.3, 3), (0.9, 7), (0.5, 2)])
def test_a_response_beside_a_null_record_is_that_of_its_law(parameter: float, buckets: int) -> None:
    p, k = Fraction(Decimal(repr(parameter))), Fraction(buckets)
    true, other = 1 - p + p / k, p / k
    profile = compose(
        read_tree(dp_accounting.RandomizedResponseDpEvent(parameter, buckets), relation=NULL), relation=NULL
    )
    for epsilon in (0.0, 0.1, 0.5):
        grown = Fraction(math.exp(epsilon))
        here = sum(max(Fraction(0), one - grown / k) for one in (true, *[other] * (buckets - 1)))
        there = sum(max(Fraction(0), 1 / k - grown * one) for one in (true, *[other] * (buckets - 1)))
        found = profile.delta(epsilon)
        assert found.lower - 1e-12 <= max(here, there) <= found.upper + 1e-12


# ---- the accountant -------------------------------------------------------------------------------------------------


class TestTheirOwn(privacy_accountant_test.PrivacyAccountantTest):  # type: ignore[misc]
    """The library's tests of every accountant, run on ours."""

    def _make_test_accountants(self) -> list[PrivacyAccountant]:
        return [PrivacyAccountant(None, relation) for relation in NeighboringRelation]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_counts_for_itself(copied: Callable[[PrivacyAccountant], PrivacyAccountant]) -> None:
    mine = PrivacyAccountant().compose(STEP, 10)
    other = copied(mine)
    assert other.get_epsilon(1e-5) == mine.get_epsilon(1e-5)
    other.compose(STEP, 10)
    assert other.ledger == dp_event.SelfComposedDpEvent(STEP, 20)
    assert mine.get_epsilon(1e-5) == PrivacyAccountant().compose(STEP, 10).get_epsilon(1e-5) < other.get_epsilon(1e-5)
    assert mine.ledger == dp_event.SelfComposedDpEvent(STEP, 10)


def test_an_accountant_takes_relation_and_unit_from_a_scope() -> None:
    book = Ledger.in_memory()
    person = Unit("person", max_contributions=3)
    scope = book.scope("rows", unit=person, relation="zero_out", budget=ApproxDP(3, "1e-6"))
    accountant = PrivacyAccountant(scope, of="row")
    assert accountant.neighboring_relation is NeighboringRelation.REPLACE_SPECIAL
    assert accountant.compose(Laplace(10.0)).get_epsilon(0.0) == pytest.approx(0.3)
    with pytest.raises(ParameterError, match="of: expected 'row'"):
        PrivacyAccountant(scope)
    with pytest.raises(RelationError, match="not for REPLACE_ONE"):
        PrivacyAccountant(scope, NeighboringRelation.REPLACE_ONE, of="unit")
    with pytest.raises(ParameterError, match="a scope"):
        PrivacyAccountant(book)  # type: ignore[arg-type]
    flips = book.scope("labels", unit="record", relation="label_flip", budget=PureDP(1))
    with pytest.raises(RelationError, match="label_flip"):
        PrivacyAccountant(flips)


def test_what_an_accountant_counted_is_charged() -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "1e-5"))
    accountant = PrivacyAccountant(scope).compose(STEP, 100).compose(Laplace(10.0))
    who: dict[str, Any] = {"by": "A. Smith", "reason": "a training with TF-Privacy", "relation": "add_remove"}
    receipt = scope.charge(accountant.document, **who, tail_delta="1e-6")
    assert getattr(receipt.entry.body, "parts", None) == accountant.document.tree()
    assert accountant.bounds("1e-6").lower <= scope.spent(delta="1e-6").upper


def test_what_is_read_is_refused_under_another_relation() -> None:
    """A Laplace event costs twice as much where a record is replaced: charged as one that comes, it would be half. By
    its own relation it counts as one row that goes and one that comes."""
    scope = Ledger.in_memory().scope("rows", unit="record", relation="replace_one", budget=PureDP(5))
    who: dict[str, Any] = {"by": "A. Smith", "reason": "counts of theirs"}
    added = read(Laplace(1.0), relation=ADD)
    for ran in (added, PrivacyAccountant().compose(Laplace(1.0)).document):
        with pytest.raises(RelationError, match="the document is add_remove, not replace_one"):
            scope.charge(ran, relation="replace_one", **who)
    for ran in (added, read(Laplace(1.0), relation="replace_one")):
        before = scope.spent().upper
        scope.charge(ran, **who)
        assert scope.spent().upper == before + 2
    with pytest.raises(RelationError, match="the document is add_remove"):
        write(added, relation="replace_one")
    assert write(added) == Laplace(1.0)
    with pytest.raises(ParameterError, match="relation"):
        write(LaplaceLaw(1))


def test_an_event_is_read_before_it_is_charged() -> None:
    scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(5))
    asked: list[Callable[[Any], object]] = [
        lambda ran: scope.charge(ran, by="A. Smith", reason="counts of theirs"),
        lambda ran: scope.charge([ran], by="A. Smith", reason="counts of theirs", relation=ADD),
        scope.quote,
        scope.afford,
        compose,
    ]
    for ask in asked:
        with pytest.raises(ParameterError, match=r"dp_accounting\.read\(event, relation=\.\.\.\)"):
            ask(Laplace(1.0))


def test_a_relation_is_said_in_the_words_of_the_library_too() -> None:
    for theirs, ours in RELATIONS.items():
        assert read(Gaussian(1.0), relation=theirs) == read(Gaussian(1.0), relation=ours)
        assert write(GaussianLaw(1), relation=theirs) == Gaussian(1.0)


@pytest.mark.parametrize(("discrete", "relation"), [(False, ADD), (True, ADD), (False, REPLACE)])
def test_the_library_calibrates_on_certified_bounds(discrete: bool, relation: Relation) -> None:
    def made(parameter: float) -> Any:
        if discrete:
            return dp_event.SelfComposedDpEvent(STEP, int(parameter))
        return dp_event.SelfComposedDpEvent(Sampled(0.02, Gaussian(parameter)), 200)

    asked: dict[str, Any] = {"target_epsilon": 1.0, "target_delta": 1e-5, "discrete": discrete}
    bracket = dp_accounting.ExplicitBracketInterval(1, 3000) if discrete else None
    fresh = functools.partial(PrivacyAccountant, None, WORDS[relation])
    found = dp_accounting.calibrate_dp_mechanism(fresh, made, bracket_interval=bracket, tol=1e-3, **asked)
    assert 0.95 < compose(read_tree(made(found), relation=relation), relation=relation).epsilon("1e-5").upper <= 1


# ---- what JAX-Privacy publishes --------------------------------------------------------------------------------------


def dpsgd(noise: float, steps: float, rate: float) -> Any:
    """The event that JAX-Privacy says of DP-SGD."""
    return dp_event.SelfComposedDpEvent(Sampled(rate, Gaussian(noise)), int(steps))


def test_the_examples_of_jax_privacy_come_out_as_it_prints_them() -> None:
    """The documentation of its `accounting`: 3.77 for noise 3 over 512 steps at 0.1, delta 1e-6; noise 9.66 for epsilon
    1; 155 steps for epsilon 2."""
    found = PrivacyAccountant().compose(dpsgd(3.0, 512, 0.1)).bounds(1e-6)
    assert round(float(found.lower), 2) == round(float(found.upper), 2) == 3.77
    asked: dict[str, Any] = {"target_delta": 1e-6}
    noise = dp_accounting.calibrate_dp_mechanism(
        PrivacyAccountant, lambda noise: dpsgd(noise, 512, 0.1), target_epsilon=1.0, **asked
    )
    assert round(noise, 2) == 9.66
    steps = dp_accounting.calibrate_dp_mechanism(
        PrivacyAccountant,
        lambda steps: dpsgd(3.0, steps, 0.1),
        target_epsilon=2.0,
        discrete=True,
        bracket_interval=dp_accounting.LowerEndpointAndGuess(1, 128),
        **asked,
    )
    assert steps == 155


def test_the_plans_that_jax_privacy_tests_cost_what_it_says_or_less() -> None:
    """Of its `calibrate_test`: batches of 1,024 of 50,000, noise 4, 10,000 steps, delta 1e-5: 2.27535 by Renyi
    divergences, 4.50055 where 1,056 are kept, 5.00008 for users of two examples on a coarse grid."""
    plan = dpsgd(4.0, 10_000, 1024 / 50_000)
    assert 2.09 < PrivacyAccountant().compose(plan).get_epsilon(1e-5) < 2.27535
    renyi = rdp_privacy_accountant.RdpAccountant().compose(plan).get_epsilon(1e-5)
    assert renyi == pytest.approx(2.27535, rel=1e-3), "the plan is theirs"
    kept = dp_event.SelfComposedDpEvent(truncated(50_000, 1024 / 50_000, 1056, 4.0), 10_000)
    assert PrivacyAccountant(None, NeighboringRelation.REPLACE_SPECIAL).compose(kept).get_epsilon(1e-5) < 4.50055
    users = read_tree(plan, relation=ADD, of="row", unit=Unit("user", max_contributions=2))
    assert 4.6 < compose(users).epsilon("1e-5").upper < 5.00008
