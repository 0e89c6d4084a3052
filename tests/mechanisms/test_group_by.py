"""Groups: the choice of unknown keys against its recursion, what counts of a unit against an enumeration of every coin,
and how far one unit moves each number that noise is added to."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpledger as dpl
from dpledger.accounting.certificates.gaussian_tests import gaussian_tests
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.accounting.rules import check
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.groups.contributions import Contributions
from dpledger.mechanisms.groups.group_table import _shown
from dpledger.mechanisms.groups.partition_selection import KeyChoice
from dpledger.mechanisms.noise import Bernoulli, Draw, Uniform, answering, recording
from dpledger.mechanisms.noise.randomness_log import Returned
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from group_oracle import Row, best_probability, hockey_stick, kept_rows, law_of_keys, noisy_probability, odds_below
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
COUNT = dpl.Count(1, of="rows")
MEAN = dpl.ClippedMean(1, lower=0, upper=10)
SUM = dpl.ClippedSum(1, lower=-1, upper=10)
STATISTICS = (COUNT, ("value", MEAN), ("late", dpl.Count("0.5", of="true")), ("value", SUM))
NAN = float("nan")


def table(rows: Sequence[Row], **columns: Any) -> pd.DataFrame:
    """Of rows with their units."""
    units, keys = (pd.Series([row[side] for row in rows], dtype=object) for side in (0, 1))
    return pd.DataFrame({"unit": units, "key": keys, **columns})


GOOD = pd.DataFrame(
    {
        "key": ["a", "b", "a", "c"] * 12,
        "value": [1.5, 20.0, -3.0, NAN] * 12,
        "late": [True, False, None, True] * 12,
        "unit": [f"u{n // 3}" for n in range(48)],
    }
)
ODD: tuple[Any, ...] = (None, NAN, "", "a\0", b"a", 1, 1.0, True, 10**400, [1], {"a": 1}, object(), pd.NA, pd.NaT, 1j)
BAD = (
    GOOD.iloc[:0],
    pd.DataFrame({name: pd.Series(ODD, dtype=object) for name in GOOD}),
    pd.DataFrame({name: [NAN, np.inf, -np.inf, 1e308] for name in GOOD}),
    pd.DataFrame({name: pd.Categorical(["a", "b", None]) for name in GOOD}),
    pd.DataFrame({name: pd.to_datetime(pd.Series(["2013-01-01", None])) for name in GOOD}),
    pd.DataFrame({name: pd.array([1, None, 2**62], dtype="Int64") for name in GOOD}),
)
NO_FRAMES: tuple[Any, ...] = (None, 3, "key", [1], {"key": ["a"]}, np.zeros((3, 4)), GOOD["key"], GOOD[["key"]])
NO_NUMBERS: tuple[Any, ...] = (0, -1, NAN, "x", [])


class TestGroupsOfPublicKeys(MechanismConformance):
    relations = (ADD, REPLACE, Relation.ZERO_OUT)
    good_data = GOOD
    bad_data = BAD
    bad_containers = NO_FRAMES
    bad_parameters = (
        {"by": ()},
        {"by": ("key", "key")},
        {"statistics": ()},
        {"statistics": (("value", COUNT),)},
        {"statistics": (MEAN,)},
        {"statistics": (COUNT, COUNT)},
        {"statistics": (dpl.Histogram(1, edges=(0, 1)),)},
        {"statistics": (("value", dpl.Histogram(1, categories=("a",))),)},
        {"statistics": (("value", dpl.Histogram(1, edges=(0, 1))), ("value", dpl.Histogram(2, edges=(0, 1))))},
        {"statistics": (dpl.Count(1, of="rows", relation=ADD),)},
        {"keys": ()},
        {"keys": ("a", "a")},
        {"keys": (1, 1.0)},
        {"keys": (("a", "b"),)},
        {"keys": ([],)},
        {"keys": (NAN,)},
        {"keys": (None,)},
        {"keys": None},
        {"key_epsilon": 1},
        {"missing": "told"},
        {"units": ""},
        *({"keys_per_unit": value} for value in (0, -1, 1.5, "2")),
        *({"rows_per_key": value} for value in (0, -1, 1.5, "2")),
    )

    def make(self, **changes: Any) -> Any:
        return dpl.GroupBy(**{"by": "key", "statistics": STATISTICS, "keys": ("a", "b", "z"), **changes})


class TestGroupsOfUnknownKeys(MechanismConformance):
    relations = (ADD, REPLACE, Relation.ZERO_OUT)
    good_data = GOOD
    bad_data = BAD
    bad_containers = NO_FRAMES
    bad_parameters = (
        *({"key_epsilon": value} for value in (*NO_NUMBERS, None)),
        *({"key_delta": value} for value in (*NO_NUMBERS, None, "0.5", 1)),
        {"keys": ("a",)},
    )
    unit = Unit("patient", max_contributions=4)

    def make(self, **changes: Any) -> Any:
        fields = {"key_epsilon": 2, "key_delta": "0.01", "units": "unit", "keys_per_unit": 2, "rows_per_key": 3}
        return dpl.GroupBy(**{"by": "key", "statistics": STATISTICS, **fields, **changes})


class TestKeysAlone(TestGroupsOfUnknownKeys):
    def make(self, **changes: Any) -> Any:
        return super().make(**{"by": ("key", "late"), "statistics": (), "missing": "counted", **changes})


# ---- unknown keys ---------------------------------------------------------------------------------------------------


def choice(epsilon: str, delta: str, keys: int = 1) -> KeyChoice:
    return KeyChoice(epsilon=Decimal(epsilon), delta=Decimal(delta), keys=keys)


@pytest.mark.parametrize(
    ("epsilon", "delta", "half", "sure"), [("1", "1e-5", 12, 23), ("0.1", "1e-6", 109, 218), ("4", "1e-8", 6, 11)]
)
def test_the_probabilities_of_the_literature(epsilon: str, delta: str, half: int, sure: int) -> None:
    mine = choice(epsilon, delta)
    assert float(mine.probability(2)) == pytest.approx((1 + math.exp(float(epsilon))) * float(delta), rel=1e-12)
    assert (mine.published_from("0.5"), mine.published_from(1)) == (half, sure)
    assert mine.probability(sure) == 1 > mine.probability(sure - 1)
    for n in range(sure + 2):
        wanted = best_probability(epsilon, delta, n)
        assert wanted * (1 - Fraction("1e-12")) <= mine.probability(n) <= wanted, n


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-5"), ("0.1", "1e-6"), ("4", "1e-8"), ("3", "0.4")])
def test_one_unit_more_or_less_is_private_in_all_four_ways_exactly(epsilon: str, delta: str) -> None:
    """With a rational below e^epsilon, on the probabilities as they are tossed."""
    mine, below, failing = (
        choice(epsilon, delta),
        odds_below(epsilon),
        Fraction(delta),
    )
    for n in range(mine.published_from(1) + 2):
        fewer, more = mine.probability(n), mine.probability(n + 1)
        assert fewer <= more
        for ours, theirs in ((fewer, more), (more, fewer), (1 - fewer, 1 - more), (1 - more, 1 - fewer)):
            assert ours <= below * theirs + failing


def test_a_key_without_a_unit_is_never_published_and_one_of_one_unit_with_delta_at_most() -> None:
    assert choice("1", "1e-5").probability(0) == 0
    assert 0.99 * Fraction("1e-5") < choice("1", "1e-5").probability(1) <= Fraction("1e-5")


def test_k_keys_of_a_unit_share_and_under_replace_one_twice_as_many() -> None:
    given: dict[str, Any] = {"key_epsilon": 6, "key_delta": "6e-6", "units": "unit"}
    for relation, groups, keys in ((ADD, 3, 3), (REPLACE, 1, 2), (ADD, 6, 6), (REPLACE, 3, 6)):
        mine = dpl.GroupBy("key", (), **given, keys_per_unit=groups).under(relation, Unit("user", 9))
        each = dpl.ApproxDP(Decimal(6) / keys, Decimal("6e-6") / keys)
        assert mine.parts() == (dpl.Repeated(each, times=keys) if keys < 4 else dpl.ApproxDP(6, "6e-6"))
        assert mine.claim() == dpl.ApproxDP(6, "6e-6")
    with pytest.raises(ParameterError, match="key_delta"):
        dpl.GroupBy("key", (), key_epsilon=1, key_delta="0.5")


@pytest.mark.parametrize(("epsilon", "delta"), [("2", "0.2"), ("1", "0.01")])
def test_four_keys_that_share_their_noise_are_private_together(epsilon: str, delta: str) -> None:
    """All sets of published keys of four that one unit moves, up or down, whatever units they have; and with the noise
    of a single key they are not."""
    shared, alone = choice(epsilon, delta, 4), gaussian_tests(Decimal(epsilon), Decimal(delta), 1)
    assert shared.law is not None
    worst: dict[Any, float] = {}
    for law in (shared.law, alone):
        many = law.threshold + 12
        pi = np.array([noisy_probability(str(law.sigma), law.threshold, n) for n in range(many + 2)])
        steps = range(0, many, max(1, many // 8))
        held = np.array(list(itertools.product(steps, repeat=4)))
        for moves in ((1, 1, 1, 1), (1, 1, 1, -1), (1, 1, -1, -1)):
            sides = [np.where(np.array(moves) == side, held + 1, held) for side in (1, -1)]
            masses = [
                np.stack([np.where(fell, pi[side], 1 - pi[side]).prod(axis=1) for fell in COINS], axis=1)
                for side in sides
            ]
            for ours, theirs in (masses, masses[::-1]):
                lost = np.maximum(0, ours - math.exp(float(epsilon)) * theirs).sum(axis=1).max()
                worst[law] = max(worst.get(law, 0.0), float(lost))
    assert worst[shared.law] <= float(delta) < worst[alone]
    assert worst[shared.law] > float(delta) / 20, "the pairs are no tame ones"


def test_what_is_tossed_for_shared_noise_is_its_law_to_many_digits() -> None:
    mine = choice("1", "1e-5", 30)
    assert mine.law is not None
    for n in (0, 1, 2, 50, 110, 111, 112, 400):
        wanted = noisy_probability(str(mine.law.sigma), mine.law.threshold, n)
        assert float(mine.probability(n)) == pytest.approx(wanted, rel=1e-12, abs=1e-300)
    assert mine.published_from("0.5") == mine.law.threshold + 2
    sure = mine.published_from(1)
    assert mine.probability(sure) == 1 > mine.probability(sure - 1)
    assert mine.published_from("0.5") < choice("1", "1e-5", 3).published_from("0.5") * 4, "not ten times"
    assert choice("101", "1e-5", 30).law is choice("1", "1e-19", 30).law is None


# ---- every coin -----------------------------------------------------------------------------------------------------

COINS = list(itertools.product((True, False), repeat=4))
ROWS: tuple[Row, ...] = (
    ("ann", "a"), ("ann", "b"), ("ann", "a"), ("bob", "a"), ("bob", "b"), ("bob", "c"), ("cid", "b"),
)  # fmt: skip
CAPS: dict[str, Any] = {"rows": 3, "groups": 2, "rows_a_group": 1}
SMALL = Unit("user", max_contributions=3)


def wanted_chance(mine: Any) -> Any:
    """What publishes a key of so many units, by an oracle."""
    found = mine._choice
    if found.law is not None:
        return partial(noisy_probability, str(found.law.sigma), found.law.threshold)
    return partial(best_probability, str(found.each.epsilon), str(found.each.delta))


def keys_alone(relation: Relation) -> Any:
    shared: dict[str, Any] = {"units": "unit", "keys_per_unit": CAPS["groups"], "rows_per_key": CAPS["rows_a_group"]}
    return dpl.GroupBy("key", (), key_epsilon=2, key_delta="0.2", **shared).under(relation, SMALL)


def orders(rows: Sequence[Row]) -> list[list[int]]:
    """The numbers that put the crowded units' rows in each of the orders that there are."""
    sizes = Counter(unit for unit, _ in rows)
    crowded = [unit for unit, _ in rows if sizes[unit] > 1]  # more than one row may be too many
    of_unit = {unit: list(itertools.permutations(range(sizes[unit]))) for unit in dict.fromkeys(crowded)}
    found = []
    for way in itertools.product(*of_unit.values()):
        left = {unit: list(order) for unit, order in zip(of_unit, way, strict=True)}
        found.append([left[unit].pop(0) for unit in crowded])
    return found


