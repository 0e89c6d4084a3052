"""The density e^{(l - h)/2} of a loss on [-h, h] as a few atoms, for low frequencies: Gauss's rule.

Where a loss is run very often, what matters of its transform is how it leaves 1. Atoms tell it without cancellation, as
sums of e^{z l} - 1, and Gauss's rule errs by nothing that counts, even times 10^12. docs/proofs/engine.md, section 6.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.gauss_legendre import gauss_legendre
from dpledger.accounting.laws.law import Cumulants, Nodes

__all__ = ["atoms_of", "few_turns", "nodes_on"]

RULE_POINTS = 24
LARGEST_HALF = 7.0  # the largest h
TURNED = 0.02  # the largest |z| h
RULE = 1e-38
"""More than the rule errs by for e^{zl}, in units of the integral for z = 0."""


def few_turns(half: float, c: float, t: float) -> bool:
    """Whether the rule does for z = c + it."""
    return half <= LARGEST_HALF and (c + t) * half <= TURNED


def atoms_of(half: float, scale: float, scale_error: float, ends: tuple[float, float] | None = None) -> FiniteLoss:
    """The atoms of `scale` times the density (`scale` within a relative `scale_error`), and the masses `ends` of -h and
    h themselves, if any: a law but for RULE."""
    nodes, weights = gauss_legendre(RULE_POINTS)
    losses = half * nodes
    masses = scale * half * weights * elementary.exp((losses - half) / 2)
    if ends:
        losses = np.concatenate([[-half], losses, [half]])
        masses = np.concatenate([[ends[0]], masses, [ends[1]]])
    errors: Array = 6 * UNIT * np.abs(losses)
    return FiniteLoss(losses, masses, errors, (24 + 8 * half) * UNIT + scale_error, 0.0, RULE)


def nodes_on(atoms: FiniteLoss, c: float, at: Cumulants, step: float, count: int) -> Nodes:
    """phi of what the atoms stand for, tilted at c, about the mean of `at`."""
    nodes = replace(atoms.tilted(c), cumulants=at).nodes(step, count, RULE_POINTS * count * 2)
    return Nodes(nodes.log_phi, nodes.spread + 8 * RULE)
