"""Replay before you sample: two runs on neighbours with every draw of noise the same, in milliseconds.

A mean of salaries that clips at 1.1 where 1 is declared, and returns how many rows there are beside it.
"""

import numpy as np

import dpledger as dpl
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedLaplace, Sensitivity, draw

STEPS = 128  # in a million
NOISE = RoundedLaplace(scale="0.0833", grid="0.0078125")
DECLARED = Sensitivity(1, "l1", "a salary is clipped to 0..1 (in millions)")


def salaries(rows: list[float], entropy: Entropy) -> dict[str, float]:
    """The noisy sum, at epsilon 12."""
    clipped = np.rint(np.clip(rows, 0, 1.1) * STEPS)
    noisy = draw(NOISE, int(clipped.sum()), sensitivity=DECLARED, entropy=entropy)
    return {"sum": noisy / STEPS, "rows": len(rows)}


result = dpl.audit_replay(salaries, [0.1, 0.4], [0.1, 0.4, 7.0])
print(result)
assert result.verdict == "violation"
assert [finding.kind for finding in result.findings] == ["moved", "returned"]

correct = dpl.audit_replay(dpl.ClippedMean(epsilon=12, lower=0, upper=1), [0.1, 0.4], [0.1, 0.4, 7.0])
print(correct)
assert correct.verdict == "not_refuted"
