"""What is no number, no count and no tree is refused by name; what is one, in any library's clothes, is taken."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PostProcessed, Repeated
from dpledger.accounting.profile import compose
from dpledger.errors import ParameterError

PROFILE = compose(GaussianLaw(1))


@pytest.mark.parametrize(
    "delta", ["1e-5", 1e-5, np.float64(1e-5), Decimal("1e-5"), "+.00001", "10e-6", Fraction(1, 100_000)]
)
def test_a_delta_in_any_clothes(delta: object) -> None:
    assert PROFILE.epsilon(delta) == PROFILE.epsilon("0.00001")  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1, 1.0, "1", np.int64(1), np.float32(1), np.uint8(1), Decimal(1)])
def test_an_epsilon_in_any_clothes(epsilon: object) -> None:
    assert PROFILE.delta(epsilon) == PROFILE.delta("1")  # type: ignore[arg-type]


NO_NUMBERS: list[object] = [
    *(True, np.True_, None, [], (), {}, [1e-5], np.array([1e-5]), np.array(1e-5), b"1e-5", 1 + 0j),
    *("", " ", "one", " 1", "1_0", "１", "0x1", "1e", "--1", "nan", math.nan, np.nan, Decimal("NaN"), Decimal("sNaN")),
    *(math.inf, -math.inf, "inf", "Infinity", Decimal("Infinity"), -1, -1e-300, "-1e-9", np.int64(-1)),
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(ParameterError, match=r"^delta: "):
        PROFILE.epsilon(value)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^epsilon: "):
        PROFILE.delta(value)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^alpha: "):
        PROFILE.tradeoff(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2, "1.0000000001", 10**400, "1e999999999"])
def test_a_delta_above_one_is_refused(value: object) -> None:
    with pytest.raises(ParameterError, match=r"delta: expected a number in \[0, 1\]"):
        PROFILE.epsilon(value)  # type: ignore[arg-type]


def test_counts_of_numpy_are_counts() -> None:
    assert compose([(GaussianLaw(2), np.int64(4))]).epsilon("1e-5") == compose(GaussianLaw(1)).epsilon("1e-5")


@pytest.mark.parametrize("count", [0, -1, 1.0, 1.5, True, "3", None, np.float64(3), 10**12 + 1, 10**400], ids=repr)
def test_what_is_no_count_is_refused(count: object) -> None:
    with pytest.raises(ParameterError, match=r"Repeated\.times"):
        compose({GaussianLaw(1): count})


@pytest.mark.parametrize("leaf", [GaussianLaw(1), LaplaceLaw("0.1")])
def test_nested_counts_beyond_all_numbers_are_refused(leaf: Composition) -> None:
    tree = leaf
    for _ in range(30):
        tree = Repeated(tree, times=10**12)
    with pytest.raises(ParameterError, match=r"times.*10\^100"):
        compose(tree)


def test_a_tree_that_is_too_deep_is_refused() -> None:
    tree: Composition = GaussianLaw(1)
    for _ in range(5000):
        tree = PostProcessed(tree)
    with pytest.raises(ParameterError, match="nesting"):
        compose(tree)
