"""The audit before any sampling: record a run on one dataset, replay it on its neighbour with every draw the same.

With all draws alike, what differs between the two runs depends on data that no noise covers, but for the values that
noise is added to, and those may move by what was declared. So a fault that no sampling ever sees (1.1 in place of 1 at
epsilon 12) is seen in milliseconds. Both datasets are recorded in turn.

Nobody is accused on one run where luck may explain it: code with randomness of its own shows by replays on its own data
(`_WITNESSES`), a promise with a delta may be broken with that probability, so its fault has to come again
(`_frequent`), and noise that was drawn for a value that did not move may cover another one (`_COVERED`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from pydantic import TypeAdapter

from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.replay.calls import RaisedCall, ReplayFinding, Run, compared, counted_choices, still, unpaired, used
from dpledger.audit.replay.enumerated import broken_by_coins
from dpledger.audit.replay.pushes import PUSHES, push, varies
from dpledger.audit.replay.result import ReplayResult
from dpledger.audit.replay.rows import Pairing, guesses, paired
from dpledger.audit.replay.running import Answer, Job, recorded, replayed
from dpledger.audit.tested.neighbours import alike, apart, check_pair
from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.protocol import Inspects, Mechanism
from dpledger.relations import Relation, Unit
from dpledger.schema import validated

__all__ = ["audit_replay"]

_CLAIM: TypeAdapter[Guarantee] = TypeAdapter(Guarantee)
_MOST_PLACES = 256  # of a choice among segments: each is tried
_WITNESSES = 6  # more replays of each dataset on itself before anybody is accused
_MOST_RECORDINGS = 64  # of each dataset
_LUCK = 1e-10  # how improbable it must be that delta alone explains what was found
_DELTA = Fraction(1, 100)  # what a function may promise that names no claim
_AGAIN = 4  # more recordings, where noise was drawn for values that did not move
_LUCKY = "it did not come again often enough to exceed delta"
_COVERED = (
    "noise drawn for a value that did not move may cover it; pass the value that needs noise to the noise function "
    "itself, so that replay can tell"
)
_NOTHING = "nothing was drawn through dpledger.mechanisms.noise, so there was nothing to replay"
_OWN = "some of its randomness does not come from dpledger.mechanisms.noise: what depends on it was not compared"


def audit_replay(
    job: object,
    left: object,
    right: object,
    *,
    claim: Guarantee | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    unit: Unit | str = Unit(),  # noqa: B008 - frozen
    seed: int = 0,
) -> ReplayResult:
    """Record a run on one dataset and replay it on its neighbour with every draw the same, both ways round.

    `job`: a mechanism with `release`, or a function f(data), f(data, rng) or f(data, entropy) that draws its noise
    through mechanisms of dpledger or `dpledger.mechanisms.noise`; it opens interactions itself, and returns what was
    answered. One release, not a batch of them. `left`, `right`: neighbours that you made up; each run gets a copy.
    `claim`: None takes a mechanism's own; of a function its delta, if it is more than 0.01. `relation`, `unit`: what a
    mechanism is fixed to if it names none. `seed`: from 0; the same seed gives the same result.

    Claim: a finding is no accident: it names a law, a scale, a branch, a sensitivity or a value that depends on the
        data beyond what was declared to a noise function (but with a probability of at most 10^-8, where the promise
        has a delta). It is about these two datasets, and no finding proves nothing.
    Source: docs/proofs/replay.md. Assumes: `left` and `right` are neighbours; noise is drawn for what it covers.

    Raises ParameterError for a job that cannot be called, or that raises alike on both before it draws, and for data
    that a mechanism refuses or that are not neighbours; PolicyError inside a release for a ledger.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw
    >>> def total(rows, entropy):  # says that a row counts 1 at most
    ...     one = Sensitivity(1, "l1", "a row counts at most one")
    ...     return draw(DiscreteLaplace(scale=1), sum(rows), sensitivity=one, entropy=entropy)
    >>> print(dpl.audit_replay(total, [1, 0], [1, 0, 2]).findings[0].words)
    call 1: the value given to discrete_laplace moved by 2, and 1 in l1 is declared
    """
    seed, relation, unit = whole(seed, field="seed", most=2**53 - 1), Relation.read(relation), Unit.read(unit)
    started = time.perf_counter()
    is_mechanism = isinstance(job, Mechanism) and not isinstance(job, type)
    if claim is not None:
        if not hasattr(claim, "kind") and not isinstance(claim, Mapping):
            raise ParameterError("claim", claim, "a guarantee, like PureDP(1)")
        claim = validated(_CLAIM, claim, "claim")
    if is_mechanism:
        assert isinstance(job, Mechanism)
        check_pair(job, left, right, relation, unit)
        job = job.under(relation, unit)
        claim = job.claim() if claim is None else claim
        if isinstance(job, Inspects):
            job.inspect(left)
            job.inspect(right)
    audit = _Audit(Job.of(job), (left, right), claim, seed)
    ways = audit.both(0)
    _refuse_what_always_raises(ways)
    findings, remarks, recordings = audit.judged(ways)
    shares = [share for way in ways for share in way.shares]
    return ReplayResult(
        mechanism=_name(job),
        relation=relation,
        pair=f"{_shape(left)} and {_shape(right)}",
        apart=None if is_mechanism else apart(left, right, relation, unit),
        calls=(len(ways[0].first.draws), len(ways[1].first.draws)),
        recordings=recordings,
        findings=findings,
        remarks=remarks,
        used=max(shares, default=None),
        blind=_blind(ways, remarks) or alike(left, right),
        seed=seed,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """One dataset recorded, the other replayed. `still`: the calls, from 0, whose value did not move. `wild`: the call
    from which on its own randomness decides."""

    first: Run
    findings: tuple[ReplayFinding, ...]
    shares: tuple[Fraction, ...]
    still: tuple[int, ...]
    wild: int | None

    @property
    def accuses(self) -> bool:
        return any(finding.accuses for finding in self.findings)


@dataclass(slots=True)
class _Audit:
    job: Job
    data: tuple[object, object]
    claim: Guarantee | None
    seed: int
    _pairings: list[Pairing | None] = field(default_factory=list)

    def both(self, number: int) -> tuple[_Way, _Way]:
        """The recordings of this number."""
        return self._way(0, number), self._way(1, number)

    def judged(self, ways: tuple[_Way, _Way]) -> tuple[tuple[ReplayFinding, ...], tuple[ReplayFinding, ...], int]:
        """Findings, remarks, and how many recordings of each dataset it took."""
        found = _once([finding for way in ways for finding in way.findings])
        own = any(way.wild is not None for way in ways)
        if not (ways[0].first.draws or ways[1].first.draws):
            return (), () if own else tuple(replace(one, accuses=False) for one in found), 1
        accusing = [one for one in found if one.accuses]
        remarks = () if own else tuple(one for one in found if not one.accuses)
        if not accusing:
            broken = broken_by_coins(self.job, self.data, self.claim, self.seed) if _only(ways) else None
            if broken is None or any(
                self._wild(side, way.first, self._witnesses(side)) is not None for side, way in enumerate(ways)
            ):
                return (), remarks, 1
            return (broken,), remarks, 1
        steady = self._steady(ways, accusing)
        remarks += tuple(_softer(one, _COVERED) for one in accusing if one not in steady)
        if not steady:
            return (), remarks, _AGAIN + 1
        certain, recordings = self._sure(ways, steady)
        if certain:
            return tuple(steady), remarks, recordings
        return (), (*(_softer(one, _LUCKY) for one in steady), *remarks), recordings

    def _steady(self, ways: tuple[_Way, _Way], accusing: list[ReplayFinding]) -> list[ReplayFinding]:
        """Those that no noise covers which was drawn before for a value that did not move: they come in every recording
        that goes so far, and what they are about does not vary with the noise, drawn anew or pushed."""
        covered = [one for one in accusing if _may_be_covered(one, ways)]
        if not covered:
            return accusing
        again = [self.both(number) for number in range(1, _AGAIN + 1)]
        again += [self._pushed(ways, number) for number in range(PUSHES)]
        told = {one: {_comes(one, ways, others) for others in again} for one in covered}
        return [one for one in accusing if one not in told or (True in told[one] and False not in told[one])]

    def _pushed(self, ways: tuple[_Way, _Way], number: int) -> tuple[_Way, _Way]:
        """The first recordings, but noise that was drawn for a value that did not move is pushed."""
        left, right = (self._way(side, 0, push(way.still, number)) for side, way in enumerate(ways))
        return left, right

    def _sure(self, ways: tuple[_Way, _Way], accusing: list[ReplayFinding]) -> tuple[bool, int]:
        """Whether delta cannot explain it."""
        delta = _DELTA if self.claim is None else Fraction(self.claim.fails)
        if not delta or any(one.call == 1 for one in accusing):
            return True, 1
        hits, runs = sum(way.accuses for way in ways), 2
        for number in range(1, _MOST_RECORDINGS):
            if _frequent(hits, runs, float(2 * delta)):
                return True, number
            hits, runs = hits + sum(way.accuses for way in self.both(number)), runs + 2
        return _frequent(hits, runs, float(2 * delta)), _MOST_RECORDINGS

    def _way(self, side: int, number: int, pushed: Answer | None = None) -> _Way:
        seed = (self.seed, number, side)
        first = recorded(self.job, self.data[side], (*seed, 0), push=pushed)
        if any(draw.given for draw in first.draws) and (pairing := self._pairing(side)) is not None:
            first = recorded(self.job, self.data[side], (*seed, 0), pairing, pushed)
        wild = self._wild(side, first, [(*seed, 1)])
        findings, shares, kept = self._found(side, first, (*seed, 2), wild)
        if any(one.accuses for one in findings) and wild is None and not number and pushed is None:
            other = self._replayed(side, (*seed, 2), first, self._pairing_of_coins(side, first))
            looks = (self._wild(side, first, self._witnesses(side)), self._wild(1 - side, other, self._witnesses(side)))
            wild = min((look for look in looks if look is not None), default=None)
            if wild is not None:
                findings, shares, kept = self._found(side, first, (*seed, 2), wild)
        return _Way(first, findings, shares, kept, wild)

    def _witnesses(self, side: int) -> list[tuple[int, ...]]:
        return [(self.seed, 0, side, 3, witness) for witness in range(_WITNESSES)]

    def _wild(self, side: int, first: Run, seeds: Sequence[tuple[int, ...]]) -> int | None:
        """The first call that differs where the same data are replayed."""
        places: list[int] = []
        for seed in seeds:
            again = replayed(self.job, self.data[side], seed, first)
            ends = [finding.call for finding in compared(first, again)]
            places += [len(first.draws) if end is None else end - 1 for end in ends]
            places += _values_moved(first, again)
        return min(places, default=None)

    def _found(
        self, side: int, first: Run, seed: tuple[int, ...], wild: int | None
    ) -> tuple[tuple[ReplayFinding, ...], tuple[Fraction, ...], tuple[int, ...]]:
        pairing = self._pairing_of_coins(side, first)
        second = self._replayed(side, seed, first, pairing)
        found = compared(first, second, self.claim, pairing=pairing, wild=wild)
        shares, kept = tuple(used(first, second, pairing)), still(first, second, pairing)
        if not found or any(one.accuses for one in found) or wild is not None:
            return found, shares, kept
        tried = list(self._tries(side, first, second, seed, pairing))
        for other in tried:
            if not any(one.accuses for one in other):
                return other, shares, kept
        return (tried[0] if tried else found), shares, kept

    def _tries(
        self, side: int, first: Run, second: Run, seed: tuple[int, ...], pairing: Pairing | None
    ) -> Iterator[tuple[ReplayFinding, ...]]:
        """What is found where units are paired, or a candidate is placed, in any other way: each of all there are, or
        none where they are too many."""
        units, choices = unpaired(first, second, pairing), counted_choices(first)
        if units is not None:
            for guess in guesses(*units):
                run = self._replayed(side, seed, first, guess)
                yield compared(first, run, self.claim, pairing=guess)
        elif len(choices) == 1 and choices[0][1] <= _MOST_PLACES:
            ((number, places),) = choices
            for place in range(places):
                run = self._replayed(side, seed, first, pairing, {number: place})
                yield compared(first, run, self.claim, pairing=pairing, known_places=True)

    def _replayed(
        self,
        side: int,
        seed: tuple[int, ...],
        first: Run,
        pairing: Pairing | None,
        places: dict[int, int] | None = None,
    ) -> Run:
        return replayed(self.job, self.data[1 - side], seed, first, pairing, places)

    def _pairing_of_coins(self, side: int, first: Run) -> Pairing | None:
        return (
            self._pairing(side)
            if any(len(draw.shape) == 1 and _is_coin(draw.law.kind) for draw in first.draws)
            else None
        )

    def _pairing(self, side: int) -> Pairing | None:
        if not self._pairings:
            self._pairings.append(paired(*self.data))
        (pairing,) = self._pairings
        return pairing if pairing is None or not side else pairing.swapped


def _may_be_covered(finding: ReplayFinding, ways: tuple[_Way, _Way]) -> bool:
    """Whether there was noise before, for a value that did not move."""
    return any(finding.call is None or number < finding.call - 1 for way in ways for number in way.still)


def _comes(finding: ReplayFinding, ways: tuple[_Way, _Way], others: tuple[_Way, _Way]) -> bool | None:
    """Whether it is found in another recording, too, and what it is about does not vary; None where that recording ends
    before."""
    made = -1 if finding.call is None else finding.call - (finding.kind == "flow")
    if all(len(way.first.draws) < made for way in others):
        return None
    if not any(one.kind == finding.kind and one.accuses for way in others for one in way.findings):
        return False
    return not any(varies(finding, way.first, other.first) for way, other in zip(ways, others, strict=True))


def _softer(finding: ReplayFinding, why: str) -> ReplayFinding:
    return replace(
        finding, accuses=False, words=f"{finding.words}; {why}", public_words=f"{finding.public_words}; {why}"
    )


def _is_coin(kind: str) -> bool:
    return kind in ("bernoulli", "uniform")


def _values_moved(first: Run, again: Run) -> list[int]:
    """The calls whose value is another though the data are the same."""
    shares = used(first, again, None)
    numbers = [number for number, draw in enumerate(first.draws) if draw.sensitivity is not None]
    return [number for number, share in zip(numbers, shares, strict=False) if share]


def _only(ways: tuple[_Way, _Way]) -> bool:
    """Whether coins are all that was drawn, and nothing else decides."""
    return all(way.wild is None and all(_is_coin(draw.law.kind) for draw in way.first.draws) for way in ways)


def _once(findings: list[ReplayFinding]) -> list[ReplayFinding]:
    """Each but once: both ways round most say the same."""
    told: dict[tuple[object, ...], ReplayFinding] = {}
    for one in findings:
        told.setdefault((one.kind, one.call, one.public_words), one)
    return list(told.values())


def _frequent(hits: int, runs: int, chance: float) -> bool:
    """Whether so many hits are too many for a fault of at most this probability."""
    if chance >= 1:
        return False
    tail = sum(math.comb(runs, k) * chance**k * (1 - chance) ** (runs - k) for k in range(hits, runs + 1))
    return tail <= _LUCK


def _blind(ways: tuple[_Way, _Way], remarks: tuple[ReplayFinding, ...]) -> str | None:
    outputs = [way.first.output for way in ways]
    if not (ways[0].first.draws or ways[1].first.draws):
        return _NOTHING
    if any(way.wild is not None for way in ways):
        return _OWN
    parted = [one.call for one in remarks if one.kind in ("law", "flow") and one.call is not None]
    if parted:
        return (
            f"the two runs differ from call {min(parted)} on, as coins or other noise can make them: the rest was "
            "not compared"
        )
    if all(isinstance(output, RaisedCall) for output in outputs):
        return "it raised on both datasets, so nothing came back"
    return None


def _refuse_what_always_raises(ways: tuple[_Way, _Way]) -> None:
    """ParameterError where the mistake is in the call: both raise alike before anything is drawn."""
    ours, theirs = (way.first.output for way in ways)
    drawn = ways[0].first.draws or ways[1].first.draws
    if not drawn and isinstance(ours, RaisedCall) and isinstance(theirs, RaisedCall) and ours.name == theirs.name:
        given = f"{ours.name} on both datasets, before anything was drawn: its cause is shown with this error"
        raise ParameterError("job", given, "one that can be called with the data") from ours.error


def _name(job: object) -> str:
    kind = getattr(job, "kind", None)
    if isinstance(kind, str):
        return kind
    return (
        str(getattr(job, "__qualname__", type(job).__qualname__)).replace("<locals>.", "").replace("<lambda>", "lambda")
    )


def _shape(data: object) -> str:
    """A dataset by its type and shape, never by its values."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple):
        return f"{type(data).__name__} of shape {shape}"
    return f"{type(data).__name__} of {len(data)}" if isinstance(data, (list, tuple, dict)) else type(data).__name__
