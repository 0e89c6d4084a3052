"""The tests of a check, one after another: of one noisy threshold, or of one whose noise falls from stage to stage.

Both are counted here, and say what was lost: `ended` is the leaf with its outcome.
"""

from __future__ import annotations

import bisect
import dataclasses
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.decimals import multiply
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, NoiseChain, RoundedLaplace, Sensitivity, draw
from dpledger.mechanisms.threshold.epochs import Epochs
from dpledger.mechanisms.threshold.threshold_run import Outcome, Thresholding

__all__ = ["FallingTests", "SingleTests", "Stage", "Tests"]


class Tests(Protocol):
    """Tests that end with the first value that is above."""

    def is_above(self, value: float) -> bool:
        """Whether the next value is above the threshold, by their noise."""
        ...

    def ended(self) -> SparseVectorLaw:
        """The leaf, with what the tests published."""
        ...


class SingleTests:
    """Tests against one noisy threshold."""

    def __init__(self, plan: Thresholding, entropy: Entropy) -> None:
        self._plan, self._epochs = plan, Epochs(plan, entropy)

    def is_above(self, value: float) -> bool:
        """As `Tests`."""
        return self._plan.answer(self._epochs.test(self._plan.steps(value))) is Outcome.ABOVE

    def ended(self) -> SparseVectorLaw:
        """As `Tests`."""
        return self._epochs.ended()


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests up to number `end` with `ratio` times the scales of the law, against `threshold`, in steps."""

    end: int
    ratio: Decimal
    threshold: int


class FallingTests:
    """Tests whose noise falls: against thresholds whose noise is one chain, a level a stage.

    Claim: what is published up to a test loses at most what the leaf with its outcome says. Source:
    docs/proofs/sparse_vector.md, "Noise that falls"."""

    def __init__(self, plan: Thresholding, stages: tuple[Stage, ...], entropy: Entropy) -> None:
        self._plan, self._stages, self._entropy = plan, stages, entropy
        self._asked, self._halted = 0, False
        self._stage: Stage | None = None
        self._noisy_threshold = 0
        self._chain = self._begun()

    def _begun(self) -> NoiseChain[int]:
        plan, steps = self._plan, self._plan.sensitivity.value
        finest = RoundedLaplace(scale=multiply(plan.law.threshold_scale, steps), grid=1)
        moved = Sensitivity(steps, "l1", plan.sensitivity.justification)
        return noise.chain(finest, 0, sensitivity=moved, entropy=self._entropy)

    def is_above(self, value: float) -> bool:
        """As `Tests`."""
        plan, steps = self._plan, self._plan.sensitivity.value
        stage = self._stages[bisect.bisect_right(self._stages, self._asked, key=lambda one: one.end)]
        if stage is not self._stage:
            self._stage = stage
            scale = multiply(multiply(plan.law.threshold_scale, steps), stage.ratio)
            self._noisy_threshold = stage.threshold + self._chain.refine(scale)
        law = DiscreteLaplace(multiply(multiply(plan.law.query_scale, steps), stage.ratio))
        noisy = draw(law, plan.steps(value), sensitivity=plan.sensitivity, entropy=self._entropy)
        self._asked += 1
        self._halted = noisy <= self._noisy_threshold
        return self._halted

    def ended(self) -> SparseVectorLaw:
        """As `Tests`."""
        outcome = SparseVectorOutcome(
            closed_epochs=(self._asked,) if self._halted else (),
            open_epoch=0 if self._halted else self._asked,
            halted=self._halted,
            ratio=None if self._stage is None or self._stage.ratio == 1 else self._stage.ratio,
        )
        return dataclasses.replace(self._plan.law, outcome=outcome)
