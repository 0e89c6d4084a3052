"""A second golden ledger: a reserved charge for every kind of leaf, node and outcome, a scope for every kind of filter,
a claim in every kind of guarantee. What a kind means is said elsewhere; here its bytes are.

`ledger_golden.py` writes it beside the golden ledger. A kind of the union without an example here fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from dpledger.accounting.composition import (
    Chain,
    Composition,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    LaplaceLaw,
    Sequence as Steps,
    SparseVectorLaw,
)
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.ex_post.boundaries import LinearBoundary
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    opened_by,
)
from dpledger.accounting.guarantees import (
    GDP,
    RDP,
    ZCDP,
    AccuracyFailure,
    ApproxDP,
    BoundedRange,
    Failure,
    Guarantee,
    PrivacyCurve,
    PrivacyFailure,
    PureDP,
)
from dpledger.errors import BudgetRefused
from dpledger.ledger.entries.bodies import Audited, Intended
from dpledger.ledger.entries.members import MechanismNote, RefutedPoint
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.protocol import Interactive, Release
from dpledger.relations import Relation
from dpledger.strict_json import JsonValue
from ledger_mechanisms import Once, Refining, Stream, Training, stream

LAPLACE: dict[str, JsonValue] = {"kind": "laplace", "epsilon": "0.25"}
GAUSSIAN: dict[str, JsonValue] = {"kind": "gaussian", "noise_multiplier": "10"}
ODOMETER = Odometer("mixture", tuning="0.5", delta_boundary="0.000001", delta_sum="0.000001")
EITHER = opened_by(ApproxDP(100, "0.001"))
assert isinstance(EITHER, EitherFilter)

FILTERS: Mapping[str, Filter] = {
    "pure": PureFilter(1),
    "basic": BasicFilter(1, "0.000001"),
    "zcdp": ZCDPFilter("0.5", "0.000001"),
    "rdp": RDPFilter(("2", "8"), ("1", "4")),
    "gdp": GDPFilter(1),
    "either": EITHER,
    "allowance": AllowanceFilter(GaussianLaw(10), 100, 6, "0.0005", 1, "0.0005"),
}
"""A scope of each is opened, named after it, under `add_remove`."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A tree of this kind, a claim that follows from it, and the scope in which it is reserved."""

    tree: Mapping[str, JsonValue]
    claim: Guarantee
    scope: str = "either"
    causes: tuple[Failure, ...] = ()


QUARTER = PureDP("0.25")
TENTH_OF_MU = GDP("0.1")
MILLIONTH = (PrivacyFailure("0.000001", "approximation"), AccuracyFailure("0.05", "off by more than 10"))

