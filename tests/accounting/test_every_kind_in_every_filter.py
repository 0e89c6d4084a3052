"""Every kind of mechanism against every kind of filter and budget, under every relation: it is admitted at a certified
price, or refused in words; never a crash, and never nothing charged for something unknown."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from dpledger.accounting import filters, rules
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import Composition
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.filters import (
    BasicFilter,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    opened_by,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PrivacyCurve, PureDP
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify, ParameterError
from dpledger.relations import Relation
from dpledger.strict_json import JsonValue

pytestmark = pytest.mark.sliced

ADD = Relation.ADD_REMOVE
GAUSSIAN: dict[str, JsonValue] = {"kind": "gaussian", "noise_multiplier": "5"}
LAPLACE: dict[str, JsonValue] = {"kind": "laplace", "epsilon": "0.3"}
STREAM: dict[str, JsonValue] = {"mode": "basic", "cutoff": 2, "threshold_scale": "4", "query_scale": "8"}
LEAVES: dict[str, dict[str, JsonValue]] = {
    "pure_dp": {"epsilon": "0.5"},
    "approx_dp": {"epsilon": "0.5", "delta": "1e-9"},
    "zcdp": {"rho": "0.05"},
    "approximate zcdp": {"kind": "zcdp", "rho": "0.05", "delta": "1e-9"},
    "gdp": {"mu": "0.2"},
    "rdp": {"orders": ["1.5", "8", "64"], "epsilons": ["0.02", "0.1", "1.6"]},
    "bounded_range": {"eta": "0.4"},
    "privacy_curve": {"epsilons": ["0", "0.5", "1"], "deltas": ["0.2", "0.05", "0"]},
    "a curve with a delta": {"kind": "privacy_curve", "epsilons": ["0.5"], "deltas": ["1e-8"]},
    "laplace": LAPLACE,
    "gaussian": GAUSSIAN,
    "discrete_laplace": {"scale": "3", "sensitivity": "1"},
    "discrete_gaussian": {"sigma": "5", "sensitivity": "1"},
    "randomized_response": {"epsilon": "0.5", "k": 5},
    "exponential": {"epsilon": "0.4"},
    "pmf": {"left": ["0.6", "0.4"], "right": ["0.4", "0.6"]},
    "a pmf with a failure": {"kind": "pmf", "left": ["0.6", "0.399999", "0.000001"], "right": ["0.4", "0.6", "0"]},
    "sparse_vector": {**STREAM, "epsilon": "1", "delta": "0"},
}
NODES: dict[str, dict[str, JsonValue]] = {
    "sequence": {"of": [GAUSSIAN, LAPLACE]},
    "repeated": {"times": 3, "of": GAUSSIAN},
    "parallel": {"of": [GAUSSIAN, LAPLACE]},
    "parallel by unit": {"kind": "parallel", "of": [GAUSSIAN, LAPLACE], "by": "unit"},
    "chain": {"of": LAPLACE},
    "chain of gaussian": {"kind": "chain", "of": GAUSSIAN},
    "chain within a boundary": {
        "kind": "chain",
        "of": GAUSSIAN,
        "boundary": {"kind": "mixture", "tuning": "0.04", "delta": "1e-9"},
    },
    "group": {"of": LAPLACE, "k": 2, "relation": "add_remove"},
    "post_processed": {"of": LAPLACE},
    "converted": {"of": GAUSSIAN, "to": {"kind": "zcdp", "rho": "0.05"}, "relation": "add_remove"},
    "filtered": {"filter": {"kind": "zcdp", "rho": "0.1"}, "of": [GAUSSIAN]},
}
BATCHES: dict[str, dict[str, JsonValue]] = {
    "poisson_sampled": {"rate": "0.05"},
    "sampled_without_replacement": {"population": 1000, "batch": 50},
    "shuffled": {"users": 1000},
    "random_allocation": {"steps": 3},
}


def _trees() -> dict[str, Composition]:
    written: dict[str, dict[str, JsonValue]] = {
        name: {"kind": name, **fields} for name, fields in (LEAVES | NODES).items()
    }
    for (batch, fields), (name, leaf) in product(BATCHES.items(), list(written.items())):
        written[f"{batch} of {name}"] = {"kind": batch, **fields, "of": leaf}
    return {name: parse_tree(fields) for name, fields in written.items()}


TREES = _trees()
EITHER = opened_by(ApproxDP(100, "1e-3"))
assert isinstance(EITHER, EitherFilter)
FILTERS: tuple[Filter, ...] = (
    PureFilter(100),
    BasicFilter(100, "1e-3"),
    ZCDPFilter(100, "1e-3"),
    RDPFilter(("1.5", 8, 32), (100, 100, 100)),
    GDPFilter(50),
    EITHER,
)
every_tree = pytest.mark.parametrize("name", TREES)


def price(tree: Composition, filter_: Filter, relation: Relation) -> Cost | None:
    """The price for a filter; None where it is refused in words."""
    try:
        return rules.cost(tree, relation, orders=filters.orders(filter_))
    except CannotCertify as refusal:
        said = str(refusal)
    assert len(said) > 20
    return None


def known_from_below(tree: Composition, delta: Decimal) -> float:
    """The engine's lower bound of epsilon; 0 where it certifies nothing."""
    try:
        return compose(tree, relation=ADD).epsilon(delta).lower
    except CannotCertify:
        return 0.0


