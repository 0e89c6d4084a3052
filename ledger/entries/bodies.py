"""What can happen in a ledger: the closed union of bodies, one class a kind, told apart by `kind` and `version`.

Bodies are made by the gate, the scope, an audit or a report; `entry` gives each its place, `members` says what they are
made of. The bytes of every kind are laid out, with an example, in `ledger/SPEC.md`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from dpledger.accounting.composition import Composition
from dpledger.accounting.ex_post.odometer import Odometer
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import Failure, Guarantee
from dpledger.decimals import ZERO
from dpledger.ledger.entries.members import (
    Accounts,
    Attestation,
    Continues,
    Fixed,
    Flag,
    Hash,
    Id,
    Index,
    Item,
    Levels,
    MechanismNote,
    Path,
    Power,
    Priced,
    RefutedPoint,
    Step,
    Text,
    Token,
    UnitNote,
    Words,
)
from dpledger.number_fields import Exact, OpenProbability, OptionalPositive
from dpledger.relations import Relation
from dpledger.schema import given, record, tag

FORMAT: Literal["dpledger.ledger.v1"] = "dpledger.ledger.v1"


@record
class LedgerOpened:
    """Index 0, and only there: the format, the signing key, the recovery key, the witness policy.

    `witness`: `off`, or when a witness must have seen a head; then `witness_policy` says which witnesses count, as a
    C2SP tlog-policy. `owner_key`: what opens or ends a scope carries the signature of this key too."""

    format: Literal["dpledger.ledger.v1"]
    public_key: Text
    recovery_key: Text
    witness: Literal["off", "after", "before"]
    witness_policy: Text | None = given(default=None)
    continues: Continues | None = given(default=None)
    owner_key: Text | None = given(default=None)
    kind: Literal["ledger_opened"] = tag(default="ledger_opened")
    version: Literal[1] = given(default=1)


@record
class ScopeOpened:
    """One dataset, one unit of privacy, one relation, one budget; the filter with every constant, and those of an
    odometer that reads beside it. `instead`: the filter that the first charge may fix in place of `filter`. `approval`:
    the owner's signature, in base64, in a ledger that names one."""

    path: Path
    unit: UnitNote
    relation: Relation
    budget: Guarantee
    filter: Filter
    keep: Literal["value", "digest", "none"]
    parents: tuple[Id, ...] = given(default=())
    dataset: Text | None = given(default=None)
    odometer: Odometer | None = given(default=None)
    instead: Filter | None = given(default=None)
    approval: Text | None = given(default=None)
    kind: Literal["scope_opened"] = tag(default="scope_opened")
    version: Literal[1] = given(default=1)


@record
class PlanRegistered:
    """A plan of several separate requests, fixed before the first of them: the digest of each, in order."""

    path: Path
    plan: Token
    requests: Annotated[tuple[Hash, ...], Field(min_length=1)]
    kind: Literal["plan_registered"] = tag(default="plan_registered")
    version: Literal[1] = given(default=1)


@record
class Reserved:
    """A charge at its cap, in each level of the path. With `redeem`, it is started at once. With `attested`, what it is
    for runs elsewhere. `fixed`: levels whose first charge this is, and which have another filter from here on.

    `form`: `release` (answers once), `interaction` (a stream of queries), `training` (`steps`, granted in blocks)."""

    path: Path
    key: Id
    charge: Token
    request: Hash
    mechanism: MechanismNote
    claim: Guarantee
    parts: Composition
    levels: Levels
    form: Literal["release", "interaction", "training"]
    failures: tuple[Failure, ...] = given(default=())
    steps: Index | None = given(default=None)
    redeem: Hash | None = given(default=None)
    plan: Token | None = given(default=None)
    priced: Priced | None = given(default=None)
    attested: Attestation | None = given(default=None)
    fixed: tuple[Fixed, ...] = given(default=())
    kind: Literal["reserved"] = tag(default="reserved")
    version: Literal[1] = given(default=1)

    @property
    def tail_delta(self) -> Decimal:
        """The delta of a price from the profile; 0: priced from the parts."""
        return ZERO if self.priced is None else self.priced.tail_delta

    @property
    def may_be_over(self) -> bool:
        """Whether it is for a run elsewhere that may have begun before: one that was not held before it was started."""
        return self.attested is not None and self.redeem is not None


@record
class Started:
    """The process that holds the redeem (here as its SHA-256) will read the data; nothing is refunded from here on but
    what the settling rule says. Carries no time."""

    path: Path
    charge: Token
    redeem: Hash
    kind: Literal["started"] = tag(default="started")
    version: Literal[1] = given(default=1)


