"""OpenDP 0.16.0: Laplace noise on a float, to the last bit."""

PACKAGE, VERSIONS = "opendp", ("0.16.0",)
PYTHON, WITH = "3.11", ()

CLAIM, RELATION = {"epsilon": "1"}, "replace_one"
LEFT, RIGHT, FLOATS = 0.0, 1.0, "bits"
CLAIMED = "epsilon 1 for `make_laplace(scale=1)` on a float, its last bits included"


def mechanism(value):
    import opendp.prelude as op

    op.enable_features("contrib")
    return op.m.make_laplace(op.atom_domain(T=float, nan=False), op.absolute_distance(T=float), scale=1.0)(value)