@pytest.mark.parametrize("relation", Relation, ids=lambda one: one.value)
@every_tree
def test_admitted_at_a_price_or_refused_in_words(name: str, relation: Relation) -> None:
    for filter_ in FILTERS:
        cost = price(TREES[name], filter_, relation)
        if cost is None:
            continue
        charged = filters.charge(filter_, cost)
        sums = filters.with_charge(filter_, filters.opening(filter_), charged)
        asked = filters.asked(filter_, filters.opening(filter_), charged)
        priced = [account for account, amount in asked.items() if amount != "inf" and account != "delta"]
        if filters.admits(filter_, sums):  # each account that carries it asks for more than nothing
            assert priced
            assert all(Decimal(asked[account]) > 0 for account in priced)
        else:
            assert "inf" in asked.values()


@every_tree
def test_what_is_admitted_means_no_less_than_the_engine_knows(name: str) -> None:
    """The budget of a filter that just holds a request, read at a delta, is not below the engine's lower bound."""
    tree, delta = TREES[name], Decimal("2e-3")
    least = known_from_below(tree, delta)
    for filter_ in FILTERS:
        cost = price(tree, filter_, ADD)
        if cost is None:
            continue
        charged = filters.charge(filter_, cost)
        sums = filters.with_charge(filter_, filters.opening(filter_), charged)
        if filters.admits(filter_, sums):
            assert least <= float(filters.reading(filter_, sums, delta))


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda one: one.kind)
def test_each_filter_takes_what_its_currency_prices(filter_: Filter) -> None:
    """Which kinds are admitted at all, by filter: a kind that falls out of this list has lost its price."""
    refused = set()
    for name in LEAVES:
        cost = price(TREES[name], filter_, ADD)
        sums = filters.opening(filter_)
        if cost is None or not filters.admits(
            filter_, filters.with_charge(filter_, sums, filters.charge(filter_, cost))
        ):
            refused.add(name)
    deltas = {"approx_dp", "approximate zcdp", "a curve with a delta", "a pmf with a failure"}
    smooth = {"zcdp", "approximate zcdp", "gdp", "rdp", "gaussian", "discrete_gaussian"}
    no_mu = {"zcdp", "rdp", "discrete_gaussian"}
    expected = {
        "pure": deltas | smooth,
        "basic": smooth,
        "zcdp": {"rdp"},
        "rdp": deltas,
        "gdp": deltas | no_mu,
        "either": set[str](),
    }
    assert refused == expected[filter_.kind]


BATCHED = {"zcdp", "rdp", "gdp", "either"}


