"""What private learning costs: records for points, thresholds and parities, and users for thresholds.

Three parts, each with its own tables and pictures:
    sizes   how many records a class takes, with privacy and without: planned, and measured on laws that are hard
            (`learning_sizes.py`)
    plans   how many users with m examples each are enough for a threshold, by the plan of each learner
    users   how far above the least error thresholds are, against the number of users with 1, 10 or 100 examples each:
            made-up users, and the planes that left New York in 2013 (`learning_users.py`)

    python private_learning.py                                    # small; options: --json, --plot FOLDER, --jobs N
    python private_learning.py --full --jobs 2 --plot docs/images # all of it: minutes
"""

import argparse
import json
import warnings
from pathlib import Path

import joblib
import learning_sizes
import learning_users
from learning_pictures import plot

from dpledger.progress import bar


def each(title, run, cells, jobs, shown):
    """The rows of all cells, in their order."""
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(joblib.delayed(run)(cell) for cell in cells)
    rows = []
    with bar(title, len(cells), shown=shown) as advance:
        for found in work:
            rows += found
            advance(1)
    return rows


def experiment(full, runs, jobs, shown):
    """The points of every plot."""
    kinds = list(learning_sizes.CLASSES)
    by_bits = each("records", learning_sizes.rows_of, list(learning_sizes.cells(full)), jobs, shown)
    by_epsilon = [one for kind in kinds for one in learning_sizes.by_epsilon(kind)]
    plans = each("plans", learning_users.planned, learning_users.plan_cells(full), jobs, shown)
    tried = each("made-up users", learning_users.rows_from, learning_users.made_up_cells(full, runs), jobs, shown)
    cells = list(learning_users.plane_cells(full, tried, runs))
    planes = each("planes", learning_users.rows_from, cells, jobs, shown)
    return {
        "sizes": {"by_bits": by_bits, "by_epsilon": by_epsilon},
        "plans": plans,
        "users": learning_users.best(tried) + planes,
        "tried": tried,
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="domains up to 2^64 points, 3,000 users, all planes")
    options.add_argument("--json", action="store_true", help="the points of each plot")
    options.add_argument("--plot", metavar="FOLDER", type=Path)
    options.add_argument("--runs", type=int, help="of each learner on users")
    options.add_argument("--jobs", type=int, default=1, help="processes")
    asked = options.parse_args()
    found = experiment(asked.full, asked.runs, asked.jobs, not asked.json)
    if asked.plot:
        plot(found, asked.plot)
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    learning_sizes.table(found["sizes"]["by_bits"] + found["sizes"]["by_epsilon"])
    learning_users.table_of_plans(found["plans"])
    learning_users.table(found["users"])


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
