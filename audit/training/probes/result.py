"""What the probes of a training set-up found: an answer and its evidence for each question.

>>> one = ProbeFinding(name="sampler", answer="no", evidence="all batches have 10 rows", numbers={"rows": 10.0})
>>> print(ProbeReport(findings=(one,)))
sampler  no  all batches have 10 rows
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpledger.errors import ParameterError
from dpledger.notebooks import summary

__all__ = ["QUESTIONS", "SCHEMA", "Answer", "ProbeFinding", "ProbeReport"]

SCHEMA = "dpledger.probes.v1"
Answer = Literal["yes", "no", "cannot tell"]

QUESTIONS: Mapping[str, str] = {
    "clipping": "is each example clipped by itself?",
    "noise": "is the noise at least the noise multiplier times the clip norm, over the divisor?",
    "divisor": "is the number that sums are divided by public?",
    "sampler": "does the sampler draw rows independently, at most at the charged rate?",
    "accountant": "is the accountant fed at every step, and only then?",
    "ranks": "do two ranks draw different noise?",
}
"""What each probe asks; "yes" is the answer of a correct set-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFinding:
    """The answer of one probe. `evidence`: what was seen, in words. `numbers`: what the words rest on, by name."""

    name: str
    answer: Answer
    evidence: str
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProbeReport:
    """The answers of all probes, in the order of `QUESTIONS`. Neither true nor false: look at `faults` and `unknown`.

    >>> plan = dpl.DPSGD(rate="0.1", steps=9, noise_multiplier=1, clip_norm=1, dimension=2, expected_batch_size=5)
    >>> made_up = np.random.default_rng(0).normal(size=(50, 2))
    >>> report = dpl.learning.probe_sgd(plan, lambda batch: -batch, made_up)
    >>> report.faults, report.unknown
    ((), ())
    """

    findings: tuple[ProbeFinding, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of the probes that answered no."""
        return self._answered("no")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the probes that cannot tell, which is no pass."""
        return self._answered("cannot tell")

    def finding(self, name: str) -> ProbeFinding:
        """The finding of the probe of this name. ParameterError where there is none."""
        by_name = {one.name: one for one in self.findings}
        if not isinstance(name, str) or name not in by_name:
            raise ParameterError("name", name, f"one of {', '.join(by_name)}")
        return by_name[name]

    def to_json(self) -> str:
        """The whole report as JSON."""
        findings = [
            {
                "probe": one.name,
                "question": QUESTIONS[one.name],
                "answer": one.answer,
                "evidence": one.evidence,
                "numbers": {name: repr(float(number)) for name, number in one.numbers.items()},
            }
            for one in self.findings
        ]
        return json.dumps({"schema": SCHEMA, "findings": findings}, indent=2)

    def __bool__(self) -> bool:
        raise TypeError("a ProbeReport is neither true nor false: look at report.faults and report.unknown")

    def __repr__(self) -> str:
        return f"<ProbeReport: {', '.join(f'{one.name} {one.answer}' for one in self.findings)}>"

    def __str__(self) -> str:
        width = max((len(one.name) for one in self.findings), default=0)
        answers = max((len(one.answer) for one in self.findings), default=0)
        return "\n".join(f"{one.name:<{width}}  {one.answer:<{answers}}  {one.evidence}" for one in self.findings)

    def _repr_html_(self) -> str:
        return summary("ProbeReport", [(one.name, f"{one.answer}: {one.evidence}") for one in self.findings])

    def _answered(self, answer: Answer) -> tuple[str, ...]:
        return tuple(one.name for one in self.findings if one.answer == answer)
