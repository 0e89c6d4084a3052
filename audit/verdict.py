"""What an audit found, in words that never say more than the evidence.

`violation`: the claim is refuted, at the stated confidence. `not_refuted`: this budget of runs found nothing, which
proves nothing; the power says what it could have found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee, words_of
from dpledger.audit.claims import Point, Target
from dpledger.audit.counting import Strata
from dpledger.audit.events import Event, InStratum
from dpledger.audit.evidence.bands import BandPoint, CellCounts, band
from dpledger.audit.evidence.thresholds import Direction, Look, most_telling
from dpledger.audit.neighbours import ONE_UNIT
from dpledger.audit.strata import Stratum
from dpledger.decimals import RoundsDown
from dpledger.errors import CannotCertify
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.entries.members import MechanismNote, Power, RefutedPoint, Step
from dpledger.notebooks import summary
from dpledger.relations import Relation
from dpledger.schema import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SCHEMA", "AuditResult", "StratumFinding", "percent"]

SCHEMA = "dpledger.audit.v1"
METHOD = "threshold"
CONSTANT = (
    "every run gave the same output, on both datasets: a function that releases nothing keeps every promise; "
    "see that it returns its answer"
)


@dataclass(frozen=True, slots=True)
class StratumFinding:
    """What was found in one stratum of an ex-post claim. `look`: its best; `left`, `right`: how many runs of the
    estimation part fell into it."""

    stratum: Stratum
    look: Look
    left: int
    right: int

    @property
    def claimed(self) -> Decimal:
        """The loss that is claimed of its outcomes, at most."""
        return self.stratum.epsilon

    @property
    def epsilon_lower(self) -> Decimal:
        """A lower bound of the loss of an event in it, at the claim's delta."""
        return self.look.epsilon_lower

    @property
    def refuted(self) -> bool:
        """Whether the claim fell here."""
        return self.look.refuted


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuditResult:
    """The result of one audit. `epsilon_lower` at `delta` and the verdict hold together with `confidence`.

    `looks`: every test that was made, each with its share of the error budget; `selected_on`: runs a side spent on
    choosing them, which count in no bound. `constant`: every run, on both sides, gave the same output; what releases
    nothing keeps every promise, so the verdict says nothing of the code that was meant. `width`: how many numbers an
    output usually is. `apart`: why the two datasets are no neighbours, if they are rows. `seed`: None where the runs
    were collected by somebody else.

    Of an ex-post claim `claim`, `epsilon_lower` and `event` are about one stratum, the one that fell or is closest to
    it; `by_stratum` has them all, `strata` what was seen of them and the test of all together.

    >>> rng = np.random.default_rng(1)
    >>> result = dpl.audit_outputs(rng.normal(0, 1, 2000), rng.normal(4, 1, 2000), claim=dpl.PureDP(1))
    >>> result.verdict, float(result.epsilon_lower) > 1
    ('violation', True)
    """

    mechanism: MechanismNote
    claim: Guarantee
    target: Target
    relation: Relation
    confidence: Decimal
    looks: tuple[Look, ...]
    cells: CellCounts
    power: Power | None
    pair: str
    width: int
    selected_on: tuple[int, int]
    trials_left: int
    trials_right: int
    constant: bool
    seconds: float
    seed: int | None
    strata: Strata | None = None
    apart: str | None = None

    @property
    def verdict(self) -> Literal["violation", "not_refuted"]:
        """`violation` if a look refutes the point that it tests, or the strata of an ex-post claim fell together; else
        `not_refuted`. Never "proved"."""
        fell = any(look.refuted for look in self.looks) or (self.strata is not None and self.strata.joint.refuted)
        return "violation" if fell else "not_refuted"

    @property
    def trials(self) -> int:
        """How many runs of each side there were, with those that chose events: the `trials` of `audit_mechanism`. Of
        outputs that were collected elsewhere the fewer of `trials_left` and `trials_right`."""
        return min(self.trials_left, self.trials_right)

    @property
    def epsilon_lower(self) -> RoundsDown:
        """A lower bound on the epsilon of the mechanism at `delta`, on this pair of datasets.

        Claim: at least `confidence` that the true epsilon at `delta` is no smaller. Source: docs/proofs/audit.md 3.
        """
        return RoundsDown(max(look.epsilon_lower for look in self.looks if look.planned.point == self.target.point))

    @property
    def delta(self) -> Decimal:
        """The delta at which `epsilon_lower` holds."""
        return self.target.point.delta

    @property
    def witness(self) -> Look:
        """The look that says most: one that refutes its point (the reported point first), else the best there."""
        at_point = [look for look in self.looks if look.planned.point == self.target.point]
        best = max(at_point, key=lambda look: look.epsilon_lower)
        refuting = [look for look in self.looks if look.refuted]
        if best.refuted or not refuting:
            return best
        return most_telling(refuting)

    @property
    def event(self) -> Event:
        """The event that tells the two datasets apart best: `event.words`, `event.contains(output, width=...)`."""
        return self.witness.planned.event

    @property
    def refuted(self) -> Point | None:
        """The point of the claim that fell (for a claim that is a curve it may be a knot), or None."""
        return self.witness.planned.point if self.witness.refuted else None

    @property
    def stratum(self) -> Stratum | None:
        """The stratum of an ex-post claim that fell, or was closest to it."""
        event = self.event
        return event.stratum if isinstance(event, InStratum) else None

    @property
    def by_stratum(self) -> tuple[StratumFinding, ...]:
        """What was found in each stratum of an ex-post claim: the bounds hold together, with `confidence`."""
        if self.strata is None:
            return ()
        best: dict[Stratum, Look] = {}
        for look in self.looks:
            event = look.planned.event
            if isinstance(event, InStratum):
                known = best.get(event.stratum)
                if known is None or look.epsilon_lower > known.epsilon_lower:
                    best[event.stratum] = look
        return tuple(
            StratumFinding(stratum, best[stratum], left, right)
            for stratum, left, right in zip(self.strata.strata, self.strata.left, self.strata.right, strict=True)
        )

    @property
    def band(self) -> tuple[BandPoint, ...]:
        """The trade-off curve with its simultaneous band: a statement of its own, at `confidence`."""
        return band(self.cells, decimals.float_down(decimals.round_down(1 - Fraction(self.confidence))))

    def __bool__(self) -> bool:
        raise TypeError(
            "an AuditResult is neither true nor false: compare result.verdict with 'violation' or 'not_refuted' "
            "(and not refuted is not proved)"
        )

    def __repr__(self) -> str:
        return f"<AuditResult: {self._lines()[0]}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        rows = [
            ("mechanism", self.mechanism.kind),
            ("verdict", self._lines()[0]),
            (f"epsilon at delta {decimals.text(self.delta)}", f"at least {float(self.epsilon_lower):.6g}"),
            ("confidence", decimals.text(self.confidence)),
            ("runs", f"{self.trials_left:,} and {self.trials_right:,}"),
            ("event", self._public_event()),
            ("power", self._power_words()),
        ]
        return summary("AuditResult", rows)

    def _lines(self) -> list[str]:
        look = self.witness
        head = {
            "violation": f"violation: {self._claimed_words()} is refuted",
            "not_refuted": f"not refuted: {self._claimed_words()} (this is no proof of privacy)",
        }[self.verdict]
        if look.refuted and look.planned.point != self.target.point:
            head += f", by its privacy curve at {look.planned.point.words}"
        runs = f"{self.trials_left:,} and {self.trials_right:,} runs"
        tally = look.tally
        return [
            head,
            *([CONSTANT] if self.constant else ()),
            *(
                [f"{self.apart}: if these are rows, nothing follows for the claim; take data that {ONE_UNIT}"]
                if self.apart
                else ()
            ),
            f"epsilon at delta {float(self.delta):.3g} is at least {float(self.epsilon_lower):.6g} "
            f"(confidence {percent(self.confidence)}, {runs}, {self.seconds:.1f} s)",
            f"event: {self.event.words}, in {tally.left:,} of {tally.runs_left:,} runs on the left data "
            f"and {tally.right:,} of {tally.runs_right:,} on the right",
            *self._strata_lines(),
            self._power_words(),
        ]

    def _claimed_words(self) -> str:
        if self.strata is None:
            return words_of(self.claim)
        if self.verdict == "not_refuted":
            return f"the ex-post claim, in any of {len(self.strata.strata)} strata"
        if self.witness.refuted and self.stratum is not None:
            return f"the ex-post claim, in the stratum of {self.stratum.words}: {words_of(self.claim)}"
        return "the ex-post claim, by its strata together (no single one fell; more trials may name it)"

    def _strata_lines(self) -> Iterator[str]:
        if self.strata is None:
            return
        for found in self.by_stratum:
            yield (
                f"  {found.stratum.words}: epsilon at least {float(found.epsilon_lower):.6g}, in {found.left:,} and "
                f"{found.right:,} runs{', refuted' if found.refuted else ''}"
            )
        joint = self.strata.joint
        yield (
            f"all strata together: {'refuted' if joint.refuted else 'not refuted'}, p-value at most {joint.p_value:.3g}"
        )

    def _power_words(self) -> str:
        if self.power is None:
            return "power: with so few runs this event could have refuted no epsilon; use more trials"
        return (
            f"power: a true epsilon of {float(self.power.epsilon):.6g} would have been refuted "
            f"with probability {self.power.probability}, by this kind of event"
        )

    def body(self, path: tuple[Step, ...] = ()) -> Audited:
        """The result as a ledger entry holds it: no data, no output. `path`: the scope it is about, if any.

        Of an ex-post claim the entry's claim is that of the stratum which its event names. CannotCertify where the
        strata fell together and no single one did: an entry names one."""
        if self.strata is not None and self.verdict == "violation" and not self.witness.refuted:
            raise CannotCertify("the strata fell together and no single one did: an entry names one; use more trials")
        return Audited(
            mechanism=self.mechanism,
            claim=self.claim,
            relation=self.relation,
            verdict=self.verdict,
            epsilon_lower=self.epsilon_lower,
            delta=self.delta,
            confidence=self.confidence,
            trials_left=self.trials_left,
            trials_right=self.trials_right,
            event=self._public_event(),
            method=METHOD,
            refuted=self._fallen(),
            power=self.power,
            seed=self.seed,
            path=path,
        )

    def _fallen(self) -> RefutedPoint | None:
        look = self.witness
        if not look.refuted:
            return None
        point = look.planned.point
        return RefutedPoint(epsilon=point.epsilon, delta=point.delta, epsilon_lower=look.epsilon_lower)

    def _public_event(self) -> str:
        planned = self.witness.planned
        side = "left" if planned.direction is Direction.LEFT else "right"
        verb = "refutes" if self.witness.refuted else "does not refute"
        return f"{planned.event.public_words}; likelier on the {side} data; {verb} {planned.point.words}"

    def to_json(self) -> str:
        """The whole result as JSON, for the auditor: it names the event in full. Numbers are text, decimals exact."""
        return json.dumps(self._document(), indent=2, ensure_ascii=False)

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "verdict": self.verdict,
                "epsilon_lower": self.epsilon_lower,
                "delta": self.delta,
                "confidence": self.confidence,
                "claim": self.claim,
                "mechanism": self.mechanism,
                "relation": self.relation,
                "pair": self.pair,
                "apart": self.apart,
                "event": self.event.words,
                "method": METHOD,
                "trials": {"left": self.trials_left, "right": self.trials_right},
                "selected_on": {"left": self.selected_on[0], "right": self.selected_on[1]},
                "seconds": f"{self.seconds:.3f}",
                "power": self.power,
                "seed": self.seed,
                "constant": self.constant,
                "looks": [_look_document(look) for look in self.looks],
                "cells": {
                    "likelier_on": self.cells.side,
                    "likelier": self.cells.likelier,
                    "rarer": self.cells.rarer,
                },
            }
        )
        return document if self.strata is None else document | {"ex_post": plain(self._strata_document(self.strata))}

    def _strata_document(self, strata: Strata) -> dict[str, Any]:
        return {
            "strata": [
                {
                    "stratum": found.stratum.words,
                    "claimed": found.claimed,
                    "epsilon_lower": found.epsilon_lower,
                    "refuted": found.refuted,
                    "event": found.look.planned.event.words,
                    "runs": {"left": found.left, "right": found.right},
                }
                for found in self.by_stratum
            ],
            "together": {
                "refuted": strata.joint.refuted,
                "log_e_value": repr(strata.joint.log_wealth),
                "share_of_error": decimals.round_up(strata.joint.share),
            },
        }

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """The trade-off curve with its band against the region that the claim allows, or of an ex-post claim its strata
        with their bounds; saved to `path` if given.

        Needs matplotlib, the extra `plots`: ParameterError says so where it is missing, and where `path` cannot be
        written or does not end in .png, .svg or .pdf."""
        from dpledger.audit.plots import drawn  # here: matplotlib is an extra, and takes a second to load

        return drawn(self, path)


def percent(confidence: Decimal) -> str:
    """For people: never more than it is."""
    return f"{decimals.text(decimals.round_down(decimals.multiply(confidence, Decimal(100)), digits=6))} %"


def _look_document(look: Look) -> dict[str, object]:
    planned, tally = look.planned, look.tally
    return {
        "event": planned.event.words,
        "likelier_on": planned.direction.value,
        "epsilon": planned.point.epsilon,
        "delta": planned.point.delta,
        "share_of_error": decimals.round_up(planned.share),
        "hits": {"left": tally.left, "right": tally.right},
        "runs": {"left": tally.runs_left, "right": tally.runs_right},
        "likelier_lower": repr(look.likelier_lower),
        "rarer_upper": repr(look.rarer_upper),
        "epsilon_lower": look.epsilon_lower,
        "refuted": look.refuted,
    }
