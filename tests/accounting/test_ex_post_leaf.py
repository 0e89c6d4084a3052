"""The leaf `ex_post`: what a declared loss of the outcome costs, what comes back, and whose word that is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.arithmetic.conversions import mu_squared_of_pure, zcdp_of_pure
from dpledger.accounting.composition import (
    ExPostDP,
    ExPostOutcome,
    Group,
    PoissonSampled,
    Repeated,
    Sequence,
    SparseVectorOutcome,
)
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure, PureDP
from dpledger.accounting.kinds import rules_of
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.pricing.costs import cost
from dpledger.errors import ContractViolation, ParameterError, ScopeBusy
from dpledger.ledger.accounts.recomposition import attested
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, Told

ADD = Relation.ADD_REMOVE
PURE = ExPostDP(1, "pure")
MIXED = ExPostDP(1, "integrated", "1e-6")
LOST = ExPostOutcome("0.25")


def ran(leaf: ExPostDP, outcome: ExPostOutcome = LOST) -> ExPostDP:
    return replace(leaf, outcome=outcome)


# ---- what it costs --------------------------------------------------------------------------------------------------


def test_the_price_falls_to_the_loss_as_an_epsilon_and_nowhere_else() -> None:
    cap, settled = cost(PURE, ADD), cost(ran(PURE), ADD)
    assert [cap.pure, settled.pure] == [1, Decimal("0.25")]
    assert cap.rho == settled.rho == zcdp_of_pure(Decimal(1))
    assert cap.mu_squared == settled.mu_squared == mu_squared_of_pure(Decimal(1))


@pytest.mark.parametrize("sense", ["integrated", "probabilistic"])
def test_a_loss_that_may_fail_keeps_its_delta(sense: Any) -> None:
    for leaf, epsilon in ((ExPostDP(1, sense, "1e-6"), 1), (ExPostDP(1, sense, "1e-6", LOST), Decimal("0.25"))):
        price = cost(leaf, ADD)
        assert (price.pure, price.delta, price.rho) == (epsilon, Decimal("1e-6"), zcdp_of_pure(Decimal(1)))
        assert price.mu_squared is None
        assert rules_of(leaf).price.exclusive(leaf)
    assert not rules_of(PURE).price.exclusive(PURE)


masses = st.lists(st.integers(0, 40), min_size=2, max_size=7)


@given(masses, masses, st.lists(st.floats(0, 1.5), min_size=7, max_size=7))
@settings(deadline=None)
def test_one_good_part_keeps_the_loss_and_the_renyi_price(left: list[int], right: list[int], told: list[float]) -> None:
    """docs/proofs/filters.md, "Setting": a part of P that misses at most delta, lies below e^E Q and has at most the
    Renyi moment of a response; found as the proof finds it, for any two lists and any E."""
    size = min(len(left), len(right))
    p, q = np.array(left[:size], dtype=float), np.array(right[:size], dtype=float)
    if not p.sum() or not q.sum():
        return
    p, q, loss = p / p.sum(), q / q.sum(), np.array(told[:size])
    cap = float(loss.max())
    delta = max(np.maximum(a - np.exp(loss) * b, 0).sum() for a, b in ((p, q), (q, p)))
    kept, beside = np.minimum(p, np.exp(loss) * q), np.minimum(q, np.exp(loss) * p)
    if kept.sum() > beside.sum():
        kept = _lightened(kept, beside, cap)
    else:
        beside = _lightened(beside, kept, cap)
    assert kept.sum() >= 1 - delta - 1e-9
    assert (kept <= np.exp(loss) * q + 1e-12).all()
    for order in (1.5, 3.0, 8.0):
        some = kept > 0
        moment = (kept[some] ** order * q[some] ** (1 - order)).sum()
        assert moment <= math.cosh((order - 0.5) * cap) / math.cosh(cap / 2) + 1e-9


def _lightened(heavy: Any, light: Any, cap: float) -> Any:
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        fits = np.maximum(math.exp(-cap) * light, (1 - middle) * heavy).sum() <= light.sum()
        low, high = (low, middle) if fits else (middle, high)
    return np.maximum(math.exp(-cap) * light, (1 - high) * heavy)


def test_a_group_and_a_sample_of_it() -> None:
    pair = cost(Group(MIXED, k=2, relation=ADD), Relation.REPLACE_ONE)
    assert pair.pure == 2
    assert float(pair.delta) == pytest.approx(1e-6 * (1 + math.e))
    assert cost(Group(ran(MIXED), k=2, relation=ADD), Relation.REPLACE_ONE).delta == pair.delta
    assert cost(Group(ran(MIXED), k=2, relation=ADD), Relation.REPLACE_ONE).pure == Decimal("0.5")
    sample = PoissonSampled(PURE, rate="0.1")
    assert cost(sample, ADD).pure == cost(PoissonSampled(ran(PURE), rate="0.1"), ADD).pure
    assert float(cost(sample, ADD).pure or 0) == pytest.approx(math.log1p(0.1 * math.expm1(1)))


def test_one_loss_says_nothing_of_other_runs() -> None:
    assert cost(Repeated(ran(PURE), times=3), ADD).pure == 3


def test_a_pure_one_has_no_delta() -> None:
    with pytest.raises(ParameterError, match=r"ExPostDP\.delta: expected 0 in the sense pure"):
        ExPostDP(1, "pure", "1e-6")


# ---- what it adds up to, exactly ------------------------------------------------------------------------------------


def test_losses_of_outcomes_add_up_along_every_path() -> None:
    """Two runs of "a public coin picks epsilon 0.1 or 1": on each path the log ratio is within the sum of what was
    stated; the largest is within the cap."""
    steps = (Decimal("0.1"), Decimal(1))
    for first, second in itertools.product(steps, steps):
        tree = Sequence((ran(PURE, ExPostOutcome(first)), ran(PURE, ExPostOutcome(second))))
        price = cost(tree, ADD).pure
        assert price == first + second
        exact = math.log(math.exp(float(first)) * math.exp(float(second)))
        assert exact <= float(price) + 1e-12


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def released(leaf: ExPostDP, told: Any) -> dpl.Ledger:
    book = dpl.Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.00001"))
    scope.release(Once(claimed=PureDP(1), made_of=leaf, run=lambda data, _: Release(value=data, parts=told)), 7)
    return book


def test_a_ledger_settles_it_at_the_stated_loss_and_says_that_it_is_stated() -> None:
    book = released(PURE, ran(PURE))
    book.verify()
    (admission,) = book.scope("s").account().admissions
    assert [admission.reserved["pure"], admission.charged["pure"]] == [1, Decimal("0.25")]
    assert admission.rule == "ex_post"
    assert attested(admission.parts) == (ran(PURE),)
    assert "fell to its realised loss; the mechanism&#39;s own word" in dpl.report(book).html()


def test_a_loss_above_the_cap_is_none_and_the_cap_stands() -> None:
    with pytest.raises(ContractViolation, match="the full charge stands"):
        released(PURE, ran(PURE, ExPostOutcome("1.5")))


def test_a_stated_loss_counts_no_answers() -> None:
    """So beside an outcome that counts them it hides none."""
    assert outcomes.answers(ran(PURE)) is None
    counted = dpl.planning.SparseVectorLaw("basic", 1, 1, 0, 2, 4)
    tree = Sequence((ran(PURE), replace(counted, outcome=SparseVectorOutcome((), 2, halted=False))))
    assert outcomes.answers(tree) == 2


def test_laws_are_no_word_and_promises_are() -> None:
    word = dpl.PrivacyCurve((0, 1), ("0.5", "0.1"))
    tree = Sequence((dpl.LaplaceLaw(1), word, dpl.planning.SparseVectorLaw("basic", 1, 1, 0, 2, 4), PureDP(1)))
    assert attested(tree) == (word, PureDP(1))


@dataclass(frozen=True)
class Talk(Told):
    """An interaction that answers with what it is asked."""

    def open(self, data: Any, *, entropy: Entropy) -> Any:
        made_of = self.made_of

        class Run:
            def ask(self, query: Any, /) -> Any:
                return query

            def close(self) -> Release[None]:
                return Release(value=None, parts=made_of)

        return Run()


def test_an_interaction_that_may_fail_runs_alone() -> None:
    """Its two prices have one good part on whole transcripts only; a pure one has its bound on every path."""
    scope = dpl.Ledger.in_memory().scope("s", unit="p", relation="add_remove", budget=ApproxDP(9, "0.00001"))
    pure = Talk(claimed=PureDP(1), made_of=PURE)
    failing = Talk(claimed=ApproxDP(1, "1e-6"), made_of=MIXED, causes=(PrivacyFailure("1e-6", "approximation"),))
    with scope.open(pure, None), scope.open(pure, None), pytest.raises(ScopeBusy):
        scope.open(failing, None)
    with scope.open(failing, None), pytest.raises(ScopeBusy):
        scope.open(pure, None)
