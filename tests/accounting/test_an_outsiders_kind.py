"""A new kind of leaf, added by the letter of CONTRIBUTING in a copy of the package: whole it is certified, and with any
step or fact left out it is an error, never a number.

The first is a bit whose two directions differ: 1 with probability 0.9 with the unit, 0.5 without. Removing the unit
shows log 1.8 = 0.5878, adding it log 5 = 1.6094; whoever takes one direction for both certifies the first.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from dpledger.accounting.families.leaf_rules import BatchFacts, ExPost, GroupFacts, PairFacts, PriceFacts
from new_kinds import BIT, COUNTED, Kind, facts, house, ran, without

pytestmark = pytest.mark.sliced

GROUPS: tuple[type[Any], ...] = (PriceFacts, PairFacts, GroupFacts, BatchFacts)
ROOT = Path(__file__).resolve().parents[2]

CERTIFIED = """
from dpledger.accounting.composition import PmfPair, PoissonSampled, Repeated
from dpledger.accounting.families.bit.leaf import BitLaw
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.profile import compose
from dpledger.relations import Relation
from dpledger.schema import plain
from decimal import Decimal
import math

bit, pair = BitLaw("0.9", "0.5"), PmfPair(("0.9", "0.1"), ("0.5", "0.5"))
assert parse_tree(plain(bit)) == bit
bounds = compose(bit).epsilon(0)
assert bounds.lower <= math.log(5) <= bounds.upper < 1.60944, bounds
assert compose(bit, direction="remove").epsilon(0).upper < 0.58779
for tree in (lambda leaf: leaf, lambda leaf: Repeated(leaf, times=7), lambda leaf: PoissonSampled(leaf, rate="0.3")):
    for delta in ("0", "0.001", "0.1"):
        assert compose(tree(bit)).epsilon(delta) == compose(tree(pair)).epsilon(delta)
    assert cost(tree(bit), Relation.ADD_REMOVE).pure == cost(tree(pair), Relation.ADD_REMOVE).pure
print("certified")
"""

NUMBER = """
from dpledger.accounting.families.bit.leaf import BitLaw
from dpledger.accounting.profile import compose
print("a number:", compose(BitLaw("0.9", "0.5")).epsilon(0))
"""

CONFORMS = """
from dpledger.accounting.families.bit.leaf import BitLaw
from leaf_conformance import Example, LeafConformance

example = Example(
    leaf=BitLaw("0.9", "0.5"), pair=lambda _: ([0.9, 0.1], [0.5, 0.5]),
    slack=0.0, grouped=False, sampled=True, shuffled=False, no_dials=frozenset({"present", "absent"}),
)
held = LeafConformance()
for name in dir(held):
    if name.startswith("test_"):
        getattr(held, name)(example)
