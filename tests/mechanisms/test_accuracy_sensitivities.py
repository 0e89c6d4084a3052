"""What a row or a label can move, by every pair of rows of a coarse grid: what is said is reached and never passed."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpledger.mechanisms.refinement.erm import Norm, Problem, problem
from dpledger.mechanisms.refinement.examples import ONE
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

SIZE, QUARTERS = 3, (-4, -2, -1, 0, 1, 2, 4)
WHOLE: dict[str, Any] = {"rows": 2, "dimension": SIZE, "regularisation": Decimal("0.3"), "radius": "tight"}

Rows = npt.NDArray[np.int64]


def rows_of_the_grid() -> tuple[Rows, Rows]:
    """Every row with entries in quarters in the l1 ball, with every label of three."""
    inside = [x for x in itertools.product(QUARTERS, repeat=SIZE) if sum(map(abs, x)) <= 4]
    pairs = [(x, y) for x in inside for y in (-4, 0, 4)]
    return np.array([x for x, _ in pairs]) * ONE // 4, np.array([y for _, y in pairs]) * ONE // 4


def statistics(risk: Problem) -> npt.NDArray[np.float64]:
    """What each row of the grid adds to the statistic, exactly."""
    found = []
    for x, y in zip(*rows_of_the_grid(), strict=True):
        examples: Any = risk.examples(x[None, :], y[None])
        found.append(risk.statistic(examples, None, 36) * 2.0**-36)  # type: ignore[arg-type] # sums need no minimum
    return np.array(found)


def farthest(risk: Problem, norm: Norm) -> float:
    """The most that two neighbours differ by."""
    features, _ = rows_of_the_grid()
    added = statistics(risk)
    if risk.relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT):
        return float(np.linalg.norm(added, ord=1 if norm == "l1" else 2, axis=1).max())
    most = 0.0
    for x, one in zip(features, added, strict=True):
        others = added[(features == x).all(axis=1)] if risk.relation is Relation.LABEL_FLIP else added
        most = max(most, float(np.linalg.norm(others - one, ord=1 if norm == "l1" else 2, axis=1).max()))
    return most


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    ("relation", "reached"),
    [
        (Relation.REPLACE_ONE, {"l1": 4, "l2": 2}),
        (Relation.ADD_REMOVE, {"l1": 2, "l2": 2**0.5}),
        (Relation.ZERO_OUT, {"l1": 2, "l2": 2**0.5}),
        (Relation.LABEL_FLIP, {"l1": 2, "l2": 2}),
    ],
    ids=str,
)
def test_the_sums_move_by_what_is_said_and_by_no_more(
    relation: Relation, reached: dict[str, float], norm: Norm
) -> None:
    """Where a row is replaced the l2 norm reaches 2, of the sqrt(4.5) that is proved."""
    risk = problem("ridge", relation=relation, norm=norm, **WHOLE)
    assert farthest(risk, norm) == pytest.approx(reached[norm], rel=1e-12)
    assert reached[norm] <= float(risk.moved) <= reached[norm] * 1.0607


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE])
def test_a_triangle_that_says_three_times_what_is_off_the_diagonal_is_found(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faulty twin: it would halve the noise once more, and its rows move the sums by more than is said."""
    risk = problem("ridge", relation=relation, **WHOLE)
    honest = type(risk).statistic

    def threefold(self: Any, examples: Any, minimum: Any, power: int) -> Any:
        found = honest(self, examples, minimum, power).copy()
        rows, columns = np.triu_indices(SIZE)
        found[: rows.size][rows != columns] = found[: rows.size][rows != columns] * 3 // 2
        return found

    monkeypatch.setattr(type(risk), "statistic", threefold)
    assert farthest(risk, "l1") > float(risk.moved)


def test_what_labels_do_not_move_is_published_as_it_is_and_nowhere_else() -> None:
    """A matrix without noise would tell of a row that is replaced: only under label_flip is it left out."""
    sizes = {relation: problem("ridge", relation=relation, **WHOLE).entries for relation in Relation}
    triangle = SIZE * (SIZE + 1) // 2
    assert sizes.pop(Relation.LABEL_FLIP) == SIZE
    assert set(sizes.values()) == {triangle + SIZE}
    x, y = rows_of_the_grid()
    risk = problem("ridge", relation=Relation.REPLACE_ONE, **WHOLE)
    zeros: Any = np.zeros(triangle + SIZE)
    first, second = (risk.solved(x[rows], y[rows]).hypothesis(zeros) for rows in (slice(0, 2), slice(40, 42)))
    assert (first == second).all()


