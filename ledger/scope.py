"""A scope: one dataset, one unit of privacy, one relation, one budget; and the walk of every release through the gate.

    mechanism -> under -> check -> decide -> reserved (durable) -> run -> settle -> committed (durable) -> value

The value is handed out after its commit is durable. Whatever goes wrong in between counts at its cap, for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Self, TypeVar

from dpledger.accounting.composable import Composable, Counted, Ran, how_to_read
from dpledger.accounting.composition import Composition, Repeated, is_pair
from dpledger.accounting.documents import Document, as_tree
from dpledger.accounting.guarantees import Guarantee, words_of
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.profile import Bounds
from dpledger.accounting.reach import Of
from dpledger.decimals import Number, RoundsDown, text, whole
from dpledger.errors import AlreadySpent, ContractViolation, ParameterError
from dpledger.ledger.accounts import readings, recomposition
from dpledger.ledger.accounts.tables import LedgerTable, releases_table
from dpledger.ledger.charging import requests
from dpledger.ledger.charging.admission import enter
from dpledger.ledger.charging.charges import Attempt, Receipt
from dpledger.ledger.charging.guards import GuardsCode
from dpledger.ledger.charging.requests import AnyMechanism
from dpledger.ledger.charging.reservations import Reservation
from dpledger.ledger.charging.sessions import Session
from dpledger.ledger.charging.takeovers import Resume, settled, taken_over
from dpledger.ledger.entries.bodies import Audited, Body, Closed, Declared, Intended, Lost
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.evidence import Evidence
from dpledger.ledger.handle.log import Handle
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.rules import approvals, gate, quotes, requested
from dpledger.ledger.rules.capability import REDEEM_BYTES, Redeem
from dpledger.ledger.rules.gate import Replayed
from dpledger.ledger.rules.notes import Noted, intention_of
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.scope_state import ScopeState, State, next_steps
from dpledger.ledger.signed import values, wire
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.noise import unrecorded
from dpledger.mechanisms.protocol import (
    Described,
    Interactive,
    Mechanism,
    Refines,
    Release,
    Resumes,
    inspect,
    plain_of,
    reads,
    value_of,
)
from dpledger.mechanisms.training.training_plans import TrainingPlan, charged_plan, training_plan
from dpledger.relations import Relation, Unit

__all__ = ["Receipt", "Reservation", "Scope", "Session"]

Data = TypeVar("Data")
Value = TypeVar("Value")
Query = TypeVar("Query")
Answer = TypeVar("Answer")

MOST_COUNTED = 10**9  # copies that `afford` counts


class Scope(GuardsCode):
    """A scope of a ledger. Made by `Ledger.scope`.

    >>> book = dpl.Ledger.in_memory()
    >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    >>> count = dpl.Count(epsilon="0.1", of="rows")
    >>> receipt = scope.release(count, ["a", "b", "c"])
    >>> round(scope.spent(delta="1e-6").upper, 4), scope.afford(count, most=20).one_by_one
    (0.1, 20)
    """

    def __init__(self, ledger: Handle, name: str) -> None:
        self._ledger = ledger
        self.name = name

    def __repr__(self) -> str:
        state = self._scope
        many = state.unit.max_contributions
        whom = state.unit.name + (f" (max_contributions={many})" if many > 1 else "")
        return f"<Scope {self.name}: one {whom}, {state.relation.value}, budget {words_of(state.budget)}>"

    def __copy__(self) -> Self:
        """This handle itself: what is copied with it spends here."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        """As `__copy__`."""
        return self

    @property
    def _scope(self) -> ScopeState:
        return self._ledger.state.scopes[self.name]

    @property
    def relation(self) -> Relation:
        """The neighbouring relation under which the scope protects."""
        return self._scope.relation

    @property
    def unit(self) -> Unit:
        """Whom the scope protects."""
        return self._scope.unit

    @property
    def budget(self) -> Guarantee:
        """What the scope promises, for ever."""
        return self._scope.budget

    # ---- reading ----------------------------------------------------------------------------------------------------

    def spent(self, delta: Number | None = None) -> Bounds:
        """What was spent so far, read at `delta`: see `ledger.accounts.readings`. Default: the delta of the scope's own
        budget. ParameterError if the budget is of another kind and has none."""
        scope = self._ledger.refresh().scope(self.name)
        return readings.spent(scope, readings.own_delta(scope) if delta is None else delta)

    def left(self) -> RoundsDown:
        """The most epsilon that a release may promise on its own (epsilon-DP, no delta) and be admitted now, rounded
        down to six places. The budgets of the scopes above count too. A release whose noise is known may get more: ask
        `afford` and `quote`. For a budget in epsilon, it is at most what `spent`, at the budget's delta, leaves of it;
        for one in rho, mu or Renyi orders, it is what such a release may have, not a part of a sum. Raises ScopeError
        in a closed scope, CannotCertify where no theorem prices such a release.
        Claim: a request of `PureDP(result)` is admitted, if nothing is charged before it. Source: the gate, asked.

        >>> book = dpl.Ledger.in_memory()
        >>> scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
        >>> receipt = scope.release(dpl.Count(epsilon="0.3", of="rows"), [1, 2, 3])
        >>> scope.left(), scope.left() < 3, f"{scope.left() / 2.0:.3f}"
        (Decimal('2.7'), True, '1.350')
        """
        state = self._ledger.refresh()
        return RoundsDown(quotes.left(state, state.scope(self.name)))

    def account(self) -> recomposition.ScopeAccount:
        """Every admission and refusal of the scope, with the account that admitted it and the price in that account."""
        state = self._ledger.refresh()
        entries = self._ledger.entries(stop=state.size)
        return next(found for found in recomposition.accounts(entries, state) if found.scope == self.name)

    def releases(self) -> LedgerTable[recomposition.Admission]:
        """Every charge to this scope, in order, also from the scopes that are charged to it: open, settled or aborted.
        Iterate over them, or take `to_frame()`, a pandas DataFrame (`ledger.accounts.tables` lists its columns)."""
        state = self._ledger.refresh()
        entries = self._ledger.entries(stop=state.size)
        return releases_table(recomposition.admissions(entries, state, self.name))

    def quote(
        self,
        what: Described | Composable,
        *,
        relation: Relation | str | None = None,
        of: Of | None = None,
        tail_delta: Number | None = None,
    ) -> quotes.Quote:
        """What the scope would answer now, under a fresh key, to `release` or `open` of a mechanism, or to `charge` of
        other parts that ran elsewhere: the decision, each account before and after, and a cheaper way to ask where
        there is one. A first charge that `charging` holds before it runs may be admitted where `charge` is not.
        `relation`, `of`: as of `charge`. Records and spends nothing; raises as they do, but returns a refusal instead
        of raising BudgetRefused.

        >>> book = dpl.Ledger.in_memory()
        >>> scope = book.scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(1))
        >>> count, plan = dpl.Count(epsilon=2, of="rows"), [dpl.PureDP("0.5"), dpl.LaplaceLaw("0.2")]
        >>> scope.quote(count).admitted, scope.quote(plan, relation="add_remove").admitted
        (False, True)
        """
        request = requests.quoted(self._scope, what, relation, of, tail_delta, self._ledger.draw)
        state = self._ledger.refresh()
        decision = gate.decide(state, request, None)
        return quotes.quoted(state, state.scopes[self.name], request, decision)

    def afford(
        self,
        what: Ran | Counted,
        *,
        of: Of | None = None,
        most: int = MOST_COUNTED,
        tail_delta: Number | None = None,
    ) -> quotes.Affordable:
        """How many more of a mechanism, a tree or a document would be admitted now: one by one, each asked for as by
        `release`, and as one plan, asked for in the best way. A tree counts as it stands, under the scope's relation
        and for one unit; a document counts as in `charge`, for what it reaches under the relation that it names. `of`:
        for a document, as in `charge`. Counting stops at `most`. Nothing is recorded.

        `tail_delta`: that of each request that is asked for one by one (see `release`). Raises CannotCertify where no
        theorem prices it, RelationError for a mechanism of another relation or unit, ScopeError in a closed scope."""
        state = self._ledger.refresh()
        return quotes.afforded(
            state,
            state.scope(self.name),
            self._tree(what, of),
            most=whole(most, field="most", least=1, most=MOST_COUNTED),
            tail_delta=None if tail_delta is None else requests.below_one(tail_delta),
        )

    def _tree(self, what: object, of: Of | None) -> Composition:
        """What `afford` is asked about, as it would run here."""
        if is_pair(what):
            return Repeated(self._tree(what[0], of), times=what[1])
        if isinstance(what, Document):
            return outcomes.planned(requests.placed(self._scope, what, None, of)[0])
        if of is not None:
            raise ParameterError("of", of, "nothing, except with a document: everything else is already for one unit")
        if isinstance(what, (Mechanism, Interactive)) and not isinstance(what, type):
            return what.under(self.relation, self.unit).parts()
        if isinstance(what, type) or not hasattr(what, "kind"):
            expected = f"a mechanism, a tree or a document, or a pair of one and a count{how_to_read(what)}"
            raise ParameterError("what", requests.kind_of(what), expected)
        return outcomes.planned(as_tree(what))

    def plan_training(
        self,
        *,
        rate: Number,
        steps: int,
        expected_batch_size: Number,
        dimension: int,
        digits: int = 6,
        key: str | None = None,
    ) -> TrainingPlan:
        """The least noise with which this scope admits this many steps of DP-SGD now, by the cheapest way of asking. Of
        a run that is charged under `key` already: the noise and the `tail_delta` that it was admitted with, so that the
        script that began it goes on with it.

        Pass its numbers on: `private_sgd(scope, ..., noise_multiplier=plan.noise_multiplier,
        tail_delta=plan.tail_delta)`. `plan.others` says what other ways would need.
        Claim: such a request is admitted as long as nothing else is charged before it, or is charged.
        Raises ParameterError naming the field, or the key of what is no training, InfeasiblePlan where no noise is
        admitted, CannotCertify where no theorem prices such a run here, ScopeError in a closed scope."""
        state = self._ledger.refresh()
        scope = state.scope(self.name)
        gate.require_open(state, scope)
        sizes: Any = {
            "rate": rate,
            "steps": steps,
            "expected_batch_size": expected_batch_size,
            "dimension": dimension,
        }
        charged = None if key is None else self._charged_under(wire.check_id(key, "key"))
        if charged is None:
            return training_plan(requested.levels_of(state, scope), **sizes, digits=digits)
        noise = charged.mechanism.parameters.get("noise_multiplier")
        if noise is None:
            expected = "one under which nothing was charged yet, or a training with noise"
            raise ParameterError("key", f"that of {charged.mechanism.kind}", expected)
        prices = {charged.account: text(charged.reserved[charged.account])}
        return charged_plan(str(noise), charged.tail_delta, prices, **sizes)

    def _charged_under(self, key: str) -> recomposition.Admission | None:
        """What was charged here under `key` and not given back; None where nothing was."""
        every = (one for one in self.releases() if one.status != "aborted")
        return next((one for one in every if (one.scope, one.key) == (self.name, key)), None)

    # ---- running ----------------------------------------------------------------------------------------------------

    @unrecorded()
    def release(
        self,
        mechanism: Mechanism[Data, Value],
        data: Data,
        *,
        key: str | None = None,
        wait: Number = 0.0,
        tail_delta: Number | None = None,
    ) -> Receipt[Value]:
        """Run `mechanism` on `data`, once for ever under `key` (default: a fresh one).

        If `key` was used for the same request, the receipt has the value and the entry of that first run, whatever
        `data` are now, and says `replayed`. Nothing looks at the data, since whether one record differs would be a
        release of its own. For other data, or a new state of them, use another key. `wait`: how many seconds to wait
        for another attempt with the key that is under way.

        `tail_delta`: the delta that the scope spends to price the whole by its certified profile, of which nothing
        comes back (docs/proofs/certified_prices.md); 0: by its parts. Default: a sixteenth of what is left of delta,
        for a request without a pure price that is several releases, or costs less than half this way; else 0.

        Raises, with nothing spent: BudgetRefused if the scope does not admit it; ParameterError, RelationError or
        ClaimTooSmall for a mechanism or data that cannot be used; KeyReused, AlreadySpent or ChargeInProgress for a key
        that was used; VerificationError for a kept value that is not what the ledger signed; PolicyError while the
        noise is being recorded or replayed. ContractViolation if the mechanism or the caller's own code breaks its
        contract: then the full charge stands."""
        if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
            raise requests.unfit(mechanism, "release", "a mechanism that answers once (else use `open`)")
        seconds = requests.seconds(wait)
        ready, request = self._request(mechanism, key, tail_delta)
        inspect(ready, data)
        redeem = self._redeem()
        with Attempt(self._ledger, request.charge, redeem, ready.kind) as attempt:
            decision = enter(self._ledger, replace(request, redeem=redeem.digest), seconds)
            if isinstance(decision, Replayed):
                return replace(self._replay(ready, request, decision), reads=reads(ready), mechanism=ready)
            return self._run(ready, data, attempt)

    @unrecorded()
    def open(
        self,
        mechanism: Interactive[Data, Query, Answer, Value],
        data: Data,
        *,
        key: str | None = None,
        tail_delta: Number | None = None,
        resume: Resume = False,
    ) -> Session[Query, Answer, Value]:
        """Open an interaction: use it as a context, `ask` inside. Its cap is charged now; its outcome settles it at
        close. Raises as `release` does, and takes `tail_delta` as it does: with one, nothing comes back but the whole
        of a training run that was granted no step. The answers of an interaction are not kept, so a used key is
        AlreadySpent.

        `resume`: for a training run under `key`: True, or the token of the model that continues (`Session.token`). An
        open run under the key is taken over (`charging.takeovers`) and continues after the steps that were granted; if
        there is none, it begins. What interrupts such a run, or is raised in its block, leaves it open, to be resumed
        again. Also raises TakenOver where another process was first, ParameterError and StoreBehind for a token of
        another run, or of steps that the ledger does not know; warns by StepsLost of granted steps that the token
        lacks, and, without a token, of all of them."""
        if isinstance(mechanism, type) or not isinstance(mechanism, Interactive):
            raise requests.unfit(mechanism, "open", "an interaction (else use `release`)")
        ready, request = self._request(mechanism, key, tail_delta)
        requests.require_resumable(resume, key, request, ready)
        inspect(ready, data)
        redeem = self._redeem()
        attempt = Attempt(self._ledger, request.charge, redeem, ready.kind, stays=resume is not False)
        try:
            taken = taken_over(self._ledger, request, redeem, resume) if resume is not False else None
            if taken is not None:
                attempt = Attempt(self._ledger, taken.charge, redeem, ready.kind, stays=True, taken=taken)
            elif isinstance(enter(self._ledger, replace(request, redeem=redeem.digest)), Replayed):
                raise AlreadySpent(
                    f"key {request.key!r} was used in scope {self.name!r} for an interaction. Its answers were "
                    "released then and are not kept here: load what you saved. A new one under a new key is paid "
                    "for again"
                )
            return self._opened(attempt, ready, data)
        except BaseException as error:
            attempt.left_by(error)
            raise

    def settle(self, key: str) -> Receipt[None]:
        """End a training run under `key` whose process died, at the steps that it was granted: they count as run, and
        the charge for the rest comes back if the prices of steps add up. If the process is still alive, its next grant
        is refused. To run the rest instead, resume it.

        ScopeError where no run is open under the key, or none that is granted its steps. PolicyError, with nothing
        changed, where steps are left and nothing of the charge comes back: a price of the whole plan (`tail_delta`)
        stands whole once a step was granted (docs/proofs/certified_prices.md, 4).

        Claim: the scope keeps its budget. Source: docs/proofs/filters.md, "Refunds" and "Runs that are resumed"."""
        return settled(self._ledger, self.name, wire.check_id(key, "key"))

    def _opened(
        self, attempt: Attempt, ready: Interactive[Data, Query, Answer, Value], data: Data
    ) -> Session[Query, Answer, Value]:
        """The session of a charge that is started. What `ready` raises ends it at its cap."""
        try:
            told = reads(ready)
            if isinstance(ready, Resumes) and attempt.granted_before:
                conversation = ready.resume(data, done=attempt.granted_before, entropy=self._ledger.entropy)
            else:
                conversation = ready.open(data, entropy=self._ledger.entropy)
        except BaseException as error:
            failure: BaseException = error
        else:
            refines = ready if isinstance(ready, Refines) else None
            return Session(attempt, conversation, requests.steps(ready), refines, told)
        raise attempt.give_up(failure)

    def reserve(
        self, mechanism: Mechanism[Data, Value], *, key: str | None = None, tail_delta: Number | None = None
    ) -> Reservation[Data, Value]:
        """Hold the charge of `mechanism` without reading data yet: release it later, or abort it and get all of it
        back. It counts at its cap until then, also if the process dies. Raises as `release` does, and takes
        `tail_delta` as it does; a used key is AlreadySpent."""
        if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
            raise requests.unfit(mechanism, "release", "one that answers once")
        ready, request = self._request(mechanism, key, tail_delta)
        attempt = Attempt(self._ledger, request.charge, self._redeem(), ready.kind)
        try:
            if isinstance(enter(self._ledger, request), Replayed):
                raise AlreadySpent(
                    f"key {request.key!r} was released in scope {self.name!r} already: `release` with this key returns "
                    "the value of that run, if it was kept"
                )
            return Reservation(self._run, ready, attempt)
        except BaseException as error:
            attempt.left_by(error)
            raise

    def as_diffprivlib(
        self,
        *,
        relation: Relation | str,
        by: str,
        reason: str,
        of: Of | None = None,
        evidence: Evidence | None = None,
    ) -> Any:
        """This scope as an `accountant=` of diffprivlib: what its functions and models spend is charged here, by their
        own epsilon and delta, before they read the data. Needs diffprivlib (`pip install 'dpledger[diffprivlib]'`).

        `relation`: that of the neighbours in the function that gets the accountant: functions of diffprivlib differ in
        it, and do not say so (docs/others_code.md lists them). `of`, `by`, `reason`, `evidence`: as of `charge`. A
        refusal is diffprivlib's BudgetError, with the BudgetRefused as its cause. A worker of joblib gets no copy: it
        opens the ledger's file and charges it, or is refused before it runs.

        Claim: the scope keeps its budget with what is spent through it, if each run is (epsilon, delta)-DP as it says.
        Source: docs/proofs/filters.md, "Runs elsewhere".
        Raises ParameterError, RelationError as `charge`; ModuleNotFoundError without diffprivlib."""
        adapter = import_module("dpledger.attach.diffprivlib")  # of a room above, which only a name may reach
        return adapter.accountant(self, relation=relation, by=by, reason=reason, of=of, evidence=evidence)

    # ---- notes ------------------------------------------------------------------------------------------------------

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement about this scope that nothing here can measure, in the words of `by`: see `Ledger.declare`."""
        return self.record(Declared(item=item, text=text, by=by))

    def intend(self, audit: Intended | Noted) -> Entry:
        """Say that an audit about this scope will be made, before its first run. See `Ledger.intend`."""
        return self.record(intention_of(audit))

    def record(self, note: Declared | Intended | Audited | Noted, *, intended: int | None = None) -> Entry:
        """Append a note that is about this scope, like what an audit returned; it charges nothing. See `Ledger.record`.

        >>> book = dpl.Ledger.in_memory()
        >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        >>> result = dpl.audit_mechanism(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1)
        >>> scope.record(result).body.verdict
        'not_refuted'
        """
        return self._ledger.record(note, about=(self.name,), intended=intended)

    def note_lost(self, charge: str, note: str) -> Entry:
        """Note that an open charge will not be settled, since its process died. Changes no number: it stays at its cap.
        ScopeError if it is not open."""

        def lost(state: State, _: Writing) -> Sequence[Body]:
            found = state.open.get(charge) if isinstance(charge, str) else None
            if found is None or found.scope != self.name:
                raise ParameterError("charge", charge, f"a charge that is open in scope {self.name!r}")
            return [Lost(path=next_steps(state, found.path), charge=charge, note=note)]

        return self._ledger.transact(lost)[0]

    def end(self, reason: str, *, approval: str | None = None) -> Entry:
        """Close the scope for ever: nothing new begins in it. Charges that are open may still end. `approval`: the
        owner's, in a ledger that has one (ApprovalNeeded holds the request)."""

        def close(state: State, _: Writing) -> Sequence[Body]:
            body = Closed(reason=reason, path=next_steps(state, (self.name,)), approval=approval)
            approvals.require(state, body)
            return [body]

        return self._ledger.transact(close)[0]

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def _request(
        self, mechanism: AnyMechanism, key: str | None, tail_delta: Number | None
    ) -> tuple[AnyMechanism, Request]:
        return requests.asked(self._scope, mechanism, key, tail_delta, self._ledger.draw)

    def _run(self, ready: Mechanism[Data, Value], data: Data, attempt: Attempt) -> Receipt[Value]:
        """Read the data. The charge is started, durably, before this."""
        try:
            told = reads(ready)
            release = ready.release(data, entropy=self._ledger.entropy)
            if not isinstance(release, Release):
                raise TypeError("release() returned no Release")
            plain = plain_of(ready, release.value)
        except BaseException as error:
            failure: BaseException = error
        else:
            return replace(
                attempt.commit(release, self._scope.keep, handed_out=1, plain=plain), reads=told, mechanism=ready
            )
        raise attempt.give_up(failure)

    def _replay(self, mechanism: Mechanism[Any, Value], request: Request, replayed: Replayed) -> Receipt[Value]:
        """What was kept of the first run, and the entry of its commit: what the ledger signed, or nothing."""
        origin = values.ValueOrigin(
            ledger=self._ledger.id,
            scope=self.name,
            key=request.key,
            request=replayed.request,
            charge=replayed.charge,
            entry=replayed.ended,
        )
        kept = self._ledger.kept(origin)
        if kept is None:
            raise AlreadySpent(
                f"key {request.key!r} was used in scope {self.name!r}, and its result was released then and not kept "
                "(a ledger keeps numbers, texts, lists of them, means, histograms and a few learned rules; a scope may "
                "keep none): load what you saved. A release under a new key is paid for again"
            )
        plain = values.restored(kept)
        made = came_to(lambda: value_of(mechanism, plain))
        if made is None:  # what was said may hold the value
            raise ContractViolation(
                f"{mechanism.kind} cannot make its value again from the numbers that it kept. The value is withheld, "
                "and the charge stands"
            )
        return Receipt(made[0], self._ledger.entry(origin.entry), replayed=True)

    def _redeem(self) -> Redeem:
        return Redeem(self._ledger.draw(REDEEM_BYTES))