def enumerated(mechanism: Any, rows: Sequence[Row]) -> dict[frozenset[str], float]:
    """The law of the published keys: every order of every unit's rows, every coin."""
    law: Counter[frozenset[str]] = Counter()
    every = orders(rows)
    for words in every:
        for coins in range(8):
            chance = Fraction(1, len(every))
            fits = True

            def answer(_: int, call: Draw, words: list[int] = words, coins: int = coins) -> Returned:
                nonlocal chance, fits
                if isinstance(call.law, Uniform):
                    assert call.shape == (len(words),)
                    return np.array(words, dtype=np.uint64)
                assert isinstance(call.law, Bernoulli)
                fell = [bool(coins >> place & 1) for place in range(call.size)]
                fits = coins >> call.size == 0
                chance *= math.prod(p if one else 1 - p for p, one in zip(call.value, fell, strict=True))
                return np.flatnonzero(fell).astype(np.int64)

            with answering(answer):
                value = mechanism.release(table(rows), entropy=seeded(1)).value
            if fits:
                law[frozenset(value)] += float(chance)  # type: ignore[assignment]
    return dict(law)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_the_law_of_the_published_keys_is_that_of_an_enumeration(relation: Relation) -> None:
    mine = keys_alone(relation)
    assert (mine._choice.law is None) is (relation is ADD), "2 keys of a unit, or 4"
    wanted, _ = law_of_keys(ROWS, wanted_chance(mine), **CAPS)
    found = enumerated(mine, ROWS)
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("relation", "other"),
    [
        (ADD, ROWS[:6]),
        (ADD, ROWS[3:]),
        (ADD, (*ROWS[:3], *ROWS[6:])),
        (ADD, (*ROWS, ("dan", "a"), ("dan", "d"), ("dan", "e"))),
        (REPLACE, (*ROWS[:6], ("cid", "c"), ("cid", "d"), ("cid", "d"))),
        (REPLACE, (("ann", "c"), ("ann", "c"), ("ann", "d"), *ROWS[3:])),
    ],
)
def test_neighbours_keep_the_claim_in_both_directions(relation: Relation, other: tuple[Row, ...]) -> None:
    mine = keys_alone(relation)
    claim = mine.claim()
    laws = [law_of_keys(rows, wanted_chance(mine), **CAPS)[0] for rows in (ROWS, other)]
    for ours, theirs in (laws, laws[::-1]):
        assert hockey_stick(ours, theirs, float(claim.epsilon)) <= float(claim.delta)


