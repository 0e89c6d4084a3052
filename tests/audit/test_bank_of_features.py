"""For each kind of fault the bank has a score that tells the sides apart, and its words and cells are true."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as npst

from dpledger.audit.features.bank import bank, count_of_places, is_value, telling_labels, telling_places
from dpledger.audit.features.bits import Grain, Kind, LowBits, Residue
from dpledger.audit.features.boosted import learned
from dpledger.audit.features.cells import EqualPairs, Extreme, Label, Matches, Order, RepeatedValues, Rows
from dpledger.audit.features.coordinates import Along, Difference, Distinct, First, Total, Value
from dpledger.audit.features.events import Above, AtMost, Equals, Event, InCategory, Outside, Undefined, Within
from dpledger.audit.features.inputs import Inputs
from dpledger.audit.features.score import Place, Score
from dpledger.audit.outcomes.encoding import encode
from dpledger.audit.outcomes.structure import Floats, Outcomes, Raised, joined
from told_outputs import found_by_bank, lower_bound

pytestmark = pytest.mark.sliced

RUNS = 4000
Draw = Callable[[float, np.random.Generator], Any]  # the data are 0.0 and 1.0


def last_bit(x: float, rng: np.random.Generator) -> Floats:
    words = rng.normal(size=RUNS).view(np.uint64)
    return (words & ~np.uint64(1) | (rng.random(RUNS) < 0.1 + 0.8 * x).astype(np.uint64)).view(np.float64)


def parity(x: float, rng: np.random.Generator, hide: Callable[[Any, Any], Any]) -> Floats:
    bits = rng.integers(0, 2, (RUNS, 6))
    bits[:, 1] = bits[:, 3] ^ bits[:, 4] ^ int(x) ^ (rng.random(RUNS) < 0.1)
    return np.asarray(hide(bits, rng.random((RUNS, 6))), dtype=np.float64)


def one_time_rappor(x: float, rng: np.random.Generator) -> Any:
    bits = np.zeros(16, dtype=bool)
    bits[[2, 7] if x else [3, 11]] = True
    return np.where(rng.random((RUNS, 16)) < 0.8, bits, ~bits)


def naive(x: float, rng: np.random.Generator) -> Floats:
    return x + np.sign(rng.random(RUNS) - 0.5) * np.log(rng.random(RUNS))


def twice(x: float, rng: np.random.Generator) -> Floats:
    """Two equal coordinates on one side."""
    numbers = rng.normal(size=(RUNS, 5))
    numbers[:, 3] = numbers[:, 1] if x else numbers[:, 3]
    return numbers


def rare(x: float, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(RUNS) < 0.04, x, rng.normal(size=RUNS) * 50)


def many(x: float, rng: np.random.Generator) -> Floats:
    """One of 300 coordinates."""
    numbers = rng.laplace(size=(RUNS // 4, 300))
    numbers[:, 217] += 3 * x
    return numbers


def texts(x: float, rng: np.random.Generator) -> list[str]:
    return [("aye" if rng.random() < 0.1 + 0.8 * x else "nay") for _ in range(RUNS)]


def transcript(x: float, rng: np.random.Generator) -> list[list[str | None]]:
    return [[None] * int(rng.geometric(0.2 + 0.6 * x)) + ["halt"] for _ in range(RUNS)]


FAULTS: dict[str, Draw] = {
    "sign of zero": lambda x, rng: np.where(rng.random(RUNS) < 0.5, -0.0 if x else 0.0, 1.0),
    "payload": lambda x, _: np.full(RUNS, 0x7FF8000000000001 + int(x), dtype=np.uint64).view(np.float64),
    "lowest bit": last_bit,
    "2^60 + bit": lambda x, rng: [2**60 + 2 * int(rng.integers(8)) + int(x) for _ in range(RUNS)],
    "2^60 + bit, numpy": lambda x, rng: 2**60 + 2 * rng.integers(0, 8, RUNS) + int(x),
    "naive Laplace": naive,
    "equal coordinates": twice,
    "shared noise": lambda x, rng: x * np.eye(8)[3] + rng.laplace(scale=8, size=(RUNS, 1)),
    "parity of signs": lambda x, rng: parity(x, rng, lambda bits, noise: (2 * bits - 1) * noise),
    "parity of high bits": lambda x, rng: parity(x, rng, lambda bits, noise: bits + noise),
    "parity of coins": lambda x, rng: parity(x, rng, lambda bits, _: bits),
    "one-time RAPPOR": one_time_rappor,
    "scale": lambda x, rng: rng.normal(size=RUNS) * (1 + 5 * x),
    "an input, rarely": rare,
    "one of many coordinates": many,
    "text": texts,
    "type": lambda x, rng: [v if rng.random() < 0.1 + 0.8 * x else int(v) for v in rng.integers(0, 9, RUNS) * 1.0],
    "exception": lambda x, rng: [
        Raised("KeyError" if rng.random() < 0.1 + 0.8 * x else "ValueError") for _ in range(RUNS)
    ],
    "key": lambda x, rng: [{"a": 1.0, **({"b": 1.0} if rng.random() < 0.1 + 0.8 * x else {})} for _ in range(RUNS)],
    "halting": transcript,
    "value at the halt": lambda x, rng: [
        [None] * int(rng.integers(1, 20)) + [x + rng.laplace() / 3] for _ in range(RUNS)
    ],
    "order": lambda x, rng: np.sort(rng.random((RUNS, 3)), axis=1)[:, :: 1 if x else -1],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_score_of_the_bank_sees_each_fault(name: str) -> None:
    draw = FAULTS[name]
    left, right = (encode(draw(x, np.random.default_rng(7 + int(x)))) for x in (0.0, 1.0))
    assert found_by_bank(left, right, (0.0, 1.0)) > 1


@pytest.mark.parametrize(
    "name", ["naive Laplace", "shared noise", "parity of coins", "one-time RAPPOR", "text", "halting"]
)
def test_no_score_sees_a_difference_where_there_is_none(name: str) -> None:
    left, right = (encode(FAULTS[name](0.0, np.random.default_rng(seed))) for seed in (7, 8))
    assert found_by_bank(left, right, (0.0, 1.0)) < 0.4


KEEPS = float(np.exp(1) / (1 + np.exp(1)))  # a coin of epsilon 1
CROWDED: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "a histogram without noise on its last keys": lambda x, rng: {
        f"cat{i:03d}": 3 + (x if i == 90 else 0) + (rng.laplace() if i < 80 else 0.0) for i in range(100)
    },
    "a model of three arrays": lambda x, rng: {
        "w1": rng.laplace(size=40),
        "w2": rng.laplace(size=(8, 5)),
        "w3": 5 + x + rng.laplace(0, 0.01, 40),
    },
    "a list of 100 dicts": lambda x, rng: [
        {"id": i, "count": float(x) if i == 90 else float(rng.laplace())} for i in range(100)
    ],
    "person 90 answers truthfully": lambda x, rng: [
        "yes" if (x == 0 if i == 90 else rng.random() < KEEPS) else "no" for i in range(100)
    ],
    "key 90 is missing": lambda x, rng: {
        f"k{i:03d}": None if x and i == 90 else int(rng.geometric(0.3)) for i in range(100)
    },
}


def crowd(name: str, x: int, seed: int, runs: int = 100) -> Outcomes:
    rng = np.random.default_rng(seed)
    return encode([CROWDED[name](x, rng) for _ in range(runs)])


@pytest.mark.parametrize("name", CROWDED)
def test_what_stands_beyond_the_64th_place_is_seen(name: str) -> None:
    assert found_by_bank(crowd(name, 0, 1), crowd(name, 1, 2), (0, 1)) > 1
    assert found_by_bank(crowd(name, 0, 1), crowd(name, 0, 2), (0, 0)) < 0.8


@pytest.mark.parametrize("name", CROWDED)
def test_places_and_labels_are_at_most_64_in_their_order_and_those_that_tell_most(name: str) -> None:
    left, right = crowd(name, 0, 1), crowd(name, 1, 2)
    places, labels = telling_places(left, right), telling_labels(left, right)
    assert len(places) <= 64
    assert len(labels) <= 64
    assert list(places) == sorted(places, key=lambda place: (not is_value(place.path), place.path, place.index))
    hidden = [*(place.path for place in places), *labels]
    assert any("90" in path or "w3" in path for path in hidden)


def test_places_at_wide_and_narrow_paths_are_ranked_together() -> None:
    def outcomes(shift: int, seed: int) -> Outcomes:
        rng = np.random.default_rng(seed)
        moved = np.where(np.arange(100) < 40, 3 * shift, 0)
        return encode([{"few": list(rng.normal(size=60)), "wide": rng.normal(size=100) + moved} for _ in range(200)])

    left, right = outcomes(0, 1), outcomes(1, 2)
    places = telling_places(left, right)
    assert len(places) == 64
    assert count_of_places(left, right) == 160
    assert {Place('output["wide"]', index, alone=False) for index in range(40)} <= set(places)
    gaps = {place: abs(place.of(left).mean() - place.of(right).mean()) for place in places}
    assert all((gap > 2) == (place.path == 'output["wide"]' and place.index < 40) for place, gap in gaps.items())
    assert {place.path for place in places} == {'output["few"]', 'output["wide"]'}


def test_what_is_learned_reads_the_kinds_that_tell_most() -> None:
    name = "person 90 answers truthfully"
    score = learned(crowd(name, 0, 1), crowd(name, 1, 2))
    assert score is not None
    assert len(score.kinds) == 16
    assert any("[90]" in kind.path for kind in score.kinds)


def test_the_bits_of_naive_laplace_are_seen_where_its_values_are_alike() -> None:
    """Noise added to 0 and to 2^-4: the density hardly differs, the doubles that can be reached do."""
    left, right = (encode(x + np.random.default_rng(seed).laplace(size=20_000)) for x, seed in ((0.0, 1), (2.0**-4, 2)))
    assert lower_bound(left, right, (Value(Place("output")),)) < 0.2
    assert found_by_bank(left, right) > 1


def test_without_bits_noise_in_floating_point_is_that_of_real_numbers() -> None:
    left, right = (encode(naive(x, np.random.default_rng(7 + int(x)))) for x in (0.0, 1.0))
    assert found_by_bank(left, right) > 1  # the claim
    scores = bank(left, right, bits=False)
    assert [score.words for score in scores if score.primary] == ["output"]
    assert lower_bound(left, right, scores) < 1
    coins = [encode(np.random.default_rng(seed).integers(0, 20, 500)) for seed in (1, 2)]
    assert "output modulo 8" in [score.words for score in bank(coins[0], coins[1], bits=False)]


def test_the_bank_is_small_and_the_same_each_time_and_starts_with_what_is_primary() -> None:
    rng = np.random.default_rng(3)
    left, right = (
        encode([{"x": tuple(rng.normal(size=80)), "n": int(rng.integers(3))} for _ in range(300)]) for _ in "ab"
    )
    scores = bank(left, right, data=(np.arange(80.0), np.arange(80.0) + 1))
    assert scores == bank(left, right, data=(np.arange(80.0), np.arange(80.0) + 1))
    assert 50 < len(scores) <= 200
    assert len(set(scores)) == len(scores)
    primary = [score.primary for score in scores]
    assert primary == sorted(primary, reverse=True)
    assert 'sum(output["x"])' in [score.words for score in scores if score.primary]


def test_along_signs_alone_sums_of_whole_numbers_are_whole() -> None:
    """Ten bits, of which five come more often on the left and five less often: one score with eleven values."""
    chances = np.repeat([0.7, 0.3], 5)
    left, right = (
        encode((np.random.default_rng(seed).random((300, 10)) < chance).astype(float))
        for seed, chance in ((1, chances), (2, chances[::-1]))
    )
    (score,) = (score for score in bank(left, right) if score.fitted == "signs")
    assert isinstance(score, Along)
    assert score.weights == (2.0,) * 5 + (-2.0,) * 5  # a deviation of 0.46 is rounded to 1/2
    assert np.unique(score.of(left)).size <= 11


def test_one_of_several_scores_that_split_the_runs_alike_is_kept() -> None:
    left, right = (
        encode([None if coin else "a" for coin in np.random.default_rng(seed).integers(0, 2, 90)]) for seed in (1, 2)
    )
    assert [score.words for score in bank(left, right)] == ["kind of output"]
    few = [encode(np.random.default_rng(seed).normal(size=(8, 3))) for seed in (1, 2)]
    assert {f"output[{place}]" for place in range(3)} <= {score.words for score in bank(few[0], few[1])}


@pytest.mark.parametrize("outputs", [np.zeros(8), [None] * 8, np.arange(8.0), [], [{}, 1.0, "a", None]])
def test_there_is_a_score_for_any_runs(outputs: Any) -> None:
    found = encode(outputs)
    scores = bank(found, found)
    assert scores
    for score in scores:
        assert score.of(found).shape == (len(found),)


@settings(deadline=None, max_examples=15)
@given(
    npst.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(1, 4)), elements=st.floats(width=32)),
    st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=3), st.lists(st.floats(), max_size=3)), max_size=6),
)
def test_every_score_is_total_and_travels(batch: Floats, others: list[Any]) -> None:
    """On outcomes that it was not made for as well: NaN, or a whole number below its number of categories."""
    left, right = encode(np.repeat(batch, 40, axis=0)), encode(-np.repeat(batch, 40, axis=0))
    ragged, others_found = joined([encode(others), right, left]), encode(others)
    for score in bank(left, right, (batch, others)):
        pieces = [score.of(piece) for piece in (others_found, right, left)]
        assert np.array_equal(score.of(ragged), np.concatenate(pieces), equal_nan=True)
        assert pickle.loads(pickle.dumps(score)) == score
        assert isinstance(score, Score)
        for outcomes in (left, others_found):
            numbers = score.of(outcomes)
            assert numbers.shape == (len(outcomes),)
            assert numbers.dtype == np.float64
            if score.categories:
                assert 1 < score.categories <= 64
                codes = numbers[~np.isnan(numbers)]
                assert ((codes >= 0) & (codes < score.categories) & (codes == np.floor(codes))).all()
                assert all(score.category(int(code)) and score.public_category(int(code)) for code in codes[:5])


@pytest.mark.parametrize("width", [1, 5, 8, 37, 300])
@pytest.mark.parametrize("form", [np.ndarray, list, dict])
def test_a_run_scores_the_same_bit_for_bit_in_any_chunk_and_layout(width: int, form: type) -> None:
    rng = np.random.default_rng(width)
    sides = [rng.normal(size=(200, width)) * rng.lognormal(0, 5, size=(200, width)) for _ in "ab"]
    forms: dict[type, Callable[[Floats], Any]] = {
        np.ndarray: np.asfortranarray,
        list: lambda rows: [row[: 1 + run % width].tolist() for run, row in enumerate(rows)],
        dict: lambda rows: [{"a": row[::2], "b": row[1::2].tolist()} for row in rows],
    }
    left, right = (encode(forms[form](side)) for side in sides)
    chunks = [slice(0, 1), slice(1, 4), slice(4, 200)]
    pieces = [encode(forms[form](sides[0])[some]) for some in chunks]
    trees = learned(left, right)
    scores = [*bank(left, right, (np.zeros(width), np.ones(width))), *([trees] if trees else [])]
    for score in scores:
        whole = score.of(left)
        assert whole.tobytes() == np.concatenate([score.of(piece) for piece in pieces]).tobytes(), score.words
        assert whole[::-1].tobytes() == score.of(left.where(slice(None, None, -1))).tobytes(), score.words


# ---- single scores --------------------------------------------------------------------------------------------------

X, Y, Z = (Place("output", index, False) for index in range(3))
NAN = float("nan")


@pytest.mark.parametrize(
    ("score", "output", "value"),
    [
        (Grain(Place("output")), 0.75, -2.0),
        (Grain(Place("output")), 5e-324, -1074.0),
        (Grain(Place("output")), 12.0, 2.0),
        (LowBits(Place("output")), np.nextafter(1.0, 2), 1.0),
        (Residue(Place("output"), -1), 2.5, 5.0),
        (Residue(Place("output"), 0), 2.5, 8.0),
        (Kind(Place("output")), -0.0, 1.0),
        (Kind(Place("output")), -np.inf, 4.0),
        (Order((X, Y, Z)), (3.0, 1.0, 2.0), 3.0),
        (Order((X, Y)), (NAN, 1.0), NAN),
        (EqualPairs((X, Y, Z)), (1.0, 2.0, 1.0), 2.0),
        (Extreme((X, Y, Z)), (1.0, 3.0, 2.0), 1.0),
        (Distinct((X, Y, Z)), (1.0, 2.0, 1.0), 2.0),
        (Difference(X, Y), (1.0, 2.5), -1.5),
        (Total(("output",)), (1.0, 2.5), 3.5),
        (First("output", "not 0"), (0.0, 0.0, 2.0), 2.0),
        (First("output", "NaN"), (0.0, NAN), 1.0),
        (First("output", "NaN"), (0.0, 0.0), np.inf),
        (Matches((X, Y), (1.0,), (2.0,), ()), (2.0, 1.0), 3.0),
        (RepeatedValues(Place("output"), (1.0, 2.0)), 2.0, 1.0),
        (Label("output", ("None",)), None, 0.0),
        (Rows((X, Y), ((1.0, 2.0), (0.0, 0.0))), (-0.0, 0.0), 1.0),
        (Rows((X, Y), ((1.0, 2.0),)), (1.0, 3.0), 1.0),
        (Label("text of output", ("'a'",)), "b", 1.0),
    ],
)
def test_what_a_score_is(score: Score, output: Any, value: float) -> None:
    assert np.array_equal(score.of(encode([output])), [value], equal_nan=True)
    assert score.words == score.words.strip() != ""


def test_inputs_are_numbers_texts_and_vectors_of_the_data() -> None:
    found = Inputs.of({"x": np.array([1.0, 2.0, 4.0]), "who": "ann"}, {"x": np.array([1.0, 2.0, 5.0]), "who": "bob"})
    assert {4.0, 7.0} <= set(found.left)  # the sum as well
    assert {5.0, 8.0} <= set(found.right)
    assert set(found.texts) == {"'ann'", "'bob'"}
    assert found.vectors == (((1.0, 2.0, 4.0), (1.0, 2.0, 5.0)),)
    assert Inputs.of(iter([1.0]), 2.0) == Inputs()


def test_what_is_learned_sees_a_fault_of_many_coordinates_together() -> None:
    def draw(x: float, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        numbers = rng.normal(size=(RUNS, 5))
        numbers[:, 2] = np.abs(numbers[:, 2]) * np.sign(numbers[:, 0] * (1 if x else -1)) + rng.normal(size=RUNS) * 0.1
        return encode(numbers)

    left, right = draw(0, 1), draw(1, 2)
    score = learned(left, right)
    assert score is not None
    assert lower_bound(draw(0, 3), draw(1, 4), (score,)) > 1
    again = learned(left, right)
    assert score == again == pickle.loads(pickle.dumps(score))
    assert np.array_equal(score.of(left), pickle.loads(pickle.dumps(again)).of(left))
    assert learned(left.where(slice(0, 10)), right) is None
    assert learned(encode([1.0] * 100), encode([1.0] * 100)) is None


# ---- events ---------------------------------------------------------------------------------------------------------

MEAN = Value(Place('output["mean"]'))
EVENTS: list[tuple[Event, Any, Any]] = [
    (Above(MEAN, 0.5), {"mean": 0.7}, {"mean": 0.5}),
    (AtMost(MEAN, 0.5), {"mean": 0.5}, {"mean": NAN}),
    (Within(MEAN, 0.0, 1.0), {"mean": 1.0}, {"mean": 0.0}),
    (Outside(MEAN, 0.0, 1.0), {"mean": 0.0}, None),
    (Equals(MEAN, 0.125), {"mean": 0.125}, {"mean": 0.25}),
    (Undefined(MEAN), None, {"mean": 0.0}),
    (InCategory(Label("output", ("None", "text")), (0, 1)), "secret", 1.5),
    (InCategory(Label("text of output", ("'secret'",)), (0,)), "secret", "other"),
]


@pytest.mark.parametrize(("event", "inside", "outside"), EVENTS)
def test_an_event_says_what_it_holds_and_keeps_outputs_to_itself(event: Event, inside: Any, outside: Any) -> None:
    assert event.contains(inside)
    assert not event.contains(outside)
    assert event.count(encode([inside, outside, inside])) == 2
    assert "secret" not in event.public_words
    assert "0.125" not in event.public_words
    assert "mean" not in event.public_words
    assert pickle.loads(pickle.dumps(event)) == event


def test_words_of_events() -> None:
    assert Above(MEAN, 0.5).words == 'output["mean"] > 0.5'
    assert InCategory(Label("output", ("None", "text")), (0, 2)).words == "kind of output: 'None' or anything else"
    assert Equals(Total(("output",)), 2.5).words == "sum(output) == 2.5"
