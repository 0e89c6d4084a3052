"""Correct and faulty mechanisms with their claims and their true losses: people test their own auditors on them.

>>> half = ZOO["laplace_half_noise"]
>>> half.claim.epsilon, half.true_epsilon
(Decimal('1'), 2.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo import aggregates, specimens
from dpledger.decimals import multiply
from dpledger.errors import ParameterError

__all__ = ["ZOO", "Exhibit", "exhibit"]

# Just enough for (1, 10^-5) at distance 1, by the formula of Balle-Wang 2018; the tests check it and the twin's loss.
_SIGMA = Decimal("3.7306316349")
_NAN = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A mechanism, a pair of neighbouring datasets, what it claims, and its true epsilon on the pair at the claim's
    delta. `batched`: whether it is f(data, size, rng) -> array, or f(data, rng) -> output."""

    about: str
    mechanism: Callable[..., Any]
    left: object
    right: object
    claim: PureDP | ApproxDP
    true_epsilon: float
    batched: bool = True

    @property
    def faulty(self) -> bool:
        """Whether the claim is false on this pair."""
        return self.true_epsilon > float(self.claim.epsilon)


# For AboveThreshold of epsilon 1: each query moves by 1, the last one against the others.
_BEFORE, _AFTER = (0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,)


def _first_above(about: str, threshold_scale: str, query_scale: str, true_epsilon: float) -> Exhibit:
    """Which of six queries is the first to reach a threshold, with noise of these scales, claimed at epsilon 1."""
    return Exhibit(
        about=about,
        mechanism=specimens.SparseVectorRun(Decimal(threshold_scale), Decimal(query_scale)),
        left=_BEFORE,
        right=_AFTER,
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


def _level(about: str, keep: str, added: str, true_epsilon: float) -> Exhibit:
    """A level of scale 1, of which the finer one has scale 1/2."""
    return Exhibit(
        about=about,
        mechanism=specimens.CoarsenedLaplace(Decimal("0.5"), Decimal(keep), Decimal(added)),
        left=0.0,
        right=1.0,
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


# For answers by votes of 101 models, with noise and threshold of one unstable answer at (1, 10^-4).
_ONE_UNSTABLE = (Decimal(2), Decimal(4), Decimal("35.219351047"))


def _voted(
    about: str,
    mechanism: Callable[..., Any],
    pair: tuple[object, object],
    true_epsilon: float = math.inf,
    delta: str = "1e-4",
) -> Exhibit:
    """Answers by votes, claimed at (1, delta)."""
    return Exhibit(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=ApproxDP(1, delta),
        true_epsilon=true_epsilon,
    )


ZOO: Mapping[str, Exhibit] = MappingProxyType(
    {
        "laplace": Exhibit(
            about="a number with Laplace noise, as claimed",
            mechanism=specimens.AddedLaplace(Decimal(1)),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=1.0,
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
            mechanism=specimens.SparseVectorRun(Decimal(2), Decimal(4)),
            left=(0.0,) * 8,
            right=(1.0,) * 8,
            claim=PureDP(1),
            true_epsilon=0.4954494896,
        ),
        "sparse_vector_no_threshold_noise": Exhibit(
            about="the same without noise on the threshold",
            mechanism=specimens.SparseVectorRun(Decimal(0), Decimal(4)),
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
            mechanism=specimens.KeptThreshold(Decimal(2), Decimal(4), 4),
            left=(-1.0,) * 6 + (2.0,) * 4,
            right=(0.0,) * 6 + (1.0,) * 4,
            claim=PureDP(1),
            true_epsilon=1.6408658525,
        ),
        "laplace_chain": _level("the first of two levels of a chain of Laplace noise, as claimed", "0.25", "1", 1.0),
        "laplace_chain_kept_too_often": _level("kept with r in place of r^2", "0.5", "1", 1.379885493),
        "laplace_chain_kept_else": _level("kept with 1 - r^2 in place of r^2", "0.75", "1", 1.7046054709),
        "laplace_chain_smaller_noise": _level("noise of the finer level is added", "0.25", "0.5", 2.0),
        "laplace_levels_fresh": Exhibit(
            about="two levels with noise of their own, billed as the last one; so is doubling",
            mechanism=specimens.FreshLaplaces(Decimal(1), Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=PureDP(2),
            true_epsilon=3.0,
        ),
        "laplace_noise_by_l2": Exhibit(
            about="two numbers with Laplace noise for their distance in the l2 norm, not in l1",
            mechanism=specimens.FreshLaplaces(Decimal("1.4142135624"), Decimal("1.4142135624")),
            left=0.0,
            right=1.0,
            claim=PureDP(1),
            true_epsilon=math.sqrt(2),
        ),
        "laplace_levels_rescaled": Exhibit(
            about="two levels, the second with the noise of the first made smaller",
            mechanism=specimens.RescaledLaplace(Decimal(1), Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=PureDP(2),
            true_epsilon=math.inf,
        ),
        "gaussian_levels_fresh": Exhibit(
            about="four levels with Gaussian noise of their own, billed as the last one",
            mechanism=specimens.FreshGaussians(_SIGMA),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=1.847905968,
        ),
        "brownian_levels": Exhibit(
            about="two levels of a Brownian path, billed as the last one",
            mechanism=specimens.BrownianLevels(_SIGMA, Decimal("0.5")),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=0.99999999998,
        ),
        "brownian_levels_narrow_bridge": Exhibit(
            about="the second level varies around the first a tenth as much as it must",
            mechanism=specimens.BrownianLevels(_SIGMA, Decimal("0.05")),
            left=0.0,
            right=1.0,
            claim=ApproxDP(1, "1e-5"),
            true_epsilon=2.5767223029,
        ),
        "voted_answers": _voted(
            "what most of 101 models vote for, where half their gap is large, as claimed; a unit moves one vote",
            aggregates.VotedAnswers(*_ONE_UNSTABLE),
            aggregates.far_flip(71, 71, 9),
            0.9751203828,
        ),
        "voted_answers_whole_gap": _voted(
            "the whole gap in place of its half; at worst 2",
            aggregates.WholeGap(*_ONE_UNSTABLE),
            aggregates.far_flip(37, 33, 9),
            1.8816365584,
        ),
        "voted_answers_runs_of_a_list": _voted(
            "chunks are runs of a list, which a unit in front shifts",
            aggregates.RunsOfAList(*_ONE_UNSTABLE),
            ((0, 1) * 101, (1, *(0, 1) * 101)),
        ),
        "voted_answers_overlap_of_two": _voted(
            "each unit is in two chunks; at worst 2",
            aggregates.VotedAnswers(*_ONE_UNSTABLE),
            aggregates.far_flip(69, 71, 5, rows=2),
            1.9196746976,
        ),
        "voted_answers_overlap_of_three": _voted(
            "each unit is in three chunks; at worst 3",
            aggregates.VotedAnswers(*_ONE_UNSTABLE),
            aggregates.far_flip(71, 69, 5, rows=3),
            2.8331807485,
        ),
        "voted_answers_standardised_together": _voted(
            "numbers are centred by the mean of all units before chunks are cut; one outlier moves every vote",
            aggregates.StandardisedTogether(*_ONE_UNSTABLE),
            ((-1.0, 1.0) * 101, (1e6, *(-1.0, 1.0) * 101)),
        ),
        "voted_answers_chunks_by_rows": _voted(
            "as many chunks as there are tens of rows, under add_remove: a private number",
            aggregates.AsManyAsRows(*_ONE_UNSTABLE),
            ((0,) * 1009, (0,) * 1010),
        ),
        "classifier_tuned_cutoff": _voted(
            "the cutoff comes of votes on a private validation row",
            aggregates.TunedCutoff(*_ONE_UNSTABLE),
            (aggregates.models(101, 1, 1, 1), aggregates.models(99, 1, 1, 1)),
        ),
        "classifier_plurality_for_unstable": _voted(
            "what is unstable is answered by the plurality",
            aggregates.Plurality(*_ONE_UNSTABLE),
            aggregates.narrow_flip(101, 1),
        ),
        "classifier_half_count": _voted(
            "a count's distance from half of the models, which is 1 where one vote decides; true delta 0.0564888512",
            aggregates.HalfCount(Decimal(4), Decimal(8), Decimal("26.0883188928"), Decimal(2)),
            aggregates.narrow_flip(100, 2),
            delta="0.05",
        ),
    }
)
"""Exhibits by name."""


def exhibit(name: str) -> Exhibit:
    """The exhibit of that name; ParameterError listing the names if there is none."""
    if name not in ZOO:
        raise ParameterError("zoo", name, "one of " + ", ".join(ZOO))
    return ZOO[name]