def test_a_new_key_of_one_unit_is_what_delta_is_for() -> None:
    mine = dpl.GroupBy("key", (), key_epsilon=1, key_delta="0.01").under(ADD, Unit())
    assert mine.failures() == (PrivacyFailure(Decimal("0.01"), "stability"),)
    laws = [law_of_keys(rows, wanted_chance(mine), rows=1, groups=1, rows_a_group=1)[0] for rows in ([("u", "z")], [])]
    assert hockey_stick(laws[0], laws[1], 50) == pytest.approx(0.01)


# ---- what counts of a unit ------------------------------------------------------------------------------------------


def test_which_rows_count_has_the_law_of_an_enumeration() -> None:
    """Of one unit with five rows in three groups; the other unit's row always counts. A twin for which each way is as
    likely as any other is rejected."""
    rows = [("u", "a"), ("u", "a"), ("u", "b"), ("v", "a"), ("u", "c"), ("u", "a")]
    _, law = law_of_keys(rows, partial(best_probability, "1", "0.1"), rows=4, groups=2, rows_a_group=2)
    codes, owners = np.array([0, 0, 1, 0, 2, 0]), np.array([0, 0, 0, 1, 0, 0])
    bounds = Contributions(rows=4, groups=2, rows_a_group=2)
    ways = {held: number for number, held in enumerate(law)}
    seen: Counter[int] = Counter()
    for seed in range(4_000):
        kept = bounds.kept(codes, owners, entropy=seeded(7, seed))
        assert 3 in kept
        assert list(kept) == sorted(set(kept.tolist()))
        seen[ways[tuple(sorted(rows[place] for place in kept))]] += 1
    assert events_p_value(seen, 4_000, {ways[held]: float(p) for held, p in law.items()}) > SIGNIFICANCE
    flat = dict.fromkeys(ways.values(), 1 / len(ways))
    assert events_p_value(seen, 4_000, flat) < SIGNIFICANCE


