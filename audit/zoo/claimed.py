"""Exhibits that claim a guarantee: one epsilon, at a delta, of everything that they publish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.answers import chains, coins, specimens, thresholds
from dpledger.audit.zoo.exhibit import Exhibit
from dpledger.decimals import multiply

__all__ = ["CLAIMED"]

# Just enough for (1, 10^-5) at distance 1, by the formula of Balle-Wang 2018; the tests check it and the twin's loss.
_SIGMA = Decimal("3.7306316349")
_NAN = math.nan

# For AboveThreshold of epsilon 1: each query moves by 1, the last one against the others.
_BEFORE, _AFTER = (0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,)


def _first_above(about: str, threshold_scale: str, query_scale: str, true_epsilon: float) -> Exhibit:
    """Which of six queries is the first to reach a threshold, with noise of these scales, claimed at epsilon 1."""
    return Exhibit(
        about=about,
        mechanism=thresholds.SparseVectorRun(Decimal(threshold_scale), Decimal(query_scale)),
        left=_BEFORE,
        right=_AFTER,
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


def _level(about: str, keep: str, added: str, true_epsilon: float, *, tight: bool = False) -> Exhibit:
    """A level of scale 1, of which the finer one has scale 1/2."""
    return Exhibit(
        about=about,
        mechanism=chains.CoarsenedLaplace(Decimal("0.5"), Decimal(keep), Decimal(added)),
        left=0.0,
        right=1.0,
        claim=PureDP(1),
        true_epsilon=true_epsilon,
        tight=tight,
    )


CLAIMED: Mapping[str, Exhibit] = MappingProxyType(
    {
        "laplace": Exhibit(
            about="a number with Laplace noise, as claimed",
            mechanism=specimens.AddedLaplace(Decimal(1)),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=1.0,
            tight=True,
        ),
        "laplace_half_noise": Exhibit(
            about="half the Laplace noise that the claim needs",
            mechanism=specimens.AddedLaplace(Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=2.0,
        ),
        "gaussian": Exhibit(
            about="a number with Gaussian noise, as claimed",
            mechanism=specimens.AddedGaussian(_SIGMA),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=0.99999999998,
            tight=True,
        ),
        "gaussian_half_noise": Exhibit(
            about="half the Gaussian noise that the claim needs",
            mechanism=specimens.AddedGaussian(multiply(_SIGMA, Decimal("0.5"))),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=2.1546766576,
        ),
        "randomized_response": Exhibit(
            about="a bit that is kept three times in four",
            mechanism=specimens.RandomizedResponse(Decimal("0.75")),
            left=True,
            right=False,
            claim=PureDP("1.0986122887"),
            true_epsilon=math.log(3),
            tight=True,
        ),
        "report_raw_value": Exhibit(
            about="one release in fifty is the raw number",
            mechanism=specimens.LeakyLaplace(Decimal(1), Decimal("0.02")),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=math.inf,
        ),
        "nan_on_one_record": Exhibit(
            about="one record makes every release NaN",
            mechanism=specimens.MeanOfUnchecked(Decimal(1)),
            left=(0.5, 0.25, _NAN),
            right=(0.5, 0.25),
            claim=PureDP(1),
            true_epsilon=math.inf,
        ),
        "raises_on_one_record": Exhibit(
            about="one record makes every run raise",
            mechanism=specimens.ParsingCount(Decimal(1)),
            left=("1", "2", "three"),
            right=("1", "2"),
            claim=PureDP(1),
            true_epsilon=math.inf,
            batched=False,
        ),
        "scale_depends_on_data": Exhibit(
            about="the noise has a scale computed from the data; the mean never moves",
            mechanism=specimens.ScaleOfTheData(Decimal(1)),
            left=1.0,
            right=2.0,
            claim=PureDP("0.5"),
            true_epsilon=math.inf,
        ),
        "sparse_vector": Exhibit(
            about="which of eight queries passes a threshold first, with noise on both",
            mechanism=thresholds.SparseVectorRun(Decimal(2), Decimal(4)),
            left=(0.0,) * 8,
            right=(1.0,) * 8,
            claim=PureDP(1),
            true_epsilon=0.4954494896,
        ),
        "sparse_vector_no_threshold_noise": Exhibit(
            about="the same without noise on the threshold",
            mechanism=thresholds.SparseVectorRun(Decimal(0), Decimal(4)),
            left=(0.0,) * 8,
            right=(1.0,) * 8,
            claim=PureDP(1),
            true_epsilon=2.0,
        ),
        "above_threshold": _first_above("which of six queries is the first above, as claimed", "2", "4", 0.8998146866),
        "above_threshold_half_query_noise": _first_above(
            "half the noise on queries, as where they are monotone; at worst 1.5", "2", "2", 1.4375091414
        ),
        "above_threshold_half_sensitivity": _first_above(
            "queries move twice as far as was declared, so all noise is half; at worst 2", "1", "2", 1.8160981167
        ),
        "above_threshold_least_noise": _first_above(
            "noise of 1/epsilon on threshold and queries; at worst 3", "1", "1", 2.8332440675
        ),
        "above_threshold_swapped": _first_above("the two scales are exchanged; at worst 1.25", "4", "2", 1.2207035116),
        "above_threshold_no_query_noise": _first_above("no noise on queries", "2", "0", math.inf),
        "above_threshold_exact_test": _first_above("no noise at all: an exact acceptance test", "0", "0", math.inf),
        "above_threshold_kept": Exhibit(
            about="one noisy threshold for four answers above, with the noise of one; at worst 2.5",
            mechanism=thresholds.KeptThreshold(Decimal(2), Decimal(4), 4),
            left=(-1.0,) * 6 + (2.0,) * 4,
            right=(0.0,) * 6 + (1.0,) * 4,
            claim=PureDP(1),
            true_epsilon=1.6408658525,
        ),
        "laplace_chain": _level(
            "the first of two levels of a chain of Laplace noise, as claimed", "0.25", "1", 1.0, tight=True
        ),
        "laplace_chain_kept_too_often": _level("kept with r in place of r^2", "0.5", "1", 1.379885493),
        "laplace_chain_kept_else": _level("kept with 1 - r^2 in place of r^2", "0.75", "1", 1.7046054709),
        "laplace_chain_smaller_noise": _level("noise of the finer level is added", "0.25", "0.5", 2.0),
        "laplace_levels_fresh": Exhibit(
            about="two levels with noise of their own, billed as the last one; so is doubling",
            mechanism=chains.FreshLaplaces(Decimal(1), Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=PureDP(2),
            true_epsilon=3.0,
        ),
        "laplace_noise_by_l2": Exhibit(
            about="two numbers with Laplace noise for their distance in the l2 norm, not in l1",
            mechanism=chains.FreshLaplaces(Decimal("1.4142135624"), Decimal("1.4142135624")),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=math.sqrt(2),
        ),
        "laplace_levels_rescaled": Exhibit(
            about="two levels, the second with the noise of the first made smaller",
            mechanism=chains.RescaledLaplace(Decimal(1), Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=PureDP(2),
            true_epsilon=math.inf,
        ),
        "gaussian_levels_fresh": Exhibit(
            about="four levels with Gaussian noise of their own, billed as the last one",
            mechanism=chains.FreshGaussians(_SIGMA),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=1.847905968,
        ),
        "brownian_levels": Exhibit(
            about="two levels of a Brownian path, billed as the last one",
            mechanism=chains.BrownianLevels(_SIGMA, Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=0.99999999998,
            tight=True,
        ),
        "brownian_levels_narrow_bridge": Exhibit(
            about="the second level varies around the first a tenth as much as it must",
            mechanism=chains.BrownianLevels(_SIGMA, Decimal("0.05")),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=2.5767223029,
        ),
        "coin_that_came_up_cheap": Exhibit(
            about="a published coin takes a response of 0.01 or of 5; the realised 0.01 is reported as a guarantee",
            mechanism=coins.PublishedCoin(Decimal("0.01"), Decimal(5)),
            left=True,
            right=False,
            claim=PureDP("0.01"),
            true_epsilon=5.0,
        ),
        "budget_tested_after_the_outcome": Exhibit(
            about="0.9 is spent of a budget of 1, and it is tested once the coin has come up",
            mechanism=coins.SpentBeforeTheCoin(Decimal("0.9"), Decimal("0.01"), Decimal(5)),
            left=True,
            right=False,
            claim=PureDP(1),
            true_epsilon=5.9,
        ),
        "realised_losses_squared": Exhibit(
            about="a hundred steps that all came out at a loss of 0.01, by advanced composition",
            mechanism=coins.RareSteps(100, Decimal("0.01"), Decimal(1)),
            left=True,
            right=False,
            claim=ApproxDP("0.5307", "0.000001"),
            true_epsilon=8.9195529966,
        ),
        "delta_counted_once": Exhibit(
            about="ten runs that each show the bit with probability 0.01, with the delta of one",
            mechanism=coins.RevealingRuns(10, Decimal("0.01")),
            left=True,
            right=False,
            claim=ApproxDP(1, "0.01"),
            true_epsilon=math.inf,
        ),
        "best_of_hidden_runs": Exhibit(
            about="the best of ten hidden responses of epsilon 1, billed as one",
            mechanism=coins.BestOfHidden(10, Decimal(1)),
            left=True,
            right=False,
            claim=PureDP(1),
            true_epsilon=13.1326148956,
        ),
        "laplace_noise_reused": Exhibit(
            about="two numbers with the same noise, from generators seeded alike, billed as two releases",
            mechanism=chains.ReusedLaplace(Decimal(1)),
            left=0.0,
            right=1.0,
            claim=PureDP(2),
            true_epsilon=math.inf,
        ),
        "brownian_levels_rescaled": Exhibit(
            about="two levels of a path, the second with the noise of the first made smaller",
            mechanism=chains.RescaledGaussian(_SIGMA),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=math.inf,
        ),
    }
)
"""By name."""
