"""diffprivlib 0.6.6: the last bits of a mean give the data away."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT, FLOATS = [0.0, 0.0], [0.0, 5.0], "bits"
CLAIMED = "epsilon 1 for `tools.mean(bounds=(0, 1))`"
PAIR = "two rows, one of them exchanged"
WHY = (
    "noise that is drawn as a float is added to the mean as a float: near 0 the sum keeps digits that it cannot have "
    "near 1/2. As numbers these means keep the claim: `diffprivlib_mean` below"
)
NOW = "0.6.6 is current"
REPORTED = "https://github.com/IBM/differential-privacy-library/issues/94"


def mechanism(rows):
    from diffprivlib.tools import mean

    return mean(rows, epsilon=1, bounds=(0, 1))