def words_of_own_rows(rows: Sequence[Row], salt: int) -> dict[int, list[int]]:
    """A word for each row that follows from its unit and its place among that unit's rows alone."""
    found: dict[int, list[int]] = {}
    sizes, seen = Counter(unit for unit, _ in rows), Counter[str]()
    for least in range(1, 4):
        found[least] = []
        seen.clear()
        for unit, _ in rows:
            seen[unit] += 1
            if sizes[unit] > least:
                found[least].append(random.Random(f"{salt}{unit}{seen[unit]}").getrandbits(64))
    return found


def numbers_given(mechanism: Any, data: pd.DataFrame, rows: Sequence[Row], salt: int) -> list[Draw]:
    words = words_of_own_rows(rows, salt)
    least = min(mechanism._bounds.rows, mechanism._bounds.groups, mechanism._bounds.rows_a_group)

    def answer(_: int, call: Draw) -> Returned:
        return np.array(words[least], dtype=np.uint64) if isinstance(call.law, Uniform) else call.output

    with answering(answer) as draws:
        mechanism.release(data, entropy=seeded(3))
    return [draw for draw in draws if draw.sensitivity is not None]


@pytest.mark.parametrize("relation", [ADD, REPLACE, Relation.ZERO_OUT])
@pytest.mark.parametrize(("rows", "groups", "a_group"), [(3, 2, 1), (3, 1, 3), (3, 3, 3), (3, 3, 1), (2, 2, 2)])
def test_one_unit_moves_each_number_by_at_most_what_is_declared(
    relation: Relation, rows: int, groups: int, a_group: int
) -> None:
    shared: dict[str, Any] = {"units": "unit", "keys_per_unit": groups, "rows_per_key": a_group, "keys": list("abcd")}
    mine = dpl.GroupBy("key", STATISTICS, **shared).under(relation, Unit("user", rows))
    draw, most = random.Random(rows + 10 * groups), [0.0] * 5
    for salt in range(24):
        held = [(f"u{draw.randrange(4)}", draw.choice("abcd")) for _ in range(12)]
        data = table(held, value=[draw.choice((-5.0, 0.0, 3.3, 10.0, 99.0)) for _ in held], late=[1.0] * 12)
        gone = data["unit"] == "u0"
        other = data[~gone].reset_index(drop=True)
        if relation is REPLACE:
            extra = table([("u0", "d")] * 3, value=[10.0] * 3, late=[1.0] * 3)
            other = pd.concat([other, extra], ignore_index=True)
        if relation is Relation.ZERO_OUT:
            other = data.assign(key=data["key"].mask(gone, None))
        sides = [
            numbers_given(mine, side, [one for one in zip(side["unit"], side["key"], strict=True) if one[1]], salt)
            for side in (data, other)
        ]
        for place, (ours, theirs) in enumerate(zip(*sides, strict=True)):
            grid = float(getattr(ours.law, "grid", 1))
            moved = float(np.abs(ours.value - theirs.value).sum()) * grid
            assert ours.sensitivity is not None
            assert moved <= float(ours.sensitivity.value)
            most[place] = max(most[place], moved / float(ours.sensitivity.value))
    assert max(most) > (0.4 if relation is REPLACE else 0.8)  # the pairs are no tame ones