EXAMPLES: Mapping[str, Example] = {
    "pure_dp": Example(tree={"epsilon": "0.25"}, claim=QUARTER, scope="pure"),
    "approx_dp": Example(
        tree={"epsilon": "0.25", "delta": "0.000001"},
        claim=ApproxDP("0.25", "0.000001"),
        scope="basic",
        causes=MILLIONTH,
    ),
    "zcdp": Example(tree={"rho": "0.005"}, claim=ZCDP("0.005"), scope="zcdp"),
    "gdp": Example(tree={"mu": "0.1"}, claim=TENTH_OF_MU, scope="gdp"),
    "rdp": Example(
        tree={"orders": ["2", "8"], "epsilons": ["0.01", "0.04"]},
        claim=RDP(("2", "8"), ("0.01", "0.04")),
        scope="rdp",
    ),
    "bounded_range": Example(tree={"eta": "0.25"}, claim=BoundedRange("0.25"), scope="zcdp"),
    "privacy_curve": Example(
        tree={"epsilons": ["0", "0.25"], "deltas": ["0.125", "0"]},
        claim=PrivacyCurve(("0", "0.25"), ("0.125", "0")),
    ),
    "laplace": Example(tree=LAPLACE, claim=QUARTER),
    "gaussian": Example(tree=GAUSSIAN, claim=TENTH_OF_MU),
    "mixture_of_gaussians": Example(
        tree={"sigma": "10", "sensitivities": ["1", "2"], "weights": ["0.0198", "0.0001"]},
        claim=ZCDP("0.02"),
        scope="zcdp",
    ),
    "truncated_sampled_gaussian": Example(
        tree={"noise_multiplier": "10", "rate": "0.5", "population": 1000, "batch": 600},
        claim=ZCDP("0.02"),
        scope="zcdp",
    ),
    "gaussian_with_replacement": Example(
        tree={"noise_multiplier": "40", "population": 1000, "draws": 10}, claim=ZCDP("0.125"), scope="replacing"
    ),
    "discrete_laplace": Example(tree={"scale": "4", "sensitivity": "1"}, claim=QUARTER),
    "discrete_gaussian": Example(tree={"sigma": "10", "sensitivity": "1"}, claim=ZCDP("0.005")),
    "randomized_response": Example(tree={"epsilon": "0.25", "k": 5}, claim=QUARTER),
    "exponential": Example(tree={"epsilon": "0.25"}, claim=BoundedRange("0.25")),
    "permute_and_flip": Example(tree={"epsilon": "0.25"}, claim=QUARTER),
    "offset_zcdp": Example(tree={"rho": "0.005", "xi": "0.001"}, claim=ZCDP("0.006"), scope="zcdp"),
    "pmf": Example(tree={"left": ["0.6", "0.4"], "right": ["0.4", "0.6"]}, claim=PureDP("0.5")),
    "sparse_vector": Example(tree={}, claim=PureDP("0.5")),
    "ex_post": Example(tree={"epsilon": "0.5", "sense": "pure", "delta": "0"}, claim=PureDP("0.5")),
    "sequence": Example(tree={"of": [LAPLACE, {"kind": "laplace", "epsilon": "0.125"}]}, claim=PureDP("0.375")),
    "repeated": Example(tree={"of": GAUSSIAN, "times": 4}, claim=ZCDP("0.02"), scope="allowance"),
    "poisson_sampled": Example(tree={"of": LAPLACE, "rate": "0.5"}, claim=QUARTER),
    "sampled_without_replacement": Example(
        tree={"of": LAPLACE, "population": 1000, "batch": 50}, claim=QUARTER, scope="replacing"
    ),
    "shuffled": Example(tree={"of": LAPLACE, "users": 1000}, claim=QUARTER, scope="replacing"),
    "random_allocation": Example(tree={"of": LAPLACE, "steps": 3}, claim=QUARTER),
    "group": Example(tree={"of": LAPLACE, "k": 2, "relation": "add_remove"}, claim=PureDP("0.5")),
    "parallel": Example(tree={"of": [LAPLACE, LAPLACE], "by": "unit"}, claim=QUARTER, scope="replacing"),
    "chain": Example(
        tree={"of": GAUSSIAN, "boundary": {"kind": "linear", "tuning": "0.01", "delta": "0.000001"}},
        claim=ApproxDP("0.6", "0.000001"),
        causes=(PrivacyFailure("0.000001", "time_uniform_boundary"),),
    ),
    "post_processed": Example(tree={"of": LAPLACE}, claim=QUARTER),
    "converted": Example(
        tree={"of": LAPLACE, "to": {"kind": "zcdp", "rho": "0.03125"}, "relation": "add_remove"},
        claim=ZCDP("0.03125"),
    ),
    "selected": Example(
        tree={"of": LAPLACE, "repeats": {"kind": "negative_binomial", "eta": "1", "gamma": "0.01", "most": 1000}},
        claim=PureDP("0.75"),
    ),
    "filtered": Example(tree={"filter": {"kind": "pure", "epsilon": "0.5"}, "of": [LAPLACE]}, claim=PureDP("0.5")),
}
"""By the kind of the tree's top. What has an outcome is run, so that it is recorded too."""

