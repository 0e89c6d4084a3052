"""What comes back of a gradual release, under each kind of budget and in each account: exactly what the rule allows.

A Laplace chain costs its cap until it is closed, and then the epsilon of its last level where epsilons are added up;
the other accounts keep the cap. A Gaussian chain gives back what was not taken in every account; with a boundary it has
an epsilon too.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpledger.accounting.composition import Chain, LaplaceLaw
from dpledger.accounting.ex_post.boundaries import LinearBoundary
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.errors import BudgetRefused, ContractViolation, ParameterError
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.refinement import GradualGaussian, GradualRelease
from dpledger.mechanisms.threshold import AboveThreshold
from dpledger.relations import Relation

LAPLACE = GradualRelease(epsilon=2, sensitivity=1)
WHOLE = GradualRelease(epsilon=2, whole=True, sensitivity=1)
FINE = GradualRelease(epsilon="0.04", sensitivity=1)
GAUSSIAN = GradualGaussian(mu="0.5", sensitivity=1)
BOUNDED = GradualGaussian(mu="0.5", boundary=LinearBoundary(tuning="0.25", delta="1e-7"), sensitivity=1)
BUDGETS: dict[str, Guarantee] = {
    "pure": PureDP(10),
    "approximate": ApproxDP(10, "1e-6"),
    "zcdp": ZCDP(10),
    "approximate zcdp": ZCDP(10, "1e-6"),
    "gdp": GDP(10),
    "rdp": RDP((2, 8), (10, 10)),
}
MECHANISMS: dict[str, Any] = {
    "laplace": LAPLACE,
    "whole": WHOLE,
    "fine": FINE,
    "gaussian": GAUSSIAN,
    "bounded": BOUNDED,
}
MIXED = {"mixed_pure_0", "mixed_pure_1"}
RENYI = {"mixed_rdp_0", "mixed_rdp_1"}
BACK: dict[tuple[str, str], set[str]] = {
    ("laplace", "pure"): {"pure"},
    ("laplace", "approximate"): {"pure", *MIXED},
    ("laplace", "zcdp"): set(),
    ("laplace", "approximate zcdp"): set(),
    ("laplace", "gdp"): set(),
    ("laplace", "rdp"): {"pure"},
    ("fine", "pure"): {"pure"},
    ("fine", "approximate"): {"pure"},  # so little is charged as rho in the mixed accounts, and stays
    ("fine", "zcdp"): set(),
    ("fine", "approximate zcdp"): set(),
    ("fine", "gdp"): set(),
    ("fine", "rdp"): set(),
    ("gaussian", "approximate"): RENYI,
    ("gaussian", "zcdp"): {"rho"},
    ("gaussian", "approximate zcdp"): {"rho"},
    ("gaussian", "gdp"): {"mu_squared"},
    ("gaussian", "rdp"): {"rdp_0", "rdp_1"},
    ("bounded", "approximate"): {"pure", *RENYI},
    ("bounded", "approximate zcdp"): {"rho"},
}
BACK |= {("whole", budget): back for (mechanism, budget), back in BACK.items() if mechanism == "laplace"}
REFUSED = {
    ("gaussian", "pure"),  # Gaussian noise has no epsilon without a boundary
    ("bounded", "pure"),  # and with one it has a delta
    ("bounded", "zcdp"),
    ("bounded", "gdp"),
    ("bounded", "rdp"),
}


def opened(budget: Guarantee) -> Scope:
    return Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=budget)


def settled(scope: Scope) -> tuple[dict[str, Decimal], dict[str, Decimal], Committed]:
    """Of the last charge, what was reserved and what was charged; and its commit. The whole record verifies."""
    scope._ledger.verify()
    admission = list(scope.account().admissions)[-1]
    body = scope._ledger.entry(len(scope._ledger) - 1).body
    assert isinstance(body, Committed)
    return dict(admission.reserved), dict(admission.charged), body


@pytest.mark.parametrize(("mechanism", "budget"), list(BACK))
def test_what_comes_back_is_what_the_rule_allows(mechanism: str, budget: str) -> None:
    gradual, scope = MECHANISMS[mechanism], opened(BUDGETS[budget])
    cap = Decimal(getattr(gradual, gradual.measure))
    with scope.open(gradual, 100) as answers:
        for part in ("0.125", "0.25"):
            answers.ask(cap * Decimal(part))
    reserved, charged, commit = settled(scope)
    assert {name for name in reserved if reserved[name] != charged[name]} == BACK[mechanism, budget]
    assert all(charged[name] < reserved[name] for name in BACK[mechanism, budget])
    assert commit.rule == ("ex_post" if BACK[mechanism, budget] else "cap")
    ran = cost(Chain(gradual.parts().of, gradual.level_of(cap / 4), gradual.parts().boundary), Relation.ADD_REMOVE)
    known = {"pure": ran.pure, "rho": ran.rho, "mu_squared": ran.mu_squared}
    for name in BACK[mechanism, budget] & set(known):
        assert charged[name] == known[name]


@pytest.mark.parametrize(("mechanism", "budget"), sorted(REFUSED))
def test_a_budget_that_has_no_price_for_it_refuses_it(mechanism: str, budget: str) -> None:
    scope = opened(BUDGETS[budget])
    with pytest.raises(BudgetRefused):
        scope.open(MECHANISMS[mechanism], 100)


def test_every_budget_was_tried_with_every_chain() -> None:
    tried = set(BACK) | REFUSED
    assert tried == {(mechanism, budget) for mechanism in MECHANISMS for budget in BUDGETS}


@pytest.mark.parametrize("mechanism", [LAPLACE, WHOLE])
def test_closed_before_the_first_level_an_epsilon_comes_back_whole(mechanism: GradualRelease) -> None:
    scope = opened(PureDP(2))
    with scope.open(mechanism, 100):
        pass
    assert settled(scope)[1] == {"pure": 0}
    with scope.open(mechanism, 100) as answers:
        answers.ask(2)
    assert settled(scope)[1] == {"pure": 2}


def test_the_next_one_is_paid_from_what_came_back_and_not_before() -> None:
    scope = opened(PureDP(3))
    with scope.open(LAPLACE, 100) as answers:
        answers.ask("0.5")
        with pytest.raises(BudgetRefused):
            scope.open(LAPLACE, 100)
    with scope.open(LAPLACE, 100) as answers:
        answers.ask("0.5")
    assert scope.spent(0).upper == 1


def test_a_refused_level_costs_nothing_and_the_next_one_is_answered() -> None:
    scope = opened(PureDP(2))
    with scope.open(LAPLACE, 100) as answers:
        answers.ask("0.5")
        for level in ("0.5", "0.25", "2.5", "x"):
            with pytest.raises(ParameterError, match="epsilon"):
                answers.ask(level)
        answers.ask("0.75")
    assert settled(scope)[2].parts == Chain(LaplaceLaw(2), LaplaceLaw("0.75"))


def test_the_receipt_holds_the_last_answer_and_the_ledger_its_level_alone() -> None:
    scope = opened(PureDP(2))
    with scope.open(GradualRelease(epsilon=2, whole=True, sensitivity=1), 123456789) as answers:
        last = [answers.ask(level) for level in ("0.5", "1.5")][-1]
    assert answers.receipt.value == last
    commit = settled(scope)[2]
    assert isinstance(commit.parts, Chain)
    assert commit.parts.reached == WHOLE.level_of("1.5")
    assert str(last) not in str(commit)


def test_an_open_interaction_says_how_it_stands_and_no_answer() -> None:
    with opened(PureDP(10)).open(LAPLACE, 1234) as run:
        run.ask("0.5")
        assert repr(run) == "<Session of gradual_release: open, 1 answers>"
    assert repr(run) == "<Session of gradual_release: closed, 1 answers>"
    with opened(PureDP(10)).open(AboveThreshold(1, 0, sensitivity=1), []) as broken, pytest.raises(ContractViolation):
        broken.ask(lambda _: 1 / 0)
    assert repr(broken) == "<Session of above_threshold: ended at its full charge, 0 answers>"
