"""Cases of answers by the votes of an ensemble. All noise is Laplace, on real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from dpledger.accounting.guarantees import ApproxDP
from dpledger.audit.zoo.cases import Case
from house_cases.stability import aggregates

__all__ = ["VOTED"]

# For answers by votes of 101 models, with noise and threshold of one unstable answer at (1, 10^-4).
_ONE_UNSTABLE = (Decimal(2), Decimal(4), Decimal("35.219351047"))


def _voted(
    about: str,
    mechanism: Callable[..., Any],
    pair: tuple[object, object],
    true_epsilon: float = math.inf,
    delta: str = "1e-4",
) -> Case:
    """Answers by votes, claimed at (1, delta)."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=ApproxDP(1, delta),
        true_epsilon=true_epsilon,
    )


VOTED: Mapping[str, Case] = MappingProxyType(
    {
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
"""Answers by votes, right and wrong, by name."""
