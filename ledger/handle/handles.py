"""How a handle of a ledger comes to be: of a new ledger, of one that lies somewhere, or of one that is mended."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dpledger.decimals import whole
from dpledger.errors import ForeignLedger, ParameterError
from dpledger.files import path_of
from dpledger.ledger import remembered
from dpledger.ledger.entries.bodies import FORMAT, Body, KeyRevoked, LedgerOpened, RollbackAccepted
from dpledger.ledger.entries.entry import Entry, entry_of
from dpledger.ledger.handle import logging
from dpledger.ledger.handle.create import founded, founded_in_database
from dpledger.ledger.handle.log import SNAPSHOT_EVERY, Draw, Handle
from dpledger.ledger.handle.writing import Clock, Writing, utc_now
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.signed import keys
from dpledger.ledger.signed.keyfiles import KeyFiles, public_key_of, signer_of
from dpledger.ledger.signed.keys import Passphrase, said_once
from dpledger.ledger.signers.named import is_elsewhere, signer_named
from dpledger.ledger.stores import sqlite
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.places import Place, is_address, looked, opened, signer_at
from dpledger.ledger.stores.protocol import NOTHING, Store
from dpledger.ledger.tip import resumed
from dpledger.ledger.witnessing.policy import WitnessPolicy, read_policy
from dpledger.mechanisms.entropy import Entropy

__all__ = ["LedgerHandle"]

WAIT_SECONDS = 10.0  # for another process that makes the same ledger


class LedgerHandle(Handle):
    """A handle of a new or an existing ledger, which remembers the newest head that it saw."""

    @property
    def owner(self) -> keys.VerifyingKey | None:
        """The key of the owner, who approves what opens or ends a scope; None if the ledger has no owner."""
        return self.state.keys.owner

    @classmethod
    def create(
        cls,
        path: Place,
        *,
        name: str | None = None,
        keys: str | os.PathLike[str] | None = None,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None = None,
        witnesses: WitnessPolicy | str | os.PathLike[str] | None = None,
        passphrase: Passphrase | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """A new ledger file, its signing key (`<path>.key`), the public key (`<path>.pub`) and the recovery key
        (`<path>.recovery.key`, which revokes: move it offline). ParameterError if any of them is there already. If it
        cannot finish, it leaves nothing behind; if the process dies, all four are there, or `create` makes them anew.
        `owner`: the public key, or its file, of the owner, who approves what opens or ends a scope (`rules.approvals`).
        `witnesses`: the file of a policy (`ledger.witnessing.policy`): no data are read before these have cosigned.
        `passphrase`: locks both private files; text, or a function that gives it. `path` may be a postgresql://
        address, and `keys` says where its keys are written: see `open_or_create`."""
        who = _Named.read(owner, witnesses)
        if not is_address(path):
            _no_keys(keys)
            return cls._create(path, name, who, said_once(passphrase), clock=clock, entropy=entropy)
        book = cls._in_database(path, name, keys, who, said_once(passphrase), clock, entropy)
        if book is None:
            raise ParameterError("ledger", "one with entries", "an address where no ledger is yet")
        return book

    @classmethod
    def open_or_create(
        cls,
        path: Place,
        *,
        name: str | None = None,
        keys: str | os.PathLike[str] | None = None,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None = None,
        witnesses: WitnessPolicy | str | os.PathLike[str] | None = None,
        passphrase: Passphrase | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """The ledger at `path`: an existing one (see `open`), else a new one (see `create`). So a script may run twice,
        or two scripts at once: they get the same ledger. `name`, `owner`, `witnesses` are for a new one; ParameterError
        if an existing one has others. Witnesses are asked at the addresses in this policy.

        `path` may be a postgresql:// address (extra `postgres`, docs/team.md). `keys`: for a ledger there, the path
        beside which its keys lie or are written, `<keys>.key` and so on; ParameterError if the ledger exists and its
        key does not, StoreBehind if the keys are of a ledger and none is there. Without `keys`, the key is in
        DPLEDGER_KEY, or the ledger is open for reading only.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ids = [dpl.Ledger.open_or_create(f"{folder}/clinic.ledger", name="clinic").id for _ in range(2)]
        >>> ids[0] == ids[1]
        True
        """
        who = _Named.read(owner, witnesses)
        if is_address(path):
            book = cls._in_database(path, name, keys, who, passphrase, clock, entropy)
            if book is None:
                book = cls._opened_with(path, keys, passphrase, clock, entropy)
            return cls._named(book, name, who, "this address")
        _no_keys(keys)
        file = path_of(path, "ledger")
        if not os.path.exists(file):
            try:
                return cls._create(file, name, who, passphrase, clock=clock, entropy=entropy, wait=WAIT_SECONDS)
            except ParameterError:
                if not os.path.exists(file):
                    raise
        book = cls.open(file, passphrase=passphrase, clock=clock, entropy=entropy)
        return cls._named(book, name, who, str(file))

    @classmethod
    def _named(cls, book: Self, name: str | None, who: _Named, place: str) -> Self:
        """`book`, if it has that name, that owner and those witnesses, who are asked as `who` says."""
        found = book.id.rpartition("/")[0]
        if name is not None and (not isinstance(name, str) or name != found):
            book.close()
            raise ParameterError("name", name, f"that of the ledger at {place}, {found!r}, or none")
        if who.owner is not None and who.owner != book.owner:
            book.close()
            raise ParameterError("owner", "another key", f"that of the ledger at {place}, or none")
        if who.witnesses is not None:
            try:
                book._watch_by(who.witnesses)
            except ParameterError:
                book.close()
                raise
        return book

    @classmethod
    def _in_database(
        cls,
        address: str,
        name: str | None,
        keys_at: str | os.PathLike[str] | None,
        who: _Named,
        passphrase: Passphrase | None,
        clock: Clock,
        entropy: Entropy | None,
    ) -> Self | None:
        """A new ledger at `address`; None where one is there. Of processes that come at once, or after one that died at
        it, one begins the ledger."""
        passphrase = said_once(passphrase)
        with founded_in_database(address, keys_at, name, passphrase, wait=WAIT_SECONDS) as made:
            if made is None:
                return None
            try:
                cls.begin(
                    made.store, made.signer, made.recovery, owner=who.owner, witnesses=who.witnesses, clock=clock
                ).close()
            except (ParameterError, ForeignLedger):
                if not _is_begun(address):
                    raise
                return None  # another process was first: with these keys, or with its own
        return cls._opened_with(address, keys_at, passphrase, clock, entropy)

    @classmethod
    def _opened_with(
        cls,
        address: str,
        keys_at: str | os.PathLike[str] | None,
        passphrase: Passphrase | None,
        clock: Clock,
        entropy: Entropy | None,
    ) -> Self:
        """The ledger at `address`, with the keys there, whose public one is written once the ledger is begun."""
        files = None if keys_at is None else KeyFiles.beside(keys_at)
        key = None if files is None else files.signing
        book = cls.open(address, key=key, passphrase=passphrase, clock=clock, entropy=entropy)
        try:
            if files is not None and os.path.exists(files.recovery):  # where the ledger was begun
                files.save_public(book.public_key)
        except BaseException:
            book.close()
            raise
        return book

    @classmethod
    def _create(
        cls,
        path: str | os.PathLike[str],
        name: str | None,
        who: _Named,
        passphrase: Passphrase | None,
        *,
        clock: Clock,
        entropy: Entropy | None,
        wait: float = 0.0,
    ) -> Self:
        with founded(path, name, said_once(passphrase), wait=wait) as made:
            begun = cls.begin(
                made.store, made.signer, made.recovery, owner=who.owner, witnesses=who.witnesses, clock=clock
            )
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
        witnesses: WitnessPolicy | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
        draw: Draw = secrets.token_bytes,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> Self:
        """A new ledger in the caller's own, empty store, named like the signer's key. The handle takes over the store,
        and closes it when it is closed itself, or if this raises. `owner`, `witnesses`: as in `create`."""
        book = cls(store, signer, clock=clock, entropy=entropy, draw=draw, snapshot_every=snapshot_every)
        opened = LedgerOpened(
            format=FORMAT,
            public_key=signer.public.text,
            recovery_key=recovery.text,
            witness="off" if witnesses is None else "before",
            witness_policy=None if witnesses is None else witnesses.text,
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
        """The ledger in the caller's own store; without a signer, for reading only. The handle takes over the store,
        and closes it when it is closed itself, or if this raises.

        What was saved of the fold, and every entry after it, is checked against the signed head (`ledger.saved`);
        `verify` checks all entries. ForeignLedger if the store holds no ledger, or that of another key;
        NewerThanVerifier for entries of a later version; StoreBehind if it lost entries; ForkedProcess for a store that
        a parent process made."""
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
        path: Place,
        *,
        key: keys.Signer | str | os.PathLike[str] | None = None,
        passphrase: Passphrase | None = None,
        clock: Clock = utc_now,
        entropy: Entropy | None = None,
    ) -> Self:
        """An existing ledger; never creates one. `key`: the signing key or its file, `ssh-agent:` and the comment or
        fingerprint of a key in an agent, or `hv:NAME`, a key in Vault (default: `<path>.key` if it is there, else
        DPLEDGER_KEY, else as `look`). `passphrase`: that of a locked key file; text, or a function that gives it and is
        called for a locked file only. ForeignLedger if the file is not a ledger or its head is not signed by the key,
        StoreBehind if it lost entries, also if it is an older copy of what was used here before (`ledger.remembered`;
        to continue from it, see `accept_rollback`). `path` may be a postgresql:// address, beside which no key lies."""
        store, signer = cls._at(path, key, passphrase)
        book = cls.resume(store, signer, clock=clock, entropy=entropy)._remembering()
        in_a_file = key is not None and not isinstance(key, keys.Signer) and not is_elsewhere(key)
        book._key_file = str(path_of(key, "key").absolute()) if in_a_file else None
        return book

    @classmethod
    def look(cls, path: Place) -> Self:
        """An existing ledger, for reading only. It needs no key, only the right to read the file, and writes nothing
        beside it. Raises as `open` does, but only warns of an older copy (RollbackSeen)."""
        return cls.resume(looked(path), None)._remembering()

    @classmethod
    def accept_rollback(
        cls,
        path: Place,
        *,
        by: str,
        reason: str,
        key: keys.Signer | str | os.PathLike[str] | None = None,
        passphrase: Passphrase | None = None,
    ) -> Entry:
        """Continue from the older copy at `path`, because the newest is lost. The entry says which entries are missing,
        who says so and why. Nobody knows what they charged, so every scope ends; new ones may be opened. ParameterError
        if nothing newer was seen here, or without the signing key; `path` and `key` are as of `open`."""
        store, signer = cls._at(path, key, passphrase)
        if signer is None:
            store.close()
            raise ParameterError("key", "none", "the signing key of the ledger: accept-rollback writes an entry")
        with cls.resume(store, signer) as book:
            heads = remembered.Heads(book.id)
            seen = heads.newest()
            if seen is None or remembered.rolled_back(seen, book.state.size, store) is None:
                got, expected = "the newest that was seen here", "an older copy of a ledger that was used here"
                raise ParameterError("ledger", got, expected)
            accepted = RollbackAccepted(size=seen.size, leaf=seen.leaf, by=by, reason=reason)
            entry = book.transact(lambda *_: [accepted])[0]
            heads.keep(remembered.SeenHead.of(book._head), also_older=True)
        return entry

    @classmethod
    def revoke_key(
        cls,
        path: Place,
        *,
        recovery: keys.Signer | str | os.PathLike[str],
        last_trusted: int,
        reason: str,
        passphrase: Passphrase | None = None,
    ) -> Entry:
        """End a ledger whose signing key was stolen. `recovery`: the recovery key, or its file; `last_trusted`: the
        index of the last entry that you know to be yours. Charges after it count as spent; refunds after it, and keys
        that later entries name, do not count. ParameterError for an entry that is not there, ForeignLedger for another
        key. `path` is as of `open`."""
        signer = None if recovery is None else signer_of(recovery, passphrase)
        if signer is None:
            raise ParameterError("recovery", "none", "the recovery key of the ledger, or its file")
        store = opened(path)
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
    def _at(
        cls, path: Place, key: keys.Signer | str | os.PathLike[str] | None, passphrase: Passphrase | None
    ) -> tuple[Store, keys.Signer | None]:
        """What is there to write to, and what signs; for reading only where nothing does."""
        if isinstance(key, str) and is_elsewhere(key):
            store = opened(path)
            try:
                return store, signer_named(key, _id_in(store))
            except BaseException:
                store.close()
                raise
        signer = signer_at(path, key, passphrase)
        return (looked if signer is None else opened)(path), signer

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


@dataclass(frozen=True, slots=True)
class _Named:
    """Whom the first entry of a ledger names beside its own keys."""

    owner: keys.VerifyingKey | None
    witnesses: WitnessPolicy | None

    @classmethod
    def read(
        cls,
        owner: keys.VerifyingKey | str | os.PathLike[str] | None,
        witnesses: WitnessPolicy | str | os.PathLike[str] | None,
    ) -> Self:
        """From what a caller gave: keys and a policy, or their files."""
        return cls(
            None if owner is None else public_key_of(owner, "owner"),
            None if witnesses is None else read_policy(witnesses),
        )


def _id_in(store: Store) -> str:
    """The id of the ledger in a store, as its first entry says; it is held against the key."""
    for leaf in store.leaves(0, 1):
        return entry_of(leaf).ledger
    raise ForeignLedger("the store holds no entry: it was never a whole ledger")


def _no_keys(keys_at: object) -> None:
    if keys_at is not None:
        raise ParameterError("keys", type(keys_at).__name__, "none: the keys of a ledger file lie beside it")


def _is_begun(address: str) -> bool:
    store = opened(address)
    try:
        return store.tail(None).size > 0
    finally:
        store.close()
