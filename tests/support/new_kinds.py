"""Kinds of leaves that an outsider adds: the edits that CONTRIBUTING asks for, in a copy of the package.

A `Kind` is the text of its edits, place by place. `house` makes the copy, with any of them left out; `ran` runs a
script in it, in a fresh process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["BIT", "COUNTED", "Kind", "facts", "house", "ran", "without"]

ROOT = Path(__file__).resolve().parents[2]

FIELDS = '''"""The record of a new law."""

from __future__ import annotations

from typing import Literal

from dpledger.number_fields import Count, Exact, Probability, Tally
from dpledger.schema import given, record, tag
'''


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`name`: of the record. `record`: its class, in the `leaf` of its family. `union`: its line in the union. `rules`:
    the module of that name, `module` the family and `constant` the object in it. `table`: its line in the table."""

    name: str
    record: str
    union: str
    module: str
    rules: str
    constant: str
    table: str


def house(folder: Path, kind: Kind) -> Path:
    """A copy of the package with the edits of a kind made in it."""
    package = folder / "dpledger"
    shutil.copytree(ROOT / "src" / "dpledger", package, ignore=shutil.ignore_patterns("__pycache__"))
    accounting = package / "accounting"
    leaves, table, family = accounting / "leaves.py", accounting / "kinds.py", accounting / "families" / kind.module
    family.mkdir()
    (family / "__init__.py").write_text(f'"""The family {kind.module}: what an outsider adds."""\n')
    (family / "leaf.py").write_text(FIELDS + kind.record)
    imported = f"from dpledger.accounting.families.{kind.module}.leaf import {kind.name}\n"
    _insert(leaves, "from dpledger.accounting.families.bounded_range.leaf import ExponentialLaw\n", imported)
    _insert(leaves, "Leaf: TypeAlias = (\n    PureDP\n", kind.union)
    (family / "rules.py").write_text(kind.rules)
    if kind.table:
        imported = f"from dpledger.accounting.families.{kind.module}.rules import {kind.constant}\n"
        _insert(table, "from dpledger.accounting.leaves import Leaf\n", imported)
    _insert(table, "EVERY_KIND: Final = table(\n", kind.table)
    return folder


def _insert(file: Path, after: str, text: str) -> None:
    source = file.read_text()
    assert source.count(after) == 1, f"{file.name} no longer has: {after}"
    file.write_text(source.replace(after, after + text))