@record
class Progress:
    """Steps up to `upto` are granted to a training run, before any of them runs. With `replaces`, a new redeem takes
    over from that one (a resumed run), and may be granted none yet. Carries no time."""

    path: Path
    charge: Token
    redeem: Hash
    upto: Index
    replaces: Hash | None = given(default=None)
    kind: Literal["progress"] = tag(default="progress")
    version: Literal[1] = given(default=1)


@record
class Committed:
    """The end of a charge: the parts with their outcome, what each level is charged in the end, by which rule.

    `rule`: `cap` (nothing comes back), `ex_post` (a coordinate settles to the realised loss), `steps` (a plan priced by
    sum: steps never granted come back). `digest`: SHA-256 of salt and value, where the scope keeps digests; the caller
    holds the salt. Carries no time."""

    path: Path
    charge: Token
    redeem: Hash
    parts: Composition
    levels: Levels
    rule: Literal["cap", "ex_post", "steps"]
    warnings: tuple[Text, ...] = given(default=())
    outside_guarantee: Flag = given(default=False)
    digest: Hash | None = given(default=None)
    kind: Literal["committed"] = tag(default="committed")
    version: Literal[1] = given(default=1)


@record
class Aborted:
    """A charge that was reserved and never started: all of it comes back."""

    path: Path
    charge: Token
    kind: Literal["aborted"] = tag(default="aborted")
    version: Literal[1] = given(default=1)


@record
class Lost:
    """A note that an open charge will not be settled; it changes no number."""

    path: Path
    charge: Token
    note: Words
    kind: Literal["lost"] = tag(default="lost")
    version: Literal[1] = given(default=1)


@record
class Refused:
    """A request that `level` did not admit, in public numbers by account of its filter: asked, spent, left, and of what
    is spent the part `held` by charges not settled; `inf` where a charge has no price. The key stays free."""

    path: Path
    key: Id
    request: Hash
    mechanism: MechanismNote
    claim: Guarantee
    level: Id
    asked: Accounts
    spent: Accounts
    left: Accounts
    held: Accounts
    attested: Attestation | None = given(default=None)
    kind: Literal["refused"] = tag(default="refused")
    version: Literal[1] = given(default=1)


@record
class PolicyChanged:
    """A change of policy and why: a new epoch of a scope (a claim about its unit of privacy), a lower budget, the
    witness policy of the ledger."""

    reason: Words
    path: tuple[Step, ...] = given(default=())
    epoch: Index | None = given(default=None)
    budget: Guarantee | None = given(default=None)
    filter: Filter | None = given(default=None)
    witness: Literal["off", "after", "before"] | None = given(default=None)
    witness_policy: Text | None = given(default=None)
    kind: Literal["policy_changed"] = tag(default="policy_changed")
    version: Literal[1] = given(default=1)


@record
class Declared:
    """A statement that nothing here can measure: `item` is what it is about (`declarations` lists them), `by` whose
    word it is. `envelope` holds the person's own DSSE envelope where they signed it themselves."""

    item: Item
    text: Words
    by: Words
    path: tuple[Step, ...] = given(default=())
    envelope: Text | None = given(default=None)
    kind: Literal["declared"] = tag(default="declared")
    version: Literal[1] = given(default=1)


@record
class Intended:
    """An audit that is about to be made, said before its first run: of what, and with which numbers. The `audited`
    entry that names this one ends it; `trials`: at most so many runs a side. Of an ex-post claim `claim` is absent.
    `code`, `pair`: as in `Audited`."""

    mechanism: MechanismNote
    relation: Relation
    trials: Index
    confidence: OpenProbability
    claim: Guarantee | None = given(default=None)
    seed: Index | None = given(default=None)
    schedule: Id | None = given(default=None)
    code: Hash | None = given(default=None)
    pair: Hash | None = given(default=None)
    path: tuple[Step, ...] = given(default=())
    kind: Literal["intended"] = tag(default="intended")
    version: Literal[1] = given(default=1)


