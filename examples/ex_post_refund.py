"""Four searches in a budget for three: what a run did not lose comes back where a theorem says so, and nowhere else.

`python examples/ex_post_refund.py refund.png` draws what the two accounts hold (docs/ex_post.md).
"""

import sys
from decimal import Decimal

import dpledger as dpl
from dpledger.errors import BudgetRefused

# Visits of twenty clinics; each search asks of one clinic after another whether it had at least 5,000.
CLINICS = {
    "found at once": [9_000],
    "found at the third": [100, 200, 9_000],
    "found at the ninth": [100] * 8 + [9_000],
    "found none": [100] * 20,
}
SEARCH = dpl.AboveThreshold(
    epsilon=1,
    threshold=5_000,
    max_queries=20,
    justification="a patient visits one clinic, once: a count moves by one",
    sensitivity=1,
)


def searched(budget: dpl.PureDP | dpl.ZCDP, coordinate: str) -> list[tuple[str, float]]:
    """What the account holds of its budget after each opening and each closing, as a share of it."""
    scope = dpl.Ledger.in_memory().scope("visits", unit="patient", relation="add_remove", budget=budget)
    whole = Decimal(budget.epsilon if isinstance(budget, dpl.PureDP) else budget.rho)
    held = [("", 0.0)]

    def look(moment: str) -> None:
        charged = sum(one.charged[coordinate] for one in scope.account().admissions)
        held.append((moment, float(charged / whole)))

    for name, counts in CLINICS.items():
        try:
            with scope.open(SEARCH, None) as search:
                look(f"{name}: opened")
                search.ask_many(counts)
            look(f"{name}: closed")
        except BudgetRefused:
            look(f"{name}: refused")
    return held


def draw(lines: dict[str, list[tuple[str, float]]], path: str) -> None:
    """Both accounts, moment by moment."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name, held), (colour, dash) in zip(lines.items(), (("#0072b2", "-"), ("#d55e00", "--")), strict=True):
        shares = [share for _, share in held]
        axes.step(range(len(shares) + 1), [*shares, shares[-1]], dash, where="post", color=colour, lw=2.2, label=name)
        for at, (moment, share) in enumerate(held):
            if moment.endswith("refused"):
                axes.plot(at, share, "X", color=colour, markersize=11)
                axes.text(at, share + 0.04, "refused", color=colour, ha="center", fontsize=9)
    first = [share for _, share in next(iter(lines.values()))]
    for at in range(1, len(first)):
        if first[at] < first[at - 1] - 1e-9:
            arrow = {"arrowstyle": "-|>", "color": "#0072b2"}
            axes.annotate("", (at, first[at]), (at, first[at - 1]), arrowprops=arrow)
            back = f"{(first[at - 1] - first[at]) * 3:g} back"
            axes.text(at + 0.06, (first[at] + first[at - 1]) / 2, back, color="#0072b2", va="center", fontsize=9)
    axes.axhline(1, color="0.4", linewidth=1)
    axes.text(0.05, 1.02, "the budget", color="0.3", fontsize=9)
    moments = [moment.replace(": ", "\n").replace(" at ", " at\n") for moment, _ in next(iter(lines.values()))]
    axes.set_xticks(range(len(moments)), moments, fontsize=7.5)
    axes.set_xlim(0, len(moments))
    axes.set_ylim(0, 1.15)
    axes.set_ylabel("charged, as a share of the budget")
    axes.set_title("Each search is charged its cap when it opens, and its realised loss once it closed", fontsize=10)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


cap = dpl.ZCDP(Decimal(3) * Decimal("0.462117157261"))  # three times the rho of a mechanism of epsilon 1
LINES = {
    "a budget of epsilon 3: the loss of a run settles it": searched(dpl.PureDP(3), "pure"),
    "a budget of as much rho: caps stay": searched(cap, "rho"),
}
for words, steps in LINES.items():
    print(words)
    for moment, share in steps[1:]:
        print(f"  {moment:30} {share:7.1%}")
if len(sys.argv) > 1:
    draw(LINES, sys.argv[1])
