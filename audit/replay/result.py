"""What a replay found, in words that never say more than was seen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dpledger import decimals
from dpledger.audit.replay.calls import ReplayFinding
from dpledger.notebooks import summary
from dpledger.relations import Relation

__all__ = ["SCHEMA", "ReplayResult"]

SCHEMA = "dpledger.replay.v1"
Verdict = Literal["violation", "not_refuted", "blind"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReplayResult:
    """What `audit_replay` found on one pair of neighbours. Neither true nor false: compare `verdict`.

    `findings`: what a correct mechanism does not do, by the number of the call. `remarks`: differences that accuse
    nobody, as coins or probabilities of the mechanism may pay for them. `blind`: why the replay could not see what the
    mechanism does. `calls`: how many calls of noise functions there were on the left and on the right data.
    `used`: the largest share of a declared sensitivity that a value moved by; None where none is declared: an audit is
    as good as its pair, and of one that moves nothing little follows. `apart`: why the two datasets are no neighbours,
    if they are rows.

    >>> count = dpl.Count(epsilon="0.1", of="rows")
    >>> result = dpl.audit_replay(count, [1] * 9, [1] * 10)
    >>> result.verdict, result.calls, result.used
    ('not_refuted', (1, 1), Fraction(1, 1))
    """

    mechanism: str
    relation: Relation
    pair: str
    apart: str | None
    calls: tuple[int, int]
    recordings: int
    findings: tuple[ReplayFinding, ...]
    remarks: tuple[ReplayFinding, ...]
    used: Fraction | None
    blind: str | None
    seed: int
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """`violation`: something was declared or promised that is not so. `blind`: nothing was, and not all could be
        seen, which is no pass. `not_refuted`: never "proved"."""
        if self.findings:
            return "violation"
        return "not_refuted" if self.blind is None else "blind"

    def __bool__(self) -> bool:
        raise TypeError(
            "a ReplayResult is neither true nor false: compare result.verdict with 'violation', 'not_refuted' or "
            "'blind' (not refuted does not mean proved)"
        )

    def __repr__(self) -> str:
        return f"<ReplayResult: {self._head()}>"

    def __str__(self) -> str:
        lines = [self._head(), *(f"  {one.words}" for one in self.findings)]
        lines += [f"remark: {one.words}" for one in self.remarks]
        if self.apart is not None:
            lines.append(
                f"{self.apart}. If these are rows, the claim does not cover them: take data that differ in one unit"
            )
        return "\n".join([*lines, self._seen()])

    def _repr_html_(self) -> str:
        rows = [("mechanism", self.mechanism), ("verdict", self._head()), ("seen", self._seen())]
        return summary("ReplayResult", rows + [(one.kind, one.words) for one in self.findings])

    @property
    def public_words(self) -> tuple[str, ...]:
        """The verdict and the findings without a number or a text that depends on the data."""
        return (self._head(), *(one.public_words for one in self.findings))

    def _head(self) -> str:
        match self.verdict:
            case "violation":
                many = "1 finding" if len(self.findings) == 1 else f"{len(self.findings)} findings"
                return f"violation, {many}: what was declared is false on this pair"
            case "blind":
                return f"blind, which does not pass: {self.blind}"
            case _:
                return "not refuted by replay (this is no proof of privacy)"

    def _seen(self) -> str:
        seen = f"{self.calls[0]} and {self.calls[1]} draws, replayed both ways in {self.seconds * 1000:.0f} ms"
        if self.used is None:
            return seen
        return f"{seen}; at most {float(self.used):.3g} of a declared sensitivity was used"

    def to_json(self) -> str:
        """The whole result as JSON, for the auditor: it says by how much values moved. Numbers are text."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "mechanism": self.mechanism,
            "relation": self.relation.value,
            "pair": self.pair,
            "apart": self.apart,
            "calls": {"left": self.calls[0], "right": self.calls[1]},
            "recordings": self.recordings,
            "findings": [_document(one) for one in self.findings],
            "remarks": [_document(one) for one in self.remarks],
            "used": None if self.used is None else str(self.used),
            "blind": self.blind,
            "seed": self.seed,
            "seconds": f"{self.seconds:.3f}",
        }
        return json.dumps({name: value for name, value in document.items() if value is not None}, indent=2)


def _document(finding: ReplayFinding) -> dict[str, Any]:
    document = {
        "kind": finding.kind,
        "call": finding.call,
        "words": finding.words,
        "public_words": finding.public_words,
        "moved": None if finding.moved is None else str(finding.moved),
        "declared": None if finding.declared is None else decimals.text(finding.declared),
    }
    return {name: value for name, value in document.items() if value is not None}