def test_numbers_are_those_of_a_plain_group_by() -> None:
    data = GOOD.assign(value=np.linspace(-2, 12, 48))
    mine = dpl.GroupBy("key", STATISTICS, keys=["c", "a", "z"]).under(ADD, Unit())
    with recording() as draws:
        mine.release(data, entropy=seeded(1))
    counts, totals, sizes, late, sums = (one.value.tolist() for one in draws)
    assert counts == sizes == [12, 24, 0]
    assert late == [12, 12, 0]
    for numbers, place, centre, lower in ((totals, 1, 5, 0), (sums, 4, 0, -1)):
        grid = float(draws[place].law.grid)  # type: ignore[union-attr]
        for total, key in zip(numbers, ("c", "a"), strict=False):
            wanted = (data.loc[data["key"] == key, "value"].clip(lower, 10) - centre).sum()
            assert total * grid == pytest.approx(wanted, abs=24 * grid)


BINS = dpl.Histogram(1, edges=(0, 3, 10), others="counted")


@pytest.mark.parametrize(("relation", "times"), [(ADD, 1), (REPLACE, 2), (Relation.ZERO_OUT, 1)])
def test_a_unit_moves_all_counts_of_a_histogram_by_its_rows_in_total(relation: Relation, times: int) -> None:
    mine = dpl.GroupBy("key", [("value", BINS)], keys=list("abc"), units="unit").under(relation, Unit("user", 3))
    data = table([("u0", key) for key in "aab"] + [("u1", "c")] * 2, value=[1.0, 5.0, 99.0, 2.0, 3.0])
    gone = data["unit"] == "u0"
    other = data[~gone].reset_index(drop=True)
    if relation is REPLACE:
        other = pd.concat([other, table([("u0", "c")] * 3, value=[2.0, 3.0, 4.0])], ignore_index=True)
    if relation is Relation.ZERO_OUT:
        other = data.assign(key=data["key"].mask(gone, None))
    found = []
    for side in (data, other):
        with recording() as draws:
            mine.release(side, entropy=seeded(1))
        found.append([one for one in draws if one.sensitivity is not None])
    assert [one.value.tolist() for one in found[0]] == [[1, 0, 1], [1, 0, 1], [0, 1, 0]]
    moved = sum(float(np.abs(ours.value - theirs.value).sum()) for ours, theirs in zip(*found, strict=True))
    assert {float(one.sensitivity.value) for one in found[0] if one.sensitivity} == {3.0 * times}
    assert moved == 3 * times, "the most that is declared"
    assert mine.parts() == BINS.under(ADD, Unit("user", 3 * times)).parts()