@pytest.mark.parametrize("filter_", [one for one in FILTERS if one.kind in BATCHED], ids=lambda one: one.kind)
def test_a_step_of_private_training_is_admitted_by_every_filter_that_counts_divergences(filter_: Filter) -> None:
    cost = price(TREES["poisson_sampled of gaussian"], filter_, ADD)
    assert cost is not None
    charged = filters.charge(filter_, cost)
    assert filters.admits(filter_, filters.with_charge(filter_, filters.opening(filter_), charged))


# ---- budgets and claims ---------------------------------------------------------------------------------------------

CURVE = PrivacyCurve(("0", "0.5", "1"), ("0.2", "0.05", "1e-7"))
PROMISES: tuple[Guarantee, ...] = (
    PureDP(3),
    ApproxDP(3, "1e-6"),
    ZCDP(1),
    GDP(1),
    RDP((2, 8), (1, 4)),
    BoundedRange(1),
    CURVE,
)


@pytest.mark.parametrize("budget", PROMISES, ids=lambda one: one.kind)
def test_a_budget_opens_a_filter_or_says_which_kinds_do(budget: Guarantee) -> None:
    if isinstance(budget, BoundedRange | PrivacyCurve):
        with pytest.raises(ParameterError, match="pure_dp, approx_dp, zcdp, rdp, gdp"):
            opened_by(budget)
    else:
        assert filters.budget_guarantee(opened_by(budget)) == budget


@pytest.mark.parametrize("claim", PROMISES, ids=lambda one: one.kind)
@every_tree
def test_a_claim_is_kept_or_refused_in_words(name: str, claim: Guarantee) -> None:
    try:
        rules.check(claim, TREES[name], ADD)
        said = "kept: what is claimed is not below the engine's lower bound"
        at = max(claim.deltas) if isinstance(claim, PrivacyCurve) else Decimal("1e-5")
        assert known_from_below(TREES[name], at) <= float(claim.epsilon_at(at)) * (1 + 1e-9)
    except CannotCertify as refusal:  # ClaimTooSmall is one
        said = str(refusal)
    assert len(said) > 20


def test_a_curve_is_claimed_of_parts_that_keep_it_at_every_point() -> None:
    laplace = parse_tree(LAPLACE)
    points = [compose(laplace, relation=ADD).delta(at) for at in ("0", "0.1", "0.3")]
    deltas = tuple(str(Decimal(one.upper) + Decimal("1e-12")) for one in points)
    rules.check(PrivacyCurve(("0", "0.1", "0.3"), deltas), laplace, ADD)
    with pytest.raises(CannotCertify, match=r"claimed delta at epsilon 0\.1"):
        rules.check(PrivacyCurve(("0", "0.1", "0.3"), (deltas[0], "0.01", deltas[2])), laplace, ADD)
    with pytest.raises(CannotCertify, match="reach"):
        rules.check(PrivacyCurve(("0", "0.3"), ("1", "0.5"), ("0.9", "0.4")), laplace, ADD)
    rules.check(
        CURVE,
        parse_tree({"kind": "privacy_curve", "epsilons": ["0", "0.5", "1"], "deltas": ["0.2", "0.05", "1e-7"]}),
        ADD,
    )
    assert CURVE.epsilon_at(Decimal("0.06")) == Decimal("0.5")
    assert CURVE.epsilon_at(Decimal("1e-8")).is_infinite()


def test_a_conversion_to_a_curve_is_shown_at_every_point() -> None:
    written: dict[str, JsonValue] = {"kind": "privacy_curve", "epsilons": ["0.3"], "deltas": ["0"]}
    inside = parse_tree({"kind": "converted", "of": LAPLACE, "to": written, "relation": "add_remove"})
    assert compose(inside, relation=ADD).epsilon("0").upper == pytest.approx(0.3)
    too_small: dict[str, JsonValue] = {**written, "epsilons": ["0.2"]}
    with pytest.raises(CannotCertify, match="no conversion"):
        compose(
            parse_tree({"kind": "converted", "of": LAPLACE, "to": too_small, "relation": "add_remove"}), relation=ADD
        )
