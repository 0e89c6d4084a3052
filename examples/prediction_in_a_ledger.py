"""Which flights will be late, by a vote of models that were fitted to private flights; and what the ledger says of it.

A run of single rows and of many, which ends at its last answer UNSTABLE and refuses to go on; the entry with its
outcome, and what was charged; and a second run, for which the budget has no room.

    python prediction_in_a_ledger.py          # the unit is a flight; --by-plane: a plane with all its flights
"""

import argparse

from prediction_data import flight_late

import dpledger as dpl
from dpledger.errors import BudgetRefused, Halted

EPSILON, DELTA, CUTOFF = 8, "1e-6", 10


def asked(one, entropy=lambda: None):
    """One run on a task, and the attempt at another one: the answers, the refusals, the entry and the account."""
    book = dpl.Ledger.in_memory(entropy=entropy())
    budget = dpl.ApproxDP(10, "1e-5")
    scope = book.scope("late", unit=one.unit, relation=one.relation, budget=budget, dataset="flights of 2013")
    classifier = dpl.stability.PrivateClassifier(
        EPSILON, DELTA, one.chunks, cutoff=CUTOFF, max_queries=1000, learner="logistic regression of nine columns"
    )
    ensemble, refusals = one.ensemble(), {}
    with scope.open(classifier, ensemble) as session:
        first = session.ask(one.asked[0])
        answers = (first, *session.ask_many(one.asked[1:]))
        try:
            session.ask(one.asked[-1])
        except Halted as error:
            refusals["after the halt"] = error
    try:
        scope.open(classifier, ensemble)
    except BudgetRefused as error:
        refusals["another run"] = error
    book.verify()
    return answers, refusals, session.receipt, scope.account()


def told(answers, refusals, receipt, account):
    """All that in lines."""
    unstable = sum(answer is dpl.stability.UNSTABLE for answer in answers)
    yield "answers: " + " ".join("?" if answer is dpl.stability.UNSTABLE else str(answer) for answer in answers)
    yield f"{len(answers)} asked, {len(answers) - unstable} answered, {unstable} UNSTABLE; counts: {receipt.value}"
    for moment, error in refusals.items():
        yield f"{moment}, {type(error).__name__}: {error}"
    law = receipt.entry.body.parts
    epochs = ", ".join(str(tests) for tests in law.outcome.closed_epochs)
    yield f"the entry: {law.mode}, cutoff {law.cutoff}, scales {law.threshold_scale} and {law.query_scale}"
    yield f"its outcome: {epochs} answers up to each that was charged, then {law.outcome.open_epoch}"
    (admission,) = account.admissions
    for failure in admission.privacy_failures:
        yield f"delta {failure.delta:.3g} for {failure.cause}"
    for name, reserved in sorted(admission.reserved.items()):
        if reserved:
            yield f"{name:10} {reserved:.6g} reserved, {admission.charged[name]:.6g} charged"
    yield "left: " + ", ".join(f"{name} {left}" for name, left in account.left_by_account.items())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--by-plane", action="store_true")
    for line in told(*asked(flight_late(False, by_plane=options.parse_args().by_plane))):
        print(line)


if __name__ == "__main__":
    main()
