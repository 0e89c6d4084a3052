"""The ways to write a count as an ordered sum: all of them, each once, however few or many; and how many they are."""

import math

import mpmath
import pytest

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine.enumeration import _log_factorials, _shares


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("values", range(1, 7))
def test_every_way_once(count: int, values: int) -> None:
    rows = [tuple(row) for row in _shares(count, values).tolist()]
    assert len(set(rows)) == len(rows) == math.comb(count + values - 1, values - 1)
    assert {sum(row) for row in rows} == {count}


def test_a_factorial_is_within_the_error_that_is_counted_for_it() -> None:
    """From a table, and beyond it by a series."""
    with mpmath.workdps(40):
        for n, found in enumerate(_log_factorials(300).tolist()):
            exact = mpmath.loggamma(n + 1)
            assert abs(found - exact) <= 8 * UNIT * (1 + exact)
