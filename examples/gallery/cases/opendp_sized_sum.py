"""OpenDP 0.2.4: the sum of a known number of integers rounds its sensitivity down."""

PACKAGE, VERSIONS = "opendp", ("0.2.4", "0.16.0")
PYTHON, WITH = "3.11", ()

RELATION = "replace_one"
LEFT, RIGHT = [0, 0, 0], [0, 0, 1]
CLAIMED = "epsilon 0.1 for a geometric sum of three bits at scale 1: `chain.check(2, 0.1)` is True"
PAIR = "three bits, one of them flipped"
WHY = (
    "`make_sized_bounded_sum` takes d_in * ((U - L) / 2) in integers: with bounds (0, 1) a sensitivity of 0, "
    "and any epsilon passes"
)
NOW = "the map says 1, which holds"
REPORTED = "https://github.com/opendp/opendp/issues/314"


def measurement():
    try:  # 0.2
        from opendp.meas import make_base_geometric
        from opendp.mod import enable_features
        from opendp.trans import make_sized_bounded_sum

        enable_features("contrib")
        return make_sized_bounded_sum(3, (0, 1)) >> make_base_geometric(1.0)
    except ImportError:
        import opendp.prelude as op

        op.enable_features("contrib")
        space = op.vector_domain(op.atom_domain(bounds=(0, 1)), size=3), op.symmetric_distance()
        return space >> op.t.then_sum() >> op.m.then_laplace(1.0)


def claim():
    chain = measurement()
    smallest = 0.1 if hasattr(chain, "check") and chain.check(2, 0.1) else chain.map(2)
    return {"epsilon": str(smallest)}


def mechanism(bits):
    return measurement()(bits)
