"""Cases that claim a realised loss, outcome by outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.strata import ExPostClaim
from dpledger.audit.zoo.answers.accurate import DoubledAnswers, EveryLevelShown, FirstAccurate
from dpledger.audit.zoo.answers.coins import PublishedCoin, RevealingDraws
from dpledger.audit.zoo.answers.thresholds import PublishedComparison, SparseVectorAnswers
from dpledger.audit.zoo.cases import Case

__all__ = ["EX_POST", "ByFirst"]


@dataclass(frozen=True, slots=True)
class ByFirst:
    """A claimed loss that is read off the first number of an output, of which `unit` are one step, from `start`."""

    losses: tuple[Decimal, ...]
    start: int = 0
    unit: int = 1

    def __call__(self, outputs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        first = np.asarray(outputs, dtype=np.float64).reshape(len(outputs), -1)[:, 0]
        places = np.rint(first / self.unit).astype(int)
        found: npt.NDArray[np.float64] = np.array([float(loss) for loss in self.losses])[places - self.start]
        return found


def _by_first(*losses: str, start: int = 0, unit: int = 1, delta: str | None = None) -> ExPostClaim:
    return ExPostClaim(ByFirst(tuple(map(Decimal, losses)), start, unit), delta)


def _strata(*losses: tuple[str, float]) -> tuple[tuple[Decimal, float], ...]:
    return tuple((Decimal(claimed), true) for claimed, true in losses)


def _case(
    about: str,
    mechanism: Callable[..., Any],
    pair: tuple[object, object],
    claim: ExPostClaim,
    *losses: tuple[str, float],
    runs: int = 5_000,
) -> Case:
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=claim,
        true_epsilon=max(true for _, true in losses),
        strata=_strata(*losses),
        runs=runs,
    )


# Ten labels, one of which changes: the least risk is at 0.8 or at 0.64.
_LABELS = (1.0,) * 10, (-1.0,) + (1.0,) * 9
# A statistic and its error.
_JUDGED = (0.0, 0.0), (1.0, -1.0)
# Of six queries the first five move up by 1 and the last one down.
_QUERIES = (0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,)


def _accurate(
    about: str, check: str, claimed: Sequence[tuple[str, float]], runs: int = 2_000, **changes: Decimal
) -> Case:
    """Accuracy first on two levels: with a check of 4 and epsilons 0.2 and 0.8, or a check of 0.4 and epsilons 1, 2."""
    coarse, fine = ("0.2", "0.8") if check == "4" else ("1", "2")
    first, later = (loss for loss, _ in claimed)
    return _case(
        about,
        FirstAccurate(Decimal(coarse), Decimal(fine), Decimal(check), **changes),
        _LABELS,
        _by_first(first, later, later, start=1),
        *claimed,
        runs=runs,
    )


_HALF = Decimal("0.5")

EX_POST: Mapping[str, Case] = MappingProxyType(
    {
        "published_coin": _case(
            "a published coin takes a response of 0.01 or of 5, and the realised loss says which",
            PublishedCoin(Decimal("0.01"), Decimal(5)),
            (True, False),
            _by_first("0.01", "5"),
            ("0.01", 0.01),
            ("5", 5.0),
        ),
        "published_coin_billed_too_low": _case(
            "the same, and the dear response is billed at 4",
            PublishedCoin(Decimal("0.01"), Decimal(5)),
            (True, False),
            _by_first("0.01", "4"),
            ("0.01", 0.01),
            ("4", 5.0),
            runs=10_000,
        ),
        "delta_in_every_stratum": Case(
            about="one run in ten shows the bit: 0.01 in each of ten strata, and 0.01 is claimed of all together",
            mechanism=RevealingDraws(10, Decimal("0.1"), Decimal("0.1")),
            left=True,
            right=False,
            claim=_by_first(*(f"{place / 10}" for place in range(1, 11)), delta="0.01"),
            true_epsilon=1.0,
            strata=_strata(*((f"{place / 10}", place / 10) for place in range(1, 11))),
            true_delta=0.1,
            runs=5_000,
        ),
        "above_threshold_losses": _case(
            "which of six queries is the first above: t/4 up to 1, and 1/2 for none",
            SparseVectorAnswers(Decimal(2), Decimal(4)),
            _QUERIES,
            _by_first("0.25", "0.5", "0.75", "1", "1", "1", "0.5"),
            ("0.25", 0.1516697556),
            ("0.5", 0.3209279062),
            ("0.75", 0.1723892306),
            ("1", 0.8998146866),
        ),
        "above_threshold_halt_billed_as_silence": _case(
            "the same, and a halt is billed as if nothing had been found: never above 1/2",
            SparseVectorAnswers(Decimal(2), Decimal(4)),
            _QUERIES,
            _by_first("0.25", "0.5", "0.5", "0.5", "0.5", "0.5", "0.5"),
            ("0.25", 0.1516697556),
            ("0.5", 0.8998146866),
            runs=40_000,
        ),
        "above_threshold_comparison_published": _case(
            "the noisy value that was compared is published: the losses of all tests add up; claimed at 2 in all",
            PublishedComparison(Decimal(1), Decimal(2)),
            ((0.0,) * 8, (1.0,) * 8),
            _by_first("0.5", "1", "1.5", "2", "2", "2", "2", "2", "1", unit=1000),
            ("0.5", 0.5),
            ("1", 1.0),
            ("1.5", 1.5),
            ("2", 4.0),
            runs=3_000_000,
        ),
        "doubling": _case(
            "three answers of epsilons 1/2, 1 and 2 with three checks, each paid for",
            DoubledAnswers(_HALF, 3, Decimal("0.2")),
            _JUDGED,
            _by_first("0.7", "1.9", "4.1", "4.1", start=1),
            ("0.7", 0.4983860591),
            ("1.9", 1.5334105066),
            ("4.1", 4.1),
        ),
        "doubling_last_level_only": _case(
            "the same, and only the last answer is billed",
            DoubledAnswers(_HALF, 3, Decimal("0.2")),
            _JUDGED,
            _by_first("0.7", "1.4", "2.6", "2.6", start=1),
            ("0.7", 0.4983860591),
            ("1.4", 1.5334105066),
            ("2.6", 4.1),
            runs=40_000,
        ),
        "doubling_one_check": _case(
            "two answers of epsilons 1/4 and 1/2 with two checks of 1/2, of which one is billed",
            DoubledAnswers(Decimal("0.25"), 2, _HALF),
            _JUDGED,
            _by_first("0.75", "1.25", "1.25", start=1),
            ("0.75", 0.5316299064),
            ("1.25", 1.75),
            runs=60_000,
        ),
        "doubling_exact_check": _case(
            "the same, all billed, and the check has no noise",
            DoubledAnswers(Decimal("0.25"), 2, _HALF, check_noise=Decimal(0)),
            _JUDGED,
            _by_first("0.75", "1.75", "1.75", start=1),
            ("0.75", math.inf),
            ("1.75", math.inf),
        ),
        "accuracy_first": _accurate(
            "the first of two hypotheses that is accurate enough", "4", (("1.2", 0.9564829507), ("2.8", 1.7717427994))
        ),
        "accuracy_first_half_query": _accurate(
            "the excess risk is said to move by R/n, not by 2 R/n",
            "4",
            (("1.2", 1.8316529844), ("2.8", 2.7867056691)),
            check_noise=_HALF,
            runs=200_000,
        ),
        "accuracy_first_exact_check": _accurate(
            "hypotheses are checked without noise",
            "4",
            (("1.2", math.inf), ("2.8", math.inf)),
            check_noise=Decimal(0),
            runs=50_000,
        ),
        "accuracy_first_fine": _accurate(
            "the same with fine levels and a cheap check", "0.4", (("1.1", 1.0604572097), ("2.2", 2.0852034242))
        ),
        "accuracy_first_half_statistic": _accurate(
            "the statistic is said to move by half of what it moves",
            "0.4",
            (("1.1", 2.0604572097), ("2.2", 4.0852034242)),
            chain_noise=_HALF,
        ),
        "accuracy_first_unscaled_tolerance": _accurate(
            "the solver stops at a gradient of 0.1, of which the sensitivity knows nothing",
            "0.4",
            (("1.1", 2.0604572097), ("2.2", 4.0852034242)),
            tolerance=Decimal("0.1"),
        ),
        "accuracy_first_every_level_shown": _case(
            "both levels are published, billed as the one that passed",
            EveryLevelShown(_HALF, Decimal(2), Decimal("0.4")),
            _LABELS,
            _by_first("0.6", "2.2", "2.2", start=1),
            ("0.6", 2.0604572097),
            ("2.2", 2.0852034242),
        ),
    }
)
"""By name."""