def ran(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """The script in a fresh process that imports the copy, and the tests' support."""
    path = os.pathsep.join([str(folder), str(ROOT / "tests" / "support")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def facts(kind: Kind) -> list[str]:
    """The facts that its rules state, one a line."""
    stated = kind.rules.partition("= LeafRules(\n")[2].partition("\n)")[0]
    lines = [line for line in stated.splitlines() if line.startswith("    ") and line.strip() != "),"]
    return [line.strip().partition("=")[0] for line in lines if not line.endswith("(")]


def without(kind: Kind, fact: str) -> Kind:
    """The same, with one fact left out."""
    lines = kind.rules.splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(f"{fact}=")]
    assert len(kept) == len(lines) - 1
    return replace(kind, rules="".join(kept))


BIT = Kind(
    name="BitLaw",
    record='''

@record
class BitLaw:
    """A bit: 1 with probability `present` where the unit is there, with probability `absent` where it is not."""

    present: Probability
    absent: Probability
    kind: Literal["bit"] = tag(default="bit")
''',
    union="    | BitLaw\n",
    module="bit",
    constant="BIT",
    table="    BIT,\n",
    rules='''"""One bit, likelier with the unit than without it: the law `bit`."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import approximate_cost
from dpledger.accounting.families.declared.pmf_price import pmf_epsilon, pmf_failure
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    BY_ITS_LOSSES,
    BatchFacts,
    EXACT,
    GroupFacts,
    HAS_A_PAIR,
    LeafRules,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    NO_SQUARES,
    ONE_MECHANISM,
    PairFacts,
    PriceFacts,
    may_overlap,
    no_group,
    no_theorem,
    states_no_orders,
)
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import listed_pair
from dpledger.accounting.families.bit.leaf import BitLaw


def _sides(leaf):
    return (leaf.present, 1 - leaf.present), (leaf.absent, 1 - leaf.absent)


def _price(leaf, relation, orders):
    left, right = _sides(leaf)
    return approximate_cost(pmf_epsilon(left, right), pmf_failure(left, right), orders)


def _bracket(leaf, relation):
    pair = listed_pair(*_sides(leaf))
    return PairBracket(pair, pair)


def _failure(leaf, direction):
    left, right = _sides(leaf) if direction == "remove" else _sides(leaf)[::-1]
    return sum((Fraction(p) for p, q in zip(left, right) if not q), Fraction(0))


BIT = LeafRules(
    kind=BitLaw,
    attested=False,
    price=PriceFacts(
        cap=_price,
        exclusive=may_overlap,
        stated_orders=states_no_orders,
        noise_fields=NO_FIELDS,
        loss_fields=NO_FIELDS,
        in_floats=False,
    ),
    pair=PairFacts(
        failure=_failure,
        mirrors=lambda _: "not",
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
        squares=NO_SQUARES,
        renyi=HAS_A_PAIR,
        envelope=ONE_MECHANISM,
        reason=EXACT,
    ),
    group=GroupFacts(
        grouped=no_group("bit"),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=BatchFacts(
        sampled=BY_ITS_BRACKET,
        shuffled=no_theorem("shuffled is certified for pure local randomisers, not for bit"),
        quick=False,
        null_is_absence=False,
        divergences=BY_ITS_LOSSES,
    ),
    outcome=NO_OUTCOME,
)
''',
)
"""Its two directions differ: of 0.9 and 0.5 removing the unit shows log 1.8, adding it log 5."""


COUNTED = Kind(
    name="CountedLaw",
    record='''

@record
class CountedOutcome:
    """How many questions were asked."""

    asked: Tally
    kind: Literal["counted_outcome"] = tag(default="counted_outcome")


@record
class CountedLaw:
    """Up to `most` adaptively chosen questions, each answered with `epsilon`-DP; it publishes how many were asked."""

    epsilon: Exact
    most: Count
    outcome: CountedOutcome | None = given(default=None)
    kind: Literal["counted"] = tag(default="counted")
''',
    union="    | CountedLaw\n",
    module="counted",
    constant="COUNTED",
    table="    COUNTED,\n",
    rules='''"""Questions that are counted: the law `counted`, of which a run that asks fewer costs less."""

from __future__ import annotations

from dpledger.accounting.arithmetic.prices import pure_cost
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    BY_ITS_LOSSES,
    BatchFacts,
    EXACT,
    ExPost,
    GroupFacts,
    HAS_A_PAIR,
    LeafRules,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_SQUARES,
    ONE_MECHANISM,
    PairFacts,
    PriceFacts,
    may_overlap,
    mirrors_itself,
    never_fails,
    no_theorem,
    states_no_orders,
)
from dpledger.accounting.families.declared.worst_case import approximate_bracket
from dpledger.accounting.families.counted.leaf import CountedLaw
from dpledger.decimals import ZERO, multiply
from dpledger.errors import ParameterError


def _whole(leaf):
    return multiply(leaf.epsilon, leaf.most)


def _require_possible(leaf):
    if leaf.outcome.asked > leaf.most:
        raise ParameterError("CountedOutcome.asked", leaf.outcome.asked, f"at most {leaf.most}")


EX_POST = ExPost(
    known=lambda leaf: leaf.outcome is not None,
    planned=lambda leaf: CountedLaw(leaf.epsilon, leaf.most),
    answers=lambda leaf: leaf.outcome.asked,
    require_possible=_require_possible,
    loss=lambda leaf: multiply(leaf.epsilon, leaf.outcome.asked),
)

COUNTED = LeafRules(
    kind=CountedLaw,
    attested=False,
    price=PriceFacts(
        cap=lambda leaf, relation, orders: pure_cost(_whole(leaf), orders),
        exclusive=may_overlap,
        stated_orders=states_no_orders,
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
        in_floats=False,
    ),
    pair=PairFacts(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=lambda leaf, relation: approximate_bracket(_whole(leaf), ZERO),
        alone=BY_ITS_BRACKET,
        squares=NO_SQUARES,
        renyi=HAS_A_PAIR,
        envelope=ONE_MECHANISM,
        reason=EXACT,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, relation: PureDP(multiply(_whole(leaf), k)),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=BatchFacts(
        sampled=BY_ITS_BRACKET,
        shuffled=no_theorem("shuffled is certified for pure local randomisers, not for counted"),
        quick=False,
        null_is_absence=False,
        divergences=BY_ITS_LOSSES,
    ),
    outcome=EX_POST,
)
''',
)
"""Questions asked past `most` are no outcome that it can have."""
