"""A budget of epsilon 1 admits what fits, and refuses what does not: nothing is spent, and the message says why."""

import dpledger as dpl

with dpl.Ledger.in_memory() as book:
    scope = book.scope("visitors", unit="visitor", relation="add_remove", budget=dpl.PureDP(1))
    for day in ("monday", "tuesday", "wednesday"):
        try:
            answer = scope.release(dpl.Count(epsilon="0.4", of="rows", counted="visits"), ["visit"] * 120, key=day)
            print(f"{day}: about {answer.value} visits")
        except dpl.BudgetRefused as refused:
            print(f"{day}: {refused}")
    print("spent:", scope.spent(delta=0))
    book.verify()
