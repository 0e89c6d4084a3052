"""The ex-post exhibits of the zoo, and what is wrongly made of realised losses: each true loss again, by enumeration or
quadrature; and the auditor finds every fault, in its stratum, and never more than the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pytest

from above_threshold_oracle import Run
from dpledger.accounting.composition import Chain, LaplaceLaw, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.audit import ExPostClaim, audit_mechanism
from dpledger.audit.zoo import ZOO
from dpledger.audit.zoo.ex_post import EX_POST
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.threshold import AboveThreshold
from dpledger.relations import Relation
from exhibits import judged
from zoo_oracle import (
    accurate_losses,
    by_round,
    coin_law,
    comparison_losses,
    doubling_law,
    epsilon_at,
    halting_losses,
    kept,
    rare_law,
    worst,
)

TRIALS = {"above_threshold_comparison_published": 1_000_000}
TOGETHER = {"delta_in_every_stratum"}  # no stratum falls alone


@pytest.mark.parametrize("name", list(EX_POST))
def test_every_exhibit_gets_the_verdict_that_its_true_losses_ask_for(name: str) -> None:
    result = judged(name, trials=TRIALS.get(name, 100_000))
    true = dict(ZOO[name].strata)
    assert {stratum.epsilon for stratum in result.evidence.strata} == set(true)
    if result.verdict == "violation" and name not in TOGETHER:
        assert result.stratum is not None
        assert true[result.stratum.epsilon] > float(result.stratum.epsilon)


@pytest.mark.parametrize(
    ("name", "cap"),
    [("above_threshold_halt_billed_as_silence", PureDP(1)), ("accuracy_first_half_query", PureDP("2.8"))],
    ids=["a halt", "half of the query"],
)
def test_pooling_hides_it(name: str, cap: PureDP) -> None:
    """The same runs, held to the cap that the mechanism has beforehand: nothing is found."""
    shown = ZOO[name]
    pooled = audit_mechanism(shown.mechanism, shown.left, shown.right, cap, trials=100_000, batched=True, seed=11)
    assert pooled.verdict == "not_refuted"
    assert shown.faulty


# ---- the true losses ------------------------------------------------------------------------------------------------


def stated(name: str) -> dict[Decimal, float]:
    return dict(ZOO[name].strata)


def is_stated(name: str, losses: Mapping[int, float], claimed: Mapping[int, str]) -> None:
    """The losses of an exhibit, by place, are those of its strata: each the greatest of its places."""
    found: dict[Decimal, float] = {}
    for place, loss in losses.items():
        stratum = Decimal(claimed[place])
        found[stratum] = max(found.get(stratum, 0.0), loss)
    assert set(found) == set(stated(name))
    for stratum, loss in found.items():
        assert loss == pytest.approx(stated(name)[stratum], abs=1e-9), stratum


def test_coins() -> None:
    law = coin_law((0.01, 5))
    for name, dear in (("published_coin", "5"), ("published_coin_billed_too_low", "4")):
        by_coin = {which: worst(pair for (w, *_), pair in law.items() if w == which) for which in (0, 1)}
        is_stated(name, by_coin, {0: "0.01", 1: dear})
    assert worst(law.values()) == pytest.approx(ZOO["coin_that_came_up_cheap"].true_epsilon)
    spent = coin_law((0.01, 5), 0.9)
    assert worst(spent.values()) == pytest.approx(ZOO["budget_tested_after_the_outcome"].true_epsilon)


def test_what_is_wrongly_made_of_realised_losses() -> None:
    rare = rare_law(100, 0.01, 1)
    assert epsilon_at(rare, 1e-6) == pytest.approx(ZOO["realised_losses_squared"].true_epsilon, abs=1e-9)
    one_way = sum(max(0.0, p - math.exp(0.5307) * q) for p, q in rare)
    assert one_way == pytest.approx(0.2103, abs=5e-5)
    assert rare[0][0] == pytest.approx(0.561, abs=5e-4)
    hidden = (1 - kept(1)) ** 10
    assert math.log((1 - hidden) / hidden) == pytest.approx(ZOO["best_of_hidden_runs"].true_epsilon, abs=1e-9)
    assert 1 - 0.99**10 > 0.09, "the delta of ten revealing runs, where 0.01 is claimed"


def test_one_delta_is_for_all_strata() -> None:
    """In each of ten strata the bit itself has mass 0.01, of which the other side has none: each keeps its claim at
    delta 0.01, and together they need 0.1."""
    shown = ZOO["delta_in_every_stratum"]
    for claimed, _ in shown.strata:
        answer = kept(float(claimed)) * 0.09
        other = (1 - kept(float(claimed))) * 0.09
        event = answer + 0.01 - math.exp(float(claimed)) * other
        assert event <= 0.01 + 1e-12
    assert shown.true_delta == pytest.approx(10 * 0.01)


PLACES = {0: "0.25", 1: "0.5", 2: "0.75", 3: "1", 4: "1", 5: "1", 6: "0.5"}


def test_thresholds() -> None:
    left: Any = ZOO["above_threshold_losses"].left
    right: Any = ZOO["above_threshold_losses"].right
    losses = halting_losses(Run(2, 4), left, right)
    is_stated("above_threshold_losses", losses, PLACES)
    silent = {place: "0.25" if not place else "0.5" for place in losses}
    is_stated("above_threshold_halt_billed_as_silence", losses, silent)
    published = comparison_losses(1, 2, (0.0,) * 8, (1.0,) * 8)
    billed = {place: f"{min(2, (place + 1) / 2):g}" for place in range(8)} | {8: "1"}
    is_stated("above_threshold_comparison_published", published, billed)


def test_what_the_correct_threshold_claims_is_what_its_record_settles() -> None:
    run = AboveThreshold(epsilon=1, threshold=0, max_queries=6, sensitivity=1)
    for place, values in ((1, [9e9]), (3, [-9e9, -9e9, 9e9]), (6, [-9e9] * 6)):
        conversation = run.open(values, entropy=seeded(1))
        for at in range(place):
            conversation.ask(itemgetter(at))
        settled = cost(conversation.close().parts, Relation.ADD_REMOVE).pure
        assert settled == Decimal(PLACES[place - 1] if values[-1] > 0 else PLACES[6])


@pytest.mark.parametrize(
    ("name", "first", "rounds", "check", "claimed"),
    [
        ("doubling", 0.5, 3, 0.2, {1: "0.7", 2: "1.9", 3: "4.1", 4: "4.1"}),
        ("doubling_last_level_only", 0.5, 3, 0.2, {1: "0.7", 2: "1.4", 3: "2.6", 4: "2.6"}),
        ("doubling_one_check", 0.25, 2, 0.5, {1: "0.75", 2: "1.25", 3: "1.25"}),
    ],
)
def test_doubling(name: str, first: float, rounds: int, check: float, claimed: dict[int, str]) -> None:
    is_stated(name, by_round(doubling_law(first, rounds, check)), claimed)


def test_what_correct_doubling_claims() -> None:
    """After round t: t checks, and 2 eps_t - eps_1 for the answers."""
    for ended in (1, 2, 3):
        told = ended * 0.2 + 2 * 0.5 * 2 ** (ended - 1) - 0.5
        assert Decimal(f"{told:g}") in stated("doubling")


LABELS = (1.0,) * 10, (-1.0,) + (1.0,) * 9
COARSE: dict[str, Any] = {"epsilons": (0.2, 0.8), "check": 4}
FINE: dict[str, Any] = {"epsilons": (1, 2), "check": 0.4}


@pytest.mark.parametrize(
    ("name", "how", "claimed"),
    [
        ("accuracy_first", COARSE, ("1.2", "2.8")),
        ("accuracy_first_half_query", COARSE | {"check_noise": 0.5}, ("1.2", "2.8")),
        ("accuracy_first_fine", FINE, ("1.1", "2.2")),
        ("accuracy_first_half_statistic", FINE | {"chain_noise": 0.5}, ("1.1", "2.2")),
        ("accuracy_first_unscaled_tolerance", FINE | {"tolerance": 0.1}, ("1.1", "2.2")),
        ("accuracy_first_every_level_shown", {"epsilons": (0.5, 2), "check": 0.4, "all_shown": True}, ("0.6", "2.2")),
    ],
)
def test_accuracy_first(name: str, how: dict[str, Any], claimed: tuple[str, str]) -> None:
    """Claimed: min(1, t/4) of the check, half of it where none passes, and the last level."""
    is_stated(name, accurate_losses(LABELS, **how), {1: claimed[0], 2: claimed[1], 3: claimed[1]})
    finest = how["epsilons"]
    assert float(claimed[0]) == pytest.approx(how["check"] / 4 + finest[0])
    assert float(claimed[1]) == pytest.approx(how["check"] / 2 + finest[1])


def test_what_accuracy_first_claims_is_what_its_parts_settle() -> None:
    """A check of 4 that halts at the first of two, on a chain that reached 0.2."""
    check = AboveThreshold(epsilon=4, threshold=0, max_queries=2, sensitivity=1)

    conversation = check.open([9e9], entropy=seeded(1))
    conversation.ask(itemgetter(0))
    law: Any = conversation.close().parts
    parts = Sequence((law, Chain(LaplaceLaw("0.8"), reached=LaplaceLaw("0.2"))))
    assert cost(parts, Relation.REPLACE_ONE).pure == Decimal("1.2")


def test_an_exact_check_has_outcomes_that_the_other_side_cannot_have() -> None:
    """A level between the two places where the excess risk comes to what is allowed passes on one side alone."""
    excess = [1.25 / 2 * (-0.8 - least) ** 2 for least in (0.8, 0.64)]
    assert excess[0] > 1.5 > excess[1]
    assert all(math.isinf(true) for true in stated("accuracy_first_exact_check").values())
    assert all(math.isinf(true) for true in stated("doubling_exact_check").values())


def test_an_exhibit_says_whether_its_claim_is_false() -> None:
    correct = {name for name in EX_POST if not ZOO[name].faulty}
    assert correct == {"published_coin", "above_threshold_losses", "doubling", "accuracy_first", "accuracy_first_fine"}
    assert all(isinstance(ZOO[name].claim, ExPostClaim) for name in EX_POST)