@record
class Audited:
    """The result of an empirical audit. `epsilon_lower` holds at `delta` with `confidence`, whatever the mechanism is.

    `verdict`: violation or not_refuted; nothing is ever proved private. `refuted`: the point that fell;
    `together`: the strata of an ex-post claim fell together, and no single one did. `e_value`: that of the whole
    test, rounded down. `blind`: why it saw nothing; then it bounds nothing. `apart`: why the two datasets are no
    neighbours, if they are rows. `intended`: the index of the entry that said it would be made. `code`: SHA-256 of the
    source file of what was audited; `pair`: of both datasets, where these were made up. `schedule`: the order of the
    runs of both sides; `arms`: how many bets were held. What these must have to do with each other is said in
    `ledger.rules.notes`."""

    mechanism: MechanismNote
    claim: Guarantee
    relation: Relation
    verdict: Literal["violation", "not_refuted"]
    epsilon_lower: Exact
    delta: Exact
    confidence: OpenProbability
    trials_left: Index
    trials_right: Index
    event: Words
    method: Id
    refuted: RefutedPoint | None = given(default=None)
    power: Power | None = given(default=None)
    seed: Index | None = given(default=None)
    path: tuple[Step, ...] = given(default=())
    charge: Token | None = given(default=None)
    e_value: OptionalPositive = given(default=None)
    together: Literal[True] | None = given(default=None)
    blind: Words | None = given(default=None)
    apart: Words | None = given(default=None)
    intended: Index | None = given(default=None)
    code: Hash | None = given(default=None)
    pair: Hash | None = given(default=None)
    schedule: Id | None = given(default=None)
    arms: Index | None = given(default=None)
    kind: Literal["audited"] = tag(default="audited")
    version: Literal[1] = given(default=1)


@record
class Reported:
    """A report was made from the entries before this one: the SHA-256 of its JSON form, and its schema's version."""

    digest: Hash
    schema: Id
    kind: Literal["reported"] = tag(default="reported")
    version: Literal[1] = given(default=1)


@record
class KeyRotated:
    """From the next index on, the ledger's key is `public_key`. Signed by the one before."""

    public_key: Text
    kind: Literal["key_rotated"] = tag(default="key_rotated")
    version: Literal[1] = given(default=1)


@record
class KeyDelegated:
    """From the next index on, up to entry `last`, `public_key` signs for the ledger's key, which signs this; without
    both, the ledger's key signs by itself again."""

    public_key: Text | None = given(default=None)
    last: Index | None = given(default=None)
    kind: Literal["key_delegated"] = tag(default="key_delegated")
    version: Literal[1] = given(default=1)


@record
class OwnerRotated:
    """From the next index on, `owner_key` approves. `approval`: by the owner before, or the recovery key."""

    owner_key: Text
    approval: Text | None = given(default=None)
    kind: Literal["owner_rotated"] = tag(default="owner_rotated")
    version: Literal[1] = given(default=1)


@record
class KeyRevoked:
    """The signing key was stolen; entries up to `last_trusted` stand. Signed by the recovery key; ends the ledger."""

    last_trusted: Index
    reason: Words
    kind: Literal["key_revoked"] = tag(default="key_revoked")
    version: Literal[1] = given(default=1)


@record
class RollbackAccepted:
    """The ledger goes on from an older state, or another copy, than one that was seen: that had `size` entries, the
    last with the leaf hash `leaf`. What the missing entries charged is not known, so every scope ends here."""

    size: Index
    leaf: Hash
    by: Words
    reason: Words
    kind: Literal["rollback_accepted"] = tag(default="rollback_accepted")
    version: Literal[1] = given(default=1)


@record
class Snapshot:
    """The SHA-256 of the state folded from all entries before this one."""

    state: Hash
    kind: Literal["snapshot"] = tag(default="snapshot")
    version: Literal[1] = given(default=1)


@record
class Heartbeat:
    """Nothing happened, and the ledger is alive."""

    kind: Literal["heartbeat"] = tag(default="heartbeat")
    version: Literal[1] = given(default=1)


@record
class Closed:
    """The last entry of a ledger: nothing may follow. With a path, the end of those scopes: nothing new may begin in
    them; charges that are open there may still end. `approval`: as in `ScopeOpened`."""

    reason: Words
    path: tuple[Step, ...] = given(default=())
    approval: Text | None = given(default=None)
    kind: Literal["closed"] = tag(default="closed")
    version: Literal[1] = given(default=1)


Body: TypeAlias = (
    LedgerOpened
    | ScopeOpened
    | PlanRegistered
    | Reserved
    | Started
    | Progress
    | Committed
    | Aborted
    | Lost
    | Refused
    | PolicyChanged
    | Declared
    | Intended
    | Audited
    | Reported
    | KeyRotated
    | KeyDelegated
    | OwnerRotated
    | KeyRevoked
    | RollbackAccepted
    | Snapshot
    | Heartbeat
    | Closed
)

KINDS = frozenset(kind.__dataclass_fields__["kind"].default for kind in get_args(Body))

if not TYPE_CHECKING:
    Body = Annotated[Body, Field(discriminator="kind")]

Note: TypeAlias = Declared | Intended | Audited | Reported | Heartbeat
"""Bodies that charge nothing and change no rule: anyone who may write can add one."""

TIMELESS = (Started, Progress, Committed)
"""Kinds that carry no time: it would publish how long a mechanism ran on the data."""
