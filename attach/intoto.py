"""An in-toto statement that binds the digest of a file to a ledger: to its scope, a range of entries, and a guarantee.

    envelope = attest(book, "patients", "model.safetensors", by="A. Smith", run="model-2026")
    statement = read(envelope, key)             1 to 3
    require_file(statement, "model.safetensors")  4
    require_record(statement, leaves, head)       5 and 6

The envelope is DSSE v1 in its one text (`ledger.signed.envelope`), of the type application/vnd.in-toto+json, signed by
the key of the ledger. Its payload is an in-toto Statement v1 in one text as well: sorted keys, no white space, UTF-8.

    {"_type":"https://in-toto.io/Statement/v1","predicate":{...},"predicateType":"urn:dpledger:predicate:guarantee:v1",
     "subject":[{"digest":{"sha256":"<64 hexadecimal digits>"},"name":"model.safetensors"}]}

The predicate, of the byte profile of entries (`ledger.signed.wire`; numbers of promises are text):

    by           whose word it is that the file was made by these entries; nothing here can see it
    charges      of the scope up to the head: all, elsewhere (attested), open, outside_guarantee
    checkpoint   the signed head of the ledger, as it was then
    entries      first and last: of the scope, from its opening to the head, or of the run
    guarantee    the budget of the scope, which all that it released keeps together
    keys         the entries that name keys, each as its envelope, where another signed than the first
    ledger       its id
    run          of one charge, if it is named: key, mechanism, claim, status, and attested_by
    scope        name, unit, max_contributions, relation, and dataset, its commitment
    spent        delta, and epsilon: at most, by the entries up to the head; absent of budgets without an epsilon

Verification, in this order; each step raises VerificationError:

    1  the envelope is in its one text, of that type, and signed by the key that the verifier trusts, or by the one to
       which `keys` lead from it
    2  the payload is a statement of that predicate in its one text
    3  the checkpoint is one of that ledger, signed by the same key or one to which it delegated
    4  with the file: its SHA-256 is that of the subject
    5  with the record (a ledger or a bundle, verified whole): it continues the checkpoint
    6  with the record: every member of the predicate but `by` is what the entries up to the head come to

>>> import pathlib, tempfile
>>> from dpledger.accounting.guarantees import PureDP
>>> book = Ledger.in_memory()
>>> scope = book.scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
>>> with tempfile.TemporaryDirectory() as folder:
...     model = pathlib.Path(folder, "model.bin")
...     _ = model.write_bytes(b"weights")
...     found = read(attest(book, "rows", model, by="A. Smith"), book.public_key)
...     require_file(found, model)
>>> found.name, found.guarantee, found.predicate["entries"]
('model.bin', PureDP(epsilon=Decimal('1'), kind='pure_dp'), {'first': 1, 'last': 1})
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter

from dpledger.accounting import filters
from dpledger.accounting.guarantees import Guarantee
from dpledger.decimals import parse, round_up, text
from dpledger.errors import InputError, ParameterError, PolicyError, ScopeError, VerificationError
from dpledger.files import digest_of, path_of
from dpledger.ledger.accounts import readings, recomposition
from dpledger.ledger.accounts.recomposition import Admission
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.evidence import words
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.authority import Authority
from dpledger.ledger.rules.scope_state import EMPTY, ScopeState, State
from dpledger.ledger.rules.transitions import step
from dpledger.ledger.signed import checkpoint, envelope, wire
from dpledger.ledger.signed.checkpoint import Checkpoint
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import verification
from dpledger.ledger.verifying.following import authority_of, key_entries
from dpledger.ledger.verifying.verification import Verified
from dpledger.progress import Advance
from dpledger.schema import Plain, plain, validated

__all__ = ["PREDICATE_TYPE", "FileStatement", "attest", "looks_like_one", "read", "require_file", "require_record"]

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:dpledger:predicate:guarantee:v1"
DIGITS = 6  # of an epsilon that was spent, rounded up
_GUARANTEE: TypeAdapter[Guarantee] = TypeAdapter(Guarantee)
_BEGINS = b'{"payload":"'
_MEMBERS = {"by", "charges", "checkpoint", "entries", "guarantee", "ledger", "scope"}
_OPTIONAL = {"keys", "run", "spent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatement:
    """What was signed of a file. `name`: what it was called; `sha256`: its digest, in hexadecimal digits; `guarantee`:
    the budget of the scope; `head`: the checkpoint in it, which `key` signed as well."""

    name: str
    sha256: str
    guarantee: Guarantee
    predicate: Mapping[str, Any]
    head: Checkpoint
    key: VerifyingKey


def attest(book: Ledger, scope: str, file: str | os.PathLike[str], *, by: str, run: str | None = None) -> bytes:
    """The signed envelope of a statement about `file`, of any size, as of the head of `book` now. Nothing is appended.

    `by`: whose word it is that the file is what the entries of the scope, or of the charge under the key `run`, made.
    Claim: all that the scope released keeps `guarantee` for one unit, if what was attested of its runs is true.
    Source: docs/proofs/filters.md.
    Raises ParameterError for a file that cannot be read and a key under which nothing is charged, ScopeError for a
    scope that is not there, PolicyError for a run that was given back or left its guarantee."""
    digest, name = digest_of(file, field="file"), wire.check_text(path_of(file, "file").name, "file")
    said, head = words(by, "by"), book.head
    signed, _ = checkpoint.parse_unverified(head)
    authority = book.refresh().keys
    if authority.revoked:
        raise PolicyError("the signing key of this ledger was revoked: it signs no statement")
    predicate = _predicate(tuple(book.entries(stop=signed.size)), head.decode(), signed.origin, scope, run)
    places = key_entries(authority, signed.size)
    named = [leaf.decode("ascii") for index, leaf in enumerate(book.leaves(stop=signed.size)) if index in places]
    predicate = {**predicate, "by": said, **({"keys": named} if named else {})}
    wire.dump(predicate)  # else nobody could read it
    return book.stated(_statement(name, digest, predicate))


def looks_like_one(beginning: bytes) -> bool:
    """Whether a file that begins so is an envelope, and no ledger."""
    return beginning.startswith(_BEGINS)


def read(data: bytes, key: VerifyingKey) -> FileStatement:
    """Steps 1 to 3."""

    leaf = data.removesuffix(b"\n")
    authority, signed = _authority(envelope.parse_unverified(leaf, envelope.STATEMENT_TYPE).payload, key)
    if authority.revoked:
        raise VerificationError("statement: signed after its key was revoked")
    payload = envelope.verify(leaf, lambda _: authority.own(signed), envelope.STATEMENT_TYPE)
    try:
        said = orjson.loads(payload)
        (subject,) = said["subject"]
        name, digest, predicate = subject["name"], subject["digest"]["sha256"], said["predicate"]
        wire.check_digest(digest, "digest"), wire.check_text(name, "name")
        wire.dump(predicate)
        guarantee = validated(_GUARANTEE, predicate["guarantee"], "guarantee")
        is_whole = _is_whole(predicate)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, InputError):
        raise VerificationError("statement: not an in-toto Statement v1 about one file, with its SHA-256") from None
    if payload != _statement(name, digest, predicate) or not is_whole:
        raise VerificationError(
            f"statement: of another form than {PREDICATE_TYPE} in its one text, perhaps newer than this verifier"
        )
    head = checkpoint.verify(predicate["checkpoint"].encode(), authority.of_head(signed))
    if predicate["ledger"] != head.origin:
        raise VerificationError("statement: its checkpoint is of another ledger")
    return FileStatement(name=name, sha256=digest, guarantee=guarantee, predicate=predicate, head=head, key=key)


def _authority(payload: bytes, key: VerifyingKey) -> tuple[Authority, int]:
    """Who signs, by what a payload says, unverified, of its keys and its checkpoint; and the size of that. Whoever
    trusts `key` trusts what follows from it alone."""
    try:
        predicate = orjson.loads(payload)["predicate"]
        leaves = [leaf.encode("ascii") for leaf in predicate.get("keys", [])]
        note = predicate["checkpoint"].encode()
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        raise VerificationError("statement: not an in-toto Statement v1 about one file, with its SHA-256") from None
    head, _ = checkpoint.parse_unverified(note)
    if head.origin != key.name:
        raise VerificationError("statement: of another ledger than the key")
    return authority_of(leaves, head, key)[0], head.size


def _is_whole(said: Mapping[str, Any]) -> bool:
    """Whether a predicate has its members, and they theirs; that they are true is step 6."""
    scope, spent = said["scope"], said.get("spent", {})
    texts = [said["by"], said["checkpoint"], said["ledger"], *spent.values()]
    texts += [scope["name"], scope["unit"], scope["relation"]]
    texts += said.get("keys", ())
    texts += [said["run"]["key"], said["run"]["mechanism"]] if "run" in said else []
    numbers = [scope["max_contributions"], *said["charges"].values(), *said["entries"].values()]
    return (
        _MEMBERS <= said.keys() <= _MEMBERS | _OPTIONAL
        and said["charges"].keys() == {"all", "elsewhere", "open", "outside_guarantee"}
        and said["entries"].keys() == {"first", "last"}
        and spent.keys() in (set(), {"delta", "epsilon"})
        and all(type(one) is str for one in texts)
        and all(type(one) is int for one in numbers)
    )


def require_file(statement: FileStatement, file: str | os.PathLike[str]) -> None:
    """Step 4. ParameterError for a file that cannot be read."""
    found = digest_of(file, field="file")
    if found != statement.sha256:
        raise VerificationError(
            f"the file is another one: its SHA-256 is {found}; the statement is of {statement.name!a}, with "
            f"{statement.sha256}"
        )


def require_record(
    statement: FileStatement, leaves: Iterable[bytes], head: bytes, *, advance: Advance | None = None
) -> Verified:
    """Steps 5 and 6, of a record that is verified whole for it (`verification.verify`, whose errors it raises too)."""
    record = verification.verify(leaves, head, statement.key, since=[statement.head], advance=advance)
    size, last = statement.head.size, record.state.last_trusted
    if last is not None and size - 1 > last:
        raise VerificationError(f"the key was revoked: who stole it may have signed this, after entry {last}")
    said = dict(statement.predicate)
    said.pop("by")
    said.pop("keys", None)
    try:
        asked = said["run"]["key"] if "run" in said else None
        found = _predicate(record.entries[:size], said["checkpoint"], said["ledger"], said["scope"]["name"], asked)
        _require_covered(said.pop("spent", None), found.pop("spent", None))
    except (InputError, KeyError, TypeError) as error:
        raise VerificationError(f"the statement says what the record does not hold: {error}") from None
    other = sorted(member for member in said.keys() | found.keys() if said.get(member) != found.get(member))
    if other:
        raise VerificationError(
            f"the statement says another {' and another '.join(other)} than the entries up to {size - 1} come to"
        )
    return record


def _require_covered(said: Any, found: Any) -> None:
    """What was spent is said at its delta, and not below what the entries come to: prices may differ in their last
    digit between builds (docs/adr/0020), and more is no less true."""
    if (said is None) != (found is None) or (found and said.keys() != found.keys()):
        raise ParameterError("spent", "another form", "that of the budget")
    if found and (said["delta"] != found["delta"] or _number(said) < _number(found)):
        raise ParameterError("spent", said["epsilon"], f"epsilon {found['epsilon']} at delta {found['delta']}")


def _number(spent: Mapping[str, str]) -> Any:
    return parse(spent["epsilon"], field="spent", infinite=True)


def _statement(name: str, digest: str, predicate: Mapping[str, Plain]) -> bytes:
    """The one text of a statement."""
    said = {
        "_type": STATEMENT,
        "predicate": predicate,
        "predicateType": PREDICATE_TYPE,
        "subject": [{"digest": {"sha256": digest}, "name": name}],
    }
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)


def _predicate(entries: Sequence[Entry], head: str, ledger: str, name: str, run: str | None) -> dict[str, Any]:
    """All but `by`, from the entries up to the head."""
    state = _folded(entries)
    if name not in state.scopes:
        there = f"there is: {', '.join(state.scopes)}" if state.scopes else "none is open yet"
        raise ScopeError(f"no scope {name!r} in the first {len(entries)} entries: {there}")
    scope = state.scopes[name]
    charges = recomposition.admissions(entries, state, name)
    own = None if run is None else _of_run(charges, name, run)
    last = len(entries) - 1
    range_ = (scope.opened, last) if own is None else (own.index, last if own.ended is None else own.ended)
    return {
        "charges": {
            "all": len(charges),
            "elsewhere": sum(one.attested is not None for one in charges),
            "open": sum(one.ended is None for one in charges),
            "outside_guarantee": sum(one.outside_guarantee for one in charges),
        },
        "checkpoint": head,
        "entries": {"first": range_[0], "last": range_[1]},
        "guarantee": plain(filters.budget_guarantee(scope.filter)),
        "ledger": ledger,
        "scope": _of_scope(scope),
        **_spent(scope),
        **({} if own is None else {"run": _said_of(own)}),
    }


def _folded(entries: Sequence[Entry]) -> State:
    state = EMPTY
    for entry in entries:
        state = step(state, entry.body)
    return state


def _of_run(charges: Sequence[Admission], name: str, run: str) -> Admission:
    found = [one for one in charges if one.key == run and one.scope == name]
    if not found:
        keys = [one.key for one in charges if one.scope == name]
        raise ParameterError("run", run, f"the key of a charge of scope {name!r}, like {', '.join(keys[:5]) or 'none'}")
    (own,) = found
    if own.status == "aborted" or own.outside_guarantee:
        why = "was given back: nothing ran" if own.status == "aborted" else "left its guarantee"
        raise PolicyError(f"the run {run!r} {why} (entry {own.ended}): nothing is attested of it")
    return own


def _of_scope(scope: ScopeState) -> dict[str, Any]:
    named = {
        "name": scope.scope,
        "unit": scope.unit.name,
        "max_contributions": scope.unit.max_contributions,
        "relation": scope.relation.value,
    }
    return named if scope.dataset is None else {**named, "dataset": scope.dataset}


def _spent(scope: ScopeState) -> dict[str, Any]:
    budget = filters.budget_guarantee(scope.filter)
    if not budget.is_point:
        return {}
    delta = readings.own_delta(scope)
    epsilon = round_up(readings.spent(scope, delta).upper, digits=DIGITS)
    return {"spent": {"epsilon": text(epsilon), "delta": text(delta)}}


def _said_of(run: Admission) -> dict[str, Any]:
    said = {"key": run.key, "mechanism": run.mechanism.kind, "claim": plain(run.claim), "status": run.status}
    return said if run.attested is None else {**said, "attested_by": run.attested.by}
