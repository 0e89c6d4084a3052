"""Where audits at the command line record what came of them: a ledger, and a scope in it if they are about one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpledger.cli import passphrases
from dpledger.errors import DpledgerError, ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee
    from dpledger.audit import Audit, AuditResult, ExPostClaim
    from dpledger.cli.audited_code import AuditedPair
    from dpledger.ledger.entries.bodies import Audited, Body
    from dpledger.ledger.handle.writing import Writing
    from dpledger.ledger.rules.notes import Noted
    from dpledger.ledger.rules.scope_state import State

__all__ = ["Record"]


@dataclass(frozen=True, slots=True)
class Record:
    """Where the result is noted, about which scope, if any; `ledger` None: nowhere. The file is open no longer than it
    takes to look and to write: what is audited may take hours, and may use the ledger itself."""

    ledger: str | None
    scope: str | None

    def rules(self) -> dict[str, Any]:
        """What is audited is audited as it would run in the scope. Raises before anything is run what would stand
        against its entry."""
        if self.ledger is None:
            if self.scope is not None:
                raise ParameterError("scope", self.scope, "--ledger as well: the ledger that it is in")
            return {}
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.rules import notes

        with Ledger.open(self.ledger, passphrase=passphrases.asked) as book:
            about = None if self.scope is None else book.scope(self.scope)

            def nothing_yet(state: State, _: Writing) -> Sequence[Body]:
                notes.require_open(state, self._about())
                return []

            book.transact(nothing_yet)
            return {} if about is None else {"relation": about.relation, "unit": about.unit}

    def earlier(self, index: int) -> Audited:
        """The audit that the entry at `index` holds, its signature verified."""
        from dpledger.ledger.entries.bodies import Audited
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(self._required("again", index)) as book:
            body = book.entry(index).body
        if not isinstance(body, Audited):
            raise ParameterError("again", f"entry {index}, {body.kind}", "the index of an entry `audited`")
        return body

    def repeated(self, earlier: Audited, subject: AuditedPair, loss: Guarantee | ExPostClaim | None) -> Audit:
        """The audit of an entry, as it is run again; `loss`: the ex-post claim that was named."""
        from dpledger.audit import Audit, ExPostClaim
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(self._required("again", "an entry")) as book:
            units = [book.state.scope(level.scope).unit for level in earlier.path]
        claims = [claim for claim in (loss, subject.claim) if isinstance(claim, ExPostClaim)]
        return Audit.again(
            earlier,
            subject.mechanism,
            subject.left,
            subject.right,
            loss=claims[0] if claims else None,
            batched=subject.batched,
            **({"unit": units[0]} if units else {}),
        )

    def intend(self, asked: Audit) -> int:
        """The index of the entry that says, before its first run, that it will be made."""
        from dpledger.ledger.ledger import Ledger

        with Ledger.open(self._required("intend", "an audit"), passphrase=passphrases.asked) as book:
            return book.intend(asked, about=self._about()).index

    def note(self, result: AuditResult, intended: int | None) -> dict[str, Any]:
        """The index of its entry, or why there is none; the result stands either way."""
        if self.ledger is None:
            return {}
        from dpledger.ledger.ledger import Ledger

        try:
            with Ledger.open(self.ledger, passphrase=passphrases.asked) as book:
                return {"entry": book.record(result, about=self._about(), intended=intended).index}
        except DpledgerError as error:
            return {"not_recorded": str(error)}

    def note_results(self, results: Sequence[Noted]) -> list[int]:
        """The indexes of their entries; none without a ledger."""
        if self.ledger is None:
            return []
        from dpledger.ledger.ledger import Ledger

        with Ledger.open(self.ledger, passphrase=passphrases.asked) as book:
            return [book.record(result, about=self._about()).index for result in results]

    def _required(self, field: str, value: object) -> str:
        if self.ledger is None:
            raise ParameterError(field, str(value), "--ledger as well: the ledger that it is in")
        return self.ledger

    def _about(self) -> list[str]:
        return [] if self.scope is None else [self.scope]