def test_the_noisy_triangle_is_read_as_the_matrix_that_it_is_of() -> None:
    """Without noise the hypothesis is the minimiser, under every relation."""
    x, y = rows_of_the_grid()
    for relation in Relation:
        risk = problem("ridge", relation=relation, **{**WHOLE, "rows": len(x)})
        solved: Any = risk.solved(x, y)
        examples: Any = risk.examples(x, y)
        least = risk.minimum(examples).theta
        assert np.allclose(solved.hypothesis(solved.statistic(36) * 2.0**-36), least, atol=1e-12)


@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_a_label_moves_the_excess_and_the_minimiser_by_what_is_said(family: Any) -> None:
    """The minimiser at one end of the ball, the hypothesis at the other: of a label that is turned nearly all is
    reached, and half of it is refuted."""
    n, weight = 20_000, 0.005
    common: dict[str, Any] = {"rows": n, "dimension": 1, "regularisation": Decimal("0.005"), "radius": "tight"}
    flipped = problem(family, relation=Relation.LABEL_FLIP, perturbed="output", **common)
    replaced = problem(family, relation=Relation.REPLACE_ONE, perturbed="output", **common)
    margin = 1.0 if family == "ridge" else 1.2784645428
    pull = margin * (weight**0.5 if family == "ridge" else (weight / 0.2784645428) ** 0.5)
    x = np.full((n, 1), int(pull * ONE))
    x[0] = ONE
    labels = np.full(n, ONE)
    turned = labels.copy()
    turned[0] = -ONE
    found: list[Any] = [flipped.solved(x, y) for y in (labels, turned)]
    moved = abs(found[0].excess(np.array([-flipped.ball])) - found[1].excess(np.array([-flipped.ball])))
    assert 0.97 * float(flipped.query_moved) < moved <= float(flipped.query_moved) < float(replaced.query_moved)
    statistics = [one.statistic(40) * 2.0**-40 for one in found]
    distance = float(np.abs(statistics[0] - statistics[1]).sum())
    assert 0.45 * float(flipped.moved) < distance <= float(flipped.moved)
    ratio = 0.5 if family == "logistic" else 1 / (1 + flipped.ball)
    assert float(flipped.moved) == pytest.approx(ratio * float(replaced.moved), rel=0.02)


# ---- what a solve does is the same for all data ---------------------------------------------------------------------


def hard_rows(kind: str, n: int, crowd: int) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(20261127)
    x = np.eye(SIZE)[rng.integers(SIZE, size=n)] * rng.choice([-1.0, 1.0], size=(n, 1))
    y = np.where(x.sum(axis=1) > 0, 1, -1)
    match kind:
        case "one against all":
            y[0] = -y[0]
        case "noise":
            y = rng.choice([-1, 1], size=n)
        case "of three sizes":
            x = x * rng.choice([1, 0.01, 0.3], size=(n, 1))
        case "small":
            x = x * 1e-3
        case _:
            assert kind == "separable"
    return np.tile((x * ONE).astype(np.int64), (crowd, 1)), np.tile(y, crowd) * ONE


KINDS = ("separable", "one against all", "noise", "of three sizes", "small")


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE], ids=str)
@pytest.mark.parametrize("family", ["ridge", "logistic"])
def test_every_solve_takes_as_many_steps_whatever_the_rows_are(
    family: Any, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: how long a solve took told of single rows. Under add_remove also where the ball binds, and where not."""
    count: dict[str, int] = {}
    solver = type(problem(family, **WHOLE))

    def count_calls(name: str) -> None:
        honest = getattr(solver, name)

        def counted(*given: Any) -> Any:
            count[name] = count.get(name, 0) + 1
            return honest(*given)

        monkeypatch.setattr(solver, name, counted)

    for name in ("risk", "_gradient", "_hessian") if family == "logistic" else ("risk",):
        count_calls(name)
    found = []
    for kind_of_rows, regularisation in itertools.product(KINDS, ("1e-6", "0.05")):
        for crowd in (1, 12) if relation is Relation.ADD_REMOVE else (1,):
            count.clear()
            changes = {**WHOLE, "rows": 50, "regularisation": Decimal(regularisation), "relation": relation}
            problem(family, **changes).solved(*hard_rows(kind_of_rows, 50, crowd))
            found.append(dict(count))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("regularisation", ["1e-6", "0.001", "0.05", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_hard_rows_are_solved_in_half_of_the_steps(
    kind: str, regularisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose solver does not get there publishes nothing and is outside the guarantee: so steps are ample."""
    monkeypatch.setattr("dpledger.mechanisms.refinement.erm.logistic._NEWTON", 15)
    for n, relation in itertools.product((2, 50, 3000), (Relation.REPLACE_ONE, Relation.ADD_REMOVE)):
        changes = {**WHOLE, "rows": n, "regularisation": Decimal(regularisation), "relation": relation}
        crowd = 16 if relation is Relation.ADD_REMOVE else 1
        assert problem("logistic", **changes).solved(*hard_rows(kind, n, crowd)).certified
