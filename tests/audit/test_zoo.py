"""Every case of the zoo: its label is its true loss, by an oracle that samples nothing, and an auditor finds each
fault within its runs, and no other."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

import house_cases
from dpledger.audit import audit_mechanism
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.zoo import ZOO, Case, case
from dpledger.audit.zoo.cases import TIGHT
from dpledger.audit.zoo.ex_post import EX_POST
from dpledger.errors import ParameterError
from judged_cases import EVERY
from zoo_published import PUBLISHED, STRATA
from zoo_written import WRITTEN

pytestmark = pytest.mark.sliced

LOSSES = {**WRITTEN, **PUBLISHED}
TOGETHER = "delta_in_every_stratum"  # no stratum falls alone
LONG = 10_000, 150_000  # runs, one by one or in batches, above which an audit is one of the slow tests


Found = float | dict[Decimal, float]


def found_of(name: str) -> Found:
    """What the oracle of that name finds: one loss, or one of each claimed loss."""
    assert name in LOSSES or name in STRATA, f"{name} has no oracle in tests/support/zoo_published.py or zoo_written.py"
    return LOSSES[name](ZOO[name]) if name in LOSSES else STRATA[name](ZOO[name])


def is_labelled(shown: Case, found: Found) -> bool:
    """Whether a case says what was found."""
    if not isinstance(found, dict):
        return not shown.strata and alike(found, shown.true_epsilon)
    told = dict(shown.strata)
    return (
        found.keys() == told.keys()
        and all(alike(loss, told[stratum]) for stratum, loss in found.items())
        and alike(max(found.values()), shown.true_epsilon)
    )


def alike(found: float, told: float) -> bool:
    return found == told or abs(found - told) < 1e-6


def test_every_case_has_an_oracle_and_no_oracle_is_left_over() -> None:
    assert ZOO.keys() == LOSSES.keys() | STRATA.keys()
    assert not LOSSES.keys() & STRATA.keys()
    assert STRATA.keys() == EX_POST.keys()


@pytest.mark.parametrize("name", ZOO)
def test_the_label_is_the_true_loss_and_no_other_is(name: str) -> None:
    shown, found = ZOO[name], found_of(name)
    assert is_labelled(shown, found)
    assert not is_labelled(replace(shown, true_epsilon=wrong(shown.true_epsilon)), found)
    for place, (claimed, true) in enumerate(shown.strata):
        strata = (*shown.strata[:place], (claimed, wrong(true)), *shown.strata[place + 1 :])
        assert not is_labelled(replace(shown, strata=strata), found)


def wrong(true: float) -> float:
    return 9.0 if math.isinf(true) else true + 0.001


def audits() -> list[object]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if shown.runs > LONG[shown.batched] else [])
        for name, shown in ZOO.items()
    ]


@pytest.mark.parametrize("name", audits())
def test_each_fault_is_found_within_its_runs_and_nothing_else_is(name: str) -> None:
    shown = ZOO[name]
    result = audit_mechanism(
        shown.mechanism,
        shown.left,
        shown.right,
        shown.claim,
        trials=shown.runs,
        batched=shown.batched,
        confidence="0.9999",
        seed=11,
        progress=False,
    )
    assert result.verdict == ("violation" if shown.faulty else "not_refuted")
    assert result.epsilon_lower <= shown.true_epsilon
    if not isinstance(shown.claim, ExPostClaim):
        return
    true = dict(shown.strata)
    assert {stratum.epsilon for stratum in result.evidence.strata} == set(true)
    if shown.faulty and name != TOGETHER:
        assert result.stratum is not None
        assert true[result.stratum.epsilon] > float(result.stratum.epsilon)


def test_what_is_faulty_loses_more_than_it_claims() -> None:
    correct = {name for name in EX_POST if not ZOO[name].faulty}
    assert correct == {"published_coin", "above_threshold_losses", "doubling", "accuracy_first", "accuracy_first_fine"}
    for shown in EVERY.values():
        if not isinstance(shown.claim, ExPostClaim):
            part = shown.true_epsilon / float(shown.claim.epsilon)
            assert shown.faulty == (part > 1)
            assert shown.tight == (TIGHT <= part <= 1)


def test_families_of_which_the_claim_is_attained() -> None:
    tight = {name for name, shown in EVERY.items() if shown.tight}
    assert {"laplace", "permute_and_flip", "parity", "learned_bit", "surrogate_tight", "clipped_pairs"} <= tight
    assert not tight & EX_POST.keys()


def test_every_table_of_the_house_has_its_tests() -> None:
    """A file of tests takes it from there (CONTRIBUTING.md, "Adding a case of the zoo")."""
    tables = re.findall(r"\*\*([A-Z_]+),", Path(house_cases.__file__).read_text())
    texts = [file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py")]
    words = set(re.findall(r"\w+", " ".join(text for text in texts if "from house_cases." in text)))
    assert len(tables) > 10
    assert [table for table in tables if table not in words] == []


def test_one_delta_is_for_all_strata() -> None:
    """In each of ten strata the bit itself has mass 0.01, of which the other side has none: each keeps its claim at
    delta 0.01, and together they need 0.1."""
    shown = ZOO[TOGETHER]
    for claimed, _ in shown.strata:
        keeps = 1 / (1 + math.exp(-float(claimed)))
        event = 0.09 * keeps + 0.01 - math.exp(float(claimed)) * 0.09 * (1 - keeps)
        assert event <= 0.01 + 1e-12
    assert shown.true_delta == pytest.approx(10 * 0.01)
    assert shown.faulty
    assert not replace(shown, true_delta=0.01).faulty


def test_a_name_that_is_none_lists_those_that_are() -> None:
    assert case("laplace") is ZOO["laplace"]
    with pytest.raises(ParameterError, match="laplace_half_noise"):
        case("unicorn")
