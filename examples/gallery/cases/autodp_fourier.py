"""autodp 0.2.3.1: the Fourier accountant returns a negative epsilon."""

PACKAGE, VERSIONS = "autodp", ("0.2.3.1",)
PYTHON, WITH = "3.9", ("numpy==1.23.5", "scipy==1.10.1", "matplotlib==3.7.5")

CLAIMED = "the epsilon of ten Laplace mechanisms at scale 1, from `ComposeAFA`"
PAIR = "the dominating pair of Laplace noise"
WHY = (
    "`cdf_to_approxdp` inverts delta(epsilon) with a minimiser of |delta(epsilon) - delta| over e^epsilon, "
    "to a tolerance of 0.01, and takes whatever it stops at"
)
NOW = "0.2.3.1 is current"
REPORTED = ""


def claimed():
    from autodp.mechanism_zoo import LaplaceMechanism
    from autodp.transformer_zoo import ComposeAFA

    return ComposeAFA()([LaplaceMechanism(1, phi_off=False)], [10]).get_approxDP(1e-5)


def truth(dpl):
    return dpl.compose((dpl.LaplaceLaw(1), 10))
