"""Threshold tests whose noise falls: each case's true loss again, and the auditor's verdict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from house_cases.falling import FALLING, TwoTests
from judged_cases import judged

pytestmark = pytest.mark.sliced


@pytest.mark.parametrize("name", FALLING)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=20_000)
    assert result.epsilon_lower <= FALLING[name].true_epsilon


@pytest.mark.parametrize("shared", [True, False])
def test_a_case_draws_its_law(shared: bool) -> None:
    case, runs = TwoTests(shared), 200_000
    for queries in ((1.0, 1.0), (0.0, -1.0)):
        seen = int(case(queries, runs, np.random.default_rng(3)).sum())
        assert stats.binomtest(seen, runs, case.neither(queries)).pvalue > 1e-9
