"""Entries: a body at its place in the ledger, and its one form on the wire.

An entry stamps a body with its ledger, its index, the leaf hash of the entry before and, for people, a time; entries
are made by the ledger alone. On the wire an entry is one flat JSON object in the byte profile of `signed.wire`: the
members of the stamp and of the body side by side; empty lists are left out.

>>> from dpledger.ledger.entries.bodies import Heartbeat
>>> ledger_id, time = "clinic-" + "0" * 32, "2026-11-21T10:00:00Z"
>>> entry = Entry(ledger=ledger_id, index=1, previous="0" * 64, body=Heartbeat(), time=time)
>>> parse_entry(format_entry(entry)) == entry
True
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson
from pydantic import TypeAdapter

from dpledger.errors import NewerThanVerifier, ParameterError, UnknownWord, VerificationError
from dpledger.ledger.entries.bodies import KINDS, TIMELESS, Body, KeyRevoked
from dpledger.ledger.entries.members import Hash, Index, LedgerId, Time
from dpledger.ledger.signed import envelope, wire
from dpledger.schema import Plain, given, plain, record, validated

__all__ = ["FIRST_PREVIOUS", "Entry", "entry_of", "format_entry", "last_trusted_of", "parse_entry"]

_STAMP = ("ledger", "index", "previous", "time")
_PLAIN = (str, int, bool)  # what `plain` returns as it is
_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")
VERSION = 1  # of every body
FIRST_PREVIOUS = "0" * 64
"""What the first entry names as the one before it."""


_Place: TypeAlias = tuple[str, str, bytes]  # of a member: the kind of the entry, its name, its text


@record
class Entry:
    """A body at its place: `previous` is the leaf hash of the entry before (64 zeros at index 0)."""

    ledger: LedgerId
    index: Index
    previous: Hash
    body: Body
    time: Time | None = given(default=None)

    def __repr__(self) -> str:
        """Which one it is; `plain(entry)` and `dpledger show` say all of it."""
        return f"<Entry {self.index} in {self.ledger}: {self.body.kind}>"


_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


def format_entry(entry: Entry) -> dict[str, Plain]:
    """The entry as one flat object of the byte profile (what `wire.dump` writes)."""
    payload: dict[str, Plain] = dict(plain(entry.body))
    for name in _STAMP:
        value = getattr(entry, name)
        if value is not None:
            payload[name] = value
    return {name: value for name, value in payload.items() if value != []}


def parse_entry(payload: Mapping[str, Plain]) -> Entry:
    """The entry that an object of the byte profile (what `wire.parse` returned) says. Raises VerificationError naming
    the field.

    A kind, a version or a word that is not known stops here, as NewerThanVerifier: it is never skipped, and what stands
    beside it cannot be judged."""
    members = dict(payload)
    stamp = {name: members.pop(name) for name in _STAMP if name in members}
    index = stamp.get("index")
    at = index if type(index) is int else None
    kind, version = members.get("kind"), members.get("version")
    if type(kind) is not str or not _WORD.fullmatch(kind):
        raise VerificationError("kind: expected a word, like heartbeat", index=at)
    if type(version) is not int or version < 1:
        raise VerificationError("version: expected a whole number from 1", index=at)
    if kind not in KINDS or version > VERSION:
        raise NewerThanVerifier(f"an entry of the kind {kind}, version {version}", index=at)
    known, fresh = _read_before(kind, members)
    try:
        entry = validated(_ENTRY, {**stamp, "body": {**members, **known}}, "entry")
    except UnknownWord as error:
        raise NewerThanVerifier(f"{error.field} is {error.value}", index=at) from None
    except ParameterError as error:
        raise VerificationError(str(error), index=at) from None
    if (entry.time is None) is not isinstance(entry.body, TIMELESS):
        raise VerificationError("time: present exactly in the kinds that carry one", index=at)
    if not (
        _is_written_so(entry.body, members, known) and all(stamp.get(name) == getattr(entry, name) for name in _STAMP)
    ):
        raise VerificationError("entry: not in its one form", index=at)
    _keep(entry.body, fresh)
    return entry


def _is_written_so(body: Body, members: Mapping[str, Plain], known: Mapping[str, object]) -> bool:
    """Whether `members` are what `format_entry` writes of `body`. Of the `known` ones that was seen before."""
    kind: type = type(body)
    for name in _fields_of(kind):
        if name in known:
            continue
        value, member = getattr(body, name), members.get(name)
        if type(value) in _PLAIN:
            if value != member or type(value) is not type(member):
                return False
        elif value is None or (written := plain(value)) == []:
            if name in members:
                return False
        elif not _is_same(written, member):
            return False
    return True


@functools.cache
def _fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


_MOST_READ = 512
_LONGEST_READ = 4096  # bytes
_READ: dict[_Place, object] = {}
"""Objects and lists in entries, as they were read before: the mechanism, the claim, the parts and the amounts are the
same in many entries. By their text, so that nothing else is taken for the same. Both bounds keep small what a record of
somebody else can fill; where it is full it begins anew, without a lock that a fork could leave behind."""


def _read_before(kind: str, members: Mapping[str, Plain]) -> tuple[dict[str, Any], dict[str, _Place]]:
    """Of `members` the values that were read before, and where to keep the others."""
    known, fresh = {}, {}
    for name, member in members.items():
        if name == "path" or not isinstance(member, (dict, list)):  # a path counts on, and is never the same again
            continue
        text = orjson.dumps(member)
        place = kind, name, text
        found = _READ.get(place)
        if found is not None:
            known[name] = found
        elif len(text) <= _LONGEST_READ:
            fresh[name] = place
    return known, fresh


def _keep(body: Body, fresh: Mapping[str, _Place]) -> None:
    """Keep what was read, and is written as it stood."""
    if len(_READ) + len(fresh) > _MOST_READ:
        _READ.clear()
    for name, place in fresh.items():
        _READ[place] = getattr(body, name)


def _is_same(left: Plain, right: Plain | None) -> bool:
    """Whether two values have the same text: for Python, True is 1; on the wire it is not."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(item, right[name]) for name, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return left == right


def entry_of(leaf: bytes) -> Entry:
    """The entry in a leaf, its signature NOT verified. Raises VerificationError."""
    return parse_entry(wire.parse(envelope.parse_unverified(leaf).payload))


def last_trusted_of(leaf: bytes) -> int | None:
    """The last entry that stands where `leaf`, the last of a record and not verified here, revokes the key; else
    None."""
    try:
        body = entry_of(leaf).body
    except VerificationError:
        return None
    return body.last_trusted if isinstance(body, KeyRevoked) else None