def test_a_histogram_by_groups_has_a_column_for_each_interval() -> None:
    data = GOOD.assign(value=[-1.0, 1.0, 3.0, 10.0, NAN, 99.0] * 8)
    mine = dpl.GroupBy("key", [COUNT, ("value", dpl.Histogram(1000, edges=(0, 3, 10)))], keys=["a", "c", "z"])
    released = mine.under(ADD, Unit()).release(data, entropy=seeded(1)).value
    truth = {
        key: [int((part["value"].between(0, 3, "left")).sum()), int(part["value"].between(3, 10).sum())]
        for key, part in data.groupby("key")
    }
    for key in ("a", "c", "z"):
        found = released[key]
        assert [found["value_[0, 3)"], found["value_[3, 10]"]] == truth.get(key, [0, 0])
        assert released.interval(key, "value_[3, 10]", "0.9") == (found["value_[3, 10]"],) * 2
    frame = released.to_frame("0.9")
    names = [f"value_{label}" for label in ("[0, 3)", "[3, 10]")]
    assert list(frame)[4:] == [name + end for name in names for end in ("", "_lower", "_upper")]
    assert mine.value_of(mine.plain_of(released)) == released


def test_a_notebook_shows_each_number_with_its_interval() -> None:
    statistics = [COUNT, ("value", dpl.ClippedMean(2, lower=0, upper=10)), ("value", dpl.Histogram(1, edges=(0, 3, 9)))]
    data = pd.DataFrame({"key": ["<b>"] * 400 + ["c"] * 400, "value": [1.0, 5.0] * 400})
    mine = dpl.GroupBy("key", statistics, keys=["<b>", "c"]).under(ADD, Unit())
    released = mine.release(data, entropy=seeded(1)).value
    page = released._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    frame = released.to_frame().set_index("key")
    for key in ("<b>", "c"):
        row = frame.loc[key]
        for name in ("count", "value_[0, 3)", "value_[3, 9]"):
            assert f"<td>{row[name]:.0f} [{row[name + '_lower']:.0f}, {row[name + '_upper']:.0f}]</td>" in page
        ends = ", ".join(f"{row['value_mean' + end]:.3f}" for end in ("_lower", "_upper"))
        assert f"<td>{row['value_mean']:.3f} [{ends}]</td>" in page


@pytest.mark.parametrize("value", [0.5, -1e300, 1e-9])
@pytest.mark.parametrize("half", [0.0, 1e-9, 3.0, 1e300, math.inf])
def test_a_cell_is_written_whatever_its_interval(value: float, half: float) -> None:
    assert _shown(value, value - half, value + half).count("[") == 1