BOUNDED_CHAIN = Chain(GaussianLaw(10), boundary=LinearBoundary("0.01", "0.000001"))
PLAYS: Mapping[str, tuple[Interactive[Any, Any, Any, Any], Sequence[Any]]] = {
    "first-steps": (
        Training(
            claimed=PureDP("0.75"),
            made_of=Steps((LaplaceLaw("0.125"), LaplaceLaw("0.25"), LaplaceLaw("0.375"))),
            kind="training",
            planned_steps=3,
        ),
        (1, 2),
    ),
    "refined": (
        Refining(
            claimed=ApproxDP("0.6", "0.000001"),
            made_of=BOUNDED_CHAIN,
            causes=(PrivacyFailure("0.000001", "time_uniform_boundary"),),
        ),
        (GaussianLaw(40), GaussianLaw(20)),
    ),
    "never-refined": (Refining(claimed=QUARTER, made_of=Chain(LaplaceLaw("0.25"))), ()),
    "stable": (
        Stream(
            claimed=ApproxDP(2, "0.0001"),
            made_of=SparseVectorLaw("single_threshold", 2, 2, "0.0001", 1, 2, stable_at=40, monotone=True),
            kind="sparse_vector",
            causes=(PrivacyFailure("0.0001", "stability"),),
        ),
        (True, False, True),
    ),
    "target-charging": (
        Stream(
            claimed=ApproxDP(2, "0.00001"),
            made_of=SparseVectorLaw("target_charging", 2, 2, "0.00001", 0, "9.5", calls=25),
            kind="sparse_vector",
            causes=(PrivacyFailure("0.00001", "composition"),),
        ),
        (False, True, False),
    ),
}
"""By key: interactions that are closed before their end, and the queries of each. With them every member that a tree
may have stands in an entry, also of what was committed."""


def tree_of(kind: str, example: Example) -> Composition:
    """The tree of an example."""
    if kind == SparseVectorLaw.__dataclass_fields__["kind"].default:
        return stream("0.5", 2).parts()
    return parse_tree({"kind": kind, **example.tree})


def build(book: Ledger) -> Ledger:
    """Fill an empty ledger with all examples."""
    with patch("dpledger.ledger.charging.requests.LIBRARY", "dpledger 0.1.0"):
        for name, rule in FILTERS.items():
            book.scope(name, unit="patient", relation="add_remove", budget=rule)
        book.scope("replacing", unit="patient", relation="replace_one", budget=EITHER)
        for kind, example in EXAMPLES.items():
            _record(book, kind, example)
        _price(book)
        _play(book.scope("read", unit="patient", relation="add_remove", budget=EITHER, odometer=ODOMETER))
        _declare(book.scope("read"))
        _note(book)
        _fix(book)
        book.end("every kind was shown")
    return book


def _record(book: Ledger, kind: str, example: Example) -> None:
    scope = book.scope(example.scope)
    tree = tree_of(kind, example)
    if isinstance(tree, SparseVectorLaw):
        with scope.open(stream("0.5", 2), None, key=kind) as answers:
            for query in (True, False):
                answers.ask(query)
        return
    if isinstance(tree, ExPostDP):
        ran = replace(tree, outcome=ExPostOutcome("0.125"))
        scope.release(
            Once(claimed=example.claim, made_of=tree, kind="told", run=lambda *_: _nothing(None, ran)), None, key=kind
        )
        return
    told = Once(claimed=example.claim, made_of=tree, kind="told", causes=example.causes, run=_nothing)
    scope.reserve(told, key=kind, tail_delta=0)


def _price(book: Ledger) -> None:
    """A plan that is priced from its profile."""
    plan = Once(claimed=ZCDP("0.02"), made_of=tree_of("repeated", EXAMPLES["repeated"]), kind="told", run=_nothing)
    book.scope("either").reserve(plan, key="priced", tail_delta="0.0000001")


