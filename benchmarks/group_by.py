"""Groups of 10^6 and 10^7 rows: counts and means of 1,000 keys beside the same by pandas, seconds, the best of three.

python benchmarks/group_by.py
"""

import time

import numpy as np
import pandas as pd

import dpledger as dpl
from dpledger.mechanisms.entropy import system

KEYS = [f"key{number}" for number in range(1000)]
STATISTICS = (dpl.Count(1, of="rows"), ("value", dpl.ClippedMean(1, lower=-3, upper=3)))
CHOSEN = {"key_epsilon": 1, "key_delta": "1e-6"}
WAYS = {
    "public keys": (dpl.GroupBy("key", STATISTICS, keys=KEYS), dpl.Unit()),
    "unknown keys": (dpl.GroupBy("key", STATISTICS, **CHOSEN), dpl.Unit()),
    "unknown keys, 10 rows a unit": (
        dpl.GroupBy("key", STATISTICS, **CHOSEN, units="unit"),
        dpl.Unit("user", max_contributions=10),
    ),
    "the same, in 4 groups, 2 in each": (
        dpl.GroupBy("key", STATISTICS, **CHOSEN, units="unit", keys_per_unit=4, rows_per_key=2),
        dpl.Unit("user", max_contributions=10),
    ),
}


def made_up(rows):
    """Five rows a unit."""
    draw = np.random.default_rng(0)
    keys = pd.Series(KEYS)[draw.integers(0, len(KEYS), rows)].reset_index(drop=True)
    return pd.DataFrame({"key": keys, "value": draw.normal(size=rows), "unit": draw.integers(0, rows // 5, rows)})


def best(run):
    """Seconds."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def main():
    """A line for each."""
    for rows in (10**6, 10**7):
        data = made_up(rows)
        plain = best(lambda data=data: data.groupby("key")["value"].agg(["size", "mean"]))
        print(f"{rows:>10,} rows  {'pandas':34s} {plain:6.2f} s")
        for name, (mechanism, unit) in WAYS.items():
            placed = mechanism.under(dpl.Relation.ADD_REMOVE, unit)
            took = best(lambda placed=placed, data=data: placed.release(data, entropy=system()))
            print(f"{'':15s}  {name:34s} {took:6.2f} s")


if __name__ == "__main__":
    main()
