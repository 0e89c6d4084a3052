"""autodp 0.2.3.1: its Renyi accountant."""

PACKAGE, VERSIONS = "autodp", ("0.2.3.1",)
PYTHON, WITH = "3.9", ("numpy==1.23.5", "scipy==1.10.1", "matplotlib==3.7.5")

CLAIMED = "the epsilon of a hundred Laplace mechanisms at scale 1, from `Composition`"


def claimed():
    from autodp.mechanism_zoo import LaplaceMechanism
    from autodp.transformer_zoo import Composition

    return Composition()([LaplaceMechanism(1)], [100]).get_approxDP(1e-5)


def truth(dpl):
    return dpl.compose((dpl.LaplaceLaw(1), 100))
