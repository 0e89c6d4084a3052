"""The most private model that is accurate enough, and what it cost: AccuracyFirst on a table, in a ledger.

Which flights from New York will be late, in one scope for each kind of budget. Every scope is charged the cap when the
release begins: the check and the finest level. Afterwards the first model that passed is known, and what it lost. What
comes back depends on the rule of the budget (docs/ex_post.md), account by account.

    python accuracy_in_a_ledger.py            # every thirtieth flight; --full: all 327,346
"""

import argparse

from accuracy_data import EVERY, flight_late

import dpledger as dpl

BUDGETS = {
    "pure": dpl.PureDP(10),
    "approximate": dpl.ApproxDP(10, "1e-6"),
    "renyi": dpl.RDP((2, 8, 32), (10, 10, 10)),
    "zero-concentrated": dpl.ZCDP(10),
    "gaussian": dpl.GDP(10),
}


def tried(data, entropy=lambda: None):
    """The same release in a scope of each budget: its receipt, and the account with all that it was charged."""
    plan = dpl.ex_post.AccuracyFirst(target_excess_risk="0.05", **data.public).within(10)
    result = {}
    for name, budget in BUDGETS.items():
        book = dpl.Ledger.in_memory(entropy=entropy())
        scope = book.scope("lateness", unit="flight", relation="replace_one", budget=budget, dataset="flights of 2013")
        receipt = scope.release(plan, data.table)
        book.verify()
        result[name] = receipt, scope.account()
    return result


def told(receipt, account):
    """Level, cap, realised loss; then what was reserved, what is charged and what is left, account by account."""
    (admission,) = account.admissions
    check, chain = receipt.entry.body.parts.of
    found = receipt.value
    how = f"passed as number {found.level}" if found.reached else f"none of {found.level} passed"
    yield f"{how}: epsilon {found.epsilon:.4g}, of at most {chain.of.epsilon:.4g}"
    yield f"the check asked {found.level} times, of epsilon {check.epsilon:.4g}; cap {admission.claim.epsilon:.4g}"
    for name, reserved in sorted(admission.reserved.items()):
        charged = admission.charged[name]
        if reserved:
            yield f"{name:13} {reserved:7.4f} reserved  {charged:7.4f} charged  {reserved - charged:7.4f} came back"
    yield "left          " + ", ".join(f"{name} {left}" for name, left in account.left_by_account.items())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true")
    data = flight_late(1 if options.parse_args().full else EVERY)
    print(dpl.ex_post.AccuracyFirst(target_excess_risk="0.05", **data.public).within(10).plan().words())
    for name, (receipt, account) in tried(data).items():
        print(f"\nbudget: {name}")
        for line in told(receipt, account):
            print("   ", line)


if __name__ == "__main__":
    main()
