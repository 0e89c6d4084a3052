"""How far the ends of bounded ranges are apart, and how few values they are made of: as their page says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpledger.accounting.composition import Repeated
from dpledger.accounting.families.bounded_range.repeated import worst_of_runs
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

PAGE = Path(__file__).parents[2] / "docs" / "proofs" / "bounded_ranges.md"
MOST_RUNS, WIDEST = 24, 8.0  # of what is measured here: the rest of the table takes long
ROUNDED = 1.06  # the page has two digits


def table() -> dict[tuple[str, int], float]:
    """The width at each eta and number of runs."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| eta | "))
    runs = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", lines[start])]
    found = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        eta, *widths = (cell.strip() for cell in line.strip("|").split("|"))
        found.update({(eta, count): float(width) for count, width in zip(runs, widths, strict=True)})
    return found


MEASURED = {(eta, runs): width for (eta, runs), width in table().items() if runs <= MOST_RUNS and float(eta) <= WIDEST}


@pytest.mark.parametrize(("eta", "runs"), MEASURED)
def test_the_ends_are_as_close_as_the_page_says(eta: str, runs: int) -> None:
    at = compose(Repeated(BoundedRange(eta), times=runs)).epsilon("1e-6")
    assert at.lower < at.upper <= at.lower * (1 + ROUNDED * MEASURED[eta, runs])


@pytest.mark.parametrize(("eta", "runs"), [(0.05, 24), (0.2, 3), (1.0, 64), (4.0, 24)])
def test_a_loss_has_as_few_values_as_the_page_says(eta: float, runs: int) -> None:
    """Some 600 or more, unless they would lie further apart than 0.0055 of the root of the sum of the squares."""
    ((loss, _),) = worst_of_runs(((eta, runs),))
    assert isinstance(loss, FiniteLoss)
    above = np.sort(loss.losses[loss.losses >= 0])
    apart = 0.0055 * eta * math.sqrt(runs)
    assert min(600, eta * runs / apart) <= above.size <= 2 * max(600.0, eta * runs / apart) + 2
    assert np.diff(above).max() <= 2 * max(apart, eta * runs / 600)


def test_the_page_has_a_table() -> None:
    assert len(MEASURED) >= 20
