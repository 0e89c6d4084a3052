"""A service that runs somewhere, asked on two sides: an audit that keeps to a quota and to a rate.

Nothing of the service is known but what a call gives: an answer, a refusal, an error, and, where that is asked for, how
long it took. Its sides are asked in pairs, in an order that coins decide, so what drifts drifts for both alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dpledger import decimals
from dpledger.accounting.guarantees import Guarantee
from dpledger.audit.course.blocks import Course, Limits, Read, Seen
from dpledger.audit.experiment import result_of, seen_on
from dpledger.audit.outcomes import Raised, encode, name_of_error
from dpledger.audit.results.verdict import AuditResult
from dpledger.audit.sampling import digest
from dpledger.audit.sampling.runs import Kept, Uncopyable
from dpledger.audit.sampling.seeds import right_first
from dpledger.audit.sampling.ways import all_raised, outcome, without_error
from dpledger.audit.strata import ExPostClaim
from dpledger.audit.tested.claims import AuditTarget
from dpledger.audit.tested.subjects import (
    FEWEST_TRIALS,
    Settings,
    aim_at,
    claim_of,
    name_of,
    named,
    require_unguarded,
    seconds_of,
)
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.progress import Advance, bar
from dpledger.relations import Relation
from dpledger.schema import flag

__all__ = ["Service", "audit_service"]

MOST_CALLS = 10**9
HOPELESS = 64  # calls that all raise alike, after which no more are made
CONSTANT = (
    "each side gave the same answer in all its calls: the service adds no noise, or it caches answers, so nothing "
    "follows; ask it so that every answer is drawn anew"
)
TOO_MANY = 429
LIMITED = "429 means that calls come too fast, or are too many: give a lower rate=, or a lower quota="
MOST_CAUSES = 3
AGAIN = "the answers of a service are drawn by the service: no seed repeats them"


def audit_service(
    call: Callable[[object], object],
    left: object,
    right: object,
    claim: Guarantee,
    *,
    quota: int = 1_000,
    rate: Number | None = None,
    seconds: Number | None = None,
    each_seconds: Number | None = None,
    times: bool = False,
    texts: bool = False,
    stop_at_violation: bool = True,
    confidence: Number = "0.95",
    delta: Number | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    seed: int | None = None,
    progress: bool = True,
) -> AuditResult:
    """Test the claim of a running service: `call(left)` and `call(right)` ask it about two neighbouring datasets.

    `call` reaches the service in whatever way, and `left` and `right` say what it asks about: two tables that were
    uploaded, two tenants, two addresses. What it returns is an outcome, and so is what it raises: the type of an
    exception, with its number (`code`, `status` or `status_code`, as that of an HTTP error), and what it says with
    `texts`. `times`: how long a call took is an outcome as well.

    `quota`: the most calls of both sides together, at least 200: nothing is tried first, and no call is made again.
    `rate`: calls a second at most. `each_seconds`: a call that takes longer is stopped, and that is its outcome.
    `seconds`, `stop_at_violation` and the others: as `audit_mechanism`. `seed`: of the order in which the sides are
    asked. ParameterError where the first 64 calls all raise alike: then no more are made.

    Claim: as `audit_mechanism`. Source: docs/proofs/audit.md 6.
    Assumes: `left` and `right` are neighbours; answers are independent of each other (what shows otherwise makes
        `blind`); `call` does not alter what it is given.

    >>> rng = np.random.default_rng(1)
    >>> def ask(table):  # a service that answers one side with the number itself, one time in two
    ...     return 7.0 if table == "with her" and rng.random() < 0.5 else 7 + rng.laplace()
    >>> result = dpl.audit_service(ask, "without her", "with her", dpl.PureDP(1), quota=600, seed=1)
    >>> result.verdict, result.trials_left + result.trials_right <= 600
    ('violation', True)
    """
    calls = decimals.whole(quota, field="quota", least=2 * FEWEST_TRIALS, most=MOST_CALLS)
    settings = Settings.read(trials=calls // 2, confidence=confidence, delta=delta, seed=seed, jobs=1)
    require_unguarded(call, field="call")
    if not callable(call):
        raise ParameterError("call", type(call).__name__, "a function of one argument that asks the service")
    if isinstance(claim, ExPostClaim):
        raise ParameterError("claim", "an ex-post claim", "a guarantee, like PureDP(1)")
    relation, began = Relation.read(relation), time.perf_counter()
    guarantee = claim_of(claim)
    aim = aim_at(guarantee, None, relation, settings.delta)
    assert isinstance(aim, AuditTarget), "a guarantee"
    limits = Limits(
        trials=settings.trials,
        seconds=seconds_of(seconds, "seconds"),
        stop_at_violation=flag(stop_at_violation, field="stop_at_violation"),
    )
    pause, each = _pause(rate), seconds_of(each_seconds, "each_seconds")
    times, texts = flag(times, field="times"), flag(texts, field="texts")
    with bar("asking", calls, shown=flag(progress, field="progress")) as advance:
        service = Service(
            call, (left, right), seed=settings.seed, quota=calls, pause=pause, each_seconds=each, times=times,
            texts=texts, advance=advance,
        )  # fmt: skip
        course = Course(aim, settings.alpha, data=(left, right))
        course.run(service, limits)
    return result_of(
        seen_on(course.evidence(), left, right),
        settings,
        mechanism=named(name_of(call), {}),
        claim=guarantee,
        aim=aim,
        relation=relation,
        pair="two sides of a service",
        apart=None,
        told=(AGAIN, *([CONSTANT] if service.is_constant else []), *service.failures, *course.unread),
        seconds=time.perf_counter() - began,
        seed=None,
    )


def _pause(rate: Number | None) -> float:
    """Seconds from one call to the next, at least."""
    if rate is None:
        return 0.0
    calls = decimals.read(rate, field="rate")
    if not 0 < calls < MOST_CALLS:
        raise ParameterError("rate", str(calls), "calls a second: a number above 0 and below 10^9")
    return 1 / float(calls)


@dataclass(slots=True, eq=False)
class Service:
    """A source of runs that asks a service, and counts. `pause`: seconds between the beginnings of two calls at
    least; `clock` and `sleep`: in seconds."""

    call: Callable[[object], object]
    sides: tuple[object, object]
    seed: int
    quota: int
    pause: float = 0.0
    each_seconds: float | None = None
    times: bool = False
    texts: bool = False
    advance: Advance = field(default=lambda _: None)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    made: int = 0
    _latest: float | None = None
    _kinds: tuple[set[bytes], set[bytes]] = field(default_factory=lambda: (set(), set()))
    _first: list[object] = field(default_factory=list)
    _raised: Counter[str] = field(default_factory=Counter)

    @property
    def is_constant(self) -> bool:
        """Whether each side gave one answer alone, and another than the other side."""
        left, right = self._kinds
        return len(left) == len(right) == 1 and left != right

    @property
    def failures(self) -> tuple[str, ...]:
        """How many calls raised, and what; of limits of the service, how to keep to them."""
        if not self._raised:
            return ()
        causes = ", ".join(f"{what} in {calls:,}" for what, calls in self._raised.most_common(MOST_CAUSES))
        limited = any(what.endswith(f" {TOO_MANY}") for what in self._raised)
        return (
            f"{self._raised.total():,} of {self.made:,} calls raised, which counts as an answer: {causes}",
            *([LIMITED] if limited else ()),
        )

    def __call__(self, first: int, pairs: int, read: Read) -> tuple[Seen, Seen]:
        """Ask both sides `pairs` times, in the order that the seed says."""
        kept = (Kept(encode, read), Kept(encode, read))
        for turned in right_first(self.seed, first, pairs).tolist():
            for side in (1, 0) if turned else (0, 1):
                kept[side].add(self._asked(side, kept[side].copied))
        left, right = (side.done() for side in kept)
        assert left is not None
        assert right is not None
        return left, right

    def _asked(self, side: int, copied: Callable[[object], object]) -> object:
        """A copy of the answer, as it is before the next call."""
        if self.made >= self.quota:
            raise RuntimeError(f"a call beyond the quota of {self.quota}")  # the trials of an audit are half of it
        self._wait()
        self.made += 1
        begun = self.clock()
        asked = self.sides[side]
        answer = outcome(
            lambda: copied(self._answer(asked)), each_seconds=self.each_seconds, texts=self.texts, keeps=True
        )
        took = self.clock() - begun
        self.advance(1)
        self._check(answer)
        if isinstance(answer, Raised):
            self._raised[answer.name] += 1
        if len(self._kinds[side]) < 2:
            self._kinds[side].add(digest(without_error(answer)))
        if not self.times:
            return answer
        if isinstance(answer, Uncopyable):
            return Uncopyable({"answer": answer.output, "seconds": took})
        return {"answer": answer, "seconds": took}

    def _wait(self) -> None:
        now = self.clock()
        if self._latest is not None and now < self._latest + self.pause:
            self.sleep(self._latest + self.pause - now)
            now = self.clock()
        self._latest = now

    def _answer(self, data: object) -> object:
        try:
            return self.call(data)
        except Exception as error:
            number = _number(error)
            if number is None:
                raise
            return Raised(f"{name_of_error(error)} {number}", str(error) if self.texts else None, error)

    def _check(self, answer: object) -> None:
        """ParameterError where all of the first calls raised alike: what is asked then is no service."""
        if len(self._first) >= HOPELESS:
            return
        self._first.append(answer)
        if len(self._first) == HOPELESS and isinstance(answer, Raised) and all_raised(answer, self._first):
            given = f"{answer.name} from the first {HOPELESS} calls, on both sides: its cause is shown with this error"
            raise ParameterError("call", given, "a function that reaches the service") from answer.error


def _number(error: Exception) -> int | None:
    """The status of a refusal, as libraries of HTTP keep it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("code", "status", "status_code"):
            number = getattr(holder, name, None)
            if isinstance(number, int) and not isinstance(number, bool):
                return number
    return None
