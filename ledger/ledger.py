"""The ledger: it gives bodies their place, signs them, and keeps them in a store. The wiring that people touch.

>>> book = Ledger.in_memory()
>>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1))
>>> [entry.body.kind for entry in book.entries()]
['ledger_opened', 'scope_opened']
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import Filter, Orders
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.accounting.planning.allotting import Allowance
from dpledger.decimals import whole
from dpledger.errors import ForeignLedger, ParameterError, ScopeError, VerificationError
from dpledger.files import path_of
from dpledger.ledger import logging, remembered
from dpledger.ledger.accounts.overlap import SamePeople, same_people, warn_where_unrelated
from dpledger.ledger.create import database_keys, founded
from dpledger.ledger.entries.bodies import (
    FORMAT,
    Body,
    Closed,
    Declared,
    Intended,
    KeyRevoked,
    KeyRotated,
    LedgerOpened,
    OwnerRotated,
    RollbackAccepted,
)
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.log import SNAPSHOT_EVERY, Draw, Handle
from dpledger.ledger.rules import approvals, notes
from dpledger.ledger.rules.opening import Keep, Rules
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.rules.transitions import step
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import keys
from dpledger.ledger.signed.keyfiles import KeyFiles, read_public_key, signer_of
from dpledger.ledger.stores import sqlite
from dpledger.ledger.stores.files import is_address
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import NOTHING, Store
from dpledger.ledger.tip import resumed
from dpledger.ledger.verifying import bundle, proof
from dpledger.ledger.writing import Clock, Writing, utc_now
from dpledger.mechanisms.entropy import Entropy
from dpledger.progress import Advance
from dpledger.relations import Relation, Unit

__all__ = ["Ledger", "PureDP"]

WAIT_SECONDS = 10.0  # for another process that makes the same ledger


class Ledger(Handle):
    """An append-only, signed record of what was released, and the gate that stands before it.

    A handle belongs to the process that made it, does not pickle, and refuses in a forked child. It may be shared by
    threads. Use `open_or_create`, `create`, `open` or `in_memory`, or `begin` and `resume` with a store of your own;
    close it, or use it as a context.

    >>> book = dpl.Ledger.in_memory()  # `Ledger.open_or_create("clinic.ledger")` keeps it in a file
    >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    >>> receipt = scope.release(dpl.Count(epsilon="0.1", of="rows"), ["a", "b", "c"])
    >>> [entry.body.kind for entry in book.entries()]
    ['ledger_opened', 'scope_opened', 'reserved', 'committed']
    """

    # ---- making a handle --------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """A new ledger file, its signing key (`<path>.key`), the public key (`<path>.pub`) and the recovery key
        (`<path>.recovery.key`, for later versions: move it offline). ParameterError if any of them is there already; if
        it cannot finish, nothing of it stays; if the process dies, all four are there, or `create` makes them anew.
        `owner`: the public key, or its file, of who has to approve what opens or ends a scope (`rules.approvals`)."""
        return cls._create(path, name, _owner(owner), clock=clock, entropy=entropy)

    @classmethod
    def open_or_create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        keys: str | os.PathLike[str] | None = None,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """The ledger at `path`: the one that is there (see `open`), else a new one (see `create`). So a script may run
        twice, or two of them at once: they get the same ledger. `name`, `owner`: of a new one; ParameterError if the
        one that is there has another.

        `path` may be a postgresql:// address (extra `postgres`, docs/team.md). `keys`: of a ledger there, the path
        beside which its keys lie, `<keys>.key` and so on, or come to lie; without it the key is in DPLEDGER_KEY.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ids = [Ledger.open_or_create(f"{folder}/clinic.ledger", name="clinic").id for _ in range(2)]
        >>> ids[0] == ids[1]
        True
        """
        if is_address(path):
            return cls._named(
                cls._in_database(path, name, _owner(owner), keys, clock, entropy), name, owner, "this address"
            )
        if keys is not None:
            raise ParameterError("keys", type(keys).__name__, "none: the keys of a ledger file lie beside it")
        file = path_of(path, "ledger")
        if not file.exists():
            try:
                return cls._create(file, name, _owner(owner), clock=clock, entropy=entropy, wait=WAIT_SECONDS)
            except ParameterError:
                if not file.exists():
                    raise
        return cls._named(cls.open(file, clock=clock, entropy=entropy), name, owner, str(file))

    @classmethod
    def _named(
        cls,
        book: Self,
        name: str | None,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None,
        place: str,
    ) -> Self:
        """`book`, if it has that name and that owner."""
        found = book.id.rpartition("/")[0]
        if name is not None and name != found:
            book.close()
            raise ParameterError("name", name, f"that of the ledger at {place}, {found!r}, or none")
        if owner is not None and _owner(owner) != book.owner:
            book.close()
            raise ParameterError("owner", "another key", f"that of the ledger at {place}, or none")
        return book

    @classmethod
    def _in_database(
        cls,
        address: str,
        name: str | None,
        owner: keys.VerifyingKey | None,
        keys_at: str | os.PathLike[str] | None,
        clock: Clock,
        entropy: Entropy | None,
    ) -> Self:
        """Of processes that come at once, or after one that died at it, one begins the ledger; the others open it."""
        from dpledger.ledger.stores.postgres import PostgresStore

        store = PostgresStore.open_or_create(address)
        try:
            is_empty = store.tail(None).size == 0
        finally:
            store.close()
        if is_empty:
            if keys_at is None:
                raise ParameterError("keys", "none", "a path beside which the keys of a new ledger are to lie")
            signer, recovery = database_keys(keys_at, name)
            try:
                store = PostgresStore.open(address)
                book = cls.begin(store, signer, recovery, owner=owner, clock=clock, entropy=entropy)
                return book._remembering()
            except (ParameterError, ForeignLedger):
                pass  # another process was first: with these keys, or with its own
        key = None if keys_at is None else KeyFiles.beside(keys_at).find(None)
        return cls.open(address, key=key, clock=clock, entropy=entropy)

    @classmethod
    def _create(
        cls,
        path: str | os.PathLike[str],
        name: str | None,
        owner: keys.VerifyingKey | None,
        *,
        clock: Clock,
        entropy: Entropy | None,
        wait: float = 0.0,
    ) -> Self:
        with founded(path, name, wait=wait) as made:
            begun = cls.begin(made.store, made.signer, made.recovery, owner=owner, clock=clock)
        book = cls(sqlite.SQLiteStore.open(path), made.signer, clock=clock, entropy=entropy)
        book._head = begun._head
        return book._remembering()

    @classmethod
    def in_memory(cls, name: str = "memory", *, clock: Clock = utc_now, entropy: Entropy | None = None) -> Self:
        """A ledger that is lost with the process: for tests and for trying things out."""
        ledger_id = keys.new_ledger_id(name)
        signer, recovery = keys.SigningKey.generate(ledger_id), keys.SigningKey.generate(ledger_id)
        return cls.begin(MemoryStore(), signer, recovery.public, clock=clock, entropy=entropy)

    @classmethod
    def begin(
        cls,
        store: Store,
        signer: keys.Signer,
        recovery: keys.VerifyingKey,
        *,
        owner: keys.VerifyingKey | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> Self:
        """A new ledger in an empty store of the caller's, named as the signer's key is. The handle takes the store
        over: it is closed with it, and if this raises. `owner`: as in `create`."""
        book = cls(store, signer, clock=clock, entropy=entropy, draw=draw, snapshot_every=snapshot_every)
        opened = LedgerOpened(
            format=FORMAT,
            public_key=signer.public.text,
            recovery_key=recovery.text,
            witness="off",
            owner_key=None if owner is None else owner.text,
        )

        def first(state: State, _: Writing) -> Sequence[Body]:
            if state.size:
                raise ParameterError("store", f"{state.size} entries", "an empty store (Ledger.resume opens one)")
            return [opened]

        try:
            book.transact(first)
        except BaseException:
            store.close()
            raise
        return book

    @classmethod
    def resume(
        cls,
        store: Store,
        signer: keys.Signer | None,
        *,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> Self:
        """The ledger in a store of the caller's, whatever it keeps its leaves in; without a signer for reading only.
        The handle takes the store over: it is closed with it, and if this raises.

        What was saved of the fold, and every entry after it, is held against the signed head (`ledger.saved`); `verify`
        looks at all of them. ForeignLedger if the store holds no ledger, or that of
        another key; NewerThanVerifier for entries of a later version; StoreBehind if it lost entries; ForkedProcess for
        a store that a parent process made."""
        book = cls(store, signer, clock=clock, entropy=entropy, draw=draw, snapshot_every=snapshot_every)
        try:
            with logging.failures(book.state):
                found = resumed(store, signer)
                book._head, book._saved = found.head, found.saved
        except BaseException:
            store.close()
            raise
        logging.resumed(book.state)
        return book

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        key: keys.Signer | str | os.PathLike[str] | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """An existing ledger; never creates one. `key`: the signing key or its file (default: `<path>.key` if it is
        there, else DPLEDGER_KEY, else as `look`). ForeignLedger if the file is not a ledger or its head is not signed
        by the key, StoreBehind if it lost entries, also if it is an older copy of what was used here before
        (`ledger.remembered`; `accept_rollback` goes on with it). `path` may be a postgresql:// address, beside which no
        key lies."""
        store, signer = cls._at(path, key)
        return cls.resume(store, signer, clock=clock, entropy=entropy)._remembering()

    @classmethod
    def look(cls, path: str | os.PathLike[str]) -> Self:
        """An existing ledger, for reading only: no key is looked for, the right to read the file is enough, and nothing
        is written beside it. Raises as `open` does, but that of an older copy RollbackSeen warns."""
        if is_address(path):
            from dpledger.ledger.stores.postgres import PostgresStore

            return cls.resume(PostgresStore.open(path), None)._remembering()
        return cls.resume(sqlite.SQLiteStore.look(path), None)._remembering()

    @classmethod
    def accept_rollback(
        cls,
        path: str | os.PathLike[str],
        *,
        by: str,
        reason: str,
        key: keys.Signer | str | os.PathLike[str] | None = None,
    ) -> Entry:
        """Go on with the older copy at `path`, as the newest is lost: the entry says which entries are missing, who
        says so and why. Nobody knows what they charged, so every scope ends; new ones may be opened. ParameterError
        where nothing newer was seen here, or without the signing key; `path` and `key` are as of `open`."""
        store, signer = cls._at(path, key)
        if signer is None:
            store.close()
            raise ParameterError("key", "none", "the signing key of the ledger: accept-rollback writes an entry")
        with cls.resume(store, signer) as book:
            heads = remembered.Heads(book.id)
            seen = heads.newest()
            if seen is None or remembered.rolled_back(seen, book.state.size, store) is None:
                raise ParameterError("ledger", "the newest", "an older copy of a ledger that was used here")
            accepted = RollbackAccepted(size=seen.size, leaf=seen.leaf, by=by, reason=reason)
            entry = book.transact(lambda *_: [accepted])[0]
            heads.keep(remembered.SeenHead.of(book._head), also_older=True)
        return entry

    @classmethod
    def revoke_key(
        cls,
        path: str | os.PathLike[str],
        *,
        recovery: keys.Signer | str | os.PathLike[str],
        last_trusted: int,
        reason: str,
    ) -> Entry:
        """End a ledger whose signing key was stolen. `recovery`: the recovery key, or its file; `last_trusted`: the
        index of the last entry that you know to be yours. What was charged after it counts as spent; what came back
        after it, and keys that it names, do not. ParameterError for an entry that is not there, ForeignLedger for
        another key. `path` is as of `open`."""
        signer = signer_of(recovery)
        assert signer is not None, "one is given"
        store = cls._store_at(path)
        book = cls(store, signer)
        try:
            with logging.failures(book.state):
                book._head = resumed(store, signer, last_trusted=whole(last_trusted, field="last_trusted")).head
            if signer.public.text != book.state.keys.recovery:
                raise ForeignLedger("only the recovery key of a ledger revokes its signing key; this is another one")
            whole(last_trusted, field="last_trusted", most=book.state.size - 1)
            book._remembering()
            body = KeyRevoked(last_trusted=last_trusted, reason=reason)
            return book.transact(lambda *_: [body])[0]
        finally:
            book.close()

    @classmethod
    def _store_at(cls, path: str | os.PathLike[str]) -> Store:
        """What is there to write to."""
        if is_address(path):
            from dpledger.ledger.stores.postgres import PostgresStore

            return PostgresStore.open(path)
        return sqlite.SQLiteStore.open(path)

    @classmethod
    def _at(
        cls, path: str | os.PathLike[str], key: keys.Signer | str | os.PathLike[str] | None
    ) -> tuple[Store, keys.Signer | None]:
        """What is there to write to, and what signs; for reading only where nothing does."""
        if is_address(path):
            return cls._store_at(path), signer_of(key)
        signer = KeyFiles.beside(path).find(key)
        return (sqlite.SQLiteStore.look(path) if signer is None else cls._store_at(path)), signer

    def _remembering(self) -> Self:
        """This handle, which remembers from here on what it saw; refused, and closed, where others saw more. One that
        reads such a copy warns, and remembers nothing of it."""
        heads = remembered.Heads(self.id, warns=self._signer is not None)
        known = heads.newest()
        try:
            with logging.failures(self.state), self._lock:
                self._followed(NOTHING)
                if self._signer is None and remembered.is_behind(known, self.state.size, self._store):
                    return self
                remembered.require_seen(known, self._head, self._store)
        except BaseException:
            self.close()
            raise
        self._heads = heads
        self._remember()
        return self

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def owner(self) -> keys.VerifyingKey | None:
        """The key that has to approve what opens or ends a scope; None where nobody has."""
        return self.state.keys.owner

    def scopes(self) -> tuple[str, ...]:
        """The ids of the scopes, in id order."""
        return tuple(sorted(self.refresh().scopes))

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Write a bundle that anyone can verify offline with the public key: see `ledger.verifying.bundle`."""
        head, leaves = self._signed_part()
        return bundle.write(folder, leaves, head)

    def prove(self, index: int) -> bytes:
        """One entry with its inclusion proof and the signed head, for somebody who sees nothing else of the ledger: see
        `ledger.verifying.proof`. ParameterError unless there is such an entry."""
        head, leaves = self._signed_part()
        return proof.prove(leaves, head, index, self.refresh().keys)

    def backup(self, path: str | os.PathLike[str], *, advance: Advance | None = None) -> Path:
        """Copy the ledger file as it is now, with what lies beside it, into one new file for its owner alone; no key.

        A copy by other means, of a file in use, lacks the last entries and verifies all the same. Append to the ledger
        or to its copy, never to both: two records under one key. `advance` is called with the percent copied.
        ParameterError if something is at `path`, it cannot be written, or the ledger is in memory."""
        self._require_ours()
        if not isinstance(self._store, sqlite.SQLiteStore):
            raise ParameterError("ledger", "one without a file", "a ledger file")
        return self._store.backup(path, advance=advance)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def scope(
        self,
        name: str,
        *,
        unit: Unit | str | None = None,
        relation: Relation | str | None = None,
        budget: Guarantee | Filter | None = None,
        orders: Orders | None = None,
        allowance: Allowance | None = None,
        keep: Keep | None = None,
        parents: Sequence[str] | None = None,
        dataset: str | None = None,
        odometer: Odometer | None = None,
        approval: str | None = None,
    ) -> Scope:
        """The scope called `name`: opened now with `unit`, `relation` and `budget` (a guarantee, or a filter with every
        constant), or, if it is there, the one that is there. ScopeError if it is there with other rules, or is not
        there and one of the three is missing.

        `orders`: the Renyi orders of an approx_dp budget's accounts, alike or as pairs (order, share), in place of two
        that suit most work (docs/proofs/filters.md, "F6").
        `keep`: what of each value is kept: itself (the default, up to 64 KiB, so that a repeated key is answered), a
        salted digest in the entry, or nothing. `parents`: scopes that every charge here is charged to as well.
        `allowance`: so many draws of one law, within an approximate budget.
        `dataset`: a commitment to the data, never the data; what scopes of one dataset come to for one unit is added up
        (`people`), and UnrelatedScopes warns where nothing says whether scopes are about the same unit. `odometer`: a
        second reading beside the filter's, valid at every stopping time: `account().odometer()`.
        `approval`: the owner's, in a ledger that has one (ApprovalNeeded holds the request)."""
        rules = Rules.read(
            name,
            unit,
            relation,
            budget,
            keep,
            parents,
            dataset,
            odometer=odometer,
            orders=orders,
            allowance=allowance,
        )
        existing = self.refresh().scopes.get(name)
        if existing is not None:
            rules.require_same(existing)
            return Scope(self, name)
        body = replace(rules.opening(self.state.scopes), approval=approval)
        approvals.require(self.state, body)
        warn_where_unrelated(self.state, body)

        def open_scope(state: State, _: Writing) -> Sequence[Body]:
            if name in state.scopes:  # another process was first
                rules.require_same(state.scopes[name])
                return []
            try:
                step(state, body)
            except VerificationError as error:
                raise ScopeError(error.reason) from None
            return [body]

        self.transact(open_scope)
        return Scope(self, name)

    def people(self) -> SamePeople:
        """What the scopes come to for one unit, where they name the same dataset; and what of it is not known."""
        return same_people(self.refresh())

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement that nothing here can measure, in the words of `by`. `item`: one of `declarations.ITEMS`, or a
        word of your own that begins with `own_`; UnknownWord, with what may be meant, for another. ParameterError for a
        declaration in which nothing, or nobody, says anything."""
        return self.record(Declared(item=item, text=text, by=by))

    def declare_file(self, path: str | os.PathLike[str]) -> tuple[Entry, ...]:
        """Declare what a YAML file says (`ledger.entries.declared_files` shows its form) and what is not the last word
        already: all of it or, where an item or a scope is unknown, nothing. The new entries; none the second time.
        ParameterError, with the name of the file, for one that cannot be read; ScopeError for a scope that is not open.

        >>> import pathlib, tempfile
        >>> book = Ledger.in_memory()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "declarations.yaml")
        ...     _ = file.write_text("by: A. Lindqvist\\nledger: {region: Europe}\\n")
        ...     len(book.declare_file(file)), len(book.declare_file(file))
        (1, 0)
        """
        from dpledger.ledger.entries import declared_files  # YAML is loaded where a file of it is read

        said = declared_files.read(path)
        last = {_about(entry.body): entry.body for entry in self.entries() if isinstance(entry.body, Declared)}

        def new(state: State, _: Writing) -> Sequence[Body]:
            bodies: list[Body] = []
            if not state.scopes and (scope := next((one.scope for one in said if one.scope), "")):
                raise ScopeError(
                    f"no scope {scope!r} in this ledger, which has none yet; leave out `scopes:` until somebody has "
                    "opened it in Python (docs/start.md, 2)"
                )
            for one in said:
                body = one.body()
                before = last.get((one.scope, one.item))
                if before is None or (before.text, before.by) != (body.text, body.by):
                    placed = notes.placed(body, (one.scope,) if one.scope else (), state)
                    state = step(state, placed)
                    bodies.append(placed)
            return bodies

        return self.transact(new)

    def intend(self, audit: Intended | notes.Noted, *, about: Sequence[str] = ()) -> Entry:
        """Say that an audit will be made, before its first run: of what, with which claim, trials, confidence and seed.
        Give the entry's index to `record` with the result. A report tells of what was intended and never finished, so
        that nobody can run audits until one pleases and record that one alone. `about`: the scopes it is about.
        ParameterError for what is no audit that can be run.

        >>> book = dpl.Ledger.in_memory()
        >>> audit = dpl.Audit(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1)
        >>> said = book.intend(audit)
        >>> book.record(audit.run(), intended=said.index).body.intended == said.index
        True
        """
        return self.record(notes.intention_of(audit), about=about)

    def rotate_key(self, successor: keys.Signer) -> Entry:
        """The ledger's key is that of `successor` from the next entry on; this handle goes on with it. Give its public
        half to those who verify: they may hold either. Whoever has the old key can sign no further entry, but can
        still show another history to those who hold nothing newer (SECURITY.md). ParameterError for a key that is
        named after another ledger, or was one of this one's before."""
        if not isinstance(successor, keys.Signer):
            raise ParameterError("successor", type(successor).__name__, "a SigningKey, or another Signer")
        body = KeyRotated(public_key=successor.public.text)
        return self._named_key(body, "successor", successor)

    def rotate_owner(self, owner: keys.VerifyingKey | str | os.PathLike[str], *, approval: str | None = None) -> Entry:
        """From the next entry on, `owner` (a public key, or its file) approves what opens or ends a scope. `approval`:
        that of the owner before or, where that key is lost or stolen, of the recovery key (ApprovalNeeded holds the
        request). ParameterError for a key that was an owner's before, or is one of the ledger's own."""
        new = _owner(owner)
        assert new is not None, "one is given"
        body = OwnerRotated(owner_key=new.text, approval=approval)
        approvals.require(self.refresh(), body)
        return self._named_key(body, "owner", None)

    def _named_key(self, body: KeyRotated | OwnerRotated, field: str, successor: keys.Signer | None) -> Entry:
        def named(state: State, _: Writing) -> Sequence[Body]:
            try:
                state.keys.after(state.size, body)
            except VerificationError as error:
                raise ParameterError(field, "a key", f"another one: this {error.reason}") from None
            return [body]

        return self.transact(named, successor=successor)[0]

    def end(self, reason: str, *, approval: str | None = None) -> Entry:
        """The last entry: nothing may follow. Charges that are open count at their caps, for ever. `approval`: the
        owner's, in a ledger that has one (ApprovalNeeded holds the request)."""
        body = Closed(reason=reason, approval=approval)
        approvals.require(self.refresh(), body)
        return self.transact(lambda *_: [body])[0]


def _owner(key: keys.VerifyingKey | str | os.PathLike[str] | None) -> keys.VerifyingKey | None:
    if key is None or isinstance(key, keys.VerifyingKey):
        return key
    if not isinstance(key, (str, os.PathLike)):
        raise ParameterError("owner", type(key).__name__, "the public key of an owner: its text or its file")
    return read_public_key(key)


def _about(declared: Declared) -> tuple[str, str]:
    """The scope, or an empty text, and the item."""
    return (declared.path[0].scope if declared.path else "", declared.item)
