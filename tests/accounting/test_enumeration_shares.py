"""The ways to write a count as an ordered sum: all of them, each once, however few or many."""

import math

import pytest

from dpledger.accounting.engine.enumeration import _shares


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("values", range(1, 7))
def test_every_way_once(count: int, values: int) -> None:
    rows = [tuple(row) for row in _shares(count, values).tolist()]
    assert len(set(rows)) == len(rows) == math.comb(count + values - 1, values - 1)
    assert {sum(row) for row in rows} == {count}
