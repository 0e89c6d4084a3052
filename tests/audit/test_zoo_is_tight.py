"""Exhibits that are as good as their claims: those marked tight attain them, and no correct one passes its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.zoo import ZOO
from dpledger.audit.zoo.exhibit import TIGHT
from dpledger.errors import ParameterError

TIGHT_ONES = sorted(name for name, shown in ZOO.items() if shown.tight)


@pytest.mark.parametrize("name", ZOO)
def test_a_correct_exhibit_loses_no_more_than_it_claims(name: str) -> None:
    """True losses are enumerated in the tests of each family."""
    shown = ZOO[name]
    if isinstance(shown.claim, ExPostClaim):
        assert not shown.tight
        return
    part = shown.true_epsilon / float(shown.claim.epsilon)
    assert shown.faulty == (part > 1)
    assert not shown.tight or TIGHT <= part <= 1


def test_families_of_which_the_claim_is_attained() -> None:
    assert {"laplace", "permute_and_flip", "parity", "learned_bit", "surrogate_tight", "clipped_pairs"} <= set(
        TIGHT_ONES
    )


def test_a_parity_attains_its_claim_to_twelve_digits() -> None:
    assert ZOO["parity"].true_epsilon == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("true_epsilon", [0.9, 1.1, float("inf"), float("nan")])
def test_what_attains_too_little_or_too_much_is_not_tight(true_epsilon: float) -> None:
    with pytest.raises(ParameterError, match="tight"):
        replace(ZOO["laplace"], true_epsilon=true_epsilon, claim=PureDP(1), tight=True)