def test_sums_beyond_what_int64_holds_are_exact() -> None:
    fine: dict[str, Any] = {"lower": 0, "upper": 2**20, "grid": Decimal(2) ** -30}
    statistics = [("value", dpl.ClippedMean(1, **fine)), ("value", dpl.ClippedSum(1, **fine))]
    mine = dpl.GroupBy("key", statistics, keys=["a", "b"]).under(ADD, Unit())
    data = pd.DataFrame({"key": ["a"] * 20_000 + ["b"], "value": [2.0**20] * 20_001})
    with recording() as draws:
        mine.release(data, entropy=seeded(1))
    assert [int(one) for one in draws[0].value] == [20_000 * 2**49, 2**49]
    assert [int(one) for one in draws[2].value] == [20_000 * 2**50, 2**50]


# ---- what is priced and told ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_parts_keep_the_claim_whatever_the_numbers_are() -> None:
    draw = random.Random(5)
    for number in range(100):
        epsilon, rows = str(round(draw.uniform(0.01, 5), draw.randint(1, 12))), draw.randint(1, 50)
        ranged: dict[str, Any] = {"epsilon": epsilon, "lower": -3, "upper": 10}
        of_values = [("value", dpl.ClippedMean(**ranged)), ("value", dpl.ClippedSum(**ranged))]
        statistics = [dpl.Count(epsilon, of="rows"), *of_values]
        groups = draw.randint(1, 3) if number % 10 else None  # noise that many keys share takes a search
        chosen: dict[str, Any] = {"key_epsilon": epsilon, "key_delta": "1e-6", "units": "unit"}
        mine = dpl.GroupBy("key", statistics, **chosen, keys_per_unit=groups)
        relation = draw.choice((ADD, REPLACE, Relation.ZERO_OUT))
        placed = mine.under(relation, Unit("user", rows))
        check(placed.claim(), placed.parts(), relation)


def test_a_unit_of_many_rows_takes_as_much_noise_as_its_rows_that_count() -> None:
    def scale(relation: Relation, **caps: Any) -> Decimal:
        mine = dpl.GroupBy("key", [COUNT], keys=["a"], units="unit", **caps).under(relation, Unit("user", 10))
        return mine.parts().scale  # type: ignore[union-attr]

    assert scale(ADD) == 10
    assert scale(ADD, keys_per_unit=2, rows_per_key=3) == 6
    assert scale(ADD, keys_per_unit=100) == 10
    assert scale(REPLACE, keys_per_unit=2, rows_per_key=3) == 12
    assert scale(Relation.ZERO_OUT, keys_per_unit=2, rows_per_key=3) == 6
    counted = dpl.GroupBy("key", [COUNT], keys=["a"], missing="counted").under(Relation.ZERO_OUT, Unit())
    assert counted.parts().scale == 2  # type: ignore[union-attr]


def test_whose_rows_they_are_must_be_said_where_a_unit_may_have_many() -> None:
    with pytest.raises(ParameterError, match=r"units.*whose each row is.*one user may have 3 rows"):
        dpl.GroupBy("key", [COUNT], keys=["a"]).under(ADD, SMALL)


def test_labels_are_refused_by_name() -> None:
    with pytest.raises(RelationError, match=r"label_flip.*replace_one"):
        dpl.GroupBy("key", [COUNT], keys=["a"]).under(Relation.LABEL_FLIP, Unit())


def test_from_how_many_units_on_a_key_is_published() -> None:
    several = dpl.GroupBy("key", (), key_epsilon=1, key_delta="1e-5", units="who", keys_per_unit=30)
    with pytest.raises(dpl.ParameterError, match=r"^unit: expected the unit of the scope"):
        several.published_from("0.5")
    assert several.under(dpl.Relation.ADD_REMOVE, dpl.Unit("person", 30)).published_from("0.5") == 111
    assert dpl.GroupBy("key", (), key_epsilon=1, key_delta="1e-5").published_from("0.5") == 12
    with pytest.raises(ParameterError, match="keys"):
        dpl.GroupBy("key", [COUNT], keys=["a"]).published_from("0.5")
    for wrong in (0, 2, "x"):
        with pytest.raises(ParameterError, match="probability"):
            dpl.GroupBy("key", (), key_epsilon=1, key_delta="1e-5").published_from(wrong)


