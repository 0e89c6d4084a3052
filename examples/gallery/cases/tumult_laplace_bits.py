"""Tumult Core 0.20.0: Laplace noise on a float, its last bits included."""

PACKAGE, VERSIONS = "tmlt.core", ("0.20.0",)
PYTHON, WITH = "3.11", ("numpy==1.26.4", "pandas==1.5.3", "scipy==1.17.1", "randomgen==2.3.0", "python-flint==0.9.0")

RELATION = "replace_one"
LEFT, RIGHT = 0.0, 0.5
FLOATS = "bits"
CLAIMED = "epsilon 1 for `AddLaplaceNoise(scale=0.5)` on a float in [0, 0.5], its last bits included"


def measurement():
    from tmlt.core.domains.numpy_domains import NumpyFloatDomain
    from tmlt.core.measurements.noise_mechanisms import AddLaplaceNoise

    return AddLaplaceNoise(scale="1/2", input_domain=NumpyFloatDomain())


def claim():
    return {"epsilon": str(measurement().privacy_function("1/2"))}


def mechanism(value):
    import numpy as np

    return measurement()(np.float64(value))
