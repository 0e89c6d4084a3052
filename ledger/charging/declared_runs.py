"""Runs that happen elsewhere, in another library or another house: admitted, charged and recorded on somebody's word.

    scope.charge(parts, by=..., reason=...)           of a run that is over, or that nobody stops
    with scope.charging(parts, by=..., reason=...):   held where the block begins, and charged where it ends
    @scope.charges(parts, by=..., reason=...)         each call of a function is such a run

They pass the gate that releases pass: the same filter, the same refusals, the same verification of the price. That the
run was what its parts say, nothing here can see, so it is marked as attested, by whom and on what evidence, wherever it
is shown. Nothing comes back on a word: a charge that was held falls to the steps that were granted, if any were, or,
while nothing was started, to nothing, where somebody says that nothing ran.

>>> from dpledger.accounting.composition import GaussianLaw, Repeated
>>> from dpledger.accounting.guarantees import ApproxDP, PureDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> smith = {"by": "A. Smith", "relation": "add_remove"}  # whose word it is, and under which relation the parts hold
>>> receipt = scope.charge(PureDP("0.5"), reason="a count that was published in March", **smith)
>>> with scope.charging(
...     Repeated(GaussianLaw(20), times=20), steps=20, reason="weekly means", tail_delta=0, **smith
... ) as run:
...     for _ in range(5):
...         granted = run.grant()  # then the step runs, elsewhere
>>> [(one.status, one.attested.by, one.granted) for one in scope.releases()]
[('committed', 'A. Smith', 0), ('committed', 'A. Smith', 5)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import NoReturn, ParamSpec, Self, TypeAlias, TypeVar

from dpledger.accounting.composable import Composable
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.reach import Of
from dpledger.decimals import Number, whole
from dpledger.errors import AlreadySpent, ContractViolation, Halted, ParameterError, PolicyError, ScopeError
from dpledger.ledger.charging import requests
from dpledger.ledger.charging.admission import enter
from dpledger.ledger.charging.charges import Attempt, Receipt
from dpledger.ledger.charging.requests import DECLARED, ELSEWHERE
from dpledger.ledger.charging.takeovers import Resume, taken_over
from dpledger.ledger.entries.bodies import Body, Reserved
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.evidence import Evidence, shown, words
from dpledger.ledger.entries.members import Attestation, MechanismNote
from dpledger.ledger.handle.log import Handle
from dpledger.ledger.rules import course, requested
from dpledger.ledger.rules.capability import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.gate import Replayed
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.run_tokens import RunToken
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.rules.transitions import step
from dpledger.ledger.signed import wire
from dpledger.mechanisms.callers import begins_later, signature_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home
from dpledger.relations import Relation
from dpledger.schema import Plain

__all__ = ["DeclaredRun", "TakesDeclaredRuns"]

_Said: TypeAlias = tuple[str, str, "Relation | str | None", "Of | None", "Evidence | None"]
"""By whom, why, under which relation, of what, and on what evidence."""
P = ParamSpec("P")
T = TypeVar("T")

MOST_STEPS = 10**12  # of a plan
UNSAID = "why it broke off was said in words that no entry may hold"
_NO_STEP = (
    "If an error ended it before its first step, it saved nothing, and its charge stands all the same: with "
    "resume=True it would have stayed open. "
)
LATE = "the function returned before it had run, with a coroutine or a generator"


class TakesDeclaredRuns:
    """What a scope does for runs that happen elsewhere."""

    _ledger: Handle
    name: str

    def charge(
        self,
        parts: Composable,
        *,
        by: str,
        reason: str,
        relation: Relation | str | None = None,
        of: Of | None = None,
        evidence: Evidence | None = None,
        claim: Guarantee | None = None,
        key: str | None = None,
        wait: Number = 0.0,
        tail_delta: Number | None = None,
        mechanism: str = DECLARED,
        library: str = ELSEWHERE,
        parameters: Mapping[str, Plain] | None = None,
    ) -> Receipt[None]:
        """Admit, charge and record a run that happened elsewhere, in one durable step; once for ever under `key`
        (default: a fresh one); a key that was used for the same run gives the receipt of that first time. `wait`: how
        many seconds to wait for a run with the key that is under way (`charging`).

        `parts`: what was run, as `compose` takes it: a tree, a mechanism, a guarantee, pairs with a count, a list.
        `by`: whose word it is; `reason`: why it counts here; `evidence`: words, or the pathlib.Path of a file, whose
        SHA-256 is recorded (text that names a file is refused: it would stand as words). They are kept for ever and
        shown to everybody who verifies: no data, no outputs.
        `relation`: the one under which the parts hold; needed unless all are mechanisms, which run under the scope's,
        or documents, which name theirs. `of`: whether they hold for a "row" or a "unit" of the scope; needed if a unit
        may have many rows, unless all are mechanisms. If they hold for less than the scope protects, a `Group` of them
        is charged (`accounting.reach`). `claim`: what it promises one unit of the scope (default: what the charge
        promises). `mechanism`, `library`, `parameters`: what to call it, where it ran, and its public numbers.
        `tail_delta`: as of `release`.

        Claim: the scope keeps its budget with it, if it ran as its parts say. Source: docs/proofs/filters.md.
        Assumes: that no unit gave it more rows than one may have in this scope; of parts with a zcdp guarantee that has
        a delta, that no other interaction ran between its answers; of all, that it did not run between the answers of
        such an interaction here.
        Raises, with nothing charged: BudgetRefused, which covers no run that happens all the same; ParameterError,
        RelationError, ClaimTooSmall, CannotCertify, ScopeError, ScopeBusy, KeyReused or ChargeInProgress as `release`
        does."""
        seconds = requests.seconds(wait)
        said = (by, reason, relation, of, evidence)
        request = self._declared(parts, said, claim, key, tail_delta, mechanism, library, parameters)
        redeem = Redeem(self._ledger.draw(REDEEM_BYTES))

        def settle(state: State, reserved: Reserved) -> Sequence[Body]:
            after = step(state, reserved)
            return [course.settle(after, after.charge(reserved.charge), reserved.parts, redeem=redeem)]

        decision = enter(self._ledger, replace(request, redeem=redeem.digest), seconds, then=settle)
        if isinstance(decision, Replayed):
            return Receipt(None, self._ledger.entry(decision.ended), replayed=True, has_value=False)
        return Receipt(None, decision.entries[-1], has_value=False)

    def charging(
        self,
        parts: Composable,
        *,
        by: str,
        reason: str,
        relation: Relation | str | None = None,
        of: Of | None = None,
        evidence: Evidence | None = None,
        steps: int | None = None,
        claim: Guarantee | None = None,
        key: str | None = None,
        tail_delta: Number | None = None,
        mechanism: str = DECLARED,
        library: str = ELSEWHERE,
        parameters: Mapping[str, Plain] | None = None,
        resume: Resume = False,
    ) -> DeclaredRun:
        """Hold the charge of a run elsewhere while it runs: use it as a context, and run inside. The charge is held
        once the block is entered, not before. However the block ends, the charge is committed; only
        `DeclaredRun.nothing_ran` gives it back. If the process dies, it stands.

        `steps`: for a run with granted steps (`DeclaredRun.grant`): as many as the parts have, a `Repeated` or a
        `Sequence`; with tail_delta=0, steps that were never granted come back. `resume`: of such a run under `key`,
        whose steps are independent of one another: True, or the token of the model that goes on (`DeclaredRun.token`).
        An open run under the key is taken over where the block is entered, and goes on after the steps that were
        granted; what is raised in the block then leaves it open. The rest is as of `charge`, and so are the errors:
        those of parameters here, all others, and that they fit into no entry, where the block is entered; a key that
        was used is AlreadySpent; of `resume`, as of `Scope.open`."""
        said = (by, reason, relation, of, evidence)
        request = self._declared(parts, said, claim, key, tail_delta, mechanism, library, parameters, steps)
        requests.require_resumable(resume, key, request)
        stays = resume is not False

        def hold() -> Attempt:
            redeem = Redeem(self._ledger.draw(REDEEM_BYTES))
            attempt = Attempt(self._ledger, request.charge, redeem, mechanism, stays=stays)
            try:
                taken = taken_over(self._ledger, request, redeem, resume) if stays else None
                if taken is not None:
                    return Attempt(self._ledger, taken.charge, redeem, mechanism, stays=True, taken=taken)
                if isinstance(enter(self._ledger, request), Replayed):
                    raise AlreadySpent(
                        f"key {request.key!r} was used in scope {self.name!r} for a run that is charged already: load "
                        f"what that run saved. {'' if steps is None else _NO_STEP}A run under a new key is paid for "
                        "again"
                    )
                return attempt
            except BaseException as error:
                attempt.left_by(error)
                raise

        return DeclaredRun(hold, mechanism, request.parts, steps)

    def charges(
        self,
        parts: Composable,
        *,
        by: str,
        reason: str,
        relation: Relation | str | None = None,
        of: Of | None = None,
        evidence: Evidence | None = None,
        claim: Guarantee | None = None,
        key: str | None = None,
        tail_delta: Number | None = None,
        mechanism: str = DECLARED,
        library: str = ELSEWHERE,
        parameters: Mapping[str, Plain] | None = None,
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """A decorator: each call of the function is a run elsewhere, charged before the function is called; what it
        returns is handed out once the commit is durable. A call with other arguments than the function takes charges
        nothing; once it was called, the full charge stands, whatever it raises. Under a `key` it is one call for ever:
        a second one is AlreadySpent, and the function is not called.

        Arguments and errors are as of `charging`; parameters raise here, before anything is called. ParameterError for
        what only begins to run when it is called, a coroutine or generator function, and for a builtin that does not
        say what it takes; ContractViolation, once it is charged, for a function that returns one of the former."""
        said = (by, reason, relation, of, evidence)
        self._declared(parts, said, claim, key, tail_delta, mechanism, library, parameters)

        def wrap(function: Callable[P, T]) -> Callable[P, T]:
            signature = signature_of(function)

            @functools.wraps(function)
            def charged(*args: P.args, **kwargs: P.kwargs) -> T:
                signature.bind(*args, **kwargs)
                with self.charging(
                    parts,
                    by=by,
                    reason=reason,
                    relation=relation,
                    of=of,
                    evidence=evidence,
                    claim=claim,
                    key=key,
                    tail_delta=tail_delta,
                    mechanism=mechanism,
                    library=library,
                    parameters=parameters,
                ) as run:
                    run.start()
                    result = function(*args, **kwargs)
                    if begins_later(result):
                        run.broke_off(LATE)
                        raise ContractViolation(f"{LATE}, which is withheld; the full charge stands")
                    return result

            return charged

        return wrap

    def _declared(
        self,
        parts: Composable,
        said: _Said,
        claim: Guarantee | None,
        key: str | None,
        tail_delta: Number | None,
        mechanism: str,
        library: str,
        parameters: Mapping[str, Plain] | None,
        steps: int | None = None,
    ) -> Request:
        by, reason, relation, of, evidence = said
        run = requests.Elsewhere(
            attested=Attestation(words(by, "by"), words(reason, "reason"), shown(evidence)),
            relation=relation,
            of=of,
            mechanism=MechanismNote(
                wire.check_id(mechanism, "mechanism"), {} if parameters is None else parameters, library
            ),
            claim=claim,
            key=key,
            tail_delta=tail_delta,
            steps=None if steps is None else whole(steps, field="steps", least=1),
        )
        scope = self._ledger.state.scopes[self.name]
        request = requests.declared(scope, parts, run, self._ledger.draw)
        requested.check(scope, request)
        return request


class DeclaredRun:
    """A run elsewhere, whose charge is held from where its `with` block is entered. Leaving the block commits it, also
    by an exception: at its cap, or, where steps were granted, at those. An exception leaves a run open that may be
    resumed.

    It may be shared by threads, which then take turns; it does not pickle, and does nothing in a forked child. Made by
    `Scope.charging`.

    >>> from dpledger.accounting.guarantees import PureDP
    >>> from dpledger.ledger.ledger import Ledger
    >>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
    >>> said = {"by": "A. Smith", "reason": "a survey of the same people", "relation": "add_remove"}
    >>> with scope.charging(PureDP("0.5"), **said) as run:
    ...     run.start()  # then it runs, elsewhere
    >>> run, run.receipt.entry.body.rule
    (<DeclaredRun of declared_run: charged>, 'cap')

    Claim: while it is held, and afterwards, the scope keeps its budget with it, if it ran as its parts say and no step
    before it was granted. Source: docs/proofs/filters.md, "Refunds" and "Runs elsewhere"."""

    def __init__(self, hold: Callable[[], Attempt], kind: str, parts: Composition, steps: int | None) -> None:
        self._hold = hold
        self._kind = kind
        self._held: Attempt | None = None
        self._parts = parts
        self._steps = steps
        self._granted = 0
        self._is_started = False
        self._is_given_back = False
        self._receipt: Receipt[None] | None = None
        self._home = Home("a declared run")
        self._turn = Turn("a declared run")

    def __repr__(self) -> str:
        if self._held is None:
            stands = "not entered"
        else:
            stands = "given back" if self._is_given_back else "held" if self._receipt is None else "charged"
        granted = "" if self._steps is None else f", {self._granted} of {self._steps} steps granted"
        return f"<DeclaredRun of {self._kind}: {stands}{granted}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a declared run does not pickle: its copy would use the same granted steps again")

    @property
    def granted(self) -> int:
        """How many steps were granted."""
        return self._granted

    @property
    def left(self) -> int:
        """How many steps may still be granted; 0 of a run that is not granted its steps."""
        return 0 if self._steps is None else self._steps - self._granted

    @property
    def receipt(self) -> Receipt[None]:
        """The receipt of the commit, once charged. ScopeError before, and for a charge that was given back."""
        if self._receipt is None:
            raise ScopeError(
                "the charge was given back: there is no receipt"
                if self._is_given_back
                else "the run is not charged yet: it has a receipt once its block ends"
            )
        return self._receipt

    def token(self, step: int | None = None) -> RunToken:
        """What to save beside a model that has `step` steps of the plan behind it (default: all that were granted), so
        that `resume=` knows where it stands. ScopeError before the block is entered."""
        at = self._granted if step is None else whole(step, field="step", most=self._granted)
        if self._held is None:
            raise ScopeError("the run has no charge yet: it has a token once its block is entered")
        return self._held.token(at)

    @property
    def granted_before(self) -> int:
        """How many steps were granted to the processes before this one, and are not run again."""
        return 0 if self._held is None else self._held.granted_before

    def start(self) -> None:
        """Say, durably, that data may be read from now on: from here on the charge is not given back. Halted once the
        run is over, ScopeError, as of all below, before its block is entered. `grant` starts it as well."""
        self._home.require()
        with self._turn:
            self._start(self._require_open())

    def grant(self, count: int = 1) -> int:
        """Grant `count` more steps, durably, before any of them runs; how many are granted in all. A granted step
        counts as run. Halted, with nothing granted, beyond the plan or once the run is over; ScopeError for a run that
        was opened without `steps`."""
        more = whole(count, field="count", least=1, most=MOST_STEPS)
        self._home.require()
        with self._turn:
            attempt = self._require_open()
            if self._steps is None:
                raise ScopeError("only a run that was opened with steps= is granted any")
            if more > self.left:
                raise Halted(f"{self._granted} of {self._steps} planned steps are granted: {more} more are not planned")
            self._start(attempt)
            attempt.grant(self._granted + more)
            self._granted += more
            return self._granted

    def nothing_ran(self) -> Entry:
        """Give the whole charge back, on the word of whoever declared the run: nothing read the data. Its key is used
        up. PolicyError once it was started or granted a step; Halted once it is over."""
        self._home.require()
        with self._turn:
            attempt = self._require_open()
            if self._is_started:
                raise PolicyError("the run was started: only steps that were never granted come back")
            entry = attempt.abort()
            self._is_given_back = True
            return entry

    def broke_off(self, why: str) -> Receipt[None]:
        """End the run outside of its guarantee: the full charge stands, and the record says `why`, in words that hold
        no data. Halted once it is over. ParameterError for words that no entry may hold: it is ended so all the same,
        without them."""
        self._home.require()
        with self._turn:
            broken = Release(value=None, parts=self._parts, warnings=(UNSAID,), outside_guarantee=True)
            attempt = self._require_open()
            try:
                words(why, "why")
            except ParameterError:
                self._commit(attempt, broken)
                raise
            return self._commit(attempt, replace(broken, warnings=(why,)))

    def close(self) -> Receipt[None]:
        """Commit the charge: at the steps that were granted, if any were, else at its cap. A second call returns the
        same receipt; Halted for a charge that was given back."""
        self._home.require()
        with self._turn:
            if self._receipt is not None:
                return self._receipt
            attempt = self._require_open()
            counted = outcomes.steps(self._parts)
            ran = counted.recorded(self._granted) if counted is not None and self._granted else self._parts
            return self._commit(attempt, Release(value=None, parts=ran))

    def _commit(self, attempt: Attempt, release: Release[None]) -> Receipt[None]:
        self._start(attempt)
        self._receipt = replace(attempt.commit(release, keep="none", handed_out=0), has_value=False)
        return self._receipt

    def _start(self, attempt: Attempt) -> None:
        if not self._is_started:
            attempt.start()
            self._is_started = True

    def _require_open(self) -> Attempt:
        if self._is_given_back:
            raise Halted("the declared run is over: its charge was given back")
        if self._receipt is not None:
            raise Halted("the declared run is over: it is charged")
        if self._held is None:
            raise ScopeError("no charge is held for the declared run yet: enter its block, and run inside (`with`)")
        return self._held

    def __enter__(self) -> Self:
        """Hold the charge; raises as `charging` says, with nothing held. Once: what would run in a second block, no
        charge is held for. Halted then, or once the run is over."""
        self._home.require()
        with self._turn:
            if self._held is None:
                self._held = self._hold()
                self._granted = self._held.granted_before
                self._is_started = self._held.was_started
                return self
            self._require_open()
            raise Halted("the declared run is in its block already: open another run for another block")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stays = error is not None and self._held is not None and self._held.stays
        if not self._is_given_back and self._home.is_here and not stays:
            self.close()
