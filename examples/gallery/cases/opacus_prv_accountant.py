"""Opacus 1.6.0: its default accountant."""

PACKAGE, VERSIONS = "opacus", ("1.6.0",)
PYTHON, WITH = "3.11", ("torch==2.7.1",)

CLAIMED = "the epsilon of ten steps at noise 0.5, rate 0.01, from `PRVAccountant`"


def claimed():
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    for _ in range(10):
        accountant.step(noise_multiplier=0.5, sample_rate=0.01)
    return accountant.get_epsilon(1e-5)


def truth(dpl):
    step = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier="0.5"), rate="0.01")
    return dpl.compose((step, 10))
