"""python-dp 1.1.5, Google's C++ library: a bounded mean."""

PACKAGE, VERSIONS = "python-dp", ("1.1.5",)
PYTHON, WITH = "3.11", ()

CLAIM, RELATION = {"epsilon": "1"}, "add_remove"
LEFT, RIGHT = [0.0, 0.0], [0.0, 0.0, 1.0]
CLAIMED = "epsilon 1 for `BoundedMean(epsilon=1, lower_bound=0, upper_bound=1)`"


def mechanism(rows):
    from pydp.algorithms.laplacian import BoundedMean

    return BoundedMean(epsilon=1, lower_bound=0, upper_bound=1, dtype="float").quick_result(rows)
