"""A measurement of OpenDP behind a scope: its own map is charged before each call, and refused beyond the budget.

pip install 'dpledger[opendp]'
"""

import opendp.prelude as op

import dpledger as dpl

op.enable_features("contrib")
ages = [31, 44, 58, 25, 67, 39, 71, 52]  # made up: one row a patient
space = op.vector_domain(op.atom_domain(T=int)), op.symmetric_distance()
clamped = space >> op.t.then_clamp((0, 100)) >> op.t.then_sum()

book = dpl.Ledger.in_memory()
scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(1, "1e-6"))
who = {"by": "A. Smith", "reason": "the ages of the study"}

count = scope.guard(space >> op.t.then_count() >> op.m.then_laplace(scale=5.0), d_in=1, **who)
total = scope.guard(clamped >> op.m.then_gaussian(scale=800.0), d_in=1, **who)
print(count)
print(f"about {count(ages)} patients, {total(ages)} years together; spent {scope.spent():.3f} of 1")

try:
    while True:
        count(ages)
except dpl.BudgetRefused as refused:
    print(refused)
print([(one.mechanism.kind, one.mechanism.parameters["d_out"], one.attested.by) for one in scope.releases()])

# Anything else that is called: with a claim that somebody states, and of whom it holds.
survey = scope.guard(lambda rows: len(rows), claim=dpl.PureDP("0.01"), relation="add_remove", **who)  # noise of its own
print(survey)
