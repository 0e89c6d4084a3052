"""The witnesses of a ledger, asked by one handle: no data are read before a quorum has cosigned a head that says so.

A head is sent to all of them at once, with the proof that it continues what each of them saw. What they cosign covers
every entry of it, so callers that wait together are served by one question. A copy that was put back, a clone and a
fork have other entries than a witness saw: they are refused, whoever has the key. The store may be put back beneath a
handle that has it open: so a head counts only if it continues the entries that the handle itself has seen, and only for
those.

Nobody is asked while the store, or the handle, is locked. Whoever is asked is asked in a thread of its own, so that an
interrupt of the caller leaves no half answer, and who is slow keeps nobody waiting once there is a quorum.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from dpledger.errors import NotWitnessed, StoreBehind, StoreFailure
from dpledger.ledger.entries.bodies import Body, Committed, Progress, Reserved, Started
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint, SignatureLine
from dpledger.ledger.signed.merkle import CompactRange
from dpledger.ledger.stores.protocol import BATCH, GO_ON, Store
from dpledger.ledger.witnessing.asking import Answer, Asker, Cosigned, Saw, Silent
from dpledger.ledger.witnessing.cosigning import line_of
from dpledger.ledger.witnessing.policy import WitnessPolicy
from dpledger.ledger.witnessing.submission import Submission

__all__ = ["HeadWatch"]

SECONDS = 10.0  # for a quorum
QUESTIONS = 16  # to one witness about one head, while others advance what it saw
NO_RELEASE = "no data were read"


class HeadWatch:
    """What one handle knows of the witnesses of its ledger. For many threads."""

    class Unsure(Exception):
        """Nobody knows whether the witnesses answer: to be asked before anything is charged that lets data be read."""

    def __init__(
        self,
        policy: WitnessPolicy,
        store: Store,
        own: Callable[[], CompactRange],
        *,
        seconds: float | None = None,
        countersigned: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`own`: the tree that the handle has seen now. `countersigned`: a head, with a line of the key that witnesses
        know, where another one signed it."""
        self.policy = policy
        self._store = store
        self._own = own
        self._countersigned = countersigned
        self._seconds = SECONDS if seconds is None else seconds
        self._askers = tuple(Asker(watcher, seconds=self._seconds) for watcher in policy.watchers)
        self._seen = dict.fromkeys(self._askers, CompactRange())  # by each of them, last
        self._near: tuple[int, tuple[bytes, ...]] = (0, ())  # the newest leaf hashes, from an index on
        self._turn = threading.RLock()
        self._failure: NotWitnessed | StoreBehind | None = None  # the last one
        self._covered = 0  # of the entries that the handle has seen
        self._owed = 0
        self._is_sure = False
        self._cosigned = b""

    def require_free(self) -> None:
        """StoreFailure in a signal handler that interrupted this very thread as it asks."""
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_code is HeadWatch._ask.__code__ and frame.f_locals.get("self") is self:
                raise StoreFailure("a witness is being asked by this thread: a signal handler cannot use the ledger")
            frame = frame.f_back

    def lets_read(self, bodies: Sequence[Body], size: int) -> bool:
        """Whether data are read once `bodies` are behind `size` entries: then a head over them has to be cosigned
        first. Unsure, where the witnesses have not answered yet, or not the last time."""
        if not any(map(_lets_read, bodies)) or any(isinstance(body, Committed) for body in bodies):
            return False
        self.require_free()
        if not self._is_sure:
            raise self.Unsure
        self._owed = max(self._owed, size + len(bodies))
        return True

    def cosigned(self, size: int) -> bytes:
        """The newest head that a quorum cosigned, of `size` entries at least, with their lines. Raises as `cover`."""
        self.cover(size)
        return self._cosigned

    def cover_owed(self, size: int) -> None:
        """Cover what was owed of a ledger that has `size` entries: also what was interrupted before it was covered."""
        self.cover(min(self._owed, size))

    def cover(self, size: int) -> None:
        """Return once a quorum has cosigned a head over the first `size` entries that the handle has seen, or more.

        NotWitnessed where none has in time. StoreBehind where a witness, or this handle, saw entries that are not in
        the store."""
        if size <= self._covered:
            return
        self.require_free()
        before = self._failure
        try:
            turn = self._turn
            if not turn.acquire(timeout=2 * self._seconds):  # no question takes so long: an interrupt left it behind
                turn = self._turn = threading.RLock()
                turn.acquire()
            try:
                if self._failure is not before and self._failure is not None:  # who waited together fails together
                    raise type(self._failure)(*self._failure.args)
                self._ask_here(size)
            finally:
                turn.release()
        except BaseException:
            self._is_sure = False
            raise
        self._is_sure = True

    def _ask_here(self, size: int) -> None:
        if size <= self._covered:
            return
        try:
            self._ask(size)
        except (NotWitnessed, StoreBehind) as error:
            self._failure = error
            raise

    def doubt(self) -> None:
        """Ask before the next charge."""
        self._is_sure = False

    def close(self) -> None:
        """Close the connections."""
        for asker in self._askers:
            asker.close()

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, size: int) -> None:
        """Until a quorum has cosigned one head of `size` entries at least."""
        deadline = time.monotonic() + self._seconds
        silent: dict[Asker, Silent] = {}
        while True:
            own = self._own()
            signed, head, tree = self._newest(size, own)
            note = self._countersigned(signed)
            lines: dict[Asker, SignatureLine] = {}
            silent.clear()
            most = 0  # that a witness says it saw
            for asker, answer in self._answers(note, head, deadline, silent):
                if isinstance(answer, Cosigned):
                    self._seen[asker] = tree
                    lines[asker] = answer.line
                    if self.policy.is_met({one.watcher.key for one in lines}):
                        self._covered = max(self._covered, own.size)
                        self._cosigned = note + "".join(map(line_of, lines.values())).encode()
                        return
                elif isinstance(answer, Silent):
                    silent[asker] = answer
                else:
                    most = max(most, answer.size)
            if most <= head.size or time.monotonic() >= deadline:
                raise self._failed(silent, lines)
            if self._store.tail(None).size < most:
                raise StoreBehind(
                    f"a witness of this ledger saw {most} entries, and this copy holds {head.size}: it was put back to "
                    "an older state, or another copy went on. What is missing was charged. Go on with the newest copy"
                )

    def _newest(self, size: int, own: CompactRange) -> tuple[bytes, Checkpoint, CompactRange]:
        """The newest signed head, and the tree that it is of, which continues what the handle has seen."""
        near = (tree.size for tree in self._seen.values() if own.size - BATCH < tree.size < own.size)
        start = min(near, default=own.size)
        tail = self._store.tail(start)
        self._near = start, tuple(map(merkle.leaf_hash, tail.leaves))
        if tail.head is None or tail.size < max(size, own.size):
            seen = max(size, own.size)
            raise StoreBehind(f"the store holds {tail.size} entries; this handle has seen {seen}. {GO_ON}")
        head, _ = checkpoint.parse_unverified(tail.head)
        tree = own.extend(self._hashes(own.size, head.size))
        if tree.root() != head.root:
            raise StoreBehind(
                "the stored entries are not those that this handle has seen: the store was changed, or put back. "
                + GO_ON
            )
        return tail.head, head, tree

    def _answers(
        self, note: bytes, head: Checkpoint, deadline: float, silent: dict[Asker, Silent]
    ) -> Iterator[tuple[Asker, Answer]]:
        """What the witnesses say as they say it, those that saw less once they were told how it goes on. Those that say
        nothing in time are Silent."""
        answers: queue.SimpleQueue[tuple[Asker, Submission, Answer]] = queue.SimpleQueue()
        waiting = dict.fromkeys(self._askers, QUESTIONS)
        for asker in self._askers:
            self._send(asker, self._submission(asker, note, head), answers)
        while waiting:
            try:
                asker, sent, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                silent.update(dict.fromkeys(waiting, Silent("cannot be reached (no answer in time)")))
                return
            waiting[asker] -= 1
            if isinstance(answer, Saw) and answer.size == sent.old:  # what an older text says of another root
                answer = Silent("saw other entries of this ledger than this copy holds", contradicts=True)
            if isinstance(answer, Saw) and answer.size <= head.size:
                self._seen[asker] = self._tree_of(answer.size)
                if waiting[asker]:
                    self._send(asker, self._submission(asker, note, head), answers)
                    continue
                answer = Silent("is asked by others at the same time")
            del waiting[asker]
            yield asker, answer

    def _send(
        self,
        asker: Asker,
        sent: Submission,
        answers: queue.SimpleQueue[tuple[Asker, Submission, Answer]],
    ) -> None:
        threading.Thread(target=lambda: answers.put((asker, sent, asker.ask(sent))), daemon=True).start()

    def _submission(self, asker: Asker, note: bytes, head: Checkpoint) -> Submission:
        seen = self._seen[asker]
        if seen.size > head.size:
            seen = CompactRange()  # it says what it saw
        following = () if seen.size == 0 else tuple(self._hashes(seen.size, head.size))
        proof = () if seen.size == 0 else merkle.prove_growth(seen, following)
        return Submission(seen.size, proof, note)

    def _tree_of(self, size: int) -> CompactRange:
        """The tree over the first `size` leaves, from the largest that is known below it."""
        known = (tree for tree in self._seen.values() if tree.size <= size)
        base = max(known, key=lambda tree: tree.size, default=CompactRange())
        return base.extend(self._hashes(base.size, size))

    def _hashes(self, start: int, stop: int) -> Iterator[bytes]:
        first, near = self._near
        if first <= start and stop <= first + len(near):
            yield from near[start - first : stop - first]
            return
        for low in range(start, stop, BATCH):
            leaves = self._store.leaves(low, min(stop, low + BATCH))
            if len(leaves) != min(stop, low + BATCH) - low:
                raise StoreBehind(f"the store lost entries below {stop}. {GO_ON}")
            yield from map(merkle.leaf_hash, leaves)

    def _failed(self, silent: dict[Asker, Silent], lines: dict[Asker, SignatureLine]) -> NotWitnessed | StoreBehind:
        said = [(asker, silent[asker]) for asker in self._askers if asker in silent]
        told = "; ".join(f"{asker.watcher.name} {answer.why}" for asker, answer in said)
        if any(answer.contradicts for answer in silent.values()):
            return StoreBehind(
                f"this copy of the ledger went on by itself, and {NO_RELEASE}: {told}. Go on with the newest copy"
            )
        return NotWitnessed(f"{len(lines)} of {len(self._askers)} witnesses cosigned, too few: {told}; {NO_RELEASE}")


def _lets_read(body: Body) -> bool:
    """Whether it starts a charge, or grants steps; one that is only reserved can still be given back."""
    return isinstance(body, (Started, Progress)) or (isinstance(body, Reserved) and body.redeem is not None)
