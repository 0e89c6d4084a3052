"""A training that another library describes as an event of dp_accounting: planned, charged, and written back.

The noise is calibrated by dp_accounting itself, on certified bounds. What the scope refuses, it refuses before it runs.
"""

import dp_accounting

import dpledger as dpl
from dpledger.attach.dp_accounting import PrivacyAccountant, read, write

RATE, STEPS, DELTA = 0.01, 1000, 1e-6


def training(noise_multiplier: float) -> dp_accounting.DpEvent:
    """What DP-SGD in TF-Privacy or JAX-Privacy says that it runs."""
    step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise_multiplier))
    return dp_accounting.SelfComposedDpEvent(step, STEPS)


with dpl.Ledger.in_memory() as book:
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(2, "1e-5"))
    noise = dp_accounting.calibrate_dp_mechanism(
        lambda: PrivacyAccountant(scope), training, target_epsilon=1.5, target_delta=DELTA, tol=1e-4
    )
    event = training(noise)
    who = {"by": "A. Smith", "reason": "a model of stays", "tail_delta": "1e-6"}
    ran = read(event, relation="add_remove")
    scope.charge(ran, library="tensorflow-privacy 0.9", **who)
    print(f"noise {noise:.4f}: epsilon {PrivacyAccountant(scope).compose(event).bounds(DELTA)} at {DELTA}")
    print(f"spent {scope.spent():.4f} of 2")
    assert write(ran) == event

    try:
        scope.charge(read(training(noise), relation="add_remove"), **who)
    except dpl.BudgetRefused as refused:
        print(refused)
