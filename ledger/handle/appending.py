"""How a handle appends: what its callers ask for, behind the head that it knows, and all that wait in one append.

Whoever has the turn, which is the handle's lock, appends for everybody who waits for it. One round:

    the calls that wait, in the order in which they came -> each makes its bodies on the state after those before it
    -> one append, durable -> each call has its entries

So a call gets what it would have got alone, at that place in the order, and it returns once that is durable.

    the rules refuse a call          its own error, in its own thread, once what it was decided on is durable
    the store refuses, or a call     nothing was appended: each of them is made again, alone, so that each sees what is
    breaks                           its own
    others appended first            all are made again, with what the store says
    who has the turn is interrupted  whoever has it next looks whether the append is there: then each call has its
                                     entries, else they are made again
    who waits is interrupted         it waits no more. Where it was appended meanwhile that stands, as of a call that is
                                     interrupted right after its append
    a signal handler calls           it is appended alone: before or after, as another process would
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TypeAlias

from dpledger.errors import DpledgerError, ParameterError, PolicyError, StoreFailure
from dpledger.ledger import remembered
from dpledger.ledger.entries.bodies import Body, Snapshot
from dpledger.ledger.handle.writing import Clock, Writing, with_rows
from dpledger.ledger.rules.scope_state import State, state_digest
from dpledger.ledger.signed import keys
from dpledger.ledger.stores.protocol import Addition, Question, Store, Tail
from dpledger.ledger.tip import START, Head, caught_up
from dpledger.mechanisms.callers import is_of_a_handler
from dpledger.process import Home

__all__ = ["Appending", "Call", "Make"]

Make: TypeAlias = Callable[[State, Writing], Sequence[Body]]
"""Given the state, and what the store told of what was asked (`known`), the bodies to append. Called again, with the
state then, where others appended in between, and in whichever thread has the turn: it keeps nothing from one call to
the next."""

TRIES = 4  # at an append whose outcome stays unknown
MISSED_SECONDS = 1.0  # after which who waits looks for the turn: an interrupt may have taken its wake-up away
OVERTAKEN_SECONDS = 30.0  # how long a writer tries again that others overtake


@dataclass(slots=True, eq=False)
class Call:
    """What one caller asks for. `is_unread`: the store need not be read before. `successor`: what signs from here on,
    where the bodies name its key. `goes_alone`: it shares no append. `outcome`: what was written for it, or why
    nothing is; None until that is durable, which `woken` says."""

    make: Make
    asked: Question
    is_unread: bool
    successor: keys.Signer | None
    thread: int = field(default_factory=threading.get_ident)
    goes_alone: bool = False
    outcome: Writing | DpledgerError | None = None
    woken: SimpleQueue[None] = field(default_factory=SimpleQueue)

    @property
    def is_open(self) -> bool:
        """Whether it still waits, and shares an append."""
        return self.outcome is None and not self.goes_alone


@dataclass(frozen=True, slots=True)
class _Round:
    """What came of the calls of one append, and the head after it. `addition`: None where there is nothing to
    append."""

    outcomes: list[tuple[Call, Writing | DpledgerError]]
    head: Head
    addition: Addition | None


class Appending:
    """One process's hold on the end of a ledger: its store, what signs, the head that it saw last."""

    def __init__(self, store: Store, signer: keys.Signer | None, clock: Clock, snapshot_every: int) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._lock = threading.RLock()
        self._home = Home("a ledger handle")
        self._is_closed = False
        self._head = START
        self._is_alone = False  # nobody else appended when this handle looked last
        self._saved = 0  # how many entries the newest fold covers that this handle knows the store to keep
        self._heads: remembered.Heads | None = None  # of a store that nobody remembers
        self._is_led = False  # somebody has the turn, who wakes those that wait
        self._waiting: dict[int, Call] = {}  # by their threads, in the order in which they came
        self._doubt: _Round | None = None  # what may be in the store, or not: its append did not return

    def _key(self) -> keys.Signer:
        self._require_ours()
        if self._signer is None:
            expected = "the signing key of the ledger, which is open for reading only: its file, or DPLEDGER_KEY"
            raise ParameterError("key", "none", expected)
        return self._signer

    def _require_ours(self) -> None:
        self._home.require()
        if self._is_closed:
            raise PolicyError("the ledger handle is closed: open the ledger again")

    # ---- a turn -----------------------------------------------------------------------------------------------------

    def _written(self, call: Call) -> Writing:
        """What was appended for `call`, durably, by whoever had the turn. Raises why nothing was."""
        self._key()
        try:
            try:
                call.goes_alone = self._waiting.setdefault(call.thread, call) is not call  # of a signal handler
                while call.outcome is None:
                    if self._is_led and call.is_open:
                        with suppress(Empty):
                            call.woken.get(timeout=MISSED_SECONDS)
                            continue
                    with self._lock:
                        self._lead(call)
            finally:
                self._leave(call)
        finally:
            self._leave(call)  # an interrupt may have fallen into the first
        outcome = call.outcome
        assert outcome is not None, "no turn ends without one"
        if isinstance(outcome, DpledgerError):
            raise outcome
        return outcome

    def _lead(self, own: Call) -> None:
        """Make rounds until `own` has its outcome; then another one that waits has the turn. Under the lock."""
        deadline = time.monotonic() + OVERTAKEN_SECONDS
        self._is_led = True
        try:
            while own.outcome is None:
                self._look_back()
                if own.outcome is None and not self._has_appended(own) and time.monotonic() >= deadline:
                    raise StoreFailure(
                        f"other writers were faster at every try for {OVERTAKEN_SECONDS:.0f} s: try again"
                    )
        finally:
            self._is_led = False
            for call in tuple(self._waiting.values()):
                if call.outcome is None and call is not own:
                    call.woken.put(None)
                    break

    def _leave(self, call: Call) -> None:
        if self._waits(call):
            self._waiting.pop(call.thread, None)

    def _waits(self, call: Call) -> bool:
        return self._waiting.get(call.thread) is call

    def _has_appended(self, own: Call) -> bool:
        """One round for `own` and those that wait with it; False where it is to be made again. Under the lock."""
        if own.is_unread and not self._knows_the_end():
            own.is_unread = False
        told = None if own.is_unread else self._told(own)
        calls = [own] if own.goes_alone else [one for one in tuple(self._waiting.values()) if one.is_open]
        try:
            found = self._made(own, calls, told)
            if found is not None and self._is_there(found):
                self._settle(found)
                return True
        except Exception as error:
            if is_of_a_handler(error):  # of a signal, which interrupts whoever has the turn
                raise
            if len(calls) > 1:
                for call in calls:
                    call.goes_alone = True
            elif own.is_unread and isinstance(error, DpledgerError) and not isinstance(error, StoreFailure):
                own.is_unread = False  # of a state that may be an old one
            else:
                raise
        return False

    def _knows_the_end(self) -> bool:
        """Whether an append may follow the head that this handle knows, without a look at the store: it says whether
        that is the end."""
        head = self._head
        is_newest = self._known() in (None, remembered.SeenHead.of(head))
        return self._is_alone and head.signed is not None and not head.state.closed and is_newest

    def _told(self, own: Call) -> Tail:
        """What the store holds now, with what `own` asks; this handle has followed it."""
        seen, told = self._known(), self._followed(own.asked)
        remembered.require_seen(seen, self._head, self._store)
        if self.state.closed and (self.state.last_trusted is None or self.state.keys.revoked):
            raise PolicyError("the ledger was ended: nothing may follow; open a new one")
        return replace(told, leaves=())

    def _made(self, own: Call, calls: Sequence[Call], told: Tail | None) -> _Round | None:
        """What `calls` come to, one after the other, and their one append. `told`: what the store told `own`; None
        where it was not read: then a call that asks waits for another round. Of a call that does not, what it appends
        counts, and nothing else does: it asks in the next one. None where the store went on meanwhile."""
        before = head = self._head
        signer, now = self._key(), self._clock()
        outcomes: list[tuple[Call, Writing | DpledgerError]] = []
        written: list[Writing] = []
        for call in calls:
            known = None
            if not (call is own or self._waits(call)) or (told is None and not call.is_unread):
                continue
            if told is not None and not call.is_unread:
                known = told if call is own else self._store.tail(None, call.asked)
                if (known.size, known.head) != (before.tree.size, before.signed):
                    return None
                known = with_rows(known, call.asked, [part.rows for part in written])
            part = Writing(signer, now, head, known, successor=call.successor)
            outcome: Writing | DpledgerError = part
            try:
                part.write(call.make)
            except DpledgerError as error:
                if is_of_a_handler(error):
                    raise
                part.made, outcome = [], error
            if part.made:
                head, signer = part.head, call.successor or signer
                written.append(part)
            if part.made or not call.is_unread:
                outcomes.append((call, outcome))
            call.is_unread = call.is_unread and bool(part.made)
        if not written:
            return _Round(outcomes, before, None)
        last = written[-1]
        if self._is_snapshot_due(last.head, before.tree.size):
            last.append(Snapshot(state_digest(last.head.state)))
        addition = last.sign_head(written, is_saved=self._is_save_due(last.head))
        return _Round(outcomes, replace(last.head, signed=addition.head), addition)

    def _is_there(self, found: _Round) -> bool:
        """Whether what was found is durable; False where others were first, and nothing of it is there."""
        if found.addition is None:
            return True
        self._doubt = found
        self._is_alone = self._is_appended(found.addition)
        if not self._is_alone:
            self._doubt = None
        return self._is_alone

    def _settle(self, found: _Round) -> None:
        """Each call has its outcome. A second time changes nothing."""
        if found.addition is not None:
            if found.head.tree.size > self._head.tree.size:
                self._head = found.head
            self._saved = self._saved if found.addition.saved is None else found.head.tree.size
        self._remember()
        for call, outcome in found.outcomes:
            if call.successor is not None and isinstance(outcome, Writing) and outcome.made:
                self._signer = call.successor
            call.outcome = outcome
            call.woken.put(None)
        if self._doubt is found:
            self._doubt = None

    def _look_back(self) -> None:
        """Settle an append that was interrupted, or whose outcome stayed unknown, as the store says."""
        doubt = self._doubt
        if doubt is not None and doubt.addition is not None and self._stands(doubt.addition):
            self._settle(doubt)

    # ---- the store --------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The folded state, as this handle last saw it (`refresh` looks again)."""
        return self._head.state

    def _known(self) -> remembered.SeenHead | None:
        """The newest head that was seen here: to be read before the store is."""
        return None if self._heads is None else self._heads.newest()

    def _remember(self) -> None:
        """What this handle has seen, outside of the ledger; once it is durable."""
        if self._heads is not None:
            self._heads.keep(remembered.SeenHead.of(self._head))

    def _followed(self, asked: Question) -> Tail:
        """What the store holds now: this handle has seen it afterwards. Under the lock."""
        head = self._head
        tail = self._store.tail(max(0, head.tree.size - 1), asked)
        self._head = caught_up(head, tail, self._signer)
        self._is_alone = self._head.tree.size == head.tree.size
        return tail

    def _is_appended(self, addition: Addition) -> bool:
        """Whether all of it is in the store, durably; False if nothing is, since others were first. StoreFailure where
        that is not known, or the store cannot be written."""
        for _ in range(TRIES):
            try:
                outcome = self._store.append(addition)
            except StoreFailure:
                with suppress(StoreFailure):  # the first one is the one to see
                    if self._stands(addition):
                        return True
                raise
            if outcome == "done":
                return True
            if outcome == "failed":  # an earlier try may have been first
                return self._stands(addition)
        if self._stands(addition):
            return True
        raise StoreFailure("the store did not say whether it appended the entries: the next call will look")

    def _stands(self, addition: Addition) -> bool:
        return self._store.leaves(addition.size, addition.size + len(addition.leaves)) == addition.leaves

    def _is_snapshot_due(self, after: Head, before: int) -> bool:
        every = self._snapshot_every
        return not after.state.closed and after.tree.size // every > before // every

    def _is_save_due(self, after: Head) -> bool:
        """Whether many entries are folded when the ledger is opened; as many as there is to save, at the least. Also
        once another key is in force, which is to sign what is saved; not at the end of a ledger, which the recovery key
        may have signed."""
        before, state = self._head.state.authority, after.state
        if state.closed:
            return False
        if self._saved and before is not None and before.own(after.tree.size) != state.keys.own(after.tree.size):
            return True
        return after.tree.size - self._saved >= max(self._snapshot_every, len(state.scopes) + len(state.open))
