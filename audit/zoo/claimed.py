"""Cases that claim a guarantee: one epsilon, at a delta, of everything that they publish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.answers import chains, coins, numbers, thresholds
from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.decimals import multiply

__all__ = ["CLAIMED"]

# Just enough for (1, 10^-5) at distance 1, by the formula of Balle-Wang 2018; the tests check it and the mutant's loss.
_SIGMA = Decimal("3.7306316349")
_HALF, _ONE = Decimal("0.5"), Decimal(1)
_MOVED, _BIT = (0.0, 1.0), (True, False)
_AT_DELTA = ApproxDP(1, "1e-5")

# For AboveThreshold of epsilon 1: each query moves by 1, the last one against the others.
_QUERIES = (0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,)


def _run(threshold_scale: str, query_scale: str) -> thresholds.SparseVectorAnswers:
    return thresholds.SparseVectorAnswers(Decimal(threshold_scale), Decimal(query_scale))


def _level(keep: str, added: str) -> chains.CoarsenedLaplace:
    """A level of scale 1, of which the finer one has scale 1/2."""
    return chains.CoarsenedLaplace(_HALF, Decimal(keep), Decimal(added))


CLAIMED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            _MOVED,
            batched=True,
            laplace=Shown("a number with Laplace noise, as claimed", numbers.AddedLaplace(_ONE), 1.0),
            laplace_half_noise=Shown("half the Laplace noise that the claim needs", numbers.AddedLaplace(_HALF), 2.0),
            report_raw_value=Shown(
                "one release in fifty is the raw number", numbers.LeakyLaplace(_ONE, Decimal("0.02")), INFINITE, 5_000
            ),
            laplace_chain=Shown(
                "the first of two levels of a chain of Laplace noise, as claimed", _level("0.25", "1"), 1.0
            ),
            laplace_chain_kept_too_often=Shown("kept with r in place of r^2", _level("0.5", "1"), 1.379885493, 15_000),
            laplace_chain_kept_else=Shown("kept with 1 - r^2 in place of r^2", _level("0.75", "1"), 1.7046054709),
            laplace_chain_smaller_noise=Shown("noise of the finer level is added", _level("0.25", "0.5"), 2.0, 3_000),
            laplace_noise_by_l2=Shown(
                "two numbers with Laplace noise for their distance in the l2 norm, not in l1",
                chains.FreshLaplaces(Decimal("1.4142135624"), Decimal("1.4142135624")),
                math.sqrt(2),
                8_000,
            ),
        ),
        **family(
            _MOVED,
            batched=True,
            claim=PureDP(2),
            laplace_levels_fresh=Shown(
                "two levels with noise of their own, billed as the last one; so is doubling",
                chains.FreshLaplaces(_ONE, _HALF),
                3.0,
                10_000,
            ),
            laplace_levels_rescaled=Shown(
                "two levels, the second with the noise of the first made smaller",
                chains.RescaledLaplace(_ONE, _HALF),
                INFINITE,
                2_000,
            ),
            laplace_noise_reused=Shown(
                "two numbers with the same noise, from generators seeded alike, billed as two releases",
                chains.ReusedLaplace(_ONE),
                INFINITE,
            ),
        ),
        **family(
            _MOVED,
            batched=True,
            claim=_AT_DELTA,
            gaussian=Shown("a number with Gaussian noise, as claimed", numbers.AddedGaussian(_SIGMA), 0.99999999998),
            gaussian_half_noise=Shown(
                "half the Gaussian noise that the claim needs",
                numbers.AddedGaussian(multiply(_SIGMA, _HALF)),
                2.1546766576,
                50_000,
            ),
            gaussian_levels_fresh=Shown(
                "four levels with Gaussian noise of their own, billed as the last one",
                chains.FreshGaussians(_SIGMA),
                1.847905968,
                200_000,
            ),
            brownian_levels=Shown(
                "two levels of a Brownian path, billed as the last one",
                chains.BrownianLevels(_SIGMA, _HALF),
                0.99999999998,
            ),
            brownian_levels_narrow_bridge=Shown(
                "the second level varies around the first a tenth as much as it must",
                chains.BrownianLevels(_SIGMA, Decimal("0.05")),
                2.5767223029,
                40_000,
            ),
            brownian_levels_rescaled=Shown(
                "two levels of a path, the second with the noise of the first made smaller",
                chains.RescaledGaussian(_SIGMA),
                INFINITE,
                3_000,
            ),
        ),
        **family(
            ((0.5, 0.25, math.nan), (0.5, 0.25)),
            batched=True,
            nan_on_one_record=Shown("one record makes every release NaN", numbers.MeanOfUnchecked(_ONE), INFINITE),
        ),
        **family(
            (1.0, 2.0),
            batched=True,
            claim=PureDP("0.5"),
            scale_depends_on_data=Shown(
                "the noise has a scale computed from the data; the mean never moves",
                numbers.ScaleOfTheData(_ONE),
                INFINITE,
                2_000,
            ),
        ),
        **family(
            ((0.0,) * 8, (1.0,) * 8),
            batched=True,
            sparse_vector=Shown(
                "which of eight queries passes a threshold first, with noise on both", _run("2", "4"), 0.4954494896
            ),
            sparse_vector_no_threshold_noise=Shown(
                "the same without noise on the threshold", _run("0", "4"), 2.0, 100_000
            ),
        ),
        **family(
            _QUERIES,
            batched=True,
            above_threshold=Shown("which of six queries is the first above, as claimed", _run("2", "4"), 0.8998146866),
            above_threshold_half_query_noise=Shown(
                "half the noise on queries, as where they are monotone; at worst 1.5",
                _run("2", "2"),
                1.4375091414,
                60_000,
            ),
            above_threshold_half_sensitivity=Shown(
                "queries move twice as far as was declared, so all noise is half; at worst 2",
                _run("1", "2"),
                1.8160981167,
                20_000,
            ),
            above_threshold_least_noise=Shown(
                "noise of 1/epsilon on threshold and queries; at worst 3", _run("1", "1"), 2.8332440675, 5_000
            ),
            above_threshold_swapped=Shown(
                "the two scales are exchanged; at worst 1.25", _run("4", "2"), 1.2207035116, 250_000
            ),
            above_threshold_no_query_noise=Shown("no noise on queries", _run("2", "0"), INFINITE),
            above_threshold_exact_test=Shown("no noise at all: an exact acceptance test", _run("0", "0"), INFINITE),
        ),
        **family(
            ((-1.0,) * 6 + (2.0,) * 4, (0.0,) * 6 + (1.0,) * 4),
            batched=True,
            above_threshold_kept=Shown(
                "one noisy threshold for four answers above, with the noise of one; at worst 2.5",
                thresholds.KeptThreshold(Decimal(2), Decimal(4), 4),
                1.6408658525,
                200_000,
            ),
        ),
        **family(
            _BIT,
            batched=True,
            claim=PureDP("1.0986122887"),
            randomized_response=Shown(
                "a bit that is kept three times in four", numbers.FlippedBit(Decimal("0.75")), math.log(3)
            ),
        ),
        **family(
            _BIT,
            batched=True,
            claim=PureDP("0.01"),
            coin_that_came_up_cheap=Shown(
                "a published coin takes a response of 0.01 or of 5; the realised 0.01 is reported as a guarantee",
                coins.PublishedCoin(Decimal("0.01"), Decimal(5)),
                5.0,
            ),
        ),
        **family(
            _BIT,
            batched=True,
            budget_tested_after_the_outcome=Shown(
                "0.9 is spent of a budget of 1, and it is tested once the coin has come up",
                coins.SpentBeforeTheCoin(Decimal("0.9"), Decimal("0.01"), Decimal(5)),
                5.9,
            ),
            best_of_hidden_runs=Shown(
                "the best of ten hidden responses of epsilon 1, billed as one",
                coins.BestOfHidden(10, _ONE),
                13.1326148956,
            ),
        ),
        **family(
            _BIT,
            batched=True,
            claim=ApproxDP("0.5307", "0.000001"),
            realised_losses_squared=Shown(
                "a hundred steps that all came out at a loss of 0.01, by advanced composition",
                coins.RareSteps(100, Decimal("0.01"), _ONE),
                8.9195529966,
            ),
        ),
        **family(
            _BIT,
            batched=True,
            claim=ApproxDP(1, "0.01"),
            delta_counted_once=Shown(
                "ten runs that each show the bit with probability 0.01, with the delta of one",
                coins.RevealingRuns(10, Decimal("0.01")),
                INFINITE,
            ),
        ),
    }
)
"""By name."""