def _fix(book: Ledger) -> None:
    """A first charge that takes all of a budget, and fixes the filter that admits it, here and above."""
    budget = ApproxDP(2, "0.00001")
    book.scope("all", unit="patient", relation="add_remove", budget=budget)
    scope = book.scope("first", unit="patient", relation="add_remove", budget=budget, parents=["all"])
    causes = (PrivacyFailure("0.00001", "approximation"),)
    scope.release(Once(claimed=budget, made_of=budget, kind="told", causes=causes, run=_nothing), None, key="whole")


def _play(scope: Scope) -> None:
    for key, (mechanism, queries) in PLAYS.items():
        with scope.open(mechanism, None, key=key, tail_delta=0) as run:
            for query in queries:
                run.ask(query)


def _declare(scope: Scope) -> None:
    """Runs elsewhere: over, granted some of its steps, given back, refused."""
    said: dict[str, Any] = {"by": "The ward", "reason": "it reads the same patients", "relation": "add_remove"}
    scope.charge(
        PureDP("0.125"),
        key="elsewhere",
        evidence="sha256:" + "cd" * 32,
        mechanism="registry_count",
        library="the registry's own",
        parameters={"published": "2026"},
        of="unit",
        **said,
    )
    plan = tree_of("repeated", EXAMPLES["repeated"])
    with scope.charging(plan, steps=4, key="elsewhere/steps", tail_delta=0, **said) as run:
        run.grant(2)
    with scope.charging(PureDP("0.125"), key="elsewhere/nothing", **said) as run:
        run.nothing_ran()
    with suppress(BudgetRefused):
        scope.charge(PureDP(64), key="elsewhere/refused", evidence="a letter of 3 March", **said)


def _note(book: Ledger) -> None:
    """Audits with every member that may be absent: about a charge, and a point that fell; intended, of a pair that was
    made up, whose strata fell together; blind, of rows that are no pair."""
    charge = next(name for name, open_ in sorted(book.state.open.items()) if open_.key == "gaussian")
    book.scope("either").record(
        Audited(
            mechanism=MechanismNote("told", {}, "dpledger 0.1.0"),
            claim=TENTH_OF_MU,
            relation=Relation.ADD_REMOVE,
            verdict="violation",
            epsilon_lower="0.25",
            delta="0.00001",
            confidence="0.95",
            trials_left=100_000,
            trials_right=100_000,
            event="output >= 3",
            method="threshold",
            refuted=RefutedPoint(epsilon="0.125", delta="0.0078125", epsilon_lower="0.1875"),
            charge=charge,
        )
    )
    book.declare("own_reading_room", "The record is shown to visitors.", by="The archive")
    told = MechanismNote("told", {}, "dpledger 0.1.0")
    numbers: dict[str, Any] = {
        "relation": Relation.ADD_REMOVE,
        "confidence": "0.95",
        "seed": 11,
        "schedule": "blocks_1",
    }
    digests: dict[str, Any] = {"code": "ab" * 32, "pair": "cd" * 32}
    said = book.scope("either").intend(Intended(mechanism=told, trials=20_000, **numbers, **digests))
    found: dict[str, Any] = {
        **numbers, "mechanism": told, "claim": TENTH_OF_MU, "delta": "0.00001", "method": "wealth",
        "epsilon_lower": "0", "event": "output >= 3",
    }  # fmt: skip
    book.scope("either").record(
        Audited(
            **found,
            **digests,
            verdict="violation",
            trials_left=16_384,
            trials_right=16_384,
            e_value=Decimal("20.5"),
            together=True,
            arms=12,
        ),
        intended=said.index,
    )
    book.record(
        Audited(
            **found,
            verdict="not_refuted",
            trials_left=128,
            trials_right=128,
            blind="every run gave the same output, on both datasets",
            apart="no neighbours under add_remove: 0 rows in left alone, 3 in right alone, 1 a unit",
        )
    )


def _nothing(data: Any, parts: Composition) -> Release[Any]:
    return Release(value=None, parts=parts)


def kinds_in(value: object) -> Iterator[str]:
    """Every `kind` that stands in a payload, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from kinds_in(item)
