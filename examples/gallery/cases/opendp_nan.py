"""OpenDP 0.2.4: a NaN in the data is an error."""

PACKAGE, VERSIONS = "opendp", ("0.2.4",)
PYTHON, WITH = "3.11", ()

CLAIM, RELATION = {"epsilon": "1"}, "add_remove"
LEFT, RIGHT = [0.5], [0.5, None]
TRIALS = 120
CLAIMED = "epsilon 1 for a clamped sum of floats with Laplace noise: `chain.check(1, 1.0)` is True"
PAIR = "one number, or the same and a NaN, which the domain (`AllDomain<f64>`) takes"
WHY = "`make_clamp` fails where it meets a NaN: one row decides whether there is an answer"
NOW = "0.16 clamps only on domains that are said to have no NaN, `atom_domain(T=float, nan=False)`"
REPORTED = ""


def mechanism(rows):
    from opendp.meas import make_base_laplace
    from opendp.mod import enable_features
    from opendp.trans import make_bounded_sum, make_clamp

    enable_features("contrib", "floating-point")
    chain = make_clamp((0.0, 1.0)) >> make_bounded_sum((0.0, 1.0)) >> make_base_laplace(1.0)
    assert chain.check(1, 1.0)
    return chain([float("nan") if row is None else row for row in rows])
