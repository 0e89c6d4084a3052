"""The search: a screen of all pairs, of fewer and fewer with more and more runs, and audits of those that stand out.

Only audits count. The j-th audited pair is chosen by earlier runs, is audited on fresh ones, and has 1/(j(j+1)) of
alpha, which adds up to alpha over any number of them. Statement and proof: docs/proofs/audit.md 9.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.evidence.edges import Edges
from dpledger.audit.experiment import audit_mechanism
from dpledger.audit.features.inputs import Inputs
from dpledger.audit.outcomes import RAISES, ROOT, Outcomes, encode, joined
from dpledger.audit.results.searched import PairSearch
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.sampling import Runs
from dpledger.audit.search.families import NeighbourPair, smaller
from dpledger.audit.search.given import neighbours_of
from dpledger.audit.search.screening import against
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.tested.claims import AuditTarget
from dpledger.audit.tested.subjects import FEWEST_TRIALS, Settings, Subject, seconds_of, subject_of
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.protocol import Mechanism
from dpledger.progress import Advance, bar
from dpledger.relations import Relation, Unit
from dpledger.schema import flag

__all__ = ["audit_search"]

FIRST = 64  # runs of a side of each pair in the first round
GROWTH = 4  # times as many runs of the fourth part of the pairs in the next
MOST_KEPT = 16_384  # runs of a side of a pair that a screen looks at
MOST_PAIRS = 512
STANDS_OUT = 16.0  # nats from which a pair is audited at once: by chance no event of any pair comes to as much
AT_ONCE = 3  # pairs that stand out and are audited before a round ends
AMPLE = 40  # times the runs that made a pair stand out, for its audit
SCREENED = Fraction(1, 2)  # of runs and seconds, for screens; the rest is for audits
SHRINKS = 24  # smaller pairs that are tried
LAST = 2  # pairs that are audited in the end


def audit_search(
    mechanism: Mechanism[Any, Any] | Callable[..., Any],
    claim: Guarantee | None = None,
    *,
    neighbours: Any,
    trials: int = 400_000,
    seconds: Number | None = None,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = "record",
    batched: bool = False,
    texts: bool = False,
    seed: int | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> AuditResult:
    """Search neighbouring datasets for a pair on which `mechanism` breaks its claim: the audit of the worst pair found.

    `neighbours`: a schema, as a dict (`{"rows": {"type": "number", "low": 0, "high": 10}}`; docs/audit_search.md has
    all of it), from which pairs are made up; a Hypothesis strategy of pairs (left, right); or a list of pairs. Rows
    that are no neighbours under `relation` and `unit` are never tried: a list that has some is refused.

    `trials`: runs on each side, of all pairs together. `seconds`: no screen or audit goes on much longer; the verdict
    then depends on the machine. The other parameters are those of `audit_mechanism`. The result is of one pair,
    `result.searched.left` and `.right`: the smallest found that still breaks the claim, or, where nothing was found,
    the one that looked worst. Its confidence is higher than asked, since the searched pairs share the error budget.
    ParameterError where every run raises on every pair.

    Claim: if the mechanism keeps its claim on all neighbours that are tried, the verdict is `violation` with
        probability at most 1 - confidence, whatever the pairs and however many. Source: docs/proofs/audit.md 9.
    Assumes: runs are independent of each other; a strategy draws neighbours, where they are no rows.

    >>> def noisy_sum(rows, rng):  # claims 1, for rows from 0 to 1, and adds no noise where there are none
    ...     return sum(rows) + rng.laplace() if rows else 0.0
    >>> schema = {"rows": {"type": "number", "low": 0, "high": 1}}
    >>> result = dpl.audit_search(noisy_sum, dpl.PureDP(1), neighbours=schema, seed=1)
    >>> result.verdict, result.searched.left, result.searched.right
    ('violation', [], [0.0])
    """
    settings = Settings.read(trials=trials, confidence=confidence, delta=delta, seed=seed, jobs=jobs)
    batched, texts = flag(batched, field="batched"), flag(texts, field="texts")
    limit = seconds_of(seconds, "seconds")
    relation, unit = Relation.read(relation), Unit.read(unit)
    if isinstance(claim, ExPostClaim):
        raise ParameterError("claim", "an ex-post claim", "a guarantee; audit_mechanism tests ex-post claims on a pair")
    subject = subject_of(mechanism, claim, relation, unit, batched=batched)
    aim = subject.aim(relation, settings.delta)
    assert isinstance(aim, AuditTarget), "a guarantee"
    pairs = list(islice(neighbours_of(neighbours, relation, unit, seed=settings.seed), MOST_PAIRS))

    def audited(
        pair: NeighbourPair, *, trials: int, seconds: float | None, confidence: Number, seed: int
    ) -> AuditResult:
        return audit_mechanism(
            mechanism, pair.left, pair.right, claim, trials=trials, seconds=seconds, confidence=confidence, seed=seed,
            delta=delta, relation=relation, unit=unit, batched=batched, texts=texts, jobs=settings.jobs, progress=False,
        )  # fmt: skip

    with bar("searching", settings.trials, shown=flag(progress, field="progress")) as advance:
        search = _Search(settings, subject, aim.edges, audited, _Budget(settings.trials, limit), texts, advance)
        return search.run(pairs)


@dataclass(slots=True)
class _Budget:
    """Runs of a side, and seconds, that are left."""

    trials: int
    seconds: float | None
    started: float = field(default_factory=time.monotonic)
    used: int = 0

    def is_over(self, part: Fraction | int) -> bool:
        """Whether this part of it is used."""
        return self.used >= self.trials * part or (
            self.seconds is not None and time.monotonic() - self.started >= self.seconds * part
        )

    @property
    def runs(self) -> int:
        return max(self.trials - self.used, FEWEST_TRIALS)

    @property
    def time(self) -> float | None:
        return None if self.seconds is None else max(self.seconds - (time.monotonic() - self.started), 1.0)


@dataclass(frozen=True, slots=True)
class _Window:
    """Consecutive outcomes of one side."""

    outcomes: tuple[Outcomes, ...]

    def __add__(self, other: _Window) -> _Window:
        return _Window(self.outcomes + other.outcomes)

    @classmethod
    def of(cls, outcomes: Outcomes) -> _Window:
        return cls((outcomes,))


@dataclass(slots=True, eq=False)
class _Candidate:
    """A pair, the runs that were screened on it, and what they say against the claim (-1: nothing but exceptions)."""

    pair: NeighbourPair
    runs: Runs
    windows: tuple[_Window, _Window] | None = None
    drawn: int = 0
    against: float = 0.0


@dataclass(slots=True)
class _Search:
    """One search, while it runs."""

    settings: Settings
    subject: Subject
    claim: Edges
    audited: Callable[..., AuditResult]
    budget: _Budget
    texts: bool
    advance: Advance
    pairs: int = 0
    known: int = 0
    audits: int = 0
    refusals: list[ParameterError] = field(default_factory=list)
    latest: AuditResult | None = None

    def run(self, pairs: list[NeighbourPair]) -> AuditResult:
        """The audit of a pair that broke the claim, else of the one that looked worst."""
        self.known = len(pairs)
        candidates, runs = [self._candidate(pair, place) for place, pair in enumerate(pairs)], FIRST
        while candidates and runs <= MOST_KEPT and not (runs > FIRST and self.budget.is_over(SCREENED)):
            candidates, found = self._round(candidates, runs)
            if found is not None:
                return found
            runs *= GROWTH
        for candidate in candidates[:LAST]:
            result = self._audit(candidate, self.budget.runs // (1 if candidate is candidates[:LAST][-1] else 2))
            if result is not None and _broke(result):
                return self._shrunk(candidate, result)
        if self.latest is None:
            raise self.refusals[0]
        return self.latest

    def _round(self, candidates: list[_Candidate], runs: int) -> tuple[list[_Candidate], AuditResult | None]:
        """The pairs that go on, and the audit of one that stood out and broke the claim."""
        seen: list[_Candidate] = []
        rejected = 0
        for candidate in candidates:
            if seen and self.budget.is_over(SCREENED):
                break
            self.pairs += runs == FIRST
            if not self._screen(candidate, runs):
                continue
            if rejected < AT_ONCE and candidate.against >= STANDS_OUT:
                result = self._audit(candidate, AMPLE * candidate.drawn)
                if result is not None and _broke(result):
                    return [], self._shrunk(candidate, result)
                rejected += 1
                continue
            seen.append(candidate)
        seen.sort(key=lambda one: -one.against)
        return seen[: max(LAST, len(seen) // GROWTH)], None

    def _candidate(self, pair: NeighbourPair, place: int) -> _Candidate:
        seed = _seed(self.settings.seed, 0, place)
        return _Candidate(
            pair, Runs(self.subject.runner, pair.left, pair.right, seed=seed, encode=encode, texts=self.texts)
        )

    def _screen(self, candidate: _Candidate, runs: int) -> bool:
        """Draw until there are so many runs of each side, and read them; whether the pair is any to be audited."""
        more = min(runs, self.settings.trials) - candidate.drawn
        if more > 0:
            try:
                left, right = candidate.runs.block(candidate.drawn, more, _Window.of, jobs=1, advance=_in_silence)
            except ParameterError as error:  # a batch that raised, or data that are refused
                self.refusals.append(error)
                return False
            candidate.windows = (left, right) if candidate.windows is None else _added(candidate.windows, left, right)
            candidate.drawn += more
            self._use(more)
        assert candidate.windows is not None
        ours, theirs = (joined(window.outcomes) for window in candidate.windows)
        candidate.against = against(self.claim, ours, theirs, Inputs.of(candidate.pair.left, candidate.pair.right))
        if not candidate.against and _only_raises(ours) and _only_raises(theirs):
            candidate.against = -1.0
        return True

    def _use(self, runs: int) -> None:
        self.budget.used += runs
        self.advance(runs)

    def _part(self) -> Fraction:
        """What the next audit has of the error budget."""
        return self.settings.alpha / ((self.audits + 1) * (self.audits + 2))

    def _audit(self, candidate: _Candidate, trials: int) -> AuditResult | None:
        """An audit on fresh runs; None where it is refused: every run raises."""
        part = self._part()
        self.audits += 1
        try:
            result = self.audited(
                candidate.pair,
                trials=max(FEWEST_TRIALS, min(trials, self.budget.runs)),
                seconds=self.budget.time,
                confidence=decimals.round_up(1 - part, digits=30),
                seed=_seed(self.settings.seed, 1, self.audits),
            )
        except ParameterError as error:
            self.refusals.append(error)
            return None
        self._use(result.trials)
        self.latest = replace(
            result,
            apart=None,
            searched=PairSearch(
                candidate.pair.left,
                candidate.pair.right,
                candidate.pair.why,
                seed=self.settings.seed,
                pairs=self.pairs,
                known=self.known,
                runs=self.budget.used,
                audits=self.audits,
                refused=len(self.refusals),
            ),
        )
        return self.latest

    def _shrunk(self, candidate: _Candidate, result: AuditResult) -> AuditResult:
        """The audit of the smallest pair that still breaks the claim: as a screen finds it, and an audit confirms."""
        smallest, runs = candidate, min(MOST_KEPT, max(FIRST, 4 * result.trials, 4 * candidate.drawn))
        tries = iter(range(SHRINKS))
        shrinks = True
        while shrinks:
            shrinks = False
            for pair, place in zip(smaller(smallest.pair), tries, strict=False):
                if self.budget.is_over(1):
                    break
                made = self._candidate(pair, MOST_PAIRS + place)
                if self._screen(made, runs) and made.against >= STANDS_OUT:
                    smallest, shrinks = made, True
                    break
        if smallest is candidate or self.budget.is_over(1):
            return result
        confirmed = self._audit(smallest, AMPLE * runs)
        return confirmed if confirmed is not None and _broke(confirmed) else result


def _broke(result: AuditResult) -> bool:
    return result.verdict == "violation"


def _added(windows: tuple[_Window, _Window], left: _Window, right: _Window) -> tuple[_Window, _Window]:
    return windows[0] + left, windows[1] + right


def _only_raises(outcomes: Outcomes) -> bool:
    return all(str(label).startswith(RAISES) for label in outcomes.labels_at(ROOT))


def _seed(seed: int, use: int, place: int) -> int:
    """A seed of its own for each screen and each audit."""
    state = np.random.SeedSequence(seed, spawn_key=(use, place)).generate_state(1, np.uint64)
    return int(state[0]) >> 11  # 53 bits


def _in_silence(_runs: int) -> None:
    """Runs are counted when all of them were drawn."""
