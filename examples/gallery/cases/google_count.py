"""python-dp 1.1.5, Google's C++ library: a count."""

PACKAGE, VERSIONS = "python-dp", ("1.1.5",)
PYTHON, WITH = "3.11", ()

CLAIM, RELATION = {"epsilon": "1"}, "add_remove"
LEFT, RIGHT = [1.0, 1.0], [1.0, 1.0, 1.0]
CLAIMED = "epsilon 1 for `Count(epsilon=1)`"


def mechanism(rows):
    from pydp.algorithms.laplacian import Count

    return Count(epsilon=1, dtype="float").quick_result(rows)
