"""Learners of a representation: their exact laws, what they lose over all small samples, and the published numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.errors import InfeasiblePlan, ParameterError, WorkLimit
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.representations.boosted import BoostedRepresentation, Majority, ones_of
from dpledger.mechanisms.learning.representations.representation_learners import (
    RealizableRepresentationLearner,
    SurrogateAgnosticLearner,
)
from dpledger.mechanisms.learning.representations.representations import (
    HashedPoint,
    HashedPointRepresentation,
    TrivialRepresentation,
)
from dpledger.mechanisms.learning.representations.scores import (
    boosted_errors,
    boosted_scores,
    hashed_errors,
    hashed_scores,
    surrogate_scores,
)
from dpledger.mechanisms.learning.representations.sizes import boosted_size
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import pairs_uc, uc_one
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, binomial_p_value, events_p_value
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

Rows = tuple[tuple[int, int], ...]

THRESHOLDS = FiniteClass([[int(x < u) for x in range(3)] for u in range(4)])
EVERY = FiniteClass(list(itertools.product((0, 1), repeat=3)))
TWO = FiniteClass([[0, 0], [1, 0], [1, 1]])
EVERY_OF_TWO = FiniteClass(list(itertools.product((0, 1), repeat=2)))
BOOSTED = BoostedRepresentation(dimension=5, a="0.6", b="0.4", seed=4)
HASHED = HashedPointRepresentation(dimension=8, bits=3, a="0.2", seed=1)
PATIENT = Unit("patient")


def sample_of(rows: Rows) -> LabeledSample:
    return LabeledSample([x for x, _ in rows], [y for _, y in rows])


class Represented(MechanismConformance):
    relations = tuple(Relation)
    good_data = sample_of(((0, 1), (3, 0), (2, 1)))
    bad_data = (
        LabeledSample([], []),
        LabeledSample([math.nan, -7, 2**90, "x"], [None, 1, 0, 7]),
        LabeledSample(np.zeros(0), np.zeros(0)),
    )
    bad_containers = (None, [0, 1], ([0], [1]))


class TestRealizable(Represented):
    def make(self, **changes: Any) -> Any:
        return RealizableRepresentationLearner(**{"representation": HASHED, "epsilon": "0.5", **changes})

    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = ({"epsilon": 0}, {"representation": "hash"})


class TestSurrogate(Represented):
    def make(self, **changes: Any) -> Any:
        given = {"concept_class": PointClass(256), "representation": HASHED, "epsilon": "0.5"}
        return SurrogateAgnosticLearner(**{**given, **changes})

    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"representation": EVERY},
        {"representation": HashedPointRepresentation(dimension=9, bits=3, a="0.2", seed=1)},
    )


class TestBoosted(Represented):
    sampled_seeds = 2

    def make(self, **changes: Any) -> Any:
        return RealizableRepresentationLearner(**{"representation": BOOSTED, "epsilon": "0.5", **changes})

    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = ({"epsilon": 0},)


class TestClassItself(Represented):
    def make(self, **changes: Any) -> Any:
        itself = TrivialRepresentation(ThresholdClass(2**64))
        given = {"concept_class": itself.concept_class, "representation": itself, "epsilon": "0.5"}
        return SurrogateAgnosticLearner(**{**given, **changes})

    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = ({"epsilon": -1}, {"representation": HASHED})


class TestSurrogateOfMatrices(Represented):
    def make(self, **changes: Any) -> Any:
        return SurrogateAgnosticLearner(
            **{"concept_class": THRESHOLDS, "representation": EVERY, "epsilon": "0.5", **changes}
        )

    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = ({"representation": TWO}, {"epsilon": "inf"})


# ---- scores ---------------------------------------------------------------------------------------------------------


def dense(concepts: FiniteClass, hypotheses: FiniteClass, rows: Rows) -> list[int]:
    """Q by its definition."""
    return [
        min(sum(int(f[x] != y) + int(f[x] != h[x]) for x, y in rows) for f in concepts.matrix.tolist())
        for h in hypotheses.matrix.tolist()
    ]


PUBLISHED: dict[Rows, tuple[list[int], list[float]]] = {
    ((0, 1), (0, 1), (1, 1), (1, 0), (0, 0)): (
        [3, 5, 2, 2],
        [0.239544970353, 0.145291368899, 0.307581830374, 0.307581830374],
    ),
    ((1, 1), (1, 1), (0, 0)): ([2, 2, 3, 1], [0.246134082738, 0.246134082738, 0.191689416377, 0.316042418148]),
}


@pytest.mark.parametrize("rows", PUBLISHED, ids=["five", "three"])
def test_published_scores_and_laws(rows: Rows) -> None:
    scores, law = PUBLISHED[rows]
    assert surrogate_scores(TWO, EVERY_OF_TWO, sample_of(rows)).tolist() == scores == dense(TWO, EVERY_OF_TWO, rows)
    weights = np.exp(-0.25 * np.array(scores))
    assert (weights / weights.sum()).tolist() == pytest.approx(law, abs=1e-12)
    learner = SurrogateAgnosticLearner(concept_class=TWO, representation=EVERY_OF_TWO, epsilon=1)
    found = learner.under(Relation.REPLACE_ONE, PATIENT).sample(sample_of(rows), 8000, seeded(1))
    counts = dict(enumerate(np.bincount(found, minlength=4).tolist()))
    assert events_p_value(counts, 8000, dict(enumerate(law))) > SIGNIFICANCE


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=12).map(tuple),
    concepts=st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=5), min_size=1, max_size=5),
    others=st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=5), min_size=1, max_size=5),
)
def test_scores_are_those_of_the_definition(rows: Rows, concepts: list[list[int]], others: list[list[int]]) -> None:
    c, h = FiniteClass(concepts), FiniteClass(others)
    assert surrogate_scores(c, h, sample_of(rows)).tolist() == dense(c, h, rows)


@given(
    rows=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), max_size=30).map(tuple),
    seed=st.integers(0, 300),
    everywhere=st.booleans(),
)
def test_scores_of_hashed_points_are_those_of_all_points(rows: Rows, seed: int, everywhere: bool) -> None:
    """With hashes that leave cells without a point, and samples in which every point has a zero."""
    rows = (*rows, *((x, 0) for x in range(8))) if everywhere else rows
    hashed = HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=seed)
    cells = hashed.cells(range(8))
    matrix = FiniteClass([(cells == cell).astype(int) for cell in range(4)])
    points = FiniteClass(np.eye(8, dtype=int))
    assert hashed_scores(hashed, sample_of(rows)).tolist() == dense(points, matrix, rows)
    assert hashed.occupied().tolist() == [cell in cells for cell in range(4)]
    errors = [sum(int(h[x] != y) for x, y in rows) for h in matrix.matrix.tolist()]
    assert hashed_errors(hashed, sample_of(rows)).tolist() == errors


def test_some_hashes_leave_cells_empty() -> None:
    hashes = [HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=seed) for seed in range(300)]
    assert {int(hashed.occupied().sum()) for hashed in hashes} == {1, 2, 4}


def test_the_class_itself_is_weighed_by_errors() -> None:
    """Of every class, in segments, at half the sensitivity of surrogates; as a matrix likewise."""
    rows = ((0, 1), (1, 1), (2, 0))
    known = [0.142536956597, 0.235003712202, 0.387455619000, 0.235003712202]
    for concepts in (ThresholdClass(3), THRESHOLDS):
        learners = (
            SurrogateAgnosticLearner(concept_class=concepts, representation=TrivialRepresentation(concepts), epsilon=1),
            RealizableRepresentationLearner(representation=TrivialRepresentation(concepts), epsilon=1),
        )
        for learner in learners:
            placed = learner.under(Relation.REPLACE_ONE, PATIENT)
            assert placed.exponent == Decimal("0.5")
            found = placed.sample(sample_of(rows), 4000, seeded(1))
            counts = dict(enumerate(np.bincount(found, minlength=4).tolist()))
            assert events_p_value(counts, 4000, dict(enumerate(known))) > SIGNIFICANCE
            assert placed.release(sample_of(rows), entropy=seeded(1)).value.output_in_class
        assert learners[1].plan("0.1", "0.05") == ExponentialPPACLearner(concepts, epsilon=1).plan("0.1", "0.05")
    far = TrivialRepresentation(ThresholdClass(2**64))
    learner = SurrogateAgnosticLearner(concept_class=far.concept_class, representation=far, epsilon=8)
    last = LabeledSample([2**63] * 40 + [2**63 + 1] * 40, [1] * 40 + [0] * 40)
    assert learner.release(last, entropy=seeded(1)).value.params == {"place": str(2**63 + 1)}
    assert learner.sample(last, 2, seeded(1)).tolist() == [2**63 + 1] * 2
    assert far.a == far.b == 0
    with pytest.raises(WorkLimit, match="40 bits"):
        RealizableRepresentationLearner(representation=TrivialRepresentation(ParityClass(40)), epsilon=1)


@given(
    rows=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), max_size=30).map(tuple),
    seed=st.integers(0, 300),
)
def test_a_union_of_hashes_has_the_hypotheses_of_each(rows: Rows, seed: int) -> None:
    union = HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=seed, copies=3)
    matrix = FiniteClass([HashedPoint(union, cell).predict(range(8)) for cell in range(union.size)])
    assert union.b == Decimal("0.125")
    assert HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=seed).cells(range(8)).tolist() == (
        union.cells(range(8)).tolist()
    )
    sample, points = sample_of(rows), FiniteClass(np.eye(8, dtype=int))
    assert hashed_scores(union, sample).tolist() == dense(points, matrix, rows)
    assert hashed_errors(union, sample).tolist() == [sum(h[x] != y for x, y in rows) for h in matrix.matrix.tolist()]


# ---- majorities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("everywhere", [False, True])
def test_scores_of_majorities_are_those_of_the_definition(everywhere: bool) -> None:
    """Of some of the million: those that are 1 nowhere, and at random."""
    rng = np.random.default_rng(2)
    rows = tuple(zip(rng.integers(0, 32, 40).tolist(), rng.integers(0, 2, 40).tolist(), strict=True))
    rows = (*rows, *((x, 0) for x in range(32))) if everywhere else rows
    scores, errors = boosted_scores(BOOSTED, sample_of(rows)), boosted_errors(BOOSTED, sample_of(rows))
    places = [0, BOOSTED.size - 1, *rng.integers(0, BOOSTED.size, 100).tolist(), *np.argsort(scores)[:50].tolist()]
    matrix = FiniteClass([Majority(BOOSTED, place).predict(range(32)) for place in places])
    assert {0, 1} <= {int(row.any()) for row in matrix.matrix}
    assert scores[places].tolist() == dense(FiniteClass(np.eye(32, dtype=int)), matrix, rows)
    assert errors[places].tolist() == [sum(h[x] != y for x, y in rows) for h in matrix.matrix.tolist()]


def test_a_majority_is_near_every_point() -> None:
    """As often as is said: over draws, of the points of a law whose masses differ."""
    law = np.random.default_rng(5).dirichlet(np.full(32, 0.3))
    missed, trials = 0, 20
    for seed in range(trials):
        boosted = BoostedRepresentation(dimension=5, a="0.6", b="0.4", seed=seed)
        distances = np.full(boosted.size, law[7])
        for mass, point, where in zip(law, range(32), ones_of(boosted, np.arange(32, dtype=np.uint64)), strict=True):
            distances[where] += -mass if point == 7 else mass
        missed += distances.min() > 0.6
    assert missed <= 16  # of Bin(20, 0.4) more come with probability 0.00005


def test_majorities_are_learned_and_planned() -> None:
    learner = RealizableRepresentationLearner(representation=BOOSTED, epsilon=4).under(Relation.REPLACE_ONE, PATIENT)
    rows = LabeledSample([7] * 60 + list(range(8, 32)) * 2, [1] * 60 + [0] * 48)
    found = learner.release(rows, entropy=seeded(3)).value
    assert found.predict([7, math.nan]).tolist() == [1, 0]
    assert not found.output_in_class
    assert found.params["seed"] == 4
    agnostic = SurrogateAgnosticLearner(concept_class=PointClass(32), representation=BOOSTED, epsilon=4)
    assert agnostic.release(rows, entropy=seeded(3)).value.predict([7]).tolist() == [1]
    with pytest.raises(InfeasiblePlan, match="needed are at most"):
        agnostic.plan("0.5", "0.1")
    assert learner.plan("0.9", "0.9").needed > 0
    wide = BoostedRepresentation.drawn(dimension=20, a="0.1", b="0.05")
    assert (wide.rounds, wide.copies) == (17, 5)
    with pytest.raises(WorkLimit, match="17 rounds of 80"):
        RealizableRepresentationLearner(representation=wide, epsilon=1)
    for changes in ({"bits": 5}, {"bits": 3}, {"dimension": 65}, {"a": "1"}, {"b": "0"}):
        with pytest.raises(ParameterError):
            BoostedRepresentation(**{"dimension": 5, "a": "0.6", "b": "0.4", "seed": 1, **changes})  # type: ignore[arg-type]


# ---- losses ---------------------------------------------------------------------------------------------------------


def neighbours(relation: Relation, points: int, size: int) -> Iterator[tuple[Rows, Rows]]:
    rows = [(x, y) for x in range(points) for y in (0, 1)]
    for rest in itertools.combinations_with_replacement(rows, size - 1):
        match relation:
            case Relation.REPLACE_ONE:
                yield from (((*rest, a), (*rest, b)) for a, b in itertools.permutations(rows, 2))
            case Relation.LABEL_FLIP:
                yield from (((*rest, (x, y)), (*rest, (x, 1 - y))) for x, y in rows)
            case _:
                yield from (pair for a in rows for pair in (((*rest, a), rest), (rest, (*rest, a))))


def worst(relation: Relation, exponent: float, size: int) -> float:
    laws: dict[Rows, Any] = {}

    def law(rows: Rows) -> Any:
        key = tuple(sorted(rows))
        if key not in laws:
            weights = np.exp(-exponent * surrogate_scores(THRESHOLDS, EVERY, sample_of(rows)))
            laws[key] = np.log(weights / weights.sum())
        return laws[key]

    return float(max((law(a) - law(b)).max() for a, b in neighbours(relation, 3, size)))


@pytest.mark.parametrize(
    ("relation", "exponent", "known"),
    [
        (Relation.REPLACE_ONE, 0.25, 0.561464),
        (Relation.ADD_REMOVE, 0.25, 0.326809),
        (Relation.ADD_REMOVE, 0.5, 0.683905),
        (Relation.LABEL_FLIP, 0.5, 0.936210),
        (Relation.REPLACE_ONE, 0.5, 1.125650),  # as if a score moved by one: more than the epsilon of 1
    ],
    ids=["replace", "add", "add-sharp", "label", "replace-twice"],
)
def test_published_losses_over_all_samples_of_up_to_four(relation: Relation, exponent: float, known: float) -> None:
    assert max(worst(relation, exponent, size) for size in range(1, 5)) == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
def test_the_exponent_follows_from_the_relation(relation: Relation) -> None:
    learner = SurrogateAgnosticLearner(concept_class=THRESHOLDS, representation=EVERY, epsilon=1)
    twice = Unit("pair", max_contributions=2)
    known = Fraction(1, 4) if relation is Relation.REPLACE_ONE else Fraction(1, 2)
    assert Fraction(learner.under(relation, PATIENT).exponent) == known
    assert Fraction(learner.under(relation, twice).exponent) == known / 2
    errors = RealizableRepresentationLearner(representation=EVERY, epsilon=1).under(relation, PATIENT)
    one_way = relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT)
    assert errors.exponent == (1 if one_way else Fraction(1, 2))


def test_a_sample_at_which_all_of_epsilon_is_lost() -> None:
    """Two concepts, two hypotheses near one each; a record that changes sides moves the scores apart by four."""
    concepts = FiniteClass([[1, 0, 1, 0, 1], [0, 1, 0, 1, 1]])
    hypotheses = FiniteClass([[1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [0, 0, 1, 1, 0]])
    base = ((2, 1), (3, 1)) * 5 + ((4, 1),) * 60
    before, after = (surrogate_scores(concepts, hypotheses, sample_of((*base, (x, 1)))) for x in (0, 1))
    assert (after - before)[:2].tolist() == [2, -2]
    laws = [np.exp(-0.25 * (scores - scores.min())) for scores in (before, after)]
    logs = [np.log(law / law.sum()) for law in laws]
    assert float(np.abs(logs[0] - logs[1]).max()) == pytest.approx(1, abs=1e-6)
    twice = [np.log(law**2 / (law**2).sum()) for law in laws]  # the weights of scores that move by one
    assert float(np.abs(twice[0] - twice[1]).max()) == pytest.approx(2, abs=1e-6)


# ---- representations and sizes --------------------------------------------------------------------------------------


def test_how_often_no_hypothesis_is_near() -> None:
    """Four points of a quarter each, whose differences to the target are independent: 1 - (15/16)^4."""
    target, others, trials = 0, (1, 2, 4, 8), 4000
    hashes = [HashedPointRepresentation(dimension=8, bits=4, a="0.24", seed=seed) for seed in range(trials)]
    missed = sum(bool((cells[1:] == cells[0]).any()) for cells in (h.cells([target, *others]) for h in hashes))
    assert binomial_p_value(missed, trials, 1 - (15 / 16) ** 4) > SIGNIFICANCE
    assert pytest.approx(0.227524, abs=1e-6) == 1 - (15 / 16) ** 4
    assert 1 - (15 / 16) ** 4 < float(hashes[0].b) == pytest.approx(0.2604, abs=1e-4)


@pytest.mark.parametrize(
    ("alpha", "beta", "epsilon", "part", "bits", "known"),
    [
        ("0.1", "0.05", 1, 8, 12, 385),
        ("0.1", "0.05", "0.1", 8, 12, 2835),
        ("0.05", "0.01", "0.5", 8, 15, 1691),
        ("0.1", "0.05", 1, 32, 14, 359),
    ],
)
def test_published_sizes(alpha: str, beta: str, epsilon: object, part: int, bits: int, known: int) -> None:
    near = str(float(alpha) / part)
    assert 2 ** (bits - 1) < 2 / (float(near) * float(beta)) <= 2**bits  # the next power of two
    for dimension in (20, 64):
        hashed = HashedPointRepresentation(dimension=dimension, bits=bits, a=near, seed=1)
        learner = RealizableRepresentationLearner(representation=hashed, epsilon=epsilon)  # type: ignore[arg-type]
        assert learner.under(Relation.REPLACE_ONE, PATIENT).plan(alpha, beta).needed == known
        with pytest.raises(InfeasiblePlan):
            learner.plan(alpha, "0.0001")


@pytest.mark.parametrize(("dimension", "known"), [(20, 11544), (40, 13627), (64, 18825)])
def test_published_sizes_of_any_data(dimension: int, known: int) -> None:
    hashed = HashedPointRepresentation(dimension=dimension, bits=16, a="0.0036", seed=1)
    learner = SurrogateAgnosticLearner(concept_class=PointClass(2**dimension), representation=hashed, epsilon=1)
    plan = learner.plan("0.1", "0.05")
    assert plan.needed == pytest.approx(known, rel=0.01)
    assert "deviation" in plan.words()
    with pytest.raises(InfeasiblePlan):
        learner.plan("0.09", "0.05")


@pytest.mark.parametrize(
    ("dimension", "known", "binding"),
    [
        (10, 11544, "deviation of the best"),
        (20, 11544, "deviation of the best"),
        (40, 13627, "differences of pairs"),
        (64, 18825, "differences of pairs"),
        (256, 59916, "differences of pairs"),
    ],
)
def test_published_sizes_of_any_data_term_by_term(dimension: int, known: int, binding: str) -> None:
    """By the events of the proof, also where no class has so many points (256 bits) or the hash is as wide as a point
    (10). At 256 bits the bound of the VC dimension is the lesser one: from there on more bits ask for no more."""
    card, hypotheses, sixth = dimension * math.log(2), 16 * math.log(2), 0.05 / 6
    rest = 0.9 / 1.25 * 0.1
    terms = {
        "deviation of all concepts": uc_one(str(0.6 * rest), str(sixth), ln_card=Decimal(card), vc=1),
        "deviation of the best": math.ceil(math.log(6 / 0.05) / (2 * (0.2 * rest) ** 2)),
        "distance of the representation": math.ceil(3 / (0.05 * rest) * math.log(6 / 0.05)),
        "choice": math.ceil(4 / (0.1 * rest) * (hypotheses + math.log(6 / 0.05))),
        "differences of pairs": pairs_uc(
            "0.25", "0.01", str(sixth), ln_hypotheses=Decimal(hypotheses), ln_card=Decimal(card), vc=1
        ),
    }
    assert max(terms.values()) == pytest.approx(known, abs=1)
    assert max(terms, key=terms.__getitem__) == binding


def test_sizes_of_matrices() -> None:
    """Where every concept is a hypothesis none is far; where every hypothesis is a concept the score is its errors."""
    every, itself, fewer = (
        SurrogateAgnosticLearner(concept_class=THRESHOLDS, representation=given, epsilon=1)
        for given in (EVERY, THRESHOLDS, FiniteClass(THRESHOLDS.matrix[:2]))
    )
    plan = every.plan("0.1", "0.05")
    assert plan.bound == "representation, agnostic"
    assert {name for name, _ in plan.terms}.isdisjoint({"distance of the representation"})
    assert itself.plan("0.1", "0.05") == ExponentialPPACLearner(THRESHOLDS, epsilon=1).plan(
        "0.1", "0.05", agnostic=True
    )
    assert itself.plan("0.1", "0.05").needed < plan.needed
    with pytest.raises(InfeasiblePlan, match="none is near"):
        fewer.plan("0.1", "0.05")


@pytest.mark.parametrize(("a", "b", "known"), [("0.1", "0.05", (17, 5, 74.494)), ("0.01", "0.01", (33, 6, 150.623))])
def test_published_sizes_of_what_is_boosted(a: str, b: str, known: tuple[int, int, float]) -> None:
    quarter = HashedPointRepresentation(dimension=20, bits=4, a="0.25", seed=1)
    assert (float(quarter.b), float(quarter.log_size)) == pytest.approx((0.25, 2.7726), abs=5e-5)
    found = boosted_size(quarter.log_size, a, b)
    assert (found.rounds, found.copies) == known[:2]
    assert float(found.log_size) == pytest.approx(known[2], abs=1e-3)


def points_not_found(learner_of: Callable[[int], Any], n: int, runs: int, *, mass: float, noise: float) -> int:
    """In how many runs the point 77 is not learned from n examples, whose labels are flipped at a rate of `noise`: then
    the error is above the least by (1 - 2 noise) times its mass, which is more than 0.1."""
    rng, failed = np.random.default_rng(3), 0
    for seed in range(runs):
        learner = learner_of(seed).under(Relation.REPLACE_ONE, PATIENT)
        x = np.where(rng.random(n) < mass, 77, rng.integers(0, 2**20, n))
        y = (x == 77) ^ (rng.random(n) < noise)
        failed += not learner.release(LabeledSample(x, y), entropy=seeded(4, seed)).value.predict([77])[0]
    return failed


def by_few_cells(seed: int) -> RealizableRepresentationLearner:
    hashed = HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=seed)
    return RealizableRepresentationLearner(representation=hashed, epsilon=1)


def by_many_cells(seed: int) -> SurrogateAgnosticLearner:
    hashed = HashedPointRepresentation(dimension=20, bits=16, a="0.0036", seed=seed)
    return SurrogateAgnosticLearner(concept_class=PointClass(2**20), representation=hashed, epsilon=1)


def test_points_of_twenty_bits_are_learned() -> None:
    assert points_not_found(by_few_cells, 385, 40, mass=0.12, noise=0) == 0
    assert points_not_found(by_many_cells, 500, 10, mass=0.3, noise=0.2) == 0
    assert points_not_found(by_few_cells, 5, 40, mass=0.12, noise=0) > 20


@pytest.mark.slow
def test_no_run_in_hundreds_fails() -> None:
    """As published, of a point that is nearly twice as heavy as alpha asks for. One that is hardly heavier is missed by
    one run in six: 500 examples are far from the 11,544 that are promised to be enough."""
    assert points_not_found(by_few_cells, 385, 400, mass=0.12, noise=0) == 0
    assert points_not_found(by_many_cells, 500, 200, mass=0.3, noise=0.2) == 0
    assert 10 < points_not_found(by_many_cells, 500, 200, mass=0.18, noise=0.2) < 60


def test_what_is_no_representation_is_refused() -> None:
    for changes in ({"bits": 8}, {"bits": 0}, {"dimension": 65}, {"a": "0.125"}, {"a": 0}, {"seed": -1}):
        with pytest.raises(ParameterError):
            HashedPointRepresentation(**{"dimension": 8, "bits": 3, "a": "0.2", "seed": 1, **changes})  # type: ignore[arg-type]
    one, other = (HashedPointRepresentation.drawn(dimension=30, bits=3, a="0.2") for _ in range(2))
    assert one.seed != other.seed
    learner = RealizableRepresentationLearner(representation=EVERY, epsilon=1)
    with pytest.raises(ParameterError):
        learner.plan("0.1", "0.05")