def test_keys_of_several_columns_and_keys_that_are_missing() -> None:
    data = pd.DataFrame({"a": ["x", "x", None, "y"] * 50, "b": [1, 2, 1, None] * 50})
    alone = dpl.GroupBy(("a", "b"), [COUNT], key_epsilon=2, key_delta="1e-3").under(ADD, Unit())
    assert list(alone.release(data, entropy=seeded(1)).value) == [("x", "1"), ("x", "2")]
    counted = dpl.GroupBy(("a", "b"), [COUNT], keys=[("x", 2), (None, 1), ("y", None)], missing="counted")
    value = counted.under(ADD, Unit()).release(data, entropy=seeded(1)).value
    assert list(value) == [("x", "2"), ("nan", "1"), ("y", "nan")]
    assert all(abs(value[key]["count"] - 50) < 20 for key in value)


@pytest.mark.slow
def test_intervals_hold_what_they_should() -> None:
    """Each interval misses in at most as many of 1,500 as Binomial(1500, 0.1) hardly ever exceeds."""
    mine = dpl.GroupBy("key", STATISTICS, keys=list("abc")).under(ADD, Unit())
    data = GOOD.assign(value=np.linspace(0, 10, 48))
    missed: Counter[str] = Counter()
    truth = data.groupby("key")["value"].mean()
    for seed in range(500):
        released = mine.release(data, entropy=seeded(2, seed)).value
        frame = released.to_frame("0.9").set_index("key")
        inside = (frame["value_mean_lower"] <= truth) & (truth <= frame["value_mean_upper"])
        missed["mean"] += int((~inside).sum())
        sums = data.assign(value=data["value"].clip(-1, 10)).groupby("key")["value"].sum()
        missed["sum"] += int((~((frame["value_sum_lower"] <= sums) & (sums <= frame["value_sum_upper"]))).sum())
        counts = data["key"].value_counts().reindex(frame.index)
        missed["count"] += int((~((frame["count_lower"] <= counts) & (counts <= frame["count_upper"]))).sum())
        assert frame["count"]["a"] == released["a"]["count"]
        assert released.interval("a", "count", "0.9") == (frame["count_lower"]["a"], frame["count_upper"]["a"])
    assert 0 < missed["count"] < 220
    assert 0 < missed["sum"] < 220
    assert missed["mean"] < 220


@pytest.mark.parametrize(("statistics", "verdict"), [((), "not_refuted"), ((COUNT,), "blind")])
@pytest.mark.parametrize("held", [[], ["b"] * 30])
def test_a_replay_accuses_nobody_of_a_key_that_one_unit_alone_has(
    statistics: Any, verdict: str, held: list[str]
) -> None:
    mine = dpl.GroupBy("key", statistics, key_epsilon=1, key_delta="0.01")
    left, right = (pd.DataFrame({"key": pd.Series(keys, dtype=object)}) for keys in (held, [*held, "a"]))
    result = dpl.audit_replay(mine, left, right)
    assert result.verdict == verdict
    assert not result.findings


def test_a_release_through_a_scope_comes_back_under_its_key() -> None:
    scope = dpl.Ledger.in_memory().scope("t", unit="record", relation="add_remove", budget=dpl.ApproxDP(9, "1e-4"))
    mine = dpl.GroupBy("key", STATISTICS, key_epsilon=1, key_delta="1e-5")
    first = scope.release(mine, GOOD, key="by-key")
    assert scope.release(mine, GOOD, key="by-key").value == first.value
    assert scope.spent(delta="1e-4").upper <= 4.6
    assert any("missing" in told for told in first.reads)


def dealt(words: Any, _: int, __: Draw) -> Returned:
    return words  # type: ignore[no-any-return]


def test_the_order_of_rows_decides_nothing_beyond_the_order_of_a_units_own() -> None:
    rows = [("ann", "a"), ("bob", "b"), ("ann", "c"), ("bob", "a"), ("ann", "b")]
    ours = [kept_rows([row for row in rows if row[0] == unit], 2, 1, 2) for unit in ("ann", "bob")]
    assert [len(kept) for kept in ours] == [1, 1]
    bounds = Contributions(rows=2, groups=1, rows_a_group=2)
    codes, owners = np.array([0, 1, 2, 0, 1]), np.array([0, 1, 0, 1, 0])
    place = np.array([1, 3, 0, 2, 4])  # rows of both, dealt otherwise between one another
    words = np.array([5, 9, 3, 7, 8], dtype=np.uint64)
    held = []
    for order in (np.arange(5), place):
        with answering(partial(dealt, words[order])):
            kept = bounds.kept(codes[order], owners[order], entropy=seeded(1))
        held.append(sorted(order[kept].tolist()))
    assert held[0] == held[1]
