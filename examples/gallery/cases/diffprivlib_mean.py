"""diffprivlib 0.6.6: the mean of a known number of rows."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [0.0, 0.0], [0.0, 5.0]
CLAIMED = "epsilon 1 for `tools.mean(bounds=(0, 1))`"


def mechanism(rows):
    from diffprivlib.tools import mean

    return mean(rows, epsilon=1, bounds=(0, 1))
