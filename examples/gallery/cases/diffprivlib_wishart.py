"""diffprivlib 0.2.1: the Wishart mechanism, which linear regression and PCA were built on."""

PACKAGE, VERSIONS = "diffprivlib", ("0.2.1",)
PYTHON, WITH = "3.8", ("numpy==1.19.5", "scipy==1.5.4", "scikit-learn==0.22.2")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [[0.0, 0.0]], [[1.0, 0.0]]
TRIALS = 3_000
CLAIMED = "epsilon 1 for `Wishart().randomise(X.T @ X)`, rows of norm at most 1"
PAIR = "one row: of zeros, or of norm 1"
WHY = (
    "Wishart noise is positive semidefinite: along any direction the result is at least the true value, "
    "so no value below 1 is possible once the row is there"
)
NOW = "removed: linear regression and PCA have other mechanisms since 0.4"
REPORTED = "https://github.com/IBM/differential-privacy-library/issues/23"


def mechanism(rows):
    import numpy
    from diffprivlib.mechanisms import Wishart

    matrix = numpy.array(rows)
    return Wishart().set_epsilon(1).set_sensitivity(1).randomise(matrix.T.dot(matrix))[0]
