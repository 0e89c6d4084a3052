"""The profile of a few runs of a Poisson-sampled Gaussian, direction remove, by nested quadrature over the outcomes.

delta_n(eps) = E_P delta_{n-1}(eps - L(x)), delta_1 in closed form; Gauss-Legendre on intervals that shrink towards the
outcome whose loss is eps, where the integrand bends. It shares nothing with contours, lattices or splits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["log_delta"]

Array = npt.NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def log_delta(rate: float, sigma: float, runs: int, epsilons: Array) -> Array:
    """log delta at each epsilon, to about nine digits."""
    if runs == 1:
        return _log_delta_once(rate, sigma, epsilons)
    losses, log_weights = _outcomes(rate, sigma, epsilons)
    found = np.empty(epsilons.shape)
    for i, epsilon in enumerate(epsilons.tolist()):
        seen = log_weights[i] > -760
        terms = log_weights[i][seen] + log_delta(rate, sigma, runs - 1, epsilon - losses[i][seen])
        found[i] = np.logaddexp.reduce(terms)
    return found


def _log_delta_once(rate: float, sigma: float, epsilons: Array) -> Array:
    """Of one run, for any real epsilon: rate P(x - 1 > t) less (e^eps - 1 + rate) P(x > t)."""
    gaps = np.expm1(epsilons) + rate
    inside = gaps > 1e-17
    gaps = np.where(inside, gaps, 1.0)
    at = sigma**2 * np.log(gaps / rate) + 0.5
    shifted = special.log_ndtr((1 - at) / sigma) + math.log(rate)
    plain = special.log_ndtr(-at / sigma) + np.log(gaps)
    values: Array = shifted + np.log(-np.expm1(np.minimum(plain - shifted, -1e-300)))
    everything = np.log(-np.expm1(np.minimum(epsilons, -1e-300)))
    return np.where(inside, values, everything)


def _outcomes(rate: float, sigma: float, epsilons: Array) -> tuple[Array, Array]:
    """Losses of the nodes for each epsilon, and the logarithms of their P masses."""
    gaps = np.expm1(np.minimum(epsilons, 700.0)) + rate
    kinks = np.where(gaps > 0, sigma**2 * np.log(np.maximum(gaps, 1e-300) / rate) + 0.5, -12 * sigma)
    near = np.clip(kinks, -12 * sigma, 39 * sigma)[:, None]
    towards = sigma * 2.0 ** -np.arange(44.0)
    everywhere = np.broadcast_to(np.linspace(-13 * sigma, 40 * sigma, 54), (epsilons.size, 54))
    edges = np.sort(np.concatenate([everywhere, near + towards, near - towards, near], axis=1), axis=1)
    edges = np.clip(edges, -13 * sigma, 40 * sigma)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    x = ((edges[:, 1:] + edges[:, :-1])[:, :, None] / 2 + half * _NODES).reshape(epsilons.size, -1)
    with np.errstate(divide="ignore"):
        widths = np.log(half * _WEIGHTS).reshape(epsilons.size, -1)
    plain, shifted = (-((x - mean) ** 2) / (2 * sigma**2) for mean in (0.0, 1.0))
    masses = np.logaddexp(math.log1p(-rate) + plain, math.log(rate) + shifted)
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + (x - 0.5) / sigma**2)
    growth = rate * np.expm1(np.minimum((x - 0.5) / sigma**2, 700.0))
    losses: Array = np.where(np.abs(growth) < 0.5, np.log1p(np.maximum(growth, -0.9)), far)
    return losses, masses + widths - math.log(sigma * math.sqrt(2 * math.pi))
