"""Cases of sparse vectors that are charged where a test fails, and of values that are released where one passes. All
noise is Laplace, on real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import Case
from house_cases.stability.charged import (
    ChargedTests,
    NoisyRelease,
    ProposedNoise,
    Redraw,
    ReleasedValues,
    RemovalsOnly,
)

__all__ = ["CHARGED", "STABLE"]

ONE = PureDP(1)
# Six queries of which the last one moves against the others: the pair that comes close to what an epoch costs.
_LEFT, _RIGHT = (-2.0,) * 6, (-3.0,) * 5 + (-1.0,)


def _tests(
    about: str,
    left: Sequence[float],
    right: Sequence[float],
    true_epsilon: float,
    *,
    scales: tuple[str, str] = ("2", "4"),
    cutoff: int = 1,
    redraw: Redraw = "charge",
    threshold: str = "0",
    claim: PureDP | ApproxDP = ONE,
    long: bool = False,
) -> Case:
    """Tests with the noise of one charged answer at epsilon 1 unless said."""
    threshold_scale, query_scale = map(Decimal, scales)
    return Case(
        about=about,
        mechanism=ChargedTests(
            threshold_scale, query_scale, cutoff, Decimal(threshold), redraw, "charges" if long else "answers"
        ),
        left=left,
        right=right,
        claim=claim,
        true_epsilon=true_epsilon,
    )


CHARGED: Mapping[str, Case] = MappingProxyType(
    {
        "charged_tests": _tests("six tests up to the first that fails, as claimed", _LEFT, _RIGHT, 0.9576455472),
        "charged_tests_no_query_noise": _tests(
            "no noise on queries: their order shows", (0.0, 0.0), (1.0, -1.0), math.inf, scales=("2", "0")
        ),
        "charged_tests_half_query_noise": _tests(
            "noise on queries of the threshold's scale; at worst 1.5", _LEFT, _RIGHT, 1.4894512546, scales=("2", "2")
        ),
        "charged_tests_one_more": _tests(
            "halts at the second that fails, with the noise of one; at worst 2",
            ((0.0,) * 5 + (-2.0,)) * 2,
            (-1.0,) * 12,
            1.7455257873,
            cutoff=2,
        ),
        "charged_tests_never_halt": _tests(
            "never halts: how many of 200 fail",
            (0.0,) * 200,
            (1.0,) * 200,
            35.7717141656,
            cutoff=201,
            long=True,
        ),
        "charged_tests_fresh_thresholds": _tests(
            "a fresh threshold for each of 19 queries: answers that pass are no longer free",
            (3.0,) * 19,
            (2.0,) * 19,
            1.8009501311,
            redraw="query",
        ),
        "charged_tests_noise_of_one": _tests(
            "halts at the fortieth that fails, with the noise of one; at worst 40",
            (0.0,) * 70,
            (1.0,) * 70,
            3.5158263813,
            cutoff=40,
            long=True,
        ),
        "target_charging_by_charges": _tests(
            "no threshold noise, and noise on queries for one call, not for as many as one charge takes",
            (1.0,) * 6,
            (0.0,) * 6,
            2.9392773680,
            scales=("0", "1"),
            claim=ApproxDP(1, "1e-6"),
        ),
    }
)
"""Sparse vectors, by name."""


def _release(
    about: str,
    left: tuple[float, float],
    right: tuple[float, float],
    true_epsilon: float,
    *,
    threshold: str,
    scale: str = "1",
    claim: ApproxDP,
    flagged: bool = False,
) -> Case:
    return Case(
        about=about,
        mechanism=NoisyRelease(Decimal(scale), Decimal(threshold), flagged),
        left=left,
        right=right,
        claim=claim,
        true_epsilon=true_epsilon,
    )


def _values(
    about: str,
    true_epsilon: float = math.inf,
    *,
    threshold: str,
    scales: tuple[str, str] = ("4", "8"),
    cutoff: int = 2,
    filled: bool = False,
) -> Case:
    """Fifty queries to which neighbours have different values, at distance 0: (1, 0.05), of two unstable answers."""
    threshold_scale, query_scale = map(Decimal, scales)
    return Case(
        about=about,
        mechanism=ReleasedValues(threshold_scale, query_scale, cutoff, Decimal(threshold), "charge", filled),
        left=(1.0, (0.0,) * 50),
        right=(-1.0, (0.0,) * 50),
        claim=ApproxDP(1, "0.05"),
        true_epsilon=true_epsilon,
    )


_HUNDREDTH, _MILLIONTH = ApproxDP(1, "0.01"), ApproxDP(1, "1e-6")
_CHANGED = (1.0, 0.0), (-1.0, 0.0)  # values that neighbours have, at distance 0

STABLE: Mapping[str, Case] = MappingProxyType(
    {
        "stable_release": _release(
            "a value whose distance, 6 or 7, passes a threshold of log(100), as published",
            (1.0, 6.0),
            (1.0, 7.0),
            0.9158727232,
            threshold="4.605170186",
            claim=_HUNDREDTH,
        ),
        "stable_release_threshold_without_epsilon": _release(
            "a threshold of log(1/delta), not divided by an epsilon of 0.1: delta 0.1256",
            *_CHANGED,
            math.inf,
            threshold="13.815510558",
            scale="10",
            claim=ApproxDP("0.1", "1e-6"),
        ),
        "stable_release_decadic_logarithm": _release(
            "the decadic logarithm for the natural one: delta 0.00124",
            *_CHANGED,
            math.inf,
            threshold="6",
            claim=_MILLIONTH,
        ),
        "stable_release_whole_lead": _release(
            "a lead of votes, which one unit moves by 2, for a distance",
            (1.0, 6.0),
            (1.0, 8.0),
            1.9158727232,
            threshold="4.605170186",
            claim=_HUNDREDTH,
        ),
        "stable_release_removals_only": Case(
            about="a distance that counts removals alone, though an insertion changes the value",
            mechanism=RemovalsOnly(Decimal(1), Decimal("4.605170186")),
            left=2,
            right=3,
            claim=_HUNDREDTH,
            true_epsilon=math.inf,
        ),
        "stable_release_flagged": _release(
            "what is unstable is answered with the value, marked as doubtful",
            *_CHANGED,
            math.inf,
            threshold="4.605170186",
            claim=_HUNDREDTH,
            flagged=True,
        ),
        "propose_test_release": Case(
            about="a number with noise for a local sensitivity of 1, if it is far from data that jump, as claimed",
            mechanism=ProposedNoise(Decimal(1), Decimal(1), Decimal("3.9120230054")),
            left=(0.0, 6.0),
            right=(1.0, 7.0),
            claim=ApproxDP(2, "0.01"),
            true_epsilon=1.0203391347,
        ),
        "propose_test_release_untested": Case(
            about="the same without the test, on data that jump by 10",
            mechanism=ProposedNoise(Decimal(1), Decimal(1), None),
            left=(0.0, 0.0),
            right=(10.0, 0.0),
            claim=ApproxDP(2, "0.01"),
            true_epsilon=9.9798993283,
        ),
        "stable_values": _values(
            "the least threshold for two unstable answers: delta 0.05, and no epsilon beside it, as claimed",
            0.0,
            threshold="26.0883188928",
        ),
        "stable_values_published": _values("the published threshold: delta 0.00067", 0.0, threshold="60.8072196763"),
        "stable_values_one_more": _tests(
            "which of twelve queries, of one value each, are stable: halts at the second that is not, with the noise "
            "of one; at worst 2",
            ((54.0,) * 5 + (52.0,)) * 2,
            (53.0,) * 12,
            1.7447531181,
            cutoff=2,
            threshold="54",
            claim=_MILLIONTH,
        ),
        "stable_values_one_charge": _values(
            "a threshold for one unstable answer, of two: delta 0.0647", threshold="23.965858188"
        ),
        "stable_values_whole_epsilon": _values(
            "a threshold for the noise of the whole epsilon, not of a test: delta 0.615", threshold="2.9957322736"
        ),
        "stable_values_never_halt": _values(
            "the cutoff is not enforced: delta 0.723", threshold="26.0883188928", cutoff=51
        ),
        "stable_values_filled": _values(
            "what is unstable is answered with the value: delta 1", threshold="26.0883188928", filled=True
        ),
    }
)
"""Released values, by name."""
