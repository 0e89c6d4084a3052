"""Search a table for the pair on which a promise breaks: all that is said is what the columns hold."""

import numpy as np
import pandas as pd

import dpledger as dpl

SCHEMA = {"table": {"age": {"type": "integer", "low": 0, "high": 100}, "city": {"type": "text"}}}


def by_city(visits: pd.DataFrame, rng: np.random.Generator) -> dict[str, float]:
    """Counts of the cities that are in the table, each with noise: a city of one visitor shows that they are there."""
    return {city: count + rng.laplace() for city, count in visits["city"].value_counts().items()}


def by_public_city(visits: pd.DataFrame, rng: np.random.Generator) -> dict[str, float]:
    """Counts of cities that are known beforehand."""
    counts = visits["city"].value_counts()
    return {city: int(counts.get(city, 0)) + rng.laplace() for city in ("a", "b")}


faulty = dpl.audit_search(by_city, dpl.PureDP(1), neighbours=SCHEMA, seed=1, progress=False)
print(faulty)
assert faulty.verdict == "violation"
assert len(faulty.searched.left) + 1 == len(faulty.searched.right)

correct = dpl.audit_search(by_public_city, dpl.PureDP(1), neighbours=SCHEMA, seed=1, trials=4_000, progress=False)
print(correct)
assert correct.verdict == "not_refuted"
