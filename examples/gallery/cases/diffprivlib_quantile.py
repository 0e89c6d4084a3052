"""diffprivlib 0.6.6: a quantile."""

PACKAGE, VERSIONS = "diffprivlib", ("0.6.6",)
PYTHON, WITH = "3.11", ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1")

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT = [0.2, 0.2, 0.9], [0.2, 0.9, 0.9]
CLAIMED = "epsilon 1 for `tools.quantile(0.5, bounds=(0, 1))`"


def mechanism(rows):
    from diffprivlib.tools import quantile

    return quantile(rows, 0.5, epsilon=1, bounds=(0, 1))
