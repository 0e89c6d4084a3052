"""The ledger: it gives bodies their place, signs them, and keeps them in a store. The wiring that people touch.

>>> book = Ledger.in_memory()
>>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1))
>>> [entry.body.kind for entry in book.entries()]
['ledger_opened', 'scope_opened']
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import Filter, Orders
from dpledger.accounting.guarantees import Guarantee, PureDP
from dpledger.accounting.planning.allotting import Allowance
from dpledger.errors import ParameterError, ScopeError, VerificationError, shown
from dpledger.ledger.accounts.overlap import SamePeople, same_people, warn_where_unrelated
from dpledger.ledger.entries.bodies import Body, Closed, Declared, Intended, KeyRotated, OwnerRotated
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.handle.handles import LedgerHandle
from dpledger.ledger.handle.writing import Writing
from dpledger.ledger.rules import approvals, notes
from dpledger.ledger.rules.opening import Keep, Rules
from dpledger.ledger.rules.scope_state import State
from dpledger.ledger.rules.transitions import step
from dpledger.ledger.scope import Scope
from dpledger.ledger.signed import keys
from dpledger.ledger.signed.keyfiles import public_key_of
from dpledger.ledger.stores import sqlite
from dpledger.ledger.verifying import bundle, proof
from dpledger.progress import Advance
from dpledger.relations import Relation, Unit

__all__ = ["Ledger", "PureDP"]


class Ledger(LedgerHandle):
    """An append-only, signed record of what was released, and the gate that admits each release.

    A handle belongs to the process that made it, does not pickle, and refuses to work in a forked child. It may be
    shared by threads. Use `open_or_create`, `create`, `open` or `in_memory`, or `begin` and `resume` with a store of
    your own; close it, or use it as a context.

    >>> book = dpl.Ledger.in_memory()  # `Ledger.open_or_create("clinic.ledger")` keeps it in a file
    >>> scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"))
    >>> receipt = scope.release(dpl.Count(epsilon="0.1", of="rows"), ["a", "b", "c"])
    >>> [entry.body.kind for entry in book.entries()]
    ['ledger_opened', 'scope_opened', 'reserved', 'committed']
    """

    # ---- reading ----------------------------------------------------------------------------------------------------

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
        """Copy the ledger file as it is now, with its log, into one new file that only its owner can read; no key is
        copied.

        A copy by other means of a file in use lacks the last entries, and still verifies. Append to the ledger
        or to its copy, never to both: two records under one key. `advance` is called with the percent copied.
        ParameterError if something is at `path`, it cannot be written, or the ledger is in memory."""
        self._require_ours()
        if not isinstance(self._store, sqlite.SQLiteStore):
            expected = "a ledger file (of a database: pg_dump; and `export` writes a bundle of any ledger)"
            raise ParameterError("ledger", "one without a file", expected)
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
        """The scope called `name`. If it does not exist, it is opened with `unit`, `relation` and `budget` (a
        guarantee, or a filter with every constant). ScopeError if it exists with other rules, or does not exist and one
        of the three is missing.

        `orders`: the Renyi orders of an approx_dp budget's accounts, alike or as pairs (order, share), in place of two
        that suit most work (docs/proofs/filters.md, "F6").
        `keep`: what is kept of each value: the value (the default, up to 64 KiB, so that a repeated key is answered), a
        salted digest in the entry, or nothing. `parents`: scopes to which every charge here is charged as well.
        `allowance`: a fixed number of draws of one law, within an approximate budget. `dataset`: a commitment to the
        data, never the data; scopes of one dataset are added up for one unit (`people`), and UnrelatedScopes warns if
        nothing says whether scopes are about the same unit. `odometer`: a second reading beside the filter's, valid at
        every stopping time: `account().odometer()`. `approval`: the owner's, in a ledger that has one (ApprovalNeeded
        holds the request)."""
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
        """What scopes that name the same dataset come to for one unit; and what of it is not known."""
        return same_people(self.refresh())

    def declare(self, item: str, text: str, *, by: str) -> Entry:
        """A statement that nothing here can measure, in the words of `by`. `item`: one of `declarations.ITEMS`, or a
        word of your own that begins with `own_`; UnknownWord, with what may be meant, for another. ParameterError for a
        declaration in which nothing, or nobody, says anything."""
        return self.record(Declared(item=item, text=text, by=by))

    def declare_file(self, path: str | os.PathLike[str]) -> tuple[Entry, ...]:
        """Declare what a YAML file says (`ledger.entries.declared_files` shows its form), except what the ledger says
        already. If an item or a scope is unknown, nothing is declared. Returns the new entries; none the second time.
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
                    try:
                        placed = notes.placed(body, (one.scope,) if one.scope else (), state)
                    except ScopeError as error:
                        raise ScopeError(f"{shown(str(path))}, {one.place}: {error}") from None
                    state = step(state, placed)
                    bodies.append(placed)
            return bodies

        return self.transact(new)

    def intend(self, audit: Intended | notes.Noted, *, about: Sequence[str] = ()) -> Entry:
        """Record, before its first run, that an audit will be made: of what, with which claim, trials, confidence and
        seed. Give the entry's index to `record` with the result. A report names audits that were intended and never
        finished, so that nobody can run audits until one pleases and record only that one. `about`: the scopes it is
        about. ParameterError for what is no audit that can be run.

        >>> book = dpl.Ledger.in_memory()
        >>> audit = dpl.Audit(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1)
        >>> said = book.intend(audit)
        >>> book.record(audit.run(), intended=said.index).body.intended == said.index
        True
        """
        return self.record(notes.intention_of(audit), about=about)

    def rotate_key(self, successor: keys.Signer) -> Entry:
        """From the next entry on, the ledger's key is that of `successor`, with which this handle continues. Give its
        public half to those who verify: they may hold either key. Whoever has the old key can sign no further entry,
        but can still show another history to those who hold nothing newer (SECURITY.md). ParameterError for a key that
        is named after another ledger, or was one of this one's before."""
        if not isinstance(successor, keys.Signer):
            raise ParameterError("successor", type(successor).__name__, "a SigningKey, or another Signer")
        body = KeyRotated(public_key=successor.public.text)
        return self._named_key(body, "successor", successor)

    def rotate_owner(self, owner: keys.VerifyingKey | str | os.PathLike[str], *, approval: str | None = None) -> Entry:
        """From the next entry on, `owner` (a public key, or its file) approves what opens or ends a scope. `approval`:
        that of the owner before or, where that key is lost or stolen, of the recovery key (ApprovalNeeded holds the
        request). ParameterError for a key that was an owner's before, or is one of the ledger's own."""
        new = public_key_of(owner, "owner")
        body = OwnerRotated(owner_key=new.text, approval=approval)
        state = self.refresh()
        _require_usable(state, body, "owner")
        approvals.require(state, body)
        return self._named_key(body, "owner", None)

    def _named_key(self, body: KeyRotated | OwnerRotated, field: str, successor: keys.Signer | None) -> Entry:
        def named(state: State, _: Writing) -> Sequence[Body]:
            _require_usable(state, body, field)
            return [body]

        return self.transact(named, successor=successor)[0]

    def end(self, reason: str, *, approval: str | None = None) -> Entry:
        """The last entry: nothing may follow. Charges that are open count at their caps, for ever. `approval`: the
        owner's, in a ledger that has one (ApprovalNeeded holds the request)."""
        body = Closed(reason=reason, approval=approval)
        approvals.require(self.refresh(), body)
        return self.transact(lambda *_: [body])[0]


def _about(declared: Declared) -> tuple[str, str]:
    """The scope, or an empty text, and the item."""
    return (declared.path[0].scope if declared.path else "", declared.item)


def _require_usable(state: State, body: KeyRotated | OwnerRotated, field: str) -> None:
    """ParameterError, naming `field`, for a key that cannot follow those of the ledger."""
    try:
        state.keys.after(state.size, body)
    except VerificationError as error:
        raise ParameterError(field, "a key", f"another one: this {error.reason}") from None
