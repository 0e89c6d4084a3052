"""Rules of one column, learned in private from a table of flights; and what the ledger says of it.

Whether a flight arrives more than 15 minutes late, as scikit-learn classifiers that leave an entry each: a rule of any
of three columns, with a flight as the unit; and the minutes at departure from which on it does, with a plane and up to
100 of its flights as the unit, by two learners; and a fourth rule, for which the budget has no room.

    python learning_in_a_ledger.py
"""

from accuracy_data import LATE, raw_flights

import dpledger as dpl
from dpledger.attach.sklearn import LearnerClassifier
from dpledger.errors import BudgetRefused

EACH = 100  # flights of a plane
CLASSES = ("in time", "late")
COLUMNS = dpl.learning.Binning(
    {"dep_delay": range(-10, 121, 5), "hour": range(6, 23)},
    {"origin": ["EWR", "JFK", "LGA"]},
    source="five minutes and hours; the airports of the city",
)
MINUTES = dpl.learning.Binning({"dep_delay": range(-10, 121)}, source="minutes, up to two hours")
LATER = dpl.learning.ThresholdClass(MINUTES.points)  # 1[bin < place]: in time


def columns():
    """A table, whether each flight was late, and its plane."""
    flights = raw_flights()
    late = (flights["arr_delay"] > LATE).map({True: "late", False: "in time"})
    return flights[["dep_delay", "hour", "origin"]], late, flights["tailnum"]


def said(place):
    """A concept of `LATER` in words. Bins: that of no number, that below every edge, and one from each edge on."""
    (minutes,) = MINUTES.features
    if not 2 <= place < LATER.points:
        return "always late" if place < 2 else "never late"
    return f"late from {minutes.edges[place - 2]} minutes on"


def learned(entropy=lambda: None):
    """The scopes; each rule in words, by its learner, with how often it is right; and the refusal."""
    table, late, planes = columns()
    book = dpl.Ledger.in_memory(entropy=entropy())
    budget = dpl.PureDP(2)
    flights = book.scope("flights", unit=dpl.Unit("flight"), relation="add_remove", budget=budget)
    owners = book.scope("planes", unit=dpl.Unit("plane", EACH), relation="replace_one", budget=budget)
    stumps = dpl.learning.StumpClass(COLUMNS)
    learner = dpl.learning.ExponentialPPACLearner(stumps, epsilon=1, monotone=True)
    by_flight = LearnerClassifier(learner, COLUMNS, CLASSES, flights)
    by_flight.fit(table, late)
    rules = {learner.kind: (stumps.words(by_flight.hypothesis_.place), by_flight.score(table, late))}
    for learner in (
        dpl.learning.ClippedPairwiseEM(LATER, epsilon=1, clip=10),
        dpl.learning.UserLevelThresholdLearner(LATER, epsilon=1, alpha="0.4"),
    ):
        by_plane = LearnerClassifier(learner, MINUTES, CLASSES[::-1], owners)
        by_plane.fit(table, late, units=planes)
        rules[learner.kind] = said(by_plane.hypothesis_.place), by_plane.score(table, late)
    try:
        by_plane.fit(table, late, units=planes)
    except BudgetRefused as error:
        refusal = error
    book.verify()
    return (flights, owners), rules, refusal


def main():
    scopes, rules, refusal = learned()
    for learner, (rule, right) in rules.items():
        print(f"{learner:30} {rule:26} right on {right:.4f} of all flights")
    print(f"a fourth, {type(refusal).__name__}: {str(refusal).splitlines()[0]}")
    for scope in scopes:
        unit, spent = scope.unit, scope.spent(delta=0).upper
        print(f"{scope.name}: unit {unit.name}, up to {unit.max_contributions} flights of each; spent {spent:g} of 2")


if __name__ == "__main__":
    main()