print("conforms")
"""


def test_contributing_names_every_place_that_is_edited(tmp_path: Path) -> None:
    section = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding a guarantee or a law")[2].partition("\n## ")[0]
    )
    named = set(re.findall(r"`((?:accounting|ledger|src|tests)/[\w./]+)`", section))
    assert [place for place in sorted(named) if not (ROOT / place).exists()] == []
    copy = house(tmp_path, BIT) / "dpledger"
    edited = {
        str(file.relative_to(copy))
        for file in copy.rglob("*.py")
        if not (own := ROOT / "src" / "dpledger" / file.relative_to(copy)).exists()
        or own.read_text() != file.read_text()
    }
    families = "accounting/families/"
    assert {families if place.startswith(families) else place for place in edited} <= named
    assert len(edited) == 5


def test_the_bit_is_certified_in_both_directions(tmp_path: Path) -> None:
    run = ran(house(tmp_path, BIT), CERTIFIED + CONFORMS)
    assert run.stdout.split() == ["certified", "conforms"], run.stderr


def test_every_fact_is_one_that_the_bit_states() -> None:
    for kind in (BIT, COUNTED):
        assert facts(kind) == [
            "kind",
            "attested",
            *(field.name for group in GROUPS for field in dataclasses.fields(group)),
            "outcome",
        ]


def test_a_fact_that_is_left_out_is_an_error_at_import(tmp_path: Path) -> None:
    run = ran(house(tmp_path, without(BIT, "mirrors")), NUMBER)
    assert run.returncode != 0
    assert run.stdout == ""
    assert re.search("TypeError: .*missing 1 required keyword-only argument: 'mirrors'", run.stderr)


@pytest.mark.parametrize("kind", [BIT, COUNTED], ids=["bit", "interaction"])
def test_no_fact_has_a_default(kind: Kind, tmp_path: Path) -> None:
    """Those of its rules, and of an interaction those of its outcome; all of them in one process."""
    of_outcome = outcome_facts() if kind is COUNTED else []
    left_out = {fact: without(kind, fact).rules for fact in [*facts(kind), *of_outcome]}
    script = (
        f"for fact, source in {left_out!r}.items():\n"
        "    try:\n"
        "        exec(source, {})\n"
        "    except TypeError as error:\n"
        "        assert f\"argument: '{fact}'\" in str(error), error\n"
        "        print(fact)\n"
    )
    run = ran(house(tmp_path, kind), script)
    assert run.stdout.split() == list(left_out), run.stderr


@pytest.mark.parametrize("step", ["record", "union", "rules", "table"])
def test_a_step_that_is_left_out_is_an_error_at_import(step: str, tmp_path: Path) -> None:
    run = ran(house(tmp_path, dataclasses.replace(BIT, **{step: ""})), NUMBER)
    assert run.returncode != 0
    assert run.stdout == ""
    assert re.search("(TypeError|ImportError): .*BitLaw|cannot import name 'BIT'", run.stderr), run.stderr


def test_a_kind_without_an_example_fails_the_conformance_of_all(tmp_path: Path) -> None:
    tests = Path(__file__).with_name("test_every_kind_of_leaf.py")
    script = f"import runpy; runpy.run_path({str(tests)!r})['test_every_kind_has_an_example']()"
    run = ran(house(tmp_path, BIT), script)
    assert run.returncode != 0
    assert "AssertionError" in run.stderr


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ('mirrors=lambda _: "not"', 'mirrors=lambda _: "itself"'),
        ('if direction == "remove"', 'if direction == "add"'),
        ("return approximate_cost(pmf_epsilon(left, right)", "return approximate_cost(Decimal('0.5878')"),
        ("pair = listed_pair(*_sides(leaf))", "pair = listed_pair(*_sides(leaf)[::-1])"),
    ],
)
def test_a_fact_that_is_untrue_fails_the_conformance_class(said: str, instead: str, tmp_path: Path) -> None:
    """The original mistake first: one direction taken for both."""
    assert BIT.rules.count(said) == 1
    untrue = dataclasses.replace(BIT, rules=BIT.rules.replace(said, instead))
    script = CONFORMS.replace('BitLaw("0.9", "0.5")', 'BitLaw("0.9", "0")').replace("[0.5, 0.5]", "[0.0, 1.0]")
    run = ran(house(tmp_path, untrue), script if "direction" in said else CONFORMS)
    assert run.returncode != 0
    assert "AssertionError" in run.stderr, run.stderr


# ---- an outcome -----------------------------------------------------------------------------------------------------

SETTLED = """
from decimal import Decimal
from typing import Any
from dpledger.accounting.composition import Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.families.counted.leaf import CountedLaw, CountedOutcome
from dpledger.accounting.pricing.outcomes import certain, planned
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Told


class Questions(Told):
    def open(self, data: Any, *, entropy: Any) -> "Asking":
        return Asking(self.made_of)


class Asking:
    def __init__(self, law: CountedLaw) -> None:
        self.law, self.asked = law, 0

    def ask(self, query: Any) -> int:
        self.asked += 1
        return 0

    def close(self) -> Release[int]:
        law = CountedLaw(self.law.epsilon, self.law.most, CountedOutcome(self.asked))
        return Release(value=self.asked, parts=law)


law = CountedLaw("0.1", 5)
run = CountedLaw("0.1", 5, CountedOutcome(2))
assert planned(run) == law and certain(run) is None and certain(law) is None
assert planned(Repeated(run, times=3, done=1)) == Repeated(law, times=3)

with Ledger.in_memory() as book:
    scope = book.scope("s", unit="person", relation="add_remove", budget=PureDP(1))
    with scope.open(Questions(claimed=PureDP("0.5"), made_of=law, kind="questions"), None) as session:
        session.ask("one")
        session.ask("two")
    committed = session.receipt.entry.body
    assert (committed.rule, committed.levels[0].amounts["pure"]) == ("ex_post", Decimal("0.2")), committed
    assert scope.spent(0).upper == 0.2 and scope.spent(0).lower == 0.0
    book.verify()
print("settled")
"""


def test_an_interaction_of_a_new_kind_is_refunded_what_it_did_not_lose(tmp_path: Path) -> None:
    """Nothing of the ledger names the kind: the cap, the outcome and the loss are asked of the leaf."""
    run = ran(house(tmp_path, COUNTED), SETTLED)
    assert run.stdout.split() == ["settled"], run.stderr


def outcome_facts() -> list[str]:
    return [field.name for field in dataclasses.fields(ExPost)]


def test_an_outcome_that_costs_more_than_the_plan_is_charged_the_plan(tmp_path: Path) -> None:
    rules = COUNTED.rules.replace("leaf.epsilon, leaf.outcome.asked)", "leaf.epsilon, 9)")
    dear = dataclasses.replace(COUNTED, rules=rules)
    script = SETTLED.partition("with Ledger")[0] + (
        "from dpledger.accounting.pricing.costs import cost\n"
        "prices = [cost(leaf, Relation.ADD_REMOVE).pure for leaf in (law, run)]\n"
        "assert prices == [Decimal('0.5'), Decimal('0.5')], prices\n"
    )
    run = ran(house(tmp_path, dear), script)
    assert run.returncode == 0, run.stderr
