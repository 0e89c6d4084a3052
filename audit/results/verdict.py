"""What an audit found, in words that never say more than the evidence.

`violation`: the claim is refuted, at the stated confidence. `not_refuted`: this budget of runs found nothing, which
proves nothing; the power says what it could have found. `blind` beside it: nothing could have been found, and why.
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
from dpledger.audit.course.blocks import Evidence
from dpledger.audit.evidence.wealth import BudgetShare
from dpledger.audit.evidence.witness import Witness
from dpledger.audit.features.events import Event, InStratum
from dpledger.audit.replay.result import ReplayResult
from dpledger.audit.results.plots import drawn
from dpledger.audit.results.searched import PairSearch
from dpledger.audit.strata import Stratum
from dpledger.audit.tested.claims import AuditTarget, ClaimPoint
from dpledger.audit.tested.neighbours import ONE_UNIT
from dpledger.decimals import RoundsDown
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.entries.members import MechanismNote, Power, RefutedPoint, Step
from dpledger.notebooks import summary
from dpledger.relations import Relation
from dpledger.schema import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CANARIES", "SCHEDULE", "SCHEMA", "STEPS", "AuditResult", "percent"]

SCHEMA = "dpledger.audit.v2"
METHOD, REPLAY = "wealth", "replay"
BELOW = Fraction(999_999, 1_000_000)
SCHEDULE = "pairs-in-random-order"
STEPS = "steps-of-one-training"
CANARIES = "canaries-of-one-training"
FLOATS_LEAK = (
    "the last bits of its floating-point numbers give the data away, which this verdict does not count (floats='bits' "
    "does): draw the noise on a grid, as the mechanisms of dpledger do, or publish rounded numbers"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuditResult:
    """The result of one audit. `epsilon_lower` at `delta` and the verdict hold with `confidence`, however the audit
    came to its end.

    `evidence`: what the runs said: the wealth of the bets, where the error budget went, the event that tells the two
    datasets apart. `blind`: why this audit could have found nothing, or why nothing that it found counts; then the
    verdict says nothing of the code that was meant. `apart`: why the two datasets are no neighbours, if they are rows.
    `told`: what the author of the mechanism should know. `replay`: of a mechanism's own claim, what `audit_replay`
    found before anything was drawn. `searched`: how `audit_search` found the pair. `seed`: None where the runs were
    collected by somebody else. `schedule`: in which order runs were drawn; of the steps of a training they are the
    pairs of its steps. `code`: the SHA-256 of the source file of what was audited, None where there is none; `made_up`:
    that of both datasets, where these were said to be made up.

    Of an ex-post claim `claim` is the largest loss that it claims; `strata` are those of the claimed losses, and they
    are tested together.

    >>> rng = np.random.default_rng(1)
    >>> result = dpl.audit_outputs(rng.normal(0, 1, 2000), rng.normal(4, 1, 2000), claim=dpl.PureDP(1))
    >>> result.verdict, float(result.epsilon_lower) >= 1
    ('violation', True)
    """

    mechanism: MechanismNote
    claim: Guarantee
    target: AuditTarget
    relation: Relation
    confidence: Decimal
    evidence: Evidence
    pair: str
    seconds: float
    seed: int | None
    apart: str | None = None
    told: tuple[str, ...] = ()
    replay: ReplayResult | None = None
    schedule: str = SCHEDULE
    searched: PairSearch | None = None
    code: str | None = None
    made_up: str | None = None

    @property
    def verdict(self) -> Literal["violation", "not_refuted"]:
        """`violation` if the runs, or the replay before them, refuted the claim; else `not_refuted`."""
        return "violation" if self.evidence.is_refuted or self._fell_to_replay else "not_refuted"

    @property
    def _fell_to_replay(self) -> bool:
        return self.replay is not None and self.replay.verdict == "violation"

    @property
    def blind(self) -> str | None:
        """Why nothing could have been found, or nothing that was found counts; None where runs or replay speak."""
        return None if self._fell_to_replay else self.evidence.blind

    @property
    def float_leak(self) -> str | None:
        """What only the last bits of floats give away, in words, if floats were compared as numbers (`floats`): it
        refutes the claim of code that publishes all digits, not of code that rounds. None if nothing shows."""
        leak = self.evidence.float_leak
        return None if leak is None or self.blind is not None else leak.public_words

    @property
    def trials_left(self) -> int:
        """Runs on the left data."""
        return self.evidence.trials[0]

    @property
    def trials_right(self) -> int:
        """Runs on the right data."""
        return self.evidence.trials[1]

    @property
    def trials(self) -> int:
        """How many runs there were on each side; for outputs that were collected elsewhere, the smaller of the two."""
        return min(self.evidence.trials)

    @property
    def epsilon_lower(self) -> RoundsDown:
        """A lower bound on the epsilon of the mechanism at `delta`, on this pair of datasets: the true one is larger,
        or both are 0. It is 0 for an ex-post claim, and for an audit that is blind.

        Claim: at least `confidence` that the true epsilon at `delta` is no smaller. If the claim is a curve that was
        not refuted, the bound stays below it. Source: docs/proofs/audit.md 6.
        """
        if self.evidence.blind is not None:
            return RoundsDown(decimals.ZERO)
        found, claimed = self.evidence.epsilon_lower, self.target.point.epsilon
        if not self.evidence.is_refuted and found >= claimed:
            return RoundsDown(decimals.round_down(Fraction(claimed) * BELOW))
        return RoundsDown(found)

    @property
    def delta(self) -> Decimal:
        """The delta at which `epsilon_lower` holds."""
        return self.target.point.delta

    @property
    def mu_lower(self) -> Decimal | None:
        """For the steps of a training that claims a Gaussian: the largest mu up to which no curve of such a step is
        kept, so that Gaussian noise has a noise multiplier of at most 1/mu_lower. None if none was refuted, if that was
        not tested, and for an audit that is blind.

        Claim: at least `confidence` that the steps do not keep the curve of a smaller mu. Source:
        docs/proofs/audit.md 8."""
        return None if self.evidence.blind is not None else self.evidence.mu_lower

    @property
    def e_value(self) -> float:
        """The largest wealth of the bets against the claim: if the claim is kept, it is ever x or more with probability
        at most 1/x."""
        return self.evidence.e_value

    @property
    def wealth(self) -> tuple[tuple[int, float, float], ...]:
        """Of each look after a block of runs: runs so far, the logarithm of the wealth then, and the largest so far;
        more may have been seen within a block."""
        return self.evidence.path

    @property
    def budget(self) -> tuple[BudgetShare, ...]:
        """Where the error budget went, part by part (`words`, `alpha`): together 1 - confidence."""
        return self.evidence.budget

    @property
    def p_value(self) -> float:
        """1/e_value: a p-value at any stopping time."""
        return self.evidence.p_value

    @property
    def power(self) -> Power | None:
        """The least true epsilon that this many runs would have refuted with probability 0.9; None: unknown."""
        return None if self.evidence.blind is not None else self.evidence.power

    @property
    def witness(self) -> Witness | None:
        """The event that tells the two datasets apart best, with its counts; it bounds nothing by itself."""
        return self.evidence.witness

    @property
    def event(self) -> Event | None:
        """The event that tells the two datasets apart best: `event.words`, `event.contains(output)`."""
        return None if self.witness is None else self.witness.event

    @property
    def stratum(self) -> Stratum | None:
        """The stratum of an ex-post claim in which the two datasets are told apart best."""
        return self.event.stratum if isinstance(self.event, InStratum) else None

    @property
    def refuted(self) -> ClaimPoint | None:
        """The point of the claim that was refuted; None if none was, or if a curve or strata were refuted as a
        whole."""
        fell = self.evidence.is_refuted and self.epsilon_lower >= self.target.point.epsilon
        return self.target.point if fell and not self.evidence.strata else None

    @property
    def fell_as_a_whole(self) -> bool:
        """Whether the claim is a curve, or strata, and was refuted without any single point."""
        return self.verdict == "violation" and self.refuted is None

    def __bool__(self) -> bool:
        raise TypeError(
            "an AuditResult is neither true nor false: compare result.verdict with 'violation' or 'not_refuted' "
            "(not refuted does not mean proved), or use dpl.assert_not_refuted"
        )

    def __repr__(self) -> str:
        return f"<AuditResult: {self._head()}>"

    def __str__(self) -> str:
        return "\n".join(self._lines(public=False))

    @property
    def public_summary(self) -> str:
        """The result in words, without any value that was an output."""
        return "\n".join(self._lines(public=True))

    @property
    def again(self) -> str:
        """How to run it again."""
        if self.seed is None:
            return "run it again: audit_outputs on the same outputs"
        if self.schedule == CANARIES:
            return f"run it again: dpl.audit_training(..., seed={self.seed}), of the same training and canaries"
        if self.schedule == STEPS:
            return f"run it again: dpl.audit_steps(..., seed={self.seed}, steps={self.trials}), of the same training"
        return f"run it again: dpl.audit_mechanism(..., seed={self.seed}, trials={self.trials})"

    def _repr_html_(self) -> str:
        rows = [
            ("mechanism", self.mechanism.kind),
            ("verdict", self._head()),
            *([("blind", self.blind)] if self.blind else ()),
            *([("the pair", self.apart)] if self.apart else ()),
            (f"epsilon at delta {decimals.text(self.delta)}", f"at least {float(self.epsilon_lower):.6g}"),
            ("confidence", decimals.text(self.confidence)),
            ("runs", f"{self.trials_left:,} and {self.trials_right:,}"),
            ("e-value", f"{self.e_value:.4g}"),
            ("event", "none" if self.witness is None else self.witness.public_words),
            ("power", self._power_words()),
        ]
        return summary("AuditResult", rows)

    def _head(self) -> str:
        if self.verdict == "not_refuted":
            claimed = self._claimed_words()
            if self.blind is not None:
                return f"blind, so nothing follows: {claimed}"
            return f"not refuted: {claimed} (this is no proof of privacy)"
        part = ", by its privacy curve as a whole" if self.fell_as_a_whole and not self.evidence.strata else ""
        if self._fell_to_replay:
            part = ", by replay"
        distant = ", on data that are no neighbours if they are rows" if self.apart else ""
        return f"violation: {self._claimed_words()} is refuted{part}{distant}"

    def _lines(self, *, public: bool) -> Iterator[str]:
        yield self._head()
        if self.blind is not None:
            yield f"blind: {self.blind}"
        if self.apart:
            yield f"{self.apart}. If these are rows, the claim does not cover them: take data that {ONE_UNIT}"
        if self.searched is not None:
            yield self.searched.public_words if public else str(self.searched)
        yield from self.told
        if self.replay is not None and self._fell_to_replay:
            findings = self.replay.public_words[1:] if public else [one.words for one in self.replay.findings]
            yield from (f"replay: {words}" for words in findings)
        if self.float_leak is not None:
            yield f"{FLOATS_LEAK}: {self.float_leak}"
        runs = f"{self.trials_left:,} and {self.trials_right:,} runs, {self.seconds:.1f} s"
        if not self.evidence.strata:
            yield (
                f"epsilon at delta {float(self.delta):.3g} is at least {float(self.epsilon_lower):.6g} "
                f"(confidence {percent(self.confidence)}, {runs})"
            )
        if self.mu_lower is not None:
            most = decimals.round_up(1 / Fraction(self.mu_lower), digits=4)
            yield f"if the noise of a step is Gaussian, its noise multiplier is at most {most}, at that confidence"
        beside = f" (confidence {percent(self.confidence)}, {runs})" if self.evidence.strata else ""
        yield f"e-value {self.e_value:.4g} of the {float(1 / self.evidence.alpha):.4g} that refute{beside}"
        for stratum, (left, right) in zip(self.evidence.strata, self.evidence.in_strata, strict=False):
            yield f"  {stratum.words}: {left:,} and {right:,} runs"
        if self.witness is not None:
            yield f"event: {self.witness.public_words if public else self.witness.words}"
        yield self._power_words()

    def _claimed_words(self) -> str:
        return words_of(self.claim) if not self.evidence.strata else "the ex-post claim"

    def _power_words(self) -> str:
        rare = self.evidence.rare_event
        event = "" if rare is None else f"an event of probability {rare:.2g} on one side alone"
        if self.blind is not None or (self.power is None and rare is None):
            return "power: unknown: nobody can say what this many runs would have found"
        if self.power is None:
            return f"power: {event} would have been found with probability 0.9, if a score sees it"
        seen = f"a true epsilon of {float(self.power.epsilon):.6g}"
        if self.target.knots and self.power.epsilon <= self.target.point.epsilon:
            seen = f"a curve that is broken elsewhere than at epsilon {float(self.power.epsilon):.6g}"
        return (
            f"power: {seen} would have been refuted with probability "
            f"{self.power.probability}{f', and {event}, if a score sees it' if event else ''}"
        )

    def body(self, path: tuple[Step, ...] = ()) -> Audited:
        """The result as a ledger entry holds it: no data, no output. `path`: the scope it is about, if any."""
        is_blind = self.blind is not None
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
            method=REPLAY if self._fell_to_replay else METHOD,
            refuted=self._fallen(),
            power=self.power,
            seed=self.seed,
            path=path,
            e_value=None if is_blind else decimals.round_down(self.e_value),
            together=True if self.fell_as_a_whole else None,
            blind=self.blind,
            apart=self.apart,
            code=self.code,
            pair=self.made_up,
            schedule=None if self.seed is None else self.schedule,
            arms=len(self.evidence.budget),
        )

    def _public_event(self) -> str:
        if self.replay is not None and self._fell_to_replay:
            return self.replay.findings[0].public_words
        return "none" if self.witness is None else self.witness.public_words

    def _fallen(self) -> RefutedPoint | None:
        point = self.refuted
        if point is None:
            return None
        return RefutedPoint(epsilon=point.epsilon, delta=point.delta, epsilon_lower=self.epsilon_lower)

    def to_json(self) -> str:
        """The whole result as JSON, for the auditor: it names the event in full. Numbers are text, decimals exact."""
        return json.dumps(self._document(), indent=2, ensure_ascii=False)

    def _document(self) -> dict[str, Any]:
        evidence = self.evidence
        document: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "verdict": self.verdict,
                "blind": self.blind,
                "epsilon_lower": self.epsilon_lower,
                "delta": self.delta,
                "confidence": self.confidence,
                "claim": self.claim,
                "mechanism": self.mechanism,
                "relation": self.relation,
                "pair": self.pair,
                "apart": self.apart,
                "told": self.told,
                "searched": None if self.searched is None else str(self.searched),
                "replay": None if self.replay is None else self.replay.verdict,
                "event": None if self.witness is None else self.witness.words,
                "method": METHOD,
                "trials": {"left": self.trials_left, "right": self.trials_right},
                "fell_after": evidence.fell_after,
                "float_leak": None if evidence.float_leak is None else evidence.float_leak.words,
                "e_value": repr(self.e_value),
                "p_value": repr(self.p_value),
                "seconds": f"{self.seconds:.3f}",
                "power": self.power,
                "seed": self.seed,
                "budget": [
                    {"of": share.words, "share_of_error": decimals.round_up(share.alpha)} for share in evidence.budget
                ],
                "wealth": [
                    {"runs": runs, "log": repr(wealth), "largest": repr(largest)}
                    for runs, wealth, largest in evidence.path
                ],
                "strata": [
                    {"stratum": stratum.words, "left": left, "right": right}
                    for stratum, (left, right) in zip(evidence.strata, evidence.in_strata, strict=False)
                ],
            }
        )
        return document

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """The wealth of the bets, run by run, against the line at which the claim is refuted, and how well the two
        datasets are told apart beside what the claim allows; saved to `path` if given.

        Needs matplotlib, the extra `plots`: ParameterError says so where it is missing, and where `path` cannot be
        written or does not end in .png, .svg or .pdf."""
        return drawn(self, path)


def percent(confidence: Decimal) -> str:
    """For people: never more than it is."""
    return f"{decimals.text(decimals.round_down(decimals.multiply(confidence, Decimal(100)), digits=6))} %"
