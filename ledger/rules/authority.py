"""Who may sign what in a ledger: its key, one that took over from it, or one to which it delegated entries.

Everything goes by index. At each index one key signs the entry: that to which the ledger's key delegated it, else the
ledger's key in force. The ledger's key itself signs what names another key (`key_rotated`, `key_delegated`), and the
recovery key `key_revoked`. A head of n leaves is signed by whoever may sign entry n. So each key is first used right
after the entry that names it, and no key ever comes back.

>>> from dpledger.ledger.signed.keys import SigningKey
>>> keys = [SigningKey.from_seed("clinic-" + "0" * 32, bytes([seed]) * 32).public.text for seed in (1, 2, 3)]
>>> authority = Authority(terms=(Term(key=keys[0], first=0),), recovery=keys[1]).with_key(7, keys[2])
>>> authority.usual(7).text == keys[0], authority.usual(8).text == keys[2], authority.of_head(8).text == keys[2]
(True, True, True)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self, TypeAlias, assert_never

from dpledger.errors import ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Body, KeyDelegated, KeyRevoked, KeyRotated, LedgerOpened, OwnerRotated
from dpledger.ledger.signed.keys import VerifyingKey

__all__ = ["KEY_ENTRIES", "Authority", "NamesKeys", "Term", "key_of"]

NamesKeys: TypeAlias = KeyRotated | KeyDelegated | OwnerRotated | KeyRevoked
"""The entries that change who may sign."""
KEY_ENTRIES = (KeyRotated, KeyDelegated)
"""What the ledger's key signs itself, also where it delegated the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The key, as text, that signs entry `first` and those after it: until another is named, or, where it was
    delegated, up to entry `last`."""

    key: str
    first: int
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The keys of a ledger, as text. `terms`: those that sign, in the order in which they were named; `owners`: who
    approves, the newest last; `revoked`: whether the recovery key ended the ledger. `recovery` is None where nobody
    said which it is."""

    terms: tuple[Term, ...]
    recovery: str | None
    owners: tuple[str, ...] = ()
    revoked: bool = False

    @classmethod
    def opened(cls, body: LedgerOpened) -> Self:
        """Of a ledger that begins. VerificationError where its keys are no keys, or not each another one."""
        key, recovery = key_of(body.public_key), key_of(body.recovery_key)
        if recovery.name != key.name or recovery.key_id == key.key_id:
            raise VerificationError("names no recovery key of its own")
        begun = cls(terms=(Term(key=key.text, first=0),), recovery=recovery.text)
        return begun if body.owner_key is None else begun._with_owner(body.owner_key)

    # ---- who signs --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The ledger's id, which all its keys bear."""
        return key_of(self.terms[0].key).name

    @property
    def owner(self) -> VerifyingKey | None:
        """Who approves now; None where nobody is asked."""
        return key_of(self.owners[-1]) if self.owners else None

    def own(self, index: int) -> VerifyingKey:
        """The ledger's key in force at `index`: it signs key entries."""
        return key_of(next(term.key for term in reversed(self.terms) if term.last is None and term.first <= index))

    def usual(self, index: int) -> VerifyingKey:
        """The key that signs an entry at `index` which names no key."""
        return key_of(self.term(index).key)

    def term(self, index: int) -> Term:
        """The term in which an entry at `index` lies."""
        lasting = (term for term in reversed(self.terms) if term.first <= index)
        term = next(lasting)
        if term.last is None or index <= term.last:
            return term
        return next(term for term in lasting if term.last is None)

    def signer(self, index: int, body: Body) -> VerifyingKey:
        """The key that signs `body` at `index`."""
        if isinstance(body, KeyRevoked):
            return self._revoking()
        return self.own(index) if isinstance(body, KEY_ENTRIES) else self.usual(index)

    def of_head(self, size: int) -> VerifyingKey:
        """The key that signs the head of `size` leaves."""
        return self._revoking() if self.revoked else self.usual(size)

    def _revoking(self) -> VerifyingKey:
        if self.recovery is None:
            raise VerificationError("its recovery key is not known here")
        return key_of(self.recovery)

    def one_of(self, index: int, key_id: str) -> VerifyingKey:
        """The key with that id (8 hexadecimal digits) which may sign something at `index`. VerificationError for none:
        what it may sign, `require` says once it is read."""
        usual = self.usual(index)
        for text in (usual.text, self.own(index).text, self.recovery):
            key = usual if text is None else key_of(text)
            if key.key_id_hex == key_id:
                return key
        raise VerificationError(f"signed by key {key_id}, the key in force is {usual.key_id_hex}")

    def require(self, index: int, body: Body, key_id: str) -> None:
        """VerificationError unless the key with that id signs `body` at `index`."""
        expected = self.signer(index, body).key_id_hex
        if key_id != expected:
            raise VerificationError(f"signed by key {key_id}, an entry of this kind by {expected}")

    def require_trusted(self, key: VerifyingKey, last_trusted: int | None = None) -> None:
        """VerificationError unless `key` is, or was, the ledger's own: the one that a verifier holds. One that a
        revocation takes back is not: it was named after the entry `last_trusted`."""
        own = [term for term in self.terms if term.last is None]
        named = next((term for term in own if term.key == key.text), None)
        if named is None:
            raise VerificationError(
                f"the key that was given, {key.key_id_hex}, is not a key of this record, whose own are "
                f"{', '.join(key_of(term.key).key_id_hex for term in own)}. "
                "Either the record is another one, or it is older than that key"
            )
        if last_trusted is not None and last_trusted < named.first - 1:
            raise VerificationError(
                f"the key that was given, {key.key_id_hex}, was named after entry {last_trusted}, and the record ends "
                "with a revocation of all that came after that entry: verify it with the key before"
            )

    # ---- what changes it --------------------------------------------------------------------------------------------

    def after(self, index: int, body: NamesKeys) -> Self:
        """Once `body` stands at `index`. VerificationError for a key that cannot be used, or has been one of the
        ledger's before."""
        match body:
            case KeyRotated(public_key=key):
                return self.with_key(index, key)
            case KeyDelegated(public_key=key, last=last):
                return self._delegating(index, key, last)
            case OwnerRotated(owner_key=key):
                if not self.owners:
                    raise VerificationError("a new owner, where the ledger names none")
                return self._with_owner(key)
            case KeyRevoked(last_trusted=last):
                if last >= index:
                    raise VerificationError("trusts entries that are not there yet")
                return replace(self, revoked=True)
            case _:
                assert_never(body)

    def with_key(self, index: int, key: str) -> Self:
        """The ledger's key is another one from the next index on."""
        self._require_new(key)
        return replace(self, terms=(*self.terms, Term(key=key, first=index + 1)))

    def _delegating(self, index: int, key: str | None, last: int | None) -> Self:
        if key is None or last is None:
            if (key, last) != (None, None):
                raise VerificationError("a delegation names a key and its last entry, or neither")
            if self.usual(index) == self.own(index):
                raise VerificationError("ends a delegation, where none is in force")
            return replace(self, terms=(*self.terms, Term(key=self.own(index).text, first=index + 1)))
        self._require_new(key)
        if last <= index:
            raise VerificationError("a delegation that ends before it begins")
        return replace(self, terms=(*self.terms, Term(key=key, first=index + 1, last=last)))

    def _require_new(self, key: str) -> None:
        new = key_of(key)
        if new.name != self.name:
            raise VerificationError("names a key of another ledger")
        if any(_key_id(key) == _key_id(old) for old in self._all()):  # of thousands none is parsed again
            raise VerificationError("names a key that was one of the ledger's before: none comes back")
        if any(new.public == key_of(owner).public for owner in self.owners):
            raise VerificationError("names the owner's key: two keys are two secrets")

    def _all(self) -> tuple[str, ...]:
        """Every key that bears the ledger's name."""
        return (*(term.key for term in self.terms), *(() if self.recovery is None else (self.recovery,)))

    def _with_owner(self, key: str) -> Self:
        new = key_of(key)
        if any(new.public == key_of(own).public for own in self._all()):
            raise VerificationError("the owner's key is one of the ledger's own: two keys are two secrets")
        if any(new.public == key_of(old).public for old in self.owners):  # under another name it is the same secret
            raise VerificationError("names an owner's key that was one before: none comes back")
        return replace(self, owners=(*self.owners, key))


def _key_id(text: str) -> str:
    """Of a key that was parsed: the second part of its one text."""
    return text.split("+", 2)[1]


@lru_cache(maxsize=1024)
def key_of(text: str) -> VerifyingKey:
    """The key of a text in an entry. VerificationError for one that cannot be used."""
    try:
        return VerifyingKey.parse(text)
    except ParameterError as error:
        raise VerificationError(f"a key cannot be used: {error}") from None
