"""Opacus 1.6.0: the accountant "gdp" reports less than is lost."""

PACKAGE, VERSIONS = "opacus", ("1.6.0",)
PYTHON, WITH = "3.11", ("torch==2.7.1",)

CLAIMED = "the epsilon of ten steps at noise 0.5, rate 0.01, from `GaussianAccountant`"
PAIR = "the dominating pair of the sampled Gaussian"
WHY = "a central limit theorem in place of the composition; it warns that it can underestimate"
NOW = "1.6.0 is current; its default accountant, `prv`, is right"
REPORTED = "https://arxiv.org/abs/2106.02848"


def claimed():
    from opacus.accountants import GaussianAccountant

    accountant = GaussianAccountant()
    for _ in range(10):
        accountant.step(noise_multiplier=0.5, sample_rate=0.01)
    return accountant.get_epsilon(1e-5)


def truth(dpl):
    step = dpl.PoissonSampled(dpl.GaussianLaw(noise_multiplier="0.5"), rate="0.01")
    return dpl.compose((step, 10))
