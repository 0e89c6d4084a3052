"""diffprivlib 0.6.6: a histogram with given bins."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "add_remove"
LEFT, RIGHT = [0.1, 0.1], [0.1, 0.1, 0.9]
CLAIMED = "epsilon 1 for `tools.histogram(bins=2, range=(0, 1))`"


def mechanism(rows):
    from diffprivlib.tools import histogram

    return histogram(rows, epsilon=1, bins=2, range=(0, 1))[0]
